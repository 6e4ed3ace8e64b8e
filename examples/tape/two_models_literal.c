/* Example 2 of the guide, word for word: two models trained in turn, the context of the second open all the while.
 *
 * The comments of the guide say that the main model runs in context 0. It does not: contexts are not tied to models,
 * and the one that is open is the active one, so both models' records land on the tape of context 1. The gradients are
 * right all the same, since backward follows the loss and meets no record of the other model; and the tape stays short,
 * since the second half clears it. two_models.c does what the comments mean. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(6);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 100), HD_F32);

    /* The main model. */
    hd_tensor *main_weight = hd_param(hd_randn(HD_SHAPE(100, 50), HD_F32));
    hd_optimizer *main_optimizer = hd_adam(HD_TENSORS(main_weight), 0.001, NULL);

    /* The auxiliary model, and its context. */
    HD_GRAD_CONTEXT; /* context 1, to the end of main */
    hd_tensor *aux_weight = hd_param(hd_randn(HD_SHAPE(50, 10), HD_F32));
    hd_optimizer *aux_optimizer = hd_sgd(HD_TENSORS(aux_weight), 0.01, NULL);

    hd_tensor *main_start = snapshot(main_weight), *aux_start = snapshot(aux_weight);
    hd_tensor *main_gradient = gradient_of_mean(input, main_weight);
    hd_tensor *aux_moved = hd_zeros_like(aux_start); /* what aux_weight should have moved by */

    for (int epoch = 0; epoch < 100; ++epoch) {
        HD_SCOPE;
        /* The main model. */
        {
            hd_tensor *main_output = hd_matmul(input, main_weight);
            hd_tensor *main_loss = hd_mean(main_output, HD_AXES(), NULL);
            CHECK_EQUAL(hd_grad_context_id(), 1); /* not 0 */
            const int64_t records = hd_tape_length();
            CHECK(records > 0);

            hd_backward(main_loss);
            CHECK_CLOSE(hd_grad(main_weight), main_gradient);

            hd_optimizer_step(main_optimizer);
            hd_optimizer_zero_grad(main_optimizer);
            CHECK_EQUAL(hd_tape_length(), records); /* it cleared context 0, where nothing was */
        }
        /* The auxiliary model. */
        {
            hd_tensor *aux_input = hd_detach(main_weight); /* no gradient flows into the main model */
            hd_tensor *aux_output = hd_matmul(aux_input, aux_weight);
            hd_tensor *aux_loss = hd_mean(aux_output, HD_AXES(), NULL);
            CHECK_EQUAL(hd_grad_context_id(), 1);

            hd_backward(aux_loss);
            hd_tensor *aux_gradient = gradient_of_mean(aux_input, aux_weight);
            CHECK_CLOSE(hd_grad(aux_weight), aux_gradient);
            CHECK_CLOSE(hd_grad(main_weight), hd_zeros_like(main_start)); /* still as zero_grad left it */
            hd_add_(aux_moved, hd_mul_scalar(aux_gradient, -0.01));

            hd_optimizer_step(aux_optimizer);
            hd_optimizer_zero_grad(aux_optimizer); /* not enough */
            hd_clear_tape();                       /* the records of both models */
            CHECK_EQUAL(hd_tape_length(), 0);
        }
    }

    /* 100 steps of Adam by 0.001 in one direction, and what the steps of SGD add up to. */
    CHECK_CLOSE(main_weight, hd_sub(main_start, hd_mul_scalar(adam_step(main_gradient), 0.1)));
    CHECK_CLOSE(aux_weight, hd_add(aux_start, aux_moved));
    puts("two models on one tape, that of context 1: the gradients are right all the same");
    return hd_exit_status();
}
