/* Random numbers of the host, for orders: a stream follows from a seed and a number alone, so that any epoch's can be
 * had at once. SplitMix64: a counter, well mixed. */
#ifndef HD_DATA_STREAM_H
#define HD_DATA_STREAM_H

#include <stdint.h>

typedef struct hd_stream {
    uint64_t state;
} hd_stream;

static inline uint64_t hd_stream_next(hd_stream *s) {
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A seed that follows from another and a number: two steps apart, so that neighbours have nothing in common. */
static inline uint64_t hd_stream_seed(uint64_t seed, uint64_t number) {
    hd_stream s = {seed};
    s.state = hd_stream_next(&s) ^ number;
    return hd_stream_next(&s);
}

static inline hd_stream hd_stream_of(uint64_t seed, uint64_t number) {
    return (hd_stream){hd_stream_seed(seed, number)};
}

/* Below `bound`, which is not 0, all alike: what would make some more probable is drawn again. */
static inline uint64_t hd_stream_below(hd_stream *s, uint64_t bound) {
    if (bound <= UINT32_MAX) {
        const uint32_t few = (uint32_t)(UINT32_MAX - bound + 1) % (uint32_t)bound; /* 2^32 modulo bound */
        uint64_t product = (hd_stream_next(s) >> 32) * bound;
        while ((uint32_t)product < few) product = (hd_stream_next(s) >> 32) * bound;
        return product >> 32;
    }
    const uint64_t few = -bound % bound;
    uint64_t r = hd_stream_next(s);
    while (r < few) r = hd_stream_next(s);
    return r % bound;
}

/* In [0, 1). */
static inline double hd_stream_part(hd_stream *s) { return (double)(hd_stream_next(s) >> 11) * 0x1p-53; }

#endif
