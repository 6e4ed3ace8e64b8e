/* What words do not convert in one rounding, as a template of X and Y: numbers with more digits than f32 become small
 * floats, and ranges whatever they are asked for. Such a number becomes an f32 first, rounded to odd: cut off, and the
 * last bit set when something was cut, so that rounding that again is right. */
typedef struct convert_arguments {
    int64_t offset[2]; /* the device fills them in */
    int64_t count;
    uint64_t start, step, last; /* of a range: bits of f64 */
    int64_t has_last;           /* 2: start and step are whole numbers instead, and so is y, i64 */
} convert_arguments;

/* 2^24 and more is halved as long as it must, and a bit that is lost stays in the last one. */
W_INLINE c_f32 convert_odd_whole(uint64_t magnitude, bool negative) {
    uint32_t exponent = 127;
    while (magnitude >> 24 != 0) {
        magnitude = magnitude >> 1 | (magnitude & 1);
        exponent++;
    }
    const c_f32 f = (c_f32)(uint32_t)magnitude * w_unbits_f32(exponent << 23);
    return negative ? -f : f;
}

#ifndef W_NO_F64
W_INLINE c_f32 convert_odd_f64(c_f64 v) {
    const c_f32 f = (c_f32)v;
    if (v != v || (c_f64)f == v) return f;
    const uint32_t u = w_bits_f32(f), sign = u & 0x80000000u, above = (f < 0 ? -(c_f64)f > -v : (c_f64)f > v) ? 1 : 0;
    return w_unbits_f32((((u & 0x7fffffffu) - above) | 1) | sign);
}
#endif

#if X_IS_FLOAT && X_BYTES == 8
#define CONVERT(v) convert_odd_f64(v)
#elif X_IS_SIGNED
#define CONVERT(v) convert_odd_whole((v) < 0 ? 0 - (uint64_t)(int64_t)(v) : (uint64_t)(v), (v) < 0)
#else
#define CONVERT(v) convert_odd_whole((uint64_t)(v), false)
#endif

#if !RANGE
/* x -> y, a small float */
W_KERNEL void convert(W_GLOBAL char *b0 W_SLOT(0), W_GLOBAL char *b1 W_SLOT(1),
                      W_ARGUMENTS(convert_arguments, a, 2) W_IDS) {
    W_GLOBAL const X_MEMORY *x = (W_GLOBAL const X_MEMORY *)(b0 + a.offset[0]);
    W_GLOBAL Y_MEMORY *y = (W_GLOBAL Y_MEMORY *)(b1 + a.offset[1]);
    const int64_t i = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (i < a.count) y[i] = Y_STORE(CONVERT(x[i]));
}
#else
/* start, start + step, ... -> y; X is f64 */
W_KERNEL void convert_range(W_GLOBAL char *b0 W_SLOT(0), W_ARGUMENTS(convert_arguments, a, 1) W_IDS) {
    W_GLOBAL Y_MEMORY *y = (W_GLOBAL Y_MEMORY *)(b0 + a.offset[0]);
    const int64_t i = (int64_t)W_GROUP(0) * THREADS + W_THREAD;
    if (i >= a.count) return;
    const c_f64 v =
        a.has_last != 0 && i == a.count - 1 ? X_NUMBER(a.last) : X_NUMBER(a.start) + (c_f64)i * X_NUMBER(a.step);
#if !Y_IS_FLOAT && Y_BYTES == 8
    y[i] = a.has_last == 2 ? (Y_MEMORY)(a.start + (uint64_t)i * a.step) : Y_FROM_X(v);
#elif Y_IS_FLOAT && Y_BYTES < 4
    y[i] = Y_STORE(convert_odd_f64(v));
#else
    y[i] = Y_FROM_X(v);
#endif
}
#endif
