/* Indexing: gather, scatter, index_select. Indices are brought to i64 and checked once, before anything is written. */
#include "device/cpu/check_index.h"
#include "device/cpu/put.h"
#include "device/cpu/tile.h"

#include <string.h>

enum { GRAIN = 16384 };

/* The places that an index names, in a tensor of `shape`; a new reference, NULL with an error that names the place. */
static hd_tensor *ready_index(hd_thread *thread, hd_tensor *index, const hd_shape *shape, int64_t bound) {
    hd_tensor *ready = hd_tensor_new(thread, HD_I64, shape);
    if (ready == NULL || hd_cpu_find_places(thread, ready, index, bound) == HD_OK) return ready;
    hd_tensor_drop(thread, ready);
    return NULL;
}

/* That all lie in [-bound, bound), at one look; false also for dtypes that are rarely indices. */
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
    const hd_shape shape = hd_cpu_places_shape(index, axis);
    hd_tensor *ready = ready_index(thread, index, &shape, bound);
    const bool ok = ready != NULL;
    hd_tensor_drop(thread, ready);
    return ok ? HD_OK : thread->error_code;
}

/* ---- index_select: whole slices ---------------------------------------------------------------------------------------- */
typedef struct select_job {
    const char *from;
    char *to;
    const int64_t *index;
    int64_t count, size; /* indices, and the axis they select from */
    size_t slice;        /* bytes behind one index */
} select_job;

static void run_select(void *context, int64_t begin, int64_t end) {
    const select_job *j = context;
    for (int64_t k = begin; k < end; ++k)
        memcpy(j->to + (size_t)k * j->slice,
               j->from + (size_t)(k / j->count * j->size + j->index[k % j->count]) * j->slice, j->slice);
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

/* ---- gather: one element per index, and scatter ---------------------------------------------------------------------------- */
/* Where element e of the index lies in x, on all axes but the indexed one. */
typedef struct element_job {
    hd_space space; /* of the index */
    int axis;
    int64_t stride[HD_MAX_RANK]; /* of x */
    const int64_t *index;
    const char *from;
    char *to;
    size_t bytes;
} element_job;

static void describe(element_job *j, const hd_tensor *over, const hd_tensor *index, int axis) {
    j->space.rank = index->layout.shape.rank;
    j->space.count = index->count;
    memcpy(j->space.size, index->layout.shape.size, sizeof j->space.size);
    memcpy(j->stride, over->layout.stride, sizeof j->stride);
    j->axis = axis;
    j->index = index->storage->data;
    j->bytes = hd_dtype_bytes[over->dtype];
}

static int64_t place_of(const element_job *j, const int64_t *coordinate, int64_t index) {
    int64_t place = index * j->stride[j->axis];
    for (int i = 0; i < j->space.rank; ++i) place += i == j->axis ? 0 : coordinate[i] * j->stride[i];
    return place;
}

/* A row of the index at a time: along it, x is walked with one stride (0 when the row is the indexed axis). */
static void run_gather(void *context, int64_t begin, int64_t end) {
    const element_job *j = context;
    const int last = j->space.rank - 1;
    const int64_t along = last == j->axis ? 0 : j->stride[last], step_index = j->stride[j->axis];
    int64_t coordinate[HD_MAX_RANK];
    hd_space_locate(&j->space, begin, coordinate);
    for (int64_t e = begin; e < end;) {
        const int64_t left = j->space.size[last] - coordinate[last], run = left < end - e ? left : end - e;
        const int64_t *index = j->index + e;
        const int64_t base = place_of(j, coordinate, 0);
#define GATHER_ROW(U)                                                                                                  \
    for (int64_t i = 0; i < run; ++i)                                                                                  \
        ((U *)j->to)[e + i] = ((const U *)j->from)[base + i * along + index[i] * step_index];                          \
    break
        switch (j->bytes) {
        case 1: GATHER_ROW(uint8_t);
        case 2: GATHER_ROW(uint16_t);
        case 4: GATHER_ROW(uint32_t);
        default: GATHER_ROW(uint64_t);
        }
#undef GATHER_ROW
        e += run;
        coordinate[last] = 0;
        hd_space_next_row(&j->space, coordinate);
    }
}

static hd_error gather(hd_thread *thread, hd_call *call, const hd_tensor *index) {
    element_job j;
    describe(&j, call->inputs[0], index, ((const hd_axis_attributes *)call->attributes)->axis);
    j.from = hd_tensor_bytes(thread, call->inputs[0], HD_READ);
    j.to = call->outputs[0]->storage->data;
    if (j.from == NULL) return thread->error_code;

    hd_parallel_range(index->count, GRAIN, run_gather, &j);
    return HD_OK;
}

/* Small floats are combined in f32 and rounded once, at the end; written as they are. */
static hd_error scatter(hd_thread *thread, hd_call *call, const hd_tensor *places) {
    const hd_scatter_attributes *a = call->attributes;
    hd_tensor *out = call->outputs[0], *target = out, *source = NULL;
    const hd_dtype as =
        a->mode == HD_SCATTER_SET ? (hd_dtype)out->dtype : (hd_dtype)hd_compute_dtype[hd_dtype_compute[out->dtype]];
    hd_error status = HD_OK;
    if (as != (hd_dtype)out->dtype) target = hd_tensor_new(thread, as, &out->layout.shape);
    if (target != NULL) status = hd_cpu_copy(thread, target, call->inputs[0]);
    if (target != NULL && status == HD_OK) source = hd_cpu_ready(thread, call->inputs[2], as);
    if (source != NULL && hd_tensor_bytes(thread, source, HD_READ) != NULL) {
        hd_cpu_put(target, a->axis, a->mode, places, source);
        if (target != out) status = hd_cpu_copy(thread, out, target);
    }
    hd_tensor_drop(thread, source);
    if (target != out) hd_tensor_drop(thread, target);
    return thread->error_code != HD_OK ? thread->error_code : status;
}

hd_error hd_cpu_index(hd_thread *thread, hd_call *call) {
    const bool scatters = call->op->id == HD_OP_scatter;
    const int axis = scatters ? ((const hd_scatter_attributes *)call->attributes)->axis
                              : ((const hd_axis_attributes *)call->attributes)->axis;
    const hd_shape shape = scatters ? hd_cpu_places_shape(call->inputs[1], axis) : call->inputs[1]->layout.shape;
    hd_tensor *index = ready_index(thread, call->inputs[1], &shape, call->inputs[0]->layout.shape.size[axis]);
    if (index == NULL) return thread->error_code;
    hd_error status = hd_cpu_outputs(thread, call);
    if (status == HD_OK) {
        status = scatters                       ? scatter(thread, call, index)
                 : call->op->id == HD_OP_gather ? gather(thread, call, index)
                                                : index_select(thread, call, index);
        if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    }
    hd_tensor_drop(thread, index);
    return status;
}
