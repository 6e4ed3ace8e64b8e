/* What the programs here claim, they check, as those of tape/ do; and errors that are meant to come are looked at. */
#ifndef HODU_SCRIPT_CHECK_H
#define HODU_SCRIPT_CHECK_H

#include "../tape/check.h"

#include <string.h>
#include <time.h>

/* An error is pending, and says this: it is printed and cleared. */
#define CHECK_ERROR(text)                                                                                              \
    do {                                                                                                               \
        if (hd_ok() || strstr(hd_error_message(), (text)) == NULL) {                                                   \
            fprintf(stderr, "%s:%d: the error \"%s\" should say \"%s\"\n", __FILE__, __LINE__, hd_error_message(),     \
                    (text));                                                                                           \
            return 1;                                                                                                  \
        }                                                                                                              \
        printf("as it should be: %s\n", hd_error_message());                                                           \
        hd_error_clear();                                                                                              \
    } while (0)

/* How often the script was compiled so far. */
static inline int64_t compilations(const hd_script *script) { return hd_script_stats(script).compilations; }

/* Seconds, for measuring. */
static inline double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
