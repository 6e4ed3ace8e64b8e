/* What the library knows of dtypes: kinds, compute types, and the small floats. */
#ifndef HD_CORE_DTYPE_H
#define HD_CORE_DTYPE_H

#include "core/error.h"

/* The types kernels compute in. Small floats compute in f32. X(NAME, name of the type in kernels) */
#define HD_COMPUTE_LIST(X)                                                                                             \
    X(B8, b8)                                                                                                          \
    X(U8, u8) X(U16, u16) X(U32, u32) X(U64, u64) X(I8, i8) X(I16, i16) X(I32, i32) X(I64, i64) X(F32, f32) X(F64, f64)
#define HD_COMPUTE_ENUM(NAME, name) HD_COMPUTE_##NAME,
typedef enum hd_compute { HD_COMPUTE_LIST(HD_COMPUTE_ENUM) HD_COMPUTE_COUNT } hd_compute;
#undef HD_COMPUTE_ENUM

extern const uint8_t hd_dtype_bytes[HD_DTYPE_COUNT];
extern const uint8_t hd_dtype_compute[HD_DTYPE_COUNT]; /* hd_compute */
/* The dtype whose elements a compute type is made of; behind them that of conditions (kernel/ir.h), bool. */
extern const uint8_t hd_compute_dtype[HD_COMPUTE_COUNT + 1];
static inline int hd_compute_bytes(int type) { return hd_dtype_bytes[hd_compute_dtype[type]]; }
static inline bool hd_compute_is_float(int type) { return type == HD_COMPUTE_F32 || type == HD_COMPUTE_F64; }
static inline bool hd_compute_is_signed(int type) { return type >= HD_COMPUTE_I8 && type <= HD_COMPUTE_I64; }

static inline bool hd_dtype_valid(hd_dtype d) { return d > HD_DTYPE_DEFAULT && d < HD_DTYPE_COUNT; }
static inline bool hd_dtype_is_small_float(hd_dtype d) { return d >= HD_F8E4M3 && d <= HD_F16; }
static inline bool hd_dtype_is_signed(hd_dtype d) { return d >= HD_I8; }

/* The dtype a caller means: the thread's default float for HD_DTYPE_DEFAULT; an error for what is no dtype. */
hd_error hd_dtype_resolve(const hd_thread *thread, hd_dtype given, hd_dtype *out);

/* The dtype in which a tensor of dtype `t` meets a C number: it never widens a float. */
hd_dtype hd_dtype_with_number(const hd_thread *thread, hd_dtype t, double number);

/* True when an element of the dtype can hold the number: integers take whole numbers in their range, bool any. */
bool hd_number_fits(hd_dtype dtype, double number);
/* Checks that it fits; else an error that says so. */
hd_error hd_number_check(hd_dtype dtype, double number);

/* One element as the widest type of its kind; stores saturate, NaN gives 0 in integers. */
double hd_element_to_f64(const void *element, hd_dtype dtype);
int64_t hd_element_to_i64(const void *element, hd_dtype dtype);
void hd_element_from_f64(void *element, hd_dtype dtype, double value);

#endif
