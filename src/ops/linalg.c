/* Linear algebra: one call for each factorisation of LAPACK's, and for what is quicker than its parts. Matrices are the
 * last two axes, and whatever lies in front of them is a batch. Calls compute in f32 and f64 alone: operands of other
 * dtypes are converted here, and results of small floats rounded once. */
#include "ops/op.h"

/* ---- what is asked of operands ----------------------------------------------------------------------------------- */
/* LAPACK counts in 32 bits. */
static hd_error check_matrices(const hd_tensor *x, const char *what) {
    HD_TRY(hd_tensor_check(x, what));
    const hd_shape *s = &x->layout.shape;
    if (s->rank < 2)
        return hd_fail(HD_ERROR_SHAPE, "%s is %s; it takes matrices, [..., m, n]", what, HD_SHAPE_TEXT(*s));
    if (s->size[s->rank - 1] > INT32_MAX || s->size[s->rank - 2] > INT32_MAX)
        return hd_fail(HD_ERROR_SHAPE, "%s is %s; LAPACK counts rows and columns in 32 bits", what, HD_SHAPE_TEXT(*s));
    return HD_OK;
}

static hd_error check_square(const hd_tensor *x, const char *what) {
    HD_TRY(check_matrices(x, what));
    const hd_shape *s = &x->layout.shape;
    if (s->size[s->rank - 1] != s->size[s->rank - 2])
        return hd_fail(HD_ERROR_SHAPE, "%s is %s; its matrices must be square, [..., n, n]", what, HD_SHAPE_TEXT(*s));
    return HD_OK;
}

/* What lies in front of the matrices. */
static hd_shape batch_of(const hd_shape *s) {
    hd_shape batch = *s;
    batch.rank -= 2;
    return batch;
}

static hd_shape matrices(hd_shape batch, int64_t m, int64_t n) {
    batch.size[batch.rank++] = m;
    batch.size[batch.rank++] = n;
    return batch;
}

static hd_shape rows(hd_shape batch, int64_t n) {
    batch.size[batch.rank++] = n;
    return batch;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
/* A call before it is one: operands of any dtype, which are to have these shapes; and what comes out. */
typedef struct draft {
    hd_op_id id;
    const void *attributes;
    hd_tensor *in[2];
    hd_shape want[2], out[2];
    int inputs, outputs;
    bool has_indices; /* the second output is i64; else it has the dtype of the first */
} draft;

static hd_tensor *execute(hd_thread *thread, const draft *d, hd_tensor *const *in, hd_dtype dtype, hd_tensor **second) {
    hd_call call;
    int64_t elements;
    for (int i = 0; i < d->outputs; ++i) HD_TRY_OR(hd_shape_check(&d->out[i], sizeof(double), &elements), NULL);
    hd_call_init(&call, &hd_ops[d->id], in, d->inputs, dtype, &d->out[0], d->attributes);
    if (d->outputs > 1) hd_call_add_output(&call, d->has_indices ? HD_I64 : dtype, &d->out[1]);
    hd_tensor *first = hd_execute(thread, &call);
    *second = first == NULL || d->outputs < 2 ? NULL : call.outputs[1];
    return first;
}

/* Runs it. What is converted or repeated on the way goes when it is over. */
static hd_tensor *run(hd_thread *thread, const draft *d, hd_tensor **second) {
    hd_dtype meets = (hd_dtype)d->in[0]->dtype;
    if (d->inputs > 1) meets = hd_dtype_promote(meets, (hd_dtype)d->in[1]->dtype);
    const hd_dtype result = hd_dtype_is_float(meets) ? meets : thread->default_dtype,
                   wide = hd_dtype_is_small_float(result) ? HD_F32 : result;
    bool is_ready = result == wide;
    for (int i = 0; i < d->inputs; ++i)
        is_ready &= d->in[i]->dtype == wide && hd_shape_equal(d->in[i]->layout.shape, d->want[i]);
    if (is_ready) return execute(thread, d, d->in, wide, second);
    hd_span span;
    hd_tensor *in[2];
    hd_span_begin(&span, thread, hd_ops[d->id].name);
    for (int i = 0; i < d->inputs; ++i) {
        in[i] = hd_cast(d->in[i], wide);
        if (in[i] == NULL) return hd_span_end(&span, NULL);
        if (!hd_shape_equal(in[i]->layout.shape, d->want[i])) in[i] = hd_broadcast_to(in[i], d->want[i]);
        if (in[i] == NULL) return hd_span_end(&span, NULL);
    }
    hd_tensor *first = execute(thread, d, in, wide, second);
    if (first != NULL && *second != NULL && !d->has_indices) *second = hd_cast(*second, result);
    if (first != NULL) hd_span_keep(&span, *second);
    first = hd_span_end(&span, first == NULL ? NULL : hd_cast(first, result));
    if (first == NULL) *second = NULL;
    return first;
}

static draft draft_of(hd_op_id id, hd_tensor *x, hd_shape out) {
    return (draft){.id = id, .in = {x}, .want = {x->layout.shape}, .out = {out}, .inputs = 1, .outputs = 1};
}

static void add_output(draft *d, hd_shape shape) { d->out[d->outputs++] = shape; }

hd_tensor *hd_cholesky(hd_tensor *x, bool upper) {
    HD_ENTER("hd_cholesky", NULL);
    HD_TRY_OR(check_square(x, "x"), NULL);
    const hd_cholesky_attributes attributes = {upper};
    draft d = draft_of(HD_OP_cholesky, x, x->layout.shape);
    d.attributes = &attributes;
    hd_tensor *none;
    return run(thread, &d, &none);
}

hd_tensor *hd_inv(hd_tensor *x) {
    HD_ENTER("hd_inv", NULL);
    HD_TRY_OR(check_square(x, "x"), NULL);
    const draft d = draft_of(HD_OP_inv, x, x->layout.shape);
    hd_tensor *none;
    return run(thread, &d, &none);
}

/* ---- equations --------------------------------------------------------------------------------------------------- */
/* A X = b, or X A = b; batches broadcast. */
static hd_tensor *solve(hd_thread *thread, hd_op_id id, hd_tensor *a, hd_tensor *b, bool right,
                        const void *attributes) {
    const hd_shape *s = &a->layout.shape, *t = &b->layout.shape;
    const int64_t n = s->size[s->rank - 1];
    if (t->size[t->rank - (right ? 1 : 2)] != n) {
        hd_fail(HD_ERROR_SHAPE, "a is %s and b %s; b must have %lld %s", HD_SHAPE_TEXT(*s), HD_SHAPE_TEXT(*t),
                (long long)n, right ? "columns" : "rows");
        return NULL;
    }
    const hd_shape of_a = batch_of(s), of_b = batch_of(t);
    hd_shape batch;
    HD_TRY_OR(hd_shape_broadcast(&of_a, &of_b, &batch), NULL);
    draft d = {.id = id, .attributes = attributes, .in = {a, b}, .inputs = 2, .outputs = 1};
    d.want[0] = matrices(batch, n, n);
    d.want[1] = d.out[0] = matrices(batch, t->size[t->rank - 2], t->size[t->rank - 1]);
    hd_tensor *none;
    return run(thread, &d, &none);
}

/* The same of a vector b, which is one column, or from the right one row. */
static hd_tensor *solve_any(hd_thread *thread, hd_op_id id, hd_tensor *a, hd_tensor *b, bool right,
                            const void *attributes) {
    HD_TRY_OR(check_square(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    if (b->layout.shape.rank != 1) {
        HD_TRY_OR(check_matrices(b, "b"), NULL);
        return solve(thread, id, a, b, right, attributes);
    }
    const int axis = right ? -2 : -1;
    hd_span span;
    hd_span_begin(&span, thread, hd_ops[id].name);
    hd_tensor *column = hd_unsqueeze(b, right ? 0 : 1);
    hd_tensor *y = column == NULL ? NULL : solve(thread, id, a, column, right, attributes);
    return hd_span_end(&span, y == NULL ? NULL : hd_squeeze(y, HD_AXES(axis)));
}

hd_tensor *hd_solve(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_solve", NULL);
    return solve_any(thread, HD_OP_solve, a, b, false, NULL);
}

hd_tensor *hd_triangular_solve(hd_tensor *a, hd_tensor *b, const hd_triangular_opts *opts) {
    HD_ENTER("hd_triangular_solve", NULL);
    HD_READ_OPTS(hd_triangular_opts, opts, NULL);
    const hd_triangular_attributes attributes = {options.upper, options.transpose, options.unit, options.right};
    return solve_any(thread, HD_OP_triangular_solve, a, b, options.right, &attributes);
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */
typedef struct sizes {
    hd_shape batch;
    int64_t m, n, k;
} sizes;

static sizes sizes_of(const hd_tensor *x) {
    const hd_shape *s = &x->layout.shape;
    const int64_t m = s->size[s->rank - 2], n = s->size[s->rank - 1];
    return (sizes){batch_of(s), m, n, m < n ? m : n};
}

hd_pair hd_lu_factor(hd_tensor *x) {
    const hd_pair none = {NULL, NULL};
    HD_ENTER("hd_lu_factor", none);
    HD_TRY_OR(check_matrices(x, "x"), none);
    const sizes s = sizes_of(x);
    draft d = draft_of(HD_OP_lu_factor, x, x->layout.shape);
    add_output(&d, rows(s.batch, s.k + s.m));
    d.has_indices = true;
    hd_pair p;
    p.values = run(thread, &d, &p.indices);
    return p;
}

hd_qr_parts hd_qr(hd_tensor *x) {
    const hd_qr_parts none = {NULL, NULL};
    HD_ENTER("hd_qr", none);
    HD_TRY_OR(check_matrices(x, "x"), none);
    const sizes s = sizes_of(x);
    draft d = draft_of(HD_OP_qr, x, matrices(s.batch, s.m, s.k));
    add_output(&d, matrices(s.batch, s.k, s.n));
    hd_qr_parts p;
    p.q = run(thread, &d, &p.r);
    return p;
}

hd_spectrum hd_eigh(hd_tensor *x) {
    const hd_spectrum none = {NULL, NULL};
    HD_ENTER("hd_eigh", none);
    HD_TRY_OR(check_square(x, "x"), none);
    const sizes s = sizes_of(x);
    draft d = draft_of(HD_OP_eigh, x, rows(s.batch, s.n));
    add_output(&d, x->layout.shape);
    hd_spectrum p;
    p.values = run(thread, &d, &p.vectors);
    return p;
}

hd_tensor *hd_eigvalsh(hd_tensor *x) {
    HD_ENTER("hd_eigvalsh", NULL);
    HD_TRY_OR(check_square(x, "x"), NULL);
    const sizes s = sizes_of(x);
    const draft d = draft_of(HD_OP_eigvalsh, x, rows(s.batch, s.n));
    hd_tensor *none;
    return run(thread, &d, &none);
}

/* Calls have two outputs, and this has three: U and V^T are one, of which hd_svd gives two views. The values stay by
 * themselves: gradients through them alone exist also where some are equal. */
hd_spectrum hd_svd_packed(hd_tensor *x) {
    const hd_spectrum none = {NULL, NULL};
    HD_ENTER("hd_svd_packed", none);
    HD_TRY_OR(check_matrices(x, "x"), none);
    const sizes s = sizes_of(x);
    int64_t both = 0;
    if (__builtin_mul_overflow(s.k, s.m + s.n, &both)) {
        hd_fail(HD_ERROR_SHAPE, "x is %s; its singular vectors have no room", HD_SHAPE_TEXT(x->layout.shape));
        return none;
    }
    draft d = draft_of(HD_OP_svd_packed, x, rows(s.batch, s.k));
    add_output(&d, rows(s.batch, both));
    hd_spectrum p;
    p.values = run(thread, &d, &p.vectors);
    return p;
}

hd_tensor *hd_svdvals(hd_tensor *x) {
    HD_ENTER("hd_svdvals", NULL);
    HD_TRY_OR(check_matrices(x, "x"), NULL);
    const sizes s = sizes_of(x);
    const draft d = draft_of(HD_OP_svdvals, x, rows(s.batch, s.k));
    hd_tensor *none;
    return run(thread, &d, &none);
}

hd_tensor *hd_pinv(hd_tensor *x, double cutoff) {
    HD_ENTER("hd_pinv", NULL);
    HD_TRY_OR(check_matrices(x, "x"), NULL);
    HD_TRY_OR(hd_linalg_cutoff(thread, x, &cutoff), NULL);
    const sizes s = sizes_of(x);
    const hd_pinv_attributes attributes = {cutoff};
    draft d = draft_of(HD_OP_pinv, x, matrices(s.batch, s.n, s.m));
    d.attributes = &attributes;
    hd_tensor *none;
    return run(thread, &d, &none);
}

hd_error hd_linalg_cutoff(const hd_thread *thread, const hd_tensor *x, double *cutoff) {
    if (!(*cutoff >= 0 && *cutoff < 1))
        return hd_fail(HD_ERROR_VALUE, "cutoff is %g; it is a part of the largest singular value, in [0, 1)", *cutoff);
    const sizes s = sizes_of(x);
    const double epsilon = hd_float_result(thread, x) == HD_F64 ? 0x1p-52 : 0x1p-23;
    if (*cutoff == 0) *cutoff = (double)(s.m > s.n ? s.m : s.n) * epsilon;
    return HD_OK;
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_cholesky(hd_replay_call *r) {
    r->output = hd_cholesky(r->inputs[0], ((const hd_cholesky_attributes *)r->attributes)->upper != 0);
}

void hd_replay_triangular_solve(hd_replay_call *r) {
    const hd_triangular_attributes *a = r->attributes;
    hd_triangular_opts opts = HD_DEFAULTS(hd_triangular_opts);
    opts.upper = a->upper;
    opts.transpose = a->transpose;
    opts.unit = a->unit;
    opts.right = a->right;
    r->output = hd_triangular_solve(r->inputs[0], r->inputs[1], &opts);
}

void hd_replay_solve(hd_replay_call *r) { r->output = hd_solve(r->inputs[0], r->inputs[1]); }
void hd_replay_inv(hd_replay_call *r) { r->output = hd_inv(r->inputs[0]); }
void hd_replay_eigvalsh(hd_replay_call *r) { r->output = hd_eigvalsh(r->inputs[0]); }
void hd_replay_svdvals(hd_replay_call *r) { r->output = hd_svdvals(r->inputs[0]); }
void hd_replay_lu_factor(hd_replay_call *r) { hd_replay_gives(r, hd_lu_factor(r->inputs[0])); }

void hd_replay_pinv(hd_replay_call *r) {
    r->output = hd_pinv(r->inputs[0], ((const hd_pinv_attributes *)r->attributes)->cutoff);
}

void hd_replay_qr(hd_replay_call *r) {
    const hd_qr_parts p = hd_qr(r->inputs[0]);
    hd_replay_gives(r, (hd_pair){p.q, p.r});
}

void hd_replay_eigh(hd_replay_call *r) {
    const hd_spectrum p = hd_eigh(r->inputs[0]);
    hd_replay_gives(r, (hd_pair){p.values, p.vectors});
}

void hd_replay_svd_packed(hd_replay_call *r) {
    const hd_spectrum p = hd_svd_packed(r->inputs[0]);
    hd_replay_gives(r, (hd_pair){p.values, p.vectors});
}
