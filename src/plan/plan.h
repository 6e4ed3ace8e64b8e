/* Plans: a graph as a flat list of launches, with all memory laid out in advance.
 *
 * A plan is made in phases, each of which fills what it names, and reads what those before it filled:
 *     1 fuse      hd_fuse: plan->fusion
 *     2 find      what lies in the memory of something else: draft->cell_of, joint_of; plan->sliced
 *     3 head      headers of all that is in memory: tensors, buffer_of, buffers
 *     4 launch    launches in the order of groups, with calls, natives, operands; then outputs and state
 *     5 compile   choices of tuning are applied; natives get code
 *     6 connect   nothing moves any more: pointers, calls' operands; the machine settles
 *     7 lay out   the machine orders launches: spans; then offsets in the arena, fresh
 * After that a plan does not change. What a run sets is in buffers (storage.data, storage.block, in_place), in `aside`
 * and in what the machine has for itself; a plan runs once at a time. */
#ifndef HD_PLAN_PLAN_H
#define HD_PLAN_PLAN_H

#include "codegen/code.h"
#include "core/away.h"
#include "fuse/lower.h"
#include "script/executable.h"

#define HD_NONE UINT32_MAX

/* HD_GIVEN: inputs, constants, cells. HD_NOWHERE: a product computes it as it reads it. */
typedef enum hd_placement { HD_IN_ARENA, HD_IN_OUTPUT, HD_IN_STATE, HD_IN_CELL, HD_GIVEN, HD_NOWHERE } hd_placement;

typedef struct hd_plan_buffer {
    hd_storage storage; /* its header, which kernels see; never released */
    hd_placement placement;
    uint32_t first, last; /* the launch that fills it, and the last that uses it; HD_NONE */
    uint32_t cell;        /* HD_IN_CELL: the one whose memory it is, */
    bool in_place;        /* in this run: somebody else may look at that memory */
    size_t offset;        /* in the arena */
    bool placed;          /* it has an offset */
    bool handed_on;       /* a launch writes its result over it */
} hd_plan_buffer;

typedef enum hd_launch_kind {
    HD_RUN_CALL,
    HD_RUN_COPY,
    HD_RUN_SAVE,    /* a part of state, before it is written: the part -> what was there */
    HD_RUN_SAVE_AT, /* the same at indices: state, index -> positions, what was there */
    HD_RUN_SCATTER, /* writes at indices: positions, source -> state */
    HD_RUN_BORDER,  /* around what is padded */
    HD_RUN_CHECK,
    HD_RUN_KERNEL,
    HD_RUN_PRODUCT
} hd_launch_kind;
typedef struct hd_launch {
    uint8_t kind;    /* launch_kind */
    uint8_t threads; /* at most; 0: all */
    uint16_t inputs, outputs;
    uint32_t node;
    uint32_t first;  /* operands[first ...]: tensors, its inputs and then its outputs */
    uint32_t call;   /* in calls; HD_NONE */
    uint32_t native; /* in natives; HD_NONE */
    uint32_t number; /* its index before launches were put in order: what tuning knows it by */
} hd_launch;
/* Launches that follow each other and run at the same time; all before them are done. */
typedef struct hd_plan_span {
    uint32_t first, count;
} hd_plan_span;

typedef struct hd_plan_call {
    hd_call call;                     /* its operands from phase 6 on */
    hd_random_attributes draw;        /* of a random op: the call's attributes */
    uint32_t prologue;                /* of a product, in natives: what computes rows of its first operand; HD_NONE */
    uint32_t outputs[HD_MAX_OUTPUTS]; /* nodes: the call, and those that are its other outputs; HD_NONE: not wanted */
} hd_plan_call;

typedef struct hd_plan_native {
    hd_native native;
    hd_code *code;                          /* from phase 5 on */
    hd_lowered_draw draws[HD_KERNEL_DRAWS]; /* random numbers that it draws itself */
    int draw_count, seed;
    uint32_t tensors[HD_KERNEL_BUFFERS]; /* of each buffer; HD_NONE: the tile of a product, or of its first operand */
    int tile;                            /* which buffer that is; -1 */
    int rows;                            /* the axis of its rows; those behind it are its columns */
} hd_plan_native;

/* What is on the host, as the device of a plan has it. */
typedef struct hd_plan_copy {
    hd_block *block;  /* NULL: not yet */
    const void *data; /* when it was copied, it was here and had changed so often */
    uint32_t changes;
} hd_plan_copy;

typedef struct hd_plan {
    hd_executable executable;
    const hd_machine *machine;
    void *own; /* the machine's, from its `begin` on */
    hd_graph *graph;
    hd_fusion fusion;    /* phase 1 */
    bool *sliced;        /* 2; for each cell: its parts are written in place, and what was there is saved */
    hd_tensor *tensors;  /* 3; of each node; behind them those of copies and of parts that a write fills */
    uint32_t *buffer_of; /* 3; of each tensor; HD_NONE: it has none */
    hd_plan_buffer *buffers;
    hd_launch *launches; /* 4; in their last order from phase 7 on */
    hd_plan_call *calls;
    hd_plan_native **natives;
    uint32_t *operands;   /* 4; tensors of launches */
    hd_tensor **pointers; /* 6; the same */
    uint32_t *outputs;    /* 4; the tensor of each output */
    uint32_t *state;      /* 4; for each cell: the buffer of its update; HD_NONE: unchanged */
    hd_plan_span *spans;  /* 7 */
    hd_block *arena;      /* 7 */
    uint32_t *fresh;      /* 7; buffers that need memory of their own in every run */
    hd_plan_copy *copies; /* of runs on a device; of each cell, input and constant */
    hd_block **aside;     /* of a run; for each input: a copy, when it lies in the memory of a sliced cell */
    uint32_t tensor_count, buffer_count, launch_count, call_count, native_count, operand_count, span_count, fresh_count;
    bool has_constants;       /* of runs on a device: they are there */
    uint32_t done;            /* launches of the run that may have written, should it fail or be left */
    bool saves;               /* 7; it has HD_RUN_SAVE or HD_RUN_SAVE_AT */
    bool draws;               /* 4; some kernels draw random numbers */
    struct hd_tuning *tuning; /* what was chosen for it, at O3; NULL */
} hd_plan;

static inline hd_error hd_plan_no_memory(const hd_plan *p) {
    return hd_fail(HD_ERROR_MEMORY, "no memory for a plan of %u nodes", p->graph->node_count);
}
static inline bool hd_launch_saves(const hd_launch *l) { return l->kind == HD_RUN_SAVE || l->kind == HD_RUN_SAVE_AT; }
/* True when the tensor is all of the buffer it lies in. */
static inline bool hd_plan_is_whole(const hd_plan *p, uint32_t tensor) {
    const hd_tensor *t = &p->tensors[tensor];
    const hd_plan_buffer *b = &p->buffers[p->buffer_of[tensor]];
    return t->storage == &b->storage && t->contiguous && t->layout.offset == 0 &&
           (size_t)t->count * hd_dtype_bytes[t->dtype] == b->storage.bytes;
}
/* The same, and the buffer is in the arena. */
static inline bool hd_plan_is_own(const hd_plan *p, uint32_t tensor) {
    return p->buffers[p->buffer_of[tensor]].placement == HD_IN_ARENA && hd_plan_is_whole(p, tensor);
}

/* What tuning chose for a whole plan: all zero is what is quicker as a rule. */
typedef struct hd_tuning {
    hd_fuse_choice fuse;
    uint32_t launch_count;
    hd_launch_choice launches[];
} hd_tuning;

/* Two hashes of all that the time of a run depends on: nodes with their shapes and attributes, not the values of
 * constants. */
typedef struct hd_tuning_key {
    char title[16];
    uint64_t hash[2];
    int64_t nodes, threads, format; /* of what is kept */
} hd_tuning_key;

/* plan.c: a plan of a graph, which it retains; NULL with an error. `tuning` may be NULL; one that was made for another
 * plan is not applied beyond fusion. `carried` may be NULL. */
hd_plan *hd_plan_new(hd_thread *thread, hd_graph *graph, const hd_machine *machine, hd_optimization_level level,
                     const hd_tuning *tuning, hd_carried *carried);
/* tune.c: the quickest plan that was found for this graph, now or earlier; NULL with an error. */
hd_plan *hd_plan_tuned(hd_thread *thread, hd_graph *graph, const hd_machine *machine, hd_carried *carried);
/* What it chose for a plan, for a file to carry, under `key`, which is filled; bytes NULL: nothing. */
hd_carried_note hd_plan_tuning_note(const hd_plan *p, hd_tuning_key *key);
/* plan_carry.c: the machine code of its kernels, for a file to carry: hd_carried_make. */
hd_error hd_plan_carry(hd_plan *p, hd_carried *from, unsigned char **bytes, size_t *count);
/* True when launches of a group of kind HD_GROUP_PRODUCT: also a call that is one. */
bool hd_plan_is_product(const hd_plan *p, const hd_launch *l);

/* plan_memory.c */
bool hd_plan_can_fail(const hd_plan *p, const hd_launch *l);
/* True when a kernel reads a buffer at positions which other values say, or only some of it. */
bool hd_plan_reads_at_positions(const hd_kernel *k, int buffer);
/* The memory that a buffer is: the cell's, when it is written over that. */
uint32_t hd_plan_memory_of(const hd_plan *p, uint32_t buffer);
/* plan_device.c: the memory of a plan, on the host or a device. */
static inline bool hd_plan_is_away(const hd_plan *p) { return hd_device_is_away(p->machine->device); }
hd_block *hd_plan_block_new(const hd_plan *p, hd_thread *thread, size_t bytes);
void *hd_plan_block_address(hd_block *block);
hd_error hd_plan_copy_bytes(const hd_plan *p, hd_thread *thread, void *to, void *from, size_t bytes);
/* Where the device finds what a run is given; NULL with an error. Cells that it updates move there. */
void *hd_plan_bring_cell(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t cell);
void *hd_plan_bring_input(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t input);
hd_error hd_plan_bring_constants(hd_plan *p, hd_thread *thread);
void hd_plan_release_copies(hd_plan *p, hd_thread *thread);
/* plan_run.c */
hd_error hd_plan_run(hd_executable *self, hd_thread *thread, const hd_run *run);
void hd_plan_left(hd_executable *self, hd_thread *thread, hd_storage *const *cells);
/* plan_describe.c */
void hd_plan_describe(const hd_executable *self, int64_t launch, hd_launch_stats *out);
/* Arithmetic of a launch. */
double hd_plan_operations(const hd_plan *p, const hd_launch *l);
void hd_plan_dump(const hd_plan *p);

#endif
