/* Indexing on several axes, slices, rows, diagonals and grids: against NumPy and plain loops, and errors. */
#include "families.h"

#define LIST(...)                                                                                                      \
    (hd_tensor *const[]){__VA_ARGS__}, (int)(sizeof((hd_tensor *const[]){__VA_ARGS__}) / sizeof(hd_tensor *))

/* What make_families.py calls integers(below, *shape): of both signs. */
static hd_tensor *integers(int64_t below, hd_shape shape, hd_dtype dtype) {
    int64_t v[64];
    for (int64_t i = 0; i < hd_shape_count(shape); ++i) v[i] = (i * 7 + 3) % (2 * below) - below;
    return hd_cast(hd_from_data(v, shape, HD_I64), dtype);
}

static void index_put_as_numpy(void **state) {
    (void)state;
    static const char *const names[] = {"index_put", "index_put_added"};
    for (int accumulate = 0; accumulate < 2; ++accumulate)
        for (golden g = golden_open(names[accumulate]); golden_next(&g);) {
            HD_SCOPE;
            hd_tensor *x = fixture(HD_SHAPE(4, 3, 5), HD_F64), *index[3];
            hd_shape together = {.rank = 0};
            int count = 0;
            for (const double *a = g.argument; a < g.argument + g.arguments; ++count) {
                hd_shape shape = {.rank = (int)*a++};
                for (int i = 0; i < shape.rank; ++i) shape.size[i] = (int64_t)*a++;
                index[count] = integers(hd_tensor_size(x, count), shape, count % 2 ? HD_I32 : HD_I64);
                hd_shape wide = together;
                if (shape.rank > wide.rank) wide = shape;
                for (int i = 1; i <= wide.rank; ++i) {
                    const int64_t m = i <= together.rank ? together.size[together.rank - i] : 1,
                                  n = i <= shape.rank ? shape.size[shape.rank - i] : 1;
                    wide.size[wide.rank - i] = m > n ? m : n;
                }
                together = wide;
            }
            for (int i = count; i < 3; ++i) together.size[together.rank++] = hd_tensor_size(x, i);
            hd_tensor *source = fixture(together, HD_F64), *before = hd_copy(x);
            assert_tensor(hd_index_put(x, index, count, source, accumulate), HD_F64, &g.shape, g.v);
            assert_same(x, before);
        }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
/* Where in x (flat) the slice of row n of an index begins, whose entries name the axes behind the batch axes. */
static int64_t begin_of(const model *index, int64_t n, const hd_shape *x, int batch, int indexed, int64_t slice) {
    int64_t at[HD_MAX_RANK], place = 0;
    coordinates_of(&index->shape, n * indexed, at);
    for (int i = 0; i < batch; ++i) place = place * x->size[i] + at[i];
    for (int i = 0; i < indexed; ++i) {
        const double v = index->v[n * indexed + i];
        place = place * x->size[batch + i] + (int64_t)v + (v < 0 ? x->size[batch + i] : 0);
    }
    return place * slice;
}

static int64_t random_nd(model *x, model *index, int *batch, int *indexed, hd_dtype dtype) {
    static const hd_dtype index_dtypes[] = {HD_I64, HD_I32, HD_I8, HD_I16};
    const int rank = 1 + (int)random_below(4);
    random_model(x, random_shape(rank, 4), dtype);
    *indexed = 1 + (int)random_below(rank);
    *batch = (int)random_below(rank - *indexed + 1);
    hd_shape shape = {.rank = *batch};
    for (int i = 0; i < *batch; ++i) shape.size[i] = x->shape.size[i];
    for (int64_t n = random_below(3); n > 0; --n) shape.size[shape.rank++] = random_below(4);
    double v[MODEL_MOST];
    for (int64_t n = 0; n < hd_shape_count(shape); ++n)
        for (int i = 0; i < *indexed; ++i) {
            const int64_t size = x->shape.size[*batch + i];
            v[n * *indexed + i] = (double)(random_below(2 * size) - size);
        }
    shape.size[shape.rank++] = *indexed;
    model_of(index, shape, index_dtypes[random_below(4)], v);
    if (random_below(2)) index->t = hd_flip(hd_contiguous(hd_flip(index->t, HD_AXES())), HD_AXES());
    int64_t slice = 1;
    for (int i = *batch + *indexed; i < x->shape.rank; ++i) slice *= x->shape.size[i];
    return slice;
}

static void gather_nd_of_any_layout(void **state) {
    (void)state;
    static model x, index;
    static double v[MODEL_MOST];
    for (int round = 0; round < 800; ++round) {
        if (!when_slow(round, 2) || !when_compiled((uint64_t)round, 13)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        int batch, indexed;
        const int64_t slice = random_nd(&x, &index, &batch, &indexed, dtype);
        hd_shape result = index.shape;
        result.rank--;
        const int64_t count = hd_shape_count(result);
        for (int i = batch + indexed; i < x.shape.rank; ++i) result.size[result.rank++] = x.shape.size[i];
        if (count * slice > MODEL_MOST) continue;
        for (int64_t n = 0; n < count; ++n)
            for (int64_t i = 0; i < slice; ++i)
                v[n * slice + i] = x.v[begin_of(&index, n, &x.shape, batch, indexed, slice) + i];
        assert_tensor(hd_gather_nd(x.t, index.t, batch), dtype, &result, v);
    }
}

static void scatter_nd_in_every_mode(void **state) {
    (void)state;
    static model x, index, source;
    for (int round = 0; round < 800; ++round) {
        if (!when_slow(round, 2) || !when_compiled((uint64_t)round, 13)) continue;
        HD_SCOPE;
        int batch, indexed;
        const hd_scatter_mode mode = (hd_scatter_mode)(1 + random_below(5));
        int64_t slice = random_nd(&x, &index, &batch, &indexed, HD_F64);
        if (batch > 0) continue;
        hd_shape shape = index.shape;
        shape.rank--;
        const int64_t count = hd_shape_count(shape);
        for (int i = indexed; i < x.shape.rank; ++i) shape.size[shape.rank++] = x.shape.size[i];
        if (count * slice > MODEL_MOST) continue;
        model_of(&source, shape, HD_F64, NULL);
        for (int64_t n = 0; n < count; ++n)
            for (int64_t i = 0; i < slice; ++i) {
                double *to = &x.v[begin_of(&index, n, &x.shape, 0, indexed, slice) + i];
                const double s = source.v[n * slice + i];
                *to = mode == HD_SCATTER_SET   ? s
                      : mode == HD_SCATTER_ADD ? *to + s
                      : mode == HD_SCATTER_MUL ? *to * s
                      : mode == HD_SCATTER_MAX ? fmax(*to, s)
                                               : fmin(*to, s);
            }
        assert_tensor(hd_scatter_nd(x.t, index.t, source.t, mode), HD_F64, &x.shape, x.v);
    }
}

static void slices_are_replaced(void **state) {
    (void)state;
    static model x, source;
    for (int round = 0; round < 800; ++round) {
        if (!when_slow(round, 2) || !when_compiled((uint64_t)round, 13)) continue;
        HD_SCOPE;
        const int rank = (int)random_below(4);
        random_model(&x, random_shape(rank, 5), HD_F32);
        hd_shape part = {.rank = rank}, starts = {.rank = rank}, steps = {.rank = random_below(4) ? rank : 0};
        for (int i = 0; i < rank; ++i) {
            const int64_t size = x.shape.size[i];
            starts.size[i] = random_below(size);
            steps.size[i] = steps.rank == 0 ? 1 : 1 + random_below(2);
            if (steps.rank > 0 && random_below(3) == 0) steps.size[i] = -steps.size[i];
            const int64_t room = steps.size[i] > 0 ? size - 1 - starts.size[i] : starts.size[i];
            part.size[i] = random_below(room / (steps.size[i] > 0 ? steps.size[i] : -steps.size[i]) + 2);
        }
        model_of(&source, part, HD_F32, NULL);
        for (int64_t n = 0; n < source.count; ++n) {
            int64_t at[HD_MAX_RANK];
            coordinates_of(&part, n, at);
            for (int i = 0; i < rank; ++i) at[i] = starts.size[i] + at[i] * steps.size[i];
            x.v[index_of(&x.shape, at)] = source.v[n];
        }
        for (int i = 0; i < rank; ++i)
            if (random_below(2)) starts.size[i] -= x.shape.size[i];
        assert_tensor(hd_slice_update(x.t, source.t, starts, steps), HD_F32, &x.shape, x.v);
    }
}

static void diagonals_are_embedded(void **state) { /* what hd_diagonal takes out again, and zeros elsewhere */
    (void)state;
    static model x;
    for (int round = 0; round < 300; ++round) {
        if (!when_compiled((uint64_t)round, 13)) continue;
        HD_SCOPE;
        const int rank = 1 + (int)random_below(3);
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        random_model(&x, random_shape(rank, 4), dtype);
        if (random_below(10) == 0) x.t = hd_narrow(x.t, -1, 0, 0);
        const int64_t offset = random_below(7) - 3, n = hd_tensor_size(x.t, -1);
        const int axis1 = (int)random_below(rank + 1), axis2 = (axis1 + 1 + (int)random_below(rank)) % (rank + 1);
        hd_tensor *y = hd_diag_embed(x.t, offset, random_below(2) ? axis1 : axis1 - rank - 1, axis2);
        assert_ok();
        assert_int_equal(hd_tensor_size(y, axis1), n + (offset < 0 ? -offset : offset));
        assert_int_equal(hd_tensor_size(y, axis2), n + (offset < 0 ? -offset : offset));
        assert_same(hd_diagonal(y, offset, axis1, axis2), x.t);
        assert_int_equal(hd_item_i64(hd_count_nonzero(y, HD_AXES(), NULL)),
                         hd_item_i64(hd_count_nonzero(x.t, HD_AXES(), NULL)));
        if (rank == 1) assert_same(hd_diag(x.t, offset), hd_diag_embed(x.t, offset, 0, 1));
        if (rank == 2) assert_same(hd_diag(x.t, offset), hd_diagonal(x.t, offset, 0, 1));
        if (rank >= 2 && dtype != HD_BOOL)
            assert_same(hd_trace(x.t, offset, 0, -1), hd_sum(hd_diagonal(x.t, offset, 0, -1), HD_AXES(-1), NULL));
    }
}

/* ---- the others -------------------------------------------------------------------------------------------------- */
static void rows_of_an_embedding(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_reshape(hd_range(0, 1, 8, HD_F32), HD_SHAPE(4, 2));
    hd_tensor *index = HD_TENSOR_I64(HD_SHAPE(2, 2), 3, 0, -1, 1);
    for (int64_t padding = -1; padding < 4; ++padding)
        assert_values(hd_embedding(w, index, padding), HD_F32, 6, 7, 0, 1, 6, 7, 2, 3);
    assert_true(
        hd_shape_equal(hd_tensor_shape(hd_embedding(w, hd_zeros(HD_SHAPE(0, 3), HD_U8), 0)), HD_SHAPE(0, 3, 2)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_embedding(w, hd_scalar(1, HD_I32), -1)), HD_SHAPE(2)));
    hd_requires_grad(w);
    for (int dtype = 0; dtype < 2; ++dtype) { /* the row that is named 3 and -1 has none; u8 has no -1 */
        hd_tensor *rows = dtype == 0 ? index : hd_cast(HD_TENSOR_I64(HD_SHAPE(2, 2), 3, 0, 3, 1), HD_U8);
        hd_zero_grad(w);
        hd_backward(hd_sum(hd_embedding(w, rows, 3), HD_AXES(), NULL));
        assert_values(hd_grad(w), HD_F32, 1, 1, 1, 1, 0, 0, 0, 0);
        hd_clear_tape();
    }
    hd_zero_grad(w);
    hd_backward(hd_sum(hd_embedding(w, index, -1), HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 1, 1, 1, 1, 0, 0, 2, 2);
    hd_clear_tape();
}

static void masks_take_one_element_after_the_other(void **state) {
    (void)state;
    static model x, source;
    for (int round = 0; round < 200; ++round) {
        if (!when_compiled((uint64_t)round, 13)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        random_model(&x, random_shape((int)random_below(4), 4), dtype);
        random_model(&source, random_shape(1 + (int)random_below(2), 6), dtype);
        hd_shape shape = {.rank = x.shape.rank == 0 ? 0 : (int)random_below(x.shape.rank + 1)};
        for (int i = 0; i < shape.rank; ++i) /* its axes are the last of x, and broadcast */
            shape.size[i] = random_below(3) == 0 ? 1 : x.shape.size[x.shape.rank - shape.rank + i];
        bool holds[MODEL_MOST];
        for (int64_t i = 0; i < hd_shape_count(shape); ++i) holds[i] = random_below(4) == 0;
        int64_t used = 0;
        for (int64_t n = 0; n < x.count; ++n) {
            int64_t at[HD_MAX_RANK];
            coordinates_of(&x.shape, n, at);
            for (int i = 0; i < shape.rank; ++i) at[i] = shape.size[i] == 1 ? 0 : at[x.shape.rank - shape.rank + i];
            if (holds[index_of(&shape, at)] && used++ < source.count) x.v[n] = source.v[used - 1];
        }
        hd_tensor *y = hd_masked_scatter(x.t, hd_from_data(holds, shape, HD_BOOL), source.t);
        if (used <= source.count) assert_tensor(y, dtype, &x.shape, x.v);
        if (used > source.count) assert_error(HD_ERROR_INDEX, "hd_masked_scatter: index ");
    }
    HD_SCOPE;
    hd_tensor *y = HD_TENSOR_F32(HD_SHAPE(4), 1, 2, 3, 4), *none = hd_zeros(HD_SHAPE(0), HD_F32);
    hd_tensor *some = hd_gt_scalar(y, 2);
    assert_values(hd_masked_scatter(y, hd_gt_scalar(y, 9), none), HD_F32, 1, 2, 3, 4);
    assert_null(hd_masked_scatter(y, some, none));
    assert_error(HD_ERROR_INDEX, "hd_masked_scatter: index 1 at place 2 of [4] is out of range");
    assert_null(hd_masked_scatter(y, some, hd_ones(HD_SHAPE(1), HD_F32)));
    assert_error(HD_ERROR_INDEX, "hd_masked_scatter: index 1 at place 3 of [4] is out of range for an axis of size 1");
    assert_null(hd_masked_scatter(y, y, y));
    assert_error(HD_ERROR_DTYPE, "hd_masked_scatter: the mask is f32; it must be bool");
    assert_null(hd_masked_scatter(y, hd_ones(HD_SHAPE(2, 4), HD_BOOL), y));
    assert_error(HD_ERROR_SHAPE, "hd_masked_scatter: the mask [2,4] does not broadcast to x's [4]");
    assert_null(hd_masked_scatter(y, some, hd_cast(y, HD_F64)));
    assert_error(HD_ERROR_DTYPE, "hd_masked_scatter: source is f64 and x f32");
}

static void grids(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *b = HD_TENSOR_I64(HD_SHAPE(3), 5, 6, 7);
    hd_tensors *ij = hd_meshgrid(LIST(a, b, hd_scalar(9, HD_F32)), HD_INDEXING_IJ);
    assert_int_equal(hd_tensors_count(ij), 3);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_tensors_get(ij, 0)), HD_SHAPE(2, 3, 1)));
    assert_values(hd_tensors_get(ij, 0), HD_F32, 1, 1, 1, 2, 2, 2);
    assert_values(hd_tensors_get(ij, 1), HD_I64, 5, 6, 7, 5, 6, 7);
    assert_values(hd_tensors_get(ij, 2), HD_F32, 9, 9, 9, 9, 9, 9);
    hd_tensors *xy = hd_meshgrid(LIST(a, b), HD_INDEXING_XY);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_tensors_get(xy, 1)), HD_SHAPE(3, 2)));
    assert_values(hd_tensors_get(xy, 0), HD_F32, 1, 2, 1, 2, 1, 2);
    assert_values(hd_tensors_get(xy, 1), HD_I64, 5, 5, 6, 6, 7, 7);
    assert_values(hd_tensors_get(hd_meshgrid(&a, 1, HD_INDEXING_XY), 0), HD_F32, 1, 2);
    assert_null(hd_meshgrid(NULL, 1, HD_INDEXING_IJ));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_meshgrid: `tensors` is NULL");
    assert_null(hd_meshgrid(&a, 0, HD_INDEXING_IJ));
    assert_error(HD_ERROR_VALUE, "hd_meshgrid: 0 tensors; a grid has 1 to 8 axes");
    assert_null(hd_meshgrid(&a, 1, (hd_indexing)0));
    assert_error(HD_ERROR_VALUE, "hd_meshgrid: 0 is none of HD_INDEXING_*");
    assert_null(hd_meshgrid(LIST(a, hd_ones(HD_SHAPE(2, 2), HD_F32)), HD_INDEXING_IJ));
    assert_error(HD_ERROR_SHAPE, "hd_meshgrid: tensor 1 is [2,2]; coordinates are vectors, or a number");
}

static void out_of_range_names_place_and_bound(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_reshape(hd_range(0, 1, 12, HD_F32), HD_SHAPE(2, 3, 2)),
              *bad = HD_TENSOR_I64(HD_SHAPE(2, 2), 0, -3, 1, 3);
    assert_null(hd_gather_nd(x, bad, 0)); /* also where the element would be one of x */
    assert_error(HD_ERROR_INDEX, "hd_gather_nd: index 3 at place 1 of [2] is out of range for an axis of size 3");
    assert_null(hd_gather_nd(x, HD_TENSOR_I64(HD_SHAPE(1, 1), -3), 0));
    assert_error(HD_ERROR_INDEX, "hd_gather_nd: index -3 at place 0 of [1] is out of range for an axis of size 2");
    assert_null(hd_gather_nd(x, HD_TENSOR_I64(HD_SHAPE(2, 1), 0, 3), 1));
    assert_error(HD_ERROR_INDEX, "hd_gather_nd: index 3 at place 1 of [2] is out of range for an axis of size 3");
    assert_null(hd_scatter_nd(x, bad, hd_ones(HD_SHAPE(2, 2), HD_F32), HD_SCATTER_ADD));
    assert_error(HD_ERROR_INDEX, "hd_scatter_nd: index 3 at place 1 of [2] is out of range for an axis of size 3");
    assert_null(hd_index_put(x, LIST(HD_TENSOR_I64(HD_SHAPE(2), 0, -3)), hd_scalar(0, HD_F32), false));
    assert_error(HD_ERROR_INDEX, "hd_index_put: index -3 at place 6 of [2,6] is out of range for an axis of size 2");
    assert_null(hd_index_put(x, LIST(HD_TENSOR_I64(HD_SHAPE(1), 0), HD_TENSOR_I64(HD_SHAPE(2), 0, 7)),
                             hd_scalar(0, HD_F32), true));
    assert_error(HD_ERROR_INDEX, "hd_index_put: index 7 at place 1 of [2] is out of range for an axis of size 3");
    assert_null(hd_embedding(hd_select(x, 2, 0), HD_TENSOR_I64(HD_SHAPE(2), 1, 2), -1));
    assert_error(HD_ERROR_INDEX, "hd_embedding: index 2 at place 1 of [2] is out of range for an axis of size 2");
    assert_null(hd_slice_update(x, hd_ones(HD_SHAPE(1, 2, 1), HD_F32), HD_SHAPE(1, 2, 0), HD_SHAPE()));
    assert_error(HD_ERROR_INDEX, "hd_slice_update: 2 elements from 2 in steps of 1 do not lie in axis 1 of [2,3,2]");
    assert_null(hd_slice_update(x, hd_ones(HD_SHAPE(1, 2, 1), HD_F32), HD_SHAPE(1, 0, -3), HD_SHAPE(1, 1, 1)));
    assert_error(HD_ERROR_INDEX, "hd_slice_update: 1 elements from -3 in steps of 1 do not lie in axis 2 of [2,3,2]");
    assert_null(hd_slice_update(x, hd_ones(HD_SHAPE(1, 2, 1), HD_F32), HD_SHAPE(1, 0, 0), HD_SHAPE(1, 0, 1)));
    assert_error(HD_ERROR_INDEX, "hd_slice_update: 2 elements from 0 in steps of 0 do not lie in axis 1");
    assert_null(hd_slice_update(x, hd_ones(HD_SHAPE(1, 2, 1), HD_F32), HD_SHAPE(1, 0, 0), HD_SHAPE(1, INT64_MAX, 1)));
    assert_error(HD_ERROR_INDEX, "hd_slice_update: 2 elements from 0 in steps of 9223372036854775807");
    assert_null(hd_slice_update(x, hd_ones(HD_SHAPE(1, 0, 1), HD_F32), HD_SHAPE(1, 4, 0), HD_SHAPE()));
    assert_error(HD_ERROR_INDEX, "hd_slice_update: 0 elements from 4 in steps of 1 do not lie in axis 1");
}

static void wrong_shapes_and_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(3, 4), HD_F32), *i = hd_zeros(HD_SHAPE(2, 2), HD_I64),
              *one = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_gather_nd(x, x, 0));
    assert_error(HD_ERROR_DTYPE, "hd_gather_nd: the index is f32; it must be an integer tensor");
    assert_null(hd_gather_nd(x, hd_zeros(HD_SHAPE(2, 3), HD_I64), 0));
    assert_error(HD_ERROR_SHAPE,
                 "hd_gather_nd: the last axis of index [2,3] has a number for each of 3 axes, and x [3,4] has 2");
    assert_null(hd_gather_nd(x, i, 1));
    assert_error(HD_ERROR_SHAPE, "hd_gather_nd: index [2,2] for x [3,4] and 1 batch axes: ");
    assert_null(hd_gather_nd(x, i, -1));
    assert_error(HD_ERROR_SHAPE, "hd_gather_nd: index [2,2] for x [3,4] and -1 batch axes: ");
    assert_null(hd_gather_nd(x, hd_scalar(0, HD_I64), 0));
    assert_error(HD_ERROR_SHAPE, "hd_gather_nd: index [] for x [3,4]");
    assert_null(
        hd_gather_nd(hd_ones(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HD_F32), hd_zeros(HD_SHAPE(1, 1, 1), HD_I64), 0));
    assert_error(HD_ERROR_SHAPE, "hd_gather_nd: the result has 9 axes; the most there can be is 8");
    assert_null(hd_scatter_nd(x, i, hd_ones(HD_SHAPE(3), HD_F32), HD_SCATTER_SET));
    assert_error(HD_ERROR_SHAPE, "hd_scatter_nd: source [3] for x [3,4] and index [2,2]; it must be [2]");
    assert_null(hd_scatter_nd(x, i, hd_cast(one, HD_F64), HD_SCATTER_SET));
    assert_error(HD_ERROR_DTYPE, "hd_scatter_nd: source is f64 and x f32; cast one of them");
    assert_null(hd_scatter_nd(x, i, one, (hd_scatter_mode)9));
    assert_error(HD_ERROR_VALUE, "hd_scatter_nd: 9 is none of the modes");
    assert_null(hd_index_put(x, NULL, 1, one, false));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_index_put: `index` is NULL");
    assert_null(hd_index_put(x, LIST(i, i, i), one, false));
    assert_error(HD_ERROR_VALUE, "hd_index_put: 3 indices for [3,4]; give 1 to 2");
    assert_null(hd_index_put(x, LIST(i, hd_zeros(HD_SHAPE(3), HD_I64)), one, false));
    assert_error(HD_ERROR_SHAPE, "hd_index_put: [2,2] and [3] do not broadcast");
    assert_null(hd_index_put(x, LIST(hd_zeros(HD_SHAPE(), HD_I64)), one, false));
    assert_error(HD_ERROR_SHAPE, "hd_index_put: [4] and [2] do not broadcast");
    assert_null(hd_index_put(x, LIST(hd_zeros(HD_SHAPE(), HD_I64)), x, false));
    assert_error(HD_ERROR_SHAPE, "hd_index_put: source [3,4] does not broadcast to [4], what the indices name");
    assert_null(hd_slice_update(x, one, HD_SHAPE(0, 0), HD_SHAPE()));
    assert_error(HD_ERROR_SHAPE, "hd_slice_update: source [2], 2 starts and 0 steps for x [3,4]");
    assert_null(hd_embedding(one, i, -1));
    assert_error(HD_ERROR_SHAPE, "hd_embedding: weight [2] and index [2,2]; weight is [n,d]");
    assert_null(hd_embedding(x, i, 3));
    assert_error(HD_ERROR_INDEX, "hd_embedding: padding 3 for a weight of 3 rows");
    assert_null(hd_diag(hd_scalar(1, HD_F32), 0));
    assert_error(HD_ERROR_SHAPE, "hd_diag: []; it takes a vector or a matrix");
    assert_null(hd_diag(one, INT64_MIN));
    assert_error(HD_ERROR_OVERFLOW, "hd_diag: [2] on the diagonal at -9223372036854775808");
    assert_null(hd_diag_embed(one, 1LL << 31, 0, 1));
    assert_error(HD_ERROR_OVERFLOW, "hd_diag_embed: [2] on the diagonal at 2147483648");
    assert_null(hd_diag_embed(one, 0, 1, -1));
    assert_error(HD_ERROR_AXIS, "hd_diag_embed: axis 1 is given twice");
    assert_null(hd_trace(one, 0, 0, 1));
    assert_error(HD_ERROR_AXIS, "hd_trace: ");
}

RUN(test(index_put_as_numpy), test(gather_nd_of_any_layout), test(scatter_nd_in_every_mode), test(slices_are_replaced),
    test(diagonals_are_embedded), test(rows_of_an_embedding), test(masks_take_one_element_after_the_other), test(grids),
    test(out_of_range_names_place_and_bound), test(wrong_shapes_and_dtypes))
