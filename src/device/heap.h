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
    pthread_mutex_t lock;
    size_t used_bytes, cached_bytes;
    hd_heap_object *cache[HD_SIZE_CLASSES];
} hd_heap;

/* The lock of one whose other fields are filled in. */
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
/* For `make`: counts bytes as used; false: there are not so many left. And what came to nothing. */
bool hd_heap_reserve(hd_heap *h, size_t bytes);
void hd_heap_unreserve(hd_heap *h, size_t bytes);
/* An error with all figures; `bytes` 0: a command has no memory. `why`: what the driver said. */
hd_error hd_heap_fail(hd_heap *h, size_t bytes, const char *why);

#endif
