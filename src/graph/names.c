/* Names of inputs, outputs and cells: from a name to its index without a search. Equal names are one offset of the
 * pool, so that a table over offsets is all there is to it. */
#include "graph/graph.h"

#include <string.h>

/* Where the name is in the table, or where it would be. */
static uint32_t slot_of(const hd_graph *g, hd_name_kind kind, uint32_t name) {
    const hd_names *n = &g->names[kind];
    uint32_t at = name * 0x9e3779b1u & (n->size - 1);
    while (n->table[at] != 0 && hd_name_at(g, kind, n->table[at] - 1) != name) at = (at + 1) & (n->size - 1);
    return at;
}

hd_error hd_names_reserve(hd_graph *g, hd_name_kind kind) {
    hd_names *n = &g->names[kind];
    if (n->count * 2 < n->size) return HD_OK;
    const hd_names before = *n;
    n->size = before.size ? before.size * 2 : 16;
    n->table = hd_array_resize(NULL, n->size * sizeof *n->table);
    if (n->table == NULL) {
        *n = before;
        return hd_fail(HD_ERROR_MEMORY, "no memory for %u names", before.count);
    }
    memset(n->table, 0, n->size * sizeof *n->table);
    for (uint32_t i = 0; i < before.size; ++i)
        if (before.table[i] != 0)
            n->table[slot_of(g, kind, hd_name_at(g, kind, before.table[i] - 1))] = before.table[i];
    hd_array_release(before.table);
    return HD_OK;
}

void hd_names_add(hd_graph *g, hd_name_kind kind, uint32_t index) {
    hd_names *n = &g->names[kind];
    const uint32_t at = slot_of(g, kind, hd_name_at(g, kind, index));
    if (n->table[at] != 0) return; /* the first of a name is the one that is found */
    n->table[at] = index + 1;
    n->count++;
}

uint32_t hd_graph_find(const hd_graph *g, hd_name_kind kind, const char *name) {
    const uint32_t text = name == NULL ? 0 : hd_pool_find(&g->pool, name, strlen(name) + 1);
    if (text == 0 || g->names[kind].size == 0) return HD_NO_NODE;
    return g->names[kind].table[slot_of(g, kind, text)] - 1; /* of an empty slot: HD_NO_NODE */
}
