/* A longjmp out of a callback leaves calls of the library without an end: the scope around them ends them, as if they
 * had failed. */
#include "support.h"

#include <pthread.h>

static jmp_buf back;

/* Calls something that jumps, in a scope of its own. */
#define jumps(call)                                                                                                    \
    do {                                                                                                               \
        HD_SCOPE;                                                                                                      \
        if (setjmp(back) == 0) {                                                                                       \
            call;                                                                                                      \
            fail_msg("nothing has jumped: %s", hd_error_message());                                                    \
        }                                                                                                              \
    } while (0)

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static int calls, jump_at;
static void jumping_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)state;
    hd_add_(slot[0], g);
    hd_sub_(p, slot[0]);
    hd_zero_grad(p);
    hd_rand(HD_SHAPE(3), HD_F32);
    if (++calls == jump_at) longjmp(back, 1);
}
static const hd_optimizer_class jumping = {.name = "jumping", .slots = 1, .update = jumping_update};

static void jump_out_of_a_step(hd_optimizer *o, hd_tensor *p, hd_tensor *q) {
    calls = 0;
    jump_at = 2;
    jumps(hd_optimizer_step(o));
    assert_ok();
    assert_values(p, HD_F32, 5, 5, 5);
    assert_values(q, HD_F32, 6, 6, 6);
    assert_values(hd_grad(p), HD_F32, 1, 1, 1);
    assert_values(hd_optimizer_steps(o), HD_F64, 0);
    assert_int_equal(hd_generator_draw(NULL), 0);
    assert_true(hd_tensor_requires_grad(hd_exp(p))); /* HD_NO_GRAD is over */
}

static void a_step_that_was_jumped_out_of_is_taken_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(3), HD_F32, 5)), *q = hd_param(hd_full(HD_SHAPE(3), HD_F32, 6));
    hd_optimizer *o = hd_optimizer_new(&jumping, NULL, HD_TENSORS(p, q), 1);
    hd_backward(hd_add(p, q));
    for (int round = 0; round < 3; ++round) jump_out_of_a_step(o, p, q);
    jump_at = 0;
    hd_optimizer_step(o); /* it can be used, and nothing of the others is left */
    assert_ok();
    assert_values(p, HD_F32, 4, 4, 4);
    assert_values(hd_optimizer_steps(o), HD_F64, 1);
}

static void jumps_inside(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)slot;
    hd_sub_(p, g);
    if (setjmp(back) == 0) hd_optimizer_step(state); /* without a scope: the outer step ends the inner one */
}

static void a_step_around_one_that_was_jumped_out_of_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class around = {.name = "around", .update = jumps_inside};
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(3), HD_F32, 5)), *q = hd_param(hd_full(HD_SHAPE(3), HD_F32, 6));
    hd_set_grad(p, hd_ones(HD_SHAPE(3), HD_F32));
    hd_set_grad(q, hd_ones(HD_SHAPE(3), HD_F32));
    hd_optimizer *inner = hd_optimizer_new(&jumping, NULL, HD_TENSORS(q), 1);
    hd_optimizer *outer = hd_optimizer_new(&around, inner, HD_TENSORS(p), 1);
    calls = 0;
    jump_at = 1;
    hd_optimizer_step(outer);
    assert_ok();
    assert_values(p, HD_F32, 4, 4, 4);
    assert_values(q, HD_F32, 6, 6, 6);
    hd_optimizer_step(inner);
    assert_ok();
    assert_values(q, HD_F32, 5, 5, 5);
}

static void a_recorded_step_that_was_jumped_out_of_is_not_recorded(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(3), HD_F32, 5)), *q = hd_param(hd_full(HD_SHAPE(3), HD_F32, 6));
    hd_optimizer *o = hd_optimizer_new(&jumping, NULL, HD_TENSORS(p, q), 1);
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, NULL, o);
    hd_builder_add_state(b, "p", p);
    hd_builder_add_state(b, "q", q);
    hd_backward(hd_add(p, q));
    calls = 0;
    jump_at = 2;
    jumps(hd_optimizer_step(o));
    hd_optimizer_step(o);
    assert_ok();
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_run(s);
    assert_ok();
    assert_values(p, HD_F32, 4, 4, 4);
    assert_values(q, HD_F32, 5, 5, 5);
    assert_values(hd_optimizer_steps(o), HD_F64, 1);
}

/* ---- walks back -------------------------------------------------------------------------------------------------- */
static bool hook_jumps;
static hd_tensor *jumping_hook(hd_tensor *g, void *user) {
    (void)user;
    HD_NO_GRAD;
    HD_GRAD_CONTEXT;
    if (hook_jumps) longjmp(back, 1);
    return hd_mul_scalar(g, 1);
}

static void jump_out_of_walks(hd_tensor *loss, hd_tensor *p, hd_tensor *q) {
    hook_jumps = true;
    jumps(hd_backward(loss));
    assert_false(hd_has_grad(p) || hd_has_grad(q));
    jumps(hd_grad_of(loss, HD_TENSORS(p, q), NULL));
    hook_jumps = false;
    assert_values(hd_tensors_get(hd_grad_of(loss, HD_TENSORS(p, q), NULL), 0), HD_F32, 21, 68);
}

static void jump_out_of_hooks(bool of_leaf) {
    HD_SCOPE;
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *q = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 3, 4));
    hd_tensor *y = hd_mul(p, q), *both = hd_add(hd_mul(y, y), y), *loss = hd_sum(both, HD_AXES(), NULL);
    hd_retain_grad(both);
    hd_add_grad_hook(of_leaf ? p : y, jumping_hook, NULL);
    for (int round = 0; round < 2; ++round) jump_out_of_walks(loss, p, q);
    assert_false(hd_has_grad(both));
    hd_backward(loss); /* the same tape, and the gradients are of this walk alone */
    assert_ok();
    assert_values(hd_grad(p), HD_F32, 21, 68);
    assert_values(hd_grad(q), HD_F32, 7, 34);
    assert_true(hd_tensor_requires_grad(hd_exp(p)));
    hook_jumps = true;
    jumps(hd_backward(loss));
    hd_clear_tape();
    assert_ok();
    assert_int_equal(hd_tape_length(), 0);
    hd_builder *b = hd_builder_new("later"); /* no walk is under way */
    hd_builder_start(b);
    hd_builder_end(b);
    assert_ok();
}

static void a_tape_can_be_used_after_a_hook_that_jumped(void **state) {
    (void)state;
    jump_out_of_hooks(false);
    jump_out_of_hooks(true);
}

static bool function_jumps;
static hd_tensor *jumping_function(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_mul(hd_tensors_get(inputs, 0), hd_bernoulli(HD_SHAPE(2), HD_F32, 1));
    if (function_jumps) longjmp(back, 1);
    return hd_mul(x, x);
}

static void a_recomputation_may_be_jumped_out_of(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2));
    function_jumps = true;
    jumps(hd_recompute(jumping_function, NULL, HD_TENSORS(p)));
    assert_int_equal(hd_grad_context_id(), 0);
    function_jumps = false;
    hd_tensor *loss = hd_sum(hd_recompute(jumping_function, NULL, HD_TENSORS(hd_exp(p))), HD_AXES(), NULL);
    const uint64_t draw = hd_generator_draw(NULL);
    function_jumps = true;
    jumps(hd_backward(loss)); /* a walk, in which fn runs again */
    assert_int_equal(hd_grad_context_id(), 0);
    assert_int_equal(hd_generator_draw(NULL), draw);
    function_jumps = false;
    hd_backward(loss);
    assert_ok();
    assert_close(hd_grad(p), hd_mul_scalar(hd_exp(hd_mul_scalar(hd_detach(p), 2)), 2), 1e-6, HD_ZERO);
    hd_clear_tape();
    assert_ok();
}

static hd_tensor *walks_inside(hd_tensor *g, void *user) {
    (void)g, (void)user;
    HD_SCOPE;
    if (setjmp(back) == 0) {
        HD_GRAD_CONTEXT;
        hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *y = hd_exp(x);
        hd_add_grad_hook(y, jumping_hook, NULL);
        hd_backward(y);
        fail_msg("nothing has jumped: %s", hd_error_message());
    }
    return NULL;
}

static void a_walk_around_one_that_was_jumped_out_of_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    hook_jumps = true;
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *y = hd_mul(p, p);
    hd_add_grad_hook(y, walks_inside, NULL);
    hd_tensors *g = hd_grad_of(hd_add(y, hd_mul_scalar(p, 3)), HD_TENSORS(p),
                               HD_OPTS(hd_grad_of_opts, .differentiable = true)); /* which hooks may walk inside of */
    assert_ok();
    assert_values(hd_tensors_get(g, 0), HD_F32, 5, 7);
    assert_int_equal(hd_grad_context_id(), 0);
    assert_true(hd_tensor_requires_grad(hd_tensors_get(g, 0)));
}

/* ---- models ------------------------------------------------------------------------------------------------------ */
static bool forward_jumps;
static hd_tensor *jumping_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    if (forward_jumps) longjmp(back, 1);
    return hd_exp(x);
}
static const hd_module_class jumping_module = {.name = "jumping", .forward = jumping_forward};

static void jump_out_of_models(hd_module *m, hd_module *compiled, hd_tensor *x) {
    forward_jumps = true;
    jumps(hd_forward(m, x));
    jumps(hd_forward(compiled, x));
    {
        HD_SCOPE;
        if (setjmp(back) == 0) {
            HD_NO_GRAD;
            hd_forward(compiled, x);
        }
    }
    assert_false(hd_builder_is_recording());
    forward_jumps = false;
    assert_close(hd_forward(compiled, x), hd_forward(m, x), 1e-6, HD_ZERO);
    assert_true(hd_tensor_requires_grad(hd_forward(m, x)));
    hd_clear_tape();
}

static void *adds_there(void *m) {
    HD_SCOPE;
    hd_module_add_buffer(m, "later", hd_ones(HD_SHAPE(1), HD_F32));
    return hd_ok() ? NULL : m;
}

static void a_model_that_was_jumped_out_of_is_free(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_module_new(&jumping_module, NULL));
    hd_module *compiled = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    for (int round = 0; round < 2; ++round) {
        HD_SCOPE;
        jump_out_of_models(m, compiled, x);
        hd_module_add(m, round == 0 ? "a" : "b", hd_relu_layer()); /* so that it is captured again */
    }
    pthread_t id; /* another thread may change it: nobody uses it any more */
    void *failed;
    assert_int_equal(pthread_create(&id, NULL, adds_there, m), 0);
    pthread_join(id, &failed);
    assert_null(failed);
}

static void an_eager_block_that_was_jumped_out_of_is_over(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("eager");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_F32);
    {
        HD_SCOPE;
        if (setjmp(back) == 0) {
            HD_EAGER;
            assert_false(hd_builder_is_recording());
            longjmp(back, 1);
        }
    }
    assert_true(hd_builder_is_recording());
    hd_builder_add_output(b, "y", hd_exp(x));
    hd_builder_end(b);
    assert_ok();
}

/* ---- no jump: the calls still run -------------------------------------------------------------------------------- */
static hd_scope_token by_hand;
static void ends_the_scope(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)state, (void)g, (void)slot;
    hd_fill(p, 7);
    hd_scope_end(&by_hand);
    hd_fill(p, 8); /* fails, as HD_NO_GRAD has ended with the scope */
}
static hd_tensor *hook_that_ends_the_scope(hd_tensor *g, void *user) {
    (void)g, (void)user;
    hd_scope_end(&by_hand);
    return NULL;
}

static void a_callback_may_end_the_scope_around_its_call(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class ends = {.name = "ends", .update = ends_the_scope};
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_set_grad(p, p);
    by_hand = hd_scope_begin(&by_hand, __FILE__, __LINE__);
    hd_optimizer *o = hd_optimizer_new(&ends, NULL, HD_TENSORS(p), 1); /* the scope's, and held while it steps */
    hd_optimizer_step(o);
    assert_error(HD_ERROR_STATE, "updates of parameters belong into a block with HD_NO_GRAD");
    assert_values(p, HD_F32, 1, 1);
    by_hand = hd_scope_begin(&by_hand, __FILE__, __LINE__);
    hd_add_grad_hook(p, hook_that_ends_the_scope, NULL);
    hd_backward(hd_mul_scalar(p, 2));
    assert_values(hd_grad(p), HD_F32, 3, 3);
    assert_null(hd_matmul(p, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_matmul: `b` is NULL");
}

RUN(test(a_step_that_was_jumped_out_of_is_taken_back), test(a_step_around_one_that_was_jumped_out_of_goes_on),
    test(a_recorded_step_that_was_jumped_out_of_is_not_recorded), test(a_tape_can_be_used_after_a_hook_that_jumped),
    test(a_recomputation_may_be_jumped_out_of), test(a_walk_around_one_that_was_jumped_out_of_goes_on),
    test(a_model_that_was_jumped_out_of_is_free), test(an_eager_block_that_was_jumped_out_of_is_over),
    test(a_callback_may_end_the_scope_around_its_call))
