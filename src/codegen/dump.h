/* HODU_DUMP=graph,fusion,jobs,kernels,c,llvm,asm,tuning,stablehlo,calls: what the compiler prints to stderr on its
 * way. */
#ifndef HD_CODEGEN_DUMP_H
#define HD_CODEGEN_DUMP_H

#include "kernel/kernel.h"

/* True when `what` is in the list. The first time, words of the list that name nothing are warned of. */
bool hd_dump_wants(const char *what);
/* The first word of such a list that names nothing, and its length; NULL. */
const char *hd_dump_unknown(const char *list, size_t *length);
/* Prints a piece of text under a headline; whole, whatever other threads print. */
void hd_dump_text(const char *headline, const char *text, size_t length);
/* A line of its own behind such a word. */
void hd_dump_line(const char *word, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the kernel, and as C, where that is wanted. Never fails: what there is no memory for is not printed. */
void hd_dump_kernel(const hd_kernel *k);

#endif
