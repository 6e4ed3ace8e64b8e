/* Capture: the executor of a thread that records. An op makes a node, and a tensor whose storage has no bytes. */
#include "graph/capture.h"
#include "core/undo.h"

#include <pthread.h>
#include <string.h>

static _Atomic uint32_t last_serial;

/* ---- cells ------------------------------------------------------------------------------------------------------- */
static uint32_t new_cell(hd_recording *r) {
    if (r->free_cell != HD_NO_NODE) {
        const uint32_t cell = r->free_cell;
        r->free_cell = r->cells[cell].next;
        return cell;
    }
    if (r->cell_count == r->cell_capacity) {
        const uint32_t capacity = r->cell_capacity ? r->cell_capacity * 2 : 64;
        hd_capture_cell *cells = hd_array_resize(r->cells, capacity * sizeof *cells);
        if (cells == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory to record %u tensors", capacity);
            return HD_NO_NODE;
        }
        r->cells = cells;
        r->cell_capacity = capacity;
    }
    return r->cell_count++;
}

static uint32_t slot_of(const hd_recording *r, const hd_storage *s) {
    uint32_t at = (uint32_t)(((uintptr_t)s >> 6) * 0x9e3779b1u) & (r->table_size - 1);
    while (r->table[at] != 0 && r->cells[r->table[at] - 1].storage != s) at = (at + 1) & (r->table_size - 1);
    return at;
}

static uint32_t find_outside(const hd_recording *r, const hd_storage *s) {
    return r->table_size == 0 || r->table[slot_of(r, s)] == 0 ? HD_NO_NODE : r->table[slot_of(r, s)] - 1;
}

static hd_error grow_table(hd_recording *r) {
    const uint32_t size = r->table_size ? r->table_size * 2 : 64;
    uint32_t *table = hd_array_resize(NULL, size * sizeof *table), *before = r->table;
    const uint32_t before_size = r->table_size;
    if (table == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to record %u tensors", size);
    memset(table, 0, size * sizeof *table);
    r->table = table;
    r->table_size = size;
    for (uint32_t i = 0; i < before_size; ++i)
        if (before[i] != 0) table[slot_of(r, r->cells[before[i] - 1].storage)] = before[i];
    hd_array_release(before);
    return HD_OK;
}

/* ---- values that were recorded have no bytes --------------------------------------------------------------------- */
static bool is_open(const hd_recording *r, uint32_t span) {
    uint32_t open = r->span;
    while (open > span) open = r->graph->spans[open].parent; /* parents come first */
    return open == span;
}

/* What the program called to make a node: the outermost composite that has ended, or the op itself. */
static const char *maker_of(const hd_recording *r, const hd_node *n) {
    const char *name = hd_node_name(n);
    for (uint32_t span = n->span; span != 0 && !is_open(r, span); span = r->graph->spans[span].parent)
        if (r->graph->spans[span].is_call) name = hd_graph_string(r->graph, r->graph->spans[span].name);
    return name;
}

/* What another thread records, its graph and names, changes under whoever looks. */
static bool records_elsewhere(const hd_recording *r) {
    const hd_thread *thread = atomic_load_explicit(&r->thread, memory_order_acquire);
    return thread != NULL && thread != hd_thread_self();
}
static hd_error refuse_elsewhere(void) {
    return hd_fail(HD_ERROR_STATE, "a tensor is a value that a builder records on another thread, which is not known "
                                   "before its script runs; end the builder, run the script and use its output");
}

static hd_error no_value(hd_storage *s, hd_access access) {
    (void)access;
    const hd_recording *r = s->release_user;
    if (records_elsewhere(r)) return refuse_elsewhere();
    const hd_node *n = &r->graph->nodes[r->cells[(uintptr_t)s->home_state].current];
    return hd_fail(
        HD_ERROR_STATE,
        "the value of this tensor (%s%s, recorded by builder \"%s\") is not known before its script runs; make it "
        "an output with hd_builder_add_output and run the script",
        hd_node_is_op(n) ? "hd_" : "", maker_of(r, n), hd_graph_string(r->graph, r->graph->name));
}

static void leave_recording(hd_storage *s) {
    hd_recording *r = s->release_user;
    const uint32_t cell = (uint32_t)(uintptr_t)s->home_state;
    hd_thread *thread = hd_thread_self();
    if (thread->recording == r) { /* released on another thread its cell is not used again */
        r->cells[cell].next = r->free_cell;
        r->free_cell = cell;
    }
    s->release_user = NULL;
    hd_recording_release(thread, r);
}

static const hd_home recorded_home = {
    .name = "recorded", .captured = true, .fetch = no_value, .leave = leave_recording};

/* A tensor from outside that was written while recording: its bytes are those of before, which nobody here may take for
 * the new value. Other threads, and HD_EAGER blocks, read it as ever. */
static hd_error capture_reads(hd_executor *self, const hd_storage *s) {
    const hd_recording *r = (const hd_recording *)self;
    const uint32_t cell = s->home == &recorded_home ? HD_NO_NODE : find_outside(r, s);
    if (cell == HD_NO_NODE || r->cells[cell].version == 0) return HD_OK; /* not written here */
    return hd_fail(HD_ERROR_STATE,
                   "this tensor was written while a builder records: its new value is not known before the "
                   "script runs");
}

/* An executor is asked about storages with a home, so one without gets this. The home's state counts the recordings
 * that wrote it. */
static hd_error shadowed_fetch(hd_storage *s, hd_access access) {
    (void)s, (void)access;
    return HD_OK;
}
static void shadowed_leave(hd_storage *s) { s->home = NULL; }
static const hd_home shadowed_home = {.name = "shadowed", .fetch = shadowed_fetch, .leave = shadowed_leave};

/* Counts one recording more, or less; false when the storage has another home. */
static bool shadow(hd_storage *s, int by) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (s->home == NULL) s->home_state = NULL;
    const bool mine = by > 0 ? s->home == NULL || s->home == &shadowed_home : s->home == &shadowed_home;
    if (mine) {
        s->home_state = (void *)((intptr_t)s->home_state + by);
        s->home = s->home_state == NULL ? NULL : &shadowed_home;
    }
    pthread_mutex_unlock(&lock);
    return mine;
}

/* ---- tensors and nodes ------------------------------------------------------------------------------------------- */
static bool covers(const hd_tensor *t, const hd_shape *shape) {
    return t->contiguous && t->layout.offset == 0 && hd_shape_equal(t->layout.shape, *shape);
}

static void note(hd_recording *r, hd_tensor *t, uint32_t node, uint32_t version) {
    t->captured = (hd_capture_note){r->serial, node, version};
}

/* A new tensor of the node's dtype and shape, without bytes; a reference that is the caller's. */
static hd_tensor *new_tensor(hd_thread *thread, hd_recording *r, uint32_t node, hd_dtype dtype, const hd_shape *shape) {
    int64_t count;
    HD_TRY_OR(hd_shape_check(shape, hd_dtype_bytes[dtype], &count), NULL);
    const uint32_t cell = new_cell(r);
    if (cell == HD_NO_NODE) return NULL;
    hd_storage *s =
        hd_storage_elsewhere(thread, (size_t)count * hd_dtype_bytes[dtype], &recorded_home, (void *)(uintptr_t)cell);
    if (s == NULL) {
        r->cells[cell].next = r->free_cell;
        r->free_cell = cell;
        return NULL;
    }
    s->release_user = r;
    hd_object_retain(&r->object);
    r->cells[cell] = (hd_capture_cell){.storage = s,
                                       .first = node,
                                       .current = node,
                                       .graph_cell = HD_NO_NODE,
                                       .dtype = (uint8_t)dtype,
                                       .shape = *shape};
    hd_layout layout;
    hd_layout_contiguous(&layout, shape);
    hd_tensor *t = hd_tensor_over(thread, s, dtype, &layout);
    hd_object_release(thread, &s->object);
    if (t != NULL) note(r, t, node, 0);
    return t;
}

hd_tensor *hd_recording_tensor(hd_thread *thread, hd_recording *r, uint32_t node) {
    const hd_shape shape = hd_node_shape(r->graph, node);
    return hd_tensor_give(thread, new_tensor(thread, r, node, (hd_dtype)r->graph->nodes[node].dtype, &shape));
}

static uint32_t add(hd_recording *r, uint16_t op, int derivative, const uint32_t *inputs, int count, hd_dtype dtype,
                    const hd_shape *shape, const void *attributes) {
    const uint32_t node = hd_graph_add(r->graph, op, derivative, inputs, count, dtype, shape, attributes);
    if (node != HD_NO_NODE) r->graph->nodes[node].span = r->span;
    return node;
}

/* A number is a node of its own, shared by equal ones; HD_NO_NODE when it is none that a double can say. */
static uint32_t number_node(hd_thread *thread, hd_recording *r, const hd_tensor *t) {
    const void *bytes = hd_tensor_bytes(thread, t, HD_READ);
    if (bytes == NULL) return HD_NO_NODE;
    const hd_dtype dtype = (hd_dtype)t->dtype;
    const double value = hd_element_to_f64(bytes, dtype);
    if ((dtype == HD_I64 || dtype == HD_U64) && !(value > -0x1p53 && value < 0x1p53)) return HD_NO_NODE;
    if (value != value) return HD_NO_NODE; /* a NaN may carry bits */
    uint64_t bits;
    memcpy(&bits, &value, 8);
    const uint32_t at = (uint32_t)((bits ^ bits >> 32) * 0x9e3779b1u >> 8 ^ dtype) % 64;
    if (r->numbers[at].dtype == dtype && r->numbers[at].bits == bits) return r->numbers[at].node;
    const hd_full_attributes attributes = {value};
    const uint32_t node = add(r, HD_OP_full, 0, NULL, 0, dtype, &t->layout.shape, &attributes);
    if (node != HD_NO_NODE) {
        r->numbers[at].dtype = (uint8_t)dtype;
        r->numbers[at].bits = bits;
        r->numbers[at].node = node;
    }
    return node;
}

/* The storage of t as a cell: from outside, and not declared, it is a constant. */
static uint32_t outside_cell(hd_thread *thread, hd_recording *r, const hd_tensor *t, const char *name, int kind) {
    if ((r->outside_count + 1) * 2 > r->table_size) HD_TRY_OR(grow_table(r), HD_NO_NODE);
    hd_storage *s = t->storage;
    const hd_dtype dtype = (hd_dtype)t->dtype;
    const int64_t elements = (int64_t)(s->bytes / hd_dtype_bytes[dtype]);
    hd_shape shape = HD_SHAPE(elements);
    if (t->contiguous && t->layout.offset == 0 && t->count == elements) shape = t->layout.shape;
    uint32_t node = HD_NO_NODE;
    if (kind >= 0) {
        node = hd_graph_add_cell(r->graph, name, (hd_cell_kind)kind, s, dtype, &shape);
    } else {
        if (t->count == 1 && shape.rank == 0 && !hd_storage_is_away(s)) node = number_node(thread, r, t);
        if (node == HD_NO_NODE && thread->error_code == HD_OK) {
            hd_storage *snapshot = hd_storage_snapshot(thread, s);
            if (snapshot == NULL) return HD_NO_NODE;
            node = hd_graph_add_constant(r->graph, snapshot, dtype, &shape);
            hd_object_release(thread, &snapshot->object);
        }
    }
    const uint32_t cell = node == HD_NO_NODE ? HD_NO_NODE : new_cell(r);
    if (cell == HD_NO_NODE) return HD_NO_NODE;
    hd_object_retain(&s->object);
    r->cells[cell] = (hd_capture_cell){.storage = s,
                                       .first = node,
                                       .current = node,
                                       .graph_cell = kind >= 0 ? r->graph->cell_count - 1 : HD_NO_NODE,
                                       .outside = true,
                                       .frozen = kind == HD_CELL_BOUND,
                                       .dtype = (uint8_t)dtype,
                                       .shape = shape};
    r->table[slot_of(r, s)] = cell + 1;
    r->outside_count++;
    return cell;
}

static uint32_t cell_of(hd_thread *thread, hd_recording *r, const hd_tensor *t) {
    hd_storage *s = t->storage;
    if (s->home == &recorded_home) {
        if (s->release_user == r) return (uint32_t)(uintptr_t)s->home_state;
        if (records_elsewhere(s->release_user)) {
            refuse_elsewhere();
            return HD_NO_NODE;
        }
        const hd_graph *other = ((const hd_recording *)s->release_user)->graph;
        hd_fail(HD_ERROR_STATE,
                "a tensor %s was recorded by another builder, \"%s\"; run its script and use the output",
                HD_SHAPE_TEXT(t->layout.shape), hd_graph_string(other, other->name));
        return HD_NO_NODE;
    }
    const uint32_t cell = find_outside(r, s);
    return cell != HD_NO_NODE ? cell : outside_cell(thread, r, t, NULL, -1);
}

/* A layout as hd_as_strided would note it: what no element depends on is zero. */
static hd_strided_attributes strided(const hd_layout *layout) {
    hd_strided_attributes a = {{.shape = layout->shape, .offset = layout->offset}};
    const bool empty = hd_shape_count(layout->shape) == 0;
    for (int i = 0; i < layout->shape.rank; ++i)
        a.layout.stride[i] = !empty && layout->shape.size[i] > 1 ? layout->stride[i] : 0;
    if (empty) a.layout.offset = 0;
    return a;
}

/* All of a cell's value, its bits read as t's dtype. */
static uint32_t whole_value(hd_recording *r, uint32_t cell, const hd_tensor *t) {
    const hd_capture_cell *c = &r->cells[cell];
    if (t->dtype == c->dtype) return c->current;
    const hd_cast_attributes attributes = {(hd_dtype)t->dtype};
    if (hd_dtype_bytes[t->dtype] != hd_dtype_bytes[c->dtype]) {
        hd_fail(HD_ERROR_DTYPE, "a view as %s of a storage that was recorded as %s", hd_dtype_name((hd_dtype)t->dtype),
                hd_dtype_name((hd_dtype)c->dtype));
        return HD_NO_NODE;
    }
    const hd_shape shape = c->shape;
    return add(r, HD_OP_bitcast, 0, &c->current, 1, (hd_dtype)t->dtype, &shape, &attributes);
}

/* The part of a cell's value that t shows, derived anew. */
static uint32_t derive(hd_recording *r, uint32_t cell, const hd_tensor *t) {
    const uint32_t node = whole_value(r, cell, t);
    if (node == HD_NO_NODE || covers(t, &r->cells[cell].shape)) return node;
    const hd_strided_attributes attributes = strided(&t->layout);
    return add(r, HD_OP_as_strided, 0, &node, 1, (hd_dtype)t->dtype, &t->layout.shape, &attributes);
}

uint32_t hd_recording_node(hd_thread *thread, hd_recording *r, hd_tensor *t) {
    const hd_storage *s = t->storage;
    if (t->operand) {
        const uint32_t node = number_node(thread, r, t); /* no cell: it is gone after the call */
        if (node != HD_NO_NODE || thread->error_code != HD_OK) return node;
    }
    const uint32_t cell = cell_of(thread, r, t);
    if (cell == HD_NO_NODE) return HD_NO_NODE;
    r->cells[cell].unread = false;
    r->cells[cell].carried = r->cells[cell].carried || r->cells[cell].version == 0;
    if (t->captured.recording == r->serial && t->captured.version == r->cells[cell].version) return t->captured.node;
    const uint32_t node = derive(r, cell, t);
    if (s->home == &recorded_home && node != HD_NO_NODE) note(r, t, node, r->cells[cell].version);
    return node;
}

bool hd_recording_knows(const hd_recording *r, const hd_tensor *t) {
    return t->storage->home == &recorded_home ? t->storage->release_user == r
                                              : find_outside(r, t->storage) != HD_NO_NODE;
}

bool hd_recording_wrote(const hd_recording *r, hd_shape *shape) {
    for (uint32_t i = 0; i < r->table_size; ++i) {
        const hd_capture_cell *c = r->table[i] == 0 ? NULL : &r->cells[r->table[i] - 1];
        if (c == NULL || c->version == 0 || c->graph_cell != HD_NO_NODE) continue;
        *shape = c->shape;
        return true;
    }
    return false;
}

/* How many nodes read the value of another one. */
static int64_t readers_of(const hd_graph *g, uint32_t node) {
    int64_t count = 0;
    for (uint32_t i = 0; i < g->node_count; ++i)
        for (int k = 0; k < g->nodes[i].input_count; ++k) count += hd_node_inputs(g, i)[k] == node;
    return count;
}

/* A counter of one element is read for its own next value alone, and nobody reads that; a parameter is read by more. */
static bool looks_like_counter(const hd_recording *r, const hd_capture_cell *c) {
    return c->unread && hd_shape_count(c->shape) == 1 && readers_of(r->graph, c->first) < 2;
}

static bool looks_like_state(const hd_recording *r, const hd_capture_cell *c, bool has_state) {
    if (c->version == 0 || c->graph_cell != HD_NO_NODE || hd_shape_count(c->shape) == 0) return false;
    if (!has_state) return c->unread && c->version == 1;
    return c->carried && !looks_like_counter(r, c);
}

int64_t hd_recording_lost(const hd_recording *r, hd_shape *largest) {
    int64_t count = 0, most = 0;
    bool has_state = false;
    for (uint32_t i = 0; i < r->graph->cell_count; ++i)
        has_state = has_state || r->graph->cells[i].kind == HD_CELL_STATE;
    for (uint32_t i = 0; i < r->table_size; ++i) {
        const hd_capture_cell *c = r->table[i] == 0 ? NULL : &r->cells[r->table[i] - 1];
        if (c == NULL || !looks_like_state(r, c, has_state)) continue;
        ++count;
        if (hd_shape_count(c->shape) <= most) continue;
        most = hd_shape_count(c->shape);
        *largest = c->shape;
    }
    return count;
}

bool hd_recording_declared(const hd_recording *r, const hd_tensor *t, hd_cell_kind kind) {
    const uint32_t cell = t->storage->home == &recorded_home ? HD_NO_NODE : find_outside(r, t->storage);
    const uint32_t graph_cell = cell == HD_NO_NODE ? HD_NO_NODE : r->cells[cell].graph_cell;
    return graph_cell != HD_NO_NODE && r->graph->cells[graph_cell].kind == kind;
}

hd_error hd_recording_declare(hd_thread *thread, hd_recording *r, const char *name, hd_cell_kind kind, hd_tensor *t) {
    if (t->storage->home == &recorded_home)
        return hd_fail(HD_ERROR_STATE,
                       "\"%s\" is a value that was recorded; only tensors from outside can be bound or state", name);
    if (find_outside(r, t->storage) != HD_NO_NODE)
        return hd_fail(
            HD_ERROR_STATE,
            "\"%s\", %s, was used or declared already; declare it once, right after hd_builder_start (views and "
            "tied tensors share their memory's meaning)",
            name, HD_SHAPE_TEXT(t->layout.shape));
    if (hd_graph_find(r->graph, HD_NAME_CELL, name) != HD_NO_NODE)
        return hd_fail(HD_ERROR_VALUE, "\"%s\" is declared already", name);
    return outside_cell(thread, r, t, name, kind) == HD_NO_NODE ? thread->error_code : HD_OK;
}

/* ---- the executor ------------------------------------------------------------------------------------------------ */
static hd_error capture_run(hd_executor *self, hd_thread *thread, hd_call *call) {
    hd_recording *r = (hd_recording *)self;
    if (atomic_load_explicit(&r->abandoned, memory_order_relaxed)) {
        hd_recording_leave(thread, r);
        return thread->executor->run(thread->executor, thread, call);
    }
    uint32_t inputs[HD_MAX_INPUTS];
    for (int i = 0; i < call->input_count; ++i) {
        inputs[i] = hd_recording_node(thread, r, call->inputs[i]);
        if (inputs[i] == HD_NO_NODE) return thread->error_code;
    }
    const uint16_t op = call->op->id;
    if (op == HD_OP_as_strided &&
        call->op->derivative == 0) { /* over the storage, not over the view it was called on */
        const uint32_t cell = cell_of(thread, r, call->inputs[0]);
        if (cell == HD_NO_NODE) return thread->error_code;
        inputs[0] = whole_value(r, cell, call->inputs[0]);
        if (inputs[0] == HD_NO_NODE) return thread->error_code;
    }
    hd_random_attributes draw;
    const void *attributes = call->attributes;
    if (call->op->family == HD_FAMILY_RANDOM) {
        draw = *(const hd_random_attributes *)attributes;
        draw.seed = 0;
        draw.draw = r->graph->draws++;
        attributes = &draw;
    }
    const uint32_t node =
        add(r, op, call->op->derivative, inputs, call->input_count, call->dtype[0], &call->shape[0], attributes);
    if (node == HD_NO_NODE) return thread->error_code;
    if (call->view == NULL) {
        call->outputs[0] = new_tensor(thread, r, node, call->dtype[0], &call->shape[0]);
    } else {
        const uint32_t cell = cell_of(thread, r, call->inputs[0]);
        call->outputs[0] =
            cell == HD_NO_NODE ? NULL : hd_tensor_over(thread, call->inputs[0]->storage, call->dtype[0], call->view);
        if (call->outputs[0] != NULL) note(r, call->outputs[0], node, r->cells[cell].version);
    }
    if (call->outputs[0] == NULL) return thread->error_code;
    for (int i = 1; i < call->output_count; ++i) {
        const uint32_t other = add(r, HD_NODE_OUTPUT, i, &node, 1, call->dtype[i], &call->shape[i], NULL);
        call->outputs[i] = other == HD_NO_NODE ? NULL : new_tensor(thread, r, other, call->dtype[i], &call->shape[i]);
        if (call->outputs[i] != NULL) continue;
        while (i-- > 0) hd_tensor_drop(thread, call->outputs[i]);
        return thread->error_code;
    }
    return HD_OK;
}

/* Notes the history of a tensor from outside before it is written: it has it back at the end. */
static hd_error touch(hd_recording *r, hd_tensor *t) {
    for (uint32_t i = 0; i < r->touched_count; ++i)
        if (r->touched[i].tensor == t) return HD_OK;
    if (r->touched_count % 16 == 0) { /* room for sixteen more */
        void *moved = hd_array_resize(r->touched, (r->touched_count + 16u) * sizeof *r->touched);
        if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to record a write");
        r->touched = moved;
    }
    hd_object_retain(&t->object);
    r->touched[r->touched_count++] =
        (hd_touched){.tensor = t,
                     .tracking = t->tracking,
                     .context = t->history.context,
                     .thread = t->history.thread,
                     .place = atomic_load_explicit(&t->history.place, memory_order_relaxed)};
    return HD_OK;
}

/* By how much a recorded write raises a version: what a tape in an HD_EAGER block saved then is not taken for what a
 * later write, which adds one, leaves behind. */
enum { RECORDED = 4096 };

/* What is written into dst: src, cast and stretched. As `whole` it is all of a cell's value from now on, and lies in
 * rows, as the cell does when the write runs at once: a stretched number or a transposed matrix would be added up in
 * another order. */
static uint32_t written_value(hd_recording *r, uint32_t value, const hd_tensor *dst, const hd_tensor *src, bool whole) {
    const hd_dtype dtype = (hd_dtype)dst->dtype;
    const hd_shape *shape = &dst->layout.shape;
    bool lies_in_rows = src->contiguous;
    if (src->dtype != dst->dtype && value != HD_NO_NODE) {
        const hd_cast_attributes attributes = {dtype};
        value = add(r, HD_OP_cast, 0, &value, 1, dtype, &src->layout.shape, &attributes);
        lies_in_rows = true;
    }
    if (!hd_shape_equal(src->layout.shape, *shape) && value != HD_NO_NODE) {
        const hd_shape_attributes attributes = {*shape};
        value = add(r, HD_OP_broadcast_to, 0, &value, 1, dtype, shape, &attributes);
        lies_in_rows = lies_in_rows && src->count == dst->count;
    }
    if (lies_in_rows || !whole || value == HD_NO_NODE) return value;
    return add(r, HD_OP_contiguous, 0, &value, 1, dtype, shape, NULL);
}

static hd_error capture_write(hd_executor *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    hd_recording *r = (hd_recording *)self;
    if (atomic_load_explicit(&r->abandoned, memory_order_relaxed)) {
        hd_recording_leave(thread, r);
        return thread->executor->write(thread->executor, thread, dst, src);
    }
    uint32_t value = hd_recording_node(thread, r, src);
    const uint32_t cell = value == HD_NO_NODE ? HD_NO_NODE : cell_of(thread, r, dst);
    if (cell == HD_NO_NODE) return thread->error_code;
    hd_capture_cell *c = &r->cells[cell];
    const hd_dtype dtype = (hd_dtype)dst->dtype;
    if (c->frozen)
        return hd_fail(HD_ERROR_STATE, "the destination is bound to the script, which only reads it; declare it with "
                                       "hd_builder_add_state to write it");
    if (c->dtype != dtype) return hd_fail(HD_ERROR_DTYPE, "writing through a bitcast view cannot be recorded");
    if (c->outside) HD_TRY(touch(r, dst));
    const bool whole = covers(dst, &c->shape);
    value = written_value(r, value, dst, src, whole);
    if (value == HD_NO_NODE) return thread->error_code;
    if (!whole) {
        c->carried = c->carried || c->version == 0;
        const uint32_t inputs[2] = {c->current, value};
        const hd_strided_attributes attributes = strided(&dst->layout);
        value = add(r, HD_NODE_WRITE, 0, inputs, 2, dtype, &c->shape, &attributes);
        if (value == HD_NO_NODE) return thread->error_code;
    }
    if (thread->undo != NULL) HD_TRY(hd_undo_note_node(thread->undo, dst->storage, c->current));
    c->current = value;
    c->unread = true;
    c->version++;
    atomic_fetch_add_explicit(&dst->storage->version, RECORDED,
                              memory_order_relaxed); /* tapes notice; taken back at the end */
    if (c->outside && !c->shadowed) c->shadowed = shadow(dst->storage, 1);
    return HD_OK;
}

static void capture_restore(hd_executor *self, hd_storage *s, uint32_t node) {
    hd_recording *r = (hd_recording *)self;
    const uint32_t cell = s->home == &recorded_home ? (uint32_t)(uintptr_t)s->home_state : find_outside(r, s);
    if (cell == HD_NO_NODE) return;
    r->cells[cell].current = node;
    r->cells[cell].version++; /* views of what it was in between are derived anew */
    atomic_fetch_add_explicit(&s->version, RECORDED, memory_order_relaxed);
}

static int capture_holds(hd_executor *self, const hd_storage *storage) {
    const hd_recording *r = (const hd_recording *)self;
    const uint32_t cell = storage->home == &recorded_home ? HD_NO_NODE : find_outside(r, storage);
    return cell == HD_NO_NODE ? 0 : r->cells[cell].graph_cell == HD_NO_NODE ? 1 : 2; /* and the graph's, of state */
}

static void capture_span_begin(hd_executor *self, hd_thread *thread, const char *name, bool is_call) {
    (void)thread;
    hd_recording *r = (hd_recording *)self;
    char plain[128]; /* a user's name may have anything in it; a path in a text may not */
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < sizeof plain; ++n)
        plain[n] = strchr(" /@\"\\:{}", name[n]) != NULL || (unsigned char)name[n] < 32 ? '_' : name[n];
    if (n == 0) plain[n++] = '_';
    plain[n] = '\0';
    const uint32_t span = hd_graph_add_span(r->graph, plain, r->span);
    if (span == 0) return;
    r->graph->spans[span].is_call = is_call;
    r->span = span;
}

static void capture_span_end(hd_executor *self, hd_thread *thread) {
    (void)thread;
    hd_recording *r = (hd_recording *)self;
    r->span = r->graph->spans[r->span].parent;
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */
static void recording_destroy(hd_thread *thread, hd_object *object) {
    hd_recording *r = (hd_recording *)((char *)object - offsetof(hd_recording, object));
    for (uint32_t i = 0; i < r->table_size; ++i)
        if (r->table[i] != 0) hd_object_release(thread, &r->cells[r->table[i] - 1].storage->object);
    hd_graph_release(thread, r->graph);
    hd_array_release(r->cells);
    hd_array_release(r->table);
    hd_array_release(r);
}
static const hd_kind recording_kind = {.name = "recording", .destroy = recording_destroy};

hd_recording *hd_recording_new(hd_thread *thread, hd_graph *graph) {
    hd_recording *r = hd_array_resize(NULL, sizeof *r);
    if (r == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a builder");
        hd_graph_release(thread, graph);
        return NULL;
    }
    memset(r, 0, sizeof *r);
    hd_object_init(&r->object, &recording_kind);
    r->executor = (hd_executor){.name = "builder",
                                .captures = true,
                                .run = capture_run,
                                .write = capture_write,
                                .holds = capture_holds,
                                .reads = capture_reads,
                                .restore = capture_restore,
                                .span_begin = capture_span_begin,
                                .span_end = capture_span_end};
    do r->serial = atomic_fetch_add_explicit(&last_serial, 1, memory_order_relaxed) + 1;
    while (r->serial == 0);
    r->graph = graph;
    r->free_cell = HD_NO_NODE;
    return r;
}

static void exchange_hooks(hd_thread *thread) {
    hd_executor *executor = thread->executor;
    hd_observer *observer = thread->observer;
    struct hd_tapes *tapes = thread->tapes;
    thread->executor = thread->aside.executor;
    thread->observer = thread->aside.observer;
    thread->tapes = thread->aside.tapes;
    thread->aside.executor = executor;
    thread->aside.observer = observer;
    thread->aside.tapes = tapes;
}

static uint32_t span_of(const hd_thread *thread) { return thread->recording->span; }

static void unwind_recording(hd_thread *thread, const hd_executor *executor, uint32_t span) {
    hd_recording *r = thread->recording;
    if (r->eager && executor == &r->executor) {
        r->eager = false;
        exchange_hooks(thread);
    }
    uint32_t open = r->span;
    while (open != span && open != 0) open = r->graph->spans[open].parent;
    if (open == span) r->span = span;
}

static const hd_recorder recorder = {.abandon = hd_recording_abandon,
                                     .span = span_of,
                                     .unwind = unwind_recording,
                                     .eager_begin = hd_eager_begin,
                                     .eager_end = hd_eager_end};

void hd_recording_enter(hd_thread *thread, hd_recording *r) {
    r->thread = thread;
    r->before = thread->aside;
    hd_object_retain(&r->object); /* the thread's own: its builder may go on another one */
    thread->aside.executor = &r->executor;
    thread->aside.observer = hd_first_observer();
    thread->aside.tapes = NULL;
    thread->recording = r;
    thread->recorder = &recorder;
    exchange_hooks(thread);
}

void hd_recording_leave(hd_thread *thread, hd_recording *r) {
    if (r->thread != thread) return;
    if (r->eager) exchange_hooks(thread); /* an HD_EAGER block is still open: it has nothing left to end */
    r->eager = false;
    hd_tapes_end(thread); /* those of the recording */
    exchange_hooks(thread);
    thread->recording = NULL;
    thread->aside = r->before;
    for (uint32_t i = r->touched_count; i-- > 0;) {
        hd_tensor *t = r->touched[i].tensor;
        t->tracking = r->touched[i].tracking;
        t->history.context = r->touched[i].context;
        t->history.thread = r->touched[i].thread;
        atomic_store_explicit(&t->history.place, r->touched[i].place, memory_order_relaxed);
        hd_tensor_drop(thread, t);
    }
    hd_array_release(r->touched);
    r->touched = NULL;
    r->touched_count = 0;
    for (uint32_t i = 0; i < r->table_size; ++i) {
        if (r->table[i] == 0) continue;
        const hd_capture_cell *c = &r->cells[r->table[i] - 1];
        atomic_fetch_sub_explicit(&c->storage->version, c->version * RECORDED, memory_order_relaxed);
        if (c->shadowed) shadow(c->storage, -1);
        if (c->graph_cell != HD_NO_NODE) r->graph->cells[c->graph_cell].update = c->current;
    }
    atomic_store_explicit(&r->thread, NULL, memory_order_release); /* others may look at it now */
    hd_recording_release(thread, r);                               /* the thread's */
}

void hd_recording_abandon(hd_thread *thread) {
    hd_recording *r = thread->recording;
    if (r == NULL) return;
    hd_recording_leave(thread, r);
    thread->after_walks = NULL;
}

hd_eager_token hd_eager_begin(hd_eager_token *self) {
    hd_eager_token token = {NULL};
    hd_thread *thread = hd_thread_self();
    if (thread == NULL || thread->recording == NULL || thread->recording->eager) return token;
    exchange_hooks(thread);
    thread->recording->eager = true;
    token.self = self;
    return token;
}

void hd_eager_end(hd_eager_token *token) {
    hd_thread *thread = hd_thread_self();
    if (token == NULL || token->self != token) return;
    token->self = NULL;
    if (thread == NULL || thread->recording == NULL || !thread->recording->eager) return; /* the builder ended inside */
    thread->recording->eager = false;
    exchange_hooks(thread);
}
