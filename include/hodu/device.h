/* Where tensors live and work runs. */
#ifndef HODU_DEVICE_H
#define HODU_DEVICE_H

#include <hodu/base.h>

/* 0: this library was built with HODU_CUDA=OFF, HODU_OPENCL=OFF, or HODU_METAL=OFF, and there are no such devices.
 * hodu.pc and the CMake targets of such a library define it. */
#ifndef HD_HAS_CUDA
#define HD_HAS_CUDA 1
#endif
#ifndef HD_HAS_OPENCL
#define HD_HAS_OPENCL 1
#endif
#ifndef HD_HAS_METAL
#define HD_HAS_METAL 1
#endif

typedef enum hd_device_kind {
    HD_DEVICE_DEFAULT = 0,
    HD_DEVICE_CPU,
    HD_DEVICE_CUDA,
    HD_DEVICE_METAL,
    HD_DEVICE_OPENCL,
    HD_DEVICE_KINDS
} hd_device_kind;

typedef struct hd_device {
    hd_device_kind kind;
    int index;
} hd_device;

static inline hd_device hd_cpu(void) {
    hd_device d = {HD_DEVICE_CPU, 0};
    return d;
}
static inline hd_device hd_cuda(int index) {
    hd_device d = {HD_DEVICE_CUDA, index};
    return d;
}
static inline hd_device hd_metal(void) { /* no f64; never run on a Mac yet */
    hd_device d = {HD_DEVICE_METAL, 0};
    return d;
}

static inline hd_device hd_opencl(int index) { /* of all platforms, as their drivers list them */
    hd_device d = {HD_DEVICE_OPENCL, index};
    return d;
}

/* What a product of f32 may cost in exactness: matrix products and convolutions whose result is f32. Products of other
 * dtypes are what they are. */
typedef enum hd_matmul_precision {
    HD_MATMUL_EXACT = 0, /* the default: products are as exact as f32 is */
    /* A device that has TF32, CUDA, may round operands to its 10 bits of mantissa, which is several times as fast; the
     * CPU, OpenCL and Metal have none and ignore it. */
    HD_MATMUL_TF32
} hd_matmul_precision;

/* What a device is. A figure that its driver does not tell is 0. */
typedef struct hd_device_info {
    char name[96];
    size_t memory_bytes; /* all of its memory */
    int units;           /* that compute at once: cores, multiprocessors */
    bool has_f64;
} hd_device_info;

HD_BEGIN_DECLS
/* How many devices of a kind this machine has and their driver gives to this process; the first call opens the driver.
 * Ops may not run on them all the same, as where a driver is too old: hd_device_available says it. */
HD_API int hd_device_count(hd_device_kind kind);
/* True when tensors can be made and ops run there, which hd_set_device asks. Where scripts run is another question,
 * which hd_compiler_missing answers (hodu/script.h). */
HD_API bool hd_device_available(hd_device device);
/* Why it is not available; NULL: it is. The text holds until this thread asks again. */
HD_API const char *hd_device_missing(hd_device device);
/* What the device is ({0}: this thread's), as far as its driver tells; a device that is not there is an error, and a
 * name of "". */
HD_API hd_device_info hd_device_describe(hd_device device);
/* Sets this thread's device for new tensors (HODU_DEVICE says which it begins with); calls with operands run where
 * those are. One that is not there is an error and changes nothing. */
HD_API void hd_set_device(hd_device device);
HD_API hd_device hd_current_device(void);
/* Sets how exact the products are that this thread calls, or captures, from now on; it may be set anew at any time,
 * before each call too. A script keeps what was set when its calls were captured, and so does its file. Gradients are
 * calls that hd_backward makes: they take what is set then. hd_attention is exact whatever is set. */
HD_API void hd_set_matmul_precision(hd_matmul_precision precision);
HD_API hd_matmul_precision hd_current_matmul_precision(void);
/* Waits for whatever still runs on this thread's device. */
HD_API void hd_synchronize(void);
/* Threads that large operations use, the caller among them: HODU_NUM_THREADS, else the number of cores. */
HD_API int hd_num_threads(void);
HD_API void hd_set_num_threads(int count);
/* The instruction set the CPU kernels run with: "amx" (avx512 and a matrix unit), "avx512", "avx2" or "baseline"
 * (HODU_ISA can ask for a lower one). */
HD_API const char *hd_cpu_isa(void);
HD_END_DECLS

#endif
