/* The loops of a kernel in LLVM IR: the kept axes, inside them one walk over the reduced axes for each stage. The axis
 * of the lanes goes in groups of k->schedule.width. */
#include "codegen/code.h"

#if HD_HAS_LLVM
#include "codegen/llvm_nest.h"
#include "core/memory.h"

#include <string.h>

#define BUILD(name, ...) hd_llvm.Build##name(e->builder, __VA_ARGS__, "")
typedef LLVMValueRef value;

/* ---- loops ------------------------------------------------------------------------------------------------------- */
typedef struct saved_place {
    value pointers[HD_KERNEL_BUFFERS], linear;
    hd_emitted_loop loop;
} saved_place;

static void enter_axis(hd_nest *n, int axis, value start, value limit, saved_place *saved) {
    hd_emitter *e = n->e;
    memcpy(saved->pointers, n->pointers, sizeof saved->pointers);
    saved->linear = n->linear;
    saved->loop = hd_emit_loop(e, start, limit);
    n->index[axis] = saved->loop.index;
    for (int b = 0; b < n->k->buffer_count; ++b) {
        if ((n->touched >> b & 1) == 0 || n->k->buffers[b].stride[axis] == HD_STRIDE_ZERO) continue;
        value step = n->k->buffers[b].stride[axis] == HD_STRIDE_ONE
                         ? n->index[axis]
                         : BUILD(NSWMul, n->index[axis], hd_nest_stride(n, b, axis));
        n->pointers[b] = hd_emit_element(e, hd_nest_element_type(n, b), n->pointers[b], step);
    }
    if (axis >= n->k->kept && n->k->schedule.slots > 0)
        n->linear = axis == n->k->kept ? n->index[axis]
                                       : BUILD(NSWAdd, BUILD(NSWMul, n->linear, n->sizes[axis]), n->index[axis]);
    if (axis != n->k->schedule.lanes) return;
    value rest = BUILD(Sub, n->sizes[axis], n->index[axis]), width = hd_emit_i64(e, n->k->schedule.width);
    n->full = BUILD(ICmp, LLVMIntSGE, rest, width);
    n->active = BUILD(Select, n->full, width, rest);
    n->in_lanes = true;
}

static void leave_axis(hd_nest *n, int axis, const saved_place *saved) {
    hd_emit_loop_end(n->e, &saved->loop, axis == n->k->schedule.lanes ? n->k->schedule.width : 1);
    memcpy(n->pointers, saved->pointers, sizeof saved->pointers);
    n->linear = saved->linear;
    if (axis == n->k->schedule.lanes) n->in_lanes = false;
}

static void walk_axis(hd_nest *n, int axis);

static void walk_stretch(hd_nest *n, int axis, value start, value limit) {
    saved_place saved;
    enter_axis(n, axis, start, limit, &saved);
    hd_nest_emit_steps(n, axis + 1);
    if (axis + 1 < n->k->axes)
        walk_axis(n, axis + 1);
    else
        hd_nest_accumulate(n);
    leave_axis(n, axis, &saved);
}

/* One reduced axis and those inside it; the innermost in stretches, when there are blocks. */
static void walk_axis(hd_nest *n, int axis) {
    hd_emitter *e = n->e;
    value zero = hd_emit_i64(e, 0), size = n->sizes[axis];
    if (axis + 1 < n->k->axes || !n->blocks) {
        walk_stretch(n, axis, zero, size);
        return;
    }
    const hd_schedule *s =
        &n->k->schedule; /* over several axes, whose innermost may be short, half as many are enough */
    const int most = s->form == HD_SCHEDULE_ROWS ? s->sum_points : s->sum_rows,
              block = n->pending < 0 ? most : most / 2;
    hd_emitted_loop stretches = hd_emit_loop(e, zero, size);
    value end = BUILD(NSWAdd, stretches.index, hd_emit_i64(e, block));
    value limit = BUILD(Select, BUILD(ICmp, LLVMIntSLT, end, size), end, size);
    walk_stretch(n, axis, stretches.index, limit);
    if (n->pending < 0)
        hd_nest_fold_blocks(n);
    else
        hd_nest_fold_blocks_when_due(n, BUILD(Sub, limit, stretches.index), block);
    hd_emit_loop_end(e, &stretches, (uint64_t)block);
}

/* What this walk computes inside the reduced axes, and which buffers it looks at. */
static void plan_walk(hd_nest *n) {
    const hd_kernel *k = n->k;
    n->touched = 0;
    memset(n->here, HD_NEST_NOT_HERE, (size_t)k->count);
    for (int i = k->count; i-- > 0;) {
        const hd_step *s = &k->steps[i];
        const bool ends = s->word == HD_STEP_REDUCE  ? s->stage == n->stage + 1
                          : s->word == HD_STEP_STORE ? s->depth > k->kept && s->stage == n->stage
                                                     : s->slot != 0 && s->stage == n->stage;
        if (s->word == HD_STEP_STORE && hd_nest_stores_next(n, s)) n->touched |= (uint64_t)1 << s->index;
        if (!ends && n->here[i] == HD_NEST_NOT_HERE) continue;
        if (s->word != HD_STEP_REDUCE && s->word != HD_STEP_STORE) {
            n->here[i] = s->slot != 0 && s->stage < n->stage ? HD_NEST_FROM_SLOT : HD_NEST_COMPUTED;
            if (n->here[i] == HD_NEST_FROM_SLOT) continue;
        }
        if (s->word == HD_STEP_LOAD || s->word == HD_STEP_STORE) n->touched |= (uint64_t)1 << s->index;
        for (int j = 0; j < 3; ++j)
            if (s->operand[j] >= 0 && k->steps[s->operand[j]].depth > k->kept)
                n->here[s->operand[j]] = HD_NEST_COMPUTED;
    }
}

static void walk_reduced_axes(hd_nest *n, int stage) {
    n->stage = stage;
    plan_walk(n);
    hd_nest_begin_reductions(n);
    if (n->k->axes > n->k->kept)
        walk_axis(n, n->k->kept);
    else
        hd_nest_accumulate(n);
    hd_nest_finish_reductions(n);
    n->stage = stage + 1;
}

static void walk_kept_axes(hd_nest *n, int depth) {
    n->stage = -1;
    hd_nest_emit_steps(n, depth);
    if (depth < n->k->kept) {
        saved_place saved;
        enter_axis(n, depth, hd_emit_i64(n->e, 0), n->sizes[depth], &saved);
        walk_kept_axes(n, depth + 1);
        leave_axis(n, depth, &saved);
        return;
    }
    for (int stage = 0; stage < n->k->stages; ++stage) {
        walk_reduced_axes(n, stage);
        hd_nest_emit_steps(n, depth);
    }
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */
static void begin_function(hd_nest *n) {
    hd_emitter *e = n->e;
    e->entry = hd_emit_block(e, "entry");
    LLVMBasicBlockRef begin = hd_emit_block(e, "begin");
    hd_emit_at(e, e->entry);
    hd_llvm.BuildBr(e->builder, begin);
    hd_emit_at(e, begin);
    for (int a = 0; a < n->k->axes; ++a) n->sizes[a] = hd_nest_geometry(n, a);
    for (int b = 0; b < n->k->buffer_count; ++b) n->pointers[b] = hd_emit_argument(e, 0, b, e->pointer);
    n->touched = UINT64_MAX;
}

/* Room for everything that is as long as the kernel, in one piece. */
static bool make_arrays(hd_nest *n, size_t count) {
    value *values = hd_array_resize(NULL, count * 10 * sizeof *values);
    n->values = values;
    n->accesses = hd_array_resize(NULL, count * 2 * sizeof *n->accesses);
    n->reductions = hd_array_resize(NULL, count * sizeof *n->reductions);
    n->met_by_vectors = hd_array_resize(NULL, count);
    n->here = hd_array_resize(NULL, count);
    if (values == NULL || n->accesses == NULL || n->reductions == NULL || n->met_by_vectors == NULL || n->here == NULL)
        return false;
    memset(values, 0, count * 10 * sizeof *values);
    memset(n->met_by_vectors, 0, count);
    memset(n->here, HD_NEST_NOT_HERE, count);
    n->splats = values + count;
    n->areas[0] = values + 2 * count;
    n->areas[1] = values + 3 * count;
    n->before = values + 4 * count;
    n->fixed = values + 6 * count;
    n->e->carried = values + 8 * count;
    return true;
}

hd_error hd_emit_kernel(hd_emitter *e) {
    hd_nest n = {.e = e, .k = e->k, .stage = -1, .pending = -1};
    if (make_arrays(&n, (size_t)e->k->count + 1)) {
        hd_nest_mark_splats(&n);
        begin_function(&n);
        walk_kept_axes(&n, 0);
        hd_llvm.BuildRetVoid(e->builder);
    } else {
        e->status = hd_fail(HD_ERROR_MEMORY, "no memory to compile a kernel of %d steps", e->k->count);
    }
    hd_array_release(n.values);
    hd_array_release(n.accesses);
    hd_array_release(n.reductions);
    hd_array_release(n.met_by_vectors);
    hd_array_release(n.here);
    return e->status;
}
#endif
