/* Pooling. The gradients are ops, and linear in the gradient they take, so that gradients of any order are made of
 * them:
 * what picks the largest is undone by what sends a gradient there, and the other way round. */
#include "ops/op.h"

enum { LARGEST = 1 << 30 };

static hd_error read_axis(const hd_pool_opts *o, int i, bool dilates, hd_pool_attributes *a) {
    const int64_t window = a->window.size[i], stride = o->stride[i] == 0 ? window : o->stride[i],
                  dilation = o->dilation[i] == 0 ? 1 : o->dilation[i];
    const hd_padding padding = o->padding[i];
    if (stride < 1 || dilation < 1 || stride > LARGEST || dilation > LARGEST)
        return hd_fail(HD_ERROR_VALUE, "stride %lld, dilation %lld on spatial axis %d; both are from 1 to %d",
                       (long long)stride, (long long)dilation, i, LARGEST);
    if (dilation != 1 && !dilates) return hd_fail(HD_ERROR_VALUE, "an average has no dilation");
    const int64_t most = (dilation * (window - 1) + 1) / 2;
    if (padding.before < 0 || padding.after < 0 || padding.before > most || padding.after > most)
        return hd_fail(HD_ERROR_VALUE, "padding {%lld, %lld} on spatial axis %d; it is from 0 to half the window, %lld",
                       (long long)padding.before, (long long)padding.after, i, (long long)most);
    a->stride.size[i] = stride;
    a->dilation.size[i] = dilation;
    a->padding.size[2 * i] = padding.before;
    a->padding.size[2 * i + 1] = padding.after;
    return HD_OK;
}

static hd_error read_options(const hd_pool_opts *opts, const hd_shape *x, hd_shape window, bool dilates,
                             hd_pool_attributes *a) {
    HD_READ_OPTS(hd_pool_opts, opts, HD_ERROR_VALUE);
    HD_TRY(hd_rank_check(&window));
    const int axes = window.rank, others = options.adaptive ? 0 : axes;
    if (axes < 1 || axes > 3 || axes > x->rank)
        return hd_fail(HD_ERROR_SHAPE, "a window %s on x %s; it has 1 to 3 axes, and x has them", HD_SHAPE_TEXT(window),
                       HD_SHAPE_TEXT(*x));
    *a = (hd_pool_attributes){.window = window,
                              .stride.rank = others,
                              .dilation.rank = others,
                              .padding.rank = 2 * others,
                              .exclude_padding = options.exclude_padding,
                              .ceil_mode = options.ceil_mode,
                              .adaptive = options.adaptive};
    for (int i = 0; i < axes; ++i)
        if (window.size[i] < 1 || window.size[i] > LARGEST)
            return hd_fail(HD_ERROR_SHAPE, "a window %s; its sizes are from 1 to %d", HD_SHAPE_TEXT(window), LARGEST);
    HD_TRY(hd_check_spatial("stride", options.stride, others));
    HD_TRY(hd_check_spatial("dilation", options.dilation, others));
    for (int i = 0; i < others; ++i) HD_TRY(read_axis(&options, i, dilates, a));
    for (int i = others; i < 3; ++i)
        if (options.stride[i] != 0 || options.dilation[i] != 0 || options.padding[i].before != 0 ||
            options.padding[i].after != 0)
            return hd_fail(HD_ERROR_VALUE, "options for spatial axis %d; %s", i,
                           options.adaptive ? "an adaptive window has none" : "the window has fewer");
    return HD_OK;
}

/* The shape after pooling. */
static hd_error pooled_shape(const hd_shape *x, const hd_pool_attributes *a, hd_shape *shape) {
    *shape = *x;
    for (int i = 0; i < a->window.rank; ++i) {
        const int at = x->rank - a->window.rank + i;
        const int64_t size = x->size[at], window = a->window.size[i];
        if (size < 1)
            return hd_fail(HD_ERROR_SHAPE, "x %s; there is nothing to pool on axis %d", HD_SHAPE_TEXT(*x), at);
        shape->size[at] = window;
        if (a->adaptive) continue;
        const int64_t stride = a->stride.size[i], before = a->padding.size[2 * i],
                      span = a->dilation.size[i] * (window - 1) + 1,
                      room = size + before + a->padding.size[2 * i + 1] - span;
        if (room < 0 &&
            (!a->ceil_mode || room + stride <= 0)) /* else there is one window, which reaches past the end */
            return hd_fail(HD_ERROR_SHAPE, "a window of %lld does not fit axis %d of x %s with its padding",
                           (long long)span, at, HD_SHAPE_TEXT(*x));
        shape->size[at] = (room + (a->ceil_mode ? stride - 1 : 0)) / stride + 1;
        if (a->ceil_mode && (shape->size[at] - 1) * stride >= size + before)
            shape->size[at]--; /* begins past the end */
    }
    return HD_OK;
}

static hd_tensor *execute_pool(hd_thread *thread, hd_op_id id, hd_tensor *a, hd_tensor *b, const hd_shape *shape,
                               const hd_pool_attributes *attributes) {
    hd_tensor *inputs[2] = {a, b};
    const hd_dtype dtype = (hd_dtype)a->dtype;
    if (!hd_dtype_is_float(dtype) || (b != NULL && !hd_dtype_is_float((hd_dtype)b->dtype))) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats",
                hd_dtype_name(hd_dtype_is_float(dtype) ? (hd_dtype)b->dtype : dtype));
        return NULL;
    }
    int64_t count;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, b != NULL ? 2 : 1, dtype, shape, attributes);
    return hd_execute(thread, &call);
}

static hd_tensor *pool(hd_thread *thread, hd_op_id id, hd_tensor *values, hd_tensor *x, hd_shape window,
                       const hd_pool_opts *opts) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (values != NULL && !hd_shape_equal(values->layout.shape, x->layout.shape)) {
        hd_fail(HD_ERROR_SHAPE, "values %s; they must have the shape of x, %s", HD_SHAPE_TEXT(values->layout.shape),
                HD_SHAPE_TEXT(x->layout.shape));
        return NULL;
    }
    hd_pool_attributes a;
    hd_shape shape;
    HD_TRY_OR(read_options(opts, &x->layout.shape, window, id != HD_OP_avg_pool, &a), NULL);
    HD_TRY_OR(pooled_shape(&x->layout.shape, &a, &shape), NULL);
    return values != NULL ? execute_pool(thread, id, values, x, &shape, &a)
                          : execute_pool(thread, id, x, NULL, &shape, &a);
}

hd_tensor *hd_max_pool(hd_tensor *x, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_max_pool", NULL);
    return pool(thread, HD_OP_max_pool, NULL, x, window, opts);
}

hd_tensor *hd_avg_pool(hd_tensor *x, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_avg_pool", NULL);
    return pool(thread, HD_OP_avg_pool, NULL, x, window, opts);
}

hd_tensor *hd_max_pool_pick(hd_tensor *values, hd_tensor *x, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_max_pool_pick", NULL);
    HD_TRY_OR(hd_tensor_check(values, "values"), NULL);
    return pool(thread, HD_OP_max_pool_pick, values, x, window, opts);
}

/* Gradients back to an image of this shape; x is NULL for averages. */
static hd_tensor *back(hd_thread *thread, hd_op_id id, hd_tensor *gradient, hd_tensor *x, const hd_shape *image,
                       hd_shape window, const hd_pool_opts *opts) {
    HD_TRY_OR(hd_tensor_check(gradient, "gradient"), NULL);
    hd_pool_attributes a;
    hd_shape shape;
    HD_TRY_OR(read_options(opts, image, window, x != NULL, &a), NULL);
    HD_TRY_OR(pooled_shape(image, &a, &shape), NULL);
    if (!hd_shape_equal(gradient->layout.shape, shape)) {
        hd_fail(HD_ERROR_SHAPE, "gradient %s; pooling x %s gives %s", HD_SHAPE_TEXT(gradient->layout.shape),
                HD_SHAPE_TEXT(*image), HD_SHAPE_TEXT(shape));
        return NULL;
    }
    return execute_pool(thread, id, gradient, x, image, &a);
}

hd_tensor *hd_max_pool_gradient(hd_tensor *gradient, hd_tensor *x, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_max_pool_gradient", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return back(thread, HD_OP_max_pool_gradient, gradient, x, &x->layout.shape, window, opts);
}

hd_tensor *hd_avg_pool_gradient(hd_tensor *gradient, hd_shape shape, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_avg_pool_gradient", NULL);
    int64_t count;
    HD_TRY_OR(hd_shape_check(&shape, 1, &count), NULL);
    return back(thread, HD_OP_avg_pool_gradient, gradient, NULL, &shape, window, opts);
}

hd_tensor *hd_adaptive_max_pool(hd_tensor *x, hd_shape size) {
    HD_ENTER("hd_adaptive_max_pool", NULL);
    hd_span span;
    hd_span_begin(&span, thread, "adaptive_max_pool");
    return hd_span_end(&span, hd_max_pool(x, size, HD_OPTS(hd_pool_opts, .adaptive = true)));
}

hd_tensor *hd_adaptive_avg_pool(hd_tensor *x, hd_shape size) {
    HD_ENTER("hd_adaptive_avg_pool", NULL);
    hd_span span;
    hd_span_begin(&span, thread, "adaptive_avg_pool");
    return hd_span_end(&span, hd_avg_pool(x, size, HD_OPTS(hd_pool_opts, .adaptive = true)));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
static hd_pool_opts options_of(const hd_pool_attributes *a) {
    hd_pool_opts opts = HD_DEFAULTS(hd_pool_opts);
    opts.adaptive = a->adaptive;
    opts.ceil_mode = a->ceil_mode;
    opts.exclude_padding = a->exclude_padding;
    for (int i = 0; i < a->stride.rank; ++i) {
        opts.stride[i] = a->stride.size[i];
        opts.dilation[i] = a->dilation.size[i];
        opts.padding[i] = (hd_padding){a->padding.size[2 * i], a->padding.size[2 * i + 1]};
    }
    return opts;
}

void hd_vjp_max_pool(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pool_attributes *a = v->attributes;
    const hd_pool_opts opts = options_of(a);
    v->results[0] = hd_max_pool_gradient(v->gradient, hd_detach(v->inputs[0]), a->window, &opts);
}

/* Where the largest is does not change with small changes of x: no gradient goes there. */
void hd_vjp_max_pool_pick(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pool_attributes *a = v->attributes;
    const hd_pool_opts opts = options_of(a);
    if (v->wanted[0]) v->results[0] = hd_max_pool_gradient(v->gradient, hd_detach(v->inputs[1]), a->window, &opts);
}

void hd_vjp_max_pool_gradient(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pool_attributes *a = v->attributes;
    const hd_pool_opts opts = options_of(a);
    if (v->wanted[0]) v->results[0] = hd_max_pool_pick(v->gradient, hd_detach(v->inputs[1]), a->window, &opts);
}

void hd_vjp_avg_pool(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pool_attributes *a = v->attributes;
    const hd_pool_opts opts = options_of(a);
    v->results[0] = hd_avg_pool_gradient(v->gradient, v->shapes[0], a->window, &opts);
}

void hd_vjp_avg_pool_gradient(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_pool_attributes *a = v->attributes;
    const hd_pool_opts opts = options_of(a);
    v->results[0] = hd_avg_pool(v->gradient, a->window, &opts);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
/* The options that gave these attributes; false with an error when none did. */
static bool replayed_options(const hd_replay_call *r, hd_pool_opts *opts) {
    const hd_pool_attributes *a = r->attributes;
    const int axes = a->window.rank, others = a->adaptive ? 0 : axes;
    bool fits = axes >= 1 && axes <= 3 && a->stride.rank == others && a->dilation.rank == others &&
                a->padding.rank == 2 * others;
    for (int i = 0; i < others && fits; ++i) fits = a->stride.size[i] != 0 && a->dilation.size[i] != 0;
    if (fits)
        *opts = options_of(a);
    else
        hd_fail(HD_ERROR_VALUE, "the attributes of pooling on %d axes do not fit each other", axes);
    return fits;
}

#define REPLAY(name, ...)                                                                                              \
    void hd_replay_##name(hd_replay_call *r) {                                                                         \
        const hd_pool_attributes *a = r->attributes;                                                                   \
        hd_pool_opts opts;                                                                                             \
        if (replayed_options(r, &opts)) r->output = hd_##name(__VA_ARGS__, a->window, &opts);                          \
    }
REPLAY(max_pool, r->inputs[0])
REPLAY(avg_pool, r->inputs[0])
REPLAY(max_pool_pick, r->inputs[0], r->inputs[1])
REPLAY(max_pool_gradient, r->inputs[0], r->inputs[1])
REPLAY(avg_pool_gradient, r->inputs[0], *r->shape)
