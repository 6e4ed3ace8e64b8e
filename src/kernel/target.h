/* What a machine is to fusion, lowering and schedules: plain data. Its functions are in fuse/machine.h. */
#ifndef HD_KERNEL_TARGET_H
#define HD_KERNEL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* When a product computes its first operand as it reads it, and that is not in memory. */
typedef struct hd_target_prologues {
    bool any;            /* products can */
    int64_t least_bytes; /* of the operand: less is in a near cache anyhow when the product reads it */
    int64_t call_bytes; /* a product that would be a call makes its result in memory, not in tiles: it has a prologue */
    int64_t call_columns; /* only where the operand has more bytes, and the result fewer columns */
    int64_t least_row;    /* elements: shorter rows are computed quicker one behind the other than each by itself */
    int64_t many_rows;    /* blocks of rows for all threads, whatever the shape of the result */
    int share;            /* multiplications of an element for each unit of its cost, when rows are not many */
} hd_target_prologues;

typedef struct hd_target {
    const char *name;
    uint16_t vector_bytes; /* of its registers */
    /* Groups. */
    uint8_t most_members; /* longer chains are cut, to keep kernels quick to compile and within registers */
    uint8_t most_reads;   /* from outside: with what members store, fewer than a kernel can have */
    int64_t small_space;  /* a reduction of this size runs on one thread, whatever its shape; */
    int64_t least_kept;   /* a larger one must leave this many results for the threads to share */
    /* Costs, in the units of words.def. */
    uint8_t cheap;      /* up to here a value that follows from draws is computed by each of its readers */
    uint8_t keeps_from; /* from here on a value waits in memory for the next stage that needs it */
    /* Loads: bytes of the smallest elements that it reads so; 0: it does not. */
    uint8_t gathers;     /* a vector of elements from as many places */
    uint8_t reads_some;  /* some elements of a vector, leaving the others alone */
    uint8_t least_row;   /* elements behind an index, so that a kernel loads several at a time */
    bool scatters_parts; /* rows of state at indices are written where they lie */
    bool copies_rows;    /* rows and pieces that nothing is computed of are copied quicker by a call */
    uint8_t most_pieces; /* of a concatenation: at each point a kernel looks for the one that it is in */
    /* Sums of f32 go on in f64 after so many points: of lanes, and of rows where lanes stand side by side. */
    uint16_t sum_points, sum_rows;
    uint16_t alignment;   /* of values in the arena, in bytes; 0: 64 */
    uint16_t reuse_after; /* launches that pass before memory is given out again: they may run at the same time */
    hd_target_prologues prologues;
} hd_target;

static inline bool hd_target_gathers(const hd_target *t, int element_bytes) {
    return t->gathers > 0 && element_bytes >= t->gathers;
}
static inline bool hd_target_reads_some(const hd_target *t, int element_bytes) {
    return t->reads_some > 0 && element_bytes >= t->reads_some;
}

#endif
