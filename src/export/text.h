/* A text that grows; in lines of C. */
#ifndef HD_EXPORT_TEXT_H
#define HD_EXPORT_TEXT_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct hd_c_text {
    char *at; /* terminated; NULL: nothing was said */
    size_t count, capacity;
    int indent;
    bool failed; /* there was no memory: it holds what came before */
} hd_c_text;

__attribute__((format(printf, 2, 3))) void hd_c_text_say(hd_c_text *t, const char *format, ...);
/* A line of its own, indented, with its end. */
__attribute__((format(printf, 2, 3))) void hd_c_text_line(hd_c_text *t, const char *format, ...);
/* The same, and what follows is indented further until hd_c_text_close, which says "}". */
__attribute__((format(printf, 2, 3))) void hd_c_text_open(hd_c_text *t, const char *format, ...);
void hd_c_text_close(hd_c_text *t);
void hd_c_text_add(hd_c_text *t, const hd_c_text *more);
/* Room for so many bytes behind what is there; NULL when there is no memory. */
char *hd_c_text_room(hd_c_text *t, size_t bytes);
void hd_c_text_release(hd_c_text *t);
static inline const char *hd_c_text_string(const hd_c_text *t) { return t->at == NULL ? "" : t->at; }

#endif
