/* optimization_level: from O0, which runs what was captured as it was captured, to O3; O1 by default. Results agree. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_seed(16);
    hd_module *model =
        HD_SEQUENTIAL(hd_linear(64, 256, NULL), hd_gelu_layer(), hd_linear(256, 64, NULL), hd_softmax_layer(1));
    hd_tensor *x = hd_randn(HD_SHAPE(16, 64), HD_F32), *expected = hd_forward(model, x);
    const hd_optimization_level levels[] = {HD_O0, HD_O1, HD_O2, HD_O3};

    for (int i = 0; i < 4; ++i) {
        hd_module *compiled =
            hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = levels[i]));
        hd_forward(compiled, x); /* captures and compiles */
        double best = 1;
        for (int run = 0; run < 50; ++run) {
            HD_SCOPE;
            const double start = now();
            hd_tensor *y = hd_forward(compiled, x);
            const double took = now() - start;
            if (took < best) best = took;
            CHECK_CLOSE(y, expected);
        }
        printf("O%d: %.1f us a call\n", i, 1e6 * best);
    }

    hd_compile(model,
               HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = (hd_optimization_level)4));
    CHECK_ERROR("there are HD_O0 to HD_O3");
    return hd_exit_status();
}
