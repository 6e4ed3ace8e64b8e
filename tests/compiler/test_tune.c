/* O3: what was quickest in trial runs. Whatever it chooses, results are those of O0; what it found is used again; and
 * nobody sees the trial runs. */
#include "differences.h"
#include "builders.h"
#include "graph/calls.h"

#include "compiler/own_cache.h"

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
static hd_script *chain(void) {
    hd_builder *b = started("chain");
    hd_tensor *x = hd_input("x", S(200, 300), HD_F32), *y = x;
    for (int i = 0; i < 12; ++i) y = hd_add_scalar(hd_mul(hd_tanh(y), x), 0.25);
    hd_builder_add_output(b, "y", y);
    return built(b);
}

static hd_script *block(void) {
    hd_tensor *w = operand(S(96, 64), 1, HD_F32), *bias = operand(S(64), 2, HD_F32);
    hd_builder *b = started("block");
    hd_tensor *x = hd_input("x", S(200, 96), HD_F32);
    hd_tensor *h = hd_gelu(hd_add(hd_matmul(x, w), bias));
    hd_builder_add_output(b, "p",
                          hd_softmax(hd_mul_scalar(h, 0.01), 1)); /* of numbers near 1: it makes errors no larger */
    hd_builder_add_output(b, "columns", hd_sum(hd_square(h), X(0), NULL));
    return built(b);
}

static hd_script *half(void) {
    hd_builder *b = started("half");
    hd_tensor *x = hd_input("x", S(7, 33), HD_BF16);
    hd_builder_add_output(b, "y",
                          hd_exp(hd_mul(x, hd_cast(hd_transpose(hd_input("t", S(33, 7), HD_F32), 0, 1), HD_BF16))));
    hd_builder_add_output(b, "picked", hd_gather(x, 1, hd_input("at", S(7, 1), HD_I64)));
    return built(b);
}

static void set_inputs(hd_script *s, int kind) {
    if (kind == 0) hd_script_set_input(s, "x", operand(S(200, 300), 0, HD_F32));
    if (kind == 1) hd_script_set_input(s, "x", operand(S(200, 96), 0, HD_F32));
    if (kind == 2) {
        hd_script_set_input(s, "x", operand(S(7, 33), 0, HD_BF16));
        hd_script_set_input(s, "t", operand(S(33, 7), 1, HD_F32));
        hd_script_set_input(s, "at", hd_full(S(7, 1), HD_I64, 5));
    }
}

static hd_script *(*const scripts[])(void) = {chain, block, half};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* ---- results ----------------------------------------------------------------------------------------------------- */
static void it_gives_what_was_recorded(void **state) {
    (void)state;
    for (int kind = 0; kind < SCRIPTS; ++kind) {
        HD_SCOPE;
        hd_script *s = scripts[kind]();
        set_inputs(s, kind);
        hd_script_set_optimization_level(s, HD_O0);
        hd_outputs *expected = hd_script_run(s);
        hd_script_set_optimization_level(s, HD_O3);
        hd_outputs *tuned = hd_script_run(s);
        if (tuned == NULL) fail_msg("script %d: %s", kind, hd_error_message());
        assert_in_range(hd_script_stats(s).alternatives, 3, 30);
        for (int64_t i = 0; i < hd_outputs_count(expected); ++i) {
            hd_tensor *e = hd_outputs_at(expected, i);
            const char *why = difference_within(hd_outputs_at(tuned, i), e, units_at_largest(e, 64));
            if (why[0] != '\0') fail_msg("script %d, output %s: %s", kind, hd_outputs_name(tuned, i), why);
        }
    }
}

/* ---- what was found earlier -------------------------------------------------------------------------------------- */
static int64_t alternatives(int kind) {
    HD_SCOPE;
    hd_script *s = scripts[kind]();
    hd_script_set_optimization_level(s, HD_O3);
    hd_script_compile(s);
    assert_ok();
    return hd_script_stats(s).alternatives;
}

static void it_is_found_once(void **state) {
    (void)state;
    hd_cache_clear();
    assert_in_range(alternatives(0), 3, 30);
    assert_int_equal(alternatives(0), 0);
    assert_in_range(alternatives(1), 3, 30); /* another graph */
    hd_set_num_threads(hd_num_threads() + 1);
    assert_in_range(alternatives(0), 3, 30); /* another number of threads */
    hd_set_num_threads(hd_num_threads() - 1);
    assert_int_equal(alternatives(0), 0);
    hd_cache_clear();
    assert_in_range(alternatives(0), 3, 30);
    setenv("HODU_CACHE", "0", 1);
    assert_in_range(alternatives(0), 3, 30);
    unsetenv("HODU_CACHE");
}

/* ---- nobody sees it ---------------------------------------------------------------------------------------------- */
static void trial_runs_leave_no_trace(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(40, 30), 1, HD_F32), *count = hd_zeros(S(3), HD_F32);
    hd_tensor *before = hd_copy(w);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "count", count);
    hd_tensor *x = hd_input("x", S(20, 40), HD_F32);
    hd_tensor *loss = hd_mean(hd_square(hd_add(hd_matmul(x, w), hd_randn(S(20, 30), HD_F32))), X(), NULL);
    hd_builder_add_output(b, "loss", loss);
    hd_assign(w, hd_mul_scalar(w, 0.5));
    hd_assign(hd_slice(count, 0, 1, 2, 1), hd_full(S(1), HD_F32, 7));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O3);
    hd_seed(7);
    hd_script_compile(s);
    assert_ok();
    assert_identical(hd_script_state(s, "w"), before);
    assert_identical(hd_script_state(s, "count"), hd_zeros(S(3), HD_F32));
    hd_tensor *drawn = hd_randn(S(4), HD_F32);
    hd_seed(7);
    assert_identical(drawn, hd_randn(S(4), HD_F32));
    hd_script_set_input(s, "x", operand(S(20, 40), 0, HD_F32));
    assert_non_null(hd_script_run(s));
    assert_identical(hd_script_state(s, "w"), hd_mul_scalar(before, 0.5));
}

/* A cache with a place for each of four runs: the state says which is next, and every trial run begins with the
 * first. */
static hd_script *four_steps(hd_tensor *cache, hd_tensor *next) {
    hd_builder *b = started("four");
    hd_builder_add_state(b, "cache", cache);
    hd_builder_add_state(b, "next", next);
    hd_tensor *x = hd_input("x", S(1, 300), HD_F32), *row = hd_tanh(hd_mul(x, hd_exp(x)));
    hd_tensor *at = hd_broadcast_to(hd_reshape(next, S(1, 1)), S(1, 300));
    hd_assign(cache, hd_scatter(cache, 0, at, row, HD_SCATTER_SET));
    hd_builder_add_output(b, "y", hd_softmax(hd_mul(cache, hd_broadcast_to(row, S(4, 300))), 1));
    hd_assign(next, hd_add_scalar(next, 1));
    return built(b);
}

static void trial_runs_begin_with_the_state(void **state) {
    (void)state;
    hd_cache_clear();
    for (int again = 0; again < 2; ++again) {
        HD_SCOPE;
        hd_tensor *cache = hd_zeros(S(4, 300), HD_F32), *next = hd_zeros(S(1), HD_I64);
        hd_script *s = four_steps(cache, next);
        hd_script_set_optimization_level(s, HD_O3);
        hd_script_compile(s);
        assert_ok();
        if (again) /* it was found and kept */
            assert_int_equal(hd_script_stats(s).alternatives, 0);
        else
            assert_in_range(hd_script_stats(s).alternatives, 3, 30);
        assert_identical(cache, hd_zeros(S(4, 300), HD_F32));
        assert_identical(next, hd_zeros(S(1), HD_I64));
        hd_tensor *x = operand(S(1, 300), 0, HD_F32), *row = hd_tanh(hd_mul(x, hd_exp(x)));
        hd_script_set_input(s, "x", x);
        for (int i = 0; i < 4; ++i) assert_non_null(hd_script_run(s));
        assert_identical(next, hd_full(S(1), HD_I64, 4));
        hd_tensor *expected = hd_broadcast_to(row, S(4, 300));
        assert_string_equal(difference_within(cache, expected, units_at_largest(expected, 16)), "");
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_INDEX, "4");
    }
}

/* A step of training: tuned once, and it leads where it leads at O2. */
static hd_script *training_step(hd_module **model) {
    hd_seed(11);
    *model = HD_SEQUENTIAL(hd_linear(40, 64, NULL), hd_gelu_layer(), hd_linear(64, 10, NULL));
    hd_optimizer *optimizer = hd_adam(hd_module_parameters(*model), 0.01, NULL);
    hd_builder *b = started("training");
    hd_builder_add_state_of(b, *model, optimizer);
    hd_tensor *loss =
        hd_cross_entropy(hd_forward(*model, hd_input("x", S(32, 40), HD_F32)), hd_input("y", S(32), HD_I64), NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    hd_builder_add_output(b, "loss", loss);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(32, 40), 0, HD_F32));
    hd_script_set_input(s, "y", hd_mod_scalar(hd_arange(0, 32, 1, HD_I64), 10));
    return s;
}

static void a_step_of_training_is_tuned(void **state) {
    (void)state;
    hd_cache_clear();
    HD_SCOPE;
    hd_tensor *expected[4], *losses[3];
    static const char *const names[] = {"0.weight", "0.bias", "2.weight", "2.bias"};
    for (int turn = 0; turn < 3; ++turn) { /* O2; O3, tuned now; O3, as it was found */
        hd_module *model;
        hd_script *s = training_step(&model);
        hd_script_set_optimization_level(s, turn == 0 ? HD_O2 : HD_O3);
        hd_tensor *before = hd_mul_scalar(hd_detach(hd_module_get(model, names[0])), 1);
        hd_script_compile(s);
        assert_ok();
        const int64_t alternatives = hd_script_stats(s).alternatives;
        if (turn == 1)
            assert_in_range(alternatives, 3, 30);
        else
            assert_int_equal(alternatives, 0);
        assert_identical(hd_detach(hd_module_get(model, names[0])), before);
        for (int i = 0; i < 3; ++i) {
            hd_tensor *loss = output(s, "loss");
            if (turn == 0) losses[i] = loss;
            assert_string_equal(difference_within(loss, losses[i], units_at_largest(losses[i], 64)), "");
        }
        for (int i = 0; i < 4; ++i) {
            hd_tensor *now = hd_detach(hd_module_get(model, names[i]));
            if (turn == 0) expected[i] = hd_copy(now);
            assert_string_equal(difference_within(now, expected[i], 2e-4), "");
        }
    }
}

/* ---- trouble ----------------------------------------------------------------------------------------------------- */
static void made_up_inputs_may_be_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("division");
    hd_tensor *x = hd_input("x", S(50), HD_I64);
    hd_builder_add_output(b, "y", hd_floor_divide(hd_full(S(50), HD_I64, 100), x));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O3);
    hd_script_set_input(s, "x", hd_full(S(50), HD_I64, 7));
    assert_identical(output(s, "y"), hd_full(S(50), HD_I64, 14));
    assert_int_equal(hd_script_stats(s).alternatives, 0);
}

static void survives_failing_allocations(void **state) {
    (void)state;
    for (int kind = 1; kind < SCRIPTS; ++kind) {
        int64_t n = 0, step = 1;
        for (bool done = false; !done; n += step) {
            HD_SCOPE;
            hd_cache_clear();
            hd_script *s = scripts[kind]();
            hd_script_set_optimization_level(s, HD_O3);
            hd_memory_fail_after(n);
            hd_script_compile(s);
            hd_memory_fail_after(-1);
            done = hd_error_code() == HD_OK;
            if (!done) assert_error(HD_ERROR_MEMORY, "memory");
            if (n > 60) step = 1 + n / 4;
        }
        assert_in_range(n, 20, 100000);
    }
}

RUN_ON_THE_CPU_WITH("nothing is tuned there", make_own_cache, remove_own_cache, test(it_gives_what_was_recorded),
                    test(it_is_found_once), test(trial_runs_leave_no_trace), test(made_up_inputs_may_be_refused),
                    test(survives_failing_allocations), test(trial_runs_begin_with_the_state),
                    test(a_step_of_training_is_tuned))
