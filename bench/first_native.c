/* A program that loads a script with its machine code: first_native save FILE makes one, a network of digits, and
 * first_native FILE loads it, runs it once and prints when the result was there, for bench_process. */
#include <hodu/hodu.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 64 pixels, 128 hidden, 10 classes; a batch of 16. */
static void save(const char *path) {
    hd_seed(1);
    hd_module *model = HD_SEQUENTIAL(hd_linear(64, 128, NULL), hd_gelu_layer(), hd_linear(128, 10, NULL));
    HD_NO_GRAD;
    hd_builder *b = hd_builder_new("digits");
    hd_builder_start(b);
    hd_builder_add_output(b, "p", hd_softmax(hd_forward(model, hd_input("x", HD_SHAPE(16, 64), HD_F32)), 1));
    hd_builder_end(b);
    hd_script_save_with(hd_builder_build(b), path, HD_OPTS(hd_script_save_opts, .native = true));
}

static int run(const char *path) {
    hd_script *s = hd_script_load_with(path, HD_OPTS(hd_script_load_opts, .native = true));
    hd_script_set_input(s, "x", hd_full(HD_SHAPE(16, 64), HD_F32, 0.5));
    const double sum = hd_item(hd_sum(hd_outputs_get(hd_script_run(s), "p"), HD_AXES(), NULL)), end = now();
    const hd_script_figures f = hd_script_stats(s);
    printf("%.9f\n", end);
    if (f.kernels > 0 && f.kernels_from_file == f.kernels && sum > 15.9 && sum < 16.1) return hd_exit_status();
    fprintf(stderr, "%d of %d kernels are from the file; the sum is %g\n", (int)f.kernels_from_file, (int)f.kernels,
            sum);
    return 1;
}

int main(int argc, char **argv) {
    HD_SCOPE;
    if (argc == 2) return run(argv[1]);
    if (argc == 3 && strcmp(argv[1], "save") == 0) save(argv[2]);
    return hd_exit_status();
}
