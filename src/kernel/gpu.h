/* Kernels on GPUs: a grid beside the kernel says how its points are shared by threads; the text of both is written in a
 * dialect. The same kernel, grid and dialect give the same text, so that code is found again by their bytes. */
#ifndef HD_KERNEL_GPU_H
#define HD_KERNEL_GPU_H

#include "kernel/kernel.h"

typedef enum hd_dialect { HD_DIALECT_OPENCL, HD_DIALECT_CUDA, HD_DIALECT_METAL, HD_DIALECTS } hd_dialect;

typedef enum hd_grid_form {
    HD_GRID_EACH, /* a thread has a point of the kept axes, or `per` neighbours, and walks the reduced axes by itself */
    HD_GRID_GROUP /* a group of threads has a point, or `across` neighbours, and shares its walks */
} hd_grid_form;
typedef struct hd_grid {
    /* part of the text */
    uint8_t form;     /* hd_grid_form */
    uint8_t per;      /* EACH without reductions: neighbours along the last kept axis, read and written at once */
    uint8_t held;     /* GROUP: so many elements of a walk stay in a thread's registers; 0: later walks read again */
    bool narrow;      /* positions and offsets have 32 bits */
    bool wide_sums;   /* sums and products of f32 go on in f64 */
    uint8_t across;   /* GROUP: neighbouring points of a group, side by side in its threads; a power of two */
    uint8_t shared;   /* GROUP, across 1: so many threads exchange values without local memory; 0: none do */
    bool in_pieces;   /* the walk is cut: `parts` leave their results in memory, `join` folds them in order */
    uint16_t threads; /* of a group, a power of two */
    /* of a launch */
    uint32_t piece_count;
    int64_t points, reduced, groups; /* kept points (over per), points of a walk, groups of one piece */
} hd_grid;

/* What a choice depends on beside the kernel and its geometry. */
typedef struct hd_grid_limits {
    uint32_t processors, group_most;
    bool has_f64;
    uint8_t shared; /* threads of a group that exchange values without local memory; 0: none can */
} hd_grid_limits;

/* The grid of a scheduled kernel. `alignment`: a power of two that divides all its addresses, in bytes. */
hd_grid hd_grid_choose(const hd_kernel *k, const int64_t *geometry, int alignment, const hd_grid_limits *limits);
/* What a launch of it passes behind its buffers; NULL: only how many bytes that is. With pieces, the buffer of the
 * parts is the last one; it has hd_grid_part_bytes. */
size_t hd_grid_arguments(const hd_kernel *k, const hd_grid *g, const int64_t *geometry, const uint64_t *numbers,
                         void *out);
size_t hd_grid_part_bytes(const hd_kernel *k, const hd_grid *g);

/* One kernel of a program. */
typedef struct hd_gpu_kernel {
    const hd_kernel *kernel;
    hd_grid grid;
    const char *name; /* of its function; with pieces: <name>_parts and <name>_join */
} hd_gpu_kernel;
/* A whole program: the dialect, the words that its kernels use, and the kernels. Length as snprintf; 0 with an
 * error. */
size_t hd_render_gpu(const hd_gpu_kernel *kernels, int count, hd_dialect dialect, bool has_f64, char *out,
                     size_t capacity);

#endif
