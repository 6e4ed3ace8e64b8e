/* Rules that are true of every value, NaN, infinities and signed zeros included:
 *   x * 1, x / 1, 1 * x            x
 *   x - 0, x + (-0)                x        (x + 0 is x but for x = -0: only where x cannot be, integers)
 *   permute of permute, reshape of reshape, broadcast of broadcast     one of them, or none
 *   cast there and back through a wider type                            x
 *   a view that changes nothing, a copy of a value                      x */
#include "graph/pass.h"

static bool is_value(const hd_graph *g, uint32_t node, double wanted) {
    double value;
    if (!hd_is_number(g, node, &value) || value != wanted) return false;
    if (wanted != 0) return true;
    const bool minus =
        __builtin_signbit(value) && hd_dtype_is_float((hd_dtype)g->nodes[node].dtype); /* integers have no -0 */
    return minus == (bool)__builtin_signbit(wanted);
}

/* x itself, when the other operand changes nothing and x has the type of the result. */
static uint32_t neutral(const hd_graph *g, const hd_node *n, const uint32_t *in) {
    const bool is_float = hd_dtype_is_float((hd_dtype)n->dtype);
    const bool right = (n->op == HD_OP_mul && is_value(g, in[1], 1)) || (n->op == HD_OP_div && is_value(g, in[1], 1)) ||
                       (n->op == HD_OP_sub && is_value(g, in[1], 0)) ||
                       (n->op == HD_OP_add && (is_value(g, in[1], -0.0) || (!is_float && is_value(g, in[1], 0))));
    const bool left = (n->op == HD_OP_mul && is_value(g, in[0], 1)) ||
                      (n->op == HD_OP_add && (is_value(g, in[0], -0.0) || (!is_float && is_value(g, in[0], 0))));
    return right ? in[0] : left ? in[1] : HD_NO_NODE;
}

static bool is_identity(const hd_axes *order) {
    for (int i = 0; i < order->count; ++i)
        if (order->axis[i] != i) return false;
    return true;
}

static bool holds_all(hd_dtype narrow, hd_dtype wide) { /* every value of one in the other */
    return narrow != wide && hd_dtype_promote(narrow, wide) == wide &&
           hd_dtype_is_float(narrow) == hd_dtype_is_float(wide) && hd_dtype_bytes[wide] > hd_dtype_bytes[narrow] &&
           narrow != HD_BOOL;
}

/* The node of `out` that stands for a new one with these inputs; HD_NO_NODE: it must be made. */
static uint32_t simpler(hd_graph *out, const hd_graph *g, uint32_t i, uint32_t *in) {
    const hd_node *n = &g->nodes[i];
    const hd_shape shape = hd_node_shape(g, i);
    if (!hd_node_is_op(n) || n->derivative != 0 || n->input_count == 0) return HD_NO_NODE;
    const hd_node *first = &out->nodes[in[0]];
    const hd_shape first_shape = hd_node_shape(out, in[0]);
    const bool same = first->dtype == n->dtype && hd_shape_equal(first_shape, shape);
    if (n->op < HD_OP_ELEMENTWISE_COUNT && n->input_count == 2) {
        const uint32_t x = neutral(out, n, in);
        if (x != HD_NO_NODE && out->nodes[x].dtype == n->dtype && hd_shape_equal(hd_node_shape(out, x), shape))
            return x;
        return HD_NO_NODE;
    }
    if (n->op == HD_OP_detach || n->op == HD_OP_contiguous) return in[0]; /* layouts are the plan's business */
    if ((n->op == HD_OP_reshape || n->op == HD_OP_broadcast_to) && same) return in[0];
    if (n->op == HD_OP_permute && is_identity(hd_node_attributes(g, i))) return in[0];
    if (n->op == HD_OP_reshape && hd_is_op(out, in[0], HD_OP_reshape)) {
        in[0] = hd_node_inputs(out, in[0])[0];
        return hd_shape_equal(hd_node_shape(out, in[0]), shape) ? in[0] : HD_NO_NODE;
    }
    if (n->op == HD_OP_broadcast_to && hd_is_op(out, in[0], HD_OP_broadcast_to)) {
        in[0] = hd_node_inputs(out, in[0])[0];
        return HD_NO_NODE;
    }
    if (n->op == HD_OP_permute && hd_is_op(out, in[0], HD_OP_permute)) {
        const hd_axes *inner = hd_node_attributes(out, in[0]), *outer = hd_node_attributes(g, i);
        hd_axes_attributes both = {{.count = outer->count}};
        for (int k = 0; k < outer->count; ++k) both.axes.axis[k] = inner->axis[outer->axis[k]];
        const uint32_t source = hd_node_inputs(out, in[0])[0];
        return is_identity(&both.axes)
                   ? source
                   : hd_graph_add(out, HD_OP_permute, 0, &source, 1, (hd_dtype)n->dtype, &shape, &both);
    }
    if (n->op == HD_OP_cast && hd_is_op(out, in[0], HD_OP_cast)) {
        const uint32_t source = hd_node_inputs(out, in[0])[0];
        if (holds_all((hd_dtype)out->nodes[source].dtype, (hd_dtype)first->dtype)) {
            in[0] = source;
            return out->nodes[source].dtype == n->dtype ? source : HD_NO_NODE;
        }
    }
    return HD_NO_NODE;
}

hd_graph *hd_pass_algebra(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        uint32_t in[HD_MAX_INPUTS];
        hd_map_inputs(g, i, map, in);
        map[i] = simpler(out, g, i, in);
        if (map[i] == HD_NO_NODE && thread->error_code == HD_OK) map[i] = hd_graph_copy(out, g, i, in);
    }
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
