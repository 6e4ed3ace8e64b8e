/* hd_dot_general and what is made of it or beside it: against plain loops in f64, for operands of any layout. */
#include "families.h"

/* ---- hd_dot_general ---------------------------------------------------------------------------------------------- */
/* Axes of both operands in groups: axis i of a group of one is the pair of axis i of that of the other. */
typedef struct random_dot {
    model a, b;
    hd_axes summed_a, summed_b, batch_a, batch_b, free_a, free_b;
} random_dot;

static void shuffle(int *list, int count) {
    for (int i = count - 1; i > 0; --i) {
        const int k = (int)random_below(i + 1), other = list[i];
        list[i] = list[k];
        list[k] = other;
    }
}

static void random_operands(random_dot *d) {
    const int batch = (int)random_below(3), summed = (int)random_below(4), free_a = (int)random_below(3),
              free_b = (int)random_below(3);
    int of_a[HD_MAX_RANK], of_b[HD_MAX_RANK]; /* which axis is the k-th of batch, summed, free */
    for (int i = 0; i < HD_MAX_RANK; ++i) of_a[i] = of_b[i] = i;
    shuffle(of_a, batch + summed + free_a);
    shuffle(of_b, batch + summed + free_b);
    hd_shape a = {.rank = batch + summed + free_a}, b = {.rank = batch + summed + free_b};
    for (int i = 0; i < a.rank; ++i) a.size[of_a[i]] = random_below(20) == 0 ? 0 : 1 + random_below(3);
    for (int i = 0; i < b.rank; ++i) b.size[of_b[i]] = i < batch + summed ? a.size[of_a[i]] : 1 + random_below(3);
    random_model(&d->a, a, HD_F64);
    random_model(&d->b, b, HD_F64);
    d->summed_a = d->summed_b = d->batch_a = d->batch_b = d->free_a = d->free_b = (hd_axes){.count = 0};
    for (int i = 0; i < batch + summed; ++i) {
        hd_axes *x = i < batch ? &d->batch_a : &d->summed_a, *y = i < batch ? &d->batch_b : &d->summed_b;
        x->axis[x->count++] = of_a[i];
        y->axis[y->count++] = of_b[i];
    }
    for (int axis = 0; axis < a.rank; ++axis)
        for (int i = batch + summed; i < a.rank; ++i)
            if (of_a[i] == axis) d->free_a.axis[d->free_a.count++] = axis;
    for (int axis = 0; axis < b.rank; ++axis)
        for (int i = batch + summed; i < b.rank; ++i)
            if (of_b[i] == axis) d->free_b.axis[d->free_b.count++] = axis;
}

/* random_model changes sizes as it cuts and steps: paired axes are cut to the smaller of the two. */
static bool same_sizes(random_dot *d) {
    for (int i = 0; i < d->batch_a.count + d->summed_a.count; ++i) {
        const bool is_batch = i < d->batch_a.count;
        const int k = is_batch ? i : i - d->batch_a.count, x = (is_batch ? d->batch_a : d->summed_a).axis[k],
                  y = (is_batch ? d->batch_b : d->summed_b).axis[k];
        model *larger = d->a.shape.size[x] > d->b.shape.size[y] ? &d->a : &d->b;
        const int axis = larger == &d->a ? x : y;
        const int64_t size = larger == &d->a ? d->b.shape.size[y] : d->a.shape.size[x];
        larger->t = hd_narrow(larger->t, axis, 0, size);
        larger->shape.size[axis] = size;
    }
    model_read(&d->a);
    model_read(&d->b);
    return hd_ok();
}

static void append_sizes(hd_shape *to, const hd_shape *from, const hd_axes *axes) {
    for (int i = 0; i < axes->count; ++i) to->size[to->rank++] = from->size[axes->axis[i]];
}

static void scatter_places(int64_t *at, const int64_t *place, const hd_axes *axes) {
    for (int i = 0; i < axes->count; ++i) at[axes->axis[i]] = place[i];
}

static hd_axes maybe_negative(hd_axes axes, int rank) {
    for (int i = 0; i < axes.count; ++i)
        if (random_below(2)) axes.axis[i] -= rank;
    return axes;
}

static void any_axes_of_any_layout(void **state) {
    (void)state;
    static random_dot d;
    static double v[MODEL_MOST];
    for (int round = 0; round < 1500; ++round) {
        if (!when_slow(round, 4) || !when_compiled((uint64_t)round, 11)) continue;
        HD_SCOPE;
        random_operands(&d);
        assert_true(same_sizes(&d));
        const hd_shape *x = &d.a.shape, *y = &d.b.shape;
        hd_shape result = {.rank = 0}, summed = {.rank = 0};
        append_sizes(&result, x, &d.batch_a);
        append_sizes(&result, x, &d.free_a);
        append_sizes(&result, y, &d.free_b);
        append_sizes(&summed, x, &d.summed_a);
        for (int64_t n = 0; n < hd_shape_count(result); ++n) {
            int64_t place[HD_MAX_RANK], in_sum[HD_MAX_RANK], at_a[HD_MAX_RANK], at_b[HD_MAX_RANK];
            coordinates_of(&result, n, place);
            scatter_places(at_a, place, &d.batch_a);
            scatter_places(at_b, place, &d.batch_b);
            scatter_places(at_a, place + d.batch_a.count, &d.free_a);
            scatter_places(at_b, place + d.batch_a.count + d.free_a.count, &d.free_b);
            v[n] = 0;
            for (int64_t k = 0; k < hd_shape_count(summed); ++k) {
                coordinates_of(&summed, k, in_sum);
                scatter_places(at_a, in_sum, &d.summed_a);
                scatter_places(at_b, in_sum, &d.summed_b);
                v[n] += d.a.v[index_of(x, at_a)] * d.b.v[index_of(y, at_b)];
            }
        }
        hd_tensor *z =
            hd_dot_general(d.a.t, d.b.t, maybe_negative(d.summed_a, x->rank), maybe_negative(d.summed_b, y->rank),
                           maybe_negative(d.batch_a, x->rank), maybe_negative(d.batch_b, y->rank));
        assert_tensor(z, HD_F64, &result, v);
        if (d.batch_a.count == 0) assert_same(hd_tensordot(d.a.t, d.b.t, d.summed_a, d.summed_b), z);
    }
}

static void many_batch_axes_are_merged(void **state) { /* with rows and columns they would be nine */
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_reshape(hd_range(0, 1, 16, HD_F32), HD_SHAPE(2, 1, 2, 1, 2, 1, 1, 2));
    hd_tensor *b = hd_permute(a, HD_AXES(7, 1, 2, 3, 4, 5, 6, 0));
    hd_tensor *y =
        hd_dot_general(a, b, HD_AXES(7), HD_AXES(0), HD_AXES(0, 1, 2, 3, 4, 5, 6), HD_AXES(7, 1, 2, 3, 4, 5, 6));
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(2, 1, 2, 1, 2, 1, 1)));
    assert_same(y, hd_sum(hd_square(a), HD_AXES(7), NULL));
}

/* Bytes that one call takes beside its operands. */
static int64_t bytes_of(hd_tensor *(*call)(hd_tensor *a, hd_tensor *b), hd_tensor *a, hd_tensor *b) {
    HD_SCOPE;
    hd_memory_reset_peak();
    const int64_t before = hd_memory().peak_bytes;
    assert_non_null(call(a, b));
    return hd_memory().peak_bytes - before;
}

static hd_tensor *by_matmul(hd_tensor *a, hd_tensor *b) {
    return hd_matmul(hd_reshape(a, HD_SHAPE(128, -1)), hd_t(hd_reshape(b, HD_SHAPE(128, -1))));
}
static hd_tensor *as_they_lie(hd_tensor *a, hd_tensor *b) {
    return hd_dot_general(a, b, HD_AXES(1, 2), HD_AXES(1, 2), HD_AXES(), HD_AXES());
}
static hd_tensor *pairs_exchanged(hd_tensor *a, hd_tensor *b) {
    return hd_dot_general(a, b, HD_AXES(2, 1), HD_AXES(2, 1), HD_AXES(), HD_AXES());
}
static hd_tensor *axes_exchanged(hd_tensor *a, hd_tensor *b) {
    return as_they_lie(hd_permute(a, HD_AXES(0, 2, 1)), hd_permute(b, HD_AXES(0, 2, 1)));
}

/* Views, whatever order the axes are given in: as much memory as the matrix product takes, and no more. */
static void operands_are_seen_as_matrices_without_a_copy(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(128, 128, 128), HD_F32), *b = hd_ones(HD_SHAPE(128, 128, 128), HD_F32);
    bytes_of(by_matmul, a, b); /* whatever the first of its kind takes */
    const int64_t product = bytes_of(by_matmul, a, b);
    assert_true(bytes_of(as_they_lie, a, b) <= product);
    assert_true(bytes_of(pairs_exchanged, a, b) <= product);
    assert_true(bytes_of(axes_exchanged, a, b) <= product);
}

/* ---- the others -------------------------------------------------------------------------------------------------- */
static void products_with_names(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3, 4), *b = HD_TENSOR_F32(HD_SHAPE(2, 2), 0, 5, 6, 7);
    hd_tensor *v = HD_TENSOR_F32(HD_SHAPE(2), 1, -1), *nan = hd_full(HD_SHAPE(2), HD_F32, NAN);
    assert_values(hd_mv(a, v), HD_F32, -1, -1);
    assert_values(hd_addmm(v, a, b, 1, 1), HD_F32, 13, 18, 25, 42);
    assert_values(hd_addmm(hd_reshape(v, HD_SHAPE(2, 1)), a, b, 2, 0.5), HD_F32, 8, 11.5, 10, 19.5);
    assert_values(hd_addmm(nan, a, b, 0, 1), HD_F32, 12, 19, 24, 43); /* it is not read */
    assert_int_equal(hd_tensor_dtype(hd_addmm(hd_cast(nan, HD_F64), a, b, 0, 1)), HD_F64);
    assert_values(hd_addmm(hd_cast(v, HD_I32), hd_cast(a, HD_I32), hd_cast(b, HD_I32), -1, 2), HD_I32, 23, 39, 47, 87);
    hd_tensor *pair = HD_STACK_OF(0, a, b), *other = HD_STACK_OF(0, b, hd_t(a));
    assert_values(hd_bmm(pair, other), HD_F32, 12, 19, 24, 43, 10, 20, 20, 46);
    assert_values(hd_baddbmm(v, pair, other, 1, 0.5), HD_F32, 7, 8.5, 13, 20.5, 6, 9, 11, 22);
    assert_values(hd_cross(HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3), HD_TENSOR_F32(HD_SHAPE(2, 3), 4, 5, 6, 1, 0, 0), -1),
                  HD_F32, -3, 6, -3, 0, 3, -2);
    assert_values(hd_cross(HD_TENSOR_I64(HD_SHAPE(3, 1), 1, 2, 3), HD_TENSOR_I64(HD_SHAPE(3, 1), 4, 5, 6), 0), HD_I64,
                  -3, 6, -3);
    hd_tensor *w = hd_reshape(hd_range(0, 1, 12, HD_F32), HD_SHAPE(2, 2, 3));
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(1, 2), 1, 2), *y = HD_TENSOR_F32(HD_SHAPE(1, 3), 1, 0, -1);
    assert_values(hd_bilinear(x, y, w, NULL), HD_F32, -6, -6);
    assert_values(hd_bilinear(hd_squeeze(x, HD_AXES()), hd_squeeze(y, HD_AXES()), w, v), HD_F32, -5, -7);
    assert_true(hd_shape_equal(
        hd_tensor_shape(hd_bilinear(hd_ones(HD_SHAPE(0, 4, 2), HD_F32), hd_ones(HD_SHAPE(0, 4, 3), HD_F32), w, v)),
        HD_SHAPE(0, 4, 2)));
    assert_ok();
}

static void kron_as_numpy(void **state) {
    (void)state;
    for (golden g = golden_open("kron"); golden_next(&g);) {
        HD_SCOPE;
        hd_shape shape[2];
        const double *a = g.argument;
        for (int i = 0; i < 2; ++i) {
            shape[i] = (hd_shape){.rank = (int)*a++};
            for (int k = 0; k < shape[i].rank; ++k) shape[i].size[k] = (int64_t)*a++;
        }
        assert_tensor(hd_kron(fixture(shape[0], HD_F64), fixture(shape[1], HD_F64)), HD_F64, &g.shape, g.v);
    }
}

static void errors_name_axes_and_sizes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *b = hd_ones(HD_SHAPE(4, 5), HD_F32),
              *v = hd_ones(HD_SHAPE(3), HD_F32), *c = hd_ones(HD_SHAPE(2, 3, 4), HD_F32),
              *d = hd_ones(HD_SHAPE(5, 4, 2), HD_F32);
#define NONE HD_AXES()
    assert_null(hd_dot_general(a, b, HD_AXES(1), HD_AXES(0), NONE, NONE));
    assert_error(HD_ERROR_SHAPE,
                 "hd_dot_general: contracting axis 1 of a [2,3] has size 3, and axis 0 of b [4,5], its pair, 4");
    assert_null(hd_dot_general(a, b, NONE, NONE, HD_AXES(0), HD_AXES(-1)));
    assert_error(HD_ERROR_SHAPE,
                 "hd_dot_general: batch axis 0 of a [2,3] has size 2, and axis 1 of b [4,5], its pair, 5");
    assert_null(hd_dot_general(a, b, HD_AXES(1, 0), HD_AXES(0), NONE, NONE));
    assert_error(HD_ERROR_AXIS, "hd_dot_general: 2 contracting axes of a [2,3] and 1 of b [4,5]; they are paired");
    assert_null(hd_dot_general(a, a, HD_AXES(1), HD_AXES(1), HD_AXES(-1), HD_AXES(0)));
    assert_error(HD_ERROR_AXIS,
                 "hd_dot_general: axis 1 of a [2,3] is contracted and a batch axis; it can be one of them");
    assert_null(hd_dot_general(a, b, HD_AXES(2), HD_AXES(0), NONE, NONE));
    assert_error(HD_ERROR_AXIS, "hd_dot_general: axis 2 is out of range");
    assert_null(hd_dot_general(hd_ones(HD_SHAPE(1, 1, 1, 1, 1), HD_F32), hd_ones(HD_SHAPE(1, 1, 1, 1), HD_F32), NONE,
                               NONE, NONE, NONE));
    assert_error(HD_ERROR_SHAPE,
                 "hd_dot_general: [1,1,1,1,1] and [1,1,1,1] make a result of 9 axes; the most there can be is 8");
    assert_null(hd_dot_general(hd_ones(HD_SHAPE(2), HD_BOOL), hd_ones(HD_SHAPE(2), HD_BOOL), NONE, NONE, NONE, NONE));
    assert_error(HD_ERROR_DTYPE, "hd_dot_general: does not take bool");
    assert_null(hd_dot_general(a, NULL, NONE, NONE, NONE, NONE));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dot_general: `b` is NULL");
    assert_null(hd_tensordot(a, b, HD_AXES(1), HD_AXES(0)));
    assert_error(HD_ERROR_SHAPE, "hd_tensordot: contracting axis 1 of a [2,3]");
    assert_null(hd_bmm(a, c));
    assert_error(HD_ERROR_SHAPE, "hd_bmm: a [2,3] and b [2,3,4]; their ranks must be 3 and 3");
    assert_null(hd_bmm(c, d));
    assert_error(HD_ERROR_SHAPE, "hd_bmm: a [2,3,4] and b [5,4,2]: 2 and 5 matrices; as many of each, or hd_matmul");
    assert_null(hd_mv(v, a));
    assert_error(HD_ERROR_SHAPE, "hd_mv: a [3] and x [2,3]; their ranks must be 2 and 1");
    assert_null(hd_mv(b, v));
    assert_error(HD_ERROR_SHAPE, "hd_mv: [4,5] x [3]: inner sizes 5 and 3 differ");
    assert_null(hd_addmm(v, a, c, 1, 1));
    assert_error(HD_ERROR_SHAPE, "hd_addmm: a [2,3] and b [2,3,4]; their ranks must be 2 and 2");
    assert_null(hd_addmm(c, a, hd_t(a), 1, 1));
    assert_error(HD_ERROR_SHAPE, "hd_addmm: [2,3,4] and [2,2] do not broadcast");
    assert_null(hd_addmm(hd_ones(HD_SHAPE(5, 1, 1), HD_F32), a, hd_t(a), 0, 1));
    assert_error(HD_ERROR_SHAPE, "hd_addmm: c [5,1,1] does not broadcast to the product's [2,2]");
    assert_null(hd_baddbmm(v, c, d, 1, 1));
    assert_error(HD_ERROR_SHAPE, "hd_baddbmm: a [2,3,4] and b [5,4,2]: 2 and 5 matrices");
    assert_null(hd_cross(a, v, 0));
    assert_error(HD_ERROR_SHAPE, "hd_cross: [2,3] and [3] on axis 0 of the result; both must have size 3 there");
    assert_null(hd_bilinear(a, v, c, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_bilinear: x1 [2,3], x2 [3] and weight [2,3,4]: weight is [out,i,j]");
    assert_null(hd_bilinear(a, hd_ones(HD_SHAPE(2, 4), HD_F32), c, v));
    assert_error(HD_ERROR_SHAPE, "hd_bilinear: bias [3]");
    hd_tensor *huge = hd_broadcast_to(hd_scalar(1, HD_F32), HD_SHAPE(1LL << 40));
    assert_null(hd_kron(huge, huge));
    assert_error(HD_ERROR_OVERFLOW, "hd_kron: ");
    assert_null(hd_dot_general(huge, huge, NONE, NONE, NONE, NONE));
    assert_error(HD_ERROR_OVERFLOW, "hd_dot_general: shape [1099511627776,1099511627776]");
}

RUN(test(any_axes_of_any_layout), test(many_batch_axes_are_merged), test(operands_are_seen_as_matrices_without_a_copy),
    test(products_with_names), test(kron_as_numpy), test(errors_name_axes_and_sizes))
