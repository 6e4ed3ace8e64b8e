/* At once, its gradient, captured at every level, and under XLA where its plugin is. */
#include <hodu/hodu.h>
#include <stdio.h>

static int is(hd_tensor *t, double a, double b) {
    double got[2] = {0};
    if (t == NULL || !hd_to_array(t, got, HD_F64, 2)) return fprintf(stderr, "%s\n", hd_error_message()), 0;
    if (got[0] != a || got[1] != b) return fprintf(stderr, "%g %g instead of %g %g\n", got[0], got[1], a, b), 0;
    return 1;
}

int main(void) {
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(3, 2), 1, 10, 2, 20, 4, 80);
    if (!is(hd_alternating_sum(x, 0), 3, 70) || !is(hd_alternating_sum(hd_t(x), -1), 3, 70)) return 1;
    hd_requires_grad(x);
    hd_backward(hd_sum(hd_alternating_sum(x, 0), HD_AXES(), NULL));
    if (!is(hd_select(hd_grad(x), 0, 0), 1, 1) || !is(hd_select(hd_grad(x), 0, 1), -1, -1)) return 1;
    hd_builder *b = hd_builder_new("toy");
    hd_builder_start(b);
    hd_tensor *in = hd_input("x", HD_SHAPE(3, 2), HD_F32);
    hd_builder_add_output(b, "y", hd_add_scalar(hd_alternating_sum(hd_mul_scalar(in, 2), 0), 1));
    hd_builder_end(b);
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script *s = hd_builder_build(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "x", hd_detach(x));
        if (!is(hd_outputs_get(hd_script_run(s), "y"), 7, 141)) return 1;
    }
    hd_script *s = hd_builder_build(b);
    HD_QUIET;
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_script_set_input(s, "x", hd_detach(x));
    hd_outputs *out = hd_script_run(s);
    if (hd_ok() && !is(hd_outputs_get(out, "y"), 7, 141)) return 1;
    puts(hd_ok() ? "hd_alternating_sum works" : "hd_alternating_sum works (no XLA here)");
    return 0;
}
