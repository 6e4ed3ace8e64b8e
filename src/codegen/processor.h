/* Which processor this is, for the keys of what was compiled for it. */
#ifndef HD_CODEGEN_PROCESSOR_H
#define HD_CODEGEN_PROCESSOR_H

#include <stddef.h>

/* Its model and what it can do, as a text of at most 255 characters; equal for equal processors. */
void hd_processor_text(char *out, size_t capacity);

#endif
