/* What renderers of kernels share: a text in the making, expressions in the words of words_c.h, and which steps belong
 * where. render_kernel.c writes C for processors, render_gpu.c the text of GPUs. Inside the room. */
#ifndef HD_KERNEL_RENDER_TEXT_H
#define HD_KERNEL_RENDER_TEXT_H

#include "kernel/kernel.h"

typedef struct hd_writer {
    const hd_kernel *k;
    char *out;
    size_t capacity, at; /* `at` grows beyond `capacity`: length as snprintf */
    int indent;
    const char *lane;      /* how an element of an array is said: "[j]" */
    const hd_known *known; /* numbers are written out; NULL: they are arguments */
    const char *packed;    /* where numbers are 64 bits of the arguments: "a", as in a.m3; NULL: they are memory */
    const char *tile;      /* what is said instead of a load of buffer `tile_buffer`; NULL: nothing is */
    int tile_buffer;
    bool in_macro;   /* lines go on behind their end */
    uint8_t *array;  /* of each step: it is an array over the lanes */
    uint8_t *needed; /* of each step: by the walk that is being written */
} hd_writer;

hd_error hd_writer_start(hd_writer *w, const hd_kernel *k, char *out, size_t capacity);
void hd_writer_end(hd_writer *w);
__attribute__((format(printf, 2, 3))) void hd_say(hd_writer *w, const char *format, ...);
void hd_say_bytes(hd_writer *w, const void *bytes, size_t count);
static inline void hd_say_line_end(hd_writer *w) { hd_say(w, w->in_macro ? " \\\n" : "\n"); }
#define LINE(...)                                                                                                      \
    do {                                                                                                               \
        hd_say(w, "%*s", w->indent * 4, "");                                                                           \
        hd_say(w, __VA_ARGS__);                                                                                        \
        hd_say_line_end(w);                                                                                            \
    } while (0)
#define OPEN(...)                                                                                                      \
    do {                                                                                                               \
        LINE(__VA_ARGS__);                                                                                             \
        w->indent++;                                                                                                   \
    } while (0)
#define CLOSE()                                                                                                        \
    do {                                                                                                               \
        w->indent--;                                                                                                   \
        LINE("}");                                                                                                     \
    } while (0)

/* ---- expressions ---- */
extern const char *const hd_fold_words[4]; /* by hd_kernel_reduction: "add", ... */
void hd_say_constant(hd_writer *w, int type, double v);
void hd_say_identity(hd_writer *w, const hd_step *s); /* of a reduction */
void hd_say_value(hd_writer *w, int i);
/* in0[v3 + i0 * s0_0 + i1]; `offset` is a step, or -1. */
void hd_say_element(hd_writer *w, int buffer, int offset);
/* The right side of a step that is neither a reduction nor a store. */
void hd_say_step(hd_writer *w, const hd_step *s);
/* out1[i0] = v7; */
void hd_say_store(hd_writer *w, const hd_step *s);
/* "bf16", or NULL for a dtype that is no small float; and the C type that a buffer has in memory: "u16". */
const char *hd_small_name(int dtype);
const char *hd_memory_type(int dtype);

/* ---- what belongs where ---- */
static inline bool hd_is_reduction_of(const hd_kernel *k, int i, int walk) {
    return k->steps[i].word == HD_STEP_REDUCE && k->steps[i].stage == walk + 1;
}
/* Fills `needed`: the steps inside the reduced axes that a walk computes, or reads back from the scratch memory. */
void hd_choose_needed(hd_writer *w, int walk);
/* Bits of the axes whose positions a kernel asks for. */
uint32_t hd_kernel_origins(const hd_kernel *k);
bool hd_kernel_uses_small_floats(const hd_kernel *k);

#endif
