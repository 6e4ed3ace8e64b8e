/* Checking and rebuilding graphs by calling their ops anew. */
#include "graph/capture.h"

#include <string.h>

static hd_tensor *replay_write(hd_thread *thread, const hd_graph *g, uint32_t node, hd_tensor *const *inputs) {
    hd_recording *r = thread->recording;
    const hd_layout *layout = hd_node_attributes(g, node);
    const hd_shape shape = hd_node_shape(g, node);
    hd_shape strides = {.rank = layout->shape.rank};
    for (int i = 0; i < layout->shape.rank && i < HD_MAX_RANK; ++i) strides.size[i] = layout->stride[i];
    hd_tensor *base =
        hd_recording_tensor(thread, r, inputs[0]->captured.node); /* a storage of its own, to be written */
    if (base == NULL) return NULL;
    if (!hd_shape_equal(shape, base->layout.shape) || base->dtype != inputs[1]->dtype) {
        hd_fail(HD_ERROR_SHAPE, "a write of %s into %s", HD_SHAPE_TEXT(inputs[1]->layout.shape),
                HD_SHAPE_TEXT(base->layout.shape));
        return NULL;
    }
    hd_tensor *part = hd_as_strided(base, layout->shape, strides, layout->offset); /* checks that it lies inside */
    if (part == NULL) return NULL;
    if (!hd_shape_equal(part->layout.shape, inputs[1]->layout.shape) || hd_layout_overlaps_itself(&part->layout)) {
        hd_fail(HD_ERROR_SHAPE, "a write of %s into a part %s", HD_SHAPE_TEXT(inputs[1]->layout.shape),
                HD_SHAPE_TEXT(part->layout.shape));
        return NULL;
    }
    const uint32_t nodes[2] = {inputs[0]->captured.node, inputs[1]->captured.node};
    const uint32_t added = hd_graph_add(r->graph, HD_NODE_WRITE, 0, nodes, 2, (hd_dtype)base->dtype, &shape,
                                        &(hd_strided_attributes){part->layout}); /* as the op resolved it */
    return added == HD_NO_NODE ? NULL : hd_recording_tensor(thread, r, added);
}

/* True when the call recorded what was written: attributes that ops would have resolved otherwise must not reach a
 * plan. */
static bool recorded_as(const hd_graph *g, uint32_t node, const hd_graph *made, uint32_t added) {
    const hd_node *n = &g->nodes[node], *m = &made->nodes[added];
    if (n->op == HD_OP_matmul) { /* what it transposes is recorded as views; products of vectors as those of matrices */
        const uint32_t *in = hd_node_inputs(g, node);
        return hd_node_shape(g, in[0]).rank >= 2 && hd_node_shape(g, in[1]).rank >= 2 &&
               hd_attributes_precision(HD_OP_matmul, hd_node_attributes(g, node)) ==
                   hd_attributes_precision(HD_OP_matmul, hd_node_attributes(made, added));
    }
    size_t bytes;
    hd_attribute_fields(n->op, &bytes);
    return n->op == m->op && n->derivative == m->derivative && (n->attributes == 0) == (m->attributes == 0) &&
           (n->attributes == 0 || memcmp(hd_node_attributes(g, node), hd_node_attributes(made, added), bytes) == 0);
}

/* True when a value is of the type that a node says. */
static bool fits(const hd_graph *g, uint32_t node, const hd_tensor *t) {
    const hd_node *n = &g->nodes[node];
    const hd_shape shape = hd_node_shape(g, node);
    if ((hd_dtype)t->dtype == (hd_dtype)n->dtype && hd_shape_equal(t->layout.shape, shape)) return true;
    hd_fail(HD_ERROR_SHAPE, "node %%%u, %s, gives %s%s, not %s%s", node, hd_node_name(n),
            hd_dtype_name((hd_dtype)t->dtype), HD_SHAPE_TEXT(t->layout.shape), hd_dtype_name((hd_dtype)n->dtype),
            HD_SHAPE_TEXT(shape));
    return false;
}

hd_tensor *hd_replay_node(hd_thread *thread, const hd_graph *g, uint32_t node, hd_tensor *const *inputs,
                          hd_tensor **second) {
    const hd_node *n = &g->nodes[node];
    const hd_shape shape = hd_node_shape(g, node);
    hd_tensor *t;
    if (second != NULL) *second = NULL;
    hd_recording *r = thread->executor->captures ? thread->recording : NULL;
    if (r != NULL && hd_node_is_op(n) && hd_ops[n->op].family == HD_FAMILY_RANDOM && n->attributes != 0) {
        const uint64_t draw = ((const hd_random_attributes *)hd_node_attributes(g, node))->draw;
        if (draw >= g->draws)
            return hd_fail(HD_ERROR_VALUE, "node %%%u takes draw %llu of %u", node, (unsigned long long)draw, g->draws),
                   NULL;
        r->graph->draws = (uint32_t)draw;
    }
    if (n->op == HD_NODE_WRITE) {
        t = n->input_count == 2 && n->attributes != 0 ? replay_write(thread, g, node, inputs) : NULL;
    } else {
        size_t bytes;
        hd_attribute_fields(n->op, &bytes);
        if (bytes > 0 && n->attributes == 0 && !hd_attributes_may_lack(n->op))
            return hd_fail(HD_ERROR_VALUE, "node %%%u, %s, lacks its attributes", node, hd_node_name(n)), NULL;
        if (thread->call_depth == 0) thread->call = hd_node_name(n);
        const hd_dtype before = thread->default_dtype; /* what integers became then may not be what they become now */
        if (hd_dtype_is_float((hd_dtype)n->dtype)) thread->default_dtype = (hd_dtype)n->dtype;
        hd_replay_call call = {.attributes = hd_node_attributes(g, node),
                               .inputs = inputs,
                               .input_count = n->input_count,
                               .dtype = (hd_dtype)n->dtype,
                               .shape = &shape};
        hd_replay(thread, (hd_op_id)n->op, n->derivative, &call);
        t = call.output;
        if (second != NULL) *second = call.second;
        thread->default_dtype = before;
    }
    if (t == NULL || thread->error_code != HD_OK) {
        hd_fail(HD_ERROR_VALUE, "node %%%u, %s, is not a call that can be made", node, hd_node_name(n));
        return NULL;
    }
    if (!fits(g, node, t)) return NULL;
    if (r != NULL && !recorded_as(g, node, r->graph, hd_recording_node(thread, r, t))) {
        hd_fail(HD_ERROR_VALUE, "node %%%u, %s, has attributes that no call leaves behind", node, hd_node_name(n));
        return NULL;
    }
    return t;
}

static hd_tensor *enter_node(hd_thread *thread, hd_recording *r, const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    const hd_shape shape = hd_node_shape(g, node);
    int64_t count;
    if (n->dtype == 0 || n->dtype >= HD_DTYPE_COUNT)
        return hd_fail(HD_ERROR_DTYPE, "node %%%u has no dtype", node), NULL;
    HD_TRY_OR(hd_shape_check(&shape, hd_dtype_bytes[n->dtype], &count), NULL);
    uint32_t added = HD_NO_NODE;
    const hd_storage *storage = n->op == HD_NODE_CONSTANT ? g->constants[n->first].storage
                                : n->op == HD_NODE_CELL   ? g->cells[n->first].storage
                                                          : NULL;
    if (storage != NULL && storage->bytes != (size_t)count * hd_dtype_bytes[n->dtype])
        return hd_fail(HD_ERROR_SHAPE, "node %%%u has %zu bytes, which do not fit %s%s", node, storage->bytes,
                       hd_dtype_name((hd_dtype)n->dtype), HD_SHAPE_TEXT(shape)),
               NULL;
    if (n->op == HD_NODE_INPUT)
        added = hd_graph_add_input(r->graph, hd_graph_string(g, g->inputs[n->first].name), (hd_dtype)n->dtype, &shape);
    else if (n->op == HD_NODE_CONSTANT)
        added = hd_graph_add_constant(r->graph, g->constants[n->first].storage, (hd_dtype)n->dtype, &shape);
    else
        added = hd_graph_add_cell(r->graph, hd_graph_string(g, g->cells[n->first].name), g->cells[n->first].kind,
                                  g->cells[n->first].storage, (hd_dtype)n->dtype, &shape);
    return added == HD_NO_NODE ? NULL : hd_recording_tensor(thread, r, added);
}

/* What is kept of each node while a graph is replayed. */
typedef struct replayed {
    hd_tensor *value; /* until its last use */
    uint32_t last;    /* the node that reads it last */
    uint32_t second;  /* the new node of the second output; HD_NO_NODE: none */
} replayed;

/* Tensors are given up as early as can be. */
static void last_uses(const hd_graph *g, replayed *all) {
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (hd_node_is_call(&g->nodes[i]))
            for (int k = 0; k < g->nodes[i].input_count; ++k) all[hd_node_inputs(g, i)[k]].last = i;
    for (uint32_t i = 0; i < g->output_count; ++i) all[g->outputs[i].node].last = g->node_count;
    for (uint32_t i = 0; i < g->cell_count; ++i) all[g->cells[i].update].last = g->node_count;
}

/* The second output of a call was recorded with it. */
static uint32_t second_of(hd_thread *thread, hd_recording *r, const hd_graph *g, uint32_t node, const replayed *all) {
    const uint32_t call = hd_node_inputs(g, node)[0], second = all[call].second;
    if (second == HD_NO_NODE) {
        hd_fail(HD_ERROR_VALUE, "node %%%u, output %d of %s, which has no such output", node, g->nodes[node].derivative,
                hd_node_name(&g->nodes[call]));
        return HD_NO_NODE;
    }
    const hd_tensor *t = hd_recording_tensor(thread, r, second);
    return t != NULL && fits(g, node, t) ? second : HD_NO_NODE;
}

/* The new node of node i, whose inputs have values; HD_NO_NODE with an error. */
static uint32_t replay_into(hd_thread *thread, hd_recording *r, const hd_graph *g, uint32_t i, replayed *all) {
    const hd_node *n = &g->nodes[i];
    hd_tensor *inputs[HD_MAX_INPUTS], *t, *second = NULL;
    if (n->op == HD_NODE_OUTPUT) return second_of(thread, r, g, i, all);
    if (hd_node_is_call(n)) {
        for (int k = 0; k < n->input_count; ++k) inputs[k] = all[hd_node_inputs(g, i)[k]].value;
        t = hd_replay_node(thread, g, i, inputs, &second);
    } else {
        t = enter_node(thread, r, g, i);
    }
    if (second != NULL) all[i].second = hd_recording_node(thread, r, second);
    return t == NULL ? HD_NO_NODE : hd_recording_node(thread, r, t);
}

hd_error hd_replay_graph(hd_thread *thread, hd_recording *r, const hd_graph *g, uint32_t *map) {
    replayed *all = hd_array_resize(NULL, (g->node_count + 1) * sizeof *all);
    if (all == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to check %u nodes", g->node_count);
    for (uint32_t i = 0; i < g->node_count; ++i) all[i] = (replayed){.last = i, .second = HD_NO_NODE};
    last_uses(g, all);
    for (uint32_t i = 0; i < g->node_count && thread->error_code == HD_OK; ++i) {
        const hd_node *n = &g->nodes[i];
        hd_scope_token scope = hd_scope_within(thread, &scope);
        map[i] = replay_into(thread, r, g, i, all);
        if (map[i] != HD_NO_NODE) { /* what other calls see of it is a value of its own, not a view */
            all[i].value = hd_recording_tensor(thread, r, map[i]);
            if (all[i].value != NULL) hd_object_retain(&all[i].value->object);
            if (n->span < r->graph->span_count) r->graph->nodes[map[i]].span = n->span;
        }
        hd_scope_close(thread, &scope);
        for (int k = 0; k < n->input_count && map[i] != HD_NO_NODE && hd_node_is_call(n); ++k) {
            replayed *input = &all[hd_node_inputs(g, i)[k]];
            if (input->last != i || input->value == NULL) continue;
            hd_tensor_drop(thread, input->value);
            input->value = NULL;
        }
    }
    for (uint32_t i = 0; i < g->node_count; ++i) hd_tensor_drop(thread, all[i].value);
    hd_array_release(all);
    return thread->error_code;
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */
static hd_error check_tables(const hd_graph *g, uint32_t *node) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        const bool op = hd_node_is_call(n);
        *node = i;
        const int most = n->op < HD_OP_ELEMENTWISE_COUNT ? 3 : n->op == HD_NODE_OUTPUT ? HD_MAX_OUTPUTS - 1 : 0;
        if (n->op >= HD_NODE_END || n->derivative > most || (n->op == HD_NODE_OUTPUT && n->derivative == 0))
            return hd_fail(HD_ERROR_VALUE, "node %%%u is of no known kind", i);
        if (n->op == HD_NODE_OUTPUT && n->input_count != 1)
            return hd_fail(HD_ERROR_VALUE, "node %%%u is an output of %d nodes", i, n->input_count);
        if (op &&
            (n->first > g->edge_count || n->input_count > g->edge_count - n->first || n->input_count > HD_MAX_INPUTS))
            return hd_fail(HD_ERROR_VALUE, "node %%%u has inputs out of range", i);
        for (int k = 0; op && k < n->input_count; ++k)
            if (hd_node_inputs(g, i)[k] >= i) return hd_fail(HD_ERROR_VALUE, "node %%%u reads a node behind it", i);
        const uint32_t table = n->op == HD_NODE_INPUT      ? g->input_count
                               : n->op == HD_NODE_CONSTANT ? g->constant_count
                               : n->op == HD_NODE_CELL     ? g->cell_count
                                                           : UINT32_MAX;
        if (!op && n->first >= table) return hd_fail(HD_ERROR_VALUE, "node %%%u is in no table", i);
    }
    *node = HD_NO_NODE;
    for (uint32_t i = 0; i < g->output_count; ++i)
        if (g->outputs[i].node >= g->node_count) return hd_fail(HD_ERROR_VALUE, "output %u is no node", i);
    for (uint32_t i = 0; i < g->input_count; ++i)
        if (g->inputs[i].node >= g->node_count || g->nodes[g->inputs[i].node].op != HD_NODE_INPUT ||
            g->nodes[g->inputs[i].node].first != i)
            return hd_fail(HD_ERROR_VALUE, "input %u has no node", i);
    for (uint32_t i = 0; i < g->cell_count; ++i) {
        const hd_graph_cell *c = &g->cells[i];
        if (c->node >= g->node_count || c->update >= g->node_count || g->nodes[c->node].op != HD_NODE_CELL ||
            g->nodes[c->node].first != i || g->nodes[c->node].dtype != g->nodes[c->update].dtype ||
            g->nodes[c->node].shape != g->nodes[c->update].shape || (c->kind == HD_CELL_BOUND && c->update != c->node))
            return hd_fail(HD_ERROR_VALUE, "cell %u and its update do not fit", i);
    }
    return HD_OK;
}

hd_error hd_graph_verify(hd_thread *thread, const hd_graph *g) {
    uint32_t node;
    return hd_graph_verify_at(thread, g, &node);
}

hd_error hd_graph_verify_at(hd_thread *thread, const hd_graph *g, uint32_t *node) {
    *node = HD_NO_NODE;
    HD_TRY(check_tables(g, node));
    if (thread->recording != NULL) return HD_OK; /* inside a builder there is no second one */
    hd_graph *scratch = hd_graph_new(thread, "verify");
    hd_recording *r = scratch == NULL ? NULL : hd_recording_new(thread, scratch);
    uint32_t *map = r == NULL ? NULL : hd_array_resize(NULL, (g->node_count + 1) * sizeof *map);
    if (map != NULL) {
        hd_recording_enter(thread, r);
        thread->observer = NULL;
        for (uint32_t i = 0; i < g->node_count; ++i) map[i] = HD_NO_NODE;
        if (hd_replay_graph(thread, r, g, map) != HD_OK) /* the first without a new node */
            for (*node = 0; *node + 1 < g->node_count && map[*node] != HD_NO_NODE;) ++*node;
        hd_recording_leave(thread, r);
        hd_array_release(map);
    } else {
        hd_fail(HD_ERROR_MEMORY, "no memory to check a graph");
    }
    hd_recording_release(thread, r);
    return thread->error_code;
}
