/* Views: the right elements, no copy, Python's rules for slices, and what is refused. */
#include "families.h"

/* 0, 1, 2, ... in a shape. */
static hd_tensor *counting(hd_shape shape, hd_dtype dtype) {
    return hd_reshape(hd_range(0, 1, hd_shape_count(shape), dtype), shape);
}

#define assert_shape(t, ...) assert_true(hd_shape_equal(hd_tensor_shape(t), HD_SHAPE(__VA_ARGS__)))
#define assert_view_of(t, x) assert_true(hd_tensor_shares_storage(t, x))
#define assert_copy_of(t, x) assert_false(hd_tensor_shares_storage(t, x))

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
static void slices_follow_python(void **state) {
    (void)state;
    for (golden g = golden_open("slice"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = counting(HD_SHAPE((int64_t)g.argument[0]), HD_I32);
        const int64_t start = (int64_t)g.argument[1], stop = (int64_t)g.argument[2], step = (int64_t)g.argument[3];
        hd_tensor *y = hd_slice(x, 0, start, stop, step);
        assert_tensor(y, HD_I32, &g.shape, g.v);
        assert_view_of(y, x);
        hd_tensor *inside = hd_slice(hd_t(hd_broadcast_to(x, HD_SHAPE(2, hd_tensor_size(x, 0)))), 0, start, stop,
                                     step); /* also of a strided axis */
        assert_tensor(hd_select(inside, 1, 1), HD_I32, &g.shape, g.v);
    }
}

static void slices_with_extreme_bounds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(5), HD_I32);
    assert_values(hd_slice(x, 0, INT64_MIN + 1, INT64_MAX, INT64_MAX), HD_I32, 0);
    assert_values(hd_slice(x, 0, INT64_MAX, INT64_MIN + 1, INT64_MIN + 1), HD_I32, 4);
    assert_int_equal(hd_tensor_count(hd_slice(x, 0, INT64_MAX, HD_END, 1)), 0);
    assert_int_equal(hd_tensor_count(hd_slice(x, 0, HD_END, INT64_MAX, -1)), 0);
    assert_ok();
    assert_null(hd_slice(x, 0, 0, 5, 0));
    assert_error(HD_ERROR_VALUE, "hd_slice: a step of 0");
    assert_null(hd_slice(x, 0, 0, 5, INT64_MIN));
    assert_error(HD_ERROR_VALUE, "hd_slice: a step of -9223372036854775808");
    assert_null(hd_slice(x, 1, 0, 5, 1));
    assert_error(HD_ERROR_AXIS, "hd_slice: axis 1 is out of range");
}

static void permutations_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("permute"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = counting(HD_SHAPE(2, 3, 4), HD_F32);
        const int order[3] = {(int)g.argument[0], (int)g.argument[1] - 3, (int)g.argument[2]}; /* negative ones too */
        hd_tensor *y = hd_permute(x, hd_axes_of(order, 3));
        assert_tensor(y, HD_F32, &g.shape, g.v);
        assert_view_of(y, x);
    }
    for (golden g = golden_open("move_axis"); golden_next(&g);) {
        HD_SCOPE;
        assert_tensor(hd_move_axis(counting(HD_SHAPE(2, 3, 1, 4), HD_F32), (int)g.argument[0], (int)g.argument[1]),
                      HD_F32, &g.shape, g.v);
    }
    for (golden g = golden_open("transpose"); golden_next(&g);) {
        HD_SCOPE;
        assert_tensor(hd_transpose(counting(HD_SHAPE(2, 3, 1, 4), HD_F32), (int)g.argument[0], (int)g.argument[1]),
                      HD_F32, &g.shape, g.v);
    }
}

static void diagonals_and_windows_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("diagonal"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = counting(HD_SHAPE(3, 4, 2), HD_F32),
                  *y = hd_diagonal(x, (int64_t)g.argument[0], (int)g.argument[1], (int)g.argument[2]);
        assert_tensor(y, HD_F32, &g.shape, g.v);
        assert_view_of(y, x);
    }
    for (golden g = golden_open("unfold"); golden_next(&g);) {
        HD_SCOPE;
        hd_tensor *x = counting(HD_SHAPE(3, 4), HD_F32),
                  *y = hd_unfold(x, (int)g.argument[0], (int64_t)g.argument[1], (int64_t)g.argument[2]);
        assert_tensor(y, HD_F32, &g.shape, g.v);
        assert_view_of(y, x);
    }
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(3, 4), HD_F32);
    assert_shape(hd_diagonal(x, INT64_MAX, 0, 1), 0);
    assert_shape(hd_diagonal(x, INT64_MIN, 0, 1), 0);
    assert_ok();
    assert_null(hd_diagonal(x, 0, 1, -1));
    assert_error(HD_ERROR_AXIS, "hd_diagonal: axis 1 is given twice");
    assert_null(hd_unfold(x, 1, 5, 1));
    assert_error(HD_ERROR_SHAPE, "hd_unfold: windows of 5, 1 apart, on axis 1 of [3,4]");
    assert_null(hd_unfold(x, 1, 2, 0));
    assert_error(HD_ERROR_SHAPE, "hd_unfold");
}

/* ---- reshape ----------------------------------------------------------------------------------------------------- */
static void
reshape_of_any_layout(void **state) { /* the same values in row-major order, a view whenever strides allow */
    (void)state;
    static model m;
    for (int round = 0; round < 600; ++round) {
        HD_SCOPE;
        random_model(&m, random_shape((int)random_below(5), 4), HD_I32);
        hd_shape shape = {.rank = 0}; /* the factors of the count in any grouping, with some ones */
        for (int64_t left = m.count, f = 2; left > 1 && shape.rank < 6;) {
            while (left % f != 0) ++f;
            int64_t size = f;
            left /= f;
            while (left > 1 && random_below(2) && left % 2 == 0) size *= 2, left /= 2;
            if (shape.rank == 5) size *= left, left = 1;
            if (random_below(4) == 0 && shape.rank < 5) shape.size[shape.rank++] = 1;
            shape.size[shape.rank++] = size;
        }
        if (hd_shape_count(shape) != m.count) continue;
        hd_tensor *y = hd_reshape(m.t, shape);
        assert_tensor(y, HD_I32, &shape, m.v);
        if (hd_tensor_is_contiguous(m.t))
            assert_view_of(y, m.t);
        else if (!hd_tensor_shares_storage(y, m.t))
            assert_true(hd_tensor_is_contiguous(y));
        if (shape.rank > 0) {
            hd_shape open = shape;
            open.size[random_below(shape.rank)] = -1;
            assert_tensor(hd_reshape(m.t, open), HD_I32, &shape, m.v);
        }
        const hd_shape flat = HD_SHAPE(m.count);
        assert_tensor(hd_flatten(m.t), HD_I32, &flat, m.v);
    }
}

static void reshape_copies_only_when_it_must(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(4, 6), HD_F32);
    assert_view_of(hd_reshape(x, HD_SHAPE(2, 2, 3, 2)), x);
    assert_view_of(hd_reshape(hd_t(x), HD_SHAPE(2, 3, 4)), x); /* splits an axis of the transpose */
    assert_view_of(hd_reshape(hd_slice(x, 1, 0, 6, 2), HD_SHAPE(2, 2, 3)), x);
    assert_view_of(hd_flatten(hd_flip(x, HD_AXES())), x); /* reversed as a whole: one stride */
    hd_tensor *one = hd_scalar(1, HD_F32);
    assert_view_of(hd_flatten(hd_broadcast_to(one, HD_SHAPE(3, 4))), one); /* stride 0 throughout */
    assert_copy_of(hd_flatten(hd_t(x)), x);
    assert_copy_of(hd_flatten(hd_narrow(x, 1, 0, 5)), x);
    assert_copy_of(hd_reshape(hd_flip(x, HD_AXES(0)), HD_SHAPE(24)), x);
    assert_values(hd_reshape(hd_narrow(x, 1, 4, 2), HD_SHAPE(8)), HD_F32, 4, 5, 10, 11, 16, 17, 22, 23);
}

static void reshape_refuses_what_does_not_fit(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(4, 6), HD_F32), *none = hd_zeros(HD_SHAPE(0, 3), HD_F32);
    assert_null(hd_reshape(x, HD_SHAPE(5, -1)));
    assert_error(HD_ERROR_SHAPE, "hd_reshape: [4,6] has 24 elements, which do not fit [5,-1]");
    assert_null(hd_reshape(x, HD_SHAPE(-1, -1)));
    assert_error(HD_ERROR_SHAPE, "one may be -1");
    assert_null(hd_reshape(x, HD_SHAPE(23)));
    assert_error(HD_ERROR_SHAPE, "do not fit [23]");
    assert_null(hd_reshape(x, HD_SHAPE(INT64_MAX, 3)));
    assert_error(HD_ERROR_SHAPE, "hd_reshape");
    assert_null(hd_reshape(x, HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 24)));
    assert_error(HD_ERROR_SHAPE, "more than 8 axes");
    assert_shape(hd_reshape(none, HD_SHAPE(7, 0)), 7, 0);
    assert_shape(hd_reshape(none, HD_SHAPE(3, -1)), 3, 0);
    assert_null(hd_reshape(none, HD_SHAPE(0, -1))); /* any size would do: as NumPy, an error */
    assert_error(HD_ERROR_SHAPE, "hd_reshape: [0,3] has 0 elements");
    assert_null(
        hd_reshape(none, HD_SHAPE(0, INT64_MAX, INT64_MAX))); /* as NumPy: strides must fit also where nothing is */
    assert_error(HD_ERROR_OVERFLOW, "hd_reshape");
    assert_null(hd_reshape(none, HD_SHAPE(INT64_MAX, INT64_MAX, 0)));
    assert_error(HD_ERROR_SHAPE, "hd_reshape");
}

static void axes_of_size_one_come_and_go(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(1, 3, 1, 2, 1), HD_F32);
    assert_shape(hd_squeeze(x, HD_AXES()), 3, 2);
    assert_shape(hd_squeeze(x, HD_AXES(0, -1)), 3, 1, 2);
    assert_view_of(hd_squeeze(hd_flip(x, HD_AXES(1)), HD_AXES()), x);
    assert_values(hd_squeeze(hd_flip(x, HD_AXES(1)), HD_AXES()), HD_F32, 4, 5, 2, 3, 0, 1);
    assert_shape(hd_unsqueeze(x, -1), 1, 3, 1, 2, 1, 1);
    assert_shape(hd_unsqueeze(hd_scalar(1, HD_F32), 0), 1);
    assert_view_of(hd_unsqueeze(hd_t(x), 2), x);
    assert_ok();
    assert_null(hd_squeeze(x, HD_AXES(1)));
    assert_error(HD_ERROR_SHAPE, "hd_squeeze: axis 1 of [1,3,1,2,1] has size 3, not 1");
    assert_null(hd_unsqueeze(x, 6));
    assert_error(HD_ERROR_AXIS, "hd_unsqueeze: axis 6 is out of range");
    assert_null(hd_unsqueeze(hd_ones(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HD_F32), 0));
    assert_error(HD_ERROR_SHAPE, "hd_unsqueeze");
    assert_int_equal(hd_tensor_rank(hd_squeeze(hd_ones(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), HD_F32), HD_AXES())), 0);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */
static void broadcasting_repeats_without_copying(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 1), 1, 2);
    hd_tensor *y = hd_broadcast_to(x, HD_SHAPE(2, 2, 3));
    assert_values(y, HD_F32, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2);
    assert_view_of(y, x);
    assert_int_equal(hd_tensor_stride(y, 0), 0);
    assert_shape(hd_expand(x, HD_SHAPE(4, -1, 3)), 4, 2, 3);
    assert_shape(hd_broadcast_to(x, HD_SHAPE(2, 0)), 2, 0);
    assert_int_equal(hd_tensor_count(hd_broadcast_to(hd_zeros(HD_SHAPE(), HD_U8), HD_SHAPE(INT64_MAX))), INT64_MAX);
    assert_ok();
    assert_null(hd_broadcast_to(x, HD_SHAPE(3, 3)));
    assert_error(HD_ERROR_SHAPE, "hd_broadcast_to: [2,1] and [3,3] do not broadcast");
    assert_null(hd_broadcast_to(x, HD_SHAPE(1, 3)));
    assert_error(HD_ERROR_SHAPE, "hd_broadcast_to");
    assert_null(hd_broadcast_to(x, HD_SHAPE(3)));
    assert_error(HD_ERROR_SHAPE, "hd_broadcast_to");
    assert_null(hd_expand(x, HD_SHAPE(-1, 2, 3)));
    assert_error(HD_ERROR_SHAPE, "negative size");
    assert_null(hd_broadcast_to(x, HD_SHAPE(INT64_MAX, 2, 3)));
    assert_error(HD_ERROR_OVERFLOW, "more bytes than 64 bits can count");
}

static void select_narrow_and_flip(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(2, 3), HD_F32);
    assert_values(hd_select(x, 0, -1), HD_F32, 3, 4, 5);
    assert_values(hd_select(x, -1, 1), HD_F32, 1, 4);
    assert_values(hd_narrow(x, 1, -2, 2), HD_F32, 1, 2, 4, 5);
    assert_shape(hd_narrow(x, 1, 3, 0), 2, 0);
    assert_values(hd_flip(x, HD_AXES()), HD_F32, 5, 4, 3, 2, 1, 0);
    assert_values(hd_flip(x, HD_AXES(-1)), HD_F32, 2, 1, 0, 5, 4, 3);
    assert_values(hd_flip(hd_scalar(3, HD_F32), HD_AXES()), HD_F32, 3);
    assert_shape(hd_flip(hd_zeros(HD_SHAPE(0, 2), HD_F32), HD_AXES()), 0, 2);
    assert_view_of(hd_select(hd_flip(x, HD_AXES()), 1, 0), x);
    assert_values(hd_t(x), HD_F32, 0, 3, 1, 4, 2, 5);
    assert_ok();
    assert_null(hd_select(x, 1, 3));
    assert_error(HD_ERROR_INDEX, "hd_select: index 3 is out of range for axis 1 of [2,3]");
    assert_null(hd_select(x, 1, INT64_MIN));
    assert_error(HD_ERROR_INDEX, "hd_select");
    assert_null(hd_narrow(x, 1, 2, 2));
    assert_error(HD_ERROR_INDEX, "hd_narrow: 2 elements from 2 do not lie in axis 1 of [2,3]");
    assert_null(hd_narrow(x, 1, 0, INT64_MAX));
    assert_error(HD_ERROR_INDEX, "hd_narrow");
    assert_null(hd_t(hd_ones(HD_SHAPE(3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_t: [3] has no two axes");
    assert_null(hd_permute(x, HD_AXES(0)));
    assert_error(HD_ERROR_AXIS, "hd_permute: 1 axes for [2,3], which has 2");
    assert_null(hd_permute(x, HD_AXES(0, -2)));
    assert_error(HD_ERROR_AXIS, "hd_permute: axis -2 is given twice");
    assert_null(hd_flip(x, HD_AXES(0, 0)));
    assert_error(HD_ERROR_AXIS, "hd_flip: axis 0 is given twice");
}

static void as_strided_stays_inside_the_storage(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(HD_SHAPE(12), HD_F32);
    assert_values(hd_as_strided(x, HD_SHAPE(3, 2), HD_SHAPE(4, -1), 1), HD_F32, 1, 0, 5, 4, 9, 8);
    assert_values(hd_as_strided(hd_narrow(x, 0, 6, 2), HD_SHAPE(2), HD_SHAPE(11), 0), HD_F32, 0,
                  11); /* of the storage, not the view */
    assert_values(hd_as_strided(x, HD_SHAPE(), HD_SHAPE(), 11), HD_F32, 11);
    assert_shape(hd_as_strided(x, HD_SHAPE(0, 5), HD_SHAPE(INT64_MAX, INT64_MAX), 0), 0, 5);
    assert_ok();
    const struct {
        hd_shape shape, strides;
        int64_t offset;
    } outside[] = {{HD_SHAPE(2), HD_SHAPE(12), 0},         {HD_SHAPE(2), HD_SHAPE(-1), 0},
                   {HD_SHAPE(), HD_SHAPE(), 12},           {HD_SHAPE(), HD_SHAPE(), -1},
                   {HD_SHAPE(3, 2), HD_SHAPE(4, 4), 0},    {HD_SHAPE(3), HD_SHAPE(INT64_MAX), 0},
                   {HD_SHAPE(2), HD_SHAPE(INT64_MIN), 11}, {HD_SHAPE(2, 2), HD_SHAPE(INT64_MAX, INT64_MIN), 5},
                   {HD_SHAPE(1), HD_SHAPE(0), INT64_MAX},  {HD_SHAPE(2), HD_SHAPE(1), INT64_MAX}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; ++i) {
        assert_null(hd_as_strided(x, outside[i].shape, outside[i].strides, outside[i].offset));
        assert_error(HD_ERROR_INDEX, "hd_as_strided: the layout reaches");
    }
    assert_null(hd_as_strided(x, HD_SHAPE(2, 2), HD_SHAPE(1), 0));
    assert_error(HD_ERROR_SHAPE, "hd_as_strided: 1 strides for [2,2]");
    hd_tensor *nothing =
        hd_as_strided(x, HD_SHAPE(0), HD_SHAPE(1), INT64_MAX); /* no elements lie inside, wherever they begin */
    assert_values(hd_sum(nothing, HD_AXES(), NULL), HD_F32, 0);
}

static void bitcast_reads_the_bits(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 2), 1, -0.0f, 2, 0), *bits = hd_bitcast(hd_t(x), HD_U32);
    assert_values(bits, HD_U32, 0x3f800000, 0x40000000, 0x80000000, 0);
    assert_view_of(bits, x);
    assert_same(hd_bitcast(bits, HD_F32), hd_t(x));
    assert_values(hd_bitcast(hd_ones(HD_SHAPE(1), HD_BOOL), HD_I8), HD_I8, 1);
    assert_ok();
    assert_null(hd_bitcast(x, HD_F64));
    assert_error(HD_ERROR_DTYPE, "hd_bitcast: f32 has 4 bytes and f64 has 8");
    assert_null(hd_bitcast(hd_full(HD_SHAPE(1), HD_U8, 7), HD_BOOL)); /* 7 is no bool */
    assert_error(HD_ERROR_DTYPE, "no bits are read as bool");
}

static void writing_through_a_view_shows_in_the_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(3, 3), HD_I32);
    hd_fill(hd_diagonal(x, 0, 0, 1), 1);
    hd_fill(hd_select(hd_flip(x, HD_AXES()), 0, 0), 7);
    hd_fill(hd_reshape(hd_slice(hd_t(x), 0, 2, 3, 1), HD_SHAPE(3)), 5);
    assert_values(x, HD_I32, 1, 0, 5, 0, 1, 5, 7, 7, 5);
}

RUN(test(slices_follow_python), test(slices_with_extreme_bounds), test(permutations_as_numpy),
    test(diagonals_and_windows_as_numpy), test(reshape_of_any_layout), test(reshape_copies_only_when_it_must),
    test(reshape_refuses_what_does_not_fit), test(axes_of_size_one_come_and_go),
    test(broadcasting_repeats_without_copying), test(select_narrow_and_flip), test(as_strided_stays_inside_the_storage),
    test(bitcast_reads_the_bits), test(writing_through_a_view_shows_in_the_tensor))
