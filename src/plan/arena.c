/* The arena of a plan: holes between what lives, in order. */
#include "plan/arena.h"
#include "core/error.h"

#include <string.h>

#define NONE UINT32_MAX

size_t hd_arena_take(hd_arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 4 || a->top > SIZE_MAX / 4) return SIZE_MAX;
    uint32_t best = NONE;
    for (uint32_t i = 0; i < a->count; ++i)
        if (a->holes[i].bytes >= bytes && (best == NONE || a->holes[i].bytes < a->holes[best].bytes)) best = i;
    if (best == NONE) {
        if (a->count > 0 &&
            a->holes[a->count - 1].offset + a->holes[a->count - 1].bytes == a->top) { /* stretch the last */
            const size_t offset = a->holes[--a->count].offset;
            a->top = offset + bytes;
            return offset;
        }
        a->top += bytes;
        return a->top - bytes;
    }
    const size_t offset = a->holes[best].offset;
    a->holes[best].offset += bytes;
    a->holes[best].bytes -= bytes;
    if (a->holes[best].bytes == 0) {
        memmove(&a->holes[best], &a->holes[best + 1], (a->count - best - 1) * sizeof *a->holes);
        a->count--;
    }
    return offset;
}

hd_error hd_arena_give(hd_arena *a, size_t offset, size_t bytes) {
    if (bytes == 0) return HD_OK;
    uint32_t at = 0, end = a->count;
    while (at < end) { /* the holes are in order */
        const uint32_t middle = (at + end) / 2;
        if (a->holes[middle].offset < offset)
            at = middle + 1;
        else
            end = middle;
    }
    const bool after = at > 0 && a->holes[at - 1].offset + a->holes[at - 1].bytes == offset;
    const bool before = at < a->count && offset + bytes == a->holes[at].offset;
    if (after && before) {
        a->holes[at - 1].bytes += bytes + a->holes[at].bytes;
        memmove(&a->holes[at], &a->holes[at + 1], (a->count - at - 1) * sizeof *a->holes);
        a->count--;
    } else if (after) {
        a->holes[at - 1].bytes += bytes;
    } else if (before) {
        a->holes[at].offset = offset;
        a->holes[at].bytes += bytes;
    } else {
        if (a->count == a->capacity) {
            const uint32_t capacity = a->capacity ? a->capacity * 2 : 32;
            hd_hole *moved = hd_array_resize(a->holes, capacity * sizeof *moved);
            if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
            a->holes = moved;
            a->capacity = capacity;
        }
        memmove(&a->holes[at + 1], &a->holes[at], (a->count - at) * sizeof *a->holes);
        a->holes[at] = (hd_hole){offset, bytes};
        a->count++;
    }
    return HD_OK;
}
