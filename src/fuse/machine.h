/* What HODU asks of the machine that it compiles for: its target, which is data (kernel/target.h), and these functions.
 * Fusion, lowering and plans know nothing else of it. Machines are in src/machine, which alone knows devices. */
#ifndef HD_FUSE_MACHINE_H
#define HD_FUSE_MACHINE_H

#include "graph/graph.h"
#include "kernel/target.h"

struct hd_coder;
struct hd_group;
struct hd_launch;
struct hd_lowering;
struct hd_plan;
struct hd_plan_draft;
struct hd_run;

/* What O3 chose for a launch; all zero is what machines choose by themselves. */
typedef struct hd_launch_choice {
    uint8_t threads; /* at most; 0: all */
    int8_t width;    /* of a kernel's schedule: lanes at a time, 1: twice as many, -1: half of them */
    uint8_t own[4];  /* as the machine reads them */
} hd_launch_choice;
/* One of the changes that it tries. */
typedef struct hd_launch_change {
    const char *name;
    hd_launch_choice change;
} hd_launch_change;

typedef struct hd_machine hd_machine;
struct hd_machine {
    hd_target target;
    hd_device device; /* whose memory plans are laid out in */

    /* ---- asked by fusion and lowering ---- */
    /* Why the result of a matrix product or a convolution is not had in tiles; NULL: it is. */
    const char *(*product_apart)(const hd_machine *m, const hd_graph *g, uint32_t node);
    /* The dtype of the tiles of a product with a result of this one, and how many columns they have. */
    hd_dtype (*tile_dtype)(hd_dtype result);
    int (*tile_columns)(hd_dtype tile);

    /* ---- asked by plans, in this order: plan/plan.h has the phases ---- */
    /* Of kernels; gives NULL with an error. NULL: the machine compiles them itself when it settles. */
    const struct hd_coder *(*coder)(void);
    hd_error (*begin)(struct hd_plan_draft *draft); /* makes plan->own */
    /* Launches for a group of kind HD_GROUP_PRODUCT. */
    hd_error (*plan_product)(struct hd_plan_draft *draft, struct hd_lowering *lowering, const struct hd_group *group);
    /* How a launch runs, before its kernel is compiled. */
    void (*apply)(struct hd_plan_draft *draft, struct hd_launch *l, const hd_launch_choice *choice);
    /* What is to be known of launches when all are there: how they are cut, what is packed. */
    hd_error (*settle)(struct hd_plan_draft *draft);
    /* Which launches run at the same time: puts them in that order, and makes plan->spans. */
    hd_error (*order)(struct hd_plan_draft *draft);
    /* True when launch `index` alone of those that run at the same time uses a buffer. */
    bool (*uses_alone)(const struct hd_plan *plan, uint32_t index, uint32_t buffer);
    /* True when a product can fail; and when one without a kernel of its own reads `tensor` only where it writes. */
    bool (*product_can_fail)(const struct hd_plan *plan, const struct hd_launch *l);
    bool (*product_may_overwrite)(const struct hd_plan *plan, const struct hd_launch *l, uint32_t tensor);
    void (*release)(struct hd_plan *plan, hd_thread *thread); /* plan->own, which may be NULL */

    /* True for an op that another machine runs for it, with copies of its operands; NULL: none is. */
    bool (*by_copy)(const hd_op *op);

    /* ---- a run ---- */
    /* All launches. What can fail and is not computing comes first: memory to work in, weights to be packed. *done,
     * which is 0 before: launches that may have written when it fails. */
    hd_error (*run)(struct hd_plan *plan, hd_thread *thread, const struct hd_run *run, uint32_t *done);
    /* Puts back what launches before `end` wrote into cells, the latest first. Cannot fail. */
    void (*undo)(const struct hd_plan *plan, hd_thread *thread, uint32_t end);

    /* ---- O3 ---- */
    const char *(*tuning_key)(void); /* a text of what times depend on, beside the code of kernels */
    int (*threads)(void);            /* that launches share; fewer are tried */
    const hd_launch_change *changes;
    int change_count;
    hd_launch_choice (*changed)(hd_launch_choice choice, hd_launch_choice change);
    /* True when a launch with this choice would run otherwise with the change. */
    bool (*concerns)(const struct hd_plan *plan, const struct hd_launch *l, hd_launch_choice choice,
                     hd_launch_choice change);
    bool (*is_sound)(hd_launch_choice choice);               /* one from a file */
    void (*forget)(struct hd_plan *plan, hd_thread *thread); /* what trial runs left: other runs have other cells */
};

/* The machine of a device; NULL with an error when HODU does not run there. From src/machine. */
const hd_machine *hd_machine_of(hd_device device);

#endif
