/* layer_norm and rms_norm: against the formula in other ops, for rows of every length around the kernels' steps, any
 * layout, any number of threads; and what they refuse. */
#include "families.h"

static hd_tensor *formula(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, double eps, bool centered) {
    const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
    hd_tensor *f = hd_cast(x, HD_F64), *d = centered ? hd_sub(f, hd_mean(f, HD_AXES(-1), keep)) : f;
    hd_tensor *z = hd_div(d, hd_sqrt(hd_add_scalar(hd_mean(hd_square(d), HD_AXES(-1), keep), eps)));
    if (weight != NULL) z = hd_mul(z, hd_cast(weight, HD_F64));
    return bias != NULL ? hd_add(z, hd_cast(bias, HD_F64)) : z;
}

/* Values and gradients, with the same in f64 beside them. */
static void check_rows(int64_t rows, int64_t n, hd_dtype dtype, double offset) {
    HD_SCOPE;
    hd_tensor *x = hd_cast(hd_add_scalar(hd_randn(HD_SHAPE(rows, n), HD_F32), offset), dtype);
    hd_tensor *w = hd_cast(hd_randn(HD_SHAPE(n), HD_F32), dtype), *b = hd_cast(hd_randn(HD_SHAPE(n), HD_F32), dtype);
    hd_tensor *seed = hd_cast(hd_randn(HD_SHAPE(rows, n), HD_F32), dtype);
    const double close = dtype == HD_F64 ? 1e-12 : dtype == HD_F32 ? 2e-5 : 2e-2;
    for (int kind = 0; kind < 2; ++kind) {
        hd_tensor *in[3] = {x, w, b}, *exact[3];
        for (int i = 0; i < 3; ++i) {
            exact[i] = hd_requires_grad(hd_copy(hd_cast(in[i], HD_F64)));
            in[i] = hd_requires_grad(hd_copy(in[i]));
        }
        hd_tensor *y = kind == 0 ? hd_layer_norm(in[0], 1, in[1], in[2], 1e-3) : hd_rms_norm(in[0], in[1], 1e-3);
        hd_tensor *z = formula(exact[0], exact[1], kind == 0 ? exact[2] : NULL, 1e-3, kind == 0);
        assert_int_equal(hd_tensor_dtype(y), dtype);
        assert_close(hd_cast(y, HD_F64), z, close, close);
        hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
        hd_backward_with(z, HD_OPTS(hd_backward_opts, .seed = hd_cast(seed, HD_F64)));
        const double sums = close * (4 + sqrt((double)rows));
        for (int i = 0; i < 3 - kind; ++i) assert_close(hd_cast(hd_grad(in[i]), HD_F64), hd_grad(exact[i]), sums, sums);
        hd_clear_tape();
    }
}

static void rows_of_every_length(void **state) {
    (void)state;
    hd_seed(1);
    for (int64_t n = 1; n <= 70; ++n) check_rows(3, n, n % 2 ? HD_F32 : HD_F64, 0);
    check_rows(1, 10000, HD_F32, 0);
    check_rows(300, 129, HD_F32, 0);
    check_rows(1000, 3, HD_F64, 0);
    check_rows(7, 33, HD_BF16, 0);
    check_rows(7, 33, HD_F16, 0);
}

/* Far from 0 the mean must not be rounded, nor the variance cancel. */
static void rows_far_from_zero(void **state) {
    (void)state;
    hd_seed(2);
    HD_SCOPE;
    hd_tensor *x = hd_add_scalar(hd_randn(HD_SHAPE(4, 500), HD_F32), 10000);
    hd_tensor *y = hd_layer_norm(x, 1, NULL, NULL, 0);
    assert_close(hd_cast(y, HD_F64), formula(x, NULL, NULL, 0, true), 1e-5, 1e-5);
}

static void any_layout(void **state) {
    (void)state;
    hd_seed(3);
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(5, 4, 6), HD_F32), *w = hd_randn(HD_SHAPE(12), HD_F32);
    hd_tensor *turned = hd_permute(x, HD_AXES(2, 0, 1)), *every_second = hd_slice(w, 0, 0, HD_END, 3);
    assert_same(hd_layer_norm(turned, 1, every_second, NULL, 0.1),
                hd_layer_norm(hd_contiguous(turned), 1, hd_contiguous(every_second), NULL, 0.1));
    assert_same(hd_layer_norm(turned, 2, NULL, NULL, 0.1),
                hd_reshape(hd_layer_norm(hd_reshape(turned, HD_SHAPE(6, 20)), 1, NULL, NULL, 0.1), HD_SHAPE(6, 5, 4)));
    hd_tensor *wide = hd_broadcast_to(hd_slice(x, 0, 0, 1, 1), HD_SHAPE(3, 4, 6));
    assert_same(hd_rms_norm(wide, NULL, 0.1), hd_rms_norm(hd_contiguous(wide), NULL, 0.1));
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    hd_seed(4);
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(1000, 65), HD_F32), *g = hd_randn(HD_SHAPE(1000, 65), HD_F32);
    hd_tensor *results[2][3];
    const int threads = hd_num_threads();
    for (int i = 0; i < 2; ++i) {
        hd_set_num_threads(i == 0 ? 1 : 4);
        results[i][0] = hd_layer_norm(x, 1, NULL, NULL, 1e-5);
        results[i][1] = hd_layer_norm_gradient(g, x, 1, NULL, 1e-5);
        results[i][2] = hd_layer_norm_weight_gradient(g, x, 1, 1e-5);
    }
    hd_set_num_threads(threads);
    for (int k = 0; k < 3; ++k) assert_same(results[0][k], results[1][k]);
}

static void empty_and_special(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *none = hd_zeros(HD_SHAPE(3, 0), HD_F32), *no_rows = hd_zeros(HD_SHAPE(0, 2), HD_F32);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_layer_norm(none, 1, NULL, NULL, 0.1)), HD_SHAPE(3, 0)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_layer_norm_weight_gradient(none, none, 1, 0.1)), HD_SHAPE(2, 0)));
    assert_values(hd_layer_norm_weight_gradient(no_rows, no_rows, 1, 0.1), HD_F32, 0, 0, 0, 0);
    assert_values(hd_rms_norm_weight_gradient(no_rows, no_rows, 0.1), HD_F32, 0, 0);
    assert_values(hd_layer_norm(HD_TENSOR_F32(HD_SHAPE(2, 2), 3, 3, INFINITY, 1), 1, NULL, NULL, 0.1), HD_F32, 0, 0,
                  NAN, NAN);
    assert_values(hd_rms_norm(HD_TENSOR_F32(HD_SHAPE(2, 2), 3, -3, NAN, 1), NULL, 0), HD_F32, 1, -1, NAN, NAN);
    assert_values(hd_rms_norm(HD_TENSOR_F32(HD_SHAPE(1), 0), NULL, 0), HD_F32, NAN); /* 0 / 0, as in PyTorch */
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(2, 3), HD_F32), *w = hd_zeros(HD_SHAPE(3), HD_F32);
    assert_null(hd_layer_norm(x, 0, NULL, NULL, 0.1));
    assert_error(HD_ERROR_AXIS, "hd_layer_norm: the last 0 axes of x [2,3]");
    assert_null(hd_layer_norm(x, 3, NULL, NULL, 0.1));
    assert_error(HD_ERROR_AXIS, "the last 3 axes");
    assert_null(hd_layer_norm(x, 2, w, NULL, 0.1));
    assert_error(HD_ERROR_SHAPE, "weight [3]; it must have the shape of the normalised axes, [2,3]");
    assert_null(hd_layer_norm(x, 1, w, hd_zeros(HD_SHAPE(1, 3), HD_F32), 0.1));
    assert_error(HD_ERROR_SHAPE, "bias [1,3]");
    assert_null(hd_layer_norm(x, 1, NULL, NULL, -1));
    assert_error(HD_ERROR_VALUE, "eps = -1");
    assert_null(hd_layer_norm(x, 1, NULL, NULL, NAN));
    assert_error(HD_ERROR_VALUE, "eps");
    assert_null(hd_layer_norm(hd_zeros(HD_SHAPE(2, 3), HD_I32), 1, NULL, NULL, 0.1));
    assert_error(HD_ERROR_DTYPE, "i32; it takes floats");
    assert_null(hd_layer_norm(NULL, 1, NULL, NULL, 0.1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`x` is NULL");
    assert_null(hd_rms_norm(hd_zeros(HD_SHAPE(), HD_F32), NULL, 0.1));
    assert_error(HD_ERROR_AXIS, "hd_rms_norm");
    assert_null(hd_rms_norm(x, hd_zeros(HD_SHAPE(2), HD_F32), 0.1));
    assert_error(HD_ERROR_SHAPE, "weight [2]");
    assert_null(hd_layer_norm_gradient(w, x, 1, NULL, 0.1));
    assert_error(HD_ERROR_SHAPE, "gradient [3]");
    assert_null(hd_rms_norm_weight_gradient(w, x, 0.1));
    assert_error(HD_ERROR_SHAPE, "gradient [3]");
    hd_tensor *high = hd_zeros(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), HD_F32);
    assert_null(hd_layer_norm_weight_gradient(high, high, 8, 0.1));
    assert_error(HD_ERROR_AXIS, "all 8 axes");
}

RUN(test(rows_of_every_length), test(rows_far_from_zero), test(any_layout), test(threads_do_not_change_the_result),
    test(empty_and_special), test(bad_arguments))
