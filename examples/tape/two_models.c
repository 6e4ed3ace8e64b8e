/* Example 2 of the guide as its comments mean it: the main model in context 0, the auxiliary model in context 1.
 * HD_GRAD_CONTEXT_DEFAULT; makes context 0 the active one to the end of a block, whatever is open around it. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(6);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 100), HD_F32);

    /* The main model: context 0. */
    hd_tensor *main_weight = hd_param(hd_randn(HD_SHAPE(100, 50), HD_F32));
    hd_optimizer *main_optimizer = hd_adam(HD_TENSORS(main_weight), 0.001, NULL);

    /* The auxiliary model: context 1, to the end of main. */
    HD_GRAD_CONTEXT;
    hd_tensor *aux_weight = hd_param(hd_randn(HD_SHAPE(50, 10), HD_F32));
    hd_optimizer *aux_optimizer = hd_sgd(HD_TENSORS(aux_weight), 0.01, NULL);

    hd_tensor *main_start = snapshot(main_weight), *aux_start = snapshot(aux_weight);
    hd_tensor *main_gradient = gradient_of_mean(input, main_weight);
    hd_tensor *aux_moved = hd_zeros_like(aux_start); /* what aux_weight should have moved by */

    for (int epoch = 0; epoch < 100; ++epoch) {
        HD_SCOPE;
        /* The main model. */
        {
            HD_GRAD_CONTEXT_DEFAULT;
            hd_tensor *main_output = hd_matmul(input, main_weight);
            hd_tensor *main_loss = hd_mean(main_output, HD_AXES(), NULL);
            CHECK_EQUAL(hd_grad_context_id(), 0);
            CHECK(hd_tape_length() > 0);

            hd_backward(main_loss); /* the tape of context 0 */
            CHECK_CLOSE(hd_grad(main_weight), main_gradient);

            hd_optimizer_step(main_optimizer);
            hd_optimizer_zero_grad(main_optimizer); /* clears context 0: enough here */
            CHECK_EQUAL(hd_tape_length(), 0);
        }
        CHECK_EQUAL(hd_grad_context_id(), 1);
        CHECK_EQUAL(hd_tape_length(), 0); /* nothing of the main model came here */
        /* The auxiliary model. */
        {
            hd_tensor *aux_input = hd_detach(main_weight); /* no gradient flows into the main model */
            hd_tensor *aux_output = hd_matmul(aux_input, aux_weight);
            hd_tensor *aux_loss = hd_mean(aux_output, HD_AXES(), NULL);

            hd_backward(aux_loss); /* the tape of context 1 */
            hd_tensor *aux_gradient = gradient_of_mean(aux_input, aux_weight);
            CHECK_CLOSE(hd_grad(aux_weight), aux_gradient);
            hd_add_(aux_moved, hd_mul_scalar(aux_gradient, -0.01));

            hd_optimizer_step(aux_optimizer);
            hd_optimizer_zero_grad(aux_optimizer); /* not enough: this clears context 0 ... */
            CHECK(hd_tape_length() > 0);
            hd_clear_tape(); /* ... and this the active one */
            CHECK_EQUAL(hd_tape_length(), 0);
        }
    }

    /* 100 steps of Adam by 0.001 in one direction, and what the steps of SGD add up to. */
    CHECK_CLOSE(main_weight, hd_sub(main_start, hd_mul_scalar(adam_step(main_gradient), 0.1)));
    CHECK_CLOSE(aux_weight, hd_add(aux_start, aux_moved));
    puts("two models on two tapes, those of contexts 0 and 1");
    return hd_exit_status();
}
