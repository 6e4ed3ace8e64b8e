/* Drops the names of composites and modules: all that expanding them means. */
#include "graph/pass.h"

hd_graph *hd_pass_spans(hd_thread *thread, const hd_graph *g) {
    uint32_t *map;
    hd_graph *out = hd_graph_like(thread, g, &map);
    for (uint32_t i = 0; out != NULL && i < g->node_count && thread->error_code == HD_OK; ++i) {
        if (map[i] == HD_NO_NODE) map[i] = hd_copy_mapped(out, g, i, map);
        if (map[i] != HD_NO_NODE) out->nodes[map[i]].span = 0;
    }
    if (out != NULL) out->span_count = 1;
    return out == NULL ? NULL : hd_graph_finish(thread, out, g, map);
}
