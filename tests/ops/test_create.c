/* Creation: constants of every dtype, ranges counted as NumPy counts them, matrices, and what is refused. */
#include "families.h"

static const hd_shape shapes[] = {{.rank = 0},
                                  {.rank = 1, .size = {0}},
                                  {.rank = 1, .size = {1000}},
                                  {.rank = 3, .size = {2, 3, 4}},
                                  {.rank = 8, .size = {1, 2, 1, 2, 1, 2, 1, 2}},
                                  {.rank = 2, .size = {0, 5}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void constants_of_every_dtype_and_shape(void **state) {
    (void)state;
    for (int dtype = HD_BOOL; dtype < HD_DTYPE_COUNT; ++dtype)
        for (int s = 0; s < SHAPES; ++s) {
            HD_SCOPE;
            double v[1000];
            const hd_dtype d = (hd_dtype)dtype;
            for (int i = 0; i < 1000; ++i) v[i] = 0;
            assert_tensor(hd_zeros(shapes[s], d), d, &shapes[s], v);
            for (int i = 0; i < 1000; ++i) v[i] = 1;
            assert_tensor(hd_ones(shapes[s], d), d, &shapes[s], v);
            for (int i = 0; i < 1000; ++i) v[i] = d == HD_BOOL ? 1 : 3;
            hd_tensor *x = hd_full(shapes[s], d, 3);
            assert_tensor(x, d, &shapes[s], v);
            assert_true(hd_tensor_is_contiguous(x));
            assert_tensor(hd_full_like(hd_zeros(shapes[s], d), 3), d, &shapes[s], v);
            for (int i = 0; i < 1000; ++i) v[i] = 0;
            assert_tensor(hd_zeros_like(x), d, &shapes[s], v);
            for (int i = 0; i < 1000; ++i) v[i] = 1;
            assert_tensor(hd_ones_like(x), d, &shapes[s], v);
            assert_true(hd_shape_equal(hd_tensor_shape(hd_empty_like(x)), shapes[s]));
            assert_true(hd_tensor_dtype(hd_empty_like(x)) == d);
            hd_tensor *e = hd_empty(shapes[s], d);
            assert_true(hd_shape_equal(hd_tensor_shape(e), shapes[s]) && hd_tensor_dtype(e) == d);
        }
}

static void a_likeness_of_a_view_is_contiguous(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_broadcast_to(hd_t(hd_zeros(HD_SHAPE(2, 3), HD_I16)), HD_SHAPE(4, 3, 2)), *y = hd_ones_like(x);
    assert_true(hd_tensor_is_contiguous(y) && hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(4, 3, 2)));
    assert_false(hd_tensor_shares_storage(x, y));
    assert_values(hd_sum(y, HD_AXES(), NULL), HD_I64, 24);
}

static void constants_must_fit_the_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    assert_values(hd_full(HD_SHAPE(1), HD_BOOL, 7), HD_BOOL, 1);
    assert_values(hd_full(HD_SHAPE(1), HD_F32, 1e300), HD_F32, INFINITY);
    assert_null(hd_full(HD_SHAPE(1), HD_U8, 300));
    assert_error(HD_ERROR_VALUE, "hd_full: 300 does not fit u8");
    assert_null(hd_full(HD_SHAPE(1), HD_I32, -1.5));
    assert_error(HD_ERROR_VALUE, "-1.5 does not fit i32");
    assert_null(hd_full(HD_SHAPE(1), HD_I32, NAN));
    assert_error(HD_ERROR_VALUE, "nan does not fit i32");
    assert_null(hd_scalar(-1, HD_U8));
    assert_error(HD_ERROR_VALUE, "hd_scalar: -1 does not fit u8");
    hd_tensor *x = hd_zeros(HD_SHAPE(2), HD_I8);
    hd_fill(x, 128);
    assert_error(HD_ERROR_VALUE, "hd_fill: 128 does not fit i8");
    assert_null(hd_masked_fill(x, hd_ones(HD_SHAPE(2), HD_BOOL), -INFINITY));
    assert_error(HD_ERROR_VALUE, "hd_masked_fill");
    assert_null(hd_threshold(x, 0, 1000));
    assert_error(HD_ERROR_VALUE, "hd_threshold: 1000 does not fit i8");
    assert_values(hd_clamp(x, -1000, INFINITY), HD_I8, 0, 0); /* a bound may lie outside */
    assert_values(hd_lt_scalar(x, 1000), HD_BOOL, 1, 1);      /* a comparison has an answer */
    assert_values(hd_eq_scalar(x, 256), HD_BOOL, 0, 0);
}

static void constants_are_rounded_once_and_the_default_dtype_counts(void **state) {
    (void)state;
    HD_SCOPE;
    assert_values(hd_full(HD_SHAPE(1), HD_BF16, NAN), HD_BF16, NAN);
    assert_values(hd_full(HD_SHAPE(1), HD_F16, -INFINITY), HD_F16, -INFINITY);
    assert_values(hd_full(HD_SHAPE(1), HD_F16, 1 + 0x1p-11 + 0x1p-40), HD_F16, 1 + 0x1p-10); /* not by way of f32 */
    assert_true(signbit(hd_item(hd_full(HD_SHAPE(), HD_F32, -0.0))));
    hd_set_default_dtype(HD_F64);
    assert_int_equal(hd_tensor_dtype(hd_zeros(HD_SHAPE(1), HD_DTYPE_DEFAULT)), HD_F64);
    assert_int_equal(hd_tensor_dtype(hd_arange(0, 3, 1, HD_DTYPE_DEFAULT)), HD_F64);
    assert_int_equal(hd_tensor_dtype(hd_eye(2, 2, HD_DTYPE_DEFAULT)), HD_F64);
    assert_int_equal(hd_tensor_dtype(hd_logspace(0, 1, 2, HD_DTYPE_DEFAULT)), HD_F64);
    hd_set_default_dtype(HD_F32);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */
static void arange_counts_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("arange"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = hd_arange(g.argument[0], g.argument[1], g.argument[2], HD_F64),
                  *expect = hd_from_data(g.v, g.shape, HD_F64);
        assert_close(x, expect, 1e-14, 1e-14); /* NumPy adds its steps up otherwise */
        assert_close(hd_arange(g.argument[0], g.argument[1], g.argument[2], HD_F32), hd_cast(expect, HD_F32), 1e-6,
                     1e-7);
    }
    HD_SCOPE;
    double v[100];
    for (int i = 0; i < 100; ++i) v[i] = i;
    for (int dtype = HD_U8; dtype < HD_DTYPE_COUNT; ++dtype) {
        const int64_t n = dtype == HD_F8E4M3 ? 16 : dtype == HD_F8E5M2 ? 8 : 100;
        const hd_shape shape = HD_SHAPE(n);
        assert_tensor(hd_arange(0, (double)n, 1, (hd_dtype)dtype), (hd_dtype)dtype, &shape, v);
        assert_tensor(hd_range(0, 1, n, (hd_dtype)dtype), (hd_dtype)dtype, &shape, v);
    }
}

static void whole_ranges_are_exact(void **state) {
    (void)state;
    HD_SCOPE;
    const int64_t *p = hd_data_i64(hd_range(0x1p53, 1, 4, HD_I64));
    for (int64_t i = 0; i < 4; ++i) assert_int_equal(p[i], (1LL << 53) + i);
    p = hd_data_i64(hd_range(-0x1p62, 3, 5, HD_I64));
    for (int64_t i = 0; i < 5; ++i) assert_int_equal(p[i], -(1LL << 62) + 3 * i);
    p = hd_data_i64(hd_range(0x1p62, 0x1p61, 4, HD_I64)); /* past the end: as casts, it stays there */
    assert_int_equal(p[1], (1LL << 62) + (1LL << 61));
    assert_int_equal(p[2], INT64_MAX);
    assert_int_equal(p[3], INT64_MAX);
    p = hd_data_i64(hd_range(1e30, 1, 2, HD_I64));
    assert_int_equal(p[1], INT64_MAX);
    assert_values(hd_range(5, -2, 4, HD_I8), HD_I8, 5, 3, 1, -1);
    assert_values(hd_range(0, 0.5, 5, HD_I32), HD_I32, 0, 0, 1, 1, 2);
    assert_values(hd_range(250, 3, 3, HD_U8), HD_U8, 250, 253, 255);
}

static void linspace_and_logspace_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("linspace"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = hd_linspace(g.argument[0], g.argument[1], (int64_t)g.argument[2], HD_F64),
                  *expect = hd_from_data(g.v, g.shape, HD_F64);
        assert_close(x, expect, 1e-15, 1e-15);
        const int64_t n = hd_tensor_count(x);
        if (n > 1) assert_true(hd_item(hd_select(x, 0, -1)) == g.argument[1]); /* the end exactly */
        assert_close(hd_linspace(g.argument[0], g.argument[1], n, HD_F32), hd_cast(expect, HD_F32), 1e-6, 1e-7);
    }
    for (golden g = golden_open("logspace"); golden_next(&g);)
        for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype) { /* each the nearest of its dtype, or next to it */
            HD_SCOPE;
            hd_tensor *x = hd_logspace(g.argument[0], g.argument[1], (int64_t)g.argument[2], (hd_dtype)dtype);
            const double unit = (const double[]){0x1p-8, 0x1p-11, 0x1p-23, 1e-14}[dtype - HD_BF16];
            assert_ok();
            assert_int_equal(hd_tensor_dtype(x), dtype);
            assert_close(x, hd_cast(hd_from_data(g.v, g.shape, HD_F64), (hd_dtype)dtype), unit, HD_ZERO);
        }
    HD_SCOPE;
    assert_values(hd_logspace(0, 3, 4, HD_I64), HD_I64, 1, 10, 100, 1000);
    assert_values(hd_linspace(0, 9, 4, HD_I32), HD_I32, 0, 3, 6, 9);
    assert_values(hd_linspace(0, 1, 3, HD_F16), HD_F16, 0, 0.5, 1);
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */
static void eye_and_tri_as_numpy(void **state) {
    (void)state;
    int round = 0;
    for (golden g = golden_open("tri"); golden_next(&g);) {
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + round++ % (HD_DTYPE_COUNT - 1));
        assert_tensor(hd_tri((int64_t)g.argument[0], (int64_t)g.argument[1], (int64_t)g.argument[2], dtype), dtype,
                      &g.shape, g.v);
    }
    for (int dtype = HD_BOOL; dtype < HD_DTYPE_COUNT; ++dtype)
        for (golden g = golden_open("eye"); golden_next(&g);) {
            HD_SCOPE;
            assert_tensor(hd_eye((int64_t)g.argument[0], (int64_t)g.argument[1], (hd_dtype)dtype), (hd_dtype)dtype,
                          &g.shape, g.v);
        }
    HD_SCOPE;
    assert_values(hd_tri(2, 2, INT64_MAX, HD_F32), HD_F32, 1, 1, 1, 1);
    assert_values(hd_tri(2, 2, INT64_MIN, HD_F32), HD_F32, 0, 0, 0, 0);
}

/* ---- from memory ------------------------------------------------------------------------------------------------- */
static void data_is_copied_and_blobs_are_borrowed(void **state) {
    (void)state;
    HD_SCOPE;
    float v[3] = {1, 2, 3};
    hd_tensor *copy = hd_from_data(v, HD_SHAPE(3), HD_F32),
              *borrowed = hd_from_blob(v, HD_SHAPE(3), HD_F32, NULL, NULL);
    v[0] = 9;
    assert_values(copy, HD_F32, 1, 2, 3);
    assert_values(borrowed, HD_F32, 9, 2, 3);
    hd_fill(borrowed, 5);
    assert_float_equal(v[2], 5, 0);
    assert_values(hd_from_data((const uint8_t[]){0, 7, 255}, HD_SHAPE(3), HD_BOOL), HD_BOOL, 0, 1,
                  1); /* only 0 and 1 are bool */
    assert_int_equal(hd_tensor_count(hd_from_data(NULL, HD_SHAPE(0), HD_F32)), 0);
    assert_ok();
    assert_null(hd_from_data(NULL, HD_SHAPE(1), HD_F32));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_from_data: `data` is NULL for shape [1]");
    assert_null(HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3));
    assert_error(HD_ERROR_SHAPE, "3 values for shape [2,2], which has 4");
    assert_null(hd_from_blob((char *)v + 1, HD_SHAPE(1), HD_F32, NULL, NULL));
    assert_error(HD_ERROR_VALUE, "hd_from_blob: `data` is not aligned for f32");
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_zeros(HD_SHAPE(2, -1), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_zeros: shape [2,-1] has a negative size at axis 1");
    assert_null(hd_zeros(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_zeros: a shape of more than 8 axes");
    assert_null(hd_empty(HD_SHAPE(1LL << 40, 1LL << 40), HD_F32));
    assert_error(HD_ERROR_OVERFLOW,
                 "hd_empty: shape [1099511627776,1099511627776] has more bytes than 64 bits can count");
    assert_null(hd_empty(HD_SHAPE(INT64_MAX), HD_F64));
    assert_error(HD_ERROR_OVERFLOW, "hd_empty");
    assert_null(hd_zeros(HD_SHAPE(0, 1LL << 40, 1LL << 40), HD_F32)); /* as NumPy: too large even when empty */
    assert_error(HD_ERROR_OVERFLOW, "hd_zeros");
    assert_null(hd_empty(HD_SHAPE(1LL << 60), HD_U8));
    assert_error(HD_ERROR_MEMORY, "hd_empty");
    assert_null(hd_ones(HD_SHAPE(1), (hd_dtype)77));
    assert_error(HD_ERROR_DTYPE, "hd_ones: 77 is no dtype");
    assert_null(hd_ones(HD_SHAPE(1), (hd_dtype)-3));
    assert_error(HD_ERROR_DTYPE, "is no dtype");
    assert_null(hd_arange(0, 1, 0, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_arange: from 0 to 1 in steps of 0");
    assert_null(hd_arange(0, INFINITY, 1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_arange");
    assert_null(hd_arange(0, NAN, 1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_arange");
    assert_null(hd_arange(0, 1e300, 1e-5, HD_F32));
    assert_error(HD_ERROR_OVERFLOW, "hd_arange: a range of");
    assert_null(hd_arange(-1.7e308, 1.7e308, 1, HD_F32));
    assert_error(HD_ERROR_OVERFLOW, "hd_arange");
    assert_null(hd_range(0, 1, -1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_range: a range of -1 elements");
    assert_null(hd_linspace(0, 1, -1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_linspace: a range of -1 elements");
    assert_null(hd_logspace(0, 1, -1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_logspace: a range of -1 elements");
    assert_null(hd_eye(-1, 2, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_eye: a range of -1 elements");
    assert_null(hd_tri(2, -1, 0, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_tri");
    assert_null(hd_eye(1LL << 50, 1LL << 50, HD_F32));
    assert_int_not_equal(hd_error_code(), HD_OK); /* overflow, or no memory for the first row */
    hd_error_clear();
    assert_null(hd_zeros_like(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_zeros_like: `x` is NULL");
}

static void data_has_the_dtype_of_its_pointer(void **state) {
    (void)state;
    HD_SCOPE;
    const double doubles[] = {1.5, -2};
    float floats[] = {1.5f, -2};
    const uint8_t bytes[] = {255, 0};
    int64_t integers[] = {INT64_MIN, 1};
    bool truths[] = {true, false};
    assert_values(HD_FROM_DATA(doubles, HD_SHAPE(2)), HD_F64, 1.5, -2);
    assert_values(HD_FROM_DATA(floats, HD_SHAPE(2, 1)), HD_F32, 1.5, -2);
    assert_values(HD_FROM_DATA(bytes, HD_SHAPE(2)), HD_U8, 255, 0);
    assert_values(HD_FROM_DATA(integers, HD_SHAPE(2)), HD_I64, -0x1p63, 1);
    assert_values(HD_FROM_DATA(truths, HD_SHAPE(2)), HD_BOOL, 1, 0);
}

RUN(test(constants_of_every_dtype_and_shape), test(a_likeness_of_a_view_is_contiguous),
    test(constants_must_fit_the_dtype), test(constants_are_rounded_once_and_the_default_dtype_counts),
    test(arange_counts_as_numpy), test(whole_ranges_are_exact), test(linspace_and_logspace_as_numpy),
    test(eye_and_tri_as_numpy), test(data_is_copied_and_blobs_are_borrowed), test(bad_arguments),
    test(data_has_the_dtype_of_its_pointer))
