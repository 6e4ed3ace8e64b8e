/* hd_backward: what a walk brought to leaves is added to their gradients at the end, all of it or nothing. */
#include "grad/walk.h"

/* A gradient of the tensor's own: nobody else may see what is added to it later. */
static hd_tensor *own_gradient(hd_thread *thread, hd_tensor *gradient) {
    const bool alone = atomic_load_explicit(&gradient->object.references, memory_order_relaxed) == 1 &&
                       atomic_load_explicit(&gradient->storage->object.references, memory_order_relaxed) == 1;
    if (alone && gradient->contiguous) return gradient;
    hd_tensor *copy = hd_copy(gradient);
    if (copy == NULL) return NULL;
    hd_object_retain(&copy->object);
    hd_tensor_drop(thread, gradient);
    return copy;
}

/* pending <- pending + gradient */
static hd_error add_pending(hd_thread *thread, hd_slot *slot, hd_tensor *gradient) {
    hd_tensor *sum = slot->pending == NULL ? gradient : hd_add(slot->pending, gradient);
    if (sum == NULL) return thread->error_code;
    hd_object_retain(&sum->object);
    hd_tensor_drop(thread, slot->pending);
    slot->pending = sum;
    return HD_OK;
}

/* What arrived at a slot, whole: its hooks, and what was there before. */
static hd_error finish_pending(hd_walk *w, hd_slot *slot, bool leaf) {
    hd_thread *thread = w->thread;
    hd_tensor *whole = slot->pending;
    if (leaf) HD_TRY(hd_walk_hooks(w, slot, "a leaf", &whole));
    if (whole != slot->pending) {
        hd_object_retain(&whole->object);
        hd_tensor_drop(thread, slot->pending);
        slot->pending = whole;
    }
    if (slot->gradient != NULL) {
        HD_TRY(add_pending(thread, slot, slot->gradient));
    } else {
        hd_tensor *own = own_gradient(thread, slot->pending);
        if (own == NULL) return thread->error_code;
        slot->pending = own;
    }
    return hd_debug_nan() ? hd_check_finite(thread, slot->pending, "the gradient", leaf ? "a leaf" : "a result")
                          : HD_OK;
}

/* A hook of this walk's thread walks back to a leaf whose gradient is on its way already. */
static hd_error refuse_arrival(const hd_arrival *a) {
    return hd_fail(HD_ERROR_STATE,
                   "the gradient of a tensor %s is being added to by another hd_backward of this thread, a hook of "
                   "which runs; call it when that one has returned",
                   a->leaf != NULL ? HD_SHAPE_TEXT(a->leaf->layout.shape) : "");
}

/* Makes this walk the one that adds to the slot of an arrival; on failure the arrival has none, and nothing changed. */
static hd_error take_slot(hd_walk *w, hd_arrival *a) {
    if (a->slot == NULL) a->slot = hd_slot_of(w->thread, a->leaf);
    hd_error status =
        a->slot == NULL ? w->thread->error_code : hd_slot_enter(w->thread, a->slot, a->leaf, true, &a->ends);
    if (status == HD_OK) {
        a->finished = a->slot->pending != NULL; /* by an earlier arrival */
        if (a->finished && a->slot->walk != w) status = refuse_arrival(a);
    }
    if (status == HD_OK) {
        a->slot->walk = w;
    } else {
        if (a->slot != NULL) hd_slot_leave(a->slot, a->ends);
        a->slot = NULL;
    }
    return status;
}

/* Adds what arrived to the gradients of leaves: all of it, or, when something fails, none. */
static hd_error deliver(hd_walk *w) {
    hd_thread *thread = w->thread;
    hd_error status = HD_OK;
    for (; w->taken < w->arrival_count && status == HD_OK; ++w->taken) {
        hd_arrival *a = &w->arrivals[w->taken];
        status = take_slot(w, a);
        if (status == HD_OK) status = hd_slot_note(thread, a->leaf, a->slot);
        if (status == HD_OK && a->gradient != NULL) status = add_pending(thread, a->slot, a->gradient);
        hd_tensor_drop(thread, a->gradient); /* so that a gradient that is nobody else's can be taken over */
        a->gradient = NULL;
    }
    for (uint32_t i = 0; i < w->arrival_count && status == HD_OK; ++i) {
        const hd_arrival *a = &w->arrivals[i];
        if (a->slot->pending != NULL && !a->finished) status = finish_pending(w, a->slot, a->leaf != NULL);
    }
    for (uint32_t i = 0; i < w->taken; ++i) {
        hd_slot *slot = w->arrivals[i].slot;
        if (slot == NULL) continue;
        if (status == HD_OK) slot->known = slot->arrived = true;
        if (slot->pending == NULL) continue;
        hd_tensor *gone = slot->pending;
        if (status == HD_OK) {
            gone = slot->gradient;
            atomic_store_explicit(&slot->gradient, slot->pending, memory_order_relaxed);
        }
        slot->pending = NULL;
        hd_tensor_drop(thread, gone);
    }
    hd_walk_leave_slots(w);
    return status;
}

static void backward(hd_thread *thread, hd_tensor *loss, hd_tensor *seed) {
    hd_tapes *tapes = hd_tapes_of(thread);
    uint32_t edge;
    if (tapes == NULL || hd_walk_check(thread, tapes, loss, &edge) != HD_OK) return;
    hd_walk *w = hd_walk_begin(thread, tapes, NULL);
    if (w == NULL) return;
    hd_span span;
    hd_span_begin(&span, thread, "backward");
    seed = hd_walk_seed(loss, seed);
    if (seed != NULL && hd_walk_run(w, &edge, &seed, 1) == HD_OK) deliver(w);
    hd_span_end(&span, NULL);
    if (thread->error_code == HD_OK) hd_tape_walked(w->context);
    hd_walk_end(w);
}

void hd_backward(hd_tensor *loss) {
    HD_ENTER("hd_backward", );
    backward(thread, loss, NULL);
}

void hd_backward_with(hd_tensor *loss, const hd_backward_opts *opts) {
    HD_ENTER("hd_backward", );
    HD_READ_OPTS(hd_backward_opts, opts, );
    backward(thread, loss, options.seed);
}
