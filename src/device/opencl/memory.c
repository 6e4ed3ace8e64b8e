/* Memory of OpenCL devices. OpenCL has memory objects, and no addresses: an address is made up of the number of the
 * object in a table and an offset, in a range that no process maps. So an address anywhere in a block is found at once.
 * Objects that nobody uses are cached by size class, and given out again without waiting: the queue is in order. */
#include "device/opencl/driver.h"

#include <stdio.h>
#include <string.h>

struct hd_opencl_memory {
    hd_cl_memory *object; /* NULL: this place of the table is free */
    size_t bytes;
    hd_opencl_device *device;
    hd_opencl_memory *next; /* in the cache, or of the free places */
    uint32_t number;
    bool is_used; /* not cached */
};

/* ---- addresses --------------------------------------------------------------------------------------------------- */
enum { OFFSET_BITS = 40, PAGE = 1 << 10, PAGES = 1 << 12 };
static const uintptr_t unmapped = (uintptr_t)1 << 62;
_Static_assert((uint64_t)PAGE *PAGES == (uint64_t)1 << (62 - OFFSET_BITS), "all numbers fit between offset and mark");

static struct {
    pthread_mutex_t lock;
    _Atomic(hd_opencl_memory *) pages[PAGES]; /* they stay: who looks one up takes no lock */
    uint32_t count;
    hd_opencl_memory *free;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *address_of(const hd_opencl_memory *m) {
    return (void *)(unmapped | (uintptr_t)m->number << OFFSET_BITS); /* it is never followed */
}

/* NULL: there is no memory for a page, or no number. */
static hd_opencl_memory *next_place(void) {
    const uint32_t number = table.count;
    if (number == (uint32_t)PAGE * PAGES) return NULL;
    hd_opencl_memory *page = atomic_load_explicit(&table.pages[number / PAGE], memory_order_relaxed);
    if (page == NULL) {
        page = hd_array_resize(NULL, PAGE * sizeof *page);
        if (page == NULL) return NULL;
        memset(page, 0, PAGE * sizeof *page);
        atomic_store_explicit(&table.pages[number / PAGE], page, memory_order_release);
    }
    table.count++;
    page[number % PAGE].number = number;
    return &page[number % PAGE];
}
static hd_opencl_memory *take_place(void) {
    pthread_mutex_lock(&table.lock);
    hd_opencl_memory *m = table.free;
    if (m != NULL)
        table.free = m->next;
    else
        m = next_place();
    pthread_mutex_unlock(&table.lock);
    return m;
}
static void free_place(hd_opencl_memory *m) {
    pthread_mutex_lock(&table.lock);
    m->object = NULL;
    m->next = table.free;
    table.free = m;
    pthread_mutex_unlock(&table.lock);
}

static const hd_opencl_memory *memory_at(uintptr_t address) {
    if (address >> 62 != 1) return NULL;
    const uint32_t number = (uint32_t)((address ^ unmapped) >> OFFSET_BITS);
    const hd_opencl_memory *page = atomic_load_explicit(&table.pages[number / PAGE], memory_order_acquire);
    return page == NULL ? NULL : &page[number % PAGE];
}

hd_error hd_opencl_find(const hd_opencl_device *d, const void *address, size_t bytes, hd_cl_memory **object,
                        size_t *offset) {
    const hd_opencl_memory *m = memory_at((uintptr_t)address);
    *offset = (uintptr_t)address & (((uintptr_t)1 << OFFSET_BITS) - 1);
    if (__builtin_expect(m == NULL || m->object == NULL || !m->is_used || m->device != d, 0))
        return hd_fail(HD_ERROR_INTERNAL, "there is no memory of %s at %p", hd_device_text((char[32]){0}, d->device),
                       address);
    if (__builtin_expect(*offset > m->bytes || bytes > m->bytes - *offset, 0))
        return hd_fail(HD_ERROR_INTERNAL, "%zu bytes from %zu on are not inside of a block of %zu bytes of %s", bytes,
                       *offset, m->bytes, hd_device_text((char[32]){0}, d->device));
    *object = m->object;
    return HD_OK;
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */
static hd_opencl_memory *take_cached(hd_opencl_device *d, uint32_t size_class) {
    pthread_mutex_lock(&d->memory_lock);
    hd_opencl_memory *m = d->cache[size_class];
    if (m != NULL) {
        d->cache[size_class] = m->next;
        d->cached_bytes -= m->bytes;
        d->used_bytes += m->bytes;
        m->is_used = true;
    }
    pthread_mutex_unlock(&d->memory_lock);
    return m;
}

static void release_memory(hd_opencl_memory *m) {
    hd_cl.memory_release(m->object); /* which waits, without us, for the commands that use it */
    free_place(m);
}

/* Into the cache, unless that is full, or it is not as large as all others of its class. */
static void leave_memory(hd_opencl_memory *m) {
    hd_opencl_device *d = m->device;
    const uint32_t size_class = hd_size_class_of(m->bytes);
    pthread_mutex_lock(&d->memory_lock);
    d->used_bytes -= m->bytes;
    m->is_used = false;
    const bool keep = m->bytes == hd_size_class_bytes(size_class) && d->cached_bytes + m->bytes <= d->memory_bytes / 4;
    if (keep) {
        m->next = d->cache[size_class];
        d->cache[size_class] = m;
        d->cached_bytes += m->bytes;
    }
    pthread_mutex_unlock(&d->memory_lock);
    if (!keep) release_memory(m);
}

void hd_opencl_trim(hd_opencl_device *d) {
    for (uint32_t c = 0; c < HD_SIZE_CLASSES; ++c) {
        pthread_mutex_lock(&d->memory_lock);
        hd_opencl_memory *m = d->cache[c];
        d->cache[c] = NULL;
        for (const hd_opencl_memory *each = m; each != NULL; each = each->next) d->cached_bytes -= each->bytes;
        pthread_mutex_unlock(&d->memory_lock);
        while (m != NULL) {
            hd_opencl_memory *next = m->next;
            release_memory(m);
            m = next;
        }
    }
}

bool hd_opencl_try_again(hd_opencl_device *d, int32_t status, int attempt) {
    if (__builtin_expect(status == 0, 1) || attempt > 0 || !hd_cl_is_out_of_memory(status)) return false;
    hd_opencl_trim(d);
    return hd_cl.finish(d->queue) == 0; /* only then is what was released free */
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
hd_error hd_opencl_fail_memory(hd_opencl_device *d, size_t bytes, int32_t status, const char *function) {
    char what[48] = "a command";
    if (bytes > 0) snprintf(what, sizeof what, "%zu bytes", bytes);
    pthread_mutex_lock(&d->memory_lock);
    const size_t used = d->used_bytes, cached = d->cached_bytes;
    pthread_mutex_unlock(&d->memory_lock);
    return hd_fail(HD_ERROR_MEMORY,
                   "%s has no memory for %s: of its %zu bytes %zu are in use here and %zu cached, and a block has at "
                   "most %zu (%s gives %s); release tensors, end scopes sooner, or use smaller batches",
                   hd_device_text((char[32]){0}, d->device), what, d->memory_bytes, used, cached, d->block_most,
                   function, hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, status));
}

/* Drivers of devices that share the host's memory may promise more than there is: what we know is looked at first. */
static bool reserve(hd_opencl_device *d, size_t bytes) {
    pthread_mutex_lock(&d->memory_lock);
    const bool fits = bytes <= d->memory_bytes && d->used_bytes + d->cached_bytes <= d->memory_bytes - bytes;
    if (fits) d->used_bytes += bytes;
    pthread_mutex_unlock(&d->memory_lock);
    return fits;
}
static void unreserve(hd_opencl_device *d, size_t bytes) {
    pthread_mutex_lock(&d->memory_lock);
    d->used_bytes -= bytes;
    pthread_mutex_unlock(&d->memory_lock);
}

static int32_t ask_driver(hd_opencl_device *d, size_t bytes, hd_cl_memory **out) {
    int32_t status = 0;
    if (!reserve(d, bytes)) return HD_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    *out = hd_cl.memory_new(d->context, HD_CL_READ_WRITE, bytes, NULL, &status);
    if (*out != NULL) return 0;
    unreserve(d, bytes);
    return hd_cl_none_made(status);
}

static hd_error fail_to_allocate(hd_opencl_device *d, size_t bytes, int32_t status) {
    if (!hd_cl_is_out_of_memory(status)) return hd_opencl_check(d, status, "clCreateBuffer");
    HD_TRY(hd_opencl_check(d, hd_cl.finish(d->queue), "clFinish")); /* it may be lost */
    return hd_opencl_fail_memory(d, bytes, status, "clCreateBuffer");
}

static hd_opencl_memory *new_memory(hd_opencl_device *d, size_t bytes) {
    const size_t of_class = hd_size_class_bytes(hd_size_class_of(bytes));
    const size_t capacity = of_class <= d->block_most ? of_class : bytes;
    hd_cl_memory *object = NULL;
    int32_t status;
    int attempt = 0;
    do status = ask_driver(d, capacity, &object);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY_OR(status == 0 ? HD_OK : fail_to_allocate(d, bytes, status), NULL);
    hd_opencl_memory *m = take_place();
    if (m == NULL) {
        hd_cl.memory_release(object);
        unreserve(d, capacity);
        hd_fail(HD_ERROR_MEMORY, "no memory for the address of a block on a device");
        return NULL;
    }
    m->object = object;
    m->bytes = capacity;
    m->device = d;
    m->is_used = true;
    return m;
}

hd_block *hd_opencl_allocate(hd_thread *thread, int index, size_t bytes) {
    hd_opencl_device *d = hd_opencl_device_at(index);
    if (d == NULL) return NULL;
    if (bytes > d->block_most || bytes >> OFFSET_BITS != 0) {
        hd_opencl_fail_memory(d, bytes, HD_CL_INVALID_BUFFER_SIZE, "clCreateBuffer");
        return NULL;
    }
    hd_opencl_memory *m = take_cached(d, hd_size_class_of(bytes));
    if (m == NULL) m = new_memory(d, bytes);
    if (m == NULL) return NULL;
    hd_block *block = hd_block_away(thread, d->device, address_of(m), m->bytes, m);
    if (block == NULL) leave_memory(m);
    return block;
}

void hd_opencl_recycle(hd_thread *thread, hd_block *block) {
    hd_opencl_memory *m = block->owner;
    (void)thread;
    hd_block_away_release(block);
    if (hd_opencl_is_here()) leave_memory(m); /* else the memory is the parent's, or ends with the process */
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static hd_error read_from(hd_opencl_device *d, void *to, const void *from, size_t bytes) {
    hd_cl_memory *object;
    size_t offset;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, from, bytes, &object, &offset));
    do status = hd_cl.read(d->queue, object, 1, offset, bytes, to, 0, NULL, NULL);
    while (hd_opencl_try_again(d, status, attempt++));
    return hd_opencl_check(d, status, "clEnqueueReadBuffer");
}

static hd_error write_to(hd_opencl_device *d, void *to, const void *from, size_t bytes) {
    hd_cl_memory *object;
    size_t offset;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, to, bytes, &object, &offset));
    do status = hd_cl.write(d->queue, object, 1, offset, bytes, from, 0, NULL, NULL);
    while (hd_opencl_try_again(d, status, attempt++));
    return hd_opencl_check(d, status, "clEnqueueWriteBuffer");
}

static hd_error copy_within(hd_thread *thread, hd_opencl_device *d, void *to, void *from, size_t bytes);

/* OpenCL copies no ranges that overlap. */
static hd_error copy_twice(hd_thread *thread, hd_opencl_device *d, void *to, void *from, size_t bytes) {
    hd_block *between = hd_opencl_allocate(thread, d->device.index, bytes);
    if (between == NULL) return thread->error_code;
    hd_error status = copy_within(thread, d, between->address, from, bytes);
    if (status == HD_OK) status = copy_within(thread, d, to, between->address, bytes);
    hd_block_release(thread, between);
    return status;
}

static hd_error copy_within(hd_thread *thread, hd_opencl_device *d, void *to, void *from, size_t bytes) {
    hd_cl_memory *source, *target;
    size_t at, into;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, from, bytes, &source, &at));
    HD_TRY(hd_opencl_find(d, to, bytes, &target, &into));
    if (source == target && at == into) return HD_OK;
    if (source == target && at < into + bytes && into < at + bytes) return copy_twice(thread, d, to, from, bytes);
    do status = hd_cl.copy(d->queue, source, target, at, into, bytes, 0, NULL, NULL);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY(hd_opencl_check(d, status, "clEnqueueCopyBuffer"));
    return hd_opencl_enqueued(d);
}

static hd_error copy_between(hd_thread *thread, hd_opencl_device *a, hd_opencl_device *b, void *to, void *from,
                             size_t bytes) {
    hd_block *here = hd_block_new(thread, bytes);
    if (here == NULL) return thread->error_code;
    hd_error status = read_from(a, hd_block_data(here), from, bytes);
    if (status == HD_OK) status = write_to(b, to, hd_block_data(here), bytes);
    hd_block_release(thread, here);
    return status;
}

hd_error hd_opencl_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes) {
    hd_opencl_device *a = NULL, *b = NULL;
    if (bytes == 0) return HD_OK;
    if (from.device.kind == HD_DEVICE_OPENCL && (a = hd_opencl_device_at(from.device.index)) == NULL)
        return thread->error_code;
    if (to.device.kind == HD_DEVICE_OPENCL && (b = hd_opencl_device_at(to.device.index)) == NULL)
        return thread->error_code;
    if (a == NULL && b == NULL) return hd_fail(HD_ERROR_INTERNAL, "a copy of OpenCL's without a device of OpenCL's");
    if (a == NULL) return write_to(b, to.pointer, from.pointer, bytes);
    if (b == NULL) return read_from(a, to.pointer, from.pointer, bytes);
    return a == b ? copy_within(thread, a, to.pointer, from.pointer, bytes)
                  : copy_between(thread, a, b, to.pointer, from.pointer, bytes);
}

/* OpenCL fills only from a multiple of the element's size on. */
static hd_error fill_here(hd_thread *thread, hd_opencl_device *d, void *to, const void *element, size_t size,
                          size_t count) {
    hd_block *here = hd_block_new(thread, size * count);
    if (here == NULL) return thread->error_code;
    for (size_t i = 0; i < count; ++i) memcpy((char *)hd_block_data(here) + i * size, element, size);
    const hd_error status = write_to(d, to, hd_block_data(here), size * count);
    hd_block_release(thread, here);
    return status;
}

hd_error hd_opencl_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count) {
    hd_cl_memory *object;
    size_t offset;
    int32_t status;
    int attempt = 0;
    if (count == 0) return HD_OK;
    hd_opencl_device *d = hd_opencl_device_at(to.device.index);
    if (d == NULL) return thread->error_code;
    HD_TRY(hd_opencl_find(d, to.pointer, size * count, &object, &offset));
    if (offset % size != 0) return fill_here(thread, d, to.pointer, element, size, count);
    do status = hd_cl.fill(d->queue, object, element, size, offset, size * count, 0, NULL, NULL);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY(hd_opencl_check(d, status, "clEnqueueFillBuffer"));
    return hd_opencl_enqueued(d);
}
