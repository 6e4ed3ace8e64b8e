/* Contraction: the matrix product and what is made of it. */
#include "ops/op.h"

static hd_error check_product(const hd_tensor *a, const hd_tensor *b) {
    const hd_shape *x = &a->layout.shape, *y = &b->layout.shape;
    if (x->rank == 0 || y->rank == 0)
        return hd_fail(HD_ERROR_SHAPE, "%s x %s: a scalar has no matrix product; use hd_mul", HD_SHAPE_TEXT(*x),
                       HD_SHAPE_TEXT(*y));
    if (a->dtype == HD_BOOL && b->dtype == HD_BOOL)
        return hd_fail(HD_ERROR_DTYPE, "does not take bool; cast with hd_cast");
    const int64_t inner_a = x->size[x->rank - 1], inner_b = y->size[y->rank > 1 ? y->rank - 2 : 0];
    const bool transposed = y->rank > 1 && inner_a != inner_b && y->size[y->rank - 1] == inner_a;
    return inner_a == inner_b ? HD_OK
                              : hd_fail(HD_ERROR_SHAPE, "%s x %s: inner sizes %lld and %lld differ%s",
                                        HD_SHAPE_TEXT(*x), HD_SHAPE_TEXT(*y), (long long)inner_a, (long long)inner_b,
                                        transposed ? "; did you mean hd_t(b)?" : "");
}

/* a [..., m, k] and b [..., k, n], both of rank >= 2 */
static hd_tensor *matrix_product(hd_thread *thread, hd_tensor *a, hd_tensor *b) {
    hd_shape x = a->layout.shape, y = b->layout.shape, shape;
    const int64_t m = x.size[x.rank - 2], n = y.size[y.rank - 1];
    x.rank -= 2; /* what is in front of the matrices */
    y.rank -= 2;
    HD_TRY_OR(hd_shape_broadcast(&x, &y, &shape), NULL);
    shape.size[shape.rank++] = m;
    shape.size[shape.rank++] = n;
    const hd_dtype dtype = hd_dtype_promote((hd_dtype)a->dtype, (hd_dtype)b->dtype);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_tensor *inputs[2] = {a, b};
    const hd_matmul_attributes attributes = {.precision = hd_call_precision(thread, dtype)};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_matmul], inputs, 2, dtype, &shape,
                 attributes.precision != HD_MATMUL_EXACT ? &attributes : NULL);
    return hd_execute(thread, &call);
}

hd_tensor *hd_matmul(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_matmul", NULL);
    HD_TRY_OR(hd_tensor_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    HD_TRY_OR(check_product(a, b), NULL);
    const bool row = a->layout.shape.rank == 1, column = b->layout.shape.rank == 1;
    if (!row && !column) return matrix_product(thread, a, b);
    hd_span span;
    hd_span_begin(&span, thread, "matmul");
    hd_tensor *left = row ? hd_unsqueeze(a, 0) : a, *right = column ? hd_unsqueeze(b, 1) : b;
    hd_tensor *product = left != NULL && right != NULL ? matrix_product(thread, left, right) : NULL;
    if (product != NULL && column) product = hd_squeeze(product, HD_AXES(-1));
    if (product != NULL && row) product = hd_squeeze(product, HD_AXES(column ? -1 : -2));
    return hd_span_end(&span, product);
}

hd_tensor *hd_affine(hd_tensor *x, hd_tensor *weight, hd_tensor *bias) {
    HD_ENTER("hd_affine", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_tensor_check(weight, "weight"), NULL);
    if (bias != NULL) HD_TRY_OR(hd_tensor_check(bias, "bias"), NULL);
    const hd_shape *w = &weight->layout.shape, *in = &x->layout.shape;
    if (w->rank != 2 || in->rank < 1 || in->size[in->rank - 1] != w->size[1]) {
        hd_fail(HD_ERROR_SHAPE, "x %s and weight %s: weight is [out, in], and the last axis of x has size in",
                HD_SHAPE_TEXT(*in), HD_SHAPE_TEXT(*w));
        return NULL;
    }
    if (bias != NULL && (bias->layout.shape.rank != 1 || bias->layout.shape.size[0] != w->size[0])) {
        hd_fail(HD_ERROR_SHAPE, "bias %s for weight %s; it must be [%lld]", HD_SHAPE_TEXT(bias->layout.shape),
                HD_SHAPE_TEXT(*w), (long long)w->size[0]);
        return NULL;
    }
    hd_dtype dtype = hd_dtype_promote((hd_dtype)x->dtype, (hd_dtype)weight->dtype);
    if (bias != NULL) dtype = hd_dtype_promote(dtype, (hd_dtype)bias->dtype);
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats", hd_dtype_name(dtype));
        return NULL;
    }
    hd_shape shape = *in;
    shape.size[shape.rank - 1] = w->size[0];
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_tensor *inputs[3] = {x, weight, bias};
    const hd_affine_attributes attributes = {.precision = hd_call_precision(thread, dtype)};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_affine], inputs, bias != NULL ? 3 : 2, dtype, &shape,
                 attributes.precision != HD_MATMUL_EXACT ? &attributes : NULL);
    return hd_execute(thread, &call);
}

hd_tensor *hd_dot(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_dot", NULL);
    HD_TRY_OR(hd_tensor_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    if (a->layout.shape.rank != 1 || b->layout.shape.rank != 1) {
        hd_fail(HD_ERROR_SHAPE, "%s and %s; both must be vectors [n]", HD_SHAPE_TEXT(a->layout.shape),
                HD_SHAPE_TEXT(b->layout.shape));
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "dot");
    return hd_span_end(&span, hd_matmul(a, b));
}

hd_tensor *hd_outer(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_outer", NULL);
    HD_TRY_OR(hd_tensor_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    if (a->layout.shape.rank != 1 || b->layout.shape.rank != 1) {
        hd_fail(HD_ERROR_SHAPE, "%s and %s; both must be vectors", HD_SHAPE_TEXT(a->layout.shape),
                HD_SHAPE_TEXT(b->layout.shape));
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "outer");
    return hd_span_end(&span, hd_mul(hd_unsqueeze(a, 1), b));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* All axes but the last as one. */
static hd_tensor *as_rows(hd_tensor *t) {
    if (t == NULL || t->layout.shape.rank == 2) return t;
    const int64_t columns = t->layout.shape.size[t->layout.shape.rank - 1];
    return hd_reshape(t, HD_SHAPE(columns > 0 ? t->count / columns : 0, columns));
}

void hd_vjp_matmul(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    hd_tensor *g = v->gradient;
    if (v->wanted[0]) {
        hd_tensor *d = hd_gradient_to_shape(hd_matmul(g, hd_t(v->inputs[1])), &v->shapes[0]);
        v->results[0] = hd_cast(d, (hd_dtype)v->dtypes[0]);
    }
    if (v->wanted[1]) {
        /* many matrices times one: their rows are one tall matrix */
        const bool tall = v->shapes[1].rank == 2 && v->shapes[0].rank > 2 &&
                          v->shapes[0].size[v->shapes[0].rank - 1] > 0 && v->shapes[1].size[1] > 0;
        hd_tensor *a = tall ? as_rows(v->inputs[0]) : v->inputs[0];
        hd_tensor *d = hd_matmul(hd_t(a), tall ? as_rows(g) : g);
        v->results[1] = hd_cast(hd_gradient_to_shape(d, &v->shapes[1]), (hd_dtype)v->dtypes[1]);
    }
}

void hd_vjp_affine(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    hd_tensor *g = v->gradient;
    const hd_shape *x = &v->shapes[0], *w = &v->shapes[1];
    const bool empty = w->size[0] == 0 || w->size[1] == 0; /* as_rows could not tell the number of rows */
    if (v->wanted[0]) v->results[0] = hd_cast(hd_matmul(g, v->inputs[1]), (hd_dtype)v->dtypes[0]);
    if (v->wanted[1]) {
        hd_tensor *d = empty ? hd_full_beside(g, *w, (hd_dtype)v->dtypes[1], 0)
                             : hd_matmul(hd_t(as_rows(g)), x->rank == 2 ? v->inputs[0] : as_rows(v->inputs[0]));
        v->results[1] = hd_cast(d, (hd_dtype)v->dtypes[1]);
    }
    if (v->input_count == 3 && v->wanted[2]) {
        hd_tensor *d = hd_gradient_to_shape(g, &v->shapes[2]);
        v->results[2] = hd_cast(d, (hd_dtype)v->dtypes[2]);
    }
}

int hd_attributes_precision(hd_op_id id, const void *attributes) {
    if (attributes == NULL) return HD_MATMUL_EXACT;
    const int kind = hd_ops[id].lower;
    return kind == HD_LOWER_MATMUL               ? ((const hd_matmul_attributes *)attributes)->precision
           : kind == HD_LOWER_AFFINE             ? ((const hd_affine_attributes *)attributes)->precision
           : hd_ops[id].family == HD_FAMILY_CONV ? ((const hd_conv_attributes *)attributes)->precision
                                                 : (int)HD_MATMUL_EXACT;
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
/* The first two operands: a product that says a wider dtype than theirs is one of casts. False: an error. */
static bool replayed_operands(const hd_replay_call *r, hd_tensor *operand[2]) {
    hd_dtype given = hd_dtype_promote((hd_dtype)r->inputs[0]->dtype, (hd_dtype)r->inputs[1]->dtype);
    if (r->input_count > 2) given = hd_dtype_promote(given, (hd_dtype)r->inputs[2]->dtype);
    for (int i = 0; i < 2; ++i)
        operand[i] = given != r->dtype && hd_product_widens((hd_dtype)r->inputs[i]->dtype, r->dtype)
                         ? hd_cast(r->inputs[i], r->dtype)
                         : r->inputs[i];
    return operand[0] != NULL && operand[1] != NULL;
}

void hd_replay_matmul(hd_replay_call *r) {
    const hd_matmul_attributes *given = r->attributes;
    hd_tensor *operand[2];
    if (!replayed_operands(r, operand)) return;
    if (given != NULL && given->transpose_a) operand[0] = hd_t(operand[0]);
    if (given != NULL && given->transpose_b) operand[1] = hd_t(operand[1]);
    if (operand[0] != NULL && operand[1] != NULL) r->output = hd_matmul(operand[0], operand[1]);
}
void hd_replay_affine(hd_replay_call *r) {
    hd_tensor *operand[2];
    if (replayed_operands(r, operand)) r->output = hd_affine(operand[0], operand[1], hd_replay_input(r, 2));
}
