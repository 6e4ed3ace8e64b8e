/* The words that a program of a GPU uses: they alone are written above its kernels. */
#ifndef HD_KERNEL_GPU_WORDS_H
#define HD_KERNEL_GPU_WORDS_H

#include "kernel/template.h"
#include "kernel/render_text.h"

enum { HD_VOCABULARY_TYPES = HD_COMPUTE_COUNT + 1 };
typedef struct hd_vocabulary {
    bool word[HD_WORD_INPUT][HD_VOCABULARY_TYPES];
    bool cast[HD_VOCABULARY_TYPES][HD_VOCABULARY_TYPES]; /* [to][from] */
    bool draws[HD_VOCABULARY_TYPES];                     /* normal numbers of a type; [u32], [u64]: bits */
    bool fold[4][HD_VOCABULARY_TYPES];                   /* by hd_kernel_reduction */
    bool small, draws_any;
} hd_vocabulary;

/* Adds a word in a type, with all that its program is written in; and what a kernel needs. */
hd_error hd_vocabulary_use(hd_vocabulary *v, int word, int type);
hd_error hd_vocabulary_use_kernel(hd_vocabulary *v, const hd_kernel *k, bool wide_sums);
/* The dialect, and these words. False with an error. */
bool hd_write_preamble(hd_writer *w, const hd_vocabulary *v, hd_dialect dialect, bool has_f64);
/* plain_words.c: the same for C99 without a library: each word as a function of its own, no macros. False with an
 * error. */
bool hd_write_plain_preamble(hd_writer *w, const hd_vocabulary *v);
/* Programs of the words that are used, those of math.def. False with an error. */
bool hd_write_programs(hd_writer *w, const hd_vocabulary *v);
/* render_gpu.c: an epilogue as the macros of template_product.h. False with an error. */
bool hd_write_epilogue(hd_writer *w, const hd_fused_epilogue *e);

#endif
