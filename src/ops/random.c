/* Random ops: each takes the next draw of the thread's generator. */
#include "core/random.h"
#include "ops/op.h"

#include <math.h>

double hd_uniform_top(const hd_random_attributes *a, hd_dtype dtype) {
    const uint64_t sign = (uint64_t)1 << (8 * hd_dtype_bytes[dtype] - 1);
    uint64_t bits = 0;
    hd_element_from_f64(&bits, dtype, a->b);
    if (!(hd_element_to_f64(&bits, dtype) < a->b))
        bits = (bits & ~sign) == 0 ? sign | 1 : bits & sign ? bits + 1 : bits - 1; /* the one below */
    const double top = hd_element_to_f64(&bits, dtype);
    return top > a->a ? top : a->a;
}

static hd_tensor *draw(hd_thread *thread, hd_op_id id, hd_tensor *const *inputs, int count, const hd_shape *shape,
                       hd_dtype dtype, hd_random_attributes *a) {
    int64_t elements;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &elements), NULL);
    const bool drawn = !thread->executor->captures;
    if (drawn) HD_TRY_OR(hd_generator_take(thread, 1, &a->seed, &a->draw), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, count, dtype, shape, a);
    hd_tensor *t = hd_execute(thread, &call);
    if (t == NULL && drawn) hd_generator_give_back(thread, &(hd_draws){a->seed, a->draw, thread->drawn - 1});
    return t;
}

static hd_tensor *draw_float(hd_thread *thread, hd_op_id id, const hd_shape *shape, hd_dtype dtype, double a,
                             double b) {
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
    return draw(thread, id, NULL, 0, shape, dtype, &(hd_random_attributes){.a = a, .b = b});
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
    return draw(thread, HD_OP_randint, NULL, 0, &shape, dtype, &(hd_random_attributes){.low = low, .high = high});
}

hd_tensor *hd_permutation(int64_t count) {
    HD_ENTER("hd_permutation", NULL);
    const hd_shape shape = {.rank = 1, .size = {count}};
    return draw(thread, HD_OP_permutation, NULL, 0, &shape, HD_I64, &(hd_random_attributes){0});
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
                &(hd_random_attributes){.with_replacement = with_replacement});
}

hd_tensor *hd_bernoulli(hd_shape shape, hd_dtype dtype, double probability) {
    HD_ENTER("hd_bernoulli", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if (!(probability >= 0 && probability <= 1)) {
        hd_fail(HD_ERROR_VALUE, "%g is no probability", probability);
        return NULL;
    }
    const hd_draws before = hd_generator_now(thread);
    hd_span span;
    hd_span_begin(&span, thread, "bernoulli");
    hd_tensor *t = hd_span_end(&span, hd_cast(hd_lt_scalar(hd_rand(shape, HD_F32), probability), dtype));
    if (t == NULL) hd_generator_give_back(thread, &before);
    return t;
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
