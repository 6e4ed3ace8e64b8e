/* Two tensors compared: bit for bit, as O0 must be what dynamic execution does, or within rounding, as compiled code
 * is. */
#ifndef HD_TESTS_DIFFERENCES_H
#define HD_TESTS_DIFFERENCES_H

#include "core/dtype.h"
#include "support.h"

#include <math.h>

/* ---- bit for bit ------------------------------------------------------------------------------------------------- */
/* Same dtype, shape and bits; any two NaNs are the same. "" or what differs. */
static inline const char *difference(hd_tensor *a, hd_tensor *b) {
    static char why[256];
    if (!hd_ok() || a == NULL || b == NULL) return hd_ok() ? "one is NULL" : hd_error_message();
    if (hd_tensor_dtype(a) != hd_tensor_dtype(b) || !hd_shape_equal(hd_tensor_shape(a), hd_tensor_shape(b))) {
        snprintf(why, sizeof why, "%s of rank %d and %s of rank %d", hd_dtype_name(hd_tensor_dtype(a)),
                 hd_tensor_rank(a), hd_dtype_name(hd_tensor_dtype(b)), hd_tensor_rank(b));
        return why;
    }
    HD_SCOPE;
    HD_NO_GRAD;
    const hd_dtype dtype = hd_tensor_dtype(a);
    const size_t size = hd_dtype_size(dtype);
    const char *x = hd_data(hd_contiguous(a), dtype), *y = hd_data(hd_contiguous(b), dtype);
    if (!hd_ok()) return hd_error_message();
    for (int64_t i = 0; i < hd_tensor_count(a); ++i) {
        const char *p = x + (size_t)i * size, *q = y + (size_t)i * size;
        if (memcmp(p, q, size) == 0) continue;
        const double v = hd_element_to_f64(p, dtype), w = hd_element_to_f64(q, dtype);
        if (v != v && w != w) continue;
        snprintf(why, sizeof why, "element %lld of %lld is %.17g against %.17g", (long long)i,
                 (long long)hd_tensor_count(a), v, w);
        return why;
    }
    return "";
}
#define assert_identical(a, b)                                                                                         \
    do {                                                                                                               \
        const char *why_ = difference(a, b);                                                                           \
        if (why_[0] != '\0') fail_msg("%s", why_);                                                                     \
    } while (0)

/* ---- within rounding ----------------------------------------------------------------------------------------------
 * O0 is bit for bit what dynamic execution does. Compiled code rounds elsewhere: a product and a sum become one
 * operation, sums are taken in another order, functions are evaluated by other instructions. It agrees within a bound
 * that is said as a number of units of the dtype at the largest magnitude involved; integers, bools, NaNs and
 * infinities agree exactly. */
static inline double unit_of(hd_dtype dtype) { /* from 1 to the next number; twice the error of one rounding */
    switch ((int)dtype) {
    case HD_F64: return 0x1p-52;
    case HD_F32: return 0x1p-23;
    case HD_F16: return 0x1p-10;
    case HD_BF16: return 0x1p-7;
    case HD_F8E4M3: return 0x1p-3;
    case HD_F8E5M2: return 0x1p-2;
    default: return 0;
    }
}
static inline double smallest_of(hd_dtype dtype) { /* the least positive number: rounding is no finer near 0 */
    switch ((int)dtype) {
    case HD_F64: return 0x1p-1074;
    case HD_F32: return 0x1p-149;
    case HD_F16: return 0x1p-24;
    case HD_BF16: return 0x1p-133;
    case HD_F8E4M3: return 0x1p-9;
    case HD_F8E5M2: return 0x1p-16;
    default: return 0;
    }
}

/* The largest finite magnitude among the elements; 0 without any. */
static inline double largest_of(hd_tensor *t) {
    HD_SCOPE;
    HD_NO_GRAD;
    double most = 0;
    hd_tensor *wide = t == NULL ? NULL : hd_contiguous(hd_cast(t, HD_F64));
    const double *v = wide == NULL ? NULL : hd_data(wide, HD_F64);
    for (int64_t i = 0; v != NULL && i < hd_tensor_count(wide); ++i)
        if (isfinite(v[i]) && fabs(v[i]) > most) most = fabs(v[i]);
    return most;
}

/* Same dtype and shape, and no element further apart than `bound`. A bound of 0: bit for bit. "" or what differs. */
static inline const char *difference_within(hd_tensor *a, hd_tensor *b, double bound) {
    static char why[256];
    const char *exactly = difference(a, b);
    if (exactly[0] == '\0' || !(bound > 0) || !hd_ok() || a == NULL || b == NULL ||
        !hd_dtype_is_float(hd_tensor_dtype(a)) || hd_tensor_dtype(a) != hd_tensor_dtype(b) ||
        !hd_shape_equal(hd_tensor_shape(a), hd_tensor_shape(b)))
        return exactly;
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *wide[2] = {hd_contiguous(hd_cast(a, HD_F64)), hd_contiguous(hd_cast(b, HD_F64))};
    const double *x = hd_data(wide[0], HD_F64), *y = hd_data(wide[1], HD_F64);
    if (!hd_ok()) return hd_error_message();
    for (int64_t i = 0; i < hd_tensor_count(a); ++i) {
        if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) || fabs(x[i] - y[i]) <= bound) continue;
        snprintf(why, sizeof why, "element %lld of %lld is %.17g against %.17g, allowed is a difference of %.3g",
                 (long long)i, (long long)hd_tensor_count(a), x[i], y[i], bound);
        return why;
    }
    return "";
}

/* So many units of its dtype at the largest element of what is expected. For results of one op, or of a model whose
 * values are all of one size: what cancels on the way asks for a bound of its own. */
static inline double units_at_largest(hd_tensor *expected, double units) {
    return units * unit_of(hd_tensor_dtype(expected)) * largest_of(expected) + smallest_of(hd_tensor_dtype(expected));
}
#define assert_within_units(a, b, units)                                                                               \
    do {                                                                                                               \
        const char *why_ = difference_within(a, b, units_at_largest(b, units));                                        \
        if (why_[0] != '\0') fail_msg("%s", why_);                                                                     \
    } while (0)

#endif
