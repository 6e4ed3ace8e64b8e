/* Products of f32 in the processor's matrix unit (AMX), which multiplies tiles of bf16 and sums up in f32. A number of
 * 24 bits is the sum of three of 8 bits, exactly: x = high + middle + low. Of the nine products of two such numbers the
 * three smallest are below what f32 holds; the other six are made one after the other. bf16 itself is one part.
 *
 * A packed strip of A has 32 rows, a packed panel of B 32 columns, both [steps of 32 along k][parts][2 tiles][16][32
 * bf16]:
 * a line of a tile of A is a row, a line of a tile of B a pair of rows. The unit takes bf16 in pairs along k; here a
 * pair is (t, t + 16) of a step, so that two vectors become one by a shift.
 *
 * The unit takes subnormal parts for zero, and parts of infinity are no numbers: operands with such elements, or with
 * rows or columns so small that their parts matter, are packed as they are behind a MARK, and multiplied by the vector
 * unit. */
#include "device/cpu/kernels_isa.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum {
    LINE = 32,        /* bf16 in a line of a tile: 16 words */
    TILE = 16 * LINE, /* bf16 in a tile */
    SIDE = 32,        /* rows of a strip, columns of a panel: two tiles */
    STEP = 32,        /* elements along k in a tile */
    AHEAD = 2,        /* steps that B is packed ahead */
    PLAIN_AT = 16     /* words in front of what is packed as it is */
};
static const uint32_t MARK = 0xffffffff; /* a pair of NaN, of which parts are never made */

/* ---- parts ------------------------------------------------------------------------------------------------------- */
typedef __m512i words;

INLINE words top_of(words x) { return _mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000)); }
INLINE words without_top(words x) {
    return _mm512_castps_si512(_mm512_sub_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(top_of(x))));
}
INLINE words pair_of(words x, words y) { /* the upper halves of two numbers */
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(x, 16), y);
}
/* A line of each part's tile, from the first and the second elements of its pairs, whose upper halves are the first
 * part. */
INLINE void put_line(const int parts, words first, words x, words y, uint16_t *line) {
    _mm512_storeu_si512(line, first);
    for (int i = 1; i < parts; ++i) {
        x = without_top(x);
        y = without_top(y);
        _mm512_storeu_si512(line + i * 2 * TILE, pair_of(x, y));
    }
}
/* What was seen of rows or columns: the largest upper halves, times two, and which bits there are at all. */
typedef struct seen {
    words most, bits;
} seen;
INLINE void see(seen *of, words first, words x, words y) {
    of->most = _mm512_max_epu16(of->most, _mm512_add_epi16(first, first));
    of->bits = _mm512_ternarylogic_epi32(of->bits, x, y, 0xfe);
}
/* True when columns, one in each lane, can be in parts: all finite, and all zero or some not below 2^-44. */
INLINE bool is_usual(seen of) {
    const words least = _mm512_set1_epi32((127 - 44) << 8), infinity = _mm512_set1_epi32(0xff00);
    const words most =
        _mm512_max_epu32(_mm512_srli_epi32(of.most, 16), _mm512_and_si512(of.most, _mm512_set1_epi32(0xffff)));
    const __mmask16 some = _mm512_test_epi32_mask(of.bits, _mm512_set1_epi32(0x7fffffff)); /* not only zeros */
    return ((_mm512_cmplt_epu32_mask(most, least) & some) | _mm512_cmpge_epu32_mask(most, infinity)) == 0;
}
/* The same of one row in all lanes. */
INLINE bool is_usual_line(seen of) {
    return _mm512_cmpge_epu16_mask(of.most, _mm512_set1_epi16((short)0xff00)) == 0 &&
           (_mm512_cmpge_epu16_mask(of.most, _mm512_set1_epi16((127 - 44) << 8)) != 0 ||
            _mm512_test_epi32_mask(of.bits, _mm512_set1_epi32(0x7fffffff)) == 0);
}

INLINE __mmask16 first_lanes(int64_t count) {
    return count >= 16 ? 0xffff : count <= 0 ? 0 : (__mmask16)((1u << count) - 1);
}
INLINE words load_f32(const float *p, __mmask16 lanes) { return _mm512_maskz_loadu_epi32(lanes, p); }
INLINE words load_bf16(const uint16_t *p, __mmask16 lanes) {
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p)), 16);
}
INLINE words load_f16(const uint16_t *p, __mmask16 lanes) {
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes, p)));
}

/* Their first part, given where the first of them lies and how many there are there: whole ones come shifted from
 * memory. */
INLINE words first_of_f32(const float *p, words x, words y, int64_t count) {
    return count >= 16 ? _mm512_mask_loadu_epi16(y, 0x55555555, (const uint16_t *)p + 1) : pair_of(x, y);
}
INLINE words first_of_bf16(const uint16_t *p, words x, words y, int64_t count) {
    (void)p, (void)count;
    return pair_of(x, y);
}
#define first_of_f16 first_of_bf16

/* The 16 x 16 words of a tile exchanged across its diagonal. */
static void turn_tile(uint16_t *tile) {
    words a[16], b[16];
    for (int i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(tile + i * LINE);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
        a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
        a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
        a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 16; i += 8)
        for (int j = 0; j < 4; ++j) {
            b[i + j] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0x88);
            b[i + j + 4] = _mm512_shuffle_i32x4(a[i + j], a[i + j + 4], 0xdd);
        }
    for (int j = 0; j < 8; ++j) {
        _mm512_storeu_si512(tile + j * LINE, _mm512_shuffle_i32x4(b[j], b[j + 8], 0x88));
        _mm512_storeu_si512(tile + (j + 8) * LINE, _mm512_shuffle_i32x4(b[j], b[j + 8], 0xdd));
    }
}

/* Lines whose vectors run along k: one for each of `count` rows of A or columns of B, `across` apart. */
#define ALONG_K(PARTS, S, s)                                                                                           \
    INLINE void line_along_##PARTS##_##s(uint16_t *out, const S *at, int64_t left, seen *of) {                         \
        const words x = load_##s(at, first_lanes(left)), y = load_##s(at + 16, first_lanes(left - 16)),                \
                    first = first_of_##s(at, x, y, left);                                                              \
        see(of, first, x, y);                                                                                          \
        put_line(PARTS, first, x, y, out);                                                                             \
    }                                                                                                                  \
    static bool along_k_##PARTS##_##s(uint16_t *out, const S *from, int64_t count, int64_t k, int64_t across) {        \
        seen of[SIDE] = {{{0}, {0}}};                                                                                  \
        for (int64_t q = 0; q < k; q += STEP, from += STEP, out += PARTS * 2 * TILE)                                   \
            if (count == SIDE && k - q >= STEP)                                                                        \
                for (int64_t i = 0; i < SIDE; ++i)                                                                     \
                    line_along_##PARTS##_##s(out + i * LINE, from + i * across, STEP, &of[i]);                         \
            else                                                                                                       \
                for (int64_t i = 0; i < SIDE; ++i)                                                                     \
                    line_along_##PARTS##_##s(out + i * LINE, from + i * across, i < count ? k - q : 0, &of[i]);        \
        bool usual = true;                                                                                             \
        for (int i = 0; i < SIDE; ++i) usual = is_usual_line(of[i]) && usual;                                          \
        return usual;                                                                                                  \
    }
/* Lines [begin, end) of a step whose vectors run across k: a line for each pair of rows of B or columns of A, `along`
 * apart; `left` elements are left along k. */
#define ACROSS_K(PARTS, S, s)                                                                                          \
    INLINE void lines_across_##PARTS##_##s(uint16_t *out, const S *from, int64_t begin, int64_t end, int64_t count,    \
                                           int64_t left, int64_t along, seen of[2], const bool asks) {                 \
        const S *low = from + begin * along, *high = low + 16 * along;                                                 \
        for (int64_t t = begin; t < end; ++t, low += along, high += along)                                             \
            for (int j = 0; j < 2; ++j) {                                                                              \
                const int64_t lanes = count - j * 16, below = t < left ? lanes : 0, above = t + 16 < left ? lanes : 0; \
                const words x = load_##s(low + j * 16, first_lanes(below)),                                            \
                            y = load_##s(high + j * 16, first_lanes(above)),                                           \
                            first = first_of_##s(low + j * 16, x, y, below);                                           \
                if (asks) {                                                                                            \
                    __builtin_prefetch(low + SIDE + j * 16, 0, 2);                                                     \
                    __builtin_prefetch(high + SIDE + j * 16, 0, 2);                                                    \
                }                                                                                                      \
                see(&of[j], first, x, y);                                                                              \
                put_line(PARTS, first, x, y, out + j * TILE + t * LINE);                                               \
            }                                                                                                          \
    }                                                                                                                  \
    static bool across_k_##PARTS##_##s(uint16_t *out, const S *from, int64_t count, int64_t k, int64_t along) {        \
        seen of[2] = {{{0}, {0}}, {{0}, {0}}};                                                                         \
        if (count == SIDE && k % STEP == 0)                                                                            \
            for (int64_t q = 0; q < k; q += STEP)                                                                      \
                lines_across_##PARTS##_##s(out + q / STEP * PARTS * 2 * TILE, from + q * along, 0, 16, SIDE, STEP,     \
                                           along, of, false);                                                          \
        else                                                                                                           \
            for (int64_t q = 0; q < k; q += STEP)                                                                      \
                lines_across_##PARTS##_##s(out + q / STEP * PARTS * 2 * TILE, from + q * along, 0, 16, count, k - q,   \
                                           along, of, false);                                                          \
        return is_usual(of[0]) && is_usual(of[1]);                                                                     \
    }

/* As it is: f32 [32][k rounded up to steps], behind the mark. */
#define AS_IT_IS(S, s)                                                                                                 \
    static void pack_as_it_is_##s(uint16_t *out, const S *from, int64_t count, int64_t k, int64_t across,              \
                                  int64_t along) {                                                                     \
        const int64_t width = (k + STEP - 1) / STEP * STEP;                                                            \
        float *to = (float *)out + PLAIN_AT;                                                                           \
        memcpy(out, &MARK, sizeof MARK);                                                                               \
        memset(to, 0, (size_t)(SIDE * width) * sizeof *to);                                                            \
        for (int64_t i = 0; i < count; ++i)                                                                            \
            for (int64_t q = 0; q < k; ++q)                                                                            \
                to[i * width + q] = _mm_cvtss_f32(                                                                     \
                    _mm512_castps512_ps128(_mm512_castsi512_ps(load_##s(from + i * across + q * along, 1))));          \
    }

/* Packs `count` rows of A, or columns of B; vectors run along k or across, whichever lies along memory. */
#define PACK(PARTS, S, s)                                                                                              \
    ALONG_K(PARTS, S, s)                                                                                               \
    ACROSS_K(PARTS, S, s)                                                                                              \
    static void pack_##PARTS##_##s(uint16_t *out, const S *from, int64_t count, int64_t k, int64_t across,             \
                                   int64_t along, bool is_a) {                                                         \
        const int64_t steps = (k + STEP - 1) / STEP;                                                                   \
        bool usual = true, is_along = along == 1;                                                                      \
        if (is_along)                                                                                                  \
            usual = along_k_##PARTS##_##s(out, from, count, k, across);                                                \
        else if (across == 1)                                                                                          \
            usual = across_k_##PARTS##_##s(out, from, count, k, along);                                                \
        else                                                                                                           \
            for (int64_t q = 0; q < steps; ++q) { /* a step at a time is brought together */                           \
                S some[SIDE * STEP] = {0};                                                                             \
                for (int64_t i = 0; i < count; ++i)                                                                    \
                    for (int64_t t = 0; t < STEP && q * STEP + t < k; ++t)                                             \
                        some[i * STEP + t] = from[i * across + (q * STEP + t) * along];                                \
                is_along = true;                                                                                       \
                usual = along_k_##PARTS##_##s(out + q * PARTS * 2 * TILE, some, SIDE, STEP, STEP) && usual;            \
            }                                                                                                          \
        for (int64_t i = 0; is_along != is_a && i < steps * PARTS * 2; ++i) turn_tile(out + i * TILE);                 \
        if (PARTS > 1 && !usual) pack_as_it_is_##s(out, from, count, k, across, along);                                \
    }                                                                                                                  \
    static void pack_a_##PARTS##_##s(void *out, const void *a, int64_t rows, int64_t k, int64_t row, int64_t column) { \
        pack_##PARTS##_##s(out, a, rows, k, row, column, true);                                                        \
    }                                                                                                                  \
    static void pack_b_##PARTS##_##s(void *out, const void *b, int64_t k, int64_t columns, int64_t row,                \
                                     int64_t column) {                                                                 \
        pack_##PARTS##_##s(out, b, columns, k, column, row, false);                                                    \
    }

/* ---- products ---------------------------------------------------------------------------------------------------- */
/* What is packed as it is, or parts together again: 32 rows or columns of a step, [i][t]. */
static void restore_step(float *to, const uint16_t *packed, int64_t steps, int64_t step, bool is_a) {
    if (*(const uint32_t *)packed == MARK) {
        const float *from = (const float *)packed + PLAIN_AT + step * STEP;
        for (int64_t i = 0; i < SIDE; ++i) memcpy(to + i * STEP, from + i * steps * STEP, STEP * sizeof *to);
        return;
    }
    packed += step * 3 * 2 * TILE;
    for (int i = 0; i < SIDE; ++i)
        for (int t = 0; t < STEP; ++t) {
            const int line = is_a ? i % 16 : t % 16, word = is_a ? t % 16 : i % 16;
            float sum = 0;
            for (int part = 2; part >= 0; --part) { /* the lowest first: each sum is exact */
                const uint32_t bits = (uint32_t)packed[(part * 2 + i / 16) * TILE + line * LINE + word * 2 + t / 16]
                                      << 16;
                float x;
                memcpy(&x, &bits, sizeof x);
                sum += x;
            }
            to[i * STEP + t] = sum;
        }
}
/* By the vector unit. */
static void multiply_plainly(int64_t rows, int64_t k, const uint16_t *a, const uint16_t *b, float *c, int64_t ldc,
                             bool accumulate) {
    _Alignas(64) float x[SIDE * STEP], y[SIDE * STEP], transposed[STEP][SIDE];
    const int64_t steps = (k + STEP - 1) / STEP;
    for (int64_t step = 0; step < steps; ++step, accumulate = true) {
        restore_step(x, a, steps, step, true);
        restore_step(y, b, steps, step, false);
        for (int t = 0; t < STEP; ++t)
            for (int j = 0; j < SIDE; ++j) transposed[t][j] = y[j * STEP + t];
        const int64_t count = k - step * STEP < STEP ? k - step * STEP : STEP;
        for (int64_t i = 0; i < rows; ++i) {
            float *to = c + i * ldc;
            __m512 left = accumulate ? _mm512_loadu_ps(to) : _mm512_setzero_ps(),
                   right = accumulate ? _mm512_loadu_ps(to + 16) : _mm512_setzero_ps();
            for (int64_t t = 0; t < count; ++t) { /* not behind k: 0 times an infinity would count */
                const __m512 factor = _mm512_set1_ps(x[i * STEP + t]);
                left = _mm512_fmadd_ps(factor, _mm512_load_ps(transposed[t]), left);
                right = _mm512_fmadd_ps(factor, _mm512_load_ps(transposed[t] + 16), right);
            }
            _mm512_storeu_ps(to, left);
            _mm512_storeu_ps(to + 16, right);
        }
    }
}

/* Tiles 0 to 3 are those of C, 4 and 5 of A, 6 and 7 of B. Compilers do not know that they are read from memory: what
 * was written there has to be settled first. */
INLINE void settle(void) { __asm__ volatile("" ::: "memory"); }
INLINE void zero_c(void) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}
INLINE void take_a(const uint16_t *a, int part) {
    _tile_loadd(4, a + part * 2 * TILE, 64);
    _tile_loadd(5, a + part * 2 * TILE + TILE, 64);
}
INLINE void take_b(const uint16_t *b, int part) {
    _tile_loadd(6, b + part * 2 * TILE, 64);
    _tile_loadd(7, b + part * 2 * TILE + TILE, 64);
}
INLINE void multiply_tiles(void) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Whole tiles of C are added to in the unit; the last rows aside. */
static void take_c(const float *c, int64_t ldc, int64_t rows, bool accumulate) {
    const size_t stride = (size_t)ldc * sizeof *c;
    if (!accumulate || rows < SIDE) {
        zero_c();
        return;
    }
    _tile_loadd(0, c, stride);
    _tile_loadd(1, c + 16, stride);
    _tile_loadd(2, c + 16 * ldc, stride);
    _tile_loadd(3, c + 16 * ldc + 16, stride);
}
static void put_c(float *c, int64_t ldc, int64_t rows, bool accumulate) {
    _Alignas(64) float aside[SIDE * SIDE];
    float *to = rows == SIDE ? c : aside;
    const int64_t ld = rows == SIDE ? ldc : SIDE;
    const size_t stride = (size_t)ld * sizeof *to;
    _tile_stored(0, to, stride);
    _tile_stored(1, to + 16, stride);
    _tile_stored(2, to + 16 * ld, stride);
    _tile_stored(3, to + 16 * ld + 16, stride);
    settle();
    for (int64_t i = 0; i < rows && rows < SIDE; ++i, c += ldc)
        for (int j = 0; j < SIDE; j += 16) {
            const __m512 sum = _mm512_load_ps(aside + i * SIDE + j);
            _mm512_storeu_ps(c + j, accumulate ? _mm512_add_ps(_mm512_loadu_ps(c + j), sum) : sum);
        }
}

INLINE void multiply(const int parts, int64_t rows, int64_t k, const uint16_t *a, const uint16_t *b, float *c,
                     int64_t ldc, bool accumulate) {
    if (parts > 1 && (*(const uint32_t *)a == MARK || *(const uint32_t *)b == MARK)) {
        multiply_plainly(rows, k, a, b, c, ldc, accumulate);
        return;
    }
    settle();
    take_c(c, ldc, rows, accumulate);
    for (int64_t q = 0; q < k; q += STEP, a += parts * 2 * TILE, b += parts * 2 * TILE) {
        take_a(a, 0), take_b(b, parts - 1), multiply_tiles();
        if (parts == 1) continue;
        take_b(b, 1), multiply_tiles();
        take_a(a, 1), multiply_tiles();
        take_b(b, 0), multiply_tiles();
        take_a(a, 2), multiply_tiles();
        take_a(a, 0), multiply_tiles();
    }
    put_c(c, ldc, rows, accumulate);
}

/* A strip times a panel of B where it is, which is packed two steps ahead, while the matrix unit multiplies: what has
 * just been written cannot be read as a tile yet. */
#define FIRST(S, s)                                                                                                    \
    static void first_##s(int64_t k, const void *x, int64_t row, int64_t column, const void *y, int64_t ldb,           \
                          void *keep, void *c, int64_t ldc, bool accumulate) {                                         \
        (void)row, (void)column;                                                                                       \
        const uint16_t *a = x;                                                                                         \
        const S *b = y;                                                                                                \
        uint16_t *packed = keep;                                                                                       \
        seen of[2] = {{{0}, {0}}, {{0}, {0}}};                                                                         \
        if (*(const uint32_t *)a == MARK || k % STEP != 0) {                                                           \
            pack_b_3_##s(keep, b, k, SIDE, ldb, 1);                                                                    \
            multiply(3, SIDE, k, a, keep, c, ldc, accumulate);                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        settle();                                                                                                      \
        take_c(c, ldc, SIDE, accumulate);                                                                              \
        for (int64_t q = 0; q < AHEAD && q * STEP < k; ++q, b += STEP * ldb)                                           \
            lines_across_3_##s(packed + q * 6 * TILE, b, 0, 16, SIDE, STEP, ldb, of, true);                            \
        for (int64_t q = 0; q < k; q += STEP, a += 6 * TILE, packed += 6 * TILE, b += STEP * ldb) {                    \
            uint16_t *to = packed + AHEAD * 6 * TILE;                                                                  \
            const bool more = q + AHEAD * STEP < k;                                                                    \
            settle();                                                                                                  \
            take_a(a, 0), take_b(packed, 2), multiply_tiles();                                                         \
            if (more) lines_across_3_##s(to, b, 0, 3, SIDE, STEP, ldb, of, true);                                      \
            take_b(packed, 1), multiply_tiles();                                                                       \
            if (more) lines_across_3_##s(to, b, 3, 6, SIDE, STEP, ldb, of, true);                                      \
            take_a(a, 1), multiply_tiles();                                                                            \
            if (more) lines_across_3_##s(to, b, 6, 9, SIDE, STEP, ldb, of, true);                                      \
            take_b(packed, 0), multiply_tiles();                                                                       \
            if (more) lines_across_3_##s(to, b, 9, 12, SIDE, STEP, ldb, of, true);                                     \
            take_a(a, 2), multiply_tiles();                                                                            \
            if (more) lines_across_3_##s(to, b, 12, 14, SIDE, STEP, ldb, of, true);                                    \
            take_a(a, 0), multiply_tiles();                                                                            \
            if (more) lines_across_3_##s(to, b, 14, 16, SIDE, STEP, ldb, of, true);                                    \
        }                                                                                                              \
        if (is_usual(of[0]) && is_usual(of[1])) {                                                                      \
            put_c(c, ldc, SIDE, accumulate);                                                                           \
            return;                                                                                                    \
        }                                                                                                              \
        pack_as_it_is_##s(keep, y, SIDE, k, 1, ldb);                                                                   \
        multiply_plainly(SIDE, k, x, keep, c, ldc, accumulate);                                                        \
    }

#define MULTIPLY(PARTS)                                                                                                \
    static void tile_##PARTS(int64_t k, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc,               \
                             bool accumulate) {                                                                        \
        (void)ldb;                                                                                                     \
        multiply(PARTS, SIDE, k, a, b, c, ldc, accumulate);                                                            \
    }                                                                                                                  \
    static void thin_##PARTS(int rows, int64_t k, const void *a, int64_t row, int64_t column, const void *b,           \
                             int64_t ldb, void *c, int64_t ldc, bool accumulate) {                                     \
        (void)row, (void)column, (void)ldb;                                                                            \
        multiply(PARTS, rows, k, a, b, c, ldc, accumulate);                                                            \
    }

AS_IT_IS(float, f32)
AS_IT_IS(uint16_t, bf16)
AS_IT_IS(uint16_t, f16)
PACK(3, float, f32)
PACK(3, uint16_t, bf16)
PACK(3, uint16_t, f16)
PACK(1, uint16_t, bf16)
FIRST(float, f32)
FIRST(uint16_t, bf16)
FIRST(uint16_t, f16)
MULTIPLY(3)
MULTIPLY(1)

/* ---- the unit ---------------------------------------------------------------------------------------------------- */
static const struct configuration {
    uint8_t palette, start, reserved[14];
    uint16_t line_bytes[16];
    uint8_t lines[16];
} whole_tiles __attribute__((aligned(64))) = {
    .palette = 1, .line_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .lines = {16, 16, 16, 16, 16, 16, 16, 16}};

static void enter_amx(void) { _tile_loadconfig(&whole_tiles); }
static void leave_amx(void) { _tile_release(); }

#define READ(PARTS, s, S)                                                                                              \
    (hd_gemm_source) { .bytes = sizeof(S), .pack_a = pack_a_##PARTS##_##s, .pack_b = pack_b_##PARTS##_##s }

void KERNELS(hd_fill_parts)(hd_cpu_kernels *table) {
    hd_gemm_kernels *three = &table->gemm_parts, *one = &table->gemm_halves;
    *three = (hd_gemm_kernels){.mr = SIDE,
                               .nr = SIDE,
                               .bytes = 4,
                               .packed_bytes = 6,
                               .own = HD_F32,
                               .group = STEP,
                               .k_block = HD_GEMM_K_BLOCK};
    three->tile = tile_3;
    three->thin = thin_3;
    three->from[HD_F32] = READ(3, f32, float);
    three->from[HD_BF16] = READ(3, bf16, uint16_t);
    three->from[HD_F16] = READ(3, f16, uint16_t);
    three->from[HD_F32].first = first_f32;
    three->from[HD_BF16].first = first_bf16;
    three->from[HD_F16].first = first_f16;
    *one = *three;
    memset(one->from, 0, sizeof one->from);
    one->packed_bytes = 2;
    one->tile = tile_1;
    one->thin = thin_1;
    one->from[HD_BF16] = READ(1, bf16, uint16_t);
    three->cost = 45, three->cost_a = 1800, three->cost_b = 1900, three->cost_b_turned = 3000;
    one->cost = 10, one->cost_a = one->cost_b = 1000, one->cost_b_turned = 2000;
    three->enter = one->enter = enter_amx;
    three->leave = one->leave = leave_amx;
}
