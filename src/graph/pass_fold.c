/* Computes what follows from constants alone, when the result is small. */
#include "graph/pass.h"

#include "core/device.h"

enum {
    LARGEST = 64 << 10,   /* bytes of a result: larger ones would only make the script larger */
    ALTOGETHER = 4 << 20, /* bytes of all results: those in the midst of a chain are there until the pass ends */
    VIEWS = 16            /* views of a constant in a row that are looked through */
};

static bool is_constant(const hd_graph *g, uint32_t node) {
    return g->nodes[node].op == HD_NODE_CONSTANT || hd_is_op(g, node, HD_OP_full) || hd_is_op(g, node, HD_OP_range);
}

/* Views cost nothing, and a full or a range is smaller than its values. */
static bool worth(const hd_graph *g, uint32_t i, const hd_graph *out, const uint32_t *map) {
    const hd_node *n = &g->nodes[i];
    if (!hd_node_is_op(n) || n->input_count == 0 || hd_node_bytes(g, i) > LARGEST) return false;
    const hd_family family = (hd_family)hd_node_op(n)->family;
    if (family == HD_FAMILY_VIEW || family == HD_FAMILY_RANDOM || family == HD_FAMILY_CREATE) return false;
    if (hd_node_op(n)->outputs > 1) return false; /* other nodes read the call, not only its value */
    for (int k = 0; k < n->input_count; ++k) {
        uint32_t input = map[hd_node_inputs(g, i)[k]];
        for (int v = 0;
             v < VIEWS && hd_node_is_op(&out->nodes[input]) && hd_node_op(&out->nodes[input])->family == HD_FAMILY_VIEW;
             ++v)
            input = hd_node_inputs(out, input)[0];
        if (!is_constant(out, input) || hd_node_bytes(out, input) > LARGEST) return false;
    }
    return true;
}

/* The value of a constant node of `out`, or of a view of one, as a tensor; the current scope's. */
static hd_tensor *value_of(hd_thread *thread, const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    if (n->op == HD_NODE_CONSTANT) {
        const hd_shape shape = hd_node_shape(g, node);
        hd_layout layout;
        hd_layout_contiguous(&layout, &shape);
        hd_tensor *t =
            hd_tensor_give(thread, hd_tensor_over(thread, g->constants[n->first].storage, (hd_dtype)n->dtype, &layout));
        return hd_to(t, hd_cpu());
    }
    hd_tensor *inputs[HD_MAX_INPUTS];
    for (int k = 0; k < n->input_count; ++k) inputs[k] = value_of(thread, g, hd_node_inputs(g, node)[k]);
    if (hd_is_op(g, node, HD_OP_as_strided)) inputs[0] = hd_copy(inputs[0]); /* it looks at the storage under a view */
    return hd_replay_node(thread, g, node, inputs, NULL);
}

static uint32_t fold_node(hd_thread *thread, hd_graph *out, const hd_graph *g, uint32_t i, const uint32_t *map) {
    HD_HOLD_ERRORS(thread);
    hd_span span;
    hd_span_begin(&span, thread, "fold");
    hd_tensor *inputs[HD_MAX_INPUTS];
    for (int k = 0; k < g->nodes[i].input_count; ++k) inputs[k] = value_of(thread, out, map[hd_node_inputs(g, i)[k]]);
    hd_tensor *t = hd_contiguous(hd_replay_node(thread, g, i, inputs, NULL));
    uint32_t node = HD_NO_NODE;
    if (t != NULL && t->layout.offset == 0 && (size_t)t->count * hd_dtype_bytes[t->dtype] == t->storage->bytes)
        node = hd_graph_add_constant(out, t->storage, (hd_dtype)t->dtype, &t->layout.shape);
    hd_span_end(&span, NULL);
    if (node == HD_NO_NODE && thread->error_code != HD_OK) hd_error_clear(); /* it will say so when it runs */
    return node;
}

hd_graph *hd_pass_fold(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    size_t folded = 0;
    hd_graph *out = hd_graph_like(thread, g, &map);
    hd_observer *observer = thread->observer;
    const hd_device device = thread->device;
    thread->observer = NULL;
    thread->device = hd_cpu(); /* which is sooner done than a device is asked */
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        if (folded + hd_node_bytes(g, i) <= ALTOGETHER && worth(g, i, out, map)) {
            map[i] = fold_node(thread, out, g, i, map);
            folded += hd_node_bytes(g, i);
        }
        if (map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, g, i, map);
    }
    thread->observer = observer;
    thread->device = device;
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
