/* Running a plan. All that can fail and is not computing comes first: memory for outputs and to work in, constants that
 * are still in a file, weights to be packed. */
#include "plan/plan.h"
#include "core/pool.h"
#include "core/resident.h"

#include <string.h>

static void take_memory(hd_thread *thread, hd_plan_buffer *b) {
    if (b->storage.block != NULL) hd_block_release(thread, b->storage.block);
    b->storage.block = NULL;
}
static hd_error give_memory(const hd_plan *p, hd_thread *thread, hd_plan_buffer *b) {
    if (b->storage.block == NULL || b->storage.block->references > 1) { /* somebody else looks at it */
        take_memory(thread, b);
        b->storage.block = hd_plan_block_new(p, thread, b->storage.bytes > 0 ? b->storage.bytes : 1);
        if (b->storage.block == NULL) return HD_ERROR_MEMORY;
    }
    b->storage.data = hd_plan_block_address(b->storage.block); /* the run before may have been in place */
    return HD_OK;
}

static void set_given(hd_plan *p, uint32_t node, void *data) { p->buffers[p->buffer_of[node]].storage.data = data; }

/* The tensors that the run gives, still without memory: taken before anything is computed, so that nothing fails
 * after. */
static hd_error take_outputs(const hd_plan *p, hd_thread *thread, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->output_count; ++i) {
        const hd_tensor *value = &p->tensors[p->outputs[i]];
        if (hd_plan_is_away(p)) { /* with its memory, into which the run writes */
            run->outputs[i] =
                hd_tensor_new_on(thread, p->machine->device, (hd_dtype)value->dtype, &value->layout.shape);
            if (run->outputs[i] == NULL) return thread->error_code;
            p->buffers[p->buffer_of[p->outputs[i]]].storage.data = run->outputs[i]->storage->block->address;
            continue;
        }
        hd_storage *s = hd_storage_new(thread, 0);
        if (s == NULL) return thread->error_code;
        run->outputs[i] = hd_tensor_over(thread, s, (hd_dtype)value->dtype, &value->layout);
        hd_object_release(thread, &s->object);
        if (run->outputs[i] == NULL) return thread->error_code;
    }
    return HD_OK;
}

/* True when nobody else looks at a cell's memory: no snapshot, and no input of this run. */
static bool is_alone(const hd_plan *p, const hd_run *run, uint32_t cell) {
    const hd_storage *s = run->cells[cell];
    for (uint32_t i = 0; hd_plan_is_away(p) && i < p->graph->input_count; ++i)
        if (run->inputs[i]->storage == s) return false;
    if (hd_plan_is_away(p)) return hd_resident_is_alone(s, p->machine->device);
    if (s->home != NULL || (s->block != NULL && s->block->references > 1)) return false;
    for (uint32_t i = 0; i < p->graph->input_count; ++i)
        if (run->inputs[i]->storage == s || run->inputs[i]->storage->block == NULL) return false;
    return true;
}

/* The bytes of an input, or a copy of them when they lie in memory that this run writes part by part. */
static void *put_aside(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t input, char *bytes) {
    const hd_tensor *t = run->inputs[input];
    const size_t size = (size_t)t->count * hd_dtype_bytes[t->dtype];
    bool meets = false;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        const char *cell = p->buffers[p->buffer_of[p->graph->cells[i].node]].storage.data;
        meets = meets || (p->sliced[i] && bytes < cell + run->cells[i]->bytes && cell < bytes + size);
    }
    if (!meets) return bytes;
    if (p->aside[input] == NULL) p->aside[input] = hd_plan_block_new(p, thread, size);
    if (p->aside[input] == NULL) return NULL;
    void *copy = hd_plan_block_address(p->aside[input]);
    return hd_plan_copy_bytes(p, thread, copy, bytes, size) == HD_OK ? copy : NULL;
}

/* The numbers that say which draws this run takes. */
static void set_draws(const hd_plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->native_count; ++i) {
        const hd_plan_native *n = p->natives[i];
        if (n->draw_count > 0) n->native.numbers[n->seed] = run->seed;
        for (int k = 0; k < n->draw_count; ++k) n->native.numbers[n->draws[k].number] = run->draw + n->draws[k].ordinal;
    }
}

/* The bytes of a cell, to be read, or written where it is sliced. */
static void *bytes_of_cell(const hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t i) {
    hd_storage *cell = run->cells[i];
    const bool comes_home = cell->home != NULL && p->state[i] != HD_NONE && !hd_storage_is_away(cell) && !p->sliced[i];
    void *bytes = hd_storage_bytes(thread, cell, p->sliced[i] || comes_home ? HD_WRITE : HD_READ);
    if (bytes != NULL && comes_home) /* its new value will be here; so far nothing has changed */
        atomic_fetch_sub_explicit(&cell->version, 1, memory_order_relaxed);
    return bytes;
}

static hd_error prepare(hd_plan *p, hd_thread *thread, const hd_run *run) {
    const hd_graph *g = p->graph;
    const bool away = hd_plan_is_away(p);
    if (p->draws) set_draws(p, run);
    HD_TRY(take_outputs(p, thread, run));
    if (away) HD_TRY(hd_plan_bring_constants(p, thread));
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        void *bytes = away ? hd_plan_bring_cell(p, thread, run, i) : bytes_of_cell(p, thread, run, i);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->cells[i].node, bytes);
    }
    for (uint32_t i = 0; i < g->input_count; ++i) {
        void *bytes = away ? hd_plan_bring_input(p, thread, run, i) : hd_tensor_bytes(thread, run->inputs[i], HD_READ);
        if (bytes != NULL && p->saves) bytes = put_aside(p, thread, run, i, bytes);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->inputs[i].node, bytes);
    }
    for (uint32_t i = 0; i < p->fresh_count; ++i) {
        hd_plan_buffer *b = &p->buffers[p->fresh[i]];
        b->in_place = b->placement == HD_IN_CELL && !run->keep_state && is_alone(p, run, b->cell);
        if (b->in_place) {
            take_memory(thread, b); /* what a run that was not in place left */
            b->storage.data = p->buffers[p->buffer_of[g->cells[b->cell].node]].storage.data;
        } else if (!away || b->placement != HD_IN_OUTPUT) {
            HD_TRY(give_memory(p, thread, b));
        }
    }
    return HD_OK;
}

/* The memory of an output becomes that of the tensor it is given in; the next run gets new memory. */
static void hand_out(hd_plan *p, const hd_run *run) {
    for (uint32_t i = 0; !hd_plan_is_away(p) && i < p->graph->output_count; ++i) {
        hd_plan_buffer *b = &p->buffers[p->buffer_of[p->outputs[i]]];
        hd_storage *s = run->outputs[i]->storage;
        if (p->tensors[p->outputs[i]].count == 0) continue;
        s->bytes = b->storage.bytes;
        s->data = b->storage.data;
        s->block = b->storage.block;
        b->storage.block = NULL;
        b->storage.data = NULL;
    }
}

/* All new values are there: now the old ones are exchanged for them. */
static hd_error update_state(hd_plan *p, hd_thread *thread, const hd_run *run) {
    hd_error status = HD_OK;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == HD_NONE) continue;
        hd_storage *cell = run->cells[i], *fresh = &p->buffers[p->state[i]].storage;
        if (hd_plan_is_away(p)) {
            hd_block **block = p->buffers[p->state[i]].in_place ? NULL : &fresh->block;
            if (hd_resident_update(thread, cell, block) != HD_OK) status = thread->error_code;
        } else if (p->buffers[p->state[i]].in_place) {
            p->buffers[p->state[i]].storage.data = NULL; /* the cell's */
        } else if (hd_storage_is_away(cell)) {
            hd_away_set_copy(thread, cell, fresh->block);
            fresh->block = NULL;
            fresh->data = NULL;
        } else if (cell->block == NULL) { /* borrowed memory stays where it is */
            memcpy(cell->data, fresh->data, cell->bytes);
        } else {
            hd_block *block = cell->block;
            cell->block = fresh->block;
            cell->data = hd_block_data(cell->block);
            fresh->block = block;
            fresh->data = hd_block_data(block);
        }
        hd_storage_changed(cell);
    }
    return status;
}

/* What was written into cells part by part is as it was. */
static void nobody_saw(const hd_plan *p, hd_storage *const *cells) {
    for (uint32_t i = 0; i < p->graph->cell_count; ++i)
        if (p->sliced[i]) atomic_fetch_sub_explicit(&cells[i]->version, 1, memory_order_relaxed);
}

void hd_plan_left(hd_executable *self, hd_thread *thread, hd_storage *const *cells) {
    hd_plan *p = (hd_plan *)self;
    p->machine->undo(p, thread, p->saves ? p->done : 0);
    nobody_saw(p, cells);
    hd_pool_limit(0);
}

hd_error hd_plan_run(hd_executable *self, hd_thread *thread, const hd_run *run) {
    hd_plan *p = (hd_plan *)self;
    HD_HOLD_ERRORS(thread);
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_error status = prepare(p, thread, run);
    p->done = 0;
    const bool began = status == HD_OK;
    if (began) {
        status = p->machine->run(p, thread, run, &p->done);
        if (status == HD_OK) p->done = p->launch_count;
    }
    if (p->saves && (status != HD_OK || run->keep_state)) {
        p->machine->undo(p, thread, p->done);
        if (began) nobody_saw(p, run->cells);
    }
    if (status == HD_OK) hand_out(p, run);
    if (status == HD_OK && !run->keep_state) status = update_state(p, thread, run);
    thread->observer = observer;
    return status;
}
