/* What the rest of the library sees of Metal. Its executor is the compiler's, which is above: it is registered. */
#include "device/metal/metal_device.h"
#include "device/metal/driver.h"
#include "ops/op.h"

static struct { /* set before the first thread has a context */
    hd_executor *(*executor)(int index);
    void (*peak)(int index, double *gflops, double *gbytes);
} registered;
void hd_metal_register_executor(hd_executor *(*executor)(int index),
                                void (*peak)(int index, double *gflops, double *gbytes)) {
    registered.executor = executor;
    registered.peak = peak;
}
static hd_executor *executor_of(int index) { return registered.executor != NULL ? registered.executor(index) : NULL; }
static void peak_of(int index, double *gflops, double *gbytes) {
    *gflops = *gbytes = 0;
    if (registered.peak != NULL) registered.peak(index, gflops, gbytes);
}

static bool supports(const hd_op *op, hd_dtype dtype) { return dtype != HD_F64 && hd_op_takes(op, dtype); }

static hd_error memory_of(int index, hd_memory_stats *out) { return hd_heap_figures(hd_metal_heap(index), out); }
static hd_error keep(int index, const size_t *most) { return hd_heap_keep(hd_metal_heap(index), most); }

const hd_device_interface hd_metal_interface = {.name = "metal",
                                                .count = hd_metal_count,
                                                .missing = hd_metal_missing,
                                                .executor = executor_of,
                                                .synchronize = hd_metal_synchronize,
                                                .supports = supports,
                                                .peak = peak_of,
                                                .allocate = hd_metal_allocate,
                                                .recycle = hd_metal_recycle,
                                                .copy = hd_metal_copy,
                                                .fill = hd_metal_fill,
                                                .describe = hd_metal_describe,
                                                .memory = memory_of,
                                                .keep = keep};

const hd_gpu_interface hd_metal_gpu = {.kind = HD_DEVICE_METAL,
                                       .limits = hd_metal_limits,
                                       .compile = hd_metal_compile,
                                       .load = hd_metal_load,
                                       .unload = hd_metal_unload,
                                       .function = hd_metal_function,
                                       .launch = hd_metal_launch};
