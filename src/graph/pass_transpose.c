/* Folds transposes of the last two axes into the matrix products that read them. */
#include "graph/pass.h"

/* What the node is the transpose of, or HD_NO_NODE. */
static uint32_t transposed(const hd_graph *g, uint32_t node) {
    if (!hd_is_op(g, node, HD_OP_permute)) return HD_NO_NODE;
    const hd_axes *order = hd_node_attributes(g, node);
    if (order->count < 2 || order->axis[order->count - 1] != order->count - 2 ||
        order->axis[order->count - 2] != order->count - 1)
        return HD_NO_NODE;
    for (int i = 0; i < order->count - 2; ++i)
        if (order->axis[i] != i) return HD_NO_NODE;
    return hd_node_inputs(g, node)[0];
}

hd_graph *hd_pass_transpose(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        if (!hd_is_op(g, i, HD_OP_matmul)) {
            map[i] = hd_copy_mapped(out, g, i, map);
            continue;
        }
        uint32_t in[2] = {map[hd_node_inputs(g, i)[0]], map[hd_node_inputs(g, i)[1]]};
        const hd_matmul_attributes *given = hd_node_attributes(g, i);
        hd_matmul_attributes attributes = given != NULL ? *given : (hd_matmul_attributes){0};
        const uint32_t a = transposed(out, in[0]), b = transposed(out, in[1]);
        if (a != HD_NO_NODE) in[0] = a, attributes.transpose_a = !attributes.transpose_a;
        if (b != HD_NO_NODE) in[1] = b, attributes.transpose_b = !attributes.transpose_b;
        const hd_shape shape = hd_node_shape(g, i);
        map[i] = hd_graph_add(
            out, HD_OP_matmul, 0, in, 2, (hd_dtype)g->nodes[i].dtype, &shape,
            attributes.transpose_a || attributes.transpose_b || attributes.precision != HD_MATMUL_EXACT ? &attributes
                                                                                                        : NULL);
    }
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
