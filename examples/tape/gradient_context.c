/* A context is a tape of its own. HD_GRAD_CONTEXT; makes one that is active to the end of the block, and goes with it,
 * in whatever way the block is left (note 2 of the guide). */
#include "check.h"

#include <string.h>

/* Leaves a block with a context by return; the caller is in its own context again. */
static hd_tensor *doubled(hd_tensor *x) {
    HD_GRAD_CONTEXT;
    return hd_mul_scalar(x, 2);
}

int main(void) {
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *x = hd_param(hd_randn(HD_SHAPE(2, 3), HD_F32));
    hd_tensor *y = NULL;
    CHECK_EQUAL(hd_grad_context_id(), 0);
    {
        HD_GRAD_CONTEXT; /* context 1 */
        CHECK_EQUAL(hd_grad_context_id(), 1);
        CHECK_EQUAL(hd_tape_length(), 0);

        y = hd_mul_scalar(x, 2); /* noted on the tape of context 1 */
        CHECK_EQUAL(hd_tape_length(), 1);
        hd_backward(y); /* y is no scalar: this is the gradient of its sum */
        CHECK_CLOSE(hd_grad(x), hd_full_like(hd_detach(x), 2));
    }
    /* Context 1 and its tape are gone; this is context 0, which has noted nothing. Gradients stay. */
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 0);
    CHECK_CLOSE(hd_grad(x), hd_full_like(hd_detach(x), 2));

    /* All the context knew is gone: y is still a tensor, but nobody remembers how it was made. */
    hd_backward(y);
    CHECK(!hd_ok() && strstr(hd_error_message(), "context 1"));
    printf("as it should: %s\n", hd_error_message());
    hd_error_clear();

    /* A block may also be left by break, continue, goto or return. */
    for (int i = 0; i < 3; ++i) {
        HD_GRAD_CONTEXT;
        hd_mul_scalar(x, 2);
        CHECK(hd_grad_context_id() != 0);
        if (i == 1) break;
    }
    CHECK_EQUAL(hd_grad_context_id(), 0);
    doubled(x);
    CHECK_EQUAL(hd_grad_context_id(), 0);
    CHECK_EQUAL(hd_tape_length(), 0);

    /* Where begin and end do not lie in one block, they are calls. */
    const int64_t id = hd_grad_context_push();
    CHECK_EQUAL(hd_grad_context_id(), id);
    hd_grad_context_pop(id);
    CHECK_EQUAL(hd_grad_context_id(), 0);
    return hd_exit_status();
}
