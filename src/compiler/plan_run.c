/* Running a plan. All that can fail and is not computing comes first: memory for outputs and to work in, constants that
 * are still in a file, weights to be packed. */
#include "compiler/plan.h"
#include "core/device.h"
#include "core/pool.h"
#include "device/cpu/border.h"
#include "device/cpu/check_index.h"
#include "device/cpu/product.h"
#include "device/cpu/put.h"
#include "grad/tape.h"

#include <string.h>

static void take_memory(hd_thread *thread, hd_plan_buffer *b) {
    if (b->storage.block != NULL) hd_block_release(thread, b->storage.block);
    b->storage.block = NULL;
}
static hd_error give_memory(hd_thread *thread, hd_plan_buffer *b) {
    if (b->storage.block == NULL || b->storage.block->references > 1) { /* somebody else looks at it */
        take_memory(thread, b);
        b->storage.block = hd_block_new(thread, b->storage.bytes > 0 ? b->storage.bytes : 1);
        if (b->storage.block == NULL) return HD_ERROR_MEMORY;
    }
    b->storage.data = hd_block_data(b->storage.block); /* the run before may have been in place */
    return HD_OK;
}

static void set_given(hd_plan *p, uint32_t node, void *data) { p->buffers[p->buffer_of[node]].storage.data = data; }

/* The tensors that the run gives, still without memory: taken before anything is computed, so that nothing fails
 * after. */
static hd_error take_outputs(const hd_plan *p, hd_thread *thread, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->output_count; ++i) {
        const hd_tensor *value = &p->tensors[p->outputs[i]];
        hd_storage *s = hd_storage_new(thread, 0);
        if (s == NULL) return thread->error_code;
        run->outputs[i] = hd_tensor_over(thread, s, (hd_dtype)value->dtype, &value->layout);
        hd_object_release(thread, &s->object);
        if (run->outputs[i] == NULL) return thread->error_code;
    }
    return HD_OK;
}

/* That nobody else looks at a cell's memory: no snapshot, and no input of this run. */
static bool is_alone(const hd_plan *p, const hd_run *run, uint32_t cell) {
    const hd_storage *s = run->cells[cell];
    if (s->home != NULL || (s->block != NULL && s->block->references > 1)) return false;
    for (uint32_t i = 0; i < p->graph->input_count; ++i)
        if (run->inputs[i]->storage == s || run->inputs[i]->storage->block == NULL) return false;
    return true;
}

/* Constants that are still in a file are read before anything is computed. */
static hd_error read_constants(const hd_plan *p, hd_thread *thread) {
    for (uint32_t i = 0; i < p->graph->constant_count; ++i) {
        hd_storage *s = p->graph->constants[i].storage;
        if (s->home != NULL && !p->is_packed[i] && hd_storage_bytes(thread, s, HD_READ) == NULL)
            return thread->error_code;
    }
    return HD_OK;
}

/* The bytes of an input, or a copy of them when they lie in memory that this run writes part by part. */
static void *put_aside(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t input, char *bytes) {
    const hd_tensor *t = run->inputs[input];
    const size_t size = (size_t)t->count * hd_dtype_bytes[t->dtype];
    bool meets = false;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        const char *cell = run->cells[i]->data;
        meets = meets || (p->sliced[i] && bytes < cell + run->cells[i]->bytes && cell < bytes + size);
    }
    if (!meets) return bytes;
    if (p->aside[input] == NULL) p->aside[input] = hd_block_new(thread, size);
    if (p->aside[input] == NULL) return NULL;
    memcpy(hd_block_data(p->aside[input]), bytes, size);
    return hd_block_data(p->aside[input]);
}

/* The numbers that say which draws this run takes. */
static void set_draws(const hd_plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->native_count; ++i) {
        const hd_plan_native *n = p->natives[i];
        if (n->draw_count > 0) n->native.numbers[n->seed] = run->seed;
        for (int k = 0; k < n->draw_count; ++k) n->native.numbers[n->draws[k].number] = run->draw + n->draws[k].ordinal;
    }
}

static hd_error prepare(hd_plan *p, hd_thread *thread, const hd_run *run) {
    const hd_graph *g = p->graph;
    HD_TRY(hd_plan_share_out(p, thread));
    if (p->draws) set_draws(p, run);
    HD_TRY(take_outputs(p, thread, run));
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const bool comes_home = run->cells[i]->home != NULL && p->state[i] != HD_NONE; /* its new value will be here */
        void *bytes = hd_storage_bytes(thread, run->cells[i], p->sliced[i] || comes_home ? HD_WRITE : HD_READ);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->cells[i].node, bytes);
    }
    for (uint32_t i = 0; i < g->input_count; ++i) {
        void *bytes = hd_tensor_bytes(thread, run->inputs[i], HD_READ);
        if (bytes != NULL && p->saves) bytes = put_aside(p, thread, run, i, bytes);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->inputs[i].node, bytes);
    }
    HD_TRY(hd_plan_pack_weights(p, thread, run));
    HD_TRY(read_constants(p, thread));
    for (uint32_t i = 0; i < p->fresh_count; ++i) {
        hd_plan_buffer *b = &p->buffers[p->fresh[i]];
        b->in_place = b->room == IN_CELL && !run->keep_state && is_alone(p, run, b->cell);
        if (b->in_place) {
            take_memory(thread, b); /* what a run that was not in place left */
            b->storage.data = run->cells[b->cell]->data;
        } else {
            HD_TRY(give_memory(thread, b));
        }
    }
    return HD_OK;
}

hd_error hd_plan_addresses(const hd_plan *p, hd_thread *thread, const hd_plan_native *n, char **out) {
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        if (b == n->tile) continue;
        out[b] = hd_tensor_bytes(thread, &p->tensors[n->tensors[b]], HD_READ);
        if (out[b] == NULL) return thread->error_code;
    }
    return HD_OK;
}

static char *room_of(const hd_plan *p) { return p->room == NULL ? NULL : hd_block_data(p->room); }

static hd_error run_kernel(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    char *buffers[HD_KERNEL_BUFFERS];
    const hd_plan_native *n = p->natives[l->native];
    HD_TRY(hd_plan_addresses(p, thread, n, buffers));
    hd_native_run(&n->native, buffers, room_of(p), p->room == NULL ? 0 : p->room->capacity);
    return HD_OK;
}

/* A kernel that runs on parts of a product while they are in cache. */
typedef struct tile_kernel {
    const hd_plan_native *n;
    char *buffers[HD_KERNEL_BUFFERS];
} tile_kernel;

/* Position `at`, counted through axes [first, last], of which one point each is to be computed; how many there are up
 * to the end of the last of them. */
static int64_t locate(const hd_native *n, int first, int last, int64_t at, int64_t *begin, int64_t *size) {
    for (int a = last; a >= first; --a) {
        begin[a] = at % n->geometry[a];
        at /= n->geometry[a];
        size[a] = 1;
    }
    return n->geometry[last] - begin[last];
}

/* A part of a product is in cache: what follows it is computed there. Its rows are those of all outer axes in one, and
 * so are its columns: they are pixels, along whose axes something that is computed there may walk differently. */
static void finish_tile(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows, int64_t column,
                        int64_t columns) {
    const tile_kernel *f = context;
    const hd_native *n = &f->n->native;
    const int last = n->shape.kept - 1;
    const int64_t bytes = hd_dtype_bytes[n->shape.buffers[f->n->tile].dtype];
    int64_t begin[HD_KERNEL_AXES], size[HD_KERNEL_AXES];
    for (int64_t i = 0; i < rows; i += size[f->n->rows]) {
        const int64_t left = locate(n, 0, f->n->rows, row + i, begin, size);
        size[f->n->rows] = rows - i < left ? rows - i : left;
        for (int64_t k = 0; k < columns; k += size[last]) {
            const int64_t room = locate(n, f->n->rows + 1, last, column + k, begin, size);
            size[last] = columns - k < room ? columns - k : room;
            hd_native_run_tile(n, f->buffers, f->n->tile, (const char *)tile + (i * stride + k) * bytes, f->n->rows,
                               stride, begin, size);
        }
    }
}

/* Rows of its first operand are about to be read: they are written like a part of a result, all their columns at
 * once. */
void hd_plan_compute_rows(void *context, void *out, int64_t row, int64_t rows) {
    const tile_kernel *f = context;
    const int64_t columns = f->n->native.geometry[f->n->native.shape.kept - 1];
    finish_tile(context, out, columns, row, rows, 0, columns);
}

hd_error hd_plan_run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l, char *room, size_t room_bytes) {
    hd_plan_call *c = &p->calls[l->call];
    hd_product product = {.call = &c->call, .way = c->way, .room = room, .room_bytes = room_bytes};
    if (c->weight != HD_NONE) product.packed = hd_block_data(p->weights[c->weight].packed);
    tile_kernel prologue;
    if (c->prologue != HD_NONE) {
        prologue.n = p->natives[c->prologue];
        HD_TRY(hd_plan_addresses(p, thread, prologue.n, prologue.buffers));
        product.begin = hd_plan_compute_rows;
        product.begin_context = &prologue;
    }
    if (l->native != HD_NONE) {
        tile_kernel f = {.n = p->natives[l->native]};
        HD_TRY(hd_plan_addresses(p, thread, f.n, f.buffers));
        product.finish = finish_tile;
        product.context = &f;
        return hd_cpu_product(thread, &product);
    }
    const hd_tensor *out = p->pointers[l->first + l->inputs];
    const hd_tensor *bias = c->bias == HD_NONE ? NULL : &p->tensors[c->bias];
    if (bias != NULL && !hd_plan_adds_bias(bias, (hd_dtype)out->dtype))
        return p->executor->run(p->executor, thread, &c->call);
    hd_plain_finish f = hd_cpu_product_plain(c->call.op, &out->layout.shape, (hd_dtype)out->dtype);
    f.out = out->storage->data;
    f.steps = c->steps;
    f.step_count = c->step_count;
    for (int i = 0; i < c->step_count; ++i) {
        if (c->others[i] == HD_NONE) continue;
        c->steps[i].other = hd_tensor_bytes(thread, &p->tensors[c->others[i]], HD_READ);
        if (c->steps[i].other == NULL) return thread->error_code;
    }
    if (bias != NULL) {
        f.bias = hd_tensor_bytes(thread, bias, HD_READ);
        f.bias_dtype = (hd_dtype)bias->dtype;
        if (f.bias == NULL) return thread->error_code;
    }
    product.finish = hd_cpu_product_store;
    product.context = &f;
    return hd_cpu_product(thread, &product);
}

static hd_error run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    return hd_plan_run_product(p, thread, l, room_of(p), p->room == NULL ? 0 : p->room->capacity);
}

static hd_error run_call(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    hd_plan_call *c = &p->calls[l->call];
    if (c->call.attributes == &c->draw) {
        c->draw.seed = run->seed;
        c->draw.draw = run->draw + ((const hd_random_attributes *)hd_node_attributes(p->graph, l->node))->draw;
    }
    HD_TRY(p->executor->run(p->executor, thread, &c->call));
    return hd_debug_nan() ? hd_check_results(thread, &c->call) : HD_OK;
}

static hd_error run_check(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    const hd_graph *g = p->graph;
    const void *attributes = hd_node_attributes(g, l->node);
    const hd_lower_kind kind = hd_node_lowers(g, l->node);
    const int axis = kind == HD_LOWER_SCATTER ? ((const hd_scatter_attributes *)attributes)->axis
                                              : ((const hd_axis_attributes *)attributes)->axis;
    const hd_shape shape = hd_node_shape(g, hd_node_inputs(g, l->node)[0]);
    const int of_index = kind == HD_LOWER_INDEX_SELECT ? 0 : axis; /* along which it names places */
    return hd_cpu_check_index(thread, p->pointers[l->first], of_index, shape.size[axis]);
}

static int axis_of_put(const hd_plan *p, const hd_launch *l) {
    return ((const hd_scatter_attributes *)hd_node_attributes(p->graph, l->node))->axis;
}

static hd_error run_save_at(const hd_plan *p, hd_thread *thread, const hd_launch *l) {
    hd_tensor **operands = p->pointers + l->first;
    const int axis = axis_of_put(p, l);
    const int64_t bound = operands[0]->layout.shape.size[axis];
    HD_TRY(hd_cpu_find_places(thread, operands[2], operands[1], bound));
    hd_cpu_take(operands[3], operands[0], axis, operands[2]);
    return HD_OK;
}

static hd_error run_put(const hd_plan *p, const hd_launch *l) {
    hd_tensor **operands = p->pointers + l->first;
    const hd_scatter_attributes *a = hd_node_attributes(p->graph, l->node);
    hd_cpu_put(operands[2], a->axis, a->mode, operands[0], operands[1]);
    return HD_OK;
}

static hd_error run_launch(const hd_plan *p, hd_thread *thread, const hd_launch *l, const hd_run *run) {
    hd_tensor **operands = p->pointers + l->first;
    switch (l->kind) {
    case RUN_KERNEL: return run_kernel(p, thread, l);
    case RUN_PRODUCT: return run_product(p, thread, l);
    case RUN_CHECK: return run_check(p, thread, l);
    case RUN_SAVE_AT: return run_save_at(p, thread, l);
    case RUN_PUT: return run_put(p, l);
    case RUN_BORDER: return hd_cpu_fill_border(thread, operands[0], hd_node_attributes(p->graph, l->node));
    case RUN_CALL: return run_call(p, thread, l, run);
    default: return p->executor->write(p->executor, thread, operands[1], operands[0]);
    }
}

/* The launches of a job, one after the other. */
static hd_error run_in_order(const hd_plan *p, hd_thread *thread, const hd_plan_job *job, const hd_run *run,
                             uint32_t *failed) {
    int64_t begin = run->nanoseconds != NULL ? hd_os_nanoseconds() : 0;
    for (uint32_t i = job->first; i < job->first + job->count; ++i) {
        const hd_launch *l = &p->launches[i];
        if (l->threads > 0) hd_pool_limit(l->threads);
        const hd_error status = run_launch(p, thread, l, run);
        if (l->threads > 0) hd_pool_limit(0);
        if (__builtin_expect(status != HD_OK, 0)) {
            *failed = i;
            hd_error_append(thread, " (in node %%%u, %s)", l->node, hd_node_name(&p->graph->nodes[l->node]));
            return status;
        }
        if (__builtin_expect(run->nanoseconds != NULL, 0)) {
            const int64_t end = hd_os_nanoseconds();
            run->nanoseconds[i] += end - begin;
            begin = end;
        }
    }
    return HD_OK;
}

static hd_error run_jobs(const hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t *failed) {
    for (uint32_t i = 0; i < p->job_count; ++i) {
        const hd_plan_job *job = &p->jobs[i];
        if (job->piece_count > 0 && run->nanoseconds == NULL && !hd_debug_nan()) {
            *failed = job->first;
            HD_TRY(hd_plan_run_job(p, thread, job));
        } else {
            HD_TRY(run_in_order(p, thread, job, run, failed)); /* also when each launch is to be timed */
        }
    }
    return HD_OK;
}

/* Puts back what launches up to `end` wrote into cells, the latest first. Contiguous copies: nothing can fail here. */
static void undo(const hd_plan *p, hd_thread *thread, uint32_t end) {
    for (uint32_t i = end; i-- > 0;) {
        const hd_launch *l = &p->launches[i];
        hd_tensor **operands = p->pointers + l->first;
        if (l->kind == RUN_SAVE) p->executor->write(p->executor, thread, operands[0], operands[1]);
        if (l->kind == RUN_SAVE_AT) /* of duplicates, all saved the same */
            hd_cpu_put(operands[0], axis_of_put(p, l), HD_SCATTER_SET, operands[2], operands[3]);
    }
}

/* The memory of an output becomes that of the tensor it is given in; the next run gets new memory. */
static void hand_out(hd_plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->output_count; ++i) {
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
static void update_state(hd_plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == HD_NONE) continue;
        hd_storage *cell = run->cells[i], *fresh = &p->buffers[p->state[i]].storage;
        if (p->buffers[p->state[i]].in_place) {
            p->buffers[p->state[i]].storage.data = NULL; /* the cell's */
        } else if (cell->block == NULL) {                /* borrowed memory stays where it is */
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
}

hd_error hd_plan_run(hd_executable *self, hd_thread *thread, const hd_run *run) {
    hd_plan *p = (hd_plan *)self;
    HD_HOLD_ERRORS(thread);
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_error status = prepare(p, thread, run);
    uint32_t done = 0; /* launches that may have written */
    const bool began = status == HD_OK;
    if (began) {
        status = run_jobs(p, thread, run, &done);
        if (status == HD_OK) done = p->launch_count;
    }
    if (p->saves && (status != HD_OK || run->keep_state)) {
        undo(p, thread, done);
        for (uint32_t i = 0; began && i < p->graph->cell_count; ++i) /* nobody saw a change */
            if (p->sliced[i]) atomic_fetch_sub_explicit(&run->cells[i]->version, 1, memory_order_relaxed);
    }
    if (status == HD_OK) hand_out(p, run);
    if (status == HD_OK && !run->keep_state) update_state(p, run);
    thread->observer = observer;
    return status;
}
