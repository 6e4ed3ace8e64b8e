/* Random draws for one instruction set HD_ISA: draw.def, some hundred elements at a time. */
#include "device/cpu/kernels_isa.h"
#include "kernel/words_c.h"

#define T           f32
#define W_PRECISION 32
#include "kernel/math.def"
#undef T
#undef W_PRECISION
#define T           f64
#define W_PRECISION 64
#include "kernel/math.def"
#undef T

#define DRAW_F32
#define DRAW_F64
#include "kernel/draw_c.h"

enum { LANES = 256 };
static int strip(int64_t n, int64_t i) { return n - i < LANES ? (int)(n - i) : LANES; }

static void bits_u64(uint64_t *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    for (int64_t i = 0; i < n; i += LANES) w_draws_u64(out + i, strip(n, i), first + i, seed, draw);
}

static void uniform_f32(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint32_t bits[LANES];
    for (int64_t i = 0; i < n; i += LANES) {
        const int count = strip(n, i);
        w_draws_u32(bits, count, first + i, seed, draw);
        for (int j = 0; j < count; ++j) out[i + j] = w_unit_f32(bits[j]);
    }
}
static void uniform_f64(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    uint64_t bits[LANES];
    for (int64_t i = 0; i < n; i += LANES) {
        const int count = strip(n, i);
        w_draws_u64(bits, count, first + i, seed, draw);
        for (int j = 0; j < count; ++j) out[i + j] = w_unit_f64(bits[j]);
    }
}

static void normal_f32(float *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    for (int64_t i = 0; i < n; i += LANES) w_draws_f32(out + i, strip(n, i), first + i, seed, draw);
}
static void normal_f64(double *out, int64_t first, int64_t n, uint64_t seed, uint64_t draw) {
    for (int64_t i = 0; i < n; i += LANES) w_draws_f64(out + i, strip(n, i), first + i, seed, draw);
}

void KERNELS(hd_fill_random)(hd_cpu_kernels *table) {
    table->uniform_f32 = uniform_f32;
    table->uniform_f64 = uniform_f64;
    table->normal_f32 = normal_f32;
    table->normal_f64 = normal_f64;
    table->bits_u64 = bits_u64;
}
