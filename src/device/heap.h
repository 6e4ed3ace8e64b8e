/* Memory of devices: objects that nobody uses are cached. What a driver calls an object is a pointer here. Where that
 * is no address that the host could keep, addresses are made up. */
#ifndef HD_DEVICE_HEAP_H
#define HD_DEVICE_HEAP_H

#include "core/device.h"
#include "core/memory.h"

#include <pthread.h>

typedef struct hd_heap_object hd_heap_object;

typedef struct hd_heap {
    hd_device device;
    size_t memory_bytes, block_most; /* all of its memory, and the largest block */
    bool has_addresses;              /* an object is its address */
    void *owner;                     /* whose heap it is */
    /* An object of so many bytes, which it reserves, for a block of `asked`; NULL with an error. */
    void *(*make)(void *owner, size_t bytes, size_t asked);
    void (*release)(void *owner, void *object); /* back to the driver, also while commands use it */
    bool (*is_here)(void);                      /* the driver can be called: not in a forked child, nor at the end */
    pthread_mutex_t lock;
    size_t used_bytes, cached_bytes, peak_bytes; /* in use now, kept for reuse, and in use at most */
    size_t reserved_bytes;                       /* which the driver is asked for */
    size_t cached_most;                          /* of which so many are kept, when that was set */
    bool has_cached_most;
    int64_t made; /* objects, by the driver */
    hd_heap_object *cache[HD_SIZE_CLASSES];
    struct hd_heap *next; /* of all heaps */
} hd_heap;

/* One whose other fields are filled in: from now on hd_memory_trim and hd_memory_reset_peak know it. */
void hd_heap_begin(hd_heap *h);
/* False: no block is so large. */
bool hd_heap_could_hold(const hd_heap *h, size_t bytes);
/* A block of the cache, or with an object that is made for it; NULL with an error. */
hd_block *hd_heap_allocate(hd_heap *h, size_t bytes);
/* What nobody uses any more; `is_here`: the driver can still be called. */
void hd_heap_recycle(hd_block *block, bool is_here);
/* The object in which an address lies, so many bytes before its end, and where in it. */
hd_error hd_heap_find(const hd_heap *h, const void *address, size_t bytes, void **object, size_t *offset);
/* Gives back what is cached. */
void hd_heap_trim(hd_heap *h);
/* What an interface of a device asks of the heap; NULL: there is an error. */
hd_error hd_heap_figures(hd_heap *h, hd_memory_stats *out);
hd_error hd_heap_keep(hd_heap *h, const size_t *most);
/* For `make`: reserves bytes; false: there are not so many left. And what came to nothing. */
bool hd_heap_reserve(hd_heap *h, size_t bytes);
void hd_heap_unreserve(hd_heap *h, size_t bytes);
/* An error with all figures; `bytes` 0: a command has no memory. `why`: what the driver said. */
hd_error hd_heap_fail(hd_heap *h, size_t bytes, const char *why);

#endif
