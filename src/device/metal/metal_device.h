/* Devices of Metal: their memory, and their programs. */
#ifndef HD_DEVICE_METAL_METAL_DEVICE_H
#define HD_DEVICE_METAL_METAL_DEVICE_H

#include "device/gpu.h"

extern const hd_device_interface hd_metal_interface;
/* Registers who runs calls there: machine/gpu.c. */
void hd_metal_register_executor(hd_executor *(*executor)(int index),
                                void (*peak)(int index, double *gflops, double *gbytes));
extern const hd_gpu_interface hd_metal_gpu;

#endif
