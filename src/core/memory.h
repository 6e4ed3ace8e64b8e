/* The caching allocator. Blocks carry a reference count of their own, so that storages can share bytes until one of
 * them writes. Small blocks are cached per thread, large ones in one shared cache under a byte limit. */
#ifndef HD_CORE_MEMORY_H
#define HD_CORE_MEMORY_H

#include "core/thread.h"
#include <hodu/device.h>

typedef struct hd_block {
    _Alignas(64) _Atomic int32_t references;
    uint32_t size_class;
    size_t capacity; /* usable bytes */
    struct hd_block *next;
    /* Of HD_BLOCK_AWAY alone, whose bytes are not behind this header: */
    void *address; /* on `device` */
    hd_device device;
    void *owner; /* the device's own */
} hd_block;
_Static_assert(sizeof(hd_block) == 64, "the bytes behind it are aligned as it is");
enum { HD_BLOCK_AWAY = 0x7fffffff }; /* a size class above all others */

/* Size classes: steps of 64 bytes up to 1 KB, then eight to each doubling, so that at most an eighth is wasted. */
enum { HD_SIZE_CLASSES = 320 }; /* up to 2^47 bytes */
static inline uint32_t hd_size_class_of(size_t bytes) {
    if (bytes <= 1024) return bytes == 0 ? 0 : (uint32_t)((bytes - 1) / 64);
    const int e = 63 - __builtin_clzll(bytes - 1);
    return (uint32_t)(16 + (e - 10) * 8 + (int)(((bytes - 1) >> (e - 3)) & 7));
}
static inline size_t hd_size_class_bytes(uint32_t c) {
    if (c < 16) return (c + 1) * (size_t)64;
    return (size_t)(8 + (c - 16) % 8 + 1) << ((c - 16) / 8 + 10 - 3);
}

static inline void *hd_block_data(hd_block *block) { return block + 1; }

/* A block of at least `bytes`, 64-byte aligned, its contents undefined; NULL with an error when there is none. */
hd_block *hd_block_new(hd_thread *thread, size_t bytes);
/* A header for `capacity` bytes at an address of a device, whose interface recycles it; NULL with an error. */
hd_block *hd_block_away(hd_thread *thread, hd_device device, void *address, size_t capacity, void *owner);
void hd_block_away_release(hd_block *header);
/* The same in memory of the caller's. */
static inline void hd_block_away_begin(hd_block *header, hd_device device, void *address, size_t capacity,
                                       void *owner) {
    atomic_store_explicit(&header->references, 1, memory_order_relaxed);
    header->size_class = HD_BLOCK_AWAY;
    header->capacity = capacity;
    header->next = NULL;
    header->address = address;
    header->device = device;
    header->owner = owner;
}
void hd_block_recycle(hd_thread *thread, hd_block *block);
static inline void hd_block_release(hd_thread *thread, hd_block *block) {
    if (atomic_load_explicit(&block->references, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1)
        hd_block_recycle(thread, block);
}

/* From the hooks, 64-byte aligned; NULL without an error when there is none. */
void *hd_system_allocate(size_t size);
void hd_system_release(void *memory, size_t size);
/* Plain arrays for bookkeeping (scopes, plans): never from the hooks. */
void *hd_array_resize(void *array, size_t bytes);
void hd_array_release(void *array);

/* Gives a thread's cached blocks and headers back; its counters are the caller's to keep. */
void hd_memory_trim_thread(hd_thread *thread);

/* What hd_memory_trim does but for devices, and what it calls for these, as hd_memory_reset_peak does. */
void hd_memory_trim_here(void);
void hd_memory_also(void (*trim)(void), void (*reset_peak)(void));

/* A fork while another thread holds the lock would leave the child with it: these go around it. */
void hd_memory_before_fork(void);
void hd_memory_after_fork(void);

/* For tests: the n-th allocation from now on fails (0: the next); -1 turns it off. Counts hooks and arrays alike. */
void hd_memory_fail_after(int64_t n);
/* For tests: allocations that would have been counted since hd_memory_fail_after. */
int64_t hd_memory_attempts(void);

#endif
