/* The caching allocator: freed blocks are kept for the next tensor of their size, up to a limit; those of each device
 * other than the CPU in a cache of its own. */
#ifndef HODU_MEMORY_H
#define HODU_MEMORY_H

#include <hodu/device.h>

typedef struct hd_memory_stats {
    int64_t live_bytes;   /* in use by tensors now */
    int64_t peak_bytes;   /* the most live_bytes that blocks of 64 KB and more reached, since hd_memory_reset_peak */
    int64_t cached_bytes; /* freed and kept for reuse */
    int64_t system_allocations; /* calls to the system or the hooks so far */
} hd_memory_stats;

/* Where memory comes from. `allocate` gives `size` bytes aligned to `alignment`, or NULL; both may run on any
 * thread. */
typedef struct hd_memory_hooks {
    void *(*allocate)(size_t size, size_t alignment, void *user);
    void (*release)(void *memory, size_t size, void *user);
    void *user;
} hd_memory_hooks;

HD_BEGIN_DECLS
HD_API hd_memory_stats hd_memory(void);
/* Of the CPU, and of the devices that were asked for so far. */
HD_API void hd_memory_reset_peak(void);
/* Most bytes kept for reuse, all threads together; the default is a quarter of the machine's memory. 0 keeps none. */
HD_API void hd_memory_set_limit(size_t bytes);
/* Gives this thread's and the shared cache back to the system, and those of the devices that were asked for so far to
 * their drivers. */
HD_API void hd_memory_trim(void);
/* What tensors and compiled code use of the memory of a device ({0}: this thread's), and what is cached there; of the
 * CPU what hd_memory says. Blocks of any size count for peak_bytes, and system_allocations are those that its driver
 * gave. A device that is not there, or runs no ops, is an error, here and below, and all figures are 0. These work
 * while an error is pending, too. */
HD_API hd_memory_stats hd_device_memory(hd_device device);
/* Most bytes of a device's memory kept for reuse from now on; the default is a quarter of it. 0 keeps none. */
HD_API void hd_device_memory_set_limit(hd_device device, size_t bytes);
/* Gives what is cached of a device's memory back to its driver, which other programs may take then. */
HD_API void hd_device_memory_trim(hd_device device);
/* Replaces the system allocator; NULL brings it back. An error while objects live: the new hooks could not free
 * them. */
HD_API void hd_memory_set_hooks(const hd_memory_hooks *hooks);
HD_END_DECLS

#endif
