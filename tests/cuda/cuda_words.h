/* CUDA's vocabulary, as much of it as rendered kernels use, for a C++17 compiler of the host, which reads this before
 * the text: so that it is compiled and run where there is no GPU. No header is included, as the text declares int64_t
 * and its kin itself. A group's threads are coroutines of one thread, and a barrier hands on to the next; shared memory
 * is static. Written from the CUDA C++ Programming Guide; it is no substitute for NVRTC and a GPU. */
#pragma once

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(n)
#define __shared__   static
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
    unsigned x, y, z;
};
extern "C" void (*cuda_barrier)(void); /* of whoever runs the kernels */
extern uint3 cuda_group, cuda_thread;  /* whose turn it is */
#define blockIdx  cuda_group
#define threadIdx cuda_thread
static inline void __syncthreads() {
    const uint3 thread = cuda_thread;
    cuda_barrier();
    cuda_thread = thread;
}

template <typename To, typename From> static inline To cuda_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are kept");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
static inline unsigned __float_as_uint(float a) { return cuda_as<unsigned>(a); }
static inline float __uint_as_float(unsigned a) { return cuda_as<float>(a); }
static inline float __int_as_float(int a) { return cuda_as<float>(a); }
static inline long long __double_as_longlong(double a) { return cuda_as<long long>(a); }
static inline double __longlong_as_double(long long a) { return cuda_as<double>(a); }

/* f32 and f64, as the host's C has them. */
#define CUDA_ONE(name)                                                                                                 \
    extern "C" float name##f(float);                                                                                   \
    extern "C" double name(double);
#define CUDA_TWO(name)                                                                                                 \
    extern "C" float name##f(float, float);                                                                            \
    extern "C" double name(double, double);
CUDA_ONE(rint)
CUDA_ONE(floor)
CUDA_ONE(ceil)
CUDA_ONE(trunc)
CUDA_ONE(fabs)
CUDA_ONE(sqrt)
CUDA_TWO(fmod)
CUDA_TWO(copysign)
CUDA_ONE(exp2)
CUDA_ONE(log)
CUDA_TWO(fmin)
CUDA_TWO(fmax)
extern "C" float fmaf(float, float, float);
extern "C" double fma(double, double, double);

/* Of 32 threads that run together; here all of the group do, which is how rendered kernels have it. */
extern unsigned long long cuda_exchanged[1024];
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T v, int bits) {
    const unsigned lane = cuda_thread.x;
    T other;
    if (mask != 0xffffffffu || bits <= 0 || bits >= 32) __builtin_trap();
    __builtin_memcpy(&cuda_exchanged[lane], &v, sizeof v);
    __syncthreads();
    __builtin_memcpy(&other, &cuda_exchanged[lane ^ (unsigned)bits], sizeof other);
    __syncthreads();
    return other;
}

#include "warp_words.h"
