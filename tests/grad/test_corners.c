/* Gradients where they are easily wrong, one name each, with the right answer written out. */
#include "support.h"

#include <math.h>

#define LEAF(shape, ...) hd_requires_grad(hd_from_data((const double[]){__VA_ARGS__}, shape, HD_F64))
#define F64(shape, ...)  hd_from_data((const double[]){__VA_ARGS__}, shape, HD_F64)
#define SUM(x)           hd_sum(x, HD_AXES(), NULL)
#define KEEP             HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define assert_grad(x, ...)                                                                                            \
    do {                                                                                                               \
        assert_values(hd_grad(x), hd_tensor_dtype(x), __VA_ARGS__);                                                    \
        assert_true(hd_shape_equal(hd_tensor_shape(hd_grad(x)), hd_tensor_shape(x)));                                  \
        hd_set_grad(x, NULL);                                                                                          \
    } while (0)
/* The loss with another gradient than ones. */
#define backward_from(loss, ...)                                                                                       \
    hd_backward_with(loss, HD_OPTS(hd_backward_opts, .seed = F64(hd_tensor_shape(loss), __VA_ARGS__)))

/* Row i of the matrix of second derivatives of a scalar y by a vector x. */
static hd_tensor *second_derivatives(hd_tensor *y, hd_tensor *x, int64_t i) {
    hd_tensors *g = hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    hd_tensor *gradient = g == NULL ? NULL : hd_tensors_get(g, 0);
    g = hd_grad_of(hd_select(gradient, 0, i), HD_TENSORS(x), NULL);
    return g == NULL ? NULL : hd_tensors_get(g, 0);
}

/* ---- broadcasting ------------------------------------------------------------------------------------------------ */
static void broadcasting_sums_over_what_was_stretched(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *column = LEAF(HD_SHAPE(2, 1), 2, 3), *row = LEAF(HD_SHAPE(3), 1, 10, 100), *one = LEAF(HD_SHAPE(), 4);
    hd_backward(hd_mul(column, row));
    assert_grad(column, 111, 111);
    assert_grad(row, 5, 5, 5);
    hd_backward(hd_mul(hd_add(column, one), row)); /* (c + 4) r */
    assert_grad(column, 111, 111);
    assert_grad(row, 13, 13, 13);
    assert_grad(one, 222);
    hd_backward(hd_add(one, hd_zeros(HD_SHAPE(4, 2), HD_F64)));
    assert_grad(one, 8);
    hd_tensor *inside = LEAF(HD_SHAPE(2, 1, 2), 1, 2, 3, 4);
    hd_backward(hd_mul(inside, F64(HD_SHAPE(3, 1), 1, 10, 100)));
    assert_grad(inside, 111, 111, 111, 111);
    hd_backward(hd_add(one, hd_zeros(HD_SHAPE(0, 2), HD_F64))); /* stretched to nothing */
    assert_grad(one, 0);
}

static void a_tensor_used_twice_adds_both(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(2), 3, -5);
    hd_backward(hd_add(hd_mul(x, x), hd_mul(x, hd_detach(x)))); /* 2x + x */
    assert_grad(x, 9, -15);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */
static void overlapping_windows_add_up(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(5), 1, 2, 3, 4, 5);
    hd_backward(hd_unfold(x, 0, 3, 1));
    assert_grad(x, 1, 2, 3, 2, 1);
    hd_backward(hd_unfold(x, 0, 3, 2));
    assert_grad(x, 1, 1, 2, 1, 1);
    hd_backward(hd_unfold(x, 0, 2, 3)); /* the third is in no window */
    assert_grad(x, 1, 1, 0, 1, 1);
    backward_from(hd_unfold(x, 0, 4, 1), 1, 2, 3, 4, 50, 60, 70, 80);
    assert_grad(x, 1, 52, 63, 74, 80);
    hd_backward(hd_as_strided(x, HD_SHAPE(2, 3), HD_SHAPE(0, 1), 1)); /* the same three, twice */
    assert_grad(x, 0, 2, 2, 2, 0);
}

static void views_of_views_lead_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(3, 4), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    /* every second column from the back, transposed, without its first row: columns 1, rows 0 to 2 */
    backward_from(hd_narrow(hd_t(hd_slice(x, 1, HD_END, HD_END, -2)), 0, 1, 1), 1, 2, 3);
    assert_grad(x, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0);
    backward_from(hd_diagonal(hd_flip(x, HD_AXES(0)), 1, 0, 1), 1, 2, 3);
    assert_grad(x, 0, 0, 0, 3, 0, 0, 2, 0, 0, 1, 0, 0);
    hd_backward(hd_select(hd_reshape(hd_t(x), HD_SHAPE(6, 2)), 0, -1)); /* the last column's last two */
    assert_grad(x, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1);
}

/* Through the storage each element counts once, however often the view in between shows it. */
static void as_strided_of_overlapping_views_counts_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *one = LEAF(HD_SHAPE(1), 2), *x = LEAF(HD_SHAPE(4), 1, 2, 3, 4);
    hd_backward(hd_as_strided(hd_broadcast_to(one, HD_SHAPE(3)), HD_SHAPE(1), HD_SHAPE(0), 0));
    assert_grad(one, 1);
    hd_backward(hd_as_strided(hd_unfold(x, 0, 2, 1), HD_SHAPE(4), HD_SHAPE(1), 0));
    assert_grad(x, 1, 1, 1, 1);
}

/* Of a part it may show what the part shows, not what lies beside it: x would get no gradient of that. */
static void as_strided_of_a_part_stays_within_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(6), 1, 2, 3, 4, 5, 6), *part = hd_slice(x, 0, 1, HD_END, 2); /* 2, 4, 6 */
    hd_backward(hd_as_strided(part, HD_SHAPE(2, 2), HD_SHAPE(2, 2), 1));                      /* 2 4, 4 6 */
    assert_grad(x, 0, 1, 0, 2, 0, 1);
    hd_tensor *beside = hd_as_strided(part, HD_SHAPE(3), HD_SHAPE(1), 1); /* 2, 3, 4 */
    assert_values(beside, HD_F64, 2, 3, 4);
    hd_backward(beside);
    assert_error(HD_ERROR_STATE, "hd_as_strided shows elements of the storage that x [3] does not");
    assert_false(hd_has_grad(x));
    hd_backward(hd_as_strided(hd_narrow(x, 0, 3, 3), HD_SHAPE(0), HD_SHAPE(1), 0)); /* nothing is never outside */
    assert_grad(x, 0, 0, 0, 0, 0, 0);
    hd_tensor *leaf = hd_requires_grad(hd_narrow(hd_ones(HD_SHAPE(4), HD_F64), 0, 1, 2)); /* constants lie beside it */
    hd_backward(hd_as_strided(leaf, HD_SHAPE(4), HD_SHAPE(1), 0));
    assert_grad(leaf, 1, 1);
}

/* ---- indices ----------------------------------------------------------------------------------------------------- */
static void duplicates_in_gather_add_up(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(3), 1, 2, 3), *i = HD_TENSOR_I64(HD_SHAPE(5), 0, 0, 2, 0, -1);
    backward_from(hd_gather(x, 0, i), 1, 10, 100, 1000, 10000);
    assert_grad(x, 1011, 0, 10100);
    backward_from(hd_index_select(x, 0, i), 1, 10, 100, 1000, 10000);
    assert_grad(x, 1011, 0, 10100);
    backward_from(hd_take(x, i), 1, 10, 100, 1000, 10000);
    assert_grad(x, 1011, 0, 10100);
}

static void of_duplicates_in_scatter_the_last_has_the_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(3), 1, 2, 3), *s = LEAF(HD_SHAPE(3), 7, 8, 9),
              *i = HD_TENSOR_I64(HD_SHAPE(3), 2, 0, 2);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_SET), 1, 10, 100);
    assert_grad(x, 0, 10, 0);
    assert_grad(s, 0, 1, 100);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_ADD), 1, 10, 100);
    assert_grad(x, 1, 10, 100);
    assert_grad(s, 100, 1, 100);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_MUL), 1, 10, 100); /* 3 * 7 * 9 at 2 */
    assert_grad(x, 8, 10, 6300);
    assert_grad(s, 2700, 1, 2100);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_MAX), 1, 10, 100);
    assert_grad(x, 0, 10, 0);
    assert_grad(s, 0, 1, 100);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_MIN), 1, 10, 100);
    assert_grad(x, 1, 10, 100);
    assert_grad(s, 0, 0, 0);
}

static void ties_in_scatter_share_the_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(2), 4, 1), *s = LEAF(HD_SHAPE(4), 4, 4, 4, 1),
              *i = HD_TENSOR_I64(HD_SHAPE(4), 0, 0, 1, 0);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_MAX), 6, 5); /* x and two of the source; the source alone */
    assert_grad(x, 2, 0);
    assert_grad(s, 2, 2, 5, 0);
    backward_from(hd_scatter(x, 0, i, s, HD_SCATTER_MIN), 6, 5);
    assert_grad(x, 0, 5);
    assert_grad(s, 0, 0, 0, 6);
}

/* More than one thread's share of the work: none may be lost between them. */
static void many_duplicates_add_up_exactly(void **state) {
    (void)state;
    HD_SCOPE;
    enum { ROWS = 1 << 17, CLASSES = 8 };
    hd_tensor *table = hd_requires_grad(hd_zeros(HD_SHAPE(CLASSES, 3), HD_F32)),
              *row = hd_requires_grad(hd_zeros(HD_SHAPE(3), HD_F32));
    hd_tensor *i = hd_rem_scalar(hd_range(0, 1, ROWS, HD_I64), CLASSES),
              *all = hd_full(HD_SHAPE(CLASSES, 3), HD_F32, ROWS / CLASSES);
    hd_backward(hd_index_select(table, 0, i));
    assert_same(hd_grad(table), all);
    hd_set_grad(table, NULL);
    hd_backward(hd_gather(table, 0, hd_broadcast_to(hd_unsqueeze(i, 1), HD_SHAPE(ROWS, 3))));
    assert_same(hd_grad(table), all);
    hd_backward(hd_add(row, hd_zeros(HD_SHAPE(ROWS, 3), HD_F32)));
    assert_grad(row, ROWS, ROWS, ROWS);
    hd_backward(hd_mul(row, hd_ones(HD_SHAPE(ROWS, 1), HD_F32)));
    assert_grad(row, ROWS, ROWS, ROWS);
    hd_tensor *line = hd_requires_grad(hd_zeros(HD_SHAPE(ROWS), HD_F32));
    hd_backward(hd_unfold(line, 0, 3, 1));
    hd_tensor *g = hd_grad(line);
    assert_values(hd_narrow(g, 0, 0, 3), HD_F32, 1, 2, 3);
    assert_same(hd_narrow(g, 0, 2, ROWS - 4), hd_full(HD_SHAPE(ROWS - 4), HD_F32, 3));
}

/* ---- where ------------------------------------------------------------------------------------------------------- */
static void where_lets_no_nan_through_from_the_branch_not_taken(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *c = hd_cast(HD_TENSOR_I64(HD_SHAPE(4), 1, 0, 1, 0), HD_BOOL);
    hd_tensor *a = LEAF(HD_SHAPE(4), 1, NAN, 3, INFINITY), *b = LEAF(HD_SHAPE(4), NAN, 2, INFINITY, 4);
    hd_tensor *y = hd_where(c, a, b);
    backward_from(y, 1, 2, 3, 4);
    assert_grad(a, 1, 0, 3, 0);
    assert_grad(b, 0, 2, 0, 4);
    backward_from(hd_mul(y, y), 1, 1, 1, 1);
    assert_grad(a, 2, 0, 6, 0);
    assert_grad(b, 0, 4, 0, 8);
    hd_tensor *x = LEAF(HD_SHAPE(2), -1, 4),
              *positive = hd_gt_scalar(x, 0); /* what is not taken is kept from the root too */
    hd_backward(hd_where(positive, hd_sqrt(hd_where(positive, x, hd_ones_like(x))), hd_mul_scalar(x, 2)));
    assert_grad(x, 2, 0.25);
}

/* ---- roots and powers at 0 --------------------------------------------------------------------------------------- */
static void norms_at_zero_have_the_subgradient_zero(void **state) {
    (void)state;
    const double orders[] = {1, 2, 3, 1.5, 0.5, -1, INFINITY, -INFINITY, 0};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; ++i) {
        HD_SCOPE;
        hd_tensor *x = LEAF(HD_SHAPE(2, 2), 0, 0, 0, 0);
        backward_from(hd_norm(x, orders[i], HD_AXES(1), NULL), 5, 7);
        assert_grad(x, 0, 0, 0, 0);
        hd_clear_tape();
    }
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(2, 2), 0, -3, 4, 3);
    backward_from(hd_norm(x, 2, HD_AXES(1), NULL), 2, 10);
    assert_grad(x, 0, -2, 8, 6);
    backward_from(hd_norm(x, 1, HD_AXES(1), NULL), 2, 10);
    assert_grad(x, 0, -2, 10, 10);
    backward_from(hd_norm(x, INFINITY, HD_AXES(1), NULL), 2, 10);
    assert_grad(x, 0, -2, 10, 0);
    hd_tensor *zero = LEAF(HD_SHAPE(2), 0, 0); /* the second derivatives are finite too */
    assert_values(second_derivatives(hd_norm(zero, 2, HD_AXES(), NULL), zero, 0), HD_F64, 0, 0);
}

static void the_deviation_of_equal_elements_has_the_gradient_zero(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(2, 2), 3, 3, 1, 5);
    backward_from(hd_std(x, HD_AXES(1), 0, NULL), 1, 2);
    assert_grad(x, 0, 0, -1, 1);
    backward_from(hd_var(x, HD_AXES(1), 0, NULL), 1, 2);
    assert_grad(x, 0, 0, -4, 4);
}

static void sqrt_at_zero_has_an_infinite_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(4), 0, 4, -1, INFINITY);
    hd_backward(hd_sqrt(x));
    assert_grad(x, INFINITY, 0.25, NAN, 0);
    hd_backward(hd_rsqrt(x));
    assert_grad(x, -INFINITY, -0.0625, NAN, 0);
}

static void powers_of_zero(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = LEAF(HD_SHAPE(5), 0, 0, 0, 0, 0), *b = LEAF(HD_SHAPE(5), 0, 2, 0.5, 1, -1);
    hd_backward(hd_pow(a, b));
    assert_grad(a, 0, 0, INFINITY, 1, -INFINITY);
    assert_grad(b, 0, 0, 0, 0, -INFINITY);
    hd_tensor *x = LEAF(HD_SHAPE(1), 0);
    const double orders[] = {0, 1, 2, 3}, first[] = {0, 1, 0, 0}, second[] = {0, 0, 2, 0};
    for (int i = 0; i < 4; ++i) {
        hd_tensor *y = hd_pow_scalar(x, orders[i]);
        hd_backward(y);
        assert_grad(x, first[i]);
        assert_values(second_derivatives(y, x, 0), HD_F64, second[i]);
    }
    hd_backward(hd_rpow_scalar(x, 0)); /* 0^0 again, by the exponent */
    assert_grad(x, 0);
}

/* ---- ties -------------------------------------------------------------------------------------------------------- */
static void the_largest_share_the_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(3, 4), 1, 3, 3, 2, /**/ 5, 5, 5, 5, /**/ -0.0, 0, -1, -INFINITY);
    backward_from(hd_max(x, HD_AXES(1), NULL), 6, 8, 2);
    assert_grad(x, 0, 3, 3, 0, 2, 2, 2, 2, 1, 1, 0, 0);
    backward_from(hd_min(x, HD_AXES(1), KEEP), 6, 8, 2);
    assert_grad(x, 6, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 2);
    hd_backward(hd_max(x, HD_AXES(), NULL));
    assert_grad(x, 0, 0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0);
    hd_tensor *nan = LEAF(HD_SHAPE(4), 1, NAN, 3, NAN); /* the result is NaN because of those */
    hd_backward(hd_max(nan, HD_AXES(), NULL));
    assert_grad(nan, 0, 0.5, 0, 0.5);
    hd_backward(hd_min(nan, HD_AXES(), NULL));
    assert_grad(nan, 0, 0.5, 0, 0.5);
    hd_tensor *tied = LEAF(HD_SHAPE(2), 3, 3); /* y^2: 2 * 1/2 * 1/2 everywhere */
    assert_values(second_derivatives(hd_square(hd_max(tied, HD_AXES(), NULL)), tied, 0), HD_F64, 0.5, 0.5);
}

static void more_ties_than_f16_can_count(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(hd_full(HD_SHAPE(1 << 17), HD_F16, 2));
    hd_backward(hd_mul_scalar(hd_max(x, HD_AXES(), NULL), 1 << 14));
    assert_same(hd_grad(x), hd_full(HD_SHAPE(1 << 17), HD_F16, 0.125));
}

static void maximum_of_equals_gives_half_each(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = LEAF(HD_SHAPE(4), 1, 2, 0, -3), *b = LEAF(HD_SHAPE(4), 1, 1, -0.0, 3);
    hd_backward(hd_maximum(a, b));
    assert_grad(a, 0.5, 1, 0.5, 0);
    assert_grad(b, 0.5, 0, 0.5, 1);
    hd_backward(hd_minimum(a, b));
    assert_grad(a, 0.5, 0, 0.5, 1);
    assert_grad(b, 0.5, 1, 0.5, 0);
    hd_backward(hd_maximum(a, a)); /* half and half of one tensor */
    assert_grad(a, 1, 1, 1, 1);
    hd_backward(hd_fmax(a, LEAF(HD_SHAPE(4), NAN, 2, NAN, NAN)));
    assert_grad(a, 1, 0.5, 1, 1);
    hd_backward(hd_maximum_scalar(a, 0)); /* unlike relu, whose gradient at 0 is 0 */
    assert_grad(a, 1, 1, 0.5, 0);
}

/* ---- kinks ------------------------------------------------------------------------------------------------------- */
static void bounds_are_inside_clamp_and_outside_hardtanh(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(6), -2, -1, 0, 3, 4, NAN);
    hd_backward(hd_clamp(x, -1, 3));
    assert_grad(x, 0, 1, 1, 1, 0, 0);
    hd_backward(hd_clamp_min(x, -1));
    assert_grad(x, 0, 1, 1, 1, 1, 0);
    hd_backward(hd_clamp_max(x, 3));
    assert_grad(x, 1, 1, 1, 1, 0, 0);
    hd_backward(hd_hardtanh(x, -1, 3));
    assert_grad(x, 0, 0, 1, 0, 0, 0);
}

static void kinks_at_zero_have_the_gradient_zero(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(4), 0, -0.0, 2, -2);
    hd_backward(hd_relu(x));
    assert_grad(x, 0, 0, 1, 0);
    hd_backward(hd_abs(x));
    assert_grad(x, 0, 0, 1, -1);
    hd_backward(hd_relu6(hd_add_scalar(x, 6)));
    assert_grad(x, 0, 0, 0, 1);
    hd_backward(hd_hypot(x, hd_zeros_like(x)));
    assert_grad(x, 0, 0, 1, -1);
    hd_backward(hd_leaky_relu(x, 0.25)); /* the slope, as in PyTorch */
    assert_grad(x, 0.25, 0.25, 1, 0.25);
}

/* ---- softmax ----------------------------------------------------------------------------------------------------- */
/* Rows: one masked; all but one masked; all masked. p = softmax, the gradient is p (g - sum(g p)). */
static void masked_entries_of_softmax_have_the_gradient_zero(void **state) {
    (void)state;
    HD_SCOPE;
    const double inf = INFINITY, half = 0.5;
    hd_tensor *x = LEAF(HD_SHAPE(3, 3), 1, -inf, 1, /**/ -inf, -inf, 5, /**/ -inf, -inf, -inf);
    backward_from(hd_softmax(x, 1), 4, 7, 2, /**/ 1, 2, 3, /**/ 1, 1, 1);
    assert_grad(x, half, 0, -half, /**/ 0, 0, 0, /**/ NAN, NAN, NAN);
    backward_from(hd_log_softmax(x, 1), 4, 0, 2, /**/ 0, 0, 3, /**/ 1, 1, 1); /* g - p sum(g) */
    assert_grad(x, 1, 0, -1, /**/ 0, 0, 0, /**/ NAN, NAN, NAN);
    backward_from(hd_logsumexp(x, HD_AXES(1), NULL), 4, 7, 1); /* g p */
    assert_grad(x, 2, 0, 2, /**/ 0, 0, 7, /**/ NAN, NAN, NAN);
    hd_tensor *one = LEAF(HD_SHAPE(3), 1, -inf, 1); /* second derivatives: p_i (1 - p_i) and -p_i p_k */
    assert_values(second_derivatives(hd_logsumexp(one, HD_AXES(), NULL), one, 0), HD_F64, 0.25, 0, -0.25);
    assert_values(second_derivatives(hd_neg(hd_select(hd_log_softmax(one, 0), 0, 0)), one, 2), HD_F64, -0.25, 0, 0.25);
    assert_values(second_derivatives(hd_select(hd_softmax(one, 0), 0, 0), one, 1), HD_F64, 0, 0, 0);
    hd_tensor *logits = LEAF(HD_SHAPE(2, 3), 1, -inf, 1, /**/ 2, 2, -inf);
    hd_backward(hd_cross_entropy(logits, HD_TENSOR_I64(HD_SHAPE(2), 0, 1), NULL)); /* (p - target) / 2 */
    assert_grad(logits, -0.25, 0, 0.25, /**/ 0.25, -0.25, 0);
}

static void softmax_of_huge_logits_stays_finite(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(2, 2), 1e300, 1e300, /**/ -1e300, 1e300);
    backward_from(hd_softmax(x, 1), 4, 2, 1, 1);
    assert_grad(x, 0.5, -0.5, 0, 0);
    backward_from(hd_logsumexp(x, HD_AXES(1), NULL), 4, 3);
    assert_grad(x, 2, 2, 0, 3);
    hd_tensor *f = hd_requires_grad(HD_TENSOR_F32(HD_SHAPE(2), 200, 100)); /* e^200 is no f32 */
    hd_backward(hd_select(hd_log_softmax(f, 0), 0, 1));
    assert_values(hd_grad(f), HD_F32, -1, 1);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */
static void products_with_zeros(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(4, 3), 2, 3, 4, /**/ 0, 3, 4, /**/ 0, 0, 4, /**/ 0, 0, 0);
    hd_backward(hd_prod(x, HD_AXES(1), NULL));
    assert_grad(x, 12, 8, 6, /**/ 12, 0, 0, /**/ 0, 0, 0, /**/ 0, 0, 0);
    hd_tensor *one = LEAF(HD_SHAPE(3), 0, 2, 3), *two = LEAF(HD_SHAPE(3), 0, 0, 3);
    hd_tensor *y = hd_prod(one, HD_AXES(), NULL), *z = hd_prod(two, HD_AXES(), NULL);
    assert_values(second_derivatives(y, one, 0), HD_F64, 0, 3, 2);
    assert_values(second_derivatives(y, one, 1), HD_F64, 3, 0, 0);
    assert_values(second_derivatives(y, one, 2), HD_F64, 2, 0, 0);
    assert_values(second_derivatives(z, two, 0), HD_F64, 0, 3, 0);
    assert_values(second_derivatives(z, two, 1), HD_F64, 3, 0, 0);
    assert_values(second_derivatives(z, two, 2), HD_F64, 0, 0, 0);
    hd_tensor *wild = LEAF(HD_SHAPE(3), INFINITY, 0, 2); /* nothing is divided by */
    hd_backward(hd_prod(wild, HD_AXES(), NULL));
    assert_grad(wild, 0, INFINITY, NAN);
    hd_tensor *tiny = LEAF(HD_SHAPE(2), 1e-200, 1e-200);
    hd_backward(hd_prod(tiny, HD_AXES(), NULL));
    assert_grad(tiny, 1e-200, 1e-200);
}

/* ---- zero by nature ---------------------------------------------------------------------------------------------- */
static void flat_ops_give_zeros(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(3), 0.5, -1.5, 2);
    hd_tensor *flat[] = {hd_floor(x),
                         hd_ceil(x),
                         hd_round(x),
                         hd_trunc(x),
                         hd_sign(x),
                         hd_floor_divide_scalar(x, 0.3),
                         hd_cast(hd_gt_scalar(x, 0), HD_F64),
                         hd_cast(hd_eq(x, x), HD_F64),
                         hd_cast(hd_isnan(x), HD_F64),
                         hd_cast(hd_cast(x, HD_I32), HD_F64),
                         hd_cast(hd_argmax(x, 0, NULL), HD_F64),
                         hd_cast(hd_argmin(x, 0, NULL), HD_F64),
                         hd_cast(hd_any(x, HD_AXES(), NULL), HD_F64),
                         hd_cast(hd_count_nonzero(x, HD_AXES(), NULL), HD_F64),
                         hd_norm(x, 0, HD_AXES(), NULL)};
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; ++i) {
        hd_backward(flat[i]);
        assert_grad(x, 0, 0, 0);
    }
    hd_backward(hd_mul(hd_floor(x), x)); /* only the other factor's */
    assert_grad(x, 0, -2, 2);
    hd_backward(hd_mul(hd_detach(x), x));
    assert_grad(x, 0.5, -1.5, 2);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */
static void empty_tensors_have_empty_gradients(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shape = HD_SHAPE(0, 3);
    hd_tensor *x = hd_requires_grad(hd_zeros(shape, HD_F64)), *w = LEAF(HD_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    hd_tensor *bias = LEAF(HD_SHAPE(2), 1, 2), *row = LEAF(HD_SHAPE(3), 1, 2, 3);
    hd_tensor *i = hd_zeros(HD_SHAPE(0), HD_I64);
    hd_tensor *results[] = {hd_exp(x),
                            SUM(x),
                            hd_sum(x, HD_AXES(0), NULL),
                            hd_prod(x, HD_AXES(0), NULL),
                            hd_mean(x, HD_AXES(1), NULL),
                            hd_var(x, HD_AXES(1), 1, NULL),
                            hd_norm(x, 2, HD_AXES(1), NULL),
                            hd_softmax(hd_mul_scalar(x, 2), 1),
                            hd_reshape(x, HD_SHAPE(3, 0)),
                            hd_t(x),
                            hd_flip(x, HD_AXES(1)),
                            hd_slice(x, 1, HD_END, HD_END, -2),
                            hd_diagonal(x, 0, 0, 1),
                            hd_unfold(x, 1, 2, 1),
                            hd_pad(x, (const hd_padding[]){{1, 1}, {0, 0}}, 2, 0),
                            hd_copy(x),
                            hd_index_select(x, 0, i),
                            hd_affine(x, w, bias),
                            hd_matmul(x, hd_t(x)),
                            hd_mul(x, row)};
    assert_ok();
    for (size_t k = 0; k < sizeof results / sizeof results[0]; ++k) {
        hd_backward(results[k]);
        assert_ok();
        assert_true(hd_shape_equal(hd_tensor_shape(hd_grad(x)), shape));
        hd_set_grad(x, NULL);
    }
    assert_grad(w, 0, 0, 0, 0, 0, 0);
    assert_grad(bias, 0, 0);
    assert_grad(row, 0, 0, 0);
    hd_backward(hd_slice(w, 0, 1, 1, 1)); /* nothing of something */
    assert_grad(w, 0, 0, 0, 0, 0, 0);
    hd_backward(hd_index_select(row, 0, i));
    assert_grad(row, 0, 0, 0);
    hd_backward(hd_prod(hd_concat((hd_tensor *const[]){x, hd_unsqueeze(row, 0)}, 2, 0), HD_AXES(), NULL));
    assert_grad(row, 6, 3, 2);
}

static void scalars_have_scalar_gradients(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(), 3);
    hd_tensor *results[] = {hd_square(x),
                            hd_mul(x, x),
                            hd_square(SUM(x)),
                            hd_square(hd_max(x, HD_AXES(), NULL)),
                            hd_square(hd_prod(x, HD_AXES(), NULL)),
                            hd_square(hd_mean(x, HD_AXES(), NULL)),
                            hd_square(hd_norm(x, 2, HD_AXES(), NULL)),
                            hd_square(hd_reshape(x, HD_SHAPE(1, 1))),
                            hd_square(hd_permute(x, HD_AXES())),
                            hd_square(hd_pad(x, NULL, 0, 0)),
                            hd_matmul(hd_unsqueeze(x, 0), hd_flatten(x)),
                            hd_select(hd_square(hd_flatten(x)), 0, 0),
                            hd_square(hd_logsumexp(x, HD_AXES(), NULL))};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i) {
        hd_backward(results[i]);
        assert_grad(x, 6);
    }
    hd_backward(hd_broadcast_to(x, HD_SHAPE(2, 5)));
    assert_grad(x, 10);
    hd_backward(hd_gather(hd_flatten(x), 0, HD_TENSOR_I64(HD_SHAPE(3), 0, 0, 0)));
    assert_grad(x, 3);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
static void parameters_of_small_floats_have_gradients_of_their_dtype(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        const hd_dtype dtype = dtypes[i];
        hd_tensor *w = hd_param(hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 1.5f, -2), dtype));
        hd_tensor *x = hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 3, 0.25f), dtype), *y = hd_mul(w, x);
        hd_backward(y);
        assert_grad(w, 3, 0.25);
        hd_backward(hd_square(y)); /* 2 w x^2 */
        assert_grad(w, 27, -0.25);
        hd_backward(hd_mul(w, hd_cast(x, HD_F32))); /* meets f32, and its gradient comes back as it is */
        assert_grad(w, 3, 0.25);
        hd_backward(hd_broadcast_to(w, HD_SHAPE(4096, 2))); /* summed in f32: bf16 alone would stop at 256 */
        assert_grad(w, 4096, 4096);
        hd_backward(hd_mul(w, hd_ones(HD_SHAPE(4096, 1), dtype)));
        assert_grad(w, 4096, 4096);
        hd_backward(hd_index_select(w, 0, hd_zeros(HD_SHAPE(4096), HD_I64)));
        assert_grad(w, 4096, 0);
        hd_backward(hd_mean(hd_mul(w, hd_ones(HD_SHAPE(4096, 2), dtype)), HD_AXES(), NULL));
        assert_grad(w, 0.5, 0.5);
        hd_backward(hd_matmul(hd_ones(HD_SHAPE(1024, 2), dtype), w));
        assert_grad(w, 1024, 1024);
        hd_tensor *even = hd_param(hd_zeros(HD_SHAPE(4), dtype)); /* softmax: p (g - sum(g p)) with p = 1/4 */
        hd_backward(hd_select(hd_softmax(even, 0), 0, 1));
        assert_grad(even, -0.0625, 0.1875, -0.0625, -0.0625);
        hd_backward(hd_cross_entropy(even, HD_TENSOR_I64(HD_SHAPE(), 2), NULL));
        assert_grad(even, 0.25, 0.25, -0.75, 0.25);
        hd_clear_tape();
    }
}

static void dtypes_that_meet_give_each_its_own_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 1, 2), HD_F32)), *b = LEAF(HD_SHAPE(2), 3, 4);
    hd_tensor *h = hd_param(hd_cast(HD_TENSOR_F32(HD_SHAPE(2), 5, 6), HD_F16));
    hd_tensor *whole = HD_TENSOR_I64(HD_SHAPE(2), 7, 8);
    hd_backward(hd_mul(hd_mul(hd_mul(a, b), h), whole));
    assert_grad(a, 105, 192);
    assert_grad(b, 35, 96);
    assert_grad(h, 21, 64);
    hd_tensor *joined = hd_concat((hd_tensor *const[]){a, h, b}, 3, 0);
    assert_int_equal(hd_tensor_dtype(joined), HD_F64);
    hd_backward(hd_mul(joined, joined));
    assert_grad(a, 2, 4);
    assert_grad(h, 10, 12);
    assert_grad(b, 6, 8);
}

/* ---- higher orders ----------------------------------------------------------------------------------------------- */
static void derivatives_of_every_order(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(), 2), *d = hd_pow_scalar(x, 4);
    const double orders[] = {32, 48, 48, 24}; /* 4x^3, 12x^2, 24x, 24 */
    for (int i = 0; i < 4; ++i) {
        d = hd_tensors_get(hd_grad_of(d, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true)), 0);
        assert_values(d, HD_F64, orders[i]);
    }
    hd_tensor *v = LEAF(HD_SHAPE(2), 1, 2), *matrix = F64(HD_SHAPE(2, 2), 1, 5, 7, 3); /* v'Mv: M + M' */
    hd_tensor *y = hd_dot(v, hd_matmul(matrix, v));
    assert_values(second_derivatives(y, v, 0), HD_F64, 2, 12);
    assert_values(second_derivatives(y, v, 1), HD_F64, 12, 6);
}

/* Beyond where e^x overflows, in the branch that is not taken. */
static void second_derivatives_where_the_other_branch_overflows(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = LEAF(HD_SHAPE(1), 1000);
    hd_tensor *results[] = {hd_elu(x, 1.5), hd_celu(x, 1.5), hd_selu(x),        hd_softplus(x, 1, 20), hd_gelu(x),
                            hd_silu(x),     hd_mish(x),      hd_log_sigmoid(x), hd_sigmoid(x),         hd_tanh(x)};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i)
        assert_values(second_derivatives(results[i], x, 0), HD_F64, 0);
}

RUN(test(broadcasting_sums_over_what_was_stretched), test(a_tensor_used_twice_adds_both),
    test(overlapping_windows_add_up), test(views_of_views_lead_back), test(duplicates_in_gather_add_up),
    test(of_duplicates_in_scatter_the_last_has_the_gradient), test(ties_in_scatter_share_the_gradient),
    test(many_duplicates_add_up_exactly), test(where_lets_no_nan_through_from_the_branch_not_taken),
    test(norms_at_zero_have_the_subgradient_zero), test(the_deviation_of_equal_elements_has_the_gradient_zero),
    test(sqrt_at_zero_has_an_infinite_gradient), test(powers_of_zero), test(the_largest_share_the_gradient),
    test(maximum_of_equals_gives_half_each), test(bounds_are_inside_clamp_and_outside_hardtanh),
    test(kinks_at_zero_have_the_gradient_zero), test(masked_entries_of_softmax_have_the_gradient_zero),
    test(softmax_of_huge_logits_stays_finite), test(products_with_zeros), test(flat_ops_give_zeros),
    test(empty_tensors_have_empty_gradients), test(scalars_have_scalar_gradients),
    test(parameters_of_small_floats_have_gradients_of_their_dtype), test(dtypes_that_meet_give_each_its_own_back),
    test(derivatives_of_every_order), test(second_derivatives_where_the_other_branch_overflows),
    test(as_strided_of_overlapping_views_counts_once), test(as_strided_of_a_part_stays_within_it),
    test(more_ties_than_f16_can_count))
