/* The op tables as constant data. */
#include "ops/op.h"

#define ROW(row_name, count, bytes, text)                                                                              \
    [HD_OP_##row_name] = {.name = #row_name,                                                                           \
                          .id = HD_OP_##row_name,                                                                      \
                          .family = HD_FAMILY_ELEMENTWISE,                                                             \
                          .min_inputs = count,                                                                         \
                          .max_inputs = count,                                                                         \
                          .outputs = 1,                                                                                \
                          .attribute_bytes = bytes,                                                                    \
                          .document = text},
#define NUMBERS_BYTES(n) ((n) * sizeof(double))
typedef char none; /* "no attributes", for sizeof below */

const hd_op hd_ops[HD_OP_COUNT] = {
#define UNARY(name, types, ulp, doc, ...)    ROW(name, 1, 0, doc)
#define UNARY1(name, types, ulp, doc, ...)   ROW(name, 1, NUMBERS_BYTES(1), doc)
#define UNARY2(name, types, ulp, doc, ...)   ROW(name, 1, NUMBERS_BYTES(2), doc)
#define UNARY3(name, types, ulp, doc, ...)   ROW(name, 1, NUMBERS_BYTES(3), doc)
#define TEST(name, types, doc, ...)          ROW(name, 1, 0, doc)
#define BINARY(name, types, ulp, doc, ...)   ROW(name, 2, 0, doc)
#define SPLIT(name, ulp, doc, ...)           ROW(name, 2, 0, doc)
#define COMPARE(name, types, doc, ...)       ROW(name, 2, 0, doc)
#define CHOOSE(name, types, doc, ...)        ROW(name, 3, 0, doc)
#define TERNARY(name, types, ulp, doc, ...)  ROW(name, 3, 0, doc)
#define TERNARY1(name, types, ulp, doc, ...) ROW(name, 3, NUMBERS_BYTES(1), doc)
#include "ops/elementwise.def"
#define PRIMITIVE(row_name, row_family, least, most, row_outputs, row_attributes, signature, doc, gradient)            \
    [HD_OP_##row_name] = {.name = #row_name,                                                                           \
                          .id = HD_OP_##row_name,                                                                      \
                          .family = HD_FAMILY_##row_family,                                                            \
                          .min_inputs = least,                                                                         \
                          .max_inputs = most,                                                                          \
                          .outputs = row_outputs,                                                                      \
                          .attribute_bytes = sizeof(row_attributes) == 1 ? 0 : sizeof(row_attributes),                 \
                          .document = doc},
#include "ops/ops.def"
};

#define TRAITS(name, row_types, n, k, forbidden, to_bool, choice, error, ref)                                          \
    [HD_OP_##name] = {.types = HD_TYPES_##row_types,                                                                   \
                      .operands = n,                                                                                   \
                      .numbers = k,                                                                                    \
                      .guard = HD_GUARD_##forbidden,                                                                   \
                      .gives_bool = to_bool,                                                                           \
                      .chooses = choice,                                                                               \
                      .ulp = error,                                                                                    \
                      .reference = ref},
const hd_row hd_rows[HD_OP_ELEMENTWISE_COUNT] = {
#define UNARY(name, types, ulp, doc, ref, ...)    TRAITS(name, types, 1, 0, NONE, false, false, ulp, ref)
#define UNARY1(name, types, ulp, doc, ref, ...)   TRAITS(name, types, 1, 1, NONE, false, false, ulp, ref)
#define UNARY2(name, types, ulp, doc, ref, ...)   TRAITS(name, types, 1, 2, NONE, false, false, ulp, ref)
#define UNARY3(name, types, ulp, doc, ref, ...)   TRAITS(name, types, 1, 3, NONE, false, false, ulp, ref)
#define TEST(name, types, doc, ref, ...)          TRAITS(name, types, 1, 0, NONE, true, false, 0, ref)
#define BINARY(name, types, ulp, doc, ref, ...)   TRAITS(name, types, 2, 0, NONE, false, false, ulp, ref)
#define SPLIT(name, ulp, doc, ref, guard, ...)    TRAITS(name, NUMBERS, 2, 0, guard, false, false, ulp, ref)
#define COMPARE(name, types, doc, ref, ...)       TRAITS(name, types, 2, 0, NONE, true, false, 0, ref)
#define CHOOSE(name, types, doc, ref, ...)        TRAITS(name, types, 3, 0, NONE, false, true, 0, ref)
#define TERNARY(name, types, ulp, doc, ref, ...)  TRAITS(name, types, 3, 0, NONE, false, false, ulp, ref)
#define TERNARY1(name, types, ulp, doc, ref, ...) TRAITS(name, types, 3, 1, NONE, false, false, ulp, ref)
#include "ops/elementwise.def"
};
