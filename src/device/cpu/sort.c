/* Sorting along an axis. Elements become whole numbers in the same order (NaN behind all others, -0 equal to 0), which
 * are sorted with their positions: digit by digit from the last, so that equals stay in order; few by insertion. */
#include "device/cpu/order.h"
#include "device/cpu/sizes.h"
#include "device/cpu/tile.h"

enum {
    GRAIN = 4096,    /* elements worth a thread */
    FEW = 48,        /* elements that insertion sorts sooner */
    FEW_LARGEST = 32 /* of topk: so many are kept in order while all are looked at once */
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
    keyed *workspace; /* 2 * size for each piece */
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

/* The first k in order, of which few are wanted: each element is compared with the last of them. */
static keyed *first_few(const sort_job *j, keyed *x, int64_t k) {
    keyed *best = x + j->size;
    int64_t have = 0;
    for (int64_t i = 0; i < j->size && k > 0; ++i) {
        if (have == k && x[i].key >= best[k - 1].key) continue;
        int64_t at = have < k ? have++ : k - 1;
        for (; at > 0 && best[at - 1].key > x[i].key; --at) best[at] = best[at - 1];
        best[at] = x[i];
    }
    return best;
}

static void sort_row(const sort_job *j, int64_t row, keyed *workspace) {
    const int64_t outer = row / j->inner, inner = row % j->inner;
    const char *x = j->x + (size_t)(outer * j->outer_stride + inner) * j->bytes;
    read_keys(j, x, workspace);
    const keyed *sorted = j->count <= FEW_LARGEST && j->count < j->size ? first_few(j, workspace, j->count)
                                                                        : sort_keys(workspace, j->size);
    for (int64_t i = 0; i < j->count; ++i) {
        const int64_t to = (outer * j->count + i) * j->inner + inner;
        if (j->indices != NULL) j->indices[to] = sorted[i].at;
        if (j->values != NULL)
            memcpy(j->values + (size_t)to * j->bytes, x + (size_t)(sorted[i].at * j->stride) * j->bytes, j->bytes);
    }
}

static void run_sort_piece(void *context, int64_t piece) {
    const sort_job *j = context;
    for (int64_t row = piece; row < j->rows; row += j->pieces) sort_row(j, row, j->workspace + piece * 2 * j->size);
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
        hd_block *workspace = hd_block_new(thread, (size_t)(j.pieces * 2 * j.size) * sizeof(keyed));
        if (j.x == NULL || workspace == NULL) status = thread->error_code;
        if (status == HD_OK) {
            j.workspace = hd_block_data(workspace);
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
