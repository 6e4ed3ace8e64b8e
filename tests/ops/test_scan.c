/* Scans: against NumPy's results, against plain loops over random layouts, long and short, and against themselves on
 * other numbers of threads. */
#include "differences.h"
#include "families.h"

typedef enum kind { SUM, PROD, LOG, MAX, MIN, KINDS } kind;
static const char *const names[KINDS] = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"};

/* The values; *indices, of MAX and MIN. */
static hd_tensor *run(kind k, hd_tensor *x, int axis, bool exclusive, bool reverse, hd_tensor **indices) {
    hd_scan_opts o = HD_DEFAULTS(hd_scan_opts);
    o.exclusive = exclusive;
    o.reverse = reverse;
    if (k == SUM) return hd_cumsum(x, axis, &o);
    if (k == PROD) return hd_cumprod(x, axis, &o);
    if (k == LOG) return hd_logcumsumexp(x, axis, &o);
    const hd_pair p = k == MAX ? hd_cummax(x, axis, &o) : hd_cummin(x, axis, &o);
    *indices = p.indices;
    return p.values;
}

static hd_dtype result_of(kind k, hd_dtype dtype) {
    if (k >= LOG || hd_dtype_is_float(dtype)) return dtype;
    return dtype >= HD_U8 && dtype <= HD_U64 ? HD_U64 : HD_I64;
}

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
static void as_numpy(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; ++k)
        for (golden g = golden_open(names[k]); golden_next(&g);) {
            HD_SCOPE;
            for (int narrow = 0; narrow < 2; ++narrow) {
                const hd_dtype dtype = narrow ? HD_F32 : HD_F64;
                hd_tensor *at, *x = fixture(HD_SHAPE(4, 3, 5), dtype);
                hd_tensor *y = run((kind)k, x, (int)g.argument[0], g.argument[1] != 0, g.argument[2] != 0, &at);
                assert_tensor_close(y, dtype, &g.shape, g.v, narrow ? 3e-6 : 1e-13);
            }
        }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
/* What a row of n elements becomes: element i is at i * step, and so are values and places. */
static void scan_row(kind k, const double *x, int64_t n, int64_t step, bool exclusive, bool reverse, double *values,
                     double *places) {
    double best = k == PROD ? 1 : k == LOG ? -INFINITY : 0, sum = 0;
    int64_t where = -1;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (reverse ? n - 1 - i : i) * step;
        const double v = x[at], before = k == LOG ? log(sum) : best;
        if (k == SUM) best += v;
        if (k == PROD) best *= v;
        if (k == LOG) sum += exp(v);
        if (k >= MAX && (where < 0 || v != v || (k == MAX ? v >= best : v <= best))) {
            best = v;
            where = at / step;
        }
        values[at] = exclusive ? before : k == LOG ? log(sum) : best;
        places[at] = (double)where;
    }
}

static void scan_all(kind k, const double *x, const hd_shape *shape, int axis, bool exclusive, bool reverse,
                     double *values, double *places) {
    const int64_t n = shape->rank == 0 ? 1 : shape->size[axis];
    int64_t inner = 1;
    for (int i = axis + 1; i < shape->rank; ++i) inner *= shape->size[i];
    for (int64_t row = 0; n > 0 && row < hd_shape_count(*shape) / n; ++row) {
        const int64_t first = row / inner * n * inner + row % inner;
        scan_row(k, x + first, n, inner, exclusive, reverse, values + first, places + first);
    }
}

/* One step of a dtype, of which logarithms may miss some. */
static double step_of(hd_dtype dtype) {
    static const double steps[HD_DTYPE_COUNT] = {[HD_F64] = 1e-14,   [HD_F32] = 0x1p-22,   [HD_BF16] = 0x1p-7,
                                                 [HD_F16] = 0x1p-10, [HD_F8E4M3] = 0x1p-3, [HD_F8E5M2] = 0x1p-2};
    return steps[dtype];
}

/* x, whose values are v, is scanned as the loops do it, and rounded once to the result's dtype. */
static void check(kind k, hd_tensor *x, const double *v, int axis, bool exclusive, bool reverse) {
    static double want[1 << 17], places[1 << 17];
    const hd_dtype dtype = result_of(k, hd_tensor_dtype(x));
    const hd_shape shape = hd_tensor_shape(x);
    assert_true(hd_shape_count(shape) <= 1 << 17);
    scan_all(k, v, &shape, axis, exclusive, reverse, want, places);
    hd_tensor *at = NULL, *y = run(k, x, axis, exclusive, reverse, &at);
    hd_tensor *rounded = hd_cast(hd_from_data(want, shape, HD_F64), dtype);
    assert_true(hd_to_array(rounded, want, HD_F64, (size_t)hd_shape_count(shape)));
    if (k == LOG) /* which are near 0 where large numbers cancel */
        assert_close(y, rounded, step_of(dtype), 1e-13);
    else
        assert_tensor(y, dtype, &shape, want);
    if (k >= MAX) assert_tensor(at, HD_I64, &shape, places);
}

/* Sums and products of these numbers are exact before they are rounded. */
static void any_dtype_and_layout(void **state) {
    (void)state;
    static model m;
    for (int round = 0; round < 1500; ++round) {
        if (!when_compiled((uint64_t)round, 19)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + round % (HD_DTYPE_COUNT - 1));
        const int rank = (int)random_below(5);
        random_model(&m, random_shape(rank, 6), dtype);
        const int axis = rank == 0 ? 0 : (int)random_below(rank);
        for (int k = 0; k < KINDS; ++k) {
            const bool exclusive = k < MAX && random_below(3) == 0, reverse = random_below(2);
            if (k == LOG && !hd_dtype_is_float(dtype)) continue;
            check((kind)k, m.t, m.v, axis, exclusive, reverse);
        }
    }
}

/* Every way through: rows and columns, where memory runs along and where not, more than a tile, more than a strip. */
static void long_and_short_rows_and_columns(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 3, 7, 8, 9, 17, 255, 256, 257, 1000}, widths[] = {1, 3, 8, 70, 600};
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I32, HD_U64, HD_BOOL};
    static double v[1 << 17];
    for (int d = 0; d < 6; ++d)
        for (int l = 0; l < 11; ++l)
            for (int w = 0; w < 5; ++w) {
                const int64_t n = lengths[l], width = widths[w], count = n * width;
                if (count > 1 << 17 || !when_compiled((uint64_t)(d * 55 + l * 5 + w), 7)) continue;
                for (int way = 0; way < 4; ++way) {
                    HD_SCOPE;
                    const int axis = way & 1;
                    const hd_shape shape = axis == 0 ? HD_SHAPE(n, width) : HD_SHAPE(width, n);
                    for (int64_t i = 0; i < count; ++i) v[i] = random_value(dtypes[d]);
                    hd_tensor *x = hd_cast(hd_from_data(v, shape, HD_F64), dtypes[d]);
                    if (way & 2) x = hd_t(hd_contiguous(hd_t(x)));
                    const kind k = (kind)random_below(KINDS);
                    if (k == LOG && !hd_dtype_is_float(dtypes[d])) continue;
                    const bool exclusive = k < MAX && random_below(2), reverse = random_below(2);
                    check(SUM, x, v, axis, exclusive, reverse);
                    if (k != PROD || n < 9) check(k, x, v, axis, exclusive, reverse);
                }
            }
}

/* ---- numbers that are none, or far apart ------------------------------------------------------------------------- */
static void nan_and_infinity_stay(void **state) {
    (void)state;
    static const double rows[][6] = {{1, NAN, 5, NAN, 3, 8},
                                     {NAN, 1, 2, 3, 4, 5},
                                     {1, INFINITY, 2, -INFINITY, 1, 1},
                                     {-INFINITY, -INFINITY, 1, 2, INFINITY, 3},
                                     {0.0, -0.0, 0.0, -0.0, -1, -1},
                                     {-INFINITY, -INFINITY, -INFINITY, 0, NAN, 0}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r)
        for (int d = HD_F8E4M3; d <= (int)HD_F64; ++d)
            for (int way = 0; way < 8; ++way) {
                HD_SCOPE;
                if (d == HD_F8E4M3) continue; /* has no infinity */
                double wide[6 * 9];
                const bool is_wide = way & 4;
                for (int i = 0; i < 54; ++i) wide[i] = rows[r][i / 9];
                hd_tensor *x =
                    is_wide ? hd_from_data(wide, HD_SHAPE(6, 9), HD_F64) : hd_from_data(rows[r], HD_SHAPE(6), HD_F64);
                for (int k = 0; k < KINDS; ++k)
                    check((kind)k, hd_cast(x, (hd_dtype)d), is_wide ? wide : rows[r], 0, k < MAX && (way & 1), way & 2);
            }
}

static void logarithms_do_not_overflow(void **state) {
    (void)state;
    HD_SCOPE;
    assert_close(hd_logcumsumexp(HD_TENSOR_F32(HD_SHAPE(4), 1000, 1000, -1000, 2000), 0, NULL),
                 HD_TENSOR_F32(HD_SHAPE(4), 1000, 1000.6931472f, 1000.6931472f, 2000), 1e-7, 0);
    assert_close(hd_logcumsumexp(HD_TENSOR_F32(HD_SHAPE(3), -1000, -1001, -1e30f), 0, NULL),
                 HD_TENSOR_F32(HD_SHAPE(3), -1000, -999.68673831f, -999.68673831f), 1e-7, 0);
}

static void long_sums_are_exact(void **state) {
    (void)state;
    enum { N = 1 << 20 };
    HD_SCOPE;
    const float tenth = 0.1f;
    hd_tensor *row = hd_cumsum(hd_full(HD_SHAPE(N), HD_F32, tenth), 0, NULL);
    hd_tensor *columns = hd_cumsum(hd_full(HD_SHAPE(N / 16, 16), HD_F32, tenth), 0, NULL);
    const float *y = hd_data(row, HD_F32), *z = hd_data(columns, HD_F32);
    for (int64_t i = 0; i < N; ++i) {
        const double want = (double)tenth * (double)(i + 1), below = (double)tenth * (double)(i / 16 + 1);
        if (fabs(y[i] - want) > 0x1p-23 * want) fail_msg("element %d is %.9g, not %.9g", (int)i, (double)y[i], want);
        if (fabs(z[i] - below) > 0x1p-23 * below) fail_msg("element %d is %.9g, not %.9g", (int)i, (double)z[i], below);
    }
}

/* Small integers do not overflow, large ones wrap. */
static void integers_are_added_in_64_bits(void **state) {
    (void)state;
    HD_SCOPE;
    assert_identical(hd_cumsum(hd_full(HD_SHAPE(3), HD_U8, 200), 0, NULL),
                     hd_cast(HD_TENSOR_I64(HD_SHAPE(3), 200, 400, 600), HD_U64));
    assert_identical(hd_cumprod(hd_full(HD_SHAPE(3), HD_I8, -100), 0, NULL),
                     HD_TENSOR_I64(HD_SHAPE(3), -100, 10000, -1000000));
    assert_identical(hd_cumsum(hd_ones(HD_SHAPE(3), HD_BOOL), 0, NULL), HD_TENSOR_I64(HD_SHAPE(3), 1, 2, 3));
    assert_identical(hd_cumsum(HD_TENSOR_I64(HD_SHAPE(2), INT64_MAX, 1), 0, NULL),
                     HD_TENSOR_I64(HD_SHAPE(2), INT64_MAX, INT64_MIN));
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */
static void nothing_and_scalars(void **state) {
    (void)state;
    for (int k = 0; k < KINDS; ++k) {
        HD_SCOPE;
        hd_tensor *at = NULL, *empty = run((kind)k, hd_zeros(HD_SHAPE(0, 3), HD_F32), 0, false, true, &at);
        assert_int_equal(hd_tensor_count(empty), 0);
        empty = run((kind)k, hd_zeros(HD_SHAPE(3, 0), HD_F32), 0, k < MAX, false, &at);
        assert_int_equal(hd_tensor_count(empty), 0);
        assert_values(run((kind)k, hd_full(HD_SHAPE(), HD_F32, 3), -1, false, false, &at), HD_F32, 3);
        if (k >= MAX) assert_int_equal(hd_item(at), 0);
        if (k < MAX) {
            const double first = k == SUM ? 0 : k == PROD ? 1 : -INFINITY;
            assert_values(run((kind)k, hd_full(HD_SHAPE(), HD_F32, 3), 0, true, false, &at), HD_F32, first);
        }
    }
}

static void errors_name_the_op(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(2, 3), HD_F32), *at = NULL;
    for (int k = 0; k < KINDS; ++k) {
        assert_null(run((kind)k, x, 2, false, false, &at));
        assert_error(HD_ERROR_AXIS, names[k]);
        assert_null(run((kind)k, hd_zeros(HD_SHAPE(), HD_F32), 1, false, false, &at));
        assert_error(HD_ERROR_AXIS, names[k]);
        assert_null(run((kind)k, NULL, 0, false, false, &at));
        assert_error(HD_ERROR_NULL_ARGUMENT, names[k]);
    }
    assert_null(run(MAX, x, 0, true, false, &at));
    assert_error(HD_ERROR_VALUE, "hd_cummax");
    assert_null(run(MIN, x, 0, true, true, &at));
    assert_error(HD_ERROR_VALUE, "exclusive: before the first element there is none that is the smallest");
    assert_null(at);
    assert_null(hd_logcumsumexp(hd_zeros(HD_SHAPE(2), HD_I32), 0, NULL));
    assert_error(HD_ERROR_DTYPE, "hd_logcumsumexp");
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    const int threads = hd_num_threads();
    for (int k = 0; k < KINDS; ++k)
        for (int axis = 0; axis < 2; ++axis) {
            HD_SCOPE;
            hd_seed(7);
            hd_tensor *x = hd_randn(HD_SHAPE(300, 500), HD_F32), *y[2], *at[2] = {NULL, NULL};
            for (int i = 0; i < 2; ++i) {
                hd_set_num_threads(i == 0 ? 1 : 4);
                y[i] = run((kind)k, x, axis, false, k % 2 == 0, &at[i]);
            }
            hd_set_num_threads(threads);
            assert_identical(y[0], y[1]);
            if (k >= MAX) assert_identical(at[0], at[1]);
        }
}

/* Indices beside values have no history; equals give their gradient to the last one met. */
static void gradients_go_where_values_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(HD_SHAPE(5), 3, 1, 3, 2, 4));
    const hd_pair p = hd_cummax(x, 0, NULL);
    assert_true(hd_tensor_requires_grad(p.values));
    assert_false(hd_tensor_requires_grad(p.indices));
    hd_backward(hd_sum(hd_mul(p.values, HD_TENSOR_F32(HD_SHAPE(5), 1, 2, 4, 8, 16)), HD_AXES(), NULL));
    assert_values(hd_grad(x), HD_F32, 3, 0, 12, 0, 16);
    hd_clear_tape();
}

/* Eight factors together may be beyond f64: rows are products in order, as columns are. */
static void products_of_rows_are_those_of_columns(void **state) {
    (void)state;
    HD_SCOPE;
    float values[24];
    for (int i = 0; i < 24; ++i) values[i] = i < 8 ? 0x1p62f : i < 16 ? 0x1p-149f : 0x1p100f;
    hd_tensor *row = hd_from_data(values, HD_SHAPE(24), HD_F32),
              *columns = hd_broadcast_to(hd_unsqueeze(row, 1), HD_SHAPE(24, 16));
    hd_tensor *got = hd_cumprod(row, 0, NULL), *want = hd_select(hd_cumprod(hd_copy(columns), 0, NULL), 1, 3);
    assert_true(hd_allclose(got, want, NULL));
    assert_true(hd_item(hd_select(got, 0, -1)) == 0x1p104);
}

RUN(test(as_numpy), test(any_dtype_and_layout), test(long_and_short_rows_and_columns), test(nan_and_infinity_stay),
    test(logarithms_do_not_overflow), test(long_sums_are_exact), test(integers_are_added_in_64_bits),
    test(nothing_and_scalars), test(errors_name_the_op), test(threads_do_not_change_the_result),
    test(gradients_go_where_values_were), test(products_of_rows_are_those_of_columns))
