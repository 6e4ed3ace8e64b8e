/* Errors stick, one per thread: the first is kept, later calls return NULL (numbers: NaN or 0) and do nothing until it
 * is cleared; what closes or releases always acts. So a chain of calls needs one check, at its end. */
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
/* 0 when no error is pending; else prints it to stderr and gives 1: `return hd_exit_status();` ends a main well. */
HD_API int hd_exit_status(void);
HD_END_DECLS

#endif
