/* What passes share. */
#ifndef HD_GRAPH_PASS_H
#define HD_GRAPH_PASS_H

#include "graph/capture.h"

/* The inputs of node i of `from` by the map; how many there are. */
static inline int hd_map_inputs(const hd_graph *from, uint32_t i, const uint32_t *map, uint32_t *inputs) {
    const hd_node *n = &from->nodes[i];
    const int count = hd_node_is_call(n) ? n->input_count : 0;
    for (int k = 0; k < count; ++k) inputs[k] = map[hd_node_inputs(from, i)[k]];
    return count;
}
/* Copies node i of `from`, its inputs by the map. */
static inline uint32_t hd_copy_mapped(hd_graph *g, const hd_graph *from, uint32_t i, const uint32_t *map) {
    uint32_t inputs[HD_MAX_INPUTS];
    hd_map_inputs(from, i, map, inputs);
    return hd_graph_copy(g, from, i, inputs);
}

static inline bool hd_is_op(const hd_graph *g, uint32_t node, hd_op_id id) {
    return g->nodes[node].op == id && g->nodes[node].derivative == 0;
}
static inline bool hd_same_type(const hd_graph *g, uint32_t a, uint32_t b) {
    return g->nodes[a].dtype == g->nodes[b].dtype && g->nodes[a].shape == g->nodes[b].shape;
}
/* True when every element of the node is this number; *value says which. */
static inline bool hd_is_number(const hd_graph *g, uint32_t node, double *value) {
    while (hd_is_op(g, node, HD_OP_broadcast_to) || hd_is_op(g, node, HD_OP_reshape)) node = hd_node_inputs(g, node)[0];
    if (!hd_is_op(g, node, HD_OP_full)) return false;
    *value = *(const double *)hd_node_attributes(g, node);
    return true;
}

#endif
