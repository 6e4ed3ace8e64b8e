/* The op tables as constant data. */
#include "ops/op.h"

#define ROW(row_name, row_types, count, bytes, text, row_fails)                                                        \
    [HD_OP_##row_name] = {.name = #row_name,                                                                           \
                          .id = HD_OP_##row_name,                                                                      \
                          .family = HD_FAMILY_ELEMENTWISE,                                                             \
                          .vjp = hd_vjp_elementwise,                                                                   \
                          .work = hd_work_elements,                                                                    \
                          .min_inputs = count,                                                                         \
                          .max_inputs = count,                                                                         \
                          .outputs = 1,                                                                                \
                          .types = HD_TYPES_##row_types,                                                               \
                          .fails = row_fails,                                                                          \
                          .lower = HD_LOWER_ROW,                                                                       \
                          .attribute_bytes = bytes,                                                                    \
                          .document = text},
#define NUMBERS_BYTES(n) ((n) * sizeof(double))
typedef char none; /* "no attributes", for sizeof below */

/* The gradient column; X0, X1, X2 and Y are what a vjp reads. */
enum { X0 = HD_SAVE_INPUT0, X1 = HD_SAVE_INPUT1, X2 = HD_SAVE_INPUT2, X3 = HD_SAVE_INPUT3 };
enum { Y = HD_SAVE_OUTPUT, Y1 = HD_SAVE_OUTPUT1 };
enum { EACH = X0 | X1 | X2 | X3 | HD_SAVE_REST | Y | Y1 };
enum { PAIR = 2 };
#define PARTS(type)        2
#define VJP(function, ...) .gradient = HD_GRADIENT_VJP, .vjp = hd_vjp_##function, .saves = {__VA_ARGS__}
#define ZERO(why)          .gradient = HD_GRADIENT_ZERO, .reason = why
#define NONE(why)          .gradient = HD_GRADIENT_NONE, .reason = why
#define STOP(why)          .gradient = HD_GRADIENT_STOP, .reason = why
#define lower(kind)        .lower = HD_LOWER_##kind
#define none(why)          .no_lower = why

const hd_op hd_ops[HD_OP_COUNT] = {
#define UNARY(name, types, ulp, doc, ...)  ROW(name, types, 1, 0, doc, HD_FAILS_MEMORY)
#define UNARY1(name, types, ulp, doc, ...) ROW(name, types, 1, NUMBERS_BYTES(1), doc, HD_FAILS_MEMORY)
#define UNARY2(name, types, ulp, doc, ...) ROW(name, types, 1, NUMBERS_BYTES(2), doc, HD_FAILS_MEMORY)
#define UNARY3(name, types, ulp, doc, ...) ROW(name, types, 1, NUMBERS_BYTES(3), doc, HD_FAILS_MEMORY)
#define TEST(name, types, doc, ...)        ROW(name, types, 1, 0, doc, HD_FAILS_MEMORY)
#define BINARY(name, types, ulp, doc, ...) ROW(name, types, 2, 0, doc, HD_FAILS_MEMORY)
#define SPLIT(name, ulp, doc, ref, guard, ...)                                                                         \
    ROW(name, NUMBERS, 2, 0, doc, HD_GUARD_##guard == HD_GUARD_NONE ? HD_FAILS_MEMORY : HD_FAILS_VALUES)
#define COMPARE(name, types, doc, ...)       ROW(name, types, 2, 0, doc, HD_FAILS_MEMORY)
#define CHOOSE(name, types, doc, ...)        ROW(name, types, 3, 0, doc, HD_FAILS_MEMORY)
#define TERNARY(name, types, ulp, doc, ...)  ROW(name, types, 3, 0, doc, HD_FAILS_MEMORY)
#define TERNARY1(name, types, ulp, doc, ...) ROW(name, types, 3, NUMBERS_BYTES(1), doc, HD_FAILS_MEMORY)
#include "ops/elementwise.def"
#define PRIMITIVE(row_name, row_family, least, most, row_outputs, row_attributes, signature, doc, gradient, row_types, \
                  row_fails, row_work, row_lower)                                                                      \
    [HD_OP_##row_name] = {.name = #row_name,                                                                           \
                          .id = HD_OP_##row_name,                                                                      \
                          .family = HD_FAMILY_##row_family,                                                            \
                          .min_inputs = least,                                                                         \
                          .max_inputs = most,                                                                          \
                          .outputs = row_outputs,                                                                      \
                          .attribute_bytes = sizeof(row_attributes) == 1 ? 0 : sizeof(row_attributes),                 \
                          .document = doc,                                                                             \
                          .types = HD_TYPES_##row_types,                                                               \
                          .fails = HD_FAILS_##row_fails,                                                               \
                          .work = hd_work_##row_work,                                                                  \
                          row_lower,                                                                                   \
                          gradient},
#include "ops/ops.def"
};

#define DERIVATIVE(row_name, k, bytes)                                                                                 \
    [k] = {.name = #row_name "'",                                                                                      \
           .id = HD_OP_##row_name,                                                                                     \
           .family = HD_FAMILY_DERIVATIVE,                                                                             \
           .min_inputs = 1,                                                                                            \
           .max_inputs = 3,                                                                                            \
           .outputs = 1,                                                                                               \
           .types = HD_TYPES_FLOATS,                                                                                   \
           .fails = HD_FAILS_MEMORY,                                                                                   \
           .lower = HD_LOWER_ROW,                                                                                      \
           .work = hd_work_elements,                                                                                   \
           .derivative = (k) + 1,                                                                                      \
           .gradient = HD_GRADIENT_NONE,                                                                               \
           .reason = "a derivative without an op of its own",                                                          \
           .attribute_bytes = bytes}
#define DERIVATIVES(name, bytes)                                                                                       \
    [HD_OP_##name] = {DERIVATIVE(name, 0, bytes), DERIVATIVE(name, 1, bytes), DERIVATIVE(name, 2, bytes)},
const hd_op hd_derivatives[HD_OP_ELEMENTWISE_COUNT][3] = {
#define UNARY(name, ...)    DERIVATIVES(name, 0)
#define UNARY1(name, ...)   DERIVATIVES(name, NUMBERS_BYTES(1))
#define UNARY2(name, ...)   DERIVATIVES(name, NUMBERS_BYTES(2))
#define UNARY3(name, ...)   DERIVATIVES(name, NUMBERS_BYTES(3))
#define BINARY(name, ...)   DERIVATIVES(name, 0)
#define SPLIT(name, ...)    DERIVATIVES(name, 0)
#define CHOOSE(name, ...)   DERIVATIVES(name, 0)
#define TERNARY(name, ...)  DERIVATIVES(name, 0)
#define TERNARY1(name, ...) DERIVATIVES(name, NUMBERS_BYTES(1))
#include "ops/elementwise.def"
};

#define TRAITS(name, n, k, forbidden, to_bool, choice, error, ref)                                                     \
    [HD_OP_##name] = {.operands = n,                                                                                   \
                      .numbers = k,                                                                                    \
                      .guard = HD_GUARD_##forbidden,                                                                   \
                      .gives_bool = to_bool,                                                                           \
                      .chooses = choice,                                                                               \
                      .ulp = error,                                                                                    \
                      .reference = ref},
const hd_row hd_rows[HD_OP_ELEMENTWISE_COUNT] = {
#define UNARY(name, types, ulp, doc, ref, ...)    TRAITS(name, 1, 0, NONE, false, false, ulp, ref)
#define UNARY1(name, types, ulp, doc, ref, ...)   TRAITS(name, 1, 1, NONE, false, false, ulp, ref)
#define UNARY2(name, types, ulp, doc, ref, ...)   TRAITS(name, 1, 2, NONE, false, false, ulp, ref)
#define UNARY3(name, types, ulp, doc, ref, ...)   TRAITS(name, 1, 3, NONE, false, false, ulp, ref)
#define TEST(name, types, doc, ref, ...)          TRAITS(name, 1, 0, NONE, true, false, 0, ref)
#define BINARY(name, types, ulp, doc, ref, ...)   TRAITS(name, 2, 0, NONE, false, false, ulp, ref)
#define SPLIT(name, ulp, doc, ref, guard, ...)    TRAITS(name, 2, 0, guard, false, false, ulp, ref)
#define COMPARE(name, types, doc, ref, ...)       TRAITS(name, 2, 0, NONE, true, false, 0, ref)
#define CHOOSE(name, types, doc, ref, ...)        TRAITS(name, 3, 0, NONE, false, true, 0, ref)
#define TERNARY(name, types, ulp, doc, ref, ...)  TRAITS(name, 3, 0, NONE, false, false, ulp, ref)
#define TERNARY1(name, types, ulp, doc, ref, ...) TRAITS(name, 3, 1, NONE, false, false, ulp, ref)
#include "ops/elementwise.def"
};

bool hd_op_takes(const hd_op *op, hd_dtype dtype) {
    switch ((hd_types)op->types) {
    case HD_TYPES_FLOATS: return hd_dtype_is_float(dtype);
    case HD_TYPES_NUMBERS: return dtype != HD_BOOL;
    case HD_TYPES_INTS: return !hd_dtype_is_float(dtype);
    case HD_TYPES_INTEGERS: return hd_dtype_is_integer(dtype);
    case HD_TYPES_INDICES: return dtype == HD_I64;
    case HD_TYPES_ALL: return true;
    }
    return false;
}
