/* GPUs as machines and executors. */
#include "machine/gpu.h"
#if HD_HAS_CUDA
#include "device/cuda/cuda_device.h"
#endif
#if HD_HAS_OPENCL
#include "device/opencl/opencl_device.h"
#endif
#if HD_HAS_METAL
#include "device/metal/metal_device.h"
#endif

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

enum { DEVICES = 32, LANES_APART = 64 /* launches that lanes of a recording may be apart */ };
typedef struct gpus { /* of one kind */
    pthread_mutex_t lock;
    const char *name;
    hd_dialect dialect;
    const hd_gpu_interface *gpu;
    hd_gpu_device of[DEVICES];
} gpus;

static hd_executor *executor_of(gpus *g, int index) {
    if (index < 0 || index >= DEVICES) return NULL;
    hd_gpu_device *d = &g->of[index];
    pthread_mutex_lock(&g->lock);
    if (d->eager == NULL || d->codes == NULL) {
        *d = (hd_gpu_device){.executor = {.name = g->name, .run = hd_gpu_run_call, .write = hd_gpu_write},
                             .device = {g->gpu->kind, index},
                             .dialect = g->dialect,
                             .gpu = g->gpu,
                             .machine = hd_gpu_machine,
                             .eager = d->eager != NULL ? d->eager : hd_gpu_eager_new(),
                             .codes = d->codes != NULL ? d->codes : hd_gpu_codes_new()};
        d->machine.target = target;
        d->machine.target.reuse_after = g->gpu->record != NULL ? LANES_APART : 0;
        d->machine.device = d->device;
    }
    hd_executor *executor = d->eager != NULL && d->codes != NULL ? &d->executor : NULL;
    pthread_mutex_unlock(&g->lock);
    return executor;
}

static const hd_machine *machine_of(gpus *g, int index) {
    hd_executor *executor = executor_of(g, index);
    if (executor != NULL) return &((const hd_gpu_device *)executor)->machine;
    hd_fail(HD_ERROR_MEMORY, "no memory for the device %s:%d", g->name, index);
    return NULL;
}

static void peak_of(gpus *g, int index, double *gflops, double *gbytes) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    hd_gpu_device *d = (hd_gpu_device *)executor_of(g, index);
    if (d == NULL) return;
    pthread_mutex_lock(&lock);
    if (d->gflops == 0) hd_gpu_measure_peak(d, &d->gflops, &d->gbytes);
    *gflops = d->gflops;
    *gbytes = d->gbytes;
    pthread_mutex_unlock(&lock);
}

/* ---- what `library` registers ---- */
#if HD_HAS_CUDA
static gpus cuda = {.lock = PTHREAD_MUTEX_INITIALIZER, .name = "cuda", .dialect = HD_DIALECT_CUDA, .gpu = &hd_cuda_gpu};
hd_executor *hd_cuda_executor(int index) { return executor_of(&cuda, index); }
const hd_machine *hd_cuda_machine(int index) { return machine_of(&cuda, index); }
void hd_cuda_peak(int index, double *gflops, double *gbytes) { peak_of(&cuda, index, gflops, gbytes); }
#endif
#if HD_HAS_OPENCL
static gpus opencl = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .name = "opencl", .dialect = HD_DIALECT_OPENCL, .gpu = &hd_opencl_gpu};
hd_executor *hd_opencl_executor(int index) { return executor_of(&opencl, index); }
const hd_machine *hd_opencl_machine(int index) { return machine_of(&opencl, index); }
void hd_opencl_peak(int index, double *gflops, double *gbytes) { peak_of(&opencl, index, gflops, gbytes); }
#endif
#if HD_HAS_METAL
static gpus metal = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .name = "metal", .dialect = HD_DIALECT_METAL, .gpu = &hd_metal_gpu};
hd_executor *hd_metal_executor(int index) { return executor_of(&metal, index); }
const hd_machine *hd_metal_machine(int index) { return machine_of(&metal, index); }
void hd_metal_peak(int index, double *gflops, double *gbytes) { peak_of(&metal, index, gflops, gbytes); }
#endif
