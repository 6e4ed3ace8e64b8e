/* A story about the figures, the limit and the trimming of a device's memory, on a fake of its driver that has 1 MB:
 * device 0 of a kind, which nobody has used yet. `taken` says what the driver has given out. */
#ifndef HD_TESTS_GPU_MEMORY_H
#define HD_TESTS_GPU_MEMORY_H

#include "core/away.h"
#include "in_a_child.h"

enum { GPU_MEMORY_BLOCK = 65536 };

static inline void require_memory(hd_device device, int live, int peak, int cached) {
    const hd_memory_stats m = hd_device_memory(device);
    if (m.live_bytes != live * GPU_MEMORY_BLOCK || m.peak_bytes != peak * GPU_MEMORY_BLOCK ||
        m.cached_bytes != cached * GPU_MEMORY_BLOCK)
        fprintf(stderr, "blocks: %g live, expected %d; %g at most, expected %d; %g cached, expected %d (%s)\n",
                (double)m.live_bytes / GPU_MEMORY_BLOCK, live, (double)m.peak_bytes / GPU_MEMORY_BLOCK, peak,
                (double)m.cached_bytes / GPU_MEMORY_BLOCK, cached, hd_error_message());
    require(m.live_bytes == live * GPU_MEMORY_BLOCK && m.peak_bytes == peak * GPU_MEMORY_BLOCK &&
            m.cached_bytes == cached * GPU_MEMORY_BLOCK);
}

/* So many blocks at once, and none any more. */
static inline void come_and_go(hd_device device, int count) {
    hd_thread *thread = hd_thread_self();
    hd_block *blocks[8];
    for (int i = 0; i < count; ++i)
        require((blocks[i] = hd_device_interface_of(device.kind)->allocate(thread, 0, GPU_MEMORY_BLOCK)) != NULL);
    for (int i = 0; i < count; ++i) hd_block_release(thread, blocks[i]);
}

static inline void limits_and_trims(hd_device device, size_t (*taken)(void)) {
    const size_t block = GPU_MEMORY_BLOCK;
    come_and_go(device, 8);
    require_memory(device, 0, 8, 4); /* a quarter of it is kept */
    require(taken() == 4 * block && hd_device_memory(device).system_allocations == 8);
    come_and_go(device, 4);
    require(hd_device_memory(device).system_allocations == 8); /* these were all given out again */
    hd_memory_reset_peak();
    require_memory(device, 0, 0, 4);
    hd_device_memory_set_limit(device, 4 * block); /* which is not more than is cached */
    require_memory(device, 0, 0, 4);
    hd_device_memory_set_limit(device, 3 * block - 1);
    require_memory(device, 0, 0, 0);
    require(taken() == 0);
    come_and_go(device, 4);
    require_memory(device, 0, 4, 2);
    hd_device_memory_trim(device);
    require_memory(device, 0, 4, 0);
    require(taken() == 0);
    hd_device_memory_set_limit(device, SIZE_MAX);
    come_and_go(device, 8);
    require_memory(device, 0, 8, 8);
    hd_device_memory_trim(hd_cpu());
    require_memory(device, 0, 8, 8);
    hd_memory_trim();
    require_memory(device, 0, 8, 0);
    hd_device_memory_set_limit(device, 0);
    come_and_go(device, 8);
    require_memory(device, 0, 8, 0);
    require(taken() == 0);
    hd_device_memory_set_limit(device, 8 * block);
}

static inline void wrong_devices(hd_device device) {
    const hd_device none = {device.kind, 99};
    char reason[64];
    snprintf(reason, sizeof reason, "hd_device_memory: device %s:99 is not here: there ",
             hd_device_interface_of(device.kind)->name);
    const hd_memory_stats m = hd_device_memory(none);
    require(m.live_bytes == 0 && m.peak_bytes == 0 && m.cached_bytes == 0 && m.system_allocations == 0);
    hd_device_memory_trim(device); /* while an error is pending */
    require_memory(device, 0, 8, 0);
    require_error(HD_ERROR_DEVICE, reason);
    hd_device_memory_set_limit(none, 0);
    require_error(HD_ERROR_DEVICE, "hd_device_memory_set_limit: device ");
    hd_device_memory_trim(none);
    require_error(HD_ERROR_DEVICE, "hd_device_memory_trim: device ");
}

static inline void memory_story(hd_device device, size_t (*taken)(void)) {
    require_memory(device, 0, 0, 0);
    require(hd_device_memory(device).system_allocations == 0);
    limits_and_trims(device, taken);
    wrong_devices(device);
    hd_set_device(device); /* {0} is the thread's */
    require_memory((hd_device){0}, 0, 8, 0);
    come_and_go(device, 2);
    require_memory((hd_device){0}, 0, 8, 2);
    hd_device_memory_trim((hd_device){0});
    require_memory(device, 0, 8, 0);
    hd_set_device(hd_cpu());
    require(taken() == 0 && hd_ok());
}

/* What other threads may do meanwhile, until they are told to end. */
static _Atomic bool memory_is_left_alone;
static inline void *changes_memory(void *of) {
    const hd_device device = *(const hd_device *)of;
    for (int i = 0; !atomic_load(&memory_is_left_alone); ++i) {
        const hd_memory_stats m = hd_device_memory(device);
        require(m.live_bytes >= 0 && m.peak_bytes >= m.live_bytes && m.cached_bytes >= 0);
        hd_device_memory_set_limit(device, (size_t)(i % 3) << 12);
        if (i % 4 == 0) hd_device_memory_trim(device);
        if (i % 4 == 2) hd_memory_trim();
        if (i % 8 == 5) hd_memory_reset_peak();
    }
    require(hd_ok());
    return NULL;
}

#endif
