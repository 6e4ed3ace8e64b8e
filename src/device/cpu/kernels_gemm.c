/* The matrix product's micro-kernels for one instruction set HD_ISA, f32 and f64, in the compilers' vector extension:
 * a tile of C stays in registers while k runs. */
#include "device/cpu/kernels_isa.h"

#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR = 64, TILE_ROWS = 12 };
#elif defined(__AVX2__)
enum { VECTOR = 32, TILE_ROWS = 6 };
#else
enum { VECTOR = 16, TILE_ROWS = 4 };
#endif

#define INLINE static inline __attribute__((always_inline))

#define GEMM(T, t)                                                                                                     \
    typedef T vector_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef T loose_##t __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); /* any address */         \
    typedef T four_##t __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));                     \
    enum { LANES_##t = VECTOR / sizeof(T), COLUMNS_##t = 2 * LANES_##t };                                              \
    INLINE void tile_body_##t(const int rows, int64_t k, const T *a, int64_t row, int64_t column, const T *b,          \
                              int64_t ldb, T *c, int64_t ldc, bool accumulate) {                                       \
        vector_##t sum[TILE_ROWS][2];                                                                                  \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i) sum[i][0] = sum[i][1] = (vector_##t){0};               \
        for (int64_t p = 0; p < k; ++p, a += column, b += ldb) {                                                       \
            const vector_##t b0 = *(const loose_##t *)b, b1 = *(const loose_##t *)(b + LANES_##t);                     \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i) {                                                  \
                const T x = a[i * row];                                                                                \
                sum[i][0] += x * b0;                                                                                   \
                sum[i][1] += x * b1;                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int i = 0; i < rows; ++i, c += ldc) {                                            \
            const vector_##t old0 = accumulate ? (vector_##t) * (const loose_##t *)c : (vector_##t){0};                \
            const vector_##t old1 = accumulate ? (vector_##t) * (const loose_##t *)(c + LANES_##t) : (vector_##t){0};  \
            *(loose_##t *)c = old0 + sum[i][0];                                                                        \
            *(loose_##t *)(c + LANES_##t) = old1 + sum[i][1];                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void tile_##t(int64_t k, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc,                   \
                         bool accumulate) {                                                                            \
        tile_body_##t(TILE_ROWS, k, a, 1, TILE_ROWS, b, ldb, c, ldc, accumulate);                                      \
    }                                                                                                                  \
    static void thin_##t(int rows, int64_t k, const void *a, int64_t row, int64_t column, const void *b, int64_t ldb,  \
                         void *c, int64_t ldc, bool accumulate) {                                                      \
        switch (rows) {                                                                                                \
        case 1: tile_body_##t(1, k, a, row, column, b, ldb, c, ldc, accumulate); return;                               \
        case 2: tile_body_##t(2, k, a, row, column, b, ldb, c, ldc, accumulate); return;                               \
        case 3: tile_body_##t(3, k, a, row, column, b, ldb, c, ldc, accumulate); return;                               \
        case 4: tile_body_##t(4, k, a, row, column, b, ldb, c, ldc, accumulate); return;                               \
        case TILE_ROWS > 4 ? TILE_ROWS:                                                                                \
            5 : tile_body_##t(TILE_ROWS, k, a, row, column, b, ldb, c, ldc, accumulate);                               \
            return;                                                                                                    \
        default:                                                                                                       \
            for (int i = 0; i < rows; i += 4)                                                                          \
                thin_##t(rows - i < 4 ? rows - i : 4, k, (const T *)a + i * row, row, column, b, ldb,                  \
                         (T *)c + i * ldc, ldc, accumulate);                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void transpose4_##t(const T *from, int64_t row, T *to, int64_t ld) {                                        \
        const four_##t r0 = *(const four_##t *)from, r1 = *(const four_##t *)(from + row);                             \
        const four_##t r2 = *(const four_##t *)(from + 2 * row), r3 = *(const four_##t *)(from + 3 * row);             \
        const four_##t low0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5),                                             \
                       low1 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);                                             \
        const four_##t high0 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7),                                            \
                       high1 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);                                            \
        *(four_##t *)to = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);                                             \
        *(four_##t *)(to + ld) = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);                                      \
        *(four_##t *)(to + 2 * ld) = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);                                \
        *(four_##t *)(to + 3 * ld) = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);                                \
    }                                                                                                                  \
    static void pack_a_##t(void *o, const void *p, int64_t rows, int64_t k, int64_t row, int64_t column) {             \
        T *restrict out = o;                                                                                           \
        const T *a = p;                                                                                                \
        if (rows < TILE_ROWS) memset(out, 0, (size_t)k *TILE_ROWS * sizeof(T));                                        \
        if (row == 1 && rows == TILE_ROWS) {                                                                           \
            for (int64_t q = 0; q < k; ++q)                                                                            \
                for (int i = 0; i < TILE_ROWS; ++i) out[q * TILE_ROWS + i] = a[q * column + i];                        \
            return;                                                                                                    \
        }                                                                                                              \
        int64_t done = 0;                                                                                              \
        if (column == 1 && rows == TILE_ROWS && TILE_ROWS % 4 == 0) /* 4 x 4 elements at a time */                     \
            for (; done + 4 <= k; done += 4)                                                                           \
                for (int i = 0; i < TILE_ROWS; i += 4)                                                                 \
                    transpose4_##t(a + i * row + done, row, out + done * TILE_ROWS + i, TILE_ROWS);                    \
        for (int64_t q0 = done; q0 < k; q0 += 16) { /* a cache line of each row at a time */                           \
            const int64_t q1 = k - q0 < 16 ? k : q0 + 16;                                                              \
            for (int64_t i = 0; i < rows; ++i)                                                                         \
                for (int64_t q = q0; q < q1; ++q) out[q * TILE_ROWS + i] = a[i * row + q * column];                    \
        }                                                                                                              \
    }                                                                                                                  \
    static void pack_b_##t(void *o, const void *p, int64_t k, int64_t columns, int64_t row, int64_t column) {          \
        T *restrict out = o;                                                                                           \
        const T *b = p;                                                                                                \
        if (column == 1 && columns == COLUMNS_##t) {                                                                   \
            for (int64_t q = 0; q < k; ++q) memcpy(out + q * COLUMNS_##t, b + q * row, COLUMNS_##t * sizeof(T));       \
            return;                                                                                                    \
        }                                                                                                              \
        if (columns < COLUMNS_##t) memset(out, 0, (size_t)k *COLUMNS_##t * sizeof(T));                                 \
        for (int64_t q0 = 0; q0 < k; q0 += 16) { /* a cache line of each column at a time */                           \
            const int64_t q1 = k - q0 < 16 ? k : q0 + 16;                                                              \
            if (row == 1 && columns == COLUMNS_##t && q1 - q0 == 16) { /* 4 x 4 elements at a time */                  \
                for (int j = 0; j < COLUMNS_##t; j += 4)                                                               \
                    for (int64_t q = q0; q < q1; q += 4)                                                               \
                        transpose4_##t(b + j * column + q, column, out + q * COLUMNS_##t + j, COLUMNS_##t);            \
                continue;                                                                                              \
            }                                                                                                          \
            for (int64_t j = 0; j < columns; ++j)                                                                      \
                for (int64_t q = q0; q < q1; ++q) out[q * COLUMNS_##t + j] = b[q * row + j * column];                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void add_row_##t(void *p, const void *q, int64_t rows, int64_t n) {                                         \
        T *c = p;                                                                                                      \
        const T *restrict row = q;                                                                                     \
        if (n == 1) /* a column */                                                                                     \
            for (int64_t i = 0; i < rows; ++i) c[i] += row[0];                                                         \
        else                                                                                                           \
            for (int64_t i = 0; i < rows; ++i)                                                                         \
                for (int64_t j = 0; j < n; ++j) c[i * n + j] += row[j];                                                \
    }                                                                                                                  \
    static double dot_##t(const void *p, const void *q, int64_t n) {                                                   \
        const T *x = p, *y = q;                                                                                        \
        vector_##t sum[4] = {{0}, {0}, {0}, {0}};                                                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * LANES_##t <= n; i += 4 * LANES_##t)                                                             \
            for (int j = 0; j < 4; ++j)                                                                                \
                sum[j] += *(const loose_##t *)(x + i + j * LANES_##t) * *(const loose_##t *)(y + i + j * LANES_##t);   \
        const vector_##t all = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                  \
        double total = 0;                                                                                              \
        for (int j = 0; j < LANES_##t; ++j) total += (double)all[j];                                                   \
        for (; i < n; ++i) total += (double)x[i] * (double)y[i];                                                       \
        return total;                                                                                                  \
    }
GEMM(float, f32)
GEMM(double, f64)

void KERNELS(hd_fill_gemm)(hd_cpu_kernels *table) {
    table->gemm_f32 =
        (hd_gemm_kernels){TILE_ROWS, COLUMNS_f32, tile_f32, thin_f32, pack_a_f32, pack_b_f32, add_row_f32, dot_f32};
    table->gemm_f64 =
        (hd_gemm_kernels){TILE_ROWS, COLUMNS_f64, tile_f64, thin_f64, pack_a_f64, pack_b_f64, add_row_f64, dot_f64};
}
