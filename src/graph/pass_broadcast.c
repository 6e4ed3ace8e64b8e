/* Elementwise ops stretch their operands themselves: a broadcast in front of one is left out when another operand has
 * the shape of the result. */
#include "graph/pass.h"

static bool sinks(const hd_graph *out, const hd_node *n, const hd_shape *shape, const uint32_t *in, int which) {
    if (!hd_is_op(out, in[which], HD_OP_broadcast_to)) return false;
    hd_shape met = hd_node_shape(out, hd_node_inputs(out, in[which])[0]);
    for (int k = 0; k < n->input_count; ++k) {
        const hd_shape other = hd_node_shape(out, in[k]);
        if (k != which && hd_shape_broadcast(&met, &other, &met) != HD_OK) return false;
    }
    return hd_shape_equal(met, *shape);
}

hd_graph *hd_pass_broadcast(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        uint32_t in[HD_MAX_INPUTS];
        const hd_node *n = &g->nodes[i];
        const hd_shape shape = hd_node_shape(g, i);
        const int count = hd_map_inputs(g, i, map, in);
        if (n->op < HD_OP_ELEMENTWISE_COUNT)
            for (int k = 0; k < count; ++k)
                if (sinks(out, n, &shape, in, k)) in[k] = hd_node_inputs(out, in[k])[0];
        map[i] = hd_graph_copy(out, g, i, in);
    }
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
