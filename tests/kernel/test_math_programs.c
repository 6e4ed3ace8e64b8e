/* Every scalar program of math.def against libm: f32 by bit pattern (samples of them, all with HODU_LONG=1) against
 * double, f64 by sampling against long double, special points, and for pow and atan2 a table of special pairs. The
 * bounds come from PROGRAM_ERROR; the worst error of each program is printed with its place.
 *
 * The error is counted in units in the last place of the reference. For lgamma and digamma of negative arguments, which
 * cross zero between the poles, results smaller than the terms they are the difference of are counted in units of the
 * terms (an absolute error); see `floor_of`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#include "kernel/words_c.h"

#define T           f32
#define W_PRECISION 32
#include "kernel/math.def"
#undef T
#undef W_PRECISION
#define T           f64
#define W_PRECISION 64
#include "kernel/math.def"
#undef T
#undef W_PRECISION

/* ---- math.def read again: one vectorised loop per program and precision, and the table of bounds --------------- */
#undef PROGRAM1
#undef PROGRAM2
#undef LET
#undef WHEN
#undef RESULT
#define LET(v, e)
#define WHEN(v, e)
#define RESULT(e)
#define LOOPS1(name, t)                                                                                                \
    static __attribute__((noinline)) void loop_##name##_##t(const c_##t *a, const c_##t *b, c_##t *y, size_t n) {      \
        (void)b;                                                                                                       \
        for (size_t i = 0; i < n; ++i) y[i] = w_##name##_##t(a[i]);                                                    \
    }
#define LOOPS2(name, t)                                                                                                \
    static __attribute__((noinline)) void loop_##name##_##t(const c_##t *a, const c_##t *b, c_##t *y, size_t n) {      \
        for (size_t i = 0; i < n; ++i) y[i] = w_##name##_##t(a[i], b[i]);                                              \
    }
#define PROGRAM1(name, x)    LOOPS1(name, f32) LOOPS1(name, f64)
#define PROGRAM2(name, a, b) LOOPS2(name, f32) LOOPS2(name, f64)
#include "kernel/math.def"
#undef PROGRAM1
#undef PROGRAM2

/* ---- references libm has not ------------------------------------------------------------------------------------ */
static const long double PI_L = 3.14159265358979323846264338327950288L;

static long double sigmoid_l(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static double sigmoid_d(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static long double silu_l(long double x) { return x < 0 ? x * expl(x) / (1 + expl(x)) : x / (1 + expl(-x)); }
static double silu_d(double x) { return x < 0 ? x * exp(x) / (1 + exp(x)) : x / (1 + exp(-x)); }

/* sin and cos of pi x, the argument reduced exactly */
static long double sin_pi(long double x) {
    const long double n = rintl(x), s = sinl(PI_L * (x - n));
    return fmodl(n, 2) != 0 ? -s : s;
}
static long double tan_pi(long double x) {
    const long double r = x - rintl(x);
    return fabsl(r) <= 0.25L ? tanl(PI_L * r) : 1 / tanl(PI_L * (copysignl(0.5L, r) - r));
}

static long double digamma_l(long double x) {
    static const long double b[] = {1.0L / 12,  -1.0L / 120,     1.0L / 252, -1.0L / 240,
                                    1.0L / 132, -691.0L / 32760, 1.0L / 12,  -3617.0L / 8160};
    if (x == 0) return copysignl(INFINITY, -x);
    if (isnan(x) || x == -INFINITY || (x < 0 && x == rintl(x))) return NAN;
    if (x == INFINITY) return x;
    if (x < 0) return digamma_l(1 - x) - PI_L / tan_pi(x);
    long double sum = 0, tail = 0;
    while (x < 24) sum -= 1 / x, x += 1;
    const long double z = 1 / (x * x);
    for (int i = 7; i >= 0; --i) tail = (tail + b[i]) * z;
    return logl(x) - 0.5L / x - tail + sum;
}
static long double trigamma_l(long double x) {
    static const long double b[] = {1.0L / 6,  -1.0L / 30,     1.0L / 42, -1.0L / 30,
                                    5.0L / 66, -691.0L / 2730, 7.0L / 6,  -3617.0L / 510};
    if (isnan(x) || x == -INFINITY) return NAN;
    if (x == INFINITY) return 0;
    if (x <= 0 && x == rintl(x)) return INFINITY;
    if (x < 0) {
        const long double s = sin_pi(x);
        return PI_L * PI_L / (s * s) - trigamma_l(1 - x);
    }
    long double sum = 0, tail = 0;
    while (x < 24) sum += 1 / (x * x), x += 1;
    const long double z = 1 / (x * x);
    for (int i = 7; i >= 0; --i) tail = (tail + b[i]) * z;
    return 1 / x + 0.5L * z + tail / x + sum;
}
/* Halley's iteration on erfc in the tail and on erf in the middle */
static long double erfinv_l(long double x) {
    const long double a = fabsl(x);
    if (!(a < 1)) return a == 1 ? copysignl(INFINITY, x) : NAN;
    if (a < 1e-12L) return x * 0.886226925452758013649083741670572592L;
    const long double w = -logl((1 - a) * (1 + a)), u = 2 / (PI_L * 0.147L) - w / 2;
    long double y = sqrtl(sqrtl(u * u + w / 0.147L) - u); /* Winitzki, to 2e-3 */
    for (int i = 0; i < 4; ++i) {
        const long double d = (a < 0.5L ? erfl(y) - a : (1 - a) - erfcl(y)) * 0.886226925452758013649L * expl(y * y);
        y -= d / (1 + y * d);
        if (fabsl(d) < 1e-8L * y) break;
    }
    return copysignl(y, x);
}
/* erfc(-x / sqrt 2) / 2; what x / sqrt 2 lost when it was rounded goes in by the derivative */
static long double ndtr_l(long double x) {
    static const long double root = 0.707106781186547524400844362104849039L;
    const long double t = -x * root, low = fmal(-x, root, -t);
    if (!(fabsl(t) < 100)) return erfcl(t) / 2;
    return erfcl(t) / 2 - low * 0.564189583547756286948L * expl(-t * t);
}
/* Newton's iteration on log ndtr in the tail */
static long double ndtri_l(long double p) {
    if (!(p >= 0 && p <= 1)) return NAN;
    const long double m = fminl(p, 1 - p);
    if (m == 0) return p > 0.5L ? INFINITY : -INFINITY;
    if (m > 0.1L) return 1.41421356237309504880168872420969808L * erfinv_l(2 * (p - 0.5L));
    long double x = -sqrtl(-2 * logl(m) - 1);
    for (int i = 0; i < 12; ++i) {
        const long double v = ndtr_l(x), step = logl(m / v) * v / (0.398942280401432677939946L * expl(-x * x / 2));
        x += step;
        if (fabsl(step) < -1e-12L * x) break; /* the next one would be of the order of its square */
    }
    return p > 0.5L ? -x : x;
}
/* The series in x^2 / 4, and beyond 40 the asymptotic one. */
static long double bessel(long double x, int order) {
    const long double a = fabsl(x), z = a * a / 4;
    long double sum = 1, term = 1;
    if (isnan(x)) return x;
    if (isinf(x)) return order == 0 ? a : x;
    for (int k = 1; k < 200; ++k) {
        const long double step = a <= 40 ? z / ((long double)k * (k + order))
                                         : -(4.0L * order * order - (2 * k - 1) * (2 * k - 1)) / (8 * k * a);
        if (a > 40 && fabsl(step) >= 1) break;
        term *= step;
        sum += term;
        if (fabsl(term) < 1e-22L * sum) break;
    }
    const long double v = a <= 40 ? sum * (order == 0 ? 1 : a / 2) : expl(a) * sum / sqrtl(2 * PI_L * a);
    return order == 0 ? v : copysignl(v, x);
}
static long double i0_l(long double x) { return bessel(x, 0); }
static long double i1_l(long double x) { return bessel(x, 1); }
static long double frexp_mantissa_l(long double x) {
    int e;
    return frexpl(x, &e);
}
static long double frexp_exponent_l(long double x) {
    int e = 0;
    if (isfinite(x)) frexpl(x, &e);
    return e;
}
static long double ldexp_l(long double a, long double b) {
    if (!isfinite(b)) return a * exp2l(b);
    const long double n = fminl(fmaxl(rintl(b), -10000), 10000);
    return scalbnl(a * exp2l(fabsl(b) < 10000 ? b - n : 0), (int)n);
}
#define AS_DOUBLE(name)                                                                                                \
    static double name##_d(double x) { return (double)name##_l(x); }
AS_DOUBLE(digamma)
AS_DOUBLE(trigamma)
AS_DOUBLE(erfinv)
AS_DOUBLE(ndtr)
AS_DOUBLE(ndtri)
AS_DOUBLE(i0)
AS_DOUBLE(i1)
AS_DOUBLE(frexp_mantissa)
AS_DOUBLE(frexp_exponent)
static double lgamma_d(double x) { return x == -INFINITY ? INFINITY : lgamma(x); }
static long double lgamma_l(long double x) { return x == -INFINITY ? INFINITY : lgammal(x); }

#define REFERENCE1(name, single, wide)                                                                                 \
    static double ref_##name##_f32(double a, double b) {                                                               \
        (void)b;                                                                                                       \
        return single(a);                                                                                              \
    }                                                                                                                  \
    static long double ref_##name##_f64(long double a, long double b) {                                                \
        (void)b;                                                                                                       \
        return wide(a);                                                                                                \
    }
#define REF1(name)     REFERENCE1(name, name, name##l)
#define REF1_OWN(name) REFERENCE1(name, name##_d, name##_l)
/* clang-format off */
REF1(exp)
REF1(exp2) REF1(expm1) REF1(log) REF1(log2) REF1(log1p) REF1(sin) REF1(cos) REF1(tan) REF1(asin) REF1(acos) REF1(atan)
    REF1(sinh) REF1(cosh) REF1(tanh) REF1(asinh) REF1(acosh) REF1(atanh) REF1(erf) REF1(erfc) REF1_OWN(erfinv)
        REF1_OWN(sigmoid) REF1_OWN(silu) REF1_OWN(lgamma) REF1_OWN(digamma) REF1_OWN(trigamma)
            REF1_OWN(ndtr) REF1_OWN(ndtri) REF1_OWN(i0) REF1_OWN(i1) REF1_OWN(frexp_mantissa) REF1_OWN(frexp_exponent)
    /* clang-format on */
    static double ref_pow_f32(double a, double b) {
    return pow(a, b);
}
static long double ref_pow_f64(long double a, long double b) { return powl(a, b); }
static double ref_atan2_f32(double a, double b) { return atan2(a, b); }
static long double ref_atan2_f64(long double a, long double b) { return atan2l(a, b); }
static double ref_ldexp_f32(double a, double b) { return (double)ldexp_l(a, b); }
static long double ref_ldexp_f64(long double a, long double b) { return ldexp_l(a, b); }

typedef struct {
    const char *name;
    double ulp32, ulp64;
    void (*loop32)(const float *, const float *, float *, size_t);
    void (*loop64)(const double *, const double *, double *, size_t);
    double (*ref32)(double, double);
    long double (*ref64)(long double, long double);
} Program;

#define PROGRAM1(name, x)
#define PROGRAM2(name, a, b)
#define PROGRAM_ERROR(name, ulp32, ulp64)                                                                              \
    {#name, ulp32, ulp64, loop_##name##_f32, loop_##name##_f64, ref_##name##_f32, ref_##name##_f64},
static const Program programs[] = {
#include "kernel/math.def"
};
enum { PROGRAM_COUNT = sizeof programs / sizeof *programs };

static bool is(const Program *p, const char *name) { return strcmp(p->name, name) == 0; }
static bool two(const Program *p) { return is(p, "pow") || is(p, "atan2") || is(p, "ldexp"); }
/* lgamma and digamma of negative arguments are differences: results smaller than the terms are judged by the terms.
 * Next to its positive zero the reference for digamma is exact to 1e-19 only. */
static double floor_of(const Program *p, double x, double want) {
    if (is(p, "lgamma") && x < 0) return fmax(1.0, fabs(lgamma(-x)));
    if (is(p, "digamma")) return x < 0 ? fmax(fabs(log(-x)), fabs(want - log(-x))) : 0.01;
    return 0;
}

/* ---- the error -------------------------------------------------------------------------------------------------- */
#define WRONG 1e30

static double error_f32(float got, double want, double least) {
    if (want != want || got != got) return want != want && got != got ? 0 : WRONG;
    if (got == 0 && (want == 0 || fabs(want) < 0x1p-126) && !signbit(got) != !signbit(want)) return WRONG;
    const double g = isinf(got) ? copysign(0x1p128, got) : got;
    const double w = fabs(want) > 0x1p128 ? copysign(0x1p128, want) : want;
    uint64_t bits;
    double size = fabs(w) > least ? fabs(w) : least;
    if (size < 0x1p-126) size = 0x1p-126;
    if (size >= 0x1p128) size = 0x1p127;
    memcpy(&bits, &size, 8);
    bits = (bits & 0x7ff0000000000000u) - ((uint64_t)23 << 52);
    memcpy(&size, &bits, 8);
    return fabs(g - w) / size;
}
static double error_f64(double got, long double want, double least) {
    if (want != want || got != got) return want != want && got != got ? 0 : WRONG;
    if (got == 0 && (want == 0 || fabsl(want) < 0x1p-1022L) && !signbit(got) != !signbit(want)) return WRONG;
    const long double g = isinf(got) ? copysignl(0x1p1024L, got) : got;
    const long double w = fabsl(want) > 0x1p1024L ? copysignl(0x1p1024L, want) : want;
    long double size = fabsl(w) > least ? fabsl(w) : least;
    if (size < 0x1p-1022L) size = 0x1p-1022L;
    if (size >= 0x1p1024L) size = 0x1p1023L;
    return (double)(fabsl(g - w) / ldexpl(1, ilogbl(size) - 52));
}

typedef struct {
    double ulp, a, b, got, want;
} Worst;

enum { BATCH = 1024 };
static void batch_f32(const Program *p, const float *a, const float *b, size_t n, Worst *w) {
    static float y[BATCH];
    p->loop32(a, b, y, n);
    const bool mirrored = is(p, "lgamma") || is(p, "digamma");
    for (size_t i = 0; i < n; ++i) {
        const double want = p->ref32(a[i], b[i]);
        const double e = error_f32(y[i], want, mirrored ? floor_of(p, a[i], want) : 0);
        if (e > w->ulp) *w = (Worst){e, a[i], b[i], y[i], want};
    }
}
static void batch_f64(const Program *p, const double *a, const double *b, size_t n, Worst *w) {
    static double y[BATCH];
    p->loop64(a, b, y, n);
    const bool mirrored = is(p, "lgamma") || is(p, "digamma");
    for (size_t i = 0; i < n; ++i) {
        const long double want = p->ref64(a[i], b[i]);
        const double e = error_f64(y[i], want, mirrored ? floor_of(p, a[i], (double)want) : 0);
        if (e > w->ulp) *w = (Worst){e, a[i], b[i], y[i], (double)want};
    }
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void) {
    uint64_t x = random_state;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return random_state = x;
}
static double random_unit(void) { return (double)(random_bits() >> 11) * 0x1p-53; }

static const double special[] = {0.0,
                                 1.0,
                                 2.0,
                                 3.0,
                                 4.0,
                                 0.5,
                                 1.5,
                                 2.5,
                                 0.25,
                                 0.75,
                                 10.0,
                                 100.0,
                                 1e-3,
                                 1e-10,
                                 1e-30,
                                 1e-37,
                                 1e-44,
                                 1e30,
                                 3e38,
                                 1e300,
                                 5e-324,
                                 1e-310,
                                 2.2250738585072014e-308,
                                 1.7976931348623157e308,
                                 1.17549435e-38,
                                 1.4e-45,
                                 3.4028234e38,
                                 INFINITY,
                                 NAN,
                                 88.0,
                                 88.722839,
                                 88.72284,
                                 89.0,
                                 89.415986,
                                 89.5,
                                 103.9,
                                 104.0,
                                 709.78,
                                 709.79,
                                 710.47,
                                 710.48,
                                 745.13,
                                 745.2,
                                 1.5707963267948966,
                                 3.141592653589793,
                                 6.283185307179586,
                                 0.78539816339744828,
                                 0.99999994,
                                 1.0000001,
                                 0.9999999999999999,
                                 1.0000000000000002,
                                 127.0,
                                 128.0,
                                 126.0,
                                 149.0,
                                 150.0,
                                 1022.0,
                                 1023.0,
                                 1024.0,
                                 1074.0,
                                 1075.0,
                                 9.0,
                                 9.1,
                                 19.0,
                                 20.0,
                                 5.9,
                                 6.0,
                                 10.05,
                                 10.06,
                                 26.5,
                                 27.2,
                                 27.3,
                                 170.0,
                                 1.4616321449683623,
                                 33.0,
                                 34.0,
                                 35.0,
                                 36.0,
                                 16777216.0,
                                 16777215.0,
                                 8388608.0,
                                 8388607.0,
                                 8388607.5,
                                 9007199254740991.0,
                                 9007199254740992.0,
                                 4503599627370496.5,
                                 2147483648.0,
                                 4294967296.0,
                                 6381956970095103.0 * 0x1p797,
                                 16367173.0 * 0x1p72,
                                 0.3465735902799726,
                                 0.69314718055994529,
                                 0.6931472,
                                 1.4142135623730951};
enum { SPECIALS = sizeof special / sizeof *special };

static void report(const Program *p, const char *type, const Worst *w, double bound, bool *failed) {
    const bool bad = !(w->ulp <= bound);
    if (two(p))
        printf("  %-9s %s %7.3f ulp (bound %.2f) at (%.17g, %.17g): %.17g, not %.17g%s\n", p->name, type, w->ulp, bound,
               w->a, w->b, w->got, w->want, bad ? "  <-- EXCEEDED" : "");
    else
        printf("  %-9s %s %7.3f ulp (bound %.2f) at %.17g (%a): %.17g, not %.17g%s\n", p->name, type, w->ulp, bound,
               w->a, w->a, w->got, w->want, bad ? "  <-- EXCEEDED" : "");
    fflush(stdout);
    *failed |= bad;
}

static bool chosen(const Program *p) { /* HODU_PROGRAM=tanh runs that one alone */
    const char *only = getenv("HODU_PROGRAM");
    return !only || is(p, only);
}

#ifndef STEP
#define STEP 251
#endif

/* one argument, f32: every n-th bit pattern; the slow references are visited less often */
static void sweep_f32(const Program *p, Worst *w) {
    const bool slow = is(p, "digamma") || is(p, "trigamma") || is(p, "erfinv") || is(p, "lgamma") || is(p, "ndtr") ||
                      is(p, "ndtri") || is(p, "i0") || is(p, "i1");
    const uint64_t step = sample_step(slow ? 5 * STEP : STEP);
    static float a[BATCH];
    size_t n = 0;
    for (int i = 0; i < SPECIALS; ++i)
        for (int s = 0; s < 2; ++s) {
            a[n++] = (float)(s ? -special[i] : special[i]);
            if (n == BATCH) batch_f32(p, a, a, n, w), n = 0;
        }
    for (uint64_t u = ((uint64_t)(p - programs) * 7 + sample_seed() * 59) % step; u < (uint64_t)1 << 32; u += step) {
        a[n++] = w_unbits_f32((uint32_t)u);
        if (n == BATCH) batch_f32(p, a, a, n, w), n = 0;
    }
    batch_f32(p, a, a, n, w);
}

/* one argument, f64: all exponents, denser around 1, on [-40, 40], and next to multiples of 1/2 and of pi/4 */
static void sample_f64(const Program *p, Worst *w) {
    static double a[BATCH];
    size_t n = 0;
    for (int i = 0; i < SPECIALS; ++i)
        for (int s = 0; s < 2; ++s) {
            a[n++] = s ? -special[i] : special[i];
            if (n == BATCH) batch_f64(p, a, a, n, w), n = 0;
        }
    for (int i = 0; i < 400000; ++i) {
        const uint64_t r = random_bits();
        double x;
        switch (i % 8) {
        case 0: x = w_unbits_f64(r); break;
        case 1:
        case 2: x = w_unbits_f64((r & 0x800fffffffffffffu) | ((uint64_t)(1023 - 30 + (r >> 52) % 40) << 52)); break;
        case 3: x = random_unit() * 80 - 40; break;
        case 4: x = random_unit() * 2 - 1; break;
        case 5: x = random_unit() * 1500 - 750; break;
        case 6: x = (double)((int)(r % 200) - 100) * 0.5 + (random_unit() - 0.5) * 0x1p-30; break;
        default: x = (double)((int)(r % 2000) - 1000) * 0.78539816339744831 * (1 + (random_unit() - 0.5) * 0x1p-45);
        }
        a[n++] = x;
        if (n == BATCH) batch_f64(p, a, a, n, w), n = 0;
    }
    batch_f64(p, a, a, n, w);
}

/* two arguments: pairs of special points, random pairs, and pairs whose power is in range */
static void pair(double *a, double *b, int i, bool single) {
    const uint64_t r = random_bits(), q = random_bits();
    const double x = single ? (double)w_unbits_f32((uint32_t)r) : w_unbits_f64(r);
    const double y = single ? (double)w_unbits_f32((uint32_t)q) : w_unbits_f64(q);
    *a = x, *b = y;
    switch (i % 8) {
    case 0: break;
    case 1:
    case 2:
    case 3: {
        const double l = log2(fabs(x));
        *b = (random_unit() * 2 - 1) * (single ? 152 : 1080) / (l != 0 ? l : 1);
        *a = i % 8 == 3 ? x : fabs(x);
        break;
    }
    case 4: *a = 0.5 + random_unit() * 1.5, *b = (random_unit() * 2 - 1) * (single ? 300 : 3000); break;
    case 5: *a = 1 + (random_unit() - 0.5) * 0x1p-6, *b = (random_unit() * 2 - 1) * (single ? 9000 : 60000); break;
    case 6: *a = (random_unit() - 0.5) * 100, *b = (double)((int)(q % 81) - 40); break;
    default: *a = (random_unit() - 0.5) * 20, *b = (random_unit() - 0.5) * 20;
    }
}
static void pairs(const Program *p, bool single, Worst *w) {
    static float a32[BATCH], b32[BATCH];
    static double a64[BATCH], b64[BATCH];
    const int grid = 4 * SPECIALS * SPECIALS, total = grid + (single ? 4000000 : 1000000);
    size_t n = 0;
    for (int i = 0; i < total; ++i) {
        if (i < grid) {
            const double a = special[i / 4 % SPECIALS], b = special[i / 4 / SPECIALS];
            a64[n] = i & 1 ? -a : a, b64[n] = i & 2 ? -b : b;
        } else {
            pair(&a64[n], &b64[n], i, single);
        }
        a32[n] = (float)a64[n], b32[n] = (float)b64[n];
        if (++n == BATCH || i == total - 1) {
            if (single)
                batch_f32(p, a32, b32, n, w);
            else
                batch_f64(p, a64, b64, n, w);
            n = 0;
        }
    }
}

static void programs_f32(void **state) {
    (void)state;
    bool failed = false;
    for (const Program *p = programs; p < programs + PROGRAM_COUNT; ++p) {
        if (!chosen(p)) continue;
        Worst w = {0};
        if (two(p))
            pairs(p, true, &w);
        else
            sweep_f32(p, &w);
        report(p, "f32", &w, p->ulp32, &failed);
    }
    assert_false(failed);
}
static void programs_f64(void **state) {
    (void)state;
    bool failed = false;
    for (const Program *p = programs; p < programs + PROGRAM_COUNT; ++p) {
        if (!chosen(p)) continue;
        Worst w = {0};
        if (two(p))
            pairs(p, false, &w);
        else
            sample_f64(p, &w);
        report(p, "f64", &w, p->ulp64, &failed);
    }
    assert_false(failed);
}

int main(void) {
#ifdef __AVX2__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return puts("no AVX2 here: skipped"), 77;
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs_f32), cmocka_unit_test(programs_f64)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
