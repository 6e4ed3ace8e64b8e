/* A driver of OpenCL's that fails when it is told to, for test_faults.c. Its memory is the host's; its programs are
 * their text, and have one kernel, "move", which moves bytes from its first buffer to its second. Copies with the host
 * that do not block are done as late as they may be: when somebody waits, or before the next command that blocks. */
#include "opencl/fake_opencl.h"
#include "device/opencl/opencl.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN __attribute__((visibility("default")))

#ifdef WITHOUT_FUNCTIONS
extern SHOWN int fake_opencl_is_something_else;
int fake_opencl_is_something_else = 1;
#else

extern SHOWN fake_opencl fake_opencl_now;
fake_opencl fake_opencl_now = {.fail_at = -1, .memory = 1 << 20};

struct hd_cl_platform {
    int number;
};
struct hd_cl_device {
    int number;
};
struct hd_cl_context {
    int unused;
};
struct hd_cl_queue {
    int unused;
};
struct hd_cl_memory {
    size_t bytes, taken; /* taken: of the device's memory */
    unsigned char data[];
};
struct hd_cl_program {
    size_t bytes;
    char *text;
};
struct hd_cl_kernel {
    hd_cl_memory *buffers[2];
    struct {
        int64_t from, to, count;
    } arguments;
};
struct hd_cl_event {
    int unused;
};

/* ---- failing ----------------------------------------------------------------------------------------------------- */
static int32_t fails(const char *function) {
    fake_opencl *f = &fake_opencl_now;
    const bool named = f->times > 0 && strcmp(f->fail_in, function) == 0 && f->skip-- <= 0;
    const bool now = f->calls++ == f->fail_at || named;
    if (named) f->times--;
    return now ? f->status : 0;
}
static int32_t command_fails(const char *function) {
    const int32_t status = fails(function);
    return status != 0 ? status : fake_opencl_now.lost;
}
#define FAIL(function)                                                                                                 \
    do {                                                                                                               \
        const int32_t status_ = fails(function);                                                                       \
        if (status_ != 0) return status_;                                                                              \
    } while (0)
#define FAIL_COMMAND(function)                                                                                         \
    do {                                                                                                               \
        const int32_t status_ = command_fails(function);                                                               \
        if (status_ != 0) return status_;                                                                              \
    } while (0)
#define FAIL_NEW(function)                                                                                             \
    do {                                                                                                               \
        *status = fails(function);                                                                                     \
        if (*status != 0) return NULL;                                                                                 \
    } while (0)

static void *made(size_t bytes) {
    fake_opencl_now.objects++;
    return calloc(1, bytes);
}
static void gone(void *object) {
    fake_opencl_now.objects--;
    free(object);
}

/* ---- copies that do not block ------------------------------------------------------------------------------------ */
static struct {
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } of[64];
    int count;
} late;
static void do_late(void) {
    for (int i = 0; i < late.count; ++i) memcpy(late.of[i].to, late.of[i].from, late.of[i].bytes);
    late.count = 0;
}
static void copy_late(void *to, const void *from, size_t bytes, hd_cl_event **event) {
    if (late.count == 64) do_late();
    late.of[late.count].to = to;
    late.of[late.count].from = from;
    late.of[late.count++].bytes = bytes;
    *event = made(sizeof(hd_cl_event));
}
static int32_t give(const void *value, size_t size, size_t capacity, void *out, size_t *bytes) {
    if (bytes != NULL) *bytes = size;
    if (out == NULL) return 0;
    if (capacity < size) return HD_CL_INVALID_VALUE;
    memcpy(out, value, size);
    return 0;
}
static int32_t give_text(const char *text, size_t capacity, void *out, size_t *bytes) {
    return give(text, strlen(text) + 1, capacity, out, bytes);
}

/* ---- platforms and devices --------------------------------------------------------------------------------------- */
static const char *wish(void) { return getenv("FAKE_OPENCL") != NULL ? getenv("FAKE_OPENCL") : "1 1"; }
static void wished(int *platforms, int *devices) {
    *platforms = *devices = 1;
    if (sscanf(wish(), "%d %d", platforms, devices) != 2) *platforms = *devices = 1;
}
static hd_cl_platform all_platforms[64];
static hd_cl_device all_devices[64];

SHOWN int32_t clGetPlatformIDs(uint32_t most, hd_cl_platform **out, uint32_t *count);
int32_t clGetPlatformIDs(uint32_t most, hd_cl_platform **out, uint32_t *count) {
    int platforms, devices;
    FAIL("clGetPlatformIDs");
    if (strcmp(wish(), "none") == 0) return HD_CL_PLATFORM_NOT_FOUND_KHR;
    if (strcmp(wish(), "broken") == 0) return HD_CL_OUT_OF_HOST_MEMORY;
    wished(&platforms, &devices);
    for (int i = 0; i < platforms && i < (int)most; ++i) {
        all_platforms[i].number = i;
        out[i] = &all_platforms[i];
    }
    *count = (uint32_t)platforms;
    return 0;
}

SHOWN int32_t clGetPlatformInfo(hd_cl_platform *platform, uint32_t what, size_t capacity, void *out, size_t *bytes);
int32_t clGetPlatformInfo(hd_cl_platform *platform, uint32_t what, size_t capacity, void *out, size_t *bytes) {
    (void)platform;
    FAIL("clGetPlatformInfo");
    return give_text(what == HD_CL_PLATFORM_NAME ? "fake" : "OpenCL 1.2 fake", capacity, out, bytes);
}

SHOWN int32_t clGetDeviceIDs(hd_cl_platform *platform, uint64_t type, uint32_t most, hd_cl_device **out,
                             uint32_t *count);
int32_t clGetDeviceIDs(hd_cl_platform *platform, uint64_t type, uint32_t most, hd_cl_device **out, uint32_t *count) {
    int platforms, devices;
    (void)type;
    FAIL("clGetDeviceIDs");
    wished(&platforms, &devices);
    if (devices == 0) return HD_CL_DEVICE_NOT_FOUND;
    for (int i = 0; i < devices && i < (int)most; ++i) {
        hd_cl_device *d = &all_devices[(platform->number * devices + i) % 64];
        d->number = platform->number * devices + i;
        out[i] = d;
    }
    *count = (uint32_t)devices;
    return 0;
}

SHOWN int32_t clGetDeviceInfo(hd_cl_device *device, uint32_t what, size_t capacity, void *out, size_t *bytes);
int32_t clGetDeviceInfo(hd_cl_device *device, uint32_t what, size_t capacity, void *out, size_t *bytes) {
    char name[64];
    FAIL("clGetDeviceInfo");
    snprintf(name, sizeof name, "  fake device %d ", device->number);
    const uint64_t memory = fake_opencl_now.memory, half = memory / 2, local = 32768, no_f64 = 0;
    const uint32_t units = 7, warp = 32, unified = strcmp(wish(), "unified") == 0;
    const size_t group = 256, arguments = 1024;
    switch (what) {
    case HD_CL_DEVICE_NAME: return give_text(name, capacity, out, bytes);
    case HD_CL_DEVICE_VERSION:
        return give_text(strcmp(wish(), "old") == 0 ? "OpenCL 1.1 fake" : "OpenCL 1.2 fake", capacity, out, bytes);
    case HD_CL_DRIVER_VERSION: return give_text("1", capacity, out, bytes);
    case HD_CL_DEVICE_EXTENSIONS:
        return give_text("cl_nv_device_attribute_query cl_khr_int64_base_atomics_not", capacity, out, bytes);
    case HD_CL_DEVICE_MEMORY: return give(&memory, sizeof memory, capacity, out, bytes);
    case HD_CL_DEVICE_BLOCK_MOST: return give(&half, sizeof half, capacity, out, bytes);
    case HD_CL_DEVICE_LOCAL_MEMORY: return give(&local, sizeof local, capacity, out, bytes);
    case HD_CL_DEVICE_UNIFIED: return give(&unified, sizeof unified, capacity, out, bytes);
    case HD_CL_DEVICE_F64: return give(&no_f64, sizeof no_f64, capacity, out, bytes);
    case HD_CL_DEVICE_UNITS: return give(&units, sizeof units, capacity, out, bytes);
    case HD_CL_DEVICE_WARP: return give(&warp, sizeof warp, capacity, out, bytes);
    case HD_CL_DEVICE_GROUP_MOST: return give(&group, sizeof group, capacity, out, bytes);
    case HD_CL_DEVICE_ARGUMENT_BYTES: return give(&arguments, sizeof arguments, capacity, out, bytes);
    default: return HD_CL_INVALID_VALUE;
    }
}

/* ---- contexts, queues, events ------------------------------------------------------------------------------------ */
SHOWN hd_cl_context *clCreateContext(const intptr_t *properties, uint32_t count, hd_cl_device *const *devices,
                                     hd_cl_told told, void *user, int32_t *status);
hd_cl_context *clCreateContext(const intptr_t *properties, uint32_t count, hd_cl_device *const *devices,
                               hd_cl_told told, void *user, int32_t *status) {
    (void)properties, (void)count, (void)devices, (void)told, (void)user;
    FAIL_NEW("clCreateContext");
    return made(sizeof(hd_cl_context));
}
SHOWN int32_t clReleaseContext(hd_cl_context *context);
int32_t clReleaseContext(hd_cl_context *context) {
    gone(context);
    return fails("clReleaseContext");
}
SHOWN hd_cl_queue *clCreateCommandQueue(hd_cl_context *context, hd_cl_device *device, uint64_t properties,
                                        int32_t *status);
hd_cl_queue *clCreateCommandQueue(hd_cl_context *context, hd_cl_device *device, uint64_t properties, int32_t *status) {
    (void)context, (void)device;
    FAIL_NEW("clCreateCommandQueue");
    *status = properties == HD_CL_QUEUE_PROFILE ? 0 : HD_CL_INVALID_QUEUE_PROPERTIES;
    return *status == 0 ? made(sizeof(hd_cl_queue)) : NULL;
}
SHOWN int32_t clFinish(hd_cl_queue *queue);
int32_t clFinish(hd_cl_queue *queue) {
    (void)queue;
    FAIL_COMMAND("clFinish");
    do_late();
    return 0;
}
SHOWN int32_t clFlush(hd_cl_queue *queue);
int32_t clFlush(hd_cl_queue *queue) {
    (void)queue;
    FAIL_COMMAND("clFlush");
    return 0;
}
SHOWN int32_t clEnqueueMarkerWithWaitList(hd_cl_queue *queue, uint32_t wait_count, hd_cl_event *const *wait,
                                          hd_cl_event **event);
int32_t clEnqueueMarkerWithWaitList(hd_cl_queue *queue, uint32_t wait_count, hd_cl_event *const *wait,
                                    hd_cl_event **event) {
    (void)queue, (void)wait_count, (void)wait;
    FAIL_COMMAND("clEnqueueMarkerWithWaitList");
    *event = made(sizeof(hd_cl_event));
    return 0;
}
SHOWN int32_t clWaitForEvents(uint32_t count, hd_cl_event *const *events);
int32_t clWaitForEvents(uint32_t count, hd_cl_event *const *events) {
    (void)count, (void)events;
    FAIL_COMMAND("clWaitForEvents");
    do_late();
    return 0;
}
SHOWN int32_t clGetEventProfilingInfo(hd_cl_event *event, uint32_t what, size_t capacity, void *out, size_t *bytes);
int32_t clGetEventProfilingInfo(hd_cl_event *event, uint32_t what, size_t capacity, void *out, size_t *bytes) {
    (void)event;
    FAIL("clGetEventProfilingInfo");
    const uint64_t time = what == HD_CL_EVENT_STARTED ? 1000 : 1234;
    return give(&time, sizeof time, capacity, out, bytes);
}
SHOWN int32_t clReleaseEvent(hd_cl_event *event);
int32_t clReleaseEvent(hd_cl_event *event) {
    gone(event);
    return fails("clReleaseEvent");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
SHOWN hd_cl_memory *clCreateBuffer(hd_cl_context *context, uint64_t flags, size_t bytes, void *host, int32_t *status);
hd_cl_memory *clCreateBuffer(hd_cl_context *context, uint64_t flags, size_t bytes, void *host, int32_t *status) {
    (void)context, (void)host;
    FAIL_NEW("clCreateBuffer");
    const size_t taken = (flags & HD_CL_PINNED) != 0 ? 0 : bytes;
    if (taken > fake_opencl_now.memory - fake_opencl_now.memory_used) {
        *status = HD_CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    hd_cl_memory *m = made(sizeof *m + bytes);
    m->bytes = bytes;
    m->taken = taken;
    fake_opencl_now.memory_used += taken;
    return m;
}
SHOWN int32_t clReleaseMemObject(hd_cl_memory *memory);
int32_t clReleaseMemObject(hd_cl_memory *memory) {
    do_late(); /* which may need it */
    fake_opencl_now.memory_used -= memory->taken;
    gone(memory);
    return fails("clReleaseMemObject");
}
SHOWN void *clEnqueueMapBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, uint64_t flags,
                               size_t offset, size_t bytes, uint32_t wait_count, hd_cl_event *const *wait,
                               hd_cl_event **event, int32_t *status);
void *clEnqueueMapBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, uint64_t flags, size_t offset,
                         size_t bytes, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event,
                         int32_t *status) {
    (void)queue, (void)wait_count, (void)wait, (void)event;
    FAIL_NEW("clEnqueueMapBuffer");
    *status = fake_opencl_now.lost;
    if (*status == 0 && (blocking == 0 || flags != HD_CL_MAP_BOTH || offset + bytes > memory->bytes))
        *status = HD_CL_INVALID_VALUE;
    return *status == 0 ? memory->data + offset : NULL;
}
SHOWN int32_t clEnqueueReadBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, size_t offset,
                                  size_t bytes, void *out, uint32_t wait_count, hd_cl_event *const *wait,
                                  hd_cl_event **event);
int32_t clEnqueueReadBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, size_t offset, size_t bytes,
                            void *out, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event) {
    (void)queue, (void)wait_count, (void)wait;
    FAIL_COMMAND("clEnqueueReadBuffer");
    if (offset + bytes > memory->bytes || (blocking == 0) != (event != NULL)) return HD_CL_INVALID_VALUE;
    if (blocking == 0) {
        copy_late(out, memory->data + offset, bytes, event);
        return 0;
    }
    do_late();
    memcpy(out, memory->data + offset, bytes);
    return 0;
}
SHOWN int32_t clEnqueueWriteBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, size_t offset,
                                   size_t bytes, const void *from, uint32_t wait_count, hd_cl_event *const *wait,
                                   hd_cl_event **event);
int32_t clEnqueueWriteBuffer(hd_cl_queue *queue, hd_cl_memory *memory, uint32_t blocking, size_t offset, size_t bytes,
                             const void *from, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event) {
    (void)queue, (void)wait_count, (void)wait;
    FAIL_COMMAND("clEnqueueWriteBuffer");
    if (offset + bytes > memory->bytes || (blocking == 0) != (event != NULL)) return HD_CL_INVALID_VALUE;
    if (blocking == 0) {
        copy_late(memory->data + offset, from, bytes, event);
        return 0;
    }
    do_late();
    memcpy(memory->data + offset, from, bytes);
    return 0;
}
SHOWN int32_t clEnqueueCopyBuffer(hd_cl_queue *queue, hd_cl_memory *from, hd_cl_memory *to, size_t from_offset,
                                  size_t to_offset, size_t bytes, uint32_t wait_count, hd_cl_event *const *wait,
                                  hd_cl_event **event);
int32_t clEnqueueCopyBuffer(hd_cl_queue *queue, hd_cl_memory *from, hd_cl_memory *to, size_t from_offset,
                            size_t to_offset, size_t bytes, uint32_t wait_count, hd_cl_event *const *wait,
                            hd_cl_event **event) {
    (void)queue, (void)wait_count, (void)wait, (void)event;
    FAIL_COMMAND("clEnqueueCopyBuffer");
    if (from_offset + bytes > from->bytes || to_offset + bytes > to->bytes) return HD_CL_INVALID_VALUE;
    do_late();
    if (from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes) return HD_CL_MEM_COPY_OVERLAP;
    memcpy(to->data + to_offset, from->data + from_offset, bytes);
    return 0;
}
SHOWN int32_t clEnqueueFillBuffer(hd_cl_queue *queue, hd_cl_memory *memory, const void *element, size_t size,
                                  size_t offset, size_t bytes, uint32_t wait_count, hd_cl_event *const *wait,
                                  hd_cl_event **event);
int32_t clEnqueueFillBuffer(hd_cl_queue *queue, hd_cl_memory *memory, const void *element, size_t size, size_t offset,
                            size_t bytes, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event) {
    (void)queue, (void)wait_count, (void)wait, (void)event;
    FAIL_COMMAND("clEnqueueFillBuffer");
    if (offset % size != 0 || bytes % size != 0 || offset + bytes > memory->bytes) return HD_CL_INVALID_VALUE;
    do_late();
    for (size_t i = 0; i < bytes; i += size) memcpy(memory->data + offset + i, element, size);
    return 0;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */
static hd_cl_program *program_of(const char *text, size_t bytes) {
    hd_cl_program *p = made(sizeof *p);
    p->bytes = bytes;
    p->text = malloc(bytes + 1);
    memcpy(p->text, text, bytes);
    p->text[bytes] = '\0';
    return p;
}
SHOWN hd_cl_program *clCreateProgramWithSource(hd_cl_context *context, uint32_t count, const char *const *texts,
                                               const size_t *lengths, int32_t *status);
hd_cl_program *clCreateProgramWithSource(hd_cl_context *context, uint32_t count, const char *const *texts,
                                         const size_t *lengths, int32_t *status) {
    (void)context, (void)count, (void)lengths;
    FAIL_NEW("clCreateProgramWithSource");
    return program_of(texts[0], strlen(texts[0]));
}
SHOWN hd_cl_program *clCreateProgramWithBinary(hd_cl_context *context, uint32_t count, hd_cl_device *const *devices,
                                               const size_t *lengths, const unsigned char *const *binaries,
                                               int32_t *each, int32_t *status);
hd_cl_program *clCreateProgramWithBinary(hd_cl_context *context, uint32_t count, hd_cl_device *const *devices,
                                         const size_t *lengths, const unsigned char *const *binaries, int32_t *each,
                                         int32_t *status) {
    (void)context, (void)count, (void)devices;
    FAIL_NEW("clCreateProgramWithBinary");
    *each = 0;
    return program_of((const char *)binaries[0], lengths[0]);
}
SHOWN int32_t clBuildProgram(hd_cl_program *program, uint32_t count, hd_cl_device *const *devices, const char *options,
                             hd_cl_told told, void *user);
int32_t clBuildProgram(hd_cl_program *program, uint32_t count, hd_cl_device *const *devices, const char *options,
                       hd_cl_told told, void *user) {
    (void)count, (void)devices, (void)options, (void)told, (void)user;
    FAIL("clBuildProgram");
    return strstr(program->text, "broken") != NULL ? HD_CL_BUILD_PROGRAM_FAILURE : 0;
}
SHOWN int32_t clGetProgramInfo(hd_cl_program *program, uint32_t what, size_t capacity, void *out, size_t *bytes);
int32_t clGetProgramInfo(hd_cl_program *program, uint32_t what, size_t capacity, void *out, size_t *bytes) {
    FAIL("clGetProgramInfo");
    if (what == HD_CL_PROGRAM_BINARY_SIZES) return give(&program->bytes, sizeof program->bytes, capacity, out, bytes);
    memcpy(*(void **)out, program->text, program->bytes);
    return 0;
}
SHOWN int32_t clGetProgramBuildInfo(hd_cl_program *program, hd_cl_device *device, uint32_t what, size_t capacity,
                                    void *out, size_t *bytes);
int32_t clGetProgramBuildInfo(hd_cl_program *program, hd_cl_device *device, uint32_t what, size_t capacity, void *out,
                              size_t *bytes) {
    char log[2048];
    (void)program, (void)device, (void)what;
    FAIL("clGetProgramBuildInfo");
    memset(log, '.', sizeof log);
    strcpy(log + 1000, "error: this is how it ends\n\n");
    return give_text(log, capacity, out, bytes);
}
SHOWN int32_t clReleaseProgram(hd_cl_program *program);
int32_t clReleaseProgram(hd_cl_program *program) {
    free(program->text);
    gone(program);
    return fails("clReleaseProgram");
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
SHOWN hd_cl_kernel *clCreateKernel(hd_cl_program *program, const char *name, int32_t *status);
hd_cl_kernel *clCreateKernel(hd_cl_program *program, const char *name, int32_t *status) {
    (void)program;
    FAIL_NEW("clCreateKernel");
    *status = strcmp(name, "move") == 0 ? 0 : HD_CL_INVALID_KERNEL_NAME;
    return *status == 0 ? made(sizeof(hd_cl_kernel)) : NULL;
}
SHOWN int32_t clSetKernelArg(hd_cl_kernel *kernel, uint32_t index, size_t bytes, const void *value);
int32_t clSetKernelArg(hd_cl_kernel *kernel, uint32_t index, size_t bytes, const void *value) {
    FAIL("clSetKernelArg");
    if (index > 2) return HD_CL_INVALID_ARG_INDEX;
    if (bytes != (index == 2 ? sizeof kernel->arguments : sizeof(void *))) return HD_CL_INVALID_ARG_SIZE;
    memcpy(index == 2 ? (void *)&kernel->arguments : (void *)&kernel->buffers[index], value, bytes);
    return 0;
}
SHOWN int32_t clGetKernelWorkGroupInfo(hd_cl_kernel *kernel, hd_cl_device *device, uint32_t what, size_t capacity,
                                       void *out, size_t *bytes);
int32_t clGetKernelWorkGroupInfo(hd_cl_kernel *kernel, hd_cl_device *device, uint32_t what, size_t capacity, void *out,
                                 size_t *bytes) {
    (void)kernel, (void)device, (void)what;
    FAIL("clGetKernelWorkGroupInfo");
    const size_t most = 128;
    return give(&most, sizeof most, capacity, out, bytes);
}
SHOWN int32_t clReleaseKernel(hd_cl_kernel *kernel);
int32_t clReleaseKernel(hd_cl_kernel *kernel) {
    gone(kernel);
    return fails("clReleaseKernel");
}
SHOWN int32_t clEnqueueNDRangeKernel(hd_cl_queue *queue, hd_cl_kernel *kernel, uint32_t dimensions, const size_t *first,
                                     const size_t *all, const size_t *group, uint32_t wait_count,
                                     hd_cl_event *const *wait, hd_cl_event **event);
int32_t clEnqueueNDRangeKernel(hd_cl_queue *queue, hd_cl_kernel *kernel, uint32_t dimensions, const size_t *first,
                               const size_t *all, const size_t *group, uint32_t wait_count, hd_cl_event *const *wait,
                               hd_cl_event **event) {
    (void)queue, (void)dimensions, (void)first, (void)all, (void)group, (void)wait_count, (void)wait;
    FAIL_COMMAND("clEnqueueNDRangeKernel");
    do_late();
    memmove(kernel->buffers[1]->data + kernel->arguments.to, kernel->buffers[0]->data + kernel->arguments.from,
            (size_t)kernel->arguments.count);
    if (event != NULL) *event = made(sizeof(hd_cl_event));
    return 0;
}
#endif
