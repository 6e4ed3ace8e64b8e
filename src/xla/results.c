/* Results of a run in memory of ours. XLA says where they lie in the device's memory, and the device copies them; where
 * the plugin does not say it, they come through the host. */
#include "xla/results.h"
#include "core/away.h"
#include "core/device.h"

hd_error hd_xla_results_begin(hd_xla_results *r, hd_xla_device *device, uint32_t count) {
    *r = (hd_xla_results){.device = device, .count = count};
    r->fresh = hd_array_resize(NULL, ((size_t)count + 1) * sizeof(hd_block *));
    if (r->fresh == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u results under XLA", count);
    for (uint32_t i = 0; i <= count; ++i) r->fresh[i] = NULL;
    return HD_OK;
}

hd_error hd_xla_results_expect(hd_xla_results *r, hd_thread *thread, uint32_t i, const hd_storage *cell) {
    const hd_device device = r->device->device;
    const size_t bytes = cell->bytes > 0 ? cell->bytes : 1;
    r->fresh[i] = hd_device_equal(cell->device, device)
                      ? hd_device_interface_of(device.kind)->allocate(thread, device.index, bytes)
                      : hd_block_new(thread, bytes);
    return r->fresh[i] == NULL ? thread->error_code : HD_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static bool is_here(const hd_block *b) { return b->size_class != HD_BLOCK_AWAY; }

static hd_error bring_through_host(hd_xla_results *r, hd_thread *thread, const hd_xla_buffer *made, hd_address to,
                                   size_t bytes) {
    if (r->between != NULL && r->between->capacity < bytes) {
        hd_block_release(thread, r->between);
        r->between = NULL;
    }
    if (r->between == NULL) r->between = hd_block_new(thread, bytes);
    if (r->between == NULL) return thread->error_code;
    void *between = hd_block_data(r->between);
    HD_TRY(hd_xla_buffer_read(made, between, bytes));
    return hd_device_interface_of(to.device.kind)->copy(thread, to, (hd_address){hd_cpu(), between}, bytes);
}

hd_error hd_xla_results_bring(hd_xla_results *r, hd_thread *thread, const hd_xla_buffer *made, hd_block *to) {
    const hd_device device = r->device->device;
    void *place = NULL;
    size_t bytes = 0;
    HD_TRY(hd_xla_type_bytes(&made->type, &bytes));
    if (bytes == 0) return HD_OK;
    if (is_here(to)) return hd_xla_buffer_read(made, hd_block_data(to), bytes);
    HD_TRY(hd_xla_buffer_place(made, &place));
    const hd_address target = {device, to->address};
    if (place == NULL) return bring_through_host(r, thread, made, target, bytes);
    r->copies = true;
    return hd_device_interface_of(device.kind)->copy(thread, target, (hd_address){device, place}, bytes);
}

hd_error hd_xla_results_end(hd_xla_results *r, hd_thread *thread) {
    const hd_device device = r->device->device;
    if (!r->copies) return HD_OK;
    HD_TRY(hd_device_interface_of(device.kind)->synchronize(thread, device.index));
    r->copies = false;
    return HD_OK;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
void hd_xla_results_put(hd_xla_results *r, hd_thread *thread, uint32_t i, hd_storage *cell) {
    if (is_here(r->fresh[i])) {
        hd_away_set_copy(thread, cell, r->fresh[i]);
        r->fresh[i] = NULL;
    } else {
        hd_away_exchange(cell, &r->fresh[i]);
    }
}

void hd_xla_results_forget(hd_xla_results *r, hd_thread *thread) {
    if (r->copies) { /* of a run that failed, perhaps in waiting: they may still read what XLA will give up */
        HD_HOLD_ERRORS(thread);
        hd_error_copy failure, other;
        hd_error_take(&failure);
        if (hd_xla_results_end(r, thread) != HD_OK) hd_error_take(&other);
        hd_error_put_back(&failure);
        r->copies = false;
    }
    for (uint32_t i = 0; i < r->count; ++i) {
        if (r->fresh[i] != NULL) hd_block_release(thread, r->fresh[i]);
        r->fresh[i] = NULL;
    }
}

void hd_xla_results_release(hd_xla_results *r, hd_thread *thread) {
    if (r->between != NULL) hd_block_release(thread, r->between);
    hd_array_release(r->fresh);
    *r = (hd_xla_results){0};
}
