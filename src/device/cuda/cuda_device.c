/* What the rest of the library sees of CUDA. Its executor is the compiler's, which is above: it is registered. */
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"
#include "ops/op.h"

static struct { /* set before the first thread has a context */
    hd_executor *(*executor)(int index);
    void (*peak)(int index, double *gflops, double *gbytes);
} registered;
void hd_cuda_register_executor(hd_executor *(*executor)(int index),
                               void (*peak)(int index, double *gflops, double *gbytes)) {
    registered.executor = executor;
    registered.peak = peak;
}
/* Drivers that are too old run scripts of XLA, perhaps, but no ops. */
static hd_executor *executor_of(int index) {
    return registered.executor != NULL && hd_cuda_lacks(index) == NULL ? registered.executor(index) : NULL;
}
static const char *missing(void) {
    const char *lacks = hd_cuda_lacks(HD_CUDA_DEVICES); /* of those that are not there */
    return lacks != NULL ? lacks : "";
}
static void peak_of(int index, double *gflops, double *gbytes) {
    *gflops = *gbytes = 0;
    if (registered.peak != NULL) registered.peak(index, gflops, gbytes);
}

static bool supports(const hd_op *op, hd_dtype dtype) { return hd_op_takes(op, dtype); }

static hd_error memory_of(int index, hd_memory_stats *out) { return hd_heap_figures(hd_cuda_heap(index), out); }
static hd_error keep(int index, const size_t *most) { return hd_heap_keep(hd_cuda_heap(index), most); }

const hd_device_interface hd_cuda_interface = {.name = "cuda",
                                               .count = hd_cuda_count,
                                               .missing = missing,
                                               .executor = executor_of,
                                               .synchronize = hd_cuda_synchronize,
                                               .supports = supports,
                                               .peak = peak_of,
                                               .allocate = hd_cuda_allocate,
                                               .recycle = hd_cuda_recycle,
                                               .copy = hd_cuda_copy,
                                               .fill = hd_cuda_fill,
                                               .describe = hd_cuda_describe,
                                               .memory = memory_of,
                                               .keep = keep};

const hd_gpu_interface hd_cuda_gpu = {.kind = HD_DEVICE_CUDA,
                                      .limits = hd_cuda_limits,
                                      .compile = hd_cuda_compile,
                                      .load = hd_cuda_load,
                                      .unload = hd_cuda_unload,
                                      .function = hd_cuda_function,
                                      .launch = hd_cuda_launch,
                                      .record = hd_cuda_record,
                                      .step = hd_cuda_step,
                                      .recorded = hd_cuda_recorded,
                                      .relaunch = hd_cuda_relaunch,
                                      .replay = hd_cuda_replay,
                                      .forget = hd_cuda_forget,
                                      .lacks_products = hd_cuda_lacks_products,
                                      .product = hd_cuda_product};
