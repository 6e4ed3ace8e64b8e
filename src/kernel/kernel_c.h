/* What rendered kernels need beside the words: casts between compute types and the folding of lanes. Embedded by the
 * build as text behind words_c.h; it can be included like any header, too. */
#ifndef HD_KERNEL_KERNEL_C_H
#define HD_KERNEL_KERNEL_C_H

#ifndef HD_KERNEL_WORDS_C_H /* in rendered text it stands above */
#include "kernel/words_c.h"
#endif

/* ---- casts: w_cast_i8_f32(v) is v, an f32, as i8. Integers wrap; floats saturate, NaN becomes 0; to bool: v != 0
 * ---- */
#define W_CAST(to, from, value)                                                                                        \
    W_INLINE c_##to w_cast_##to##_##from(c_##from v) { return (c_##to)(value); }
/* `bound`: the smallest float above the range */
#define W_CAST_FLOAT(to, from, lowest, bound, highest)                                                                 \
    W_INLINE c_##to w_cast_##to##_##from(c_##from v) {                                                                 \
        const c_##from low = v > (c_##from)(lowest) ? v : (c_##from)(lowest); /* NaN too */                            \
        const bool fits = low < (c_##from)(bound);                                                                     \
        const c_##to r = fits ? (c_##to)(fits ? low : 0) : (c_##to)(highest);                                          \
        return v == v ? r : (c_##to)0;                                                                                 \
    }
#define W_cast_b8_FLOAT(from)        W_CAST(b8, from, v != 0)
#define W_cast_f32_FLOAT(from)       W_CAST(f32, from, v)
#define W_cast_f64_FLOAT(from)       W_CAST(f64, from, v)
#define W_cast_condition_FLOAT(from) W_CAST(condition, from, v != 0)
#define W_cast_u8_FLOAT(from)        W_CAST_FLOAT(u8, from, 0, 0x1p8f, UINT8_MAX)
#define W_cast_u16_FLOAT(from)       W_CAST_FLOAT(u16, from, 0, 0x1p16f, UINT16_MAX)
#define W_cast_u32_FLOAT(from)       W_CAST_FLOAT(u32, from, 0, 0x1p32f, UINT32_MAX)
#define W_cast_u64_FLOAT(from)       W_CAST_FLOAT(u64, from, 0, 0x1p64f, UINT64_MAX)
#define W_cast_i8_FLOAT(from)        W_CAST_FLOAT(i8, from, -0x1p7f, 0x1p7f, INT8_MAX)
#define W_cast_i16_FLOAT(from)       W_CAST_FLOAT(i16, from, -0x1p15f, 0x1p15f, INT16_MAX)
#define W_cast_i32_FLOAT(from)       W_CAST_FLOAT(i32, from, -0x1p31f, 0x1p31f, INT32_MAX)
#define W_cast_i64_FLOAT(from)       W_CAST_FLOAT(i64, from, -0x1p63f, 0x1p63f, INT64_MAX)
#define W_cast_b8_INT(from)          W_CAST(b8, from, v != 0)
#define W_cast_f32_INT(from)         W_CAST(f32, from, v)
#define W_cast_f64_INT(from)         W_CAST(f64, from, v)
#define W_cast_condition_INT(from)   W_CAST(condition, from, v != 0)
#define W_cast_u8_INT(from)          W_CAST(u8, from, v)
#define W_cast_u16_INT(from)         W_CAST(u16, from, v)
#define W_cast_u32_INT(from)         W_CAST(u32, from, v)
#define W_cast_u64_INT(from)         W_CAST(u64, from, v)
#define W_cast_i8_INT(from)          W_CAST(i8, from, v)
#define W_cast_i16_INT(from)         W_CAST(i16, from, v)
#define W_cast_i32_INT(from)         W_CAST(i32, from, v)
#define W_cast_i64_INT(from)         W_CAST(i64, from, v)
typedef bool c_condition;

#ifndef W_DIALECT /* all of them */
#define W_CASTS(kind, from)                                                                                            \
    W_cast_b8_##kind(from) W_cast_f32_##kind(from) W_cast_f64_##kind(from) W_cast_condition_##kind(from)               \
        W_cast_u8_##kind(from) W_cast_u16_##kind(from) W_cast_u32_##kind(from) W_cast_u64_##kind(from)                 \
            W_cast_i8_##kind(from) W_cast_i16_##kind(from) W_cast_i32_##kind(from) W_cast_i64_##kind(from)
W_CASTS(INT, b8)
W_CASTS(INT, u8)
W_CASTS(INT, u16)
W_CASTS(INT, u32)
W_CASTS(INT, u64)
W_CASTS(INT, i8)
W_CASTS(INT, i16)
W_CASTS(INT, i32)
W_CASTS(INT, i64)
W_CASTS(INT, condition)
W_CASTS(FLOAT, f32)
W_CASTS(FLOAT, f64)

/* ---- lanes: a reduction runs in many, so that it vectorises; in the end they are folded in halves ---- */
enum { LANES = 256 };
#define W_FOLD(word, t)                                                                                                \
    static __attribute__((unused)) c_##t w_fold_##word##_##t(c_##t *p, int n) {                                        \
        while (n > 1) {                                                                                                \
            const int half = (n + 1) / 2;                                                                              \
            _Pragma("omp simd") for (int j = 0; j < n - half; ++j) p[j] = w_##word##_##t(p[j], p[j + half]);           \
            n = half;                                                                                                  \
        }                                                                                                              \
        return p[0];                                                                                                   \
    }
W_INLINE int64_t w_least(int64_t a, int64_t b) { return a < b ? a : b; }
#endif

#endif
