/* Conversions between dtypes and reductions over contiguous memory, for one instruction set HD_ISA. */
#include "device/cpu/kernels_isa.h"
#include "core/small_float.h"
#include "kernel/words_c.h"

/* ---- conversions: [from][to], with the saturation that OPS promises -------------------------------------------- */
/* A float in a range both of whose ends it can hold; for the wide integers the upper end is the float below 2^n. */
#define FROM_FLOAT(F, I, lowest, highest)                                                                              \
    W_INLINE I to_##I##_from_##F(F v) {                                                                                \
        v = v == v ? v : (F)0;                                                                                         \
        v = v > (F)(lowest) ? v : (F)(lowest);                                                                         \
        return v < (F)(highest) ? (I)v : (I)(highest);                                                                 \
    }
#define FROM_FLOAT_WIDE(F, I, lowest, bound, top)                                                                      \
    W_INLINE I to_##I##_from_##F(F v) {                                                                                \
        const F low = v > (F)(lowest) ? v : (F)(lowest); /* NaN too */                                                 \
        const I r = low < (F)(bound) ? (I)low : (top);                                                                 \
        return v == v ? r : 0;                                                                                         \
    }
#define FROM_BOTH(I, lowest, highest) FROM_FLOAT(float, I, lowest, highest) FROM_FLOAT(double, I, lowest, highest)
FROM_BOTH(int8_t, INT8_MIN, INT8_MAX)
FROM_BOTH(int16_t, INT16_MIN, INT16_MAX)
FROM_BOTH(uint8_t, 0, UINT8_MAX)
FROM_BOTH(uint16_t, 0, UINT16_MAX)
FROM_FLOAT(double, int32_t, INT32_MIN, INT32_MAX)
FROM_FLOAT(double, uint32_t, 0, UINT32_MAX)
FROM_FLOAT_WIDE(float, int32_t, INT32_MIN, 0x1p31f, INT32_MAX)
FROM_FLOAT_WIDE(float, uint32_t, 0, 0x1p32f, UINT32_MAX)
FROM_FLOAT_WIDE(float, int64_t, INT64_MIN, 0x1p63f, INT64_MAX)
FROM_FLOAT_WIDE(double, int64_t, INT64_MIN, 0x1p63, INT64_MAX)
FROM_FLOAT_WIDE(float, uint64_t, 0, 0x1p64f, UINT64_MAX)
FROM_FLOAT_WIDE(double, uint64_t, 0, 0x1p64, UINT64_MAX)

#define CONVERT(from, to, value)                                                                                       \
    static void convert_##from##_##to(void *o, const void *p, int64_t n) {                                             \
        c_##to *restrict out = o;                                                                                      \
        const c_##from *restrict in = p;                                                                               \
        for (int64_t i = 0; i < n; ++i) {                                                                              \
            const c_##from v = in[i];                                                                                  \
            out[i] = (c_##to)(value);                                                                                  \
        }                                                                                                              \
    }
#define TO_BOOL_AND_FLOATS(from) CONVERT(from, b8, v != 0) CONVERT(from, f32, v) CONVERT(from, f64, v)
/* clang-format off */
#define FROM_INTEGER(from)                                                                                             \
    TO_BOOL_AND_FLOATS(from)                                                                                           \
    CONVERT(from, u8, v) CONVERT(from, u16, v) CONVERT(from, u32, v) CONVERT(from, u64, v)                             \
    CONVERT(from, i8, v) CONVERT(from, i16, v) CONVERT(from, i32, v) CONVERT(from, i64, v)
#define FROM_FLOATING(from, F)                                                                                         \
    TO_BOOL_AND_FLOATS(from)                                                                                           \
    CONVERT(from, u8, to_uint8_t_from_##F(v)) CONVERT(from, u16, to_uint16_t_from_##F(v))                              \
    CONVERT(from, u32, to_uint32_t_from_##F(v)) CONVERT(from, u64, to_uint64_t_from_##F(v))                            \
    CONVERT(from, i8, to_int8_t_from_##F(v)) CONVERT(from, i16, to_int16_t_from_##F(v))                                \
    CONVERT(from, i32, to_int32_t_from_##F(v)) CONVERT(from, i64, to_int64_t_from_##F(v))
/* clang-format on */
FROM_INTEGER(b8)
FROM_INTEGER(u8)
FROM_INTEGER(u16)
FROM_INTEGER(u32)
FROM_INTEGER(u64)
FROM_INTEGER(i8)
FROM_INTEGER(i16)
FROM_INTEGER(i32)
FROM_INTEGER(i64)
FROM_FLOATING(f32, float)
FROM_FLOATING(f64, double)

#define SMALL(name, U, decoder, encoder)                                                                               \
    static void decode_##name(void *o, const void *p, int64_t n) {                                                     \
        float *restrict out = o;                                                                                       \
        const U *restrict in = p;                                                                                      \
        for (int64_t i = 0; i < n; ++i) out[i] = decoder(in[i]);                                                       \
    }                                                                                                                  \
    static void encode_##name(void *o, const void *p, int64_t n) {                                                     \
        U *restrict out = o;                                                                                           \
        const float *restrict in = p;                                                                                  \
        for (int64_t i = 0; i < n; ++i) out[i] = encoder(in[i]);                                                       \
    }
SMALL(bf16, uint16_t, hd_bf16_decode, hd_bf16_encode)
SMALL(f16, uint16_t, hd_f16_decode, hd_f16_encode)
SMALL(f8e4m3, uint8_t, hd_f8e4m3_decode, hd_f8e4m3_encode)
SMALL(f8e5m2, uint8_t, hd_f8e5m2_decode, hd_f8e5m2_encode)

#define STICKY(from, value)                                                                                            \
    static void sticky_##from(void *o, const void *p, int64_t n) {                                                     \
        float *restrict out = o;                                                                                       \
        const c_##from *restrict in = p;                                                                               \
        for (int64_t i = 0; i < n; ++i) out[i] = hd_f32_round_to_odd(value);                                           \
    }
STICKY(f64, in[i])
STICKY(i32, (double)in[i])
STICKY(u32, (double)in[i])
STICKY(i64, hd_i64_sticky(in[i]))
STICKY(u64, hd_u64_sticky(in[i]))

/* ---- transposing 8 x 8 elements of 4 bytes: pairs, then pairs of pairs, then halves ------------------------------ */
typedef uint32_t row8 __attribute__((vector_size(32), aligned(4), may_alias));
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
static void transpose_4(void *o, int64_t out_stride, const void *p, int64_t in_stride, int64_t rows, int64_t columns) {
    for (int64_t c = 0; c < columns; c += 8) {
        for (int i = 0; i < 8; ++i) /* lines a whole row apart: no hardware fetches them ahead */
            for (int64_t r = 0; r < rows; r += 16)
                __builtin_prefetch((const uint32_t *)p + (c + 24 + i) * in_stride + r);
        for (int64_t r = 0; r < rows; r += 8) {
            const uint32_t *in = (const uint32_t *)p + c * in_stride + r;
            uint32_t *out = (uint32_t *)o + r * out_stride + c;
            row8 a[8], b[8];
            for (int i = 0; i < 8; ++i) a[i] = *(const row8 *)(in + i * in_stride);
            for (int i = 0; i < 4; ++i) {
                b[2 * i] = SHUFFLE(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
                b[2 * i + 1] = SHUFFLE(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
            }
            for (int i = 0; i < 2; ++i)
                for (int k = 0; k < 2; ++k) {
                    a[4 * i + 2 * k] = SHUFFLE(b[4 * i + k], b[4 * i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
                    a[4 * i + 2 * k + 1] = SHUFFLE(b[4 * i + k], b[4 * i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
                }
            for (int i = 0; i < 4; ++i) {
                *(row8 *)(out + i * out_stride) = SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
                *(row8 *)(out + (i + 4) * out_stride) = SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
            }
        }
    }
}

/* ---- reductions --------------------------------------------------------------------------------------------------
 * A row goes through LANES accumulators at once, which is what lets it vectorise and, for floats, is also the first
 * level of a pairwise sum; GROUPs of 16 to a lane are added up by themselves first; after BLOCK elements the lanes are
 * folded, and float blocks are added up in f64. */
enum { LANES = 64, GROUP = 16 * LANES, BLOCK = 64 * LANES };

#define ROW_KERNEL(name, t, A, identity, op)                                                                           \
    static void row_##name##_##t(void *accumulator, const void *p, int64_t n) {                                        \
        const c_##t *restrict in = p;                                                                                  \
        A total = *(A *)accumulator;                                                                                   \
        while (n > 0) {                                                                                                \
            const int64_t block = n < BLOCK ? n : BLOCK;                                                               \
            int64_t i = 0;                                                                                             \
            if (block >= LANES) {                                                                                      \
                c_##t lane[LANES], group[LANES];                                                                       \
                for (int j = 0; j < LANES; ++j) lane[j] = in[j];                                                       \
                for (i = LANES; i + LANES <= block && i < GROUP; i += LANES)                                           \
                    for (int j = 0; j < LANES; ++j) lane[j] = op##_##t(lane[j], in[i + j]);                            \
                while (i + LANES <= block) {                                                                           \
                    const int64_t end = i + GROUP < block ? i + GROUP : block;                                         \
                    for (int j = 0; j < LANES; ++j) group[j] = in[i + j];                                              \
                    for (i += LANES; i + LANES <= end; i += LANES)                                                     \
                        for (int j = 0; j < LANES; ++j) group[j] = op##_##t(group[j], in[i + j]);                      \
                    for (int j = 0; j < LANES; ++j) lane[j] = op##_##t(lane[j], group[j]);                             \
                }                                                                                                      \
                for (int half = LANES / 2; half > 0; half /= 2)                                                        \
                    for (int j = 0; j < half; ++j) lane[j] = op##_##t(lane[j], lane[j + half]);                        \
                total = fold_##name##_##t(total, lane[0]);                                                             \
            }                                                                                                          \
            for (; i < block; ++i) total = fold_##name##_##t(total, in[i]);                                            \
            in += block;                                                                                               \
            n -= block;                                                                                                \
        }                                                                                                              \
        *(A *)accumulator = total;                                                                                     \
    }
/* Columns: rows are first added in groups of 16 in the input's type, then to the accumulator. */
#define COLUMNS_KERNEL(name, t, A, identity, op)                                                                       \
    static void columns_##name##_##t(void *accumulator, const void *p, int64_t n, int64_t rows, int64_t stride) {      \
        A *restrict total = accumulator;                                                                               \
        const c_##t *restrict in = p;                                                                                  \
        for (int64_t r = 0; r < rows; r += 16) {                                                                       \
            const int64_t group = rows - r < 16 ? rows - r : 16;                                                       \
            for (int64_t j0 = 0; j0 < n; j0 += LANES) {                                                                \
                const int64_t width = n - j0 < LANES ? n - j0 : LANES;                                                 \
                const c_##t *restrict at = in + r * stride + j0;                                                       \
                c_##t lane[LANES];                                                                                     \
                if (width == LANES) {                                                                                  \
                    for (int j = 0; j < LANES; ++j) lane[j] = at[j];                                                   \
                    for (int64_t k = 1; k < group; ++k)                                                                \
                        for (int j = 0; j < LANES; ++j) lane[j] = op##_##t(lane[j], at[k * stride + j]);               \
                    for (int j = 0; j < LANES; ++j) total[j0 + j] = fold_##name##_##t(total[j0 + j], lane[j]);         \
                } else {                                                                                               \
                    for (int j = 0; j < width; ++j) lane[j] = at[j];                                                   \
                    for (int64_t k = 1; k < group; ++k)                                                                \
                        for (int j = 0; j < width; ++j) lane[j] = op##_##t(lane[j], at[k * stride + j]);               \
                    for (int j = 0; j < width; ++j) total[j0 + j] = fold_##name##_##t(total[j0 + j], lane[j]);         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define REDUCTION(name, t, A, word)                                                                                    \
    W_INLINE A fold_##name##_##t(A total, c_##t v) { return (A)word##_##A(total, (A)v); }                              \
    ROW_KERNEL(name, t, A, 0, word)                                                                                    \
    COLUMNS_KERNEL(name, t, A, 0, word)
#define w_add_c_f64 w_add_f64
#define w_mul_c_f64 w_mul_f64
#define w_add_c_i64 w_add_i64
#define w_mul_c_i64 w_mul_i64
#define w_add_c_u64 w_add_u64
#define w_mul_c_u64 w_mul_u64
REDUCTION(sum, f32, c_f64, w_add)
REDUCTION(sum, f64, c_f64, w_add)
REDUCTION(sum, i64, c_i64, w_add)
REDUCTION(sum, u64, c_u64, w_add)
REDUCTION(prod, f64, c_f64, w_mul)
REDUCTION(prod, i64, c_i64, w_mul)
REDUCTION(prod, u64, c_u64, w_mul)

#define EXTREME_OF(t)                                                                                                  \
    W_INLINE c_##t fold_max_##t(c_##t total, c_##t v) { return w_max_##t(total, v); }                                  \
    W_INLINE c_##t fold_min_##t(c_##t total, c_##t v) { return w_min_##t(total, v); }                                  \
    ROW_KERNEL(max, t, c_##t, 0, w_max)                                                                                \
    ROW_KERNEL(min, t, c_##t, 0, w_min)                                                                                \
    COLUMNS_KERNEL(max, t, c_##t, 0, w_max)                                                                            \
    COLUMNS_KERNEL(min, t, c_##t, 0, w_min)
EXTREME_OF(b8)
EXTREME_OF(u8)
EXTREME_OF(u16)
EXTREME_OF(u32)
EXTREME_OF(u64)
EXTREME_OF(i8)
EXTREME_OF(i16)
EXTREME_OF(i32)
EXTREME_OF(i64)
EXTREME_OF(f32)
EXTREME_OF(f64)

/* ---- into the table --------------------------------------------------------------------------------------------- */
#define CONVERT_FROM(NAME, from)                                                                                       \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_B8] = convert_##from##_b8;                                            \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_U8] = convert_##from##_u8;                                            \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_U16] = convert_##from##_u16;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_U32] = convert_##from##_u32;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_U64] = convert_##from##_u64;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_I8] = convert_##from##_i8;                                            \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_I16] = convert_##from##_i16;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_I32] = convert_##from##_i32;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_I64] = convert_##from##_i64;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_F32] = convert_##from##_f32;                                          \
    table->convert[HD_COMPUTE_##NAME][HD_COMPUTE_F64] = convert_##from##_f64;
#define EXTREMES_OF(NAME, t)                                                                                           \
    table->reduce[HD_REDUCE_MAX][HD_COMPUTE_##NAME] = (hd_reduce_kernels){row_max_##t, columns_max_##t};               \
    table->reduce[HD_REDUCE_MIN][HD_COMPUTE_##NAME] = (hd_reduce_kernels){row_min_##t, columns_min_##t};

void KERNELS(hd_fill_memory)(hd_cpu_kernels *table) {
    HD_COMPUTE_LIST(CONVERT_FROM)
    HD_COMPUTE_LIST(EXTREMES_OF)
    table->transpose_4 = transpose_4;
    table->decode[HD_BF16] = decode_bf16;
    table->decode[HD_F16] = decode_f16;
    table->decode[HD_F8E4M3] = decode_f8e4m3;
    table->decode[HD_F8E5M2] = decode_f8e5m2;
    table->encode[HD_BF16] = encode_bf16;
    table->encode[HD_F16] = encode_f16;
    table->encode[HD_F8E4M3] = encode_f8e4m3;
    table->encode[HD_F8E5M2] = encode_f8e5m2;
    table->sticky[HD_COMPUTE_F64] = sticky_f64;
    table->sticky[HD_COMPUTE_I32] = sticky_i32;
    table->sticky[HD_COMPUTE_U32] = sticky_u32;
    table->sticky[HD_COMPUTE_I64] = sticky_i64;
    table->sticky[HD_COMPUTE_U64] = sticky_u64;
    table->reduce[HD_REDUCE_SUM][HD_COMPUTE_F32] = (hd_reduce_kernels){row_sum_f32, columns_sum_f32};
    table->reduce[HD_REDUCE_SUM][HD_COMPUTE_F64] = (hd_reduce_kernels){row_sum_f64, columns_sum_f64};
    table->reduce[HD_REDUCE_SUM][HD_COMPUTE_I64] = (hd_reduce_kernels){row_sum_i64, columns_sum_i64};
    table->reduce[HD_REDUCE_SUM][HD_COMPUTE_U64] = (hd_reduce_kernels){row_sum_u64, columns_sum_u64};
    table->reduce[HD_REDUCE_PROD][HD_COMPUTE_F64] = (hd_reduce_kernels){row_prod_f64, columns_prod_f64};
    table->reduce[HD_REDUCE_PROD][HD_COMPUTE_I64] = (hd_reduce_kernels){row_prod_i64, columns_prod_i64};
    table->reduce[HD_REDUCE_PROD][HD_COMPUTE_U64] = (hd_reduce_kernels){row_prod_u64, columns_prod_u64};
}
