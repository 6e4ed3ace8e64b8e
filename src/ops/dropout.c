/* Dropout: composites over a draw, a comparison and a choice. The mask is a value of the graph like any other: at once
 * it is kept for backward, a byte for each element; kernels of scripts draw it again wherever they need it, forwards
 * and backwards, so that it is in no memory there (src/fuse/fuse_recompute.c). */
#include "ops/op.h"

#include <math.h>

static hd_error check_dropout(const hd_tensor *x, double p) {
    HD_TRY(hd_tensor_check(x, "x"));
    if (!hd_dtype_is_float((hd_dtype)x->dtype))
        return hd_fail(HD_ERROR_DTYPE, "x is %s; expected floats, as what is kept is scaled",
                       hd_dtype_name((hd_dtype)x->dtype));
    if (!(p >= 0 && p <= 1)) return hd_fail(HD_ERROR_VALUE, "%g is no probability; it must be in [0, 1]", p);
    return HD_OK;
}

/* scale * x + offset where x is kept, else `dropped`. Small floats are rounded once, at the end. */
static hd_tensor *drop(hd_thread *thread, const char *name, hd_tensor *x, double p, double scale, double offset,
                       double dropped) {
    const hd_dtype dtype = (hd_dtype)x->dtype;
    hd_drawing drawing;
    hd_drawing_begin(&drawing, thread, name);
    hd_tensor *kept = hd_ge_scalar(hd_rand_beside(x, HD_F32), p);
    hd_tensor *y = hd_mul_scalar(dtype == HD_F64 ? x : hd_cast(x, HD_F32), scale);
    if (offset != 0) y = hd_add_scalar(y, offset);
    return hd_drawing_end(&drawing, hd_cast(hd_where_scalar(kept, y, dropped), dtype));
}

hd_tensor *hd_dropout(hd_tensor *x, double p) {
    HD_ENTER("hd_dropout", NULL);
    HD_TRY_OR(check_dropout(x, p), NULL);
    if (p == 0) return hd_copy(x);
    return drop(thread, "dropout", x, p, p == 1 ? 0 : 1 / (1 - p), 0, 0); /* no infinity, which 0 would make NaN */
}

hd_tensor *hd_alpha_dropout(hd_tensor *x, double p) {
    HD_ENTER("hd_alpha_dropout", NULL);
    HD_TRY_OR(check_dropout(x, p), NULL);
    if (p == 0) return hd_copy(x);
    static const double floor = -1.7580993408473768599; /* selu far below 0 */
    const double scale = p == 1 ? 0 : 1 / sqrt((1 - p) * (1 + p * floor * floor));
    const double dropped = p == 1 ? 0 : scale * (1 - p) * floor;
    return drop(thread, "alpha_dropout", x, p, scale, -scale * p * floor, dropped);
}
