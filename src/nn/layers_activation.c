/* Activations that are more than an op: those with a parameter, with draws, or made of two ops. */
#include "nn/module.h"
#include "ops/op.h"

/* ---- prelu ------------------------------------------------------------------------------------------------------- */
/* The weight as broadcasting wants it: of the channels, which are axis 1, or of everything. */
static hd_tensor *prelu_forward(hd_module *m, hd_tensor *x) {
    hd_shape of = {.rank = x->layout.shape.rank};
    const int64_t count = m->weight->count;
    for (int i = 0; i < of.rank; ++i) of.size[i] = 1;
    if (count == 1) return hd_prelu(x, hd_reshape(m->weight, of));
    const int axis = of.rank == 1 ? 0 : 1;
    if (of.rank == 0 || x->layout.shape.size[axis] != count) {
        hd_fail(HD_ERROR_SHAPE, "x %s; it must be [n, %lld, ...] for as many slopes", HD_SHAPE_TEXT(x->layout.shape),
                (long long)count);
        return NULL;
    }
    of.size[axis] = count;
    return hd_prelu(x, hd_reshape(m->weight, of));
}
static const hd_module_class prelu_class = {.name = "prelu", .forward = prelu_forward};

hd_module *hd_prelu_layer(int64_t channels, const hd_prelu_layer_opts *opts) {
    HD_ENTER("hd_prelu_layer", NULL);
    HD_READ_OPTS(hd_prelu_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_making_dtype(thread, options.dtype, &dtype), NULL);
    if (channels < 1) {
        hd_fail(HD_ERROR_VALUE, "%lld slopes; one, or one for each channel", (long long)channels);
        return NULL;
    }
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_new(&prelu_class, NULL);
    hd_module_add_parameter(m, "weight", hd_full(HD_SHAPE(channels), dtype, hd_option(options.slope, 0.25)));
    return hd_making_end(&making, m);
}

/* ---- rrelu ------------------------------------------------------------------------------------------------------- */
typedef struct slopes {
    double low, high;
} slopes;

static hd_tensor *rrelu_forward(hd_module *m, hd_tensor *x) {
    const slopes *s = m->state;
    if (!hd_module_is_training(m)) return hd_leaky_relu(x, (s->low + s->high) / 2);
    if (!hd_dtype_is_float((hd_dtype)x->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "x is %s; expected floats", hd_dtype_name((hd_dtype)x->dtype));
        return NULL;
    }
    hd_tensor *u = hd_rand_beside(x, x->dtype == HD_F64 ? HD_F64 : HD_F32);
    hd_tensor *slope = hd_add_scalar(hd_mul_scalar(u, s->high - s->low), s->low);
    return hd_prelu(x, hd_cast(slope, (hd_dtype)x->dtype));
}
static const hd_module_class rrelu_class = {.name = "rrelu", .forward = rrelu_forward, .destroy = hd_array_release};

hd_module *hd_rrelu_layer(double low, double high) {
    HD_ENTER("hd_rrelu_layer", NULL);
    if (!(low <= high) || low - low != 0 || high - high != 0) {
        hd_fail(HD_ERROR_VALUE, "slopes from %g to %g; both are finite, the lower one first", low, high);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    const slopes state = {low, high};
    return hd_module_with(&rrelu_class, &state, sizeof state);
}

/* ---- of an axis -------------------------------------------------------------------------------------------------- */
static hd_tensor *glu_forward(hd_module *m, hd_tensor *x) {
    int axis = *(const int *)m->state;
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis];
    if (size % 2 != 0) {
        hd_fail(HD_ERROR_SHAPE, "x %s cannot be halved on axis %d", HD_SHAPE_TEXT(x->layout.shape), axis);
        return NULL;
    }
    return hd_mul(hd_narrow(x, axis, 0, size / 2), hd_sigmoid(hd_narrow(x, axis, size / 2, size / 2)));
}
static const hd_module_class glu_class = {.name = "glu", .forward = glu_forward, .destroy = hd_array_release};

static hd_tensor *softmin_forward(hd_module *m, hd_tensor *x) { return hd_softmax(hd_neg(x), *(const int *)m->state); }
static const hd_module_class softmin_class = {
    .name = "softmin", .forward = softmin_forward, .destroy = hd_array_release};

hd_module *hd_glu_layer(int axis) {
    HD_ENTER("hd_glu_layer", NULL);
    HD_KEEP_NAME(thread);
    return hd_module_with(&glu_class, &axis, sizeof axis);
}

hd_module *hd_softmin_layer(int axis) {
    HD_ENTER("hd_softmin_layer", NULL);
    HD_KEEP_NAME(thread);
    return hd_module_with(&softmin_class, &axis, sizeof axis);
}
