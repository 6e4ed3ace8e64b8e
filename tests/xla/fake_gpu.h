/* What the fake plugin for CUDA of fake_gpu.c lets itself be told. */
#ifndef HD_TESTS_XLA_FAKE_GPU_H
#define HD_TESTS_XLA_FAKE_GPU_H

#include <stdint.h>

typedef struct fake_gpu {
    int64_t fail_at;              /* the call with this number is an error; -1: none */
    int64_t calls;                /* so far, of the functions that can fail */
    const char *failed;           /* the one that was last told to */
    int64_t views, places, reads; /* buffers over memory of ours, addresses that were asked for, copies to the host */
    int64_t kept;                 /* arguments of runs that were not to be donated */
    int64_t living;               /* views and memory that are not given up */
} fake_gpu;
/* The library's own is `fake_gpu_now`. Of the environment it takes FAKE_GPU_OF, the plugin for the CPU, and
 * FAKE_GPU_LACKS: "view", "place", "layout" or "all". */

#endif
