/* Reading option structs of any age. */
#ifndef HD_CORE_OPTIONS_H
#define HD_CORE_OPTIONS_H

#include "core/error.h"

/* Copies what the caller's struct has (its first field is its size) over zeros; NULL gives all zeros. */
hd_error hd_read_options(void *out, size_t size, const void *given);

/* HD_READ_OPTS(hd_reduce_opts, opts, NULL); gives `options`, or returns `failure`. */
#define HD_READ_OPTS(type, opts, failure)                                                                              \
    type options = {0};                                                                                                \
    if (hd_read_options(&options, sizeof options, opts) != HD_OK) return failure

#endif
