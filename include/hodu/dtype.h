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

#define HD_DTYPE_ENUM(NAME, name, bytes) HD_##NAME,
typedef enum hd_dtype { HD_DTYPE_DEFAULT = 0, HD_DTYPE_LIST(HD_DTYPE_ENUM) HD_DTYPE_COUNT } hd_dtype;
#undef HD_DTYPE_ENUM

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
