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

#define W_KERNEL            extern "C" __global__
#define W_KERNEL_OF(n)      extern "C" __global__ __launch_bounds__(n) /* threads of a group */
#define W_KERNEL_AT_MOST(n) extern "C" __global__ __launch_bounds__(n) /* or fewer */
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

/* Functions of f32 in instructions of the GPU's own, with errors no larger than those that math.def states. 2^x and 1/x
 * are right to 2 units in the last place. Nothing here is folded by the compiler when its operand is known, which would
 * round otherwise than the GPU does. */
#ifdef __CUDACC__
static __device__ __forceinline__ float w_own_power_of_2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float w_own_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
#define w_own_power_of_2(x) exp2f(x)
#define w_own_reciprocal(x) (1.0f / (x))
#endif
/* Of numbers that neither overflow nor vanish: a reciprocal and one correction. */
static __device__ __forceinline__ float w_own_quotient(float a, float b) {
    const float r = w_own_reciprocal(b), q = a * r;
    return fmaf(fmaf(-b, q, a), r, q);
}
/* e^x = 2^f 2^n, where n is the whole number next to x log2(e), as far as 2^n is one: in the low bits of `shifted`.
 * What is beyond that stays in f. x log2(e) has more bits than one f32. */
static __device__ __forceinline__ float w_own_exp_of(float x, float limited) {
    const float shifted = limited + 12583039.0f, n = shifted - 12583039.0f;
    const float f = fmaf(x, 1.92596299e-8f, fmaf(x, 1.44269502f, -n));
    return w_own_power_of_2(f) * __uint_as_float(__float_as_uint(shifted) << 23);
}
static __device__ __forceinline__ float w_own_exp(float x) {
    return w_own_exp_of(x, fminf(fmaxf(x * 1.44269502f, -126.0f), 127.0f));
}
static __device__ __forceinline__ float w_own_sigmoid(float x) {
    const float v = -fabsf(x), z = w_own_exp_of(v, fmaxf(v * 1.44269502f, -126.0f)), w = w_own_quotient(z, 1.0f + z);
    return x < 0.0f ? fmaf(-z, w, z) : 1.0f - w; /* as math.def has it: half the error */
}
/* The same intervals and polynomial as in math.def. */
static __device__ __forceinline__ float w_own_tanh(float x) {
    const float v = fabsf(x), twice = 2.0f * (v > 9.2f ? 9.2f : v), square = x * x;
    const float large = 1.0f - w_own_quotient(2.0f, w_own_exp_of(twice, twice * 1.44269502f) + 1.0f);
    float p = fmaf(0.00172872469f, square, -0.00764343096f);
    p = fmaf(p, square, 0.0214432385f);
    p = fmaf(p, square, -0.0538901202f);
    p = fmaf(p, square, 0.13332659f);
    p = fmaf(p, square, -0.333333135f);
    return copysignf(0.75f < v ? large : fmaf(square * x, p, x), x);
}
