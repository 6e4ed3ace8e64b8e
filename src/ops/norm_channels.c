/* Norms that know channels, of [n, c, ...], and norms of vectors, made of other ops. Small floats are computed in f32
 * and rounded once, at the end. */
#include "ops/fused.h"

#include <math.h>

enum { LARGEST = 1 << 30 };

/* ---- checks ------------------------------------------------------------------------------------------------------ */
static hd_error check_floats(const hd_tensor *x, const char *what) {
    HD_TRY(hd_tensor_check(x, what));
    return hd_dtype_is_float((hd_dtype)x->dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_DTYPE, "%s is %s; it takes floats: cast it", what, hd_dtype_name((hd_dtype)x->dtype));
}

static hd_error check_eps(double eps) {
    return eps >= 0 && !isinf(eps) ? HD_OK : hd_fail(HD_ERROR_VALUE, "eps = %g; it must be at least 0 and finite", eps);
}

static hd_error check_images(const hd_tensor *x, int least) {
    HD_TRY(check_floats(x, "x"));
    return x->layout.shape.rank >= least
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "x %s; it must be [n, channels, %s]", HD_SHAPE_TEXT(x->layout.shape),
                         least == 2 ? "..." : "one axis at least");
}

/* What has a number for each channel of x, or is NULL. */
static hd_error check_by_channel(const hd_tensor *t, const char *what, const hd_tensor *x) {
    if (t == NULL) return HD_OK;
    HD_TRY(check_floats(t, what));
    const int64_t channels = x->layout.shape.size[1];
    return t->layout.shape.rank == 1 && t->layout.shape.size[0] == channels
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "%s %s for x %s; it must be [%lld], a number for each channel", what,
                         HD_SHAPE_TEXT(t->layout.shape), HD_SHAPE_TEXT(x->layout.shape), (long long)channels);
}

static hd_error check_scaled(const hd_tensor *x, int least, const hd_tensor *weight, const hd_tensor *bias,
                             double eps) {
    HD_TRY(check_images(x, least));
    HD_TRY(check_by_channel(weight, "weight", x));
    HD_TRY(check_by_channel(bias, "bias", x));
    return check_eps(eps);
}

/* ---- channels ---------------------------------------------------------------------------------------------------- */
/* What the result is, and what it is computed in. */
typedef struct dtypes {
    hd_dtype result, wide;
} dtypes;
static dtypes dtypes_of(const hd_tensor *x, const hd_tensor *y, const hd_tensor *z) {
    hd_dtype dtype = (hd_dtype)x->dtype;
    if (y != NULL) dtype = hd_dtype_promote(dtype, (hd_dtype)y->dtype);
    if (z != NULL) dtype = hd_dtype_promote(dtype, (hd_dtype)z->dtype);
    const hd_dtype wide = hd_dtype_is_small_float(dtype) ? HD_F32 : dtype;
    return (dtypes){hd_thread_self()->autocast != NULL ? wide : dtype, wide};
}

typedef struct statistics {
    hd_tensor *mean, *variance;
} statistics;

/* [c] as it broadcasts to [n, c, ...] of this rank. */
static hd_tensor *by_channel(hd_tensor *t, int rank, hd_dtype dtype) {
    hd_shape shape = {.rank = rank - 1, .size = {t->layout.shape.size[0], 1, 1, 1, 1, 1, 1, 1}};
    return hd_reshape(hd_cast(t, dtype), shape);
}

/* Elements of one image behind the channels. */
static int64_t behind_channels(const hd_shape *shape) {
    int64_t count = 1;
    for (int i = 2; i < shape->rank; ++i) count *= shape->size[i];
    return count;
}

/* x, as it is computed, in one call; *is_fused is false when that does not suit it. `batch`: mean and variance of
 * channels, when they are asked for. */
static hd_tensor *norm_fused(hd_tensor *x, int64_t groups, hd_tensor *weight, hd_tensor *bias, double eps,
                             statistics *batch, bool *is_fused) {
    hd_thread *thread = hd_thread_self();
    *is_fused = hd_may_fuse(thread, x, weight) && hd_may_fuse(thread, x, bias) && x->count > 0 &&
                behind_channels(&x->layout.shape) >= HD_FUSED_NORM_LEAST;
    if (!*is_fused) return NULL;
    const hd_dtype dtype = (hd_dtype)x->dtype;
    if (weight != NULL) weight = hd_cast(weight, dtype);
    if (bias != NULL) bias = hd_cast(bias, dtype);
    hd_tensor *both = NULL;
    hd_tensor *y = hd_fused_channel_norm(thread, x, groups, weight, bias, eps, batch == NULL ? NULL : &both);
    if (batch != NULL) {
        both = hd_cast(both, dtype);
        *batch = (statistics){hd_select(both, 1, 0), hd_select(both, 1, 1)};
    }
    return y;
}

/* Each row of [n, groups, inner] is normalised, and each channel scaled. */
static hd_tensor *norm_rows(hd_tensor *x, int64_t groups, int64_t inner, hd_tensor *weight, hd_tensor *bias,
                            double eps) {
    const hd_shape shape = x->layout.shape;
    const dtypes of = dtypes_of(x, weight, bias);
    bool is_fused;
    hd_tensor *f = hd_cast(x, of.wide), *y = norm_fused(f, groups, weight, bias, eps, NULL, &is_fused);
    if (is_fused) return hd_cast(y, of.result);
    hd_tensor *rows = hd_reshape(f, HD_SHAPE(shape.size[0], groups, inner));
    y = hd_reshape(hd_layer_norm(rows, 1, NULL, NULL, eps), shape);
    hd_tensor *w = weight == NULL ? NULL : by_channel(weight, shape.rank, of.wide),
              *b = bias == NULL ? NULL : by_channel(bias, shape.rank, of.wide);
    if (w != NULL && b != NULL)
        y = hd_fma(y, w, b);
    else if (w != NULL)
        y = hd_mul(y, w);
    else if (b != NULL)
        y = hd_add(y, b);
    return hd_cast(y, of.result);
}

hd_tensor *hd_group_norm(hd_tensor *x, int64_t groups, hd_tensor *weight, hd_tensor *bias, double eps) {
    HD_ENTER("hd_group_norm", NULL);
    HD_TRY_OR(check_scaled(x, 2, weight, bias, eps), NULL);
    const hd_shape *shape = &x->layout.shape;
    if (groups < 1 || shape->size[1] % groups != 0) {
        hd_fail(HD_ERROR_VALUE,
                "%lld groups of the channels of x %s; there must be at least 1, and it must divide %lld",
                (long long)groups, HD_SHAPE_TEXT(*shape), (long long)shape->size[1]);
        return NULL;
    }
    const int64_t inner = shape->size[1] / groups * behind_channels(shape);
    hd_span span;
    hd_span_begin(&span, thread, "group_norm");
    return hd_span_end(&span, norm_rows(x, groups, inner, weight, bias, eps));
}

hd_tensor *hd_instance_norm(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, double eps) {
    HD_ENTER("hd_instance_norm", NULL);
    HD_TRY_OR(check_scaled(x, 3, weight, bias, eps), NULL);
    const hd_shape *shape = &x->layout.shape;
    hd_span span;
    hd_span_begin(&span, thread, "instance_norm");
    return hd_span_end(&span, norm_rows(x, shape->size[1], behind_channels(shape), weight, bias, eps));
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static hd_error check_batch(const hd_tensor *x, const statistics *running, bool training, double momentum) {
    HD_TRY(check_by_channel(running->mean, "running_mean", x));
    HD_TRY(check_by_channel(running->variance, "running_variance", x));
    const char *missing = running->mean == NULL ? "running_mean" : "running_variance";
    if ((running->mean == NULL) != (running->variance == NULL))
        return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL, and the other one is not; give both, or none", missing);
    if (!training)
        return running->mean != NULL ? HD_OK
                                     : hd_fail(HD_ERROR_NULL_ARGUMENT,
                                               "`%s` is NULL; outside training there are no other statistics", missing);
    if (!(momentum >= 0 && momentum <= 1))
        return hd_fail(HD_ERROR_VALUE, "momentum = %g; it is what a batch weighs, from 0 to 1", momentum);
    const int64_t count = x->layout.shape.size[0] * behind_channels(&x->layout.shape);
    return count > 1 ? HD_OK
                     : hd_fail(HD_ERROR_SHAPE, "x %s has %lld elements for each channel; training needs 2 at least",
                               HD_SHAPE_TEXT(x->layout.shape), (long long)count);
}

/* Both new ones are made before one is written, so that an error on the way leaves both. */
static bool move_running(const statistics *running, const statistics *batch, double unbiased, double momentum) {
    hd_tensor *const to[2] = {running->mean, running->variance};
    hd_tensor *moved[2] = {hd_detach(batch->mean), hd_mul_scalar(hd_detach(batch->variance), unbiased)};
    for (int i = 0; i < 2; ++i) {
        if (moved[i] == NULL) return false;
        const hd_dtype wide = (hd_dtype)moved[i]->dtype, own = (hd_dtype)to[i]->dtype;
        moved[i] = hd_reshape(moved[i], to[i]->layout.shape);
        moved[i] = hd_cast(hd_lerp(hd_cast(hd_detach(to[i]), wide), moved[i], hd_number(wide, momentum)), own);
        if (moved[i] == NULL) return false;
    }
    hd_assign(to[0], moved[0]);
    if (hd_ok()) hd_assign(to[1], moved[1]);
    return hd_ok();
}

/* What running statistics make of those of a batch, whose normalised elements are y. */
static hd_tensor *after_batch(hd_tensor *y, const statistics *running, const statistics *batch, const hd_shape *shape,
                              double momentum) {
    const double count = (double)shape->size[0] * (double)behind_channels(shape);
    if (y == NULL || running->mean == NULL) return y;
    return move_running(running, batch, count / (count - 1), momentum) ? y : NULL;
}

static hd_tensor *norm_batch(hd_tensor *x, const statistics *running, hd_tensor *weight, hd_tensor *bias, bool training,
                             double momentum, double eps) {
    const hd_shape shape = x->layout.shape;
    const dtypes of = dtypes_of(x, weight, bias);
    hd_tensor *f = hd_cast(x, of.wide), *d, *variance, *y = NULL;
    statistics batch = {NULL, NULL};
    bool is_fused = false;
    if (training) y = norm_fused(f, 0, weight, bias, eps, running->mean == NULL ? NULL : &batch, &is_fused);
    if (is_fused) return after_batch(hd_cast(y, of.result), running, &batch, &shape, momentum);
    if (training) {
        hd_axes axes = {.count = 1, .axis = {0}};
        for (int i = 2; i < shape.rank; ++i) axes.axis[axes.count++] = i;
        const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
        batch.mean = hd_mean(f, axes, keep);
        d = hd_sub(f, batch.mean);
        variance = batch.variance = hd_mean(hd_square(d), axes, keep);
    } else {
        d = hd_sub(f, by_channel(hd_detach(running->mean), shape.rank, of.wide));
        variance = by_channel(hd_detach(running->variance), shape.rank, of.wide);
    }
    hd_tensor *scale = hd_rsqrt(hd_add_scalar(variance, eps));
    if (weight != NULL) scale = hd_mul(scale, by_channel(weight, shape.rank, of.wide));
    y = bias == NULL ? hd_mul(d, scale) : hd_fma(d, scale, by_channel(bias, shape.rank, of.wide));
    y = hd_cast(y, of.result);
    return training ? after_batch(y, running, &batch, &shape, momentum) : y;
}

hd_tensor *hd_batch_norm(hd_tensor *x, hd_tensor *running_mean, hd_tensor *running_variance, hd_tensor *weight,
                         hd_tensor *bias, bool training, double momentum, double eps) {
    HD_ENTER("hd_batch_norm", NULL);
    const statistics running = {running_mean, running_variance};
    HD_TRY_OR(check_scaled(x, 2, weight, bias, eps), NULL);
    HD_TRY_OR(check_batch(x, &running, training, momentum), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "batch_norm");
    return hd_span_end(&span, norm_batch(x, &running, weight, bias, training, momentum, eps));
}

/* ---- neighbours -------------------------------------------------------------------------------------------------- */
static hd_tensor *respond(hd_tensor *x, int64_t size, double alpha, double beta, double k) {
    const hd_shape shape = x->layout.shape;
    if (x->count == 0) return hd_copy(x); /* there is nothing to pool */
    hd_tensor *f = hd_as_float(x);
    hd_tensor *squares = hd_reshape(hd_square(f), HD_SHAPE(shape.size[0], shape.size[1], behind_channels(&shape)));
    const hd_padding around[2] = {{size / 2, (size - 1) / 2}, {0, 0}};
    hd_tensor *mean =
        hd_avg_pool(hd_pad(squares, around, 2, 0), HD_SHAPE(size, 1), HD_OPTS(hd_pool_opts, .stride = {1, 1}));
    hd_tensor *divisor = hd_pow_scalar(hd_add_scalar(hd_mul_scalar(hd_reshape(mean, shape), alpha), k), beta);
    return hd_cast(hd_div(f, divisor), (hd_dtype)x->dtype);
}

hd_tensor *hd_local_response_norm(hd_tensor *x, int64_t size, double alpha, double beta, double k) {
    HD_ENTER("hd_local_response_norm", NULL);
    HD_TRY_OR(check_images(x, 2), NULL);
    if (size < 1 || size > LARGEST) {
        hd_fail(HD_ERROR_VALUE, "size = %lld; it is a number of channels, from 1 to %d", (long long)size, LARGEST);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "local_response_norm");
    return hd_span_end(&span, respond(x, size, alpha, beta, k));
}

/* ---- vectors ----------------------------------------------------------------------------------------------------- */
static hd_tensor *unit(hd_tensor *f, int axis, double eps) {
    hd_tensor *length = hd_norm(f, 2, HD_AXES(axis), HD_OPTS(hd_reduce_opts, .keep_dims = true));
    return hd_div(f, hd_clamp_min(length, eps));
}

hd_tensor *hd_l2_normalize(hd_tensor *x, int axis, double eps) {
    HD_ENTER("hd_l2_normalize", NULL);
    HD_TRY_OR(check_floats(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    HD_TRY_OR(check_eps(eps), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "l2_normalize");
    return hd_span_end(&span, hd_cast(unit(hd_as_float(x), axis, eps), (hd_dtype)x->dtype));
}

hd_tensor *hd_cosine_similarity(hd_tensor *a, hd_tensor *b, int axis, double eps) {
    HD_ENTER("hd_cosine_similarity", NULL);
    HD_TRY_OR(check_floats(a, "a"), NULL);
    HD_TRY_OR(check_floats(b, "b"), NULL);
    hd_shape shape;
    HD_TRY_OR(hd_shape_broadcast(&a->layout.shape, &b->layout.shape, &shape), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, shape.rank, &axis), NULL);
    HD_TRY_OR(check_eps(eps), NULL);
    const dtypes of = dtypes_of(a, b, NULL);
    hd_span span;
    hd_span_begin(&span, thread, "cosine_similarity");
    hd_tensor *of_a = unit(hd_broadcast_to(hd_cast(a, of.wide), shape), axis, eps);
    hd_tensor *of_b = unit(hd_broadcast_to(hd_cast(b, of.wide), shape), axis, eps);
    return hd_span_end(&span, hd_cast(hd_sum(hd_mul(of_a, of_b), HD_AXES(axis), NULL), of.result));
}
