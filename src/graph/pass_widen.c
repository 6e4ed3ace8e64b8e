/* Folds casts that lose nothing into the matrix products that read them: a product converts what it reads, and the
 * converted operand is in memory nowhere. What is left is a node whose dtype is wider than that of its operands: it
 * says in what they are multiplied, so that i8 times i8 gives i32. */
#include "graph/pass.h"

/* What the node is a cast of, when a product of this dtype can read that instead; else the node. */
static uint32_t unwidened(const hd_graph *g, uint32_t node, hd_dtype dtype) {
    if (!hd_is_op(g, node, HD_OP_cast) || g->nodes[node].dtype != dtype) return node;
    const uint32_t from = hd_node_inputs(g, node)[0];
    return hd_product_widens((hd_dtype)g->nodes[from].dtype, dtype) ? from : node;
}

hd_graph *hd_pass_widen(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        const hd_node *n = &g->nodes[i];
        if (!hd_is_op(g, i, HD_OP_matmul) && !hd_is_op(g, i, HD_OP_affine)) {
            map[i] = hd_copy_mapped(out, g, i, map);
            continue;
        }
        uint32_t in[HD_MAX_INPUTS];
        const int count = hd_map_inputs(g, i, map, in);
        for (int k = 0; k < 2; ++k) in[k] = unwidened(out, in[k], (hd_dtype)n->dtype);
        const hd_shape shape = hd_node_shape(g, i);
        map[i] = hd_graph_add(out, n->op, 0, in, count, (hd_dtype)n->dtype, &shape, hd_node_attributes(g, i));
    }
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
