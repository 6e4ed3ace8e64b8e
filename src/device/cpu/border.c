/* Filling a border row by row: rows that are all border, and the ends of the others. */
#include "device/cpu/border.h"
#include "device/cpu/tile.h"

#include <string.h>

enum { GRAIN = 16384 };

typedef struct border_job {
    hd_space space; /* of the result */
    int64_t stride[HD_MAX_RANK];
    int64_t begin[HD_MAX_RANK], end[HD_MAX_RANK]; /* what the border surrounds */
    char *to;
    size_t bytes;
    uint64_t element;
} border_job;

static void fill(const border_job *j, int64_t from, int64_t count) {
#define FILL(U)                                                                                                        \
    for (int64_t i = 0; i < count; ++i) ((U *)j->to)[from + i] = (U)j->element;                                        \
    break
    switch (j->bytes) {
    case 1: FILL(uint8_t);
    case 2: FILL(uint16_t);
    case 4: FILL(uint32_t);
    default: FILL(uint64_t);
    }
#undef FILL
}

static void fill_rows(void *context, int64_t begin, int64_t end) {
    const border_job *j = context;
    const int last = j->space.rank - 1;
    const int64_t size = j->space.size[last];
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(&j->space, begin * size, coordinate);
    for (int64_t row = begin; row < end; ++row, hd_space_next_row(&j->space, coordinate)) {
        int64_t at = 0;
        bool inside = true;
        for (int i = 0; i < last; ++i) {
            at += coordinate[i] * j->stride[i];
            inside = inside && coordinate[i] >= j->begin[i] && coordinate[i] < j->end[i];
        }
        if (!inside) {
            fill(j, at, size);
            continue;
        }
        fill(j, at, j->begin[last]);
        fill(j, at + j->end[last], size - j->end[last]);
    }
}

hd_error hd_cpu_fill_border(hd_thread *thread, hd_tensor *out, const hd_pad_attributes *a) {
    const hd_shape *shape = &out->layout.shape;
    border_job j = {.space = {.rank = shape->rank, .count = out->count}, .bytes = hd_dtype_bytes[out->dtype]};
    if (out->count == 0 || shape->rank == 0) return HD_OK;
    memcpy(j.space.size, shape->size, sizeof j.space.size);
    memcpy(j.stride, out->layout.stride, sizeof j.stride);
    bool empty = false; /* padding that cuts off may leave nothing to surround */
    for (int i = 0; i < shape->rank; ++i) {
        j.begin[i] = a->padding[i].before > 0 ? a->padding[i].before : 0;
        j.end[i] = shape->size[i] - (a->padding[i].after > 0 ? a->padding[i].after : 0);
        empty = empty || j.begin[i] >= j.end[i];
    }
    for (int i = 0; empty && i < shape->rank; ++i) j.begin[i] = j.end[i] = shape->size[i];
    j.to = hd_tensor_bytes(thread, out, HD_READ);
    if (j.to == NULL) return thread->error_code;
    hd_element_from_f64(&j.element, (hd_dtype)out->dtype, a->value);
    const int64_t size = shape->size[shape->rank - 1], grain = GRAIN / size;
    hd_parallel_range(out->count / size, grain > 0 ? grain : 1, fill_rows, &j);
    return HD_OK;
}
