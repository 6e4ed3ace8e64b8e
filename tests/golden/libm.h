/* The libm reading: the rows read in f64, with the functions of C's libm for the FUNCTION words, and simple code of our
 * own for the few libm has not. An oracle for the f32 kernels that shares no program of math.def with them. */
#ifndef HD_TESTS_GOLDEN_LIBM_H
#define HD_TESTS_GOLDEN_LIBM_H

#include "golden/rows.h"
#include "kernel/words_c.h"

#define LIBM(name)                                                                                                     \
    W_INLINE double w_##name##_f64(double a) { return name(a); }
/* clang-format off */
LIBM(exp)
LIBM(exp2) LIBM(expm1) LIBM(log) LIBM(log2) LIBM(log1p) LIBM(sin) LIBM(cos) LIBM(tan) LIBM(asin) LIBM(acos) LIBM(atan)
    LIBM(sinh) LIBM(cosh) LIBM(tanh) LIBM(asinh) LIBM(acosh) LIBM(atanh) LIBM(erf) LIBM(erfc) LIBM(lgamma)
/* clang-format on */
#undef LIBM
        W_INLINE double w_pow_f64(double a, double b) {
    return pow(a, b);
}
W_INLINE double w_atan2_f64(double a, double b) { return atan2(a, b); }
W_INLINE double w_sigmoid_f64(double a) { return a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)); }
W_INLINE double w_silu_f64(double a) { return a < 0 ? a * exp(a) / (1 + exp(a)) : a / (1 + exp(-a)); }

/* Reflection below 0, one step up at a time to 16, then the asymptotic series; long double, as the terms cancel. */
static double w_digamma_f64(double a) {
    static const long double PI_LONG = 3.14159265358979323846264338327950288L;
    if (isnan(a) || a == -INFINITY || (a < 0 && a == rint(a))) return NAN;
    if (a == 0) return copysign(INFINITY, -a);
    if (isinf(a)) return a;
    long double x = a, sum = 0;
    if (a < 0) {
        const long double r = x - rintl(x); /* tan has period pi */
        sum = -PI_LONG / tanl(PI_LONG * r);
        x = 1 - x;
    }
    for (; x < 16; x += 1) sum -= 1 / x;
    const long double z = 1 / (x * x);
    return (double)(sum + logl(x) - 0.5L / x -
                    z * (1.0L / 12 -
                         z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * 691 / 32760))))));
}

/* Bisection on erf, or on erfc where erf is flat. */
static double w_erfinv_f64(double a) {
    if (!(fabs(a) < 1)) return fabs(a) == 1 ? copysign(INFINITY, a) : NAN;
    if (fabs(a) < 1e-9) return a * 0.88622692545275801365;
    const double target = fabs(a);
    double low = 0, high = 6;
    for (int i = 0; i < 80; ++i) {
        const double middle = 0.5 * (low + high);
        const bool below = target < 0.5 ? erf(middle) < target : erfc(middle) > 1 - target;
        if (below)
            low = middle;
        else
            high = middle;
    }
    return copysign(0.5 * (low + high), a);
}

/* The lower half by erfc; what x / sqrt 2 loses when it is rounded goes in by the derivative. */
static double w_ndtr_f64(double a) {
    const double t = a * -0.70710678118654752440, low = fma(a, -0.70710678118654752440, -t) + a * 4.833646656726457e-17;
    return fabs(t) < 100 ? erfc(t) / 2 - low * 0.56418958354775628695 * exp(-t * t) : erfc(t) / 2;
}
/* Bisection. */
static double w_ndtri_f64(double a) {
    if (!(a > 0 && a < 1)) return a == 0 ? -INFINITY : a == 1 ? INFINITY : NAN;
    if (a > 0.5) return -w_ndtri_f64(1 - a);
    if (0.5 - a < 1e-9) return (a - 0.5) * 2.50662827463100050242;
    double low = -40, high = 0;
    for (int i = 0; i < 80; ++i) {
        const double middle = 0.5 * (low + high);
        const bool below = a > 0.25 ? 0.5 * erf(middle * 0.70710678118654752440) < a - 0.5 : w_ndtr_f64(middle) < a;
        if (below)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}
/* The series in x^2 / 4, and beyond 40 the asymptotic one. */
static double bessel(double x, int order) {
    const double a = fabs(x), z = a * a / 4;
    double sum = 1, term = 1;
    if (isnan(x)) return x;
    if (a > 720) return order == 0 ? INFINITY : copysign(INFINITY, x);
    for (int k = 1; k < 200 && fabs(term) > 1e-18 * sum; ++k) {
        const double odd = 2 * k - 1;
        term *= a <= 40 ? z / ((double)k * (k + order)) : (odd * odd - 4.0 * order) / (8 * k * a);
        sum += term;
    }
    const double v =
        a <= 40 ? sum * (order == 0 ? 1 : a / 2) : exp(a / 2) * (sum / sqrt(6.283185307179586 * a)) * exp(a / 2);
    return order == 0 ? v : copysign(v, x);
}
static double w_i0_f64(double a) { return bessel(a, 0); }
static double w_i1_f64(double a) { return bessel(a, 1); }
static double w_frexp_mantissa_f64(double a) {
    int e;
    return frexp(a, &e);
}
static double w_frexp_exponent_f64(double a) {
    int e = 0;
    if (isfinite(a)) frexp(a, &e);
    return e;
}
static double w_ldexp_f64(double a, double b) {
    if (!isfinite(b)) return a * exp2(b);
    const double whole = fmin(fmax(trunc(b), -4000), 4000), part = exp2(b - trunc(b));
    return b < 0 ? scalbn(a * part, (int)whole) : scalbn(a, (int)whole) * part;
}

#define T           f64
#define VALUE(name) static double oracle_##name(const double in[3], const double number[3])
#define ONE(name, value, ...)                                                                                          \
    VALUE(name) {                                                                                                      \
        const double x = in[0];                                                                                        \
        __VA_ARGS__(void) number;                                                                                      \
        return (double)(value);                                                                                        \
    }
#define TWO(name, value)                                                                                               \
    VALUE(name) {                                                                                                      \
        const double a = in[0], b = in[1];                                                                             \
        (void)number;                                                                                                  \
        return (double)(value);                                                                                        \
    }
#define THREE(name, value, ...)                                                                                        \
    VALUE(name) {                                                                                                      \
        const double a = in[0], b = in[1], c = in[2];                                                                  \
        __VA_ARGS__(void) number;                                                                                      \
        return (value);                                                                                                \
    }
#define NUMBER(p, k)    const double p = number[k];
#define ON_FLOATS(...)  __VA_ARGS__
#define ON_NUMBERS(...) __VA_ARGS__
#define ON_ALL(...)     __VA_ARGS__
#define ON_INTS(...)

#define UNARY(name, types, ulp, doc, ref, value, dx)            ON_##types(ONE(name, value, ))
#define UNARY1(name, types, ulp, doc, ref, p, value, dx)        ONE(name, value, NUMBER(p, 0))
#define UNARY2(name, types, ulp, doc, ref, p, q, value, dx)     ONE(name, value, NUMBER(p, 0) NUMBER(q, 1))
#define UNARY3(name, types, ulp, doc, ref, p, q, r, value, dx)  ONE(name, value, NUMBER(p, 0) NUMBER(q, 1) NUMBER(r, 2))
#define TEST(name, types, doc, ref, condition)                  ONE(name, condition, )
#define BINARY(name, types, ulp, doc, ref, value, da, db)       ON_##types(TWO(name, value))
#define SPLIT(name, ulp, doc, ref, guard, ints, floats, da, db) TWO(name, floats)
#define COMPARE(name, types, doc, ref, condition)               TWO(name, condition)
#define CHOOSE(name, types, doc, ref, value, da, db)                                                                   \
    VALUE(name) {                                                                                                      \
        const bool c = in[0] != 0;                                                                                     \
        const double a = in[1], b = in[2];                                                                             \
        (void)number;                                                                                                  \
        return (value);                                                                                                \
    }
#define TERNARY(name, types, ulp, doc, ref, value, da, db, dc)     THREE(name, value, )
#define TERNARY1(name, types, ulp, doc, ref, p, value, da, db, dc) THREE(name, value, NUMBER(p, 0))
#include "ops/elementwise.def"

typedef double row_oracle(const double in[3], const double number[3]);
static row_oracle *const row_oracles[HD_OP_ELEMENTWISE_COUNT] = {
/* NULL: of integers only */
#define ENTRY(name)              [HD_OP_##name] = oracle_##name,
#define UNARY(name, types, ...)  ON_##types(ENTRY(name))
#define UNARY1(name, ...)        ENTRY(name)
#define UNARY2(name, ...)        ENTRY(name)
#define UNARY3(name, ...)        ENTRY(name)
#define TEST(name, ...)          ENTRY(name)
#define BINARY(name, types, ...) ON_##types(ENTRY(name))
#define SPLIT(name, ...)         ENTRY(name)
#define COMPARE(name, ...)       ENTRY(name)
#define CHOOSE(name, ...)        ENTRY(name)
#define TERNARY(name, ...)       ENTRY(name)
#define TERNARY1(name, ...)      ENTRY(name)
#include "ops/elementwise.def"
};

#undef T
#undef VALUE
#undef ONE
#undef TWO
#undef THREE
#undef NUMBER
#undef ENTRY
#undef ON_FLOATS
#undef ON_NUMBERS
#undef ON_ALL
#undef ON_INTS

/* ---- points ------------------------------------------------------------------------------------------------------ */
/* f32 numbers of ordinary and of wild magnitude, and now and then a special one. Of three operands none is wild: what
 * overflows halfway would be infinite here and finite in f64. */
static inline float random_f32(dice *d, bool wild) {
    static const double spread[] = {1, 3, 8, 30, 126};
    static const float special[] = {0,        -0.0f,     1,   -1,        0.5f,           2, -2, 3,
                                    INFINITY, -INFINITY, NAN, 0x1p-149f, 0x1.fffffep127f};
    const int rare = 2 * !wild, spreads = wild ? 5 : 4;
    const uint64_t r = roll(d) % 100;
    if (r < 3) return special[roll(d) % (sizeof special / sizeof special[0] - (size_t)rare)];
    if (r < 5 && wild) return w_unbits_f32((uint32_t)roll(d) & 0x807fffffu); /* subnormal */
    if (r < 25) return (float)(2 * roll_unit(d) - 1);
    const double s = spread[roll(d) % (uint64_t)spreads];
    return (float)copysign(exp2(s * (2 * roll_unit(d) - 1)), roll_unit(d) - 0.5);
}

static inline double error_in_units(double got, double want, double scale) {
    if (!isfinite(got) || !isfinite(want) || got == want) return 0;
    return fabs(got - want) / unit_at(fmax(fabs(want), scale), 24);
}

#endif
