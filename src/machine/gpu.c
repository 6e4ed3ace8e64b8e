/* GPUs as machines and executors. There is no plan of scripts for them yet. */
#include "machine/gpu.h"
#include "device/opencl/opencl_device.h"

#include <pthread.h>

static const char *product_apart(const hd_graph *g, uint32_t node) {
    (void)g, (void)node;
    return "GPUs have no tiles yet";
}

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
                             .machine = {.target = target, .product_apart = product_apart},
                             .eager = d->eager != NULL ? d->eager : hd_gpu_eager_new(),
                             .codes = d->codes != NULL ? d->codes : hd_gpu_codes_new()};
    }
    hd_executor *executor = d->eager != NULL && d->codes != NULL ? &d->executor : NULL;
    pthread_mutex_unlock(&opencl.lock);
    return executor;
}
