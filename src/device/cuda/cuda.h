/* What is used of CUDA's driver, declared here so that nothing of CUDA is needed to build: its objects, of which only
 * addresses are known, its numbers, and the functions, which are looked up by name. What the numbers are is a fact of
 * the interface, and the same on every system. */
#ifndef HD_DEVICE_CUDA_CUDA_H
#define HD_DEVICE_CUDA_CUDA_H

#include <stddef.h>
#include <stdint.h>

/* The driver's own. */
typedef struct hd_cu_context hd_cu_context;
typedef struct hd_cu_stream hd_cu_stream;
typedef struct hd_cu_event hd_cu_event;
typedef struct hd_cu_module hd_cu_module;
typedef struct hd_cu_function hd_cu_function;
typedef struct hd_cu_graph hd_cu_graph;
typedef struct hd_cu_exec hd_cu_exec;
typedef struct hd_cu_node hd_cu_node;
typedef uint64_t hd_cu_address; /* in the memory of a device */

enum { /* what is asked of a device, or of a function */
       HD_CU_DEVICE_GROUP_MOST = 1,
       HD_CU_DEVICE_LOCAL_MEMORY = 8,
       HD_CU_DEVICE_PROCESSORS = 16,
       HD_CU_DEVICE_MAJOR = 75,
       HD_CU_DEVICE_MINOR = 76,
       HD_CU_DEVICE_LOCAL_MEMORY_OPTIN = 97,
       HD_CU_FUNCTION_GROUP_MOST = 0,
       HD_CU_FUNCTION_DYNAMIC_LOCAL_MEMORY = 8,
};
enum {
    HD_CU_STREAM_NON_BLOCKING = 1,
    HD_CU_EVENT_DISABLE_TIMING = 2,
    HD_CU_CAPTURE_RELAXED = 2,
    HD_CU_GRAPH_NODE_KERNEL = 0,
};

/* Statuses that are looked at; what others mean, the driver says. */
enum {
    HD_CU_OUT_OF_MEMORY = 2,
    HD_CU_DEINITIALIZED = 4,
    HD_CU_NO_DEVICE = 100,
    HD_CU_NOT_THIS_CONTEXT = 201,
    HD_CU_MEMORY_IS_BROKEN = 214,
    HD_CU_NO_BINARY_FOR_GPU = 209,
    HD_CU_INVALID_IMAGE = 200,
    HD_CU_TOO_MANY_RESOURCES = 701,
    HD_CU_ILLEGAL_ADDRESS = 700,
    HD_CU_LAUNCH_TIMEOUT = 702,
    HD_CU_CONTEXT_IS_DESTROYED = 709,
    HD_CU_ASSERT = 710,
    HD_CU_STACK_ERROR = 714,
    HD_CU_LAUNCH_FAILED = 719,
};

/* The parameters of a kernel of a recorded graph, as cuGraphExecKernelNodeSetParams_v2 takes them. */
typedef struct hd_cu_kernel_parameters {
    hd_cu_function *function;
    unsigned groups[3], threads[3];
    unsigned local_bytes;
    void **parameters, **extra;
    void *kernel;
    hd_cu_context *context;
} hd_cu_kernel_parameters;

/* The functions that are used: X(our name, the driver's name, what it takes). All give a status, 0 for success. They
 * are in every driver of CUDA 12 and later. */
#define HD_CU_FUNCTIONS(X)                                                                                             \
    X(context_retain, "cuDevicePrimaryCtxRetain", (hd_cu_context * *out, int device))                                  \
    X(context_set, "cuCtxSetCurrent", (hd_cu_context * context))                                                       \
    X(stream_new, "cuStreamCreate", (hd_cu_stream * *out, unsigned flags))                                             \
    X(stream_release, "cuStreamDestroy_v2", (hd_cu_stream * stream))                                                   \
    X(stream_synchronize, "cuStreamSynchronize", (hd_cu_stream * stream))                                              \
    X(stream_wait, "cuStreamWaitEvent", (hd_cu_stream * stream, hd_cu_event * event, unsigned flags))                  \
    X(memory_new, "cuMemAlloc_v2", (hd_cu_address * out, size_t bytes))                                                \
    X(memory_release, "cuMemFree_v2", (hd_cu_address address))                                                         \
    X(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total))                                                 \
    X(host_new, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                                          \
    X(host_release, "cuMemFreeHost", (void *memory))                                                                   \
    X(upload, "cuMemcpyHtoDAsync_v2", (hd_cu_address to, const void *from, size_t bytes, hd_cu_stream *stream))        \
    X(download, "cuMemcpyDtoHAsync_v2", (void *to, hd_cu_address from, size_t bytes, hd_cu_stream *stream))            \
    X(copy, "cuMemcpyDtoDAsync_v2", (hd_cu_address to, hd_cu_address from, size_t bytes, hd_cu_stream * stream))       \
    X(fill_8, "cuMemsetD8Async", (hd_cu_address to, unsigned char value, size_t count, hd_cu_stream *stream))          \
    X(fill_16, "cuMemsetD16Async", (hd_cu_address to, unsigned short value, size_t count, hd_cu_stream *stream))       \
    X(fill_32, "cuMemsetD32Async", (hd_cu_address to, unsigned value, size_t count, hd_cu_stream *stream))             \
    X(fill_rows_32, "cuMemsetD2D32Async",                                                                              \
      (hd_cu_address to, size_t pitch, unsigned value, size_t width, size_t height, hd_cu_stream *stream))             \
    X(event_new, "cuEventCreate", (hd_cu_event * *out, unsigned flags))                                                \
    X(event_release, "cuEventDestroy_v2", (hd_cu_event * event))                                                       \
    X(event_record, "cuEventRecord", (hd_cu_event * event, hd_cu_stream * stream))                                     \
    X(event_synchronize, "cuEventSynchronize", (hd_cu_event * event))                                                  \
    X(event_time, "cuEventElapsedTime", (float *milliseconds, hd_cu_event *begin, hd_cu_event *end))                   \
    X(module_load, "cuModuleLoadData", (hd_cu_module * *out, const void *image))                                       \
    X(module_unload, "cuModuleUnload", (hd_cu_module * module))                                                        \
    X(module_function, "cuModuleGetFunction", (hd_cu_function * *out, hd_cu_module * module, const char *name))        \
    X(function_attribute, "cuFuncGetAttribute", (int *out, int attribute, hd_cu_function *function))                   \
    X(function_set, "cuFuncSetAttribute", (hd_cu_function * function, int attribute, int value))                       \
    X(launch, "cuLaunchKernel",                                                                                        \
      (hd_cu_function * function, unsigned group_x, unsigned group_y, unsigned group_z, unsigned thread_x,             \
       unsigned thread_y, unsigned thread_z, unsigned local_bytes, hd_cu_stream *stream, void **parameters,            \
       void **extra))                                                                                                  \
    X(capture_begin, "cuStreamBeginCapture_v2", (hd_cu_stream * stream, int mode))                                     \
    X(capture_end, "cuStreamEndCapture", (hd_cu_stream * stream, hd_cu_graph * *out))                                  \
    X(capture_info, "cuStreamGetCaptureInfo_v2",                                                                       \
      (hd_cu_stream * stream, int *status, uint64_t *id, hd_cu_graph **graph, hd_cu_node *const **nodes,               \
       size_t *count))                                                                                                 \
    X(node_set, "cuGraphExecKernelNodeSetParams_v2",                                                                   \
      (hd_cu_exec * exec, hd_cu_node * node, const hd_cu_kernel_parameters *parameters))                               \
    X(graph_instantiate, "cuGraphInstantiateWithFlags", (hd_cu_exec * *out, hd_cu_graph * graph, uint64_t flags))      \
    X(graph_launch, "cuGraphLaunch", (hd_cu_exec * exec, hd_cu_stream * stream))                                       \
    X(graph_release, "cuGraphDestroy", (hd_cu_graph * graph))                                                          \
    X(exec_release, "cuGraphExecDestroy", (hd_cu_exec * exec))
typedef struct hd_cu_functions {
#define HD_CU_POINTER(name, full_name, parameters) int(*name) parameters;
    HD_CU_FUNCTIONS(HD_CU_POINTER)
#undef HD_CU_POINTER
} hd_cu_functions;

/* The functions of the driver that tell which devices there are, which older ones have, too. */
#define HD_CU_LISTING(X)                                                                                               \
    X(initialize, "cuInit", (unsigned flags))                                                                          \
    X(device_count, "cuDeviceGetCount", (int *out))                                                                    \
    X(device, "cuDeviceGet", (int *out, int ordinal))                                                                  \
    X(device_name, "cuDeviceGetName", (char *out, int bytes, int device))                                              \
    X(device_memory, "cuDeviceTotalMem_v2", (size_t * out, int device))                                                \
    X(device_attribute, "cuDeviceGetAttribute", (int *out, int attribute, int device))                                 \
    X(error_name, "cuGetErrorName", (int status, const char **out))                                                    \
    X(error_text, "cuGetErrorString", (int status, const char **out))

/* NVRTC, the compiler. */
typedef struct hd_nvrtc_program hd_nvrtc_program;
#define HD_NVRTC_FUNCTIONS(X)                                                                                          \
    X(version, "nvrtcVersion", (int *major, int *minor))                                                               \
    X(program_new, "nvrtcCreateProgram",                                                                               \
      (hd_nvrtc_program * *out, const char *text, const char *name, int headers, const char *const *header_texts,      \
       const char *const *header_names))                                                                               \
    X(program_compile, "nvrtcCompileProgram", (hd_nvrtc_program * program, int count, const char *const *options))     \
    X(program_release, "nvrtcDestroyProgram", (hd_nvrtc_program * *program))                                           \
    X(object_bytes, "nvrtcGetCUBINSize", (hd_nvrtc_program * program, size_t * out))                                   \
    X(object, "nvrtcGetCUBIN", (hd_nvrtc_program * program, char *out))                                                \
    X(log_bytes, "nvrtcGetProgramLogSize", (hd_nvrtc_program * program, size_t * out))                                 \
    X(log, "nvrtcGetProgramLog", (hd_nvrtc_program * program, char *out))
enum { HD_NVRTC_OUT_OF_MEMORY = 1, HD_NVRTC_DOES_NOT_COMPILE = 6 };

#endif
