/* The MLP block under XLA on CUDA, for xla_cuda.py, which runs JAX beside it: how long compiling takes with nothing
 * cached, and how long a run, in f32 as exact as f32 is, in f32 with TF32, and in bf16. Every run is waited for.
 *
 *     bench_xla_cuda         one line for each net: its name, precision, ms to compile, us to run, and how far its
 *                            result is from HODU's on the CPU, as a part of that (root mean squares)
 *     bench_xla_cuda --there   the same, with input and weights that are tensors of the GPU
 *     bench_xla_cuda --cpu   XLA's plugin for the CPU instead, a few runs: to see that the program works */
#include "static.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 25 };
static int warm = 20, runs = 20;
static hd_device home; /* of input and weights */

typedef struct precision {
    const char *name;
    hd_dtype dtype;
    hd_matmul_precision of_products;
} precision;
static const precision precisions[] = {
    {"exact", HD_F32, HD_MATMUL_EXACT}, {"tf32", HD_F32, HD_MATMUL_TF32}, {"bf16", HD_BF16, HD_MATMUL_EXACT}};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* As block_script, in another dtype. */
static hd_script *make_script(block s, precision p, hd_tensor *const weights[BLOCK_WEIGHTS], hd_tensor *x) {
    HD_NO_GRAD;
    hd_tensor *w[BLOCK_WEIGHTS] = {NULL};
    for (int i = 0; i < BLOCK_WEIGHTS; ++i)
        if (weights[i] != NULL) w[i] = hd_to(hd_cast(weights[i], p.dtype), home);
    hd_builder *b = hd_builder_new("block");
    hd_builder_start(b);
    hd_set_matmul_precision(p.of_products);
    hd_builder_add_output(b, "y", block_forward(hd_input("x", HD_SHAPE(s.batch, s.in), p.dtype), w));
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    hd_builder_end(b);
    hd_script *script = hd_builder_build(b);
    hd_script_set_input(script, "x", hd_to(hd_cast(x, p.dtype), home));
    return script;
}

static double run_us(hd_script *script) {
    double sample[SAMPLES];
    for (int i = -warm; i < SAMPLES && hd_ok(); ++i) {
        const double begin = now_us();
        for (int k = 0; k < runs; ++k) {
            HD_SCOPE;
            hd_script_run(script);
            hd_synchronize();
        }
        if (i >= 0) sample[i] = (now_us() - begin) / runs;
    }
    qsort(sample, SAMPLES, sizeof *sample, compare);
    return sample[SAMPLES / 2];
}

static double size_of(hd_tensor *t) { return sqrt(hd_item(hd_mean(hd_square(hd_cast(t, HD_F64)), HD_AXES(), NULL))); }

static void measure(const char *name, block s, precision p, hd_device device) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *w[BLOCK_WEIGHTS], *x = input_numbers(HD_SHAPE(s.batch, s.in), 1);
    block_make_weights(s, w);
    hd_tensor *expected = hd_cast(block_forward(x, w), HD_F64);
    hd_script *script = make_script(s, p, w, x);
    hd_script_set_device(script, device);
    hd_script_set_compiler(script, HD_COMPILER_XLA);
    hd_script_compile(script);
    const double compiled = hd_script_stats(script).code_ms, took = run_us(script);
    hd_tensor *y = hd_to(hd_outputs_at(hd_script_run(script), 0), hd_cpu());
    const double off = size_of(hd_sub(hd_cast(y, HD_F64), expected)) / size_of(expected);
    if (hd_ok()) printf("%s %s %.1f %.2f %.3g\n", name, p.name, compiled, took, off);
    fflush(stdout);
}

int main(int argc, char **argv) {
    setenv("HODU_CACHE", "0", 1);
    const bool on_cpu = argc > 1 && strcmp(argv[1], "--cpu") == 0;
    const hd_device device = on_cpu ? hd_cpu() : hd_cuda(0);
    home = argc > 1 && strcmp(argv[1], "--there") == 0 ? device : hd_cpu();
    if (on_cpu) warm = runs = 1;
    const char *missing = hd_compiler_missing(HD_COMPILER_XLA, device);
    if (missing != NULL) {
        fprintf(stderr, "bench_xla_cuda: %s\n", missing);
        return 1;
    }
    { /* XLA is started and has compiled something, as JAX has when it makes its weights */
        HD_SCOPE;
        measure("warm", (block){2, 3, 4, 5}, precisions[0], device);
    }
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; ++i) {
        measure("small", block_small, precisions[i], device);
        measure("middle", block_middle, precisions[i], device);
        measure("large", block_large, precisions[i], device);
    }
    return hd_exit_status();
}
