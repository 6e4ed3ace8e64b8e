/* Kernel IR as C text. The words are those of words_c.h, whose text is the preamble: a word is written in C once. */
#include "kernel/ir.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char hd_words_text[]; /* words_c.h, embedded by the build */
extern const size_t hd_words_text_size;

#define APPEND(...)                                                                                                    \
    at += (size_t)snprintf(at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0, __VA_ARGS__)

size_t hd_render_preamble(char *out, size_t capacity) {
    if (capacity > 0) {
        const size_t n = hd_words_text_size < capacity - 1 ? hd_words_text_size : capacity - 1;
        memcpy(out, hd_words_text, n);
        out[n] = '\0';
    }
    return hd_words_text_size;
}

static size_t render_constant(const hd_ir *ir, double value, char *out, size_t capacity) {
    size_t at = 0;
    if (value != value)
        APPEND("(c_%s)NAN", hd_ir_type_name((int)ir->type));
    else if (isinf(value))
        APPEND("(c_%s)%sINFINITY", hd_ir_type_name((int)ir->type), value < 0 ? "-" : "");
    else if (ir->type == HD_COMPUTE_F32 || ir->type == HD_COMPUTE_F64) {
        char digits[40]; /* which give the same number again */
        snprintf(digits, sizeof digits, "%.*g", ir->type == HD_COMPUTE_F32 ? 9 : 17, value);
        APPEND("%s%s%s", digits, strpbrk(digits, ".e") == NULL ? ".0" : "", ir->type == HD_COMPUTE_F32 ? "f" : "");
    } else
        APPEND("(c_%s)%lld", hd_ir_type_name((int)ir->type), (long long)value);
    return at;
}

/* One statement per node: const c_f32 v3 = w_mul_f32(v1, v2); `inputs`: their names, or NULL: p0[i], p1[i], ... */
static size_t render_node(const hd_ir *ir, int i, const char *const *inputs, char *out, size_t capacity) {
    const hd_ir_node *n = &ir->nodes[i];
    const char *type = hd_ir_type_name((int)ir->type);
    size_t at = 0;
    if (n->type == HD_CONDITION)
        APPEND("        const bool v%d = ", i);
    else
        APPEND("        const c_%s v%d = ", type, i);
    if (n->word == HD_WORD_INPUT && inputs != NULL)
        APPEND("%s", inputs[n->index]);
    else if (n->word == HD_WORD_INPUT)
        APPEND("p%d[i]", n->index);
    else if (n->word == HD_WORD_NUMBER)
        APPEND("((const c_%s *)numbers)[%d]", type, n->index);
    else if (n->word == HD_WORD_CONSTANT)
        at += render_constant(ir, n->value, at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0);
    else if (n->word == HD_WORD_BOTH || n->word == HD_WORD_EITHER)
        APPEND("v%d %c v%d", n->operand[0], n->word == HD_WORD_BOTH ? '&' : '|', n->operand[1]);
    else if (n->word == HD_WORD_UNLESS)
        APPEND("!v%d", n->operand[0]);
    else {
        APPEND("w_");
        for (const char *c = hd_words[n->word].name; *c; ++c) APPEND("%c", tolower((unsigned char)*c));
        APPEND("_%s(", type);
        for (int k = 0; k < hd_words[n->word].arity; ++k) APPEND("%sv%d", k ? ", " : "", n->operand[k]);
        APPEND(")");
    }
    APPEND(";\n");
    return at;
}

static size_t render_nodes(const hd_ir *ir, const char *const *inputs, char *out, size_t capacity) {
    size_t at = 0;
    for (int i = 0; i <= ir->result; ++i)
        at += render_node(ir, i, inputs, at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0);
    return at;
}

/* W_INLINE c_f32 w_exp_f32(c_f32 a) */
static size_t render_head(hd_compute type, hd_word word, char *out, size_t capacity) {
    size_t at = 0;
    const char *t = hd_ir_type_name((int)type);
    APPEND("W_INLINE c_%s w_", t);
    for (const char *c = hd_words[word].name; *c; ++c) APPEND("%c", tolower((unsigned char)*c));
    APPEND("_%s(c_%s a", t, t);
    if (hd_words[word].arity == 2) APPEND(", c_%s b", t);
    APPEND(")");
    return at;
}

hd_error hd_read_program(hd_compute type, hd_word word, hd_ir *out) {
    hd_ir_init(out, type);
    const int a = hd_ir_input(out, 0, false), b = hd_words[word].arity == 2 ? hd_ir_input(out, 1, false) : -1;
    out->result = hd_ir_program(out, word, a, b);
    if (out->result >= 0 && hd_ir_renumber(out) == HD_OK) return HD_OK;
    hd_ir_release(out);
    return HD_ERROR_MEMORY;
}

size_t hd_render_program(hd_compute type, hd_word word, bool declares, char *out, size_t capacity) {
    static const char *const inputs[] = {"a", "b"};
    hd_ir ir;
    size_t at = render_head(type, word, out, capacity);
    if (declares) {
        APPEND(";\n");
        return at;
    }
    if (hd_read_program(type, word, &ir) != HD_OK) return 0;
    APPEND(" {\n");
    at += render_nodes(&ir, inputs, at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0);
    APPEND("        return v%d;\n}\n", ir.result);
    hd_ir_release(&ir);
    return at;
}

size_t hd_render_programs(hd_compute type, char *out, size_t capacity) {
    size_t at = 0;
    for (int pass = 0; pass < 2; ++pass) /* first all declarations: programs use one another */
        for (int word = 0; word < HD_WORD_INPUT; ++word) {
            if (!hd_words[word].is_function) continue;
            const size_t length = hd_render_program(type, (hd_word)word, pass == 0, at < capacity ? out + at : NULL,
                                                    at < capacity ? capacity - at : 0);
            if (length == 0) return 0;
            at += length;
        }
    return at;
}

size_t hd_render_c(const hd_ir *ir, const char *name, char *out, size_t capacity) {
    size_t at = 0;
    const char *type = hd_ir_type_name((int)ir->type);
    APPEND("void %s(void *out, const void *const in[3], const void *numbers, int64_t n) {\n", name);
    for (int i = 0; i < ir->count; ++i)
        if (ir->nodes[i].word == HD_WORD_INPUT)
            APPEND("    const %s%s *restrict p%d = in[%d];\n", ir->nodes[i].type == HD_CONDITION ? "uint8_t" : "c_",
                   ir->nodes[i].type == HD_CONDITION ? "" : type, ir->nodes[i].index, ir->nodes[i].index);
    const bool condition = ir->nodes[ir->result].type == HD_CONDITION;
    APPEND("    %s%s *restrict o = out;\n    (void)in;\n    (void)numbers;\n", condition ? "uint8_t" : "c_",
           condition ? "" : type);
    APPEND("    for (int64_t i = 0; i < n; ++i) {\n");
    at += render_nodes(ir, NULL, at < capacity ? out + at : NULL, at < capacity ? capacity - at : 0);
    APPEND("        o[i] = v%d;\n    }\n}\n", ir->result);
    return at;
}
