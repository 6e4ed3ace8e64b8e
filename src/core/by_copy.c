/* Calls of a device that it has no code for: on the CPU, with copies of their operands. */
#include "core/away.h"

/* A tensor's storage on the host, all of it, with the same layout; a reference that is the caller's. */
static hd_tensor *brought(hd_thread *thread, const hd_tensor *t) {
    hd_storage *s = hd_storage_new(thread, t->storage->bytes);
    hd_tensor *host = NULL;
    if (s == NULL) return NULL;
    if (hd_storage_copy(thread, s, t->storage, 0, s->bytes) == HD_OK)
        host = hd_tensor_over(thread, s, (hd_dtype)t->dtype, &t->layout);
    hd_object_release(thread, &s->object);
    return host;
}

/* The output of a call on the host, on the device: over an input's storage, if it is over that of the input's copy. */
static hd_tensor *taken(hd_thread *thread, const hd_call *call, hd_tensor *const *host, hd_device device,
                        hd_tensor *output) {
    for (int i = 0; i < call->input_count; ++i)
        if (output->storage == host[i]->storage)
            return hd_tensor_over(thread, call->inputs[i]->storage, (hd_dtype)output->dtype, &output->layout);
    hd_storage *s = hd_storage_new_on(thread, device, output->storage->bytes);
    hd_tensor *t = NULL;
    if (s == NULL) return NULL;
    if (hd_storage_copy(thread, s, output->storage, 0, s->bytes) == HD_OK)
        t = hd_tensor_over(thread, s, (hd_dtype)output->dtype, &output->layout);
    hd_object_release(thread, &s->object);
    return t;
}

/* What the call gave on the host, in memory of a plan. */
static hd_error hand_over(hd_thread *thread, hd_tensor *to, hd_tensor *output) {
    hd_executor *cpu = hd_device_executor(hd_cpu());
    if (to == NULL || to->count == 0) return HD_OK;
    hd_tensor *packed = hd_tensor_new(thread, (hd_dtype)output->dtype, &output->layout.shape);
    hd_error status = packed == NULL ? thread->error_code : cpu->write(cpu, thread, packed, output);
    const hd_address there = {to->storage->device, hd_storage_address(thread, to->storage, HD_WRITE)};
    const size_t element = hd_dtype_bytes[to->dtype];
    if (status == HD_OK && there.pointer == NULL) status = thread->error_code;
    if (status == HD_OK)
        status =
            hd_device_interface_of(there.device.kind)
                ->copy(thread, (hd_address){there.device, (char *)there.pointer + (size_t)to->layout.offset * element},
                       (hd_address){hd_cpu(), packed->storage->data}, (size_t)to->count * element);
    hd_tensor_drop(thread, packed);
    return status;
}

/* Copies belong to a scope around the call: an op of the user's may leave it by a longjmp. */
static hd_error run_on_host(hd_thread *thread, hd_call *call, hd_tensor **host, hd_device device) {
    hd_executor *cpu = hd_device_executor(hd_cpu());
    hd_call on_host = *call;
    on_host.inputs = host;
    on_host.given = false;
    for (int i = 0; i < call->input_count; ++i)
        if ((host[i] = hd_tensor_give(thread, brought(thread, call->inputs[i]))) == NULL) return thread->error_code;
    HD_TRY(cpu->run(cpu, thread, &on_host));
    hd_error status = HD_OK;
    for (int i = 0; call->given && i < call->output_count; ++i) {
        if (status == HD_OK) status = hand_over(thread, call->outputs[i], on_host.outputs[i]);
        hd_tensor_drop(thread, on_host.outputs[i]);
    }
    if (call->given) return status;
    for (int i = 0; i < call->output_count; ++i) {
        call->outputs[i] = status == HD_OK ? taken(thread, call, host, device, on_host.outputs[i]) : NULL;
        if (call->outputs[i] == NULL) status = thread->error_code;
        hd_tensor_drop(thread, on_host.outputs[i]);
    }
    for (int i = 0; status != HD_OK && i < call->output_count; ++i) hd_tensor_drop(thread, call->outputs[i]);
    return status;
}

hd_error hd_run_by_copy(hd_thread *thread, hd_call *call, hd_device device) {
    hd_tensor *host[HD_MAX_INPUTS] = {NULL};
    hd_scope_token scope = hd_scope_within(thread, &scope);
    const hd_error status = thread->error_code != HD_OK ? thread->error_code : run_on_host(thread, call, host, device);
    hd_scope_close(thread, &scope);
    return status;
}

hd_error hd_write_by_copy(hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    hd_executor *cpu = hd_device_executor(hd_cpu());
    hd_tensor *from = brought(thread, src), *to = from == NULL ? NULL : brought(thread, dst);
    hd_error status = to == NULL ? thread->error_code : cpu->write(cpu, thread, to, from);
    if (status == HD_OK) {
        const hd_address there = {dst->storage->device, hd_storage_address(thread, dst->storage, HD_WRITE)};
        status = there.pointer == NULL ? thread->error_code
                 : dst->storage->bytes == 0
                     ? HD_OK
                     : hd_device_interface_of(there.device.kind)
                           ->copy(thread, there, (hd_address){hd_cpu(), to->storage->data}, dst->storage->bytes);
    }
    hd_tensor_drop(thread, from);
    hd_tensor_drop(thread, to);
    return status;
}
