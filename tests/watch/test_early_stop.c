/* When to stop. */
#include "support.h"

#include <math.h>

/* After which value it stops, counted from 1; 0: it does not. */
static int stops_after(hd_early_stop *s, const double *values, int count) {
    for (int i = 0; i < count; ++i)
        if (hd_early_stop_add(s, values[i])) return i + 1;
    return 0;
}

static void it_waits_for_better_values(void **state) {
    (void)state;
    static const double values[] = {3, 2, 2.5, 2.1, 1.9, 2, 2, 2, 1};
    for (int64_t patience = 0; patience < 5; ++patience) {
        static const int stops[] = {3, 3, 4, 8, 0};
        hd_early_stop s = HD_DEFAULTS(hd_early_stop);
        s.patience = patience;
        assert_int_equal(stops_after(&s, values, 9), stops[patience]);
    }
    assert_ok();
}

static void it_knows_the_best(void **state) {
    (void)state;
    hd_early_stop s = {.struct_size = sizeof s, .patience = 3, .maximize = true};
    assert_false(hd_early_stop_add(&s, 0.5));
    assert_true(s.best_at == s.seen && s.best == 0.5); /* time to save */
    assert_false(hd_early_stop_add(&s, 0.75));
    assert_true(s.best_at == s.seen && s.best == 0.75);
    assert_false(hd_early_stop_add(&s, 0.75)); /* as good is no better */
    assert_true(s.best_at == 2 && s.seen == 3);
    assert_false(hd_early_stop_add(&s, 0.5));
    assert_true(hd_early_stop_add(&s, 0.6));
    assert_true(hd_early_stop_add(&s, 0.6)); /* and from then on */
    assert_false(hd_early_stop_add(&s, 0.8));
    assert_true(s.best == 0.8 && s.best_at == 7);
}

static void a_little_better_is_not_better(void **state) {
    (void)state;
    static const double values[] = {1, 0.95, 0.91, 0.85, 0.80};
    hd_early_stop s = {.struct_size = sizeof s, .patience = 2, .min_delta = 0.1};
    assert_int_equal(stops_after(&s, values, 5), 3);
    assert_true(s.best == 1);
    hd_early_stop more = {.struct_size = sizeof more, .patience = 3, .min_delta = 0.1};
    assert_int_equal(stops_after(&more, values, 5), 0);
    assert_true(more.best == 0.85);
}

static void nan_is_never_better(void **state) {
    (void)state;
    static const double values[] = {NAN, NAN, INFINITY, 3, NAN, NAN, NAN};
    hd_early_stop s = {.struct_size = sizeof s, .patience = 3};
    assert_int_equal(stops_after(&s, values, 7), 7);
    assert_true(s.best == 3 && s.best_at == 4);
    hd_early_stop none = {.struct_size = sizeof none, .patience = 2};
    assert_int_equal(stops_after(&none, values, 2), 2);
    assert_int_equal(none.best_at, 0);
}

static void arguments_are_checked(void **state) {
    (void)state;
    assert_false(hd_early_stop_add(NULL, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_early_stop_add: `stop`");
    hd_early_stop s = {.patience = 1};
    assert_false(hd_early_stop_add(&s, 1));
    assert_error(HD_ERROR_VALUE, "hd_early_stop_add: the struct_size of `stop` is 0");
    s = (hd_early_stop){.struct_size = sizeof s, .patience = -1};
    assert_false(hd_early_stop_add(&s, 1));
    assert_error(HD_ERROR_VALUE, "hd_early_stop_add: patience -1");
    s = (hd_early_stop){.struct_size = sizeof s, .min_delta = NAN};
    assert_false(hd_early_stop_add(&s, 1));
    assert_error(HD_ERROR_VALUE, "min_delta nan");
    assert_int_equal(s.seen, 0);
}

RUN(test(it_waits_for_better_values), test(it_knows_the_best), test(a_little_better_is_not_better),
    test(nan_is_never_better), test(arguments_are_checked))
