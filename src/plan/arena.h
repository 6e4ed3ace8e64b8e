/* Laying out memory: places in one arena, taken and given back in the order of a run. */
#ifndef HD_PLAN_ARENA_H
#define HD_PLAN_ARENA_H

#include "core/memory.h"

typedef struct hd_hole {
    size_t offset, bytes;
} hd_hole;
typedef struct hd_arena {
    hd_hole *holes; /* in order of their offsets */
    uint32_t count, capacity;
    size_t top; /* how large it must be */
} hd_arena;

/* The smallest hole that fits, or new room at the top; SIZE_MAX when no address is that large. */
size_t hd_arena_take(hd_arena *a, size_t bytes);
hd_error hd_arena_give(hd_arena *a, size_t offset, size_t bytes);

#endif
