/* HODU_DEBUG=lines: the place of an error as a file and a line. */
#ifndef HD_CORE_LINES_H
#define HD_CORE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Writes "file.c:12" of the call that returns to `caller` to `out`. False when that was not asked for, when the program
 * has no debug information, or when there is no addr2line (of binutils) to read it. */
bool hd_lines_of(const void *caller, char *out, size_t capacity);
/* Its function, or "program+0x29c6", for addr2line; false: not even that is known. */
bool hd_caller_text(const void *caller, char *out, size_t capacity);

#endif
