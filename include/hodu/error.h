/* Errors stick, one per thread: the first is kept, later calls return NULL (numbers: NaN or 0) and do nothing until it
 * is cleared; what closes or releases always acts. So a chain of calls needs one check, at its end. The first error is
 * printed to stderr when it arises, in one line with its place; not with HODU_ERRORS=quiet in the environment, with a
 * handler of the host's, or in a block with HD_QUIET. */
#ifndef HODU_ERROR_H
#define HODU_ERROR_H

#include <hodu/base.h>

/* The one list of error codes: X(name, meaning). */
#define HD_ERROR_LIST(X)                                                                                               \
    X(NULL_ARGUMENT, "a required argument is NULL")                                                                    \
    X(RELEASED, "an object was used after its release")                                                                \
    X(SHAPE, "shapes do not fit")                                                                                      \
    X(DTYPE, "the dtype does not fit")                                                                                 \
    X(AXIS, "an axis is out of range or repeated")                                                                     \
    X(INDEX, "an index is out of range")                                                                               \
    X(VALUE, "a value is not allowed")                                                                                 \
    X(DIVISION, "integer division by zero")                                                                            \
    X(MEMORY, "out of memory")                                                                                         \
    X(OVERFLOW, "a size is too large")                                                                                 \
    X(DEVICE, "a device is missing or does not fit")                                                                   \
    X(STATE, "the call does not fit the present state")                                                                \
    X(INTERNAL, "a fault inside hodu")

#define HD_ERROR_ENUM(name, meaning) HD_ERROR_##name,
typedef enum hd_error { HD_OK = 0, HD_ERROR_LIST(HD_ERROR_ENUM) HD_ERROR_COUNT } hd_error;
#undef HD_ERROR_ENUM

HD_BEGIN_DECLS
/* True when no error is pending on this thread. */
HD_API bool hd_ok(void);
/* The pending error's code, HD_OK when there is none. */
HD_API hd_error hd_error_code(void);
/* The pending error in a sentence: call, what was given, what was expected, what to do. "" when there is none. */
HD_API const char *hd_error_message(void);
/* Where the first failing call was made: the file and line of the innermost HD_SCOPE, and the caller, by name or as
 * "program+0x29c6" for `addr2line -e program 0x29c6`. "" when unknown. */
HD_API const char *hd_error_place(void);
/* The name of the call that failed, such as "hd_matmul"; "" when none. */
HD_API const char *hd_error_call(void);
/* Forgets the pending error; calls work again. */
HD_API void hd_error_clear(void);
/* What a code means, for any code. */
HD_API const char *hd_error_meaning(hd_error code);
/* 0 when no error is pending, else 1 (and the error is printed if it has not been): `return hd_exit_status();` ends a
 * main well. */
HD_API int hd_exit_status(void);

/* Who is told instead of stderr, for the whole process: of every first error with its code, and of every warning with
 * the code HD_OK. It may be called on any thread, and calls nothing of the library. NULL: stderr again. */
typedef void (*hd_error_handler)(hd_error code, const char *message, const char *place, void *user);
HD_API void hd_error_set_handler(hd_error_handler handler, void *user);

/* Begins a block that expects errors, and ends it: HD_QUIET; does both. */
typedef struct hd_quiet_token {
    const void *self;
    uint32_t depth;
} hd_quiet_token;
HD_API hd_quiet_token hd_quiet_begin(hd_quiet_token *self);
HD_API void hd_quiet_end(hd_quiet_token *token);
HD_END_DECLS

/* HD_QUIET; holds to the end of the block: errors are not printed. One that is still pending there, and that nobody has
 * read, is printed then.
 * HD_CHECK; returns from a function without a result when an error is pending; HD_CHECK NULL; from one with a result.
 */
#ifdef __cplusplus
extern "C++" {
struct hd_quiet_guard {
    hd_quiet_token token;
    hd_quiet_guard() : token(hd_quiet_begin(&token)) {}
    hd_quiet_guard(const hd_quiet_guard &) = delete;
    hd_quiet_guard &operator=(const hd_quiet_guard &) = delete;
    ~hd_quiet_guard() { hd_quiet_end(&token); }
};
}
#define HD_QUIET hd_quiet_guard HD_UNIQUE(hd_quiet_)
#else
#define HD_QUIET_AT_(token) hd_quiet_token token __attribute__((cleanup(hd_quiet_end), unused)) = hd_quiet_begin(&token)
#define HD_QUIET            HD_QUIET_AT_(HD_UNIQUE(hd_quiet_))
#endif
#define HD_CHECK                                                                                                       \
    if (hd_ok()) {                                                                                                     \
    } else                                                                                                             \
        return

#endif
