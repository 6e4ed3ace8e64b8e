/* Buffers and events: values on XLA's side. */
#include "xla/client.h"

#include <stdio.h>

/* ---- types ------------------------------------------------------------------------------------------------------- */
int hd_xla_number_of(hd_dtype dtype) {
#define NUMBER(ours, theirs) [ours] = theirs,
    static const int numbers[HD_DTYPE_COUNT] = {HD_PJRT_TYPES(NUMBER)};
#undef NUMBER
    return hd_dtype_valid(dtype) ? numbers[dtype] : 0;
}

hd_dtype hd_xla_dtype_of(int number) {
    switch (number) {
#define CASE(ours, theirs)                                                                                             \
    case theirs: return ours;
        HD_PJRT_TYPES(CASE)
#undef CASE
    default: return HD_DTYPE_DEFAULT;
    }
}

hd_error hd_xla_type_bytes(const hd_xla_type *type, size_t *bytes) {
    if (hd_xla_number_of(type->dtype) == 0)
        return hd_fail(HD_ERROR_DTYPE, "XLA was given elements of dtype %d, which is none", (int)type->dtype);
    int64_t count;
    HD_TRY(hd_shape_check(&type->shape, hd_dtype_bytes[type->dtype], &count));
    *bytes = (size_t)count * hd_dtype_bytes[type->dtype];
    return HD_OK;
}

bool hd_xla_type_equal(const hd_xla_type *a, const hd_xla_type *b) {
    if (a->dtype != b->dtype || a->shape.rank != b->shape.rank) return false;
    for (int i = 0; i < a->shape.rank; ++i)
        if (a->shape.size[i] != b->shape.size[i]) return false;
    return true;
}

const char *hd_xla_type_text(char out[220], const hd_xla_type *type) {
    snprintf(out, 220, "%s%s", hd_dtype_name(type->dtype), HD_SHAPE_TEXT(type->shape));
    return out;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */
static const hd_xla_plugin *plugin_of(const hd_xla_device *device) { return &device->client->plugin; }

static bool is_lost(const hd_xla_device *device) { return hd_xla_loss_of(device) != HD_XLA_HERE; }

void hd_xla_event_destroy(const hd_xla_device *device, hd_pjrt_event *event) {
    const hd_xla_plugin *p = plugin_of(device);
    if (event == NULL || is_lost(device)) return;
    hd_xla_went_well(p, p->event_destroy(&HD_PJRT(hd_pjrt_event_destroy, .event = event)));
}

static hd_error await(const hd_xla_device *device, hd_pjrt_event *event, const char *what) {
    if (event == NULL) return HD_OK;
    HD_TRY(hd_xla_check_process(device));
    const hd_xla_plugin *p = plugin_of(device);
    const hd_error status = hd_xla_check(p, p->event_await(&HD_PJRT(hd_pjrt_event_await, .event = event)), what);
    hd_xla_event_destroy(device, event);
    return status;
}

hd_error hd_xla_event_await(const hd_xla_device *device, hd_pjrt_event *event) {
    return await(device, event, "a run under XLA failed");
}

bool hd_xla_event_is_ready(const hd_xla_device *device, hd_pjrt_event *event) {
    const hd_xla_plugin *p = plugin_of(device);
    if (event == NULL || is_lost(device)) return true;
    hd_pjrt_event_ready ready = HD_PJRT(hd_pjrt_event_ready, .event = event);
    return !hd_xla_went_well(p, p->event_ready(&ready)) || ready.ready; /* what has failed is over */
}

/* ---- making and giving up ---------------------------------------------------------------------------------------- */
enum { ALIGNMENT = 64 }; /* XLA copies what lies otherwise, and does not say so */

hd_error hd_xla_buffer_make(hd_xla_device *device, const hd_xla_type *type, const void *data, hd_xla_host host,
                            hd_xla_buffer *out) {
    static const _Alignas(ALIGNMENT) char nothing[ALIGNMENT];
    const hd_xla_plugin *p = plugin_of(device);
    size_t bytes = 0;
    *out = (hd_xla_buffer){0};
    HD_TRY(hd_xla_check_process(device));
    HD_TRY(hd_xla_type_bytes(type, &bytes));
    if (bytes == 0) data = nothing;
    if (data == NULL)
        return hd_fail(HD_ERROR_NULL_ARGUMENT, "no memory was given to XLA for %s", HD_XLA_TYPE_TEXT(*type));
    const bool borrow =
        host == HD_XLA_BORROW && bytes > 0 && device->device.kind == HD_DEVICE_CPU && (uintptr_t)data % ALIGNMENT == 0;
    hd_pjrt_from_host from =
        HD_PJRT(hd_pjrt_from_host, .client = device->client->handle, .data = data,
                .type = hd_xla_number_of(type->dtype), .sizes = type->shape.size, .rank = (size_t)type->shape.rank,
                .device = device->handle, .semantics = borrow ? HD_PJRT_BORROW : HD_PJRT_COPY);
    HD_TRY(hd_xla_check(p, p->from_host(&from), "XLA does not take a tensor"));
    *out = (hd_xla_buffer){.handle = from.buffer, .device = device, .type = *type};
    if (borrow) {
        out->freed = from.done; /* comes only after the buffer has been destroyed */
        return HD_OK;
    }
    const hd_error status = await(device, from.done, "XLA cannot copy a tensor");
    if (status != HD_OK) hd_xla_buffer_destroy(out);
    return status;
}

static void forget_view(void *pointer, void *user) { (void)pointer, (void)user; } /* whose it is knows */

hd_error hd_xla_buffer_view(hd_xla_device *device, const hd_xla_type *type, void *memory, hd_xla_buffer *out) {
    const hd_xla_plugin *p = plugin_of(device);
    size_t bytes = 0;
    *out = (hd_xla_buffer){0};
    HD_TRY(hd_xla_check_process(device));
    HD_TRY(hd_xla_type_bytes(type, &bytes));
    if (p->view == NULL || memory == NULL)
        return hd_fail(HD_ERROR_DEVICE, "XLA cannot look at %s %s", HD_XLA_TYPE_TEXT(*type),
                       memory == NULL ? "in no memory" : "where it is: no PJRT_Client_CreateViewOfDeviceBuffer");
    hd_pjrt_view view =
        HD_PJRT(hd_pjrt_view, .client = device->client->handle, .pointer = memory, .sizes = type->shape.size,
                .rank = (size_t)type->shape.rank, .type = hd_xla_number_of(type->dtype), .device = device->handle,
                .destroyed = forget_view);
    HD_TRY(hd_xla_check(p, p->view(&view), "XLA does not look at a tensor"));
    *out = (hd_xla_buffer){.handle = view.buffer, .device = device, .type = *type, .is_view = true};
    return HD_OK;
}

void hd_xla_buffer_destroy_early(hd_xla_buffer *b, hd_pjrt_event **freed) {
    *freed = b->freed;
    if (b->handle != NULL && !is_lost(b->device)) {
        const hd_xla_plugin *p = plugin_of(b->device);
        hd_xla_went_well(p, p->buffer_destroy(&HD_PJRT(hd_pjrt_buffer_destroy, .buffer = b->handle)));
    }
    b->handle = NULL;
    b->freed = NULL;
}

void hd_xla_buffer_destroy(hd_xla_buffer *b) {
    hd_pjrt_event *freed;
    hd_xla_buffer_destroy_early(b, &freed);
    if (freed == NULL || is_lost(b->device)) return;
    const hd_xla_plugin *p = plugin_of(b->device);
    hd_xla_went_well(p, p->event_await(&HD_PJRT(hd_pjrt_event_await, .event = freed)));
    hd_xla_event_destroy(b->device, freed);
}

bool hd_xla_buffer_is_gone(const hd_xla_buffer *b) {
    if (b->handle == NULL || is_lost(b->device)) return true;
    const hd_xla_plugin *p = plugin_of(b->device);
    hd_pjrt_buffer_deleted deleted = HD_PJRT(hd_pjrt_buffer_deleted, .buffer = b->handle);
    return !hd_xla_went_well(p, p->buffer_deleted(&deleted)) || deleted.deleted;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
/* XLA ends the process when some of its functions meet a buffer whose memory was donated. */
static hd_error check_present(const hd_xla_buffer *b) {
    if (b->handle == NULL) return hd_fail(HD_ERROR_STATE, "a buffer of XLA was used that is gone");
    HD_TRY(hd_xla_check_process(b->device));
    if (!hd_xla_buffer_is_gone(b)) return HD_OK;
    return hd_fail(HD_ERROR_STATE, "a buffer of XLA was used, %s, that was donated to a run",
                   HD_XLA_TYPE_TEXT(b->type));
}

static hd_error event_of(const hd_xla_buffer *b, hd_pjrt_event **event) {
    const hd_xla_plugin *p = plugin_of(b->device);
    hd_pjrt_buffer_event e = HD_PJRT(hd_pjrt_buffer_event, .buffer = b->handle);
    HD_TRY(check_present(b));
    HD_TRY(hd_xla_check(p, p->buffer_event(&e), "XLA cannot await a buffer"));
    *event = e.event;
    return HD_OK;
}

hd_error hd_xla_buffer_await(const hd_xla_buffer *b) {
    hd_pjrt_event *event = NULL;
    HD_TRY(event_of(b, &event));
    return hd_xla_event_await(b->device, event);
}

bool hd_xla_buffer_is_ready(const hd_xla_buffer *b) {
    const hd_xla_plugin *p;
    if (hd_xla_buffer_is_gone(b)) return true;
    p = plugin_of(b->device);
    hd_pjrt_buffer_event e = HD_PJRT(hd_pjrt_buffer_event, .buffer = b->handle);
    if (!hd_xla_went_well(p, p->buffer_event(&e))) return true;
    const bool ready = hd_xla_event_is_ready(b->device, e.event);
    hd_xla_event_destroy(b->device, e.event);
    return ready;
}

hd_error hd_xla_buffer_read(const hd_xla_buffer *b, void *data, size_t bytes) {
    size_t needed = 0;
    HD_TRY(check_present(b));
    HD_TRY(hd_xla_type_bytes(&b->type, &needed));
    if (bytes != needed)
        return hd_fail(HD_ERROR_VALUE, "%zu bytes were given to read %s, which is %zu", bytes,
                       HD_XLA_TYPE_TEXT(b->type), needed);
    HD_TRY(hd_xla_buffer_await(b)); /* the copy's own error would not say what failed */
    if (bytes == 0) return HD_OK;
    const hd_xla_plugin *p = plugin_of(b->device);
    int64_t minor_to_major[HD_MAX_RANK];
    for (int i = 0; i < b->type.shape.rank; ++i) minor_to_major[i] = b->type.shape.rank - 1 - i;
    hd_pjrt_layout layout = HD_PJRT(hd_pjrt_layout, .tiled = {.struct_size = sizeof layout.tiled,
                                                              .minor_to_major = minor_to_major,
                                                              .rank = (size_t)b->type.shape.rank});
    hd_pjrt_to_host to =
        HD_PJRT(hd_pjrt_to_host, .buffer = b->handle, .layout = &layout, .data = data, .data_size = bytes);
    HD_TRY(hd_xla_check(p, p->to_host(&to), "XLA does not give a tensor"));
    return await(b->device, to.event, "XLA cannot copy a tensor");
}

hd_error hd_xla_buffer_pointer(const hd_xla_buffer *b, void **pointer) {
    HD_TRY(hd_xla_buffer_await(b));
    const hd_xla_plugin *p = plugin_of(b->device);
    if (b->device->device.kind != HD_DEVICE_CPU || p->buffer_pointer == NULL)
        return hd_fail(HD_ERROR_DEVICE, "XLA's memory can be read in place only on the CPU%s",
                       p->buffer_pointer == NULL ? ", and this plugin has no PJRT_Buffer_UnsafePointer" : "");
    hd_pjrt_buffer_pointer place = HD_PJRT(hd_pjrt_buffer_pointer, .buffer = b->handle);
    HD_TRY(hd_xla_check(p, p->buffer_pointer(&place), "XLA does not say where a tensor lies"));
    *pointer = (void *)place.pointer;
    return HD_OK;
}

bool hd_xla_buffer_has_place(const hd_xla_buffer *b) {
    const hd_xla_plugin *p = plugin_of(b->device);
    const int rank = b->type.shape.rank;
    hd_pjrt_buffer_layout l = HD_PJRT(hd_pjrt_buffer_layout, .buffer = b->handle);
    if (p->buffer_pointer == NULL || is_lost(b->device)) return false;
    if (rank < 2) return true;
    if (p->buffer_layout == NULL || !hd_xla_went_well(p, p->buffer_layout(&l)) || l.layout.type != 0 ||
        l.layout.tiled.tile_count > 0 || l.layout.tiled.rank != (size_t)rank)
        return false;
    for (int i = 0; i < rank; ++i)
        if (l.layout.tiled.minor_to_major[i] != rank - 1 - i) return false;
    return true;
}

hd_error hd_xla_buffer_place(const hd_xla_buffer *b, void **pointer) {
    const hd_xla_plugin *p = plugin_of(b->device);
    HD_TRY(hd_xla_check_process(b->device));
    hd_pjrt_buffer_pointer place = HD_PJRT(hd_pjrt_buffer_pointer, .buffer = b->handle);
    HD_TRY(hd_xla_check(p, p->buffer_pointer(&place), "XLA does not say where a tensor lies"));
    *pointer = (void *)place.pointer;
    return HD_OK;
}
