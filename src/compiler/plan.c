/* Plans: a graph as a flat list of launches, with all memory laid out in advance.
 *
 * A launch is a native kernel, a product with what follows it, or a call of the device's own kernels. Every value that
 * is in memory has a tensor header, made once; views are only headers over the buffer they look at. Buffers of values
 * that live during the run lie in one arena, shared by those that do not live at the same time; outputs get new memory
 * in every run. A run that fails leaves state as it was: a new value is written over the old one only where nothing can
 * fail any more; else it is made beside it, and the two are exchanged when the whole run went well. */
#include "compiler/plan.h"
#include "core/device.h"
#include "device/cpu/product.h"
#include "device/cpu/put.h"

#include <string.h>

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static uint32_t new_buffer(hd_plan *p, hd_room kind, size_t bytes) {
    hd_plan_buffer *b = &p->buffers[p->buffer_count];
    memset(b, 0, sizeof *b);
    b->room = kind;
    b->storage.object.references = 1 << 20; /* never the last one */
    b->storage.bytes = bytes;
    b->storage.device = hd_cpu();
    return p->buffer_count++;
}

static void set_tensor(hd_plan *p, uint32_t index, uint32_t b, hd_storage *storage, hd_dtype dtype,
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
static void own_tensor(hd_plan *p, uint32_t index, hd_room kind, hd_dtype dtype, const hd_shape *shape) {
    const uint32_t b = new_buffer(p, kind, (size_t)hd_shape_count(*shape) * hd_dtype_bytes[dtype]);
    hd_layout layout;
    hd_layout_contiguous(&layout, shape);
    set_tensor(p, index, b, &p->buffers[b].storage, dtype, &layout);
}

/* One more tensor behind those of the nodes. The array was made large enough. */
static uint32_t spare_tensor(hd_plan *p) {
    p->buffer_of[p->tensor_count] = HD_NONE;
    return p->tensor_count++;
}

static hd_launch *new_launch(hd_plan *p, hd_launch_kind kind, uint32_t node) {
    hd_launch *l = &p->launches[p->launch_count++];
    *l = (hd_launch){.kind = (uint8_t)kind,
                     .node = node,
                     .first = p->operand_count,
                     .call = HD_NONE,
                     .native = HD_NONE,
                     .number = p->launch_count - 1,
                     .strand = HD_NONE,
                     .next = HD_NONE};
    return l;
}

static hd_error add_operand(hd_plan *p, uint32_t tensor) {
    if (p->operand_count == p->operand_capacity) {
        const uint32_t capacity = p->operand_capacity ? p->operand_capacity * 2 : 256;
        uint32_t *moved = hd_array_resize(p->operands, capacity * sizeof *moved);
        if (moved == NULL) return hd_plan_no_memory(p);
        p->operands = moved;
        p->operand_capacity = capacity;
    }
    p->operands[p->operand_count++] = tensor;
    return HD_OK;
}
static hd_error add_input(hd_plan *p, hd_launch *l, uint32_t tensor) {
    l->inputs++;
    return add_operand(p, tensor);
}
static hd_error add_output(hd_plan *p, hd_launch *l, uint32_t tensor) {
    l->outputs++;
    return add_operand(p, tensor);
}

static hd_error add_copy(hd_plan *p, uint32_t node, uint32_t to, uint32_t from) {
    hd_launch *l = new_launch(p, RUN_COPY, node);
    HD_TRY(add_input(p, l, from));
    return add_output(p, l, to);
}

/* The value of a node, contiguous and at the beginning of what it is a part of. */
static hd_error packed(hd_plan *p, uint32_t node, uint32_t index, uint32_t *out) {
    *out = index;
    if (p->tensors[index].contiguous) return HD_OK;
    *out = spare_tensor(p);
    own_tensor(p, *out, IN_ARENA, (hd_dtype)p->tensors[index].dtype, &p->tensors[index].layout.shape);
    return add_copy(p, node, *out, index);
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */
static hd_error make_view(hd_plan *p, uint32_t i) {
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
static hd_error need(hd_plan *p, uint32_t node) {
    while (p->buffer_of[node] == HD_NONE) {
        uint32_t at = node;
        while (p->buffer_of[hd_node_inputs(p->graph, at)[0]] == HD_NONE) at = hd_node_inputs(p->graph, at)[0];
        HD_TRY(make_view(p, at));
        if (at == node) break;
    }
    return HD_OK;
}

/* Headers of all that is given or stored; those of views are made where they are first needed. */
static void make_headers(hd_plan *p) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        p->buffer_of[i] = HD_NONE;
        const bool given = !hd_node_is_call(n);
        if (!given && p->fusion.group_of[i] == HD_NO_GROUP) continue; /* a view, or a number */
        const hd_shape shape = hd_node_shape(g, i);
        if (p->cell_of[i] != HD_NONE) { /* it lies where its cell lies, which comes before it */
            const uint32_t cell = g->cells[p->cell_of[i]].node;
            set_tensor(p, i, p->buffer_of[cell], p->tensors[cell].storage, (hd_dtype)n->dtype,
                       &p->tensors[cell].layout);
            continue;
        }
        if (p->part_of[i] != HD_NONE) continue; /* place_parts */
        if (given || p->fusion.stored[i] || p->fusion.groups[p->fusion.group_of[i]].kind == HD_GROUP_CALL) {
            own_tensor(p, i, given ? GIVEN : IN_ARENA, (hd_dtype)n->dtype, &shape);
        } else if (hd_fusion_is_prologue(&p->fusion, i)) {
            own_tensor(p, i, NOWHERE, (hd_dtype)n->dtype, &shape);
        } else if (hd_node_is_product(g, i, NULL)) { /* never in memory as a whole: only what it looks like */
            hd_layout layout;
            hd_layout_contiguous(&layout, &shape);
            set_tensor(p, i, HD_NONE, NULL, (hd_dtype)n->dtype, &layout);
        }
        if (n->op == HD_NODE_CONSTANT) p->tensors[i].storage = g->constants[n->first].storage;
    }
}

/* Headers of what is a part of something else, from the outermost inwards. */
static void place_parts(hd_plan *p) {
    const hd_graph *g = p->graph;
    for (uint32_t i = g->node_count; i-- > 0;)
        for (int k = 0; p->in_parts[i] && k < g->nodes[i].input_count; ++k) {
            const uint32_t source = p->fusion.source[hd_node_inputs(g, i)[k]];
            hd_layout layout;
            if (p->part_of[source] != i) continue;
            hd_plan_source_layout(p, i, k, &layout);
            set_tensor(p, source, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)g->nodes[source].dtype, &layout);
        }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */
static hd_error plan_write(hd_plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    const bool in_place = p->cell_of[i] != HD_NONE;
    if (!in_place) HD_TRY(add_copy(p, i, i, inputs[0]));
    const uint32_t part = spare_tensor(p);
    const hd_strided_attributes *attributes = hd_node_attributes(p->graph, i);
    set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &attributes->layout);
    if (in_place) { /* what was there, in case that the run fails */
        const uint32_t before = spare_tensor(p);
        own_tensor(p, before, IN_ARENA, (hd_dtype)n->dtype, &attributes->layout.shape);
        hd_launch *l = new_launch(p, RUN_SAVE, i);
        HD_TRY(add_input(p, l, part));
        HD_TRY(add_output(p, l, before));
    }
    return add_copy(p, i, part, inputs[1]);
}

/* A scatter in the memory of its cell: what was there, in case that the run fails, and then the new elements. */
static hd_error plan_put(hd_plan *p, uint32_t i) {
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    const int axis = ((const hd_scatter_attributes *)hd_node_attributes(p->graph, i))->axis;
    const hd_tensor *index = &p->tensors[inputs[1]];
    const hd_shape shape = hd_cpu_places_shape(index, axis);
    uint32_t source;
    HD_TRY(packed(p, i, inputs[2], &source));
    const uint32_t places = spare_tensor(p), before = spare_tensor(p);
    own_tensor(p, places, IN_ARENA, HD_I64, &shape);
    own_tensor(p, before, IN_ARENA, (hd_dtype)p->graph->nodes[i].dtype, &index->layout.shape);
    hd_launch *l = new_launch(p, RUN_SAVE_AT, i);
    HD_TRY(add_input(p, l, i));
    HD_TRY(add_input(p, l, inputs[1]));
    HD_TRY(add_output(p, l, places));
    HD_TRY(add_output(p, l, before));
    l = new_launch(p, RUN_PUT, i);
    HD_TRY(add_input(p, l, places));
    HD_TRY(add_input(p, l, source));
    return add_output(p, l, i);
}

/* A concatenation or a padding, but for the parts that are written there by those who compute them. */
static hd_error plan_parts(hd_plan *p, uint32_t i) {
    const hd_node *n = &p->graph->nodes[i];
    if (n->op == HD_OP_pad) HD_TRY(add_output(p, new_launch(p, RUN_BORDER, i), i));
    for (int k = 0; k < n->input_count; ++k) {
        const uint32_t in = hd_node_inputs(p->graph, i)[k];
        hd_layout layout;
        if (p->part_of[p->fusion.source[in]] == i) continue;
        hd_plan_part_layout(p, i, k, &layout);
        const uint32_t part = spare_tensor(p);
        set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &layout);
        HD_TRY(need(p, in));
        HD_TRY(add_copy(p, i, part, in));
    }
    return HD_OK;
}

/* The third operand of a product. */
static uint32_t bias_of(const hd_plan *p, uint32_t product) {
    return p->graph->nodes[product].input_count > 2 ? hd_node_inputs(p->graph, product)[2] : HD_NONE;
}

/* The device's own op on a node's inputs. */
static hd_plan_call *new_call(hd_plan *p, uint32_t i, hd_launch *l) {
    const hd_node *n = &p->graph->nodes[i];
    hd_plan_call *c = &p->calls[p->call_count];
    l->call = p->call_count++;
    memset(c, 0, sizeof *c);
    c->call = (hd_call){.op = hd_node_op(n), .output_count = 1, .given = true, .compute = (hd_dtype)n->compute};
    c->call.dtype[0] = (hd_dtype)n->dtype;
    c->call.shape[0] = hd_node_shape(p->graph, i);
    c->call.attributes = hd_node_attributes(p->graph, i);
    const int kind = c->call.op->lower;
    c->bias = hd_lower_is_matrix_product(kind) || hd_lower_is_convolution(kind) ? bias_of(p, i) : HD_NONE;
    c->prologue = HD_NONE;
    c->weight = HD_NONE;
    if (c->call.op->family == HD_FAMILY_RANDOM) c->draw = *(const hd_random_attributes *)c->call.attributes;
    for (int k = 0; k < HD_MAX_OUTPUTS; ++k) c->outputs[k] = k == 0 ? i : HD_NONE;
    return c;
}

/* The members of a call's group beside the call are its other outputs; one that is there twice is copied. */
static hd_error plan_other_outputs(hd_plan *p, hd_launch *l, hd_plan_call *c) {
    const hd_graph *g = p->graph;
    const hd_group *group = &p->fusion.groups[p->fusion.group_of[l->node]];
    const uint32_t *members = p->fusion.members + group->first;
    for (uint32_t m = 1; m < group->count; ++m) {
        const int which = g->nodes[members[m]].derivative;
        if (c->outputs[which] != HD_NONE) continue;
        c->outputs[which] = members[m];
        c->call.output_count = which + 1;
        c->call.dtype[which] = (hd_dtype)g->nodes[members[m]].dtype;
        c->call.shape[which] = hd_node_shape(g, members[m]);
        HD_TRY(add_output(p, l, members[m]));
    }
    for (uint32_t m = 1; m < group->count; ++m) {
        const uint32_t first = c->outputs[g->nodes[members[m]].derivative];
        if (first != members[m]) HD_TRY(add_copy(p, members[m], members[m], first));
    }
    return HD_OK;
}

static hd_error plan_call(hd_plan *p, uint32_t i, hd_launch_kind kind) {
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    if (p->in_parts[i]) return plan_parts(p, i);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(need(p, inputs[k]));
    if (n->op == HD_NODE_WRITE) return plan_write(p, i);
    if (p->cell_of[i] != HD_NONE) return plan_put(p, i);
    hd_launch *l = new_launch(p, kind, i);
    hd_plan_call *c = new_call(p, i, l);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(add_input(p, l, inputs[k]));
    HD_TRY(add_output(p, l, i));
    return c->call.op->outputs > 1 ? plan_other_outputs(p, l, c) : HD_OK;
}

/* The product of a group: its first member that is one. */
static uint32_t product_of(const hd_plan *p, const hd_group *group) {
    const uint32_t *members = p->fusion.members + group->first;
    for (uint32_t i = 0; i < group->count; ++i)
        if (hd_node_is_product(p->graph, members[i], NULL)) return members[i];
    return HD_NONE;
}

static hd_error need_inputs(hd_plan *p, const hd_group *group) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < group->count; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        for (int k = 0; k < g->nodes[node].input_count; ++k) {
            const uint32_t in = hd_node_inputs(g, node)[k], source = p->fusion.source[in];
            const uint32_t from = p->fusion.group_of[source];
            const bool inside = from != HD_NO_GROUP && &p->fusion.groups[from] == group;
            if (!inside && p->buffer_of[source] != HD_NONE) HD_TRY(need(p, in));
        }
    }
    return HD_OK;
}

/* Indices that members of a group use, before it runs. */
static hd_error plan_checks(hd_plan *p, const hd_group *group) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; group->checks && i < group->count; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        if (!hd_lower_is_indexing(hd_node_lowers(g, node))) continue;
        hd_launch *l = new_launch(p, RUN_CHECK, node);
        HD_TRY(add_input(p, l, hd_node_inputs(g, node)[1]));
    }
    return HD_OK;
}

/* The kernel of a group, once what it reads has headers: the last of natives. */
static hd_error add_native(hd_plan *p, hd_lowering *lowering, const hd_group *group) {
    hd_plan_native *n = hd_array_resize(NULL, sizeof *n);
    if (n == NULL) return hd_plan_no_memory(p);
    hd_lowered lowered;
    const hd_error status = hd_lower(lowering, group, &lowered);
    if (status != HD_OK) {
        hd_array_release(n);
        return status;
    }
    n->native = lowered.native;
    n->rows = lowered.rows;
    memcpy(n->draws, lowered.draws, sizeof n->draws);
    n->draw_count = lowered.draw_count;
    n->seed = lowered.seed;
    p->draws = p->draws || n->draw_count > 0;
    n->tile = -1;
    p->natives[p->native_count++] = n;
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        n->tensors[b] = lowered.nodes[b] == HD_TILE_BUFFER ? HD_NONE : lowered.nodes[b];
        if (n->tensors[b] == HD_NONE) n->tile = b;
    }
    return HD_OK;
}

/* What a kernel reads from memory. */
static hd_error add_inputs_of(hd_plan *p, hd_launch *l, uint32_t native) {
    const hd_plan_native *n = p->natives[native];
    for (int b = 0; b < n->native.shape.buffer_count; ++b)
        if (!n->native.shape.buffers[b].written && n->tensors[b] != HD_NONE) HD_TRY(add_input(p, l, n->tensors[b]));
    return HD_OK;
}

/* The kernel that computes rows of a product's first operand; HD_NONE: it has none. */
static hd_error plan_prologue(hd_plan *p, hd_lowering *lowering, const hd_group *group, uint32_t *native) {
    *native = HD_NONE;
    if (group->prologue == HD_NO_GROUP) return HD_OK;
    const hd_group *prologue = &p->fusion.groups[group->prologue];
    HD_TRY(need_inputs(p, prologue));
    HD_TRY(add_native(p, lowering, prologue));
    *native = p->native_count - 1;
    return HD_OK;
}

static hd_error plan_kernel(hd_plan *p, hd_lowering *lowering, const hd_group *group) {
    uint32_t prologue;
    HD_TRY(plan_prologue(p, lowering, group, &prologue));
    HD_TRY(need_inputs(p, group));
    HD_TRY(plan_checks(p, group));
    const uint32_t product = group->kind == HD_GROUP_PRODUCT ? product_of(p, group) : HD_NONE;
    const uint32_t last = p->fusion.members[group->first + group->count - 1];
    HD_TRY(add_native(p, lowering, group));
    hd_launch *l = new_launch(p, product == HD_NONE ? RUN_KERNEL : RUN_PRODUCT, product == HD_NONE ? last : product);
    l->native = p->native_count - 1;
    if (product != HD_NONE) { /* its operands first */
        new_call(p, product, l)->prologue = prologue;
        HD_TRY(add_input(p, l, hd_node_inputs(p->graph, product)[0]));
        HD_TRY(add_input(p, l, hd_node_inputs(p->graph, product)[1]));
    }
    HD_TRY(add_inputs_of(p, l, l->native));
    if (prologue != HD_NONE) HD_TRY(add_inputs_of(p, l, prologue));
    const hd_plan_native *n = p->natives[l->native];
    for (int b = 0; b < n->native.shape.buffer_count; ++b)
        if (n->native.shape.buffers[b].written) HD_TRY(add_output(p, l, n->tensors[b]));
    return HD_OK;
}

/* All kernels of the plan at once, so that they are compiled side by side. */
static hd_error compile_kernels(hd_thread *thread, hd_plan *p) {
    if (p->native_count == 0) return HD_OK;
    const hd_kernel **kernels = hd_array_resize(NULL, p->native_count * sizeof *kernels);
    hd_code **codes = hd_array_resize(NULL, p->native_count * sizeof *codes);
    hd_error status = kernels == NULL || codes == NULL ? hd_plan_no_memory(p) : HD_OK;
    for (uint32_t i = 0; i < p->native_count && status == HD_OK; ++i) kernels[i] = &p->natives[i]->native.shape;
    if (status == HD_OK) status = hd_code_get(thread, kernels, (int)p->native_count, codes, &p->executable.code);
    for (uint32_t i = 0; i < p->native_count && status == HD_OK; ++i) p->natives[i]->native.code = codes[i];
    hd_array_release(kernels);
    hd_array_release(codes);
    return status;
}

/* ---- what leaves the run ----------------------------------------------------------------------------------------- */
/* The tensor in which a value leaves: the value itself, or a copy when its buffer is not its own to give away. */
static hd_error leaving(hd_plan *p, uint32_t node, hd_room kind, uint32_t *out) {
    HD_TRY(need(p, node));
    *out = node;
    if (!hd_plan_is_own(p, node)) {
        const hd_shape shape = p->tensors[node].layout.shape;
        *out = spare_tensor(p);
        own_tensor(p, *out, kind, (hd_dtype)p->tensors[node].dtype, &shape);
        HD_TRY(add_copy(p, node, *out, node));
    }
    p->buffers[p->buffer_of[*out]].room = kind;
    return HD_OK;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
static void plan_destroy(hd_executable *self, hd_thread *thread) {
    hd_plan *p = (hd_plan *)self;
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i].storage.block != NULL) hd_block_release(thread, p->buffers[i].storage.block);
    for (uint32_t i = 0; i < p->weight_count; ++i)
        if (p->weights[i].packed != NULL) hd_block_release(thread, p->weights[i].packed);
    for (uint32_t i = 0; i < p->native_count; ++i) {
        hd_native_release(&p->natives[i]->native);
        hd_array_release(p->natives[i]);
    }
    if (p->arena != NULL) hd_block_release(thread, p->arena);
    if (p->room != NULL) hd_block_release(thread, p->room);
    for (uint32_t i = 0; p->aside != NULL && i < p->graph->input_count; ++i)
        if (p->aside[i] != NULL) hd_block_release(thread, p->aside[i]);
    void *const arrays[] = {p->part_of,   p->in_parts, p->cell_of,  p->sliced,  p->aside,     p->tensors,
                            p->buffer_of, p->buffers,  p->launches, p->calls,   p->natives,   p->operands,
                            p->pointers,  p->outputs,  p->state,    p->fresh,   p->is_packed, p->jobs,
                            p->strands,   p->pieces,   p->parts,    p->weights, p->readers};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    hd_fusion_release(&p->fusion);
    hd_graph_release(thread, p->graph);
    hd_array_release(p);
}

/* Room for all there can be: pages that are not used cost nothing. */
static hd_error make_room(hd_plan *p) {
    const hd_graph *g = p->graph;
    /* a node needs at most three headers beside its own, or one for each part; outputs and updates one */
    const size_t most = (size_t)g->node_count * 4 + g->edge_count + g->output_count + g->cell_count + 1,
                 ordered = p->fusion.order_count;
    p->tensors = hd_array_resize(NULL, most * sizeof *p->tensors);
    p->buffer_of = hd_array_resize(NULL, most * sizeof *p->buffer_of);
    p->buffers = hd_array_resize(NULL, most * sizeof *p->buffers);
    p->launches = hd_array_resize(NULL, most * sizeof *p->launches);
    p->calls = hd_array_resize(NULL, (ordered + 1) * sizeof *p->calls);
    p->natives = hd_array_resize(NULL, (2 * ordered + 1) * sizeof *p->natives); /* a product has two, at most */
    p->outputs = hd_array_resize(NULL, (g->output_count + 1) * sizeof *p->outputs);
    p->state = hd_array_resize(NULL, (g->cell_count + 1) * sizeof *p->state);
    p->fresh = hd_array_resize(NULL, (g->output_count + g->cell_count + 1) * sizeof *p->fresh);
    p->tensor_count = g->node_count;
    return p->tensors == NULL || p->buffer_of == NULL || p->buffers == NULL || p->launches == NULL ||
                   p->calls == NULL || p->natives == NULL || p->outputs == NULL || p->state == NULL || p->fresh == NULL
               ? hd_plan_no_memory(p)
               : HD_OK;
}

/* ---- products that need no kernel of their own ------------------------------------------------------------------- */
/* What follows a product when it is rows one upon the other, the last alone in memory, each of it alone or of it and a
 * value that lies as the result does, or as one row of it: the device's own kernels do that in its tiles, and nothing
 * is compiled. */
typedef struct tile_steps {
    int count;
    hd_product_step steps[HD_PRODUCT_STEPS];
    uint32_t others[HD_PRODUCT_STEPS]; /* the other operand of each; HD_NONE */
} tile_steps;

/* That a value lies as the result of the product does, row behind row; or as one row of it. */
static bool lies_alike(const hd_plan *p, uint32_t product, uint32_t other, int64_t *row) {
    const hd_tensor *t = &p->tensors[other], *result = &p->tensors[product];
    const int last = result->layout.shape.rank - 1;
    *row = 0;
    if (!t->contiguous || t->dtype != result->dtype || t->dtype != hd_cpu_product_dtype((hd_dtype)t->dtype))
        return false;
    if (hd_lower_is_matrix_product(hd_node_lowers(p->graph, product)) && t->layout.shape.rank > 0 &&
        t->count == result->layout.shape.size[last] && t->layout.shape.size[t->layout.shape.rank - 1] == t->count)
        return true;
    *row = hd_cpu_product_plain(hd_node_op(&p->graph->nodes[product]), &result->layout.shape, HD_F32).columns;
    return hd_shape_equal(t->layout.shape, result->layout.shape);
}

/* Member `node` as a step behind member `before`; false: it is none. */
static hd_error add_step(hd_plan *p, uint32_t product, uint32_t before, uint32_t node, tile_steps *s, bool *is_step) {
    const hd_graph *g = p->graph;
    const hd_node *n = &g->nodes[node];
    const uint32_t *in = hd_node_inputs(g, node);
    const hd_dtype dtype = (hd_dtype)g->nodes[product].dtype, tile = hd_cpu_product_dtype(dtype);
    *is_step = hd_node_lowers(g, node) == HD_LOWER_ROW && n->derivative == 0 && n->input_count <= 2 &&
               !hd_rows[n->op].gives_bool && n->dtype == dtype && n->compute == dtype && !p->fusion.stored[before];
    const int own = n->input_count == 2 && in[1] == before ? 1 : 0;
    if (!*is_step || in[own] != before) return *is_step = false, HD_OK;
    hd_product_step *step = &s->steps[s->count];
    *step = (hd_product_step){.op = n->op, .is_second = own == 1};
    s->others[s->count] = HD_NONE;
    if (n->input_count == 2) {
        const uint32_t other = in[1 - own], source = p->fusion.source[other];
        *is_step = other != before && !p->fusion.number[other] && p->buffer_of[source] != HD_NONE;
        if (!*is_step) return HD_OK;
        HD_TRY(need(p, other));
        *is_step = lies_alike(p, product, other, &step->other_row);
        s->others[s->count] = other;
    }
    const double *numbers = hd_node_attributes(g, node);
    for (int k = 0; k < hd_rows[n->op].numbers; ++k)
        hd_element_from_f64((char *)step->numbers + (size_t)k * hd_dtype_bytes[tile], tile, numbers[k]);
    s->count++;
    return HD_OK;
}

/* *is_simple: all that follows the product is in `s`. */
static hd_error find_steps(hd_plan *p, const hd_group *group, tile_steps *s, bool *is_simple) {
    const uint32_t *members = p->fusion.members + group->first;
    const hd_dtype dtype = (hd_dtype)p->graph->nodes[members[0]].dtype, tile = hd_cpu_product_dtype(dtype);
    s->count = 0;
    *is_simple = hd_dtype_compute[dtype] == hd_dtype_compute[tile] && /* rows of narrow integers compute with those */
                 group->count <= HD_PRODUCT_STEPS + 1 && product_of(p, group) == members[0];
    for (uint32_t i = 0; *is_simple && i + 1 < group->count; ++i)
        HD_TRY(add_step(p, members[0], members[i], members[i + 1], s, is_simple));
    return HD_OK;
}

static hd_error plan_product(hd_plan *p, hd_lowering *lowering, const hd_group *group) {
    const uint32_t *members = p->fusion.members + group->first;
    const hd_node *n = &p->graph->nodes[members[0]];
    const uint32_t *inputs = hd_node_inputs(p->graph, members[0]);
    tile_steps s;
    bool is_simple;
    HD_TRY(find_steps(p, group, &s, &is_simple));
    if (!is_simple) return plan_kernel(p, lowering, group);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(need(p, inputs[k]));
    if (n->input_count > 2 && !hd_plan_adds_bias(&p->tensors[inputs[2]], (hd_dtype)n->dtype))
        return plan_kernel(p, lowering, group);
    uint32_t prologue;
    HD_TRY(plan_prologue(p, lowering, group, &prologue));
    hd_launch *l = new_launch(p, RUN_PRODUCT, members[0]);
    hd_plan_call *c = new_call(p, members[0], l);
    c->prologue = prologue;
    const bool adds_row = s.count > 0 && s.steps[0].op == HD_OP_add && s.others[0] != HD_NONE && /* that is a bias */
                          s.steps[0].other_row == 0 && n->input_count == 2 &&
                          hd_plan_adds_bias(&p->tensors[s.others[0]], (hd_dtype)n->dtype);
    if (adds_row) c->bias = s.others[0];
    c->step_count = s.count - adds_row;
    memcpy(c->steps, s.steps + adds_row, (size_t)c->step_count * sizeof *c->steps);
    memcpy(c->others, s.others + adds_row, (size_t)c->step_count * sizeof *c->others);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(add_input(p, l, inputs[k]));
    for (int i = 0; i < s.count; ++i)
        if (s.others[i] != HD_NONE) HD_TRY(add_input(p, l, s.others[i]));
    if (prologue != HD_NONE) HD_TRY(add_inputs_of(p, l, prologue));
    return add_output(p, l, members[s.count]);
}

/* A product alone that threads do not share: what runs beside others, and takes no memory of its own. Larger ones are
 * calls. */
static bool is_small_product(const hd_plan *p, uint32_t node) {
    const hd_graph *g = p->graph;
    if (!hd_lower_is_matrix_product(hd_node_lowers(g, node))) return false;
    const hd_matmul_attributes *given = hd_node_attributes(g, node); /* an affine product has none */
    const hd_shape x = hd_node_shape(g, hd_node_inputs(g, node)[0]);
    const int64_t k = x.size[given != NULL && given->transpose_a ? x.rank - 2 : x.rank - 1];
    int64_t work;
    return !__builtin_mul_overflow(hd_shape_count(hd_node_shape(g, node)), k, &work) && work < HD_PRODUCT_SHARED;
}

static hd_error plan_groups(hd_plan *p) {
    hd_lowering lowering;
    hd_error status = hd_lowering_begin(&lowering, p->graph, &p->fusion, p->tensors);
    for (uint32_t i = 0; i < p->fusion.order_count && status == HD_OK; ++i) {
        const hd_group *group = &p->fusion.groups[p->fusion.order[i]];
        const uint32_t first = p->fusion.members[group->first];
        const bool lone = group->kind == HD_GROUP_PRODUCT && group->count == 1 && group->prologue == HD_NO_GROUP;
        status = group->kind == HD_GROUP_CALL             ? plan_call(p, first, RUN_CALL)
                 : lone && hd_plan_keeps_weight(p, first) ? plan_call(p, first, RUN_PRODUCT)
                 : lone && !is_small_product(p, first)    ? plan_call(p, first, RUN_CALL)
                 : group->kind == HD_GROUP_PRODUCT        ? plan_product(p, &lowering, group)
                                                          : plan_kernel(p, &lowering, group);
    }
    hd_lowering_end(&lowering);
    return status;
}

static hd_error plan_leaving(hd_plan *p) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        p->state[i] = HD_NONE;
        if (g->cells[i].update == g->cells[i].node || p->sliced[i]) continue;
        uint32_t leaves;
        HD_TRY(leaving(p, g->cells[i].update, IN_STATE, &leaves));
        p->state[i] = p->buffer_of[leaves];
    }
    for (uint32_t i = 0; i < g->output_count; ++i) HD_TRY(leaving(p, g->outputs[i].node, IN_OUTPUT, &p->outputs[i]));
    return HD_OK;
}

/* Nothing moves any more: indices become addresses. */
static hd_error connect(hd_plan *p) {
    p->pointers = hd_array_resize(NULL, ((size_t)p->operand_count + 1) * sizeof *p->pointers);
    if (p->pointers == NULL) return hd_plan_no_memory(p);
    for (uint32_t i = 0; i < p->operand_count; ++i) p->pointers[i] = &p->tensors[p->operands[i]];
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        if (l->call == HD_NONE) continue;
        hd_plan_call *c = &p->calls[l->call];
        c->call.inputs = p->pointers + l->first;
        c->call.outputs[0] = &p->tensors[l->node];
        for (int k = 1; k < HD_MAX_OUTPUTS; ++k)
            c->call.outputs[k] = c->outputs[k] == HD_NONE ? NULL : &p->tensors[c->outputs[k]];
        c->call.input_count = l->native == HD_NONE ? p->graph->nodes[l->node].input_count : 2;
        if (c->call.op->family == HD_FAMILY_RANDOM) c->call.attributes = &c->draw;
    }
    return HD_OK;
}

bool hd_plan_is_product(const hd_plan *p, const hd_launch *l) {
    return l->kind == RUN_PRODUCT ||
           (l->kind == RUN_CALL && p->fusion.groups[p->fusion.group_of[l->node]].kind == HD_GROUP_PRODUCT);
}

bool hd_plan_can_widen(const hd_native *n) { return n->shape.axes == n->shape.kept; } /* sums depend on their order */

void hd_plan_widen(hd_native *n, int width) {
    n->shape.width = (uint16_t)(width > 0 ? n->shape.width * 2 : width < 0 ? n->shape.width / 2 : n->shape.width);
    hd_native_settle(n);
}

static void heed(hd_plan *p, const hd_tuning *tuning) {
    if (tuning->launch_count != p->launch_count) return;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        hd_launch *l = &p->launches[i];
        const hd_launch_choice *choice = &tuning->launches[i]; /* they are in the order that tuning knows */
        l->threads = choice->threads;
        if (l->kind == RUN_KERNEL && choice->width != 0 && hd_plan_can_widen(&p->natives[l->native]->native))
            hd_plan_widen(&p->natives[l->native]->native, choice->width);
        if (hd_plan_is_product(p, l) && !hd_product_way_is_rule(choice->way)) {
            p->calls[l->call].way = choice->way;
            l->kind = RUN_PRODUCT; /* calls go by rules */
        }
    }
}

static hd_error make_plan(hd_thread *thread, hd_plan *p, hd_optimization_level level, const hd_tuning *tuning) {
    HD_TRY(hd_fuse(p->graph, level, tuning == NULL ? (hd_fuse_choice){0} : tuning->fuse, &p->fusion));
    hd_plan_dump(p);
    HD_TRY(hd_plan_find_slices(p));
    HD_TRY(hd_plan_find_parts(p));
    HD_TRY(make_room(p));
    make_headers(p);
    place_parts(p);
    HD_TRY(hd_plan_count_readers(p));
    HD_TRY(plan_groups(p));
    HD_TRY(plan_leaving(p));
    if (tuning != NULL) heed(p, tuning);
    HD_TRY(compile_kernels(thread, p));
    HD_TRY(connect(p));
    HD_TRY(hd_plan_find_weights(p));
    p->executable.launches = p->launch_count;
    p->executable.nodes = p->graph->node_count;
    HD_TRY(hd_plan_lay_out(thread, p));
    p->executable.jobs = p->job_count;
    hd_plan_dump_jobs(p);
    return HD_OK;
}

hd_plan *hd_plan_new(hd_thread *thread, hd_graph *graph, hd_executor *executor, hd_optimization_level level,
                     const hd_tuning *tuning) {
    hd_plan *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a plan");
        return NULL;
    }
    memset(p, 0, sizeof *p);
    p->executable = (hd_executable){.run = hd_plan_run, .destroy = plan_destroy, .describe = hd_plan_describe};
    p->executor = executor;
    hd_object_retain(&graph->object);
    p->graph = graph;
    if (make_plan(thread, p, level, tuning) == HD_OK) return p;
    plan_destroy(&p->executable, thread);
    return NULL;
}

static hd_executable *compile(hd_thread *thread, hd_graph *graph, hd_device device, hd_optimization_level level) {
    hd_executor *executor = hd_device_executor(device);
    if (executor == NULL) {
        hd_fail(HD_ERROR_DEVICE,
                "HODU does not run on %s here; hd_script_set_device chooses another device, "
                "hd_script_set_compiler another compiler",
                hd_device_text((char[32]){0}, device));
        return NULL;
    }
    if (level == HD_O0) return (hd_executable *)hd_plan_new(thread, graph, executor, level, NULL);
    HD_KEEP_NAME(thread); /* passes call ops, but it is the caller's function that runs */
    hd_graph *simple = hd_graph_simplify(thread, graph);
    if (simple == NULL) return NULL;
    hd_plan *p =
        level == HD_O3 ? hd_plan_tuned(thread, simple, executor) : hd_plan_new(thread, simple, executor, level, NULL);
    hd_graph_release(thread, simple);
    return (hd_executable *)p;
}

const hd_compiler_interface hd_hodu_interface = {.name = "HODU", .compile = compile};
