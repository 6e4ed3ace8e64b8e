/* Gradients while recording: hd_backward records the gradient's own calls, for every op, those that only move data
 * included. Nothing is needed beyond what dynamic execution needs. */
#include "check.h"

/* A loss through a transpose, a reshape and a slice of w [2,3]. */
static hd_tensor *loss_of(hd_tensor *w, hd_tensor *x) {
    hd_tensor *turned = hd_transpose(w, 0, 1);                                     /* [3,2] */
    hd_tensor *product = hd_matmul(x, turned);                                     /* [4,2] */
    hd_tensor *part = hd_slice(hd_reshape(product, HD_SHAPE(8)), 0, 1, HD_END, 2); /* [4] */
    return hd_sum(hd_square(part), HD_AXES(), NULL);
}

int main(void) {
    HD_SCOPE;
    hd_seed(7);
    hd_tensor *w = hd_param(hd_randn(HD_SHAPE(2, 3), HD_F32)), *x_data = hd_randn(HD_SHAPE(4, 3), HD_F32);

    hd_builder *builder = hd_builder_new("gradient");
    hd_builder_start(builder);
    hd_builder_bind(builder, "w", w); /* each run reads w as it is then */
    hd_tensor *loss = loss_of(w, hd_input("x", HD_SHAPE(4, 3), HD_F32));
    hd_backward(loss);
    hd_builder_add_output(builder, "loss", loss);
    hd_builder_add_output(builder, "gradient", hd_grad(w)); /* a value like any other */
    hd_builder_end(builder);
    CHECK(!hd_has_grad(w)); /* nothing was computed yet: outside w is as it was */
    hd_script *script = hd_builder_build(builder);

    hd_script_set_input(script, "x", x_data);
    hd_outputs *outputs = hd_script_run(script);
    hd_print(hd_outputs_get(outputs, "gradient"));

    hd_tensor *expected = loss_of(w, x_data);
    hd_backward(expected);
    CHECK_CLOSE(hd_outputs_get(outputs, "loss"), expected);
    CHECK_CLOSE(hd_outputs_get(outputs, "gradient"), hd_grad(w));
    hd_clear_tape();
    return hd_exit_status();
}
