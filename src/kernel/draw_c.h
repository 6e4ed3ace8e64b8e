/* Random draws in rendered kernels: Philox 4x32-10, as device/cpu/kernels_random.c has it. Embedded by the build as
 * text behind the programs of math.def, for kernels that draw. w_draw_u32(e, seed, draw) is element e of a draw;
 * w_draws_u32 are n elements from e on, which share their blocks. */
#ifndef HD_KERNEL_DRAW_C_H
#define HD_KERNEL_DRAW_C_H

typedef struct w_block {
    c_u64 first, second; /* words 0 and 1, words 2 and 3 */
} w_block;

W_INLINE w_block w_philox(c_u64 block, c_u64 seed, c_u64 draw) {
    c_u32 c0 = (c_u32)block, c1 = (c_u32)(block >> 32), c2 = (c_u32)draw, c3 = (c_u32)(draw >> 32);
    c_u32 k0 = (c_u32)seed, k1 = (c_u32)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const c_u64 p = (c_u64)0xD2511F53u * c0, q = (c_u64)0xCD9E8D57u * c2;
        c0 = (c_u32)(q >> 32) ^ c1 ^ k0;
        c1 = (c_u32)q;
        c2 = (c_u32)(p >> 32) ^ c3 ^ k1;
        c3 = (c_u32)p;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (w_block){(c_u64)c1 << 32 | c0, (c_u64)c3 << 32 | c2};
}

W_INLINE c_u64 w_draw_u64(c_i64 e, c_u64 seed, c_u64 draw) {
    const w_block b = w_philox((c_u64)e >> 1, seed, draw);
    return e & 1 ? b.second : b.first;
}
W_INLINE c_u32 w_draw_u32(c_i64 e, c_u64 seed, c_u64 draw) {
    const c_u64 pair = w_draw_u64(e >> 1, seed, draw);
    return (c_u32)(e & 1 ? pair >> 32 : pair);
}

/* Two normal numbers of two uniform ones: Box and Muller. f32 has 32 bits of u, so that the tails reach 6.6
 * deviations. */
#define W_NORMAL_f32(u, v, radius, angle)                                                                              \
    const c_f32 radius = w_sqrt_f32(-2 * w_log_f32((c_f32)(c_i32)((u) >> 16) * 0x1p-16f +                              \
                                                   ((c_f32)(c_i32)((u)&0xffffu) + 0.5f) * 0x1p-32f)),                  \
                angle = (c_f32)(c_i32)((v) >> 8) * (c_f32)(0x1p-24 * 6.283185307179586)
#define W_NORMAL_f64(u, v, radius, angle)                                                                              \
    const c_f64 radius = w_sqrt_f64(-2 * w_log_f64(((c_f64)(c_i64)((u) >> 11) + 0.5) * 0x1p-53)),                      \
                angle = (c_f64)(c_i64)((v) >> 11) * (0x1p-53 * 6.283185307179586)

#ifdef W_DRAWS_F32
W_INLINE c_f32 w_draw_f32(c_i64 e, c_u64 seed, c_u64 draw) {
    const c_u64 pair = w_draw_u64(e >> 1, seed, draw);
    W_NORMAL_f32((c_u32)pair, (c_u32)(pair >> 32), radius, angle);
    return radius * (e & 1 ? w_sin_f32(angle) : w_cos_f32(angle));
}
#endif
#ifdef W_DRAWS_F64
W_INLINE c_f64 w_draw_f64(c_i64 e, c_u64 seed, c_u64 draw) {
    const w_block b = w_philox((c_u64)e >> 1, seed, draw);
    W_NORMAL_f64(b.first, b.second, radius, angle);
    return radius * (e & 1 ? w_sin_f64(angle) : w_cos_f64(angle));
}
#endif

/* Up to LANES neighbours: blocks from that of the first on, then what each is made of. */
enum { W_BLOCKS = 256 / 2 + 1 };
static __attribute__((unused)) const c_u64 *w_draw_blocks(c_u64 *pairs, int count, c_u64 block, c_u64 seed,
                                                          c_u64 draw) {
    c_u64 first[W_BLOCKS], second[W_BLOCKS];
    _Pragma("omp simd") for (int i = 0; i < count; ++i) {
        const w_block b = w_philox(block + (c_u64)i, seed, draw);
        first[i] = b.first;
        second[i] = b.second;
    }
    for (int i = 0; i < count; ++i) {
        pairs[2 * i] = first[i];
        pairs[2 * i + 1] = second[i];
    }
    return pairs;
}

static __attribute__((unused)) void w_draws_u64(c_u64 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    c_u64 pairs[2 * W_BLOCKS];
    const int lead = (int)(e & 1);
    w_draw_blocks(pairs, (lead + n + 1) / 2, (c_u64)e >> 1, seed, draw);
    memcpy(out, pairs + lead, (size_t)n * sizeof *out);
}
static __attribute__((unused)) void w_draws_u32(c_u32 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    c_u64 pairs[2 * W_BLOCKS];
    c_u32 words[4 * W_BLOCKS];
    const int lead = (int)(e & 3), count = (lead + n + 3) / 4;
    w_draw_blocks(pairs, count, (c_u64)e >> 2, seed, draw);
    for (int i = 0; i < 2 * count; ++i) {
        words[2 * i] = (c_u32)pairs[i];
        words[2 * i + 1] = (c_u32)(pairs[i] >> 32);
    }
    memcpy(out, words + lead, (size_t)n * sizeof *out);
}

/* Of `count` pairs: the cosine and the sine of each, one behind the other. */
#define W_DRAW_PAIRS(t, count, u, v)                                                                                   \
    _Pragma("omp simd") for (int i = 0; i < count; ++i) {                                                              \
        W_NORMAL_##t(u, v, radius, angle);                                                                             \
        cosine[i] = radius * w_cos_##t(angle);                                                                         \
        sine[i] = radius * w_sin_##t(angle);                                                                           \
    }                                                                                                                  \
    for (int i = 0; i < count; ++i) {                                                                                  \
        values[2 * i] = cosine[i];                                                                                     \
        values[2 * i + 1] = sine[i];                                                                                   \
    }
#ifdef W_DRAWS_F32
static __attribute__((unused)) void w_draws_f32(c_f32 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    c_u64 pairs[2 * W_BLOCKS];
    c_f32 values[4 * W_BLOCKS], cosine[2 * W_BLOCKS], sine[2 * W_BLOCKS];
    const int lead = (int)(e & 3), count = (lead + n + 3) / 4;
    w_draw_blocks(pairs, count, (c_u64)e >> 2, seed, draw);
    W_DRAW_PAIRS(f32, 2 * count, (c_u32)pairs[i], (c_u32)(pairs[i] >> 32))
    memcpy(out, values + lead, (size_t)n * sizeof *out);
}
#endif
#ifdef W_DRAWS_F64
static __attribute__((unused)) void w_draws_f64(c_f64 *out, int n, c_i64 e, c_u64 seed, c_u64 draw) {
    c_u64 pairs[2 * W_BLOCKS];
    c_f64 values[2 * W_BLOCKS], cosine[W_BLOCKS], sine[W_BLOCKS];
    const int lead = (int)(e & 1), count = (lead + n + 1) / 2;
    w_draw_blocks(pairs, count, (c_u64)e >> 1, seed, draw);
    W_DRAW_PAIRS(f64, count, pairs[2 * i], pairs[2 * i + 1])
    memcpy(out, values + lead, (size_t)n * sizeof *out);
}
#endif

#endif
