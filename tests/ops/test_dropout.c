/* Dropout: what is kept and what is not, that the gradient has the very same zeros, also computed again, differentiated
 * again and in scripts, and what is refused. */
#include "builders.h"

#include <math.h>

enum { N = 100000 };

static hd_tensor *zeros_of(hd_tensor *x) { return hd_eq_scalar(x, 0); }
static double share(hd_tensor *condition) { return hd_item(hd_mean(hd_cast(condition, HD_F64), HD_AXES(), NULL)); }

static void what_is_kept_is_scaled_and_the_rest_is_zero(void **state) {
    (void)state;
    static const double probabilities[] = {0.1, 0.5, 0.9};
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};
    for (int d = 0; d < 4; ++d)
        for (int i = 0; i < 3; ++i) {
            HD_SCOPE;
            const double p = probabilities[i];
            hd_seed((uint64_t)i);
            hd_tensor *x = hd_full(HD_SHAPE(N), dtypes[d], 3), *y = hd_dropout(x, p);
            assert_int_equal(hd_tensor_dtype(y), dtypes[d]);
            const double dropped = share(zeros_of(y));
            if (fabs(dropped - p) > 5 * sqrt(p * (1 - p) / N)) fail_msg("a share of %g is dropped, not %g", dropped, p);
            const double kept = hd_item(hd_cast(hd_scalar(3 / (1 - p), HD_F32), dtypes[d])),
                         most = hd_item(hd_max(y, HD_AXES(), NULL));
            if (fabs(most / kept - 1) > 1e-6) fail_msg("3 becomes %.9g, not %.9g", most, kept);
            assert_true(share(zeros_of(hd_sub_scalar(y, most))) + dropped == 1);
        }
}

static void zero_keeps_all_and_one_none(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(4), 1, -2, INFINITY, NAN));
    hd_tensor *(*const ops[])(hd_tensor *, double) = {hd_dropout, hd_alpha_dropout};
    for (int i = 0; i < 2; ++i) {
        hd_tensor *y = ops[i](x, 0);
        assert_values(y, HD_F32, 1, -2, INFINITY, NAN);
        assert_false(hd_tensor_shares_storage(x, y));
        assert_int_equal(hd_generator_draw(NULL), (uint64_t)i); /* nothing to draw */
        y = ops[i](x, 1);
        assert_values(y, HD_F32, 0, 0, 0, 0);
        hd_zero_grad(x);
        hd_backward(y);
        assert_values(hd_grad(x), HD_F32, 0, 0, 0, 0);
    }
    hd_clear_tape();
}

static void alpha_dropout_keeps_mean_and_variance(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(4);
    hd_tensor *x = hd_randn(HD_SHAPE(10 * N), HD_F32);
    for (double p = 0.1; p < 0.95; p += 0.2) {
        HD_SCOPE;
        hd_tensor *y = hd_alpha_dropout(x, p);
        const double scale = 1 / sqrt((1 - p) * (1 + p * 1.7580993408473766 * 1.7580993408473766)),
                     floor = -1.7580993408473766 * scale * (1 - p);
        hd_tensor *dropped = hd_lt_scalar(hd_abs(hd_sub_scalar(y, floor)), 1e-6);
        if (fabs(share(dropped) - p) > 0.003) fail_msg("a share of %g is dropped, not %g", share(dropped), p);
        hd_tensor *wanted = hd_add_scalar(hd_mul_scalar(x, scale), 1.7580993408473766 * scale * p);
        assert_close(hd_where_scalar(hd_logical_not(dropped), y, 0),
                     hd_where_scalar(hd_logical_not(dropped), wanted, 0), 1e-5, 1e-5);
        const double mean = hd_item(hd_mean(y, HD_AXES(), NULL)), variance = hd_item(hd_var(y, HD_AXES(), 0, NULL));
        if (fabs(mean) > 0.01 || fabs(variance - 1) > 0.01) fail_msg("mean %g, variance %g", mean, variance);
    }
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static hd_tensor *dropped_square(hd_tensors *inputs, void *user) {
    (void)user;
    return hd_dropout(hd_square(hd_tensors_get(inputs, 0)), 0.4);
}

/* Of sum(dropout(x^2)): 2 x scale where it was kept, and 2 scale in the second derivative. */
static void gradients_have_the_mask_of_the_value(void **state) {
    (void)state;
    for (int again = 0; again < 2; ++again) { /* plainly, and computed again */
        HD_SCOPE;
        hd_seed(7);
        hd_tensor *x = hd_param(hd_full(HD_SHAPE(1000), HD_F32, 3));
        hd_tensor *y = again ? hd_recompute(dropped_square, NULL, HD_TENSORS(x)) : dropped_square(HD_TENSORS(x), NULL);
        const uint64_t drawn = hd_generator_draw(NULL);
        hd_backward(y);
        assert_int_equal(hd_generator_draw(NULL), drawn); /* backward takes no draw of its own */
        assert_close(hd_grad(x), hd_mul_scalar(hd_detach(y), 2.0 / 3), 1e-6, 0);
        hd_clear_tape();
    }
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(1000), HD_F32, 3)), *y = dropped_square(HD_TENSORS(x), NULL);
    hd_tensor *first =
        hd_tensors_get(hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true)), 0);
    hd_tensor *second = hd_tensors_get(hd_grad_of(first, HD_TENSORS(x), NULL), 0);
    assert_close(second, hd_mul_scalar(hd_detach(y), 2.0 / 9), 1e-6, 0);
    hd_clear_tape();
}

static void a_script_draws_what_is_drawn_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(hd_sin(hd_arange(0, 999, 1, HD_F32)));
    hd_builder *b = started("dropout");
    hd_tensor *y = hd_dropout(x, 0.3), *z = hd_alpha_dropout(hd_mul(y, x), 0.3);
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "z", z);
    hd_builder_add_output(b, "gradient",
                          hd_tensors_get(hd_grad_of(hd_sum(y, HD_AXES(), NULL), HD_TENSORS(x), NULL), 0));
    hd_script *s = built(b);
    hd_tensor *in = hd_sin(hd_arange(0, 999, 1, HD_F32)), *last = NULL;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(8);
        hd_outputs *runs[2] = {hd_script_run(s), hd_script_run(s)};
        assert_ok();
        hd_seed(8);
        for (int r = 0; r < 2; ++r) { /* each run a mask of its own, in the order of dynamic execution */
            hd_tensor *now = hd_dropout(in, 0.3);
            assert_same(hd_outputs_get(runs[r], "y"), now);
            assert_close(hd_outputs_get(runs[r], "z"), hd_alpha_dropout(hd_mul(now, in), 0.3), 1e-6, 1e-6);
            assert_close(hd_mul(hd_outputs_get(runs[r], "gradient"), in), now, 1e-6, 0);
            if (r == 1) assert_false(hd_allclose(now, last, NULL));
            last = now;
        }
    }
}

static void what_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    const uint64_t draw = hd_generator_draw(NULL);
    for (int i = 0; i < 3; ++i) {
        assert_null(hd_dropout(x, ((const double[]){-0.1, 1.1, NAN})[i]));
        assert_error(HD_ERROR_VALUE, "is no probability; it must be in [0, 1]");
    }
    assert_null(hd_alpha_dropout(x, 2));
    assert_error(HD_ERROR_VALUE, "hd_alpha_dropout: 2 is no probability; it must be in [0, 1]");
    assert_null(hd_dropout(hd_ones(HD_SHAPE(2), HD_I32), 0.5));
    assert_error(HD_ERROR_DTYPE, "hd_dropout: x is i32; expected floats");
    assert_null(hd_dropout(NULL, 0.5));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dropout");
    assert_int_equal(hd_generator_draw(NULL), draw);
    assert_int_equal(hd_tensor_count(hd_dropout(hd_ones(HD_SHAPE(0, 3), HD_F32), 0.5)), 0);
}

RUN(test(what_is_kept_is_scaled_and_the_rest_is_zero), test(zero_keeps_all_and_one_none),
    test(alpha_dropout_keeps_mean_and_variance), test(gradients_have_the_mask_of_the_value),
    test(a_script_draws_what_is_drawn_at_once), test(what_is_refused))
