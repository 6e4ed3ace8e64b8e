/* What every call needs: the devices, and who watches calls. */
#include "library/library.h"
#include "core/device.h"
#include "core/profile.h"
#include "device/cpu/cpu.h"
#include "device/cuda/list.h"
#if HD_HAS_CUDA
#include "device/cuda/cuda_device.h"
#endif
#if HD_HAS_METAL
#include "device/metal/metal_device.h"
#endif
#if HD_HAS_OPENCL
#include "device/opencl/opencl_device.h"
#endif
#if HD_HAS_CUDA || HD_HAS_METAL || HD_HAS_OPENCL
#include "machine/gpu.h"
#endif
#include "grad/tape.h"
#include "ops/custom.h"

void hd_library_open(void) {
    hd_device_register(HD_DEVICE_CPU, &hd_cpu_interface);
#if HD_HAS_CUDA
    hd_device_register(HD_DEVICE_CUDA, &hd_cuda_interface);
    hd_cuda_register_executor(hd_cuda_executor, hd_cuda_peak);
#else
    hd_device_register(HD_DEVICE_CUDA, &hd_cuda_listed_interface);
#endif
#if HD_HAS_OPENCL
    hd_device_register(HD_DEVICE_OPENCL, &hd_opencl_interface);
    hd_opencl_register_executor(hd_opencl_executor, hd_opencl_peak);
#endif
#if HD_HAS_METAL
    hd_device_register(HD_DEVICE_METAL, &hd_metal_interface);
    hd_metal_register_executor(hd_metal_executor, hd_metal_peak);
#endif
    hd_first_observer_register(hd_tape_first_observer);
    hd_profile_register(hd_own_name);
}
