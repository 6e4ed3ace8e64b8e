/* Templates as text: what their names mean in a use, above them. */
#include "core/memory.h"
#include "kernel/gpu_words.h"
#include "kernel/template.h"

#include <string.h>

/* The texts, embedded by the build, and those that stand above some of them. */
#define TEMPLATE(name)                                                                                                 \
    extern const unsigned char hd_template_##name##_text[];                                                            \
    extern const size_t hd_template_##name##_text_size;
HD_TEMPLATES(TEMPLATE)
TEMPLATE(product_head)
TEMPLATE(warp_words)
TEMPLATE(conv_head)
#undef TEMPLATE
typedef struct text {
    const unsigned char *bytes;
    const size_t *size;
} text;
#define TEXT(name) (hd_template_##name##_text), (&hd_template_##name##_text_size)

enum { WORDS = 6, ABOVE = 3 };
typedef struct names {
    const char *types[HD_TEMPLATE_TYPES];
    const char *numbers[HD_TEMPLATE_NUMBERS];
    hd_word words[WORDS]; /* of the first type */
    int word_count;
    bool casts;   /* of the first type to the second */
    bool of_cuda; /* it is in the words of CUDA alone */
    text above[ABOVE];
} names;

/* What each template calls its types and numbers, and the words that it uses. */
static const names names_of[HD_TEMPLATE_COUNT] = {
    [HD_TEMPLATE_sort] = {.types = {"X"}, .numbers = {"THREADS", "DESCENDING", "POSITIONS", "GIVES"}},
    [HD_TEMPLATE_scan] = {.types = {"A", "X", "Y"},
                          .numbers = {"THREADS", "WHAT", "GIVES"},
                          .words = {HD_WORD_ADD, HD_WORD_MUL, HD_WORD_EXP, HD_WORD_LOG},
                          .word_count = 4},
    [HD_TEMPLATE_scatter] = {.types = {"X"},
                             .numbers = {"THREADS", "MODE"},
                             .words = {HD_WORD_ADD, HD_WORD_MUL, HD_WORD_MAX, HD_WORD_MIN},
                             .word_count = 4},
    [HD_TEMPLATE_norm] = {.types = {"Y", "G", "X", "WEIGHT", "BIAS"},
                          .numbers = {"THREADS", "WHAT", "CENTERED", "WEIGHTS", "HELD", "PER"},
                          .words = {HD_WORD_SQRT},
                          .word_count = 1},
    [HD_TEMPLATE_pool] = {.types = {"Y", "FIRST", "X"}, .numbers = {"THREADS", "WHAT", "ADAPTIVE"}},
    [HD_TEMPLATE_attention] = {.types = {"Y", "Q", "K", "V", "MASK", "G", "STATISTICS"},
                               .numbers = {"WHAT", "TILE", "COLUMNS", "MASKED"},
                               .words = {HD_WORD_EXP},
                               .word_count = 1},
    [HD_TEMPLATE_convert] = {.types = {"X", "Y"}, .numbers = {"THREADS", "RANGE"}, .casts = true},
    [HD_TEMPLATE_peak] = {.types = {"X"}, .numbers = {"THREADS"}, .words = {HD_WORD_MULADD}, .word_count = 1},
    [HD_TEMPLATE_product] = {.types = {"C", "A", "B", "BIAS"},
                             .numbers = {"FORM", "TILE_M", "TILE_N", "TILE_K", "PER_M", "PER_N", "NARROW"},
                             .above = {{TEXT(product_head)}}},
    [HD_TEMPLATE_conv] = {.types = {"C", "A", "B", "BIAS"},
                          .numbers = {"FORM", "TILE_M", "TILE_N", "TILE_K", "PER_M", "PER_N", "MULTIPLY", "TURNED"},
                          .of_cuda = true,
                          .above = {{TEXT(product_head)}, {TEXT(warp_words)}, {TEXT(conv_head)}}},
    [HD_TEMPLATE_conv_image] = {.types = {"C", "A", "B", "BIAS"},
                                .numbers = {"FORM", "TILE_M", "TILE_N", "TILE_K", "PER_M", "PER_N", "MULTIPLY"},
                                .of_cuda = true,
                                .above = {{TEXT(product_head)}, {TEXT(warp_words)}, {TEXT(conv_head)}}},
};

const char *hd_template_name(hd_template which) {
    static const char *const all[] = {
#define TEMPLATE(name) #name,
        HD_TEMPLATES(TEMPLATE)
#undef TEMPLATE
    };
    return all[which];
}

bool hd_template_is_in(hd_template which, hd_dialect dialect) {
    return dialect == HD_DIALECT_CUDA || !names_of[which].of_cuda;
}

uint64_t hd_template_number(hd_dtype dtype, double value) {
    const int type = hd_dtype_compute[dtype];
    uint64_t bits = 0;
    if (type == HD_COMPUTE_F32) { /* small floats, too */
        const float f = (float)value;
        memcpy(&bits, &f, sizeof f);
    } else if (type == HD_COMPUTE_F64) {
        memcpy(&bits, &value, sizeof value);
    } else {
        bits = (uint64_t)(int64_t)value;
    }
    return bits;
}

/* Integers have no e^x: a template that names a function does not use it for them. */
static bool is_word_in(hd_word word, int type) { return !hd_words[word].is_function || hd_compute_is_float(type); }

/* What a word is in a type: of bools, sums are "or" and products "and". */
static hd_word word_in(hd_word word, int type) {
    if (type != HD_COMPUTE_B8) return word;
    return word == HD_WORD_ADD ? HD_WORD_OR : word == HD_WORD_MUL ? HD_WORD_AND : word;
}

static void write_type(hd_writer *w, const char *name, hd_dtype dtype) {
    const char *small = hd_small_name(dtype), *type = hd_ir_type_name(hd_dtype_compute[dtype]);
    const bool is_float = hd_dtype_is_float(dtype);
    const int bytes = (int)hd_dtype_bytes[dtype];
    hd_say(w, "#define %s_MEMORY c_%s\n#define %s_TYPE c_%s\n", name, hd_memory_type(dtype), name, type);
    hd_say(w, "#define %s_BYTES %d\n#define %s_IS_FLOAT %d\n#define %s_IS_SIGNED %d\n", name, bytes, name, is_float,
           name, hd_dtype_is_signed(dtype));
    if (small != NULL) {
        hd_say(w, "#define %s_LOAD(v) hd_%s_decode(v)\n#define %s_STORE(v) hd_%s_encode(v)\n", name, small, name,
               small);
    } else {
        hd_say(w, "#define %s_LOAD(v) (v)\n#define %s_STORE(v) (v)\n", name, name);
    }
    if (small != NULL)
        hd_say(w, "#define %s_BITS(v) (v)\n", name);
    else if (is_float)
        hd_say(w, "#define %s_BITS(v) w_bits_%s(v)\n", name, type);
    if (is_float)
        hd_say(w, "#define %s_NUMBER(u) w_unbits_%s((W_BITS_%s)(u))\n", name, type, type);
    else
        hd_say(w, "#define %s_NUMBER(u) (c_%s)(u)\n", name, type);
}

static size_t render(const hd_template_use *use, const hd_fused_epilogue *epilogue, hd_dialect dialect, bool has_f64,
                     char *out, size_t capacity) {
    const names *n = &names_of[use->which];
    static const text texts[] = {
#define TEMPLATE(name) {TEXT(name)},
        HD_TEMPLATES(TEMPLATE)
#undef TEMPLATE
    };
    const int first = hd_dtype_compute[use->types[0]];
    hd_vocabulary *v = hd_array_resize(NULL, sizeof *v);
    if (v == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the text of a kernel"), (size_t)0;
    memset(v, 0, sizeof *v);
    hd_writer w = {.out = out, .capacity = capacity};
    bool ok = true;
    for (int i = 0; i < n->word_count && ok; ++i)
        ok = !is_word_in(n->words[i], first) || hd_vocabulary_use(v, word_in(n->words[i], first), first) == HD_OK;
    for (int i = 0; i < HD_TEMPLATE_TYPES && n->types[i] != NULL; ++i)
        v->small = v->small || hd_small_name(use->types[i]) != NULL;
    if (n->casts) v->cast[hd_dtype_compute[use->types[1]]][first] = true;
    if (epilogue != NULL) ok = ok && hd_vocabulary_use_kernel(v, epilogue->kernel, false) == HD_OK;
    ok = ok && hd_write_preamble(&w, v, dialect, has_f64);
    hd_array_release(v);
    if (!ok) return 0;
    for (int i = 0; i < HD_TEMPLATE_TYPES && n->types[i] != NULL; ++i)
        write_type(&w, n->types[i], (hd_dtype)use->types[i]);
    if (n->casts)
        hd_say(&w, "#define %s_FROM_%s w_cast_%s_%s\n", n->types[1], n->types[0],
               hd_ir_type_name(hd_dtype_compute[use->types[1]]), hd_ir_type_name(first));
    for (int i = 0; i < HD_TEMPLATE_NUMBERS && n->numbers[i] != NULL; ++i)
        hd_say(&w, "#define %s %d\n", n->numbers[i], use->numbers[i]);
    for (int i = 0; i < n->word_count; ++i) {
        if (!is_word_in(n->words[i], first)) continue;
        hd_say(&w, "#define %s_%s w_", n->types[0], hd_words[n->words[i]].name);
        for (const char *c = hd_words[word_in(n->words[i], first)].name; *c; ++c)
            hd_say(&w, "%c", *c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
        hd_say(&w, "_%s\n", hd_ir_type_name(first));
    }
    if (epilogue != NULL && !hd_write_epilogue(&w, epilogue)) return 0;
    for (int i = 0; i < ABOVE && n->above[i].bytes != NULL; ++i) hd_say_bytes(&w, n->above[i].bytes, *n->above[i].size);
    hd_say_bytes(&w, texts[use->which].bytes, *texts[use->which].size);
    return w.at;
}

size_t hd_render_template(const hd_template_use *use, hd_dialect dialect, bool has_f64, char *out, size_t capacity) {
    return render(use, NULL, dialect, has_f64, out, capacity);
}

size_t hd_render_product(const hd_template_use *use, const hd_fused_epilogue *epilogue, hd_dialect dialect,
                         bool has_f64, char *out, size_t capacity) {
    return render(use, epilogue, dialect, has_f64, out, capacity);
}
