/* Every elementwise row, once, on a device of OpenCL. */
#include "opencl/every.h"

static void every_row(void **state) {
    (void)state;
    every_case(0, HD_OP_ELEMENTWISE_COUNT, 1);
}

RUN_ON(hd_opencl(0), test(every_row))
