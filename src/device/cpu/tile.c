/* Tiles: gathering, decoding and converting a few hundred elements at a time, in cache. */
#include "device/cpu/tile.h"

#include <string.h>

void hd_operand_over(hd_operand *operand, char *data, const hd_tensor *t, const hd_shape *shape) {
    operand->data = data;
    operand->dtype = (hd_dtype)t->dtype;
    hd_layout_broadcast(&t->layout, shape, operand->stride);
}

void hd_space_collapse(hd_space *space, const hd_shape *shape, hd_operand *operands, int count) {
    int rank = 0;
    space->count = 1;
    for (int i = 0; i < shape->rank; ++i) {
        space->count *= shape->size[i];
        if (shape->size[i] == 1) continue;
        bool merge = rank > 0;
        for (int k = 0; k < count && merge; ++k)
            merge = operands[k].stride[rank - 1] == operands[k].stride[i] * shape->size[i];
        if (merge) {
            space->size[rank - 1] *= shape->size[i];
        } else {
            space->size[rank] = shape->size[i];
            rank++;
        }
        for (int k = 0; k < count; ++k) operands[k].stride[rank - 1] = operands[k].stride[i];
    }
    if (rank == 0) {
        space->size[0] = 1;
        rank = 1;
        for (int k = 0; k < count; ++k) operands[k].stride[0] = 1;
    }
    space->rank = rank;
}

void hd_space_locate(const hd_space *space, int64_t index, int64_t coordinate[HD_MAX_RANK]) {
    for (int i = space->rank - 1; i >= 0; --i) {
        const int64_t size = space->size[i] > 0 ? space->size[i] : 1; /* of an empty space: its beginning */
        coordinate[i] = index % size;
        index /= size;
    }
}

/* ---- gathering bytes -------------------------------------------------------------------------------------------- */
#define GATHER(U)                                                                                                      \
    {                                                                                                                  \
        U *restrict o = (U *)out;                                                                                      \
        const U *restrict p = (const U *)at;                                                                           \
        if (stride == 0)                                                                                               \
            for (int64_t i = 0; i < n; ++i) o[i] = p[0];                                                               \
        else if (stride == 1)                                                                                          \
            for (int64_t i = 0; i < n; ++i) o[i] = p[i];                                                               \
        else                                                                                                           \
            for (int64_t i = 0; i < n; ++i) o[i] = p[i * stride];                                                      \
        break;                                                                                                         \
    }
static void gather_tile(char *out, const char *at, int64_t stride, int64_t n, size_t bytes) {
    switch (bytes) {
    case 1: GATHER(uint8_t)
    case 2: GATHER(uint16_t)
    case 4: GATHER(uint32_t)
    default: GATHER(uint64_t)
    }
}
#undef GATHER

#define SCATTER(U)                                                                                                     \
    {                                                                                                                  \
        U *restrict o = (U *)at;                                                                                       \
        const U *restrict p = (const U *)values;                                                                       \
        for (int64_t i = 0; i < n; ++i) o[i * stride] = p[i];                                                          \
        break;                                                                                                         \
    }
static void scatter_tile(char *at, int64_t stride, int64_t n, size_t bytes, const void *values) {
    switch (bytes) {
    case 1: SCATTER(uint8_t)
    case 2: SCATTER(uint16_t)
    case 4: SCATTER(uint32_t)
    default: SCATTER(uint64_t)
    }
}
#undef SCATTER

/* ---- types ------------------------------------------------------------------------------------------------------ */
static const void *to_compute(const void *raw, int64_t n, hd_dtype dtype, hd_compute to, hd_tile_workspace *workspace) {
    hd_compute from = (hd_compute)hd_dtype_compute[dtype];
    if (hd_dtype_is_small_float(dtype)) {
        hd_kernels()->decode[dtype](workspace->decoded, raw, n);
        raw = workspace->decoded;
    }
    if (from == to) return raw;
    hd_kernels()->convert[from][to](workspace->converted, raw, n);
    return workspace->converted;
}

const void *hd_tile_load(const char *at, int64_t stride, int64_t n, hd_dtype dtype, hd_compute to,
                         hd_tile_workspace *workspace) {
    const void *raw = at;
    if (stride != 1) {
        gather_tile(workspace->raw, at, stride, n, hd_dtype_bytes[dtype]);
        raw = workspace->raw;
    }
    return to_compute(raw, n, dtype, to, workspace);
}

const void *hd_tile_load_flat(const hd_operand *o, const hd_space *space, int64_t from, int64_t n, hd_compute to,
                              hd_tile_workspace *workspace) {
    const size_t bytes = hd_dtype_bytes[o->dtype];
    const int last = space->rank - 1;
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(space, from, coordinate);
    for (int64_t done = 0; done < n;) {
        const int64_t left = space->size[last] - coordinate[last], run = n - done < left ? n - done : left;
        gather_tile(workspace->raw + (size_t)done * bytes,
                    o->data + hd_operand_offset(o, space, coordinate) * (int64_t)bytes, o->stride[last], run, bytes);
        done += run;
        coordinate[last] = 0;
        hd_space_next_row(space, coordinate);
    }
    return to_compute(workspace->raw, n, o->dtype, to, workspace);
}

void hd_tile_store(char *at, int64_t stride, int64_t n, hd_dtype dtype, hd_compute from, const void *values,
                   hd_tile_workspace *workspace) {
    const hd_cpu_kernels *k = hd_kernels();
    const hd_compute to = (hd_compute)hd_dtype_compute[dtype];
    if (hd_dtype_is_small_float(dtype)) {
        if (from != HD_COMPUTE_F32) {
            (k->sticky[from] != NULL ? k->sticky[from] : k->convert[from][HD_COMPUTE_F32])(workspace->decoded, values,
                                                                                           n);
            values = workspace->decoded;
        }
        void *encoded = stride == 1 ? (void *)at : workspace->raw;
        k->encode[dtype](encoded, values, n);
        if (stride != 1) scatter_tile(at, stride, n, hd_dtype_bytes[dtype], encoded);
        return;
    }
    if (from != to) {
        void *converted = stride == 1 ? (void *)at : workspace->converted;
        k->convert[from][to](converted, values, n);
        if (stride != 1) scatter_tile(at, stride, n, hd_dtype_bytes[dtype], converted);
    } else if (stride != 1) {
        scatter_tile(at, stride, n, hd_dtype_bytes[dtype], values);
    } else if (values != at) {
        memcpy(at, values, (size_t)n * hd_dtype_bytes[dtype]);
    }
}
