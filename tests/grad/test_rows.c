/* The derivative of every elementwise row, driven by the table: a new row is tested with no edit here, unless its
 * domain is special.
 *
 *   differences  hd_gradcheck in f64, first and second order, at random shapes with operands that broadcast against
 *                each
 *                other and are turned, reversed or stepped; also far from 0, where branches not taken overflow
 *   readings     the fused kernel (hd_backward) and the tensor ops that stand for the same sentence (hd_grad_of with
 *                .differentiable) say the same, for f32, f64, bf16 and f16, for every layout, and at special values
 *   zeros        rows that are flat give zeros, not nothing
 *
 * HODU_SEED=n repeats a run. */
#include "core/thread.h"
#include "golden/rows.h"
#include "ops/row_uses.h"

/* ---- domains ----------------------------------------------------------------------------------------------------- */
/* Everywhere else: magnitudes of a in [k/2 + 0.06, k/2 + 0.2] and of b in [k/2 + 0.3, k/2 + 0.44] for whole k below 8,
 * of either sign. All kinks of rows are at multiples of 1/2 or where a = b, at least 0.06 away; differences reach
 * 2e-4. */
typedef struct domain {
    int id;
    double low[3], high[3];
    bool signs; /* either sign of them */
} domain;

static const domain domains[] = {
    {HD_OP_sqrt, {0.2}, {4}, false},
    {HD_OP_rsqrt, {0.2}, {4}, false},
    {HD_OP_recip, {0.2}, {4}, true},
    {HD_OP_exp10, {0.05}, {1.5}, true}, /* of moderate size, so that differences of sums keep their digits */
    {HD_OP_log, {0.2}, {4}, false},
    {HD_OP_log2, {0.2}, {4}, false},
    {HD_OP_log10, {0.2}, {4}, false},
    {HD_OP_log1p, {-0.7}, {4}, false},
    {HD_OP_tan, {0.05}, {1.2}, true},
    {HD_OP_asin, {0.05}, {0.9}, true},
    {HD_OP_acos, {0.05}, {0.9}, true},
    {HD_OP_acosh, {1.2}, {4}, false},
    {HD_OP_atanh, {0.05}, {0.9}, true},
    {HD_OP_erfinv, {0.05}, {0.9}, true},
    {HD_OP_lgamma, {0.3}, {5}, false},
    {HD_OP_lgamma, {-2.7}, {-2.3}, false}, /* between its poles */
    {HD_OP_digamma, {0.3}, {5}, false},
    {HD_OP_digamma, {-2.7}, {-2.3}, false},
    {HD_OP_logit, {0.06}, {0.94}, false},
    {HD_OP_relu6, {5.2}, {5.9}, true},
    {HD_OP_relu6, {6.1}, {8}, true},
    {HD_OP_softplus, {0.1}, {3}, true},
    {HD_OP_softplus, {10.1}, {12}, true},               /* beyond its limit */
    {HD_OP_trunc_divide, {5.4, 2.1}, {5.8, 2.5}, true}, /* quotients from 2.16 to 2.76, or from 0.35 to 0.77 */
    {HD_OP_trunc_divide, {0.6, 1.3}, {1.0, 1.7}, true},
    {HD_OP_floor_divide, {5.4, 2.1}, {5.8, 2.5}, true},
    {HD_OP_floor_divide, {0.6, 1.3}, {1.0, 1.7}, true},
    {HD_OP_rem, {5.4, 2.1}, {5.8, 2.5}, true},
    {HD_OP_rem, {0.6, 1.3}, {1.0, 1.7}, true},
    {HD_OP_mod, {5.4, 2.1}, {5.8, 2.5}, true},
    {HD_OP_mod, {0.6, 1.3}, {1.0, 1.7}, true},
    {HD_OP_pow, {0.3, -2}, {2.5, 2}, false},
    {HD_OP_ndtri, {0.06}, {0.94}, false},
    {HD_OP_xlogy, {0.3, 0.3}, {2.5, 2.5}, false},
};

static const domain *domain_of(int id, dice *d) { /* one of those of the row; NULL: the usual one */
    const domain *chosen = NULL;
    uint64_t seen = 0;
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; ++i)
        if (domains[i].id == id && roll(d) % ++seen == 0) chosen = &domains[i];
    return chosen;
}

static double draw(const domain *in, int operand, dice *d) {
    static const double from[3] = {0.06, 0.3, 0.06}, width[3] = {0.14, 0.14, 0.38};
    double v = in != NULL ? in->low[operand] + roll_unit(d) * (in->high[operand] - in->low[operand])
                          : (double)(roll(d) % 8) / 2 + from[operand] + roll_unit(d) * width[operand];
    return (in == NULL || in->signs) && roll(d) & 1 ? -v : v;
}

static bool takes_floats(int id) { return hd_ops[id].types != HD_TYPES_INTS; }
static bool is_smooth(int id) { return takes_floats(id) && !hd_rows[id].gives_bool; }

/* ---- layouts ----------------------------------------------------------------------------------------------------- */
typedef enum layout { PLAIN, TURNED, REVERSED, STEPPED, LAYOUTS } layout;

/* The shape of the tensor that `laid_out` makes one of `shape` from. */
static hd_shape shape_below(hd_shape shape, layout l) {
    hd_shape below = shape;
    for (int i = 0; i < shape.rank && l == TURNED; ++i) below.size[i] = shape.size[shape.rank - 1 - i];
    if (l == STEPPED && shape.rank > 0) below.size[shape.rank - 1] = shape.size[shape.rank - 1] * 2 - 1;
    return below;
}

static hd_tensor *laid_out(hd_tensor *t, layout l) {
    const int rank = hd_tensor_rank(t);
    hd_axes order = {.count = rank};
    for (int i = 0; i < rank; ++i) order.axis[i] = rank - 1 - i;
    if (l == TURNED) return hd_permute(t, order);
    if (l == REVERSED) return hd_flip(t, HD_AXES());
    return l == STEPPED && rank > 0 ? hd_slice(t, -1, HD_END, HD_END, 2) : t;
}

/* `shape` with some axes of size 1, and now and then without those in front: what broadcasts to it. */
static hd_shape narrower(hd_shape shape, dice *d) {
    hd_shape out = {.rank = 0};
    const int from = shape.rank > 0 && roll(d) % 3 == 0 ? (int)(roll(d) % (uint64_t)(shape.rank + 1)) : 0;
    for (int i = from; i < shape.rank; ++i) out.size[out.rank++] = roll(d) % 3 == 0 ? 1 : shape.size[i];
    return out;
}

static hd_tensor *random_tensor(hd_shape shape, const domain *in, int operand, dice *d) {
    const int64_t count = hd_shape_count(shape);
    double *v = malloc((size_t)count * sizeof *v + 1);
    for (int64_t i = 0; i < count; ++i) v[i] = draw(in, operand, d);
    hd_tensor *t = hd_from_data(v, shape, HD_F64);
    free(v);
    return t;
}

static hd_tensor *random_condition(hd_shape shape, dice *d) {
    uint8_t *v = malloc((size_t)hd_shape_count(shape) + 1);
    for (int64_t i = 0; i < hd_shape_count(shape); ++i) v[i] = roll(d) & 1;
    hd_tensor *t = hd_from_data(v, shape, HD_BOOL);
    free(v);
    return t;
}

/* ---- differences ------------------------------------------------------------------------------------------------- */
typedef struct trial {
    int id;
    layout layout[3];
    double value; /* of the scalar form */
} trial;

static hd_tensor *run_trial(hd_tensors *in, void *user) {
    const trial *t = user;
    hd_tensor *operand[3] = {NULL};
    for (int k = 0; k < hd_rows[t->id].operands; ++k) operand[k] = laid_out(hd_tensors_get(in, k), t->layout[k]);
    return row_calls[t->id](operand, row_numbers(t->id));
}

/* Differences of fourth order with step h = 1e-4 are off by h^4 times the fifth derivative, below 1e-9 here, and by the
 * rounding of a sum of values over h: some ten units of 1e-16 times sums up to 1e4, over 1e-4, is 1e-7 at worst, and
 * that only beside large gradients. */
static bool agrees(hd_function fn, void *user, hd_tensors *inputs, bool second, const char *what) {
    char why[256] = "";
    const bool good = hd_gradcheck(fn, user, inputs,
                                   HD_OPTS(hd_gradcheck_opts, .relative = 1e-6, .absolute = 1e-7,
                                           .second_order = second, .explain = why, .explain_capacity = sizeof why));
    if (!good && hd_ok()) print_error("%s: %s\n", what, why);
    return good;
}

static bool row_agrees(int id, bool second, dice *d) {
    HD_SCOPE;
    hd_shape shape = {.rank = (int)(roll(d) % 4)};
    for (int i = 0; i < shape.rank; ++i) shape.size[i] = 1 + (int64_t)(roll(d) % 3);
    const domain *in = domain_of(id, d);
    const int operands = hd_rows[id].operands, whole = (int)(roll(d) % (uint64_t)operands);
    trial t = {.id = id};
    hd_tensor *input[3] = {NULL};
    for (int k = 0; k < operands; ++k) {
        t.layout[k] = (layout)(roll(d) % LAYOUTS);
        const hd_shape below = shape_below(k == whole ? shape : narrower(shape, d), t.layout[k]);
        input[k] = hd_rows[id].chooses && k == 0 ? random_condition(below, d) : random_tensor(below, in, k, d);
    }
    const bool good = agrees(run_trial, &t, hd_tensors_from(input, operands), second, row_name(id));
    if (!hd_ok()) print_error("%s: %s\n", row_name(id), hd_error_message()), hd_error_clear();
    return good;
}

static void derivatives_agree_with_differences(void **state) {
    (void)state;
    dice d = roll_from("derivatives_agree_with_differences", 20240611);
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int i = 0; i < 24 && is_smooth(id); ++i)
            if (when_compiled((uint64_t)(id + i), 24)) bad += !row_agrees(id, id != HD_OP_digamma, &d);
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

static void digamma_has_no_second_derivative(void **state) {
    (void)state;
    HD_SCOPE;
    trial t = {.id = HD_OP_digamma};
    hd_tensor *x = hd_full(HD_SHAPE(2), HD_F64, 1.5);
    assert_false(agrees(run_trial, &t, HD_TENSORS(x), true, "digamma"));
    assert_error(HD_ERROR_STATE, "has no gradient: a derivative without an op of its own");
}

/* What gradcheck is for: x times a copy of x that has no history has the gradient x, not 2x. */
static hd_tensor *half_of_a_square(hd_tensors *in, void *user) {
    (void)user;
    return hd_mul(hd_tensors_get(in, 0), hd_detach(hd_tensors_get(in, 0)));
}
static void a_wrong_gradient_is_noticed(void **state) {
    (void)state;
    HD_SCOPE;
    char why[256] = "";
    hd_tensor *x = hd_full(HD_SHAPE(2), HD_F64, 1.5);
    assert_false(hd_gradcheck(half_of_a_square, NULL, HD_TENSORS(x),
                              HD_OPTS(hd_gradcheck_opts, .explain = why, .explain_capacity = sizeof why)));
    assert_ok();
    assert_non_null(strstr(why, "first order: input 0, element 0"));
}

/* ---- scalar forms ------------------------------------------------------------------------------------------------ */
typedef hd_tensor *scalar_call(hd_tensor *x, double value);
static scalar_call *const scalar_calls[HD_OP_ELEMENTWISE_COUNT] = {
#define BINARY(name, ...) [HD_OP_##name] = hd_##name##_scalar,
#define SPLIT             BINARY
#include "ops/elementwise.def"
};

static hd_tensor *run_scalar_trial(hd_tensors *in, void *user) {
    const trial *t = user;
    return scalar_calls[t->id](laid_out(hd_tensors_get(in, 0), t->layout[0]), t->value);
}

static void scalar_forms_agree_with_differences(void **state) {
    (void)state;
    dice d = roll_from("scalar_forms_agree_with_differences", 20240612);
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int i = 0; i < LAYOUTS && scalar_calls[id] != NULL && is_smooth(id); ++i) {
            if (!when_compiled((uint64_t)(id * LAYOUTS + i), 13)) continue;
            HD_SCOPE;
            const domain *in = domain_of(id, &d);
            trial t = {.id = id, .layout = {(layout)i}, .value = draw(in, 1, &d)};
            hd_tensor *x = random_tensor(HD_SHAPE(2, 3), in, 0, &d);
            bad += !agrees(run_scalar_trial, &t, HD_TENSORS(x), true, row_name(id));
            assert_ok();
        }
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

/* ---- far from 0 -------------------------------------------------------------------------------------------------- */
/* The first derivative by row (fused), or the second, of one operand at a point. */
static double derivative_at(int id, double x, bool second) {
    HD_SCOPE;
    hd_tensor *t = hd_requires_grad(hd_full(HD_SHAPE(), HD_F64, x)), *operand[3] = {t};
    hd_tensor *y = row_calls[id](operand, row_numbers(id));
    if (second) {
        hd_tensors *g = hd_grad_of(y, HD_TENSORS(t), HD_OPTS(hd_grad_of_opts, .differentiable = true));
        y = g == NULL ? NULL : hd_tensors_get(g, 0);
        if (y != NULL && !hd_tensor_requires_grad(y)) return 0; /* a constant */
    }
    hd_backward(y);
    const double result = hd_item(hd_grad(t));
    hd_clear_tape();
    return result;
}

/* In a branch that is not taken something may overflow: 0 * inf must not become NaN. Where first derivatives are finite
 * and no larger than 1e12 (beyond, rounding drowns their differences), second ones must agree with them: to a
 * thousandth, or, where they vanish, to the rounding of first derivatives over the step, 16 units of 2.2e-16. */
static void second_derivatives_are_right_far_from_zero(void **state) {
    (void)state;
    static const double points[] = {15.3, 89.4, 720.3, 2000.7, 1e5 + 0.3, 1e9 + 0.3};
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int i = 0; i < 12 && is_smooth(id) && hd_rows[id].operands == 1 && id != HD_OP_digamma; ++i) {
            if (!when_compiled((uint64_t)id, 5)) break;
            const double x = i % 2 ? -points[i / 2] : points[i / 2], h = 1e-3;
            const double before = derivative_at(id, x - h, false), after = derivative_at(id, x + h, false);
            assert_ok();
            if (!(fabs(before) < 1e12 && fabs(after) < 1e12)) continue;
            const double want = (after - before) / ((x + h) - (x - h)), got = derivative_at(id, x, true);
            assert_ok();
            const double noise = 16 * 2.3e-16 * (1 + fabs(before)) / h;
            if (fabs(got - want) <= 1e-3 * fabs(want) + noise) continue;
            print_error("%s at %g: the second derivative is %g, by differences %g\n", row_name(id), x, got, want);
            ++bad;
        }
    if (bad > 0) fail_msg("%d of them are wrong", bad);
}

/* ---- two readings of one sentence -------------------------------------------------------------------------------- */
/* An executor in front of the device that counts derivative kernels. */
typedef struct counter {
    hd_executor executor;
    hd_executor *device;
    int derivatives;
} counter;
static hd_error count_and_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    counter *c = (counter *)self;
    c->derivatives += call->op->family == HD_FAMILY_DERIVATIVE;
    return c->device->run(c->device, thread, call);
}
static counter counter_begin(void) {
    counter c = {.device = hd_thread_self()->executor};
    c.executor = *c.device;
    c.executor.run = count_and_run;
    return c;
}

typedef struct reading {
    hd_tensor *gradient[3]; /* NULL for a condition */
    int kernels;            /* derivative kernels that ran */
} reading;

static reading read_both(int id, hd_tensor *const *leaf, hd_tensor *y, hd_tensor *seed, bool fused) {
    reading r = {.kernels = 0};
    hd_thread *thread = hd_thread_self();
    counter c = counter_begin();
    thread->executor = &c.executor;
    const int first = hd_rows[id].chooses, operands = hd_rows[id].operands;
    if (fused) {
        hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = seed));
        for (int k = first; k < operands; ++k) r.gradient[k] = hd_grad(leaf[k]);
    } else {
        hd_tensors *list = hd_grad_of(y, hd_tensors_from(leaf + first, operands - first),
                                      HD_OPTS(hd_grad_of_opts, .seed = seed, .differentiable = true));
        for (int k = first; k < operands; ++k) r.gradient[k] = list == NULL ? NULL : hd_tensors_get(list, k - first);
    }
    thread->executor = c.device;
    r.kernels = c.derivatives;
    return r;
}

/* How many of a row's derivatives are fused: all that are more than 0 or g, and read at most three tensors. */
static int fused_kernels(int id) {
    int count = 0;
    for (int k = 0; k < hd_rows[id].operands; ++k) {
        const unsigned uses = hd_row_uses((hd_op_id)id, k);
        count += uses & HD_USES_WORK && __builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT)) <= 3;
    }
    return count;
}

static double epsilon_of(hd_dtype dtype) { /* one unit in the last place of 1 */
    return dtype == HD_F64 ? 0x1p-52 : dtype == HD_F32 ? 0x1p-23 : dtype == HD_F16 ? 0x1p-10 : 0x1p-7;
}

static double largest_of(const hd_tensor *t) {
    HD_SCOPE;
    hd_tensor *finite = hd_nan_to_num(hd_abs(hd_cast(hd_detach((hd_tensor *)t), HD_F64)), 0, 0, 0);
    return hd_tensor_count(t) == 0 ? 0 : hd_item(hd_max(finite, HD_AXES(), NULL));
}

/* Both compute small floats in f32 and round once, so they differ by rounding alone: a fused multiply-add here and
 * there in sentences of up to ten words, some of which cancel (1 - y^2). That is at most 16 units of f32 or f64 at the
 * size of what is multiplied, `scale`, and, of small floats, a result that falls on the other side of the middle
 * between two of them: one unit. A sum over broadcast axes has `terms` such results; of those on the wrong side of a
 * middle only a few. */
static bool readings_agree(const hd_tensor *a, const hd_tensor *b, hd_dtype dtype, double scale, double terms,
                           const char *what) {
    char why[256] = "";
    const bool is_small = dtype == HD_F16 || dtype == HD_BF16;
    const double computed = 16 * epsilon_of(dtype == HD_F64 ? HD_F64 : HD_F32),
                 rounded = is_small ? 1.01 * epsilon_of(dtype) : 0;
    const double absolute = computed * terms * scale + (terms > 1 ? 4 * rounded * scale : 0);
    const bool close = hd_allclose(a, b,
                                   HD_OPTS(hd_allclose_opts, .relative = computed + rounded, .absolute = absolute,
                                           .explain = why, .explain_capacity = sizeof why));
    if (!close && hd_ok()) print_error("%s, %s: %s\n", what, hd_dtype_name(dtype), why);
    return close;
}

static bool compare_readings(int id, hd_tensor *const *leaf, hd_tensor *seed, hd_dtype dtype) {
    hd_tensor *y = row_calls[id](leaf, row_numbers(id));
    assert_ok();
    const reading fused = read_both(id, leaf, y, seed, true), read = read_both(id, leaf, y, seed, false);
    if (!hd_ok()) print_error("%s, %s: ", row_name(id), hd_dtype_name(dtype));
    assert_ok();
    if (fused.kernels != fused_kernels(id) || read.kernels != (id == HD_OP_digamma)) {
        print_error("%s: %d derivative kernels in backward, %d in the reading\n", row_name(id), fused.kernels,
                    read.kernels);
        return false;
    }
    bool good = true;
    for (int k = hd_rows[id].chooses; k < hd_rows[id].operands; ++k) {
        assert_true(hd_tensor_dtype(fused.gradient[k]) == dtype && hd_tensor_dtype(read.gradient[k]) == dtype);
        assert_true(hd_shape_equal(hd_tensor_shape(fused.gradient[k]), hd_tensor_shape(leaf[k])));
        const double terms = (double)hd_tensor_count(y) / fmax(1, (double)hd_tensor_count(leaf[k]));
        const double scale = fmax(largest_of(seed), terms > 1 ? largest_of(read.gradient[k]) : 0);
        good = readings_agree(fused.gradient[k], read.gradient[k], dtype, scale, terms, row_name(id)) && good;
    }
    hd_clear_tape();
    return good;
}

static const hd_dtype float_dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16};

/* Shapes that take every way through the device: a call at once, rows tile by tile, short rows, transposed blocks. */
static void fused_kernels_agree_with_tensor_ops(void **state) {
    (void)state;
    not_on_a_device("it watches the CPU's executor");
    static const domain upstream = {-1, {0.1}, {1.5}, true};
    const hd_shape shapes[] = {HD_SHAPE(), HD_SHAPE(7), HD_SHAPE(5, 3), HD_SHAPE(3, 150), HD_SHAPE(40, 45)};
    dice d = roll_from("fused_kernels_agree_with_tensor_ops", 20240613);
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int i = 0; i < 4 * 40 && is_smooth(id); ++i) {
            HD_SCOPE;
            const hd_dtype dtype = float_dtypes[i % 4];
            const hd_shape shape = shapes[i / 8 % 5];
            const bool broadcasts = i / 4 % 2;
            const domain *in = domain_of(id, &d);
            const int whole = (int)(roll(&d) % (uint64_t)hd_rows[id].operands);
            hd_tensor *leaf[3] = {NULL};
            for (int k = 0; k < hd_rows[id].operands; ++k) {
                const layout l = (layout)(roll(&d) % LAYOUTS);
                const hd_shape below = shape_below(broadcasts && k != whole ? narrower(shape, &d) : shape, l);
                const bool condition = hd_rows[id].chooses && k == 0;
                leaf[k] = laid_out(condition ? random_condition(below, &d) : random_tensor(below, in, k, &d), l);
                if (!condition) leaf[k] = hd_requires_grad(hd_cast(leaf[k], dtype));
            }
            const layout l = (layout)(roll(&d) % LAYOUTS);
            hd_tensor *seed = laid_out(random_tensor(shape_below(shape, l), &upstream, 0, &d), l);
            if (roll(&d) % 3 == 0) seed = hd_broadcast_to(hd_scalar(-1.25, HD_F64), shape); /* as sums hand it down */
            bad += !compare_readings(id, leaf, hd_cast(seed, dtype), dtype);
            assert_ok();
        }
    if (bad > 0) fail_msg("%d of them differ", bad);
}

/* Zeros, infinities, NaN, kinks and ties: all pairs and triples of them. */
static void both_readings_agree_at_special_values(void **state) {
    (void)state;
    not_on_a_device("it watches the CPU's executor");
    static const double points[] = {0,  -0.0, 0.5, -0.5, 1,    -1,  2,    -2,       3,         -3, 6.0,
                                    20, -20,  100, -100, 1000, 2.5, 0.25, INFINITY, -INFINITY, NAN};
    enum { POINTS = sizeof points / sizeof points[0] };
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int i = 0; i < 4 && is_smooth(id); ++i) {
            HD_SCOPE;
            const hd_dtype dtype = float_dtypes[i];
            hd_tensor *leaf[3] = {NULL}, *all = hd_cast(hd_from_data(points, HD_SHAPE(POINTS), HD_F64), dtype);
            hd_shape shape = {.rank = hd_rows[id].operands};
            for (int k = 0; k < shape.rank; ++k) shape.size[k] = POINTS;
            for (int k = 0; k < shape.rank; ++k) {
                hd_shape on_axis = {.rank = shape.rank};
                for (int j = 0; j < shape.rank; ++j) on_axis.size[j] = j == k ? POINTS : 1;
                hd_tensor *t = hd_copy(hd_broadcast_to(hd_reshape(all, on_axis), shape));
                leaf[k] = hd_rows[id].chooses && k == 0 ? hd_gt_scalar(t, 0) : hd_requires_grad(t);
            }
            bad += !compare_readings(id, leaf, hd_full(shape, dtype, -1.5), dtype);
            assert_ok();
        }
    if (bad > 0) fail_msg("%d of them differ", bad);
}

/* ---- forwards ---------------------------------------------------------------------------------------------------- */
/* Jacobians of rows are diagonal: the product with tangents from the right is the sum of those from the left. Both run
 * the same sentences, in another order: 16 units. */
static void jvps_agree_with_vjps(void **state) {
    (void)state;
    dice d = roll_from("jvps_agree_with_vjps", 20240615);
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        HD_SCOPE;
        if (!is_smooth(id) || !when_compiled((uint64_t)id, 5)) continue;
        const hd_shape shape = HD_SHAPE(3, 4);
        const domain *in = domain_of(id, &d);
        const int first = hd_rows[id].chooses, operands = hd_rows[id].operands;
        hd_tensor *leaf[3] = {NULL}, *tangent[3] = {NULL}, *sum = hd_zeros(shape, HD_F64);
        for (int k = 0; k < operands; ++k) {
            leaf[k] = k < first ? random_condition(shape, &d) : hd_requires_grad(random_tensor(shape, in, k, &d));
            tangent[k] = random_tensor(shape, NULL, 0, &d);
        }
        hd_tensor *y = row_calls[id](leaf, row_numbers(id));
        double scale = 1;
        for (int k = first; k < operands; ++k) {
            hd_tensors *vjp = hd_vjp(y, HD_TENSORS(leaf[k]), tangent[k]);
            assert_ok();
            scale = fmax(scale, fmax(largest_of(tangent[k]), largest_of(hd_tensors_get(vjp, 0))));
            sum = hd_add(sum, hd_tensors_get(vjp, 0));
        }
        hd_tensors *inputs = hd_tensors_from(leaf + first, operands - first);
        hd_tensor *jvp = hd_jvp(y, inputs, hd_tensors_from(tangent + first, operands - first));
        if (!hd_ok()) print_error("%s: ", row_name(id));
        assert_ok();
        bad += !readings_agree(jvp, sum, HD_F64, scale, 1, row_name(id));
        hd_clear_tape();
    }
    if (bad > 0) fail_msg("%d of them differ", bad);
}

/* ---- zeros ------------------------------------------------------------------------------------------------------- */
static void flat_rows_give_zeros(void **state) {
    (void)state;
    dice d = roll_from("flat_rows_give_zeros", 20240614);
    int rows = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        HD_SCOPE;
        if (!takes_floats(id)) continue;
        bool is_flat = true;
        for (int k = 0; k < hd_rows[id].operands; ++k) is_flat = is_flat && hd_row_uses((hd_op_id)id, k) == 0;
        if (!is_flat) continue;
        hd_tensor *leaf[3] = {NULL};
        const domain *in = domain_of(id, &d);
        for (int k = 0; k < hd_rows[id].operands; ++k)
            leaf[k] = hd_requires_grad(random_tensor(HD_SHAPE(2, 3), in, k, &d));
        hd_backward(hd_sum(hd_cast(row_calls[id](leaf, row_numbers(id)), HD_F64), HD_AXES(), NULL));
        if (!hd_ok()) print_error("%s: ", row_name(id));
        for (int k = 0; k < hd_rows[id].operands; ++k) assert_values(hd_grad(leaf[k]), HD_F64, 0, 0, 0, 0, 0, 0);
        hd_clear_tape();
        ++rows;
    }
    assert_in_range(rows, 20, 1000); /* sign, the four roundings, two divisions, tests and comparisons */
}

/* Rows of integers take no tensor that could have a gradient. */
static void integer_rows_refuse_floats(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        HD_SCOPE;
        if (takes_floats(id)) continue;
        hd_tensor *x = hd_requires_grad(hd_full(HD_SHAPE(2), HD_F64, 1)), *operand[3] = {x, x, x};
        assert_null(row_calls[id](operand, row_numbers(id)));
        assert_error(HD_ERROR_DTYPE, "does not take f64");
    }
}

RUN(test(derivatives_agree_with_differences), test(digamma_has_no_second_derivative), test(a_wrong_gradient_is_noticed),
    test(scalar_forms_agree_with_differences), test(second_derivatives_are_right_far_from_zero),
    test(fused_kernels_agree_with_tensor_ops), test(both_readings_agree_at_special_values), test(jvps_agree_with_vjps),
    test(flat_rows_give_zeros), test(integer_rows_refuse_floats))
