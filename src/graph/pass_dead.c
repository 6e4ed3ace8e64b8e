/* Drops nodes that no output and no update reads, but for those with effects. */
#include "graph/pass.h"

#include <string.h>

hd_graph *hd_pass_dead(hd_thread *thread, const hd_graph *g) {
    bool *live = hd_array_resize(NULL, g->node_count + 1);
    if (live == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to mark %u nodes", g->node_count);
        return NULL;
    }
    memset(live, 0, g->node_count + 1);
    for (uint32_t i = 0; i < g->output_count; ++i) live[g->outputs[i].node] = true;
    for (uint32_t i = 0; i < g->cell_count; ++i) live[g->cells[i].update] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const hd_node *n = &g->nodes[i];
        live[i] = live[i] || hd_node_has_effects(g, i);
        if (!live[i] || !hd_node_is_call(n)) continue;
        for (int k = 0; k < n->input_count; ++k) live[hd_node_inputs(g, i)[k]] = true;
    }
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i)
        if (live[i] && map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, g, i, map);
    hd_array_release(live);
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
