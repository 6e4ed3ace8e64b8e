/* Memory that ends, or begins, where it must not be touched. */
#ifndef HD_TESTS_COMPILER_FORBIDDEN_H
#define HD_TESTS_COMPILER_FORBIDDEN_H

#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
    char *map, *data;
    size_t map_bytes, bytes;
} guarded;

/* `at_end`: behind the last byte lies the forbidden page; else before the first. */
static inline guarded guarded_new(size_t bytes, bool at_end) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    guarded g = {.map_bytes = room + 2 * page, .bytes = bytes};
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    if (room > 0) assert_int_equal(mprotect(g.map + page, room, PROT_READ | PROT_WRITE), 0);
    g.data = g.map + page + (at_end ? room - bytes : 0);
    return g;
}
static inline void guarded_release(guarded *g) { munmap(g->map, g->map_bytes); }

#endif
