/* One list of calls for the tests of graphs and scripts: every op of ops.def, as functions of up to three float
 * tensors (ops/test_everything.c misses what is not here). What is checked of it (a graph's text, a script's outputs,
 * gradients) is checked of every op.
 *
 * CALL(label, IN(shapes of a, b, c), result). Results that have a gradient are floats. */
#ifndef HD_TESTS_GRAPH_CALLS_H
#define HD_TESTS_GRAPH_CALLS_H

#include "builders.h"
#include "differences.h"
#include "lapack.h"
#include "own_ops.h"
#include "core/thread.h"
#include "graph/builder.h"

#include <math.h>

#define IN(...) __VA_ARGS__
#define S       HD_SHAPE
#define X       HD_AXES
#define KEEP    HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define I64     HD_TENSOR_I64
#define PAD(...)                                                                                                       \
    (const hd_padding[]) { __VA_ARGS__ }
#define FIXED hd_detach /* the operands of what has no gradient itself */
#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))

/* Both results of an op in one. */
static inline hd_tensor *both_of(hd_pair p) {
    return hd_mul(p.values, hd_add_scalar(hd_cast(p.indices, (hd_dtype)HD_F32), 1));
}

/* All that is known of what a tensor has. */
static inline hd_tensor *uniques_of(hd_uniques u) {
    return hd_mul(hd_mul(u.values, u.counts), hd_sum(hd_mul_scalar(u.inverse, 2), HD_AXES(), NULL));
}
#define SIZED(...) HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_##__VA_ARGS__)
#define UNIQUE     HD_OPTS(hd_unique_opts, .inverse = true, .counts = true)

/* What a list begins and ends with; shapes meet. */
static inline hd_tensor *first_and_last(hd_tensors *list) {
    return hd_mul(hd_tensors_get(list, 0), hd_tensors_get(list, -1));
}

/* Square matrices that are far from singular, and positive definite ones: made of what operands are. */
static inline hd_tensor *turned_matrix(hd_tensor *x) { return hd_transpose(x, -2, -1); }
static inline hd_tensor *more_diagonal(hd_tensor *x, double value) {
    return hd_add(x, hd_mul_scalar(hd_eye(hd_tensor_size(x, -2), hd_tensor_size(x, -1), HD_F32), value));
}
static inline hd_tensor *far_matrix(hd_tensor *x) { return more_diagonal(x, 4); }
static inline hd_tensor *positive_matrix(hd_tensor *x) { return more_diagonal(hd_matmul(x, turned_matrix(x)), 1); }
/* With singular values, or eigenvalues, that are far from each other and from 0: vectors turn quickly where they are
 * not. */
static inline hd_tensor *spread_matrix(hd_tensor *x) {
    const int64_t m = hd_tensor_size(x, -2);
    hd_tensor *steps = hd_reshape(hd_linspace(8, 8 * (double)m, m, HD_F32), HD_SHAPE(m, 1));
    return hd_add(x, hd_mul(hd_eye(m, hd_tensor_size(x, -1), HD_F32), steps));
}
static inline hd_tensor *symmetric_matrix(hd_tensor *x) { return spread_matrix(hd_add(x, turned_matrix(x))); }
/* Parts of one call, in one. Products are signs of a pair of vectors, which are anybody's, twice. */
static inline hd_tensor *both_of_lu(hd_pair p) {
    return hd_mul(p.values, hd_sum(hd_cast(p.indices, HD_F32), HD_AXES(-1), NULL));
}
static inline hd_tensor *all_of_lu(hd_lu_parts p) {
    return hd_take_along_axis(hd_matmul(hd_square(p.l), p.u), 0, hd_unsqueeze(p.rows, 1));
}
static inline hd_tensor *both_of_qr(hd_qr_parts p) { return hd_matmul(hd_square(p.q), hd_square(p.r)); }
static inline hd_tensor *both_of_spectrum(hd_spectrum p) {
    return hd_mul(hd_square(p.vectors), hd_unsqueeze(p.values, -2));
}
static inline hd_tensor *all_of_svd(hd_svd_parts p) {
    return hd_matmul(hd_mul(p.u, hd_unsqueeze(hd_sqrt(p.s), -2)), p.vh);
}
#define TRIANGULAR(...) HD_OPTS(hd_triangular_opts, __VA_ARGS__)

#define CALLS(CALL)                                                                                                    \
    /* made of nothing */                                                                                              \
    CALL(full, IN(S(2)), hd_mul(a, hd_full(S(2), HD_F32, 0.1)))                                                        \
    CALL(zeros, IN(S(2)), hd_add(a, hd_zeros(S(2), HD_F32)))                                                           \
    CALL(ones, IN(S(2)), hd_add(a, hd_ones(S(2), HD_F32)))                                                             \
    CALL(zeros_like, IN(S(2, 3)), hd_add(a, hd_zeros_like(a)))                                                         \
    CALL(ones_like, IN(S(2, 3)), hd_add(a, hd_ones_like(a)))                                                           \
    CALL(empty_like, IN(S(2, 3)), hd_concat(LIST(a, hd_empty_like(hd_narrow(a, 0, 0, 0))), 0))                         \
    CALL(full_like, IN(S(2, 3)), hd_mul(a, hd_full_like(a, 0.1)))                                                      \
    CALL(full_special, IN(S(2)), hd_maximum(a, hd_full(S(3, 1), HD_F32, -INFINITY)))                                   \
    CALL(empty, IN(S(2)), hd_concat(LIST(a, hd_empty(S(0), HD_F32)), 0))                                               \
    CALL(range, IN(S(3)), hd_mul(a, hd_arange(1, 4, 1, HD_F32)))                                                       \
    CALL(range_back, IN(S(3)), hd_mul(a, hd_range(0.5, -1, 3, HD_F32)))                                                \
    CALL(linspace, IN(S(4)), hd_add(a, hd_linspace(-1, 0.1, 4, HD_F32)))                                               \
    CALL(logspace, IN(S(3)), hd_mul(a, hd_logspace(0, 1, 3, HD_F32)))                                                  \
    CALL(eye, IN(S(2, 3)), hd_mul(a, hd_eye(2, 3, HD_F32)))                                                            \
    CALL(tri, IN(S(3, 3)), hd_mul(a, hd_tri(3, 3, -1, HD_F32)))                                                        \
    CALL(uniform, IN(S(2, 2)), hd_mul(a, hd_uniform(S(2, 2), HD_F32, -1, 3)))                                          \
    CALL(rand, IN(S(4)), hd_mul(a, hd_rand(S(4), HD_F32)))                                                             \
    CALL(rand_like, IN(S(4)), hd_mul(a, hd_rand_like(a)))                                                              \
    CALL(randn_like, IN(S(4)), hd_mul(a, hd_randn_like(a)))                                                            \
    CALL(randn, IN(S(4)), hd_mul(a, hd_randn(S(4), HD_F32)))                                                           \
    CALL(normal, IN(S(2, 2)), hd_mul(a, hd_normal(S(2, 2), HD_F32, 0.5, 2)))                                           \
    CALL(randint, IN(S(4)), hd_mul(a, hd_cast(hd_randint(S(4), HD_I32, -5, 100), HD_F32)))                             \
    CALL(permutation, IN(S(5)), hd_index_select(a, 0, hd_permutation(5)))                                              \
    CALL(multinomial, IN(S(4)), hd_index_select(a, 0, hd_multinomial(a, 3, false)))                                    \
    CALL(multinomial_rows, IN(S(2, 3)), hd_gather(a, 1, hd_multinomial(a, 4, true)))                                   \
    CALL(bernoulli, IN(S(6)), hd_mul(a, hd_bernoulli(S(6), HD_F32, 0.5)))                                              \
    CALL(bernoulli_of, IN(S(6)), hd_mul(a, hd_bernoulli_of(hd_sigmoid(hd_detach(a)))))                                 \
    CALL(exponential, IN(S(4)), hd_mul(a, hd_exponential(S(4), HD_F32, 2)))                                            \
    CALL(truncated_normal, IN(S(4)), hd_mul(a, hd_truncated_normal(S(4), HD_F32, 1, 2, 0, 3)))                         \
    CALL(dropout, IN(S(3, 4)), hd_dropout(hd_square(a), 0.5))                                                          \
    CALL(alpha_dropout, IN(S(3, 4)), hd_alpha_dropout(hd_square(a), 0.5))                                              \
    /* types */                                                                                                        \
    CALL(cast, IN(S(3)), hd_cast(hd_cast(a, HD_F16), HD_F64))                                                          \
    CALL(cast_small, IN(S(3)), hd_mul(hd_cast(a, HD_BF16), hd_cast(a, HD_F8E4M3)))                                     \
    CALL(cast_integer, IN(S(3)), hd_mul(a, hd_cast(hd_cast(hd_mul_scalar(a, 100), HD_I16), HD_F32)))                   \
    CALL(bitcast, IN(S(3)), hd_mul(a, hd_cast(hd_bitcast(hd_detach(a), HD_I32), HD_F32)))                              \
    /* reductions */                                                                                                   \
    CALL(sum, IN(S(2, 3, 2)), hd_sum(a, X(0, 2), NULL))                                                                \
    CALL(sum_all, IN(S(2, 3)), hd_sum(a, X(), NULL))                                                                   \
    CALL(sum_kept, IN(S(2, 3)), hd_sum(a, X(-1), KEEP))                                                                \
    CALL(sum_scalar, IN(S()), hd_sum(a, X(), NULL))                                                                    \
    CALL(sum_empty, IN(S(2, 0), S(2)), hd_add(hd_sum(a, X(1), NULL), b))                                               \
    CALL(prod, IN(S(2, 3)), hd_prod(a, X(1), NULL))                                                                    \
    CALL(max, IN(S(2, 3)), hd_max(a, X(1), KEEP))                                                                      \
    CALL(min, IN(S(2, 3)), hd_min(a, X(0), NULL))                                                                      \
    CALL(any, IN(S(2, 3)), hd_where(hd_any(hd_gt_scalar(a, 1), X(1), KEEP), a, hd_neg(a)))                             \
    CALL(all, IN(S(2, 3)), hd_where(hd_all(hd_gt_scalar(a, 0.5), X(1), KEEP), a, hd_neg(a)))                           \
    CALL(count_nonzero, IN(S(2, 3)), hd_mul(a, hd_count_nonzero(hd_gt_scalar(a, 1), X(1), KEEP)))                      \
    CALL(argmax, IN(S(2, 3)), hd_take_along_axis(a, 1, hd_argmax(a, 1, KEEP)))                                         \
    CALL(argmin, IN(S(2, 3)), hd_take_along_axis(a, 0, hd_argmin(a, 0, KEEP)))                                         \
    CALL(max_with_index, IN(S(2, 3)), hd_max_with_index(a, 1, NULL).values)                                            \
    CALL(max_with_index_both, IN(S(2, 3)), both_of(hd_max_with_index(a, 0, KEEP)))                                     \
    CALL(min_with_index, IN(S(2, 3, 2)), both_of(hd_min_with_index(a, 1, NULL)))                                       \
    CALL(sort, IN(S(2, 5)), both_of(hd_sort(a, 1, false)))                                                             \
    CALL(sort_descending, IN(S(4, 3)), hd_mul(hd_sort(a, 0, true).values, a))                                          \
    CALL(sort_indices_alone, IN(S(2, 5)), hd_gather(a, 1, hd_sort(a, 1, true).indices))                                \
    CALL(topk, IN(S(2, 6)), both_of(hd_topk(a, 3, 1, true)))                                                           \
    CALL(topk_smallest, IN(S(6, 2)), hd_topk(a, 2, 0, false).values)                                                   \
    CALL(searchsorted, IN(S(2, 3), S(2, 4)), hd_mul(b, hd_searchsorted(hd_sort(a, 1, false).values, b, false)))        \
    CALL(searchsorted_shared, IN(S(5), S(2, 3)), hd_mul(b, hd_searchsorted(hd_sort(a, 0, false).values, b, true)))     \
    CALL(argsort, IN(S(2, 5)), hd_gather(a, 1, hd_argsort(a, 1, true)))                                                \
    CALL(kthvalue, IN(S(2, 5)), both_of(hd_kthvalue(a, 2, 1, NULL)))                                                   \
    CALL(median, IN(S(4, 2)), both_of(hd_median(a, 0, KEEP)))                                                          \
    CALL(quantile, IN(S(2, 5)), hd_quantile(a, 0.3, 1, NULL))                                                          \
    CALL(quantiles, IN(S(4, 3)), hd_quantiles(a, (const double[]){0.6, 0, 1}, 3, 0, KEEP))                             \
    CALL(bincount, IN(S(4)), hd_bincount(I64(S(4), 2, 0, 2, 1), a, 4))                                                 \
    CALL(histc, IN(S(7)), hd_mul(a, hd_sum(hd_histc(a, 3, 0.5, 1.5), X(), NULL)))                                      \
    CALL(nonzero, IN(S(2, 3)), hd_mul(a, hd_t(hd_nonzero_padded(hd_gt_scalar(a, 1), 3, 7))))                           \
    CALL(masked_select, IN(S(2, 3)), hd_masked_select_padded(a, hd_gt_scalar(a, 1), 4, -1))                            \
    CALL(unique, IN(S(2, 3)), uniques_of(hd_unique_padded(a, 4, -1, UNIQUE)))                                          \
    CALL(cumsum, IN(S(2, 5)), hd_cumsum(a, 1, NULL))                                                                   \
    CALL(cumsum_before, IN(S(4, 3)), hd_cumsum(a, 0, HD_OPTS(hd_scan_opts, .exclusive = true)))                        \
    CALL(cumsum_back, IN(S(2, 4, 3)), hd_cumsum(a, 1, HD_OPTS(hd_scan_opts, .exclusive = true, .reverse = true)))      \
    CALL(cumsum_integers, IN(S(2, 5)), hd_mul(a, hd_cumsum(hd_gt_scalar(a, 1), 1, NULL)))                              \
    CALL(cumsum_scalar, IN(S()), hd_cumsum(a, 0, NULL))                                                                \
    CALL(cumprod, IN(S(2, 5)), hd_cumprod(a, -1, NULL))                                                                \
    CALL(cumprod_back, IN(S(4, 3)), hd_cumprod(a, 0, HD_OPTS(hd_scan_opts, .exclusive = true, .reverse = true)))       \
    CALL(logcumsumexp, IN(S(2, 5)), hd_logcumsumexp(a, 1, NULL))                                                       \
    CALL(logcumsumexp_back, IN(S(4, 3)), hd_logcumsumexp(a, 0, HD_OPTS(hd_scan_opts, .reverse = true)))                \
    CALL(cummax, IN(S(2, 5)), both_of(hd_cummax(a, 1, NULL)))                                                          \
    CALL(cummax_back, IN(S(5, 3)), hd_cummax(a, 0, HD_OPTS(hd_scan_opts, .reverse = true)).values)                     \
    CALL(cummin, IN(S(4, 3)), both_of(hd_cummin(a, 0, NULL)))                                                          \
    CALL(cummin_indices_alone, IN(S(2, 5)), hd_gather(a, 1, hd_cummin(a, 1, NULL).indices))                            \
    CALL(mean, IN(S(2, 3)), hd_mean(a, X(1), NULL))                                                                    \
    CALL(var, IN(S(2, 3)), hd_var(a, X(1), 1, NULL))                                                                   \
    CALL(std, IN(S(2, 3)), hd_std(a, X(0), 0, KEEP))                                                                   \
    CALL(norm, IN(S(2, 3)), hd_norm(a, 3, X(1), NULL))                                                                 \
    CALL(norm_inf, IN(S(2, 3)), hd_norm(a, INFINITY, X(1), NULL))                                                      \
    CALL(logsumexp, IN(S(2, 3)), hd_logsumexp(a, X(1), NULL))                                                          \
    CALL(softmax, IN(S(2, 3)), hd_softmax(a, -1))                                                                      \
    CALL(log_softmax, IN(S(2, 3)), hd_log_softmax(a, 0))                                                               \
    CALL(sum_to_shape, IN(S(2, 3, 2)), hd_sum_to_shape(a, S(3, 1)))                                                    \
    /* views */                                                                                                        \
    CALL(reshape, IN(S(2, 3)), hd_reshape(a, S(3, -1)))                                                                \
    CALL(reshape_turned, IN(S(2, 3)), hd_reshape(hd_t(a), S(6)))                                                       \
    CALL(permute, IN(S(2, 3, 2)), hd_permute(a, X(2, 0, 1)))                                                           \
    CALL(broadcast_to, IN(S(3)), hd_broadcast_to(a, S(2, 3)))                                                          \
    CALL(slice, IN(S(2, 7)), hd_slice(a, 1, 1, HD_END, 3))                                                             \
    CALL(slice_back, IN(S(5, 2)), hd_slice(a, 0, HD_END, HD_END, -2))                                                  \
    CALL(slice_empty, IN(S(3, 2), S(2)), hd_add(hd_sum(hd_slice(a, 0, 2, 1, 1), X(0), NULL), b))                       \
    CALL(diagonal, IN(S(3, 4)), hd_diagonal(a, 1, 0, 1))                                                               \
    CALL(diagonal_back, IN(S(3, 2, 3)), hd_diagonal(a, -1, 2, 0))                                                      \
    CALL(unfold, IN(S(2, 7)), hd_unfold(a, 1, 3, 2))                                                                   \
    CALL(as_strided, IN(S(6)), hd_as_strided(a, S(3, 3), S(1, 1), 1))                                                  \
    CALL(as_strided_turned, IN(S(2, 3)), hd_as_strided(hd_t(a), S(2, 2), S(-1, 2), 3))                                 \
    CALL(detach, IN(S(3)), hd_mul(a, hd_detach(hd_exp(a))))                                                            \
    CALL(flip, IN(S(2, 3)), hd_flip(a, X()))                                                                           \
    CALL(select, IN(S(3, 2)), hd_select(a, 0, -1))                                                                     \
    CALL(narrow, IN(S(2, 5)), hd_narrow(a, 1, 1, 3))                                                                   \
    CALL(flatten, IN(S(2, 3)), hd_flatten(hd_t(a)))                                                                    \
    CALL(unsqueeze, IN(S(2, 3)), hd_unsqueeze(a, 1))                                                                   \
    CALL(transpose, IN(S(2, 3, 2)), hd_transpose(a, 0, -1))                                                            \
    CALL(expand, IN(S(2, 1)), hd_expand(a, S(3, -1, 2)))                                                               \
    CALL(split, IN(S(2, 5)), first_and_last(hd_split(a, 2, 1)))                                                        \
    CALL(chunk, IN(S(5, 2)), first_and_last(hd_chunk(a, 4, 0)))                                                        \
    CALL(unbind, IN(S(3, 2, 2)), first_and_last(hd_unbind(a, -1)))                                                     \
    CALL(squeeze, IN(S(1, 3, 1)), hd_squeeze(a, X(0)))                                                                 \
    CALL(move_axis, IN(S(2, 3, 2)), hd_move_axis(a, -1, 0))                                                            \
    /* movement */                                                                                                     \
    CALL(contiguous, IN(S(2, 3)), hd_contiguous(hd_t(a)))                                                              \
    CALL(to, IN(S(2, 3)), hd_neg(hd_to(a, hd_current_device())))                                                       \
    CALL(copy, IN(S(2, 3)), hd_copy(a))                                                                                \
    CALL(concat, IN(S(2, 1), S(2, 3), S(2, 2)), hd_concat(LIST(a, b, a, c), 1))                                        \
    CALL(concat_empty, IN(S(0, 2), S(2, 2)), hd_concat(LIST(a, b), 0))                                                 \
    CALL(pad, IN(S(2, 3)), hd_pad(a, PAD({1, 0}, {0, 2}), 2, -0.5))                                                    \
    CALL(pad_cut, IN(S(2, 2, 4)), hd_pad(a, PAD({-1, 2}), 1, INFINITY))                                                \
    CALL(pad_with, IN(S(4)), hd_pad_with(a, PAD({2, 1}), 1, HD_PAD_REFLECT))                                           \
    CALL(stack, IN(S(3), S(3)), hd_stack(LIST(a, b), 1))                                                               \
    CALL(roll, IN(S(2, 3)), hd_roll(a, 2, 1))                                                                          \
    CALL(tile, IN(S(2, 1)), hd_tile(a, S(2, 3)))                                                                       \
    CALL(repeat_interleave, IN(S(2, 2)), hd_repeat_interleave(a, 2, 0))                                                \
    CALL(tril, IN(S(3, 3)), hd_tril(a, 0))                                                                             \
    CALL(triu, IN(S(2, 3, 3)), hd_triu(a, 1))                                                                          \
    CALL(diag, IN(S(3)), hd_diag(a, -1))                                                                               \
    CALL(diag_of, IN(S(2, 3)), hd_diag(a, 1))                                                                          \
    CALL(diag_embed, IN(S(2, 3)), hd_diag_embed(a, 1, 0, -1))                                                          \
    CALL(trace, IN(S(3, 2, 3)), hd_trace(a, -1, 0, 2))                                                                 \
    CALL(meshgrid, IN(S(2), S(3)), first_and_last(hd_meshgrid(LIST(a, b), HD_INDEXING_XY)))                            \
    /* indexing */                                                                                                     \
    CALL(gather, IN(S(3, 2)), hd_gather(a, 0, I64(S(2, 2), 2, -1, 0, 0)))                                              \
    CALL(index_select, IN(S(2, 4)), hd_index_select(a, 1, I64(S(3), 3, -4, 3)))                                        \
    CALL(scatter_set, IN(S(4), S(2)), hd_scatter(a, 0, I64(S(2), 3, 1), b, HD_SCATTER_SET))                            \
    CALL(scatter_add, IN(S(4), S(3)), hd_scatter(a, 0, I64(S(3), 3, 3, 0), b, HD_SCATTER_ADD))                         \
    CALL(scatter_mul, IN(S(4), S(3)), hd_scatter(a, 0, I64(S(3), 3, 3, 0), b, HD_SCATTER_MUL))                         \
    CALL(scatter_max, IN(S(4), S(3)), hd_scatter(a, 0, I64(S(3), 3, 2, 0), b, HD_SCATTER_MAX))                         \
    CALL(scatter_min, IN(S(4), S(3)), hd_scatter(a, 0, I64(S(3), 3, 2, 0), b, HD_SCATTER_MIN))                         \
    CALL(take, IN(S(2, 3)), hd_take(a, I64(S(2, 2), 5, 0, -1, 1)))                                                     \
    CALL(index_add, IN(S(3, 2), S(2, 2)), hd_index_add(a, 0, I64(S(2), 2, 0), b))                                      \
    CALL(index_copy, IN(S(3, 2), S(2, 2)), hd_index_copy(a, 0, I64(S(2), 2, 0), b))                                    \
    CALL(masked_fill, IN(S(2, 3)), hd_masked_fill(a, hd_gt_scalar(a, 1), -7))                                          \
    CALL(one_hot, IN(S(2, 3)), hd_mul(a, hd_one_hot(I64(S(2), 2, 0), 3, HD_F32)))                                      \
    CALL(gather_nd, IN(S(3, 2, 2)), hd_gather_nd(a, I64(S(2, 2), 2, -1, 0, 0), 0))                                     \
    CALL(gather_nd_rows, IN(S(3, 2)), hd_gather_nd(a, I64(S(2, 1), 2, -3), 0))                                         \
    CALL(gather_nd_batches, IN(S(2, 3, 2)), hd_gather_nd(a, I64(S(2, 2, 1), 2, 0, -1, 1), 1))                          \
    CALL(scatter_nd_set, IN(S(3, 2), S(2)), hd_scatter_nd(a, I64(S(2, 2), 2, -1, 0, 0), b, HD_SCATTER_SET))            \
    CALL(scatter_nd_mul, IN(S(3, 2), S(3, 2)), hd_scatter_nd(a, I64(S(3, 1), 2, -1, 0), b, HD_SCATTER_MUL))            \
    CALL(index_put, IN(S(3, 2, 2), S(2)), hd_index_put(a, LIST(I64(S(2, 1), 2, 0), I64(S(2), 1, -2)), b, false))       \
    CALL(index_put_added, IN(S(3, 2), S(2, 2)), hd_index_put(a, LIST(I64(S(2), 2, -1)), b, true))                      \
    CALL(slice_update, IN(S(3, 4), S(2, 2)), hd_slice_update(a, b, S(-2, 0), S(1, 3)))                                 \
    CALL(slice_update_back, IN(S(5), S(2)), hd_slice_update(hd_square(a), b, S(3), S(-2)))                             \
    CALL(masked_scatter, IN(S(2, 3), S(4)),                                                                            \
         hd_masked_scatter(a, hd_gt_scalar(hd_detach(a), 1), hd_concat(LIST(b, b), 0)))                                \
    CALL(embedding, IN(S(4, 2)), hd_embedding(a, I64(S(2, 2), 3, 0, -1, 1), -1))                                       \
    CALL(embedding_padded, IN(S(4, 2)), hd_embedding(a, I64(S(2, 2), 3, 0, -1, 1), 3))                                 \
    /* contraction */                                                                                                  \
    CALL(matmul, IN(S(2, 3), S(3, 2)), hd_matmul(a, b))                                                                \
    CALL(matmul_batches, IN(S(2, 2, 3), S(3)), hd_matmul(a, b))                                                        \
    CALL(affine, IN(S(2, 3), S(4, 3), S(4)), hd_affine(a, b, c))                                                       \
    CALL(affine_plain, IN(S(2, 2, 3), S(4, 3)), hd_affine(a, b, NULL))                                                 \
    CALL(dot, IN(S(4), S(4)), hd_dot(a, b))                                                                            \
    CALL(outer, IN(S(2), S(3)), hd_outer(a, b))                                                                        \
    CALL(dot_general, IN(S(2, 3, 2), S(4, 2, 3)), hd_dot_general(a, b, X(1), X(-1), X(0), X(1)))                       \
    CALL(dot_general_merged, IN(S(2, 3, 2), S(3, 2, 2)), hd_dot_general(a, b, X(2, 1), X(1, 0), X(), X()))             \
    CALL(dot_general_pairs, IN(S(2, 3), S(4, 2)), hd_dot_general(a, b, X(), X(), X(0), X(1)))                          \
    CALL(bmm, IN(S(2, 2, 3), S(2, 3, 2)), hd_bmm(a, b))                                                                \
    CALL(mv, IN(S(2, 3), S(3)), hd_mv(a, b))                                                                           \
    CALL(addmm, IN(S(3), S(2, 4), S(4, 3)), hd_addmm(a, b, c, 0.5, -2))                                                \
    CALL(addmm_product, IN(S(2, 3), S(2, 4), S(4, 3)), hd_addmm(a, b, c, 0, 1))                                        \
    CALL(baddbmm, IN(S(2, 1), S(2, 2, 3), S(2, 3, 2)), hd_baddbmm(a, b, c, 1, 0.25))                                   \
    CALL(tensordot, IN(S(2, 3, 2), S(3, 2, 2)), hd_tensordot(a, b, X(1, 0), X(0, 1)))                                  \
    CALL(kron, IN(S(2, 3), S(2)), hd_kron(a, b))                                                                       \
    CALL(kron_high, IN(S(2, 2, 1, 2, 1), S(2, 2, 2, 2, 1)), hd_kron(a, b))                                             \
    CALL(bilinear, IN(S(2, 3), S(2, 2), S(4, 3, 2)), hd_bilinear(a, b, c, hd_select(hd_select(c, 1, 0), 1, 1)))        \
    CALL(cross, IN(S(2, 3), S(3)), hd_cross(a, b, -1))                                                                 \
    CALL(einsum_matmul, IN(S(2, 2, 3), S(2, 3, 2)), hd_einsum("bij,bjk->bik", LIST(a, b)))                             \
    CALL(einsum_turned, IN(S(2, 3), S(2, 4)), hd_einsum("ij,ik->kj", LIST(a, b)))                                      \
    CALL(einsum_trace, IN(S(3, 3)), hd_einsum("ii", LIST(a)))                                                          \
    CALL(einsum_view, IN(S(2, 3, 2)), hd_einsum("iji->ji", LIST(a)))                                                   \
    CALL(einsum_sum, IN(S(2, 3, 2)), hd_einsum("i...k->k...", LIST(a)))                                                \
    CALL(einsum_outer, IN(S(2), S(3), S(2)), hd_einsum("i,j,k->kij", LIST(a, b, c)))                                   \
    CALL(einsum_chain, IN(S(2, 3), S(3, 2), S(2, 4)), hd_einsum("ij,jk,kl", LIST(a, b, c)))                            \
    CALL(einsum_ellipsis, IN(S(2, 3, 2), S(1, 2, 2)), hd_einsum("...ij,...jk->...ik", LIST(a, b)))                     \
    CALL(einsum_stretched, IN(S(2, 3), S(1, 3), S(2, 1)), hd_einsum("ij,ij,ij->i", LIST(a, b, c)))                     \
    /* layers */                                                                                                       \
    CALL(layer_norm, IN(S(2, 3), S(3), S(3)), hd_layer_norm(a, 1, b, c, 1e-5))                                         \
    CALL(layer_norm_two_axes, IN(S(2, 2, 3), S(2, 3)), hd_layer_norm(a, 2, b, NULL, 0.5))                              \
    CALL(layer_norm_alone, IN(S(2, 3)), hd_square(hd_layer_norm(a, 1, NULL, NULL, 1e-5)))                              \
    CALL(rms_norm, IN(S(2, 3), S(3)), hd_rms_norm(a, b, 1e-5))                                                         \
    CALL(rms_norm_alone, IN(S(2, 3)), hd_square(hd_rms_norm(a, NULL, 1e-5)))                                           \
    CALL(layer_norm_gradient, IN(S(2, 3), S(2, 3), S(3)),                                                              \
         hd_layer_norm_gradient(FIXED(a), FIXED(b), 1, FIXED(c), 0.5))                                                 \
    CALL(layer_norm_weight_gradient, IN(S(2, 3), S(2, 3)), hd_layer_norm_weight_gradient(FIXED(a), FIXED(b), 1, 0.5))  \
    CALL(rms_norm_gradient, IN(S(2, 3), S(2, 3), S(3)), hd_rms_norm_gradient(FIXED(a), FIXED(b), FIXED(c), 0.5))       \
    CALL(rms_norm_weight_gradient, IN(S(2, 3), S(2, 3)), hd_rms_norm_weight_gradient(FIXED(a), FIXED(b), 0.5))         \
    CALL(group_norm, IN(S(2, 4, 3), S(4), S(4)), hd_group_norm(a, 2, b, c, 1e-5))                                      \
    CALL(group_norm_alone, IN(S(2, 4)), hd_square(hd_group_norm(a, 2, NULL, NULL, 0.5)))                               \
    CALL(instance_norm, IN(S(2, 2, 3), S(2), S(2)), hd_instance_norm(a, b, c, 1e-5))                                   \
    CALL(batch_norm, IN(S(2, 3, 2), S(3), S(3)),                                                                       \
         hd_batch_norm(a, hd_full(S(3), HD_F32, 0.5), hd_full(S(3), HD_F32, 2), b, c, false, 0, 1e-5))                 \
    CALL(batch_norm_training, IN(S(4, 3), S(3), S(3)), hd_batch_norm(a, NULL, NULL, b, c, true, 0, 1e-5))              \
    CALL(local_response_norm, IN(S(2, 4, 3)), hd_local_response_norm(a, 3, 0.5, 0.75, 2))                              \
    CALL(l2_normalize, IN(S(2, 3)), hd_l2_normalize(a, 1, 1e-5))                                                       \
    CALL(cosine_similarity, IN(S(2, 3), S(3)), hd_cosine_similarity(a, b, 1, 1e-5))                                    \
    CALL(conv1d, IN(S(2, 5), S(3, 2, 2), S(3)), hd_conv1d(a, b, c, NULL))                                              \
    CALL(conv2d, IN(S(1, 2, 4, 5), S(2, 1, 2, 3)),                                                                     \
         hd_conv2d(                                                                                                    \
             a, b, NULL,                                                                                               \
             HD_OPTS(hd_conv_opts, .stride = {2, 1}, .padding = {{1, -1}, {0, 2}}, .dilation = {1, 2}, .groups = 2)))  \
    CALL(conv_transpose, IN(S(1, 2, 3), S(2, 2, 2), S(2)),                                                             \
         hd_conv_transpose(a, b, c, HD_OPTS(hd_conv_opts, .stride = {3}, .output_padding = {1})))                      \
    CALL(conv, IN(S(2, 2, 5), S(3, 2, 2), S(3)), hd_conv(a, b, c, NULL))                                               \
    CALL(conv_weight_gradient, IN(S(2, 2, 5), S(2, 3, 4)), hd_conv_weight_gradient(a, b, S(2), NULL))                  \
    CALL(conv3d, IN(S(1, 2, 2, 3, 2), S(1, 2, 1, 2, 2)), hd_conv3d(a, b, NULL, NULL))                                  \
    CALL(conv_transpose1d, IN(S(2, 3), S(2, 2, 2)), hd_conv_transpose1d(a, b, NULL, NULL))                             \
    CALL(conv_transpose2d, IN(S(1, 2, 2, 3), S(2, 1, 2, 2)), hd_conv_transpose2d(a, b, NULL, NULL))                    \
    CALL(conv_transpose3d, IN(S(1, 2, 2, 1), S(1, 2, 1, 2, 2)), hd_conv_transpose3d(a, b, NULL, NULL))                 \
    CALL(max_pool, IN(S(1, 4, 5)),                                                                                     \
         hd_max_pool(a, S(2, 3), HD_OPTS(hd_pool_opts, .stride = {1, 2}, .dilation = {2, 1}, .padding = {{1, 0}})))    \
    CALL(max_pool_pick, IN(S(2, 5), S(2, 5)), hd_max_pool_pick(a, b, S(2), NULL))                                      \
    CALL(max_pool_gradient, IN(S(2, 2), S(2, 5)), hd_max_pool_gradient(a, b, S(2), NULL))                              \
    CALL(avg_pool_gradient, IN(S(2, 2)), hd_avg_pool_gradient(a, S(2, 5), S(2), NULL))                                 \
    CALL(avg_pool, IN(S(2, 5)),                                                                                        \
         hd_avg_pool(a, S(2), HD_OPTS(hd_pool_opts, .ceil_mode = true, .exclude_padding = true)))                      \
    CALL(adaptive_pool, IN(S(2, 5)), hd_adaptive_max_pool(hd_adaptive_avg_pool(a, S(3)), S(2)))                        \
    CALL(lp_pool, IN(S(2, 5)), hd_lp_pool(a, 2, S(2), HD_OPTS(hd_pool_opts, .stride = {1})))                           \
    CALL(max_pool_beyond, IN(S(1, 3, 4)),                                                                              \
         hd_max_pool(a, S(5, 2), HD_OPTS(hd_pool_opts, .stride = {3, 2}, .ceil_mode = true)))                          \
    CALL(avg_pool_beyond, IN(S(1, 3, 4)),                                                                              \
         hd_avg_pool(a, S(5, 2), HD_OPTS(hd_pool_opts, .stride = {3, 2}, .ceil_mode = true)))                          \
    CALL(max_pool_with_index, IN(S(1, 4, 5)),                                                                          \
         both_of(hd_max_pool_with_index(a, S(2, 3), HD_OPTS(hd_pool_opts, .stride = {1, 2}, .padding = {{1, 0}}))))    \
    CALL(im2col, IN(S(1, 2, 4, 5)),                                                                                    \
         hd_im2col(a, S(2, 3),                                                                                         \
                   HD_OPTS(hd_conv_opts, .stride = {1, 2}, .padding = {{1, -1}, {0, 2}}, .dilation = {2, 1})))         \
    CALL(im2col_plain, IN(S(2, 1, 5)), hd_im2col(a, S(2), NULL))                                                       \
    CALL(col2im, IN(S(1, 12, 4)),                                                                                      \
         hd_col2im(a, S(4, 5), S(2, 3),                                                                                \
                   HD_OPTS(hd_conv_opts, .stride = {1, 2}, .padding = {{1, -1}, {0, 1}}, .dilation = {2, 1})))         \
    CALL(col2im_plain, IN(S(2, 4, 3)), hd_col2im(a, S(4), S(2), NULL))                                                 \
    CALL(pixel_shuffle, IN(S(1, 4, 2, 3)), hd_pixel_shuffle(a, 2))                                                     \
    CALL(pixel_unshuffle, IN(S(2, 4, 6)), hd_pixel_unshuffle(a, 2))                                                    \
    CALL(resize, IN(S(2, 3, 5)), hd_resize(a, S(5, 2), NULL))                                                          \
    CALL(resize_centre, IN(S(2, 3, 5)), hd_resize(a, S(5, 2), SIZED(NEAREST_CENTRE)))                                  \
    CALL(resize_linear, IN(S(2, 3, 4)), hd_resize(a, S(2, 7), SIZED(LINEAR)))                                          \
    CALL(resize_corners, IN(S(1, 2, 3, 4)), hd_resize(a, S(3, 5, 2), SIZED(LINEAR, .align_corners = true)))            \
    CALL(resize_cubic, IN(S(2, 5)), hd_resize(a, S(7), SIZED(CUBIC)))                                                  \
    CALL(resize_filter, IN(S(1, 6, 4)), hd_resize(a, S(2, 7), SIZED(LINEAR, .antialias = true)))                       \
    CALL(resize_filter_cubic, IN(S(7, 2)), hd_resize(a, S(3, 3), SIZED(CUBIC, .antialias = true)))                     \
    CALL(attention, IN(S(2, 3, 2), S(2, 4, 2), S(2, 4, 3)), hd_attention(a, b, c, NULL, false, 0))                     \
    CALL(attention_causal, IN(S(3, 2), S(3, 2), S(3, 3)), hd_attention(a, b, c, hd_tri(3, 3, 1, HD_BOOL), true, 0.5))  \
    CALL(attention_added, IN(S(3, 2), S(3, 2), S(3)), hd_attention(a, b, a, c, true, 0.5))                             \
    CALL(attention_dropout, IN(S(2, 3, 2), S(2, 4, 2), S(2, 4, 3)),                                                    \
         hd_attention_dropout(a, b, c, NULL, true, 0.25, 0.25))                                                        \
    CALL(attention_dropout_added, IN(S(3, 2), S(3, 2), S(3)), hd_attention_dropout(a, b, a, c, false, 0.25, 0.25))     \
    CALL(attention_gradient, IN(S(3, 2), S(3, 2), S(4, 2)),                                                            \
         hd_attention_gradient(FIXED(a), FIXED(b), FIXED(c), FIXED(c), NULL, NULL, false, 0))                          \
    /* linear algebra, which XLA has not (lapack_) but for triangles; without LAPACK, other calls */                   \
    CALL(cholesky, IN(S(3, 3)), LAPACK(hd_cholesky(positive_matrix(a), false), a))                                     \
    CALL(cholesky_upper, IN(S(2, 2, 2)), LAPACK(hd_cholesky(positive_matrix(a), true), a))                             \
    CALL(triangular_solve, IN(S(3, 3), S(3, 2)), LAPACK(hd_triangular_solve(far_matrix(a), b, NULL), b))               \
    CALL(triangular_solve_turned, IN(S(2, 3, 3), S(3)),                                                                \
         LAPACK(hd_triangular_solve(far_matrix(a), b, TRIANGULAR(.upper = true, .transpose = true)), b))               \
    CALL(triangular_solve_right, IN(S(3, 3), S(2, 2, 3)),                                                              \
         LAPACK(hd_triangular_solve(a, b, TRIANGULAR(.unit = true, .right = true)), b))                                \
    CALL(matrix_power, IN(S(2, 2)), hd_matrix_power(a, 3))                                                             \
    CALL(matrix_norm, IN(S(2, 2, 3)), hd_matrix_norm(a, HD_NORM_1, KEEP))                                              \
    CALL(lapack_solve, IN(S(2, 3, 3), S(3, 2)), LAPACK(hd_solve(far_matrix(a), b), b))                                 \
    CALL(lapack_solve_vector, IN(S(3, 3), S(3)), LAPACK(hd_solve(far_matrix(a), b), b))                                \
    CALL(lapack_inv, IN(S(2, 3, 3)), LAPACK(hd_inv(far_matrix(a)), a))                                                 \
    CALL(lapack_lu_factor, IN(S(3, 3)), LAPACK(both_of_lu(hd_lu_factor(far_matrix(a))), a))                            \
    CALL(lapack_lu_values, IN(S(2, 3)), LAPACK(hd_lu_factor(far_matrix(a)).values, a))                                 \
    CALL(lapack_lu, IN(S(3, 2)), LAPACK(all_of_lu(hd_lu(far_matrix(a))), a))                                           \
    CALL(lapack_qr, IN(S(4, 2)), LAPACK(both_of_qr(hd_qr(far_matrix(a))), a))                                          \
    CALL(lapack_qr_q, IN(S(2, 2, 3)), LAPACK(hd_qr(far_matrix(a)).q, a))                                               \
    CALL(lapack_qr_r, IN(S(3, 3)), LAPACK(hd_qr(far_matrix(a)).r, a))                                                  \
    CALL(lapack_eigh, IN(S(2, 3, 3)), LAPACK(both_of_spectrum(hd_eigh(symmetric_matrix(a))), a))                       \
    CALL(lapack_eigh_values, IN(S(3, 3)), LAPACK(hd_eigh(symmetric_matrix(a)).values, a))                              \
    CALL(lapack_eigvalsh, IN(S(3, 3)), LAPACK(hd_eigvalsh(symmetric_matrix(a)), a))                                    \
    CALL(lapack_svd, IN(S(2, 3, 2)), LAPACK(all_of_svd(hd_svd(spread_matrix(a))), a))                                  \
    CALL(lapack_svd_values, IN(S(2, 3)), LAPACK(hd_svd(spread_matrix(a)).s, a))                                        \
    CALL(lapack_svdvals, IN(S(2, 3)), LAPACK(hd_svdvals(spread_matrix(a)), a))                                         \
    CALL(lapack_svd_packed, IN(S(2, 3)), LAPACK(hd_svd_packed(spread_matrix(a)).values, a))                            \
    CALL(lapack_pinv, IN(S(3, 2)), LAPACK(hd_pinv(spread_matrix(a), 0), a))                                            \
    CALL(lapack_lstsq, IN(S(2, 3), S(2, 2)), LAPACK(hd_lstsq(spread_matrix(a), b, 0), b))                              \
    CALL(lapack_det, IN(S(2, 2, 2)), LAPACK(hd_det(far_matrix(a)), a))                                                 \
    CALL(lapack_slogdet, IN(S(3, 3)), LAPACK(hd_slogdet(far_matrix(a)).log, a))                                        \
    CALL(lapack_matrix_rank, IN(S(2, 3)), LAPACK(hd_mul(a, hd_matrix_rank(spread_matrix(a), 0)), a))                   \
    CALL(lapack_norm, IN(S(2, 2)), LAPACK(hd_matrix_norm(spread_matrix(a), HD_NORM_NUCLEAR, NULL), a))                 \
    /* ops of one's own */                                                                                             \
    CALL(custom, IN(S(2, 3)), cubed(a, 0.5))                                                                           \
    CALL(custom_of_views, IN(S(2, 3)), cubed(hd_t(hd_flip(a, X(1))), -2))                                              \
    CALL(custom_both, IN(S(2, 3), S(2, 3)), first_and_last(both_ways(a, hd_relu(b))))                                  \
    CALL(custom_second_alone, IN(S(2, 3), S(2, 3)), hd_square(hd_tensors_get(both_ways(a, b), 1)))                     \
    /* losses, scalars */                                                                                              \
    CALL(mse, IN(S(2, 3), S(2, 3)), hd_mse(a, b, NULL))                                                                \
    CALL(cross_entropy, IN(S(2, 3)), hd_cross_entropy(a, I64(S(2), 2, 0), NULL))                                       \
    CALL(cross_entropy_axis, IN(S(2, 3, 2)),                                                                           \
         hd_cross_entropy(a, I64(S(2, 2), 2, 0, 1, 2), HD_OPTS(hd_cross_entropy_opts, .class_axis = 1)))               \
    CALL(mae, IN(S(2, 3), S(2, 3)), hd_mae(a, b, NULL))                                                                \
    CALL(huber, IN(S(2, 3), S(2, 3)), hd_huber(a, b, HD_OPTS(hd_huber_opts, .delta = 0.3)))                            \
    CALL(smooth_l1, IN(S(2, 3), S(2, 3)), hd_smooth_l1(a, b, HD_OPTS(hd_smooth_l1_opts, .beta = 0.3)))                 \
    CALL(bce, IN(S(2, 3), S(2, 3)),                                                                                    \
         hd_bce(hd_sigmoid(a), b, HD_OPTS(hd_bce_opts, .weight = hd_full(S(), HD_F32, 0.3))))                          \
    CALL(bce_with_logits, IN(S(2, 3), S(2, 3), S(3)),                                                                  \
         hd_bce_with_logits(a, b, HD_OPTS(hd_bce_with_logits_opts, .pos_weight = c, .reduction = HD_REDUCTION_SUM)))   \
    CALL(nll, IN(S(2, 3)), hd_nll(a, I64(S(2), 2, 0), HD_OPTS(hd_nll_opts, .ignores = true, .ignore_index = 2)))       \
    CALL(kl_div, IN(S(2, 3), S(2, 3)), hd_kl_div(a, hd_square(b), NULL))                                               \
    CALL(kl_div_log, IN(S(2, 3), S(2, 3)),                                                                             \
         hd_kl_div(a, b, HD_OPTS(hd_kl_div_opts, .log_target = true, .reduction = HD_REDUCTION_BATCH_MEAN)))           \
    CALL(hinge, IN(S(2, 3), S(2, 3)), hd_hinge(a, b, HD_OPTS(hd_hinge_opts, .margin = 3)))                             \
    CALL(hinge_embedding, IN(S(3)), hd_hinge_embedding(a, I64(S(3), 1, -1, -1), HD_OPTS(hd_hinge_opts, .margin = 3)))  \
    CALL(cosine_embedding, IN(S(2, 3), S(2, 3)), hd_cosine_embedding(a, b, I64(S(2), 1, -1), NULL))                    \
    CALL(triplet_margin, IN(S(2, 3), S(2, 3), S(2, 3)),                                                                \
         hd_triplet_margin(a, b, c, HD_OPTS(hd_triplet_margin_opts, .margin = 9, .swap = true)))                       \
    CALL(rsub, IN(S(3)), hd_rsub_scalar(a, 2))                                                                         \
    CALL(rdiv, IN(S(3)), hd_rdiv_scalar(a, 2))                                                                         \
    CALL(rpow, IN(S(3)), hd_rpow_scalar(a, 1.5))                                                                       \
    CALL(where_scalar, IN(S(2, 3), S(3)), hd_where_scalar(hd_gt_scalar(b, 1), a, -0.5))                                \
    CALL(rwhere_scalar, IN(S(2, 3), S(3)), hd_rwhere_scalar(hd_gt_scalar(b, 1), a, -0.5))                              \
    CALL(broadcasting, IN(S(2, 1), S(3), S()), hd_add(hd_mul(a, b), c))                                                \
    CALL(mixed_dtypes, IN(S(2, 3), S(3)), hd_mul(hd_cast(a, HD_F16), b))                                               \
    CALL(float_by_integer, IN(S(2, 3)), hd_mul(a, hd_cast(hd_mul_scalar(hd_detach(a), 3), HD_I32)))                    \
    CALL(integer_divided, IN(S(2, 3)), hd_div(hd_cast(hd_mul_scalar(hd_detach(a), 9), HD_I64), a))                     \
    CALL(chosen_integers, IN(S(2, 3)), hd_where(hd_gt_scalar(a, 1), a, hd_cast(hd_detach(a), HD_U8)))                  \
    CALL(lerp_integers, IN(S(3), S(3)), hd_lerp(a, hd_cast(hd_mul_scalar(hd_detach(a), 9), HD_I16), b))

/* What no builder takes, as sizes depend on values: calls at once alone. */
#define CALLS_AT_ONCE(CALL)                                                                                            \
    CALL(nonzero_at_once, IN(S(2, 3)), hd_cast(hd_nonzero(hd_gt_scalar(a, 1)), HD_F32))                                \
    CALL(masked_select_at_once, IN(S(2, 3)), hd_masked_select(a, hd_gt_scalar(a, 1)))                                  \
    CALL(unique_at_once, IN(S(2, 3)), uniques_of(hd_unique(a, UNIQUE)))

#define CALL_FUNCTION(label, in, result)                                                                               \
    static hd_tensor *call_##label(hd_tensor *a, hd_tensor *b, hd_tensor *c) {                                         \
        (void)a, (void)b, (void)c;                                                                                     \
        return result;                                                                                                 \
    }
CALLS(CALL_FUNCTION)
CALLS_AT_ONCE(CALL_FUNCTION)
#undef CALL_FUNCTION

typedef struct named_call {
    const char *name, *text;
    hd_tensor *(*run)(hd_tensor *a, hd_tensor *b, hd_tensor *c);
    void (*shapes)(hd_shape out[3], int *count);
} named_call;

#define CALL_SHAPES(label, in, result)                                                                                 \
    static void shapes_##label(hd_shape out[3], int *count) {                                                          \
        const hd_shape list[] = {in};                                                                                  \
        *count = (int)(sizeof list / sizeof list[0]);                                                                  \
        for (int i = 0; i < *count; ++i) out[i] = list[i];                                                             \
    }
CALLS(CALL_SHAPES)
CALLS_AT_ONCE(CALL_SHAPES)
#undef CALL_SHAPES
#define CALL_ROW(label, in, result) {#label, #result, call_##label, shapes_##label},
static const named_call calls[] = {CALLS(CALL_ROW)};
static const named_call calls_at_once[] = {CALLS_AT_ONCE(CALL_ROW)};
#undef CALL_ROW
enum { CALL_COUNT = (int)(sizeof calls / sizeof calls[0]) };
enum { AT_ONCE_COUNT = (int)(sizeof calls_at_once / sizeof calls_at_once[0]) };

/* ---- operands ---------------------------------------------------------------------------------------------------- */
/* Distinct values from 0.3 to 2, and the same every time. */
static inline hd_tensor *operand(hd_shape shape, int which, hd_dtype dtype) {
    const int64_t count = hd_shape_count(shape);
    double *v = malloc((size_t)(count + 1) * sizeof *v);
    for (int64_t i = 0; i < count; ++i) v[i] = 0.3 + (double)((i * 37 + which * 11) % 101) / 60;
    HD_EAGER;
    hd_tensor *t = hd_cast(hd_from_data(v, shape, HD_F64), dtype);
    free(v);
    return t;
}

/* XLA refuses call k. */
static inline bool is_refused_by_xla(int k) { return has_lapack() && strncmp(calls[k].name, "lapack_", 7) == 0; }

/* The operands of call k, how many there are, and the call of them: `user` is the call. */
static inline int call_operands(int k, hd_tensor *in[3]) {
    hd_shape shapes[3];
    int count;
    calls[k].shapes(shapes, &count);
    for (int i = 0; i < 3; ++i) in[i] = i < count ? operand(shapes[i], i, HD_F32) : NULL;
    return count;
}
static inline hd_tensor *run_call(hd_tensor **in, const void *user) {
    return ((const named_call *)user)->run(in[0], in[1], in[2]);
}

/* What an elementwise row takes as operand i, of values from 0.3 to 2: in its domain, and of its dtype. */
static inline hd_tensor *row_operand(int id, int i, hd_tensor *t) {
    HD_EAGER;
    if (id == HD_OP_atanh || id == HD_OP_asin || id == HD_OP_acos || id == HD_OP_erfinv || id == HD_OP_logit)
        t = hd_mul_scalar(t, 0.45);
    if (id == HD_OP_ndtri) t = hd_sigmoid(t);
    if (id == HD_OP_xlogy && i == 1) t = hd_square(t);
    if (id == HD_OP_acosh) t = hd_add_scalar(t, 1);
    if (hd_ops[id].types == HD_TYPES_INTS) t = hd_cast(hd_mul_scalar(t, 9), HD_I32);
    return hd_rows[id].chooses && i == 0 ? hd_gt_scalar(t, 1) : t;
}

/* The operands of an elementwise row; *count of them. Shapes broadcast. */
static inline void row_operands(int id, hd_tensor **out, int *count) {
    static const int64_t sizes[3][2] = {{2, 3}, {1, 3}, {2, 1}};
    *count = hd_rows[id].operands;
    for (int i = 0; i < *count; ++i) out[i] = row_operand(id, i, operand(hd_shape_of(sizes[i], 2), i, HD_F32));
}
static const double row_numbers[3] = {0.25, 0.75, -1.5};

/* ---- text -------------------------------------------------------------------------------------------------------- */
/* The graph that an ended builder recorded, as text; the caller frees it. */
static inline char *text_of(const hd_graph *g) {
    char *text = hd_graph_print(g);
    if (text == NULL) fail_msg("%s", hd_error_message());
    char *own = strdup(text);
    hd_array_release(text);
    return own;
}

#endif
