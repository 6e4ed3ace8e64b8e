/* What the fake runtime of fake_metal.c lets itself be told. */
#ifndef HD_TESTS_METAL_FAKE_METAL_H
#define HD_TESTS_METAL_FAKE_METAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fake_metal {
    int64_t fail_at;             /* the call with this number gives nothing; -1: none */
    const char *fail_in;         /* so do the next `times` calls of this name */
    int times;                   /* of fail_in */
    int64_t calls;               /* that can fail, so far */
    int64_t objects, references; /* that live, and how often they are held */
    int64_t leaked;              /* objects that were to be released by a pool, and there was none */
    size_t memory, memory_used;  /* bytes: all there is, and what buffers have */
    bool is_lost;                /* every command buffer that runs ends in an error */
    bool is_closed;              /* every call ends the process */
    bool must_finish;            /* the process may not end while commands are under way */
    int under_way, most;         /* command buffers that are committed and did not run, and the most of them ever */
    int64_t waits;               /* that had something to wait for */
} fake_metal;
/* The library's own is `fake_metal_now`. Of FAKE_METAL in the environment, it takes the number of devices, or a word:
 * none, default (only the one of MTLCreateSystemDefaultDevice), old. */

/* Its kernels take two buffers, but for `position`, which takes one; then these. */
typedef struct fake_arguments {
    int64_t x, y; /* filled in */
    int32_t count, turns;
    float factor, unused;
} fake_arguments;

#endif
