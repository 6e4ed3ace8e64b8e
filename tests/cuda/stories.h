/* What the stories about CUDA's device share: blocks, copies, and a program. */
#ifndef HD_TESTS_CUDA_STORIES_H
#define HD_TESTS_CUDA_STORIES_H

#include "core/away.h"
#include "cuda/open_fake.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/driver.h"

static const hd_device_interface *const cuda = &hd_cuda_interface;
static const hd_gpu_interface *const gpu = &hd_cuda_gpu;

static inline hd_address there(const hd_block *b, size_t offset) {
    return (hd_address){b->device, (char *)b->address + offset};
}
static inline hd_address here(const void *memory) { return (hd_address){hd_cpu(), (void *)(uintptr_t)memory}; }
static inline hd_block *block_of(int index, size_t bytes) {
    hd_block *b = cuda->allocate(hd_thread_self(), index, bytes);
    require(b != NULL);
    return b;
}
static inline void release(hd_block *b) { hd_block_release(hd_thread_self(), b); }
static inline hd_error copy(hd_address to, hd_address from, size_t bytes) {
    return cuda->copy(hd_thread_self(), to, from, bytes);
}
static inline hd_error fill(hd_address to, const void *element, size_t size, size_t count) {
    return cuda->fill(hd_thread_self(), to, element, size, count);
}
static inline hd_error synchronize(int index) { return cuda->synchronize(hd_thread_self(), index); }

/* y = factor * x in groups of 64 threads, and the sum of a group, through shared memory. */
typedef struct scale_arguments {
    int64_t x, y;
    int32_t count;
    float factor;
} scale_arguments;
static const char scale_text[] =
    "typedef struct scale_arguments { long long x, y; int count; float factor; } scale_arguments;\n"
    "extern \"C\" __global__ __launch_bounds__(64) void scale(char *b0, char *b1, const scale_arguments a) {\n"
    "    const int i = (int)(blockIdx.x * 64 + threadIdx.x);\n"
    "    if (i < a.count) ((float *)(b1 + a.y))[i] = a.factor * ((const float *)(b0 + a.x))[i];\n"
    "}\n"
    "extern \"C\" __global__ void sum(char *b0, char *b1, const scale_arguments a) {\n"
    "    __shared__ float part[64];\n"
    "    part[threadIdx.x] = ((const float *)(b0 + a.x))[blockIdx.x * 64 + threadIdx.x];\n"
    "    __syncthreads();\n"
    "    for (int span = 32; span > 0; span /= 2) {\n"
    "        if (threadIdx.x < span) part[threadIdx.x] += part[threadIdx.x + span];\n"
    "        __syncthreads();\n"
    "    }\n"
    "    if (threadIdx.x == 0) ((float *)(b1 + a.y))[blockIdx.x] = part[0];\n"
    "}\n";
static inline hd_gpu_program *program_on(int index) {
    void *object;
    size_t bytes;
    require(gpu->compile(index, "program", scale_text, &object, &bytes) == HD_OK);
    hd_gpu_program *p = gpu->load(index, object, bytes);
    hd_array_release(object);
    require(p != NULL);
    return p;
}
static inline hd_error launch(int index, hd_gpu_function *f, hd_address x, hd_address y, int count, float factor,
                              int64_t *nanoseconds) {
    scale_arguments a = {.x = 7, .y = 7, .count = count, .factor = factor}; /* offsets are filled in */
    return gpu->launch(index, &(hd_gpu_launch){.function = f,
                                               .groups = {(uint32_t)(count + 63) / 64, 1, 1},
                                               .threads = {64, 1, 1},
                                               .buffers = (void *[]){x.pointer, y.pointer},
                                               .buffer_count = 2,
                                               .arguments = &a,
                                               .argument_bytes = sizeof a,
                                               .nanoseconds = nanoseconds});
}

/* Of each device that was used, the stream, two events, and of the stages that were used an event and memory each are
 * there to stay; nothing else is. */
static inline void nothing_is_left(int devices) {
    int64_t stay = 0;
    for (int i = 0; i < devices; ++i) {
        require(synchronize(i) == HD_OK);
        hd_heap_trim(&hd_cuda_device_at(i)->heap);
        require(hd_cuda_device_at(i)->heap.used_bytes == 0 && hd_cuda_device_at(i)->heap.cached_bytes == 0);
        require(fake->memory_used[i] == 0);
        stay += 3;
    }
    const int64_t stages = (int64_t)(fake->host_used >> 22); /* of 4 MB */
    require(stages <= 4 * devices && fake->host_used == (size_t)stages << 22);
    if (fake->objects != stay + 2 * stages)
        fprintf(stderr, "%lld objects, expected %lld (%s failed)\n", (long long)fake->objects,
                (long long)(stay + 2 * stages), fake->failed != NULL ? fake->failed : "nothing");
    require(fake->objects == stay + 2 * stages && fake->under_way == 0);
}

#endif
