/* Matrix products whose result is used where it is made: for compiled scripts. */
#ifndef HD_DEVICE_CPU_PRODUCT_H
#define HD_DEVICE_CPU_PRODUCT_H

#include "core/execute.h"

/* Called once for every part of the result, when it is complete and in cache, on any thread: `tile` has `rows` rows, `stride`
 * elements apart, of `columns` columns. Rows are counted through all outer axes of the result. */
typedef void (*hd_product_finish)(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows,
                                  int64_t column, int64_t columns);
/* A call of matmul or affine (without its bias) on operands of one dtype, f32 or f64; the call's output says only which shape
 * the result has: it is nowhere but in the tiles. */
hd_error hd_cpu_product(hd_thread *thread, const hd_call *call, hd_product_finish finish, void *context);

#endif
