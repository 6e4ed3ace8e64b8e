/* The vocabulary read as C: one inline function for each word and compute type. `T` names the type a sentence is
 * read in (f32, f64, i8 ... u64, b8); ADD(a, b) then means w_add_f32(a, b) and so on. Include it once, set T, and
 * include math.def or a table of rows. Everything is branch-free, so that loops over sentences vectorise.  A word is
 * a macro for a class of types, W_add_FLOAT(t), which defines w_add_f32 when it is given f32. Here all of them are
 * defined. As text, embedded by the build, it serves every language that kernels are rendered to: a dialect
 * (dialect_*.h) stands above it, says what differs, and of words only those that a kernel uses are defined.  Built
 * with -fno-math-errno -fno-trapping-math -ffp-contract=fast and never with -ffast-math: NaN, infinities and the
 * sign of zero survive. / */
#ifndef HD_KERNEL_WORDS_C_H
#define HD_KERNEL_WORDS_C_H

#define W_JOIN_(a, b) a##_##b
#define W_JOIN(a, b)  W_JOIN_(a, b)
#define W(word)       W_JOIN(w_##word, T) /* w_add_f32 */
#define CT            W_JOIN(c, T)        /* the C type of T: c_f32 */

#ifndef W_DIALECT /* this is C */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define W_INLINE         static inline __attribute__((always_inline, unused))
#define W_CALL_f32(name) __builtin_##name##f
#define W_CALL_f64(name) __builtin_##name

W_INLINE uint32_t w_bits_f32(float a) {
    uint32_t u;
    memcpy(&u, &a, 4);
    return u;
}
W_INLINE uint64_t w_bits_f64(double a) {
    uint64_t u;
    memcpy(&u, &a, 8);
    return u;
}
W_INLINE float w_unbits_f32(uint32_t u) {
    float a;
    memcpy(&a, &u, 4);
    return a;
}
W_INLINE double w_unbits_f64(uint64_t u) {
    double a;
    memcpy(&a, &u, 8);
    return a;
}
typedef double c_f64;
#endif

/* gcc unrolls 16 rounds by itself, and what is not unrolled is not vectorised; clang unrolls all, unless told to. */
#if defined(__GNUC__) && !defined(__clang__)
#define W_UNROLL _Pragma("GCC unroll 32")
#else
#define W_UNROLL
#endif

typedef float c_f32;
typedef int8_t c_i8;
typedef int16_t c_i16;
typedef int32_t c_i32;
typedef int64_t c_i64;
typedef uint8_t c_u8;
typedef uint16_t c_u16;
typedef uint32_t c_u32;
typedef uint64_t c_u64;
typedef uint8_t c_b8; /* bool: 0 or 1 */

/* ---- words every type has ------------------------------------------------------------------------------------- */
#define W_lt_ANY(t)                                                                                                    \
    W_INLINE bool w_lt_##t(c_##t a, c_##t b) { return a < b; }
#define W_le_ANY(t)                                                                                                    \
    W_INLINE bool w_le_##t(c_##t a, c_##t b) { return a <= b; }
#define W_eq_ANY(t)                                                                                                    \
    W_INLINE bool w_eq_##t(c_##t a, c_##t b) { return a == b; }
#define W_select_ANY(t)                                                                                                \
    W_INLINE c_##t w_select_##t(bool c, c_##t a, c_##t b) { return c ? a : b; }
#define W_ANY(t) W_lt_ANY(t) W_le_ANY(t) W_eq_ANY(t) W_select_ANY(t)

/* ---- floats ------------------------------------------------------------------------------------------------------
 * SSE2 has no rounding instruction and gcc would call libm there; adding and subtracting 2^(mantissa bits), with the
 * sign of a, rounds to nearest even for |a| below that; above it every value is whole already. */
#if defined(__x86_64__) && !defined(__SSE4_1__) && !defined(W_DIALECT)
#define W_WHOLE_f32 8388608.0
#define W_WHOLE_f64 4503599627370496.0
#define W_rint_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_rint_##t(c_##t a) {                                                                               \
        const c_##t m = W_CALL_##t(copysign)((c_##t)(W_WHOLE_##t), a);                                                 \
        const c_##t r = W_CALL_##t(copysign)((a + m) - m, a);                                                          \
        return W_CALL_##t(fabs)(a) < (c_##t)(W_WHOLE_##t) ? r : a;                                                     \
    }
#define W_floor_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_floor_##t(c_##t a) {                                                                              \
        const c_##t r = w_rint_##t(a);                                                                                 \
        return W_CALL_##t(copysign)(r > a ? r - 1 : r, a);                                                             \
    }
#define W_ceil_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_ceil_##t(c_##t a) {                                                                               \
        const c_##t r = w_rint_##t(a);                                                                                 \
        return W_CALL_##t(copysign)(r < a ? r + 1 : r, a);                                                             \
    }
#define W_trunc_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_trunc_##t(c_##t a) {                                                                              \
        const c_##t r = w_floor_##t(W_CALL_##t(fabs)(a));                                                              \
        return W_CALL_##t(copysign)(r, a);                                                                             \
    }
#else
#define W_rint_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_rint_##t(c_##t a) { return W_CALL_##t(rint)(a); }
#define W_floor_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_floor_##t(c_##t a) { return W_CALL_##t(floor)(a); }
#define W_ceil_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_ceil_##t(c_##t a) { return W_CALL_##t(ceil)(a); }
#define W_trunc_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_trunc_##t(c_##t a) { return W_CALL_##t(trunc)(a); }
#endif

#define W_add_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_add_##t(c_##t a, c_##t b) { return a + b; }
#define W_sub_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_sub_##t(c_##t a, c_##t b) { return a - b; }
#define W_mul_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_mul_##t(c_##t a, c_##t b) { return a * b; }
#define W_div_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_div_##t(c_##t a, c_##t b) { return a / b; }
#define W_neg_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_neg_##t(c_##t a) { return -a; }
#define W_abs_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_abs_##t(c_##t a) { return W_CALL_##t(fabs)(a); }
#define W_muladd_FLOAT(t)                                                                                              \
    W_INLINE c_##t w_muladd_##t(c_##t a, c_##t b, c_##t c) { return a * b + c; }
#define W_fma_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_fma_##t(c_##t a, c_##t b, c_##t c) { return W_CALL_##t(fma)(a, b, c); }
#define W_max_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_max_##t(c_##t a, c_##t b) {                                                                       \
        const c_##t larger = a > b ? a : b; /* b when one is NaN */                                                    \
        return a == a ? larger : a;                                                                                    \
    }
#define W_min_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_min_##t(c_##t a, c_##t b) {                                                                       \
        const c_##t smaller = a < b ? a : b;                                                                           \
        return a == a ? smaller : a;                                                                                   \
    }
#define W_cut_FLOAT(t)                                                                                                 \
    W_INLINE c_##t w_cut_##t(c_##t a, c_##t lo, c_##t hi) {                                                            \
        a = a > lo ? a : lo;                                                                                           \
        return a < hi ? a : hi;                                                                                        \
    }
#define W_fmod_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_fmod_##t(c_##t a, c_##t b) { return W_CALL_##t(fmod)(a, b); }
#define W_sqrt_FLOAT(t)                                                                                                \
    W_INLINE c_##t w_sqrt_##t(c_##t a) { return W_CALL_##t(sqrt)(a); }
#define W_copysign_FLOAT(t)                                                                                            \
    W_INLINE c_##t w_copysign_##t(c_##t a, c_##t b) { return W_CALL_##t(copysign)(a, b); }

/* Next to 1.5 * 2^23 floats are whole numbers (f64: 1.5 * 2^52), and the lower bits of such a sum are the number
 * itself. */
#define W_BIG_f32         12582912.0f
#define W_BIG_f64         6755399441055744.0
#define W_EXPONENT_f32(n) ((n) << 23)
#define W_EXPONENT_f64(n) ((n) << 52)
#define W_BIAS_f32        127.0f
#define W_BIAS_f64        1023.0
#define W_BITS_f32        uint32_t
#define W_BITS_f64        uint64_t
#define W_nearest_FLOAT(t)                                                                                             \
    W_INLINE c_##t w_nearest_##t(c_##t a, c_##t b) { return (a * b + W_BIG_##t) - W_BIG_##t; }
#define W_exp2i_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_exp2i_##t(c_##t n) {                                                                              \
        return w_unbits_##t(W_EXPONENT_##t(w_bits_##t(n + (W_BIG_##t + W_BIAS_##t))));                                 \
    }
#define W_scale_FLOAT(t)                                                                                               \
    W_INLINE c_##t w_scale_##t(c_##t a, c_##t n) { /* by half of the exponent, rounded down, and half, rounded up */   \
        const W_BITS_##t u = w_bits_##t(n + (W_BIG_##t + 2 * W_BIAS_##t));                                             \
        return a * w_unbits_##t(W_EXPONENT_##t(u >> 1)) * w_unbits_##t(W_EXPONENT_##t((u + 1) >> 1));                  \
    }
#define W_exponent_FLOAT(t) W_exponent_##t
#define W_exponent_f32                                                                                                 \
    W_INLINE c_f32 w_exponent_f32(c_f32 a) { return (c_f32)((int32_t)((w_bits_f32(a) >> 23) & 255u) - 127); }
/* 64-bit integers do not convert to double in one step before AVX-512: place the bits under the exponent of 2^52 */
#define W_exponent_f64                                                                                                 \
    W_INLINE c_f64 w_exponent_f64(c_f64 a) {                                                                           \
        return w_unbits_f64(((w_bits_f64(a) >> 52) & 2047u) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);    \
    }
#define W_mantissa_FLOAT(t) W_mantissa_##t
#define W_mantissa_f32                                                                                                 \
    W_INLINE c_f32 w_mantissa_f32(c_f32 a) { return w_unbits_f32((w_bits_f32(a) & 0x007fffffu) | 0x3f800000u); }
#define W_mantissa_f64                                                                                                 \
    W_INLINE c_f64 w_mantissa_f64(c_f64 a) {                                                                           \
        return w_unbits_f64((w_bits_f64(a) & 0x000fffffffffffffu) | 0x3ff0000000000000u);                              \
    }

#define W_FLOAT(t)                                                                                                     \
    W_ANY(t)                                                                                                           \
    W_rint_FLOAT(t) W_floor_FLOAT(t) W_ceil_FLOAT(t) W_trunc_FLOAT(t) W_add_FLOAT(t) W_sub_FLOAT(t) W_mul_FLOAT(t)     \
        W_div_FLOAT(t) W_neg_FLOAT(t) W_abs_FLOAT(t) W_muladd_FLOAT(t) W_fma_FLOAT(t) W_max_FLOAT(t) W_min_FLOAT(t)    \
            W_cut_FLOAT(t) W_fmod_FLOAT(t) W_sqrt_FLOAT(t) W_copysign_FLOAT(t) W_nearest_FLOAT(t) W_exp2i_FLOAT(t)     \
                W_scale_FLOAT(t) W_exponent_FLOAT(t) W_mantissa_FLOAT(t)

/* ---- integers: arithmetic in an unsigned type at least as wide as int, so that nothing overflows ---------------- */
#define W_WIDE_i8   uint32_t
#define W_WIDE_i16  uint32_t
#define W_WIDE_i32  uint32_t
#define W_WIDE_i64  uint64_t
#define W_WIDE_u8   uint32_t
#define W_WIDE_u16  uint32_t
#define W_WIDE_u32  uint32_t
#define W_WIDE_u64  uint64_t
#define W_SIGNED(t) ((c_##t) - 1 < (c_##t)1)
#define W_add_INT(t)                                                                                                   \
    W_INLINE c_##t w_add_##t(c_##t a, c_##t b) { return (c_##t)((W_WIDE_##t)a + (W_WIDE_##t)b); }
#define W_sub_INT(t)                                                                                                   \
    W_INLINE c_##t w_sub_##t(c_##t a, c_##t b) { return (c_##t)((W_WIDE_##t)a - (W_WIDE_##t)b); }
#define W_mul_INT(t)                                                                                                   \
    W_INLINE c_##t w_mul_##t(c_##t a, c_##t b) { return (c_##t)((W_WIDE_##t)a * (W_WIDE_##t)b); }
#define W_neg_INT(t)                                                                                                   \
    W_INLINE c_##t w_neg_##t(c_##t a) { return (c_##t)(0 - (W_WIDE_##t)a); }
#define W_abs_INT(t)                                                                                                   \
    W_INLINE c_##t w_abs_##t(c_##t a) { return a < (c_##t)1 ? (c_##t)(0 - (W_WIDE_##t)a) : a; }
#define W_max_INT(t)                                                                                                   \
    W_INLINE c_##t w_max_##t(c_##t a, c_##t b) { return a > b ? a : b; }
#define W_min_INT(t)                                                                                                   \
    W_INLINE c_##t w_min_##t(c_##t a, c_##t b) { return a < b ? a : b; }
#define W_idiv_INT(t)                                                                                                  \
    W_INLINE c_##t w_idiv_##t(c_##t a, c_##t b) {                                                                      \
        const bool wraps = W_SIGNED(t) && b == (c_##t) - 1; /* a / -1 overflows for the lowest a: negate instead */    \
        const c_##t d = b == 0 || wraps ? (c_##t)1 : b;                                                                \
        return b == 0 ? (c_##t)0 : wraps ? (c_##t)(0 - (W_WIDE_##t)a) : (c_##t)(a / d);                                \
    }
#define W_irem_INT(t)                                                                                                  \
    W_INLINE c_##t w_irem_##t(c_##t a, c_##t b) {                                                                      \
        return b == 0 ? (c_##t)0 : (c_##t)((W_WIDE_##t)a - (W_WIDE_##t)b * (W_WIDE_##t)w_idiv_##t(a, b));              \
    }
#define W_ipow_INT(t)                                                                                                  \
    W_INLINE c_##t w_ipow_##t(c_##t a, c_##t b) {                                                                      \
        W_WIDE_##t power = 1, square = (W_WIDE_##t)a;                                                                  \
        uint64_t left = b < (c_##t)1 ? 0 : (uint64_t)b;                                                                \
        for (; left != 0; left >>= 1, square *= square) power *= left & 1 ? square : 1;                                \
        return W_SIGNED(t) && b < (c_##t)1 && b != 0 ? (c_##t)0 : (c_##t)power;                                        \
    }
#define W_rint_INT(t)                                                                                                  \
    W_INLINE c_##t w_rint_##t(c_##t a) { return a; }
#define W_floor_INT(t)                                                                                                 \
    W_INLINE c_##t w_floor_##t(c_##t a) { return a; }
#define W_ceil_INT(t)                                                                                                  \
    W_INLINE c_##t w_ceil_##t(c_##t a) { return a; }
#define W_trunc_INT(t)                                                                                                 \
    W_INLINE c_##t w_trunc_##t(c_##t a) { return a; }
#define W_and_INT(t)                                                                                                   \
    W_INLINE c_##t w_and_##t(c_##t a, c_##t b) { return (c_##t)(a & b); }
#define W_or_INT(t)                                                                                                    \
    W_INLINE c_##t w_or_##t(c_##t a, c_##t b) { return (c_##t)(a | b); }
#define W_xor_INT(t)                                                                                                   \
    W_INLINE c_##t w_xor_##t(c_##t a, c_##t b) { return (c_##t)(a ^ b); }
#define W_not_INT(t)                                                                                                   \
    W_INLINE c_##t w_not_##t(c_##t a) { return (c_##t) ~a; }
#define W_shl_INT(t)                                                                                                   \
    W_INLINE c_##t w_shl_##t(c_##t a, c_##t b) {                                                                       \
        const W_WIDE_##t width = sizeof(c_##t) * 8, by = (W_WIDE_##t)b;                                                \
        return by < width ? (c_##t)((W_WIDE_##t)a << (by & (sizeof(W_WIDE_##t) * 8 - 1))) : (c_##t)0;                  \
    }
#define W_shr_INT(t)                                                                                                   \
    W_INLINE c_##t w_shr_##t(c_##t a, c_##t b) {                                                                       \
        const W_WIDE_##t width = sizeof(c_##t) * 8, by = (W_WIDE_##t)b;                                                \
        return (c_##t)(a >> (by < width ? by : width - 1) >> (by < width ? 0 : 1));                                    \
    }
#define W_popcount_INT(t)                                                                                              \
    W_INLINE c_##t w_popcount_##t(c_##t a) {                                                                           \
        uint64_t u = (uint64_t)a & (~(uint64_t)0 >> (64 - 8 * sizeof(c_##t)));                                         \
        u = u - ((u >> 1) & 0x5555555555555555u);                                                                      \
        u = (u & 0x3333333333333333u) + ((u >> 2) & 0x3333333333333333u);                                              \
        return (c_##t)((((u + (u >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56);                          \
    }
#define W_INT(t)                                                                                                       \
    W_ANY(t)                                                                                                           \
    W_add_INT(t) W_sub_INT(t) W_mul_INT(t) W_neg_INT(t) W_abs_INT(t) W_max_INT(t) W_min_INT(t) W_idiv_INT(t)           \
        W_irem_INT(t) W_ipow_INT(t) W_rint_INT(t) W_floor_INT(t) W_ceil_INT(t) W_trunc_INT(t) W_and_INT(t) W_or_INT(t) \
            W_xor_INT(t) W_not_INT(t) W_shl_INT(t) W_shr_INT(t) W_popcount_INT(t)

/* ---- bool: stored as 0 or 1; the words keep it so -------------------------------------------------------------- */
#define W_max_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_max_b8(c_b8 a, c_b8 b) { return a | b; }
#define W_min_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_min_b8(c_b8 a, c_b8 b) { return a & b; }
#define W_and_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_and_b8(c_b8 a, c_b8 b) { return a & b; }
#define W_or_BOOL(t)                                                                                                   \
    W_INLINE c_b8 w_or_b8(c_b8 a, c_b8 b) { return a | b; }
#define W_xor_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_xor_b8(c_b8 a, c_b8 b) { return a ^ b; }
#define W_not_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_not_b8(c_b8 a) { return a ^ 1; }
#define W_shl_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_shl_b8(c_b8 a, c_b8 b) { return a & (b ^ 1); }
#define W_shr_BOOL(t)                                                                                                  \
    W_INLINE c_b8 w_shr_b8(c_b8 a, c_b8 b) { return a & (b ^ 1); }
#define W_popcount_BOOL(t)                                                                                             \
    W_INLINE c_b8 w_popcount_b8(c_b8 a) { return a; }
#define W_BOOL(t)                                                                                                      \
    W_ANY(t)                                                                                                           \
    W_max_BOOL(t) W_min_BOOL(t) W_and_BOOL(t) W_or_BOOL(t) W_xor_BOOL(t) W_not_BOOL(t) W_shl_BOOL(t) W_shr_BOOL(t)     \
        W_popcount_BOOL(t)

#ifndef W_DIALECT
W_FLOAT(f32)
W_FLOAT(f64)
W_INT(i8)
W_INT(i16)
W_INT(i32)
W_INT(i64)
W_INT(u8)
W_INT(u16)
W_INT(u32)
W_INT(u64)
W_BOOL(b8)

#define W_POLY(t)                                                                                                      \
    W_INLINE c_##t w_poly_##t(c_##t x, const c_##t *k, int n) {                                                        \
        c_##t r = k[n - 1];                                                                                            \
        W_UNROLL for (int i = n - 2; i >= 0; --i) r = r * x + k[i];                                                    \
        return r;                                                                                                      \
    }
W_POLY(f32)
W_POLY(f64)
#endif

/* ---- the words ------------------------------------------------------------------------------------------------- */
#define ADD(a, b)       W(add)(a, b)
#define SUB(a, b)       W(sub)(a, b)
#define MUL(a, b)       W(mul)(a, b)
#define DIV(a, b)       W(div)(a, b)
#define IDIV(a, b)      W(idiv)(a, b)
#define IREM(a, b)      W(irem)(a, b)
#define IPOW(a, b)      W(ipow)(a, b)
#define FMOD(a, b)      W(fmod)(a, b)
#define NEG(a)          W(neg)(a)
#define ABS(a)          W(abs)(a)
#define MULADD(a, b, c) W(muladd)(a, b, c)
#define FMA(a, b, c)    W(fma)(a, b, c)
#define MAX(a, b)       W(max)(a, b)
#define MIN(a, b)       W(min)(a, b)
#define CUT(a, lo, hi)  W(cut)(a, lo, hi)
#define LT(a, b)        W(lt)(a, b)
#define LE(a, b)        W(le)(a, b)
#define EQ(a, b)        W(eq)(a, b)
#define BOTH(a, b)      ((int)(a) & (int)(b))
#define EITHER(a, b)    ((int)(a) | (int)(b))
#define UNLESS(a)       (!(a))
#define SELECT(c, a, b) W(select)(c, a, b)
#define AND(a, b)       W (and)(a, b)
#define OR(a, b)        W(or)(a, b)
#define XOR(a, b)       W (xor)(a, b)
#define NOT(a)          W(not )(a)
#define SHL(a, b)       W(shl)(a, b)
#define SHR(a, b)       W(shr)(a, b)
#define POPCOUNT(a)     W(popcount)(a)
#define RINT(a)         W(rint)(a)
#define FLOOR(a)        W(floor)(a)
#define CEIL(a)         W(ceil)(a)
#define TRUNC(a)        W(trunc)(a)
#define SQRT(a)         W(sqrt)(a)
#define COPYSIGN(a, b)  W(copysign)(a, b)
#define NEAREST(a, b)   W(nearest)(a, b)
#define EXP2I(a)        W(exp2i)(a)
#define SCALE(a, b)     W(scale)(a, b)
#define EXPONENT(a)     W(exponent)(a)
#define MANTISSA(a)     W(mantissa)(a)

#define EXP(a)            W(exp)(a)
#define EXP2(a)           W(exp2)(a)
#define EXPM1(a)          W(expm1)(a)
#define LOG(a)            W(log)(a)
#define LOG2(a)           W(log2)(a)
#define LOG1P(a)          W(log1p)(a)
#define SIN(a)            W(sin)(a)
#define COS(a)            W(cos)(a)
#define TAN(a)            W(tan)(a)
#define ASIN(a)           W(asin)(a)
#define ACOS(a)           W(acos)(a)
#define ATAN(a)           W(atan)(a)
#define SINH(a)           W(sinh)(a)
#define COSH(a)           W(cosh)(a)
#define TANH(a)           W(tanh)(a)
#define ASINH(a)          W(asinh)(a)
#define ACOSH(a)          W(acosh)(a)
#define ATANH(a)          W(atanh)(a)
#define ERF(a)            W(erf)(a)
#define ERFC(a)           W(erfc)(a)
#define ERFINV(a)         W(erfinv)(a)
#define SIGMOID(a)        W(sigmoid)(a)
#define SILU(a)           W(silu)(a)
#define LGAMMA(a)         W(lgamma)(a)
#define DIGAMMA(a)        W(digamma)(a)
#define TRIGAMMA(a)       W(trigamma)(a)
#define POW(a, b)         W(pow)(a, b)
#define ATAN2(a, b)       W(atan2)(a, b)
#define NDTR(a)           W(ndtr)(a)
#define NDTRI(a)          W(ndtri)(a)
#define I0(a)             W(i0)(a)
#define I1(a)             W(i1)(a)
#define FREXP_MANTISSA(a) W(frexp_mantissa)(a)
#define FREXP_EXPONENT(a) W(frexp_exponent)(a)
#define LDEXP(a, b)       W(ldexp)(a, b)

/* ---- constants and programs ---------------------------------------------------------------------------------------
 * K(v): a literal. K2(v32, v64): a literal per precision. POLY(x, C(c0, c1, ...), C(...)): the polynomial
 * c0 + c1 x + ..., coefficients per precision. Set W_PRECISION to 32 or 64 together with T. */
#define K(v)              ((CT)(v))
#define C(...)            ((const CT[]){__VA_ARGS__})
#define W_PICK_32(a, b)   a
#define W_PICK_64(a, b)   b
#define W_PICK(a, b)      W_JOIN(W_PICK, W_PRECISION)(a, b)
#define K2(v32, v64)      ((CT)W_PICK(v32, v64))
#define POLY(x, c32, c64) W(poly)(x, W_PICK(c32, c64), (int)(sizeof(W_PICK(c32, c64)) / sizeof(CT)))

#define PROGRAM1(name, x)    W_INLINE CT W(name)(CT x) {
#define PROGRAM2(name, a, b) W_INLINE CT W(name)(CT a, CT b) {
#define LET(v, e)            const CT v = (e);
#define WHEN(v, e)           const bool v = (e);
#define RESULT(e)                                                                                                      \
    return (e);                                                                                                        \
    }

#endif
