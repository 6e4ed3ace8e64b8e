/* Tiles: how any layout and dtype is brought before kernels that know only contiguous memory of one type. */
#ifndef HD_DEVICE_CPU_TILE_H
#define HD_DEVICE_CPU_TILE_H

#include "device/cpu/cpu.h"

enum { HD_TILE = 256, HD_MAX_OPERANDS = 4 };

/* Elements under an iteration space; strides in elements. */
typedef struct hd_operand {
    char *data;
    int64_t stride[HD_MAX_RANK];
    hd_dtype dtype;
} hd_operand;

typedef struct hd_space {
    int rank; /* at least 1 after hd_space_collapse */
    int64_t size[HD_MAX_RANK];
    int64_t count;
} hd_space;

/* Room for one operand's tile on its way: as it lies in memory, as f32, as the compute type. */
typedef struct hd_tile_workspace {
    _Alignas(64) char raw[HD_TILE * 8];
    _Alignas(64) float decoded[HD_TILE];
    _Alignas(64) char converted[HD_TILE * 8];
} hd_tile_workspace;

/* The operand over `shape`: strides 0 where it is stretched. */
void hd_operand_over(hd_operand *operand, char *data, const hd_tensor *t, const hd_shape *shape);
/* Merges axes that all operands walk as one, and drops those of size 1. */
void hd_space_collapse(hd_space *space, const hd_shape *shape, hd_operand *operands, int count);

/* n <= HD_TILE elements, `stride` apart, as compute type `to`: in place when that is what lies there. */
const void *hd_tile_load(const char *at, int64_t stride, int64_t n, hd_dtype dtype, hd_compute to,
                         hd_tile_workspace *workspace);
/* Elements `from` .. `from + n` of the space in row-major order, gathered across rows. */
const void *hd_tile_load_flat(const hd_operand *operand, const hd_space *space, int64_t from, int64_t n, hd_compute to,
                              hd_tile_workspace *workspace);
/* The other way: n elements of compute type `from` into memory. */
void hd_tile_store(char *at, int64_t stride, int64_t n, hd_dtype dtype, hd_compute from, const void *values,
                   hd_tile_workspace *workspace);

/* Coordinates of a linear index, and the offset of an operand there. */
void hd_space_locate(const hd_space *space, int64_t index, int64_t coordinate[HD_MAX_RANK]);
static inline int64_t hd_operand_offset(const hd_operand *o, const hd_space *space, const int64_t *coordinate) {
    int64_t offset = 0;
    for (int i = 0; i < space->rank; ++i) offset += coordinate[i] * o->stride[i];
    return offset;
}
/* Steps to the next row (all but the last axis); false at the end. */
static inline bool hd_space_next_row(const hd_space *space, int64_t *coordinate) {
    for (int i = space->rank - 2; i >= 0; --i) {
        if (++coordinate[i] < space->size[i]) return true;
        coordinate[i] = 0;
    }
    return false;
}

#endif
