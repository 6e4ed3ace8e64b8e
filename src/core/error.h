/* Raising errors. Functions inside the library return a status; HD_TRY passes a failure on. */
#ifndef HD_CORE_ERROR_H
#define HD_CORE_ERROR_H

#include "core/thread.h"

/* Keeps the error if it is the thread's first; the message gets "<call>: " in front. Always returns `code`. */
hd_error hd_fail(hd_error code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

#define HD_TRY(status)                                                                                                 \
    do {                                                                                                               \
        const hd_error hd_try_ = (status);                                                                             \
        if (__builtin_expect(hd_try_ != HD_OK, 0)) return hd_try_;                                                     \
    } while (0)

/* The same in functions that return a pointer or a number on failure. */
#define HD_TRY_OR(status, failure)                                                                                     \
    do {                                                                                                               \
        if (__builtin_expect((status) != HD_OK, 0)) return failure;                                                    \
    } while (0)

/* The pending error, taken off the thread. */
typedef struct hd_error_copy {
    hd_error code;
    char message[512], place[256], call[64];
} hd_error_copy;
/* Adds to the message of the pending error, when there is one. */
void hd_error_append(hd_thread *thread, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The pending error, if the library itself made the call that failed, is from here instead. */
void hd_error_move(hd_thread *thread, const void *caller);
void hd_error_take(hd_error_copy *out);

/* Prints the pending error to stderr if nobody has read it. */
void hd_error_report_unread(hd_thread *thread);

#endif
