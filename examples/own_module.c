/* Modules of one's own: a class is a name and a forward function; a module is a class, a state, and what it holds.
 *
 * `standardise` keeps running statistics in buffers, which it moves in training and uses in evaluation; `block` holds
 * it, a module it is given and a parameter: y = x + scale * inner(standardise(x)). A network of two blocks learns, runs
 * compiled with the same results, and its buffers go along wherever parameters do. */
#include <hodu/hodu.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- a module with buffers --------------------------------------------------------------------------------------- */
typedef struct statistics {
    hd_tensor *mean, *variance; /* [features]; the module holds them as buffers */
    double momentum;
} statistics;

/* x [n,features] -> [n,features], each feature with mean 0 and variance 1. */
static hd_tensor *standardise_forward(hd_module *module, hd_tensor *x) {
    const statistics *s = hd_module_state(module);
    hd_tensor *mean = s->mean, *variance = s->variance;
    if (hd_module_is_training(module)) {
        mean = hd_mean(x, HD_AXES(0), NULL);
        variance = hd_var(x, HD_AXES(0), 0, NULL);
        HD_NO_GRAD; /* nobody differentiates what is remembered */
        hd_assign(s->mean, hd_lerp(s->mean, mean, hd_full(HD_SHAPE(), HD_F32, s->momentum)));
        hd_assign(s->variance, hd_lerp(s->variance, variance, hd_full(HD_SHAPE(), HD_F32, s->momentum)));
    }
    return hd_mul(hd_sub(x, mean), hd_rsqrt(hd_add_scalar(variance, 1e-5)));
}
static const hd_module_class standardise_class = {
    .name = "standardise", .forward = standardise_forward, .destroy = free};

static hd_module *standardise(int64_t features) {
    statistics *s = malloc(sizeof *s);
    if (s == NULL) return NULL;
    *s = (statistics){hd_zeros(HD_SHAPE(features), HD_F32), hd_ones(HD_SHAPE(features), HD_F32), 0.1};
    hd_module *m = hd_module_new(&standardise_class, s);
    if (m == NULL) return free(s), NULL; /* else it is the module's */
    hd_module_add_buffer(m, "mean", s->mean);
    hd_module_add_buffer(m, "variance", s->variance);
    return m;
}

/* ---- a module with others in it ---------------------------------------------------------------------------------- */
typedef struct parts {
    hd_module *norm, *inner;
    hd_tensor *scale; /* [] */
} parts;

static hd_tensor *block_forward(hd_module *module, hd_tensor *x) {
    const parts *p = hd_module_state(module);
    return hd_add(x, hd_mul(hd_forward(p->inner, hd_forward(p->norm, x)), p->scale));
}
static const hd_module_class block_class = {.name = "block", .forward = block_forward, .destroy = free};

static hd_module *block(int64_t features, hd_module *inner) {
    parts *p = malloc(sizeof *p);
    if (p == NULL) return NULL;
    *p = (parts){standardise(features), inner, hd_full(HD_SHAPE(), HD_F32, 0.1)};
    hd_module *m = hd_module_new(&block_class, p);
    if (m == NULL) return free(p), NULL;
    hd_module_add(m, "norm", p->norm);
    hd_module_add(m, "inner", p->inner);
    hd_module_add_parameter(m, "scale", p->scale);
    return m;
}

/* ---- a network of them ------------------------------------------------------------------------------------------- */
static hd_module *layers(void) {
    return HD_SEQUENTIAL(hd_linear(4, 32, NULL), hd_gelu_layer(), hd_linear(32, 4, NULL));
}

static double loss_of(hd_module *model, hd_tensor *x, hd_tensor *y) {
    HD_SCOPE;
    HD_NO_GRAD;
    return hd_item(hd_mse(hd_forward(model, x), y, NULL));
}

int main(void) {
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *x = hd_normal(HD_SHAPE(256, 4), HD_F32, 2, 3);                                 /* far from 0 and 1 */
    hd_tensor *y = hd_sin(hd_sum(x, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true))); /* [256,1] */
    hd_module *model = HD_SEQUENTIAL(block(4, layers()), block(4, layers()), hd_linear(4, 1, NULL));
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
    for (int step = 0; step < 400; ++step) {
        HD_SCOPE;
        hd_tensor *loss = hd_mse(hd_forward(model, x), y, NULL);
        hd_backward(loss);
        hd_optimizer_step(adam);
        hd_optimizer_zero_grad(adam);
        if (step % 100 == 0) printf("step %3d  loss %.4f\n", step, hd_item(loss));
    }
    const double running = hd_item(hd_mean(hd_module_get(model, "0.norm.mean"), HD_AXES(), NULL));
    hd_module_eval(model);
    const double eager = loss_of(model, x, y);
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    const double fast = loss_of(compiled, x, y);
    printf("evaluation: loss %.4f, compiled %.4f; the running mean of the inputs is %.2f\n", eager, fast, running);
    const bool unmoved = hd_item(hd_mean(hd_module_get(model, "0.norm.mean"), HD_AXES(), NULL)) == running;
    const bool good = eager < 0.2 && fabs(fast - eager) < 1e-5 && fabs(running - 2) < 0.5 && unmoved;
    return good ? hd_exit_status() : 1;
}
