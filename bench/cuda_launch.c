/* What a launch costs the host by itself: cuLaunchKernel of an empty kernel with three pointers, from the driver alone.
 * It prints nanoseconds a launch: in batches that fit the driver's queue, and for all in a row with one wait behind
 * them. Nothing of CUDA is needed to build it; without a driver or a GPU it says so and ends with 77. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES = 20000, BATCH = 500, BATCHES = LAUNCHES / BATCH };

static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                           ".visible .entry nothing(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The functions of libcuda.so.1 that are used; objects are pointers, devices numbers, addresses of the GPU 64 bits. */
static int (*init)(unsigned flags);
static int (*device_get)(int *device, int index);
static int (*context_retain)(void **context, int device);
static int (*context_set)(void *context);
static int (*module_load)(void **module, const void *image);
static int (*function_get)(void **function, void *module, const char *name);
static int (*stream_create)(void **stream, unsigned flags);
static int (*stream_wait)(void *stream);
static int (*allocate)(uint64_t *address, size_t bytes);
static int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                     unsigned shared, void *stream, void **arguments, void **extra);

static const char *open_driver(void) { /* why not; NULL: it is open */
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return dlerror();
    const struct {
        void **function;
        const char *name;
    } table[] = {{(void **)&init, "cuInit"},
                 {(void **)&device_get, "cuDeviceGet"},
                 {(void **)&context_retain, "cuDevicePrimaryCtxRetain"},
                 {(void **)&context_set, "cuCtxSetCurrent"},
                 {(void **)&module_load, "cuModuleLoadData"},
                 {(void **)&function_get, "cuModuleGetFunction"},
                 {(void **)&stream_create, "cuStreamCreate"},
                 {(void **)&stream_wait, "cuStreamSynchronize"},
                 {(void **)&allocate, "cuMemAlloc_v2"},
                 {(void **)&launch, "cuLaunchKernel"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if ((*table[i].function = dlsym(library, table[i].name)) == NULL) return table[i].name;
    return NULL;
}

static void must(int status, const char *what) {
    if (status == 0) return;
    fprintf(stderr, "cuda_launch: %s gives %d\n", what, status);
    exit(what[0] == 'c' && what[1] == 'u' && what[2] == 'I' ? 77 : 1);
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void) {
    void *context, *module, *function, *stream;
    uint64_t memory[3];
    int device;
    const char *missing = open_driver();
    if (missing != NULL) return fprintf(stderr, "cuda_launch: there is no driver of CUDA: %s\n", missing), 77;
    must(init(0), "cuInit");
    must(device_get(&device, 0), "cuDeviceGet");
    must(context_retain(&context, device), "cuDevicePrimaryCtxRetain");
    must(context_set(context), "cuCtxSetCurrent");
    must(module_load(&module, text), "cuModuleLoadData");
    must(function_get(&function, module, "nothing"), "cuModuleGetFunction");
    must(stream_create(&stream, 1), "cuStreamCreate"); /* 1: it does not wait for the default stream */
    for (int i = 0; i < 3; ++i) must(allocate(&memory[i], 64), "cuMemAlloc");
    void *arguments[] = {&memory[0], &memory[1], &memory[2]};
    double batch[BATCHES], begin;
    for (int k = 0; k < BATCHES; ++k) { /* the first ones are warm-up: the median does not see them */
        begin = now();
        for (int i = 0; i < BATCH; ++i)
            must(launch(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
        batch[k] = (now() - begin) / BATCH;
        must(stream_wait(stream), "cuStreamSynchronize");
    }
    qsort(batch, BATCHES, sizeof *batch, compare);
    begin = now();
    for (int i = 0; i < LAUNCHES; ++i)
        must(launch(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel");
    must(stream_wait(stream), "cuStreamSynchronize");
    printf("host %.1f ns a launch, in a row %.1f ns\n", batch[BATCHES / 2] * 1e9, (now() - begin) / LAUNCHES * 1e9);
    return 0;
}
