/* The vocabulary read as C: one set of inline functions per compute type. `T` names the type a sentence is read in
 * (f32, f64, i8 ... u64, b8); ADD(a, b) then means w_add_f32(a, b) and so on. Include it once, set T, and include
 * math.def or a table of rows. Everything is branch-free, so that loops over sentences vectorise.
 *
 * Built with -fno-math-errno -fno-trapping-math -ffp-contract=fast and never with -ffast-math: NaN, infinities and
 * the sign of zero survive.
 */
#ifndef HD_KERNEL_WORDS_C_H
#define HD_KERNEL_WORDS_C_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define W_INLINE      static inline __attribute__((always_inline, unused))
#define W_JOIN_(a, b) a##_##b
#define W_JOIN(a, b)  W_JOIN_(a, b)
#define W(word)       W_JOIN(w_##word, T) /* w_add_f32 */
#define CT            W_JOIN(c, T)        /* the C type of T: c_f32 */

/* gcc unrolls 16 rounds by itself, and what is not unrolled is not vectorised; clang unrolls all, unless told to. */
#if defined(__GNUC__) && !defined(__clang__)
#define W_UNROLL _Pragma("GCC unroll 32")
#else
#define W_UNROLL
#endif

typedef float c_f32;
typedef double c_f64;
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
#define W_COMMON(t)                                                                                                    \
    W_INLINE bool w_lt_##t(c_##t a, c_##t b) { return a < b; }                                                         \
    W_INLINE bool w_le_##t(c_##t a, c_##t b) { return a <= b; }                                                        \
    W_INLINE bool w_eq_##t(c_##t a, c_##t b) { return a == b; }                                                        \
    W_INLINE c_##t w_select_##t(bool c, c_##t a, c_##t b) { return c ? a : b; }

/* ---- floats ------------------------------------------------------------------------------------------------------
 * SSE2 has no rounding instruction and gcc would call libm there; adding and subtracting 2^(mantissa bits), with the
 * sign of a, rounds to nearest even for |a| below that; above it every value is whole already. */
#if defined(__x86_64__) && !defined(__SSE4_1__)
#define W_ROUNDING(t, s, whole)                                                                                        \
    W_INLINE c_##t w_rint_##t(c_##t a) {                                                                               \
        const c_##t m = __builtin_copysign##s((c_##t)(whole), a);                                                      \
        const c_##t r = __builtin_copysign##s((a + m) - m, a);                                                         \
        return __builtin_fabs##s(a) < (c_##t)(whole) ? r : a;                                                          \
    }                                                                                                                  \
    W_INLINE c_##t w_floor_##t(c_##t a) {                                                                              \
        const c_##t r = w_rint_##t(a);                                                                                 \
        return __builtin_copysign##s(r > a ? r - 1 : r, a);                                                            \
    }                                                                                                                  \
    W_INLINE c_##t w_ceil_##t(c_##t a) {                                                                               \
        const c_##t r = w_rint_##t(a);                                                                                 \
        return __builtin_copysign##s(r < a ? r + 1 : r, a);                                                            \
    }                                                                                                                  \
    W_INLINE c_##t w_trunc_##t(c_##t a) {                                                                              \
        const c_##t r = w_floor_##t(__builtin_fabs##s(a));                                                             \
        return __builtin_copysign##s(r, a);                                                                            \
    }
#else
#define W_ROUNDING(t, s, whole)                                                                                        \
    W_INLINE c_##t w_rint_##t(c_##t a) { return __builtin_rint##s(a); }                                                \
    W_INLINE c_##t w_floor_##t(c_##t a) { return __builtin_floor##s(a); }                                              \
    W_INLINE c_##t w_ceil_##t(c_##t a) { return __builtin_ceil##s(a); }                                                \
    W_INLINE c_##t w_trunc_##t(c_##t a) { return __builtin_trunc##s(a); }
#endif

#define W_FLOAT(t, s, whole)                                                                                           \
    W_COMMON(t)                                                                                                        \
    W_ROUNDING(t, s, whole)                                                                                            \
    W_INLINE c_##t w_add_##t(c_##t a, c_##t b) { return a + b; }                                                       \
    W_INLINE c_##t w_sub_##t(c_##t a, c_##t b) { return a - b; }                                                       \
    W_INLINE c_##t w_mul_##t(c_##t a, c_##t b) { return a * b; }                                                       \
    W_INLINE c_##t w_div_##t(c_##t a, c_##t b) { return a / b; }                                                       \
    W_INLINE c_##t w_neg_##t(c_##t a) { return -a; }                                                                   \
    W_INLINE c_##t w_abs_##t(c_##t a) { return __builtin_fabs##s(a); }                                                 \
    W_INLINE c_##t w_muladd_##t(c_##t a, c_##t b, c_##t c) { return a * b + c; }                                       \
    W_INLINE c_##t w_fma_##t(c_##t a, c_##t b, c_##t c) { return __builtin_fma##s(a, b, c); }                          \
    W_INLINE c_##t w_max_##t(c_##t a, c_##t b) {                                                                       \
        const c_##t larger = a > b ? a : b; /* b when one is NaN */                                                    \
        return a == a ? larger : a;                                                                                    \
    }                                                                                                                  \
    W_INLINE c_##t w_min_##t(c_##t a, c_##t b) {                                                                       \
        const c_##t smaller = a < b ? a : b;                                                                           \
        return a == a ? smaller : a;                                                                                   \
    }                                                                                                                  \
    W_INLINE c_##t w_cut_##t(c_##t a, c_##t lo, c_##t hi) {                                                            \
        a = a > lo ? a : lo;                                                                                           \
        return a < hi ? a : hi;                                                                                        \
    }                                                                                                                  \
    W_INLINE c_##t w_fmod_##t(c_##t a, c_##t b) { return __builtin_fmod##s(a, b); }                                    \
    W_INLINE c_##t w_sqrt_##t(c_##t a) { return __builtin_sqrt##s(a); }                                                \
    W_INLINE c_##t w_copysign_##t(c_##t a, c_##t b) { return __builtin_copysign##s(a, b); }                            \
    W_INLINE c_##t w_poly_##t(c_##t x, const c_##t *k, int n) {                                                        \
        c_##t r = k[n - 1];                                                                                            \
        W_UNROLL for (int i = n - 2; i >= 0; --i) r = r * x + k[i];                                                    \
        return r;                                                                                                      \
    }
W_FLOAT(f32, f, 8388608.0)
W_FLOAT(f64, , 4503599627370496.0)

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

/* Next to 1.5 * 2^23 floats are whole numbers (f64: 1.5 * 2^52), and the lower bits of such a sum are the number
 * itself. */
W_INLINE float w_nearest_f32(float a, float b) { return (a * b + 12582912.0f) - 12582912.0f; }
W_INLINE float w_exp2i_f32(float n) { return w_unbits_f32(w_bits_f32(n + (12582912.0f + 127.0f)) << 23); }
W_INLINE float w_scale_f32(float a, float n) { /* by half of the exponent, rounded down, and half of it, rounded up */
    const uint32_t u = w_bits_f32(n + (12582912.0f + 254.0f));
    return a * w_unbits_f32(u >> 1 << 23) * w_unbits_f32((u + 1) >> 1 << 23);
}
W_INLINE float w_exponent_f32(float a) { return (float)((int32_t)((w_bits_f32(a) >> 23) & 255u) - 127); }
W_INLINE float w_mantissa_f32(float a) { return w_unbits_f32((w_bits_f32(a) & 0x007fffffu) | 0x3f800000u); }
W_INLINE double w_nearest_f64(double a, double b) { return (a * b + 6755399441055744.0) - 6755399441055744.0; }
W_INLINE double w_exp2i_f64(double n) { return w_unbits_f64(w_bits_f64(n + (6755399441055744.0 + 1023.0)) << 52); }
W_INLINE double w_scale_f64(double a, double n) {
    const uint64_t u = w_bits_f64(n + (6755399441055744.0 + 2046.0));
    return a * w_unbits_f64(u >> 1 << 52) * w_unbits_f64((u + 1) >> 1 << 52);
}
/* 64-bit integers do not convert to double in one step before AVX-512: place the bits under the exponent of 2^52 */
W_INLINE double w_exponent_f64(double a) {
    return w_unbits_f64(((w_bits_f64(a) >> 52) & 2047u) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
}
W_INLINE double w_mantissa_f64(double a) {
    return w_unbits_f64((w_bits_f64(a) & 0x000fffffffffffffu) | 0x3ff0000000000000u);
}

/* ---- integers: arithmetic in an unsigned type U at least as wide as int, so that nothing overflows ------------- */
#define W_INT(t, U, lowest)                                                                                            \
    W_COMMON(t)                                                                                                        \
    W_INLINE c_##t w_add_##t(c_##t a, c_##t b) { return (c_##t)((U)a + (U)b); }                                        \
    W_INLINE c_##t w_sub_##t(c_##t a, c_##t b) { return (c_##t)((U)a - (U)b); }                                        \
    W_INLINE c_##t w_mul_##t(c_##t a, c_##t b) { return (c_##t)((U)a * (U)b); }                                        \
    W_INLINE c_##t w_neg_##t(c_##t a) { return (c_##t)(0 - (U)a); }                                                    \
    W_INLINE c_##t w_abs_##t(c_##t a) { return a < (c_##t)1 ? (c_##t)(0 - (U)a) : a; }                                 \
    W_INLINE c_##t w_max_##t(c_##t a, c_##t b) { return a > b ? a : b; }                                               \
    W_INLINE c_##t w_min_##t(c_##t a, c_##t b) { return a < b ? a : b; }                                               \
    W_INLINE c_##t w_idiv_##t(c_##t a, c_##t b) {                                                                      \
        const bool wraps = (lowest) != 0 && b == (c_##t) - 1; /* a / -1 overflows for the lowest a: negate instead */  \
        const c_##t d = b == 0 || wraps ? (c_##t)1 : b;                                                                \
        return b == 0 ? (c_##t)0 : wraps ? (c_##t)(0 - (U)a) : (c_##t)(a / d);                                         \
    }                                                                                                                  \
    W_INLINE c_##t w_irem_##t(c_##t a, c_##t b) {                                                                      \
        return b == 0 ? (c_##t)0 : (c_##t)((U)a - (U)b * (U)w_idiv_##t(a, b));                                         \
    }                                                                                                                  \
    W_INLINE c_##t w_ipow_##t(c_##t a, c_##t b) {                                                                      \
        U power = 1, square = (U)a;                                                                                    \
        uint64_t left = b < (c_##t)1 ? 0 : (uint64_t)b;                                                                \
        for (; left != 0; left >>= 1, square *= square) power *= left & 1 ? square : 1;                                \
        return (lowest) != 0 && b < (c_##t)1 && b != 0 ? (c_##t)0 : (c_##t)power;                                      \
    }                                                                                                                  \
    W_INLINE c_##t w_rint_##t(c_##t a) { return a; }                                                                   \
    W_INLINE c_##t w_floor_##t(c_##t a) { return a; }                                                                  \
    W_INLINE c_##t w_ceil_##t(c_##t a) { return a; }                                                                   \
    W_INLINE c_##t w_trunc_##t(c_##t a) { return a; }                                                                  \
    W_INLINE c_##t w_and_##t(c_##t a, c_##t b) { return (c_##t)(a & b); }                                              \
    W_INLINE c_##t w_or_##t(c_##t a, c_##t b) { return (c_##t)(a | b); }                                               \
    W_INLINE c_##t w_xor_##t(c_##t a, c_##t b) { return (c_##t)(a ^ b); }                                              \
    W_INLINE c_##t w_not_##t(c_##t a) { return (c_##t) ~a; }                                                           \
    W_INLINE c_##t w_shl_##t(c_##t a, c_##t b) {                                                                       \
        const U width = sizeof(c_##t) * 8, by = (U)b;                                                                  \
        return by < width ? (c_##t)((U)a << (by & (sizeof(U) * 8 - 1))) : (c_##t)0;                                    \
    }                                                                                                                  \
    W_INLINE c_##t w_shr_##t(c_##t a, c_##t b) {                                                                       \
        const U width = sizeof(c_##t) * 8, by = (U)b;                                                                  \
        return (c_##t)(a >> (by < width ? by : width - 1) >> (by < width ? 0 : 1));                                    \
    }                                                                                                                  \
    W_INLINE c_##t w_popcount_##t(c_##t a) {                                                                           \
        uint64_t u = (uint64_t)a & (~0ull >> (64 - 8 * sizeof(c_##t)));                                                \
        u = u - ((u >> 1) & 0x5555555555555555u);                                                                      \
        u = (u & 0x3333333333333333u) + ((u >> 2) & 0x3333333333333333u);                                              \
        return (c_##t)((((u + (u >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56);                          \
    }
W_INT(i8, uint32_t, INT8_MIN)
W_INT(i16, uint32_t, INT16_MIN)
W_INT(i32, uint32_t, INT32_MIN)
W_INT(i64, uint64_t, INT64_MIN)
W_INT(u8, uint32_t, 0)
W_INT(u16, uint32_t, 0)
W_INT(u32, uint32_t, 0)
W_INT(u64, uint64_t, 0)

/* ---- bool: stored as 0 or 1; the words keep it so -------------------------------------------------------------- */
W_COMMON(b8)
W_INLINE c_b8 w_max_b8(c_b8 a, c_b8 b) { return a | b; }
W_INLINE c_b8 w_min_b8(c_b8 a, c_b8 b) { return a & b; }
W_INLINE c_b8 w_and_b8(c_b8 a, c_b8 b) { return a & b; }
W_INLINE c_b8 w_or_b8(c_b8 a, c_b8 b) { return a | b; }
W_INLINE c_b8 w_xor_b8(c_b8 a, c_b8 b) { return a ^ b; }
W_INLINE c_b8 w_not_b8(c_b8 a) { return a ^ 1; }
W_INLINE c_b8 w_shl_b8(c_b8 a, c_b8 b) { return a & (b ^ 1); }
W_INLINE c_b8 w_shr_b8(c_b8 a, c_b8 b) { return a & (b ^ 1); }
W_INLINE c_b8 w_popcount_b8(c_b8 a) { return a; }

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

#define EXP(a)      W(exp)(a)
#define EXP2(a)     W(exp2)(a)
#define EXPM1(a)    W(expm1)(a)
#define LOG(a)      W(log)(a)
#define LOG2(a)     W(log2)(a)
#define LOG1P(a)    W(log1p)(a)
#define SIN(a)      W(sin)(a)
#define COS(a)      W(cos)(a)
#define TAN(a)      W(tan)(a)
#define ASIN(a)     W(asin)(a)
#define ACOS(a)     W(acos)(a)
#define ATAN(a)     W(atan)(a)
#define SINH(a)     W(sinh)(a)
#define COSH(a)     W(cosh)(a)
#define TANH(a)     W(tanh)(a)
#define ASINH(a)    W(asinh)(a)
#define ACOSH(a)    W(acosh)(a)
#define ATANH(a)    W(atanh)(a)
#define ERF(a)      W(erf)(a)
#define ERFC(a)     W(erfc)(a)
#define ERFINV(a)   W(erfinv)(a)
#define SIGMOID(a)  W(sigmoid)(a)
#define SILU(a)     W(silu)(a)
#define LGAMMA(a)   W(lgamma)(a)
#define DIGAMMA(a)  W(digamma)(a)
#define TRIGAMMA(a) W(trigamma)(a)
#define POW(a, b)   W(pow)(a, b)
#define ATAN2(a, b) W(atan2)(a, b)

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
