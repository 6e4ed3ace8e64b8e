/* The caching allocator: size classes, the caches, the hooks and the figures. */
#include "core/device.h"
#include "core/os.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    SMALL_CLASSES = 64,     /* up to 64 KB: cached by the thread */
    THREAD_CACHE = 1 << 20, /* bytes a thread caches at most */
    HUGE_PAGE = 2 << 20,
};
_Static_assert((int)SMALL_CLASSES <= (int)HD_BIN_COUNT, "a bin for every small class");

static struct {
    pthread_mutex_t lock;
    hd_block *bins[HD_SIZE_CLASSES];
    size_t cached;
    _Atomic size_t limit; /* read without the lock too */
    _Atomic bool limit_set;
    size_t live, peak; /* large blocks in use */
    hd_memory_hooks hooks;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic int64_t system_allocations, fail_after = -1, attempts;

/* ---- the system ------------------------------------------------------------------------------------------------ */
void hd_memory_fail_after(int64_t n) {
    atomic_store(&attempts, 0);
    atomic_store(&fail_after, n);
}
int64_t hd_memory_attempts(void) { return atomic_load(&attempts); }

static bool fails_now(void) {
    const int64_t after = atomic_load_explicit(&fail_after, memory_order_relaxed);
    const int64_t attempt = atomic_fetch_add_explicit(&attempts, 1, memory_order_relaxed);
    return after >= 0 && attempt >= after;
}

void *hd_system_allocate(size_t size) {
    if (fails_now()) return NULL;
    atomic_fetch_add_explicit(&system_allocations, 1, memory_order_relaxed);
    if (shared.hooks.allocate != NULL) return shared.hooks.allocate(size, 64, shared.hooks.user);
    if (size < 2 * (size_t)HUGE_PAGE) return aligned_alloc(64, (size + 63) / 64 * 64);
    return hd_os_allocate_large(HUGE_PAGE, size); /* a 64 MB tensor then costs 32 page faults instead of 16384 */
}

void hd_system_release(void *memory, size_t size) {
    if (memory == NULL) return;
    if (shared.hooks.release != NULL)
        shared.hooks.release(memory, size, shared.hooks.user);
    else
        free(memory);
}

void *hd_array_resize(void *array, size_t bytes) { return fails_now() ? NULL : realloc(array, bytes); }
void hd_array_release(void *array) { free(array); }

static void block_to_system(hd_block *block) { hd_system_release(block, sizeof *block + block->capacity); }

static size_t cache_limit(void) { /* under the lock */
    if (!shared.limit_set) {
        uint64_t bytes, swap;
        hd_os_memory(&bytes, &swap);
        shared.limit = bytes > 0 ? (size_t)bytes / 4 : (size_t)1 << 30;
        shared.limit_set = true;
    }
    return shared.limit;
}

/* ---- the shared cache ------------------------------------------------------------------------------------------ */
static void trim_shared(void) { /* under the lock */
    for (uint32_t c = 0; c < HD_SIZE_CLASSES; ++c)
        while (shared.bins[c] != NULL) {
            hd_block *block = shared.bins[c];
            shared.bins[c] = block->next;
            shared.cached -= block->capacity;
            block_to_system(block);
        }
}

static void trim_blocks(hd_thread *thread);

static hd_block *large_new(hd_thread *thread, uint32_t size_class) {
    const size_t capacity = hd_size_class_bytes(size_class);
    pthread_mutex_lock(&shared.lock);
    hd_block *block = shared.bins[size_class];
    if (block != NULL) {
        shared.bins[size_class] = block->next;
        shared.cached -= capacity;
    }
    shared.live += capacity;
    if (shared.live > shared.peak) shared.peak = shared.live;
    pthread_mutex_unlock(&shared.lock);
    if (block == NULL) block = hd_system_allocate(sizeof *block + capacity);
    if (block == NULL) { /* what is cached may make the room */
        trim_blocks(thread);
        pthread_mutex_lock(&shared.lock);
        trim_shared();
        pthread_mutex_unlock(&shared.lock);
        block = hd_system_allocate(sizeof *block + capacity);
    }
    if (block == NULL) {
        pthread_mutex_lock(&shared.lock);
        shared.live -= capacity;
        pthread_mutex_unlock(&shared.lock);
    }
    return block;
}

static void large_recycle(hd_block *block) {
    pthread_mutex_lock(&shared.lock);
    shared.live -= block->capacity;
    const bool keep = shared.cached + block->capacity <= cache_limit();
    if (keep) {
        block->next = shared.bins[block->size_class];
        shared.bins[block->size_class] = block;
        shared.cached += block->capacity;
    }
    pthread_mutex_unlock(&shared.lock);
    if (!keep) block_to_system(block);
}

/* ---- blocks ---------------------------------------------------------------------------------------------------- */
hd_block *hd_block_new(hd_thread *thread, size_t bytes) {
    const uint32_t size_class = hd_size_class_of(bytes);
    hd_block *block;
    if (__builtin_expect(bytes > (size_t)1 << 47, 0)) {
        hd_fail(HD_ERROR_MEMORY, "no machine has %zu bytes", bytes);
        return NULL;
    }
    if (size_class < SMALL_CLASSES) {
        block = thread->bins[size_class].head;
        if (__builtin_expect(block != NULL, 1)) {
            thread->bins[size_class].head = block->next;
            hd_count(&thread->cached_bytes, -(int64_t)block->capacity);
        } else {
            block = hd_system_allocate(sizeof *block + hd_size_class_bytes(size_class));
        }
    } else {
        block = large_new(thread, size_class);
    }
    if (__builtin_expect(block == NULL, 0)) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %zu bytes; release tensors, end scopes sooner, or use smaller batches",
                bytes);
        return NULL;
    }
    atomic_store_explicit(&block->references, 1, memory_order_relaxed);
    block->size_class = size_class;
    block->capacity = hd_size_class_bytes(size_class);
    hd_count(&thread->live_bytes, (int64_t)block->capacity);
    return block;
}

hd_block *hd_block_away(hd_thread *thread, hd_device device, void *address, size_t capacity, void *owner) {
    hd_block *block = hd_system_allocate(sizeof *block);
    (void)thread;
    if (block == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the header of a block on a device");
        return NULL;
    }
    hd_block_away_begin(block, device, address, capacity, owner);
    return block;
}
void hd_block_away_release(hd_block *header) { hd_system_release(header, sizeof *header); }

void hd_block_recycle(hd_thread *thread, hd_block *block) {
    if (__builtin_expect(block->size_class == HD_BLOCK_AWAY, 0)) {
        hd_device_interface_of(block->device.kind)->recycle(thread, block);
        return;
    }
    hd_count(&thread->live_bytes, -(int64_t)block->capacity);
    if (block->size_class >= SMALL_CLASSES) {
        large_recycle(block);
    } else if ((size_t)atomic_load_explicit(&thread->cached_bytes, memory_order_relaxed) + block->capacity <=
                   THREAD_CACHE &&
               (!shared.limit_set || shared.limit > 0)) {
        block->next = thread->bins[block->size_class].head;
        thread->bins[block->size_class].head = block;
        hd_count(&thread->cached_bytes, (int64_t)block->capacity);
    } else {
        block_to_system(block);
    }
}

static void trim_blocks(hd_thread *thread) {
    for (uint32_t c = 0; c < SMALL_CLASSES; ++c)
        while (thread->bins[c].head != NULL) {
            hd_block *block = thread->bins[c].head;
            thread->bins[c].head = block->next;
            hd_count(&thread->cached_bytes, -(int64_t)block->capacity);
            block_to_system(block);
        }
}

void hd_memory_trim_thread(hd_thread *thread) {
    trim_blocks(thread);
    hd_header_trim(thread);
}

void hd_memory_before_fork(void) { pthread_mutex_lock(&shared.lock); }
void hd_memory_after_fork(void) { pthread_mutex_unlock(&shared.lock); }

/* ---- the public side ------------------------------------------------------------------------------------------- */
hd_memory_stats hd_memory(void) {
    hd_memory_stats stats;
    pthread_mutex_lock(&shared.lock);
    stats.peak_bytes = (int64_t)shared.peak;
    stats.cached_bytes = (int64_t)shared.cached;
    pthread_mutex_unlock(&shared.lock);
    stats.live_bytes = hd_counter_sum(HD_COUNTER_BYTES);
    stats.cached_bytes += hd_counter_sum(HD_COUNTER_CACHED);
    stats.system_allocations = atomic_load_explicit(&system_allocations, memory_order_relaxed);
    return stats;
}

static _Atomic(void (*)(void)) also_trim, also_reset_peak;
void hd_memory_also(void (*trim)(void), void (*reset_peak)(void)) {
    atomic_store_explicit(&also_trim, trim, memory_order_release);
    atomic_store_explicit(&also_reset_peak, reset_peak, memory_order_release);
}

void hd_memory_reset_peak(void) {
    pthread_mutex_lock(&shared.lock);
    shared.peak = shared.live;
    pthread_mutex_unlock(&shared.lock);
    void (*of_devices)(void) = atomic_load_explicit(&also_reset_peak, memory_order_acquire);
    if (of_devices != NULL) of_devices();
}

void hd_memory_set_limit(size_t bytes) {
    pthread_mutex_lock(&shared.lock);
    shared.limit = bytes;
    shared.limit_set = true;
    if (shared.cached > bytes) trim_shared();
    pthread_mutex_unlock(&shared.lock);
    hd_thread *thread = bytes == 0 ? hd_thread_self() : NULL;
    if (thread != NULL) trim_blocks(thread);
}

void hd_memory_trim_here(void) {
    hd_thread *thread = hd_thread_self();
    if (thread != NULL) hd_memory_trim_thread(thread);
    pthread_mutex_lock(&shared.lock);
    trim_shared();
    pthread_mutex_unlock(&shared.lock);
}

void hd_memory_trim(void) {
    hd_memory_trim_here();
    void (*of_devices)(void) = atomic_load_explicit(&also_trim, memory_order_acquire);
    if (of_devices != NULL) of_devices();
}

void hd_memory_set_hooks(const hd_memory_hooks *hooks) {
    HD_ENTER("hd_memory_set_hooks", );
    if (hooks != NULL && (hooks->allocate == NULL || hooks->release == NULL)) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "both `allocate` and `release` are needed");
        return;
    }
    hd_memory_trim_here();
    const int64_t live = hd_live_objects(),
                  cached = hd_counter_sum(HD_COUNTER_CACHED) + hd_counter_sum(HD_COUNTER_HEADERS);
    if (live != 0 || cached != 0) {
        hd_fail(HD_ERROR_STATE,
                "%lld objects live and other threads cache %lld bytes; set the hooks before any tensor is made",
                (long long)live, (long long)cached);
        return;
    }
    (void)thread;
    shared.hooks = hooks != NULL ? *hooks : (hd_memory_hooks){0};
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */
/* NULL with an error. */
static const hd_device_interface *with_memory(const hd_thread *thread, hd_device *device) {
    char text[32], reason[HD_DEVICE_REASON];
    if (device->kind == HD_DEVICE_DEFAULT) *device = thread->device;
    const char *why = hd_device_absent(reason, *device);
    if (why != NULL) {
        hd_fail(HD_ERROR_DEVICE, "device %s is not here: %s", hd_device_text(text, *device), why);
        return NULL;
    }
    const hd_device_interface *interface = hd_device_interface_of(device->kind);
    if (interface->memory != NULL) return interface;
    why = hd_device_runs_no_ops(reason, *device);
    hd_fail(HD_ERROR_DEVICE, "device %s has no memory whose figures are known, or that is kept for reuse: %s",
            hd_device_text(text, *device), why != NULL ? why : "its interface has no functions for that");
    return NULL;
}

hd_memory_stats hd_device_memory(hd_device device) {
    hd_memory_stats stats = {0};
    HD_ENTER_ALWAYS("hd_device_memory", stats);
    const hd_device_interface *interface = with_memory(thread, &device);
    if (interface == NULL || interface->memory(device.index, &stats) != HD_OK) return (hd_memory_stats){0};
    return stats;
}

void hd_device_memory_set_limit(hd_device device, size_t bytes) {
    HD_ENTER_ALWAYS("hd_device_memory_set_limit", );
    const hd_device_interface *interface = with_memory(thread, &device);
    if (interface != NULL) interface->keep(device.index, &bytes);
}

void hd_device_memory_trim(hd_device device) {
    HD_ENTER_ALWAYS("hd_device_memory_trim", );
    const hd_device_interface *interface = with_memory(thread, &device);
    if (interface != NULL) interface->keep(device.index, NULL);
}
