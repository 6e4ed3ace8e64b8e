/* Layers that normalise. */
#include "nn/module.h"

typedef struct norm_state {
    int axes;
    double eps;
} norm_state;

static hd_tensor *layer_norm_forward(hd_module *m, hd_tensor *x) {
    const norm_state *s = m->state;
    return hd_layer_norm(x, s->axes, m->weight, m->bias, s->eps);
}
static const hd_module_class layer_norm_class = {
    .name = "layer_norm", .forward = layer_norm_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};

static hd_tensor *rms_norm_forward(hd_module *m, hd_tensor *x) {
    const norm_state *s = m->state;
    return hd_rms_norm(x, m->weight, s->eps);
}
static const hd_module_class rms_norm_class = {
    .name = "rms_norm", .forward = rms_norm_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};

static hd_module *norm_layer(hd_thread *thread, const hd_module_class *class_, hd_shape shape,
                             const hd_norm_layer_opts *opts) {
    HD_READ_OPTS(hd_norm_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_dtype_resolve(thread, options.dtype, &dtype), NULL);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[dtype], &count), NULL);
    const double eps = options.eps == 0 ? 1e-5 : options.eps;
    if (shape.rank < 1 || count < 1 || !(eps > 0) || eps > 1e300 || !hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_VALUE,
                "shape %s, eps %g, %s; there is at least one element, eps is above 0, the dtype a float",
                HD_SHAPE_TEXT(shape), eps, hd_dtype_name(dtype));
        return NULL;
    }
    HD_KEEP_NAME(thread);
    HD_EAGER;                                               /* parameters are made at once, also inside a builder */
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the module holds what it needs */
    const norm_state state = {shape.rank, eps};
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    if (!options.no_weight) hd_module_add_parameter(m, "weight", hd_ones(shape, dtype));
    if (!options.no_bias && class_ == &layer_norm_class) hd_module_add_parameter(m, "bias", hd_zeros(shape, dtype));
    if (thread->error_code == HD_OK) hd_keep_object(m);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? m : NULL;
}

hd_module *hd_layer_norm_layer(hd_shape shape, const hd_norm_layer_opts *opts) {
    HD_ENTER("hd_layer_norm_layer", NULL);
    return norm_layer(thread, &layer_norm_class, shape, opts);
}

hd_module *hd_rms_norm_layer(int64_t size, const hd_norm_layer_opts *opts) {
    HD_ENTER("hd_rms_norm_layer", NULL);
    return norm_layer(thread, &rms_norm_class, HD_SHAPE(size), opts);
}
