/* How the matrix product reads its operands, for kernels_gemm.c: elements of type s in memory as words of type t.
 *     columns_t_s(p, row)   a vector of words: neighbouring columns, whose rows are `row` elements apart
 *     four_t_s(p)           four words along k, which lies along memory
 *     one_t_s(p, step)      one word, its elements `step` apart
 *     rest_t_s(p)           a word of one element, where k ends in the middle of it
 * A word is one number, converted; but a word of `pairs` is two 16-bit integers that are neighbours along k. */
#ifndef HD_DEVICE_CPU_KERNELS_GEMM_READ_H
#define HD_DEVICE_CPU_KERNELS_GEMM_READ_H

#include "core/small_float.h"
#include "device/cpu/kernels_isa.h"

#include <stdint.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors as results: all of these are inlined, and call nobody */
#define INLINE static inline __attribute__((always_inline))

#define WORDS(T, t)                                                                                                    \
    typedef T vector_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef T loose_##t __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); /* any address */         \
    typedef T four_##t __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));                     \
    enum { LANES_##t = VECTOR / sizeof(T), COLUMNS_##t = 2 * LANES_##t };
WORDS(float, f32)
WORDS(double, f64)
WORDS(uint32_t, u32) /* integers wrap, so signed ones are multiplied as unsigned ones */
WORDS(uint64_t, u64)
WORDS(uint32_t, pairs)

/* ---- as they are ------------------------------------------------------------------------------------------------- */
#define OWN(T, t)                                                                                                      \
    INLINE vector_##t columns_##t##_##t(const T *p, int64_t row) { return (void)row, *(const loose_##t *)p; }          \
    INLINE four_##t four_##t##_##t(const T *p) { return *(const four_##t *)p; }                                        \
    INLINE T one_##t##_##t(const T *p, int64_t step) { return (void)step, *p; }                                        \
    INLINE T rest_##t##_##t(const T *p) { return *p; }
OWN(float, f32)
OWN(double, f64)
OWN(uint32_t, u32)
OWN(uint64_t, u64)
OWN(uint32_t, pairs)

/* ---- narrower ones, converted ------------------------------------------------------------------------------------ */
/* Integers of 8 and 16 bits, each in a word of 32 bits: compilers take such conversions apart where there is an
 * instruction. */
#if defined(__AVX512F__)
#define WIDEN_8(convert)  (vector_u32) _mm512_##convert##_epi32(_mm_loadu_si128((const void *)p))
#define WIDEN_16(convert) (vector_u32) _mm512_##convert##_epi32(_mm256_loadu_si256((const void *)p))
#elif defined(__AVX2__)
#define WIDEN_8(convert)  (vector_u32) _mm256_##convert##_epi32(_mm_loadl_epi64((const void *)p))
#define WIDEN_16(convert) (vector_u32) _mm256_##convert##_epi32(_mm_loadu_si128((const void *)p))
#endif
#define INTEGERS(S, s, SIZE, convert)                                                                                  \
    typedef S narrow_##s __attribute__((vector_size(LANES_u32 * sizeof(S)), aligned(sizeof(S)), may_alias));           \
    typedef S narrow4_##s __attribute__((vector_size(4 * sizeof(S)), aligned(sizeof(S)), may_alias));                  \
    INLINE vector_u32 widen_##s(const S *p) { return WIDE(s, SIZE, convert); }                                         \
    INLINE four_u32 widen4_##s(const S *p) { return __builtin_convertvector(*(const narrow4_##s *)p, four_u32); }
#ifdef WIDEN_8
#define WIDE(s, SIZE, convert) WIDEN_##SIZE(convert)
#else
#define WIDE(s, SIZE, convert) __builtin_convertvector(*(const narrow_##s *)p, vector_u32)
#endif
INTEGERS(uint8_t, u8, 8, cvtepu8)
INTEGERS(int8_t, i8, 8, cvtepi8)
INTEGERS(uint16_t, u16, 16, cvtepu16)
INTEGERS(int16_t, i16, 16, cvtepi16)

/* DECODE(words, T, v): a vector of the bits of small elements, each in a word of 32 bits, as a vector of T. */
#define CONVERTED(T, t, S, s, integers, DECODE, decode)                                                                \
    INLINE vector_##t columns_##t##_##s(const S *p, int64_t row) {                                                     \
        const vector_u32 bits = widen_##integers(p);                                                                   \
        return (void)row, DECODE(vector_u32, vector_##t, bits);                                                        \
    }                                                                                                                  \
    INLINE four_##t four_##t##_##s(const S *p) {                                                                       \
        const four_u32 bits = widen4_##integers(p);                                                                    \
        return DECODE(four_u32, four_##t, bits);                                                                       \
    }                                                                                                                  \
    INLINE T one_##t##_##s(const S *p, int64_t step) { return (void)step, decode(*p); }                                \
    INLINE T rest_##t##_##s(const S *p) { return decode(*p); }

#define DECODE_NOTHING(words, floats, v) (v)
#define DECODE_BF16(words, floats, v)    (floats)((v) << 16)
/* As hd_f16_decode; the mantissa of an infinity or NaN is there already, so that its exponent is added to what it
 * has. */
#define DECODE_F16(words, floats, v)                                                                                   \
    (floats)((words)((floats)(((v)&0x7fff) << 13) * 0x1p112f) | ((words)(((v)&0x7c00) == 0x7c00) & 0x7f800000) |       \
             ((v)&0x8000) << 16)
CONVERTED(float, f32, uint16_t, bf16, u16, DECODE_BF16, hd_bf16_decode)
CONVERTED(float, f32, uint16_t, f16_in_words, u16, DECODE_F16, hd_f16_decode)
CONVERTED(uint32_t, u32, uint8_t, u8, u8, DECODE_NOTHING, (uint32_t))
CONVERTED(uint32_t, u32, int8_t, i8, i8, DECODE_NOTHING, (uint32_t))
CONVERTED(uint32_t, u32, uint16_t, u16, u16, DECODE_NOTHING, (uint32_t))
CONVERTED(uint32_t, u32, int16_t, i16, i16, DECODE_NOTHING, (uint32_t))

/* f16 where the processor converts it itself. */
INLINE vector_f32 columns_f32_f16(const uint16_t *p, int64_t row) {
#ifdef __AVX512F__
    return (void)row, (vector_f32)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#else
    return columns_f32_f16_in_words(p, row);
#endif
}
INLINE four_f32 four_f32_f16(const uint16_t *p) { return four_f32_f16_in_words(p); }
INLINE float one_f32_f16(const uint16_t *p, int64_t step) { return one_f32_f16_in_words(p, step); }
INLINE float rest_f32_f16(const uint16_t *p) { return rest_f32_f16_in_words(p); }

/* ---- pairs ------------------------------------------------------------------------------------------------------- */
typedef int16_t eight_i16 __attribute__((vector_size(16)));
#define PAIRS(S, s)                                                                                                    \
    typedef S narrow8_##s __attribute__((vector_size(8 * sizeof(S)), aligned(sizeof(S)), may_alias));                  \
    INLINE vector_pairs columns_pairs_##s(const S *p, int64_t row) {                                                   \
        return (columns_u32_##s(p, 0) & 0xffff) | columns_u32_##s(p + row, 0) << 16;                                   \
    }                                                                                                                  \
    INLINE four_pairs four_pairs_##s(const S *p) {                                                                     \
        return (four_pairs) __builtin_convertvector(*(const narrow8_##s *)p, eight_i16);                               \
    }                                                                                                                  \
    INLINE uint32_t one_pairs_##s(const S *p, int64_t step) {                                                          \
        return (uint16_t)p[0] | (uint32_t)(uint16_t)p[step] << 16;                                                     \
    }                                                                                                                  \
    INLINE uint32_t rest_pairs_##s(const S *p) { return (uint16_t)p[0]; }
PAIRS(uint8_t, u8)
PAIRS(int8_t, i8)
PAIRS(int16_t, i16)

/* For each pair of b, the sum of its two products with those of the one of a: modulo 2^32, as integers are added. */
INLINE vector_pairs multiply_pairs(uint32_t pair, vector_pairs b) {
    const vector_pairs a = (vector_pairs){0} + pair;
#if defined(__AVX512BW__)
    return (vector_pairs)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vector_pairs)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (vector_pairs)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    typedef int32_t numbers __attribute__((vector_size(VECTOR)));
    const vector_pairs first = (vector_pairs)((numbers)(a << 16) >> 16) * (vector_pairs)((numbers)(b << 16) >> 16);
    return first + (vector_pairs)((numbers)a >> 16) * (vector_pairs)((numbers)b >> 16);
#endif
}

#endif
