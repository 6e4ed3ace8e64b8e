/* Views: another layout over the same storage. */
#include "ops/op.h"

#include <stdlib.h>

hd_tensor *hd_view(hd_thread *thread, hd_op_id id, hd_tensor *x, hd_dtype dtype, const hd_layout *layout,
                   const void *attributes) {
    hd_call call;
    hd_call_init(&call, &hd_ops[id], &x, 1, dtype, &layout->shape, attributes);
    call.view = layout;
    return hd_execute(thread, &call);
}

static hd_tensor *view_of(hd_thread *thread, hd_op_id id, hd_tensor *x, const void *attributes) {
    hd_layout layout;
    hd_view_layout(id, attributes, &x->layout, &layout);
    return hd_view(thread, id, x, (hd_dtype)x->dtype, &layout, attributes);
}

/* ---- reshape ----------------------------------------------------------------------------------------------------- */
/* Fills in a size of -1 and checks that the number of elements stays. */
static hd_error resolve_reshape(const hd_tensor *x, hd_shape *shape) {
    int unknown = -1;
    int64_t known = 1;
    HD_TRY(hd_rank_check(shape));
    for (int i = 0; i < shape->rank; ++i) {
        if (shape->size[i] == -1 && unknown < 0) {
            unknown = i;
        } else if (shape->size[i] < 0 || __builtin_mul_overflow(known, shape->size[i], &known)) {
            return hd_fail(HD_ERROR_SHAPE, "%s cannot take the shape %s; sizes are >= 0, and one may be -1",
                           HD_SHAPE_TEXT(x->layout.shape), HD_SHAPE_TEXT(*shape));
        }
    }
    if (unknown >= 0 && known > 0 && x->count % known == 0) {
        shape->size[unknown] = x->count / known;
        known = x->count;
    }
    if (known != x->count || (unknown >= 0 && shape->size[unknown] < 0))
        return hd_fail(HD_ERROR_SHAPE, "%s has %lld elements, which do not fit %s", HD_SHAPE_TEXT(x->layout.shape),
                       (long long)x->count, HD_SHAPE_TEXT(*shape));
    return hd_shape_check(shape, hd_dtype_bytes[x->dtype], &known);
}

/* Strides for the new shape over the old memory: possible when every group of new axes lies in axes of x that step
 * through memory as one. */
static bool reshape_layout(const hd_layout *from, const hd_shape *shape, int64_t count, hd_layout *to) {
    hd_layout_contiguous(to, shape);
    to->offset = from->offset;
    if (count == 0 || hd_layout_is_contiguous(from)) return true;
    int64_t size[HD_MAX_RANK], stride[HD_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < from->shape.rank; ++i) { /* merge what steps as one */
        if (from->shape.size[i] == 1) continue;
        if (rank > 0 && stride[rank - 1] == from->stride[i] * from->shape.size[i])
            size[rank - 1] *= from->shape.size[i];
        else
            size[rank++] = from->shape.size[i];
        stride[rank - 1] = from->stride[i];
    }
    int axis = shape->rank - 1;
    for (int g = rank - 1; g >= 0; --g) {
        int64_t covered = 1;
        while (axis >= 0 && covered < size[g]) {
            to->stride[axis] = stride[g] * covered;
            covered *= shape->size[axis--];
        }
        if (covered != size[g]) return false;
    }
    return true;
}

/* ---- layouts: one function for each op of the family ------------------------------------------------------------- */
static bool layout_of_reshape(const void *attributes, const hd_layout *from, hd_layout *to) {
    const hd_shape *shape = &((const hd_shape_attributes *)attributes)->shape;
    return reshape_layout(from, shape, hd_shape_count(*shape), to);
}

static bool layout_of_permute(const void *attributes, const hd_layout *from, hd_layout *to) {
    const hd_axes *order = &((const hd_axes_attributes *)attributes)->axes;
    *to = *from;
    for (int i = 0; i < order->count; ++i) {
        to->shape.size[i] = from->shape.size[order->axis[i]];
        to->stride[i] = from->stride[order->axis[i]];
    }
    return true;
}

static bool layout_of_broadcast_to(const void *attributes, const hd_layout *from, hd_layout *to) {
    *to = *from;
    to->shape = ((const hd_shape_attributes *)attributes)->shape;
    hd_layout_broadcast(from, &to->shape, to->stride);
    return true;
}

static bool layout_of_slice(const void *attributes, const hd_layout *from, hd_layout *to) {
    const hd_slice_attributes *s = attributes;
    *to = *from;
    to->shape.size[s->axis] = s->count;
    if (s->count > 0) to->offset += s->start * to->stride[s->axis];
    to->stride[s->axis] *= s->count > 1 ? s->step : 1;
    return true;
}

static bool layout_of_diagonal(const void *attributes, const hd_layout *from, hd_layout *to) {
    const hd_diagonal_attributes *d = attributes;
    const int64_t n1 = from->shape.size[d->axis1], n2 = from->shape.size[d->axis2], offset = d->offset;
    const int64_t row = offset < 0 ? (offset < -n1 ? n1 : -offset) : 0,
                  column = offset > 0 ? (offset > n2 ? n2 : offset) : 0;
    const int64_t length = n1 - row < n2 - column ? n1 - row : n2 - column;
    *to = (hd_layout){.offset = from->offset};
    for (int i = 0; i < from->shape.rank; ++i) {
        if (i == d->axis1 || i == d->axis2) continue;
        to->stride[to->shape.rank] = from->stride[i];
        to->shape.size[to->shape.rank++] = from->shape.size[i];
    }
    if (length > 0) to->offset += row * from->stride[d->axis1] + column * from->stride[d->axis2];
    to->stride[to->shape.rank] = from->stride[d->axis1] + from->stride[d->axis2];
    to->shape.size[to->shape.rank++] = length > 0 ? length : 0;
    return true;
}

static bool layout_of_unfold(const void *attributes, const hd_layout *from, hd_layout *to) {
    const hd_slice_attributes *s = attributes;
    *to = *from;
    const int last = to->shape.rank++;
    to->shape.size[last] = s->count;
    to->stride[last] = to->stride[s->axis];
    const int64_t windows = (to->shape.size[s->axis] - s->count) / s->step;
    to->shape.size[s->axis] = windows + 1;
    if (windows > 0) to->stride[s->axis] *= s->step;
    return true;
}

static bool layout_of_as_strided(const void *attributes, const hd_layout *from, hd_layout *to) {
    (void)from;
    *to = ((const hd_strided_attributes *)attributes)->layout;
    return true;
}

static bool as_it_is(const void *attributes, const hd_layout *from, hd_layout *to) {
    (void)attributes;
    *to = *from;
    return true;
}
#define layout_of_bitcast as_it_is
#define layout_of_detach  as_it_is

static bool (*const layouts[HD_OP_COUNT])(const void *attributes, const hd_layout *from, hd_layout *to) = {
#define OF_VIEW(name) [HD_OP_##name] = layout_of_##name,
#define OF_CREATE(name)
#define OF_RANDOM(name)
#define OF_CAST(name)
#define OF_REDUCE(name)
#define OF_ARGREDUCE(name)
#define OF_SORT(name)
#define OF_SCAN(name)
#define OF_MOVE(name)
#define OF_INDEX(name)
#define OF_CONTRACT(name)
#define OF_NORM(name)
#define OF_CONV(name)
#define OF_POOL(name)
#define OF_ATTENTION(name)
#define OF_LINALG(name)
#define OF_CUSTOM(name)
#define PRIMITIVE(name, family, ...) OF_##family(name)
#include "ops/ops.def"
};

bool hd_view_layout(hd_op_id id, const void *attributes, const hd_layout *from, hd_layout *to) {
    return layouts[id](attributes, from, to);
}

/* What hd_reshape and its kin share: messages have the name of the one that was called. */
static hd_tensor *reshape(hd_thread *thread, hd_tensor *x, hd_shape *shape) {
    HD_TRY_OR(resolve_reshape(x, shape), NULL);
    const hd_shape_attributes attributes = {*shape};
    hd_layout layout;
    if (hd_view_layout(HD_OP_reshape, &attributes, &x->layout, &layout))
        return hd_view(thread, HD_OP_reshape, x, (hd_dtype)x->dtype, &layout, &attributes);
    hd_span span;
    hd_span_begin(&span, thread, "reshape");
    hd_tensor *copy = hd_contiguous(x);
    return hd_span_end(&span, copy == NULL ? NULL : view_of(thread, HD_OP_reshape, copy, &attributes));
}

hd_tensor *hd_reshape(hd_tensor *x, hd_shape shape) {
    HD_ENTER("hd_reshape", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return reshape(thread, x, &shape);
}

hd_tensor *hd_detach(hd_tensor *x) {
    HD_ENTER("hd_detach", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return view_of(thread, HD_OP_detach, x, NULL);
}

hd_tensor *hd_flatten(hd_tensor *x) {
    HD_ENTER("hd_flatten", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return reshape(thread, x, &(hd_shape){.rank = 1, .size = {x->count}});
}

static hd_shape without_axes(const hd_shape *shape, const bool *gone) {
    hd_shape out = {.rank = 0};
    for (int i = 0; i < shape->rank; ++i)
        if (!gone[i]) out.size[out.rank++] = shape->size[i];
    return out;
}

hd_tensor *hd_squeeze(hd_tensor *x, hd_axes axes) {
    HD_ENTER("hd_squeeze", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    bool gone[HD_MAX_RANK];
    HD_TRY_OR(hd_axes_resolve(axes, x->layout.shape.rank, gone), NULL);
    for (int i = 0; i < x->layout.shape.rank; ++i) {
        if (axes.count == 0) {
            gone[i] = x->layout.shape.size[i] == 1;
        } else if (gone[i] && x->layout.shape.size[i] != 1) {
            hd_fail(HD_ERROR_SHAPE, "axis %d of %s has size %lld, not 1", i, HD_SHAPE_TEXT(x->layout.shape),
                    (long long)x->layout.shape.size[i]);
            return NULL;
        }
    }
    hd_shape left = without_axes(&x->layout.shape, gone);
    return reshape(thread, x, &left);
}

hd_tensor *hd_unsqueeze(hd_tensor *x, int axis) {
    HD_ENTER("hd_unsqueeze", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    hd_shape shape = x->layout.shape;
    if (shape.rank == HD_MAX_RANK) {
        hd_fail(HD_ERROR_SHAPE, "%s has %d axes already, the most there can be", HD_SHAPE_TEXT(shape), HD_MAX_RANK);
        return NULL;
    }
    HD_TRY_OR(hd_axis_resolve(axis, shape.rank + 1, &axis), NULL);
    for (int i = shape.rank; i > axis; --i) shape.size[i] = shape.size[i - 1];
    shape.size[axis] = 1;
    shape.rank++;
    return reshape(thread, x, &shape);
}

/* ---- permutations of axes ---------------------------------------------------------------------------------------- */
static hd_tensor *permute(hd_thread *thread, hd_tensor *x, const hd_axes *order) {
    const hd_axes_attributes attributes = {*order};
    return view_of(thread, HD_OP_permute, x, &attributes);
}

hd_tensor *hd_permute(hd_tensor *x, hd_axes order) {
    HD_ENTER("hd_permute", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    bool seen[HD_MAX_RANK];
    if (order.count != rank) {
        hd_fail(HD_ERROR_AXIS, "%d axes for %s, which has %d", order.count, HD_SHAPE_TEXT(x->layout.shape), rank);
        return NULL;
    }
    HD_TRY_OR(hd_axes_resolve(order, rank, seen), NULL);
    for (int i = 0; i < rank; ++i) hd_axis_resolve(order.axis[i], rank, &order.axis[i]);
    return permute(thread, x, &order);
}

static hd_axes natural_order(int rank) {
    hd_axes order = {.count = rank};
    for (int i = 0; i < rank; ++i) order.axis[i] = i;
    return order;
}

static hd_tensor *exchange_axes(hd_thread *thread, hd_tensor *x, int axis1, int axis2) {
    hd_axes order = natural_order(x->layout.shape.rank);
    order.axis[axis1] = axis2;
    order.axis[axis2] = axis1;
    return permute(thread, x, &order);
}

hd_tensor *hd_transpose(hd_tensor *x, int axis1, int axis2) {
    HD_ENTER("hd_transpose", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis1, x->layout.shape.rank, &axis1), NULL);
    HD_TRY_OR(hd_axis_resolve(axis2, x->layout.shape.rank, &axis2), NULL);
    return exchange_axes(thread, x, axis1, axis2);
}

hd_tensor *hd_t(hd_tensor *x) {
    HD_ENTER("hd_t", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    if (rank < 2) {
        hd_fail(HD_ERROR_SHAPE, "%s has no two axes to exchange", HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    return exchange_axes(thread, x, rank - 2, rank - 1);
}

hd_tensor *hd_move_axis(hd_tensor *x, int from, int to) {
    HD_ENTER("hd_move_axis", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    HD_TRY_OR(hd_axis_resolve(from, rank, &from), NULL);
    HD_TRY_OR(hd_axis_resolve(to, rank, &to), NULL);
    hd_axes order = natural_order(rank);
    const int step = from < to ? 1 : -1;
    for (int i = from; i != to; i += step) order.axis[i] = order.axis[i + step];
    order.axis[to] = from;
    return permute(thread, x, &order);
}

/* ---- broadcasting ------------------------------------------------------------------------------------------------ */
static hd_tensor *broadcast(hd_thread *thread, hd_tensor *x, const hd_shape *shape) {
    int64_t count;
    hd_shape both;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[x->dtype], &count), NULL);
    HD_TRY_OR(hd_shape_broadcast(&x->layout.shape, shape, &both), NULL);
    if (!hd_shape_equal(both, *shape)) {
        hd_fail(HD_ERROR_SHAPE, "%s does not broadcast to %s", HD_SHAPE_TEXT(x->layout.shape), HD_SHAPE_TEXT(*shape));
        return NULL;
    }
    const hd_shape_attributes attributes = {*shape};
    return view_of(thread, HD_OP_broadcast_to, x, &attributes);
}

hd_tensor *hd_broadcast_to(hd_tensor *x, hd_shape shape) {
    HD_ENTER("hd_broadcast_to", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return broadcast(thread, x, &shape);
}

hd_tensor *hd_expand(hd_tensor *x, hd_shape shape) {
    HD_ENTER("hd_expand", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_rank_check(&shape), NULL);
    const int extra = shape.rank - x->layout.shape.rank; /* broadcast() rejects what is below 0 */
    for (int i = 0; extra >= 0 && i < shape.rank; ++i)
        if (shape.size[i] == -1 && i >= extra) shape.size[i] = x->layout.shape.size[i - extra];
    return broadcast(thread, x, &shape);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */
static hd_tensor *slice(hd_thread *thread, hd_tensor *x, int axis, int64_t start, int64_t count, int64_t step) {
    const hd_slice_attributes attributes = {axis, count > 0 ? start : 0, count, count > 0 ? step : 1};
    return view_of(thread, HD_OP_slice, x, &attributes);
}

/* Python's rules: from the end when negative, then cut to what there is. */
static int64_t bound_of(int64_t given, int64_t none, int64_t size, int64_t lowest, int64_t highest) {
    if (given == HD_END) return none;
    if (given < 0) given = given < -size ? lowest : given + size;
    return given < lowest ? lowest : given > highest ? highest : given;
}

hd_tensor *hd_slice(hd_tensor *x, int axis, int64_t start, int64_t stop, int64_t step) {
    HD_ENTER("hd_slice", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis];
    if (step == 0 || step == INT64_MIN) {
        hd_fail(HD_ERROR_VALUE, "a step of %lld; it must not be 0", (long long)step);
        return NULL;
    }
    int64_t count;
    if (step > 0) {
        start = bound_of(start, 0, size, 0, size);
        stop = bound_of(stop, size, size, 0, size);
        count = stop > start ? (stop - start - 1) / step + 1 : 0;
    } else {
        start = bound_of(start, size - 1, size, -1, size - 1);
        stop = bound_of(stop, -1, size, -1, size - 1);
        count = start > stop ? (start - stop - 1) / -step + 1 : 0;
    }
    return slice(thread, x, axis, start, count, step);
}

hd_tensor *hd_narrow(hd_tensor *x, int axis, int64_t start, int64_t length) {
    HD_ENTER("hd_narrow", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis];
    if (start < 0) start += size;
    if (start < 0 || length < 0 || start > size || length > size - start) {
        hd_fail(HD_ERROR_INDEX, "%lld elements from %lld do not lie in axis %d of %s", (long long)length,
                (long long)start, axis, HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    return slice(thread, x, axis, start, length, 1);
}

hd_tensor *hd_select(hd_tensor *x, int axis, int64_t index) {
    HD_ENTER("hd_select", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    const int64_t size = x->layout.shape.size[axis];
    if (index < -size || index >= size) {
        hd_fail(HD_ERROR_INDEX, "index %lld is out of range for axis %d of %s", (long long)index, axis,
                HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    bool gone[HD_MAX_RANK] = {false};
    gone[axis] = true;
    hd_span span;
    hd_span_begin(&span, thread, "select");
    hd_tensor *one = slice(thread, x, axis, index < 0 ? index + size : index, 1, 1);
    return hd_span_end(&span, one == NULL ? NULL : hd_reshape(one, without_axes(&one->layout.shape, gone)));
}

hd_tensor *hd_flip(hd_tensor *x, hd_axes axes) {
    HD_ENTER("hd_flip", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    bool flipped[HD_MAX_RANK];
    HD_TRY_OR(hd_axes_resolve(axes, rank, flipped), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "flip");
    if (rank == 0) x = hd_reshape(x, HD_SHAPE()); /* nothing to turn: still a tensor of its own */
    for (int i = 0; i < rank && x != NULL; ++i)
        if (flipped[i]) x = hd_slice(x, i, HD_END, HD_END, -1);
    return hd_span_end(&span, x);
}

/* ---- diagonals, windows, free layouts ---------------------------------------------------------------------------- */
hd_tensor *hd_diagonal(hd_tensor *x, int64_t offset, int axis1, int axis2) {
    HD_ENTER("hd_diagonal", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis1, x->layout.shape.rank, &axis1), NULL);
    HD_TRY_OR(hd_axis_resolve(axis2, x->layout.shape.rank, &axis2), NULL);
    if (axis1 == axis2) {
        hd_fail(HD_ERROR_AXIS, "axis %d is given twice", axis1);
        return NULL;
    }
    const hd_diagonal_attributes attributes = {offset, axis1, axis2};
    return view_of(thread, HD_OP_diagonal, x, &attributes);
}

hd_tensor *hd_unfold(hd_tensor *x, int axis, int64_t size, int64_t step) {
    HD_ENTER("hd_unfold", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const hd_shape *shape = &x->layout.shape;
    HD_TRY_OR(hd_axis_resolve(axis, shape->rank, &axis), NULL);
    if (shape->rank == HD_MAX_RANK || size < 0 || step < 1 || size > shape->size[axis]) {
        hd_fail(HD_ERROR_SHAPE,
                "windows of %lld, %lld apart, on axis %d of %s: the window must fit the axis, the step be >= 1, the "
                "rank below %d",
                (long long)size, (long long)step, axis, HD_SHAPE_TEXT(*shape), HD_MAX_RANK);
        return NULL;
    }
    if (shape->size[axis] - size == INT64_MAX) {
        hd_fail(HD_ERROR_OVERFLOW, "more windows than 64 bits can count");
        return NULL;
    }
    const hd_slice_attributes attributes = {axis, 0, size, step};
    hd_layout layout;
    hd_view_layout(HD_OP_unfold, &attributes, &x->layout, &layout);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&layout.shape, hd_dtype_bytes[x->dtype], &count), NULL);
    return hd_view(thread, HD_OP_unfold, x, (hd_dtype)x->dtype, &layout, &attributes);
}

hd_tensor *hd_as_strided(hd_tensor *x, hd_shape shape, hd_shape strides, int64_t offset) {
    HD_ENTER("hd_as_strided", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[x->dtype], &count), NULL);
    HD_TRY_OR(hd_rank_check(&strides), NULL);
    if (strides.rank != shape.rank) {
        hd_fail(HD_ERROR_SHAPE, "%d strides for %s", strides.rank, HD_SHAPE_TEXT(shape));
        return NULL;
    }
    hd_strided_attributes attributes = {
        {.shape = shape, .offset = count > 0 ? offset : 0}}; /* no elements are nowhere */
    const int64_t elements = (int64_t)(x->storage->bytes / hd_dtype_bytes[x->dtype]);
    int64_t lowest = offset, highest = offset;
    bool outside = false;
    for (int i = 0; i < shape.rank; ++i) {
        attributes.layout.stride[i] = count > 0 && shape.size[i] > 1 ? strides.size[i] : 0;
        int64_t reach = 0;
        outside = outside || (shape.size[i] > 1 && __builtin_mul_overflow(shape.size[i] - 1, strides.size[i], &reach));
        outside =
            outside || __builtin_add_overflow(reach < 0 ? lowest : highest, reach, reach < 0 ? &lowest : &highest);
    }
    if (count > 0 && (outside || lowest < 0 || highest >= elements)) {
        hd_fail(HD_ERROR_INDEX, "the layout reaches from element %lld to %lld of a storage of %lld", (long long)lowest,
                (long long)highest, (long long)elements);
        return NULL;
    }
    return view_of(thread, HD_OP_as_strided, x, &attributes);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
void hd_vjp_reshape(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_reshape(v->gradient, v->shapes[0]);
}

void hd_vjp_permute(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_axes *order = &((const hd_axes_attributes *)v->attributes)->axes;
    hd_axes back = {.count = order->count};
    for (int i = 0; i < order->count; ++i) back.axis[order->axis[i]] = i;
    v->results[0] = hd_permute(v->gradient, back);
}

void hd_vjp_broadcast_to(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_gradient_to_shape(v->gradient, &v->shapes[0]);
}

/* Zeros between, before and behind. */
void hd_vjp_slice(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_slice_attributes *s = v->attributes;
    const hd_shape *shape = &v->shapes[0];
    const int axis = s->axis, behind = shape->rank - axis; /* axes from this one on: what padding counts */
    hd_tensor *g = v->gradient;
    const int64_t step = s->step < 0 ? -s->step : s->step,
                  first = s->step < 0 ? s->start + (s->count - 1) * s->step : s->start;
    if (s->step < 0) g = hd_flip(g, HD_AXES(axis));
    int64_t length = s->count;
    hd_padding padding[HD_MAX_RANK] = {{0, 0}};
    if (step > 1 && s->count > 1) {
        if (shape->rank == HD_MAX_RANK) { /* no room for another axis */
            hd_shape all = {.rank = shape->rank};
            for (int i = 0; i < shape->rank; ++i) all.size[i] = i == axis ? s->count : 1;
            hd_tensor *positions = hd_reshape(hd_range_beside(g, (double)first, (double)step, s->count, HD_I64), all);
            hd_tensor *zeros = hd_full_beside(g, *shape, (hd_dtype)v->dtypes[0], 0);
            v->results[0] =
                g == NULL ? NULL
                          : hd_scatter(zeros, axis, hd_broadcast_to(positions, g->layout.shape), g, HD_SCATTER_ADD);
            return;
        }
        hd_shape apart = hd_tensor_shape(g);
        apart.size[axis] *= step;
        hd_tensor *column = hd_unsqueeze(g, axis + 1);
        padding[0] = (hd_padding){0, step - 1};
        hd_tensor *spread = hd_reshape(hd_pad(column, padding, behind, 0), apart);
        length = (s->count - 1) * step + 1;
        g = hd_narrow(spread, axis, 0, length);
    }
    padding[0] = (hd_padding){first, shape->size[axis] - first - length};
    v->results[0] = hd_pad(g, padding, behind, 0);
}

/* For views that may show an element several times: each place of the view adds to the element it shows. */
static hd_tensor *add_back(hd_tensor *gradient, hd_tensor *positions, int64_t count) {
    if (gradient == NULL) return NULL;
    hd_tensor *zeros = hd_full_beside(gradient, HD_SHAPE(count), (hd_dtype)gradient->dtype, 0);
    return hd_index_add(zeros, 0, hd_flatten(positions), hd_flatten(gradient));
}
static hd_tensor *numbered(const hd_tensor *beside, const hd_shape *shape) { /* each element is its own place */
    return hd_reshape(hd_range_beside(beside, 0, 1, hd_shape_count(*shape), HD_I64), *shape);
}

void hd_vjp_diagonal(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_diagonal_attributes *d = v->attributes;
    hd_tensor *positions = hd_diagonal(numbered(v->gradient, &v->shapes[0]), d->offset, d->axis1, d->axis2);
    v->results[0] = hd_reshape(add_back(v->gradient, positions, hd_shape_count(v->shapes[0])), v->shapes[0]);
}

void hd_vjp_unfold(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_slice_attributes *s = v->attributes;
    const hd_shape *shape = &v->shapes[0];
    const hd_dtype dtype = (hd_dtype)v->gradient->dtype;
    if (v->gradient->count == 0) { /* zeros that know where they come from */
        v->results[0] = hd_add(hd_full_beside(v->gradient, *shape, dtype, 0), hd_sum(v->gradient, HD_AXES(), NULL));
        return;
    }
    hd_overlap w = {1, s->count, 1, v->gradient->layout.shape.size[s->axis], 1, shape->size[s->axis], s->step, 1};
    for (int i = 0; i < shape->rank; ++i)
        if (i != s->axis) *(i < s->axis ? &w.front : &w.behind) *= shape->size[i];
    hd_tensor *g = hd_dtype_is_small_float(dtype) ? hd_cast(v->gradient, HD_F32) : v->gradient;
    g = hd_permute(hd_reshape(g, HD_SHAPE(w.front, w.places, w.behind, w.window)), HD_AXES(3, 0, 1, 2));
    v->results[0] = hd_cast(hd_reshape(hd_lay_over(g, &w), *shape), dtype);
}

static hd_tensor *strided_as(hd_tensor *t, const hd_layout *layout) {
    hd_shape strides = {.rank = layout->shape.rank};
    for (int i = 0; i < strides.rank; ++i) strides.size[i] = layout->stride[i];
    return hd_as_strided(t, layout->shape, strides, layout->offset);
}

/* Where in the storage element i of a layout is, counted along its rows. */
static int64_t place_of(const hd_layout *layout, int64_t i) {
    int64_t offset = layout->offset;
    for (int k = layout->shape.rank; k-- > 0; i /= layout->shape.size[k])
        offset += i % layout->shape.size[k] * layout->stride[k];
    return offset;
}

/* Checks that a layout shows nothing of the storage but what x shows: the gradients of the rest would be lost. */
static hd_error check_shown(const hd_tensor *x, const hd_layout *layout, int64_t elements) {
    if ((x->contiguous && x->count == elements) || x->tracking == HD_TRACKED_LEAF) return HD_OK; /* beside: constants */
    bool *shown = hd_array_resize(NULL, (size_t)elements + 1);
    if (shown == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to mark %lld elements", (long long)elements);
    for (int64_t i = 0; i < elements; ++i) shown[i] = false;
    for (int64_t i = 0; i < x->count; ++i) shown[place_of(&x->layout, i)] = true;
    const int64_t count = hd_shape_count(layout->shape);
    bool all = true;
    for (int64_t i = 0; i < count && all; ++i) all = shown[place_of(layout, i)];
    hd_array_release(shown);
    if (all) return HD_OK;
    return hd_fail(HD_ERROR_STATE,
                   "hd_as_strided shows elements of the storage that x %s does not, and their gradients would be lost; "
                   "take it of the tensor that shows them all",
                   HD_SHAPE_TEXT(x->layout.shape));
}

/* Through the storage that both look at: the result adds to it, x reads from it. */
void hd_vjp_as_strided(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_tensor *x = v->inputs[0];
    const hd_shape storage = HD_SHAPE((int64_t)(x->storage->bytes / hd_dtype_bytes[x->dtype]));
    if (check_shown(x, &((const hd_strided_attributes *)v->attributes)->layout, storage.size[0]) != HD_OK) return;
    hd_tensor *positions =
        strided_as(numbered(v->gradient, &storage), &((const hd_strided_attributes *)v->attributes)->layout);
    hd_tensor *sums = add_back(v->gradient, positions, storage.size[0]);
    if (hd_layout_overlaps_itself(&x->layout)) { /* places of x that are one element share what arrives there */
        hd_tensor *ones = hd_full_beside(x, x->layout.shape, (hd_dtype)x->dtype, 1);
        hd_tensor *times = add_back(ones, strided_as(numbered(v->gradient, &storage), &x->layout), storage.size[0]);
        sums = hd_div(sums, hd_clamp_min(times, 1));
    }
    v->results[0] = strided_as(sums, &x->layout);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_reshape(hd_replay_call *r) {
    r->output = hd_reshape(r->inputs[0], ((const hd_shape_attributes *)r->attributes)->shape);
}
void hd_replay_permute(hd_replay_call *r) {
    r->output = hd_permute(r->inputs[0], ((const hd_axes_attributes *)r->attributes)->axes);
}
void hd_replay_broadcast_to(hd_replay_call *r) {
    r->output = hd_broadcast_to(r->inputs[0], ((const hd_shape_attributes *)r->attributes)->shape);
}
void hd_replay_diagonal(hd_replay_call *r) {
    const hd_diagonal_attributes *d = r->attributes;
    r->output = hd_diagonal(r->inputs[0], d->offset, d->axis1, d->axis2);
}
void hd_replay_unfold(hd_replay_call *r) {
    const hd_slice_attributes *s = r->attributes;
    r->output = hd_unfold(r->inputs[0], s->axis, s->count, s->step);
}
void hd_replay_detach(hd_replay_call *r) { r->output = hd_detach(r->inputs[0]); }

void hd_replay_as_strided(hd_replay_call *r) {
    const hd_layout *layout = &((const hd_strided_attributes *)r->attributes)->layout;
    hd_shape strides = {.rank = layout->shape.rank};
    for (int i = 0; i < layout->shape.rank && i < HD_MAX_RANK; ++i) strides.size[i] = layout->stride[i];
    r->output = hd_as_strided(r->inputs[0], layout->shape, strides, layout->offset);
}

/* The attributes are resolved: what a program would have said is found again. */
void hd_replay_slice(hd_replay_call *r) {
    const hd_slice_attributes *s = r->attributes;
    const hd_shape *shape = &r->inputs[0]->layout.shape;
    int axis;
    if (hd_axis_resolve(s->axis, shape->rank, &axis) != HD_OK) return;
    const int64_t size = shape->size[axis], count = s->count;
    int64_t last = 0;
    if (s->step == 0 || count < 0 ||
        (count > 0 &&
         (__builtin_mul_overflow(count - 1, s->step, &last) || __builtin_add_overflow(last, s->start, &last) ||
          s->start < 0 || s->start >= size || last < 0 || last >= size))) {
        hd_fail(HD_ERROR_INDEX, "%lld elements from %lld in steps of %lld do not lie in axis %d of %s",
                (long long)count, (long long)s->start, (long long)s->step, axis, HD_SHAPE_TEXT(*shape));
        return;
    }
    const int64_t stop = last + (s->step > 0 ? 1 : -1);
    r->output = count == 0 ? hd_narrow(r->inputs[0], axis, 0, 0)
                           : hd_slice(r->inputs[0], axis, s->start, stop < 0 ? HD_END : stop, s->step);
}
