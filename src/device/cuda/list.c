/* GPUs of NVIDIA's: how many there are, and which. The driver is opened once in a process, when somebody first wants to
 * know, and stays open, as it may have threads. */
#include "device/cuda/list.h"
#include "core/os.h"
#include "core/late.h"

#include <pthread.h>
#include <stdio.h>

hd_cuda_listing hd_cuda_list;

static struct {
    pthread_once_t once;
    void *library;
    int count;
    char missing[200];
    _Atomic(void (*)(void)) wait;
} driver = {.once = PTHREAD_ONCE_INIT};

/* ---- the process: forks, and its end ----------------------------------------------------------------------------- */
static void in_child(void);
static void at_exit(void);
static void before_exit(void *nothing);
static hd_driver_process process = {.in_child = in_child, .at_exit = at_exit, .before_exit = before_exit};

bool hd_cuda_is_here(void) { return hd_driver_is_here(&process); }

static void in_child(void) { hd_driver_is_forked(&process); }
static void before_exit(void *nothing) {
    (void)nothing;
    void (*wait)(void) = atomic_load(&driver.wait);
    if (wait != NULL && hd_cuda_is_here()) wait();
}
static void at_exit(void) {
    before_exit(NULL);
    hd_driver_ends(&process);
}
void hd_cuda_before_exit(void (*wait)(void)) { atomic_store(&driver.wait, wait); }
void hd_cuda_watch_exit(void) { hd_driver_watch_exit(&process); }

/* ---- opening ----------------------------------------------------------------------------------------------------- */
static void say(const char *text) { snprintf(driver.missing, sizeof driver.missing, "%s", text); }

static void ask(void) {
    void *library = hd_driver_open("libcuda.so.1", "NVIDIA's driver", "driver for GPUs of NVIDIA's",
                                   "install it (Debian: nvidia-driver)", driver.missing, sizeof driver.missing);
    if (library == NULL) return;
#define TAKE(name, full_name, parameters) *(void **)&hd_cuda_list.name = hd_os_library_symbol(library, full_name);
    HD_CU_LISTING(TAKE)
#undef TAKE
    if (hd_cuda_list.initialize == NULL || hd_cuda_list.device_count == NULL || hd_cuda_list.device == NULL) {
        say("libcuda.so.1 is there, but has no cuInit and cuDeviceGetCount: it is no driver of NVIDIA's");
        return;
    }
    hd_driver_watch_forks(&process);
    int found = 0, status = hd_cuda_list.initialize(0);
    if (status == 0) status = hd_cuda_list.device_count(&found);
    if (status == 0 && found > 0) {
        driver.library = library;
        driver.count = found < HD_CUDA_DEVICES ? found : HD_CUDA_DEVICES;
        hd_driver_watch_exit(&process);
    } else if (status == 0 || status == HD_CU_NO_DEVICE) {
        say("NVIDIA's driver is there, but finds no GPU; nvidia-smi lists them, CUDA_VISIBLE_DEVICES hides some");
    } else {
        snprintf(driver.missing, sizeof driver.missing,
                 "NVIDIA's driver is there, but does not start (its error %d); nvidia-smi may say more", status);
    }
}

void *hd_cuda_library(void) { return driver.library; }

int hd_cuda_count(void) {
    if (!hd_cuda_is_here()) return 0;
    pthread_once(&driver.once, ask);
    return driver.count;
}

const char *hd_cuda_missing(void) {
    const char *gone = HD_DRIVER_GONE(&process, "NVIDIA's driver");
    if (gone != NULL) return gone;
    pthread_once(&driver.once, ask);
    return driver.missing;
}

/* What it has taken of its memory is known to those who have a context there, which a question does not make. */
void hd_cuda_describe(int index, hd_device_info *out) {
    int device;
    *out = (hd_device_info){.name = "GPU", .has_f64 = true};
    if (hd_cuda_list.device(&device, index) != 0) return;
    if (hd_cuda_list.device_name != NULL) hd_cuda_list.device_name(out->name, sizeof out->name, device);
    if (hd_cuda_list.device_memory != NULL) hd_cuda_list.device_memory(&out->memory_bytes, device);
    if (hd_cuda_list.device_attribute != NULL)
        hd_cuda_list.device_attribute(&out->units, HD_CU_DEVICE_PROCESSORS, device);
}

const hd_device_interface hd_cuda_listed_interface = {
    .name = "cuda", .count = hd_cuda_count, .missing = hd_cuda_missing, .describe = hd_cuda_describe};
