/* Sorting along an axis. Elements become whole numbers in the same order (NaN behind all others, -0 equal to 0), which
 * are sorted with their positions: digit by digit from the last, so that equals stay in order; few by insertion. Where
 * few are wanted of many, these are kept in order while all are looked at once. */
#include "device/cpu/kernels.h"
#include "device/cpu/order.h"
#include "device/cpu/sizes.h"
#include "device/cpu/tile.h"

#include <math.h>

enum {
    GRAIN = 4096,     /* elements worth a thread */
    FEW = 48,         /* elements that insertion sorts sooner */
    FEW_LARGEST = 32, /* of topk: so many are kept in order */
    BLOCK = 32,       /* elements that are compared together with the last of those */
    LANES = 64        /* of a row: element i is in lane i % LANES */
};

typedef struct keyed {
    uint64_t key;
    int64_t at;
} keyed;

typedef struct sort_job {
    const char *x;
    hd_dtype dtype;
    size_t bytes;
    int64_t size, stride;        /* of the axis */
    int64_t inner, outer_stride; /* elements behind the axis, and from one run of it to the next, of contiguous x */
    int64_t count;               /* elements that are given */
    bool descending;
    char *values;     /* contiguous; NULL: nobody wants them */
    int64_t *indices; /* likewise */
    keyed *workspace; /* 2 * size for each piece; NULL: few are wanted */
    int64_t pieces, rows;
} sort_job;

/* Descending, the other way round; NaN comes first then. */
static void read_keys(const sort_job *j, const char *row, keyed *out) {
    const uint64_t turn = j->descending ? UINT64_MAX : 0;
    const size_t step = (size_t)j->stride * j->bytes;
    if (j->dtype == HD_F32)
        for (int64_t i = 0; i < j->size; ++i) out[i] = (keyed){hd_order_of(row + (size_t)i * step, HD_F32) ^ turn, i};
    else
        for (int64_t i = 0; i < j->size; ++i) out[i] = (keyed){hd_order_of(row + (size_t)i * step, j->dtype) ^ turn, i};
}

static void insert_all(keyed *x, int64_t n) {
    for (int64_t i = 1; i < n; ++i) {
        const keyed item = x[i];
        int64_t at = i;
        for (; at > 0 && x[at - 1].key > item.key; --at) x[at] = x[at - 1];
        x[at] = item;
    }
}

/* Sorts x, with as much room behind it; gives where the result is. Digits that all share cost one look. */
static keyed *sort_keys(keyed *x, int64_t n) {
    if (n <= FEW) {
        insert_all(x, n);
        return x;
    }
    keyed *from = x, *to = x + n;
    uint64_t differ = 0;
    for (int64_t i = 1; i < n; ++i) differ |= x[i].key ^ x[0].key;
    for (int shift = 0; shift < 64; shift += 8) {
        if ((differ >> shift & 255) == 0) continue;
        int64_t first[256] = {0};
        for (int64_t i = 0; i < n; ++i) first[from[i].key >> shift & 255]++;
        for (int64_t d = 0, at = 0; d < 256; ++d) {
            const int64_t count = first[d];
            first[d] = at;
            at += count;
        }
        for (int64_t i = 0; i < n; ++i) to[first[from[i].key >> shift & 255]++] = from[i];
        keyed *other = from;
        from = to;
        to = other;
    }
    return from;
}

/* The first of a row, in order, as far as it was looked at. */
typedef struct few {
    keyed best[FEW_LARGEST];
    int64_t have, count;
} few;

static inline void take(few *f, keyed item) {
    if (f->have < f->count)
        f->have++;
    else if (item.key >= f->best[f->count - 1].key)
        return;
    int64_t at = f->have - 1;
    for (; at > 0 && f->best[at - 1].key > item.key; --at) f->best[at] = f->best[at - 1];
    f->best[at] = item;
}

/* A number that the last of the first f->count of a row does not come behind: so many lanes have their first at least
 * there. The row is looked at once more for it, but then few of its elements are taken that do not stay. */
static float bound_of(const few *f, const float *x, int64_t size, bool descending) {
    const hd_reduce_kernels *extreme =
        &hd_kernels()->reduce[descending ? HD_REDUCE_MAX : HD_REDUCE_MIN][HD_COMPUTE_F32];
    float lane[LANES], first[FEW_LARGEST];
    if (size < 4 * LANES) return descending ? -INFINITY : INFINITY;
    memcpy(lane, x, sizeof lane);
    extreme->columns(lane, x + LANES, LANES, size / LANES - 1, LANES);
    for (int i = 0; i < LANES; ++i) { /* now the smallest is the first; NaN is the largest, or hides the smallest */
        if (lane[i] != lane[i]) lane[i] = INFINITY;
        if (descending) lane[i] = -lane[i];
    }
    int lanes = LANES;
    for (; lanes >= 4 * f->count; lanes /= 2) /* fewer say nearly as much */
        for (int i = 0; i < lanes / 2; ++i) lane[i] = lane[i] < lane[i + lanes / 2] ? lane[i] : lane[i + lanes / 2];
    for (int i = 0, have = 0; i < lanes; ++i) {
        if (have == f->count && lane[i] >= first[have - 1]) continue;
        int at = have < f->count ? have++ : have - 1;
        for (; at > 0 && first[at - 1] > lane[i]; --at) first[at] = first[at - 1];
        first[at] = lane[i];
    }
    return descending ? -first[f->count - 1] : first[f->count - 1];
}

/* False when all of a block come behind a bound, as most do; NaN never does. */
static inline bool any_within(const float *x, float bound, bool descending) {
    int any = 0;
    for (int i = 0; i < BLOCK; ++i) any |= descending ? !(x[i] < bound) : !(x[i] > bound);
    return any != 0;
}

static inline void take_floats(few *f, const float *x, int64_t size, bool descending) {
    const uint64_t turn = descending ? UINT64_MAX : 0;
    float bound = bound_of(f, x, size, descending);
    for (int64_t i = 0; i < size; i += BLOCK) {
        if (size - i >= BLOCK && !any_within(x + i, bound, descending)) continue;
        const int64_t end = hd_least(i + BLOCK, size);
        for (int64_t e = i; e < end; ++e)
            if (descending ? !(x[e] < bound) : !(x[e] > bound))
                take(f, (keyed){hd_order_of((const char *)(x + e), HD_F32) ^ turn, e});
        if (f->have == f->count) bound = x[f->best[f->count - 1].at];
    }
}

static void take_few(const sort_job *j, const char *row, few *f) {
    const uint64_t turn = j->descending ? UINT64_MAX : 0;
    if (j->dtype == HD_F32 && j->stride == 1 && j->descending)
        take_floats(f, (const float *)row, j->size, true);
    else if (j->dtype == HD_F32 && j->stride == 1)
        take_floats(f, (const float *)row, j->size, false);
    else
        for (int64_t i = 0; i < j->size; ++i)
            take(f, (keyed){hd_order_of(row + (size_t)(i * j->stride) * j->bytes, j->dtype) ^ turn, i});
}

/* Elements as they are, by their size. */
#define COPY(T, bytes)                                                                                                 \
    static void copy_##bytes(const sort_job *j, const char *row, int64_t first, const keyed *sorted) {                 \
        const T *from = (const T *)row;                                                                                \
        T *to = (T *)j->values + first;                                                                                \
        for (int64_t i = 0; i < j->count; ++i) to[i * j->inner] = from[sorted[i].at * j->stride];                      \
    }
COPY(uint8_t, 1)
COPY(uint16_t, 2)
COPY(uint32_t, 4)
COPY(uint64_t, 8)

static void sort_row(const sort_job *j, int64_t row, keyed *workspace) {
    const int64_t outer = row / j->inner, inner = row % j->inner;
    const char *x = j->x + (size_t)(outer * j->outer_stride + inner) * j->bytes;
    few f = {.have = 0, .count = j->count};
    const keyed *sorted = f.best;
    if (workspace == NULL)
        take_few(j, x, &f);
    else {
        read_keys(j, x, workspace);
        sorted = sort_keys(workspace, j->size);
    }
    const int64_t first = outer * j->count * j->inner + inner;
    for (int64_t i = 0; i < j->count && j->indices != NULL; ++i) j->indices[first + i * j->inner] = sorted[i].at;
    if (j->values == NULL) return;
    switch (j->bytes) {
    case 1: copy_1(j, x, first, sorted); break;
    case 2: copy_2(j, x, first, sorted); break;
    case 4: copy_4(j, x, first, sorted); break;
    default: copy_8(j, x, first, sorted);
    }
}

static void run_sort_piece(void *context, int64_t piece) {
    const sort_job *j = context;
    keyed *workspace = j->workspace == NULL ? NULL : j->workspace + piece * 2 * j->size;
    for (int64_t row = piece; row < j->rows; row += j->pieces) sort_row(j, row, workspace);
}

/* The first `count` of each run along an axis, in order. */
static hd_error sort_axis(hd_thread *thread, hd_call *call, int axis, int64_t count, bool descending) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *x = hd_cpu_ready(thread, call->inputs[0], (hd_dtype)call->inputs[0]->dtype);
    hd_error status = x == NULL ? thread->error_code : HD_OK;
    const hd_shape *shape = &call->inputs[0]->layout.shape;
    if (status == HD_OK && call->outputs[0]->count > 0) {
        sort_job j = {.x = hd_tensor_bytes(thread, x, HD_READ),
                      .dtype = (hd_dtype)x->dtype,
                      .bytes = hd_dtype_bytes[x->dtype],
                      .size = shape->size[axis],
                      .inner = 1,
                      .count = count,
                      .descending = descending,
                      .values = call->outputs[0]->storage->data,
                      .indices =
                          call->output_count > 1 && call->outputs[1] != NULL ? call->outputs[1]->storage->data : NULL};
        for (int i = axis + 1; i < shape->rank; ++i) j.inner *= shape->size[i];
        j.stride = j.inner;
        j.outer_stride = j.inner * j.size;
        j.rows = x->count / j.size;
        const int64_t worth = x->count / GRAIN + 1, threads = 2 * hd_pool_threads();
        j.pieces = hd_least(hd_least(j.rows, worth), threads);
        const bool is_few = count <= FEW_LARGEST && count < j.size;
        hd_block *workspace = is_few ? NULL : hd_block_new(thread, (size_t)(j.pieces * 2 * j.size) * sizeof(keyed));
        if (j.x == NULL || (workspace == NULL && !is_few)) status = thread->error_code;
        if (status == HD_OK) {
            j.workspace = workspace == NULL ? NULL : hd_block_data(workspace);
            hd_parallel(j.pieces, run_sort_piece, &j);
        }
        if (workspace != NULL) hd_block_release(thread, workspace);
    }
    hd_tensor_drop(thread, x);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}

hd_error hd_cpu_sort(hd_thread *thread, hd_call *call) {
    const hd_sort_attributes *a = call->attributes;
    return sort_axis(thread, call, a->axis, call->inputs[0]->layout.shape.size[a->axis], a->descending);
}

hd_error hd_cpu_topk(hd_thread *thread, hd_call *call) {
    const hd_topk_attributes *a = call->attributes;
    return sort_axis(thread, call, a->axis, a->count, a->largest);
}
