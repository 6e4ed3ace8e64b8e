/* Joints (concatenations and paddings) that are filled piece by piece: what a kernel computes only for them is
 * written where it belongs in the result, and nothing is copied. What else there is of them, pieces from elsewhere
 * and the border, is filled in by launches of its own. */
#include "codegen/dump.h"
#include "plan/draft.h"

#include <stdio.h>
#include <string.h>

enum {
    LEAST_RUN = 32, /* elements in a row from which a kernel computes them as quickly as without gaps */
    SMALL = 256     /* elements that are few enough to be computed in any order */
};

/* A concatenation, or a padding that cuts nothing off. */
static bool is_plain_joint(const hd_graph *g, uint32_t node) {
    if (g->nodes[node].op != HD_OP_pad) return g->nodes[node].op == HD_OP_concat;
    const hd_pad_attributes *a = hd_node_attributes(g, node);
    for (int i = 0; i < hd_node_shape(g, node).rank; ++i)
        if (a->padding[i].before < 0 || a->padding[i].after < 0) return false;
    return true;
}

/* One that is filled piece by piece; others are read where their pieces lie. */
static bool is_filled(const hd_plan *p, uint32_t node) {
    const uint32_t group = p->fusion.group_of[node];
    return is_plain_joint(p->graph, node) && group != HD_NO_GROUP && p->fusion.groups[group].kind == HD_GROUP_CALL;
}

void hd_plan_piece_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out) {
    const hd_graph *g = p->graph;
    const uint32_t *inputs = hd_node_inputs(g, node);
    *out = p->tensors[node].layout;
    if (g->nodes[node].op == HD_OP_concat) {
        const int axis = ((const hd_axis_attributes *)hd_node_attributes(g, node))->axis;
        for (int i = 0; i < k; ++i) out->offset += hd_node_shape(g, inputs[i]).size[axis] * out->stride[axis];
    } else {
        const hd_pad_attributes *a = hd_node_attributes(g, node);
        for (int i = 0; i < out->shape.rank; ++i) out->offset += a->padding[i].before * out->stride[i];
    }
    out->shape = hd_node_shape(g, inputs[k]);
}

/* The axes of piece k of which the axes of its source are, when views between them only add or drop axes of size 1. */
static bool keeps_axes(const hd_graph *g, uint32_t node, int k, uint32_t source, int8_t *found) {
    int8_t axes[HD_MAX_RANK];
    for (int i = 0; i < HD_MAX_RANK; ++i) axes[i] = (int8_t)i;
    if (hd_node_count(g, source) != hd_node_count(g, hd_node_inputs(g, node)[k]) ||
        g->nodes[source].dtype != g->nodes[node].dtype || !hd_follow_axes(g, node, k, axes, found))
        return false;
    for (int i = 0, last = -1; i < hd_node_shape(g, source).rank; ++i) {
        if (found[i] < 0) continue;
        if (found[i] <= last) return false; /* transposed: better written as it is computed, and transposed by a copy */
        last = found[i];
    }
    return true;
}

void hd_plan_source_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out) {
    const uint32_t source = p->fusion.source[hd_node_inputs(p->graph, node)[k]];
    int8_t found[HD_MAX_RANK];
    hd_layout part;
    hd_plan_piece_layout(p, node, k, &part);
    keeps_axes(p->graph, node, k, source, found);
    *out = (hd_layout){.shape = hd_node_shape(p->graph, source), .offset = part.offset};
    for (int i = 0; i < out->shape.rank; ++i) out->stride[i] = found[i] < 0 ? 0 : part.stride[found[i]];
}

/* How often each value is read from memory, and whether it leaves the run. */
static void count_reads(const hd_plan *p, uint8_t *reads) {
    enum { MANY = 2 };
    const hd_graph *g = p->graph;
    const hd_fusion *f = &p->fusion;
    memset(reads, 0, g->node_count);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        for (int k = 0; f->group_of[i] != HD_NO_GROUP && k < g->nodes[i].input_count; ++k) {
            const uint32_t source = f->source[hd_node_inputs(g, i)[k]];
            const bool inside = f->group_of[source] == f->group_of[i]; /* a kernel has what it computes */
            if (!inside && reads[source] < MANY) reads[source]++;
        }
    }
    for (uint32_t i = 0; i < g->output_count; ++i) reads[f->source[g->outputs[i].node]] = MANY;
    for (uint32_t i = 0; i < g->cell_count; ++i) reads[f->source[g->cells[i].update]] = MANY;
}

/* How many elements of part k follow each other without a gap, when `run` of the whole do. */
static int64_t run_of_piece(const hd_graph *g, uint32_t node, int k, int64_t run) {
    const hd_shape part = hd_node_shape(g, hd_node_inputs(g, node)[k]), whole = hd_node_shape(g, node);
    int64_t own = 1;
    for (int i = part.rank - 1; i >= 0; --i) {
        own *= part.size[i];
        if (part.size[i] != whole.size[i]) break;
    }
    return own < run ? own : run;
}

/* True when input k of a node is made for it alone, by a kernel or a joint itself: then it can be made in place. */
static bool can_be_placed(const hd_plan *p, const uint8_t *reads, uint32_t node, int k, int64_t run) {
    const hd_graph *g = p->graph;
    const uint32_t source = p->fusion.source[hd_node_inputs(g, node)[k]], group = p->fusion.group_of[source];
    const int64_t count = hd_node_count(g, source);
    int8_t found[HD_MAX_RANK];
    if (group == HD_NO_GROUP || reads[source] != 1 || count == 0) return false;
    const bool computed = p->fusion.groups[group].kind == HD_GROUP_KERNEL && p->fusion.stored[source] &&
                          (run >= LEAST_RUN || run == count || count <= SMALL);
    return (computed || is_filled(p, source)) && keeps_axes(g, node, k, source, found);
}

static void explain_joint(const hd_graph *g, uint32_t node, int placed) {
    char line[128];
    const int length = snprintf(line, sizeof line, "%%%u %s: %d of %d parts written where they belong", node,
                                hd_node_name(&g->nodes[node]), placed, (int)g->nodes[node].input_count);
    hd_dump_text("fusion", line, (size_t)length);
}

/* `runs` is how many elements of each value follow each other without a gap. */
static void find_joints(hd_plan_draft *d, const uint8_t *reads, int64_t *runs) {
    const hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const bool explains = hd_dump_wants("fusion");
    for (uint32_t i = 0; i < g->node_count; ++i) runs[i] = INT64_MAX;
    for (uint32_t i = g->node_count; i-- > 0;) { /* those that have others as pieces first */
        if (!is_filled(p, i)) continue;
        int placed = 0;
        for (int k = 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t source = p->fusion.source[hd_node_inputs(g, i)[k]];
            const int64_t run = run_of_piece(g, i, k, runs[i]);
            if (!can_be_placed(p, reads, i, k, run)) continue;
            d->joint_of[source] = i;
            runs[source] = run;
            placed++;
        }
        d->is_joint[i] = placed > 0 || d->joint_of[i] != HD_NONE;
        if (explains && placed > 0) explain_joint(g, i, placed);
    }
}

hd_error hd_draft_find_joints(hd_plan_draft *d) {
    const hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const size_t nodes = (size_t)g->node_count + 1;
    bool any = false;
    for (uint32_t i = 0; i < g->node_count && !any; ++i) any = is_plain_joint(g, i) && p->fusion.level > HD_O0;
    d->joint_of = hd_array_resize(NULL, nodes * sizeof *d->joint_of);
    d->is_joint = hd_array_resize(NULL, nodes);
    uint8_t *reads = any ? hd_array_resize(NULL, nodes) : NULL;
    int64_t *runs = any ? hd_array_resize(NULL, nodes * sizeof *runs) : NULL;
    const bool ok = d->joint_of != NULL && d->is_joint != NULL && (!any || (reads != NULL && runs != NULL));
    if (ok) {
        memset(d->joint_of, 0xff, nodes * sizeof *d->joint_of); /* HD_NONE */
        memset(d->is_joint, 0, nodes);
    }
    if (ok && any) {
        count_reads(p, reads);
        find_joints(d, reads, runs);
    }
    hd_array_release(reads);
    hd_array_release(runs);
    return ok ? HD_OK : hd_plan_no_memory(p);
}
