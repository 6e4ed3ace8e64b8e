/* Every op with a gradient has it also for tensors without elements, to the second order: an empty gradient, zeros for
 * what is not empty, and no error. */
#include "support.h"

#include "core/thread.h"
#include "ops/row_uses.h"

#include <math.h>

#define S    HD_SHAPE
#define X    HD_AXES
#define KEEP HD_OPTS(hd_reduce_opts, .keep_dims = true)
#define PAD(...)                                                                                                       \
    (const hd_padding[]) { __VA_ARGS__ }

/* x is [0, 3], y is [3, 0], w is [2, 3]. */
#define CALLS(CALL)                                                                                                    \
    CALL(hd_cast(x, HD_F32))                                                                                           \
    CALL(hd_sum(x, X(0), NULL))                                                                                        \
    CALL(hd_sum(x, X(), NULL))                                                                                         \
    CALL(hd_prod(x, X(0), NULL))                                                                                       \
    CALL(hd_prod(x, X(1), KEEP))                                                                                       \
    CALL(hd_prod(x, X(), NULL))                                                                                        \
    CALL(hd_max(x, X(1), NULL))                                                                                        \
    CALL(hd_min(y, X(0), KEEP))                                                                                        \
    CALL(hd_mean(x, X(1), NULL))                                                                                       \
    CALL(hd_var(x, X(1), 1, NULL))                                                                                     \
    CALL(hd_std(x, X(1), 1, NULL))                                                                                     \
    CALL(hd_norm(x, 2, X(0), NULL))                                                                                    \
    CALL(hd_norm(x, 3, X(1), NULL))                                                                                    \
    CALL(hd_norm(x, INFINITY, X(1), NULL))                                                                             \
    CALL(hd_logsumexp(x, X(0), NULL))                                                                                  \
    CALL(hd_logsumexp(x, X(1), KEEP))                                                                                  \
    CALL(hd_logsumexp(x, X(), NULL))                                                                                   \
    CALL(hd_softmax(x, 0))                                                                                             \
    CALL(hd_softmax(x, 1))                                                                                             \
    CALL(hd_log_softmax(x, 0))                                                                                         \
    CALL(hd_log_softmax(y, 0))                                                                                         \
    CALL(hd_sum_to_shape(x, S(3)))                                                                                     \
    CALL(hd_sum_to_shape(x, S(0, 3)))                                                                                  \
    CALL(hd_reshape(x, S(5, 0)))                                                                                       \
    CALL(hd_permute(x, X(1, 0)))                                                                                       \
    CALL(hd_broadcast_to(x, S(2, 0, 3)))                                                                               \
    CALL(hd_slice(x, 0, 0, HD_END, 2))                                                                                 \
    CALL(hd_slice(w, 0, 1, 1, 1))                                                                                      \
    CALL(hd_slice(w, 1, HD_END, 2, -1))                                                                                \
    CALL(hd_diagonal(x, 0, 0, 1))                                                                                      \
    CALL(hd_unfold(x, 1, 2, 1))                                                                                        \
    CALL(hd_unfold(w, 1, 0, 1))                                                                                        \
    CALL(hd_as_strided(x, S(0), S(1), 0))                                                                              \
    CALL(hd_flip(x, X()))                                                                                              \
    CALL(hd_select(x, 1, 2))                                                                                           \
    CALL(hd_contiguous(hd_t(x)))                                                                                       \
    CALL(hd_concat(HD_LIST(x, w), 0))                                                                                  \
    CALL(hd_concat(HD_LIST(x, x), 1))                                                                                  \
    CALL(hd_stack(HD_LIST(x, x), 0))                                                                                   \
    CALL(hd_pad(x, PAD({1, 1}, {0, 2}), 2, 1))                                                                         \
    CALL(hd_pad(w, PAD({0, 0}, {-1, -2}), 2, 1))                                                                       \
    CALL(hd_pad_with(x, PAD({1, 1}), 1, HD_PAD_REFLECT))                                                               \
    CALL(hd_copy(x))                                                                                                   \
    CALL(hd_roll(x, 1, 0))                                                                                             \
    CALL(hd_roll(x, 1, 1))                                                                                             \
    CALL(hd_tile(x, S(2, 3)))                                                                                          \
    CALL(hd_tile(w, S(0, 1)))                                                                                          \
    CALL(hd_repeat_interleave(w, 0, 1))                                                                                \
    CALL(hd_tril(x, 0))                                                                                                \
    CALL(hd_gather(x, 0, hd_zeros(S(0, 2), HD_I64)))                                                                   \
    CALL(hd_gather(w, 1, hd_zeros(S(2, 0), HD_I64)))                                                                   \
    CALL(hd_index_select(w, 0, none))                                                                                  \
    CALL(hd_index_select(y, 0, hd_zeros(S(2), HD_I64)))                                                                \
    CALL(hd_take(w, none))                                                                                             \
    CALL(hd_scatter(w, 0, hd_zeros(S(0, 3), HD_I64), x, HD_SCATTER_SET))                                               \
    CALL(hd_scatter(w, 0, hd_zeros(S(0, 3), HD_I64), x, HD_SCATTER_MUL))                                               \
    CALL(hd_scatter(w, 0, hd_zeros(S(0, 3), HD_I64), x, HD_SCATTER_MAX))                                               \
    CALL(hd_index_add(w, 0, none, x))                                                                                  \
    CALL(hd_index_copy(w, 0, none, x))                                                                                 \
    CALL(hd_masked_fill(x, hd_isnan(x), 1))                                                                            \
    CALL(hd_matmul(x, y))                                                                                              \
    CALL(hd_matmul(y, x))                                                                                              \
    CALL(hd_matmul(w, y))                                                                                              \
    CALL(hd_affine(x, w, NULL))                                                                                        \
    CALL(hd_affine(w, x, NULL))                                                                                        \
    CALL(hd_layer_norm(x, 1, NULL, NULL, 1))                                                                           \
    CALL(hd_rms_norm(x, hd_select(w, 0, 0), 1))                                                                        \
    CALL(hd_mul(x, hd_select(w, 0, 0)))                                                                                \
    CALL(hd_pow(hd_broadcast_to(x, S(2, 0, 3)), x))

#define HD_LIST(...)                                                                                                   \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))

typedef struct leaves {
    hd_tensor *x, *y, *w;
} leaves;
static leaves make_leaves(void) {
    hd_clear_tape();
    return (leaves){.x = hd_param(hd_zeros(S(0, 3), HD_F64)),
                    .y = hd_param(hd_zeros(S(3, 0), HD_F64)),
                    .w = hd_param(hd_from_data((const double[]){1, 2, 3, 4, 5, 6}, S(2, 3), HD_F64))};
}

/* Backward, and the gradient of a gradient: it follows from the seed, whatever the op. */
static void check(const char *what, const leaves *l, hd_tensor *result) {
    if (!hd_ok()) fail_msg("%s: %s", what, hd_error_message());
    HD_SCOPE;
    hd_tensor *seed = hd_param(hd_ones(hd_tensor_shape(result), hd_tensor_dtype(result)));
    hd_tensors *of = HD_TENSORS(l->x, l->y, l->w);
    hd_tensors *g = hd_grad_of(result, of, HD_OPTS(hd_grad_of_opts, .seed = seed, .differentiable = true));
    hd_tensor *total = hd_scalar(0, HD_F64);
    for (int i = 0; i < 3 && hd_ok(); ++i) {
        hd_tensor *gradient = hd_tensors_get(g, i), *leaf = hd_tensors_get(of, i);
        if (!hd_shape_equal(hd_tensor_shape(gradient), hd_tensor_shape(leaf)))
            fail_msg("%s: the gradient has another shape", what);
        total = hd_add(total, hd_sum(gradient, X(), NULL));
    }
    g = hd_grad_of(total, HD_TENSORS(seed, l->x, l->y, l->w), NULL);
    if (!hd_ok()) fail_msg("%s, second order: %s", what, hd_error_message());
    hd_backward(result);
    if (!hd_ok()) fail_msg("%s, backward: %s", what, hd_error_message());
}

static void every_family_has_gradients_of_nothing(void **state) {
    (void)state;
#define CHECK(call)                                                                                                    \
    {                                                                                                                  \
        HD_SCOPE;                                                                                                      \
        const leaves l = make_leaves();                                                                                \
        hd_tensor *x = l.x, *y = l.y, *w = l.w, *none = hd_zeros(S(0), HD_I64);                                        \
        (void)x, (void)y, (void)w, (void)none;                                                                         \
        check(#call, &l, call);                                                                                        \
    }
    CALLS(CHECK)
}

static void every_row_has_gradients_of_nothing(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        unsigned uses = 0;
        for (int i = 0; i < hd_rows[id].operands; ++i) uses |= hd_row_uses((hd_op_id)id, i);
        if (uses == 0 || id == HD_OP_digamma) continue; /* zero by nature; no second derivative */
        HD_SCOPE;
        const leaves l = make_leaves();
        hd_tensor *in[3] = {l.x, hd_select(l.w, 0, 0), l.x};
        if (hd_rows[id].chooses) in[0] = hd_isnan(l.x);
        hd_tensor *y = hd_run_row(hd_thread_self(), (hd_op_id)id, in, (const double[3]){0.5, 1, 1});
        check(hd_ops[id].name, &l, y);
    }
}

static void what_is_reduced_over_nothing_is_the_identity(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(S(0, 2), HD_F32), *y = hd_zeros(S(2, 0), HD_F16);
    assert_values(hd_logsumexp(x, X(0), NULL), HD_F32, -INFINITY, -INFINITY);
    assert_values(hd_logsumexp(x, X(), NULL), HD_F32, -INFINITY);
    assert_values(hd_logsumexp(y, X(1), KEEP), HD_F16, -INFINITY, -INFINITY);
    assert_values(hd_logsumexp(hd_zeros(S(0), HD_I32), X(), NULL), HD_F32, -INFINITY);
    assert_int_equal(hd_tensor_count(hd_logsumexp(x, X(1), NULL)), 0);
    assert_values(hd_sum(x, X(), NULL), HD_F32, 0);
    assert_values(hd_prod(x, X(), NULL), HD_F32, 1);
}

RUN(test(every_family_has_gradients_of_nothing), test(every_row_has_gradients_of_nothing),
    test(what_is_reduced_over_nothing_is_the_identity))
