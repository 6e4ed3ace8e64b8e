/* Every op that is no elementwise row, once, on a device of OpenCL: the sixth of each six. */
#include "opencl/every.h"

static void every_sixth_call(void **state) {
    (void)state;
    every_case(HD_OP_ELEMENTWISE_COUNT + 5, CASE_COUNT, 6);
}

RUN_ON(hd_opencl(0), test(every_sixth_call))
