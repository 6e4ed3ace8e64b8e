/* Every op that is no elementwise row, once, on a device of OpenCL: one half of them. */
#include "opencl/every.h"

static void every_call(void **state) {
    (void)state;
    every_case(HD_OP_ELEMENTWISE_COUNT, CASE_COUNT, 2);
}

RUN_ON(hd_opencl(0), test(every_call))
