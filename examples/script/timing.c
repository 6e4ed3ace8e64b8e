/* Measuring: compiling and running apart, and what is still running waited for. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *weight = hd_mul_scalar(hd_randn(HD_SHAPE(256, 256), HD_F32), 1.0 / 16); /* sums stay near 1 */

    hd_builder *builder = hd_builder_new("timing");
    hd_builder_start(builder);
    hd_tensor *h = hd_input("x", HD_SHAPE(64, 256), HD_F32);
    for (int layer = 0; layer < 4; ++layer) h = hd_tanh(hd_matmul(h, weight)); /* the loop is unrolled */
    hd_builder_add_output(builder, "result", h);
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_tensor *x_data = hd_randn(HD_SHAPE(64, 256), HD_F32);
    hd_script_set_input(script, "x", x_data);

    const double compile_start = now();
    hd_script_compile(script);
    const double compile_time = now() - compile_start;
    printf("Compilation: %.3f ms (hd_script_stats says %.3f)\n", 1e3 * compile_time,
           hd_script_stats(script).compile_ms);

    double best = 1;
    for (int i = 0; i < 20; ++i) { /* the first runs also warm caches: look at the best of some */
        HD_SCOPE;
        const double run_start = now();
        hd_script_run(script);
        hd_synchronize(); /* elsewhere than on the CPU with HODU, hd_script_run may return before the run is over */
        const double run_time = now() - run_start;
        if (i == 0) printf("Execution, first time: %.3f ms\n", 1e3 * run_time);
        if (run_time < best) best = run_time;
    }
    printf("Execution, best of 20: %.3f ms\n", 1e3 * best);

    CHECK_EQUAL(compilations(script), 1);
    CHECK_EQUAL(hd_script_stats(script).runs, 20);
    hd_tensor *expected = x_data;
    for (int layer = 0; layer < 4; ++layer) expected = hd_tanh(hd_matmul(expected, weight));
    CHECK_CLOSE(hd_script_output(script, "result"), expected);
    return hd_exit_status();
}
