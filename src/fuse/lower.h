/* Lowering: a group of nodes as a kernel. */
#ifndef HD_FUSE_LOWER_H
#define HD_FUSE_LOWER_H

#include "fuse/fuse.h"
#include "kernel/kernel.h"
#include "ops/row_ir.h"

/* A kernel bound to sizes, strides and numbers; only code and addresses are missing. */
typedef struct hd_native {
    hd_kernel shape;
    int64_t *geometry; /* see kernel.h; that of its scratch slots is set by whoever runs it */
    uint64_t *numbers;
    int operations; /* at a point of its space: the cost of its words */
} hd_native;
void hd_native_release(hd_native *n);

#define HD_TILE_BUFFER UINT32_MAX /* in `nodes`: the part of a product that is in cache, or of its first operand */

/* Draws of a kernel: the numbers that are their ordinals, which each run counts from where it begins. */
enum { HD_KERNEL_DRAWS = 64 };
typedef struct hd_lowered_draw {
    uint32_t number, ordinal;
} hd_lowered_draw;

/* A kernel with what its buffers are. */
typedef struct hd_lowered {
    hd_native native;
    uint32_t nodes[HD_KERNEL_BUFFERS]; /* the node whose value each buffer is */
    hd_lowered_draw draws[HD_KERNEL_DRAWS];
    int draw_count;
    int seed; /* the number that is the seed of all draws */
    int rows; /* of a product, or its first operand: the kernel's axis of a tile's rows; those behind it are columns */
} hd_lowered;

/* What lowering a graph shares between its kernels. */
typedef struct hd_lowering {
    const hd_graph *g;
    const hd_fusion *f;
    const hd_tensor
        *tensors;   /* of each node that is in memory, and of each view that a kernel reads: their layouts count */
    int32_t *value; /* of each node: its step in the kernel under way */
    hd_row_irs rows;
} hd_lowering;

hd_error hd_lowering_begin(hd_lowering *l, const hd_graph *g, const hd_fusion *f, const hd_tensor *tensors);
void hd_lowering_end(hd_lowering *l);
/* The kernel of a group, ready to be compiled. */
hd_error hd_lower(hd_lowering *l, const hd_group *group, hd_lowered *out);

#endif
