/* Whether the result of an op shares memory with an operand is the op's own, and never a matter of its arguments: views
 * always do, all others never, also where they have nothing to do. What may return its operand itself says so in its
 * documentation: hd_cast and hd_contiguous; what may copy, too: hd_reshape and hd_flatten. */
#include "lapack.h"
#include "own_ops.h"
#include "support.h"

#include "graph/builder.h"
#include "ops/op.h"

#define S HD_SHAPE
#define X HD_AXES

static const hd_padding none[2] = {{0, 0}, {0, 0}};

/* x is [2, 3], e is [1, 1], r is one number of rank 0; images are [1, 1, 2, 2], i: [0, 1] in i64. Each call is asked to
 * do as little as it can. */
typedef struct operands {
    hd_tensor *x, *e, *r, *image, *row, *i;
} operands;

/* What looks at values is no call of a builder. */
static hd_tensor *nonzero_at_once(hd_tensor *x) {
    HD_EAGER;
    return hd_nonzero(x);
}
static hd_tensor *masked_select_at_once(hd_tensor *x) {
    HD_EAGER;
    return hd_masked_select(x, hd_ones(S(), HD_BOOL));
}
static hd_tensor *unique_at_once(hd_tensor *x) {
    HD_EAGER;
    return hd_unique(x, NULL).values;
}

#define CALLS(NEW, VIEW, ITSELF)                                                                                       \
    NEW(zeros_like, hd_zeros_like(x))                                                                                  \
    NEW(empty_like, hd_empty_like(x))                                                                                  \
    NEW(rand_like, hd_rand_like(x))                                                                                    \
    NEW(randn_like, hd_randn_like(x))                                                                                  \
    NEW(ones_like, hd_ones_like(x))                                                                                    \
    NEW(full_like, hd_full_like(x, 1))                                                                                 \
    NEW(multinomial, hd_multinomial(hd_abs(row), 1, true))                                                             \
    ITSELF(cast, hd_cast(x, HD_F32))                                                                                   \
    NEW(cast, hd_cast(x, HD_F64))                                                                                      \
    VIEW(bitcast, hd_bitcast(x, HD_F32))                                                                               \
    VIEW(bitcast, hd_bitcast(x, HD_I32))                                                                               \
    NEW(sum, hd_sum(r, X(), NULL))                                                                                     \
    NEW(sum, hd_sum(e, X(0), HD_OPTS(hd_reduce_opts, .keep_dims = true)))                                              \
    NEW(prod, hd_prod(e, X(0), HD_OPTS(hd_reduce_opts, .keep_dims = true)))                                            \
    NEW(max, hd_max(e, X(0), HD_OPTS(hd_reduce_opts, .keep_dims = true)))                                              \
    NEW(min, hd_min(r, X(), NULL))                                                                                     \
    NEW(any, hd_any(e, X(0), NULL))                                                                                    \
    NEW(all, hd_all(e, X(0), NULL))                                                                                    \
    NEW(argmax, hd_argmax(i, 0, NULL))                                                                                 \
    NEW(argmin, hd_argmin(i, 0, NULL))                                                                                 \
    NEW(max_with_index, hd_max_with_index(e, 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)).values)                    \
    NEW(min_with_index, hd_min_with_index(e, 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)).values)                    \
    NEW(sort, hd_sort(e, 0, false).values)                                                                             \
    NEW(topk, hd_topk(e, hd_tensor_size(e, 0), 0, true).values)                                                        \
    NEW(searchsorted, hd_searchsorted(row, row, false))                                                                \
    NEW(argsort, hd_argsort(e, 0, false))                                                                              \
    NEW(kthvalue, hd_kthvalue(e, 1, 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)).values)                             \
    NEW(median, hd_median(e, 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)).values)                                    \
    NEW(quantile, hd_quantile(e, 0, 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)))                                    \
    NEW(quantiles, hd_quantiles(e, (const double[]){0}, 1, 0, NULL))                                                   \
    NEW(bincount, hd_bincount(i, NULL, 2))                                                                             \
    NEW(histc, hd_histc(row, 3, 0, 1))                                                                                 \
    NEW(nonzero, nonzero_at_once(row))                                                                                 \
    NEW(nonzero_padded, hd_nonzero_padded(row, 3, 0))                                                                  \
    NEW(masked_select, masked_select_at_once(row))                                                                     \
    NEW(masked_select_padded, hd_masked_select_padded(row, hd_ones(S(), HD_BOOL), 3, 0))                               \
    NEW(unique, unique_at_once(row))                                                                                   \
    NEW(unique_padded, hd_unique_padded(row, 3, 0, NULL).values)                                                       \
    NEW(cumsum, hd_cumsum(e, 0, NULL))                                                                                 \
    NEW(cumprod, hd_cumprod(r, 0, NULL))                                                                               \
    NEW(logcumsumexp, hd_logcumsumexp(r, 0, NULL))                                                                     \
    NEW(cummax, hd_cummax(e, 0, NULL).values)                                                                          \
    NEW(cummin, hd_cummin(r, 0, NULL).values)                                                                          \
    NEW(mean, hd_mean(r, X(), NULL))                                                                                   \
    NEW(var, hd_var(r, X(), 0, NULL))                                                                                  \
    NEW(std, hd_std(e, X(0), 0, HD_OPTS(hd_reduce_opts, .keep_dims = true)))                                           \
    NEW(norm, hd_norm(r, 1, X(), NULL))                                                                                \
    NEW(norm, hd_norm(r, 2, X(), NULL))                                                                                \
    NEW(logsumexp, hd_logsumexp(r, X(), NULL))                                                                         \
    NEW(softmax, hd_softmax(e, 0))                                                                                     \
    NEW(softmax, hd_softmax(hd_slice(x, 0, 0, 0, 1), 0))                                                               \
    NEW(log_softmax, hd_log_softmax(hd_slice(x, 0, 0, 0, 1), 0))                                                       \
    NEW(count_nonzero, hd_count_nonzero(i, X(0), NULL))                                                                \
    NEW(sum_to_shape, hd_sum_to_shape(x, S(2, 3)))                                                                     \
    NEW(sum_to_shape, hd_sum_to_shape(e, S()))                                                                         \
    NEW(sum_to_shape, hd_sum_to_shape(i, S(2)))                                                                        \
    NEW(sum_to_shape, hd_sum_to_shape(r, S()))                                                                         \
    VIEW(reshape, hd_reshape(x, S(2, 3)))                                                                              \
    VIEW(reshape, hd_reshape(x, S(6)))                                                                                 \
    VIEW(permute, hd_permute(x, X(0, 1)))                                                                              \
    VIEW(permute, hd_permute(r, X()))                                                                                  \
    VIEW(broadcast_to, hd_broadcast_to(x, S(2, 3)))                                                                    \
    VIEW(broadcast_to, hd_broadcast_to(r, S()))                                                                        \
    VIEW(slice, hd_slice(x, 0, HD_END, HD_END, 1))                                                                     \
    VIEW(diagonal, hd_diagonal(e, 0, 0, 1))                                                                            \
    VIEW(unfold, hd_unfold(row, 0, 3, 1))                                                                              \
    VIEW(as_strided, hd_as_strided(x, S(2, 3), S(3, 1), 0))                                                            \
    VIEW(detach, hd_detach(x))                                                                                         \
    VIEW(flatten, hd_flatten(row))                                                                                     \
    VIEW(squeeze, hd_squeeze(x, X()))                                                                                  \
    VIEW(squeeze, hd_squeeze(r, X()))                                                                                  \
    VIEW(squeeze, hd_squeeze(hd_t(x), X()))                                                                            \
    VIEW(unsqueeze, hd_unsqueeze(hd_t(x), 1))                                                                          \
    VIEW(transpose, hd_transpose(x, 0, 0))                                                                             \
    VIEW(t, hd_t(e))                                                                                                   \
    VIEW(move_axis, hd_move_axis(x, 1, 1))                                                                             \
    VIEW(expand, hd_expand(x, S(-1, -1)))                                                                              \
    VIEW(select, hd_select(row, 0, 0))                                                                                 \
    VIEW(select, hd_select(hd_t(x), 1, 0))                                                                             \
    VIEW(narrow, hd_narrow(x, 0, 0, 2))                                                                                \
    VIEW(flip, hd_flip(r, X()))                                                                                        \
    VIEW(flip, hd_flip(e, X()))                                                                                        \
    VIEW(split, hd_tensors_get(hd_split(x, 2, 0), 0))                                                                  \
    VIEW(split, hd_tensors_get(hd_split(hd_t(x), 2, 0), 1))                                                            \
    VIEW(split, hd_tensors_get(hd_split(hd_slice(x, 0, 0, 0, 1), 2, 0), 0))                                            \
    VIEW(chunk, hd_tensors_get(hd_chunk(x, 1, 1), 0))                                                                  \
    VIEW(unbind, hd_tensors_get(hd_unbind(row, 0), 0))                                                                 \
    VIEW(unbind, hd_tensors_get(hd_unbind(hd_t(x), 1), 0))                                                             \
    ITSELF(contiguous, hd_contiguous(x))                                                                               \
    NEW(contiguous, hd_contiguous(hd_t(x)))                                                                            \
    NEW(concat, hd_concat(&x, 1, 0))                                                                                   \
    NEW(pad, hd_pad(x, none, 2, 0))                                                                                    \
    NEW(pad, hd_pad(r, NULL, 0, 0))                                                                                    \
    NEW(pad_with, hd_pad_with(x, none, 2, HD_PAD_REFLECT))                                                             \
    NEW(pad_with, hd_pad_with(hd_t(x), none, 1, HD_PAD_REPLICATE))                                                     \
    NEW(pad_with, hd_pad_with(r, NULL, 0, HD_PAD_CIRCULAR))                                                            \
    ITSELF(to, hd_to(x, hd_tensor_device(x)))                                                                          \
    NEW(copy, hd_copy(x))                                                                                              \
    NEW(stack, hd_stack(&x, 1, 0))                                                                                     \
    NEW(roll, hd_roll(x, 0, 0))                                                                                        \
    NEW(roll, hd_roll(x, 6, 1))                                                                                        \
    NEW(roll, hd_roll(hd_slice(x, 0, 0, 0, 1), 1, 0))                                                                  \
    NEW(tile, hd_tile(x, S(1, 1)))                                                                                     \
    NEW(tile, hd_tile(x, S(2, 1)))                                                                                     \
    NEW(tile, hd_tile(e, S(1, 3)))                                                                                     \
    NEW(tile, hd_tile(r, S()))                                                                                         \
    NEW(tile, hd_tile(x, S(0, 1)))                                                                                     \
    NEW(repeat_interleave, hd_repeat_interleave(x, 1, 0))                                                              \
    NEW(repeat_interleave, hd_repeat_interleave(e, 3, 1))                                                              \
    NEW(repeat_interleave, hd_repeat_interleave(x, 0, 1))                                                              \
    VIEW(meshgrid, hd_tensors_get(hd_meshgrid(&row, 1, HD_INDEXING_IJ), 0))                                            \
    VIEW(meshgrid, hd_tensors_get(hd_meshgrid(&r, 1, HD_INDEXING_XY), 0))                                              \
    NEW(diag, hd_diag(e, 0))                                                                                           \
    NEW(diag, hd_diag(hd_flatten(e), 0))                                                                               \
    NEW(diag_embed, hd_diag_embed(e, 0, 0, 1))                                                                         \
    NEW(trace, hd_trace(e, 0, 0, 1))                                                                                   \
    NEW(tril, hd_tril(x, 9))                                                                                           \
    NEW(triu, hd_triu(x, -9))                                                                                          \
    NEW(gather, hd_gather(row, 0, i))                                                                                  \
    NEW(scatter, hd_scatter(row, 0, hd_slice(i, 0, 0, 0, 1), hd_slice(row, 0, 0, 0, 1), HD_SCATTER_ADD))               \
    NEW(index_select, hd_index_select(x, 0, i))                                                                        \
    NEW(take, hd_take(x, i))                                                                                           \
    NEW(take_along_axis, hd_take_along_axis(row, 0, i))                                                                \
    NEW(index_add, hd_index_add(x, 0, hd_slice(i, 0, 0, 0, 1), hd_slice(x, 0, 0, 0, 1)))                               \
    NEW(index_copy, hd_index_copy(x, 0, i, x))                                                                         \
    NEW(masked_fill, hd_masked_fill(x, hd_isnan(x), 0))                                                                \
    NEW(gather_nd, hd_gather_nd(x, hd_reshape(i, S(2, 1)), 0))                                                         \
    NEW(scatter_nd, hd_scatter_nd(x, hd_reshape(i, S(2, 1)), x, HD_SCATTER_SET))                                       \
    NEW(index_put, hd_index_put(x, &i, 1, x, false))                                                                   \
    NEW(slice_update, hd_slice_update(x, x, S(0, 0), S()))                                                             \
    NEW(slice_update, hd_slice_update(x, hd_slice(x, 0, 0, 0, 1), S(0, 0), S()))                                       \
    NEW(slice_update, hd_slice_update(r, r, S(), S()))                                                                 \
    NEW(masked_scatter, hd_masked_scatter(x, hd_isnan(x), x))                                                          \
    NEW(masked_scatter, hd_masked_scatter(x, hd_zeros(S(), HD_BOOL), hd_slice(x, 0, 0, 0, 1)))                         \
    NEW(embedding, hd_embedding(x, i, 0))                                                                              \
    NEW(one_hot, hd_one_hot(i, 2, HD_I64))                                                                             \
    NEW(matmul, hd_matmul(e, e))                                                                                       \
    NEW(affine, hd_affine(e, e, NULL))                                                                                 \
    NEW(dot, hd_dot(row, row))                                                                                         \
    NEW(outer, hd_outer(row, row))                                                                                     \
    NEW(dot_general, hd_dot_general(e, e, X(), X(), X(), X()))                                                         \
    NEW(dot_general, hd_dot_general(r, r, X(), X(), X(), X()))                                                         \
    NEW(bmm, hd_bmm(hd_unsqueeze(e, 0), hd_unsqueeze(e, 0)))                                                           \
    NEW(mv, hd_mv(x, row))                                                                                             \
    NEW(addmm, hd_addmm(e, e, e, 0, 1))                                                                                \
    NEW(baddbmm, hd_baddbmm(e, hd_unsqueeze(e, 0), hd_unsqueeze(e, 0), 1, 1))                                          \
    NEW(tensordot, hd_tensordot(e, e, X(0), X(0)))                                                                     \
    NEW(kron, hd_kron(r, x))                                                                                           \
    NEW(bilinear, hd_bilinear(e, e, hd_unsqueeze(e, 0), NULL))                                                         \
    NEW(cross, hd_cross(row, row, 0))                                                                                  \
    NEW(einsum, hd_einsum("ij->ij", &x, 1))                                                                            \
    NEW(einsum, hd_einsum("ij->ji", &e, 1))                                                                            \
    NEW(einsum, hd_einsum("ii->i", &e, 1))                                                                             \
    NEW(einsum, hd_einsum("", &r, 1))                                                                                  \
    NEW(einsum, hd_einsum("ij,ij->ij", (hd_tensor *const[]){x, e}, 2))                                                 \
    NEW(layer_norm, hd_layer_norm(x, 1, NULL, NULL, 1))                                                                \
    NEW(rms_norm, hd_rms_norm(x, NULL, 1))                                                                             \
    NEW(layer_norm_gradient, hd_layer_norm_gradient(x, x, 1, NULL, 1))                                                 \
    NEW(rms_norm_gradient, hd_rms_norm_gradient(x, x, NULL, 1))                                                        \
    NEW(layer_norm_weight_gradient, hd_layer_norm_weight_gradient(x, x, 1, 1))                                         \
    NEW(rms_norm_weight_gradient, hd_rms_norm_weight_gradient(x, x, 1))                                                \
    NEW(conv, hd_conv(image, hd_ones(S(1, 1, 1, 1), HD_F32), NULL, NULL))                                              \
    NEW(conv_transpose, hd_conv_transpose(image, hd_ones(S(1, 1, 1, 1), HD_F32), NULL, NULL))                          \
    NEW(conv_weight_gradient, hd_conv_weight_gradient(image, image, S(1, 1), NULL))                                    \
    NEW(conv1d, hd_conv1d(hd_unsqueeze(row, 0), hd_ones(S(1, 1, 1), HD_F32), NULL, NULL))                              \
    NEW(conv2d, hd_conv2d(image, hd_ones(S(1, 1, 1, 1), HD_F32), NULL, NULL))                                          \
    NEW(conv3d, hd_conv3d(hd_unsqueeze(image, 0), hd_ones(S(1, 1, 1, 1, 1), HD_F32), NULL, NULL))                      \
    NEW(conv_transpose1d, hd_conv_transpose1d(hd_unsqueeze(row, 0), hd_ones(S(1, 1, 1), HD_F32), NULL, NULL))          \
    NEW(conv_transpose2d, hd_conv_transpose2d(image, hd_ones(S(1, 1, 1, 1), HD_F32), NULL, NULL))                      \
    NEW(conv_transpose3d, hd_conv_transpose3d(hd_unsqueeze(image, 0), hd_ones(S(1, 1, 1, 1, 1), HD_F32), NULL, NULL))  \
    NEW(max_pool, hd_max_pool(image, S(1, 1), NULL))                                                                   \
    NEW(avg_pool, hd_avg_pool(image, S(1, 1), NULL))                                                                   \
    NEW(max_pool_pick, hd_max_pool_pick(image, image, S(1, 1), NULL))                                                  \
    NEW(max_pool_gradient, hd_max_pool_gradient(image, image, S(1, 1), NULL))                                          \
    NEW(avg_pool_gradient, hd_avg_pool_gradient(image, S(1, 1, 2, 2), S(1, 1), NULL))                                  \
    NEW(adaptive_max_pool, hd_adaptive_max_pool(image, S(2, 2)))                                                       \
    NEW(adaptive_avg_pool, hd_adaptive_avg_pool(image, S(2, 2)))                                                       \
    NEW(group_norm, hd_group_norm(x, 1, NULL, NULL, 1))                                                                \
    NEW(instance_norm, hd_instance_norm(image, NULL, NULL, 1))                                                         \
    NEW(batch_norm, hd_batch_norm(image, NULL, NULL, NULL, NULL, true, 0, 1))                                          \
    NEW(batch_norm, hd_batch_norm(x, row, row, NULL, NULL, false, 0, 1))                                               \
    NEW(local_response_norm, hd_local_response_norm(x, 1, 0, 0, 1))                                                    \
    NEW(local_response_norm, hd_local_response_norm(hd_slice(x, 0, 0, 0, 1), 1, 0, 0, 1))                              \
    NEW(l2_normalize, hd_l2_normalize(x, 0, 1))                                                                        \
    NEW(cosine_similarity, hd_cosine_similarity(e, e, 0, 1))                                                           \
    NEW(lp_pool, hd_lp_pool(image, 1, S(1, 1), NULL))                                                                  \
    NEW(max_pool_with_index, hd_max_pool_with_index(image, S(1, 1), NULL).values)                                      \
    NEW(im2col, hd_im2col(image, S(1, 1), NULL))                                                                       \
    NEW(im2col, hd_im2col(image, S(2, 2), NULL))                                                                       \
    NEW(col2im, hd_col2im(hd_reshape(row, S(1, 1, 3)), S(3), S(1), NULL))                                              \
    NEW(col2im, hd_col2im(hd_reshape(hd_slice(row, 0, 0, 0, 1), S(1, 0, 3)), S(3), S(1), NULL))                        \
    NEW(pixel_shuffle, hd_pixel_shuffle(image, 1))                                                                     \
    NEW(pixel_unshuffle, hd_pixel_unshuffle(image, 1))                                                                 \
    NEW(resize, hd_resize(image, S(2, 2), NULL))                                                                       \
    NEW(resize, hd_resize(image, S(2, 2), HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_LINEAR)))                          \
    NEW(resize, hd_resize(e, S(1, 3), NULL))                                                                           \
    NEW(attention, hd_attention(e, e, e, NULL, false, 1))                                                              \
    NEW(attention_dropout, hd_attention_dropout(e, e, e, NULL, false, 1, 0))                                           \
    NEW(custom, hd_custom(own_same(), HD_TENSORS(x), NULL, 0))                                                         \
    NEW(attention_gradient,                                                                                            \
        hd_attention_gradient(e, e, e, e, NULL, hd_zeros(S(hd_tensor_size(e, 0), 2), HD_F32), false, 1))               \
    NEW(bernoulli_of, hd_bernoulli_of(hd_ones_like(x)))                                                                \
    NEW(dropout, hd_dropout(x, 0))                                                                                     \
    NEW(alpha_dropout, hd_alpha_dropout(x, 0))                                                                         \
    NEW(cholesky, LAPACK(hd_cholesky(e, false), e))                                                                    \
    NEW(triangular_solve, LAPACK(hd_triangular_solve(e, e, NULL), e))                                                  \
    NEW(triangular_solve, LAPACK(hd_triangular_solve(e, e, HD_OPTS(hd_triangular_opts, .unit = true)), e))             \
    NEW(solve, LAPACK(hd_solve(e, e), e))                                                                              \
    NEW(inv, LAPACK(hd_inv(hd_ones_like(e)), e))                                                                       \
    NEW(lu_factor, LAPACK(hd_lu_factor(e).values, e))                                                                  \
    NEW(lu, LAPACK(hd_lu(e).u, e))                                                                                     \
    NEW(qr, LAPACK(hd_qr(e).r, e))                                                                                     \
    NEW(eigh, LAPACK(hd_eigh(e).values, e))                                                                            \
    NEW(eigvalsh, LAPACK(hd_eigvalsh(e), e))                                                                           \
    NEW(svd, LAPACK(hd_svd(e).s, e))                                                                                   \
    NEW(svd_packed, LAPACK(hd_svd_packed(e).values, e))                                                                \
    NEW(svdvals, LAPACK(hd_svdvals(e), e))                                                                             \
    NEW(pinv, LAPACK(hd_pinv(e, 0), e))                                                                                \
    NEW(lstsq, LAPACK(hd_lstsq(e, e, 0), e))                                                                           \
    NEW(det, LAPACK(hd_det(e), e))                                                                                     \
    NEW(slogdet, LAPACK(hd_slogdet(e).log, e))                                                                         \
    NEW(matrix_power, hd_matrix_power(e, 1))                                                                           \
    NEW(matrix_norm, hd_matrix_norm(e, HD_NORM_1, NULL))                                                               \
    NEW(matrix_rank, LAPACK(hd_matrix_rank(e, 0), e))                                                                  \
    NEW(rsub_scalar, hd_rsub_scalar(x, 0))                                                                             \
    NEW(rdiv_scalar, hd_rdiv_scalar(x, 1))                                                                             \
    NEW(rpow_scalar, hd_rpow_scalar(x, 1))                                                                             \
    NEW(where_scalar, hd_where_scalar(hd_ones_like(hd_isfinite(x)), x, 0))                                             \
    NEW(rwhere_scalar, hd_rwhere_scalar(hd_zeros_like(hd_isfinite(x)), x, 0))

/* These have no operand. */
static const char *const makers[] = {
    "full",      "empty",       "range",           "zeros",  "ones",    "arange",      "linspace", "logspace",
    "eye",       "tri",         "uniform",         "normal", "randint", "permutation", "rand",     "randn",
    "bernoulli", "exponential", "truncated_normal"};

typedef enum sharing { IS_NEW, IS_VIEW, IS_ITSELF } sharing;
static const char *const meaning[] = {"has memory of its own", "is a view", "is its operand"};

static void check(const char *name, sharing expected, const operands *o, hd_tensor *y) {
    hd_tensor *const all[] = {o->x, o->e, o->r, o->image, o->row, o->i};
    if (!hd_ok()) fail_msg("%s: %s", name, hd_error_message());
    bool shares = false, same = false;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; ++k) {
        shares = shares || hd_tensor_shares_storage(y, all[k]);
        same = same || y == all[k];
    }
    const sharing is = same ? IS_ITSELF : shares ? IS_VIEW : IS_NEW;
    if (is != expected) fail_msg("hd_%s: the result %s, where it %s", name, meaning[is], meaning[expected]);
}

static operands make_operands(void) {
    HD_EAGER;
    return (operands){.x = HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6),
                      .e = HD_TENSOR_F32(S(1, 1), 2),
                      .r = hd_scalar(3, HD_F32),
                      .image = HD_TENSOR_F32(S(1, 1, 2, 2), 1, 2, 3, 4),
                      .row = HD_TENSOR_F32(S(3), 1, 2, 3),
                      .i = HD_TENSOR_I64(S(2), 0, 1)};
}

static void call_all(void) {
    const operands o = make_operands();
    hd_tensor *x = o.x, *e = o.e, *r = o.r, *image = o.image, *row = o.row, *i = o.i;
#define CALL_NEW(name, call)    check(#name, IS_NEW, &o, call);
#define CALL_VIEW(name, call)   check(#name, IS_VIEW, &o, call);
#define CALL_ITSELF(name, call) check(#name, IS_ITSELF, &o, call);
    CALLS(CALL_NEW, CALL_VIEW, CALL_ITSELF)
}

static void sharing_is_the_same_for_all_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    call_all();
}

static void sharing_is_the_same_while_a_builder_records(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("sharing");
    hd_builder_start(b);
    call_all();
    hd_builder_end(b);
}

static void elementwise_rows_never_share(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        HD_SCOPE;
        const hd_dtype dtype = hd_ops[id].types == HD_TYPES_INTS ? HD_I32 : HD_F32;
        hd_tensor *in[3];
        for (int i = 0; i < 3; ++i) in[i] = hd_ones(S(2), hd_rows[id].chooses && i == 0 ? HD_BOOL : dtype);
        hd_tensor *y = hd_run_row(hd_thread_self(), (hd_op_id)id, in, (const double[3]){1, 1, 1});
        if (!hd_ok()) fail_msg("%s: %s", hd_ops[id].name, hd_error_message());
        for (int i = 0; i < 3; ++i)
            if (y == in[i] || hd_tensor_shares_storage(y, in[i])) fail_msg("hd_%s shares memory", hd_ops[id].name);
    }
}

/* A row of the tables without a call here would go unseen. */
static void every_op_is_asked(void **state) {
    (void)state;
#define NAME(name, ...) #name,
    static const char *const asked[] = {CALLS(NAME, NAME, NAME)};
    static const char *const all[] = {
#define PRIMITIVE(name, ...) #name,
#define COMPOSITE(name, ...) #name,
#include "ops/ops.def"
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; ++k) {
        bool found = false;
        for (size_t n = 0; n < sizeof asked / sizeof asked[0]; ++n) found = found || strcmp(asked[n], all[k]) == 0;
        for (size_t n = 0; n < sizeof makers / sizeof makers[0]; ++n) found = found || strcmp(makers[n], all[k]) == 0;
        if (!found) fail_msg("hd_%s is not asked whether it shares memory", all[k]);
    }
}

/* What follows from it: writing the result leaves x alone, and a result has a history. */
static void a_result_is_written_and_differentiated_by_itself(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6);
    hd_fill(hd_tile(x, S(1, 1)), 9);
    hd_fill(hd_tile(hd_slice(hd_slice(x, 0, 0, 1, 1), 1, 0, 1, 1), S(2, 3)), 9);
    hd_fill(hd_pad_with(x, none, 2, HD_PAD_REFLECT), 9);
    hd_fill(hd_sum_to_shape(x, S(2, 3)), 9);
    hd_fill(hd_repeat_interleave(x, 1, 0), 9);
    assert_values(x, HD_F32, 1, 2, 3, 4, 5, 6);
    hd_tensor *w = hd_param(x);
    hd_backward(hd_tile(w, S(1, 1)));
    hd_backward(hd_pad_with(w, none, 2, HD_PAD_REPLICATE));
    hd_backward(hd_sum_to_shape(w, S(2, 3)));
    hd_backward(hd_flip(hd_sum(w, X(), NULL), X()));
    assert_values(hd_grad(w), HD_F32, 4, 4, 4, 4, 4, 4);
}

static void integers_summed_to_a_shape_are_wide_whatever_it_is(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_cast(HD_TENSOR_I64(S(2), 1, 2), HD_I32);
    assert_values(hd_sum_to_shape(x, S(2)), HD_I64, 1, 2);
    assert_values(hd_sum_to_shape(x, S(1)), HD_I64, 3);
}

RUN(test(sharing_is_the_same_for_all_arguments), test(sharing_is_the_same_while_a_builder_records),
    test(elementwise_rows_never_share), test(every_op_is_asked), test(a_result_is_written_and_differentiated_by_itself),
    test(integers_summed_to_a_shape_are_wide_whatever_it_is))
