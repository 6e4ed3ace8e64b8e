/* What goes wrong in CUDA's driver is an error of ours, leaves nothing behind and ends nothing. The driver is a fake;
 * each case is a process of its own, as a driver is opened once. */
#include "support.h"
#include "cuda/stories.h"

/* ---- no device --------------------------------------------------------------------------------------------------- */
static void none_because(const char *reason) {
    require(hd_device_count(HD_DEVICE_CUDA) == 0 && !hd_device_available(hd_cuda(0)));
    require_text(hd_device_missing(hd_cuda(0)), reason);
    hd_device_describe(hd_cuda(0));
    require_text(hd_error_message(), "hd_device_describe: device cuda:0 is not here: ");
    require_error(HD_ERROR_DEVICE, reason);
    require(cuda->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    require(gpu->limits(0) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
}
static void no_driver(const void *nothing) {
    (void)nothing;
    none_because("there is no driver for GPUs of NVIDIA's (libcuda.so.1: cannot open shared object file");
}
static void something_else(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA_EMPTY, "1");
    none_because("libcuda.so.1 is there, but has no cuInit and cuDeviceGetCount: it is no driver of NVIDIA's");
}
static void no_gpu(const void *wish) {
    with_driver(FAKE_CUDA, wish);
    none_because("NVIDIA's driver is there, but finds no GPU; nvidia-smi lists them");
}
static void broken(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA, "broken");
    none_because("NVIDIA's driver is there, but does not start (its error 999); nvidia-smi may say more");
}
static void a_missing_device_says_why(void **state) {
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL)
        in_child(no_driver, NULL);
    else
        dlclose(driver); /* here is one */
    in_child(something_else, NULL);
    in_child(no_gpu, "none");
    in_child(no_gpu, "0");
    in_child(broken, NULL);
}

/* Its GPUs are listed, as XLA may run there; ops do not. */
static void no_ops_because(const char *reason) {
    require(hd_device_count(HD_DEVICE_CUDA) == 1 && !hd_device_available(hd_cuda(0)));
    require(strcmp(hd_device_describe(hd_cuda(0)).name, "fake GPU 0") == 0);
    require_text(hd_device_missing(hd_cuda(0)), reason);
    require_text(hd_compiler_missing(HD_COMPILER_HODU, hd_cuda(0)), reason);
    hd_set_device(hd_cuda(0));
    require_error(HD_ERROR_DEVICE, reason);
    require(cuda->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    require(synchronize(0) != HD_OK);
    require_error(HD_ERROR_DEVICE, reason);
}
static void old_driver(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA_OLD, "1");
    no_ops_because(
        "NVIDIA's driver that is here has no cuStreamBeginCapture_v2: it is older than CUDA 12; a newer one");
}
static void silent_driver(const void *function) {
    char reason[128];
    with_driver(FAKE_CUDA, "1");
    require(hd_device_count(HD_DEVICE_CUDA) == 1);
    fake->fail_in = function;
    fake->times = 1;
    fake->status = HD_CU_LAUNCH_FAILED;
    snprintf(reason, sizeof reason, "NVIDIA's driver does not say what cuda:0 is: %s gives CUDA_ERROR_LAUNCH_FAILED (",
             (const char *)function);
    no_ops_because(reason);
}
static void second_is_silent(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA, "2");
    require(hd_device_count(HD_DEVICE_CUDA) == 2);
    fake->fail_at = fake->calls + 7; /* seven questions for each */
    fake->status = 101;
    require(hd_device_available(hd_cuda(0)) && !hd_device_available(hd_cuda(1)));
    require_text(hd_device_missing(hd_cuda(1)), "does not say what cuda:1 is: cuDeviceGet gives the status 101, which");
    require(cuda->allocate(hd_thread_self(), 1, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "device cuda:1 is not here: NVIDIA's driver does not say what cuda:1 is");
    release(block_of(0, 4));
}
static void drivers_that_run_no_ops_say_why(void **state) {
    (void)state;
    in_child(old_driver, NULL);
    in_child(silent_driver, "cuDeviceGet");
    in_child(silent_driver, "cuDeviceTotalMem");
    in_child(silent_driver, "cuDeviceGetAttribute");
    in_child(second_is_silent, NULL);
}

/* ---- all that a device does -------------------------------------------------------------------------------------- */
typedef struct everything {
    hd_block *a, *b, *elsewhere;
    hd_gpu_program *program;
    hd_gpu_recording *recording;
    void *object;
    float got[16];
} everything;
enum { LARGE = (9 << 20) + 64 }; /* of several stages */
static char large[LARGE], got_large[LARGE];

static hd_error use_memory(hd_thread *thread, everything *e) {
    if ((e->a = cuda->allocate(thread, 0, LARGE)) == NULL) return hd_error_code();
    if ((e->b = cuda->allocate(thread, 0, 100)) == NULL) return hd_error_code();
    if ((e->elsewhere = cuda->allocate(thread, 1, 100)) == NULL) return hd_error_code();
    HD_TRY(copy(there(e->a, 0), here(large), LARGE));
    HD_TRY(copy(here(got_large), there(e->a, 1), LARGE - 1));
    require(memcmp(got_large, large + 1, LARGE - 1) == 0);
    HD_TRY(fill(there(e->a, 0), &(float){1}, 4, 16));
    HD_TRY(fill(there(e->a, 8), &(double){0}, 8, 1));
    HD_TRY(fill(there(e->a, 16), "ab", 2, 2));
    HD_TRY(fill(there(e->a, 20), "c", 1, 4));
    HD_TRY(fill(there(e->a, 24), "01234567", 8, 1));  /* 1 1 0 0 abab cccc 0123 4567 1 ... */
    HD_TRY(copy(there(e->a, 4), there(e->a, 0), 32)); /* 1 1 1 0 0 abab cccc 0123 4567 1 ... */
    HD_TRY(copy(there(e->elsewhere, 0), there(e->a, 0), 64));
    return copy(there(e->b, 0), there(e->elsewhere, 0), 64);
}

static hd_error use_program(everything *e) {
    size_t bytes;
    int64_t took = 0;
    HD_TRY(gpu->compile(0, "scale", scale_text, &e->object, &bytes));
    if ((e->program = gpu->load(0, e->object, bytes)) == NULL) return hd_error_code();
    hd_gpu_function *f = gpu->function(e->program, "scale");
    if (f == NULL) return hd_error_code();
    HD_TRY(launch(0, f, there(e->b, 0), there(e->b, 0), 3, 2, &took)); /* 2 2 2 0 0 ... */
    require(took == 250000);
    HD_TRY(gpu->record(0));
    hd_error status = gpu->step(0, 0, NULL, 0);
    if (status == HD_OK) status = launch(0, f, there(e->b, 0), there(e->a, 0), 5, 3, NULL);
    if (status == HD_OK) status = gpu->step(0, 1, NULL, 0); /* at the same time */
    if (status == HD_OK) status = fill(there(e->a, 64), &(float){7}, 4, 1);
    if (status == HD_OK) status = gpu->step(0, 2, (uint32_t[]){0, 1}, 2);
    if (status == HD_OK) status = fill(there(e->b, 4), &(float){7}, 4, 1);
    if (status != HD_OK) { /* why is kept */
        gpu->recorded(0, NULL);
        return status;
    }
    HD_TRY(gpu->recorded(0, &e->recording));
    for (int i = 0; i < 3; ++i) HD_TRY(gpu->replay(e->recording));
    return HD_OK;
}

static hd_error use_all(hd_thread *thread, everything *e) {
    HD_TRY(use_memory(thread, e));
    HD_TRY(use_program(e));
    HD_TRY(copy(here(e->got), there(e->a, 0), 20));
    HD_TRY(copy(here(e->got + 5), there(e->b, 20), 16));
    return synchronize(0);
}

/* All of it, and everything is released again, whatever happened. */
static hd_error do_all(void) {
    hd_thread *thread = hd_thread_self();
    everything e = {.a = NULL};
    const hd_error status = thread == NULL ? HD_ERROR_MEMORY : use_all(thread, &e);
    require((status == HD_OK) == hd_ok());
    const float first[5] = {6, 21, 6, 0, 0};
    if (status == HD_OK)
        require(memcmp(e.got, first, sizeof first) == 0 && memcmp(e.got + 5, "ababcccc01234567", 16) == 0);
    gpu->forget(thread, e.recording);
    if (e.a != NULL) hd_block_release(thread, e.a);
    if (e.b != NULL) hd_block_release(thread, e.b);
    if (e.elsewhere != NULL) hd_block_release(thread, e.elsewhere);
    gpu->unload(e.program);
    hd_array_release(e.object);
    return status;
}

/* What was made before a fault is used later. */
static void nothing_more_is_left(void) {
    require(do_all() == HD_OK);
    nothing_is_left(2);
}

typedef struct fault {
    int64_t at;
    int status;
} fault;
static void one_call_fails(const void *context) {
    const fault *f = context;
    with_driver(FAKE_CUDA, "2");
    fake->fail_at = f->at;
    fake->status = f->status;
    const hd_error first = do_all();
    if (first != HD_OK) require(hd_error_code() == HD_ERROR_DEVICE || hd_error_code() == HD_ERROR_MEMORY);
    require(strlen(hd_error_message()) < 500 && strstr(hd_error_message(), "(null)") == NULL);
    if (first != HD_OK) require(strlen(hd_error_message()) > 40);
    const bool is_lost = strstr(hd_error_message(), "is lost, with all that was in its memory") != NULL;
    const bool never_listed = strstr(hd_error_message(), "is not here") != NULL;
    const bool no_compiler = strstr(hd_error_message(), "does not tell its version") != NULL; /* opened once */
    hd_error_clear();
    if (!is_lost && !never_listed && !no_compiler) { /* the fault was once */
        nothing_more_is_left();
        return;
    }
    require(do_all() != HD_OK);
    require_text(hd_error_message(), is_lost ? "is lost" : never_listed ? "is not here" : "does not tell its version");
    hd_error_clear();
    if (is_lost) require(f->status == HD_CU_ILLEGAL_ADDRESS);
}

static void count_calls(const void *out) {
    with_driver(FAKE_CUDA, "2");
    require(do_all() == HD_OK);
    require(write(*(const int *)out, &fake->calls, sizeof fake->calls) == sizeof fake->calls);
    nothing_more_is_left();
}
static void any_call_may_fail(void **state) {
    (void)state;
    static const int statuses[] = {HD_CU_OUT_OF_MEMORY, 1, HD_CU_ILLEGAL_ADDRESS};
    int64_t calls = 0;
    int ends[2];
    for (int i = 0; i < LARGE; ++i) large[i] = (char)(i ^ i >> 8);
    assert_int_equal(pipe(ends), 0);
    in_child(count_calls, &ends[1]);
    assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
    close(ends[0]);
    close(ends[1]);
    assert_in_range(calls, 80, 400);
    for (int64_t at = 0; at < calls; ++at)
        for (int64_t s = 0; s < 3; ++s)
            if (when_slow((uint64_t)at, 2) && (in_full() || (uint64_t)(at + s) % 3 == sample_seed() % 3))
                in_child(one_call_fails, &(fault){at, statuses[s]});
}

/* Memory of our own. */
static void allocations_fail(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA, "2");
    require(hd_thread_self() != NULL && hd_device_count(HD_DEVICE_CUDA) == 2);
    for (int64_t n = 0;; ++n) {
        hd_memory_fail_after(n);
        const hd_error status = do_all();
        hd_memory_fail_after(-1);
        if (status == HD_OK) break;
        require(n < 100 && hd_error_code() == HD_ERROR_MEMORY);
        hd_error_clear();
    }
    nothing_more_is_left();
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    in_child(allocations_fail, NULL);
}

/* ---- memory that runs out ---------------------------------------------------------------------------------------- */
static void what_is_cached_makes_room(const void *nothing) {
    (void)nothing;
    hd_thread *thread = hd_thread_self();
    with_driver(FAKE_CUDA, "1");
    fake->memory = 1 << 20; /* of it, 256 KB are cached at most */
    hd_block *blocks[4];
    for (int i = 0; i < 4; ++i) blocks[i] = block_of(0, 65536);
    for (int i = 0; i < 4; ++i) release(blocks[i]);
    hd_cuda_device *d = hd_cuda_device_at(0);
    require(d->heap.cached_bytes == 4 * 65536 && d->heap.used_bytes == 0 && fake->memory_used[0] == 4 * 65536);
    blocks[0] = block_of(0, 1 << 19);
    blocks[1] = block_of(0, 400000); /* in their place */
    require(d->heap.cached_bytes == 0);
    require(cuda->allocate(thread, 0, 200000) == NULL);
    require_error(HD_ERROR_MEMORY, "cuda:0 has no memory for 200000 bytes: of its 1048576 bytes 950272 are in use here "
                                   "and 0 cached, and a block has at most 1048576 (cuMemAlloc gives "
                                   "CUDA_ERROR_OUT_OF_MEMORY (out of memory)); release");
    require(fill(there(blocks[0], 0), "x", 1, 100) == HD_OK); /* and it goes on */
    const size_t memory = fake->memory;
    fake->memory = fake->memory_used[0]; /* others take the rest */
    require(cuda->allocate(thread, 0, 1000) == NULL);
    require_error(HD_ERROR_MEMORY, "cuda:0 has no memory for 1000 bytes");
    release(blocks[0]);
    release(blocks[1]);
    fake->memory = memory;
    release(block_of(0, 900000));
    nothing_is_left(1);
}
/* While a thread records, too. */
static void room_for_what_is_recorded(const void *nothing) {
    (void)nothing;
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "1");
    fake->memory = 1 << 20;
    hd_block *a = block_of(0, 1 << 18);
    require(fill(there(a, 0), "x", 1, 1 << 18) == HD_OK);
    release(a);
    require(gpu->record(0) == HD_OK && hd_cuda_device_at(0)->heap.cached_bytes == 1 << 18);
    a = block_of(0, 1000000); /* what is cached makes room */
    require(fill(there(a, 0), "x", 1, 64) == HD_OK && gpu->recorded(0, &r) == HD_OK && gpu->replay(r) == HD_OK);
    gpu->forget(hd_thread_self(), r);
    release(a);
    nothing_is_left(1);
}
static void a_command_makes_room(const void *function) {
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_recording *r = NULL;
    hd_block *a = block_of(0, 64);
    for (int times = 1; times <= 2; ++times) {
        release(block_of(0, 128));
        fake->fail_in = function;
        fake->status = HD_CU_OUT_OF_MEMORY;
        fake->times = times;
        hd_error status = launch(0, gpu->function(p, "scale"), there(a, 0), there(a, 0), 4, 2, NULL);
        if (status == HD_OK) status = gpu->record(0);
        if (status == HD_OK) status = gpu->recorded(0, &r);
        if (status == HD_OK) status = gpu->replay(r);
        require(fake->times == 0 && hd_cuda_device_at(0)->heap.cached_bytes == 0);
        require((status == HD_OK) == (times == 1));
        gpu->forget(hd_thread_self(), r);
        r = NULL;
    }
    require_error(HD_ERROR_MEMORY,
                  "cuda:0 has no memory for a command: of its 1073741824 bytes 64 are in use here and 0");
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void the_host_has_no_room(const void *nothing) {
    (void)nothing;
    char got[4] = "";
    with_driver(FAKE_CUDA, "1");
    hd_block *a = block_of(0, 64);
    fake->host_memory = 5 << 20; /* one stage */
    require(copy(there(a, 0), here("hodu"), 4) == HD_OK);
    require(copy(here(got), there(a, 0), 4) != HD_OK);
    require_error(HD_ERROR_MEMORY,
                  "cuda:0: the host has no 4194304 bytes of pinned memory for copies (cuMemHostAlloc gives");
    fake->host_memory = 50 << 20;
    require(copy(here(got), there(a, 0), 4) == HD_OK && memcmp(got, "hodu", 4) == 0);
    release(a);
    nothing_is_left(1);
}
static void memory_that_runs_out_is_an_error(void **state) {
    (void)state;
    in_child(what_is_cached_makes_room, NULL);
    in_child(room_for_what_is_recorded, NULL);
    in_child(a_command_makes_room, "cuLaunchKernel");
    in_child(a_command_makes_room, "cuGraphInstantiate");
    in_child(a_command_makes_room, "cuGraphLaunch");
    in_child(the_host_has_no_room, NULL);
}

/* ---- devices that are lost --------------------------------------------------------------------------------------- */
static void all_say_that_it_is_lost(hd_block *a, hd_gpu_program *p, hd_gpu_recording *r) {
    const char reason[] = "cuda:0 is lost, with all that was in its memory: ";
    require(hd_device_memory(hd_cuda(0)).live_bytes > 0 && hd_ok()); /* of which figures are known all the same */
    require(copy(there(a, 0), here("x"), 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, reason);
    require(fill(there(a, 0), "x", 1, 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, reason);
    require(cuda->allocate(hd_thread_self(), 0, 1) == NULL);
    require_error(HD_ERROR_DEVICE, "start the program again");
    require(gpu->replay(r) != HD_OK && gpu->record(0) != HD_OK && gpu->function(p, "sum") == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    gpu->forget(hd_thread_self(), r);
    gpu->unload(p);
    release(a);
    require(hd_ok() && hd_device_count(HD_DEVICE_CUDA) == 2);
    release(block_of(1, 64)); /* the other one lives */
    require(synchronize(1) == HD_OK);
}
static void a_kernel_crashes(const void *nothing) {
    (void)nothing;
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "2");
    hd_gpu_program *p = program_on(0);
    hd_block *a = block_of(0, 64);
    require(gpu->record(0) == HD_OK && gpu->recorded(0, &r) == HD_OK);
    fake->crash = HD_CU_ILLEGAL_ADDRESS;
    require(launch(0, gpu->function(p, "scale"), there(a, 0), there(a, 0), 4, 2, NULL) == HD_OK); /* not known yet */
    require(synchronize(0) == HD_ERROR_DEVICE);
    require_error(HD_ERROR_DEVICE, "cuda:0 is lost, with all that was in its memory: cuStreamSynchronize gave "
                                   "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered); a kernel");
    fake->lost = 0; /* too late */
    all_say_that_it_is_lost(a, p, r);
}
static void any_of_these_loses_it(const void *status) {
    hd_gpu_recording *r = NULL;
    char got[4];
    with_driver(FAKE_CUDA, "2");
    hd_gpu_program *p = program_on(0);
    hd_block *a = block_of(0, 64);
    require(fill(there(a, 0), "x", 1, 4) == HD_OK && gpu->record(0) == HD_OK && gpu->recorded(0, &r) == HD_OK);
    fake->lost = *(const int *)status;
    require(copy(here(got), there(a, 0), 4) != HD_OK);
    require_error(HD_ERROR_DEVICE, "cuda:0 is lost, with all that was in its memory: ");
    fake->lost = 0;
    all_say_that_it_is_lost(a, p, r);
}
/* What is released and left behind is not waited for at the end. */
static void ends_with_a_lost_one(const void *nothing) {
    (void)nothing;
    HD_SCOPE;
    with_driver(FAKE_CUDA, "1");
    hd_set_device(hd_cuda(0));
    hd_tensor *x = hd_full(HD_SHAPE(3), HD_F32, 2);
    require(hd_ok());
    fake->crash = HD_CU_LAUNCH_FAILED;
    hd_tensor *y = hd_neg(x);
    require(y != NULL);
    hd_item(hd_select(y, 0, 1));
    require_error(HD_ERROR_DEVICE, "cuda:0 is lost, with all that was in its memory: ");
    require(hd_neg(x) == NULL);
    require_error(HD_ERROR_DEVICE, "hd_neg: cuda:0 is lost");
    hd_synchronize();
    require_error(HD_ERROR_DEVICE, "hd_synchronize: cuda:0 is lost");
    hd_set_device(hd_cpu());
    require(hd_item(hd_scalar(2, HD_F32)) == 2);
}
static void a_lost_device_says_so_from_then_on(void **state) {
    (void)state;
    static const int statuses[] = {
        HD_CU_DEINITIALIZED,        HD_CU_MEMORY_IS_BROKEN, HD_CU_ILLEGAL_ADDRESS, HD_CU_LAUNCH_TIMEOUT,
        HD_CU_CONTEXT_IS_DESTROYED, HD_CU_ASSERT,           HD_CU_STACK_ERROR,     715,
        HD_CU_LAUNCH_FAILED};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; ++i) in_child(any_of_these_loses_it, &statuses[i]);
    in_child(a_kernel_crashes, NULL);
    in_child(ends_with_a_lost_one, NULL);
}

/* ---- the rest of the library ------------------------------------------------------------------------------------- */
/* Tensors there, ops, a script that is recorded, a profile. */
static hd_error use_library(void) {
    HD_SCOPE;
    float got[8] = {0}, expected[8];
    hd_builder *b = hd_builder_new("faults");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_mul_scalar(hd_exp(hd_input("x", HD_SHAPE(8), HD_F32)), 2));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, hd_cuda(0));
    hd_tensor *x = hd_to(hd_arange(0, 8, 1, HD_F32), hd_cuda(0));
    if (x != NULL) hd_script_set_input(s, "x", hd_neg(x));
    for (int run = 0; run < 4 && hd_ok(); ++run) {
        HD_SCOPE; /* results of the run before are released: addresses come again */
        hd_outputs *o = hd_script_run(s);
        if (o == NULL || !hd_to_array(hd_outputs_get(o, "y"), got, HD_F32, 8)) break;
        if (run == 0) memcpy(expected, got, sizeof got);
        require(got[0] == 2 && got[1] > 0.73f && got[1] < 0.74f && memcmp(got, expected, sizeof got) == 0);
    }
    if (hd_ok()) hd_script_profile(s, 1);
    return hd_error_code();
}
static void with_a_small_gpu(void) {
    with_driver(FAKE_CUDA, "1");
    fake->memory = 100 << 20; /* less than its peak is measured with, as it has none */
    require(freopen("/dev/null", "w", stdout) != NULL);
}
static void library_fails(const void *context) {
    const fault *f = context;
    with_a_small_gpu();
    fake->fail_at = f->at;
    fake->status = f->status;
    const hd_error first = use_library();
    if (first != HD_OK) require(first == HD_ERROR_DEVICE || first == HD_ERROR_MEMORY);
    const bool for_ever = strstr(hd_error_message(), "is lost") != NULL ||
                          strstr(hd_error_message(), "is not available here") != NULL ||
                          strstr(hd_error_message(), "does not tell its version") != NULL;
    hd_error_clear();
    const hd_error second = use_library();
    const bool was_lost = strstr(hd_error_message(), "is lost") != NULL; /* it may be while a peak is measured */
    require((second == HD_OK) == !(for_ever || was_lost));
    if (was_lost) require(f->status == HD_CU_ILLEGAL_ADDRESS);
    hd_error_clear();
    if (second != HD_OK) return;
    const int64_t objects = fake->objects, replays = fake->replays;
    require(use_library() == HD_OK && fake->objects == objects && fake->replays > replays);
}
static void count_library_calls(const void *out) {
    with_a_small_gpu();
    require(use_library() == HD_OK && fake->replays > 0);
    require(write(*(const int *)out, &fake->calls, sizeof fake->calls) == sizeof fake->calls);
}
static void the_library_lives_with_any_fault(void **state) {
    (void)state;
    static const int statuses[] = {HD_CU_OUT_OF_MEMORY, 1, HD_CU_ILLEGAL_ADDRESS};
    int64_t calls = 0;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    in_child(count_library_calls, &ends[1]);
    assert_int_equal(read(ends[0], &calls, sizeof calls), sizeof calls);
    close(ends[0]);
    close(ends[1]);
    assert_in_range(calls, 40, 400);
    for (int64_t at = 0; at < calls; ++at)
        for (int64_t s = 0; s < 3; ++s)
            if (when_slow((uint64_t)at, 3) && (in_full() || (uint64_t)(at + s) % 3 == sample_seed() % 3))
                in_child(library_fails, &(fault){at, statuses[s]});
}

RUN_WITH_FAKE(test(a_missing_device_says_why), test(drivers_that_run_no_ops_say_why), test(any_call_may_fail),
              test(any_allocation_may_fail), test(memory_that_runs_out_is_an_error),
              test(a_lost_device_says_so_from_then_on), test(the_library_lives_with_any_fault))
