/* Invariants: HD_ASSERT(condition) stops a debug build where one does not hold, and is nothing in others. It is for
 * what the library itself promises; what callers give is checked by errors. */
#ifndef HD_CORE_ASSERT_H
#define HD_CORE_ASSERT_H

#ifdef NDEBUG
#define HD_ASSERT(condition) ((void)sizeof(condition))
#else
#include <stdio.h>
#include <stdlib.h>
#define HD_ASSERT(condition)                                                                                           \
    ((condition)                                                                                                       \
         ? (void)0                                                                                                     \
         : (fprintf(stderr, "%s:%d: %s: %s does not hold\n", __FILE__, __LINE__, __func__, #condition), abort()))
#endif

#endif
