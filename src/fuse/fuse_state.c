/* Values that are state with parts of it written: a row of a cache at a place that an input says. Such a write can go
 * straight into the state's memory; here is which, plan_slices.c says whether. */
#include "fuse/fuse.h"

#include <string.h>

/* A write of a part: where its layout says, or at indices. Small floats are combined in f32, not where they lie; and
 * what is at more indices than half the elements is not worth keeping: a copy of all costs no more. */
static bool writes_part(const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    if (n->op != HD_OP_scatter) return n->op == HD_NODE_WRITE;
    const hd_scatter_attributes *a = hd_node_attributes(g, node);
    return (a->mode == HD_SCATTER_SET || !hd_dtype_is_small_float((hd_dtype)n->dtype)) &&
           hd_node_count(g, hd_node_inputs(g, node)[1]) <= hd_node_count(g, node) / 2;
}

hd_error hd_fusion_find_writes(const hd_graph *g, hd_fusion *f) {
    const size_t bytes = ((size_t)g->node_count + 1) * sizeof *f->writes;
    f->writes = hd_array_resize(NULL, bytes);
    f->written_by = hd_array_resize(NULL, bytes);
    uint32_t *root = hd_array_resize(NULL, bytes); /* of each node: the cell that it is, some parts written */
    if (f->writes == NULL || f->written_by == NULL || root == NULL) {
        hd_array_release(root);
        return hd_fail(HD_ERROR_MEMORY, "no memory to fuse a graph of %u nodes", g->node_count);
    }
    memset(f->writes, 0xff, bytes); /* HD_NO_CELL, HD_NO_NODE */
    memset(f->written_by, 0xff, bytes);
    for (uint32_t i = 0; i < g->node_count; ++i)
        root[i] = g->nodes[i].op == HD_NODE_CELL ? g->nodes[i].first
                  : writes_part(g, i)            ? root[hd_node_inputs(g, i)[0]]
                                                 : HD_NO_CELL;
    for (uint32_t c = 0; c < g->cell_count && f->level > HD_O0; ++c) {
        if (root[g->cells[c].update] != c) continue;
        for (uint32_t at = g->cells[c].update; at != g->cells[c].node; at = hd_node_inputs(g, at)[0]) {
            f->writes[at] = c;
            f->written_by[hd_node_inputs(g, at)[0]] = at;
        }
    }
    hd_array_release(root);
    return HD_OK;
}
