/* The fused form of norms that know channels: group_norm, instance_norm and batch_norm in training. */
#include "ops/fused.h"

/* How many are normalised together, and how often there are so many. */
static int64_t rows_of(const hd_shape *x, int64_t groups) { return groups == 0 ? x->size[1] : x->size[0] * groups; }

hd_tensor *hd_fused_channel_norm(hd_thread *thread, hd_tensor *x, int64_t groups, hd_tensor *weight, hd_tensor *bias,
                                 double eps, hd_tensor **statistics) {
    if (x == NULL || thread->error_code != HD_OK) return NULL; /* weight or bias might be missing for it */
    const hd_shape rows = HD_SHAPE(rows_of(&x->layout.shape, groups), 2);
    const hd_channel_norm_attributes a = {groups, eps, weight != NULL, bias != NULL};
    hd_tensor *inputs[3] = {x};
    int count = 1;
    if (weight != NULL) inputs[count++] = weight;
    if (bias != NULL) inputs[count++] = bias;
    hd_call call;
    hd_call_init(&call, hd_fused_op(HD_FUSED_channel_norm), inputs, count, (hd_dtype)x->dtype, &x->layout.shape, &a);
    if (statistics != NULL || (thread->observer != NULL && hd_call_tracked(&call)))
        hd_call_add_output(&call, HD_F64, &rows);
    hd_tensor *y = hd_execute(thread, &call);
    if (statistics != NULL) *statistics = y == NULL ? NULL : hd_detach(call.outputs[1]);
    return y;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* The gradients as ops: with z the normalised x and h = g w, dx = scale (h - mean(h) - z mean(h z)). */
typedef struct as_ops {
    const hd_vjp_call *v;
    const hd_channel_norm_attributes *a;
    hd_shape shape; /* x's, in which what is normalised together has axes of its own */
    hd_axes axes;   /* these */
} as_ops;

static as_ops begin_ops(const hd_vjp_call *v) {
    as_ops o = {.v = v, .a = v->attributes, .shape = v->shapes[0], .axes = {.count = 1, .axis = {0}}};
    if (o.a->groups == 0) {
        for (int i = 2; i < o.shape.rank; ++i) o.axes.axis[o.axes.count++] = i;
    } else {
        const int64_t rows = o.a->groups * o.shape.size[0];
        o.shape = HD_SHAPE(rows, rows == 0 ? 0 : hd_shape_count(o.shape) / rows);
        o.axes.axis[0] = 1;
    }
    return o;
}

static hd_tensor *mean_of(const as_ops *o, hd_tensor *t) {
    return hd_mean(t, o->axes, HD_OPTS(hd_reduce_opts, .keep_dims = true));
}

/* A gradient of weight or bias: of each channel. */
static hd_tensor *over_channels(hd_tensor *t) {
    hd_axes axes = {.count = 1, .axis = {0}};
    for (int i = 2; t != NULL && i < hd_tensor_rank(t); ++i) axes.axis[axes.count++] = i;
    return hd_sum(t, axes, NULL);
}

static void norm_by_ops(const hd_vjp_call *v) {
    const as_ops o = begin_ops(v);
    const hd_shape *own = &v->shapes[0];
    hd_tensor *g = v->gradient, *h = g, *x = hd_reshape(v->inputs[0], o.shape), *d = hd_sub(x, mean_of(&o, x));
    hd_tensor *scale = hd_rsqrt(hd_add_scalar(mean_of(&o, hd_square(d)), o.a->eps)), *z = hd_mul(d, scale);
    if (o.a->weight) {
        const hd_shape by_channel = {.rank = own->rank - 1, .size = {own->size[1], 1, 1, 1, 1, 1, 1, 1}};
        h = hd_mul(g, hd_reshape(v->inputs[1], by_channel));
    }
    if (v->wanted[0]) {
        h = hd_reshape(h, o.shape);
        hd_tensor *rest = hd_add(hd_mul(z, mean_of(&o, hd_mul(h, z))), mean_of(&o, h));
        v->results[0] = hd_reshape(hd_mul(scale, hd_sub(h, rest)), *own);
    }
    const int bias = o.a->weight ? 2 : 1;
    if (o.a->weight && v->wanted[1]) v->results[1] = over_channels(hd_mul(g, hd_reshape(z, *own)));
    if (o.a->bias && v->wanted[bias]) v->results[bias] = over_channels(g);
}

void hd_vjp_fused_channel_norm(hd_thread *thread, const hd_vjp_call *v) {
    if (thread->observer != NULL || !hd_may_fuse(thread, v->gradient, NULL)) {
        norm_by_ops(v);
        return;
    }
    const hd_channel_norm_attributes *a = v->attributes;
    const int bias = a->weight ? 2 : 1;
    const bool to_weight = a->weight && v->wanted[1], to_bias = a->bias && v->wanted[bias];
    const hd_shape parameters = HD_SHAPE(2, v->shapes[0].size[1]);
    hd_tensor *inputs[4] = {v->gradient, v->inputs[0], v->second_output, a->weight ? v->inputs[1] : NULL};
    hd_call call;
    hd_call_init(&call, hd_fused_op(HD_FUSED_channel_norm_gradient), inputs, a->weight ? 4 : 3, (hd_dtype)v->dtypes[0],
                 &v->shapes[0], a);
    hd_call_add_output(&call, (hd_dtype)v->dtypes[0], &parameters);
    hd_tensor *to_x = hd_execute(thread, &call);
    if (to_x == NULL) return;
    if (v->wanted[0]) v->results[0] = to_x;
    if (to_weight) v->results[1] = hd_copy(hd_select(call.outputs[1], 0, 0));
    if (to_bias) v->results[bias] = hd_copy(hd_select(call.outputs[1], 0, 1));
}
