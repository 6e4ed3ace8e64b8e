/* Linear regression: 100 points on a plane, and gradient descent that finds the plane again. */
#include <hodu/hodu.h>

#include <stdio.h>

int main(void) {
    HD_SCOPE;
    hd_seed(42);
    /* What is to be found: y = 2 a - b + c / 2 + 3. */
    hd_tensor *weight = HD_TENSOR_F32(HD_SHAPE(1, 3), 2, -1, 0.5f), *bias = HD_TENSOR_F32(HD_SHAPE(1), 3);
    hd_tensor *input = hd_randn(HD_SHAPE(100, 3), HD_F32);            /* [100,3] */
    hd_tensor *target = hd_add(hd_matmul(input, hd_t(weight)), bias); /* [100,1] */

    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);

    for (int epoch = 0; epoch < 1000 && hd_ok(); ++epoch) {
        HD_SCOPE; /* each epoch's tensors go with it */
        hd_tensor *prediction = hd_forward(linear, input);
        hd_tensor *loss = hd_mse(prediction, target, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        if (epoch % 100 == 0 || epoch == 999) printf("epoch %3d  loss %.3e\n", epoch, hd_item(loss));
    }

    hd_tensor *learnt_weight = hd_module_get(linear, "weight"), *learnt_bias = hd_module_get(linear, "bias");
    printf("weight, true and learnt:\n");
    hd_print(weight);
    hd_print(learnt_weight);
    printf("bias, true and learnt:\n");
    hd_print(bias);
    hd_print(learnt_bias);

    char why[256] = "";
    const hd_allclose_opts near = {
        .struct_size = sizeof near, .relative = 1e-4, .explain = why, .explain_capacity = sizeof why};
    if (hd_ok() && !(hd_allclose(learnt_weight, weight, &near) && hd_allclose(learnt_bias, bias, &near)))
        return fprintf(stderr, "linear_regression: not learnt: %s\n", why), 1;
    return hd_exit_status();
}
