/* Warm-up: what happens once (compiling, taking memory) happens when the program starts, not in the first batch. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(9);
    hd_module *model = HD_SEQUENTIAL(hd_linear(64, 128, NULL), hd_gelu_layer(), hd_linear(128, 10, NULL));

    hd_builder *builder = hd_builder_new("warm_up");
    hd_builder_start(builder);
    {
        HD_NO_GRAD;
        hd_builder_add_output(builder, "output", hd_forward(model, hd_input("x", HD_SHAPE(32, 64), HD_F32)));
    }
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    double start = now();
    hd_script_compile(script);
    hd_script_set_input(script, "x",
                        hd_zeros(HD_SHAPE(32, 64), HD_F32)); /* a dummy: memory and caches are warm then, too */
    hd_script_run(script);
    printf("warm-up: %.1f us\n", 1e6 * (now() - start));

    for (int i = 0; i < 5; ++i) {
        HD_SCOPE;
        HD_NO_GRAD;
        hd_tensor *batch = hd_randn(HD_SHAPE(32, 64), HD_F32);
        start = now();
        hd_script_set_input(script, "x", batch);
        hd_tensor *output = hd_outputs_get(hd_script_run(script), "output");
        printf("batch %d: %.1f us\n", i, 1e6 * (now() - start));
        CHECK_CLOSE(output, hd_forward(model, batch));
    }
    CHECK_EQUAL(compilations(script), 1);
    return hd_exit_status();
}
