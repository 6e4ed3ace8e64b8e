/* Writing parts of state in place: a row of a cache costs a row, not the cache. A cell whose new value is its old one
 * with parts written is not copied when all who read an older value do so before the next write. What was there is kept
 * until the run has gone well. */
#include "codegen/dump.h"
#include "plan/draft.h"

#include <stdio.h>
#include <string.h>

typedef struct reading {
    uint32_t *index; /* of each group in the order of the run */
    uint32_t *last;  /* of each node: the place of the last group that reads it, its own writes left out */
    bool *leaves;    /* of each node: it is an output, or a cell's new value */
} reading;

static void find_readers(const hd_plan *p, reading *r) {
    const hd_graph *g = p->graph;
    const hd_fusion *f = &p->fusion;
    for (uint32_t i = 0; i < f->order_count; ++i) r->index[f->order[i]] = i;
    memset(r->last, 0, (size_t)g->node_count * sizeof *r->last);
    memset(r->leaves, 0, g->node_count);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (f->group_of[i] == HD_NO_GROUP) continue;
        for (int k = f->writes[i] != HD_NO_CELL ? 1 : 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t source = f->source[hd_node_inputs(g, i)[k]], index = r->index[hd_fusion_runs_with(f, i)] + 1;
            if (r->last[source] < index) r->last[source] = index;
        }
    }
    for (uint32_t i = 0; i < g->output_count; ++i) r->leaves[f->source[g->outputs[i].node]] = true;
    for (uint32_t i = 0; i < g->cell_count; ++i) r->leaves[f->source[g->cells[i].update]] = true;
}

/* True when every older value is read for the last time before the write that follows it; else *late is one that is
 * not. */
static bool in_order(const hd_plan *p, const reading *r, uint32_t cell, uint32_t *late) {
    const hd_graph *g = p->graph;
    const uint32_t old = g->cells[cell].node;
    for (uint32_t at = g->cells[cell].update; at != old; at = hd_node_inputs(g, at)[0]) {
        *late = hd_node_inputs(g, at)[0];
        if (r->leaves[*late] || r->last[*late] > r->index[p->fusion.group_of[at]]) return false;
    }
    return true;
}

/* True when all writes into a cell are such that the machine does where they lie. */
static bool are_parts(const hd_plan *p, uint32_t cell) {
    const hd_graph *g = p->graph;
    for (uint32_t at = g->cells[cell].update; at != g->cells[cell].node; at = hd_node_inputs(g, at)[0])
        if (g->nodes[at].op != HD_NODE_WRITE && !p->machine->target.scatters_parts) return false;
    return true;
}

static void explain_slices(const hd_graph *g, uint32_t cell, bool in_place, uint32_t late) {
    char line[256];
    const char *name = hd_graph_string(g, g->cells[cell].name);
    const int length = in_place
                           ? snprintf(line, sizeof line, "state %s: only what changes is written, where it lies", name)
                           : snprintf(line, sizeof line,
                                      "state %s is copied: %%%u is wanted after parts of it are written", name, late);
    hd_dump_text("fusion", line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

static void choose_slices(hd_plan_draft *d, const reading *r) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const bool explains = hd_dump_wants("fusion");
    for (uint32_t c = 0; c < g->cell_count; ++c) {
        if (p->fusion.writes[g->cells[c].update] != c || !are_parts(p, c)) continue;
        uint32_t late = 0;
        p->sliced[c] = in_order(p, r, c, &late);
        if (explains) explain_slices(g, c, p->sliced[c], late);
        for (uint32_t at = g->cells[c].update; p->sliced[c] && at != g->cells[c].node; at = hd_node_inputs(g, at)[0])
            d->cell_of[at] = c;
    }
}

hd_error hd_draft_find_slices(hd_plan_draft *d) {
    hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const size_t nodes = (size_t)g->node_count + 1;
    d->cell_of = hd_array_resize(NULL, nodes * sizeof *d->cell_of);
    p->sliced = hd_array_resize(NULL, (size_t)g->cell_count + 1);
    if (d->cell_of == NULL || p->sliced == NULL) return hd_plan_no_memory(p);
    memset(p->sliced, 0, (size_t)g->cell_count + 1);
    for (uint32_t i = 0; i < g->node_count; ++i) d->cell_of[i] = HD_NONE;
    bool any = false;
    for (uint32_t i = 0; i < g->cell_count && !any; ++i) any = p->fusion.writes[g->cells[i].update] == i;
    if (!any) return HD_OK;
    reading r = {.index = hd_array_resize(NULL, ((size_t)p->fusion.group_count + 1) * sizeof *r.index),
                 .last = hd_array_resize(NULL, nodes * sizeof *r.last),
                 .leaves = hd_array_resize(NULL, nodes)};
    const bool ok = r.index != NULL && r.last != NULL && r.leaves != NULL;
    if (ok) {
        find_readers(p, &r);
        choose_slices(d, &r);
    }
    hd_array_release(r.index);
    hd_array_release(r.last);
    hd_array_release(r.leaves);
    return ok ? HD_OK : hd_plan_no_memory(p);
}
