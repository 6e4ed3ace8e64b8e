/* The elementwise rows as tests see them: the public functions behind one signature, and distances in units in the last
 * place. Included by tests/ops/test_golden.c and tests/ops/test_oracle.c. */
#ifndef HD_TESTS_GOLDEN_ROWS_H
#define HD_TESTS_GOLDEN_ROWS_H

#include <math.h>

#include "dice.h"
#include "ops/op.h"
#include "support.h"

/* ---- hd_<op>, for every row -------------------------------------------------------------------------------------- */
typedef hd_tensor *row_call(hd_tensor *const t[3], const double number[3]);

#define CALL(name, ...)                                                                                                \
    static hd_tensor *call_##name(hd_tensor *const t[3], const double number[3]) {                                     \
        (void)number;                                                                                                  \
        return hd_##name(__VA_ARGS__);                                                                                 \
    }
#define UNARY(name, ...)    CALL(name, t[0])
#define UNARY1(name, ...)   CALL(name, t[0], number[0])
#define UNARY2(name, ...)   CALL(name, t[0], number[0], number[1])
#define UNARY3(name, ...)   CALL(name, t[0], number[0], number[1], number[2])
#define TEST(name, ...)     CALL(name, t[0])
#define BINARY(name, ...)   CALL(name, t[0], t[1])
#define SPLIT(name, ...)    CALL(name, t[0], t[1])
#define COMPARE(name, ...)  CALL(name, t[0], t[1])
#define CHOOSE(name, ...)   CALL(name, t[0], t[1], t[2])
#define TERNARY(name, ...)  CALL(name, t[0], t[1], t[2])
#define TERNARY1(name, ...) CALL(name, t[0], t[1], t[2], number[0])
#include "ops/elementwise.def"

static row_call *const row_calls[HD_OP_ELEMENTWISE_COUNT] = {
#define UNARY(name, ...) [HD_OP_##name] = call_##name,
#define UNARY1           UNARY
#define UNARY2           UNARY
#define UNARY3           UNARY
#define TEST             UNARY
#define BINARY           UNARY
#define SPLIT            UNARY
#define COMPARE          UNARY
#define CHOOSE           UNARY
#define TERNARY          UNARY
#define TERNARY1         UNARY
#include "ops/elementwise.def"
};
#undef CALL

static inline const char *row_name(int id) { return hd_ops[id].name; }

/* The row's C numbers that make it say something at ordinary points, as in make_golden.py. */
static inline const double *row_numbers(int id) {
    static const double slope[3] = {0.125}, alpha[3] = {1.5}, bound[3] = {0.5}, low[3] = {-2}, high[3] = {3},
                        both[3] = {-2, 3}, threshold[3] = {1, 20}, softplus[3] = {2, 20}, replace[3] = {7, 3, -2},
                        scale[3] = {3};
    switch (id) {
    case HD_OP_leaky_relu: return slope;
    case HD_OP_elu:
    case HD_OP_celu: return alpha;
    case HD_OP_softshrink:
    case HD_OP_hardshrink: return bound;
    case HD_OP_clamp_min: return low;
    case HD_OP_clamp_max: return high;
    case HD_OP_clamp:
    case HD_OP_hardtanh: return both;
    case HD_OP_threshold: return threshold;
    case HD_OP_softplus: return softplus;
    case HD_OP_nan_to_num: return replace;
    default: return scale; /* addcmul, addcdiv; the others have none */
    }
}

/* ---- distances --------------------------------------------------------------------------------------------------- */
/* One unit in the last place of a float of `digits` bits (24 or 53) at the magnitude of v. */
static inline double unit_at(double v, int digits) {
    const int lowest = digits == 24 ? -149 : -1074;
    if (!(fabs(v) > 0)) return ldexp(1, lowest);
    int e;
    frexp(fmin(fabs(v), digits == 24 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023), &e);
    return ldexp(1, e - digits > lowest ? e - digits : lowest);
}

/* Is `got`, a float of `digits` bits, within `ulps` units (at the magnitude of `scale`, or of the reference if that is
 * larger) of `want`? What lies beyond the range must be infinite, NaN must be NaN, infinities and zeros have their
 * sign; at the very end of the range either side will do. Gradual underflow: where a factor of `want` may have been
 * subnormal (the other being at most the largest operand), the unit is that of subnormals times the operand. */
static inline bool within(double got, double want, double ulps, double scale, double operand, int digits) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    const double most = digits == 24 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    const double factor = fmax(1, operand), unit = unit_at(fmax(fabs(want), fabs(scale)), digits);
    const bool vanishing = fabs(want) < (digits == 24 ? 0x1p-126 : 0x1p-1022) * factor;
    const double allowed = ulps * (vanishing ? fmax(unit, unit_at(0, digits) * factor) : unit);
    if (isinf(want)) return got == want;
    if (digits == 24 && ulps < 0.5) return got == (double)(float)want && !signbit(got) == !signbit(want);
    if (isinf(got)) return !signbit(got) == !signbit(want) && fabs(want) > most - allowed;
    if (want == 0 && got == 0) return !signbit(want) == !signbit(got);
    return fabs(got - want) <= allowed || (fabs(want) > most && fabs(got) >= most - allowed);
}

/* HODU_SEED or the given one, printed. */
static inline dice roll_from(const char *test, uint64_t seed) {
    const char *given = getenv("HODU_SEED");
    if (given != NULL) seed = strtoull(given, NULL, 10);
    printf("%s: HODU_SEED=%llu\n", test, (unsigned long long)seed);
    return (dice){seed};
}

#endif
