/* The fifteen element types. */
#ifndef HODU_DTYPE_H
#define HODU_DTYPE_H

#include <hodu/base.h>

/* X(NAME, name, bytes): in order of promotion. Small floats (f8, bf16, f16) compute in f32 and round once. */
/* clang-format off */
#define HD_DTYPE_LIST(X)                                                                                               \
    X(BOOL, bool, 1)                                                                                                   \
    X(U8, u8, 1) X(U16, u16, 2) X(U32, u32, 4) X(U64, u64, 8) X(I8, i8, 1) X(I16, i16, 2) X(I32, i32, 4)               \
        X(I64, i64, 8) X(F8E4M3, f8e4m3, 1) X(F8E5M2, f8e5m2, 1) X(BF16, bf16, 2) X(F16, f16, 2) X(F32, f32, 4)        \
            X(F64, f64, 8)
/* clang-format on */

#define HD_DTYPE_ENUM(NAME, name, bytes) HD_DTYPE_##NAME,
typedef enum hd_dtype { HD_DTYPE_NONE_ = 0, HD_DTYPE_LIST(HD_DTYPE_ENUM) HD_DTYPE_COUNT } hd_dtype;
#undef HD_DTYPE_ENUM

/* C has constants of an enum as int; with a cast they have its type, so that a number in the place of a dtype is an
 * error when the program is compiled (HD_CHECKED below). */
#define HD_DTYPE_DEFAULT ((hd_dtype)HD_DTYPE_NONE_) /* the thread's default float */
#define HD_BOOL          ((hd_dtype)HD_DTYPE_BOOL)
#define HD_U8            ((hd_dtype)HD_DTYPE_U8)
#define HD_U16           ((hd_dtype)HD_DTYPE_U16)
#define HD_U32           ((hd_dtype)HD_DTYPE_U32)
#define HD_U64           ((hd_dtype)HD_DTYPE_U64)
#define HD_I8            ((hd_dtype)HD_DTYPE_I8)
#define HD_I16           ((hd_dtype)HD_DTYPE_I16)
#define HD_I32           ((hd_dtype)HD_DTYPE_I32)
#define HD_I64           ((hd_dtype)HD_DTYPE_I64)
#define HD_F8E4M3        ((hd_dtype)HD_DTYPE_F8E4M3)
#define HD_F8E5M2        ((hd_dtype)HD_DTYPE_F8E5M2)
#define HD_BF16          ((hd_dtype)HD_DTYPE_BF16)
#define HD_F16           ((hd_dtype)HD_DTYPE_F16)
#define HD_F32           ((hd_dtype)HD_DTYPE_F32)
#define HD_F64           ((hd_dtype)HD_DTYPE_F64)

/* Functions that take a dtype have a macro of their own name, which looks at its type; the name alone, without
 * parentheses, is the function. C++ looks by itself. HD_CHECKED(3, HD_CHECK_2_OF_3, hd_full, ...) calls hd_full with 3
 * arguments, the second of which is an hd_dtype, or else no program. Macros take every comma that is in no parentheses
 * for one between arguments: when there are more of them, as (hd_shape){.rank = 2, .size = {2, 3}} has some, the
 * function is called as it is. */
#if !defined(__cplusplus) && !defined(HD_UNCHECKED_CALLS)
/* clang-format off */
#define HD_ONLY_DTYPE(d) _Generic((d), hd_dtype : (d))
#define HD_PICK_(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, p16, p17, p18, p19, p20, p21, \
    p22, p23, p24, p25, p26, p27, p28, p29, p30, p31, p32, p33, p34, p35, p36, p37, p38, p39, p40, p41, p42, p43, p44, \
    p45, p46, p47, p48, p49, p50, p51, p52, p53, p54, p55, p56, p57, p58, p59, p60, p61, p62, answer, ...) answer
#define HD_PICK(...)   HD_PICK_(__VA_ARGS__)
#define HD_PLAIN_8     HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN
#define HD_PLAIN_57 HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN_8, HD_PLAIN
#define HD_PLAIN_58 HD_PLAIN_57, HD_PLAIN
/* HD_LOOK when there are so many arguments, else HD_PLAIN. */
#define HD_LOOK_AT_1(...) HD_PICK(__VA_ARGS__, HD_PLAIN_58, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_LOOK, -)
#define HD_LOOK_AT_2(...) HD_PICK(__VA_ARGS__, HD_PLAIN_58, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_LOOK, HD_PLAIN, -)
#define HD_LOOK_AT_3(...) HD_PICK(__VA_ARGS__, HD_PLAIN_58, HD_PLAIN, HD_PLAIN, HD_LOOK, HD_PLAIN, HD_PLAIN, -)
#define HD_LOOK_AT_4(...) HD_PICK(__VA_ARGS__, HD_PLAIN_58, HD_PLAIN, HD_LOOK, HD_PLAIN, HD_PLAIN, HD_PLAIN, -)
#define HD_LOOK_AT_5(...) HD_PICK(__VA_ARGS__, HD_PLAIN_58, HD_LOOK, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, -)
#define HD_LOOK_AT_6(...) \
    HD_PICK(__VA_ARGS__, HD_PLAIN_57, HD_LOOK, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, HD_PLAIN, -)
#define HD_LOOK(check, function, ...)  function(check(__VA_ARGS__))
#define HD_PLAIN(check, function, ...) function(__VA_ARGS__)
#define HD_CHECKED(count, check, function, ...) HD_LOOK_AT_##count(__VA_ARGS__)(check, function, __VA_ARGS__)
#define HD_CHECK_1_OF_1(a)             HD_ONLY_DTYPE(a)
#define HD_CHECK_2_OF_2(a, b)          a, HD_ONLY_DTYPE(b)
#define HD_CHECK_2_OF_3(a, b, c)       a, HD_ONLY_DTYPE(b), c
#define HD_CHECK_2_OF_4(a, b, c, d)    a, HD_ONLY_DTYPE(b), c, d
#define HD_CHECK_2_OF_6(a, b, c, d, e, f) a, HD_ONLY_DTYPE(b), c, d, e, f
#define HD_CHECK_3_OF_3(a, b, c)       a, b, HD_ONLY_DTYPE(c)
#define HD_CHECK_3_OF_4(a, b, c, d)    a, b, HD_ONLY_DTYPE(c), d
#define HD_CHECK_3_OF_5(a, b, c, d, e) a, b, HD_ONLY_DTYPE(c), d, e
#define HD_CHECK_4_OF_4(a, b, c, d)    a, b, c, HD_ONLY_DTYPE(d)
#define HD_CHECK_BOTH(a, b)            HD_ONLY_DTYPE(a), HD_ONLY_DTYPE(b)
/* clang-format on */
#endif
/* The dtype of a pointer's elements, for the types that C has. */
#ifndef __cplusplus
/* clang-format off */
#define HD_DTYPE_OF(pointer) _Generic((pointer),                                                                       \
    bool *: HD_BOOL, const bool *: HD_BOOL,                                                                            \
    uint8_t *: HD_U8, const uint8_t *: HD_U8,                                                                          \
    uint16_t *: HD_U16, const uint16_t *: HD_U16,                                                                      \
    uint32_t *: HD_U32, const uint32_t *: HD_U32,                                                                      \
    uint64_t *: HD_U64, const uint64_t *: HD_U64,                                                                      \
    int8_t *: HD_I8, const int8_t *: HD_I8,                                                                            \
    int16_t *: HD_I16, const int16_t *: HD_I16,                                                                        \
    int32_t *: HD_I32, const int32_t *: HD_I32,                                                                        \
    int64_t *: HD_I64, const int64_t *: HD_I64,                                                                        \
    float *: HD_F32, const float *: HD_F32,                                                                            \
    double *: HD_F64, const double *: HD_F64)
/* clang-format on */
#endif

HD_BEGIN_DECLS
/* "f32"; "?" for a value that is no dtype. */
HD_API const char *hd_dtype_name(hd_dtype dtype);
/* Bytes of one element; 0 for a value that is no dtype. */
HD_API size_t hd_dtype_size(hd_dtype dtype);
HD_API bool hd_dtype_is_float(hd_dtype dtype);
/* The integers, bool not among them. */
HD_API bool hd_dtype_is_integer(hd_dtype dtype);
/* The dtype two operands meet in (docs/dtypes.md has the table). */
HD_API hd_dtype hd_dtype_promote(hd_dtype a, hd_dtype b);
/* The float that HD_DTYPE_DEFAULT means on this thread, f32 at first; takes f16, bf16, f32 or f64. */
HD_API hd_dtype hd_default_dtype(void);
HD_API void hd_set_default_dtype(hd_dtype dtype);
HD_END_DECLS

#ifdef HD_CHECKED
#define hd_dtype_name(...)        HD_CHECKED(1, HD_CHECK_1_OF_1, hd_dtype_name, __VA_ARGS__)
#define hd_dtype_size(...)        HD_CHECKED(1, HD_CHECK_1_OF_1, hd_dtype_size, __VA_ARGS__)
#define hd_dtype_is_float(...)    HD_CHECKED(1, HD_CHECK_1_OF_1, hd_dtype_is_float, __VA_ARGS__)
#define hd_dtype_is_integer(...)  HD_CHECKED(1, HD_CHECK_1_OF_1, hd_dtype_is_integer, __VA_ARGS__)
#define hd_dtype_promote(...)     HD_CHECKED(2, HD_CHECK_BOTH, hd_dtype_promote, __VA_ARGS__)
#define hd_set_default_dtype(...) HD_CHECKED(1, HD_CHECK_1_OF_1, hd_set_default_dtype, __VA_ARGS__)
#endif

#endif
