/* What the fake driver of fake_opencl.c lets itself be told, by the names of these functions. */
#ifndef HD_TESTS_OPENCL_FAKE_OPENCL_H
#define HD_TESTS_OPENCL_FAKE_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_opencl {
    int64_t fail_at;            /* the call with this number fails with `status`; -1: none */
    const char *fail_in;        /* so do `times` calls of this function, after `skip` that do not */
    int times, skip;            /* of fail_in */
    int32_t status, lost;       /* lost: what every command gives; 0: the device is there */
    int64_t calls;              /* so far */
    int64_t objects;            /* that live */
    size_t memory, memory_used; /* bytes: all there is, and what buffers have */
} fake_opencl;
/* The library's own is `fake_opencl_now`. Of FAKE_OPENCL in the environment, it takes the numbers of platforms and of
 * devices of each ("1 2"), or a word: none, broken, old, unified. */

#endif
