/* Layers on images: convolutions and pooling. */
#include "core/random.h"
#include "nn/module.h"

#include <math.h>

/* ---- convolution ------------------------------------------------------------------------------------------------- */
static hd_tensor *conv_forward(hd_module *m, hd_tensor *x) { return hd_conv(x, m->weight, m->bias, m->state); }
static hd_tensor *conv_transpose_forward(hd_module *m, hd_tensor *x) {
    return hd_conv_transpose(x, m->weight, m->bias, m->state);
}
static const hd_module_class conv_class = {
    .name = "conv", .forward = conv_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};
static const hd_module_class conv_transpose_class = {.name = "conv_transpose",
                                                     .forward = conv_transpose_forward,
                                                     .destroy = hd_array_release,
                                                     .copy = hd_module_copy_state};

static hd_error check_conv(int64_t in, int64_t out, hd_shape kernel, int64_t groups, hd_dtype dtype) {
    HD_TRY(hd_rank_check(&kernel));
    bool fits = kernel.rank >= 1 && kernel.rank <= 3 && in >= 1 && out >= 1 && groups >= 1;
    for (int i = 0; i < kernel.rank && fits; ++i) fits = kernel.size[i] >= 1;
    return fits && in % groups == 0 && out % groups == 0 && hd_dtype_is_float(dtype)
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE,
                         "in = %lld, out = %lld, kernel %s, %lld groups, %s; a kernel has 1 to 3 sizes, all are at "
                         "least 1, "
                         "groups divide in and out, and the dtype is a float",
                         (long long)in, (long long)out, HD_SHAPE_TEXT(kernel), (long long)groups, hd_dtype_name(dtype));
}

static hd_module *conv_layer(hd_thread *thread, const hd_module_class *class_, int64_t in, int64_t out, hd_shape kernel,
                             const hd_conv_layer_opts *opts) {
    HD_READ_OPTS(hd_conv_layer_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_dtype_resolve(thread, options.dtype, &dtype), NULL);
    hd_conv_opts state = HD_DEFAULTS(hd_conv_opts);
    state.groups = options.groups == 0 ? 1 : options.groups;
    HD_TRY_OR(check_conv(in, out, kernel, state.groups, dtype), NULL);
    for (int i = 0; i < 3; ++i) {
        state.stride[i] = options.stride[i];
        state.dilation[i] = options.dilation[i];
        state.padding[i] = options.padding[i];
        state.output_padding[i] = options.output_padding[i];
    }
    const bool transposed = class_ == &conv_transpose_class;
    hd_shape shape = {.rank = kernel.rank + 2, .size = {transposed ? in : out, (transposed ? out : in) / state.groups}};
    double terms = (double)shape.size[1]; /* as PyTorch counts them, of transposed ones, too */
    for (int i = 0; i < kernel.rank; ++i) {
        shape.size[i + 2] = kernel.size[i];
        terms *= (double)kernel.size[i];
    }
    HD_KEEP_NAME(thread);
    HD_EAGER;                                               /* parameters are made at once, also inside a builder */
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the module holds what it needs */
    const hd_draws before = hd_generator_now(thread);
    const double bound = 1 / sqrt(terms);
    hd_module *m = hd_module_with(class_, &state, sizeof state);
    hd_module_add_parameter(m, "weight", hd_uniform(shape, dtype, -bound, bound));
    if (!options.no_bias) hd_module_add_parameter(m, "bias", hd_uniform(HD_SHAPE(out), dtype, -bound, bound));
    if (thread->error_code == HD_OK) hd_keep_object(m);
    hd_scope_close(thread, &scope);
    if (thread->error_code == HD_OK) return m;
    hd_generator_give_back(thread, &before);
    return NULL;
}

hd_module *hd_conv_layer(int64_t in, int64_t out, hd_shape kernel, const hd_conv_layer_opts *opts) {
    HD_ENTER("hd_conv_layer", NULL);
    return conv_layer(thread, &conv_class, in, out, kernel, opts);
}

hd_module *hd_conv_transpose_layer(int64_t in, int64_t out, hd_shape kernel, const hd_conv_layer_opts *opts) {
    HD_ENTER("hd_conv_transpose_layer", NULL);
    return conv_layer(thread, &conv_transpose_class, in, out, kernel, opts);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */
typedef struct pool_state {
    hd_shape window;
    hd_pool_opts opts;
} pool_state;

static hd_module *pool_layer(const hd_module_class *class_, hd_shape window, const hd_pool_opts *opts, bool adaptive) {
    HD_READ_OPTS(hd_pool_opts, opts, NULL);
    HD_TRY_OR(hd_rank_check(&window), NULL);
    options.struct_size = sizeof options;
    options.adaptive = options.adaptive || adaptive;
    bool fits = window.rank >= 1 && window.rank <= 3;
    for (int i = 0; i < window.rank && fits; ++i) fits = window.size[i] >= 1;
    if (!fits) {
        hd_fail(HD_ERROR_VALUE, "a window %s; it has 1 to 3 sizes of at least 1", HD_SHAPE_TEXT(window));
        return NULL;
    }
    const pool_state state = {window, options};
    return hd_module_with(class_, &state, sizeof state);
}

#define POOL(op)                                                                                                       \
    static hd_tensor *op##_forward(hd_module *m, hd_tensor *x) {                                                       \
        const pool_state *s = m->state;                                                                                \
        return hd_##op(x, s->window, &s->opts);                                                                        \
    }                                                                                                                  \
    static const hd_module_class op##_class = {                                                                        \
        .name = #op, .forward = op##_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};              \
    hd_module *hd_##op##_layer(hd_shape window, const hd_pool_opts *opts) {                                            \
        HD_ENTER("hd_" #op "_layer", NULL);                                                                            \
        HD_KEEP_NAME(thread);                                                                                          \
        return pool_layer(&op##_class, window, opts, false);                                                           \
    }                                                                                                                  \
    hd_module *hd_adaptive_##op##_layer(hd_shape size) {                                                               \
        HD_ENTER("hd_adaptive_" #op "_layer", NULL);                                                                   \
        HD_KEEP_NAME(thread);                                                                                          \
        return pool_layer(&op##_class, size, NULL, true);                                                              \
    }
POOL(max_pool)
POOL(avg_pool)
