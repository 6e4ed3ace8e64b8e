#include "device/device.h"
#include "core/away.h"
#include "machine/machines.h"
#include "ops/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2 };
static _Atomic int64_t fail_after = -1, asked;
static _Atomic size_t limit, used;
static _Atomic bool lost;

void test_device_fail_after(int64_t n) {
    atomic_store(&asked, 0);
    atomic_store(&fail_after, n);
}
int64_t test_device_asked(void) { return atomic_load(&asked); }
void test_device_limit(size_t bytes) { atomic_store(&limit, bytes); }
void test_device_lose(bool is_lost) { atomic_store(&lost, is_lost); }
size_t test_device_bytes(void) { return atomic_load(&used); }

static hd_error ask(const char *what) {
    const int64_t number = atomic_fetch_add(&asked, 1), after = atomic_load(&fail_after);
    if (atomic_load(&lost)) return hd_fail(HD_ERROR_DEVICE, "the test device is lost: %s", what);
    return after >= 0 && number >= after ? hd_fail(HD_ERROR_DEVICE, "the test device was told to fail: %s", what)
                                         : HD_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static const uintptr_t unmapped = (uintptr_t)1 << 62;
static void *hidden(void *memory) { return (void *)((uintptr_t)memory ^ unmapped); }
static void *real(hd_address a) {
    return hd_device_is_away(a.device) ? (void *)((uintptr_t)a.pointer ^ unmapped) : a.pointer;
}

static hd_block *allocate(hd_thread *thread, int index, size_t bytes) {
    if (ask("memory") != HD_OK) return NULL;
    if (atomic_load(&limit) > 0 && atomic_load(&used) + bytes > atomic_load(&limit)) {
        hd_fail(HD_ERROR_MEMORY, "test:%d has no memory for %zu bytes", index, bytes);
        return NULL;
    }
    void *memory = malloc(bytes);
    if (memory == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes of test:%d", bytes, index);
        return NULL;
    }
    memset(memory, 0xa5, bytes); /* nobody may count on zeros */
    hd_block *block = hd_block_away(thread, test_device(index), hidden(memory), bytes, NULL);
    if (block == NULL)
        free(memory);
    else
        atomic_fetch_add(&used, bytes);
    return block;
}

static void recycle(hd_thread *thread, hd_block *block) {
    (void)thread;
    atomic_fetch_sub(&used, block->capacity);
    free(real((hd_address){block->device, block->address}));
    hd_block_away_release(block);
}

static hd_error copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes) {
    (void)thread;
    HD_TRY(ask("a copy"));
    memcpy(real(to), real(from), bytes);
    return HD_OK;
}

static hd_error fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count) {
    (void)thread;
    HD_TRY(ask("a fill"));
    for (size_t i = 0; i < count; ++i) memcpy((char *)real(to) + i * size, element, size);
    return HD_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
typedef struct test_executor {
    hd_executor executor;
    int index;
} test_executor;

static hd_error run(hd_executor *self, hd_thread *thread, hd_call *call) {
    HD_TRY(ask(call->op->name));
    return hd_run_by_copy(thread, call, test_device(((test_executor *)self)->index));
}
static hd_error write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    HD_TRY(ask("a write"));
    return hd_write_by_copy(thread, dst, src);
}

static test_executor executors[DEVICES] = {{{.name = "test", .run = run, .write = write}, 0},
                                           {{.name = "test", .run = run, .write = write}, 1}};
static int count(void) { return DEVICES; }
static hd_executor *executor(int index) { return &executors[index].executor; }
static hd_error synchronize(hd_thread *thread, int index) {
    (void)thread, (void)index;
    return ask("to wait");
}
static bool supports(const hd_op *op, hd_dtype dtype) { return hd_op_takes(op, dtype); }
static void peak(int index, double *gflops, double *gbytes) {
    (void)index;
    *gflops = *gbytes = 1;
}

static void describe(int index, hd_device_info *out) {
    *out = (hd_device_info){.memory_bytes = atomic_load(&limit), .units = index + 1, .has_f64 = true};
    snprintf(out->name, sizeof out->name, "the test device %d", index);
}

static const hd_machine *the_cpus(int index) {
    (void)index;
    return hd_cpu_machine();
}

static const hd_device_interface interface = {.name = "test",
                                              .count = count,
                                              .executor = executor,
                                              .synchronize = synchronize,
                                              .supports = supports,
                                              .peak = peak,
                                              .allocate = allocate,
                                              .recycle = recycle,
                                              .copy = copy,
                                              .fill = fill,
                                              .describe = describe};

__attribute__((constructor)) static void add_device(void) {
    hd_device_register(HD_DEVICE_TEST, &interface);
    hd_machine_register(HD_DEVICE_TEST, the_cpus); /* which reads and writes copies here, as every home allows */
}
