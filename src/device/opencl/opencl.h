/* What is used of OpenCL 1.2, declared here so that nothing of OpenCL is needed to build: its objects, of which only
 * addresses are known, its numbers, and the functions, which are looked up by name. What the numbers are is a fact of
 * the interface, and the same on every system. */
#ifndef HD_DEVICE_OPENCL_OPENCL_H
#define HD_DEVICE_OPENCL_OPENCL_H

#include <stddef.h>
#include <stdint.h>

/* The driver's own. */
typedef struct hd_cl_platform hd_cl_platform;
typedef struct hd_cl_device hd_cl_device;
typedef struct hd_cl_context hd_cl_context;
typedef struct hd_cl_queue hd_cl_queue;
typedef struct hd_cl_memory hd_cl_memory;
typedef struct hd_cl_program hd_cl_program;
typedef struct hd_cl_kernel hd_cl_kernel;
typedef struct hd_cl_event hd_cl_event;
typedef void (*hd_cl_told)(void); /* functions that the driver would call: always NULL here */

enum { /* what is asked of a platform, a device, ... */
       HD_CL_PLATFORM_VERSION = 0x0901,
       HD_CL_PLATFORM_NAME = 0x0902,
       HD_CL_DEVICE_UNITS = 0x1002,
       HD_CL_DEVICE_GROUP_MOST = 0x1004,
       HD_CL_DEVICE_BLOCK_MOST = 0x1010,
       HD_CL_DEVICE_ARGUMENT_BYTES = 0x1017,
       HD_CL_DEVICE_F32 = 0x101b, /* what it can do in f32, bits: */
       HD_CL_ROUNDS_QUOTIENTS = 1 << 7,
       HD_CL_DEVICE_MEMORY = 0x101f,
       HD_CL_DEVICE_LOCAL_MEMORY = 0x1023,
       HD_CL_DEVICE_NAME = 0x102b,
       HD_CL_DRIVER_VERSION = 0x102d,
       HD_CL_DEVICE_VERSION = 0x102f,
       HD_CL_DEVICE_EXTENSIONS = 0x1030,
       HD_CL_DEVICE_F64 = 0x1032,       /* what it can do in f64; 0: nothing */
       HD_CL_DEVICE_UNIFIED = 0x1035,   /* its memory is the host's */
       HD_CL_DEVICE_WARP = 0x4003,      /* of cl_nv_device_attribute_query */
       HD_CL_DEVICE_WAVEFRONT = 0x4043, /* of cl_amd_device_attribute_query */
       HD_CL_CONTEXT_PLATFORM = 0x1084,
       HD_CL_PROGRAM_BINARY_SIZES = 0x1165,
       HD_CL_PROGRAM_BINARIES = 0x1166,
       HD_CL_PROGRAM_LOG = 0x1183,
       HD_CL_KERNEL_GROUP_MOST = 0x11b0,
       HD_CL_EVENT_STARTED = 0x1282,
       HD_CL_EVENT_ENDED = 0x1283,
};
#define HD_CL_ALL_DEVICES   0xffffffffull
#define HD_CL_QUEUE_PROFILE 2ull
#define HD_CL_READ_WRITE    1ull
#define HD_CL_PINNED        16ull /* CL_MEM_ALLOC_HOST_PTR */
#define HD_CL_MAP_BOTH      3ull  /* for reading and for writing */

/* Every status that is no success: X(number, name without CL_). */
#define HD_CL_STATUSES(X)                                                                                              \
    X(-1, DEVICE_NOT_FOUND)                                                                                            \
    X(-2, DEVICE_NOT_AVAILABLE)                                                                                        \
    X(-3, COMPILER_NOT_AVAILABLE)                                                                                      \
    X(-4, MEM_OBJECT_ALLOCATION_FAILURE)                                                                               \
    X(-5, OUT_OF_RESOURCES)                                                                                            \
    X(-6, OUT_OF_HOST_MEMORY)                                                                                          \
    X(-7, PROFILING_INFO_NOT_AVAILABLE)                                                                                \
    X(-8, MEM_COPY_OVERLAP)                                                                                            \
    X(-11, BUILD_PROGRAM_FAILURE)                                                                                      \
    X(-12, MAP_FAILURE)                                                                                                \
    X(-13, MISALIGNED_SUB_BUFFER_OFFSET)                                                                               \
    X(-14, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                                  \
    X(-15, COMPILE_PROGRAM_FAILURE)                                                                                    \
    X(-16, LINKER_NOT_AVAILABLE)                                                                                       \
    X(-17, LINK_PROGRAM_FAILURE)                                                                                       \
    X(-30, INVALID_VALUE)                                                                                              \
    X(-31, INVALID_DEVICE_TYPE)                                                                                        \
    X(-32, INVALID_PLATFORM)                                                                                           \
    X(-33, INVALID_DEVICE)                                                                                             \
    X(-34, INVALID_CONTEXT)                                                                                            \
    X(-35, INVALID_QUEUE_PROPERTIES)                                                                                   \
    X(-36, INVALID_COMMAND_QUEUE)                                                                                      \
    X(-38, INVALID_MEM_OBJECT)                                                                                         \
    X(-42, INVALID_BINARY)                                                                                             \
    X(-43, INVALID_BUILD_OPTIONS)                                                                                      \
    X(-44, INVALID_PROGRAM)                                                                                            \
    X(-45, INVALID_PROGRAM_EXECUTABLE)                                                                                 \
    X(-46, INVALID_KERNEL_NAME)                                                                                        \
    X(-47, INVALID_KERNEL_DEFINITION)                                                                                  \
    X(-48, INVALID_KERNEL)                                                                                             \
    X(-49, INVALID_ARG_INDEX)                                                                                          \
    X(-50, INVALID_ARG_VALUE)                                                                                          \
    X(-51, INVALID_ARG_SIZE)                                                                                           \
    X(-52, INVALID_KERNEL_ARGS)                                                                                        \
    X(-53, INVALID_WORK_DIMENSION)                                                                                     \
    X(-54, INVALID_WORK_GROUP_SIZE)                                                                                    \
    X(-55, INVALID_WORK_ITEM_SIZE)                                                                                     \
    X(-56, INVALID_GLOBAL_OFFSET)                                                                                      \
    X(-57, INVALID_EVENT_WAIT_LIST)                                                                                    \
    X(-58, INVALID_EVENT)                                                                                              \
    X(-59, INVALID_OPERATION)                                                                                          \
    X(-61, INVALID_BUFFER_SIZE)                                                                                        \
    X(-63, INVALID_GLOBAL_WORK_SIZE)                                                                                   \
    X(-64, INVALID_PROPERTY)                                                                                           \
    X(-1001, PLATFORM_NOT_FOUND_KHR)
enum {
#define HD_CL_STATUS(number, name) HD_CL_##name = number,
    HD_CL_STATUSES(HD_CL_STATUS)
#undef HD_CL_STATUS
        HD_CL_ILLEGAL_ACCESS = -9999, /* NVIDIA's own: a kernel read or wrote where nothing is */
};

/* The functions that are used: X(our name, OpenCL's name, what it gives, what it takes). All of them are in every
 * loader of OpenCL 1.2 and later. */
#define HD_CL_FUNCTIONS(X)                                                                                             \
    X(platforms, "clGetPlatformIDs", int32_t, (uint32_t most, hd_cl_platform * *out, uint32_t * count))                \
    X(platform_info, "clGetPlatformInfo", int32_t,                                                                     \
      (hd_cl_platform * platform, uint32_t what, size_t capacity, void *out, size_t *bytes))                           \
    X(devices, "clGetDeviceIDs", int32_t,                                                                              \
      (hd_cl_platform * platform, uint64_t type, uint32_t most, hd_cl_device * *out, uint32_t * count))                \
    X(device_info, "clGetDeviceInfo", int32_t,                                                                         \
      (hd_cl_device * device, uint32_t what, size_t capacity, void *out, size_t *bytes))                               \
    X(context_new, "clCreateContext", hd_cl_context *,                                                                 \
      (const intptr_t *properties, uint32_t count, hd_cl_device *const *devices, hd_cl_told told, void *user,          \
       int32_t *status))                                                                                               \
    X(context_release, "clReleaseContext", int32_t, (hd_cl_context * context))                                         \
    X(queue_new, "clCreateCommandQueue", hd_cl_queue *,                                                                \
      (hd_cl_context * context, hd_cl_device * device, uint64_t properties, int32_t * status))                         \
    X(memory_new, "clCreateBuffer", hd_cl_memory *,                                                                    \
      (hd_cl_context * context, uint64_t flags, size_t bytes, void *host, int32_t *status))                            \
    X(memory_release, "clReleaseMemObject", int32_t, (hd_cl_memory * memory))                                          \
    X(read, "clEnqueueReadBuffer", int32_t,                                                                            \
      (hd_cl_queue * queue, hd_cl_memory * memory, uint32_t blocking, size_t offset, size_t bytes, void *out,          \
       uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                                            \
    X(write, "clEnqueueWriteBuffer", int32_t,                                                                          \
      (hd_cl_queue * queue, hd_cl_memory * memory, uint32_t blocking, size_t offset, size_t bytes, const void *from,   \
       uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                                            \
    X(map, "clEnqueueMapBuffer", void *,                                                                               \
      (hd_cl_queue * queue, hd_cl_memory * memory, uint32_t blocking, uint64_t flags, size_t offset, size_t bytes,     \
       uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event, int32_t *status))                           \
    X(copy, "clEnqueueCopyBuffer", int32_t,                                                                            \
      (hd_cl_queue * queue, hd_cl_memory * from, hd_cl_memory * to, size_t from_offset, size_t to_offset,              \
       size_t bytes, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                              \
    X(fill, "clEnqueueFillBuffer", int32_t,                                                                            \
      (hd_cl_queue * queue, hd_cl_memory * memory, const void *element, size_t size, size_t offset, size_t bytes,      \
       uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                                            \
    X(launch, "clEnqueueNDRangeKernel", int32_t,                                                                       \
      (hd_cl_queue * queue, hd_cl_kernel * kernel, uint32_t dimensions, const size_t *first, const size_t *all,        \
       const size_t *group, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                       \
    X(marker, "clEnqueueMarkerWithWaitList", int32_t,                                                                  \
      (hd_cl_queue * queue, uint32_t wait_count, hd_cl_event *const *wait, hd_cl_event **event))                       \
    X(flush, "clFlush", int32_t, (hd_cl_queue * queue))                                                                \
    X(finish, "clFinish", int32_t, (hd_cl_queue * queue))                                                              \
    X(wait, "clWaitForEvents", int32_t, (uint32_t count, hd_cl_event *const *events))                                  \
    X(event_time, "clGetEventProfilingInfo", int32_t,                                                                  \
      (hd_cl_event * event, uint32_t what, size_t capacity, void *out, size_t *bytes))                                 \
    X(event_release, "clReleaseEvent", int32_t, (hd_cl_event * event))                                                 \
    X(program_new, "clCreateProgramWithSource", hd_cl_program *,                                                       \
      (hd_cl_context * context, uint32_t count, const char *const *texts, const size_t *lengths, int32_t *status))     \
    X(program_load, "clCreateProgramWithBinary", hd_cl_program *,                                                      \
      (hd_cl_context * context, uint32_t count, hd_cl_device *const *devices, const size_t *lengths,                   \
       const unsigned char *const *binaries, int32_t *each, int32_t *status))                                          \
    X(program_build, "clBuildProgram", int32_t,                                                                        \
      (hd_cl_program * program, uint32_t count, hd_cl_device *const *devices, const char *options, hd_cl_told told,    \
       void *user))                                                                                                    \
    X(program_info, "clGetProgramInfo", int32_t,                                                                       \
      (hd_cl_program * program, uint32_t what, size_t capacity, void *out, size_t *bytes))                             \
    X(build_info, "clGetProgramBuildInfo", int32_t,                                                                    \
      (hd_cl_program * program, hd_cl_device * device, uint32_t what, size_t capacity, void *out, size_t *bytes))      \
    X(program_release, "clReleaseProgram", int32_t, (hd_cl_program * program))                                         \
    X(kernel_new, "clCreateKernel", hd_cl_kernel *, (hd_cl_program * program, const char *name, int32_t *status))      \
    X(kernel_argument, "clSetKernelArg", int32_t,                                                                      \
      (hd_cl_kernel * kernel, uint32_t index, size_t bytes, const void *value))                                        \
    X(kernel_info, "clGetKernelWorkGroupInfo", int32_t,                                                                \
      (hd_cl_kernel * kernel, hd_cl_device * device, uint32_t what, size_t capacity, void *out, size_t *bytes))        \
    X(kernel_release, "clReleaseKernel", int32_t, (hd_cl_kernel * kernel))

typedef struct hd_cl_functions {
#define HD_CL_FUNCTION(name, full_name, result, parameters) result(*name) parameters;
    HD_CL_FUNCTIONS(HD_CL_FUNCTION)
#undef HD_CL_FUNCTION
} hd_cl_functions;

#endif
