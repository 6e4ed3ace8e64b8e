/* Lines of addresses, read by addr2line from the program's debug information (-g). That takes a process and some
 * milliseconds, so it is done for errors only, and only when HODU_DEBUG has "lines". */
#include "core/lines.h"
#include "core/environment.h"
#include "core/os_file.h"
#include "core/os_process.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What the program prints to stdout, up to the capacity; false when it cannot be run or fails. */
static bool output_of(char *const *arguments, char *out, size_t capacity) {
    int ends[2];
    int64_t child;
    if (!hd_os_pipe(ends)) return false;
    const hd_os_program program = {.file = arguments[0],
                                   .arguments = arguments,
                                   .environment = hd_environment_for_programs(),
                                   .output = ends[1],
                                   .errors = -1,
                                   .kept = -1};
    const bool started = hd_os_start(&program, &child) == 0;
    hd_os_close(ends[1]);
    const size_t length = started ? hd_os_read_until_end(ends[0], out, capacity - 1) : 0;
    out[length] = '\0';
    hd_os_close(ends[0]);
    return started && hd_os_finish(child) == 0 && length > 0;
}

bool hd_lines_of(const void *caller, char *out, size_t capacity) {
    hd_os_place place;
    if (caller == NULL || !hd_environment_debug("lines") || hd_environment("PATH") == NULL) return false;
    if (!hd_os_place_of(caller, &place) || place.file == NULL) return false;
    char number[32], text[512], own[512];
    /* A return address is behind the call, and that may be the next line already. */
    snprintf(number, sizeof number, "%#jx", (uintmax_t)place.in_file - 1);
    /* A program that was found on the PATH is known by the name it was called by. */
    const char *file = place.file;
    if (strchr(file, '/') == NULL && hd_os_own_path(own, sizeof own)) file = own;
    char *arguments[] = {"addr2line", "-e", (char *)(uintptr_t)file, number, NULL};
    if (!output_of(arguments, text, sizeof text) || text[0] == '?') return false;
    text[strcspn(text, " \n")] = '\0';
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon[1] < '1' || colon[1] > '9') return false;
    snprintf(out, capacity, "%s", text);
    return true;
}

bool hd_caller_text(const void *caller, char *out, size_t capacity) {
    hd_os_place place;
    if (caller == NULL || !hd_os_place_of(caller, &place) || place.file == NULL) return false;
    const char *slash = strrchr(place.file, '/');
    if (place.symbol != NULL)
        snprintf(out, capacity, "%s", place.symbol);
    else
        snprintf(out, capacity, "%s+%#tx", slash ? slash + 1 : place.file, (ptrdiff_t)((uintptr_t)caller - place.base));
    return true;
}
