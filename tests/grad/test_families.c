/* The gradients of all ops that are no elementwise rows, and of the losses: hd_gradcheck in f64, first and second
 * order, for plain, turned and reversed inputs.
 *
 * Every op of ops.def with a vjp must be on the tape of some case, every composite must have a case or be named among
 * those that have no gradient: a new row fails here until it has one. */
#include "core/thread.h"
#include "grad/tape.h"
#include "lapack.h"
#include "own_ops.h"
#include "support.h"

#include <math.h>

/* ---- the cases -----------------------------------------------------------------------------------------------------
 * CASE(op, label, IN(shapes of the inputs), result): the result in a, b, c. Inputs are distinct, of either sign, and
 * from 0.3 to 2 large, at least 0.02 apart, so that differences with a step of 1e-4 do not change which one is
 * largest. */
#define IN(...)            __VA_ARGS__
#define S                  HD_SHAPE
#define X                  HD_AXES
#define KEEP               HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define I64                HD_TENSOR_I64
#define SCAN(before, back) HD_OPTS(hd_scan_opts, .exclusive = before, .reverse = back)
#define P(...)                                                                                                         \
    (const hd_padding[]) { __VA_ARGS__ }
#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))
#define POSITIVE(x)     hd_add_scalar(hd_square(x), 0.1)
#define REDUCED(kind)   HD_OPTS(hd_loss_opts, .reduction = HD_REDUCTION_##kind)
#define CE(logits, ...) hd_cross_entropy(logits, __VA_ARGS__)
#define CE_OPTS(...)    HD_OPTS(hd_cross_entropy_opts, __VA_ARGS__)
#define CLASSES         I64(S(3), 2, 0, 2)
#define CONV(...)       HD_OPTS(hd_conv_opts, __VA_ARGS__)
#define POOL(...)       HD_OPTS(hd_pool_opts, __VA_ARGS__)
#define SIZED(...)      HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_##__VA_ARGS__)
#define b_like(n)       hd_arange(1, (n) + 1, 1, HD_F64) /* other weights for each place */
#define LABELS(x)       hd_softmax(x, 1)                 /* probabilities that have a gradient themselves */
#define PART(list, i)   hd_tensors_get(list, i)

#define REDUCTIONS(CASE)                                                                                               \
    CASE(sum, all, IN(S(2, 3)), hd_sum(a, X(), NULL))                                                                  \
    CASE(sum, first, IN(S(2, 3, 2)), hd_sum(a, X(0), NULL))                                                            \
    CASE(sum, outer_kept, IN(S(2, 3, 2)), hd_sum(a, X(0, 2), KEEP))                                                    \
    CASE(sum, scalar, IN(S()), hd_sum(a, X(), NULL))                                                                   \
    CASE(sum, empty, IN(S(2, 0), S(2)), hd_add(hd_sum(a, X(1), NULL), b))                                              \
    CASE(prod, all, IN(S(2, 3)), hd_prod(a, X(), NULL))                                                                \
    CASE(prod, middle, IN(S(2, 3, 2)), hd_prod(a, X(1), NULL))                                                         \
    CASE(prod, outer_kept, IN(S(2, 2, 3)), hd_prod(a, X(0, 2), KEEP))                                                  \
    CASE(prod, of_one, IN(S(3, 1)), hd_prod(a, X(1), NULL))                                                            \
    CASE(prod, scalar, IN(S()), hd_prod(a, X(), NULL))                                                                 \
    CASE(prod, long, IN(S(9)), hd_prod(a, X(), NULL))                                                                  \
    CASE(prod, empty, IN(S(2, 0), S(2)), hd_mul(hd_prod(a, X(1), NULL), b))                                            \
    CASE(prod, highest_rank, IN(S(1, 2, 1, 2, 1, 1, 3, 1)), hd_prod(a, X(3, 6), KEEP))                                 \
    CASE(max, all, IN(S(2, 3)), hd_max(a, X(), NULL))                                                                  \
    CASE(max, last_kept, IN(S(3, 4)), hd_max(a, X(-1), KEEP))                                                          \
    CASE(max, outer, IN(S(2, 3, 2)), hd_max(a, X(0, 2), NULL))                                                         \
    CASE(max, scalar, IN(S()), hd_max(a, X(), NULL))                                                                   \
    CASE(max, squared, IN(S(2, 3)), hd_square(hd_max(a, X(0), NULL)))                                                  \
    CASE(min, all, IN(S(2, 3)), hd_min(a, X(), NULL))                                                                  \
    CASE(min, first, IN(S(3, 4)), hd_min(a, X(0), NULL))                                                               \
    CASE(min, squared, IN(S(2, 3)), hd_square(hd_min(a, X(1), KEEP)))                                                  \
    CASE(max_with_index, last, IN(S(3, 4)), hd_max_with_index(a, -1, NULL).values)                                     \
    CASE(max_with_index, first_kept, IN(S(3, 4)), hd_square(hd_max_with_index(a, 0, KEEP).values))                     \
    CASE(min_with_index, middle, IN(S(2, 3, 2)), hd_min_with_index(a, 1, NULL).values)                                 \
    CASE(sort, last, IN(S(2, 5)), hd_mul(hd_sort(a, 1, false).values, b_like(5)))                                      \
    CASE(sort, first_descending, IN(S(4, 3)), hd_square(hd_sort(a, 0, true).values))                                   \
    CASE(topk, largest, IN(S(2, 6)), hd_square(hd_topk(a, 3, 1, true).values))                                         \
    CASE(kthvalue, third, IN(S(2, 5)), hd_kthvalue(a, 3, 1, NULL).values)                                              \
    CASE(kthvalue, of_middle, IN(S(2, 3, 2)), hd_square(hd_kthvalue(a, 2, 1, KEEP).values))                            \
    CASE(median, lower, IN(S(2, 4)), hd_square(hd_median(a, 1, NULL).values))                                          \
    CASE(quantile, between, IN(S(2, 5)), hd_square(hd_quantile(a, 0.3, 1, NULL)))                                      \
    CASE(quantiles, list, IN(S(2, 5)), hd_square(hd_quantiles(a, (const double[]){0.3, 0.9}, 2, 1, NULL)))             \
    CASE(quantile, last, IN(S(4, 2)), hd_quantile(a, 1, 0, KEEP))                                                      \
    CASE(bincount, weights, IN(S(4)), hd_square(hd_bincount(I64(S(4), 2, 0, 2, 1), a, 4)))                             \
    CASE(masked_select, half, IN(S(2, 3)), hd_square(hd_masked_select(a, hd_gt_scalar(a, 0))))                         \
    CASE(masked_select_padded, more, IN(S(2, 3)), hd_square(hd_masked_select_padded(a, hd_gt_scalar(a, 0), 8, 2)))     \
    CASE(masked_select_padded, broadcast, IN(S(2, 1)), hd_masked_select_padded(a, hd_ones(S(3), HD_BOOL), 4, 0))       \
    CASE(unique, all, IN(S(2, 3)), hd_square(hd_unique(a, NULL).values))                                               \
    CASE(unique_padded, some, IN(S(2, 3)), hd_square(hd_unique_padded(a, 4, 0, NULL).values))                          \
    CASE(topk, smallest_of_middle, IN(S(2, 5, 2)), hd_topk(a, 2, 1, false).values)                                     \
    CASE(cumsum, last, IN(S(2, 5)), hd_square(hd_cumsum(a, 1, NULL)))                                                  \
    CASE(cumsum, before, IN(S(4, 3)), hd_square(hd_cumsum(a, 0, SCAN(true, false))))                                   \
    CASE(cumsum, back, IN(S(2, 4, 2)), hd_square(hd_cumsum(a, 1, SCAN(false, true))))                                  \
    CASE(cumsum, before_back, IN(S(5)), hd_square(hd_cumsum(a, 0, SCAN(true, true))))                                  \
    CASE(cumsum, scalar, IN(S()), hd_cumsum(a, 0, NULL))                                                               \
    CASE(cumsum, empty, IN(S(2, 0), S(2)), hd_add(hd_sum(hd_cumsum(a, 1, NULL), X(1), NULL), b))                       \
    CASE(cumprod, last, IN(S(2, 5)), hd_cumprod(a, 1, NULL))                                                           \
    CASE(cumprod, before, IN(S(4, 2)), hd_cumprod(a, 0, SCAN(true, false)))                                            \
    CASE(cumprod, back, IN(S(2, 4, 2)), hd_cumprod(a, 1, SCAN(false, true)))                                           \
    CASE(cumprod, before_back, IN(S(5)), hd_cumprod(a, 0, SCAN(true, true)))                                           \
    CASE(cumprod, of_one, IN(S(3, 1)), hd_cumprod(a, 1, NULL))                                                         \
    CASE(cumprod, of_one_before, IN(S(3, 1)), hd_add(a, hd_cumprod(a, 1, SCAN(true, false))))                          \
    CASE(cumprod, scalar, IN(S()), hd_cumprod(a, -1, NULL))                                                            \
    CASE(cumprod, empty, IN(S(2, 0), S(2)), hd_mul(hd_prod(hd_cumprod(a, 1, NULL), X(1), NULL), b))                    \
    CASE(logcumsumexp, last, IN(S(2, 5)), hd_logcumsumexp(a, 1, NULL))                                                 \
    CASE(logcumsumexp, before, IN(S(4, 2)), hd_exp(hd_logcumsumexp(a, 0, SCAN(true, false))))                          \
    CASE(logcumsumexp, back, IN(S(2, 4, 2)), hd_logcumsumexp(a, 1, SCAN(false, true)))                                 \
    CASE(logcumsumexp, before_back, IN(S(5)), hd_exp(hd_logcumsumexp(a, 0, SCAN(true, true))))                         \
    CASE(logcumsumexp, scalar, IN(S()), hd_logcumsumexp(a, 0, NULL))                                                   \
    CASE(cummax, last, IN(S(2, 6)), hd_square(hd_cummax(a, 1, NULL).values))                                           \
    CASE(cummax, first_back, IN(S(5, 2)), hd_square(hd_cummax(a, 0, SCAN(false, true)).values))                        \
    CASE(cummax, scalar, IN(S()), hd_square(hd_cummax(a, 0, NULL).values))                                             \
    CASE(cummin, middle, IN(S(2, 5, 2)), hd_square(hd_cummin(a, 1, NULL).values))                                      \
    CASE(mean, all, IN(S(2, 3)), hd_mean(a, X(), NULL))                                                                \
    CASE(mean, last_kept, IN(S(2, 3)), hd_mean(a, X(-1), KEEP))                                                        \
    CASE(var, all, IN(S(2, 3)), hd_var(a, X(), 1, NULL))                                                               \
    CASE(var, biased, IN(S(2, 3)), hd_var(a, X(1), 0, KEEP))                                                           \
    CASE(std, all, IN(S(2, 3)), hd_std(a, X(), 1, NULL))                                                               \
    CASE(std, first, IN(S(3, 2)), hd_std(a, X(0), 0, KEEP))                                                            \
    CASE(norm, two, IN(S(2, 3)), hd_norm(a, 2, X(), NULL))                                                             \
    CASE(norm, two_of_rows, IN(S(2, 3)), hd_norm(a, 2, X(1), KEEP))                                                    \
    CASE(norm, one, IN(S(2, 3)), hd_norm(a, 1, X(0), NULL))                                                            \
    CASE(norm, zero, IN(S(2, 3)), hd_norm(a, 0, X(0), NULL))                                                           \
    CASE(norm, three, IN(S(2, 3)), hd_norm(a, 3, X(1), NULL))                                                          \
    CASE(norm, half, IN(S(2, 3)), hd_norm(a, 0.5, X(), NULL))                                                          \
    CASE(norm, minus_one, IN(S(2, 3)), hd_norm(a, -1, X(1), NULL))                                                     \
    CASE(norm, largest, IN(S(2, 3)), hd_norm(a, INFINITY, X(1), NULL))                                                 \
    CASE(norm, smallest, IN(S(2, 3)), hd_norm(a, -INFINITY, X(1), NULL))                                               \
    CASE(logsumexp, all, IN(S(2, 3)), hd_logsumexp(a, X(), NULL))                                                      \
    CASE(logsumexp, last_kept, IN(S(2, 3)), hd_logsumexp(a, X(-1), KEEP))                                              \
    CASE(softmax, last, IN(S(2, 3)), hd_softmax(a, -1))                                                                \
    CASE(softmax, first, IN(S(3, 2)), hd_softmax(a, 0))                                                                \
    CASE(softmax, empty, IN(S(0, 3), S(2)), hd_concat(LIST(hd_flatten(hd_softmax(a, 1)), b), 0))                       \
    CASE(log_softmax, last, IN(S(2, 3)), hd_log_softmax(a, -1))                                                        \
    CASE(log_softmax, middle, IN(S(2, 3, 2)), hd_log_softmax(a, 1))                                                    \
    CASE(sum_to_shape, in_front, IN(S(2, 3)), hd_sum_to_shape(a, S(3)))                                                \
    CASE(sum_to_shape, inside, IN(S(2, 3, 2)), hd_sum_to_shape(a, S(3, 1)))                                            \
    CASE(sum_to_shape, same, IN(S(2, 3)), hd_sum_to_shape(a, S(2, 3)))

#define VIEWS(CASE)                                                                                                    \
    CASE(reshape, flat, IN(S(2, 3)), hd_reshape(a, S(6)))                                                              \
    CASE(reshape, other, IN(S(2, 3, 2)), hd_reshape(a, S(3, -1)))                                                      \
    CASE(reshape, scalar, IN(S(1, 1)), hd_reshape(a, S()))                                                             \
    CASE(reshape, turned, IN(S(2, 3)), hd_reshape(hd_t(a), S(2, 3)))                                                   \
    CASE(reshape, empty, IN(S(0, 3), S(1)), hd_concat(LIST(hd_reshape(a, S(0)), b), 0))                                \
    CASE(permute, three, IN(S(2, 3, 2)), hd_permute(a, X(2, 0, 1)))                                                    \
    CASE(permute, back, IN(S(2, 3, 1)), hd_permute(a, X(-1, 1, 0)))                                                    \
    CASE(broadcast_to, in_front, IN(S(3)), hd_broadcast_to(a, S(2, 3)))                                                \
    CASE(broadcast_to, inside, IN(S(2, 1, 3)), hd_broadcast_to(a, S(2, 2, 2, 3)))                                      \
    CASE(broadcast_to, scalar, IN(S()), hd_broadcast_to(a, S(2, 2)))                                                   \
    CASE(broadcast_to, empty, IN(S(1, 3)), hd_sum(hd_broadcast_to(a, S(0, 3)), X(0), NULL))                            \
    CASE(slice, front, IN(S(4, 2)), hd_slice(a, 0, HD_END, 2, 1))                                                      \
    CASE(slice, behind, IN(S(2, 5)), hd_slice(a, 1, 2, HD_END, 1))                                                     \
    CASE(slice, stepped, IN(S(2, 7)), hd_slice(a, -1, 1, HD_END, 3))                                                   \
    CASE(slice, stepped_first, IN(S(7, 2)), hd_slice(a, 0, HD_END, -1, 2))                                             \
    CASE(slice, one_of_steps, IN(S(5)), hd_slice(a, 0, 3, HD_END, 4))                                                  \
    CASE(slice, reversed, IN(S(4, 2)), hd_slice(a, 0, HD_END, HD_END, -1))                                             \
    CASE(slice, reversed_part, IN(S(2, 7)), hd_slice(a, 1, 5, 0, -2))                                                  \
    CASE(slice, reversed_middle, IN(S(2, 6, 2)), hd_slice(a, 1, -2, HD_END, -3))                                       \
    CASE(slice, empty, IN(S(3, 2)), hd_add(hd_sum(hd_slice(a, 0, 2, 1, 1), X(0), NULL), hd_select(a, 0, 0)))           \
    CASE(slice, highest_rank, IN(S(1, 2, 1, 5, 1, 1, 1, 1)), hd_slice(a, 3, HD_END, HD_END, 2))                        \
    CASE(slice, highest_rank_back, IN(S(1, 2, 1, 5, 1, 1, 1, 1)), hd_slice(a, 3, -2, HD_END, -2))                      \
    CASE(slice, all, IN(S(3)), hd_slice(a, 0, HD_END, HD_END, 1))                                                      \
    CASE(diagonal, main, IN(S(3, 3)), hd_diagonal(a, 0, 0, 1))                                                         \
    CASE(diagonal, above, IN(S(2, 4)), hd_diagonal(a, 1, 0, 1))                                                        \
    CASE(diagonal, below, IN(S(4, 2)), hd_diagonal(a, -2, 0, 1))                                                       \
    CASE(diagonal, of_batches, IN(S(3, 2, 3)), hd_diagonal(a, 0, 2, 0))                                                \
    CASE(diagonal, outside, IN(S(2, 2)), hd_add(hd_sum(hd_diagonal(a, 5, 0, 1), X(), NULL), a))                        \
    CASE(diagonal, empty, IN(S(0, 3), S(1)), hd_concat(LIST(hd_diagonal(a, 0, 0, 1), b), 0))                           \
    CASE(diagonal, highest_rank, IN(S(1, 2, 1, 2, 1, 1, 3, 1)), hd_diagonal(a, 1, 1, 6))                               \
    CASE(unfold, highest_rank, IN(S(1, 2, 1, 1, 4, 1, 1)), hd_unfold(a, 4, 2, 1))                                      \
    CASE(unfold, overlapping, IN(S(6)), hd_unfold(a, 0, 3, 1))                                                         \
    CASE(unfold, stepped, IN(S(2, 7)), hd_unfold(a, 1, 3, 2))                                                          \
    CASE(unfold, apart, IN(S(7, 2)), hd_unfold(a, 0, 2, 3))                                                            \
    CASE(unfold, no_size, IN(S(3), S(1)), hd_concat(LIST(hd_flatten(hd_unfold(a, 0, 0, 1)), b), 0))                    \
    CASE(unfold, squared, IN(S(5)), hd_square(hd_unfold(a, 0, 2, 1)))                                                  \
    CASE(as_strided, turned, IN(S(2, 3)), hd_as_strided(a, S(3, 2), S(1, 3), 0))                                       \
    CASE(as_strided, overlapping, IN(S(6)), hd_as_strided(a, S(3, 3), S(1, 1), 1))                                     \
    CASE(as_strided, repeated, IN(S(4)), hd_square(hd_as_strided(a, S(2, 3), S(0, 1), 1)))                             \
    CASE(as_strided, backwards, IN(S(5)), hd_as_strided(a, S(3), S(-2), 4))                                            \
    CASE(flatten, two, IN(S(2, 3)), hd_flatten(a))                                                                     \
    CASE(flatten, scalar, IN(S()), hd_flatten(a))                                                                      \
    CASE(squeeze, all, IN(S(1, 3, 1)), hd_squeeze(a, X()))                                                             \
    CASE(squeeze, one, IN(S(1, 3, 1)), hd_squeeze(a, X(-1)))                                                           \
    CASE(unsqueeze, last, IN(S(2, 3)), hd_unsqueeze(a, -1))                                                            \
    CASE(unsqueeze, scalar, IN(S()), hd_unsqueeze(a, 0))                                                               \
    CASE(transpose, outer, IN(S(2, 3, 2)), hd_transpose(a, 0, 2))                                                      \
    CASE(t, batches, IN(S(2, 2, 3)), hd_t(a))                                                                          \
    CASE(move_axis, forward, IN(S(2, 3, 2)), hd_move_axis(a, 0, 2))                                                    \
    CASE(move_axis, back, IN(S(2, 3, 2)), hd_move_axis(a, -1, 0))                                                      \
    CASE(expand, keeping, IN(S(2, 1)), hd_expand(a, S(2, -1, 3)))                                                      \
    CASE(select, first, IN(S(3, 2)), hd_select(a, 0, -1))                                                              \
    CASE(select, of_vector, IN(S(3)), hd_select(a, 0, 1))                                                              \
    CASE(narrow, middle, IN(S(2, 5)), hd_narrow(a, 1, 1, 3))                                                           \
    CASE(split, last_shorter, IN(S(2, 5)), hd_mul(PART(hd_split(a, 2, 1), 0), PART(hd_split(a, 2, 1), -1)))            \
    CASE(split, alone, IN(S(3)), hd_square(PART(hd_split(a, 9, 0), 0)))                                                \
    CASE(chunk, fewer, IN(S(6, 2)), hd_mul(PART(hd_chunk(a, 4, 0), 0), PART(hd_chunk(a, 4, 0), 1)))                    \
    CASE(unbind, middle, IN(S(2, 3, 2)), hd_mul(PART(hd_unbind(a, 1), 0), PART(hd_unbind(a, 1), 2)))                   \
    CASE(unbind, scalars, IN(S(3)), hd_mul(PART(hd_unbind(a, 0), 2), PART(hd_unbind(a, 0), 1)))                        \
    CASE(flip, all, IN(S(2, 3)), hd_flip(a, X()))                                                                      \
    CASE(flip, one, IN(S(2, 3)), hd_flip(a, X(0)))

#define MOVEMENT(CASE)                                                                                                 \
    CASE(contiguous, turned, IN(S(2, 3)), hd_contiguous(hd_t(a)))                                                      \
    CASE(contiguous, broadcast, IN(S(1, 3)), hd_contiguous(hd_broadcast_to(a, S(2, 3))))                               \
    CASE(to, plain, IN(S(2, 3)), hd_to(a, hd_tensor_device(a)))                                                        \
    CASE(copy, plain, IN(S(2, 3)), hd_copy(a))                                                                         \
    CASE(concat, first, IN(S(2, 2), S(1, 2), S(3, 2)), hd_concat(LIST(a, b, c), 0))                                    \
    CASE(concat, last, IN(S(2, 2), S(2, 1)), hd_concat(LIST(a, b), -1))                                                \
    CASE(concat, with_itself, IN(S(2, 2)), hd_concat(LIST(a, a, hd_square(a)), 1))                                     \
    CASE(concat, with_empty, IN(S(2, 2), S(2, 0)), hd_concat(LIST(b, a, b), 1))                                        \
    CASE(concat, with_constant, IN(S(2), S(1)), hd_concat(LIST(a, hd_ones(S(3), HD_F64), b), 0))                       \
    CASE(concat, alone, IN(S(2)), hd_concat(LIST(a), 0))                                                               \
    CASE(concat, many, IN(S(1), S(1)),                                                                                 \
         hd_concat(LIST(a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a,   \
                        b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b,   \
                        a, b),                                                                                         \
                   0))                                                                                                 \
    CASE(stack, first, IN(S(2, 2), S(2, 2)), hd_stack(LIST(a, b), 0))                                                  \
    CASE(stack, last, IN(S(2), S(2)), hd_stack(LIST(a, b, a), -1))                                                     \
    CASE(stack, scalars, IN(S(), S()), hd_stack(LIST(a, b), 0))                                                        \
    CASE(pad, around, IN(S(2, 3)), hd_pad(a, P({1, 2}, {0, 1}), 2, 5))                                                 \
    CASE(pad, last, IN(S(2, 3)), hd_pad(a, P({2, 0}), 1, 0))                                                           \
    CASE(pad, negative, IN(S(4, 3)), hd_pad(a, P({-1, -2}, {1, -1}), 2, 5))                                            \
    CASE(pad, cut_to_nothing, IN(S(2, 2)), hd_add(hd_sum(hd_pad(a, P({-1, -1}), 1, 0), X(), NULL), a))                 \
    CASE(pad, empty, IN(S(0), S(2)), hd_mul(hd_pad(a, P({1, 1}), 1, 3), b))                                            \
    CASE(pad, scalar, IN(S()), hd_pad(a, NULL, 0, 1))                                                                  \
    CASE(pad, infinite, IN(S(2)), hd_max(hd_pad(a, P({1, 1}), 1, -INFINITY), X(), NULL))                               \
    CASE(pad_with, reflect, IN(S(3, 4)), hd_pad_with(a, P({1, 2}, {3, 0}), 2, HD_PAD_REFLECT))                         \
    CASE(pad_with, replicate, IN(S(2, 3)), hd_pad_with(a, P({1, 2}, {3, 1}), 2, HD_PAD_REPLICATE))                     \
    CASE(pad_with, circular, IN(S(3, 2)), hd_pad_with(a, P({1, 3}, {2, 1}), 2, HD_PAD_CIRCULAR))                       \
    CASE(pad_with, highest_rank, IN(S(1, 2, 1, 2, 1, 1, 3, 1)), hd_pad_with(a, P({1, 1}, {0, 0}), 2, HD_PAD_CIRCULAR)) \
    CASE(roll, forward, IN(S(2, 3)), hd_roll(a, 1, 1))                                                                 \
    CASE(roll, back, IN(S(4, 2)), hd_roll(a, -5, 0))                                                                   \
    CASE(roll, not, IN(S(3)), hd_roll(a, 3, 0))                                                                        \
    CASE(tile, both, IN(S(2, 2)), hd_tile(a, S(2, 3)))                                                                 \
    CASE(tile, to_nothing, IN(S(2), S(1)), hd_concat(LIST(hd_tile(a, S(0)), b), 0))                                    \
    CASE(repeat_interleave, first, IN(S(2, 2)), hd_repeat_interleave(a, 3, 0))                                         \
    CASE(repeat_interleave, last, IN(S(2, 2)), hd_repeat_interleave(a, 2, -1))                                         \
    CASE(tril, main, IN(S(3, 3)), hd_tril(a, 0))                                                                       \
    CASE(tril, batches, IN(S(2, 2, 3)), hd_tril(a, 1))                                                                 \
    CASE(triu, main, IN(S(3, 3)), hd_triu(a, 0))                                                                       \
    CASE(triu, below, IN(S(3, 2)), hd_triu(a, -1))

#define INDEXING(CASE)                                                                                                 \
    CASE(gather, first, IN(S(3, 2)), hd_gather(a, 0, I64(S(2, 2), 2, 0, 1, -1)))                                       \
    CASE(gather, duplicates, IN(S(2, 3)), hd_gather(a, 1, I64(S(2, 4), 0, 0, 2, 0, 1, 1, 1, -1)))                      \
    CASE(gather, part, IN(S(3, 3)), hd_square(hd_gather(a, 1, I64(S(2, 1), 2, 1))))                                    \
    CASE(gather, i32, IN(S(3)), hd_gather(a, 0, hd_cast(I64(S(2), 1, 1), HD_I32)))                                     \
    CASE(gather, nothing, IN(S(3)), hd_add(hd_sum(hd_gather(a, 0, hd_zeros(S(0), HD_I64)), X(), NULL), a))             \
    CASE(scatter, set, IN(S(3, 2), S(2, 2)), hd_scatter(a, 0, I64(S(2, 2), 2, 0, 0, 1), b, HD_SCATTER_SET))            \
    CASE(scatter, set_twice, IN(S(2, 3), S(2, 4)),                                                                     \
         hd_scatter(a, 1, I64(S(2, 4), 0, 0, 2, 0, 1, 1, -1, 1), b, HD_SCATTER_SET))                                   \
    CASE(scatter, set_squared, IN(S(4), S(3)), hd_square(hd_scatter(a, 0, I64(S(3), 1, 1, 3), b, HD_SCATTER_SET)))     \
    CASE(scatter, add, IN(S(3, 2), S(2, 2)), hd_scatter(a, 0, I64(S(2, 2), 2, 0, 0, 1), b, HD_SCATTER_ADD))            \
    CASE(scatter, add_twice, IN(S(3), S(4)), hd_square(hd_scatter(a, 0, I64(S(4), 1, 1, -1, 1), b, HD_SCATTER_ADD)))   \
    CASE(scatter, mul, IN(S(3, 2), S(2, 2)), hd_scatter(a, 0, I64(S(2, 2), 2, 0, 0, 1), b, HD_SCATTER_MUL))            \
    CASE(scatter, mul_twice, IN(S(3), S(4)), hd_scatter(a, 0, I64(S(4), 1, 1, 0, 1), b, HD_SCATTER_MUL))               \
    CASE(scatter, max, IN(S(3, 2), S(2, 2)), hd_scatter(a, 0, I64(S(2, 2), 2, 0, 0, 1), b, HD_SCATTER_MAX))            \
    CASE(scatter, max_twice, IN(S(3), S(5)), hd_square(hd_scatter(a, 0, I64(S(5), 1, 1, 0, 1, 0), b, HD_SCATTER_MAX))) \
    CASE(scatter, min, IN(S(2, 3), S(2, 2)), hd_scatter(a, 1, I64(S(2, 2), 2, 0, 1, 1), b, HD_SCATTER_MIN))            \
    CASE(scatter, min_twice, IN(S(3), S(5)), hd_square(hd_scatter(a, 0, I64(S(5), 1, 1, 0, 1, 0), b, HD_SCATTER_MIN))) \
    CASE(scatter, into_constant, IN(S(2)),                                                                             \
         hd_scatter(hd_full(S(3), HD_F64, 2), 0, I64(S(2), 1, 1), a, HD_SCATTER_MUL))                                  \
    CASE(scatter, of_constant, IN(S(3)), hd_scatter(a, 0, I64(S(2), 1, 1), hd_full(S(2), HD_F64, 3), HD_SCATTER_MUL))  \
    CASE(scatter, nothing, IN(S(3), S(0)), hd_scatter(a, 0, hd_zeros(S(0), HD_I64), b, HD_SCATTER_SET))                \
    CASE(scatter, highest_rank, IN(S(1, 2, 1, 2, 1, 1, 3, 1), S(1, 2, 1, 1, 1, 1, 3, 1)),                              \
         hd_scatter(a, 3, hd_ones(S(1, 2, 1, 1, 1, 1, 3, 1), HD_I64), b, HD_SCATTER_MAX))                              \
    CASE(gather_nd, elements, IN(S(3, 2)), hd_gather_nd(a, I64(S(3, 2), 2, -1, 0, 0, 2, 1), 0))                        \
    CASE(gather_nd, rows, IN(S(3, 2)), hd_square(hd_gather_nd(a, I64(S(3, 1), 2, -3, 0), 0)))                          \
    CASE(gather_nd, batches, IN(S(2, 3, 2)), hd_gather_nd(a, I64(S(2, 2, 1), 2, 0, -1, 2), 1))                         \
    CASE(scatter_nd, set, IN(S(3, 2), S(3)), hd_scatter_nd(a, I64(S(3, 2), 2, -1, 0, 0, 2, 1), b, HD_SCATTER_SET))     \
    CASE(scatter_nd, add, IN(S(3, 2), S(3, 2)),                                                                        \
         hd_square(hd_scatter_nd(a, I64(S(3, 1), 2, -1, 0), b, HD_SCATTER_ADD)))                                       \
    CASE(scatter_nd, mul, IN(S(3, 2), S(3, 2)), hd_scatter_nd(a, I64(S(3, 1), 2, -1, 0), b, HD_SCATTER_MUL))           \
    CASE(index_put, set, IN(S(3, 2, 2), S(2)),                                                                         \
         hd_square(hd_index_put(a, LIST(I64(S(2, 1), 2, 0), I64(S(2), 1, -2)), b, false)))                             \
    CASE(index_put, added, IN(S(3, 2), S(2, 2)), hd_square(hd_index_put(a, LIST(I64(S(2), 2, -1)), b, true)))          \
    CASE(slice_update, stepped, IN(S(3, 4), S(2, 2)), hd_square(hd_slice_update(a, b, S(-2, 0), S(1, 3))))             \
    CASE(slice_update, back, IN(S(5), S(2)), hd_slice_update(hd_square(a), b, S(3), S(-2)))                            \
    CASE(slice_update, all, IN(S(2, 2), S(2, 2)), hd_add(hd_slice_update(a, b, S(0, 0), S()), a))                      \
    CASE(slice_update, nothing, IN(S(2, 2), S(2, 0)), hd_slice_update(a, b, S(0, 2), S()))                             \
    CASE(masked_scatter, some, IN(S(2, 3), S(3)),                                                                      \
         hd_square(hd_masked_scatter(a, hd_cast(I64(S(2, 3), 1, 0, 0, 0, 1, 0), HD_BOOL), b)))                         \
    CASE(masked_scatter, row, IN(S(2, 3), S(2, 2)),                                                                    \
         hd_square(hd_masked_scatter(a, hd_cast(I64(S(3), 1, 0, 1), HD_BOOL), b)))                                     \
    CASE(embedding, plain, IN(S(4, 2)), hd_square(hd_embedding(a, I64(S(2, 2), 3, 0, -1, 1), -1)))                     \
    CASE(embedding, other_padding, IN(S(4, 2)), hd_square(hd_embedding(a, I64(S(2, 2), 3, 0, -1, 1), 2)))              \
    CASE(diag, below, IN(S(3)), hd_square(hd_diag(a, -1)))                                                             \
    CASE(diag, of_matrix, IN(S(2, 3)), hd_square(hd_diag(a, 1)))                                                       \
    CASE(diag_embed, above, IN(S(2, 3)), hd_square(hd_diag_embed(a, 1, 0, -1)))                                        \
    CASE(diag_embed, nothing, IN(S(2, 0), S(2)),                                                                       \
         hd_mul(hd_sum(hd_diag_embed(a, 2, 1, 2), X(1), NULL), hd_unsqueeze(b, 1)))                                    \
    CASE(trace, plain, IN(S(3, 3)), hd_square(hd_trace(a, 0, 0, 1)))                                                   \
    CASE(trace, of_batches, IN(S(3, 2, 3)), hd_square(hd_trace(a, -1, 0, 2)))                                          \
    CASE(meshgrid, matrices, IN(S(2), S(3)),                                                                           \
         hd_mul(PART(hd_meshgrid(LIST(a, b), HD_INDEXING_IJ), 0), PART(hd_meshgrid(LIST(a, b), HD_INDEXING_IJ), 1)))   \
    CASE(meshgrid, plots, IN(S(2), S(3)), hd_square(PART(hd_meshgrid(LIST(a, b), HD_INDEXING_XY), 1)))                 \
    CASE(index_select, first, IN(S(3, 2)), hd_index_select(a, 0, I64(S(4), 2, 0, 2, -2)))                              \
    CASE(index_select, last, IN(S(2, 3)), hd_square(hd_index_select(a, -1, I64(S(2), 1, 1))))                          \
    CASE(index_select, nothing, IN(S(2), S(1)), hd_concat(LIST(hd_index_select(a, 0, hd_zeros(S(0), HD_I64)), b), 0))  \
    CASE(index_add, first, IN(S(3, 2), S(2, 2)), hd_index_add(a, 0, I64(S(2), 2, 2), b))                               \
    CASE(index_copy, first, IN(S(3, 2), S(2, 2)), hd_square(hd_index_copy(a, 0, I64(S(2), 2, 0), b)))                  \
    CASE(index_copy, last, IN(S(2, 3), S(2, 2)), hd_square(hd_index_copy(a, 1, I64(S(2), -1, 0), b)))                  \
    CASE(index_add, last, IN(S(2, 3), S(2, 2)), hd_square(hd_index_add(a, 1, I64(S(2), -1, 0), b)))                    \
    CASE(take, matrix, IN(S(2, 3)), hd_take(a, I64(S(2, 2), 5, 0, 0, -1)))                                             \
    CASE(take_along_axis, broadcast, IN(S(1, 3)), hd_take_along_axis(a, 1, I64(S(2, 2), 2, 0, 1, 1)))                  \
    CASE(take_along_axis, index_broadcast, IN(S(2, 3)), hd_take_along_axis(a, 1, I64(S(1, 2), 2, 2)))                  \
    CASE(masked_fill, some, IN(S(2, 2)), hd_square(hd_masked_fill(a, hd_cast(I64(S(2, 2), 1, 0, 0, 1), HD_BOOL), 3)))  \
    CASE(masked_fill, broadcast, IN(S(1, 2)), hd_masked_fill(a, hd_cast(I64(S(3, 1), 1, 0, 1), HD_BOOL), 3))

#define CONTRACTION(CASE)                                                                                              \
    CASE(dot_general, batches, IN(S(2, 3, 2), S(4, 2, 3)), hd_dot_general(a, b, X(1), X(-1), X(0), X(1)))              \
    CASE(dot_general, merged, IN(S(2, 3, 2), S(3, 2, 2)), hd_dot_general(a, b, X(2, 1), X(1, 0), X(), X()))            \
    CASE(dot_general, pairs, IN(S(2, 3), S(4, 2)), hd_dot_general(a, b, X(), X(), X(0), X(1)))                         \
    CASE(dot_general, nothing, IN(S(2, 0), S(0, 2), S(2)), hd_mul(hd_dot_general(a, b, X(1), X(0), X(), X()), c))      \
    CASE(bmm, plain, IN(S(2, 2, 3), S(2, 3, 2)), hd_bmm(a, b))                                                         \
    CASE(mv, plain, IN(S(2, 3), S(3)), hd_mv(a, b))                                                                    \
    CASE(addmm, row, IN(S(3), S(2, 4), S(4, 3)), hd_addmm(a, b, c, 0.5, -2))                                           \
    CASE(addmm, ones, IN(S(2, 3), S(2, 4), S(4, 3)), hd_addmm(a, b, c, 1, 1))                                          \
    CASE(addmm, product, IN(S(2, 3), S(2, 4), S(4, 3)), hd_add(hd_addmm(a, b, c, 0, 2), a))                            \
    CASE(baddbmm, column, IN(S(2, 1), S(2, 2, 3), S(2, 3, 2)), hd_baddbmm(a, b, c, 1, 0.25))                           \
    CASE(tensordot, two, IN(S(2, 3, 2), S(3, 2, 2)), hd_tensordot(a, b, X(1, 0), X(0, 1)))                             \
    CASE(kron, matrices, IN(S(2, 3), S(2, 2)), hd_kron(a, b))                                                          \
    CASE(kron, vector, IN(S(2, 3), S(2)), hd_kron(a, b))                                                               \
    CASE(kron, high, IN(S(2, 1, 2, 1, 2), S(2, 1, 2, 2, 1)), hd_kron(a, b))                                            \
    CASE(bilinear, plain, IN(S(2, 3), S(2, 2), S(4, 3, 2)), hd_bilinear(a, b, c, NULL))                                \
    CASE(bilinear, bias, IN(S(3), S(2), S(4, 3, 2)), hd_bilinear(a, b, c, hd_select(hd_select(c, 1, 0), 1, 1)))        \
    CASE(cross, last, IN(S(2, 3), S(3)), hd_cross(a, b, -1))                                                           \
    CASE(cross, first, IN(S(3, 1), S(3, 2)), hd_cross(a, b, 0))                                                        \
    CASE(einsum, matmul, IN(S(2, 2, 3), S(2, 3, 2)), hd_einsum("bij,bjk->bik", LIST(a, b)))                            \
    CASE(einsum, turned, IN(S(2, 3), S(2, 4)), hd_einsum("ij,ik->kj", LIST(a, b)))                                     \
    CASE(einsum, trace, IN(S(3, 3)), hd_square(hd_einsum("ii", LIST(a))))                                              \
    CASE(einsum, view, IN(S(2, 3, 2)), hd_square(hd_einsum("iji->ji", LIST(a))))                                       \
    CASE(einsum, sum, IN(S(2, 3, 2)), hd_square(hd_einsum("i...k->k...", LIST(a))))                                    \
    CASE(einsum, same, IN(S(2, 3)), hd_einsum("ij->ij", LIST(a)))                                                      \
    CASE(einsum, squared, IN(S(3, 2)), hd_einsum("ij,kj->ik", LIST(a, a)))                                             \
    CASE(einsum, outer, IN(S(2), S(3), S(2)), hd_einsum("i,j,k->kij", LIST(a, b, c)))                                  \
    CASE(einsum, chain, IN(S(2, 3), S(3, 2), S(2, 4)), hd_einsum("ij,jk,kl", LIST(a, b, c)))                           \
    CASE(einsum, ellipsis, IN(S(2, 3, 2), S(1, 2, 2)), hd_einsum("...ij,...jk->...ik", LIST(a, b)))                    \
    CASE(einsum, stretched, IN(S(2, 3), S(1, 3), S(2, 1)), hd_einsum("ij,ij,ij->i", LIST(a, b, c)))                    \
    CASE(einsum, lonely, IN(S(2, 3), S(2, 4)), hd_einsum("ij,ik->i", LIST(a, b)))                                      \
    CASE(matmul, matrices, IN(S(2, 3), S(3, 4)), hd_matmul(a, b))                                                      \
    CASE(matmul, turned, IN(S(3, 2), S(4, 3)), hd_matmul(hd_t(a), hd_t(b)))                                            \
    CASE(matmul, square_of_one, IN(S(2, 2)), hd_matmul(a, a))                                                          \
    CASE(matmul, vectors, IN(S(3), S(3)), hd_matmul(a, b))                                                             \
    CASE(matmul, row, IN(S(3), S(3, 2)), hd_matmul(a, b))                                                              \
    CASE(matmul, column, IN(S(2, 3), S(3)), hd_matmul(a, b))                                                           \
    CASE(matmul, batches, IN(S(2, 2, 3), S(2, 3, 2)), hd_matmul(a, b))                                                 \
    CASE(matmul, batches_and_one, IN(S(2, 2, 3), S(3, 2)), hd_matmul(a, b))                                            \
    CASE(matmul, one_and_batches, IN(S(2, 3), S(2, 3, 2)), hd_matmul(a, b))                                            \
    CASE(matmul, batches_and_column, IN(S(2, 2, 3), S(3)), hd_matmul(a, b))                                            \
    CASE(matmul, row_and_batches, IN(S(3), S(2, 3, 2)), hd_matmul(a, b))                                               \
    CASE(matmul, broadcast_batches, IN(S(2, 1, 2, 2), S(1, 3, 2, 1)), hd_matmul(a, b))                                 \
    CASE(matmul, broadcast_one, IN(S(1, 2, 2), S(3, 2, 2)), hd_matmul(a, b))                                           \
    CASE(matmul, more_batches, IN(S(2, 2, 1, 2), S(2, 2, 1)), hd_matmul(a, b))                                         \
    CASE(matmul, no_inner, IN(S(2, 0), S(0, 3), S(3)), hd_mul(hd_matmul(a, b), c))                                     \
    CASE(matmul, no_rows, IN(S(0, 3), S(3, 2), S(2)), hd_mul(hd_sum(hd_matmul(a, b), X(0), NULL), c))                  \
    CASE(matmul, no_columns, IN(S(2, 2, 3), S(3, 0), S(2, 2)), hd_mul(hd_sum(hd_matmul(a, b), X(2), NULL), c))         \
    CASE(matmul, no_batches, IN(S(0, 2, 3), S(3, 2), S(2)), hd_mul(hd_sum(hd_matmul(a, b), X(0), NULL), c))            \
    CASE(matmul, highest_rank, IN(S(1, 2, 1, 2, 1, 1, 3, 1), S(3, 1, 1, 1, 1, 2)), hd_matmul(a, b))                    \
    CASE(affine, vector, IN(S(3), S(2, 3), S(2)), hd_affine(a, b, c))                                                  \
    CASE(affine, rows, IN(S(4, 3), S(2, 3), S(2)), hd_affine(a, b, c))                                                 \
    CASE(affine, batches, IN(S(2, 2, 3), S(2, 3), S(2)), hd_affine(a, b, c))                                           \
    CASE(affine, vector_alone, IN(S(3), S(2, 3)), hd_affine(a, b, NULL))                                               \
    CASE(affine, rows_alone, IN(S(4, 3), S(2, 3)), hd_affine(a, b, NULL))                                              \
    CASE(affine, batches_alone, IN(S(2, 2, 3), S(2, 3)), hd_square(hd_affine(a, b, NULL)))                             \
    CASE(affine, turned, IN(S(3, 4), S(3, 2), S(2)), hd_affine(hd_t(a), hd_t(b), c))                                   \
    CASE(affine, no_rows, IN(S(0, 3), S(2, 3), S(2)), hd_add(hd_sum(hd_affine(a, b, c), X(0), NULL), c))               \
    CASE(affine, no_input, IN(S(2, 0), S(3, 0), S(3)), hd_square(hd_affine(a, b, c)))                                  \
    CASE(affine, no_output, IN(S(2, 2, 3), S(0, 3), S(0)), hd_add(hd_sum(hd_affine(a, b, c), X(), NULL), a))           \
    CASE(dot, vectors, IN(S(4), S(4)), hd_dot(a, b))                                                                   \
    CASE(dot, of_one, IN(S(4)), hd_dot(a, a))                                                                          \
    CASE(outer, vectors, IN(S(2), S(3)), hd_outer(a, b))                                                               \
    CASE(dropout, plain, IN(S(3, 4)), (hd_seed(5), hd_dropout(hd_square(a), 0.4)))                                     \
    CASE(dropout, of_all, IN(S(2, 3)), (hd_seed(5), hd_dropout(hd_square(a), 1)))                                      \
    CASE(alpha_dropout, plain, IN(S(3, 4)), (hd_seed(6), hd_alpha_dropout(hd_square(a), 0.4)))                         \
    CASE(rsub_scalar, plain, IN(S(2, 2)), hd_rsub_scalar(a, 2))                                                        \
    CASE(rdiv_scalar, plain, IN(S(2, 2)), hd_rdiv_scalar(a, 2))                                                        \
    CASE(rpow_scalar, plain, IN(S(2, 2)), hd_rpow_scalar(a, 2.5))                                                      \
    CASE(where_scalar, plain, IN(S(2, 3), S(3)), hd_where_scalar(hd_gt_scalar(b, 0), hd_square(a), 2))                 \
    CASE(rwhere_scalar, plain, IN(S(2, 3), S(3)), hd_rwhere_scalar(hd_gt_scalar(b, 0), hd_square(a), 2))

#define LAYERS(CASE)                                                                                                   \
    CASE(layer_norm, rows, IN(S(3, 4), S(4), S(4)), hd_layer_norm(a, 1, b, c, 0.1))                                    \
    CASE(layer_norm, two_axes, IN(S(2, 2, 3), S(2, 3), S(2, 3)), hd_layer_norm(a, 2, b, c, 0.1))                       \
    CASE(layer_norm, alone, IN(S(2, 3)), hd_square(hd_layer_norm(a, 1, NULL, NULL, 0.1)))                              \
    CASE(layer_norm, weight, IN(S(2, 3), S(3)), hd_square(hd_layer_norm(a, 1, b, NULL, 0.1)))                          \
    CASE(layer_norm, bias, IN(S(2, 3), S(3)), hd_square(hd_layer_norm(a, 1, NULL, b, 0.1)))                            \
    CASE(layer_norm, all_axes, IN(S(1, 2, 1, 1, 1, 2, 1, 1), S(1, 2, 1, 1, 1, 2, 1, 1)),                               \
         hd_layer_norm(a, 8, b, NULL, 0.1))                                                                            \
    CASE(layer_norm, no_rows, IN(S(0, 3), S(3)), hd_add(hd_sum(hd_layer_norm(a, 1, b, NULL, 0.1), X(0), NULL), b))     \
    CASE(rms_norm, rows, IN(S(3, 4), S(4)), hd_rms_norm(a, b, 0.1))                                                    \
    CASE(rms_norm, alone, IN(S(2, 2, 3)), hd_square(hd_rms_norm(a, NULL, 0.1)))                                        \
    CASE(group_norm, channels, IN(S(2, 4, 3), S(4), S(4)), hd_group_norm(a, 2, b, c, 0.1))                             \
    CASE(group_norm, weight, IN(S(2, 2, 2, 2), S(2)), hd_square(hd_group_norm(a, 1, b, NULL, 0.1)))                    \
    CASE(group_norm, bias, IN(S(2, 4), S(4)), hd_square(hd_group_norm(a, 2, NULL, b, 0.1)))                            \
    CASE(group_norm, planes, IN(S(1, 2, 16), S(2), S(2)), hd_group_norm(a, 2, b, c, 0.1))                              \
    CASE(group_norm, planes_weight, IN(S(1, 2, 4, 4), S(2)), hd_square(hd_group_norm(a, 1, b, NULL, 0.1)))             \
    CASE(group_norm, planes_bias, IN(S(1, 2, 16), S(2)), hd_square(hd_group_norm(a, 2, NULL, b, 0.1)))                 \
    CASE(instance_norm, channels, IN(S(2, 2, 3), S(2), S(2)), hd_instance_norm(a, b, c, 0.1))                          \
    CASE(batch_norm, training, IN(S(3, 2, 2), S(2), S(2)), hd_batch_norm(a, NULL, NULL, b, c, true, 0, 0.1))           \
    CASE(batch_norm, planes, IN(S(2, 1, 16), S(1), S(1)), hd_batch_norm(a, NULL, NULL, b, c, true, 0, 0.1))            \
    CASE(batch_norm, planes_alone, IN(S(1, 2, 16)), hd_square(hd_batch_norm(a, NULL, NULL, NULL, NULL, true, 0, 0.1))) \
    CASE(batch_norm, running, IN(S(3, 2), S(2)), hd_batch_norm(a, b_like(2), b_like(2), b, NULL, false, 0, 0.1))       \
    CASE(local_response_norm, channels, IN(S(2, 4, 2)), hd_local_response_norm(a, 3, 0.5, 0.75, 2))                    \
    CASE(l2_normalize, rows, IN(S(2, 3)), hd_l2_normalize(a, 1, 0.01))                                                 \
    CASE(cosine_similarity, broadcast, IN(S(2, 3), S(3)), hd_cosine_similarity(a, b, 1, 0.01))                         \
    CASE(lp_pool, cubes, IN(S(2, 5)), hd_lp_pool(hd_abs(a), 3, S(2), POOL(.stride = {1})))                             \
    CASE(max_pool_with_index, padded, IN(S(2, 5)),                                                                     \
         hd_max_pool_with_index(a, S(3), POOL(.stride = {2}, .padding = {{1, 1}})).values)                             \
    CASE(im2col, image, IN(S(1, 2, 3, 4)),                                                                             \
         hd_square(hd_im2col(a, S(2, 2), CONV(.stride = {1, 2}, .padding = {{1, -1}, {0, 1}}))))                       \
    CASE(col2im, image, IN(S(1, 8, 6)), hd_square(hd_col2im(a, S(3, 4), S(2, 2), NULL)))                               \
    CASE(pixel_shuffle, plain, IN(S(1, 4, 1, 2)), hd_square(hd_pixel_shuffle(a, 2)))                                   \
    CASE(pixel_unshuffle, plain, IN(S(1, 2, 4)), hd_square(hd_pixel_unshuffle(a, 2)))                                  \
    CASE(resize, nearest, IN(S(2, 3)), hd_square(hd_resize(a, S(5), NULL)))                                            \
    CASE(resize, linear, IN(S(3, 4)), hd_square(hd_resize(a, S(5, 2), SIZED(LINEAR))))                                 \
    CASE(resize, cubic, IN(S(2, 4)), hd_square(hd_resize(a, S(6), SIZED(CUBIC, .align_corners = true))))               \
    CASE(resize, filter, IN(S(2, 6)), hd_square(hd_resize(a, S(3), SIZED(CUBIC, .antialias = true))))                  \
    CASE(resize, same, IN(S(2, 3)), hd_resize(a, S(3), SIZED(LINEAR)))                                                 \
    CASE(conv, plain, IN(S(2, 2, 4), S(3, 2, 3), S(3)), hd_conv(a, b, c, NULL))                                        \
    CASE(conv, strided, IN(S(1, 2, 4, 4), S(1, 2, 3, 2)),                                                              \
         hd_square(hd_conv(a, b, NULL, CONV(.stride = {2, 3}, .padding = {{1, 0}, {2, -1}}))))                         \
    CASE(conv, groups, IN(S(1, 4, 3), S(4, 2, 2)), hd_conv(a, b, NULL, CONV(.groups = 2, .dilation = {2})))            \
    CASE(conv, depthwise, IN(S(1, 2, 3, 3), S(2, 1, 2, 2), S(2)), hd_conv(a, b, c, CONV(.groups = 2)))                 \
    CASE(conv, no_images, IN(S(0, 2, 4), S(3, 2, 3)),                                                                  \
         hd_add(hd_sum(hd_conv(a, b, NULL, NULL), X(0, 2), NULL), hd_sum(b, X(1, 2), NULL)))                           \
    CASE(conv_transpose, plain, IN(S(1, 2, 3), S(2, 3, 2), S(3)), hd_conv_transpose(a, b, c, NULL))                    \
    CASE(conv_transpose, strided, IN(S(1, 2, 2, 3), S(2, 1, 2, 3)),                                                    \
         hd_conv_transpose(a, b, NULL, CONV(.stride = {3, 2}, .padding = {{1, 0}, {1, 1}}, .output_padding = {2})))    \
    CASE(conv_weight_gradient, plain, IN(S(2, 2, 5), S(2, 1, 2)),                                                      \
         hd_conv_weight_gradient(a, b, S(2), CONV(.stride = {2})))                                                     \
    CASE(conv1d, image, IN(S(2, 4), S(3, 2, 2)), hd_conv1d(a, b, NULL, NULL))                                          \
    CASE(conv2d, image, IN(S(1, 3, 3), S(2, 1, 2, 2)), hd_conv2d(a, b, NULL, NULL))                                    \
    CASE(conv3d, image, IN(S(1, 2, 3, 2), S(2, 1, 2, 1, 2)), hd_conv3d(a, b, NULL, NULL))                              \
    CASE(conv_transpose1d, image, IN(S(2, 3), S(2, 1, 2)), hd_conv_transpose1d(a, b, NULL, NULL))                      \
    CASE(conv_transpose2d, image, IN(S(1, 2, 2), S(1, 2, 2, 2)), hd_conv_transpose2d(a, b, NULL, NULL))                \
    CASE(conv_transpose3d, image, IN(S(1, 2, 2, 2), S(1, 1, 2, 1, 2)), hd_conv_transpose3d(a, b, NULL, NULL))          \
    CASE(max_pool, plain, IN(S(2, 4, 4)), hd_max_pool(a, S(2, 2), NULL))                                               \
    CASE(max_pool, overlapping, IN(S(1, 4, 5)),                                                                        \
         hd_square(hd_max_pool(a, S(3, 3), POOL(.stride = {1, 2}, .padding = {{1, 1}, {0, 1}}))))                      \
    CASE(max_pool_pick, plain, IN(S(2, 5), S(2, 5)), hd_max_pool_pick(a, b, S(2), POOL(.stride = {1})))                \
    CASE(max_pool_gradient, plain, IN(S(2, 3), S(2, 6)), hd_max_pool_gradient(a, b, S(2), NULL))                       \
    CASE(avg_pool, plain, IN(S(2, 4, 4)), hd_square(hd_avg_pool(a, S(2, 2), NULL)))                                    \
    CASE(avg_pool, padded, IN(S(2, 7)),                                                                                \
         hd_avg_pool(a, S(3), POOL(.stride = {2}, .padding = {{1, 1}}, .ceil_mode = true)))                            \
    CASE(avg_pool_gradient, plain, IN(S(2, 3)), hd_avg_pool_gradient(a, S(2, 5), S(3), POOL(.stride = {1})))           \
    CASE(adaptive_max_pool, plain, IN(S(2, 7)), hd_adaptive_max_pool(a, S(3)))                                         \
    CASE(adaptive_avg_pool, plain, IN(S(3, 5)), hd_square(hd_adaptive_avg_pool(a, S(2, 3))))                           \
    CASE(attention, plain, IN(S(2, 3, 2), S(2, 4, 2), S(2, 4, 2)), hd_attention(a, b, c, NULL, false, 0))              \
    CASE(attention, causal, IN(S(3, 2), S(4, 2), S(4, 3)), hd_square(hd_attention(a, b, c, NULL, true, 0.7)))          \
    CASE(attention, masked, IN(S(3, 2), S(4, 2), S(4, 3)), hd_attention(a, b, c, hd_tri(3, 4, 1, HD_BOOL), false, 0))  \
    CASE(attention, added, IN(S(3, 2), S(3, 3), S(3)), hd_attention(a, hd_mul_scalar(a, 2), a, b, true, 0))            \
    CASE(attention, of_itself, IN(S(3, 2)), hd_attention(a, a, a, NULL, true, 0))                                      \
    CASE(attention_dropout, causal, IN(S(3, 2), S(4, 2), S(4, 3)),                                                     \
         (hd_seed(5), hd_attention_dropout(a, b, hd_square(c), NULL, true, 0.7, 0.4)))                                 \
    CASE(attention_dropout, added, IN(S(3, 2), S(3, 3), S(3)),                                                         \
         (hd_seed(6), hd_attention_dropout(a, hd_mul_scalar(a, 2), a, b, false, 0, 0.4)))                              \
    CASE(custom, cube, IN(S(2, 3)), cubed(a, 0.5))                                                                     \
    CASE(custom, of_itself, IN(S(2, 3)), cubed(cubed(a, 0.5), 2))                                                      \
    CASE(custom, first, IN(S(2, 3), S(2, 3)), PART(both_ways(a, b), 0))                                                \
    CASE(custom, both, IN(S(2, 3), S(2, 3)), hd_mul(PART(both_ways(a, b), 0), PART(both_ways(a, b), 1)))

/* No ops of the tables: losses, scalar powers where the base is negative, writing in place, dtypes that meet. */
#define OTHERS(CASE)                                                                                                   \
    CASE(loss, mse, IN(S(2, 3), S(2, 3)), hd_mse(a, b, NULL))                                                          \
    CASE(loss, mse_mean, IN(S(2, 3), S(2, 3)), hd_mse(a, b, REDUCED(MEAN)))                                            \
    CASE(loss, mse_sum, IN(S(2, 3), S(2, 3)), hd_mse(a, b, REDUCED(SUM)))                                              \
    CASE(loss, mse_none, IN(S(2, 3), S(2, 3)), hd_mse(a, b, REDUCED(NONE)))                                            \
    CASE(loss, ce, IN(S(3, 4)), CE(a, CLASSES, NULL))                                                                  \
    CASE(loss, ce_sum, IN(S(3, 4)), CE(a, CLASSES, CE_OPTS(.reduction = HD_REDUCTION_SUM)))                            \
    CASE(loss, ce_none, IN(S(3, 4)), CE(a, CLASSES, CE_OPTS(.reduction = HD_REDUCTION_NONE)))                          \
    CASE(loss, ce_row, IN(S(4)), CE(a, I64(S(), 1), NULL))                                                             \
    CASE(loss, ce_row_none, IN(S(4)), CE(a, I64(S(), 1), CE_OPTS(.reduction = HD_REDUCTION_NONE)))                     \
    CASE(loss, ce_weight, IN(S(3, 4), S(4)), CE(a, CLASSES, CE_OPTS(.weight = POSITIVE(b))))                           \
    CASE(loss, ce_weight_sum, IN(S(3, 4), S(4)), CE(a, CLASSES, CE_OPTS(.weight = b, .reduction = HD_REDUCTION_SUM)))  \
    CASE(loss, ce_weight_none, IN(S(3, 4), S(4)),                                                                      \
         CE(a, CLASSES, CE_OPTS(.weight = b, .reduction = HD_REDUCTION_NONE)))                                         \
    CASE(loss, ce_ignored, IN(S(3, 4)), CE(a, I64(S(3), 2, -100, 1), CE_OPTS(.ignores = true, .ignore_index = -100)))  \
    CASE(loss, ce_ignored_none, IN(S(3, 4)),                                                                           \
         CE(a, I64(S(3), 2, 0, 1), CE_OPTS(.ignores = true, .ignore_index = 0, .reduction = HD_REDUCTION_NONE)))       \
    CASE(loss, ce_ignored_weight, IN(S(3, 4), S(4)),                                                                   \
         CE(a, I64(S(3), 2, 3, 1), CE_OPTS(.ignores = true, .ignore_index = 3, .weight = POSITIVE(b))))                \
    CASE(loss, ce_smooth, IN(S(3, 4)), CE(a, CLASSES, CE_OPTS(.label_smoothing = 0.3)))                                \
    CASE(loss, ce_smooth_weight, IN(S(3, 4), S(4)),                                                                    \
         CE(a, CLASSES, CE_OPTS(.label_smoothing = 0.3, .weight = POSITIVE(b))))                                       \
    CASE(loss, ce_everything, IN(S(3, 4), S(4)),                                                                       \
         CE(a, I64(S(3), 2, -1, 1),                                                                                    \
            CE_OPTS(.label_smoothing = 0.3, .weight = POSITIVE(b), .ignores = true, .ignore_index = -1)))              \
    CASE(loss, ce_labels, IN(S(3, 4), S(3, 4)), CE(a, LABELS(b), NULL))                                                \
    CASE(loss, ce_labels_row, IN(S(4), S(4)), CE(a, hd_softmax(b, 0), NULL))                                           \
    CASE(loss, ce_labels_sum, IN(S(3, 4), S(3, 4)), CE(a, LABELS(b), CE_OPTS(.reduction = HD_REDUCTION_SUM)))          \
    CASE(loss, ce_labels_none, IN(S(3, 4), S(3, 4)), CE(a, LABELS(b), CE_OPTS(.reduction = HD_REDUCTION_NONE)))        \
    CASE(loss, ce_labels_all, IN(S(3, 4), S(3, 4), S(4)),                                                              \
         CE(a, LABELS(b), CE_OPTS(.label_smoothing = 0.3, .weight = c)))                                               \
    CASE(loss, ce_grid, IN(S(2, 2, 3)), CE(a, I64(S(2, 2), 2, 0, 1, 0), NULL))                                         \
    CASE(loss, ce_axis, IN(S(2, 3, 2)), CE(a, I64(S(2, 2), 2, 0, 1, 0), CE_OPTS(.class_axis = 1)))                     \
    CASE(loss, ce_axis_labels, IN(S(2, 3, 2), S(2, 3, 2)), CE(a, LABELS(b), CE_OPTS(.class_axis = 1)))                 \
    CASE(loss, mae, IN(S(2, 3), S(2, 3)), hd_square(hd_mae(a, b, REDUCED(NONE))))                                      \
    CASE(loss, huber, IN(S(2, 3), S(2, 3)), hd_huber(a, b, NULL))                                                      \
    CASE(loss, huber_delta, IN(S(2, 3), S(2, 3)), hd_huber(a, b, HD_OPTS(hd_huber_opts, .delta = 0.8)))                \
    CASE(loss, smooth_l1, IN(S(2, 3), S(2, 3)), hd_smooth_l1(a, b, HD_OPTS(hd_smooth_l1_opts, .beta = 1.3)))           \
    CASE(loss, bce, IN(S(2, 3), S(2, 3)), hd_bce(hd_sigmoid(a), b, NULL))                                              \
    CASE(loss, bce_of_fixed, IN(S(2, 3)),                                                                              \
         hd_bce(hd_sigmoid(a), hd_reshape(b_like(6), S(2, 3)), HD_OPTS(hd_bce_opts, .weight = b_like(3))))             \
    CASE(loss, bce_weight, IN(S(2, 3), S(3)), hd_bce(hd_sigmoid(a), hd_square(a), HD_OPTS(hd_bce_opts, .weight = b)))  \
    CASE(loss, bce_logits, IN(S(2, 3), S(2, 3)), hd_bce_with_logits(a, b, NULL))                                       \
    CASE(loss, bce_logits_pos, IN(S(2, 3), S(2, 3), S(3)),                                                             \
         hd_bce_with_logits(a, b, HD_OPTS(hd_bce_with_logits_opts, .pos_weight = c, .weight = c)))                     \
    CASE(loss, nll, IN(S(3, 4), S(4)), hd_square(hd_nll(a, CLASSES, HD_OPTS(hd_nll_opts, .weight = POSITIVE(b)))))     \
    CASE(loss, kl_div, IN(S(2, 3), S(2, 3)), hd_kl_div(a, POSITIVE(b), NULL))                                          \
    CASE(loss, kl_div_log, IN(S(2, 3), S(2, 3)),                                                                       \
         hd_kl_div(a, b, HD_OPTS(hd_kl_div_opts, .log_target = true, .reduction = HD_REDUCTION_BATCH_MEAN)))           \
    CASE(loss, hinge, IN(S(2, 3), S(2, 3)), hd_square(hd_hinge(a, b, HD_OPTS(hd_hinge_opts, .margin = 3))))            \
    CASE(loss, hinge_embedding, IN(S(4)),                                                                              \
         hd_square(hd_hinge_embedding(a, I64(S(4), 1, -1, -1, 1), HD_OPTS(hd_hinge_opts, .margin = 3))))               \
    CASE(loss, cosine_embedding, IN(S(2, 3), S(2, 3)),                                                                 \
         hd_cosine_embedding(a, b, I64(S(2), 1, -1), HD_OPTS(hd_cosine_embedding_opts, .margin = -2)))                 \
    CASE(loss, triplet_margin, IN(S(2, 3), S(2, 3), S(2, 3)),                                                          \
         hd_triplet_margin(a, b, c, HD_OPTS(hd_triplet_margin_opts, .margin = 9)))                                     \
    CASE(loss, triplet_margin_swap, IN(S(2, 3), S(2, 3), S(2, 3)),                                                     \
         hd_triplet_margin(a, b, c, HD_OPTS(hd_triplet_margin_opts, .margin = 9, .p = 3, .swap = true)))               \
    CASE(power, square, IN(S(2, 3)), hd_pow_scalar(a, 2))                                                              \
    CASE(power, cube, IN(S(2, 3)), hd_pow_scalar(a, 3))                                                                \
    CASE(power, inverse, IN(S(2, 3)), hd_pow_scalar(a, -2))                                                            \
    CASE(power, none, IN(S(2, 3)), hd_pow_scalar(a, 0))                                                                \
    CASE(in_place, assign, IN(S(2, 3), S(3)), assigned(hd_copy(a), b, hd_assign))                                      \
    CASE(in_place, add, IN(S(2, 3), S(3)), assigned(hd_square(a), b, hd_add_))                                         \
    CASE(in_place, sub, IN(S(2, 3), S(3)), assigned(hd_square(a), b, hd_sub_))                                         \
    CASE(in_place, mul, IN(S(2, 3), S(3)), assigned(hd_sin(a), b, hd_mul_))                                            \
    CASE(in_place, mul_constant, IN(S(2, 3)), assigned(hd_sin(a), hd_full(S(3), HD_F64, 2), hd_mul_))                  \
    CASE(in_place, div, IN(S(2, 3), S(3)), assigned(hd_sin(a), b, hd_div_))                                            \
    CASE(in_place, into_constant, IN(S(3)), assigned(hd_full(S(2, 3), HD_F64, 2), a, hd_div_))

static hd_tensor *assigned(hd_tensor *dst, hd_tensor *src, void (*write)(hd_tensor *, hd_tensor *)) {
    write(dst, src);
    return dst;
}

/* Matrices that are far from singular, symmetric ones whose eigenvalues differ, and positive definite ones. */
static hd_tensor *turned(hd_tensor *x) { return hd_transpose(x, -2, -1); }
static hd_tensor *diagonal_beside(hd_tensor *x, double value) {
    const hd_tensor *like = x;
    return hd_mul_scalar(hd_eye(hd_tensor_size(like, -2), hd_tensor_size(like, -1), hd_tensor_dtype(like)), value);
}
static hd_tensor *far(hd_tensor *x) { return hd_add(x, diagonal_beside(x, 4)); }
static hd_tensor *symmetric(hd_tensor *x) { return hd_add(x, turned(x)); }
static hd_tensor *positive(hd_tensor *x) { return hd_add(hd_matmul(x, turned(x)), diagonal_beside(x, 1)); }
static hd_tensor *all_of_svd(hd_tensor *x) {
    const hd_svd_parts p = hd_svd(x);
    return hd_add(hd_matmul(hd_mul(p.u, hd_unsqueeze(hd_exp(p.s), -2)), p.vh), hd_matmul(hd_square(p.u), p.vh));
}
static hd_tensor *both_of_qr(hd_tensor *x) {
    const hd_qr_parts p = hd_qr(x);
    return hd_matmul(hd_square(p.q), hd_square(p.r));
}
static hd_tensor *both_of_lu(hd_tensor *x) {
    const hd_lu_parts p = hd_lu(x);
    return hd_matmul(hd_square(p.l), hd_square(p.u));
}
#define TRIANGULAR(...) HD_OPTS(hd_triangular_opts, __VA_ARGS__)
#define ALGEBRA(CASE)                                                                                                  \
    CASE(cholesky, lower, IN(S(3, 3)), hd_cholesky(positive(a), false))                                                \
    CASE(cholesky, upper, IN(S(2, 2, 2)), hd_square(hd_cholesky(positive(a), true)))                                   \
    CASE(triangular_solve, lower, IN(S(3, 3), S(3, 2)), hd_triangular_solve(far(a), b, NULL))                          \
    CASE(triangular_solve, upper, IN(S(3, 3), S(3)), hd_triangular_solve(far(a), b, TRIANGULAR(.upper = true)))        \
    CASE(triangular_solve, turned, IN(S(2, 3, 3), S(3, 2)),                                                            \
         hd_triangular_solve(far(a), b, TRIANGULAR(.transpose = true)))                                                \
    CASE(triangular_solve, unit, IN(S(3, 3), S(2, 3, 1)),                                                              \
         hd_triangular_solve(a, b, TRIANGULAR(.upper = true, .unit = true, .transpose = true)))                        \
    CASE(triangular_solve, right, IN(S(3, 3), S(2, 3)), hd_triangular_solve(far(a), b, TRIANGULAR(.right = true)))     \
    CASE(triangular_solve, right_turned, IN(S(3, 3), S(3)),                                                            \
         hd_triangular_solve(far(a), b, TRIANGULAR(.right = true, .upper = true, .transpose = true)))                  \
    CASE(solve, matrix, IN(S(2, 3, 3), S(3, 2)), hd_solve(far(a), b))                                                  \
    CASE(solve, vector, IN(S(3, 3), S(3)), hd_square(hd_solve(far(a), b)))                                             \
    CASE(inv, batch, IN(S(2, 3, 3)), hd_inv(far(a)))                                                                   \
    CASE(lu_factor, square, IN(S(3, 3)), hd_square(hd_lu_factor(far(a)).values))                                       \
    CASE(lu, square, IN(S(2, 3, 3)), both_of_lu(far(a)))                                                               \
    CASE(lu, wide, IN(S(2, 4)), both_of_lu(far(a)))                                                                    \
    CASE(lu, tall, IN(S(4, 2)), both_of_lu(a))                                                                         \
    CASE(lu, lower_alone, IN(S(4, 3)), hd_lu(far(a)).l)                                                                \
    CASE(qr, square, IN(S(3, 3)), both_of_qr(far(a)))                                                                  \
    CASE(qr, tall, IN(S(2, 4, 2)), both_of_qr(far(a)))                                                                 \
    CASE(qr, wide, IN(S(2, 4)), both_of_qr(far(a)))                                                                    \
    CASE(qr, r_alone, IN(S(4, 3)), hd_qr(far(a)).r)                                                                    \
    CASE(qr, q_alone, IN(S(3, 2)), hd_qr(far(a)).q)                                                                    \
    CASE(eigh, values, IN(S(3, 3)), hd_eigh(symmetric(a)).values)                                                      \
    CASE(eigh, vectors, IN(S(2, 3, 3)), hd_square(hd_eigh(symmetric(a)).vectors))                                      \
    CASE(eigh, both, IN(S(3, 3)), hd_mul(hd_eigh(symmetric(a)).vectors, hd_eigh(symmetric(a)).values))                 \
    CASE(eigvalsh, batch, IN(S(2, 3, 3)), hd_square(hd_eigvalsh(symmetric(a))))                                        \
    CASE(svd_packed, vectors, IN(S(2, 3)), hd_square(hd_svd_packed(a).vectors))                                        \
    CASE(svd, square, IN(S(3, 3)), all_of_svd(far(a)))                                                                 \
    CASE(svd, tall, IN(S(2, 4, 2)), all_of_svd(a))                                                                     \
    CASE(svd, wide, IN(S(2, 4)), all_of_svd(a))                                                                        \
    CASE(svd, u_alone, IN(S(3, 2)), hd_svd(a).u)                                                                       \
    CASE(svd, vh_alone, IN(S(3, 2)), hd_svd(a).vh)                                                                     \
    CASE(svdvals, batch, IN(S(2, 2, 3)), hd_square(hd_svdvals(a)))                                                     \
    CASE(pinv, square, IN(S(3, 3)), hd_pinv(far(a), 0))                                                                \
    CASE(pinv, tall, IN(S(2, 3, 2)), hd_pinv(a, 0))                                                                    \
    CASE(pinv, wide, IN(S(2, 3)), hd_square(hd_pinv(a, 0)))                                                            \
    CASE(pinv, low_rank, IN(S(3), S(3)), hd_pinv(hd_outer(a, b), 1e-6))                                                \
    CASE(det, batch, IN(S(2, 3, 3)), hd_det(far(a)))                                                                   \
    CASE(det, of_two, IN(S(2, 2)), hd_square(hd_det(a)))                                                               \
    CASE(slogdet, log, IN(S(2, 3, 3)), hd_slogdet(far(a)).log)                                                         \
    CASE(slogdet, both, IN(S(3, 3)), hd_mul(hd_slogdet(far(a)).sign, hd_slogdet(far(a)).log))                          \
    CASE(lstsq, tall, IN(S(4, 2), S(4, 2)), hd_lstsq(a, b, 0))                                                         \
    CASE(lstsq, wide, IN(S(2, 3), S(2)), hd_lstsq(a, b, 0))                                                            \
    CASE(matrix_power, third, IN(S(2, 2, 2)), hd_matrix_power(a, 3))                                                   \
    CASE(matrix_power, of_inverse, IN(S(3, 3)), hd_matrix_power(far(a), -2))                                           \
    CASE(matrix_power, itself, IN(S(2, 2)), hd_matrix_power(a, 1))                                                     \
    CASE(matrix_norm, frobenius, IN(S(2, 2, 3)), hd_matrix_norm(a, HD_NORM_FROBENIUS, NULL))                           \
    CASE(matrix_norm, nuclear, IN(S(2, 3)), hd_matrix_norm(a, HD_NORM_NUCLEAR, KEEP))                                  \
    CASE(matrix_norm, columns, IN(S(2, 3)), hd_matrix_norm(a, HD_NORM_1, NULL))                                        \
    CASE(matrix_norm, least_row, IN(S(2, 3)), hd_matrix_norm(a, HD_NORM_MINUS_INF, NULL))                              \
    CASE(matrix_norm, largest_value, IN(S(2, 2, 3)), hd_matrix_norm(a, HD_NORM_2, NULL))                               \
    CASE(matrix_norm, least_value, IN(S(3, 3)), hd_matrix_norm(far(a), HD_NORM_MINUS_2, NULL))

#define ALL_CASES(CASE)                                                                                                \
    REDUCTIONS(CASE) VIEWS(CASE) MOVEMENT(CASE) INDEXING(CASE) CONTRACTION(CASE) LAYERS(CASE) OTHERS(CASE) ALGEBRA(CASE)

#define FUNCTION(op, label, inputs, ...)                                                                               \
    static hd_tensor *run_##op##_##label(hd_tensors *in, void *user) {                                                 \
        const int64_t count = hd_tensors_count(in);                                                                    \
        hd_tensor *const a = hd_tensors_get(in, 0), *const b = count > 1 ? hd_tensors_get(in, 1) : NULL,               \
                         *const c = count > 2 ? hd_tensors_get(in, 2) : NULL;                                          \
        (void)a, (void)b, (void)c, (void)user;                                                                         \
        return __VA_ARGS__;                                                                                            \
    }
ALL_CASES(FUNCTION)

typedef struct family_case {
    const char *op, *label;
    hd_function run;
    int inputs;
    hd_shape shape[3];
} family_case;
enum { MOST_CASES = 600 };

static int cases(family_case *list) {
    int count = 0;
#define ENTRY(name, title, inputs, ...)                                                                                \
    list[count++] =                                                                                                    \
        (family_case){#name, #title, run_##name##_##title, sizeof((hd_shape[]){inputs}) / sizeof(hd_shape), {inputs}};
    ALL_CASES(ENTRY)
    for (int i = 0; !has_lapack() && i < count; ++i) /* which are the last */
        if (strcmp(list[i].op, "cholesky") == 0) count = i;
    assert_in_range(count, 1, MOST_CASES);
    return count;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
/* Element i of all inputs together: magnitudes in [0.3, 2], no two of them within 0.02 (7 and 61 have no common
 * factor). */
static hd_tensor *input_of(hd_shape shape, int *used) {
    enum { STEPS = 61 };
    double v[STEPS];
    const int64_t count = hd_shape_count(shape);
    for (int64_t i = 0; i < count; ++i, ++*used) {
        assert_in_range(*used, 0, STEPS - 1);
        const int place = *used * 7 % STEPS;
        v[i] = (0.3 + 1.7 * place / STEPS) * (*used * 5 % 3 == 1 ? -1 : 1);
    }
    return hd_from_data(v, shape, HD_F64);
}

static hd_tensors *inputs_of(const family_case *c) {
    hd_tensor *list[3];
    int used = 0;
    for (int i = 0; i < c->inputs; ++i) list[i] = input_of(c->shape[i], &used);
    return hd_tensors_from(list, c->inputs);
}

/* The same, as the function sees them: in another order in memory, or from the back. */
typedef enum layout { PLAIN, TURNED, REVERSED, LAYOUTS } layout;
typedef struct run {
    const family_case *c;
    layout layout;
} run;

static hd_tensor *with_layout(hd_tensors *in, void *user) {
    const run *r = user;
    hd_tensor *list[3];
    for (int i = 0; i < r->c->inputs; ++i) {
        hd_tensor *t = hd_tensors_get(in, i);
        hd_axes order = {.count = hd_tensor_rank(t)};
        for (int k = 0; k < order.count; ++k) order.axis[k] = order.count - 1 - k;
        list[i] = r->layout == PLAIN      ? t
                  : r->layout == REVERSED ? hd_flip(t, HD_AXES())
                                          : hd_permute(hd_copy(hd_permute(t, order)), order);
    }
    return r->c->run(hd_tensors_from(list, r->c->inputs), NULL);
}

/* ---- differences ------------------------------------------------------------------------------------------------- */
/* Values are at most some hundreds, second derivatives too: rounding over the step of 1e-4 stays below 1e-9, the step's
 * fourth power times fifth derivatives too. */
static bool agrees(hd_function fn, void *user, hd_tensors *inputs, const char *op, const char *label) {
    char why[256] = "";
    const bool good = hd_gradcheck(fn, user, inputs,
                                   HD_OPTS(hd_gradcheck_opts, .relative = 1e-7, .absolute = 1e-8, .second_order = true,
                                           .explain = why, .explain_capacity = sizeof why));
    if (!good) print_error("%s %s: %s%s\n", op, label, why, hd_error_message());
    hd_error_clear();
    return good;
}

static void gradients_agree_with_differences(void **state) {
    (void)state;
    static family_case list[MOST_CASES];
    const int count = cases(list);
    int bad = 0;
    for (int i = 0; i < count; ++i)
        for (int l = 0; l < LAYOUTS; ++l) {
            if (!when_compiled((uint64_t)(i * LAYOUTS + l), 29)) continue;
            HD_SCOPE;
            run r = {&list[i], (layout)l};
            bad += !agrees(with_layout, &r, inputs_of(&list[i]), list[i].op, list[i].label);
        }
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

/* ---- every argument ---------------------------------------------------------------------------------------------- */
typedef struct arguments {
    int kind;
    int64_t v[3];
} arguments;
enum { SLICE, UNFOLD, DIAGONAL, PAD, ROLL, REFLECT, REPLICATE, CIRCULAR, REDUCE_SUM, REDUCE_PROD, REDUCE_MAX, KINDS };

static hd_axes axes_in(int64_t bits) { /* of a rank of 3 */
    hd_axes axes = {.count = 0};
    for (int i = 0; i < 3; ++i)
        if (bits >> i & 1) axes.axis[axes.count++] = i;
    return axes;
}

static hd_tensor *with_arguments(hd_tensors *in, void *user) {
    const arguments *a = user;
    hd_tensor *x = hd_tensors_get(in, 0), *cube = hd_reshape(x, HD_SHAPE(2, 3, 2)),
              *matrix = hd_reshape(x, HD_SHAPE(2, 6));
    const hd_padding *around = P({a->v[0], a->v[1]});
    const hd_reduce_opts *opts = HD_OPTS(hd_reduce_opts, .keep_dims = a->v[1] != 0);
    switch (a->kind) {
    case SLICE: return hd_slice(matrix, 1, a->v[0], a->v[1], a->v[2]);
    case UNFOLD: return hd_unfold(matrix, 1, a->v[0], a->v[1]);
    case DIAGONAL: return hd_diagonal(cube, a->v[0], (int)a->v[1], (int)a->v[2]);
    case PAD: return hd_pad(matrix, around, 1, 2);
    case ROLL: return hd_roll(matrix, a->v[0], (int)a->v[1]);
    case REFLECT: return hd_pad_with(matrix, around, 1, HD_PAD_REFLECT);
    case REPLICATE: return hd_pad_with(matrix, around, 1, HD_PAD_REPLICATE);
    case CIRCULAR: return hd_pad_with(matrix, around, 1, HD_PAD_CIRCULAR);
    case REDUCE_SUM: return hd_sum(cube, axes_in(a->v[0]), opts);
    case REDUCE_PROD: return hd_prod(cube, axes_in(a->v[0]), opts);
    default: return hd_max(cube, axes_in(a->v[0]), opts);
    }
}

/* All arguments that make sense for an axis of 6, or of the axes of [2,3,2]; none where v[k] would be out of range. */
static bool next_arguments(arguments *a) {
    static const int64_t low[KINDS][3] = {
        [SLICE] = {-8, -8, -3}, [UNFOLD] = {0, 1, 0},  [DIAGONAL] = {-4, 0, 0}, [PAD] = {-6, -6, 0},
        [ROLL] = {-7, 0, 0},    [REFLECT] = {0, 0, 0}, [REPLICATE] = {0, 0, 0}, [CIRCULAR] = {0, 0, 0},
        [REDUCE_SUM] = {0},     [REDUCE_PROD] = {0},   [REDUCE_MAX] = {0}};
    static const int64_t high[KINDS][3] = {
        [SLICE] = {8, 8, 3},   [UNFOLD] = {6, 7, 0},   [DIAGONAL] = {4, 2, 2},  [PAD] = {3, 3, 0},
        [ROLL] = {7, 1, 0},    [REFLECT] = {5, 5, 0},  [REPLICATE] = {7, 7, 0}, [CIRCULAR] = {6, 6, 0},
        [REDUCE_SUM] = {7, 1}, [REDUCE_PROD] = {7, 1}, [REDUCE_MAX] = {7, 1}};
    for (int k = 0; k < 3; ++k) {
        if (a->kind >= 0 && ++a->v[k] <= high[a->kind][k]) return true;
        if (a->kind >= 0) a->v[k] = low[a->kind][k];
    }
    if (++a->kind == KINDS) return false;
    for (int k = 0; k < 3; ++k) a->v[k] = low[a->kind][k];
    return true;
}

static void gradients_agree_at_every_argument(void **state) {
    (void)state;
    int bad = 0, seen = 0;
    for (arguments a = {.kind = -1}; next_arguments(&a);) {
        HD_SCOPE;
        const int64_t *v = a.v;
        if ((a.kind == SLICE && v[2] == 0) || (a.kind == DIAGONAL && v[1] == v[2]) ||
            (a.kind == PAD && v[0] + v[1] < -6))
            continue;
        char what[64];
        ++seen;
        if (!when_compiled((uint64_t)seen, 37)) continue;
        snprintf(what, sizeof what, "kind %d with %lld, %lld, %lld", a.kind, (long long)v[0], (long long)v[1],
                 (long long)v[2]);
        int used = 0;
        bad += !agrees(with_arguments, &a, HD_TENSORS(input_of(HD_SHAPE(12), &used)), "at every argument,", what);
    }
    assert_in_range(seen, 2000, 5000);
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

/* ---- products with zeros ----------------------------------------------------------------------------------------- */
/* hd_prod divides by none of its factors and is right to the second order; hd_scatter is right to the first, and says
 * so. */
static hd_tensor *product(hd_tensors *in, void *user) {
    (void)user;
    return hd_prod(hd_tensors_get(in, 0), HD_AXES(1), NULL);
}
static hd_tensor *scattered_product(hd_tensors *in, void *user) {
    (void)user;
    return hd_scatter(hd_tensors_get(in, 0), 0, HD_TENSOR_I64(HD_SHAPE(7), 0, 0, 1, 1, 2, 3, 3), hd_tensors_get(in, 1),
                      HD_SCATTER_MUL);
}
static void products_with_zeros_are_right_or_refused(void **state) {
    (void)state;
    HD_SCOPE;
    const double rows[] = {2, 0, 3, 0.5, 0, 2, 0, 3, 0, 0, 0, 2}, into[] = {2, 3, 0, 0, 1.5},
                 source[] = {0, 3, 0, 0, 2, 0, 1.5};
    hd_tensor *x = hd_from_data(rows, HD_SHAPE(3, 4), HD_F64), *to = hd_from_data(into, HD_SHAPE(5), HD_F64);
    hd_tensor *from = hd_from_data(source, HD_SHAPE(7), HD_F64);
    assert_true(agrees(product, NULL, HD_TENSORS(x), "prod", "with zeros"));
    assert_true(hd_gradcheck(scattered_product, NULL, HD_TENSORS(to, from), NULL));
    assert_false(
        hd_gradcheck(scattered_product, NULL, HD_TENSORS(to, from), HD_OPTS(hd_gradcheck_opts, .second_order = true)));
    assert_error(HD_ERROR_STATE, "has no second derivative here where a factor is 0");
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
/* Casting rounds, which differences would see; but halves and quarters, moved by an eighth, are exact in every dtype
 * here, and so are their products. Gradients are rounded to the dtypes they pass through. */
static hd_tensor *through_dtypes(hd_tensors *in, void *user) {
    const hd_dtype dtype = *(const hd_dtype *)user;
    hd_tensor *a = hd_tensors_get(in, 0), *b = hd_tensors_get(in, 1);
    hd_tensor *a_low = hd_cast(a, dtype), *b_low = hd_cast(b, HD_F32);
    hd_tensor *joined = hd_concat((hd_tensor *const[]){a_low, b_low, b}, 3, 0);
    hd_tensor *affine = hd_affine(a_low, b_low, hd_select(a, 1, 0));
    return hd_add(hd_sum(hd_mul(joined, joined), HD_AXES(), NULL), hd_mul(hd_matmul(a_low, hd_t(b)), affine));
}
static hd_tensor *through_integers(hd_tensors *in, void *user) {
    (void)user;
    return hd_cast(hd_cast(hd_tensors_get(in, 0), HD_I64), HD_F64);
}
static void gradients_pass_through_other_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_dtype dtypes[] = {HD_F32, HD_F16, HD_BF16};
    static const double units[] = {0x1p-23, 0x1p-10, 0x1p-7};
    hd_tensor *a = hd_cast(HD_TENSOR_F32(HD_SHAPE(2, 2), 1.5f, -0.5f, 2, 0.25f), HD_F64);
    hd_tensor *b = hd_cast(HD_TENSOR_F32(HD_SHAPE(2, 2), -1, 0.75f, 0.5f, 1.25f), HD_F64);
    for (int i = 0; i < 3; ++i) { /* six gradients up to 8 large meet in a, each half a unit off */
        char why[256] = "";
        hd_gradcheck_opts o = HD_DEFAULTS(hd_gradcheck_opts);
        o.step = 0.125;
        o.relative = o.absolute = 24 * units[i];
        o.second_order = true;
        o.explain = why;
        o.explain_capacity = sizeof why;
        if (!hd_gradcheck(through_dtypes, (void *)&dtypes[i], HD_TENSORS(a, b), &o))
            fail_msg("%s: %s%s", hd_dtype_name(dtypes[i]), why, hd_error_message());
    }
    assert_true(hd_gradcheck(through_integers, NULL, HD_TENSORS(hd_add_scalar(a, 0.1)),
                             HD_OPTS(hd_gradcheck_opts, .second_order = true)));
}

/* ---- what arrives, and what is covered --------------------------------------------------------------------------- */
/* hd_backward and hd_grad_of give the same, of the shape and dtype of each input. */
static void gradients_have_the_shapes_of_inputs(void **state) {
    (void)state;
    static family_case list[MOST_CASES];
    const int count = cases(list);
    for (int i = 0; i < count; ++i) {
        if (!when_compiled((uint64_t)i, 11)) continue;
        HD_SCOPE;
        hd_tensors *in = inputs_of(&list[i]);
        for (int k = 0; k < list[i].inputs; ++k) hd_requires_grad(hd_tensors_get(in, k));
        hd_tensor *y = hd_neg(list[i].run(in, NULL)); /* some return their input */
        hd_tensors *g = hd_grad_of(y, in, NULL);
        hd_backward(y);
        if (!hd_ok()) print_error("%s %s: ", list[i].op, list[i].label);
        assert_ok();
        for (int k = 0; k < list[i].inputs; ++k) {
            hd_tensor *x = hd_tensors_get(in, k), *given = hd_tensors_get(g, k);
            if (!hd_has_grad(x)) hd_zero_grad(x); /* its copy was written over: nothing leads back to it */
            hd_tensor *own = hd_grad(x);
            assert_int_equal(hd_tensor_dtype(own), HD_F64);
            assert_int_equal(hd_tensor_dtype(given), HD_F64);
            assert_true(hd_shape_equal(hd_tensor_shape(own), list[i].shape[k]));
            assert_same(own, given);
        }
        hd_clear_tape();
    }
}

/* Whatever is written after the call, an input or the result: backward says so, or gives what it gave before. */
static void a_write_after_the_call_is_noticed_or_does_not_matter(void **state) {
    (void)state;
    static family_case list[MOST_CASES];
    const int count = cases(list);
    int noticed = 0, harmless = 0, tried = 0;
    for (int i = 0; i < count; ++i)
        for (int which = 0; which <= list[i].inputs && when_compiled((uint64_t)i, 11); ++which) {
            ++tried;
            HD_SCOPE;
            hd_tensors *in = inputs_of(&list[i]);
            for (int k = 0; k < list[i].inputs; ++k) hd_requires_grad(hd_tensors_get(in, k));
            hd_tensor *y = list[i].run(in, NULL), *loss = hd_neg(y); /* which saves nothing */
            hd_tensors *before = hd_grad_of(loss, in, NULL);
            assert_ok();
            {
                HD_NO_GRAD;
                hd_fill(which < list[i].inputs ? hd_tensors_get(in, which) : y, 7.25);
            }
            const bool written = hd_ok(); /* some results are views in which elements share memory */
            hd_error_clear();
            hd_tensors *after = hd_grad_of(loss, in, NULL);
            if (after == NULL) {
                assert_error(HD_ERROR_STATE, "was changed in place after it was used");
                ++noticed;
            } else {
                for (int k = 0; k < list[i].inputs; ++k)
                    assert_same(hd_tensors_get(after, k), hd_tensors_get(before, k));
                harmless += written;
            }
            hd_clear_tape();
        }
    assert_true(noticed > tried / 12 && harmless > tried / 12); /* the test tries both */
}

static void every_op_with_a_gradient_has_a_case(void **state) {
    (void)state;
    static family_case list[MOST_CASES];
    bool seen[HD_OP_COUNT] = {false};
    const int count = cases(list);
    const hd_device device = hd_current_device();
    hd_set_device(hd_cpu()); /* tapes are the same everywhere, and nothing is to be compiled for them */
    for (int i = 0; i < count; ++i) {
        HD_SCOPE;
        hd_tensors *in = inputs_of(&list[i]);
        for (int k = 0; k < list[i].inputs; ++k) hd_requires_grad(hd_tensors_get(in, k));
        list[i].run(in, NULL);
        assert_ok();
        const hd_tape *tape = &hd_thread_self()->tapes->active->tape;
        bool here[HD_OP_COUNT] = {false};
        for (uint32_t r = 1; r <= tape->count; ++r) {
            const hd_op *op = tape->records[r]->op;
            if (op != NULL && op->id < HD_OP_COUNT && op == &hd_ops[op->id]) here[op->id] = seen[op->id] = true;
        }
        for (int id = HD_OP_ELEMENTWISE_COUNT; id < HD_OP_COUNT; ++id) /* a case is what it says */
            if (strcmp(hd_ops[id].name, list[i].op) == 0 && !here[id])
                fail_msg("%s %s has no such op in it", list[i].op, list[i].label);
        hd_clear_tape();
    }
    hd_set_device(device);
    seen[HD_OP_cast] = true; /* gradients_pass_through_other_dtypes */
    for (int id = HD_OP_ELEMENTWISE_COUNT; id < HD_OP_COUNT; ++id)
        if (hd_ops[id].gradient == HD_GRADIENT_VJP && !seen[id] &&
            (hd_ops[id].family != HD_FAMILY_LINALG || has_lapack()))
            fail_msg("hd_%s has a gradient and no case here", hd_ops[id].name);
}

static void every_composite_has_a_case_or_no_gradient(void **state) {
    (void)state;
    if (!has_lapack()) skip();
    static const char *const composites[] = {
#define COMPOSITE(name, signature, doc) #name,
#include "ops/ops.def"
    };
    static const char *const constant[] = {"zeros",
                                           "ones",
                                           "zeros_like",
                                           "ones_like",
                                           "full_like",
                                           "arange",
                                           "empty_like",
                                           "rand_like",
                                           "randn_like",
                                           "linspace",
                                           "logspace",
                                           "eye",
                                           "tri",
                                           "rand",
                                           "randn",
                                           "bernoulli",
                                           "bernoulli_of",
                                           "exponential",
                                           "truncated_normal",
                                           "count_nonzero",
                                           "one_hot",
                                           "argsort",
                                           "histc",
                                           "nonzero",
                                           "nonzero_padded",
                                           "matrix_rank"};
    static family_case list[MOST_CASES];
    const int count = cases(list);
    for (size_t i = 0; i < sizeof composites / sizeof composites[0]; ++i) {
        bool found = false;
        for (size_t k = 0; k < sizeof constant / sizeof constant[0]; ++k)
            found |= strcmp(constant[k], composites[i]) == 0;
        for (int k = 0; k < count; ++k) found |= strcmp(list[k].op, composites[i]) == 0;
        if (!found) fail_msg("hd_%s has no case here", composites[i]);
    }
}

/* The other kinds of gradient: zero by nature, none, and stopped. */
static void ops_without_a_vjp_say_so(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 2, 3, 4, 5, 6));
    hd_tensor *flat[] = {hd_any(x, HD_AXES(1), NULL), hd_all(x, HD_AXES(1), NULL), hd_argmax(x, 1, NULL),
                         hd_argmin(x, 1, NULL),       hd_multinomial(x, 2, true),  hd_searchsorted(x, x, false)};
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; ++i) {
        hd_zero_grad(x);
        hd_backward(hd_sum(hd_cast(flat[i], HD_F32), HD_AXES(), NULL));
        assert_values(hd_grad(x), HD_F32, 0, 0, 0, 0, 0, 0);
    }
    hd_backward(hd_sum(hd_cast(hd_bitcast(x, HD_I32), HD_F32), HD_AXES(), NULL));
    assert_error(HD_ERROR_STATE, "bits have no derivative");
    hd_tensor *fused[] = {hd_layer_norm_gradient(x, x, 1, NULL, 0.1), hd_layer_norm_weight_gradient(x, x, 1, 0.1),
                          hd_rms_norm_gradient(x, x, NULL, 0.1), hd_rms_norm_weight_gradient(x, x, 0.1),
                          hd_attention_gradient(x, x, x, x, NULL, NULL, false, 0)};
    for (size_t i = 0; i < sizeof fused / sizeof fused[0]; ++i) {
        hd_backward(hd_sum(fused[i], HD_AXES(), NULL));
        assert_error(HD_ERROR_STATE, "fused");
    }
    assert_false(hd_tensor_requires_grad(hd_detach(x)));
    for (int id = HD_OP_ELEMENTWISE_COUNT; id < HD_OP_COUNT; ++id) { /* those are all that take tensors */
        const bool known = id == HD_OP_any || id == HD_OP_all || id == HD_OP_argmax || id == HD_OP_argmin ||
                           id == HD_OP_multinomial || id == HD_OP_searchsorted || id == HD_OP_bitcast ||
                           id == HD_OP_detach || id == HD_OP_layer_norm_gradient ||
                           id == HD_OP_layer_norm_weight_gradient || id == HD_OP_rms_norm_gradient ||
                           id == HD_OP_rms_norm_weight_gradient || id == HD_OP_attention_gradient;
        if (hd_ops[id].gradient != HD_GRADIENT_VJP && hd_ops[id].min_inputs > 0 && !known)
            fail_msg("hd_%s has no gradient, and no test says so", hd_ops[id].name);
    }
}

RUN(test(gradients_agree_with_differences), test(gradients_agree_at_every_argument),
    test(products_with_zeros_are_right_or_refused), test(gradients_pass_through_other_dtypes),
    test(gradients_have_the_shapes_of_inputs), test(a_write_after_the_call_is_noticed_or_does_not_matter),
    test(every_op_with_a_gradient_has_a_case), test(every_composite_has_a_case_or_no_gradient),
    test(ops_without_a_vjp_say_so))
