/* Memory of OpenCL devices: objects of the driver in a heap (device/heap.h), copies and fills. Copies with the host go
 * through pinned memory (staging.c) where that is of use. */
#include "device/opencl/driver.h"

#include <stdio.h>
#include <string.h>

hd_error hd_opencl_find(const hd_opencl_device *d, const void *address, size_t bytes, hd_cl_memory **object,
                        size_t *offset) {
    void *found = NULL;
    const hd_error status = hd_heap_find(&d->heap, address, bytes, &found, offset);
    *object = found;
    return status;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
bool hd_opencl_try_again(hd_opencl_device *d, int32_t status, int attempt) {
    if (__builtin_expect(status == 0, 1) || attempt > 0 || !hd_cl_is_out_of_memory(status)) return false;
    hd_heap_trim(&d->heap);
    return hd_cl.finish(d->queue) == 0; /* only then is what was released free */
}

hd_error hd_opencl_fail_memory(hd_opencl_device *d, size_t bytes, int32_t status, const char *function) {
    char why[160];
    snprintf(why, sizeof why, "%s gives %s", function, hd_cl_status_text((char[HD_CL_STATUS_TEXT]){0}, status));
    return hd_heap_fail(&d->heap, bytes, why);
}

static int32_t ask_driver(hd_opencl_device *d, size_t bytes, hd_cl_memory **out) {
    int32_t status = 0;
    if (!hd_heap_reserve(&d->heap, bytes)) return HD_CL_MEM_OBJECT_ALLOCATION_FAILURE;
    *out = hd_cl.memory_new(d->context, HD_CL_READ_WRITE, bytes, NULL, &status);
    if (*out != NULL) return 0;
    hd_heap_unreserve(&d->heap, bytes);
    return hd_cl_none_made(status);
}

static hd_error fail_to_allocate(hd_opencl_device *d, size_t bytes, int32_t status) {
    if (!hd_cl_is_out_of_memory(status)) return hd_opencl_check(d, status, "clCreateBuffer");
    HD_TRY(hd_opencl_check(d, hd_cl.finish(d->queue), "clFinish")); /* it may be lost */
    return hd_opencl_fail_memory(d, bytes, status, "clCreateBuffer");
}

static void *make_object(void *device, size_t bytes, size_t asked) {
    hd_opencl_device *d = device;
    hd_cl_memory *object = NULL;
    int32_t status;
    int attempt = 0;
    do status = ask_driver(d, bytes, &object);
    while (hd_opencl_try_again(d, status, attempt++));
    HD_TRY_OR(status == 0 ? HD_OK : fail_to_allocate(d, asked, status), NULL);
    return object;
}

static void release_object(void *device, void *object) {
    (void)device;
    hd_cl.memory_release(object);
}

void hd_opencl_begin_heap(hd_opencl_device *d) {
    d->heap.device = d->device;
    d->heap.owner = d;
    d->heap.make = make_object;
    d->heap.release = release_object;
    d->heap.is_here = hd_opencl_is_here;
    hd_heap_begin(&d->heap);
}

hd_block *hd_opencl_allocate(hd_thread *thread, int index, size_t bytes) {
    (void)thread;
    hd_opencl_device *d = hd_opencl_device_at(index);
    if (d == NULL) return NULL;
    if (hd_heap_could_hold(&d->heap, bytes)) return hd_heap_allocate(&d->heap, bytes);
    hd_opencl_fail_memory(d, bytes, HD_CL_INVALID_BUFFER_SIZE, "clCreateBuffer");
    return NULL;
}

void hd_opencl_recycle(hd_thread *thread, hd_block *block) {
    (void)thread;
    hd_heap_recycle(block, hd_opencl_is_here());
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static hd_error read_from(hd_opencl_device *d, void *to, const void *from, size_t bytes) {
    hd_cl_memory *object;
    size_t offset;
    int32_t status;
    int attempt = 0;
    HD_TRY(hd_opencl_find(d, from, bytes, &object, &offset));
    if (hd_opencl_stages_copy(d, bytes)) return hd_staging_download(&d->staging, to, from, bytes);
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
    if (hd_opencl_stages_copy(d, bytes)) return hd_staging_upload(&d->staging, to, from, bytes);
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
