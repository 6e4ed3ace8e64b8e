/* Samplers. */
#include "data/sampler.h"
#include "data/order.h"
#include "data/stream.h"

#include <math.h>

static void sampler_destroy(hd_thread *thread, hd_object *object) {
    hd_sampler *s = (hd_sampler *)object;
    hd_array_release(s->sums);
    hd_array_release(s->labels);
    if (s->destroy != NULL) {
        HD_CALLBACK(thread);
        s->destroy(s->user);
    }
    hd_object_bury(thread, object);
}
static const hd_kind sampler_kind = {.name = "sampler", .destroy = sampler_destroy};

hd_error hd_sampler_check(const hd_sampler *s, const char *parameter) {
    return hd_data_check(s, &sampler_kind, parameter);
}

static hd_sampler *sampler_new(hd_thread *thread, hd_sampler_order_kind kind, int64_t count, int64_t items,
                               uint64_t seed) {
    if (count < 0) {
        hd_fail(HD_ERROR_VALUE, "an epoch of %lld items", (long long)count);
        return NULL;
    }
    hd_sampler *s = hd_data_new(thread, sizeof *s, &sampler_kind);
    if (s == NULL) return NULL;
    s->kind = kind;
    s->count = count;
    s->items = items;
    s->seed = seed;
    return hd_data_give(thread, s);
}

hd_sampler *hd_sequential_sampler(int64_t count) {
    HD_ENTER("hd_sequential_sampler", NULL);
    return sampler_new(thread, HD_ORDER_SEQUENTIAL, count, count, 0);
}
hd_sampler *hd_random_sampler(int64_t count, uint64_t seed) {
    HD_ENTER("hd_random_sampler", NULL);
    return sampler_new(thread, HD_ORDER_RANDOM, count, count, seed);
}

/* ---- by weights -------------------------------------------------------------------------------------------------- */
static double *sums_of(hd_thread *thread, const hd_tensor *weights) {
    double *sums = hd_array_resize(NULL, (size_t)weights->count * sizeof *sums);
    if (sums == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %lld weights", (long long)weights->count);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    double sum = 0;
    if (hd_to_array(weights, sums, HD_F64, (size_t)weights->count)) {
        int64_t i = 0;
        for (; i < weights->count && sums[i] >= 0 && isfinite(sum); ++i) sums[i] = sum += sums[i];
        if (i == weights->count && sum > 0 && isfinite(sum)) return sums;
        if (i < weights->count)
            hd_fail(HD_ERROR_VALUE, "weight %lld is %g; weights are finite and not negative", (long long)i, sums[i]);
        else
            hd_fail(HD_ERROR_VALUE, "the weights add up to %g", sum);
    }
    hd_array_release(sums);
    return NULL;
}

hd_sampler *hd_weighted_sampler(hd_tensor *weights, int64_t draws, uint64_t seed) {
    HD_ENTER("hd_weighted_sampler", NULL);
    HD_TRY_OR(hd_tensor_check(weights, "weights"), NULL);
    if (weights->layout.shape.rank != 1 || weights->count == 0) {
        hd_fail(HD_ERROR_SHAPE, "`weights` is %s; it must be [items], one at least",
                HD_SHAPE_TEXT(weights->layout.shape));
        return NULL;
    }
    hd_sampler *s = sampler_new(thread, HD_ORDER_WEIGHTED, draws, weights->count, seed);
    if (s != NULL) s->sums = sums_of(thread, weights);
    return s != NULL && s->sums != NULL ? s : NULL;
}

/* The first item whose sum is larger: one with weight 0 never is. */
static void draw_by_weight(const hd_sampler *s, uint64_t seed, int64_t *out) {
    hd_stream stream = hd_stream_of(seed, 0);
    for (int64_t i = 0; i < s->count; ++i) {
        const double drawn = hd_stream_part(&stream) * s->sums[s->items - 1];
        int64_t low = 0, high = s->items - 1;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (s->sums[middle] > drawn)
                high = middle;
            else
                low = middle + 1;
        }
        out[i] = low;
    }
}

/* ---- by classes, and by a function ------------------------------------------------------------------------------- */
hd_sampler *hd_stratified_sampler(hd_tensor *labels, uint64_t seed) {
    HD_ENTER("hd_stratified_sampler", NULL);
    int64_t *own = hd_data_integers(thread, labels, "labels");
    if (own == NULL) return NULL;
    hd_sampler *s = sampler_new(thread, HD_ORDER_STRATIFIED, labels->count, labels->count, seed);
    if (s == NULL)
        hd_array_release(own);
    else
        s->labels = own;
    return s;
}

hd_sampler *hd_function_sampler(int64_t count, void (*order)(int64_t epoch, int64_t *out, void *user), void *user,
                                void (*destroy)(void *user)) {
    HD_ENTER("hd_function_sampler", NULL);
    if (order == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`order` is NULL");
        return NULL;
    }
    hd_sampler *s = sampler_new(thread, HD_ORDER_FUNCTION, count, 0, 0);
    if (s == NULL) return NULL;
    s->order = order;
    s->user = user;
    s->destroy = destroy;
    return s;
}

/* ---- the order of an epoch --------------------------------------------------------------------------------------- */
static hd_error ask(hd_thread *thread, const hd_sampler *s, int64_t epoch, int64_t *out) {
    HD_CALLBACK(thread);
    s->order(epoch, out, s->user);
    return thread->error_code;
}

hd_error hd_sampler_fill(hd_thread *thread, const hd_sampler *s, uint64_t seed, int64_t epoch, int64_t items,
                         int64_t *out) {
    seed = hd_stream_seed(seed, (uint64_t)epoch);
    switch (s->kind) {
    case HD_ORDER_SEQUENTIAL: hd_order_sequential(out, s->count); break;
    case HD_ORDER_RANDOM: hd_order_random(out, s->count, seed); break;
    case HD_ORDER_WEIGHTED: draw_by_weight(s, seed, out); break;
    case HD_ORDER_STRATIFIED: HD_TRY(hd_order_stratified(out, s->labels, s->count, seed)); break;
    case HD_ORDER_FUNCTION: HD_TRY(ask(thread, s, epoch, out)); break;
    }
    for (int64_t i = 0; i < s->count; ++i)
        if (out[i] < 0 || out[i] >= items)
            return hd_fail(HD_ERROR_INDEX, "the sampler's index %lld of epoch %lld is %lld; there are %lld items",
                           (long long)i, (long long)epoch, (long long)out[i], (long long)items);
    return HD_OK;
}

hd_tensor *hd_sampler_order(hd_sampler *sampler, int64_t epoch) {
    HD_ENTER("hd_sampler_order", NULL);
    HD_TRY_OR(hd_sampler_check(sampler, "sampler"), NULL);
    if (epoch < 0) {
        hd_fail(HD_ERROR_VALUE, "epoch %lld; they count from 0", (long long)epoch);
        return NULL;
    }
    int64_t *order = hd_array_resize(NULL, (size_t)(sampler->count > 0 ? sampler->count : 1) * sizeof *order);
    if (order == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the order of %lld items", (long long)sampler->count);
        return NULL;
    }
    hd_tensor *t = NULL;
    HD_KEEP_NAME(thread);
    if (hd_sampler_fill(thread, sampler, sampler->seed, epoch, INT64_MAX, order) == HD_OK)
        t = hd_from_data(order, HD_SHAPE(sampler->count), HD_I64);
    hd_array_release(order);
    return t;
}
