/* What the derivative sentences of the elementwise rows read: known at compile time where the row is. */
#ifndef HD_OPS_ROW_USES_H
#define HD_OPS_ROW_USES_H

#include "kernel/words_uses.h"
#include "ops/row_ir.h"

#define USES(name, operand, sentence)                                                                                  \
    case HD_OP_##name * 3 + (operand): return (unsigned)(sentence);
/* The row's numbers are constants: nothing that must be saved. */
#define WITH(name, operand, numbers, sentence)                                                                         \
    case HD_OP_##name * 3 + (operand): {                                                                               \
        numbers return (unsigned)(sentence);                                                                           \
    }
#define NUMBER(p)                                                                                                      \
    const int p = 0;                                                                                                   \
    (void)p;

/* Bits HD_SAVE_*, HD_USES_GRADIENT and HD_USES_WORK for the derivative of a row by an operand; 0: it is zero. */
static inline unsigned hd_row_uses(hd_op_id id, int operand) {
    if (hd_rows[id].chooses) return operand == 0 ? 0 : HD_SAVE_INPUT0 | HD_USES_GRADIENT | HD_USES_WORK;
    enum { x = HD_SAVE_INPUT0, a = HD_SAVE_INPUT0, b = HD_SAVE_INPUT1, c = HD_SAVE_INPUT2, y = HD_SAVE_OUTPUT };
    enum { g = HD_USES_GRADIENT };
    switch ((int)id * 3 + operand) {
#define UNARY(name, t, u, d, r, value, dx)            USES(name, 0, dx)
#define UNARY1(name, t, u, d, r, p, value, dx)        WITH(name, 0, NUMBER(p), dx)
#define UNARY2(name, t, u, d, r, p, q, value, dx)     WITH(name, 0, NUMBER(p) NUMBER(q), dx)
#define UNARY3(name, t, u, d, r, p, q, s, value, dx)  WITH(name, 0, NUMBER(p) NUMBER(q) NUMBER(s), dx)
#define BINARY(name, t, u, d, r, value, da, db)       USES(name, 0, da) USES(name, 1, db)
#define SPLIT(name, u, d, r, guard, ints, fl, da, db) USES(name, 0, da) USES(name, 1, db)
#define TERNARY(name, t, u, d, r, value, da, db, dc)  USES(name, 0, da) USES(name, 1, db) USES(name, 2, dc)
#define TERNARY1(name, t, u, d, r, p, value, da, db, dc)                                                               \
    WITH(name, 0, NUMBER(p), da) WITH(name, 1, NUMBER(p), db) WITH(name, 2, NUMBER(p), dc)
#include "ops/elementwise.def"
    default: return 0; /* rows that give bool */
    }
}
#undef USES
#undef WITH
#undef NUMBER
#include "kernel/words_undefine.h"

/* Which of a derivative kernel's inputs a variable is: those it uses, in the order of the bits. */
static inline int hd_uses_place(unsigned uses, unsigned bit) {
    return (uses & bit) ? __builtin_popcount(uses & (bit - 1) & (HD_SAVE_ANY | HD_USES_GRADIENT)) : 0;
}

/* What a derivative may read, and where that stands among the inputs of its IR. */
enum { HD_ROW_VARIABLES = 5 };
static const struct {
    unsigned bit;
    int place;
} hd_row_variables[HD_ROW_VARIABLES] = {{HD_SAVE_INPUT0, 0},
                                        {HD_SAVE_INPUT1, 1},
                                        {HD_SAVE_INPUT2, 2},
                                        {HD_SAVE_OUTPUT, HD_INPUT_VALUE},
                                        {HD_USES_GRADIENT, HD_INPUT_GRADIENT}};

#endif
