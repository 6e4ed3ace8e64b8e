/* Open files, and the home of constants that are still in one. */
#include "script/file.h"

#if HD_HAS_FILES

#include "core/os_file.h"

#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the elements of tensors in files are little endian; on this machine they would have to be turned around"
#endif

enum { CHUNK = 256 << 10 }; /* read and summed up while it is in the cache */

uint64_t hd_file_checksum(const void *bytes, size_t count) { return XXH64(bytes, count, 0); }

/* ---- the file ---------------------------------------------------------------------------------------------------- */
static void file_destroy(hd_thread *thread, hd_object *object) {
    hd_file *f = (hd_file *)object;
    if (f->map != NULL) hd_os_file_unmap(f->map, f->size);
    if (f->descriptor >= 0) hd_os_close(f->descriptor);
    pthread_mutex_destroy(&f->lock);
    hd_array_release(f->tensors);
    hd_array_release(f->path);
    hd_count(&thread->live_objects, -1);
    hd_array_release(f);
}
static const hd_kind file_kind = {.name = "file", .destroy = file_destroy};

hd_file *hd_file_open(hd_thread *thread, const char *path) {
    hd_file *f = hd_array_resize(NULL, sizeof *f);
    char *copy = hd_array_resize(NULL, strlen(path) + 1);
    if (f == NULL || copy == NULL) {
        hd_array_release(f);
        hd_array_release(copy);
        hd_fail(HD_ERROR_MEMORY, "no memory to open a file");
        return NULL;
    }
    *f = (hd_file){.descriptor = -1, .path = strcpy(copy, path)};
    hd_object_init(&f->object, &file_kind);
    hd_count(&thread->live_objects, 1);
    pthread_mutex_init(&f->lock, NULL);
    if (hd_file_open_to_read(f->path, &f->descriptor, &f->size) == HD_OK) return f;
    hd_file_release(thread, f);
    return NULL;
}

hd_error hd_file_map(hd_file *f) {
    f->map = hd_os_file_map(f->descriptor, f->size);
    return f->map != NULL ? HD_OK : hd_fail(HD_ERROR_STATE, "cannot be mapped: %s", strerror(errno));
}

hd_error hd_file_read(const hd_file *f, void *out, uint64_t offset, uint64_t bytes) {
    return hd_file_read_at(f->descriptor, out, bytes, offset);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */
static bool all_bools(const unsigned char *bytes, size_t count) {
    unsigned char all = 0;
    for (size_t i = 0; i < count; ++i) all |= bytes[i];
    return all <= 1;
}

/* The tensor's bytes into `out`, or, when that is NULL, only looked at in the map; verified. */
static hd_error read_tensor(const hd_file_tensor *t, unsigned char *out) {
    XXH64_state_t sum;
    XXH64_reset(&sum, 0);
    unsigned char padding[HD_FILE_ALIGN] = {0};
    bool bools = true;
    /* what follows is asked for in time: the disk works while this tensor is summed up, and while the next one is */
    hd_os_file_ask_ahead(t->file->descriptor, t->offset, 2 * t->bytes);
    for (uint64_t at = 0; at < t->bytes;) {
        const size_t n = t->bytes - at < CHUNK ? (size_t)(t->bytes - at) : CHUNK;
        const unsigned char *chunk = out == NULL ? t->file->map + t->offset + at : out + at;
        if (out != NULL) HD_TRY(hd_file_read(t->file, out + at, t->offset + at, n));
        XXH64_update(&sum, chunk, n);
        if (t->is_bool) bools = bools && all_bools(chunk, n);
        at += n;
    }
    const size_t rest = (size_t)(hd_file_padded(t->bytes) - t->bytes);
    HD_TRY(hd_file_read(t->file, padding, t->offset + t->bytes, rest));
    XXH64_update(&sum, padding, rest);
    if (XXH64_digest(&sum) != t->checksum)
        return hd_fail(HD_ERROR_VALUE, "is damaged: its checksum does not fit its bytes");
    return bools ? HD_OK : hd_fail(HD_ERROR_VALUE, "is a tensor of bool with bytes that are neither 0 nor 1");
}

/* ---- constants: read when they are first used -------------------------------------------------------------------- */
/* The storage keeps its home for good: threads that share it look at `ready`, never at fields that another one
 * changes. */
static hd_error read_constant(hd_thread *thread, hd_storage *s, const hd_file_tensor *t) {
    if (t->file->map != NULL) {
        hd_os_status status; /* one that was cut since would kill us below; later on nothing can be done */
        if (!hd_os_status_of(t->file->descriptor, &status) || status.bytes < t->offset + hd_file_padded(t->bytes))
            return hd_fail(HD_ERROR_VALUE, "is no longer in it: the file was cut");
        HD_TRY(read_tensor(t, NULL));
        s->data = (void *)(t->file->map + t->offset);
        return HD_OK;
    }
    hd_block *block = hd_block_new(thread, (size_t)t->bytes);
    if (block == NULL) return HD_ERROR_MEMORY;
    const hd_error status = read_tensor(t, hd_block_data(block));
    if (status != HD_OK) {
        hd_block_release(thread, block);
        return status;
    }
    s->block = block;
    s->data = hd_block_data(block);
    return HD_OK;
}

static hd_error file_fetch(hd_storage *s, hd_access access) {
    hd_file_tensor *t = s->home_state;
    if (access == HD_WRITE) return hd_fail(HD_ERROR_INTERNAL, "a constant of a script is to be written");
    if (atomic_load_explicit(&t->ready, memory_order_acquire)) return HD_OK;
    hd_thread *thread = hd_thread_self();
    HD_HOLD_ERRORS(thread);
    hd_error status = HD_OK;
    pthread_mutex_lock(&t->file->lock);
    if (!atomic_load_explicit(&t->ready, memory_order_relaxed)) {
        status = read_constant(thread, s, t);
        atomic_store_explicit(&t->ready, status == HD_OK, memory_order_release);
    }
    pthread_mutex_unlock(&t->file->lock);
    if (status != HD_OK)
        hd_file_reword(thread, HD_OK, "constant #%u (node %%%u) of \"%s\" ", t->number, t->node,
                       hd_file_short(t->file->path));
    return status;
}

static void file_leave(hd_storage *s) { hd_file_release(hd_thread_self(), ((hd_file_tensor *)s->home_state)->file); }

static const hd_home file_home = {.name = "file", .fetch = file_fetch, .leave = file_leave};

hd_storage *hd_file_constant(hd_thread *thread, hd_file_tensor *t) {
    if (t->bytes == 0) return hd_storage_new(thread, 0);
    hd_storage *s = hd_storage_elsewhere(thread, (size_t)t->bytes, &file_home, t);
    if (s != NULL) hd_object_retain(&t->file->object);
    return s;
}

hd_storage *hd_file_cell(hd_thread *thread, hd_file_tensor *t) {
    hd_storage *s = hd_storage_new(thread, (size_t)t->bytes);
    if (s == NULL || read_tensor(t, s->data) == HD_OK) return s;
    hd_object_release(thread, &s->object);
    return NULL;
}

#endif
