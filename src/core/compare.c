/* Comparing tensors, with an explanation. */
#include "core/options.h"
#include "core/tensor.h"

#include <math.h>
#include <stdio.h>

typedef struct difference {
    int64_t count, worst_index;
    double worst, a, b;
} difference;

/* How far a and b are apart beyond what is allowed; 0 when they agree. */
static double beyond(double a, double b, const hd_allclose_opts *o) {
    if (a == b) return 0;
    if (a != a || b != b) return a != a && b != b && !o->nan_differs ? 0 : INFINITY;
    if (isinf(a) || isinf(b)) return INFINITY;
    const double apart = fabs(a - b);
    return apart <= o->absolute + o->relative * fabs(b) ? 0 : apart;
}

static int64_t offset_at(const hd_layout *layout, int64_t index) {
    int64_t offset = layout->offset;
    for (int i = layout->shape.rank - 1; i >= 0; --i) {
        offset += index % layout->shape.size[i] * layout->stride[i];
        index /= layout->shape.size[i];
    }
    return offset;
}

static void explain_difference(const hd_allclose_opts *o, const hd_shape *shape, int64_t total, const difference *d) {
    if (o->explain == NULL || o->explain_capacity == 0) return;
    hd_shape at = {.rank = shape->rank};
    int64_t index = d->worst_index;
    for (int i = shape->rank - 1; i >= 0; --i) {
        at.size[i] = index % shape->size[i];
        index /= shape->size[i];
    }
    snprintf(o->explain, o->explain_capacity,
             "%lld of %lld elements differ; the most at %s: %.9g against %.9g, %.3g apart (%.3g relative)",
             (long long)d->count, (long long)total, HD_SHAPE_TEXT(at), d->a, d->b, fabs(d->a - d->b),
             fabs(d->a - d->b) / fabs(d->b));
}

bool hd_allclose(const hd_tensor *a, const hd_tensor *b, const hd_allclose_opts *opts) {
    HD_ENTER("hd_allclose", false);
    HD_TRY_OR(hd_tensor_check(a, "a"), false);
    HD_TRY_OR(hd_tensor_check(b, "b"), false);
    HD_READ_OPTS(hd_allclose_opts, opts, false);
    if (options.relative == 0 && !signbit(options.relative)) options.relative = 1e-5; /* HD_ZERO says zero */
    if (options.absolute == 0 && !signbit(options.absolute)) options.absolute = 1e-8;
    if (options.explain != NULL && options.explain_capacity > 0) options.explain[0] = '\0';
    if (!hd_shape_equal(a->layout.shape, b->layout.shape)) {
        if (options.explain != NULL)
            snprintf(options.explain, options.explain_capacity, "shapes %s and %s differ",
                     HD_SHAPE_TEXT(a->layout.shape), HD_SHAPE_TEXT(b->layout.shape));
        return false;
    }
    const char *x = hd_storage_bytes(thread, a->storage, HD_READ), *y = hd_storage_bytes(thread, b->storage, HD_READ);
    if (x == NULL || y == NULL) return false;
    difference d = {0};
    for (int64_t i = 0; i < a->count; ++i) {
        const double p = hd_element_to_f64(x + offset_at(&a->layout, i) * hd_dtype_bytes[a->dtype], (hd_dtype)a->dtype);
        const double q = hd_element_to_f64(y + offset_at(&b->layout, i) * hd_dtype_bytes[b->dtype], (hd_dtype)b->dtype);
        const double apart = beyond(p, q, &options);
        if (apart == 0) continue;
        if (d.count++ == 0 || apart > d.worst) {
            d.worst = apart;
            d.worst_index = i;
            d.a = p;
            d.b = q;
        }
    }
    if (d.count > 0) explain_difference(&options, &a->layout.shape, a->count, &d);
    return d.count == 0;
}
