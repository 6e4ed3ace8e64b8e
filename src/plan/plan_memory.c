/* The memory of a plan. Values that live during a run lie in one arena, shared by those that do not live at the same
 * time; a kernel may write a result over what it reads for the last time. The new value of state is written over the
 * old one where nothing can fail any more. */
#include "core/assert.h"
#include "plan/arena.h"
#include "plan/draft.h"

bool hd_plan_reads_at_positions(const hd_kernel *k, int buffer) {
    for (int i = 0; i < k->count; ++i)
        if (k->steps[i].word == HD_STEP_LOAD && k->steps[i].index == buffer &&
            (k->steps[i].operand[0] >= 0 || k->steps[i].operand[1] >= 0))
            return true;
    return false;
}

/* True when the first operand of a product is computed from a buffer: for the rows of one part while others are
 * finished. */
static bool prologue_reads(const hd_plan *p, const hd_launch *l, uint32_t in) {
    const uint32_t prologue = l->kind == HD_RUN_PRODUCT ? p->calls[l->call].prologue : HD_NONE;
    if (prologue == HD_NONE) return false;
    const hd_plan_native *n = p->natives[prologue];
    for (int b = 0; b < n->native.shape.buffer_count; ++b)
        if (n->tensors[b] != HD_NONE && p->buffer_of[n->tensors[b]] == p->buffer_of[in]) return true;
    return false;
}

/* True when a kernel reads a buffer only where it writes this output, and before it does, so that it may write over
 * it. */
static bool kernel_may_overwrite(const hd_plan *p, const hd_launch *l, uint32_t in, uint32_t out) {
    if (prologue_reads(p, l, in)) return false;
    if (l->native == HD_NONE) return l->kind == HD_RUN_PRODUCT && p->machine->product_may_overwrite(p, l, in);
    const hd_plan_native *n = p->natives[l->native];
    const hd_kernel *k = &n->native.shape;
    const int64_t *geometry = n->native.geometry;
    int to = -1;
    for (int b = 0; b < k->buffer_count; ++b)
        if (n->tensors[b] == out && k->buffers[b].written) to = b;
    if (to < 0) return false;
    for (int a = k->kept; a < k->axes;
         ++a) /* inside the reduced axes a later walk may read what an earlier one wrote */
        if (geometry[hd_geometry_stride(k, to, a)] != 0) return false;
    for (int b = 0; b < k->buffer_count; ++b) {
        if (n->tensors[b] == HD_NONE || k->buffers[b].written || p->buffer_of[n->tensors[b]] != p->buffer_of[in])
            continue;
        for (int a = 0; a < k->axes; ++a)
            if (geometry[hd_geometry_stride(k, b, a)] != geometry[hd_geometry_stride(k, to, a)]) return false;
        if (!hd_plan_is_whole(p, n->tensors[b]) || hd_plan_reads_at_positions(k, b)) return false;
    }
    if (l->kind == HD_RUN_PRODUCT) /* the product itself reads its operands all over */
        for (uint32_t i = 0; i < 2; ++i)
            if (p->buffer_of[p->operands[l->first + i]] == p->buffer_of[in]) return false;
    return true;
}

static bool call_may_overwrite(const hd_plan *p, const hd_launch *l, uint32_t in, uint32_t out) {
    const hd_op *op = l->kind == HD_RUN_CALL ? p->calls[l->call].call.op : NULL;
    if (op == NULL || op->lower != HD_LOWER_ROW) return false;
    for (int k = 0; k < l->inputs; ++k) { /* another view of it would be read when it is half written */
        const uint32_t other = p->operands[l->first + (uint32_t)k];
        if (p->buffer_of[other] == p->buffer_of[in] && other != in &&
            !(hd_plan_is_own(p, other) && hd_shape_equal(p->tensors[other].layout.shape, p->tensors[out].layout.shape)))
            return false;
    }
    return true;
}

/* The input over which a launch may write an output: of its type and shape, read for the last time. NULL: none. */
static hd_plan_buffer *overwritable(const hd_plan *p, uint32_t index, uint32_t out) {
    const hd_launch *l = &p->launches[index];
    const bool computes = l->kind == HD_RUN_CALL || l->kind == HD_RUN_KERNEL || l->kind == HD_RUN_PRODUCT;
    if (!computes || !hd_plan_is_own(p, out)) return NULL;
    for (int k = l->kind == HD_RUN_PRODUCT ? 2 : 0; k < l->inputs; ++k) {
        const uint32_t in = p->operands[l->first + (uint32_t)k];
        hd_plan_buffer *b = &p->buffers[p->buffer_of[in]];
        if (b->last != index || b->handed_on || !hd_plan_is_own(p, in) ||
            !p->machine->uses_alone(p, index, p->buffer_of[in]) || p->tensors[in].dtype != p->tensors[out].dtype ||
            !hd_shape_equal(p->tensors[in].layout.shape, p->tensors[out].layout.shape))
            continue;
        if (l->kind == HD_RUN_CALL ? call_may_overwrite(p, l, in, out) : kernel_may_overwrite(p, l, in, out)) return b;
    }
    return NULL;
}

static char nothing[64]; /* where values without elements lie */

static size_t rounded(const hd_plan *p, size_t bytes) {
    const size_t alignment = p->machine->target.alignment > 0 ? p->machine->target.alignment : 64;
    return bytes > SIZE_MAX - alignment ? SIZE_MAX : (bytes + alignment - 1) / alignment * alignment;
}

static hd_error place_outputs(hd_plan *p, hd_arena *a, uint32_t i) {
    const hd_launch *l = &p->launches[i];
    for (uint32_t k = l->inputs; k < (uint32_t)l->inputs + l->outputs; ++k) {
        const uint32_t tensor = p->operands[l->first + k];
        hd_plan_buffer *out = &p->buffers[p->buffer_of[tensor]];
        if (out->placement != HD_IN_ARENA || out->placed) continue;
        hd_plan_buffer *over = overwritable(p, i, tensor);
        if (over != NULL) over->handed_on = true;
        out->offset = over != NULL ? over->offset : hd_arena_take(a, rounded(p, out->storage.bytes));
        out->placed = true;
        if (out->offset == SIZE_MAX)
            return hd_fail(HD_ERROR_MEMORY, "the values of this script need more memory than can be addressed");
    }
    return HD_OK;
}

/* Buffers begin at the launch that first fills them, and end with the last one that reads them. */
static void find_uses(hd_plan *p) {
    for (uint32_t i = 0; i < p->buffer_count; ++i) p->buffers[i].first = p->buffers[i].last = HD_NONE;
    for (uint32_t i = 0; i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        for (uint32_t k = 0; k < (uint32_t)l->inputs + l->outputs; ++k) {
            hd_plan_buffer *b = &p->buffers[p->buffer_of[p->operands[l->first + k]]];
            b->last = i;
            if (k >= l->inputs && b->first == HD_NONE) b->first = i;
        }
        if (hd_launch_saves(l)) p->saves = true;
    }
}

/* What is saved lives to the end of the run, and so do the places where it belongs. */
static void keep_saved(hd_plan *p) {
    for (uint32_t i = 0; p->saves && i < p->launch_count; ++i) {
        const hd_launch *l = &p->launches[i];
        for (uint32_t k = 0; hd_launch_saves(l) && k < l->outputs; ++k)
            p->buffers[p->buffer_of[p->operands[l->first + l->inputs + k]]].last = p->launch_count - 1;
    }
}

bool hd_plan_can_fail(const hd_plan *p, const hd_launch *l) {
    if (l->kind == HD_RUN_CHECK || l->kind == HD_RUN_SAVE_AT) return true;
    if (l->kind == HD_RUN_CALL) return p->calls[l->call].call.op->fails != HD_FAILS_NEVER;
    return l->kind == HD_RUN_PRODUCT && p->machine->product_can_fail(p, l);
}

uint32_t hd_plan_memory_of(const hd_plan *p, uint32_t buffer) {
    const hd_plan_buffer *b = &p->buffers[buffer];
    return b->placement == HD_IN_CELL ? p->buffer_of[p->graph->cells[b->cell].node] : buffer;
}

/* The new value of a cell is written over the old one when it is made by a kernel that reads the old one, if at all,
 * point by point; nobody reads the old one after that; and nothing after that can fail. */
static void write_in_place(hd_plan *p) {
    uint32_t failing = 0; /* launches up to the last that can fail */
    for (uint32_t i = 0; i < p->launch_count; ++i)
        if (hd_plan_can_fail(p, &p->launches[i])) failing = i + 1;
    for (uint32_t i = 0; i < p->graph->cell_count; ++i) {
        if (p->state[i] == HD_NONE) continue;
        const uint32_t update = p->graph->cells[i].update, node = p->graph->cells[i].node;
        hd_plan_buffer *fresh = &p->buffers[p->state[i]], *old = &p->buffers[p->buffer_of[node]];
        if (p->buffer_of[update] != p->state[i] || fresh->first == HD_NONE || fresh->first < failing) continue;
        const hd_launch *l = &p->launches[fresh->first];
        const bool computes = l->native != HD_NONE || l->kind == HD_RUN_PRODUCT;
        if (!computes || (old->last != HD_NONE && old->last > fresh->first)) continue;
        if (old->last == fresh->first && !kernel_may_overwrite(p, l, node, update)) continue;
        fresh->placement = HD_IN_CELL;
        fresh->cell = i;
    }
}

/* Where launches may run at the same time, memory that is given out again at once makes them wait for each other: a
 * plan that takes little memory gives it out so many spans later. */
enum { LITTLE = 64 << 20 };
static uint32_t spans_before_reuse(const hd_plan *p) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < p->buffer_count && bytes <= LITTLE; ++i)
        if (p->buffers[i].placement == HD_IN_ARENA) bytes += p->buffers[i].storage.bytes;
    return bytes <= LITTLE ? p->machine->target.reuse_after : 0;
}

/* What launches of a span used last is free again. */
static hd_error give_back(hd_plan *p, hd_arena *a, const hd_plan_span *s, const uint32_t *next,
                          const uint32_t *ending) {
    for (uint32_t i = s->first; i < s->first + s->count; ++i)
        for (uint32_t e = ending[i]; e != HD_NONE; e = next[e])
            if (!p->buffers[e].handed_on)
                HD_TRY(hd_arena_give(a, p->buffers[e].offset, rounded(p, p->buffers[e].storage.bytes)));
    return HD_OK;
}

static hd_error find_places(hd_plan *p, hd_arena *a, uint32_t *next, uint32_t *ending) {
    const uint32_t after = spans_before_reuse(p);
    for (uint32_t i = 0; i < p->launch_count; ++i) ending[i] = HD_NONE;
    for (uint32_t i = 0; i < p->buffer_count; ++i) { /* lists of buffers by last hd_launch */
        const hd_plan_buffer *b = &p->buffers[i];
        if (b->placement != HD_IN_ARENA || b->last == HD_NONE) continue;
        next[i] = ending[b->last];
        ending[b->last] = i;
    }
    for (uint32_t j = 0; j < p->span_count; ++j) { /* launches of a span run at the same time */
        const hd_plan_span *s = &p->spans[j];
        for (uint32_t i = s->first; i < s->first + s->count; ++i) HD_TRY(place_outputs(p, a, i));
        if (j >= after) HD_TRY(give_back(p, a, s - after, next, ending));
    }
    return HD_OK;
}

static hd_error place_all(hd_thread *thread, hd_plan *p) {
    uint32_t *next = hd_array_resize(NULL, (p->buffer_count + 1) * sizeof *next);
    uint32_t *ending = hd_array_resize(NULL, (p->launch_count + 1) * sizeof *ending);
    hd_arena a = {.top = 0};
    const hd_error status = next == NULL || ending == NULL ? hd_plan_no_memory(p) : find_places(p, &a, next, ending);
    hd_array_release(a.holes);
    hd_array_release(next);
    hd_array_release(ending);
    if (status != HD_OK) return status;
    p->executable.arena_bytes = (int64_t)a.top;
    if (a.top > 0 || hd_plan_is_away(p)) { /* a device wants addresses of its own also for what is empty */
        p->arena = hd_plan_block_new(p, thread, a.top > 0 ? a.top : 1);
        if (p->arena == NULL) return HD_ERROR_MEMORY;
    }
    for (uint32_t i = 0; i < p->buffer_count; ++i) {
        hd_plan_buffer *b = &p->buffers[i];
        if (b->placement != HD_IN_ARENA) continue;
        const bool is_there = p->arena != NULL && (b->storage.bytes > 0 || hd_plan_is_away(p));
        b->storage.data = is_there ? (char *)hd_plan_block_address(p->arena) + b->offset : nothing;
    }
    return HD_OK;
}

hd_error hd_draft_lay_out(hd_thread *thread, hd_plan_draft *d) {
    hd_plan *p = d->plan;
    find_uses(p);
    keep_saved(p);
    write_in_place(p);
    HD_TRY(p->machine->order(d));
    find_uses(p); /* launches have changed places */
    keep_saved(p);
    for (uint32_t i = 0; i < p->buffer_count; ++i)
        if (p->buffers[i].placement == HD_IN_OUTPUT || p->buffers[i].placement == HD_IN_STATE ||
            p->buffers[i].placement == HD_IN_CELL)
            p->fresh[p->fresh_count++] = i;
    return place_all(thread, p);
}
