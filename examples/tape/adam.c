/* Example 1 of the guide: a linear layer by hand, trained with Adam in context 0. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 784), HD_F32);
    hd_tensor *weight = hd_param(hd_randn(HD_SHAPE(784, 10), HD_F32));
    hd_tensor *bias = hd_param(hd_zeros(HD_SHAPE(10), HD_F32));
    hd_optimizer *optimizer =
        hd_adam(HD_TENSORS(weight, bias), 0.001,
                HD_OPTS(hd_adam_opts, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8)); /* NULL means just these */

    hd_tensor *start = snapshot(weight), *gradient = gradient_of_mean(input, weight);
    for (int epoch = 0; epoch < 100; ++epoch) {
        HD_SCOPE;
        hd_tensor *logits = hd_add(hd_matmul(input, weight), bias);
        hd_tensor *loss = hd_mean(logits, HD_AXES(), NULL);
        CHECK_EQUAL(hd_grad_context_id(), 0);
        CHECK(hd_tape_length() > 0);

        hd_backward(loss);
        CHECK_CLOSE(hd_grad(weight), gradient);
        CHECK_CLOSE(hd_grad(bias), hd_full(HD_SHAPE(10), HD_F32, 0.1)); /* each is a tenth of the mean */

        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer); /* and the tape of context 0 */
        CHECK_EQUAL(hd_tape_length(), 0);
    }

    /* 100 steps of 0.001, since the gradient never changes. */
    CHECK_CLOSE(bias, hd_full(HD_SHAPE(10), HD_F32, -0.1));
    CHECK_CLOSE(weight, hd_sub(start, hd_mul_scalar(adam_step(gradient), 0.1)));
    puts("Adam in context 0: 100 epochs, every weight moved by 0.1");
    return hd_exit_status();
}
