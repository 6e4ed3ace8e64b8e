/* learner: written by hodu; learner.h says what it does. */
#include "learner.h"

/* C99 without a library, as a dialect of rendered kernels: what machines without an operating system compile.
 * Nothing is called that is not here, but for what a compiler itself may call: copies of memory, and arithmetic
 * that its machine lacks. Of words_c.h only those that are used stand below, written out. Build with
 * -ffp-contract=on or off, and never with -ffast-math: NaN, infinities and the sign of zero survive. */
#if defined(__GNUC__)
#define W_INLINE static inline __attribute__((always_inline, unused))
#define W_LONG   static inline __attribute__((unused)) /* too long to be in every place that calls it */
#else
#define W_INLINE static inline
#define W_LONG   static inline
#endif
#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 202311L)
#define bool _Bool
#endif
#define W_DIALECT 4

typedef bool c_condition;
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

/* ---- bits -------------------------------------------------------------------------------------------------------- */
typedef union w_of_f32 {
    c_f32 number;
    uint32_t bits;
} w_of_f32;
typedef union w_of_f64 {
    c_f64 number;
    uint64_t bits;
} w_of_f64;
W_INLINE uint32_t w_bits_f32(c_f32 a) {
    w_of_f32 u;
    u.number = a;
    return u.bits;
}
W_INLINE uint64_t w_bits_f64(c_f64 a) {
    w_of_f64 u;
    u.number = a;
    return u.bits;
}
W_INLINE c_f32 w_unbits_f32(uint32_t bits) {
    w_of_f32 u;
    u.bits = bits;
    return u.number;
}
W_INLINE c_f64 w_unbits_f64(uint64_t bits) {
    w_of_f64 u;
    u.bits = bits;
    return u.number;
}
#ifndef INFINITY
#define INFINITY w_unbits_f32(0x7f800000u)
#endif
#ifndef NAN
#define NAN w_unbits_f32(0x7fc00000u)
#endif

/* ---- what others have in math.h ---------------------------------------------------------------------------------- */
#define W_CALL_f32(name)  w_plain_##name##_f32
#define W_CALL_f64(name)  w_plain_##name##_f64
#define W_SIGNED(t)       ((c_##t) - 1 < (c_##t)1)
#define W_EXPONENT_f32(n) ((n) << 23)
#define W_EXPONENT_f64(n) ((n) << 52)
W_INLINE c_f32 w_plain_fabs_f32(c_f32 a) { return w_unbits_f32(w_bits_f32(a) & 0x7fffffffu); }
W_INLINE c_f64 w_plain_fabs_f64(c_f64 a) { return w_unbits_f64(w_bits_f64(a) & 0x7fffffffffffffffu); }
W_INLINE c_f32 w_plain_copysign_f32(c_f32 a, c_f32 b) {
    return w_unbits_f32((w_bits_f32(a) & 0x7fffffffu) | (w_bits_f32(b) & 0x80000000u));
}
W_INLINE c_f64 w_plain_copysign_f64(c_f64 a, c_f64 b) {
    return w_unbits_f64((w_bits_f64(a) & 0x7fffffffffffffffu) | (w_bits_f64(b) & 0x8000000000000000u));
}

/* Roots, correctly rounded: by the machine where one instruction does it, else digit by digit. */
#if defined(__GNUC__) && defined(__x86_64__)
W_INLINE c_f32 w_plain_sqrt_f32(c_f32 a) {
    __asm__("sqrtss %0, %0" : "+x"(a));
    return a;
}
W_INLINE c_f64 w_plain_sqrt_f64(c_f64 a) {
    __asm__("sqrtsd %0, %0" : "+x"(a));
    return a;
}
#define W_ROOT_f32
#define W_ROOT_f64
#elif defined(__GNUC__) && defined(__aarch64__)
W_INLINE c_f32 w_plain_sqrt_f32(c_f32 a) {
    __asm__("fsqrt %s0, %s0" : "+w"(a));
    return a;
}
W_INLINE c_f64 w_plain_sqrt_f64(c_f64 a) {
    __asm__("fsqrt %d0, %d0" : "+w"(a));
    return a;
}
#define W_ROOT_f32
#define W_ROOT_f64
#elif defined(__GNUC__) && defined(__ARM_FP) && (__ARM_FP & 4) && !defined(__SOFTFP__)
W_INLINE c_f32 w_plain_sqrt_f32(c_f32 a) {
    __asm__("vsqrt.f32 %0, %0" : "+t"(a));
    return a;
}
#define W_ROOT_f32
#elif defined(__GNUC__) && defined(__riscv_flen)
W_INLINE c_f32 w_plain_sqrt_f32(c_f32 a) {
    __asm__("fsqrt.s %0, %0" : "+f"(a));
    return a;
}
#define W_ROOT_f32
#if __riscv_flen >= 64
W_INLINE c_f64 w_plain_sqrt_f64(c_f64 a) {
    __asm__("fsqrt.d %0, %0" : "+f"(a));
    return a;
}
#define W_ROOT_f64
#endif
#endif
/* The largest whole number whose square is at most m, and what is left. */
#define W_ROOT(m)                                                                                                      \
    uint64_t root = 0, left = (m);                                                                                     \
    for (uint64_t bit = (uint64_t)1 << 62; bit != 0; bit >>= 2) {                                                      \
        if (left >= root + bit) {                                                                                      \
            left -= root + bit;                                                                                        \
            root = (root >> 1) + bit;                                                                                  \
        } else {                                                                                                       \
            root >>= 1;                                                                                                \
        }                                                                                                              \
    }
#ifndef W_ROOT_f32
W_LONG c_f32 w_plain_sqrt_f32(c_f32 a) {
    uint32_t bits = w_bits_f32(a);
    int32_t e = (int32_t)(bits >> 23);
    if (!(a > 0) || bits == 0x7f800000u) return a < 0 ? NAN : a;
    if (e == 0) { /* subnormal: times 2^24 */
        bits = w_bits_f32(a * 16777216.0f);
        e = (int32_t)(bits >> 23) - 24;
    }
    e -= 127;
    {
        const uint64_t m = (uint64_t)((bits & 0x7fffffu) | 0x800000u)
                           << (e & 1 ? 26 : 25); /* 48 bits: a root of 24 and 1 */
        W_ROOT(m)
        root += (root & 1) != 0 && (left != 0 || (root & 2) != 0) ? 1 : 0;
        root >>= 1;
        return w_unbits_f32((uint32_t)root + ((uint32_t)((e - (e & 1)) / 2 + 126) << 23));
    }
}
#endif
#ifndef W_ROOT_f64
W_LONG c_f64 w_plain_sqrt_f64(c_f64 a) {
    uint64_t bits = w_bits_f64(a);
    int32_t e = (int32_t)(bits >> 52);
    if (!(a > 0) || bits == 0x7ff0000000000000u) return a < 0 ? (c_f64)NAN : a;
    if (e == 0) { /* subnormal: times 2^54 */
        bits = w_bits_f64(a * 18014398509481984.0);
        e = (int32_t)(bits >> 52) - 54;
    }
    e -= 1023;
    { /* bit by bit: a root of 53 bits and one more, of a number of 108 */
        uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u, root = 0, left = 0;
        m <<= e & 1;
        for (int32_t i = 0; i < 54; ++i) { /* the highest two bits of m come next */
            left = left << 2 | ((m >> 52) & 3);
            m = (m << 2) & 0x3fffffffffffffu;
            root <<= 1;
            if (left >= 2 * root + 1) {
                left -= 2 * root + 1;
                root += 1;
            }
        }
        root += (root & 1) != 0 && (left != 0 || (root & 2) != 0) ? 1 : 0;
        root >>= 1;
        return w_unbits_f64(root + ((uint64_t)((e - (e & 1)) / 2 + 1022) << 52));
    }
}
#endif

/* a * b + c, rounded once. Of f32 by f64, whose last bit says whether the sum was exact; of f64 in 128 bits. */
#if defined(__GNUC__) && defined(__FMA__)
W_INLINE c_f32 w_plain_fma_f32(c_f32 a, c_f32 b, c_f32 c) { return __builtin_fmaf(a, b, c); }
W_INLINE c_f64 w_plain_fma_f64(c_f64 a, c_f64 b, c_f64 c) { return __builtin_fma(a, b, c); }
#else
W_INLINE c_f32 w_plain_fma_f32(c_f32 a, c_f32 b, c_f32 c) {
#if defined(__GNUC__) && defined(__ARM_FEATURE_FMA) && defined(__ARM_FP) && (__ARM_FP & 4)
    return __builtin_fmaf(a, b, c);
#elif defined(__GNUC__) && defined(__riscv_flen)
    return __builtin_fmaf(a, b, c);
#else
    const c_f64 product = (c_f64)a * (c_f64)b, sum = product + (c_f64)c;
    uint64_t bits = w_bits_f64(sum);
    if ((bits & 1) == 0 && sum - sum == 0) {
        const c_f64 of_c = sum - product, lost = (product - (sum - of_c)) + ((c_f64)c - of_c);
        if (lost != 0) bits += (lost > 0) == (sum > 0) ? 1 : (uint64_t)-1;
    }
    return (c_f32)w_unbits_f64(bits);
#endif
}
/* What a product of 53 bits lost, by Dekker and Veltkamp, and a sum that rounds to odd before its last step. */
W_LONG c_f64 w_plain_fma_f64(c_f64 a, c_f64 b, c_f64 c) {
#if defined(__GNUC__) && (defined(__aarch64__) || (defined(__riscv_flen) && __riscv_flen >= 64))
    return __builtin_fma(a, b, c);
#else
    const c_f64 whole = a * b;
    const c_f64 sa = a * 134217729.0, ah = sa - (sa - a), al = a - ah, sb = b * 134217729.0, bh = sb - (sb - b),
                bl = b - bh;
    const c_f64 low = ((ah * bh - whole) + ah * bl + al * bh) + al * bl;
    const c_f64 sum = whole + c, of_c = sum - whole, lost = (whole - (sum - of_c)) + (c - of_c);
    const c_f64 rest = lost + low, of_low = rest - lost, beyond = (lost - (rest - of_low)) + (low - of_low);
    uint64_t bits = w_bits_f64(rest);
    if (!(low - low == 0) || !(sum - sum == 0) || c == 0) return low - low == 0 && c == 0 && whole != 0 ? whole : sum;
    if (beyond != 0 && (bits & 1) == 0 && rest != 0) bits += (beyond > 0) == (rest > 0) ? 1 : (uint64_t)-1;
    return sum + w_unbits_f64(bits);
#endif
}
#endif

/* a - b * trunc(a / b), exactly: the remainder is shifted and reduced, bit by bit of the quotient. */
#define W_PLAIN_FMOD(t, word, digits, most)                                                                            \
    W_LONG c_##t w_plain_fmod_##t(c_##t a, c_##t b) {                                                                  \
        const word sign_a = w_bits_##t(a) & ~(~(word)0 >> 1), infinite = (word)(most) << (digits);                     \
        word m = w_bits_##t(a) ^ sign_a, n = w_bits_##t(b) & (~(word)0 >> 1);                                          \
        const word one = (word)1 << (digits);                                                                          \
        int32_t ea = (int32_t)(m >> (digits)), eb = (int32_t)(n >> (digits));                                          \
        if (n == 0 || m >= infinite || n > infinite) return (c_##t)NAN;                                                \
        if (m < n) return a;                                                                                           \
        m = ea == 0 ? m : (m & (one - 1)) | one;                                                                       \
        n = eb == 0 ? n : (n & (one - 1)) | one;                                                                       \
        ea = ea == 0 ? 1 : ea;                                                                                         \
        eb = eb == 0 ? 1 : eb;                                                                                         \
        for (; ea > eb; --ea) m = (m >= n ? m - n : m) << 1;                                                           \
        m = m >= n ? m - n : m;                                                                                        \
        if (m == 0) return w_unbits_##t(sign_a);                                                                       \
        for (; m < one && ea > 1; --ea) m <<= 1;                                                                       \
        return w_unbits_##t(sign_a | (m < one ? m : (m - one) + ((word)ea << (digits))));                              \
    }

/* ---- lanes: reductions run in LANES at a time, and are folded in halves ------------------------------------------ */
#ifndef LANES
#define LANES 8
#endif
#define W_FOLD(word, t)                                                                                                \
    W_LONG c_##t w_fold_##word##_##t(c_##t *p, int n) {                                                                \
        while (n > 1) {                                                                                                \
            const int half = (n + 1) / 2;                                                                              \
            for (int j = 0; j < n - half; ++j) p[j] = w_##word##_##t(p[j], p[j + half]);                               \
            n = half;                                                                                                  \
        }                                                                                                              \
        return p[0];                                                                                                   \
    }
W_INLINE int32_t w_least(int32_t a, int32_t b) { return a < b ? a : b; }

/* ---- the words that are used ---- */

W_INLINE c_i64 w_add_i64(c_i64 a, c_i64 b) { return (c_i64)((uint64_t)a + (uint64_t)b); }

W_INLINE c_f32 w_add_f32(c_f32 a, c_f32 b) { return a + b; }

W_INLINE c_f64 w_add_f64(c_f64 a, c_f64 b) { return a + b; }

W_INLINE c_f32 w_sub_f32(c_f32 a, c_f32 b) { return a - b; }

W_INLINE c_f64 w_sub_f64(c_f64 a, c_f64 b) { return a - b; }

W_INLINE c_i64 w_mul_i64(c_i64 a, c_i64 b) { return (c_i64)((uint64_t)a * (uint64_t)b); }

W_INLINE c_f32 w_mul_f32(c_f32 a, c_f32 b) { return a * b; }

W_INLINE c_f64 w_mul_f64(c_f64 a, c_f64 b) { return a * b; }

W_INLINE c_f32 w_div_f32(c_f32 a, c_f32 b) { return a / b; }

W_INLINE c_f64 w_div_f64(c_f64 a, c_f64 b) { return a / b; }

W_INLINE c_f32 w_neg_f32(c_f32 a) { return -a; }

W_INLINE c_f64 w_neg_f64(c_f64 a) { return -a; }

W_INLINE c_f32 w_abs_f32(c_f32 a) { return W_CALL_f32(fabs)(a); }

W_INLINE c_f64 w_abs_f64(c_f64 a) { return W_CALL_f64(fabs)(a); }

W_INLINE c_f32 w_muladd_f32(c_f32 a, c_f32 b, c_f32 c) { return a * b + c; }

W_INLINE c_f64 w_muladd_f64(c_f64 a, c_f64 b, c_f64 c) { return a * b + c; }

W_INLINE c_f64 w_fma_f64(c_f64 a, c_f64 b, c_f64 c) { return W_CALL_f64(fma)(a, b, c); }

W_INLINE c_f32 w_max_f32(c_f32 a, c_f32 b) {
    const c_f32 larger = a > b ? a : b; /* b when one is NaN */
    return a == a ? larger : a;
}

W_INLINE c_f32 w_min_f32(c_f32 a, c_f32 b) {
    const c_f32 smaller = a < b ? a : b;
    return a == a ? smaller : a;
}

W_INLINE c_f64 w_cut_f64(c_f64 a, c_f64 lo, c_f64 hi) {
    a = a > lo ? a : lo;
    return a < hi ? a : hi;
}

W_INLINE bool w_lt_i64(c_i64 a, c_i64 b) { return a < b; }

W_INLINE bool w_lt_f32(c_f32 a, c_f32 b) { return a < b; }

W_INLINE bool w_lt_f64(c_f64 a, c_f64 b) { return a < b; }

W_INLINE bool w_le_f32(c_f32 a, c_f32 b) { return a <= b; }

W_INLINE bool w_eq_i64(c_i64 a, c_i64 b) { return a == b; }

W_INLINE bool w_eq_f32(c_f32 a, c_f32 b) { return a == b; }

W_INLINE bool w_eq_f64(c_f64 a, c_f64 b) { return a == b; }

W_INLINE c_i64 w_select_i64(bool c, c_i64 a, c_i64 b) { return c ? a : b; }

W_INLINE c_f32 w_select_f32(bool c, c_f32 a, c_f32 b) { return c ? a : b; }

W_INLINE c_f64 w_select_f64(bool c, c_f64 a, c_f64 b) { return c ? a : b; }

W_INLINE c_u32 w_shr_u32(c_u32 a, c_u32 b) {
    const uint32_t width = sizeof(c_u32) * 8, by = (uint32_t)b;
    return (c_u32)(a >> (by < width ? by : width - 1) >> (by < width ? 0 : 1));
}

W_INLINE c_f64 w_rint_f64(c_f64 a) {
    const c_f64 m = W_CALL_f64(copysign)((c_f64)(4503599627370496.0), a);
    const c_f64 r = W_CALL_f64(copysign)((a + m) - m, a);
    return W_CALL_f64(fabs)(a) < (c_f64)(4503599627370496.0) ? r : a;
}

W_INLINE c_f32 w_sqrt_f32(c_f32 a) { return W_CALL_f32(sqrt)(a); }

W_INLINE c_f64 w_sqrt_f64(c_f64 a) { return W_CALL_f64(sqrt)(a); }

W_INLINE c_f32 w_copysign_f32(c_f32 a, c_f32 b) { return W_CALL_f32(copysign)(a, b); }

W_INLINE c_f64 w_copysign_f64(c_f64 a, c_f64 b) { return W_CALL_f64(copysign)(a, b); }

W_INLINE c_f32 w_nearest_f32(c_f32 a, c_f32 b) { return (a * b + 12582912.0f) - 12582912.0f; }

W_INLINE c_f32 w_exp2i_f32(c_f32 n) {
    return w_unbits_f32(W_EXPONENT_f32(w_bits_f32(n + (12582912.0f + 127.0f))));
}

W_INLINE c_f64 w_exp2i_f64(c_f64 n) {
    return w_unbits_f64(W_EXPONENT_f64(w_bits_f64(n + (6755399441055744.0 + 1023.0))));
}

W_INLINE c_f32 w_scale_f32(c_f32 a, c_f32 n) { /* by half of the exponent, rounded down, and half, rounded up */
    const uint32_t u = w_bits_f32(n + (12582912.0f + 2 * 127.0f));
    return a * w_unbits_f32(W_EXPONENT_f32(u >> 1)) * w_unbits_f32(W_EXPONENT_f32((u + 1) >> 1));
}

    W_INLINE c_f32 w_exponent_f32(c_f32 a) { return (c_f32)((int32_t)((w_bits_f32(a) >> 23) & 255u) - 127); }

    W_INLINE c_f64 w_exponent_f64(c_f64 a) {
        return w_unbits_f64(((w_bits_f64(a) >> 52) & 2047u) | 0x4330000000000000u) - (4503599627370496.0 + 1023.0);
    }
W_INLINE c_i32 w_cast_i32_u32(c_u32 v) { return (c_i32)v; }
W_INLINE c_f32 w_cast_f32_i32(c_i32 v) { return (c_f32)v; }
W_INLINE c_f32 w_cast_f32_f64(c_f64 v) { return (c_f32)v; }
W_FOLD(add, f32)
W_FOLD(max, f32)
W_INLINE c_f32 w_exp_f32(c_f32 a);
W_INLINE c_f32 w_log_f32(c_f32 a);
W_INLINE c_f32 w_tanh_f32(c_f32 a);
W_INLINE c_f64 w_pow_f64(c_f64 a, c_f64 b);
W_INLINE c_f32 w_exp_f32(c_f32 a) {
        const c_f32 v0 = 1.0f;
        const c_f32 v1 = 89.0f;
        const c_f32 v2 = -104.0f;
        const c_f32 v3 = a;
        const c_f32 v4 = w_max_f32(v2, v3);
        const c_f32 v5 = w_min_f32(v1, v4);
        const c_f32 v6 = 1.44269502f;
        const c_f32 v7 = w_nearest_f32(v5, v6);
        const c_f32 v8 = -1.42860677e-06f;
        const c_f32 v9 = -0.693145752f;
        const c_f32 v10 = w_muladd_f32(v7, v9, v5);
        const c_f32 v11 = w_muladd_f32(v7, v8, v10);
        const c_f32 v12 = w_mul_f32(v11, v11);
        const c_f32 v13 = 0.00138239691f;
        const c_f32 v14 = 0.00836901274f;
        const c_f32 v15 = w_muladd_f32(v13, v11, v14);
        const c_f32 v16 = 0.0416682363f;
        const c_f32 v17 = w_muladd_f32(v15, v11, v16);
        const c_f32 v18 = 0.166665182f;
        const c_f32 v19 = w_muladd_f32(v17, v11, v18);
        const c_f32 v20 = 0.49999994f;
        const c_f32 v21 = w_muladd_f32(v19, v11, v20);
        const c_f32 v22 = w_muladd_f32(v12, v21, v11);
        const c_f32 v23 = w_add_f32(v0, v22);
        const c_f32 v24 = w_scale_f32(v23, v7);
        return v24;
}
W_INLINE c_f32 w_log_f32(c_f32 a) {
        const c_f32 v0 = 0.0f;
        const c_f32 v1 = a;
        const bool v2 = w_lt_f32(v0, v1);
        const c_f32 v3 = (c_f32)INFINITY;
        const bool v4 = w_lt_f32(v1, v3);
        const c_f32 v5 = 7.88860905e-31f;
        const bool v6 = w_lt_f32(v1, v5);
        const c_f32 v7 = 1.84467441e+19f;
        const c_f32 v8 = 1.0f;
        const c_f32 v9 = w_select_f32(v6, v7, v8);
        const c_f32 v10 = w_mul_f32(v1, v9);
        const c_f32 v11 = 0.353553385f;
        const c_f32 v12 = w_mul_f32(v10, v11);
        const c_f32 v13 = w_exponent_f32(v12);
        const c_f32 v14 = -62.0f;
        const c_f32 v15 = 2.0f;
        const c_f32 v16 = w_select_f32(v6, v14, v15);
        const c_f32 v17 = w_add_f32(v13, v16);
        const c_f32 v18 = 0.693145752f;
        const c_f32 v19 = w_neg_f32(v13);
        const c_f32 v20 = w_exp2i_f32(v19);
        const c_f32 v21 = w_mul_f32(v10, v20);
        const c_f32 v22 = 0.25f;
        const c_f32 v23 = -1.0f;
        const c_f32 v24 = w_muladd_f32(v21, v22, v23);
        const c_f32 v25 = w_mul_f32(v24, v24);
        const c_f32 v26 = -0.5f;
        const c_f32 v27 = w_mul_f32(v24, v25);
        const c_f32 v28 = -0.0730031803f;
        const c_f32 v29 = 0.125847965f;
        const c_f32 v30 = w_muladd_f32(v28, v24, v29);
        const c_f32 v31 = -0.132164538f;
        const c_f32 v32 = w_muladd_f32(v30, v24, v31);
        const c_f32 v33 = 0.142368317f;
        const c_f32 v34 = w_muladd_f32(v32, v24, v33);
        const c_f32 v35 = -0.166205809f;
        const c_f32 v36 = w_muladd_f32(v34, v24, v35);
        const c_f32 v37 = 0.199990422f;
        const c_f32 v38 = w_muladd_f32(v36, v24, v37);
        const c_f32 v39 = -0.250008583f;
        const c_f32 v40 = w_muladd_f32(v38, v24, v39);
        const c_f32 v41 = 0.333333731f;
        const c_f32 v42 = w_muladd_f32(v40, v24, v41);
        const c_f32 v43 = 1.42860677e-06f;
        const c_f32 v44 = w_mul_f32(v17, v43);
        const c_f32 v45 = w_muladd_f32(v27, v42, v44);
        const c_f32 v46 = w_muladd_f32(v25, v26, v45);
        const c_f32 v47 = w_add_f32(v24, v46);
        const c_f32 v48 = w_muladd_f32(v17, v18, v47);
        const c_f32 v49 = w_select_f32(v4, v48, v1);
        const bool v50 = w_eq_f32(v1, v0);
        const c_f32 v51 = (c_f32)-INFINITY;
        const c_f32 v52 = (c_f32)NAN;
        const c_f32 v53 = w_select_f32(v50, v51, v52);
        const c_f32 v54 = w_select_f32(v2, v49, v53);
        return v54;
}
W_INLINE c_f32 w_tanh_f32(c_f32 a) {
        const c_f32 v0 = 0.75f;
        const c_f32 v1 = a;
        const c_f32 v2 = w_abs_f32(v1);
        const bool v3 = w_lt_f32(v0, v2);
        const c_f32 v4 = 1.0f;
        const c_f32 v5 = 2.0f;
        const c_f32 v6 = 0.000152449953f;
        const c_f32 v7 = 9.19999981f;
        const c_f32 v8 = w_min_f32(v7, v2);
        const c_f32 v9 = 2.88539004f;
        const c_f32 v10 = w_nearest_f32(v8, v9);
        const c_f32 v11 = w_neg_f32(v10);
        const c_f32 v12 = w_muladd_f32(v8, v9, v11);
        const c_f32 v13 = 0.0013391684f;
        const c_f32 v14 = w_muladd_f32(v6, v12, v13);
        const c_f32 v15 = 0.00961882621f;
        const c_f32 v16 = w_muladd_f32(v14, v12, v15);
        const c_f32 v17 = 0.0555035807f;
        const c_f32 v18 = w_muladd_f32(v16, v12, v17);
        const c_f32 v19 = 0.240226448f;
        const c_f32 v20 = w_muladd_f32(v18, v12, v19);
        const c_f32 v21 = 0.693147182f;
        const c_f32 v22 = w_muladd_f32(v20, v12, v21);
        const c_f32 v23 = w_muladd_f32(v22, v12, v4);
        const c_f32 v24 = w_exp2i_f32(v10);
        const c_f32 v25 = w_muladd_f32(v23, v24, v4);
        const c_f32 v26 = w_div_f32(v5, v25);
        const c_f32 v27 = w_sub_f32(v4, v26);
        const c_f32 v28 = w_mul_f32(v1, v1);
        const c_f32 v29 = w_mul_f32(v28, v1);
        const c_f32 v30 = 0.00172872469f;
        const c_f32 v31 = -0.00764343096f;
        const c_f32 v32 = w_muladd_f32(v30, v28, v31);
        const c_f32 v33 = 0.0214432385f;
        const c_f32 v34 = w_muladd_f32(v32, v28, v33);
        const c_f32 v35 = -0.0538901202f;
        const c_f32 v36 = w_muladd_f32(v34, v28, v35);
        const c_f32 v37 = 0.13332659f;
        const c_f32 v38 = w_muladd_f32(v36, v28, v37);
        const c_f32 v39 = -0.333333135f;
        const c_f32 v40 = w_muladd_f32(v38, v28, v39);
        const c_f32 v41 = w_muladd_f32(v29, v40, v1);
        const c_f32 v42 = w_select_f32(v3, v27, v41);
        const c_f32 v43 = w_copysign_f32(v42, v1);
        return v43;
}
W_INLINE c_f64 w_pow_f64(c_f64 a, c_f64 b) {
        const c_f64 v0 = b;
        const c_f64 v1 = 0.0;
        const bool v2 = w_eq_f64(v0, v1);
        const c_f64 v3 = a;
        const c_f64 v4 = 1.0;
        const bool v5 = w_eq_f64(v3, v4);
        const bool v6 = v2 | v5;
        const bool v7 = w_eq_f64(v3, v3);
        const bool v8 = w_eq_f64(v0, v0);
        const bool v9 = v7 & v8;
        const bool v10 = w_lt_f64(v3, v1);
        const c_f64 v11 = w_abs_f64(v3);
        const c_f64 v12 = (c_f64)INFINITY;
        const bool v13 = w_lt_f64(v11, v12);
        const bool v14 = v10 & v13;
        const c_f64 v15 = w_rint_f64(v0);
        const bool v16 = w_eq_f64(v15, v0);
        const bool v17 = !v16;
        const bool v18 = v14 & v17;
        const c_f64 v19 = (c_f64)NAN;
        const c_f64 v20 = 0.5;
        const c_f64 v21 = w_mul_f64(v0, v20);
        const c_f64 v22 = w_rint_f64(v21);
        const bool v23 = w_eq_f64(v22, v21);
        const bool v24 = !v23;
        const bool v25 = v16 & v24;
        const c_f64 v26 = w_copysign_f64(v4, v3);
        const bool v27 = w_lt_f64(v26, v1);
        const bool v28 = v25 & v27;
        const bool v29 = w_eq_f64(v11, v1);
        const bool v30 = w_lt_f64(v0, v1);
        const c_f64 v31 = w_select_f64(v30, v12, v1);
        const bool v32 = w_eq_f64(v11, v12);
        const c_f64 v33 = w_select_f64(v30, v1, v12);
        const c_f64 v34 = 6.3595290557958444e-14;
        const c_f64 v35 = -1.2089258196146292e+24;
        const c_f64 v36 = 1.2089258196146292e+24;
        const c_f64 v37 = w_cut_f64(v0, v35, v36);
        const c_f64 v38 = 9.3326361850321888e-302;
        const bool v39 = w_lt_f64(v11, v38);
        const c_f64 v40 = 1.2676506002282294e+30;
        const c_f64 v41 = w_select_f64(v39, v40, v4);
        const c_f64 v42 = w_mul_f64(v11, v41);
        const c_f64 v43 = 0.35355339059327379;
        const c_f64 v44 = w_mul_f64(v42, v43);
        const c_f64 v45 = w_exponent_f64(v44);
        const c_f64 v46 = -98.0;
        const c_f64 v47 = 2.0;
        const c_f64 v48 = w_select_f64(v39, v46, v47);
        const c_f64 v49 = w_add_f64(v45, v48);
        const c_f64 v50 = w_neg_f64(v45);
        const c_f64 v51 = w_exp2i_f64(v50);
        const c_f64 v52 = w_mul_f64(v42, v51);
        const c_f64 v53 = 0.25;
        const c_f64 v54 = w_mul_f64(v52, v53);
        const c_f64 v55 = w_sub_f64(v54, v4);
        const c_f64 v56 = w_add_f64(v54, v4);
        const c_f64 v57 = w_div_f64(v4, v56);
        const c_f64 v58 = w_fma_f64(v55, v57, v1);
        const c_f64 v59 = 2.8853900817779268;
        const c_f64 v60 = w_fma_f64(v58, v59, v1);
        const c_f64 v61 = w_fma_f64(v58, v58, v1);
        const c_f64 v62 = 0.33333333333333331;
        const c_f64 v63 = 0.064607057864209727;
        const c_f64 v64 = 0.066426580694250392;
        const c_f64 v65 = w_muladd_f64(v63, v61, v64);
        const c_f64 v66 = 0.076927972334443873;
        const c_f64 v67 = w_muladd_f64(v65, v61, v66);
        const c_f64 v68 = 0.090909039857043697;
        const c_f64 v69 = w_muladd_f64(v67, v61, v68);
        const c_f64 v70 = 0.11111111136419846;
        const c_f64 v71 = w_muladd_f64(v69, v61, v70);
        const c_f64 v72 = 0.14285714285667275;
        const c_f64 v73 = w_muladd_f64(v71, v61, v72);
        const c_f64 v74 = 0.20000000000000015;
        const c_f64 v75 = w_muladd_f64(v73, v61, v74);
        const c_f64 v76 = 1.8503717077085941e-17;
        const c_f64 v77 = w_muladd_f64(v61, v75, v76);
        const c_f64 v78 = w_add_f64(v62, v77);
        const c_f64 v79 = w_fma_f64(v61, v78, v1);
        const c_f64 v80 = w_add_f64(v4, v79);
        const c_f64 v81 = w_fma_f64(v60, v80, v1);
        const c_f64 v82 = w_add_f64(v49, v81);
        const c_f64 v83 = w_fma_f64(v37, v82, v1);
        const c_f64 v84 = w_mul_f64(v83, v20);
        const c_f64 v85 = -539.0;
        const c_f64 v86 = 512.0;
        const c_f64 v87 = w_cut_f64(v84, v85, v86);
        const c_f64 v88 = w_rint_f64(v87);
        const c_f64 v89 = -2.0;
        const c_f64 v90 = w_muladd_f64(v88, v89, v83);
        const c_f64 v91 = w_sub_f64(v82, v49);
        const c_f64 v92 = w_sub_f64(v81, v91);
        const c_f64 v93 = w_neg_f64(v81);
        const c_f64 v94 = w_fma_f64(v60, v80, v93);
        const c_f64 v95 = w_sub_f64(v80, v4);
        const c_f64 v96 = w_sub_f64(v79, v95);
        const c_f64 v97 = w_neg_f64(v79);
        const c_f64 v98 = w_fma_f64(v61, v78, v97);
        const c_f64 v99 = w_sub_f64(v78, v62);
        const c_f64 v100 = w_sub_f64(v77, v99);
        const c_f64 v101 = w_add_f64(v58, v58);
        const c_f64 v102 = w_neg_f64(v58);
        const c_f64 v103 = w_sub_f64(v56, v4);
        const c_f64 v104 = w_sub_f64(v54, v103);
        const c_f64 v105 = w_fma_f64(v102, v56, v55);
        const c_f64 v106 = w_muladd_f64(v102, v104, v105);
        const c_f64 v107 = w_mul_f64(v106, v57);
        const c_f64 v108 = w_neg_f64(v61);
        const c_f64 v109 = w_fma_f64(v58, v58, v108);
        const c_f64 v110 = w_muladd_f64(v101, v107, v109);
        const c_f64 v111 = w_mul_f64(v110, v78);
        const c_f64 v112 = w_muladd_f64(v61, v100, v111);
        const c_f64 v113 = w_add_f64(v98, v112);
        const c_f64 v114 = w_add_f64(v96, v113);
        const c_f64 v115 = w_neg_f64(v60);
        const c_f64 v116 = w_fma_f64(v58, v59, v115);
        const c_f64 v117 = 4.071054748186206e-17;
        const c_f64 v118 = w_mul_f64(v58, v117);
        const c_f64 v119 = w_muladd_f64(v107, v59, v118);
        const c_f64 v120 = w_add_f64(v116, v119);
        const c_f64 v121 = w_mul_f64(v120, v80);
        const c_f64 v122 = w_muladd_f64(v60, v114, v121);
        const c_f64 v123 = w_add_f64(v94, v122);
        const c_f64 v124 = w_add_f64(v92, v123);
        const c_f64 v125 = w_neg_f64(v83);
        const c_f64 v126 = w_fma_f64(v37, v82, v125);
        const c_f64 v127 = w_muladd_f64(v37, v124, v126);
        const c_f64 v128 = w_add_f64(v90, v127);
        const c_f64 v129 = -1.5;
        const c_f64 v130 = 1.5;
        const c_f64 v131 = w_cut_f64(v128, v129, v130);
        const c_f64 v132 = 1.3776382336346987e-12;
        const c_f64 v133 = w_muladd_f64(v34, v131, v132);
        const c_f64 v134 = 2.5694043346980946e-11;
        const c_f64 v135 = w_muladd_f64(v133, v131, v134);
        const c_f64 v136 = 4.4454742955884008e-10;
        const c_f64 v137 = w_muladd_f64(v135, v131, v136);
        const c_f64 v138 = 7.0548898491138404e-09;
        const c_f64 v139 = w_muladd_f64(v137, v131, v138);
        const c_f64 v140 = 1.0178085849453465e-07;
        const c_f64 v141 = w_muladd_f64(v139, v131, v140);
        const c_f64 v142 = 1.3215486938625962e-06;
        const c_f64 v143 = w_muladd_f64(v141, v131, v142);
        const c_f64 v144 = 1.5252733808471678e-05;
        const c_f64 v145 = w_muladd_f64(v143, v131, v144);
        const c_f64 v146 = 0.00015403530392867664;
        const c_f64 v147 = w_muladd_f64(v145, v131, v146);
        const c_f64 v148 = 0.0013333558146407004;
        const c_f64 v149 = w_muladd_f64(v147, v131, v148);
        const c_f64 v150 = 0.0096181291076293061;
        const c_f64 v151 = w_muladd_f64(v149, v131, v150);
        const c_f64 v152 = 0.055504108664821979;
        const c_f64 v153 = w_muladd_f64(v151, v131, v152);
        const c_f64 v154 = 0.24022650695910067;
        const c_f64 v155 = w_muladd_f64(v153, v131, v154);
        const c_f64 v156 = 0.69314718055994529;
        const c_f64 v157 = w_muladd_f64(v155, v131, v156);
        const c_f64 v158 = w_muladd_f64(v157, v131, v4);
        const c_f64 v159 = w_exp2i_f64(v88);
        const c_f64 v160 = w_mul_f64(v158, v159);
        const c_f64 v161 = w_mul_f64(v160, v159);
        const c_f64 v162 = w_select_f64(v32, v33, v161);
        const c_f64 v163 = w_select_f64(v29, v31, v162);
        const c_f64 v164 = w_neg_f64(v163);
        const c_f64 v165 = w_select_f64(v28, v164, v163);
        const c_f64 v166 = w_select_f64(v18, v19, v165);
        const c_f64 v167 = w_add_f64(v3, v0);
        const c_f64 v168 = w_select_f64(v9, v166, v167);
        const c_f64 v169 = w_select_f64(v6, v4, v168);
        return v169;
}
#define W_JOIN_(a, b) a##_##b
#define W_JOIN(a, b) W_JOIN_(a, b)
#define W(word) W_JOIN(w_##word, T)
#define CT W_JOIN(c, T)
#define K(v) ((CT)(v))
#define RESULT(e) return (e); }
#define ADD(a, b) W(add)(a, b)
#define MUL(a, b) W(mul)(a, b)
#define SQRT(a) W(sqrt)(a)
#define LOG(a) W(log)(a)
/* draw.def read as C, for eager kernels, and, embedded by the build as text behind the programs of math.def, for
 * rendered kernels that draw. w_draw_u32(e, seed, draw) is element e of a draw; w_draws_u32 are n elements from e on,
 * at most LANES, which share their blocks. DRAW_F32 and DRAW_F64 say which normal numbers are wanted. */
#ifndef HD_KERNEL_DRAW_C_H
#define HD_KERNEL_DRAW_C_H

typedef struct w_block {
    c_u32 word0, word1, word2, word3;
} w_block;

#define DRAW_BLOCK(name, block, seed, draw) W_INLINE w_block w_##name(c_u64 block, c_u64 seed, c_u64 draw) {
#define DRAWN(a, b, c, d)                                                                                              \
    w_block drawn;                                                                                                     \
    drawn.word0 = a, drawn.word1 = b, drawn.word2 = c, drawn.word3 = d;                                                \
    return drawn;                                                                                                      \
    }
#define HALVES(low, high, v) c_u32 low = (c_u32)(v), high = (c_u32)((v) >> 32);
#define PRODUCT(low, high, a, k)                                                                                       \
    const c_u64 low##_##high = (c_u64)(k) * (a);                                                                       \
    const c_u32 low = (c_u32)low##_##high, high = (c_u32)(low##_##high >> 32);
#define SET(c, v)     c = (v);
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define PLUS(a, k)    ((a) + (k))
#define ROUNDS(n)     for (int round = 0; round < (n); ++round) {
#define AGAIN         }

typedef c_u32 w_raw_f32; /* the bits that an element is made of */
typedef c_u64 w_raw_f64;
#define DRAW_PROGRAM(name, b) W_INLINE CT W(name)(W_JOIN(w_raw, T) b) {
#define RIGHT(b, n)           ((b) >> (n))
#define LAST(b, n)            ((b) & ((1u << (n)) - 1))
#define WHOLE(b)              W(whole)(b)
W_INLINE c_f32 w_whole_f32(c_u32 b) { return (c_f32)(c_i32)b; }
#ifndef W_NO_F64
W_INLINE c_f64 w_whole_f64(c_u64 b) { return (c_f64)(c_i64)b; }
#endif
#ifdef DRAW_F32
#define W_DRAWS_F32
#endif
#ifdef DRAW_F64
#define W_DRAWS_F64
#endif
/* Random draws: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), and
 * what numbers are made of its bits. Read as C (draw_c.h: eager kernels and rendered ones), as LLVM IR (llvm_draw.c)
 * and as StableHLO (emit_random.c); uniform numbers also as steps of kernels (lower_draw.c). All give the same numbers.
 * A reader defines DRAW_BLOCK or DRAW_PROGRAM, or both, and for the latter DRAW_F32 or DRAW_F64, or both.
 *
 * Block k of draw d is philox(counter = (k, d), key = seed): four words of 32 bits.
 *     f32, u32: element e is word e % 4 of block e / 4          f64, u64: two words each, element e from block e / 2
 *     normals: Box and Muller, on the bits of a pair of elements (2i, 2i + 1): radius times cosine, radius times sine
 *
 * Beside the words of words.def in type T, it takes these, on words of 32 bits:
 *     HALVES(low, high, v)        the halves of v, which has 64 bits
 *     PRODUCT(low, high, a, k)    the halves of a * k, which has 64 bits; k is a constant
 *     SET(c, v)                   c, a variable, is v from here on
 *     XOR3(a, b, c)               exclusive or
 *     PLUS(a, k)                  a + k, wrapping; k is a constant
 *     ROUNDS(n) ... AGAIN         n times
 * and on the bits of an element, as many as T has:
 *     RIGHT(b, n)                 b >> n
 *     LAST(b, n)                  the last n bits of b
 *     WHOLE(b)                    b, which is below 2^31 (2^63), as a number of type T */

#ifdef DRAW_BLOCK
DRAW_BLOCK(philox, block, seed, draw)
    HALVES(c0, c1, block)
    HALVES(c2, c3, draw)
    HALVES(k0, k1, seed)
    ROUNDS(10)
        PRODUCT(p0, p1, c0, 0xD2511F53u)
        PRODUCT(q0, q1, c2, 0xCD9E8D57u)
        SET(c0, XOR3(q1, c1, k0))
        SET(c1, q0)
        SET(c2, XOR3(p1, c3, k1))
        SET(c3, p0)
        SET(k0, PLUS(k0, 0x9E3779B9u))
        SET(k1, PLUS(k1, 0xBB67AE85u))
    AGAIN
DRAWN(c0, c1, c2, c3)
#endif

#if defined(DRAW_PROGRAM) && defined(DRAW_F32)
#define T f32
DRAW_PROGRAM(unit, b) /* uniform in [0, 1) */
RESULT(MUL(WHOLE(RIGHT(b, 8)), K(0x1p-24)))

DRAW_PROGRAM(radius, b) /* of 32 bits, so that the tails reach 6.6 deviations */
RESULT(SQRT(MUL(K(-2), LOG(ADD(MUL(WHOLE(RIGHT(b, 16)), K(0x1p-16)),
                               MUL(ADD(WHOLE(LAST(b, 16)), K(0.5)), K(0x1p-32)))))))

DRAW_PROGRAM(angle, b)
RESULT(MUL(WHOLE(RIGHT(b, 8)), K(0x1p-24 * 6.283185307179586)))
#undef T
#endif

#if defined(DRAW_PROGRAM) && defined(DRAW_F64)
#define T f64
DRAW_PROGRAM(unit, b)
RESULT(MUL(WHOLE(RIGHT(b, 11)), K(0x1p-53)))

DRAW_PROGRAM(radius, b)
RESULT(SQRT(MUL(K(-2), LOG(MUL(ADD(WHOLE(RIGHT(b, 11)), K(0.5)), K(0x1p-53))))))

DRAW_PROGRAM(angle, b)
RESULT(MUL(WHOLE(RIGHT(b, 11)), K(0x1p-53 * 6.283185307179586)))
#undef T
#endif

#undef DRAW_BLOCK
#undef DRAWN
#undef DRAW_PROGRAM
#undef DRAW_F32
#undef DRAW_F64
#undef HALVES
#undef PRODUCT
#undef SET
#undef XOR3
#undef PLUS
#undef ROUNDS
#undef AGAIN
#undef RIGHT
#undef LAST
#undef WHOLE


/* ---- one element ------------------------------------------------------------------------------------------------- */
W_INLINE c_u64 w_join(c_u32 low, c_u32 high) { return (c_u64)high << 32 | low; }

W_INLINE c_u64 w_draw_u64(c_i64 e, c_u64 seed, c_u64 draw) {
    const w_block b = w_philox((c_u64)(e >> 1), seed, draw);
    return e & 1 ? w_join(b.word2, b.word3) : w_join(b.word0, b.word1);
}
W_INLINE c_u32 w_draw_u32(c_i64 e, c_u64 seed, c_u64 draw) {
    const c_u64 pair = w_draw_u64(e >> 1, seed, draw);
    return (c_u32)(e & 1 ? pair >> 32 : pair);
}

#ifdef W_DRAWS_F32
W_INLINE c_f32 w_draw_f32(c_i64 e, c_u64 seed, c_u64 draw) {
    const c_u64 pair = w_draw_u64(e >> 1, seed, draw);
    const c_f32 angle = w_angle_f32((c_u32)(pair >> 32));
    return w_radius_f32((c_u32)pair) * (e & 1 ? w_sin_f32(angle) : w_cos_f32(angle));
}
#endif
#ifdef W_DRAWS_F64
W_INLINE c_f64 w_draw_f64(c_i64 e, c_u64 seed, c_u64 draw) {
    const w_block b = w_philox((c_u64)(e >> 1), seed, draw);
    const c_f64 angle = w_angle_f64(w_join(b.word2, b.word3));
    return w_radius_f64(w_join(b.word0, b.word1)) * (e & 1 ? w_sin_f64(angle) : w_cos_f64(angle));
}
#endif

#ifndef W_DIALECT
/* ---- up to LANES neighbours: blocks from that of the first on, then what each is made of ------------------------- */
enum { W_BLOCKS = 256 / 2 + 1 };
typedef struct w_blocks {
    c_u32 word[4][W_BLOCKS];
} w_blocks;
static __attribute__((unused)) void w_draw_blocks(w_blocks *out, int count, c_u64 block, c_u64 seed, c_u64 draw) {
    _Pragma("omp simd") for (int i = 0; i < count; ++i) {
        const w_block b = w_philox(block + (c_u64)i, seed, draw);
        out->word[0][i] = b.word0;
        out->word[1][i] = b.word1;
        out->word[2][i] = b.word2;
        out->word[3][i] = b.word3;
    }
}

static __attribute__((unused)) void w_draws_u64(c_u64 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    w_blocks b;
    c_u64 pairs[2 * W_BLOCKS];
    const int lead = (int)(e & 1), count = (lead + n + 1) / 2;
    w_draw_blocks(&b, count, (c_u64)(e >> 1), seed, draw);
    for (int i = 0; i < count; ++i) {
        pairs[2 * i] = w_join(b.word[0][i], b.word[1][i]);
        pairs[2 * i + 1] = w_join(b.word[2][i], b.word[3][i]);
    }
    memcpy(out, pairs + lead, (size_t)n * sizeof *out);
}
static __attribute__((unused)) void w_draws_u32(c_u32 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    w_blocks b;
    c_u32 words[4 * W_BLOCKS];
    const int lead = (int)(e & 3), count = (lead + n + 3) / 4;
    w_draw_blocks(&b, count, (c_u64)(e >> 2), seed, draw);
    for (int i = 0; i < count; ++i) {
        words[4 * i] = b.word[0][i];
        words[4 * i + 1] = b.word[1][i];
        words[4 * i + 2] = b.word[2][i];
        words[4 * i + 3] = b.word[3][i];
    }
    memcpy(out, words + lead, (size_t)n * sizeof *out);
}

/* The two normal numbers of each of `count` pairs of bits u, v: every step is a loop that vectorises. */
#define W_NORMALS(t, count, u, v, even, odd)                                                                           \
    {                                                                                                                  \
        c_##t radius[W_BLOCKS], angle[W_BLOCKS];                                                                       \
        _Pragma("omp simd") for (int i = 0; i < (count); ++i) {                                                        \
            radius[i] = w_radius_##t(u);                                                                               \
            angle[i] = w_angle_##t(v);                                                                                 \
        }                                                                                                              \
        _Pragma("omp simd") for (int i = 0; i < (count); ++i) even[i] = radius[i] * w_cos_##t(angle[i]);               \
        _Pragma("omp simd") for (int i = 0; i < (count); ++i) odd[i] = radius[i] * w_sin_##t(angle[i]);                \
    }
#ifdef W_DRAWS_F32
static __attribute__((unused)) void w_draws_f32(c_f32 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    w_blocks b;
    c_f32 values[4 * W_BLOCKS], part[4][W_BLOCKS];
    const int lead = (int)(e & 3), count = (lead + n + 3) / 4;
    w_draw_blocks(&b, count, (c_u64)(e >> 2), seed, draw);
    for (int w = 0; w < 4; w += 2) W_NORMALS(f32, count, b.word[w][i], b.word[w + 1][i], part[w], part[w + 1])
    for (int i = 0; i < count; ++i)
        for (int w = 0; w < 4; ++w) values[4 * i + w] = part[w][i];
    memcpy(out, values + lead, (size_t)n * sizeof *out);
}
#endif
#ifdef W_DRAWS_F64
static __attribute__((unused)) void w_draws_f64(c_f64 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    w_blocks b;
    c_f64 values[2 * W_BLOCKS], even[W_BLOCKS], odd[W_BLOCKS];
    const int lead = (int)(e & 1), count = (lead + n + 1) / 2;
    w_draw_blocks(&b, count, (c_u64)(e >> 1), seed, draw);
    W_NORMALS(f64, count, w_join(b.word[0][i], b.word[1][i]), w_join(b.word[2][i], b.word[3][i]), even, odd)
    for (int i = 0; i < count; ++i) {
        values[2 * i] = even[i];
        values[2 * i + 1] = odd[i];
    }
    memcpy(out, values + lead, (size_t)n * sizeof *out);
}
#endif

#endif

#endif
#if defined(__GNUC__)
#define NET_INFINITY __builtin_inff()
#define NET_NAN __builtin_nanf("")
#else
#define NET_INFINITY (1e30f * 1e30f)
#define NET_NAN (NET_INFINITY - NET_INFINITY)
#endif

/* ---- constants ---- */
static const float learner_c0[16] = {
    -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f, -0.0625f,
    -0.0625f, -0.0625f, -0.0625f, -0.0625f};
static const double learner_w4[1] = {
    0.01};

/* ---- functions ---- */
static void learner_affine_0(const float *x0, const float *x1, const float *x2, float *y0) {
    for (int32_t i = 0; i < 16; ++i) {
        for (int32_t j = 0; j < 8; j += 4) {
            float sum0 = x2[j];
            float sum1 = x2[(j + 1)];
            float sum2 = x2[(j + 2)];
            float sum3 = x2[(j + 3)];
            for (int32_t k = 0; k < 4; ++k) {
                const float a = (float)x0[i * 4 + k];
                sum0 += a * (float)x1[k + j * 4];
                sum1 += a * (float)x1[k + (j + 1) * 4];
                sum2 += a * (float)x1[k + (j + 2) * 4];
                sum3 += a * (float)x1[k + (j + 3) * 4];
            }
            y0[i * 8 + j] = sum0;
            y0[i * 8 + (j + 1)] = sum1;
            y0[i * 8 + (j + 2)] = sum2;
            y0[i * 8 + (j + 3)] = sum3;
        }
    }
}

static void learner_kernel_1(const c_f32 *in0, c_f32 *out1, c_f32 *out2, uint64_t m1, uint64_t m2) {
    enum { n0 = 128, o0 = 0 };
    const c_f32 v3 = 1.11111116f;
    const c_u64 v6 = m1;
    const c_u64 v7 = m2;
    const c_f32 v15 = 0.100000001f;
    const c_f32 v17 = 0.0f;
    for (int32_t b0 = 0; b0 < n0; b0 += LANES) {
        const int m = (int)w_least(n0 - b0, LANES);
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_f32 v0 = in0[i0];
            const c_f32 v1 = w_tanh_f32(v0);
            const c_f32 v4 = w_mul_f32(v1, v3);
            const c_u32 v8 = w_draw_u32(0 + o0 + i0, v6, v7);
            const c_u32 v11 = w_shr_u32(v8, 8u);
            const c_i32 v12 = w_cast_i32_u32(v11);
            const c_f32 v13 = w_cast_f32_i32(v12);
            const c_f32 v14 = w_mul_f32(v13, 5.96046448e-08f);
            const c_condition v16 = w_le_f32(v15, v14);
            const c_f32 v18 = w_select_f32(v16, v4, v17);
            out1[i0] = v1;
            out2[i0] = v18;
        }
    }
}

static void learner_affine_2(const float *x0, const float *x1, const float *x2, float *y0) {
    for (int32_t i = 0; i < 16; ++i) {
        for (int32_t j = 0; j < 3; ++j) {
            float sum0 = x2[j];
            for (int32_t k = 0; k < 8; ++k) {
                const float a = (float)x0[i * 8 + k];
                sum0 += a * (float)x1[k + j * 8];
            }
            y0[i * 3 + j] = sum0;
        }
    }
}

static void learner_kernel_3(const c_i64 *in0, c_i64 *out1) {
    enum { n0 = 16 };
    const c_i64 v1 = (c_i64)0u;
    const c_i64 v3 = (c_i64)3u;
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        const c_i64 v0 = in0[i0];
        const c_condition v2 = w_lt_i64(v0, v1);
        const c_i64 v4 = w_select_i64(v2, v3, v0);
        out1[i0] = v4;
    }
}

static int32_t learner_check_4(const int64_t *x0) {
    for (int32_t e0 = 0; e0 < 16; ++e0) {
        if (x0[e0] < -3 || x0[e0] >= 3) return e0 * 1 + 1;
    }
    return 0;
}

static void learner_kernel_5(const c_i64 *in0, const c_f32 *in1, c_f32 *out2, c_f32 *out3) {
    enum { n0 = 16, n1 = 3, o1 = 0, s2_0 = 3, s2_1 = 1 };
    const c_f32 v0 = 0.0f;
    const c_i64 v2 = (c_i64)3u;
    for (int32_t b0 = 0; b0 < n0; b0 += LANES) {
        const int m = (int)w_least(n0 - b0, LANES);
        c_i64 v7[LANES];
        c_f32 v10[LANES];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_i64 v1 = in0[i0];
            const c_condition v5 = w_lt_i64(v1, 0);
            const c_i64 v6 = w_add_i64(v1, v2);
            v7[j] = w_select_i64(v5, v6, v1);
            const c_f32 v9 = in1[i0];
            v10[j] = w_add_f32(v0, v9);
        }
        c_f64 t14[LANES];
        for (int j = 0; j < m; ++j) t14[j] = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            c_f32 p14[LANES];
            for (int j = 0; j < m; ++j) p14[j] = 0.0f;
            for (int32_t i1 = b1; i1 < e1; ++i1) {
                const c_i64 v4 = o1 + i1;
                for (int j = 0; j < m; ++j) {
                    const int32_t i0 = b0 + j;
                    (void)i0;
                    const c_condition v8 = w_eq_i64(v4, v7[j]);
                    const c_f32 v11 = w_select_f32(v8, v10[j], v0);
                    const c_f32 v13 = w_neg_f32(v11);
                    p14[j] = w_add_f32(p14[j], v13);
                    out2[i0 * s2_0 + i1 * s2_1] = v11;
                }
            }
            for (int j = 0; j < m; ++j) t14[j] = w_add_f64(t14[j], p14[j]);
        }
        c_f32 v14[LANES];
        for (int j = 0; j < m; ++j) v14[j] = (c_f32)t14[j];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            out3[i0] = v14[j];
        }
    }
}

static void learner_kernel_6(const c_f32 *in0, const c_i64 *in1, c_f32 *out2, const c_f32 *in3, const c_f32 *in4, c_f32 *out5) {
    enum { n0 = 16, n1 = 3, o1 = 0, s0_0 = 3, s1_0 = 1, s2_0 = 1, s3_0 = 1, s4_0 = 3, s5_0 = 3 };
    const c_i64 v8 = (c_i64)3u;
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        const c_i64 v7 = in1[i0 * s1_0];
        const c_condition v11 = w_lt_i64(v7, 0);
        const c_i64 v12 = w_add_i64(v7, v8);
        const c_i64 v13 = w_select_i64(v11, v12, v7);
        const c_f32 v20 = in3[i0 * s3_0];
        c_f32 t1 = (c_f32)-INFINITY;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            const int lanes = (int)w_least(e1 - b1, LANES);
            c_f32 p1[LANES];
            for (int j = 0; j < lanes; ++j) p1[j] = (c_f32)-INFINITY;
            for (int32_t c1 = b1; c1 < e1; c1 += LANES) {
                const int m = (int)w_least(e1 - c1, LANES);
                for (int j = 0; j < m; ++j) {
                    const int32_t i1 = c1 + j;
                    (void)i1;
                    const c_f32 v0 = in0[i0 * s0_0 + i1];
                    p1[j] = w_max_f32(p1[j], v0);
                }
            }
            t1 = w_max_f32(t1, w_fold_max_f32(p1, lanes));
        }
        const c_f32 v1 = (c_f32)t1;
        c_f64 t4 = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            const int lanes = (int)w_least(e1 - b1, LANES);
            c_f32 p4[LANES];
            for (int j = 0; j < lanes; ++j) p4[j] = 0.0f;
            for (int32_t c1 = b1; c1 < e1; c1 += LANES) {
                const int m = (int)w_least(e1 - c1, LANES);
                for (int j = 0; j < m; ++j) {
                    const int32_t i1 = c1 + j;
                    (void)i1;
                    const c_f32 v0 = in0[i0 * s0_0 + i1];
                    const c_f32 v2 = w_sub_f32(v0, v1);
                    const c_f32 v3 = w_exp_f32(v2);
                    p4[j] = w_add_f32(p4[j], v3);
                }
            }
            t4 = w_add_f64(t4, w_fold_add_f32(p4, lanes));
        }
        const c_f32 v4 = (c_f32)t4;
        const c_f32 v5 = w_log_f32(v4);
        const c_f32 v21 = w_div_f32(v20, v4);
        c_f64 t17 = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            const int lanes = (int)w_least(e1 - b1, LANES);
            c_f32 p17[LANES];
            for (int j = 0; j < lanes; ++j) p17[j] = 0.0f;
            for (int32_t c1 = b1; c1 < e1; c1 += LANES) {
                const int m = (int)w_least(e1 - c1, LANES);
                for (int j = 0; j < m; ++j) {
                    const int32_t i1 = c1 + j;
                    (void)i1;
                    const c_f32 v0 = in0[i0 * s0_0 + i1];
                    const c_f32 v2 = w_sub_f32(v0, v1);
                    const c_f32 v3 = w_exp_f32(v2);
                    const c_f32 v6 = w_sub_f32(v2, v5);
                    const c_i64 v10 = o1 + i1;
                    const c_condition v14 = w_eq_i64(v10, v13);
                    const c_f32 v16 = w_select_f32(v14, v6, 0.0f);
                    const c_f32 v22 = w_mul_f32(v21, v3);
                    const c_f32 v23 = in4[i0 * s4_0 + i1];
                    const c_f32 v24 = w_add_f32(v23, v22);
                    p17[j] = w_add_f32(p17[j], v16);
                    out5[i0 * s5_0 + i1] = v24;
                }
            }
            t17 = w_add_f64(t17, w_fold_add_f32(p17, lanes));
        }
        const c_f32 v17 = (c_f32)t17;
        const c_f32 v18 = w_neg_f32(v17);
        out2[i0 * s2_0] = v18;
    }
}

static void learner_matmul_7(const float *x0, const float *x1, float *y0) {
    for (int32_t i = 0; i < 16; ++i) {
        for (int32_t j = 0; j < 8; j += 4) {
            float sum0 = 0;
            float sum1 = 0;
            float sum2 = 0;
            float sum3 = 0;
            for (int32_t k = 0; k < 3; ++k) {
                const float a = (float)x0[i * 3 + k];
                sum0 += a * (float)x1[k * 8 + j];
                sum1 += a * (float)x1[k * 8 + (j + 1)];
                sum2 += a * (float)x1[k * 8 + (j + 2)];
                sum3 += a * (float)x1[k * 8 + (j + 3)];
            }
            y0[i * 8 + j] = sum0;
            y0[i * 8 + (j + 1)] = sum1;
            y0[i * 8 + (j + 2)] = sum2;
            y0[i * 8 + (j + 3)] = sum3;
        }
    }
}

static void learner_matmul_8(const float *x0, const float *x1, float *y0) {
    for (int32_t i = 0; i < 3; ++i) {
        for (int32_t j = 0; j < 8; j += 4) {
            float sum0 = 0;
            float sum1 = 0;
            float sum2 = 0;
            float sum3 = 0;
            for (int32_t k = 0; k < 16; ++k) {
                const float a = (float)x0[i + k * 3];
                sum0 += a * (float)x1[k * 8 + j];
                sum1 += a * (float)x1[k * 8 + (j + 1)];
                sum2 += a * (float)x1[k * 8 + (j + 2)];
                sum3 += a * (float)x1[k * 8 + (j + 3)];
            }
            y0[i * 8 + j] = sum0;
            y0[i * 8 + (j + 1)] = sum1;
            y0[i * 8 + (j + 2)] = sum2;
            y0[i * 8 + (j + 3)] = sum3;
        }
    }
}

static void learner_kernel_9(const c_f64 *in0, c_f64 *out1, const c_f64 *in2, c_f32 *out3, c_f32 *out4) {
    enum { n0 = 1 };
    const c_f64 v0 = in0[0];
    const c_f64 v1 = 1.0;
    const c_f64 v2 = w_add_f64(v0, v1);
    const c_f64 v4 = 0.90000000000000002;
    const c_f64 v5 = w_pow_f64(v4, v2);
    const c_f64 v6 = w_sub_f64(v1, v5);
    const c_f64 v7 = 0.999;
    const c_f64 v8 = w_pow_f64(v7, v2);
    const c_f64 v9 = w_sub_f64(v1, v8);
    const c_f64 v10 = in2[0];
    const c_f64 v11 = w_div_f64(v10, v6);
    const c_f64 v13 = w_sqrt_f64(v9);
    const c_f64 v14 = w_div_f64(1.0, v13);
    const c_f32 v15 = w_cast_f32_f64(v11);
    const c_f32 v17 = w_cast_f32_f64(v14);
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        out1[0] = v2;
        out3[0] = v15;
        out4[0] = v17;
    }
}

static void learner_kernel_10(const c_f32 *in0, const c_f32 *in1, c_f32 *out2, const c_f32 *in3, c_f32 *out4, const c_f32 *in5, c_f32 *out6, const c_f32 *in7, const c_f32 *in8, const c_f32 *in9, c_f32 *out10, uint64_t m1, uint64_t m2) {
    enum { n0 = 8, o0 = 0, n1 = 16, o1 = 0, s0_1 = 8, s1_1 = 8, s2_1 = 8 };
    const c_i64 v1 = (c_i64)8u;
    const c_u64 v3 = m1;
    const c_u64 v4 = m2;
    const c_f32 v12 = 0.100000001f;
    const c_f32 v17 = 1.11111116f;
    const c_f32 v28 = 0.899999976f;
    const c_f32 v33 = 0.00100000005f;
    const c_f32 v36 = 0.999000013f;
    const c_f32 v41 = in7[0];
    const c_f32 v43 = 9.99999994e-09f;
    const c_f32 v46 = in8[0];
    for (int32_t b0 = 0; b0 < n0; b0 += LANES) {
        const int m = (int)w_least(n0 - b0, LANES);
        c_f32 v29[LANES];
        c_f32 v37[LANES];
        c_f32 v48[LANES];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_f32 v27 = in3[i0];
            v29[j] = w_mul_f32(v27, v28);
            const c_f32 v35 = in5[i0];
            v37[j] = w_mul_f32(v35, v36);
            v48[j] = in9[i0];
        }
        c_f64 t25[LANES];
        for (int j = 0; j < m; ++j) t25[j] = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            c_f32 p25[LANES];
            for (int j = 0; j < m; ++j) p25[j] = 0.0f;
            for (int32_t i1 = b1; i1 < e1; ++i1) {
                const c_i64 v0 = o1 + i1;
                const c_i64 v2 = w_mul_i64(v0, v1);
                for (int j = 0; j < m; ++j) {
                    const int32_t i0 = b0 + j;
                    (void)i0;
                    const c_u32 v5 = w_draw_u32(v2 + o0 + i0, v3, v4);
                    const c_u32 v8 = w_shr_u32(v5, 8u);
                    const c_i32 v9 = w_cast_i32_u32(v8);
                    const c_f32 v10 = w_cast_f32_i32(v9);
                    const c_f32 v11 = w_mul_f32(v10, 5.96046448e-08f);
                    const c_condition v13 = w_le_f32(v12, v11);
                    const c_f32 v14 = in0[i0 + i1 * s0_1];
                    const c_f32 v16 = w_select_f32(v13, v14, 0.0f);
                    const c_f32 v18 = w_mul_f32(v16, v17);
                    const c_f32 v19 = in1[i0 + i1 * s1_1];
                    const c_f32 v21 = w_mul_f32(v19, v19);
                    const c_f32 v22 = w_sub_f32(1.0f, v21);
                    const c_f32 v23 = w_mul_f32(v18, v22);
                    p25[j] = w_add_f32(p25[j], v23);
                    out2[i0 + i1 * s2_1] = v23;
                }
            }
            for (int j = 0; j < m; ++j) t25[j] = w_add_f64(t25[j], p25[j]);
        }
        c_f32 v25[LANES];
        for (int j = 0; j < m; ++j) v25[j] = (c_f32)t25[j];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_f32 v26 = w_mul_f32(v25[j], v12);
            const c_f32 v30 = w_add_f32(v29[j], v26);
            const c_f32 v32 = w_mul_f32(v25[j], v25[j]);
            const c_f32 v34 = w_mul_f32(v32, v33);
            const c_f32 v38 = w_add_f32(v37[j], v34);
            const c_f32 v40 = w_sqrt_f32(v38);
            const c_f32 v42 = w_mul_f32(v40, v41);
            const c_f32 v44 = w_add_f32(v42, v43);
            const c_f32 v45 = w_div_f32(v30, v44);
            const c_f32 v47 = w_mul_f32(v45, v46);
            const c_f32 v49 = w_sub_f32(v48[j], v47);
            out4[i0] = v30;
            out6[i0] = v38;
            out10[i0] = v49;
        }
    }
}

static void learner_matmul_11(const float *x0, const float *x1, float *y0) {
    for (int32_t i = 0; i < 8; ++i) {
        for (int32_t j = 0; j < 4; j += 4) {
            float sum0 = 0;
            float sum1 = 0;
            float sum2 = 0;
            float sum3 = 0;
            for (int32_t k = 0; k < 16; ++k) {
                const float a = (float)x0[i + k * 8];
                sum0 += a * (float)x1[k * 4 + j];
                sum1 += a * (float)x1[k * 4 + (j + 1)];
                sum2 += a * (float)x1[k * 4 + (j + 2)];
                sum3 += a * (float)x1[k * 4 + (j + 3)];
            }
            y0[i * 4 + j] = sum0;
            y0[i * 4 + (j + 1)] = sum1;
            y0[i * 4 + (j + 2)] = sum2;
            y0[i * 4 + (j + 3)] = sum3;
        }
    }
}

static void learner_kernel_12(const c_f32 *in0, c_f32 *out1) {
    enum { n0 = 1, n1 = 16 };
    const c_f32 v2 = 16.0f;
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        c_f64 t1 = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            const int lanes = (int)w_least(e1 - b1, LANES);
            c_f32 p1[LANES];
            for (int j = 0; j < lanes; ++j) p1[j] = 0.0f;
            for (int32_t c1 = b1; c1 < e1; c1 += LANES) {
                const int m = (int)w_least(e1 - c1, LANES);
                for (int j = 0; j < m; ++j) {
                    const int32_t i1 = c1 + j;
                    (void)i1;
                    const c_f32 v0 = in0[i1];
                    p1[j] = w_add_f32(p1[j], v0);
                }
            }
            t1 = w_add_f64(t1, w_fold_add_f32(p1, lanes));
        }
        const c_f32 v1 = (c_f32)t1;
        const c_f32 v3 = w_div_f32(v1, v2);
        out1[0] = v3;
    }
}

static void learner_kernel_13(const c_f32 *in0, const c_f32 *in1, c_f32 *out2, const c_f32 *in3, c_f32 *out4, const c_f32 *in5, const c_f32 *in6, const c_f32 *in7, c_f32 *out8) {
    enum { n0 = 32 };
    const c_f32 v1 = 0.100000001f;
    const c_f32 v4 = 0.899999976f;
    const c_f32 v9 = 0.00100000005f;
    const c_f32 v12 = 0.999000013f;
    const c_f32 v17 = in5[0];
    const c_f32 v19 = 9.99999994e-09f;
    const c_f32 v22 = in6[0];
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        const c_f32 v0 = in0[i0];
        const c_f32 v2 = w_mul_f32(v0, v1);
        const c_f32 v3 = in1[i0];
        const c_f32 v5 = w_mul_f32(v3, v4);
        const c_f32 v6 = w_add_f32(v5, v2);
        const c_f32 v8 = w_mul_f32(v0, v0);
        const c_f32 v10 = w_mul_f32(v8, v9);
        const c_f32 v11 = in3[i0];
        const c_f32 v13 = w_mul_f32(v11, v12);
        const c_f32 v14 = w_add_f32(v13, v10);
        const c_f32 v16 = w_sqrt_f32(v14);
        const c_f32 v18 = w_mul_f32(v16, v17);
        const c_f32 v20 = w_add_f32(v18, v19);
        const c_f32 v21 = w_div_f32(v6, v20);
        const c_f32 v23 = w_mul_f32(v21, v22);
        const c_f32 v24 = in7[i0];
        const c_f32 v25 = w_sub_f32(v24, v23);
        out2[i0] = v6;
        out4[i0] = v14;
        out8[i0] = v25;
    }
}

static void learner_kernel_14(const c_f32 *in0, const c_f32 *in1, c_f32 *out2, const c_f32 *in3, c_f32 *out4, const c_f32 *in5, const c_f32 *in6, const c_f32 *in7, c_f32 *out8) {
    enum { n0 = 24 };
    const c_f32 v1 = 0.100000001f;
    const c_f32 v4 = 0.899999976f;
    const c_f32 v9 = 0.00100000005f;
    const c_f32 v12 = 0.999000013f;
    const c_f32 v17 = in5[0];
    const c_f32 v19 = 9.99999994e-09f;
    const c_f32 v22 = in6[0];
    for (int32_t i0 = 0; i0 < n0; ++i0) {
        const c_f32 v0 = in0[i0];
        const c_f32 v2 = w_mul_f32(v0, v1);
        const c_f32 v3 = in1[i0];
        const c_f32 v5 = w_mul_f32(v3, v4);
        const c_f32 v6 = w_add_f32(v5, v2);
        const c_f32 v8 = w_mul_f32(v0, v0);
        const c_f32 v10 = w_mul_f32(v8, v9);
        const c_f32 v11 = in3[i0];
        const c_f32 v13 = w_mul_f32(v11, v12);
        const c_f32 v14 = w_add_f32(v13, v10);
        const c_f32 v16 = w_sqrt_f32(v14);
        const c_f32 v18 = w_mul_f32(v16, v17);
        const c_f32 v20 = w_add_f32(v18, v19);
        const c_f32 v21 = w_div_f32(v6, v20);
        const c_f32 v23 = w_mul_f32(v21, v22);
        const c_f32 v24 = in7[i0];
        const c_f32 v25 = w_sub_f32(v24, v23);
        out2[i0] = v6;
        out4[i0] = v14;
        out8[i0] = v25;
    }
}

static void learner_kernel_15(const c_f32 *in0, const c_f32 *in1, c_f32 *out2, const c_f32 *in3, c_f32 *out4, const c_f32 *in5, const c_f32 *in6, const c_f32 *in7, c_f32 *out8) {
    enum { n0 = 3, n1 = 16, s0_1 = 3 };
    const c_f32 v2 = 0.100000001f;
    const c_f32 v5 = 0.899999976f;
    const c_f32 v10 = 0.00100000005f;
    const c_f32 v13 = 0.999000013f;
    const c_f32 v18 = in5[0];
    const c_f32 v20 = 9.99999994e-09f;
    const c_f32 v23 = in6[0];
    for (int32_t b0 = 0; b0 < n0; b0 += LANES) {
        const int m = (int)w_least(n0 - b0, LANES);
        c_f32 v6[LANES];
        c_f32 v14[LANES];
        c_f32 v25[LANES];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_f32 v4 = in1[i0];
            v6[j] = w_mul_f32(v4, v5);
            const c_f32 v12 = in3[i0];
            v14[j] = w_mul_f32(v12, v13);
            v25[j] = in7[i0];
        }
        c_f64 t1[LANES];
        for (int j = 0; j < m; ++j) t1[j] = 0.0f;
        for (int32_t b1 = 0; b1 < n1; b1 += 64) {
            const int32_t e1 = w_least(b1 + 64, n1);
            c_f32 p1[LANES];
            for (int j = 0; j < m; ++j) p1[j] = 0.0f;
            for (int32_t i1 = b1; i1 < e1; ++i1) {
                for (int j = 0; j < m; ++j) {
                    const int32_t i0 = b0 + j;
                    (void)i0;
                    const c_f32 v0 = in0[i0 + i1 * s0_1];
                    p1[j] = w_add_f32(p1[j], v0);
                }
            }
            for (int j = 0; j < m; ++j) t1[j] = w_add_f64(t1[j], p1[j]);
        }
        c_f32 v1[LANES];
        for (int j = 0; j < m; ++j) v1[j] = (c_f32)t1[j];
        for (int j = 0; j < m; ++j) {
            const int32_t i0 = b0 + j;
            (void)i0;
            const c_f32 v3 = w_mul_f32(v1[j], v2);
            const c_f32 v7 = w_add_f32(v6[j], v3);
            const c_f32 v9 = w_mul_f32(v1[j], v1[j]);
            const c_f32 v11 = w_mul_f32(v9, v10);
            const c_f32 v15 = w_add_f32(v14[j], v11);
            const c_f32 v17 = w_sqrt_f32(v15);
            const c_f32 v19 = w_mul_f32(v17, v18);
            const c_f32 v21 = w_add_f32(v19, v20);
            const c_f32 v22 = w_div_f32(v7, v21);
            const c_f32 v24 = w_mul_f32(v22, v23);
            const c_f32 v26 = w_sub_f32(v25[j], v24);
            out2[i0] = v7;
            out4[i0] = v15;
            out8[i0] = v26;
        }
    }
}

/* ---- beginning ---- */
static const float learner_s0[32] = {
    -0.100953579f, 0.380520165f, 0.235712767f, 0.105481803f, 0.472241163f, -0.137908936f, 0.193930864f, -0.462905943f, -0.480550587f, -0.180554271f, -0.359053433f, -0.228253067f,
    0.287367761f, -0.0848929882f, 0.104630649f, -0.0732232332f, 0.434536159f, 0.193663657f, 0.442129493f, 0.41697675f, -0.0496738553f, -0.472250581f, 0.170277774f, -0.144533575f,
    0.213612258f, 0.307381392f, 0.329633415f, -0.465464652f, 0.158983052f, -0.457453012f, 0.220075727f, -0.0473946333f};
static const float learner_s1[8] = {
    0.0166791081f, 0.439658046f, -0.441013336f, 0.0155099034f, 0.290969253f, 0.3507002f, -0.00624316931f, -0.0726690888f};
static const float learner_s2[24] = {
    -0.335924953f, 0.150562316f, -0.24823314f, -0.0242078304f, -0.0218915045f, -0.257983088f, 0.244279593f, -0.0528590083f, 0.258128136f, 0.223160833f, 0.29589209f, 0.0512312949f,
    -0.198725373f, 0.297335714f, -0.286388844f, 0.124985337f, -0.341935903f, -0.330963939f, -0.134687841f, 0.256790489f, 0.291441828f, -0.149578825f, 0.230808288f, 0.258567601f};
static const float learner_s3[3] = {
    0.311183065f, -0.305641264f, 0.173658401f};
int learner_resume(learner *n, void *arena, void *state) {
    if (n == NULL || (LEARNER_ARENA > 0 && arena == NULL) || (LEARNER_STATE > 0 && state == NULL)) return -1;
    if ((uintptr_t)arena % LEARNER_ALIGN != 0 || (uintptr_t)state % LEARNER_ALIGN != 0) return -1;
    n->arena = (unsigned char *)arena;
    n->state = (unsigned char *)state;
    n->at = 0;
    return 0;
}
void learner_seed(learner *n, uint64_t seed) {
    ((uint64_t *)n->state)[0] = seed;
    ((uint64_t *)n->state)[1] = 0;
}
int learner_init(learner *n, void *arena, void *state) {
    if (learner_resume(n, arena, state) != 0) return -1;
    for (size_t i = 0; i < 32; ++i) ((float *)(n->state + 16))[i] = learner_s0[i];
    for (size_t i = 0; i < 8; ++i) ((float *)(n->state + 144))[i] = learner_s1[i];
    for (size_t i = 0; i < 24; ++i) ((float *)(n->state + 176))[i] = learner_s2[i];
    for (size_t i = 0; i < 3; ++i) ((float *)(n->state + 272))[i] = learner_s3[i];
    for (size_t i = 0; i < 8; ++i) n->state[288 + i] = 0;
    for (size_t i = 0; i < 128; ++i) n->state[296 + i] = 0;
    for (size_t i = 0; i < 128; ++i) n->state[424 + i] = 0;
    for (size_t i = 0; i < 32; ++i) n->state[552 + i] = 0;
    for (size_t i = 0; i < 32; ++i) n->state[584 + i] = 0;
    for (size_t i = 0; i < 96; ++i) n->state[616 + i] = 0;
    for (size_t i = 0; i < 96; ++i) n->state[712 + i] = 0;
    for (size_t i = 0; i < 12; ++i) n->state[808 + i] = 0;
    for (size_t i = 0; i < 12; ++i) n->state[824 + i] = 0;
    learner_seed(n, 0);
    return 0;
}

/* ---- a run ---- */
int learner_train_step(learner *n, const float x[16][4], const int64_t y[16], float *loss) {
    unsigned char *const arena = n->arena;
    unsigned char *const state = n->state;
    uint64_t *const random = (uint64_t *)n->state;
    const uint64_t seed = random[0], draw = random[1];
    (void)n;
    learner_affine_0((const float *)x, (const float *)(state + 16), (const float *)(state + 144), (float *)(arena + 0));
    learner_kernel_1((const float *)(arena + 0), (float *)(arena + 0), (float *)(arena + 512), seed, draw + 0);
    learner_affine_2((const float *)(arena + 512), (const float *)(state + 176), (const float *)(state + 272), (float *)(arena + 1024));
    learner_kernel_3((const int64_t *)y, (int64_t *)(arena + 1216));
    n->at = learner_check_4((const int64_t *)(arena + 1216));
    if (n->at != 0) {
        n->at -= 1;
        return 1;
    }
    learner_kernel_5((const int64_t *)(arena + 1216), (const float *)learner_c0, (float *)(arena + 1344), (float *)(arena + 1536));
    n->at = learner_check_4((const int64_t *)(arena + 1216));
    if (n->at != 0) {
        n->at -= 1;
        return 2;
    }
    learner_kernel_6((const float *)(arena + 1024), (const int64_t *)(arena + 1216), (float *)(arena + 1600), (const float *)(arena + 1536), (const float *)(arena + 1344), (float *)(arena + 1664));
    learner_matmul_7((const float *)(arena + 1664), (const float *)(state + 176), (float *)(arena + 1024));
    learner_matmul_8((const float *)(arena + 1664), (const float *)(arena + 512), (float *)(arena + 1856));
    learner_kernel_9((const double *)(state + 288), (double *)(arena + 1952), (const double *)learner_w4, (float *)(arena + 1536), (float *)(arena + 1544));
    learner_kernel_10((const float *)(arena + 1024), (const float *)(arena + 0), (float *)(arena + 512), (const float *)(state + 552), (float *)(arena + 1960), (const float *)(state + 584), (float *)(arena + 1992), (const float *)(arena + 1544), (const float *)(arena + 1536), (const float *)(state + 144), (float *)(arena + 2024), seed, draw + 0);
    learner_matmul_11((const float *)(arena + 512), (const float *)x, (float *)(arena + 0));
    learner_kernel_12((const float *)(arena + 1600), (float *)loss);
    learner_kernel_13((const float *)(arena + 0), (const float *)(state + 296), (float *)(state + 296), (const float *)(state + 424), (float *)(state + 424), (const float *)(arena + 1544), (const float *)(arena + 1536), (const float *)(state + 16), (float *)(state + 16));
    learner_kernel_14((const float *)(arena + 1856), (const float *)(state + 616), (float *)(state + 616), (const float *)(state + 712), (float *)(state + 712), (const float *)(arena + 1544), (const float *)(arena + 1536), (const float *)(state + 176), (float *)(state + 176));
    learner_kernel_15((const float *)(arena + 1664), (const float *)(state + 808), (float *)(state + 808), (const float *)(state + 824), (float *)(state + 824), (const float *)(arena + 1544), (const float *)(arena + 1536), (const float *)(state + 272), (float *)(state + 272));
    for (size_t i = 0; i < 32; ++i) state[144 + i] = arena[2024 + i];
    for (size_t i = 0; i < 8; ++i) state[288 + i] = arena[1952 + i];
    for (size_t i = 0; i < 32; ++i) state[552 + i] = arena[1960 + i];
    for (size_t i = 0; i < 32; ++i) state[584 + i] = arena[1992 + i];
    random[1] += 1;
    return 0;
}
