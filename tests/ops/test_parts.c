/* hd_split, hd_chunk and hd_unbind: the right elements of any layout, no copy, what empty axes give, and what is
 * refused. */
#include "builders.h"
#include "families.h"

#define S HD_SHAPE

/* 0, 1, 2, ... in a shape. */
static hd_tensor *counting(hd_shape shape) { return hd_reshape(hd_range(0, 1, hd_shape_count(shape), HD_F32), shape); }

#define assert_shape(t, ...) assert_true(hd_shape_equal(hd_tensor_shape(t), S(__VA_ARGS__)))

/* ---- values ------------------------------------------------------------------------------------------------------ */
/* The part has the elements of m from `start` to `stop` on an axis, and is a view of it. */
static void check_part(const model *m, hd_tensor *part, int axis, int64_t start, int64_t stop, bool keeps_axis) {
    static double v[MODEL_MOST];
    hd_shape shape = {.rank = 0};
    for (int i = 0; i < m->shape.rank; ++i)
        if (i != axis || keeps_axis) shape.size[shape.rank++] = i == axis ? stop - start : m->shape.size[i];
    int64_t count = 0;
    for (int64_t i = 0; i < m->count; ++i) { /* those of m that lie there, in its order */
        int64_t at[HD_MAX_RANK];
        coordinates_of(&m->shape, i, at);
        if (at[axis] >= start && at[axis] < stop) v[count++] = m->v[i];
    }
    assert_int_equal(count, hd_shape_count(shape));
    assert_tensor(part, HD_I32, &shape, v);
    assert_true(hd_tensor_shares_storage(part, m->t));
}

/* Walks the axis as a reader would: until nothing is left, `size` at a time. */
static void check_parts(const model *m, hd_tensors *parts, int axis, int64_t size) {
    int64_t start = 0, seen = 0;
    assert_ok();
    for (const int64_t n = m->shape.size[axis]; start < n; ++seen) {
        const int64_t stop = start + size < n ? start + size : n;
        check_part(m, hd_tensors_get(parts, seen), axis, start, stop, true);
        start = stop;
    }
    assert_int_equal(hd_tensors_count(parts), seen);
}

static void parts_of_any_layout(void **state) {
    (void)state;
    static model m;
    for (int round = 0; round < 300; ++round) {
        HD_SCOPE;
        random_model(&m, random_shape(1 + (int)random_below(4), 5), HD_I32);
        const int rank = m.shape.rank, axis = (int)random_below(rank), given = axis - (round % 2 ? rank : 0);
        const int64_t n = m.shape.size[axis];
        for (int64_t k = 1; k <= n + 2; ++k) {
            check_parts(&m, hd_split(m.t, k, given), axis, k);
            int64_t size = 1; /* the smallest with which k parts reach the end */
            while (size * k < n) ++size;
            check_parts(&m, hd_chunk(m.t, k, given), axis, size);
        }
        hd_tensors *single = hd_unbind(m.t, given);
        assert_int_equal(hd_tensors_count(single), n);
        for (int64_t i = 0; i < n; ++i) check_part(&m, hd_tensors_get(single, i), axis, i, i + 1, false);
    }
}

static void the_last_part_has_what_is_left(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(S(7, 2));
    hd_tensors *parts = hd_split(x, 3, 0);
    assert_int_equal(hd_tensors_count(parts), 3);
    assert_shape(hd_tensors_get(parts, 1), 3, 2);
    assert_values(hd_tensors_get(parts, 2), HD_F32, 12, 13);
    assert_int_equal(hd_tensors_count(hd_chunk(x, 4, 0)), 4); /* 2, 2, 2, 1 */
    assert_int_equal(hd_tensors_count(hd_chunk(x, 5, 0)), 4); /* four of two reach the end: there is no fifth */
    assert_int_equal(hd_tensors_count(hd_chunk(x, INT64_MAX, 0)), 7);
    assert_int_equal(hd_tensors_count(hd_split(x, INT64_MAX, 1)), 1);
    assert_values(hd_tensors_get(hd_unbind(x, -1), 1), HD_F32, 1, 3, 5, 7, 9, 11, 13);
    assert_int_equal(hd_tensor_rank(hd_tensors_get(hd_unbind(hd_select(x, 0, 0), 0), 1)), 0);
    assert_ok();
}

static void axes_without_elements(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(S(0, 3), HD_F32);
    hd_tensors *parts = hd_split(x, 2, 0); /* as PyTorch: one part, and as many chunks as were asked for */
    assert_int_equal(hd_tensors_count(parts), 1);
    assert_shape(hd_tensors_get(parts, 0), 0, 3);
    parts = hd_chunk(x, 3, 0);
    assert_int_equal(hd_tensors_count(parts), 3);
    assert_shape(hd_tensors_get(parts, 2), 0, 3);
    assert_int_equal(hd_tensors_count(hd_unbind(x, 0)), 0);
    parts = hd_unbind(x, 1);
    assert_int_equal(hd_tensors_count(parts), 3);
    assert_shape(hd_tensors_get(parts, 2), 0);
    assert_int_equal(hd_tensors_count(hd_split(x, 2, 1)), 2);
    assert_ok();
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void writing_a_part_writes_the_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(S(3, 3), HD_F32);
    hd_fill(hd_tensors_get(hd_split(x, 2, 0), 1), 1);
    hd_fill(hd_tensors_get(hd_chunk(hd_t(x), 3, 0), 0), 2);
    hd_fill(hd_tensors_get(hd_unbind(x, 1), 2), 3);
    assert_values(x, HD_F32, 2, 0, 3, 2, 0, 3, 2, 1, 3);
}

/* The list holds its parts, and they hold the memory. */
static void a_list_outlives_its_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensors *parts;
    {
        HD_SCOPE;
        parts = hd_keep(hd_split(counting(S(4)), 3, 0));
    }
    assert_values(hd_tensors_get(parts, 0), HD_F32, 0, 1, 2);
    assert_values(hd_tensors_get(parts, 1), HD_F32, 3);
}

/* ---- gradients and scripts --------------------------------------------------------------------------------------- */
static hd_tensor *of_parts(hd_tensor *x) { /* x0 * x1 + x2 * x4 of the columns of a [3,5] */
    hd_tensors *parts = hd_split(x, 2, 1), *first = hd_unbind(hd_tensors_get(parts, 0), -1);
    hd_tensor *last = hd_select(hd_tensors_get(parts, 2), 1, 0),
              *third = hd_select(hd_tensors_get(hd_chunk(x, 3, 1), 1), 1, 0);
    return hd_add(hd_mul(hd_tensors_get(first, 0), hd_tensors_get(first, 1)), hd_mul(third, last));
}

static void parts_have_the_history_of_the_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(counting(S(3, 5))), *y = of_parts(x);
    assert_values(y, HD_F32, 8, 93, 278);
    hd_backward(y);
    assert_values(hd_grad(x), HD_F32, 1, 0, 4, 0, 2, 6, 5, 9, 0, 7, 11, 10, 14, 0, 12);
    hd_clear_tape();
    HD_NO_GRAD;
    assert_false(hd_tensor_requires_grad(hd_tensors_get(hd_unbind(x, 0), 0)));
}

static void parts_in_a_script(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *x = hd_requires_grad(counting(S(3, 5)));
        hd_builder *b = started("parts");
        hd_builder_bind(b, "x", x);
        hd_tensor *y = of_parts(x);
        hd_backward(y);
        hd_builder_add_output(b, "y", y);
        hd_builder_add_output(b, "g", hd_grad(x));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        assert_values(output(s, "y"), HD_F32, 8, 93, 278);
        assert_values(output(s, "g"), HD_F32, 1, 0, 4, 0, 2, 6, 5, 9, 0, 7, 11, 10, 14, 0, 12);
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */
static void what_cannot_be_cut(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = counting(S(2, 3)), *scalar = hd_scalar(1, HD_F32);
    assert_null(hd_split(x, 0, 1));
    assert_error(HD_ERROR_VALUE,
                 "hd_split: parts of 0 along axis 1 of [2,3]; give the size of one part, which is >= 1");
    assert_null(hd_split(x, INT64_MIN, -2));
    assert_error(HD_ERROR_VALUE, "hd_split: parts of -9223372036854775808 along axis 0 of [2,3]");
    assert_null(hd_chunk(x, 0, -1));
    assert_error(HD_ERROR_VALUE, "hd_chunk: 0 parts along axis 1 of [2,3]; give the number of parts, which is >= 1");
    assert_null(hd_chunk(x, -4, 0));
    assert_error(HD_ERROR_VALUE, "hd_chunk: -4 parts");
    assert_null(hd_split(x, 1, 2));
    assert_error(HD_ERROR_AXIS, "hd_split: axis 2 is out of range; a tensor of rank 2 has axes -2 to 1");
    assert_null(hd_chunk(x, 1, -3));
    assert_error(HD_ERROR_AXIS, "hd_chunk: axis -3 is out of range");
    assert_null(hd_unbind(x, 2));
    assert_error(HD_ERROR_AXIS, "hd_unbind: axis 2 is out of range");
    assert_null(hd_split(scalar, 1, 0));
    assert_error(HD_ERROR_AXIS, "hd_split: axis 0 of a scalar, which has none");
    assert_null(hd_chunk(scalar, 1, -1));
    assert_error(HD_ERROR_AXIS, "hd_chunk: axis -1 of a scalar");
    assert_null(hd_unbind(scalar, 0));
    assert_error(HD_ERROR_AXIS, "hd_unbind: axis 0 of a scalar");
    assert_null(hd_split(NULL, 1, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_split: `x` is NULL");
    assert_null(hd_chunk(NULL, 1, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_chunk: `x` is NULL");
    assert_null(hd_unbind(NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_unbind: `x` is NULL");
}

static void more_parts_than_a_list_holds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *wide = hd_broadcast_to(hd_zeros(S(), HD_U8), S(INT64_MAX));
    assert_null(hd_unbind(wide, 0));
    assert_error(HD_ERROR_VALUE, "hd_unbind: axis 0 of [9223372036854775807] in 9223372036854775807 parts; a list "
                                 "holds at most 2147483647, so ask for fewer");
    assert_null(hd_split(wide, 2, 0));
    assert_error(HD_ERROR_VALUE, "hd_split: axis 0 of [9223372036854775807] in 4611686018427387904 parts");
    assert_null(hd_chunk(hd_zeros(S(0), HD_U8), INT64_MAX, 0));
    assert_error(HD_ERROR_VALUE, "hd_chunk: axis 0 of [0] in 9223372036854775807 parts");
    hd_tensors *halves = hd_chunk(wide, 2, 0);
    assert_int_equal(hd_tensor_count(hd_tensors_get(halves, 1)), INT64_MAX / 2);
}

RUN(test(parts_of_any_layout), test(the_last_part_has_what_is_left), test(axes_without_elements),
    test(writing_a_part_writes_the_tensor), test(a_list_outlives_its_tensor),
    test(parts_have_the_history_of_the_tensor), test(parts_in_a_script), test(what_cannot_be_cut),
    test(more_parts_than_a_list_holds))
