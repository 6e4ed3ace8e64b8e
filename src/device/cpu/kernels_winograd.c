/* Winograd's convolution F(2x2, 3x3) for one instruction set HD_ISA: a tile of 2 x 2 results is made of 16 products
 * instead of 36, of what these functions make of a patch of 4 x 4 and of a window of 3 x 3; see conv_winograd.c.
 * Everything here is sums, differences and halves, so that small whole numbers stay exact. */
#include "device/cpu/kernels_isa.h"

#include <string.h>

typedef float vector __attribute__((vector_size(VECTOR)));
typedef float loose __attribute__((vector_size(VECTOR), aligned(4), may_alias)); /* at any address */
enum { LANES = VECTOR / sizeof(float), PLACES = HD_WINOGRAD_PLACES };
/* A strip of weights in whole vectors. */
enum { STRIP_VECTORS = (TILE_ROWS + LANES - 1) / LANES, STRIP = STRIP_VECTORS * LANES };
#define INLINE static inline __attribute__((always_inline))

/* Columns of a tile side by side in two vectors, and apart: the first and the second half, every other number. */
#if defined(__AVX512F__)
#define FRONT(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define BACK(a, b)  __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#elif defined(__AVX2__)
#define FRONT(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define BACK(a, b)  __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#else
#define FRONT(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define BACK(a, b)  __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define EVEN(a, b)  __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODD(a, b)   __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

/* ---- windows: G w G' --------------------------------------------------------------------------------------------- */
INLINE void window(vector out[4], vector a, vector b, vector c) {
    const vector outer = 0.5f * (a + c), inner = 0.5f * b;
    out[0] = a;
    out[1] = outer + inner;
    out[2] = outer - inner;
    out[3] = c;
}

/* One input channel of a vector of output channels: 9 taps to 16 places, STRIP elements apart. */
INLINE void transform_windows(float *out, const float *taps) {
    vector down[3][4], across[4];
    for (int x = 0; x < 3; ++x)
        window(down[x], *(const loose *)(taps + x * STRIP), *(const loose *)(taps + (3 + x) * STRIP),
               *(const loose *)(taps + (6 + x) * STRIP));
    for (int y = 0; y < 4; ++y) {
        window(across, down[0][y], down[1][y], down[2][y]);
        for (int x = 0; x < 4; ++x) *(loose *)(out + (4 * y + x) * STRIP) = across[x];
    }
}

static void windows(float *out, int64_t apart, const float *weight, const int64_t at[9], int64_t row, int64_t channel,
                    int64_t rows, int64_t channels) {
    float taps[9 * STRIP] = {0}, all[PLACES * STRIP];
    for (int64_t c = 0; c < channels; ++c, weight += channel, out += TILE_ROWS) {
        for (int t = 0; t < 9; ++t)
            for (int64_t i = 0; i < rows; ++i) taps[t * STRIP + i] = weight[at[t] + i * row];
        for (int v = 0; v < STRIP; v += LANES) transform_windows(all + v, taps + v);
        for (int p = 0; p < PLACES; ++p) memcpy(out + p * apart, all + p * STRIP, TILE_ROWS * sizeof(float));
    }
}

/* ---- patches: B' d B --------------------------------------------------------------------------------------------- */
INLINE void patch(vector out[4], vector a, vector b, vector c, vector d) {
    out[0] = a - c;
    out[1] = b + c;
    out[2] = c - b;
    out[3] = b - d;
}

static void patches(float *out, int64_t apart, const float *lines, int64_t line, int64_t n) {
    for (int64_t t = 0; t < n; t += LANES, lines += 2 * LANES, out += LANES) {
        vector across[4][4], down[4];
        for (int y = 0; y < 4; ++y) {
            const float *x = lines + y * line;
            const vector x0 = *(const loose *)x, x1 = *(const loose *)(x + LANES), x2 = *(const loose *)(x + 2),
                         x3 = *(const loose *)(x + LANES + 2);
            patch(across[y], EVEN(x0, x1), ODD(x0, x1), EVEN(x2, x3), ODD(x2, x3));
        }
        for (int x = 0; x < 4; ++x) {
            patch(down, across[0][x], across[1][x], across[2][x], across[3][x]);
            for (int y = 0; y < 4; ++y) *(loose *)(out + (4 * y + x) * apart) = down[y];
        }
    }
}

/* ---- results: A' m A --------------------------------------------------------------------------------------------- */
/* Two columns of results side by side. */
INLINE vector put_columns(float *out, vector left, vector right) {
    *(loose *)out = FRONT(left, right);
    *(loose *)(out + LANES) = BACK(left, right);
    return left + right;
}

/* A vector of tiles: two lines of results; their sum. */
INLINE vector put_tiles(float *upper, float *lower, const float *in, int64_t apart) {
    vector high[4], low[4];
    for (int x = 0; x < 4; ++x) {
        const vector m0 = *(const loose *)(in + x * apart), m1 = *(const loose *)(in + (4 + x) * apart),
                     m2 = *(const loose *)(in + (8 + x) * apart), m3 = *(const loose *)(in + (12 + x) * apart);
        high[x] = m0 + (m1 + m2);
        low[x] = (m1 - m2) - m3;
    }
    return put_columns(upper, high[0] + (high[1] + high[2]), (high[1] - high[2]) - high[3]) +
           put_columns(lower, low[0] + (low[1] + low[2]), (low[1] - low[2]) - low[3]);
}

static bool results(float *out, int64_t line, int lines, int64_t width, const float *in, int64_t apart) {
    vector check = {0}; /* 0 as long as everything is a number */
    int64_t x = 0;
    for (; lines == 2 && x + 2 * LANES <= width; x += 2 * LANES, in += LANES)
        check += 0 * put_tiles(out + x, out + line + x, in, apart);
    if (0 < x && x < width && width % 2 == 0) { /* the last vector begins where it must to end with the last tile */
        const int64_t back = x + 2 * LANES - width;
        check += 0 * put_tiles(out + x - back, out + line + x - back, in - back / 2, apart);
        x = width;
    }
    float sum = 0;
    for (; x < width; x += 2 * LANES, in += LANES) { /* what does not fill a vector, or has one line, is made aside */
        float aside[2][2 * LANES];
        const int64_t count = width - x < 2 * LANES ? width - x : 2 * LANES;
        put_tiles(aside[0], aside[1], in, apart);
        for (int y = 0; y < lines; ++y) {
            memcpy(out + y * line + x, aside[y], (size_t)count * sizeof(float));
            for (int64_t i = 0; i < count; ++i) sum += 0 * aside[y][i];
        }
    }
    for (int i = 0; i < LANES; ++i) sum += check[i];
    return sum == 0;
}

void KERNELS(hd_fill_winograd)(hd_cpu_kernels *table) {
    table->winograd = (hd_winograd_kernels){windows, patches, results};
}
