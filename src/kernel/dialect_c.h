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
