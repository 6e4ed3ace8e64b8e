/* The user's ops: their operands in rows, in memory of the host. */
#include "device/cpu/cpu.h"
#include "ops/custom.h"

/* Everything belongs to a scope around the function, which may leave by a longjmp: nothing stays behind then. */
static hd_error set_inputs(hd_thread *thread, const hd_call *call, hd_custom_frame *f) {
    for (int i = 0; i < call->input_count; ++i) {
        hd_tensor *x = hd_tensor_give(thread, hd_cpu_ready(thread, call->inputs[i], (hd_dtype)call->inputs[i]->dtype));
        f->in[i].data = x == NULL ? NULL : hd_tensor_bytes(thread, x, HD_READ); /* NULL too when there are none */
        if (thread->error_code != HD_OK) return thread->error_code;
    }
    return HD_OK;
}

/* A plan says nothing of outputs that nobody reads, and what it says of others may be old. */
static hd_error check_outputs(hd_thread *thread, const hd_call *call, const hd_custom_op *op, hd_custom_frame *f) {
    if (op->shapes != NULL) HD_TRY(hd_custom_run(thread, op, op->shapes, f));
    bool same = f->args.output_count >= call->output_count && f->args.output_count <= HD_MAX_OUTPUTS;
    for (int i = 0; i < call->output_count && same; ++i)
        same = f->out[i].dtype == call->dtype[i] && hd_shape_equal(f->out[i].shape, call->shape[i]);
    for (int i = call->output_count; i < f->args.output_count && same; ++i) {
        same = (int)f->out[i].dtype > 0 && f->out[i].dtype < HD_DTYPE_COUNT;
        if (same) HD_TRY(hd_shape_check(&f->out[i].shape, hd_dtype_bytes[f->out[i].dtype], &f->out[i].count));
    }
    return same ? HD_OK
                : hd_fail(HD_ERROR_STATE,
                          "the op \"%s\" does not give what it said when it was recorded; `shapes` may look at nothing "
                          "but its arguments",
                          op->name);
}

/* An output that a plan does not want is missing there; the function has one all the same. */
static hd_error set_outputs(hd_thread *thread, hd_call *call, hd_custom_frame *f) {
    for (int i = 0; i < f->args.output_count; ++i) {
        hd_tensor *y = call->given && i < call->output_count ? call->outputs[i] : NULL;
        if (y == NULL) y = hd_tensor_give(thread, hd_tensor_new(thread, f->out[i].dtype, &f->out[i].shape));
        if (y == NULL) return thread->error_code;
        if (!call->given) call->outputs[i] = y;
        char *data = y->storage->data;
        if (data != NULL) data += y->layout.offset * hd_dtype_bytes[y->dtype];
        hd_custom_frame_set(&f->out[i], f->out[i].dtype, &y->layout.shape, data);
    }
    return HD_OK;
}

static hd_error compute(hd_thread *thread, hd_call *call, const hd_custom_op *op) {
    hd_custom_frame f;
    hd_custom_frame_begin(&f, op, call->attributes, call->inputs, call->input_count);
    HD_TRY(check_outputs(thread, call, op, &f));
    HD_TRY(set_inputs(thread, call, &f));
    HD_TRY(set_outputs(thread, call, &f));
    HD_TRY(hd_custom_run(thread, op, op->compute, &f));
    for (int i = 0; i < f.args.output_count; ++i) { /* bools are 0 or 1 to everybody else */
        uint8_t *data = f.out[i].dtype == HD_BOOL ? f.out[i].data : NULL;
        for (int64_t k = 0; data != NULL && k < f.out[i].count; ++k) data[k] = data[k] != 0;
    }
    return HD_OK;
}

hd_error hd_cpu_custom(hd_thread *thread, hd_call *call) {
    const hd_custom_op *op = hd_custom_of(call->attributes);
    if (op == NULL) return thread->error_code;
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_error status = thread->error_code;
    if (status == HD_OK) status = compute(thread, call, op);
    for (int i = 0; i < call->output_count && !call->given && status == HD_OK; ++i)
        hd_object_retain(&call->outputs[i]->object);
    hd_scope_close(thread, &scope);
    return status;
}
