/* LAPACK, which need not be here: what tests of linear algebra do then. */
#ifndef HD_TESTS_LAPACK_H
#define HD_TESTS_LAPACK_H

#include "core/error.h"
#include "core/thread.h"
#include "device/cpu/lapack.h"
#include "support.h"

/* Asked once; leaves no error behind. */
static inline bool has_lapack(void) {
    static int known = -1;
    if (known < 0) {
        hd_error_copy pending;
        const bool failed = !hd_ok();
        if (failed) hd_error_take(&pending);
        known = hd_lapack_open(hd_thread_self(), HD_F32) != NULL;
        hd_error_clear();
        if (failed) hd_error_put_back(&pending);
    }
    return known > 0;
}

/* In lists of calls that all must run: x itself, changed a little, where there is no LAPACK. */
#define LAPACK(result, x) (has_lapack() ? (result) : hd_mul_scalar(x, 2))

/* For a program all of whose tests want it. */
#define RUN_WITH_LAPACK(...)                                                                                           \
    int main(void) {                                                                                                   \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                               \
        if (has_lapack()) return cmocka_run_group_tests(tests, NULL, NULL);                                            \
        print_message("skipped: there is no LAPACK\n");                                                                \
        return 77;                                                                                                     \
    }

#endif
