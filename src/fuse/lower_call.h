/* A call by itself as a kernel: a graph of one node, which is fused and lowered as those of scripts are. */
#ifndef HD_FUSE_LOWER_CALL_H
#define HD_FUSE_LOWER_CALL_H

#include "fuse/lower.h"

/* True for a number that becomes one of the kernel of a row; elsewhere, and where it is stretched, it is an operand,
 * and so is an integer that f64 does not hold. */
bool hd_call_writes_out(const hd_call *call, const hd_tensor *t);
/* The kernel of a call with one output. Integers that its row must not meet, and indices, were looked for before.
 * `operand`: of each buffer, which input it is; -1: the output. `numbers`: operands that are numbers may be written
 * out. *lowered is false where no kernel can say the call. */
hd_error hd_lower_call(hd_thread *thread, const hd_machine *m, const hd_call *call, bool numbers, hd_lowered *out,
                       int16_t operand[HD_KERNEL_BUFFERS], bool *lowered);

#endif
