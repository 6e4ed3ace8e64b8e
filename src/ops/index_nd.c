/* Indexing on several axes at once, and what else is made of gathering and scattering. */
#include "ops/op.h"

static hd_error check_integers(const hd_tensor *index, const char *name) {
    HD_TRY(hd_tensor_check(index, name));
    if (hd_dtype_is_integer((hd_dtype)index->dtype)) return HD_OK;
    return hd_fail(HD_ERROR_DTYPE, "the index is %s; it must be an integer tensor%s",
                   hd_dtype_name((hd_dtype)index->dtype),
                   index->dtype == HD_BOOL ? "; by a mask hd_where, hd_masked_scatter and hd_masked_select work" : "");
}

static hd_error check_alike(const hd_tensor *x, const hd_tensor *source) {
    HD_TRY(hd_tensor_check(source, "source"));
    if (source->dtype == x->dtype) return HD_OK;
    return hd_fail(HD_ERROR_DTYPE, "source is %s and x %s; cast one of them", hd_dtype_name((hd_dtype)source->dtype),
                   hd_dtype_name((hd_dtype)x->dtype));
}

/* Sizes of axes `from` to below `to`, multiplied. */
static int64_t size_between(const hd_shape *shape, int from, int to) {
    int64_t size = 1;
    for (int i = from; i < to; ++i) size *= shape->size[i];
    return size;
}

/* Sizes of the axes of `more` from one on, behind those of `shape`. */
static hd_error append_axes(hd_shape *shape, const hd_shape *more, int from) {
    const int rank = shape->rank + more->rank - from;
    if (rank > HD_MAX_RANK)
        return hd_fail(HD_ERROR_SHAPE, "the result has %d axes; the most there can be is %d", rank, HD_MAX_RANK);
    for (int i = from; i < more->rank; ++i) shape->size[shape->rank++] = more->size[i];
    return HD_OK;
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
/* Slices of x are numbered along the axes that are indexed. An index of one such axis is looked up in a table of where
 * the slices begin, which checks it, and counts negative ones from the end; the numbers found add up. */
static hd_tensor *add_places(hd_tensor *sum, hd_tensor *index, int64_t size, int64_t step) {
    hd_tensor *found = hd_take(hd_range_beside(index, 0, (double)step, size, HD_I64), index);
    return sum == NULL ? found : hd_add(sum, found);
}

/* Of an index whose last axis has an entry for each of the axes of x from `first` on: [its other axes]. */
static hd_tensor *places_of(const hd_shape *x, int first, hd_tensor *index) {
    const hd_shape *shape = &index->layout.shape;
    const int count = (int)shape->size[shape->rank - 1];
    if (count == 1 && first == 0) return hd_select(index, -1, 0); /* it is checked where it is used */
    hd_tensor *sum = NULL;
    for (int i = 0; i < count; ++i)
        sum =
            add_places(sum, hd_select(index, -1, i), x->size[first + i], size_between(x, first + i + 1, first + count));
    if (first == 0 || sum == NULL) return sum;
    hd_shape batch = {.rank = shape->rank - 1};
    for (int i = 0; i < batch.rank; ++i) batch.size[i] = i < first ? x->size[i] : 1;
    const int64_t slices = size_between(x, first, first + count);
    hd_tensor *begin = hd_range_beside(index, 0, (double)slices, size_between(x, 0, first), HD_I64);
    return hd_add(sum, hd_reshape(begin, batch));
}

/* x, whose first `indexed` axes are indexed, with slices set at these places, or combined with what is there. */
static hd_tensor *put_at(hd_tensor *x, int indexed, hd_tensor *places, hd_tensor *source, hd_scatter_mode mode) {
    const hd_shape *shape = &x->layout.shape;
    const int64_t slices = size_between(shape, 0, indexed), slice = size_between(shape, indexed, shape->rank);
    if (places == NULL) return NULL;
    const hd_shape wide = HD_SHAPE(places->count, slice);
    hd_tensor *index = hd_broadcast_to(hd_reshape(places, HD_SHAPE(places->count, 1)), wide);
    hd_tensor *rows = hd_reshape(x, HD_SHAPE(slices, slice));
    return hd_reshape(hd_scatter(rows, 0, index, hd_reshape(source, wide), mode), *shape);
}

static hd_error check_last_axis(const hd_tensor *x, const hd_tensor *index, int batch) {
    HD_TRY(hd_tensor_check(x, "x"));
    HD_TRY(check_integers(index, "index"));
    const hd_shape *a = &x->layout.shape, *b = &index->layout.shape;
    const int64_t count = b->rank > 0 ? b->size[b->rank - 1] : 0;
    bool fits = batch >= 0 && batch < a->rank && b->rank > batch && count >= 1 && count <= a->rank - batch;
    for (int i = 0; i < batch && fits; ++i) fits = a->size[i] == b->size[i];
    if (fits) return HD_OK;
    if (batch == 0 && count > a->rank)
        return hd_fail(HD_ERROR_SHAPE, "the last axis of index %s has a number for each of %lld axes, and x %s has %d",
                       HD_SHAPE_TEXT(*b), (long long)count, HD_SHAPE_TEXT(*a), a->rank);
    return hd_fail(HD_ERROR_SHAPE,
                   "index %s for x %s and %d batch axes: the batch axes come first in both and are the same, and "
                   "the last axis of the index has numbers for 1 to all of the others",
                   HD_SHAPE_TEXT(*b), HD_SHAPE_TEXT(*a), batch);
}

hd_tensor *hd_gather_nd(hd_tensor *x, hd_tensor *index, int batch_axes) {
    HD_ENTER("hd_gather_nd", NULL);
    HD_TRY_OR(check_last_axis(x, index, batch_axes), NULL);
    const hd_shape *shape = &x->layout.shape;
    hd_shape result = index->layout.shape;
    const int indexed = batch_axes + (int)result.size[--result.rank];
    HD_TRY_OR(append_axes(&result, shape, indexed), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "gather_nd");
    hd_tensor *places = hd_flatten(places_of(shape, batch_axes, index));
    hd_tensor *rows =
        hd_reshape(x, HD_SHAPE(size_between(shape, 0, indexed), size_between(shape, indexed, shape->rank)));
    return hd_span_end(&span, hd_reshape(hd_index_select(rows, 0, places), result));
}

hd_tensor *hd_scatter_nd(hd_tensor *x, hd_tensor *index, hd_tensor *source, hd_scatter_mode mode) {
    HD_ENTER("hd_scatter_nd", NULL);
    HD_TRY_OR(check_last_axis(x, index, 0), NULL);
    HD_TRY_OR(check_alike(x, source), NULL);
    hd_shape expected = index->layout.shape;
    const int indexed = (int)expected.size[--expected.rank];
    HD_TRY_OR(append_axes(&expected, &x->layout.shape, indexed), NULL);
    if (!hd_shape_equal(source->layout.shape, expected)) {
        hd_fail(HD_ERROR_SHAPE, "source %s for x %s and index %s; it must be %s", HD_SHAPE_TEXT(source->layout.shape),
                HD_SHAPE_TEXT(x->layout.shape), HD_SHAPE_TEXT(index->layout.shape), HD_SHAPE_TEXT(expected));
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "scatter_nd");
    return hd_span_end(&span, put_at(x, indexed, places_of(&x->layout.shape, 0, index), source, mode));
}

/* The shape in which indices meet. */
static hd_error check_indices(const hd_tensor *x, hd_tensor *const *index, int count, hd_shape *together) {
    HD_TRY(hd_tensor_check(x, "x"));
    if (index == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`index` is NULL");
    if (count < 1 || count > x->layout.shape.rank)
        return hd_fail(HD_ERROR_VALUE, "%d indices for %s; give 1 to %d, one for each axis from the first on", count,
                       HD_SHAPE_TEXT(x->layout.shape), x->layout.shape.rank);
    *together = (hd_shape){.rank = 0};
    HD_TRY(hd_tensor_check_all(index, count, "index"));
    for (int i = 0; i < count; ++i) {
        HD_TRY(check_integers(index[i], "index"));
        HD_TRY(hd_shape_broadcast(together, &index[i]->layout.shape, together));
    }
    return HD_OK;
}

hd_tensor *hd_index_put(hd_tensor *x, hd_tensor *const *index, int count, hd_tensor *source, bool accumulate) {
    HD_ENTER("hd_index_put", NULL);
    hd_shape full, both;
    HD_TRY_OR(check_indices(x, index, count, &full), NULL);
    HD_TRY_OR(check_alike(x, source), NULL);
    const hd_shape *shape = &x->layout.shape;
    HD_TRY_OR(append_axes(&full, shape, count), NULL);
    HD_TRY_OR(hd_shape_broadcast(&full, &source->layout.shape, &both), NULL);
    if (!hd_shape_equal(full, both)) {
        hd_fail(HD_ERROR_SHAPE, "source %s does not broadcast to %s, what the indices name",
                HD_SHAPE_TEXT(source->layout.shape), HD_SHAPE_TEXT(full));
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "index_put");
    hd_tensor *places = count == 1 ? index[0] : NULL; /* it is checked where it is used */
    for (int i = 0; i < count && count > 1; ++i)
        places = add_places(places, index[i], shape->size[i], size_between(shape, i + 1, count));
    const hd_scatter_mode mode = accumulate ? HD_SCATTER_ADD : HD_SCATTER_SET;
    return hd_span_end(&span, put_at(x, count, places, hd_broadcast_to(source, full), mode));
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */
/* The first and last place of source along an axis of x, which must both be there. */
static hd_error check_slice(const hd_tensor *x, int axis, int64_t count, int64_t *start, int64_t step) {
    const int64_t size = x->layout.shape.size[axis], given = *start;
    int64_t last = 0;
    if (given < 0) *start += size;
    const bool overflow =
        __builtin_mul_overflow(count > 0 ? count - 1 : 0, step, &last) || __builtin_add_overflow(last, *start, &last);
    const int64_t most = count > 0 ? size - 1 : size; /* nothing may begin behind the end */
    if (step != 0 && !overflow && *start >= 0 && *start <= most && last >= 0 && last <= most) return HD_OK;
    return hd_fail(
        HD_ERROR_INDEX,
        "%lld elements from %lld in steps of %lld do not lie in axis %d of %s; steps are not 0, and a negative "
        "start counts from the end",
        (long long)count, (long long)given, (long long)step, axis, HD_SHAPE_TEXT(x->layout.shape));
}

static int64_t step_of(const hd_shape *steps, int axis) { return steps->rank > 0 ? steps->size[axis] : 1; }

/* x with source in its slice, from an axis on: the part of x that the slice has of this axis, itself updated, between
 * what is before and behind it, or at its places. Writing into a copy would be no op that gradients go through. */
static hd_tensor *updated(hd_tensor *x, hd_tensor *source, int axis, const hd_shape *starts, const hd_shape *steps) {
    if (x == NULL) return NULL;
    const hd_shape *shape = &x->layout.shape, *part = &source->layout.shape;
    while (axis < shape->rank && part->size[axis] == shape->size[axis] &&
           (step_of(steps, axis) == 1 || shape->size[axis] == 1))
        ++axis; /* all of it */
    if (axis == shape->rank) return source;
    const int64_t start = starts->size[axis], step = step_of(steps, axis), count = part->size[axis];
    if (step == 1 || count == 1) {
        hd_tensor *parts[3] = {NULL}, *inside = hd_narrow(x, axis, start, count);
        int n = 0;
        if (start > 0) parts[n++] = hd_narrow(x, axis, 0, start);
        parts[n++] = updated(inside, source, axis + 1, starts, steps);
        const int64_t behind = shape->size[axis] - start - count;
        if (behind > 0) parts[n++] = hd_narrow(x, axis, start + count, behind);
        return parts[0] == NULL || parts[n - 1] == NULL ? NULL : hd_concat(parts, n, axis);
    }
    const int64_t stop = start + (count - 1) * step + (step > 0 ? 1 : -1);
    hd_tensor *inside = hd_slice(x, axis, start, stop < 0 ? HD_END : stop, step);
    hd_tensor *places = hd_range_beside(x, (double)start, (double)step, count, HD_I64);
    return hd_index_copy(x, axis, places, updated(inside, source, axis + 1, starts, steps));
}

hd_tensor *hd_slice_update(hd_tensor *x, hd_tensor *source, hd_shape starts, hd_shape steps) {
    HD_ENTER("hd_slice_update", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_alike(x, source), NULL);
    HD_TRY_OR(hd_rank_check(&starts), NULL);
    HD_TRY_OR(hd_rank_check(&steps), NULL);
    const hd_shape *shape = &x->layout.shape, *part = &source->layout.shape;
    if (part->rank != shape->rank || starts.rank != shape->rank || (steps.rank != 0 && steps.rank != shape->rank)) {
        hd_fail(HD_ERROR_SHAPE,
                "source %s, %d starts and %d steps for x %s; as many axes, starts and steps as x has axes",
                HD_SHAPE_TEXT(*part), starts.rank, steps.rank, HD_SHAPE_TEXT(*shape));
        return NULL;
    }
    for (int i = 0; i < shape->rank; ++i)
        HD_TRY_OR(check_slice(x, i, part->size[i], &starts.size[i], steps.rank > 0 ? steps.size[i] : 1), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "slice_update");
    hd_tensor *result = source->count == 0 ? x : updated(x, source, 0, &starts, &steps);
    return hd_span_end(&span, result == x || result == source ? hd_copy(result) : result);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */
static hd_error check_mask(const hd_tensor *x, const hd_tensor *mask) {
    HD_TRY(hd_tensor_check(mask, "mask"));
    if (mask->dtype != HD_BOOL)
        return hd_fail(HD_ERROR_DTYPE, "the mask is %s; it must be bool", hd_dtype_name((hd_dtype)mask->dtype));
    hd_shape both;
    HD_TRY(hd_shape_broadcast(&x->layout.shape, &mask->layout.shape, &both));
    if (hd_shape_equal(both, x->layout.shape)) return HD_OK;
    return hd_fail(HD_ERROR_SHAPE, "the mask %s does not broadcast to x's %s", HD_SHAPE_TEXT(mask->layout.shape),
                   HD_SHAPE_TEXT(x->layout.shape));
}

/* Each place where the mask holds is given the number of those before it, which is an index into source; the others
 * any, the first. An empty source is one element long for them, and the numbers then count from 1: past its end. */
hd_tensor *hd_masked_scatter(hd_tensor *x, hd_tensor *mask, hd_tensor *source) {
    HD_ENTER("hd_masked_scatter", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(check_mask(x, mask), NULL);
    HD_TRY_OR(check_alike(x, source), NULL);
    const hd_shape *shape = &x->layout.shape;
    const bool is_empty = source->count == 0;
    hd_span span;
    hd_span_begin(&span, thread, "masked_scatter");
    hd_tensor *wide = hd_flatten(hd_broadcast_to(mask, *shape));
    hd_tensor *before = hd_cumsum(wide, 0, HD_OPTS(hd_scan_opts, .exclusive = !is_empty));
    hd_tensor *numbers = hd_where(wide, before, hd_number(HD_I64, 0));
    hd_tensor *from = is_empty ? hd_full_beside(x, HD_SHAPE(1), (hd_dtype)x->dtype, 0) : hd_flatten(source);
    return hd_span_end(&span, hd_where(mask, hd_reshape(hd_take(from, numbers), *shape), x));
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* True where a row is the one that has no gradient, however the index names it: [..., 1]. */
static hd_tensor *is_padding(hd_tensor *index, int64_t rows, int64_t padding) {
    hd_tensor *wide = hd_unsqueeze(hd_cast(index, HD_I64), -1);
    return hd_logical_or(hd_eq_scalar(wide, (double)padding), hd_eq_scalar(wide, (double)(padding - rows)));
}

hd_tensor *hd_embedding(hd_tensor *weight, hd_tensor *index, int64_t padding) {
    HD_ENTER("hd_embedding", NULL);
    HD_TRY_OR(hd_tensor_check(weight, "weight"), NULL);
    HD_TRY_OR(check_integers(index, "index"), NULL);
    const hd_shape *shape = &weight->layout.shape;
    hd_shape result = index->layout.shape;
    if (shape->rank != 2 || result.rank == HD_MAX_RANK) {
        hd_fail(HD_ERROR_SHAPE, "weight %s and index %s; weight is [n,d], and the index has at most %d axes",
                HD_SHAPE_TEXT(*shape), HD_SHAPE_TEXT(result), HD_MAX_RANK - 1);
        return NULL;
    }
    if (padding >= shape->size[0]) {
        hd_fail(HD_ERROR_INDEX, "padding %lld for a weight of %lld rows; it is one of them, or negative for none",
                (long long)padding, (long long)shape->size[0]);
        return NULL;
    }
    result.size[result.rank++] = shape->size[1];
    hd_span span;
    hd_span_begin(&span, thread, "embedding");
    hd_tensor *rows = hd_reshape(hd_index_select(weight, 0, hd_flatten(index)), result);
    if (padding >= 0 && weight->tracking != HD_UNTRACKED && rows != NULL)
        rows = hd_where(is_padding(index, shape->size[0], padding), hd_detach(rows), rows);
    return hd_span_end(&span, rows);
}
