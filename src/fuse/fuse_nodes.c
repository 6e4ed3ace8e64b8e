/* What nodes are to fusion, and how their axes relate to those of a space. */
#include "fuse/fuse.h"

#include <string.h>

/* ---- what nodes are ---------------------------------------------------------------------------------------------- */
bool hd_node_is_map(const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    const hd_lower_kind kind = hd_node_lowers(g, node);
    if (kind == HD_LOWER_ROW) /* divisions of integers look for zeros: the device's kernels do */
        return n->derivative > 0 || hd_rows[n->op].guard == HD_GUARD_NONE || g->guarded ||
               hd_dtype_compute[n->compute] >= HD_COMPUTE_F32;
    if (kind != HD_LOWER_CAST) return false;
    /* f64 to a small float rounds once: not in words, unless f32 has the number, too */
    const hd_dtype from = (hd_dtype)g->nodes[hd_node_inputs(g, node)[0]].dtype;
    return !hd_dtype_is_small_float((hd_dtype)n->dtype) || hd_dtype_compute[from] == HD_COMPUTE_F32 ||
           (!hd_dtype_is_float(from) && hd_dtype_bytes[from] <= 2);
}

static bool is_convolution(const hd_graph *g, uint32_t node) {
    return hd_lower_is_convolution(hd_node_lowers(g, node));
}

bool hd_node_is_product(const hd_machine *m, const hd_graph *g, uint32_t node, const char **why) {
    const hd_node *n = &g->nodes[node];
    if (why != NULL) *why = NULL;
    if (!is_convolution(g, node) && !hd_lower_is_matrix_product(hd_node_lowers(g, node))) {
        if (why != NULL && hd_node_is_op(n) && hd_node_op(n)->family == HD_FAMILY_CONV) *why = hd_node_op(n)->no_lower;
        return false;
    }
    const char *apart = hd_node_shape(g, node).rank < 2 ? "its result is no matrix" : m->product_apart(m, g, node);
    if (why != NULL) *why = apart;
    return apart == NULL;
}
int hd_product_row_axis(const hd_graph *g, uint32_t node) {
    return is_convolution(g, node) ? 1 : hd_node_shape(g, node).rank - 2;
}

bool hd_fusion_is_steady(const hd_graph *g, const hd_fusion *f, uint32_t node) {
    const hd_node *source = &g->nodes[f->source[node]];
    const hd_graph_cell *cell = source->op == HD_NODE_CELL ? &g->cells[source->first] : NULL;
    return source->op == HD_NODE_CONSTANT || (cell != NULL && cell->update == cell->node);
}

/* One index for each row: the indexed axis of the index has one element, the others are those of x. */
static bool one_index_a_row(const hd_graph *g, uint32_t node, int axis) {
    const uint32_t *in = hd_node_inputs(g, node);
    const hd_shape x = hd_node_shape(g, in[0]), index = hd_node_shape(g, in[1]);
    if (x.rank != index.rank || x.rank == 0) return false;
    for (int i = 0; i < x.rank; ++i)
        if (index.size[i] != (i == axis ? 1 : x.size[i])) return false;
    return true;
}

bool hd_node_is_pick(const hd_graph *g, uint32_t node) {
    return g->nodes[node].op == HD_OP_gather &&
           one_index_a_row(g, node, ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis);
}

bool hd_node_is_spread(const hd_graph *g, uint32_t node) {
    if (g->nodes[node].op != HD_OP_scatter) return false;
    const hd_scatter_attributes *a = hd_node_attributes(g, node);
    const uint32_t *in = hd_node_inputs(g, node);
    return (a->mode == HD_SCATTER_SET || a->mode == HD_SCATTER_ADD) && one_index_a_row(g, node, a->axis) &&
           hd_shape_equal(hd_node_shape(g, in[1]), hd_node_shape(g, in[2])) &&
           g->nodes[in[0]].dtype == g->nodes[in[2]].dtype;
}

/* True when all along an axis have the same index. */
static bool is_shared_along(const hd_graph *g, uint32_t index, int axis) {
    hd_layout layout;
    return hd_layout_of_value(g, index, &layout) && layout.stride[axis] == 0;
}

bool hd_node_is_lookup(const hd_machine *m, const hd_graph *g, uint32_t node) {
    const int op = g->nodes[node].op;
    if (op != HD_OP_index_select && op != HD_OP_gather) return false;
    const hd_shape shape = hd_node_shape(g, node);
    int last = shape.rank - 1;
    int64_t row = 1; /* elements behind an index */
    for (int i = ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis + 1; i < shape.rank; ++i)
        row *= shape.size[i];
    if (op == HD_OP_index_select && row > 1) return row >= m->target.least_row;
    while (last > 0 && shape.size[last] == 1) --last; /* single elements: what follows is computed several at a time */
    if (last < 0 || shape.size[last] < m->target.least_row) return false;
    return op == HD_OP_index_select || hd_target_gathers(&m->target, hd_dtype_bytes[g->nodes[node].dtype]) ||
           is_shared_along(g, hd_node_inputs(g, node)[1], last);
}

/* How many elements follow each other in a loop of which all but one position along an outer axis is open. */
static int64_t row_of(const hd_shape *shape, int axis) {
    int64_t row = axis == shape->rank - 1 ? shape->size[axis] : 1;
    for (int i = axis + 1; i < shape->rank; ++i) row *= shape->size[i];
    return row;
}

/* True when neighbours along the last axis are neighbours in memory, too. */
static bool lies_in_rows(const hd_graph *g, uint32_t node) {
    hd_layout layout;
    if (g->nodes[node].op == HD_OP_full) return true;
    if (!hd_layout_of_value(g, node, &layout)) return false;
    const int last = layout.shape.rank - 1;
    return last < 0 || layout.shape.size[last] <= 1 || layout.stride[last] == 1;
}

bool hd_node_is_joint(const hd_machine *m, const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    const hd_shape shape = hd_node_shape(g, node);
    if ((n->op != HD_OP_concat && n->op != HD_OP_pad) || n->input_count > m->target.most_pieces ||
        hd_shape_count(shape) == 0 || !hd_target_reads_some(&m->target, hd_dtype_bytes[n->dtype]))
        return false;
    for (int k = 0; k < n->input_count; ++k) {
        const uint32_t in = hd_node_inputs(g, node)[k];
        if (g->nodes[in].dtype != n->dtype || !lies_in_rows(g, in)) return false;
    }
    if (n->op == HD_OP_concat)
        return row_of(&shape, ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis) >= m->target.least_row;
    const hd_pad_attributes *a = hd_node_attributes(g, node);
    int last = -1;
    for (int i = 0; i < shape.rank; ++i)
        if (a->padding[i].before != 0 || a->padding[i].after != 0) last = i;
    return last >= 0 && row_of(&shape, last) >= m->target.least_row;
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */
void hd_form_axes(const hd_group *group, hd_form form, int8_t *axes) {
    int count = 0;
    for (int i = 0; i < group->space.rank && i < HD_MAX_RANK; ++i) { /* the second is for gcc, which warns else */
        if (form == HD_FORM_SQUEEZED && group->reduced[i]) continue;
        axes[count++] = (int8_t)(form == HD_FORM_ONES && group->reduced[i] ? -1 : i);
    }
}

/* Axes of a value under broadcasting: those of the stretched one, from the right. */
static void broadcast_axes(const hd_shape *from, const hd_shape *to, const int8_t *axes, int8_t *out) {
    for (int i = 0; i < from->rank; ++i) out[i] = (int8_t)(from->size[i] == 1 ? -1 : axes[to->rank - from->rank + i]);
}

/* A reshape that only adds or drops axes of size 1. */
static bool reshape_axes(const hd_shape *from, const hd_shape *to, const int8_t *axes, int8_t *out) {
    int j = 0;
    for (int i = 0; i < from->rank; ++i) {
        out[i] = -1;
        if (from->size[i] == 1) continue;
        while (j < to->rank && to->size[j] == 1) ++j;
        if (j == to->rank || to->size[j] != from->size[i]) return false;
        out[i] = axes[j++];
    }
    while (j < to->rank && to->size[j] == 1) ++j;
    return j == to->rank;
}

bool hd_follow_axes(const hd_graph *g, uint32_t node, int k, const int8_t *axes, int8_t *out) {
    uint32_t at = hd_node_inputs(g, node)[k];
    hd_shape shape = hd_node_shape(g, at), to = hd_node_shape(g, node);
    int8_t now[HD_MAX_RANK], next[HD_MAX_RANK];
    broadcast_axes(&shape, &to, axes, now);
    for (; hd_node_is_view(g, at); at = hd_node_inputs(g, at)[0], memcpy(now, next, sizeof now)) {
        const hd_shape from = hd_node_shape(g, hd_node_inputs(g, at)[0]);
        shape = hd_node_shape(g, at);
        const hd_axes *order = hd_node_attributes(g, at);
        const hd_lower_kind kind = hd_node_lowers(g, at);
        if (kind == HD_LOWER_SAME)
            memcpy(next, now, sizeof next);
        else if (kind == HD_LOWER_BROADCAST)
            broadcast_axes(&from, &shape, now, next);
        else if (kind == HD_LOWER_PERMUTE)
            for (int i = 0; i < order->count; ++i) next[order->axis[i]] = now[i];
        else if (kind != HD_LOWER_RESHAPE || !reshape_axes(&from, &shape, now, next))
            return false;
    }
    memcpy(out, now, sizeof now);
    return true;
}
