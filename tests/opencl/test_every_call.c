/* Every primitive and most composites, once, on a device of OpenCL: one half of them. */
#include "opencl/every.h"

static void every_call(void **state) {
    (void)state;
    every_second_call(0);
}

RUN_ON(hd_opencl(0), test(every_call))
