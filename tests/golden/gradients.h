/* The rows read once more, in type T with W_PRECISION: each derivative sentence as a function
 *     gradient_<row>_<T>(operands, numbers, g, out)
 * and the table gradients_<T>. Include once per type, after kernel/words_c.h. No derivative: NULL (the op gives
 * bool). */
#include "kernel/math.def"

#define GRADIENT(name) static void W_JOIN(gradient_##name, T)(const CT in[3], const CT number[3], CT g, CT out[3])
#define READ1(name, value, dx, ...)                                                                                    \
    GRADIENT(name) {                                                                                                   \
        const CT x = in[0];                                                                                            \
        __VA_ARGS__(void) number;                                                                                      \
        const CT y = (value);                                                                                          \
        (void)x, (void)y, (void)g;                                                                                     \
        out[0] = (dx);                                                                                                 \
    }
#define READ2(name, value, da, db)                                                                                     \
    GRADIENT(name) {                                                                                                   \
        const CT a = in[0], b = in[1];                                                                                 \
        const CT y = (value);                                                                                          \
        (void)a, (void)b, (void)y, (void)g, (void)number;                                                              \
        out[0] = (da), out[1] = (db);                                                                                  \
    }
#define READ3(name, value, da, db, dc, ...)                                                                            \
    GRADIENT(name) {                                                                                                   \
        const CT a = in[0], b = in[1], c = in[2];                                                                      \
        __VA_ARGS__(void) number;                                                                                      \
        const CT y = (value);                                                                                          \
        (void)a, (void)b, (void)c, (void)y, (void)g;                                                                   \
        out[0] = (da), out[1] = (db), out[2] = (dc);                                                                   \
    }
#define NUMBER(p, k)    const CT p = number[k];
#define ON_FLOATS(...)  __VA_ARGS__
#define ON_NUMBERS(...) __VA_ARGS__
#define ON_ALL(...)     __VA_ARGS__
#define ON_INTS(...)

#define UNARY(name, types, ulp, doc, ref, value, dx)        ON_##types(READ1(name, value, dx, ))
#define UNARY1(name, types, ulp, doc, ref, p, value, dx)    READ1(name, value, dx, NUMBER(p, 0))
#define UNARY2(name, types, ulp, doc, ref, p, q, value, dx) READ1(name, value, dx, NUMBER(p, 0) NUMBER(q, 1))
#define UNARY3(name, types, ulp, doc, ref, p, q, r, value, dx)                                                         \
    READ1(name, value, dx, NUMBER(p, 0) NUMBER(q, 1) NUMBER(r, 2))
#define BINARY(name, types, ulp, doc, ref, value, da, db)       ON_##types(READ2(name, value, da, db))
#define SPLIT(name, ulp, doc, ref, guard, ints, floats, da, db) READ2(name, floats, da, db)
#define CHOOSE(name, types, doc, ref, value, da, db)                                                                   \
    GRADIENT(name) {                                                                                                   \
        const bool c = in[0] != 0;                                                                                     \
        (void)number;                                                                                                  \
        out[0] = (da), out[1] = (db); /* of a and b */                                                                 \
    }
#define TERNARY(name, types, ulp, doc, ref, value, da, db, dc)     READ3(name, value, da, db, dc, )
#define TERNARY1(name, types, ulp, doc, ref, p, value, da, db, dc) READ3(name, value, da, db, dc, NUMBER(p, 0))
#include "ops/elementwise.def"

typedef void W_JOIN(gradient_of, T)(const CT in[3], const CT number[3], CT g, CT out[3]);
static W_JOIN(gradient_of, T) *const W_JOIN(gradients, T)[HD_OP_ELEMENTWISE_COUNT] = {
#define ENTRY(name)              [HD_OP_##name] = W_JOIN(gradient_##name, T),
#define UNARY(name, types, ...)  ON_##types(ENTRY(name))
#define UNARY1(name, ...)        ENTRY(name)
#define UNARY2(name, ...)        ENTRY(name)
#define UNARY3(name, ...)        ENTRY(name)
#define BINARY(name, types, ...) ON_##types(ENTRY(name))
#define SPLIT(name, ...)         ENTRY(name)
#define CHOOSE(name, ...)        ENTRY(name)
#define TERNARY(name, ...)       ENTRY(name)
#define TERNARY1(name, ...)      ENTRY(name)
#include "ops/elementwise.def"
};

#undef ENTRY
#undef GRADIENT
#undef READ1
#undef READ2
#undef READ3
#undef NUMBER
#undef ON_FLOATS
#undef ON_NUMBERS
#undef ON_ALL
#undef ON_INTS
