/* Reductions: against NumPy's results, against plain loops over random layouts, and against themselves on other
 * numbers of threads. */
#include "families.h"

typedef hd_tensor *(*reduction)(hd_tensor *, hd_axes, const hd_reduce_opts *);

static hd_axes axes_of_bits(unsigned bits) {
    hd_axes axes = {.count = 0};
    for (int i = 0; i < HD_MAX_RANK; ++i)
        if (bits >> i & 1) axes.axis[axes.count++] = i;
    return axes;
}

/* ---- NumPy ------------------------------------------------------------------------------------------------------- */
static hd_tensor *golden_reduction(const golden *g, const char *name, hd_tensor *x) {
    const hd_axes axes = axes_of_bits((unsigned)g->argument[0]);
    hd_reduce_opts o = HD_DEFAULTS(hd_reduce_opts);
    o.keep_dims = g->argument[1] != 0;
    if (strcmp(name, "any") == 0) return hd_any(hd_gt_scalar(x, 5), axes, &o);
    if (strcmp(name, "all") == 0) return hd_all(hd_gt_scalar(x, -5), axes, &o);
    if (strcmp(name, "count_nonzero") == 0) return hd_count_nonzero(hd_trunc(x), axes, &o);
    if (strcmp(name, "var") == 0) return hd_var(x, axes, g->argument[2], &o);
    if (strcmp(name, "std") == 0) return hd_std(x, axes, g->argument[2], &o);
    if (strcmp(name, "norm") == 0) return hd_norm(x, g->argument[2], axes, &o);
    const struct {
        const char *name;
        reduction run;
    } plain[] = {{"sum", hd_sum}, {"prod", hd_prod}, {"max", hd_max},
                 {"min", hd_min}, {"mean", hd_mean}, {"logsumexp", hd_logsumexp}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; ++i)
        if (strcmp(name, plain[i].name) == 0) return plain[i].run(x, axes, &o);
    fail_msg("no reduction %s", name);
    return NULL;
}

static void as_numpy(void **state) {
    (void)state;
    const char *const names[] = {"sum",  "prod", "max", "min",  "any",       "all",
                                 "mean", "var",  "std", "norm", "logsumexp", "count_nonzero"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        for (golden g = golden_open(names[i]); golden_next(&g);) {
            HD_SCOPE;
            const hd_dtype result = i == 4 || i == 5 ? HD_BOOL : i == 11 ? HD_I64 : HD_F64;
            assert_tensor_close(golden_reduction(&g, names[i], fixture(HD_SHAPE(4, 3, 5), HD_F64)), result, &g.shape,
                                g.v, 1e-13);
            assert_tensor_close(golden_reduction(&g, names[i], fixture(HD_SHAPE(4, 3, 5), HD_F32)),
                                result == HD_F64 ? HD_F32 : result, &g.shape, g.v, 3e-6);
        }
}

static void argmax_takes_the_first_of_equals_and_the_first_nan(void **state) {
    (void)state;
    for (int largest = 0; largest < 2; ++largest)
        for (golden g = golden_open(largest ? "argmax" : "argmin"); golden_next(&g);) {
            HD_SCOPE;
            hd_tensor *x = hd_from_data(g.argument, HD_SHAPE(g.arguments), HD_F64);
            for (int dtype = HD_F8E5M2; dtype <= (int)HD_F64; ++dtype) {
                if (dtype == HD_F8E4M3) continue; /* has no infinity */
                hd_tensor *y = hd_cast(x, (hd_dtype)dtype);
                assert_tensor(largest ? hd_argmax(y, 0, NULL) : hd_argmin(y, 0, NULL), HD_I64, &g.shape, g.v);
            }
        }
}

/* ---- plain loops over any layout --------------------------------------------------------------------------------- */
typedef enum kind { SUM, PROD, MAX, MIN, ANY, ALL, COUNT, KINDS } kind;
static const reduction reductions[KINDS] = {hd_sum, hd_prod, hd_max, hd_min, hd_any, hd_all, hd_count_nonzero};

static hd_dtype result_of(kind k, hd_dtype dtype) {
    if (k == ANY || k == ALL) return HD_BOOL;
    if (k == COUNT) return HD_I64;
    if (k > PROD || hd_dtype_is_float(dtype)) return dtype;
    return dtype >= HD_U8 && dtype <= HD_U64 ? HD_U64 : HD_I64;
}

static double combine(kind k, double total, double v) {
    switch (k) {
    case SUM: return total + v;
    case PROD: return total * v;
    case MAX: return v > total ? v : total;
    case MIN: return v < total ? v : total;
    case ANY: return total != 0 || v != 0;
    case ALL: return total != 0 && v != 0;
    case COUNT:
    case KINDS: break;
    }
    return total + (v != 0);
}

static void expected(const model *m, kind k, unsigned bits, bool keep, hd_shape *shape, double *v) {
    hd_shape kept = {.rank = m->shape.rank};
    *shape = (hd_shape){.rank = 0};
    for (int i = 0; i < m->shape.rank; ++i) {
        const bool gone = bits >> i & 1;
        kept.size[i] = gone ? 1 : m->shape.size[i];
        if (!gone || keep) shape->size[shape->rank++] = kept.size[i];
    }
    static const double identity[KINDS] = {0, 1, -INFINITY, INFINITY, 0, 1, 0};
    for (int64_t i = 0; i < hd_shape_count(kept); ++i) v[i] = identity[k];
    for (int64_t i = 0; i < m->count; ++i) {
        int64_t at[HD_MAX_RANK];
        coordinates_of(&m->shape, i, at);
        for (int d = 0; d < m->shape.rank; ++d) at[d] = bits >> d & 1 ? 0 : at[d];
        const int64_t to = index_of(&kept, at);
        v[to] = combine(k, v[to], m->v[i]);
    }
}

static void every_set_of_axes_of_any_layout(void **state) {
    (void)state;
    static model m;
    static double v[MODEL_MOST];
    for (int round = 0; round < 400; ++round) {
        if (!when_compiled((uint64_t)round, 20)) continue;
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        const int rank = (int)random_below(6);
        random_model(&m, random_shape(rank, rank > 3 ? 3 : 5), dtype);
        for (unsigned bits = rank > 0; bits < 1u << rank; ++bits)
            for (kind k = SUM; k < KINDS; ++k) {
                if (k == PROD && m.count > 12) continue; /* beyond what f8 and f16 hold */
                HD_SCOPE;
                hd_shape shape;
                const bool keep = random_below(2);
                expected(&m, k, bits, keep, &shape, v);
                hd_reduce_opts o = HD_DEFAULTS(hd_reduce_opts);
                o.keep_dims = keep;
                const bool rounds = (k == SUM || k == PROD) && hd_dtype_is_float(dtype) && dtype < HD_F32;
                if (rounds) { /* the exact value, rounded once */
                    hd_tensor *once = hd_cast(hd_from_data(v, shape, HD_F64), dtype);
                    assert_true(hd_to_array(once, v, HD_F64, MODEL_MOST));
                }
                assert_tensor(reductions[k](m.t, axes_of_bits(bits), &o), result_of(k, dtype), &shape, v);
            }
    }
}

static void argmax_on_any_axis_of_any_layout(void **state) {
    (void)state;
    static model m;
    static double v[MODEL_MOST];
    for (int round = 0; round < 300; ++round) {
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)(1 + random_below(HD_DTYPE_COUNT - 1));
        const int rank = 1 + (int)random_below(4), axis = (int)random_below(rank);
        random_model(&m, random_shape(rank, 6), dtype);
        hd_shape shape = m.shape;
        shape.size[axis] = 1;
        for (int largest = 0; largest < 2; ++largest) {
            for (int64_t i = 0; i < hd_shape_count(shape); ++i) {
                int64_t at[HD_MAX_RANK], best = 0;
                coordinates_of(&shape, i, at);
                double of_best = 0;
                for (at[axis] = 0; at[axis] < m.shape.size[axis]; ++at[axis]) {
                    const double x = m.v[index_of(&m.shape, at)];
                    if (at[axis] == 0 || (largest ? x > of_best : x < of_best)) {
                        of_best = x;
                        best = at[axis];
                    }
                }
                v[i] = (double)best;
            }
            hd_reduce_opts o = HD_DEFAULTS(hd_reduce_opts);
            o.keep_dims = true;
            assert_tensor(largest ? hd_argmax(m.t, axis, &o) : hd_argmin(m.t, axis - rank, &o), HD_I64, &shape, v);
        }
    }
}

/* ---- what is special --------------------------------------------------------------------------------------------- */
static void nan_goes_through_from_any_place(void **state) {
    (void)state;
    for (int place = 0; place < 200; place += 7)
        for (int dtype = HD_BF16; dtype <= (int)HD_F64; ++dtype) {
            HD_SCOPE;
            hd_tensor *x = hd_range(-3, 0.03125, 200, HD_F64);
            hd_fill(hd_select(x, 0, place), NAN);
            x = hd_cast(x, (hd_dtype)dtype);
            hd_tensor *column = hd_broadcast_to(hd_unsqueeze(x, 1), HD_SHAPE(200, 3));
            assert_true(isnan(hd_item(hd_max(x, HD_AXES(), NULL))) && isnan(hd_item(hd_min(x, HD_AXES(), NULL))) &&
                        isnan(hd_item(hd_sum(x, HD_AXES(), NULL))));
            assert_true(isnan(hd_item(hd_logsumexp(x, HD_AXES(), NULL))) &&
                        isnan(hd_item(hd_norm(x, INFINITY, HD_AXES(), NULL))));
            assert_values(hd_max(column, HD_AXES(0), NULL), (hd_dtype)dtype, NAN, NAN, NAN);
            assert_values(hd_min(hd_contiguous(column), HD_AXES(0), NULL), (hd_dtype)dtype, NAN, NAN, NAN);
            assert_int_equal(hd_item_i64(hd_argmax(x, 0, NULL)), place);
            assert_int_equal(hd_item_i64(hd_argmin(x, 0, NULL)), place);
            assert_values(hd_any(hd_narrow(x, 0, place, 1), HD_AXES(), NULL), HD_BOOL, 1); /* NaN is not 0 */
            assert_int_equal(hd_item_i64(hd_count_nonzero(hd_narrow(x, 0, place, 1), HD_AXES(), NULL)), 1);
        }
}

static void tiny_numbers_and_minus_zero_in_any_and_all(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_from_data((const double[]){-0.0, 5e-324, 0.25, -0.0}, HD_SHAPE(4), HD_F64);
    assert_values(hd_ne_scalar(x, 0), HD_BOOL, 0, 1, 1, 0);
    for (int i = 0; i < 4; ++i) {
        assert_int_equal(hd_item(hd_any(hd_narrow(x, 0, i, 1), HD_AXES(), NULL)), i == 1 || i == 2);
        assert_int_equal(hd_item(hd_all(hd_narrow(x, 0, i, 1), HD_AXES(), NULL)), i == 1 || i == 2);
    }
}

static void infinities_in_logsumexp(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(4, 2), -INFINITY, -INFINITY, INFINITY, 1, -INFINITY, 3, 1000, 1000);
    hd_tensor *y = hd_logsumexp(x, HD_AXES(1), NULL);
    hd_tensor *expect = HD_TENSOR_F32(HD_SHAPE(4), -INFINITY, INFINITY, 3, 1000.6931471805599f);
    assert_close(y, expect, 1e-6, 0);
}

static void empty_axes(void **state) {
    (void)state;
    HD_SCOPE;
    for (int dtype = HD_BOOL; dtype < HD_DTYPE_COUNT; ++dtype) {
        HD_SCOPE;
        hd_tensor *x = hd_zeros(HD_SHAPE(2, 0, 3), (hd_dtype)dtype);
        const hd_dtype sum = result_of(SUM, (hd_dtype)dtype);
        assert_values(hd_sum(x, HD_AXES(1, 2), NULL), sum, 0, 0);
        assert_values(hd_prod(x, HD_AXES(1), NULL), sum, 1, 1, 1, 1, 1, 1);
        assert_values(hd_any(x, HD_AXES(), NULL), HD_BOOL, 0);
        assert_values(hd_all(x, HD_AXES(0, 1), NULL), HD_BOOL, 1, 1, 1);
        assert_values(hd_count_nonzero(x, HD_AXES(), NULL), HD_I64, 0);
        assert_int_equal(hd_tensor_count(hd_sum(x, HD_AXES(0), NULL)), 0);
        assert_int_equal(hd_tensor_count(hd_max(x, HD_AXES(2), NULL)), 0); /* nothing is asked of an empty axis */
        assert_int_equal(hd_tensor_count(hd_argmax(x, 0, NULL)), 0);
        assert_ok();
        assert_null(hd_max(x, HD_AXES(1), NULL));
        assert_error(HD_ERROR_SHAPE, "hd_max: axis 1 of [2,0,3] is empty");
        assert_null(hd_min(x, HD_AXES(), NULL));
        assert_error(HD_ERROR_SHAPE, "hd_min: axis 1 of [2,0,3] is empty");
        assert_null(hd_argmin(x, -2, NULL));
        assert_error(HD_ERROR_SHAPE, "hd_argmin: axis 1 of [2,0,3] is empty");
    }
    assert_true(isnan(hd_item(hd_mean(hd_zeros(HD_SHAPE(0), HD_F32), HD_AXES(), NULL))));
    assert_true(isnan(hd_item(hd_var(hd_ones(HD_SHAPE(1), HD_F32), HD_AXES(), 1, NULL))));
    assert_values(hd_logsumexp(hd_zeros(HD_SHAPE(0), HD_F32), HD_AXES(), NULL), HD_F32, -INFINITY);
}

static void bad_axes_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32);
    assert_null(hd_sum(x, HD_AXES(2), NULL));
    assert_error(HD_ERROR_AXIS, "hd_sum: axis 2 is out of range; a tensor of rank 2 has axes -2 to 1");
    assert_null(hd_mean(x, HD_AXES(0, -2), NULL));
    assert_error(HD_ERROR_AXIS, "hd_mean: axis -2 is given twice");
    assert_null(hd_argmax(hd_scalar(1, HD_F32), 0, NULL));
    assert_error(HD_ERROR_AXIS, "hd_argmax: axis 0 of a scalar");
    assert_null(hd_sum(NULL, HD_AXES(), NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_sum: `x` is NULL");
    assert_null(hd_sum(x, HD_AXES(0, 1, 0, 1, 0, 1, 0, 1, 0), NULL));
    assert_error(HD_ERROR_AXIS, "more than 8 axes");
    assert_null(hd_norm(x, NAN, HD_AXES(), NULL));
    assert_error(HD_ERROR_VALUE, "hd_norm: p is NaN");
    assert_null(hd_sum(x, HD_AXES(), &(const hd_reduce_opts){.keep_dims = true}));
    assert_error(HD_ERROR_VALUE, "struct_size");
    assert_null(hd_sum_to_shape(x, HD_SHAPE(2, 2)));
    assert_error(HD_ERROR_SHAPE, "hd_sum_to_shape");
    assert_null(hd_sum_to_shape(x, HD_SHAPE(1, 2, 3)));
    assert_error(HD_ERROR_SHAPE, "hd_sum_to_shape: [1,2,3] does not broadcast to x's [2,3]");
}

static void integers_sum_wide_and_wrap(void **state) {
    (void)state;
    HD_SCOPE;
    assert_values(hd_sum(hd_full(HD_SHAPE(1000), HD_U8, 255), HD_AXES(), NULL), HD_U64, 255000);
    assert_values(hd_sum(hd_full(HD_SHAPE(300, 7), HD_I8, -128), HD_AXES(0), NULL), HD_I64, -38400, -38400, -38400,
                  -38400, -38400, -38400, -38400);
    assert_values(hd_sum(hd_ones(HD_SHAPE(700), HD_BOOL), HD_AXES(), NULL), HD_I64, 700);
    hd_tensor *big = hd_from_data((const int64_t[]){INT64_MAX, 1, 2}, HD_SHAPE(3), HD_I64);
    assert_int_equal(hd_item_i64(hd_sum(big, HD_AXES(), NULL)), INT64_MIN + 2);
    assert_int_equal(hd_item_i64(hd_max(big, HD_AXES(), NULL)), INT64_MAX);
    assert_int_equal(
        hd_item_i64(hd_argmax(hd_from_data((const int64_t[]){INT64_MAX - 1, INT64_MAX}, HD_SHAPE(2), HD_I64), 0, NULL)),
        1);
    assert_int_equal(
        hd_item_i64(hd_argmax(hd_from_data((const uint64_t[]){5, UINT64_MAX, 7}, HD_SHAPE(3), HD_U64), 0, NULL)), 1);
    assert_values(hd_mean(hd_from_data((const int32_t[]){1, 2}, HD_SHAPE(2), HD_I32), HD_AXES(), NULL), HD_F32, 1.5);
    assert_values(hd_mean(hd_from_data((const bool[]){1, 0, 1, 1}, HD_SHAPE(4), HD_BOOL), HD_AXES(), NULL), HD_F32,
                  0.75);
    assert_values(hd_mean(hd_full(HD_SHAPE(40000), HD_F16, 2), HD_AXES(), NULL), HD_F16, 2); /* the sum is past f16 */
}

static void sums_of_f32_are_accurate(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 1 << 22 };
    assert_true(hd_item(hd_sum(hd_ones(HD_SHAPE(N), HD_F32), HD_AXES(), NULL)) == N);
    const double bound =
        22 * 0x1p-24; /* what pairwise summation of 2^22 numbers promises, beside the sum of their sizes */
    const double tenths = (double)0.1f * N;
    assert_true(fabs(hd_item(hd_sum(hd_full(HD_SHAPE(N), HD_F32, 0.1), HD_AXES(), NULL)) - tenths) <= bound * tenths);
    hd_tensor *columns = hd_sum(hd_full(HD_SHAPE(N / 4, 4), HD_F32, 0.1), HD_AXES(0), NULL);
    hd_tensor *quarter = hd_full(HD_SHAPE(4), HD_F64, tenths / 4);
    assert_close(columns, quarter, bound, HD_ZERO);
    hd_seed(3);
    hd_tensor *x = hd_randn(HD_SHAPE(N), HD_F32);
    const float *p = hd_data_f32(x);
    double sum = 0, sizes = 0;
    for (int i = 0; i < N; ++i) sum += (double)p[i], sizes += fabs((double)p[i]);
    assert_true(fabs(hd_item(hd_sum(x, HD_AXES(), NULL)) - sum) <= bound * sizes); /* much cancels */
    assert_true(fabs(hd_item(hd_var(x, HD_AXES(), 0, NULL)) - 1) < 0.003);
    hd_tensor *far =
        hd_add_scalar(hd_cast(hd_narrow(x, 0, 0, 1000), HD_F64), 1e4); /* the variance of what lies far from 0 */
    assert_close(hd_var(hd_cast(far, HD_F32), HD_AXES(), 1, NULL), hd_var(far, HD_AXES(), 1, NULL), 1e-3, 0);
    assert_true(hd_item(hd_sum(hd_full(HD_SHAPE(4096), HD_BF16, 1), HD_AXES(), NULL)) == 4096); /* accumulated in f32 */
}

static void sum_to_shape_undoes_broadcasting(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_reshape(hd_range(0, 1, 24, HD_F32), HD_SHAPE(2, 3, 4));
    assert_values(hd_sum_to_shape(x, HD_SHAPE()), HD_F32, 276);
    assert_values(hd_sum_to_shape(x, HD_SHAPE(4)), HD_F32, 60, 66, 72, 78);
    hd_tensor *kept = hd_sum_to_shape(x, HD_SHAPE(2, 1, 1));
    assert_values(kept, HD_F32, 66, 210);
    assert_true(hd_shape_equal(hd_tensor_shape(kept), HD_SHAPE(2, 1, 1)));
    assert_same(hd_sum_to_shape(x, HD_SHAPE(2, 3, 4)), x);
    assert_values(hd_sum_to_shape(hd_zeros(HD_SHAPE(0, 2), HD_F32), HD_SHAPE(1, 2)), HD_F32, 0, 0);
}

/* ---- large inputs, and threads ----------------------------------------------------------------------------------- */
static bool same_bits(hd_tensor *a, hd_tensor *b) {
    const hd_dtype d = hd_tensor_dtype(a);
    return d == hd_tensor_dtype(b) && hd_shape_equal(hd_tensor_shape(a), hd_tensor_shape(b)) &&
           memcmp(hd_data(a, d), hd_data(b, d), (size_t)hd_tensor_count(a) * hd_dtype_size(d)) == 0;
}

/* The sum over an axis of [a, n, b], as plain loops in f64, each with its own order. */
static void check_large_sum(hd_tensor *sum, hd_tensor *x, int64_t a, int64_t n, int64_t b) {
    hd_tensor *x64 = hd_contiguous(hd_cast(x, HD_F64)), *s64 = hd_contiguous(hd_cast(sum, HD_F64));
    const double *p = hd_data_f64(x64), *s = hd_data_f64(s64);
    double *total = calloc((size_t)(a * b) * 2, sizeof *total), *sizes = total + a * b;
    for (int64_t i = 0; i < a; ++i)
        for (int64_t k = 0; k < n; ++k)
            for (int64_t j = 0; j < b; ++j) {
                const double v = p[(i * n + k) * b + j];
                total[i * b + j] += v;
                sizes[i * b + j] += fabs(v);
            }
    const double unit = hd_tensor_dtype(x) == HD_F64 ? 0x1p-46 : hd_tensor_dtype(x) == HD_F32 ? 0x1p-22 : 0;
    for (int64_t i = 0; i < a * b; ++i)
        if (!(fabs(s[i] - total[i]) <= unit * sizes[i]))
            fail_msg("sum %lld of [%lld,%lld,%lld] is %.17g, expected %.17g", (long long)i, (long long)a, (long long)n,
                     (long long)b, s[i], total[i]);
    free(total);
}

static void large_inputs_do_not_depend_on_threads(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{3, 200000, 1}, {1, 3, 200000},  {200000, 3, 1},  {1, 200000, 3}, {5, 70000, 1},
                                        {1, 5, 70000},  {1, 1000003, 1}, {1, 1000003, 1}, {400, 300, 3},  {700, 40, 17},
                                        {33, 5000, 2},  {2, 900, 130},   {1, 700, 700},   {90, 1, 9000}};
    const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_I32, HD_U8};
    const int before = hd_num_threads();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
        for (int d = 0; d < 4; ++d) {
            if (!when_slow(s + (uint64_t)d, 3) || !when_compiled(s * 4 + (uint64_t)d, 9)) continue;
            HD_SCOPE;
            const int64_t *n = shapes[s];
            hd_seed(s);
            hd_tensor *x = d < 2 ? hd_randn(HD_SHAPE(n[0], n[1], n[2]), dtypes[d])
                                 : hd_randint(HD_SHAPE(n[0], n[1], n[2]), dtypes[d], d == 2 ? -9 : 0, 200);
            if (s == 7) x = hd_flip(x, HD_AXES(1));
            hd_tensor *one[5] = {0};
            for (int threads = 1; threads <= 3; ++threads) {
                hd_set_num_threads(threads);
                hd_tensor *r[5] = {hd_sum(x, HD_AXES(1), NULL), hd_max(x, HD_AXES(1), NULL), hd_argmin(x, 1, NULL),
                                   hd_any(x, HD_AXES(1), NULL), hd_var(x, HD_AXES(1), 1, NULL)};
                assert_ok();
                if (threads == 1) check_large_sum(r[0], x, n[0], n[1], n[2]);
                for (int i = 0; i < 5; ++i) {
                    if (threads == 1)
                        one[i] = r[i];
                    else if (!same_bits(one[i], r[i]))
                        fail_msg("reduction %d of [%lld,%lld,%lld] %s differs with %d threads", i, (long long)n[0],
                                 (long long)n[1], (long long)n[2], hd_dtype_name(dtypes[d]), threads);
                }
            }
        }
    hd_set_num_threads(before);
}

static void the_mean_of_integers_is_of_their_exact_sum(void **state) {
    (void)state;
    HD_SCOPE;
    assert_values(hd_mean(HD_TENSOR_I64(HD_SHAPE(2), (1 << 30) + 1, -(1 << 30)), HD_AXES(), NULL), HD_F32, 0.5);
}

RUN(test(the_mean_of_integers_is_of_their_exact_sum), test(as_numpy),
    test(argmax_takes_the_first_of_equals_and_the_first_nan), test(every_set_of_axes_of_any_layout),
    test(argmax_on_any_axis_of_any_layout), test(nan_goes_through_from_any_place),
    test(tiny_numbers_and_minus_zero_in_any_and_all), test(infinities_in_logsumexp), test(empty_axes),
    test(bad_axes_are_named), test(integers_sum_wide_and_wrap), test(sums_of_f32_are_accurate),
    test(sum_to_shape_undoes_broadcasting), test(large_inputs_do_not_depend_on_threads))
