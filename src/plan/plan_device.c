/* The memory of a plan where its machine is: what it is given is brought there. A device gets copies of what is on the
 * host: of constants once, of state that no run changes when it changed, of inputs in every run. */
#include "core/resident.h"
#include "plan/plan.h"

#include <string.h>

enum { ALIGNMENT = 16 }; /* of what kernels read several elements of at once */

hd_block *hd_plan_block_new(const hd_plan *p, hd_thread *thread, size_t bytes) {
    const hd_device device = p->machine->device;
    return hd_plan_is_away(p) ? hd_device_interface_of(device.kind)->allocate(thread, device.index, bytes)
                              : hd_block_new(thread, bytes);
}

void *hd_plan_block_address(hd_block *block) {
    return block->size_class == HD_BLOCK_AWAY ? block->address : hd_block_data(block);
}

hd_error hd_plan_copy_bytes(const hd_plan *p, hd_thread *thread, void *to, void *from, size_t bytes) {
    const hd_device device = p->machine->device;
    if (hd_plan_is_away(p))
        return hd_device_interface_of(device.kind)
            ->copy(thread, (hd_address){device, to}, (hd_address){device, from}, bytes);
    memcpy(to, from, bytes);
    return HD_OK;
}

/* So many bytes of a storage, from an offset on, as the device has them; `keeps`: the storage lives as long as the
 * plan, so that what did not change is not copied again. */
static void *bring(hd_plan *p, hd_thread *thread, hd_plan_copy *copy, hd_storage *s, size_t offset, size_t bytes,
                   bool keeps) {
    const hd_device device = p->machine->device;
    const bool is_there = hd_storage_is_away(s) && hd_device_equal(s->device, device);
    char *from = is_there ? hd_storage_address(thread, s, HD_READ) : hd_storage_bytes(thread, s, HD_READ);
    if (from == NULL) return NULL;
    from += offset;
    if (is_there && (uintptr_t)from % ALIGNMENT == 0) return from;
    const uint32_t changes = atomic_load_explicit(&s->changes, memory_order_relaxed);
    const bool is_same = copy->block != NULL && copy->data == from && copy->changes == changes && s->block != NULL;
    if (keeps && is_same) return copy->block->address;
    if (copy->block == NULL) copy->block = hd_plan_block_new(p, thread, bytes > 0 ? bytes : 1);
    if (copy->block == NULL) return NULL;
    copy->data = from;
    copy->changes = changes;
    const hd_error status = bytes == 0 ? HD_OK
                                       : hd_device_interface_of(device.kind)
                                             ->copy(thread, (hd_address){device, copy->block->address},
                                                    (hd_address){is_there ? device : hd_cpu(), from}, bytes);
    if (status == HD_OK) return copy->block->address;
    copy->data = NULL;
    return NULL;
}

void *hd_plan_bring_cell(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t i) {
    hd_storage *cell = run->cells[i];
    if (p->state[i] == HD_NONE && !p->sliced[i]) return bring(p, thread, &p->copies[i], cell, 0, cell->bytes, true);
    if (p->sliced[i] && hd_storage_is_away(cell) && hd_device_equal(cell->device, p->machine->device))
        return hd_storage_address(thread, cell, HD_WRITE);
    const hd_block *block = hd_resident_block(thread, cell, p->machine->device);
    if (block == NULL) return NULL;
    if (p->sliced[i]) { /* what the host has of it will be stale */
        if (hd_resident_update(thread, cell, NULL) != HD_OK) return NULL;
        hd_storage_changed(cell);
    }
    return block->address;
}

void *hd_plan_bring_input(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t i) {
    const hd_tensor *t = run->inputs[i];
    const size_t element = hd_dtype_bytes[t->dtype];
    return bring(p, thread, &p->copies[p->graph->cell_count + i], t->storage, (size_t)t->layout.offset * element,
                 (size_t)t->count * element, false);
}

hd_error hd_plan_bring_constants(hd_plan *p, hd_thread *thread) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->node_count && !p->has_constants; ++i) {
        if (g->nodes[i].op != HD_NODE_CONSTANT) continue;
        hd_storage *s = g->constants[g->nodes[i].first].storage;
        hd_plan_copy *copy = &p->copies[g->cell_count + g->input_count + g->nodes[i].first];
        void *there = bring(p, thread, copy, s, 0, s->bytes, true);
        if (there == NULL) return thread->error_code;
        p->buffers[p->buffer_of[i]].storage.data = there;
    }
    p->has_constants = true;
    return HD_OK;
}

void hd_plan_release_copies(hd_plan *p, hd_thread *thread) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; p->copies != NULL && i < g->cell_count + g->input_count + g->constant_count; ++i)
        if (p->copies[i].block != NULL) hd_block_release(thread, p->copies[i].block);
}
