/* The public function, its gradient, and how a graph calls it again: src/ops. */
#include "ops/op.h"

static hd_shape without_axis(const hd_shape *x, int axis) {
    hd_shape shape = {.rank = 0};
    for (int i = 0; i < x->rank; ++i)
        if (i != axis) shape.size[shape.rank++] = x->size[i];
    return shape;
}

hd_tensor *hd_alternating_sum(hd_tensor *x, int axis) {
    HD_ENTER("hd_alternating_sum", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_axis_resolve(axis, x->layout.shape.rank, &axis), NULL);
    if (!hd_op_takes(&hd_ops[HD_OP_alternating_sum], (hd_dtype)x->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes floats", hd_dtype_name((hd_dtype)x->dtype));
        return NULL;
    }
    const hd_shape shape = without_axis(&x->layout.shape, axis);
    const hd_axis_attributes attributes = {axis};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_alternating_sum], &x, 1, (hd_dtype)x->dtype, &shape, &attributes);
    return hd_execute(thread, &call);
}

#ifndef WITHOUT_vjp
void hd_vjp_alternating_sum(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    const int axis = ((const hd_axis_attributes *)v->attributes)->axis;
    hd_shape along = {.rank = v->shapes[0].rank};
    for (int i = 0; i < along.rank; ++i) along.size[i] = i == axis ? v->shapes[0].size[i] : 1;
    hd_tensor *place = hd_range(0, 1, along.size[axis], (hd_dtype)v->dtypes[0]);
    hd_tensor *sign = hd_rsub_scalar(hd_mul_scalar(hd_mod_scalar(place, 2), 2), 1);
    v->results[0] = hd_mul(hd_unsqueeze(v->gradient, axis), hd_reshape(sign, along));
}
#endif

#ifndef WITHOUT_replay
void hd_replay_alternating_sum(hd_replay_call *r) {
    r->output = hd_alternating_sum(r->inputs[0], ((const hd_axis_attributes *)r->attributes)->axis);
}
#endif
