#include "export/text.h"
#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *hd_c_text_room(hd_c_text *t, size_t bytes) {
    if (t->failed) return NULL;
    if (t->count + bytes + 1 > t->capacity) {
        size_t capacity = t->capacity < 1024 ? 1024 : t->capacity * 2;
        if (capacity < t->count + bytes + 1) capacity = t->count + bytes + 1;
        char *moved = hd_array_resize(t->at, capacity);
        t->failed = moved == NULL;
        if (moved == NULL) return NULL;
        t->at = moved;
        t->capacity = capacity;
    }
    t->at[t->count] = '\0';
    return t->at + t->count;
}

/* Where it does not fit, once more with room. */
static void say(hd_c_text *t, const char *format, va_list arguments) {
    va_list again;
    char *room = hd_c_text_room(t, 128);
    if (room == NULL) return;
    va_copy(again, arguments);
    const size_t left = t->capacity - t->count;
    const size_t length = (size_t)vsnprintf(room, left, format, arguments);
    if (length >= left && (room = hd_c_text_room(t, length)) != NULL)
        vsnprintf(room, t->capacity - t->count, format, again);
    va_end(again);
    if (room != NULL) t->count += length;
}
static void say_indent(hd_c_text *t) { hd_c_text_say(t, "%*s", t->indent * 4, ""); }

void hd_c_text_say(hd_c_text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(t, format, arguments);
    va_end(arguments);
}

void hd_c_text_line(hd_c_text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_indent(t);
    say(t, format, arguments);
    va_end(arguments);
    hd_c_text_say(t, "\n");
}

void hd_c_text_open(hd_c_text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say_indent(t);
    say(t, format, arguments);
    va_end(arguments);
    hd_c_text_say(t, " {\n");
    t->indent++;
}

void hd_c_text_close(hd_c_text *t) {
    t->indent--;
    hd_c_text_line(t, "}");
}

void hd_c_text_add(hd_c_text *t, const hd_c_text *more) {
    char *room = hd_c_text_room(t, more->count);
    t->failed = t->failed || more->failed;
    if (room == NULL || more->count == 0) return;
    memcpy(room, more->at, more->count + 1);
    t->count += more->count;
}

void hd_c_text_release(hd_c_text *t) {
    hd_array_release(t->at);
    *t = (hd_c_text){.at = NULL};
}
