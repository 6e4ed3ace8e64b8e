/* Memory of GPUs: blocks of the driver in a heap (device/heap.h), copies and fills. Copies from and to the host go
 * through pinned memory (device/staging.h), so that the host's is free as soon as a call returns. */
#include "device/cuda/driver.h"

#include <stdio.h>
#include <string.h>

static hd_cu_address address_of(const void *pointer) { return (hd_cu_address)(uintptr_t)pointer; }

/* ---- blocks ------------------------------------------------------------------------------------------------------ */
bool hd_cuda_try_again(hd_cuda_device *d, int status, int attempt) {
    if (__builtin_expect(status == 0, 1) || attempt > 0 || status != HD_CU_OUT_OF_MEMORY) return false;
    if (hd_cu.stream_synchronize(d->stream) != 0) return false; /* what is recorded does not run */
    hd_heap_trim(&d->heap);
    return true;
}

static int ask_driver(hd_cuda_device *d, size_t bytes, hd_cu_address *out) {
    if (!hd_heap_reserve(&d->heap, bytes)) return HD_CU_OUT_OF_MEMORY;
    const int status = hd_cu.memory_new(out, bytes);
    if (status != 0) hd_heap_unreserve(&d->heap, bytes);
    return status;
}

static void *make_object(void *device, size_t bytes, size_t asked) {
    hd_cuda_device *d = device;
    hd_cu_address object = 0;
    int status, attempt = 0;
    char why[HD_CU_STATUS_TEXT + 32], text[HD_CU_STATUS_TEXT];
    if (hd_cuda_device_at(d->device.index) == NULL) return NULL;
    do status = ask_driver(d, bytes, &object);
    while (hd_cuda_try_again(d, status, attempt++));
    if (status == 0) return (void *)(uintptr_t)object;
    if (status == HD_CU_OUT_OF_MEMORY) {
        snprintf(why, sizeof why, "cuMemAlloc gives %s", hd_cu_status_text(text, status));
        hd_heap_fail(&d->heap, asked, why);
    } else {
        hd_cuda_check(d, status, "cuMemAlloc");
    }
    return NULL;
}

static void release_object(void *device, void *object) {
    const hd_cuda_device *d = device;
    hd_cu.context_set(d->context);
    hd_cu.memory_release(address_of(object));
}

void hd_cuda_begin_heap(hd_cuda_device *d) {
    d->heap.device = d->device;
    d->heap.owner = d;
    d->heap.has_addresses = true;
    d->heap.make = make_object;
    d->heap.release = release_object;
    d->heap.is_here = hd_cuda_is_here;
    hd_heap_begin(&d->heap);
}

hd_block *hd_cuda_allocate(hd_thread *thread, int index, size_t bytes) {
    hd_cuda_device *d = hd_cuda_device_open(index);
    if (d == NULL) return NULL;
    hd_block *block = hd_heap_allocate(&d->heap, bytes);
    if (block == NULL || hd_cuda_keep_for_recording(block) == HD_OK) return block;
    hd_block_release(thread, block);
    return NULL;
}

void hd_cuda_recycle(hd_thread *thread, hd_block *block) {
    (void)thread;
    hd_heap_recycle(block, hd_cuda_is_here());
}

/* ---- pinned memory ----------------------------------------------------------------------------------------------- */
enum { STAGE_BYTES = 4 << 20 };

static hd_error pin(void *device, hd_stage *s) {
    hd_cuda_device *d = device;
    hd_cu_event *event = s->copied;
    void *memory = NULL;
    if (event == NULL) HD_TRY(hd_cuda_check(d, hd_cu.event_new(&event, HD_CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
    s->copied = event;
    const int status = hd_cu.host_new(&memory, STAGE_BYTES, 0);
    s->memory = status == 0 ? memory : NULL;
    if (status != HD_CU_OUT_OF_MEMORY) return hd_cuda_check(d, status, "cuMemHostAlloc");
    return hd_fail(HD_ERROR_MEMORY,
                   "%s: the host has no %d bytes of pinned memory for copies (cuMemHostAlloc gives %s); end other "
                   "programs, or use less memory of the host",
                   hd_device_text((char[32]){0}, d->device), STAGE_BYTES,
                   hd_cu_status_text((char[HD_CU_STATUS_TEXT]){0}, status));
}

static hd_error mark_used(hd_cuda_device *d, hd_stage *s) {
    const int status = hd_cu.event_record(s->copied, d->stream);
    if (status != 0) hd_cu.stream_synchronize(d->stream); /* the bytes may still be read */
    return hd_cuda_check(d, status, "cuEventRecord");
}

static hd_error send(void *device, hd_stage *s, char *to, size_t bytes) {
    hd_cuda_device *d = device;
    HD_TRY(hd_cuda_check(d, hd_cu.upload(address_of(to), s->memory, bytes, d->stream), "cuMemcpyHtoDAsync"));
    return mark_used(d, s);
}

static hd_error fetch(void *device, hd_stage *s, const char *from, size_t bytes) {
    hd_cuda_device *d = device;
    HD_TRY(hd_cuda_check(d, hd_cu.download(s->memory, address_of(from), bytes, d->stream), "cuMemcpyDtoHAsync"));
    return mark_used(d, s);
}

static hd_error wait_for(void *device, hd_stage *s) {
    return hd_cuda_check(device, hd_cu.event_synchronize(s->copied), "cuEventSynchronize");
}

void hd_cuda_begin_staging(hd_cuda_device *d) {
    d->staging.owner = d;
    d->staging.pin = pin;
    d->staging.send = send;
    d->staging.fetch = fetch;
    d->staging.wait = wait_for;
    hd_staging_begin(&d->staging, STAGE_BYTES);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static hd_error fail_while_recording(void) {
    return hd_fail(HD_ERROR_INTERNAL, "bytes of the host are no part of what is recorded");
}
static bool is_recording(const hd_cuda_device *d) { return hd_cuda_stream(d) != d->stream; }

static hd_error write_to(hd_cuda_device *d, void *to, const void *from, size_t bytes) {
    return is_recording(d) ? fail_while_recording() : hd_staging_upload(&d->staging, to, from, bytes);
}

static hd_error read_from(hd_cuda_device *d, void *to, const void *from, size_t bytes) {
    return is_recording(d) ? fail_while_recording() : hd_staging_download(&d->staging, to, from, bytes);
}

static hd_error copy_within(hd_thread *thread, hd_cuda_device *d, void *to, void *from, size_t bytes) {
    const hd_cu_address a = address_of(from), b = address_of(to);
    if (a == b) return HD_OK;
    if (a >= b + bytes || b >= a + bytes)
        return hd_cuda_check(d, hd_cu.copy(b, a, bytes, hd_cuda_stream(d)), "cuMemcpyDtoDAsync");
    hd_block *between = hd_cuda_allocate(thread, d->device.index, bytes); /* ranges that overlap */
    if (between == NULL) return thread->error_code;
    hd_error status = copy_within(thread, d, between->address, from, bytes);
    if (status == HD_OK) status = copy_within(thread, d, to, between->address, bytes);
    hd_block_release(thread, between);
    return status;
}

static hd_error copy_between(hd_thread *thread, int a, int b, void *to, void *from, size_t bytes) {
    hd_block *here = hd_block_new(thread, bytes);
    if (here == NULL) return thread->error_code;
    hd_cuda_device *d = hd_cuda_device_at(a);
    hd_error status = d == NULL ? thread->error_code : read_from(d, hd_block_data(here), from, bytes);
    d = status == HD_OK ? hd_cuda_device_at(b) : NULL;
    if (status == HD_OK) status = d == NULL ? thread->error_code : write_to(d, to, hd_block_data(here), bytes);
    hd_block_release(thread, here);
    return status;
}

hd_error hd_cuda_copy(hd_thread *thread, hd_address to, hd_address from, size_t bytes) {
    const bool is_from = from.device.kind == HD_DEVICE_CUDA, is_to = to.device.kind == HD_DEVICE_CUDA;
    if (bytes == 0) return HD_OK;
    if (!is_from && !is_to) return hd_fail(HD_ERROR_INTERNAL, "a copy of CUDA's without a GPU");
    if (is_from && is_to && from.device.index != to.device.index)
        return copy_between(thread, from.device.index, to.device.index, to.pointer, from.pointer, bytes);
    hd_cuda_device *d = hd_cuda_device_at(is_to ? to.device.index : from.device.index);
    if (d == NULL) return thread->error_code;
    if (is_from && is_to) return copy_within(thread, d, to.pointer, from.pointer, bytes);
    return is_to ? write_to(d, to.pointer, from.pointer, bytes) : read_from(d, to.pointer, from.pointer, bytes);
}

/* ---- fills ------------------------------------------------------------------------------------------------------- */
/* Eight bytes whose halves differ are filled one half after the other. */
static int fill_64(hd_cu_address to, const uint32_t half[2], size_t count, hd_cu_stream *stream) {
    if (half[0] == half[1]) return hd_cu.fill_32(to, half[0], 2 * count, stream);
    const int status = hd_cu.fill_rows_32(to, 8, half[0], 1, count, stream);
    return status != 0 ? status : hd_cu.fill_rows_32(to + 4, 8, half[1], 1, count, stream);
}

hd_error hd_cuda_fill(hd_thread *thread, hd_address to, const void *element, size_t size, size_t count) {
    hd_cuda_device *d = hd_cuda_device_at(to.device.index);
    const hd_cu_address at = address_of(to.pointer);
    uint32_t half[2] = {0};
    int status;
    if (d == NULL) return thread->error_code;
    if (count == 0) return HD_OK;
    hd_cu_stream *stream = hd_cuda_stream(d);
    memcpy(half, element, size);
    switch (size) {
    case 1: status = hd_cu.fill_8(at, (unsigned char)half[0], count, stream); break;
    case 2: status = hd_cu.fill_16(at, (unsigned short)half[0], count, stream); break;
    case 4: status = hd_cu.fill_32(at, half[0], count, stream); break;
    default: status = fill_64(at, half, count, stream); break;
    }
    return hd_cuda_check(d, status, "cuMemsetAsync");
}
