/* The dtypes that the tables give for an op are those that a call takes, and the CPU has all of them. */
#include "core/device.h"
#include "ops/op.h"
#include "lapack.h"
#include "own_ops.h"
#include "support.h"

#define S HD_SHAPE

/* A call of each primitive that computes in this dtype, as far as a user can ask for it: x has that dtype. */
#define CALLS(CALL)                                                                                                    \
    CALL(full, hd_full(S(2), dtype, 1))                                                                                \
    CALL(empty, hd_empty(S(2), dtype))                                                                                 \
    CALL(range, hd_range(0, 1, 2, dtype))                                                                              \
    CALL(uniform, hd_uniform(S(2), dtype, 0, 1))                                                                       \
    CALL(normal, hd_normal(S(2), dtype, 0, 1))                                                                         \
    CALL(randint, hd_randint(S(2), dtype, 0, 1))                                                                       \
    CALL(permutation, dtype == HD_I64 ? hd_permutation(2) : NULL)                                                      \
    CALL(multinomial, hd_multinomial(x, 1, true))                                                                      \
    CALL(cast, hd_cast(hd_cast(x, HD_F64), dtype))                                                                     \
    CALL(bitcast, hd_bitcast(x, dtype == HD_BOOL ? HD_U8 : dtype))                                                     \
    CALL(sum, hd_sum(x, HD_AXES(1), NULL))                                                                             \
    CALL(prod, hd_prod(x, HD_AXES(1), NULL))                                                                           \
    CALL(max, hd_max(x, HD_AXES(1), NULL))                                                                             \
    CALL(min, hd_min(x, HD_AXES(1), NULL))                                                                             \
    CALL(any, hd_any(x, HD_AXES(1), NULL))                                                                             \
    CALL(all, hd_all(x, HD_AXES(1), NULL))                                                                             \
    CALL(argmax, hd_argmax(x, 1, NULL))                                                                                \
    CALL(argmin, hd_argmin(x, 1, NULL))                                                                                \
    CALL(max_with_index, hd_max_with_index(x, 1, NULL).values)                                                         \
    CALL(min_with_index, hd_min_with_index(x, 1, NULL).values)                                                         \
    CALL(sort, hd_sort(x, 1, false).values)                                                                            \
    CALL(topk, hd_topk(x, 1, 1, false).values)                                                                         \
    CALL(searchsorted, hd_searchsorted(x, x, true))                                                                    \
    CALL(cumsum, hd_cumsum(x, 1, NULL))                                                                                \
    CALL(cumprod, hd_cumprod(x, 1, NULL))                                                                              \
    CALL(logcumsumexp, hd_logcumsumexp(x, 1, NULL))                                                                    \
    CALL(cummax, hd_cummax(x, 1, NULL).values)                                                                         \
    CALL(cummin, hd_cummin(x, 1, NULL).values)                                                                         \
    CALL(reshape, hd_reshape(x, S(4)))                                                                                 \
    CALL(permute, hd_permute(x, HD_AXES(1, 0)))                                                                        \
    CALL(broadcast_to, hd_broadcast_to(x, S(3, 2, 2)))                                                                 \
    CALL(slice, hd_slice(x, 0, 0, 1, 1))                                                                               \
    CALL(diagonal, hd_diagonal(x, 0, 0, 1))                                                                            \
    CALL(unfold, hd_unfold(x, 0, 1, 1))                                                                                \
    CALL(as_strided, hd_as_strided(x, S(2), S(1), 0))                                                                  \
    CALL(detach, hd_detach(x))                                                                                         \
    CALL(contiguous, hd_contiguous(hd_t(x)))                                                                           \
    CALL(concat, HD_CONCAT_OF(0, x, x))                                                                                \
    CALL(pad, hd_pad(x, (const hd_padding[]){{1, 1}}, 1, 0))                                                           \
    CALL(gather, hd_gather(x, 0, hd_zeros(S(1, 2), HD_I64)))                                                           \
    CALL(scatter, hd_scatter(x, 0, hd_zeros(S(2, 2), HD_I64), x, HD_SCATTER_SET))                                      \
    CALL(index_select, hd_index_select(x, 0, hd_zeros(S(1), HD_I64)))                                                  \
    CALL(matmul, hd_matmul(x, x))                                                                                      \
    CALL(affine, hd_affine(x, x, NULL))                                                                                \
    CALL(layer_norm, hd_layer_norm(x, 1, NULL, NULL, 0.1))                                                             \
    CALL(rms_norm, hd_rms_norm(x, NULL, 0.1))                                                                          \
    CALL(layer_norm_gradient, hd_layer_norm_gradient(x, x, 1, NULL, 0.1))                                              \
    CALL(rms_norm_gradient, hd_rms_norm_gradient(x, x, NULL, 0.1))                                                     \
    CALL(layer_norm_weight_gradient, hd_layer_norm_weight_gradient(x, x, 1, 0.1))                                      \
    CALL(rms_norm_weight_gradient, hd_rms_norm_weight_gradient(x, x, 0.1))                                             \
    CALL(conv, hd_conv(image, image, NULL, NULL))                                                                      \
    CALL(conv_transpose, hd_conv_transpose(image, image, NULL, NULL))                                                  \
    CALL(conv_weight_gradient, hd_conv_weight_gradient(image, image, S(1), NULL))                                      \
    CALL(max_pool, hd_max_pool(x, S(2), NULL))                                                                         \
    CALL(avg_pool, hd_avg_pool(x, S(2), NULL))                                                                         \
    CALL(max_pool_pick, hd_max_pool_pick(x, x, S(1), NULL))                                                            \
    CALL(max_pool_gradient, hd_max_pool_gradient(x, x, S(1), NULL))                                                    \
    CALL(avg_pool_gradient, hd_avg_pool_gradient(x, S(2, 2), S(1), NULL))                                              \
    CALL(attention, hd_attention(x, x, x, NULL, false, 0))                                                             \
    CALL(attention_gradient, hd_attention_gradient(x, x, x, x, NULL, NULL, false, 0))                                  \
    CALL(custom, hd_custom(own_same(), HD_TENSORS(x), NULL, 0))                                                        \
    CALL(cholesky, hd_cholesky(regular, false))                                                                        \
    CALL(triangular_solve, hd_triangular_solve(regular, x, NULL))                                                      \
    CALL(solve, hd_solve(regular, x))                                                                                  \
    CALL(inv, hd_inv(regular))                                                                                         \
    CALL(lu_factor, hd_lu_factor(regular).values)                                                                      \
    CALL(qr, hd_qr(regular).q)                                                                                         \
    CALL(eigh, hd_eigh(regular).values)                                                                                \
    CALL(eigvalsh, hd_eigvalsh(regular))                                                                               \
    CALL(svd_packed, hd_svd_packed(regular).values)                                                                    \
    CALL(svdvals, hd_svdvals(regular))                                                                                 \
    CALL(pinv, hd_pinv(regular, 0))

static hd_tensor *call_of(int id, hd_dtype dtype) {
    hd_tensor *x = hd_ones(S(2, 2), dtype), *image = hd_ones(S(1, 1, 1), dtype), *regular = hd_eye(2, 2, dtype);
    switch (id) {
#define CALL(name, value)                                                                                              \
    case HD_OP_##name: return value;
        CALLS(CALL)
    default: fail_msg("hd_%s has no call here", hd_ops[id].name); return NULL;
    }
}

/* The dtype in which a call is made: integers of linear algebra become floats first. */
static hd_dtype computed_in(int id, hd_dtype dtype) {
    return hd_ops[id].family == HD_FAMILY_LINALG && !hd_dtype_is_float(dtype) ? HD_F32 : dtype;
}

static void calls_take_the_dtypes_of_the_table(void **state) {
    (void)state;
    const hd_device_interface *cpu = hd_device_interface_of(HD_DEVICE_CPU);
    for (int id = HD_OP_ELEMENTWISE_COUNT; id < HD_OP_COUNT; ++id)
        for (int d = 1; d < HD_DTYPE_COUNT && (hd_ops[id].family != HD_FAMILY_LINALG || has_lapack()); ++d) {
            if (!when_compiled((uint64_t)(id * HD_DTYPE_COUNT + d), 7)) continue;
            HD_SCOPE;
            HD_QUIET;
            const hd_tensor *y = call_of(id, (hd_dtype)d);
            if (!hd_ok()) assert_int_equal(hd_error_code(), HD_ERROR_DTYPE);
            if ((y != NULL) != cpu->supports(&hd_ops[id], computed_in(id, (hd_dtype)d)))
                fail_msg("hd_%s of %s: %s", hd_ops[id].name, hd_dtype_name((hd_dtype)d),
                         y != NULL ? "the table has no such call" : hd_error_message());
            hd_error_clear();
        }
}

/* Rows compute in the dtypes that they say: floats where integers become floats first. */
static void rows_are_supported_as_they_compute(void **state) {
    (void)state;
    const hd_device_interface *cpu = hd_device_interface_of(HD_DEVICE_CPU);
    assert_true(cpu->supports(&hd_ops[HD_OP_add], HD_I8));
    assert_false(cpu->supports(&hd_ops[HD_OP_add], HD_BOOL));
    assert_true(cpu->supports(&hd_ops[HD_OP_exp], HD_BF16));
    assert_false(cpu->supports(&hd_ops[HD_OP_exp], HD_I32));
    assert_false(cpu->supports(&hd_ops[HD_OP_bitwise_and], HD_F32));
    assert_true(cpu->supports(&hd_derivatives[HD_OP_exp][0], HD_F64));
}

/* What a call costs follows from its row, whatever its family. */
static void work_is_counted(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(S(3, 4), HD_F32), *b = hd_ones(S(4, 5), HD_F32), *in[2] = {a, b};
    hd_call call;
    const hd_shape product = S(3, 5), sum = S(3), one = S(2, 4);
    hd_call_init(&call, &hd_ops[HD_OP_matmul], in, 2, HD_F32, &product, NULL);
    assert_true(call.op->work(&call).operations == 2 * 3 * 4 * 5);
    assert_true(call.op->work(&call).bytes == 4 * (12 + 20 + 15));
    hd_call_init(&call, &hd_ops[HD_OP_sum], in, 1, HD_F32, &sum, NULL);
    assert_true(call.op->work(&call).operations == 12);
    hd_tensor *rows[2] = {a, hd_zeros(S(2), HD_I64)}; /* of a table only what is looked up */
    hd_call_init(&call, &hd_ops[HD_OP_index_select], rows, 2, HD_F32, &one, &(hd_axis_attributes){0});
    assert_true(call.op->work(&call).bytes == 2 * 8 * 4 + 16);
    hd_call_init(&call, &hd_ops[HD_OP_reshape], in, 1, HD_F32, &one, NULL);
    assert_true(call.op->work(&call).bytes == 0 && call.op->work(&call).operations == 0);
    for (int id = 0; id < HD_OP_COUNT; ++id) assert_non_null(hd_ops[id].work);
}

RUN(test(calls_take_the_dtypes_of_the_table), test(rows_are_supported_as_they_compute), test(work_is_counted))
