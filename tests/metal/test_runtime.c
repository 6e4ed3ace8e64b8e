/* The runtime of Metal's devices against a fake of Objective-C's runtime and of Metal (fake_metal.c): what it asks of
 * them, and what becomes of it when they fail. This is not a Mac. Each case is a process of its own, as frameworks are
 * opened once. */
#include "support.h"
#include "in_a_child.h"
#include "core/away.h"
#include "device/metal/driver.h"
#include "device/metal/metal_device.h"
#include "gpu/memory.h"
#include "metal/fake_metal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const hd_device_interface *const mtl = &hd_metal_interface;
static const hd_gpu_interface *const gpu = &hd_metal_gpu;
static fake_metal *fake;

/* The library's own cache is the user's. */
__attribute__((constructor)) static void cache_nothing(void) { setenv("HODU_CACHE", "0", 1); }

/* A library is found by its name when one of that name is open already. */
static void with_metal(const char *path, const char *wish) {
    setenv("FAKE_METAL", wish, 1);
    void *metal = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (metal == NULL) fprintf(stderr, "%s\n", dlerror());
    require(metal != NULL);
    require(dlopen(FAKE_OBJC, RTLD_NOW | RTLD_LOCAL) != NULL && dlopen(FAKE_FOUNDATION, RTLD_NOW | RTLD_LOCAL) != NULL);
    fake = dlsym(metal, "fake_metal_now");
}

static void in_child(void (*story)(const void *), const void *context) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        story(context);
        exit(hd_ok() ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child ended with %#x", (unsigned)status);
}

static hd_address there(const hd_block *b, size_t offset) {
    return (hd_address){b->device, (char *)b->address + offset};
}
static hd_address here(const void *memory) { return (hd_address){hd_cpu(), (void *)(uintptr_t)memory}; }
static hd_block *block_of(int index, size_t bytes) {
    hd_block *b = mtl->allocate(hd_thread_self(), index, bytes);
    require(b != NULL);
    return b;
}
static void release(hd_block *b) { hd_block_release(hd_thread_self(), b); }
static hd_error copy(hd_address to, hd_address from, size_t bytes) {
    return mtl->copy(hd_thread_self(), to, from, bytes);
}
static hd_error fill(hd_address to, const void *element, size_t size, size_t count) {
    return mtl->fill(hd_thread_self(), to, element, size, count);
}
static hd_error synchronize(void) { return mtl->synchronize(hd_thread_self(), 0); }

static const char program_text[] = "kernel void scale(device char *xs, device char *ys, constant arguments &a) {}\n"
                                   "kernel void move(device char *xs, device char *ys, constant arguments &a) {}\n"
                                   "kernel void unknown(device char *xs) {}\n"
                                   "kernel void position(device char *xs, constant arguments &a) {}\n";
static hd_gpu_program *program_on(int index) {
    void *object;
    size_t bytes;
    require(gpu->compile(index, "program", program_text, &object, &bytes) == HD_OK);
    hd_gpu_program *p = gpu->load(index, object, bytes);
    hd_array_release(object);
    require(p != NULL);
    return p;
}
static hd_error launch(int index, hd_gpu_function *f, void *x, void *y, fake_arguments a, int64_t *nanoseconds) {
    const uint32_t groups = (uint32_t)(a.count + 63) / 64;
    return gpu->launch(index, &(hd_gpu_launch){.function = f,
                                               .groups = {groups, 1, 1},
                                               .threads = {64, 1, 1},
                                               .buffers = (void *[]){x, y},
                                               .buffer_count = 2,
                                               .arguments = &a,
                                               .argument_bytes = sizeof a,
                                               .nanoseconds = nanoseconds});
}

/* Everything was released but the devices and queues, which are held once each. */
static void nothing_is_left(int devices) {
    for (int i = 0; i < devices; ++i) {
        require(mtl->synchronize(hd_thread_self(), i) == HD_OK);
        hd_metal_device *d = hd_metal_device_at(i);
        hd_heap_trim(&d->heap);
        require(d->heap.used_bytes == 0 && d->heap.cached_bytes == 0);
    }
    require(fake->objects == 2 * devices && fake->references == 2 * devices);
    require(fake->memory_used == 0 && fake->leaked == 0 && fake->under_way == 0);
}

/* ---- no device --------------------------------------------------------------------------------------------------- */
static void none_because(const char *reason) {
    require(hd_device_count(HD_DEVICE_METAL) == 0 && !hd_device_available(hd_metal()));
    require_text(hd_device_missing(hd_metal()), reason);
    hd_device_describe(hd_metal());
    require_text(hd_error_message(), "hd_device_describe: device metal:0 is not here: ");
    require_error(HD_ERROR_DEVICE, reason);
    hd_set_device(hd_metal());
    require_error(HD_ERROR_DEVICE, reason);
    require(mtl->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    require(gpu->limits(0) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
}
static void no_framework(const void *nothing) {
    (void)nothing;
    none_because("there is no Metal framework: this is not macOS (/System/Library/Frameworks/Metal.framework/Metal: ");
}
static void something_else(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL_EMPTY, "1");
    none_because("the Metal framework that is here has no objc_getClass: it is older than macOS 10.15, or something");
}
static void no_gpu(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "none");
    none_because("Metal is here, but finds no GPU; a virtual machine may have none");
    require(fake->objects == 0 && fake->leaked == 0);
}
static void too_old(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "old");
    none_because("Metal is here, but of a macOS older than 10.15; update it");
    require(fake->objects == 0);
}
static void no_class(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    fake->fail_in = "objc_getClass";
    fake->times = 1;
    none_because("the Metal framework is here, but Objective-C's runtime does not know NSString");
}
static void no_memory(const void *function) {
    with_metal(FAKE_METAL, "1");
    fake->fail_in = function;
    fake->times = 1;
    none_because("Metal's device fake GPU 0 says that it has no memory");
    require(fake->objects == 0);
}
static void a_missing_device_says_why(void **state) {
    (void)state;
    in_child(no_framework, NULL);
    in_child(something_else, NULL);
    in_child(no_gpu, NULL);
    in_child(too_old, NULL);
    in_child(no_class, NULL);
    in_child(no_memory, "maxBufferLength");
    in_child(no_memory, "recommendedMaxWorkingSetSize");
}

static void describes(const void *wish) {
    with_metal(FAKE_METAL, wish);
    const int count = hd_device_count(HD_DEVICE_METAL);
    require(count == (strcmp(wish, "default") == 0    ? 1
                      : atoi(wish) < HD_METAL_DEVICES ? atoi(wish)
                                                      : HD_METAL_DEVICES));
    for (int i = 0; i < count; ++i) {
        char name[32];
        snprintf(name, sizeof name, "fake GPU %d", i);
        const hd_device_info info = hd_device_describe((hd_device){HD_DEVICE_METAL, i});
        const hd_gpu_limits *l = gpu->limits(i);
        require(strcmp(info.name, name) == 0 && info.memory_bytes == 1 << 20 && info.units == 0 && !info.has_f64);
        require_text(l->key, "metal, fake GPU ");
        require_text(l->key, ", macOS Version 99.0 (fake)");
        require(l->group_most == 1024 && l->subgroup == 1 && l->local_bytes == 32768 && l->argument_bytes == 4096);
        require(l->processors > 0 && !l->has_f64 && !l->has_atomic_64);
    }
    require(gpu->limits(count) == NULL);
    require_error(HD_ERROR_DEVICE, "is not here: there ");
    require(mtl->allocate(hd_thread_self(), -1, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "device metal:-1 is not here");
    require(fake->objects >= count && fake->leaked == 0);
}
static void devices_are_listed(void **state) {
    (void)state;
    in_child(describes, "1");
    in_child(describes, "3");
    in_child(describes, "20");
    in_child(describes, "default");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void copies(const void *nothing) {
    (void)nothing;
    unsigned char bytes[256], got[256], expected[256];
    with_metal(FAKE_METAL, "1");
    hd_block *a = block_of(0, 256), *b = block_of(0, 300);
    require((uintptr_t)a->address >> 62 == 1 && a->address != b->address && a->capacity >= 256);
    for (int i = 0; i < 256; ++i) bytes[i] = expected[i] = (unsigned char)i;
    require(copy(there(a, 0), here(bytes), 256) == HD_OK);
    require(copy(there(a, 13), here("hodu"), 4) == HD_OK);
    memcpy(expected + 13, "hodu", 4);
    require(copy(there(b, 8), there(a, 4), 100) == HD_OK); /* encoded */
    require(copy(there(b, 7), there(a, 5), 101) == HD_OK); /* not in units */
    require(copy(here(got), there(b, 8), 99) == HD_OK);
    require(memcmp(got, expected + 6, 99) == 0);
    require(copy(there(a, 32), there(a, 28), 200) == HD_OK); /* ranges that overlap */
    memmove(expected + 32, expected + 28, 200);
    require(copy(there(a, 2), there(a, 40), 150) == HD_OK);
    memmove(expected + 2, expected + 40, 150);
    require(copy(there(a, 5), there(a, 5), 150) == HD_OK);
    require(copy(there(a, 128), there(a, 0), 128) == HD_OK); /* neighbours */
    memmove(expected + 128, expected, 128);
    require(copy(here(got), there(a, 0), 256) == HD_OK);
    require(memcmp(got, expected, 256) == 0);
    require(copy(there(a, 0), here(NULL), 0) == HD_OK && copy(there(a, 0), there(a, 1), 0) == HD_OK);
    require(fill(there(a, 0), NULL, 4, 0) == HD_OK);
    release(a);
    release(b);
    a = block_of(0, 0);
    require(a->capacity > 0);
    release(a);
    nothing_is_left(1);
}
static void fills(const void *nothing) {
    (void)nothing;
    enum { LARGE = 100000 };
    unsigned char got[64], expected[64];
    const uint64_t elements[] = {0x8877665544332211u, 0, 0x0101010101010101u};
    with_metal(FAKE_METAL, "1");
    hd_block *a = block_of(0, 64), *large = block_of(0, 4 * LARGE);
    for (int e = 0; e < 3; ++e)
        for (size_t size = 1; size <= 8; size *= 2)
            for (size_t offset = 0; offset <= 8; ++offset) {
                memset(expected, 7, 64);
                require(fill(there(a, 0), expected, 8, 8) == HD_OK);
                require(fill(there(a, offset), &elements[e], size, 5) == HD_OK);
                for (size_t i = 0; i < 5; ++i) memcpy(expected + offset + i * size, &elements[e], size);
                require(copy(here(got), there(a, 0), 64) == HD_OK);
                require(memcmp(got, expected, 64) == 0);
            }
    float *numbers = malloc(4 * LARGE);
    require(fill(there(large, 0), &(float){0}, 4, LARGE) == HD_OK);
    require(fill(there(large, 4), &(float){1.5f}, 4, LARGE - 2) == HD_OK);
    require(copy(here(numbers), there(large, 0), 4 * LARGE) == HD_OK);
    for (int i = 0; i < LARGE; ++i) require(numbers[i] == (i == 0 || i == LARGE - 1 ? 0 : 1.5f));
    free(numbers);
    release(a);
    release(large);
    nothing_is_left(1);
}
static void bad_addresses(const void *nothing) {
    (void)nothing;
    char bytes[128];
    with_metal(FAKE_METAL, "1");
    hd_block *a = block_of(0, 64);
    require(copy(here(bytes), there(a, 60), 5) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "5 bytes from 60 on are not inside of a block of 64 bytes of metal:0");
    require(copy((hd_address){hd_metal(), bytes}, here(bytes), 1) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "there is no memory of metal:0 at ");
    const hd_address gone = there(a, 0);
    release(a);
    require(fill(gone, bytes, 1, 1) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "there is no memory of metal:0 at ");
    nothing_is_left(1);
}
static void bytes_go_there_and_come_back(void **state) {
    (void)state;
    in_child(copies, NULL);
    in_child(fills, NULL);
    in_child(bad_addresses, NULL);
}

/* Command buffers of the fake run only when somebody waits: whoever does not sees what was there before. */
static void in_order(const void *nothing) {
    (void)nothing;
    enum { COUNT = 20000 }; /* more than is written without waiting */
    static float numbers[COUNT];
    float x[4] = {1, 2, 3, 4}, y[4];
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *scale = gpu->function(p, "scale");
    hd_block *a = block_of(0, 4 * COUNT), *b = block_of(0, 4 * COUNT);
    const fake_arguments twice = {.count = 4, .factor = 2};
    require(copy(there(a, 0), here(x), 16) == HD_OK);
    require(fake->waits == 0 && fake->under_way == 0); /* nothing to wait for */
    require(launch(0, scale, a->address, b->address, twice, NULL) == HD_OK);
    require(copy(there(a, 0), here((float[4]){5, 6, 7, 8}), 16) == HD_OK); /* after the launch, and not waited for */
    require(fake->waits == 0);
    require(launch(0, scale, a->address, there(b, 16).pointer, twice, NULL) == HD_OK);
    require(fill(there(a, 0), &(float){9}, 4, 4) == HD_OK);
    require(fill(there(a, 4), &(float){0}, 4, 1) == HD_OK);
    require(launch(0, scale, a->address, there(b, 32).pointer, twice, NULL) == HD_OK);
    require(fake->waits == 0 && fake->under_way == 0); /* one batch, which is not full */
    require(copy(here(y), there(b, 0), 16) == HD_OK && fake->waits == 1);
    for (int i = 0; i < 4; ++i) require(y[i] == 2 * x[i]);
    require(copy(here(y), there(b, 16), 16) == HD_OK && fake->waits == 1);
    for (int i = 0; i < 4; ++i) require(y[i] == 2 * (float)(5 + i));
    require(copy(here(y), there(b, 32), 16) == HD_OK);
    require(y[0] == 18 && y[1] == 0 && y[2] == 18 && y[3] == 18);
    require(launch(0, scale, a->address, b->address, twice, NULL) == HD_OK);
    require(copy(there(a, 0), here(numbers), sizeof numbers) == HD_OK && fake->waits == 2); /* which is waited for */
    require(launch(0, scale, a->address, b->address, twice, NULL) == HD_OK);
    require(copy(there(a, 1), here("x"), 1) == HD_OK && fake->waits == 3); /* and what is not in units */
    fake->fail_in = "newBufferWithBytes:length:options:";
    fake->times = 1;
    require(launch(0, scale, a->address, b->address, twice, NULL) == HD_OK);
    require(copy(there(a, 0), here(x), 16) == HD_OK && fake->waits == 4); /* and what there is no memory for */
    release(a);
    release(b);
    gpu->unload(p);
    nothing_is_left(1);
}
static void what_is_asked_later_comes_later(void **state) {
    (void)state;
    in_child(in_order, NULL);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static void reads_and_writes(const void *nothing) {
    (void)nothing;
    enum { COUNT = 1000, X = 12, Y = 44 };
    float x[COUNT], y[COUNT];
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    require(f != NULL && gpu->function(p, "scale") == f);
    hd_block *a = block_of(0, sizeof x + X), *b = block_of(0, sizeof y + Y);
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    require(copy(there(a, X), here(x), sizeof x) == HD_OK);
    int64_t nanoseconds = -1;
    require(fill(there(b, 0), "x", 1, 4) == HD_OK); /* whose time is not that of the launch */
    require(launch(0, f, there(a, X).pointer, there(b, Y).pointer, (fake_arguments){.count = COUNT, .factor = 3},
                   &nanoseconds) == HD_OK);
    require(nanoseconds == 234);
    require(copy(here(y), there(b, Y), sizeof y) == HD_OK);
    for (int i = 0; i < COUNT; ++i) require(y[i] == 3 * x[i]);
    fake_arguments kept = {.x = -1, .y = -1, .count = 10, .factor = 2}; /* the caller's own are filled in */
    void *buffers[] = {there(b, Y).pointer, there(b, Y + 4).pointer};
    const hd_gpu_launch l = {f, {1, 1, 1}, {64, 1, 1}, buffers, 2, &kept, sizeof kept, NULL, NULL};
    require(gpu->launch(0, &l) == HD_OK && kept.x == Y && kept.y == Y + 4);
    release(a); /* and given out again, while it is read */
    release(b);
    gpu->unload(p); /* before it runs */
    nothing_is_left(1);
}
static void three_dimensions(const void *nothing) {
    (void)nothing;
    int32_t got[6 * 4 * 4];
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_block *a = block_of(0, sizeof got + 4);
    hd_gpu_launch l = {.function = gpu->function(p, "position"),
                       .groups = {3, 2, 1},
                       .threads = {2, 2, 4},
                       .buffers = (void *[]){there(a, 4).pointer},
                       .buffer_count = 1,
                       .arguments = &(fake_arguments){.count = 1},
                       .argument_bytes = sizeof(fake_arguments)};
    require(gpu->launch(0, &l) == HD_OK);
    require(copy(here(got), there(a, 4), sizeof got) == HD_OK);
    for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 6; ++i)
                require(got[i + 6 * (j + 4 * k)] == i % 2 + 10 * (j % 2) + 100 * k + 1000 * (i / 2) + 10000 * (j / 2));
    l.groups[1] = 0; /* nothing to do */
    require(gpu->launch(0, &l) == HD_OK);
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void wrong_launches(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    require(gpu->function(p, "no_such_kernel") == NULL);
    require_error(HD_ERROR_DEVICE, "metal:0: newFunctionWithName gives nil; the program has no kernel no_such_kernel");
    require(gpu->function(p, "unknown") == NULL);
    require_error(HD_ERROR_DEVICE,
                  "metal:0 makes no pipeline of the kernel unknown: the fake does not know this kernel");
    hd_block *a = block_of(0, 64);
    void *buffers[40] = {a->address, a->address};
    char large[5000] = {0};
    fake_arguments given = {.count = 1};
    hd_gpu_launch l = {f, {1, 1, 1}, {129, 1, 1}, buffers, 2, &given, sizeof given, NULL, NULL};
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_DEVICE, "the kernel scale takes groups of 1 to 128 threads on metal:0, not of 129");
    l.threads[0] = 1;
    l.argument_bytes = 8;
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "the kernel scale has 2 buffers, and no room for their offsets");
    l.arguments = large;
    l.argument_bytes = 4097;
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_DEVICE, "has 2 buffers and 4097 bytes of arguments; Metal takes 30 and 4096 at most");
    l.argument_bytes = 4096;
    l.buffer_count = 31;
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_DEVICE, "has 31 buffers and 4096 bytes of arguments");
    l = (hd_gpu_launch){f, {1, 1, 1}, {1, 1, 1}, (void *[]){a->address, buffers}, 2, &given, sizeof given, NULL, NULL};
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "there is no memory of metal:0 at ");
    l.buffers = buffers;
    require(gpu->launch(0, &l) == HD_OK); /* none of that did any harm */
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void a_kernel_reads_and_writes(void **state) {
    (void)state;
    in_child(reads_and_writes, NULL);
    in_child(three_dimensions, NULL);
    in_child(wrong_launches, NULL);
}

static void does_not_compile(const void *nothing) {
    (void)nothing;
    static const char text[] = "kernel void broken(device float *x) { x[0] = no_such_thing; }\n";
    void *object = &object;
    size_t bytes = 7;
    char path[512], got[sizeof text + 1] = "";
    with_metal(FAKE_METAL, "1");
    require(gpu->compile(0, "a/broken \"one\"", text, &object, &bytes) != HD_OK && object == NULL && bytes == 0);
    const char *at = strstr(hd_error_message(), "whose text is in ");
    require(at != NULL);
    snprintf(path, sizeof path, "%s", at + strlen("whose text is in "));
    path[strcspn(path, ":")] = '\0';
    require_text(path, "a_broken__one_.metal");
    const size_t length = strlen(hd_error_message());
    require(length > 300 && length < 500);
    require(strcmp(hd_error_message() + length - 26, "error: this is how it ends") == 0);
    require_error(HD_ERROR_DEVICE, "metal:0 does not compile a/broken \"one\", whose text is in ");
    FILE *file = fopen(path, "r");
    require(file != NULL && fread(got, 1, sizeof got, file) == strlen(text) && strcmp(got, text) == 0);
    fclose(file);
    require(unlink(path) == 0);
    *strrchr(path, '/') = '\0';
    require(rmdir(path) == 0);
    setenv("TMPDIR", "/nowhere", 1);
    require(gpu->compile(0, "broken", text, &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "whose text is in no file (No such file or directory; set TMPDIR): ");
    nothing_is_left(1);
}
static void broken_objects(const void *nothing) {
    (void)nothing;
    void *object;
    size_t bytes;
    with_metal(FAKE_METAL, "1");
    require(gpu->compile(0, "program", program_text, &object, &bytes) == HD_OK);
    char *broken = malloc(bytes);
    memcpy(broken, object, bytes);
    broken[bytes / 2] ^= 4;
    require(gpu->load(0, broken, bytes) == NULL);
    require_error(HD_ERROR_DEVICE, "is no whole program of Metal's; compile it anew");
    require(gpu->load(0, object, bytes - 1) == NULL);
    require_error(HD_ERROR_DEVICE, "is no whole program");
    require(gpu->load(0, "none", 4) == NULL);
    require_error(HD_ERROR_DEVICE, "an object of 4 bytes is no whole program");
    require(gpu->load(0, object, 0) == NULL);
    require_error(HD_ERROR_DEVICE, "an object of 0 bytes is no whole program");
    free(broken);
    hd_array_release(object);
    nothing_is_left(1);
}
static void bad_programs_are_errors(void **state) {
    (void)state;
    in_child(does_not_compile, NULL);
    in_child(broken_objects, NULL);
}

/* ---- any call may fail ------------------------------------------------------------------------------------------- */
typedef struct everything {
    hd_block *a, *b, *elsewhere;
    hd_gpu_program *program;
    void *object;
    char got[64];
} everything;

static hd_error use_memory(hd_thread *thread, everything *e) {
    if ((e->a = mtl->allocate(thread, 0, 64)) == NULL) return hd_error_code();
    if ((e->b = mtl->allocate(thread, 0, 100)) == NULL) return hd_error_code();
    if ((e->elsewhere = mtl->allocate(thread, 1, 100)) == NULL) return hd_error_code();
    HD_TRY(fill(there(e->a, 0), "x", 1, 64));
    HD_TRY(fill(there(e->a, 3), "yz", 2, 3));
    HD_TRY(copy(there(e->b, 0), there(e->a, 0), 64));
    HD_TRY(copy(there(e->a, 12), here("hodu"), 4)); /* staged */
    HD_TRY(copy(there(e->b, 4), there(e->a, 0), 20));
    HD_TRY(copy(there(e->b, 6), there(e->b, 4), 20)); /* "xxxyzyzyzxxxhoduxxxx" at 6 */
    HD_TRY(copy(there(e->elsewhere, 1), there(e->b, 6), 20));
    return copy(there(e->b, 50), there(e->elsewhere, 1), 20);
}

static hd_error use_program(everything *e) {
    size_t bytes;
    int64_t took = 0;
    fake_arguments arguments = {.count = 20};
    HD_TRY(gpu->compile(0, "move", program_text, &e->object, &bytes));
    if ((e->program = gpu->load(0, e->object, bytes)) == NULL) return hd_error_code();
    hd_gpu_function *f = gpu->function(e->program, "move");
    if (f == NULL) return hd_error_code();
    hd_gpu_launch l = {.function = f,
                       .groups = {1, 1, 1},
                       .threads = {1, 1, 1},
                       .buffers = (void *[]){there(e->b, 50).pointer, there(e->a, 30).pointer},
                       .buffer_count = 2,
                       .arguments = &arguments,
                       .argument_bytes = sizeof arguments,
                       .nanoseconds = &took};
    HD_TRY(gpu->launch(0, &l));
    require(took == 234 && arguments.x == 50 && arguments.y == 30);
    l.nanoseconds = NULL;
    return gpu->launch(0, &l);
}

static hd_error use_all(hd_thread *thread, everything *e) {
    HD_TRY(use_memory(thread, e));
    HD_TRY(use_program(e));
    HD_TRY(copy(here(e->got), there(e->a, 30), 20));
    return mtl->synchronize(thread, 0);
}

/* All of it, and everything is released again, whatever happened. */
static hd_error do_all(void) {
    hd_thread *thread = hd_thread_self();
    everything e = {.a = NULL};
    const hd_error status = thread == NULL ? HD_ERROR_MEMORY : use_all(thread, &e);
    require((status == HD_OK) == hd_ok());
    if (status == HD_OK) require(memcmp(e.got, "xxxyzyzyzxxxhoduxxxx", 20) == 0);
    if (e.a != NULL) release(e.a);
    if (e.b != NULL) release(e.b);
    if (e.elsewhere != NULL) release(e.elsewhere);
    if (e.program != NULL) gpu->unload(e.program);
    free(e.object);
    return status;
}

static void one_call_fails(const void *at) {
    with_metal(FAKE_METAL, "2");
    fake->fail_at = *(const int64_t *)at;
    const hd_error first = do_all();
    if (first != HD_OK) {
        require(hd_error_code() == HD_ERROR_DEVICE || hd_error_code() == HD_ERROR_MEMORY);
        require(strlen(hd_error_message()) > 20 && strlen(hd_error_message()) < 500);
    }
    const char *saved = strstr(hd_error_message(), "whose text is in ");
    if (saved != NULL) {
        char path[512];
        snprintf(path, sizeof path, "%s", saved + strlen("whose text is in "));
        path[strcspn(path, ":")] = '\0';
        require(unlink(path) == 0);
        *strrchr(path, '/') = '\0';
        require(rmdir(path) == 0);
    }
    const bool is_lost = strstr(hd_error_message(), "is lost, with all that was in its memory") != NULL;
    const bool never_listed = strstr(hd_error_message(), "is not here") != NULL;
    hd_error_clear();
    const hd_error second = do_all(); /* the fault was once */
    if (second != HD_OK) {
        require(is_lost || never_listed);
        require_text(hd_error_message(), is_lost ? "is lost" : "is not here");
        hd_error_clear();
    }
    require(fake->calls > fake->fail_at && fake->leaked == 0);
    if (!is_lost && !never_listed) nothing_is_left(2);
    if (!is_lost) return;
    for (int i = 0; i < 2; ++i) { /* also what was there when it was lost is released */
        hd_metal_device *d = hd_metal_device_at(i);
        hd_error_clear();
        if (d != NULL) require(hd_metal_wait(d) == HD_OK);
        if (d != NULL) hd_heap_trim(&d->heap);
    }
}

static void count_calls(const void *out) {
    with_metal(FAKE_METAL, "2");
    require(do_all() == HD_OK);
    require(write(*(const int *)out, &fake->calls, sizeof fake->calls) == sizeof fake->calls);
    require(do_all() == HD_OK); /* from the cache */
    nothing_is_left(2);
}

static void any_call_may_fail(void **state) {
    (void)state;
    int64_t calls = 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    in_child(count_calls, &ends[1]);
    assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
    close(ends[0]);
    close(ends[1]);
    print_message("%lld calls, each fails once\n", (long long)calls);
    assert_true(calls > 80 && calls < 300);
    for (int64_t at = 0; at < calls; ++at) in_child(one_call_fails, &at);
}

/* Memory of our own. */
static void allocations_fail(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "2");
    require(hd_thread_self() != NULL && hd_device_count(HD_DEVICE_METAL) == 2);
    for (int64_t n = 0;; ++n) {
        hd_memory_fail_after(n);
        const hd_error status = do_all();
        hd_memory_fail_after(-1);
        if (status == HD_OK) break;
        require(n < 100 && hd_error_code() == HD_ERROR_MEMORY);
        hd_error_clear();
    }
    nothing_is_left(2);
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    in_child(allocations_fail, NULL);
}

/* ---- figures, limits, trims -------------------------------------------------------------------------------------- */
static size_t taken(void) { return fake->memory_used; }
static void memory_is_told_of(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    memory_story(hd_metal(), taken);
    nothing_is_left(1);
}
static void memory_has_figures_and_limits(void **state) {
    (void)state;
    in_child(memory_is_told_of, NULL);
}

/* ---- memory that runs out ---------------------------------------------------------------------------------------- */
static void what_is_cached_makes_room(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1"); /* 1 MB, and 256 KB of it are cached at most */
    hd_block *blocks[4];
    for (int i = 0; i < 4; ++i) blocks[i] = block_of(0, 65536);
    for (int i = 0; i < 4; ++i) release(blocks[i]);
    hd_metal_device *d = hd_metal_device_at(0);
    require(d->heap.cached_bytes == 4 * 65536 && d->heap.used_bytes == 0 && fake->memory_used == 4 * 65536);
    release(block_of(0, 8000));
    require(d->heap.cached_bytes == 4 * 65536); /* it is full */
    blocks[0] = block_of(0, 1 << 19);
    blocks[1] = block_of(0, 400000); /* in their place */
    require(d->heap.cached_bytes == 0 && fake->objects == 2 + 2);
    require(mtl->allocate(hd_thread_self(), 0, 200000) == NULL);
    require_error(HD_ERROR_MEMORY,
                  "metal:0 has no memory for 200000 bytes: of its 1048576 bytes 950272 are in use here and 0 cached, "
                  "and a block has at most 524288 (newBufferWithLength gives nil, or would); release tensors");
    require(mtl->allocate(hd_thread_self(), 0, (1 << 19) + 1) == NULL);
    require_error(HD_ERROR_MEMORY, "(it is larger than maxBufferLength)");
    fake->memory = fake->memory_used; /* others take the rest */
    require(mtl->allocate(hd_thread_self(), 0, 1000) == NULL);
    require_error(HD_ERROR_MEMORY, "metal:0 has no memory for 1000 bytes");
    release(blocks[0]);
    release(blocks[1]);
    nothing_is_left(1);
}
/* What was released is free when what uses it has run. */
static void waiting_makes_room(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    hd_block *a = block_of(0, 1 << 19), *b = block_of(0, 1 << 18);
    require(fill(there(a, 0), "x", 1, 1 << 19) == HD_OK);
    release(a); /* too large for the cache */
    require(fake->memory_used == (1 << 19) + (1 << 18) && fake->waits == 0);
    a = block_of(0, 1 << 19);
    require(fake->waits == 1 && fake->memory_used == (1 << 19) + (1 << 18));
    release(a);
    release(b);
    nothing_is_left(1);
}
static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    in_child(what_is_cached_makes_room, NULL);
    in_child(waiting_makes_room, NULL);
}

/* ---- devices that are lost --------------------------------------------------------------------------------------- */
static void is_lost_in(const void *how) {
    char byte = 0;
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    hd_block *a = block_of(0, 64);
    int64_t nanoseconds;
    require(fill(there(a, 0), "x", 1, 64) == HD_OK);
    fake->is_lost = true;
    hd_error status = HD_OK;
    if (strcmp(how, "wait") == 0) status = synchronize();
    if (strcmp(how, "read") == 0) status = copy(here(&byte), there(a, 0), 1);
    if (strcmp(how, "time") == 0)
        status = launch(0, f, a->address, a->address, (fake_arguments){.count = 1}, &nanoseconds);
    if (strcmp(how, "many") == 0)
        for (int i = 0; i < 2000 && status == HD_OK; ++i) status = fill(there(a, 0), "x", 1, 64);
    require(status == HD_ERROR_DEVICE);
    require_error(HD_ERROR_DEVICE,
                  "metal:0 is lost, with all that was in its memory: a command buffer ended in an error "
                  "(Caused GPU Timeout Error (fake)); a kernel crashed or ran too long; start");
    fake->is_lost = false; /* too late */
    require(copy(there(a, 0), here("x"), 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, "metal:0 is lost");
    require(fill(there(a, 0), "x", 1, 64) != HD_OK);
    require_error(HD_ERROR_DEVICE, "metal:0 is lost");
    require(launch(0, f, a->address, a->address, (fake_arguments){.count = 1}, NULL) != HD_OK);
    require_error(HD_ERROR_DEVICE, "metal:0 is lost");
    require(mtl->allocate(hd_thread_self(), 0, 1) == NULL);
    require_error(HD_ERROR_DEVICE, "start the program again");
    release(a);
    gpu->unload(p);
    require(hd_ok() && hd_device_count(HD_DEVICE_METAL) == 1 && fake->leaked == 0);
    if (strcmp(how, "wait") == 0 || strcmp(how, "read") == 0)
        require(fake->objects == 2 + 1); /* device, queue, and the cached block: the rest is not under way */
}
static void a_lost_device_says_so_from_then_on(void **state) {
    (void)state;
    in_child(is_lost_in, "wait");
    in_child(is_lost_in, "read");
    in_child(is_lost_in, "time");
    in_child(is_lost_in, "many");
}

/* ---- many commands, many threads --------------------------------------------------------------------------------- */
static void many_commands(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    hd_block *a = block_of(0, 64), *b = block_of(0, 64);
    const float one = 1;
    require(fill(there(a, 0), &one, 4, 16) == HD_OK);
    for (int i = 0; i < 5000; ++i) {
        require(launch(0, f, a->address, b->address, (fake_arguments){.count = 16, .factor = 2}, NULL) == HD_OK);
        if (i % 3 == 0) require(copy(there(b, 0), there(a, 0), 32) == HD_OK);
    }
    require(fake->most == HD_METAL_BATCHES);
    require(fake->objects < 40 * HD_METAL_BATCHES);
    require(synchronize() == HD_OK && fake->under_way == 0);
    release(a);
    release(b);
    gpu->unload(p);
    nothing_is_left(1);
}
static void commands_do_not_pile_up(void **state) {
    (void)state;
    in_child(many_commands, NULL);
}

enum { THREADS = 8, TURNS = 30 };
static hd_gpu_function *shared_function;
static void *hammer(void *number) {
    enum { COUNT = 300 };
    const int t = (int)(intptr_t)number;
    float x[COUNT], y[COUNT];
    for (int turn = 0; turn < TURNS; ++turn) {
        const size_t at = (size_t)((turn + t) % 5) * 4;
        hd_block *a = block_of(0, sizeof x + 32), *b = block_of(0, sizeof y + 32);
        for (int i = 0; i < COUNT; ++i) x[i] = (float)(i + t);
        const fake_arguments args = {.count = COUNT - turn, .factor = (float)(t + 1)};
        require(copy(there(a, at), here(x), sizeof x) == HD_OK);
        require(fill(there(b, 0), &(float){-1}, 4, COUNT + 8) == HD_OK);
        require(launch(0, shared_function, there(a, at).pointer, there(b, at).pointer, args, NULL) == HD_OK);
        require(copy(there(a, 0), there(b, at), sizeof y) == HD_OK);
        require(copy(here(y), there(a, 0), sizeof y) == HD_OK);
        for (int i = 0; i < COUNT; ++i) require(y[i] == (i < args.count ? x[i] * args.factor : -1));
        if (turn % 20 == 7) {
            hd_gpu_program *p = program_on(0);
            int64_t took = 0;
            require(launch(0, gpu->function(p, "scale"), a->address, b->address, args, &took) == HD_OK && took == 234);
            gpu->unload(p);
        }
        release(a);
        release(b);
    }
    return NULL;
}
static void many_threads(const void *nothing) {
    (void)nothing;
    pthread_t threads[THREADS];
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    shared_function = gpu->function(p, "scale");
    for (int t = 0; t < THREADS; ++t) require(pthread_create(&threads[t], NULL, hammer, (void *)(intptr_t)t) == 0);
    for (int t = 0; t < THREADS; ++t) require(pthread_join(threads[t], NULL) == 0);
    gpu->unload(p);
    nothing_is_left(1);
}
static void many_threads_use_one_device(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    in_child(many_threads, NULL);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */
#define require_forked(call)                                                                                           \
    do {                                                                                                               \
        require((call) != HD_OK);                                                                                      \
        require_error(HD_ERROR_DEVICE, "Metal was opened before this process was forked");                             \
    } while (0)
static void forked(hd_gpu_program *p, hd_gpu_function *f, hd_block *a) {
    char byte = 1;
    void *object;
    size_t bytes;
    fake->is_closed = true; /* whoever calls it ends this process */
    require(hd_device_count(HD_DEVICE_METAL) == 0);
    require_forked(hd_device_describe(hd_metal()).name[0] == '\0' ? hd_error_code() : HD_OK);
    require_forked(mtl->allocate(hd_thread_self(), 0, 1) == NULL ? hd_error_code() : HD_OK);
    require_forked(copy(there(a, 0), here(&byte), 1));
    require_forked(copy(here(&byte), there(a, 0), 1));
    require_forked(fill(there(a, 0), &byte, 1, 1));
    require_forked(synchronize());
    require_forked(gpu->limits(0) == NULL ? hd_error_code() : HD_OK);
    require_forked(gpu->compile(0, "program", program_text, &object, &bytes));
    require_forked(gpu->load(0, program_text, sizeof program_text) == NULL ? hd_error_code() : HD_OK);
    require_forked(gpu->function(p, "scale") == NULL ? hd_error_code() : HD_OK);
    require_forked(launch(0, f, a->address, a->address, (fake_arguments){.count = 1}, NULL));
    release(a); /* which the parent still has */
    gpu->unload(p);
    require(hd_ok());
    exit(0); /* with all functions of atexit */
}
static void forks(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    hd_block *a = block_of(0, 100);
    float x = 3;
    require(copy(there(a, 0), here(&x), sizeof x) == HD_OK);
    require(fill(there(a, 8), "x", 1, 4) == HD_OK); /* something under way */
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) forked(p, f, a);
    int status = 0;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    require(launch(0, f, a->address, there(a, 4).pointer, (fake_arguments){.count = 1, .factor = 2}, NULL) == HD_OK);
    require(copy(here(&x), there(a, 4), sizeof x) == HD_OK && x == 6);
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void a_forked_child_gets_errors(void **state) {
    (void)state;
    in_child(forks, NULL);
}

static struct {
    hd_gpu_program *program;
    hd_block *block;
} kept;
/* Registered before Metal was opened, and so called after it ended. */
static void after_the_end(void) {
    require(fake->under_way == 0);
    fake->is_closed = true;
    require(hd_device_count(HD_DEVICE_METAL) == 0);
    require(mtl->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "the process is ending, and Metal with it");
    release(kept.block);
    gpu->unload(kept.program);
}
static void exits_in_flight(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    fake->must_finish = true;
    atexit(after_the_end);
    kept.program = program_on(0);
    kept.block = block_of(0, 64);
    hd_gpu_function *f = gpu->function(kept.program, "scale");
    void *address = kept.block->address;
    for (int i = 0; i < 100; ++i)
        require(launch(0, f, address, address, (fake_arguments){.count = 1, .factor = 1}, NULL) == HD_OK);
    require(fake->under_way > 0 && hd_metal_device_at(0)->commands > 0); /* and nothing is released */
}
static void *exits(void *nothing) {
    exits_in_flight(nothing);
    exit(0);
}
static void exits_in_a_thread(const void *nothing) {
    (void)nothing;
    pthread_t thread;
    require(pthread_create(&thread, NULL, exits, NULL) == 0);
    pthread_join(thread, NULL);
    _exit(2);
}
static void a_process_may_end_with_work_under_way(void **state) {
    (void)state;
    in_child(exits_in_flight, NULL);
    not_emulated(FORKED_THREADS);
    in_child(exits_in_a_thread, NULL);
}

static void two_devices(const void *nothing) {
    (void)nothing;
    enum { COUNT = 500 };
    float x[COUNT], y[COUNT];
    with_metal(FAKE_METAL, "2");
    require(hd_device_count(HD_DEVICE_METAL) == 2);
    hd_gpu_program *p[2];
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    hd_block *a = block_of(0, sizeof x + 4), *b = block_of(1, sizeof x + 8);
    for (int i = 0; i < 2; ++i) p[i] = program_on(i);
    require(copy(there(a, 4), here(x), sizeof x) == HD_OK);
    require(copy(there(b, 8), there(a, 4), sizeof x) == HD_OK);
    require(launch(1, gpu->function(p[1], "scale"), there(b, 8).pointer, there(b, 8).pointer,
                   (fake_arguments){.count = COUNT, .factor = 5}, NULL) == HD_OK);
    require(copy(there(a, 0), there(b, 8), sizeof x) == HD_OK);
    require(copy(here(y), there(a, 0), sizeof y) == HD_OK);
    for (int i = 0; i < COUNT; ++i) require(y[i] == 5 * x[i]);
    require(launch(0, gpu->function(p[1], "scale"), a->address, a->address, (fake_arguments){.count = 1}, NULL) !=
            HD_OK);
    require_error(HD_ERROR_INTERNAL, "the kernel scale is not loaded on metal:0");
    require(launch(0, gpu->function(p[0], "scale"), a->address, b->address, (fake_arguments){.count = 1}, NULL) !=
            HD_OK);
    require_error(HD_ERROR_INTERNAL, "there is no memory of metal:0 at ");
    release(a);
    release(b);
    for (int i = 0; i < 2; ++i) gpu->unload(p[i]);
    nothing_is_left(2);
}
static void devices_know_each_other_through_the_host(void **state) {
    (void)state;
    in_child(two_devices, NULL);
}

/* ---- the rest of the library ------------------------------------------------------------------------------------- */
/* Whatever needs no kernel; metal/eager has the others. */
static void tensors(const void *nothing) {
    (void)nothing;
    with_metal(FAKE_METAL, "1");
    require(hd_device_available(hd_metal()) && hd_device_missing(hd_metal()) == NULL);
    require(hd_compiler_missing(HD_COMPILER_HODU, hd_metal()) == NULL);
    {
        HD_SCOPE;
        hd_tensor *x = hd_arange(0, 100, 1, HD_F32), *away = hd_to(x, hd_metal());
        float got[100];
        require(hd_to_array(away, got, HD_F32, 100) && got[99] == 99);
        hd_set_device(hd_metal());
        hd_tensor *full = hd_full(HD_SHAPE(3, 5), HD_F32, 2.5);
        require(hd_to_array(full, got, HD_F32, 15) && got[14] == 2.5f);
        hd_full(HD_SHAPE(2), HD_F64, 1);
        require_error(HD_ERROR_DTYPE, "metal:0 has no f64; hd_cast the operands to f32");
        hd_set_device(hd_cpu());
    }
    nothing_is_left(1);
}
static void tensors_live_there(void **state) {
    (void)state;
    in_child(tensors, NULL);
}

RUN(test(a_missing_device_says_why), test(devices_are_listed), test(bytes_go_there_and_come_back),
    test(what_is_asked_later_comes_later), test(a_kernel_reads_and_writes), test(bad_programs_are_errors),
    test(any_call_may_fail), test(any_allocation_may_fail), test(memory_has_figures_and_limits),
    test(memory_that_runs_out_is_an_error), test(a_lost_device_says_so_from_then_on), test(commands_do_not_pile_up),
    test(many_threads_use_one_device), test(a_forked_child_gets_errors), test(a_process_may_end_with_work_under_way),
    test(devices_know_each_other_through_the_host), test(tensors_live_there))
