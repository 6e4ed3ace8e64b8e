/* One kernel per elementwise row, for one compute type T and one instruction set HD_ISA (both set by the build): the
 * sentence in a loop over contiguous memory, which the compiler vectorises. */
#include "device/cpu/kernels.h"
#include "kernel/words_c.h"

#define TYPE_IS_f32 1
#define TYPE_IS_f64 2
#define TYPE_IS_b8  3
#define CLASS       W_JOIN(TYPE_IS, T)
#if CLASS == TYPE_IS_f32
#define W_PRECISION 32
#elif CLASS == TYPE_IS_f64
#define W_PRECISION 64
#endif

#ifdef W_PRECISION
#include "kernel/math.def"
#define ON_FLOATS(...)  __VA_ARGS__
#define ON_NUMBERS(...) __VA_ARGS__
#define ON_INTS(...)
#define SENTENCE(ints, floats) floats
#elif CLASS == TYPE_IS_b8
#define ON_FLOATS(...)
#define ON_NUMBERS(...)
#define ON_INTS(...) __VA_ARGS__
#else
#define ON_FLOATS(...)
#define ON_NUMBERS(...)        __VA_ARGS__
#define ON_INTS(...)           __VA_ARGS__
#define SENTENCE(ints, floats) ints
#endif
#define ON_ALL(...) __VA_ARGS__

#define KERNEL(name) static void k_##name(void *o, const void *const in[3], const void *numbers, int64_t n)
#define ONE(name, OUT, value, ...)                                                                                     \
    KERNEL(name) {                                                                                                     \
        OUT *out = o;                                                                                                  \
        const CT *px = in[0];                                                                                          \
        __VA_ARGS__(void) numbers;                                                                                     \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) {                                                                   \
            const CT x = px[i];                                                                                        \
            out[i] = (value);                                                                                          \
        }                                                                                                              \
    }
#define TWO(name, OUT, value)                                                                                          \
    KERNEL(name) {                                                                                                     \
        OUT *out = o;                                                                                                  \
        const CT *pa = in[0], *pb = in[1];                                                                             \
        (void)numbers;                                                                                                 \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) {                                                                   \
            const CT a = pa[i], b = pb[i];                                                                             \
            out[i] = (value);                                                                                          \
        }                                                                                                              \
    }
#define THREE(name, CONDITION, FIRST, SECOND, THIRD, value, ...)                                                       \
    KERNEL(name) {                                                                                                     \
        CT *out = o;                                                                                                   \
        const CONDITION *p0 = in[0];                                                                                   \
        const CT *p1 = in[1], *p2 = in[2];                                                                             \
        __VA_ARGS__(void) numbers;                                                                                     \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) {                                                                   \
            const CONDITION FIRST = p0[i];                                                                             \
            const CT SECOND = p1[i], THIRD = p2[i];                                                                    \
            out[i] = (value);                                                                                          \
        }                                                                                                              \
    }
#define NUMBER(p, k) const CT p = ((const CT *)numbers)[k];

#define UNARY(name, types, ulp, doc, ref, value, dx)        ON_##types(ONE(name, CT, value, ))
#define UNARY1(name, types, ulp, doc, ref, p, value, dx)    ON_##types(ONE(name, CT, value, NUMBER(p, 0)))
#define UNARY2(name, types, ulp, doc, ref, p, q, value, dx) ON_##types(ONE(name, CT, value, NUMBER(p, 0) NUMBER(q, 1)))
#define UNARY3(name, types, ulp, doc, ref, p, q, r, value, dx)                                                         \
    ON_##types(ONE(name, CT, value, NUMBER(p, 0) NUMBER(q, 1) NUMBER(r, 2)))
#define TEST(name, types, doc, ref, condition)                  ON_##types(ONE(name, uint8_t, condition, ))
#define BINARY(name, types, ulp, doc, ref, value, da, db)       ON_##types(TWO(name, CT, value))
#define SPLIT(name, ulp, doc, ref, guard, ints, floats, da, db) ON_NUMBERS(TWO(name, CT, SENTENCE(ints, floats)))
#define COMPARE(name, types, doc, ref, condition)               ON_##types(TWO(name, uint8_t, condition))
#define CHOOSE(name, types, doc, ref, value, da, db)            ON_##types(THREE(name, uint8_t, c, a, b, value, ))
#define TERNARY(name, types, ulp, doc, ref, value, da, db, dc)  ON_##types(THREE(name, CT, a, b, c, value, ))
#define TERNARY1(name, types, ulp, doc, ref, p, value, da, db, dc)                                                     \
    ON_##types(THREE(name, CT, a, b, c, value, NUMBER(p, 0)))
#include "ops/elementwise.def"

#define TABLE_(isa, t) hd_elementwise_##isa##_##t
#define TABLE(isa, t)  TABLE_(isa, t)
extern const hd_elementwise_kernel TABLE(HD_ISA, T)[HD_OP_ELEMENTWISE_COUNT];
const hd_elementwise_kernel TABLE(HD_ISA, T)[HD_OP_ELEMENTWISE_COUNT] = {
#define ENTRY(name)                [HD_OP_##name] = k_##name,
#define UNARY(name, types, ...)    ON_##types(ENTRY(name))
#define UNARY1(name, types, ...)   ON_##types(ENTRY(name))
#define UNARY2(name, types, ...)   ON_##types(ENTRY(name))
#define UNARY3(name, types, ...)   ON_##types(ENTRY(name))
#define TEST(name, types, ...)     ON_##types(ENTRY(name))
#define BINARY(name, types, ...)   ON_##types(ENTRY(name))
#define SPLIT(name, ...)           ON_NUMBERS(ENTRY(name))
#define COMPARE(name, types, ...)  ON_##types(ENTRY(name))
#define CHOOSE(name, types, ...)   ON_##types(ENTRY(name))
#define TERNARY(name, types, ...)  ON_##types(ENTRY(name))
#define TERNARY1(name, types, ...) ON_##types(ENTRY(name))
#include "ops/elementwise.def"
};
