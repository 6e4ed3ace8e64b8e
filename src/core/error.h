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
    bool read, said;
} hd_error_copy;
void hd_error_take(hd_error_copy *out);
/* The other way: what was taken is pending again, in the place of what is now; nothing was taken: nothing is. */
void hd_error_put_back(const hd_error_copy *taken);
/* Adds to the message of the pending error, when there is one: to what is held. */
void hd_error_append(hd_thread *thread, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An error is said when it arises. To the end of the block after HD_HOLD_ERRORS it is kept back, for who adds to its
 * message, words it anew or expects it; what is pending then is said. Not around calls of a user's functions: a crash
 * in one of them would lose the message. */
#define HD_HOLD_ERRORS(thread)                                                                                         \
    __attribute__((cleanup(hd_error_let_go_of), unused)) hd_thread *HD_UNIQUE(held_) = hd_error_hold(thread)
static inline hd_thread *hd_error_hold(hd_thread *thread) {
    if (thread != NULL) thread->error_holds++;
    return thread;
}
void hd_error_let_go(hd_thread *thread);
static inline void hd_error_let_go_of(hd_thread *const *thread) {
    if (*thread == NULL) return;
    if (__builtin_expect((*thread)->error_code == HD_OK, 1))
        (*thread)->error_holds--;
    else
        hd_error_let_go(*thread);
}

/* Says something that is no error, to the host's handler or on stderr. The place of the running call is added when
 * `thread` is given. */
void hd_warn(hd_thread *thread, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Who called the function that runs: a layer's own calls were made for whoever called hd_forward. */
const void *hd_outer_caller(const hd_thread *thread);

#endif
