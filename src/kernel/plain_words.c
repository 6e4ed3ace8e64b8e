/* The text that stands above exported C: dialect_c.h, and of words_c.h the words that are used, each written out as a
 * function, so that what people read has no macros. A word is a macro of words_c.h, W_add_FLOAT(t), whose text is put
 * here with a type in the place of t. */
#include "kernel/gpu_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

extern const unsigned char hd_words_text[], hd_kernel_text[], hd_small_text[], hd_draw_text[], hd_c_text[];
extern const size_t hd_words_text_size, hd_kernel_text_size, hd_small_text_size, hd_draw_text_size, hd_c_text_size;

/* ---- finding macros ---------------------------------------------------------------------------------------------- */
typedef struct piece { /* of a text */
    const char *at;
    size_t count;
} piece;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* What follows "#define <name>" or "#define <name>(t)", up to the line without a backslash. Of several the first; at
 * NULL: there is none. */
static piece find_macro(const char *text, size_t size, const char *name) {
    const size_t length = strlen(name);
    static const char define[] = "#define ";
    const size_t head = sizeof define - 1;
    for (size_t i = 0; i + head + length < size; ++i) {
        if (memcmp(text + i, define, head) != 0 || memcmp(text + i + head, name, length) != 0) continue;
        size_t begin = i + head + length;
        if (is_name(text[begin])) continue;
        if (text[begin] == '(')
            while (text[begin++] != ')') {}
        while (text[begin] == ' ') ++begin;
        size_t end = begin;
        while (end < size && !(text[end] == '\n' && text[end - 1] != '\\')) ++end;
        return (piece){text + begin, end - begin};
    }
    return (piece){NULL, 0};
}
static piece word_macro(const char *name) {
    const piece found = find_macro((const char *)hd_words_text, hd_words_text_size, name);
    return found.at != NULL ? found : find_macro((const char *)hd_kernel_text, hd_kernel_text_size, name);
}

/* ---- writing them out -------------------------------------------------------------------------------------------- */
enum { DEEPEST = 4, NAME = 64 };
static void write_out(hd_writer *w, piece body, const char *type, int depth);

/* A name of the text, of which `t` between ## is the type: what it stands for, where it is a macro without arguments
 * such as W_WIDE_i8, else itself. */
static void write_name(hd_writer *w, const char *name, bool is_call, const char *type, int depth) {
    const bool is_macro = strncmp(name, "W_", 2) == 0 && strcmp(name, "W_INLINE") != 0 && !is_call && depth < DEEPEST;
    const piece body = is_macro ? word_macro(name) : (piece){NULL, 0};
    if (body.at != NULL)
        write_out(w, body, type, depth + 1);
    else
        hd_say(w, "%s", name);
}

static void write_out(hd_writer *w, piece body, const char *type, int depth) {
    for (size_t i = 0; i < body.count;) {
        const char c = body.at[i];
        if (c == '\\' && i + 1 < body.count && body.at[i + 1] == '\n') { /* the end of a line, less what fills it */
            while (w->at > 0 && w->at < w->capacity && w->out[w->at - 1] == ' ') w->at--;
            hd_say(w, "\n");
            i += 2;
            if (depth == 0 && body.count - i > 4 && memcmp(body.at + i, "    ", 4) == 0) i += 4;
        } else if (is_name(c)) {
            char name[NAME];
            size_t n = 0;
            while (i < body.count && n + 8 < NAME) {
                if (body.at[i] == '#' && i + 2 < body.count && body.at[i + 1] == '#') {
                    i += 2; /* what is joined is t, or follows it */
                    if (body.at[i] == 't' && !is_name(body.at[i + 1])) {
                        n += (size_t)snprintf(name + n, NAME - n, "%s", type);
                        ++i;
                    }
                } else if (is_name(body.at[i])) {
                    name[n++] = body.at[i++];
                } else {
                    break;
                }
            }
            name[n] = '\0';
            write_name(w, strcmp(name, "t") == 0 ? type : name, i < body.count && body.at[i] == '(', type, depth);
        } else {
            hd_say(w, "%c", c);
            ++i;
        }
    }
}

static void write_macro(hd_writer *w, const char *name, const char *type) {
    const piece body = word_macro(name);
    if (body.at == NULL) return;
    write_out(w, body, type, 0);
    hd_say(w, "\n");
}

/* ---- words and casts --------------------------------------------------------------------------------------------- */
static bool is_float(int type) { return type == HD_COMPUTE_F32 || type == HD_COMPUTE_F64; }
static const char *kind_of(int type) { return is_float(type) ? "FLOAT" : type == HD_COMPUTE_B8 ? "BOOL" : "INT"; }

static void write_word(hd_writer *w, int word, int type) {
    char name[NAME];
    const bool any = word == HD_WORD_LT || word == HD_WORD_LE || word == HD_WORD_EQ || word == HD_WORD_SELECT;
    size_t n = (size_t)snprintf(name, NAME, "W_");
    for (const char *c = hd_words[word].name; *c; ++c) name[n++] = (char)tolower((unsigned char)*c);
    snprintf(name + n, NAME - n, "_%s", any ? "ANY" : kind_of(type));
    if (word == HD_WORD_FMOD)
        hd_say(w, "%s\n",
               type == HD_COMPUTE_F32 ? "W_PLAIN_FMOD(f32, uint32_t, 23, 0xffu)"
                                      : "W_PLAIN_FMOD(f64, uint64_t, 52, 0x7ffu)");
    write_macro(w, name, hd_ir_type_name(type));
}

static void write_words(hd_writer *w, const hd_vocabulary *v) {
    for (int word = 0; word < HD_WORD_INPUT; ++word)
        for (int type = 0; type < HD_VOCABULARY_TYPES; ++type)
            if (v->word[word][type] && !hd_words[word].is_function && hd_words[word].domain != HD_DOMAIN_COND)
                write_word(w, word, type);
}

/* From a float to an integer: saturated, NaN is 0. */
static void write_float_to_integer(hd_writer *w, int to, int from) {
    const int bits = 8 * hd_compute_bytes(to), is_signed = to >= HD_COMPUTE_I8 && to <= HD_COMPUTE_I64;
    const char *f = hd_ir_type_name(from), *t = hd_ir_type_name(to);
    char most[24];
    snprintf(most, sizeof most, "%s%d", is_signed ? "INT" : "UINT", bits);
    LINE("W_INLINE c_%s w_cast_%s_%s(c_%s v) {", t, t, f, f);
    LINE("    const c_%s lowest = %s0x1p%df, bound = 0x1p%df;", f, is_signed ? "-" : "0 * ", is_signed ? bits - 1 : 0,
         bits - is_signed);
    LINE("    if (!(v == v)) return 0;");
    LINE("    return v <= lowest ? (c_%s)lowest : v < bound ? (c_%s)v : %s_MAX;", t, t, most);
    LINE("}");
}

static void write_cast(hd_writer *w, int to, int from) {
    const char *f = hd_ir_type_name(from), *t = hd_ir_type_name(to);
    const bool is_truth = to == HD_COMPUTE_B8 || to == HD_CONDITION;
    if (is_float(from) && !is_float(to) && !is_truth)
        write_float_to_integer(w, to, from);
    else
        LINE("W_INLINE c_%s w_cast_%s_%s(c_%s v) { return (c_%s)%s; }", t, t, f, f, t, is_truth ? "(v != 0)" : "v");
}

static void write_folds(hd_writer *w, const hd_vocabulary *v) {
    static const char *const names[] = {"add", "mul", "max", "min"};
    for (int how = 0; how < 4; ++how)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type)
            if (v->fold[how][type]) LINE("W_FOLD(%s, %s)", names[how], hd_ir_type_name(type));
}

/* Rounding is written in other words, which stand before it in the table. */
static void use_rounding(hd_vocabulary *v) {
    for (int type = HD_COMPUTE_F32; type <= HD_COMPUTE_F64; ++type) {
        if (v->word[HD_WORD_TRUNC][type]) v->word[HD_WORD_FLOOR][type] = true;
        if (v->word[HD_WORD_FLOOR][type] || v->word[HD_WORD_CEIL][type]) v->word[HD_WORD_RINT][type] = true;
    }
}

bool hd_write_plain_preamble(hd_writer *w, const hd_vocabulary *used) {
    hd_vocabulary words = *used;
    const hd_vocabulary *v = &words;
    use_rounding(&words);
    hd_say_bytes(w, hd_c_text, hd_c_text_size);
    if (v->small) hd_say_bytes(w, hd_small_text, hd_small_text_size);
    hd_say(w, "\n/* ---- the words that are used ---- */\n");
    write_words(w, v);
    for (int to = 0; to < HD_VOCABULARY_TYPES; ++to)
        for (int from = 0; from < HD_VOCABULARY_TYPES; ++from)
            if (v->cast[to][from]) write_cast(w, to, from);
    write_folds(w, v);
    if (!hd_write_programs(w, v)) return false;
    if (!v->draws_any) return true;
    hd_say(w, "#define W_JOIN_(a, b) a##_##b\n#define W_JOIN(a, b) W_JOIN_(a, b)\n#define W(word) W_JOIN(w_##word, T)\n"
              "#define CT W_JOIN(c, T)\n#define K(v) ((CT)(v))\n#define RESULT(e) return (e); }\n"
              "#define ADD(a, b) W(add)(a, b)\n#define MUL(a, b) W(mul)(a, b)\n#define SQRT(a) W(sqrt)(a)\n"
              "#define LOG(a) W(log)(a)\n");
    if (v->draws[HD_COMPUTE_F32]) hd_say(w, "#define DRAW_F32\n");
    if (v->draws[HD_COMPUTE_F64]) hd_say(w, "#define DRAW_F64\n");
    hd_say_bytes(w, hd_draw_text, hd_draw_text_size);
    return true;
}
