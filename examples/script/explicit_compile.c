/* Compiling ahead of the first run, which needs no inputs. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(4);
    hd_tensor *weight = hd_randn(HD_SHAPE(16, 4), HD_F32);

    hd_builder *builder = hd_builder_new("explicit");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(8, 16), HD_F32);
    hd_builder_add_output(builder, "result", hd_softmax(hd_matmul(x, weight), 1));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);

    puts("Compiling...");
    hd_script_compile(script);
    puts("Compilation done!");
    CHECK_EQUAL(compilations(script), 1);
    hd_script_compile(script); /* once more does nothing */
    CHECK_EQUAL(compilations(script), 1);

    hd_tensor *x_data = hd_randn(HD_SHAPE(8, 16), HD_F32);
    hd_script_set_input(script, "x", x_data);
    hd_outputs *output = hd_script_run(script); /* only runs */
    CHECK_EQUAL(compilations(script), 1);
    CHECK_CLOSE(hd_outputs_get(output, "result"), hd_softmax(hd_matmul(x_data, weight), 1));
    return hd_exit_status();
}
