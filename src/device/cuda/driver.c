/* GPUs that are used: their limits, and their contexts and streams, which are made at first use. Nothing of them is
 * ever released, as drivers have threads that work until the process ends. */
#include "device/cuda/driver.h"
#include "core/os.h"

#include <stdio.h>
#include <string.h>

hd_cu_functions hd_cu;

static struct {
    pthread_once_t once;
    int count;
    char lacks[320]; /* why there are not more than these */
    hd_cuda_device of[HD_CUDA_DEVICES];
} gpus = {.once = PTHREAD_ONCE_INIT};

/* ---- what they are ----------------------------------------------------------------------------------------------- */
static bool take_functions(void) {
    const char *missing = NULL;
#define TAKE(name, full_name, parameters)                                                                              \
    *(void **)&hd_cu.name = hd_os_library_symbol(hd_cuda_library(), full_name);                                        \
    if (hd_cu.name == NULL && missing == NULL) missing = full_name;
    HD_CU_FUNCTIONS(TAKE)
#undef TAKE
    if (hd_cuda_list.device_attribute == NULL && missing == NULL) missing = "cuDeviceGetAttribute";
    if (hd_cuda_list.device_memory == NULL && missing == NULL) missing = "cuDeviceTotalMem";
    if (missing != NULL)
        snprintf(gpus.lacks, sizeof gpus.lacks,
                 "NVIDIA's driver that is here has no %s: it is older than CUDA 12; a newer one runs ops", missing);
    return missing == NULL;
}

static bool answers(const hd_cuda_device *d, int status, const char *function) {
    if (status == 0) return true;
    snprintf(gpus.lacks, sizeof gpus.lacks,
             "NVIDIA's driver does not say what %s is: %s gives %s; nvidia-smi says whether the driver works",
             hd_device_text((char[32]){0}, d->device), function,
             hd_cu_status_text((char[HD_CU_STATUS_TEXT]){0}, status));
    return false;
}

/* Objects of the same key can be loaded: NVRTC's version is no part of it, so that what is cached needs no NVRTC. */
static void set_limits(hd_cuda_device *d, int group_most, int local_memory, int processors) {
    snprintf(d->key, sizeof d->key, "cuda, sm_%d%d%s", d->major, d->minor, d->major >= 9 ? "a" : "");
    d->limits = (hd_gpu_limits){.key = d->key,
                                .group_most = (uint32_t)group_most,
                                .subgroup = 32,
                                .local_bytes = (uint32_t)local_memory,
                                .argument_bytes = 4096,
                                .processors = (uint32_t)processors,
                                .has_f64 = true,
                                .has_warp_words = d->major >= 8,
                                .has_atomic_64 = true};
}

static bool ask_limits(hd_cuda_device *d) {
    int group_most, local_memory, processors;
    size_t memory_bytes;
    const struct {
        int which, *out;
    } asked[] = {{HD_CU_DEVICE_MAJOR, &d->major},
                 {HD_CU_DEVICE_MINOR, &d->minor},
                 {HD_CU_DEVICE_GROUP_MOST, &group_most},
                 {HD_CU_DEVICE_LOCAL_MEMORY, &local_memory},
                 {HD_CU_DEVICE_PROCESSORS, &processors}};
    if (!answers(d, hd_cuda_list.device(&d->ordinal, d->device.index), "cuDeviceGet")) return false;
    if (!answers(d, hd_cuda_list.device_memory(&memory_bytes, d->ordinal), "cuDeviceTotalMem")) return false;
    for (int i = 0; i < 5; ++i)
        if (!answers(d, hd_cuda_list.device_attribute(asked[i].out, asked[i].which, d->ordinal),
                     "cuDeviceGetAttribute"))
            return false;
    d->heap.memory_bytes = d->heap.block_most = memory_bytes;
    set_limits(d, group_most, local_memory, processors);
    return true;
}

static void wait_for_all(void) {
    for (int i = 0; i < gpus.count; ++i) {
        const hd_cuda_device *d = &gpus.of[i];
        if (atomic_load(&d->started) && atomic_load(&d->lost_in) == NULL && hd_cu.context_set(d->context) == 0)
            hd_cu.stream_synchronize(d->stream);
    }
}

static void list(void) {
    if (!take_functions()) return;
    const int count = hd_cuda_count();
    for (int i = 0; i < count; ++i) {
        hd_cuda_device *d = &gpus.of[i];
        d->device = (hd_device){HD_DEVICE_CUDA, i};
        if (!ask_limits(d)) break;
        pthread_mutex_init(&d->lock, NULL);
        pthread_mutex_init(&d->timing, NULL);
        hd_cuda_begin_heap(d);
        hd_cuda_begin_staging(d);
        gpus.count = i + 1;
    }
    hd_cuda_before_exit(wait_for_all);
}

const char *hd_cuda_lacks(int index) {
    if (hd_cuda_count() == 0) return hd_cuda_missing();
    pthread_once(&gpus.once, list);
    return index >= gpus.count && gpus.lacks[0] != '\0' ? gpus.lacks : NULL;
}

/* ---- one of them ------------------------------------------------------------------------------------------------- */
static hd_cuda_device *listed(int index) {
    const char *lacks = hd_cuda_lacks(index);
    if (lacks == NULL && index >= 0 && index < gpus.count) return &gpus.of[index];
    const hd_device device = {HD_DEVICE_CUDA, index};
    char reason[HD_DEVICE_REASON];
    const char *why = hd_device_absent(reason, device);
    hd_fail(HD_ERROR_DEVICE, "device %s is not here: %s", hd_device_text((char[32]){0}, device),
            why != NULL ? why : lacks);
    return NULL;
}

const hd_gpu_limits *hd_cuda_limits(int index) {
    const hd_cuda_device *d = listed(index);
    return d == NULL ? NULL : &d->limits;
}

hd_heap *hd_cuda_heap(int index) {
    hd_cuda_device *d = listed(index);
    return d == NULL ? NULL : &d->heap;
}

static hd_error make_stream(hd_cuda_device *d) {
    if (d->context == NULL)
        HD_TRY(hd_cuda_check(d, hd_cu.context_retain(&d->context, d->ordinal), "cuDevicePrimaryCtxRetain"));
    HD_TRY(hd_cuda_check(d, hd_cu.context_set(d->context), "cuCtxSetCurrent"));
    if (d->begin == NULL) HD_TRY(hd_cuda_check(d, hd_cu.event_new(&d->begin, 0), "cuEventCreate"));
    if (d->end == NULL) HD_TRY(hd_cuda_check(d, hd_cu.event_new(&d->end, 0), "cuEventCreate"));
    return hd_cuda_check(d, hd_cu.stream_new(&d->stream, HD_CU_STREAM_NON_BLOCKING), "cuStreamCreate");
}

static hd_error start(hd_cuda_device *d) { /* what failed is tried again next time */
    pthread_mutex_lock(&d->lock);
    const bool is_first = !atomic_load(&d->started);
    const hd_error status = is_first ? make_stream(d) : HD_OK;
    if (is_first && status == HD_OK) {
        hd_cuda_watch_exit();
        atomic_store_explicit(&d->started, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

hd_cuda_device *hd_cuda_device_open(int index) {
    hd_cuda_device *d = listed(index);
    if (d == NULL) return NULL;
    HD_TRY_OR(hd_cuda_check_lost(d), NULL);
    if (!atomic_load_explicit(&d->started, memory_order_acquire)) HD_TRY_OR(start(d), NULL);
    return d;
}

/* The context is set always, as others in this thread may have set theirs. */
hd_cuda_device *hd_cuda_device_at(int index) {
    hd_cuda_device *d = hd_cuda_device_open(index);
    if (d != NULL) HD_TRY_OR(hd_cuda_check(d, hd_cu.context_set(d->context), "cuCtxSetCurrent"), NULL);
    return d;
}

hd_error hd_cuda_synchronize(hd_thread *thread, int index) {
    (void)thread;
    hd_cuda_device *d = hd_cuda_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    return hd_cuda_check(d, hd_cu.stream_synchronize(d->stream), "cuStreamSynchronize");
}
