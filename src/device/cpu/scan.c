/* Scans. Where memory runs along the axis, each row is scanned by itself; else a strip of columns side by side, row
 * after row. To go from the end to the front is to begin at the last element and to step backwards; an exclusive scan
 * writes what it starts from, and then, one place further on, what an inclusive one of all but the last element
 * writes. Sums and products are f64 for floats, which are rounded once for each element. */
#include "device/cpu/sizes.h"
#include "device/cpu/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 16384,    /* elements worth a thread */
    STRIP = 512,      /* columns scanned at once, at most, */
    STRIP_LEAST = 64, /* and at least, when there are as many: memory is read in long runs */
    COLUMNS_LEAST = 8 /* fewer side by side are taken as rows */
};

typedef struct scan_job {
    const char *x;
    char *out;
    int64_t *indices;    /* of the largest, or the smallest; NULL: nobody wants them */
    hd_operand from, to; /* x and the result on the axes that are kept; data is not used */
    hd_space kept;
    int64_t size;            /* of the axis */
    int64_t from_step, step; /* from an element to the next one met */
    int64_t first;           /* the index of the first one met */
    bool exclusive, reverse;
    hd_compute type;         /* in which elements reach the kernels */
    hd_scan_kernels kernels; /* of sums and products */
    hd_scan_extreme_kernels extremes;
    double identity;
    int64_t strip; /* columns that are scanned together */
} scan_job;

/* What a row or a strip has to do: where its first elements are. */
typedef struct stretch {
    const char *x;
    char *out;
    int64_t *indices;
} stretch;

static stretch stretch_at(const scan_job *j, const int64_t *coordinate) {
    const int64_t from = hd_operand_offset(&j->from, &j->kept, coordinate),
                  to = hd_operand_offset(&j->to, &j->kept, coordinate);
    return (stretch){j->x + from * (int64_t)hd_dtype_bytes[j->from.dtype],
                     j->out + to * (int64_t)hd_dtype_bytes[j->to.dtype], j->indices == NULL ? NULL : j->indices + to};
}

static char *moved(const hd_operand *o, char *at, int64_t elements) {
    return at + elements * (int64_t)hd_dtype_bytes[o->dtype];
}
static const char *next_of_x(const scan_job *j, const char *x, int64_t elements) {
    return x + elements * (int64_t)hd_dtype_bytes[j->from.dtype];
}

/* True when kernels may read x and write the result where they are. */
static bool is_direct(const scan_job *j) {
    const hd_dtype own = (hd_dtype)hd_compute_dtype[j->type];
    return j->from.dtype == own && j->to.dtype == own;
}

/* `width` results side by side that are what a scan starts from. */
static void write_identity(const scan_job *j, char *out, int64_t width) {
    char element[8];
    const size_t bytes = hd_dtype_bytes[j->to.dtype];
    hd_element_from_f64(element, j->to.dtype, j->identity);
    for (int64_t i = 0; i < width; ++i) memcpy(out + (size_t)i * bytes, element, bytes);
}

/* How many elements a stretch combines; what an exclusive scan has before the first one is written. */
static int64_t begin_stretch(const scan_job *j, stretch *s, int64_t width) {
    if (!j->exclusive) return j->size;
    write_identity(j, s->out, width);
    if (j->size > 1) s->out = moved(&j->to, s->out, j->step);
    return j->size - 1;
}

/* An accumulator of 8 bytes: f64 for floats, else an integer. */
static uint64_t first_before(const scan_job *j) {
    uint64_t before;
    hd_element_from_f64(&before, hd_compute_is_float(j->type) ? HD_F64 : HD_U64, j->identity);
    return before;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static void scan_row(const scan_job *j, stretch s) {
    uint64_t before = first_before(j);
    const int64_t n = begin_stretch(j, &s, 1);
    if (is_direct(j) && j->from_step == j->step && llabs(j->step) == 1) {
        const int64_t back = j->step < 0 && n > 0 ? n - 1 : 0;
        j->kernels.row(&before, moved(&j->to, s.out, -back), next_of_x(j, s.x, -back), n, j->step < 0);
        return;
    }
    hd_tile_workspace workspace;
    _Alignas(64) char results[HD_TILE * 8];
    for (int64_t i = 0; i < n; i += HD_TILE) {
        const int64_t some = hd_least(n - i, HD_TILE);
        const void *in =
            hd_tile_load(next_of_x(j, s.x, i * j->from_step), j->from_step, some, j->from.dtype, j->type, &workspace);
        j->kernels.row(&before, results, in, some, false);
        hd_tile_store(moved(&j->to, s.out, i * j->step), j->step, some, j->to.dtype, j->type, results, &workspace);
    }
}

static void scan_extreme_row(const scan_job *j, stretch s) {
    hd_tile_workspace workspace;
    _Alignas(64) char results[HD_TILE * 8], best[8];
    _Alignas(64) int64_t places[HD_TILE], where = j->first;
    const int64_t step = j->reverse ? -1 : 1;
    for (int64_t i = 0; i < j->size; i += HD_TILE) {
        const int64_t some = hd_least(j->size - i, HD_TILE);
        const void *in =
            hd_tile_load(next_of_x(j, s.x, i * j->from_step), j->from_step, some, j->from.dtype, j->type, &workspace);
        if (i == 0) memcpy(best, in, hd_dtype_bytes[hd_compute_dtype[j->type]]);
        j->extremes.row(best, &where, results, places, in, some, j->first + i * step, step);
        hd_tile_store(moved(&j->to, s.out, i * j->step), j->step, some, j->to.dtype, j->type, results, &workspace);
        if (s.indices != NULL)
            hd_tile_store((char *)(s.indices + i * j->step), j->step, some, HD_I64, HD_COMPUTE_I64, places, &workspace);
    }
}

/* log(sum) + level for n elements that come after those in `level` and `sum`, where all terms are e^(x - level): level
 * is the largest so far, 0 when that is infinite. */
static void scan_log_tile(double *largest, double *sum, double *x, int64_t n) {
    double level[HD_TILE], shrink[HD_TILE], term[HD_TILE];
    const hd_elementwise_kernel *f64 = hd_kernels()->elementwise[HD_COMPUTE_F64];
    for (int64_t i = 0; i < n; ++i) {
        const double before = isinf(*largest) ? 0 : *largest;
        if (x[i] > *largest) *largest = x[i];
        level[i] = isinf(*largest) ? 0 : *largest;
        shrink[i] = before - level[i];
        term[i] = x[i] - level[i];
    }
    f64[HD_OP_exp](shrink, (const void *const[3]){shrink}, NULL, n);
    f64[HD_OP_exp](term, (const void *const[3]){term}, NULL, n);
    for (int64_t i = 0; i < n; ++i) x[i] = *sum = *sum == 0 ? term[i] : *sum * shrink[i] + term[i];
    f64[HD_OP_log](x, (const void *const[3]){x}, NULL, n);
    for (int64_t i = 0; i < n; ++i) x[i] += level[i];
}

static void scan_log_row(const scan_job *j, stretch s) {
    hd_tile_workspace workspace;
    double results[HD_TILE], largest = -INFINITY, sum = 0;
    const int64_t n = begin_stretch(j, &s, 1);
    for (int64_t i = 0; i < n; i += HD_TILE) {
        const int64_t some = hd_least(n - i, HD_TILE);
        const void *in = hd_tile_load(next_of_x(j, s.x, i * j->from_step), j->from_step, some, j->from.dtype,
                                      HD_COMPUTE_F64, &workspace);
        memcpy(results, in, (size_t)some * sizeof *results);
        scan_log_tile(&largest, &sum, results, some);
        hd_tile_store(moved(&j->to, s.out, i * j->step), j->step, some, j->to.dtype, HD_COMPUTE_F64, results,
                      &workspace);
    }
}

static void run_rows(void *context, int64_t first, int64_t after) {
    const scan_job *j = context;
    for (int64_t row = first; row < after; ++row) {
        int64_t coordinate[HD_MAX_RANK];
        hd_space_locate(&j->kept, row, coordinate);
        const stretch s = stretch_at(j, coordinate);
        if (j->extremes.row != NULL)
            scan_extreme_row(j, s);
        else if (j->kernels.row != NULL)
            scan_row(j, s);
        else
            scan_log_row(j, s);
    }
}

/* ---- columns side by side ---------------------------------------------------------------------------------------- */
static void scan_columns(const scan_job *j, stretch s, int64_t width, int64_t across) {
    uint64_t before[STRIP];
    hd_tile_workspace workspace;
    _Alignas(64) char results[HD_TILE * 8];
    const int64_t n = begin_stretch(j, &s, width);
    for (int64_t i = 0; i < width; ++i) before[i] = first_before(j);
    if (is_direct(j) && across == 1) {
        j->kernels.columns(before, s.out, j->step, s.x, j->from_step, width, n);
        return;
    }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t w = 0; w < width; w += HD_TILE) {
            const int64_t some = hd_least(width - w, HD_TILE);
            const void *in = hd_tile_load(next_of_x(j, s.x, i * j->from_step + w * across), across, some, j->from.dtype,
                                          j->type, &workspace);
            j->kernels.columns(before + w, results, 0, in, 0, some, 1);
            hd_tile_store(moved(&j->to, s.out, i * j->step + w), 1, some, j->to.dtype, j->type, results, &workspace);
        }
}

static void scan_extreme_columns(const scan_job *j, stretch s, int64_t width, int64_t across) {
    _Alignas(64) char best[STRIP * 8];
    _Alignas(64) int64_t where[STRIP];
    hd_tile_workspace workspace;
    const size_t bytes = hd_dtype_bytes[hd_compute_dtype[j->type]];
    for (int64_t i = 0; i < width; ++i) where[i] = j->first;
    for (int64_t i = 0; i < j->size; ++i)
        for (int64_t w = 0; w < width; w += HD_TILE) {
            const int64_t some = hd_least(width - w, HD_TILE), to = i * j->step + w;
            const void *in = hd_tile_load(next_of_x(j, s.x, i * j->from_step + w * across), across, some, j->from.dtype,
                                          j->type, &workspace);
            char *largest = best + (size_t)w * bytes;
            if (i == 0) memcpy(largest, in, (size_t)some * bytes);
            j->extremes.columns(largest, where + w, in, some, j->reverse ? j->first - i : i);
            hd_tile_store(moved(&j->to, s.out, to), 1, some, j->to.dtype, j->type, largest, &workspace);
            if (s.indices != NULL) memcpy(s.indices + to, where + w, (size_t)some * sizeof *where);
        }
}

static void run_strip(void *context, int64_t number) {
    const scan_job *j = context;
    const int last = j->kept.rank - 1;
    const int64_t columns = j->kept.size[last], strips = hd_pieces(columns, j->strip),
                  begin = number % strips * j->strip, width = hd_least(columns - begin, j->strip);
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(&j->kept, number / strips * columns + begin, coordinate);
    const stretch s = stretch_at(j, coordinate);
    if (j->extremes.columns != NULL)
        scan_extreme_columns(j, s, width, j->from.stride[last]);
    else
        scan_columns(j, s, width, j->from.stride[last]);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
/* The axes that are kept, and how the one that is scanned is walked. */
static void read_axes(scan_job *j, const hd_tensor *x, const hd_scan_attributes *a) {
    const hd_shape *shape = &x->layout.shape;
    hd_shape kept = {.rank = 0};
    int64_t stride = 1; /* of the result, which is contiguous */
    j->size = 1;
    j->from_step = j->step = 1;
    for (int i = shape->rank - 1; i >= 0; stride *= shape->size[i--])
        if (i == a->axis) {
            j->size = shape->size[i];
            j->from_step = x->layout.stride[i];
            j->step = stride;
        }
    stride = 1;
    for (int i = 0; i < shape->rank; ++i)
        if (i != a->axis) kept.size[kept.rank++] = shape->size[i];
    for (int i = shape->rank - 1, k = kept.rank; i >= 0; stride *= shape->size[i--])
        if (i != a->axis) {
            j->from.stride[--k] = x->layout.stride[i];
            j->to.stride[k] = stride;
        }
    hd_operand operands[2] = {j->from, j->to};
    hd_space_collapse(&j->kept, &kept, operands, 2);
    j->from = operands[0];
    j->to = operands[1];
    if (!a->reverse) return;
    j->first = j->size - 1;
    j->x += j->first * j->from_step * (int64_t)hd_dtype_bytes[j->from.dtype];
    j->out += j->first * j->step * (int64_t)hd_dtype_bytes[j->to.dtype];
    if (j->indices != NULL) j->indices += j->first * j->step;
    j->from_step = -j->from_step;
    j->step = -j->step;
}

static void run_scan(scan_job *j) {
    const int last = j->kept.rank - 1;
    const int64_t columns = j->kept.size[last];
    const bool has_columns = j->kernels.columns != NULL || j->extremes.columns != NULL;
    if (!has_columns || j->to.stride[last] != 1 || columns < COLUMNS_LEAST || (llabs(j->step) == 1 && j->size > 1)) {
        hd_parallel_range(j->kept.count, GRAIN / j->size + 1, run_rows, j);
        return;
    }
    const int64_t rows = j->kept.count / columns, share = j->kept.count / (2 * hd_pool_threads());
    j->strip = hd_least(hd_most(share / STRIP_LEAST * STRIP_LEAST, STRIP_LEAST), STRIP);
    hd_parallel(rows * hd_pieces(columns, j->strip), run_strip, j);
}

static hd_error scan(hd_thread *thread, hd_call *call, scan_job *j) {
    const hd_scan_attributes *a = call->attributes;
    const hd_tensor *x = call->inputs[0];
    j->x = hd_tensor_bytes(thread, x, HD_READ);
    if (j->x == NULL) return thread->error_code;
    HD_TRY(hd_cpu_outputs(thread, call));
    if (call->outputs[0]->count == 0) return HD_OK;
    const bool has_places = call->output_count > 1 && call->outputs[1] != NULL;
    j->out = call->outputs[0]->storage->data;
    j->indices = has_places ? call->outputs[1]->storage->data : NULL;
    j->exclusive = a->exclusive;
    j->reverse = a->reverse;
    j->from.dtype = (hd_dtype)x->dtype;
    j->to.dtype = call->dtype[0];
    read_axes(j, x, a);
    run_scan(j);
    return HD_OK;
}

/* Small floats go through f64, which is rounded to them once. */
static hd_error accumulate(hd_thread *thread, hd_call *call, hd_scan kind) {
    const hd_dtype dtype = call->dtype[0];
    scan_job j = {.type = hd_dtype_is_small_float(dtype) ? HD_COMPUTE_F64 : (hd_compute)hd_dtype_compute[dtype],
                  .identity = kind == HD_SCAN_PROD};
    j.kernels = hd_kernels()->scan[kind][j.type];
    return scan(thread, call, &j);
}
hd_error hd_cpu_cumsum(hd_thread *thread, hd_call *call) { return accumulate(thread, call, HD_SCAN_SUM); }
hd_error hd_cpu_cumprod(hd_thread *thread, hd_call *call) { return accumulate(thread, call, HD_SCAN_PROD); }

hd_error hd_cpu_logcumsumexp(hd_thread *thread, hd_call *call) {
    return scan(thread, call, &(scan_job){.type = HD_COMPUTE_F64, .identity = -INFINITY});
}

static hd_error find_extremes(hd_thread *thread, hd_call *call, const hd_scan_extreme_kernels *kernels) {
    scan_job j = {.type = (hd_compute)hd_dtype_compute[call->dtype[0]]};
    if (j.type < HD_COMPUTE_F32 && j.type != HD_COMPUTE_U64) j.type = HD_COMPUTE_I64;
    j.extremes = kernels[j.type];
    return scan(thread, call, &j);
}
hd_error hd_cpu_cummax(hd_thread *thread, hd_call *call) {
    return find_extremes(thread, call, hd_kernels()->scan_largest);
}
hd_error hd_cpu_cummin(hd_thread *thread, hd_call *call) {
    return find_extremes(thread, call, hd_kernels()->scan_smallest);
}
