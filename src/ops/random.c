/* Random ops: each takes the next draw of the thread's generator. */
#include "ops/op.h"

#include <math.h>

/* The largest number of a dtype that is at most v; below it, if `strictly`. */
static double largest_to(double v, hd_dtype dtype, bool strictly) {
    const uint64_t sign = (uint64_t)1 << (8 * hd_dtype_bytes[dtype] - 1);
    uint64_t bits = 0;
    hd_element_from_f64(&bits, dtype, v);
    const double nearest = hd_element_to_f64(&bits, dtype);
    if (!(strictly ? nearest < v : nearest <= v))
        bits = (bits & ~sign) == 0 ? sign | 1 : bits & sign ? bits + 1 : bits - 1; /* the one below */
    return hd_element_to_f64(&bits, dtype);
}

double hd_uniform_top(const hd_random_attributes *a, hd_dtype dtype) {
    const double top = largest_to(a->b, dtype, true);
    return top > a->a ? top : a->a;
}

/* On the device of `beside`; NULL: on that of the thread. */
static hd_tensor *draw(hd_thread *thread, hd_op_id id, hd_tensor *const *inputs, int count, const hd_shape *shape,
                       hd_dtype dtype, hd_random_attributes *a, const hd_tensor *beside) {
    int64_t elements;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &elements), NULL);
    const bool drawn = !thread->executor->captures;
    if (drawn) HD_TRY_OR(hd_generator_take(thread, 1, &a->seed, &a->draw), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, count, dtype, shape, a);
    call.beside = beside;
    hd_tensor *t = hd_execute(thread, &call);
    if (t == NULL && drawn) hd_generator_give_back(thread, &(hd_draws){a->seed, a->draw, thread->drawn - 1});
    return t;
}

static hd_tensor *draw_float_beside(hd_thread *thread, hd_op_id id, const hd_tensor *beside, const hd_shape *shape,
                                    hd_dtype dtype, double a, double b) {
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "draws floats, not %s; hd_randint draws integers", hd_dtype_name(dtype));
        return NULL;
    }
    if (!isfinite(a) || !isfinite(b) || (id == HD_OP_uniform ? a > b : b < 0)) {
        hd_fail(HD_ERROR_VALUE,
                id == HD_OP_uniform ? "the interval [%g, %g) is not one"
                                    : "mean %g and deviation %g; both must be finite and the deviation >= 0",
                a, b);
        return NULL;
    }
    if (id == HD_OP_uniform && !isfinite(dtype == HD_F64 ? b - a : (double)(float)(b - a))) {
        hd_fail(HD_ERROR_VALUE, "the interval [%g, %g) is too wide for %s", a, b, hd_dtype_name(dtype));
        return NULL;
    }
    return draw(thread, id, NULL, 0, shape, dtype, &(hd_random_attributes){.a = a, .b = b}, beside);
}

static hd_tensor *draw_float(hd_thread *thread, hd_op_id id, const hd_shape *shape, hd_dtype dtype, double a,
                             double b) {
    return draw_float_beside(thread, id, NULL, shape, dtype, a, b);
}

hd_tensor *hd_uniform(hd_shape shape, hd_dtype dtype, double low, double high) {
    HD_ENTER("hd_uniform", NULL);
    return draw_float(thread, HD_OP_uniform, &shape, dtype, low, high);
}

hd_tensor *hd_rand(hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_rand", NULL);
    return draw_float(thread, HD_OP_uniform, &shape, dtype, 0, 1);
}

hd_tensor *hd_normal(hd_shape shape, hd_dtype dtype, double mean, double deviation) {
    HD_ENTER("hd_normal", NULL);
    return draw_float(thread, HD_OP_normal, &shape, dtype, mean, deviation);
}

hd_tensor *hd_randn(hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_randn", NULL);
    return draw_float(thread, HD_OP_normal, &shape, dtype, 0, 1);
}

/* In [0, 1), or with mean 0 and deviation 1, as x: of its shape and dtype, on its device. */
static hd_tensor *draw_like(hd_thread *thread, hd_op_id id, hd_tensor *x) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return draw_float_beside(thread, id, x, &x->layout.shape, (hd_dtype)x->dtype, 0, 1);
}

hd_tensor *hd_rand_like(hd_tensor *x) {
    HD_ENTER("hd_rand_like", NULL);
    return draw_like(thread, HD_OP_uniform, x);
}

hd_tensor *hd_randn_like(hd_tensor *x) {
    HD_ENTER("hd_randn_like", NULL);
    return draw_like(thread, HD_OP_normal, x);
}

hd_tensor *hd_randint(hd_shape shape, hd_dtype dtype, int64_t low, int64_t high) {
    HD_ENTER("hd_randint", NULL);
    if (dtype == HD_DTYPE_DEFAULT) dtype = HD_I64;
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if (!hd_dtype_is_integer(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "draws integers, not %s", hd_dtype_name(dtype));
        return NULL;
    }
    double ends[2];
    hd_element_from_f64(&ends[0], dtype, (double)low);
    hd_element_from_f64(&ends[1], dtype, (double)high - 1);
    const bool wide = dtype == HD_I64 || (dtype == HD_U64 && low >= 0);
    if (low >= high ||
        (!wide && (hd_element_to_i64(&ends[0], dtype) != low || hd_element_to_i64(&ends[1], dtype) != high - 1))) {
        hd_fail(HD_ERROR_VALUE, "[%lld, %lld) is empty or does not fit %s", (long long)low, (long long)high,
                hd_dtype_name(dtype));
        return NULL;
    }
    return draw(thread, HD_OP_randint, NULL, 0, &shape, dtype, &(hd_random_attributes){.low = low, .high = high}, NULL);
}

hd_tensor *hd_permutation(int64_t count) {
    HD_ENTER("hd_permutation", NULL);
    const hd_shape shape = {.rank = 1, .size = {count}};
    return draw(thread, HD_OP_permutation, NULL, 0, &shape, HD_I64, &(hd_random_attributes){0}, NULL);
}

hd_tensor *hd_multinomial(hd_tensor *weights, int64_t count, bool with_replacement) {
    HD_ENTER("hd_multinomial", NULL);
    HD_TRY_OR(hd_tensor_check(weights, "weights"), NULL);
    hd_shape shape = weights->layout.shape;
    if (shape.rank < 1 || shape.rank > 2 || shape.size[shape.rank - 1] == 0 ||
        !hd_dtype_is_float((hd_dtype)weights->dtype)) {
        hd_fail(hd_dtype_is_float((hd_dtype)weights->dtype) ? HD_ERROR_SHAPE : HD_ERROR_DTYPE,
                "weights are %s %s; expected floats of shape [n] or [m,n] with n > 0",
                hd_dtype_name((hd_dtype)weights->dtype), HD_SHAPE_TEXT(shape));
        return NULL;
    }
    if (count < 0) {
        hd_fail(HD_ERROR_VALUE, "%lld draws", (long long)count);
        return NULL;
    }
    shape.size[shape.rank - 1] = count;
    return draw(thread, HD_OP_multinomial, &weights, 1, &shape, HD_I64,
                &(hd_random_attributes){.with_replacement = with_replacement}, NULL);
}

hd_tensor *hd_bernoulli(hd_shape shape, hd_dtype dtype, double probability) {
    HD_ENTER("hd_bernoulli", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if (!(probability >= 0 && probability <= 1)) {
        hd_fail(HD_ERROR_VALUE, "%g is no probability", probability);
        return NULL;
    }
    hd_drawing drawing;
    hd_drawing_begin(&drawing, thread, "bernoulli");
    return hd_drawing_end(&drawing, hd_cast(hd_lt_scalar(hd_rand(shape, HD_F32), probability), dtype));
}

/* ---- composites -------------------------------------------------------------------------------------------------- */
void hd_drawing_begin(hd_drawing *d, hd_thread *thread, const char *name) {
    d->before = hd_generator_now(thread);
    hd_span_begin(&d->span, thread, name);
}
hd_tensor *hd_drawing_end(hd_drawing *d, hd_tensor *result) {
    hd_thread *thread = d->span.thread;
    hd_tensor *t = hd_span_end(&d->span, result);
    if (t == NULL) hd_generator_give_back(thread, &d->before);
    return t;
}

hd_tensor *hd_rand_beside(const hd_tensor *x, hd_dtype dtype) {
    HD_ENTER("hd_rand", NULL);
    return draw(thread, HD_OP_uniform, NULL, 0, &x->layout.shape, dtype, &(hd_random_attributes){.b = 1}, x);
}

hd_tensor *hd_bernoulli_of(hd_tensor *probabilities) {
    HD_ENTER("hd_bernoulli_of", NULL);
    HD_TRY_OR(hd_tensor_check(probabilities, "probabilities"), NULL);
    const hd_dtype dtype = (hd_dtype)probabilities->dtype;
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "probabilities are %s; expected floats", hd_dtype_name(dtype));
        return NULL;
    }
    hd_drawing drawing;
    hd_drawing_begin(&drawing, thread, "bernoulli_of");
    hd_tensor *u = hd_rand_beside(probabilities, dtype == HD_F64 ? HD_F64 : HD_F32);
    return hd_drawing_end(&drawing, hd_cast(hd_lt(u, probabilities), dtype));
}

/* The dtype that a draw of floats is computed in; small floats are rounded once, at its end. */
static hd_error drawn_dtype(hd_thread *thread, hd_dtype *dtype, hd_dtype *computed) {
    HD_TRY(hd_dtype_resolve(thread, *dtype, dtype));
    if (!hd_dtype_is_float(*dtype)) return hd_fail(HD_ERROR_DTYPE, "draws floats, not %s", hd_dtype_name(*dtype));
    *computed = *dtype == HD_F64 ? HD_F64 : HD_F32;
    return HD_OK;
}

hd_tensor *hd_exponential(hd_shape shape, hd_dtype dtype, double rate) {
    HD_ENTER("hd_exponential", NULL);
    hd_dtype computed = dtype;
    HD_TRY_OR(drawn_dtype(thread, &dtype, &computed), NULL);
    if (!(rate > 0 && rate < INFINITY)) {
        hd_fail(HD_ERROR_VALUE, "rate %g; it must be finite and above 0", rate);
        return NULL;
    }
    hd_drawing drawing;
    hd_drawing_begin(&drawing, thread, "exponential");
    hd_tensor *passed = hd_log1p(hd_neg(hd_rand(shape, computed)));
    return hd_drawing_end(&drawing, hd_cast(hd_div_scalar(passed, -rate), dtype));
}

/* What a normal number of [low, high] is made of: the quantile of a uniform one in [from, to), on the side of the mean
 * where probabilities are small, turned over when that is not this one. */
typedef struct truncation {
    double from, to, scale, least, most; /* the numbers of the dtype that lie in the interval */
    bool is_flat;                        /* the interval is so narrow that the density hardly changes in it */
} truncation;

static double normal_cdf(double x) { return 0.5 * erfc(x * -0.70710678118654752440); }

static hd_error truncate_normal(double mean, double deviation, double low, double high, hd_dtype dtype,
                                truncation *out) {
    if (!(isfinite(mean) && deviation > 0 && deviation < INFINITY))
        return hd_fail(HD_ERROR_VALUE, "mean %g and deviation %g; both must be finite and the deviation above 0", mean,
                       deviation);
    if (!(isfinite(low) && isfinite(high) && low < high))
        return hd_fail(HD_ERROR_VALUE, "the interval [%g, %g] is not one; its ends must be finite", low, high);
    const bool turned = low - mean > mean - high;
    const double near = (low - mean) / deviation, far = (high - mean) / deviation;
    *out = (truncation){.from = normal_cdf(turned ? -far : near),
                        .to = normal_cdf(turned ? -near : far),
                        .scale = turned ? -deviation : deviation,
                        .is_flat = far - near < 1e-3,
                        .least = -largest_to(-low, dtype, false),
                        .most = largest_to(high, dtype, false)};
    if (!(out->least <= out->most))
        return hd_fail(HD_ERROR_VALUE, "no number of %s lies in [%g, %g]", hd_dtype_name(dtype), low, high);
    if (!(out->to >= (dtype == HD_F64 ? 0x1p-1022 : 0x1p-126)))
        return hd_fail(HD_ERROR_VALUE,
                       "[%g, %g] lies %g deviations from the mean %g, where the probability is too small for %s", low,
                       high, fmin(fabs(near), fabs(far)), mean, hd_dtype_name(dtype));
    return HD_OK;
}

hd_tensor *hd_truncated_normal(hd_shape shape, hd_dtype dtype, double mean, double deviation, double low, double high) {
    HD_ENTER("hd_truncated_normal", NULL);
    hd_dtype computed = dtype;
    truncation t = {0};
    HD_TRY_OR(drawn_dtype(thread, &dtype, &computed), NULL);
    HD_TRY_OR(truncate_normal(mean, deviation, low, high, dtype, &t), NULL);
    const double step = computed == HD_F64 ? 0x1p-53 : 0x1p-24;
    hd_drawing drawing;
    hd_drawing_begin(&drawing, thread, "truncated_normal");
    if (t.is_flat) /* where probabilities would differ in their last bits alone */
        return hd_drawing_end(&drawing,
                              hd_clamp(hd_cast(hd_uniform(shape, computed, low, high), dtype), t.least, t.most));
    hd_tensor *p = hd_uniform(shape, computed, t.from, t.to);
    p = hd_clamp_min(p, t.from + 0.5 * step * (t.to - t.from)); /* the quantile of 0 is infinite */
    hd_tensor *x = hd_add_scalar(hd_mul_scalar(hd_ndtri(p), t.scale), mean);
    return hd_drawing_end(&drawing, hd_clamp(hd_cast(x, dtype), t.least, t.most));
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_uniform(hd_replay_call *r) {
    const hd_random_attributes *a = r->attributes;
    r->output = hd_uniform(*r->shape, r->dtype, a->a, a->b);
}
void hd_replay_normal(hd_replay_call *r) {
    const hd_random_attributes *a = r->attributes;
    r->output = hd_normal(*r->shape, r->dtype, a->a, a->b);
}
void hd_replay_randint(hd_replay_call *r) {
    const hd_random_attributes *a = r->attributes;
    r->output = hd_randint(*r->shape, r->dtype, a->low, a->high);
}

/* How many numbers are drawn; -1, which is none, where the shape has no axis. */
static int64_t replayed_count(const hd_replay_call *r) {
    return r->shape->rank > 0 ? r->shape->size[r->shape->rank - 1] : -1;
}
void hd_replay_permutation(hd_replay_call *r) { r->output = hd_permutation(replayed_count(r)); }
void hd_replay_multinomial(hd_replay_call *r) {
    const hd_random_attributes *a = r->attributes;
    r->output = hd_multinomial(r->inputs[0], replayed_count(r), a->with_replacement);
}
