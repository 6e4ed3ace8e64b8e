/* A plugin for CUDA that is the one for the CPU, beside the fake of CUDA's driver: what XLA is given of the driver's
 * memory it reads where that is on the host, and where its results lie is said as an address of the driver's. So
 * programs run, and what reads too early, or gives up too soon, is seen. It fails when it is told to. */
#include "cuda/fake_cuda.h"
#include "xla/fake_gpu.h"
#include "xla/pjrt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))
extern SHOWN fake_gpu fake_gpu_now;
fake_gpu fake_gpu_now = {.fail_at = -1};

enum { BYTES = 4096, PLACES = 256, BUFFER_BYTES = 64 /* place of PJRT_Buffer_OnDeviceSizeInBytes */ };
static const hd_pjrt_api *real;
static union {
    hd_pjrt_api api;
    char bytes[BYTES];
} table;

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fake_gpu: %s\n", #condition);                                                             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* The real function at a place of the table. */
#define REAL(place, type) (*(hd_pjrt_error * (**)(hd_pjrt_##type *)) & real->entries[place])

/* ---- errors: ours is an address that the real plugin does not know ----------------------------------------------- */
static hd_pjrt_error *ours(void) { return (hd_pjrt_error *)&table; }
static void error_destroy(hd_pjrt_error_destroy *a) {
    if (a->error != ours()) (*(void (**)(hd_pjrt_error_destroy *)) & real->entries[HD_PJRT_ERROR_DESTROY])(a);
}
static void error_message(hd_pjrt_error_message *a) {
    if (a->error != ours()) {
        (*(void (**)(hd_pjrt_error_message *)) & real->entries[HD_PJRT_ERROR_MESSAGE])(a);
        return;
    }
    a->message = "told to fail";
    a->message_size = strlen(a->message);
}
static hd_pjrt_error *error_code(hd_pjrt_error_code *a) {
    if (a->error != ours()) return REAL(2, error_code)(a);
    a->code = HD_PJRT_UNAVAILABLE;
    return NULL;
}
static bool fails(const char *what) {
    if (fake_gpu_now.calls++ != fake_gpu_now.fail_at) return false;
    fake_gpu_now.failed = what;
    return true;
}

/* ---- memory of the driver ---------------------------------------------------------------------------------------- */
static const uint64_t mark = (uint64_t)1 << 62; /* fake_cuda.c */
typedef struct given {
    hd_pjrt_buffer *buffer;
    uint64_t address; /* 0: a view */
} given;
static given all[PLACES];

static void *of_driver(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    MUST(driver != NULL);
    void *function = dlsym(driver, name);
    MUST(function != NULL);
    return function;
}
static int driver_allocate(uint64_t *out, size_t bytes) {
    void *function = of_driver("cuMemAlloc_v2");
    return (*(int (**)(uint64_t *, size_t)) & function)(out, bytes);
}
/* XLA gives its memory out again at once, so that nothing may still read it. This is never what is told to fail. */
static void driver_release(uint64_t address) {
    fake_cuda *driver = of_driver("fake_cuda_now");
    void *function = of_driver("cuMemFree_v2");
    const int64_t calls = driver->calls, fail_at = driver->fail_at;
    MUST(driver->under_way == 0);
    driver->fail_at = -1;
    MUST((*(int (**)(uint64_t)) & function)(address) == 0);
    driver->fail_at = fail_at;
    driver->calls = calls;
}
static void note(hd_pjrt_buffer *buffer, uint64_t address) {
    int i = 0;
    while (i < PLACES && all[i].buffer != NULL) ++i;
    MUST(i < PLACES);
    all[i] = (given){buffer, address};
    fake_gpu_now.living++;
}

static hd_pjrt_error *view(hd_pjrt_view *a) {
    const uint64_t address = (uint64_t)(uintptr_t)a->pointer;
    if (fails("view")) return ours();
    MUST((address & mark) != 0 && address % 256 == 0 && a->destroyed != NULL && a->device != NULL);
    hd_pjrt_view on_host = *a;
    on_host.pointer = (void *)(uintptr_t)(address & ~mark);
    hd_pjrt_error *error = REAL(93, view)(&on_host);
    if (error != NULL) return error;
    a->buffer = on_host.buffer;
    note(a->buffer, 0);
    fake_gpu_now.views++;
    return NULL;
}

/* The elements are in the driver's memory until the buffer goes. */
static hd_pjrt_error *place(hd_pjrt_buffer_pointer *a) {
    struct {
        HD_PJRT_HEAD;
        hd_pjrt_buffer *buffer;
        size_t size;
    } size = {.struct_size = sizeof size, .buffer = a->buffer};
    uint64_t address = 0;
    if (fails("place")) return ours();
    hd_pjrt_buffer_pointer there = *a;
    hd_pjrt_error *error = REAL(73, buffer_pointer)(&there);
    if (error == NULL) error = (*(hd_pjrt_error * (**)(void *)) & real->entries[BUFFER_BYTES])(&size);
    if (error != NULL) return error;
    if (driver_allocate(&address, size.size) != 0) return ours();
    memcpy((void *)(uintptr_t)(address & ~mark), (void *)there.pointer, size.size);
    a->pointer = (uintptr_t)address;
    note(a->buffer, address);
    fake_gpu_now.places++;
    return NULL;
}

static hd_pjrt_error *buffer_destroy(hd_pjrt_buffer_destroy *a) {
    for (int i = 0; i < PLACES; ++i) {
        if (all[i].buffer != a->buffer) continue;
        if (all[i].address != 0) driver_release(all[i].address);
        all[i] = (given){0};
        fake_gpu_now.living--;
    }
    return REAL(58, buffer_destroy)(a);
}

/* ---- what else can fail ------------------------------------------------------------------------------------------ */
static hd_pjrt_error *execute(hd_pjrt_execute *a) {
    if (fails("execute")) return ours();
    fake_gpu_now.kept += (int64_t)a->options->kept_argument_count;
    return REAL(55, execute)(a);
}
/* The run itself: it is over, and has failed. */
static hd_pjrt_error *event_await(hd_pjrt_event_await *a) {
    hd_pjrt_error *error = REAL(8, event_await)(a);
    return error == NULL && fails("await") ? ours() : error;
}
static hd_pjrt_error *from_host(hd_pjrt_from_host *a) { return fails("from_host") ? ours() : REAL(22, from_host)(a); }
static hd_pjrt_error *to_host(hd_pjrt_to_host *a) {
    fake_gpu_now.reads++;
    return fails("to_host") ? ours() : REAL(70, to_host)(a);
}

/* ---- the client -------------------------------------------------------------------------------------------------- */
static hd_pjrt_error *client_create(hd_pjrt_client_create *a) {
    static const hd_pjrt_named two = {.struct_size = sizeof two,
                                      .name = "cpu_device_count",
                                      .name_size = 16,
                                      .type = HD_PJRT_INT64,
                                      .integer = 2,
                                      .value_size = 1};
    hd_pjrt_client_create other = *a;
    MUST(a->option_count == 1 && strcmp(a->options->name, "preallocate") == 0);
    other.options = &two;
    hd_pjrt_error *error = REAL(10, client_create)(&other);
    a->client = other.client;
    return error;
}
static hd_pjrt_error *platform_name(hd_pjrt_platform_name *a) {
    a->text = "cuda";
    a->text_size = 4;
    return NULL;
}

static bool lacks(const char *what) {
    const char *wish = getenv("FAKE_GPU_LACKS");
    return wish != NULL && (strcmp(wish, what) == 0 || strcmp(wish, "all") == 0);
}
#define SET(at, function)                                                                                              \
    do {                                                                                                               \
        MUST(real->struct_size >= HD_PJRT_FIRST_ENTRY + 8 * ((at) + 1));                                               \
        *(__typeof__(&function) *)&table.api.entries[at] = &function;                                                  \
    } while (0)

const void *GetPjrtApi(void);
SHOWN const void *GetPjrtApi(void) {
    const char *path = getenv("FAKE_GPU_OF");
    MUST(path != NULL);
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL), *function;
    MUST(plugin != NULL && (function = dlsym(plugin, "GetPjrtApi")) != NULL);
    real = (*(const hd_pjrt_api *(**)(void)) & function)();
    MUST(real != NULL && real->struct_size <= BYTES);
    memcpy(&table, real, real->struct_size);
    SET(HD_PJRT_ERROR_DESTROY, error_destroy);
    SET(HD_PJRT_ERROR_MESSAGE, error_message);
    SET(2, error_code);
    SET(8, event_await);
    SET(10, client_create);
    SET(12, platform_name);
    SET(22, from_host);
    SET(55, execute);
    SET(58, buffer_destroy);
    SET(70, to_host);
    SET(73, place);
    SET(93, view);
    if (lacks("layout")) table.api.entries[63] = NULL;
    if (lacks("place")) table.api.entries[73] = NULL;
    if (lacks("view")) table.api.entries[93] = NULL;
    return &table;
}
