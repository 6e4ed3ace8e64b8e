/* A script at the levels that compile by rules (test_tune.c has O3): O0 is the reference, the others agree with it. */
#ifndef HD_TESTS_COMPILER_LEVELS_H
#define HD_TESTS_COMPILER_LEVELS_H

#include "differences.h"
#include "builders.h"

enum { MOST_OUTPUTS = 64 };

/* Runs s at O0 and at the levels above, and compares all outputs: no further apart than so many units at the largest
 * element of an output, or at `least`, the size of what may cancel in it. */
static inline void levels_agree_at(hd_script *s, double units, double least, const char *what) {
    HD_SCOPE;
    hd_tensor *expected[MOST_OUTPUTS];
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_outputs *o = hd_script_run(s);
        if (o == NULL) fail_msg("%s at O%d: %s", what, level - HD_O0, hd_error_message());
        assert_in_range(hd_outputs_count(o), 1, MOST_OUTPUTS);
        for (int64_t i = 0; i < hd_outputs_count(o); ++i) {
            hd_tensor *y = hd_outputs_at(o, i);
            if (level == HD_O0) {
                expected[i] = y;
                continue;
            }
            const double bound = units * unit_of(hd_tensor_dtype(y)) * fmax(least, largest_of(expected[i]));
            const char *why = difference_within(y, expected[i], bound);
            if (why[0] != '\0') fail_msg("%s at O%d, output %s: %s", what, level - HD_O0, hd_outputs_name(o, i), why);
        }
    }
}
static inline void levels_agree(hd_script *s, double units, const char *what) { levels_agree_at(s, units, 0, what); }

/* How many launches a script takes on the CPU; machines of devices plan otherwise, and are not counted. */
static inline void assert_launches(hd_script *s, int64_t least, int64_t most, const char *what) {
    const int64_t launches = hd_script_stats(s).launches;
    if (hd_current_device().kind == HD_DEVICE_CPU && (launches < least || launches > most))
        fail_msg("%s: %d launches", what, (int)launches);
}

#endif
