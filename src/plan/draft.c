/* Phases 3 and 4 of a plan: headers of what is in memory, and launches. */
#include "plan/draft.h"
#include "core/assert.h"

#include <string.h>

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static hd_error too_many(const hd_plan_draft *d, const char *what) {
    return hd_fail(HD_ERROR_INTERNAL, "a plan of %u nodes needs more %s than were counted", d->plan->graph->node_count,
                   what);
}

static hd_error new_buffer(hd_plan_draft *d, hd_placement kind, size_t bytes, uint32_t *out) {
    hd_plan *p = d->plan;
    if (p->buffer_count == d->buffer_capacity) return too_many(d, "buffers");
    hd_plan_buffer *b = &p->buffers[p->buffer_count];
    memset(b, 0, sizeof *b);
    b->placement = kind;
    b->storage.object.references = 1 << 20; /* never the last one */
    b->storage.bytes = bytes;
    b->storage.device = p->machine->device;
    b->storage.home = hd_plan_is_away(p) ? &hd_lent_home : NULL;
    *out = p->buffer_count++;
    return HD_OK;
}

static void set_tensor(hd_plan *p, uint32_t index, uint32_t b, hd_storage *storage, hd_dtype dtype,
                       const hd_layout *layout) {
    HD_ASSERT(index < p->tensor_count && (b == HD_NONE || b < p->buffer_count));
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
static hd_error own_tensor(hd_plan_draft *d, uint32_t index, hd_placement kind, hd_dtype dtype, const hd_shape *shape) {
    uint32_t b = HD_NONE;
    hd_layout layout;
    HD_TRY(new_buffer(d, kind, (size_t)hd_shape_count(*shape) * hd_dtype_bytes[dtype], &b));
    hd_layout_contiguous(&layout, shape);
    set_tensor(d->plan, index, b, &d->plan->buffers[b].storage, dtype, &layout);
    return HD_OK;
}

/* One more tensor behind those of the nodes. */
static hd_error spare_tensor(hd_plan_draft *d, uint32_t *out) {
    hd_plan *p = d->plan;
    if (p->tensor_count == d->tensor_capacity) return too_many(d, "tensors");
    p->buffer_of[p->tensor_count] = HD_NONE;
    *out = p->tensor_count++;
    return HD_OK;
}
static hd_error spare_own(hd_plan_draft *d, hd_placement kind, hd_dtype dtype, const hd_shape *shape, uint32_t *out) {
    HD_TRY(spare_tensor(d, out));
    return own_tensor(d, *out, kind, dtype, shape);
}

hd_launch *hd_draft_launch(hd_plan_draft *d, hd_launch_kind kind, uint32_t node) {
    hd_plan *p = d->plan;
    if (p->launch_count == d->launch_capacity) {
        too_many(d, "launches");
        return NULL;
    }
    hd_launch *l = &p->launches[p->launch_count++];
    *l = (hd_launch){.kind = (uint8_t)kind,
                     .node = node,
                     .first = p->operand_count,
                     .call = HD_NONE,
                     .native = HD_NONE,
                     .number = p->launch_count - 1};
    return l;
}

static hd_error add_operand(hd_plan_draft *d, uint32_t tensor) {
    hd_plan *p = d->plan;
    if (p->operand_count == d->operand_capacity) {
        const uint32_t capacity = d->operand_capacity ? d->operand_capacity * 2 : 256;
        uint32_t *moved = hd_array_resize(p->operands, capacity * sizeof *moved);
        if (moved == NULL) return hd_plan_no_memory(p);
        p->operands = moved;
        d->operand_capacity = capacity;
    }
    HD_ASSERT(tensor < p->tensor_count);
    p->operands[p->operand_count++] = tensor;
    return HD_OK;
}
hd_error hd_draft_input(hd_plan_draft *d, hd_launch *l, uint32_t tensor) {
    HD_ASSERT(l == &d->plan->launches[d->plan->launch_count - 1] && l->outputs == 0);
    l->inputs++;
    return add_operand(d, tensor);
}
hd_error hd_draft_output(hd_plan_draft *d, hd_launch *l, uint32_t tensor) {
    HD_ASSERT(l == &d->plan->launches[d->plan->launch_count - 1]);
    l->outputs++;
    return add_operand(d, tensor);
}

/* A launch of a kind that is told by its operands: `inputs` of them, then its outputs. */
static hd_error add_launch(hd_plan_draft *d, hd_launch_kind kind, uint32_t node, int inputs, int outputs,
                           const uint32_t *operands) {
    hd_launch *l = hd_draft_launch(d, kind, node);
    if (l == NULL) return HD_ERROR_INTERNAL;
    for (int i = 0; i < inputs; ++i) HD_TRY(hd_draft_input(d, l, operands[i]));
    for (int i = 0; i < outputs; ++i) HD_TRY(hd_draft_output(d, l, operands[inputs + i]));
    return HD_OK;
}
static hd_error add_copy(hd_plan_draft *d, uint32_t node, uint32_t to, uint32_t from) {
    return add_launch(d, HD_RUN_COPY, node, 1, 1, (const uint32_t[]){from, to});
}

/* The value of a node, contiguous and at the beginning of what it is a part of. */
static hd_error packed(hd_plan_draft *d, uint32_t node, uint32_t index, uint32_t *out) {
    const hd_tensor *t = &d->plan->tensors[index];
    *out = index;
    if (t->contiguous) return HD_OK;
    const hd_shape shape = t->layout.shape;
    HD_TRY(spare_own(d, HD_IN_ARENA, (hd_dtype)t->dtype, &shape, out));
    return add_copy(d, node, *out, index);
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */
static hd_error make_view(hd_plan_draft *d, uint32_t i) {
    hd_plan *p = d->plan;
    const hd_node *n = &p->graph->nodes[i];
    const void *attributes = hd_node_attributes(p->graph, i);
    hd_layout layout;
    uint32_t from = hd_node_inputs(p->graph, i)[0];
    const uint32_t input = from;
    if (n->op == HD_OP_as_strided) { /* over all of its input's memory */
        HD_TRY(packed(d, i, input, &from));
        layout = ((const hd_strided_attributes *)attributes)->layout;
        layout.offset += p->tensors[from].layout.offset;
    } else if (!hd_view_layout((hd_op_id)n->op, attributes, &p->tensors[from].layout, &layout)) {
        HD_TRY(packed(d, i, input, &from)); /* a reshape that its strides do not allow */
        hd_view_layout((hd_op_id)n->op, attributes, &p->tensors[from].layout, &layout);
    }
    set_tensor(p, i, p->buffer_of[from], p->tensors[from].storage, (hd_dtype)n->dtype, &layout);
    return HD_OK;
}

hd_error hd_draft_need(hd_plan_draft *d, uint32_t node) { /* from the innermost outwards */
    hd_plan *p = d->plan;
    while (p->buffer_of[node] == HD_NONE) {
        uint32_t at = node;
        while (p->buffer_of[hd_node_inputs(p->graph, at)[0]] == HD_NONE) at = hd_node_inputs(p->graph, at)[0];
        HD_TRY(make_view(d, at));
        if (at == node) break;
    }
    return HD_OK;
}

/* The header of a value that is given or stored, if this is one. */
static hd_error make_header(hd_plan_draft *d, uint32_t i) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const hd_node *n = &g->nodes[i];
    const bool given = !hd_node_is_call(n);
    if (!given && p->fusion.group_of[i] == HD_NO_GROUP) return HD_OK; /* a view, or a number */
    const hd_shape shape = hd_node_shape(g, i);
    if (d->cell_of[i] != HD_NONE) { /* it lies where its cell lies, which comes before it */
        const uint32_t cell = g->cells[d->cell_of[i]].node;
        set_tensor(p, i, p->buffer_of[cell], p->tensors[cell].storage, (hd_dtype)n->dtype, &p->tensors[cell].layout);
        return HD_OK;
    }
    if (d->joint_of[i] != HD_NONE) return HD_OK; /* place_pieces */
    if (given || p->fusion.stored[i] || p->fusion.groups[p->fusion.group_of[i]].kind == HD_GROUP_CALL) {
        HD_TRY(own_tensor(d, i, given ? HD_GIVEN : HD_IN_ARENA, (hd_dtype)n->dtype, &shape));
    } else if (hd_fusion_is_prologue(&p->fusion, i)) {
        HD_TRY(own_tensor(d, i, HD_NOWHERE, (hd_dtype)n->dtype, &shape));
    } else if (hd_node_is_product(p->machine, g, i, NULL)) { /* never in memory as a whole: only what it looks like */
        hd_layout layout;
        hd_layout_contiguous(&layout, &shape);
        set_tensor(p, i, HD_NONE, NULL, (hd_dtype)n->dtype, &layout);
    }
    if (n->op == HD_NODE_CONSTANT && !hd_plan_is_away(p)) p->tensors[i].storage = g->constants[n->first].storage;
    return HD_OK;
}

/* Headers of what is a part of something else, from the outermost inwards. */
static void place_pieces(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    for (uint32_t i = g->node_count; i-- > 0;)
        for (int k = 0; d->is_joint[i] && k < g->nodes[i].input_count; ++k) {
            const uint32_t source = p->fusion.source[hd_node_inputs(g, i)[k]];
            hd_layout layout;
            if (d->joint_of[source] != i) continue;
            hd_plan_source_layout(p, i, k, &layout);
            set_tensor(p, source, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)g->nodes[source].dtype, &layout);
        }
}

hd_error hd_draft_make_headers(hd_plan_draft *d) {
    for (uint32_t i = 0; i < d->plan->graph->node_count; ++i) d->plan->buffer_of[i] = HD_NONE;
    for (uint32_t i = 0; i < d->plan->graph->node_count; ++i) HD_TRY(make_header(d, i));
    place_pieces(d);
    return HD_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
static hd_error plan_write(hd_plan_draft *d, uint32_t i) {
    hd_plan *p = d->plan;
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    const bool in_place = d->cell_of[i] != HD_NONE;
    uint32_t part = HD_NONE, before = HD_NONE;
    if (!in_place) HD_TRY(add_copy(d, i, i, inputs[0]));
    HD_TRY(spare_tensor(d, &part));
    const hd_strided_attributes *attributes = hd_node_attributes(p->graph, i);
    set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &attributes->layout);
    if (in_place) { /* what was there, in case that the run fails */
        HD_TRY(spare_own(d, HD_IN_ARENA, (hd_dtype)n->dtype, &attributes->layout.shape, &before));
        HD_TRY(add_launch(d, HD_RUN_SAVE, i, 1, 1, (const uint32_t[]){part, before}));
    }
    return add_copy(d, i, part, inputs[1]);
}

/* A scatter in the memory of its cell: what was there, in case that the run fails, and then the new elements. */
static hd_error plan_put(hd_plan_draft *d, uint32_t i) {
    const hd_plan *p = d->plan;
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    const int axis = ((const hd_scatter_attributes *)hd_node_attributes(p->graph, i))->axis;
    const hd_tensor *index = &p->tensors[inputs[1]];
    const hd_shape shape = index->layout.shape, of_positions = hd_positions_shape(index, axis);
    uint32_t source = HD_NONE, positions = HD_NONE, before = HD_NONE;
    HD_TRY(packed(d, i, inputs[2], &source));
    HD_TRY(spare_own(d, HD_IN_ARENA, HD_I64, &of_positions, &positions));
    HD_TRY(spare_own(d, HD_IN_ARENA, (hd_dtype)p->graph->nodes[i].dtype, &shape, &before));
    HD_TRY(add_launch(d, HD_RUN_SAVE_AT, i, 2, 2, (const uint32_t[]){i, inputs[1], positions, before}));
    return add_launch(d, HD_RUN_SCATTER, i, 2, 1, (const uint32_t[]){positions, source, i});
}

/* A concatenation or a padding, but for the parts that are written there by those who compute them. */
static hd_error plan_joint(hd_plan_draft *d, uint32_t i) {
    hd_plan *p = d->plan;
    const hd_node *n = &p->graph->nodes[i];
    if (n->op == HD_OP_pad) HD_TRY(add_launch(d, HD_RUN_BORDER, i, 0, 1, &i));
    for (int k = 0; k < n->input_count; ++k) {
        const uint32_t in = hd_node_inputs(p->graph, i)[k];
        hd_layout layout;
        uint32_t part = HD_NONE;
        if (d->joint_of[p->fusion.source[in]] == i) continue;
        hd_plan_piece_layout(p, i, k, &layout);
        HD_TRY(spare_tensor(d, &part));
        set_tensor(p, part, p->buffer_of[i], p->tensors[i].storage, (hd_dtype)n->dtype, &layout);
        HD_TRY(hd_draft_need(d, in));
        HD_TRY(add_copy(d, i, part, in));
    }
    return HD_OK;
}

hd_plan_call *hd_draft_call_of(hd_plan_draft *d, uint32_t i, hd_launch *l) {
    hd_plan *p = d->plan;
    const hd_node *n = &p->graph->nodes[i];
    if (p->call_count == d->call_capacity) {
        too_many(d, "calls");
        return NULL;
    }
    hd_plan_call *c = &p->calls[p->call_count];
    l->call = p->call_count++;
    memset(c, 0, sizeof *c);
    c->call = (hd_call){.op = hd_node_op(n), .output_count = 1, .given = true, .compute = (hd_dtype)n->compute};
    c->call.dtype[0] = (hd_dtype)n->dtype;
    c->call.shape[0] = hd_node_shape(p->graph, i);
    c->call.attributes = hd_node_attributes(p->graph, i);
    c->prologue = HD_NONE;
    if (c->call.op->family == HD_FAMILY_RANDOM) c->draw = *(const hd_random_attributes *)c->call.attributes;
    for (int k = 0; k < HD_MAX_OUTPUTS; ++k) c->outputs[k] = k == 0 ? i : HD_NONE;
    return c;
}

/* The members of a call's group beside the call are its other outputs; one that is there twice is copied. */
static hd_error plan_other_outputs(hd_plan_draft *d, hd_launch *l, hd_plan_call *c) {
    const hd_plan *p = d->plan;
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
        HD_TRY(hd_draft_output(d, l, members[m]));
    }
    for (uint32_t m = 1; m < group->count; ++m) {
        const uint32_t first = c->outputs[g->nodes[members[m]].derivative];
        if (first != members[m]) HD_TRY(add_copy(d, members[m], members[m], first));
    }
    return HD_OK;
}

hd_error hd_draft_call(hd_plan_draft *d, uint32_t i, hd_launch_kind kind) {
    const hd_plan *p = d->plan;
    const hd_node *n = &p->graph->nodes[i];
    const uint32_t *inputs = hd_node_inputs(p->graph, i);
    if (d->is_joint[i]) return plan_joint(d, i);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(hd_draft_need(d, inputs[k]));
    if (n->op == HD_NODE_WRITE) return plan_write(d, i);
    if (d->cell_of[i] != HD_NONE) return plan_put(d, i);
    hd_launch *l = hd_draft_launch(d, kind, i);
    hd_plan_call *c = l == NULL ? NULL : hd_draft_call_of(d, i, l);
    if (c == NULL) return HD_ERROR_INTERNAL;
    for (int k = 0; k < n->input_count; ++k) HD_TRY(hd_draft_input(d, l, inputs[k]));
    HD_TRY(hd_draft_output(d, l, i));
    return c->call.op->outputs > 1 ? plan_other_outputs(d, l, c) : HD_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */
uint32_t hd_draft_product_of(const hd_plan_draft *d, const hd_group *group) {
    const hd_plan *p = d->plan;
    const uint32_t *members = p->fusion.members + group->first;
    for (uint32_t i = 0; i < group->count; ++i)
        if (hd_node_is_product(p->machine, p->graph, members[i], NULL)) return members[i];
    return HD_NONE;
}

static hd_error need_inputs(hd_plan_draft *d, const hd_group *group) {
    const hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < group->count; ++i) {
        const uint32_t node = p->fusion.members[group->first + i];
        for (int k = 0; k < g->nodes[node].input_count; ++k) {
            const uint32_t in = hd_node_inputs(g, node)[k], source = p->fusion.source[in];
            const uint32_t from = p->fusion.group_of[source];
            const bool inside = from != HD_NO_GROUP && &p->fusion.groups[from] == group;
            if (!inside && p->buffer_of[source] != HD_NONE) HD_TRY(hd_draft_need(d, in));
        }
    }
    return HD_OK;
}

/* Indices that members of a group use, before it runs. */
static hd_error plan_checks(hd_plan_draft *d, const hd_group *group) {
    const hd_graph *g = d->plan->graph;
    for (uint32_t i = 0; group->checks && i < group->count; ++i) {
        const uint32_t node = d->plan->fusion.members[group->first + i];
        if (hd_lower_is_indexing(hd_node_lowers(g, node)))
            HD_TRY(add_launch(d, HD_RUN_CHECK, node, 1, 0, &hd_node_inputs(g, node)[1]));
    }
    return HD_OK;
}

/* The kernel of a group, once what it reads has headers: the last of natives. */
static hd_error add_native(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group) {
    hd_plan *p = d->plan;
    if (p->native_count == d->native_capacity) return too_many(d, "kernels");
    hd_plan_native *n = hd_array_resize(NULL, sizeof *n);
    if (n == NULL) return hd_plan_no_memory(p);
    hd_lowered lowered;
    const hd_error status = hd_lower(lowering, group, &lowered);
    if (status != HD_OK) {
        hd_array_release(n);
        return status;
    }
    *n = (hd_plan_native){.native = lowered.native,
                          .draw_count = lowered.draw_count,
                          .seed = lowered.seed,
                          .tile = -1,
                          .rows = lowered.rows};
    memcpy(n->draws, lowered.draws, sizeof n->draws);
    p->draws = p->draws || n->draw_count > 0;
    p->natives[p->native_count++] = n;
    for (int b = 0; b < n->native.shape.buffer_count; ++b) {
        n->tensors[b] = lowered.nodes[b] == HD_TILE_BUFFER ? HD_NONE : lowered.nodes[b];
        if (n->tensors[b] == HD_NONE) n->tile = b;
    }
    return HD_OK;
}

hd_error hd_draft_inputs_of(hd_plan_draft *d, hd_launch *l, uint32_t native) {
    const hd_plan_native *n = d->plan->natives[native];
    for (int b = 0; b < n->native.shape.buffer_count; ++b)
        if (!n->native.shape.buffers[b].written && n->tensors[b] != HD_NONE)
            HD_TRY(hd_draft_input(d, l, n->tensors[b]));
    return HD_OK;
}

hd_error hd_draft_prologue(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group, uint32_t *native) {
    *native = HD_NONE;
    if (group->prologue == HD_NO_GROUP) return HD_OK;
    const hd_group *prologue = &d->plan->fusion.groups[group->prologue];
    HD_TRY(need_inputs(d, prologue));
    HD_TRY(add_native(d, lowering, prologue));
    *native = d->plan->native_count - 1;
    return HD_OK;
}

hd_error hd_draft_kernel(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group) {
    hd_plan *p = d->plan;
    uint32_t prologue;
    HD_TRY(hd_draft_prologue(d, lowering, group, &prologue));
    HD_TRY(need_inputs(d, group));
    HD_TRY(plan_checks(d, group));
    const uint32_t product = group->kind == HD_GROUP_PRODUCT ? hd_draft_product_of(d, group) : HD_NONE;
    const uint32_t last = p->fusion.members[group->first + group->count - 1];
    HD_TRY(add_native(d, lowering, group));
    hd_launch *l =
        hd_draft_launch(d, product == HD_NONE ? HD_RUN_KERNEL : HD_RUN_PRODUCT, product == HD_NONE ? last : product);
    if (l == NULL) return HD_ERROR_INTERNAL;
    l->native = p->native_count - 1;
    if (product != HD_NONE) { /* its operands first */
        hd_plan_call *c = hd_draft_call_of(d, product, l);
        if (c == NULL) return HD_ERROR_INTERNAL;
        c->prologue = prologue;
        HD_TRY(hd_draft_input(d, l, hd_node_inputs(p->graph, product)[0]));
        HD_TRY(hd_draft_input(d, l, hd_node_inputs(p->graph, product)[1]));
    }
    HD_TRY(hd_draft_inputs_of(d, l, l->native));
    if (prologue != HD_NONE) HD_TRY(hd_draft_inputs_of(d, l, prologue));
    const hd_plan_native *n = p->natives[l->native];
    for (int b = 0; b < n->native.shape.buffer_count; ++b)
        if (n->native.shape.buffers[b].written) HD_TRY(hd_draft_output(d, l, n->tensors[b]));
    return HD_OK;
}

/* ---- all launches ------------------------------------------------------------------------------------------------ */
static hd_error plan_groups(hd_plan_draft *d) {
    const hd_plan *p = d->plan;
    hd_lowering lowering;
    hd_error status = hd_lowering_begin(&lowering, p->graph, &p->fusion, p->tensors);
    for (uint32_t i = 0; i < p->fusion.order_count && status == HD_OK; ++i) {
        const hd_group *group = &p->fusion.groups[p->fusion.order[i]];
        status = group->kind == HD_GROUP_CALL      ? hd_draft_call(d, p->fusion.members[group->first], HD_RUN_CALL)
                 : group->kind == HD_GROUP_PRODUCT ? p->machine->plan_product(d, &lowering, group)
                                                   : hd_draft_kernel(d, &lowering, group);
    }
    hd_lowering_end(&lowering);
    return status;
}

/* The tensor in which a value leaves the run: the value itself, or a copy when its buffer is not its own to give
 * away. */
static hd_error leaving(hd_plan_draft *d, uint32_t node, hd_placement kind, uint32_t *out) {
    hd_plan *p = d->plan;
    HD_TRY(hd_draft_need(d, node));
    *out = node;
    if (!hd_plan_is_own(p, node)) {
        const hd_shape shape = p->tensors[node].layout.shape;
        HD_TRY(spare_own(d, kind, (hd_dtype)p->tensors[node].dtype, &shape, out));
        HD_TRY(add_copy(d, node, *out, node));
    }
    p->buffers[p->buffer_of[*out]].placement = kind;
    return HD_OK;
}

hd_error hd_draft_make_launches(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    HD_TRY(plan_groups(d));
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        p->state[i] = HD_NONE;
        if (g->cells[i].update == g->cells[i].node || p->sliced[i]) continue;
        uint32_t leaves;
        HD_TRY(leaving(d, g->cells[i].update, HD_IN_STATE, &leaves));
        p->state[i] = p->buffer_of[leaves];
    }
    for (uint32_t i = 0; i < g->output_count; ++i) HD_TRY(leaving(d, g->outputs[i].node, HD_IN_OUTPUT, &p->outputs[i]));
    return HD_OK;
}
