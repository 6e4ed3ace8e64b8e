/* What goes wrong in a driver of OpenCL's is an error of ours, leaves nothing behind and ends nothing. The driver is a
 * fake; each case is a process of its own, as a driver is opened once. */
#include "support.h"
#include "in_a_child.h"
#include "device/opencl/driver.h"
#include "device/opencl/opencl_device.h"
#include "gpu/memory.h"
#include "opencl/fake_opencl.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static const hd_device_interface *const cl = &hd_opencl_interface;
static const hd_gpu_interface *const gpu = &hd_opencl_gpu;
static fake_opencl *fake;

/* A library is found by its name when one of that name is open already. */
static void *with_driver(const char *path, const char *wish) {
    setenv("FAKE_OPENCL", wish, 1);
    void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    require(driver != NULL);
    fake = dlsym(driver, "fake_opencl_now");
    return driver;
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

/* ---- no device --------------------------------------------------------------------------------------------------- */
static void none_because(const char *reason) {
    require(hd_device_count(HD_DEVICE_OPENCL) == 0);
    hd_device_describe(hd_opencl(0));
    require_text(hd_error_message(), "hd_device_describe: device opencl:0 is not here: ");
    require_error(HD_ERROR_DEVICE, reason);
    require(cl->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    require(gpu->limits(0) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
}
static void something_else(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL_EMPTY, "1 1");
    none_because("the OpenCL that is here has no clGetPlatformIDs: it is older than OpenCL 1.2, or something else");
}
static void no_platform(const void *wish) {
    with_driver(FAKE_OPENCL, wish);
    none_because("OpenCL is here, but has no platform; install the driver of a GPU, or pocl-opencl-icd");
}
static void broken(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "broken");
    none_because("OpenCL is here, but does not start (clGetPlatformIDs gives CL_OUT_OF_HOST_MEMORY)");
}
static void no_device(const void *wish) {
    with_driver(FAKE_OPENCL, wish);
    none_because("OpenCL's platforms are here, but have no device of OpenCL 1.2 or later");
}
static void no_list(const void *function) {
    with_driver(FAKE_OPENCL, "1 1");
    fake->fail_in = function;
    fake->times = 1000;
    fake->status = HD_CL_OUT_OF_RESOURCES;
    none_because("OpenCL's platform fake does not list its devices (");
}
static void a_missing_device_says_why(void **state) {
    (void)state;
    in_child(something_else, NULL);
    in_child(no_platform, "none");
    in_child(no_platform, "0 0");
    in_child(broken, NULL);
    in_child(no_device, "2 0");
    in_child(no_device, "old");
    in_child(no_list, "clGetDeviceIDs");
}

static void many(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "3 2");
    require(hd_device_count(HD_DEVICE_OPENCL) == 6);
    const hd_device_info info = hd_device_describe(hd_opencl(5));
    require(strcmp(info.name, "fake device 5") == 0 && info.units == 7 && !info.has_f64);
    const hd_gpu_limits *l = gpu->limits(5);
    require(strcmp(l->key, "opencl, fake, OpenCL 1.2 fake, fake device 5, OpenCL 1.2 fake, 1") == 0);
    require(l->subgroup == 32 && !l->has_atomic_64 && l->group_most == 256 && l->local_bytes == 32768);
    require(cl->allocate(hd_thread_self(), 6, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "device opencl:6 is not here: there are opencl:0 to opencl:5");
}
static void too_many(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "40 40");
    require(hd_device_count(HD_DEVICE_OPENCL) == HD_OPENCL_DEVICES);
}
static void devices_of_all_platforms_are_listed(void **state) {
    (void)state;
    in_child(many, NULL);
    in_child(too_many, NULL);
}

/* ---- all that a device does -------------------------------------------------------------------------------------- */
static hd_address there(const hd_block *b, size_t offset) {
    return (hd_address){b->device, (char *)b->address + offset};
}
static hd_address here(const void *memory) { return (hd_address){hd_cpu(), (void *)(uintptr_t)memory}; }

typedef struct everything {
    hd_block *a, *b, *elsewhere, *large;
    hd_gpu_program *program;
    void *object;
    char got[64];
} everything;

static hd_error use_memory(hd_thread *thread, everything *e) {
    if ((e->a = cl->allocate(thread, 0, 64)) == NULL) return hd_error_code();
    if ((e->b = cl->allocate(thread, 0, 100)) == NULL) return hd_error_code();
    if ((e->elsewhere = cl->allocate(thread, 1, 100)) == NULL) return hd_error_code();
    HD_TRY(cl->fill(thread, there(e->a, 0), "x", 1, 64));
    HD_TRY(cl->fill(thread, there(e->a, 3), "yz", 2, 3));
    HD_TRY(cl->copy(thread, there(e->a, 10), here("hodu"), 4));
    HD_TRY(cl->copy(thread, there(e->b, 5), there(e->a, 0), 20));
    HD_TRY(cl->copy(thread, there(e->b, 7), there(e->b, 5), 20)); /* "..xxxyzyzyzxhodu" at 5 */
    HD_TRY(cl->copy(thread, there(e->elsewhere, 1), there(e->b, 7), 20));
    return cl->copy(thread, there(e->b, 50), there(e->elsewhere, 1), 20);
}

static hd_error use_program(everything *e) {
    size_t bytes;
    int64_t took = 0, arguments[3] = {0, 0, 20};
    HD_TRY(gpu->compile(0, "move", "text", &e->object, &bytes));
    if ((e->program = gpu->load(0, e->object, bytes)) == NULL) return hd_error_code();
    hd_gpu_function *f = gpu->function(e->program, "move");
    if (f == NULL) return hd_error_code();
    hd_gpu_launch l = {.function = f,
                       .groups = {1, 1, 1},
                       .threads = {1, 1, 1},
                       .buffers = (void *[]){there(e->b, 50).pointer, there(e->a, 30).pointer},
                       .buffer_count = 2,
                       .arguments = arguments,
                       .argument_bytes = sizeof arguments,
                       .nanoseconds = &took};
    HD_TRY(gpu->launch(0, &l));
    require(took == 234 && arguments[0] == 50 && arguments[1] == 30);
    l.nanoseconds = NULL;
    return gpu->launch(0, &l);
}

/* More than four stages hold, there and back. */
static hd_error use_stages(hd_thread *thread, everything *e) {
    enum { STAGE = 5000, BYTES = 6 * STAGE + 77 };
    static unsigned char out[BYTES], in[BYTES];
    hd_opencl_device *d = hd_opencl_device_at(0);
    if (d == NULL) return hd_error_code();
    d->staging.stage_bytes = STAGE;
    for (int i = 0; i < BYTES; ++i) out[i] = (unsigned char)(i * 31 + i / STAGE), in[i] = 0;
    if ((e->large = cl->allocate(thread, 0, BYTES + 9)) == NULL) return hd_error_code();
    HD_TRY(cl->copy(thread, there(e->large, 9), here(out), BYTES));
    HD_TRY(cl->copy(thread, here(in), there(e->large, 9), BYTES));
    require(memcmp(out, in, BYTES) == 0);
    return HD_OK;
}

static hd_error use_all(hd_thread *thread, everything *e) {
    HD_TRY(use_memory(thread, e));
    HD_TRY(use_stages(thread, e));
    HD_TRY(use_program(e));
    HD_TRY(cl->copy(thread, here(e->got), there(e->a, 30), 20));
    return cl->synchronize(thread, 0);
}

/* All of it, and everything is released again, whatever happened. */
static hd_error do_all(void) {
    hd_thread *thread = hd_thread_self();
    everything e = {.a = NULL};
    const hd_error status = thread == NULL ? HD_ERROR_MEMORY : use_all(thread, &e);
    require((status == HD_OK) == hd_ok());
    if (status == HD_OK) require(memcmp(e.got, "xxxyzyzyzxhoduxxxxxx", 20) == 0);
    if (e.a != NULL) hd_block_release(thread, e.a);
    if (e.b != NULL) hd_block_release(thread, e.b);
    if (e.elsewhere != NULL) hd_block_release(thread, e.elsewhere);
    if (e.large != NULL) hd_block_release(thread, e.large);
    if (e.program != NULL) gpu->unload(e.program);
    free(e.object);
    return status;
}

/* What the stages of a device keep: memory, and events of copies that nobody has waited for. */
static int64_t kept_by_stages(int index) {
    const hd_staging *s = &hd_opencl_device_at(index)->staging;
    int64_t kept = 0;
    for (int i = 0; i < HD_STAGES; ++i) kept += (s->stages[i].object != NULL) + (s->stages[i].copied != NULL);
    return kept;
}

static void nothing_is_left(void) {
    for (int i = 0; i < hd_device_count(HD_DEVICE_OPENCL); ++i) {
        hd_opencl_device *d = hd_opencl_device_at(i);
        if (d == NULL)
            hd_error_clear(); /* it is lost */
        else
            hd_heap_trim(&d->heap);
        if (d != NULL) require(d->heap.used_bytes == 0 && d->heap.cached_bytes == 0);
    }
}

typedef struct fault {
    int64_t at;
    int32_t status;
} fault;
static void one_call_fails(const void *context) {
    const fault *f = context;
    with_driver(FAKE_OPENCL, "1 2");
    fake->fail_at = f->at;
    fake->status = f->status;
    const hd_error first = do_all();
    if (first != HD_OK) require(hd_error_code() == HD_ERROR_DEVICE || hd_error_code() == HD_ERROR_MEMORY);
    require((int64_t)strlen(hd_error_message()) < 500);
    const bool is_lost = strstr(hd_error_message(), "is lost, with all that was in its memory") != NULL;
    const bool never_listed = strstr(hd_error_message(), "is not here") != NULL;
    hd_error_clear();
    const hd_error second = do_all(); /* the fault was once */
    if (second != HD_OK) {
        require(is_lost || never_listed);
        require_text(hd_error_message(), is_lost ? "is lost" : "is not here");
        hd_error_clear();
    }
    if (is_lost || never_listed) return;
    nothing_is_left();
    require(fake->objects == 4 + kept_by_stages(0) && fake->memory_used == 0); /* two contexts, two queues */
}

static int64_t calls_of_all;
static void count_calls(const void *out) {
    with_driver(FAKE_OPENCL, "1 2");
    require(do_all() == HD_OK);
    require(write(*(const int *)out, &fake->calls, sizeof fake->calls) == sizeof fake->calls);
}

static void any_call_may_fail(void **state) {
    (void)state;
    static const int32_t statuses[] = {HD_CL_MEM_OBJECT_ALLOCATION_FAILURE, HD_CL_OUT_OF_RESOURCES, HD_CL_INVALID_VALUE,
                                       HD_CL_ILLEGAL_ACCESS};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    in_child(count_calls, &ends[1]);
    assert_int_equal(read(ends[0], &calls_of_all, sizeof calls_of_all), sizeof calls_of_all);
    close(ends[0]);
    close(ends[1]);
    assert_true(calls_of_all > 100 && calls_of_all < 250);
    for (int s = 0; s < 4; ++s)
        for (int64_t at = 0; at < calls_of_all; ++at) in_child(one_call_fails, &(fault){at, statuses[s]});
}

/* Memory of our own. */
static void allocations_fail(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "1 2");
    require(hd_thread_self() != NULL && hd_device_count(HD_DEVICE_OPENCL) == 2);
    for (int64_t n = 0;; ++n) {
        hd_memory_fail_after(n);
        const hd_error status = do_all();
        hd_memory_fail_after(-1);
        if (status == HD_OK) break;
        require(n < 100 && hd_error_code() == HD_ERROR_MEMORY);
        hd_error_clear();
    }
    nothing_is_left();
    require(fake->objects == 4 + kept_by_stages(0));
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    in_child(allocations_fail, NULL);
}

/* ---- figures, limits, trims -------------------------------------------------------------------------------------- */
static size_t taken(void) { return fake->memory_used; }
static void memory_is_told_of(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "1 1");
    memory_story(hd_opencl(0), taken);
}
static void memory_has_figures_and_limits(void **state) {
    (void)state;
    in_child(memory_is_told_of, NULL);
}

/* ---- memory that runs out ---------------------------------------------------------------------------------------- */
static void what_is_cached_makes_room(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1"); /* 1 MB, and 256 KB of it are cached at most */
    hd_block *blocks[4];
    for (int i = 0; i < 4; ++i) require((blocks[i] = cl->allocate(thread, 0, 65536)) != NULL);
    for (int i = 0; i < 4; ++i) hd_block_release(thread, blocks[i]);
    hd_opencl_device *d = hd_opencl_device_at(0);
    require(d->heap.cached_bytes == 4 * 65536 && d->heap.used_bytes == 0 && fake->memory_used == 4 * 65536);
    require((blocks[0] = cl->allocate(thread, 0, 8000)) != NULL);
    hd_block_release(thread, blocks[0]);
    require(d->heap.cached_bytes == 4 * 65536); /* it is full */
    require((blocks[0] = cl->allocate(thread, 0, 1 << 19)) != NULL);
    require((blocks[1] = cl->allocate(thread, 0, 400000)) != NULL); /* in their place */
    require(d->heap.cached_bytes == 0 && fake->objects == 2 + 2);
    require(cl->allocate(thread, 0, 200000) == NULL);
    require_error(HD_ERROR_MEMORY,
                  "opencl:0 has no memory for 200000 bytes: of its 1048576 bytes 950272 are in use here and 0 cached, "
                  "and a block has at most 524288 (clCreateBuffer gives CL_MEM_OBJECT_ALLOCATION_FAILURE); release");
    require(cl->allocate(thread, 0, (1 << 19) + 1) == NULL);
    require_error(HD_ERROR_MEMORY, "gives CL_INVALID_BUFFER_SIZE");
    fake->memory = fake->memory_used; /* others take the rest */
    require(cl->allocate(thread, 0, 1000) == NULL);
    require_error(HD_ERROR_MEMORY, "opencl:0 has no memory for 1000 bytes");
    hd_block_release(thread, blocks[0]);
    hd_block_release(thread, blocks[1]);
    hd_heap_trim(&d->heap);
    require(fake->memory_used == 0 && fake->objects == 2);
}
/* Drivers may take memory only when a command needs it. */
static void a_command_makes_room(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, 64), *b = cl->allocate(thread, 0, 64);
    hd_block_release(thread, b);
    fake->fail_in = "clEnqueueFillBuffer";
    fake->status = HD_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    fake->times = 1;
    require(cl->fill(thread, there(a, 0), "x", 1, 64) == HD_OK);
    require(hd_opencl_device_at(0)->heap.cached_bytes == 0);
    fake->times = 2;
    require(cl->fill(thread, there(a, 0), "x", 1, 64) != HD_OK);
    require_error(HD_ERROR_MEMORY,
                  "opencl:0 has no memory for a command: of its 1048576 bytes 64 are in use here and 0");
    hd_block_release(thread, a);
}
static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    in_child(what_is_cached_makes_room, NULL);
    in_child(a_command_makes_room, NULL);
}

/* ---- pinned memory ----------------------------------------------------------------------------------------------- */
enum { STAGE = 8192, IN_ALL = 9 * STAGE + 1 };
static void bytes_come_back(hd_thread *thread, const hd_block *a) {
    static unsigned char out[IN_ALL], in[IN_ALL];
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < IN_ALL; ++i) out[i] = (unsigned char)(i * 7 + i / STAGE + round);
        require(cl->copy(thread, there(a, 1), here(out), IN_ALL) == HD_OK);
        memset(in, 0, IN_ALL);
        require(cl->copy(thread, here(in), there(a, 1), IN_ALL) == HD_OK);
        require(memcmp(out, in, IN_ALL) == 0);
    }
}
/* So many stages a driver gives whose `function` refuses from then on. */
typedef struct refusal {
    const char *function;
    int given;
} refusal;
static void refuses(const void *context) {
    const refusal *r = context;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_opencl_device *d = hd_opencl_device_at(0);
    hd_block *a = cl->allocate(thread, 0, IN_ALL + 1);
    d->staging.stage_bytes = STAGE;
    fake->status = HD_CL_OUT_OF_HOST_MEMORY;
    fake->fail_in = r->function;
    fake->skip = r->given;
    fake->times = 100;
    const int64_t before = fake->objects;
    bytes_come_back(thread, a);
    require(fake->times == (r->given < HD_STAGES ? 99 : 100)); /* it is asked once */
    require(atomic_load(&d->stages) == (r->given > 0 ? HD_OPENCL_STAGES_MADE : HD_OPENCL_STAGES_REFUSED));
    require(r->given == 0 ? fake->objects == before : d->staging.count == r->given);
    require(fake->objects - before == kept_by_stages(0));
    hd_block_release(thread, a);
}
static void a_driver_may_refuse_pinned_memory(void **state) {
    (void)state;
    for (int given = 0; given <= HD_STAGES; ++given) {
        in_child(refuses, &(refusal){"clCreateBuffer", given});
        in_child(refuses, &(refusal){"clEnqueueMapBuffer", given});
    }
}

static void copies_plainly(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "unified");
    hd_block *a = cl->allocate(thread, 0, IN_ALL + 1);
    const int64_t objects = fake->objects, calls = fake->calls;
    bytes_come_back(thread, a);
    require(fake->objects == objects && fake->calls == calls + 6);
    hd_block_release(thread, a);
}
static void small_copies_are_plain(const void *nothing) {
    (void)nothing;
    char bytes[4096];
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, 8192);
    const int64_t calls = fake->calls;
    require(cl->copy(thread, there(a, 0), here(bytes), 4096) == HD_OK);
    require(cl->copy(thread, here(bytes), there(a, 0), 4096) == HD_OK);
    require(fake->calls == calls + 2);
    hd_block_release(thread, a);
}
static void copies_need_no_stages_where_memory_is_shared(void **state) {
    (void)state;
    in_child(copies_plainly, NULL);
    in_child(small_copies_are_plain, NULL);
}

/* The device is lost while parts are under way: an error, also of all later copies. */
static void lost_under_way(const void *context) {
    const char *function = context;
    static unsigned char bytes[IN_ALL];
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, IN_ALL + 1);
    hd_opencl_device_at(0)->staging.stage_bytes = STAGE;
    bytes_come_back(thread, a);
    fake->fail_in = function;
    fake->times = 1;
    fake->status = fake->lost = HD_CL_OUT_OF_RESOURCES;
    require(cl->copy(thread, here(bytes), there(a, 0), IN_ALL) != HD_OK);
    require_error(HD_ERROR_DEVICE, "opencl:0 is lost, with all that was in its memory");
    require(cl->copy(thread, there(a, 0), here(bytes), IN_ALL) != HD_OK);
    require_error(HD_ERROR_DEVICE, "opencl:0 is lost");
    hd_block_release(thread, a);
}
/* A part that fails is an error; the next copy has right bytes, whatever was under way. */
static void fails_under_way(const void *context) {
    const char *function = context;
    static unsigned char bytes[IN_ALL];
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, IN_ALL + 1);
    hd_opencl_device_at(0)->staging.stage_bytes = STAGE;
    for (int skip = 0; skip < 9; ++skip)
        for (int back = 0; back < 2; ++back) {
            fake->fail_in = function;
            fake->skip = skip;
            fake->times = 1;
            fake->status = HD_CL_INVALID_VALUE;
            memset(bytes, skip, IN_ALL);
            const hd_error status = back ? cl->copy(thread, here(bytes), there(a, 0), IN_ALL)
                                         : cl->copy(thread, there(a, 0), here(bytes), IN_ALL);
            require((status == HD_OK) == (fake->times == 1));
            if (status != HD_OK) require_error(HD_ERROR_DEVICE, function);
            fake->times = 0;
            bytes_come_back(thread, a);
        }
    hd_block_release(thread, a);
}
static void copies_may_fail_under_way(void **state) {
    (void)state;
    static const char *const functions[] = {"clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clFlush",
                                            "clWaitForEvents"};
    for (int i = 0; i < 4; ++i) in_child(fails_under_way, functions[i]);
    in_child(lost_under_way, "clEnqueueReadBuffer");
    in_child(lost_under_way, "clWaitForEvents");
}

/* ---- devices that are lost --------------------------------------------------------------------------------------- */
static void loses(const void *status) {
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, 64);
    require(a != NULL);
    fake->lost = *(const int32_t *)status;
    require(cl->synchronize(thread, 0) == HD_ERROR_DEVICE);
    require_error(HD_ERROR_DEVICE, "opencl:0 is lost, with all that was in its memory: clFinish gave ");
    fake->lost = 0; /* too late */
    require(cl->copy(thread, there(a, 0), here("x"), 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, "opencl:0 is lost");
    require(cl->allocate(thread, 0, 1) == NULL);
    require_error(HD_ERROR_DEVICE, "start the program again");
    hd_block_release(thread, a);
    require(hd_ok() && hd_device_count(HD_DEVICE_OPENCL) == 1);
}
static void a_command_finds_it(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, 64);
    fake->lost = HD_CL_INVALID_COMMAND_QUEUE;
    require(cl->copy(thread, there(a, 0), here("x"), 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, "clEnqueueWriteBuffer gave CL_INVALID_COMMAND_QUEUE; a kernel crashed");
    hd_block_release(thread, a);
}
static void memory_of_the_lost(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(hd_thread_self(), 0, 64);
    fake->lost = HD_CL_OUT_OF_RESOURCES;
    fake->memory = fake->memory_used; /* it cannot tell it from a want of memory */
    require(cl->allocate(hd_thread_self(), 0, 64) == NULL);
    require_error(HD_ERROR_DEVICE, "opencl:0 is lost");
    hd_block_release(hd_thread_self(), a);
}
static void a_lost_device_says_so_from_then_on(void **state) {
    (void)state;
    in_child(loses, &(int32_t){HD_CL_OUT_OF_RESOURCES});
    in_child(loses, &(int32_t){HD_CL_DEVICE_NOT_AVAILABLE});
    in_child(loses, &(int32_t){HD_CL_ILLEGAL_ACCESS});
    in_child(a_command_finds_it, NULL);
    in_child(memory_of_the_lost, NULL);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static void bad_programs(const void *nothing) {
    (void)nothing;
    void *object;
    size_t bytes;
    char path[512];
    with_driver(FAKE_OPENCL, "1 1");
    require(gpu->compile(0, "program", "broken text", &object, &bytes) != HD_OK);
    const char *at = strstr(hd_error_message(), "whose text is in ");
    require(at != NULL);
    snprintf(path, sizeof path, "%s", at + strlen("whose text is in "));
    path[strcspn(path, ":")] = '\0';
    const size_t length = strlen(hd_error_message());
    require(length > 300 && length < 500);
    require(strcmp(hd_error_message() + length - 26, "error: this is how it ends") == 0);
    require_error(HD_ERROR_DEVICE, "opencl:0 does not compile program");
    require(unlink(path) == 0);
    *strrchr(path, '/') = '\0';
    require(rmdir(path) == 0);
    fake->fail_in = "clBuildProgram";
    fake->times = 1;
    fake->status = HD_CL_COMPILER_NOT_AVAILABLE;
    require(gpu->compile(0, "program", "text", &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "clBuildProgram gives CL_COMPILER_NOT_AVAILABLE; its driver has no compiler");
    require(gpu->compile(0, "program", "", &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "gives no object of a program");
    require(gpu->compile(0, "program", "text", &object, &bytes) == HD_OK);
    fake->fail_in = "clCreateProgramWithBinary";
    fake->times = 1;
    fake->status = HD_CL_INVALID_BINARY;
    require(gpu->load(0, object, bytes) == NULL);
    require_error(HD_ERROR_DEVICE, "gives CL_INVALID_BINARY; it is no program of this device and driver");
    hd_gpu_program *p = gpu->load(0, object, bytes);
    require(p != NULL && gpu->function(p, "other") == NULL);
    require_error(HD_ERROR_DEVICE, "clCreateKernel gives CL_INVALID_KERNEL_NAME");
    hd_gpu_function *f = gpu->function(p, "move");
    const hd_gpu_launch l = {
        .function = f, .groups = {1, 1, 1}, .threads = {1, 1, 1}, .arguments = (int64_t[2]){0}, .argument_bytes = 16};
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_DEVICE, "clSetKernelArg gives CL_INVALID_ARG_SIZE; the kernel takes other arguments");
    gpu->unload(p);
    hd_array_release(object);
    require(fake->objects == 2);
}
static void bad_programs_are_errors(void **state) {
    (void)state;
    in_child(bad_programs, NULL);
}

/* So many commands are under way at once, and the events that count them are released. */
static void many_commands(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_OPENCL, "1 1");
    hd_block *a = cl->allocate(thread, 0, 64);
    for (int i = 0; i < 10000; ++i) require(cl->fill(thread, there(a, 0), "x", 1, 64) == HD_OK);
    require(fake->objects <= 4);
    hd_block_release(thread, a);
    require(cl->synchronize(thread, 0) == HD_OK);
    nothing_is_left();
    require(fake->objects == 2);
    fake->fail_in = "clWaitForEvents";
    fake->times = 1;
    fake->status = HD_CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    a = cl->allocate(thread, 0, 64);
    hd_error status = HD_OK;
    for (int i = 0; i < 2000 && status == HD_OK; ++i) status = cl->fill(thread, there(a, 0), "x", 1, 64);
    require(status != HD_OK);
    require_error(HD_ERROR_DEVICE, "clWaitForEvents gives CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST");
    hd_block_release(thread, a);
}
static void commands_do_not_pile_up(void **state) {
    (void)state;
    in_child(many_commands, NULL);
}

RUN(test(a_missing_device_says_why), test(devices_of_all_platforms_are_listed), test(any_call_may_fail),
    test(any_allocation_may_fail), test(a_driver_may_refuse_pinned_memory),
    test(copies_need_no_stages_where_memory_is_shared), test(copies_may_fail_under_way),
    test(memory_has_figures_and_limits), test(memory_that_runs_out_is_an_error),
    test(a_lost_device_says_so_from_then_on), test(bad_programs_are_errors), test(commands_do_not_pile_up))
