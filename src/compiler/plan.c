/* Plans: a graph as a flat list of launches, with all memory laid out in advance.
 *
 * A launch is a native kernel, a matrix product with what follows it, or a call of the device's own kernels. Every value that
 * is in memory has a tensor header, made once; views are only headers over the buffer they look at. Buffers of values that
 * live during the run lie in one arena, shared by those that do not live at the same time; outputs get new memory in every
 * run. A run that fails leaves state as it was: a new value is written over the old one only where nothing can fail any
 * more; else it is made beside it, and the two are exchanged when the whole run went well. */
#include "compiler/arena.h"
#include "compiler/dump.h"
#include "compiler/lower.h"
#include "core/device.h"
#include "core/pool.h"
#include "device/cpu/check_index.h"
#include "device/cpu/product.h"
#include "script/executable.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NONE UINT32_MAX

typedef enum room { IN_ARENA, IN_OUTPUT, IN_STATE, IN_CELL, GIVEN } room; /* GIVEN: inputs, constants, cells */

typedef struct buffer {
    hd_storage storage; /* its header, which kernels see; never released */
    room room;
    uint32_t first, last; /* the launch that fills it, and the last that uses it; NONE */
    uint32_t cell;        /* IN_CELL: the one whose memory it is, */
    bool in_place;        /* in this run: somebody else may look at that memory */
    size_t offset;        /* in the arena */
    bool placed;          /* it has an offset */
    bool handed_on;       /* a launch writes its result over it */
} buffer;

typedef enum launch_kind { RUN_CALL, RUN_COPY, RUN_CHECK, RUN_KERNEL, RUN_PRODUCT } launch_kind;
typedef struct launch {
    uint8_t kind; /* launch_kind */
    uint16_t inputs, outputs;
    uint32_t node;
    uint32_t first;  /* operands[first ...]: tensors, its inputs and then its outputs */
    uint32_t call;   /* in calls; NONE */
    uint32_t native; /* in natives; NONE */
} launch;

typedef struct call {
    hd_call call;
    hd_random_attributes draw; /* of a random op: the call's attributes */
    /* of a product: its second operand, packed while it stays what it was */
    hd_block *packed;
    size_t packed_bytes; /* 0: it is not kept */
    const void *packed_data;
    uint32_t packed_version;
    uint32_t cell; /* the cell it is; NONE: a constant */
} call;

typedef struct native {
    hd_native native;
    uint32_t tensors[HD_KERNEL_BUFFERS]; /* of each buffer; NONE: the tile of a product */
    int tile;                            /* which buffer that is; -1 */
} native;

typedef struct plan {
    hd_executable executable;
    hd_graph *graph;
    hd_executor *executor;
    hd_fusion fusion;
    hd_tensor *tensors; /* of each node; behind them those of copies and of parts that a write fills */
    uint32_t tensor_count;
    uint32_t *buffer_of; /* of each tensor; NONE: it is not made yet */
    buffer *buffers;
    uint32_t buffer_count;
    launch *launches;
    uint32_t launch_count;
    call *calls;
    uint32_t call_count;
    native **natives;
    uint32_t native_count;
    uint32_t *operands; /* tensors of launches */
    hd_tensor **pointers;
    uint32_t operand_count, operand_capacity;
    uint32_t *outputs; /* the tensor of each output */
    hd_block *arena;
    uint32_t *fresh; /* buffers that need memory of their own in every run */
    uint32_t fresh_count;
    uint32_t *state; /* for each cell: the buffer of its update; NONE: unchanged */
    hd_block *room;  /* memory that launches work in, made for so many threads */
    int room_threads;
} plan;

static hd_error no_memory(const plan *p) {
    return hd_fail(HD_ERROR_MEMORY, "no memory for a plan of %u nodes", p->graph->node_count);
}

/* ---- parts ------------------------------------------------------------------------------------------------------------ */
static uint32_t new_buffer(plan *p, room kind, size_t bytes) {
    buffer *b = &p->buffers[p->buffer_count];
    memset(b, 0, sizeof *b);
    b->room = kind;
    b->storage.object.references = 1 << 20; /* never the last one */
    b->storage.bytes = bytes;
    b->storage.device = hd_cpu();
    return p->buffer_count++;
}

static void set_tensor(plan *p, uint32_t index, uint32_t b, hd_storage *storage, hd_dtype dtype,
                       const hd_layout *layout) {
    hd_tensor *t = &p->tensors[index];
    memset(t, 0, sizeof *t);
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
static void own_tensor(plan *p, uint32_t index, room kind, hd_dtype dtype, const hd_shape *shape) {
    const uint32_t b = new_buffer(p, kind, (size_t)hd_shape_count(*shape) * hd_dtype_bytes[dtype]);
    hd_layout layout;
    hd_layout_contiguous(&layout, shape);
    set_tensor(p, index, b, &p->buffers[b].storage, dtype, &layout);
}

/* One more tensor behind those of the nodes. The array was made large enough. */
static uint32_t spare_tensor(plan *p) {
    p->buffer_of[p->tensor_count] = NONE;
    return p->tensor_count++;
}

static launch *new_launch(plan *p, launch_kind kind, uint32_t node) {
    launch *l = &p->launches[p->launch_count++];
    *l = (launch){.kind = (uint8_t)kind, .node = node, .first = p->operand_count, .call = NONE, .native = NONE};
    return l;
}

static hd_error add_operand(plan *p, uint32_t tensor) {
    if (p->operand_count == p->operand_capacity) {
        const uint32_t capacity = p->operand_capacity ? p->operand_capacity * 2 : 256;
        uint32_t *moved = hd_array_resize(p->operands, capacity * sizeof *moved);
        if (moved == NULL) return no_memory(p);
        p->operands = moved;
        p->operand_capacity = capacity;
    }
    p->operands[p->operand_count++] = tensor;
    return HD_OK;
}
static hd_error add_input(plan *p, launch *l, uint32_t tensor) {
    l->inputs++;
    return add_operand(p, tensor);
}
static hd_error add_output(plan *p, launch *l, uint32_t tensor) {
    l->outputs++;
    return add_operand(p, tensor);
}

static hd_error add_copy(plan *p, uint32_t node, uint32_t to, uint32_t from) {
    launch *l = new_launch(p, RUN_COPY, node);
    HD_TRY(add_input(p, l, from));
    return add_output(p, l, to);
}

/* The value of a node, contiguous and at the beginning of what it is a part of. */
static hd_error packed(plan *p, uint32_t node, uint32_t index, uint32_t *out) {
    *out = index;
    if (p->tensors[index].contiguous) return HD_OK;
    *out = spare_tensor(p);
    own_tensor(p, *out, IN_ARENA, (hd_dtype)p->tensors[index].dtype, &p->tensors[index].layout.shape);
    return add_copy(p, node, *out, index);
}

/* ---- headers ------------------------------------------------------------------------------------------------------------ */
static hd_error make_view(plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    const void *attributes = hd_node_attributes(p->graph, i);
    hd_layout layout;
    uint32_t from = hd_node_inputs(p->graph, i)[0];
    const uint32_t input = from;
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

/* Makes the header of a view, and of the views it looks through, from the innermost outwards. */
static hd_error need(plan *p, uint32_t node) {
    while (p->buffer_of[node] == NONE) {
        uint32_t at = node;
        while (p->buffer_of[hd_node_inputs(p->graph, at)[0]] == NONE) at = hd_node_inputs(p->graph, at)[0];
        HD_TRY(make_view(p, at));
        if (at == node) break;
    }
    return HD_OK;
}

/* Headers of all that is given or stored; those of views are made where they are first needed. */
static void make_headers(plan *p) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        p->buffer_of[i] = NONE;
        const bool given = !hd_node_is_op(n) && n->op != HD_NODE_WRITE;
        if (!given && p->fusion.group_of[i] == HD_NO_GROUP) continue; /* a view, or a number */
        const hd_shape shape = hd_node_shape(g, i);
        if (given || p->fusion.stored[i] || p->fusion.groups[p->fusion.group_of[i]].kind == HD_GROUP_CALL) {
            own_tensor(p, i, given ? GIVEN : IN_ARENA, (hd_dtype)n->dtype, &shape);
        } else if (hd_node_op(n)->family ==
                   HD_FAMILY_CONTRACT) { /* never in memory as a whole: only what it looks like */
            hd_layout layout;
            hd_layout_contiguous(&layout, &shape);
            set_tensor(p, i, NONE, NULL, (hd_dtype)n->dtype, &layout);
        }
        if (n->op == HD_NODE_CONSTANT) p->tensors[i].storage = g->constants[n->first].storage;
    }
}

/* ---- launches -------------------------------------------------------------------------------------------------------------- */
static hd_error plan_write(plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    HD_TRY(add_copy(p, i, i, inputs[0]));
    const uint32_t part = spare_tensor(p);
    const hd_strided_attributes *attributes = hd_node_attributes(p->graph, i);
    set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &attributes->layout);
    return add_copy(p, i, part, inputs[1]);
}

/* The device's own op on a node's inputs. */
static call *new_call(plan *p, uint32_t i, launch *l) {
    const hd_node *n = &p->graph->nodes[i];
    call *c = &p->calls[p->call_count];
    l->call = p->call_count++;
    memset(c, 0, sizeof *c);
    c->call = (hd_call){.op = hd_node_op(n), .output_count = 1, .given = true, .compute = (hd_dtype)n->compute};
    c->call.dtype[0] = (hd_dtype)n->dtype;
    c->call.shape[0] = hd_node_shape(p->graph, i);
    c->call.attributes = hd_node_attributes(p->graph, i);
    if (c->call.op->family == HD_FAMILY_RANDOM) c->draw = *(const hd_random_attributes *)c->call.attributes;
    return c;
}

static hd_error plan_call(plan *p, uint32_t i, launch_kind kind) {
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(need(p, inputs[k]));
    if (n->op == HD_NODE_WRITE) return plan_write(p, i);
    launch *l = new_launch(p, kind, i);
    new_call(p, i, l);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(add_input(p, l, inputs[k]));
    return add_output(p, l, i);
}

/* The product of a group: its first member that is one. */
static uint32_t product_of(const plan *p, const hd_group *group) {
    const uint32_t *members = p->fusion.members + group->first;
    for (uint32_t i = 0; i < group->count; ++i)
        if (hd_node_op(&p->graph->nodes[members[i]])->family == HD_FAMILY_CONTRACT) return members[i];
    return NONE;
}

static hd_error need_inputs(plan *p, const hd_group *group) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < group->count; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        for (int k = 0; k < g->nodes[node].input_count; ++k) {
            const uint32_t in = hd_node_inputs(g, node)[k], source = p->fusion.source[in];
            const uint32_t from = p->fusion.group_of[source];
            const bool inside = from != HD_NO_GROUP && &p->fusion.groups[from] == group;
            if (!inside && p->buffer_of[source] != NONE) HD_TRY(need(p, in));
        }
    }
    return HD_OK;
}

/* Indices that members of a group use, before it runs. */
static hd_error plan_checks(plan *p, const hd_group *group) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; group->checks && i < group->count; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        if (g->nodes[node].op != HD_OP_gather && g->nodes[node].op != HD_OP_scatter) continue;
        launch *l = new_launch(p, RUN_CHECK, node);
        HD_TRY(add_input(p, l, hd_node_inputs(g, node)[1]));
    }
    return HD_OK;
}

static hd_error plan_kernel(plan *p, hd_lowering *lowering, const hd_group *group) {
    HD_TRY(need_inputs(p, group));
    HD_TRY(plan_checks(p, group));
    const uint32_t product = group->kind == HD_GROUP_PRODUCT ? product_of(p, group) : NONE;
    const uint32_t last = p->fusion.members[group->first + group->count - 1];
    native *n = hd_array_resize(NULL, sizeof *n);
    if (n == NULL) return no_memory(p);
    hd_lowered lowered;
    const hd_error status = hd_lower(lowering, group, &lowered);
    if (status != HD_OK) {
        hd_array_release(n);
        return status;
    }
    n->native = lowered.native;
    n->tile = -1;
    p->natives[p->native_count++] = n;
    launch *l = new_launch(p, product == NONE ? RUN_KERNEL : RUN_PRODUCT, product == NONE ? last : product);
    l->native = p->native_count - 1;
    const hd_kernel *k = &n->native.shape;
    for (int b = 0; b < k->buffer_count; ++b) {
        n->tensors[b] = lowered.nodes[b] == HD_TILE_BUFFER ? NONE : lowered.nodes[b];
        if (n->tensors[b] == NONE) n->tile = b;
    }
    if (product != NONE) { /* its operands first */
        new_call(p, product, l);
        HD_TRY(add_input(p, l, hd_node_inputs(p->graph, product)[0]));
        HD_TRY(add_input(p, l, hd_node_inputs(p->graph, product)[1]));
    }
    for (int b = 0; b < k->buffer_count; ++b)
        if (!k->buffers[b].written && n->tensors[b] != NONE) HD_TRY(add_input(p, l, n->tensors[b]));
    for (int b = 0; b < k->buffer_count; ++b)
        if (k->buffers[b].written) HD_TRY(add_output(p, l, n->tensors[b]));
    return HD_OK;
}

/* All kernels of the plan at once, so that they are compiled side by side. */
static hd_error compile_kernels(hd_thread *thread, plan *p) {
    if (p->native_count == 0) return HD_OK;
    const hd_kernel **kernels = hd_array_resize(NULL, p->native_count * sizeof *kernels);
    hd_code **codes = hd_array_resize(NULL, p->native_count * sizeof *codes);
    hd_error status = kernels == NULL || codes == NULL ? no_memory(p) : HD_OK;
    for (uint32_t i = 0; i < p->native_count && status == HD_OK; ++i) kernels[i] = &p->natives[i]->native.shape;
    if (status == HD_OK) status = hd_code_get(thread, kernels, (int)p->native_count, codes, &p->executable.code);
    for (uint32_t i = 0; i < p->native_count && status == HD_OK; ++i) p->natives[i]->native.code = codes[i];
    hd_array_release(kernels);
    hd_array_release(codes);
    return status;
}

/* ---- what leaves the run ------------------------------------------------------------------------------------------------------ */
static bool is_all_of_its_buffer(const plan *p, uint32_t tensor) {
    const hd_tensor *t = &p->tensors[tensor];
    const buffer *b = &p->buffers[p->buffer_of[tensor]];
    return t->storage == &b->storage && t->contiguous && t->layout.offset == 0 &&
           (size_t)t->count * hd_dtype_bytes[t->dtype] == b->storage.bytes;
}
/* The same, and the buffer is in the arena. */
static bool is_whole(const plan *p, uint32_t tensor) {
    return p->buffers[p->buffer_of[tensor]].room == IN_ARENA && is_all_of_its_buffer(p, tensor);
}

/* The tensor in which a value leaves: the value itself, or a copy when its buffer is not its own to give away. */
static hd_error leaving(plan *p, uint32_t node, room kind, uint32_t *out) {
    HD_TRY(need(p, node));
    *out = node;
    if (!is_whole(p, node)) {
        const hd_shape shape = p->tensors[node].layout.shape;
        *out = spare_tensor(p);
        own_tensor(p, *out, kind, (hd_dtype)p->tensors[node].dtype, &shape);
        HD_TRY(add_copy(p, node, *out, node));
    }
    p->buffers[p->buffer_of[*out]].room = kind;
    return HD_OK;
}

/* ---- the arena ------------------------------------------------------------------------------------------------------------------ */
/* That a kernel reads a buffer only where it writes this output, and before it does, so that it may write over it. */
static bool kernel_may_overwrite(const plan *p, const launch *l, uint32_t in, uint32_t out) {
    if (l->native == NONE) return false;
    const native *n = p->natives[l->native];
    const hd_kernel *k = &n->native.shape;
    const int64_t *geometry = n->native.geometry;
    int to = -1;
    for (int b = 0; b < k->buffer_count; ++b)
        if (n->tensors[b] == out && k->buffers[b].written) to = b;
    if (to < 0) return false;
    for (int a = k->kept; a < k->axes;
         ++a) /* inside the reduced axes a later walk may read what an earlier one wrote */
        if (geometry[hd_geometry_stride(k, to, a)] != 0) return false;
    for (int b = 0; b < k->buffer_count; ++b) {
        if (n->tensors[b] == NONE || k->buffers[b].written || p->buffer_of[n->tensors[b]] != p->buffer_of[in]) continue;
        for (int a = 0; a < k->axes; ++a)
            if (geometry[hd_geometry_stride(k, b, a)] != geometry[hd_geometry_stride(k, to, a)]) return false;
        if (!is_all_of_its_buffer(p, n->tensors[b])) return false;
    }
    if (l->kind == RUN_PRODUCT) /* the product itself reads its operands all over */
        for (uint32_t i = 0; i < 2; ++i)
            if (p->buffer_of[p->operands[l->first + i]] == p->buffer_of[in]) return false;
    return true;
}

static bool call_may_overwrite(const plan *p, const launch *l, uint32_t in, uint32_t out) {
    const hd_op *op = l->kind == RUN_CALL ? p->calls[l->call].call.op : NULL;
    if (op == NULL || (op->family != HD_FAMILY_ELEMENTWISE && op->family != HD_FAMILY_DERIVATIVE)) return false;
    for (int k = 0; k < l->inputs; ++k) { /* another view of it would be read when it is half written */
        const uint32_t other = p->operands[l->first + (uint32_t)k];
        if (p->buffer_of[other] == p->buffer_of[in] && other != in &&
            !(is_whole(p, other) && hd_shape_equal(p->tensors[other].layout.shape, p->tensors[out].layout.shape)))
            return false;
    }
    return true;
}

/* The input over which a launch may write an output: of its type and shape, read for the last time. NULL: none. */
static buffer *overwritable(const plan *p, uint32_t index, uint32_t out) {
    const launch *l = &p->launches[index];
    if (l->kind == RUN_COPY || l->kind == RUN_CHECK || !is_whole(p, out)) return NULL;
    for (int k = l->kind == RUN_PRODUCT ? 2 : 0; k < l->inputs; ++k) {
        const uint32_t in = p->operands[l->first + (uint32_t)k];
        buffer *b = &p->buffers[p->buffer_of[in]];
        if (b->last != index || b->handed_on || !is_whole(p, in) || p->tensors[in].dtype != p->tensors[out].dtype ||
            !hd_shape_equal(p->tensors[in].layout.shape, p->tensors[out].layout.shape))
            continue;
        if (l->kind == RUN_CALL ? call_may_overwrite(p, l, in, out) : kernel_may_overwrite(p, l, in, out)) return b;
    }
    return NULL;
}

static char nothing[64]; /* where values without elements lie */

static hd_error place_outputs(plan *p, hd_arena *a, uint32_t i) {
    const launch *l = &p->launches[i];
    for (uint32_t k = l->inputs; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const uint32_t tensor = p->operands[l->first + k];
        buffer *out = &p->buffers[p->buffer_of[tensor]];
        if (out->room != IN_ARENA || out->placed) continue;
        buffer *over = overwritable(p, i, tensor);
        if (over != NULL) over->handed_on = true;
        out->offset = over != NULL ? over->offset : hd_arena_take(a, hd_arena_rounded(out->storage.bytes));
        out->placed = true;
        if (out->offset == SIZE_MAX)
            return hd_fail(HD_ERROR_MEMORY, "the values of this script need more memory than can be addressed");
    }
    return HD_OK;
}

/* Buffers begin at the launch that first fills them, and end with the last one that reads them. */
static void find_uses(plan *p) {
    for (uint32_t i = 0; i < p->buffer_count; ++i) p->buffers[i].first = p->buffers[i].last = NONE;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const launch *l = &p->launches[i];
        for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
            buffer *b = &p->buffers[p->buffer_of[p->operands[l->first + k]]];
            b->last = i;
            if (k >= l->inputs && b->first == NONE) b->first = i;
        }
    }
}

static bool launch_can_fail(const plan *p, const launch *l) {
    if (l->kind == RUN_CHECK) return true;
    if (l->kind == RUN_CALL) return hd_op_can_fail(p->calls[l->call].call.op);
    const hd_tensor *x = l->kind == RUN_PRODUCT ? &p->tensors[p->operands[l->first]] : NULL;
    return x != NULL && p->calls[l->call].call.op->id == HD_OP_affine &&
           !x->contiguous; /* it takes memory for a copy */
}

/* The new value of a cell is written over the old one when it is made by a kernel that reads the old one, if at all, point by
 * point; nobody reads the old one after that; and nothing after that can fail. */
static void write_in_place(plan *p) {
    uint32_t failing = 0; /* launches up to the last that can fail */
    for (uint32_t i = 0; i < p->launch_count; ++i)
        if (launch_can_fail(p, &p->launches[i])) failing = i + 1;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == NONE) continue;
        const uint32_t update = p->graph->cells[i].update, node = p->graph->cells[i].node;
        buffer *fresh = &p->buffers[p->state[i]], *old = &p->buffers[p->buffer_of[node]];
        if (p->buffer_of[update] != p->state[i] || fresh->first == NONE || fresh->first < failing) continue;
        const launch *l = &p->launches[fresh->first];
        if (l->native == NONE || (old->last != NONE && old->last > fresh->first)) continue;
        if (old->last == fresh->first && !kernel_may_overwrite(p, l, node, update)) continue;
        fresh->room = IN_CELL;
        fresh->cell = i;
    }
}

static hd_error find_places(plan *p, hd_arena *a, uint32_t *next, uint32_t *ending) {
    for (uint32_t i = 0; i < p->launch_count; ++i) ending[i] = NONE;
    for (uint32_t i = 0; i < p->buffer_count; ++i) { /* lists of buffers by last launch */
        const buffer *b = &p->buffers[i];
        if (b->room != IN_ARENA || b->last == NONE) continue;
        next[i] = ending[b->last];
        ending[b->last] = i;
    }
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        HD_TRY(place_outputs(p, a, i));
        for (uint32_t e = ending[i]; e != NONE; e = next[e])
            if (!p->buffers[e].handed_on)
                HD_TRY(hd_arena_give(a, p->buffers[e].offset, hd_arena_rounded(p->buffers[e].storage.bytes)));
    }
    return HD_OK;
}

static hd_error lay_out(hd_thread *thread, plan *p) {
    uint32_t *next = hd_array_resize(NULL, (p->buffer_count + 1) * sizeof *next);
    uint32_t *ending = hd_array_resize(NULL, (p->launch_count + 1) * sizeof *ending);
    hd_arena a = {.top = 0};
    const hd_error status = next == NULL || ending == NULL ? no_memory(p) : find_places(p, &a, next, ending);
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
        buffer *b = &p->buffers[i];
        if (b->room != IN_ARENA) continue;
        b->storage.data =
            b->storage.bytes > 0 && p->arena != NULL ? (char *)hd_block_data(p->arena) + b->offset : nothing;
    }
    return HD_OK;
}

/* ---- running -------------------------------------------------------------------------------------------------------------------- */
static hd_error give_memory(hd_thread *thread, buffer *b) {
    if (b->storage.block != NULL && b->storage.block->references == 1) return HD_OK; /* nobody else looks at it */
    if (b->storage.block != NULL) hd_block_release(thread, b->storage.block);
    b->storage.block = NULL;
    b->storage.block = hd_block_new(thread, b->storage.bytes > 0 ? b->storage.bytes : 1);
    if (b->storage.block == NULL) return HD_ERROR_MEMORY;
    b->storage.data = hd_block_data(b->storage.block);
    return HD_OK;
}

static void set_given(plan *p, uint32_t node, void *data) { p->buffers[p->buffer_of[node]].storage.data = data; }

/* Memory that launches work in: enough for the one that needs most. */
static hd_error make_working_room(plan *p, hd_thread *thread) {
    const int threads = hd_pool_threads();
    if (p->room_threads == threads) return HD_OK;
    size_t most = 0;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const launch *l = &p->launches[i];
        const hd_product product = {.call = l->call == NONE ? NULL : &p->calls[l->call].call};
        const size_t bytes = l->kind == RUN_KERNEL    ? hd_native_room(&p->natives[l->native]->native)
                             : l->kind == RUN_PRODUCT ? hd_cpu_product_room(&product)
                                                      : 0;
        if (bytes > most) most = bytes;
    }
    if (p->room != NULL) hd_block_release(thread, p->room);
    p->room = NULL;
    if (most > 0 && (p->room = hd_block_new(thread, most)) == NULL) return HD_ERROR_MEMORY;
    p->room_threads = threads;
    return HD_OK;
}

/* The tensors that the run gives, still without memory: taken before anything is computed, so that nothing fails after. */
static hd_error take_outputs(const plan *p, hd_thread *thread, const hd_run *run) {
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

/* Weights that a run does not change are packed once, and again when somebody else has changed them. */
static hd_error pack_weights(hd_thread *thread, call *c, const hd_run *run) {
    if (c->packed_bytes == 0) return HD_OK;
    const hd_storage *s = c->cell == NONE ? c->call.inputs[1]->storage : run->cells[c->cell];
    const uint32_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    if (c->packed != NULL && (c->cell == NONE || (c->packed_data == s->data && c->packed_version == version)))
        return HD_OK;
    if (c->packed == NULL) c->packed = hd_block_new(thread, c->packed_bytes);
    if (c->packed == NULL) return HD_ERROR_MEMORY;
    c->packed_data = s->data;
    c->packed_version = version;
    return hd_cpu_product_pack(thread, &c->call, hd_block_data(c->packed));
}

/* That nobody else looks at a cell's memory: no snapshot, and no input of this run. */
static bool is_alone(const plan *p, const hd_run *run, uint32_t cell) {
    const hd_storage *s = run->cells[cell];
    if (s->home != NULL || (s->block != NULL && s->block->references > 1)) return false;
    for (uint32_t i = 0; i < p->graph->input_count; ++i)
        if (run->inputs[i]->storage == s || run->inputs[i]->storage->block == NULL) return false;
    return true;
}

/* Constants that are still in a file are read before anything is computed. */
static hd_error read_constants(const plan *p, hd_thread *thread) {
    for (uint32_t i = 0; i < p->graph->constant_count; ++i) {
        hd_storage *s = p->graph->constants[i].storage;
        if (s->home != NULL && hd_storage_bytes(thread, s, HD_READ) == NULL) return thread->error_code;
    }
    return HD_OK;
}

static hd_error prepare(plan *p, hd_thread *thread, const hd_run *run) {
    const hd_graph *g = p->graph;
    HD_TRY(make_working_room(p, thread));
    HD_TRY(take_outputs(p, thread, run));
    HD_TRY(read_constants(p, thread));
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
    for (uint32_t i = 0; i < p->call_count; ++i) HD_TRY(pack_weights(thread, &p->calls[i], run));
    for (uint32_t i = 0; i < p->fresh_count; ++i) {
        buffer *b = &p->buffers[p->fresh[i]];
        b->in_place = b->room == IN_CELL && !run->keep_state && is_alone(p, run, b->cell);
        if (b->in_place)
            b->storage.data = run->cells[b->cell]->data;
        else
            HD_TRY(give_memory(thread, b));
    }
    return HD_OK;
}

static hd_error addresses(const plan *p, hd_thread *thread, const native *n, char **out) {
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        if (b == n->tile) continue;
        out[b] = hd_tensor_bytes(thread, &p->tensors[n->tensors[b]], HD_READ);
        if (out[b] == NULL) return thread->error_code;
    }
    return HD_OK;
}

static char *room_of(const plan *p) { return p->room == NULL ? NULL : hd_block_data(p->room); }

static hd_error run_kernel(const plan *p, hd_thread *thread, const launch *l) {
    char *buffers[HD_KERNEL_BUFFERS];
    const native *n = p->natives[l->native];
    HD_TRY(addresses(p, thread, n, buffers));
    hd_native_run(&n->native, buffers, room_of(p), p->room == NULL ? 0 : p->room->capacity);
    return HD_OK;
}

typedef struct finishing {
    const native *n;
    char *buffers[HD_KERNEL_BUFFERS];
} finishing;

/* A part of a product is in cache: what follows it is computed there. Its rows are those of all outer axes in one. */
static void finish_tile(void *context, const void *tile, int64_t stride, int64_t row, int64_t rows, int64_t column,
                        int64_t columns) {
    const finishing *f = context;
    const hd_native *n = &f->n->native;
    const int last = n->shape.kept - 1; /* the columns */
    while (rows > 0) {
        int64_t begin[HD_KERNEL_AXES] = {0}, size[HD_KERNEL_AXES], rest = row;
        for (int a = last - 1; a >= 0; --a) {
            begin[a] = rest % n->geometry[a];
            rest /= n->geometry[a];
            size[a] = 1;
        }
        const int64_t left = n->geometry[last - 1] - begin[last - 1], count = rows < left ? rows : left;
        size[last - 1] = count;
        begin[last] = column;
        size[last] = columns;
        hd_native_run_tile(n, f->buffers, f->n->tile, tile, stride, begin, size);
        tile = (const char *)tile + count * stride * hd_dtype_bytes[n->shape.buffers[f->n->tile].dtype];
        row += count;
        rows -= count;
    }
}

static hd_error run_product(const plan *p, hd_thread *thread, const launch *l) {
    call *c = &p->calls[l->call];
    hd_product product = {.call = &c->call, .room = room_of(p)};
    if (p->room != NULL) product.room_bytes = p->room->capacity;
    if (c->packed != NULL) product.packed = hd_block_data(c->packed);
    if (l->native != NONE) {
        finishing f = {.n = p->natives[l->native]};
        HD_TRY(addresses(p, thread, f.n, f.buffers));
        product.finish = finish_tile;
        product.context = &f;
        return hd_cpu_product(thread, &product);
    }
    const hd_tensor *out = c->call.outputs[0];
    if (l->inputs > 2 && !c->call.inputs[2]->contiguous) return p->executor->run(p->executor, thread, &c->call);
    hd_plain_finish f = {.dtype = (hd_dtype)out->dtype, .out = out->storage->data};
    f.columns = out->layout.shape.size[out->layout.shape.rank - 1];
    if (l->inputs > 2) {
        f.bias = hd_tensor_bytes(thread, c->call.inputs[2], HD_READ);
        if (f.bias == NULL) return thread->error_code;
    }
    product.finish = hd_cpu_product_store;
    product.context = &f;
    return hd_cpu_product(thread, &product);
}

static hd_error run_call(const plan *p, hd_thread *thread, const launch *l, const hd_run *run) {
    call *c = &p->calls[l->call];
    if (c->call.attributes == &c->draw) {
        c->draw.seed = run->seed;
        c->draw.draw = run->draw + ((const hd_random_attributes *)hd_node_attributes(p->graph, l->node))->draw;
    }
    return p->executor->run(p->executor, thread, &c->call);
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static hd_error run_check(const plan *p, hd_thread *thread, const launch *l) {
    const hd_graph *g = p->graph;
    const void *attributes = hd_node_attributes(g, l->node);
    const int axis = g->nodes[l->node].op == HD_OP_gather ? ((const hd_axis_attributes *)attributes)->axis
                                                          : ((const hd_scatter_attributes *)attributes)->axis;
    const hd_shape shape = hd_node_shape(g, hd_node_inputs(g, l->node)[0]);
    return hd_cpu_check_index(thread, p->pointers[l->first], shape.size[axis]);
}

static hd_error run_launches(plan *p, hd_thread *thread, const hd_run *run) {
    int64_t begin = run->nanoseconds != NULL ? nanoseconds() : 0;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const launch *l = &p->launches[i];
        hd_tensor **operands = p->pointers + l->first;
        const hd_error status = l->kind == RUN_KERNEL    ? run_kernel(p, thread, l)
                                : l->kind == RUN_PRODUCT ? run_product(p, thread, l)
                                : l->kind == RUN_CHECK   ? run_check(p, thread, l)
                                : l->kind == RUN_CALL
                                    ? run_call(p, thread, l, run)
                                    : p->executor->write(p->executor, thread, operands[1], operands[0]);
        if (__builtin_expect(status != HD_OK, 0)) {
            hd_error_append(thread, " (in node %%%u, %s)", l->node, hd_node_name(&p->graph->nodes[l->node]));
            return status;
        }
        if (__builtin_expect(run->nanoseconds != NULL, 0)) {
            const int64_t end = nanoseconds();
            run->nanoseconds[i] += end - begin;
            begin = end;
        }
    }
    return HD_OK;
}

/* The memory of an output becomes that of the tensor it is given in; the next run gets new memory. */
static void hand_out(plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->output_count; ++i) {
        buffer *b = &p->buffers[p->buffer_of[p->outputs[i]]];
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
static void update_state(plan *p, const hd_run *run) {
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == NONE) continue;
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
        atomic_fetch_add_explicit(&cell->version, 1, memory_order_relaxed);
    }
}

static hd_error plan_run(hd_executable *self, hd_thread *thread, const hd_run *run) {
    plan *p = (plan *)self;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_error status = prepare(p, thread, run);
    if (status == HD_OK) status = run_launches(p, thread, run);
    if (status == HD_OK) hand_out(p, run);
    if (status == HD_OK && !run->keep_state) update_state(p, run);
    thread->observer = observer;
    return status;
}

/* ---- looking ---------------------------------------------------------------------------------------------------------- */
static void describe_kernel(const native *n, hd_launch_figures *out) {
    double points = 1;
    for (int a = 0; a < n->native.shape.axes; ++a) points *= (double)n->native.geometry[a];
    out->operations += points * n->native.operations;
}

static void describe_members(const plan *p, const launch *l, hd_launch_figures *out) {
    const hd_group *group = &p->fusion.groups[p->fusion.group_of[l->node]];
    size_t at = (size_t)snprintf(out->what, sizeof out->what, "%s",
                                 l->kind == RUN_COPY    ? "copy for"
                                 : l->kind == RUN_CHECK ? "check indices of"
                                                        : "");
    for (uint32_t i = 0; i < group->count && at < sizeof out->what; ++i)
        at += (size_t)snprintf(out->what + at, sizeof out->what - at, "%s%s", at > 0 ? " " : "",
                               hd_node_name(&p->graph->nodes[p->fusion.members[group->first + i]]));
}

static void plan_describe(const hd_executable *self, int64_t index, hd_launch_figures *out) {
    const plan *p = (const plan *)self;
    const launch *l = &p->launches[index];
    *out = (hd_launch_figures){.operations = 0};
    if (p->fusion.group_of[l->node] != HD_NO_GROUP)
        describe_members(p, l, out);
    else
        snprintf(out->what, sizeof out->what, "copy of %s", hd_node_name(&p->graph->nodes[l->node]));
    for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const hd_tensor *t = &p->tensors[p->operands[l->first + k]];
        out->bytes += (double)t->count * hd_dtype_bytes[t->dtype];
    }
    if (l->native != NONE) describe_kernel(p->natives[l->native], out);
    if (l->call != NONE && p->calls[l->call].call.op->family == HD_FAMILY_CONTRACT) {
        const hd_tensor *a = p->calls[l->call].call.inputs[0];
        const hd_matmul_attributes *turns = p->calls[l->call].call.attributes;
        const bool turned = p->calls[l->call].call.op->id == HD_OP_matmul && turns != NULL && turns->turn_a;
        const int rank = a->layout.shape.rank, axis = turned ? rank - 2 : rank - 1;
        out->operations += 2.0 * (double)p->calls[l->call].call.outputs[0]->count * (double)a->layout.shape.size[axis];
    } else if (l->call != NONE) {
        out->operations += (double)p->calls[l->call].call.outputs[0]->count;
    }
}

/* ---- making one ------------------------------------------------------------------------------------------------------------------ */
static void plan_destroy(hd_executable *self, hd_thread *thread) {
    plan *p = (plan *)self;
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i].storage.block != NULL) hd_block_release(thread, p->buffers[i].storage.block);
    for (uint32_t i = 0; i < p->call_count; ++i)
        if (p->calls[i].packed != NULL) hd_block_release(thread, p->calls[i].packed);
    for (uint32_t i = 0; i < p->native_count; ++i) {
        hd_native_release(&p->natives[i]->native);
        hd_array_release(p->natives[i]);
    }
    if (p->arena != NULL) hd_block_release(thread, p->arena);
    if (p->room != NULL) hd_block_release(thread, p->room);
    void *const arrays[] = {p->tensors,  p->buffer_of, p->buffers, p->launches, p->calls, p->natives,
                            p->operands, p->pointers,  p->outputs, p->state,    p->fresh};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    hd_fusion_release(&p->fusion);
    hd_graph_release(thread, p->graph);
    hd_array_release(p);
}

/* Room for all there can be: pages that are not used cost nothing. */
static hd_error make_room(plan *p) {
    const hd_graph *g = p->graph;
    /* a node needs at most one header beside its own, and so do outputs and updates */
    const size_t most = (size_t)g->node_count * 2 + g->output_count + g->cell_count + 1,
                 ordered = p->fusion.order_count;
    p->tensors = hd_array_resize(NULL, most * sizeof *p->tensors);
    p->buffer_of = hd_array_resize(NULL, most * sizeof *p->buffer_of);
    p->buffers = hd_array_resize(NULL, most * sizeof *p->buffers);
    p->launches = hd_array_resize(NULL, most * sizeof *p->launches);
    p->calls = hd_array_resize(NULL, (ordered + 1) * sizeof *p->calls);
    p->natives = hd_array_resize(NULL, (ordered + 1) * sizeof *p->natives);
    p->outputs = hd_array_resize(NULL, (g->output_count + 1) * sizeof *p->outputs);
    p->state = hd_array_resize(NULL, (g->cell_count + 1) * sizeof *p->state);
    p->fresh = hd_array_resize(NULL, (g->output_count + g->cell_count + 1) * sizeof *p->fresh);
    p->tensor_count = g->node_count;
    return p->tensors == NULL || p->buffer_of == NULL || p->buffers == NULL || p->launches == NULL ||
                   p->calls == NULL || p->natives == NULL || p->outputs == NULL || p->state == NULL || p->fresh == NULL
               ? no_memory(p)
               : HD_OK;
}

/* The second operand of a product when a run does not change it: a constant, or a cell that is not updated. */
static bool is_steady(const plan *p, uint32_t node, uint32_t *cell) {
    const hd_graph *g = p->graph;
    const hd_node *source = &g->nodes[p->fusion.source[node]];
    *cell = source->op == HD_NODE_CELL ? source->first : NONE;
    return source->op == HD_NODE_CONSTANT || (*cell != NONE && g->cells[*cell].update == g->cells[*cell].node);
}

/* A product alone whose weights can be kept packed. */
static bool keeps_weights(const plan *p, uint32_t node, const hd_group *group) {
    uint32_t cell;
    return group->count == 1 && is_steady(p, hd_node_inputs(p->graph, node)[1], &cell);
}

static void keep_weights(const plan *p, call *c) {
    const uint32_t node = (uint32_t)(c->call.outputs[0] - p->tensors);
    if (is_steady(p, hd_node_inputs(p->graph, node)[1], &c->cell))
        c->packed_bytes = hd_cpu_product_packed_bytes(&c->call);
}

static hd_error plan_groups(plan *p) {
    hd_lowering lowering;
    hd_error status = hd_lowering_begin(&lowering, p->graph, &p->fusion, p->tensors);
    for (uint32_t i = 0; i < p->fusion.order_count && status == HD_OK; ++i) {
        const hd_group *group = &p->fusion.groups[p->fusion.order[i]];
        const uint32_t first = p->fusion.members[group->first];
        status = group->kind == HD_GROUP_CALL                                        ? plan_call(p, first, RUN_CALL)
                 : group->kind == HD_GROUP_PRODUCT && keeps_weights(p, first, group) ? plan_call(p, first, RUN_PRODUCT)
                 : group->kind == HD_GROUP_PRODUCT && group->count == 1              ? plan_call(p, first, RUN_CALL)
                                                                                     : plan_kernel(p, &lowering, group);
    }
    hd_lowering_end(&lowering);
    return status;
}

static hd_error plan_leaving(plan *p) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        p->state[i] = NONE;
        if (g->cells[i].update == g->cells[i].node) continue;
        uint32_t leaves;
        HD_TRY(leaving(p, g->cells[i].update, IN_STATE, &leaves));
        p->state[i] = p->buffer_of[leaves];
    }
    for (uint32_t i = 0; i < g->output_count; ++i) HD_TRY(leaving(p, g->outputs[i].node, IN_OUTPUT, &p->outputs[i]));
    return HD_OK;
}

/* Nothing moves any more: indices become addresses. */
static hd_error connect(plan *p) {
    p->pointers = hd_array_resize(NULL, ((size_t)p->operand_count + 1) * sizeof *p->pointers);
    if (p->pointers == NULL) return no_memory(p);
    for (uint32_t i = 0; i < p->operand_count; ++i) p->pointers[i] = &p->tensors[p->operands[i]];
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const launch *l = &p->launches[i];
        if (l->call == NONE) continue;
        call *c = &p->calls[l->call];
        c->call.inputs = p->pointers + l->first;
        c->call.outputs[0] = &p->tensors[l->node];
        c->call.input_count = l->native == NONE ? l->inputs : 2;
        if (l->kind == RUN_PRODUCT) keep_weights(p, c);
        if (c->call.op->family == HD_FAMILY_RANDOM) c->call.attributes = &c->draw;
    }
    return HD_OK;
}

static void dump(const plan *p) {
    char *graph = hd_dump_wants("graph") ? hd_graph_print(p->graph) : NULL;
    char *fusion = hd_dump_wants("fusion") ? hd_fusion_print(p->graph, &p->fusion) : NULL;
    if (graph != NULL) hd_dump_text("graph", graph, strlen(graph));
    if (fusion != NULL) hd_dump_text("fusion", fusion, strlen(fusion));
    hd_array_release(graph);
    hd_array_release(fusion);
}

static hd_error make_plan(hd_thread *thread, plan *p, hd_optimization_level level) {
    HD_TRY(hd_fuse(p->graph, level, &p->fusion));
    dump(p);
    HD_TRY(make_room(p));
    make_headers(p);
    HD_TRY(plan_groups(p));
    HD_TRY(plan_leaving(p));
    HD_TRY(compile_kernels(thread, p));
    HD_TRY(connect(p));
    find_uses(p);
    write_in_place(p);
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i].room == IN_OUTPUT || p->buffers[i].room == IN_STATE || p->buffers[i].room == IN_CELL)
            p->fresh[p->fresh_count++] = i;
    p->executable.launches = p->launch_count;
    p->executable.nodes = p->graph->node_count;
    return lay_out(thread, p);
}

hd_executable *hd_hodu_compile(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level) {
    plan *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    p->executable = (hd_executable){.run = plan_run, .destroy = plan_destroy, .describe = plan_describe};
    p->executor = hd_device_executor(device);
    if (level == HD_O0) {
        hd_object_retain(&graph->object);
        p->graph = graph;
    } else {
        p->graph = hd_graph_simplify(thread, graph);
    }
    if (p->graph != NULL && p->executor != NULL && make_plan(thread, p, level) == HD_OK) return &p->executable;
    if (p->executor == NULL) hd_fail(HD_ERROR_DEVICE, "the script's device is not available");
    plan_destroy(&p->executable, thread);
    return NULL;
}
