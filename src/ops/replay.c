/* Calling an op from its id and attributes: what a loaded, parsed or rewritten graph is checked and built with. Every
 * call goes through the public function, so that whatever a file says is checked as if a program had said it. */
#include "ops/row_uses.h"

static void (*const replays[HD_OP_COUNT])(hd_replay_call *r) = {
#define PRIMITIVE(name, ...) [HD_OP_##name] = hd_replay_##name,
#include "ops/ops.def"
};

static hd_tensor *derivative(hd_thread *thread, hd_op_id id, int operand, const hd_replay_call *r) {
    const unsigned uses = operand < hd_rows[id].operands ? hd_row_uses(id, operand) : 0;
    const int count = r->input_count;
    if (uses == 0 || __builtin_popcount(uses & (HD_SAVE_ANY | HD_USES_GRADIENT)) != count || count > 3 ||
        !hd_dtype_is_float(r->dtype)) {
        hd_fail(HD_ERROR_VALUE, "no derivative of %s by operand %d takes %d tensors of %s", hd_ops[id].name, operand,
                count, hd_dtype_name(r->dtype));
        return NULL;
    }
    hd_shape shape = r->inputs[0]->layout.shape;
    for (int i = 0; i < count; ++i) {
        const bool condition = hd_rows[id].chooses && i == 0;
        if (condition && r->inputs[i]->dtype != HD_BOOL) {
            hd_fail(HD_ERROR_DTYPE, "input %d of the derivative of %s is %s, not bool", i, hd_ops[id].name,
                    hd_dtype_name((hd_dtype)r->inputs[i]->dtype));
            return NULL;
        }
        HD_TRY_OR(hd_shape_broadcast(&shape, &r->inputs[i]->layout.shape, &shape), NULL);
    }
    hd_call call;
    hd_call_init(&call, &hd_derivatives[id][operand], r->inputs, count, r->dtype, &shape, r->attributes);
    call.compute = r->dtype;
    return hd_execute(thread, &call);
}

/* A product is called with the precision of then. */
static void replay_primitive(hd_thread *thread, hd_op_id id, hd_replay_call *r) {
    const hd_matmul_precision before = thread->matmul_precision;
    const int precision = hd_attributes_precision(id, r->attributes);
    if (precision != HD_MATMUL_EXACT && precision != HD_MATMUL_TF32) {
        hd_fail(HD_ERROR_VALUE, "%s with a precision of %d; it is 0, exact, or 1, TF32", hd_ops[id].name, precision);
        return;
    }
    thread->matmul_precision = (hd_matmul_precision)precision;
    replays[id](r);
    thread->matmul_precision = before;
}

void hd_replay(hd_thread *thread, hd_op_id id, int derived, hd_replay_call *r) {
    HD_WITHOUT_AUTOCAST(thread);
    const hd_op *op = derived == 0 ? &hd_ops[id] : &hd_derivatives[id][derived - 1];
    r->output = r->second = NULL;
    if (r->input_count < op->min_inputs || r->input_count > op->max_inputs) {
        hd_fail(HD_ERROR_VALUE, "%d inputs for %s", r->input_count, op->name);
        return;
    }
    for (int i = 0; i < r->input_count; ++i)
        if (hd_tensor_check(r->inputs[i], "input") != HD_OK) return;
    if (derived != 0)
        r->output = derivative(thread, id, derived - 1, r);
    else if (id < HD_OP_ELEMENTWISE_COUNT)
        r->output = hd_run_row(thread, id, r->inputs, r->attributes);
    else
        replay_primitive(thread, id, r);
}
