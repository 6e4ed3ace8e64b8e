/* What tests of memory share: how much the C library has given out, and how long a loop runs before that stays
 * level. */
#ifndef HD_TESTS_HEAP_H
#define HD_TESTS_HEAP_H

#include <malloc.h>
#include <stdint.h>

#include "sample.h"

/* Rounds until everything that is kept for reuse is there. */
#ifdef NDEBUG
enum { WARM = 20, WARM_RUNS = 100 };
#else
enum { WARM = 600, WARM_RUNS = 4000 }; /* debug builds let thousands of released headers wait */
#endif

/* What the C library has given out; 0 where a sanitizer has taken its place. */
static inline int64_t bytes_given_out(void) {
    if (SANITIZED) return 0;
    const struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

#endif
