/* Inference: a trained model becomes a script that only computes, and runs for every image that comes. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(8);
    hd_module *model = HD_SEQUENTIAL(hd_linear(784, 64, NULL), hd_relu_layer(), hd_linear(64, 10, NULL));
    hd_module_eval(model); /* dropout and the like off */

    hd_builder *builder = hd_builder_new("inference");
    hd_builder_start(builder);
    {
        HD_NO_GRAD; /* no tape: nothing will be differentiated */
        hd_tensor *input = hd_input("input", HD_SHAPE(1, 784), HD_F32);
        hd_builder_add_output(builder, "output", hd_forward(model, input)); /* the parameters are constants now */
    }
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_compile(script);

    double script_time = 0, dynamic_time = 0;
    enum { IMAGES = 200 };
    for (int i = 0; i < IMAGES; ++i) {
        HD_SCOPE;
        HD_NO_GRAD;
        hd_tensor *image = hd_rand(HD_SHAPE(1, 784), HD_F32);
        double start = now();
        hd_script_set_input(script, "input", image);
        hd_tensor *output = hd_outputs_get(hd_script_run(script), "output");
        script_time += now() - start;
        start = now();
        hd_tensor *expected = hd_forward(model, image);
        dynamic_time += now() - start;
        CHECK_CLOSE(output, expected);
    }
    CHECK_EQUAL(compilations(script), 1);
    printf("an image takes %.1f us in the script, %.1f us dynamically\n", 1e6 * script_time / IMAGES,
           1e6 * dynamic_time / IMAGES);
    return hd_exit_status();
}
