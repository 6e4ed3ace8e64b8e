/* The disk cache: a file for every compiled kernel, named by a hash of the key and holding it whole. Files appear
 * complete (written aside, then renamed), so that any number of processes share a directory without a lock. Trouble of
 * any kind costs a compilation, never an error. */
#include "codegen/cache_directory.h"
#include "codegen/code.h"
#include "core/hash.h"
#include "core/memory.h"
#include "core/os_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

extern const char hd_compiler_fingerprint[]; /* of the texts that compile kernels: made by the build */

enum { VERSION = 1, TOUCH_SECONDS = 60 };
typedef struct head {
    char magic[8];
    uint32_t version, key_bytes;
    uint64_t object_bytes;
    uint64_t checksum; /* of library, key and object */
    char library[32];  /* its version and fingerprint */
} head;
_Static_assert(sizeof(head) == 64, "a head has no padding");
/* behind it: the key, the object */

static struct { _Atomic int64_t hits, misses, writes, failed_writes, removed; } counts;

static head head_of(const void *key, size_t key_bytes, const void *object, size_t object_bytes) {
    head h = {.magic = {'h', 'o', 'd', 'u', 'c', 'o', 'd', 'e'},
              .version = VERSION,
              .key_bytes = (uint32_t)key_bytes,
              .object_bytes = object_bytes};
    snprintf(h.library, sizeof h.library, "%s %s", hd_version(), hd_compiler_fingerprint);
    h.checksum = hd_hash(object, object_bytes, hd_hash(key, key_bytes, hd_hash(h.library, sizeof h.library, 1)));
    return h;
}

/* <directory>/<128 bits in hexadecimal>.code; false when nothing is kept on disk. */
static bool path_of(const void *key, size_t key_bytes, char directory[HD_CACHE_PATH], char path[HD_CACHE_PATH]) {
    const size_t length = hd_cache_directory(directory, HD_CACHE_PATH);
    if (length == 0 || length >= HD_CACHE_PATH) return false;
    const uint64_t seed =
        hd_hash(hd_compiler_fingerprint, strlen(hd_compiler_fingerprint), 0); /* builds live side by side */
    const uint64_t high = hd_hash(key, key_bytes, seed), low = hd_hash(key, key_bytes, ~seed);
    return (size_t)snprintf(path, HD_CACHE_PATH, "%s/%016llx%016llx%s", directory, (unsigned long long)high,
                            (unsigned long long)low, HD_CACHE_SUFFIX) < HD_CACHE_PATH;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
static bool is_whole(const char *file, size_t bytes, const void *key, size_t key_bytes) {
    head h;
    memcpy(&h, file, sizeof h);
    if (h.key_bytes != key_bytes || h.object_bytes != bytes - sizeof h - key_bytes) return false;
    if (memcmp(file + sizeof h, key, key_bytes) != 0) return false;
    const head expected = head_of(key, key_bytes, file + sizeof h + key_bytes, (size_t)h.object_bytes);
    return memcmp(&h, &expected, sizeof h) == 0;
}

static void *read_entry(int descriptor, const void *key, size_t key_bytes, size_t *bytes) {
    hd_os_status status; /* machine code is run as it is: nobody else may have written it */
    if (!hd_os_status_of(descriptor, &status) || !status.is_regular || !status.is_safe) return NULL;
    const size_t size = (size_t)status.bytes, front = sizeof(head) + key_bytes;
    if (size <= front) return NULL;
    char *file = hd_array_resize(NULL, size);
    if (file == NULL) return NULL;
    if (!hd_os_read(descriptor, file, size) || !is_whole(file, size, key, key_bytes)) {
        hd_array_release(file);
        return NULL;
    }
    if (time(NULL) - status.changed / 1000000000 > TOUCH_SECONDS) hd_os_touch(descriptor);
    *bytes = size - front;
    memmove(file, file + front, *bytes);
    return file;
}

void *hd_cache_read(const void *key, size_t key_bytes, size_t *bytes) {
    char directory[HD_CACHE_PATH], path[HD_CACHE_PATH];
    if (!path_of(key, key_bytes, directory, path)) return NULL;
    void *object = NULL;
    const int descriptor = hd_os_open(HD_OS_HERE, path, HD_OS_READ | HD_OS_NO_LINK, 0);
    if (descriptor >= 0) {
        object = read_entry(descriptor, key, key_bytes, bytes);
        hd_os_close(descriptor);
    }
    atomic_fetch_add_explicit(object != NULL ? &counts.hits : &counts.misses, 1, memory_order_relaxed);
    return object;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */
static int create(const char *directory, const char *temporary) {
    enum { HOW = HD_OS_WRITE | HD_OS_NEW };
    const int descriptor = hd_os_open(HD_OS_HERE, temporary, HOW, 0600);
    if (descriptor >= 0 || errno != ENOENT || !hd_cache_make_directory(directory)) return descriptor;
    return hd_os_open(HD_OS_HERE, temporary, HOW, 0600);
}

static bool write_entry(const char *directory, const char *path, const void *key, size_t key_bytes, const void *object,
                        size_t bytes) {
    static _Atomic uint32_t number; /* with the process and the time: no two writers share a name */
    char temporary[HD_CACHE_PATH];
    const uint32_t mine = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed);
    if ((size_t)snprintf(temporary, sizeof temporary, "%s/%s%lx-%lx-%x", directory, HD_CACHE_TEMPORARY,
                         (long)hd_os_process(), (long)time(NULL), mine) >= sizeof temporary)
        return false;
    const int descriptor = create(directory, temporary);
    if (descriptor < 0) return false;
    const head h = head_of(key, key_bytes, object, bytes);
    bool written = hd_os_write(descriptor, &h, sizeof h) && hd_os_write(descriptor, key, key_bytes) &&
                   hd_os_write(descriptor, object, bytes);
    written = hd_os_close(descriptor) && written;
    if (written && rename(temporary, path) == 0) return true;
    hd_os_remove(temporary);
    return false;
}

void hd_cache_write(const void *key, size_t key_bytes, const void *object, size_t bytes) {
    char directory[HD_CACHE_PATH], path[HD_CACHE_PATH];
    const size_t all = sizeof(head) + key_bytes + bytes;
    if (key_bytes > UINT32_MAX || (int64_t)all > hd_cache_limit() || !path_of(key, key_bytes, directory, path)) return;
    if (!write_entry(directory, path, key, key_bytes, object, bytes)) {
        atomic_fetch_add_explicit(&counts.failed_writes, 1, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&counts.writes, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&counts.removed, hd_cache_grown(directory, all), memory_order_relaxed);
}

/* ---- the public side --------------------------------------------------------------------------------------------- */
hd_cache_stats hd_cache_info(void) {
    hd_cache_stats stats = {.disk_limit = hd_cache_limit(),
                            .hits = atomic_load(&counts.hits),
                            .misses = atomic_load(&counts.misses),
                            .writes = atomic_load(&counts.writes),
                            .failed_writes = atomic_load(&counts.failed_writes),
                            .removed = atomic_load(&counts.removed)};
    char directory[HD_CACHE_PATH];
    const size_t length = hd_cache_directory(directory, sizeof directory);
    if (length > 0 && length < sizeof directory) hd_cache_count(directory, &stats.disk_entries, &stats.disk_bytes);
    hd_code_count(&stats.kernels, &stats.code_bytes);
    return stats;
}

void hd_cache_clear(void) {
    hd_code_drop_unused();
    char directory[HD_CACHE_PATH];
    const size_t length = hd_cache_directory(directory, sizeof directory);
    if (length > 0 && length < sizeof directory) hd_cache_remove_all(directory);
}
