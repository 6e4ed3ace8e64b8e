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
#define W_CAST_FROM(from)                                                                                              \
    W_CAST(b8, from, v != 0)                                                                                           \
    W_CAST(f32, from, v)                                                                                               \
    W_CAST(f64, from, v) W_INLINE bool w_cast_condition_##from(c_##from v) { return v != 0; }
#define W_CAST_INTEGER(from)                                                                                           \
    W_CAST_FROM(from)                                                                                                  \
    W_CAST(u8, from, v)                                                                                                \
    W_CAST(u16, from, v)                                                                                               \
    W_CAST(u32, from, v)                                                                                               \
    W_CAST(u64, from, v) W_CAST(i8, from, v) W_CAST(i16, from, v) W_CAST(i32, from, v) W_CAST(i64, from, v)
/* `bound`: the smallest float above the range */
#define W_CAST_FLOAT(to, from, lowest, bound, highest)                                                                 \
    W_INLINE c_##to w_cast_##to##_##from(c_##from v) {                                                                 \
        const c_##from low = v > (c_##from)(lowest) ? v : (c_##from)(lowest); /* NaN too */                            \
        const bool fits = low < (c_##from)(bound);                                                                     \
        const c_##to r = fits ? (c_##to)(fits ? low : 0) : (c_##to)(highest);                                          \
        return v == v ? r : (c_##to)0;                                                                                 \
    }
#define W_CAST_FLOATING(from)                                                                                          \
    W_CAST_FROM(from)                                                                                                  \
    W_CAST_FLOAT(u8, from, 0, 0x1p8, UINT8_MAX)                                                                        \
    W_CAST_FLOAT(u16, from, 0, 0x1p16, UINT16_MAX)                                                                     \
    W_CAST_FLOAT(u32, from, 0, 0x1p32, UINT32_MAX)                                                                     \
    W_CAST_FLOAT(u64, from, 0, 0x1p64, UINT64_MAX)                                                                     \
    W_CAST_FLOAT(i8, from, -0x1p7, 0x1p7, INT8_MAX)                                                                    \
    W_CAST_FLOAT(i16, from, -0x1p15, 0x1p15, INT16_MAX)                                                                \
    W_CAST_FLOAT(i32, from, -0x1p31, 0x1p31, INT32_MAX) W_CAST_FLOAT(i64, from, -0x1p63, 0x1p63, INT64_MAX)
W_CAST_INTEGER(b8)
W_CAST_INTEGER(u8)
W_CAST_INTEGER(u16)
W_CAST_INTEGER(u32)
W_CAST_INTEGER(u64)
W_CAST_INTEGER(i8)
W_CAST_INTEGER(i16)
W_CAST_INTEGER(i32)
W_CAST_INTEGER(i64)
W_CAST_FLOATING(f32)
W_CAST_FLOATING(f64)
typedef bool c_condition;
W_CAST_INTEGER(condition)

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
