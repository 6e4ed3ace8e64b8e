/* Training in context 0, which every thread has from the start: nothing to set up, and zero_grad clears its tape. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(1);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 10), HD_F32);
    hd_tensor *weight = hd_param(hd_randn(HD_SHAPE(10, 5), HD_F32));
    hd_optimizer *optimizer = hd_sgd(HD_TENSORS(weight), 0.01, NULL);

    hd_tensor *start = snapshot(weight), *gradient = gradient_of_mean(input, weight);
    CHECK_EQUAL(hd_tape_length(), 0);

    for (int epoch = 0; epoch < 100; ++epoch) {
        HD_SCOPE;
        /* Forward: noted on the tape of context 0. */
        hd_tensor *output = hd_matmul(input, weight);
        hd_tensor *loss = hd_mean(output, HD_AXES(), NULL);
        CHECK_EQUAL(hd_grad_context_id(), 0);
        const int64_t records = hd_tape_length();
        CHECK(records > 0);

        /* Backward: reads that tape from its end, and leaves it as it is. */
        hd_backward(loss);
        CHECK_CLOSE(hd_grad(weight), gradient);
        CHECK_EQUAL(hd_tape_length(), records);

        hd_optimizer_step(optimizer);

        /* Gradients to zero, and the tape of context 0 emptied. */
        hd_optimizer_zero_grad(optimizer);
        CHECK_CLOSE(hd_grad(weight), hd_zeros_like(gradient));
        CHECK_EQUAL(hd_tape_length(), 0);
    }

    /* The loss is linear in the weight, so these were 100 equal steps of 0.01 times the gradient. */
    CHECK_CLOSE(weight, hd_sub(start, gradient));
    puts("context 0: 100 epochs, the tape is empty after each");
    return hd_exit_status();
}
