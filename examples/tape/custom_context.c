/* Training in a context of its own: zero_grad clears context 0 only, so the loop clears its tape itself. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(4);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 10), HD_F32);
    {
        HD_GRAD_CONTEXT; /* context 1 */
        hd_tensor *weight = hd_param(hd_randn(HD_SHAPE(10, 5), HD_F32));
        hd_optimizer *optimizer = hd_sgd(HD_TENSORS(weight), 0.01, NULL);
        hd_tensor *start = snapshot(weight), *gradient = gradient_of_mean(input, weight);

        for (int epoch = 0; epoch < 100; ++epoch) {
            HD_SCOPE;
            /* Forward: noted on the tape of context 1. */
            hd_tensor *output = hd_matmul(input, weight);
            hd_tensor *loss = hd_mean(output, HD_AXES(), NULL);
            CHECK_EQUAL(hd_grad_context_id(), 1);
            const int64_t records = hd_tape_length();
            CHECK(records > 0);

            hd_backward(loss); /* reads the tape of context 1 */
            CHECK_CLOSE(hd_grad(weight), gradient);

            hd_optimizer_step(optimizer);
            hd_optimizer_zero_grad(optimizer);
            CHECK_CLOSE(hd_grad(weight), hd_zeros_like(gradient));
            CHECK_EQUAL(hd_tape_length(), records); /* the gradients are zero, but the tape is as it was ... */

            hd_clear_tape();
            CHECK_EQUAL(hd_tape_length(), 0); /* ... until the active context is cleared by hand */
        }
        CHECK_CLOSE(weight, hd_sub(start, gradient)); /* 100 equal steps of 0.01 times the gradient */
    }
    CHECK_EQUAL(hd_grad_context_id(), 0); /* context 1 went with its block */
    puts("context 1: 100 epochs, the tape cleared by hand after each");
    return hd_exit_status();
}
