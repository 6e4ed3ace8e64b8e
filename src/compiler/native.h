/* Running a native kernel: its arguments, and how its space is cut for threads. */
#ifndef HD_COMPILER_NATIVE_H
#define HD_COMPILER_NATIVE_H

#include "compiler/code.h"

enum { HD_WORTH_A_THREAD = 1 << 17 }; /* instructions on single elements: some 5 us, what it takes to wake a thread */

/* A kernel bound to sizes, strides and numbers; only addresses are missing. */
typedef struct hd_native {
    hd_code *code;
    hd_kernel shape;   /* of the kernel: axes and buffers; its steps only until it is compiled */
    int64_t *geometry; /* see kernel.h */
    uint64_t *numbers;
    int split;            /* the kept axis that threads share; -1: none */
    int64_t grain;        /* the least of it that is worth a thread */
    int64_t cost;         /* of all of it, in instructions on single elements */
    int operations;       /* words at a point of its space */
    size_t scratch_bytes; /* for each thread */
} hd_native;

/* Decides how the space is cut, from its sizes and what a point costs. */
void hd_native_settle(hd_native *n);
/* Bytes of memory that it works in on all threads of the pool; one thread alone makes do with scratch_bytes. */
size_t hd_native_room(const hd_native *n);
/* Runs all of it. `buffers` are addresses of first elements. */
void hd_native_run(const hd_native *n, char *const *buffers, char *room, size_t room_bytes);
/* Runs positions [begin, end) of the axis that threads share, on this thread, with scratch_bytes of memory. */
void hd_native_run_part(const hd_native *n, char *const *buffers, char *scratch, int64_t begin, int64_t end);
/* Runs the part of it that begins at `begin` and is `size` large (along its kept axes), on this thread. `buffers` are
 * those of the whole, but for buffer `tile`: that is the part itself, its rows (of axis `rows`) `stride` elements
 * apart. */
void hd_native_run_tile(const hd_native *n, char *const *buffers, int tile, const void *at, int rows, int64_t stride,
                        const int64_t *begin, const int64_t *size);
void hd_native_release(hd_native *n);

#endif
