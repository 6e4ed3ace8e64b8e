/* mode = evaluation: no tape, dropout off, whatever the model's own flag says, and that flag stays. */
#include "check.h"

static hd_tensor *dropout_forward(hd_module *layer, hd_tensor *x) {
    if (!hd_module_is_training(layer)) return x;
    return hd_mul_scalar(hd_mul(x, hd_bernoulli(hd_tensor_shape(x), hd_tensor_dtype(x), 0.5)), 2);
}
static const hd_module_class dropout_class = {.name = "dropout", .forward = dropout_forward};

int main(void) {
    HD_SCOPE;
    hd_seed(15);
    hd_module *model = HD_SEQUENTIAL(hd_linear(10, 32, NULL), hd_relu_layer(), hd_module_new(&dropout_class, NULL),
                                     hd_linear(32, 3, NULL));
    hd_tensor *x = hd_randn(HD_SHAPE(5, 10), HD_F32);

    hd_module *predict =
        hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION));
    hd_tensor *prediction = hd_forward(predict, x);
    CHECK(!hd_tensor_requires_grad(prediction));
    CHECK_EQUAL(hd_tape_length(), 0);
    CHECK(hd_module_is_training(model));

    hd_module_eval(model);
    CHECK_CLOSE(prediction, hd_forward(model, x));
    hd_module_train(model);
    hd_clear_tape();

    /* It reads the parameters at each call: the model can go on training, and be evaluated in between. */
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(model), 0.1, NULL);
    hd_backward(hd_mean(hd_square(hd_forward(model, x)), HD_AXES(), NULL));
    hd_optimizer_step(optimizer);
    hd_optimizer_zero_grad(optimizer);
    hd_tensor *later = hd_forward(predict, x);
    CHECK(!hd_allclose(later, prediction, NULL));
    hd_module_eval(model);
    CHECK_CLOSE(later, hd_forward(model, x));
    CHECK_EQUAL(hd_compile_stats(predict).captures, 1);
    hd_print(hd_argmax(later, 1, NULL));
    hd_clear_tape();
    return hd_exit_status();
}
