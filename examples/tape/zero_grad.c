/* Note 1 of the guide: an optimizer's zero_grad clears the tape of context 0 only. The wrong use and the right one. */
#include "check.h"

static void train(hd_tensor *input, hd_tensor *weight, hd_optimizer *optimizer, bool clear) {
    for (int epoch = 0; epoch < 10; ++epoch) {
        HD_SCOPE;
        hd_backward(hd_mean(hd_matmul(input, weight), HD_AXES(), NULL));
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        if (clear) hd_clear_tape();
    }
}

int main(void) {
    HD_SCOPE;
    hd_seed(8);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 10), HD_F32);
    hd_tensor *weight = hd_param(hd_randn(HD_SHAPE(10, 5), HD_F32));
    hd_optimizer *optimizer = hd_sgd(HD_TENSORS(weight), 0.01, NULL);
    hd_tensor *start = snapshot(weight), *gradient = gradient_of_mean(input, weight);

    { /* Wrong: the tape of context 1 keeps all ten epochs. */
        HD_GRAD_CONTEXT;
        train(input, weight, optimizer, false);
        const int64_t ten = hd_tape_length();
        hd_mean(hd_matmul(input, weight), HD_AXES(), NULL); /* what one epoch notes */
        const int64_t one = hd_tape_length() - ten;
        CHECK(one > 0);
        CHECK_EQUAL(ten, 10 * one);
        printf("only zero_grad: %" PRId64 " records after 10 epochs\n", ten);
    }
    { /* Right: clear_tape empties the active context. */
        HD_GRAD_CONTEXT;
        train(input, weight, optimizer, true);
        CHECK_EQUAL(hd_tape_length(), 0);
        printf("and clear_tape: %" PRId64 " records\n", hd_tape_length());
    }
    { /* In context 0 zero_grad is enough. */
        train(input, weight, optimizer, false);
        CHECK_EQUAL(hd_grad_context_id(), 0);
        CHECK_EQUAL(hd_tape_length(), 0);
    }

    /* A tape that is too long costs time and memory; the numbers are right all the same. */
    CHECK_CLOSE(weight, hd_sub(start, hd_mul_scalar(gradient, 30 * 0.01)));
    return hd_exit_status();
}
