/* What is asked of the text of GPUs, for each way to run it. Who includes this has defined
 *     static void run_all(gpu_case *const *cases, int count);    runs them, as one program
 *     static bool has_f64(void);
 *     enum { RANDOM, EVERY };                                    how many random kernels, one row of how many */
#ifndef HD_TESTS_GPU_SUITE_H
#define HD_TESTS_GPU_SUITE_H

#include "gpu/by_hand.h"
#include "gpu/rows.h"

static void random_kernels_mean_the_same(void **state) {
    (void)state;
    gpu_case *cases = calloc(CASES, sizeof *cases), *all[CASES];
    random_kernel_state = 88172645463325252u + sample_seed() * 0x9e3779b97f4a7c15u;
    int wrong = 0;
    const int count = in_full() ? CASES : RANDOM;
    for (int round = 0; round < (in_full() ? 20 : 1); ++round) {
        for (int i = 0; i < count; ++i) case_make(all[i] = &cases[i], i, has_f64());
        run_all(all, count);
        for (int i = 0; i < count; ++i) {
            wrong += !case_agrees(all[i]);
            case_release(all[i]);
        }
    }
    free(cases);
    if (wrong > 0) fail_msg("%d kernels differ", wrong);
}

static void rows_mean_the_same(void **state) {
    (void)state;
    row_case *rows = malloc(CASES * sizeof *rows);
    gpu_case *all[CASES];
    row_reading last = {.derivative = -1};
    int total = 0, batch = 0;
    const int every = in_full() ? 1 : EVERY, first = (int)(sample_seed() % (uint64_t)every);
    for (int count; (count = row_cases(rows, CASES, &last, has_f64())) > 0; total += count, ++batch) {
        int chosen = 0;
        for (int i = 0; i < count; ++i)
            if ((i + batch) % every == first) all[chosen++] = &rows[i].c;
        if (chosen > 0) run_all(all, chosen);
        for (int i = 0; i < count; ++i) row_check(&rows[i], (i + batch) % every == first);
    }
    free(rows);
    assert_in_range(total, has_f64() ? 600 : 400, 10000);
}

static void kernels_by_hand_mean_the_same(void **state) {
    (void)state;
    gpu_case *cases = calloc(BY_HAND, sizeof *cases), *all[BY_HAND];
    for (int i = 0; i < BY_HAND; ++i) by_hand_make(all[i] = &cases[i], i, has_f64());
    run_all(all, BY_HAND);
    for (int i = 0; i < BY_HAND; ++i) by_hand_check(all[i]);
    free(cases);
}

/* Why they cannot be run here; NULL: they are. */
static int run_suite(const char *missing) {
    const struct CMUnitTest tests[] = {test(random_kernels_mean_the_same), test(rows_mean_the_same),
                                       test(kernels_by_hand_mean_the_same)};
    if (missing == NULL) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", missing);
    return 77;
}

#endif
