/* Gradients of the families against PyTorch, and values where a case has them, also at ties, kinks, zeros and
 * infinities: the cases of tests/golden/gradients_families.txt, written by tests/golden/make_gradients.py, in f64, f32,
 * bf16 and f16. Every function here has a case there, and the other way round. */
#include "support.h"

#include <math.h>

/* ---- the functions -------------------------------------------------------------------------------------------------
 * G(name, result):
 * the result in the case's inputs x, y, z, in their order. */
#define S    HD_SHAPE
#define X    HD_AXES
#define KEEP HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define P(...)                                                                                                         \
    (const hd_padding[]) { __VA_ARGS__ }
#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))
#define LOSS(kind) HD_OPTS(hd_loss_opts, .reduction = HD_REDUCTION_##kind)
#define CE(...)    hd_cross_entropy(x, y, HD_OPTS(hd_cross_entropy_opts, __VA_ARGS__))
#define CE_KINDS(G, name, ...)                                                                                         \
    G(name##_mean, CE(.reduction = HD_REDUCTION_MEAN, __VA_ARGS__))                                                    \
    G(name##_sum, CE(.reduction = HD_REDUCTION_SUM, __VA_ARGS__))                                                      \
    G(name##_none, CE(.reduction = HD_REDUCTION_NONE, __VA_ARGS__))
#define WEIGHT3            HD_TENSOR_F32(S(3), 1, 0.5f, 2)
#define WEIGHT4            HD_TENSOR_F32(S(4), 1, 0.5f, 2, 0.25f)
#define TWICE(t)           hd_mul_scalar(t, 2)
#define POSITIVE(t)        hd_gt_scalar(t, 0)
#define ONE(t)             hd_ones_like(t)
#define PART               hd_tensors_get
#define SCAN(before, back) HD_OPTS(hd_scan_opts, .exclusive = before, .reverse = back)

#define POOL(...)        HD_OPTS(hd_pool_opts, __VA_ARGS__)
#define PADDED_POOL      POOL(.stride = {1, 2}, .dilation = {2, 1}, .padding = {{1, 1}, {0, 0}}, .ceil_mode = true)
#define COLUMNS          HD_OPTS(hd_conv_opts, .stride = {1, 2}, .dilation = {2, 1}, .padding = {{1, 1}, {0, 0}})
#define SIZED(...)       HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_##__VA_ARGS__)
#define RUNNING_MEAN     HD_TENSOR_F32(S(4), 0.5f, -1, 0, 2)
#define RUNNING_VARIANCE HD_TENSOR_F32(S(4), 1, 0.25f, 4, 2)

/* Values and indices of one call, side by side. */
static hd_tensor *both_of(hd_pair p, int axis) {
    return hd_concat(LIST(p.values, hd_cast(p.indices, hd_tensor_dtype(p.values))), axis);
}

#define ALL(G)                                                                                                         \
    G(sum_axes, hd_sum(x, X(0, 2), NULL))                                                                              \
    G(mean_axis, hd_mean(x, X(1), NULL))                                                                               \
    G(var_unbiased, hd_var(x, X(1), 1, NULL))                                                                          \
    G(var_biased, hd_var(x, X(0), 0, NULL))                                                                            \
    G(var_of_one, hd_var(x, X(1), 1, NULL))                                                                            \
    G(std_unbiased, hd_std(x, X(1), 1, NULL))                                                                          \
    G(std_of_constant_rows, hd_std(x, X(1), 1, NULL))                                                                  \
    G(std_of_one, hd_std(x, X(1), 1, NULL))                                                                            \
    G(prod_with_zeros, hd_prod(x, X(1), NULL))                                                                         \
    G(prod_all, hd_prod(x, X(), NULL))                                                                                 \
    G(max_ties, hd_max(x, X(1), NULL))                                                                                 \
    G(min_ties, hd_min(x, X(1), NULL))                                                                                 \
    G(max_all_ties, hd_max(x, X(), NULL))                                                                              \
    G(max_axes_ties, hd_max(x, X(0, 2), NULL))                                                                         \
    G(max_infinite, hd_max(x, X(1), NULL))                                                                             \
    G(norm_1, hd_norm(x, 1, X(1), NULL))                                                                               \
    G(norm_2, hd_norm(x, 2, X(1), NULL))                                                                               \
    G(norm_3, hd_norm(x, 3, X(1), NULL))                                                                               \
    G(norm_half, hd_norm(x, 0.5, X(1), NULL))                                                                          \
    G(norm_1_5, hd_norm(x, 1.5, X(1), NULL))                                                                           \
    G(norm_minus_1, hd_norm(x, -1, X(1), NULL))                                                                        \
    G(norm_inf, hd_norm(x, INFINITY, X(1), NULL))                                                                      \
    G(norm_minus_inf, hd_norm(x, -INFINITY, X(1), NULL))                                                               \
    G(logsumexp_masked, hd_logsumexp(x, X(1), NULL))                                                                   \
    G(logsumexp_hidden, hd_logsumexp(x, X(1), NULL))                                                                   \
    G(logsumexp_infinite, hd_logsumexp(x, X(1), NULL))                                                                 \
    G(logsumexp_large, hd_logsumexp(x, X(1), NULL))                                                                    \
    G(softmax_masked, hd_softmax(x, 1))                                                                                \
    G(softmax_hidden, hd_softmax(x, 1))                                                                                \
    G(softmax_first, hd_softmax(x, 0))                                                                                 \
    G(softmax_large, hd_softmax(x, 1))                                                                                 \
    G(log_softmax_masked, hd_log_softmax(x, 1))                                                                        \
    G(log_softmax_hidden, hd_log_softmax(x, 1))                                                                        \
    G(log_softmax_large, hd_log_softmax(x, 1))                                                                         \
    G(sort_last, both_of(hd_sort(x, 1, false), 1))                                                                     \
    G(sort_last_descending, both_of(hd_sort(x, 1, true), 1))                                                           \
    G(sort_middle, both_of(hd_sort(x, 1, false), 1))                                                                   \
    G(sort_first_descending, both_of(hd_sort(x, 0, true), 0))                                                          \
    G(max_with_index, both_of(hd_max_with_index(x, 1, KEEP), 1))                                                       \
    G(min_with_index, both_of(hd_min_with_index(x, 1, KEEP), 1))                                                       \
    G(max_with_index_of_middle, both_of(hd_max_with_index(x, 1, NULL), 1))                                             \
    G(min_with_index_of_first, both_of(hd_min_with_index(x, 0, NULL), 0))                                              \
    G(topk_largest, both_of(hd_topk(x, 3, 1, true), 1))                                                                \
    G(topk_smallest, both_of(hd_topk(x, 4, 1, false), 1))                                                              \
    G(topk_of_middle, both_of(hd_topk(x, 2, 1, true), 1))                                                              \
    G(topk_all, both_of(hd_topk(x, 5, 0, false), 0))                                                                   \
    G(kthvalue, both_of(hd_kthvalue(x, 2, 1, KEEP), 1))                                                                \
    G(median, both_of(hd_median(x, 1, KEEP), 1))                                                                       \
    G(quantile, hd_quantile(x, 0.3, 1, NULL))                                                                          \
    G(quantiles, hd_quantiles(x, (const double[]){0.8, 0.3}, 2, 1, NULL))                                              \
    G(quantile_of_first, hd_quantile(x, 0.5, 0, NULL))                                                                 \
    G(bincount, hd_bincount(x, y, 4))                                                                                  \
    G(masked_select, hd_masked_select(x, y))                                                                           \
    G(topk_ties, hd_sum(hd_topk(x, 3, 1, true).values, X(1), KEEP))                                                    \
    G(cumsum, hd_cumsum(x, 1, NULL))                                                                                   \
    G(cumsum_exclusive, hd_cumsum(x, 1, SCAN(true, false)))                                                            \
    G(cumsum_reverse, hd_cumsum(x, 1, SCAN(false, true)))                                                              \
    G(cumsum_exclusive_reverse, hd_cumsum(x, 1, SCAN(true, true)))                                                     \
    G(cumsum_middle, hd_cumsum(x, 1, NULL))                                                                            \
    G(cumprod, hd_cumprod(x, 1, NULL))                                                                                 \
    G(cumprod_exclusive, hd_cumprod(x, 1, SCAN(true, false)))                                                          \
    G(cumprod_reverse, hd_cumprod(x, 1, SCAN(false, true)))                                                            \
    G(cumprod_exclusive_reverse, hd_cumprod(x, 1, SCAN(true, true)))                                                   \
    G(cumprod_zeros, hd_cumprod(x, 1, NULL))                                                                           \
    G(cumprod_zeros_exclusive, hd_cumprod(x, 1, SCAN(true, false)))                                                    \
    G(cumprod_zeros_reverse, hd_cumprod(x, 1, SCAN(false, true)))                                                      \
    G(cumprod_zeros_exclusive_reverse, hd_cumprod(x, 1, SCAN(true, true)))                                             \
    G(logcumsumexp, hd_logcumsumexp(x, 1, NULL))                                                                       \
    G(logcumsumexp_reverse, hd_logcumsumexp(x, 1, SCAN(false, true)))                                                  \
    G(cummax, both_of(hd_cummax(x, 1, NULL), 1))                                                                       \
    G(cummin, both_of(hd_cummin(x, 1, NULL), 1))                                                                       \
    G(relu, hd_relu(x))                                                                                                \
    G(abs, hd_abs(x))                                                                                                  \
    G(sign, hd_sign(x))                                                                                                \
    G(floor, hd_floor(x))                                                                                              \
    G(clamp, hd_clamp(x, -1, 3))                                                                                       \
    G(hardtanh, hd_hardtanh(x, -1, 3))                                                                                 \
    G(relu6, hd_relu6(x))                                                                                              \
    G(leaky_relu, hd_leaky_relu(x, 0.125))                                                                             \
    G(elu, hd_elu(x, 1.5))                                                                                             \
    G(hardswish, hd_hardswish(x))                                                                                      \
    G(softshrink, hd_softshrink(x, 0.5))                                                                               \
    G(sqrt, hd_sqrt(x))                                                                                                \
    G(rsqrt, hd_rsqrt(x))                                                                                              \
    G(log, hd_log(x))                                                                                                  \
    G(maximum, hd_maximum(x, y))                                                                                       \
    G(minimum, hd_minimum(x, y))                                                                                       \
    G(maximum_of_one, hd_maximum(x, x))                                                                                \
    G(maximum_broadcast, hd_maximum(x, y))                                                                             \
    G(pow, hd_pow(x, y))                                                                                               \
    G(pow_0, hd_pow_scalar(x, 0))                                                                                      \
    G(pow_1, hd_pow_scalar(x, 1))                                                                                      \
    G(pow_2, hd_pow_scalar(x, 2))                                                                                      \
    G(pow_half, hd_pow_scalar(x, 0.5))                                                                                 \
    G(pow_minus_1, hd_pow_scalar(x, -1))                                                                               \
    G(rpow, hd_rpow_scalar(x, 2))                                                                                      \
    G(where, hd_where(x, y, z))                                                                                        \
    G(where_broadcast, hd_where(x, y, z))                                                                              \
    G(where_of_sqrt, hd_where(POSITIVE(x), hd_sqrt(x), TWICE(x)))                                                      \
    G(where_of_safe_sqrt, hd_where(POSITIVE(x), hd_sqrt(hd_where(POSITIVE(x), x, ONE(x))), TWICE(x)))                  \
    G(permute, hd_permute(x, X(2, 0, 1)))                                                                              \
    G(reshape_turned, hd_reshape(hd_t(x), S(6)))                                                                       \
    G(broadcast_to, hd_broadcast_to(x, S(2, 2, 3)))                                                                    \
    G(slice_stepped, hd_slice(x, 1, 1, HD_END, 3))                                                                     \
    G(split, hd_mul(PART(hd_split(x, 2, 1), 0), PART(hd_split(x, 2, 1), 2)))                                           \
    G(chunk, hd_mul(PART(hd_chunk(x, 4, 0), 0), PART(hd_chunk(x, 4, 0), -1)))                                          \
    G(unbind, hd_mul(PART(hd_unbind(x, 1), 2), PART(hd_unbind(x, 1), 0)))                                              \
    G(diagonal, hd_diagonal(x, 1, 0, 2))                                                                               \
    G(unfold_overlapping, hd_unfold(x, 1, 3, 1))                                                                       \
    G(as_strided_overlapping, hd_as_strided(x, S(3, 3), S(1, 2), 1))                                                   \
    G(concat, hd_concat(LIST(x, y, x), 1))                                                                             \
    G(stack, hd_stack(LIST(x, y), 1))                                                                                  \
    G(pad, hd_pad(x, P({0, 1}, {1, 2}), 2, 5))                                                                         \
    G(pad_negative, hd_pad(x, P({1, -2}, {-1, 1}), 2, 0))                                                              \
    G(pad_reflect, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_REFLECT))                                               \
    G(pad_replicate, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_REPLICATE))                                           \
    G(pad_circular, hd_pad_with(x, P({1, 2}, {2, 3}), 2, HD_PAD_CIRCULAR))                                             \
    G(roll, hd_roll(x, 4, 1))                                                                                          \
    G(tile, hd_tile(x, S(2, 3)))                                                                                       \
    G(repeat_interleave, hd_repeat_interleave(x, 3, 1))                                                                \
    G(tril, hd_tril(x, 1))                                                                                             \
    G(triu, hd_triu(x, -1))                                                                                            \
    G(flip, hd_flip(x, X(0, 2)))                                                                                       \
    G(masked_fill, hd_masked_fill(x, y, -INFINITY))                                                                    \
    G(gather_duplicates, hd_gather(x, 1, y))                                                                           \
    G(gather_part, hd_gather(x, 0, y))                                                                                 \
    G(index_select, hd_index_select(x, 1, y))                                                                          \
    G(take, hd_take(x, y))                                                                                             \
    G(take_along_axis, hd_take_along_axis(x, 1, y))                                                                    \
    G(index_add, hd_index_add(x, 0, y, z))                                                                             \
    G(scatter_set, hd_scatter(x, 1, y, z, HD_SCATTER_SET))                                                             \
    G(scatter_add, hd_scatter(x, 0, y, z, HD_SCATTER_ADD))                                                             \
    G(scatter_mul, hd_scatter(x, 0, y, z, HD_SCATTER_MUL))                                                             \
    G(scatter_max, hd_scatter(x, 0, y, z, HD_SCATTER_MAX))                                                             \
    G(scatter_min, hd_scatter(x, 0, y, z, HD_SCATTER_MIN))                                                             \
    G(matmul, hd_matmul(x, y))                                                                                         \
    G(affine, hd_affine(x, y, z))                                                                                      \
    G(affine_alone, hd_affine(x, y, NULL))                                                                             \
    G(dot, hd_dot(x, y))                                                                                               \
    G(gather_nd, hd_gather_nd(x, y, 0))                                                                                \
    G(scatter_nd_add, hd_scatter_nd(x, y, z, HD_SCATTER_ADD))                                                          \
    G(index_put, hd_index_put(x, LIST(HD_TENSOR_I64(S(2, 1), 2, 0), y), z, false))                                     \
    G(index_put_added, hd_index_put(x, LIST(y), z, true))                                                              \
    G(slice_update, hd_slice_update(x, y, S(0, 1), S(1, 2)))                                                           \
    G(embedding, hd_embedding(x, y, -1))                                                                               \
    G(embedding_padded, hd_embedding(x, y, 3))                                                                         \
    G(masked_scatter, hd_masked_scatter(x, y, z))                                                                      \
    G(diag, hd_diag(x, -2))                                                                                            \
    G(diag_of_matrix, hd_diag(x, 1))                                                                                   \
    G(diag_embed, hd_diag_embed(x, 1, 0, 2))                                                                           \
    G(trace, hd_trace(x, 0, 0, 1))                                                                                     \
    G(meshgrid,                                                                                                        \
      hd_mul(PART(hd_meshgrid(LIST(x, y), HD_INDEXING_XY), 0), PART(hd_meshgrid(LIST(x, y), HD_INDEXING_XY), 1)))      \
    G(bmm, hd_bmm(x, y))                                                                                               \
    G(mv, hd_mv(x, y))                                                                                                 \
    G(addmm, hd_addmm(x, y, z, 0.5, -2))                                                                               \
    G(baddbmm, hd_baddbmm(x, y, z, 2, 0.5))                                                                            \
    G(tensordot, hd_tensordot(x, y, X(1, 0), X(0, 1)))                                                                 \
    G(kron, hd_kron(x, y))                                                                                             \
    G(bilinear, hd_bilinear(x, y, z, NULL))                                                                            \
    G(cross, hd_cross(x, y, 1))                                                                                        \
    G(einsum_matmul, hd_einsum("bij,bjk->bik", LIST(x, y)))                                                            \
    G(einsum_trace, hd_einsum("ii", LIST(x)))                                                                          \
    G(einsum_view, hd_einsum("iji->ji", LIST(x)))                                                                      \
    G(einsum_ellipsis, hd_einsum("...ij,...jk->...ki", LIST(x, y)))                                                    \
    G(einsum_chain, hd_einsum("ij,jk,kl->li", LIST(x, y, z)))                                                          \
    G(einsum_stretched, hd_einsum("ij,ij->i", LIST(x, y)))                                                             \
    G(outer, hd_outer(x, y))                                                                                           \
    G(mse_mean, hd_mse(x, y, LOSS(MEAN)))                                                                              \
    G(mse_sum, hd_mse(x, y, LOSS(SUM)))                                                                                \
    G(mse_none, hd_mse(x, y, LOSS(NONE)))                                                                              \
    CE_KINDS(G, ce, .label_smoothing = 0)                                                                              \
    CE_KINDS(G, ce_weight, .weight = WEIGHT4)                                                                          \
    CE_KINDS(G, ce_ignore, .ignores = true, .ignore_index = -100)                                                      \
    CE_KINDS(G, ce_smooth, .label_smoothing = 0.25)                                                                    \
    CE_KINDS(G, ce_everything, .weight = WEIGHT4, .ignores = true, .ignore_index = 3, .label_smoothing = 0.25)         \
    CE_KINDS(G, ce_labels, .label_smoothing = 0)                                                                       \
    CE_KINDS(G, ce_labels_all, .weight = WEIGHT3, .label_smoothing = 0.25)                                             \
    G(ce_row, hd_cross_entropy(x, y, NULL))                                                                            \
    G(group_norm, hd_group_norm(x, 2, y, z, 0.1))                                                                      \
    G(group_norm_weight, hd_group_norm(x, 4, y, NULL, 0.1))                                                            \
    G(group_norm_bias, hd_group_norm(x, 1, NULL, y, 0.1))                                                              \
    G(group_norm_alone, hd_group_norm(x, 2, NULL, NULL, 0.1))                                                          \
    G(instance_norm, hd_instance_norm(x, y, z, 0.1))                                                                   \
    G(instance_norm_alone, hd_instance_norm(x, NULL, NULL, 0.1))                                                       \
    G(batch_norm_training, hd_batch_norm(x, NULL, NULL, y, z, true, 0.1, 0.1))                                         \
    G(batch_norm_training_alone, hd_batch_norm(x, NULL, NULL, NULL, NULL, true, 0.1, 0.1))                             \
    G(batch_norm, hd_batch_norm(x, RUNNING_MEAN, RUNNING_VARIANCE, y, z, false, 0.1, 0.1))                             \
    G(batch_norm_weight, hd_batch_norm(x, RUNNING_MEAN, RUNNING_VARIANCE, y, NULL, false, 0.1, 0.1))                   \
    G(local_response_norm_1, hd_local_response_norm(x, 1, 0.5, 0.75, 2))                                               \
    G(local_response_norm_2, hd_local_response_norm(x, 2, 0.5, 0.75, 2))                                               \
    G(local_response_norm_3, hd_local_response_norm(x, 3, 0.5, 0.75, 2))                                               \
    G(local_response_norm_9, hd_local_response_norm(x, 9, 0.5, 0.75, 2))                                               \
    G(l2_normalize, hd_l2_normalize(x, 1, 0.5))                                                                        \
    G(cosine_similarity, hd_cosine_similarity(x, y, 1, 1e-8))                                                          \
    G(cosine_similarity_broadcast, hd_cosine_similarity(x, y, -1, 1e-8))                                               \
    G(lp_pool, hd_lp_pool(x, 2, S(3), POOL(.stride = {2})))                                                            \
    G(lp_pool_ceil, hd_lp_pool(x, 2, S(3), POOL(.stride = {2}, .ceil_mode = true)))                                    \
    G(lp_pool_images, hd_lp_pool(hd_abs(x), 1.5, S(2, 3), POOL(.stride = {1, 2})))                                     \
    G(max_pool_with_index, both_of(hd_max_pool_with_index(x, S(3), POOL(.stride = {2})), 1))                           \
    G(max_pool_with_index_padded, both_of(hd_max_pool_with_index(x, S(2, 3), PADDED_POOL), 2))                         \
    G(max_pool_with_index_adaptive, both_of(hd_max_pool_with_index(x, S(3), POOL(.adaptive = true)), 1))               \
    G(max_pool_with_index_nan, both_of(hd_max_pool_with_index(x, S(2), NULL), 1))                                      \
    G(im2col, hd_im2col(x, S(2, 3), COLUMNS))                                                                          \
    G(im2col_pixels, hd_im2col(x, S(1, 1), NULL))                                                                      \
    G(col2im, hd_col2im(x, S(4, 5), S(2, 3), COLUMNS))                                                                 \
    G(col2im_overlapping, hd_col2im(x, S(4, 3), S(2, 2), NULL))                                                        \
    G(pixel_shuffle, hd_pixel_shuffle(x, 2))                                                                           \
    G(pixel_unshuffle, hd_pixel_unshuffle(x, 2))                                                                       \
    G(resize_nearest_0, hd_resize(x, S(8, 3), SIZED(NEAREST)))                                                         \
    G(resize_nearest_1, hd_resize(x, S(2, 5), SIZED(NEAREST)))                                                         \
    G(resize_nearest_2, hd_resize(x, S(4, 12), SIZED(NEAREST)))                                                        \
    G(resize_nearest_centre_0, hd_resize(x, S(8, 3), SIZED(NEAREST_CENTRE)))                                           \
    G(resize_nearest_centre_1, hd_resize(x, S(2, 5), SIZED(NEAREST_CENTRE)))                                           \
    G(resize_nearest_centre_2, hd_resize(x, S(4, 12), SIZED(NEAREST_CENTRE)))                                          \
    G(resize_line_0, hd_resize(x, S(8), SIZED(LINEAR)))                                                                \
    G(resize_line_1, hd_resize(x, S(3), SIZED(LINEAR)))                                                                \
    G(resize_line_2, hd_resize(x, S(1), SIZED(LINEAR)))                                                                \
    G(resize_line_corners_0, hd_resize(x, S(8), SIZED(LINEAR, .align_corners = true)))                                 \
    G(resize_line_corners_1, hd_resize(x, S(3), SIZED(LINEAR, .align_corners = true)))                                 \
    G(resize_line_corners_2, hd_resize(x, S(1), SIZED(LINEAR, .align_corners = true)))                                 \
    G(resize_linear_0, hd_resize(x, S(8, 10), SIZED(LINEAR)))                                                          \
    G(resize_linear_1, hd_resize(x, S(3, 2), SIZED(LINEAR)))                                                           \
    G(resize_linear_2, hd_resize(x, S(7, 5), SIZED(LINEAR)))                                                           \
    G(resize_linear_corners_0, hd_resize(x, S(8, 10), SIZED(LINEAR, .align_corners = true)))                           \
    G(resize_linear_corners_1, hd_resize(x, S(3, 2), SIZED(LINEAR, .align_corners = true)))                            \
    G(resize_linear_corners_2, hd_resize(x, S(7, 5), SIZED(LINEAR, .align_corners = true)))                            \
    G(resize_linear_antialias_0, hd_resize(x, S(8, 10), SIZED(LINEAR, .antialias = true)))                             \
    G(resize_linear_antialias_1, hd_resize(x, S(3, 2), SIZED(LINEAR, .antialias = true)))                              \
    G(resize_linear_antialias_2, hd_resize(x, S(7, 5), SIZED(LINEAR, .antialias = true)))                              \
    G(resize_linear_antialias_3, hd_resize(x, S(1, 1), SIZED(LINEAR, .antialias = true)))                              \
    G(resize_volume_0, hd_resize(x, S(6, 3, 7), SIZED(LINEAR)))                                                        \
    G(resize_volume_1, hd_resize(x, S(1, 4, 2), SIZED(LINEAR)))                                                        \
    G(resize_cubic_0, hd_resize(x, S(8, 10), SIZED(CUBIC)))                                                            \
    G(resize_cubic_1, hd_resize(x, S(3, 2), SIZED(CUBIC)))                                                             \
    G(resize_cubic_2, hd_resize(x, S(7, 5), SIZED(CUBIC)))                                                             \
    G(resize_cubic_corners_0, hd_resize(x, S(8, 10), SIZED(CUBIC, .align_corners = true)))                             \
    G(resize_cubic_corners_1, hd_resize(x, S(3, 2), SIZED(CUBIC, .align_corners = true)))                              \
    G(resize_cubic_corners_2, hd_resize(x, S(7, 5), SIZED(CUBIC, .align_corners = true)))                              \
    G(resize_cubic_antialias_0, hd_resize(x, S(8, 10), SIZED(CUBIC, .antialias = true)))                               \
    G(resize_cubic_antialias_1, hd_resize(x, S(3, 2), SIZED(CUBIC, .antialias = true)))                                \
    G(resize_cubic_antialias_2, hd_resize(x, S(7, 5), SIZED(CUBIC, .antialias = true)))                                \
    G(resize_cubic_antialias_3, hd_resize(x, S(1, 1), SIZED(CUBIC, .antialias = true)))                                \
    G(resize_filter_wide, hd_resize(x, S(3, 29), SIZED(CUBIC, .antialias = true)))                                     \
    G(ce_labels_row, hd_cross_entropy(x, y, NULL))

#include "golden/cases.h"

static void gradients_agree_with_pytorch(void **state) {
    (void)state;
    assert_int_equal(compare_all(HODU_TEST_DATA "/../golden/gradients_families.txt"),
                     2); /* logsumexp and softmax of 1001 in bf16 */
}

RUN(test(gradients_agree_with_pytorch))
