/* Rows of attention scores for one instruction set HD_ISA, f32 and f64: what happens to them between matrix
 * products. */
#include "device/cpu/kernels_isa.h"

#include <math.h>

#define ATTENTION(T, t, I)                                                                                             \
    typedef T vector_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef I choice_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef T loose_##t __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); /* any address */         \
    enum { LANES_##t = VECTOR / sizeof(T), WIDE_##t = 4 * LANES_##t };                                                 \
    static inline vector_##t larger_##t(vector_##t a, vector_##t b) {                                                  \
        const choice_##t c = a > b;                                                                                    \
        return (vector_##t)((c & (choice_##t)a) | (~c & (choice_##t)b));                                               \
    }                                                                                                                  \
    static double largest_##t(const void *p, int64_t n) {                                                              \
        const T *x = p;                                                                                                \
        T best = -(T)INFINITY;                                                                                         \
        if (n < WIDE_##t) {                                                                                            \
            for (int64_t i = 0; i < n; ++i) best = x[i] > best ? x[i] : best;                                          \
            return (double)best;                                                                                       \
        }                                                                                                              \
        vector_##t v[4];                                                                                               \
        for (int k = 0; k < 4; ++k) v[k] = *(const loose_##t *)(x + k * LANES_##t);                                    \
        for (int64_t i = WIDE_##t; i < n; i += WIDE_##t) { /* the last ones, some of them once more */                 \
            const T *at = x + (i + WIDE_##t <= n ? i : n - WIDE_##t);                                                  \
            for (int k = 0; k < 4; ++k) v[k] = larger_##t(*(const loose_##t *)(at + k * LANES_##t), v[k]);             \
        }                                                                                                              \
        const vector_##t all = larger_##t(larger_##t(v[0], v[1]), larger_##t(v[2], v[3]));                             \
        for (int k = 0; k < LANES_##t; ++k) best = all[k] > best ? all[k] : best;                                      \
        return (double)best;                                                                                           \
    }                                                                                                                  \
    static void add_mask_##t(void *p, int64_t n, double scale, const void *mask, int64_t step, bool is_bool) {         \
        T *restrict x = p;                                                                                             \
        const T by = (T)scale;                                                                                         \
        if (is_bool)                                                                                                   \
            for (int64_t i = 0; i < n; ++i) x[i] = ((const uint8_t *)mask)[i * step] ? x[i] * by : -(T)INFINITY;       \
        else                                                                                                           \
            for (int64_t i = 0; i < n; ++i) x[i] = x[i] * by + ((const T *)mask)[i * step];                            \
    }                                                                                                                  \
    static void shift_##t(void *p, int64_t n, double scale, double less) {                                             \
        T *restrict x = p;                                                                                             \
        const T by = (T)scale, from = (T)less;                                                                         \
        for (int64_t i = 0; i < n; ++i) x[i] = x[i] * by - from;                                                       \
    }                                                                                                                  \
    static void scale_##t(void *out, const void *p, int64_t n, double by) {                                            \
        T *o = out;                                                                                                    \
        const T *x = p, factor = (T)by;                                                                                \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) o[i] = x[i] * factor;                                               \
    }                                                                                                                  \
    static double sum_##t(const void *p, int64_t n) {                                                                  \
        const T *x = p;                                                                                                \
        vector_##t sum[4] = {{0}, {0}, {0}, {0}};                                                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + WIDE_##t <= n; i += WIDE_##t)                                                                       \
            for (int k = 0; k < 4; ++k) sum[k] += *(const loose_##t *)(x + i + k * LANES_##t);                         \
        for (; i + LANES_##t <= n; i += LANES_##t) sum[0] += *(const loose_##t *)(x + i);                              \
        const vector_##t all = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                  \
        double even = 0, odd = 0;                                                                                      \
        for (int k = 0; k < LANES_##t; k += 2) even += (double)all[k], odd += (double)all[k + 1];                      \
        for (; i < n; ++i) even += (double)x[i];                                                                       \
        return even + odd;                                                                                             \
    }                                                                                                                  \
    static void through_##t(void *p, const void *q, int64_t n, double level, double scale) {                           \
        T *restrict d = p;                                                                                             \
        const T *restrict w = q;                                                                                       \
        const T less = (T)level, by = (T)scale;                                                                        \
        for (int64_t i = 0; i < n; ++i) d[i] = w[i] * (d[i] - less) * by;                                              \
    }
ATTENTION(float, f32, int32_t)
ATTENTION(double, f64, int64_t)

void KERNELS(hd_fill_attention)(hd_cpu_kernels *table) {
    table->attention_f32 =
        (hd_attention_kernels){largest_f32, add_mask_f32, shift_f32, scale_f32, sum_f32, through_f32};
    table->attention_f64 =
        (hd_attention_kernels){largest_f64, add_mask_f64, shift_f64, scale_f64, sum_f64, through_f64};
}
