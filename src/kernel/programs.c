/* The scalar programs of math.def read as kernel IR. */
#include "kernel/words_ir.h"

#define PROGRAM1(name, x)                                                                                              \
    static int program_##name(hd_ir *ir, int x, int unused) {                                                          \
        (void)unused;
#define PROGRAM2(name, a, b) static int program_##name(hd_ir *ir, int a, int b) {
#define LET(v, e)            const int v = (e);
#define WHEN(v, e)           const int v = (e);
#define RESULT(e)                                                                                                      \
    return (e);                                                                                                        \
    }
#include "kernel/math.def"

int hd_ir_program(hd_ir *ir, hd_word word, int a, int b) {
    static int (*const programs[HD_WORD_COUNT])(hd_ir *, int, int) = {
#define FUNCTION(name, program, arity, cost, meaning) [HD_WORD_##name] = program_##program,
#include "kernel/words.def"
    };
    return programs[word](ir, a, b);
}
