/* GPUs of NVIDIA's. */
#ifndef HD_DEVICE_CUDA_DRIVER_H
#define HD_DEVICE_CUDA_DRIVER_H

#include "core/device.h"

extern const hd_device_interface hd_cuda_interface;

#endif
