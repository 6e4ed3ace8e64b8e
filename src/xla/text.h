/* Text that grows. A failure to grow is remembered, so that whoever writes looks once, at the end. */
#ifndef HD_XLA_TEXT_H
#define HD_XLA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hd_text {
    char *bytes; /* ends with a 0 once anything was added */
    size_t length, capacity;
    bool failed;
} hd_text;

void hd_text_add(hd_text *t, const char *bytes, size_t count);
void hd_text_string(hd_text *t, const char *string);
void hd_text_number(hd_text *t, int64_t number);
/* `digits` digits in hexadecimal. */
void hd_text_hex(hd_text *t, uint64_t bits, int digits);
void hd_text_release(hd_text *t);

#endif
