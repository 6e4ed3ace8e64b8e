/* Runs of pixels for one instruction set HD_ISA: what packing patches of images comes down to. The same run is taken from
 * many channels, so the way to copy its length is chosen once. */
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

#define RUNS(U, u)                                                                                                     \
    static void runs_##u(void *o, int64_t out_row, const void *p, int64_t in_row, int64_t rows, int64_t n,             \
                         int64_t step) {                                                                               \
        U *restrict out = o;                                                                                           \
        const U *restrict in = p;                                                                                      \
        if (in == NULL)                                                                                                \
            for (int64_t r = 0; r < rows; ++r) memset(out + r * out_row, 0, (size_t)n * sizeof(U));                    \
        else if (step == 1)                                                                                            \
            copy_runs(o, out_row *(int64_t)sizeof(U), p, in_row *(int64_t)sizeof(U), rows, n *(int64_t)sizeof(U));     \
        else if (step == 2)                                                                                            \
            for (int64_t r = 0; r < rows; ++r)                                                                         \
                for (int64_t i = 0; i < n; ++i) out[r * out_row + i] = in[r * in_row + 2 * i];                         \
        else                                                                                                           \
            for (int64_t r = 0; r < rows; ++r)                                                                         \
                for (int64_t i = 0; i < n; ++i) out[r * out_row + i] = in[r * in_row + step * i];                      \
    }
RUNS(uint32_t, 4)
RUNS(uint64_t, 8)

#define ADD_RUN(T, t)                                                                                                  \
    static void add_run_##t(void *o, const void *p, const void *w, int64_t n, int64_t step) {                          \
        T *restrict out = o;                                                                                           \
        const T *restrict in = p;                                                                                      \
        const T factor = *(const T *)w;                                                                                \
        if (step == 1)                                                                                                 \
            for (int64_t i = 0; i < n; ++i) out[i] += factor * in[i];                                                  \
        else                                                                                                           \
            for (int64_t i = 0; i < n; ++i) out[i] += factor * in[i * step];                                           \
    }
ADD_RUN(float, f32)
ADD_RUN(double, f64)

void KERNELS(hd_fill_patch)(hd_cpu_kernels *table) {
    table->runs_4 = runs_4;
    table->runs_8 = runs_8;
    table->add_run_f32 = add_run_f32;
    table->add_run_f64 = add_run_f64;
}
