/* What tells places of a sequence apart: rotations of queries and keys, or waves that are added. */
#include "nn/module.h"
#include "ops/op.h"

/* Place times base^(-2i / d), for each of the d / 2 pairs: [t, d / 2], in the dtype that places of thousands need. */
static hd_tensor *angles_of(hd_tensor *positions, int64_t d, double base, hd_dtype dtype) {
    const hd_dtype wide = dtype == HD_F64 ? HD_F64 : HD_F32;
    hd_tensor *exponents = hd_range_beside(positions, 0, -2 * log(base) / (double)d, d / 2, wide);
    return hd_mul(hd_unsqueeze(hd_cast(positions, wide), 1), hd_exp(exponents));
}

static hd_error check_base(int64_t d, double base) {
    return d >= 2 && d % 2 == 0 && base > 0 && base < 1e300
               ? HD_OK
               : hd_fail(HD_ERROR_VALUE, "a width of %lld, and base %g; the width is even, and the base above 0",
                         (long long)d, base);
}

hd_tensor *hd_rotary(hd_tensor *x, hd_tensor *positions, double base) {
    HD_ENTER("hd_rotary", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const int rank = x->layout.shape.rank;
    const hd_dtype dtype = (hd_dtype)x->dtype;
    if (rank < 2 || !hd_dtype_is_float(dtype)) {
        hd_fail(HD_ERROR_SHAPE, "x %s of %s; it must be [..., t, d], of a float", HD_SHAPE_TEXT(x->layout.shape),
                hd_dtype_name(dtype));
        return NULL;
    }
    const int64_t steps = x->layout.shape.size[rank - 2], d = x->layout.shape.size[rank - 1];
    if (positions != NULL) HD_TRY_OR(hd_tensor_check(positions, "positions"), NULL);
    if (positions != NULL && (positions->layout.shape.rank != 1 || positions->count != steps)) {
        hd_fail(HD_ERROR_SHAPE, "positions %s; they are [%lld], one for each place of x",
                HD_SHAPE_TEXT(positions->layout.shape), (long long)steps);
        return NULL;
    }
    if (base == 0) base = 10000;
    HD_TRY_OR(check_base(d, base), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "rotary");
    if (positions == NULL) positions = hd_range_beside(x, 0, 1, steps, HD_I64);
    hd_tensor *angles = angles_of(positions, d, base, dtype);
    hd_tensor *sine = hd_cast(hd_sin(angles), dtype), *cosine = hd_cast(hd_cos(angles), dtype);
    hd_tensor *a = hd_narrow(x, -1, 0, d / 2), *b = hd_narrow(x, -1, d / 2, d / 2);
    hd_tensor *first = hd_sub(hd_mul(a, cosine), hd_mul(b, sine)), *second = hd_add(hd_mul(b, cosine), hd_mul(a, sine));
    return hd_span_end(&span, hd_ok() ? HD_CONCAT_OF(-1, first, second) : NULL);
}

hd_tensor *hd_sinusoids(int64_t count, int64_t width, double base, hd_dtype dtype) {
    HD_ENTER("hd_sinusoids", NULL);
    HD_TRY_OR(hd_making_dtype(thread, dtype, &dtype), NULL);
    if (base == 0) base = 10000;
    HD_TRY_OR(check_base(width, base), NULL);
    if (count < 1) {
        hd_fail(HD_ERROR_VALUE, "%lld places; there is one at least", (long long)count);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "sinusoids");
    hd_tensor *angles = angles_of(hd_range(0, 1, count, HD_I64), width, base, dtype);
    hd_tensor *waves = hd_ok() ? HD_STACK_OF(2, hd_sin(angles), hd_cos(angles)) : NULL;
    return hd_span_end(&span, hd_cast(hd_reshape(waves, HD_SHAPE(count, width)), dtype));
}
