/* Leaves and their gradients. */
#include "core/undo.h"
#include "grad/tape.h"

#include <stdio.h>

/* ---- slots ------------------------------------------------------------------------------------------------------- */
static void slot_destroy(hd_thread *thread, hd_object *object) {
    hd_slot *slot = (hd_slot *)object;
    hd_tensor_drop(thread, slot->gradient);
    for (hd_hooks *hooks = slot->hooks, *older; hooks != NULL; hooks = older) {
        older = hooks->older;
        hd_array_release(hooks);
    }
    hd_array_release(slot);
}
static const hd_kind slot_kind = {.name = "gradient", .destroy = slot_destroy};

static hd_slot *new_slot(void) {
    hd_slot *slot = hd_array_resize(NULL, sizeof *slot);
    if (slot == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a gradient");
        return NULL;
    }
    *slot = (hd_slot){.known = false};
    hd_object_init(&slot->object, &slot_kind);
    return slot;
}

/* ---- who is at a gradient ---------------------------------------------------------------------------------------- */
/* The slot's `user` is the number of the thread that changes it, or how many look at it, with this bit; 0: nobody. */
#define LOOKING UINT32_C(0x80000000)

static hd_error refuse_gradient(const hd_tensor *t, uint32_t user) {
    char who[64] = "read by another thread";
    if ((user & LOOKING) == 0) snprintf(who, sizeof who, "changed by another thread (number %u)", user);
    return hd_fail(HD_ERROR_STATE,
                   "the gradient of a tensor %s is being %s; one thread at a time may add to it: make a copy of the "
                   "parameter for each thread, or take gradients with hd_grad_of, and add them up in one thread",
                   t != NULL ? HD_SHAPE_TEXT(t->layout.shape) : "", who);
}

hd_error hd_slot_enter(hd_thread *thread, hd_slot *slot, const hd_tensor *t, bool changes, uint32_t *ends) {
    uint32_t now = 0, next = changes ? thread->number : LOOKING | 1;
    *ends = 0;
    while (!atomic_compare_exchange_weak_explicit(&slot->object.user, &now, next, memory_order_acquire,
                                                  memory_order_relaxed)) {
        if (now == thread->number) return HD_OK;
        if (now != 0 && (changes || (now & LOOKING) == 0)) return refuse_gradient(t, now);
        next = changes ? thread->number : (now | LOOKING) + 1;
    }
    *ends = changes ? thread->number : LOOKING;
    return HD_OK;
}

void hd_slot_leave(hd_slot *slot, uint32_t ends) {
    if (ends == 0) return;
    if (ends != LOOKING) { /* it was alone */
        atomic_store_explicit(&slot->object.user, 0, memory_order_release);
        return;
    }
    uint32_t now = atomic_load_explicit(&slot->object.user, memory_order_relaxed), next;
    do next = now == (LOOKING | 1) ? 0 : now - 1;
    while (!atomic_compare_exchange_weak_explicit(&slot->object.user, &now, next, memory_order_release,
                                                  memory_order_relaxed));
}

/* Values that a builder records have their own; so has everything outside of one. */
static bool is_apart(const hd_thread *thread, const hd_tensor *t) {
    return thread->executor->captures && !(t->storage->home != NULL && t->storage->home->captured);
}

static uint32_t place_apart(const hd_tapes *tapes, const hd_tensor *t) {
    uint32_t at = (uint32_t)(((uintptr_t)t >> 8) * 0x9e3779b1u) & (tapes->apart_size - 1);
    while (tapes->apart[at].tensor != NULL && tapes->apart[at].tensor != t) at = (at + 1) & (tapes->apart_size - 1);
    return at;
}

hd_slot *hd_slot_apart(const hd_tensor *t) {
    const hd_thread *thread = hd_thread_self();
    if (!is_apart(thread, t)) return (hd_slot *)atomic_load_explicit(&t->history.slot, memory_order_acquire);
    const hd_tapes *tapes = thread->tapes;
    return tapes == NULL || tapes->apart_size == 0 ? NULL : tapes->apart[place_apart(tapes, t)].slot;
}

static hd_error grow_apart(hd_tapes *tapes) {
    hd_tapes larger = {.apart_size = tapes->apart_size ? tapes->apart_size * 2 : 32};
    larger.apart = hd_array_resize(NULL, larger.apart_size * sizeof *larger.apart);
    if (larger.apart == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a gradient");
    for (uint32_t i = 0; i < larger.apart_size; ++i) {
        larger.apart[i].tensor = NULL;
        larger.apart[i].slot = NULL;
    }
    for (uint32_t i = 0; i < tapes->apart_size; ++i)
        if (tapes->apart[i].tensor != NULL)
            larger.apart[place_apart(&larger, tapes->apart[i].tensor)] = tapes->apart[i];
    hd_array_release(tapes->apart);
    tapes->apart = larger.apart;
    tapes->apart_size = larger.apart_size;
    return HD_OK;
}

/* A list with the same hooks and room for more; NULL with an error. */
static hd_hooks *copy_hooks(const hd_hooks *from, uint32_t more) {
    const uint32_t count = from != NULL ? atomic_load_explicit(&from->count, memory_order_acquire) : 0;
    hd_hooks *hooks = hd_array_resize(NULL, sizeof *hooks + (count + more) * sizeof *hooks->hook);
    if (hooks == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for hooks");
        return NULL;
    }
    hooks->older = NULL;
    hooks->capacity = count + more;
    atomic_init(&hooks->count, count);
    for (uint32_t i = 0; i < count; ++i) hooks->hook[i] = from->hook[i];
    return hooks;
}

static hd_slot *slot_apart(hd_thread *thread, hd_tensor *t) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL || (tapes->apart_count * 2 >= tapes->apart_size && grow_apart(tapes) != HD_OK)) return NULL;
    const uint32_t at = place_apart(tapes, t);
    if (tapes->apart[at].slot != NULL) return tapes->apart[at].slot;
    hd_slot *slot = new_slot();
    if (slot == NULL) return NULL;
    const hd_slot *outside = (const hd_slot *)atomic_load_explicit(&t->history.slot, memory_order_acquire);
    if (outside != NULL && outside->hooks != NULL) { /* they run inside too */
        slot->hooks = copy_hooks(outside->hooks, 0);
        if (slot->hooks == NULL) {
            hd_array_release(slot);
            return NULL;
        }
    }
    hd_object_retain(&t->object);
    tapes->apart[at].tensor = t;
    tapes->apart[at].slot = slot;
    tapes->apart_count++;
    return slot;
}

hd_slot *hd_slot_of(hd_thread *thread, hd_tensor *t) {
    if (is_apart(thread, t)) return slot_apart(thread, t);
    hd_object *there = atomic_load_explicit(&t->history.slot, memory_order_acquire);
    if (there != NULL) return (hd_slot *)there;
    hd_slot *slot = new_slot();
    if (slot == NULL || atomic_compare_exchange_strong_explicit(&t->history.slot, &there, &slot->object,
                                                                memory_order_acq_rel, memory_order_acquire))
        return slot;
    hd_array_release(slot); /* another thread was first */
    return (hd_slot *)there;
}

static void keep_slot(hd_undo_entry *e) {
    hd_slot *slot = (hd_slot *)e->object;
    hd_tensor *gradient = slot->gradient;
    if (gradient != NULL) hd_object_retain(&gradient->object);
    e->held = gradient;
    e->node = slot->known;
    e->version = slot->arrived;
}
static void restore_slot(hd_thread *thread, hd_undo_entry *e) {
    hd_slot *slot = (hd_slot *)e->object;
    hd_tensor *since = slot->gradient;
    (void)thread;
    slot->gradient = e->held;
    slot->known = e->node;
    slot->arrived = e->version;
    e->held = since;
}
static void drop_gradient(hd_thread *thread, hd_undo_entry *e) { hd_tensor_drop(thread, e->held); }

hd_error hd_slot_note_slow(hd_thread *thread, const hd_tensor *t, hd_slot *slot) {
    static const hd_undo_kind of_slot = {restore_slot, drop_gradient};
    if (t != NULL && hd_undo_made(thread->undo, t->storage)) return HD_OK; /* nor was its gradient there before */
    return hd_undo_note_object(thread->undo, &of_slot, &slot->object, &slot->noted, keep_slot);
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */
static hd_error require(hd_thread *thread, hd_tensor *t, bool wanted) {
    HD_TRY(hd_tensor_check(t, "t"));
    if (!hd_dtype_is_float((hd_dtype)t->dtype))
        return hd_fail(HD_ERROR_DTYPE, "%s has no gradients, only floats have; cast with hd_cast first",
                       hd_dtype_name((hd_dtype)t->dtype));
    if (t->tracking == HD_TRACKED_RESULT)
        return hd_fail(
            HD_ERROR_STATE,
            "t is no leaf: hd_%s made it in context %u; hd_detach it first, or use hd_retain_grad to keep its "
            "gradient",
            t->made_by != NULL ? t->made_by->name : "assign", t->history.context);
    if (wanted && thread->executor->captures && t->storage->home != NULL && t->storage->home->captured)
        return hd_fail(HD_ERROR_STATE,
                       "parameters are made before or beside what a builder records: make this one in a block "
                       "with HD_EAGER; where it stands for an input, hd_builder_bind it");
    t->tracking = wanted ? HD_TRACKED_LEAF : HD_UNTRACKED;
    atomic_store_explicit(&t->history.place, 0, memory_order_relaxed);
    return HD_OK;
}

void hd_set_requires_grad(hd_tensor *t, bool wanted) {
    HD_ENTER("hd_set_requires_grad", );
    require(thread, t, wanted);
}

hd_tensor *hd_requires_grad(hd_tensor *t) {
    HD_ENTER("hd_requires_grad", NULL);
    return require(thread, t, true) == HD_OK ? t : NULL;
}

hd_tensor *hd_param(hd_tensor *x) {
    HD_ENTER("hd_param", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    if (x->tracking == HD_TRACKED_RESULT) {
        hd_observer *observer = thread->observer;
        thread->observer = NULL;
        HD_KEEP_NAME(thread);
        x = hd_copy(x);
        thread->observer = observer;
        if (x == NULL) return NULL;
    }
    return require(thread, x, true) == HD_OK ? x : NULL;
}

bool hd_tensor_requires_grad(const hd_tensor *t) {
    HD_ENTER_ALWAYS("hd_tensor_requires_grad", false);
    return hd_tensor_check(t, "t") == HD_OK && t->tracking != HD_UNTRACKED;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
bool hd_has_grad(const hd_tensor *t) {
    HD_ENTER_ALWAYS("hd_has_grad", false);
    if (hd_tensor_check(t, "t") != HD_OK) return false;
    hd_slot *slot = hd_slot_get(t);
    uint32_t ends;
    if (slot == NULL || hd_slot_enter(thread, slot, t, false, &ends) != HD_OK) return false;
    const bool known = slot->known;
    hd_slot_leave(slot, ends);
    return known;
}

bool hd_gradient_arrived(hd_thread *thread, const hd_tensor *t) {
    hd_slot *slot = hd_slot_get(t);
    uint32_t ends;
    if (slot == NULL || hd_slot_enter(thread, slot, t, false, &ends) != HD_OK) return false;
    const bool arrived = slot->arrived;
    hd_slot_leave(slot, ends);
    return arrived;
}

static void explain_missing(const hd_tensor *t, const hd_slot *slot) {
    if (t->tracking == HD_UNTRACKED)
        hd_fail(HD_ERROR_STATE,
                "gradient not computed: the tensor %s does not require one; hd_requires_grad before it is "
                "used",
                HD_SHAPE_TEXT(t->layout.shape));
    else if (t->tracking == HD_TRACKED_RESULT && (slot == NULL || !slot->kept))
        hd_fail(HD_ERROR_STATE,
                "gradient not computed: the tensor %s is no leaf (hd_%s made it); call hd_retain_grad "
                "before hd_backward",
                HD_SHAPE_TEXT(t->layout.shape), t->made_by != NULL ? t->made_by->name : "assign");
    else
        hd_fail(HD_ERROR_STATE, "gradient not computed: no hd_backward has reached the tensor %s yet",
                HD_SHAPE_TEXT(t->layout.shape));
}

/* Zeros of what was zeroed are made when somebody wants to see them. */
static hd_tensor *zeros_for(hd_thread *thread, const hd_tensor *t) {
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    HD_KEEP_NAME(thread);
    hd_tensor *zeros = hd_full_beside(t, t->layout.shape, (hd_dtype)t->dtype, 0);
    thread->observer = observer;
    return zeros;
}

/* A reference to the gradient, to `zeros` where it is known and there is none yet, or NULL: `*known` says whether. */
static hd_error look(hd_thread *thread, hd_slot *slot, const hd_tensor *t, hd_tensor *zeros, bool *known,
                     hd_tensor **out) {
    uint32_t ends;
    HD_TRY(hd_slot_enter(thread, slot, t, false, &ends));
    *known = slot->known;
    *out = slot->gradient;
    if (*known && *out == NULL && zeros != NULL) { /* others look, too: the first has its zeros there */
        hd_object_retain(&zeros->object);
        if (atomic_compare_exchange_strong(&slot->gradient, out, zeros)) {
            hd_undo_adopt(zeros->storage); /* whatever a step that fails has made of them */
            *out = zeros;
        } else {
            hd_tensor_drop(thread, zeros);
        }
    }
    if (*out != NULL) hd_object_retain(&(*out)->object);
    hd_slot_leave(slot, ends);
    return HD_OK;
}

hd_tensor *hd_grad(hd_tensor *t) {
    HD_ENTER("hd_grad", NULL);
    HD_TRY_OR(hd_tensor_check(t, "t"), NULL);
    hd_slot *slot = hd_slot_get(t);
    hd_tensor *gradient = NULL;
    bool known = false;
    if (slot != NULL) HD_TRY_OR(look(thread, slot, t, NULL, &known, &gradient), NULL);
    if (known && gradient == NULL) {
        hd_tensor *zeros = zeros_for(thread, t);
        if (zeros == NULL) return NULL;
        HD_TRY_OR(look(thread, slot, t, zeros, &known, &gradient), NULL);
    }
    if (gradient == NULL) {
        explain_missing(t, slot);
        return NULL;
    }
    return hd_scope_own(thread, &gradient->object) == HD_OK ? gradient : NULL;
}

/* Exchanges the gradient of t; takes the reference to the new one. */
static void replace(hd_thread *thread, hd_tensor *t, hd_tensor *gradient, bool known) {
    hd_slot *slot = hd_slot_of(thread, t);
    uint32_t ends;
    if (slot == NULL || hd_slot_enter(thread, slot, t, true, &ends) != HD_OK) {
        hd_tensor_drop(thread, gradient);
        return;
    }
    if (hd_slot_note(thread, t, slot) != HD_OK) {
        hd_slot_leave(slot, ends);
        hd_tensor_drop(thread, gradient);
        return;
    }
    hd_tensor *before = slot->gradient;
    atomic_store_explicit(&slot->gradient, gradient, memory_order_relaxed);
    slot->known = known;
    slot->arrived = gradient != NULL;
    hd_slot_leave(slot, ends);
    hd_tensor_drop(thread, before);
}

void hd_zero_grads(hd_tensors *tensors) {
    HD_ENTER("hd_zero_grads", );
    if (hd_tensors_check(tensors, "tensors") != HD_OK) return;
    HD_KEEP_NAME(thread);
    for (int64_t i = 0; i < tensors->count && thread->error_code == HD_OK; ++i) hd_zero_grad(tensors->items[i]);
}

void hd_zero_grad(hd_tensor *t) {
    HD_ENTER("hd_zero_grad", );
    if (hd_tensor_check(t, "t") != HD_OK) return;
    if (!hd_dtype_is_float((hd_dtype)t->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "%s has no gradients, only floats have", hd_dtype_name((hd_dtype)t->dtype));
        return;
    }
    replace(thread, t, NULL, true);
}

void hd_set_grad(hd_tensor *t, hd_tensor *gradient) {
    HD_ENTER("hd_set_grad", );
    if (hd_tensor_check(t, "t") != HD_OK) return;
    if (gradient != NULL) {
        if (hd_tensor_check(gradient, "gradient") != HD_OK) return;
        if (!hd_dtype_is_float((hd_dtype)t->dtype) || !hd_shape_equal(gradient->layout.shape, t->layout.shape)) {
            hd_fail(HD_ERROR_SHAPE, "a gradient %s of %s for a tensor %s of %s; shapes must agree, and both be floats",
                    HD_SHAPE_TEXT(gradient->layout.shape), hd_dtype_name((hd_dtype)gradient->dtype),
                    HD_SHAPE_TEXT(t->layout.shape), hd_dtype_name((hd_dtype)t->dtype));
            return;
        }
    }
    hd_tensor *own = NULL;
    if (gradient != NULL) {
        hd_observer *observer = thread->observer;
        thread->observer = NULL;
        hd_span span;
        hd_span_begin(&span, thread, "set_grad");
        own = hd_cast(gradient, (hd_dtype)t->dtype);
        if (own != NULL && !thread->executor->captures) own = hd_to(own, t->storage->device);
        if (own != NULL && own == gradient) own = hd_copy(own);
        if (own != NULL) hd_object_retain(&own->object);
        hd_span_end(&span, NULL);
        thread->observer = observer;
        if (own == NULL) return;
    }
    replace(thread, t, own, own != NULL);
}

/* ---- hooks, and gradients of results ----------------------------------------------------------------------------- */
/* Lets backward see the slot of a result. */
static hd_error watch(hd_thread *thread, hd_tensor *t) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL) return thread->error_code;
    hd_tape *tape = &tapes->active->tape;
    const uint32_t edge = hd_edge_on(tape, t);
    if (edge == 0)
        return hd_fail(HD_ERROR_STATE, "the tensor %s is not on the tape of context %lld",
                       HD_SHAPE_TEXT(t->layout.shape), (long long)tapes->active->id);
    hd_slot *slot = hd_slot_of(thread, t);
    if (slot == NULL) return thread->error_code;
    hd_record *r = tape->records[edge / 2];
    for (uint32_t i = r->watch; i != 0; i = tape->watches[i - 1].next)
        if (tape->watches[i - 1].edge == edge) return HD_OK;
    if (tape->watch_count == tape->watch_capacity) {
        const uint32_t capacity = tape->watch_capacity ? tape->watch_capacity * 2 : 8;
        hd_watch *watches = hd_array_resize(tape->watches, capacity * sizeof *watches);
        if (watches == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to watch %u results", capacity);
        tape->watches = watches;
        tape->watch_capacity = capacity;
    }
    hd_object_retain(&slot->object);
    tape->watches[tape->watch_count++] = (hd_watch){edge, r->watch, slot};
    r->watch = tape->watch_count;
    return HD_OK;
}

static hd_error check_tracked(const hd_tensor *t) {
    HD_TRY(hd_tensor_check(t, "t"));
    if (!hd_dtype_is_float((hd_dtype)t->dtype))
        return hd_fail(HD_ERROR_DTYPE, "%s has no gradients, only floats have", hd_dtype_name((hd_dtype)t->dtype));
    return t->tracking != HD_UNTRACKED
               ? HD_OK
               : hd_fail(HD_ERROR_STATE,
                         "the tensor %s has no gradient: it neither requires one nor comes from one that does",
                         HD_SHAPE_TEXT(t->layout.shape));
}

hd_tensor *hd_retain_grad(hd_tensor *t) {
    HD_ENTER("hd_retain_grad", NULL);
    HD_TRY_OR(check_tracked(t), NULL);
    if (t->tracking == HD_TRACKED_LEAF) return t;
    HD_TRY_OR(watch(thread, t), NULL);
    hd_slot *slot = hd_slot_get(t);
    uint32_t ends;
    HD_TRY_OR(hd_slot_enter(thread, slot, t, true, &ends), NULL);
    slot->kept = true;
    hd_slot_leave(slot, ends);
    return t;
}

void hd_add_grad_hook(hd_tensor *t, hd_grad_hook fn, void *user) {
    HD_ENTER("hd_add_grad_hook", );
    if (check_tracked(t) != HD_OK) return;
    if (fn == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
        return;
    }
    if (t->tracking == HD_TRACKED_RESULT && watch(thread, t) != HD_OK) return;
    hd_slot *slot = hd_slot_of(thread, t);
    if (slot == NULL) return;
    uint32_t ends;
    if (hd_slot_enter(thread, slot, t, true, &ends) != HD_OK) return;
    hd_hooks *hooks = slot->hooks;
    uint32_t count = hooks != NULL ? hooks->count : 0;
    if (hooks == NULL || count == hooks->capacity) {
        hd_hooks *longer = copy_hooks(hooks, count + 2);
        if (longer != NULL) longer->older = hooks;
        hooks = longer;
    }
    if (hooks != NULL) {
        hooks->hook[count] = (hd_hook){fn, user, thread->walks > 0 ? thread->walk_number : 0};
        atomic_store_explicit(&hooks->count, count + 1, memory_order_release);
        slot->hooks = hooks;
    }
    hd_slot_leave(slot, ends);
}
