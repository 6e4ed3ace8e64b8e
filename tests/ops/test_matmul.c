/* The matrix product: against plain loops in f64 around the edges of its tiles, for every way it can run. */
#include "families.h"

#include <pthread.h>

/* ---- NumPy: all combinations of vectors, matrices and batches ---------------------------------------------------- */
static void shapes_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("matmul"); golden_next(&g);)
        for (int dtype = HD_F32; dtype <= (int)HD_F64; ++dtype) {
            HD_SCOPE;
            hd_shape shape[2];
            const double *a = g.argument;
            for (int i = 0; i < 2; ++i) {
                shape[i] = (hd_shape){.rank = (int)*a++};
                for (int k = 0; k < shape[i].rank; ++k) shape[i].size[k] = (int64_t)*a++;
            }
            assert_tensor(hd_matmul(fixture(shape[0], (hd_dtype)dtype), fixture(shape[1], (hd_dtype)dtype)),
                          (hd_dtype)dtype, &g.shape, g.v);
        }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
/* A matrix of small whole numbers, so that every product is exact in f32, as dtype and in a layout of this kind. */
enum { PLAIN, TRANSPOSED, STEPPED, REVERSED, PADDED, LAYOUTS };
static hd_tensor *matrix(int64_t rows, int64_t columns, hd_dtype dtype, int layout, double **values) {
    double *v = *values = malloc((size_t)(rows * columns) * sizeof *v + 8);
    const bool is_unsigned = dtype >= HD_U8 && dtype <= HD_U64;
    for (int64_t i = 0; i < rows * columns; ++i) v[i] = (double)(random_below(7) - (is_unsigned ? 0 : 3));
    hd_tensor *x = hd_cast(hd_from_data(v, HD_SHAPE(rows, columns), HD_F64), dtype);
    switch (layout) {
    case TRANSPOSED: return hd_t(hd_contiguous(hd_t(x)));
    case STEPPED:
        return hd_slice(hd_slice(hd_repeat_interleave(hd_repeat_interleave(x, 2, 0), 3, 1), 0, 1, HD_END, 2), 1, 0,
                        HD_END, 3);
    case REVERSED: return hd_flip(hd_contiguous(hd_flip(x, HD_AXES())), HD_AXES());
    case PADDED:
        return hd_slice(hd_slice(hd_pad(x, (const hd_padding[]){{1, 2}, {3, 1}}, 2,
                                        hd_dtype_is_float(hd_tensor_dtype(x)) ? NAN : 77),
                                 0, 1, 1 + rows, 1),
                        1, 3, 3 + columns, 1);
    default: return x;
    }
}

static void check_product(int64_t m, int64_t k, int64_t n, hd_dtype dtype_a, int layout_a, hd_dtype dtype_b,
                          int layout_b) {
    static uint64_t made;
    if (!when_slow(made++, 5)) return;
    HD_SCOPE;
    double *a, *b;
    hd_tensor *x = matrix(m, k, dtype_a, layout_a, &a), *y = matrix(k, n, dtype_b, layout_b, &b);
    hd_tensor *z = hd_matmul(x, y);
    double *c = calloc((size_t)(m * n) + 1, sizeof *c);
    for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
    const hd_dtype dtype = hd_dtype_promote(dtype_a, dtype_b);
    hd_tensor *expect = hd_from_data(c, HD_SHAPE(m, n), HD_F64); /* exact: cast it, so that it rounds or wraps once */
    expect = hd_cast(hd_dtype_is_float(dtype) ? expect : hd_cast(expect, HD_I64), dtype);
    char why[256] = "";
    hd_allclose_opts o = {.struct_size = sizeof o,
                          .relative = HD_ZERO,
                          .absolute = HD_ZERO,
                          .explain = why,
                          .explain_capacity = sizeof why};
    if (z == NULL || hd_tensor_dtype(z) != dtype || !hd_allclose(z, expect, &o))
        fail_msg("[%lld,%lld] %s (layout %d) x [%lld,%lld] %s (layout %d): %s%s", (long long)m, (long long)k,
                 hd_dtype_name(dtype_a), layout_a, (long long)k, (long long)n, hd_dtype_name(dtype_b), layout_b, why,
                 hd_error_message());
    free(a);
    free(b);
    free(c);
}

static void small_sizes_in_all_pairs(void **state) {
    (void)state;
    for (int64_t m = 1; m <= 20; m += m < 8 ? 1 : 3)
        for (int64_t k = 0; k <= 20; k += k < 6 ? 1 : 5)
            for (int64_t n = 1; n <= 20; ++n)
                check_product(m, k, n, random_below(2) ? HD_F32 : HD_F64, (int)random_below(LAYOUTS), HD_F32,
                              (int)random_below(LAYOUTS));
}

static void sizes_around_the_edges_of_tiles(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 5, 16, 31, 32, 33, 63, 64, 65, 95, 96, 97, 100, 129, 200};
    enum { N = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < N; ++i) /* every pair of sizes, the third in turn */
        for (int j = 0; j < N; ++j) {
            const int64_t other = sizes[(i * 7 + j * 3) % N];
            const hd_dtype dtype = (i + j) % 2 ? HD_F32 : HD_F64;
            check_product(sizes[i], other, sizes[j], dtype, (i + j / 2) % LAYOUTS, dtype, (i / 2 + j) % LAYOUTS);
            check_product(other, sizes[i], sizes[j], HD_F32, (i + 1) % LAYOUTS, HD_F32, PLAIN);
        }
    check_product(7, 385, 9, HD_F32, PLAIN, HD_F32, TRANSPOSED); /* more than a block of k, of m */
    check_product(193, 385, 40, HD_F32, PLAIN, HD_F32, PLAIN);
    check_product(100, 769, 129, HD_F64, TRANSPOSED, HD_F64, STEPPED);
    check_product(400, 100, 101, HD_F32, REVERSED, HD_F32, PADDED);
}

static void thin_products(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 16, 64, 96, 257, 1000};
    for (int i = 0; i < 7; ++i)
        for (int j = 0; j < 7; ++j)
            for (int layout = 0; layout < LAYOUTS; ++layout) {
                const hd_dtype dtype = (i + j) % 3 ? HD_F32 : HD_F64;
                check_product(1, sizes[i], sizes[j], dtype, PLAIN, dtype, layout);
                check_product(sizes[i], sizes[j], 1, dtype, layout, dtype, PLAIN);
                check_product(2 + layout % 3, sizes[i], sizes[j], dtype, layout, dtype, TRANSPOSED);
            }
}

static void other_dtypes_and_mixed_ones(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16,    HD_I32, HD_I64,
                                      HD_U8,  HD_I8,  HD_U64,  HD_F8E4M3, HD_I16, HD_U32};
    enum { N = sizeof dtypes / sizeof *dtypes };
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j)
            check_product(5 + i, 4 + j, 33, dtypes[i], (int)random_below(LAYOUTS), dtypes[j],
                          (int)random_below(LAYOUTS));
    check_product(70, 60, 65, HD_U8, TRANSPOSED, HD_U8, STEPPED); /* wraps */
    check_product(100, 97, 95, HD_BF16, PLAIN, HD_BF16, TRANSPOSED);
    HD_SCOPE;
    assert_values(hd_matmul(hd_ones(HD_SHAPE(1, 3), HD_BOOL), hd_full(HD_SHAPE(3, 1), HD_I16, 5)), HD_I16, 15);
    hd_tensor *long_sum =
        hd_matmul(hd_ones(HD_SHAPE(1, 1000), HD_BF16), hd_full(HD_SHAPE(1000, 1), HD_BF16, 1.0)); /* summed in f32 */
    assert_values(long_sum, HD_BF16, 1000);
}

/* Operands that are converted where they are packed or read, in every way that can be. */
static void narrow_operands_in_all_ways(void **state) {
    (void)state;
    static const hd_dtype pairs[][2] = {{HD_BF16, HD_BF16}, {HD_F16, HD_F16}, {HD_BF16, HD_F32}, {HD_F32, HD_F16},
                                        {HD_BF16, HD_F16},  {HD_I8, HD_I8},   {HD_U8, HD_I8},    {HD_I16, HD_I16},
                                        {HD_U16, HD_U16},   {HD_I32, HD_I32}, {HD_U16, HD_I8},   {HD_I8, HD_I32},
                                        {HD_U32, HD_U8},    {HD_I64, HD_I64}, {HD_F64, HD_BF16}, {HD_BF16, HD_I8}};
    enum { PAIRS = sizeof pairs / sizeof *pairs };
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 7, 5},     {1, 100, 64},  {1, 65, 70},   {2, 33, 40},
                                       {3, 17, 129},   {4, 300, 65},  {5, 9, 3},     {7, 31, 33},   {12, 16, 32},
                                       {13, 15, 31},   {33, 64, 65},  {40, 1, 40},   {70, 257, 66}, {97, 96, 95},
                                       {100, 129, 97}, {129, 513, 1}, {300, 40, 200}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int i = 0; i < PAIRS; ++i)
        for (int j = 0; j < SIZES; ++j)
            for (int layout = 0; layout < LAYOUTS; ++layout)
                check_product(sizes[j][0], sizes[j][1], sizes[j][2], pairs[i][0], (i + j) % LAYOUTS, pairs[i][1],
                              layout);
}

/* The lower bits of the sums, as a plain loop has them: numbers from the whole range of their dtype, and its ends. */
static void integers_wrap(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_I8, HD_U8, HD_I16, HD_U16, HD_I32, HD_U32, HD_I64, HD_U64};
    static const int64_t sizes[][3] = {{1, 301, 70}, {3, 64, 65}, {30, 20, 31}, {97, 131, 99}, {20, 700, 130}};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; ++d)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
            for (int way = 0; way < 4; ++way) {
                HD_SCOPE;
                const int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
                int64_t *v[3] = {calloc((size_t)(m * k), 8), calloc((size_t)(k * n), 8), calloc((size_t)(m * n), 8)};
                hd_tensor *t[2];
                for (int o = 0; o < 2; ++o) {
                    const int64_t count = o == 0 ? m * k : k * n;
                    for (int64_t i = 0; i < count; ++i) /* 1 << 63 and the like are the least there is */
                        v[o][i] = way == 3 ? (int64_t)(1ULL << (8 * hd_dtype_size(dtypes[d]) - 1))
                                           : (int64_t)(random_below(INT32_MAX) * random_below(INT32_MAX));
                    t[o] = hd_cast(hd_from_data(v[o], o == 0 ? HD_SHAPE(m, k) : HD_SHAPE(k, n), HD_I64), dtypes[d]);
                    const int64_t *kept = hd_data(hd_cast(t[o], HD_I64), HD_I64);
                    memcpy(v[o], kept, (size_t)count * 8);
                    if (way & (1 << o) && way < 3) t[o] = hd_t(hd_contiguous(hd_t(t[o])));
                }
                for (int64_t i = 0; i < m; ++i)
                    for (int64_t p = 0; p < k; ++p)
                        for (int64_t j = 0; j < n; ++j)
                            v[2][i * n + j] = (int64_t)((uint64_t)v[2][i * n + j] +
                                                        (uint64_t)v[0][i * k + p] * (uint64_t)v[1][p * n + j]);
                hd_tensor *expect = hd_from_data(v[2], HD_SHAPE(m, n), HD_I64);
                assert_same(hd_matmul(t[0], t[1]), hd_cast(expect, dtypes[d]));
                if (hd_dtype_size(dtypes[d]) < 4) /* i8 x i8 -> i32 */
                    assert_same(hd_matmul(hd_cast(t[0], HD_I32), hd_cast(t[1], HD_I32)), hd_cast(expect, HD_I32));
                for (int o = 0; o < 3; ++o) free(v[o]);
            }
}

static void batches_broadcast(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{2, 3, 4},    {16, 16, 16},  {1, 7, 5}, {5, 7, 1},
                                       {60, 61, 62}, {97, 100, 98}, {3, 0, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        for (int way = 0; way < 16; ++way) {
            HD_SCOPE;
            static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F16, HD_I8};
            const int kind = way % 4;
            const hd_dtype dtype = dtypes[way / 4];
            const int64_t m = sizes[s][0], k = sizes[s][1], n = sizes[s][2];
            hd_seed(s);
            hd_tensor *a = hd_cast(hd_randint(kind & 1 ? HD_SHAPE(3, 1, m, k) : HD_SHAPE(m, k), HD_I32, -3, 4), dtype);
            hd_tensor *b =
                hd_cast(hd_randint(kind & 2 ? HD_SHAPE(2, k, n) : HD_SHAPE(3, 2, n, k), HD_I32, -3, 4), dtype);
            if (!(kind & 2)) b = hd_t(b);
            hd_tensor *c = hd_matmul(a, b);
            const int64_t batch = hd_tensor_count(c) / (m * n);
            assert_ok();
            for (int64_t i = 0; i < batch; ++i) { /* each of its matrices is the product of two */
                hd_tensor *x = kind & 1 ? hd_select(hd_select(a, 0, i / 2), 0, 0) : a;
                hd_tensor *y = kind & 2 ? hd_select(b, 0, i % 2) : hd_select(hd_select(b, 0, i / 2), 0, i % 2);
                assert_same(hd_select(hd_reshape(c, HD_SHAPE(batch, m, n)), 0, i), hd_matmul(x, y));
            }
        }
}

static void nothing_times_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    for (int dtype = HD_U8; dtype < HD_DTYPE_COUNT; ++dtype) {
        HD_SCOPE;
        const hd_dtype d = (hd_dtype)dtype;
        assert_values(hd_matmul(hd_ones(HD_SHAPE(2, 0), d), hd_ones(HD_SHAPE(0, 3), d)), d, 0, 0, 0, 0, 0,
                      0); /* an empty sum */
        assert_values(hd_matmul(hd_ones(HD_SHAPE(0), d), hd_ones(HD_SHAPE(0), d)), d, 0);
        assert_true(hd_shape_equal(hd_tensor_shape(hd_matmul(hd_ones(HD_SHAPE(0, 4), d), hd_ones(HD_SHAPE(4, 3), d))),
                                   HD_SHAPE(0, 3)));
        assert_true(hd_shape_equal(hd_tensor_shape(hd_matmul(hd_ones(HD_SHAPE(0, 2, 4), d), hd_ones(HD_SHAPE(4), d))),
                                   HD_SHAPE(0, 2)));
    }
}

static void special_values_go_through(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};
    for (int64_t n = 1; n <= 130; n += 43)
        for (int d = 0; d < 4; ++d)
            for (int turned = 0; turned < 2; ++turned) {
                HD_SCOPE;
                hd_tensor *a = hd_zeros(HD_SHAPE(n, n), dtypes[d]), *b = hd_ones(HD_SHAPE(n, n), dtypes[d]);
                hd_fill(hd_select(hd_select(b, turned, n - 1), 0, 0), INFINITY);
                if (turned) b = hd_t(b);
                hd_tensor *c = hd_matmul(a, b); /* 0 * inf is NaN, in its column only */
                assert_int_equal(hd_item_i64(hd_count_nonzero(hd_isnan(c), HD_AXES(), NULL)), n);
                assert_true(hd_item(hd_all(hd_isnan(hd_select(c, 1, 0)), HD_AXES(), NULL)) == 1);
                hd_tensor *inf = hd_matmul(hd_ones(HD_SHAPE(n, n), dtypes[d]), b);
                assert_true(hd_item(hd_all(hd_isinf(hd_select(inf, 1, 0)), HD_AXES(), NULL)) == 1);
                hd_fill(hd_select(hd_select(a, 0, n - 1), 0, 0), NAN); /* a NaN fills its row */
                c = hd_matmul(a, hd_ones(HD_SHAPE(n, n), dtypes[d]));
                assert_int_equal(hd_item_i64(hd_count_nonzero(hd_isnan(c), HD_AXES(), NULL)), n);
                assert_true(hd_item(hd_all(hd_isnan(hd_select(c, 0, n - 1)), HD_AXES(), NULL)) == 1);
            }
}

/* Every half there is times one, by every way: it is itself. */
static void every_half_is_read_as_it_is(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16};
    for (int d = 0; d < 2; ++d) {
        HD_SCOPE;
        uint16_t *bits = malloc(2 << 16);
        for (int i = 0; i < 1 << 16; ++i) bits[i] = (uint16_t)i;
        hd_tensor *all = hd_from_data(bits, HD_SHAPE(1 << 16), dtypes[d]);
        free(bits);
        hd_tensor *one = hd_ones(HD_SHAPE(1, 1), dtypes[d]), *row = hd_reshape(all, HD_SHAPE(1, 1 << 16)),
                  *column = hd_reshape(all, HD_SHAPE(1 << 16, 1));
        hd_tensor *products[] = {hd_matmul(one, row), hd_matmul(column, one),
                                 hd_matmul(hd_ones(HD_SHAPE(30, 1), dtypes[d]), row),
                                 hd_matmul(column, hd_ones(HD_SHAPE(1, 40), dtypes[d])),
                                 hd_matmul(hd_reshape(all, HD_SHAPE(1 << 16, 1, 1)), one)};
        for (int i = 0; i < 5; ++i) {
            hd_tensor *got = i == 2   ? hd_select(products[i], 0, 17)
                             : i == 3 ? hd_select(products[i], 1, 35)
                                      : hd_reshape(products[i], HD_SHAPE(1 << 16));
            char why[256] = "";
            hd_allclose_opts o = {.struct_size = sizeof o,
                                  .relative = HD_ZERO,
                                  .absolute = HD_ZERO,
                                  .explain = why,
                                  .explain_capacity = sizeof why};
            if (!hd_allclose(got, all, &o)) fail_msg("%s, way %d: %s", hd_dtype_name(dtypes[d]), i, why);
        }
    }
}

static void real_numbers_within_rounding(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *a = hd_randn(HD_SHAPE(65, 700), HD_F64), *b = hd_randn(HD_SHAPE(700, 33), HD_F64);
    hd_tensor *exact = hd_sum(hd_mul(hd_unsqueeze(a, 2), b), HD_AXES(1), NULL);
    assert_close(hd_matmul(a, b), exact, 1e-12, 1e-12);
    assert_close(hd_matmul(hd_cast(a, HD_F32), hd_cast(b, HD_F32)), exact, 1e-5,
                 2e-4); /* sqrt(700) * 700 half units at most, in practice 1e-5 */
    assert_close(hd_dot(hd_select(a, 0, 3), hd_select(b, 1, 4)), hd_select(hd_select(exact, 0, 3), 0, 4), 1e-12, 1e-12);
    assert_same(hd_outer(hd_select(a, 1, 0), hd_select(b, 0, 0)), hd_mul(hd_narrow(a, 1, 0, 1), hd_narrow(b, 0, 0, 1)));
}

static void halves_are_summed_in_f32_and_rounded_once(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 3, 65};
    for (int half = 0; half < 2; ++half)
        for (int m = 0; m < 3; ++m)
            for (int turned = 0; turned < 2; ++turned) {
                HD_SCOPE;
                hd_seed(6);
                const hd_dtype dtype = half ? HD_F16 : HD_BF16;
                const double unit = half ? 0x1p-11 : 0x1p-8; /* of one rounding */
                hd_tensor *a = hd_cast(hd_randn(HD_SHAPE(rows[m], 700), HD_F32), dtype),
                          *b = hd_cast(hd_randn(HD_SHAPE(700, 75), HD_F32), dtype);
                hd_tensor *bias = hd_cast(hd_randn(HD_SHAPE(75), HD_F32), dtype);
                if (turned) b = hd_t(hd_contiguous(hd_t(b)));
                hd_tensor *wide = hd_cast(a, HD_F64);
                hd_tensor *exact = hd_sum(hd_mul(hd_unsqueeze(wide, 2), hd_cast(b, HD_F64)), HD_AXES(1), NULL);
                assert_close(hd_matmul(a, b), exact, unit * 1.01, 2e-4); /* and the f32 sum, as below */
                assert_close(hd_affine(a, hd_t(b), bias), hd_add(exact, hd_cast(bias, HD_F64)), unit * 1.01, 2e-4);
                assert_close(hd_matmul(hd_cast(a, HD_F32), b), exact, 1e-5, 2e-4); /* f32 x half is f32 */
                assert_close(hd_matmul(a, hd_cast(b, HD_F32)), exact, 1e-5, 2e-4);
            }
}

/* An operand that is converted is never in memory as a whole: not even as much as it has itself. */
static void operands_are_not_copied(void **state) {
    (void)state;
    not_on_a_device("it counts memory of the host");
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16, HD_I8, HD_I16};
    static const int64_t rows[] = {1, 2, 4, 60};
    for (int d = 0; d < 4; ++d)
        for (int turned = 0; turned < 2; ++turned)
            for (int m = 0; m < 4; ++m) {
                if (!when_slow((uint64_t)(d + turned + m), 4)) continue;
                HD_SCOPE;
                hd_tensor *a = hd_ones(HD_SHAPE(rows[m], 2048), dtypes[d]),
                          *b = hd_ones(HD_SHAPE(4096, 2048), dtypes[d]);
                b = turned ? hd_t(b) : hd_reshape(b, HD_SHAPE(2048, 4096));
                hd_memory_reset_peak();
                const int64_t before = hd_memory().live_bytes;
                hd_matmul(a, b);
                assert_ok();
                assert_true(hd_memory().peak_bytes - before < 4096 * 2048 * (int64_t)hd_dtype_size(dtypes[d]));
            }
}

static void the_result_does_not_depend_on_threads(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{300, 301, 302}, {1, 900, 2000}, {3, 800, 640},  {2000, 700, 1},
                                       {30, 2000, 40},  {1000, 17, 33}, {2, 3000, 100}, {1, 512, 1152}};
    const int before = hd_num_threads();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
        for (int way = 0; way < 14; ++way) { /* the last two: f32 by a half */
            if (!when_slow(s + (uint64_t)way, 3)) continue;
            HD_SCOPE;
            static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};
            const hd_dtype dtype = way < 12 ? dtypes[way % 4] : HD_F32;
            hd_seed(s);
            hd_tensor *a = hd_cast(hd_randn(HD_SHAPE(sizes[s][0], sizes[s][1]), HD_F64), dtype),
                      *b = hd_cast(hd_randn(HD_SHAPE(sizes[s][1], sizes[s][2]), HD_F64),
                                   way < 12 ? dtype : dtypes[way - 10]);
            if (way / 4 == 1) b = hd_t(hd_contiguous(hd_t(b)));
            if (way / 4 == 2) a = hd_t(hd_contiguous(hd_t(a)));
            hd_tensor *one = NULL;
            for (int threads = 1; threads <= 3; ++threads) {
                hd_set_num_threads(threads);
                hd_tensor *c = hd_matmul(a, b);
                if (threads == 1)
                    one = c;
                else
                    assert_memory_equal(hd_data(c, dtype), hd_data(one, dtype),
                                        (size_t)hd_tensor_count(c) * hd_dtype_size(dtype));
            }
        }
    hd_set_num_threads(before);
}

static void *precision_of_another_thread(void *out) {
    *(hd_matmul_precision *)out = hd_current_matmul_precision();
    return NULL;
}

/* The CPU has no TF32: its products are exact whatever is set. */
static void precision_is_set_for_a_thread(void **state) {
    (void)state;
    not_on_a_device("some have TF32");
    HD_SCOPE;
    hd_tensor *a = hd_add_scalar(hd_mul_scalar(hd_range(0, 1, 64, HD_F32), 1.0 / 3), 1);
    hd_tensor *m = hd_reshape(a, HD_SHAPE(8, 8)), *images = hd_reshape(a, HD_SHAPE(1, 8, 8));
    hd_tensor *kernel = hd_reshape(a, HD_SHAPE(8, 8, 1)), *exact[3], *set[3];
    for (int tf32 = 0; tf32 < 2; ++tf32) {
        hd_set_matmul_precision(tf32 ? HD_MATMUL_TF32 : HD_MATMUL_EXACT);
        hd_tensor **out = tf32 ? set : exact;
        out[0] = hd_matmul(m, m);
        out[1] = hd_affine(m, m, NULL);
        out[2] = hd_conv(images, kernel, NULL, NULL);
    }
    for (int i = 0; i < 3; ++i)
        assert_memory_equal(hd_data(exact[i], HD_F32), hd_data(set[i], HD_F32), 64 * sizeof(float));
    hd_matmul_precision other = HD_MATMUL_TF32;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, precision_of_another_thread, &other), 0);
    pthread_join(thread, NULL);
    assert_int_equal(other, HD_MATMUL_EXACT);
    assert_int_equal(hd_current_matmul_precision(), HD_MATMUL_TF32);
    hd_set_matmul_precision((hd_matmul_precision)2);
    assert_error(HD_ERROR_VALUE, "hd_set_matmul_precision: a precision of 2; it is HD_MATMUL_EXACT or HD_MATMUL_TF32");
    assert_int_equal(hd_current_matmul_precision(), HD_MATMUL_TF32);
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    assert_int_equal(hd_current_matmul_precision(), HD_MATMUL_EXACT);
}

static void errors_show_both_shapes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *b = hd_ones(HD_SHAPE(4, 5), HD_F32);
    assert_null(hd_matmul(a, b));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: [2,3] x [4,5]: inner sizes 3 and 4 differ");
    assert_null(hd_matmul(a, hd_ones(HD_SHAPE(2), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: [2,3] x [2]: inner sizes 3 and 2 differ");
    assert_null(hd_matmul(hd_ones(HD_SHAPE(2), HD_F32), b));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: [2] x [4,5]: inner sizes 2 and 4 differ");
    assert_null(hd_matmul(a, hd_scalar(1, HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: [2,3] x []: a scalar has no matrix product; use hd_mul");
    assert_null(hd_matmul(hd_ones(HD_SHAPE(2, 2, 3), HD_F32), hd_ones(HD_SHAPE(3, 3, 1), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: [2] and [3] do not broadcast");
    assert_null(hd_matmul(hd_ones(HD_SHAPE(2, 3), HD_BOOL), hd_ones(HD_SHAPE(3, 1), HD_BOOL)));
    assert_error(HD_ERROR_DTYPE, "hd_matmul: does not take bool");
    assert_null(hd_dot(a, b));
    assert_error(HD_ERROR_SHAPE, "hd_dot: [2,3] and [4,5]; both must be vectors");
    assert_null(hd_dot(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_dot: [2] x [3]: inner sizes 2 and 3 differ");
    assert_null(hd_outer(a, b));
    assert_error(HD_ERROR_SHAPE, "hd_outer: [2,3] and [4,5]; both must be vectors");
    assert_null(hd_matmul(NULL, b));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_matmul: `a` is NULL");
    hd_tensor *one = hd_scalar(1, HD_F32);
    assert_null(hd_matmul(hd_broadcast_to(one, HD_SHAPE(1LL << 40, 1)), hd_broadcast_to(one, HD_SHAPE(1, 1LL << 40))));
    assert_error(HD_ERROR_OVERFLOW, "hd_matmul: shape [1099511627776,1099511627776]");
}

RUN(test(precision_is_set_for_a_thread), test(shapes_as_numpy), test(small_sizes_in_all_pairs),
    test(sizes_around_the_edges_of_tiles), test(thin_products), test(other_dtypes_and_mixed_ones),
    test(narrow_operands_in_all_ways), test(integers_wrap), test(batches_broadcast), test(nothing_times_nothing),
    test(special_values_go_through), test(every_half_is_read_as_it_is), test(real_numbers_within_rounding),
    test(halves_are_summed_in_f32_and_rounded_once), test(operands_are_not_copied),
    test(the_result_does_not_depend_on_threads), test(errors_show_both_shapes))
