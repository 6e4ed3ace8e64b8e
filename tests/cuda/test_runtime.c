/* The runtime of CUDA's devices against a fake of its driver (fake_cuda.c): what it asks of it. There is no GPU. Each
 * case is a process of its own, as a driver is opened once. */
#include "support.h"
#include "cuda/stories.h"
#include "gpu/memory.h"

#include <pthread.h>

/* ---- devices ----------------------------------------------------------------------------------------------------- */
static void describes(const void *wish) {
    with_driver(FAKE_CUDA, wish);
    const int count = hd_device_count(HD_DEVICE_CUDA);
    require(count == (atoi(wish) < HD_CUDA_DEVICES ? atoi(wish) : HD_CUDA_DEVICES));
    for (int i = 0; i < count; ++i) {
        char name[32];
        snprintf(name, sizeof name, "fake GPU %d", i);
        const hd_device_info info = hd_device_describe(hd_cuda(i));
        const hd_gpu_limits *l = gpu->limits(i);
        require(strcmp(info.name, name) == 0 && info.memory_bytes == fake->memory && info.units == 7 && info.has_f64);
        require(strcmp(l->key, "cuda, sm_90a") == 0 && l->group_most == 1024 && l->subgroup == 32);
        require(l->local_bytes == 49152 && l->processors == 7 && l->has_f64 && l->has_atomic_64);
    }
    require(fake->objects == 0); /* asking opens nothing */
    require(gpu->limits(count) == NULL);
    require_error(HD_ERROR_DEVICE, count == 1 ? "device cuda:1 is not here: there is one, cuda:0" : "there are cuda:0");
    hd_set_device(hd_cuda(count));
    require_error(HD_ERROR_DEVICE, count == 1 ? "there is one, cuda:0" : "there are cuda:0 to cuda:");
    require(cuda->allocate(hd_thread_self(), -1, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "device cuda:-1 is not here");
    require(fake->starts == 1);
}
static void devices_are_listed(void **state) {
    (void)state;
    in_child(describes, "1");
    in_child(describes, "3");
    in_child(describes, "20");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void copies(const void *nothing) {
    (void)nothing;
    unsigned char bytes[256], got[256], expected[256];
    with_driver(FAKE_CUDA, "1");
    hd_block *a = block_of(0, 256), *b = block_of(0, 300);
    require(a->address != b->address && a->capacity >= 256);
    for (int i = 0; i < 256; ++i) bytes[i] = expected[i] = (unsigned char)i;
    require(copy(there(a, 0), here(bytes), 256) == HD_OK);
    memset(bytes, 0, sizeof bytes); /* it is ours again */
    require(copy(there(a, 13), here("hodu"), 4) == HD_OK);
    memcpy(expected + 13, "hodu", 4);
    require(copy(there(b, 7), there(a, 5), 101) == HD_OK);
    require(fake->copies == 0 && fake->waits == 0); /* nobody waited */
    require(copy(here(got), there(b, 7), 101) == HD_OK && fake->waits == 1);
    require(memcmp(got, expected + 5, 101) == 0);
    require(copy(there(a, 32), there(a, 28), 200) == HD_OK); /* ranges that overlap */
    memmove(expected + 32, expected + 28, 200);
    require(copy(there(a, 2), there(a, 40), 150) == HD_OK);
    memmove(expected + 2, expected + 40, 150);
    require(copy(there(a, 5), there(a, 5), 150) == HD_OK);
    require(copy(there(a, 128), there(a, 0), 128) == HD_OK); /* neighbours */
    memmove(expected + 128, expected, 128);
    require(copy(here(got), there(a, 0), 256) == HD_OK && memcmp(got, expected, 256) == 0);
    require(copy(there(a, 0), here(NULL), 0) == HD_OK && copy(there(a, 0), there(a, 1), 0) == HD_OK);
    require(copy(here(got), here(bytes), 1) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "a copy of CUDA's without a GPU");
    release(a);
    release(b);
    release(block_of(0, 0));
    nothing_is_left(1);
}

/* More than all stages have, and parts of one; what is in a stage stays there until it was read. */
static void large_copies(const void *nothing) {
    (void)nothing;
    const size_t count = (size_t)(37 << 20) / 4 + 5;
    with_driver(FAKE_CUDA, "1");
    uint32_t *numbers = malloc(4 * count), *got = calloc(count, 4);
    for (size_t i = 0; i < count; ++i) numbers[i] = (uint32_t)i * 2654435761u;
    hd_block *a = block_of(0, 4 * count + 4), *b = block_of(0, 4 * count);
    require(copy(there(a, 4), here(numbers), 4 * count) == HD_OK);
    require(copy(there(b, 0), there(a, 4), 4 * count) == HD_OK);
    require(copy(there(a, 0), here(numbers + 1), 4 * count - 4) == HD_OK);
    require(copy(here(got), there(b, 0), 4 * count) == HD_OK && memcmp(got, numbers, 4 * count) == 0);
    require(copy(here(got), there(a, 0), 4 * count - 4) == HD_OK && memcmp(got, numbers + 1, 4 * count - 4) == 0);
    require(fake->host_used == (size_t)16 << 20);
    free(numbers);
    free(got);
    release(a);
    release(b);
    nothing_is_left(1);
}

static void fills(const void *nothing) {
    (void)nothing;
    unsigned char got[64], expected[64];
    const uint64_t elements[] = {0x8877665544332211u, 0, 0x0101010101010101u};
    with_driver(FAKE_CUDA, "1");
    hd_block *a = block_of(0, 64);
    for (int e = 0; e < 3; ++e)
        for (size_t size = 1; size <= 8; size *= 2)
            for (size_t first = 0; first <= 2; ++first) {
                memset(expected, 7, 64);
                require(fill(there(a, 0), expected, 8, 8) == HD_OK);
                require(fill(there(a, first * size), &elements[e], size, 5) == HD_OK);
                for (size_t i = 0; i < 5; ++i) memcpy(expected + (first + i) * size, &elements[e], size);
                require(copy(here(got), there(a, 0), 64) == HD_OK && memcmp(got, expected, 64) == 0);
            }
    require(fill(there(a, 0), NULL, 4, 0) == HD_OK);
    release(a);
    nothing_is_left(1);
}
static void bytes_go_there_and_come_back(void **state) {
    (void)state;
    in_child(copies, NULL);
    in_child(large_copies, NULL);
    in_child(fills, NULL);
}

/* ---- order ------------------------------------------------------------------------------------------------------- */
static void in_order(const void *nothing) {
    (void)nothing;
    float x[4] = {1, 2, 3, 4}, y[12];
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *scale = gpu->function(p, "scale");
    require(scale != NULL && gpu->function(p, "scale") == scale);
    hd_block *a = block_of(0, 64), *b = block_of(0, 64);
    require(copy(there(a, 0), here(x), 16) == HD_OK);
    require(launch(0, scale, there(a, 0), there(b, 0), 4, 2, NULL) == HD_OK);
    require(copy(there(a, 0), here((float[4]){5, 6, 7, 8}), 16) == HD_OK); /* after the launch, and not waited for */
    require(launch(0, scale, there(a, 0), there(b, 16), 4, 2, NULL) == HD_OK);
    require(fill(there(a, 0), &(float){9}, 4, 4) == HD_OK);
    require(fill(there(a, 4), &(float){0}, 4, 1) == HD_OK);
    require(launch(0, scale, there(a, 0), there(b, 32), 4, 2, NULL) == HD_OK);
    require(fake->waits == 0 && fake->kernels == 0);
    require(copy(here(y), there(b, 0), 48) == HD_OK && fake->kernels == 3);
    const float expected[12] = {2, 4, 6, 8, 10, 12, 14, 16, 18, 0, 18, 18};
    require(memcmp(y, expected, sizeof y) == 0);
    release(a);
    release(b);
    gpu->unload(p);
    nothing_is_left(1);
}
/* Stages are used again as soon as what was in them was read, and not before. */
static void many_uploads(const void *nothing) {
    (void)nothing;
    enum { COUNT = 1000 };
    static int32_t got[COUNT];
    with_driver(FAKE_CUDA, "1");
    hd_block *a = block_of(0, 4 * COUNT);
    for (int i = 0; i < COUNT; ++i) require(copy(there(a, 4 * (size_t)i), here(&(int32_t){i * i}), 4) == HD_OK);
    require(fake->under_way <= 16);
    require(copy(here(got), there(a, 0), 4 * COUNT) == HD_OK);
    for (int i = 0; i < COUNT; ++i) require(got[i] == i * i);
    release(a);
    nothing_is_left(1);
}
static void what_is_asked_later_comes_later(void **state) {
    (void)state;
    in_child(in_order, NULL);
    in_child(many_uploads, NULL);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static void kernels(const void *nothing) {
    (void)nothing;
    enum { COUNT = 640 };
    float x[COUNT], y[COUNT / 64];
    int64_t took = 0;
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *sum = gpu->function(p, "sum"), *scale = gpu->function(p, "scale");
    hd_block *a = block_of(0, sizeof x), *b = block_of(0, sizeof y);
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    require(copy(there(a, 0), here(x), sizeof x) == HD_OK);
    require(launch(0, sum, there(a, 0), there(b, 0), COUNT, 0, &took) == HD_OK && took == 250000);
    require(copy(here(y), there(b, 0), sizeof y) == HD_OK);
    for (int i = 0; i < COUNT / 64; ++i) require(y[i] == (float)(64 * 64 * i + 63 * 32));
    hd_gpu_launch l = {.function = scale,
                       .groups = {0, 1, 1},
                       .threads = {64, 1, 1},
                       .buffers = (void *[]){a->address, b->address},
                       .buffer_count = 2,
                       .arguments = (int64_t[3]){0},
                       .argument_bytes = 24};
    require(gpu->launch(0, &l) == HD_OK && fake->under_way == 0); /* nothing to do */
    l.groups[0] = 1;
    l.threads[0] = 2048;
    require(gpu->launch(0, &l) != HD_OK);
    require_error(HD_ERROR_DEVICE, "the kernel scale takes groups of 1 to 1024 threads on cuda:0, not of 2048");
    require(gpu->function(p, "other") == NULL);
    require_error(HD_ERROR_DEVICE, "cuda:0: cuModuleGetFunction gives CUDA_ERROR_NOT_FOUND (named symbol not found)");
    release(a);
    release(b);
    gpu->unload(p);
    gpu->unload(NULL);
    nothing_is_left(1);
}
static void a_kernel_reads_and_writes(void **state) {
    (void)state;
    in_child(kernels, NULL);
}

static void bad_text(const void *nothing) {
    (void)nothing;
    void *object;
    size_t bytes;
    char path[512];
    with_driver(FAKE_CUDA, "1");
    require(gpu->compile(0, "program", "broken text", &object, &bytes) != HD_OK && object == NULL);
    const char *at = strstr(hd_error_message(), "whose text is in ");
    require(at != NULL);
    snprintf(path, sizeof path, "%s", at + strlen("whose text is in "));
    path[strcspn(path, ":")] = '\0';
    const size_t length = strlen(hd_error_message());
    require(length > 300 && length < 500 && strstr(path, "/program.cu") != NULL);
    require(strcmp(hd_error_message() + length - 26, "error: this is how it ends") == 0);
    require_error(HD_ERROR_DEVICE, "cuda:0 does not compile program");
    require(unlink(path) == 0);
    *strrchr(path, '/') = '\0';
    require(rmdir(path) == 0);
    require(gpu->load(0, "", 0) == NULL);
    require_error(HD_ERROR_DEVICE, "an object of 0 bytes is no whole program of CUDA's; compile it anew");
    require(gpu->compile(0, "program", scale_text, &object, &bytes) == HD_OK);
    require(gpu->load(0, object, bytes - 1) == NULL);
    require_error(HD_ERROR_DEVICE, "is no whole program of CUDA's");
    fake->fail_in = "cuModuleLoadData";
    fake->times = 1;
    fake->status = HD_CU_NO_BINARY_FOR_GPU;
    require(gpu->load(0, object, bytes) == NULL);
    require_error(HD_ERROR_DEVICE, "CUDA_ERROR_NO_BINARY_FOR_GPU (no kernel image is available); it is no program of "
                                   "this GPU; compile it anew");
    fake->fail_in = "nvrtcCompileProgram";
    fake->times = 1;
    fake->status = 5;
    hd_array_release(object);
    require(gpu->compile(0, "program", scale_text, &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "nvrtcCompileProgram gives 5 (NVRTC 13.0): it is older than this GPU; install");
    nothing_is_left(1);
}
static void no_nvrtc(const void *nothing) {
    (void)nothing;
    void *object;
    size_t bytes;
    setenv("HODU_NVRTC", "/nowhere", 1);
    with_driver(FAKE_CUDA, "1");
    require(gpu->compile(0, "program", scale_text, &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "cuda:0: HODU_NVRTC=/nowhere: ");
    hd_set_device(hd_cuda(0)); /* memory needs none */
    HD_SCOPE;
    hd_tensor *x = hd_full(HD_SHAPE(2), HD_F32, 1);
    require(hd_ok() && hd_item(hd_select(x, 0, 1)) == 1);
    hd_neg(x);
    require_error(HD_ERROR_DEVICE, "hd_neg: cuda:0: HODU_NVRTC=/nowhere: ");
    hd_set_device(hd_cpu());
}
static void another_nvrtc(const void *nothing) {
    (void)nothing;
    void *object;
    size_t bytes;
    setenv("HODU_NVRTC", FAKE_CUDA_EMPTY, 1);
    with_driver(FAKE_CUDA, "1");
    require(gpu->compile(0, "program", scale_text, &object, &bytes) != HD_OK);
    require_error(HD_ERROR_DEVICE, "cuda:0: the NVRTC that is here has no nvrtcVersion: it is older than CUDA 12");
}
static void text_that_does_not_compile_is_an_error(void **state) {
    (void)state;
    in_child(bad_text, NULL);
    in_child(no_nvrtc, NULL);
    in_child(another_nvrtc, NULL);
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */
static void records(const void *nothing) {
    (void)nothing;
    float y[4];
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "1");
    hd_thread *thread = hd_thread_self();
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *scale = gpu->function(p, "scale");
    hd_block *a = block_of(0, 16), *b = block_of(0, 16);
    require(fill(there(a, 0), &(float){1}, 4, 4) == HD_OK && gpu->record(0) == HD_OK);
    require(gpu->record(0) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "this thread is recording already");
    hd_block *between = block_of(0, 16); /* is the recording's, too */
    require(launch(0, scale, there(a, 0), there(between, 0), 4, 2, NULL) == HD_OK);
    require(copy(there(a, 0), there(between, 0), 16) == HD_OK);
    require(fill(there(b, 0), &(float){5}, 4, 4) == HD_OK);
    release(between);
    require(copy(here(y), there(a, 0), 16) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "bytes of the host are no part of what is recorded");
    require(launch(0, scale, there(a, 0), there(b, 0), 4, 2, &(int64_t){0}) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "what is recorded takes no time yet");
    require(gpu->recorded(0, &r) == HD_OK && r != NULL);
    require(copy(here(y), there(a, 0), 16) == HD_OK && y[3] == 1); /* nothing has run */
    hd_block *other = block_of(0, 16);
    require(other->address != between->address);
    for (int i = 0; i < 3; ++i) require(gpu->replay(r) == HD_OK);
    require(copy(here(y), there(a, 0), 16) == HD_OK && y[0] == 8 && y[3] == 8);
    require(copy(here(y), there(b, 0), 16) == HD_OK && y[0] == 5);
    require(gpu->replay(r) == HD_OK);
    gpu->forget(thread, r); /* while it is under way */
    gpu->forget(thread, NULL);
    require(copy(here(y), there(a, 0), 16) == HD_OK && y[0] == 16);
    require(gpu->record(0) == HD_OK && fill(there(a, 0), &(float){0}, 4, 4) == HD_OK);
    require(gpu->recorded(0, NULL) == HD_OK); /* given up */
    require(gpu->recorded(0, &r) != HD_OK && r == NULL);
    require_error(HD_ERROR_INTERNAL, "this thread is not recording");
    require(copy(here(y), there(a, 0), 16) == HD_OK && y[0] == 16 && fake->replays == 4);
    release(a);
    release(b);
    release(other);
    gpu->unload(p);
    nothing_is_left(1);
}
/* Steps that do not need each other run in any order, the fake's latest first; others in theirs. */
static void lanes(const void *nothing) {
    (void)nothing;
    enum { STEPS = 24 };
    float y[4];
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *scale = gpu->function(p, "scale");
    hd_block *a = block_of(0, 4 * (STEPS + 1));
    require(fill(there(a, 0), &(float){1}, 4, 1) == HD_OK && gpu->record(0) == HD_OK);
    require(gpu->step(0, 1, NULL, 0) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "step 1 of a recording does not follow");
    for (uint32_t i = 0; i < STEPS; ++i) { /* three chains: number i + 1 is twice number i - 2, or 2, 4, 6 */
        require(gpu->step(0, i, &(uint32_t){i - 3}, i < 3 ? 0 : 1) == HD_OK);
        const hd_address from = i < 3 ? there(a, 0) : there(a, 4 * (i - 2));
        require(launch(0, scale, from, there(a, 4 * (i + 1)), 1, i < 3 ? 2 * (float)(i + 1) : 2, NULL) == HD_OK);
    }
    require(gpu->step(0, STEPS, (uint32_t[]){STEPS - 3, STEPS - 2, STEPS - 1}, 3) == HD_OK);
    require(copy(there(a, 4), there(a, 4 * (STEPS - 2)), 12) == HD_OK);
    require(gpu->recorded(0, &r) == HD_OK);
    for (int i = 0; i < 2; ++i) require(gpu->replay(r) == HD_OK);
    require(copy(here(y), there(a, 0), 16) == HD_OK);
    require(y[0] == 1 && y[1] == 2 * 128 && y[2] == 4 * 128 && y[3] == 6 * 128);
    gpu->forget(hd_thread_self(), r);
    require(gpu->record(0) == HD_OK && gpu->step(0, 0, NULL, 0) == HD_OK && gpu->step(0, 1, NULL, 0) == HD_OK);
    require(gpu->recorded(0, NULL) == HD_OK); /* given up with lanes open */
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void what_is_recorded_runs_later(void **state) {
    (void)state;
    in_child(records, NULL);
    in_child(lanes, NULL);
}

/* ---- several devices --------------------------------------------------------------------------------------------- */
static void two_devices(const void *nothing) {
    (void)nothing;
    enum { COUNT = 5000 };
    float x[COUNT], y[COUNT];
    with_driver(FAKE_CUDA, "2");
    hd_gpu_program *p[2] = {program_on(0), program_on(1)};
    for (int i = 0; i < COUNT; ++i) x[i] = (float)i;
    hd_block *a = block_of(0, sizeof x), *b = block_of(1, sizeof x), *c = block_of(1, 64);
    require(copy(there(a, 0), here(x), sizeof x) == HD_OK);
    require(copy(there(b, 0), there(a, 0), sizeof x) == HD_OK);
    require(launch(1, gpu->function(p[1], "scale"), there(b, 0), there(b, 0), COUNT, 5, NULL) == HD_OK);
    release(c); /* of the other, between launches of this one */
    hd_heap_trim(&hd_cuda_device_at(1)->heap);
    require(fill(there(a, 0), &(float){1}, 4, 1) == HD_OK);
    c = block_of(0, 64);
    release(c);
    hd_heap_trim(&hd_cuda_device_at(0)->heap);
    require(launch(1, gpu->function(p[1], "scale"), there(b, 0), there(b, 0), COUNT, 5, NULL) == HD_OK);
    require(copy(there(a, 0), there(b, 0), sizeof x) == HD_OK);
    require(copy(here(y), there(a, 0), sizeof y) == HD_OK);
    for (int i = 0; i < COUNT; ++i) require(y[i] == 25 * x[i]);
    require(launch(0, gpu->function(p[1], "scale"), there(a, 0), there(a, 0), 1, 1, NULL) != HD_OK);
    require_error(HD_ERROR_INTERNAL, "the kernel scale is not loaded on cuda:0");
    release(a);
    gpu->unload(p[1]); /* and then the other, without a switch between */
    require(launch(0, gpu->function(p[0], "scale"), there(b, 0), there(b, 0), 0, 1, NULL) == HD_OK);
    release(b);
    gpu->unload(p[0]);
    nothing_is_left(2);
}
/* What others in the process do with the thread's context is nothing to us. */
static void another_context(const void *nothing) {
    (void)nothing;
    with_driver(FAKE_CUDA, "2");
    hd_block *a = block_of(0, 64), *b = block_of(1, 64);
    require(hd_cu.context_set(hd_cuda_device_at(1)->context) == 0 && fill(there(a, 0), "x", 1, 64) == HD_OK);
    require(hd_cu.context_set(hd_cuda_device_at(1)->context) == 0 && synchronize(0) == HD_OK);
    require(hd_cu.context_set(hd_cuda_device_at(0)->context) == 0 && fill(there(b, 0), "x", 1, 64) == HD_OK);
    release(a);
    release(b);
    nothing_is_left(2);
}
static void devices_know_each_other_through_the_host(void **state) {
    (void)state;
    in_child(two_devices, NULL);
    in_child(another_context, NULL);
}

/* ---- figures, limits, trims -------------------------------------------------------------------------------------- */
static size_t taken(void) { return fake->memory_used[0]; }
static void memory_is_told_of(const void *nothing) {
    (void)nothing;
    hd_memory_trim(); /* which opens no driver */
    with_driver(FAKE_CUDA, "2");
    hd_memory_trim();
    require(fake->starts == 0);
    fake->memory = 1 << 20;
    hd_memory_stats m = hd_device_memory(hd_cuda(1));
    require(m.live_bytes == 0 && fake->objects == 0); /* it is asked for without a context */
    release(block_of(1, 65536));
    memory_story(hd_cuda(0), taken);
    m = hd_device_memory(hd_cuda(1)); /* which was trimmed with all, and else is left alone */
    require(m.cached_bytes == 0 && m.system_allocations == 1 && fake->memory_used[1] == 0);
    nothing_is_left(2);
}
static void memory_has_figures_and_limits(void **state) {
    (void)state;
    in_child(memory_is_told_of, NULL);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static hd_gpu_function *shared_scale;
static void *works(void *number) {
    enum { COUNT = 300, ROUNDS = 40 };
    const float mine = (float)*(const int *)number;
    float x[COUNT], y[COUNT];
    hd_gpu_recording *r = NULL;
    hd_block *a = block_of(0, sizeof x), *b = block_of(0, sizeof x);
    for (int round = 0; round < ROUNDS; ++round) {
        for (int i = 0; i < COUNT; ++i) x[i] = mine + (float)(round * i);
        require(copy(there(a, 0), here(x), sizeof x) == HD_OK);
        if (round == ROUNDS / 2) { /* while the others run theirs */
            require(gpu->record(0) == HD_OK &&
                    launch(0, shared_scale, there(a, 0), there(b, 0), COUNT, 3, NULL) == HD_OK);
            require(gpu->recorded(0, &r) == HD_OK);
        }
        if (r != NULL)
            require(gpu->replay(r) == HD_OK);
        else
            require(launch(0, shared_scale, there(a, 0), there(b, 0), COUNT, 3, NULL) == HD_OK);
        require(copy(here(y), there(b, 0), sizeof y) == HD_OK);
        for (int i = 0; i < COUNT; ++i) require(y[i] == 3 * x[i]);
    }
    gpu->forget(hd_thread_self(), r);
    release(a);
    release(b);
    return NULL;
}
static void threads(const void *nothing) {
    (void)nothing;
    pthread_t all[2], other;
    int numbers[2] = {1, 2};
    hd_device device = hd_cuda(0);
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    require((shared_scale = gpu->function(p, "scale")) != NULL);
    require(pthread_create(&other, NULL, changes_memory, &device) == 0);
    for (int i = 0; i < 2; ++i) require(pthread_create(&all[i], NULL, works, &numbers[i]) == 0);
    for (int i = 0; i < 2; ++i) require(pthread_join(all[i], NULL) == 0);
    atomic_store(&memory_is_left_alone, true);
    require(pthread_join(other, NULL) == 0);
    gpu->unload(p);
    nothing_is_left(1);
}
static void *opens(void *nothing) {
    (void)nothing;
    release(block_of(0, 100));
    return NULL;
}
static void threads_open(const void *nothing) {
    (void)nothing;
    pthread_t all[4];
    with_driver(FAKE_CUDA, "1");
    for (int i = 0; i < 4; ++i) require(pthread_create(&all[i], NULL, opens, NULL) == 0);
    for (int i = 0; i < 4; ++i) require(pthread_join(all[i], NULL) == 0);
    require(fake->starts == 1);
    nothing_is_left(1);
}
static void many_threads_use_one_device(void **state) {
    (void)state;
    in_child(threads_open, NULL);
    in_child(threads, NULL);
}

/* ---- forks, and the end ------------------------------------------------------------------------------------------ */
static void child_of(hd_block *a, hd_gpu_program *p, hd_gpu_function *scale, hd_gpu_recording *r) {
    const char reason[] = "NVIDIA's driver was opened before this process was forked";
    const size_t taken_before = fake->memory_used[0];
    hd_memory_trim(); /* leaves the parent's memory alone */
    hd_memory_reset_peak();
    require(hd_ok() && taken_before > 64 && fake->memory_used[0] == taken_before);
    require(hd_device_memory(hd_cuda(0)).live_bytes == 0);
    require_error(HD_ERROR_DEVICE, reason);
    require(cuda->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, reason);
    require(fill(there(a, 0), "x", 1, 1) != HD_OK);
    require_error(HD_ERROR_DEVICE, "use it only after forking, or start the child with exec");
    require(launch(0, scale, there(a, 0), there(a, 0), 1, 1, NULL) != HD_OK);
    require_error(HD_ERROR_DEVICE, reason);
    require(synchronize(0) != HD_OK && gpu->replay(r) != HD_OK && gpu->record(0) != HD_OK);
    require_error(HD_ERROR_DEVICE, reason);
    hd_set_device(hd_cuda(0));
    require_error(HD_ERROR_DEVICE, reason);
    gpu->forget(hd_thread_self(), r);
    gpu->unload(p);
    release(a);
    require(hd_ok() && hd_device_count(HD_DEVICE_CUDA) == 0);
    exit(0); /* with all functions of atexit */
}
static void forks(const void *nothing) {
    (void)nothing;
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "1");
    hd_gpu_program *p = program_on(0);
    hd_gpu_function *scale = gpu->function(p, "scale");
    hd_block *a = block_of(0, 64);
    release(block_of(0, 5000)); /* which is cached */
    require(fill(there(a, 0), &(float){1}, 4, 16) == HD_OK && gpu->record(0) == HD_OK);
    require(launch(0, scale, there(a, 0), there(a, 0), 16, 2, NULL) == HD_OK && gpu->recorded(0, &r) == HD_OK);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) child_of(a, p, scale, r);
    int status = 1;
    float y = 0;
    require(waitpid(child, &status, 0) == child && status == 0);
    require(gpu->replay(r) == HD_OK && copy(here(&y), there(a, 0), 4) == HD_OK && y == 2);
    gpu->forget(hd_thread_self(), r);
    release(a);
    gpu->unload(p);
    nothing_is_left(1);
}
static void forks_while_recording(const void *nothing) {
    (void)nothing;
    hd_gpu_recording *r = NULL;
    with_driver(FAKE_CUDA, "1");
    hd_block *a = block_of(0, 64);
    require(gpu->record(0) == HD_OK && fill(there(a, 0), &(float){1}, 4, 16) == HD_OK);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        require(gpu->recorded(0, &r) != HD_OK && r == NULL);
        require_error(HD_ERROR_DEVICE, "NVIDIA's driver was opened before this process was forked");
        exit(0);
    }
    int status = 1;
    require(waitpid(child, &status, 0) == child && status == 0);
    require(gpu->recorded(0, &r) == HD_OK && gpu->replay(r) == HD_OK);
    gpu->forget(hd_thread_self(), r);
    release(a);
    nothing_is_left(1);
}
static void a_forked_child_gets_errors(void **state) {
    (void)state;
    in_child(forks, NULL);
    in_child(forks_while_recording, NULL);
}

static hd_block *left_block;
static hd_gpu_program *left_program;
static hd_gpu_recording *left_recording;
static void after_the_end(void) { /* registered before the driver is opened, so it comes after the library's */
    require(fake->under_way == 0);
    fake->is_closed = true; /* whoever calls it ends this process */
    gpu->forget(hd_thread_self(), left_recording);
    gpu->unload(left_program);
    release(left_block);
    require(cuda->allocate(hd_thread_self(), 0, 4) == NULL);
    require_error(HD_ERROR_DEVICE, "the process is ending, and NVIDIA's driver with it");
    fake->is_closed = false;
}
static void exits_in_flight(const void *nothing) {
    (void)nothing;
    atexit(after_the_end);
    with_driver(FAKE_CUDA, "2");
    fake->must_finish = true;
    left_program = program_on(1);
    left_block = block_of(1, 4096);
    require(gpu->record(1) == HD_OK && fill(there(left_block, 0), "x", 1, 64) == HD_OK);
    require(gpu->recorded(1, &left_recording) == HD_OK && gpu->replay(left_recording) == HD_OK);
    require(launch(1, gpu->function(left_program, "scale"), there(left_block, 0), there(left_block, 0), 9, 2, NULL) ==
            HD_OK);
    release(block_of(0, 100)); /* its context is this thread's */
    require(fake->under_way > 0);
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
    in_child(exits_in_a_thread, NULL);
}

RUN_WITH_FAKE(test(devices_are_listed), test(bytes_go_there_and_come_back), test(what_is_asked_later_comes_later),
              test(a_kernel_reads_and_writes), test(text_that_does_not_compile_is_an_error),
              test(what_is_recorded_runs_later), test(devices_know_each_other_through_the_host),
              test(memory_has_figures_and_limits), test(many_threads_use_one_device), test(a_forked_child_gets_errors),
              test(a_process_may_end_with_work_under_way))
