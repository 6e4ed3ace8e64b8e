/* Writing parts of state in place: a row of a cache costs a row, not the cache. A cell whose new value is its old one with parts
 * written is not copied when all who read an older value do so before the next write. What was there is kept until the run
 * has gone well. */
#include "compiler/plan.h"

#include <string.h>

/* The write that a cell's new value comes from, down to the first: 0 when there is anything else in between. */
static uint32_t chain_of(const hd_graph *g, uint32_t cell, uint32_t *writes, uint32_t most) {
    uint32_t count = 0, at = g->cells[cell].update;
    while (g->nodes[at].op == HD_NODE_WRITE && count < most) {
        writes[count++] = at;
        at = hd_node_inputs(g, at)[0];
    }
    return at == g->cells[cell].node ? count : 0;
}

typedef struct reading {
    uint32_t *place; /* of each group in the order of the run */
    uint32_t *last;  /* of each node: the place of the last group that reads it, its own writes left out */
    bool *leaves;    /* of each node: it is an output, or another cell's new value */
} reading;

static void find_readers(const hd_plan *p, reading *r) {
    const hd_graph *g = p->graph;
    const hd_fusion *f = &p->fusion;
    for (uint32_t i = 0; i < f->order_count; ++i) r->place[f->order[i]] = i;
    memset(r->last, 0, (size_t)g->node_count * sizeof *r->last);
    memset(r->leaves, 0, g->node_count);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (f->group_of[i] == HD_NO_GROUP) continue;
        for (int k = g->nodes[i].op == HD_NODE_WRITE ? 1 : 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t source = f->source[hd_node_inputs(g, i)[k]], place = r->place[f->group_of[i]] + 1;
            if (r->last[source] < place) r->last[source] = place;
        }
        if (g->nodes[i].op == HD_NODE_WRITE && f->source[hd_node_inputs(g, i)[0]] != hd_node_inputs(g, i)[0])
            r->leaves[f->source[hd_node_inputs(g, i)[0]]] = true; /* a write into a view of it: a copy */
    }
    for (uint32_t i = 0; i < g->output_count; ++i) r->leaves[f->source[g->outputs[i].node]] = true;
}

/* That every older value is read for the last time before the write that follows it. */
static bool in_order(const hd_plan *p, const reading *r, uint32_t cell, const uint32_t *writes, uint32_t count) {
    const hd_graph *g = p->graph;
    for (uint32_t i = 0; i < count; ++i) { /* from the last write to the first */
        const uint32_t older = hd_node_inputs(g, writes[i])[0],
                       value = p->fusion.source[hd_node_inputs(g, writes[i])[1]];
        const uint32_t place = r->place[p->fusion.group_of[writes[i]]] + 1;
        if (r->leaves[older] || r->last[older] >= place) return false;
        if (value == g->cells[cell].node || g->nodes[value].op == HD_NODE_WRITE)
            return false; /* may overlap what it fills */
    }
    for (uint32_t i = 0; i < g->cell_count; ++i) /* nobody else takes one of the values, or writes into one */
        if (i != cell && (p->fusion.source[g->cells[i].update] == g->cells[cell].node)) return false;
    return true;
}

/* Writes that several cells or values come from are not one cell's own. */
static void count_bases(const hd_graph *g, uint32_t *bases) {
    memset(bases, 0, (size_t)g->node_count * sizeof *bases);
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (g->nodes[i].op == HD_NODE_WRITE) bases[hd_node_inputs(g, i)[0]]++;
    for (uint32_t i = 0; i < g->cell_count; ++i)
        if (g->cells[i].update != g->cells[i].node) bases[g->cells[i].update]++;
}

static void choose(hd_plan *p, const reading *r, const uint32_t *bases, uint32_t *writes) {
    const hd_graph *g = p->graph;
    for (uint32_t c = 0; c < g->cell_count; ++c) {
        const uint32_t count = chain_of(g, c, writes, g->node_count);
        bool own = count > 0 && bases[g->cells[c].node] == 1;
        for (uint32_t i = 0; i < count && own; ++i) own = bases[writes[i]] == 1;
        if (!own || !in_order(p, r, c, writes, count)) continue;
        p->sliced[c] = true;
        for (uint32_t i = 0; i < count; ++i) p->cell_of[writes[i]] = c;
    }
}

hd_error hd_plan_find_slices(hd_plan *p) {
    const hd_graph *g = p->graph;
    const size_t nodes = (size_t)g->node_count + 1;
    p->cell_of = hd_array_resize(NULL, nodes * sizeof *p->cell_of);
    p->sliced = hd_array_resize(NULL, (size_t)g->cell_count + 1);
    p->aside = hd_array_resize(NULL, ((size_t)g->input_count + 1) * sizeof *p->aside);
    if (p->aside != NULL) memset(p->aside, 0, ((size_t)g->input_count + 1) * sizeof *p->aside);
    if (p->cell_of == NULL || p->sliced == NULL || p->aside == NULL) return hd_plan_no_memory(p);
    memset(p->sliced, 0, (size_t)g->cell_count + 1);
    for (uint32_t i = 0; i < g->node_count; ++i) p->cell_of[i] = HD_NONE;
    uint32_t writes = 0;
    for (uint32_t i = 0; i < g->node_count; ++i) writes += g->nodes[i].op == HD_NODE_WRITE;
    if (writes == 0 || p->fusion.level == HD_O0) return HD_OK;
    reading r = {.place = hd_array_resize(NULL, ((size_t)p->fusion.group_count + 1) * sizeof *r.place),
                 .last = hd_array_resize(NULL, nodes * sizeof *r.last),
                 .leaves = hd_array_resize(NULL, nodes)};
    uint32_t *bases = hd_array_resize(NULL, nodes * sizeof *bases),
             *chain = hd_array_resize(NULL, nodes * sizeof *chain);
    const bool ok = r.place != NULL && r.last != NULL && r.leaves != NULL && bases != NULL && chain != NULL;
    if (ok) {
        find_readers(p, &r);
        count_bases(g, bases);
        choose(p, &r, bases, chain);
    }
    void *const arrays[] = {r.place, r.last, r.leaves, bases, chain};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; ++i) hd_array_release(arrays[i]);
    return ok ? HD_OK : hd_plan_no_memory(p);
}
