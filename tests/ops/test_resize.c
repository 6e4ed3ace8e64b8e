/* Images of other sizes: against plain loops in f64, for any sizes; what is not finite stays where it is; and errors.
 * PyTorch's values and gradients are in grad/golden. */
#include "families.h"

#define SIZED(...) HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_##__VA_ARGS__)

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
static double at_edge(const double *x, int64_t n, int64_t i) { return x[i < 0 ? 0 : i >= n ? n - 1 : i]; }

static double cubic_weight(double d, double a) {
    return d < 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/* Element i of a row of n that becomes m. */
static double resized(const double *x, int64_t n, int64_t m, int64_t i, const hd_resize_opts *o) {
    const double ratio = (double)n / (double)m;
    double at = o->align_corners ? (m > 1 ? (double)i * (double)(n - 1) / (double)(m - 1) : 0)
                                 : ((double)i + 0.5) * ratio - 0.5;
    if (o->mode == HD_RESIZE_NEAREST) return x[i * n / m];
    if (o->mode == HD_RESIZE_NEAREST_CENTRE) return x[(2 * i + 1) * n / (2 * m)];
    double sum = 0, weights = 0;
    if (o->antialias) {
        for (int64_t k = 0; k < n; ++k) {
            const double d = fabs((double)k - at) / fmax(ratio, 1);
            const double w = o->mode == HD_RESIZE_LINEAR ? fmax(0, 1 - d) : cubic_weight(d, -0.5);
            sum += w * x[k];
            weights += w;
        }
        return sum / weights;
    }
    if (o->mode == HD_RESIZE_LINEAR) at = fmax(at, 0);
    const int64_t lower = (int64_t)floor(at);
    const double part = at - (double)lower;
    if (o->mode == HD_RESIZE_LINEAR) return at_edge(x, n, lower) * (1 - part) + at_edge(x, n, lower + 1) * part;
    for (int k = -1; k <= 2; ++k) sum += cubic_weight(fabs(part - k), -0.75) * at_edge(x, n, lower + k);
    return sum;
}

static void rows_of_any_size(void **state) {
    (void)state;
    static double v[MODEL_MOST], want[MODEL_MOST];
    const hd_resize_opts *kinds[] = {SIZED(NEAREST),
                                     SIZED(NEAREST_CENTRE),
                                     SIZED(LINEAR),
                                     SIZED(LINEAR, .align_corners = true),
                                     SIZED(LINEAR, .antialias = true),
                                     SIZED(CUBIC),
                                     SIZED(CUBIC, .align_corners = true),
                                     SIZED(CUBIC, .antialias = true)};
    for (int64_t n = 1; n < 30; n += 1 + n / 6)
        for (int64_t m = 1; m < 40; m += 1 + m / 5)
            for (int k = 0; k < 8; ++k) {
                if (!when_slow((int)(n * 64 + m * 8 + k), 5) || !when_compiled((uint64_t)(n * 64 + m * 8 + k), 7))
                    continue;
                HD_SCOPE;
                hd_tensor *x = fixture(HD_SHAPE(2, n), HD_F64);
                assert_true(hd_to_array(x, v, HD_F64, MODEL_MOST));
                for (int64_t i = 0; i < 2 * m; ++i) want[i] = resized(v + i / m * n, n, m, i % m, kinds[k]);
                const hd_shape shape = HD_SHAPE(2, m), turned = HD_SHAPE(2, m, 1);
                hd_tensor *expected = hd_from_data(want, shape, HD_F64);
                assert_close(hd_resize(x, HD_SHAPE(m), kinds[k]), expected, 1e-12, 1e-11);
                hd_tensor *column = hd_resize(hd_unsqueeze(x, 2), HD_SHAPE(m, 1), kinds[k]); /* another axis */
                assert_close(column, hd_reshape(expected, turned), 1e-12, 1e-11);
                hd_tensor *small = hd_resize(hd_cast(x, HD_F32), HD_SHAPE(m), kinds[k]);
                assert_int_equal(hd_tensor_dtype(small), HD_F32);
                assert_close(hd_cast(small, HD_F64), expected, 1e-5, 1e-5);
            }
}

/* Places that f32 cannot tell apart are found by whole numbers. */
static void long_rows(void **state) {
    (void)state;
    HD_SCOPE;
    const int64_t n = 3000000, m = 2999999;
    hd_tensor *x = hd_range(0, 1, n, HD_I32), *y = hd_resize(x, HD_SHAPE(m), NULL);
    assert_true(hd_item_i64(hd_select(y, 0, m - 1)) == (m - 1) * n / m);
    hd_tensor *f = hd_resize(hd_cast(x, HD_F32), HD_SHAPE(n * 2), SIZED(LINEAR));
    assert_true(hd_item(hd_select(f, 0, 4000001)) == 2000000.25);
}

static void axes_one_after_the_other(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_permute(fixture(HD_SHAPE(5, 2, 4, 3), HD_F64), HD_AXES(1, 3, 2, 0));
    const hd_resize_opts *opts = SIZED(CUBIC);
    hd_tensor *y = hd_resize(x, HD_SHAPE(5, 2, 9), opts);
    hd_tensor *z = hd_resize(hd_contiguous(x), HD_SHAPE(5, 4, 5), opts);
    z = hd_resize(z, HD_SHAPE(2, 9), opts);
    assert_close(y, z, 1e-12, 1e-12);
}

static void all_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    assert_values(hd_resize(HD_TENSOR_I64(HD_SHAPE(3), 1, 2, 3), HD_SHAPE(6), NULL), HD_I64, 1, 1, 2, 2, 3, 3);
    assert_values(hd_resize(hd_gt_scalar(HD_TENSOR_F32(HD_SHAPE(4), 1, 0, 0, 1), 0), HD_SHAPE(2), NULL), HD_BOOL, 1, 0);
    assert_values(hd_resize(HD_TENSOR_I64(HD_SHAPE(4), 1, 2, 3, 4), HD_SHAPE(2), SIZED(NEAREST_CENTRE)), HD_I64, 2, 4);
    hd_tensor *b = fixture(HD_SHAPE(3, 7), HD_BF16), *y = hd_resize(b, HD_SHAPE(5, 4), SIZED(CUBIC));
    assert_int_equal(hd_tensor_dtype(y), HD_BF16);
    assert_close(hd_cast(y, HD_F64), hd_resize(hd_cast(b, HD_F64), HD_SHAPE(5, 4), SIZED(CUBIC)), 0x1.02p-8, 1e-5);
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 3), HD_F32);
    for (int k = 0; k < 3; ++k) {
        const hd_resize_opts *opts = k == 0 ? NULL : k == 1 ? SIZED(LINEAR) : SIZED(CUBIC, .antialias = true);
        assert_true(hd_shape_equal(hd_tensor_shape(hd_resize(none, HD_SHAPE(5), opts)), HD_SHAPE(0, 5)));
    }
}

/* An element that is not finite is seen by its neighbours, and by no other. */
static void what_is_not_finite_stays_where_it_is(void **state) {
    (void)state;
    for (int k = 0; k < 3; ++k) {
        HD_SCOPE;
        const hd_resize_opts *opts = k == 0 ? SIZED(LINEAR) : k == 1 ? SIZED(CUBIC) : SIZED(CUBIC, .antialias = true);
        hd_tensor *x = hd_concat((hd_tensor *const[]){hd_zeros(HD_SHAPE(20), HD_F32), hd_full(HD_SHAPE(1), HD_F32, NAN),
                                                      hd_zeros(HD_SHAPE(19), HD_F32)},
                                 3, 0);
        hd_tensor *finite = hd_isfinite(hd_resize(x, HD_SHAPE(20), opts));
        assert_false(hd_item(hd_select(finite, 0, 10)) != 0);
        assert_true(hd_item(hd_all(hd_narrow(finite, 0, 0, 7), HD_AXES(), NULL)) != 0);
        assert_true(hd_item(hd_all(hd_narrow(finite, 0, 14, 6), HD_AXES(), NULL)) != 0);
    }
}

/* ---- channels and pixels ----------------------------------------------------------------------------------------- */
static void shuffling_there_and_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_I64(HD_SHAPE(4, 1, 2), 0, 1, 2, 3, 4, 5, 6, 7);
    hd_tensor *y = hd_pixel_shuffle(x, 2);
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(1, 2, 4)));
    assert_values(y, HD_I64, 0, 2, 1, 3, 4, 6, 5, 7);
    assert_same(hd_pixel_unshuffle(y, 2), x);
    hd_tensor *high = hd_permute(fixture(HD_SHAPE(2, 3, 18, 2, 2), HD_F32), HD_AXES(1, 0, 2, 4, 3));
    assert_same(hd_pixel_unshuffle(hd_pixel_shuffle(high, 3), 3), high);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_pixel_shuffle(hd_zeros(HD_SHAPE(0, 4, 2, 2), HD_F32), 2)),
                               HD_SHAPE(0, 1, 4, 4)));
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void bad_sizes_and_factors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1, 4, 3), HD_F32);
    assert_null(hd_resize(NULL, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_resize: `x` is NULL");
    assert_null(hd_resize(x, HD_SHAPE(), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_resize: size [] for x [1,4,3]");
    assert_null(hd_resize(x, HD_SHAPE(1, 1, 1, 1), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_resize: size [1,1,1,1] for x [1,4,3]");
    assert_null(hd_resize(x, HD_SHAPE(2, 0), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_resize: 3 elements of axis 2 of x [1,4,3] made 0; both are from 1");
    assert_null(hd_resize(hd_ones(HD_SHAPE(2, 0), HD_F32), HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_resize: 0 elements of axis 1");
    assert_null(hd_resize(x, HD_SHAPE(2), HD_OPTS(hd_resize_opts, .mode = (hd_resize_mode)9)));
    assert_error(HD_ERROR_VALUE, "hd_resize: mode is 9");
    assert_null(hd_resize(x, HD_SHAPE(2), HD_OPTS(hd_resize_opts, .align_corners = true)));
    assert_error(HD_ERROR_VALUE, "hd_resize: align_corners of the nearest element");
    assert_null(hd_resize(x, HD_SHAPE(2), SIZED(NEAREST_CENTRE, .antialias = true)));
    assert_error(HD_ERROR_VALUE, "hd_resize: antialias of the nearest element");
    assert_null(hd_resize(x, HD_SHAPE(2), SIZED(LINEAR, .antialias = true, .align_corners = true)));
    assert_error(HD_ERROR_VALUE, "hd_resize: align_corners and antialias");
    assert_null(hd_resize(hd_ones(HD_SHAPE(3), HD_U8), HD_SHAPE(2), SIZED(LINEAR)));
    assert_error(HD_ERROR_DTYPE, "hd_resize: x is u8");
    assert_null(hd_pixel_shuffle(x, 3));
    assert_error(HD_ERROR_SHAPE, "hd_pixel_shuffle: x [1,4,3] by a factor of 3; its square must divide the channels");
    assert_null(hd_pixel_unshuffle(x, 2));
    assert_error(HD_ERROR_SHAPE, "hd_pixel_unshuffle: x [1,4,3] by a factor of 2; it must divide height and width");
    assert_null(hd_pixel_shuffle(x, 0));
    assert_error(HD_ERROR_VALUE, "hd_pixel_shuffle: a factor of 0");
    assert_null(hd_pixel_unshuffle(hd_ones(HD_SHAPE(2, 2), HD_F32), 2));
    assert_error(HD_ERROR_SHAPE, "hd_pixel_unshuffle: x [2,2]; it must be [..., channels, height, width]");
    assert_null(hd_pixel_shuffle(NULL, 2));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_pixel_shuffle: `x` is NULL");
}

RUN(test(rows_of_any_size), test(long_rows), test(axes_one_after_the_other), test(all_dtypes),
    test(what_is_not_finite_stays_where_it_is), test(shuffling_there_and_back), test(bad_sizes_and_factors))
