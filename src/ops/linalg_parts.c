/* What is made of LAPACK's factors: L and U, U and V^T, determinants, least squares, powers, norms and ranks. */
#include "ops/op.h"

/* Matrices whose dtype is a float; the pending error says what else x is. */
static hd_error check_matrices(const hd_tensor *x, const char *what, bool square) {
    HD_TRY(hd_tensor_check(x, what));
    const hd_shape *s = &x->layout.shape;
    if (s->rank < 2)
        return hd_fail(HD_ERROR_SHAPE, "%s is %s; it takes matrices, [..., m, n]", what, HD_SHAPE_TEXT(*s));
    if (square && s->size[s->rank - 1] != s->size[s->rank - 2])
        return hd_fail(HD_ERROR_SHAPE, "%s is %s; its matrices must be square, [..., n, n]", what, HD_SHAPE_TEXT(*s));
    return HD_OK;
}

static hd_tensor *identity(hd_tensor *beside, int64_t m, int64_t n) {
    const hd_dtype dtype = hd_tensor_dtype(beside);
    return hd_sub(hd_tri_beside(beside, m, n, 0, dtype), hd_tri_beside(beside, m, n, -1, dtype));
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */
hd_lu_parts hd_lu(hd_tensor *x) {
    const hd_lu_parts none = {NULL, NULL, NULL};
    HD_ENTER("hd_lu", none);
    HD_TRY_OR(check_matrices(x, "x", false), none);
    hd_span span;
    hd_span_begin(&span, thread, "lu");
    const int64_t m = hd_tensor_size(x, -2), n = hd_tensor_size(x, -1), k = m < n ? m : n;
    const hd_pair f = hd_lu_factor(x);
    hd_lu_parts p = none;
    if (f.values != NULL) {
        p.rows = hd_narrow(f.indices, -1, k, m);
        p.l = hd_add(hd_tril(hd_narrow(f.values, -1, 0, k), -1), identity(f.values, m, k));
        p.u = hd_triu(hd_narrow(f.values, -2, 0, k), 0);
    }
    hd_span_keep(&span, p.rows);
    hd_span_keep(&span, p.l);
    p.u = hd_span_end(&span, p.u);
    return p.u == NULL ? none : p;
}

hd_svd_parts hd_svd(hd_tensor *x) {
    const hd_svd_parts none = {NULL, NULL, NULL};
    HD_ENTER("hd_svd", none);
    HD_TRY_OR(check_matrices(x, "x", false), none);
    hd_span span;
    hd_span_begin(&span, thread, "svd");
    const hd_spectrum both = hd_svd_packed(x);
    hd_svd_parts p = {.s = both.values};
    if (p.s != NULL) hd_svd_unpack(both.vectors, hd_tensor_size(x, -2), hd_tensor_size(x, -1), &p.u, &p.vh);
    hd_span_keep(&span, p.u);
    hd_span_keep(&span, p.vh);
    p.s = hd_span_end(&span, p.s);
    return p.s == NULL ? none : p;
}

/* ---- determinants ------------------------------------------------------------------------------------------------ */
/* The diagonal of U, and the sign that exchanging rows gives the determinant, as what U is of. */
static hd_tensor *diagonal_of_u(hd_tensor *x, hd_tensor **sign) {
    const hd_pair f = hd_lu_factor(x);
    if (f.values == NULL) return NULL;
    const int64_t n = hd_tensor_size(x, -1);
    const hd_dtype dtype = hd_tensor_dtype(f.values);
    hd_tensor *stays = hd_eq(hd_narrow(f.indices, -1, 0, n), hd_range_beside(f.values, 0, 1, n, HD_I64));
    *sign = hd_prod(hd_where(stays, hd_number(dtype, 1), hd_number(dtype, -1)), HD_AXES(-1), NULL);
    return hd_diagonal(f.values, 0, -2, -1);
}

/* Small floats would overflow on the way. */
static hd_tensor *float_of(hd_tensor *x) { return hd_as_float(x); }

hd_tensor *hd_det(hd_tensor *x) {
    HD_ENTER("hd_det", NULL);
    HD_TRY_OR(check_matrices(x, "x", true), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "det");
    hd_tensor *sign = NULL, *diagonal = diagonal_of_u(float_of(x), &sign);
    hd_tensor *y = diagonal == NULL ? NULL : hd_mul(hd_prod(diagonal, HD_AXES(-1), NULL), sign);
    return hd_span_end(&span, y == NULL ? NULL : hd_cast(y, hd_float_result(thread, x)));
}

hd_signed_log hd_slogdet(hd_tensor *x) {
    const hd_signed_log none = {NULL, NULL};
    HD_ENTER("hd_slogdet", none);
    HD_TRY_OR(check_matrices(x, "x", true), none);
    hd_span span;
    hd_span_begin(&span, thread, "slogdet");
    const hd_dtype dtype = hd_float_result(thread, x);
    hd_tensor *sign = NULL, *diagonal = diagonal_of_u(float_of(x), &sign);
    hd_signed_log y = none;
    if (diagonal != NULL) {
        y.sign = hd_cast(hd_mul(sign, hd_prod(hd_sign(diagonal), HD_AXES(-1), NULL)), dtype);
        y.log = hd_cast(hd_sum(hd_log(hd_abs(diagonal)), HD_AXES(-1), NULL), dtype);
    }
    hd_span_keep(&span, y.sign);
    y.log = hd_span_end(&span, y.log);
    return y.log == NULL ? none : y;
}

/* ---- least squares, powers --------------------------------------------------------------------------------------- */
hd_tensor *hd_lstsq(hd_tensor *a, hd_tensor *b, double cutoff) {
    HD_ENTER("hd_lstsq", NULL);
    HD_TRY_OR(check_matrices(a, "a", false), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    const hd_shape *s = &a->layout.shape, *t = &b->layout.shape;
    if (t->rank < 1 || t->size[t->rank == 1 ? 0 : t->rank - 2] != s->size[s->rank - 2]) {
        hd_fail(HD_ERROR_SHAPE, "a is %s and b %s; b must have %lld rows", HD_SHAPE_TEXT(*s), HD_SHAPE_TEXT(*t),
                (long long)s->size[s->rank - 2]);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "lstsq");
    const hd_dtype meets = hd_dtype_promote((hd_dtype)a->dtype, (hd_dtype)b->dtype),
                   result = hd_dtype_is_float(meets) ? meets : thread->default_dtype,
                   wide = hd_dtype_is_small_float(result) ? HD_F32 : result;
    hd_tensor *y = hd_matmul(hd_pinv(hd_cast(a, wide), cutoff), hd_cast(b, wide));
    return hd_span_end(&span, hd_cast(y, result));
}

/* By squaring: x, x^2, x^4, ... of which those are taken that n is the sum of. */
static hd_tensor *power(hd_tensor *x, uint64_t n) {
    hd_tensor *y = NULL;
    for (; n > 0 && x != NULL; n /= 2) {
        if (n % 2 > 0) y = y == NULL ? x : hd_matmul(y, x);
        if (n > 1) x = hd_matmul(x, x);
    }
    return y;
}

hd_tensor *hd_matrix_power(hd_tensor *x, int64_t n) {
    HD_ENTER("hd_matrix_power", NULL);
    HD_TRY_OR(check_matrices(x, "x", true), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "matrix_power");
    const int64_t size = hd_tensor_size(x, -1);
    if (n == 0) return hd_span_end(&span, hd_add(hd_zeros_like(x), identity(x, size, size)));
    const hd_dtype result = n > 0 ? (hd_dtype)x->dtype : hd_float_result(thread, x);
    hd_tensor *f = hd_dtype_is_small_float(result) || n < 0 ? hd_as_float(x) : x;
    hd_tensor *y = n > 0 ? power(f, (uint64_t)n) : power(hd_inv(f), -(uint64_t)n);
    y = y == x ? hd_copy(y) : y == NULL ? NULL : hd_cast(y, result);
    return hd_span_end(&span, y);
}

/* ---- norms and ranks --------------------------------------------------------------------------------------------- */
/* The largest, or smallest, on the last axis. */
static hd_tensor *extreme(hd_tensor *x, bool largest) {
    return largest ? hd_max(x, HD_AXES(-1), NULL) : hd_min(x, HD_AXES(-1), NULL);
}

static hd_tensor *norm(hd_tensor *f, hd_matrix_norm_kind kind) {
    switch (kind) {
    case HD_NORM_FROBENIUS: return hd_norm(f, 2, HD_AXES(-2, -1), NULL);
    case HD_NORM_NUCLEAR: return hd_sum(hd_svdvals(f), HD_AXES(-1), NULL);
    case HD_NORM_1:
    case HD_NORM_MINUS_1: return extreme(hd_sum(hd_abs(f), HD_AXES(-2), NULL), kind == HD_NORM_1);
    case HD_NORM_INF:
    case HD_NORM_MINUS_INF: return extreme(hd_sum(hd_abs(f), HD_AXES(-1), NULL), kind == HD_NORM_INF);
    case HD_NORM_2:
    case HD_NORM_MINUS_2: return extreme(hd_svdvals(f), kind == HD_NORM_2);
    }
    hd_fail(HD_ERROR_VALUE, "kind %d; HD_NORM_FROBENIUS and its like are the kinds", (int)kind);
    return NULL;
}

hd_tensor *hd_matrix_norm(hd_tensor *x, hd_matrix_norm_kind kind, const hd_reduce_opts *opts) {
    HD_ENTER("hd_matrix_norm", NULL);
    HD_TRY_OR(check_matrices(x, "x", false), NULL);
    HD_READ_OPTS(hd_reduce_opts, opts, NULL);
    hd_span span;
    hd_span_begin(&span, thread, "matrix_norm");
    hd_tensor *y = hd_cast(norm(hd_as_float(x), kind), hd_float_result(thread, x));
    return hd_span_end(&span, options.keep_dims ? hd_unsqueeze(hd_unsqueeze(y, -1), -1) : y);
}

hd_tensor *hd_matrix_rank(hd_tensor *x, double cutoff) {
    HD_ENTER("hd_matrix_rank", NULL);
    HD_TRY_OR(check_matrices(x, "x", false), NULL);
    HD_TRY_OR(hd_linalg_cutoff(thread, x, &cutoff), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "matrix_rank");
    hd_tensor *s = hd_svdvals(hd_detach(hd_as_float(x)));
    if (s == NULL || hd_tensor_size(s, -1) == 0) /* of nothing there is no largest */
        return hd_span_end(&span, s == NULL ? NULL : hd_count_nonzero(s, HD_AXES(-1), NULL));
    hd_tensor *least = hd_mul_scalar(hd_max(s, HD_AXES(-1), HD_OPTS(hd_reduce_opts, .keep_dims = true)), cutoff);
    return hd_span_end(&span, hd_count_nonzero(hd_gt(s, least), HD_AXES(-1), NULL));
}
