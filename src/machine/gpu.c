/* GPUs as machines and executors. */
#include "machine/gpu.h"
#include "device/opencl/opencl_device.h"

#include <pthread.h>

/* Any reduction can be cut into pieces, and any load be left out. */
static const hd_target target = {.name = "gpu",
                                 .vector_bytes = 16,
                                 .most_members = 32,
                                 .most_reads = 12,
                                 .small_space = INT64_MAX,
                                 .least_kept = 1,
                                 .cheap = 24,
                                 .keeps_from = UINT8_MAX,
                                 .gathers = 1,
                                 .reads_some = 1,
                                 .least_row = 1,
                                 .most_pieces = 8,
                                 .sum_points = 256,
                                 .sum_rows = 256};

enum { DEVICES = 32 };
static struct {
    pthread_mutex_t lock;
    hd_gpu_device of[DEVICES];
} opencl = {.lock = PTHREAD_MUTEX_INITIALIZER};

hd_executor *hd_opencl_executor(int index) {
    if (index < 0 || index >= DEVICES) return NULL;
    hd_gpu_device *d = &opencl.of[index];
    pthread_mutex_lock(&opencl.lock);
    if (d->eager == NULL || d->codes == NULL) {
        *d = (hd_gpu_device){.executor = {.name = "opencl", .run = hd_gpu_run_call, .write = hd_gpu_write},
                             .device = {HD_DEVICE_OPENCL, index},
                             .dialect = HD_DIALECT_OPENCL,
                             .gpu = &hd_opencl_gpu,
                             .machine = hd_gpu_machine,
                             .eager = d->eager != NULL ? d->eager : hd_gpu_eager_new(),
                             .codes = d->codes != NULL ? d->codes : hd_gpu_codes_new()};
        d->machine.target = target;
        d->machine.device = d->device;
    }
    hd_executor *executor = d->eager != NULL && d->codes != NULL ? &d->executor : NULL;
    pthread_mutex_unlock(&opencl.lock);
    return executor;
}

const hd_machine *hd_opencl_machine(int index) {
    hd_executor *executor = hd_opencl_executor(index);
    if (executor != NULL) return &((const hd_gpu_device *)executor)->machine;
    hd_fail(HD_ERROR_MEMORY, "no memory for the device opencl:%d", index);
    return NULL;
}

void hd_opencl_peak(int index, double *gflops, double *gbytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    hd_gpu_device *d = (hd_gpu_device *)hd_opencl_executor(index);
    if (d == NULL) return;
    pthread_mutex_lock(&lock);
    if (d->gflops == 0) hd_gpu_measure_peak(d, &d->gflops, &d->gbytes);
    *gflops = d->gflops;
    *gbytes = d->gbytes;
    pthread_mutex_unlock(&lock);
}
