/* A quick hash of bytes, eight at a time: to find entries and to notice damage, not to tell keys apart. */
#ifndef HD_CORE_HASH_H
#define HD_CORE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t hd_hash_mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * 0x9E3779B97F4A7C15u;
    return h ^ (h >> 32);
}

static inline uint64_t hd_hash(const void *bytes, size_t count, uint64_t seed) {
    const char *at = bytes;
    uint64_t h = hd_hash_mix(seed, count), word;
    for (; count >= 8; count -= 8, at += 8) {
        memcpy(&word, at, 8);
        h = hd_hash_mix(h, word);
    }
    word = 0;
    if (count > 0) memcpy(&word, at, count);
    h = hd_hash_mix(h, word) * 0xBF58476D1CE4E5B9u;
    return h ^ (h >> 29);
}

#endif
