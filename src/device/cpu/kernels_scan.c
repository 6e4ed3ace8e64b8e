/* Scans for one instruction set HD_ISA: see scan.c. */
#include "device/cpu/kernels_isa.h"
#include "kernel/words_c.h"

/* ---- sums and products ------------------------------------------------------------------------------------------- */
#define COLUMNS(name, t, A, op)                                                                                        \
    static void columns_##name##_##t(void *p, void *o, int64_t out_stride, const void *i, int64_t in_stride,           \
                                     int64_t n, int64_t rows) {                                                        \
        A *restrict before = p;                                                                                        \
        for (int64_t r = 0; r < rows; ++r) {                                                                           \
            c_##t *restrict out = (c_##t *)o + r * out_stride;                                                         \
            const c_##t *restrict in = (const c_##t *)i + r * in_stride;                                               \
            for (int64_t j = 0; j < n; ++j) {                                                                          \
                before[j] = before[j] op(A) in[j];                                                                     \
                out[j] = (c_##t)before[j];                                                                             \
            }                                                                                                          \
        }                                                                                                              \
    }
/* One element after the other: in any other order f64 might overflow on the way. */
#define ROW_IN_ORDER(name, t, A, op)                                                                                   \
    static void row_##name##_##t(void *before, void *o, const void *i, int64_t n, bool back) {                         \
        const c_##t *in = i;                                                                                           \
        c_##t *out = o;                                                                                                \
        A total = *(A *)before;                                                                                        \
        for (int64_t k = 0; k < n && !back; ++k) out[k] = (c_##t)(total = total op(A) in[k]);                          \
        for (int64_t k = n - 1; k >= 0 && back; --k) out[k] = (c_##t)(total = total op(A) in[k]);                      \
        *(A *)before = total;                                                                                          \
    }
#define IN_ORDER(name, t, op)                                                                                          \
    COLUMNS(name, t, c_##t, op)                                                                                        \
    ROW_IN_ORDER(name, t, c_##t, op)
IN_ORDER(sum, u64, +)
IN_ORDER(prod, u64, *)
IN_ORDER(sum, f64, +)
IN_ORDER(prod, f64, *)

/* ---- rows of f32 -------------------------------------------------------------------------------------------------
 * Sums, a vector at a time in f64, which neither overflows nor loses anything of f32 on the way: what its elements
 * add to those before them is found by steps of 1, 2, 4, ... places, so that from one vector to the next there is one
 * addition to wait for. */
enum { WIDTH = VECTOR / 8 };
typedef double wide __attribute__((vector_size(VECTOR)));
typedef float narrow __attribute__((vector_size(VECTOR / 2), aligned(4), may_alias));
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

#if defined(__AVX512F__)
#define FORTH_1(v, one) SHUFFLE(one, v, 0, 8, 9, 10, 11, 12, 13, 14)
#define FORTH_2(v, one) SHUFFLE(one, v, 0, 1, 8, 9, 10, 11, 12, 13)
#define FORTH_4(v, one) SHUFFLE(one, v, 0, 1, 2, 3, 8, 9, 10, 11)
#define BACK_1(v, one)  SHUFFLE(one, v, 9, 10, 11, 12, 13, 14, 15, 0)
#define BACK_2(v, one)  SHUFFLE(one, v, 10, 11, 12, 13, 14, 15, 0, 1)
#define BACK_4(v, one)  SHUFFLE(one, v, 12, 13, 14, 15, 0, 1, 2, 3)
#define ALL_LAST(v)     SHUFFLE(v, v, 7, 7, 7, 7, 7, 7, 7, 7)
#define ALL_FIRST(v)    SHUFFLE(v, v, 0, 0, 0, 0, 0, 0, 0, 0)
#elif defined(__AVX2__)
#define FORTH_1(v, one) SHUFFLE(one, v, 0, 4, 5, 6)
#define FORTH_2(v, one) SHUFFLE(one, v, 0, 1, 4, 5)
#define FORTH_4(v, one) (one)
#define BACK_1(v, one)  SHUFFLE(one, v, 5, 6, 7, 0)
#define BACK_2(v, one)  SHUFFLE(one, v, 6, 7, 0, 1)
#define BACK_4(v, one)  (one)
#define ALL_LAST(v)     SHUFFLE(v, v, 3, 3, 3, 3)
#define ALL_FIRST(v)    SHUFFLE(v, v, 0, 0, 0, 0)
#else
#define FORTH_1(v, one) SHUFFLE(one, v, 0, 2)
#define FORTH_2(v, one) (one)
#define FORTH_4(v, one) (one)
#define BACK_1(v, one)  SHUFFLE(one, v, 3, 0)
#define BACK_2(v, one)  (one)
#define BACK_4(v, one)  (one)
#define ALL_LAST(v)     SHUFFLE(v, v, 1, 1)
#define ALL_FIRST(v)    SHUFFLE(v, v, 0, 0)
#endif

/* A vector from `at` on: each with those before it, and then with `total`, which becomes that of all. */
#define VECTOR_STEP(WAY, LAST, op)                                                                                     \
    {                                                                                                                  \
        wide v = __builtin_convertvector(*(const narrow *)(in + at), wide);                                            \
        v = v op WAY##_1(v, one);                                                                                      \
        if (WIDTH > 2) v = v op WAY##_2(v, one);                                                                       \
        if (WIDTH > 4) v = v op WAY##_4(v, one);                                                                       \
        *(narrow *)(out + at) = __builtin_convertvector(total op v, narrow);                                           \
        total = total op LAST(v);                                                                                      \
    }
#define ROW_F32(name, op, identity)                                                                                    \
    static void row_##name##_f32(void *before, void *o, const void *i, int64_t n, bool back) {                         \
        const float *in = i;                                                                                           \
        float *out = o;                                                                                                \
        const wide one = (wide){0} + identity;                                                                         \
        wide total = (wide){0} + *(double *)before;                                                                    \
        int64_t at = back ? n - WIDTH : 0;                                                                             \
        if (back)                                                                                                      \
            for (; at >= 0; at -= WIDTH) VECTOR_STEP(BACK, ALL_FIRST, op)                                              \
        else                                                                                                           \
            for (; at + WIDTH <= n; at += WIDTH) VECTOR_STEP(FORTH, ALL_LAST, op)                                      \
        double rest = total[0];                                                                                        \
        if (back)                                                                                                      \
            for (at += WIDTH - 1; at >= 0; --at) out[at] = (float)(rest = rest op(double) in[at]);                     \
        else                                                                                                           \
            for (; at < n; ++at) out[at] = (float)(rest = rest op(double) in[at]);                                     \
        *(double *)before = rest;                                                                                      \
    }
ROW_F32(sum, +, 0.0)
ROW_IN_ORDER(prod, f32, double, *) /* eight factors together may be beyond f64 */
COLUMNS(sum, f32, double, +)
COLUMNS(prod, f32, double, *)

/* ---- the largest and the smallest -------------------------------------------------------------------------------- */
#define EXTREME(name, t, op)                                                                                           \
    static void row_##name##_##t(void *p, int64_t *where, void *o, int64_t *restrict places, const void *i, int64_t n, \
                                 int64_t at, int64_t step) {                                                           \
        const c_##t *restrict in = i;                                                                                  \
        c_##t *restrict out = o;                                                                                       \
        c_##t best = *(c_##t *)p;                                                                                      \
        int64_t here = *where;                                                                                         \
        for (int64_t k = 0; k < n; ++k, at += step) {                                                                  \
            const c_##t v = in[k];                                                                                     \
            const bool takes = (v op best) | (v != v);                                                                 \
            out[k] = best = takes ? v : best;                                                                          \
            places[k] = here = takes ? at : here;                                                                      \
        }                                                                                                              \
        *(c_##t *)p = best;                                                                                            \
        *where = here;                                                                                                 \
    }                                                                                                                  \
    static void columns_##name##_##t(void *p, int64_t *restrict where, const void *i, int64_t n, int64_t at) {         \
        const c_##t *restrict in = i;                                                                                  \
        c_##t *restrict best = p;                                                                                      \
        for (int64_t j = 0; j < n; ++j) {                                                                              \
            const bool takes = (in[j] op best[j]) | (in[j] != in[j]);                                                  \
            best[j] = takes ? in[j] : best[j];                                                                         \
            where[j] = takes ? at : where[j];                                                                          \
        }                                                                                                              \
    }
#define EXTREMES(t)                                                                                                    \
    EXTREME(largest, t, >=)                                                                                            \
    EXTREME(smallest, t, <=)
EXTREMES(i64)
EXTREMES(u64)
EXTREMES(f32)
EXTREMES(f64)

/* ---- into the table ---------------------------------------------------------------------------------------------- */
#define SCANS_OF(NAME, t)                                                                                              \
    table->scan[HD_SCAN_SUM][HD_COMPUTE_##NAME] = (hd_scan_kernels){row_sum_##t, columns_sum_##t};                     \
    table->scan[HD_SCAN_PROD][HD_COMPUTE_##NAME] = (hd_scan_kernels){row_prod_##t, columns_prod_##t};
#define EXTREMES_OF(NAME, t)                                                                                           \
    table->scan_largest[HD_COMPUTE_##NAME] = (hd_scan_extreme_kernels){row_largest_##t, columns_largest_##t};          \
    table->scan_smallest[HD_COMPUTE_##NAME] = (hd_scan_extreme_kernels){row_smallest_##t, columns_smallest_##t};

void KERNELS(hd_fill_scan)(hd_cpu_kernels *table) {
    SCANS_OF(I64, u64)
    SCANS_OF(U64, u64)
    SCANS_OF(F32, f32)
    SCANS_OF(F64, f64)
    EXTREMES_OF(I64, i64)
    EXTREMES_OF(U64, u64)
    EXTREMES_OF(F32, f32)
    EXTREMES_OF(F64, f64)
}
