/* Exclusive or, which no straight line separates: a network with one hidden layer learns it in a moment. */
#include <hodu/hodu.h>

#include <math.h>
#include <stdio.h>

int main(void) {
    HD_SCOPE;
    hd_seed(1);
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(4, 2), 0, 0, 0, 1, 1, 0, 1, 1); /* [4,2] */
    hd_tensor *y = HD_TENSOR_F32(HD_SHAPE(4, 1), 0, 1, 1, 0);             /* [4,1] */

    hd_module *model = HD_SEQUENTIAL(hd_linear(2, 8, NULL), hd_tanh_layer(), hd_linear(8, 1, NULL));
    hd_optimizer *optimizer = hd_adam(hd_module_parameters(model), 0.05, NULL);

    for (int step = 0; step <= 300 && hd_ok(); ++step) {
        HD_SCOPE; /* each step's tensors go with it */
        hd_tensor *loss = hd_mse(hd_forward(model, x), y, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer); /* gradients add up otherwise, and the tape grows */
        if (step % 50 == 0) printf("step %3d  loss %.6f\n", step, hd_item(loss));
    }

    HD_NO_GRAD; /* from here on we only look */
    hd_tensor *answer = hd_forward(model, x);
    if (!hd_ok()) return hd_exit_status(); /* one check for all of the above: errors stick */
    const float *in = hd_data_f32(x), *out = hd_data_f32(answer), *truth = hd_data_f32(y);
    int wrong = 0;
    for (int i = 0; i < 4; ++i) {
        printf("%g xor %g = %6.3f\n", in[2 * i], in[2 * i + 1], out[i]);
        if (!(fabsf(out[i] - truth[i]) < 0.1f)) ++wrong;
    }
    if (wrong) return fprintf(stderr, "xor: %d of 4 answers are off by 0.1 or more\n", wrong), 1;
    return hd_exit_status();
}
