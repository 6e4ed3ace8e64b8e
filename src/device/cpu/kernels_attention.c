/* Rows of attention scores for one instruction set HD_ISA, f32 and f64: what happens to them between matrix products. */
#include "device/cpu/kernels_isa.h"

#include <math.h>

enum { LANES = 32 }; /* independent sums and maxima, so that the compiler can use vectors */

#define ATTENTION(T, t)                                                                                                \
    static double scores_##t(void *p, int64_t n, double scale, const void *mask, int64_t step, bool is_bool) {         \
        T *restrict x = p;                                                                                             \
        const T by = (T)scale;                                                                                         \
        if (mask == NULL)                                                                                              \
            for (int64_t i = 0; i < n; ++i) x[i] *= by;                                                                \
        else if (is_bool)                                                                                              \
            for (int64_t i = 0; i < n; ++i) x[i] = ((const uint8_t *)mask)[i * step] ? x[i] * by : -(T)INFINITY;       \
        else                                                                                                           \
            for (int64_t i = 0; i < n; ++i) x[i] = x[i] * by + ((const T *)mask)[i * step];                            \
        T best[LANES];                                                                                                 \
        for (int j = 0; j < LANES; ++j) best[j] = -(T)INFINITY;                                                        \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; ++j) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];                         \
        if (i < n && n >= LANES) /* the last ones, some of them once more */                                           \
            for (int j = 0; j < LANES; ++j) best[j] = x[n - LANES + j] > best[j] ? x[n - LANES + j] : best[j];         \
        else                                                                                                           \
            for (; i < n; ++i) best[0] = x[i] > best[0] ? x[i] : best[0];                                              \
        for (int j = 1; j < LANES; ++j) best[0] = best[j] > best[0] ? best[j] : best[0];                               \
        return (double)best[0];                                                                                        \
    }                                                                                                                  \
    static void shift_##t(void *p, int64_t n, double by) {                                                             \
        T *restrict x = p;                                                                                             \
        const T less = (T)by;                                                                                          \
        for (int64_t i = 0; i < n; ++i) x[i] -= less;                                                                  \
    }                                                                                                                  \
    static void scale_##t(void *out, const void *p, int64_t n, double by) {                                            \
        T *o = out;                                                                                                    \
        const T *x = p, factor = (T)by;                                                                                \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) o[i] = x[i] * factor;                                               \
    }                                                                                                                  \
    static double sum_##t(const void *p, int64_t n) {                                                                  \
        const T *x = p;                                                                                                \
        T sum[LANES] = {0};                                                                                            \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int j = 0; j < LANES; ++j) sum[j] += x[i + j];                                                        \
        double total = 0;                                                                                              \
        for (; i < n; ++i) total += (double)x[i];                                                                      \
        for (int j = 0; j < LANES; ++j) total += (double)sum[j];                                                       \
        return total;                                                                                                  \
    }                                                                                                                  \
    static void through_##t(void *p, const void *q, int64_t n, double level, double scale) {                           \
        T *restrict d = p;                                                                                             \
        const T *restrict w = q;                                                                                       \
        const T less = (T)level, by = (T)scale;                                                                        \
        for (int64_t i = 0; i < n; ++i) d[i] = w[i] * (d[i] - less) * by;                                              \
    }
ATTENTION(float, f32)
ATTENTION(double, f64)

void KERNELS(hd_fill_attention)(hd_cpu_kernels *table) {
    table->attention_f32 = (hd_attention_kernels){scores_f32, shift_f32, scale_f32, sum_f32, through_f32};
    table->attention_f64 = (hd_attention_kernels){scores_f64, shift_f64, scale_f64, sum_f64, through_f64};
}
