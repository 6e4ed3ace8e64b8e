/* Creation: constant fills and ranges. */
#include "device/cpu/cpu.h"

#include <string.h>

static void fill_bytes(char *data, int64_t count, size_t bytes, const void *value) {
    bool zero = true;
    for (size_t i = 0; i < bytes; ++i) zero = zero && ((const char *)value)[i] == 0;
    if (zero) {
        memset(data, 0, (size_t)count * bytes);
        return;
    }
#define FILL(U)                                                                                                        \
    {                                                                                                                  \
        U v;                                                                                                           \
        memcpy(&v, value, sizeof v);                                                                                   \
        for (int64_t i = 0; i < count; ++i) ((U *)data)[i] = v;                                                        \
        break;                                                                                                         \
    }
    switch (bytes) {
    case 1: memset(data, *(const unsigned char *)value, (size_t)count); break;
    case 2: FILL(uint16_t)
    case 4: FILL(uint32_t)
    default: FILL(uint64_t)
    }
#undef FILL
}

static bool is_whole(double v) { return v > -0x1p63 && v < 0x1p63 && v == (double)(int64_t)v; }

static void fill_range(hd_tensor *out, const hd_range_attributes *a) {
    const size_t bytes = hd_dtype_bytes[out->dtype];
    char *data = out->storage->data;
    const bool whole = out->dtype == HD_I64 && !a->has_last && is_whole(a->start) && is_whole(a->step);
    for (int64_t i = 0; i < out->count; ++i) {
        const double value = a->has_last && i == out->count - 1 ? a->last : a->start + (double)i * a->step;
        int64_t exact; /* also past 2^53 */
        if (whole && !__builtin_mul_overflow(i, (int64_t)a->step, &exact) &&
            !__builtin_add_overflow(exact, (int64_t)a->start, &exact))
            ((int64_t *)data)[i] = exact;
        else
            hd_element_from_f64(data + (size_t)i * bytes, (hd_dtype)out->dtype, value);
    }
}

hd_error hd_cpu_empty(hd_thread *thread, hd_call *call) { return hd_cpu_outputs(thread, call); }

hd_error hd_cpu_range(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    fill_range(call->outputs[0], call->attributes);
    return HD_OK;
}

hd_error hd_cpu_full(hd_thread *thread, hd_call *call) {
    HD_TRY(hd_cpu_outputs(thread, call));
    hd_tensor *out = call->outputs[0];
    double value = 0;
    hd_element_from_f64(&value, (hd_dtype)out->dtype, ((const hd_full_attributes *)call->attributes)->value);
    fill_bytes(out->storage->data, out->count, hd_dtype_bytes[out->dtype], &value);
    return HD_OK;
}
