/* One kernel per derivative of an elementwise row, for one float type T and one instruction set HD_ISA: the derivative
 * sentence in a loop over contiguous memory. Its inputs are the variables it uses, in the order a, b, c, y, g. */
#include "device/cpu/kernels.h"
#include "ops/row_uses.h"

#include "kernel/words_c.h"

#define TYPE_IS_f32 1
#define TYPE_IS_f64 2
#if W_JOIN(TYPE_IS, T) == TYPE_IS_f32
#define W_PRECISION 32
#else
#define W_PRECISION 64
#endif
#include "kernel/math.def"

#define INPUT(bit) in[hd_uses_place(uses, bit)]
#define KERNEL(name, operand, value, ...)                                                                              \
    static void d##operand##_##name(void *o, const void *const in[3], const void *numbers, int64_t n) {                \
        const unsigned uses = hd_row_uses(HD_OP_##name, operand);                                                      \
        CT *out = o;                                                                                                   \
        const CT *pa = INPUT(HD_SAVE_INPUT0), *pb = INPUT(HD_SAVE_INPUT1), *pc = INPUT(HD_SAVE_INPUT2),                \
                 *py = INPUT(HD_SAVE_OUTPUT), *pg = INPUT(HD_USES_GRADIENT);                                           \
        __VA_ARGS__(void) numbers;                                                                                     \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) {                                                                   \
            const CT x = pa[i], a = pa[i], b = pb[i], c = pc[i], y = py[i], g = pg[i];                                 \
            (void)x, (void)a, (void)b, (void)c, (void)y, (void)g;                                                      \
            out[i] = (value);                                                                                          \
        }                                                                                                              \
    }
/* The condition of a choice is bytes. */
#define CHOICE(name, operand, value)                                                                                   \
    static void d##operand##_##name(void *o, const void *const in[3], const void *numbers, int64_t n) {                \
        CT *out = o;                                                                                                   \
        const uint8_t *pc = in[0];                                                                                     \
        const CT *pg = in[1];                                                                                          \
        (void)numbers;                                                                                                 \
        EACH_ALONE for (int64_t i = 0; i < n; ++i) {                                                                   \
            const uint8_t c = pc[i];                                                                                   \
            const CT g = pg[i];                                                                                        \
            out[i] = (value);                                                                                          \
        }                                                                                                              \
    }
#define NUMBER(p, k)                                                                                                   \
    const CT p = ((const CT *)numbers)[k];                                                                             \
    (void)p;

#define ON_FLOATS(...)  __VA_ARGS__
#define ON_NUMBERS(...) __VA_ARGS__
#define ON_ALL(...)     __VA_ARGS__
#define ON_INTS(...)

#define UNARY(name, types, u, d, r, value, dx)        ON_##types(KERNEL(name, 0, dx, ))
#define UNARY1(name, types, u, d, r, p, value, dx)    ON_##types(KERNEL(name, 0, dx, NUMBER(p, 0)))
#define UNARY2(name, types, u, d, r, p, q, value, dx) ON_##types(KERNEL(name, 0, dx, NUMBER(p, 0) NUMBER(q, 1)))
#define UNARY3(name, types, u, d, r, p, q, s, value, dx)                                                               \
    ON_##types(KERNEL(name, 0, dx, NUMBER(p, 0) NUMBER(q, 1) NUMBER(s, 2)))
#define BINARY(name, types, u, d, r, value, da, db)       ON_##types(KERNEL(name, 0, da, ) KERNEL(name, 1, db, ))
#define SPLIT(name, u, d, r, guard, ints, floats, da, db) KERNEL(name, 0, da, ) KERNEL(name, 1, db, )
#define CHOOSE(name, types, d, r, value, da, db)          CHOICE(name, 1, da) CHOICE(name, 2, db)
#define TERNARY(name, types, u, d, r, value, da, db, dc)                                                               \
    KERNEL(name, 0, da, ) KERNEL(name, 1, db, ) KERNEL(name, 2, dc, )
#define TERNARY1(name, types, u, d, r, p, value, da, db, dc)                                                           \
    KERNEL(name, 0, da, NUMBER(p, 0)) KERNEL(name, 1, db, NUMBER(p, 0)) KERNEL(name, 2, dc, NUMBER(p, 0))
#include "ops/elementwise.def"

#define TABLE_(isa, t) hd_derivative_##isa##_##t
#define TABLE(isa, t)  TABLE_(isa, t)
extern const hd_elementwise_kernel TABLE(HD_ISA, T)[HD_OP_ELEMENTWISE_COUNT][3];
const hd_elementwise_kernel TABLE(HD_ISA, T)[HD_OP_ELEMENTWISE_COUNT][3] = {
#define ONE(name)                [HD_OP_##name] = {d0_##name},
#define TWO(name)                [HD_OP_##name] = {d0_##name, d1_##name},
#define THREE(name)              [HD_OP_##name] = {d0_##name, d1_##name, d2_##name},
#define UNARY(name, types, ...)  ON_##types(ONE(name))
#define UNARY1(name, types, ...) ON_##types(ONE(name))
#define UNARY2(name, types, ...) ON_##types(ONE(name))
#define UNARY3(name, types, ...) ON_##types(ONE(name))
#define BINARY(name, types, ...) ON_##types(TWO(name))
#define SPLIT(name, ...)         TWO(name)
#define CHOOSE(name, ...)        [HD_OP_##name] = {NULL, d1_##name, d2_##name},
#define TERNARY(name, ...)       THREE(name)
#define TERNARY1(name, ...)      THREE(name)
#include "ops/elementwise.def"
};
