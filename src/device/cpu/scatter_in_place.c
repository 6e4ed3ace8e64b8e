/* Taking and putting elements at indices, as many at a time as lie one behind the other on both sides. */
#include "device/cpu/scatter_in_place.h"
#include "device/cpu/tile.h"
#include "kernel/words_c.h"

#include <string.h>

hd_error hd_cpu_find_positions(hd_thread *thread, hd_tensor *positions, hd_tensor *index, int64_t bound) {
    int64_t apart = 1; /* how far the indices that are positions are from each other */
    for (int i = positions->layout.shape.rank; i < index->layout.shape.rank; ++i) apart *= index->layout.shape.size[i];
    hd_tensor first = *index; /* the elements with position 0 on the other axes */
    first.layout.shape = positions->layout.shape;
    first.count = positions->count;
    first.contiguous = hd_layout_is_contiguous(&first.layout);
    HD_TRY(hd_cpu_copy(thread, positions, &first));
    int64_t *v = positions->storage->data;
    const bool is_u64 = index->dtype == HD_U64; /* where what is negative as i64 is past INT64_MAX */
    for (int64_t i = 0; i < positions->count; ++i) {
        if (v[i] < (is_u64 ? 0 : -bound) || v[i] >= bound)
            return hd_fail(HD_ERROR_INDEX,
                           is_u64 ? "index %llu at place %lld of %s is out of range for an axis of size %lld"
                                  : "index %lld at place %lld of %s is out of range for an axis of size %lld",
                           (long long)v[i], (long long)(i * apart), HD_SHAPE_TEXT(index->layout.shape),
                           (long long)bound);
        v[i] += v[i] < 0 ? bound : 0;
    }
    return HD_OK;
}

/* Points of the index up to the axis where elements lie one behind the other. */
typedef struct walk {
    int rank, axis;
    int64_t size[HD_MAX_RANK];
    int64_t count, run;          /* points, and elements at each */
    int64_t behind;              /* points of one place */
    int64_t stride[HD_MAX_RANK]; /* of x */
    const int64_t *positions;
} walk;

static walk walk_over(const hd_tensor *x, const hd_shape *shape, int axis, const hd_tensor *positions) {
    walk w = {
        .rank = shape->rank, .axis = axis, .count = 1, .run = 1, .behind = 1, .positions = positions->storage->data};
    for (bool next = true; next && w.rank > positions->layout.shape.rank;) {
        next = shape->size[w.rank - 1] == x->layout.shape.size[w.rank - 1]; /* what is shorter ends the run */
        w.run *= shape->size[--w.rank];
    }
    for (int i = 0; i < w.rank; ++i) w.count *= w.size[i] = shape->size[i];
    for (int i = positions->layout.shape.rank; i < w.rank; ++i) w.behind *= w.size[i];
    memcpy(w.stride, x->layout.stride, sizeof w.stride);
    return w;
}

/* Where point number `e` lies in x; steps on. */
static int64_t next_place(const walk *w, int64_t e, int64_t *coordinate) {
    int64_t offset = w->positions[e / w->behind] * w->stride[w->axis];
    for (int i = 0; i < w->rank; ++i) offset += i == w->axis ? 0 : coordinate[i] * w->stride[i];
    for (int i = w->rank - 1; i >= 0; --i) {
        if (++coordinate[i] < w->size[i]) break;
        coordinate[i] = 0;
    }
    return offset;
}

void hd_cpu_take(hd_tensor *taken, const hd_tensor *x, int axis, const hd_tensor *positions) {
    const walk w = walk_over(x, &taken->layout.shape, axis, positions);
    const size_t bytes = hd_dtype_bytes[x->dtype], run = (size_t)w.run * bytes;
    int64_t coordinate[HD_MAX_RANK] = {0};
    for (int64_t e = 0; e < w.count; ++e)
        memcpy((char *)taken->storage->data + (size_t)e * run,
               (const char *)x->storage->data + (size_t)next_place(&w, e, coordinate) * bytes, run);
}

#define COMBINE(WORD)                                                                                                  \
    for (int64_t i = 0; i < count; ++i) at[i] = WORD(at[i], v[i]);                                                     \
    break
#define COMBINE_RUN(NAME, t)                                                                                           \
    case HD_COMPUTE_##NAME: {                                                                                          \
        c_##t *at = to;                                                                                                \
        const c_##t *v = from;                                                                                         \
        switch (mode) {                                                                                                \
        case HD_SCATTER_ADD: COMBINE(w_add_##t);                                                                       \
        case HD_SCATTER_MUL: COMBINE(w_mul_##t);                                                                       \
        case HD_SCATTER_MAX: COMBINE(w_max_##t);                                                                       \
        case HD_SCATTER_MIN: COMBINE(w_min_##t);                                                                       \
        case HD_SCATTER_SET: break;                                                                                    \
        }                                                                                                              \
        break;                                                                                                         \
    }
#define w_add_b8(a, b) ((a) | (b)) /* of bool: or, and */
#define w_mul_b8(a, b) ((a) & (b))
static void combine(hd_compute type, hd_scatter_mode mode, void *to, const void *from, int64_t count) {
    switch (type) {
        HD_COMPUTE_LIST(COMBINE_RUN)
    case HD_COMPUTE_COUNT: break;
    }
}

void hd_cpu_scatter_in_place(hd_tensor *x, int axis, hd_scatter_mode mode, const hd_tensor *positions,
                             const hd_tensor *source) {
    const walk w = walk_over(x, &source->layout.shape, axis, positions);
    const size_t bytes = hd_dtype_bytes[x->dtype], run = (size_t)w.run * bytes;
    const char *from = (const char *)source->storage->data + (size_t)source->layout.offset * bytes;
    int64_t coordinate[HD_MAX_RANK] = {0};
    for (int64_t e = 0; e < w.count; ++e, from += run) {
        char *to = (char *)x->storage->data + (size_t)next_place(&w, e, coordinate) * bytes;
        if (mode == HD_SCATTER_SET)
            memcpy(to, from, run);
        else
            combine((hd_compute)hd_dtype_compute[x->dtype], mode, to, from, w.run);
    }
}
