/* Reductions. The axes are parted into those that stay and those that go; then either each result is a row reduced by
 * itself (the memory runs along what goes), or a strip of results is accumulated row by row (it runs along what stays).
 * When there are too few results for the threads, what goes is cut into pieces whose results are folded in order, so
 * that the outcome does not depend on who worked on what. */
#include "device/cpu/sizes.h"
#include "device/cpu/tile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    GRAIN = 32768, /* elements worth a thread */
    PIECE = 65536, /* elements of a piece when what goes is cut */
    STRIP = 512,   /* results accumulated at once */
    SIDE = 64,     /* results side by side that no thread shares: whole vectors, from where one begins, */
    SIDES = 2,     /* and so many of them at least for a thread: memory is read in long runs */
    SHORT = 16     /* rows shorter than this are taken as strips */
};

typedef struct axes_list {
    hd_space space;
    int64_t stride[HD_MAX_RANK];
} axes_list;

typedef struct reduction {
    hd_reduce_kernels kernels, fold; /* on elements, and on accumulators */
    hd_dtype dtype;
    hd_compute compute, accumulator;
    size_t bytes, accumulator_bytes;
    char identity[8];
    const char *data;
    axes_list kept, gone;
    int64_t strip;    /* results in a strip; 0: rows */
    int64_t together; /* results that one thread must take together */
    char *out;        /* [pieces][kept] accumulators */
    int64_t pieces, piece;
} reduction;

/* ---- axes -------------------------------------------------------------------------------------------------------- */
static void add_axis(axes_list *list, int64_t size, int64_t stride) {
    hd_space *s = &list->space;
    s->count *= size;
    if (size == 1) return;
    if (s->rank > 0 && list->stride[s->rank - 1] == stride * size) {
        s->size[s->rank - 1] *= size;
        list->stride[s->rank - 1] = stride;
        return;
    }
    s->size[s->rank] = size;
    list->stride[s->rank++] = stride;
}

static void close_axes(axes_list *list) {
    if (list->space.rank > 0) return;
    list->space.rank = 1;
    list->space.size[0] = 1;
    list->stride[0] = 1;
}

static int64_t offset_of(const axes_list *list, const int64_t *coordinate) {
    int64_t offset = 0;
    for (int i = 0; i < list->space.rank; ++i) offset += coordinate[i] * list->stride[i];
    return offset;
}

/* ---- rows: one result at a time ---------------------------------------------------------------------------------- */
static void reduce_row(const reduction *r, const char *base, int64_t begin, int64_t end, void *accumulator) {
    const axes_list *gone = &r->gone;
    const int last = gone->space.rank - 1;
    const bool direct =
        gone->stride[last] == 1 && !hd_dtype_is_small_float(r->dtype) && hd_dtype_compute[r->dtype] == r->compute;
    hd_tile_workspace workspace;
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(&gone->space, begin, coordinate);
    for (int64_t i = begin; i < end;) {
        int64_t run = gone->space.size[last] - coordinate[last];
        if (run > end - i) run = end - i;
        if (!direct && run > HD_TILE) run = HD_TILE;
        const char *at = base + offset_of(gone, coordinate) * (int64_t)r->bytes;
        r->kernels.row(accumulator,
                       direct ? at : hd_tile_load(at, gone->stride[last], run, r->dtype, r->compute, &workspace), run);
        i += run;
        coordinate[last] += run;
        if (coordinate[last] == gone->space.size[last]) {
            coordinate[last] = 0;
            hd_space_next_row(&gone->space, coordinate);
        }
    }
}

/* ---- strips: neighbouring results together ----------------------------------------------------------------------- */
static void reduce_strip(const reduction *r, const char *base, int64_t width, int64_t stride, int64_t begin,
                         int64_t end, void *accumulator) {
    const axes_list *gone = &r->gone;
    const int last = gone->space.rank - 1;
    const bool direct = stride == 1 && !hd_dtype_is_small_float(r->dtype) && hd_dtype_compute[r->dtype] == r->compute;
    hd_tile_workspace workspace;
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(&gone->space, begin, coordinate);
    for (int64_t i = begin; i < end;) {
        int64_t run = gone->space.size[last] - coordinate[last];
        if (run > end - i) run = end - i;
        const char *at = base + offset_of(gone, coordinate) * (int64_t)r->bytes;
        if (direct) {
            r->kernels.columns(accumulator, at, width, run, gone->stride[last]);
        } else {
            for (int64_t k = 0; k < run; ++k)
                for (int64_t w = 0; w < width; w += HD_TILE) {
                    const int64_t n = width - w < HD_TILE ? width - w : HD_TILE;
                    const char *from = at + (k * gone->stride[last] + w * stride) * (int64_t)r->bytes;
                    r->kernels.columns((char *)accumulator + (size_t)w * r->accumulator_bytes,
                                       hd_tile_load(from, stride, n, r->dtype, r->compute, &workspace), n, 1, 0);
                }
        }
        i += run;
        coordinate[last] = 0;
        hd_space_next_row(&gone->space, coordinate);
    }
}

static void set_identity(const reduction *r, char *accumulator, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        memcpy(accumulator + (size_t)i * r->accumulator_bytes, r->identity, r->accumulator_bytes);
}

/* Results that lie side by side. Threads never share a narrow strip: cut in two it would be added up in another
 * order. */
static int64_t whole_strip(const reduction *r) { return r->kept.space.size[r->kept.space.rank - 1]; }

/* A narrow strip, [many, width] in one piece of memory with width < 64: several rows are taken as one long row, and the
 * groups of the long accumulator are folded at the end. */
static bool reduce_narrow(const reduction *r, const char *base, int64_t width, int64_t begin, int64_t end,
                          void *accumulator) {
    const axes_list *gone = &r->gone;
    if (width >= 64 || width != whole_strip(r) || gone->space.rank != 1 || gone->stride[0] != width || end - begin < 64)
        return false;
    if (hd_dtype_is_small_float(r->dtype) || hd_dtype_compute[r->dtype] != r->compute) return false;
    const int64_t group = STRIP / width, rows = (end - begin) / group;
    _Alignas(64) char wide[STRIP * 8];
    set_identity(r, wide, group * width);
    r->kernels.columns(wide, base + begin * width * (int64_t)r->bytes, group * width, rows, group * width);
    r->fold.columns(accumulator, wide, width, group, width);
    const int64_t done = begin + rows * group;
    if (done < end) r->kernels.columns(accumulator, base + done * width * (int64_t)r->bytes, width, end - done, width);
    return true;
}

/* ---- the work of one thread -------------------------------------------------------------------------------------- */
static void reduce_results(const reduction *r, int64_t first, int64_t after, int64_t begin, int64_t end, char *out) {
    const axes_list *kept = &r->kept;
    const int last = kept->space.rank - 1;
    int64_t coordinate[HD_MAX_RANK];
    if (begin == end) { /* of nothing */
        set_identity(r, out + (size_t)first * r->accumulator_bytes, after - first);
        return;
    }
    hd_space_locate(&kept->space, first, coordinate);
    for (int64_t k = first; k < after;) {
        const char *base = r->data + offset_of(kept, coordinate) * (int64_t)r->bytes;
        char *accumulator = out + (size_t)k * r->accumulator_bytes;
        int64_t width = 1;
        if (r->strip == 0) {
            memcpy(accumulator, r->identity, r->accumulator_bytes);
            reduce_row(r, base, begin, end, accumulator);
        } else {
            width = kept->space.size[last] - coordinate[last];
            if (width > r->strip) width = r->strip;
            if (width > after - k) width = after - k;
            set_identity(r, accumulator, width);
            if (kept->stride[last] != 1 || !reduce_narrow(r, base, width, begin, end, accumulator))
                reduce_strip(r, base, width, kept->stride[last], begin, end, accumulator);
        }
        k += width;
        coordinate[last] += width;
        if (coordinate[last] == kept->space.size[last]) {
            coordinate[last] = 0;
            hd_space_next_row(&kept->space, coordinate);
        }
    }
}

static void run_results(void *context, int64_t first, int64_t after) { /* counted in `together` results */
    const reduction *r = context;
    reduce_results(r, first * r->together, hd_least(after * r->together, r->kept.space.count), 0, r->gone.space.count,
                   r->out);
}

static void run_reduce_piece(void *context, int64_t piece) {
    const reduction *r = context;
    const int64_t begin = piece * r->piece,
                  end = begin + r->piece < r->gone.space.count ? begin + r->piece : r->gone.space.count;
    reduce_results(r, 0, r->kept.space.count, begin, end,
                   r->out + (size_t)(piece * r->kept.space.count) * r->accumulator_bytes);
}

/* ---- what a row of the table means ------------------------------------------------------------------------------- */
/* Of truth: whether elements are 0 is all that counts. */
static void choose_types(reduction *r, hd_reduction kind, bool of_truth, hd_dtype dtype) {
    r->compute = of_truth ? HD_COMPUTE_B8 : (hd_compute)hd_dtype_compute[dtype];
    r->accumulator = r->compute;
    if (kind == HD_REDUCE_SUM || kind == HD_REDUCE_PROD) {
        if (!hd_dtype_is_float(dtype))
            r->compute = hd_dtype_is_signed(dtype) || dtype == HD_BOOL ? HD_COMPUTE_I64 : HD_COMPUTE_U64;
        else if (kind == HD_REDUCE_PROD)
            r->compute = HD_COMPUTE_F64;
        r->accumulator = r->compute == HD_COMPUTE_F32 ? HD_COMPUTE_F64 : r->compute;
    }
    const hd_dtype as = (hd_dtype)hd_compute_dtype[r->accumulator];
    const double identity = kind == HD_REDUCE_SUM    ? 0
                            : kind == HD_REDUCE_PROD ? 1
                            : kind == HD_REDUCE_MAX  ? -INFINITY
                                                     : INFINITY;
    hd_element_from_f64(r->identity, as, of_truth ? (kind == HD_REDUCE_MIN) : identity);
    if (as == HD_BOOL && kind == HD_REDUCE_MAX) r->identity[0] = 0;
    r->kernels = hd_kernels()->reduce[kind][r->compute];
    r->fold = hd_kernels()->reduce[kind][r->accumulator];
    r->accumulator_bytes = hd_dtype_bytes[as];
}

static void choose_way(reduction *r) {
    const axes_list *kept = &r->kept, *gone = &r->gone;
    const int64_t along_kept = llabs(kept->stride[kept->space.rank - 1]),
                  along_gone = llabs(gone->stride[gone->space.rank - 1]);
    const bool many = kept->space.count > 1;
    const bool rows = !many || along_gone <= along_kept;
    r->strip = rows && !(many && gone->space.count < SHORT) ? 0 : STRIP;
    r->pieces = 1;
    r->piece = gone->space.count;
    const int64_t elements = kept->space.count * gone->space.count,
                  lanes = r->strip == 0 ? kept->space.count : (kept->space.count + 127) / 128;
    if (elements > 2 * PIECE && lanes < 4 && gone->space.count > 1) { /* the same cut for any number of threads */
        r->piece = PIECE / kept->space.count > 0 ? PIECE / kept->space.count : 1;
        r->pieces = hd_pieces(gone->space.count, r->piece);
    }
}

static hd_error run_reduction(hd_thread *thread, reduction *r, hd_tensor *out) {
    const int64_t results = r->kept.space.count;
    hd_block *workspace =
        hd_block_new(thread, (size_t)(r->pieces * results + (r->pieces > 1 ? results : 0)) * r->accumulator_bytes);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    r->out = hd_block_data(workspace);
    char *final = r->out;
    if (r->pieces > 1) {
        hd_parallel(r->pieces, run_reduce_piece, r);
        final = r->out + (size_t)(r->pieces * results) * r->accumulator_bytes;
        set_identity(r, final, results);
        r->fold.columns(final, r->out, results, r->pieces, results);
    } else {
        int64_t grain = GRAIN / (r->gone.space.count > 0 ? r->gone.space.count : 1);
        if (r->strip > 0) grain = hd_most(hd_most(grain, SIDES * SIDE), results / (2 * hd_pool_threads()));
        r->together = r->strip == 0 ? 1 : hd_least(whole_strip(r), SIDE);
        hd_parallel_range(hd_pieces(results, r->together), hd_pieces(hd_most(grain, 1), r->together), run_results, r);
    }
    hd_tile_workspace tile;
    char *to = out->storage->data;
    for (int64_t i = 0; i < results; i += HD_TILE)
        hd_tile_store(to + (size_t)i * hd_dtype_bytes[out->dtype], 1, results - i < HD_TILE ? results - i : HD_TILE,
                      (hd_dtype)out->dtype, r->accumulator, final + (size_t)i * r->accumulator_bytes, &tile);
    hd_block_release(thread, workspace);
    return HD_OK;
}

static hd_error run_reduce(hd_thread *thread, hd_call *call, hd_reduction kind, bool of_truth) {
    const hd_reduce_attributes *a = call->attributes;
    const hd_tensor *x = call->inputs[0];
    reduction r = {
        .dtype = (hd_dtype)x->dtype, .bytes = hd_dtype_bytes[x->dtype], .kept.space.count = 1, .gone.space.count = 1};
    r.data = hd_tensor_bytes(thread, x, HD_READ);
    if (r.data == NULL) return thread->error_code;
    HD_TRY(hd_cpu_outputs(thread, call));
    for (int i = 0; i < x->layout.shape.rank; ++i)
        add_axis(a->reduced[i] ? &r.gone : &r.kept, x->layout.shape.size[i], x->layout.stride[i]);
    close_axes(&r.kept);
    close_axes(&r.gone);
    choose_types(&r, kind, of_truth, (hd_dtype)x->dtype);
    if (call->outputs[0]->count == 0) return HD_OK;
    choose_way(&r);
    const hd_error status = run_reduction(thread, &r, call->outputs[0]);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}

#define REDUCTION(name, kind, of_truth)                                                                                \
    hd_error hd_cpu_##name(hd_thread *thread, hd_call *call) { return run_reduce(thread, call, kind, of_truth); }
REDUCTION(sum, HD_REDUCE_SUM, false)
REDUCTION(prod, HD_REDUCE_PROD, false)
REDUCTION(max, HD_REDUCE_MAX, false)
REDUCTION(min, HD_REDUCE_MIN, false)
REDUCTION(any, HD_REDUCE_MAX, true)
REDUCTION(all, HD_REDUCE_MIN, true)

/* ---- argmax and argmin: the first of equals, or the first NaN ---------------------------------------------------- */
typedef struct arg_job {
    const char *data;
    const hd_tensor *x;
    axes_list kept;
    int64_t size, stride; /* of the axis */
    bool largest;
    int64_t *out;
    char *values; /* of max_with_index: the elements found; NULL: only where they are */
} arg_job;

/* True when candidate takes the place of best; floats are compared as f64, which is exact, integers as themselves. */
static bool better(const arg_job *j, const void *candidate, const void *best, hd_compute type) {
    if (type >= HD_COMPUTE_F32) {
        const double c = type == HD_COMPUTE_F32 ? (double)*(const float *)candidate : *(const double *)candidate;
        const double b = type == HD_COMPUTE_F32 ? (double)*(const float *)best : *(const double *)best;
        if (b != b) return false;
        return c != c || (j->largest ? c > b : c < b);
    }
    if (type == HD_COMPUTE_U64) {
        const uint64_t c = *(const uint64_t *)candidate, b = *(const uint64_t *)best;
        return j->largest ? c > b : c < b;
    }
    const int64_t c = *(const int64_t *)candidate, b = *(const int64_t *)best;
    return j->largest ? c > b : c < b;
}

static void run_arg(void *context, int64_t first, int64_t after) {
    const arg_job *j = context;
    const hd_dtype dtype = (hd_dtype)j->x->dtype;
    hd_compute type = (hd_compute)hd_dtype_compute[dtype];
    if (type < HD_COMPUTE_F32 && type != HD_COMPUTE_U64) type = HD_COMPUTE_I64;
    const size_t bytes = hd_dtype_bytes[dtype], step = hd_dtype_bytes[hd_compute_dtype[type]];
    hd_tile_workspace workspace;
    for (int64_t k = first; k < after; ++k) {
        int64_t coordinate[HD_MAX_RANK];
        hd_space_locate(&j->kept.space, k, coordinate);
        const char *base = j->data + offset_of(&j->kept, coordinate) * (int64_t)bytes;
        char best[8];
        int64_t where = 0;
        for (int64_t i = 0; i < j->size; i += HD_TILE) {
            const int64_t n = j->size - i < HD_TILE ? j->size - i : HD_TILE;
            const char *values =
                hd_tile_load(base + i * j->stride * (int64_t)bytes, j->stride, n, dtype, type, &workspace);
            if (i == 0) memcpy(best, values, step);
            for (int64_t e = 0; e < n; ++e)
                if (better(j, values + (size_t)e * step, best, type)) {
                    memcpy(best, values + (size_t)e * step, step);
                    where = i + e;
                }
        }
        if (j->out != NULL) j->out[k] = where;
        if (j->values != NULL) memcpy(j->values + (size_t)k * bytes, base + where * j->stride * (int64_t)bytes, bytes);
    }
}

static hd_error find_extreme(hd_thread *thread, hd_call *call, bool largest, bool with_values) {
    const hd_reduce_attributes *a = call->attributes;
    const hd_tensor *x = call->inputs[0];
    arg_job j = {.x = x, .kept.space.count = 1, .size = 1, .stride = 1, .largest = largest};
    j.data = hd_tensor_bytes(thread, x, HD_READ);
    if (j.data == NULL) return thread->error_code;
    HD_TRY(hd_cpu_outputs(thread, call));
    for (int i = 0; i < x->layout.shape.rank; ++i) {
        if (a->reduced[i]) {
            j.size = x->layout.shape.size[i];
            j.stride = x->layout.stride[i];
        } else {
            add_axis(&j.kept, x->layout.shape.size[i], x->layout.stride[i]);
        }
    }
    close_axes(&j.kept);
    const hd_tensor *indices = !with_values ? call->outputs[0] : call->output_count > 1 ? call->outputs[1] : NULL;
    j.out = indices == NULL ? NULL : indices->storage->data;
    j.values = with_values ? call->outputs[0]->storage->data : NULL;
    const int64_t grain = GRAIN / (j.size > 0 ? j.size : 1);
    hd_parallel_range(call->outputs[0]->count, grain > 0 ? grain : 1, run_arg, &j);
    return HD_OK;
}

#define EXTREME(name, largest, with_values)                                                                            \
    hd_error hd_cpu_##name(hd_thread *thread, hd_call *call) {                                                         \
        return find_extreme(thread, call, largest, with_values);                                                       \
    }
EXTREME(argmax, true, false)
EXTREME(argmin, false, false)
EXTREME(max_with_index, true, true)
EXTREME(min_with_index, false, true)
