/* The first steps: make tensors, compute with them, look at them, and see how quick it is. */
#include <hodu/hodu.h>

#include <stdio.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best of some runs, in seconds. */
#define TIME(runs, call)                                                                                               \
    __extension__({                                                                                                    \
        double best = 1e9;                                                                                             \
        for (int run = 0; run < (runs); ++run) {                                                                       \
            HD_SCOPE;                                                                                                  \
            const double start = now();                                                                                \
            call;                                                                                                      \
            const double took = now() - start;                                                                         \
            if (took < best) best = took;                                                                              \
        }                                                                                                              \
        best;                                                                                                          \
    })

static void tensors(void) {
    HD_SCOPE;
    hd_tensor *x = hd_reshape(hd_arange(0, 6, 1, HD_F32), HD_SHAPE(2, 3)); /* [2,3] */
    hd_tensor *row = HD_TENSOR_F32(HD_SHAPE(3), 0.5f, -1, 2);              /* [3] */
    puts("x =");
    hd_print(x);
    puts("\nx * row + 1, the row broadcast over x =");
    hd_print(hd_add_scalar(hd_mul(x, row), 1));
    puts("\nx times its own transpose =");
    hd_print(hd_matmul(x, hd_t(x)));
    puts("\nsoftmax of its rows, written out =");
    hd_tensor *e = hd_exp(hd_sub(x, hd_max(x, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true))));
    hd_print(hd_div(e, hd_sum(e, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true))));
    hd_seed(42);
    puts("\na thousand normal numbers, summarised =");
    hd_tensor *r = hd_randn(HD_SHAPE(40, 26), HD_F32);
    hd_print(r);
    printf("mean %.4f, deviation %.4f\n", hd_item(hd_mean(r, HD_AXES(), NULL)), hd_item(hd_std(r, HD_AXES(), 1, NULL)));
}

static void errors(void) {
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *b = hd_ones(HD_SHAPE(4, 5), HD_F32);
    hd_exp(hd_matmul(a, b)); /* calls nest: the first error sticks and the rest does nothing */
    printf("\nan error says what and where:\n  %s\n  (%s)\n", hd_error_message(), hd_error_place());
    hd_error_clear();
}

static void speed(void) {
    HD_SCOPE;
    hd_tensor *small = hd_ones(HD_SHAPE(2, 3), HD_F32);
    hd_tensor *large = hd_randn(HD_SHAPE(1 << 22), HD_F32), *matrix = hd_randn(HD_SHAPE(1024, 1024), HD_F32);
    printf("\nhow quick, with %s and %d threads:\n", hd_cpu_isa(), hd_num_threads());
    const double calls = TIME(
                             20,
                             for (int i = 0; i < 10000; ++i) {
                                 HD_SCOPE;
                                 hd_add(small, small);
                             }) /
                         10000;
    printf("  add [2,3]            %8.0f ns\n", calls * 1e9);
    printf("  add [4194304]        %8.2f ms\n", TIME(10, hd_add(large, large)) * 1e3);
    printf("  exp [4194304]        %8.2f ms\n", TIME(10, hd_exp(large)) * 1e3);
    printf("  sum [4194304]        %8.2f ms\n", TIME(10, hd_sum(large, HD_AXES(), NULL)) * 1e3);
    const double product = TIME(10, hd_matmul(matrix, matrix));
    printf("  matmul [1024,1024]   %8.2f ms, %.0f GFLOP/s\n", product * 1e3, 2.0 * 1024 * 1024 * 1024 / product * 1e-9);
}

int main(void) {
    tensors();
    errors();
    speed();
    return hd_exit_status();
}
