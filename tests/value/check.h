/* What the C tests of value.h share: one comparison of numbers, which prints both sides. */
#ifndef HODU_TEST_VALUE_CHECK_H
#define HODU_TEST_VALUE_CHECK_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

/* Equal to `tolerance`, relative to the larger of 1 and |expected|. NaN equals NaN and inf equals inf. */
static inline void check_close(const char *what, double got, double expected, double tolerance) {
    const int both_nan = got != got && expected != expected;
    if (both_nan || got == expected) return;
    const double size = fabs(expected) > 1.0 ? fabs(expected) : 1.0;
    if (!isinf(expected) && fabs(got - expected) <= tolerance * size) return;
    fail_msg("%s: got %.17g, expected %.17g (off by %g, tolerance %g)", what, got, expected, got - expected, tolerance);
}

/* The same, relative to |expected| alone: for numbers of any size. */
static inline void check_relative(const char *what, double got, double expected, double tolerance) {
    if (isfinite(got) && isfinite(expected) && fabs(got - expected) <= tolerance * fabs(expected)) return;
    check_close(what, got, expected, 1e-320);
}

#endif
