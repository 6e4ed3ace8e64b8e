/* What the rest of the library sees of OpenCL. Its executor is the compiler's, which is above: it is registered. */
#include "device/opencl/opencl_device.h"
#include "device/opencl/driver.h"
#include "ops/op.h"

static hd_executor *(*registered)(int index); /* set before the first thread has a context */
void hd_opencl_register_executor(hd_executor *(*executor)(int index)) { registered = executor; }
static hd_executor *executor_of(int index) { return registered != NULL ? registered(index) : NULL; }

static bool supports(const hd_op *op, hd_dtype dtype) { return hd_op_takes(op, dtype); }

const hd_device_interface hd_opencl_interface = {.name = "opencl",
                                                 .count = hd_opencl_count,
                                                 .missing = hd_opencl_missing,
                                                 .executor = executor_of,
                                                 .synchronize = hd_opencl_synchronize,
                                                 .supports = supports,
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
