/* The plan of a script, and what its files share: plan.c makes it, plan_jobs.c brings launches together, plan_memory.c
 * lays out its memory, plan_share.c cuts it for threads, plan_run.c runs it. */
#ifndef HD_COMPILER_PLAN_H
#define HD_COMPILER_PLAN_H

#include "compiler/lower.h"
#include "device/cpu/product.h"
#include "script/executable.h"

#define HD_NONE UINT32_MAX

/* GIVEN: inputs, constants, cells. NOWHERE: a product computes it as it reads it. */
typedef enum hd_room { IN_ARENA, IN_OUTPUT, IN_STATE, IN_CELL, GIVEN, NOWHERE } hd_room;

typedef struct hd_plan_buffer {
    hd_storage storage; /* its header, which kernels see; never released */
    hd_room room;
    uint32_t first, last; /* the launch that fills it, and the last that uses it; HD_NONE */
    uint32_t cell;        /* IN_CELL: the one whose memory it is, */
    bool in_place;        /* in this run: somebody else may look at that memory */
    size_t offset;        /* in the arena */
    bool placed;          /* it has an offset */
    bool handed_on;       /* a launch writes its result over it */
} hd_plan_buffer;

typedef enum hd_launch_kind {
    RUN_CALL,
    RUN_COPY,
    RUN_SAVE,    /* a part of state, before it is written: the part -> what was there */
    RUN_SAVE_AT, /* the same at indices: state, index -> places, what was there */
    RUN_PUT,     /* writes at indices: places, source -> state */
    RUN_BORDER,  /* around what is padded */
    RUN_CHECK,
    RUN_KERNEL,
    RUN_PRODUCT
} hd_launch_kind;
typedef struct hd_launch {
    uint8_t kind;    /* launch_kind */
    uint8_t threads; /* at most; 0: all */
    uint16_t inputs, outputs;
    uint32_t node;
    uint32_t first;  /* operands[first ...]: tensors, its inputs and then its outputs */
    uint32_t call;   /* in calls; HD_NONE */
    uint32_t native; /* in natives; HD_NONE */
    uint32_t number; /* its place before launches were brought together in jobs: what tuning knows it by */
    uint32_t job;
    uint32_t strand; /* of the job; HD_NONE: it is alone there, and shares itself out */
    uint32_t next;   /* launch of the strand; HD_NONE */
} hd_launch;

/* Launches that threads share together, with one barrier: strands, which do not depend on each other. In a strand
 * launches follow each other: one thread does it all, or each does some rows of all of its kernels, which read no
 * others. */
typedef struct hd_plan_strand {
    uint32_t first, last; /* launches */
    int64_t rows;         /* into which all of it can be cut; 1: one thread does it */
    int64_t cost;         /* in instructions on single elements */
} hd_plan_strand;
typedef struct hd_plan_job {
    uint32_t first, count;         /* launches, which follow each other */
    uint32_t strand, strand_count; /* in strands; 0: one launch alone */
    uint32_t piece, piece_count;   /* in pieces, for the pool as it is; 0: its launches run one after the other */
} hd_plan_job;
typedef struct hd_plan_part {
    uint32_t strand;
    int64_t begin, end; /* rows */
} hd_plan_part;
typedef struct hd_plan_piece {
    uint32_t part, part_count; /* in parts */
    size_t room, room_bytes;   /* memory that it works in, from here on */
    int64_t cost;
} hd_plan_piece;

enum { HD_PRODUCT_STEPS = 4 };
typedef struct hd_plan_call {
    hd_call call;
    hd_random_attributes draw;               /* of a random op: the call's attributes */
    hd_product_way way;                      /* of a product */
    uint32_t weight;                         /* in weights: its second operand, which is kept packed; HD_NONE */
    hd_product_step steps[HD_PRODUCT_STEPS]; /* rows that follow it, when they need no kernel of their own */
    uint32_t others[HD_PRODUCT_STEPS];       /* tensors: the other operand of each; HD_NONE */
    uint32_t bias;                           /* likewise; for each column, or each channel */
    int step_count;
    uint32_t prologue; /* in natives: what computes rows of its first operand; HD_NONE: that is in memory */
    uint32_t outputs[HD_MAX_OUTPUTS]; /* nodes: the call, and those that are its other outputs; HD_NONE: not wanted */
} hd_plan_call;

/* The second operand of products, packed while it stays what it was. All that read it alike share it. */
typedef struct hd_plan_weight {
    uint32_t call;    /* the first of them */
    uint32_t readers; /* how many they are; 0: it is not kept after all */
    uint32_t cell;    /* the cell it is; HD_NONE: a constant */
    uint32_t sole;    /* the constant it is, when nothing else reads that; HD_NONE */
    uint32_t next;    /* another way to pack what it is made of; HD_NONE */
    size_t bytes;
    hd_block *packed; /* NULL: not yet */
    const void *data; /* when it was packed, it was here and had changed so often */
    uint32_t changes;
} hd_plan_weight;

typedef struct hd_plan_native {
    hd_native native;
    hd_lowered_draw draws[HD_KERNEL_DRAWS]; /* random numbers that it draws itself */
    int draw_count, seed;
    uint32_t tensors[HD_KERNEL_BUFFERS]; /* of each buffer; HD_NONE: the tile of a product, or of its first operand */
    int tile;                            /* which buffer that is; -1 */
    int rows;                            /* the axis of its rows; those behind it are its columns */
} hd_plan_native;

typedef struct hd_plan {
    hd_executable executable;
    hd_graph *graph;
    hd_executor *executor;
    hd_fusion fusion;
    hd_tensor *tensors; /* of each node; behind them those of copies and of parts that a write fills */
    uint32_t tensor_count;
    uint32_t *buffer_of; /* of each tensor; HD_NONE: it is not made yet */
    hd_plan_buffer *buffers;
    uint32_t buffer_count;
    hd_launch *launches;
    uint32_t launch_count;
    hd_plan_call *calls;
    uint32_t call_count;
    hd_plan_weight *weights;
    uint32_t weight_count;
    hd_plan_native **natives;
    uint32_t native_count;
    uint32_t *operands; /* tensors of launches */
    hd_tensor **pointers;
    uint32_t operand_count, operand_capacity;
    uint32_t *outputs; /* the tensor of each output */
    hd_block *arena;
    uint32_t *fresh; /* buffers that need memory of their own in every run */
    uint32_t fresh_count;
    uint32_t *state;   /* for each cell: the buffer of its update; HD_NONE: unchanged */
    uint32_t *readers; /* while planning, two for each node: products that multiply by it, as it stands and turned */
    bool *is_packed;   /* for each constant: it is read nowhere but there */
    bool saves;        /* it has RUN_SAVE or RUN_SAVE_AT */
    bool *sliced;      /* for each cell: its parts are written in place, and what was there is saved */
    uint32_t *cell_of; /* for each node: the cell in whose memory it lies although it is a write; HD_NONE */
    uint32_t *part_of; /* for each node: the concatenation or padding in whose memory it is a part; HD_NONE */
    bool *in_parts;    /* for each node: it is one whose parts are filled one by one */
    bool draws;        /* some kernels draw random numbers */
    hd_block **aside;  /* for each input: a copy, when it lies in the memory of such a cell */
    hd_plan_job *jobs;
    uint32_t job_count;
    hd_plan_strand *strands;
    uint32_t strand_count;
    hd_plan_piece *pieces;
    hd_plan_part *parts;
    hd_block *room; /* memory that launches work in; it and the pieces are made for so many threads */
    int room_threads;
} hd_plan;

static inline hd_error hd_plan_no_memory(const hd_plan *p) {
    return hd_fail(HD_ERROR_MEMORY, "no memory for a plan of %u nodes", p->graph->node_count);
}
static inline bool hd_launch_saves(const hd_launch *l) { return l->kind == RUN_SAVE || l->kind == RUN_SAVE_AT; }
/* True when the tensor is all of the buffer it lies in. */
static inline bool hd_plan_is_whole(const hd_plan *p, uint32_t tensor) {
    const hd_tensor *t = &p->tensors[tensor];
    const hd_plan_buffer *b = &p->buffers[p->buffer_of[tensor]];
    return t->storage == &b->storage && t->contiguous && t->layout.offset == 0 &&
           (size_t)t->count * hd_dtype_bytes[t->dtype] == b->storage.bytes;
}
/* The same, and the buffer is in the arena. */
static inline bool hd_plan_is_own(const hd_plan *p, uint32_t tensor) {
    return p->buffers[p->buffer_of[tensor]].room == IN_ARENA && hd_plan_is_whole(p, tensor);
}

/* That a product whose result has this dtype can add the bias to its tiles without a kernel of its own: to floats. */
static inline bool hd_plan_adds_bias(const hd_tensor *bias, hd_dtype result) {
    return bias->contiguous && hd_dtype_is_float(result) && hd_cpu_product_reads(result, (hd_dtype)bias->dtype);
}

/* What tuning chose for a launch, and for a whole plan: all zero is what plans choose by themselves. */
typedef struct hd_launch_choice {
    uint8_t threads; /* at most; 0: all */
    int8_t width;    /* of a native kernel: lanes at a time, 1: twice as many, -1: half of them */
    hd_product_way way;
} hd_launch_choice;
typedef struct hd_tuning {
    hd_fuse_choice fuse;
    uint32_t launch_count;
    hd_launch_choice launches[];
} hd_tuning;

/* plan.c: a plan of a graph, which it retains; NULL with an error. `tuning` may be NULL; one that was made for another
 * plan is not heeded beyond fusion. */
hd_plan *hd_plan_new(hd_thread *thread, hd_graph *graph, hd_executor *executor, hd_optimization_level level,
                     const hd_tuning *tuning);
/* tune.c: the quickest plan that was found for this graph, now or earlier; NULL with an error. */
hd_plan *hd_plan_tuned(hd_thread *thread, hd_graph *graph, hd_executor *executor);
/* True for a launch that may compute a product in another way: also a call that is one. */
bool hd_plan_is_product(const hd_plan *p, const hd_launch *l);
/* True for a kernel that may compute more or fewer lanes at a time, as its results stay the same; and doing so, before
 * it is compiled. */
bool hd_plan_can_widen(const hd_native *n);
void hd_plan_widen(hd_native *n, int width);

/* plan_slices.c: which writes go straight into the memory of their cell. Fills cell_of and sliced. */
hd_error hd_plan_find_slices(hd_plan *p);
/* plan_parts.c: which values are parts of others from the beginning. Fills part_of and in_parts. */
hd_error hd_plan_find_parts(hd_plan *p);
/* Where part k of a concatenation or padding lies, and the source of that part when it was placed there. */
void hd_plan_part_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out);
void hd_plan_source_layout(const hd_plan *p, uint32_t node, int k, hd_layout *out);
/* plan_pack.c: that a product keeps its second operand packed. `readers` are counted. */
bool hd_plan_keeps_weight(const hd_plan *p, uint32_t node);
hd_error hd_plan_count_readers(hd_plan *p);
/* Finds the weights of all products, and constants that are read nowhere but there. */
hd_error hd_plan_find_weights(hd_plan *p);
/* Forgets packed cells: the next run has other ones. */
void hd_plan_forget_weights(hd_plan *p, hd_thread *thread);
/* Packs those that are not what they were. */
hd_error hd_plan_pack_weights(hd_plan *p, hd_thread *thread, const hd_run *run);
/* plan_memory.c: places in the arena, and state that is written in place. */
hd_error hd_plan_lay_out(hd_thread *thread, hd_plan *p);
bool hd_plan_can_fail(const hd_plan *p, const hd_launch *l);
/* That a kernel reads a buffer at places which other values say, or only some of it. */
bool hd_plan_reads_at_places(const hd_kernel *k, int buffer);
/* plan_jobs.c: brings launches together in jobs, and puts them in the order of these. */
hd_error hd_plan_find_jobs(hd_plan *p);
/* What a kernel or a product costs one thread, in instructions on single elements. */
int64_t hd_plan_cost(const hd_plan *p, const hd_launch *l);
/* The memory that a buffer is: the cell's, when it is written over that. */
uint32_t hd_plan_memory_of(const hd_plan *p, uint32_t buffer);
/* That launch `index` alone of its job uses a buffer, or threads that do other rows of its strand use other parts of
 * it. */
bool hd_plan_uses_alone(const hd_plan *p, uint32_t index, uint32_t buffer);
/* plan_share.c: cuts jobs into pieces for the threads there are, and takes the memory to work in. */
hd_error hd_plan_share_out(hd_plan *p, hd_thread *thread);
/* The product of a launch, as far as it is known before a run: of its weights only whether they will be packed. */
hd_product hd_plan_product_of(const hd_plan *p, const hd_launch *l);
hd_error hd_plan_run_job(const hd_plan *p, hd_thread *thread, const hd_plan_job *job);
/* plan_run.c */
hd_error hd_plan_run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l, char *room, size_t room_bytes);
/* What computes rows of a product's first operand: a hd_product_begin. */
void hd_plan_compute_rows(void *context, void *out, int64_t row, int64_t rows);
/* Addresses of a kernel's buffers. */
hd_error hd_plan_addresses(const hd_plan *p, hd_thread *thread, const hd_plan_native *n, char **out);
hd_error hd_plan_run(hd_executable *self, hd_thread *thread, const hd_run *run);
/* plan_look.c */
void hd_plan_describe(const hd_executable *self, int64_t launch, hd_launch_figures *out);
/* Arithmetic of a launch. */
double hd_plan_operations(const hd_plan *p, const hd_launch *l);
void hd_plan_dump(const hd_plan *p);
void hd_plan_dump_jobs(const hd_plan *p);

/* ---- HODU, as scripts know it ------------------------------------------------------------------------------------ */
extern const hd_compiler_interface hd_hodu_interface;

#endif
