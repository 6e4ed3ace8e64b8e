/* Layers that normalise. */
#include "nn/norm.h"

typedef struct norm_state {
    int64_t count; /* of axes, or of groups */
    double eps;
} norm_state;

static double eps_of(double given) { return given == 0 ? 1e-5 : given; }

void hd_norm_add_scale(hd_module *m, hd_shape shape, hd_dtype dtype, bool weight, bool bias) {
    if (weight) hd_module_add_parameter(m, "weight", hd_ones(shape, dtype));
    if (bias) hd_module_add_parameter(m, "bias", hd_zeros(shape, dtype));
}

/* ---- of the last axes -------------------------------------------------------------------------------------------- */
static hd_tensor *layer_norm_forward(hd_module *m, hd_tensor *x) {
    const norm_state *s = m->state;
    return hd_layer_norm(x, (int)s->count, m->weight, m->bias, s->eps);
}
static const hd_module_class layer_norm_class = {
    .name = "layer_norm", .forward = layer_norm_forward, .destroy = hd_array_release};

static hd_tensor *rms_norm_forward(hd_module *m, hd_tensor *x) {
    const norm_state *s = m->state;
    return hd_rms_norm(x, m->weight, s->eps);
}
static const hd_module_class rms_norm_class = {
    .name = "rms_norm", .forward = rms_norm_forward, .destroy = hd_array_release};

static hd_module *norm_layer(hd_thread *thread, const hd_module_class *class_, hd_shape shape,
                             const hd_norm_layer_opts *opts) {
    HD_READ_OPTS(hd_norm_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_dtype_resolve(thread, options.dtype, &dtype), NULL);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[dtype], &count), NULL);
    const double eps = eps_of(options.eps);
    if (shape.rank < 1 || count < 1 || !(eps > 0) || eps > 1e300 || !hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_VALUE,
                "shape %s, eps %g, %s; there is at least one element, eps is above 0, the dtype a float",
                HD_SHAPE_TEXT(shape), eps, hd_dtype_name(dtype));
        return NULL;
    }
    hd_making making;
    hd_making_begin(&making, thread);
    const norm_state state = {.count = shape.rank, .eps = eps};
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    hd_norm_add_scale(m, shape, dtype, !options.no_weight, !options.no_bias && class_ == &layer_norm_class);
    return hd_making_end(&making, m);
}

hd_module *hd_layer_norm_layer(hd_shape shape, const hd_norm_layer_opts *opts) {
    HD_ENTER("hd_layer_norm_layer", NULL);
    return norm_layer(thread, &layer_norm_class, shape, opts);
}

hd_module *hd_rms_norm_layer(int64_t size, const hd_norm_layer_opts *opts) {
    HD_ENTER("hd_rms_norm_layer", NULL);
    return norm_layer(thread, &rms_norm_class, HD_SHAPE(size), opts);
}

/* ---- of channels ------------------------------------------------------------------------------------------------- */
hd_error hd_norm_channels_check(int64_t channels, double eps, double momentum) {
    if (channels < 1 || !(eps > 0) || eps > 1e300)
        return hd_fail(HD_ERROR_VALUE, "%lld channels, eps %g; there is one at least, and eps is above 0",
                       (long long)channels, eps);
    return momentum >= 0 && momentum <= 1
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "momentum = %g; it is what a batch weighs, from 0 to 1", momentum);
}

static hd_tensor *group_norm_forward(hd_module *m, hd_tensor *x) {
    const norm_state *s = m->state;
    return hd_group_norm(x, s->count, m->weight, m->bias, s->eps);
}
static const hd_module_class group_norm_class = {
    .name = "group_norm", .forward = group_norm_forward, .destroy = hd_array_release};

hd_module *hd_group_norm_layer(int64_t groups, int64_t channels, const hd_norm_layer_opts *opts) {
    HD_ENTER("hd_group_norm_layer", NULL);
    HD_READ_OPTS(hd_norm_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_making_dtype(thread, options.dtype, &dtype), NULL);
    const norm_state state = {.count = groups, .eps = eps_of(options.eps)};
    HD_TRY_OR(hd_norm_channels_check(channels, state.eps, 0), NULL);
    if (groups < 1 || channels % groups != 0) {
        hd_fail(HD_ERROR_VALUE, "%lld groups of %lld channels; groups are at least one, and divide them",
                (long long)groups, (long long)channels);
        return NULL;
    }
    hd_making making;
    hd_making_begin(&making, thread);
    hd_module *m = hd_module_with(&group_norm_class, &state, sizeof state);
    hd_norm_add_scale(m, HD_SHAPE(channels), dtype, !options.no_weight, !options.no_bias);
    return hd_making_end(&making, m);
}
