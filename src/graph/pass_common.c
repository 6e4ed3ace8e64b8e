/* Computes equal nodes once. Draws are never equal: each has its ordinal; nor are nodes with effects. */
#include "graph/pass.h"

#include <string.h>

typedef struct table {
    uint32_t *nodes; /* 1 + node */
    uint32_t size;
} table;

static uint32_t hash_node(const hd_graph *g, uint32_t i) {
    const hd_node *n = &g->nodes[i];
    uint64_t h = (uint64_t)n->op << 32 ^ (uint64_t)n->derivative << 48 ^ (uint64_t)n->dtype << 56 ^ n->shape;
    h = (h ^ n->attributes) * 0x9e3779b97f4a7c15u;
    for (int k = 0; k < n->input_count; ++k) h = (h ^ (h >> 29) ^ hd_node_inputs(g, i)[k]) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ h >> 32);
}

static bool equal(const hd_graph *g, uint32_t a, uint32_t b) {
    const hd_node *x = &g->nodes[a], *y = &g->nodes[b];
    return x->op == y->op && x->derivative == y->derivative && x->dtype == y->dtype && x->compute == y->compute &&
           x->shape == y->shape && x->attributes == y->attributes && x->input_count == y->input_count &&
           (x->input_count == 0 ||
            memcmp(hd_node_inputs(g, a), hd_node_inputs(g, b), x->input_count * sizeof(uint32_t)) == 0);
}

hd_graph *hd_pass_common(hd_thread *thread, const hd_graph *g) {
    table t = {.size = 64};
    while (t.size < g->node_count * 2u) t.size *= 2;
    t.nodes = hd_array_resize(NULL, t.size * sizeof *t.nodes);
    if (t.nodes == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for %u nodes", g->node_count);
        return NULL;
    }
    memset(t.nodes, 0, t.size * sizeof *t.nodes);
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] != HD_NO_NODE) continue;
        const uint32_t added = map[i] = hd_copy_mapped(out, g, i, map);
        if (added == HD_NO_NODE || !hd_node_is_call(&g->nodes[i]) || hd_node_has_effects(g, i)) continue;
        uint32_t at = hash_node(out, added) & (t.size - 1);
        while (t.nodes[at] != 0 && !equal(out, t.nodes[at] - 1, added)) at = (at + 1) & (t.size - 1);
        if (t.nodes[at] == 0) {
            t.nodes[at] = added + 1;
        } else { /* there already: the copy goes again */
            map[i] = t.nodes[at] - 1;
            out->node_count--;
            out->edge_count -= g->nodes[i].input_count;
        }
    }
    hd_array_release(t.nodes);
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
