/* Random draws: which element of which draw goes where. The numbers themselves are in kernels_random.c. */
#include "device/cpu/tile.h"

#include <math.h>
#include <stdlib.h>

enum { GRAIN = 8192 };
__extension__ typedef unsigned __int128 u128;

typedef enum drawn { UNIFORM, NORMAL, INTEGERS } drawn;
typedef struct draw_job {
    const hd_random_attributes *attributes;
    drawn what;
    hd_dtype dtype;
    char *out;
} draw_job;

static void draw_f32(const draw_job *d, int64_t first, int64_t n, float *v) {
    const hd_random_attributes *a = d->attributes;
    const float low = (float)a->a, scale = d->what == UNIFORM ? (float)(a->b - a->a) : (float)a->b;
    if (d->what == UNIFORM) {
        const float top = (float)hd_uniform_top(a, d->dtype);
        hd_kernels()->uniform_f32(v, first, n, a->seed, a->draw);
        for (int64_t i = 0; i < n; ++i) {
            const float x = low + scale * v[i];
            v[i] = x < top ? x : top;
        }
    } else {
        hd_kernels()->normal_f32(v, first, n, a->seed, a->draw);
        for (int64_t i = 0; i < n; ++i) v[i] = low + scale * v[i];
    }
}

static void draw_f64(const draw_job *d, int64_t first, int64_t n, double *v) {
    const hd_random_attributes *a = d->attributes;
    if (d->what == UNIFORM) {
        const double top = hd_uniform_top(a, d->dtype);
        hd_kernels()->uniform_f64(v, first, n, a->seed, a->draw);
        for (int64_t i = 0; i < n; ++i) {
            const double x = a->a + (a->b - a->a) * v[i];
            v[i] = x < top ? x : top;
        }
    } else {
        hd_kernels()->normal_f64(v, first, n, a->seed, a->draw);
        for (int64_t i = 0; i < n; ++i) v[i] = a->a + a->b * v[i];
    }
}

static void draw_int(const draw_job *d, int64_t first, int64_t n, int64_t *v) {
    const hd_random_attributes *a = d->attributes;
    const uint64_t width = (uint64_t)a->high - (uint64_t)a->low;
    hd_kernels()->bits_u64((uint64_t *)v, first, n, a->seed, a->draw);
    for (int64_t i = 0; i < n; ++i)
        v[i] = (int64_t)((uint64_t)a->low + (uint64_t)(((u128)(uint64_t)v[i] * width) >> 64));
}

static void draw_range(void *context, int64_t begin, int64_t end) {
    const draw_job *d = context;
    const size_t bytes = hd_dtype_bytes[d->dtype];
    hd_tile_workspace workspace;
    _Alignas(64) char values[HD_TILE * 8];
    for (int64_t i = begin; i < end; i += HD_TILE) {
        const int64_t n = end - i < HD_TILE ? end - i : HD_TILE;
        hd_compute from = d->what == INTEGERS ? HD_COMPUTE_I64 : d->dtype == HD_F64 ? HD_COMPUTE_F64 : HD_COMPUTE_F32;
        if (from == HD_COMPUTE_I64)
            draw_int(d, i, n, (int64_t *)values);
        else if (from == HD_COMPUTE_F64)
            draw_f64(d, i, n, (double *)values);
        else
            draw_f32(d, i, n, (float *)values);
        hd_tile_store(d->out + (size_t)i * bytes, 1, n, d->dtype, from, values, &workspace);
    }
}

/* ---- permutation: the order of random keys ----------------------------------------------------------------------- */
typedef struct keyed {
    uint64_t key;
    int64_t index;
} keyed;

static int by_key(const void *p, const void *q) {
    const keyed *a = p, *b = q;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : a->index < b->index ? -1 : a->index > b->index;
}

static hd_error permutation(hd_thread *thread, hd_call *call, hd_tensor *out) {
    const hd_random_attributes *a = call->attributes;
    hd_block *block = hd_block_new(thread, (size_t)out->count * (sizeof(keyed) + 8));
    if (block == NULL) return HD_ERROR_MEMORY;
    keyed *pairs = hd_block_data(block);
    uint64_t *keys = (uint64_t *)(pairs + out->count);
    hd_kernels()->bits_u64(keys, 0, out->count, a->seed, a->draw);
    for (int64_t i = 0; i < out->count; ++i) pairs[i] = (keyed){keys[i], i};
    qsort(pairs, (size_t)out->count, sizeof *pairs, by_key);
    for (int64_t i = 0; i < out->count; ++i) ((int64_t *)out->storage->data)[i] = pairs[i].index;
    hd_block_release(thread, block);
    return HD_OK;
}

/* ---- multinomial ------------------------------------------------------------------------------------------------- */
static hd_error check_weights(const double *w, int64_t n, int64_t row, int64_t needed, double *total) {
    int64_t positive = 0;
    *total = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (!(w[i] >= 0) || isinf(w[i]))
            return hd_fail(HD_ERROR_VALUE, "weight %g at row %lld, place %lld; weights are finite and >= 0", w[i],
                           (long long)row, (long long)i);
        positive += w[i] > 0;
        *total += w[i];
    }
    if (*total <= 0 || isinf(*total))
        return hd_fail(HD_ERROR_VALUE, "the weights of row %lld add up to %g; they need a finite, positive sum",
                       (long long)row, *total);
    if (positive < needed)
        return hd_fail(HD_ERROR_VALUE,
                       "row %lld has %lld positive weights, fewer than the %lld draws without replacement",
                       (long long)row, (long long)positive, (long long)needed);
    return HD_OK;
}

/* With replacement: u times the total, found in the running sum. Without: the smallest of -log(u) / w win (an
 * exponential race), in the order in which they finish. `scratch` has room for n keyed. */
static hd_error multinomial_row(const hd_random_attributes *a, const double *w, int64_t n, int64_t row, int64_t count,
                                int64_t *out, keyed *scratch) {
    double total;
    HD_TRY(check_weights(w, n, row, a->with_replacement ? 0 : count, &total));
    if (a->with_replacement) {
        double *running = (double *)scratch, sum = 0;
        for (int64_t i = 0; i < n; ++i) running[i] = sum += w[i];
        for (int64_t k = 0; k < count; ++k) {
            double u;
            hd_kernels()->uniform_f64(&u, row * count + k, 1, a->seed, a->draw);
            int64_t low = 0, high = n - 1; /* the first place whose running sum exceeds u */
            while (low < high) {
                const int64_t middle = (low + high) / 2;
                if (running[middle] > u * sum)
                    high = middle;
                else
                    low = middle + 1;
            }
            while (low > 0 && w[low] == 0) --low; /* rounding may run past the last positive weight */
            out[k] = low;
        }
        return HD_OK;
    }
    for (int64_t i = 0; i < n; ++i) {
        double u;
        hd_kernels()->uniform_f64(&u, row * n + i, 1, a->seed, a->draw);
        const double finish = -log1p(-u) / w[i]; /* >= 0: its bits order as it does */
        scratch[i].index = i;
        uint64_t key;
        __builtin_memcpy(&key, &finish, 8);
        scratch[i].key = w[i] > 0 ? key : UINT64_MAX; /* behind the smallest weight, whose time may round to infinity */
    }
    qsort(scratch, (size_t)n, sizeof *scratch, by_key);
    for (int64_t k = 0; k < count; ++k) out[k] = scratch[k].index;
    return HD_OK;
}

static hd_error multinomial(hd_thread *thread, hd_call *call, hd_tensor *out) {
    hd_tensor *weights = hd_cpu_ready(thread, call->inputs[0], HD_F64);
    if (weights == NULL) return thread->error_code;
    const int rank = weights->layout.shape.rank;
    const int64_t n = weights->layout.shape.size[rank - 1], rows = rank == 2 ? weights->layout.shape.size[0] : 1;
    const int64_t count = out->layout.shape.size[out->layout.shape.rank - 1];
    hd_block *scratch = hd_block_new(thread, (size_t)n * sizeof(keyed));
    const double *values = (const double *)hd_tensor_bytes(thread, weights, HD_READ);
    hd_error status = scratch == NULL || values == NULL ? thread->error_code : HD_OK;
    for (int64_t r = 0; r < rows && status == HD_OK; ++r)
        status = multinomial_row(call->attributes, values + r * n, n, r, count,
                                 (int64_t *)out->storage->data + r * count, hd_block_data(scratch));
    if (scratch != NULL) hd_block_release(thread, scratch);
    hd_tensor_drop(thread, weights);
    return status;
}

hd_error hd_cpu_permutation(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, permutation); }
hd_error hd_cpu_multinomial(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, multinomial); }

static hd_error draw_numbers(hd_thread *thread, hd_call *call, drawn what) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0];
    draw_job job = {call->attributes, what, (hd_dtype)out->dtype, out->storage->data};
    hd_parallel_range(out->count, GRAIN, draw_range, &job);
    return HD_OK;
}
hd_error hd_cpu_uniform(hd_thread *thread, hd_call *call) { return draw_numbers(thread, call, UNIFORM); }
hd_error hd_cpu_normal(hd_thread *thread, hd_call *call) { return draw_numbers(thread, call, NORMAL); }
hd_error hd_cpu_randint(hd_thread *thread, hd_call *call) { return draw_numbers(thread, call, INTEGERS); }
