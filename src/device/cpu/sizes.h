/* Arithmetic on sizes. */
#ifndef HD_DEVICE_CPU_SIZES_H
#define HD_DEVICE_CPU_SIZES_H

#include <stddef.h>
#include <stdint.h>

static inline int64_t hd_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t hd_most(int64_t a, int64_t b) { return a > b ? a : b; }
/* How many pieces there are, the last of which may be smaller. */
static inline int64_t hd_pieces(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }
/* Up to whole lines of a cache. */
static inline size_t hd_whole_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

#endif
