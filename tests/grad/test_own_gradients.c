/* Gradients of the user's own: hd_custom_gradient, at once, recorded, one inside the other, recomputed, differentiated
 * twice; and what goes wrong. */
#include "builders.h"
#include "each_allocation.h"
#include "own_ops.h"

#define S HD_SHAPE
#define F HD_F32

/* ---- what it is for ---------------------------------------------------------------------------------------------- */
/* Rounds, and passes the gradient straight through. */
static hd_tensor *round_forward(hd_tensors *in, hd_tensor **saved, void *user) {
    (void)saved, (void)user;
    return hd_round(hd_tensors_get(in, 0));
}
static void straight_through(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)saved, (void)user;
    results[0] = gradient;
}
static hd_tensor *rounded(hd_tensor *x) {
    return hd_custom_gradient(round_forward, straight_through, NULL, HD_TENSORS(x));
}

/* x itself, with another gradient. */
static hd_tensor *same_forward(hd_tensors *in, hd_tensor **saved, void *user) {
    (void)saved, (void)user;
    return hd_tensors_get(in, 0);
}
static void reversed(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)saved;
    results[0] = hd_mul_scalar(gradient, -*(const double *)user);
}
static void clipped(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)saved, (void)user;
    results[0] = hd_clamp(gradient, -1, 1);
}

/* x e^y, of what was saved: both inputs and the result. */
static hd_tensor *scaled_forward(hd_tensors *in, hd_tensor **saved, void *user) {
    hd_tensor *x = hd_tensors_get(in, 0), *y = hd_tensors_get(in, 1);
    if (user != NULL) ++*(int *)user;
    saved[0] = hd_exp(y);
    saved[2] = hd_mul(x, saved[0]);
    saved[3] = y;
    return saved[2];
}
static void scaled_backward(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)user;
    assert_null(saved[1]);
    results[0] = hd_mul(gradient, hd_exp(saved[3])); /* of an input, so that it can be differentiated again */
    results[1] = hd_mul(gradient, saved[2]);
}
static hd_tensor *scaled(hd_tensors *in, void *user) {
    return hd_custom_gradient(scaled_forward, scaled_backward, user, in);
}

static void gradients_are_what_backward_says(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 0.4, 1.7));
    hd_tensor *y = rounded(hd_mul_scalar(x, 2));
    assert_values(y, F, 1, 3);
    hd_backward(hd_square(y));
    assert_values(hd_grad(x), F, 4, 12);
    hd_zero_grad(x);
    double strength = 3;
    hd_tensor *z = hd_custom_gradient(same_forward, reversed, &strength, HD_TENSORS(x));
    assert_true(z != x && hd_tensor_shares_storage(z, x));
    hd_backward(hd_mul_scalar(z, 2));
    assert_values(hd_grad(x), F, -6, -6);
    hd_zero_grad(x);
    hd_backward(hd_mul(hd_custom_gradient(same_forward, clipped, NULL, HD_TENSORS(x)), HD_TENSOR_F32(S(2), 0.5, -9)));
    assert_values(hd_grad(x), F, 0.5, -1);
    hd_clear_tape();
}

static void it_agrees_with_differences_twice(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_cast(HD_TENSOR_F32(S(2), 0.5, -1.5), HD_F64), *y = hd_cast(HD_TENSOR_F32(S(2), 0.25, 1), HD_F64);
    char why[512] = "";
    hd_gradcheck_opts o = HD_DEFAULTS(hd_gradcheck_opts);
    o.second_order = true;
    o.explain = why;
    o.explain_capacity = sizeof why;
    if (!hd_gradcheck(scaled, NULL, HD_TENSORS(x, y), &o)) fail_msg("%s %s", why, hd_error_message());
    hd_requires_grad(x);
    hd_tensor *z = scaled(HD_TENSORS(x, y), NULL);
    hd_tensor *along = hd_jvp(z, HD_TENSORS(x), HD_TENSORS(hd_ones(S(2), HD_F64)));
    assert_close(along, hd_exp(y), 1e-12, 1e-12);
    hd_clear_tape();
}

static hd_tensor *nested_forward(hd_tensors *in, hd_tensor **saved, void *user) {
    (void)user;
    saved[0] = hd_tensors_get(in, 0);
    return rounded(hd_tensors_get(in, 0)); /* no history inside */
}
static void nested_backward(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)user;
    results[0] = hd_mul(gradient, rounded(hd_mul_scalar(saved[0], 2)));
}
static void one_lies_in_another(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 1.4, 2.6));
    hd_backward(rounded(hd_custom_gradient(nested_forward, nested_backward, NULL, HD_TENSORS(rounded(x)))));
    assert_values(hd_grad(x), F, 2, 6);
    hd_clear_tape();
}

static void a_recomputation_computes_it_again(void **state) {
    (void)state;
    HD_SCOPE;
    int times = 0;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 1, 2)), *y = hd_requires_grad(hd_zeros(S(2), F));
    hd_tensor *z = hd_recompute(scaled, &times, HD_TENSORS(x, y));
    assert_int_equal(times, 1);
    hd_backward(z);
    assert_int_equal(times, 2);
    assert_values(hd_grad(x), F, 1, 1);
    assert_values(hd_grad(y), F, 1, 2);
    hd_clear_tape();
}

static void it_is_recorded(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 1.25, -2)), *y = hd_requires_grad(hd_zeros(S(2), F));
    hd_builder *b = started("own");
    hd_builder_add_state(b, "x", x);
    hd_builder_add_state(b, "y", y);
    hd_tensor *z = hd_mul(rounded(scaled(HD_TENSORS(x, y), NULL)), x);
    hd_backward(z);
    hd_builder_add_output(b, "z", z);
    hd_builder_add_output(b, "gx", hd_grad(x));
    hd_builder_add_output(b, "gy", hd_grad(y));
    hd_script *s = built(b);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        assert_values(output(s, "z"), F, 1.25, 4);
        assert_values(output(s, "gx"), F, 2.25, -4);
        assert_values(output(s, "gy"), F, 1.5625, 4);
    }
}

static hd_tensor *model_forward(hd_module *m, hd_tensor *x) { return rounded(hd_mul(x, hd_module_get(m, "w"))); }
static void a_compiled_model_has_it(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class class_ = {.name = "rounding", .forward = model_forward};
    hd_module *m = hd_module_new(&class_, NULL);
    hd_tensor *w = hd_module_add_parameter(m, "w", hd_param(hd_full(S(2), F, 1.2)));
    hd_module *c = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *y = hd_forward(c, HD_TENSOR_F32(S(2), 1, 2));
    assert_values(y, F, 1, 2);
    hd_backward(y);
    assert_values(hd_grad(w), F, 1, 2);
    hd_clear_tape();
}

/* ---- what has a history, and what has none ----------------------------------------------------------------------- */
static hd_tensor *outside;
static hd_tensor *reads_outside(hd_tensors *in, hd_tensor **saved, void *user) {
    (void)saved, (void)user;
    hd_tensor *inside = hd_mul(hd_tensors_get(in, 0), outside);
    assert_false(hd_tensor_requires_grad(inside));
    return hd_add(inside, hd_cast(hd_tensors_get(in, 1), F));
}
static void gives_all(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)saved, (void)user;
    results[0] = NULL; /* zero */
    results[1] = hd_cast(gradient, HD_I32);
}
static void only_inputs_are_differentiated(void **state) {
    (void)state;
    HD_SCOPE;
    outside = hd_requires_grad(hd_full(S(2), F, 3));
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F)), *whole = hd_cast(x, HD_I32);
    hd_tensor *y = hd_custom_gradient(reads_outside, gives_all, NULL, HD_TENSORS(x, whole));
    assert_true(hd_tensor_requires_grad(y));
    hd_backward(y);
    assert_values(hd_grad(x), F, 0, 0);
    assert_false(hd_has_grad(outside));
    hd_clear_tape();
    y = hd_custom_gradient(reads_outside, gives_all, NULL, HD_TENSORS(hd_detach(x), whole));
    assert_false(
        hd_tensor_requires_grad(hd_custom_gradient(round_forward, straight_through, NULL, HD_TENSORS(hd_detach(x)))));
    HD_NO_GRAD;
    assert_false(hd_tensor_requires_grad(rounded(x)));
    assert_int_equal(hd_tape_length(), 1); /* the cast */
}

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */
static enum {
    WELL,
    NO_RESULT,
    RAISES,
    POPS,
    PUSHES,
    JUMPS,
    WRITES,
    SHAPE,
    DTYPE,
    STARTS,
    WAYS
} forward_way,
    backward_way;
static jmp_buf back;
static int64_t pushed;
static void misbehave(int way, hd_tensor *x) {
    hd_tensor *mine = hd_ones(S(3), F);
    if (way == RAISES) hd_matmul(mine, hd_ones(S(7, 7), F));
    if (way == POPS) hd_grad_context_pop(pushed);
    if (way == PUSHES) hd_grad_context_push();
    if (way == JUMPS) longjmp(back, 1);
    if (way == WRITES) hd_fill(x, 4);
    if (way == STARTS) hd_builder_start(hd_builder_new("inside"));
}
static hd_tensor *odd_forward(hd_tensors *in, hd_tensor **saved, void *user) {
    (void)user;
    saved[5] = hd_tensors_get(in, 0);
    misbehave(forward_way == WRITES ? WELL : (int)forward_way, saved[5]);
    return forward_way == NO_RESULT ? NULL : hd_mul_scalar(saved[5], 2);
}
static void odd_backward(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)user;
    misbehave((int)backward_way, gradient);
    results[0] = backward_way == SHAPE   ? hd_ones(S(5), F)
                 : backward_way == DTYPE ? hd_cast(gradient, HD_F64)
                                         : hd_mul(gradient, saved[5]);
}

static void try_both(hd_tensor *x) {
    HD_SCOPE;
    if (setjmp(back) == 0) {
        hd_tensor *y = hd_custom_gradient(odd_forward, odd_backward, NULL, HD_TENSORS(x));
        if (y != NULL) hd_backward(hd_mul_scalar(y, 3));
    }
}
static void misbehaviour_is_named_and_leaves_nothing_behind(void **state) {
    (void)state;
    HD_SCOPE;
    static const char *const of_forward[WAYS] = {[NO_RESULT] = "the result of hd_custom_gradient's forward",
                                                 [RAISES] = "hd_matmul",
                                                 [POPS] = "context",
                                                 [PUSHES] = "the forward of hd_custom_gradient began context",
                                                 [STARTS] = "hd_builder_start"};
    static const char *const of_backward[WAYS] = {
        [RAISES] = "hd_matmul",
        [POPS] = "context",
        [PUSHES] = "the backward of hd_custom_gradient began context",
        [WRITES] = "the backward of hd_custom_gradient wrote into the gradient",
        [SHAPE] = "the backward of hd_custom_gradient gives [5] of f32 for input 0, which is [2] of f32",
        [DTYPE] = "gives [2] of f64 for input 0",
        [STARTS] = "hd_builder_start"};
    pushed = hd_grad_context_push();
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F));
    try_both(x);
    assert_ok();
    for (int round = 0; round < 2 * WAYS; ++round) {
        forward_way = round < WAYS ? round : WELL;
        backward_way = round < WAYS ? WELL : round - WAYS;
        const char *const text = round < WAYS ? of_forward[forward_way] : of_backward[backward_way];
        hd_clear_tape();
        hd_set_grad(x, NULL);
        const int64_t objects = hd_live_objects();
        try_both(x);
        if (text != NULL && (hd_ok() || strstr(hd_error_message(), text) == NULL))
            fail_msg("%d: expected \"%s\", got \"%s\"", round, text, hd_error_message());
        hd_error_clear();
        hd_clear_tape();
        const bool gave = text == NULL && forward_way != JUMPS && backward_way != JUMPS;
        if (gave) assert_values(hd_grad(x), F, 3, 3);
        hd_set_grad(x, NULL);
        if (!gave) assert_int_equal(hd_live_objects(), objects);
        assert_int_equal(hd_grad_context_id(), pushed);
        assert_true(hd_tensor_requires_grad(hd_neg(x)));
    }
    hd_clear_tape();
    hd_grad_context_pop(pushed);
    assert_ok();
}

static void a_jump_while_a_builder_records_leaves_it_recording(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F));
    hd_builder *b = started("jumping");
    hd_builder_add_state(b, "x", x);
    forward_way = JUMPS;
    backward_way = WELL;
    try_both(x);
    forward_way = WELL;
    backward_way = JUMPS;
    try_both(x);
    backward_way = WELL;
    assert_ok();
    hd_backward(hd_mul_scalar(hd_custom_gradient(odd_forward, odd_backward, NULL, HD_TENSORS(x)), 3));
    hd_builder_add_output(b, "g", hd_grad(x));
    assert_values(output(built(b), "g"), F, 3, 3);
}

static void arguments_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensors *x = HD_TENSORS(hd_ones(S(2), F));
    assert_null(hd_custom_gradient(NULL, straight_through, NULL, x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`forward`");
    assert_null(hd_custom_gradient(round_forward, NULL, NULL, x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`backward`");
    assert_null(hd_custom_gradient(round_forward, straight_through, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`inputs`");
}

static void what_was_saved_may_not_change(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F)), *y = hd_zeros(S(2), F);
    hd_tensor *z = scaled(HD_TENSORS(x, y), NULL);
    hd_fill(y, 1);
    hd_backward(z);
    assert_error(HD_ERROR_STATE, "saved[3] of hd_custom_gradient, [2], was changed in place");
    hd_clear_tape();
}

static void a_program(void) {
    hd_tensor *x = hd_requires_grad(hd_ones(S(2), F)), *y = hd_requires_grad(hd_ones(S(2), F));
    hd_backward(rounded(scaled(HD_TENSORS(x, y), NULL)));
    hd_clear_tape();
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(a_program, 1000);
}

RUN(test(gradients_are_what_backward_says), test(it_agrees_with_differences_twice), test(one_lies_in_another),
    test(a_recomputation_computes_it_again), test(it_is_recorded), test(a_compiled_model_has_it),
    test(only_inputs_are_differentiated), test(misbehaviour_is_named_and_leaves_nothing_behind),
    test(a_jump_while_a_builder_records_leaves_it_recording), test(arguments_are_checked),
    test(what_was_saved_may_not_change), test(every_allocation_may_fail))
