/* Runs of pixels for one instruction set HD_ISA: what packing patches of images comes down to, and windows of a single
 * channel. The same run is taken from many channels, so the way to copy its length is chosen once. */
#include "device/cpu/kernels_isa.h"

#include <string.h>

/* Lengths from B to 2 B bytes: two moves that may overlap. */
#define MOVES(B)                                                                                                       \
    for (int64_t r = 0; r < rows; ++r, out += out_row, in += in_row) {                                                 \
        memcpy(out, in, B);                                                                                            \
        memcpy(out + n - (B), in + n - (B), B);                                                                        \
    }

static void copy_runs(char *restrict out, int64_t out_row, const char *restrict in, int64_t in_row, int64_t rows,
                      int64_t n) {
    if (n > 128)
        for (int64_t r = 0; r < rows; ++r, out += out_row, in += in_row) memcpy(out, in, (size_t)n);
    else if (n >= 64)
        MOVES(64)
    else if (n >= 32)
        MOVES(32)
    else if (n >= 16)
        MOVES(16)
    else if (n >= 8)
        MOVES(8)
    else
        MOVES(4)
}

#define EVEN_4(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define EVEN_ODD_4(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 9, 11, 13, 15)
#define EVEN_8(a, b)     __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define EVEN_ODD_8(a, b) __builtin_shufflevector(a, b, 0, 2, 5, 7)
/* Every other element, a vector at a time. The last vector begins where it must to end with the last element: nothing
 * behind that is read. */
#define RUNS(U, u)                                                                                                     \
    typedef U pixels_##u __attribute__((vector_size(32), aligned(sizeof(U)), may_alias));                              \
    enum { PIXELS_##u = 32 / sizeof(U) };                                                                              \
    static inline                                                                                                      \
        __attribute__((always_inline)) void every_other_##u(U *restrict out, const U *restrict in, int64_t n) {        \
        int64_t i = 0;                                                                                                 \
        for (; i + PIXELS_##u < n; i += PIXELS_##u)                                                                    \
            *(pixels_##u *)(out + i) =                                                                                 \
                EVEN_##u(*(const pixels_##u *)(in + 2 * i), *(const pixels_##u *)(in + 2 * i + PIXELS_##u));           \
        if (n >= PIXELS_##u) {                                                                                         \
            out += n - PIXELS_##u, in += 2 * (n - PIXELS_##u);                                                         \
            *(pixels_##u *)out = EVEN_ODD_##u(*(const pixels_##u *)in, *(const pixels_##u *)(in + PIXELS_##u - 1));    \
        } else {                                                                                                       \
            for (; i < n; ++i) out[i] = in[2 * i];                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void runs_##u(void *o, int64_t out_row, const void *p, int64_t in_row, int64_t rows, int64_t n,             \
                         int64_t step) {                                                                               \
        U *restrict out = o;                                                                                           \
        const U *restrict in = p;                                                                                      \
        if (in == NULL)                                                                                                \
            for (int64_t r = 0; r < rows; ++r) memset(out + r * out_row, 0, (size_t)n * sizeof(U));                    \
        else if (step == 1)                                                                                            \
            copy_runs(o, out_row *(int64_t)sizeof(U), p, in_row *(int64_t)sizeof(U), rows, n *(int64_t)sizeof(U));     \
        else if (step == 2)                                                                                            \
            for (int64_t r = 0; r < rows; ++r) every_other_##u(out + r * out_row, in + r * in_row, n);                 \
        else                                                                                                           \
            for (int64_t r = 0; r < rows; ++r)                                                                         \
                for (int64_t i = 0; i < n; ++i) out[r * out_row + i] = in[r * in_row + step * i];                      \
    }
RUNS(uint32_t, 4)
RUNS(uint64_t, 8)

/* ---- windows of one channel -------------------------------------------------------------------------------------- */
#define TAPS(T, t)                                                                                                     \
    typedef T vector_##t __attribute__((vector_size(VECTOR)));                                                         \
    typedef T loose_##t __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias)); /* any address */         \
    enum { LANES_##t = VECTOR / sizeof(T) };                                                                           \
    static inline __attribute__((always_inline)) void sum_taps_##t(                                                    \
        const int count, T *out, const T *in, const int64_t *at, const T *factors, int64_t taps) {                     \
        vector_##t sum[4];                                                                                             \
        for (int v = 0; v < count; ++v) sum[v] = (vector_##t){0};                                                      \
        for (int64_t k = 0; k < taps; ++k)                                                                             \
            for (int v = 0; v < count; ++v) sum[v] += factors[k] * *(const loose_##t *)(in + at[k] + v * LANES_##t);   \
        for (int v = 0; v < count; ++v) *(loose_##t *)(out + v * LANES_##t) = sum[v];                                  \
    }                                                                                                                  \
    static void taps_##t(void *o, int64_t out_row, const void *p, int64_t in_row, int64_t rows, const int64_t *at,     \
                         const void *f, int64_t taps, int64_t n) {                                                     \
        for (int64_t r = 0; r < rows; ++r) {                                                                           \
            T *out = (T *)o + r * out_row;                                                                             \
            const T *in = (const T *)p + r * in_row;                                                                   \
            int64_t i = 0;                                                                                             \
            for (; n - i > 3 * LANES_##t; i += 4 * LANES_##t) sum_taps_##t(4, out + i, in + i, at, f, taps);           \
            for (; n - i > LANES_##t; i += 2 * LANES_##t) sum_taps_##t(2, out + i, in + i, at, f, taps);               \
            if (i < n) sum_taps_##t(1, out + i, in + i, at, f, taps);                                                  \
        }                                                                                                              \
    }
TAPS(float, f32)
TAPS(double, f64)

/* ---- windows that are pooled ------------------------------------------------------------------------------------- */
/* BODY for i in [0, n), with v the element that result i sees; the usual steps are known to the compiler. */
#define EACH_RESULT(T, BODY)                                                                                           \
    const T *restrict x = from;                                                                                        \
    if (step == 1)                                                                                                     \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const T v = x[i];                                                                                          \
            BODY                                                                                                       \
        }                                                                                                              \
    else if (step == 2)                                                                                                \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const T v = x[2 * i];                                                                                      \
            BODY                                                                                                       \
        }                                                                                                              \
    else                                                                                                               \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const T v = x[step * i];                                                                                   \
            BODY                                                                                                       \
        }
#define POOL(T, t)                                                                                                     \
    static void larger_##t(void *to, const void *from, int64_t step, int64_t n) {                                      \
        T *restrict best = to;                                                                                         \
        EACH_RESULT(T, best[i] = v > best[i] || v != v ? v : best[i];)                                                 \
    }                                                                                                                  \
    static void larger_at_##t(void *to, int32_t *restrict where, const void *from, int64_t step, int64_t n,            \
                              int32_t at) {                                                                            \
        T *restrict best = to;                                                                                         \
        EACH_RESULT(T, const bool is_larger = (v > best[i]) | (v != v) | (where[i] < 0);                               \
                    best[i] = is_larger ? v : best[i]; where[i] = is_larger ? at + (int32_t)(i * step) : where[i];)    \
    }                                                                                                                  \
    static void add_##t(double *restrict sum, const void *from, int64_t step, int64_t n) {                             \
        EACH_RESULT(T, sum[i] += (double)v;)                                                                           \
    }
POOL(float, f32)
POOL(double, f64)

/* Eight windows at a time, which is known to the compiler: small images have no more beside each other. */
#define EACH_WINDOW(BODY)                                                                                              \
    for (int64_t r = 0; r < rows; ++r, upper += 2 * line) {                                                            \
        int64_t first = 0;                                                                                             \
        for (; first + 8 <= n; first += 8)                                                                             \
            for (int64_t k = 0; k < 8; ++k) BODY(r *n, first + k)                                                      \
        for (; first < n; ++first) BODY(r *n, first)                                                                   \
    }
#define BETTER(v, best) (((v) > (best)) | ((v) != (v)))
/* Places are a and b in the upper line, c and d in the lower; of equals the first is taken, and of NaN the last. */
#define LARGEST(results, i)                                                                                            \
    {                                                                                                                  \
        const T a = upper[2 * (i)], b = upper[2 * (i) + 1], c = upper[line + 2 * (i)], d = upper[line + 2 * (i) + 1];  \
        const T ab = BETTER(b, a) ? b : a, abc = BETTER(c, ab) ? c : ab;                                               \
        to[(results) + (i)] = BETTER(d, abc) ? d : abc;                                                                \
    }
#define GRADIENT(results, i)                                                                                           \
    {                                                                                                                  \
        const T a = upper[2 * (i)], b = upper[2 * (i) + 1], c = upper[line + 2 * (i)], d = upper[line + 2 * (i) + 1];  \
        const T ab = BETTER(b, a) ? b : a, abc = BETTER(c, ab) ? c : ab, none = 0, g = from[(results) + (i)] + none;   \
        const bool is_d = BETTER(d, abc), is_c = BETTER(c, ab) & !is_d, is_b = BETTER(b, a) & !is_c & !is_d;           \
        T *there = to + 2 * (r * line + (i));                                                                          \
        there[0] = (is_b | is_c | is_d) ? none : g;                                                                    \
        there[1] = is_b ? g : none;                                                                                    \
        there[line] = is_c ? g : none;                                                                                 \
        there[line + 1] = is_d ? g : none;                                                                             \
    }
/* Lines of fewer than eight windows, where they lie without gaps: first the better of neighbours, of all lines, then
 * the better of two lines, of which eight are taken whatever n is: what is too many the next line writes over. */
enum { AT_ONCE = 256, TOO_MANY = 8 };
#define POOL_SMALL(T, t)                                                                                               \
    static void better_neighbours_##t(T *restrict to, const T *restrict x, int64_t count) {                            \
        for (int64_t j = 0; j < count; ++j) to[j] = BETTER(x[2 * j + 1], x[2 * j]) ? x[2 * j + 1] : x[2 * j];          \
    }                                                                                                                  \
    static void small_of_4_##t(T *out, const T *x, int64_t rows, int64_t n) {                                          \
        T pairs[AT_ONCE + TOO_MANY] = {0}, best[AT_ONCE / 2 + TOO_MANY];                                               \
        for (int64_t some; rows > 0; rows -= some, out += some * n, x += 4 * some * n) {                               \
            some = rows < AT_ONCE / (2 * n) ? rows : AT_ONCE / (2 * n);                                                \
            better_neighbours_##t(pairs, x, 2 * some * n);                                                             \
            for (int64_t r = 0; r < some; ++r) {                                                                       \
                const T *restrict upper = pairs + 2 * r * n, *restrict lower = upper + n;                              \
                T two[TOO_MANY];                                                                                       \
                for (int k = 0; k < TOO_MANY; ++k) {                                                                   \
                    const bool is_lower = BETTER(lower[k], upper[k]);                                                  \
                    two[k] = is_lower ? lower[k] : upper[k];                                                           \
                }                                                                                                      \
                memcpy(best + r * n, two, sizeof two);                                                                 \
            }                                                                                                          \
            memcpy(out, best, (size_t)(some * n) * sizeof(T));                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    /* g of a window goes to the better line, and there to the better neighbour. */                                    \
    static void share_##t(T *restrict to, const T *restrict g, const T *restrict x, int64_t count) {                   \
        for (int64_t j = 0; j < count; ++j) {                                                                          \
            const bool second = BETTER(x[2 * j + 1], x[2 * j]);                                                        \
            to[2 * j] = second ? 0 : g[j];                                                                             \
            to[2 * j + 1] = second ? g[j] : 0;                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void small_of_4_back_##t(T *out, const T *gradient, const T *x, int64_t rows, int64_t n) {                  \
        T pairs[AT_ONCE + TOO_MANY] = {0}, g[AT_ONCE / 2 + TOO_MANY] = {0}, shares[AT_ONCE + TOO_MANY];                \
        for (int64_t some; rows > 0; rows -= some, out += 4 * some * n, x += 4 * some * n, gradient += some * n) {     \
            some = rows < AT_ONCE / (2 * n) ? rows : AT_ONCE / (2 * n);                                                \
            better_neighbours_##t(pairs, x, 2 * some * n);                                                             \
            for (int64_t i = 0; i < some * n; ++i) g[i] = gradient[i] + 0;                                             \
            for (int64_t r = 0; r < some; ++r) {                                                                       \
                const T *restrict upper = pairs + 2 * r * n, *restrict lower = upper + n, *restrict from = g + r * n;  \
                T *to = shares + 2 * r * n, of_lower[TOO_MANY];                                                        \
                for (int k = 0; k < TOO_MANY; ++k) {                                                                   \
                    const bool is_lower = BETTER(lower[k], upper[k]);                                                  \
                    of_lower[k] = is_lower ? from[k] : 0;                                                              \
                    to[k] = is_lower ? 0 : from[k];                                                                    \
                }                                                                                                      \
                memcpy(to + n, of_lower, sizeof of_lower);                                                             \
            }                                                                                                          \
            share_##t(out, shares, x, 2 * some * n);                                                                   \
        }                                                                                                              \
    }
POOL_SMALL(float, f32)
POOL_SMALL(double, f64)

#define POOL_OF_4(type, t)                                                                                             \
    static void larger_of_4_##t(void *out, const void *x, int64_t line, int64_t rows, int64_t n) {                     \
        typedef type T;                                                                                                \
        T *restrict to = out;                                                                                          \
        const T *restrict upper = x;                                                                                   \
        if (n < TOO_MANY && line == 2 * n)                                                                             \
            small_of_4_##t(to, upper, rows, n);                                                                        \
        else                                                                                                           \
            EACH_WINDOW(LARGEST)                                                                                       \
    }                                                                                                                  \
    static void larger_of_4_back_##t(void *out, const void *gradient, const void *x, int64_t line, int64_t rows,       \
                                     int64_t n) {                                                                      \
        typedef type T;                                                                                                \
        T *restrict to = out;                                                                                          \
        const T *restrict upper = x, *restrict from = gradient;                                                        \
        if (n < TOO_MANY && line == 2 * n)                                                                             \
            small_of_4_back_##t(to, from, upper, rows, n);                                                             \
        else                                                                                                           \
            EACH_WINDOW(GRADIENT)                                                                                      \
    }
POOL_OF_4(float, f32)
POOL_OF_4(double, f64)

void KERNELS(hd_fill_patch)(hd_cpu_kernels *table) {
    table->pool_f32 = (hd_pool_kernels){larger_f32, larger_at_f32, add_f32, larger_of_4_f32, larger_of_4_back_f32};
    table->pool_f64 = (hd_pool_kernels){larger_f64, larger_at_f64, add_f64, larger_of_4_f64, larger_of_4_back_f64};
    table->runs_4 = runs_4;
    table->runs_8 = runs_8;
    table->taps_f32 = taps_f32;
    table->taps_f64 = taps_f64;
}
