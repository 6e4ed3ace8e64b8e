/* Leaves and their gradients. */
#include "grad/tape.h"

/* ---- slots ------------------------------------------------------------------------------------------------------- */
static void slot_destroy(hd_thread *thread, hd_object *object) {
    hd_slot *slot = (hd_slot *)object;
    hd_tensor_drop(thread, slot->gradient);
    hd_array_release(slot->hooks);
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
    if (!is_apart(thread, t)) return (hd_slot *)t->history.slot;
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

static hd_slot *slot_apart(hd_thread *thread, hd_tensor *t) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL || (tapes->apart_count * 2 >= tapes->apart_size && grow_apart(tapes) != HD_OK)) return NULL;
    const uint32_t at = place_apart(tapes, t);
    if (tapes->apart[at].slot != NULL) return tapes->apart[at].slot;
    hd_slot *slot = new_slot();
    if (slot == NULL) return NULL;
    const hd_slot *outside = (const hd_slot *)t->history.slot;
    if (outside != NULL && outside->hook_count > 0) { /* they run inside too */
        slot->hooks = hd_array_resize(NULL, outside->hook_count * sizeof *slot->hooks);
        if (slot->hooks == NULL) {
            hd_array_release(slot);
            hd_fail(HD_ERROR_MEMORY, "no memory for hooks");
            return NULL;
        }
        for (uint32_t i = 0; i < outside->hook_count; ++i) slot->hooks[i] = outside->hooks[i];
        slot->hook_count = outside->hook_count;
    }
    hd_object_retain(&t->object);
    tapes->apart[at].tensor = t;
    tapes->apart[at].slot = slot;
    tapes->apart_count++;
    return slot;
}

hd_slot *hd_slot_of(hd_thread *thread, hd_tensor *t) {
    if (is_apart(thread, t)) return slot_apart(thread, t);
    if (t->history.slot == NULL) {
        hd_slot *slot = new_slot();
        if (slot == NULL) return NULL;
        t->history.slot = &slot->object;
    }
    return (hd_slot *)t->history.slot;
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
                       "with HD_EAGER");
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
    const hd_slot *slot = hd_slot_get(t);
    return slot != NULL && slot->known;
}

bool hd_gradient_arrived(const hd_tensor *t) {
    const hd_slot *slot = hd_slot_get(t);
    return slot != NULL && slot->arrived;
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

hd_tensor *hd_grad(hd_tensor *t) {
    HD_ENTER("hd_grad", NULL);
    HD_TRY_OR(hd_tensor_check(t, "t"), NULL);
    hd_slot *slot = hd_slot_get(t);
    if (slot == NULL || !slot->known) {
        explain_missing(t, slot);
        return NULL;
    }
    if (slot->gradient == NULL) { /* zeroed: nobody wanted to see them until now */
        hd_observer *observer = thread->observer;
        thread->observer = NULL;
        HD_KEEP_NAME(thread);
        hd_tensor *zeros = hd_zeros(t->layout.shape, (hd_dtype)t->dtype);
        thread->observer = observer;
        if (zeros == NULL) return NULL;
        hd_object_retain(&zeros->object);
        slot->gradient = zeros;
        return zeros;
    }
    return hd_scope_share(thread, &slot->gradient->object);
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
    hd_slot *slot = hd_slot_of(thread, t);
    if (slot == NULL) return;
    hd_tensor_drop(thread, slot->gradient);
    slot->gradient = NULL;
    slot->known = true;
    slot->arrived = false;
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
    hd_slot *slot = hd_slot_of(thread, t);
    if (slot == NULL) return;
    hd_tensor *own = NULL;
    if (gradient != NULL) {
        hd_observer *observer = thread->observer;
        thread->observer = NULL;
        hd_span span;
        hd_span_begin(&span, thread, "set_grad");
        own = hd_cast(gradient, (hd_dtype)t->dtype);
        if (own != NULL && own == gradient) own = hd_copy(own);
        if (own != NULL) hd_object_retain(&own->object);
        hd_span_end(&span, NULL);
        thread->observer = observer;
        if (own == NULL) return;
    }
    hd_tensor_drop(thread, slot->gradient);
    slot->gradient = own;
    slot->known = slot->arrived = own != NULL;
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
    hd_slot_get(t)->kept = true;
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
    hd_hook *hooks = hd_array_resize(slot->hooks, (slot->hook_count + 1) * sizeof *hooks);
    if (hooks == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a hook");
        return;
    }
    slot->hooks = hooks;
    slot->hooks[slot->hook_count++] = (hd_hook){fn, user, thread->walks > 0 ? thread->walk_number : 0};
}
