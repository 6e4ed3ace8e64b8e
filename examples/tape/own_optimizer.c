/* An optimizer of your own is a struct and a function that updates one parameter. zero_grad comes with it, and does the
 * same for every optimizer: gradients to zero, then the tape of context 0, and of no other, is emptied. */
#include "check.h"

/* Gradient descent that trusts no single number too much. */
typedef struct clipped_descent {
    double limit;
} clipped_descent;

static void clipped_update(hd_optimizer *optimizer, void *state, hd_tensor *parameter, hd_tensor *gradient,
                           hd_tensor *const *slot) {
    (void)slot; /* it keeps nothing per parameter */
    const clipped_descent *self = state;
    hd_tensor *direction = hd_clamp(gradient, -self->limit, self->limit);
    hd_sub_(parameter, hd_mul(direction, hd_optimizer_learning_rate(optimizer)));
}

static const hd_optimizer_class clipped_class = {.name = "clipped descent", .update = clipped_update};

int main(void) {
    HD_SCOPE;
    hd_seed(2);
    hd_tensor *input = hd_randn(HD_SHAPE(32, 10), HD_F32);
    hd_tensor *weight = hd_param(hd_randn(HD_SHAPE(10, 5), HD_F32));
    clipped_descent settings = {.limit = 0.02};
    hd_optimizer *optimizer = hd_optimizer_new(&clipped_class, &settings, HD_TENSORS(weight), 0.01);

    hd_tensor *start = snapshot(weight), *gradient = gradient_of_mean(input, weight);
    for (int epoch = 0; epoch < 100; ++epoch) {
        HD_SCOPE;
        hd_backward(hd_mean(hd_matmul(input, weight), HD_AXES(), NULL));
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        CHECK_CLOSE(hd_grad(weight), hd_zeros_like(gradient)); /* 1. the gradients of the parameters */
        CHECK_EQUAL(hd_tape_length(), 0);                      /* 2. the tape of context 0 */
    }
    CHECK_CLOSE(weight, hd_sub(start, hd_clamp(gradient, -0.02, 0.02)));
    CHECK_EQUAL(hd_item_i64(hd_cast(hd_optimizer_steps(optimizer), HD_I64)), 100);

    /* Another context's tape is not the optimizer's to clear. */
    hd_mul_scalar(weight, 2); /* a record on the tape of context 0 */
    CHECK(hd_tape_length() > 0);
    {
        HD_GRAD_CONTEXT;
        hd_mul_scalar(weight, 2);
        const int64_t records = hd_tape_length();
        CHECK(records > 0);
        hd_optimizer_zero_grad(optimizer);
        CHECK_EQUAL(hd_tape_length(), records);
    }
    CHECK_EQUAL(hd_tape_length(), 0); /* context 0 again: this one it cleared */
    puts("an optimizer of our own: 100 steps, zero_grad clears context 0 and nothing else");
    return hd_exit_status();
}
