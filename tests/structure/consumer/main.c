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

static int made;
static int64_t next(void) { return ++made; }
static hd_tensor *next_tensor(void) { return hd_scalar((double)next(), HD_F32); }

/* What stands in a list is made from left to right, in C++ as in C, so that a seed gives the same numbers. */
static const char *out_of_order(void) {
    HD_SCOPE;
    hd_seed(7);
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_linear(2, 2, NULL));
    hd_seed(7);
    hd_module *first = hd_linear(2, 2, NULL);
    if (!hd_allclose(hd_module_get(m, "0.weight"), hd_module_get(first, "weight"), NULL)) return "HD_SEQUENTIAL";
    hd_tensors *list = HD_TENSORS(next_tensor(), next_tensor(), next_tensor());
    list = hd_tensors_join(list, HD_TENSORS(next_tensor()));
    for (int i = 0; i < 4; ++i)
        if (hd_item(hd_tensors_get(list, i)) != i + 1) return "HD_TENSORS";
    made = 0;
    const hd_shape shape = HD_SHAPE(next(), next(), next());
    if (shape.rank != 3 || shape.size[0] != 1 || shape.size[2] != 3) return "HD_SHAPE";
    made = -1;
    const hd_axes axes = HD_AXES((int)next(), (int)next());
    if (axes.count != 2 || axes.axis[0] != 0 || axes.axis[1] != 1) return "HD_AXES";
    made = 0;
    if (hd_item_i64(hd_select(HD_TENSOR_I64(HD_SHAPE(2), next(), next()), 0, 1)) != 2) return "HD_TENSOR_I64";
    made = 0;
    if (hd_item(hd_select(HD_TENSOR_F32(HD_SHAPE(2), (float)next(), (float)next()), 0, 1)) != 2) return "HD_TENSOR_F32";
    made = 0;
    hd_tensor *stacked = HD_STACK_OF(0, next_tensor(), next_tensor());
    if (hd_item(hd_select(stacked, 0, 0)) != 1 || hd_item(hd_select(stacked, 0, 1)) != 2) return "HD_STACK_OF";
    made = 0;
    hd_tensor *joined = HD_CONCAT_OF(-1, hd_unsqueeze(next_tensor(), 0), hd_unsqueeze(next_tensor(), 0));
    if (hd_item(hd_select(joined, 0, 0)) != 1 || hd_item(hd_select(joined, 0, 1)) != 2) return "HD_CONCAT_OF";
    return NULL;
}

int main(void) {
    HD_SCOPE;
    if (out_of_order() != NULL) return fprintf(stderr, "%s is evaluated in another order\n", out_of_order()), 1;
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
