/* Scopes: what is made in a block goes at its end, however it is left. */
#include "support.h"

static int64_t loop_with_break(void) {
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        hd_ones(HD_SHAPE(3), HD_F32);
        if (i == 5) break;
        if (i == 2) continue;
    }
    return hd_live_objects();
}

static int64_t early_return(int n) {
    HD_SCOPE;
    hd_ones(HD_SHAPE(n), HD_F32);
    if (n > 1) return 1;
    return 0;
}

static void leaves_nothing_behind(void **state) {
    (void)state;
    assert_int_equal(loop_with_break(), 0);
    early_return(2);
    assert_int_equal(hd_live_objects(), 0);
    {
        HD_SCOPE;
        hd_ones(HD_SHAPE(2), HD_F32);
        goto out;
    }
out:
    assert_int_equal(hd_live_objects(), 0);
}

static hd_tensor *made_and_kept(void) {
    HD_SCOPE;
    hd_ones(HD_SHAPE(7), HD_F32);
    hd_tensor *kept = hd_keep(hd_full(HD_SHAPE(2), HD_F32, 3));
    hd_ones(HD_SHAPE(9), HD_F32);
    return kept;
}

static void keep_hands_to_the_enclosing_scope(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *kept = made_and_kept();
    assert_values(kept, HD_F32, 3, 3);
    assert_int_equal(hd_live_objects(), 2); /* the tensor and its storage */
}

static void retain_and_release(void **state) {
    (void)state;
    hd_tensor *mine;
    {
        HD_SCOPE;
        mine = hd_retain(hd_full(HD_SHAPE(2), HD_F32, 4));
    }
    assert_values(mine, HD_F32, 4, 4);
    hd_release(mine);
    assert_int_equal(hd_live_objects(), 0);
}

static void release_takes_out_of_the_scope(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *first = hd_ones(HD_SHAPE(2), HD_F32), *second = hd_ones(HD_SHAPE(3), HD_F32);
    {
        HD_SCOPE;
        hd_ones(HD_SHAPE(4), HD_F32);
        hd_release(first);
        assert_int_equal(hd_live_objects(), 4);
    }
    assert_int_equal(hd_live_objects(), 2);
    assert_values(second, HD_F32, 1, 1, 1);
}

static void outer_end_ends_inner(void **state) {
    (void)state;
    hd_scope_token outer = hd_scope_begin(&outer, __FILE__, __LINE__);
    hd_scope_token inner = hd_scope_begin(&inner, __FILE__, __LINE__);
    hd_ones(HD_SHAPE(2), HD_F32);
    hd_scope_end(&outer);
    assert_int_equal(hd_live_objects(), 0);
    hd_scope_end(&inner);
    hd_scope_end(&outer);
}

static void use_after_scope_end_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *gone, *here = hd_ones(HD_SHAPE(2), HD_F32);
    {
        HD_SCOPE;
        gone = hd_exp(here);
    }
    assert_null(hd_add(here, gone));
    assert_error(HD_ERROR_RELEASED, "hd_add: `b` is a tensor made by hd_exp that was released");
}

static void deep_nesting(void **state) {
    (void)state;
    static hd_scope_token tokens[1000];
    for (int i = 0; i < 1000; ++i) {
        tokens[i] = hd_scope_begin(&tokens[i], __FILE__, __LINE__);
        hd_ones(HD_SHAPE(1), HD_F32);
    }
    hd_scope_end(&tokens[500]);
    assert_int_equal(hd_live_objects(), 1000);
    hd_scope_end(&tokens[0]);
}

static jmp_buf back;
static void jump_out(void) {
    HD_SCOPE;
    HD_NO_GRAD;
    HD_QUIET;
    hd_ones(HD_SHAPE(1), HD_F32);
    longjmp(back, 1);
}
static void hear(hd_error code, const char *message, const char *place, void *user) {
    (void)message, (void)place;
    if (code != HD_OK) ++*(int *)user;
}

/* A longjmp ends no block: the scope around them does. */
static void an_outer_scope_unwinds_blocks_that_were_jumped_out_of(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    int heard = 0;
    {
        HD_SCOPE;
        if (setjmp(back) == 0) jump_out();
    }
    hd_error_set_handler(hear, &heard);
    assert_true(hd_tensor_requires_grad(hd_exp(x)));
    hd_matmul(x, NULL);
    assert_int_equal(heard, 1); /* HD_QUIET is over */
    hd_error_set_handler(NULL, NULL);
    hd_error_clear();
    hd_clear_tape();
    const int64_t id = hd_grad_context_push(); /* ends by a call, not by a scope */
    { HD_SCOPE; }
    assert_int_equal(hd_grad_context_id(), id);
    hd_grad_context_pop(id);
    assert_ok();
}

RUN(test(leaves_nothing_behind), test(keep_hands_to_the_enclosing_scope), test(retain_and_release),
    test(release_takes_out_of_the_scope), test(outer_end_ends_inner), test(use_after_scope_end_is_an_error),
    test(deep_nesting), test(an_outer_scope_unwinds_blocks_that_were_jumped_out_of))
