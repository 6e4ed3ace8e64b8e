/* The shortest whole script: build it, give it inputs, run it. */
#include "check.h"

int main(void) {
    HD_SCOPE;
    hd_seed(1);

    /* Between start and end calls are recorded, not run. */
    hd_builder *builder = hd_builder_new("my_script");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32);
    hd_tensor *y = hd_input("y", HD_SHAPE(3, 4), HD_F32);
    hd_tensor *result = hd_matmul(x, y); /* [2,4], without values */
    hd_builder_add_output(builder, "result", result);
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);

    /* Run it. hd_script_add_input is another name for hd_script_set_input. */
    hd_tensor *x_data = hd_randn(HD_SHAPE(2, 3), HD_F32);
    hd_tensor *y_data = hd_randn(HD_SHAPE(3, 4), HD_F32);
    hd_script_set_input(script, "x", x_data);
    hd_script_add_input(script, "y", y_data);
    hd_outputs *outputs = hd_script_run(script);
    hd_tensor *product = hd_outputs_get(outputs, "result");

    hd_print(product);
    CHECK_CLOSE(product, hd_matmul(x_data, y_data)); /* what dynamic execution gives */
    return hd_exit_status();
}
