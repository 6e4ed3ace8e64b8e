/* Composites of several calls when memory ends: each allocation on the way fails once, which is an error of memory and
 * leaves nothing behind, and the same calls work afterwards. */
#include "support.h"

#include "core/memory.h"
#include "lapack.h"

#define S HD_SHAPE
#define X HD_AXES
#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))

static hd_tensor *parameter(hd_shape shape) { return hd_param(hd_full(shape, HD_F32, 0.5)); }
static void differentiate(hd_tensor *y) { hd_backward(hd_sum(hd_square(y), X(), NULL)); }

static void contract(void) {
    HD_SCOPE;
    hd_tensor *a = parameter(S(3, 4)), *b = parameter(S(4, 3)), *cube = parameter(S(2, 3, 4));
    differentiate(hd_einsum("ij,jk,kl->li", LIST(a, b, a)));
    differentiate(hd_einsum("ij,jk,kl,lm,mn,no,op->ip", LIST(a, b, a, b, a, b, a)));
    differentiate(hd_einsum("...ii->i...", LIST(parameter(S(2, 3, 3)))));
    differentiate(hd_dot_general(cube, cube, X(2, 1), X(2, 1), X(), X()));
    differentiate(hd_addmm(b, b, hd_matmul(a, b), 0.5, 2));
    differentiate(hd_kron(a, hd_reshape(b, S(2, 2, 3))));
    differentiate(hd_kron(parameter(S(2, 2, 1, 2, 2)), parameter(S(2, 2, 2, 2, 2))));
    differentiate(hd_bilinear(hd_select(a, 1, 0), hd_select(a, 0, 0), hd_permute(cube, X(0, 1, 2)), NULL));
    differentiate(hd_cross(b, hd_select(a, 1, 1), 1));
    hd_clear_tape();
}

static void find_and_put(void) {
    HD_SCOPE;
    hd_tensor *x = parameter(S(3, 4)), *i = HD_TENSOR_I64(S(2), 2, -3), *pairs = HD_TENSOR_I64(S(2, 2), 2, -1, 0, 3);
    differentiate(hd_gather_nd(x, pairs, 0));
    differentiate(hd_scatter_nd(x, pairs, hd_ones(S(2), HD_F32), HD_SCATTER_MAX));
    differentiate(hd_index_put(x, LIST(i, i), hd_ones(S(), HD_F32), true));
    differentiate(hd_slice_update(x, hd_ones(S(2, 2), HD_F32), S(1, 0), S(1, 3)));
    differentiate(hd_masked_scatter(x, hd_gt_scalar(hd_detach(x), 0), hd_ones(S(12), HD_F32)));
    differentiate(hd_embedding(x, i, 2));
    differentiate(hd_diag_embed(x, -1, 0, 1));
    differentiate(hd_diag(x, 1));
    hd_tensors *grid = hd_meshgrid(LIST(hd_select(x, 0, 1), hd_select(x, 1, 1)), HD_INDEXING_XY);
    differentiate(hd_mul(hd_tensors_get(grid, 0), hd_tensors_get(grid, 1)));
    hd_clear_tape();
}

static void norm_and_resize(void) {
    HD_SCOPE;
    hd_tensor *x = parameter(S(2, 4, 6)), *w = parameter(S(4)), *mean = hd_zeros(S(4), HD_F32),
              *variance = hd_ones(S(4), HD_F32);
    differentiate(hd_group_norm(x, 2, w, w, 0.1));
    differentiate(hd_batch_norm(x, mean, variance, w, w, true, 0.1, 0.1));
    differentiate(hd_local_response_norm(x, 3, 1, 0.75, 1));
    differentiate(hd_cosine_similarity(x, hd_unsqueeze(w, 1), 1, 0.1));
    differentiate(hd_lp_pool(x, 2, S(2), NULL));
    const hd_pair most = hd_max_pool_with_index(x, S(2), NULL);
    differentiate(hd_mul(most.values, hd_cast(most.indices, HD_F32)));
    differentiate(hd_col2im(hd_im2col(x, S(2), NULL), S(6), S(2), NULL));
    differentiate(hd_attention_dropout(x, x, x, NULL, true, 0, 0.5));
    differentiate(hd_pixel_shuffle(hd_reshape(w, S(4, 1, 1)), 2));
    differentiate(hd_resize(x, S(5, 3), HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_CUBIC)));
    differentiate(hd_resize(x, S(3), HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_CUBIC, .antialias = true)));
    hd_clear_tape();
}

static void order_and_scan(void) {
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_cast(hd_reshape(hd_arange(1, 13, 1, HD_F64), S(3, 4)), HD_F32));
    const hd_pair sorted = hd_sort(x, 0, true), top = hd_topk(x, 2, 1, true), most = hd_cummax(x, 1, NULL);
    differentiate(hd_mul(sorted.values, hd_cast(sorted.indices, HD_F32)));
    differentiate(hd_mul(top.values, hd_cast(top.indices, HD_F32)));
    differentiate(hd_mul(most.values, hd_cast(most.indices, HD_F32)));
    differentiate(hd_cumsum(x, 0, HD_OPTS(hd_scan_opts, .exclusive = true)));
    differentiate(hd_cumprod(x, 1, HD_OPTS(hd_scan_opts, .reverse = true)));
    differentiate(hd_logcumsumexp(x, 1, NULL));
    differentiate(hd_mul(x, hd_searchsorted(sorted.values, hd_detach(x), false)));
    differentiate(hd_alpha_dropout(hd_dropout(x, 0.5), 0.5));
    hd_clear_tape();
}

/* A column more than a square has, or a row. */
static void factor(void) {
    HD_SCOPE;
    hd_tensor *line = hd_cast(hd_arange(1, 25, 1, HD_F64), HD_F32);
    hd_tensor *x = hd_param(hd_sin(hd_square(hd_reshape(line, S(2, 3, 4))))), *a = hd_narrow(x, 2, 0, 3);
    hd_tensor *square = hd_matmul(a, hd_t(a)), *b = hd_select(x, 2, 3);
    const hd_svd_parts svd = hd_svd(x);
    const hd_qr_parts qr = hd_qr(hd_t(x));
    const hd_lu_parts lu = hd_lu(x);
    const hd_spectrum e = hd_eigh(square);
    differentiate(hd_matmul(hd_abs(svd.u), hd_abs(svd.vh)));
    differentiate(hd_matmul(qr.q, qr.r));
    differentiate(hd_matmul(lu.l, lu.u));
    differentiate(hd_mul(e.values, hd_sum(hd_abs(e.vectors), X(1), NULL)));
    differentiate(hd_cholesky(hd_add(square, hd_eye(3, 3, HD_F32)), false));
    differentiate(hd_triangular_solve(square, x, NULL));
    differentiate(hd_solve(a, hd_unsqueeze(b, 2)));
    differentiate(hd_lstsq(x, x, 0));
    differentiate(hd_inv(a));
    differentiate(hd_det(a));
    differentiate(hd_slogdet(a).log);
    differentiate(hd_matrix_power(a, -3));
    differentiate(hd_add(hd_matrix_norm(x, HD_NORM_NUCLEAR, NULL), hd_matrix_norm(x, HD_NORM_1, NULL)));
    differentiate(hd_mul(hd_eigvalsh(square), hd_unsqueeze(hd_matrix_rank(x, 0), 1)));
    hd_clear_tape();
}

static void failing_at_every_place(void (*program)(void)) {
    int64_t n = 0;
    for (bool reached = true; reached; ++n) {
        hd_memory_trim();
        hd_memory_fail_after(n);
        {
            HD_QUIET;
            program();
        }
        reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (!hd_ok() && hd_error_code() != HD_ERROR_MEMORY)
            fail_msg("allocation %lld failed, but the error is: %s", (long long)n, hd_error_message());
        assert_true(reached || hd_ok());
        hd_error_clear();
        hd_clear_tape();
        assert_int_equal(hd_live_objects(), 0);
    }
    assert_true(n > 20);
    program();
    assert_ok();
}

static void contractions_survive(void **state) {
    (void)state;
    failing_at_every_place(contract);
}
static void indexing_survives(void **state) {
    (void)state;
    failing_at_every_place(find_and_put);
}

static void norms_and_images_survive(void **state) {
    (void)state;
    failing_at_every_place(norm_and_resize);
}

static void orders_and_scans_survive(void **state) {
    (void)state;
    failing_at_every_place(order_and_scan);
}

static void factors_survive(void **state) {
    (void)state;
    if (!has_lapack()) skip();
    failing_at_every_place(factor);
}

RUN(test(contractions_survive), test(indexing_survives), test(norms_and_images_survive), test(orders_and_scans_survive),
    test(factors_survive))
