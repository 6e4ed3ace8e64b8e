/* Opening Metal: Objective-C's runtime and the frameworks by their paths, then all devices, once in a process, when
 * somebody first wants to know. Queues are made when a device is first used. Nothing of it is ever released. */
#include "device/metal/driver.h"
#include "core/os.h"
#include "core/late.h"

#include <stdio.h>
#include <string.h>

hd_objc_table hd_objc;

static struct {
    pthread_once_t once;
    int count;
    char missing[240];
    hd_metal_device of[HD_METAL_DEVICES];
} driver = {.once = PTHREAD_ONCE_INIT};

/* ---- the process: forks, and its end ----------------------------------------------------------------------------- */
static void in_child(void);
static void at_exit(void);
static void before_exit(void *nothing);
static hd_driver_process process = {.in_child = in_child, .at_exit = at_exit, .before_exit = before_exit};

bool hd_metal_is_here(void) { return hd_driver_is_here(&process); }

static void wait_for_all(void) {
    for (int i = 0; i < driver.count && hd_metal_is_here(); ++i)
        if (atomic_load(&driver.of[i].started)) hd_metal_wait_quietly(&driver.of[i]);
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

/* ---- the libraries ----------------------------------------------------------------------------------------------- */
static void *open_library(const char *path) {
    return hd_driver_open(path, "Metal's frameworks",
                          HD_OS_ELF ? "Metal framework: this is not macOS" : "Metal framework here",
                          HD_OS_ELF ? "hd_opencl(0) may be here" : "macOS 10.15 and later have it", driver.missing,
                          sizeof driver.missing);
}

static bool take_functions(void *objc, void *metal) {
    const char *missing = NULL;
#define TAKE(library, name, full_name, result, parameters)                                                             \
    *(void **)&hd_objc.name = hd_os_library_symbol(library, full_name);                                                \
    if (hd_objc.name == NULL && missing == NULL) missing = full_name;
    HD_OBJC_FUNCTIONS(TAKE)
#undef TAKE
    void *send = hd_os_library_symbol(objc, "objc_msgSend");
    if (send == NULL && missing == NULL) missing = "objc_msgSend";
#define TAKE(name, text, result, parameters) *(void **)&hd_objc.to.name.send = send;
    HD_OBJC_MESSAGES(TAKE)
#undef TAKE
    if (missing != NULL)
        snprintf(driver.missing, sizeof driver.missing,
                 "the Metal framework that is here has no %s: it is older than macOS 10.15, or something else",
                 missing);
    return missing == NULL;
}

static bool take_names(void) {
    const char *missing = NULL;
#define TAKE(name, text, result, parameters)                                                                           \
    hd_objc.to.name.selector = hd_objc.selector_named(text);                                                           \
    if (hd_objc.to.name.selector == NULL) missing = text;
    HD_OBJC_MESSAGES(TAKE)
#undef TAKE
#define TAKE(name, full_name)                                                                                          \
    hd_objc.name = hd_objc.class_named(full_name);                                                                     \
    if (hd_objc.name == NULL) missing = full_name;
    HD_OBJC_CLASSES(TAKE)
#undef TAKE
    if (missing != NULL)
        snprintf(driver.missing, sizeof driver.missing,
                 "the Metal framework is here, but Objective-C's runtime does not know %s", missing);
    return missing == NULL;
}

/* A program without windows finds devices only where CoreGraphics is open, too. */
static bool open_all(void) {
    char ignored[8];
    void *metal = open_library("/System/Library/Frameworks/Metal.framework/Metal");
    if (metal == NULL || open_library("/System/Library/Frameworks/Foundation.framework/Foundation") == NULL)
        return false;
    void *objc = open_library("/usr/lib/libobjc.A.dylib");
    hd_os_library_open("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics", ignored, sizeof ignored);
    return objc != NULL && take_functions(objc, metal) && take_names();
}

/* ---- what a device is -------------------------------------------------------------------------------------------- */
static uint32_t at_most_u32(size_t x) { return x < UINT32_MAX ? (uint32_t)x : UINT32_MAX; }

static const char *text_or(hd_objc_object *string, const char *otherwise) {
    const char *text = HD_SEND(string, text);
    return text != NULL ? text : otherwise;
}

/* Metal does not tell how many processors a GPU has: the smallest of Apple's have 7 or 8. Threads run in step by 32
 * there, and otherwise elsewhere. */
static void ask_limits(hd_metal_device *d) {
    hd_objc_object *version = HD_SEND(HD_SEND(hd_objc.process_class, process), system_version);
    const char *name = text_or(HD_SEND(d->handle, name), "GPU");
    snprintf(d->name, sizeof d->name, "%s", name);
    snprintf(d->key, sizeof d->key, "metal, %.100s, macOS %.100s", name, text_or(version, "?"));
    d->heap.memory_bytes = (size_t)HD_SEND(d->handle, memory_bytes);
    d->heap.block_most = HD_SEND(d->handle, block_most);
    d->limits = (hd_gpu_limits){.key = d->key,
                                .group_most = HD_MTL_GROUP_MOST,
                                .subgroup = 1,
                                .local_bytes = at_most_u32(HD_SEND(d->handle, local_bytes)),
                                .argument_bytes = HD_MTL_ARGUMENT_BYTES,
                                .processors = 8};
}

/* Of an older macOS a message would end the process. */
static bool is_too_old(hd_objc_object *handle) {
    hd_objc_selector *of_macos_10_15 = hd_objc.selector_named("supportsFamily:");
    return of_macos_10_15 == NULL || !HD_SEND_WITH(handle, responds, of_macos_10_15);
}

static void add_device(hd_objc_object *handle) {
    if (handle == NULL || driver.count == HD_METAL_DEVICES) return;
    hd_metal_device *d = &driver.of[driver.count];
    if (is_too_old(handle)) {
        snprintf(driver.missing, sizeof driver.missing, "Metal is here, but of a macOS older than 10.15; update it");
        return;
    }
    d->device = (hd_device){HD_DEVICE_METAL, driver.count};
    d->handle = HD_SEND(handle, retain);
    ask_limits(d);
    if (d->heap.memory_bytes == 0 || d->heap.block_most == 0) {
        snprintf(driver.missing, sizeof driver.missing, "Metal's device %.60s says that it has no memory",
                 text_or(HD_SEND(d->handle, name), "GPU"));
        HD_SEND(d->handle, release);
        return;
    }
    pthread_mutex_init(&d->lock, NULL);
    hd_metal_begin_heap(d);
    driver.count++;
}

static void add_all(void) {
    hd_objc_object *all = hd_objc.all_devices();
    const size_t count = HD_SEND(all, count);
    for (size_t i = 0; i < count; ++i) add_device(HD_SEND_WITH(all, object_at, i));
    HD_SEND(all, release);
    if (count > 0) return;
    hd_objc_object *first = hd_objc.first_device();
    add_device(first);
    HD_SEND(first, release);
}

static void ask(void) {
    if (!open_all()) return;
    hd_driver_watch_forks(&process);
    void *pool = hd_objc.pool_push();
    add_all();
    hd_objc.pool_pop(pool);
    if (driver.count > 0)
        hd_driver_watch_exit(&process);
    else if (driver.missing[0] == '\0')
        snprintf(driver.missing, sizeof driver.missing,
                 "Metal is here, but finds no GPU; a virtual machine may have none");
}

int hd_metal_count(void) {
    if (!hd_metal_is_here()) return 0;
    pthread_once(&driver.once, ask);
    return driver.count;
}

const char *hd_metal_missing(void) {
    const char *gone = HD_DRIVER_GONE(&process, "Metal");
    if (gone != NULL) return gone;
    pthread_once(&driver.once, ask);
    return driver.missing;
}

/* ---- one device -------------------------------------------------------------------------------------------------- */
void hd_metal_describe(int index, hd_device_info *out) {
    const hd_metal_device *d = &driver.of[index];
    *out = (hd_device_info){.memory_bytes = d->heap.memory_bytes};
    snprintf(out->name, sizeof out->name, "%s", d->name);
}

static hd_metal_device *listed(int index) {
    if (index >= 0 && index < hd_metal_count()) return &driver.of[index];
    const hd_device device = {HD_DEVICE_METAL, index};
    char reason[HD_DEVICE_REASON];
    const char *why = hd_device_absent(reason, device);
    hd_fail(HD_ERROR_DEVICE, "device %s is not here: %s", hd_device_text((char[32]){0}, device),
            why != NULL ? why : hd_metal_missing());
    return NULL;
}

const hd_gpu_limits *hd_metal_limits(int index) {
    const hd_metal_device *d = listed(index);
    return d == NULL ? NULL : &d->limits;
}

hd_heap *hd_metal_heap(int index) {
    hd_metal_device *d = listed(index);
    return d == NULL ? NULL : &d->heap;
}

static hd_error start(hd_metal_device *d) { /* what failed is tried again next time */
    hd_error status = HD_OK;
    pthread_mutex_lock(&d->lock);
    if (d->queue == NULL) {
        void *pool = hd_objc.pool_push();
        d->queue = HD_SEND(d->handle, new_queue);
        hd_objc.pool_pop(pool);
        if (d->queue == NULL) status = hd_metal_gave_nil(d, "newCommandQueue", "end what else uses the GPU");
        if (d->queue != NULL) {
            hd_driver_watch_exit(&process);
            atomic_store_explicit(&d->started, true, memory_order_release);
        }
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

hd_metal_device *hd_metal_device_at(int index) {
    hd_metal_device *d = listed(index);
    if (d == NULL) return NULL;
    HD_TRY_OR(hd_metal_check_lost(d), NULL);
    if (!atomic_load_explicit(&d->started, memory_order_acquire)) HD_TRY_OR(start(d), NULL);
    return d;
}

/* ---- what went wrong --------------------------------------------------------------------------------------------- */
hd_error hd_metal_gave_nil(const hd_metal_device *d, const char *message, const char *remedy) {
    return hd_fail(HD_ERROR_DEVICE, "%s: %s gives nil; %s", hd_device_text((char[32]){0}, d->device), message, remedy);
}

const char *hd_metal_says(hd_objc_object *error) { return HD_SEND(HD_SEND(error, description), text); }
