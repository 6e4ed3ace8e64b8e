/* The arithmetic of sizes and strides. */
#include "core/shape.h"

#include <stdio.h>

bool hd_shape_equal(hd_shape a, hd_shape b) {
    if (a.rank != b.rank || (unsigned)a.rank > HD_MAX_RANK) return false;
    for (int i = 0; i < a.rank; ++i)
        if (a.size[i] != b.size[i]) return false;
    return true;
}

int64_t hd_shape_count(hd_shape shape) {
    int64_t count = 1;
    bool overflow = shape.rank < 0 || shape.rank > HD_MAX_RANK;
    for (int i = 0; i < shape.rank && !overflow; ++i)
        if (shape.size[i] == 0) count = 0;
    for (int i = 0; i < shape.rank && !overflow; ++i)
        overflow = shape.size[i] < 0 || (count != 0 && __builtin_mul_overflow(count, shape.size[i], &count));
    return overflow ? -1 : count;
}

const char *hd_shape_text(char *out, size_t capacity, const hd_shape *shape) {
    if ((unsigned)shape->rank > HD_MAX_RANK) { /* there are no sizes behind these */
        snprintf(out, capacity, "[rank %d]", shape->rank);
        return out;
    }
    size_t at = (size_t)snprintf(out, capacity, "[");
    for (int i = 0; i < shape->rank && at < capacity; ++i)
        at += (size_t)snprintf(out + at, capacity - at, "%s%lld", i ? "," : "", (long long)shape->size[i]);
    if (at < capacity) snprintf(out + at, capacity - at, "]");
    return out;
}

hd_error hd_rank_refuse(int rank) {
    return hd_fail(HD_ERROR_SHAPE, "a shape of more than %d axes (rank %d); the rank may be 0 to %d", HD_MAX_RANK, rank,
                   HD_MAX_RANK);
}

static hd_error bad_shape(const hd_shape *shape) {
    HD_TRY(hd_rank_check(shape));
    for (int i = 0; i < shape->rank; ++i)
        if (shape->size[i] < 0)
            return hd_fail(HD_ERROR_SHAPE, "shape %s has a negative size at axis %d", HD_SHAPE_TEXT(*shape), i);
    return hd_fail(HD_ERROR_OVERFLOW, "shape %s has more bytes than 64 bits can count", HD_SHAPE_TEXT(*shape));
}

hd_error hd_shape_check(const hd_shape *shape, size_t element_bytes, int64_t *count) {
    int64_t bytes = (int64_t)element_bytes;
    bool bad = (unsigned)shape->rank > HD_MAX_RANK, empty = false;
    for (int i = 0; i < shape->rank && !bad; ++i) {
        bad = shape->size[i] < 0;
        empty = empty || shape->size[i] == 0;
    }
    for (int i = 0; i < shape->rank && !bad; ++i) /* also when there are no elements: the strides must fit */
        bad = shape->size[i] != 0 && __builtin_mul_overflow(bytes, shape->size[i], &bytes);
    *count = empty ? 0 : bytes >> __builtin_ctzll(element_bytes);
    return __builtin_expect(bad, 0) ? bad_shape(shape) : HD_OK;
}

hd_error hd_shape_broadcast(const hd_shape *a, const hd_shape *b, hd_shape *out) {
    hd_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < result.rank; ++i) {
        const int ia = i - (result.rank - a->rank), ib = i - (result.rank - b->rank);
        const int64_t x = ia >= 0 ? a->size[ia] : 1, y = ib >= 0 ? b->size[ib] : 1;
        if (x != y && x != 1 && y != 1)
            return hd_fail(
                HD_ERROR_SHAPE,
                "%s and %s do not broadcast: sizes %lld and %lld differ at axis %d of the result and neither is 1",
                HD_SHAPE_TEXT(*a), HD_SHAPE_TEXT(*b), (long long)x, (long long)y, i);
        result.size[i] = x == 1 ? y : x;
    }
    *out = result;
    return HD_OK;
}

hd_error hd_axis_resolve(int axis, int rank, int *out) {
    const int resolved = axis < 0 ? axis + rank : axis;
    if (resolved < 0 || resolved >= rank)
        return rank == 0 ? hd_fail(HD_ERROR_AXIS, "axis %d of a scalar, which has none", axis)
                         : hd_fail(HD_ERROR_AXIS, "axis %d is out of range; a tensor of rank %d has axes %d to %d",
                                   axis, rank, -rank, rank - 1);
    *out = resolved;
    return HD_OK;
}

hd_error hd_axes_resolve(hd_axes axes, int rank, bool chosen[HD_MAX_RANK]) {
    if (axes.count < 0 || axes.count > HD_MAX_RANK)
        return hd_fail(HD_ERROR_AXIS, "a list of more than %d axes (of %d)", HD_MAX_RANK, axes.count);
    for (int i = 0; i < HD_MAX_RANK; ++i) chosen[i] = axes.count == 0 && i < rank;
    for (int i = 0; i < axes.count; ++i) {
        int axis = 0;
        HD_TRY(hd_axis_resolve(axes.axis[i], rank, &axis));
        if (chosen[axis]) return hd_fail(HD_ERROR_AXIS, "axis %d is given twice", axes.axis[i]);
        chosen[axis] = true;
    }
    return HD_OK;
}

bool hd_layout_is_contiguous(const hd_layout *layout) {
    int64_t expected = 1;
    for (int i = layout->shape.rank - 1; i >= 0; --i) {
        const int64_t size = layout->shape.size[i];
        if (size == 0) return true;
        if (size != 1 && layout->stride[i] != expected) return false;
        expected *= size;
    }
    return true;
}

void hd_layout_broadcast(const hd_layout *layout, const hd_shape *to, int64_t stride[HD_MAX_RANK]) {
    const int shift = to->rank - layout->shape.rank;
    for (int i = 0; i < to->rank; ++i)
        stride[i] = i >= shift && layout->shape.size[i - shift] != 1 ? layout->stride[i - shift] : 0;
}
