/* A driver of NVIDIA's, as far as tests of libraries need one: its one device has the host's memory, in which a library
 * that is a fake, too, can work. What is enqueued is done at once. It runs no kernels. */
#include "device/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { NOT_SUPPORTED = 801, OUT_OF_MEMORY = 2 };
static char context, event;

/* ---- devices ----------------------------------------------------------------------------------------------------- */
API int cuInit(unsigned flags);
API int cuInit(unsigned flags) { return (int)flags; }
#define FUNCTION(name, parameters, ...)                                                                                \
    API int name parameters;                                                                                           \
    API int name parameters { __VA_ARGS__ }

FUNCTION(cuDeviceGetCount, (int *out), *out = 1; return 0;)
FUNCTION(cuDeviceGet, (int *out, int ordinal), *out = ordinal; return ordinal == 0 ? 0 : 101;)
FUNCTION(cuDeviceGetName, (char *out, int bytes, int device), (void)device; strncpy(out, "host", (size_t)bytes);
         return 0;)
FUNCTION(cuDeviceTotalMem_v2, (size_t * out, int device), (void)device; *out = (size_t)1 << 30; return 0;)
FUNCTION(cuDeviceGetAttribute, (int *out, int attribute, int device), (void)device;
         *out = attribute == HD_CU_DEVICE_GROUP_MOST     ? 1024
                : attribute == HD_CU_DEVICE_LOCAL_MEMORY ? 49152
                : attribute == HD_CU_DEVICE_PROCESSORS   ? 132
                : attribute == HD_CU_DEVICE_MAJOR        ? 9
                                                         : 0;
         return 0;)
FUNCTION(cuGetErrorName, (int status, const char **out), (void)status; *out = "CUDA_ERROR_OF_THE_FAKE"; return 0;)
FUNCTION(cuGetErrorString, (int status, const char **out), (void)status; *out = "a fake"; return 0;)
FUNCTION(cuDevicePrimaryCtxRetain, (void **out, int device), (void)device; *out = &context; return 0;)
FUNCTION(cuCtxSetCurrent, (void *what), return what == &context ? 0 : 201;)

/* ---- streams and events ------------------------------------------------------------------------------------------ */
FUNCTION(cuStreamCreate, (void **out, unsigned flags), (void)flags; *out = malloc(1);
         return *out != NULL ? 0 : OUT_OF_MEMORY;)
FUNCTION(cuStreamDestroy_v2, (void *stream), free(stream); return 0;)
FUNCTION(cuStreamSynchronize, (void *stream), (void)stream; return 0;)
FUNCTION(cuStreamWaitEvent, (void *stream, void *what, unsigned flags), (void)stream; (void)what; (void)flags;
         return 0;)
FUNCTION(cuEventCreate, (void **out, unsigned flags), (void)flags; *out = &event; return 0;)
FUNCTION(cuEventDestroy_v2, (void *what), (void)what; return 0;)
FUNCTION(cuEventRecord, (void *what, void *stream), (void)what; (void)stream; return 0;)
FUNCTION(cuEventSynchronize, (void *what), (void)what; return 0;)
FUNCTION(cuEventElapsedTime, (float *milliseconds, void *from, void *to), (void)from; (void)to; *milliseconds = 0.25F;
         return 0;)

/* ---- memory ------------------------------------------------------------------------------------------------------ */
#define AT(address) ((void *)(uintptr_t)(address))
FUNCTION(cuMemAlloc_v2, (hd_cu_address * out, size_t bytes),
         void *memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
         *out = (hd_cu_address)(uintptr_t)memory; return memory != NULL ? 0 : OUT_OF_MEMORY;)
FUNCTION(cuMemFree_v2, (hd_cu_address address), free(AT(address)); return 0;)
FUNCTION(cuMemGetInfo_v2, (size_t * unused, size_t *total), *unused = *total = (size_t)1 << 30; return 0;)
FUNCTION(cuMemHostAlloc, (void **out, size_t bytes, unsigned flags), (void)flags; *out = malloc(bytes);
         return *out != NULL ? 0 : OUT_OF_MEMORY;)
FUNCTION(cuMemFreeHost, (void *memory), free(memory); return 0;)
FUNCTION(cuMemcpyHtoDAsync_v2, (hd_cu_address to, const void *from, size_t bytes, void *stream), (void)stream;
         memcpy(AT(to), from, bytes); return 0;)
FUNCTION(cuMemcpyDtoHAsync_v2, (void *to, hd_cu_address from, size_t bytes, void *stream), (void)stream;
         memcpy(to, AT(from), bytes); return 0;)
FUNCTION(cuMemcpyDtoDAsync_v2, (hd_cu_address to, hd_cu_address from, size_t bytes, void *stream), (void)stream;
         memcpy(AT(to), AT(from), bytes); return 0;)
FUNCTION(cuMemsetD8Async, (hd_cu_address to, unsigned char value, size_t count, void *stream), (void)stream;
         memset(AT(to), value, count); return 0;)
FUNCTION(cuMemsetD16Async, (hd_cu_address to, unsigned short value, size_t count, void *stream), (void)stream;
         for (size_t i = 0; i < count; ++i) memcpy((char *)AT(to) + 2 * i, &value, 2); return 0;)
FUNCTION(cuMemsetD32Async, (hd_cu_address to, unsigned value, size_t count, void *stream), (void)stream;
         for (size_t i = 0; i < count; ++i) memcpy((char *)AT(to) + 4 * i, &value, 4); return 0;)
FUNCTION(cuMemsetD2D32Async,
         (hd_cu_address to, size_t pitch, unsigned value, size_t width, size_t height, void *stream), (void)stream;
         for (size_t i = 0; i < height; ++i) for (size_t k = 0; k < width; ++k)
             memcpy((char *)AT(to) + i * pitch + 4 * k, &value, 4);
         return 0;)

/* ---- what it has not --------------------------------------------------------------------------------------------- */
#define NONE(name) FUNCTION(name, (void), return NOT_SUPPORTED;)
NONE(cuModuleLoadData)
NONE(cuModuleUnload)
NONE(cuModuleGetFunction)
NONE(cuFuncGetAttribute)
NONE(cuFuncSetAttribute)
NONE(cuLaunchKernel)
NONE(cuStreamBeginCapture_v2)
NONE(cuStreamEndCapture)
NONE(cuGraphInstantiateWithFlags)
NONE(cuGraphLaunch)
NONE(cuGraphDestroy)
NONE(cuGraphExecDestroy)
