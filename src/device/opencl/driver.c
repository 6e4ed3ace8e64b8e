/* Opening OpenCL: the loader by name, then all devices of all platforms, once in a process, when somebody first wants
 * to know. Contexts and queues are made when a device is first used. Nothing of it is ever released, as drivers have
 * threads that work until the process ends. */
#include "device/opencl/driver.h"
#include "core/os.h"
#include "core/late.h"

#include <stdio.h>
#include <string.h>

enum { PLATFORMS = 16, COMMANDS_UNDER_WAY = 512 };

hd_cl_functions hd_cl;

static struct {
    pthread_once_t once;
    int count;
    char missing[240];
    hd_opencl_device of[HD_OPENCL_DEVICES];
} driver = {.once = PTHREAD_ONCE_INIT};

static void say(const char *text) { snprintf(driver.missing, sizeof driver.missing, "%s", text); }
static void say_status(const char *platform, const char *function, int32_t status) {
    if (driver.missing[0] != '\0') return; /* the first reason is the one that is told */
    snprintf(driver.missing, sizeof driver.missing, "OpenCL's platform %.60s does not list its devices (%s gives %s)",
             platform, function, hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, status));
}

/* ---- the process: forks, and its end ----------------------------------------------------------------------------- */
static void wait_for_all(void);
static void in_child(void);
static void at_exit(void);
static void before_exit(void *nothing);
static hd_driver_process process = {.in_child = in_child, .at_exit = at_exit, .before_exit = before_exit};

bool hd_opencl_is_here(void) { return hd_driver_is_here(&process); }

/* A queue without new commands is not asked again: at the end of the process its driver may be half gone. */
static void wait_for_all(void) {
    for (int i = 0; i < driver.count && hd_opencl_is_here(); ++i) {
        hd_opencl_device *d = &driver.of[i];
        const uint32_t commands = atomic_load(&d->commands);
        if (!atomic_load(&d->started) || atomic_load(&d->lost_in) != NULL || commands == d->finished) continue;
        if (hd_cl.finish(d->queue) == 0) d->finished = commands;
    }
}
static void in_child(void) { hd_driver_is_forked(&process); }
static void at_exit(void) {
    wait_for_all();
    hd_driver_ends(&process);
}
static void before_exit(void *nothing) {
    (void)nothing;
    wait_for_all();
}

/* ---- the loader -------------------------------------------------------------------------------------------------- */
static void *open_loader(void) {
    return hd_driver_open(HD_OS_ELF ? "libOpenCL.so.1" : "/System/Library/Frameworks/OpenCL.framework/OpenCL",
                          "OpenCL's drivers", "OpenCL here", "install it (Debian: ocl-icd-libopencl1) and a driver",
                          driver.missing, sizeof driver.missing);
}

static bool take_functions(void *loader) {
    const char *missing = NULL;
#define TAKE(name, full_name, result, parameters)                                                                      \
    *(void **)&hd_cl.name = hd_os_library_symbol(loader, full_name);                                                   \
    if (hd_cl.name == NULL && missing == NULL) missing = full_name;
    HD_CL_FUNCTIONS(TAKE)
#undef TAKE
    if (missing != NULL)
        snprintf(driver.missing, sizeof driver.missing,
                 "the OpenCL that is here has no %s: it is older than OpenCL 1.2, or something else", missing);
    return missing == NULL;
}

/* ---- what a device is -------------------------------------------------------------------------------------------- */
static void cut_blanks(char *text) {
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ') length--;
    text[length] = '\0';
    const size_t blanks = strspn(text, " ");
    memmove(text, text + blanks, length - blanks + 1);
}

static int32_t ask_text(hd_cl_device *device, uint32_t what, char *out, size_t capacity) {
    const int32_t status = hd_cl.device_info(device, what, capacity, out, NULL);
    out[status == 0 ? capacity - 1 : 0] = '\0';
    cut_blanks(out);
    return status;
}
static int32_t ask_number(hd_cl_device *device, uint32_t what, void *out, size_t bytes) {
    return hd_cl.device_info(device, what, bytes, out, NULL);
}

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    return false;
}

/* How many threads run in step is told only by some. */
static uint32_t ask_subgroup(hd_cl_device *device, const char *extensions) {
    uint32_t threads = 0;
    if (has_word(extensions, "cl_nv_device_attribute_query"))
        ask_number(device, HD_CL_DEVICE_WARP, &threads, sizeof threads);
    else if (has_word(extensions, "cl_amd_device_attribute_query"))
        ask_number(device, HD_CL_DEVICE_WAVEFRONT, &threads, sizeof threads);
    return threads > 0 ? threads : 1;
}

static uint32_t at_most_u32(uint64_t x) { return x < UINT32_MAX ? (uint32_t)x : UINT32_MAX; }

static int32_t ask_limits(hd_opencl_device *d) {
    hd_gpu_limits *l = &d->limits;
    uint64_t memory = 0, block = 0, local = 0, f64 = 0, f32 = 0;
    uint32_t unified = 0;
    size_t group = 0, arguments = 0;
    char extensions[8192];
    int32_t status = ask_number(d->handle, HD_CL_DEVICE_MEMORY, &memory, sizeof memory);
    if (status == 0) status = ask_number(d->handle, HD_CL_DEVICE_BLOCK_MOST, &block, sizeof block);
    if (status == 0) status = ask_number(d->handle, HD_CL_DEVICE_LOCAL_MEMORY, &local, sizeof local);
    if (status == 0) status = ask_number(d->handle, HD_CL_DEVICE_GROUP_MOST, &group, sizeof group);
    if (status == 0) status = ask_number(d->handle, HD_CL_DEVICE_ARGUMENT_BYTES, &arguments, sizeof arguments);
    if (status == 0) status = ask_number(d->handle, HD_CL_DEVICE_UNITS, &l->processors, sizeof l->processors);
    if (status != 0) return status;
    ask_number(d->handle, HD_CL_DEVICE_F64, &f64, sizeof f64); /* an error where there is none, in OpenCL 1.2 */
    ask_number(d->handle, HD_CL_DEVICE_F32, &f32, sizeof f32);
    ask_number(d->handle, HD_CL_DEVICE_UNIFIED, &unified, sizeof unified);
    d->shares_memory = unified != 0;
    d->rounds = (f32 & HD_CL_ROUNDS_QUOTIENTS) != 0;
    ask_text(d->handle, HD_CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    d->heap.memory_bytes = (size_t)memory;
    d->heap.block_most = (size_t)block;
    l->key = d->key;
    l->group_most = at_most_u32(group);
    l->subgroup = ask_subgroup(d->handle, extensions);
    l->local_bytes = at_most_u32(local);
    l->argument_bytes = at_most_u32(arguments);
    l->has_f64 = f64 != 0;
    l->has_atomic_64 = has_word(extensions, "cl_khr_int64_base_atomics");
    return 0;
}

/* The version of a device may have its processor in it. */
static int32_t ask_names(hd_opencl_device *d, const char *platform, const char *platform_version) {
    char name[sizeof d->name], version[160], of_driver[160];
    int32_t status = ask_text(d->handle, HD_CL_DEVICE_NAME, name, sizeof name);
    if (status == 0) status = ask_text(d->handle, HD_CL_DEVICE_VERSION, version, sizeof version);
    if (status == 0) status = ask_text(d->handle, HD_CL_DRIVER_VERSION, of_driver, sizeof of_driver);
    if (status != 0) return status;
    memcpy(d->name, name, sizeof name);
    snprintf(d->key, sizeof d->key, "opencl, %s, %s, %s, %s, %s", platform, platform_version, name, version, of_driver);
    return 0;
}

/* Drivers of OpenCL 1.1 have no functions in some places of the loader's table. */
static bool is_too_old(hd_cl_device *device) {
    char version[160];
    int major = 0, minor = 0;
    return ask_text(device, HD_CL_DEVICE_VERSION, version, sizeof version) == 0 &&
           sscanf(version, "OpenCL %d.%d", &major, &minor) == 2 && (major < 1 || (major == 1 && minor < 2));
}

/* ---- all devices ------------------------------------------------------------------------------------------------- */
typedef struct platform_text {
    char name[128], version[300];
} platform_text;

static void add_device(hd_cl_platform *platform, const platform_text *text, hd_cl_device *handle) {
    if (driver.count == HD_OPENCL_DEVICES || is_too_old(handle)) return;
    hd_opencl_device *d = &driver.of[driver.count];
    d->device = (hd_device){HD_DEVICE_OPENCL, driver.count};
    d->platform = platform;
    d->handle = handle;
    int32_t status = ask_names(d, text->name, text->version);
    if (status == 0) status = ask_limits(d);
    if (status != 0) {
        say_status(text->name, "clGetDeviceInfo", status);
        return;
    }
    pthread_mutex_init(&d->lock, NULL);
    hd_opencl_begin_heap(d);
    hd_opencl_begin_staging(d);
    driver.count++;
}

static void add_platform(hd_cl_platform *platform) {
    platform_text text = {"?", "?"};
    hd_cl_device *devices[HD_OPENCL_DEVICES];
    uint32_t count = 0;
    hd_cl.platform_info(platform, HD_CL_PLATFORM_NAME, sizeof text.name - 1, text.name, NULL);
    hd_cl.platform_info(platform, HD_CL_PLATFORM_VERSION, sizeof text.version - 1, text.version, NULL);
    const int32_t status = hd_cl.devices(platform, HD_CL_ALL_DEVICES, HD_OPENCL_DEVICES, devices, &count);
    if (status != 0 && status != HD_CL_DEVICE_NOT_FOUND) say_status(text.name, "clGetDeviceIDs", status);
    if (status != 0) return;
    for (uint32_t i = 0; i < count && i < HD_OPENCL_DEVICES; ++i) add_device(platform, &text, devices[i]);
}

static void ask(void) {
    void *loader = open_loader();
    if (loader == NULL || !take_functions(loader)) return;
    hd_driver_watch_forks(&process);
    hd_cl_platform *platforms[PLATFORMS];
    uint32_t count = 0;
    const int32_t status = hd_cl.platforms(PLATFORMS, platforms, &count);
    if (status != 0 && status != HD_CL_PLATFORM_NOT_FOUND_KHR) {
        snprintf(driver.missing, sizeof driver.missing,
                 "OpenCL is here, but does not start (clGetPlatformIDs gives %s); clinfo may say more",
                 hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, status));
        return;
    }
    if (status != 0 || count == 0) {
        say("OpenCL is here, but has no platform; install the driver of a GPU, or pocl-opencl-icd, which runs on the "
            "CPU");
        return;
    }
    for (uint32_t i = 0; i < count && i < PLATFORMS; ++i) add_platform(platforms[i]);
    if (driver.count > 0)
        hd_driver_watch_exit(&process);
    else if (driver.missing[0] == '\0')
        say("OpenCL's platforms are here, but have no device of OpenCL 1.2 or later; clinfo lists them");
}

int hd_opencl_count(void) {
    if (!hd_opencl_is_here()) return 0;
    pthread_once(&driver.once, ask);
    return driver.count;
}

const char *hd_opencl_missing(void) {
    const char *gone = HD_DRIVER_GONE(&process, "OpenCL");
    if (gone != NULL) return gone;
    pthread_once(&driver.once, ask);
    return driver.missing;
}

/* ---- one device -------------------------------------------------------------------------------------------------- */
/* What nobody has taken of its memory is not told in OpenCL. */
void hd_opencl_describe(int index, hd_device_info *out) {
    const hd_opencl_device *d = &driver.of[index];
    *out = (hd_device_info){
        .memory_bytes = d->heap.memory_bytes, .units = (int)d->limits.processors, .has_f64 = d->limits.has_f64};
    snprintf(out->name, sizeof out->name, "%s", d->name);
}

static hd_opencl_device *listed(int index) {
    if (index >= 0 && index < hd_opencl_count()) return &driver.of[index];
    const hd_device device = {HD_DEVICE_OPENCL, index};
    char reason[HD_DEVICE_REASON];
    const char *why = hd_device_absent(reason, device);
    hd_fail(HD_ERROR_DEVICE, "device %s is not here: %s", hd_device_text((char[32]){0}, device),
            why != NULL ? why : hd_opencl_missing());
    return NULL;
}

const hd_gpu_limits *hd_opencl_limits(int index) {
    const hd_opencl_device *d = listed(index);
    return d == NULL ? NULL : &d->limits;
}

hd_heap *hd_opencl_heap(int index) {
    hd_opencl_device *d = listed(index);
    return d == NULL ? NULL : &d->heap;
}

static hd_error make_queue(hd_opencl_device *d) {
    const intptr_t properties[] = {HD_CL_CONTEXT_PLATFORM, (intptr_t)d->platform, 0};
    int32_t status = 0;
    d->context = hd_cl.context_new(properties, 1, &d->handle, NULL, NULL, &status);
    if (d->context == NULL) return hd_opencl_check(d, hd_cl_none_made(status), "clCreateContext");
    d->queue = hd_cl.queue_new(d->context, d->handle, HD_CL_QUEUE_PROFILE, &status);
    if (d->queue != NULL) return HD_OK;
    hd_cl.context_release(d->context);
    d->context = NULL;
    return hd_opencl_check(d, hd_cl_none_made(status), "clCreateCommandQueue");
}

static hd_error start(hd_opencl_device *d) { /* what failed is tried again next time */
    pthread_mutex_lock(&d->lock);
    const bool is_first = !atomic_load(&d->started);
    const hd_error status = is_first ? make_queue(d) : HD_OK;
    if (is_first && status == HD_OK) {
        hd_driver_watch_exit(&process);
        atomic_store_explicit(&d->started, true, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

hd_opencl_device *hd_opencl_device_at(int index) {
    hd_opencl_device *d = listed(index);
    if (d == NULL) return NULL;
    HD_TRY_OR(hd_opencl_check_lost(d), NULL);
    if (!atomic_load_explicit(&d->started, memory_order_acquire)) HD_TRY_OR(start(d), NULL);
    return d;
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */
static hd_cl_event *exchange_milestone(hd_opencl_device *d, hd_cl_event *event) {
    pthread_mutex_lock(&d->lock);
    hd_cl_event *old = d->milestone;
    d->milestone = event;
    pthread_mutex_unlock(&d->lock);
    return old;
}

hd_error hd_opencl_synchronize(hd_thread *thread, int index) {
    (void)thread;
    hd_opencl_device *d = hd_opencl_device_at(index);
    if (d == NULL) return HD_ERROR_DEVICE;
    HD_TRY(hd_opencl_check(d, hd_cl.finish(d->queue), "clFinish"));
    hd_cl_event *milestone = exchange_milestone(d, NULL);
    if (milestone != NULL) hd_cl.event_release(milestone);
    return HD_OK;
}

hd_error hd_opencl_enqueued(hd_opencl_device *d) {
    const uint32_t before = atomic_fetch_add_explicit(&d->commands, 1, memory_order_relaxed);
    if (before % COMMANDS_UNDER_WAY != COMMANDS_UNDER_WAY - 1) return HD_OK;
    hd_cl_event *event = NULL;
    HD_TRY(hd_opencl_check(d, hd_cl.marker(d->queue, 0, NULL, &event), "clEnqueueMarkerWithWaitList"));
    hd_cl_event *last = exchange_milestone(d, event);
    if (last == NULL) return HD_OK;
    const int32_t status = hd_cl.wait(1, &last);
    hd_cl.event_release(last);
    return hd_opencl_check(d, status, "clWaitForEvents");
}
