/* Draws that are made of others: probabilities from a tensor, exponential and truncated normal numbers. Their moments
 * within five standard errors, their bounds in every dtype, and what is refused. */
#include "support.h"

#include <math.h>

enum { N = 1000000 };

static double mean_of(hd_tensor *x) { return hd_item(hd_mean(hd_cast(x, HD_F64), HD_AXES(), NULL)); }
static double least_of(hd_tensor *x) { return hd_item(hd_min(hd_cast(x, HD_F64), HD_AXES(), NULL)); }
static double most_of(hd_tensor *x) { return hd_item(hd_max(hd_cast(x, HD_F64), HD_AXES(), NULL)); }

#define assert_near(x, expected, within)                                                                               \
    do {                                                                                                               \
        const double x_ = (x), expected_ = (expected), within_ = (within);                                             \
        if (!(fabs(x_ - expected_) <= within_)) fail_msg(#x " is %g, expected %g within %g", x_, expected_, within_);  \
    } while (0)

static void each_element_has_its_probability(void **state) {
    (void)state;
    for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype) {
        HD_SCOPE;
        hd_seed(1);
        hd_tensor *p = hd_cast(HD_TENSOR_F32(HD_SHAPE(6, 1), -1, 0, 0.25, 0.75, 1, 2), (hd_dtype)dtype);
        hd_tensor *x = hd_bernoulli_of(hd_contiguous(hd_broadcast_to(p, HD_SHAPE(6, N / 10))));
        assert_int_equal(hd_tensor_dtype(x), dtype);
        double share[6];
        hd_to_array(hd_mean(hd_cast(x, HD_F64), HD_AXES(1), NULL), share, HD_F64, 6);
        for (int i = 0; i < 6; ++i)
            assert_near(share[i], ((const double[]){0, 0, 0.25, 0.75, 1, 1})[i],
                        i == 2 || i == 3 ? 5 * sqrt(0.1875 / (N / 10)) : 0);
        assert_near(mean_of(hd_logical_or(hd_eq_scalar(x, 0), hd_eq_scalar(x, 1))), 1, 0);
    }
    HD_SCOPE;
    hd_seed(2);
    hd_tensor *p = hd_full(HD_SHAPE(500), HD_F32, 0.3), *x = hd_bernoulli_of(p);
    hd_seed(2);
    assert_same(x, hd_bernoulli(HD_SHAPE(500), HD_F32, 0.3)); /* the same draw, compared with the same number */
    assert_values(hd_bernoulli_of(HD_TENSOR_F32(HD_SHAPE(1), NAN)), HD_F32, 0);
    assert_null(hd_bernoulli_of(hd_ones(HD_SHAPE(2), HD_I32)));
    assert_error(HD_ERROR_DTYPE, "hd_bernoulli_of: probabilities are i32; expected floats");
    assert_null(hd_bernoulli_of(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "probabilities");
}

static void exponential_numbers(void **state) {
    (void)state;
    for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype) {
        HD_SCOPE;
        hd_seed(3);
        const double coarse = dtype == HD_BF16 ? 0.002 : dtype == HD_F16 ? 0.0005 : 0;
        hd_tensor *x = hd_exponential(HD_SHAPE(N), (hd_dtype)dtype, 2), *wide = hd_cast(x, HD_F64);
        assert_int_equal(hd_tensor_dtype(x), dtype);
        assert_near(mean_of(x), 0.5, 5 * 0.5 / sqrt(N) + coarse);
        assert_near(mean_of(hd_square(wide)), 0.5, 5 * sqrt(20.0 / 16 / N) + 2 * coarse); /* E x^4 - (E x^2)^2 */
        for (double at = 0.5; at < 4; at += 1)                                            /* its tail */
            assert_near(mean_of(hd_gt_scalar(wide, at)), exp(-2 * at), 5 * sqrt(exp(-2 * at) / N) + 2 * coarse);
        assert_true(least_of(x) >= 0 && least_of(x) < 1e-4 && most_of(x) > 5 && most_of(x) <= 36.8 / 2);
    }
    HD_SCOPE;
    for (int i = 0; i < 4; ++i) {
        assert_null(hd_exponential(HD_SHAPE(2), HD_F32, ((const double[]){0, -1, INFINITY, NAN})[i]));
        assert_error(HD_ERROR_VALUE, "it must be finite and above 0");
    }
    assert_null(hd_exponential(HD_SHAPE(2), HD_I32, 1));
    assert_error(HD_ERROR_DTYPE, "hd_exponential: draws floats, not i32");
}

/* ---- truncated normal numbers ------------------------------------------------------------------------------------ */
static double density(double x) { return 0.39894228040143267794 * exp(-x * x / 2); }
static double below(double x) { return 0.5 * erfc(-x / sqrt(2)); }

/* Mean and variance of a normal number between a and b deviations; in far tails by the difference's own scale. */
static void check_truncated(double mean, double deviation, double low, double high, hd_dtype dtype) {
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *x = hd_truncated_normal(HD_SHAPE(N / 4), dtype, mean, deviation, low, high);
    assert_ok();
    assert_int_equal(hd_tensor_dtype(x), dtype);
    const bool turned = low - mean > mean - high;
    const double a = (turned ? mean - high : low - mean) / deviation,
                 b = (turned ? mean - low : high - mean) / deviation, z = below(b) - below(a),
                 m = (density(a) - density(b)) / z, v = 1 + (a * density(a) - b * density(b)) / z - m * m,
                 coarse = dtype == HD_BF16  ? 0.004
                          : dtype == HD_F16 ? 0.0005
                                            : 0;
    const double wanted = turned ? mean - deviation * m : mean + deviation * m, size = fabs(wanted) + deviation;
    assert_near(mean_of(x), wanted, 5 * deviation * sqrt(v / (N / 4)) + coarse * size + 1e-6 * size);
    hd_tensor *d = hd_sub_scalar(hd_cast(x, HD_F64), wanted);
    assert_near(mean_of(hd_square(d)) / (deviation * deviation), v, 0.02 * v + 5 * coarse * size / deviation);
    assert_true(least_of(x) >= low && most_of(x) <= high);
}

static void truncated_normal_numbers(void **state) {
    (void)state;
    static const double cases[][4] = {{0, 1, -2, 2},      {1, 2, 0, 3},       {-3, 0.5, -3, 100},
                                      {0, 1, -1000, 0.5}, {0, 1, 0.5, 1},     {0, 1, 3, 50},
                                      {0, 1, -50, -3},    {5, 0.1, 5.4, 5.9}, {0, 1, 10, 11}};
    for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype)
        for (int i = 0; i < 9; ++i) {
            if (dtype < (int)HD_F32 && i > 6) continue; /* intervals of some units alone */
            check_truncated(cases[i][0], cases[i][1], cases[i][2], cases[i][3], (hd_dtype)dtype);
        }
    HD_SCOPE;
    hd_seed(6);
    hd_tensor *x = hd_truncated_normal(HD_SHAPE(4 * N), HD_F32, 0, 1, -100, 100);
    assert_true(least_of(x) > -5.5 && least_of(x) < -4.5 && most_of(x) < 5.5 && most_of(x) > 4.5); /* no -100 */
    assert_values(hd_truncated_normal(HD_SHAPE(2), HD_BF16, 0, 1, 0.997, 1.003), HD_BF16, 1,
                  1); /* the only one there */
}

static void intervals_that_are_refused(void **state) {
    (void)state;
    HD_SCOPE;
    const uint64_t draw = hd_generator_draw(NULL);
    const struct {
        double mean, deviation, low, high;
        hd_dtype dtype;
        const char *why;
    } bad[] = {{NAN, 1, 0, 1, HD_F32, "both must be finite and the deviation above 0"},
               {0, 0, 0, 1, HD_F32, "mean 0 and deviation 0"},
               {0, 1, 1, 1, HD_F32, "the interval [1, 1] is not one"},
               {0, 1, -INFINITY, 1, HD_F32, "its ends must be finite"},
               {0, 1, 1.001, 1.002, HD_BF16, "no number of bf16 lies in [1.001, 1.002]"},
               {0, 1, 20, 21, HD_F32, "[20, 21] lies 20 deviations from the mean 0"},
               {0, 1, -50, -40, HD_F64, "where the probability is too small for f64"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        assert_null(
            hd_truncated_normal(HD_SHAPE(2), bad[i].dtype, bad[i].mean, bad[i].deviation, bad[i].low, bad[i].high));
        assert_error(HD_ERROR_VALUE, bad[i].why);
    }
    assert_null(hd_truncated_normal(HD_SHAPE(2), HD_I8, 0, 1, 0, 1));
    assert_error(HD_ERROR_DTYPE, "hd_truncated_normal: draws floats, not i8");
    assert_int_equal(hd_generator_draw(NULL), draw);
    assert_non_null(hd_truncated_normal(HD_SHAPE(2), HD_F64, 0, 1, 20, 21)); /* f64 has probabilities there */
    assert_ok();
}

/* An interval that is narrow beside the deviation is nearly uniform. */
static void wide_deviations_are_nearly_uniform(void **state) {
    (void)state;
    static const double deviations[] = {1e4, 1e7, 1e30, 1e39};
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        hd_seed(5);
        hd_tensor *x = hd_truncated_normal(HD_SHAPE(100000), HD_F32, 0, deviations[i], -1, 1);
        const double mean = hd_item(hd_mean(x, HD_AXES(), NULL)), spread = hd_item(hd_std(x, HD_AXES(), 0, NULL));
        if (!(fabs(mean) < 0.01 && fabs(spread - 0.57735) < 0.01))
            fail_msg("deviation %g: mean %g, spread %g", deviations[i], mean, spread);
    }
}

RUN(test(each_element_has_its_probability), test(exponential_numbers), test(truncated_normal_numbers),
    test(intervals_that_are_refused), test(wide_deviations_are_nearly_uniform))
