/* Pooling: layouts, dtypes, threads, windows that see nothing, and what it refuses. Values are PyTorch's
 * (grad/layers). */
#include "families.h"

#define POOL(...) HD_OPTS(hd_pool_opts, __VA_ARGS__)

static void any_layout_and_dtype(void **state) {
    (void)state;
    hd_seed(9);
    HD_SCOPE;
    hd_tensor *x = hd_permute(hd_cast(hd_randint(HD_SHAPE(6, 5, 4, 3), HD_I32, -20, 20), HD_F32), HD_AXES(3, 2, 0, 1));
    const hd_shape window = HD_SHAPE(2, 2);
    hd_tensor *largest = hd_max_pool(x, window, NULL), *mean = hd_avg_pool(x, window, NULL);
    assert_same(largest, hd_max_pool(hd_contiguous(x), window, NULL));
    assert_same(mean, hd_avg_pool(hd_contiguous(x), window, NULL));
    for (int d = HD_BF16; d <= (int)HD_F64; ++d) {
        if (!hd_dtype_is_float((hd_dtype)d)) continue;
        assert_same(hd_max_pool(hd_cast(x, (hd_dtype)d), window, NULL), hd_cast(largest, (hd_dtype)d));
        assert_int_equal(hd_tensor_dtype(hd_avg_pool(hd_cast(x, (hd_dtype)d), window, NULL)), d);
    }
    /* the same as reductions of unfolded windows */
    hd_tensor *rows = hd_unfold(hd_unfold(x, 2, 2, 2), 3, 2, 2);
    assert_same(largest, hd_max(rows, HD_AXES(-1, -2), NULL));
    assert_same(mean, hd_mean(rows, HD_AXES(-1, -2), NULL));
    assert_same(hd_adaptive_avg_pool(x, HD_SHAPE(1, 1)),
                hd_mean(x, HD_AXES(2, 3), HD_OPTS(hd_reduce_opts, .keep_dims = true)));
}

/* Against unfolded windows that are walked one by one: strides, dilation, padding, ties, NaN; lines longer than are
 * walked together. */
static float at_or_none(const float *x, int64_t n, int64_t i) { return i >= 0 && i < n ? x[i] : -INFINITY; }
static void lines_of_windows(void **state) {
    (void)state;
    hd_seed(11);
    for (int round = 0; round < 300; ++round) {
        HD_SCOPE;
        const int64_t n = 1 + (round % 10 == 0 ? 600 : 0) + (round * 7) % 23, window = 1 + round % 5,
                      stride = 1 + round / 5 % 4, dilation = 1 + round / 20 % 3, before = round / 60 % (window / 2 + 1),
                      after = round / 30 % (window / 2 + 1);
        if (n + before + after < (window - 1) * dilation + 1) continue;
        hd_tensor *x = hd_cast(hd_randint(HD_SHAPE(2, n), HD_I32, -3, 4), HD_F32);
        if (round % 4 == 0) ((float *)hd_data_mut(x, HD_F32))[n / 2] = NAN;
        const hd_pool_opts *o = POOL(.stride = {stride}, .dilation = {dilation}, .padding = {{before, after}});
        hd_tensor *largest = hd_max_pool(x, HD_SHAPE(window), o);
        assert_non_null(largest);
        const int64_t results = hd_tensor_size(largest, 1);
        hd_tensor *g = hd_cast(hd_randint(HD_SHAPE(2, results), HD_I32, 1, 9), HD_F32),
                  *back = hd_max_pool_gradient(g, x, HD_SHAPE(window), o),
                  *pick = hd_max_pool_pick(hd_reshape(hd_arange(0, (double)(2 * n), 1, HD_F32), HD_SHAPE(2, n)), x,
                                           HD_SHAPE(window), o);
        float *expected = calloc((size_t)(2 * n), sizeof *expected);
        for (int64_t r = 0; r < 2 * results; ++r) {
            const float *line = hd_data_f32(x) + r / results * n;
            int64_t where = -1;
            for (int64_t t = 0; t < window; ++t) {
                const int64_t i = r % results * stride - before + t * dilation;
                if (i < 0 || i >= n) continue;
                if (where < 0 || line[i] > line[where] || line[i] != line[i]) where = i;
            }
            const float best = at_or_none(line, n, where), found = hd_data_f32(largest)[r];
            assert_true(found == best || (found != found && best != best));
            assert_true(hd_data_f32(pick)[r] == (where < 0 ? 0 : (float)(r / results * n + where)));
            if (where >= 0) expected[r / results * n + where] += hd_data_f32(g)[r];
        }
        for (int64_t i = 0; i < 2 * n; ++i) assert_true(hd_data_f32(back)[i] == expected[i]);
        free(expected);
    }
}

/* Windows of 2 x 2 beside each other have kernels of their own. In between lies an axis of size 1, which those that are
 * walked one by one do not mind. */
static void windows_of_two_by_two(void **state) {
    (void)state;
    hd_seed(12);
    for (int round = 0; round < 120; ++round) {
        HD_SCOPE;
        const int64_t h = 2 + round % 7, w = 2 + (round * 5) % 37;
        const hd_dtype dtype = round % 2 == 0 ? HD_F32 : HD_F64;
        hd_tensor *x = hd_cast(hd_randint(HD_SHAPE(3, 1, h, w), HD_I32, -2, 3), dtype);
        if (round % 3 == 0)
            x = hd_where(hd_lt_scalar(hd_rand(HD_SHAPE(3, 1, h, w), HD_F32), 0.1), hd_scalar(NAN, dtype), x);
        const hd_pool_opts *deep = POOL(.stride = {1, 2, 2}), *ceiling = POOL(.ceil_mode = round % 5 == 0);
        hd_tensor *largest = hd_max_pool(x, HD_SHAPE(2, 2), NULL);
        assert_same(largest, hd_max_pool(x, HD_SHAPE(1, 2, 2), deep));
        hd_tensor *g = hd_cast(hd_randint(hd_tensor_shape(largest), HD_I32, -4, 5), dtype);
        assert_same(hd_max_pool_gradient(g, x, HD_SHAPE(2, 2), NULL),
                    hd_max_pool_gradient(g, x, HD_SHAPE(1, 2, 2), deep));
        if (round % 5 == 0) /* windows that are cut at the end are none of these */
            assert_int_equal(hd_tensor_size(hd_max_pool(x, HD_SHAPE(2, 2), ceiling), 3), (w + 1) / 2);
    }
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    hd_seed(10);
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(50, 40, 40), HD_F32), *results[2][2];
    const int threads = hd_num_threads();
    const hd_pool_opts *opts = POOL(.stride = {1, 1});
    for (int i = 0; i < 2; ++i) {
        hd_set_num_threads(i == 0 ? 1 : 4);
        results[i][0] = hd_max_pool(x, HD_SHAPE(3, 3), opts);
        results[i][1] = hd_max_pool_gradient(results[i][0], x, HD_SHAPE(3, 3), opts);
    }
    hd_set_num_threads(threads);
    for (int k = 0; k < 2; ++k) assert_same(results[0][k], results[1][k]);
}

/* In ceil mode one window may be larger than all there is, if the next would begin behind its end: as PyTorch's. */
static void a_window_may_be_larger_than_the_image(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 3, 5);
    for (int64_t stride = 2; stride < 4; ++stride) {
        const hd_pool_opts *opts = POOL(.stride = {stride}, .ceil_mode = true);
        assert_values(hd_max_pool(x, HD_SHAPE(3), opts), HD_F32, 5);
        assert_values(hd_max_pool_gradient(HD_TENSOR_F32(HD_SHAPE(1), 7), x, HD_SHAPE(3), opts), HD_F32, 0, 7);
        assert_values(hd_avg_pool(x, HD_SHAPE(3), opts), HD_F32, 4);
        assert_values(hd_avg_pool_gradient(HD_TENSOR_F32(HD_SHAPE(1), 6), HD_SHAPE(2), HD_SHAPE(3), opts), HD_F32, 3,
                      3);
    }
    assert_values(hd_avg_pool(x, HD_SHAPE(4), POOL(.stride = {3}, .padding = {{1, 1}}, .ceil_mode = true)), HD_F32, 2);
    assert_null(hd_max_pool(x, HD_SHAPE(4), POOL(.stride = {2}, .ceil_mode = true)));
    assert_error(HD_ERROR_SHAPE, "hd_max_pool: a window of 4 does not fit axis 0 of x [2]");
}

static void windows_that_see_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(1), 5);
    const hd_pool_opts *apart = POOL(.stride = {1}, .dilation = {3}, .padding = {{1, 2}}); /* places -1, 2 and 0, 3 */
    assert_values(hd_max_pool(x, HD_SHAPE(2), apart), HD_F32, -INFINITY);
    assert_values(hd_max_pool_gradient(HD_TENSOR_F32(HD_SHAPE(1), 7), x, HD_SHAPE(2), apart), HD_F32, 0);
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 4), HD_F32);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_max_pool(none, HD_SHAPE(2), NULL)), HD_SHAPE(0, 2)));
    assert_true(hd_shape_equal(
        hd_tensor_shape(hd_avg_pool_gradient(hd_zeros(HD_SHAPE(0, 2), HD_F32), HD_SHAPE(0, 4), HD_SHAPE(2), NULL)),
        HD_SHAPE(0, 4)));
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(2, 5, 5), HD_F32);
    assert_null(hd_max_pool(x, HD_SHAPE(), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_max_pool: a window [] on x [2,5,5]; it has 1 to 3 axes");
    assert_null(hd_max_pool(x, HD_SHAPE(1, 1, 1, 1), NULL));
    assert_error(HD_ERROR_SHAPE, "a window [1,1,1,1]");
    assert_null(hd_avg_pool(x, HD_SHAPE(2, 0), NULL));
    assert_error(HD_ERROR_SHAPE, "its sizes are from 1");
    assert_null(hd_avg_pool(x, HD_SHAPE(6), NULL));
    assert_error(HD_ERROR_SHAPE, "a window of 6 does not fit axis 2 of x [2,5,5]");
    assert_null(hd_max_pool(x, HD_SHAPE(3), POOL(.padding = {{2, 0}})));
    assert_error(HD_ERROR_VALUE, "padding {2, 0} on spatial axis 0; it is from 0 to half the window, 1");
    assert_null(hd_max_pool(x, HD_SHAPE(3), POOL(.stride = {-1})));
    assert_error(HD_ERROR_VALUE, "stride -1");
    assert_null(hd_max_pool(x, HD_SHAPE(3, 3), POOL(.stride = {2})));
    assert_error(HD_ERROR_VALUE, "a stride of 2 on spatial axis 0 and none on axis 1; give one for each of 2 axes");
    assert_null(hd_avg_pool(x, HD_SHAPE(3), POOL(.dilation = {2})));
    assert_error(HD_ERROR_VALUE, "an average has no dilation");
    assert_null(hd_avg_pool(x, HD_SHAPE(3), POOL(.stride = {1, 1})));
    assert_error(HD_ERROR_VALUE, "options for spatial axis 1");
    assert_null(hd_avg_pool(x, HD_SHAPE(3), POOL(.adaptive = true, .stride = {1})));
    assert_error(HD_ERROR_VALUE, "an adaptive window has none");
    assert_null(hd_avg_pool(hd_zeros(HD_SHAPE(2, 0), HD_F32), HD_SHAPE(1), NULL));
    assert_error(HD_ERROR_SHAPE, "there is nothing to pool on axis 1");
    assert_null(hd_max_pool(hd_zeros(HD_SHAPE(4), HD_I32), HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_DTYPE, "i32; it takes floats");
    assert_null(hd_max_pool_gradient(x, x, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_SHAPE, "gradient [2,5,5]; pooling x [2,5,5] gives [2,5,2]");
    assert_null(hd_max_pool_pick(hd_zeros(HD_SHAPE(2), HD_F32), x, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_SHAPE, "values [2]");
    assert_null(hd_avg_pool_gradient(x, HD_SHAPE(2, -5), HD_SHAPE(2), NULL));
    assert_false(hd_ok());
    hd_error_clear();
    assert_null(hd_adaptive_avg_pool(NULL, HD_SHAPE(2)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_adaptive_avg_pool");
}

RUN(test(any_layout_and_dtype), test(lines_of_windows), test(windows_of_two_by_two),
    test(threads_do_not_change_the_result), test(a_window_may_be_larger_than_the_image), test(windows_that_see_nothing),
    test(bad_arguments))
