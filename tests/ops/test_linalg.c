/* Linear algebra: against NumPy and SciPy, by what factors must multiply to, in every layout and dtype, and for
 * matrices that have no such factors. */
#include "families.h"
#include "lapack.h"

#include <float.h>

#define X HD_AXES

/* ---- matrices ---------------------------------------------------------------------------------------------------- */
/* The same values in other memory: as they are, turned, from the back, or cut out of something larger. */
enum { LAYOUTS = 4 };
static hd_tensor *laid_out(hd_tensor *x, int layout) {
    if (layout == 1) return hd_transpose(hd_contiguous(hd_transpose(x, -2, -1)), -2, -1);
    if (layout == 2) return hd_slice(hd_flip(x, X(-1)), -1, HD_END, HD_END, -1);
    if (layout == 3) {
        const int64_t n = hd_tensor_size(x, -2);
        return hd_narrow(hd_concat((hd_tensor *[]){x, hd_neg(x)}, 2, -2), -2, 0, n);
    }
    return x;
}

/* fixture, with 3 more on the diagonals, as make_families.py has it. */
static hd_tensor *full_rank(hd_shape shape, hd_dtype dtype) {
    return hd_add(fixture(shape, dtype),
                  hd_mul_scalar(hd_eye(shape.size[shape.rank - 2], shape.size[shape.rank - 1], dtype), 3));
}
static hd_tensor *turned(hd_tensor *x) { return hd_transpose(x, -2, -1); }
static hd_tensor *positive(hd_tensor *x) {
    return hd_add(hd_matmul(x, turned(x)),
                  hd_mul_scalar(hd_eye(hd_tensor_size(x, -2), hd_tensor_size(x, -2), hd_tensor_dtype(x)), 2));
}
static hd_tensor *symmetric(hd_tensor *x) { return hd_add(x, turned(x)); }
static hd_tensor *random_matrix(hd_shape shape, hd_dtype dtype) { return hd_uniform(shape, dtype, -1, 1); }

static double unit_of(hd_dtype dtype) { return dtype == HD_F64 ? DBL_EPSILON : FLT_EPSILON; }

/* Equal up to so many units of the largest number. */
static void assert_near_at(hd_tensor *got, hd_tensor *expected, double units, const char *what, int line) {
    if (!hd_ok()) fail_msg("%d: %s: %s", line, what, hd_error_message());
    if (hd_tensor_dtype(got) != hd_tensor_dtype(expected) ||
        !hd_shape_equal(hd_tensor_shape(got), hd_tensor_shape(expected)))
        fail_msg("%d: %s: rank %d of %s, expected rank %d of %s, or other sizes", line, what, hd_tensor_rank(got),
                 hd_dtype_name(hd_tensor_dtype(got)), hd_tensor_rank(expected),
                 hd_dtype_name(hd_tensor_dtype(expected)));
    if (hd_tensor_count(got) == 0) return;
    hd_tensor *size = hd_max(hd_abs(expected), X(), NULL);
    const double scale = fmax(1, hd_item(size)), error = hd_item(hd_max(hd_abs(hd_sub(got, expected)), X(), NULL));
    if (!(error <= units * unit_of(hd_tensor_dtype(got)) * scale))
        fail_msg("%d: %s: error %g at numbers of %g", line, what, error, scale);
}
#define assert_near(got, expected, units) assert_near_at(got, expected, units, #got, __LINE__)

static hd_tensor *expected_of(const golden *g, hd_dtype dtype) {
    return hd_cast(hd_from_data(g->v, g->shape, HD_F64), dtype);
}
static hd_shape shape_of(const golden *g, int first) {
    hd_shape shape = {.rank = g->arguments - first};
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = (int64_t)g->argument[first + i];
    return shape;
}

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
/* The columns of a with weights 1, 2, ..., times b: as often as a pair of vectors changes its sign. */
static hd_tensor *weighted(hd_tensor *a, hd_tensor *b) {
    return hd_matmul(hd_mul(a, hd_arange(1, (double)hd_tensor_size(a, -1) + 1, 1, hd_tensor_dtype(a))), b);
}
static hd_tensor *svd_of(hd_tensor *x) {
    const hd_svd_parts p = hd_svd(x);
    return weighted(p.u, p.vh);
}
static hd_tensor *eigh_of(hd_tensor *x) {
    const hd_spectrum p = hd_eigh(symmetric(x));
    return weighted(p.vectors, turned(p.vectors));
}
static hd_tensor *right_side(hd_tensor *a) {
    hd_shape shape = hd_tensor_shape(a);
    shape.size[shape.rank - 1] = 3;
    return fixture(shape, hd_tensor_dtype(a));
}

/* What NumPy says of x; raw is x without more on its diagonals, and argument what stands in front of its sizes. */
typedef hd_tensor *made_of(hd_tensor *x, hd_tensor *raw, double argument);
#define OPS(OP)                                                                                                        \
    OP(svdvals, 0, hd_svdvals(x))                                                                                      \
    OP(svd, 0, svd_of(x))                                                                                              \
    OP(qr_q, 0, hd_qr(x).q)                                                                                            \
    OP(qr_r, 0, hd_qr(x).r)                                                                                            \
    OP(pinv, 0, hd_pinv(raw, 1e-6))                                                                                    \
    OP(lstsq, 0, hd_lstsq(raw, right_side(x), 1e-6))                                                                   \
    OP(matrix_rank, 0, hd_cast(hd_matrix_rank(raw, 1e-6), hd_tensor_dtype(x)))                                         \
    OP(matrix_norm, 1,                                                                                                 \
       hd_matrix_norm(x, (hd_matrix_norm_kind)argument, HD_OPTS(hd_reduce_opts, .keep_dims = (int)argument % 2 == 0))) \
    OP(eigvalsh, 0, hd_eigvalsh(symmetric(x)))                                                                         \
    OP(eigh, 0, eigh_of(x))                                                                                            \
    OP(cholesky, 0, hd_cholesky(positive(x), false))                                                                   \
    OP(triangular_solve, 0, hd_triangular_solve(hd_cholesky(positive(x), false), right_side(x), NULL))                 \
    OP(det, 0, hd_det(x))                                                                                              \
    OP(slogdet_sign, 0, hd_slogdet(x).sign)                                                                            \
    OP(slogdet_log, 0, hd_slogdet(x).log)                                                                              \
    OP(inv, 0, hd_inv(x))                                                                                              \
    OP(solve, 0, hd_solve(x, right_side(x)))                                                                           \
    OP(matrix_power, 1, hd_matrix_power(x, (int64_t)argument))                                                         \
    OP(lu_rows, 0, hd_cast(hd_lu(x).rows, hd_tensor_dtype(x)))                                                         \
    OP(lu_l, 0, hd_lu(x).l)                                                                                            \
    OP(lu_u, 0, hd_lu(x).u)
#define FUNCTION(name, first, result)                                                                                  \
    static hd_tensor *made_##name(hd_tensor *x, hd_tensor *raw, double argument) {                                     \
        (void)x, (void)raw, (void)argument;                                                                            \
        return result;                                                                                                 \
    }
OPS(FUNCTION)
#undef FUNCTION

static void as_numpy_says(const char *name, int first, made_of *make) {
    for (golden g = golden_open(name); golden_next(&g);)
        for (int layout = 0; layout < LAYOUTS; ++layout)
            for (int k = 0; k < 2; ++k) {
                HD_SCOPE;
                const hd_dtype dtype = k == 0 ? HD_F64 : HD_F32;
                const hd_shape shape = shape_of(&g, first);
                hd_tensor *x = laid_out(full_rank(shape, dtype), layout),
                          *raw = laid_out(fixture(shape, dtype), layout);
                assert_near_at(make(x, raw, g.argument[0]), expected_of(&g, dtype), 4096, name, (int)layout);
            }
}

static void as_numpy(void **state) {
    (void)state;
#define AS_NUMPY(name, first, result) as_numpy_says(#name, first, made_##name);
    OPS(AS_NUMPY)
#undef AS_NUMPY
}

/* ---- what factors multiply to ------------------------------------------------------------------------------------ */
static hd_tensor *identity_like(hd_tensor *x) {
    const int64_t n = hd_tensor_size(x, -1);
    return hd_add(hd_zeros_like(x), hd_eye(n, n, hd_tensor_dtype(x)));
}

static void check_factors(hd_tensor *x, double units) {
    const hd_qr_parts qr = hd_qr(x);
    assert_near(hd_matmul(qr.q, qr.r), x, units);
    assert_near(hd_matmul(turned(qr.q), qr.q), identity_like(hd_matmul(turned(qr.q), qr.q)), units);
    assert_near(hd_tril(qr.r, -1), hd_zeros_like(qr.r), 0);
    const hd_svd_parts svd = hd_svd(x);
    assert_near(hd_matmul(hd_mul(svd.u, hd_unsqueeze(svd.s, -2)), svd.vh), x, units);
    assert_near(hd_matmul(turned(svd.u), svd.u), identity_like(hd_matmul(turned(svd.u), svd.u)), units);
    assert_near(hd_matmul(svd.vh, turned(svd.vh)), identity_like(hd_matmul(svd.vh, turned(svd.vh))), units);
    assert_near(hd_svdvals(x), svd.s, units);
    const hd_lu_parts lu = hd_lu(x);
    assert_near(hd_take_along_axis(x, -2, hd_broadcast_to(hd_unsqueeze(lu.rows, -1), hd_tensor_shape(x))),
                hd_matmul(lu.l, lu.u), units);
    assert_near(hd_matmul(x, hd_matmul(hd_pinv(x, 0), x)), x, units * 4);
}

static void check_square(hd_tensor *x, double units) {
    hd_tensor *p = positive(x), *s = symmetric(x), *low = hd_cholesky(p, false), *up = hd_cholesky(p, true);
    assert_near(hd_matmul(low, turned(low)), p, units);
    assert_near(up, turned(low), units);
    const hd_spectrum e = hd_eigh(s);
    assert_near(hd_matmul(hd_mul(e.vectors, hd_unsqueeze(e.values, -2)), turned(e.vectors)), s, units);
    assert_near(hd_matmul(turned(e.vectors), e.vectors), identity_like(s), units);
    assert_near(hd_eigvalsh(s), e.values, units);
    assert_near(hd_matmul(p, hd_inv(p)), identity_like(p), units * 64);
    assert_near(hd_matmul(p, hd_solve(p, x)), x, units * 64);
}

static void factors_multiply_to_the_matrix(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {2, 3}, {3, 2}, {17, 17}, {33, 20}, {20, 33}, {70, 70}, {130, 60}};
    hd_seed(5);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i)
        for (int k = 0; k < 2; ++k)
            for (int batch = 0; batch < 2; ++batch) {
                HD_SCOPE;
                const int64_t m = sizes[i][0], n = sizes[i][1];
                const hd_shape shape = batch ? HD_SHAPE(2, 3, m, n) : HD_SHAPE(m, n);
                hd_tensor *x = random_matrix(shape, k ? HD_F32 : HD_F64);
                check_factors(laid_out(x, (int)(i % LAYOUTS)), 40 * (double)(m + n));
                if (m == n) check_square(laid_out(x, (int)(i % LAYOUTS)), 40 * (double)(m + n));
            }
}

/* A batch of many small matrices, which threads share, gives what each gives by itself. */
static void a_batch_is_its_matrices(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(7);
    hd_tensor *x = random_matrix(HD_SHAPE(1500, 6, 6), HD_F64), *inverse = hd_inv(x), *s = hd_svdvals(x),
              *d = hd_det(x);
    for (int64_t i = 0; i < 1500; i += 37) {
        assert_same(hd_select(inverse, 0, i), hd_inv(hd_select(x, 0, i)));
        assert_same(hd_select(s, 0, i), hd_svdvals(hd_select(x, 0, i)));
        assert_same(hd_select(d, 0, i), hd_det(hd_select(x, 0, i)));
    }
    hd_tensor *others = hd_cast(hd_ne_scalar(hd_arange(0, 1500, 1, HD_I64), 1234), HD_F64);
    hd_tensor *bad = hd_mul(x, hd_reshape(others, HD_SHAPE(1500, 1, 1)));
    assert_null(hd_inv(bad));
    assert_error(HD_ERROR_VALUE, "hd_inv: matrix [1234] of x [1500,6,6] is singular");
}

/* ---- equations --------------------------------------------------------------------------------------------------- */
static hd_tensor *triangle_of(hd_tensor *a, const hd_triangular_opts *o) {
    hd_tensor *t = o->upper ? hd_triu(a, o->unit ? 1 : 0) : hd_tril(a, o->unit ? -1 : 0);
    if (o->unit) t = hd_add(t, hd_eye(hd_tensor_size(a, -1), hd_tensor_size(a, -1), hd_tensor_dtype(a)));
    return o->transpose ? turned(t) : t;
}

static void triangles_are_solved_from_either_side(void **state) {
    (void)state;
    for (int bits = 0; bits < 16; ++bits)
        for (int layout = 0; layout < LAYOUTS; ++layout)
            for (int k = 0; k < 2; ++k) {
                HD_SCOPE;
                const hd_dtype dtype = k ? HD_F32 : HD_F64;
                hd_triangular_opts o = HD_DEFAULTS(hd_triangular_opts);
                o.upper = bits & 1;
                o.transpose = bits & 2;
                o.unit = bits & 4;
                o.right = bits & 8;
                hd_tensor *a = laid_out(hd_div_scalar(full_rank(HD_SHAPE(3, 5, 5), dtype), 4), layout),
                          *b = laid_out(fixture(o.right ? HD_SHAPE(2, 1, 4, 5) : HD_SHAPE(2, 1, 5, 4), dtype), layout),
                          *row = fixture(HD_SHAPE(5), dtype), *t = triangle_of(a, &o);
                hd_tensor *y = hd_triangular_solve(a, b, &o), *v = hd_triangular_solve(a, row, &o);
                assert_near(o.right ? hd_matmul(y, t) : hd_matmul(t, y), hd_broadcast_to(b, hd_tensor_shape(y)), 1e5);
                assert_near(o.right ? hd_squeeze(hd_matmul(hd_unsqueeze(v, -2), t), X(-2))
                                    : hd_squeeze(hd_matmul(t, hd_unsqueeze(v, -1)), X(-1)),
                            hd_broadcast_to(row, HD_SHAPE(3, 5)), 1e5);
            }
}

static void equations_broadcast(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = full_rank(HD_SHAPE(2, 1, 3, 3), HD_F64), *b = fixture(HD_SHAPE(4, 3, 2), HD_F64),
              *v = fixture(HD_SHAPE(3), HD_F64);
    hd_tensor *y = hd_solve(a, b), *of_vector = hd_solve(a, v);
    assert_near(hd_matmul(a, y), hd_broadcast_to(b, HD_SHAPE(2, 4, 3, 2)), 1000);
    assert_near(hd_matmul(a, hd_unsqueeze(of_vector, -1)), hd_broadcast_to(hd_unsqueeze(v, -1), HD_SHAPE(2, 1, 3, 1)),
                1000);
    assert_near(hd_lstsq(a, v, 0), of_vector, 1000);
    assert_near(hd_inv(hd_broadcast_to(hd_select(a, 0, 0), HD_SHAPE(3, 3, 3))),
                hd_broadcast_to(hd_inv(hd_select(a, 0, 0)), HD_SHAPE(3, 3, 3)), 0);
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
static void small_floats_round_once_and_integers_are_floats(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = full_rank(HD_SHAPE(2, 4, 4), HD_F32), *small = hd_cast(x, HD_BF16), *wide = hd_cast(small, HD_F32);
    assert_same(hd_inv(small), hd_cast(hd_inv(wide), HD_BF16));
    assert_same(hd_solve(small, small), hd_cast(hd_solve(wide, wide), HD_BF16));
    assert_same(hd_qr(small).r, hd_cast(hd_qr(wide).r, HD_BF16));
    assert_same(hd_svd(small).vh, hd_cast(hd_svd(wide).vh, HD_BF16));
    assert_same(hd_eigh(small).vectors, hd_cast(hd_eigh(wide).vectors, HD_BF16));
    assert_same(hd_det(small), hd_cast(hd_det(wide), HD_BF16));
    assert_same(hd_lu(small).l, hd_cast(hd_lu(wide).l, HD_BF16));
    assert_same(hd_pinv(small, 0), hd_cast(hd_pinv(wide, 0), HD_BF16));
    hd_tensor *whole = HD_TENSOR_I64(HD_SHAPE(2, 2), 3, 1, 1, 2), *as_float = hd_cast(whole, HD_F32);
    assert_same(hd_inv(whole), hd_inv(as_float));
    assert_same(hd_cholesky(whole, true), hd_cholesky(as_float, true));
    assert_same(hd_solve(whole, hd_cast(as_float, HD_F64)), hd_solve(hd_cast(whole, HD_F64), hd_cast(whole, HD_F64)));
    assert_int_equal(hd_lu(small).rows == NULL ? -1 : (int)hd_tensor_dtype(hd_lu(small).rows), HD_I64);
    assert_values(hd_matrix_power(whole, 3), HD_I64, 35, 20, 20, 15);
    assert_values(hd_matrix_power(whole, 0), HD_I64, 1, 0, 0, 1);
    assert_values(hd_det(HD_TENSOR_I64(HD_SHAPE(2, 2), 2, 0, 0, 4)), HD_F32, 8);
    assert_values(hd_matrix_rank(whole, 0), HD_I64, 2);
}

/* ---- what has no factors ----------------------------------------------------------------------------------------- */
static void matrices_without_factors_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *good = full_rank(HD_SHAPE(3, 3), HD_F64), *zeros = hd_zeros(HD_SHAPE(3, 3), HD_F64);
    hd_tensor *list[] = {positive(good), positive(good), hd_neg(positive(good)), positive(good)};
    hd_tensor *batch = hd_reshape(hd_stack(list, 4, 0), HD_SHAPE(2, 2, 3, 3));
    assert_null(hd_cholesky(batch, false));
    assert_error(HD_ERROR_VALUE, "hd_cholesky: matrix [1,0] of x [2,2,3,3] is not positive definite: its first 1 rows");
    assert_null(hd_cholesky(zeros, true));
    assert_error(HD_ERROR_VALUE, "hd_cholesky: x [3,3] is not positive definite");
    hd_tensor *some[] = {good, zeros};
    batch = hd_stack(some, 2, 0);
    assert_null(hd_inv(batch));
    assert_error(HD_ERROR_VALUE, "hd_inv: matrix [1] of x [2,3,3] is singular");
    assert_null(hd_solve(batch, good));
    assert_error(HD_ERROR_VALUE, "hd_solve: matrix [1] of a [2,3,3] is singular; hd_lstsq and hd_pinv take such");
    assert_null(hd_triangular_solve(batch, good, NULL));
    assert_error(HD_ERROR_VALUE, "hd_triangular_solve: matrix [1] of a [2,3,3] is singular: its diagonal has a 0 at 0");
    assert_non_null(hd_triangular_solve(batch, good, HD_OPTS(hd_triangular_opts, .unit = true)));
    assert_null(hd_matrix_power(zeros, -2));
    assert_error(HD_ERROR_VALUE, "hd_matrix_power");
    assert_values(hd_det(zeros), HD_F64, 0);
    assert_values(hd_slogdet(zeros).sign, HD_F64, 0);
    assert_values(hd_slogdet(zeros).log, HD_F64, -INFINITY);
    assert_values(hd_matrix_rank(batch, 0), HD_I64, 3, 0);
    assert_same(hd_pinv(zeros, 0), zeros);
    assert_same(hd_lstsq(zeros, good, 0), zeros);
    assert_ok();
}

/* Matrices of a batch with a NaN or an infinity give NaN, and the others what they gave without. */
static void not_a_number_stays_in_its_matrix(void **state) {
    (void)state;
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    for (int k = 0; k < 6; ++k) {
        HD_SCOPE;
        const hd_dtype dtype = k < 3 ? HD_F64 : HD_F32;
        hd_tensor *good = positive(full_rank(HD_SHAPE(40, 40), dtype)),
                  *all = hd_full(HD_SHAPE(40, 40), dtype, odd[k % 3]);
        hd_tensor *list[] = {all, good}, *x = hd_stack(list, 2, 0);
        hd_tensor *results[] = {hd_cholesky(x, false),
                                hd_inv(x),
                                hd_solve(x, x),
                                hd_lu_factor(x).values,
                                hd_qr(x).q,
                                hd_qr(x).r,
                                hd_eigh(x).values,
                                hd_eigh(x).vectors,
                                hd_eigvalsh(x),
                                hd_svd(x).u,
                                hd_svd(x).s,
                                hd_svd(x).vh,
                                hd_svdvals(x),
                                hd_pinv(x, 0),
                                hd_det(x),
                                hd_slogdet(x).log};
        hd_tensor *alone[] = {hd_cholesky(good, false),
                              hd_inv(good),
                              hd_solve(good, good),
                              hd_lu_factor(good).values,
                              hd_qr(good).q,
                              hd_qr(good).r,
                              hd_eigh(good).values,
                              hd_eigh(good).vectors,
                              hd_eigvalsh(good),
                              hd_svd(good).u,
                              hd_svd(good).s,
                              hd_svd(good).vh,
                              hd_svdvals(good),
                              hd_pinv(good, 0),
                              hd_det(good),
                              hd_slogdet(good).log};
        assert_ok();
        for (size_t i = 0; i < sizeof results / sizeof results[0]; ++i) {
            hd_tensor *first = hd_select(results[i], 0, 0);
            if (i == 0) first = hd_diagonal(first, 0, 0, 1); /* beside the triangle there are zeros */
            assert_true(hd_item(hd_all(hd_isnan(first), X(), NULL)) != 0);
            assert_same(hd_select(results[i], 0, 1), alone[i]);
        }
        assert_same(hd_narrow(hd_select(hd_lu_factor(x).indices, 0, 0), 0, 40, 40), hd_arange(0, 40, 1, HD_I64));
    }
}

static void bad_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *v = hd_ones(HD_SHAPE(3), HD_F32), *x = hd_ones(HD_SHAPE(2, 3), HD_F32), *s = hd_eye(3, 3, HD_F32);
    hd_cholesky(x, false);
    assert_error(HD_ERROR_SHAPE, "hd_cholesky: x is [2,3]; its matrices must be square, [..., n, n]");
    hd_svd(v);
    assert_error(HD_ERROR_SHAPE, "hd_svd: x is [3]; it takes matrices, [..., m, n]");
    hd_det(x);
    assert_error(HD_ERROR_SHAPE, "hd_det: x is [2,3]; its matrices must be square");
    hd_solve(s, x);
    assert_error(HD_ERROR_SHAPE, "hd_solve: a is [3,3] and b [2,3]; b must have 3 rows");
    hd_triangular_solve(s, turned(x), HD_OPTS(hd_triangular_opts, .right = true));
    assert_error(HD_ERROR_SHAPE, "hd_triangular_solve: a is [3,3] and b [3,2]; b must have 3 columns");
    hd_solve(hd_ones(HD_SHAPE(2, 3, 3), HD_F32), hd_ones(HD_SHAPE(4, 3, 3), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_solve");
    hd_lstsq(x, v, 0);
    assert_error(HD_ERROR_SHAPE, "hd_lstsq: a is [2,3] and b [3]; b must have 2 rows");
    hd_pinv(x, -1);
    assert_error(HD_ERROR_VALUE, "hd_pinv: cutoff is -1");
    hd_matrix_rank(x, NAN);
    assert_error(HD_ERROR_VALUE, "hd_matrix_rank: cutoff is nan");
    hd_matrix_norm(x, (hd_matrix_norm_kind)0, NULL);
    assert_error(HD_ERROR_VALUE, "hd_matrix_norm: kind 0; HD_NORM_FROBENIUS");
    hd_matrix_power(x, 2);
    assert_error(HD_ERROR_SHAPE, "hd_matrix_power: x is [2,3]; its matrices must be square");
    hd_inv(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_inv");
    hd_solve(s, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b`");
}

RUN_WITH_LAPACK(test(as_numpy), test(factors_multiply_to_the_matrix), test(a_batch_is_its_matrices),
                test(triangles_are_solved_from_either_side), test(equations_broadcast),
                test(small_floats_round_once_and_integers_are_floats), test(matrices_without_factors_are_named),
                test(not_a_number_stays_in_its_matrix), test(bad_arguments_are_named))
