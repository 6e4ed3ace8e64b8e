/* What a kernel means, one point at a time: the oracle of the renderers. It heeds only axes, stages and steps, never
 * what hd_kernel_settle and hd_kernel_schedule decided about depths, lanes, widths and scratch memory. Plain words are
 * those of words_c.h; functions are libm's in f64; float sums and products run in f64. */
#ifndef HD_TESTS_COMPILER_INTERPRETER_H
#define HD_TESTS_COMPILER_INTERPRETER_H

#include "core/small_float.h"
#include "golden/libm.h"
#include "kernel/kernel.h"

typedef union interpreted {
#define FIELD(NAME, name) c_##name name;
    HD_COMPUTE_LIST(FIELD)
#undef FIELD
    bool condition;
    uint64_t bits;
} interpreted;

/* ---- words ------------------------------------------------------------------------------------------------------- */
#define SAY1(WORD, name, t)                                                                                            \
    case HD_WORD_##WORD:                                                                                               \
        r.t = w_##name##_##t(a.t);                                                                                     \
        break;
#define SAY2(WORD, name, t)                                                                                            \
    case HD_WORD_##WORD:                                                                                               \
        r.t = w_##name##_##t(a.t, b.t);                                                                                \
        break;
#define SAY_COMMON(t)                                                                                                  \
    case HD_WORD_LT: r.condition = a.t < b.t; break;                                                                   \
    case HD_WORD_LE: r.condition = a.t <= b.t; break;                                                                  \
    case HD_WORD_EQ: r.condition = a.t == b.t; break;                                                                  \
    case HD_WORD_SELECT:                                                                                               \
        r = a.condition ? b : c;                                                                                       \
        break;                                                                                                         \
        SAY2(MAX, max, t)                                                                                              \
        SAY2(MIN, min, t)
#define SAY_BITS(t)                                                                                                    \
    SAY2(AND, and, t)                                                                                                  \
    SAY2(OR, or, t) SAY2(XOR, xor, t) SAY1(NOT, not, t) SAY2(SHL, shl, t) SAY2(SHR, shr, t) SAY1(POPCOUNT, popcount, t)
#define SAY_NUMBER(t)                                                                                                  \
    SAY2(ADD, add, t)                                                                                                  \
    SAY2(SUB, sub, t)                                                                                                  \
    SAY2(MUL, mul, t)                                                                                                  \
    SAY1(NEG, neg, t)                                                                                                  \
    SAY1(ABS, abs, t) SAY1(RINT, rint, t) SAY1(FLOOR, floor, t) SAY1(CEIL, ceil, t) SAY1(TRUNC, trunc, t)
#define SAY_FLOAT(t)                                                                                                   \
    SAY_COMMON(t)                                                                                                      \
    SAY_NUMBER(t)                                                                                                      \
    SAY2(DIV, div, t)                                                                                                  \
    SAY2(FMOD, fmod, t)                                                                                                \
    SAY1(SQRT, sqrt, t)                                                                                                \
    SAY2(COPYSIGN, copysign, t)                                                                                        \
    SAY2(NEAREST, nearest, t)                                                                                          \
    SAY1(EXP2I, exp2i, t)                                                                                              \
    SAY2(SCALE, scale, t)                                                                                              \
    SAY1(EXPONENT, exponent, t)                                                                                        \
    SAY1(MANTISSA, mantissa, t)                                                                                        \
    case HD_WORD_MULADD:                                                                                               \
    case HD_WORD_FMA: r.t = w_fma_##t(a.t, b.t, c.t); break;                                                           \
    case HD_WORD_CUT:                                                                                                  \
        r.t = w_cut_##t(a.t, b.t, c.t);                                                                                \
        break;
#define SAY_INT(t) SAY_COMMON(t) SAY_NUMBER(t) SAY_BITS(t) SAY2(IDIV, idiv, t) SAY2(IREM, irem, t) SAY2(IPOW, ipow, t)
#define SAY_B8(t)  SAY_COMMON(t) SAY_BITS(t)

static inline double interpret_trigamma(double a) { /* one step up at a time, then the asymptotic series */
    static const long double PI_LONG = 3.14159265358979323846264338327950288L;
    if (isnan(a) || a == -INFINITY) return NAN;
    if (a <= 0 && a == rint(a)) return INFINITY;
    if (isinf(a)) return 0;
    long double x = a, sum = 0, sign = 1;
    if (a < 0) {
        const long double s = sinl(PI_LONG * (x - rintl(x)));
        sum = PI_LONG * PI_LONG / (s * s);
        sign = -1;
        x = 1 - x;
    }
    for (; x < 16; x += 1) sum += sign / (x * x);
    const long double z = 1 / (x * x);
    return (double)(sum +
                    sign * (1 / x + z / 2 +
                            z / x * (1.0L / 6 - z * (1.0L / 30 - z * (1.0L / 42 - z * (1.0L / 30 - z * 5 / 66))))));
}
#define w_trigamma_f64 interpret_trigamma

static inline double interpret_function(int word, double a, double b) {
    (void)b;
#define WITH_1(f) f(a)
#define WITH_2(f) f(a, b)
#define FUNCTION(NAME, program, arity, cost, m)                                                                        \
    if (word == HD_WORD_##NAME) return WITH_##arity(w_##program##_f64);
#include "kernel/words.def"
#undef WITH_1
#undef WITH_2
    fail_msg("word %d is no function", word);
    return 0;
}

/* `type`: of the operands (of SELECT: of b and c). */
static inline interpreted interpret_word(int word, int type, interpreted a, interpreted b, interpreted c) {
    interpreted r = {.bits = 0};
    if (hd_words[word].is_function) {
        if (type == HD_COMPUTE_F32)
            r.f32 = (float)interpret_function(word, (double)a.f32, (double)b.f32);
        else
            r.f64 = interpret_function(word, a.f64, b.f64);
        return r;
    }
    switch (type) {
#define FLOATS(NAME, t)                                                                                                \
    case HD_COMPUTE_##NAME:                                                                                            \
        switch (word) { SAY_FLOAT(t) default : fail_msg("no %s in " #t, hd_words[word].name); }                        \
        break;
#define INTS(NAME, t)                                                                                                  \
    case HD_COMPUTE_##NAME:                                                                                            \
        switch (word) { SAY_INT(t) default : fail_msg("no %s in " #t, hd_words[word].name); }                          \
        break;
        FLOATS(F32, f32)
        FLOATS(F64, f64)
        INTS(U8, u8)
        INTS(U16, u16)
        INTS(U32, u32)
        INTS(U64, u64)
        INTS(I8, i8)
        INTS(I16, i16)
        INTS(I32, i32)
        INTS(I64, i64)
#undef FLOATS
#undef INTS
    case HD_COMPUTE_B8:
        switch (word) { SAY_B8(b8) default : fail_msg("no %s in b8", hd_words[word].name); }
        break;
    default: /* conditions */
        r.condition = word == HD_WORD_BOTH     ? a.condition && b.condition
                      : word == HD_WORD_EITHER ? a.condition || b.condition
                                               : !a.condition;
    }
    return r;
}

/* ---- conversions ------------------------------------------------------------------------------------------------- */
static inline interpreted interpret_from_f64(int type, double v) {
    interpreted r = {.bits = 0};
    const double whole = v == v ? trunc(v) : 0;
    switch (type) {
#define INT(NAME, t, low, high, top)                                                                                   \
    case HD_COMPUTE_##NAME: r.t = whole <= (low) ? (c_##t)(low) : whole >= (high) ? (c_##t)(top) : (c_##t)whole; break;
        INT(U8, u8, 0, 255, UINT8_MAX)
        INT(U16, u16, 0, 65535, UINT16_MAX)
        INT(U32, u32, 0, 4294967295.0, UINT32_MAX)
        INT(U64, u64, 0, 0x1p64, UINT64_MAX)
        INT(I8, i8, -128, 127, INT8_MAX)
        INT(I16, i16, -32768, 32767, INT16_MAX)
        INT(I32, i32, -2147483648.0, 2147483647.0, INT32_MAX)
        INT(I64, i64, -0x1p63, 0x1p63, INT64_MAX)
#undef INT
    case HD_COMPUTE_B8: r.b8 = v != 0; break;
    case HD_COMPUTE_F32: r.f32 = (float)v; break;
    case HD_COMPUTE_F64: r.f64 = v; break;
    default: r.condition = v != 0;
    }
    return r;
}

static inline interpreted interpret_cast(int from, int to, interpreted a) {
    interpreted r = {.bits = 0};
    if (from == HD_COMPUTE_F32) return interpret_from_f64(to, (double)a.f32);
    if (from == HD_COMPUTE_F64) return interpret_from_f64(to, a.f64);
    const bool is_signed = from >= HD_COMPUTE_I8 && from <= HD_COMPUTE_I64;
    int64_t v = from == HD_CONDITION && a.condition;
    switch (from) {
#define FROM(NAME, t)                                                                                                  \
    case HD_COMPUTE_##NAME: v = (int64_t)a.t; break;
        HD_COMPUTE_LIST(FROM)
#undef FROM
    default: break;
    }
    switch (to) {
    case HD_COMPUTE_F32: r.f32 = is_signed ? (float)v : (float)(uint64_t)v; break;
    case HD_COMPUTE_F64: r.f64 = is_signed ? (double)v : (double)(uint64_t)v; break;
    case HD_COMPUTE_B8: r.b8 = v != 0; break;
#define TO(NAME, t)                                                                                                    \
    case HD_COMPUTE_##NAME: r.t = (c_##t)v; break;
        TO(U8, u8)
        TO(U16, u16)
        TO(U32, u32)
        TO(U64, u64)
        TO(I8, i8)
        TO(I16, i16)
        TO(I32, i32)
        TO(I64, i64)
#undef TO
    default: r.condition = v != 0;
    }
    return r;
}

static inline double interpreted_to_f64(int type, interpreted v) { return interpret_cast(type, HD_COMPUTE_F64, v).f64; }

static inline uint32_t interpret_encode(hd_dtype dtype, float v) {
    return dtype == HD_BF16     ? hd_bf16_encode(v)
           : dtype == HD_F16    ? hd_f16_encode(v)
           : dtype == HD_F8E5M2 ? hd_f8e5m2_encode(v)
                                : hd_f8e4m3_encode(v);
}

static inline float interpret_decode(hd_dtype dtype, uint32_t bits) {
    return dtype == HD_BF16     ? hd_bf16_decode((uint16_t)bits)
           : dtype == HD_F16    ? hd_f16_decode((uint16_t)bits)
           : dtype == HD_F8E5M2 ? hd_f8e5m2_decode((uint8_t)bits)
                                : hd_f8e4m3_decode((uint8_t)bits);
}

static inline interpreted interpret_load(const char *at, hd_dtype dtype) {
    interpreted r = {.bits = 0};
    memcpy(&r, at, hd_dtype_bytes[dtype]);
    if (hd_dtype_is_small_float(dtype)) r.f32 = interpret_decode(dtype, (uint32_t)r.bits);
    return r;
}

static inline void interpret_store(char *at, hd_dtype dtype, interpreted v) {
    if (hd_dtype_is_small_float(dtype)) v.bits = interpret_encode(dtype, v.f32);
    memcpy(at, &v, hd_dtype_bytes[dtype]);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */
static inline interpreted interpret_identity(int how, int type) {
    static const double infinite[] = {0, 1, -INFINITY, INFINITY};
    if (how == HD_KERNEL_MIN && type == HD_COMPUTE_B8) return interpret_from_f64(type, 1);
    if (how == HD_KERNEL_MAX && type == HD_COMPUTE_B8) return interpret_from_f64(type, 0);
    return interpret_from_f64(type, infinite[how]);
}

/* Floats are summed and multiplied in f64: the accumulator of an f32 reduction is f64 until it is finished. */
static inline interpreted interpret_fold(int how, int type, interpreted total, interpreted v) {
    static const int words[] = {HD_WORD_ADD, HD_WORD_MUL, HD_WORD_MAX, HD_WORD_MIN};
    if (type == HD_COMPUTE_F32 && how <= HD_KERNEL_PROD) {
        v.f64 = (double)v.f32;
        type = HD_COMPUTE_F64;
    }
    return interpret_word(words[how], type, total, v, v);
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */
typedef struct interpreter {
    const hd_kernel *k;
    char *const *buffers;
    const int64_t *geometry;
    const uint64_t *numbers;
    int64_t at[HD_KERNEL_AXES];
    interpreted *value;
} interpreter;

static inline bool interpreter_next(interpreter *t, int from, int to) { /* the next point of these axes; false: none */
    for (int a = to - 1; a >= from; --a) {
        if (++t->at[a] < t->geometry[a]) return true;
        t->at[a] = 0;
    }
    return false;
}

static inline bool interpreter_empty(const interpreter *t, int from, int to) {
    for (int a = from; a < to; ++a)
        if (t->geometry[a] == 0) return true;
    return false;
}

static inline char *interpreter_place(const interpreter *t, int buffer, int64_t place) {
    for (int a = 0; a < t->k->axes; ++a) {
        const hd_stride stride = (hd_stride)t->k->buffers[buffer].stride[a];
        const int64_t n = t->geometry[hd_geometry_stride(t->k, buffer, a)];
        place += t->at[a] * (stride == HD_STRIDE_ZERO ? 0 : stride == HD_STRIDE_ONE ? 1 : n);
    }
    return t->buffers[buffer] + place * (int64_t)hd_dtype_bytes[t->k->buffers[buffer].dtype];
}

static inline void interpreter_step(interpreter *t, int i) {
    const hd_step *s = &t->k->steps[i];
    interpreted o[3], *out = &t->value[i];
    for (int j = 0; j < 3; ++j) o[j] = s->operand[j] < 0 ? (interpreted){.bits = 0} : t->value[s->operand[j]];
    switch (s->word) {
    case HD_WORD_CONSTANT: *out = interpret_from_f64(s->type, s->value); break;
    case HD_WORD_NUMBER: out->bits = t->numbers[s->index]; break;
    case HD_STEP_INDEX: out->i64 = t->geometry[hd_geometry_base(t->k, s->index)] + t->at[s->index]; break;
    case HD_STEP_CAST: *out = interpret_cast(t->k->steps[s->operand[0]].type, s->type, o[0]); break;
    case HD_STEP_ROUND:
        out->f32 = interpret_decode((hd_dtype)s->index, interpret_encode((hd_dtype)s->index, o[0].f32));
        break;
    case HD_STEP_LOAD:
        out->bits = 0;
        if (s->operand[1] < 0 || o[1].condition)
            *out = interpret_load(interpreter_place(t, s->index, s->operand[0] < 0 ? 0 : o[0].i64),
                                  (hd_dtype)t->k->buffers[s->index].dtype);
        break;
    case HD_STEP_REDUCE:
    case HD_STEP_STORE: break;
    default: {
        const int typed = s->word == HD_WORD_SELECT ? 1 : 0;
        *out = interpret_word(s->word, t->k->steps[s->operand[typed]].type, o[0], o[1], o[2]);
    }
    }
}

/* All steps at one point in walk `stage`, then the stores, so that a buffer may be read and written in place. Kept:
 * only what the reduced axes do not matter for, and the stores there. */
static inline void interpreter_point(interpreter *t, int stage, bool kept) {
    const hd_kernel *k = t->k;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].stage <= stage && (!kept || k->steps[i].depth <= k->kept)) interpreter_step(t, i);
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word != HD_STEP_STORE || (kept ? s->depth > k->kept : s->depth <= k->kept || s->stage != stage))
            continue;
        interpret_store(interpreter_place(t, s->index, 0), (hd_dtype)k->buffers[s->index].dtype,
                        t->value[s->operand[0]]);
    }
}

static inline void interpreter_walk(interpreter *t, int stage) {
    const hd_kernel *k = t->k;
    interpreted total[64];
    int reduction[64], count = 0;
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_REDUCE && k->steps[i].stage == stage + 1) {
            const hd_step *s = &k->steps[i];
            const bool wide = s->type == HD_COMPUTE_F32 && s->index <= HD_KERNEL_PROD;
            total[count] = interpret_identity(s->index, wide ? HD_COMPUTE_F64 : s->type);
            reduction[count++] = i;
        }
    if (!interpreter_empty(t, k->kept, k->axes)) {
        do {
            interpreter_point(t, stage, false);
            for (int r = 0; r < count; ++r) {
                const hd_step *s = &k->steps[reduction[r]];
                total[r] = interpret_fold(s->index, s->type, total[r], t->value[s->operand[0]]);
            }
        } while (interpreter_next(t, k->kept, k->axes));
    } else {
        interpreter_point(t, stage, true);
    }
    for (int r = 0; r < count; ++r) {
        const hd_step *s = &k->steps[reduction[r]];
        if (s->type == HD_COMPUTE_F32 && s->index <= HD_KERNEL_PROD) total[r].f32 = (float)total[r].f64;
        t->value[reduction[r]] = total[r];
    }
}

/* A kernel as hd_kernel_function runs it. */
static inline void interpret_kernel(const hd_kernel *k, char *const *buffers, const int64_t *geometry,
                                    const uint64_t *numbers) {
    interpreter t = {.k = k, .buffers = buffers, .geometry = geometry, .numbers = numbers};
    if (interpreter_empty(&t, 0, k->kept)) return;
    t.value = calloc((size_t)k->count + 1, sizeof *t.value);
    assert_non_null(t.value);
    do {
        for (int stage = 0; stage < k->stages; ++stage) interpreter_walk(&t, stage);
        interpreter_point(&t, k->stages, true);
    } while (interpreter_next(&t, 0, k->kept));
    free(t.value);
}

#endif
