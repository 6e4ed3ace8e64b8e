/* Operands for kernels that know only contiguous f32 and f64: copies of what is anything else. */
#include "device/cpu/cpu.h"

hd_error hd_cpu_operands_begin(hd_thread *thread, hd_call *call, unsigned keep, hd_cpu_operands *o) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0];
    *o = (hd_cpu_operands){.as = (hd_dtype)hd_compute_dtype[hd_dtype_compute[out->dtype]], .out = out};
    hd_error status = HD_OK;
    for (int i = 0; i < call->input_count && status == HD_OK; ++i) {
        hd_tensor *x = call->inputs[i];
        o->in[i] = hd_cpu_ready(thread, x, keep & (1u << i) ? (hd_dtype)x->dtype : o->as);
        o->from[i] = o->in[i] == NULL ? NULL : hd_tensor_bytes(thread, o->in[i], HD_READ);
        if (o->from[i] == NULL) status = thread->error_code;
    }
    if (status == HD_OK && (hd_dtype)out->dtype != o->as) {
        o->out = hd_tensor_new(thread, o->as, &out->layout.shape);
        if (o->out == NULL) status = thread->error_code;
    }
    if (status != HD_OK) return hd_cpu_operands_end(thread, call, o, status);
    o->to = o->out->storage->data;
    return HD_OK;
}

hd_error hd_cpu_operands_end(hd_thread *thread, hd_call *call, hd_cpu_operands *o, hd_error status) {
    hd_tensor *out = call->outputs[0];
    if (status == HD_OK && o->out != out) status = hd_cpu_copy(thread, out, o->out);
    for (int i = 0; i < call->input_count; ++i) hd_tensor_drop(thread, o->in[i]);
    if (o->out != out) hd_tensor_drop(thread, o->out);
    if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    return status;
}
