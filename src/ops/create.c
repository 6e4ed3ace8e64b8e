/* Creation ops. */
#include "ops/op.h"

#include <math.h>

/* On the device of `beside`; NULL: on that of the thread. */
static hd_tensor *create(hd_thread *thread, hd_op_id id, const hd_tensor *beside, const hd_shape *shape, hd_dtype dtype,
                         const void *attributes) {
    int64_t count;
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_call call;
    hd_call_init(&call, &hd_ops[id], NULL, 0, dtype, shape, attributes);
    call.beside = beside;
    return hd_execute(thread, &call);
}

static hd_tensor *full(hd_thread *thread, const hd_tensor *beside, const hd_shape *shape, double value,
                       hd_dtype dtype) {
    const hd_full_attributes attributes = {value};
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    HD_TRY_OR(hd_number_check(dtype, value), NULL);
    return create(thread, HD_OP_full, beside, shape, dtype, &attributes);
}

hd_tensor *hd_full(hd_shape shape, hd_dtype dtype, double value) {
    HD_ENTER("hd_full", NULL);
    return full(thread, NULL, &shape, value, dtype);
}

hd_tensor *hd_zeros(hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_zeros", NULL);
    return full(thread, NULL, &shape, 0, dtype);
}

hd_tensor *hd_ones(hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_ones", NULL);
    return full(thread, NULL, &shape, 1, dtype);
}

hd_tensor *hd_empty(hd_shape shape, hd_dtype dtype) {
    HD_ENTER("hd_empty", NULL);
    const hd_full_attributes attributes = {0};
    return create(thread, HD_OP_empty, NULL, &shape, dtype, &attributes);
}

#define LIKE(name, ...)                                                                                                \
    HD_ENTER(name, NULL);                                                                                              \
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);                                                                          \
    return full(thread, x, &x->layout.shape, __VA_ARGS__, (hd_dtype)x->dtype)

hd_tensor *hd_zeros_like(hd_tensor *x) { LIKE("hd_zeros_like", 0); }
hd_tensor *hd_ones_like(hd_tensor *x) { LIKE("hd_ones_like", 1); }
hd_tensor *hd_full_like(hd_tensor *x, double value) { LIKE("hd_full_like", value); }

hd_tensor *hd_empty_like(hd_tensor *x) {
    HD_ENTER("hd_empty_like", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const hd_full_attributes attributes = {0};
    return create(thread, HD_OP_empty, x, &x->layout.shape, (hd_dtype)x->dtype, &attributes);
}

hd_tensor *hd_full_beside(const hd_tensor *x, hd_shape shape, hd_dtype dtype, double value) {
    HD_ENTER("hd_full", NULL);
    return full(thread, x, &shape, value, dtype);
}

hd_tensor *hd_number(hd_dtype dtype, double value) {
    static hd_storage here = {.device = {HD_DEVICE_CPU, 0}};
    static const hd_tensor anywhere = {.storage = &here};
    HD_ENTER("hd_full", NULL);
    return full(thread, &anywhere, &(hd_shape){.rank = 0}, value, dtype);
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */
static hd_tensor *range(hd_thread *thread, const hd_tensor *beside, const hd_range_attributes *a, double count,
                        hd_dtype dtype) {
    if (!(count >= 0 && count < 0x1p62)) {
        hd_fail(count < 0 ? HD_ERROR_VALUE : HD_ERROR_OVERFLOW, "a range of %g elements", count);
        return NULL;
    }
    const hd_shape shape = {.rank = 1, .size = {(int64_t)count}};
    return create(thread, HD_OP_range, beside, &shape, dtype, a);
}

hd_tensor *hd_range(double start, double step, int64_t count, hd_dtype dtype) {
    HD_ENTER("hd_range", NULL);
    return range(thread, NULL, &(hd_range_attributes){.start = start, .step = step}, (double)count, dtype);
}

hd_tensor *hd_range_beside(const hd_tensor *x, double start, double step, int64_t count, hd_dtype dtype) {
    HD_ENTER("hd_range", NULL);
    return range(thread, x, &(hd_range_attributes){.start = start, .step = step}, (double)count, dtype);
}

hd_tensor *hd_arange(double start, double stop, double step, hd_dtype dtype) {
    HD_ENTER("hd_arange", NULL);
    if (step == 0 || !isfinite(start) || !isfinite(stop) || !isfinite(step)) {
        hd_fail(HD_ERROR_VALUE, "from %g to %g in steps of %g; all must be finite and the step not 0", start, stop,
                step);
        return NULL;
    }
    const double count = ceil((stop - start) / step);
    return range(thread, NULL, &(hd_range_attributes){.start = start, .step = step}, count > 0 ? count : 0, dtype);
}

hd_tensor *hd_linspace(double start, double stop, int64_t count, hd_dtype dtype) {
    return hd_linspace_beside(NULL, start, stop, count, dtype);
}
hd_tensor *hd_linspace_beside(const hd_tensor *x, double start, double stop, int64_t count, hd_dtype dtype) {
    HD_ENTER("hd_linspace", NULL);
    const double way = stop - start, steps = (double)(count - 1);
    const double step = count < 2 ? 0 : isinf(way) ? stop / steps - start / steps : way / steps;
    return range(
        thread, x,
        &(hd_range_attributes){.start = start, .step = step, .last = count > 1 ? stop : 0, .has_last = count > 1},
        (double)count, dtype);
}

hd_tensor *hd_logspace(double start, double stop, int64_t count, hd_dtype dtype) {
    HD_ENTER("hd_logspace", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    hd_span span;
    hd_span_begin(&span, thread,
                  "logspace"); /* in f64: a rounded exponent would be many times its error in the power */
    return hd_span_end(&span, hd_cast(hd_exp10(hd_linspace(start, stop, count, HD_F64)), dtype));
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */
/* rows - columns: where a row's number stands against a column's, [rows, columns]. */
static hd_tensor *distance(hd_thread *thread, const hd_tensor *beside, int64_t rows, int64_t columns) {
    const hd_range_attributes numbers = {.start = 0, .step = 1};
    hd_tensor *r = range(thread, beside, &numbers, (double)rows, HD_I64),
              *c = range(thread, beside, &numbers, (double)columns, HD_I64);
    return hd_sub(hd_unsqueeze(r, 1), c);
}

hd_tensor *hd_eye(int64_t rows, int64_t columns, hd_dtype dtype) {
    HD_ENTER("hd_eye", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "eye");
    return hd_span_end(&span, hd_cast(hd_eq_scalar(distance(thread, NULL, rows, columns), 0), dtype));
}

hd_tensor *hd_tri(int64_t rows, int64_t columns, int64_t diagonal, hd_dtype dtype) {
    return hd_tri_beside(NULL, rows, columns, diagonal, dtype);
}
hd_tensor *hd_tri_beside(const hd_tensor *x, int64_t rows, int64_t columns, int64_t diagonal, hd_dtype dtype) {
    HD_ENTER("hd_tri", NULL);
    HD_TRY_OR(hd_dtype_resolve(thread, dtype, &dtype), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "tri");
    return hd_span_end(&span, hd_cast(hd_ge_scalar(distance(thread, x, rows, columns), -(double)diagonal), dtype));
}

/* ---- replays ----------------------------------------------------------------------------------------------------- */
void hd_replay_full(hd_replay_call *r) {
    r->output = hd_full(*r->shape, r->dtype, ((const hd_full_attributes *)r->attributes)->value);
}
void hd_replay_empty(hd_replay_call *r) { r->output = hd_empty(*r->shape, r->dtype); }
void hd_replay_range(hd_replay_call *r) {
    const hd_range_attributes *a = r->attributes;
    const int64_t count = r->shape->rank == 1 ? r->shape->size[0] : -1;
    r->output = a->has_last && count >= 0 ? hd_linspace(a->start, a->last, count, r->dtype)
                                          : hd_range(a->start, a->step, count, r->dtype);
}
