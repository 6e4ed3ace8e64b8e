/* O3: what was quickest in trial runs. Whatever it chooses, results are those of O0; what it found is used again; and nobody
 * sees the trial runs. */
#include "differences.h"
#include "builders.h"
#include "graph/calls.h"

#include "compiler/own_cache.h"

/* ---- scripts ---------------------------------------------------------------------------------------------------------- */
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
    hd_builder_add_output(b, "p", hd_softmax(hd_mul_scalar(h, 0.5), 1));
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
        hd_script_set_input(s, "at", hd_full(S(7, 1), 5, HD_I64));
    }
}

static hd_script *(*const scripts[])(void) = {chain, block, half};
enum { SCRIPTS = sizeof scripts / sizeof scripts[0] };

/* ---- results ------------------------------------------------------------------------------------------------------------ */
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

/* ---- what was found earlier ------------------------------------------------------------------------------------------------ */
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

/* ---- nobody sees it -------------------------------------------------------------------------------------------------------- */
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
    hd_assign(hd_slice(count, 0, 1, 2, 1), hd_full(S(1), 7, HD_F32));
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

/* ---- trouble ------------------------------------------------------------------------------------------------------------------ */
static void made_up_inputs_may_be_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("division");
    hd_tensor *x = hd_input("x", S(50), HD_I64);
    hd_builder_add_output(b, "y", hd_floor_divide(hd_full(S(50), 100, HD_I64), x));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O3);
    hd_script_set_input(s, "x", hd_full(S(50), 7, HD_I64));
    assert_identical(output(s, "y"), hd_full(S(50), 14, HD_I64));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        test(it_gives_what_was_recorded),   test(it_is_found_once),
        test(trial_runs_leave_no_trace),    test(made_up_inputs_may_be_refused),
        test(survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
