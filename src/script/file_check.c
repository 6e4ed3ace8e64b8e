/* That the nodes of a file are calls a program could have made.
 *
 * They are called anew, as hd_graph_verify does, and then compared: the public functions take more than a graph may hold
 * (an axis of -1, a size of -1, windows and paddings past the rank), and what runs a graph relies on what a recording
 * would have put there. So each node gets the attributes that its call recorded. */
#include "graph/capture.h"
#include "script/file.h"

#if HD_HAS_FILES

#include <string.h>

/* Strides along which nothing steps may be anything; large ones would overflow where they are multiplied. */
static void tame(hd_layout *layout, int64_t elements) {
    const int64_t count = hd_shape_count(layout->shape);
    if (count == 0) layout->offset = 0;
    for (int i = 0; i < layout->shape.rank; ++i)
        if (count == 0 || (layout->shape.size[i] == 1 && (layout->stride[i] > elements || layout->stride[i] < -elements)))
            layout->stride[i] = 0;
}

static hd_error adopt(hd_graph *g, uint32_t node, const hd_graph *made, const uint32_t *map) {
    hd_node *n = &g->nodes[node];
    const hd_node *m = &made->nodes[map[node]];
    bool same = n->op == m->op && n->derivative == m->derivative && n->compute == m->compute && n->input_count == m->input_count &&
                (n->attributes == 0) == (m->attributes == 0);
    for (int k = 0; k < n->input_count && same; ++k) same = map[hd_node_inputs(g, node)[k]] == hd_node_inputs(made, map[node])[k];
    if (!same) return hd_fail(HD_ERROR_VALUE, "has a node %%%u that is no call: %s would not be recorded so", node, hd_node_name(n));
    if (n->attributes == 0) return HD_OK;
    _Alignas(8) char attributes[HD_ATTRIBUTES_MOST];
    const size_t bytes = hd_pool_size(&made->pool, m->attributes);
    memcpy(attributes, hd_pool_at(&made->pool, m->attributes), bytes);
    if (hd_node_is_op(n) && hd_ops[n->op].family == HD_FAMILY_RANDOM)
        ((hd_random_attributes *)attributes)->draw = ((const hd_random_attributes *)hd_node_attributes(g, node))->draw;
    if (n->op == HD_NODE_WRITE) tame(&((hd_strided_attributes *)attributes)->layout, hd_node_count(g, node));
    n->attributes = hd_pool_intern(&g->pool, attributes, bytes);
    return n->attributes == 0 ? HD_ERROR_MEMORY : HD_OK;
}

/* What integers became in ops on floats: the default dtype of the thread that recorded, which the calls need again. */
static hd_dtype default_of(const hd_graph *g, hd_dtype otherwise) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const hd_node *n = &g->nodes[i];
        if (n->op >= HD_OP_ELEMENTWISE_COUNT || n->derivative != 0 || hd_rows[n->op].types != HD_TYPES_FLOATS ||
            !hd_dtype_is_float((hd_dtype)n->dtype))
            continue;
        bool floats = false;
        for (int k = 0; k < n->input_count; ++k)
            floats = floats || hd_dtype_is_float((hd_dtype)g->nodes[hd_node_inputs(g, i)[k]].dtype);
        if (!floats) return (hd_dtype)n->dtype;
    }
    return otherwise;
}

/* The error of a node's call becomes one that names the node. */
static hd_error name_node(hd_thread *thread, const hd_graph *g, const uint32_t *map) {
    uint32_t node = 0;
    while (node < g->node_count && map[node] != HD_NO_NODE) ++node;
    return hd_file_reword(thread, HD_ERROR_VALUE, "has a node %%%u that is no call: ", node);
}

hd_error hd_file_check_calls(hd_thread *thread, hd_graph *g) {
    hd_graph *made = hd_graph_new(thread, "check");
    hd_recording *r = made == NULL ? NULL : hd_recording_new(thread, made), *outer = thread->recording;
    uint32_t *map = r == NULL ? NULL : hd_array_resize(NULL, (g->node_count + (size_t)1) * sizeof *map);
    if (map == NULL) {
        hd_recording_release(thread, r);
        return hd_fail(HD_ERROR_MEMORY, "no memory to check a graph");
    }
    memset(map, 0xff, (g->node_count + (size_t)1) * sizeof *map);
    const char *call = thread->call;
    const void *caller = thread->caller;
    const hd_dtype dtype = thread->default_dtype;
    thread->default_dtype = default_of(g, dtype);
    hd_recording_enter(thread, r);
    thread->observer = NULL;
    hd_error status = hd_replay_graph(thread, r, g, map);
    hd_recording_leave(thread, r);
    thread->recording = outer; /* a builder may be active around this */
    thread->default_dtype = dtype;
    thread->call = call;
    thread->caller = caller;
    if (status != HD_OK) status = name_node(thread, g, map);
    for (uint32_t i = 0; i < g->node_count && status == HD_OK; ++i)
        if (hd_node_is_op(&g->nodes[i]) || g->nodes[i].op == HD_NODE_WRITE) status = adopt(g, i, made, map);
    hd_array_release(map);
    hd_recording_release(thread, r);
    return status;
}

#endif
