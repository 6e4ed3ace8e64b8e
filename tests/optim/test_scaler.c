/* Scaled losses against PyTorch (tests/golden/make_optim.py): steps that are left out, at once and recorded. */
#include "builders.h"
#include "each_allocation.h"
#include "optim/golden.h"

#include <math.h>

enum { STEPS = 12 };
static double factor_of(int step) { return step == 3 || step == 4 || step == 9 ? INFINITY : 1 + step % 3; }
static hd_scaler *scaler_of(const golden *line) {
    const double *o = line->options;
    return hd_scaler_new(HD_OPTS(hd_scaler_opts, .initial = o[0], .growth = o[1], .backoff = o[2], .interval = o[3]));
}
static void assert_step(const golden *line, int step, hd_scaler *s, hd_tensor *w) {
    assert_ok();
    assert_values(hd_scaler_number(s), HD_F64, line->values[2 * step]);
    assert_close(w, hd_full(HD_SHAPE(1), HD_F64, line->values[2 * step + 1]), 1e-6, HD_ZERO);
}
static void train(hd_scaler *s, hd_optimizer *o, hd_tensor *w, hd_tensor *factor) {
    hd_optimizer_zero_grad(o);
    hd_backward(hd_scaler_scale(s, hd_sum(hd_mul(w, factor), HD_AXES(), NULL)));
    hd_scaler_step(s, o);
    hd_scaler_update(s);
}

static void check_at_once(const golden *line) {
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 0.125, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
    hd_scaler *s = scaler_of(line);
    for (int step = 0; step < STEPS; ++step) {
        train(s, o, w, hd_scalar(factor_of(step), HD_F32));
        assert_step(line, step, s, w);
    }
    assert_values(hd_optimizer_steps(o), HD_F64, STEPS - 3);
    hd_clear_tape();
}
static void check_recorded(const golden *line) {
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 0.125, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
    hd_scaler *s = scaler_of(line);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state_of(b, NULL, o);
    hd_builder_add_state_of_scaler(b, s);
    train(s, o, w, hd_input("factor", HD_SHAPE(), HD_F32));
    hd_script *script = built(b);
    for (int step = 0; step < STEPS; ++step) {
        hd_script_set_input(script, "factor", hd_scalar(factor_of(step), HD_F32));
        hd_script_run(script);
        assert_step(line, step, s, w);
    }
    assert_values(hd_optimizer_steps(o), HD_F64, STEPS - 3);
}
static void steps_agree_with_pytorch(void **state) {
    (void)state;
    golden_lines("scaler", 2, check_at_once);
}
static void recorded_steps_agree_with_pytorch(void **state) {
    (void)state;
    golden_lines("scaler", 2, check_recorded);
}

static void gradients_may_be_clipped_between(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 1, NULL);
    hd_scaler *s = hd_scaler_new(NULL);
    assert_values(hd_scaler_number(s), HD_F64, 65536);
    hd_backward(hd_scaler_scale(s, hd_mul_scalar(w, 4)));
    assert_values(hd_grad(w), HD_F32, 4 * 65536, 4 * 65536);
    hd_scaler_unscale(s, o);
    assert_values(hd_grad(w), HD_F32, 4, 4);
    hd_clip_grad_value(hd_optimizer_parameters(o), 0.5);
    hd_scaler_unscale(s, o);
    assert_error(HD_ERROR_STATE, "hd_scaler_unscale: these gradients were unscaled");
    hd_scaler_step(s, o); /* does it no second time */
    assert_values(w, HD_F32, 0.5, 0.5);
    hd_scaler_step(s, o);
    assert_error(HD_ERROR_STATE, "hd_scaler_step: this optimizer has stepped");
    hd_scaler_update(s);
    hd_set_grad(w, hd_full(HD_SHAPE(2), HD_F32, 65536));
    hd_scaler_step(s, o);
    assert_values(w, HD_F32, -0.5, -0.5);
    hd_clear_tape();
}

static void two_optimizers_step_before_an_update(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(a), 1, NULL), *p = hd_sgd(HD_TENSORS(b), 1, NULL);
    hd_scaler *s = hd_scaler_new(HD_OPTS(hd_scaler_opts, .initial = 8, .interval = 1));
    hd_set_grad(a, hd_scalar(4, HD_F32));
    hd_set_grad(b, hd_scalar(INFINITY, HD_F32));
    hd_scaler_step(s, o);
    hd_scaler_step(s, p);
    hd_scaler_update(s);
    assert_values(a, HD_F32, 0.5);
    assert_values(b, HD_F32, 1);
    assert_values(hd_scaler_number(s), HD_F64, 4);
    hd_scaler_update(s);
    assert_values(hd_scaler_number(s), HD_F64, 8);
}

static void losses_in_small_floats_are_scaled_in_f32(void **state) {
    (void)state;
    HD_SCOPE;
    hd_scaler *s = hd_scaler_new(NULL);
    assert_values(hd_scaler_scale(s, hd_scalar(8, HD_F16)), HD_F32, 8 * 65536);
    assert_values(hd_scaler_scale(s, hd_scalar(8, HD_F64)), HD_F64, 8 * 65536);
}

static void a_number_that_is_large_enough_stays(void **state) {
    (void)state;
    HD_SCOPE;
    hd_scaler *s = hd_scaler_new(HD_OPTS(hd_scaler_opts, .initial = 3e38, .interval = 1));
    hd_scaler_update(s);
    assert_values(hd_scaler_number(s), HD_F64, 3e38);
}

static void a_step_that_fails_leaves_gradients_as_they_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_adam(HD_TENSORS(w), 1, NULL);
    hd_scaler *s = hd_scaler_new(NULL);
    hd_set_grad(w, hd_full(HD_SHAPE(2), HD_F32, 65536));
    bool reached = true;
    for (int64_t n = 0; reached; ++n) {
        HD_SCOPE;
        hd_memory_trim();
        hd_memory_fail_after(n);
        hd_scaler_step(s, o);
        reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (hd_ok()) break;
        assert_error(HD_ERROR_MEMORY, "");
        assert_values(hd_grad(w), HD_F32, 65536, 65536);
        assert_values(w, HD_F32, 1, 1);
    }
    assert_values(hd_grad(w), HD_F32, 1, 1);
    assert_close(w, hd_zeros(HD_SHAPE(2), HD_F32), HD_ZERO, 1e-6);
}

static void state_is_listed_and_set_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_scaler *s = hd_scaler_new(NULL);
    static const char *const names[] = {"number", "taken", "found"};
    assert_int_equal(hd_tensors_count(hd_scaler_state(s)), 3);
    for (int i = 0; i < 3; ++i) assert_string_equal(hd_scaler_state_name(s, i), names[i]);
    hd_scaler_set_state(s, "number", hd_scalar(16, HD_F32));
    assert_values(hd_scaler_number(s), HD_F64, 16);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 1, NULL);
    hd_scaler *s = hd_scaler_new(NULL);
#define REFUSED(call, code, text)                                                                                      \
    assert_null(call);                                                                                                 \
    assert_error(code, text)
    REFUSED(hd_scaler_new(HD_OPTS(hd_scaler_opts, .initial = -1)), HD_ERROR_VALUE, "hd_scaler_new: initial -1");
    REFUSED(hd_scaler_new(HD_OPTS(hd_scaler_opts, .growth = 0.5)), HD_ERROR_VALUE, "growth 0.5");
    REFUSED(hd_scaler_new(HD_OPTS(hd_scaler_opts, .backoff = 2)), HD_ERROR_VALUE, "backoff 2");
    REFUSED(hd_scaler_new(HD_OPTS(hd_scaler_opts, .interval = 0.5)), HD_ERROR_VALUE, "interval 0.5");
    REFUSED(hd_scaler_scale(NULL, w), HD_ERROR_NULL_ARGUMENT, "hd_scaler_scale: `scaler` is NULL");
    REFUSED(hd_scaler_scale(s, NULL), HD_ERROR_NULL_ARGUMENT, "`loss` is NULL");
    REFUSED(hd_scaler_scale(s, hd_ones(HD_SHAPE(), HD_I32)), HD_ERROR_DTYPE, "a loss of i32");
    hd_scaler_unscale(NULL, o);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_scaler_unscale: `scaler` is NULL");
    hd_scaler_unscale(s, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`optimizer` is NULL");
    hd_scaler_step(NULL, o);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_scaler_step: `scaler` is NULL");
    hd_scaler_step(s, (hd_optimizer *)s);
    assert_error(HD_ERROR_STATE, "no living optimizer");
    hd_scaler_update(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_scaler_update");
    REFUSED(hd_scaler_number((hd_scaler *)w), HD_ERROR_STATE, "hd_scaler_number: `scaler` is no living scaler");
    REFUSED(hd_scaler_state(NULL), HD_ERROR_NULL_ARGUMENT, "hd_scaler_state");
    REFUSED(hd_scaler_state_name(s, 3), HD_ERROR_INDEX, "hd_scaler_state_name: index 3 of 3");
    hd_scaler_set_state(s, "scale", w);
    assert_error(HD_ERROR_VALUE, "hd_scaler_set_state: there is no state \"scale\"");
    hd_builder *b = started("nothing");
    hd_builder_add_state_of_scaler(b, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_builder_add_state_of_scaler: `scaler` is NULL");
    hd_builder_end(b);
}

static void runs(void) {
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 0.125, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
    hd_scaler *s = hd_scaler_new(NULL);
    train(s, o, w, hd_scalar(1, HD_F32));
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_set_grad(w, hd_ones(HD_SHAPE(1), HD_F32));
    hd_scaler_step(s, o);
    hd_scaler_update(s);
    hd_builder_end(b);
}
static void memory_may_end_anywhere(void **state) {
    (void)state;
    each_allocation_fails(runs, 2000);
}

RUN(test(steps_agree_with_pytorch), test(recorded_steps_agree_with_pytorch), test(gradients_may_be_clipped_between),
    test(two_optimizers_step_before_an_update), test(losses_in_small_floats_are_scaled_in_f32),
    test(a_number_that_is_large_enough_stays), test(a_step_that_fails_leaves_gradients_as_they_were),
    test(state_is_listed_and_set_by_name), test(what_makes_no_sense_is_refused), test(memory_may_end_anywhere))
