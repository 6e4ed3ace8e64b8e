/* HD_AUTOCAST: in which dtypes calls compute. All calls pass hd_execute, with the operands as the program gave them;
 * here is the one list of ops that take others instead. */
#include "ops/op.h"

#include <hodu/autocast.h>

#include <string.h>

typedef enum rule { AS_IT_IS, SMALL, WIDE } rule;
static const uint8_t rules[HD_OP_COUNT] = {
    /* products, whose sums are in f32 inside */
    [HD_OP_matmul] = SMALL,
    [HD_OP_affine] = SMALL,
    [HD_OP_conv] = SMALL,
    [HD_OP_conv_transpose] = SMALL,
    [HD_OP_attention] = SMALL,
    /* what magnifies errors, or leaves the range of f16 */
    [HD_OP_rsqrt] = WIDE,
    [HD_OP_recip] = WIDE,
    [HD_OP_exp] = WIDE,
    [HD_OP_exp2] = WIDE,
    [HD_OP_exp10] = WIDE,
    [HD_OP_expm1] = WIDE,
    [HD_OP_log] = WIDE,
    [HD_OP_log2] = WIDE,
    [HD_OP_log10] = WIDE,
    [HD_OP_log1p] = WIDE,
    [HD_OP_log_sigmoid] = WIDE,
    [HD_OP_logit] = WIDE,
    [HD_OP_softplus] = WIDE,
    [HD_OP_xlogy] = WIDE,
    [HD_OP_pow] = WIDE,
    [HD_OP_tan] = WIDE,
    [HD_OP_asin] = WIDE,
    [HD_OP_acos] = WIDE,
    [HD_OP_sinh] = WIDE,
    [HD_OP_cosh] = WIDE,
    [HD_OP_erfinv] = WIDE,
    [HD_OP_lgamma] = WIDE,
    [HD_OP_digamma] = WIDE,
    [HD_OP_squared_difference] = WIDE,
    /* sums over many elements */
    [HD_OP_sum] = WIDE,
    [HD_OP_prod] = WIDE,
    [HD_OP_cumsum] = WIDE,
    [HD_OP_cumprod] = WIDE,
    [HD_OP_logcumsumexp] = WIDE,
    [HD_OP_layer_norm] = WIDE,
    [HD_OP_rms_norm] = WIDE,
};

/* Derivatives have the id of their row, and are in no forward pass. */
static rule rule_of(const hd_op *op) { return op->id < HD_OP_COUNT && op->derivative == 0 ? rules[op->id] : AS_IT_IS; }

/* Operands that count; the mask of attention is added to scores, which are f32 anyway. */
static int operands_of(const hd_call *call) { return call->op->id == HD_OP_attention ? 3 : call->input_count; }
static bool is_other(const hd_tensor *t, rule r) {
    return r == SMALL ? t->dtype == HD_F32 : hd_dtype_is_small_float((hd_dtype)t->dtype);
}

/* f64 and integers stay what they are, and what meets them meets them there. */
static bool concerns(const hd_call *call) {
    const rule r = rule_of(call->op);
    bool any = false;
    for (int i = 0; r != AS_IT_IS && i < operands_of(call); ++i) {
        if (r == SMALL && (call->inputs[i]->dtype == HD_F64 || !hd_dtype_is_float((hd_dtype)call->inputs[i]->dtype)))
            return false;
        any = any || is_other(call->inputs[i], r);
    }
    return any;
}

/* A product in small floats has no precision to choose. */
static void drop_precision(hd_call *call, hd_recast *room) {
    if (call->op->family != HD_FAMILY_CONV) {
        if (call->op->family == HD_FAMILY_CONTRACT) call->attributes = NULL;
        return;
    }
    _Static_assert(sizeof(hd_conv_attributes) <= HD_RECAST_BYTES, "there is room for attributes");
    hd_conv_attributes *a = (hd_conv_attributes *)(void *)room->attributes;
    memcpy(a, call->attributes, sizeof *a);
    a->precision = HD_MATMUL_EXACT;
    call->attributes = a;
}

static hd_error recast(const hd_autocast *self, hd_call *call, hd_recast *room) {
    hd_thread *thread = hd_thread_self();
    HD_KEEP_NAME(thread);
    const rule r = rule_of(call->op);
    const hd_dtype to = r == SMALL ? self->dtype : HD_F32;
    hd_dtype meets = to;
    for (int i = 0; i < call->input_count; ++i) {
        const bool counts = i < operands_of(call), other = counts && is_other(call->inputs[i], r);
        room->inputs[i] = other ? hd_cast(call->inputs[i], to) : call->inputs[i];
        if (room->inputs[i] == NULL) return thread->error_code;
        if (counts) meets = hd_dtype_promote(meets, (hd_dtype)room->inputs[i]->dtype);
    }
    call->inputs = room->inputs;
    if (call->dtype[0] != HD_BOOL) call->dtype[0] = meets;
    if (call->op->id < HD_OP_ELEMENTWISE_COUNT) call->compute = meets;
    if (r == SMALL) drop_precision(call, room);
    return HD_OK;
}

hd_dtype hd_autocast_wide(const hd_thread *thread, hd_op_id id, hd_dtype dtype) {
    return thread->autocast != NULL && rules[id] == WIDE && hd_dtype_is_small_float(dtype) ? HD_F32 : dtype;
}

/* ---- the block --------------------------------------------------------------------------------------------------- */
static const hd_autocast to_bf16 = {HD_BF16, concerns, recast}, to_f16 = {HD_F16, concerns, recast};

hd_autocast_token hd_autocast_begin(hd_autocast_token *self, hd_dtype dtype) {
    HD_ENTER("HD_AUTOCAST", (hd_autocast_token){0});
    if (dtype != HD_BF16 && dtype != HD_F16 && dtype != HD_F32) {
        hd_fail(HD_ERROR_DTYPE, "%s; it takes bf16, f16, or f32 to leave a block out", hd_dtype_name(dtype));
        return (hd_autocast_token){0};
    }
    const hd_autocast_token token = {self, thread->autocast};
    thread->autocast = dtype == HD_BF16 ? &to_bf16 : dtype == HD_F16 ? &to_f16 : NULL;
    atomic_store_explicit(&hd_calls_routed, true, memory_order_relaxed);
    return token;
}

void hd_autocast_end(hd_autocast_token *token) {
    hd_thread *thread = hd_thread_self();
    if (thread == NULL || token == NULL || token->self != token) return;
    thread->autocast = token->before;
    token->self = NULL;
}

hd_dtype hd_autocast_dtype(void) {
    HD_ENTER_ALWAYS("hd_autocast_dtype", HD_F32);
    return thread->autocast != NULL ? thread->autocast->dtype : HD_F32;
}
