/* GPUs of NVIDIA's: how many there are, and which. hodu has no kernels for them yet; XLA brings scripts there by its
 * plugin, which opens the driver itself. The driver is asked once in a process, when somebody first wants to know. */
#include "device/cuda/driver.h"
#include "core/os.h"
#include "device/late.h"

#include <pthread.h>
#include <stdio.h>

enum { NO_DEVICE = 100 };      /* an error of the driver's; 0 is none */
enum { MULTIPROCESSORS = 16 }; /* one of its attributes */

static struct {
    pthread_once_t once;
    int64_t process; /* that asked */
    int count;
    char missing[200];
    /* what says more of one; NULL: an old driver */
    int (*get)(int *device, int ordinal), (*get_name)(char *out, int bytes, int device);
    int (*get_memory)(size_t *bytes, int device), (*get_attribute)(int *out, int attribute, int device);
} gpus = {.once = PTHREAD_ONCE_INIT};

static void say(const char *text) { snprintf(gpus.missing, sizeof gpus.missing, "%s", text); }

/* The driver stays open, as it may have threads. */
static void ask(void) {
    gpus.process = hd_os_process();
    void *driver = hd_driver_open("libcuda.so.1", "NVIDIA's driver", "driver for GPUs of NVIDIA's",
                                  "install it (Debian: nvidia-driver)", gpus.missing, sizeof gpus.missing);
    if (driver == NULL) return;
    int (*initialize)(unsigned flags), (*count)(int *out);
    *(void **)&initialize = hd_os_library_symbol(driver, "cuInit");
    *(void **)&count = hd_os_library_symbol(driver, "cuDeviceGetCount");
    if (initialize == NULL || count == NULL) {
        say("libcuda.so.1 is there, but has no cuInit and cuDeviceGetCount: it is no driver of NVIDIA's");
        return;
    }
    *(void **)&gpus.get = hd_os_library_symbol(driver, "cuDeviceGet");
    *(void **)&gpus.get_name = hd_os_library_symbol(driver, "cuDeviceGetName");
    *(void **)&gpus.get_memory = hd_os_library_symbol(driver, "cuDeviceTotalMem_v2");
    *(void **)&gpus.get_attribute = hd_os_library_symbol(driver, "cuDeviceGetAttribute");
    int found = 0, status = initialize(0);
    if (status == 0) status = count(&found);
    if (status == 0 && found > 0) {
        gpus.count = found;
    } else if (status == 0 || status == NO_DEVICE) {
        say("NVIDIA's driver is there, but finds no GPU; nvidia-smi lists them, CUDA_VISIBLE_DEVICES hides some");
    } else {
        snprintf(gpus.missing, sizeof gpus.missing,
                 "NVIDIA's driver is there, but does not start (its error %d); nvidia-smi may say more", status);
    }
}

/* A child of the process that asked cannot use the driver. */
static bool is_lost(void) { return gpus.count > 0 && gpus.process != hd_os_process(); }

static int cuda_count(void) {
    pthread_once(&gpus.once, ask);
    return is_lost() ? 0 : gpus.count;
}

static const char *cuda_missing(void) {
    pthread_once(&gpus.once, ask);
    return is_lost() ? "NVIDIA's driver was opened before this process was forked; ask for GPUs only after forking, or "
                       "start the child with exec"
                     : gpus.missing;
}

/* What it has taken of its memory is known to those who have a context there, which a question does not make. */
static void cuda_describe(int index, hd_device_info *out) {
    int device;
    *out = (hd_device_info){.name = "GPU", .has_f64 = true};
    if (gpus.get == NULL || gpus.get(&device, index) != 0) return;
    if (gpus.get_name != NULL) gpus.get_name(out->name, sizeof out->name, device);
    if (gpus.get_memory != NULL) gpus.get_memory(&out->memory_bytes, device);
    if (gpus.get_attribute != NULL) gpus.get_attribute(&out->units, MULTIPROCESSORS, device);
}

const hd_device_interface hd_cuda_interface = {
    .name = "cuda", .count = cuda_count, .missing = cuda_missing, .describe = cuda_describe};
