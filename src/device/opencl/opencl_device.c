/* What the rest of the library sees of OpenCL. Its executor is the compiler's, which is above: it is registered. */
#include "device/opencl/opencl_device.h"
#include "device/opencl/driver.h"
#include "ops/op.h"

static struct { /* set before the first thread has a context */
    hd_executor *(*executor)(int index);
    void (*peak)(int index, double *gflops, double *gbytes);
} registered;
void hd_opencl_register_executor(hd_executor *(*executor)(int index),
                                 void (*peak)(int index, double *gflops, double *gbytes)) {
    registered.executor = executor;
    registered.peak = peak;
}
static hd_executor *executor_of(int index) { return registered.executor != NULL ? registered.executor(index) : NULL; }
static void peak_of(int index, double *gflops, double *gbytes) {
    *gflops = *gbytes = 0;
    if (registered.peak != NULL) registered.peak(index, gflops, gbytes);
}

static bool supports(const hd_op *op, hd_dtype dtype) { return hd_op_takes(op, dtype); }

static hd_error memory_of(int index, hd_memory_stats *out) { return hd_heap_figures(hd_opencl_heap(index), out); }
static hd_error keep(int index, const size_t *most) { return hd_heap_keep(hd_opencl_heap(index), most); }

const hd_device_interface hd_opencl_interface = {.name = "opencl",
                                                 .count = hd_opencl_count,
                                                 .missing = hd_opencl_missing,
                                                 .executor = executor_of,
                                                 .synchronize = hd_opencl_synchronize,
                                                 .supports = supports,
                                                 .peak = peak_of,
                                                 .allocate = hd_opencl_allocate,
                                                 .recycle = hd_opencl_recycle,
                                                 .copy = hd_opencl_copy,
                                                 .fill = hd_opencl_fill,
                                                 .describe = hd_opencl_describe,
                                                 .memory = memory_of,
                                                 .keep = keep};

const hd_gpu_interface hd_opencl_gpu = {.kind = HD_DEVICE_OPENCL,
                                        .limits = hd_opencl_limits,
                                        .compile = hd_opencl_compile,
                                        .load = hd_opencl_load,
                                        .unload = hd_opencl_unload,
                                        .function = hd_opencl_function,
                                        .launch = hd_opencl_launch};
