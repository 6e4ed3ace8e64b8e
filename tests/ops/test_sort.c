/* Sorting and its kin against insertion of f64, which shares no code with it: NaN is the largest, of equals the first
 * comes first, the bits of an element stay as they are. */
#include "core/dtype.h"
#include "differences.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

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

RUN(test(every_dtype_axis_and_length), test(views_are_sorted_as_they_look), test(extremes_come_with_their_index),
    test(nothing_is_sorted_too), test(gradients_go_where_values_were), test(threads_do_not_change_the_result))
