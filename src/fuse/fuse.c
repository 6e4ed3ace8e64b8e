/* Fusion, in one walk over the nodes. A node joins the group of what it reads when the two walk the same space and
 * nothing in between has to be finished first. The latter is a matter of levels: a group's level is one more than that
 * of all it reads from memory, so groups of one level never depend on each other, and may be joined at will. */
#include "fuse/fuse.h"
#include "kernel/kernel.h"

#include <string.h>

void hd_fusion_release(hd_fusion *f) {
    hd_array_release(f->groups);
    hd_array_release(f->order);
    hd_array_release(f->members);
    hd_array_release(f->source);
    hd_array_release(f->number);
    hd_array_release(f->group_of);
    hd_array_release(f->form);
    hd_array_release(f->stored);
    hd_array_release(f->recompute);
    hd_array_release(f->writes);
    hd_array_release(f->written_by);
    memset(f, 0, sizeof *f);
}

static bool is_number(const hd_graph *g, uint32_t node) { return hd_node_lowers(g, node) == HD_LOWER_NUMBER; }
static bool is_reduction(const hd_graph *g, uint32_t node) { return hd_lower_is_reduction(hd_node_lowers(g, node)); }

/* ---- groups ------------------------------------------------------------------------------------------------------ */
typedef struct walk {
    const hd_graph *g;
    hd_fusion *f;
    hd_optimization_level optimization;
    hd_fuse_choice choice;
    const hd_target *target;
    uint32_t most_members;
} walk;

static bool is_product(const walk *w, uint32_t node) { return hd_node_is_product(w->f->machine, w->g, node, NULL); }
static bool is_lookup(const walk *w, uint32_t node) { return hd_node_is_lookup(w->f->machine, w->g, node); }
static bool is_joint(const walk *w, uint32_t node) { return hd_node_is_joint(w->f->machine, w->g, node); }

static uint32_t source_of(const walk *w, uint32_t node) { return w->f->source[node]; }

static uint32_t standing(const hd_fusion *f, uint32_t group) {
    while (f->groups[group].joined != group) {
        f->groups[group].joined = f->groups[f->groups[group].joined].joined;
        group = f->groups[group].joined;
    }
    return group;
}

static uint32_t group_of(const walk *w, uint32_t node) {
    return w->f->group_of[node] == HD_NO_GROUP ? HD_NO_GROUP : standing(w->f, w->f->group_of[node]);
}

/* Of a value: that of its group; 0: it is given. */
static uint32_t level_of(const walk *w, uint32_t node) {
    const uint32_t group = group_of(w, node);
    return group == HD_NO_GROUP ? 0 : w->f->groups[group].level;
}

static uint32_t new_group(walk *w, hd_group_kind kind, const hd_shape *space, uint32_t level) {
    hd_fusion *f = w->f;
    if (f->group_count == f->group_capacity) {
        const uint32_t capacity = f->group_capacity ? f->group_capacity * 2 : 64;
        hd_group *moved = hd_array_resize(f->groups, capacity * sizeof *moved);
        if (moved == NULL) return HD_NO_GROUP;
        f->groups = moved;
        f->group_capacity = capacity;
    }
    f->groups[f->group_count] = (hd_group){.kind = (uint8_t)kind,
                                           .space = *space,
                                           .level = level,
                                           .joined = f->group_count,
                                           .begins = HD_NO_GROUP,
                                           .prologue = HD_NO_GROUP};
    return f->group_count++;
}

/* Whoever joins or makes a group counts on the levels of what it reads. */
static void count_on_inputs(walk *w, uint32_t node, uint32_t group) {
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t from = group_of(w, source_of(w, hd_node_inputs(w->g, node)[k]));
        if (from != HD_NO_GROUP && from != group) w->f->groups[from].read = true;
    }
}

static void add_member(walk *w, uint32_t group, uint32_t node, hd_form form) {
    count_on_inputs(w, node, group);
    w->f->group_of[node] = group;
    w->f->form[node] = (uint8_t)form;
    w->f->groups[group].count++;
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t source = source_of(w, hd_node_inputs(w->g, node)[k]);
        w->f->groups[group].reads += !is_number(w->g, source) && group_of(w, source) != group;
    }
    w->f->groups[group].last = node;
}

static uint32_t input_level(const walk *w, uint32_t node) {
    uint32_t level = 0;
    const uint32_t *in = hd_node_inputs(w->g, node);
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t l = level_of(w, source_of(w, in[k]));
        if (l > level) level = l;
    }
    return level;
}

/* What two groups of one level would be together; false when they cannot be one. */
static bool together(const walk *w, const hd_group *a, const hd_group *b, hd_group *both) {
    if (a->kind == HD_GROUP_CALL || b->kind == HD_GROUP_CALL || a->level != b->level) return false;
    if (a->kind == HD_GROUP_PRODUCT && b->kind == HD_GROUP_PRODUCT) return false;
    if (!hd_shape_equal(a->space, b->space) || a->count + b->count > w->most_members ||
        a->reads + b->reads > w->target->most_reads)
        return false;
    if (a->reduces && b->reduces && memcmp(a->reduced, b->reduced, sizeof a->reduced) != 0) return false;
    *both = a->reduces ? *a : *b;
    both->reduces = a->reduces || b->reduces;
    both->kind = a->kind == HD_GROUP_PRODUCT || b->kind == HD_GROUP_PRODUCT ? HD_GROUP_PRODUCT : HD_GROUP_KERNEL;
    both->count = a->count + b->count;
    both->reads = a->reads + b->reads;
    both->checks = a->checks || b->checks;
    both->read = a->read || b->read;
    both->last = a->last > b->last ? a->last : b->last;
    return !(both->kind == HD_GROUP_PRODUCT && both->reduces);
}

/* The shape of members in a form. */
static hd_shape form_shape(const hd_group *group, hd_form form) {
    hd_shape shape = {.rank = 0};
    for (int i = 0; i < group->space.rank; ++i)
        if (form != HD_FORM_SQUEEZED || !group->reduced[i])
            shape.size[shape.rank++] = form == HD_FORM_ONES && group->reduced[i] ? 1 : group->space.size[i];
    return shape;
}

/* True when the node, in this form, finds what it reads inside the group where the group computes it. */
static bool reads_in_place(const walk *w, const hd_group *group, uint32_t node, const int8_t *axes) {
    const uint32_t *in = hd_node_inputs(w->g, node);
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t source = source_of(w, in[k]);
        if (level_of(w, source) != group->level || is_number(w->g, source)) continue; /* from memory */
        int8_t found[HD_MAX_RANK], wanted[HD_MAX_RANK];
        if (!hd_follow_axes(w->g, node, k, axes, found)) return false;
        hd_form_axes(group, (hd_form)w->f->form[source], wanted);
        const hd_shape shape = hd_node_shape(w->g, source);
        for (int i = 0; i < shape.rank; ++i)
            if (shape.size[i] != 1 && found[i] != wanted[i]) return false;
    }
    return true;
}

/* The form in which a node of this shape can be a member; false when in none. */
static bool find_form(const walk *w, const hd_group *group, uint32_t node, hd_form *form) {
    const hd_shape shape = hd_node_shape(w->g, node);
    for (int f = HD_FORM_FULL; f <= (group->reduces ? HD_FORM_SQUEEZED : HD_FORM_FULL); ++f) {
        if (!hd_shape_equal(shape, form_shape(group, (hd_form)f))) continue;
        int8_t axes[HD_MAX_RANK];
        hd_form_axes(group, (hd_form)f, axes);
        if (!reads_in_place(w, group, node, axes)) continue;
        *form = (hd_form)f;
        return true;
    }
    return false;
}

/* The groups of the highest level that the node reads, as one; false when they cannot be. */
static bool gather_groups(const walk *w, uint32_t node, uint32_t level, hd_group *all, uint32_t *into) {
    const uint32_t *in = hd_node_inputs(w->g, node);
    *into = HD_NO_GROUP;
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t source = source_of(w, in[k]), group = group_of(w, source);
        if (group == HD_NO_GROUP || level_of(w, source) != level || group == *into) continue;
        if (w->f->groups[group].kind == HD_GROUP_CALL) return false;
        if (w->f->groups[group].kind == HD_GROUP_PRODUCT && (w->optimization < HD_O2 || w->choice.products_alone))
            return false; /* alone, its weights packed */
        if (*into == HD_NO_GROUP) {
            *into = group;
            *all = w->f->groups[group];
        } else {
            hd_group both;
            if (!together(w, all, &w->f->groups[group], &both)) return false;
            *all = both;
        }
    }
    return *into != HD_NO_GROUP && all->count < w->most_members && all->reads + 3 <= w->target->most_reads;
}

/* Makes true what gather_groups found. */
static void join_groups(walk *w, uint32_t node, uint32_t level, const hd_group *all, uint32_t into) {
    const uint32_t *in = hd_node_inputs(w->g, node);
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t source = source_of(w, in[k]), group = group_of(w, source);
        if (group != HD_NO_GROUP && level_of(w, source) == level) w->f->groups[group].joined = into;
    }
    w->f->groups[into] = *all;
    w->f->groups[into].joined = into;
}

/* Of a product and another group that one node reads, and that cannot be one (two products; the scale of a channel,
 * computed from its variance), the product may wait for the other one, if nobody counts on its level yet: then the node
 * can follow it. Of two products it is the later one. */
static void let_one_wait(walk *w, uint32_t node, uint32_t level) {
    const int inputs = w->g->nodes[node].input_count;
    hd_group *last = NULL, both;
    for (int k = 0; k < inputs; ++k) {
        const uint32_t group = group_of(w, source_of(w, hd_node_inputs(w->g, node)[k]));
        if (group == HD_NO_GROUP) continue;
        hd_group *g = &w->f->groups[group];
        if (g->level == level && g->kind == HD_GROUP_PRODUCT && !g->read) last = g;
    }
    for (int k = 0; last != NULL && k < inputs; ++k) {
        const uint32_t group = group_of(w, source_of(w, hd_node_inputs(w->g, node)[k]));
        if (group == HD_NO_GROUP) continue;
        const hd_group *other = &w->f->groups[group];
        if (other == last || other->level != level || together(w, last, other, &both)) continue;
        last->level = level + 1;
        return;
    }
}

static hd_error add_map(walk *w, uint32_t node) {
    let_one_wait(w, node, input_level(w, node));
    const uint32_t level = input_level(w, node);
    const hd_shape shape = hd_node_shape(w->g, node);
    hd_group all;
    uint32_t into;
    hd_form form = HD_FORM_FULL;
    if (level > 0 && gather_groups(w, node, level, &all, &into) && find_form(w, &all, node, &form)) {
        join_groups(w, node, level, &all, into);
    } else {
        into = new_group(w, HD_GROUP_KERNEL, &shape, level + 1);
        if (into == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    }
    add_member(w, into, node, form);
    return HD_OK;
}

/* True when threads find enough to share, or there is too little to share. */
static bool reduces_well(const hd_target *t, const hd_shape *space, const bool *reduced) {
    int64_t all = 1, kept = 1;
    for (int i = 0; i < space->rank; ++i) {
        all *= space->size[i];
        if (!reduced[i]) kept *= space->size[i];
    }
    return all <= t->small_space || kept >= t->least_kept;
}

/* A reduction of the space of `group` itself: its axes are those of the group. */
static bool reduces_group(const walk *w, uint32_t node, const hd_group *group, const bool *reduced) {
    const uint32_t in = hd_node_inputs(w->g, node)[0], source = source_of(w, in);
    const hd_shape shape = hd_node_shape(w->g, in);
    if (group->kind != HD_GROUP_KERNEL || w->f->form[source] != HD_FORM_FULL || group->count >= w->most_members)
        return false;
    if (!hd_shape_equal(shape, group->space)) return false;
    if (group->reduces && memcmp(group->reduced, reduced, sizeof group->reduced) != 0) return false;
    for (uint32_t at = in; at != source; at = hd_node_inputs(w->g, at)[0])
        if (w->g->nodes[at].op != HD_OP_detach) return false;
    return true;
}

static hd_error add_call(walk *w, uint32_t node) {
    const hd_shape shape = hd_node_shape(w->g, node);
    const uint32_t group = new_group(w, HD_GROUP_CALL, &shape, input_level(w, node) + 1);
    if (group == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    add_member(w, group, node, HD_FORM_FULL);
    return HD_OK;
}

static hd_error add_reduction(walk *w, uint32_t node) {
    const hd_reduce_attributes *a = hd_node_attributes(w->g, node);
    const uint32_t in = hd_node_inputs(w->g, node)[0], source = source_of(w, in);
    const hd_shape space = hd_node_shape(w->g, in);
    bool reduced[HD_MAX_RANK] = {false};
    for (int i = 0; i < space.rank; ++i) reduced[i] = a->reduced[i];
    uint32_t group = group_of(w, source);
    int kept = 0;
    for (int i = 0; i < space.rank; ++i) kept += !reduced[i];
    if (!reduces_well(w->target, &space, reduced) || space.rank == 0 || (kept == 0 && space.rank == HD_KERNEL_AXES))
        return add_call(w, node); /* a kernel has a loop more when nothing is kept */
    if (group == HD_NO_GROUP || !reduces_group(w, node, &w->f->groups[group], reduced)) {
        group = new_group(w, HD_GROUP_KERNEL, &space, level_of(w, source) + 1);
        if (group == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    }
    w->f->groups[group].reduces = true;
    memcpy(w->f->groups[group].reduced, reduced, sizeof reduced);
    add_member(w, group, node, a->keep_dims ? HD_FORM_ONES : HD_FORM_SQUEEZED);
    return HD_OK;
}

/* Rows of a table, or a row that is one number but where an index says another: a kernel for what follows to join. Rows
 * alone are a call, see call_lone_lookups. */
static hd_error add_indexed(walk *w, uint32_t node) {
    const hd_shape shape = hd_node_shape(w->g, node);
    const uint32_t group = new_group(w, HD_GROUP_KERNEL, &shape, input_level(w, node) + 1);
    if (group == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    w->f->groups[group].checks = true;
    add_member(w, group, node, HD_FORM_FULL);
    return HD_OK;
}

/* The element of each row that an index picks: a reduction of a row that is being computed anyway; else a load. */
static hd_error add_pick(walk *w, uint32_t node) {
    const uint32_t *in = hd_node_inputs(w->g, node);
    const uint32_t source = source_of(w, in[0]), group = group_of(w, source);
    const hd_axis_attributes *a = hd_node_attributes(w->g, node);
    bool reduced[HD_MAX_RANK] = {false};
    reduced[a->axis] = true;
    if (group == HD_NO_GROUP || !w->f->groups[group].reduces ||
        !reduces_group(w, node, &w->f->groups[group], reduced) ||
        level_of(w, source_of(w, in[1])) >= w->f->groups[group].level)
        return is_lookup(w, node) ? add_indexed(w, node) : add_call(w, node);
    w->f->groups[group].checks = true;
    add_member(w, group, node, HD_FORM_ONES);
    return HD_OK;
}

/* What kernels compute for a concatenation or padding alone they write where it belongs, so it is not worth reading in
 * place when all of it is such. */
static bool has_given_piece(const walk *w, uint32_t node) {
    for (int k = 0; k < w->g->nodes[node].input_count; ++k) {
        const uint32_t in = hd_node_inputs(w->g, node)[k], group = group_of(w, source_of(w, in));
        if (!w->f->number[in] && (group == HD_NO_GROUP || w->f->groups[group].kind != HD_GROUP_KERNEL)) return true;
    }
    return false;
}

/* One that is read where its pieces lie: a kernel for what follows to join; alone it is a call. */
static hd_error add_joint(walk *w, uint32_t node) {
    const hd_shape shape = hd_node_shape(w->g, node);
    const uint32_t group = new_group(w, HD_GROUP_KERNEL, &shape, input_level(w, node) + 1);
    if (group == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    add_member(w, group, node, HD_FORM_FULL);
    return HD_OK;
}

/* Of an indexing op: they are looked at there before a kernel uses them. */
static bool indices_are_in_memory(const walk *w, uint32_t node) {
    return hd_lower_is_indexing(hd_node_lowers(w->g, node)) && !w->f->number[hd_node_inputs(w->g, node)[1]];
}

static hd_error fuse_node(walk *w, uint32_t i) {
    const hd_graph *g = w->g;
    w->f->group_of[i] = HD_NO_GROUP;
    w->f->source[i] = i;
    w->f->number[i] = is_number(g, i);
    if (hd_node_is_view(g, i)) {
        const uint32_t in = hd_node_inputs(g, i)[0];
        w->f->source[i] = w->f->source[in];
        w->f->number[i] = w->f->number[in] && g->nodes[i].op != HD_OP_bitcast; /* other bits are another number */
    }
    hd_fusion_find_recompute(g, w->f, i);
    if (!hd_node_is_call(&g->nodes[i]) || hd_node_is_view(g, i)) return HD_OK;
    if (g->nodes[i].op == HD_NODE_OUTPUT) { /* a value of its own, which that call makes */
        add_member(w, group_of(w, hd_node_inputs(g, i)[0]), i, HD_FORM_FULL);
        return HD_OK;
    }
    const bool reduces = w->optimization >= HD_O2 && !w->choice.reductions_alone;
    if (w->optimization == HD_O0) return add_call(w, i);
    if (is_number(g, i)) return HD_OK;        /* written into kernels; a call when others need it */
    if (w->f->recompute[i] > 0) return HD_OK; /* likewise: see compute_once */
    if (hd_node_is_map(g, i)) return add_map(w, i);
    if (reduces && is_reduction(g, i)) return add_reduction(w, i);
    if (w->optimization >= HD_O2 && indices_are_in_memory(w, i)) {
        if (reduces && hd_node_is_pick(g, i)) return add_pick(w, i);
        if (is_lookup(w, i)) return add_indexed(w, i);
        if (hd_node_is_spread(g, i) && w->f->writes[i] == HD_NO_CELL)
            return add_indexed(w, i); /* a few rows of state are not worth a walk over all of it */
    }
    if (w->optimization >= HD_O2 && is_joint(w, i) && has_given_piece(w, i)) return add_joint(w, i);
    HD_TRY(add_call(w, i));
    if (is_product(w, i)) w->f->groups[w->f->group_of[i]].kind = HD_GROUP_PRODUCT;
    return HD_OK;
}

/* ---- reductions of the same data --------------------------------------------------------------------------------- */
/* Two that reduce the same axes of the same space, and read one value of that size from memory, read it once
 * together. */
static void join_reductions(walk *w, uint32_t *reader) {
    const hd_graph *g = w->g;
    hd_fusion *f = w->f;
    for (uint32_t i = 0; i < g->node_count; ++i) reader[i] = HD_NO_GROUP;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        for (int k = 0; k < g->nodes[i].input_count && f->group_of[i] != HD_NO_GROUP; ++k) {
            const uint32_t own = group_of(w, i), source = source_of(w, hd_node_inputs(g, i)[k]);
            if (!f->groups[own].reduces || group_of(w, source) == own || is_number(g, source) ||
                hd_node_count(g, source) != hd_shape_count(f->groups[own].space))
                continue;
            const uint32_t other = reader[source] == HD_NO_GROUP ? own : standing(f, reader[source]);
            hd_group both;
            reader[source] = own;
            if (other == own || !together(w, &f->groups[other], &f->groups[own], &both)) continue;
            f->groups[other].joined = own;
            both.joined = own;
            f->groups[own] = both;
        }
    }
}

/* ---- sinking ----------------------------------------------------------------------------------------------------- */
#define MANY_READERS (UINT32_MAX - 1)

/* True when a member of one group reads this source of another point by point; *form is what the source would be
 * there. */
static bool reads_point_by_point(const walk *w, uint32_t node, int k, uint32_t source, hd_form *form) {
    const hd_group *from = &w->f->groups[group_of(w, source)], *to = &w->f->groups[group_of(w, node)];
    if (from->kind != HD_GROUP_KERNEL || from->reduces || to->kind == HD_GROUP_CALL || is_product(w, node) ||
        is_reduction(w->g, node) || hd_node_is_pick(w->g, node) || hd_node_is_spread(w->g, node) ||
        is_lookup(w, node) || is_joint(w, node))
        return false; /* indices are looked at before the kernel that uses them, pieces read at other places */
    int8_t axes[HD_MAX_RANK], found[HD_MAX_RANK], wanted[HD_MAX_RANK];
    hd_form_axes(to, (hd_form)w->f->form[node], axes);
    if (!hd_follow_axes(w->g, node, k, axes, found)) return false;
    for (int f = HD_FORM_FULL; f <= (to->reduces ? HD_FORM_SQUEEZED : HD_FORM_FULL); ++f) {
        if (!hd_shape_equal(from->space, form_shape(to, (hd_form)f))) continue;
        hd_form_axes(to, (hd_form)f, wanted);
        bool same = true;
        for (int i = 0; i < from->space.rank; ++i) same = same && (from->space.size[i] == 1 || found[i] == wanted[i]);
        *form = (hd_form)f;
        if (same) return true;
    }
    return false;
}

/* For each group the only other one that reads it, and the form in which it does. */
static void find_readers(const walk *w, uint32_t *reader, uint8_t *as) {
    for (uint32_t i = 0; i < w->f->group_count; ++i) reader[i] = HD_NO_GROUP;
    for (uint32_t i = 0; i < w->g->node_count; ++i) {
        const uint32_t to = group_of(w, i);
        for (int k = 0; to != HD_NO_GROUP && k < w->g->nodes[i].input_count; ++k) {
            const uint32_t source = source_of(w, hd_node_inputs(w->g, i)[k]), from = group_of(w, source);
            if (from == HD_NO_GROUP || from == to || reader[from] == MANY_READERS) continue;
            hd_form form;
            const bool fits = reads_point_by_point(w, i, k, source, &form) &&
                              (reader[from] == HD_NO_GROUP || (reader[from] == to && as[from] == form));
            reader[from] = fits ? to : MANY_READERS;
            if (fits) as[from] = (uint8_t)form;
        }
    }
}

/* The walk lets nodes join what they read, so what follows from inputs alone stands early and apart. When only one
 * group reads a kernel, and does so point by point, the kernel's nodes become members of that group. */
static hd_error sink(walk *w) {
    hd_fusion *f = w->f;
    const size_t count = (size_t)f->group_count + w->g->node_count + 1;
    uint32_t *reader = hd_array_resize(NULL, count * sizeof *reader);
    uint8_t *as = hd_array_resize(NULL, count);
    if (reader != NULL && as != NULL) {
        join_reductions(w, reader);
        find_readers(w, reader, as);
        for (uint32_t i = f->group_count; i-- > 0;) { /* readers come after what they read */
            if (f->groups[i].joined != i || reader[i] >= MANY_READERS) continue;
            uint32_t into = reader[i];
            while (f->groups[into].joined != into) into = f->groups[into].joined;
            hd_group *from = &f->groups[i], *to = &f->groups[into];
            if (from->count + to->count > w->most_members || from->reads + to->reads > w->target->most_reads) continue;
            to->count += from->count;
            to->reads += from->reads;
            to->checks = to->checks || from->checks;
            if (from->last > to->last) to->last = from->last;
            from->joined = reader[i];
            from->sunk = as[i];
        }
        for (uint32_t i = 0; i < w->g->node_count; ++i)
            for (uint32_t g = f->group_of[i]; g != HD_NO_GROUP && f->groups[g].joined != g; g = f->groups[g].joined)
                if (f->groups[g].sunk != HD_FORM_FULL) f->form[i] = f->groups[g].sunk;
    }
    const bool ok = reader != NULL && as != NULL;
    hd_array_release(reader);
    hd_array_release(as);
    return ok ? HD_OK : hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
}

/* Rows and pieces that nothing is computed of, where the device copies them quicker. */
static void call_lone_lookups(walk *w) {
    for (uint32_t i = 0; w->target->copies_rows && i < w->g->node_count; ++i) {
        const uint32_t group = group_of(w, i);
        if (group == HD_NO_GROUP || w->f->groups[group].count != 1 || (!is_lookup(w, i) && !is_joint(w, i))) continue;
        w->f->groups[group].kind = HD_GROUP_CALL;
        w->f->groups[group].checks = false; /* the device looks itself */
    }
}

/* ---- what is recomputed --------------------------------------------------------------------------------------- */
static hd_error store(walk *w, uint32_t node);

/* What is in no group although kernels could recompute it goes to memory: a draw by a call, what follows from one by
 * a kernel. */
static hd_error compute_once(walk *w, uint32_t node) {
    if (hd_node_is_draw(w->g, node)) return add_call(w, node);
    const hd_shape shape = hd_node_shape(w->g, node);
    const uint32_t group = new_group(w, HD_GROUP_KERNEL, &shape, 1);
    if (group == HD_NO_GROUP) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    add_member(w, group, node, HD_FORM_FULL);
    return HD_OK;
}

static bool is_recomputed(const walk *w, uint32_t node, int k) {
    const uint32_t source = source_of(w, hd_node_inputs(w->g, node)[k]);
    return w->f->recompute[source] > 0 && w->f->group_of[source] == HD_NO_GROUP &&
           hd_fusion_can_recompute(w->g, w->f, node, k);
}

/* What is dear is computed once when several groups read it. */
static hd_error find_dear(walk *w) {
    const hd_graph *g = w->g;
    uint32_t *reader = hd_array_resize(NULL, ((size_t)g->node_count + 1) * sizeof *reader);
    if (reader == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    for (uint32_t i = 0; i < g->node_count; ++i) reader[i] = HD_NO_GROUP;
    hd_error status = HD_OK;
    for (uint32_t i = 0; i < g->node_count && status == HD_OK; ++i)
        for (int k = 0; k < g->nodes[i].input_count && status == HD_OK && group_of(w, i) != HD_NO_GROUP; ++k) {
            const uint32_t source = source_of(w, hd_node_inputs(g, i)[k]);
            if (!hd_fusion_is_dear(w->f, source)) continue;
            if (reader[source] != HD_NO_GROUP && reader[source] != group_of(w, i)) status = store(w, source);
            reader[source] = group_of(w, i);
        }
    hd_array_release(reader);
    return status;
}

/* ---- what is stored ---------------------------------------------------------------------------------------------- */
static hd_error store(walk *w, uint32_t node) {
    const uint32_t source = source_of(w, node);
    w->f->stored[source] = true;
    if (w->f->group_of[source] != HD_NO_GROUP) return HD_OK;
    if (is_number(w->g, source)) return add_call(w, source);
    return w->f->recompute[source] > 0 ? compute_once(w, source) : HD_OK;
}

static hd_error find_stored(walk *w) {
    const hd_graph *g = w->g;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        const uint32_t group = group_of(w, i);
        if (group == HD_NO_GROUP || (is_number(g, i) && w->optimization != HD_O0)) continue;
        if (g->nodes[i].op == HD_NODE_OUTPUT) continue; /* it reads nothing: the call makes it */
        const hd_group_kind kind = (hd_group_kind)w->f->groups[group].kind;
        const bool whole = kind == HD_GROUP_CALL || is_product(w, i); /* reads all its inputs from memory */
        for (int k = 0; k < g->nodes[i].input_count; ++k) {
            const uint32_t in = hd_node_inputs(g, i)[k], source = source_of(w, in);
            if (whole || (group_of(w, source) != group && !w->f->number[in] && !is_recomputed(w, i, k)))
                HD_TRY(store(w, in));
        }
    }
    for (uint32_t i = 0; i < g->output_count; ++i) HD_TRY(store(w, g->outputs[i].node));
    for (uint32_t i = 0; i < g->cell_count; ++i) HD_TRY(store(w, g->cells[i].update));
    return HD_OK;
}

static hd_error settle(walk *w) {
    hd_fusion *f = w->f;
    for (uint32_t i = 0; i < f->node_count; ++i)
        if (f->group_of[i] != HD_NO_GROUP) f->group_of[i] = standing(f, f->group_of[i]);
    if (w->optimization >= HD_O2 && !w->choice.products_alone && w->target->prologues.any)
        HD_TRY(hd_fusion_find_prologues(w->g, f, (hd_prologues)w->choice.prologues));
    return hd_fusion_order(w->g, f);
}

hd_error hd_fuse(const hd_machine *m, const hd_graph *g, hd_optimization_level level, hd_fuse_choice choice,
                 hd_fusion *f) {
    memset(f, 0, sizeof *f);
    f->machine = m;
    f->node_count = g->node_count;
    f->level = level;
    const size_t count = (size_t)g->node_count + 1;
    f->source = hd_array_resize(NULL, count * sizeof *f->source);
    f->number = hd_array_resize(NULL, count);
    f->group_of = hd_array_resize(NULL, count * sizeof *f->group_of);
    f->form = hd_array_resize(NULL, count);
    f->stored = hd_array_resize(NULL, count);
    f->recompute = hd_array_resize(NULL, count);
    walk w = {.g = g, .f = f, .optimization = level, .choice = choice, .target = &m->target};
    w.most_members = m->target.most_members;
    if (choice.most_members > 0 && choice.most_members < w.most_members) w.most_members = choice.most_members;
    hd_error status = HD_OK;
    if (f->source == NULL || f->number == NULL || f->group_of == NULL || f->form == NULL || f->stored == NULL ||
        f->recompute == NULL)
        status = hd_fail(HD_ERROR_MEMORY, "no memory to fuse a graph of %u nodes", g->node_count);
    if (status == HD_OK) memset(f->stored, 0, count);
    if (status == HD_OK) memset(f->form, 0, count);
    if (status == HD_OK) status = hd_fusion_find_writes(g, f);
    for (uint32_t i = 0; i < g->node_count && status == HD_OK; ++i) status = fuse_node(&w, i);
    if (status == HD_OK && level > HD_O0 && !choice.unsunk) status = sink(&w);
    if (status == HD_OK) call_lone_lookups(&w);
    if (status == HD_OK) status = find_dear(&w);
    if (status == HD_OK) status = find_stored(&w);
    if (status == HD_OK) status = settle(&w);
    if (status != HD_OK) hd_fusion_release(f);
    return status;
}
