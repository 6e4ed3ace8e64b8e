/* For tests that run in a child of theirs, where cmocka has nothing to say. */
#ifndef HD_TESTS_IN_A_CHILD_H
#define HD_TESTS_IN_A_CHILD_H

#include <hodu/hodu.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s; the error is \"%s\"\n", __FILE__, __LINE__, #condition, hd_error_message());   \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define require_text(text, expected)                                                                                   \
    do {                                                                                                               \
        const char *text_ = (text);                                                                                    \
        if (text_ == NULL || strstr(text_, (expected)) == NULL) {                                                      \
            fprintf(stderr, "%s:%d: expected \"%s\", got \"%s\"\n", __FILE__, __LINE__, expected,                      \
                    text_ != NULL ? text_ : "NULL");                                                                   \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define require_error(code, expected)                                                                                  \
    do {                                                                                                               \
        require(hd_error_code() == (code));                                                                            \
        require_text(hd_error_message(), expected);                                                                    \
        hd_error_clear();                                                                                              \
    } while (0)

#endif
