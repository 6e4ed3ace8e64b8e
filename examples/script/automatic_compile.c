/* The first run compiles; the others only run. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(3);
    hd_tensor *weight = hd_randn(HD_SHAPE(16, 4), HD_F32);

    hd_builder *builder = hd_builder_new("automatic");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(8, 16), HD_F32);
    hd_builder_add_output(builder, "result", hd_relu(hd_matmul(x, weight)));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    CHECK_EQUAL(compilations(script), 0);

    hd_tensor *x_data = hd_randn(HD_SHAPE(8, 16), HD_F32), *x_data2 = hd_randn(HD_SHAPE(8, 16), HD_F32);
    hd_script_set_input(script, "x", x_data);
    hd_outputs *output1 = hd_script_run(script); /* compiles and runs */
    CHECK_EQUAL(compilations(script), 1);

    hd_script_set_input(script, "x", x_data2);
    hd_outputs *output2 = hd_script_run(script); /* only runs */
    CHECK_EQUAL(compilations(script), 1);

    /* The outputs of the first run are still its own. */
    CHECK_CLOSE(hd_outputs_get(output1, "result"), hd_relu(hd_matmul(x_data, weight)));
    CHECK_CLOSE(hd_outputs_get(output2, "result"), hd_relu(hd_matmul(x_data2, weight)));
    CHECK_CLOSE(hd_script_output(script, "result"), hd_outputs_get(output2, "result")); /* the last run's */
    puts("two runs, compiled once");
    return hd_exit_status();
}
