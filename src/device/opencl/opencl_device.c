/* What the rest of the library sees of OpenCL. There is no executor yet: hodu has no kernels for it. */
#include "device/opencl/opencl_device.h"
#include "device/opencl/driver.h"

const hd_device_interface hd_opencl_interface = {.name = "opencl",
                                                 .count = hd_opencl_count,
                                                 .missing = hd_opencl_missing,
                                                 .synchronize = hd_opencl_synchronize,
                                                 .allocate = hd_opencl_allocate,
                                                 .recycle = hd_opencl_recycle,
                                                 .copy = hd_opencl_copy,
                                                 .fill = hd_opencl_fill,
                                                 .describe = hd_opencl_describe};

const hd_gpu_interface hd_opencl_gpu = {.kind = HD_DEVICE_OPENCL,
                                        .limits = hd_opencl_limits,
                                        .compile = hd_opencl_compile,
                                        .load = hd_opencl_load,
                                        .unload = hd_opencl_unload,
                                        .function = hd_opencl_function,
                                        .launch = hd_opencl_launch};
