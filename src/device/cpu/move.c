/* Movement: concatenation and padding. All of it is copying into views of the result. */
#include "device/cpu/border.h"
#include "device/cpu/cpu.h"

#include <string.h>

/* Copies src into the part of out that begins at `start` on each axis and has src's shape. */
static hd_error copy_into(hd_thread *thread, hd_tensor *out, const int64_t *start, hd_tensor *src) {
    hd_layout part = out->layout;
    part.shape = src->layout.shape;
    for (int i = 0; i < part.shape.rank; ++i) part.offset += start[i] * part.stride[i];
    hd_tensor *view = hd_tensor_over(thread, out->storage, (hd_dtype)out->dtype, &part);
    if (view == NULL) return thread->error_code;
    const hd_error status = hd_cpu_copy(thread, view, src);
    hd_tensor_drop(thread, view);
    return status;
}

static hd_error concat(hd_thread *thread, hd_call *call, hd_tensor *out) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    int64_t start[HD_MAX_RANK] = {0};
    for (int i = 0; i < call->input_count; ++i) {
        HD_TRY(copy_into(thread, out, start, call->inputs[i]));
        start[axis] += call->inputs[i]->layout.shape.size[axis];
    }
    return HD_OK;
}

static hd_error pad(hd_thread *thread, hd_call *call, hd_tensor *out) {
    const hd_pad_attributes *a = call->attributes;
    HD_TRY(hd_cpu_fill_border(thread, out, a));
    hd_tensor *x = call->inputs[0];
    hd_layout inner = x->layout; /* what negative padding leaves of x */
    int64_t start[HD_MAX_RANK];
    for (int i = 0; i < inner.shape.rank; ++i) {
        const int64_t before = a->padding[i].before, after = a->padding[i].after;
        start[i] = before > 0 ? before : 0;
        if (before < 0) inner.offset += -before * inner.stride[i];
        inner.shape.size[i] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (inner.shape.size[i] <= 0) return HD_OK;
    }
    hd_tensor *view = hd_tensor_over(thread, x->storage, (hd_dtype)x->dtype, &inner);
    if (view == NULL) return thread->error_code;
    const hd_error status = copy_into(thread, out, start, view);
    hd_tensor_drop(thread, view);
    return status;
}

hd_error hd_cpu_concat(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, concat); }
hd_error hd_cpu_pad(hd_thread *thread, hd_call *call) { return hd_cpu_fill_output(thread, call, pad); }
