/* CUDA C++, as NVRTC compiles it without any header, as a dialect of rendered kernels: what differs from C. Embedded by
 * the build as text above words_c.h. */
#define W_DIALECT 2
typedef double c_f64;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT8_MAX         127
#define INT16_MAX        32767
#define INT32_MAX        2147483647
#define INT64_MAX        9223372036854775807LL
#define UINT8_MAX        255
#define UINT16_MAX       65535
#define UINT32_MAX       4294967295u
#define UINT64_MAX       18446744073709551615ull
#define NAN              __int_as_float(0x7fc00000)
#define INFINITY         __int_as_float(0x7f800000)
#define W_INLINE         static __device__ __forceinline__
#define W_CALL_f32(name) name##f
#define W_CALL_f64(name) name
#define w_bits_f32(a)    __float_as_uint(a)
#define w_unbits_f32(u)  __uint_as_float(u)
#define w_bits_f64(a)    ((uint64_t)__double_as_longlong(a))
#define w_unbits_f64(u)  __longlong_as_double((long long)(u))

#define W_KERNEL       extern "C" __global__
#define W_KERNEL_OF(n) extern "C" __global__ __launch_bounds__(n) /* threads of a group */
#define W_GLOBAL
#define W_LOCAL __shared__
#define W_SLOT(n)
#define W_ARGUMENTS(type, name, n) const type name
#define W_IDS
#define W_GROUP_0    blockIdx.x
#define W_GROUP_1    blockIdx.y
#define W_GROUP(d)   W_GROUP_##d
#define W_THREAD     ((int)threadIdx.x)
#define W_BARRIER()  __syncthreads()
#define W_ALIGNED(n) __align__(n)
#define W_ALL_ROUNDS _Pragma("unroll")

/* The value of the thread whose number differs in these bits, of those that run together. */
#define W_SHARED 32
template <class T> static __device__ __forceinline__ T w_exchange(T v, int bits) {
    if (sizeof(T) == 8) return (T)__shfl_xor_sync(0xffffffffu, (long long)v, bits);
    return (T)__shfl_xor_sync(0xffffffffu, (int)v, bits);
}
template <> __device__ __forceinline__ float w_exchange(float v, int bits) {
    return __shfl_xor_sync(0xffffffffu, v, bits);
}
template <> __device__ __forceinline__ double w_exchange(double v, int bits) {
    return __shfl_xor_sync(0xffffffffu, v, bits);
}
