/* Memory: every allocation of recording, building, compiling and running may fail; many runs and many abandoned
 * builders take no more memory than few. */
#include "core/memory.h"
#include "graph/programs.h"
#include "heap.h"

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
/* Tensors from outside that a program uses; what they were is checked afterwards. */
static hd_tensor *outside_weight, *outside_constant;

static void inference(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("inference");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", S(4, 3), HD_F32);
    hd_tensor *y = hd_softmax(hd_affine(x, outside_weight, NULL), 1);
    y = hd_add(y, hd_mul_scalar(hd_exp(outside_constant), 1)); /* something to fold, something to drop */
    hd_builder_add_output(b, "y", hd_reshape(hd_t(y), S(-1)));
    hd_builder_add_output(b, "mean", hd_mean(y, X(), NULL));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_ones(S(4, 3), HD_F32));
    hd_outputs *o = hd_script_run(s);
    hd_outputs_get(o, "mean");
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_run(s);
    hd_script_output(s, "y");
}
static void state_and_draws(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("state");
    hd_builder_start(b);
    hd_builder_bind(b, "constant", outside_constant);
    hd_builder_add_state(b, "weight", outside_weight);
    hd_tensor *x = hd_input("x", S(3), HD_F32);
    hd_tensor *before = hd_copy(outside_weight);
    hd_assign(hd_select(outside_weight, 0, 1), hd_add(x, hd_rand(S(3), HD_F32)));
    hd_mul_(hd_slice(outside_weight, 1, HD_END, HD_END, -2), hd_scalar(2, HD_F32));
    hd_builder_add_output(b, "w", hd_t(outside_weight));
    hd_assign(outside_weight, before); /* so that runs leave it as it was */
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_slice(hd_arange(0, 6, 1, HD_F32), 0, HD_END, HD_END, 2)); /* not contiguous */
    for (int i = 0; i < 3; ++i) hd_script_run(s);
}
static void training(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("training");
    hd_builder_start(b);
    hd_module *m = HD_SEQUENTIAL(hd_linear(3, 4, NULL), hd_tanh_layer(), hd_linear(4, 1, NULL));
    hd_optimizer *o = hd_adam(hd_module_parameters(m), 0.01, NULL);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32), *loss = NULL;
    for (int epoch = 0; epoch < 2; ++epoch) {
        loss = hd_mean(hd_square(hd_forward(m, x)), X(), NULL);
        hd_backward(loss);
        hd_optimizer_step(o);
        hd_optimizer_zero_grad(o);
    }
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_ones(S(2, 3), HD_F32));
    hd_script_run(s);
}
static void abandoned(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("abandoned");
    hd_builder_start(b);
    hd_tensor *w;
    {
        HD_EAGER;
        w = hd_param(hd_copy(outside_weight));
    }
    hd_backward(hd_mul(w, hd_input("x", S(2, 3), HD_F32)));
    HD_NO_GRAD;
    hd_fill(outside_weight, 3);
    hd_mul(hd_grad(w), outside_weight);
}
static void looking(void) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("looking");
    hd_builder_start(b);
    hd_builder_add_state(b, "weight", outside_weight);
    hd_tensor *y = hd_mul(hd_input("x", S(2, 3), HD_F32), outside_weight);
    hd_builder_add_output(b, "y", y);
    hd_assign(outside_weight, hd_add_scalar(outside_weight, 0));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    char text[64];
    hd_script_format(s, text, sizeof text);
    hd_script_set_input(s, "x", hd_ones(S(2, 3), HD_F32));
    hd_script_check(s);
    hd_script *c = hd_script_clone(s);
    hd_script_run(c);
    hd_script_set_state(c, "weight", hd_zeros(S(2, 3), HD_F32));
    hd_script_state(c, "weight");
    hd_script_run(c);
}
static void parsing(void) {
    hd_graph *g =
        hd_graph_parse(hd_thread_self(), "script \"s\"\n%0 = state \"w\" : f32[2]\n%1 = constant {1, 2} : f32[2]\n"
                                         "%2 = add %0, %1 : f32[2] @ a/b\noutput \"y\" = %2\nupdate \"w\" = %2\n");
    hd_graph *out = g == NULL ? NULL : hd_graph_simplify(hd_thread_self(), g);
    hd_array_release(out == NULL ? NULL : hd_graph_print(out));
    hd_graph_release(hd_thread_self(), g);
    hd_graph_release(hd_thread_self(), out);
}

/* On a device: copies of all of them are here. */
static void look_at(const hd_tensor *weight, const hd_tensor *constant) {
    const hd_tensor *all[] = {outside_weight, outside_constant, weight, constant};
    for (int i = 0; i < 4; ++i) hd_data(all[i], HD_F32);
}

static void failing_at_every_place(void (*program)(void)) {
    HD_SCOPE;
    outside_weight = operand(S(2, 3), 0, HD_F32);
    outside_constant = operand(S(4, 2), 1, HD_F32);
    hd_tensor *weight = hd_copy(outside_weight), *constant = hd_copy(outside_constant);
    hd_add(outside_weight, outside_weight); /* what a thread makes once is there */
    hd_clear_tape();
    program();
    if (!hd_ok()) fail_msg("%s", hd_error_message());
    assert_identical(outside_weight, weight);
    hd_clear_tape();
    look_at(weight, constant);
    const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
    for (int64_t n = (int64_t)slow_first(13);; n += (int64_t)slow_step(13)) {
        hd_memory_trim(); /* nothing cached: the first allocation of a kind is a real one */
        const int64_t given_out = bytes_given_out();
        hd_memory_fail_after(n);
        program();
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        const bool ok = hd_ok();
        if (!ok && hd_error_code() != HD_ERROR_MEMORY)
            fail_msg("allocation %d failed, but the error is: %s", (int)n, hd_error_message());
        hd_error_clear();
        if (hd_thread_self()->recording != NULL || hd_thread_self()->executor->captures)
            fail_msg("after allocation %d failed the thread records still", (int)n);
        assert_int_equal(hd_tape_length(), 0);
        look_at(weight, constant);
        if (hd_live_objects() != objects || hd_memory().live_bytes != bytes)
            fail_msg("after allocation %d failed %lld objects and %lld bytes are left", (int)n,
                     (long long)(hd_live_objects() - objects), (long long)(hd_memory().live_bytes - bytes));
        {
            HD_SCOPE;
            assert_identical(outside_weight, weight);
            assert_identical(outside_constant, constant);
            hd_tensor *p = hd_param(hd_ones(S(2), HD_F32)); /* tapes work, too */
            hd_backward(hd_mul(p, p));
            assert_values(hd_grad(p), HD_F32, 2, 2);
            hd_clear_tape();
        }
        hd_memory_trim();
        const bool all_are_ours = hd_current_device().kind == HD_DEVICE_CPU; /* a driver takes memory, too */
        if (all_are_ours && bytes_given_out() > given_out + 65536)
            fail_msg("after allocation %d failed %lld bytes are lost", (int)n,
                     (long long)(bytes_given_out() - given_out));
        if (!reached) {
            assert_true(ok);
            assert_true(n > 10);
            return;
        }
    }
}

#define SURVIVES(program)                                                                                              \
    static void program##_survives(void **state) {                                                                     \
        (void)state;                                                                                                   \
        failing_at_every_place(program);                                                                               \
    }
SURVIVES(inference)
SURVIVES(state_and_draws)
SURVIVES(training)
SURVIVES(abandoned)
SURVIVES(looking)
SURVIVES(parsing)

/* ---- flat -------------------------------------------------------------------------------------------------------- */
static void many_runs_stay_flat(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    HD_SCOPE;
    hd_tensor *w = operand(S(8, 8), 0, HD_F32), *steps = hd_scalar(0, HD_F64), *k = operand(S(8), 1, HD_F32);
    hd_builder *b = hd_builder_new("runs");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "steps", steps);
    hd_tensor *x = hd_input("x", S(8, 8), HD_F32);
    hd_tensor *y = hd_tanh(hd_matmul(hd_add(x, k), w));
    hd_assign(w, hd_mul_scalar(hd_add(w, y), 0.5));
    hd_assign(steps, hd_add_scalar(steps, 1));
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "w", w);
    hd_builder_add_output(b, "draw", hd_rand(S(3), HD_F32));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_tensor *base = operand(S(8, 8), 2, HD_F32);
    int64_t objects = 0, given_out = 0;
    hd_memory_stats memory = {0};
    const int runs = 10000 / (int)slow_step(2);
    for (int i = 1; i <= runs; ++i) {
        {
            HD_SCOPE;
            hd_script_set_input(s, "x", i % 3 == 0 ? hd_t(base) : hd_reshape(base, S(8, 8)));
            hd_outputs *o = hd_script_run(s);
            if (i % 2) hd_add_(hd_outputs_get(o, "y"), hd_outputs_get(o, "w"));
            if (i % 5 == 0) hd_add_(w, hd_outputs_get(o, "y"));
            if (i % 7 == 0) hd_script_output(s, "draw");
        }
        if (i == WARM_RUNS) objects = hd_live_objects(), memory = hd_memory(), given_out = bytes_given_out();
        if (i <= WARM_RUNS || i % 97 != 0) continue;
        assert_int_equal(hd_live_objects(), objects);
        assert_int_equal(hd_memory().live_bytes, memory.live_bytes);
        assert_int_equal(hd_memory().system_allocations, memory.system_allocations);
        if (bytes_given_out() > given_out + 16384)
            fail_msg("%lld bytes more at run %d", (long long)(bytes_given_out() - given_out), i);
    }
    assert_ok();
    assert_true(hd_item(steps) == runs);
}

/* Everything at which a script's memory is made or dropped, again and again. */
static void many_scripts_stay_flat(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    HD_SCOPE;
    hd_tensor *w = operand(S(2, 3), 0, HD_F32);
    outside_weight = w;
    outside_constant = operand(S(4, 2), 1, HD_F32);
    int64_t objects = 0, bytes = 0, given_out = 0;
    for (int i = 1; i <= WARM + 300; ++i) {
        inference();
        state_and_draws();
        looking();
        abandoned();
        if (i % 8 == 0) training();
        assert_ok();
        if (i == WARM) objects = hd_live_objects(), bytes = hd_memory().live_bytes, given_out = bytes_given_out();
    }
    assert_int_equal(hd_live_objects(), objects);
    assert_int_equal(hd_memory().live_bytes, bytes);
    if (bytes_given_out() > given_out + 65536) fail_msg("%lld bytes more", (long long)(bytes_given_out() - given_out));
}

static void abandoned_builders_leave_nothing(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    HD_SCOPE;
    values outside = {.count = 0};
    make_outside(3, &outside);
    hd_tensor *kept = NULL;
    int64_t objects = 0, bytes = 0, given_out = 0;
    for (int i = 1; i <= WARM + 400; ++i) {
        {
            HD_SCOPE;
            hd_builder *b = hd_builder_new("abandoned");
            hd_builder_start(b);
            values v = outside;
            v.t[0] = hd_input("x0", hd_tensor_shape(outside.t[0]), hd_tensor_dtype(outside.t[0]));
            run_program((uint64_t)(i % 50), 20, &v);
            hd_builder_add_output(b, "y", v.t[v.count - 1]);
            hd_error_clear();
            if (i % 3 == 0) { /* a value that outlives its builder */
                if (kept != NULL) hd_release(kept);
                kept = hd_retain(hd_neg(v.t[0]));
            }
            if (i % 4 == 0) hd_add(NULL, NULL); /* with an error pending */
            if (i % 5 == 0) hd_builder_end(b);
        }
        hd_error_clear();
        assert_null(hd_thread_self()->recording);
        if (i == WARM) objects = hd_live_objects(), bytes = hd_memory().live_bytes, given_out = bytes_given_out();
    }
    assert_in_range(hd_live_objects(), 0, objects + 8); /* the one that is kept may be of any program */
    assert_true(hd_memory().live_bytes <= bytes + 4096);
    if (bytes_given_out() > given_out + 65536) fail_msg("%lld bytes more", (long long)(bytes_given_out() - given_out));
    if (kept != NULL) hd_release(kept);
}

/* A large graph gives its memory back, and a value of it keeps only what it must. */
static void values_that_outlive_their_builder_cost_little(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    HD_SCOPE;
    const int64_t before = hd_live_objects();
    hd_tensor *y;
    {
        HD_SCOPE;
        hd_builder *b = hd_builder_new("large");
        hd_builder_start(b);
        y = hd_input("x", S(2), HD_F32);
        for (int i = 0; i < 10000; ++i) {
            HD_SCOPE;
            y = hd_keep(hd_neg(y));
        }
        hd_keep(y);
    }
    assert_in_range(hd_live_objects() - before, 1, 4);
    assert_true(isnan(hd_item(hd_select(y, 0, 0))));
    hd_error_clear();
}

RUN(test(inference_survives), test(state_and_draws_survives), test(training_survives), test(abandoned_survives),
    test(looking_survives), test(parsing_survives), test(many_runs_stay_flat), test(many_scripts_stay_flat),
    test(abandoned_builders_leave_nothing), test(values_that_outlive_their_builder_cost_little))
