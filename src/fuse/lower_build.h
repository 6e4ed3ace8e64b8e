/* A group on its way to a kernel: what lower.c and lower_draw.c share. */
#ifndef HD_FUSE_LOWER_BUILD_H
#define HD_FUSE_LOWER_BUILD_H

#include "fuse/lower.h"

enum { HD_LOWER_NUMBERS = HD_KERNEL_NUMBERS };

typedef struct access {
    uint32_t node; /* or HD_TILE_BUFFER */
    bool written;
    uint8_t dtype;
    int64_t stride[HD_MAX_RANK]; /* along the axes of the space */
} access;

/* How the elements of a draw are counted through while the space is walked. */
typedef struct draw_walk {
    int64_t first, stride[HD_MAX_RANK];
    int position; /* a step, once it is known; -1 */
} draw_walk;

typedef struct build {
    hd_lowering *l;
    const hd_group *group;
    access accesses[HD_KERNEL_BUFFERS];
    int access_count;
    bool counting; /* the first walk: only to know what is read and written */
    hd_kernel *k;
    uint64_t numbers[HD_LOWER_NUMBERS];
    int number_count;
    int row_axis;              /* of a product and its first operand: the axis of the rows of their tiles; else -1 */
    int axis_of[HD_MAX_RANK];  /* the kernel's axis of an axis of the space; -1: it has one point */
    bool indexed[HD_MAX_RANK]; /* axes whose positions count: they stay loops of their own */
    draw_walk walks[HD_KERNEL_DRAWS];
    int walk_count;
    const struct loops *loops; /* when they are known */
    int walk;                  /* the one along which values are recomputed now; -1 */
    hd_lowered *out;
} build;

typedef struct loops {
    int count, kept, lanes;
    int rows; /* of a product: the loop of a tile's rows; -1 before it is there */
    int64_t size[HD_KERNEL_AXES];
    int64_t stride[HD_KERNEL_BUFFERS][HD_KERNEL_AXES];
    int64_t walk[HD_KERNEL_DRAWS][HD_KERNEL_AXES]; /* of draws */
} loops;

/* lower.c. Steps of the kernel; -1 with an error. While only counting, all are 0. */
int hd_lower_number(build *b, hd_dtype dtype, double value);
/* A node as words, by how its row says that kernels have it; its axes are those of `axes`. */
int hd_lower_value(build *b, uint32_t node, const int8_t *axes);
/* A small float as if it had been in memory: rounded, unless it has been there. */
int hd_lower_rounded(build *b, uint32_t node, int step);
/* A number that all elements of a value are. */
int hd_lower_number_node(build *b, uint32_t node);
/* The buffer of a value that is read or written with these strides along the axes of the space. */
int hd_lower_access(build *b, uint32_t node, bool written, hd_dtype dtype, const int64_t *stride);
/* The strides of a value along the axes of the space, when its own axes are those of `axes`. */
void hd_lower_strides(const hd_layout *layout, const int8_t *axes, int64_t *out);

/* lower_draw.c: the elements of draws. */
int hd_lower_uniform(build *b, uint32_t node);
int hd_lower_normal(build *b, uint32_t node);
int hd_lower_randint(build *b, uint32_t node);
/* A value that the kernel recomputes, read through `in`, a view of it, whose axes are those of
 * `axes`. */
int hd_lower_recompute(build *b, uint32_t in, const int8_t *axes);
static inline bool hd_lower_recomputes(const build *b, uint32_t source) {
    return b->l->f->recompute[source] > 0 && b->l->f->group_of[source] == HD_NO_GROUP;
}

/* lower_joint.c: concatenations and paddings, read where their pieces lie. */
int hd_lower_concat(build *b, uint32_t node, const int8_t *axes);
int hd_lower_pad(build *b, uint32_t node, const int8_t *axes);

#endif
