/* Schedules of learning rates against PyTorch (tests/golden/make_optim.py), at once and recorded. */
#include "builders.h"
#include "each_allocation.h"
#include "optim/golden.h"

enum { STEPS = 24 };
static const double metrics[STEPS] = {1,   0.9, 0.8,  0.8, 0.8, 0.8, 0.79995, 0.5, 0.6, 0.6, 0.6, 0.6,
                                      0.6, 0.4, 0.41, 0.4, 0.4, 0.4, 0.3,     0.3, 0.3, 0.3, 0.3, 0.3};

/* Two groups with other rates. */
static hd_optimizer *two_groups(void) {
    hd_optimizer *o = hd_sgd(HD_TENSORS(hd_param(hd_zeros(HD_SHAPE(1), HD_F32))), 0.4, NULL);
    hd_optimizer_add_group(o, HD_TENSORS(hd_param(hd_zeros(HD_SHAPE(1), HD_F32))),
                           HD_OPTS(hd_group_opts, .learning_rate = 0.1));
    return o;
}

typedef hd_schedule *(*maker)(hd_optimizer *o, const double *options);
static void assert_rates(hd_optimizer *o, const double *expected, int step) {
    for (int group = 0; group < 2; ++group) {
        const double rate = hd_item(hd_optimizer_group_learning_rate(o, group)), right = expected[2 * step + group];
        if (!(rate >= right * (1 - 1e-12) - 1e-15 && rate <= right * (1 + 1e-12) + 1e-15))
            fail_msg("group %d before step %d has the rate %.17g, expected %.17g", group, step + 1, rate, right);
    }
}
static void step(hd_schedule *s, bool follows, hd_tensor *metric) {
    if (follows)
        hd_schedule_step_with(s, metric);
    else
        hd_schedule_step(s);
}

static void compare_at_once(maker make, const golden *line, bool follows) {
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    hd_schedule *s = make(o, line->options);
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        assert_rates(o, line->values, i);
        step(s, follows, hd_scalar(metrics[i], HD_F64));
        assert_ok();
        assert_values(hd_schedule_count(s), HD_F64, i + 1);
    }
}
static void compare_recorded(maker make, const golden *line, bool follows) {
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    hd_schedule *s = make(o, line->options);
    hd_builder *b = started("schedule");
    hd_builder_add_state_of(b, NULL, o);
    hd_builder_add_state_of_schedule(b, s);
    hd_tensor *metric = hd_input("metric", HD_SHAPE(), HD_F64);
    step(s, follows, metric);
    if (!follows) hd_builder_add_output(b, "metric", metric);
    hd_script *script = built(b);
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        assert_rates(o, line->values, i);
        hd_script_set_input(script, "metric", hd_scalar(metrics[i], HD_F64));
        hd_script_run(script);
        assert_ok();
    }
    assert_values(hd_schedule_count(s), HD_F64, STEPS);
}
static void compare(maker make, const golden *line, bool follows) {
    assert_int_equal(line->count, 2 * STEPS);
    compare_at_once(make, line, follows);
    compare_recorded(make, line, follows);
}

/* ---- each kind --------------------------------------------------------------------------------------------------- */
static hd_schedule *make_step(hd_optimizer *o, const double *v) { return hd_schedule_every(o, (int64_t)v[0], v[1]); }
static hd_schedule *make_multi_step(hd_optimizer *o, const double *v) {
    return hd_schedule_milestones(o, (const int64_t[]){(int64_t)v[1], (int64_t)v[2], (int64_t)v[3]}, 3, v[0]);
}
static hd_schedule *make_exponential(hd_optimizer *o, const double *v) { return hd_schedule_exponential(o, v[0]); }
static hd_schedule *make_cosine(hd_optimizer *o, const double *v) { return hd_schedule_cosine(o, (int64_t)v[0], v[1]); }
static hd_schedule *make_linear(hd_optimizer *o, const double *v) {
    return hd_schedule_linear(o, (int64_t)v[0], v[1], v[2]);
}
static hd_schedule *make_warm_up(hd_optimizer *o, const double *v) {
    return hd_schedule_warm_up((int64_t)v[0], v[1], hd_schedule_cosine(o, (int64_t)v[2], 0));
}
static hd_schedule *make_one_cycle(hd_optimizer *o, const double *v) {
    return hd_schedule_one_cycle(o, v[0], (int64_t)v[1],
                                 HD_OPTS(hd_one_cycle_opts, .rising = v[2], .first = v[3], .last = v[4],
                                         .linear = v[5] != 0, .three_phases = v[6] != 0));
}
static hd_schedule *make_plateau(hd_optimizer *o, const double *v) {
    return hd_schedule_plateau(o, (int64_t)v[2],
                               HD_OPTS(hd_plateau_opts, .climbs = v[0] != 0, .factor = v[1], .threshold = v[3],
                                       .absolute = v[4] != 0, .cooldown = v[5], .lowest = v[6]));
}
static hd_tensor *by_root(hd_tensor *base, hd_tensor *count, void *user) {
    (void)user;
    return hd_mul(base, hd_rsqrt(hd_add_scalar(count, 1)));
}
static hd_schedule *make_own(hd_optimizer *o, const double *v) {
    (void)v;
    return hd_schedule_own(o, by_root, NULL);
}

#define AGREES(name, lines, follows)                                                                                   \
    static void check_##name(const golden *line) { compare(make_##name, line, follows); }                              \
    static void name##_agrees(void **state) {                                                                          \
        (void)state;                                                                                                   \
        golden_lines(#name, lines, check_##name);                                                                      \
    }
AGREES(step, 2, false)
AGREES(multi_step, 2, false)
AGREES(exponential, 2, false)
AGREES(cosine, 2, false)
AGREES(linear, 2, false)
AGREES(warm_up, 2, false)
AGREES(one_cycle, 3, false)
AGREES(plateau, 5, true)
AGREES(own, 1, false)

/* ---- all of them ------------------------------------------------------------------------------------------------- */
static void a_schedule_and_its_optimizer_are_one_script(void **state) {
    (void)state;
    HD_SCOPE;
    lesson l[2];
    hd_optimizer *o[2];
    hd_schedule *s[2];
    for (int i = 0; i < 2; ++i) {
        l[i] = lesson_begin(HD_F32);
        o[i] = hd_adamw(HD_TENSORS(l[i].w, l[i].b), 0.1, NULL);
        s[i] = hd_schedule_warm_up(3, 0.25, hd_schedule_cosine(o[i], 7, 0.001));
    }
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", l[1].w);
    hd_builder_add_state(b, "b", l[1].b);
    hd_builder_add_state_of(b, NULL, o[1]);
    hd_builder_add_state_of_schedule(b, s[1]);
    hd_optimizer_zero_grad(o[1]);
    hd_backward(lesson_loss(&l[1]));
    hd_optimizer_step(o[1]);
    hd_schedule_step(s[1]);
    hd_script *script = built(b);
    for (int i = 0; i < 10; ++i) {
        hd_optimizer_zero_grad(o[0]);
        hd_backward(lesson_loss(&l[0]));
        hd_optimizer_step(o[0]);
        hd_schedule_step(s[0]);
        hd_script_run(script);
        assert_ok();
    }
    assert_close(l[1].w, l[0].w, 1e-5, 1e-6);
    assert_close(hd_optimizer_learning_rate(o[1]), hd_optimizer_learning_rate(o[0]), 1e-12, HD_ZERO);
    hd_clear_tape();
}

static void a_cycle_that_is_over_stays_where_it_ends(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    hd_schedule *s = hd_schedule_one_cycle(o, 1, 10, NULL);
    for (int i = 0; i < 15; ++i) hd_schedule_step(s);
    assert_close(hd_optimizer_learning_rate(o), hd_scalar(1 / 25e4, HD_F64), 1e-12, HD_ZERO);
}

static void a_metric_that_is_no_number_is_no_better(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    hd_schedule *s = hd_schedule_plateau(o, 1, NULL);
    hd_tensor *nan = hd_div_scalar(hd_zeros(HD_SHAPE(1), HD_F32), 0);
    for (int i = 0; i < 2; ++i) {
        assert_values(hd_optimizer_learning_rate(o), HD_F64, 0.4);
        hd_schedule_step_with(s, nan);
    }
    assert_close(hd_optimizer_learning_rate(o), hd_scalar(0.04, HD_F64), 1e-12, HD_ZERO);
}

static void a_schedule_goes_on_from_state_that_was_kept(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *o[2] = {two_groups(), two_groups()};
    hd_schedule *s[2] = {hd_schedule_plateau(o[0], 1, NULL), NULL};
    static const char *const names[] = {"count", "best", "waited", "resting"};
    for (int i = 0; i < 8; ++i) {
        if (i == 4) {
            s[1] = hd_schedule_plateau(o[1], 1, NULL);
            hd_tensors *kept = hd_schedule_state(s[0]), *rates = hd_optimizer_state(o[0]);
            assert_int_equal(hd_tensors_count(kept), 4);
            for (int k = 0; k < 4; ++k) {
                assert_string_equal(hd_schedule_state_name(s[0], k), names[k]);
                hd_schedule_set_state(s[1], names[k], hd_tensors_get(kept, k));
            }
            for (int k = 0; k < 2; ++k)
                hd_optimizer_set_state(o[1], hd_optimizer_state_name(o[0], k), hd_tensors_get(rates, k));
        }
        for (int k = 0; k < 1 + (i >= 4); ++k) hd_schedule_step_with(s[k], hd_scalar(metrics[i], HD_F32));
        assert_ok();
    }
    assert_same(hd_optimizer_learning_rate(o[1]), hd_optimizer_learning_rate(o[0]));
    assert_close(hd_optimizer_learning_rate(o[1]), hd_scalar(0.004, HD_F64), 1e-9, HD_ZERO);
    assert_string_equal(hd_schedule_state_name(hd_schedule_exponential(o[0], 0.5), 2), "base.1");
}

static hd_tensor *fails(hd_tensor *base, hd_tensor *count, void *user) {
    if (*(int *)user == 0) return base;
    if (*(int *)user == 1) return hd_matmul(count, NULL);
    return *(int *)user == 2 ? NULL : hd_ones(HD_SHAPE(2), HD_F64);
}
static void a_step_that_fails_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    int how = 0;
    hd_schedule *s = hd_schedule_own(o, fails, &how);
    hd_schedule_step(s);
    static const char *const texts[] = {NULL, "hd_matmul: `b` is NULL", "`the rate` is NULL", "a rate of shape [2]"};
    static const hd_error codes[] = {HD_OK, HD_ERROR_NULL_ARGUMENT, HD_ERROR_NULL_ARGUMENT, HD_ERROR_SHAPE};
    for (how = 1; how < 4; ++how) {
        hd_schedule_step(s);
        assert_error(codes[how], texts[how]);
        assert_values(hd_schedule_count(s), HD_F64, 1);
        assert_values(hd_optimizer_learning_rate(o), HD_F64, 0.4);
    }
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *o = two_groups();
    hd_schedule *good = hd_schedule_exponential(o, 0.5), *follows = hd_schedule_plateau(o, 1, NULL);
#define REFUSED(call, code, text)                                                                                      \
    assert_null(call);                                                                                                 \
    assert_error(code, text)
    REFUSED(hd_schedule_every(NULL, 1, 1), HD_ERROR_NULL_ARGUMENT, "hd_schedule_every: `optimizer` is NULL");
    REFUSED(hd_schedule_every(o, 0, 1), HD_ERROR_VALUE, "0 steps");
    REFUSED(hd_schedule_every(o, 1, -1), HD_ERROR_VALUE, "a factor of -1");
    REFUSED(hd_schedule_milestones(o, NULL, 1, 1), HD_ERROR_NULL_ARGUMENT, "hd_schedule_milestones: 1 milestones");
    REFUSED(hd_schedule_milestones(o, (const int64_t[]){1}, -1, 1), HD_ERROR_VALUE, "-1 milestones");
    REFUSED(hd_schedule_exponential(o, -1), HD_ERROR_VALUE, "hd_schedule_exponential: a factor of -1");
    REFUSED(hd_schedule_cosine(o, 0, 0), HD_ERROR_VALUE, "hd_schedule_cosine: 0 steps");
    REFUSED(hd_schedule_cosine(o, 1, -1), HD_ERROR_VALUE, "a learning rate of -1");
    REFUSED(hd_schedule_linear(o, 0, 1, 1), HD_ERROR_VALUE, "hd_schedule_linear: 0 steps");
    REFUSED(hd_schedule_linear(o, 1, -1, 1), HD_ERROR_VALUE, "a factor of -1");
    REFUSED(hd_schedule_warm_up(1, 0.5, NULL), HD_ERROR_NULL_ARGUMENT, "hd_schedule_warm_up: `then` is NULL");
    REFUSED(hd_schedule_warm_up(0, 0.5, good), HD_ERROR_VALUE, "0 steps");
    REFUSED(hd_schedule_warm_up(1, 0.5, follows), HD_ERROR_VALUE, "`then` is \"plateau\"");
    REFUSED(hd_schedule_one_cycle(o, -1, 10, NULL), HD_ERROR_VALUE, "hd_schedule_one_cycle: a learning rate of -1");
    REFUSED(hd_schedule_one_cycle(o, 1, 3, NULL), HD_ERROR_VALUE, "3 steps, of which a share of 0.3");
    REFUSED(hd_schedule_one_cycle(o, 1, 10, HD_OPTS(hd_one_cycle_opts, .rising = 0.6, .three_phases = true)),
            HD_ERROR_VALUE, "every phase needs a step");
    REFUSED(hd_schedule_plateau(o, -1, NULL), HD_ERROR_VALUE, "hd_schedule_plateau: patience -1");
    REFUSED(hd_schedule_plateau(o, 1, HD_OPTS(hd_plateau_opts, .factor = 1)), HD_ERROR_VALUE, "factor 1");
    REFUSED(hd_schedule_own(o, NULL, NULL), HD_ERROR_NULL_ARGUMENT, "hd_schedule_own: `fn` is NULL");
    hd_schedule_step(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_schedule_step: `schedule` is NULL");
    hd_schedule_step((hd_schedule *)o);
    assert_error(HD_ERROR_STATE, "no living schedule");
    hd_schedule_step(follows);
    assert_error(HD_ERROR_STATE, "\"plateau\" follows a metric");
    hd_schedule_step_with(good, hd_ones(HD_SHAPE(), HD_F32));
    assert_error(HD_ERROR_STATE, "\"exponential\" follows no metric");
    hd_schedule_step_with(follows, hd_ones(HD_SHAPE(2), HD_F32));
    assert_error(HD_ERROR_SHAPE, "the metric is [2]");
    hd_schedule_step_with(follows, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`metric` is NULL");
    REFUSED(hd_schedule_count(NULL), HD_ERROR_NULL_ARGUMENT, "hd_schedule_count");
    REFUSED(hd_schedule_state(NULL), HD_ERROR_NULL_ARGUMENT, "hd_schedule_state");
    REFUSED(hd_schedule_state_name(NULL, 0), HD_ERROR_NULL_ARGUMENT, "hd_schedule_state_name");
    REFUSED(hd_schedule_state_name(good, 3), HD_ERROR_INDEX, "index 3 of 3");
    hd_schedule_set_state(NULL, "count", hd_scalar(0, HD_F64));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_schedule_set_state");
    hd_schedule_set_state(good, "best", hd_scalar(0, HD_F64));
    assert_error(HD_ERROR_VALUE, "no state \"best\"");
    hd_builder *b = started("nothing");
    hd_builder_add_state_of_schedule(b, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_builder_add_state_of_schedule: `schedule` is NULL");
    hd_builder_end(b);
}

static void runs_all(void) {
    hd_optimizer *o = two_groups();
    hd_schedule *s = hd_schedule_warm_up(2, 0.5, hd_schedule_milestones(o, (const int64_t[]){3}, 1, 0.5));
    for (int i = 0; i < 2; ++i) hd_schedule_step(s);
    hd_schedule_step_with(hd_schedule_plateau(o, 0, NULL), hd_scalar(1, HD_F32));
    hd_schedule_step(hd_schedule_one_cycle(o, 1, 10, NULL));
    hd_schedule_state(s);
}
static void memory_may_end_anywhere(void **state) {
    (void)state;
    each_allocation_fails(runs_all, 2000);
}

RUN(test(step_agrees), test(multi_step_agrees), test(exponential_agrees), test(cosine_agrees), test(linear_agrees),
    test(warm_up_agrees), test(one_cycle_agrees), test(plateau_agrees), test(own_agrees),
    test(a_schedule_and_its_optimizer_are_one_script), test(a_cycle_that_is_over_stays_where_it_ends),
    test(a_metric_that_is_no_number_is_no_better), test(a_schedule_goes_on_from_state_that_was_kept),
    test(a_step_that_fails_changes_nothing), test(what_makes_no_sense_is_refused), test(memory_may_end_anywhere))
