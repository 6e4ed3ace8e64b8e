/* Indexing ops: shapes and dtypes of indices; the indices themselves are checked where they are read. */
#include "ops/op.h"

static hd_error check_index(const hd_tensor *index) {
    HD_TRY(hd_tensor_check(index, "index"));
    if (!hd_dtype_is_integer((hd_dtype)index->dtype))
        return hd_fail(HD_ERROR_DTYPE, "the index is %s; it must be an integer tensor",
                       hd_dtype_name((hd_dtype)index->dtype));
    return HD_OK;
}

/* For gather and scatter: one index per element, within x on the other axes. */
static hd_error check_element_index(const hd_tensor *x, const hd_tensor *index, int axis) {
    const hd_shape *a = &x->layout.shape, *b = &index->layout.shape;
    bool fits = a->rank == b->rank;
    for (int i = 0; i < a->rank && fits; ++i) fits = i == axis || b->size[i] <= a->size[i];
    return fits ? HD_OK
                : hd_fail(HD_ERROR_SHAPE,
                          "the index %s does not fit %s: the same rank, and no size larger beside axis %d",
                          HD_SHAPE_TEXT(*b), HD_SHAPE_TEXT(*a), axis);
}

hd_tensor *hd_gather(hd_tensor *x, int axis, hd_tensor *index) {
    HD_ENTER("hd_gather", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    HD_TRY_OR(check_element_index(x, index, axis), NULL);
    const hd_axis_attributes attributes = {axis};
    hd_tensor *inputs[2] = {x, index};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_gather], inputs, 2, (hd_dtype)x->dtype, &index->layout.shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_scatter(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source, hd_scatter_mode mode) {
    HD_ENTER("hd_scatter", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    HD_TRY_OR(hd_tensor_check(source, "source"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    HD_TRY_OR(check_element_index(x, index, axis), NULL);
    if (mode < HD_SCATTER_SET || mode > HD_SCATTER_MIN) {
        hd_fail(HD_ERROR_VALUE, "%d is none of the modes HD_SCATTER_*", (int)mode);
        return NULL;
    }
    if (!hd_shape_equal(source->layout.shape, index->layout.shape)) {
        hd_fail(HD_ERROR_SHAPE, "source %s and index %s differ", HD_SHAPE_TEXT(source->layout.shape),
                HD_SHAPE_TEXT(index->layout.shape));
        return NULL;
    }
    if (source->dtype != x->dtype) {
        hd_fail(HD_ERROR_DTYPE, "source is %s and x %s; cast one of them", hd_dtype_name((hd_dtype)source->dtype),
                hd_dtype_name((hd_dtype)x->dtype));
        return NULL;
    }
    const hd_scatter_attributes attributes = {axis, mode};
    hd_tensor *inputs[3] = {x, index, source};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_scatter], inputs, 3, (hd_dtype)x->dtype, &x->layout.shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_index_select(hd_tensor *x, int axis, hd_tensor *index) {
    HD_ENTER("hd_index_select", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    if (index->layout.shape.rank != 1) {
        hd_fail(HD_ERROR_SHAPE, "the index is %s; it must have one axis", HD_SHAPE_TEXT(index->layout.shape));
        return NULL;
    }
    hd_shape shape = x->layout.shape;
    shape.size[axis] = index->count;
    const hd_axis_attributes attributes = {axis};
    hd_tensor *inputs[2] = {x, index};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_index_select], inputs, 2, (hd_dtype)x->dtype, &shape, &attributes);
    return hd_execute(thread, &call);
}

/* ---- composites -------------------------------------------------------------------------------------------------- */
hd_tensor *hd_take(hd_tensor *x, hd_tensor *index) {
    HD_ENTER("hd_take", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "take");
    return hd_span_end(&span, hd_reshape(hd_index_select(hd_flatten(x), 0, hd_flatten(index)), index->layout.shape));
}

hd_tensor *hd_take_along_axis(hd_tensor *x, int axis, hd_tensor *index) {
    HD_ENTER("hd_take_along_axis", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    hd_shape a = x->layout.shape, b = index->layout.shape, both;
    HD_TRY_OR(hd_axis_resolve(axis, a.rank, &axis), NULL);
    if (a.rank != b.rank) {
        hd_fail(HD_ERROR_SHAPE, "x %s and index %s differ in rank", HD_SHAPE_TEXT(a), HD_SHAPE_TEXT(b));
        return NULL;
    }
    const int64_t of_x = a.size[axis], of_index = b.size[axis];
    a.size[axis] = b.size[axis] = 1;
    HD_TRY_OR(hd_shape_broadcast(&a, &b, &both), NULL);
    a = b = both;
    a.size[axis] = of_x;
    b.size[axis] = of_index;
    hd_span span;
    hd_span_begin(&span, thread, "take_along_axis");
    hd_tensor *wide = hd_broadcast_to(x, a);
    return hd_span_end(&span, hd_gather(wide, axis, hd_broadcast_to(index, b)));
}

/* Slices of source set at an index of one axis, or added there. */
static hd_tensor *put_slices(hd_thread *thread, const char *name, hd_tensor *x, int axis, hd_tensor *index,
                             hd_tensor *source, hd_scatter_mode mode) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_index(index), NULL);
    HD_TRY_OR(hd_tensor_check(source, "source"), NULL);
    const hd_shape *shape = &source->layout.shape;
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    bool fits = index->layout.shape.rank == 1 && shape->rank == x->layout.shape.rank;
    for (int i = 0; i < shape->rank && fits; ++i)
        fits = shape->size[i] == (i == axis ? index->count : x->layout.shape.size[i]);
    if (!fits) {
        hd_fail(HD_ERROR_SHAPE,
                "index %s and source %s for x %s: the index has one axis, and the source x's shape with the index's "
                "size on axis %d",
                HD_SHAPE_TEXT(index->layout.shape), HD_SHAPE_TEXT(*shape), HD_SHAPE_TEXT(x->layout.shape), axis);
        return NULL;
    }
    hd_shape on_axis = {.rank = shape->rank};
    for (int i = 0; i < shape->rank; ++i) on_axis.size[i] = i == axis ? index->count : 1;
    hd_span span;
    hd_span_begin(&span, thread, name);
    hd_tensor *wide = hd_broadcast_to(hd_reshape(index, on_axis), *shape);
    return hd_span_end(&span, hd_scatter(x, axis, wide, source, mode));
}

hd_tensor *hd_index_add(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source) {
    HD_ENTER("hd_index_add", NULL);
    return put_slices(thread, "index_add", x, axis, index, source, HD_SCATTER_ADD);
}

hd_tensor *hd_index_copy(hd_tensor *x, int axis, hd_tensor *index, hd_tensor *source) {
    HD_ENTER("hd_index_copy", NULL);
    return put_slices(thread, "index_copy", x, axis, index, source, HD_SCATTER_SET);
}

hd_tensor *hd_masked_fill(hd_tensor *x, hd_tensor *mask, double value) {
    HD_ENTER("hd_masked_fill", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_tensor_check(mask, "mask"), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "masked_fill");
    return hd_span_end(&span, hd_where(mask, hd_number((hd_dtype)x->dtype, value), x));
}

hd_tensor *hd_one_hot(hd_tensor *index, int64_t classes, hd_dtype dtype) {
    HD_ENTER("hd_one_hot", NULL);
    HD_TRY_OR(check_index(index), NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "one_hot");
    hd_tensor *positions =
        hd_reshape(index, HD_SHAPE(index->count, 1)); /* scattering checks the range of the indices too */
    hd_tensor *rows = hd_scatter(hd_full_beside(index, HD_SHAPE(index->count, classes), dtype, 0), 1, positions,
                                 hd_full_beside(index, HD_SHAPE(index->count, 1), dtype, 1), HD_SCATTER_SET);
    hd_shape shape = index->layout.shape;
    if (shape.rank < HD_MAX_RANK) shape.size[shape.rank] = classes;
    shape.rank++;
    return hd_span_end(&span, shape.rank <= HD_MAX_RANK ? hd_reshape(rows, shape)
                                                        : (hd_fail(HD_ERROR_SHAPE, "no room for another axis"), NULL));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static hd_tensor *zeros_for(const hd_vjp_call *v, int input) {
    return hd_full_beside(v->gradient, v->shapes[input], (hd_dtype)v->dtypes[input], 0);
}

/* Duplicates add up. */
void hd_vjp_gather(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const int axis = ((const hd_axis_attributes *)v->attributes)->axis;
    v->results[0] = hd_scatter(zeros_for(v, 0), axis, v->inputs[1], v->gradient, HD_SCATTER_ADD);
}

void hd_vjp_index_select(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const int axis = ((const hd_axis_attributes *)v->attributes)->axis;
    v->results[0] = hd_index_add(zeros_for(v, 0), axis, v->inputs[1], v->gradient);
}

/* Which places of the source are the last to be set on theirs. */
static hd_tensor *winners(const hd_vjp_call *v, int axis, hd_tensor *index) {
    hd_tensor *number = hd_reshape(hd_range_beside(index, 0, 1, index->count, HD_I64), index->layout.shape);
    hd_tensor *last = hd_scatter(hd_full_beside(index, v->shapes[0], HD_I64, -1), axis, index, number, HD_SCATTER_SET);
    return hd_eq(hd_gather(last, axis, index), number);
}

unsigned hd_scatter_reads(const hd_scatter_attributes *attributes) {
    switch (attributes->mode) {
    case HD_SCATTER_SET:
    case HD_SCATTER_ADD: return HD_SAVE_INPUT1;
    case HD_SCATTER_MUL: return HD_SAVE_INPUT0 | HD_SAVE_INPUT1 | HD_SAVE_INPUT2;
    case HD_SCATTER_MAX:
    case HD_SCATTER_MIN: break;
    }
    return HD_SAVE_ANY;
}

void hd_vjp_scatter(hd_thread *thread, const hd_vjp_call *v) {
    const hd_scatter_attributes *s = v->attributes;
    hd_tensor *index = v->inputs[1], *g = v->gradient, *x = v->inputs[0], *source = v->inputs[2];
    const int axis = s->axis;
    const hd_dtype dtype = (hd_dtype)v->dtypes[0];
    hd_tensor *to_x = NULL, *to_source = NULL;
    switch (s->mode) {
    case HD_SCATTER_SET:
        if (v->wanted[0]) to_x = hd_scatter(g, axis, index, zeros_for(v, 2), HD_SCATTER_SET);
        if (v->wanted[2]) to_source = hd_where(winners(v, axis, index), hd_gather(g, axis, index), zeros_for(v, 2));
        break;
    case HD_SCATTER_ADD:
        to_x = g;
        if (v->wanted[2]) to_source = hd_gather(g, axis, index);
        break;
    case HD_SCATTER_MUL: { /* the product of all others; those that are 0 are counted, not divided by */
        hd_tensor *x_zero = hd_eq_scalar(x, 0), *s_zero = hd_eq_scalar(source, 0), *one = hd_number(dtype, 1);
        hd_tensor *none = hd_number(dtype, 0);
        hd_tensor *x_safe = hd_where(x_zero, one, x), *s_safe = hd_where(s_zero, one, source);
        hd_tensor *product = hd_scatter(x_safe, axis, index, s_safe, HD_SCATTER_MUL);
        hd_tensor *zeros = hd_scatter(hd_cast(x_zero, dtype), axis, index, hd_cast(s_zero, dtype), HD_SCATTER_ADD);
        if (thread->observer != NULL && !thread->executor->captures &&
            hd_item_i64(hd_any(hd_gt_scalar(zeros, 0), HD_AXES(), NULL)) != 0) {
            hd_fail(HD_ERROR_STATE, "hd_scatter with HD_SCATTER_MUL has no second derivative here where a factor is 0");
            return;
        }
        hd_tensor *product_s = hd_gather(product, axis, index), *zeros_s = hd_gather(zeros, axis, index);
        if (v->wanted[0]) {
            hd_tensor *others = hd_where(hd_eq(zeros, hd_cast(x_zero, dtype)), hd_div(product, x_safe), none);
            to_x = hd_mul(g, others);
        }
        if (v->wanted[2]) {
            hd_tensor *others = hd_where(hd_eq(zeros_s, hd_cast(s_zero, dtype)), hd_div(product_s, s_safe), none);
            to_source = hd_mul(hd_gather(g, axis, index), others);
        }
        break;
    }
    case HD_SCATTER_MAX:
    case HD_SCATTER_MIN: { /* shared evenly among those that are the result */
        hd_tensor *y = hd_detach(v->output);
        hd_tensor *from_x = hd_cast(hd_eq(x, y), dtype);
        hd_tensor *from_source = hd_cast(hd_eq(source, hd_gather(y, axis, index)), dtype);
        hd_tensor *share = hd_div(g, hd_scatter(from_x, axis, index, from_source, HD_SCATTER_ADD));
        if (v->wanted[0]) to_x = hd_mul(share, from_x);
        if (v->wanted[2]) to_source = hd_mul(hd_gather(share, axis, index), from_source);
        break;
    }
    }
    if (v->wanted[0]) v->results[0] = to_x;
    if (v->wanted[2]) v->results[2] = to_source;
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_gather(hd_replay_call *r) {
    r->output = hd_gather(r->inputs[0], ((const hd_axis_attributes *)r->attributes)->axis, r->inputs[1]);
}
void hd_replay_index_select(hd_replay_call *r) {
    r->output = hd_index_select(r->inputs[0], ((const hd_axis_attributes *)r->attributes)->axis, r->inputs[1]);
}
void hd_replay_scatter(hd_replay_call *r) {
    const hd_scatter_attributes *a = r->attributes;
    r->output = hd_scatter(r->inputs[0], a->axis, r->inputs[1], r->inputs[2], a->mode);
}

hd_shape hd_positions_shape(const hd_tensor *index, int axis) {
    const hd_layout *l = &index->layout;
    hd_shape shape = {.rank = axis + 1};
    for (int i = axis + 1; i < l->shape.rank; ++i)
        if (l->shape.size[i] != 1 && (l->stride[i] != 0 || index->count == 0)) return l->shape;
    for (int i = 0; i <= axis; ++i) shape.size[i] = l->shape.size[i];
    return shape;
}
