/* Ops that put elements of an axis in order, and say where they were: NaN is larger than all numbers, and of equals the
 * first comes first. */
#include "ops/op.h"

hd_pair hd_run_pair(hd_thread *thread, hd_op_id id, hd_tensor *x, const hd_shape *shape, const void *attributes) {
    hd_call call;
    int64_t elements;
    if (hd_shape_check(shape, sizeof(int64_t), &elements) != HD_OK) return (hd_pair){NULL, NULL};
    hd_call_init(&call, &hd_ops[id], &x, 1, (hd_dtype)x->dtype, shape, attributes);
    hd_call_add_output(&call, HD_I64, shape);
    hd_tensor *values = hd_execute(thread, &call);
    return (hd_pair){values, values == NULL ? NULL : call.outputs[1]};
}

static const hd_pair nothing = {NULL, NULL};

hd_pair hd_sort(hd_tensor *x, int axis, bool descending) {
    HD_ENTER("hd_sort", nothing);
    HD_TRY_OR(hd_tensor_check(x, "x"), nothing);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), nothing);
    const hd_sort_attributes attributes = {axis, descending};
    return hd_run_pair(thread, HD_OP_sort, x, &x->layout.shape, &attributes);
}

hd_pair hd_topk(hd_tensor *x, int64_t k, int axis, bool largest) {
    HD_ENTER("hd_topk", nothing);
    HD_TRY_OR(hd_tensor_check(x, "x"), nothing);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), nothing);
    hd_shape shape = x->layout.shape;
    if (k < 0 || k > shape.size[axis]) {
        hd_fail(HD_ERROR_VALUE, "k = %lld of axis %d of %s; there are %lld", (long long)k, axis, HD_SHAPE_TEXT(shape),
                (long long)shape.size[axis]);
        return nothing;
    }
    shape.size[axis] = k;
    const hd_topk_attributes attributes = {axis, k, largest};
    return hd_run_pair(thread, HD_OP_topk, x, &shape, &attributes);
}

static hd_pair extreme(hd_thread *thread, hd_op_id id, hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_TRY_OR(hd_tensor_check(x, "x"), nothing);
    HD_READ_OPTS(hd_reduce_opts, opts, nothing);
    hd_reduce_attributes attributes = {.keep_dims = options.keep_dims};
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), nothing);
    attributes.reduced[axis] = true;
    if (x->layout.shape.size[axis] == 0) {
        hd_fail(HD_ERROR_SHAPE, "axis %d of %s is empty and has no such element", axis, HD_SHAPE_TEXT(x->layout.shape));
        return nothing;
    }
    const hd_shape shape = hd_reduced_shape(&x->layout.shape, attributes.reduced, options.keep_dims);
    return hd_run_pair(thread, id, x, &shape, &attributes);
}

hd_pair hd_max_with_index(hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_max_with_index", nothing);
    return extreme(thread, HD_OP_max_with_index, x, axis, opts);
}

hd_pair hd_min_with_index(hd_tensor *x, int axis, const hd_reduce_opts *opts) {
    HD_ENTER("hd_min_with_index", nothing);
    return extreme(thread, HD_OP_min_with_index, x, axis, opts);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
void hd_send_back(const hd_vjp_call *v, int axis, hd_tensor *gradient, hd_tensor *indices) {
    hd_tensor *zeros = hd_full_beside(gradient, v->shapes[0], (hd_dtype)v->dtypes[0], 0);
    v->results[0] = hd_scatter(zeros, axis, indices, gradient, HD_SCATTER_ADD);
}

void hd_vjp_sort(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    if (v->gradient != NULL)
        hd_send_back(v, ((const hd_sort_attributes *)v->attributes)->axis, v->gradient, v->second_output);
}

void hd_vjp_topk(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    if (v->gradient != NULL)
        hd_send_back(v, ((const hd_topk_attributes *)v->attributes)->axis, v->gradient, v->second_output);
}

void hd_vjp_extreme_with_index(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const hd_reduce_attributes *a = v->attributes;
    if (v->gradient == NULL) return;
    int axis = 0;
    while (!a->reduced[axis]) ++axis;
    const hd_shape shape = hd_reduced_shape(&v->shapes[0], a->reduced, true);
    hd_send_back(v, axis, hd_reshape(v->gradient, shape), hd_reshape(v->second_output, shape));
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_sort(hd_replay_call *r) {
    const hd_sort_attributes *a = r->attributes;
    hd_replay_gives(r, hd_sort(r->inputs[0], a->axis, a->descending));
}

void hd_replay_topk(hd_replay_call *r) {
    const hd_topk_attributes *a = r->attributes;
    hd_replay_gives(r, hd_topk(r->inputs[0], a->count, a->axis, a->largest));
}

void hd_replay_max_with_index(hd_replay_call *r) {
    int axis;
    hd_reduce_opts opts;
    if (hd_replay_axis(r, &axis, &opts)) hd_replay_gives(r, hd_max_with_index(r->inputs[0], axis, &opts));
}

void hd_replay_min_with_index(hd_replay_call *r) {
    int axis;
    hd_reduce_opts opts;
    if (hd_replay_axis(r, &axis, &opts)) hd_replay_gives(r, hd_min_with_index(r->inputs[0], axis, &opts));
}
