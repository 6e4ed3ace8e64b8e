/* Indexing: against NumPy and plain loops, negative and doubled indices, and errors that name place and bound. */
#include "families.h"

/* What the script uses on an axis of size n: 7 indices of both signs. */
static hd_tensor *script_index(int64_t n) {
    int64_t v[7];
    for (int i = 0; i < 7; ++i) v[i] = i * 5 % (2 * n) - n;
    return hd_from_data(v, HD_SHAPE(7), HD_I64);
}

static void as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("index_select"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = fixture(HD_SHAPE(4, 3, 5), HD_F64);
        assert_tensor(hd_index_select(x, (int)g.argument[0], script_index(hd_tensor_size(x, (int)g.argument[0]))),
                      HD_F64, &g.shape, g.v);
    }
    for (golden g = golden_open("take_along_axis"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = fixture(HD_SHAPE(4, 3, 5), HD_F64), *seven = script_index(hd_tensor_size(x, (int)g.argument[0]));
        int64_t along[60];
        for (int i = 0; i < 60; ++i) along[i] = hd_data_i64(seven)[i % 7];
        assert_tensor(hd_take_along_axis(x, (int)g.argument[0], hd_from_data(along, HD_SHAPE(4, 3, 5), HD_I64)), HD_F64,
                      &g.shape, g.v);
    }
    static hd_tensor *(*const put[])(hd_tensor *, int, hd_tensor *, hd_tensor *) = {hd_index_add, hd_index_copy};
    static const char *const names[] = {"index_add", "index_copy"};
    for (int way = 0; way < 2; ++way)
        for (golden g = golden_open(names[way]); golden_next(&g);) {
            HD_SCOPE;
            const int axis = (int)g.argument[0];
            hd_tensor *x = fixture(HD_SHAPE(4, 3, 5), HD_F64);
            hd_shape shape = hd_tensor_shape(x);
            shape.size[(axis + 3) % 3] = 7;
            assert_tensor(put[way](x, axis, script_index(hd_tensor_size(x, axis)), fixture(shape, HD_F64)), HD_F64,
                          &g.shape, g.v);
        }
}

/* ---- plain loops ------------------------------------------------------------------------------------------------- */
static const hd_dtype index_dtypes[] = {HD_I64, HD_I32, HD_I16, HD_I8, HD_U8, HD_U16, HD_U32, HD_U64};

/* An index for gather and scatter: x's rank, no larger beside the axis, of any integer dtype, any layout. */
static void random_index(model *index, const hd_shape *x, int axis) {
    hd_shape shape = *x;
    for (int i = 0; i < shape.rank; ++i)
        shape.size[i] = i == axis ? random_below(6) : shape.size[i] - random_below(2) * (shape.size[i] > 1);
    const hd_dtype dtype = index_dtypes[random_below(8)];
    const bool is_signed = hd_dtype_promote(dtype, HD_I8) == dtype;
    double v[MODEL_MOST];
    for (int64_t i = 0; i < hd_shape_count(shape); ++i)
        v[i] = (double)(random_below(x->size[axis] * (is_signed ? 2 : 1)) - (is_signed ? x->size[axis] : 0));
    model_of(index, shape, dtype, v);
    if (random_below(2)) index->t = hd_flip(hd_contiguous(hd_flip(index->t, HD_AXES())), HD_AXES());
}

/* Where element i of the index points in x. */
static int64_t target_of(const model *index, int64_t i, const hd_shape *x, int axis) {
    int64_t at[HD_MAX_RANK];
    coordinates_of(&index->shape, i, at);
    at[axis] = (int64_t)index->v[i] + (index->v[i] < 0 ? x->size[axis] : 0);
    return index_of(x, at);
}

static void gather_of_any_layout(void **state) {
    (void)state;
    static model x, index;
    static double v[MODEL_MOST];
    for (int round = 0; round < 500; ++round) {
        if (!when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        const int rank = 1 + (int)random_below(4), axis = (int)random_below(rank);
        random_model(&x, random_shape(rank, 5), dtype);
        random_index(&index, &x.shape, axis);
        for (int64_t i = 0; i < index.count; ++i) v[i] = x.v[target_of(&index, i, &x.shape, axis)];
        assert_tensor(hd_gather(x.t, random_below(2) ? axis : axis - rank, index.t), dtype, &index.shape, v);
    }
}

static double combine(hd_scatter_mode mode, hd_dtype dtype, double a, double b) {
    if (mode == HD_SCATTER_SET) return b;
    if (mode == HD_SCATTER_MAX || (dtype == HD_BOOL && mode == HD_SCATTER_ADD)) return a > b ? a : b; /* of bool: or */
    if (mode == HD_SCATTER_MIN) return a < b ? a : b;
    return mode == HD_SCATTER_ADD ? a + b : a * b;
}

static void scatter_in_every_mode_and_dtype(void **state) { /* in index order: of duplicates the last one is set */
    (void)state;
    static model x, index, source;
    for (int round = 0; round < 1500; ++round) {
        if (!when_compiled((uint64_t)round, 17)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + round % (HD_DTYPE_COUNT - 1));
        const hd_scatter_mode mode = (hd_scatter_mode)(1 + random_below(5));
        const int rank = 1 + (int)random_below(4), axis = (int)random_below(rank);
        random_model(&x, random_shape(rank, 4), dtype);
        random_index(&index, &x.shape, axis);
        double s[MODEL_MOST];
        for (int64_t i = 0; i < index.count; ++i)
            s[i] = mode == HD_SCATTER_MUL && dtype != HD_BOOL ? (double)(1 + random_below(2)) : random_value(dtype);
        model_of(&source, index.shape, dtype, s);
        for (int64_t i = 0; i < index.count; ++i) {
            const int64_t to = target_of(&index, i, &x.shape, axis);
            x.v[to] = combine(mode, dtype, x.v[to], source.v[i]);
        }
        hd_tensor *rounded = hd_cast(hd_cast(hd_from_data(x.v, x.shape, HD_F64), HD_I64),
                                     dtype); /* integers wrap, small floats round once */
        if (hd_dtype_is_float(dtype)) rounded = hd_cast(hd_from_data(x.v, x.shape, HD_F64), dtype);
        hd_tensor *before = hd_copy(x.t), *result = hd_scatter(x.t, axis, index.t, source.t, mode);
        assert_ok();
        assert_int_equal(hd_tensor_dtype(result), dtype);
        assert_same(result, rounded);
        assert_same(x.t, before); /* x is not written */
        assert_false(hd_tensor_shares_storage(result, x.t));
    }
}

static void large_gathers_use_threads(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 300000 };
    const int before = hd_num_threads();
    hd_set_num_threads(3);
    hd_seed(1);
    hd_tensor *x = hd_reshape(hd_range(0, 1, N, HD_F32), HD_SHAPE(N / 3, 3)),
              *index = hd_randint(HD_SHAPE(N), HD_I64, -N / 3, N / 3);
    hd_tensor *rows = hd_index_select(x, 0, index), *taken = hd_take(x, index),
              *gathered = hd_gather(hd_flatten(x), 0, index);
    const int64_t *p = hd_data_i64(index);
    const float *r = hd_data_f32(rows), *t = hd_data_f32(taken), *g = hd_data_f32(gathered);
    for (int64_t i = 0; i < N; ++i) {
        const int64_t row = p[i] < 0 ? p[i] + N / 3 : p[i], flat = p[i] < 0 ? p[i] + N : p[i];
        if (r[3 * i + 2] != (float)(3 * row + 2) || t[i] != (float)flat || g[i] != (float)flat)
            fail_msg("element %lld is wrong", (long long)i);
    }
    hd_set_num_threads(before);
}

/* Long rows are gathered in tiles: each as it is, with negative indices in some, along either axis, and none past the
 * bound is missed, wherever it is. */
static void long_rows_are_gathered_in_tiles(void **state) {
    (void)state;
    HD_SCOPE;
    enum { ROWS = 3, N = 2500, WIDE = 700 };
    static const hd_dtype dtypes[] = {HD_I64, HD_I32};
    hd_tensor *x = hd_reshape(hd_range(0, 1, ROWS * WIDE, HD_F32), HD_SHAPE(ROWS, WIDE));
    hd_tensor *turned = hd_contiguous(hd_t(x));
    for (int round = 0; round < 40; ++round) {
        HD_SCOPE;
        static int64_t v[ROWS][N];
        for (int64_t r = 0; r < ROWS; ++r)
            for (int64_t i = 0; i < N; ++i) v[r][i] = random_below(WIDE) - (i / 500 % 3 == round % 3 ? WIDE : 0);
        const bool bad = round % 4 == 3;
        const int64_t row = random_below(ROWS), place = random_below(N);
        if (bad) v[row][place] = random_below(2) ? WIDE + random_below(9) : -WIDE - 1 - random_below(9);
        hd_tensor *index = hd_cast(hd_from_data(&v[0][0], HD_SHAPE(ROWS, N), HD_I64), dtypes[round / 2 % 2]);
        hd_tensor *y = round % 2 ? hd_gather(x, 1, index) : hd_t(hd_gather(turned, 0, hd_contiguous(hd_t(index))));
        char message[128];
        const int64_t at = round % 2 ? row * N + place : place * ROWS + row;
        snprintf(message, sizeof message, "hd_gather: index %lld at place %lld of ", (long long)v[row][place],
                 (long long)at);
        if (bad) assert_null(y);
        if (bad) assert_error(HD_ERROR_INDEX, message);
        if (bad) continue;
        const float *got = hd_data_f32(hd_contiguous(y));
        for (int64_t r = 0; r < ROWS; ++r)
            for (int64_t i = 0; i < N; ++i)
                if (got[r * N + i] != (float)(r * WIDE + v[r][i] + (v[r][i] < 0 ? WIDE : 0)))
                    fail_msg("element %lld of row %lld is wrong", (long long)i, (long long)r);
    }
}

/* ---- the others -------------------------------------------------------------------------------------------------- */
static void take_sees_x_as_flat(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_t(hd_reshape(hd_range(0, 1, 6, HD_F32), HD_SHAPE(2, 3)));
    hd_tensor *y = hd_take(x, HD_TENSOR_I64(HD_SHAPE(2, 2), 0, 1, -1, 2));
    assert_values(y, HD_F32, 0, 3, 5, 1);
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(2, 2)));
    assert_values(hd_take(x, hd_scalar(-2, HD_I32)), HD_F32, 2);
    assert_values(hd_take(hd_scalar(8, HD_F32), HD_TENSOR_I64(HD_SHAPE(2), 0, -1)), HD_F32, 8, 8);
    assert_values(hd_take_along_axis(x, 1, HD_TENSOR_I64(HD_SHAPE(1, 1), 1)), HD_F32, 3, 4,
                  5); /* the index broadcasts */
    assert_values(hd_take_along_axis(HD_TENSOR_F32(HD_SHAPE(1, 2), 5, 6), 1, HD_TENSOR_I64(HD_SHAPE(2, 1), 1, 0)),
                  HD_F32, 6, 5); /* and x */
}

static void an_empty_index_takes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *none = hd_zeros(HD_SHAPE(0), HD_I64), *x = hd_ones(HD_SHAPE(3, 2), HD_F32);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_index_select(x, 0, none)), HD_SHAPE(0, 2)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_take(x, hd_zeros(HD_SHAPE(0, 4), HD_I64))), HD_SHAPE(0, 4)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_gather(x, 0, hd_zeros(HD_SHAPE(0, 2), HD_I64))), HD_SHAPE(0, 2)));
    assert_same(hd_scatter(x, 0, hd_zeros(HD_SHAPE(0, 2), HD_I64), hd_zeros(HD_SHAPE(0, 2), HD_F32), HD_SCATTER_SET),
                x);
    assert_same(hd_index_add(x, 1, none, hd_zeros(HD_SHAPE(3, 0), HD_F32)), x);
    assert_same(hd_index_copy(x, 1, none, hd_zeros(HD_SHAPE(3, 0), HD_F32)), x);
    assert_true(
        hd_shape_equal(hd_tensor_shape(hd_index_select(hd_zeros(HD_SHAPE(0, 2), HD_F32), 0, none)), HD_SHAPE(0, 2)));
    assert_true(hd_shape_equal(
        hd_tensor_shape(hd_index_select(hd_zeros(HD_SHAPE(2, 0), HD_F32), 0, HD_TENSOR_I64(HD_SHAPE(3), 0, 1, 0))),
        HD_SHAPE(3, 0)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_one_hot(none, 3, HD_F32)), HD_SHAPE(0, 3)));
    assert_ok();
    assert_null(hd_index_select(hd_zeros(HD_SHAPE(0), HD_F32), 0, HD_TENSOR_I64(HD_SHAPE(1), 0)));
    assert_error(HD_ERROR_INDEX, "for an axis of size 0");
}

static void out_of_range_names_place_and_bound(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_range(0, 1, 6, HD_F32), *m = hd_reshape(x, HD_SHAPE(2, 3));
    assert_null(hd_index_select(m, 1, HD_TENSOR_I64(HD_SHAPE(3), 0, -3, 3)));
    assert_error(HD_ERROR_INDEX, "hd_index_select: index 3 at place 2 of [3] is out of range for an axis of size 3");
    assert_null(hd_gather(m, 0, HD_TENSOR_I64(HD_SHAPE(1, 3), 0, -3, 5)));
    assert_error(HD_ERROR_INDEX, "hd_gather: index -3 at place 1 of [1,3] is out of range for an axis of size 2");
    assert_null(hd_scatter(m, 1, HD_TENSOR_I64(HD_SHAPE(2, 1), 0, 7), hd_ones(HD_SHAPE(2, 1), HD_F32), HD_SCATTER_ADD));
    assert_error(HD_ERROR_INDEX, "hd_scatter: index 7 at place 1 of [2,1] is out of range for an axis of size 3");
    assert_null(hd_take(m, HD_TENSOR_I64(HD_SHAPE(1), 6)));
    assert_error(HD_ERROR_INDEX, "hd_take: index 6 at place 0 of [1] is out of range for an axis of size 6");
    assert_null(hd_one_hot(HD_TENSOR_I64(HD_SHAPE(2), 0, 3), 3, HD_F32));
    assert_error(HD_ERROR_INDEX, "hd_one_hot: index 3 at place 1 of [2,1] is out of range for an axis of size 3");
    assert_null(hd_index_select(x, 0, HD_TENSOR_I64(HD_SHAPE(2), INT64_MAX, INT64_MIN)));
    assert_error(HD_ERROR_INDEX, "index 9223372036854775807 at place 0");
    assert_null(hd_index_select(x, 0, HD_TENSOR_I64(HD_SHAPE(1), INT64_MIN)));
    assert_error(HD_ERROR_INDEX, "index -9223372036854775808 at place 0");
    const uint64_t huge[2] = {UINT64_MAX, 0}; /* not -1 */
    assert_null(hd_index_select(x, 0, hd_from_data(huge, HD_SHAPE(2), HD_U64)));
    assert_error(HD_ERROR_INDEX, "at place 0 of [2] is out of range for an axis of size 6");
    assert_values(x, HD_F32, 0, 1, 2, 3, 4, 5);
}

static void wrong_shapes_and_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(3, 4), HD_F32), *i1 = HD_TENSOR_I64(HD_SHAPE(2), 0, 1),
              *i2 = hd_zeros(HD_SHAPE(3, 4), HD_I64);
    assert_null(hd_gather(x, 0, hd_zeros(HD_SHAPE(3, 4), HD_F32)));
    assert_error(HD_ERROR_DTYPE, "hd_gather: the index is f32; it must be an integer tensor");
    assert_null(hd_index_select(x, 0, hd_zeros(HD_SHAPE(3), HD_BOOL)));
    assert_error(HD_ERROR_DTYPE, "hd_index_select: the index is bool");
    assert_null(hd_gather(x, 0, i1));
    assert_error(HD_ERROR_SHAPE, "hd_gather: the index [2] does not fit [3,4]");
    assert_null(hd_gather(x, 0, hd_zeros(HD_SHAPE(3, 5), HD_I64)));
    assert_error(HD_ERROR_SHAPE, "hd_gather: the index [3,5] does not fit [3,4]");
    assert_null(hd_index_select(x, 0, i2));
    assert_error(HD_ERROR_SHAPE, "hd_index_select: the index is [3,4]; it must have one axis");
    assert_null(hd_scatter(x, 0, i2, hd_ones(HD_SHAPE(3, 3), HD_F32), HD_SCATTER_SET));
    assert_error(HD_ERROR_SHAPE, "hd_scatter: source [3,3] and index [3,4] differ");
    assert_null(hd_scatter(x, 0, i2, hd_ones(HD_SHAPE(3, 4), HD_F64), HD_SCATTER_SET));
    assert_error(HD_ERROR_DTYPE, "hd_scatter: source is f64 and x f32");
    assert_null(hd_scatter(x, 0, i2, x, (hd_scatter_mode)0));
    assert_error(HD_ERROR_VALUE, "hd_scatter: 0 is none of the modes");
    assert_null(hd_index_add(x, 0, i1, hd_ones(HD_SHAPE(3, 4), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_index_add: index [2] and source [3,4]");
    assert_null(hd_index_add(x, 0, i1, hd_ones(HD_SHAPE(2, 1), HD_F32))); /* would add to the first column only */
    assert_error(HD_ERROR_SHAPE, "hd_index_add");
    assert_null(hd_index_copy(x, 0, i1, hd_ones(HD_SHAPE(4), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_index_copy: index [2] and source [4] for x [3,4]");
    assert_null(hd_take_along_axis(x, 0, i1));
    assert_error(HD_ERROR_SHAPE, "hd_take_along_axis: x [3,4] and index [2] differ in rank");
    assert_null(hd_gather(hd_scalar(1, HD_F32), 0, hd_scalar(0, HD_I64)));
    assert_error(HD_ERROR_AXIS, "hd_gather: axis 0 of a scalar");
    assert_null(hd_gather(x, 0, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_gather: `index` is NULL");
}

static void masked_fill_and_one_hot(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_reshape(hd_range(0, 1, 4, HD_F16), HD_SHAPE(2, 2));
    assert_values(hd_masked_fill(x, hd_gt_scalar(x, 1), -1), HD_F16, 0, 1, -1, -1);
    assert_values(hd_masked_fill(x, hd_from_data((const bool[]){1, 0}, HD_SHAPE(2), HD_BOOL), INFINITY), HD_F16,
                  INFINITY, 1, INFINITY, 3);
    assert_values(hd_masked_fill(hd_range(0, 1, 3, HD_I32), hd_ones(HD_SHAPE(), HD_BOOL), 7), HD_I32, 7, 7, 7);
    assert_null(hd_masked_fill(x, x, 0));
    assert_error(HD_ERROR_DTYPE, "hd_masked_fill: the condition is f16; it must be bool");
    for (int dtype = HD_BOOL; dtype < HD_DTYPE_COUNT; ++dtype)
        assert_values(hd_one_hot(HD_TENSOR_I64(HD_SHAPE(3), 1, 0, -1), 3, (hd_dtype)dtype), (hd_dtype)dtype, 0, 1, 0, 1,
                      0, 0, 0, 0, 1);
    assert_values(hd_one_hot(hd_scalar(1, HD_U8), 2, HD_DTYPE_DEFAULT), HD_F32, 0, 1);
    assert_null(hd_one_hot(hd_scalar(1, HD_F32), 2, HD_F32));
    assert_error(HD_ERROR_DTYPE, "hd_one_hot: the index is f32");
    assert_null(hd_one_hot(hd_zeros(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HD_I64), 2, HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_one_hot");
    assert_null(hd_one_hot(hd_scalar(0, HD_I64), -1, HD_F32));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
}

static void
a_large_vocabulary_is_cheap(void **state) { /* one_hot of few indices costs what its result does, not classes^2 */
    (void)state;
    HD_SCOPE;
    hd_memory_reset_peak();
    hd_tensor *y = hd_one_hot(HD_TENSOR_I64(HD_SHAPE(2), 49999, -50000), 50000, HD_F32);
    assert_ok();
    assert_true(hd_item(hd_sum(y, HD_AXES(), NULL)) == 2 && hd_item(hd_select(hd_select(y, 0, 1), 0, 0)) == 1);
    assert_true(hd_memory().peak_bytes < 64 << 20);
}

RUN(test(as_numpy), test(gather_of_any_layout), test(scatter_in_every_mode_and_dtype), test(large_gathers_use_threads),
    test(long_rows_are_gathered_in_tiles), test(take_sees_x_as_flat), test(an_empty_index_takes_nothing),
    test(out_of_range_names_place_and_bound), test(wrong_shapes_and_dtypes), test(masked_fill_and_one_hot),
    test(a_large_vocabulary_is_cheap))
