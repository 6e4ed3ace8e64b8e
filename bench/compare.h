/* Numbers of a result, which the peers must get too. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "harness.h"
#include "static.h"

static inline double root_mean_square(const float *value, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += (double)value[i] * (double)value[i];
    return sqrt(sum / (double)count);
}

/* Of a result: its size on the whole, and three of its elements. */
static inline void check_values(bench *b, hd_tensor *t) {
    const int64_t n = hd_tensor_count(t);
    const float *y = hd_data_f32(t);
    if (y == NULL) return;
    bench_check(b, root_mean_square(y, n));
    bench_check(b, (double)y[0]);
    bench_check(b, (double)y[n / 3]);
    bench_check(b, (double)y[n - 1]);
}

/* Of ten steps of training a block: the first loss, the last, and how far a weight has moved. */
static inline void check_training(bench *b, block s, hd_script *script) {
    enum { STEPS = 10 };
    HD_SCOPE;
    double first = 0, last = 0;
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        last = hd_item(hd_outputs_at(hd_script_run(script), 0));
        if (i == 0) first = last;
    }
    HD_NO_GRAD;
    hd_tensor *moved = hd_sub(hd_script_state(script, "w0"), weight_numbers(HD_SHAPE(s.in, s.hidden), 10));
    bench_check(b, first);
    bench_check(b, last);
    if (hd_ok()) bench_check(b, root_mean_square(hd_data_f32(moved), s.in * s.hidden));
}

#endif
