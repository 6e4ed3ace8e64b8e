/* The CPU as a machine, and what its files share: cpu.c answers questions and lists what O3 tries, cpu_products.c plans
 * products, cpu_weights.c keeps their operands packed, cpu_kernel.c cuts kernels for threads, cpu_jobs.c brings
 * launches together, cpu_share.c cuts jobs into pieces, cpu_run.c runs them. */
#ifndef HD_MACHINE_CPU_H
#define HD_MACHINE_CPU_H

#include "device/cpu/product.h"
#include "plan/draft.h"

enum { HD_WORTH_A_THREAD = 1 << 17 }; /* instructions on single elements: some 5 us, what it takes to wake a thread */

/* How a native kernel is cut for threads: a part of its space is the same kernel with other sizes and addresses. */
typedef struct hd_cpu_cut {
    int split;            /* the kept axis that threads share; -1: none */
    int64_t grain;        /* the least of it that is worth a thread */
    int64_t cost;         /* of all of it, in instructions on single elements */
    size_t scratch_bytes; /* for each thread */
} hd_cpu_cut;

/* How a product is computed and finished. */
enum { HD_PRODUCT_STEPS = 4 };
typedef struct hd_cpu_product_plan {
    hd_product_config config;
    uint32_t weight;                         /* in weights: its second operand, which is kept packed; HD_NONE */
    hd_product_step steps[HD_PRODUCT_STEPS]; /* rows that follow it, when they need no kernel of their own */
    uint32_t others[HD_PRODUCT_STEPS];       /* tensors: the other operand of each; HD_NONE */
    uint32_t bias;                           /* likewise; for each column, or each channel */
    int step_count;
} hd_cpu_product_plan;

/* What a choice of O3 has of the CPU's own: that way, its blocks in units of HD_K_STEP. */
enum { HD_CPU_UNIT, HD_CPU_SHARE, HD_CPU_WINDOWS, HD_CPU_K_BLOCK };
static inline hd_product_config hd_cpu_config_of(const hd_launch_choice *choice) {
    return (hd_product_config){.unit = choice->own[HD_CPU_UNIT],
                               .share = choice->own[HD_CPU_SHARE],
                               .windows = choice->own[HD_CPU_WINDOWS],
                               .k_block = (uint16_t)(choice->own[HD_CPU_K_BLOCK] * HD_K_STEP)};
}

/* The second operand of products, packed while it stays what it was. All that read it alike share it. */
typedef struct hd_cpu_weight {
    uint32_t call;    /* the first of them */
    uint32_t readers; /* how many they are; 0: it is not kept after all */
    uint32_t cell;    /* the cell it is; HD_NONE: a constant */
    uint32_t sole;    /* the constant it is, when nothing else reads that; HD_NONE */
    uint32_t next;    /* another way to pack what it is made of; HD_NONE */
    size_t bytes;
    hd_block *packed; /* NULL: not yet */
    const void *data; /* when it was packed, it was here and had changed so often */
    uint32_t changes;
} hd_cpu_weight;

/* Launches that threads share together, with one barrier: chains, which do not depend on each other. In a chain
 * launches follow each other: one thread does it all, or each does some rows of all of its kernels, which read no
 * others. */
typedef struct hd_cpu_chain {
    uint32_t first, last; /* launches */
    int64_t rows;         /* into which all of it can be cut; 1: one thread does it */
    int64_t cost;         /* in instructions on single elements */
} hd_cpu_chain;
/* A span of the plan, as it is shared out. */
typedef struct hd_cpu_job {
    uint32_t first, count;       /* launches */
    uint32_t chain, chain_count; /* in chains; 0: one launch alone */
    uint32_t piece, piece_count; /* in pieces, for the pool as it is; 0: its launches run one after the other */
} hd_cpu_job;
typedef struct hd_cpu_chain_rows {
    uint32_t chain;
    int64_t begin, end; /* rows */
} hd_cpu_chain_rows;
typedef struct hd_cpu_piece {
    uint32_t part, part_count;         /* in parts */
    size_t workspace, workspace_bytes; /* memory that it works in, from here on */
    int64_t cost;
} hd_cpu_piece;
/* Where a launch is among those. */
typedef struct hd_cpu_position {
    uint32_t job;
    uint32_t chain; /* HD_NONE: it is alone in its job, and shares itself out */
    uint32_t next;  /* launch of the chain; HD_NONE */
} hd_cpu_position;

/* What the CPU has of a plan: plan->own. */
typedef struct hd_cpu_plan {
    hd_executor *executor;         /* of ops that are calls */
    hd_cpu_product_plan *products; /* phase 4; of each call */
    uint32_t *readers;      /* 4 to 6; two for each node: products that multiply by it, as it stands and transposed */
    hd_cpu_cut *cuts;       /* 6; of each native */
    hd_cpu_weight *weights; /* 6 */
    bool *is_packed;        /* of runs; for each constant: it is read nowhere but in its packed form */
    hd_cpu_position *positions; /* 7; of each launch */
    hd_cpu_job *jobs;           /* 7 */
    hd_cpu_chain *chains;       /* 7 */
    hd_cpu_piece *pieces;       /* of runs, for so many threads; and so is what follows */
    hd_cpu_chain_rows *parts;
    hd_block *workspace; /* memory that launches work in */
    int workspace_threads;
    uint32_t weight_count, job_count, chain_count;
} hd_cpu_plan;
static inline hd_cpu_plan *hd_cpu_plan_of(const hd_plan *p) { return p->own; }

/* ---- cpu_products.c ---- */
hd_error hd_cpu_plan_product(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group);
bool hd_cpu_product_can_fail(const hd_plan *p, const hd_launch *l);
bool hd_cpu_product_may_overwrite(const hd_plan *p, const hd_launch *l, uint32_t tensor);
/* True when a product whose result has this dtype can add the bias to its tiles without a kernel of its own: to
 * floats. */
static inline bool hd_cpu_adds_bias(const hd_tensor *bias, hd_dtype result) {
    return bias->contiguous && hd_dtype_is_float(result) && hd_cpu_product_reads(result, (hd_dtype)bias->dtype);
}
/* The product of a launch, as far as it is known before a run: of its weights only whether they will be packed. */
hd_product hd_cpu_product_of(const hd_plan *p, const hd_launch *l);

/* ---- cpu_weights.c ---- */
hd_error hd_cpu_count_readers(hd_plan *p);
/* True when a product keeps its second operand packed. `readers` are counted. */
bool hd_cpu_keeps_weight(const hd_plan *p, uint32_t node);
/* Finds the weights of all products, and constants that are read nowhere but there. */
hd_error hd_cpu_find_weights(hd_plan *p);
/* Packs those that are not what they were. */
hd_error hd_cpu_pack_weights(hd_plan *p, hd_thread *thread, const hd_run *run);
/* Forgets packed cells: the next run has other ones. */
void hd_cpu_forget_weights(hd_plan *p, hd_thread *thread);

/* ---- cpu_kernel.c ---- */
/* Decides how the space of a kernel is cut, from its sizes and what a point costs; sets the size of its slots. */
void hd_cpu_cut_kernel(hd_native *n, hd_cpu_cut *cut);
/* Bytes of memory that a kernel works in on all threads of the pool; one thread alone makes do with scratch_bytes. */
size_t hd_cpu_kernel_workspace(const hd_cpu_cut *cut);
/* Runs all of a kernel. `buffers` are addresses of first elements. */
void hd_cpu_run_kernel(const hd_plan_native *n, const hd_cpu_cut *cut, char *const *buffers, char *workspace,
                       size_t workspace_bytes);
/* Runs positions [begin, end) of the axis that threads share, on this thread, with scratch_bytes of memory. */
void hd_cpu_run_rows(const hd_plan_native *n, const hd_cpu_cut *cut, char *const *buffers, char *scratch, int64_t begin,
                     int64_t end);
/* Runs the part of it that begins at `begin` and is `size` large (along its kept axes), on this thread. `buffers` are
 * those of the whole, but for the tile: that is the part itself, its rows `stride` elements apart. */
void hd_cpu_run_tile(const hd_plan_native *n, char *const *buffers, const void *at, int64_t stride,
                     const int64_t *begin, const int64_t *size);

/* ---- cpu_jobs.c ---- */
hd_error hd_cpu_find_jobs(hd_plan_draft *d);
bool hd_cpu_uses_alone(const hd_plan *p, uint32_t index, uint32_t buffer);
/* What a kernel or a product costs one thread, in instructions on single elements. */
int64_t hd_cpu_cost(const hd_plan *p, const hd_launch *l);

/* ---- cpu_share.c ---- */
/* Cuts jobs into pieces for so many threads, and takes the memory to work in. */
hd_error hd_cpu_share_out(hd_plan *p, hd_thread *thread, int threads);
hd_error hd_cpu_run_job(const hd_plan *p, hd_thread *thread, const hd_cpu_job *job);

/* ---- cpu_run.c ---- */
hd_error hd_cpu_run(hd_plan *p, hd_thread *thread, const hd_run *run, uint32_t *done);
void hd_cpu_undo(const hd_plan *p, hd_thread *thread, uint32_t end);
hd_error hd_cpu_run_product(const hd_plan *p, hd_thread *thread, const hd_launch *l, char *workspace,
                            size_t workspace_bytes);
/* What computes rows of a product's first operand: a hd_product_prologue. */
void hd_cpu_compute_rows(void *context, void *out, int64_t row, int64_t rows);
/* Addresses of a kernel's buffers. */
hd_error hd_cpu_addresses(const hd_plan *p, hd_thread *thread, const hd_plan_native *n, char **out);

#endif
