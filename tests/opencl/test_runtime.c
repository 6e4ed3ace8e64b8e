/* The memory and the programs of an OpenCL device, with whatever driver is here; PoCL (pocl-opencl-icd) runs on any
 * machine. What drivers do wrong is tested with a fake in test_faults.c. */
#include "support.h"
#include "in_a_child.h"
#include "gpu/memory.h"
#include "core/away.h"
#include "device/opencl/driver.h"
#include "device/opencl/opencl_device.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const hd_device_interface *const cl = &hd_opencl_interface;
static const hd_gpu_interface *const gpu = &hd_opencl_gpu;

static hd_address there(const hd_block *b, size_t offset) {
    return (hd_address){b->device, (char *)b->address + offset};
}
static hd_address here(const void *memory) { return (hd_address){hd_cpu(), (void *)(uintptr_t)memory}; }
static hd_block *block_of(int index, size_t bytes) {
    hd_block *b = cl->allocate(hd_thread_self(), index, bytes);
    if (b == NULL) fail_msg("%s", hd_error_message());
    return b;
}
static void release(hd_block *b) { hd_block_release(hd_thread_self(), b); }
static hd_error copy(hd_address to, hd_address from, size_t bytes) {
    return cl->copy(hd_thread_self(), to, from, bytes);
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */
static void a_device_describes_itself(void **state) {
    (void)state;
    const int count = hd_device_count(HD_DEVICE_OPENCL);
    for (int i = 0; i < count; ++i) {
        const hd_device_info info = hd_device_describe(hd_opencl(i));
        const hd_gpu_limits *l = gpu->limits(i);
        assert_true(strlen(info.name) > 0 && info.memory_bytes > 0 && info.units > 0);
        assert_non_null(l);
        assert_non_null(strstr(l->key, info.name));
        assert_true(l->group_most > 0 && l->subgroup > 0 && l->local_bytes > 0 && l->argument_bytes >= 256);
        assert_int_equal(l->processors, info.units);
        assert_int_equal(l->has_f64, info.has_f64);
        print_message(
            "opencl:%d: %s; %zu MB, %d units, groups of %u, %u in step, %u bytes shared, %u of arguments%s%s\n", i,
            info.name, info.memory_bytes >> 20, info.units, l->group_most, l->subgroup, l->local_bytes,
            l->argument_bytes, l->has_f64 ? ", f64" : "", l->has_atomic_64 ? ", atomics of 64 bits" : "");
        print_message("%s\n", l->key);
    }
    hd_device_describe(hd_opencl(count));
    assert_error(HD_ERROR_DEVICE, "is not here: there ");
    assert_null(gpu->limits(count));
    assert_error(HD_ERROR_DEVICE, "is not here: there ");
    assert_null(cl->allocate(hd_thread_self(), -1, 4));
    assert_error(HD_ERROR_DEVICE, "device opencl:-1 is not here");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void bytes_come_back(void) {
    static const size_t sizes[] = {1, 3, 64, 65, 1000, 4096, 4097, 100003, (size_t)1 << 20, (size_t)7 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        const size_t bytes = sizes[i];
        unsigned char *out = malloc(bytes), *in = calloc(1, bytes);
        for (size_t k = 0; k < bytes; ++k) out[k] = (unsigned char)(k * 7 + i);
        hd_block *a = block_of(0, bytes), *b = block_of(0, bytes);
        assert_true(a->capacity >= bytes && (uintptr_t)a->address >> 62 == 1 && a->address != b->address);
        assert_int_equal(copy(there(a, 0), here(out), bytes), HD_OK);
        assert_int_equal(copy(there(b, 0), there(a, 0), bytes), HD_OK);
        memset(out, 0xee, bytes); /* it has been read */
        assert_int_equal(copy(here(in), there(b, 0), bytes), HD_OK);
        for (size_t k = 0; k < bytes; ++k) assert_int_equal(in[k], (unsigned char)(k * 7 + i));
        release(a);
        release(b);
        free(out);
        free(in);
    }
    assert_ok();
}
static void bytes_go_there_and_come_back(void **state) {
    (void)state;
    bytes_come_back();
}
/* PoCL shares the host's memory, and would do without. */
static void bytes_go_through_pinned_memory(void **state) {
    (void)state;
    hd_opencl_device *d = hd_opencl_device_at(0);
    const bool shares = d->shares_memory;
    d->shares_memory = false;
    bytes_come_back();
    assert_int_equal(atomic_load(&d->stages), HD_OPENCL_STAGES_MADE);
    assert_int_equal(d->staging.count, HD_STAGES);
    d->shares_memory = shares;
}

static void addresses_may_lie_inside_of_blocks(void **state) {
    (void)state;
    unsigned char bytes[256], got[256], expected[256];
    hd_block *a = block_of(0, 256), *b = block_of(0, 300);
    for (int i = 0; i < 256; ++i) bytes[i] = expected[i] = (unsigned char)i;
    copy(there(a, 0), here(bytes), 256);
    copy(there(a, 13), here("hodu"), 4);
    memcpy(expected + 13, "hodu", 4);
    copy(there(b, 7), there(a, 5), 100);
    copy(here(got), there(b, 8), 99);
    assert_memory_equal(got, expected + 6, 99);
    copy(there(a, 31), there(a, 30), 200); /* ranges that overlap */
    memmove(expected + 31, expected + 30, 200);
    copy(there(a, 2), there(a, 40), 150);
    memmove(expected + 2, expected + 40, 150);
    copy(there(a, 5), there(a, 5), 150);
    copy(here(got), there(a, 0), 256);
    assert_memory_equal(got, expected, 256);
    assert_ok();
    release(a);
    release(b);
}

static void memory_is_filled(void **state) {
    (void)state;
    unsigned char got[64], expected[64];
    const uint64_t element = 0x8877665544332211u;
    hd_block *a = block_of(0, 64);
    for (size_t size = 1; size <= 8; size *= 2)
        for (size_t offset = 0; offset <= 8; ++offset) {
            memset(expected, 0, 64);
            cl->fill(hd_thread_self(), there(a, 0), expected, 8, 8);
            cl->fill(hd_thread_self(), there(a, offset), &element, size, 5);
            for (size_t i = 0; i < 5; ++i) memcpy(expected + offset + i * size, &element, size);
            copy(here(got), there(a, 0), 64);
            assert_memory_equal(got, expected, 64);
        }
    assert_ok();
    release(a);
}

static void nothing_is_fine(void **state) {
    (void)state;
    hd_block *a = block_of(0, 0);
    assert_true(a->capacity > 0);
    assert_int_equal(copy(there(a, 0), here(NULL), 0), HD_OK);
    assert_int_equal(copy(there(a, 0), there(a, 1), 0), HD_OK);
    assert_int_equal(cl->fill(hd_thread_self(), there(a, 0), NULL, 4, 0), HD_OK);
    assert_int_equal(cl->synchronize(hd_thread_self(), 0), HD_OK);
    release(a);
}

static void memory_is_given_out_again(void **state) {
    (void)state;
    hd_block *a = block_of(0, 5000);
    const void *address = a->address;
    release(a);
    a = block_of(0, 4900); /* of the same class */
    assert_ptr_equal(a->address, address);
    hd_block *b = block_of(0, 4900);
    assert_ptr_not_equal(b->address, address);
    release(a);
    release(b);
    hd_device_memory_trim(hd_opencl(0));
    const hd_memory_stats m = hd_device_memory(hd_opencl(0));
    assert_true(m.live_bytes == 0 && m.cached_bytes == 0 && m.peak_bytes > 0 && m.system_allocations > 1);
}

static void too_much_is_an_error_with_figures(void **state) {
    (void)state;
    const size_t all = hd_device_describe(hd_opencl(0)).memory_bytes;
    const size_t sizes[] = {all + 1, 2 * all, (size_t)1 << 46, (size_t)1 << 62, SIZE_MAX};
    char total[64];
    snprintf(total, sizeof total, "of its %zu bytes 4096 are in use here and ", all);
    hd_block *a = block_of(0, 4096);
    for (int i = 0; i < 5; ++i) {
        char asked[64];
        snprintf(asked, sizeof asked, "opencl:0 has no memory for %zu bytes", sizes[i]);
        assert_null(cl->allocate(hd_thread_self(), 0, sizes[i]));
        assert_non_null(strstr(hd_error_message(), asked));
        assert_non_null(strstr(hd_error_message(), "release tensors, end scopes sooner, or use smaller batches"));
        assert_error(HD_ERROR_MEMORY, total);
    }
    release(a);
    a = block_of(0, 1 << 20); /* and goes on */
    release(a);
}

/* More than there is, in blocks that each could be: the last one makes room first, then it is an error. */
static void all_of_the_memory_is_an_error_too(void **state) {
    (void)state;
    const hd_opencl_device *d = hd_opencl_device_at(0);
    const size_t each = d->heap.block_most;
    hd_block *blocks[64];
    int count = 0;
    release(block_of(0, 1 << 16)); /* something cached */
    assert_true(d->heap.cached_bytes > 0);
    if (d->heap.memory_bytes / each >= 64) skip();
    while (count < 64 && (blocks[count] = cl->allocate(hd_thread_self(), 0, each)) != NULL) count++;
    assert_true(count < 64);
    assert_int_equal(d->heap.cached_bytes, 0);
    assert_error(HD_ERROR_MEMORY, "opencl:0 has no memory for ");
    while (count > 0) release(blocks[--count]);
    assert_int_equal(d->heap.used_bytes, 0);
    hd_heap_trim(&hd_opencl_device_at(0)->heap);
}

static void addresses_of_nothing_are_errors(void **state) {
    (void)state;
    char bytes[128];
    hd_block *a = block_of(0, 64);
    assert_int_not_equal(copy(here(bytes), there(a, 60), 5), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "5 bytes from 60 on are not inside of a block of 64 bytes of opencl:0");
    assert_int_not_equal(copy(there(a, 65), here(bytes), 1), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "not inside of a block");
    assert_int_not_equal(copy((hd_address){hd_opencl(0), bytes}, here(bytes), 1), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "there is no memory of opencl:0 at ");
    const hd_address gone = there(a, 0);
    release(a);
    assert_int_not_equal(copy(gone, here(bytes), 1), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "there is no memory of opencl:0 at ");
    assert_int_not_equal(cl->fill(hd_thread_self(), gone, bytes, 1, 1), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "there is no memory of opencl:0 at ");
}

/* The rest of the library works with such memory. */
static void tensors_live_there(void **state) {
    (void)state;
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    hd_tensor *x = hd_arange(0, 100, 1, HD_F32), *away = hd_tensor_moved(thread, x, hd_opencl(0));
    assert_non_null(away);
    assert_same(away, x); /* read here */
    hd_storage_fill(thread, away->storage, &(float){3}, 4);
    hd_tensor *back = hd_tensor_moved(thread, away, hd_cpu());
    assert_same(back, hd_full(HD_SHAPE(100), HD_F32, 3));
    hd_tensor_drop(thread, away);
    hd_tensor_drop(thread, back);
}

/* Looking up addresses costs next to nothing, however many blocks there are. */
static void addresses_are_found_quickly(void **state) {
    (void)state;
    enum { BLOCKS = 100, LOOKUPS = 100000 };
    hd_block *blocks[BLOCKS];
    hd_opencl_device *d = hd_opencl_device_at(0);
    for (int i = 0; i < BLOCKS; ++i) blocks[i] = block_of(0, (size_t)64 << (i % 8));
    hd_cl_memory *object = NULL;
    size_t offset = 0;
    const int64_t begin = hd_os_nanoseconds();
    for (int i = 0; i < LOOKUPS; ++i)
        assert_int_equal(hd_opencl_find(d, (char *)blocks[i * 7 % BLOCKS]->address + 5, 3, &object, &offset), HD_OK);
    const double each = (double)(hd_os_nanoseconds() - begin) / LOOKUPS;
    assert_true(offset == 5);
    print_message("an address is found in %.1f ns, with the test around it\n", each);
    for (int i = 0; i < BLOCKS; ++i) release(blocks[i]);
    hd_heap_trim(&d->heap);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
typedef struct arguments {
    int64_t x, y; /* filled in */
    int32_t count, turns;
    float factor, unused;
} arguments;
static const char program_text[] =
    "typedef struct { long x, y; int count, turns; float factor, unused; } arguments;\n"
    "kernel void scale(global char *xs, global char *ys, const arguments a) {\n"
    "    global const float *x = (global const float *)(xs + a.x);\n"
    "    global float *y = (global float *)(ys + a.y);\n"
    "    const int i = get_global_id(0);\n"
    "    if (i < a.count) y[i] = x[i] * a.factor;\n"
    "}\n"
    "kernel void slow(global char *xs, global char *ys, const arguments a) {\n"
    "    volatile global float *y = (volatile global float *)(ys + a.y);\n"
    "    for (int t = 0; t < a.turns; ++t) y[0] = y[0] + 1.0f;\n"
    "}\n"
    "kernel void nothing(const int n) {}\n"
    "kernel void position(global char *xs, const arguments a) {\n"
    "    global int *x = (global int *)(xs + a.x);\n"
    "    const int w = get_global_size(0), h = get_global_size(1);\n"
    "    x[get_global_id(0) + w * (get_global_id(1) + h * get_global_id(2))] = \n"
    "        get_local_id(0) + 10 * get_local_id(1) + 100 * get_local_id(2) + 1000 * get_group_id(0) +\n"
    "        10000 * get_group_id(1) + 100000 * get_group_id(2);\n"
    "}\n";

static hd_gpu_program *program_on(int index) {
    void *object;
    size_t bytes;
    if (gpu->compile(index, "program", program_text, &object, &bytes) != HD_OK) fail_msg("%s", hd_error_message());
    hd_gpu_program *p = gpu->load(index, object, bytes);
    hd_array_release(object);
    if (p == NULL) fail_msg("%s", hd_error_message());
    return p;
}
static hd_error launch_scale(int index, hd_gpu_function *f, void *x, void *y, arguments a, int64_t *nanoseconds) {
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

static void a_kernel_reads_and_writes(void **state) {
    (void)state;
    enum { COUNT = 1000, X = 12, Y = 44 };
    float x[COUNT], y[COUNT];
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    assert_non_null(f);
    assert_ptr_equal(gpu->function(p, "scale"), f);
    hd_block *a = block_of(0, sizeof x + X), *b = block_of(0, sizeof y + Y);
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    copy(there(a, X), here(x), sizeof x);
    int64_t nanoseconds = -1;
    assert_int_equal(launch_scale(0, f, there(a, X).pointer, there(b, Y).pointer,
                                  (arguments){.count = COUNT, .factor = 3}, &nanoseconds),
                     HD_OK);
    assert_true(nanoseconds > 0);
    copy(here(y), there(b, Y), sizeof y);
    for (int i = 0; i < COUNT; ++i) assert_true(y[i] == 3 * x[i]);
    arguments kept = {.x = -1, .y = -1, .count = 10, .factor = 2}; /* the caller's own are filled in */
    gpu->launch(0, &(hd_gpu_launch){f,
                                    {1, 1, 1},
                                    {64, 1, 1},
                                    (void *[]){there(b, Y).pointer, there(b, Y + 4).pointer},
                                    2,
                                    &kept,
                                    sizeof kept,
                                    NULL,
                                    NULL});
    assert_true(kept.x == Y && kept.y == Y + 4);
    release(a); /* and given out again, while it is read */
    release(b);
    gpu->unload(p); /* while it runs */
    assert_int_equal(cl->synchronize(hd_thread_self(), 0), HD_OK);
    assert_ok();
}

static void launches_have_three_dimensions(void **state) {
    (void)state;
    int32_t got[6 * 4 * 4];
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "position");
    hd_block *a = block_of(0, sizeof got + 4);
    hd_gpu_launch l = {.function = f,
                       .groups = {3, 2, 1},
                       .threads = {2, 2, 4},
                       .buffers = (void *[]){there(a, 4).pointer},
                       .buffer_count = 1,
                       .arguments = &(arguments){.count = 1},
                       .argument_bytes = sizeof(arguments)};
    assert_int_equal(gpu->launch(0, &l), HD_OK);
    copy(here(got), there(a, 4), sizeof got);
    for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 4; ++j)
            for (int i = 0; i < 6; ++i)
                assert_int_equal(got[i + 6 * (j + 4 * k)],
                                 i % 2 + 10 * (j % 2) + 100 * k + 1000 * (i / 2) + 10000 * (j / 2));
    l.groups[1] = 0; /* nothing to do */
    assert_int_equal(gpu->launch(0, &l), HD_OK);
    release(a);
    gpu->unload(p);
}

static void wrong_launches_are_errors(void **state) {
    (void)state;
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    assert_null(gpu->function(p, "no_such_kernel"));
    assert_error(HD_ERROR_DEVICE, "opencl:0: clCreateKernel gives CL_INVALID_KERNEL_NAME; the program has no kernel");
    hd_block *a = block_of(0, 64);
    void *buffers[] = {a->address, a->address};
    arguments given = {.count = 1};
    hd_gpu_launch l = {f, {1, 1, 1}, {1u << 20, 1, 1}, buffers, 2, &given, sizeof given, NULL, NULL};
    assert_int_not_equal(gpu->launch(0, &l), HD_OK);
    assert_error(HD_ERROR_DEVICE, "the kernel scale takes groups of 1 to ");
    l.threads[0] = 0;
    assert_int_not_equal(gpu->launch(0, &l), HD_OK);
    assert_error(HD_ERROR_DEVICE, "threads on opencl:0, not of 0");
    l.threads[0] = 1;
    l.argument_bytes = 8;
    assert_int_not_equal(gpu->launch(0, &l), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "the kernel scale has 2 buffers, and no room for their offsets");
    l.argument_bytes = sizeof given;
    l.buffers = (void *[]){a->address, buffers};
    assert_int_not_equal(gpu->launch(0, &l), HD_OK);
    assert_error(HD_ERROR_INTERNAL, "there is no memory of opencl:0 at ");
    l.buffers = buffers;
    assert_int_equal(gpu->launch(0, &l), HD_OK); /* none of that did any harm */
    release(a);
    gpu->unload(p);
}

/* Where a message says the text is; "" when it does not. */
static void path_in(const char *message, char *out, size_t capacity) {
    const char *at = strstr(message, "whose text is in ");
    snprintf(out, capacity, "%s", at == NULL ? "" : at + strlen("whose text is in "));
    out[strcspn(out, ":")] = '\0';
}

static void text_that_does_not_compile_is_saved(void **state) {
    (void)state;
    static const char text[] = "kernel void broken(global float *x) { x[0] = no_such_thing; }\n";
    void *object = &object;
    size_t bytes = 7;
    char path[512], got[sizeof text + 1] = "";
    assert_int_not_equal(gpu->compile(0, "a/broken \"one\"", text, &object, &bytes), HD_OK);
    assert_true(object == NULL && bytes == 0);
    path_in(hd_error_message(), path, sizeof path);
    assert_non_null(strstr(path, "a_broken__one_.cl"));
    assert_non_null(strstr(hd_error_message(), "error")); /* of the compiler's */
    assert_error(HD_ERROR_DEVICE, "opencl:0 does not compile a/broken");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), strlen(text));
    fclose(file);
    assert_string_equal(got, text);
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
}

static void broken_objects_are_errors(void **state) {
    (void)state;
    void *object;
    size_t bytes;
    assert_int_equal(gpu->compile(0, "program", program_text, &object, &bytes), HD_OK);
    print_message("an object has %zu bytes\n", bytes);
    char *broken = malloc(bytes);
    memcpy(broken, object, bytes);
    broken[bytes / 2] ^= 4;
    assert_null(gpu->load(0, broken, bytes));
    assert_error(HD_ERROR_DEVICE, "is no whole program of OpenCL's; compile it anew");
    assert_null(gpu->load(0, object, bytes - 1));
    assert_error(HD_ERROR_DEVICE, "is no whole program");
    assert_null(gpu->load(0, "none", 4));
    assert_error(HD_ERROR_DEVICE, "an object of 4 bytes is no whole program");
    assert_null(gpu->load(0, object, 0));
    assert_error(HD_ERROR_DEVICE, "an object of 0 bytes is no whole program");
    free(broken);
    hd_array_release(object);
}

/* ---- many threads, many launches --------------------------------------------------------------------------------- */
enum { THREADS = 8, TURNS = 30 };
static hd_gpu_function *shared_function;

static void *hammer(void *number) {
    enum { COUNT = 300 };
    const int t = (int)(intptr_t)number;
    hd_thread *thread = hd_thread_self();
    float x[COUNT], y[COUNT];
    for (int turn = 0; turn < TURNS; ++turn) {
        const size_t at = (size_t)((turn + t) % 5) * 4;
        hd_block *a = cl->allocate(thread, 0, sizeof x + 32), *b = cl->allocate(thread, 0, sizeof y + 32);
        if (a == NULL || b == NULL) return "no memory";
        for (int i = 0; i < COUNT; ++i) x[i] = (float)(i + t);
        copy(there(a, at), here(x), sizeof x);
        cl->fill(thread, there(b, 0), &(float){-1}, 4, COUNT + 8);
        const arguments args = {.count = COUNT - turn, .factor = (float)(t + 1)};
        launch_scale(0, shared_function, there(a, at).pointer, there(b, at).pointer, args, NULL);
        copy(there(a, 0), there(b, at), sizeof y);
        copy(here(y), there(a, 0), sizeof y);
        for (int i = 0; i < COUNT; ++i)
            if (y[i] != (i < args.count ? x[i] * args.factor : -1)) return "a wrong value";
        if (turn % 20 == 7) {
            void *object;
            size_t bytes;
            if (gpu->compile(0, "program", program_text, &object, &bytes) != HD_OK) return "no object";
            hd_gpu_program *p = gpu->load(0, object, bytes);
            hd_array_release(object);
            if (p == NULL || gpu->function(p, "scale") == NULL) return "no program";
            launch_scale(0, gpu->function(p, "scale"), a->address, b->address, args, NULL);
            gpu->unload(p);
        }
        release(a);
        release(b);
        if (!hd_ok()) return "an error";
    }
    return NULL;
}

static void many_threads_use_one_device(void **state) {
    (void)state;
    pthread_t threads[THREADS], other;
    hd_device device = hd_opencl(0);
    hd_gpu_program *p = program_on(0);
    assert_int_equal(pthread_create(&other, NULL, changes_memory, &device), 0);
    shared_function = gpu->function(p, "scale");
    for (int t = 0; t < THREADS; ++t)
        assert_int_equal(pthread_create(&threads[t], NULL, hammer, (void *)(intptr_t)t), 0);
    for (int t = 0; t < THREADS; ++t) {
        void *why = NULL;
        assert_int_equal(pthread_join(threads[t], &why), 0);
        if (why != NULL) fail_msg("%s", (const char *)why);
    }
    atomic_store(&memory_is_left_alone, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    gpu->unload(p);
    hd_heap_trim(&hd_opencl_device_at(0)->heap);
    assert_int_equal(hd_opencl_device_at(0)->heap.used_bytes, 0);
}

/* Large copies of several threads at once, each through the same stages. */
static void *copies_much(void *number) {
    enum { BYTES = (3 << 20) + 5 };
    const unsigned char mark = (unsigned char)(intptr_t)number;
    unsigned char *bytes = malloc(BYTES);
    hd_block *a = cl->allocate(hd_thread_self(), 0, BYTES);
    const char *why = a == NULL || bytes == NULL ? "no memory" : NULL;
    for (int turn = 0; turn < 8 && why == NULL; ++turn) {
        for (size_t i = 0; i < BYTES; ++i) bytes[i] = (unsigned char)(i * 3 + (i >> 20) + mark);
        if (copy(there(a, 0), here(bytes), BYTES) != HD_OK) why = "an error";
        memset(bytes, 0, BYTES);
        if (copy(here(bytes), there(a, 0), BYTES) != HD_OK) why = "an error";
        for (size_t i = 0; i < BYTES && why == NULL; ++i)
            if (bytes[i] != (unsigned char)(i * 3 + (i >> 20) + mark)) why = "a wrong byte";
    }
    if (a != NULL) release(a);
    free(bytes);
    return (void *)(uintptr_t)why;
}
static void many_threads_copy_through_pinned_memory(void **state) {
    (void)state;
    pthread_t threads[4];
    hd_opencl_device *d = hd_opencl_device_at(0);
    const bool shares = d->shares_memory;
    d->shares_memory = false;
    for (int t = 0; t < 4; ++t)
        assert_int_equal(pthread_create(&threads[t], NULL, copies_much, (void *)(intptr_t)(t * 50)), 0);
    for (int t = 0; t < 4; ++t) {
        void *why = NULL;
        assert_int_equal(pthread_join(threads[t], &why), 0);
        if (why != NULL) fail_msg("%s", (const char *)why);
    }
    d->shares_memory = shares;
}

static size_t resident_bytes(void) {
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) return 0;
    if (fscanf(file, "%ld %ld", &ignored, &pages) != 2) pages = 0;
    fclose(file);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void launches_take_no_memory(void **state) {
    (void)state;
    enum { LAUNCHES = 10000 };
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    hd_block *a = block_of(0, 1024), *b = block_of(0, 1024);
    cl->fill(hd_thread_self(), there(a, 0), &(float){1}, 4, 256);
    size_t before = 0;
    int64_t begin = 0;
    for (int round = 0; round < 2; ++round) { /* the first brings what stays */
        before = resident_bytes();
        begin = hd_os_nanoseconds();
        for (int i = 0; i < LAUNCHES; ++i)
            assert_int_equal(launch_scale(0, f, a->address, b->address, (arguments){.count = 256, .factor = 2}, NULL),
                             HD_OK);
        assert_int_equal(cl->synchronize(hd_thread_self(), 0), HD_OK);
    }
    const double each = (double)(hd_os_nanoseconds() - begin) / LAUNCHES / 1000;
    const size_t after = resident_bytes();
    print_message("%d launches took %.2f us each, and %lld KB\n", LAUNCHES, each,
                  ((long long)after - (long long)before) / 1024);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which keep what was freed */
    assert_true(after < before + (1 << 20));
#endif
    release(a);
    release(b);
    gpu->unload(p);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */
#define require_forked(call)                                                                                           \
    do {                                                                                                               \
        require((call) != HD_OK && hd_error_code() == HD_ERROR_DEVICE);                                                \
        require(strstr(hd_error_message(), "OpenCL was opened before this process was forked") != NULL);               \
        hd_error_clear();                                                                                              \
    } while (0)

static void in_forked_child(hd_gpu_program *p, hd_gpu_function *f, hd_block *a) {
    hd_thread *thread = hd_thread_self();
    char byte = 1;
    void *object;
    size_t bytes;
    require(hd_device_count(HD_DEVICE_OPENCL) == 0);
    hd_memory_trim(); /* which leaves the parent's memory alone */
    require_forked((hd_device_memory_trim(hd_opencl(0)), hd_error_code()));
    require_forked(hd_device_describe(hd_opencl(0)).name[0] == '\0' ? hd_error_code() : HD_OK);
    require_forked(cl->allocate(thread, 0, 1) == NULL ? hd_error_code() : HD_OK);
    require_forked(copy(there(a, 0), here(&byte), 1));
    require_forked(copy(here(&byte), there(a, 0), 1));
    require_forked(cl->fill(thread, there(a, 0), &byte, 1, 1));
    require_forked(cl->synchronize(thread, 0));
    require_forked(gpu->limits(0) == NULL ? hd_error_code() : HD_OK);
    require_forked(gpu->compile(0, "program", program_text, &object, &bytes));
    require_forked(gpu->load(0, program_text, sizeof program_text) == NULL ? hd_error_code() : HD_OK);
    require_forked(gpu->function(p, "scale") == NULL ? hd_error_code() : HD_OK);
    require_forked(launch_scale(0, f, a->address, a->address, (arguments){.count = 1}, NULL));
    release(a); /* which the parent still has */
    gpu->unload(p);
    require(hd_ok());
    exit(0); /* with all functions of atexit */
}

static void wait_for_child(pid_t child) {
    int status = 0;
    assert_true(child >= 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child ended with %#x", (unsigned)status);
}

static void a_forked_child_gets_errors(void **state) {
    (void)state;
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *f = gpu->function(p, "scale");
    hd_block *a = block_of(0, 100);
    float x = 3;
    copy(there(a, 0), here(&x), sizeof x);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) in_forked_child(p, f, a);
    wait_for_child(child);
    launch_scale(0, f, a->address, there(a, 4).pointer, (arguments){.count = 1, .factor = 2}, NULL);
    copy(here(&x), there(a, 4), sizeof x);
    assert_true(x == 6);
    release(a);
    gpu->unload(p);
}

static char *own_path;
static void run_story(const char *story, const char *variable, const char *value) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (variable != NULL) setenv(variable, value, 1);
        execl(own_path, own_path, story, (char *)NULL);
        _exit(127);
    }
    wait_for_child(child);
}

static struct {
    hd_gpu_program *program;
    hd_block *block;
} kept;
static int exit_in_flight(void) {
    enum { BYTES = 3 << 20 };
    static char bytes[BYTES];
    hd_opencl_device_at(0)->shares_memory = false;
    kept.program = program_on(0);
    kept.block = block_of(0, 64);
    hd_gpu_function *f = gpu->function(kept.program, "slow");
    void *address = kept.block->address;
    for (int i = 0; i < 20; ++i)
        require(launch_scale(0, f, address, address, (arguments){.count = 1, .turns = 20000}, NULL) == HD_OK);
    hd_block *large = block_of(0, BYTES);
    require(copy(there(large, 0), here(bytes), BYTES) == HD_OK); /* through pinned memory, behind all of these */
    return 0; /* main does, with all of it under way, and nothing released */
}
/* Registered before OpenCL was opened, and so called after it ended. */
static void after_the_end(void) {
    require(hd_device_count(HD_DEVICE_OPENCL) == 0);
    require(cl->allocate(hd_thread_self(), 0, 4) == NULL);
    require(strstr(hd_error_message(), "the process is ending, and OpenCL with it") != NULL);
    release(kept.block);
    gpu->unload(kept.program);
}
static void *exits(void *nothing) {
    (void)nothing;
    exit(exit_in_flight());
}
static int exit_of_a_thread(void) {
    pthread_t thread;
    require(pthread_create(&thread, NULL, exits, NULL) == 0);
    pthread_join(thread, NULL);
    return 1;
}

static int two_devices(void) {
    enum { COUNT = 500 };
    float x[COUNT], y[COUNT];
    require(hd_device_count(HD_DEVICE_OPENCL) == 2);
    hd_gpu_program *p[2];
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    hd_block *a = block_of(0, sizeof x + 4), *b = block_of(1, sizeof x + 8);
    for (int i = 0; i < 2; ++i) p[i] = program_on(i);
    require(copy(there(a, 4), here(x), sizeof x) == HD_OK);
    require(copy(there(b, 8), there(a, 4), sizeof x) == HD_OK);
    launch_scale(1, gpu->function(p[1], "scale"), there(b, 8).pointer, there(b, 8).pointer,
                 (arguments){.count = COUNT, .factor = 5}, NULL);
    require(copy(there(a, 0), there(b, 8), sizeof x) == HD_OK);
    require(copy(here(y), there(a, 0), sizeof y) == HD_OK);
    for (int i = 0; i < COUNT; ++i) require(y[i] == 5 * x[i]);
    require(launch_scale(0, gpu->function(p[1], "scale"), a->address, a->address, (arguments){.count = 1}, NULL) !=
            HD_OK);
    require(strstr(hd_error_message(), "the kernel scale is not loaded on opencl:0") != NULL);
    hd_error_clear();
    require(launch_scale(0, gpu->function(p[0], "scale"), a->address, b->address, (arguments){.count = 1}, NULL) !=
            HD_OK);
    require(strstr(hd_error_message(), "there is no memory of opencl:0 at ") != NULL);
    hd_error_clear();
    release(a);
    release(b);
    for (int i = 0; i < 2; ++i) gpu->unload(p[i]);
    require(hd_ok());
    return 0;
}

static int nowhere_to_save(void) {
    void *object;
    size_t bytes;
    require(gpu->compile(0, "broken", "kernel void broken( {", &object, &bytes) != HD_OK);
    require(strstr(hd_error_message(), "whose text is in no file (No such file or directory; set TMPDIR): ") != NULL);
    return 0;
}
static void text_that_cannot_be_saved_is_an_error_all_the_same(void **state) {
    (void)state;
    run_story("nowhere-to-save", "TMPDIR", "/nowhere");
}

static void a_process_may_end_with_work_under_way(void **state) {
    (void)state;
    run_story("exit", NULL, NULL);
    run_story("exit-of-a-thread", NULL, NULL);
}

static void devices_know_each_other_through_the_host(void **state) {
    (void)state;
    if (strstr(gpu->limits(0)->key, "Portable Computing Language") == NULL) skip();
    run_story("two-devices", "POCL_DEVICES", "pthread basic");
}

int main(int argc, char **argv) {
    const char *story = argc > 1 ? argv[1] : "";
    own_path = argv[0];
    if (strncmp(story, "exit", 4) == 0) atexit(after_the_end);
    if (strcmp(story, "exit") == 0) return exit_in_flight();
    if (strcmp(story, "exit-of-a-thread") == 0) return exit_of_a_thread();
    if (strcmp(story, "two-devices") == 0) return two_devices();
    if (strcmp(story, "nowhere-to-save") == 0) return nowhere_to_save();
    if (hd_device_count(HD_DEVICE_OPENCL) == 0) {
        print_message("skipped: %s\n", hd_opencl_missing());
        return 77;
    }
    const struct CMUnitTest tests[] = {test(a_device_describes_itself),

                                       test(bytes_go_there_and_come_back),
                                       test(bytes_go_through_pinned_memory),
                                       test(addresses_may_lie_inside_of_blocks),
                                       test(memory_is_filled),
                                       test(nothing_is_fine),
                                       test(memory_is_given_out_again),
                                       test(too_much_is_an_error_with_figures),
                                       test(all_of_the_memory_is_an_error_too),
                                       test(addresses_of_nothing_are_errors),
                                       test(tensors_live_there),
                                       test(addresses_are_found_quickly),
                                       test(a_kernel_reads_and_writes),
                                       test(launches_have_three_dimensions),
                                       test(wrong_launches_are_errors),
                                       test(text_that_does_not_compile_is_saved),
                                       test(text_that_cannot_be_saved_is_an_error_all_the_same),
                                       test(broken_objects_are_errors),
                                       test(many_threads_use_one_device),
                                       test(many_threads_copy_through_pinned_memory),
                                       test(launches_take_no_memory),
                                       test(a_forked_child_gets_errors),
                                       test(a_process_may_end_with_work_under_way),
                                       test(devices_know_each_other_through_the_host)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
