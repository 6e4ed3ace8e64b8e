/* Memory objects of drivers, by their addresses, or, where they have none, by made-up ones: such an address is the
 * number of the object in a table and an offset, in a range that no process maps. So an address anywhere in a block
 * is found at once. Objects that nobody uses are cached by size class, and given out again without waiting: queues
 * are in order. */
#include "device/heap.h"

#include <stdio.h>
#include <string.h>

struct hd_heap_object {
    hd_block header; /* of the block that it is, as long as it is used */
    void *object;    /* NULL: this place of the table is free */
    size_t bytes;
    hd_heap *heap;
    hd_heap_object *next; /* in the cache, or of the free places */
    uint32_t number;
    bool is_used; /* not cached */
};

/* ---- addresses --------------------------------------------------------------------------------------------------- */
enum { OFFSET_BITS = 40, PAGE = 1 << 10, PAGES = 1 << 12 };
static const uintptr_t unmapped = (uintptr_t)1 << 62;
_Static_assert((uint64_t)PAGE *PAGES == (uint64_t)1 << (62 - OFFSET_BITS), "all numbers fit between offset and mark");

static struct {
    pthread_mutex_t lock;
    _Atomic(hd_heap_object *) pages[PAGES]; /* they stay: who looks one up takes no lock */
    uint32_t count;
    hd_heap_object *free;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *address_of(const hd_heap_object *m) {
    if (m->heap->has_addresses) return m->object;
    return (void *)(unmapped | (uintptr_t)m->number << OFFSET_BITS); /* it is never followed */
}

/* NULL: there is no memory for a page, or no number. */
static hd_heap_object *next_place(void) {
    const uint32_t number = table.count;
    if (number == (uint32_t)PAGE * PAGES) return NULL;
    hd_heap_object *page = atomic_load_explicit(&table.pages[number / PAGE], memory_order_relaxed);
    if (page == NULL) {
        char *memory = hd_array_resize(NULL, (PAGE + 1) * sizeof *page); /* it is never released */
        if (memory == NULL) return NULL;
        page = (hd_heap_object *)(void *)(memory + (sizeof *page - (uintptr_t)memory % _Alignof(hd_heap_object)));
        memset(page, 0, PAGE * sizeof *page);
        atomic_store_explicit(&table.pages[number / PAGE], page, memory_order_release);
    }
    table.count++;
    page[number % PAGE].number = number;
    return &page[number % PAGE];
}
static hd_heap_object *take_place(void) {
    pthread_mutex_lock(&table.lock);
    hd_heap_object *m = table.free;
    if (m != NULL)
        table.free = m->next;
    else
        m = next_place();
    pthread_mutex_unlock(&table.lock);
    return m;
}
static void free_place(hd_heap_object *m) {
    pthread_mutex_lock(&table.lock);
    m->object = NULL;
    m->next = table.free;
    table.free = m;
    pthread_mutex_unlock(&table.lock);
}

static const hd_heap_object *object_at(uintptr_t address) {
    if (address >> 62 != 1) return NULL;
    const uint32_t number = (uint32_t)((address ^ unmapped) >> OFFSET_BITS);
    const hd_heap_object *page = atomic_load_explicit(&table.pages[number / PAGE], memory_order_acquire);
    return page == NULL ? NULL : &page[number % PAGE];
}

hd_error hd_heap_find(const hd_heap *h, const void *address, size_t bytes, void **object, size_t *offset) {
    const hd_heap_object *m = object_at((uintptr_t)address);
    *offset = (uintptr_t)address & (((uintptr_t)1 << OFFSET_BITS) - 1);
    if (__builtin_expect(m == NULL || m->object == NULL || !m->is_used || m->heap != h, 0))
        return hd_fail(HD_ERROR_INTERNAL, "there is no memory of %s at %p", hd_device_text((char[32]){0}, h->device),
                       address);
    if (__builtin_expect(*offset > m->bytes || bytes > m->bytes - *offset, 0))
        return hd_fail(HD_ERROR_INTERNAL, "%zu bytes from %zu on are not inside of a block of %zu bytes of %s", bytes,
                       *offset, m->bytes, hd_device_text((char[32]){0}, h->device));
    *object = m->object;
    return HD_OK;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */
static void count_used(hd_heap *h) { /* under the lock */
    if (h->used_bytes > h->peak_bytes) h->peak_bytes = h->used_bytes;
}

static hd_heap_object *take_cached(hd_heap *h, uint32_t size_class) {
    pthread_mutex_lock(&h->lock);
    hd_heap_object *m = h->cache[size_class];
    if (m != NULL) {
        h->cache[size_class] = m->next;
        h->cached_bytes -= m->bytes;
        h->used_bytes += m->bytes;
        count_used(h);
        m->is_used = true;
    }
    pthread_mutex_unlock(&h->lock);
    return m;
}

static void release_object(hd_heap_object *m) {
    m->heap->release(m->heap->owner, m->object); /* which waits, without us, for the commands that use it */
    free_place(m);
}

static size_t cached_most(const hd_heap *h) { return h->has_cached_most ? h->cached_most : h->memory_bytes / 4; }

/* Into the cache, unless that is full, or it is not as large as all others of its class. */
static void leave_object(hd_heap_object *m) {
    hd_heap *h = m->heap;
    const uint32_t size_class = hd_size_class_of(m->bytes);
    pthread_mutex_lock(&h->lock);
    h->used_bytes -= m->bytes;
    m->is_used = false;
    const bool keep = m->bytes == hd_size_class_bytes(size_class) && h->cached_bytes + m->bytes <= cached_most(h);
    if (keep) {
        m->next = h->cache[size_class];
        h->cache[size_class] = m;
        h->cached_bytes += m->bytes;
    }
    pthread_mutex_unlock(&h->lock);
    if (!keep) release_object(m);
}

void hd_heap_trim(hd_heap *h) {
    for (uint32_t c = 0; c < HD_SIZE_CLASSES; ++c) {
        pthread_mutex_lock(&h->lock);
        hd_heap_object *m = h->cache[c];
        h->cache[c] = NULL;
        for (const hd_heap_object *each = m; each != NULL; each = each->next) h->cached_bytes -= each->bytes;
        pthread_mutex_unlock(&h->lock);
        while (m != NULL) {
            hd_heap_object *next = m->next;
            release_object(m);
            m = next;
        }
    }
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
static _Atomic(hd_heap *) heaps; /* none ever ends */

static void trim_all(void) {
    for (hd_heap *h = atomic_load(&heaps); h != NULL; h = h->next)
        if (h->is_here()) hd_heap_trim(h);
}
static void reset_peaks(void) {
    for (hd_heap *h = atomic_load(&heaps); h != NULL; h = h->next) {
        if (!h->is_here()) continue;
        pthread_mutex_lock(&h->lock);
        h->peak_bytes = h->used_bytes;
        pthread_mutex_unlock(&h->lock);
    }
}

void hd_heap_begin(hd_heap *h) {
    pthread_mutex_init(&h->lock, NULL);
    h->next = atomic_load(&heaps);
    while (!atomic_compare_exchange_weak(&heaps, &h->next, h)) {}
    hd_memory_also(trim_all, reset_peaks);
}

hd_error hd_heap_figures(hd_heap *h, hd_memory_stats *out) {
    if (h == NULL) return HD_ERROR_DEVICE;
    pthread_mutex_lock(&h->lock);
    *out = (hd_memory_stats){.live_bytes = (int64_t)h->used_bytes,
                             .peak_bytes = (int64_t)h->peak_bytes,
                             .cached_bytes = (int64_t)h->cached_bytes,
                             .system_allocations = h->made};
    pthread_mutex_unlock(&h->lock);
    return HD_OK;
}

hd_error hd_heap_keep(hd_heap *h, const size_t *most) {
    if (h == NULL) return HD_ERROR_DEVICE;
    pthread_mutex_lock(&h->lock);
    if (most != NULL) h->cached_most = *most;
    h->has_cached_most = h->has_cached_most || most != NULL;
    const bool trims = most == NULL || h->cached_bytes > *most;
    pthread_mutex_unlock(&h->lock);
    if (trims) hd_heap_trim(h);
    return HD_OK;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
hd_error hd_heap_fail(hd_heap *h, size_t bytes, const char *why) {
    char what[48] = "a command";
    if (bytes > 0) snprintf(what, sizeof what, "%zu bytes", bytes);
    pthread_mutex_lock(&h->lock);
    const size_t used = h->used_bytes, cached = h->cached_bytes;
    pthread_mutex_unlock(&h->lock);
    return hd_fail(HD_ERROR_MEMORY,
                   "%s has no memory for %s: of its %zu bytes %zu are in use here and %zu cached, and a block has at "
                   "most %zu (%s); release tensors, end scopes sooner, or use smaller batches",
                   hd_device_text((char[32]){0}, h->device), what, h->memory_bytes, used, cached, h->block_most, why);
}

/* Drivers of devices that share the host's memory may promise more than there is: what we know is looked at first. */
bool hd_heap_reserve(hd_heap *h, size_t bytes) {
    pthread_mutex_lock(&h->lock);
    const size_t taken = h->used_bytes + h->cached_bytes + h->reserved_bytes;
    const bool fits = bytes <= h->memory_bytes && taken <= h->memory_bytes - bytes;
    if (fits) h->reserved_bytes += bytes;
    pthread_mutex_unlock(&h->lock);
    return fits;
}
void hd_heap_unreserve(hd_heap *h, size_t bytes) {
    pthread_mutex_lock(&h->lock);
    h->reserved_bytes -= bytes;
    pthread_mutex_unlock(&h->lock);
}

bool hd_heap_could_hold(const hd_heap *h, size_t bytes) { return bytes <= h->block_most && bytes >> OFFSET_BITS == 0; }

static hd_heap_object *new_object(hd_heap *h, size_t bytes) {
    const size_t of_class = hd_size_class_bytes(hd_size_class_of(bytes));
    const size_t capacity = of_class <= h->block_most ? of_class : bytes;
    void *object = h->make(h->owner, capacity, bytes);
    if (object == NULL) return NULL;
    hd_heap_object *m = take_place();
    if (m == NULL) {
        h->release(h->owner, object);
        hd_heap_unreserve(h, capacity);
        hd_fail(HD_ERROR_MEMORY, "no memory for the address of a block on a device");
        return NULL;
    }
    m->object = object;
    m->bytes = capacity;
    m->heap = h;
    m->is_used = true;
    pthread_mutex_lock(&h->lock);
    h->made++;
    h->reserved_bytes -= capacity;
    h->used_bytes += capacity;
    count_used(h);
    pthread_mutex_unlock(&h->lock);
    return m;
}

hd_block *hd_heap_allocate(hd_heap *h, size_t bytes) {
    hd_heap_object *m = take_cached(h, hd_size_class_of(bytes));
    if (m == NULL) m = new_object(h, bytes);
    if (m == NULL) return NULL;
    hd_block_away_begin(&m->header, h->device, address_of(m), m->bytes, m);
    return &m->header;
}

void hd_heap_recycle(hd_block *block, bool is_here) {
    hd_heap_object *m = block->owner;
    if (is_here) leave_object(m); /* else the memory is the parent's, or ends with the process */
}
