/* Storages on a device other than the CPU: their bytes are in a block of its memory, and come here when somebody looks.
 * What is written here goes there when the device next needs it. */
#ifndef HD_CORE_AWAY_H
#define HD_CORE_AWAY_H

#include "core/device.h"

#include <pthread.h>

static inline bool hd_device_is_away(hd_device device) { return device.kind != HD_DEVICE_CPU; }
static inline bool hd_device_equal(hd_device a, hd_device b) { return a.kind == b.kind && a.index == b.index; }

/* True for a number: a tensor of the host whose memory has one element, also when it is stretched. It is an operand of
 * calls on every device. An element of a larger tensor is none. */
static inline bool hd_tensor_is_number(const hd_tensor *t) {
    return t->storage->bytes == hd_dtype_bytes[t->dtype] && !hd_storage_is_away(t->storage);
}

/* The home of a header over memory of a device that somebody else owns, as plans have them: storage->data is the
 * address there. The host has no way to it but hd_storage_copy. */
extern const hd_home hd_lent_home;

/* New bytes on a device, undefined; NULL with an error. */
hd_storage *hd_storage_new_on(hd_thread *thread, hd_device device, size_t bytes);
/* The same, with a tensor over it. */
hd_tensor *hd_tensor_new_on(hd_thread *thread, hd_device device, hd_dtype dtype, const hd_shape *shape);
/* The elements of a contiguous tensor in new memory of a device; a reference that is the caller's. */
hd_tensor *hd_tensor_moved(hd_thread *thread, const hd_tensor *t, hd_device device);
/* Gives all of `there`, a new tensor of a device, the elements of a tensor of the host that nobody writes any more.
 * What is plain memory is lent, to be copied when the device needs it, and cannot fail. */
hd_error hd_tensor_lend(hd_thread *thread, hd_tensor *there, const hd_tensor *t);
/* Where the device that has a storage finds its bytes, valid for the access; NULL with an error. */
void *hd_storage_address(hd_thread *thread, hd_storage *storage, hd_access access);
/* Sets all elements of a storage on a device to one of `size` bytes: 1, 2, 4 or 8. */
hd_error hd_storage_fill(hd_thread *thread, hd_storage *storage, const void *element, size_t size);
/* So many bytes, from an offset on, of one storage into all of another, wherever they are. */
hd_error hd_storage_copy(hd_thread *thread, hd_storage *to, hd_storage *from, size_t offset, size_t bytes);
/* The block that has the bytes of a storage on a device, up to date; NULL with an error. */
hd_block *hd_away_block(hd_thread *thread, hd_storage *storage);
/* Exchanges that block; what was copied here is stale. */
void hd_away_exchange(hd_storage *storage, hd_block **block);
/* Another storage over the same block. */
hd_storage *hd_away_share(hd_thread *thread, hd_storage *storage);
/* Whoever has fetched the bytes writes them now: they go back when the device next needs them. */
void hd_away_written_here(hd_storage *storage);

/* The bytes are those of a block of the host from now on, of which it takes the reference: they go there when the
 * device next needs them. */
void hd_away_set_copy(hd_thread *thread, hd_storage *storage, hd_block *block);

/* ---- by_copy.c: what a device has no code for, on the CPU with copies ---- */
hd_error hd_run_by_copy(hd_thread *thread, hd_call *call, hd_device device);
hd_error hd_write_by_copy(hd_thread *thread, hd_tensor *dst, hd_tensor *src);

/* ---- a copy of bytes that are elsewhere: the first part of a home's state ---- */
typedef struct hd_away_copy {
    pthread_mutex_t lock; /* two threads may read at once */
    hd_block *block;      /* NULL: none */
    bool here;            /* storage->data are the bytes */
} hd_away_copy;
void hd_away_copy_init(hd_away_copy *c);
void hd_away_copy_release(hd_thread *thread, hd_away_copy *c);
/* The bytes are elsewhere again, and others. */
void hd_away_copy_forget(hd_thread *thread, hd_away_copy *c);
/* A new copy of a storage's bytes, which `read` brings; NULL with an error. */
hd_block *hd_away_copy_new(hd_thread *thread, hd_storage *s, hd_error (*read)(hd_storage *s, void *out));
/* Makes the bytes readable at storage->data. Under its lock. `map`, which may be NULL, says where they can be read as
 * they lie; *out NULL: nowhere. */
hd_error hd_away_copy_fetch(hd_thread *thread, hd_storage *s, hd_away_copy *c,
                            hd_error (*map)(hd_storage *s, void **out), hd_error (*read)(hd_storage *s, void *out));

#endif
