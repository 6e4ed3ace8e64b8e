/* The walk: the records a loss came from, from the newest to the oldest. A heap of record numbers says which is next,
 * so a walk costs what it visits, however long the tape is, and nothing recurses. */
#include "ops/op.h"
#include "grad/walk.h"

#include <stdio.h>

/* ---- the queue --------------------------------------------------------------------------------------------------- */
static hd_error push(hd_walk *w, uint32_t index) {
    hd_tapes *q = w->tapes;
    if (q->queue_count == q->queue_capacity) {
        const uint32_t capacity = q->queue_capacity ? q->queue_capacity * 2 : 256;
        uint32_t *queue = hd_array_resize(q->queue, capacity * sizeof *queue);
        if (queue == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to queue %u records", capacity);
        q->queue = queue;
        q->queue_capacity = capacity;
    }
    uint32_t at = q->queue_count++;
    for (; at > 0 && q->queue[(at - 1) / 2] < index; at = (at - 1) / 2) q->queue[at] = q->queue[(at - 1) / 2];
    q->queue[at] = index;
    return HD_OK;
}

static uint32_t pop(hd_tapes *q) {
    const uint32_t top = q->queue[0], last = q->queue[--q->queue_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = at * 2 + 1;
        if (child >= q->queue_count) break;
        if (child + 1 < q->queue_count && q->queue[child + 1] > q->queue[child]) ++child;
        if (q->queue[child] <= last) break;
        q->queue[at] = q->queue[child];
        at = child;
    }
    q->queue[at] = last;
    return top;
}

/* ---- gradients on their way -------------------------------------------------------------------------------------- */
static uint32_t version_of(const hd_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* What made a record, for messages: "a leaf", "hd_mul", "a compiled model". */
static const char *maker_of(hd_record *r, char name[96]) {
    if (r->op == NULL) return "a leaf";
    if (r->op == &hd_op_external) return (*(hd_external *const *)hd_record_attributes(r))->name;
    return hd_title_of(r->op, hd_record_attributes(r), name);
}

/* HODU_DEBUG=nan */
static hd_error check_finite(const hd_walk *w, hd_record *r, hd_tensor *gradient, const char *what) {
    if (!hd_debug_nan()) return HD_OK;
    char name[96];
    return hd_check_finite(w->thread, gradient, what, maker_of(r, name));
}

/* `gradient` (NULL: zero) arrives at an edge. */
/* The gradient of a leaf is where the leaf is: that of a number, which is at home everywhere, comes from elsewhere.
 * What arrives later is added where the first is. NULL with an error. */
static hd_tensor *at_home(hd_walk *w, hd_record *r, const hd_tensor *sum, hd_tensor *gradient) {
    if (!hd_calls_routed || w->thread->executor->captures) return gradient;
    const hd_tensor *leaf = r->op == NULL ? hd_record_saved(r)[0].tensor : sum;
    return leaf == NULL ? gradient : hd_to(gradient, leaf->storage->device);
}

static hd_error arrive(hd_walk *w, uint32_t edge, hd_tensor *gradient) {
    hd_record *r = w->tape->records[edge / 2];
    if (!r->reached) {
        HD_TRY(push(w, edge / 2));
        r->reached = true;
    }
    if (gradient == NULL) return HD_OK;
    hd_tensor **sum = &r->gradient[edge & 1];
    if ((gradient = at_home(w, r, *sum, gradient)) == NULL) return w->thread->error_code;
    if (*sum != NULL) {
        hd_tensor *both = hd_add(*sum, gradient);
        if (both == NULL) return w->thread->error_code;
        HD_TRY(check_finite(w, r, both, r->op == NULL ? "the whole gradient" : "the whole gradient of the result"));
        hd_tensor_drop(w->thread, *sum);
        gradient = both;
    }
    hd_object_retain(&gradient->object);
    *sum = gradient;
    return HD_OK;
}

static void drop_gradients(hd_walk *w, hd_record *r) {
    for (int i = 0; i < HD_MAX_OUTPUTS; ++i) {
        hd_tensor_drop(w->thread, r->gradient[i]);
        r->gradient[i] = NULL;
    }
    r->reached = false;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */
static void left(hd_thread *thread, const hd_ending *ending);

hd_walk *hd_walk_begin(hd_thread *thread, hd_tapes *tapes, hd_observer *observer) {
    static _Atomic uint64_t last;
    hd_walk *w = hd_array_resize(NULL, sizeof *w);
    if (w == NULL) hd_fail(HD_ERROR_MEMORY, "no memory to walk a tape");
    if (w == NULL || hd_ending_push(thread, left, w, 0, 0) != HD_OK) {
        hd_array_release(w);
        return NULL;
    }
    *w = (hd_walk){.thread = thread,
                   .tapes = tapes,
                   .context = tapes->active,
                   .tape = &tapes->active->tape,
                   .observer = thread->observer,
                   .ending = hd_ending_last(thread),
                   .frames = tapes->head.frame_count,
                   .floor = tapes->floor,
                   .outer = thread->walk_number,
                   .number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1};
    thread->observer = observer;
    thread->walk_number = w->number;
    thread->walks++;
    w->tape->running = true; /* also while the hooks of leaves run */
    return w;
}

static void finish(hd_walk *w) {
    hd_thread *thread = w->thread;
    w->tape->running = false;
    thread->walks--;
    thread->walk_number = w->outer;
    for (uint32_t i = 0; i < w->arrival_count; ++i) hd_tensor_drop(thread, w->arrivals[i].gradient);
    hd_array_release(w->arrivals);
    hd_array_release(w->results);
    hd_array_release(w);
    if (thread->walks == 0 && thread->after_walks != NULL) thread->after_walks(thread);
}

void hd_walk_end(hd_walk *w) {
    hd_ending_pop(w->thread, w->ending);
    w->thread->observer = w->observer;
    finish(w);
}

/* A walk inside another one (one that recomputes) has a queue of its own. */
static void take_queue(hd_walk *w) {
    w->walking = true;
    if (w->tapes->queue_count == 0) return;
    w->queue = w->tapes->queue;
    w->queue_count = w->tapes->queue_count;
    w->queue_capacity = w->tapes->queue_capacity;
    w->tapes->queue = NULL;
    w->tapes->queue_count = w->tapes->queue_capacity = 0;
}

static void give_queue_back(hd_walk *w) {
    w->walking = false;
    if (w->queue == NULL) return;
    hd_array_release(w->tapes->queue);
    w->tapes->queue = w->queue;
    w->tapes->queue_count = w->queue_count;
    w->tapes->queue_capacity = w->queue_capacity;
    w->queue = NULL;
}

/* By a longjmp: what is on its way anywhere on the tape goes, and so does what was to be delivered. */
void hd_walk_leave_slots(hd_walk *w) {
    for (uint32_t i = 0; i < w->taken; ++i)
        if (w->arrivals[i].slot != NULL) hd_slot_leave(w->arrivals[i].slot, w->arrivals[i].ends);
    w->taken = 0;
}

static void left(hd_thread *thread, const hd_ending *ending) {
    hd_walk *w = ending->object;
    w->tapes->floor = w->floor;
    hd_frames_drop(thread, w->tapes, w->frames, w->observer);
    for (uint32_t i = 1; i <= w->tape->count; ++i) drop_gradients(w, w->tape->records[i]);
    if (w->walking) {
        w->tapes->queue_count = 0;
        give_queue_back(w);
    }
    for (uint32_t i = 0; i < w->arrival_count; ++i) {
        hd_slot *slot = w->arrivals[i].slot;
        if (slot == NULL || slot->pending == NULL || slot->walk != w) continue;
        hd_tensor_drop(thread, slot->pending);
        slot->pending = NULL;
    }
    hd_walk_leave_slots(w);
    finish(w);
}

/* ---- hooks and arrivals ------------------------------------------------------------------------------------------ */
/* Those that hooks add on the way wait for the next walk: one that adds itself would be called for ever. */
hd_error hd_walk_hooks(hd_walk *w, const hd_slot *slot, const char *what, hd_tensor **gradient) {
    const hd_hooks *hooks = w->without_hooks ? NULL : atomic_load_explicit(&slot->hooks, memory_order_acquire);
    const uint32_t count = hooks != NULL ? atomic_load_explicit(&hooks->count, memory_order_acquire) : 0;
    for (uint32_t i = 0; i < count && *gradient != NULL; ++i) {
        if (hooks->hook[i].since >= w->number) continue;
        const uint32_t depth = w->tapes->head.frame_count, floor = w->tapes->floor, version = version_of(*gradient);
        w->tapes->floor = depth; /* a hook may not end what is around it */
        hd_tensor *other;
        {
            HD_CALLBACK(w->thread);
            other = hooks->hook[i].fn(*gradient, hooks->hook[i].user);
        }
        w->tapes->floor = floor;
        hd_frames_restore(w->thread, depth, "a hook");
        if (w->thread->error_code != HD_OK) return w->thread->error_code;
        if (version_of(*gradient) != version) /* others may hold it too: the seed, another way back */
            return hd_fail(HD_ERROR_STATE, "a hook on %s wrote into the gradient it was given; it may return another",
                           what);
        if (other == NULL) continue;
        HD_TRY(hd_tensor_check(other, "the hook's gradient"));
        if (!hd_shape_equal(other->layout.shape, (*gradient)->layout.shape) || other->dtype != (*gradient)->dtype)
            return hd_fail(HD_ERROR_SHAPE, "a hook on %s returned %s of %s for a gradient %s of %s", what,
                           HD_SHAPE_TEXT(other->layout.shape), hd_dtype_name((hd_dtype)other->dtype),
                           HD_SHAPE_TEXT((*gradient)->layout.shape), hd_dtype_name((hd_dtype)(*gradient)->dtype));
        *gradient = other;
    }
    return HD_OK;
}

static hd_error note_arrival(hd_walk *w, hd_tensor *leaf, hd_slot *slot, hd_tensor *gradient) {
    if (w->arrival_count == w->arrival_capacity) {
        const uint32_t capacity = w->arrival_capacity ? w->arrival_capacity * 2 : 16;
        hd_arrival *arrivals = hd_array_resize(w->arrivals, capacity * sizeof *arrivals);
        if (arrivals == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for the gradients of %u leaves", capacity);
        w->arrivals = arrivals;
        w->arrival_capacity = capacity;
    }
    if (gradient != NULL) hd_object_retain(&gradient->object);
    w->arrivals[w->arrival_count++] = (hd_arrival){leaf, slot, gradient, false, 0};
    return HD_OK;
}

/* Whether t is what a leaf's record stands for. A result of another tape that was written in place since is not: it is
 * a result of this one now, and the leaf is what it was before. */
static bool is_leaf_here(const hd_walk *w, const hd_tensor *t, const hd_tensor *leaf) {
    return t == leaf && (t->tracking == HD_TRACKED_LEAF || hd_edge_on(w->tape, t) == 0);
}

/* hd_grad_of: adds to what was found for a wanted tensor. */
static hd_error find(hd_walk *w, const hd_tensor *leaf, uint32_t edge, hd_tensor *gradient) {
    for (int64_t i = 0; i < w->wanted->count; ++i) {
        const hd_tensor *t = w->wanted->items[i];
        if (gradient == NULL || !(leaf != NULL ? is_leaf_here(w, t, leaf) : hd_edge_on(w->tape, t) == edge)) continue;
        hd_tensor *sum = w->found[i] == NULL ? gradient : hd_add(w->found[i], gradient);
        if (sum == NULL) return w->thread->error_code;
        if (sum != gradient && hd_debug_nan()) HD_TRY(hd_check_finite(w->thread, sum, "the whole gradient", "a leaf"));
        hd_object_retain(&sum->object);
        hd_tensor_drop(w->thread, w->found[i]);
        w->found[i] = sum;
    }
    return HD_OK;
}

/* ---- one record -------------------------------------------------------------------------------------------------- */
/* A leaf may have several records (see new_leaf): its hooks wait for all of them. */
static bool is_tape_of(const hd_tapes *tapes, uint32_t serial) {
    if (tapes == NULL) return false;
    bool found = tapes->root.tape.serial == serial;
    for (uint32_t i = 0; i < tapes->head.frame_count && !found; ++i)
        found = tapes->frames[i].kind == HD_FRAME_CONTEXT && tapes->frames[i].context->tape.serial == serial;
    return found;
}

/* A result of this thread acts as a leaf where its own tape is another one; when that was cleared, whoever expects a
 * gradient further back waits in vain. */
static void warn_of_cleared(hd_walk *w, const hd_tensor *leaf) {
    const uint32_t serial = (uint32_t)(atomic_load_explicit(&leaf->history.place, memory_order_relaxed) >> 32);
    if (w->tapes->warned_of_cleared || leaf->tracking != HD_TRACKED_RESULT || serial == 0 ||
        leaf->history.thread != w->thread->number || is_tape_of(w->thread->tapes, serial) ||
        is_tape_of(w->thread->aside.tapes, serial))
        return;
    w->tapes->warned_of_cleared = true;
    hd_warn(w->thread,
            "%s stops at a result %s of hd_%s whose history was cleared: no gradient goes further back. "
            "hd_optimizer_zero_grad and hd_clear_tape clear the whole tape; hd_zero_grads clears gradients alone, and "
            "hd_detach says that a value is meant to have no history (docs/guide/gradient-tape.md, \"A value whose "
            "history was cleared\")",
            w->thread->call, HD_SHAPE_TEXT(leaf->layout.shape), leaf->made_by != NULL ? leaf->made_by->name : "?");
}

static hd_error visit_leaf(hd_walk *w, hd_record *r, hd_tensor *gradient) {
    hd_tensor *leaf = hd_record_saved(r)[0].tensor;
    if (gradient != NULL) warn_of_cleared(w, leaf);
    if (w->wanted != NULL) return find(w, leaf, 0, gradient);
    const bool asked_for = leaf->tracking != HD_UNTRACKED && hd_dtype_is_float((hd_dtype)leaf->dtype) &&
                           is_leaf_here(w, leaf, leaf); /* still */
    return asked_for ? note_arrival(w, leaf, NULL, gradient) : HD_OK;
}

/* Somebody has hooks on a result, or wants its gradient kept. */
static hd_error visit_watched(hd_walk *w, hd_record *r) {
    char name[96];
    for (uint32_t i = r->watch; i != 0; i = w->tape->watches[i - 1].next) {
        const hd_watch watch = w->tape->watches[i - 1];
        hd_tensor *before = r->gradient[watch.edge & 1], *after = before;
        HD_TRY(hd_walk_hooks(w, watch.slot, maker_of(r, name), &after));
        if (after != before) {
            hd_object_retain(&after->object);
            hd_tensor_drop(w->thread, before);
            r->gradient[watch.edge & 1] = after;
        }
        if (watch.slot->kept && w->wanted == NULL) HD_TRY(note_arrival(w, NULL, watch.slot, after));
    }
    return HD_OK;
}

static hd_error check_versions(hd_record *r) {
    const hd_saved *saved = hd_record_saved(r);
    const int count = hd_record_saved_count(r);
    char name[96];
    for (int i = 0; i < count; ++i) {
        const uint32_t now = version_of(saved[i].tensor);
        if (now == saved[i].version) continue;
        return hd_fail(HD_ERROR_STATE,
                       "a value that %s needs for its gradient, %s, was changed in place after it was used (version %u "
                       "now, %u then); write into a copy (hd_copy), or call hd_backward before the write",
                       maker_of(r, name), HD_SHAPE_TEXT(saved[i].tensor->layout.shape), now, saved[i].version);
    }
    return HD_OK;
}

/* `same`: of the inputs of an elementwise row that all have the shape of its result. */
static void read_shapes(hd_record *r, const hd_shape *same, hd_shape *shapes) {
    const int64_t *word = (const int64_t *)r + r->shapes_at;
    for (uint32_t i = 0; i < r->inputs; ++i) {
        if (r->shapes_at == 0) {
            shapes[i] = *same;
            continue;
        }
        shapes[i].rank = (int)*word++;
        for (int k = 0; k < shapes[i].rank; ++k) shapes[i].size[k] = *word++;
    }
}

/* A vjp of the user's may neither end blocks and contexts that are around it, nor leave its own behind. */
static hd_error run_users_vjp(hd_walk *w, const hd_vjp_call *call) {
    const uint32_t depth = w->tapes->head.frame_count, floor = w->tapes->floor;
    w->tapes->floor = depth;
    call->op->vjp(w->thread, call);
    w->tapes->floor = floor;
    hd_frames_restore(w->thread, depth, "the vjp of an own op");
    return w->thread->error_code;
}

static hd_error run_vjp(hd_walk *w, hd_record *r, hd_tensor **results) {
    hd_thread *thread = w->thread;
    if (r->op == &hd_op_external) {
        hd_external *external = *(hd_external *const *)hd_record_attributes(r);
        if (thread->observer != NULL && !external->differentiable)
            return hd_fail(HD_ERROR_STATE,
                           "%s forgets what a second derivative needs; use the function or model itself there",
                           external->name);
        external->vjp(thread, external, r->gradient[0], results);
        return thread->error_code;
    }
    HD_TRY(check_versions(r));
    hd_tensor *inputs[HD_MAX_INPUTS], *output = NULL, *second = NULL;
    hd_shape shapes[HD_MAX_INPUTS];
    bool wanted[HD_MAX_INPUTS];
    const hd_saved *saved = hd_record_saved(r);
    for (uint32_t i = 0; i < r->inputs; ++i) {
        inputs[i] = r->saves & hd_save_bit((int)i) ? (saved++)->tensor : NULL;
        wanted[i] = r->edges[i] != 0 && (w->wanted == NULL || w->tape->records[r->edges[i] / 2]->needed) &&
                    hd_dtype_is_float((hd_dtype)hd_record_dtypes(r)[i]);
    }
    if (r->saves & HD_SAVE_OUTPUT) output = (saved++)->tensor;
    if (r->saves & HD_SAVE_OUTPUT1) second = saved->tensor;
    read_shapes(r, r->gradient[0] != NULL ? &r->gradient[0]->layout.shape : NULL, shapes);
    const hd_vjp_call call = {.op = r->op,
                              .attributes = hd_record_attributes(r),
                              .compute = (hd_dtype)r->compute,
                              .input_count = (int)r->inputs,
                              .inputs = inputs,
                              .output = output,
                              .second_output = second,
                              .gradient = r->gradient[0],
                              .second_gradient = r->gradient[1],
                              .shapes = shapes,
                              .dtypes = hd_record_dtypes(r),
                              .wanted = wanted,
                              .results = results};
    if (r->op == &hd_ops[HD_OP_custom]) return run_users_vjp(w, &call);
    r->op->vjp(thread, &call);
    return thread->error_code;
}

static hd_error visit_call(hd_walk *w, hd_record *r, uint32_t index) {
    if (r->watch != 0) HD_TRY(visit_watched(w, r));
    for (uint32_t i = 0; w->wanted != NULL && r->target && i < r->outputs; ++i)
        HD_TRY(find(w, NULL, index * 2 + i, r->gradient[i]));
    bool goes_on = w->wanted == NULL;
    for (uint32_t i = 0; i < r->inputs && !goes_on; ++i)
        goes_on = r->edges[i] != 0 && w->tape->records[r->edges[i] / 2]->needed;
    if (!goes_on) return HD_OK;
    if (r->op->gradient == HD_GRADIENT_NONE)
        return hd_fail(HD_ERROR_STATE, "hd_%s has no gradient: %s; hd_detach its input if none is meant", r->op->name,
                       r->op->reason);
    hd_tensor *few[HD_MAX_INPUTS], **results = few;
    if (r->inputs > HD_MAX_INPUTS) {
        results = w->results = hd_array_resize(NULL, r->inputs * sizeof *results);
        if (results == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u gradients", r->inputs);
    }
    for (uint32_t i = 0; i < r->inputs; ++i) results[i] = NULL;
    hd_error status = HD_OK;
    const bool arrived = r->gradient[0] != NULL || r->gradient[1] != NULL;
    if (arrived && r->op->gradient == HD_GRADIENT_VJP) status = run_vjp(w, r, results);
    for (uint32_t i = 0; i < r->inputs && status == HD_OK; ++i) {
        if (r->edges[i] == 0 || (w->wanted != NULL && !w->tape->records[r->edges[i] / 2]->needed)) continue;
        if (!hd_dtype_is_float((hd_dtype)hd_record_dtypes(r)[i])) results[i] = NULL;
        if (results[i] != NULL) status = check_finite(w, r, results[i], "a gradient");
        if (status == HD_OK) status = arrive(w, r->edges[i], results[i]);
    }
    hd_array_release(w->results);
    w->results = NULL;
    return status;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */
static hd_error walk_back(hd_walk *w, const uint32_t *edges, hd_tensor *const *seeds, int64_t count) {
    hd_thread *thread = w->thread;
    hd_error status = HD_OK;
    for (int64_t i = 0; i < count && status == HD_OK; ++i) status = arrive(w, edges[i], seeds[i]);
    while (w->tapes->queue_count > 0) {
        const uint32_t index = pop(w->tapes);
        hd_record *r = w->tape->records[index];
        if (status == HD_OK) {
            hd_span span;
            hd_span_begin(&span, thread, "backward");
            status = r->op == NULL ? visit_leaf(w, r, r->gradient[0]) : visit_call(w, r, index);
            hd_span_end(&span, NULL);
        }
        drop_gradients(w, r);
    }
    return status;
}

/* A record is among the ancestors that are looked for. */
static hd_error push_once(hd_walk *w, uint32_t index) {
    hd_record *r = w->tape->records[index];
    if (r->reached) return HD_OK;
    HD_TRY(push(w, index));
    r->reached = true;
    return HD_OK;
}

/* What the losses at these edges came from, from the oldest record to the newest, as an array of `count`; NULL with an
 * error. */
static uint32_t *ancestors(hd_walk *w, const uint32_t *edges, int64_t edge_count, uint32_t *count) {
    uint32_t *list = NULL, capacity = 0, size = 0;
    hd_error status = HD_OK;
    for (int64_t i = 0; i < edge_count && status == HD_OK; ++i) status = push_once(w, edges[i] / 2);
    while (w->tapes->queue_count > 0) {
        const uint32_t index = pop(w->tapes);
        hd_record *r = w->tape->records[index];
        r->reached = false;
        if (size == capacity && status == HD_OK) {
            capacity = capacity ? capacity * 2 : 64;
            uint32_t *larger = hd_array_resize(list, capacity * sizeof *list);
            if (larger == NULL) status = hd_fail(HD_ERROR_MEMORY, "no memory to mark %u records", capacity);
            if (larger != NULL) list = larger;
        }
        if (status == HD_OK) list[size++] = index;
        for (uint32_t i = 0; i < r->inputs && status == HD_OK; ++i)
            if (r->edges[i] != 0) status = push_once(w, r->edges[i] / 2);
    }
    for (uint32_t i = 0; i < size / 2; ++i) {
        const uint32_t swap = list[i];
        list[i] = list[size - 1 - i];
        list[size - 1 - i] = swap;
    }
    *count = size;
    if (status == HD_OK) return list;
    hd_array_release(list);
    return NULL;
}

hd_tensors *hd_leaves_of(hd_thread *thread, const hd_tensor *y) {
    hd_tapes *tapes = hd_tapes_of(thread);
    uint32_t edge, count;
    if (tapes == NULL || hd_walk_check(thread, tapes, y, &edge) != HD_OK) return NULL;
    hd_walk w = {.thread = thread, .tapes = tapes, .context = tapes->active, .tape = &tapes->active->tape};
    uint32_t *list = ancestors(&w, &edge, 1, &count);
    hd_tensors *leaves = list == NULL ? NULL : hd_tensors_new(thread, count);
    int64_t found = 0;
    for (uint32_t i = 0; leaves != NULL && i < count; ++i) {
        hd_record *r = w.tape->records[list[i]];
        hd_tensor *leaf = r->op == NULL ? hd_record_saved(r)[0].tensor : NULL;
        bool known = leaf == NULL; /* a tensor may have several records: see new_leaf */
        for (int64_t k = 0; k < found && !known; ++k) known = leaves->items[k] == leaf;
        if (!known) hd_tensors_put(leaves, found++, leaf);
    }
    if (leaves != NULL) leaves->count = found;
    hd_array_release(list);
    return leaves;
}

/* Marks the records between the losses and what is wanted, so that nothing else is computed. */
static hd_error mark_needed(hd_walk *w, const uint32_t *edges, int64_t edge_count) {
    uint32_t count;
    uint32_t *list = ancestors(w, edges, edge_count, &count);
    if (list == NULL) return w->thread->error_code;
    for (uint32_t i = 0; i < count; ++i) w->tape->records[list[i]]->target = false;
    for (int64_t k = 0; k < w->wanted->count; ++k) {
        const uint32_t edge = hd_edge_on(w->tape, w->wanted->items[k]);
        if (edge != 0) w->tape->records[edge / 2]->target = true;
    }
    for (uint32_t i = 0; i < count; ++i) {
        hd_record *r = w->tape->records[list[i]];
        if (r->op == NULL) /* a tensor may have several: see new_leaf */
            for (int64_t k = 0; k < w->wanted->count && !r->target; ++k)
                r->target = is_leaf_here(w, w->wanted->items[k], hd_record_saved(r)[0].tensor);
        r->needed = r->target;
        for (uint32_t k = 0; k < r->inputs && !r->needed; ++k)
            r->needed = r->edges[k] != 0 && w->tape->records[r->edges[k] / 2]->needed;
    }
    hd_array_release(list);
    return HD_OK;
}

hd_error hd_walk_run(hd_walk *w, const uint32_t *edges, hd_tensor *const *seeds, int64_t count) {
    take_queue(w);
    hd_error status = w->wanted != NULL ? mark_needed(w, edges, count) : HD_OK;
    if (status == HD_OK) status = walk_back(w, edges, seeds, count);
    give_queue_back(w);
    return status;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */
hd_error hd_walk_check(hd_thread *thread, const hd_tapes *tapes, const hd_tensor *loss, uint32_t *edge) {
    HD_TRY(hd_tensor_check(loss, "loss"));
    if (tapes->active->tape.running)
        return hd_fail(HD_ERROR_STATE, "backward is walking this tape already; a hook may not call it");
    const long long here = tapes->active->id;
    if (thread->observer == NULL || thread->observer->writes == NULL)
        return hd_fail(HD_ERROR_STATE, "under HD_NO_GRAD nothing is on a tape; call it outside that block");
    if (!hd_dtype_is_float((hd_dtype)loss->dtype))
        return hd_fail(HD_ERROR_DTYPE, "the loss is %s; only floats have gradients",
                       hd_dtype_name((hd_dtype)loss->dtype));
    if (loss->tracking == HD_UNTRACKED)
        return hd_fail(
            HD_ERROR_STATE,
            "the loss %s has no history: no tensor that requires a gradient went into it, or it was made under "
            "HD_NO_GRAD or detached",
            HD_SHAPE_TEXT(loss->layout.shape));
    if (loss->tracking == HD_TRACKED_LEAF)
        return hd_fail(HD_ERROR_STATE, "the loss %s has no history: it is a leaf that no op made",
                       HD_SHAPE_TEXT(loss->layout.shape));
    *edge = hd_edge_on(&tapes->active->tape, loss);
    if (*edge != 0) return HD_OK;
    const char *made_by = loss->made_by != NULL ? loss->made_by->name : "assign";
    if (loss->history.thread != thread->number)
        return hd_fail(
            HD_ERROR_STATE,
            "hd_%s made the loss in context %u of thread %u; this is context %lld of thread %u, and tapes belong "
            "to their thread",
            made_by, loss->history.context, loss->history.thread, here, thread->number);
    bool open = loss->history.context == 0;
    for (uint32_t i = 0; i < tapes->head.frame_count; ++i)
        open = open || tapes->frames[i].context->id == loss->history.context;
    if (loss->history.context != here)
        return hd_fail(HD_ERROR_STATE, "hd_%s made the loss in context %u, %s context %lld is active", made_by,
                       loss->history.context, open ? "but" : "which has ended;", here);
    return hd_fail(HD_ERROR_STATE,
                   "the history of the loss is gone: the tape of context %lld was cleared after hd_%s made it", here,
                   made_by);
}

hd_tensor *hd_walk_seed(const hd_tensor *loss, hd_tensor *given) {
    if (given == NULL) return hd_full_beside(loss, loss->layout.shape, (hd_dtype)loss->dtype, 1);
    HD_TRY_OR(hd_tensor_check(given, "seed"), NULL);
    if (!hd_thread_self()->executor->captures) given = hd_to(given, loss->storage->device);
    if (given == NULL) return NULL;
    if (!hd_shape_equal(given->layout.shape, loss->layout.shape)) {
        hd_fail(HD_ERROR_SHAPE, "the seed is %s; it must have the shape of the loss, %s",
                HD_SHAPE_TEXT(given->layout.shape), HD_SHAPE_TEXT(loss->layout.shape));
        return NULL;
    }
    if (!hd_dtype_is_float((hd_dtype)given->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "the seed is %s; it must be a float", hd_dtype_name((hd_dtype)given->dtype));
        return NULL;
    }
    return hd_cast(given, (hd_dtype)loss->dtype);
}
