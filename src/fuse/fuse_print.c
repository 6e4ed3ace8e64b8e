/* Fusion as text, for HODU_DUMP=fusion: what is computed together, and what is ever in memory. */
#include "fuse/fuse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct text {
    char *bytes;
    size_t length, capacity;
    bool failed;
} text;

__attribute__((format(printf, 2, 3))) static void say(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char line[512];
    const int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const size_t count = length < 0 ? 0 : (size_t)length < sizeof line ? (size_t)length : sizeof line - 1;
    if (t->length + count + 1 > t->capacity) {
        const size_t capacity = (t->length + count + 1) * 2;
        char *moved = t->failed ? NULL : hd_array_resize(t->bytes, capacity);
        if (moved == NULL) {
            t->failed = true;
            return;
        }
        t->bytes = moved;
        t->capacity = capacity;
    }
    memcpy(t->bytes + t->length, line, count);
    t->length += count;
    t->bytes[t->length] = '\0';
}

static void say_space(text *t, const hd_group *group) {
    for (int i = 0; i < group->space.rank; ++i)
        say(t, group->reduced[i] ? "%s(%lld)" : "%s%lld", i > 0 ? "," : "[", (long long)group->space.size[i]);
    say(t, group->space.rank > 0 ? "]" : "[]");
}

static void say_members(text *t, const hd_graph *g, const hd_fusion *f, const hd_group *group) {
    for (uint32_t k = 0; k < group->count; ++k) {
        const uint32_t node = f->members[group->first + k];
        say(t, " %%%u %s%s", node, hd_node_name(&g->nodes[node]), f->stored[node] ? "*" : "");
    }
}

/* What a product is finished in, or why it is not. */
static void say_tiles(text *t, const hd_graph *g, const hd_fusion *f, const hd_group *group) {
    const char *why = NULL;
    for (uint32_t k = 0; k < group->count; ++k) {
        const uint32_t node = f->members[group->first + k];
        const bool product = hd_node_is_product(f->machine, g, node, &why);
        if (product && group->kind == HD_GROUP_PRODUCT && group->count > 1)
            say(t, "; in tiles of %s",
                hd_lower_is_convolution(hd_node_lowers(g, node)) ? "channels x pixels" : "rows x columns");
        if (why != NULL && f->level > HD_O0) say(t, "; no tiles: %s", why);
    }
}

/* The first operand of a product: computed as it is read, or why not. */
static void say_prologue(text *t, const hd_fusion *f, const hd_group *group) {
    if (group->prologue != HD_NO_GROUP)
        say(t, "; rows of %%%u computed as they are read", f->groups[group->prologue].last);
    if (group->apart != NULL) say(t, "; its first operand in memory: %s", group->apart);
}

/* What is read where its pieces lie, and is in memory, if at all, because others read it. */
static void say_pieces(text *t, const hd_graph *g, const hd_fusion *f, const hd_group *group) {
    for (uint32_t k = 0; k < group->count && group->kind == HD_GROUP_KERNEL; ++k) {
        const uint32_t node = f->members[group->first + k];
        if (hd_node_is_joint(f->machine, g, node)) say(t, "; pieces of %%%u read where they lie", node);
    }
}

/* Draws, and where their numbers are made. */
static void say_draws(text *t, const hd_graph *g, const hd_fusion *f) {
    for (uint32_t i = 0; i < g->node_count; ++i) {
        if (!hd_node_is_draw(g, i) || f->level == HD_O0) continue;
        const bool recompute = f->group_of[i] == HD_NO_GROUP;
        say(t, "draw %%%u %s: %s\n", i, hd_node_name(&g->nodes[i]),
            recompute                 ? "in the kernels that read it, never in memory"
            : hd_fusion_is_dear(f, i) ? "in memory: an output, or dearer to draw in several kernels than to read"
                                      : "in memory: an output, or read by a call, or in another order");
    }
}

char *hd_fusion_print(const hd_graph *g, const hd_fusion *f) {
    static const char *const kinds[] = {"call", "kernel", "product"};
    text t = {.failed = false};
    uint32_t stored = 0, nodes = 0;
    for (uint32_t i = 0; i < g->node_count; ++i) {
        nodes += f->group_of[i] != HD_NO_GROUP;
        stored += f->group_of[i] != HD_NO_GROUP && f->stored[i];
    }
    say(&t,
        "%u groups of %u nodes; %u values are in memory; reduced axes stand in parentheses, stored values have a "
        "star\n",
        f->order_count, nodes, stored);
    for (uint32_t i = 0; i < f->order_count; ++i) {
        const hd_group *group = &f->groups[f->order[i]];
        say(&t, "%4u %-7s ", i, kinds[group->kind]);
        say_space(&t, group);
        if (group->prologue != HD_NO_GROUP) say_members(&t, g, f, &f->groups[group->prologue]);
        say_members(&t, g, f, group);
        say_tiles(&t, g, f, group);
        say_prologue(&t, f, group);
        if (group->prologue != HD_NO_GROUP) say_pieces(&t, g, f, &f->groups[group->prologue]);
        say_pieces(&t, g, f, group);
        say(&t, "\n");
    }
    say_draws(&t, g, f);
    return t.bytes;
}
