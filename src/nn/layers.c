/* Layers: Linear, and the activations. */
#include "core/random.h"
#include "nn/module.h"

#include <math.h>
#include <string.h>

/* ---- linear ------------------------------------------------------------------------------------------------------ */
static hd_tensor *linear_forward(hd_module *m, hd_tensor *x) { return hd_affine(x, m->weight, m->bias); }
static const hd_module_class linear_class = {.name = "linear", .forward = linear_forward};

hd_module *hd_linear(int64_t in, int64_t out, const hd_linear_opts *opts) {
    HD_ENTER("hd_linear", NULL);
    HD_READ_OPTS(hd_linear_opts, opts, NULL);
    hd_dtype dtype;
    HD_TRY_OR(hd_dtype_resolve(thread, options.dtype, &dtype), NULL);
    if (in < 1 || out < 1 || !hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_VALUE, "in = %lld, out = %lld, %s; sizes are at least 1, and the dtype a float", (long long)in,
                (long long)out, hd_dtype_name(dtype));
        return NULL;
    }
    HD_KEEP_NAME(thread);
    HD_EAGER;                                               /* parameters are made at once, also inside a builder */
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the module holds what it needs */
    const hd_draws before = hd_generator_now(thread);
    const double bound = 1 / sqrt((double)in);
    hd_module *m = hd_module_new(&linear_class, NULL);
    hd_module_add_parameter(m, "weight", hd_uniform(HD_SHAPE(out, in), dtype, -bound, bound));
    if (!options.no_bias) hd_module_add_parameter(m, "bias", hd_uniform(HD_SHAPE(out), dtype, -bound, bound));
    if (thread->error_code == HD_OK) hd_keep_object(m);
    hd_scope_close(thread, &scope);
    if (thread->error_code == HD_OK) return m;
    hd_generator_give_back(thread, &before);
    return NULL;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */
typedef struct numbers {
    double a, b;
} numbers;

hd_module *hd_module_with(const hd_module_class *class_, const void *state, size_t bytes) {
    void *copy = hd_array_resize(NULL, bytes);
    if (copy == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a layer");
        return NULL;
    }
    memcpy(copy, state, bytes);
    hd_module *m = hd_module_new(class_, copy);
    if (m == NULL)
        hd_array_release(copy);
    else
        m->state_bytes = bytes;
    return m;
}

void *hd_module_copy_state(hd_module *to, const hd_module *from) {
    void *copy = hd_array_resize(NULL, from->state_bytes);
    if (copy == NULL) return NULL;
    to->state_bytes = from->state_bytes;
    return memcpy(copy, from->state, from->state_bytes);
}

static hd_module *with_numbers(const hd_module_class *class_, double a, double b) {
    return hd_module_with(class_, &(numbers){a, b}, sizeof(numbers));
}

#define PLAIN(op)                                                                                                      \
    static hd_tensor *op##_forward(hd_module *m, hd_tensor *x) {                                                       \
        (void)m;                                                                                                       \
        return hd_##op(x);                                                                                             \
    }                                                                                                                  \
    static const hd_module_class op##_class = {.name = #op, .forward = op##_forward};                                  \
    hd_module *hd_##op##_layer(void) {                                                                                 \
        HD_ENTER("hd_" #op "_layer", NULL);                                                                            \
        HD_KEEP_NAME(thread);                                                                                          \
        return hd_module_new(&op##_class, NULL);                                                                       \
    }
#define WITH(op, parameters, first, second, call)                                                                      \
    static hd_tensor *op##_forward(hd_module *m, hd_tensor *x) {                                                       \
        const numbers *n = m->state;                                                                                   \
        return call;                                                                                                   \
    }                                                                                                                  \
    static const hd_module_class op##_class = {                                                                        \
        .name = #op, .forward = op##_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};              \
    hd_module *hd_##op##_layer parameters {                                                                            \
        HD_ENTER("hd_" #op "_layer", NULL);                                                                            \
        HD_KEEP_NAME(thread);                                                                                          \
        return with_numbers(&op##_class, first, second);                                                               \
    }

PLAIN(relu)
PLAIN(relu6)
PLAIN(sigmoid)
PLAIN(log_sigmoid)
PLAIN(tanh)
PLAIN(gelu)
PLAIN(gelu_tanh)
PLAIN(silu)
PLAIN(mish)
PLAIN(selu)
PLAIN(softsign)
PLAIN(hardsigmoid)
PLAIN(hardswish)
PLAIN(tanhshrink)
WITH(leaky_relu, (double slope), slope, 0, hd_leaky_relu(x, n->a))
WITH(elu, (double alpha), alpha, 0, hd_elu(x, n->a))
WITH(celu, (double alpha), alpha, 0, hd_celu(x, n->a))
WITH(softshrink, (double bound), bound, 0, hd_softshrink(x, n->a))
WITH(hardshrink, (double bound), bound, 0, hd_hardshrink(x, n->a))
WITH(hardtanh, (double low, double high), low, high, hd_hardtanh(x, n->a, n->b))
WITH(threshold, (double bound, double value), bound, value, hd_threshold(x, n->a, n->b))
WITH(softplus, (double beta, double limit), beta, limit, hd_softplus(x, n->a, n->b))
WITH(softmax, (int axis), axis, 0, hd_softmax(x, (int)n->a))
WITH(log_softmax, (int axis), axis, 0, hd_log_softmax(x, (int)n->a))
