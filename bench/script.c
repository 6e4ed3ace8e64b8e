/* Scripts: what capturing, compiling and running cost, from one tiny node to a network. */
#include "harness.h"

#include <malloc.h>
#include <math.h>
#include <unistd.h>

static double resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) perror("/proc/self/statm");
    if (file != NULL) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- overhead ---------------------------------------------------------------------------------------------------- */
/* x + y + y + ... on [2,3]: `nodes` additions that no pass can take away. */
static hd_script *chain(int nodes) {
    hd_builder *b = hd_builder_new("chain");
    hd_builder_start(b);
    hd_tensor *z = hd_input("x", HD_SHAPE(2, 3), HD_F32), *y = hd_input("y", HD_SHAPE(2, 3), HD_F32);
    for (int i = 0; i < nodes; ++i) z = hd_add(z, y);
    hd_builder_add_output(b, "z", z);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_set_input(s, "x", hd_zeros(HD_SHAPE(2, 3), HD_F32));
    hd_script_set_input(s, "y", hd_ones(HD_SHAPE(2, 3), HD_F32));
    return s;
}

static void run_one_node(bench *b) {
    HD_SCOPE;
    hd_script *s = chain(1);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(s);
        }
    }
}

static double seconds_of(hd_script *s, int runs) {
    double best = INFINITY;
    for (int k = 0; k < 7; ++k) {
        const double begin = bench_now();
        for (int i = 0; i < runs; ++i) {
            HD_SCOPE;
            hd_script_run(s);
        }
        best = fmin(best, (bench_now() - begin) / runs);
    }
    return best;
}

/* What one more node adds to a run. */
static void per_node(bench *b) {
    HD_SCOPE;
    hd_script *one = chain(1), *many = chain(1001);
    bench_value(b, "hodu", (seconds_of(many, 200) - seconds_of(one, 2000)) / 1000);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
/* The whole loop in one graph: captured, compiled at O1 and run. Seconds; *bytes is what the process grew by. */
static double unrolled(int epochs, double *bytes) {
    HD_SCOPE;
    hd_seed(1);
    hd_tensor *x = hd_randn(HD_SHAPE(100, 3), HD_F32), *y = hd_randn(HD_SHAPE(100, 1), HD_F32);
    hd_memory_trim();
    malloc_trim(0);
    const double before = resident(), begin = bench_now();
    hd_builder *b = hd_builder_new("training");
    hd_builder_start(b);
    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_tensor *input = hd_input("input", HD_SHAPE(100, 3), HD_F32),
              *target = hd_input("target", HD_SHAPE(100, 1), HD_F32);
    hd_tensor *loss = NULL;
    for (int i = 0; i < epochs; ++i) {
        HD_SCOPE;
        loss = hd_keep(hd_mse(hd_forward(linear, input), target, NULL));
        hd_backward(loss);
        hd_optimizer_step(sgd);
        hd_optimizer_zero_grad(sgd);
    }
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_set_input(s, "input", x);
    hd_script_set_input(s, "target", y);
    hd_item(hd_outputs_get(hd_script_run(s), "loss"));
    *bytes = resident() - before;
    return bench_now() - begin;
}

static void unrolled_1000_ms(bench *b) {
    double bytes, best = INFINITY;
    for (int i = 0; i < 5; ++i) best = fmin(best, unrolled(1000, &bytes));
    bench_value(b, "hodu", best);
}

static void unrolled_1000_mb(bench *b) {
    double bytes;
    unrolled(1000, &bytes);
    bench_value(b, "hodu", bytes / 1e6);
}

/* Time per epoch of a loop ten times as long, by that of the shorter. */
static void unrolled_linear(bench *b) {
    double bytes, shorter = INFINITY, longer = INFINITY;
    for (int i = 0; i < 3; ++i) {
        shorter = fmin(shorter, unrolled(1000, &bytes));
        longer = fmin(longer, unrolled(10000, &bytes));
    }
    bench_value(b, "hodu", longer / shorter / 10);
}

/* One step with declared state. */
static void linear_3x1_step(bench *b) {
    HD_SCOPE;
    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_builder *builder = hd_builder_new("step");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, linear, sgd);
    hd_tensor *x = hd_input("x", HD_SHAPE(100, 3), HD_F32), *y = hd_input("y", HD_SHAPE(100, 1), HD_F32);
    hd_tensor *loss = hd_mse(hd_forward(linear, x), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(sgd);
    hd_builder_add_output(builder, "loss", loss);
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_set_input(s, "x", hd_randn(HD_SHAPE(100, 3), HD_F32));
    hd_script_set_input(s, "y", hd_randn(HD_SHAPE(100, 1), HD_F32));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(s);
        }
    }
}

/* ---- a network, forward ------------------------------------------------------------------------------------------ */
static hd_script *mlp(void) {
    hd_module *model = HD_SEQUENTIAL(hd_linear(512, 1024, NULL), hd_relu_layer(), hd_linear(1024, 512, NULL));
    HD_NO_GRAD;
    hd_builder *b = hd_builder_new("mlp");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_forward(model, hd_input("x", HD_SHAPE(64, 512), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_set_input(s, "x", hd_randn(HD_SHAPE(64, 512), HD_F32));
    return s;
}

static void mlp_64x512x1024x512(bench *b) {
    HD_SCOPE;
    hd_script *s = mlp();
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(s);
        }
    }
}

/* The arena by what must be alive at once: the hidden values (the result has memory of its own). */
static void mlp_arena(bench *b) {
    HD_SCOPE;
    hd_script *s = mlp();
    hd_script_compile(s);
    bench_value(b, "hodu", (double)hd_script_stats(s).arena_bytes / (64.0 * 1024 * sizeof(float)));
}

static const bench_case cases[] = {
    {"script/run-one-node", "ns", run_one_node},
    {"script/per-node", "ns", per_node},
    {"script/unrolled-1000-ms", "ms", unrolled_1000_ms},
    {"script/unrolled-1000-mb", "MB", unrolled_1000_mb},
    {"script/unrolled-linear", "x", unrolled_linear},
    {"script/linear-3x1-step", "us", linear_3x1_step},
    {"script/mlp-64x512x1024x512", "us", mlp_64x512x1024x512},
    {"script/mlp-arena", "x", mlp_arena},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof cases[0]); }
