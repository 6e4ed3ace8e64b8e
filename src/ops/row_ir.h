/* Elementwise rows as kernel IR. */
#ifndef HD_OPS_ROW_IR_H
#define HD_OPS_ROW_IR_H

#include "kernel/ir.h"
#include "ops/op.h"

/* Where the variables of sentences stand among the inputs of the IR:
 *     values:      x or a, b, c at 0, 1, 2 (for `where`: the condition, a, b)
 *     derivatives: the same, then the incoming gradient g at 3 and the row's value y at 4 */
enum { HD_INPUT_GRADIENT = 3, HD_INPUT_VALUE = 4 };

/* True when the row has kernels in this compute type. */
bool hd_row_takes(hd_op_id id, hd_compute type);
/* The row's value in this type. */
hd_error hd_row_value_ir(hd_op_id id, hd_compute type, hd_ir *out);
/* The derivative by operand k (of `where`: 1 and 2), in a float type. */
hd_error hd_row_derivative_ir(hd_op_id id, int operand, hd_compute type, hd_ir *out);

/* Both, for those who read many rows: each is read once. All zero: none yet. */
typedef struct hd_row_irs {
    hd_ir **read[HD_OP_ELEMENTWISE_COUNT]; /* [0: the value, else 1 + operand][compute]; NULL: none of that op */
} hd_row_irs;
void hd_row_irs_end(hd_row_irs *rows);
/* `derivative`: 0, or 1 + the operand. Lives as long as `rows`; NULL with an error. */
const hd_ir *hd_row_irs_get(hd_row_irs *rows, hd_op_id id, int derivative, hd_compute type);

#endif
