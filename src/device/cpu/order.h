/* Elements as whole numbers in the same order: NaN behind all others, -0 equal to 0. */
#ifndef HD_DEVICE_CPU_ORDER_H
#define HD_DEVICE_CPU_ORDER_H

#include "core/dtype.h"

#include <string.h>

/* The key of a float of `bits` bits. */
static inline uint64_t hd_order_of_float(uint64_t raw, int bits, bool is_nan) {
    const uint64_t sign = (uint64_t)1 << (bits - 1), magnitude = raw & (sign - 1);
    if (is_nan) return UINT64_MAX;
    if (magnitude == 0) return sign;
    return raw & sign ? sign - magnitude : sign + magnitude;
}

/* The key of the element at p. Quick where the dtype is a constant. */
static inline uint64_t hd_order_of(const char *p, hd_dtype dtype) {
    const size_t bytes = hd_dtype_bytes[dtype];
    const int bits = (int)bytes * 8;
    uint64_t raw = 0;
    if (dtype == HD_F32) {
        uint32_t word;
        memcpy(&word, p, 4);
        return hd_order_of_float(word, 32, (word & 0x7fffffff) > 0x7f800000);
    }
    if (dtype == HD_I32) {
        uint32_t word;
        memcpy(&word, p, 4);
        return word ^ (uint32_t)1 << 31;
    }
    if (dtype == HD_F64 || dtype == HD_I64) {
        memcpy(&raw, p, 8);
        const uint64_t sign = (uint64_t)1 << 63;
        return dtype == HD_I64 ? raw ^ sign : hd_order_of_float(raw, 64, (raw & (sign - 1)) > (uint64_t)0x7ff << 52);
    }
    memcpy(&raw, p, bytes);
    if (hd_dtype_is_float(dtype)) {
        const double value = hd_element_to_f64(p, dtype);
        return hd_order_of_float(raw, bits, value != value);
    }
    return hd_dtype_is_signed(dtype) ? raw ^ (uint64_t)1 << (bits - 1) : raw;
}

#endif
