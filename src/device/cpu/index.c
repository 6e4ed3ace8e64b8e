/* Indexing: gather, scatter, index_select. Indices are brought to i64 and checked once, before anything is written. */
#include "device/cpu/check_index.h"
#include "device/cpu/tile.h"
#include "kernel/words_c.h"

#include <string.h>

enum { GRAIN = 16384 };

/* The index as contiguous i64 in [0, bound); a new reference, NULL with an error that names the place. */
static hd_tensor *ready_index(hd_thread *thread, hd_tensor *index, int64_t bound) {
    hd_tensor *ready = hd_tensor_new(thread, HD_I64, &index->layout.shape);
    if (ready == NULL) return NULL;
    hd_error status = hd_cpu_copy(thread, ready, index);
    int64_t *v = ready->storage->data;
    const bool is_u64 = index->dtype == HD_U64; /* where what is negative as i64 is past INT64_MAX */
    for (int64_t i = 0; i < ready->count && status == HD_OK; ++i) {
        if (v[i] < (is_u64 ? 0 : -bound) || v[i] >= bound)
            status = hd_fail(HD_ERROR_INDEX,
                             is_u64 ? "index %llu at place %lld of %s is out of range for an axis of size %lld"
                                    : "index %lld at place %lld of %s is out of range for an axis of size %lld",
                             (long long)v[i], (long long)i, HD_SHAPE_TEXT(index->layout.shape), (long long)bound);
        v[i] += v[i] < 0 ? bound : 0;
    }
    if (status == HD_OK) return ready;
    hd_tensor_drop(thread, ready);
    return NULL;
}

hd_error hd_cpu_check_index(hd_thread *thread, hd_tensor *index, int64_t bound) {
    hd_tensor *ready = ready_index(thread, index, bound);
    hd_tensor_drop(thread, ready);
    return ready == NULL ? thread->error_code : HD_OK;
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

/* ---- gather and scatter: one element per index --------------------------------------------------------------------------- */
/* Where element e of the index lies in x, on all axes but the indexed one. */
typedef struct element_job {
    hd_space space; /* of the index */
    int axis;
    int64_t stride[HD_MAX_RANK]; /* of x, or of the result of a scatter */
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

static void step(const hd_space *space, int64_t *coordinate) {
    for (int i = space->rank - 1; i >= 0; --i) {
        if (++coordinate[i] < space->size[i]) return;
        coordinate[i] = 0;
    }
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

/* One after the other in index order, so that duplicates have one meaning. */
#define SCATTER_CASE(NAME, t)                                                                                          \
    case HD_COMPUTE_##NAME: {                                                                                          \
        c_##t *at = (c_##t *)j->to + place;                                                                            \
        const c_##t v = ((const c_##t *)j->from)[e];                                                                   \
        *at = mode == HD_SCATTER_ADD   ? COMBINE_ADD(t, *at, v)                                                        \
              : mode == HD_SCATTER_MUL ? COMBINE_MUL(t, *at, v)                                                        \
              : mode == HD_SCATTER_MAX ? w_max_##t(*at, v)                                                             \
              : mode == HD_SCATTER_MIN ? w_min_##t(*at, v)                                                             \
                                       : v;                                                                            \
        break;                                                                                                         \
    }
#define w_add_b8(a, b)       ((a) | (b)) /* of bool: or, and */
#define w_mul_b8(a, b)       ((a) & (b))
#define COMBINE_ADD(t, a, b) w_add_##t(a, b)
#define COMBINE_MUL(t, a, b) w_mul_##t(a, b)
static void run_scatter(const element_job *j, hd_compute type, hd_scatter_mode mode) {
    int64_t coordinate[HD_MAX_RANK] = {0};
    for (int64_t e = 0; e < j->space.count; ++e, step(&j->space, coordinate)) {
        const int64_t place = place_of(j, coordinate, j->index[e]);
        switch (type) {
            HD_COMPUTE_LIST(SCATTER_CASE)
        case HD_COMPUTE_COUNT: break;
        }
    }
}

/* Small floats are combined in f32 and rounded once, at the end. */
static hd_error scatter(hd_thread *thread, hd_call *call, const hd_tensor *index) {
    const hd_scatter_attributes *a = call->attributes;
    hd_tensor *out = call->outputs[0], *target = out, *source = NULL;
    const hd_compute type = (hd_compute)hd_dtype_compute[out->dtype];
    const hd_dtype as = (hd_dtype)hd_compute_dtype[type];
    hd_error status = HD_OK;
    if (as != (hd_dtype)out->dtype) target = hd_tensor_new(thread, as, &out->layout.shape);
    if (target != NULL) status = hd_cpu_copy(thread, target, call->inputs[0]);
    if (target != NULL && status == HD_OK) source = hd_cpu_ready(thread, call->inputs[2], as);
    const char *from = source != NULL ? hd_tensor_bytes(thread, source, HD_READ) : NULL;
    if (from != NULL) {
        element_job j;
        describe(&j, target, index, a->axis);
        j.from = from;
        j.to = target->storage->data;
        run_scatter(&j, type, a->mode);
        if (target != out) status = hd_cpu_copy(thread, out, target);
    }
    hd_tensor_drop(thread, source);
    if (target != out) hd_tensor_drop(thread, target);
    return thread->error_code != HD_OK ? thread->error_code : status;
}

hd_error hd_cpu_index(hd_thread *thread, hd_call *call) {
    const int axis = call->op->id == HD_OP_scatter ? ((const hd_scatter_attributes *)call->attributes)->axis
                                                   : ((const hd_axis_attributes *)call->attributes)->axis;
    hd_tensor *index = ready_index(thread, call->inputs[1], call->inputs[0]->layout.shape.size[axis]);
    if (index == NULL) return thread->error_code;
    hd_error status = hd_cpu_outputs(thread, call);
    if (status == HD_OK) {
        status = call->op->id == HD_OP_scatter  ? scatter(thread, call, index)
                 : call->op->id == HD_OP_gather ? gather(thread, call, index)
                                                : index_select(thread, call, index);
        if (status != HD_OK) hd_cpu_drop_outputs(thread, call);
    }
    hd_tensor_drop(thread, index);
    return status;
}
