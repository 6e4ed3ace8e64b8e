/* Example 3 of the guide: contexts within contexts, each an independent computation. */
#include "check.h"

#include <string.h>

int main(void) {
    HD_SCOPE;
    hd_seed(7);

    /* Context 0: begun here, finished below. */
    hd_tensor *main_x = hd_param(hd_randn(HD_SHAPE(2, 3), HD_F32));
    hd_tensor *main_y = hd_mul_scalar(main_x, 2);
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 1);
    {
        HD_GRAD_CONTEXT; /* context 1: the first computation on the side */
        CHECK_EQUAL(hd_grad_context_id(), 1);
        CHECK_EQUAL(hd_tape_length(), 0);
        hd_tensor *aux1_x = hd_param(hd_randn(HD_SHAPE(3, 4), HD_F32));
        hd_tensor *aux1_y = hd_mul_scalar(aux1_x, 3);
        hd_backward(aux1_y);
        puts("gradient in context 1:");
        hd_print(hd_grad(aux1_x));
        CHECK_CLOSE(hd_grad(aux1_x), hd_full(HD_SHAPE(3, 4), HD_F32, 3));

        hd_clear_tape(); /* that of context 1 */
        CHECK_EQUAL(hd_tape_length(), 0);
        {
            HD_GRAD_CONTEXT; /* context 2: the second, nested */
            CHECK_EQUAL(hd_grad_context_id(), 2);
            hd_tensor *aux2_x = hd_param(hd_randn(HD_SHAPE(4, 5), HD_F32));
            hd_tensor *aux2_y = hd_mul_scalar(aux2_x, 4);
            hd_backward(aux2_y);
            puts("gradient in context 2:");
            hd_print(hd_grad(aux2_x));
            CHECK_CLOSE(hd_grad(aux2_x), hd_full(HD_SHAPE(4, 5), HD_F32, 4));

            hd_clear_tape(); /* that of context 2 */
            CHECK_EQUAL(hd_tape_length(), 0);
        }
        CHECK_EQUAL(hd_grad_context_id(), 1); /* back in context 1 */

        /* What context 0 noted cannot be walked from here; the error says where it can. */
        hd_backward(main_y);
        CHECK(!hd_ok() && strstr(hd_error_message(), "context 0"));
        hd_error_clear();
        CHECK(!hd_has_grad(main_x));
    }
    CHECK_EQUAL(hd_grad_context_id(), 0); /* back in context 0, where nothing was lost */
    CHECK_EQUAL(hd_tape_length(), 1);
    hd_backward(main_y);
    puts("gradient in context 0:");
    hd_print(hd_grad(main_x));
    CHECK_CLOSE(hd_grad(main_x), hd_full(HD_SHAPE(2, 3), HD_F32, 2));
    return hd_exit_status();
}
