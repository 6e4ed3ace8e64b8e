/* What the files compiled once per instruction set share: the names of their entry points. */
#ifndef HD_DEVICE_CPU_KERNELS_ISA_H
#define HD_DEVICE_CPU_KERNELS_ISA_H

#include "device/cpu/kernels.h"

#define KERNELS__(name, isa) name##_##isa
#define KERNELS_(name, isa)  KERNELS__(name, isa)
#define KERNELS(name)        KERNELS_(name, HD_ISA)

void KERNELS(hd_fill_memory)(hd_cpu_kernels *table);
void KERNELS(hd_fill_gemm)(hd_cpu_kernels *table);
void KERNELS(hd_fill_norm)(hd_cpu_kernels *table);
void KERNELS(hd_fill_patch)(hd_cpu_kernels *table);
void KERNELS(hd_fill_attention)(hd_cpu_kernels *table);
void KERNELS(hd_fill_random)(hd_cpu_kernels *table);

#endif
