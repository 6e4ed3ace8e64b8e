/* Results of a run in memory of ours. XLA says where they lie in the device's memory, and the device copies them; where
 * the plugin does not say it, they come through the host. */
#include "xla/results.h"
#include "core/away.h"
#include "core/device.h"

static bool is_here(const hd_block *b) { return b->size_class != HD_BLOCK_AWAY; }

hd_error hd_xla_results_begin(hd_xla_results *r, hd_xla_device *device, uint32_t count) {
    *r = (hd_xla_results){.device = device, .count = count};
    r->fresh = hd_array_resize(NULL, ((size_t)count + 1) * sizeof(hd_block *));
    r->ways = hd_array_resize(NULL, ((size_t)count + 1) * sizeof *r->ways);
    for (uint32_t i = 0; r->fresh != NULL && i < count; ++i) r->fresh[i] = NULL;
    for (uint32_t i = 0; r->ways != NULL && i < count; ++i) r->ways[i] = HD_XLA_WAY_UNKNOWN;
    if (r->fresh != NULL && r->ways != NULL) return HD_OK;
    return hd_fail(HD_ERROR_MEMORY, "no memory for %u results under XLA", count);
}

/* True when a block is nobody else's, and where it is needed. */
static bool may_be_written(const hd_block *b, const hd_storage *cell, bool there, size_t bytes) {
    return b != NULL && b->capacity >= bytes && is_here(b) == !there &&
           (!there || hd_device_equal(b->device, cell->device)) &&
           atomic_load_explicit(&b->references, memory_order_acquire) == 1;
}

hd_error hd_xla_results_expect(hd_xla_results *r, hd_thread *thread, uint32_t i, const hd_storage *cell) {
    const hd_device device = r->device->device;
    const size_t bytes = cell->bytes > 0 ? cell->bytes : 1;
    const bool there = hd_device_equal(cell->device, device);
    if (may_be_written(r->fresh[i], cell, there, bytes)) return HD_OK;
    if (r->fresh[i] != NULL) hd_block_release(thread, r->fresh[i]);
    r->fresh[i] = there ? hd_device_interface_of(device.kind)->allocate(thread, device.index, bytes)
                        : hd_block_new(thread, bytes);
    return r->fresh[i] == NULL ? thread->error_code : HD_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
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

hd_error hd_xla_results_bring(hd_xla_results *r, hd_thread *thread, uint32_t i, const hd_xla_buffer *made,
                              hd_block *to) {
    const hd_device device = r->device->device;
    const hd_address target = {device, to->address};
    void *place = NULL;
    size_t bytes = 0;
    HD_TRY(hd_xla_type_bytes(&made->type, &bytes));
    if (bytes == 0) return HD_OK;
    if (is_here(to)) return hd_xla_buffer_read(made, hd_block_data(to), bytes);
    if (r->ways[i] == HD_XLA_WAY_UNKNOWN)
        r->ways[i] = hd_xla_buffer_has_place(made) ? HD_XLA_WITHIN_DEVICE : HD_XLA_THROUGH_HOST;
    if (r->ways[i] == HD_XLA_THROUGH_HOST) return bring_through_host(r, thread, made, target, bytes);
    HD_TRY(hd_xla_buffer_place(made, &place));
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

void hd_xla_results_settle(hd_xla_results *r, hd_thread *thread) {
    if (!r->copies) return;
    HD_HOLD_ERRORS(thread);
    hd_error_copy failure, other;
    hd_error_take(&failure);
    if (hd_xla_results_end(r, thread) != HD_OK) hd_error_take(&other);
    hd_error_put_back(&failure);
    r->copies = false;
}

void hd_xla_results_release(hd_xla_results *r, hd_thread *thread) {
    for (uint32_t i = 0; r->fresh != NULL && i < r->count; ++i)
        if (r->fresh[i] != NULL) hd_block_release(thread, r->fresh[i]);
    if (r->between != NULL) hd_block_release(thread, r->between);
    hd_array_release(r->fresh);
    hd_array_release(r->ways);
    *r = (hd_xla_results){0};
}
