/* Elementwise ops: the dtype rules of a row, the broadcast shape, and the public functions. */
#include "ops/op.h"

#include <math.h>

/* ---- dtype rules ------------------------------------------------------------------------------------------------ */
static const char *const types_text[] = {"floats", "integers and floats", "integers and bool", "every dtype"};

/* The dtype the operands meet in, from their promotion. */
static hd_error compute_dtype(const hd_thread *thread, hd_op_id id, hd_dtype promoted, hd_dtype *out) {
    const hd_types types = (hd_types)hd_ops[id].types;
    const bool is_float = promoted >= HD_F8E4M3;
    *out = promoted;
    if (types == HD_TYPES_FLOATS) {
        if (!is_float) *out = thread->default_dtype;
        return HD_OK;
    }
    if ((types == HD_TYPES_NUMBERS && promoted == HD_BOOL) || (types == HD_TYPES_INTS && is_float))
        return hd_fail(HD_ERROR_DTYPE, "does not take %s, only %s; cast with hd_cast%s", hd_dtype_name(promoted),
                       types_text[types], promoted == HD_BOOL ? " or use a logical op" : "");
    return HD_OK;
}

/* Numbers in integer rows must fit, or the row would silently mean another number. A bound may lie outside the
 * range. */
static hd_error check_numbers(hd_op_id id, hd_dtype dtype, const double *numbers) {
    const bool bounds = id == HD_OP_clamp || id == HD_OP_clamp_min || id == HD_OP_clamp_max || id == HD_OP_hardtanh;
    for (int i = 0; i < hd_rows[id].numbers; ++i)
        if (!(bounds && numbers[i] == floor(numbers[i]))) HD_TRY(hd_number_check(dtype, numbers[i]));
    return HD_OK;
}

/* ---- running a row ---------------------------------------------------------------------------------------------- */
static const char *const parameters[4][3] = {{0}, {"x"}, {"a", "b"}, {"a", "b", "c"}};
static const char *const choice_parameters[3] = {"condition", "a", "b"};

static inline bool same_shape(const hd_tensor *a, const hd_tensor *b) {
    if (a->layout.shape.rank != b->layout.shape.rank) return false;
    for (int i = 0; i < a->layout.shape.rank; ++i)
        if (a->layout.shape.size[i] != b->layout.shape.size[i]) return false;
    return true;
}

static inline hd_tensor *run_row(const char *name, const void *caller, hd_op_id id, hd_tensor *const *inputs,
                                 int operands, const double *numbers) {
    hd_thread *thread = hd_thread_enter(name, caller);
    if (thread == NULL) return NULL;
    const bool chooses = hd_rows[id].chooses;
    for (int i = 0; i < operands; ++i)
        HD_TRY_OR(hd_tensor_check(inputs[i], chooses ? choice_parameters[i] : parameters[operands][i]), NULL);
    if (chooses && inputs[0]->dtype != HD_BOOL) {
        hd_fail(HD_ERROR_DTYPE, "the condition is %s; it must be bool (compare, or hd_cast)",
                hd_dtype_name((hd_dtype)inputs[0]->dtype));
        return NULL;
    }
    hd_dtype promoted = (hd_dtype)inputs[chooses]->dtype, dtype;
    for (int i = chooses + 1; i < operands; ++i)
        if (inputs[i]->dtype != promoted) promoted = hd_dtype_promote(promoted, (hd_dtype)inputs[i]->dtype);
    HD_TRY_OR(compute_dtype(thread, id, promoted, &dtype), NULL);
    if (numbers != NULL) HD_TRY_OR(check_numbers(id, dtype, numbers), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], inputs, operands, hd_rows[id].gives_bool ? HD_BOOL : dtype,
                 &inputs[0]->layout.shape, numbers);
    call.compute = dtype;
    for (int i = 1; i < operands; ++i)
        if (!same_shape(inputs[0], inputs[i]))
            HD_TRY_OR(hd_shape_broadcast(&call.shape[0], &inputs[i]->layout.shape, &call.shape[0]), NULL);
    return hd_execute(thread, &call);
}

hd_tensor *hd_run_row(hd_thread *thread, hd_op_id id, hd_tensor *const *inputs, const double *numbers) {
    return run_row(thread->call, thread->caller, id, inputs, hd_rows[id].operands, numbers);
}

static hd_tensor *run_unary(const char *name, const void *caller, hd_op_id id, hd_tensor *x, const double *numbers) {
    return run_row(name, caller, id, &x, 1, numbers);
}

static hd_tensor *run_binary(const char *name, const void *caller, hd_op_id id, hd_tensor *a, hd_tensor *b) {
    hd_tensor *inputs[2] = {a, b};
    return run_row(name, caller, id, inputs, 2, NULL);
}

static hd_tensor *run_ternary(const char *name, const void *caller, hd_op_id id, hd_tensor *a, hd_tensor *b,
                              hd_tensor *c, const double *numbers) {
    hd_tensor *inputs[3] = {a, b, c};
    return run_row(name, caller, id, inputs, 3, numbers);
}

/* A C number as operand: it takes the dtype in which it meets the tensor, so that it never widens a float. Of a choice
 * the condition comes first. */
static hd_tensor *run_with_number(const char *name, const void *caller, hd_op_id id, hd_tensor *condition, hd_tensor *x,
                                  double value, bool reversed) {
    hd_thread *thread = hd_thread_enter(name, caller);
    if (thread == NULL) return NULL;
    const bool chooses = hd_rows[id].chooses;
    if (chooses) HD_TRY_OR(hd_tensor_check(condition, "condition"), NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    hd_dtype dtype = hd_dtype_with_number(thread, hd_autocast_wide(thread, id, (hd_dtype)x->dtype), value);
    if (hd_rows[id].gives_bool && !hd_number_fits(dtype, value)) /* a comparison has an answer for any number */
        dtype = x->dtype != HD_U64 && hd_number_fits(HD_I64, value) ? HD_I64 : HD_F64;
    HD_TRY_OR(hd_number_check(dtype, value), NULL);
    hd_tensor *number = hd_tensor_scalar(thread, dtype, value);
    if (number == NULL) return NULL;
    number->operand = true;
    hd_tensor *inputs[3] = {condition, reversed ? number : x, reversed ? x : number};
    hd_tensor *result = run_row(name, caller, id, chooses ? inputs : inputs + 1, hd_rows[id].operands, NULL);
    hd_tensor_drop(thread, number);
    return result;
}

static hd_tensor *run_scalar(const char *name, const void *caller, hd_op_id id, hd_tensor *x, double value,
                             bool reversed) {
    return run_with_number(name, caller, id, NULL, x, value, reversed);
}

/* ---- the public functions, one per row -------------------------------------------------------------------------- */
#define CALLER __builtin_return_address(0)
#define ONE_OPERAND(name)                                                                                              \
    hd_tensor *hd_##name(hd_tensor *x) { return run_unary("hd_" #name, CALLER, HD_OP_##name, x, NULL); }
#define TWO_OPERANDS(name)                                                                                             \
    hd_tensor *hd_##name(hd_tensor *a, hd_tensor *b) { return run_binary("hd_" #name, CALLER, HD_OP_##name, a, b); }   \
    hd_tensor *hd_##name##_scalar(hd_tensor *x, double value) {                                                        \
        return run_scalar("hd_" #name "_scalar", CALLER, HD_OP_##name, x, value, false);                               \
    }

#define UNARY(name, ...)   ONE_OPERAND(name)
#define TEST(name, ...)    ONE_OPERAND(name)
#define BINARY(name, ...)  TWO_OPERANDS(name)
#define SPLIT(name, ...)   TWO_OPERANDS(name)
#define COMPARE(name, ...) TWO_OPERANDS(name)
#define UNARY1(name, types, ulp, doc, ref, p, ...)                                                                     \
    hd_tensor *hd_##name(hd_tensor *x, double p) {                                                                     \
        return run_unary("hd_" #name, CALLER, HD_OP_##name, x, (const double[3]){p});                                  \
    }
#define UNARY2(name, types, ulp, doc, ref, p, q, ...)                                                                  \
    hd_tensor *hd_##name(hd_tensor *x, double p, double q) {                                                           \
        return run_unary("hd_" #name, CALLER, HD_OP_##name, x, (const double[3]){p, q});                               \
    }
#define UNARY3(name, types, ulp, doc, ref, p, q, r, ...)                                                               \
    hd_tensor *hd_##name(hd_tensor *x, double p, double q, double r) {                                                 \
        return run_unary("hd_" #name, CALLER, HD_OP_##name, x, (const double[3]){p, q, r});                            \
    }
#define CHOOSE(name, ...)                                                                                              \
    hd_tensor *hd_##name(hd_tensor *condition, hd_tensor *a, hd_tensor *b) {                                           \
        return run_ternary("hd_" #name, CALLER, HD_OP_##name, condition, a, b, NULL);                                  \
    }
#define TERNARY(name, ...)                                                                                             \
    hd_tensor *hd_##name(hd_tensor *a, hd_tensor *b, hd_tensor *c) {                                                   \
        return run_ternary("hd_" #name, CALLER, HD_OP_##name, a, b, c, NULL);                                          \
    }
#define TERNARY1(name, types, ulp, doc, ref, p, ...)                                                                   \
    hd_tensor *hd_##name(hd_tensor *a, hd_tensor *b, hd_tensor *c, double p) {                                         \
        return run_ternary("hd_" #name, CALLER, HD_OP_##name, a, b, c, (const double[3]){p});                          \
    }
#include "ops/elementwise.def"

hd_tensor *hd_rsub_scalar(hd_tensor *x, double value) {
    return run_scalar("hd_rsub_scalar", CALLER, HD_OP_sub, x, value, true);
}
hd_tensor *hd_rdiv_scalar(hd_tensor *x, double value) {
    return run_scalar("hd_rdiv_scalar", CALLER, HD_OP_div, x, value, true);
}
hd_tensor *hd_rpow_scalar(hd_tensor *x, double value) {
    return run_scalar("hd_rpow_scalar", CALLER, HD_OP_pow, x, value, true);
}
hd_tensor *hd_where_scalar(hd_tensor *condition, hd_tensor *x, double value) {
    return run_with_number("hd_where_scalar", CALLER, HD_OP_where, condition, x, value, false);
}
hd_tensor *hd_rwhere_scalar(hd_tensor *condition, hd_tensor *x, double value) {
    return run_with_number("hd_rwhere_scalar", CALLER, HD_OP_where, condition, x, value, true);
}
