/* The fifteen element types. */
#ifndef HODU_DTYPE_H
#define HODU_DTYPE_H

#include <hodu/base.h>

/* X(NAME, name, bytes): in order of promotion. Small floats (f8, bf16, f16) compute in f32 and round once. */
/* clang-format off */
#define HD_DTYPE_LIST(X)                                                                                               \
    X(BOOL, bool, 1)                                                                                                   \
    X(U8, u8, 1) X(U16, u16, 2) X(U32, u32, 4) X(U64, u64, 8) X(I8, i8, 1) X(I16, i16, 2) X(I32, i32, 4)               \
        X(I64, i64, 8) X(F8E4M3, f8e4m3, 1) X(F8E5M2, f8e5m2, 1) X(BF16, bf16, 2) X(F16, f16, 2) X(F32, f32, 4)        \
            X(F64, f64, 8)
/* clang-format on */

#define HD_DTYPE_ENUM(NAME, name, bytes) HD_DTYPE_##NAME,
typedef enum hd_dtype { HD_DTYPE_NONE_ = 0, HD_DTYPE_LIST(HD_DTYPE_ENUM) HD_DTYPE_COUNT } hd_dtype;
#undef HD_DTYPE_ENUM

/* C has constants of an enum as int; with a cast they have its type, so that a number in the place of a dtype is an
 * error when the program is compiled (the last lines of ops.h). */
#define HD_DTYPE_DEFAULT ((hd_dtype)HD_DTYPE_NONE_) /* the thread's default float */
#define HD_BOOL          ((hd_dtype)HD_DTYPE_BOOL)
#define HD_U8            ((hd_dtype)HD_DTYPE_U8)
#define HD_U16           ((hd_dtype)HD_DTYPE_U16)
#define HD_U32           ((hd_dtype)HD_DTYPE_U32)
#define HD_U64           ((hd_dtype)HD_DTYPE_U64)
#define HD_I8            ((hd_dtype)HD_DTYPE_I8)
#define HD_I16           ((hd_dtype)HD_DTYPE_I16)
#define HD_I32           ((hd_dtype)HD_DTYPE_I32)
#define HD_I64           ((hd_dtype)HD_DTYPE_I64)
#define HD_F8E4M3        ((hd_dtype)HD_DTYPE_F8E4M3)
#define HD_F8E5M2        ((hd_dtype)HD_DTYPE_F8E5M2)
#define HD_BF16          ((hd_dtype)HD_DTYPE_BF16)
#define HD_F16           ((hd_dtype)HD_DTYPE_F16)
#define HD_F32           ((hd_dtype)HD_DTYPE_F32)
#define HD_F64           ((hd_dtype)HD_DTYPE_F64)

/* d, when it is an hd_dtype; else no program. C++ looks by itself. */
#if defined(__cplusplus) || defined(HD_UNCHECKED_CALLS)
#define HD_ONLY_DTYPE(d) (d)
#else
#define HD_ONLY_DTYPE(d) _Generic((d), hd_dtype : (d))
#endif
/* The dtype of a pointer's elements, for the types that C has. */
#ifndef __cplusplus
/* clang-format off */
#define HD_DTYPE_OF(pointer) _Generic((pointer),                                                                       \
    bool *: HD_BOOL, const bool *: HD_BOOL,                                                                            \
    uint8_t *: HD_U8, const uint8_t *: HD_U8,                                                                          \
    uint16_t *: HD_U16, const uint16_t *: HD_U16,                                                                      \
    uint32_t *: HD_U32, const uint32_t *: HD_U32,                                                                      \
    uint64_t *: HD_U64, const uint64_t *: HD_U64,                                                                      \
    int8_t *: HD_I8, const int8_t *: HD_I8,                                                                            \
    int16_t *: HD_I16, const int16_t *: HD_I16,                                                                        \
    int32_t *: HD_I32, const int32_t *: HD_I32,                                                                        \
    int64_t *: HD_I64, const int64_t *: HD_I64,                                                                        \
    float *: HD_F32, const float *: HD_F32,                                                                            \
    double *: HD_F64, const double *: HD_F64)
/* clang-format on */
#endif

HD_BEGIN_DECLS
/* "f32"; "?" for a value that is no dtype. */
HD_API const char *hd_dtype_name(hd_dtype dtype);
/* Bytes of one element; 0 for a value that is no dtype. */
HD_API size_t hd_dtype_size(hd_dtype dtype);
HD_API bool hd_dtype_is_float(hd_dtype dtype);
/* The integers, bool not among them. */
HD_API bool hd_dtype_is_integer(hd_dtype dtype);
/* The dtype two operands meet in (docs/dtypes.md has the table). */
HD_API hd_dtype hd_dtype_promote(hd_dtype a, hd_dtype b);
/* The float that HD_DTYPE_DEFAULT means on this thread, f32 at first; takes f16, bf16, f32 or f64. */
HD_API hd_dtype hd_default_dtype(void);
HD_API void hd_set_default_dtype(hd_dtype dtype);
HD_END_DECLS

#endif
