/* Order on GPUs: sorting, searching, the largest and smallest with their indices, and scatter, which sorts what it is
 * told to write where, so that the same element is written by one thread, in the order of the source. */
#include "machine/gpu.h"

#include <string.h>

enum { THREADS = 64 };
typedef struct sort_arguments { /* as template_sort.h has it */
    int64_t offset[4];
    int64_t size, rows, inner, outer_stride, inner_stride, stride, width;
} sort_arguments;

/* ---- rows along an axis ------------------------------------------------------------------------------------------ */
static sort_arguments rows_of(const hd_shape *shape, int axis) {
    sort_arguments a = {.size = shape->rank == 0 ? 1 : shape->size[axis], .rows = 1, .inner = 1, .inner_stride = 1};
    for (int i = 0; i < shape->rank; ++i)
        if (i != axis) a.rows *= shape->size[i];
    for (int i = axis + 1; i < shape->rank; ++i) a.inner *= shape->size[i];
    a.stride = a.inner;
    a.outer_stride = a.size * a.inner;
    return a;
}

/* Keys and positions of rows that are in order: halves of two blocks, which take turns. */
typedef struct sorted {
    hd_block *keys, *positions;
    void *at_keys, *at_positions;
} sorted;
static void release_sorted(hd_thread *thread, sorted *s) {
    if (s->keys != NULL) hd_block_release(thread, s->keys);
    if (s->positions != NULL) hd_block_release(thread, s->positions);
}

static hd_error sort_rows(hd_thread *thread, const hd_gpu_device *d, const hd_template_use *use, void *x,
                          const sort_arguments *rows, sorted *out) {
    const size_t bytes = (size_t)(rows->rows * rows->size) * 8;
    sort_arguments a = *rows;
    out->keys = hd_gpu_workspace(thread, d, 2 * bytes);
    out->positions = out->keys == NULL ? NULL : hd_gpu_workspace(thread, d, 2 * bytes);
    if (out->positions == NULL) return thread->error_code;
    char *keys[2] = {out->keys->address, (char *)out->keys->address + bytes};
    char *positions[2] = {out->positions->address, (char *)out->positions->address + bytes};
    const uint32_t groups = hd_gpu_groups(a.rows * a.size, THREADS);
    if (groups == 0) return thread->error_code;
    hd_gpu_shot shot = {.use = use,
                        .function = "sort_keys",
                        .groups = {groups},
                        .threads = THREADS,
                        .buffers = {x, keys[0], positions[0]},
                        .buffer_count = 3,
                        .arguments = &a,
                        .argument_bytes = sizeof a};
    HD_TRY(hd_gpu_shoot(d, &shot));
    int from = 0;
    shot.function = "sort_merge";
    shot.buffer_count = 4;
    for (a.width = 1; a.width < a.size; a.width *= 2, from = 1 - from) {
        shot.buffers[0] = keys[from];
        shot.buffers[1] = positions[from];
        shot.buffers[2] = keys[1 - from];
        shot.buffers[3] = positions[1 - from];
        HD_TRY(hd_gpu_shoot(d, &shot));
    }
    out->at_keys = keys[from];
    out->at_positions = positions[from];
    return HD_OK;
}

/* ---- sort, topk -------------------------------------------------------------------------------------------------- */
/* The first `count` of each row, in order. Results that nobody wants are made all the same. */
static hd_error sort_into(hd_thread *thread, const hd_gpu_device *d, const hd_tensor *x, hd_tensor *const *outputs,
                          const sort_arguments *rows, int64_t count, bool descending) {
    const hd_template_use use = {
        .which = HD_TEMPLATE_sort, .types = {x->dtype}, .numbers = {THREADS, descending, 0 /* no positions */, 3}};
    hd_tensor *moved = NULL;
    sorted s = {NULL, NULL, NULL, NULL};
    void *from = hd_gpu_read(thread, d, x, &moved);
    hd_block *unwanted = outputs[1] != NULL ? NULL : hd_gpu_workspace(thread, d, (size_t)(rows->rows * count) * 8);
    hd_error status = from == NULL ? thread->error_code : sort_rows(thread, d, &use, from, rows, &s);
    sort_arguments a = *rows;
    a.width = count;
    hd_gpu_shot shot = {.use = &use,
                        .function = "sort_values",
                        .threads = THREADS,
                        .buffers = {from, s.at_positions, hd_gpu_written(thread, outputs[0]),
                                    outputs[1] != NULL ? hd_gpu_written(thread, outputs[1])
                                    : unwanted != NULL ? unwanted->address
                                                       : NULL},
                        .buffer_count = 4,
                        .arguments = &a,
                        .argument_bytes = sizeof a};
    if (status == HD_OK && (shot.buffers[2] == NULL || shot.buffers[3] == NULL)) status = thread->error_code;
    if (status == HD_OK && (shot.groups[0] = hd_gpu_groups(a.rows * count, THREADS)) == 0) status = thread->error_code;
    if (status == HD_OK) status = hd_gpu_shoot(d, &shot);
    release_sorted(thread, &s);
    if (unwanted != NULL) hd_block_release(thread, unwanted);
    hd_tensor_drop(thread, moved);
    return status;
}

static hd_error run_sort(hd_thread *thread, const hd_gpu_device *d, hd_call *call, int axis, int64_t count,
                         bool descending) {
    if (call->output_count == 1) call->outputs[1] = NULL;
    hd_tensor *x = hd_gpu_packed(thread, d, call->inputs[0]);
    if (x == NULL) return thread->error_code;
    hd_error status = hd_gpu_outputs(thread, d, call, true);
    if (status == HD_OK && hd_shape_count(call->shape[0]) > 0) {
        const sort_arguments rows = rows_of(&x->layout.shape, axis);
        status = hd_gpu_finish(thread, call, sort_into(thread, d, x, call->outputs, &rows, count, descending));
    }
    hd_tensor_drop(thread, x);
    return status;
}

hd_error hd_gpu_sort(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_sort_attributes *a = call->attributes;
    const hd_shape *shape = &call->inputs[0]->layout.shape;
    return run_sort(thread, d, call, a->axis, shape->rank == 0 ? 1 : shape->size[a->axis], a->descending);
}

hd_error hd_gpu_topk(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    const hd_topk_attributes *a = call->attributes;
    return run_sort(thread, d, call, a->axis, a->count, a->largest);
}

/* ---- search ------------------------------------------------------------------------------------------------------ */
static hd_error find_places(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, const hd_tensor *in_order,
                            const hd_tensor *values) {
    const hd_shape *rows = &in_order->layout.shape, *shape = &values->layout.shape;
    const bool shared = rows->rank == 1;
    const hd_template_use use = {.which = HD_TEMPLATE_sort, .types = {in_order->dtype}, .numbers = {THREADS, 0, 0, 3}};
    sort_arguments a = {.size = rows->size[rows->rank - 1],
                        .width = shared ? values->count : shape->size[shape->rank - 1],
                        .stride = ((const hd_searchsorted_attributes *)call->attributes)->right};
    a.rows = values->count / a.width;
    a.outer_stride = shared ? 0 : a.size;
    hd_tensor *moved[2] = {NULL, NULL};
    const hd_gpu_shot shot = {.use = &use,
                              .function = "sort_search",
                              .groups = {hd_gpu_groups(values->count, THREADS)},
                              .threads = THREADS,
                              .buffers = {hd_gpu_read(thread, d, in_order, &moved[0]),
                                          hd_gpu_read(thread, d, values, &moved[1]),
                                          hd_gpu_written(thread, call->outputs[0])},
                              .buffer_count = 3,
                              .arguments = &a,
                              .argument_bytes = sizeof a};
    const bool ready =
        shot.groups[0] > 0 && shot.buffers[0] != NULL && shot.buffers[1] != NULL && shot.buffers[2] != NULL;
    const hd_error status = ready ? hd_gpu_shoot(d, &shot) : thread->error_code;
    hd_tensor_drop(thread, moved[1]);
    hd_tensor_drop(thread, moved[0]);
    return status;
}

hd_error hd_gpu_searchsorted(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    hd_tensor *in_order = hd_gpu_packed(thread, d, call->inputs[0]),
              *values = in_order == NULL ? NULL : hd_gpu_packed(thread, d, call->inputs[1]);
    hd_error status = values == NULL ? thread->error_code : hd_gpu_outputs(thread, d, call, true);
    if (status == HD_OK && values->count > 0)
        status = hd_gpu_finish(thread, call, find_places(thread, d, call, in_order, values));
    hd_tensor_drop(thread, values);
    hd_tensor_drop(thread, in_order);
    return status;
}

/* ---- the largest and the smallest -------------------------------------------------------------------------------- */
static hd_error find_extremes(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, const hd_tensor *x,
                              int axis, bool largest, bool with_values) {
    hd_tensor *values = with_values ? call->outputs[0] : NULL, *indices = !with_values             ? call->outputs[0]
                                                                          : call->output_count > 1 ? call->outputs[1]
                                                                                                   : NULL;
    const hd_template_use use = {.which = HD_TEMPLATE_sort,
                                 .types = {x->dtype},
                                 .numbers = {THREADS, largest, 0, (values != NULL) + 2 * (indices != NULL)}};
    sort_arguments a = rows_of(&x->layout.shape, axis);
    hd_tensor *moved = NULL;
    hd_gpu_shot shot = {.use = &use,
                        .function = "sort_extreme",
                        .groups = {hd_gpu_groups(a.rows, 1)},
                        .threads = THREADS,
                        .buffers = {hd_gpu_read(thread, d, x, &moved)},
                        .buffer_count = 3,
                        .arguments = &a,
                        .argument_bytes = sizeof a};
    shot.buffers[1] = values != NULL ? hd_gpu_written(thread, values) : hd_gpu_written(thread, indices);
    shot.buffers[2] = indices != NULL ? hd_gpu_written(thread, indices) : shot.buffers[1];
    const bool ready =
        shot.groups[0] > 0 && shot.buffers[0] != NULL && shot.buffers[1] != NULL && shot.buffers[2] != NULL;
    const hd_error status = ready ? hd_gpu_shoot(d, &shot) : thread->error_code;
    hd_tensor_drop(thread, moved);
    return status;
}

static hd_error run_extreme(hd_thread *thread, const hd_gpu_device *d, hd_call *call, bool largest, bool with_values) {
    const hd_reduce_attributes *a = call->attributes;
    hd_tensor *x = hd_gpu_packed(thread, d, call->inputs[0]);
    if (x == NULL) return thread->error_code;
    int axis = 0;
    while (axis < x->layout.shape.rank - 1 && !a->reduced[axis]) ++axis;
    hd_error status = hd_gpu_outputs(thread, d, call, true);
    if (status == HD_OK && hd_shape_count(call->shape[0]) > 0)
        status = hd_gpu_finish(thread, call, find_extremes(thread, d, call, x, axis, largest, with_values));
    hd_tensor_drop(thread, x);
    return status;
}
#define EXTREME(name, largest, with_values)                                                                            \
    hd_error hd_gpu_##name(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {                                 \
        return run_extreme(thread, d, call, largest, with_values);                                                     \
    }
EXTREME(argmax, true, false)
EXTREME(argmin, false, false)
EXTREME(max_with_index, true, true)
EXTREME(min_with_index, false, true)

/* ---- scatter ----------------------------------------------------------------------------------------------------- */
typedef struct scatter_arguments { /* as template_scatter.h has it */
    int64_t offset[4];
    int64_t count, rank, axis, size, shared;
    int64_t sizes[8], source_stride[8], stride[8];
} scatter_arguments;
_Static_assert(HD_MAX_RANK <= 8, "a scatter has room for all axes");

static hd_error combine(hd_thread *thread, const hd_gpu_device *d, const hd_call *call, const sorted *s, bool shared) {
    const hd_scatter_attributes *attributes = call->attributes;
    hd_tensor *out = call->outputs[0], *source = call->inputs[2], *moved = NULL;
    const hd_shape *shape = &source->layout.shape;
    const hd_template_use use = {.which = HD_TEMPLATE_scatter,
                                 .types = {out->dtype},
                                 .numbers = {THREADS, (int32_t)attributes->mode - HD_SCATTER_SET}};
    scatter_arguments a = {.count = source->count,
                           .rank = shape->rank,
                           .axis = attributes->axis,
                           .size = shape->size[attributes->axis],
                           .shared = shared};
    for (int i = 0; i < shape->rank; ++i) {
        a.sizes[i] = shape->size[i];
        a.source_stride[i] = source->layout.stride[i];
        a.stride[i] = out->layout.stride[i];
    }
    const hd_gpu_shot shot = {
        .use = &use,
        .function = "scatter",
        .groups = {hd_gpu_groups(a.count, THREADS)},
        .threads = THREADS,
        .buffers = {s->at_keys, s->at_positions, hd_gpu_read(thread, d, source, &moved), hd_gpu_written(thread, out)},
        .buffer_count = 4,
        .arguments = &a,
        .argument_bytes = sizeof a};
    const bool ready = shot.groups[0] > 0 && shot.buffers[2] != NULL && shot.buffers[3] != NULL;
    const hd_error status = ready ? hd_gpu_shoot(d, &shot) : thread->error_code;
    hd_tensor_drop(thread, moved);
    return status;
}

/* Sorts the positions that an index names; axes behind the axis are left out when they say the same. */
static hd_error sort_positions(hd_thread *thread, const hd_gpu_device *d, hd_tensor *index, int axis, int64_t bound,
                               bool *shared, sorted *out) {
    hd_layout layout = index->layout;
    layout.shape = hd_positions_shape(index, axis);
    *shared = layout.shape.rank < index->layout.shape.rank;
    hd_tensor *first = hd_tensor_over(thread, index->storage, (hd_dtype)index->dtype, &layout), *moved = NULL;
    hd_tensor *packed = first == NULL ? NULL : hd_gpu_packed(thread, d, first);
    void *from = packed == NULL ? NULL : hd_gpu_read(thread, d, packed, &moved);
    const hd_template_use use = {
        .which = HD_TEMPLATE_sort, .types = {index->dtype}, .numbers = {THREADS, 0, 1 /* positions */, 3}};
    sort_arguments rows = rows_of(&layout.shape, axis);
    rows.width = bound;
    const hd_error status = from == NULL ? thread->error_code : sort_rows(thread, d, &use, from, &rows, out);
    hd_tensor_drop(thread, moved);
    hd_tensor_drop(thread, packed);
    hd_tensor_drop(thread, first);
    return status;
}

hd_error hd_gpu_scatter(hd_thread *thread, const hd_gpu_device *d, hd_call *call) {
    hd_tensor *x = call->inputs[0], *index = call->inputs[1];
    const int axis = ((const hd_scatter_attributes *)call->attributes)->axis;
    const int64_t bound = x->layout.shape.rank == 0 ? 1 : x->layout.shape.size[axis];
    bool beside = x->layout.shape.rank == 0, shared = false;
    if (index->count > 0 && !beside) HD_TRY(hd_gpu_any_beside(thread, index, bound, &beside));
    if (beside) return hd_gpu_by_copy(thread, d, call); /* which words the error */
    sorted s = {NULL, NULL, NULL, NULL};
    HD_TRY(hd_gpu_outputs(thread, d, call, false));
    hd_error status = hd_gpu_write((hd_executor *)(uintptr_t)&d->executor, thread, call->outputs[0], x);
    if (status == HD_OK && index->count > 0) status = sort_positions(thread, d, index, axis, bound, &shared, &s);
    if (status == HD_OK && index->count > 0) status = combine(thread, d, call, &s, shared);
    release_sorted(thread, &s);
    return hd_gpu_finish(thread, call, status);
}
