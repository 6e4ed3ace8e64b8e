/* Which function runs a call on a GPU: one for each primitive that is no view, hd_gpu_<name>, in a table that the rows of
 * ops.def fill, so that one that is missing does not link. Those that are a kernel, or a few other calls, are here. */
#include "machine/gpu.h"

#include <string.h>

/* ---- prototypes, and the table ----------------------------------------------------------------------------------- */
#define PRIMITIVE(name, ...) hd_gpu_op hd_gpu_##name;
#include "ops/ops.def"

#define OF_VIEW(name)      NULL /* executors make views themselves */
#define OF_CREATE(name)    hd_gpu_##name
#define OF_RANDOM(name)    hd_gpu_##name
#define OF_CAST(name)      hd_gpu_##name
#define OF_REDUCE(name)    hd_gpu_##name
#define OF_ARGREDUCE(name) hd_gpu_##name
#define OF_SORT(name)      hd_gpu_##name
#define OF_MOVE(name)      hd_gpu_##name
#define OF_INDEX(name)     hd_gpu_##name
#define OF_CONTRACT(name)  hd_gpu_##name
#define OF_NORM(name)      hd_gpu_##name
#define OF_CONV(name)      hd_gpu_##name
#define OF_POOL(name)      hd_gpu_##name
#define OF_ATTENTION(name) hd_gpu_##name
static hd_gpu_op *const ops[HD_OP_COUNT] = {
#define PRIMITIVE(name, family, ...) [HD_OP_##name] = OF_##family(name),
#include "ops/ops.def"
};

/* ---- looking at values ------------------------------------------------------------------------------------------- */
/* True when some element of a tensor is out of [low, high), on the device; waits for it. */
static hd_error any_beside(hd_thread *thread, hd_tensor *t, int64_t low, int64_t high, bool *out) {
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_span span;
    hd_span_begin(&span, thread, "check");
    const hd_dtype dtype = (hd_dtype)t->dtype;
    hd_tensor *below = hd_lt(t, hd_number(dtype, (double)low)), *above = hd_ge(t, hd_number(dtype, (double)high));
    hd_tensor *any = low == INT64_MIN    ? hd_any(above, HD_AXES(), NULL)
                     : high == INT64_MAX ? hd_any(below, HD_AXES(), NULL)
                                         : hd_any(hd_logical_or(below, above), HD_AXES(), NULL);
    *out = any != NULL && hd_item(any) != 0;
    hd_span_end(&span, NULL);
    thread->observer = observer;
    return thread->error_code;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static hd_error run_row(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return hd_gpu_by_kernel(thread, d, call);
}

hd_gpu_op *hd_gpu_op_of(const hd_call *call) {
    const bool is_row = call->op->derivative > 0 || call->op->id < HD_OP_ELEMENTWISE_COUNT;
    return is_row ? run_row : ops[call->op->id];
}

/* ---- what is a kernel, or nothing -------------------------------------------------------------------------------- */
#define BY_KERNEL(name)                                                                                                \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return hd_gpu_by_kernel(thread, d, call);                                                                      \
    }
BY_KERNEL(uniform)
BY_KERNEL(normal)
BY_KERNEL(randint)
BY_KERNEL(cast)
BY_KERNEL(sum)
BY_KERNEL(prod)
BY_KERNEL(max)
BY_KERNEL(min)
BY_KERNEL(any)
BY_KERNEL(all)
BY_KERNEL(contiguous)

/* What the CPU does: tests/device/by_copy.txt lists them. */
#define BY_COPY(name)                                                                                                  \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return hd_gpu_by_copy(thread, d, call);                                                                        \
    }
BY_COPY(permutation)
BY_COPY(multinomial)
BY_COPY(range)
BY_COPY(argmax)
BY_COPY(argmin)
BY_COPY(max_with_index)
BY_COPY(min_with_index)
BY_COPY(sort)
BY_COPY(topk)
BY_COPY(scatter)
BY_COPY(matmul)
BY_COPY(affine)
BY_COPY(layer_norm)
BY_COPY(rms_norm)
BY_COPY(layer_norm_gradient)
BY_COPY(rms_norm_gradient)
BY_COPY(layer_norm_weight_gradient)
BY_COPY(rms_norm_weight_gradient)
BY_COPY(conv)
BY_COPY(conv_transpose)
BY_COPY(conv_weight_gradient)
BY_COPY(max_pool)
BY_COPY(avg_pool)
BY_COPY(max_pool_pick)
BY_COPY(max_pool_gradient)
BY_COPY(avg_pool_gradient)
BY_COPY(attention)
BY_COPY(attention_gradient)

hd_error hd_gpu_full(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    uint64_t element = 0;
    hd_element_from_f64(&element, call->dtype[0], ((const hd_full_attributes *)call->attributes)->value);
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    return hd_gpu_finish(thread, call,
                         hd_storage_fill(thread, call->outputs[0]->storage, &element, hd_dtype_bytes[call->dtype[0]]));
}

hd_error hd_gpu_empty(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return hd_gpu_outputs(thread, d, call, false);
}

/* ---- movement: writes into parts of the result ------------------------------------------------------------------- */
/* Writes src into `shape` elements of out, from `begin` on. */
static hd_error write_part(hd_thread *thread, const hd_gpu_device *d, hd_tensor *out, const int64_t *begin,
                           const hd_shape *shape, hd_tensor *src) {
    hd_layout part = out->layout;
    part.shape = *shape;
    for (int i = 0; i < shape->rank; ++i) part.offset += begin[i] * out->layout.stride[i];
    hd_tensor *view = hd_tensor_over(thread, out->storage, (hd_dtype)out->dtype, &part);
    if (view == NULL) return thread->error_code;
    const hd_error status = hd_gpu_write((hd_executor *)(uintptr_t)&d->executor, thread, view, src);
    hd_tensor_drop(thread, view);
    return status;
}

hd_error hd_gpu_concat(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    int64_t begin[HD_MAX_RANK] = {0};
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    hd_error status = HD_OK;
    for (int k = 0; k < call->input_count && status == HD_OK; ++k) {
        hd_tensor *t = call->inputs[k];
        status = write_part(thread, d, call->outputs[0], begin, &t->layout.shape, t);
        begin[axis] += t->layout.shape.size[axis];
    }
    return hd_gpu_finish(thread, call, status);
}

hd_error hd_gpu_pad(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_pad_attributes *a = call->attributes;
    hd_tensor *x = call->inputs[0];
    hd_layout kept = x->layout; /* the part of x that is not cut off */
    int64_t begin[HD_MAX_RANK] = {0};
    uint64_t element = 0;
    for (int i = 0; i < kept.shape.rank; ++i) {
        const int64_t before = a->padding[i].before, after = a->padding[i].after;
        begin[i] = before > 0 ? before : 0;
        if (before < 0) kept.offset -= before * kept.stride[i];
        kept.shape.size[i] += (before < 0 ? before : 0) + (after < 0 ? after : 0);
        if (kept.shape.size[i] < 0) kept.shape.size[i] = 0;
    }
    hd_element_from_f64(&element, call->dtype[0], a->value);
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    hd_tensor *out = call->outputs[0];
    hd_error status = hd_storage_fill(thread, out->storage, &element, hd_dtype_bytes[call->dtype[0]]);
    if (status == HD_OK && hd_shape_count(kept.shape) > 0) {
        hd_tensor *inside = hd_tensor_over(thread, x->storage, (hd_dtype)x->dtype, &kept);
        status = inside == NULL ? thread->error_code : write_part(thread, d, out, begin, &kept.shape, inside);
        hd_tensor_drop(thread, inside);
    }
    return hd_gpu_finish(thread, call, status);
}

/* ---- indexing ---------------------------------------------------------------------------------------------------- */
/* An index out of range is an error that the CPU words. */
static hd_error look_up(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    const int64_t bound = call->inputs[0]->layout.shape.size[axis];
    bool beside = false;
    if (call->inputs[1]->count > 0) HD_TRY(any_beside(thread, call->inputs[1], -bound, bound, &beside));
    return beside ? hd_gpu_by_copy(thread, d, call) : hd_gpu_by_kernel(thread, d, call);
}
hd_error hd_gpu_gather(hd_thread *thread, const hd_gpu_device *d, hd_call *call) { return look_up(thread, d, call); }
hd_error hd_gpu_index_select(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return look_up(thread, d, call);
}
