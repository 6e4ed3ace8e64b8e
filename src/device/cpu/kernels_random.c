/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011), for one instruction
 * set HD_ISA. Block k of draw d is philox(counter = (k, d), key = seed): four 32-bit words.
 *     f32: element e is word e % 4 of block e / 4          f64, u64: two words each, element e from block e / 2
 *     normals: Box-Muller on the two uniforms of a pair of elements (2i, 2i + 1) */
#include "device/cpu/kernels_isa.h"
#include "kernel/words_c.h"

#define T           f32
#define W_PRECISION 32
#include "kernel/math.def"
#undef T
#undef W_PRECISION
#define T           f64
#define W_PRECISION 64
#include "kernel/math.def"
#undef T

enum { BLOCKS = 64 }; /* at a time: each step below is a loop that vectorises */

static void philox(uint32_t words[4][BLOCKS], uint64_t first, uint64_t seed, uint64_t draw) {
    for (int i = 0; i < BLOCKS; ++i) {
        const uint64_t k = first + (uint64_t)i;
        uint32_t c0 = (uint32_t)k, c1 = (uint32_t)(k >> 32), c2 = (uint32_t)draw, c3 = (uint32_t)(draw >> 32);
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c0 = n0;
            c1 = (uint32_t)p1;
            c2 = n2;
            c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        words[0][i] = c0;
        words[1][i] = c1;
        words[2][i] = c2;
        words[3][i] = c3;
    }
}

/* Copies what [first, first + n) has of the 4 (or 2) * BLOCKS elements that begin at `begin`. */
#define TAKE(out, buffer, begin, count)                                                                                \
    do {                                                                                                               \
        const int64_t from = (begin) > first ? (begin) : first;                                                        \
        const int64_t to = (begin) + (count) < first + n ? (begin) + (count) : first + n;                              \
        if (to > from)                                                                                                 \
            memcpy((out) + (from - first), (buffer) + (from - (begin)), (size_t)(to - from) * sizeof *(out));          \
    } while (0)

static void uniform_f32(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint32_t words[4][BLOCKS];
    float values[4 * BLOCKS];
    for (int64_t block = first / 4; block * 4 < first + n; block += BLOCKS) {
        philox(words, (uint64_t)block, seed, draw);
        for (int w = 0; w < 4; ++w)
            for (int i = 0; i < BLOCKS; ++i) values[4 * i + w] = (float)(int32_t)(words[w][i] >> 8) * 0x1p-24f;
        TAKE(out, values, block * 4, 4 * BLOCKS);
    }
}

static void bits_u64(uint64_t *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint32_t words[4][BLOCKS];
    uint64_t values[2 * BLOCKS];
    for (int64_t block = first / 2; block * 2 < first + n; block += BLOCKS) {
        philox(words, (uint64_t)block, seed, draw);
        for (int i = 0; i < BLOCKS; ++i) {
            values[2 * i] = (uint64_t)words[1][i] << 32 | words[0][i];
            values[2 * i + 1] = (uint64_t)words[3][i] << 32 | words[2][i];
        }
        TAKE(out, values, block * 2, 2 * BLOCKS);
    }
}

static void uniform_f64(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint64_t bits[256];
    for (int64_t i = 0; i < n; i += 256) {
        const int64_t count = n - i < 256 ? n - i : 256;
        bits_u64(bits, first + i, count, seed, draw);
        for (int64_t j = 0; j < count; ++j) out[i + j] = (double)(int64_t)(bits[j] >> 11) * 0x1p-53;
    }
}

#define T f32
static void normal_f32(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint32_t words[4][BLOCKS];
    float values[4 * BLOCKS], radius[BLOCKS], cosine[BLOCKS], sine[BLOCKS];
    for (int64_t block = first / 4; block * 4 < first + n; block += BLOCKS) {
        philox(words, (uint64_t)block, seed, draw);
        for (int w = 0; w < 4; w += 2) {
            for (int i = 0; i < BLOCKS; ++i) { /* 32 bits of u1, so that the tails reach 6.6 deviations */
                const float u1 = (float)(int32_t)(words[w][i] >> 16) * 0x1p-16f +
                                 ((float)(int32_t)(words[w][i] & 0xffffu) + 0.5f) * 0x1p-32f;
                radius[i] = SQRT(MUL(K(-2), LOG(u1)));
            }
            for (int i = 0; i < BLOCKS; ++i)
                cosine[i] = COS((float)(int32_t)(words[w + 1][i] >> 8) * (float)(0x1p-24 * 6.283185307179586));
            for (int i = 0; i < BLOCKS; ++i)
                sine[i] = SIN((float)(int32_t)(words[w + 1][i] >> 8) * (float)(0x1p-24 * 6.283185307179586));
            for (int i = 0; i < BLOCKS; ++i) {
                values[4 * i + w] = radius[i] * cosine[i];
                values[4 * i + w + 1] = radius[i] * sine[i];
            }
        }
        TAKE(out, values, block * 4, 4 * BLOCKS);
    }
}
#undef T

#define T f64
static void normal_f64(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint32_t words[4][BLOCKS];
    double values[2 * BLOCKS], radius[BLOCKS], angle[BLOCKS];
    for (int64_t block = first / 2; block * 2 < first + n; block += BLOCKS) {
        philox(words, (uint64_t)block, seed, draw);
        for (int i = 0; i < BLOCKS; ++i) {
            const double u1 = ((double)(int64_t)(((uint64_t)words[1][i] << 32 | words[0][i]) >> 11) + 0.5) * 0x1p-53;
            radius[i] = SQRT(MUL(K(-2), LOG(u1)));
            angle[i] =
                (double)(int64_t)(((uint64_t)words[3][i] << 32 | words[2][i]) >> 11) * (0x1p-53 * 6.283185307179586);
        }
        for (int i = 0; i < BLOCKS; ++i) values[2 * i] = radius[i] * COS(angle[i]);
        for (int i = 0; i < BLOCKS; ++i) values[2 * i + 1] = radius[i] * SIN(angle[i]);
        TAKE(out, values, block * 2, 2 * BLOCKS);
    }
}
#undef T

void KERNELS(hd_fill_random)(hd_cpu_kernels *table) {
    table->uniform_f32 = uniform_f32;
    table->uniform_f64 = uniform_f64;
    table->normal_f32 = normal_f32;
    table->normal_f64 = normal_f64;
    table->bits_u64 = bits_u64;
}
