/* What scripts need: who compiles them. A file of its own, so that a program without scripts has no compiler in it. */
#include "library/library.h"
#include "machine/machines.h"
#if HD_HAS_CUDA || HD_HAS_OPENCL || HD_HAS_METAL
#include "machine/gpu.h"
#endif
#include "xla/executable.h"

#include <hodu/script.h>

void hd_library_open_compilers(void) {
    hd_compiler_register(HD_COMPILER_HODU, &hd_hodu_interface);
#if HD_HAS_CUDA
    hd_machine_register(HD_DEVICE_CUDA, hd_cuda_machine);
#endif
#if HD_HAS_OPENCL
    hd_machine_register(HD_DEVICE_OPENCL, hd_opencl_machine);
#endif
#if HD_HAS_METAL
    hd_machine_register(HD_DEVICE_METAL, hd_metal_machine);
#endif
#if HD_HAS_XLA
    hd_compiler_register(HD_COMPILER_XLA, &hd_xla_interface);
#endif
}
