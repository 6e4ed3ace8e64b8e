/* Movement: ops that copy elements to new places. */
#include "ops/op.h"

static hd_tensor *copy_of(hd_thread *thread, hd_tensor *x) {
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_contiguous], &x, 1, (hd_dtype)x->dtype, &x->layout.shape, NULL);
    return hd_execute(thread, &call);
}

hd_tensor *hd_contiguous(hd_tensor *x) {
    HD_ENTER("hd_contiguous", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return x->contiguous ? x : copy_of(thread, x);
}

hd_tensor *hd_copy(hd_tensor *x) {
    HD_ENTER("hd_copy", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return copy_of(thread, x);
}

/* ---- one behind the other ---------------------------------------------------------------------------------------- */
static hd_error check_list(hd_tensor *const *tensors, int count) {
    if (tensors == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`tensors` is NULL");
    if (count < 1 || count > HD_MAX_INPUTS)
        return hd_fail(HD_ERROR_VALUE, "%d tensors; 1 to %d can be joined at once", count, (int)HD_MAX_INPUTS);
    return hd_tensor_check_all(tensors, count, "tensors");
}

hd_tensor *hd_concat(hd_tensor *const *tensors, int count, int axis) {
    HD_ENTER("hd_concat", NULL);
    HD_TRY_OR(check_list(tensors, count), NULL);
    hd_shape shape = tensors[0]->layout.shape;
    hd_dtype dtype = (hd_dtype)tensors[0]->dtype;
    HD_TRY_OR(hd_axis_resolve(axis, shape.rank, &axis), NULL);
    for (int i = 1; i < count; ++i) {
        const hd_shape *other = &tensors[i]->layout.shape;
        bool fits = other->rank == shape.rank;
        for (int k = 0; k < shape.rank && fits; ++k) fits = k == axis || other->size[k] == shape.size[k];
        if (!fits) {
            hd_fail(HD_ERROR_SHAPE, "%s and %s (tensor %d) differ beside axis %d",
                    HD_SHAPE_TEXT(tensors[0]->layout.shape), HD_SHAPE_TEXT(*other), i, axis);
            return NULL;
        }
        if (__builtin_add_overflow(shape.size[axis], other->size[axis], &shape.size[axis])) {
            hd_fail(HD_ERROR_OVERFLOW, "axis %d of the result would be longer than 64 bits can count", axis);
            return NULL;
        }
        dtype = hd_dtype_promote(dtype, (hd_dtype)tensors[i]->dtype);
    }
    const hd_axis_attributes attributes = {axis};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_concat], tensors, count, dtype, &shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_stack(hd_tensor *const *tensors, int count, int axis) {
    HD_ENTER("hd_stack", NULL);
    HD_TRY_OR(check_list(tensors, count), NULL);
    for (int i = 1; i < count; ++i)
        if (!hd_shape_equal(tensors[0]->layout.shape, tensors[i]->layout.shape)) {
            hd_fail(HD_ERROR_SHAPE, "%s and %s (tensor %d) differ; stacked tensors have one shape",
                    HD_SHAPE_TEXT(tensors[0]->layout.shape), HD_SHAPE_TEXT(tensors[i]->layout.shape), i);
            return NULL;
        }
    hd_span span;
    hd_span_begin(&span, thread, "stack");
    hd_tensor *with_axis[HD_MAX_INPUTS];
    for (int i = 0; i < count; ++i) with_axis[i] = hd_unsqueeze(tensors[i], axis);
    return hd_span_end(&span, thread->error_code == HD_OK ? hd_concat(with_axis, count, axis) : NULL);
}

/* ---- padding ----------------------------------------------------------------------------------------------------- */
/* padding[] is for the last `count` axes; spread it over all of them. */
static hd_error spread_padding(const hd_tensor *x, const hd_padding *padding, int count, hd_padding out[HD_MAX_RANK]) {
    const int rank = x->layout.shape.rank;
    if (padding == NULL && count > 0) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`padding` is NULL");
    if (count < 0 || count > rank)
        return hd_fail(HD_ERROR_AXIS, "padding for %d axes of %s, which has %d", count, HD_SHAPE_TEXT(x->layout.shape),
                       rank);
    for (int i = 0; i < HD_MAX_RANK; ++i) out[i] = (hd_padding){0, 0};
    for (int i = 0; i < count; ++i) out[rank - count + i] = padding[i];
    return HD_OK;
}

hd_tensor *hd_pad(hd_tensor *x, const hd_padding *padding, int count, double value) {
    HD_ENTER("hd_pad", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    hd_pad_attributes attributes = {.value = value};
    HD_TRY_OR(hd_number_check((hd_dtype)x->dtype, value), NULL);
    HD_TRY_OR(spread_padding(x, padding, count, attributes.padding), NULL);
    hd_shape shape = x->layout.shape;
    for (int i = 0; i < shape.rank; ++i) {
        const hd_padding p = attributes.padding[i];
        int64_t size = 0;
        const bool overflow =
            __builtin_add_overflow(shape.size[i], p.before, &size) || __builtin_add_overflow(size, p.after, &size);
        if (overflow || size < 0 || p.before < -shape.size[i] || p.after < -shape.size[i]) {
            hd_fail(HD_ERROR_SHAPE, "padding (%lld, %lld) does not fit axis %d of %s", (long long)p.before,
                    (long long)p.after, i, HD_SHAPE_TEXT(x->layout.shape));
            return NULL;
        }
        shape.size[i] = size;
    }
    int64_t elements;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[x->dtype], &elements), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_pad], &x, 1, (hd_dtype)x->dtype, &shape, &attributes);
    return hd_execute(thread, &call);
}

/* What stands before (or after) x on an axis: a slice of x, reversed, stretched or wrapped. */
static hd_tensor *border(hd_tensor *x, int axis, int64_t width, bool before, hd_pad_mode mode) {
    const int64_t size = hd_tensor_size(x, axis);
    if (mode == HD_PAD_REFLECT) {
        hd_tensor *part = before ? hd_narrow(x, axis, 1, width) : hd_narrow(x, axis, size - 1 - width, width);
        return hd_flip(part, HD_AXES(axis));
    }
    if (mode == HD_PAD_CIRCULAR) return hd_narrow(x, axis, before ? size - width : 0, width);
    hd_tensor *edge = hd_narrow(x, axis, before ? 0 : size - 1, 1);
    if (edge == NULL) return NULL;
    hd_shape shape = hd_tensor_shape(edge);
    shape.size[axis] = width;
    return hd_broadcast_to(edge, shape);
}

hd_tensor *hd_pad_with(hd_tensor *x, const hd_padding *padding, int count, hd_pad_mode mode) {
    HD_ENTER("hd_pad_with", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    hd_padding all[HD_MAX_RANK];
    HD_TRY_OR(spread_padding(x, padding, count, all), NULL);
    const int rank = x->layout.shape.rank;
    for (int i = 0; i < rank; ++i) {
        const int64_t size = x->layout.shape.size[i], most = mode == HD_PAD_REFLECT    ? size - 1
                                                             : mode == HD_PAD_CIRCULAR ? size
                                                             : size > 0                ? INT64_MAX
                                                                                       : 0;
        const int64_t wide = all[i].before > all[i].after ? all[i].before : all[i].after;
        if (mode < HD_PAD_REFLECT || mode > HD_PAD_CIRCULAR || all[i].before < 0 || all[i].after < 0 ||
            (wide > 0 && wide > most)) {
            hd_fail(HD_ERROR_VALUE,
                    "padding (%lld, %lld) of axis %d of %s in mode %d; modes are HD_PAD_*, widths >= 0, below the size "
                    "to reflect and at most the size to wrap",
                    (long long)all[i].before, (long long)all[i].after, i, HD_SHAPE_TEXT(x->layout.shape), (int)mode);
            return NULL;
        }
    }
    hd_span span;
    hd_span_begin(&span, thread, "pad_with");
    hd_tensor *const given = x;
    for (int i = 0; i < rank && x != NULL; ++i) {
        hd_tensor *parts[3];
        int n = 0;
        if (all[i].before > 0) parts[n++] = border(x, i, all[i].before, true, mode);
        parts[n++] = x;
        if (all[i].after > 0) parts[n++] = border(x, i, all[i].after, false, mode);
        if (n > 1) x = hd_concat(parts, n, i);
    }
    return hd_span_end(&span, x == given ? copy_of(thread, x) : x);
}

/* ---- repeating and moving around --------------------------------------------------------------------------------- */
hd_tensor *hd_roll(hd_tensor *x, int64_t shift, int axis) {
    HD_ENTER("hd_roll", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis];
    shift = size > 0 ? shift % size : 0;
    if (shift < 0) shift += size;
    hd_span span;
    hd_span_begin(&span, thread, "roll");
    hd_tensor *parts[2] = {hd_narrow(x, axis, size - shift, shift), NULL};
    parts[1] = hd_narrow(x, axis, 0, size - shift);
    return hd_span_end(&span, hd_concat(parts, 2, axis));
}

/* One axis made `times` as long, in memory of its own: as a whole again and again, or each element by itself. x is seen
 * as [outer, inner], so that no rank is too high; the length was checked. */
static hd_tensor *repeat(hd_tensor *x, int axis, int64_t times, bool elements) {
    hd_shape shape = hd_tensor_shape(x);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < shape.rank; ++i) *(i < axis || (elements && i == axis) ? &outer : &inner) *= shape.size[i];
    if (axis < shape.rank) shape.size[axis] *= times;
    hd_tensor *wide = hd_broadcast_to(hd_reshape(x, HD_SHAPE(outer, 1, inner)), HD_SHAPE(outer, times, inner));
    return hd_reshape(hd_copy(wide), shape); /* stretched once, or of one element, it could be seen as a view of x */
}

hd_tensor *hd_tile(hd_tensor *x, hd_shape times) {
    HD_ENTER("hd_tile", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_rank_check(&times), NULL);
    const int rank = x->layout.shape.rank;
    if (times.rank != rank) {
        hd_fail(HD_ERROR_SHAPE, "%d repeats for %s; one per axis", times.rank, HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    for (int i = 0; i < rank; ++i) {
        int64_t size;
        if (times.size[i] < 0 || __builtin_mul_overflow(times.size[i], x->layout.shape.size[i], &size)) {
            hd_fail(HD_ERROR_SHAPE, "axis %d of %s repeated %lld times", i, HD_SHAPE_TEXT(x->layout.shape),
                    (long long)times.size[i]);
            return NULL;
        }
    }
    hd_span span;
    hd_span_begin(&span, thread, "tile");
    hd_tensor *const given = x;
    for (int i = rank - 1; i >= 0 && x != NULL; --i)
        if (times.size[i] != 1) x = repeat(x, i, times.size[i], false);
    return hd_span_end(&span, x == given ? copy_of(thread, x) : x);
}

hd_tensor *hd_repeat_interleave(hd_tensor *x, int64_t times, int axis) {
    HD_ENTER("hd_repeat_interleave", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    int64_t size;
    if (times < 0 || __builtin_mul_overflow(times, x->layout.shape.size[axis], &size)) {
        hd_fail(HD_ERROR_VALUE, "%s repeated %lld times on axis %d; times >= 0 and a size that fits",
                HD_SHAPE_TEXT(x->layout.shape), (long long)times, axis);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "repeat_interleave");
    return hd_span_end(&span, repeat(x, axis, times, true));
}

/* ---- triangles --------------------------------------------------------------------------------------------------- */
static hd_tensor *triangle(hd_thread *thread, hd_tensor *x, int64_t diagonal, bool lower) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const hd_shape *shape = &x->layout.shape;
    if (shape->rank < 2) {
        hd_fail(HD_ERROR_SHAPE, "%s is no matrix", HD_SHAPE_TEXT(*shape));
        return NULL;
    }
    const int64_t rows = shape->size[shape->rank - 2], columns = shape->size[shape->rank - 1];
    diagonal = diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal; /* farther out changes nothing */
    hd_span span;
    hd_span_begin(&span, thread, lower ? "tril" : "triu");
    hd_tensor *below = hd_tri_beside(x, rows, columns, lower ? diagonal : diagonal - 1, HD_BOOL);
    hd_tensor *zero = hd_number((hd_dtype)x->dtype, 0);
    return hd_span_end(&span, lower ? hd_where(below, x, zero) : hd_where(below, zero, x));
}

hd_tensor *hd_tril(hd_tensor *x, int64_t diagonal) {
    HD_ENTER("hd_tril", NULL);
    return triangle(thread, x, diagonal, true);
}

hd_tensor *hd_triu(hd_tensor *x, int64_t diagonal) {
    HD_ENTER("hd_triu", NULL);
    return triangle(thread, x, diagonal, false);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
void hd_vjp_contiguous(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = v->gradient;
}

void hd_vjp_concat(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const int axis = ((const hd_axis_attributes *)v->attributes)->axis;
    int64_t start = 0;
    for (int i = 0; i < v->input_count; ++i) {
        const int64_t length = v->shapes[i].size[axis];
        if (v->wanted[i]) v->results[i] = hd_cast(hd_narrow(v->gradient, axis, start, length), (hd_dtype)v->dtypes[i]);
        start += length;
    }
}

void hd_vjp_pad(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pad_attributes *attributes = v->attributes;
    hd_padding back[HD_MAX_RANK];
    const int rank = v->shapes[0].rank;
    for (int i = 0; i < rank; ++i)
        back[i] = (hd_padding){-attributes->padding[i].before, -attributes->padding[i].after};
    v->results[0] = hd_pad(v->gradient, back, rank, 0);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_contiguous(hd_replay_call *r) { r->output = hd_copy(r->inputs[0]); }
void hd_replay_concat(hd_replay_call *r) {
    r->output = hd_concat(r->inputs, r->input_count, ((const hd_axis_attributes *)r->attributes)->axis);
}
void hd_replay_pad(hd_replay_call *r) {
    const hd_pad_attributes *a = r->attributes;
    r->output = hd_pad(r->inputs[0], a->padding, r->inputs[0]->layout.shape.rank, a->value);
}
