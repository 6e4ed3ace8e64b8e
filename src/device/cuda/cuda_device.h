/* GPUs of NVIDIA's: their memory, and their programs. */
#ifndef HD_DEVICE_CUDA_CUDA_DEVICE_H
#define HD_DEVICE_CUDA_CUDA_DEVICE_H

#include "device/gpu.h"

extern const hd_device_interface hd_cuda_interface;
/* Registers who runs calls there: machine/gpu.c. */
void hd_cuda_register_executor(hd_executor *(*executor)(int index),
                               void (*peak)(int index, double *gflops, double *gbytes));
extern const hd_gpu_interface hd_cuda_gpu;

#endif
