/* Moving tensors between devices. */
#include "core/away.h"
#include "ops/op.h"

/* Where gradients go back to. */
typedef struct to_attributes {
    hd_device from;
} to_attributes;

static void vjp_to(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    v->results[0] = hd_to(v->gradient, ((const to_attributes *)v->attributes)->from);
}
static hd_work work_of_to(const hd_call *call) {
    return (hd_work){0, 2.0 * (double)hd_shape_count(call->shape[0]) * hd_dtype_bytes[call->dtype[0]]};
}
/* In no table: no device runs it alone, and graphs have none, as a script runs on one device. */
static const hd_op op_to = {.name = "to",
                            .id = HD_OP_contiguous, /* for whoever looks at families */
                            .family = HD_FAMILY_MOVE,
                            .min_inputs = 1,
                            .max_inputs = 1,
                            .outputs = 1,
                            .gradient = HD_GRADIENT_VJP,
                            .attribute_bytes = sizeof(to_attributes),
                            .document = "x on a device.",
                            .vjp = vjp_to,
                            .work = work_of_to};

hd_tensor *hd_to(hd_tensor *x, hd_device device) {
    HD_ENTER("hd_to", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (device.kind == HD_DEVICE_DEFAULT) device = thread->device;
    HD_TRY_OR(hd_device_check(device), NULL);
    if (thread->executor->captures) { /* where a script runs is the script's */
        if (hd_device_equal(device, thread->device)) return x;
        hd_fail(HD_ERROR_DEVICE,
                "a builder records for %s, not for %s: a script runs on one device, which "
                "hd_script_set_device chooses",
                hd_device_text((char[32]){0}, thread->device), hd_device_text((char[32]){0}, device));
        return NULL;
    }
    if (hd_device_equal(x->storage->device, device)) return x;
    hd_span span;
    hd_span_begin(&span, thread, "to");
    hd_tensor *ready = hd_contiguous(x);
    hd_tensor *result = NULL;
    if (ready != NULL) {
        const to_attributes attributes = {x->storage->device};
        hd_call call;
        hd_call_init(&call, &op_to, &ready, 1, (hd_dtype)x->dtype, &x->layout.shape, &attributes);
        call.outputs[0] = hd_tensor_moved(thread, ready, device);
        if (call.outputs[0] != NULL) result = hd_executed(thread, &call);
    }
    return hd_span_end(&span, result);
}
