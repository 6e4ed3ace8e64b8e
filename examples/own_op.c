/* An op of one's own, in C, with its gradient; and a gradient of one's own: a network whose weights are -1 or 1 learns,
 * because the gradient of the sign goes straight through. */
#include <hodu/hodu.h>
#include <math.h>
#include <stdio.h>

/* ---- the op: a triangle wave of period 4, from -1 to 1 ----------------------------------------------------------- */
static const char *wave_shapes(hd_custom_args *args) {
    return args->inputs[0]->dtype == HD_F32 ? NULL : "x must be f32"; /* the output is like x */
}

static const char *wave_compute(hd_custom_args *args) {
    const float *x = args->inputs[0]->data;
    float *y = args->outputs[0]->data;
    for (int64_t i = 0; i < args->inputs[0]->count; ++i) y[i] = fabsf(x[i] - 4 * floorf(x[i] / 4) - 2) - 1;
    return NULL;
}

/* -1 falling, 1 rising. */
static const char *wave_vjp(hd_custom_vjp *vjp) {
    hd_tensor *x = vjp->inputs[0];
    hd_tensor *phase = hd_sub(x, hd_mul_scalar(hd_floor(hd_div_scalar(x, 4)), 4));
    vjp->results[0] = hd_mul(vjp->gradients[0], hd_sign(hd_sub_scalar(phase, 2)));
    return NULL;
}

static hd_tensor *wave(hd_tensor *x) {
    hd_custom_register(HD_OPTS(hd_custom_op, .name = "example.wave", .inputs = 1, .shapes = wave_shapes,
                               .compute = wave_compute, .vjp = wave_vjp, .vjp_without_outputs = true));
    return hd_custom("example.wave", HD_TENSORS(x), NULL, 0);
}

/* ---- the gradient: that of the sign, straight through ------------------------------------------------------------ */
static hd_tensor *sign_forward(hd_tensors *inputs, hd_tensor **saved, void *user) {
    (void)saved, (void)user;
    return hd_sign(hd_tensors_get(inputs, 0));
}
static void straight_through(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user) {
    (void)saved, (void)user;
    results[0] = gradient;
}
static hd_tensor *signs(hd_tensor *w) {
    return hd_custom_gradient(sign_forward, straight_through, NULL, HD_TENSORS(w));
}

int main(void) {
    HD_SCOPE;
    hd_print(wave(hd_arange(0, 8, 1, HD_F32))); /* [ 1.  0. -1.  0.  1.  0. -1.  0.] */

    hd_seed(1);
    hd_tensor *x = hd_randn(HD_SHAPE(64, 6), HD_F32);                      /* [64,6] */
    hd_tensor *truth = HD_TENSOR_F32(HD_SHAPE(6, 1), 1, -1, -1, 1, 1, -1); /* [6,1] */
    hd_tensor *y = wave(hd_mul_scalar(hd_matmul(x, truth), 0.2));          /* [64,1] */
    hd_tensor *w = hd_param(hd_mul_scalar(hd_randn(HD_SHAPE(6, 1), HD_F32), 0.1));
    hd_optimizer *optimizer = hd_sgd(HD_TENSORS(w), 0.05, NULL);
    for (int step = 0; step < 200; ++step) {
        HD_SCOPE;
        hd_tensor *loss = hd_mse(wave(hd_mul_scalar(hd_matmul(x, signs(w)), 0.2)), y, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        if (step % 50 == 0) printf("step %3d  loss %.4f\n", step, hd_item(loss));
    }
    hd_print(hd_t(hd_sign(w))); /* [[ 1. -1. -1.  1.  1. -1.]], or all of them the other way round: the wave is even */
    const double same = hd_item(hd_abs(hd_sum(hd_mul(hd_sign(w), truth), HD_AXES(), NULL)));
    if (same != 6) {
        printf("only some of the signs were found\n");
        return 1;
    }
    return hd_exit_status();
}
