/* Changing dtypes. */
#include "ops/op.h"

hd_tensor *hd_cast(hd_tensor *x, hd_dtype dtype) {
    HD_ENTER("hd_cast", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if ((hd_dtype)x->dtype == dtype) return x;
    const hd_cast_attributes attributes = {dtype};
    hd_call call;
    hd_call_init(&call, &hd_ops[HD_OP_cast], &x, 1, dtype, &x->layout.shape, &attributes);
    return hd_execute(thread, &call);
}

hd_tensor *hd_bitcast(hd_tensor *x, hd_dtype dtype) {
    HD_ENTER("hd_bitcast", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    if (hd_dtype_bytes[x->dtype] != hd_dtype_bytes[dtype] || dtype == HD_BOOL) {
        hd_fail(HD_ERROR_DTYPE, "%s has %d bytes and %s has %d; both must be of one size, and no bits are read as bool",
                hd_dtype_name((hd_dtype)x->dtype), hd_dtype_bytes[x->dtype], hd_dtype_name(dtype),
                hd_dtype_bytes[dtype]);
        return NULL;
    }
    const hd_cast_attributes attributes = {dtype};
    return hd_view(thread, HD_OP_bitcast, x, dtype, &x->layout, &attributes);
}

void hd_vjp_cast(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_cast(v->gradient, (hd_dtype)v->dtypes[0]);
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_cast(hd_replay_call *r) {
    r->output = hd_cast(r->inputs[0], ((const hd_cast_attributes *)r->attributes)->dtype);
}
void hd_replay_bitcast(hd_replay_call *r) {
    r->output = hd_bitcast(r->inputs[0], ((const hd_cast_attributes *)r->attributes)->dtype);
}
