/* Storages on devices: the home that keeps them there. */
#include "core/away.h"
#include "core/undo.h"

#include <string.h>

/* ---- copies ------------------------------------------------------------------------------------------------------ */
void hd_away_copy_init(hd_away_copy *c) {
    *c = (hd_away_copy){.block = NULL};
    pthread_mutex_init(&c->lock, NULL);
}
void hd_away_copy_forget(hd_thread *thread, hd_away_copy *c) {
    if (c->block != NULL) hd_block_release(thread, c->block);
    c->block = NULL;
    c->here = false;
}
void hd_away_copy_release(hd_thread *thread, hd_away_copy *c) {
    hd_away_copy_forget(thread, c);
    pthread_mutex_destroy(&c->lock);
}

hd_block *hd_away_copy_new(hd_thread *thread, hd_storage *s, hd_error (*read)(hd_storage *s, void *out)) {
    hd_block *block = hd_block_new(thread, s->bytes > 0 ? s->bytes : 1);
    if (block == NULL || read(s, hd_block_data(block)) == HD_OK) return block;
    hd_block_release(thread, block);
    return NULL;
}

static hd_error make_readable(hd_thread *thread, hd_storage *s, hd_away_copy *c,
                              hd_error (*map)(hd_storage *s, void **out), hd_error (*read)(hd_storage *s, void *out)) {
    void *data = NULL;
    if (c->here) return HD_OK;
    if (map != NULL) HD_TRY(map(s, &data));
    if (data == NULL) {
        if (c->block == NULL) c->block = hd_away_copy_new(thread, s, read);
        if (c->block == NULL) return thread->error_code;
        data = hd_block_data(c->block);
    }
    s->data = data;
    c->here = true;
    return HD_OK;
}
hd_error hd_away_copy_fetch(hd_thread *thread, hd_storage *s, hd_away_copy *c,
                            hd_error (*map)(hd_storage *s, void **out), hd_error (*read)(hd_storage *s, void *out)) {
    pthread_mutex_lock(&c->lock);
    const hd_error status = make_readable(thread, s, c, map, read);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* ---- the home of storages on devices ----------------------------------------------------------------------------- */
typedef struct away {
    hd_away_copy copy;
    bool is_newer; /* the copy was written, and the block was not since */
} away;
static away *away_of(const hd_storage *s) { return s->home_state; }

static hd_error copy_bytes(hd_thread *thread, hd_address to, hd_address from, size_t bytes) {
    if (bytes == 0) return HD_OK;
    const hd_device device = hd_device_is_away(from.device) ? from.device : to.device;
    if (!hd_device_is_away(from.device) || !hd_device_is_away(to.device) || hd_device_equal(from.device, to.device))
        return hd_device_interface_of(device.kind)->copy(thread, to, from, bytes);
    hd_block *between = hd_block_new(thread, bytes); /* devices do not know each other */
    if (between == NULL) return thread->error_code;
    const hd_address host = {hd_cpu(), hd_block_data(between)};
    hd_error status = hd_device_interface_of(from.device.kind)->copy(thread, host, from, bytes);
    if (status == HD_OK) status = hd_device_interface_of(to.device.kind)->copy(thread, to, host, bytes);
    hd_block_release(thread, between);
    return status;
}
static hd_address here(void *pointer) { return (hd_address){hd_cpu(), pointer}; }
static hd_address there(const hd_storage *s) { return (hd_address){s->device, s->block->address}; }

static hd_error read_block(hd_storage *s, void *out) {
    return copy_bytes(hd_thread_self(), here(out), there(s), s->bytes);
}

static hd_error away_fetch(hd_storage *s, hd_access access) {
    hd_thread *thread = hd_thread_self();
    (void)access; /* hd_away_written_here follows, when it is a write */
    return hd_away_copy_fetch(thread, s, &away_of(s)->copy, NULL, read_block);
}
static void away_leave(hd_storage *s) {
    hd_thread *thread = hd_thread_self();
    hd_away_copy_release(thread, &away_of(s)->copy);
    hd_array_release(away_of(s));
    s->home = NULL;
}
static const hd_home away_home = {.name = "device", .on_device = true, .fetch = away_fetch, .leave = away_leave};

static hd_error lent_fetch(hd_storage *s, hd_access access) {
    (void)access;
    return hd_fail(HD_ERROR_INTERNAL, "%zu bytes of a plan's memory on a device are wanted on the host", s->bytes);
}
static void lent_leave(hd_storage *s) { s->home = NULL; }
const hd_home hd_lent_home = {.name = "plan", .on_device = true, .fetch = lent_fetch, .leave = lent_leave};

/* ---- storages ---------------------------------------------------------------------------------------------------- */
/* A storage over a block, of which it takes the reference; NULL with an error, and the block is released. */
static hd_storage *over_block(hd_thread *thread, hd_block *block, size_t bytes) {
    away *a = hd_array_resize(NULL, sizeof *a);
    hd_storage *s = NULL;
    if (a == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a tensor on a device");
    } else {
        hd_away_copy_init(&a->copy);
        a->is_newer = false;
        s = hd_storage_elsewhere(thread, bytes, &away_home, a);
    }
    if (s == NULL) {
        if (a != NULL) hd_away_copy_release(thread, &a->copy);
        hd_array_release(a);
        hd_block_release(thread, block);
        return NULL;
    }
    s->block = block;
    s->device = block->device;
    return s;
}

hd_storage *hd_storage_new_on(hd_thread *thread, hd_device device, size_t bytes) {
    if (!hd_device_is_away(device)) return hd_storage_new(thread, bytes);
    hd_calls_routed = true;
    hd_block *block = hd_device_interface_of(device.kind)->allocate(thread, device.index, bytes > 0 ? bytes : 1);
    return block == NULL ? NULL : over_block(thread, block, bytes);
}

hd_tensor *hd_tensor_new_on(hd_thread *thread, hd_device device, hd_dtype dtype, const hd_shape *shape) {
    int64_t count;
    hd_layout layout;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    hd_storage *s = hd_storage_new_on(thread, device, (size_t)count * hd_dtype_bytes[dtype]);
    if (s == NULL) return NULL;
    hd_layout_contiguous(&layout, shape);
    hd_tensor *t = hd_tensor_over(thread, s, dtype, &layout);
    hd_object_release(thread, &s->object);
    return t;
}

void hd_away_written_here(hd_storage *s) { away_of(s)->is_newer = true; } /* writers are alone */

/* A block of its own for a storage that shares it and is about to be written; with the bytes of before, or any. */
static hd_error own_block(hd_thread *thread, hd_storage *s, bool keep) {
    if (atomic_load_explicit(&s->block->references, memory_order_acquire) == 1) return HD_OK;
    const hd_device device = s->device;
    hd_block *own = hd_device_interface_of(device.kind)->allocate(thread, device.index, s->bytes > 0 ? s->bytes : 1);
    if (own == NULL) return thread->error_code;
    const hd_error status = keep ? copy_bytes(thread, (hd_address){device, own->address}, there(s), s->bytes) : HD_OK;
    hd_block_release(thread, status == HD_OK ? s->block : own);
    if (status == HD_OK) s->block = own;
    return status;
}

static hd_error bring_up_to_date(hd_thread *thread, hd_storage *s) {
    if (!away_of(s)->is_newer) return HD_OK;
    HD_TRY(own_block(thread, s, false)); /* the others keep the old bytes */
    HD_TRY(copy_bytes(thread, there(s), here(s->data), s->bytes));
    away_of(s)->is_newer = false;
    return HD_OK;
}

hd_block *hd_away_block(hd_thread *thread, hd_storage *s) {
    pthread_mutex_lock(&away_of(s)->copy.lock);
    const hd_error status = bring_up_to_date(thread, s);
    pthread_mutex_unlock(&away_of(s)->copy.lock);
    return status == HD_OK ? s->block : NULL;
}

void *hd_storage_address(hd_thread *thread, hd_storage *s, hd_access access) {
    if (s->home == &hd_lent_home) return s->data;
    if (hd_away_block(thread, s) == NULL) return NULL;
    if (access == HD_READ) return s->block->address;
    if (thread->undo != NULL && hd_undo_note(thread->undo, s) != HD_OK) return NULL;
    if (own_block(thread, s, access == HD_WRITE) != HD_OK) return NULL;
    hd_storage_changed(s);
    hd_away_copy_forget(thread, &away_of(s)->copy);
    return s->block->address;
}

void hd_away_exchange(hd_storage *s, hd_block **block) {
    hd_block *before = s->block;
    s->block = *block;
    *block = before;
    away_of(s)->is_newer = false;
    hd_away_copy_forget(hd_thread_self(), &away_of(s)->copy);
}

hd_storage *hd_away_share(hd_thread *thread, hd_storage *s) {
    hd_block *block = hd_away_block(thread, s);
    if (block == NULL) return NULL;
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return over_block(thread, block, s->bytes);
}

static hd_error address_of(hd_thread *thread, hd_storage *s, hd_access access, hd_address *out) {
    *out = hd_storage_is_away(s) ? (hd_address){s->device, hd_storage_address(thread, s, access)}
                                 : here(hd_storage_bytes(thread, s, access));
    return out->pointer == NULL ? thread->error_code : HD_OK;
}

hd_error hd_storage_copy(hd_thread *thread, hd_storage *to, hd_storage *from, size_t offset, size_t bytes) {
    hd_address source, target;
    if (bytes == 0) return HD_OK;
    HD_TRY(address_of(thread, from, HD_READ, &source));
    HD_TRY(address_of(thread, to, HD_OVERWRITE, &target));
    source.pointer = (char *)source.pointer + offset;
    if (hd_device_is_away(source.device) || hd_device_is_away(target.device))
        return copy_bytes(thread, target, source, bytes);
    memcpy(target.pointer, source.pointer, bytes);
    return HD_OK;
}

hd_error hd_storage_fill(hd_thread *thread, hd_storage *s, const void *element, size_t size) {
    const hd_device_interface *interface = hd_device_interface_of(s->device.kind);
    if (s->bytes == 0) return HD_OK;
    if (s->home == &hd_lent_home)
        return interface->fill(thread, (hd_address){s->device, s->data}, element, size, s->bytes / size);
    if (thread->undo != NULL) HD_TRY(hd_undo_note(thread->undo, s));
    const bool shared = atomic_load_explicit(&s->block->references, memory_order_acquire) > 1;
    hd_block *block = shared ? interface->allocate(thread, s->device.index, s->bytes) : s->block;
    if (block == NULL) return thread->error_code;
    const hd_error status =
        interface->fill(thread, (hd_address){s->device, block->address}, element, size, s->bytes / size);
    if (status != HD_OK) { /* others may have the old bytes, and so does the storage */
        if (shared) hd_block_release(thread, block);
        return status;
    }
    if (shared) hd_block_release(thread, s->block);
    s->block = block;
    away_of(s)->is_newer = false;
    hd_away_copy_forget(thread, &away_of(s)->copy);
    hd_storage_changed(s);
    return HD_OK;
}

void hd_away_set_copy(hd_thread *thread, hd_storage *s, hd_block *block) {
    hd_away_copy *c = &away_of(s)->copy;
    if (c->block != NULL) hd_block_release(thread, c->block);
    c->block = block;
    c->here = true;
    s->data = hd_block_data(block);
    hd_away_written_here(s);
}

hd_error hd_tensor_lend(hd_thread *thread, hd_tensor *there, const hd_tensor *t) {
    hd_storage *to = there->storage, *from = t->storage;
    if (!hd_storage_is_away(to) || from->home != NULL || from->block == NULL || t->layout.offset != 0)
        return hd_storage_copy(thread, to, from, (size_t)t->layout.offset * hd_dtype_bytes[t->dtype], to->bytes);
    atomic_fetch_add_explicit(&from->block->references, 1, memory_order_relaxed);
    hd_away_set_copy(thread, to, from->block);
    return HD_OK;
}

hd_tensor *hd_tensor_moved(hd_thread *thread, const hd_tensor *t, hd_device device) {
    const size_t element = hd_dtype_bytes[t->dtype];
    hd_tensor *there = hd_tensor_new_on(thread, device, (hd_dtype)t->dtype, &t->layout.shape);
    if (there == NULL || hd_storage_copy(thread, there->storage, t->storage, (size_t)t->layout.offset * element,
                                         (size_t)t->count * element) == HD_OK)
        return there;
    hd_tensor_drop(thread, there);
    return NULL;
}
