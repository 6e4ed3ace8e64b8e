/* Storages: making, borrowing, sharing and writing. */
#include "core/away.h"
#include "core/undo.h"

#include <string.h>

static char no_bytes[64]; /* what storages of zero bytes point to */

static void storage_destroy(hd_thread *thread, hd_object *object) {
    hd_storage *s = (hd_storage *)object;
    if (s->home != NULL) s->home->leave(s);
    if (s->block != NULL)
        hd_block_release(thread, s->block);
    else if (s->release != NULL) {
        HD_CALLBACK(thread);
        s->release(s->data != no_bytes ? s->data : NULL, s->release_user);
    }
    hd_header_recycle(thread, HD_HEADER_STORAGE, s);
}
static const hd_kind storage_kind = {.name = "storage", .destroy = storage_destroy};

static inline hd_storage *storage_header(hd_thread *thread, size_t bytes, void *data, hd_block *block) {
    hd_storage *s = hd_header_allocate(thread, HD_HEADER_STORAGE);
    if (s == NULL) return NULL;
    hd_object_init(&s->object, &storage_kind);
    s->bytes = bytes;
    s->data = data;
    s->block = block;
    s->home = NULL;
    s->release = NULL;
    atomic_store_explicit(&s->version, 0, memory_order_relaxed);
    atomic_store_explicit(&s->changes, 0, memory_order_relaxed);
    s->noted = 0;
    s->made = thread->undo != NULL ? thread->undo->number : 0;
    s->device = hd_cpu();
    return s;
}

hd_storage *hd_storage_new(hd_thread *thread, size_t bytes) {
    if (bytes == 0) return storage_header(thread, 0, no_bytes, NULL);
    hd_block *block = hd_block_new(thread, bytes);
    if (block == NULL) return NULL;
    hd_storage *s = storage_header(thread, bytes, hd_block_data(block), block);
    if (s == NULL) hd_block_release(thread, block);
    return s;
}

hd_storage *hd_storage_elsewhere(hd_thread *thread, size_t bytes, const hd_home *home, void *state) {
    hd_storage *s = storage_header(thread, bytes, no_bytes, NULL);
    if (s == NULL) return NULL;
    s->home = home;
    s->home_state = state;
    return s;
}

hd_storage *hd_storage_borrow(hd_thread *thread, void *data, size_t bytes, void (*release)(void *, void *),
                              void *user) {
    hd_storage *s =
        storage_header(thread, bytes, data != NULL ? data : no_bytes, NULL); /* NULL would read as a failure */
    if (s == NULL) return NULL;
    s->release = release;
    s->release_user = user;
    return s;
}

/* ---- the home of bytes that are there to be read ----------------------------------------------------------------- */
static hd_error to_read_fetch(hd_storage *s, hd_access access) {
    if (access == HD_READ) return HD_OK; /* they are where s->data says, for any number of threads */
    hd_thread *thread = hd_thread_self();
    hd_block *own = hd_block_new(thread, s->bytes > 0 ? s->bytes : 1);
    if (own == NULL) return HD_ERROR_MEMORY;
    memcpy(hd_block_data(own), s->data, s->bytes);
    void *lent = s->data;
    s->block = own;
    s->data = hd_block_data(own);
    s->home = NULL;
    if (s->release == NULL) return HD_OK;
    HD_CALLBACK(thread);
    s->release(lent, s->release_user);
    s->release = NULL;
    return HD_OK;
}
static void to_read_leave(hd_storage *s) { (void)s; } /* they are given back as all that is borrowed */
static const hd_home to_read_home = {.name = "file", .fetch = to_read_fetch, .leave = to_read_leave};

hd_storage *hd_storage_borrow_to_read(hd_thread *thread, const void *data, size_t bytes,
                                      void (*release)(void *, void *), void *user) {
    hd_storage *s = hd_storage_borrow(thread, (void *)(uintptr_t)data, bytes, release, user);
    if (s != NULL) {
        s->home = &to_read_home;
        s->home_state = NULL;
    }
    return s;
}

hd_error hd_storage_fetch(hd_thread *thread, hd_storage *s, hd_access access) {
    hd_executor *executor = thread->executor;
    if (executor->reads != NULL) HD_TRY(executor->reads(executor, s));
    return s->home->fetch(s, access);
}

hd_storage *hd_storage_snapshot(hd_thread *thread, hd_storage *storage) {
    if (hd_storage_is_away(storage)) return hd_away_share(thread, storage);
    void *data = hd_storage_bytes(thread, storage, HD_READ);
    if (data == NULL) return NULL;
    if (storage->block != NULL) {
        hd_storage *shared = storage_header(thread, storage->bytes, data, storage->block);
        if (shared != NULL) atomic_fetch_add_explicit(&storage->block->references, 1, memory_order_relaxed);
        return shared;
    }
    hd_storage *copy = hd_storage_new(thread, storage->bytes); /* borrowed memory may change under us: copy it */
    if (copy != NULL) memcpy(copy->data, data, storage->bytes);
    return copy;
}

hd_error hd_storage_prepare_write(hd_thread *thread, hd_storage *s, hd_access access) {
    if (__builtin_expect(thread->undo != NULL, 0)) HD_TRY(hd_undo_note(thread->undo, s));
    hd_storage_changed(s);
    if (__builtin_expect(hd_storage_is_away(s), 0)) {
        hd_away_written_here(s);
        return HD_OK;
    }
    if (s->block == NULL || atomic_load_explicit(&s->block->references, memory_order_acquire) == 1) return HD_OK;
    hd_block *own = hd_block_new(thread, s->bytes);
    if (own == NULL) return HD_ERROR_MEMORY;
    if (access != HD_OVERWRITE) memcpy(hd_block_data(own), s->data, s->bytes);
    hd_block_release(thread, s->block);
    s->block = own;
    s->data = hd_block_data(own);
    return HD_OK;
}
