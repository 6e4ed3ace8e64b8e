/* Printing what the compiler does. */
#include "compiler/dump.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool hd_dump_wants(const char *what) {
    const char *list = getenv("HODU_DUMP");
    const size_t length = strlen(what);
    while (list != NULL && *list != '\0') {
        const size_t word = strcspn(list, ", ");
        if (word == length && memcmp(list, what, length) == 0) return true;
        list += word;
        list += strspn(list, ", ");
    }
    return false;
}

void hd_dump_text(const char *headline, const char *text, size_t length) {
    flockfile(stderr);
    fprintf(stderr, "---- %s ----\n", headline);
    fwrite(text, 1, length, stderr);
    if (length > 0 && text[length - 1] != '\n') fputc('\n', stderr);
    funlockfile(stderr);
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
