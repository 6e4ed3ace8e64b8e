/* What the error bounds of rows do not say: ldexp by whole numbers is C's to the bit, a number is its mantissa times 2
 * to its exponent, ndtr keeps its digits in the tail, and where takes a number for either side. */
#include "support.h"

#include <math.h>

enum { POINTS = 20000 };

static uint64_t state = 88172645463325252u;
static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}
static float any_f32(void) {
    const uint32_t bits = (uint32_t)(next() >> 16);
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}
static double any_f64(void) {
    const uint64_t bits = next();
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void same_f32(const char *what, float x, float got, float want) {
    if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s of %a is %a, not %a", what, (double)x, (double)got, (double)want);
}
static void same_f64(const char *what, double x, double got, double want) {
    if (isnan(want) ? !isnan(got) : memcmp(&got, &want, sizeof got) != 0)
        fail_msg("%s of %a is %a, not %a", what, x, got, want);
}

static void ldexp_by_whole_numbers_is_exact(void **unused) {
    (void)unused;
    HD_SCOPE;
    static float a[POINTS], power[POINTS], got[POINTS];
    static double a64[POINTS], power64[POINTS], got64[POINTS];
    for (int i = 0; i < POINTS; ++i) {
        const int big = i % 2 == 0 ? 300 : 160; /* through all that f32 has, and next to its ends */
        a[i] = any_f32(), power[i] = (float)((int)(next() % (uint64_t)(2 * big)) - big);
        a64[i] = any_f64(), power64[i] = (double)((int)(next() % 4400) - 2200);
    }
    hd_to_array(hd_ldexp(HD_FROM_DATA(a, HD_SHAPE(POINTS)), HD_FROM_DATA(power, HD_SHAPE(POINTS))), got, HD_F32,
                POINTS);
    hd_to_array(hd_ldexp(HD_FROM_DATA(a64, HD_SHAPE(POINTS)), HD_FROM_DATA(power64, HD_SHAPE(POINTS))), got64, HD_F64,
                POINTS);
    assert_ok();
    for (int i = 0; i < POINTS; ++i) {
        same_f32("ldexp", a[i], got[i], ldexpf(a[i], (int)power[i]));
        same_f64("ldexp", a64[i], got64[i], ldexp(a64[i], (int)power64[i]));
    }
}

static void a_number_is_its_mantissa_times_a_power_of_2(void **unused) {
    (void)unused;
    HD_SCOPE;
    static float a[POINTS], mantissa[POINTS], power[POINTS], again[POINTS];
    for (int i = 0; i < POINTS; ++i) a[i] = any_f32();
    hd_tensor *x = HD_FROM_DATA(a, HD_SHAPE(POINTS)), *m = hd_frexp_mantissa(x), *e = hd_frexp_exponent(x);
    hd_to_array(m, mantissa, HD_F32, POINTS);
    hd_to_array(e, power, HD_F32, POINTS);
    hd_to_array(hd_ldexp(m, e), again, HD_F32, POINTS);
    assert_ok();
    for (int i = 0; i < POINTS; ++i) {
        int want = 0;
        const float part = frexpf(a[i], &want);
        same_f32("frexp_mantissa", a[i], mantissa[i], part);
        if (isfinite(a[i])) assert_int_equal((int)power[i], want);
        if (!isfinite(a[i])) assert_true(power[i] == 0);
        same_f32("ldexp of frexp", a[i], again[i], a[i]);
    }
}

/* By continued fractions of the tail, which share nothing with the program. */
static long double tail(long double x) {
    long double f = 0;
    for (int k = 400; k > 0; --k) f = k / (x + f);
    return expl(-x * x / 2) / ((x + f) * 2.50662827463100050241576528481104525L);
}
static void ndtr_keeps_its_digits_in_the_tail(void **unused) {
    (void)unused;
    HD_SCOPE;
    static double x[POINTS], got[POINTS], back[POINTS];
    for (int i = 0; i < POINTS; ++i) x[i] = -3 - 34.0 * i / POINTS;
    hd_tensor *p = hd_ndtr(HD_FROM_DATA(x, HD_SHAPE(POINTS)));
    hd_to_array(p, got, HD_F64, POINTS);
    hd_to_array(hd_ndtri(p), back, HD_F64, POINTS);
    assert_ok();
    for (int i = 0; i < POINTS; ++i) {
        if (!(fabsl(got[i] / tail(-x[i]) - 1) < 1.5e-15L))
            fail_msg("ndtr(%g) is %.17g, not %.17Lg", x[i], got[i], tail(-x[i]));
        if (!(fabs(back[i] / x[i] - 1) < 1e-15)) fail_msg("ndtri(ndtr(%.17g)) is %.17g", x[i], back[i]);
    }
}

static void where_takes_a_number_for_either_side(void **unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *c = hd_gt_scalar(HD_TENSOR_F32(HD_SHAPE(2, 1), 1, -1), 0), *x = HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3);
    assert_values(hd_where_scalar(c, x, -5), HD_F32, 1, 2, 3, -5, -5, -5);
    assert_values(hd_rwhere_scalar(c, x, -5), HD_F32, -5, -5, -5, 1, 2, 3);
    hd_tensor *whole = hd_cast(x, HD_I32);
    assert_int_equal(hd_tensor_dtype(hd_where_scalar(c, whole, 7)), HD_I32);
    assert_int_equal(hd_tensor_dtype(hd_where_scalar(c, whole, 0.5)), HD_F32);
    assert_int_equal(hd_tensor_dtype(hd_where_scalar(c, hd_cast(x, HD_BF16), 0.3)), HD_BF16);
    assert_ok();
    HD_QUIET;
    assert_null(hd_where_scalar(x, x, 1));
    assert_error(HD_ERROR_DTYPE, "hd_where_scalar: the condition is f32; it must be bool");
    assert_null(hd_rwhere_scalar(NULL, x, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "condition");
    assert_null(hd_where_scalar(c, hd_cast(x, HD_U8), 300));
    assert_error(HD_ERROR_VALUE, "300 does not fit");
}

RUN(test(ldexp_by_whole_numbers_is_exact), test(a_number_is_its_mantissa_times_a_power_of_2),
    test(ndtr_keeps_its_digits_in_the_tail), test(where_takes_a_number_for_either_side))
