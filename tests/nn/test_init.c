/* Initial values of parameters. */
#include "each_allocation.h"

#include <math.h>

static double least(hd_tensor *t) { return hd_item(hd_min(hd_detach(t), HD_AXES(), NULL)); }
static double most(hd_tensor *t) { return hd_item(hd_max(hd_detach(t), HD_AXES(), NULL)); }
static double mean(hd_tensor *t) { return hd_item(hd_mean(hd_detach(t), HD_AXES(), NULL)); }
static double deviation(hd_tensor *t) { return sqrt(hd_item(hd_var(hd_detach(t), HD_AXES(), 0, NULL))); }

/* All within the bound, and near to it: of n draws some come as close as this. */
static void assert_uniform_within(hd_tensor *t, double bound) {
    assert_true(most(t) <= bound * (1 + 1e-6) && most(t) > bound * 0.98);
    assert_true(least(t) >= -bound * (1 + 1e-6) && least(t) < -bound * 0.98);
    assert_true(fabs(mean(t)) < bound * 0.05);
    assert_true(fabs(deviation(t) / (bound / sqrt(3)) - 1) < 0.05);
}
static void assert_normal_with(hd_tensor *t, double expected) {
    assert_true(fabs(mean(t)) < expected * 0.08);
    assert_true(fabs(deviation(t) / expected - 1) < 0.05);
    assert_true(most(t) > 2.5 * expected && least(t) < -2.5 * expected);
}
static hd_tensor *parameter(hd_shape shape) { return hd_param(hd_zeros(shape, HD_F32)); }

/* ---- draws ------------------------------------------------------------------------------------------------------- */
static void draws_have_the_moments_that_are_asked_for(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *t = parameter(HD_SHAPE(50, 80));
    assert_ptr_equal(hd_init_uniform(t, -0.25, 0.25), t);
    assert_uniform_within(t, 0.25);
    assert_ptr_equal(hd_init_normal(t, 0, 0.5), t);
    assert_normal_with(t, 0.5);
    hd_init_normal(t, 7, 0);
    assert_true(most(t) == 7 && least(t) == 7);
    assert_ptr_equal(hd_init_trunc_normal(t, 1, 2, -1, 2), t);
    assert_true(least(t) >= -1 && least(t) < -0.97 && most(t) <= 2 && most(t) > 1.98);
    /* mean and deviation of a normal from a to b (in deviations): phi, Phi at both ends */
    const double a = -1, b = 0.5, pa = exp(-a * a / 2) / sqrt(2 * acos(-1)), pb = exp(-b * b / 2) / sqrt(2 * acos(-1));
    const double mass = (erf(b / sqrt(2)) - erf(a / sqrt(2))) / 2, shift = (pa - pb) / mass;
    assert_true(fabs(mean(t) - (1 + 2 * shift)) < 0.04);
    assert_true(fabs(deviation(t) - 2 * sqrt(1 + (a * pa - b * pb) / mass - shift * shift)) < 0.04);
    hd_init_trunc_normal(t, 0, 1, -2, INFINITY); /* one end open */
    assert_true(least(t) >= -2 && most(t) > 2.5 && isfinite(most(t)));
    assert_true(hd_tensor_requires_grad(t));
    assert_ok();
}

static void values_are_written_without_a_tape_in_each_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_dtype dtypes[] = {HD_F64, HD_F32, HD_F16, HD_BF16};
    for (int i = 0; i < 4; ++i) {
        hd_tensor *t = hd_param(hd_zeros(HD_SHAPE(40, 50), dtypes[i]));
        hd_init_uniform(t, 1, 2);
        hd_init_normal(t, 0, 1);
        hd_init_trunc_normal(t, 0, 1, -1, 1);
        hd_init_orthogonal(t, 1);
        hd_init_kaiming_uniform(t, NULL);
        assert_int_equal(hd_tape_length(), 0);
        assert_int_equal(hd_tensor_dtype(t), dtypes[i]);
        assert_true(hd_tensor_requires_grad(t) && !hd_has_grad(t));
        hd_backward(hd_sum(t, HD_AXES(), NULL)); /* still a leaf */
        assert_true(hd_has_grad(t));
        hd_clear_tape();
    }
    hd_tensor *view = hd_narrow(hd_zeros(HD_SHAPE(2, 4), HD_F32), 1, 1, 2);
    hd_init_ones(view);
    assert_values(view, HD_F32, 1, 1, 1, 1);
    assert_ok();
}

static void the_seed_decides_and_failures_draw_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *a = hd_init_normal(parameter(HD_SHAPE(3, 4)), 0, 1),
              *b = hd_init_orthogonal(parameter(HD_SHAPE(3, 4)), 1);
    hd_seed(5);
    hd_init_uniform(parameter(HD_SHAPE(3)), 2, 1);
    assert_error(HD_ERROR_VALUE, "hd_init_uniform");
    assert_same(hd_detach(hd_init_normal(parameter(HD_SHAPE(3, 4)), 0, 1)), hd_detach(a));
    assert_same(hd_detach(hd_init_orthogonal(parameter(HD_SHAPE(3, 4)), 1)), hd_detach(b));
}

static void values_are_written_at_once_while_a_builder_records(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = parameter(HD_SHAPE(2, 2)), *made;
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    made = hd_module_get(hd_linear(2, 2, NULL), "weight");
    hd_init_eye(t);
    hd_init_constant(made, 4);
    assert_ok();
    hd_init_zeros(hd_input("x", HD_SHAPE(2), HD_F32));
    assert_error(HD_ERROR_STATE, "hd_init_zeros: `t` is a value that a builder records");
    hd_builder_end(b);
    assert_values(t, HD_F32, 1, 0, 0, 1);
    assert_values(made, HD_F32, 4, 4, 4, 4);
}

/* ---- given values ------------------------------------------------------------------------------------------------ */
static void constants_and_identities(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = parameter(HD_SHAPE(2, 3));
    assert_values(hd_init_constant(t, 0.5), HD_F32, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5);
    assert_values(hd_init_eye(t), HD_F32, 1, 0, 0, 0, 1, 0);
    assert_values(hd_init_ones(t), HD_F32, 1, 1, 1, 1, 1, 1);
    assert_values(hd_init_zeros(t), HD_F32, 0, 0, 0, 0, 0, 0);
    assert_values(hd_init_ones(hd_zeros(HD_SHAPE(2), HD_I32)), HD_I32, 1, 1);
    assert_ok();
}

/* A convolution by it gives back the channels there are, in each group. */
static void dirac_keeps_channels(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(1, 4, 5, 6), HD_F32);
    hd_tensor *w = hd_init_dirac(parameter(HD_SHAPE(4, 4, 3, 3)), 1);
    hd_conv_opts padded = HD_DEFAULTS(hd_conv_opts);
    for (int i = 0; i < 2; ++i) padded.padding[i] = (hd_padding){1, 1};
    assert_same(hd_detach(hd_conv(x, w, NULL, &padded)), x);
    w = hd_init_dirac(parameter(HD_SHAPE(6, 4, 3, 3)), 1); /* more channels come out: zeros */
    hd_tensor *y = hd_detach(hd_conv(x, w, NULL, &padded));
    assert_same(hd_narrow(y, 1, 0, 4), x);
    assert_same(hd_narrow(y, 1, 4, 2), hd_zeros(HD_SHAPE(1, 2, 5, 6), HD_F32));
    padded.groups = 2;
    w = hd_init_dirac(parameter(HD_SHAPE(4, 2, 3, 3)), 2);
    assert_same(hd_detach(hd_conv(x, w, NULL, &padded)), x);
    assert_values(hd_init_dirac(parameter(HD_SHAPE(1, 2, 3)), 1), HD_F32, 0, 1, 0, 0, 0, 0);
    assert_values(hd_init_dirac(parameter(HD_SHAPE(2, 1, 2)), 1), HD_F32, 0, 1, 0, 0); /* the middle of two */
    assert_true(most(hd_init_dirac(parameter(HD_SHAPE(2, 2, 3, 3, 3)), 1)) == 1);
    assert_ok();
}

/* ---- orthogonal -------------------------------------------------------------------------------------------------- */
static void orthogonal_rows_or_columns_have_the_length_of_the_gain(void **state) {
    (void)state;
    static const hd_shape shapes[] = {{.rank = 2, .size = {5, 5}},
                                      {.rank = 2, .size = {7, 3}},
                                      {.rank = 2, .size = {3, 7}},
                                      {.rank = 4, .size = {4, 2, 3, 3}},
                                      {.rank = 2, .size = {1, 1}}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
        HD_SCOPE;
        hd_tensor *t = hd_param(hd_zeros(shapes[i], HD_F64));
        hd_init_orthogonal(t, 1.5);
        const int64_t rows = shapes[i].size[0], columns = hd_tensor_count(t) / rows;
        hd_tensor *m = hd_reshape(hd_detach(t), HD_SHAPE(rows, columns)), *turned = hd_transpose(m, 0, 1);
        const int64_t size = rows < columns ? rows : columns;
        hd_tensor *product = rows < columns ? hd_matmul(m, turned) : hd_matmul(turned, m);
        assert_close(product, hd_mul_scalar(hd_eye(size, size, HD_F64), 2.25), 1e-12, 1e-12);
    }
    HD_SCOPE; /* either sign is as likely: of a single number, too */
    int above = 0;
    hd_seed(1);
    for (int i = 0; i < 64; ++i) above += hd_item(hd_detach(hd_init_orthogonal(parameter(HD_SHAPE(1, 1)), 1))) > 0;
    assert_true(above > 16 && above < 48);
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 3), HD_F32);
    assert_ptr_equal(hd_init_orthogonal(none, 1), none);
    assert_ok();
}

/* ---- by fans ----------------------------------------------------------------------------------------------------- */
static void gains_are_those_of_the_nonlinearities(void **state) {
    (void)state;
    assert_true(hd_init_gain(HD_NONLINEARITY_LINEAR, 0) == 1 && hd_init_gain(HD_NONLINEARITY_SIGMOID, 0) == 1);
    assert_true(hd_init_gain(HD_NONLINEARITY_TANH, 0) == 5.0 / 3 && hd_init_gain(HD_NONLINEARITY_SELU, 0) == 0.75);
    assert_true(hd_init_gain(HD_NONLINEARITY_RELU, 3) == sqrt(2));
    assert_true(hd_init_gain(HD_NONLINEARITY_LEAKY_RELU, 2) == sqrt(2.0 / 5));
    assert_true(hd_init_gain(HD_NONLINEARITY_DEFAULT, 0) == sqrt(2));
    assert_true(isnan(hd_init_gain((hd_nonlinearity)99, 0)));
    assert_error(HD_ERROR_VALUE, "hd_init_gain: 99 is no nonlinearity");
}

static void fans_decide_how_far_values_spread(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(8);
    hd_tensor *m = parameter(HD_SHAPE(60, 40)), *conv = parameter(HD_SHAPE(20, 10, 3, 4));
    const struct { /* a tensor, and its fans in and out */
        hd_tensor *t;
        double in, out;
    } cases[] = {{m, 40, 60}, {conv, 120, 240}};
    for (int i = 0; i < 2; ++i) {
        hd_tensor *t = cases[i].t;
        const double in = cases[i].in, out = cases[i].out;
        assert_uniform_within(hd_init_xavier_uniform(t, 1), sqrt(6 / (in + out)));
        assert_uniform_within(hd_init_xavier_uniform(t, 5.0 / 3), 5.0 / 3 * sqrt(6 / (in + out)));
        assert_normal_with(hd_init_xavier_normal(t, 2), 2 * sqrt(2 / (in + out)));
        assert_uniform_within(hd_init_kaiming_uniform(t, NULL), sqrt(6 / in));
        assert_uniform_within(hd_init_kaiming_uniform(t, HD_OPTS(hd_kaiming_opts, .slope = sqrt(5))), 1 / sqrt(in));
        assert_uniform_within(hd_init_kaiming_uniform(t, HD_OPTS(hd_kaiming_opts, .fan_out = true)), sqrt(6 / out));
        assert_normal_with(hd_init_kaiming_normal(t, HD_OPTS(hd_kaiming_opts, .nonlinearity = HD_NONLINEARITY_LINEAR)),
                           1 / sqrt(in));
        assert_normal_with(
            hd_init_kaiming_normal(t, HD_OPTS(hd_kaiming_opts, .fan_out = true, .nonlinearity = HD_NONLINEARITY_RELU)),
            sqrt(2 / out));
    }
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 3), HD_F32); /* no elements: nothing to do */
    assert_ptr_equal(hd_init_xavier_normal(none, 1), none);
    assert_ok();
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void wrong_arguments_are_errors_that_name_the_call(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = parameter(HD_SHAPE(2, 2)), *flat = parameter(HD_SHAPE(4)), *whole = hd_zeros(HD_SHAPE(2, 2), HD_I32);
#define REFUSES(name, code, text, ...)                                                                                 \
    assert_null(name(__VA_ARGS__));                                                                                    \
    assert_error(code, #name ": " text)
    REFUSES(hd_init_uniform, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 0, 1);
    REFUSES(hd_init_normal, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 0, 1);
    REFUSES(hd_init_trunc_normal, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 0, 1, -1, 1);
    REFUSES(hd_init_constant, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 1);
    REFUSES(hd_init_ones, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL);
    REFUSES(hd_init_zeros, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL);
    REFUSES(hd_init_eye, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL);
    REFUSES(hd_init_dirac, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 1);
    REFUSES(hd_init_orthogonal, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 1);
    REFUSES(hd_init_xavier_uniform, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 1);
    REFUSES(hd_init_xavier_normal, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, 1);
    REFUSES(hd_init_kaiming_uniform, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, NULL);
    REFUSES(hd_init_kaiming_normal, HD_ERROR_NULL_ARGUMENT, "`t` is NULL", NULL, NULL);
    REFUSES(hd_init_uniform, HD_ERROR_VALUE, "from 1 up to 0", t, 1, 0);
    REFUSES(hd_init_uniform, HD_ERROR_VALUE, "from 0 up to inf", t, 0, INFINITY);
    REFUSES(hd_init_uniform, HD_ERROR_DTYPE, "`t` is i32; draws are floats", whole, 0, 1);
    REFUSES(hd_init_normal, HD_ERROR_VALUE, "mean 0, deviation -1", t, 0, -1);
    REFUSES(hd_init_normal, HD_ERROR_DTYPE, "`t` is i32", whole, 0, 1);
    REFUSES(hd_init_trunc_normal, HD_ERROR_VALUE, "mean 0, deviation 0", t, 0, 0, -1, 1);
    REFUSES(hd_init_trunc_normal, HD_ERROR_VALUE, "mean 0, deviation 1, from 1 to 1", t, 0, 1, 1, 1);
    REFUSES(hd_init_constant, HD_ERROR_VALUE, "", whole, 0.5);
    REFUSES(hd_init_eye, HD_ERROR_SHAPE, "`t` is [4]; it must be a matrix", flat);
    REFUSES(hd_init_dirac, HD_ERROR_SHAPE, "`t` is [2,2], with 1 groups", t, 1);
    REFUSES(hd_init_dirac, HD_ERROR_SHAPE, "`t` is [3,1,1], with 2 groups", parameter(HD_SHAPE(3, 1, 1)), 2);
    REFUSES(hd_init_dirac, HD_ERROR_SHAPE, "`t` is [3,1,1], with 0 groups", parameter(HD_SHAPE(3, 1, 1)), 0);
    REFUSES(hd_init_orthogonal, HD_ERROR_SHAPE, "`t` is [4]; it must have 2 axes at least", flat, 1);
    REFUSES(hd_init_orthogonal, HD_ERROR_VALUE, "a gain of nan", t, NAN);
    REFUSES(hd_init_xavier_uniform, HD_ERROR_SHAPE, "`t` is [4]", flat, 1);
    REFUSES(hd_init_xavier_normal, HD_ERROR_VALUE, "a gain of inf", t, INFINITY);
    REFUSES(hd_init_kaiming_uniform, HD_ERROR_SHAPE, "`t` is [4]", flat, NULL);
    REFUSES(hd_init_kaiming_normal, HD_ERROR_VALUE, "99 is no nonlinearity", t,
            HD_OPTS(hd_kaiming_opts, .nonlinearity = (hd_nonlinearity)99));
    assert_values(t, HD_F32, 0, 0, 0, 0);
}

static void all_of_them(void) {
    hd_tensor *t = hd_zeros(HD_SHAPE(2, 2, 1), HD_F32);
    hd_init_trunc_normal(t, 0, 1, -1, 1);
    hd_init_dirac(t, 1);
    hd_init_orthogonal(t, 1);
    hd_init_kaiming_normal(t, NULL);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("a device's driver has its own memory");
    each_allocation_fails(all_of_them, 500);
}

RUN(test(draws_have_the_moments_that_are_asked_for), test(values_are_written_without_a_tape_in_each_dtype),
    test(the_seed_decides_and_failures_draw_nothing), test(values_are_written_at_once_while_a_builder_records),
    test(constants_and_identities), test(dirac_keeps_channels),
    test(orthogonal_rows_or_columns_have_the_length_of_the_gain), test(gains_are_those_of_the_nonlinearities),
    test(fans_decide_how_far_values_spread), test(wrong_arguments_are_errors_that_name_the_call),
    test(each_allocation_may_fail))
