/* The gradients of linear algebra, in public ops: they have gradients themselves, to any order. Matrices are written as
 * they stand in a formula: ^T is the transpose of the last two axes, and whatever lies in front is a batch. */
#include "ops/op.h"

static hd_tensor *turned(hd_tensor *x) { return hd_transpose(x, -2, -1); }
static hd_tensor *times(hd_tensor *a, hd_tensor *b) { return hd_matmul(a, b); }
static hd_tensor *turned_times(hd_tensor *a, hd_tensor *b) { return hd_matmul(turned(a), b); }
static hd_tensor *times_turned(hd_tensor *a, hd_tensor *b) { return hd_matmul(a, turned(b)); }
static hd_tensor *symmetric(hd_tensor *x) { return hd_mul_scalar(hd_add(x, turned(x)), 0.5); }

/* [m, n] */
static hd_tensor *identity(hd_tensor *beside, int64_t m, int64_t n) {
    const hd_dtype dtype = hd_tensor_dtype(beside);
    return hd_sub(hd_tri_beside(beside, m, n, 0, dtype), hd_tri_beside(beside, m, n, -1, dtype));
}

/* A list of numbers as factors of columns, and of rows. */
static hd_tensor *of_columns(hd_tensor *s) { return hd_unsqueeze(s, -2); }
static hd_tensor *of_rows(hd_tensor *s) { return hd_unsqueeze(s, -1); }

/* The first and the other columns, or rows. */
static hd_tensor *part(hd_tensor *x, int axis, int64_t start, int64_t end) {
    return hd_narrow(x, axis, start, end - start);
}

static hd_tensor *beside(hd_tensor *a, hd_tensor *b, int axis) {
    hd_tensor *both[2] = {a, b};
    return a == NULL || b == NULL ? NULL : hd_concat(both, 2, axis);
}

/* What was not said is 0. */
static hd_tensor *or_zeros(hd_tensor *gradient, hd_tensor *like) {
    return gradient != NULL ? gradient : hd_zeros_like(like);
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */
static hd_tensor *solve_triangle(hd_tensor *a, hd_tensor *b, bool upper, bool transpose, bool unit, bool right) {
    hd_triangular_opts opts = HD_DEFAULTS(hd_triangular_opts);
    opts.upper = upper;
    opts.transpose = transpose;
    opts.unit = unit;
    opts.right = right;
    return hd_triangular_solve(a, b, &opts);
}

/* With x = L L^T: P = L^T G, below its diagonal and half of that; L^-T P L^-1, made symmetric. */
void hd_vjp_cholesky(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const bool upper = ((const hd_cholesky_attributes *)v->attributes)->upper != 0;
    hd_tensor *l = upper ? turned(v->output) : v->output, *g = upper ? turned(v->gradient) : v->gradient;
    hd_tensor *p = turned_times(l, g);
    p = hd_mul_scalar(hd_add(hd_tril(p, 0), hd_tril(p, -1)), 0.5);
    hd_tensor *left = solve_triangle(l, p, false, true, false, false);
    v->results[0] = symmetric(solve_triangle(l, left, false, false, false, true));
}

/* A X = B: the gradient of B solves A^T . = G, and that of A is -(it) X^T, or transposed, in the triangle alone. */
void hd_vjp_triangular_solve(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_triangular_attributes *t = v->attributes;
    hd_tensor *g = solve_triangle(v->inputs[0], v->gradient, t->upper, !t->transpose, t->unit, t->right);
    if (v->wanted[1]) v->results[1] = g;
    if (!v->wanted[0]) return;
    hd_tensor *x = v->output, *of_a;
    if (t->right)
        of_a = t->transpose ? turned_times(g, x) : turned_times(x, g);
    else
        of_a = t->transpose ? times_turned(x, g) : times_turned(g, x);
    const int inside = t->unit ? 1 : 0;
    v->results[0] = hd_neg(t->upper ? hd_triu(of_a, inside) : hd_tril(of_a, -inside));
}

/* ---- equations --------------------------------------------------------------------------------------------------- */
void hd_vjp_solve(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    hd_tensor *g = hd_solve(turned(v->inputs[0]), v->gradient);
    if (v->wanted[1]) v->results[1] = g;
    if (v->wanted[0]) v->results[0] = hd_neg(times_turned(g, v->output));
}

void hd_vjp_inv(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_neg(turned_times(v->output, times_turned(v->gradient, v->output)));
}

/* Y moves by -Y dA Y + Y Y^T dA^T (I - A Y) + (I - Y A) dA^T Y^T Y, where the rank stays. */
void hd_vjp_pinv(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    hd_tensor *a = v->inputs[0], *y = v->output, *g = turned(v->gradient), *y_turned = turned(y);
    hd_tensor *rows = times(times(g, y), y_turned), *columns = times(y_turned, times(y, g));
    hd_tensor *sum = hd_add(hd_sub(rows, times(a, times(y, rows))), hd_sub(columns, times(times(columns, y), a)));
    v->results[0] = hd_sub(sum, turned_times(y, times_turned(v->gradient, y)));
}

/* ---- LU ---------------------------------------------------------------------------------------------------------- */
/* Of the square A = L U, both in f: L^-T (L^T of_l below the diagonal, of_u U^T above) U^-T. */
static hd_tensor *of_square(hd_tensor *f, hd_tensor *of_l, hd_tensor *of_u) {
    const int64_t k = hd_tensor_size(f, -1);
    hd_tensor *l = hd_add(hd_tril(f, -1), identity(f, k, k)), *u = hd_triu(f, 0);
    hd_tensor *middle = hd_add(hd_tril(turned_times(l, of_l), -1), hd_triu(times_turned(of_u, u), 0));
    hd_tensor *left = solve_triangle(f, middle, false, true, true, false);
    return solve_triangle(f, left, true, true, false, true);
}

/* Rows below the square: L2 = A2 U^-1. Columns behind it: U2 = L^-1 A2. What moves with them moves L and U, too. */
static hd_tensor *of_lu(hd_tensor *f, hd_tensor *g, int64_t m, int64_t n) {
    const int64_t k = m < n ? m : n;
    if (m == n) return of_square(f, hd_tril(g, -1), hd_triu(g, 0));
    const int axis = m > n ? -2 : -1;
    const int64_t all = m > n ? m : n;
    hd_tensor *f1 = part(f, axis, 0, k), *f2 = part(f, axis, k, all), *g1 = part(g, axis, 0, k),
              *g2 = part(g, axis, k, all);
    hd_tensor *of_l = hd_tril(g1, -1), *of_u = hd_triu(g1, 0), *rest;
    if (m > n) {
        rest = solve_triangle(f1, g2, true, true, false, true);
        of_u = hd_sub(of_u, hd_triu(turned_times(f2, rest), 0));
    } else {
        rest = solve_triangle(f1, g2, false, true, true, false);
        of_l = hd_sub(of_l, hd_tril(times_turned(rest, f2), -1));
    }
    return beside(of_square(f1, of_l, of_u), rest, axis);
}

void hd_vjp_lu_factor(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_shape *s = &v->shapes[0];
    const int64_t m = s->size[s->rank - 2], n = s->size[s->rank - 1], k = m < n ? m : n;
    if (v->gradient == NULL) return;
    hd_tensor *moved = of_lu(v->output, v->gradient, m, n);
    hd_tensor *rows = hd_broadcast_to(of_rows(part(v->second_output, -1, k, k + m)), *s);
    v->results[0] = moved == NULL ? NULL : hd_scatter(hd_zeros_like(moved), -2, rows, moved, HD_SCATTER_SET);
}

/* ---- QR ---------------------------------------------------------------------------------------------------------- */
/* Of A = Q R with a square R: (of_q + Q S) R^-T, S the lower triangle of R of_r^T - of_q^T Q, mirrored. */
static hd_tensor *of_square_qr(hd_tensor *q, hd_tensor *r, hd_tensor *of_q, hd_tensor *of_r) {
    hd_tensor *m = hd_sub(times_turned(r, of_r), turned_times(of_q, q));
    hd_tensor *mirrored = hd_add(hd_tril(m, 0), turned(hd_tril(m, -1)));
    return solve_triangle(r, hd_add(of_q, times(q, mirrored)), true, true, false, true);
}

/* Columns behind the square are Q V: they move with V and with Q. */
void hd_vjp_qr(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_shape *s = &v->shapes[0];
    const int64_t m = s->size[s->rank - 2], n = s->size[s->rank - 1];
    hd_tensor *q = v->output, *r = v->second_output;
    hd_tensor *of_q = or_zeros(v->gradient, q), *of_r = or_zeros(v->second_gradient, r);
    if (m >= n) {
        v->results[0] = of_square_qr(q, r, of_q, of_r);
        return;
    }
    hd_tensor *behind = part(r, -1, m, n), *of_behind = part(of_r, -1, m, n);
    of_q = hd_add(of_q, times(q, times_turned(behind, of_behind)));
    hd_tensor *square = of_square_qr(q, part(r, -1, 0, m), of_q, part(of_r, -1, 0, m));
    v->results[0] = beside(square, times(q, of_behind), -1);
}

/* ---- eigenvalues ------------------------------------------------------------------------------------------------- */
/* s[j] - s[i] off the diagonal, and 1 on it. */
static hd_tensor *distances(hd_tensor *s) {
    const int64_t k = hd_tensor_size(s, -1);
    return hd_add(hd_sub(of_columns(s), of_rows(s)), identity(s, k, k));
}

/* V (diag(of_values) + V^T of_vectors / distances) V^T: along itself, a vector of length 1 does not move. */
static hd_tensor *of_spectrum(hd_tensor *values, hd_tensor *vectors, hd_tensor *of_values, hd_tensor *of_vectors) {
    hd_tensor *sum = of_values == NULL ? NULL : times_turned(hd_mul(vectors, of_columns(of_values)), vectors);
    if (of_vectors == NULL) return sum;
    const int64_t n = hd_tensor_size(values, -1);
    hd_tensor *turns = turned_times(vectors, of_vectors);
    turns = hd_div(hd_mul(turns, hd_rsub_scalar(identity(values, n, n), 1)), distances(values));
    turns = times(vectors, times_turned(turns, vectors));
    return symmetric(sum == NULL ? turns : hd_add(sum, turns));
}

void hd_vjp_eigh(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = of_spectrum(v->output, v->second_output, v->gradient, v->second_gradient);
}

void hd_vjp_eigvalsh(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_spectrum e = hd_eigh(v->inputs[0]);
    v->results[0] = of_spectrum(e.values, e.vectors, v->gradient, NULL);
}

/* ---- singular values --------------------------------------------------------------------------------------------- */
void hd_svd_unpack(hd_tensor *packed, int64_t m, int64_t n, hd_tensor **u, hd_tensor **vh) {
    const int64_t k = m < n ? m : n;
    hd_shape shape = hd_tensor_shape(packed);
    shape.rank++;
    shape.size[shape.rank - 2] = m;
    shape.size[shape.rank - 1] = k;
    *u = hd_reshape(part(packed, -1, 0, m * k), shape);
    shape.size[shape.rank - 2] = k;
    shape.size[shape.rank - 1] = n;
    *vh = hd_reshape(part(packed, -1, m * k, (m + n) * k), shape);
}

/* x without what lies in the columns of q; and of rows. */
static hd_tensor *outside_columns(hd_tensor *x, hd_tensor *q) { return hd_sub(x, times(q, turned_times(q, x))); }
static hd_tensor *outside_rows(hd_tensor *x, hd_tensor *q) { return hd_sub(x, times(times_turned(x, q), q)); }

/* U (skew(U^T of_u) / D S + S skew(V^T of_v) / D) V^T, D the distances of squares; and, where U or V^T is no square,
 * what leaves its space. */
static hd_tensor *of_vectors(hd_tensor *s, hd_tensor *u, hd_tensor *vh, hd_tensor *of_u, hd_tensor *of_vh) {
    const int64_t m = hd_tensor_size(u, -2), n = hd_tensor_size(vh, -1), k = hd_tensor_size(s, -1);
    hd_tensor *d = distances(hd_square(s)), *a = turned_times(u, of_u), *b = times_turned(vh, of_vh);
    hd_tensor *left = hd_mul(hd_div(hd_sub(a, turned(a)), d), of_columns(s));
    hd_tensor *right = hd_mul(hd_div(hd_sub(b, turned(b)), d), of_rows(s));
    hd_tensor *sum = times(u, times(hd_add(left, right), vh));
    if (m > k) sum = hd_add(sum, times(outside_columns(hd_div(of_u, of_columns(s)), u), vh));
    if (n > k) sum = hd_add(sum, times(u, outside_rows(hd_div(of_vh, of_rows(s)), vh)));
    return sum;
}

void hd_vjp_svd_packed(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_shape *shape = &v->shapes[0];
    const int64_t m = shape->size[shape->rank - 2], n = shape->size[shape->rank - 1];
    hd_tensor *u, *vh, *of_u, *of_vh, *sum = NULL;
    hd_svd_unpack(v->second_output, m, n, &u, &vh);
    if (v->gradient != NULL) sum = times(hd_mul(u, of_columns(v->gradient)), vh);
    if (v->second_gradient != NULL) {
        hd_svd_unpack(v->second_gradient, m, n, &of_u, &of_vh);
        hd_tensor *turns = of_vectors(v->output, u, vh, of_u, of_vh);
        sum = sum == NULL ? turns : hd_add(sum, turns);
    }
    v->results[0] = sum;
}

void hd_vjp_svdvals(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_svd_parts p = hd_svd(v->inputs[0]);
    v->results[0] = times(hd_mul(p.u, of_columns(v->gradient)), p.vh);
}
