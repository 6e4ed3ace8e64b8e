/* Tensors: strided views over shared storage, rank 0 to 8, sizes may be 0. Ops on them are in ops.h. */
#ifndef HODU_TENSOR_H
#define HODU_TENSOR_H

#include <hodu/base.h>
#include <hodu/device.h>
#include <hodu/dtype.h>
#include <hodu/scope.h>
#include <hodu/shape.h>

typedef struct hd_tensor hd_tensor;
/* What an op with two results gives: both NULL when an error is pending. */
typedef struct hd_pair {
    hd_tensor *values, *indices; /* indices: i64 */
} hd_pair;
/* What hd_unique gives: all NULL when an error is pending. */
typedef struct hd_uniques {
    hd_tensor *values;  /* [count] */
    hd_tensor *inverse; /* which of them each element of x is, i64: x's shape; NULL unless asked for */
    hd_tensor *counts;  /* how often each is in x, i64: [count]; NULL unless asked for */
} hd_uniques;
/* What ops of linear algebra give, of each matrix [..., m, n], k = min(m,n): all NULL when an error is pending. */
typedef struct hd_lu_parts {
    hd_tensor *rows, *l, *u; /* rows i64 [..., m]; l [..., m, k]; u [..., k, n] */
} hd_lu_parts;
typedef struct hd_qr_parts {
    hd_tensor *q, *r; /* [..., m, k]; [..., k, n] */
} hd_qr_parts;
typedef struct hd_svd_parts {
    hd_tensor *u, *s, *vh; /* [..., m, k]; [..., k]; [..., k, n] */
} hd_svd_parts;
typedef struct hd_spectrum {
    hd_tensor *values, *vectors;
} hd_spectrum;
typedef struct hd_signed_log {
    hd_tensor *sign, *log; /* the number is sign e^log */
} hd_signed_log;
/* A list of tensors, which holds them: see list.h. */
typedef struct hd_tensors hd_tensors;

HD_BEGIN_DECLS
/* ---- what a tensor is (safe while an error is pending) ---- */
HD_API hd_dtype hd_tensor_dtype(const hd_tensor *t);
HD_API hd_shape hd_tensor_shape(const hd_tensor *t);
HD_API int hd_tensor_rank(const hd_tensor *t);
/* The size of one axis; negative axes count from the end. */
HD_API int64_t hd_tensor_size(const hd_tensor *t, int axis);
/* The distance, in elements, between neighbours on one axis. */
HD_API int64_t hd_tensor_stride(const hd_tensor *t, int axis);
HD_API int64_t hd_tensor_count(const hd_tensor *t);
HD_API bool hd_tensor_is_contiguous(const hd_tensor *t);
HD_API hd_device hd_tensor_device(const hd_tensor *t);
/* True when both look at the same storage. */
HD_API bool hd_tensor_shares_storage(const hd_tensor *a, const hd_tensor *b);

/* ---- making tensors from memory ---- */
/* Copies shape-many elements of `dtype` from `data`; HD_FROM_DATA(data, shape) takes the dtype from the pointer's type,
 * so that an array of doubles does not pass for one of floats. */
HD_API hd_tensor *hd_from_data(const void *data, hd_shape shape, hd_dtype dtype);
/* Borrows `data` (no copy); `release(data, user)` is called when the last tensor on it goes, and may be NULL. When the
 * call fails, `release` is not called: the memory stays the caller's. Bytes of bool must be 0 or 1. The
 * tensor is on the CPU, whatever the thread's device is. */
HD_API hd_tensor *hd_from_blob(void *data, hd_shape shape, hd_dtype dtype, void (*release)(void *data, void *user),
                               void *user);
/* A rank-0 tensor; HD_DTYPE_DEFAULT is the thread's default float. */
HD_API hd_tensor *hd_scalar(double value, hd_dtype dtype);
/* HD_TENSOR_F32(shape, 1, 2, 3, ...): from a list of values; their count must fit the shape. */
HD_API hd_tensor *hd_from_f32_list(hd_shape shape, const float *values, size_t count);
HD_API hd_tensor *hd_from_i64_list(hd_shape shape, const int64_t *values, size_t count);
#ifdef __cplusplus
extern "C++" { /* braces, unlike the arguments of a function, are evaluated in order */
inline hd_tensor *hd_from_array(const bool *data, hd_shape shape) { return hd_from_data(data, shape, HD_BOOL); }
inline hd_tensor *hd_from_array(const uint8_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_U8); }
inline hd_tensor *hd_from_array(const uint16_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_U16); }
inline hd_tensor *hd_from_array(const uint32_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_U32); }
inline hd_tensor *hd_from_array(const uint64_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_U64); }
inline hd_tensor *hd_from_array(const int8_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_I8); }
inline hd_tensor *hd_from_array(const int16_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_I16); }
inline hd_tensor *hd_from_array(const int32_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_I32); }
inline hd_tensor *hd_from_array(const int64_t *data, hd_shape shape) { return hd_from_data(data, shape, HD_I64); }
inline hd_tensor *hd_from_array(const float *data, hd_shape shape) { return hd_from_data(data, shape, HD_F32); }
inline hd_tensor *hd_from_array(const double *data, hd_shape shape) { return hd_from_data(data, shape, HD_F64); }
struct hd_f32_list {
    hd_tensor *result;
    template <class... V> explicit hd_f32_list(hd_shape shape, V... values) {
        const float all[] = {static_cast<float>(values)...};
        result = hd_from_f32_list(shape, all, sizeof...(values));
    }
};
struct hd_i64_list {
    hd_tensor *result;
    template <class... V> explicit hd_i64_list(hd_shape shape, V... values) {
        const int64_t all[] = {static_cast<int64_t>(values)...};
        result = hd_from_i64_list(shape, all, sizeof...(values));
    }
};
}
#define HD_FROM_DATA(data, ...)   hd_from_array(data, __VA_ARGS__)
#define HD_TENSOR_F32(shape, ...) (hd_f32_list{shape, __VA_ARGS__}.result)
#define HD_TENSOR_I64(shape, ...) (hd_i64_list{shape, __VA_ARGS__}.result)
#else
#define HD_FROM_DATA(data, ...) hd_from_data(data, __VA_ARGS__, HD_DTYPE_OF(data))
#define HD_TENSOR_F32(shape, ...)                                                                                      \
    hd_from_f32_list(shape, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))
#define HD_TENSOR_I64(shape, ...)                                                                                      \
    hd_from_i64_list(shape, (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#endif

/* ---- reading and writing values ---- */
/* The value of a tensor with one element, as a double; NaN on error. */
HD_API double hd_item(const hd_tensor *t);
/* Likewise as int64_t, exact for every integer dtype that fits; 0 on error. */
HD_API int64_t hd_item_i64(const hd_tensor *t);
/* The elements in place, for reading: t must be contiguous and of this dtype. Valid until the next op on t's
 * storage. */
HD_API const void *hd_data(const hd_tensor *t, hd_dtype dtype);
/* Likewise for writing: unshares the storage and marks it changed. */
HD_API void *hd_data_mut(hd_tensor *t, hd_dtype dtype);
/* hd_data_f32(t) is hd_data(t, HD_F32) with the type of its elements; likewise for the others C has a type for. */
static inline const float *hd_data_f32(const hd_tensor *t) { return (const float *)hd_data(t, HD_F32); }
static inline const double *hd_data_f64(const hd_tensor *t) { return (const double *)hd_data(t, HD_F64); }
static inline const int32_t *hd_data_i32(const hd_tensor *t) { return (const int32_t *)hd_data(t, HD_I32); }
static inline const int64_t *hd_data_i64(const hd_tensor *t) { return (const int64_t *)hd_data(t, HD_I64); }
static inline const int8_t *hd_data_i8(const hd_tensor *t) { return (const int8_t *)hd_data(t, HD_I8); }
static inline const int16_t *hd_data_i16(const hd_tensor *t) { return (const int16_t *)hd_data(t, HD_I16); }
static inline const uint16_t *hd_data_u16(const hd_tensor *t) { return (const uint16_t *)hd_data(t, HD_U16); }
static inline const uint32_t *hd_data_u32(const hd_tensor *t) { return (const uint32_t *)hd_data(t, HD_U32); }
static inline const uint64_t *hd_data_u64(const hd_tensor *t) { return (const uint64_t *)hd_data(t, HD_U64); }
static inline const uint8_t *hd_data_u8(const hd_tensor *t) { return (const uint8_t *)hd_data(t, HD_U8); }
static inline const bool *hd_data_bool(const hd_tensor *t) { return (const bool *)hd_data(t, HD_BOOL); }
/* Copies all elements, in row-major order, as `dtype` into `out`, which has room for `capacity` elements. Any
 * strides. */
HD_API bool hd_to_array(const hd_tensor *t, void *out, hd_dtype dtype, size_t capacity);

/* ---- in place ----
 * dst keeps its dtype and shape. hd_assign casts src and broadcasts it to dst; hd_add_ and its kin compute in the dtype
 * both meet in, and refuse a float result for an integer dst. Overlap of dst and src is safe: the result is as if src
 * had been copied first. hd_assign also copies from one device to another, as hd_to does; the others want operands on
 * dst's device. hd_fill refuses a number that dst's dtype cannot hold. */
HD_API void hd_assign(hd_tensor *dst, hd_tensor *src);
HD_API void hd_fill(hd_tensor *dst, double value);
HD_API void hd_zero_(hd_tensor *dst);
HD_API void hd_add_(hd_tensor *dst, hd_tensor *x);
HD_API void hd_sub_(hd_tensor *dst, hd_tensor *x);
HD_API void hd_mul_(hd_tensor *dst, hd_tensor *x);
HD_API void hd_div_(hd_tensor *dst, hd_tensor *x);

/* ---- looking ---- */
typedef struct hd_print_opts {
    size_t struct_size;
    int precision; /* digits after the point, at most; 8 by default */
    int threshold; /* tensors with more elements are summarised; 1000 by default */
    int edge;      /* elements shown at each end of a summarised axis; 3 by default */
    int width;     /* characters in a line; 75 by default */
} hd_print_opts;
/* Prints the values to stdout as NumPy prints an array, with a newline. */
HD_API void hd_print(const hd_tensor *t);
/* The same below a line with dtype, shape and what else there is to know: "f32 [2,3], requires a gradient". */
HD_API void hd_describe(const hd_tensor *t);
/* The same text into `out` (always terminated); returns the length of the whole text, as snprintf does; -1 on error. */
HD_API int64_t hd_format(const hd_tensor *t, char *out, size_t capacity, const hd_print_opts *opts);

typedef struct hd_allclose_opts {
    size_t struct_size;
    double relative;  /* 1e-5 by default */
    double absolute;  /* 1e-8 by default */
    bool nan_differs; /* by default two NaNs at one place are equal */
    char *explain;    /* where to write what differs: where, both values, the largest error, how many; may be NULL */
    size_t explain_capacity;
} hd_allclose_opts;
/* True when shapes agree and every |a - b| <= absolute + relative * |b|; dtypes may differ. */
HD_API bool hd_allclose(const hd_tensor *a, const hd_tensor *b, const hd_allclose_opts *opts);
HD_END_DECLS

#ifdef HD_CHECKED
#define hd_from_data(...) HD_CHECKED(3, HD_CHECK_3_OF_3, hd_from_data, __VA_ARGS__)
#define hd_from_blob(...) HD_CHECKED(5, HD_CHECK_3_OF_5, hd_from_blob, __VA_ARGS__)
#define hd_scalar(...)    HD_CHECKED(2, HD_CHECK_2_OF_2, hd_scalar, __VA_ARGS__)
#define hd_data(...)      HD_CHECKED(2, HD_CHECK_2_OF_2, hd_data, __VA_ARGS__)
#define hd_data_mut(...)  HD_CHECKED(2, HD_CHECK_2_OF_2, hd_data_mut, __VA_ARGS__)
#define hd_to_array(...)  HD_CHECKED(4, HD_CHECK_3_OF_4, hd_to_array, __VA_ARGS__)
#endif

#endif
