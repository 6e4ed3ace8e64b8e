/* Least squares by gradient descent, the gradient by hand. */
#include <hodu/hodu.h>
#include <stdio.h>

int main(void) {
    HD_SCOPE; /* what is made below goes at the end of the block */
    hd_seed(42);
    hd_tensor *x = hd_randn(HD_SHAPE(100, 3), HD_F32);         /* [100,3] */
    hd_tensor *w = HD_TENSOR_F32(HD_SHAPE(3, 1), 2, -1, 0.5f); /* [3,1] */
    hd_tensor *y = hd_add_scalar(hd_matmul(x, w), 3);          /* [100,1]: calls nest */
    hd_tensor *v = hd_zeros(HD_SHAPE(3, 1), HD_F32), *b = hd_zeros(HD_SHAPE(1), HD_F32);

    for (int step = 0; step < 500; ++step) {                      /* least squares, its gradient by hand */
        HD_SCOPE;                                                 /* each step's tensors go with it */
        hd_tensor *error = hd_sub(hd_add(hd_matmul(x, v), b), y); /* [100,1] */
        hd_sub_(v, hd_mul_scalar(hd_matmul(hd_t(x), error), 0.2 / 100));
        hd_sub_(b, hd_mul_scalar(hd_sum(error, HD_AXES(0), NULL), 0.2 / 100));
    }
    hd_print(v); /* [[ 2. ] [-1. ] [ 0.5]], nearly */
    printf("bias %.3f\n", hd_item(b));
    if (!hd_allclose(v, w, HD_OPTS(hd_allclose_opts, .relative = 1e-4))) return 1;
    return hd_exit_status(); /* one check is enough: errors stick */
}
