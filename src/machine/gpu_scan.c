/* Scans on GPUs: template_scan.h. */
#include "machine/gpu.h"

enum { THREADS = 64, SHORT = 32 /* a row that a thread takes alone */ };

typedef struct scan_arguments { /* as the template has it */
    int64_t offset[3];
    int64_t size, rows, inner, exclusive, reverse;
} scan_arguments;

/* What a scan combines, in the template's order. */
typedef enum what { SUM, PRODUCT, LOGARITHM, LARGEST, SMALLEST } what;

/* In which type it is computed: sums, products and logarithms of f32 in f64, where there is one; small floats in
 * f32. */
static hd_dtype computed_in(const hd_gpu_device *d, hd_dtype result, what of) {
    if (hd_dtype_is_small_float(result)) return HD_F32;
    if (result == HD_F32) return of < LARGEST && d->gpu->limits(d->device.index)->has_f64 ? HD_F64 : HD_F32;
    return result == HD_F64 || result == HD_U64 ? result : HD_I64;
}

static scan_arguments arguments_of(const hd_shape *shape, const hd_scan_attributes *a) {
    scan_arguments out = {.size = shape->rank == 0 ? 1 : shape->size[a->axis],
                          .rows = 1,
                          .inner = 1,
                          .exclusive = a->exclusive,
                          .reverse = a->reverse};
    for (int i = 0; i < shape->rank; ++i) {
        if (i != a->axis) out.rows *= shape->size[i];
        if (i > a->axis) out.inner *= shape->size[i];
    }
    return out;
}

static hd_error shoot(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, const hd_gpu_operands *o,
                      what of) {
    scan_arguments a = arguments_of(&call->shape[0], call->attributes);
    const bool has_places = o->to[1] != NULL;
    const hd_template_use use = {
        .which = HD_TEMPLATE_scan,
        .types = {(int32_t)computed_in(d, call->dtype[0], of), call->inputs[0]->dtype, (int32_t)call->dtype[0]},
        .numbers = {THREADS, (int32_t)of, 1 + 2 * has_places}};
    const bool one_each = a.size <= SHORT || (a.inner >= THREADS && a.rows >= a.size / 4);
    const hd_gpu_shot shot = {.use = &use,
                              .function = one_each ? "scan_side_by_side" : "scan_rows",
                              .groups = {hd_gpu_groups(a.rows, one_each ? THREADS : 1)},
                              .threads = THREADS,
                              .buffers = {o->from[0], o->to[0], has_places ? o->to[1] : o->to[0]},
                              .buffer_count = 3,
                              .arguments = &a,
                              .argument_bytes = sizeof a};
    return shot.groups[0] == 0 ? thread->error_code : hd_gpu_shoot(d, &shot);
}

static hd_error scan(hd_thread *thread, const hd_gpu_device *d, hd_call *call, what of) {
    hd_gpu_operands o;
    HD_TRY(hd_gpu_operands_begin(thread, d, call, 0, &o));
    hd_error status = HD_OK;
    if (hd_shape_count(call->shape[0]) > 0) status = shoot(thread, d, call, &o, of);
    return hd_gpu_operands_end(thread, call, &o, status);
}

#define SCAN(name, of)                                                                                                 \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return scan(thread, d, call, of);                                                                              \
    }
SCAN(cumsum, SUM)
SCAN(cumprod, PRODUCT)
SCAN(logcumsumexp, LOGARITHM)
SCAN(cummax, LARGEST)
SCAN(cummin, SMALLEST)
