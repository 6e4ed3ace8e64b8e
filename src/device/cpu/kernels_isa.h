/* What the files compiled once per instruction set share: the width of vectors, and the names of their entry points. */
#ifndef HD_DEVICE_CPU_KERNELS_ISA_H
#define HD_DEVICE_CPU_KERNELS_ISA_H

#include "device/cpu/kernels.h"

/* Bytes of a vector register, and rows of the tile that a matrix product keeps in them. */
#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 12 };
#elif defined(__AVX2__)
enum { VECTOR = 32, TILE_ROWS = 6 };
#else
enum { VECTOR = 16, TILE_ROWS = 4 };
#endif

#define KERNELS__(name, isa) name##_##isa
#define KERNELS_(name, isa)  KERNELS__(name, isa)
#define KERNELS(name)        KERNELS_(name, HD_ISA)

void KERNELS(hd_fill_memory)(hd_cpu_kernels *table);
void KERNELS(hd_fill_gemm)(hd_cpu_kernels *table);
void KERNELS(hd_fill_norm)(hd_cpu_kernels *table);
void KERNELS(hd_fill_patch)(hd_cpu_kernels *table);
void KERNELS(hd_fill_winograd)(hd_cpu_kernels *table);
void KERNELS(hd_fill_attention)(hd_cpu_kernels *table);
void KERNELS(hd_fill_random)(hd_cpu_kernels *table);
void KERNELS(hd_fill_scan)(hd_cpu_kernels *table);
void KERNELS(hd_fill_update)(hd_cpu_kernels *table);
void KERNELS(hd_fill_parts)(hd_cpu_kernels *table);

#endif
