/* Fusion: which nodes are computed together, and which values are ever in memory. */
#ifndef HD_FUSE_FUSE_H
#define HD_FUSE_FUSE_H

#include "fuse/machine.h"
#include "graph/graph.h"

#define HD_NO_GROUP UINT32_MAX
#define HD_NO_CELL  UINT32_MAX

typedef enum hd_group_kind {
    HD_GROUP_CALL,   /* one op, by the device's own kernels */
    HD_GROUP_KERNEL, /* elementwise ops and reductions: one native kernel */
    HD_GROUP_PRODUCT /* a matrix product or a convolution, and elementwise ops on its result while that is in cache */
} hd_group_kind;

/* How a node's axes relate to those of its group's space. */
typedef enum hd_form {
    HD_FORM_FULL,    /* they are the same */
    HD_FORM_ONES,    /* the reduced ones have size 1 */
    HD_FORM_SQUEEZED /* the reduced ones are left out */
} hd_form;

typedef struct hd_group {
    uint8_t kind;              /* hd_group_kind */
    bool can_fail;             /* or leads to what can */
    bool checks;               /* it has members with indices, which are looked at before it runs */
    bool read;                 /* other groups count on its level */
    bool reduces;              /* some axes of its space are reduced */
    bool reduced[HD_MAX_RANK]; /* which */
    hd_shape space;            /* what it walks */
    uint32_t level;        /* 1 + the highest level of what it reads: groups of one level do not depend on each other */
    uint32_t reads;        /* of its members from outside, at most */
    uint32_t first, count; /* its nodes: fusion->members[first ...], in order */
    uint32_t last;         /* the last of its nodes */
    uint32_t joined;       /* the group that took it over; itself while it stands */
    uint8_t sunk;          /* the form its nodes have in the group that took it over */
    uint32_t begins;       /* of a kernel: the product that computes its value as it reads it; HD_NO_GROUP */
    uint32_t prologue;     /* of a product: such a kernel, which gives its first operand; HD_NO_GROUP */
    const char *apart;     /* of a product whose first operand a kernel gives: why that is in memory; NULL */
} hd_group;

typedef struct hd_fusion {
    const hd_machine *machine;
    hd_optimization_level level;
    uint32_t node_count;
    hd_group *groups;
    uint32_t group_count, group_capacity;
    uint32_t *order; /* groups that stand, in the order to run them */
    uint32_t order_count;
    uint32_t *members;
    uint32_t *source;   /* of each node: what it looks at through views; itself when it is none */
    bool *number;       /* of each node: all its elements are the number that its source says */
    uint32_t *group_of; /* of each node; HD_NO_GROUP: given, or a view, or not needed */
    uint8_t *form;      /* hd_form of each node in a kernel */
    bool *stored;       /* of each node: others read it from memory */
    /* Of each node that kernels may recompute wherever they read it: what that costs; 0. They do when it has no
     * group. */
    uint8_t *recompute;
    /* Of each node that writes a part of state, all the way from the old value to the new one: the cell; HD_NO_CELL.
     * And of the values on that way: the node that writes a part of them; HD_NO_NODE. What reads them runs before it,
     * if that can be. */
    uint32_t *writes, *written_by;
} hd_fusion;

/* Which first operands products compute as they read them: those that are worth it, none, all that they can. */
typedef enum hd_prologues { HD_PROLOGUES_WORTH, HD_PROLOGUES_NONE, HD_PROLOGUES_ALL } hd_prologues;

/* What can be decided otherwise where that is quicker; all zero is what is quicker as a rule. */
typedef struct hd_fuse_choice {
    uint8_t most_members;  /* of a group; 0: as many as fit */
    bool products_alone;   /* nothing is computed in the tiles of products */
    bool reductions_alone; /* by the device's own kernels */
    bool unsunk;           /* what follows from inputs alone is computed once, apart from its reader */
    uint8_t prologues;     /* hd_prologues */
} hd_fuse_choice;

/* Parts the nodes of a graph into groups for a machine. O0: every op alone; O1: elementwise ops; O2: all. */
hd_error hd_fuse(const hd_machine *m, const hd_graph *g, hd_optimization_level level, hd_fuse_choice choice,
                 hd_fusion *out);
void hd_fusion_release(hd_fusion *f);
/* From fuse_state.c: fills writes and written_by. */
hd_error hd_fusion_find_writes(const hd_graph *g, hd_fusion *f);
/* From fuse_recompute.c: fills recompute of a node, when number and source are known. */
void hd_fusion_find_recompute(const hd_graph *g, hd_fusion *f, uint32_t node);
/* True when `node`, in a kernel, can recompute input k: nothing that others than kernels read, or in another
 * order. */
bool hd_fusion_can_recompute(const hd_graph *g, const hd_fusion *f, uint32_t node, int k);
/* Dearer to compute twice than to read. */
bool hd_fusion_is_dear(const hd_fusion *f, uint32_t node);
bool hd_node_is_draw(const hd_graph *g, uint32_t node);
/* Where the elements of a view lie among those of its source; false: in no order that strides can say. */
bool hd_layout_of_value(const hd_graph *g, uint32_t node, hd_layout *out);
/* From fuse_prologue.c: which kernels products run as they read their first operand, when all nodes know their
 * group. */
hd_error hd_fusion_find_prologues(const hd_graph *g, hd_fusion *f, hd_prologues which);
/* From fuse_order.c: fills members and order, when all nodes know their group. */
hd_error hd_fusion_order(const hd_graph *g, hd_fusion *f);

static inline bool hd_node_is_view(const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    return hd_node_is_op(n) && hd_node_op(n)->family == HD_FAMILY_VIEW;
}
/* How kernels have a node, as the row of its op says. */
static inline hd_lower_kind hd_node_lowers(const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    return hd_node_is_op(n) ? (hd_lower_kind)hd_node_op(n)->lower : HD_LOWER_NONE;
}
/* The group with which a node runs: that of the product, when it is computed as that reads it. */
static inline uint32_t hd_fusion_runs_with(const hd_fusion *f, uint32_t node) {
    const uint32_t group = f->group_of[node];
    return group == HD_NO_GROUP || f->groups[group].begins == HD_NO_GROUP ? group : f->groups[group].begins;
}
/* True for the value that a product computes as it reads it: some rows are in cache at a time, and it is nowhere in
 * memory. */
static inline bool hd_fusion_is_prologue(const hd_fusion *f, uint32_t node) {
    const uint32_t group = f->group_of[node];
    return group != HD_NO_GROUP && f->groups[group].begins != HD_NO_GROUP && f->groups[group].last == node;
}
/* True for an op that a kernel can say: elementwise rows and their derivatives, casts, numbers. */
bool hd_node_is_map(const hd_graph *g, uint32_t node);
/* True for a matrix product or a convolution whose result the machine gives in tiles. When it is one that does not,
 * *why says why (else it is NULL); `why` may be NULL. */
bool hd_node_is_product(const hd_machine *m, const hd_graph *g, uint32_t node, const char **why);
/* The axis of a product's result along which tiles have their rows; the axes behind it are their columns. */
int hd_product_row_axis(const hd_graph *g, uint32_t node);
/* A value that no run changes: a constant, or a cell that is not updated. As the second operand of a product it is
 * packed once. */
bool hd_fusion_is_steady(const hd_graph *g, const hd_fusion *f, uint32_t node);
/* gather and scatter along an axis with one index for each row: in a kernel, a comparison of positions with it. */
bool hd_node_is_pick(const hd_graph *g, uint32_t node);
bool hd_node_is_spread(const hd_graph *g, uint32_t node);
/* Rows of a table by an index for each, or single elements: in a kernel, loads at a place that another load says. */
bool hd_node_is_lookup(const hd_machine *m, const hd_graph *g, uint32_t node);
/* A concatenation or padding that a kernel can read where its pieces lie: few of them, long rows. */
bool hd_node_is_joint(const hd_machine *m, const hd_graph *g, uint32_t node);
/* How the axes of input k of `node` relate to the axes of the space, when those of the node do as `axes` says: -1 where
 * it has one element. False: not in a way that a kernel can follow. Follows views down to the source, whose axes these
 * are. */
bool hd_follow_axes(const hd_graph *g, uint32_t node, int k, const int8_t *axes, int8_t *out);
/* The axes of a node in its group's space. */
void hd_form_axes(const hd_group *group, hd_form form, int8_t *axes);
/* One line per group, for HODU_DUMP=fusion; the caller releases it with hd_array_release. */
char *hd_fusion_print(const hd_graph *g, const hd_fusion *f);

#endif
