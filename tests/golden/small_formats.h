/* The small floats by their definition: value = (-1)^s 2^(e - bias) 1.m, read with ldexp and written by search. Slow,
 * and unlike src/core/small_float.h in every step. */
#ifndef HD_TESTS_GOLDEN_SMALL_FORMATS_H
#define HD_TESTS_GOLDEN_SMALL_FORMATS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include <hodu/dtype.h>

typedef struct small_format {
    hd_dtype dtype;
    int exponent, mantissa, bias;
    uint32_t beyond; /* the first pattern past the largest finite number: infinity, or the only NaN of f8e4m3 */
} small_format;

static const small_format small_formats[] = {
    {HD_F8E4M3, 4, 3, 7, 0x7f}, {HD_F8E5M2, 5, 2, 15, 0x7c}, {HD_BF16, 8, 7, 127, 0x7f80}, {HD_F16, 5, 10, 15, 0x7c00}};
enum { SMALL_FORMATS = 4 };

static inline uint32_t small_sign(const small_format *f) { return 1u << (f->exponent + f->mantissa); }

/* The magnitude a pattern without sign would have if the format went on for ever: what rounding compares with. */
static inline long double small_magnitude(const small_format *f, uint32_t pattern) {
    const int e = (int)(pattern >> f->mantissa), m = (int)(pattern & ((1u << f->mantissa) - 1));
    return e == 0 ? ldexpl(m, 1 - f->bias - f->mantissa) : ldexpl(m + (1 << f->mantissa), e - f->bias - f->mantissa);
}

static inline long double small_value(const small_format *f, uint32_t bits) {
    const uint32_t pattern = bits & (small_sign(f) - 1);
    long double v = small_magnitude(f, pattern);
    if (pattern >= f->beyond) v = f->dtype != HD_F8E4M3 && pattern == f->beyond ? INFINITY : NAN;
    return bits & small_sign(f) ? -v : v;
}

/* To nearest, ties to the even pattern; `beyond` for what is too large. Not for NaN. */
static inline uint32_t small_nearest(const small_format *f, long double v) {
    uint32_t low = 0, high = f->beyond; /* low is at most |v| */
    const long double magnitude = fabsl(v);
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (small_magnitude(f, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    const long double below = magnitude - small_magnitude(f, low), above = small_magnitude(f, low + 1) - magnitude;
    const uint32_t nearest = below < above || (below == above && low % 2 == 0) ? low : low + 1;
    return nearest | (signbit(v) ? small_sign(f) : 0);
}

static inline bool small_is_nan(const small_format *f, uint32_t bits) {
    const uint32_t pattern = bits & (small_sign(f) - 1);
    return f->dtype == HD_F8E4M3 ? pattern == f->beyond : pattern > f->beyond;
}

#endif
