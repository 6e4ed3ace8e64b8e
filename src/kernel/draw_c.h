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
#include "kernel/draw.def"

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
