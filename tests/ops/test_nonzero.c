/* Selecting by value: against NumPy and plain loops, padded and not, at once and in a script, with gradients. */
#include "core/memory.h"
#include "families.h"

#define BOTH HD_OPTS(hd_unique_opts, .inverse = true, .counts = true)

static hd_shape shape_of(const golden *g) {
    hd_shape shape = {.rank = g->arguments};
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = (int64_t)g->argument[i];
    return shape;
}

static void as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("nonzero"); golden_next(&g);) {
        HD_SCOPE;
        assert_tensor(hd_nonzero(hd_gt_scalar(fixture(shape_of(&g), HD_F32), 1)), HD_I64, &g.shape, g.v);
    }
    for (golden g = golden_open("masked_select"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = fixture(shape_of(&g), HD_F32);
        assert_tensor(hd_masked_select(x, hd_gt_scalar(x, 1)), HD_F32, &g.shape, g.v);
    }
    for (golden g = golden_open("unique"); golden_next(&g);) {
        HD_SCOPE;
        const hd_uniques u = hd_unique(hd_trunc(fixture(shape_of(&g), HD_F64)), NULL);
        assert_tensor(u.values, HD_F64, &g.shape, g.v);
        assert_null(u.inverse);
        assert_null(u.counts);
    }
    for (golden g = golden_open("unique_inverse"); golden_next(&g);) {
        HD_SCOPE;
        assert_tensor(hd_unique(hd_trunc(fixture(shape_of(&g), HD_F64)), BOTH).inverse, HD_I64, &g.shape, g.v);
    }
    for (golden g = golden_open("unique_counts"); golden_next(&g);) {
        HD_SCOPE;
        assert_tensor(hd_unique(hd_trunc(fixture(shape_of(&g), HD_F64)), BOTH).counts, HD_I64, &g.shape, g.v);
    }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
enum { KINDS = 16 };

/* The first `size` of x's unique values and what belongs to them; the rest is fill. */
static void check_unique(const model *m, hd_dtype dtype, int64_t size, double fill, bool padded) {
    double kinds[MODEL_MOST], counts[MODEL_MOST], inverse[MODEL_MOST];
    int64_t n = 0;
    for (int64_t i = 0; i < m->count; ++i) { /* few kinds: each is put in its place */
        int64_t k = 0;
        while (k < n && kinds[k] < m->v[i]) ++k;
        if (k < n && kinds[k] == m->v[i]) continue;
        for (int64_t j = n++; j > k; --j) kinds[j] = kinds[j - 1];
        kinds[k] = m->v[i];
    }
    for (int64_t i = 0; i < m->count; ++i)
        for (int64_t k = 0; k < n; ++k) inverse[i] = m->v[i] == kinds[k] ? (double)k : inverse[i];
    for (int64_t k = 0; k < n || k < size; ++k) {
        counts[k] = 0;
        for (int64_t i = 0; i < m->count; ++i) counts[k] += k < n && m->v[i] == kinds[k];
        if (k >= n) kinds[k] = fill;
    }
    const hd_shape shape = HD_SHAPE(padded ? size : n);
    const hd_uniques u = padded ? hd_unique_padded(m->t, size, fill, BOTH) : hd_unique(m->t, BOTH);
    assert_tensor(u.values, dtype, &shape, kinds);
    assert_tensor(u.counts, HD_I64, &shape, counts);
    assert_tensor(u.inverse, HD_I64, &m->shape, inverse);
}

static void every_dtype_and_layout(void **state) {
    (void)state;
    static model m;
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        for (int round = 0; round < 8; ++round) {
            HD_SCOPE;
            const hd_dtype dtype = (hd_dtype)d;
            random_model(&m, random_shape((int)random_below(4), 6), dtype);
            double places[MODEL_MOST * 3], chosen[MODEL_MOST];
            int64_t n = 0;
            for (int64_t i = 0; i < m.count; ++i) {
                int64_t at[HD_MAX_RANK];
                coordinates_of(&m.shape, i, at);
                if (m.v[i] == 0) continue;
                for (int k = 0; k < m.shape.rank; ++k) places[n * m.shape.rank + k] = (double)at[k];
                chosen[n++] = m.v[i];
            }
            const hd_shape found = HD_SHAPE(n, m.shape.rank), values = HD_SHAPE(n);
            hd_tensor *mask = hd_ne_scalar(m.t, 0);
            assert_tensor(hd_nonzero(m.t), HD_I64, &found, places);
            assert_tensor(hd_masked_select(m.t, mask), dtype, &values, chosen);
            const int64_t size = round % 2 ? n / 2 : n + random_below(m.count + 3); /* cut, or filled */
            for (int64_t i = n; i < size; ++i) {
                for (int k = 0; k < m.shape.rank; ++k) places[i * m.shape.rank + k] = -1;
                chosen[i] = 1;
            }
            const hd_shape wide = HD_SHAPE(size, m.shape.rank), cut = HD_SHAPE(size);
            assert_tensor(hd_nonzero_padded(m.t, size, -1), HD_I64, &wide, places);
            assert_tensor(hd_masked_select_padded(m.t, mask, size, 1), dtype, &cut, chosen);
            check_unique(&m, dtype, 0, 0, false);
            check_unique(&m, dtype, round % 2 ? 2 : KINDS + m.count, 1, true);
        }
}

static void masks_and_operands_broadcast(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 1), 1, 2), *mask = hd_gt_scalar(HD_TENSOR_F32(HD_SHAPE(3), 0, 1, 1), 0);
    assert_values(hd_masked_select(x, mask), HD_F32, 1, 1, 2, 2);
    assert_values(hd_masked_select_padded(x, mask, 5, -7), HD_F32, 1, 1, 2, 2, -7);
    assert_values(hd_masked_select(hd_t(x), hd_t(mask = hd_reshape(mask, HD_SHAPE(1, 3)))), HD_F32, 1, 2, 1, 2);
}

/* NaN are one, and so are 0 and -0, of which the first stays. */
static void special_numbers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(8), NAN, -0.0f, INFINITY, 0, -NAN, -INFINITY, 0, NAN);
    const hd_uniques u = hd_unique(x, BOTH), p = hd_unique_padded(x, 5, 9, BOTH);
    assert_values(u.values, HD_F32, -INFINITY, 0, INFINITY, NAN);
    assert_true(signbit(hd_data_f32(u.values)[1]));
    assert_values(u.counts, HD_I64, 1, 3, 1, 3);
    assert_values(u.inverse, HD_I64, 3, 1, 2, 1, 3, 0, 1, 3);
    assert_values(p.values, HD_F32, -INFINITY, 0, INFINITY, NAN, 9);
    assert_values(p.counts, HD_I64, 1, 3, 1, 3, 0);
    assert_values(hd_nonzero(x), HD_I64, 0, 2, 4, 5, 7); /* NaN is not 0 */
}

static void nothing_and_one_number(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 3), HD_F32), *one = hd_scalar(4, HD_F32), *mask = hd_isnan(none);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_nonzero(none)), HD_SHAPE(0, 2)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_nonzero(one)), HD_SHAPE(1, 0)));
    assert_values(hd_nonzero_padded(none, 2, 5), HD_I64, 5, 5, 5, 5);
    for (int64_t i = 0; i < 2; ++i) { /* f64 holds neither */
        const int64_t fill = i == 0 ? INT64_MAX - 1 : -((int64_t)1 << 53) - 1;
        assert_true(hd_item_i64(hd_select(hd_flatten(hd_nonzero_padded(none, 1, fill)), 0, 1)) == fill);
    }
    assert_values(hd_masked_select_padded(none, mask, 2, 5), HD_F32, 5, 5);
    assert_int_equal(hd_tensor_count(hd_masked_select(none, mask)), 0);
    const hd_uniques u = hd_unique_padded(none, 2, 5, BOTH), v = hd_unique(one, BOTH);
    assert_values(u.values, HD_F32, 5, 5);
    assert_values(u.counts, HD_I64, 0, 0);
    assert_true(hd_shape_equal(hd_tensor_shape(u.inverse), HD_SHAPE(0, 3)));
    assert_values(v.values, HD_F32, 4);
    assert_values(v.inverse, HD_I64, 0);
    assert_int_equal(hd_tensor_rank(v.inverse), 0);
    assert_ok();
}

static void gradients_go_to_what_was_selected(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(5), 3, 1, 3, 2, 1)), *mask = hd_gt_scalar(x, 1);
    hd_tensor *weight = HD_TENSOR_F32(HD_SHAPE(3), 10, 20, 30);
    hd_backward(hd_dot(hd_masked_select(x, mask), weight));
    assert_values(hd_grad(x), HD_F32, 10, 0, 20, 30, 0);
    hd_zero_grad(x);
    hd_backward(hd_dot(hd_masked_select_padded(x, mask, 2, 7), HD_TENSOR_F32(HD_SHAPE(2), 10, 20)));
    assert_values(hd_grad(x), HD_F32, 10, 0, 20, 0, 0);
    hd_zero_grad(x);
    hd_backward(hd_dot(hd_unique(x, NULL).values, weight)); /* to the first of each */
    assert_values(hd_grad(x), HD_F32, 30, 10, 0, 20, 0);
}

static void a_script_runs_the_padded_ones(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("selection");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32);
    const hd_uniques u = hd_unique_padded(x, 4, -1, BOTH);
    hd_builder_add_output(b, "values", u.values);
    hd_builder_add_output(b, "inverse", u.inverse);
    hd_builder_add_output(b, "counts", u.counts);
    hd_builder_add_output(b, "places", hd_nonzero_padded(x, 5, -1));
    hd_builder_end(b);
    hd_script *script = hd_builder_build(b);
    hd_script_set_input(script, "x", HD_TENSOR_F32(HD_SHAPE(2, 3), 2, 0, 2, 0, 5, 0));
    hd_outputs *out = hd_script_run(script);
    assert_values(hd_outputs_get(out, "values"), HD_F32, 0, 2, 5, -1);
    assert_values(hd_outputs_get(out, "inverse"), HD_I64, 1, 0, 1, 0, 2, 0);
    assert_values(hd_outputs_get(out, "counts"), HD_I64, 3, 2, 1, 0);
    assert_values(hd_outputs_get(out, "places"), HD_I64, 0, 0, 0, 2, 1, 1, -1, -1, -1, -1);
    hd_script_set_input(script, "x", HD_TENSOR_F32(HD_SHAPE(2, 3), 6, 5, 4, 3, 2, 1)); /* more than there is room for */
    out = hd_script_run(script);
    assert_values(hd_outputs_get(out, "values"), HD_F32, 1, 2, 3, 4);
    assert_values(hd_outputs_get(out, "inverse"), HD_I64, 5, 4, 3, 2, 1, 0);
    assert_values(hd_outputs_get(out, "places"), HD_I64, 0, 0, 0, 1, 0, 2, 1, 0, 1, 1);
}

/* What is made of many calls gives none of its results when one of them fails, and leaves nothing behind. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("it counts allocations of the host");
    for (int which = 0; which < 11; ++which)
        for (int64_t n = 0, failed = 1; failed; ++n) {
            HD_SCOPE;
            hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2, 3), 2, 0, 2, 1, 5, 0)), *mask = hd_gt_scalar(x, 1);
            hd_tensor *i = hd_cast(hd_detach(x), HD_I32), *y = NULL;
            hd_memory_trim();
            hd_memory_fail_after(n);
            switch (which) {
            case 0: y = hd_nonzero(x); break;
            case 1: y = hd_nonzero_padded(x, 5, 0); break;
            case 2: y = hd_masked_select(x, mask); break;
            case 3: y = hd_masked_select_padded(x, mask, 7, 0); break;
            case 4: y = hd_unique(x, BOTH).counts; break;
            case 5: y = hd_unique_padded(x, 3, 0, BOTH).inverse; break;
            case 6: y = hd_median(x, 1, NULL).indices; break;
            case 7: y = hd_quantile(x, 0.3, 0, NULL); break;
            case 8: y = hd_bincount(i, x, 6); break;
            case 9: y = hd_quantiles(x, (const double[]){0.3, 1}, 2, 0, NULL); break;
            default: y = hd_histc(x, 3, 0, 4);
            }
            hd_memory_fail_after(-1);
            failed = !hd_ok();
            assert_int_equal(y == NULL, failed);
            if (failed) assert_error(HD_ERROR_MEMORY, "");
            if (!failed) assert_in_range(n, 5, 1000);
            hd_clear_tape();
        }
}

static void errors_name_what_to_do(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3), *mask = hd_gt_scalar(x, 1);
    assert_null(hd_masked_select(x, x));
    assert_error(HD_ERROR_DTYPE, "hd_masked_select: the mask is f32; it must be bool");
    assert_null(hd_masked_select_padded(x, hd_isnan(hd_zeros(HD_SHAPE(2), HD_F32)), 3, 0));
    assert_error(HD_ERROR_SHAPE, "hd_masked_select_padded: ");
    assert_null(hd_nonzero_padded(x, -1, 0));
    assert_error(HD_ERROR_VALUE, "hd_nonzero_padded: size is -1; it must be >= 0");
    assert_null(hd_unique_padded(x, -2, 0, NULL).values);
    assert_error(HD_ERROR_VALUE, "hd_unique_padded: size is -2");
    hd_builder *b = hd_builder_new("selection");
    hd_builder_start(b);
    assert_null(hd_nonzero(x));
    assert_error(HD_ERROR_STATE, "which a builder does not know; use hd_nonzero_padded, which is told a size");
    assert_null(hd_masked_select(x, mask));
    assert_error(HD_ERROR_STATE, "use hd_masked_select_padded");
    assert_null(hd_unique(x, NULL).values);
    assert_error(HD_ERROR_STATE, "use hd_unique_padded");
    hd_builder_end(b);
    hd_error_clear();
}

RUN(test(as_numpy), test(every_dtype_and_layout), test(masks_and_operands_broadcast), test(special_numbers),
    test(nothing_and_one_number), test(gradients_go_to_what_was_selected), test(a_script_runs_the_padded_ones),
    test(every_allocation_may_fail), test(errors_name_what_to_do))
