/* OpenCL C 1.2, as a dialect of rendered kernels: what differs from C. Embedded by the build as text above
 * words_c.h. */
#define W_DIALECT 1
#ifdef W_NO_F64
#define W_BITS_OF_F64
#else
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double c_f64;
#define w_bits_f64(a)   as_ulong(a)
#define w_unbits_f64(u) as_double(u)
#endif
typedef char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef uchar uint8_t;
typedef ushort uint16_t;
typedef uint uint32_t;
typedef ulong uint64_t;
#define INT8_MAX         127
#define INT16_MAX        32767
#define INT32_MAX        2147483647
#define INT64_MAX        9223372036854775807
#define UINT8_MAX        255
#define UINT16_MAX       65535
#define UINT32_MAX       4294967295u
#define UINT64_MAX       18446744073709551615u
#define W_INLINE         static inline __attribute__((always_inline))
#define W_CALL_f32(name) name
#define W_CALL_f64(name) name
#define w_bits_f32(a)    as_uint(a)
#define w_unbits_f32(u)  as_float(u)

#define W_KERNEL            __kernel
#define W_KERNEL_AT_MOST(n) __kernel
#define W_KERNEL_OF(n)      __kernel __attribute__((reqd_work_group_size(n, 1, 1))) /* threads of a group */
#define W_GLOBAL            __global
#define W_LOCAL             __local
#define W_SLOT(n)
#define W_ARGUMENTS(type, name, n) const type name
#define W_IDS
#define W_GROUP(d)   get_group_id(d)
#define W_THREAD     ((int)get_local_id(0))
#define W_BARRIER()  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define W_ALIGNED(n) __attribute__((aligned(n)))
#if defined(__x86_64__) || defined(__aarch64__) /* processors gain nothing by it, and it is compiled twice as long */
#define W_ALL_ROUNDS __attribute__((opencl_unroll_hint(1)))
#else
#define W_ALL_ROUNDS __attribute__((opencl_unroll_hint))
#endif
