/* A small generator for tests, so that a printed seed brings a failure back. */
#ifndef HD_TESTS_DICE_H
#define HD_TESTS_DICE_H

#include <stdint.h>

typedef struct dice {
    uint64_t state;
} dice;
static inline uint64_t roll(dice *d) { /* splitmix64 */
    uint64_t z = d->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static inline int below(dice *d, int n) { return (int)(roll(d) % (uint64_t)n); }
static inline double roll_unit(dice *d) { return (double)(roll(d) >> 11) * 0x1p-53; } /* [0, 1) */

#endif
