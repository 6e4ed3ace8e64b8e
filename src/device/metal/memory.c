/* Memory of Metal's devices: buffers that the host shares, in a heap (device/heap.h), copies and fills. The host
 * reaches what is in them once the queue is done with it. */
#include "device/metal/driver.h"

#include <string.h>

enum {
    STAGED_MOST = 1 << 16, /* bytes that are copied twice rather than waited for the queue */
    UNIT = 4,              /* macOS encodes copies and fills of so many bytes, and multiples of them */
    COPY_MOST = 1 << 30    /* bytes of one encoded copy: more than 4 GB are known to be cut */
};

hd_error hd_metal_find(const hd_metal_device *d, const void *address, size_t bytes, hd_objc_object **buffer,
                       size_t *offset) {
    void *found = NULL;
    const hd_error status = hd_heap_find(&d->heap, address, bytes, &found, offset);
    *buffer = found;
    return status;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
static hd_objc_object *ask_for(hd_metal_device *d, size_t bytes) {
    if (!hd_heap_reserve(&d->heap, bytes)) return NULL;
    void *pool = hd_objc.pool_push();
    hd_objc_object *buffer = HD_SEND_WITH(d->handle, new_buffer, bytes, HD_MTL_STORAGE_SHARED);
    hd_objc.pool_pop(pool);
    if (buffer == NULL) hd_heap_unreserve(&d->heap, bytes);
    return buffer;
}

/* Only when the queue is done is what was released free. */
static void *make_buffer(void *device, size_t bytes, size_t asked) {
    hd_metal_device *d = device;
    hd_objc_object *buffer = ask_for(d, bytes);
    if (buffer != NULL) return buffer;
    hd_heap_trim(&d->heap);
    HD_TRY_OR(hd_metal_wait(d), NULL);
    buffer = ask_for(d, bytes);
    if (buffer == NULL) hd_heap_fail(&d->heap, asked, "newBufferWithLength gives nil, or would");
    return buffer;
}

static void release_buffer(void *device, void *buffer) {
    (void)device;
    void *pool = hd_objc.pool_push();
    HD_SEND(buffer, release);
    hd_objc.pool_pop(pool);
}

void hd_metal_begin_heap(hd_metal_device *d) {
    d->heap.device = d->device;
    d->heap.owner = d;
    d->heap.make = make_buffer;
    d->heap.release = release_buffer;
    d->heap.is_here = hd_metal_is_here;
    hd_heap_begin(&d->heap);
}

hd_block *hd_metal_allocate(hd_thread *thread, int index, size_t bytes) {
    (void)thread;
    hd_metal_device *d = hd_metal_device_at(index);
    if (d == NULL) return NULL;
    if (hd_heap_could_hold(&d->heap, bytes)) return hd_heap_allocate(&d->heap, bytes);
    hd_heap_fail(&d->heap, bytes, "it is larger than maxBufferLength");
    return NULL;
}

void hd_metal_recycle(hd_thread *thread, hd_block *block) {
    (void)thread;
    hd_heap_recycle(block, hd_metal_is_here());
}

/* ---- the host's side --------------------------------------------------------------------------------------------- */
/* Where the host sees an address; the queue must be done with it. */
static hd_error seen_at(const hd_metal_device *d, const void *address, size_t bytes, char **out) {
    hd_objc_object *buffer;
    size_t offset;
    HD_TRY(hd_metal_find(d, address, bytes, &buffer, &offset));
    char *contents = HD_SEND(buffer, contents);
    if (contents == NULL) return hd_metal_gave_nil(d, "contents", "its buffers are not the host's to read");
    *out = contents + offset;
    return HD_OK;
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */
static hd_error encode_copy(hd_metal_device *d, hd_objc_object *from, size_t at, hd_objc_object *to, size_t into,
                            size_t bytes) {
    void *pool = hd_objc.pool_push();
    pthread_mutex_lock(&d->lock);
    hd_objc_object *encoder = hd_metal_encoder(d, HD_METAL_COPIES);
    for (size_t done = 0; encoder != NULL && done < bytes; done += COPY_MOST) {
        const size_t part = bytes - done < COPY_MOST ? bytes - done : COPY_MOST;
        HD_SEND_WITH(encoder, copy, from, at + done, to, into + done, part);
    }
    const hd_error status = encoder == NULL ? HD_ERROR_DEVICE : hd_metal_enqueued(d);
    pthread_mutex_unlock(&d->lock);
    hd_objc.pool_pop(pool);
    return status;
}

static hd_error encode_fill(hd_metal_device *d, hd_objc_object *buffer, size_t offset, size_t bytes, uint8_t byte) {
    void *pool = hd_objc.pool_push();
    pthread_mutex_lock(&d->lock);
    hd_objc_object *encoder = hd_metal_encoder(d, HD_METAL_COPIES);
    if (encoder != NULL) HD_SEND_WITH(encoder, fill, buffer, ((hd_ns_range){offset, bytes}), byte);
    const hd_error status = encoder == NULL ? HD_ERROR_DEVICE : hd_metal_enqueued(d);
    pthread_mutex_unlock(&d->lock);
    hd_objc.pool_pop(pool);
    return status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static hd_error read_from(hd_metal_device *d, void *to, const void *from, size_t bytes) {
    char *seen = NULL;
    HD_TRY(hd_metal_wait(d));
    HD_TRY(seen_at(d, from, bytes, &seen));
    memcpy(to, seen, bytes);
    return HD_OK;
}

/* Through a buffer of its own, which the batch keeps; false: there is no memory for that, or it cannot be encoded. */
static bool is_staged(hd_metal_device *d, hd_objc_object *to, size_t into, const void *from, size_t bytes,
                      hd_error *status) {
    if (bytes > STAGED_MOST || bytes % UNIT != 0 || into % UNIT != 0) return false;
    void *pool = hd_objc.pool_push();
    hd_objc_object *between = HD_SEND_WITH(d->handle, new_buffer_of, from, bytes, HD_MTL_STORAGE_SHARED);
    if (between != NULL) *status = encode_copy(d, between, 0, to, into, bytes);
    if (between != NULL) HD_SEND(between, release);
    hd_objc.pool_pop(pool);
    return between != NULL;
}

/* A few bytes, such as numbers of a program, do not wait for what is under way. */
static hd_error write_to(hd_metal_device *d, void *to, const void *from, size_t bytes) {
    hd_objc_object *buffer;
    size_t offset;
    char *seen = NULL;
    hd_error status;
    HD_TRY(hd_metal_find(d, to, bytes, &buffer, &offset));
    const bool is_idle = hd_metal_is_idle(d);
    if (!is_idle && is_staged(d, buffer, offset, from, bytes, &status)) return status;
    HD_TRY(hd_metal_wait(d));
    HD_TRY(seen_at(d, to, bytes, &seen));
    memcpy(seen, from, bytes);
    return HD_OK;
}

/* What cannot be encoded: ranges that overlap, and that are not in units. */
static hd_error move_here(hd_metal_device *d, void *to, const void *from, size_t bytes) {
    char *source = NULL, *target = NULL;
    HD_TRY(hd_metal_wait(d));
    HD_TRY(seen_at(d, from, bytes, &source));
    HD_TRY(seen_at(d, to, bytes, &target));
    memmove(target, source, bytes);
    return HD_OK;
}

static hd_error copy_within(hd_metal_device *d, void *to, const void *from, size_t bytes) {
    hd_objc_object *source, *target;
    size_t at, into;
    HD_TRY(hd_metal_find(d, from, bytes, &source, &at));
    HD_TRY(hd_metal_find(d, to, bytes, &target, &into));
    if (source == target && at == into) return HD_OK;
    const bool overlap = source == target && at < into + bytes && into < at + bytes;
    if (overlap || (at | into | bytes) % UNIT != 0) return move_here(d, to, from, bytes);
    return encode_copy(d, source, at, target, into, bytes);
}

static hd_error copy_between(hd_metal_device *a, hd_metal_device *b, void *to, const void *from, size_t bytes) {
    char *seen = NULL;
    HD_TRY(hd_metal_wait(a));
    HD_TRY(seen_at(a, from, bytes, &seen));
    return write_to(b, to, seen, bytes);
}

hd_error hd_metal_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes) {
    hd_metal_device *a = NULL, *b = NULL;
    if (bytes == 0) return HD_OK;
    if (from.device.kind == HD_DEVICE_METAL && (a = hd_metal_device_at(from.device.index)) == NULL)
        return thread->error_code;
    if (to.device.kind == HD_DEVICE_METAL && (b = hd_metal_device_at(to.device.index)) == NULL)
        return thread->error_code;
    if (a == NULL && b == NULL) return hd_fail(HD_ERROR_INTERNAL, "a copy of Metal's without a device of Metal's");
    if (a == NULL) return write_to(b, to.pointer, from.pointer, bytes);
    if (b == NULL) return read_from(a, to.pointer, from.pointer, bytes);
    return a == b ? copy_within(a, to.pointer, from.pointer, bytes)
                  : copy_between(a, b, to.pointer, from.pointer, bytes);
}

/* ---- fills ------------------------------------------------------------------------------------------------------- */
static void repeat(char *out, const void *element, size_t size, size_t count) {
    for (size_t i = 0; i < count; ++i) memcpy(out + i * size, element, size);
}

static bool is_one_byte(const unsigned char *element, size_t size) {
    for (size_t i = 1; i < size; ++i)
        if (element[i] != element[0]) return false;
    return true;
}

/* Metal fills with a byte alone. */
static hd_error fill_here(hd_thread *thread, hd_metal_device *d, void *to, const void *element, size_t size,
                          size_t count) {
    char *seen = NULL;
    if (size * count > STAGED_MOST) {
        HD_TRY(hd_metal_wait(d));
        HD_TRY(seen_at(d, to, size * count, &seen));
        repeat(seen, element, size, count);
        return HD_OK;
    }
    hd_block *here = hd_block_new(thread, size * count);
    if (here == NULL) return thread->error_code;
    repeat(hd_block_data(here), element, size, count);
    const hd_error status = write_to(d, to, hd_block_data(here), size * count);
    hd_block_release(thread, here);
    return status;
}

hd_error hd_metal_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count) {
    hd_objc_object *buffer;
    size_t offset;
    if (count == 0) return HD_OK;
    hd_metal_device *d = hd_metal_device_at(to.device.index);
    if (d == NULL) return thread->error_code;
    HD_TRY(hd_metal_find(d, to.pointer, size * count, &buffer, &offset));
    if (is_one_byte(element, size) && (offset | size * count) % UNIT == 0)
        return encode_fill(d, buffer, offset, size * count, *(const unsigned char *)element);
    return fill_here(thread, d, to.pointer, element, size, count);
}
