/* Normalised rows for one instruction set HD_ISA, f32 and f64: layer_norm, rms_norm and their gradients.
 *
 * A row is read twice for its statistics, the second time around its mean, so that nothing cancels; it is in the cache
 * by then. What the mean lost when it was rounded is carried as `rest`. */
#include "device/cpu/kernels_isa.h"

#include <math.h>

enum { BLOCK = 4096, WIDE = 4 }; /* elements that are summed in the type itself; vectors at a time */

#define INLINE static inline __attribute__((always_inline))

/* SUMS(label, count, VALUES): sums of `count` values per element over n elements; VALUES gives them in v[], from x[i],
 * and from y[i] and w[i] where there are any. */
#define SUM_LOOP(T, t, count, step, E, ...)                                                                            \
    for (; i + (step) <= end; i += (step)) {                                                                           \
        _Pragma("GCC unroll 4") for (int k = 0; k < (step) / LANES_##t; ++k) {                                         \
            const int64_t at = i + k * LANES_##t;                                                                      \
            vector_##t v[count];                                                                                       \
            __VA_ARGS__;                                                                                               \
            _Pragma("GCC unroll 4") for (int c = 0; c < (count); ++c) sum[c][k] += v[c];                               \
        }                                                                                                              \
    }
#define SUMS(T, t, label, count, parameters, VALUES)                                                                   \
    INLINE void label##_##t(double *total, int64_t n, parameters) {                                                    \
        for (int c = 0; c < (count); ++c) total[c] = 0;                                                                \
        for (int64_t begin = 0; begin < n; begin += BLOCK) {                                                           \
            const int64_t end = n - begin < BLOCK ? n : begin + BLOCK;                                                 \
            int64_t i = begin;                                                                                         \
            vector_##t sum[count][WIDE] = {0};                                                                         \
            SUM_LOOP(T, t, count, WIDE *LANES_##t, loose_##t, VALUES(T, loose_##t, vector_##t))                        \
            SUM_LOOP(T, t, count, LANES_##t, loose_##t, VALUES(T, loose_##t, vector_##t))                              \
            for (int c = 0; c < (count); ++c) {                                                                        \
                const vector_##t all = (sum[c][0] + sum[c][1]) + (sum[c][2] + sum[c][3]);                              \
                for (int j = 0; j < LANES_##t; ++j) total[c] += (double)all[j];                                        \
            }                                                                                                          \
            for (; i < end; ++i) {                                                                                     \
                const int64_t at = i;                                                                                  \
                T v[count];                                                                                            \
                VALUES(T, T, T);                                                                                       \
                for (int c = 0; c < (count); ++c) total[c] += (double)v[c];                                            \
            }                                                                                                          \
        }                                                                                                              \
    }
#define AT(E, p)       (*(const E *)((p) + at))
#define PLAIN(T, E, V) v[0] = AT(E, x)
#define SQUARES(T, E, V)                                                                                               \
    const V d = AT(E, x) - mean;                                                                                       \
    v[0] = d, v[1] = d * d
#define PRODUCTS(T, E, V)                                                                                              \
    const V h = AT(E, g), d = AT(E, x) - mean;                                                                         \
    v[0] = h, v[1] = h * d
#define WEIGHTED(T, E, V)                                                                                              \
    const V h = AT(E, g) * AT(E, w), d = AT(E, x) - mean;                                                              \
    v[0] = h, v[1] = h * d
#define ARGS(...) __VA_ARGS__

#define NORM(T, t)                                                                                                     \
    typedef T vector_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef T loose_##t __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); /* any address */         \
    enum { LANES_##t = VECTOR / sizeof(T) };                                                                           \
    SUMS(T, t, sum_of, 1, const T *x, PLAIN)                                                                           \
    SUMS(T, t, squares_of, 2, ARGS(const T *x, T mean), SQUARES)                                                       \
    SUMS(T, t, products_of, 2, ARGS(const T *g, const T *x, T mean), PRODUCTS)                                         \
    SUMS(T, t, weighted_of, 2, ARGS(const T *g, const T *w, const T *x, T mean), WEIGHTED)                             \
                                                                                                                       \
    typedef struct row_##t {                                                                                           \
        T mean;                                                                                                        \
        double rest, scale; /* the normalised x is ((x - mean) - rest) * scale */                                      \
    } row_##t;                                                                                                         \
    INLINE row_##t measure_##t(const T *x, int64_t n, double eps, bool centered) {                                     \
        double mean = 0, sums[2]; /* of what is left of x around the mean, and of its squares */                       \
        if (centered) sum_of_##t(&mean, n, x);                                                                         \
        row_##t r = {.mean = (T)(mean / (double)n)};                                                                   \
        squares_of_##t(sums, n, x, r.mean);                                                                            \
        r.rest = centered ? sums[0] / (double)n : 0;                                                                   \
        const double variance = sums[1] / (double)n - r.rest * r.rest;                                                 \
        r.scale = 1 / sqrt((variance < 0 ? 0 : variance) + eps);                                                       \
        return r;                                                                                                      \
    }                                                                                                                  \
    static void norm_rows_##t(void *out, const void *in, const void *weight, const void *bias, int64_t rows,           \
                              int64_t n, double eps, bool centered) {                                                  \
        const T *restrict w = weight, *restrict b = bias;                                                              \
        for (int64_t r = 0; r < rows; ++r) {                                                                           \
            const T *restrict x = (const T *)in + r * n;                                                               \
            T *restrict y = (T *)out + r * n;                                                                          \
            const row_##t s = measure_##t(x, n, eps, centered);                                                        \
            const T mean = s.mean, scale = (T)s.scale, shift = (T)(-s.rest * s.scale);                                 \
            if (w == NULL)                                                                                             \
                for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * scale + shift;                                  \
            else if (b == NULL)                                                                                        \
                for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * scale + shift) * w[i];                         \
            else                                                                                                       \
                for (int64_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * scale + shift) * w[i] + b[i];                  \
        }                                                                                                              \
    }                                                                                                                  \
    /* with h = g w and z the normalised x: dx = scale (h - mean(h) - z mean(h z)), without mean(h) for rms */         \
    static void norm_gradient_##t(void *out, const void *gradient, const void *in, const void *weight, int64_t rows,   \
                                  int64_t n, double eps, bool centered) {                                              \
        const T *restrict w = weight;                                                                                  \
        for (int64_t r = 0; r < rows; ++r) {                                                                           \
            const T *restrict x = (const T *)in + r * n, *restrict g = (const T *)gradient + r * n;                    \
            T *restrict dx = (T *)out + r * n;                                                                         \
            const row_##t s = measure_##t(x, n, eps, centered);                                                        \
            double sums[2];                                                                                            \
            if (w == NULL)                                                                                             \
                products_of_##t(sums, n, g, x, s.mean);                                                                \
            else                                                                                                       \
                weighted_of_##t(sums, n, g, w, x, s.mean);                                                             \
            const double along = (sums[1] - s.rest * sums[0]) / (double)n * s.scale * s.scale;                         \
            const double level = centered ? sums[0] / (double)n : 0;                                                   \
            const T mean = s.mean, scale = (T)s.scale, slope = (T)along, shift = (T)(level - s.rest * along);          \
            if (w == NULL)                                                                                             \
                for (int64_t i = 0; i < n; ++i) dx[i] = ((g[i] - shift) - (x[i] - mean) * slope) * scale;              \
            else                                                                                                       \
                for (int64_t i = 0; i < n; ++i) dx[i] = ((g[i] * w[i] - shift) - (x[i] - mean) * slope) * scale;       \
        }                                                                                                              \
    }                                                                                                                  \
    static void norm_parameters_##t(void *out, const void *gradient, const void *in, int64_t rows, int64_t n,          \
                                    double eps, bool centered) {                                                       \
        T *restrict dw = out, *restrict db = centered ? dw + n : NULL;                                                 \
        for (int64_t i = 0; i < (centered ? 2 : 1) * n; ++i) dw[i] = 0;                                                \
        for (int64_t r = 0; r < rows; ++r) {                                                                           \
            const T *restrict x = (const T *)in + r * n, *restrict g = (const T *)gradient + r * n;                    \
            const row_##t s = measure_##t(x, n, eps, centered);                                                        \
            const T mean = s.mean, scale = (T)s.scale, shift = (T)(-s.rest * s.scale);                                 \
            for (int64_t i = 0; i < n; ++i) dw[i] += g[i] * ((x[i] - mean) * scale + shift);                           \
            if (centered)                                                                                              \
                for (int64_t i = 0; i < n; ++i) db[i] += g[i];                                                         \
        }                                                                                                              \
    }
NORM(float, f32)
NORM(double, f64)

/* ---- planes ------------------------------------------------------------------------------------------------------ */
#define PLANES(T, t)                                                                                                   \
    static void measure_plane_##t(double sums[2], const void *x, int64_t n, double mean, bool squares) {               \
        if (squares)                                                                                                   \
            squares_of_##t(sums, n, x, (T)mean);                                                                       \
        else                                                                                                           \
            sum_of_##t(sums, n, x);                                                                                    \
    }                                                                                                                  \
    static void meet_plane_##t(double sums[2], const void *g, const void *x, int64_t n, double mean) {                 \
        products_of_##t(sums, n, g, x, (T)mean);                                                                       \
        sums[1] -= (mean - (double)(T)mean) * sums[0];                                                                 \
    }                                                                                                                  \
    static void apply_plane_##t(void *out, const void *in, int64_t n, double mean, double scale, double bias) {        \
        const T *restrict x = in;                                                                                      \
        T *restrict y = out;                                                                                           \
        const T about = (T)mean, by = (T)scale, plus = (T)(bias - (mean - (double)about) * scale);                     \
        for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - about) * by + plus;                                             \
    }                                                                                                                  \
    static void back_plane_##t(void *out, const void *gradient, const void *in, int64_t n, double mean, double scale,  \
                               double slope, double level) {                                                           \
        const T *restrict x = in, *restrict g = gradient;                                                              \
        T *restrict dx = out;                                                                                          \
        const T about = (T)mean, by = (T)scale, per = (T)slope, less = (T)(level - (mean - (double)about) * slope);    \
        for (int64_t i = 0; i < n; ++i) dx[i] = (g[i] * by - less) - (x[i] - about) * per;                             \
    }
PLANES(float, f32)
PLANES(double, f64)

void KERNELS(hd_fill_norm)(hd_cpu_kernels *table) {
    table->norm_f32 = (hd_norm_kernels){norm_rows_f32, norm_gradient_f32, norm_parameters_f32};
    table->norm_f64 = (hd_norm_kernels){norm_rows_f64, norm_gradient_f64, norm_parameters_f64};
    table->plane_f32 = (hd_plane_kernels){measure_plane_f32, meet_plane_f32, apply_plane_f32, back_plane_f32};
    table->plane_f64 = (hd_plane_kernels){measure_plane_f64, meet_plane_f64, apply_plane_f64, back_plane_f64};
}
