/* The small floats: f16, bf16 and the two f8 formats, to f32 exactly and from f32 with one rounding, to nearest even.
 * Branch-free, so that loops over them vectorise. f8e4m3 is the "fn" format: no infinities, NaN is S.1111.111, the
 * largest value 448; what is too large becomes NaN there and infinity elsewhere. */
#ifndef HD_CORE_SMALL_FLOAT_H
#define HD_CORE_SMALL_FLOAT_H

#ifndef W_DIALECT /* in rendered text words_c.h and its dialect stand above */
#include <stdint.h>
#include <string.h>

#define HD_SMALL static inline

HD_SMALL uint32_t hd_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
HD_SMALL float hd_f32_from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
#else
#define HD_SMALL            W_INLINE
#define hd_f32_bits(f)      w_bits_f32(f)
#define hd_f32_from_bits(u) w_unbits_f32(u)
#endif

HD_SMALL float hd_bf16_decode(uint16_t v) { return hd_f32_from_bits((uint32_t)v << 16); }
HD_SMALL uint16_t hd_bf16_encode(float f) {
    const uint32_t u = hd_f32_bits(f), rounded = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
}

/* Shifting the bits under an f32's exponent and multiplying by a power of two rebiases normals and subnormals alike. */
HD_SMALL float hd_f16_decode(uint16_t v) {
    const uint32_t body = (uint32_t)(v & 0x7fff) << 13, sign = (uint32_t)(v & 0x8000) << 16;
    const uint32_t finite = hd_f32_bits(hd_f32_from_bits(body) * 0x1p112f);
    return hd_f32_from_bits(((v & 0x7c00) == 0x7c00 ? body | 0x7f800000u : finite) | sign);
}
HD_SMALL float hd_f8e5m2_decode(uint8_t v) { return hd_f16_decode((uint16_t)(v << 8)); }
HD_SMALL float hd_f8e4m3_decode(uint8_t v) {
    const uint32_t body = (uint32_t)(v & 0x7f) << 20, sign = (uint32_t)(v & 0x80) << 24;
    const uint32_t finite = hd_f32_bits(hd_f32_from_bits(body) * 0x1p120f);
    return hd_f32_from_bits(((v & 0x7f) == 0x7f ? 0x7fc00000u : finite) | sign);
}

/* Rounds |f| to `mantissa` bits with smallest normal exponent `emin`: subnormals by adding the constant whose unit in
 * the last place is their spacing, normals by adding just under half a unit, ties to even. Gives the target's bits
 * for the magnitude, which run past `infinity` when f is too large. */
HD_SMALL uint32_t hd_round_magnitude(uint32_t magnitude, int mantissa, int emin) {
    const uint32_t spacing = (uint32_t)(emin + 23 - mantissa + 127) << 23;
    const uint32_t subnormal = hd_f32_bits(hd_f32_from_bits(magnitude) + hd_f32_from_bits(spacing)) - spacing;
    const int drop = 23 - mantissa;
    const uint32_t rebiased = magnitude - ((uint32_t)(emin - 1 + 127) << 23);
    const uint32_t normal = (rebiased + ((1u << (drop - 1)) - 1) + ((rebiased >> drop) & 1)) >> drop;
    return magnitude < ((uint32_t)(emin + 127) << 23) ? subnormal : normal;
}

HD_SMALL uint16_t hd_f16_encode(float f) {
    const uint32_t u = hd_f32_bits(f), magnitude = u & 0x7fffffffu, sign = (u >> 16) & 0x8000u;
    uint32_t r = hd_round_magnitude(magnitude, 10, -14);
    r = magnitude >= 0x47800000u ? 0x7c00u : r; /* 2^16 and above, infinity */
    return (uint16_t)(sign | (magnitude > 0x7f800000u ? 0x7e00u : r));
}
HD_SMALL uint8_t hd_f8e5m2_encode(float f) {
    const uint32_t u = hd_f32_bits(f), magnitude = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
    uint32_t r = hd_round_magnitude(magnitude, 2, -14);
    r = magnitude >= 0x47800000u ? 0x7cu : r;
    return (uint8_t)(sign | (magnitude > 0x7f800000u ? 0x7fu : r));
}
HD_SMALL uint8_t hd_f8e4m3_encode(float f) {
    const uint32_t u = hd_f32_bits(f), magnitude = u & 0x7fffffffu, sign = (u >> 24) & 0x80u;
    const uint32_t r = hd_round_magnitude(magnitude, 3, -6);
    return (uint8_t)(sign | (magnitude >= 0x43f00000u || r > 0x7eu ? 0x7fu : r)); /* 480 and above */
}

#ifndef W_NO_F64
/* f64 to f32 with "round to odd": what follows rounds as if from the f64 itself. NaN and infinities pass. */
HD_SMALL float hd_f32_round_to_odd(double d) {
    const float f = (float)d;
    const double back = (double)f;
    uint32_t u = hd_f32_bits(f);
    const uint32_t inexact = back != d && d == d;
    const uint32_t away = (back > d && d > 0) || (back < d && d < 0); /* rounded away from zero: step back */
    u -= inexact & away;
    return hd_f32_from_bits(inexact ? u | 1u : u);
}
/* 64-bit integers: fold the low bits into one sticky bit so that f64 holds the rest exactly. */
HD_SMALL double hd_i64_sticky(int64_t i) {
    return i >= ((int64_t)1 << 50) || i <= -((int64_t)1 << 50) ? (double)((i >> 13) | ((i & 0x1fff) != 0)) * 8192.0
                                                               : (double)i;
}
HD_SMALL double hd_u64_sticky(uint64_t i) {
    return i >= (uint64_t)1 << 50 ? (double)(int64_t)((i >> 14) | ((i & 0x3fff) != 0)) * 16384.0 : (double)(int64_t)i;
}
#endif

#endif
