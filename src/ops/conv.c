/* Convolution. Three ops are each other's gradients, so that gradients of any order are made of them: with y = conv(x,
 * w), dx = conv_transpose(dy, w) and dw = conv_weight_gradient(x, dy). */
#include "ops/op.h"

#include <stdio.h>

enum {
    LARGEST = 1 << 30
}; /* of strides, dilations, padding and kernels: what is computed from them does not overflow */

/* ---- attributes and sizes ---------------------------------------------------------------------------------------- */
hd_error hd_check_spatial(const char *what, const int64_t *given, int axes) {
    for (int i = 1; i < axes; ++i)
        if ((given[i] == 0) != (given[0] == 0))
            return hd_fail(HD_ERROR_VALUE,
                           "a %s of %lld on spatial axis %d and none on axis %d; give one for each of %d axes", what,
                           (long long)(given[i] == 0 ? given[0] : given[i]), given[i] == 0 ? 0 : i,
                           given[i] == 0 ? i : 0, axes);
    return HD_OK;
}

hd_error hd_conv_read(const hd_conv_opts *opts, int axes, hd_conv_attributes *a) {
    HD_READ_OPTS(hd_conv_opts, opts, HD_ERROR_VALUE);
    *a = (hd_conv_attributes){.stride.rank = axes,
                              .dilation.rank = axes,
                              .padding.rank = 2 * axes,
                              .groups = options.groups == 0 ? 1 : options.groups};
    if (a->groups < 1) return hd_fail(HD_ERROR_VALUE, "%lld groups; there must be at least 1", (long long)a->groups);
    HD_TRY(hd_check_spatial("stride", options.stride, axes));
    HD_TRY(hd_check_spatial("dilation", options.dilation, axes));
    for (int i = 0; i < axes; ++i) {
        const int64_t stride = options.stride[i] == 0 ? 1 : options.stride[i],
                      dilation = options.dilation[i] == 0 ? 1 : options.dilation[i];
        const hd_padding padding = options.padding[i];
        if (stride < 1 || dilation < 1 || stride > LARGEST || dilation > LARGEST)
            return hd_fail(HD_ERROR_VALUE, "stride %lld, dilation %lld on spatial axis %d; both are from 1 to %d",
                           (long long)stride, (long long)dilation, i, LARGEST);
        if (padding.before < -LARGEST || padding.before > LARGEST || padding.after < -LARGEST ||
            padding.after > LARGEST)
            return hd_fail(HD_ERROR_VALUE, "padding {%lld, %lld} on spatial axis %d; it is at most %d",
                           (long long)padding.before, (long long)padding.after, i, LARGEST);
        a->stride.size[i] = stride;
        a->dilation.size[i] = dilation;
        a->padding.size[2 * i] = padding.before;
        a->padding.size[2 * i + 1] = padding.after;
    }
    for (int i = axes; i < 3; ++i)
        if (options.stride[i] != 0 || options.dilation[i] != 0 || options.padding[i].before != 0 ||
            options.padding[i].after != 0 || options.output_padding[i] != 0)
            return hd_fail(HD_ERROR_VALUE, "options for spatial axis %d; x has %d", i, axes);
    return HD_OK;
}

/* Pixels of the image that one window spans. */
static int64_t span_of(const hd_conv_attributes *a, int axis, int64_t kernel) {
    return a->dilation.size[axis] * (kernel - 1) + 1;
}
static int64_t padding_of(const hd_conv_attributes *a, int axis) {
    return a->padding.size[2 * axis] + a->padding.size[2 * axis + 1];
}

hd_error hd_conv_windows(const hd_conv_attributes *a, int axis, int64_t image, int64_t kernel, int64_t *out) {
    if (kernel < 1 || kernel > LARGEST)
        return hd_fail(HD_ERROR_SHAPE, "a kernel of size %lld on spatial axis %d; it is from 1 to %d",
                       (long long)kernel, axis, LARGEST);
    const int64_t span = span_of(a, axis, kernel), padded = image + padding_of(a, axis);
    if (padded < span)
        return hd_fail(
            HD_ERROR_SHAPE,
            "a window of %lld (kernel %lld, dilation %lld) does not fit spatial axis %d, which has %lld with "
            "its padding",
            (long long)span, (long long)kernel, (long long)a->dilation.size[axis], axis, (long long)padded);
    *out = (padded - span) / a->stride.size[axis] + 1;
    return HD_OK;
}

static hd_error check_images(const hd_tensor *x, const char *what) {
    HD_TRY(hd_tensor_check(x, what));
    const int rank = x->layout.shape.rank;
    return rank >= 3 && rank <= 5 ? HD_OK
                                  : hd_fail(HD_ERROR_SHAPE, "%s %s; it must be [n, channels, 1 to 3 spatial axes]",
                                            what, HD_SHAPE_TEXT(x->layout.shape));
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static hd_tensor *execute_conv(hd_thread *thread, hd_op_id id, hd_tensor *a, hd_tensor *b, hd_tensor *bias,
                               const hd_shape *shape, hd_conv_attributes *attributes) {
    hd_dtype dtype = hd_dtype_promote((hd_dtype)a->dtype, (hd_dtype)b->dtype);
    if (bias != NULL) dtype = hd_dtype_promote(dtype, (hd_dtype)bias->dtype);
    if (!hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats", hd_dtype_name(dtype));
        return NULL;
    }
    int64_t count;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    attributes->precision = hd_call_precision(thread, dtype);
    hd_tensor *inputs[3] = {a, b, bias};
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, bias != NULL ? 3 : 2, dtype, shape, attributes);
    return hd_execute(thread, &call);
}

/* The error of an x and a weight that do not fit each other: what is amiss. */
static hd_error refuse_weight(const hd_shape *in, const hd_shape *w, int64_t groups, bool transposed) {
    char amiss[96] = "";
    int64_t takes = w->size[0];
    const bool is_absurd = !transposed && __builtin_mul_overflow(w->size[1], groups, &takes);
    if (w->rank == in->rank && takes != in->size[1] && !is_absurd)
        snprintf(amiss, sizeof amiss, "; x has %lld channels, and this weight takes %lld", (long long)in->size[1],
                 (long long)takes);
    else if (w->rank == in->rank + 1)
        snprintf(amiss, sizeof amiss, "; a single image is [1, channels, ...]");
    return hd_fail(HD_ERROR_SHAPE, "x %s, weight %s, %lld groups: weight is [%s, kernel] with as many spatial axes%s",
                   HD_SHAPE_TEXT(*in), HD_SHAPE_TEXT(*w), (long long)groups,
                   transposed ? "in, out / groups" : "out, in / groups", amiss);
}

static hd_error check_weight(const hd_tensor *x, const hd_tensor *weight, const hd_tensor *bias,
                             const hd_conv_attributes *a, bool transposed) {
    const hd_shape *in = &x->layout.shape, *w = &weight->layout.shape;
    const int64_t groups = a->groups;
    const bool fits = w->rank == in->rank && (transposed ? w->size[0] == in->size[1] && w->size[0] % groups == 0
                                                         : w->size[0] % groups == 0 && in->size[1] % groups == 0 &&
                                                               w->size[1] == in->size[1] / groups);
    if (!fits) return refuse_weight(in, w, groups, transposed);
    const int64_t out = transposed ? w->size[1] * groups : w->size[0];
    if (bias == NULL) return HD_OK;
    HD_TRY(hd_tensor_check(bias, "bias"));
    return bias->layout.shape.rank == 1 && bias->layout.shape.size[0] == out
               ? HD_OK
               : hd_fail(HD_ERROR_SHAPE, "bias %s; it must be [%lld]", HD_SHAPE_TEXT(bias->layout.shape),
                         (long long)out);
}

hd_tensor *hd_conv(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts) {
    HD_ENTER("hd_conv", NULL);
    HD_TRY_OR(check_images(x, "x"), NULL);
    HD_TRY_OR(hd_tensor_check(weight, "weight"), NULL);
    hd_conv_attributes a;
    HD_TRY_OR(hd_conv_read(opts, x->layout.shape.rank - 2, &a), NULL);
    HD_TRY_OR(check_weight(x, weight, bias, &a, false), NULL);
    hd_shape shape = x->layout.shape;
    shape.size[1] = weight->layout.shape.size[0];
    for (int i = 2; i < shape.rank; ++i)
        HD_TRY_OR(hd_conv_windows(&a, i - 2, x->layout.shape.size[i], weight->layout.shape.size[i], &shape.size[i]),
                  NULL);
    return execute_conv(thread, HD_OP_conv, x, weight, bias, &shape, &a);
}

/* The sizes of the image of which x could be the convolution. */
static hd_error transposed_shape(const hd_tensor *x, const hd_tensor *weight, const hd_conv_opts *opts,
                                 hd_conv_attributes *a, hd_shape *shape) {
    HD_READ_OPTS(hd_conv_opts, opts, HD_ERROR_VALUE);
    *shape = x->layout.shape;
    shape->size[1] = weight->layout.shape.size[1] * a->groups;
    a->extra.rank = shape->rank - 2;
    for (int i = 0; i < a->extra.rank; ++i) {
        const int64_t behind = options.output_padding[i], kernel = weight->layout.shape.size[i + 2],
                      size = x->layout.shape.size[i + 2];
        if (behind < 0 || behind >= a->stride.size[i])
            return hd_fail(HD_ERROR_VALUE,
                           "output padding %lld on spatial axis %d; it is from 0 to below the stride, %lld",
                           (long long)behind, i, (long long)a->stride.size[i]);
        if (size < 1 || size > LARGEST || kernel < 1 || kernel > LARGEST)
            return hd_fail(HD_ERROR_SHAPE, "size %lld and kernel %lld on spatial axis %d; both are from 1 to %d",
                           (long long)size, (long long)kernel, i, LARGEST);
        a->extra.size[i] = behind;
        shape->size[i + 2] = (size - 1) * a->stride.size[i] + span_of(a, i, kernel) - padding_of(a, i) + behind;
        if (shape->size[i + 2] < 0)
            return hd_fail(HD_ERROR_SHAPE, "spatial axis %d of x %s with kernel %lld has less than its padding, %lld",
                           i, HD_SHAPE_TEXT(x->layout.shape), (long long)kernel, (long long)padding_of(a, i));
    }
    return HD_OK;
}

hd_tensor *hd_conv_transpose(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts) {
    HD_ENTER("hd_conv_transpose", NULL);
    HD_TRY_OR(check_images(x, "x"), NULL);
    HD_TRY_OR(hd_tensor_check(weight, "weight"), NULL);
    hd_conv_attributes a;
    hd_shape shape;
    HD_TRY_OR(hd_conv_read(opts, x->layout.shape.rank - 2, &a), NULL);
    HD_TRY_OR(check_weight(x, weight, bias, &a, true), NULL);
    HD_TRY_OR(transposed_shape(x, weight, opts, &a, &shape), NULL);
    return execute_conv(thread, HD_OP_conv_transpose, x, weight, bias, &shape, &a);
}

hd_tensor *hd_conv_weight_gradient(hd_tensor *x, hd_tensor *gradient, hd_shape kernel, const hd_conv_opts *opts) {
    HD_ENTER("hd_conv_weight_gradient", NULL);
    HD_TRY_OR(check_images(x, "x"), NULL);
    HD_TRY_OR(check_images(gradient, "gradient"), NULL);
    HD_TRY_OR(hd_rank_check(&kernel), NULL);
    const hd_shape *in = &x->layout.shape, *out = &gradient->layout.shape;
    hd_conv_attributes a;
    HD_TRY_OR(hd_conv_read(opts, in->rank - 2, &a), NULL);
    bool fits = out->rank == in->rank && kernel.rank == in->rank - 2 && in->size[0] == out->size[0] &&
                in->size[1] % a.groups == 0 && out->size[1] % a.groups == 0;
    for (int i = 0; fits && i < kernel.rank; ++i) {
        int64_t count = 0;
        HD_TRY_OR(hd_conv_windows(&a, i, in->size[i + 2], kernel.size[i], &count), NULL);
        fits = count == out->size[i + 2];
    }
    if (!fits) {
        hd_fail(HD_ERROR_SHAPE, "gradient %s is not that of a convolution of x %s with a kernel %s in %lld groups",
                HD_SHAPE_TEXT(*out), HD_SHAPE_TEXT(*in), HD_SHAPE_TEXT(kernel), (long long)a.groups);
        return NULL;
    }
    a.extra = kernel;
    hd_shape shape = {.rank = in->rank, .size = {out->size[1], in->size[1] / a.groups}};
    for (int i = 0; i < kernel.rank; ++i) shape.size[i + 2] = kernel.size[i];
    return execute_conv(thread, HD_OP_conv_weight_gradient, x, gradient, NULL, &shape, &a);
}

/* ---- by the number of spatial axes ------------------------------------------------------------------------------- */
typedef hd_tensor *(*convolution)(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts);

static hd_tensor *with_axes(hd_thread *thread, const char *name, int axes, convolution convolve, hd_tensor *x,
                            hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts) {
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    if (rank != axes + 2 && rank != axes + 1) {
        hd_fail(HD_ERROR_SHAPE, "x %s; it must have %d axes, or %d for one image", HD_SHAPE_TEXT(x->layout.shape),
                axes + 2, axes + 1);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, name);
    hd_tensor *y = convolve(rank == axes + 2 ? x : hd_unsqueeze(x, 0), weight, bias, opts);
    return hd_span_end(&span, rank == axes + 2 ? y : hd_squeeze(y, HD_AXES(0)));
}

#define WITH_AXES(op, axes)                                                                                            \
    hd_tensor *hd_##op##axes##d(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, const hd_conv_opts *opts) {          \
        HD_ENTER("hd_" #op #axes "d", NULL);                                                                           \
        return with_axes(thread, #op #axes "d", axes, hd_##op, x, weight, bias, opts);                                 \
    }
WITH_AXES(conv, 1)
WITH_AXES(conv, 2)
WITH_AXES(conv, 3)
WITH_AXES(conv_transpose, 1)
WITH_AXES(conv_transpose, 2)
WITH_AXES(conv_transpose, 3)

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* The options that gave these attributes. For a transposed convolution to an image of sizes `image` (else NULL): the
 * rows behind the last window, which convolving left out. */
static hd_conv_opts options_of(const hd_conv_attributes *a, const int64_t *image, const int64_t *kernel) {
    hd_conv_opts opts = HD_DEFAULTS(hd_conv_opts);
    opts.groups = a->groups;
    for (int i = 0; i < a->stride.rank; ++i) {
        opts.stride[i] = a->stride.size[i];
        opts.dilation[i] = a->dilation.size[i];
        opts.padding[i] = (hd_padding){a->padding.size[2 * i], a->padding.size[2 * i + 1]};
        if (image != NULL)
            opts.output_padding[i] = (image[i] + padding_of(a, i) - span_of(a, i, kernel[i])) % a->stride.size[i];
    }
    return opts;
}

static hd_shape kernel_of(const hd_shape *weight) {
    hd_shape kernel = {.rank = weight->rank - 2};
    for (int i = 0; i < kernel.rank; ++i) kernel.size[i] = weight->size[i + 2];
    return kernel;
}

static void bias_gradient(const hd_vjp_call *v) {
    if (v->input_count < 3 || !v->wanted[2]) return;
    hd_axes axes = {.count = 1, .axis = {0}};
    for (int i = 2; i < v->shapes[0].rank; ++i) axes.axis[axes.count++] = i;
    v->results[2] = hd_cast(hd_sum(v->gradient, axes, NULL), (hd_dtype)v->dtypes[2]);
}

void hd_vjp_conv(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_conv_attributes *a = v->attributes;
    const hd_conv_opts opts = options_of(a, v->shapes[0].size + 2, v->shapes[1].size + 2),
                       same = options_of(a, NULL, NULL);
    if (v->wanted[0])
        v->results[0] = hd_cast(hd_conv_transpose(v->gradient, v->inputs[1], NULL, &opts), (hd_dtype)v->dtypes[0]);
    if (v->wanted[1])
        v->results[1] = hd_cast(hd_conv_weight_gradient(v->inputs[0], v->gradient, kernel_of(&v->shapes[1]), &same),
                                (hd_dtype)v->dtypes[1]);
    bias_gradient(v);
}

void hd_vjp_conv_transpose(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_conv_opts opts = options_of(v->attributes, NULL, NULL);
    if (v->wanted[0]) v->results[0] = hd_cast(hd_conv(v->gradient, v->inputs[1], NULL, &opts), (hd_dtype)v->dtypes[0]);
    if (v->wanted[1])
        v->results[1] = hd_cast(hd_conv_weight_gradient(v->gradient, v->inputs[0], kernel_of(&v->shapes[1]), &opts),
                                (hd_dtype)v->dtypes[1]);
    bias_gradient(v);
}

/* It is linear in both: the gradient of the weight's gradient takes the weight's place. */
void hd_vjp_conv_weight_gradient(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_conv_attributes *a = v->attributes;
    const hd_conv_opts opts = options_of(a, v->shapes[0].size + 2, a->extra.size), same = options_of(a, NULL, NULL);
    if (v->wanted[0])
        v->results[0] = hd_cast(hd_conv_transpose(v->inputs[1], v->gradient, NULL, &opts), (hd_dtype)v->dtypes[0]);
    if (v->wanted[1]) v->results[1] = hd_cast(hd_conv(v->inputs[0], v->gradient, NULL, &same), (hd_dtype)v->dtypes[1]);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
/* The options that gave these attributes, with `extra` sizes beside them; false with an error when none did. */
static bool replayed_options(const hd_conv_attributes *a, int extra, hd_conv_opts *opts) {
    const int axes = a->stride.rank;
    bool fits = axes >= 1 && axes <= 3 && a->dilation.rank == axes && a->padding.rank == 2 * axes && a->groups != 0 &&
                a->extra.rank == extra;
    for (int i = 0; i < axes && fits; ++i) fits = a->stride.size[i] != 0 && a->dilation.size[i] != 0;
    if (fits)
        *opts = options_of(a, NULL, NULL);
    else
        hd_fail(HD_ERROR_VALUE, "the attributes of a convolution with %d spatial axes do not fit each other", axes);
    return fits;
}

void hd_replay_conv(hd_replay_call *r) {
    hd_conv_opts opts;
    if (replayed_options(r->attributes, 0, &opts))
        r->output = hd_conv(r->inputs[0], r->inputs[1], hd_replay_input(r, 2), &opts);
}
void hd_replay_conv_transpose(hd_replay_call *r) {
    const hd_conv_attributes *a = r->attributes;
    hd_conv_opts opts;
    if (!replayed_options(a, a->stride.rank, &opts)) return;
    for (int i = 0; i < a->extra.rank; ++i) opts.output_padding[i] = a->extra.size[i];
    r->output = hd_conv_transpose(r->inputs[0], r->inputs[1], hd_replay_input(r, 2), &opts);
}
void hd_replay_conv_weight_gradient(hd_replay_call *r) {
    const hd_conv_attributes *a = r->attributes;
    hd_conv_opts opts;
    if (replayed_options(a, a->stride.rank, &opts))
        r->output = hd_conv_weight_gradient(r->inputs[0], r->inputs[1], a->extra, &opts);
}
