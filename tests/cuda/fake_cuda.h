/* What the fake driver of fake_cuda.c lets itself be told. */
#ifndef HD_TESTS_CUDA_FAKE_CUDA_H
#define HD_TESTS_CUDA_FAKE_CUDA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_GPUS = 32 };
typedef struct fake_cuda {
    int64_t fail_at;     /* the call with this number gives `status`; -1: none */
    const char *fail_in; /* so do the next `times` calls of this name */
    int times;           /* of fail_in */
    int status;
    const char *failed;         /* the function that was last told to */
    int64_t calls;              /* so far */
    atomic_int starts;          /* of them, cuInit */
    int64_t objects;            /* that live: streams, events, modules, graphs, programs, memory */
    size_t memory, host_memory; /* bytes of each GPU, and of pinned memory, all there is */
    size_t memory_used[FAKE_GPUS], host_used;
    int crash;                        /* the next kernel that runs gives this status, and then everything does */
    int lost;                         /* every call that needs a context gives it, and nothing runs */
    bool is_closed;                   /* every call ends the process */
    bool must_finish;                 /* the process may not end while commands are under way */
    int under_way;                    /* commands that are enqueued and did not run */
    int64_t waits;                    /* that had something to wait for */
    int64_t kernels, replays, copies; /* that ran */
    int64_t compiled;                 /* programs */
} fake_cuda;
/* The library's own is `fake_cuda_now`. Of FAKE_CUDA in the environment, it takes the number of GPUs, or a word: none,
 * broken. FAKE_CUDA_KEEP is a folder where compiled text is kept, so that a test compiles it once. */

#endif
