/* Note 3 of the guide: context 0 is there from the start and is never deleted; only its tape can be emptied. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(4), HD_F32));
    hd_tensor *y = hd_square(x);
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 1);

    hd_grad_context_pop(0); /* an error, and nothing happened */
    CHECK_EQUAL(hd_error_code(), HD_ERROR_STATE);
    printf("as it should: %s\n", hd_error_message());
    hd_error_clear();
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 1);
    hd_backward(y);
    CHECK_CLOSE(hd_grad(x), hd_full(HD_SHAPE(4), HD_F32, 2));

    { /* Its tape can be emptied from within another context, whose own tape stays. */
        HD_GRAD_CONTEXT;
        hd_square(x);
        hd_clear_default_context_tape();
        CHECK_EQUAL(hd_grad_context_id(), 1);
        CHECK_EQUAL(hd_tape_length(), 1);
    }
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 0);
    CHECK_CLOSE(hd_grad(x), hd_full(HD_SHAPE(4), HD_F32, 2)); /* gradients are not on the tape */

    hd_square(x); /* and it notes again */
    CHECK_EQUAL(hd_tape_length(), 1);
    return hd_exit_status();
}
