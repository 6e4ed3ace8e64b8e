/* A plan in the making: what only its phases need, and what they and machines make launches with. Every function keeps
 * within the arrays that phase 3 made. */
#ifndef HD_PLAN_DRAFT_H
#define HD_PLAN_DRAFT_H

#include "plan/plan.h"

typedef struct hd_plan_draft {
    hd_plan *plan;
    uint32_t *cell_of;  /* phase 2; for each node: the cell in whose memory it lies although it is a write; HD_NONE */
    uint32_t *joint_of; /* 2; for each node: the concatenation or padding in whose memory it is a piece; HD_NONE */
    bool *is_joint;     /* 2; for each node: it is one whose pieces are filled one by one */
    uint32_t tensor_capacity, buffer_capacity, launch_capacity, call_capacity, native_capacity, operand_capacity;
} hd_plan_draft;

/* plan_slices.c: which writes go straight into the memory of their cell. Fills cell_of and sliced. */
hd_error hd_draft_find_slices(hd_plan_draft *d);
/* plan_joint.c: which values are pieces of joints from the beginning. Fills joint_of and is_joint. */
hd_error hd_draft_find_joints(hd_plan_draft *d);
/* Where piece k of a joint lies, and the source of that piece when it was placed there. */
void hd_plan_piece_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out);
void hd_plan_source_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out);
/* draft.c: phases 3 and 4. */
hd_error hd_draft_make_headers(hd_plan_draft *d);
hd_error hd_draft_make_launches(hd_plan_draft *d);
/* plan_memory.c: phase 7, places in the arena, and state that is written in place. */
hd_error hd_draft_lay_out(hd_thread *thread, hd_plan_draft *d);

/* ---- launches, in phase 4 ---- */
/* Makes the header of a value that is read, and of the views it looks through. */
hd_error hd_draft_need(hd_plan_draft *d, uint32_t node);
/* A launch; more of its inputs, then of its outputs, are added before the next one is made. NULL with an error. */
hd_launch *hd_draft_launch(hd_plan_draft *d, hd_launch_kind kind, uint32_t node);
hd_error hd_draft_input(hd_plan_draft *d, hd_launch *l, uint32_t tensor);
hd_error hd_draft_output(hd_plan_draft *d, hd_launch *l, uint32_t tensor);
/* All that a kernel reads from memory. */
hd_error hd_draft_inputs_of(hd_plan_draft *d, hd_launch *l, uint32_t native);
/* The op of a node as a call, which `l` makes. NULL with an error. */
hd_plan_call *hd_draft_call_of(hd_plan_draft *d, uint32_t node, hd_launch *l);
/* A launch of the node's op as a call on its inputs, of kind HD_RUN_CALL or HD_RUN_PRODUCT. */
hd_error hd_draft_call(hd_plan_draft *d, uint32_t node, hd_launch_kind kind);
/* A launch of a group's kernel, and of its product if it has one. */
hd_error hd_draft_kernel(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group);
/* The kernel that computes rows of a product's first operand; HD_NONE: it has none. */
hd_error hd_draft_prologue(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group, uint32_t *native);
/* The product of a group: its first member that is one. */
uint32_t hd_draft_product_of(const hd_plan_draft *d, const hd_group *group);

/* ---- kernels, in phase 5 ---- */
/* True for a kernel that may compute more or fewer lanes at a time, as its results stay the same; and doing so. */
bool hd_plan_can_widen(const hd_native *n);
void hd_plan_widen(hd_native *n, int width);

#endif
