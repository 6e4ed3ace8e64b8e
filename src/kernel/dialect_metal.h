/* The Metal Shading Language (C++14), as a dialect of rendered kernels: what differs from C. Embedded by the build as
 * text above words_c.h. Metal has no f64. */
#include <metal_stdlib>
using namespace metal;
#define W_DIALECT 3
#define W_NO_F64
#undef INT8_MAX
#define INT8_MAX 127
#undef INT16_MAX
#define INT16_MAX 32767
#undef INT32_MAX
#define INT32_MAX 2147483647
#undef INT64_MAX
#define INT64_MAX 9223372036854775807
#undef UINT8_MAX
#define UINT8_MAX 255
#undef UINT16_MAX
#define UINT16_MAX 65535
#undef UINT32_MAX
#define UINT32_MAX 4294967295u
#undef UINT64_MAX
#define UINT64_MAX       18446744073709551615u
#define W_INLINE         static inline
#define W_CALL_f32(name) metal::precise::name
#define w_bits_f32(a)    as_type<uint32_t>(a)
#define w_unbits_f32(u)  as_type<float>(u)

#define W_KERNEL                   kernel
#define W_KERNEL_OF(n)             kernel
#define W_KERNEL_AT_MOST(n)        kernel
#define W_GLOBAL                   device
#define W_LOCAL                    threadgroup
#define W_SLOT(n)                  [[buffer(n)]]
#define W_ARGUMENTS(type, name, n) constant type &name [[buffer(n)]]
#define W_GROUP_ID                 , uint3 w_group [[threadgroup_position_in_grid]]
#define W_THREAD_ID                , uint3 w_thread [[thread_position_in_threadgroup]]
#define W_IDS                      W_GROUP_ID W_THREAD_ID
#define W_GROUP_0                  w_group.x
#define W_GROUP_1                  w_group.y
#define W_GROUP(d)                 W_GROUP_##d
#define W_THREAD                   ((int)w_thread.x)
#define W_BARRIER()                threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device)
#define W_ALIGNED(n)               alignas(n)
#define W_ALL_ROUNDS               _Pragma("unroll")
