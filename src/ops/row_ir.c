/* Reading the elementwise rows as kernel IR. */
#include "ops/row_ir.h"
#include "core/memory.h"
#include "kernel/words_ir.h"

#include <string.h>

typedef int (*sentence)(hd_ir *ir, const int *v, const int *p);

/* ---- every sentence as a function of its variables --------------------------------------------------------------- */
#define SENTENCE(label, value)                                                                                         \
    static int label(hd_ir *ir, const int *v, const int *p_) {                                                         \
        const int x = v[0], a = v[0], b = v[1], c = v[2], g = v[HD_INPUT_GRADIENT], y = v[HD_INPUT_VALUE];             \
        (void)ir, (void)x, (void)a, (void)b, (void)c, (void)g, (void)y, (void)p_;                                      \
        return (value);                                                                                                \
    }
#define WITH1(label, n1, value)     SENTENCE_WITH(label, const int n1 = p_[0];, value)
#define WITH2(label, n1, n2, value) SENTENCE_WITH(label, const int n1 = p_[0]; const int n2 = p_[1];, value)
#define WITH3(label, n1, n2, n3, value)                                                                                \
    SENTENCE_WITH(label, const int n1 = p_[0]; const int n2 = p_[1]; const int n3 = p_[2];, value)
#define SENTENCE_WITH(label, numbers, value)                                                                           \
    static int label(hd_ir *ir, const int *v, const int *p_) {                                                         \
        const int x = v[0], a = v[0], b = v[1], c = v[2], g = v[HD_INPUT_GRADIENT], y = v[HD_INPUT_VALUE];             \
        (void)ir, (void)x, (void)a, (void)b, (void)c, (void)g, (void)y;                                                \
        numbers return (value);                                                                                        \
    }
#define CHOICE(label, value)                                                                                           \
    static int label(hd_ir *ir, const int *v, const int *p_) {                                                         \
        const int c = v[0], a = v[1], b = v[2], g = v[HD_INPUT_GRADIENT];                                              \
        (void)ir, (void)c, (void)a, (void)b, (void)g, (void)p_;                                                        \
        return (value);                                                                                                \
    }
#define UNARY(name, t, u, d, r, value, dx)      SENTENCE(value_##name, value) SENTENCE(d0_##name, dx)
#define UNARY1(name, t, u, d, r, n1, value, dx) WITH1(value_##name, n1, value) WITH1(d0_##name, n1, ((void)n1, dx))
#define UNARY2(name, t, u, d, r, n1, n2, value, dx)                                                                    \
    WITH2(value_##name, n1, n2, value) WITH2(d0_##name, n1, n2, ((void)n1, (void)n2, dx))
#define UNARY3(name, t, u, d, r, n1, n2, n3, value, dx)                                                                \
    WITH3(value_##name, n1, n2, n3, value) WITH3(d0_##name, n1, n2, n3, ((void)n1, (void)n2, (void)n3, dx))
#define TEST(name, t, d, r, value) SENTENCE(value_##name, value)
#define BINARY(name, t, u, d, r, value, da, db)                                                                        \
    SENTENCE(value_##name, value) SENTENCE(d0_##name, da) SENTENCE(d1_##name, db)
#define SPLIT(name, u, d, r, guard, ints, floats, da, db)                                                              \
    SENTENCE(ints_##name, ints) SENTENCE(value_##name, floats) SENTENCE(d0_##name, da) SENTENCE(d1_##name, db)
#define COMPARE(name, t, d, r, value)        SENTENCE(value_##name, value)
#define CHOOSE(name, t, d, r, value, da, db) CHOICE(value_##name, value) CHOICE(d1_##name, da) CHOICE(d2_##name, db)
#define TERNARY(name, t, u, d, r, value, da, db, dc)                                                                   \
    SENTENCE(value_##name, value) SENTENCE(d0_##name, da) SENTENCE(d1_##name, db) SENTENCE(d2_##name, dc)
#define TERNARY1(name, t, u, d, r, n1, value, da, db, dc)                                                              \
    WITH1(value_##name, n1, value)                                                                                     \
    WITH1(d0_##name, n1, ((void)n1, da)) WITH1(d1_##name, n1, ((void)n1, db)) WITH1(d2_##name, n1, ((void)n1, dc))
#include "ops/elementwise.def"

typedef struct row_sentences {
    sentence value, ints, derivative[3];
} row_sentences;

static const row_sentences sentences[HD_OP_ELEMENTWISE_COUNT] = {
#define ONE(name)           [HD_OP_##name] = {value_##name, value_##name, {d0_##name}},
#define TWO(name)           [HD_OP_##name] = {value_##name, value_##name, {d0_##name, d1_##name}},
#define THREE(name)         [HD_OP_##name] = {value_##name, value_##name, {d0_##name, d1_##name, d2_##name}},
#define NO_DERIVATIVE(name) [HD_OP_##name] = {value_##name, value_##name, {NULL}},
#define UNARY(name, ...)    ONE(name)
#define UNARY1(name, ...)   ONE(name)
#define UNARY2(name, ...)   ONE(name)
#define UNARY3(name, ...)   ONE(name)
#define TEST(name, ...)     NO_DERIVATIVE(name)
#define BINARY(name, ...)   TWO(name)
#define SPLIT(name, ...)    [HD_OP_##name] = {value_##name, ints_##name, {d0_##name, d1_##name}},
#define COMPARE(name, ...)  NO_DERIVATIVE(name)
#define CHOOSE(name, ...)   [HD_OP_##name] = {value_##name, value_##name, {NULL, d1_##name, d2_##name}},
#define TERNARY(name, ...)  THREE(name)
#define TERNARY1(name, ...) THREE(name)
#include "ops/elementwise.def"
};

/* ---- reading one ------------------------------------------------------------------------------------------------- */
bool hd_row_takes(hd_op_id id, hd_compute type) { return hd_op_takes(&hd_ops[id], (hd_dtype)hd_compute_dtype[type]); }

static hd_error read_sentence(hd_op_id id, sentence s, hd_compute type, bool derivative, hd_ir *out) {
    hd_ir_init(out, type);
    if (s == NULL || !hd_row_takes(id, type))
        return hd_fail(HD_ERROR_INTERNAL, "%s has no such sentence", hd_ops[id].name);
    int v[5] = {-1, -1, -1, -1, -1}, p[3] = {-1, -1, -1};
    for (int i = 0; i < hd_rows[id].operands; ++i) v[i] = hd_ir_input(out, i, hd_rows[id].chooses && i == 0);
    for (int i = 0; i < hd_rows[id].numbers; ++i) p[i] = hd_ir_number(out, i);
    if (derivative) {
        v[HD_INPUT_GRADIENT] = hd_ir_input(out, HD_INPUT_GRADIENT, false);
        v[HD_INPUT_VALUE] = hd_ir_input(out, HD_INPUT_VALUE, false);
    }
    out->result = s(out, v, p);
    hd_error status = out->result < 0 ? HD_ERROR_MEMORY : hd_ir_renumber(out);
    if (status == HD_OK) status = hd_ir_verify(out);
    if (status != HD_OK) hd_ir_release(out);
    return status;
}

hd_error hd_row_value_ir(hd_op_id id, hd_compute type, hd_ir *out) {
    return read_sentence(id, type < HD_COMPUTE_F32 ? sentences[id].ints : sentences[id].value, type, false, out);
}

hd_error hd_row_derivative_ir(hd_op_id id, int operand, hd_compute type, hd_ir *out) {
    return read_sentence(id, sentences[id].derivative[operand], type, true, out);
}

/* ---- many of them ------------------------------------------------------------------------------------------------ */
enum { READINGS = 4 * HD_COMPUTE_COUNT }; /* of an op */

void hd_row_irs_end(hd_row_irs *rows) {
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        hd_ir **of_op = rows->read[id];
        for (int i = 0; of_op != NULL && i < READINGS; ++i) {
            if (of_op[i] == NULL) continue;
            hd_ir_release(of_op[i]);
            hd_array_release(of_op[i]);
        }
        hd_array_release(of_op);
    }
    memset(rows, 0, sizeof *rows);
}

const hd_ir *hd_row_irs_get(hd_row_irs *rows, hd_op_id id, int derivative, hd_compute type) {
    hd_ir **of_op = rows->read[id];
    if (of_op == NULL) {
        of_op = rows->read[id] = hd_array_resize(NULL, READINGS * sizeof *of_op);
        if (of_op == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory to read %s", hd_ops[id].name);
            return NULL;
        }
        memset(of_op, 0, READINGS * sizeof *of_op);
    }
    hd_ir **at = &of_op[derivative * HD_COMPUTE_COUNT + (int)type];
    if (*at != NULL) return *at;
    hd_ir *ir = hd_array_resize(NULL, sizeof *ir);
    const hd_error status = ir == NULL        ? hd_fail(HD_ERROR_MEMORY, "no memory to read %s", hd_ops[id].name)
                            : derivative == 0 ? hd_row_value_ir(id, type, ir)
                                              : hd_row_derivative_ir(id, derivative - 1, type, ir);
    if (status == HD_OK) return *at = ir;
    hd_array_release(ir);
    return NULL;
}
