/* Plans: a graph as a flat list of calls of the device's own kernels, with all memory laid out in advance.
 *
 * Every node has a tensor header, made once. Views are only headers over the buffer they look at. Buffers of values that
 * live during the run lie in one arena, shared by those that do not live at the same time; outputs get new memory in every
 * run; the new value of state is made beside the old one and exchanged with it when the whole run went well. */
#include "core/device.h"
#include "script/executable.h"

#include <string.h>

#define NONE UINT32_MAX

typedef enum room { IN_ARENA, IN_OUTPUT, IN_STATE, GIVEN } room; /* GIVEN: inputs, constants, cells */

typedef struct buffer {
    hd_storage storage; /* its header, which kernels see; never released */
    room room;
    uint32_t place; /* which output or cell */
    uint32_t last;  /* the last launch that reads it */
    size_t offset;  /* in the arena */
    bool handed_on; /* an elementwise call writes its result over it */
} buffer;

typedef struct launch {
    hd_call call;
    hd_random_attributes draw; /* of a random op: the call's attributes */
    uint32_t node;
    bool is_copy; /* inputs[0] into the output, as hd_assign does */
} launch;

typedef struct plan {
    hd_executable executable;
    hd_graph *graph;
    hd_executor *executor;
    hd_tensor *tensors; /* of each node; behind them those of parts that a write fills */
    uint32_t tensor_count;
    uint32_t *buffer_of; /* of each tensor */
    buffer **buffers;
    uint32_t buffer_count, buffer_capacity;
    launch **launches;
    uint32_t launch_count, launch_capacity;
    uint32_t *outputs; /* the tensor of each output */
    hd_block *arena;
    uint32_t *fresh; /* buffers that need memory of their own in every run */
    uint32_t fresh_count;
    uint32_t *state; /* for each cell: the buffer of its update; NONE: unchanged */
} plan;

/* ---- parts ------------------------------------------------------------------------------------------------------------------- */
static buffer *new_buffer(plan *p, room kind, size_t bytes) {
    if (p->buffer_count == p->buffer_capacity) {
        const uint32_t capacity = p->buffer_capacity ? p->buffer_capacity * 2 : 64;
        buffer **moved = hd_array_resize(p->buffers, capacity * sizeof *moved);
        if (moved == NULL) return NULL;
        p->buffers = moved;
        p->buffer_capacity = capacity;
    }
    buffer *b = hd_array_resize(NULL, sizeof *b);
    if (b == NULL) return NULL;
    memset(b, 0, sizeof *b);
    b->room = kind;
    b->storage.object.references = 1 << 20; /* never the last one */
    b->storage.bytes = bytes;
    b->storage.device = hd_cpu();
    p->buffers[p->buffer_count++] = b;
    return b;
}

static void set_tensor(plan *p, uint32_t index, uint32_t b, hd_storage *storage, hd_dtype dtype,
                       const hd_layout *layout) {
    hd_tensor *t = &p->tensors[index];
    t->object.kind = &hd_kind_tensor;
    t->object.references = 1 << 20;
    t->storage = storage;
    t->dtype = (uint8_t)dtype;
    t->layout = *layout;
    t->count = hd_shape_count(layout->shape);
    t->contiguous = hd_layout_is_contiguous(layout);
    p->buffer_of[index] = b;
}

/* A tensor with a new buffer of its own. */
static hd_error own_tensor(plan *p, uint32_t index, room kind, hd_dtype dtype, const hd_shape *shape) {
    buffer *b = new_buffer(p, kind, (size_t)hd_shape_count(*shape) * hd_dtype_bytes[dtype]);
    if (b == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
    hd_layout layout;
    hd_layout_contiguous(&layout, shape);
    set_tensor(p, index, p->buffer_count - 1, &b->storage, dtype, &layout);
    return HD_OK;
}

static launch *new_launch(plan *p, const hd_op *op, uint32_t node, uint32_t output, const uint32_t *inputs, int count) {
    if (p->launch_count == p->launch_capacity) {
        const uint32_t capacity = p->launch_capacity ? p->launch_capacity * 2 : 64;
        launch **moved = hd_array_resize(p->launches, capacity * sizeof *moved);
        if (moved == NULL) goto no_memory;
        p->launches = moved;
        p->launch_capacity = capacity;
    }
    launch *l = hd_array_resize(NULL, sizeof *l + (size_t)count * sizeof(hd_tensor *));
    if (l == NULL) goto no_memory;
    memset(l, 0, sizeof *l);
    hd_tensor **list = (hd_tensor **)(l + 1);
    for (int i = 0; i < count; ++i) list[i] = &p->tensors[inputs[i]];
    const hd_tensor *out = &p->tensors[output];
    l->node = node;
    l->call = (hd_call){.op = op, .inputs = list, .input_count = count, .output_count = 1, .given = true};
    l->call.dtype[0] = l->call.compute = (hd_dtype)out->dtype;
    l->call.shape[0] = out->layout.shape;
    l->call.outputs[0] = &p->tensors[output];
    p->launches[p->launch_count++] = l;
    return l;
no_memory:
    hd_fail(HD_ERROR_MEMORY, "no memory for a plan of %u calls", p->launch_count);
    return NULL;
}

static hd_error add_copy(plan *p, uint32_t node, uint32_t to, uint32_t from) {
    launch *l = new_launch(p, &hd_ops[HD_OP_contiguous], node, to, &from, 1);
    if (l == NULL) return HD_ERROR_MEMORY;
    l->is_copy = true;
    return HD_OK;
}

/* One more tensor behind those of the nodes. The array was made large enough. */
static uint32_t spare_tensor(plan *p) { return p->tensor_count++; }

/* The value of a node, contiguous and at the beginning of what it is a part of. */
static hd_error packed(plan *p, uint32_t node, uint32_t index, uint32_t *out) {
    *out = index;
    if (p->tensors[index].contiguous) return HD_OK;
    *out = spare_tensor(p);
    HD_TRY(own_tensor(p, *out, IN_ARENA, (hd_dtype)p->tensors[index].dtype, &p->tensors[index].layout.shape));
    return add_copy(p, node, *out, index);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------------ */
static hd_error plan_given(plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    const hd_shape shape = hd_node_shape(p->graph, i);
    HD_TRY(own_tensor(p, i, GIVEN, (hd_dtype)n->dtype, &shape));
    if (n->op == HD_NODE_CONSTANT) p->tensors[i].storage = p->graph->constants[n->first].storage;
    return HD_OK;
}

static hd_error plan_view(plan *p, uint32_t i, uint32_t input) {
    const hd_node *n = &p->graph->nodes[i];
    const void *attributes = hd_node_attributes(p->graph, i);
    hd_layout layout;
    uint32_t from = input;
    if (n->op == HD_OP_as_strided) { /* over all of its input's memory */
        HD_TRY(packed(p, i, input, &from));
        layout = ((const hd_strided_attributes *)attributes)->layout;
        layout.offset += p->tensors[from].layout.offset;
    } else if (!hd_view_layout((hd_op_id)n->op, attributes, &p->tensors[from].layout, &layout)) {
        HD_TRY(packed(p, i, input, &from)); /* a reshape that its strides do not allow */
        hd_view_layout((hd_op_id)n->op, attributes, &p->tensors[from].layout, &layout);
    }
    set_tensor(p, i, p->buffer_of[from], p->tensors[from].storage, (hd_dtype)n->dtype, &layout);
    return HD_OK;
}

static hd_error plan_write(plan *p, uint32_t i, const uint32_t *inputs) {
    const hd_node *n = &p->graph->nodes[i];
    const hd_shape shape = hd_node_shape(p->graph, i);
    HD_TRY(own_tensor(p, i, IN_ARENA, (hd_dtype)n->dtype, &shape));
    HD_TRY(add_copy(p, i, i, inputs[0]));
    const uint32_t part = spare_tensor(p);
    const hd_strided_attributes *attributes = hd_node_attributes(p->graph, i);
    set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &attributes->layout);
    return add_copy(p, i, part, inputs[1]);
}

static hd_error plan_node(plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    if (n->op == HD_NODE_WRITE) return plan_write(p, i, inputs);
    if (!hd_node_is_op(n)) return plan_given(p, i);
    const hd_op *op = hd_node_op(n);
    if (op->family == HD_FAMILY_VIEW) return plan_view(p, i, inputs[0]);
    const hd_shape shape = hd_node_shape(p->graph, i);
    HD_TRY(own_tensor(p, i, IN_ARENA, (hd_dtype)n->dtype, &shape));
    launch *l = new_launch(p, op, i, i, inputs, n->input_count);
    if (l == NULL) return HD_ERROR_MEMORY;
    l->call.compute = (hd_dtype)n->compute;
    l->call.attributes = hd_node_attributes(p->graph, i);
    if (op->family == HD_FAMILY_RANDOM) {
        l->draw = *(const hd_random_attributes *)l->call.attributes;
        l->call.attributes = &l->draw;
    }
    return HD_OK;
}

/* ---- what leaves the run -------------------------------------------------------------------------------------------------------------- */
/* True when the node's buffer is in the arena, and the node is all of it. */
static bool is_whole(const plan *p, uint32_t tensor) {
    const hd_tensor *t = &p->tensors[tensor];
    const buffer *b = p->buffers[p->buffer_of[tensor]];
    return b->room == IN_ARENA && t->storage == &b->storage && t->contiguous && t->layout.offset == 0 &&
           (size_t)t->count * hd_dtype_bytes[t->dtype] == b->storage.bytes;
}

/* The tensor in which a value leaves: the value itself, or a copy when its buffer is not its own to give away. */
static hd_error leaving(plan *p, uint32_t node, room kind, uint32_t place, uint32_t *out) {
    *out = node;
    if (!is_whole(p, node)) {
        const hd_shape shape = p->tensors[node].layout.shape;
        *out = spare_tensor(p);
        HD_TRY(own_tensor(p, *out, kind, (hd_dtype)p->tensors[node].dtype, &shape));
        HD_TRY(add_copy(p, node, *out, node));
    }
    buffer *b = p->buffers[p->buffer_of[*out]];
    b->room = kind;
    b->place = place;
    return HD_OK;
}

/* ---- the arena ------------------------------------------------------------------------------------------------------------------------- */
typedef struct hole {
    size_t offset, bytes;
} hole;
typedef struct arena {
    hole *holes;
    uint32_t count, capacity;
    size_t top;
} arena;

static size_t rounded(size_t bytes) { return bytes > SIZE_MAX - 63 ? SIZE_MAX : (bytes + 63) / 64 * 64; }

/* The smallest hole that fits, or new room at the top; SIZE_MAX when no address is that large. */
static size_t take(arena *a, size_t bytes) {
    if (bytes > SIZE_MAX / 4 || a->top > SIZE_MAX / 4) return SIZE_MAX;
    uint32_t best = NONE;
    for (uint32_t i = 0; i < a->count; ++i)
        if (a->holes[i].bytes >= bytes && (best == NONE || a->holes[i].bytes < a->holes[best].bytes)) best = i;
    if (best == NONE) {
        if (a->count > 0 &&
            a->holes[a->count - 1].offset + a->holes[a->count - 1].bytes == a->top) { /* stretch the last */
            const size_t offset = a->holes[--a->count].offset;
            a->top = offset + bytes;
            return offset;
        }
        a->top += bytes;
        return a->top - bytes;
    }
    const size_t offset = a->holes[best].offset;
    a->holes[best].offset += bytes;
    a->holes[best].bytes -= bytes;
    if (a->holes[best].bytes == 0) {
        memmove(&a->holes[best], &a->holes[best + 1], (a->count - best - 1) * sizeof *a->holes);
        a->count--;
    }
    return offset;
}

static hd_error give(arena *a, size_t offset, size_t bytes) {
    if (bytes == 0) return HD_OK;
    uint32_t at = 0, end = a->count;
    while (at < end) { /* the holes are in order */
        const uint32_t middle = (at + end) / 2;
        if (a->holes[middle].offset < offset)
            at = middle + 1;
        else
            end = middle;
    }
    const bool after = at > 0 && a->holes[at - 1].offset + a->holes[at - 1].bytes == offset;
    const bool before = at < a->count && offset + bytes == a->holes[at].offset;
    if (after && before) {
        a->holes[at - 1].bytes += bytes + a->holes[at].bytes;
        memmove(&a->holes[at], &a->holes[at + 1], (a->count - at - 1) * sizeof *a->holes);
        a->count--;
    } else if (after) {
        a->holes[at - 1].bytes += bytes;
    } else if (before) {
        a->holes[at].offset = offset;
        a->holes[at].bytes += bytes;
    } else {
        if (a->count == a->capacity) {
            const uint32_t capacity = a->capacity ? a->capacity * 2 : 32;
            hole *moved = hd_array_resize(a->holes, capacity * sizeof *moved);
            if (moved == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
            a->holes = moved;
            a->capacity = capacity;
        }
        memmove(&a->holes[at + 1], &a->holes[at], (a->count - at) * sizeof *a->holes);
        a->holes[at] = (hole){offset, bytes};
        a->count++;
    }
    return HD_OK;
}

/* The input over which an elementwise call may write its result: of its type, read for the last time, and by nobody else
 * in this call but in the same order. NULL: none. */
static buffer *overwritable(const plan *p, uint32_t index) {
    const hd_call *c = &p->launches[index]->call;
    const hd_tensor *out = c->outputs[0];
    if (p->launches[index]->is_copy ||
        (c->op->family != HD_FAMILY_ELEMENTWISE && c->op->family != HD_FAMILY_DERIVATIVE) ||
        !is_whole(p, (uint32_t)(out - p->tensors)))
        return NULL;
    for (int k = 0; k < c->input_count; ++k) {
        const uint32_t t = (uint32_t)(c->inputs[k] - p->tensors);
        buffer *b = p->buffers[p->buffer_of[t]];
        bool fits = b->last == index && is_whole(p, t) && p->tensors[t].dtype == out->dtype &&
                    hd_shape_equal(p->tensors[t].layout.shape, out->layout.shape);
        for (int j = 0; j < c->input_count && fits;
             ++j) { /* another view of it would be read when it is half written */
            const uint32_t other = (uint32_t)(c->inputs[j] - p->tensors);
            fits = p->buffer_of[other] != p->buffer_of[t] || other == t ||
                   (is_whole(p, other) && hd_shape_equal(p->tensors[other].layout.shape, out->layout.shape));
        }
        if (fits) return b;
    }
    return NULL;
}

static char nothing[64]; /* where values without elements lie */

/* Buffers begin at the launch that first fills them, and end with the last one that reads them. */
static hd_error lay_out(hd_thread *thread, plan *p) {
    uint32_t *next = hd_array_resize(NULL, (p->buffer_count + 1) * sizeof *next); /* lists of buffers by last launch */
    uint32_t *ending = hd_array_resize(NULL, (p->launch_count + 1) * sizeof *ending);
    arena a = {.top = 0};
    hd_error status = next == NULL || ending == NULL ? hd_fail(HD_ERROR_MEMORY, "no memory for a plan") : HD_OK;
    if (status == HD_OK) {
        for (uint32_t i = 0; i < p->buffer_count; ++i) p->buffers[i]->last = NONE;
        for (uint32_t i = 0; i < p->launch_count; ++i) {
            const hd_call *c = &p->launches[i]->call;
            for (int k = 0; k < c->input_count; ++k) p->buffers[p->buffer_of[c->inputs[k] - p->tensors]]->last = i;
            p->buffers[p->buffer_of[c->outputs[0] - p->tensors]]->last = i;
            ending[i] = NONE;
        }
        for (uint32_t i = 0; i < p->buffer_count; ++i) {
            const buffer *b = p->buffers[i];
            if (b->room != IN_ARENA || b->last == NONE) continue;
            next[i] = ending[b->last];
            ending[b->last] = i;
        }
    }
    for (uint32_t i = 0; i < p->launch_count && status == HD_OK; ++i) {
        buffer *out = p->buffers[p->buffer_of[p->launches[i]->call.outputs[0] - p->tensors]];
        if (out->room == IN_ARENA && out->storage.data == NULL) {
            buffer *over = overwritable(p, i);
            if (over != NULL) over->handed_on = true;
            out->offset = over != NULL ? over->offset : take(&a, rounded(out->storage.bytes));
            if (out->offset == SIZE_MAX)
                status = hd_fail(HD_ERROR_MEMORY, "the values of this script need more memory than can be addressed");
            out->storage.data = out; /* a mark: it has a place */
        }
        for (uint32_t e = ending[i]; e != NONE && status == HD_OK; e = next[e])
            if (!p->buffers[e]->handed_on)
                status = give(&a, p->buffers[e]->offset, rounded(p->buffers[e]->storage.bytes));
    }
    hd_array_release(a.holes);
    hd_array_release(next);
    hd_array_release(ending);
    if (status != HD_OK) return status;
    p->executable.arena_bytes = (int64_t)a.top;
    if (a.top > 0) {
        p->arena = hd_block_new(thread, a.top);
        if (p->arena == NULL) return HD_ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < p->buffer_count; ++i) {
        buffer *b = p->buffers[i];
        if (b->room != IN_ARENA) continue;
        b->storage.data =
            b->storage.bytes > 0 && p->arena != NULL ? (char *)hd_block_data(p->arena) + b->offset : nothing;
    }
    return HD_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------------------ */
static hd_error give_memory(hd_thread *thread, buffer *b) {
    if (b->storage.block != NULL && b->storage.block->references == 1) return HD_OK; /* nobody else looks at it */
    if (b->storage.block != NULL) hd_block_release(thread, b->storage.block);
    b->storage.block = NULL;
    b->storage.block = hd_block_new(thread, b->storage.bytes > 0 ? b->storage.bytes : 1);
    if (b->storage.block == NULL) return HD_ERROR_MEMORY;
    b->storage.data = hd_block_data(b->storage.block);
    return HD_OK;
}

static void set_given(plan *p, uint32_t node, void *data) {
    hd_storage *s = &p->buffers[p->buffer_of[node]]->storage;
    s->data = data;
}

static hd_error prepare(plan *p, hd_thread *thread, const hd_run *run) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->input_count; ++i) {
        void *bytes = hd_tensor_bytes(thread, run->inputs[i], HD_READ);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->inputs[i].node, bytes);
    }
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        void *bytes = hd_storage_bytes(thread, run->cells[i], HD_READ);
        if (bytes == NULL) return thread->error_code;
        set_given(p, g->cells[i].node, bytes);
    }
    for (uint32_t i = 0; i < p->fresh_count; ++i) HD_TRY(give_memory(thread, p->buffers[p->fresh[i]]));
    return HD_OK;
}

static hd_error run_launches(plan *p, hd_thread *thread, const hd_run *run) {
    hd_executor *executor = p->executor;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        launch *l = p->launches[i];
        hd_error status;
        if (__builtin_expect(l->is_copy, 0)) {
            status = executor->write(executor, thread, l->call.outputs[0], l->call.inputs[0]);
        } else {
            if (l->call.attributes == &l->draw) {
                l->draw.seed = run->seed;
                l->draw.draw = run->draw + ((const hd_random_attributes *)hd_node_attributes(p->graph, l->node))->draw;
            }
            status = executor->run(executor, thread, &l->call);
        }
        if (__builtin_expect(status != HD_OK, 0)) {
            hd_error_append(thread, " (in node %%%u, %s)", l->node, hd_node_name(&p->graph->nodes[l->node]));
            return status;
        }
    }
    return HD_OK;
}

/* The memory of an output becomes a tensor of its own; the next run gets new memory. */
static hd_error hand_out(plan *p, hd_thread *thread, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->output_count; ++i) {
        const hd_tensor *value = &p->tensors[p->outputs[i]];
        buffer *b = p->buffers[p->buffer_of[p->outputs[i]]];
        hd_storage *s = hd_storage_new(thread, 0);
        if (s == NULL) return thread->error_code;
        if (value->count > 0) {
            s->bytes = b->storage.bytes;
            s->data = b->storage.data;
            s->block = b->storage.block;
            b->storage.block = NULL;
            b->storage.data = NULL;
        }
        run->outputs[i] = hd_tensor_over(thread, s, (hd_dtype)value->dtype, &value->layout);
        hd_object_release(thread, &s->object);
        if (run->outputs[i] == NULL) return thread->error_code;
    }
    return HD_OK;
}

/* All new values are there: now the old ones are exchanged for them. */
static void update_state(plan *p, hd_thread *thread, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == NONE) continue;
        hd_storage *cell = run->cells[i], *fresh = &p->buffers[p->state[i]]->storage;
        if (cell->block == NULL) { /* borrowed memory stays where it is */
            memcpy(cell->data, fresh->data, cell->bytes);
        } else {
            hd_block *block = cell->block;
            cell->block = fresh->block;
            cell->data = hd_block_data(cell->block);
            fresh->block = block;
            fresh->data = hd_block_data(block);
        }
        atomic_fetch_add_explicit(&cell->version, 1, memory_order_relaxed);
    }
    (void)thread;
}

static hd_error plan_run(hd_executable *self, hd_thread *thread, const hd_run *run) {
    plan *p = (plan *)self;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_error status = prepare(p, thread, run);
    if (status == HD_OK) status = run_launches(p, thread, run);
    if (status == HD_OK) status = hand_out(p, thread, run);
    if (status == HD_OK && !run->keep_state) update_state(p, thread, run);
    thread->observer = observer;
    return status;
}

/* ---- making one -------------------------------------------------------------------------------------------------------------------------- */
static void plan_destroy(hd_executable *self, hd_thread *thread) {
    plan *p = (plan *)self;
    for (uint32_t i = 0; i < p->buffer_count; ++i) {
        if (p->buffers[i]->room != IN_ARENA && p->buffers[i]->storage.block != NULL)
            hd_block_release(thread, p->buffers[i]->storage.block);
        hd_array_release(p->buffers[i]);
    }
    for (uint32_t i = 0; i < p->launch_count; ++i) hd_array_release(p->launches[i]);
    if (p->arena != NULL) hd_block_release(thread, p->arena);
    hd_array_release(p->tensors);
    hd_array_release(p->buffer_of);
    hd_array_release(p->buffers);
    hd_array_release(p->launches);
    hd_array_release(p->outputs);
    hd_array_release(p->state);
    hd_array_release(p->fresh);
    hd_graph_release(thread, p->graph);
    hd_array_release(p);
}

static hd_error make_plan(hd_thread *thread, plan *p) {
    const hd_graph *g = p->graph;
    /* a node needs at most one header beside its own, and so do outputs and updates */
    const size_t most = (size_t)g->node_count * 2 + g->output_count + g->cell_count + 1;
    p->tensors = hd_array_resize(NULL, most * sizeof *p->tensors);
    p->buffer_of = hd_array_resize(NULL, most * sizeof *p->buffer_of);
    p->outputs = hd_array_resize(NULL, (g->output_count + 1) * sizeof *p->outputs);
    p->state = hd_array_resize(NULL, (g->cell_count + 1) * sizeof *p->state);
    if (p->tensors == NULL || p->buffer_of == NULL || p->outputs == NULL || p->state == NULL)
        return hd_fail(HD_ERROR_MEMORY, "no memory for a plan of %u nodes", g->node_count);
    memset(p->tensors, 0, most * sizeof *p->tensors);
    p->tensor_count = g->node_count;
    for (uint32_t i = 0; i < g->node_count; ++i) HD_TRY(plan_node(p, i));
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        p->state[i] = NONE;
        if (g->cells[i].update == g->cells[i].node) continue;
        uint32_t leaves;
        HD_TRY(leaving(p, g->cells[i].update, IN_STATE, i, &leaves));
        p->state[i] = p->buffer_of[leaves];
    }
    for (uint32_t i = 0; i < g->output_count; ++i) HD_TRY(leaving(p, g->outputs[i].node, IN_OUTPUT, i, &p->outputs[i]));
    p->fresh = hd_array_resize(NULL, (g->output_count + g->cell_count + 1) * sizeof *p->fresh);
    if (p->fresh == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i]->room == IN_OUTPUT || p->buffers[i]->room == IN_STATE) p->fresh[p->fresh_count++] = i;
    p->executable.launches = p->launch_count;
    p->executable.nodes = g->node_count;
    return lay_out(thread, p);
}

hd_executable *hd_plan_compile(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level) {
    plan *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    p->executable = (hd_executable){.run = plan_run, .destroy = plan_destroy};
    p->executor = hd_device_executor(device);
    if (level == HD_O0) {
        hd_object_retain(&graph->object);
        p->graph = graph;
    } else {
        p->graph = hd_graph_simplify(thread, graph);
    }
    if (p->graph != NULL && p->executor != NULL && make_plan(thread, p) == HD_OK) return &p->executable;
    if (p->executor == NULL) hd_fail(HD_ERROR_DEVICE, "the script's device is not available");
    plan_destroy(&p->executable, thread);
    return NULL;
}
