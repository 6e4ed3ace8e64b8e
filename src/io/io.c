/* What the files of this room share. */
#include "io/io.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

hd_error hd_io_check_path(const char *path) {
    if (!HD_HAS_FILES)
        return hd_fail(HD_ERROR_STATE,
                       "this library was built without files (HODU_FILES=OFF); nothing is saved or loaded");
    if (path == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`path` is NULL");
    return path[0] != '\0' ? HD_OK : hd_fail(HD_ERROR_VALUE, "\"\" names no file");
}

/* ---- tensors as bytes -------------------------------------------------------------------------------------------- */
hd_error hd_io_with_bytes(hd_thread *thread, hd_tensor *t, hd_error (*use)(void *user, const void *bytes, size_t count),
                          void *user) {
    hd_scope_token scope = hd_scope_within(thread, &scope);
    HD_KEEP_NAME(thread);
    hd_error status = HD_OK;
    {
        HD_EAGER;
        HD_NO_GRAD;
        hd_tensor *row_major = hd_contiguous(t);
        const char *bytes = row_major != NULL ? hd_tensor_bytes(thread, row_major, HD_READ) : NULL;
        status = bytes != NULL ? use(user, bytes, (size_t)t->count * hd_dtype_bytes[t->dtype]) : thread->error_code;
    }
    hd_scope_close(thread, &scope);
    return status;
}

hd_tensor *hd_io_hand_out(hd_thread *thread, hd_tensor *t) {
    if (t != NULL && hd_device_is_away(thread->device) && !thread->executor->captures) {
        hd_tensor *there = hd_tensor_moved(thread, t, thread->device);
        hd_tensor_drop(thread, t);
        t = there;
    }
    return hd_tensor_give(thread, t);
}

bool hd_io_are_bools(const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    unsigned char all = 0;
    for (size_t i = 0; i < count; ++i) all |= at[i];
    return all <= 1;
}

/* ---- growing text ------------------------------------------------------------------------------------------------ */
void hd_text_put(hd_text *t, const void *bytes, size_t count) {
    if (!t->failed && count >= t->capacity - t->length) { /* with room for the 0 behind it */
        const size_t capacity = (t->length + count) * 2 + 64;
        char *moved = hd_array_resize(t->at, capacity);
        t->failed = moved == NULL;
        if (moved != NULL) {
            t->at = moved;
            t->capacity = capacity;
        }
    }
    if (t->failed) return;
    if (count > 0) memcpy(t->at + t->length, bytes, count);
    t->length += count;
    t->at[t->length] = '\0';
}

void hd_text_print(hd_text *t, const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    hd_text_put(t, line, length < (int)sizeof line ? (size_t)length : sizeof line - 1);
}

/* ---- a file that is read ----------------------------------------------------------------------------------------- */
hd_error hd_source_open(hd_source *s, const char *path) {
    *s = (hd_source){.descriptor = -1};
    return hd_file_open_to_read(path, &s->descriptor, &s->size);
}
void hd_source_close(hd_source *s) {
    if (s->descriptor >= 0) hd_os_close(s->descriptor);
    s->descriptor = -1;
}
hd_error hd_source_read(const hd_source *s, void *out, uint64_t bytes, uint64_t offset) {
    if (s->descriptor >= 0) return hd_file_read_at(s->descriptor, out, bytes, offset);
    if (bytes > 0) memcpy(out, s->bytes + offset, bytes);
    return HD_OK;
}

/* ---- UTF-8 ------------------------------------------------------------------------------------------------------- */
/* Bytes of the character at `at`; 0: it is none. */
static size_t utf8_length(const unsigned char *at, size_t left) {
    const unsigned char c = at[0];
    const size_t length = c < 0x80                ? 1
                          : c >= 0xc2 && c < 0xe0 ? 2
                          : c >= 0xe0 && c < 0xf0 ? 3
                          : c >= 0xf0 && c < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || length > left) return 0;
    for (size_t i = 1; i < length; ++i)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (c == 0xe0 && at[1] < 0xa0) return 0; /* overlong */
    if (c == 0xed && at[1] > 0x9f) return 0; /* half of a pair of UTF-16 */
    if (c == 0xf0 && at[1] < 0x90) return 0;
    return c == 0xf4 && at[1] > 0x8f ? 0 : length; /* beyond the last character */
}

bool hd_is_utf8(const char *text, size_t length) {
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < length;) {
        const size_t n = utf8_length(at + i, length - i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}
