/* A user's program, valid as C11 and as C++17, that structure/install compiles against an installed copy. */
#include <stdio.h>
#include <string.h>

#include <hodu/hodu.h>

/* Contexts end with their block, also as the objects that they are in C++, and however the block is left. */
static double gradient_at(double value) {
    hd_tensor *w = hd_param(hd_full(HD_SHAPE(), HD_F32, value));
    for (int i = 0; i < 3; ++i) {
        HD_GRAD_CONTEXT;
        hd_backward(hd_mul(w, w));
        HD_GRAD_CONTEXT_DEFAULT;
        if (hd_grad_context_id() != 0) return -1;
        HD_NO_GRAD;
        if (hd_tensor_requires_grad(hd_mul(w, w))) return -2;
        if (i == 1) break;
    }
    return hd_grad_context_id() == 0 && hd_tape_length() == 0 ? hd_item(hd_grad(w)) : -3;
}

int main(void) {
    HD_SCOPE;
    hd_tensor *x = hd_full(HD_SHAPE(2, 3), HD_F32, 1.5);
    hd_tensor *y = hd_add(hd_exp(hd_sub(x, x)), hd_mul_scalar(x, 2));
    const double total = hd_item(hd_sum(y, HD_AXES(), NULL));
    if (!hd_ok()) return fprintf(stderr, "%s\n", hd_error_message()), 1;
    if (total != 24 || strcmp(hd_version(), HD_VERSION_STRING) != 0)
        return fprintf(stderr, "%s gives %g\n", hd_version(), total), 1;
    if (gradient_at(3) != 12) return fprintf(stderr, "the gradient is %g\n", gradient_at(3)), 1; /* 6, twice */
    hd_forward(HD_SEQUENTIAL(hd_linear(3, 2, NULL), hd_linear(3, 2, NULL)), x);
    if (strstr(hd_error_message(), "; in linear 1 of sequential") == NULL ||
        strstr(hd_error_place(), "libhodu") != NULL)
        return fprintf(stderr, "%s (%s)\n", hd_error_message(), hd_error_place()), 1;
    hd_error_clear();
    printf("hodu %s, %g\n", hd_version(), total);
    return 0;
}
