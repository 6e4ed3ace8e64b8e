/* Scans: an axis is taken in order, and each element combined with all before it. */
#include "ops/op.h"

#include <math.h>
#include <stdlib.h>

/* Reads what all of them are told. A scalar has axis 0, of one element. */
static hd_error read_scan(const hd_tensor *x, int axis, const hd_scan_opts *opts, hd_scan_attributes *out) {
    HD_TRY(hd_tensor_check(x, "x"));
    hd_scan_opts options = {0};
    HD_TRY(hd_read_options(&options, sizeof options, opts));
    *out = (hd_scan_attributes){.exclusive = options.exclusive, .reverse = options.reverse};
    if (x->layout.shape.rank == 0 && (axis == 0 || axis == -1)) return HD_OK;
    return hd_axis_resolve(axis, x->layout.shape.rank, &out->axis);
}

static hd_tensor *scan(hd_thread *thread, hd_op_id id, hd_tensor *x, int axis, const hd_scan_opts *opts) {
    hd_scan_attributes attributes;
    hd_call call;
    int64_t elements;
    HD_TRY_OR(read_scan(x, axis, opts, &attributes), NULL);
    const hd_dtype dtype = hd_sum_dtype((hd_dtype)x->dtype);
    HD_TRY_OR(hd_shape_check(&x->layout.shape, hd_dtype_bytes[dtype], &elements), NULL);
    hd_call_init(&call, &hd_ops[id], &x, 1, dtype, &x->layout.shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_cumsum(hd_tensor *x, int axis, const hd_scan_opts *opts) {
    HD_ENTER("hd_cumsum", NULL);
    return scan(thread, HD_OP_cumsum, x, axis, opts);
}

hd_tensor *hd_cumprod(hd_tensor *x, int axis, const hd_scan_opts *opts) {
    HD_ENTER("hd_cumprod", NULL);
    return scan(thread, HD_OP_cumprod, x, axis, opts);
}

hd_tensor *hd_logcumsumexp(hd_tensor *x, int axis, const hd_scan_opts *opts) {
    HD_ENTER("hd_logcumsumexp", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (!hd_dtype_is_float((hd_dtype)x->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats: hd_cast(x, HD_F32) is one", hd_dtype_name((hd_dtype)x->dtype));
        return NULL;
    }
    return scan(thread, HD_OP_logcumsumexp, x, axis, opts);
}

static hd_pair scan_extremes(hd_thread *thread, hd_op_id id, hd_tensor *x, int axis, const hd_scan_opts *opts) {
    static const hd_pair nothing = {NULL, NULL};
    hd_scan_attributes attributes;
    HD_TRY_OR(read_scan(x, axis, opts, &attributes), nothing);
    if (attributes.exclusive) {
        hd_fail(HD_ERROR_VALUE,
                "exclusive: before the first element there is none that is the %s; hd_cumsum, "
                "hd_cumprod and hd_logcumsumexp can be exclusive",
                id == HD_OP_cummax ? "largest" : "smallest");
        return nothing;
    }
    return hd_run_pair(thread, id, x, &x->layout.shape, &attributes);
}

hd_pair hd_cummax(hd_tensor *x, int axis, const hd_scan_opts *opts) {
    HD_ENTER("hd_cummax", ((hd_pair){NULL, NULL}));
    return scan_extremes(thread, HD_OP_cummax, x, axis, opts);
}

hd_pair hd_cummin(hd_tensor *x, int axis, const hd_scan_opts *opts) {
    HD_ENTER("hd_cummin", ((hd_pair){NULL, NULL}));
    return scan_extremes(thread, HD_OP_cummin, x, axis, opts);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static const hd_scan_opts *options_of(const hd_scan_attributes *a, hd_scan_opts *opts) {
    *opts = HD_DEFAULTS(hd_scan_opts);
    opts->exclusive = a->exclusive;
    opts->reverse = a->reverse;
    return opts;
}

void hd_vjp_cumsum(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    hd_scan_attributes turned = *(const hd_scan_attributes *)v->attributes;
    turned.reverse = !turned.reverse;
    hd_scan_opts opts;
    v->results[0] = hd_cumsum(v->gradient, turned.axis, options_of(&turned, &opts));
}

/* Of each element the one that is met `by` places later, or earlier for by < 0; value where there is none. */
static hd_tensor *met_later(hd_tensor *t, const hd_scan_attributes *a, int64_t by, double value) {
    if (t == NULL) return NULL;
    const hd_shape *shape = &t->layout.shape;
    if (shape->rank == 0 || shape->size[a->axis] <= llabs(by))
        return hd_full_beside(t, *shape, (hd_dtype)t->dtype, value);
    hd_padding padding[HD_MAX_RANK] = {{0, 0}};
    const int64_t before = a->reverse ? by : -by;
    padding[a->axis] = (hd_padding){before, -before};
    return hd_pad(t, padding, shape->rank, value);
}

/* s[i] = terms[i] + factors[i] * s[i + 1], where i + 1 is met after i, and s is 0 behind the last one. By doubling:
 * terms cover 1, 2, 4, ... elements; nothing is divided, so that factors may be 0. */
static hd_tensor *recurrence(hd_tensor *terms, hd_tensor *factors, const hd_scan_attributes *a) {
    const int64_t n = terms == NULL || hd_tensor_rank(terms) == 0 ? 1 : hd_tensor_size(terms, a->axis);
    for (int64_t reach = 1; reach < n && terms != NULL; reach *= 2) {
        terms = hd_add(terms, hd_mul(factors, met_later(terms, a, reach, 0)));
        if (2 * reach < n) factors = hd_mul(factors, met_later(factors, a, reach, 0));
    }
    return terms;
}

/* Gradients of small floats are made in f32, and rounded once. */
static hd_dtype wide_of(const hd_vjp_call *v) {
    return hd_dtype_is_small_float((hd_dtype)v->dtypes[0]) ? HD_F32 : (hd_dtype)v->dtypes[0];
}

/* Of an exclusive scan, result i + 1 is what result i would be else. */
static hd_tensor *gradient_of(const hd_vjp_call *v, const hd_scan_attributes *a) {
    hd_tensor *g = hd_cast(v->gradient, wide_of(v));
    return a->exclusive ? met_later(g, a, 1, 0) : g;
}

/* The products without x[k] are those before it times those from there on, which are a recurrence: right also when
 * some are 0, to any order. */
void hd_vjp_cumprod(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_scan_attributes *a = v->attributes;
    hd_scan_attributes before = *a;
    before.exclusive = true;
    hd_scan_opts opts;
    hd_tensor *x = hd_cast(v->inputs[0], wide_of(v)), *g = gradient_of(v, a);
    hd_tensor *products = hd_cumprod(x, a->axis, options_of(&before, &opts));
    hd_tensor *rest = recurrence(g, met_later(x, a, 1, 0), a);
    v->results[0] = hd_cast(hd_mul(products, rest), (hd_dtype)v->dtypes[0]);
}

/* The sum of g[i] e^(x[k] - y[i]) over i from k on is e^(x[k] - y[k]) s[k], with s[k] = g[k] + e^(y[k] - y[k + 1])
 * s[k + 1]: as y grows, nothing overflows. Where y is -inf, so is x, and nothing flows. */
void hd_vjp_logcumsumexp(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_scan_attributes *a = v->attributes;
    hd_scan_attributes through = *a;
    through.exclusive = false;
    hd_scan_opts opts;
    const hd_dtype wide = wide_of(v);
    hd_tensor *x = hd_cast(v->inputs[0], wide), *g = gradient_of(v, a);
    const bool has_y = !a->exclusive && wide == (hd_dtype)v->dtypes[0];
    hd_tensor *y = has_y ? v->output : hd_logcumsumexp(x, a->axis, options_of(&through, &opts));
    hd_tensor *level = hd_where(hd_eq_scalar(y, -INFINITY), hd_number(wide, 0), y);
    hd_tensor *decay = hd_exp(hd_sub(met_later(y, a, -1, -INFINITY), level));
    hd_tensor *sums = recurrence(g, met_later(decay, a, 1, 0), a);
    v->results[0] = hd_cast(hd_mul(hd_exp(hd_sub(x, level)), sums), (hd_dtype)v->dtypes[0]);
}

void hd_vjp_cumextreme(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    if (v->gradient != NULL && v->shapes[0].rank == 0)
        v->results[0] = v->gradient;
    else if (v->gradient != NULL)
        hd_send_back(v, ((const hd_scan_attributes *)v->attributes)->axis, v->gradient, v->second_output);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
#define REPLAY(name)                                                                                                   \
    void hd_replay_##name(hd_replay_call *r) {                                                                         \
        const hd_scan_attributes *a = r->attributes;                                                                   \
        hd_scan_opts opts;                                                                                             \
        r->output = hd_##name(r->inputs[0], a->axis, options_of(a, &opts));                                            \
    }
#define REPLAY_PAIR(name)                                                                                              \
    void hd_replay_##name(hd_replay_call *r) {                                                                         \
        const hd_scan_attributes *a = r->attributes;                                                                   \
        hd_scan_opts opts;                                                                                             \
        hd_replay_gives(r, hd_##name(r->inputs[0], a->axis, options_of(a, &opts)));                                    \
    }
REPLAY(cumsum)
REPLAY(cumprod)
REPLAY(logcumsumexp)
REPLAY_PAIR(cummax)
REPLAY_PAIR(cummin)
