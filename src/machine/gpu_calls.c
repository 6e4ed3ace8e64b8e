/* Which function runs a call on a GPU: one for each primitive that is no view, hd_gpu_<name>, in a table that the
 * rows of ops.def fill, so that one that is missing does not link. Those that are a kernel, or a few other calls,
 * are here. */
#include "machine/gpu.h"

#include <math.h>
#include <string.h>

/* ---- the table --------------------------------------------------------------------------------------------------- */
#define OF_VIEW(name)      NULL /* the executor makes views itself */
#define OF_CREATE(name)    hd_gpu_##name
#define OF_RANDOM(name)    hd_gpu_##name
#define OF_CAST(name)      hd_gpu_##name
#define OF_REDUCE(name)    hd_gpu_##name
#define OF_ARGREDUCE(name) hd_gpu_##name
#define OF_SORT(name)      hd_gpu_##name
#define OF_SCAN(name)      hd_gpu_##name
#define OF_MOVE(name)      hd_gpu_##name
#define OF_INDEX(name)     hd_gpu_##name
#define OF_CONTRACT(name)  hd_gpu_##name
#define OF_NORM(name)      hd_gpu_##name
#define OF_CONV(name)      hd_gpu_##name
#define OF_POOL(name)      hd_gpu_##name
#define OF_ATTENTION(name) hd_gpu_##name
#define OF_LINALG(name)    hd_gpu_##name
#define OF_CUSTOM(name)    hd_gpu_##name
static hd_gpu_op *const ops[HD_OP_COUNT] = {
#define PRIMITIVE(name, family, ...) [HD_OP_##name] = OF_##family(name),
#include "ops/ops.def"
};

bool hd_gpu_is_by_copy(const hd_op *op) {
    static const bool listed[HD_OP_COUNT] = {
#define BY_COPY(name, ...) [HD_OP_##name] = true,
#include "machine/by_copy.def"
    };
    return op->derivative == 0 && listed[op->id];
}

/* ---- looking at values ------------------------------------------------------------------------------------------- */
/* True when some element of a tensor of integers is out of [low, high), on the device; waits for it. */
static hd_error any_out_of(hd_thread *thread, hd_tensor *t, double low, double high, bool *out) {
    const hd_dtype dtype = (hd_dtype)t->dtype;
    const double end = ldexp(1, 8 * (int)hd_dtype_bytes[dtype] - hd_dtype_is_signed(dtype)),
                 begin = hd_dtype_is_signed(dtype) ? -end : 0; /* what the dtype has */
    *out = false;
    if (low <= begin && high >= end) return HD_OK;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_span span;
    hd_span_begin(&span, thread, "check");
    hd_tensor *below = low > begin ? hd_lt(t, hd_number(dtype, low)) : NULL,
              *above = high < end ? hd_ge(t, hd_number(dtype, high)) : NULL;
    hd_tensor *bad = below == NULL ? above : above == NULL ? below : hd_logical_or(below, above);
    hd_tensor *any = hd_any(bad, HD_AXES(), NULL);
    *out = any != NULL && hd_item(any) != 0;
    hd_span_end(&span, NULL);
    thread->observer = observer;
    return thread->error_code;
}

hd_error hd_gpu_any_beside(hd_thread *thread, hd_tensor *index, int64_t bound, bool *out) {
    return any_out_of(thread, index, -(double)bound, (double)bound, out);
}

static hd_error any_zero(hd_thread *thread, hd_tensor *t, bool *out) {
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_span span;
    hd_span_begin(&span, thread, "check");
    hd_tensor *all = hd_all(t, HD_AXES(), NULL);
    *out = all != NULL && hd_item(all) == 0;
    hd_span_end(&span, NULL);
    thread->observer = observer;
    return thread->error_code;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Integers that must not be 0, or negative, are looked at first; the CPU words the error. */
static hd_error run_row(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_guard guard = call->op->derivative > 0 ? HD_GUARD_NONE : (hd_guard)hd_rows[call->op->id].guard;
    bool beside = false;
    if (guard != HD_GUARD_NONE && hd_dtype_compute[call->compute] < HD_COMPUTE_F32 &&
        hd_shape_count(call->shape[0]) > 0)
        HD_TRY(guard == HD_GUARD_ZERO ? any_zero(thread, call->inputs[1], &beside)
                                      : any_out_of(thread, call->inputs[1], 0, INFINITY, &beside));
    return beside ? hd_gpu_by_copy(thread, d, call) : hd_gpu_by_kernel(thread, d, call);
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
BY_KERNEL(contiguous)

/* What the CPU does. */
#define BY_COPY(name, ...)                                                                                             \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return hd_gpu_by_copy(thread, d, call);                                                                        \
    }
#include "machine/by_copy.def"

static hd_error fill(hd_thread *thread, const hd_gpu_device *d, hd_call *call, double value) {
    uint64_t element = 0;
    hd_element_from_f64(&element, call->dtype[0], value);
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    return hd_gpu_finish(thread, call,
                         hd_storage_fill(thread, call->outputs[0]->storage, &element, hd_dtype_bytes[call->dtype[0]]));
}
hd_error hd_gpu_full(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return fill(thread, d, call, ((const hd_full_attributes *)call->attributes)->value);
}

/* All elements as one axis: a kernel has an axis that it walks, and one that it keeps. */
static hd_error reduce_flat(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_reduce_attributes attributes = {.reduced = {true}};
    const hd_layout one = {.shape = {.rank = 0}};
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    hd_tensor *x = hd_gpu_packed(thread, d, call->inputs[0]);
    const hd_layout row = {.shape = {.rank = 1, .size = {x == NULL ? 0 : x->count}},
                           .stride = {1},
                           .offset = x == NULL ? 0 : x->layout.offset};
    hd_layout there = one;
    there.offset = call->outputs[0]->layout.offset;
    hd_tensor *flat = x == NULL ? NULL : hd_tensor_over(thread, x->storage, (hd_dtype)x->dtype, &row),
              *out = flat == NULL ? NULL : hd_tensor_over(thread, call->outputs[0]->storage, call->dtype[0], &there);
    hd_error status = out == NULL ? thread->error_code : HD_OK;
    if (status == HD_OK) {
        hd_call inner;
        hd_call_init(&inner, call->op, &flat, 1, call->dtype[0], &one.shape, &attributes);
        inner.given = true;
        inner.outputs[0] = out;
        status = hd_gpu_by_kernel(thread, d, &inner);
    }
    hd_tensor_drop(thread, out);
    hd_tensor_drop(thread, flat);
    hd_tensor_drop(thread, x);
    return hd_gpu_finish(thread, call, status);
}

/* Of nothing there is `identity`. */
static hd_error reduce(hd_thread *thread, const hd_gpu_device *d, hd_call *call, double identity) {
    const hd_tensor *x = call->inputs[0];
    const int rank = x->layout.shape.rank;
    if (x->count == 0) return fill(thread, d, call, identity);
    const bool is_flat = rank == 0 || (rank == HD_MAX_RANK && hd_shape_count(call->shape[0]) == 1);
    return is_flat ? reduce_flat(thread, d, call) : hd_gpu_by_kernel(thread, d, call);
}
#define REDUCTION(name, identity)                                                                                      \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return reduce(thread, d, call, identity);                                                                      \
    }
REDUCTION(sum, 0)
REDUCTION(prod, 1)
REDUCTION(max, -INFINITY)
REDUCTION(min, INFINITY)
REDUCTION(any, 0)
REDUCTION(all, 1)

hd_error hd_gpu_empty(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return hd_gpu_outputs(thread, d, call, false);
}

/* ---- conversions that words do not have -------------------------------------------------------------------------- */
enum { THREADS = 64 };
typedef struct convert_arguments { /* as template_convert.h has it */
    int64_t offset[2], count;
    uint64_t start, step, last;
    int64_t has_last;
} convert_arguments;

static hd_error convert(hd_thread *thread, const hd_gpu_device *d, hd_call *call, const hd_tensor *x,
                        convert_arguments *a) {
    hd_tensor *moved = NULL;
    const hd_template_use use = {.which = HD_TEMPLATE_convert,
                                 .types = {x != NULL ? (int32_t)x->dtype : HD_F64, (int32_t)call->dtype[0]},
                                 .numbers = {THREADS, x == NULL}};
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    a->count = call->outputs[0]->count;
    if (a->count == 0) return HD_OK;
    hd_gpu_shot shot = {.use = &use,
                        .function = x != NULL ? "convert" : "convert_range",
                        .groups = {hd_gpu_groups(a->count, THREADS)},
                        .threads = THREADS,
                        .arguments = a,
                        .argument_bytes = sizeof *a};
    if (x != NULL) shot.buffers[shot.buffer_count++] = hd_gpu_read(thread, d, x, &moved);
    shot.buffers[shot.buffer_count++] = hd_gpu_written(thread, call->outputs[0]);
    const bool ready = shot.groups[0] > 0 && shot.buffers[0] != NULL && shot.buffers[shot.buffer_count - 1] != NULL;
    const hd_error status = ready ? hd_gpu_shoot(d, &shot) : thread->error_code;
    hd_tensor_drop(thread, moved);
    return hd_gpu_finish(thread, call, status);
}

static bool is_whole(double v) { return v > -0x1p63 && v < 0x1p63 && v == (double)(int64_t)v; }

hd_error hd_gpu_range(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_range_attributes *r = call->attributes;
    if (!d->gpu->limits(d->device.index)->has_f64) return hd_gpu_by_copy(thread, d, call);
    convert_arguments a = {.start = hd_template_number(HD_F64, r->start),
                           .step = hd_template_number(HD_F64, r->step),
                           .last = hd_template_number(HD_F64, r->last),
                           .has_last = r->has_last};
    const int64_t count = hd_shape_count(call->shape[0]);
    int64_t last;
    if (call->dtype[0] == HD_I64 && !r->has_last && is_whole(r->start) && is_whole(r->step) &&
        !__builtin_mul_overflow(count, (int64_t)r->step, &last) &&
        !__builtin_add_overflow(last, (int64_t)r->start, &last)) {
        a.start = (uint64_t)(int64_t)r->start; /* exact, also past 2^53 */
        a.step = (uint64_t)(int64_t)r->step;
        a.has_last = 2;
    }
    return convert(thread, d, call, NULL, &a);
}

/* To small floats from what f32 does not have; all else are words. */
hd_error hd_gpu_cast(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_dtype from = (hd_dtype)call->inputs[0]->dtype;
    if (!hd_dtype_is_small_float(call->dtype[0]) || hd_dtype_is_small_float(from) || from == HD_F32 ||
        (!hd_dtype_is_float(from) && hd_dtype_bytes[from] <= 2))
        return hd_gpu_by_kernel(thread, d, call);
    hd_tensor *x = hd_gpu_packed(thread, d, call->inputs[0]);
    convert_arguments a = {.count = 0};
    if (x == NULL) return thread->error_code;
    const hd_error status = convert(thread, d, call, x, &a);
    hd_tensor_drop(thread, x);
    return status;
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

hd_error hd_gpu_pad_border(hd_thread *thread, const hd_gpu_device *d, hd_tensor *out, const hd_pad_attributes *a) {
    hd_shape slab = out->layout.shape; /* of axes before this one, what is inside of them */
    int64_t begin[HD_MAX_RANK] = {0};
    hd_tensor *value = hd_tensor_new_on(thread, d->device, (hd_dtype)out->dtype, &(hd_shape){.rank = 0});
    if (value == NULL) return thread->error_code;
    uint64_t element = 0;
    hd_element_from_f64(&element, (hd_dtype)out->dtype, a->value);
    hd_error status = hd_storage_fill(thread, value->storage, &element, hd_dtype_bytes[out->dtype]);
    for (int i = 0; i < slab.rank && status == HD_OK; ++i) {
        const int64_t all = slab.size[i], before = a->padding[i].before > 0 ? a->padding[i].before : 0,
                      after = a->padding[i].after > 0 ? a->padding[i].after : 0;
        slab.size[i] = before < all ? before : all;
        if (slab.size[i] > 0) status = write_part(thread, d, out, begin, &slab, value);
        slab.size[i] = after < all ? after : all;
        begin[i] = all - slab.size[i];
        if (slab.size[i] > 0 && status == HD_OK) status = write_part(thread, d, out, begin, &slab, value);
        begin[i] = before;
        slab.size[i] = all - before - after;
        if (slab.size[i] <= 0) break;
    }
    hd_tensor_drop(thread, value);
    return status;
}

/* ---- indexing ---------------------------------------------------------------------------------------------------- */
/* An index out of range is an error that the CPU words. */
static hd_error look_up(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    const int64_t bound = call->inputs[0]->layout.shape.size[axis];
    bool beside = false;
    if (call->inputs[1]->count > 0) HD_TRY(hd_gpu_any_beside(thread, call->inputs[1], bound, &beside));
    return beside ? hd_gpu_by_copy(thread, d, call) : hd_gpu_by_kernel(thread, d, call);
}
hd_error hd_gpu_gather(hd_thread *thread, const hd_gpu_device *d, hd_call *call) { return look_up(thread, d, call); }
hd_error hd_gpu_index_select(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    return look_up(thread, d, call);
}
