/* Single elements of any dtype, and the dtypes callers mean. */
#include "core/dtype.h"
#include "core/small_float.h"

#include <math.h>

hd_dtype hd_default_dtype(void) {
    const hd_thread *t = hd_thread_self();
    return t == NULL ? HD_F32 : t->default_dtype;
}

void hd_set_default_dtype(hd_dtype dtype) {
    HD_ENTER("hd_set_default_dtype", );
    if (dtype != HD_F16 && dtype != HD_BF16 && dtype != HD_F32 && dtype != HD_F64)
        hd_fail(HD_ERROR_DTYPE, "%s cannot be the default; use f16, bf16, f32 or f64", hd_dtype_name(dtype));
    else
        thread->default_dtype = dtype;
}

hd_error hd_dtype_resolve(const hd_thread *thread, hd_dtype given, hd_dtype *out) {
    *out = given == HD_DTYPE_DEFAULT ? thread->default_dtype : given;
    if ((unsigned)given >= HD_DTYPE_COUNT)
        return hd_fail(HD_ERROR_DTYPE, "%d is no dtype; they are HD_BOOL to HD_F64, or HD_DTYPE_DEFAULT", (int)given);
    return HD_OK;
}

hd_dtype hd_dtype_with_number(const hd_thread *thread, hd_dtype t, double number) {
    if (hd_dtype_is_float(t)) return t;
    const bool whole = number == floor(number) && fabs(number) < 0x1p63;
    if (!whole) return thread->default_dtype;
    return t == HD_BOOL ? HD_I64 : t;
}

bool hd_number_fits(hd_dtype dtype, double number) {
    double element = 0;
    if (hd_dtype_is_float(dtype) || dtype == HD_BOOL) return true;
    hd_element_from_f64(&element, dtype, number);
    return hd_element_to_f64(&element, dtype) == number;
}

hd_error hd_number_check(hd_dtype dtype, double number) {
    if (hd_number_fits(dtype, number)) return HD_OK;
    return hd_fail(HD_ERROR_VALUE,
                   "%.17g does not fit %s; use a number that does, or cast the tensor to a wider dtype or a float",
                   number, hd_dtype_name(dtype));
}

#define LOAD(type) (*(const type *)element)
double hd_element_to_f64(const void *element, hd_dtype dtype) {
    switch (dtype) {
    case HD_BOOL: return LOAD(uint8_t) != 0;
    case HD_U8: return LOAD(uint8_t);
    case HD_U16: return LOAD(uint16_t);
    case HD_U32: return LOAD(uint32_t);
    case HD_U64: return (double)LOAD(uint64_t);
    case HD_I8: return LOAD(int8_t);
    case HD_I16: return LOAD(int16_t);
    case HD_I32: return LOAD(int32_t);
    case HD_I64: return (double)LOAD(int64_t);
    case HD_F8E4M3: return (double)hd_f8e4m3_decode(LOAD(uint8_t));
    case HD_F8E5M2: return (double)hd_f8e5m2_decode(LOAD(uint8_t));
    case HD_BF16: return (double)hd_bf16_decode(LOAD(uint16_t));
    case HD_F16: return (double)hd_f16_decode(LOAD(uint16_t));
    case HD_F32: return (double)LOAD(float);
    case HD_F64: return LOAD(double);
    case HD_DTYPE_DEFAULT:
    case HD_DTYPE_COUNT: break;
    }
    return NAN;
}

static double clip(double v, double lowest, double highest) { /* highest is exclusive at the 64-bit types */
    return v != v ? 0 : v < lowest ? lowest : v > highest ? highest : v;
}
static int64_t to_i64(double v) { return v != v ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v; }
static uint64_t to_u64(double v) { return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v; }

int64_t hd_element_to_i64(const void *element, hd_dtype dtype) {
    if (dtype == HD_I64) return LOAD(int64_t);
    if (dtype == HD_U64) return LOAD(uint64_t) > INT64_MAX ? INT64_MAX : (int64_t)LOAD(uint64_t);
    return to_i64(hd_element_to_f64(element, dtype));
}
#undef LOAD

#define STORE(type, v) (*(type *)element = (type)(v))
void hd_element_from_f64(void *element, hd_dtype dtype, double v) {
    switch (dtype) {
    case HD_BOOL: STORE(uint8_t, v != 0); break;
    case HD_U8: STORE(uint8_t, clip(v, 0, UINT8_MAX)); break;
    case HD_U16: STORE(uint16_t, clip(v, 0, UINT16_MAX)); break;
    case HD_U32: STORE(uint32_t, clip(v, 0, UINT32_MAX)); break;
    case HD_U64: STORE(uint64_t, to_u64(v)); break;
    case HD_I8: STORE(int8_t, clip(v, INT8_MIN, INT8_MAX)); break;
    case HD_I16: STORE(int16_t, clip(v, INT16_MIN, INT16_MAX)); break;
    case HD_I32: STORE(int32_t, clip(v, INT32_MIN, INT32_MAX)); break;
    case HD_I64: STORE(int64_t, to_i64(v)); break;
    case HD_F8E4M3: STORE(uint8_t, hd_f8e4m3_encode(hd_f32_round_to_odd(v))); break;
    case HD_F8E5M2: STORE(uint8_t, hd_f8e5m2_encode(hd_f32_round_to_odd(v))); break;
    case HD_BF16: STORE(uint16_t, hd_bf16_encode(hd_f32_round_to_odd(v))); break;
    case HD_F16: STORE(uint16_t, hd_f16_encode(hd_f32_round_to_odd(v))); break;
    case HD_F32: STORE(float, v); break;
    case HD_F64: STORE(double, v); break;
    case HD_DTYPE_DEFAULT:
    case HD_DTYPE_COUNT: break;
    }
}
#undef STORE
