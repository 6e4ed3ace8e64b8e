/* The order in which groups run. */
#include "fuse/fuse.h"

#include <string.h>

static hd_error list_members(hd_fusion *f) {
    f->members = hd_array_resize(NULL, (size_t)(f->node_count + 1) * sizeof *f->members);
    if (f->members == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to fuse");
    uint32_t at = 0;
    for (uint32_t i = 0; i < f->group_count; ++i) {
        f->groups[i].first = at;
        at += f->groups[i].joined == i ? f->groups[i].count : 0;
        f->groups[i].count = 0;
    }
    for (uint32_t i = 0; i < f->node_count; ++i) {
        if (f->group_of[i] == HD_NO_GROUP) continue;
        hd_group *group = &f->groups[f->group_of[i]];
        f->members[group->first + group->count++] = i;
    }
    return HD_OK;
}

/* First what can fail and what that reads, so that state can be written in place behind it; else as near to the order
 * of the graph as what they read allows: a heap of groups that are ready, by their last node. */
typedef struct heap {
    uint32_t *items, count;
    const hd_group *groups;
} heap;
static bool before(const heap *h, uint32_t a, uint32_t b) {
    const hd_group *x = &h->groups[a], *y = &h->groups[b];
    return x->can_fail != y->can_fail ? x->can_fail : x->last < y->last;
}
static void push(heap *h, uint32_t group) {
    uint32_t at = h->count++;
    for (; at > 0 && before(h, group, h->items[(at - 1) / 2]); at = (at - 1) / 2) h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = group;
}
static uint32_t pop(heap *h) {
    const uint32_t top = h->items[0], group = h->items[--h->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && before(h, h->items[child + 1], h->items[child])) ++child;
        if (!before(h, h->items[child], group)) break;
        h->items[at] = h->items[child];
    }
    h->items[at] = group;
    return top;
}

/* Calls `edge` for every read of one group's value by another. */
#define EACH_EDGE(from, to, ...)                                                                                       \
    for (uint32_t i = 0; i < g->node_count; ++i) {                                                                     \
        const uint32_t to = hd_fusion_runs_with(f, i);                                                                 \
        if (to == HD_NO_GROUP) continue;                                                                               \
        for (int k = 0; k < g->nodes[i].input_count; ++k) {                                                            \
            const uint32_t from = hd_fusion_runs_with(f, f->source[hd_node_inputs(g, i)[k]]);                          \
            if (from == HD_NO_GROUP || from == to) continue;                                                           \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Calls it for every group that reads a value which another group then writes a part of, where that lies. */
#define EACH_WAIT(reader, writer, ...)                                                                                 \
    for (uint32_t i = 0; i < g->node_count; ++i) {                                                                     \
        const uint32_t reader = hd_fusion_runs_with(f, i);                                                             \
        if (reader == HD_NO_GROUP) continue;                                                                           \
        for (int k = 0; k < g->nodes[i].input_count; ++k) {                                                            \
            const uint32_t write = f->written_by[f->source[hd_node_inputs(g, i)[k]]];                                  \
            const uint32_t writer = write == HD_NO_NODE ? HD_NO_GROUP : f->group_of[write];                            \
            if (writer == HD_NO_GROUP || writer == reader) continue;                                                   \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

/* Marks what leads to a call that can fail. What a few walks do not find only comes later. */
static void mark_failing(const hd_graph *g, hd_fusion *f) {
    hd_group *groups = f->groups;
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (g->nodes[i].op == HD_NODE_OUTPUT)
            continue; /* the call says it */
        else if (f->group_of[i] != HD_NO_GROUP && groups[f->group_of[i]].checks)
            groups[f->group_of[i]].can_fail = true;
        else if (f->group_of[i] != HD_NO_GROUP && groups[f->group_of[i]].kind == HD_GROUP_CALL)
            groups[f->group_of[i]].can_fail =
                !hd_node_is_op(&g->nodes[i]) || hd_node_op(&g->nodes[i])->fails != HD_FAILS_NEVER;
    bool changed = true;
    for (int round = 0; round < 4 && changed; ++round) {
        changed = false;
        EACH_WAIT(
            reader, writer,
            if (groups[writer].can_fail && !groups[reader].can_fail) { groups[reader].can_fail = changed = true; })
        for (uint32_t i = g->node_count; i-- > 0;) {
            const uint32_t to = hd_fusion_runs_with(f, i);
            if (to == HD_NO_GROUP || !groups[to].can_fail) continue;
            for (int k = 0; k < g->nodes[i].input_count; ++k) {
                const uint32_t from = hd_fusion_runs_with(f, f->source[hd_node_inputs(g, i)[k]]);
                if (from == HD_NO_GROUP || groups[from].can_fail) continue;
                groups[from].can_fail = changed = true;
            }
        }
    }
}

/* True when a group stands, and runs by itself. */
static bool runs(const hd_group *group, uint32_t index) {
    return group->joined == index && group->begins == HD_NO_GROUP;
}

/* Fills the order; with `waits`, readers of state come before what writes a part of it. *done: all groups are in it. */
static hd_error sort(const hd_graph *g, hd_fusion *f, bool waits_too, bool *done) {
    const uint32_t groups = f->group_count;
    uint32_t edges = 0;
    EACH_EDGE(from, to, edges++;)
    if (waits_too) EACH_WAIT(reader, writer, edges++;)
    uint32_t *waits = hd_array_resize(NULL, (size_t)(groups + 1) * 4),
             *first = hd_array_resize(NULL, (size_t)(groups + 2) * 4),
             *readers = hd_array_resize(NULL, (size_t)(edges + 1) * 4);
    heap h = {.items = hd_array_resize(NULL, (size_t)(groups + 1) * 4), .groups = f->groups};
    const bool ok = waits != NULL && first != NULL && readers != NULL && h.items != NULL;
    f->order_count = 0;
    if (ok) {
        memset(waits, 0, (size_t)(groups + 1) * 4);
        memset(first, 0, (size_t)(groups + 2) * 4);
        EACH_EDGE(from, to, first[from + 2]++; waits[to]++;)
        if (waits_too) EACH_WAIT(reader, writer, first[reader + 2]++; waits[writer]++;)
        for (uint32_t i = 2; i < groups + 2; ++i) first[i] += first[i - 1];
        EACH_EDGE(from, to, readers[first[from + 1]++] = to;)
        if (waits_too) EACH_WAIT(reader, writer, readers[first[reader + 1]++] = writer;)
        for (uint32_t i = 0; i < groups; ++i)
            if (runs(&f->groups[i], i) && waits[i] == 0) push(&h, i);
        while (h.count > 0) {
            const uint32_t group = pop(&h);
            f->order[f->order_count++] = group;
            for (uint32_t e = first[group]; e < first[group + 1]; ++e)
                if (--waits[readers[e]] == 0) push(&h, readers[e]);
        }
    }
    hd_array_release(waits);
    hd_array_release(first);
    hd_array_release(readers);
    hd_array_release(h.items);
    if (!ok) return hd_fail(HD_ERROR_MEMORY, "no memory to order %u kernels", groups);
    uint32_t standing_groups = 0;
    for (uint32_t i = 0; i < groups; ++i) standing_groups += runs(&f->groups[i], i);
    *done = f->order_count == standing_groups;
    return HD_OK;
}

hd_error hd_fusion_order(const hd_graph *g, hd_fusion *f) {
    HD_TRY(list_members(f));
    if (f->level > HD_O0) mark_failing(g, f); /* O0 runs in the order that was recorded */
    f->order = hd_array_resize(NULL, (size_t)(f->group_count + 1) * 4);
    if (f->order == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to order %u kernels", f->group_count);
    bool done;
    HD_TRY(sort(g, f, true, &done));
    if (!done) HD_TRY(sort(g, f, false, &done)); /* some kernel reads state before and after: that state is copied */
    return done ? HD_OK : hd_fail(HD_ERROR_INTERNAL, "fused kernels depend on each other");
}
