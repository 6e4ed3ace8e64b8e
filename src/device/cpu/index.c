/* Indexing: gather, scatter, index_select. Indices are brought to i64 and checked once, before anything is written. */
#include "device/cpu/check_index.h"
#include "device/cpu/scatter_in_place.h"
#include "device/cpu/tile.h"

#include <stdatomic.h>
#include <string.h>

enum { GRAIN = 16384 };

/* The positions that an index names, in a tensor of `shape`; a new reference, NULL with an error that names the
 * place. */
static hd_tensor *ready_index(hd_thread *thread, hd_tensor *index, const hd_shape *shape, int64_t bound) {
    hd_tensor *ready = hd_tensor_new(thread, HD_I64, shape);
    if (ready == NULL || hd_cpu_find_positions(thread, ready, index, bound) == HD_OK) return ready;
    hd_tensor_drop(thread, ready);
    return NULL;
}

/* True when all lie in [-bound, bound), at one look; false also for dtypes that are rarely indices. */
static bool all_fit(const void *data, hd_dtype dtype, int64_t count, int64_t bound) {
    uint64_t beside = 0; /* of any: beyond the bound */
    if (dtype != HD_I64 && dtype != HD_I32) return false;
    for (int64_t i = 0; dtype == HD_I64 && i < count; ++i)
        beside |= (uint64_t)(((const int64_t *)data)[i] < -bound) | (uint64_t)(((const int64_t *)data)[i] >= bound);
    for (int64_t i = 0; dtype == HD_I32 && i < count; ++i)
        beside |= (uint64_t)(((const int32_t *)data)[i] < -bound) | (uint64_t)(((const int32_t *)data)[i] >= bound);
    return beside == 0;
}

hd_error hd_cpu_check_index(hd_thread *thread, hd_tensor *index, int axis, int64_t bound) {
    if (index->contiguous) {
        const void *data = hd_tensor_bytes(thread, index, HD_READ);
        if (data == NULL) return thread->error_code;
        if (all_fit(data, (hd_dtype)index->dtype, index->count, bound)) return HD_OK;
    }
    const hd_shape shape = hd_positions_shape(index, axis);
    hd_tensor *ready = ready_index(thread, index, &shape, bound);
    const bool ok = ready != NULL;
    hd_tensor_drop(thread, ready);
    return ok ? HD_OK : thread->error_code;
}

/* ---- index_select: whole slices ---------------------------------------------------------------------------------- */
typedef struct select_job {
    const char *from;
    char *to;
    const int64_t *index;
    int64_t count, size; /* indices, and the axis they select from */
    size_t slice;        /* bytes behind one index */
} select_job;

static const char *slice_of(const select_job *j, int64_t k) {
    return j->from + (size_t)(k / j->count * j->size + j->index[k % j->count]) * j->slice;
}

/* Asks for what is copied soon: long rows of a shuffled batch lie anywhere, and no processor foresees them. Short ones
 * it reads ahead by itself. */
enum { LINE = 64, LONG = 1024, MOST = 4096, AHEAD = 3 };
static void ask_for(const char *slice, size_t bytes) {
    for (size_t i = 0; i < bytes && i < MOST; i += LINE) __builtin_prefetch(slice + i);
}

static void run_select(void *context, int64_t begin, int64_t end) {
    const select_job *j = context;
    for (int64_t k = begin; k < end; ++k) {
        if (j->slice >= LONG && k + AHEAD < end) ask_for(slice_of(j, k + AHEAD), j->slice);
        memcpy(j->to + (size_t)k * j->slice, slice_of(j, k), j->slice);
    }
}

static hd_error index_select(hd_thread *thread, hd_call *call, const hd_tensor *index) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    hd_tensor *x = hd_cpu_ready(thread, call->inputs[0], (hd_dtype)call->inputs[0]->dtype), *out = call->outputs[0];
    if (x == NULL) return thread->error_code;
    const char *from = hd_tensor_bytes(thread, x, HD_READ);
    if (from != NULL && out->count > 0) {
        select_job j = {from,         out->storage->data,         index->storage->data,
                        index->count, x->layout.shape.size[axis], hd_dtype_bytes[x->dtype]};
        for (int i = axis + 1; i < x->layout.shape.rank; ++i) j.slice *= (size_t)x->layout.shape.size[i];
        const int64_t slices = out->count * hd_dtype_bytes[x->dtype] / (int64_t)j.slice,
                      grain = GRAIN * 4 / (int64_t)j.slice;
        hd_parallel_range(slices, grain > 0 ? grain : 1, run_select, &j);
    }
    hd_tensor_drop(thread, x);
    return thread->error_code;
}

/* ---- gather: one element per index, and scatter ------------------------------------------------------------------ */
/* Where element e of the index lies in x, on all axes but the indexed one. */
typedef struct element_job {
    hd_space space; /* of the index */
    int axis;
    int64_t stride[HD_MAX_RANK]; /* of x */
    int64_t bound;               /* the size of x along the axis */
    const void *index;           /* as it was given */
    bool is_i32;                 /* it is i32; else i64 */
    _Atomic bool is_beside;      /* some index is beyond the bound */
    const char *from;
    char *to;
    size_t bytes;
} element_job;

static int64_t place_of(const element_job *j, const int64_t *coordinate) {
    int64_t offset = 0;
    for (int i = 0; i < j->space.rank; ++i) offset += i == j->axis ? 0 : coordinate[i] * j->stride[i];
    return offset;
}

/* Indices are looked at in tiles, which are still in the first-level cache when their elements are gathered. */
enum { TILE = 1024 };

/* True when all lie in [0, bound): else one of the two terms has its sign, whose bit is kept. */
#define ALL_INSIDE(I, i, UNSIGNED, MOST)                                                                               \
    static bool all_inside_##i(const I *index, int64_t count, int64_t bound) {                                         \
        const UNSIGNED last = (UNSIGNED)(bound - 1 < MOST ? bound - 1 : MOST);                                         \
        UNSIGNED beside = 0;                                                                                           \
        for (int64_t e = 0; e < count; ++e) beside |= (UNSIGNED)index[e] | (last - (UNSIGNED)index[e]);                \
        return (I)beside >= 0;                                                                                         \
    }
ALL_INSIDE(int32_t, i32, uint32_t, INT32_MAX)
ALL_INSIDE(int64_t, i64, uint64_t, INT64_MAX)

/* A tile of a row of the index, along which x is walked with one stride; the first element for an index beyond the
 * bound. Returns whether there is one. */
#define GATHER_TILE(U, u, I, i)                                                                                        \
    static bool gather_tile_##u##_##i(U *restrict to, const U *from, const I *index, int64_t count, int64_t bound,     \
                                      int64_t along, int64_t step) {                                                   \
        bool is_beside = false;                                                                                        \
        if (all_inside_##i(index, count, bound)) {                                                                     \
            if (along == 0 && step == 1) {                                                                             \
                int64_t e = 0;                                                                                         \
                for (; e + 4 <= count; e += 4) { /* four loads under way before a store waits for one */               \
                    const U a = from[index[e]], b = from[index[e + 1]], c = from[index[e + 2]],                        \
                            d = from[index[e + 3]];                                                                    \
                    to[e] = a, to[e + 1] = b, to[e + 2] = c, to[e + 3] = d;                                            \
                }                                                                                                      \
                for (; e < count; ++e) to[e] = from[index[e]];                                                         \
            } else {                                                                                                   \
                for (int64_t e = 0; e < count; ++e) to[e] = from[e * along + index[e] * step];                         \
            }                                                                                                          \
            return false;                                                                                              \
        }                                                                                                              \
        for (int64_t e = 0; e < count; ++e) {                                                                          \
            const int64_t at = index[e] + (index[e] < 0 ? bound : 0);                                                  \
            const bool fits = (uint64_t)at < (uint64_t)bound;                                                          \
            is_beside |= !fits;                                                                                        \
            to[e] = from[e * along + (fits ? at : 0) * step];                                                          \
        }                                                                                                              \
        return is_beside;                                                                                              \
    }
#define GATHER_TILES(U, u) GATHER_TILE(U, u, int32_t, i32) GATHER_TILE(U, u, int64_t, i64)
GATHER_TILES(uint8_t, 1)
GATHER_TILES(uint16_t, 2)
GATHER_TILES(uint32_t, 4)
GATHER_TILES(uint64_t, 8)

static void run_gather(void *context, int64_t begin, int64_t end) {
    element_job *j = context;
    const int last = j->space.rank - 1;
    const int64_t along = last == j->axis ? 0 : j->stride[last], step = j->stride[j->axis];
    int64_t coordinate[HD_MAX_RANK];
    bool is_beside = false;
    hd_space_locate(&j->space, begin, coordinate);
    for (int64_t e = begin, run; e < end; e += run) { /* a row of the index at a time, or a tile of it */
        const int64_t left = j->space.size[last] - coordinate[last], base = place_of(j, coordinate);
        run = left < end - e ? left : end - e;
        if (run > TILE) run = TILE;
#define RUN(U, u)                                                                                                      \
    is_beside |= j->is_i32 ? gather_tile_##u##_i32((U *)j->to + e, (const U *)j->from + base,                          \
                                                   (const int32_t *)j->index + e, run, j->bound, along, step)          \
                           : gather_tile_##u##_i64((U *)j->to + e, (const U *)j->from + base,                          \
                                                   (const int64_t *)j->index + e, run, j->bound, along, step);         \
    break
        switch (j->bytes) {
        case 1: RUN(uint8_t, 1);
        case 2: RUN(uint16_t, 2);
        case 4: RUN(uint32_t, 4);
        default: RUN(uint64_t, 8);
        }
#undef RUN
        coordinate[last] += run;
        if (run < left) continue;
        coordinate[last] = 0;
        hd_space_next_row(&j->space, coordinate);
    }
    if (is_beside) atomic_store_explicit(&j->is_beside, true, memory_order_relaxed);
}

/* Indices are read as they are given: they are checked on the way. `*is_beside` says that one did not fit. */
static hd_error gather_elements(hd_thread *thread, hd_call *call, const hd_tensor *index, bool *is_beside) {
    const hd_tensor *x = call->inputs[0];
    element_job j = {.space = {.rank = index->layout.shape.rank, .count = index->count},
                     .axis = ((const hd_axis_attributes *)call->attributes)->axis,
                     .is_i32 = index->dtype == HD_I32,
                     .bytes = hd_dtype_bytes[x->dtype],
                     .to = call->outputs[0]->storage->data};
    memcpy(j.space.size, index->layout.shape.size, sizeof j.space.size);
    memcpy(j.stride, x->layout.stride, sizeof j.stride);
    j.bound = x->layout.shape.size[j.axis];
    j.index = hd_tensor_bytes(thread, index, HD_READ);
    j.from = hd_tensor_bytes(thread, x, HD_READ);
    if (j.index == NULL || j.from == NULL) return thread->error_code;
    if (x->count > 0) hd_parallel_range(index->count, GRAIN, run_gather, &j);
    *is_beside = j.is_beside || (x->count == 0 && index->count > 0);
    return HD_OK;
}

/* Small floats are combined in f32 and rounded once, at the end; written as they are. */
static hd_error scatter_elements(hd_thread *thread, hd_call *call, const hd_tensor *positions) {
    const hd_scatter_attributes *a = call->attributes;
    hd_tensor *out = call->outputs[0], *target = out, *source = NULL;
    const hd_dtype as =
        a->mode == HD_SCATTER_SET ? (hd_dtype)out->dtype : (hd_dtype)hd_compute_dtype[hd_dtype_compute[out->dtype]];
    hd_error status = HD_OK;
    if (as != (hd_dtype)out->dtype) target = hd_tensor_new(thread, as, &out->layout.shape);
    if (target != NULL) status = hd_cpu_copy(thread, target, call->inputs[0]);
    if (target != NULL && status == HD_OK) source = hd_cpu_ready(thread, call->inputs[2], as);
    if (source != NULL && hd_tensor_bytes(thread, source, HD_READ) != NULL) {
        hd_cpu_scatter_in_place(target, a->axis, a->mode, positions, source);
        if (target != out) status = hd_cpu_copy(thread, out, target);
    }
    hd_tensor_drop(thread, source);
    if (target != out) hd_tensor_drop(thread, target);
    return thread->error_code != HD_OK ? thread->error_code : status;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
typedef hd_error (*index_run)(hd_thread *thread, hd_call *call, const hd_tensor *positions);

/* Runs it with the positions that the index, of this shape, names along an axis. */
static hd_error run_with_positions(hd_thread *thread, hd_call *call, int axis, const hd_shape *shape, index_run run) {
    hd_tensor *positions = ready_index(thread, call->inputs[1], shape, call->inputs[0]->layout.shape.size[axis]);
    if (positions == NULL) return thread->error_code;
    hd_error status = hd_cpu_outputs(thread, call);
    if (status == HD_OK && (status = run(thread, call, positions)) != HD_OK) hd_cpu_drop_outputs(thread, call);
    hd_tensor_drop(thread, positions);
    return status;
}

hd_error hd_cpu_scatter(hd_thread *thread, hd_call *call) {
    const int axis = ((const hd_scatter_attributes *)call->attributes)->axis;
    const hd_shape shape = hd_positions_shape(call->inputs[1], axis);
    return run_with_positions(thread, call, axis, &shape, scatter_elements);
}

hd_error hd_cpu_index_select(hd_thread *thread, hd_call *call) {
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    return run_with_positions(thread, call, axis, &call->inputs[1]->layout.shape, index_select);
}

/* With positions that are known to fit. */
static hd_error gather_places(hd_thread *thread, hd_call *call, const hd_tensor *positions) {
    bool is_beside = false;
    return gather_elements(thread, call, positions, &is_beside);
}

/* An index that is not as gather reads it, or does not fit, goes the long way, which says where it does not. */
hd_error hd_cpu_gather(hd_thread *thread, hd_call *call) {
    hd_tensor *index = call->inputs[1];
    const int axis = ((const hd_axis_attributes *)call->attributes)->axis;
    if (index->contiguous && (index->dtype == HD_I64 || index->dtype == HD_I32)) {
        bool is_beside = false;
        if (call->given) /* what is there already changes only when all fit */
            HD_TRY(hd_cpu_check_index(thread, index, axis, call->inputs[0]->layout.shape.size[axis]));
        HD_TRY(hd_cpu_outputs(thread, call));
        const hd_error status = gather_elements(thread, call, index, &is_beside);
        if (status != HD_OK || is_beside) hd_cpu_drop_outputs(thread, call);
        if (!is_beside) return status;
    }
    return run_with_positions(thread, call, axis, &index->layout.shape, gather_places);
}
