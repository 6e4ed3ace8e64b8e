/* Normalisation: layer_norm and rms_norm, one node and one pass over memory each, and their gradients. Backward runs
 * the fused gradients, or, where it will itself be differentiated, the same formulas in other ops. */
#include "ops/op.h"

#include <math.h>

/* The last `axes` axes of x, as a shape. */
static hd_shape normalised_shape(const hd_shape *x, int axes) {
    hd_shape shape = {.rank = axes};
    for (int i = 0; i < axes; ++i) shape.size[i] = x->size[x->rank - axes + i];
    return shape;
}

static hd_error check_norm(const hd_tensor *x, int axes, double eps) {
    const hd_shape *shape = &x->layout.shape;
    if (axes < 1 || axes > shape->rank)
        return hd_fail(HD_ERROR_AXIS, "the last %d axes of x %s; there must be at least 1, and x must have them", axes,
                       HD_SHAPE_TEXT(*shape));
    if (!(eps >= 0) || isinf(eps)) return hd_fail(HD_ERROR_VALUE, "eps = %g; it must be at least 0 and finite", eps);
    return HD_OK;
}

static hd_error check_scale(const hd_tensor *t, const char *what, const hd_shape *shape) {
    if (t == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(t, what));
    return hd_shape_equal(t->layout.shape, *shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "%s %s; it must have the shape of the normalised axes, %s", what,
                         HD_SHAPE_TEXT(t->layout.shape), HD_SHAPE_TEXT(*shape));
}

/* Runs any op of the family on inputs that were checked; the last ones may be NULL. */
static hd_tensor *execute_norm(hd_thread *thread, hd_op_id id, hd_tensor *const *inputs, int most,
                               const hd_shape *shape, int axes, double eps) {
    int count = 0;
    hd_dtype dtype = (hd_dtype)inputs[0]->dtype;
    for (; count < most && inputs[count] != NULL; ++count)
        dtype = hd_dtype_promote(dtype, (hd_dtype)inputs[count]->dtype);
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats", hd_dtype_name(dtype));
        return NULL;
    }
    int64_t elements;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &elements), NULL);
    const hd_norm_attributes attributes = {.axes = axes, .eps = eps};
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, count, dtype, shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_layer_norm(hd_tensor *x, int axes, hd_tensor *weight, hd_tensor *bias, double eps) {
    HD_ENTER("hd_layer_norm", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_norm(x, axes, eps), NULL);
    const hd_shape shape = normalised_shape(&x->layout.shape, axes);
    HD_TRY_OR(check_scale(weight, "weight", &shape), NULL);
    HD_TRY_OR(check_scale(bias, "bias", &shape), NULL);
    if (weight != NULL || bias == NULL)
        return execute_norm(thread, HD_OP_layer_norm, (hd_tensor *[]){x, weight, bias}, 3, &x->layout.shape, axes, eps);
    hd_span span; /* rare: two nodes will do */
    hd_span_begin(&span, thread, "layer_norm");
    return hd_span_end(&span, hd_add(hd_layer_norm(x, axes, NULL, NULL, eps), bias));
}

hd_tensor *hd_rms_norm(hd_tensor *x, hd_tensor *weight, double eps) {
    HD_ENTER("hd_rms_norm", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_norm(x, 1, eps), NULL);
    const hd_shape shape = normalised_shape(&x->layout.shape, 1);
    HD_TRY_OR(check_scale(weight, "weight", &shape), NULL);
    return execute_norm(thread, HD_OP_rms_norm, (hd_tensor *[]){x, weight}, 2, &x->layout.shape, 1, eps);
}

static hd_error check_gradient(const hd_tensor *gradient, const hd_tensor *x, int axes, double eps) {
    HD_TRY(hd_tensor_check(gradient, "gradient"));
    HD_TRY(hd_tensor_check(x, "x"));
    HD_TRY(check_norm(x, axes, eps));
    return hd_shape_equal(gradient->layout.shape, x->layout.shape)
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "gradient %s; it must have the shape of x, %s",
                         HD_SHAPE_TEXT(gradient->layout.shape), HD_SHAPE_TEXT(x->layout.shape));
}

static hd_tensor *gradient_of_x(hd_thread *thread, hd_op_id id, hd_tensor *gradient, hd_tensor *x, int axes,
                                hd_tensor *weight, double eps) {
    HD_TRY_OR(check_gradient(gradient, x, axes, eps), NULL);
    const hd_shape shape = normalised_shape(&x->layout.shape, axes);
    HD_TRY_OR(check_scale(weight, "weight", &shape), NULL);
    return execute_norm(thread, id, (hd_tensor *[]){gradient, x, weight}, 3, &x->layout.shape, axes, eps);
}

hd_tensor *hd_layer_norm_gradient(hd_tensor *gradient, hd_tensor *x, int axes, hd_tensor *weight, double eps) {
    HD_ENTER("hd_layer_norm_gradient", NULL);
    return gradient_of_x(thread, HD_OP_layer_norm_gradient, gradient, x, axes, weight, eps);
}

hd_tensor *hd_rms_norm_gradient(hd_tensor *gradient, hd_tensor *x, hd_tensor *weight, double eps) {
    HD_ENTER("hd_rms_norm_gradient", NULL);
    return gradient_of_x(thread, HD_OP_rms_norm_gradient, gradient, x, 1, weight, eps);
}

hd_tensor *hd_layer_norm_weight_gradient(hd_tensor *gradient, hd_tensor *x, int axes, double eps) {
    HD_ENTER("hd_layer_norm_weight_gradient", NULL);
    HD_TRY_OR(check_gradient(gradient, x, axes, eps), NULL);
    if (axes == HD_MAX_RANK) {
        hd_fail(HD_ERROR_AXIS, "all %d axes of x; there is none left to tell weight and bias apart", axes);
        return NULL;
    }
    const hd_shape part = normalised_shape(&x->layout.shape, axes);
    hd_shape shape = {.rank = axes + 1, .size = {2}};
    for (int i = 0; i < axes; ++i) shape.size[i + 1] = part.size[i];
    return execute_norm(thread, HD_OP_layer_norm_weight_gradient, (hd_tensor *[]){gradient, x}, 2, &shape, axes, eps);
}

hd_tensor *hd_rms_norm_weight_gradient(hd_tensor *gradient, hd_tensor *x, double eps) {
    HD_ENTER("hd_rms_norm_weight_gradient", NULL);
    HD_TRY_OR(check_gradient(gradient, x, 1, eps), NULL);
    const hd_shape shape = normalised_shape(&x->layout.shape, 1);
    return execute_norm(thread, HD_OP_rms_norm_weight_gradient, (hd_tensor *[]){gradient, x}, 2, &shape, 1, eps);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* The same in other ops, which have gradients themselves. */
static void read_as_ops(const hd_vjp_call *v, bool centered) {
    const hd_norm_attributes *a = v->attributes;
    const hd_dtype wide = hd_dtype_is_small_float((hd_dtype)v->compute) ? HD_F32 : (hd_dtype)v->compute;
    const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
    hd_axes axes = {.count = a->axes};
    for (int i = 0; i < a->axes; ++i) axes.axis[i] = i - a->axes;
    hd_tensor *g = hd_cast(v->gradient, wide);
    if (v->wanted[0] || (v->input_count > 1 && v->wanted[1])) {
        hd_tensor *x = hd_cast(v->inputs[0], wide), *d = centered ? hd_sub(x, hd_mean(x, axes, keep)) : x;
        hd_tensor *scale = hd_rsqrt(hd_add_scalar(hd_mean(hd_square(d), axes, keep), a->eps)), *z = hd_mul(d, scale);
        if (v->wanted[0]) {
            hd_tensor *h = v->input_count > 1 ? hd_mul(g, hd_cast(v->inputs[1], wide)) : g;
            hd_tensor *rest = hd_mul(z, hd_mean(hd_mul(h, z), axes, keep));
            if (centered) rest = hd_add(rest, hd_mean(h, axes, keep));
            v->results[0] = hd_cast(hd_mul(scale, hd_sub(h, rest)), (hd_dtype)v->dtypes[0]);
        }
        if (v->input_count > 1 && v->wanted[1])
            v->results[1] = hd_cast(hd_gradient_to_shape(hd_mul(g, z), &v->shapes[1]), (hd_dtype)v->dtypes[1]);
    }
    if (v->input_count > 2 && v->wanted[2])
        v->results[2] = hd_cast(hd_gradient_to_shape(g, &v->shapes[2]), (hd_dtype)v->dtypes[2]);
}

void hd_vjp_layer_norm(hd_thread *thread, const hd_vjp_call *v) {
    const hd_norm_attributes *a = v->attributes;
    const bool weight = v->input_count > 1 && v->wanted[1], bias = v->input_count > 2 && v->wanted[2];
    if (thread->observer != NULL || (weight && a->axes == HD_MAX_RANK)) {
        read_as_ops(v, true);
        return;
    }
    if (v->wanted[0])
        v->results[0] = hd_cast(hd_layer_norm_gradient(v->gradient, v->inputs[0], a->axes,
                                                       v->input_count > 1 ? v->inputs[1] : NULL, a->eps),
                                (hd_dtype)v->dtypes[0]);
    if (weight) {
        hd_tensor *both = hd_layer_norm_weight_gradient(v->gradient, v->inputs[0], a->axes, a->eps);
        v->results[1] = hd_cast(hd_select(both, 0, 0), (hd_dtype)v->dtypes[1]);
        if (bias) v->results[2] = hd_cast(hd_select(both, 0, 1), (hd_dtype)v->dtypes[2]);
    } else if (bias) {
        v->results[2] = hd_cast(hd_gradient_to_shape(v->gradient, &v->shapes[2]), (hd_dtype)v->dtypes[2]);
    }
}

void hd_vjp_rms_norm(hd_thread *thread, const hd_vjp_call *v) {
    const hd_norm_attributes *a = v->attributes;
    if (thread->observer != NULL) {
        read_as_ops(v, false);
        return;
    }
    if (v->wanted[0])
        v->results[0] =
            hd_cast(hd_rms_norm_gradient(v->gradient, v->inputs[0], v->input_count > 1 ? v->inputs[1] : NULL, a->eps),
                    (hd_dtype)v->dtypes[0]);
    if (v->input_count > 1 && v->wanted[1])
        v->results[1] = hd_cast(hd_rms_norm_weight_gradient(v->gradient, v->inputs[0], a->eps), (hd_dtype)v->dtypes[1]);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
static bool over_one_axis(const hd_norm_attributes *a) {
    if (a->axes != 1) hd_fail(HD_ERROR_VALUE, "rms_norm over %d axes; it is over one", a->axes);
    return a->axes == 1;
}
void hd_replay_layer_norm(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    r->output = hd_layer_norm(r->inputs[0], a->axes, hd_replay_input(r, 1), hd_replay_input(r, 2), a->eps);
}
void hd_replay_layer_norm_gradient(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    r->output = hd_layer_norm_gradient(r->inputs[0], r->inputs[1], a->axes, hd_replay_input(r, 2), a->eps);
}
void hd_replay_layer_norm_weight_gradient(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    r->output = hd_layer_norm_weight_gradient(r->inputs[0], r->inputs[1], a->axes, a->eps);
}
void hd_replay_rms_norm(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    if (over_one_axis(a)) r->output = hd_rms_norm(r->inputs[0], hd_replay_input(r, 1), a->eps);
}
void hd_replay_rms_norm_gradient(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    if (over_one_axis(a)) r->output = hd_rms_norm_gradient(r->inputs[0], r->inputs[1], hd_replay_input(r, 2), a->eps);
}
void hd_replay_rms_norm_weight_gradient(hd_replay_call *r) {
    const hd_norm_attributes *a = r->attributes;
    if (over_one_axis(a)) r->output = hd_rms_norm_weight_gradient(r->inputs[0], r->inputs[1], a->eps);
}
