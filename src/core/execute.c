/* Writing in place, and the spans of composites. */
#include "core/away.h"
#include "core/profile.h"

#include <stdio.h>

_Atomic bool hd_calls_routed;

/* A number is at home everywhere, what a builder recorded is nowhere. */
static bool is_anywhere(const hd_tensor *t) {
    return (t->storage->home != NULL && t->storage->home->captured) || hd_tensor_is_number(t);
}

static const char *operand_text(char *out, int index) {
    snprintf(out, 24, "operand %d", index + 1);
    return out;
}

/* Where `count` tensors are; false, with an error, when that is not one device. *device stays what it was when none of
 * them is anywhere in particular. */
static bool find_device(hd_tensor *const *tensors, int count, const char *const *names, hd_device *device) {
    int first = -1;
    for (int i = 0; i < count; ++i) {
        if (tensors[i] == NULL || is_anywhere(tensors[i])) continue;
        const hd_device at = tensors[i]->storage->device;
        if (first >= 0 && !hd_device_equal(at, *device)) {
            char a[32], b[32], numbers[2][24];
            const char *x = names != NULL ? names[first] : operand_text(numbers[0], first),
                       *y = names != NULL ? names[i] : operand_text(numbers[1], i);
            hd_fail(HD_ERROR_DEVICE, "%s is on %s, %s on %s; hd_to(x, device) moves a tensor to another device", x,
                    hd_device_text(a, *device), y, hd_device_text(b, at));
            return false;
        }
        if (first < 0) first = i;
        *device = at;
    }
    return true;
}

hd_executor *hd_route(hd_thread *thread, const hd_call *call) {
    return hd_is_profiled() && !thread->executor->captures ? hd_profile_executor() : hd_route_unprofiled(thread, call);
}

hd_executor *hd_route_unprofiled(hd_thread *thread, const hd_call *call) {
    if (thread->executor->captures) return thread->executor;
    hd_device device = hd_cpu(); /* where numbers are, when there is nothing else */
    if (call->input_count == 0) device = call->beside != NULL ? call->beside->storage->device : thread->device;
    if (!find_device(call->inputs, call->input_count, NULL, &device)) return NULL;
    hd_executor *executor = hd_device_executor(device);
    if (executor == NULL) hd_device_check(device); /* it was there once: in the process that this one was forked from */
    return executor;
}

static hd_tensor *run_routed(hd_thread *thread, hd_call *call) {
    hd_executor *executor = hd_route(thread, call);
    return executor != NULL && executor->run(executor, thread, call) == HD_OK ? hd_executed(thread, call) : NULL;
}

/* Casts go with the call; a tape keeps what it needs. */
static hd_tensor *run_recast(hd_thread *thread, hd_call *call) {
    hd_recast room;
    hd_tensor *const *inputs = call->inputs;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_tensor *result = NULL;
    if (thread->error_code == HD_OK && thread->autocast->recast(thread->autocast, call, &room) == HD_OK)
        result = run_routed(thread, call);
    for (int i = 0; i < call->output_count && result != NULL; ++i) hd_object_retain(&call->outputs[i]->object);
    hd_scope_close(thread, &scope);
    for (int i = 0; i < call->output_count && result != NULL; ++i) {
        if (hd_scope_own(thread, &call->outputs[i]->object) == HD_OK) continue;
        for (int j = i + 1; j < call->output_count; ++j) hd_tensor_drop(thread, call->outputs[j]);
        result = NULL;
    }
    call->inputs = inputs;
    return result;
}

hd_tensor *hd_execute_routed(hd_thread *thread, hd_call *call) {
    return thread->autocast != NULL && thread->autocast->concerns(call) ? run_recast(thread, call)
                                                                        : run_routed(thread, call);
}

/* ---- who watches calls ------------------------------------------------------------------------------------------- */
static hd_observer *(*first_observer)(void); /* set before the first thread has a context */

void hd_first_observer_register(hd_observer *(*first)(void)) { first_observer = first; }
hd_observer *hd_first_observer(void) { return first_observer != NULL ? first_observer() : NULL; }

/* ---- writing ----------------------------------------------------------------------------------------------------- */
/* True when a number of the host is written over all of a storage on a device, which the device does without a
 * kernel. */
static bool is_fill(const hd_tensor *dst, const hd_tensor *src) {
    return hd_storage_is_away(dst->storage) && hd_tensor_is_number(src) && src->storage->home == NULL &&
           src->dtype == dst->dtype && dst->contiguous && dst->layout.offset == 0 &&
           (size_t)dst->count * hd_dtype_bytes[dst->dtype] == dst->storage->bytes;
}

hd_error hd_write(hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    hd_shape shape;
    HD_TRY(hd_shape_broadcast(&dst->layout.shape, &src->layout.shape, &shape));
    if (!hd_shape_equal(shape, dst->layout.shape))
        return hd_fail(HD_ERROR_SHAPE, "%s does not broadcast to the destination's %s",
                       HD_SHAPE_TEXT(src->layout.shape), HD_SHAPE_TEXT(dst->layout.shape));
    if (hd_layout_overlaps_itself(&dst->layout))
        return hd_fail(HD_ERROR_STATE,
                       "the destination %s is a view in which elements share memory; make it contiguous first",
                       HD_SHAPE_TEXT(dst->layout.shape));
    hd_observer *observer = thread->observer;
    if (observer != NULL && observer->writes != NULL) HD_TRY(observer->writes(observer, thread, dst, src));
    hd_executor *executor = thread->executor;
    if (__builtin_expect(hd_calls_routed, 0) && !executor->captures) {
        static const char *const names[] = {"the destination", "the source"};
        hd_tensor *const both[] = {dst, src};
        hd_device device = dst->storage->device;
        if (!find_device(both, 2, names, &device)) return thread->error_code;
        executor = hd_device_executor(dst->storage->device);
        if (executor == NULL) return hd_device_check(dst->storage->device);
    }
    if (__builtin_expect(hd_calls_routed, 0) && !executor->captures && is_fill(dst, src))
        HD_TRY(hd_storage_fill(thread, dst->storage, hd_storage_bytes(thread, src->storage, HD_READ),
                               hd_dtype_bytes[src->dtype]));
    else
        HD_TRY(hd_is_profiled() ? hd_profile_write(executor, thread, dst, src)
                                : executor->write(executor, thread, dst, src));
    return observer != NULL && observer->wrote != NULL ? observer->wrote(observer, thread, dst, src) : HD_OK;
}

void hd_span_begin(hd_span *span, hd_thread *thread, const char *name) {
    span->thread = thread;
    span->depth = thread->call_depth++;
    span->token = hd_scope_within(thread, &span->token);
    if (thread->executor->span_begin != NULL) thread->executor->span_begin(thread->executor, thread, name, true);
}

hd_tensor *hd_span_end(hd_span *span, hd_tensor *result) {
    hd_thread *thread = span->thread;
    if (thread->executor->span_end != NULL) thread->executor->span_end(thread->executor, thread);
    if (span->token.self != NULL) hd_keep_object(result);
    hd_scope_close(thread, &span->token);
    thread->call_depth = span->depth; /* whatever a callback has left */
    return thread->error_code == HD_OK ? result : NULL;
}

void hd_span_keep(const hd_span *span, hd_tensor *result) {
    if (span->token.self != NULL) hd_keep_object(result);
}

hd_pair hd_span_end_pair(hd_span *span, hd_pair results) {
    hd_span_keep(span, results.indices);
    results.values = hd_span_end(span, results.values);
    if (results.values == NULL) results.indices = NULL;
    return results;
}
