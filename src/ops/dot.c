/* Contractions over any axes, made of the matrix product: operands are seen as matrices, which takes no copy where
 * their strides allow. */
#include "ops/op.h"

/* An operand: its axes in the groups that the call names, and those that are left, in order. */
typedef struct side {
    hd_tensor *t;
    const char *name;
    hd_axes batch, summed, free;
} side;

static void append(hd_axes *to, const hd_axes *more) {
    for (int i = 0; i < more->count; ++i) to->axis[to->count++] = more->axis[i];
}

static int64_t size_of_group(const side *s, const hd_axes *group) {
    int64_t size = 1;
    for (int i = 0; i < group->count; ++i) size *= s->t->layout.shape.size[group->axis[i]];
    return size;
}

/* ---- axes by group ----------------------------------------------------------------------------------------------- */
/* None is none here, and not all. */
static hd_error resolve_group(const side *s, hd_axes given, bool *taken, hd_axes *out) {
    const hd_shape *shape = &s->t->layout.shape;
    bool chosen[HD_MAX_RANK];
    *out = (hd_axes){.count = 0};
    if (given.count == 0) return HD_OK;
    HD_TRY(hd_axes_resolve(given, shape->rank, chosen));
    for (int i = 0; i < given.count; ++i) {
        int axis = 0;
        HD_TRY(hd_axis_resolve(given.axis[i], shape->rank, &axis));
        if (taken[axis])
            return hd_fail(HD_ERROR_AXIS, "axis %d of %s %s is contracted and a batch axis; it can be one of them",
                           axis, s->name, HD_SHAPE_TEXT(*shape));
        taken[axis] = true;
        out->axis[out->count++] = axis;
    }
    return HD_OK;
}

static hd_error describe_side(hd_tensor *t, const char *name, hd_axes contracting, hd_axes batch, side *s) {
    *s = (side){.t = t, .name = name};
    HD_TRY(hd_tensor_check(t, name));
    bool taken[HD_MAX_RANK] = {false};
    HD_TRY(resolve_group(s, contracting, taken, &s->summed));
    HD_TRY(resolve_group(s, batch, taken, &s->batch));
    for (int i = 0; i < t->layout.shape.rank; ++i)
        if (!taken[i]) s->free.axis[s->free.count++] = i;
    return HD_OK;
}

static hd_error check_pairs(const side *a, const hd_axes *of_a, const side *b, const hd_axes *of_b, const char *what) {
    const hd_shape *x = &a->t->layout.shape, *y = &b->t->layout.shape;
    if (of_a->count != of_b->count)
        return hd_fail(HD_ERROR_AXIS, "%d %s axes of %s %s and %d of %s %s; they are paired, so give as many of each",
                       of_a->count, what, a->name, HD_SHAPE_TEXT(*x), of_b->count, b->name, HD_SHAPE_TEXT(*y));
    for (int i = 0; i < of_a->count; ++i)
        if (x->size[of_a->axis[i]] != y->size[of_b->axis[i]])
            return hd_fail(HD_ERROR_SHAPE, "%s axis %d of %s %s has size %lld, and axis %d of %s %s, its pair, %lld",
                           what, of_a->axis[i], a->name, HD_SHAPE_TEXT(*x), (long long)x->size[of_a->axis[i]],
                           of_b->axis[i], b->name, HD_SHAPE_TEXT(*y), (long long)y->size[of_b->axis[i]]);
    return HD_OK;
}

/* Batch axes, then those of a that are left, then those of b. */
static hd_error shape_of_result(const side *a, const side *b, hd_shape *shape) {
    const int rank = a->batch.count + a->free.count + b->free.count;
    if (rank > HD_MAX_RANK)
        return hd_fail(HD_ERROR_SHAPE, "%s and %s make a result of %d axes; the most there can be is %d",
                       HD_SHAPE_TEXT(a->t->layout.shape), HD_SHAPE_TEXT(b->t->layout.shape), rank, HD_MAX_RANK);
    *shape = (hd_shape){.rank = 0};
    for (int i = 0; i < a->batch.count; ++i) shape->size[shape->rank++] = a->t->layout.shape.size[a->batch.axis[i]];
    for (int i = 0; i < a->free.count; ++i) shape->size[shape->rank++] = a->t->layout.shape.size[a->free.axis[i]];
    for (int i = 0; i < b->free.count; ++i) shape->size[shape->rank++] = b->t->layout.shape.size[b->free.axis[i]];
    int64_t count;
    const hd_dtype dtype = hd_dtype_promote((hd_dtype)a->t->dtype, (hd_dtype)b->t->dtype);
    return hd_shape_check(shape, hd_dtype_bytes[dtype], &count);
}

/* ---- operands as matrices ---------------------------------------------------------------------------------------- */
/* The axes in the order of the product, [batch, rows, columns], and the shape in which each of the last two groups is
 * one axis; the batch axes stay apart, unless that would be too many. */
static void matrix_form(const side *s, bool is_left, hd_axes *order, hd_shape *shape) {
    const hd_axes *rows = is_left ? &s->free : &s->summed, *columns = is_left ? &s->summed : &s->free;
    *order = s->batch;
    append(order, rows);
    append(order, columns);
    *shape = (hd_shape){.rank = 0};
    if (s->batch.count + 2 <= HD_MAX_RANK)
        for (int i = 0; i < s->batch.count; ++i) shape->size[shape->rank++] = s->t->layout.shape.size[s->batch.axis[i]];
    else
        shape->size[shape->rank++] = size_of_group(s, &s->batch);
    shape->size[shape->rank++] = size_of_group(s, rows);
    shape->size[shape->rank++] = size_of_group(s, columns);
}

static bool is_in_order(const hd_axes *order) {
    for (int i = 0; i < order->count; ++i)
        if (order->axis[i] != i) return false;
    return true;
}

static hd_tensor *seen_as(hd_tensor *t, const hd_axes *order, const hd_shape *shape) {
    hd_tensor *turned = is_in_order(order) ? t : hd_permute(t, *order);
    if (turned == NULL || hd_shape_equal(turned->layout.shape, *shape)) return turned;
    return hd_reshape(turned, *shape);
}

static hd_tensor *as_matrices(const side *s, bool is_left) {
    hd_axes order;
    hd_shape shape;
    matrix_form(s, is_left, &order, &shape);
    return seen_as(s->t, &order, &shape);
}

/* How many elements are copied to see an operand as matrices. */
static int64_t copied(const side *s, bool is_left) {
    hd_axes_attributes turn;
    hd_shape_attributes merge;
    hd_layout turned, merged;
    matrix_form(s, is_left, &turn.axes, &merge.shape);
    hd_view_layout(HD_OP_permute, &turn, &s->t->layout, &turned);
    return hd_view_layout(HD_OP_reshape, &merge, &turned, &merged) ? 0 : s->t->count;
}

/* The pairs of contracted axes in the order in which those of `by` lie in memory. */
static void order_pairs(side *by, side *other) {
    const int64_t *stride = by->t->layout.stride;
    int *x = by->summed.axis, *y = other->summed.axis;
    for (int i = 1; i < by->summed.count; ++i)
        for (int k = i; k > 0 && stride[x[k - 1]] < stride[x[k]]; --k) {
            const int axis = x[k], pair = y[k];
            x[k] = x[k - 1], y[k] = y[k - 1];
            x[k - 1] = axis, y[k - 1] = pair;
        }
}

/* A sum does not mind in which order its axes are merged: as given, as they lie in a, or as in b, whatever copies
 * least. */
static void choose_order(side *a, side *b) {
    if (a->summed.count < 2) return;
    side x = *a, y = *b;
    int64_t least = copied(a, true) + copied(b, false);
    for (int way = 0; way < 2 && least > 0; ++way) {
        order_pairs(way == 0 ? &x : &y, way == 0 ? &y : &x);
        const int64_t cost = copied(&x, true) + copied(&y, false);
        if (cost < least) {
            least = cost;
            a->summed = x.summed;
            b->summed = y.summed;
        }
    }
}

/* Without a sum: every pair of elements, of one batch. */
static hd_tensor *pairs_of(const side *a, const side *b, const hd_shape *result) {
    hd_axes order_a = a->batch, order_b = b->batch;
    append(&order_a, &a->free);
    append(&order_b, &b->free);
    hd_shape left = *result, right = *result;
    for (int i = 0; i < result->rank; ++i) {
        if (i >= a->batch.count + a->free.count) left.size[i] = 1;
        if (i >= b->batch.count && i < b->batch.count + a->free.count) right.size[i] = 1;
    }
    return hd_mul(seen_as(a->t, &order_a, &left), seen_as(b->t, &order_b, &right));
}

static hd_tensor *contract(side *a, side *b, const hd_shape *result) {
    if (a->summed.count == 0) return pairs_of(a, b, result);
    choose_order(a, b);
    hd_tensor *product = hd_matmul(as_matrices(a, true), as_matrices(b, false));
    if (product == NULL || hd_shape_equal(product->layout.shape, *result)) return product;
    return hd_reshape(product, *result);
}

hd_tensor *hd_dot_general(hd_tensor *a, hd_tensor *b, hd_axes contract_a, hd_axes contract_b, hd_axes batch_a,
                          hd_axes batch_b) {
    HD_ENTER("hd_dot_general", NULL);
    side x, y;
    hd_shape shape;
    HD_TRY_OR(describe_side(a, "a", contract_a, batch_a, &x), NULL);
    HD_TRY_OR(describe_side(b, "b", contract_b, batch_b, &y), NULL);
    HD_TRY_OR(check_pairs(&x, &x.summed, &y, &y.summed, "contracting"), NULL);
    HD_TRY_OR(check_pairs(&x, &x.batch, &y, &y.batch, "batch"), NULL);
    HD_TRY_OR(shape_of_result(&x, &y, &shape), NULL);
    if (a->dtype == HD_BOOL && b->dtype == HD_BOOL) {
        hd_fail(HD_ERROR_DTYPE, "does not take bool; cast with hd_cast");
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "dot_general");
    return hd_span_end(&span, contract(&x, &y, &shape));
}

hd_tensor *hd_tensordot(hd_tensor *a, hd_tensor *b, hd_axes axes_a, hd_axes axes_b) {
    HD_ENTER("hd_tensordot", NULL);
    hd_span span;
    hd_span_begin(&span, thread, "tensordot");
    return hd_span_end(&span, hd_dot_general(a, b, axes_a, axes_b, HD_AXES(), HD_AXES()));
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */
static hd_error check_ranks(hd_tensor *a, const char *name_a, int rank_a, hd_tensor *b, const char *name_b,
                            int rank_b) {
    HD_TRY(hd_tensor_check(a, name_a));
    HD_TRY(hd_tensor_check(b, name_b));
    const hd_shape *x = &a->layout.shape, *y = &b->layout.shape;
    if (x->rank == rank_a && y->rank == rank_b) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "%s %s and %s %s; their ranks must be %d and %d", name_a, HD_SHAPE_TEXT(*x), name_b,
                   HD_SHAPE_TEXT(*y), rank_a, rank_b);
}

static hd_error check_batches(const hd_tensor *a, const hd_tensor *b) {
    const hd_shape *x = &a->layout.shape, *y = &b->layout.shape;
    if (x->size[0] == y->size[0]) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE,
                   "a %s and b %s: %lld and %lld matrices; as many of each, or hd_matmul, which broadcasts",
                   HD_SHAPE_TEXT(*x), HD_SHAPE_TEXT(*y), (long long)x->size[0], (long long)y->size[0]);
}

hd_tensor *hd_bmm(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_bmm", NULL);
    HD_TRY_OR(check_ranks(a, "a", 3, b, "b", 3), NULL);
    HD_TRY_OR(check_batches(a, b), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "bmm");
    return hd_span_end(&span, hd_matmul(a, b));
}

hd_tensor *hd_mv(hd_tensor *a, hd_tensor *x) {
    HD_ENTER("hd_mv", NULL);
    HD_TRY_OR(check_ranks(a, "a", 2, x, "x", 1), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "mv");
    return hd_span_end(&span, hd_matmul(a, x));
}

/* beta c + alpha (a b), in the dtype that all three meet in. */
static hd_tensor *add_product(hd_tensor *c, hd_tensor *a, hd_tensor *b, double beta, double alpha) {
    hd_tensor *product = hd_matmul(a, b);
    if (product == NULL) return NULL;
    hd_shape shape;
    HD_TRY_OR(hd_shape_broadcast(&c->layout.shape, &product->layout.shape, &shape), NULL);
    if (!hd_shape_equal(shape, product->layout.shape)) {
        hd_fail(HD_ERROR_SHAPE, "c %s does not broadcast to the product's %s", HD_SHAPE_TEXT(c->layout.shape),
                HD_SHAPE_TEXT(product->layout.shape));
        return NULL;
    }
    if (alpha != 1) product = hd_mul_scalar(product, alpha);
    if (product == NULL || beta != 0) return hd_add(beta == 1 ? c : hd_mul_scalar(c, beta), product);
    return hd_cast(product, hd_dtype_promote((hd_dtype)c->dtype, (hd_dtype)product->dtype));
}

hd_tensor *hd_addmm(hd_tensor *c, hd_tensor *a, hd_tensor *b, double beta, double alpha) {
    HD_ENTER("hd_addmm", NULL);
    HD_TRY_OR(hd_tensor_check(c, "c"), NULL);
    HD_TRY_OR(check_ranks(a, "a", 2, b, "b", 2), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "addmm");
    return hd_span_end(&span, add_product(c, a, b, beta, alpha));
}

hd_tensor *hd_baddbmm(hd_tensor *c, hd_tensor *a, hd_tensor *b, double beta, double alpha) {
    HD_ENTER("hd_baddbmm", NULL);
    HD_TRY_OR(hd_tensor_check(c, "c"), NULL);
    HD_TRY_OR(check_ranks(a, "a", 3, b, "b", 3), NULL);
    HD_TRY_OR(check_batches(a, b), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "baddbmm");
    return hd_span_end(&span, add_product(c, a, b, beta, alpha));
}

/* ---- other products ---------------------------------------------------------------------------------------------- */
/* Sizes from the last axis back; 1 in front. */
static int64_t size_from_back(const hd_shape *shape, int rank, int axis) {
    const int at = axis - (rank - shape->rank);
    return at < 0 ? 1 : shape->size[at];
}

/* The axes of a and b side by side, one axis where either has size 1: they multiply as they are. False: there is no
 * room for so many. */
static bool side_by_side(const hd_shape *a, const hd_shape *b, int rank, hd_shape *left, hd_shape *right) {
    *left = *right = (hd_shape){.rank = 0};
    for (int i = 0; i < rank; ++i) {
        const int64_t m = size_from_back(a, rank, i), n = size_from_back(b, rank, i);
        const bool both = m != 1 && n != 1;
        if (left->rank + 1 + both > HD_MAX_RANK) return false;
        left->size[left->rank++] = m;
        if (both) left->size[left->rank++] = 1;
        if (both) right->size[right->rank++] = 1;
        right->size[right->rank++] = n;
    }
    return true;
}

/* Each element of a as often as b has elements on the axis, b as a whole as often as a has. */
static hd_tensor *stretched_product(hd_tensor *a, hd_tensor *b, hd_shape m, hd_shape n) {
    hd_tensor *x = hd_reshape(a, m);
    for (int i = 0; i < m.rank && x != NULL; ++i)
        if (n.size[i] != 1) x = hd_repeat_interleave(x, n.size[i], i);
    return hd_mul(x, hd_tile(hd_reshape(b, n), m));
}

hd_tensor *hd_kron(hd_tensor *a, hd_tensor *b) {
    HD_ENTER("hd_kron", NULL);
    HD_TRY_OR(hd_tensor_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    const hd_shape *x = &a->layout.shape, *y = &b->layout.shape;
    const int rank = x->rank > y->rank ? x->rank : y->rank;
    hd_shape m = {.rank = rank}, n = {.rank = rank}, result = {.rank = rank}, left, right;
    for (int i = 0; i < rank; ++i) {
        m.size[i] = size_from_back(x, rank, i);
        n.size[i] = size_from_back(y, rank, i);
        if (__builtin_mul_overflow(m.size[i], n.size[i], &result.size[i])) {
            hd_fail(HD_ERROR_OVERFLOW, "axis %d of %s and %s together is longer than 64 bits can count", i,
                    HD_SHAPE_TEXT(*x), HD_SHAPE_TEXT(*y));
            return NULL;
        }
    }
    int64_t count;
    HD_TRY_OR(hd_shape_check(&result, hd_dtype_bytes[hd_dtype_promote((hd_dtype)a->dtype, (hd_dtype)b->dtype)], &count),
              NULL);
    hd_span span;
    hd_span_begin(&span, thread, "kron");
    const bool fits = side_by_side(x, y, rank, &left, &right);
    hd_tensor *product = fits ? hd_mul(hd_reshape(a, left), hd_reshape(b, right)) : stretched_product(a, b, m, n);
    return hd_span_end(&span, fits ? hd_reshape(product, result) : product);
}

static hd_error check_bilinear(hd_tensor *x1, hd_tensor *x2, hd_tensor *weight) {
    HD_TRY(hd_tensor_check(x1, "x1"));
    HD_TRY(hd_tensor_check(x2, "x2"));
    HD_TRY(hd_tensor_check(weight, "weight"));
    const hd_shape *x = &x1->layout.shape, *y = &x2->layout.shape, *w = &weight->layout.shape;
    bool fits = w->rank == 3 && x->rank > 0 && x->rank == y->rank && x->size[x->rank - 1] == w->size[1] &&
                y->size[y->rank - 1] == w->size[2];
    for (int i = 0; i + 1 < x->rank && fits; ++i) fits = x->size[i] == y->size[i];
    return fits
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE,
                         "x1 %s, x2 %s and weight %s: weight is [out,i,j], the last axes of x1 and x2 have sizes i and "
                         "j, and the axes in front are the same",
                         HD_SHAPE_TEXT(*x), HD_SHAPE_TEXT(*y), HD_SHAPE_TEXT(*w));
}

hd_tensor *hd_bilinear(hd_tensor *x1, hd_tensor *x2, hd_tensor *weight, hd_tensor *bias) {
    HD_ENTER("hd_bilinear", NULL);
    HD_TRY_OR(check_bilinear(x1, x2, weight), NULL);
    if (bias != NULL) HD_TRY_OR(hd_tensor_check(bias, "bias"), NULL);
    const hd_shape *w = &weight->layout.shape;
    hd_shape shape = x1->layout.shape;
    int64_t rows = 1;
    for (int i = 0; i + 1 < shape.rank; ++i) rows *= shape.size[i];
    shape.size[shape.rank - 1] = w->size[0];
    hd_span span;
    hd_span_begin(&span, thread, "bilinear");
    hd_tensor *left = hd_reshape(x1, HD_SHAPE(rows, w->size[1], 1)),
              *right = hd_reshape(x2, HD_SHAPE(rows, 1, w->size[2]));
    hd_tensor *pairs = hd_reshape(hd_mul(left, right), HD_SHAPE(rows, w->size[1] * w->size[2]));
    hd_tensor *flat = hd_reshape(weight, HD_SHAPE(w->size[0], w->size[1] * w->size[2]));
    return hd_span_end(&span, hd_reshape(hd_affine(pairs, flat, bias), shape));
}

hd_tensor *hd_cross(hd_tensor *a, hd_tensor *b, int axis) {
    HD_ENTER("hd_cross", NULL);
    HD_TRY_OR(hd_tensor_check(a, "a"), NULL);
    HD_TRY_OR(hd_tensor_check(b, "b"), NULL);
    const hd_shape *x = &a->layout.shape, *y = &b->layout.shape;
    hd_shape shape;
    HD_TRY_OR(hd_shape_broadcast(x, y, &shape), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, shape.rank, &axis), NULL);
    if (size_from_back(x, shape.rank, axis) != 3 || size_from_back(y, shape.rank, axis) != 3) {
        hd_fail(HD_ERROR_SHAPE, "%s and %s on axis %d of the result; both must have size 3 there", HD_SHAPE_TEXT(*x),
                HD_SHAPE_TEXT(*y), axis);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "cross");
    hd_tensor *p[3], *q[3], *parts[3];
    for (int i = 0; i < 3; ++i) {
        p[i] = hd_narrow(a, axis - shape.rank, i, 1);
        q[i] = hd_narrow(b, axis - shape.rank, i, 1);
    }
    for (int i = 0; i < 3; ++i) {
        const int j = (i + 1) % 3, k = (i + 2) % 3;
        parts[i] = hd_sub(hd_mul(p[j], q[k]), hd_mul(p[k], q[j]));
    }
    return hd_span_end(&span, hd_concat(parts, 3, axis));
}
