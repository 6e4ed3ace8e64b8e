/* GPUs, as what runs calls: gpu.c has their executors, gpu_eager.c what these do. */
#ifndef HD_MACHINE_GPU_H
#define HD_MACHINE_GPU_H

#include "device/gpu.h"
#include "fuse/machine.h"
#include "kernel/gpu.h"

typedef struct hd_gpu_eager hd_gpu_eager;

/* One GPU. */
typedef struct hd_gpu_device {
    hd_executor executor;
    hd_device_kind kind;
    int index;
    hd_dialect dialect;
    const hd_gpu_interface *gpu;
    const hd_machine *machine; /* what fusion asks */
    hd_gpu_eager *eager;       /* what is known of calls */
} hd_gpu_device;

/* gpu.c: the executor of an OpenCL device; NULL when there is no memory for it. */
hd_executor *hd_opencl_executor(int index);

/* gpu_eager.c */
hd_gpu_eager *hd_gpu_eager_new(void);
hd_error hd_gpu_run_call(hd_executor *self, hd_thread *thread, hd_call *call);
hd_error hd_gpu_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);

#endif
