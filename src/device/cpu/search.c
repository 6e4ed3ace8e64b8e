/* Binary search in rows that are in order. */
#include "device/cpu/order.h"
#include "device/cpu/sizes.h"
#include "device/cpu/tile.h"

enum { GRAIN = 1024 }; /* values worth a thread */

typedef struct search_job {
    const char *rows, *values;
    hd_dtype dtype;
    int64_t size, from_row; /* elements of a row, and from one row to the next */
    int64_t each;           /* values of a row */
    bool right;
    int64_t *out;
} search_job;

/* How many of n elements come before one with this key. */
static inline int64_t count_before(const char *row, int64_t n, uint64_t key, bool right, hd_dtype dtype) {
    const size_t bytes = hd_dtype_bytes[dtype];
    int64_t low = 0;
    while (n > 0) {
        const int64_t half = n / 2;
        const uint64_t other = hd_order_of(row + (size_t)(low + half) * bytes, dtype);
        const bool before = right ? other <= key : other < key;
        low += before ? half + 1 : 0;
        n = before ? n - half - 1 : half;
    }
    return low;
}

static inline void search(const search_job *j, int64_t begin, int64_t end, hd_dtype dtype) {
    const size_t bytes = hd_dtype_bytes[dtype];
    for (int64_t e = begin; e < end; ++e)
        j->out[e] = count_before(j->rows + (size_t)(e / j->each * j->from_row) * bytes, j->size,
                                 hd_order_of(j->values + (size_t)e * bytes, dtype), j->right, dtype);
}

static void run_search(void *context, int64_t begin, int64_t end) {
    const search_job *j = context;
    if (j->dtype == HD_F32) /* with a constant there is nothing to ask at each step */
        search(j, begin, end, HD_F32);
    else if (j->dtype == HD_I64)
        search(j, begin, end, HD_I64);
    else
        search(j, begin, end, j->dtype);
}

hd_error hd_cpu_searchsorted(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    const hd_dtype dtype = (hd_dtype)call->inputs[0]->dtype;
    hd_tensor *sorted = hd_cpu_ready(thread, call->inputs[0], dtype),
              *values = sorted == NULL ? NULL : hd_cpu_ready(thread, call->inputs[1], dtype);
    hd_error status = values == NULL ? thread->error_code : HD_OK;
    if (status == HD_OK && values->count > 0) {
        const hd_shape *rows = &sorted->layout.shape, *shape = &values->layout.shape;
        search_job j = {.rows = hd_tensor_bytes(thread, sorted, HD_READ),
                        .values = hd_tensor_bytes(thread, values, HD_READ),
                        .dtype = dtype,
                        .size = rows->size[rows->rank - 1],
                        .each = rows->rank == 1 ? values->count : shape->size[shape->rank - 1],
                        .right = ((const hd_searchsorted_attributes *)call->attributes)->right != 0,
                        .out = call->outputs[0]->storage->data};
        j.from_row = rows->rank == 1 ? 0 : j.size;
        if (j.rows == NULL || j.values == NULL)
            status = thread->error_code;
        else
            hd_parallel_range(values->count, GRAIN, run_search, &j);
    }
    hd_tensor_drop(thread, values);
    hd_tensor_drop(thread, sorted);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}
