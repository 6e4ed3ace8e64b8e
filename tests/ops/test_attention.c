/* Attention against the formula in other ops, for sizes around the edges of its blocks, masks of every kind and layout,
 * and its gradients; and what it refuses. */
#include "families.h"

/* softmax(q k^T scale + mask) v in f64; mask: bool or to be added. */
static hd_tensor *formula(hd_tensor *q, hd_tensor *k, hd_tensor *v, hd_tensor *mask, bool causal, double scale) {
    hd_tensor *s = hd_mul_scalar(hd_matmul(q, hd_t(k)), scale), *hidden = hd_full(HD_SHAPE(), HD_F64, -INFINITY);
    if (mask != NULL)
        s = hd_tensor_dtype(mask) == HD_BOOL ? hd_where(mask, s, hidden) : hd_add(s, hd_cast(mask, HD_F64));
    const int rank = hd_tensor_rank(q);
    if (causal) s = hd_where(hd_tri(hd_tensor_size(q, rank - 2), hd_tensor_size(k, rank - 2), 0, HD_BOOL), s, hidden);
    return hd_matmul(hd_softmax(s, -1), v);
}

static void check(hd_shape front, int64_t t, int64_t s, int64_t d, int64_t e, hd_tensor *mask, bool causal,
                  hd_dtype dtype) {
    HD_SCOPE;
    hd_shape shape[3] = {front, front, front};
    const int64_t last[3][2] = {{t, d}, {s, d}, {s, e}};
    hd_tensor *in[3], *exact[3];
    for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 2; ++k) shape[i].size[shape[i].rank++] = last[i][k];
        in[i] = hd_requires_grad(hd_cast(hd_randn(shape[i], HD_F32), dtype));
        exact[i] = hd_requires_grad(hd_copy(hd_cast(hd_detach(in[i]), HD_F64)));
    }
    const double scale = 1 / sqrt((double)d), close = dtype == HD_F64 ? 1e-12 : dtype == HD_F32 ? 2e-5 : 3e-2;
    hd_tensor *y = hd_attention(in[0], in[1], in[2], mask, causal, 0);
    hd_tensor *z = formula(exact[0], exact[1], exact[2], mask, causal, scale);
    assert_ok();
    assert_int_equal(hd_tensor_dtype(y), dtype);
    assert_close(hd_cast(y, HD_F64), z, close, close);
    hd_tensor *seed = hd_cast(hd_randn(hd_tensor_shape(y), HD_F32), dtype);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
    hd_backward_with(z, HD_OPTS(hd_backward_opts, .seed = hd_cast(seed, HD_F64)));
    assert_ok();
    for (int i = 0; i < 3; ++i)
        assert_close(hd_cast(hd_grad(in[i]), HD_F64), hd_grad(exact[i]), 20 * close, 20 * close);
    hd_clear_tape();
}

static void sizes_around_blocks(void **state) {
    (void)state;
    hd_seed(11);
    const int64_t sizes[] = {1, 2, 11, 31, 32, 47, 48, 49, 127, 128, 129, 300};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k += 1 + i % 2)
            check(HD_SHAPE(2), sizes[i], sizes[k], 1 + (int64_t)(i * 7 % 40), 1 + (int64_t)(k * 5 % 37), NULL,
                  (i + k) % 3 == 0, (i + k) % 2 ? HD_F32 : HD_F64);
    check(HD_SHAPE(2, 3), 130, 130, 64, 64, NULL, true, HD_F32);
    check(HD_SHAPE(), 60, 500, 16, 16, NULL, false, HD_F32);
    check(HD_SHAPE(2), 20, 30, 8, 8, NULL, false, HD_BF16);
    check(HD_SHAPE(2), 20, 30, 8, 8, NULL, true, HD_F16);
}

static void masks_of_every_kind(void **state) {
    (void)state;
    hd_seed(12);
    HD_SCOPE;
    const int64_t t = 70, s = 150;
    hd_tensor *some = hd_gt_scalar(hd_randn(HD_SHAPE(t, s), HD_F32), -0.5), *added = hd_randn(HD_SHAPE(t, s), HD_F32);
    check(HD_SHAPE(2, 2), t, s, 8, 9, some, false, HD_F32);
    check(HD_SHAPE(2, 2), t, s, 8, 9, added, false, HD_F32);
    check(HD_SHAPE(2, 2), t, s, 8, 9, added, true, HD_F64);
    check(HD_SHAPE(2, 2), t, s, 8, 9, hd_gt_scalar(hd_randn(HD_SHAPE(2, 1, 1, s), HD_F32), -0.5), false, HD_F32);
    check(HD_SHAPE(2, 2), t, s, 8, 9, hd_randn(HD_SHAPE(2, t, 1), HD_F32), false, HD_F32);
    check(HD_SHAPE(2, 2), s, t, 8, 9, hd_t(added), false, HD_F32);
    check(HD_SHAPE(2, 2), t, s, 8, 9, hd_cast(added, HD_F64), false, HD_F32);
}

static void large_and_special_scores(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *q = hd_full(HD_SHAPE(1, 1), HD_F32, 100),
              *k = hd_reshape(hd_arange(0, 300, 1, HD_F32), HD_SHAPE(300, 1));
    hd_tensor *v = hd_reshape(hd_arange(0, 300, 1, HD_F32), HD_SHAPE(300, 1)); /* scores to 29900: the last takes all */
    assert_values(hd_attention(q, k, v, NULL, false, 1), HD_F32, 299);
    assert_values(hd_attention(hd_mul_scalar(q, -2), k, v, NULL, false, 1), HD_F32, 0);
    assert_values(
        hd_attention(q, HD_TENSOR_F32(HD_SHAPE(2, 1), NAN, 1), HD_TENSOR_F32(HD_SHAPE(2, 1), 1, 2), NULL, false, 1),
        HD_F32, NAN);
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 1), HD_F32);
    assert_values(hd_attention(q, none, none, NULL, false, 1), HD_F32, 0); /* sees nothing */
    hd_tensor *blind = HD_TENSOR_F32(HD_SHAPE(1, 2), -INFINITY, 0);
    assert_values(hd_attention_gradient(q, q, none, none, NULL, blind, false, 1), HD_F32, 0);
    assert_int_equal(hd_tensor_count(hd_attention(none, q, q, NULL, true, 1)), 0);
    assert_values(hd_attention_gradient(none, none, q, q, NULL, NULL, true, 1), HD_F32, 0, 0);
}

static void any_layout(void **state) {
    (void)state;
    hd_seed(13);
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(2, 10, 3, 4), HD_F32), *heads = hd_permute(x, HD_AXES(0, 2, 1, 3));
    hd_tensor *plain = hd_contiguous(heads);
    assert_same(hd_attention(heads, heads, heads, NULL, true, 0), hd_attention(plain, plain, plain, NULL, true, 0));
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    hd_seed(14);
    HD_SCOPE;
    hd_tensor *q = hd_randn(HD_SHAPE(3, 200, 16), HD_F32), *results[2][2];
    const int threads = hd_num_threads();
    for (int i = 0; i < 2; ++i) {
        hd_set_num_threads(i == 0 ? 1 : 4);
        results[i][0] = hd_attention(q, q, q, NULL, true, 0);
        hd_tensor *leaf = hd_requires_grad(hd_copy(q));
        hd_backward(hd_sum(hd_square(hd_attention(leaf, leaf, leaf, NULL, true, 0)), HD_AXES(), NULL));
        results[i][1] = hd_copy(hd_grad(leaf));
        hd_clear_tape();
    }
    hd_set_num_threads(threads);
    for (int k = 0; k < 2; ++k) assert_same(results[0][k], results[1][k]);
}

/* With nothing dropped it is hd_attention, whatever the mask. */
static void without_dropout_it_is_attention(void **state) {
    (void)state;
    hd_seed(15);
    HD_SCOPE;
    hd_tensor *q = hd_randn(HD_SHAPE(2, 3, 5, 4), HD_F32), *k = hd_randn(HD_SHAPE(2, 3, 7, 4), HD_F32),
              *v = hd_randn(HD_SHAPE(2, 3, 7, 6), HD_F32);
    hd_tensor *some = hd_gt_scalar(hd_randn(HD_SHAPE(5, 7), HD_F32), 0), *none = hd_zeros(HD_SHAPE(5, 7), HD_BOOL);
    hd_tensor *added = hd_where_scalar(some, hd_randn(HD_SHAPE(5, 7), HD_F32), -INFINITY);
    hd_tensor *masks[] = {NULL, some, none, added};
    for (int i = 0; i < 8; ++i) {
        hd_tensor *mask = masks[i / 2];
        const bool causal = i % 2 != 0;
        assert_close(hd_attention_dropout(q, k, v, mask, causal, 0, 0), hd_attention(q, k, v, mask, causal, 0), 1e-5,
                     1e-6);
        assert_close(hd_attention_dropout(q, k, v, mask, causal, -2, 0), hd_attention(q, k, v, mask, causal, -2), 1e-5,
                     1e-6);
    }
    hd_tensor *large = hd_full(HD_SHAPE(3, 4), HD_F16, 300); /* their products are more than f16 holds, if not scaled */
    assert_close(hd_attention_dropout(large, large, large, NULL, true, 1e-3, 0), large, 1e-3, 0);
    assert_int_equal(hd_tensor_dtype(hd_attention_dropout(large, large, large, NULL, true, 1e-3, 0.5)), HD_F16);
}

/* Weights are 0, or scaled, with rows of the identity as v; the gradient has the same. */
static void weights_are_dropped(void **state) {
    (void)state;
    hd_seed(16);
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    const int64_t t = 40, s = 60;
    hd_tensor *q = hd_randn(HD_SHAPE(t, 8), HD_F64), *k = hd_randn(HD_SHAPE(s, 8), HD_F64),
              *v = hd_param(hd_eye(s, s, HD_F64));
    hd_tensor *whole = hd_attention(q, k, hd_detach(v), NULL, true, 0);
    hd_tensor *y = hd_attention_dropout(q, k, v, NULL, true, 0, 0.25);
    hd_tensor *kept = hd_cast(hd_ne_scalar(y, 0), HD_F64), *seen = hd_tri(t, s, 0, HD_F64);
    assert_close(hd_detach(y), hd_mul(hd_div_scalar(whole, 0.75), kept), 1e-12, 0);
    const double share = hd_item(hd_sum(kept, HD_AXES(), NULL)) / hd_item(hd_sum(seen, HD_AXES(), NULL));
    if (fabs(share - 0.75) > 0.06) fail_msg("a share of %g is kept, not 0.75", share);
    hd_tensor *seed = hd_randn(HD_SHAPE(t, s), HD_F64);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
    assert_close(hd_grad(v), hd_matmul(hd_t(hd_detach(y)), seed), 1e-12, 1e-12);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *q = hd_zeros(HD_SHAPE(2, 3, 4), HD_F32), *k = hd_zeros(HD_SHAPE(2, 5, 4), HD_F32);
    assert_null(hd_attention(q, hd_zeros(HD_SHAPE(2, 5, 3), HD_F32), k, NULL, false, 0));
    assert_error(HD_ERROR_SHAPE,
                 "hd_attention: q [2,3,4], k [2,5,3], v [2,5,4]; they must be [..., t, d], [..., s, d]");
    assert_null(hd_attention(q, k, q, NULL, false, 0));
    assert_error(HD_ERROR_SHAPE, "v [2,3,4]");
    assert_null(hd_attention(q, hd_zeros(HD_SHAPE(1, 5, 4), HD_F32), k, NULL, false, 0));
    assert_error(HD_ERROR_SHAPE, "k [1,5,4]");
    hd_tensor *row = hd_zeros(HD_SHAPE(4), HD_F32);
    assert_null(hd_attention(row, row, row, NULL, false, 0));
    assert_error(HD_ERROR_SHAPE, "q [4]");
    assert_null(hd_attention(q, k, k, hd_zeros(HD_SHAPE(3, 4), HD_F32), false, 0));
    assert_false(hd_ok());
    hd_error_clear();
    assert_null(hd_attention(q, k, k, hd_zeros(HD_SHAPE(7, 2, 3, 5), HD_F32), false, 0));
    assert_error(HD_ERROR_SHAPE, "it must broadcast to the scores [2,3,5]");
    assert_null(hd_attention(q, k, k, hd_zeros(HD_SHAPE(3, 5), HD_I32), false, 0));
    assert_error(HD_ERROR_DTYPE, "a mask of i32");
    assert_null(hd_attention(q, k, k, NULL, false, NAN));
    assert_error(HD_ERROR_VALUE, "scale");
    hd_tensor *whole = hd_zeros(HD_SHAPE(3, 4), HD_I32);
    assert_null(hd_attention(whole, whole, whole, NULL, false, 0));
    assert_error(HD_ERROR_DTYPE, "i32; it takes floats");
    assert_null(hd_attention(NULL, k, k, NULL, false, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "q");
    assert_null(hd_attention_gradient(k, q, k, k, NULL, NULL, false, 0));
    assert_error(HD_ERROR_SHAPE, "gradient [2,5,4]; the result of attention is [2,3,4]");
    assert_null(hd_attention_gradient(q, q, k, k, NULL, row, false, 0));
    assert_error(HD_ERROR_SHAPE, "statistics [4] of f32; they are floats [2,3,2]");
    assert_null(hd_attention_dropout(q, k, q, NULL, false, 0, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_attention_dropout: q [2,3,4], k [2,5,4], v [2,3,4]");
    assert_null(hd_attention_dropout(q, k, k, NULL, false, 0, 1.5));
    assert_error(HD_ERROR_VALUE, "hd_attention_dropout: 1.5 is no probability");
    assert_null(hd_attention_dropout(q, k, k, NULL, false, INFINITY, 0.1));
    assert_error(HD_ERROR_VALUE, "hd_attention_dropout: scale = inf");
    assert_null(hd_attention_dropout(whole, whole, whole, NULL, false, 0, 0.1));
    assert_error(HD_ERROR_DTYPE, "hd_attention_dropout: i32; it takes floats");
}

RUN(test(sizes_around_blocks), test(masks_of_every_kind), test(large_and_special_scores), test(any_layout),
    test(threads_do_not_change_the_result), test(without_dropout_it_is_attention), test(weights_are_dropped),
    test(bad_arguments))
