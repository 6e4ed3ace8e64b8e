/* Which processor this is, for the keys of what was compiled for it. */
#ifndef HD_CODEGEN_PROCESSOR_H
#define HD_CODEGEN_PROCESSOR_H

#include <stddef.h>

/* Its model and what it can do, as a text of at most 255 characters; equal for equal processors. */
void hd_processor_text(char *out, size_t capacity);
/* What machine code needs of the processor that runs it, whoever compiled it: what HODU_ISA names, where all that have
 * it can run the code, else the same processor. */
enum { HD_PROCESSOR_TEXT = 320 };
void hd_processor_code_text(char out[HD_PROCESSOR_TEXT]);

#endif
