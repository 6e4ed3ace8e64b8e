/* Printing what the compiler does. */
#include "codegen/dump.h"
#include "core/environment.h"
#include "core/memory.h"
#include "core/os.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"graph", "fusion", "jobs",   "kernels",   "c",
                                    "llvm",  "asm",    "tuning", "stablehlo", "calls"};
enum { WORDS = sizeof words / sizeof words[0] };

/* The next word of a list behind `at`, and where it ends; false: there is none. */
static bool next_word(const char **at, size_t *length) {
    *at += strspn(*at, ", ");
    *length = strcspn(*at, ", ");
    return *length > 0;
}
static bool is_word(const char *what, const char *at, size_t length) {
    return strlen(what) == length && memcmp(at, what, length) == 0;
}

const char *hd_dump_unknown(const char *list, size_t *length) {
    for (; next_word(&list, length); list += *length) {
        bool known = false;
        for (int i = 0; i < WORDS; ++i) known = known || is_word(words[i], list, *length);
        if (!known) return list;
    }
    return NULL;
}

/* A word that names nothing would go unnoticed: nothing is printed for it. */
static void warn(void) {
    size_t length;
    char takes[128];
    const char *word = hd_dump_unknown(hd_environment("HODU_DUMP"), &length);
    int at = 0;
    for (int i = 0; i < WORDS; ++i)
        at += snprintf(takes + at, sizeof takes - (size_t)at, "%s%s", i > 0 ? ", " : "", words[i]);
    if (word != NULL) hd_environment_unknown("HODU_DUMP", word, length, takes);
}

bool hd_dump_wants(const char *what) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *list = hd_environment("HODU_DUMP");
    if (list == NULL) return false;
    pthread_once(&once, warn);
    for (size_t length; next_word(&list, &length); list += length)
        if (is_word(what, list, length)) return true;
    return false;
}

void hd_dump_text(const char *headline, const char *text, size_t length) {
    hd_os_lock_stderr();
    fprintf(stderr, "---- %s ----\n", headline);
    fwrite(text, 1, length, stderr);
    if (length > 0 && text[length - 1] != '\n') fputc('\n', stderr);
    hd_os_unlock_stderr();
}

void hd_dump_line(const char *word, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hd_os_lock_stderr();
    fprintf(stderr, "%s: ", word);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    hd_os_unlock_stderr();
    va_end(arguments);
}

void hd_dump_kernel(const hd_kernel *k) {
    for (int c = 0; c < 2; ++c) {
        if (!hd_dump_wants(c ? "c" : "kernels")) continue;
        const size_t length = c ? hd_render_kernel_function(k, "kernel", NULL, 0) : hd_kernel_print(k, NULL, 0);
        char *text = hd_array_resize(NULL, length + 1);
        if (text == NULL) continue;
        if (c)
            hd_render_kernel_function(k, "kernel", text, length + 1);
        else
            hd_kernel_print(k, text, length + 1);
        hd_dump_text(c ? "C" : "kernel", text, length);
        hd_array_release(text);
    }
}
