/* Sorting and its kin against insertion of f64, which shares no code with it: NaN is the largest, of equals the first
 * comes first, the bits of an element stay as they are; and what is made of the order, against NumPy. */
#include "core/dtype.h"
#include "differences.h"
#include "families.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 }; /* elements of a tensor */

/* a comes before b. */
static bool before(double a, double b, bool descending) {
    if (a != a || b != b) return descending ? a != a && b == b : a == a && b != b;
    return descending ? a > b : a < b;
}

/* The order of n numbers, `step` apart. */
static void order_of(const double *x, int64_t n, int64_t step, bool descending, int64_t *order) {
    for (int64_t i = 0; i < n; ++i) {
        int64_t at = i;
        for (; at > 0 && before(x[i * step], x[order[at - 1] * step], descending); --at) order[at] = order[at - 1];
        order[at] = i;
    }
}

/* values and indices are the first k of each run of x along an axis. */
static void check(hd_tensor *x, int axis, int64_t k, bool descending, hd_pair got, const char *what) {
    static double in[MOST], values[MOST];
    static int64_t indices[MOST], order[MOST];
    assert_ok();
    const int64_t n = hd_tensor_size(x, axis), count = hd_tensor_count(x);
    assert_true(count <= MOST);
    assert_int_equal(hd_tensor_dtype(got.values), hd_tensor_dtype(x));
    assert_int_equal(hd_tensor_dtype(got.indices), HD_I64);
    assert_int_equal(hd_tensor_size(got.values, axis), k);
    assert_true(hd_shape_equal(hd_tensor_shape(got.values), hd_tensor_shape(got.indices)));
    hd_to_array(x, in, HD_F64, MOST);
    hd_to_array(got.values, values, HD_F64, MOST);
    hd_to_array(got.indices, indices, HD_I64, MOST);
    int64_t inner = 1;
    for (int i = axis + 1; i < hd_tensor_rank(x); ++i) inner *= hd_tensor_size(x, i);
    for (int64_t run = 0; n > 0 && run < count / n; ++run) {
        const double *from = in + run / inner * n * inner + run % inner;
        order_of(from, n, inner, descending, order);
        for (int64_t i = 0; i < k; ++i) {
            const int64_t at = (run / inner * k + i) * inner + run % inner;
            const double want = from[order[i] * inner];
            if (indices[at] != order[i] || memcmp(&values[at], &want, 8) != 0)
                fail_msg("%s: place %d is %g from %d, not %g from %d", what, (int)i, values[at], (int)indices[at], want,
                         (int)order[i]);
        }
    }
}

static hd_tensor *numbers(hd_shape shape, hd_dtype dtype, uint64_t seed) {
    static const double special[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-40, -1e-40, 0x1p-149};
    static double data[MOST];
    const int64_t count = hd_shape_count(shape);
    for (int64_t i = 0; i < count; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const uint64_t r = seed >> 40;
        data[i] = hd_dtype_is_float(dtype) && r % 5 == 0 ? special[r / 5 % 9] : (double)(int64_t)(r / 5 % 61) - 30;
        if (!hd_dtype_is_float(dtype) && !hd_dtype_is_signed(dtype)) data[i] += 30; /* many are equal */
    }
    return hd_cast(hd_from_data(data, shape, HD_F64), dtype);
}

static void every_dtype_axis_and_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 47, 48, 49, 50, 200, 700};
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l)
            for (int way = 0; way < 4; ++way) {
                HD_SCOPE;
                const int axis = way & 1;
                const bool descending = way & 2;
                const int64_t n = lengths[l];
                hd_tensor *x = numbers(axis == 0 ? HD_SHAPE(n, 3) : HD_SHAPE(3, n), (hd_dtype)d, l * 100 + (uint64_t)d);
                char what[64];
                snprintf(what, sizeof what, "%s, %d, axis %d%s", hd_dtype_name((hd_dtype)d), (int)n, axis,
                         descending ? ", descending" : "");
                check(x, axis, n, descending, hd_sort(x, axis, descending), what);
                for (int64_t k = 0; k <= n; k += k < 2 ? 1 : k < 31 ? 29 : 170)
                    check(x, axis, k, descending, hd_topk(x, k, axis, descending), what);
            }
}

/* Rows that make it hard to know early which elements will stay. */
static void few_of_long_rows(void **state) {
    (void)state;
    enum { ROWS = 8 };
    static const int64_t lengths[] = {255, 256, 300, 509}, wanted[] = {1, 3, 8, 16, 17, 32, 33};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l)
        for (size_t w = 0; w < 2 * sizeof wanted / sizeof *wanted; ++w) {
            HD_SCOPE;
            const int64_t n = lengths[l], k = wanted[w / 2];
            float v[MOST];
            for (int64_t i = 0; i < n; ++i) {
                const float rows[ROWS] = {NAN,
                                          -INFINITY,
                                          INFINITY,
                                          (float)i,
                                          (float)-i,
                                          i % 64 < 40 ? NAN : (float)(i % 5),
                                          i % 2 ? 0.0f : -0.0f,
                                          i % 64 == 7 ? (float)i : -INFINITY};
                for (int r = 0; r < ROWS; ++r) v[r * n + i] = rows[r];
            }
            hd_tensor *x = hd_from_data(v, HD_SHAPE(ROWS, n), HD_F32);
            check(x, 1, k, w % 2, hd_topk(x, k, 1, w % 2), "few of a long row");
        }
}

static void views_are_sorted_as_they_look(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = numbers(HD_SHAPE(5, 8, 6), HD_F32, 3);
    hd_tensor *turned = hd_permute(x, HD_AXES(2, 0, 1)), *back = hd_flip(x, HD_AXES(1)),
              *part = hd_slice(x, 1, 1, 8, 2);
    for (int axis = 0; axis < 3; ++axis) {
        check(turned, axis, hd_tensor_size(turned, axis), false, hd_sort(turned, axis, false), "turned");
        check(back, axis, hd_tensor_size(back, axis), true, hd_sort(back, axis - 3, true), "reversed");
        check(part, axis, 2, true, hd_topk(part, 2, axis, true), "a part");
    }
}

/* As argmax and argmin, with the element that is there. */
static void extremes_come_with_their_index(void **state) {
    (void)state;
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        for (int axis = 0; axis < 3; ++axis) {
            HD_SCOPE;
            hd_tensor *x = numbers(HD_SHAPE(4, 7, 5), (hd_dtype)d, (uint64_t)(d + axis));
            const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
            const hd_pair most = hd_max_with_index(x, axis, keep), least = hd_min_with_index(x, axis - 3, NULL);
            assert_identical(most.indices, hd_argmax(x, axis, keep));
            assert_identical(least.indices, hd_argmin(x, axis, NULL));
            assert_identical(most.values, hd_gather(x, axis, most.indices));
            assert_identical(least.values,
                             hd_squeeze(hd_gather(x, axis, hd_unsqueeze(least.indices, axis)), HD_AXES(axis)));
        }
}

static void nothing_is_sorted_too(void **state) {
    (void)state;
    HD_SCOPE;
    hd_pair p = hd_sort(hd_zeros(HD_SHAPE(0, 3), HD_F32), 0, true);
    assert_int_equal(hd_tensor_count(p.values), 0);
    assert_int_equal(hd_tensor_count(p.indices), 0);
    p = hd_topk(hd_zeros(HD_SHAPE(3, 0), HD_F32), 2, 0, true);
    assert_int_equal(hd_tensor_size(p.indices, 0), 2);
    assert_ok();
    p = hd_sort(hd_zeros(HD_SHAPE(), HD_F32), 0, true);
    assert_null(p.values);
    assert_null(p.indices);
    assert_error(HD_ERROR_AXIS, "hd_sort");
    p = hd_topk(hd_zeros(HD_SHAPE(3), HD_F32), 4, 0, true);
    assert_null(p.values);
    assert_error(HD_ERROR_VALUE, "k = 4 of axis 0 of [3]; there are 3");
    p = hd_max_with_index(hd_zeros(HD_SHAPE(2, 0), HD_F32), 1, NULL);
    assert_null(p.indices);
    assert_error(HD_ERROR_SHAPE, "axis 1 of [2,0] is empty");
}

/* Indices beside values have no history, and values have one. */
static void gradients_go_where_values_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(HD_SHAPE(5), 3, 1, NAN, 2, 1));
    const hd_pair p = hd_sort(x, 0, false);
    assert_true(hd_tensor_requires_grad(p.values));
    assert_false(hd_tensor_requires_grad(p.indices));
    hd_backward(hd_sum(hd_mul(p.values, HD_TENSOR_F32(HD_SHAPE(5), 1, 2, 3, 4, 5)), HD_AXES(), NULL));
    assert_values(hd_grad(x), HD_F32, 4, 1, 5, 3, 2);
    hd_tensor *alone = hd_cast(hd_topk(x, 2, 0, true).indices, HD_F32); /* nothing to differentiate */
    assert_false(hd_tensor_requires_grad(alone));
    hd_clear_tape();
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *x = hd_randint(HD_SHAPE(40, 3000), HD_I32, 0, 500);
    const int threads = hd_num_threads();
    hd_pair p[2];
    for (int i = 0; i < 2; ++i) {
        hd_set_num_threads(i == 0 ? 1 : 4);
        p[i] = hd_sort(x, 1, true);
    }
    hd_set_num_threads(threads);
    assert_identical(p[0].values, p[1].values);
    assert_identical(p[0].indices, p[1].indices);
}

/* ---- what is made of the order ----------------------------------------------------------------------------------- */
#define KEEP HD_OPTS(hd_reduce_opts, .keep_dims = g.argument[1] != 0)

static void as_numpy(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = fixture(HD_SHAPE(4, 3, 5), HD_F64);
    for (golden g = golden_open("quantile"); golden_next(&g);)
        assert_tensor_close(hd_quantile(x, g.argument[2], (int)g.argument[0], KEEP), HD_F64, &g.shape, g.v, 1e-15);
    const double parts[] = {0.9, 0.1, 1, 0.25};
    for (golden g = golden_open("quantiles"); golden_next(&g);)
        assert_tensor_close(hd_quantiles(x, parts, 4, (int)g.argument[0], KEEP), HD_F64, &g.shape, g.v, 1e-15);
    for (golden g = golden_open("kthvalue"); golden_next(&g);)
        assert_tensor(hd_kthvalue(x, (int64_t)g.argument[2], (int)g.argument[0], KEEP).values, HD_F64, &g.shape, g.v);
    for (golden g = golden_open("median"); golden_next(&g);)
        assert_tensor(hd_median(x, (int)g.argument[0], KEEP).values, HD_F64, &g.shape, g.v);
    for (golden g = golden_open("argsort"); golden_next(&g);)
        assert_tensor(hd_argsort(x, (int)g.argument[0], g.argument[1] != 0), HD_I64, &g.shape, g.v);
    for (golden g = golden_open("searchsorted"); golden_next(&g);) {
        hd_tensor *row = hd_sort(fixture(HD_SHAPE((int64_t)g.argument[1]), HD_F64), 0, false).values;
        assert_tensor(hd_searchsorted(row, fixture(HD_SHAPE(4, 3), HD_F64), g.argument[0] != 0), HD_I64, &g.shape, g.v);
    }
    for (golden g = golden_open("searchsorted_rows"); golden_next(&g);) {
        hd_tensor *rows = hd_sort(fixture(HD_SHAPE(3, 8), HD_F64), 1, false).values;
        assert_tensor(hd_searchsorted(rows, fixture(HD_SHAPE(3, 5), HD_F64), g.argument[0] != 0), HD_I64, &g.shape,
                      g.v);
    }
}

static void counts_are_numpys(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_dtype integers[] = {HD_I64, HD_U64, HD_I32, HD_U32, HD_I16, HD_U16, HD_I8, HD_U8};
    for (golden g = golden_open("bincount"); golden_next(&g);)
        for (size_t d = 0; d < sizeof integers / sizeof *integers; ++d) {
            const int64_t n = (int64_t)g.argument[0], size = g.shape.size[0];
            hd_tensor *x = hd_cast(hd_mod_scalar(hd_arange(0, (double)n * 5, 5, HD_I64), 7), integers[d]);
            assert_tensor(hd_bincount(x, NULL, size), HD_I64, &g.shape, g.v);
        }
    for (golden g = golden_open("bincount_weights"); golden_next(&g);) {
        const int64_t n = (int64_t)g.argument[0], size = g.shape.size[0];
        hd_tensor *x = hd_mod_scalar(hd_arange(0, (double)n * 5, 5, HD_I64), 7);
        assert_tensor(hd_bincount(x, fixture(HD_SHAPE(n), HD_F64), size), HD_F64, &g.shape, g.v);
    }
    for (golden g = golden_open("histc"); golden_next(&g);) {
        hd_tensor *x = fixture(HD_SHAPE(60), HD_F64);
        const int64_t bins = (int64_t)g.argument[0];
        assert_tensor(hd_histc(x, bins, g.argument[1], g.argument[2]), HD_I64, &g.shape, g.v);
        assert_tensor(hd_histc(hd_cast(hd_reshape(x, HD_SHAPE(3, 20)), HD_F32), bins, g.argument[1], g.argument[2]),
                      HD_I64, &g.shape, g.v);
    }
    hd_tensor *odd = HD_TENSOR_F32(HD_SHAPE(6), NAN, INFINITY, -INFINITY, 0, 1, -0.0f);
    assert_values(hd_histc(odd, 2, 0, 1), HD_I64, 2, 1);
    assert_values(hd_histc(hd_cast(hd_arange(0, 6, 1, HD_I64), HD_I32), 3, 0, 5), HD_I64, 2, 2, 2);
    assert_values(hd_histc(hd_zeros(HD_SHAPE(0), HD_F32), 2, 0, 1), HD_I64, 0, 0);
}

/* How many of a row come before a value, one by one. */
static void check_places(hd_tensor *rows, hd_tensor *values, bool right, const char *what) {
    static double row[MOST], v[MOST];
    static int64_t places[MOST];
    hd_tensor *got = hd_searchsorted(rows, values, right);
    assert_ok();
    assert_true(hd_shape_equal(hd_tensor_shape(got), hd_tensor_shape(values)));
    hd_to_array(rows, row, HD_F64, MOST);
    hd_to_array(values, v, HD_F64, MOST);
    hd_to_array(got, places, HD_I64, MOST);
    const int64_t n = hd_tensor_size(rows, -1), count = hd_tensor_count(values);
    const int64_t each = hd_tensor_rank(rows) == 1 ? count : hd_tensor_size(values, -1);
    for (int64_t e = 0; e < count; ++e) {
        const double *from = row + (hd_tensor_rank(rows) == 1 ? 0 : e / each * n);
        int64_t want = 0;
        for (int64_t i = 0; i < n; ++i) want += right ? !before(v[e], from[i], false) : before(from[i], v[e], false);
        if (places[e] != want) fail_msg("%s: %g goes to %d, not %d", what, v[e], (int)places[e], (int)want);
    }
}

static void places_of_every_dtype_and_layout(void **state) {
    (void)state;
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        for (int right = 0; right < 2; ++right) {
            HD_SCOPE;
            const char *name = hd_dtype_name((hd_dtype)d);
            hd_tensor *rows = hd_sort(numbers(HD_SHAPE(3, 33), (hd_dtype)d, (uint64_t)d), 1, false).values;
            hd_tensor *values = numbers(HD_SHAPE(3, 20), (hd_dtype)d, (uint64_t)(d + 99)), *row = hd_select(rows, 0, 1);
            check_places(rows, values, right, name);
            check_places(row, values, right, name);
            check_places(row, hd_permute(hd_unfold(values, 1, 4, 3), HD_AXES(2, 0, 1)), right, name);
            check_places(row, hd_select(hd_flatten(values), 0, 7), right, name);
            hd_tensor *turned = hd_sort(numbers(HD_SHAPE(9, 3), (hd_dtype)d, (uint64_t)d), 0, false).values;
            check_places(hd_t(turned), hd_flip(values, HD_AXES(0)), right, name);
            check_places(hd_broadcast_to(row, HD_SHAPE(3, 33)),
                         hd_broadcast_to(hd_narrow(values, 1, 0, 1), HD_SHAPE(3, 4)), right, name);
            check_places(hd_narrow(rows, 1, 0, 0), values, right, name);
            check_places(row, hd_narrow(values, 0, 0, 0), right, name);
        }
}

/* As sort gives them, with their index; the median of a row with NaN is its first NaN. */
static void elements_are_where_sort_puts_them(void **state) {
    (void)state;
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        for (int axis = 0; axis < 2; ++axis) {
            HD_SCOPE;
            hd_tensor *x = hd_t(numbers(HD_SHAPE(40, 7), (hd_dtype)d, (uint64_t)(d + axis)));
            const hd_pair sorted = hd_sort(x, axis, false);
            const int64_t n = hd_tensor_size(x, axis);
            assert_identical(hd_argsort(x, axis - 2, true), hd_sort(x, axis, true).indices);
            for (int64_t k = 1; k <= n; k += n / 3) {
                const hd_pair p = hd_kthvalue(x, k, axis, NULL);
                assert_identical(p.values, hd_select(sorted.values, axis, k - 1));
                assert_identical(p.indices, hd_select(sorted.indices, axis, k - 1));
            }
            const hd_reduce_opts *keep = HD_OPTS(hd_reduce_opts, .keep_dims = true);
            const hd_pair middle = hd_median(x, axis, keep);
            hd_tensor *at = hd_narrow(sorted.indices, axis, (n - 1) / 2, 1);
            if (hd_dtype_is_float((hd_dtype)d)) {
                hd_tensor *f = hd_cast(x, HD_F64), *any = hd_any(hd_isnan(f), HD_AXES(axis), keep);
                at = hd_where(any, hd_argmax(hd_isnan(f), axis, keep), at);
            }
            assert_identical(middle.indices, at);
            assert_identical(middle.values, hd_gather(x, axis, at));
        }
}

static void quantiles_at_the_edges(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(3, 3), 3, 1, 2, NAN, 0, 1, INFINITY, -INFINITY, 5);
    assert_values(hd_quantile(x, 0, 1, NULL), HD_F32, 1, NAN, -INFINITY);
    assert_values(hd_quantile(x, 0.5, 1, NULL), HD_F32, 2, NAN, 5);
    assert_values(hd_quantile(x, 1, 1, NULL), HD_F32, 3, NAN, INFINITY);
    assert_values(hd_quantile(HD_TENSOR_I64(HD_SHAPE(4), 4, 1, 3, 2), 0.5, 0, NULL), HD_F32, 2.5);
    hd_tensor *small = hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 1, 1.0078125f), HD_BF16); /* rounded once, to even */
    assert_values(hd_quantile(small, 0.75, 0, NULL), HD_BF16, 1.0078125);
    assert_values(hd_quantile(HD_TENSOR_F32(HD_SHAPE(1), 7), 0.3, 0, NULL), HD_F32, 7);
    assert_int_equal(hd_tensor_count(hd_quantile(hd_zeros(HD_SHAPE(0, 3), HD_F32), 0.5, 1, NULL)), 0);
    assert_ok();
}

/* A list of them, at whatever level of order, is one of each; NaN is in every one of its row. */
static void lists_of_quantiles_are_those_of_each(void **state) {
    (void)state;
    HD_SCOPE;
    enum { PARTS_MOST = 64 };
    double parts[PARTS_MOST];
    for (int i = 0; i < PARTS_MOST; ++i) parts[i] = (double)((i * 37) % PARTS_MOST) / (PARTS_MOST - 1);
    hd_tensor *x = hd_rand(HD_SHAPE(3, 5, 2), HD_F32), *nan = hd_full(HD_SHAPE(), HD_F32, NAN);
    x = hd_where(hd_lt_scalar(x, 0.05), nan, x);
    for (int axis = 0; axis < 3; ++axis) {
        hd_tensor *all = hd_quantiles(x, parts, PARTS_MOST, axis, NULL);
        for (int i = 0; i < PARTS_MOST; ++i)
            assert_identical(hd_select(all, 0, i), hd_quantile(x, parts[i], axis, NULL));
    }
    assert_values(hd_quantiles(HD_TENSOR_I64(HD_SHAPE(4), 4, 1, 3, 2), (const double[]){0.5, 0}, 2, 0, NULL), HD_F32,
                  2.5, 1);
    assert_int_equal(hd_tensor_count(hd_quantiles(hd_zeros(HD_SHAPE(0, 3), HD_F32), parts, 2, 1, NULL)), 0);
    assert_ok();
}

/* Neighbours whose difference f32 does not hold, and infinite ones. */
static void quantiles_do_not_overflow(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(6, 2), 0x1.8p127f, -0x1.8p127f, 5, -INFINITY, INFINITY, 1, INFINITY, INFINITY,
                                 -INFINITY, -INFINITY, -INFINITY, INFINITY);
    assert_values(hd_quantile(x, 0.25, 1, NULL), HD_F32, -0x1.8p126, -INFINITY, INFINITY, INFINITY, -INFINITY, NAN);
    assert_values(hd_quantile(x, 0.5, 1, NULL), HD_F32, 0, -INFINITY, INFINITY, INFINITY, -INFINITY, NAN);
    assert_values(hd_quantile(hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 60000, -60000), HD_F16), 0.75, 0, NULL), HD_F16,
                  30000);
    HD_GRAD_CONTEXT;
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 0x1.8p127f, -0x1.8p127f));
    hd_backward(hd_quantile(p, 0.25, 0, NULL));
    assert_values(hd_grad(p), HD_F32, 0.25, 0.75);
}

/* Edges that f32 would round to each other, or to infinity, are those of f64. */
static void bins_that_f32_does_not_hold(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *near = hd_add_scalar(hd_mul_scalar(hd_arange(0.5, 5, 1, HD_F64), 1e-10), 1);
    assert_values(hd_histc(near, 2, 1, 1 + 4e-10), HD_I64, 2, 2);
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(5), -INFINITY, -3e38f, 0, 3e38f, INFINITY);
    assert_values(hd_histc(x, 4, -1e39, 1e39), HD_I64, 0, 1, 2, 0);
    assert_values(hd_histc(x, 2, -1e308, 1.7e308), HD_I64, 3, 0);
    hd_tensor *whole = HD_TENSOR_I64(HD_SHAPE(3), (1 << 24), (1 << 24) + 1, (1 << 24) + 2);
    assert_values(hd_histc(whole, 3, 1 << 24, (1 << 24) + 3), HD_I64, 1, 1, 1);
    assert_values(hd_histc(HD_TENSOR_F32(HD_SHAPE(3), 0.1f, 0.2f, 0.3f), 2, 0.1, 0.3), HD_I64, 1,
                  2); /* as f32 has them */
}

static void errors_say_what_was_given(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(2, 3), HD_F32), *none = hd_zeros(HD_SHAPE(2, 0), HD_F32);
    hd_tensor *i = HD_TENSOR_I64(HD_SHAPE(3), 0, -2, 1);
    assert_null(hd_kthvalue(x, 0, 1, NULL).values);
    assert_error(HD_ERROR_VALUE, "hd_kthvalue: k = 0 of axis 1 of [2,3]; it counts from 1 to 3");
    assert_null(hd_kthvalue(x, 3, 0, NULL).indices);
    assert_error(HD_ERROR_VALUE, "it counts from 1 to 2");
    assert_null(hd_median(none, 1, NULL).values);
    assert_error(HD_ERROR_SHAPE, "hd_median: axis 1 of [2,0] is empty");
    assert_null(hd_argsort(hd_scalar(1, HD_F32), 0, false));
    assert_error(HD_ERROR_AXIS, "hd_argsort");
    assert_null(hd_quantile(x, 1.5, 1, NULL));
    assert_error(HD_ERROR_VALUE, "hd_quantile: q = 1.5; it is a part, from 0 to 1");
    assert_null(hd_quantile(x, NAN, 1, NULL));
    assert_error(HD_ERROR_VALUE, "q = nan");
    assert_null(hd_quantiles(x, NULL, 2, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_quantiles: `q` is NULL");
    assert_null(hd_quantiles(x, (const double[]){0.5}, 0, 1, NULL));
    assert_error(HD_ERROR_VALUE, "hd_quantiles: 0 quantiles; there may be 1 to 64");
    assert_null(hd_quantiles(x, (const double[]){0.5, -0.1}, 2, 1, NULL));
    assert_error(HD_ERROR_VALUE, "hd_quantiles: q = -0.1; it is a part, from 0 to 1");
    assert_null(hd_searchsorted(x, hd_zeros(HD_SHAPE(3, 2), HD_F32), false));
    assert_error(HD_ERROR_SHAPE, "hd_searchsorted: values [3,2] in sorted [2,3]");
    assert_null(hd_searchsorted(hd_scalar(1, HD_F32), x, false));
    assert_error(HD_ERROR_SHAPE, "values [2,3] in sorted []");
    assert_null(hd_searchsorted(hd_zeros(HD_SHAPE(3), HD_F64), x, false));
    assert_error(HD_ERROR_DTYPE, "sorted is f64 and values f32; cast one of them");
    assert_null(hd_bincount(x, NULL, 2));
    assert_error(HD_ERROR_DTYPE, "hd_bincount: x is f32; it must be an integer tensor");
    assert_null(hd_bincount(i, NULL, -1));
    assert_error(HD_ERROR_VALUE, "size is -1");
    assert_null(hd_bincount(i, x, 2));
    assert_error(HD_ERROR_SHAPE, "weights [2,3] for x [3]");
    assert_null(hd_bincount(hd_abs(i), NULL, 2));
    assert_error(HD_ERROR_INDEX, "hd_bincount: index 2 at place 1 of [3] is out of range for an axis of size 2");
    assert_null(hd_bincount(i, NULL, 3));
    assert_error(HD_ERROR_INDEX, "hd_bincount: x has -2; what is counted begins at 0");
    assert_null(hd_histc(x, 0, 0, 1));
    assert_error(HD_ERROR_VALUE, "hd_histc: 0 bins");
    assert_null(hd_histc(x, 3, 1, 1));
    assert_error(HD_ERROR_VALUE, "bins from 1 to 1; low must be below high");
    assert_null(hd_histc(x, 3, 0, INFINITY));
    assert_error(HD_ERROR_VALUE, "bins from 0 to inf");
}

RUN(test(every_dtype_axis_and_length), test(few_of_long_rows), test(views_are_sorted_as_they_look),
    test(extremes_come_with_their_index), test(nothing_is_sorted_too), test(gradients_go_where_values_were),
    test(threads_do_not_change_the_result), test(as_numpy), test(counts_are_numpys),
    test(places_of_every_dtype_and_layout), test(elements_are_where_sort_puts_them), test(quantiles_at_the_edges),
    test(lists_of_quantiles_are_those_of_each), test(quantiles_do_not_overflow), test(bins_that_f32_does_not_hold),
    test(errors_say_what_was_given))
