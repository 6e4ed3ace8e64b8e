/* Contexts and their tapes, backward and the gradients it leaves, hooks, writing in place, and what a tape holds. */
#include "printed.h"

static hd_tensor *number(double value) { return hd_param(hd_full(HD_SHAPE(), HD_F32, value)); }
static double gradient(hd_tensor *t) { return hd_item(hd_grad(t)); }

/* ---- contexts ---------------------------------------------------------------------------------------------------- */
static void ids_name_what_is_active_and_are_never_used_twice(void **state) {
    (void)state;
    int64_t first, second;
    assert_int_equal(hd_grad_context_id(), 0);
    {
        HD_GRAD_CONTEXT;
        first = hd_grad_context_id();
        assert_true(first > 0);
        {
            HD_GRAD_CONTEXT;
            second = hd_grad_context_id();
            assert_true(second > first);
        }
        assert_int_equal(hd_grad_context_id(), first);
        {
            HD_GRAD_CONTEXT;
            assert_true(hd_grad_context_id() > second);
        }
    }
    assert_int_equal(hd_grad_context_id(), 0);
}

static int64_t returns_from_a_context(void) {
    HD_GRAD_CONTEXT;
    if (hd_grad_context_id() != 0) return hd_grad_context_id();
    return -1;
}

static void a_context_ends_with_its_block_however_it_is_left(void **state) {
    (void)state;
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(hd_grad_context_id(), 0);
        HD_GRAD_CONTEXT;
        assert_true(hd_grad_context_id() > 0);
        if (i == 1) continue;
        if (i == 2) break;
    }
    assert_int_equal(hd_grad_context_id(), 0);
    assert_true(returns_from_a_context() > 0);
    assert_int_equal(hd_grad_context_id(), 0);
    {
        HD_GRAD_CONTEXT;
        HD_GRAD_CONTEXT;
        HD_NO_GRAD;
        HD_GRAD_CONTEXT_DEFAULT;
        goto out;
    }
out:
    assert_int_equal(hd_grad_context_id(), 0);
    HD_SCOPE;
    assert_true(hd_tensor_requires_grad(hd_exp(number(1)))); /* and so did HD_NO_GRAD */
}

static void each_context_has_a_tape_of_its_own(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *outer = hd_mul(x, x);
    assert_int_equal(hd_tape_length(), 1);
    {
        HD_GRAD_CONTEXT;
        assert_int_equal(hd_tape_length(), 0);
        hd_tensor *inner = hd_exp(hd_neg(x));
        assert_int_equal(hd_tape_length(), 2);
        hd_backward(hd_mul_scalar(inner, 0));
        assert_int_equal(hd_tape_length(), 3); /* backward consumes nothing */
    }
    assert_int_equal(hd_tape_length(), 1);
    hd_zero_grad(x);
    hd_backward(outer);
    assert_true(gradient(x) == 6);
}

static void context_0_can_be_made_active_inside_another(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y;
    {
        HD_GRAD_CONTEXT;
        hd_neg(x);
        const int64_t inner = hd_grad_context_id();
        {
            HD_GRAD_CONTEXT_DEFAULT;
            assert_int_equal(hd_grad_context_id(), 0);
            y = hd_mul(x, x);
            assert_int_equal(hd_tape_length(), 1);
            {
                HD_GRAD_CONTEXT;
                assert_true(hd_grad_context_id() > inner);
            }
            assert_int_equal(hd_grad_context_id(), 0);
        }
        assert_int_equal(hd_grad_context_id(), inner);
        assert_int_equal(hd_tape_length(), 1);
    }
    assert_int_equal(hd_tape_length(), 1); /* what was noted there stays */
    hd_backward(y);
    assert_true(gradient(x) == 6);
}

static void contexts_can_be_pushed_and_popped(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(2);
    const int64_t a = hd_grad_context_push(), b = hd_grad_context_push();
    assert_true(b > a && a > 0);
    assert_int_equal(hd_grad_context_id(), b);
    hd_backward(hd_mul(x, x));
    hd_grad_context_pop(b);
    assert_int_equal(hd_grad_context_id(), a);
    hd_grad_context_pop(a);
    assert_int_equal(hd_grad_context_id(), 0);
    assert_true(gradient(x) == 4); /* gradients outlive their context */
}

static void a_context_is_popped_only_when_it_is_its_turn(void **state) {
    (void)state;
    hd_grad_context_pop(0);
    assert_error(HD_ERROR_STATE, "context 0");
    hd_grad_context_pop(12345);
    assert_error(HD_ERROR_STATE, "context 12345");
    hd_grad_context_pop(-1);
    assert_error(HD_ERROR_STATE, "hd_grad_context_pop");
    const int64_t a = hd_grad_context_push(), b = hd_grad_context_push();
    hd_grad_context_pop(a);
    assert_error(HD_ERROR_STATE, "reverse order");
    assert_int_equal(hd_grad_context_id(), b);
    hd_grad_context_pop(0);
    assert_error(HD_ERROR_STATE, "context 0");
    {
        HD_GRAD_CONTEXT_DEFAULT;
        hd_grad_context_pop(b);
        assert_error(HD_ERROR_STATE, "context");
        assert_int_equal(hd_grad_context_id(), 0);
    }
    hd_grad_context_pop(b);
    hd_grad_context_pop(b);
    assert_error(HD_ERROR_STATE, "context");
    hd_grad_context_pop(a);
    assert_ok();
    assert_int_equal(hd_grad_context_id(), 0);
}

static void a_declared_context_is_not_popped(void **state) {
    (void)state;
    {
        HD_GRAD_CONTEXT;
        const int64_t id = hd_grad_context_id();
        hd_grad_context_pop(id);
        assert_error(HD_ERROR_STATE, "HD_GRAD_CONTEXT");
        assert_int_equal(hd_grad_context_id(), id);
    }
    assert_int_equal(hd_grad_context_id(), 0);
}

static void a_pushed_context_is_popped_within_its_block(void **state) {
    (void)state;
    int64_t pushed;
    {
        HD_GRAD_CONTEXT;
        pushed = hd_grad_context_push();
    }
    char text[64];
    snprintf(text, sizeof text, "context %lld was pushed in this block and never popped", (long long)pushed);
    assert_error(HD_ERROR_STATE, text);
    assert_int_equal(hd_grad_context_id(), 0);
    {
        HD_NO_GRAD;
        hd_grad_context_push();
        hd_grad_context_push();
    }
    assert_error(HD_ERROR_STATE, "never popped");
    assert_int_equal(hd_grad_context_id(), 0);
}

static void blocks_begin_and_end_also_while_an_error_is_pending(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3);
    {
        HD_GRAD_CONTEXT;
        hd_add(NULL, x);
        {
            HD_GRAD_CONTEXT;
            HD_NO_GRAD;
            HD_GRAD_CONTEXT_DEFAULT;
            assert_int_equal(hd_grad_context_id(), 0);
            assert_int_equal(hd_grad_context_push(), -1); /* a call, not a block: it does nothing */
        }
        assert_true(hd_grad_context_id() > 0);
    }
    assert_int_equal(hd_grad_context_id(), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add");
    const int64_t id = hd_grad_context_push();
    hd_add(NULL, x);
    hd_grad_context_pop(id); /* what closes always acts */
    assert_int_equal(hd_grad_context_id(), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add");
    hd_backward(hd_mul(x, x));
    assert_true(gradient(x) == 6);
}

static void a_token_ends_its_block_once(void **state) {
    (void)state;
    hd_grad_token outer = hd_grad_context_begin(&outer), inner = hd_grad_context_begin(&inner);
    hd_grad_token copy = inner; /* a copy is no token */
    hd_grad_end(&copy);
    assert_true(hd_grad_context_id() > 0);
    hd_grad_end(&outer); /* and with it the inner one */
    assert_int_equal(hd_grad_context_id(), 0);
    hd_grad_end(&inner);
    hd_grad_end(&outer);
    hd_grad_end(NULL);
    assert_ok();
    assert_int_equal(hd_grad_context_id(), 0);
}

static void contexts_nest_deeply(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(1), *y = x;
    int64_t ids[1000];
    for (int i = 0; i < 1000; ++i) {
        ids[i] = hd_grad_context_push();
        y = hd_mul_scalar(x, i);
    }
    hd_backward(y);
    assert_true(gradient(x) == 999);
    for (int i = 1000; i-- > 0;) hd_grad_context_pop(ids[i]);
    assert_ok();
    assert_int_equal(hd_grad_context_id(), 0);
}

/* ---- clearing ---------------------------------------------------------------------------------------------------- */
static void clearing_empties_the_active_tape_only(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3);
    hd_neg(x);
    hd_neg(x);
    {
        HD_GRAD_CONTEXT;
        hd_neg(x);
        hd_clear_tape();
        assert_int_equal(hd_tape_length(), 0);
        hd_neg(x);
        hd_clear_default_context_tape();
        assert_int_equal(hd_tape_length(), 1);
        HD_GRAD_CONTEXT_DEFAULT;
        assert_int_equal(hd_tape_length(), 0);
        hd_neg(x);
    }
    assert_int_equal(hd_tape_length(), 1);
    hd_add(NULL, x);
    hd_clear_tape(); /* what gives back acts also while an error is pending */
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add");
    assert_int_equal(hd_tape_length(), 0);
}

static void the_optimizers_zero_grad_clears_context_0_only(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3);
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(x), 0.5, NULL);
    hd_backward(hd_mul(x, x));
    {
        HD_GRAD_CONTEXT;
        hd_tensor *y = hd_mul_scalar(x, 5);
        hd_optimizer_zero_grad(sgd);
        assert_int_equal(hd_tape_length(), 1);
        assert_true(gradient(x) == 0);
        hd_backward(y);
        assert_true(gradient(x) == 5);
    }
    assert_int_equal(hd_tape_length(), 0);
    assert_int_equal(hd_grad_context_id(), 0);
}

static void gradients_survive_clearing_and_popping(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = number(4);
    hd_backward(hd_mul(x, y));
    hd_clear_tape();
    assert_true(gradient(x) == 4 && gradient(y) == 3);
    {
        HD_GRAD_CONTEXT;
        hd_backward(hd_mul(x, y));
    }
    assert_true(gradient(x) == 8 && gradient(y) == 6);
}

static void a_result_whose_tape_was_cleared_acts_as_a_leaf(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    hd_clear_tape();
    hd_tensor *z = hd_mul(y, y);
    hd_backward(z);
    assert_true(gradient(y) == 18);
    assert_false(hd_has_grad(x));
    hd_clear_tape();
    hd_backward(hd_mul_scalar(y, 2)); /* once more, on a third tape */
    assert_true(gradient(y) == 20);
}

static void a_result_of_another_context_acts_as_a_leaf(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    {
        HD_GRAD_CONTEXT;
        hd_backward(hd_mul(y, hd_exp(hd_mul_scalar(x, 0))));
        assert_true(gradient(y) == 1);
        assert_true(gradient(x) == 0); /* by the way inside the context alone */
    }
    assert_true(gradient(y) == 1);
    hd_backward(y); /* its own history is as it was */
    assert_true(gradient(x) == 6);
    assert_true(gradient(y) == 1);
}

static void a_foreign_result_used_far_apart_gets_one_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul_scalar(x, 1);
    HD_GRAD_CONTEXT;
    hd_tensor *sum = hd_mul_scalar(y, 1);
    for (int i = 0; i < 300; ++i) {
        for (int k = 0; k < i % 100; ++k) sum = hd_add_scalar(sum, 1);
        sum = hd_add(sum, y);
    }
    hd_backward(sum);
    assert_true(gradient(y) == 301);
    assert_true(hd_item(hd_tensors_get(hd_grad_of(sum, HD_TENSORS(y), NULL), 0)) == 301);
}

static void a_leaf_used_in_two_contexts_in_turn_gets_each_ones_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *a = hd_mul_scalar(x, 2), *b;
    {
        HD_GRAD_CONTEXT;
        b = hd_mul_scalar(x, 10);
        {
            HD_GRAD_CONTEXT_DEFAULT;
            a = hd_add(a, hd_mul_scalar(x, 3));
        }
        b = hd_add(b, hd_mul_scalar(x, 20));
        hd_backward(b);
        assert_true(gradient(x) == 30);
    }
    hd_zero_grad(x);
    hd_backward(hd_add(a, x));
    assert_true(gradient(x) == 6);
    assert_true(hd_item(hd_tensors_get(hd_grad_of(a, HD_TENSORS(x), NULL), 0)) == 5);
}

/* Before the write y was a leaf of the new tape, afterwards it is a result on it: its gradient is that of what it is
 * now. */
static void a_foreign_result_that_is_written_is_no_leaf_any_more(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul_scalar(x, 1);
    hd_clear_tape();
    hd_tensor *old = hd_mul_scalar(y, 100); /* y is a leaf here */
    hd_add_(y, x);                          /* and now x + what it was: 6 */
    hd_tensor *loss = hd_add(hd_mul(y, y), old);
    assert_true(hd_item(hd_tensors_get(hd_grad_of(loss, HD_TENSORS(y), NULL), 0)) == 12);
    hd_retain_grad(y);
    hd_backward(loss);
    assert_true(gradient(y) == 12 && gradient(x) == 12);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */
static void backward_never_consumes_the_tape(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, hd_exp(hd_mul_scalar(x, 0)));
    const int64_t length = hd_tape_length();
    hd_backward(y);
    const double once = gradient(x);
    hd_backward(y);
    assert_true(gradient(x) == 2 * once);
    hd_backward(y);
    assert_true(gradient(x) == 3 * once);
    assert_int_equal(hd_tape_length(), length);
}

static void gradients_of_several_losses_add_up(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *shared = hd_mul(x, x);
    hd_backward(hd_mul_scalar(shared, 2));
    hd_backward(hd_mul_scalar(shared, 5));
    hd_backward(hd_neg(x));
    assert_true(gradient(x) == 2 * 6 + 5 * 6 - 1);
}

static void a_tensor_used_many_times_gets_all_its_gradients(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(2), *y = hd_mul(x, x), *z = hd_add(hd_mul(y, y), hd_add(y, x)); /* x^4 + x^2 + x */
    hd_backward(z);
    assert_true(gradient(x) == 4 * 8 + 2 * 2 + 1);
    hd_tensor *v = hd_param(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3));
    hd_backward(hd_dot(v, v));
    assert_values(hd_grad(v), HD_F32, 2, 4, 6);
}

static void a_loss_of_any_shape_begins_with_ones(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3));
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 2, 4, 6);
    hd_zero_grad(x);
    hd_backward(hd_broadcast_to(x, HD_SHAPE(4, 3)));
    assert_values(hd_grad(x), HD_F32, 4, 4, 4);
    hd_tensor *none = hd_param(hd_ones(HD_SHAPE(0, 2), HD_F32));
    hd_backward(hd_exp(none));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_grad(none)), HD_SHAPE(0, 2)));
}

static void a_seed_of_the_losss_shape_takes_the_place_of_ones(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3)), *y = hd_mul(x, x);
    hd_tensor *seed = HD_TENSOR_F32(HD_SHAPE(3), 1, 10, 0);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
    assert_values(hd_grad(x), HD_F32, 2, 40, 0);
    assert_values(seed, HD_F32, 1, 10, 0);
    hd_zero_grad(x);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = hd_cast(seed, HD_F64))); /* another float is cast */
    assert_values(hd_grad(x), HD_F32, 2, 40, 0);
    hd_zero_grad(x);
    hd_backward_with(y,
                     HD_OPTS(hd_backward_opts, .seed = hd_broadcast_to(hd_full(HD_SHAPE(1), HD_F32, 2), HD_SHAPE(3))));
    assert_values(hd_grad(x), HD_F32, 4, 8, 12);
    hd_zero_grad(x);
    hd_backward_with(hd_add(x, x), HD_OPTS(hd_backward_opts, .seed = seed));
    hd_fill(seed, 77); /* the gradient is not the seed's memory */
    assert_values(hd_grad(x), HD_F32, 2, 20, 0);
    hd_backward_with(y, NULL);
    assert_values(hd_grad(x), HD_F32, 4, 24, 6);
}

static void zero_grad_gives_zeros_and_needs_no_gradient_before(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2));
    assert_false(hd_has_grad(x));
    hd_zero_grad(x);
    assert_true(hd_has_grad(x));
    assert_values(hd_grad(x), HD_F32, 0, 0);
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 2, 4);
    hd_zero_grad(x);
    assert_values(hd_grad(x), HD_F32, 0, 0);
    hd_zero_grad(x);
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 2, 4);
}

static void a_gradient_once_taken_does_not_change_by_itself(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *y = hd_mul(x, x);
    hd_backward(y);
    hd_tensor *taken = hd_grad(x);
    hd_backward(y);
    assert_values(taken, HD_F32, 2, 4);
    hd_tensor *now = hd_grad(x);
    assert_values(now, HD_F32, 4, 8);
    hd_zero_grad(x);
    assert_values(now, HD_F32, 4, 8);
    now = hd_grad(x);
    hd_fill(now, 9); /* but writing into it changes the gradient */
    assert_values(hd_grad(x), HD_F32, 9, 9);
    hd_backward(y);
    assert_values(hd_grad(x), HD_F32, 11, 13);
    assert_false(hd_tensor_requires_grad(hd_grad(x)));
}

static void two_leaves_never_share_a_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *y = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_backward(hd_add(x, y));
    hd_fill(hd_grad(x), 7);
    assert_values(hd_grad(y), HD_F32, 1, 1);
    hd_backward(hd_sum(hd_add(x, hd_reshape(y, HD_SHAPE(2))), HD_AXES(), NULL));
    assert_values(hd_grad(x), HD_F32, 8, 8);
    assert_values(hd_grad(y), HD_F32, 2, 2);
    assert_true(hd_tensor_is_contiguous(hd_grad(y)));
}

static void set_grad_replaces_and_takes_away(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *g = HD_TENSOR_F32(HD_SHAPE(2), 5, 6);
    hd_set_grad(x, g);
    hd_fill(g, 0); /* a copy was taken */
    assert_values(hd_grad(x), HD_F32, 5, 6);
    hd_set_grad(x, hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 1, 1), HD_F64));
    assert_values(hd_grad(x), HD_F32, 1, 1);
    hd_set_grad(x, hd_grad(x));
    assert_values(hd_grad(x), HD_F32, 1, 1);
    hd_set_grad(x, NULL);
    assert_false(hd_has_grad(x));
    hd_set_grad(x, hd_ones(HD_SHAPE(3), HD_F32));
    assert_error(HD_ERROR_SHAPE, "[3]");
    assert_false(hd_has_grad(x));
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 2, 4);
}

static void an_op_whose_gradient_is_zero_reaches_its_leaves(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *apart = number(4);
    hd_backward(hd_sign(hd_mul(x, x)));
    assert_true(gradient(x) == 0);
    assert_false(hd_has_grad(apart));
    hd_backward(hd_add(hd_sign(x), x));
    assert_true(gradient(x) == 1);
}

static void what_the_loss_did_not_come_from_is_left_alone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = number(4), *loss = hd_mul(x, x);
    hd_mul(y, y);
    hd_backward(loss);
    assert_false(hd_has_grad(y));
    assert_true(gradient(x) == 6);
}

static void hd_concat_of_many_reaches_all(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *parts[64];
    for (int i = 0; i < 64; ++i) parts[i] = hd_param(hd_full(HD_SHAPE(1 + i % 3), HD_F32, i));
    hd_tensor *all = hd_concat(parts, 64, 0);
    hd_backward(hd_mul(all, all));
    for (int i = 0; i < 64; ++i) assert_true(hd_item(hd_select(hd_grad(parts[i]), 0, -1)) == 2 * i);
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */
static void a_tensor_tells_whether_it_requires_a_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_false(hd_tensor_requires_grad(x));
    assert_ptr_equal(hd_requires_grad(x), x);
    assert_true(hd_tensor_requires_grad(x));
    assert_true(hd_tensor_requires_grad(hd_exp(x)));
    assert_false(hd_tensor_requires_grad(hd_detach(x)));
    hd_set_requires_grad(x, false);
    assert_false(hd_tensor_requires_grad(x));
    assert_false(hd_tensor_requires_grad(hd_exp(x)));
    hd_set_requires_grad(x, true);
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 2, 2);
}

static void a_leaf_that_was_frozen_since_gets_no_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *frozen = number(4), *y = hd_mul(x, frozen);
    hd_set_requires_grad(frozen, false);
    hd_backward(y);
    assert_true(gradient(x) == 4);
    assert_false(hd_has_grad(frozen));
    hd_set_requires_grad(frozen, true);
    hd_backward(y);
    assert_true(gradient(x) == 8 && gradient(frozen) == 3);
}

static void param_of_a_result_is_a_leaf_with_its_values(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x), *p = hd_param(y);
    assert_ptr_not_equal(p, y);
    assert_false(hd_tensor_shares_storage(p, y));
    hd_backward(hd_mul(p, p));
    assert_true(gradient(p) == 18);
    assert_false(hd_has_grad(x));
    assert_ptr_equal(hd_param(p), p);
    hd_tensor *plain = hd_exp(hd_ones(HD_SHAPE(2), HD_F32)); /* no tape made it */
    assert_ptr_equal(hd_param(plain), plain);
    HD_NO_GRAD;
    hd_tensor *quiet = hd_mul(x, x);
    assert_ptr_equal(hd_param(quiet), quiet);
}

static void detach_stops_gradients_and_shares_memory(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x), *d = hd_detach(y);
    assert_true(hd_tensor_shares_storage(d, y));
    hd_backward(hd_mul(y, d));
    assert_true(gradient(x) == 9 * 6);
    assert_false(hd_tensor_requires_grad(hd_mul(d, d)));
}

static void no_grad_notes_nothing_and_nests(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3);
    {
        HD_NO_GRAD;
        assert_false(hd_tensor_requires_grad(hd_mul(x, x)));
        {
            HD_NO_GRAD;
            hd_mul(x, x);
        }
        assert_false(hd_tensor_requires_grad(hd_mul(x, x)));
        {
            HD_GRAD_CONTEXT; /* a context inside does not turn it off */
            assert_false(hd_tensor_requires_grad(hd_mul(x, x)));
            assert_int_equal(hd_tape_length(), 0);
        }
        {
            HD_GRAD_CONTEXT_DEFAULT;
            assert_false(hd_tensor_requires_grad(hd_mul(x, x)));
        }
        assert_true(hd_tensor_requires_grad(x)); /* the leaf is as it was */
        assert_int_equal(hd_tape_length(), 0);
    }
    for (int i = 0; i < 2; ++i) {
        HD_NO_GRAD;
        if (i == 1) break;
        continue;
    }
    hd_backward(hd_mul(x, x));
    assert_true(gradient(x) == 6);
    assert_int_equal(hd_tape_length(), 1);
}

static void retain_grad_keeps_the_gradient_of_a_result(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x), *z = hd_mul(y, y);
    assert_ptr_equal(hd_retain_grad(y), y);
    assert_ptr_equal(hd_retain_grad(y), y);
    assert_ptr_equal(hd_retain_grad(x), x);
    assert_null(hd_grad(y));
    assert_error(HD_ERROR_STATE, "gradient not computed");
    hd_backward(z);
    assert_true(gradient(y) == 18 && gradient(x) == 18 * 6);
    hd_backward(z);
    assert_true(gradient(y) == 36);
    hd_zero_grad(y);
    hd_retain_grad(z);
    hd_backward(z);
    assert_true(gradient(y) == 18 && gradient(z) == 1);
    hd_clear_tape();
    assert_true(gradient(y) == 18);
    assert_null(hd_retain_grad(y)); /* it is on no tape now */
    assert_error(HD_ERROR_STATE, "hd_retain_grad");
    assert_null(hd_retain_grad(hd_ones(HD_SHAPE(1), HD_F32)));
    assert_error(HD_ERROR_STATE, "hd_retain_grad");
}

/* ---- hooks ------------------------------------------------------------------------------------------------------- */
typedef struct seen {
    int calls;
    double gradient[8];
    double factor;              /* 0: returns NULL */
    hd_tensor *(*also)(void *); /* what else it does, and returns, in the first call only */
    void *with;
} seen;
static hd_tensor *look(hd_tensor *gradient_of_it, void *user) {
    seen *s = user;
    if (s->calls < 8) s->gradient[s->calls] = hd_item(hd_sum(gradient_of_it, HD_AXES(), NULL));
    ++s->calls;
    if (s->also != NULL) {
        hd_tensor *(*also)(void *) = s->also;
        s->also = NULL;
        return also(s->with);
    }
    return s->factor != 0 ? hd_mul_scalar(gradient_of_it, s->factor) : NULL;
}

static void a_hook_sees_the_whole_gradient_once(void **state) {
    (void)state;
    HD_SCOPE;
    seen leaf = {0}, result = {0};
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    hd_add_grad_hook(x, look, &leaf);
    hd_add_grad_hook(y, look, &result);
    hd_tensor *z = hd_add(hd_mul_scalar(y, 2), hd_add(hd_mul_scalar(y, 3), x));
    hd_backward(z);
    assert_int_equal(leaf.calls, 1);
    assert_int_equal(result.calls, 1);
    assert_true(result.gradient[0] == 5 && leaf.gradient[0] == 31);
    hd_backward(z); /* in every backward */
    assert_int_equal(leaf.calls, 2);
    assert_int_equal(result.calls, 2);
    assert_true(leaf.gradient[1] == 31 && gradient(x) == 62);
    hd_clear_tape();
    hd_backward(hd_neg(x)); /* a leaf's hook stays with it */
    assert_int_equal(leaf.calls, 3);
}

static void a_hook_of_a_leaf_used_in_other_contexts_too_sees_the_whole_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {.factor = 1};
    hd_tensor *x = number(3);
    hd_add_grad_hook(x, look, &s);
    hd_tensor *y = hd_mul_scalar(x, 2);
    {
        HD_GRAD_CONTEXT;
        hd_neg(x);
    }
    hd_backward(hd_add(y, hd_mul_scalar(x, 5)));
    assert_int_equal(s.calls, 1);
    assert_true(s.gradient[0] == 7 && gradient(x) == 7);
}

static void a_hook_replaces_what_flows_on(void **state) {
    (void)state;
    HD_SCOPE;
    seen leaf = {.factor = 10}, first = {.factor = 2}, second = {.factor = -1};
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    hd_add_grad_hook(x, look, &leaf);
    hd_add_grad_hook(y, look, &first);
    hd_add_grad_hook(y, look, &second); /* in the order they were added */
    hd_retain_grad(y);
    hd_backward(hd_mul_scalar(y, 3));
    assert_true(first.gradient[0] == 3 && second.gradient[0] == 6 && leaf.gradient[0] == -36);
    assert_true(gradient(y) == -6 && gradient(x) == -360);
}

static hd_tensor *give(void *tensor) { return tensor; }
static void a_hook_that_gives_a_wrong_gradient_is_an_error_and_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *apart = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_tensor *y = hd_mul(x, apart), *gone;
    hd_add_grad_hook(x, look, &s);
    {
        HD_SCOPE;
        gone = hd_ones(HD_SHAPE(2), HD_F32);
    }
    hd_tensor *wrong[3] = {hd_ones(HD_SHAPE(3), HD_F32), hd_ones(HD_SHAPE(2), HD_F64), gone};
    static const hd_error codes[3] = {HD_ERROR_SHAPE, HD_ERROR_SHAPE, HD_ERROR_RELEASED};
    static const char *const texts[3] = {"[3]", "f64", "hook"};
    for (int i = 0; i < 3; ++i) {
        s.also = give;
        s.with = wrong[i];
        hd_backward(y);
        assert_error(codes[i], texts[i]);
        assert_false(hd_has_grad(x));
        assert_false(hd_has_grad(apart));
    }
    hd_backward(y);
    assert_values(hd_grad(x), HD_F32, 1, 1);
    assert_values(hd_grad(apart), HD_F32, 1, 1);
}

static void a_hooks_gradient_may_be_anything_of_its_shape(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2, 2), HD_F32)), *mine = HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3, 4);
    hd_add_grad_hook(x, look, &s);
    hd_tensor *y = hd_exp(x);
    s.also = give, s.with = hd_t(mine); /* a view */
    hd_backward(y);
    hd_fill(mine, 0);
    assert_values(hd_grad(x), HD_F32, 1, 3, 2, 4);
    assert_true(hd_tensor_is_contiguous(hd_grad(x)));
    hd_zero_grad(x);
    s.also = give, s.with = x; /* the leaf itself */
    hd_backward(y);
    assert_values(hd_grad(x), HD_F32, 1, 1, 1, 1);
    assert_false(hd_tensor_shares_storage(hd_grad(x), x));
    assert_false(hd_tensor_requires_grad(hd_grad(x)));
}

static hd_tensor *doubles_in_place(hd_tensor *gradient_of_it, void *user) {
    (void)user;
    hd_add_(gradient_of_it, gradient_of_it);
    return NULL;
}
static hd_tensor *doubles_through_a_pointer(hd_tensor *gradient_of_it, void *user) {
    (void)user;
    float *v = hd_data_mut(gradient_of_it, HD_F32);
    if (v != NULL) v[0] *= 2;
    return gradient_of_it;
}
/* The same tensor may be on its way to others, or be the seed. */
static void a_hook_that_writes_into_its_gradient_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *apart = number(1), *y = hd_mul_scalar(x, 2), *z = hd_add(y, apart);
    hd_add_grad_hook(x, doubles_in_place, NULL);
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "a hook on a leaf wrote into the gradient");
    assert_null(hd_grad_of(z, HD_TENSORS(x), NULL));
    assert_error(HD_ERROR_STATE, "a hook on a leaf wrote into the gradient");
    hd_add_grad_hook(y, doubles_through_a_pointer, NULL);
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "a hook on hd_mul wrote into the gradient");
    assert_false(hd_has_grad(x));
    assert_false(hd_has_grad(apart));
}

static void a_gradient_that_is_zero_by_nature_calls_no_hook(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    hd_tensor *x = number(3);
    hd_add_grad_hook(x, look, &s);
    hd_backward(hd_sign(x));
    assert_int_equal(s.calls, 0);
    assert_true(gradient(x) == 0);
    hd_backward(hd_mul_scalar(x, 0)); /* this zero was computed */
    assert_int_equal(s.calls, 1);
}

static hd_tensor *walk_again(void *loss) { return hd_backward(loss), NULL; }
static hd_tensor *walk_for_values(void *loss) { return hd_grad_of(loss, HD_TENSORS((hd_tensor *)loss), NULL), NULL; }
static hd_tensor *clear(void *unused) { return (void)unused, hd_clear_tape(), NULL; }
static hd_tensor *clear_default(void *unused) { return (void)unused, hd_clear_default_context_tape(), NULL; }
static hd_tensor *fail_itself(void *x) { return hd_add(x, NULL); }
static hd_tensor *zero_all(void *optimizer) { return hd_optimizer_zero_grad(optimizer), NULL; }

static void a_hook_may_not_walk_or_clear_the_tape_and_nothing_breaks(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    hd_tensor *x = number(3), *apart = number(1), *y = hd_mul(x, x), *z = hd_mul(hd_mul(y, y), apart);
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(apart), 1, NULL);
    hd_add_grad_hook(y, look, &s);
    hd_tensor *(*const mischief[])(void *) = {walk_again, walk_for_values, clear, clear_default, zero_all};
    void *const with[] = {z, z, NULL, NULL, sgd};
    for (int i = 0; i < 5; ++i) {
        s.also = mischief[i];
        s.with = with[i];
        hd_set_grad(apart, NULL);
        hd_backward(z);
        if (hd_ok()) fail_msg("%d: no error", i);
        assert_int_equal(hd_error_code(), HD_ERROR_STATE);
        hd_error_clear();
        assert_false(hd_has_grad(x));
        assert_int_equal(hd_tape_length(), 3);
    }
    s.also = fail_itself, s.with = x;
    hd_backward(z);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    hd_set_grad(apart, NULL);
    hd_backward(z);
    assert_true(gradient(x) == 2 * 9 * 6 && gradient(apart) == 81);
}

/* Here nobody but the tape holds the leaves: clearing it would take them away under backward. */
static void a_hook_of_a_leaf_may_not_clear_the_tape_either(void **state) {
    (void)state;
    HD_SCOPE;
    seen s[2] = {{0}, {0}};
    hd_tensor *x = number(3), *y;
    {
        HD_SCOPE;
        hd_tensor *a = number(2), *b = number(5);
        hd_add_grad_hook(a, look, &s[0]);
        hd_add_grad_hook(b, look, &s[1]);
        y = hd_keep(hd_mul(hd_mul(a, b), x));
    }
    hd_tensor *(*const mischief[])(void *) = {clear, clear_default, walk_again};
    for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 2; ++k) s[k].also = mischief[i], s[k].with = y;
        hd_backward(y);
        if (hd_ok()) fail_msg("%d: no error", i);
        assert_int_equal(hd_error_code(), HD_ERROR_STATE);
        hd_error_clear();
        assert_false(hd_has_grad(x));
        assert_int_equal(hd_tape_length(), 2);
    }
    s[0].also = s[1].also = NULL;
    hd_backward(y);
    assert_true(gradient(x) == 10);
    seen wanted = {.also = clear};
    hd_add_grad_hook(x, look, &wanted);
    assert_null(hd_grad_of(y, HD_TENSORS(x), NULL));
    assert_int_equal(hd_error_code(), HD_ERROR_STATE);
    hd_error_clear();
    assert_int_equal(hd_tape_length(), 2);
}

static hd_tensor *push_a_context(void *id) { return *(int64_t *)id = hd_grad_context_push(), NULL; }
static hd_tensor *turn_tapes_off(void *unused) {
    static hd_grad_token token;
    (void)unused;
    token = hd_no_grad_begin(&token);
    return NULL;
}
static hd_tensor *compute_in_a_context(void *x) {
    HD_GRAD_CONTEXT;
    hd_exp(x);
    return NULL;
}

static void a_hook_may_use_contexts_but_leaves_none_behind(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    int64_t id = -1;
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    hd_add_grad_hook(x, look, &s);
    s.also = compute_in_a_context, s.with = x;
    hd_backward(y);
    assert_true(gradient(x) == 6);
    assert_int_equal(hd_tape_length(), 1);
    s.also = push_a_context, s.with = &id;
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "did not end it");
    assert_int_equal(hd_grad_context_id(), 0);
    assert_true(hd_tensor_requires_grad(hd_mul(x, x)));
    s.also = turn_tapes_off;
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "a hook began HD_NO_GRAD and did not end it");
    assert_true(hd_tensor_requires_grad(hd_mul(x, x)));
}

static hd_tensor *add_another(void *both) {
    hd_add_grad_hook(((void **)both)[0], look, ((void **)both)[1]);
    return NULL;
}

static void a_hook_may_add_hooks(void **state) {
    (void)state;
    HD_SCOPE;
    seen outer = {0}, inner = {0};
    hd_tensor *x = number(3), *y = hd_mul(x, x), *z = hd_mul_scalar(y, 2);
    hd_add_grad_hook(z, look, &outer);
    void *both[2] = {y, &inner};
    outer.also = add_another, outer.with = both;
    hd_backward(z);
    assert_int_equal(inner.calls, 0); /* whether y's turn was yet to come or not */
    assert_true(gradient(x) == 12);
    hd_backward(z);
    assert_int_equal(inner.calls, 1); /* the one that was added then */
}

typedef struct adder {
    hd_tensor *to;
    int calls;
} adder;
static hd_tensor *adds_itself(hd_tensor *g, void *user) {
    adder *a = user;
    (void)g;
    if (++a->calls < 1000) hd_add_grad_hook(a->to, adds_itself, a);
    return NULL;
}

static void a_hook_that_adds_itself_is_called_once_more_in_the_next_walk(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    adder on_result = {y, 0}, on_leaf = {x, 0};
    hd_add_grad_hook(y, adds_itself, &on_result);
    hd_add_grad_hook(x, adds_itself, &on_leaf);
    hd_backward(y);
    assert_int_equal(on_result.calls, 1);
    assert_int_equal(on_leaf.calls, 1);
    hd_backward(y); /* each of the two hooks adds one */
    assert_int_equal(on_result.calls, 3);
    assert_int_equal(on_leaf.calls, 3);
    assert_non_null(hd_grad_of(y, HD_TENSORS(x), NULL));
    assert_int_equal(on_leaf.calls, 7);
}

static void hooks_need_a_tensor_with_a_gradient_and_a_function(void **state) {
    (void)state;
    HD_SCOPE;
    seen s = {0};
    hd_tensor *x = number(3), *y = hd_mul(x, x);
    hd_add_grad_hook(hd_ones(HD_SHAPE(1), HD_F32), look, &s);
    assert_error(HD_ERROR_STATE, "hd_add_grad_hook");
    hd_add_grad_hook(x, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`fn`");
    hd_add_grad_hook(NULL, look, &s);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`t`");
    {
        HD_GRAD_CONTEXT;
        hd_add_grad_hook(y, look, &s);
        assert_error(HD_ERROR_STATE, "context");
    }
    hd_backward(y);
    assert_int_equal(s.calls, 0);
    assert_true(gradient(x) == 6);
}

/* ---- writing in place -------------------------------------------------------------------------------------------- */
static void a_leaf_is_written_only_under_no_grad(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *one = hd_ones(HD_SHAPE(2), HD_F32);
    hd_fill(x, 5);
    assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
    hd_assign(x, one);
    assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
    hd_add_(x, one);
    assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
    hd_zero_(x);
    assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
    assert_values(x, HD_F32, 1, 2);
    {
        HD_NO_GRAD;
        hd_add_(x, one);
    }
    assert_values(x, HD_F32, 2, 3);
    hd_backward(hd_mul(x, x));
    assert_values(hd_grad(x), HD_F32, 4, 6);
}

static void a_saved_value_that_was_written_is_an_error_that_names_the_op(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *factor = hd_full(HD_SHAPE(), HD_F32, 5), *y = hd_mul(x, factor), *z = hd_exp(y);
    hd_fill(factor, 6); /* a plain tensor: nothing refuses the write */
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "hd_mul");
    assert_false(hd_has_grad(x));
    hd_clear_tape();
    z = hd_exp(hd_mul(x, factor));
    {
        HD_NO_GRAD;
        hd_fill(z, 1);
    }
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "hd_exp");
    hd_clear_tape();
    y = hd_mul(x, x);
    {
        HD_NO_GRAD;
        hd_fill(x, 4);
    }
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "hd_mul");
    hd_clear_tape();
    hd_tensor *data = hd_ones(HD_SHAPE(2), HD_F32);
    y = hd_mul(x, data);
    ((float *)hd_data_mut(data, HD_F32))[0] = 3;
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "hd_mul");
    assert_false(hd_has_grad(x));
    hd_backward(hd_mul(x, data));
    assert_true(gradient(x) == 4);
}

static void only_records_on_the_way_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *factor = hd_full(HD_SHAPE(), HD_F32, 5);
    hd_tensor *written = hd_mul(x, factor), *other = hd_mul_scalar(x, 7), *sum = hd_add(written, x);
    hd_fill(factor, 6);
    hd_backward(other);
    assert_true(gradient(x) == 7);
    hd_backward(sum);
    assert_error(HD_ERROR_STATE, "hd_mul");
    assert_true(gradient(x) == 7);
    assert_true(hd_item(hd_tensors_get(hd_grad_of(sum, HD_TENSORS(written), NULL), 0)) == 1); /* stops before it */
}

static void what_is_not_saved_may_be_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *c = hd_full(HD_SHAPE(), HD_F32, 5), *y = hd_add(hd_mul_scalar(x, 2), c);
    hd_fill(c, 9);
    hd_backward(y);
    assert_true(gradient(x) == 2);
}

static void a_result_may_be_written_and_its_gradient_is_right(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(3), *y = hd_mul_scalar(x, 2);
    hd_add_(y, hd_mul(x, x)); /* 2x + x^2 */
    hd_mul_(y, x);            /* 2x^2 + x^3 */
    hd_backward(y);
    assert_true(gradient(x) == 4 * 3 + 3 * 9);
    hd_zero_grad(x);
    hd_tensor *v = hd_zeros(HD_SHAPE(2, 3), HD_F32);
    hd_assign(v, x); /* a plain tensor takes on the history of what is written; broadcast */
    assert_true(hd_tensor_requires_grad(v));
    hd_backward(hd_mul_scalar(v, 10));
    assert_true(gradient(x) == 60);
    hd_fill(v, 1); /* and loses it to constants */
    assert_false(hd_tensor_requires_grad(v));
    hd_tensor *half = hd_zeros(HD_SHAPE(2), HD_F64);
    hd_assign(half, hd_exp(hd_mul_scalar(x, 0))); /* cast on the way */
    hd_backward(half);
    assert_true(gradient(x) == 60);
    hd_clear_tape();
    hd_zero_grad(x);
    y = hd_mul_scalar(x, 2);
    hd_tensor *square = hd_mul(y, y); /* y is saved, then written */
    hd_add_(y, x);
    hd_backward(y);
    assert_true(gradient(x) == 3);
    hd_backward(square);
    assert_error(HD_ERROR_STATE, "hd_mul");
    assert_true(gradient(x) == 3);
}

static void a_tensor_that_shares_memory_is_not_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3)), *y = hd_mul_scalar(x, 2),
              *view = hd_slice(y, 0, 0, 2, 1);
    hd_fill(view, 0);
    assert_error(HD_ERROR_STATE, "shares its memory");
    hd_fill(y, 0);
    assert_error(HD_ERROR_STATE, "shares its memory");
    hd_tensor *plain = hd_zeros(HD_SHAPE(3), HD_F32), *part = hd_slice(plain, 0, 0, 2, 1);
    hd_assign(part, view); /* history would have to go into a part of plain */
    assert_error(HD_ERROR_STATE, "shares its memory");
    hd_fill(hd_slice(x, 0, 0, 1, 1), 0);
    assert_error(HD_ERROR_STATE, "shares its memory");
    assert_values(x, HD_F32, 1, 2, 3);
    assert_values(y, HD_F32, 2, 4, 6);
    assert_values(plain, HD_F32, 0, 0, 0);
    hd_fill(part, 8); /* without history it is free */
    assert_values(plain, HD_F32, 8, 8, 0);
    hd_backward(hd_mul(view, view));
    assert_values(hd_grad(x), HD_F32, 8, 16, 0);
}

/* ---- what a tape holds ------------------------------------------------------------------------------------------- */
typedef hd_tensor *build(hd_tensor *x, hd_tensor *c); /* x is on the tape, c a constant; both go with the scope */
static hd_tensor *adds(hd_tensor *x, hd_tensor *c) { return hd_add(x, c); }
static hd_tensor *subtracts(hd_tensor *x, hd_tensor *c) { return hd_sub(c, x); }
static hd_tensor *sums(hd_tensor *x, hd_tensor *c) { return (void)c, hd_sum(x, HD_AXES(), NULL); }
static hd_tensor *views(hd_tensor *x, hd_tensor *c) { return (void)c, hd_t(hd_reshape(x, HD_SHAPE(4, 25))); }
static hd_tensor *casts(hd_tensor *x, hd_tensor *c) { return (void)c, hd_cast(x, HD_F64); }
static hd_tensor *signs(hd_tensor *x, hd_tensor *c) { return (void)c, hd_sign(x); }
static hd_tensor *compares(hd_tensor *x, hd_tensor *c) { return hd_lt(x, c); }
static hd_tensor *scales(hd_tensor *x, hd_tensor *c) { return hd_mul(x, c); }
static hd_tensor *scales_left(hd_tensor *x, hd_tensor *c) { return hd_mul(c, x); }
static hd_tensor *divides(hd_tensor *x, hd_tensor *c) { return hd_div(x, c); }
static hd_tensor *squares(hd_tensor *x, hd_tensor *c) { return (void)c, hd_mul(x, x); }
static hd_tensor *rectifies(hd_tensor *x, hd_tensor *c) { return (void)c, hd_relu(x); }
static hd_tensor *exponentiates(hd_tensor *x, hd_tensor *c) { return (void)c, hd_exp(x); }
static hd_tensor *saturates(hd_tensor *x, hd_tensor *c) { return (void)c, hd_tanh(x); }
static hd_tensor *multiplies(hd_tensor *x, hd_tensor *c) {
    return hd_matmul(hd_reshape(x, HD_SHAPE(10, 10)), hd_reshape(c, HD_SHAPE(10, 10)));
}
static hd_tensor *as_image(hd_tensor *x) { return hd_reshape(x, HD_SHAPE(1, 1, 10, 10)); }
static hd_tensor *averages(hd_tensor *x, hd_tensor *c) {
    return (void)c, hd_avg_pool(as_image(x), HD_SHAPE(2, 2), NULL);
}
static hd_tensor *picks(hd_tensor *x, hd_tensor *c) { return (void)c, hd_max_pool(as_image(x), HD_SHAPE(2, 2), NULL); }
static hd_tensor *convolves(hd_tensor *x, hd_tensor *c) {
    return hd_conv2d(as_image(x), hd_reshape(hd_narrow(c, 0, 0, 9), HD_SHAPE(1, 1, 3, 3)), NULL, NULL);
}
static hd_tensor *adds_a_bias(hd_tensor *x,
                              hd_tensor *c) { /* c is the image: it is not read without a weight to learn */
    return hd_conv2d(as_image(c), hd_ones(HD_SHAPE(100, 1, 1, 1), HD_F32), x, NULL);
}
static hd_tensor *scatters(hd_tensor *x, hd_tensor *c, hd_scatter_mode mode) { /* ten of a hundred */
    return hd_scatter(x, 0, hd_zeros(HD_SHAPE(10), HD_I64), hd_narrow(c, 0, 0, 10), mode);
}
static hd_tensor *sets(hd_tensor *x, hd_tensor *c) { return scatters(x, c, HD_SCATTER_SET); }
static hd_tensor *adds_to(hd_tensor *x, hd_tensor *c) { return scatters(c, x, HD_SCATTER_ADD); }
static hd_tensor *multiplies_into(hd_tensor *x, hd_tensor *c) { return scatters(x, hd_copy(c), HD_SCATTER_MUL); }
static hd_tensor *normalises(hd_tensor *x, hd_tensor *c) { return hd_layer_norm(x, 1, NULL, c, 0.1); }
static hd_tensor *normalises_by(hd_tensor *x, hd_tensor *c) { return hd_rms_norm(x, c, 0.1); }
static hd_tensor *attends(hd_tensor *x, hd_tensor *c) {
    hd_tensor *rows = hd_reshape(x, HD_SHAPE(10, 10));
    return (void)c, hd_attention(rows, rows, rows, NULL, true, 0);
}
static hd_tensor *multiplies_both(hd_tensor *x, hd_tensor *c) { return hd_mul(x, hd_add(x, c)); }
static hd_tensor *divides_by(hd_tensor *x, hd_tensor *c) { return hd_div(c, x); }

static void a_tape_holds_what_gradients_read_and_nothing_else(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(100), HD_F32));
    hd_backward(hd_neg(p)); /* so that the gradient is there */
    hd_clear_tape();
    static const struct {
        const char *name;
        build *run;
        int most; /* tensors of 100 floats that stay */
    } cases[] = {{"add", adds, 0},
                 {"sub", subtracts, 0},
                 {"sum", sums, 0},
                 {"views", views, 0},
                 {"cast", casts, 0},
                 {"sign", signs, 0},
                 {"lt", compares, 0},
                 {"mul by a constant", scales, 1},
                 {"mul of a constant", scales_left, 1},
                 {"div by a constant", divides, 1},
                 {"square", squares, 1},
                 {"relu", rectifies, 1},
                 {"exp", exponentiates, 1},
                 {"tanh", saturates, 1},
                 {"matmul by a constant", multiplies, 1},
                 {"avg_pool", averages, 0},
                 {"max_pool", picks, 1},
                 {"conv by a constant", convolves, 1},
                 {"the bias of a conv", adds_a_bias, 0},
                 {"layer_norm", normalises, 1},
                 {"rms_norm by a constant", normalises_by, 2},
                 {"attention of itself, with statistics of its rows", attends, 2},
                 {"scatter, set", sets, 1},
                 {"scatter, add", adds_to, 1},
                 {"scatter, mul", multiplies_into, 3},
                 {"mul of two results", multiplies_both, 2},
                 {"div by a result", divides_by, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
        {
            HD_SCOPE;
            cases[i].run(hd_add_scalar(p, 1), hd_full(HD_SHAPE(100), HD_F32, 2));
            assert_ok();
        }
        const int64_t held = hd_live_objects() - objects, kept = hd_memory().live_bytes - bytes;
        /* a tensor, its storage, and for a view of it one tensor more; 100 floats are a block of 448 bytes */
        if (held > 3 * cases[i].most || kept > 448 * cases[i].most)
            fail_msg("%s holds %d objects and %d bytes", cases[i].name, (int)held, (int)kept);
        hd_clear_tape();
        assert_int_equal(hd_live_objects(), objects);
        assert_int_equal(hd_memory().live_bytes, bytes);
    }
}

static void a_loss_outlives_the_scopes_of_what_it_came_from(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = number(2), *y = x;
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        y = hd_keep(hd_mul(y, hd_mul_scalar(x, 2)));
    }
    hd_backward(y); /* 8 x^4 */
    assert_true(gradient(x) == 8 * 4 * 8);
}

static void a_leaf_lives_as_long_as_a_tape_needs_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *y;
    {
        HD_SCOPE;
        y = hd_keep(hd_exp(number(0)));
    }
    hd_backward(y); /* its gradient arrives, though nobody can ask for it any more */
    assert_ok();
    assert_true(hd_live_objects() > 2);
    hd_clear_tape();
    assert_int_equal(hd_live_objects(), 2);
}

/* ---- a tape that grows ------------------------------------------------------------------------------------------- */
static void never_clears(void) {
    HD_SCOPE;
    hd_tensor *x = number(3);
    for (int i = 0; i < 700; ++i) {
        HD_SCOPE;
        hd_backward(hd_mul(x, x));
    }
    HD_GRAD_CONTEXT;
    for (int i = 0; i < 700; ++i) {
        HD_SCOPE;
        hd_backward(hd_mul(x, x));
    }
}
/* More than two million records, and not one backward. */
static void only_goes_forward(void) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    hd_tensor *x = number(3);
    for (int i = 0; i < (1 << 21) + 1000; ++i) {
        HD_SCOPE;
        hd_neg(x);
    }
    hd_clear_tape();
    for (int i = 0; i < (1 << 21) + 1000; ++i) {
        HD_SCOPE;
        hd_neg(x);
    }
}
static void always_clears(void) {
    HD_SCOPE;
    hd_tensor *x = number(3);
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(x), 0, NULL);
    for (int i = 0; i < 1000; ++i) {
        HD_SCOPE;
        hd_optimizer_zero_grad(sgd);
        hd_backward(hd_mul(x, x));
        HD_GRAD_CONTEXT;
        hd_backward(hd_mul(x, x));
    }
    HD_GRAD_CONTEXT;
    for (int i = 0; i < 1000; ++i) {
        HD_SCOPE;
        hd_backward(hd_mul(x, x));
        hd_clear_tape();
    }
}

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; ++at) ++count;
    return count;
}

static void a_tape_that_is_never_cleared_is_warned_of_once(void **state) {
    (void)state;
    char text[4096];
    stderr_of(never_clears, text, sizeof text);
    assert_int_equal(count_of(text, "\n"), 2);
    assert_int_equal(count_of(text, "without a clear"), 2);
    assert_int_equal(count_of(text, "context 0"), 1);
    assert_int_equal(count_of(text, "context 1"), 1);
    assert_int_equal(count_of(text, "hd_clear_tape"), 2);
    stderr_of(always_clears, text, sizeof text);
    assert_string_equal(text, "");
}

static void a_tape_that_only_grows_is_warned_of_once(void **state) {
    (void)state;
    char text[4096];
    stderr_of(only_goes_forward, text, sizeof text);
    assert_int_equal(count_of(text, "\n"), 1);
    assert_int_equal(count_of(text, " has 2097150 records; unless they are one computation, call hd_clear_tape"), 1);
    assert_int_equal(count_of(text, "HD_NO_GRAD"), 1);
}

/* ---- an own module on the tape ----------------------------------------------------------------------------------- */
static hd_tensor *scaled_forward(hd_module *module, hd_tensor *x) {
    return hd_mul(hd_module_get(module, "scale"), hd_add(x, hd_module_get(module, "shift")));
}
static void own_modules_are_noted_like_any_other_call(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class scaled = {.name = "scaled", .forward = scaled_forward};
    hd_module *inner = hd_module_new(&scaled, NULL), *outer = HD_SEQUENTIAL(inner, inner);
    hd_tensor *scale = hd_module_add_parameter(inner, "scale", hd_full(HD_SHAPE(), HD_F32, 3));
    hd_module_add_buffer(inner, "shift", hd_full(HD_SHAPE(), HD_F32, 1));
    hd_tensor *y = hd_forward(outer, hd_full(HD_SHAPE(), HD_F32, 4)); /* s (s 5 + 1) */
    assert_int_equal(hd_tape_length(), 3);                            /* the first sum has no parameter in it */
    hd_backward(y);
    assert_true(hd_item(y) == 48 && gradient(scale) == 2 * 3 * 5 + 1);
}

RUN(test(ids_name_what_is_active_and_are_never_used_twice), test(a_context_ends_with_its_block_however_it_is_left),
    test(each_context_has_a_tape_of_its_own), test(context_0_can_be_made_active_inside_another),
    test(contexts_can_be_pushed_and_popped), test(a_context_is_popped_only_when_it_is_its_turn),
    test(a_declared_context_is_not_popped), test(a_pushed_context_is_popped_within_its_block),
    test(blocks_begin_and_end_also_while_an_error_is_pending), test(a_token_ends_its_block_once),
    test(contexts_nest_deeply), test(clearing_empties_the_active_tape_only),
    test(the_optimizers_zero_grad_clears_context_0_only), test(gradients_survive_clearing_and_popping),
    test(a_result_whose_tape_was_cleared_acts_as_a_leaf), test(a_result_of_another_context_acts_as_a_leaf),
    test(a_foreign_result_used_far_apart_gets_one_gradient),
    test(a_leaf_used_in_two_contexts_in_turn_gets_each_ones_gradient),
    test(a_foreign_result_that_is_written_is_no_leaf_any_more), test(backward_never_consumes_the_tape),
    test(gradients_of_several_losses_add_up), test(a_tensor_used_many_times_gets_all_its_gradients),
    test(a_loss_of_any_shape_begins_with_ones), test(a_seed_of_the_losss_shape_takes_the_place_of_ones),
    test(zero_grad_gives_zeros_and_needs_no_gradient_before), test(a_gradient_once_taken_does_not_change_by_itself),
    test(two_leaves_never_share_a_gradient), test(set_grad_replaces_and_takes_away),
    test(an_op_whose_gradient_is_zero_reaches_its_leaves), test(what_the_loss_did_not_come_from_is_left_alone),
    test(hd_concat_of_many_reaches_all), test(a_tensor_tells_whether_it_requires_a_gradient),
    test(a_leaf_that_was_frozen_since_gets_no_gradient), test(param_of_a_result_is_a_leaf_with_its_values),
    test(detach_stops_gradients_and_shares_memory), test(no_grad_notes_nothing_and_nests),
    test(retain_grad_keeps_the_gradient_of_a_result), test(a_hook_sees_the_whole_gradient_once),
    test(a_hook_replaces_what_flows_on), test(a_hook_that_gives_a_wrong_gradient_is_an_error_and_changes_nothing),
    test(a_hooks_gradient_may_be_anything_of_its_shape), test(a_hook_may_not_walk_or_clear_the_tape_and_nothing_breaks),
    test(a_hook_may_add_hooks), test(a_hook_that_adds_itself_is_called_once_more_in_the_next_walk),
    test(hooks_need_a_tensor_with_a_gradient_and_a_function), test(a_leaf_is_written_only_under_no_grad),
    test(a_saved_value_that_was_written_is_an_error_that_names_the_op), test(only_records_on_the_way_are_checked),
    test(what_is_not_saved_may_be_written), test(a_result_may_be_written_and_its_gradient_is_right),
    test(a_tensor_that_shares_memory_is_not_written), test(a_tape_holds_what_gradients_read_and_nothing_else),
    test(a_loss_outlives_the_scopes_of_what_it_came_from), test(a_leaf_lives_as_long_as_a_tape_needs_it),
    test(a_tape_that_is_never_cleared_is_warned_of_once), test(own_modules_are_noted_like_any_other_call),
    test(a_hook_of_a_leaf_used_in_other_contexts_too_sees_the_whole_gradient),
    test(a_hook_may_use_contexts_but_leaves_none_behind), test(a_hook_of_a_leaf_may_not_clear_the_tape_either),
    test(a_hook_that_writes_into_its_gradient_is_an_error), test(a_gradient_that_is_zero_by_nature_calls_no_hook),
    test(a_tape_that_only_grows_is_warned_of_once))
