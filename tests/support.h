/* What tests share: assertions that say both sides, and a main that fails when anything leaks. */
#ifndef HD_TESTS_SUPPORT_H
#define HD_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hodu/hodu.h>

#include "sample.h"

/* Tests expect errors by the thousand; HODU_ERRORS=print shows them. */
__attribute__((constructor)) static void expect_errors(void) { setenv("HODU_ERRORS", "quiet", 0); }

/* No error is pending. */
#define assert_ok()                                                                                                    \
    do {                                                                                                               \
        if (!hd_ok()) fail_msg("unexpected error: %s", hd_error_message());                                            \
    } while (0)

/* An error with this code and this text in its message is pending; clears it. */
#define assert_error(code, text)                                                                                       \
    do {                                                                                                               \
        if (hd_error_code() != (code) || strstr(hd_error_message(), (text)) == NULL)                                   \
            fail_msg("expected an error \"%s\" with \"%s\", got \"%s\"", hd_error_meaning(code), text,                 \
                     hd_error_message());                                                                              \
        hd_error_clear();                                                                                              \
    } while (0)

/* Tensors agree in shape and, within tolerances, in value. */
static inline void assert_close_within(const hd_tensor *a, const hd_tensor *b, double relative, double absolute,
                                       const char *file, int line) {
    char why[512] = "";
    hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
    o.relative = relative;
    o.absolute = absolute;
    o.explain = why;
    o.explain_capacity = sizeof why;
    const bool close = hd_allclose(a, b, &o);
    if (!hd_ok()) {
        print_error("%s:%d: %s\n", file, line, hd_error_message());
        _fail(file, line);
    }
    if (!close) {
        print_error("%s:%d: %s\n", file, line, why);
        _fail(file, line);
    }
}
#define assert_close(a, b, relative, absolute) assert_close_within(a, b, relative, absolute, __FILE__, __LINE__)
#define assert_same(a, b)                      assert_close_within(a, b, HD_ZERO, HD_ZERO, __FILE__, __LINE__)

/* A tensor has this dtype, and these values in row-major order: assert_values(t, HD_F32, 1, 2, 3). */
static inline void assert_values_are(const hd_tensor *t, hd_dtype dtype, const double *values, size_t count,
                                     const char *file, int line) {
    if (!hd_ok()) {
        print_error("%s:%d: %s\n", file, line, hd_error_message());
        _fail(file, line);
    }
    double got[4096];
    if (hd_tensor_dtype(t) != dtype || hd_tensor_count(t) != (int64_t)count || !hd_to_array(t, got, HD_F64, 4096)) {
        print_error("%s:%d: got %lld elements of %s, expected %zu of %s (%s)\n", file, line,
                    (long long)hd_tensor_count(t), hd_dtype_name(hd_tensor_dtype(t)), count, hd_dtype_name(dtype),
                    hd_error_message());
        _fail(file, line);
    }
    for (size_t i = 0; i < count; ++i)
        if (got[i] != values[i] && !(got[i] != got[i] && values[i] != values[i])) {
            print_error("%s:%d: element %zu is %.17g, expected %.17g\n", file, line, i, got[i], values[i]);
            _fail(file, line);
        }
}
#define assert_values(t, dtype, ...)                                                                                   \
    assert_values_are(t, dtype, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double), \
                      __FILE__, __LINE__)

static inline int no_leaks(void **state) {
    (void)state;
    hd_clear_tape(); /* a tape holds what backward would need */
    const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
    if (objects == 0 && bytes == 0 && hd_ok()) return 0;
    print_error("left behind: %lld objects, %lld bytes, error \"%s\"\n", (long long)objects, (long long)bytes,
                hd_error_message());
    return -1;
}

/* How a program of another machine is run, for who runs itself once more; "" where nothing is emulated. What QEMU
 * cannot do is not asked of it, and the test says why. */
#ifndef HODU_EMULATOR
#define HODU_EMULATOR ""
#endif
#define not_emulated(why)                                                                                              \
    do {                                                                                                               \
        if (HODU_EMULATOR[0] == '\0') break;                                                                           \
        print_message("not in QEMU: %s\n", why);                                                                       \
        skip();                                                                                                        \
    } while (0)

/* On another device than the CPU (HODU_DEVICE) a test that is about the host's own memory or functions has no
 * meaning. */
#define not_on_a_device(why)                                                                                           \
    do {                                                                                                               \
        if (hd_current_device().kind == HD_DEVICE_CPU) break;                                                          \
        print_message("not on a device: %s\n", why);                                                                   \
        skip();                                                                                                        \
    } while (0)

#define FORKED_THREADS "a forked child that starts a thread ends there (an assertion of QEMU 7.2)"

/* One test, after which nothing may be left behind. Tests that make tensors begin with HD_SCOPE; */
#define test(function) cmocka_unit_test_teardown(function, no_leaks)
/* For a program all of whose tests are such: see not_on_a_device. */
#define RUN_ON_THE_CPU(why, ...) RUN_ON_THE_CPU_WITH(why, NULL, NULL, __VA_ARGS__)
#define RUN_ON_THE_CPU_WITH(why, set_up, tear_down, ...)                                                               \
    int main(void) {                                                                                                   \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                               \
        if (hd_current_device().kind == HD_DEVICE_CPU) return cmocka_run_group_tests(tests, set_up, tear_down);        \
        print_message("not on a device: %s\n", why);                                                                   \
        return 77;                                                                                                     \
    }
/* For a program all of whose tests want a device that need not be here. */
#define RUN_ON(device, ...)                                                                                            \
    int main(void) {                                                                                                   \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                               \
        if (hd_device_available(device)) return cmocka_run_group_tests(tests, NULL, NULL);                             \
        print_message("skipped: %s\n", hd_device_missing(device));                                                     \
        return 77;                                                                                                     \
    }
#define RUN(...)                                                                                                       \
    int main(void) {                                                                                                   \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                               \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                              \
    }

#endif
