/* Growing text, without the cost of printf: an emitter writes little else. */
#include "xla/text.h"
#include "core/memory.h"

#include <string.h>

void hd_text_add(hd_text *t, const char *bytes, size_t count) {
    if (t->length + count >= t->capacity && !t->failed) {
        const size_t capacity = (t->capacity + count + 256) * 2;
        char *moved = hd_array_resize(t->bytes, capacity);
        t->failed = moved == NULL;
        if (moved != NULL) {
            t->bytes = moved;
            t->capacity = capacity;
        }
    }
    if (t->failed) return;
    memcpy(t->bytes + t->length, bytes, count);
    t->length += count;
    t->bytes[t->length] = '\0';
}

void hd_text_string(hd_text *t, const char *string) { hd_text_add(t, string, strlen(string)); }

void hd_text_number(hd_text *t, int64_t number) {
    char digits[24];
    int at = 24;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0) digits[--at] = '-';
    hd_text_add(t, digits + at, (size_t)(24 - at));
}

void hd_text_hex(hd_text *t, uint64_t bits, int digits) {
    char text[16];
    for (int i = digits - 1; i >= 0; --i, bits >>= 4) text[i] = "0123456789ABCDEF"[bits & 15];
    hd_text_add(t, text, (size_t)digits);
}

void hd_text_release(hd_text *t) {
    hd_array_release(t->bytes);
    *t = (hd_text){0};
}
