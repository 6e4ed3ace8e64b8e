/* Reductions, and what is made of them. */
#include "ops/op.h"

#include <math.h>

hd_dtype hd_sum_dtype(hd_dtype dtype) {
    if (hd_dtype_is_float(dtype)) return dtype;
    return dtype == HD_BOOL || hd_dtype_is_signed(dtype) ? HD_I64 : HD_U64;
}

static hd_dtype result_dtype(hd_op_id id, hd_dtype dtype) {
    if (id == HD_OP_any || id == HD_OP_all) return HD_BOOL;
    return id == HD_OP_sum || id == HD_OP_prod ? hd_sum_dtype(dtype) : dtype;
}

hd_shape hd_reduced_shape(const hd_shape *shape, const bool *reduced, bool keep) {
    hd_shape out = {.rank = 0};
    for (int i = 0; i < shape->rank; ++i)
        if (!reduced[i] || keep) out.size[out.rank++] = reduced[i] ? 1 : shape->size[i];
    return out;
}

static hd_error check_not_empty(const hd_shape *shape, const bool *reduced) {
    for (int i = 0; i < shape->rank; ++i)
        if (reduced[i] && shape->size[i] == 0)
            return hd_fail(HD_ERROR_SHAPE, "axis %d of %s is empty and has no such element", i, HD_SHAPE_TEXT(*shape));
    return HD_OK;
}

static hd_tensor *execute_reduce(const char *name, const void *caller, hd_op_id id, hd_tensor *x, hd_axes axes,
                                 const hd_reduce_opts *opts) {
    hd_thread *thread = hd_thread_enter(name, caller);
    if (thread == NULL) return NULL;
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_READ_OPTS(hd_reduce_opts, opts, NULL);
    hd_reduce_attributes attributes = {.keep_dims = options.keep_dims};
    HD_TRY_OR(hd_axes_resolve(axes, x->layout.shape.rank, attributes.reduced), NULL);
    if (id == HD_OP_max || id == HD_OP_min) HD_TRY_OR(check_not_empty(&x->layout.shape, attributes.reduced), NULL);
    const hd_shape shape = hd_reduced_shape(&x->layout.shape, attributes.reduced, options.keep_dims);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], &x, 1, result_dtype(id, (hd_dtype)x->dtype), &shape, &attributes);
    return hd_execute(thread, &call);
}

#define REDUCTION(name)                                                                                                \
    hd_tensor *hd_##name(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts) {                                     \
        return execute_reduce("hd_" #name, __builtin_return_address(0), HD_OP_##name, x, axes, opts);                  \
    }
REDUCTION(sum)
REDUCTION(prod)
REDUCTION(max)
REDUCTION(min)
REDUCTION(any)
REDUCTION(all)

static hd_tensor *arg_reduce(hd_thread *thread, hd_op_id id, hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_READ_OPTS(hd_reduce_opts, opts, NULL);
    hd_reduce_attributes attributes = {.keep_dims = options.keep_dims};
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    attributes.reduced[axis] = true;
    HD_TRY_OR(check_not_empty(&x->layout.shape, attributes.reduced), NULL);
    const hd_shape shape = hd_reduced_shape(&x->layout.shape, attributes.reduced, options.keep_dims);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], &x, 1, HD_I64, &shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_argmax(hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_argmax", NULL);
    return arg_reduce(thread, HD_OP_argmax, x, axis, opts);
}

hd_tensor *hd_argmin(hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_argmin", NULL);
    return arg_reduce(thread, HD_OP_argmin, x, axis, opts);
}

/* ---- composites -------------------------------------------------------------------------------------------------- */
static hd_error count_reduced(const hd_tensor *x, hd_axes axes, double *count) {
    bool reduced[HD_MAX_RANK];
    HD_TRY(hd_tensor_check(x, "x"));
    HD_TRY(hd_axes_resolve(axes, x->layout.shape.rank, reduced));
    *count = 1;
    for (int i = 0; i < x->layout.shape.rank; ++i) *count *= reduced[i] ? (double)x->layout.shape.size[i] : 1;
    return HD_OK;
}

hd_tensor *hd_as_float(hd_tensor *x) {
    const hd_dtype dtype = hd_tensor_dtype(x);
    return hd_cast(x, !hd_dtype_is_float(dtype) ? HD_DTYPE_DEFAULT : hd_dtype_is_small_float(dtype) ? HD_F32 : dtype);
}
hd_dtype hd_float_result(const hd_thread *thread, const hd_tensor *x) {
    if (thread->autocast != NULL && hd_dtype_is_small_float((hd_dtype)x->dtype)) return HD_F32;
    return hd_dtype_is_float((hd_dtype)x->dtype) ? (hd_dtype)x->dtype : thread->default_dtype;
}

hd_tensor *hd_mean(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts) {
    HD_ENTER("hd_mean", NULL);
    double count;
    HD_TRY_OR(count_reduced(x, axes, &count), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "mean");
    if (!hd_dtype_is_float((hd_dtype)x->dtype)) /* integers sum exactly */
        return hd_span_end(&span, hd_cast(hd_div_scalar(hd_sum(x, axes, opts), count), thread->default_dtype));
    return hd_span_end(&span,
                       hd_cast(hd_div_scalar(hd_sum(hd_as_float(x), axes, opts), count), hd_float_result(thread, x)));
}

hd_tensor *hd_root(hd_tensor *v, double power) {
    if (v == NULL) return NULL;
    hd_tensor *is_zero = hd_eq_scalar(v, 0), *one = hd_number((hd_dtype)v->dtype, 1);
    hd_tensor *safe = hd_where(is_zero, one, v), *zero = hd_number((hd_dtype)v->dtype, power > 0 ? 0 : INFINITY);
    return hd_where(is_zero, zero, power == 0.5 ? hd_sqrt(safe) : hd_pow_scalar(safe, power));
}

static hd_tensor *variance(hd_thread *thread, hd_tensor *x, hd_axes axes, double correction, const hd_reduce_opts *opts,
                           bool with_root) {
    double count;
    HD_TRY_OR(count_reduced(x, axes, &count), NULL);
    hd_span span;
    hd_span_begin(&span, thread, with_root ? "std" : "var");
    hd_tensor *f = hd_as_float(x), *mean = hd_mean(f, axes, HD_OPTS(hd_reduce_opts, .keep_dims = true));
    const double divisor = count - correction > 0 ? count - correction : 0; /* 0 / 0: NaN, as for one sample */
    hd_tensor *v = hd_div_scalar(hd_sum(hd_square(hd_sub(f, mean)), axes, opts), divisor);
    return hd_span_end(&span, hd_cast(with_root ? hd_root(v, 0.5) : v, hd_float_result(thread, x)));
}

hd_tensor *hd_var(hd_tensor *x, hd_axes axes, double correction, const hd_reduce_opts *opts) {
    HD_ENTER("hd_var", NULL);
    return variance(thread, x, axes, correction, opts, false);
}

hd_tensor *hd_std(hd_tensor *x, hd_axes axes, double correction, const hd_reduce_opts *opts) {
    HD_ENTER("hd_std", NULL);
    return variance(thread, x, axes, correction, opts, true);
}

hd_tensor *hd_norm(hd_tensor *x, double p, hd_axes axes, const hd_reduce_opts *opts) {
    HD_ENTER("hd_norm", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (p != p) {
        hd_fail(HD_ERROR_VALUE, "p is NaN");
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "norm");
    hd_tensor *f = hd_as_float(x), *result;
    if (isinf(p))
        result = p > 0 ? hd_max(hd_abs(f), axes, opts) : hd_min(hd_abs(f), axes, opts);
    else if (p == 0)
        result = hd_cast(hd_count_nonzero(f, axes, opts), (hd_dtype)HD_F64);
    else if (p == 1)
        result = hd_sum(hd_abs(f), axes, opts);
    else if (p == 2)
        result = hd_root(hd_sum(hd_square(f), axes, opts), 0.5);
    else
        result = hd_root(hd_sum(hd_root(hd_abs(f), p), axes, opts), 1 / p);
    return hd_span_end(&span, hd_cast(result, hd_float_result(thread, x)));
}

/* The largest over axes, which have size 1 then; 0 of no elements. It cancels in the results, so no gradient flows
 * through it. */
static hd_tensor *shift_of(hd_tensor *f, hd_axes axes, bool empty) {
    hd_tensor *values = hd_detach(f);
    const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
    return empty ? hd_sum(values, axes, keep) : hd_max(values, axes, keep);
}

hd_tensor *hd_logsumexp(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts) {
    HD_ENTER("hd_logsumexp", NULL);
    double count;
    HD_TRY_OR(count_reduced(x, axes, &count), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "logsumexp");
    hd_tensor *f = hd_as_float(x), *largest = shift_of(f, axes, count == 0);
    /* a row of infinities: subtracting them would give NaN */
    hd_tensor *shift = hd_where(hd_isinf(largest), hd_zeros_like(largest), largest);
    hd_tensor *sum = hd_log(hd_sum(hd_exp(hd_sub(f, shift)), axes, opts));
    hd_tensor *back = hd_sum(shift, axes, opts); /* one element each: the shape of the result */
    return hd_span_end(&span, hd_cast(hd_add(sum, back), hd_float_result(thread, x)));
}

static hd_tensor *softmax(hd_thread *thread, hd_tensor *x, int axis, bool in_logarithm) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    hd_span span;
    hd_span_begin(&span, thread, in_logarithm ? "log_softmax" : "softmax");
    hd_tensor *f = hd_as_float(x), *largest = shift_of(f, HD_AXES(axis), x->layout.shape.size[axis] == 0);
    hd_tensor *s = hd_sub(f, largest), *e = hd_exp(s);
    hd_tensor *sum = hd_sum(e, HD_AXES(axis), HD_OPTS(hd_reduce_opts, .keep_dims = true));
    hd_tensor *y = in_logarithm ? hd_sub(s, hd_log(sum)) : hd_div(e, sum);
    return hd_span_end(&span, hd_cast(y, hd_float_result(thread, x)));
}

hd_tensor *hd_softmax(hd_tensor *x, int axis) {
    HD_ENTER("hd_softmax", NULL);
    return softmax(thread, x, axis, false);
}

hd_tensor *hd_log_softmax(hd_tensor *x, int axis) {
    HD_ENTER("hd_log_softmax", NULL);
    return softmax(thread, x, axis, true);
}

hd_tensor *hd_count_nonzero(hd_tensor *x, hd_axes axes, const hd_reduce_opts *opts) {
    HD_ENTER("hd_count_nonzero", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "count_nonzero");
    return hd_span_end(&span, hd_sum(hd_ne_scalar(x, 0), axes, opts));
}

static hd_error check_sum_to_shape(const hd_tensor *x, const hd_shape *shape) {
    const hd_shape *from = &x->layout.shape;
    hd_shape broadcast;
    int64_t count;
    HD_TRY(hd_shape_check(shape, 1, &count));
    HD_TRY(hd_shape_broadcast(shape, from, &broadcast));
    if (hd_shape_equal(broadcast, *from)) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "%s does not broadcast to x's %s", HD_SHAPE_TEXT(*shape), HD_SHAPE_TEXT(*from));
}

static hd_tensor *sum_to_shape(hd_thread *thread, hd_tensor *x, const hd_shape *shape) {
    const hd_shape *from = &x->layout.shape;
    hd_axes axes = {.count = 0};
    const int extra = from->rank - shape->rank;
    for (int i = 0; i < from->rank; ++i)
        if (i < extra || (shape->size[i - extra] == 1 && from->size[i] != 1)) axes.axis[axes.count++] = i;
    hd_span span;
    hd_span_begin(&span, thread, "sum_to_shape");
    if (axes.count == 0) { /* the same shape */
        const hd_dtype dtype = result_dtype(HD_OP_sum, (hd_dtype)x->dtype);
        return hd_span_end(&span, dtype == (hd_dtype)x->dtype ? hd_copy(x) : hd_cast(x, dtype));
    }
    return hd_span_end(&span, hd_reshape(hd_sum(x, axes, NULL), *shape));
}

hd_tensor *hd_sum_to_shape(hd_tensor *x, hd_shape shape) {
    HD_ENTER("hd_sum_to_shape", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_sum_to_shape(x, &shape), NULL);
    return sum_to_shape(thread, x, &shape);
}

hd_tensor *hd_gradient_to_shape(hd_tensor *gradient, const hd_shape *shape) {
    hd_thread *thread = hd_thread_self();
    if (gradient == NULL || thread->error_code != HD_OK) return NULL;
    if (hd_shape_equal(*shape, gradient->layout.shape)) return gradient;
    return sum_to_shape(thread, gradient, shape);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* A reduced tensor with its axes back, of size 1. */
static hd_tensor *with_axes(hd_tensor *t, const hd_vjp_call *v) {
    const hd_reduce_attributes *attributes = v->attributes;
    return hd_reshape(t, hd_reduced_shape(&v->shapes[0], attributes->reduced, true));
}

void hd_vjp_sum(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_broadcast_to(with_axes(v->gradient, v), v->shapes[0]);
}

/* Shared evenly among those that are largest; when the result is NaN, among the NaNs. */
void hd_vjp_extreme(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_reduce_attributes *attributes = v->attributes;
    hd_axes axes = {.count = 0};
    for (int i = 0; i < v->shapes[0].rank; ++i)
        if (attributes->reduced[i]) axes.axis[axes.count++] = i;
    if (axes.count == 0) { /* a scalar, or nothing reduced */
        v->results[0] = v->gradient;
        return;
    }
    hd_tensor *x = hd_detach(v->inputs[0]), *y = with_axes(hd_detach(v->output), v);
    hd_tensor *is_nan = hd_logical_and(hd_isnan(x), hd_isnan(y));
    const hd_dtype dtype = (hd_dtype)v->dtypes[0],
                   wide = hd_dtype_is_small_float(dtype) ? HD_F32 : dtype; /* to count in */
    hd_tensor *mask = hd_cast(hd_logical_or(hd_eq(x, y), is_nan), wide);
    hd_tensor *count = hd_sum(mask, axes, HD_OPTS(hd_reduce_opts, .keep_dims = true));
    v->results[0] = hd_cast(hd_mul(mask, hd_div(hd_cast(with_axes(v->gradient, v), wide), count)), dtype);
}

/* p[..., i] = the product of all x[..., j] with j < i; by doubling: p covers 1, 2, 4, ... elements in front of each. */
static hd_tensor *products_before(hd_tensor *x) {
    const int last = hd_tensor_rank(x) - 1;
    const int64_t n = hd_tensor_size(x, last);
    hd_tensor *p = hd_pad(hd_narrow(x, last, 0, n - 1), &(hd_padding){1, 0}, 1, 1);
    for (int64_t reach = 1; reach < n && p != NULL; reach *= 2)
        p = hd_mul(p, hd_pad(hd_narrow(p, last, 0, n - reach), &(hd_padding){reach, 0}, 1, 1));
    return p;
}

/* The product of all others, without dividing: right also when some are 0, to any order. */
void hd_vjp_prod(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_reduce_attributes *attributes = v->attributes;
    const hd_shape *shape = &v->shapes[0];
    hd_axes order = {.count = 0}, back = {.count = shape->rank};
    hd_shape rows = {.rank = 0}, moved = {.rank = shape->rank};
    int64_t reduced = 1;
    for (int pass = 0; pass < 2; ++pass) /* the axes that stay, then those that go */
        for (int i = 0; i < shape->rank; ++i)
            if (attributes->reduced[i] == (pass == 1)) order.axis[order.count++] = i;
    for (int i = 0; i < shape->rank; ++i) {
        back.axis[order.axis[i]] = i;
        moved.size[i] = shape->size[order.axis[i]];
        if (attributes->reduced[order.axis[i]])
            reduced *= moved.size[i];
        else
            rows.size[rows.rank++] = moved.size[i];
    }
    if (reduced == 0) { /* nothing was multiplied: no elements, but of a history */
        v->results[0] = hd_mul(v->inputs[0], with_axes(v->gradient, v));
        return;
    }
    rows.size[rows.rank++] = reduced;
    if (rows.rank > HD_MAX_RANK) { /* nothing reduced at the highest rank */
        v->results[0] = v->gradient;
        return;
    }
    hd_tensor *x = hd_reshape(hd_permute(v->inputs[0], order), rows), *flipped = hd_flip(x, HD_AXES(-1));
    hd_tensor *others = hd_mul(products_before(x), hd_flip(products_before(flipped), HD_AXES(-1)));
    others = hd_permute(hd_reshape(others, moved), back);
    v->results[0] = hd_mul(others, with_axes(v->gradient, v));
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
/* The axes; false with an error when there are none, which would mean all of them. */
static bool replayed_axes(const hd_replay_call *r, hd_axes *axes) {
    const hd_reduce_attributes *a = r->attributes;
    const int rank = r->inputs[0]->layout.shape.rank;
    *axes = (hd_axes){.count = 0};
    for (int i = 0; i < HD_MAX_RANK; ++i)
        if (a->reduced[i] && i >= rank)
            return hd_fail(HD_ERROR_AXIS, "axis %d of a tensor of rank %d", i, rank), false;
        else if (a->reduced[i])
            axes->axis[axes->count++] = i;
    if (rank > 0 && axes->count == 0) return hd_fail(HD_ERROR_AXIS, "a reduction over no axis"), false;
    return true;
}

static const hd_reduce_opts *replayed_opts(const hd_replay_call *r, hd_reduce_opts *opts) {
    *opts = HD_DEFAULTS(hd_reduce_opts);
    opts->keep_dims = ((const hd_reduce_attributes *)r->attributes)->keep_dims;
    return opts;
}

#define REPLAY(name)                                                                                                   \
    void hd_replay_##name(hd_replay_call *r) {                                                                         \
        hd_axes axes;                                                                                                  \
        hd_reduce_opts opts;                                                                                           \
        if (replayed_axes(r, &axes)) r->output = hd_##name(r->inputs[0], axes, replayed_opts(r, &opts));               \
    }
REPLAY(sum)
REPLAY(prod)
REPLAY(max)
REPLAY(min)
REPLAY(any)
REPLAY(all)

bool hd_replay_axis(const hd_replay_call *r, int *axis, hd_reduce_opts *opts) {
    hd_axes axes;
    if (!replayed_axes(r, &axes)) return false;
    if (axes.count != 1) return hd_fail(HD_ERROR_AXIS, "%d axes; there must be one", axes.count), false;
    *axis = axes.axis[0];
    replayed_opts(r, opts);
    return true;
}

#define REPLAY_OF_ONE_AXIS(name)                                                                                       \
    void hd_replay_##name(hd_replay_call *r) {                                                                         \
        int axis;                                                                                                      \
        hd_reduce_opts opts;                                                                                           \
        if (hd_replay_axis(r, &axis, &opts)) r->output = hd_##name(r->inputs[0], axis, &opts);                         \
    }
REPLAY_OF_ONE_AXIS(argmax)
REPLAY_OF_ONE_AXIS(argmin)
