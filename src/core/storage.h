/* Storages: the bytes tensors look at. All access by the host goes through hd_storage_bytes, which may fail: the bytes
 * may have their home elsewhere (a device, a script's state, a file not yet read), or be shared until somebody
 * writes. */
#ifndef HD_CORE_STORAGE_H
#define HD_CORE_STORAGE_H

#include "core/memory.h"
#include "core/object.h"

typedef struct hd_storage hd_storage;

/* HD_OVERWRITE: all bytes are written, and nothing can go wrong before that is done. */
typedef enum hd_access { HD_READ, HD_WRITE, HD_OVERWRITE } hd_access;

/* A home keeps a storage's bytes. `fetch` makes storage->data valid for the access, or fails with an error; it may
 * end the home by clearing storage->home; it is told HD_READ or HD_WRITE. `leave` is called once, when the storage
 * goes or gives up its home. */
typedef struct hd_home {
    const char *name;
    bool captured;  /* there are no bytes: a value of a graph that has not run */
    bool on_device; /* they are in the memory of storage->device, which is not the CPU: core/away.h */
    hd_error (*fetch)(hd_storage *storage, hd_access access);
    void (*leave)(hd_storage *storage);
} hd_home;

struct hd_storage {
    hd_object object;
    size_t bytes;
    void *data;          /* where the bytes are, unless `home` keeps them elsewhere */
    hd_block *block;     /* what owns data; NULL when borrowed */
    const hd_home *home; /* NULL: here */
    void *home_state;
    void (*release)(void *data, void *user); /* of borrowed bytes */
    void *release_user;
    _Atomic uint32_t version; /* raised by every write; a tape compares it. Recorded ones are taken back */
    _Atomic uint32_t changes; /* of the bytes: never taken back, for whoever keeps them in another form */
    uint64_t noted;           /* the last hd_undo that keeps what its bytes were */
    uint64_t made;            /* the hd_undo that was under way when it was made; 0: none */
    hd_device device;
};
_Static_assert(sizeof(hd_storage) <= HD_HEADER_STORAGE_BYTES, "a storage fits its header");
static inline bool hd_storage_is_away(const hd_storage *s) { return s->home != NULL && s->home->on_device; }

/* New bytes, undefined; NULL with an error when there is no memory. */
hd_storage *hd_storage_new(hd_thread *thread, size_t bytes);
/* Bytes that are elsewhere. */
hd_storage *hd_storage_elsewhere(hd_thread *thread, size_t bytes, const hd_home *home, void *state);
/* Borrowed bytes. */
hd_storage *hd_storage_borrow(hd_thread *thread, void *data, size_t bytes, void (*release)(void *, void *), void *user);
/* Borrowed bytes that must not be written: whoever writes the storage gives it bytes of its own first, a copy, and gives
 * these back. */
hd_storage *hd_storage_borrow_to_read(hd_thread *thread, const void *data, size_t bytes,
                                      void (*release)(void *, void *), void *user);
/* A storage with the same bytes that shares memory until one of the two is written. */
hd_storage *hd_storage_snapshot(hd_thread *thread, hd_storage *storage);
/* To be said by whoever changes the bytes otherwise. */
static inline void hd_storage_changed(hd_storage *s) {
    atomic_fetch_add_explicit(&s->version, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->changes, 1, memory_order_relaxed);
}
hd_error hd_storage_prepare_write(hd_thread *thread, hd_storage *storage, hd_access access);

/* Brings the bytes of a storage with a home. */
hd_error hd_storage_fetch(hd_thread *thread, hd_storage *storage, hd_access access);
/* The bytes, valid for the access; NULL with an error when they cannot be had. */
static inline void *hd_storage_bytes(hd_thread *thread, hd_storage *s, hd_access access) {
    if (__builtin_expect(s->home != NULL, 0) &&
        hd_storage_fetch(thread, s, access == HD_READ ? HD_READ : HD_WRITE) != HD_OK)
        return NULL;
    if (access != HD_READ && hd_storage_prepare_write(thread, s, access) != HD_OK) return NULL;
    return s->data;
}

#endif
