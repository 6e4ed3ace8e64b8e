/* The matrix product's micro-kernels for one instruction set HD_ISA, in the compilers' vector extension: a tile of C
 * stays in registers while k runs. Operands are read through kernels_gemm_read.h, which converts them. */
#include "device/cpu/kernels_gemm_read.h"
#include "device/cpu/kernels_isa.h"

#include <string.h>

enum { MOST_ROWS = TILE_ROWS > 8 ? 8 : 4 }; /* of a tile that is not whole */

/* A in words of t times B in memory of s; WORDS_OF(k) words are k elements, and ADD(sum, word, vector) is a step, for
 * which the functions may need an attribute TARGET. */
#define TILE(TARGET, T, t, S, s, WORDS_OF, ADD)                                                                        \
    TARGET INLINE void tile_body_##t##_##s(const int rows, int64_t k, const T *a, int64_t row, int64_t column,         \
                                           const S *b, int64_t ldb, T *keep, T *c, int64_t ldc, bool accumulate) {     \
        vector_##t sum[TILE_ROWS][2];                                                                                  \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vector_##t){0};               \
        for (int64_t p = 0; p < WORDS_OF(k); ++p, a += column, b += ldb) {                                             \
            const vector_##t b0 = columns_##t##_##s(b, 0), b1 = columns_##t##_##s(b + LANES_##t, 0);                   \
            if (keep != NULL) {                                                                                        \
                *(loose_##t *)keep = b0;                                                                               \
                *(loose_##t *)(keep + LANES_##t) = b1;                                                                 \
                keep += 2 * LANES_##t;                                                                                 \
            }                                                                                                          \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i) {                                                  \
                const T x = a[i * row];                                                                                \
                ADD(sum[i][0], x, b0);                                                                                 \
                ADD(sum[i][1], x, b1);                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i, c += ldc) {                                            \
            const vector_##t old0 = accumulate ? (vector_##t) * (const loose_##t *)c : (vector_##t){0};                \
            const vector_##t old1 = accumulate ? (vector_##t) * (const loose_##t *)(c + LANES_##t) : (vector_##t){0};  \
            *(loose_##t *)c = old0 + sum[i][0];                                                                        \
            *(loose_##t *)(c + LANES_##t) = old1 + sum[i][1];                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    TARGET static void tile_##t##_##s(int64_t k, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc,      \
                                      bool accumulate) {                                                               \
        tile_body_##t##_##s(TILE_ROWS, k, a, 1, TILE_ROWS, b, ldb, NULL, c, ldc, accumulate);                          \
    }                                                                                                                  \
    TARGET static void thin_##t##_##s(int rows, int64_t k, const void *a, int64_t row, int64_t column, const void *b,  \
                                      int64_t ldb, void *c, int64_t ldc, bool accumulate) {                            \
        const int first = rows >= TILE_ROWS ? TILE_ROWS : rows >= MOST_ROWS ? MOST_ROWS : rows >= 4 ? 4 : rows;        \
        switch (first) {                                                                                               \
        case 1: tile_body_##t##_##s(1, k, a, row, column, b, ldb, NULL, c, ldc, accumulate); break;                    \
        case 2: tile_body_##t##_##s(2, k, a, row, column, b, ldb, NULL, c, ldc, accumulate); break;                    \
        case 3: tile_body_##t##_##s(3, k, a, row, column, b, ldb, NULL, c, ldc, accumulate); break;                    \
        default:                                                                                                       \
            if (first == TILE_ROWS)                                                                                    \
                tile_body_##t##_##s(TILE_ROWS, k, a, row, column, b, ldb, NULL, c, ldc, accumulate);                   \
            else if (first == MOST_ROWS)                                                                               \
                tile_body_##t##_##s(MOST_ROWS, k, a, row, column, b, ldb, NULL, c, ldc, accumulate);                   \
            else                                                                                                       \
                tile_body_##t##_##s(4, k, a, row, column, b, ldb, NULL, c, ldc, accumulate);                           \
        }                                                                                                              \
        if (rows > first)                                                                                              \
            thin_##t##_##s(rows - first, k, (const T *)a + first * row, row, column, b, ldb, (T *)c + first * ldc,     \
                           ldc, accumulate);                                                                           \
    }

/* A whole tile that packs its panel of B on the way. */
#define FIRST(T, t, S, s)                                                                                              \
    static void first_##t##_##s(int64_t k, const void *a, int64_t row, int64_t column, const void *b, int64_t ldb,     \
                                void *keep, void *c, int64_t ldc, bool accumulate) {                                   \
        tile_body_##t##_##s(TILE_ROWS, k, a, row, column, b, ldb, keep, c, ldc, accumulate);                           \
    }

/* One row: as many columns at once as hide the time that an addition takes. */
#define LINE(T, t, S, s)                                                                                               \
    static void line_##t##_##s(int64_t k, const void *x, const void *y, int64_t ldb, void *out, bool accumulate) {     \
        const T *a = x;                                                                                                \
        const S *b = y;                                                                                                \
        loose_##t *c = out;                                                                                            \
        vector_##t sum[2 * HD_LINE_PANELS];                                                                            \
        _Pragma("GCC unroll 16") for (int i = 0; i < 2 * HD_LINE_PANELS; ++i) sum[i] = (vector_##t){0};                \
        for (int64_t p = 0; p < k; ++p, b += ldb)                                                                      \
            _Pragma("GCC unroll 16") for (int i = 0; i < 2 * HD_LINE_PANELS; ++i) sum[i] +=                            \
                a[p] * columns_##t##_##s(b + i * LANES_##t, 0);                                                        \
        _Pragma("GCC unroll 16") for (int i = 0; i < 2 * HD_LINE_PANELS; ++i) c[i] =                                   \
            accumulate ? (vector_##t)c[i] + sum[i] : sum[i];                                                           \
    }

#define PACK(T, t, S, s, GROUP)                                                                                        \
    INLINE void transpose4_##t##_##s(const S *from, int64_t row, T *to, int64_t ld) {                                  \
        const four_##t r0 = four_##t##_##s(from), r1 = four_##t##_##s(from + row);                                     \
        const four_##t r2 = four_##t##_##s(from + 2 * row), r3 = four_##t##_##s(from + 3 * row);                       \
        const four_##t low0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),                                             \
                       low1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);                                             \
        const four_##t high0 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),                                            \
                       high1 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);                                            \
        *(four_##t *)to = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);                                             \
        *(four_##t *)(to + ld) = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);                                      \
        *(four_##t *)(to + 2 * ld) = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);                                \
        *(four_##t *)(to + 3 * ld) = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);                                \
    }                                                                                                                  \
    static void pack_a_##t##_##s(void *o, const void *p, int64_t rows, int64_t k, int64_t row, int64_t column) {       \
        T *restrict out = o;                                                                                           \
        const S *a = p;                                                                                                \
        const int64_t words = k / GROUP;                                                                               \
        if (rows < TILE_ROWS) memset(out, 0, (size_t)((k + GROUP - 1) / GROUP) * TILE_ROWS * sizeof(T));               \
        if (GROUP == 1 && row == 1 && rows == TILE_ROWS) {                                                             \
            for (int64_t q = 0; q < k; ++q)                                                                            \
                for (int i = 0; i < TILE_ROWS; ++i) out[q * TILE_ROWS + i] = one_##t##_##s(a + q * column + i, 0);     \
            return;                                                                                                    \
        }                                                                                                              \
        int64_t done = 0;                                                                                              \
        if (column == 1 && rows == TILE_ROWS && TILE_ROWS % 4 == 0) /* 4 x 4 words at a time */                        \
            for (; done + 4 <= words; done += 4)                                                                       \
                for (int i = 0; i < TILE_ROWS; i += 4)                                                                 \
                    transpose4_##t##_##s(a + i * row + done * GROUP, row, out + done * TILE_ROWS + i, TILE_ROWS);      \
        for (int64_t q0 = done; q0 < words; q0 += 16) { /* a cache line of each row at a time */                       \
            const int64_t q1 = words - q0 < 16 ? words : q0 + 16;                                                      \
            for (int64_t i = 0; i < rows; ++i)                                                                         \
                for (int64_t q = q0; q < q1; ++q)                                                                      \
                    out[q * TILE_ROWS + i] = one_##t##_##s(a + i * row + q * GROUP * column, column);                  \
        }                                                                                                              \
        for (int64_t i = 0; words * GROUP < k && i < rows; ++i)                                                        \
            out[words * TILE_ROWS + i] = rest_##t##_##s(a + i * row + words * GROUP * column);                         \
    }                                                                                                                  \
    static void pack_b_##t##_##s(void *o, const void *p, int64_t k, int64_t columns, int64_t row, int64_t column) {    \
        T *restrict out = o;                                                                                           \
        const S *b = p;                                                                                                \
        const int64_t words = k / GROUP;                                                                               \
        int64_t done = 0;                                                                                              \
        if (columns < COLUMNS_##t) memset(out, 0, (size_t)((k + GROUP - 1) / GROUP) * COLUMNS_##t * sizeof(T));        \
        if (column == 1 && columns == COLUMNS_##t)                                                                     \
            for (; done < words; ++done)                                                                               \
                for (int j = 0; j < COLUMNS_##t; j += LANES_##t)                                                       \
                    *(loose_##t *)(out + done * COLUMNS_##t + j) = columns_##t##_##s(b + done * GROUP * row + j, row); \
        for (int64_t q0 = done; q0 < words; q0 += 16) { /* a cache line of each column at a time */                    \
            const int64_t q1 = words - q0 < 16 ? words : q0 + 16;                                                      \
            if (row == 1 && columns == COLUMNS_##t && q1 - q0 == 16) { /* 4 x 4 words at a time */                     \
                for (int j = 0; j < COLUMNS_##t; j += 4)                                                               \
                    for (int64_t q = q0; q < q1; q += 4)                                                               \
                        transpose4_##t##_##s(b + j * column + q * GROUP, column, out + q * COLUMNS_##t + j,            \
                                             COLUMNS_##t);                                                             \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = 0; j < columns; ++j)                                                                      \
                for (int64_t q = q0; q < q1; ++q)                                                                      \
                    out[q * COLUMNS_##t + j] = one_##t##_##s(b + q * GROUP * row + j * column, row);                   \
        }                                                                                                              \
        for (int64_t j = 0; words * GROUP < k && j < columns; ++j)                                                     \
            out[words * COLUMNS_##t + j] = rest_##t##_##s(b + words * GROUP * row + j * column);                       \
    }

/* What reads operands where they are; SUM is the type in which what is left of an inner product is added up. */
#define IN_PLACE(T, t, S, s, SUM)                                                                                      \
    static void read_##t##_##s(void *o, const void *p, int64_t n, int64_t step) {                                      \
        T *restrict out = o;                                                                                           \
        const S *in = p;                                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; step == 1 && i + LANES_##t <= n; i += LANES_##t)                                                        \
            *(loose_##t *)(out + i) = columns_##t##_##s(in + i, 0);                                                    \
        for (; i < n; ++i) out[i] = one_##t##_##s(in + i * step, 0);                                                   \
    }                                                                                                                  \
    static SUM sum_of_products_##t##_##s(const T *x, const S *y, int64_t n) {                                          \
        vector_##t sum[4] = {{0}, {0}, {0}, {0}};                                                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * LANES_##t <= n; i += 4 * LANES_##t)                                                             \
            for (int j = 0; j < 4; ++j)                                                                                \
                sum[j] += *(const loose_##t *)(x + i + j * LANES_##t) * columns_##t##_##s(y + i + j * LANES_##t, 0);   \
        const vector_##t all = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                  \
        SUM total = 0;                                                                                                 \
        for (int j = 0; j < LANES_##t; ++j) total += (SUM)all[j];                                                      \
        for (; i < n; ++i) total += (SUM)x[i] * (SUM)one_##t##_##s(y + i, 0);                                          \
        return total;                                                                                                  \
    }                                                                                                                  \
    static void dot_##t##_##s(void *out, const void *x, const void *y, int64_t n) {                                    \
        *(T *)out = (T)sum_of_products_##t##_##s(x, y, n);                                                             \
    }

#define KERNELS_OF(T, t)                                                                                               \
    static void add_rows_##t(void *to, int64_t to_row, const void *from, int64_t from_row, const void *bias,           \
                             bool is_one, int64_t rows, int64_t n) {                                                   \
        const T *v = bias, one = *v;                                                                                   \
        for (int64_t i = 0; i < rows; ++i) {                                                                           \
            const T *x = (const T *)from + i * from_row;                                                               \
            T *y = (T *)to + i * to_row;                                                                               \
            if (is_one)                                                                                                \
                EACH_ALONE for (int64_t j = 0; j < n; ++j) y[j] = x[j] + one;                                          \
            else                                                                                                       \
                EACH_ALONE for (int64_t j = 0; j < n; ++j) y[j] = x[j] + v[j];                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static double dot_##t(const void *x, const void *y, int64_t n) { return sum_of_products_##t##_##t(x, y, n); }

/* Halves that are packed and stay what they are. */
static void keep_b(void *o, const void *p, int64_t k, int64_t columns, int64_t row, int64_t column) {
    uint16_t *restrict out = o;
    const uint16_t *b = p;
    for (int64_t q = 0; q < k; ++q)
        for (int64_t j = 0; j < COLUMNS_f32; ++j) out[q * COLUMNS_f32 + j] = j < columns ? b[q * row + j * column] : 0;
}

#define EACH(k)                (k)
#define HALVED(k)              (((k) + 1) / 2)
#define ADD_NUMBERS(sum, x, b) ((sum) += (x) * (b))
#define ADD_PAIRS(sum, x, b)   ((sum) += multiply_pairs(x, b))
#define OPERAND(T, t, S, s, SUM)                                                                                       \
    TILE(, T, t, S, s, EACH, ADD_NUMBERS)                                                                              \
    LINE(T, t, S, s)                                                                                                   \
    FIRST(T, t, S, s)                                                                                                  \
    PACK(T, t, S, s, 1)                                                                                                \
    IN_PLACE(T, t, S, s, SUM)
OPERAND(float, f32, float, f32, double)
OPERAND(float, f32, uint16_t, bf16, double)
OPERAND(float, f32, uint16_t, f16, double)
OPERAND(double, f64, double, f64, double)
OPERAND(uint32_t, u32, uint32_t, u32, uint32_t)
OPERAND(uint32_t, u32, uint8_t, u8, uint32_t)
OPERAND(uint32_t, u32, int8_t, i8, uint32_t)
OPERAND(uint32_t, u32, uint16_t, u16, uint32_t)
OPERAND(uint32_t, u32, int16_t, i16, uint32_t)
OPERAND(uint64_t, u64, uint64_t, u64, uint64_t)
KERNELS_OF(float, f32)
KERNELS_OF(double, f64)
TILE(, uint32_t, pairs, uint32_t, pairs, HALVED, ADD_PAIRS)
PACK(uint32_t, pairs, uint8_t, u8, 2)
PACK(uint32_t, pairs, int8_t, i8, 2)
PACK(uint32_t, pairs, int16_t, i16, 2)

/* Both steps of pairs in one instruction, where the processor has it. */
#ifdef __AVX512BW__
#define HAS_PAIRS_AT_ONCE __builtin_cpu_supports("avx512vnni")
#define ADD_PAIRS_AT_ONCE(sum, x, b)                                                                                   \
    ((sum) = (vector_pairs)_mm512_dpwssd_epi32((__m512i)(sum), (__m512i)((vector_pairs){0} + (x)), (__m512i)(b)))
typedef vector_pairs vector_at_once;
typedef loose_pairs loose_at_once;
enum { LANES_at_once = LANES_pairs };
#define columns_at_once_pairs columns_pairs_pairs
TILE(__attribute__((target("avx512vnni"))), uint32_t, at_once, uint32_t, pairs, HALVED, ADD_PAIRS_AT_ONCE)
#endif

#define READ(t, s, element)                                                                                            \
    (hd_gemm_source) {                                                                                                 \
        .bytes = sizeof(element), .pack_a = pack_a_##t##_##s, .pack_b = pack_b_##t##_##s, .read = read_##t##_##s,      \
        .tile = tile_##t##_##s, .thin = thin_##t##_##s, .line = line_##t##_##s, .first = first_##t##_##s,              \
        .dot = dot_##t##_##s                                                                                           \
    }
#define READ_PAIRS(s, element)                                                                                         \
    (hd_gemm_source) { .bytes = sizeof(element), .pack_a = pack_a_pairs_##s, .pack_b = pack_b_pairs_##s }

#define KERNELS_FOR(t, element, dtype)                                                                                 \
    (hd_gemm_kernels) {                                                                                                \
        .mr = TILE_ROWS, .nr = COLUMNS_##t, .bytes = sizeof(element), .packed_bytes = sizeof(element), .own = dtype,   \
        .group = 1, .k_block = HD_GEMM_K_BLOCK, .tile = tile_##t##_##t, .thin = thin_##t##_##t,                        \
        .pack_a = pack_a_##t##_##t, .pack_b = pack_b_##t##_##t                                                         \
    }

static void fill_floats(hd_gemm_kernels *f32, hd_gemm_kernels *f64) {
    *f32 = KERNELS_FOR(f32, float, HD_F32);
    f32->add_rows = add_rows_f32;
    f32->dot = dot_f32;
    f32->from[HD_F32] = READ(f32, f32, float);
    f32->from[HD_BF16] = READ(f32, bf16, uint16_t);
    f32->from[HD_F16] = READ(f32, f16, uint16_t);
    f32->from[HD_BF16].keep_b = f32->from[HD_F16].keep_b = keep_b;
    *f64 = KERNELS_FOR(f64, double, HD_F64);
    f64->add_rows = add_rows_f64;
    f64->dot = dot_f64;
    f64->from[HD_F64] = READ(f64, f64, double);
}

static void fill_integers(hd_gemm_kernels *u32, hd_gemm_kernels *u64, hd_gemm_kernels *pairs) {
    *u32 = KERNELS_FOR(u32, uint32_t, HD_U32);
    u32->from[HD_I32] = u32->from[HD_U32] = READ(u32, u32, uint32_t);
    u32->from[HD_I16] = READ(u32, i16, int16_t);
    u32->from[HD_U16] = READ(u32, u16, uint16_t);
    u32->from[HD_I8] = READ(u32, i8, int8_t);
    u32->from[HD_U8] = u32->from[HD_BOOL] = READ(u32, u8, uint8_t);
    *u64 = KERNELS_FOR(u64, uint64_t, HD_U64);
    u64->from[HD_I64] = u64->from[HD_U64] = READ(u64, u64, uint64_t);
    *pairs = (hd_gemm_kernels){
        .mr = TILE_ROWS, .nr = COLUMNS_pairs, .bytes = 4, .packed_bytes = 2, .group = 2, .k_block = HD_GEMM_K_BLOCK};
    pairs->tile = tile_pairs_pairs;
    pairs->thin = thin_pairs_pairs;
#ifdef HAS_PAIRS_AT_ONCE
    if (HAS_PAIRS_AT_ONCE) {
        pairs->tile = tile_at_once_pairs;
        pairs->thin = thin_at_once_pairs;
    }
#endif
    pairs->from[HD_I16] = pairs->from[HD_U16] = READ_PAIRS(i16, int16_t);
    pairs->from[HD_I8] = READ_PAIRS(i8, int8_t);
    pairs->from[HD_U8] = pairs->from[HD_BOOL] = READ_PAIRS(u8, uint8_t);
}

void KERNELS(hd_fill_gemm)(hd_cpu_kernels *table) {
    fill_floats(&table->gemm_f32, &table->gemm_f64);
    fill_integers(&table->gemm_u32, &table->gemm_u64, &table->gemm_pairs);
}
