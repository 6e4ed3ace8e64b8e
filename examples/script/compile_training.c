/* mode = training, the default: results, gradients and random draws are those of the model itself. */
#include "check.h"

/* Noise while training, nothing in evaluation: a dropout layer. */
static hd_tensor *dropout_forward(hd_module *layer, hd_tensor *x) {
    if (!hd_module_is_training(layer)) return x;
    return hd_mul_scalar(hd_mul(x, hd_bernoulli(hd_tensor_shape(x), hd_tensor_dtype(x), 0.8)), 1 / 0.8);
}
static const hd_module_class dropout_class = {.name = "dropout", .forward = dropout_forward};

enum { STEPS = 100 };

/* Trains with `forward`, which has the parameters of `model`; the loss of each step. */
static void train(hd_module *forward, hd_module *model, hd_tensor *x, hd_tensor *y, double *losses) {
    hd_optimizer *optimizer = hd_adam(hd_module_parameters(model), 0.01, NULL);
    hd_seed(14); /* the same draws for both */
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        hd_tensor *loss = hd_mse(hd_forward(forward, x), y, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        losses[i] = hd_item(loss);
    }
}

static hd_module *new_model(void) {
    hd_seed(13); /* the same weights */
    return HD_SEQUENTIAL(hd_linear(10, 32, NULL), hd_tanh_layer(), hd_module_new(&dropout_class, NULL),
                         hd_linear(32, 1, NULL));
}

int main(void) {
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(64, 10), HD_F32);
    hd_tensor *y = hd_sum(hd_square(x), HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true));
    double dynamic[STEPS], compiled_losses[STEPS];

    hd_module *model = new_model();
    train(model, model, x, y, dynamic);

    hd_module *another = new_model();
    hd_module *compiled =
        hd_compile(another, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_TRAINING));
    train(compiled, another, x, y, compiled_losses);

    printf("loss %g at first, %g after %d steps\n", dynamic[0], dynamic[STEPS - 1], (int)STEPS);
    for (int i = 0; i < STEPS; ++i) CHECK_CLOSE(hd_scalar(compiled_losses[i], HD_F32), hd_scalar(dynamic[i], HD_F32));
    CHECK_CLOSE(hd_module_get(another, "0.weight"), hd_module_get(model, "0.weight"));
    CHECK_EQUAL(hd_compile_stats(compiled).captures, 1);

    /* The whole model is one record on the tape; two calls before one backward are two. */
    hd_tensor *both = hd_add(hd_forward(compiled, x), hd_forward(compiled, hd_neg(x)));
    CHECK_EQUAL(hd_tape_length(), 3);
    hd_backward(both);
    hd_clear_tape();
    return hd_exit_status();
}
