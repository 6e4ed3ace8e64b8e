/* The text that stands above kernels of GPUs: a dialect, and of the words only those that are used. */
#include "kernel/gpu_words.h"

#include <ctype.h>
#include <string.h>

/* words_c.h, kernel_c.h, small_float.h, draw_c.h and the dialects, embedded by the build */
extern const unsigned char hd_words_text[], hd_kernel_text[], hd_small_text[], hd_draw_text[], hd_opencl_text[],
    hd_cuda_text[], hd_metal_text[];
extern const size_t hd_words_text_size, hd_kernel_text_size, hd_small_text_size, hd_draw_text_size, hd_opencl_text_size,
    hd_cuda_text_size, hd_metal_text_size;

hd_error hd_vocabulary_use(hd_vocabulary *v, int word, int type) {
    if (word >= HD_WORD_INPUT || v->word[word][type]) return HD_OK;
    v->word[word][type] = true;
    if (word == HD_WORD_IREM) v->word[HD_WORD_IDIV][type] = true;
    if (!hd_words[word].is_function) return HD_OK;
    hd_ir ir;
    HD_TRY(hd_read_program((hd_compute)type, (hd_word)word, &ir));
    hd_error status = HD_OK;
    for (int i = 0; i < ir.count && status == HD_OK; ++i) status = hd_vocabulary_use(v, ir.nodes[i].word, type);
    hd_ir_release(&ir);
    return status;
}

static hd_error use_draw(hd_vocabulary *v, int type) {
    static const hd_word words[] = {HD_WORD_MUL, HD_WORD_ADD, HD_WORD_SQRT, HD_WORD_LOG, HD_WORD_SIN, HD_WORD_COS};
    v->draws_any = true;
    if (type != HD_COMPUTE_F32 && type != HD_COMPUTE_F64) return HD_OK;
    v->draws[type] = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i) HD_TRY(hd_vocabulary_use(v, words[i], type));
    return HD_OK;
}

hd_error hd_vocabulary_use_kernel(hd_vocabulary *v, const hd_kernel *k, bool wide_sums) {
    static const hd_word folds[] = {HD_WORD_ADD, HD_WORD_MUL, HD_WORD_MAX, HD_WORD_MIN};
    v->small = v->small || hd_kernel_uses_small_floats(k);
    for (int i = 0; i < k->count; ++i) {
        const hd_step *s = &k->steps[i];
        if (s->word == HD_STEP_CAST) {
            v->cast[s->type][k->steps[s->operand[0]].type] = true;
        } else if (s->word == HD_STEP_DRAW) {
            HD_TRY(use_draw(v, s->type));
        } else if (s->word == HD_STEP_REDUCE) {
            v->fold[s->index][s->type] = true;
            HD_TRY(hd_vocabulary_use(v, folds[s->index], s->type));
            if (wide_sums && hd_step_is_wide(s)) HD_TRY(hd_vocabulary_use(v, folds[s->index], HD_COMPUTE_F64));
        } else if (s->word < HD_WORD_INPUT) {
            HD_TRY(hd_vocabulary_use(v, s->word, k->steps[s->operand[s->word == HD_WORD_SELECT ? 1 : 0]].type));
        }
    }
    return HD_OK;
}

static const char *type_of(int type) { return hd_ir_type_name(type); }
static const char *kind_of(int type) {
    return type == HD_COMPUTE_F32 || type == HD_COMPUTE_F64 ? "FLOAT" : type == HD_COMPUTE_B8 ? "BOOL" : "INT";
}

static void write_words(hd_writer *w, const hd_vocabulary *v) {
    for (int word = 0; word < HD_WORD_INPUT; ++word)
        for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
            if (!v->word[word][type] || hd_words[word].is_function || hd_words[word].domain == HD_DOMAIN_COND) continue;
            const bool any = word == HD_WORD_LT || word == HD_WORD_LE || word == HD_WORD_EQ || word == HD_WORD_SELECT;
            hd_say(w, "W_");
            for (const char *c = hd_words[word].name; *c; ++c) hd_say(w, "%c", tolower((unsigned char)*c));
            hd_say(w, "_%s(%s)\n", any ? "ANY" : kind_of(type), type_of(type));
        }
    if (v->word[HD_WORD_SELECT][HD_CONDITION]) hd_say(w, "W_select_ANY(condition)\n");
    for (int to = 0; to < HD_VOCABULARY_TYPES; ++to)
        for (int from = 0; from < HD_VOCABULARY_TYPES; ++from)
            if (v->cast[to][from])
                hd_say(w, "W_cast_%s_%s(%s)\n", type_of(to), strcmp(kind_of(from), "FLOAT") == 0 ? "FLOAT" : "INT",
                       type_of(from));
}

/* What a dialect calls a function that it has itself; NULL: it has none. */
static const char *own_function(hd_dialect dialect, int word, int type) {
    if (dialect != HD_DIALECT_CUDA || type != HD_COMPUTE_F32) return NULL;
    switch (word) {
    case HD_WORD_EXP: return "w_own_exp";
    case HD_WORD_SIGMOID: return "w_own_sigmoid";
    case HD_WORD_TANH: return "w_own_tanh";
    default: return NULL;
    }
}

static bool write_programs(hd_writer *w, const hd_vocabulary *v, hd_dialect dialect) {
    for (int pass = 0; pass < 2; ++pass)
        for (int word = 0; word < HD_WORD_INPUT; ++word)
            for (int type = 0; type < HD_COMPUTE_COUNT; ++type) {
                if (!v->word[word][type] || !hd_words[word].is_function) continue;
                const char *own = own_function(dialect, word, type);
                if (own != NULL && pass == 0) {
                    hd_say(w, "#define w_");
                    for (const char *c = hd_words[word].name; *c; ++c) hd_say(w, "%c", tolower((unsigned char)*c));
                    hd_say(w, "_%s %s\n", type_of(type), own);
                }
                if (own != NULL) continue;
                const bool fits = w->at < w->capacity;
                const size_t length = hd_render_program((hd_compute)type, (hd_word)word, pass == 0,
                                                        fits ? w->out + w->at : NULL, fits ? w->capacity - w->at : 0);
                if (length == 0) return false;
                w->at += length;
            }
    return true;
}

bool hd_write_programs(hd_writer *w, const hd_vocabulary *v) { return write_programs(w, v, HD_DIALECT_OPENCL); }

bool hd_write_preamble(hd_writer *w, const hd_vocabulary *v, hd_dialect dialect, bool has_f64) {
    const struct {
        const unsigned char *text;
        size_t size;
    } dialects[HD_DIALECTS] = {[HD_DIALECT_OPENCL] = {hd_opencl_text, hd_opencl_text_size},
                               [HD_DIALECT_CUDA] = {hd_cuda_text, hd_cuda_text_size},
                               [HD_DIALECT_METAL] = {hd_metal_text, hd_metal_text_size}};
    if (!has_f64 && dialect != HD_DIALECT_METAL) hd_say(w, "#define W_NO_F64\n");
    hd_say_bytes(w, dialects[dialect].text, dialects[dialect].size);
    hd_say_bytes(w, hd_words_text, hd_words_text_size);
    if (v->small) hd_say_bytes(w, hd_small_text, hd_small_text_size);
    hd_say_bytes(w, hd_kernel_text, hd_kernel_text_size);
    write_words(w, v);
    if (!write_programs(w, v, dialect)) return false;
    if (v->draws[HD_COMPUTE_F32]) hd_say(w, "#define DRAW_F32\n");
    if (v->draws[HD_COMPUTE_F64]) hd_say(w, "#define DRAW_F64\n");
    if (v->draws_any) hd_say_bytes(w, hd_draw_text, hd_draw_text_size);
    hd_say(w, "\n");
    return true;
}
