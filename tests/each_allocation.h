/* A program in which every allocation fails once: each time it ends with an error of memory or none, and leaves nothing
 * behind. */
#ifndef HD_TESTS_EACH_ALLOCATION_H
#define HD_TESTS_EACH_ALLOCATION_H

#include "core/memory.h"
#include "support.h"

/* `most`: more allocations than it has. */
static inline void each_allocation_fails(void (*program)(void), int64_t most) {
    bool reached = true;
    for (int64_t n = 0; reached; ++n) {
        hd_memory_trim(); /* what is kept for reuse would not be asked for */
        hd_memory_fail_after(n);
        {
            HD_SCOPE;
            program();
        }
        reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (!hd_ok()) assert_error(HD_ERROR_MEMORY, "");
        hd_clear_tape();
        assert_int_equal(hd_live_objects(), 0);
        assert_true(n < most);
    }
    HD_SCOPE;
    program(); /* and then it goes well */
    assert_ok();
}

#endif
