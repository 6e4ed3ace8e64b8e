/* Diagonals and grids, made of views and padding. */
#include "core/list.h"
#include "ops/op.h"

/* ---- diagonals --------------------------------------------------------------------------------------------------- */
/* [..., n] -> [..., r, r] where r = n + |offset|. Each element with r zeros behind it, one after the other, is the
 * matrix from the first element of the diagonal on: an element lies r + 1 behind the one before. */
static hd_tensor *embed(hd_tensor *x, int64_t offset) {
    hd_shape shape = x->layout.shape;
    const int64_t n = shape.size[shape.rank - 1], away = offset < 0 ? -offset : offset, r = n + away;
    int64_t batch = 1;
    for (int i = 0; i + 1 < shape.rank; ++i) batch *= shape.size[i];
    shape.size[shape.rank - 1] = r;
    shape.size[shape.rank++] = r;
    hd_tensor *spread = hd_pad(hd_reshape(x, HD_SHAPE(batch, n, 1)), &(hd_padding){0, r}, 1, 0);
    const int64_t first = offset < 0 ? away * r : away;
    const hd_padding around = {first, r * r - first - n * (r + 1)};
    return hd_reshape(hd_pad(hd_reshape(spread, HD_SHAPE(batch, n * (r + 1))), &around, 1, 0), shape);
}

static hd_error check_diagonal(const hd_tensor *x, int64_t offset, int64_t most) {
    const hd_shape *shape = &x->layout.shape;
    const int64_t n = shape->size[shape->rank - 1];
    int64_t side = 0, elements = 0;
    const bool fits = offset > -most && offset < most &&
                      !__builtin_add_overflow(n, offset < 0 ? -offset : offset, &side) &&
                      !__builtin_mul_overflow(side + 1, side, &elements) &&
                      !__builtin_mul_overflow(elements, (int64_t)hd_dtype_bytes[x->dtype], &elements);
    hd_shape result = *shape;
    result.size[result.rank - 1] = result.size[result.rank] = side;
    result.rank++;
    return fits ? hd_shape_check(&result, hd_dtype_bytes[x->dtype], &elements)
                : hd_fail(HD_ERROR_OVERFLOW, "%s on the diagonal at %lld makes more elements than 64 bits can count",
                          HD_SHAPE_TEXT(*shape), (long long)offset);
}

/* Moves the last two axes, the first of them to axis1. */
static hd_tensor *place_axes(hd_tensor *x, int axis1, int axis2) {
    hd_axes order = {.count = 0};
    if (x == NULL) return NULL;
    const int rank = x->layout.shape.rank;
    for (int i = 0, other = 0; i < rank; ++i)
        order.axis[order.count++] = i == axis1 ? rank - 2 : i == axis2 ? rank - 1 : other++;
    return axis1 == rank - 2 && axis2 == rank - 1 ? x : hd_permute(x, order);
}

hd_tensor *hd_diag_embed(hd_tensor *x, int64_t offset, int axis1, int axis2) {
    HD_ENTER("hd_diag_embed", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const hd_shape *shape = &x->layout.shape;
    if (shape->rank < 1 || shape->rank == HD_MAX_RANK) {
        hd_fail(HD_ERROR_SHAPE, "%s has no axis to lay on a diagonal, or %d already", HD_SHAPE_TEXT(*shape),
                HD_MAX_RANK);
        return NULL;
    }
    HD_TRY_OR(hd_axis_resolve(axis1, shape->rank + 1, &axis1), NULL);
    HD_TRY_OR(hd_axis_resolve(axis2, shape->rank + 1, &axis2), NULL);
    if (axis1 == axis2) {
        hd_fail(HD_ERROR_AXIS, "axis %d is given twice; a diagonal has two", axis1);
        return NULL;
    }
    HD_TRY_OR(check_diagonal(x, offset, INT64_MAX / 2), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "diag_embed");
    return hd_span_end(&span, place_axes(embed(x, offset), axis1, axis2));
}

hd_tensor *hd_diag(hd_tensor *x, int64_t offset) {
    HD_ENTER("hd_diag", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    if (rank != 1 && rank != 2) {
        hd_fail(HD_ERROR_SHAPE, "%s; it takes a vector or a matrix", HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    if (rank == 1) HD_TRY_OR(check_diagonal(x, offset, INT64_MAX / 2), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "diag");
    return hd_span_end(&span, rank == 1 ? embed(x, offset) : hd_copy(hd_diagonal(x, offset, 0, 1)));
}

hd_tensor *hd_trace(hd_tensor *x, int64_t offset, int axis1, int axis2) {
    HD_ENTER("hd_trace", NULL);
    hd_span span;
    hd_span_begin(&span, thread, "trace");
    return hd_span_end(&span, hd_sum(hd_diagonal(x, offset, axis1, axis2), HD_AXES(-1), NULL));
}

/* ---- grids ------------------------------------------------------------------------------------------------------- */
static hd_error check_grid(hd_tensor *const *tensors, int count, hd_indexing indexing, hd_shape *grid) {
    if (tensors == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`tensors` is NULL");
    if (count < 1 || count > HD_MAX_RANK)
        return hd_fail(HD_ERROR_VALUE, "%d tensors; a grid has 1 to %d axes", count, HD_MAX_RANK);
    if (indexing != HD_INDEXING_IJ && indexing != HD_INDEXING_XY)
        return hd_fail(HD_ERROR_VALUE, "%d is none of HD_INDEXING_*", (int)indexing);
    *grid = (hd_shape){.rank = count};
    int64_t elements;
    HD_TRY(hd_tensor_check_all(tensors, count, "tensors"));
    for (int i = 0; i < count; ++i) {
        if (tensors[i]->layout.shape.rank > 1)
            return hd_fail(HD_ERROR_SHAPE, "tensor %d is %s; coordinates are vectors, or a number", i,
                           HD_SHAPE_TEXT(tensors[i]->layout.shape));
        const bool exchanged = indexing == HD_INDEXING_XY && count > 1 && i < 2;
        grid->size[exchanged ? 1 - i : i] = tensors[i]->count;
    }
    return hd_shape_check(grid, 8, &elements); /* of the largest dtypes */
}

hd_tensors *hd_meshgrid(hd_tensor *const *tensors, int count, hd_indexing indexing) {
    HD_ENTER("hd_meshgrid", NULL);
    hd_shape grid;
    HD_TRY_OR(check_grid(tensors, count, indexing, &grid), NULL);
    hd_tensors *list = hd_tensors_new(thread, count);
    if (list == NULL) return NULL;
    hd_span span;
    hd_span_begin(&span, thread, "meshgrid");
    for (int i = 0; i < count; ++i) {
        const int axis = indexing == HD_INDEXING_XY && count > 1 && i < 2 ? 1 - i : i;
        hd_shape along = {.rank = count};
        for (int k = 0; k < count; ++k) along.size[k] = k == axis ? tensors[i]->count : 1;
        hd_tensor *coordinates = hd_broadcast_to(hd_reshape(tensors[i], along), grid);
        if (coordinates == NULL) break;
        hd_tensors_put(list, i, coordinates);
    }
    hd_span_end(&span, NULL);
    return thread->error_code == HD_OK ? list : NULL;
}
