/* Checkpoints: one record for a whole function, which backward recomputes.
 *
 * fn runs in a context of its own, where everything from outside that it reads becomes a leaf. Those leaves are the
 * inputs of the record; the tape inside, with all it saved, goes at once. */
#include "grad/tape.h"

typedef struct recomputed {
    hd_external external;
    hd_function fn;
    void *user;
    hd_tensors *inputs, *leaves; /* what fn takes; what it read of tracked tensors. Retained */
    uint64_t seed, draw;         /* of the generator, so that dropout is the same again */
    uint32_t versions[];         /* of the leaves, then of the inputs */
} recomputed;

static void recomputed_destroy(hd_thread *thread, hd_object *object) {
    recomputed *c = (recomputed *)object;
    hd_object_release(thread, &c->inputs->object);
    hd_object_release(thread, &c->leaves->object);
    hd_array_release(c);
}
static const hd_kind recomputed_kind = {.name = "recomputation", .destroy = recomputed_destroy};

static uint32_t version_of(const hd_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* The tensors from outside that the newest context's tape has as leaves, as a list of the current scope. */
static hd_tensors *leaves_of(hd_thread *thread, const hd_tape *tape) {
    hd_tensors *list = hd_tensors_new(thread, tape->leaves);
    int64_t count = 0;
    for (uint32_t i = 1; list != NULL && i <= tape->count; ++i) {
        if (tape->records[i]->op != NULL) continue;
        hd_tensor *leaf = hd_record_saved(tape->records[i])[0].tensor;
        bool known = false; /* a tensor may have several records, and its gradient is one */
        for (int64_t k = 0; k < count && !known; ++k) known = list->items[k] == leaf;
        if (!known) hd_tensors_put(list, count++, leaf);
    }
    if (list != NULL) list->count = count;
    return list;
}

/* Checks that fn read nothing this time that it did not read then: its gradient would be lost. */
static hd_error check_leaves(hd_thread *thread, const recomputed *c, const hd_tape *tape) {
    const hd_tensors *now = leaves_of(thread, tape);
    if (now == NULL) return thread->error_code;
    for (int64_t i = 0; i < now->count; ++i) {
        bool known = false;
        for (int64_t k = 0; k < c->leaves->count && !known; ++k) known = c->leaves->items[k] == now->items[i];
        if (!known)
            return hd_fail(HD_ERROR_STATE, "the function of hd_recompute reads a tensor %s that it did not read before",
                           HD_SHAPE_TEXT(now->items[i]->layout.shape));
    }
    return HD_OK;
}

/* Checks that fn gave something, and the same as before: what has the shape and dtype of its gradient. */
static hd_error check_again(const hd_tensor *y, const hd_tensor *gradient) {
    HD_TRY(hd_tensor_check(y, "the result of hd_recompute's function"));
    if (hd_shape_equal(y->layout.shape, gradient->layout.shape) && y->dtype == gradient->dtype) return HD_OK;
    return hd_fail(HD_ERROR_STATE, "the function of hd_recompute gives %s of %s now, and gave %s of %s before",
                   HD_SHAPE_TEXT(y->layout.shape), hd_dtype_name((hd_dtype)y->dtype),
                   HD_SHAPE_TEXT(gradient->layout.shape), hd_dtype_name((hd_dtype)gradient->dtype));
}

/* A longjmp out of fn while backward runs: that has the rest. */
static void again_left(hd_thread *thread, const hd_ending *ending) {
    (void)thread;
    hd_generator_set(NULL, ending->number[0], ending->number[1]);
}

static void look_at_generator(hd_thread *thread, uint64_t *seed, uint64_t *draw) {
    HD_KEEP_NAME(thread);
    *seed = hd_generator_seed(NULL);
    *draw = hd_generator_draw(NULL);
}

static hd_tensor *call(hd_thread *thread, hd_function fn, hd_tensors *inputs, void *user) {
    HD_CALLBACK(thread);
    return fn(inputs, user);
}

static void recompute_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    recomputed *c = (recomputed *)self;
    for (int64_t i = 0; i < c->leaves->count + c->inputs->count; ++i) {
        const hd_tensor *t = i < c->leaves->count ? c->leaves->items[i] : c->inputs->items[i - c->leaves->count];
        if (version_of(t) == c->versions[i]) continue;
        hd_fail(HD_ERROR_STATE,
                "a tensor %s that a recomputation reads was changed in place since; call hd_backward before",
                HD_SHAPE_TEXT(t->layout.shape));
        return;
    }
    uint64_t seed, draw;
    look_at_generator(thread, &seed, &draw);
    if (hd_ending_push(thread, again_left, NULL, seed, draw) != HD_OK) return;
    const uint32_t ending = hd_ending_last(thread);
    if (hd_context_enter(thread, HD_FRAME_CONTEXT, self) == NULL) {
        hd_ending_pop(thread, ending);
        return;
    }
    const uint32_t depth = thread->tapes->head.frame_count;
    thread->observer = hd_observer_for(true);
    hd_generator_set(NULL, c->seed, c->draw);
    const uint32_t floor = thread->tapes->floor;
    thread->tapes->floor = depth;
    hd_tensor *y = call(thread, c->fn, c->inputs, c->user);
    thread->tapes->floor = floor;
    hd_ending_pop(thread, ending);
    hd_generator_set(NULL, seed, draw);
    if (thread->error_code == HD_OK) check_again(y, gradient);
    if (thread->error_code == HD_OK && thread->tapes->head.frame_count == depth)
        check_leaves(thread, c, &thread->tapes->active->tape);
    hd_tensors *gradients =
        thread->error_code != HD_OK ? NULL : hd_gradients_inside(thread, &y, &gradient, 1, c->leaves);
    hd_context_leave(thread, depth, "the function of hd_recompute");
    for (int64_t i = 0; gradients != NULL && i < c->leaves->count; ++i) results[i] = gradients->items[i];
}

static recomputed *new_recomputed(hd_function fn, void *user, hd_tensors *inputs, hd_tensors *leaves, uint64_t seed,
                                  uint64_t draw, const uint32_t *input_versions) {
    recomputed *c = hd_array_resize(NULL, sizeof *c + (size_t)(leaves->count + inputs->count) * sizeof *c->versions);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a recomputation of %lld inputs", (long long)leaves->count);
        return NULL;
    }
    *c = (recomputed){.external = {.name = "hd_recompute", .vjp = recompute_vjp},
                      .fn = fn,
                      .user = user,
                      .inputs = inputs,
                      .leaves = leaves,
                      .seed = seed,
                      .draw = draw};
    hd_object_init(&c->external.object, &recomputed_kind);
    hd_object_retain(&inputs->object);
    hd_object_retain(&leaves->object);
    for (int64_t i = 0; i < leaves->count; ++i) c->versions[i] = version_of(leaves->items[i]);
    for (int64_t i = 0; i < inputs->count; ++i) c->versions[leaves->count + i] = input_versions[i];
    return c;
}

/* A longjmp out of fn: its context is a block's, and ends with the scope. */
static void left(hd_thread *thread, const hd_ending *ending) {
    ((hd_tapes *)(uintptr_t)ending->number[1])->floor = (uint32_t)ending->number[0];
    thread->walks--;
    hd_array_release(ending->object);
}

hd_tensor *hd_recompute(hd_function fn, void *user, hd_tensors *inputs) {
    HD_ENTER("hd_recompute", NULL);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), NULL);
    if (fn == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
        return NULL;
    }
    /* no tape to spare; and a builder plans memory by itself */
    if (thread->observer == NULL || thread->observer->writes == NULL || thread->executor->captures) {
        hd_tensor *y = call(thread, fn, inputs, user);
        return thread->error_code == HD_OK && hd_tensor_check(y, "the function's result") == HD_OK ? y : NULL;
    }
    uint64_t seed, draw;
    look_at_generator(thread, &seed, &draw);
    uint32_t *versions = hd_array_resize(NULL, (size_t)(inputs->count + 1) * sizeof *versions);
    if (versions == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a recomputation");
        return NULL;
    }
    for (int64_t i = 0; i < inputs->count; ++i) versions[i] = version_of(inputs->items[i]); /* fn might write them */
    hd_scope_token scope = hd_scope_within(thread, &scope);
    const uint32_t endings = thread->ending_count;
    hd_tapes *tapes = hd_tapes_of(thread);
    const uint32_t floor = tapes != NULL ? tapes->floor : 0;
    if (tapes == NULL || hd_ending_push(thread, left, versions, floor, (uintptr_t)tapes) != HD_OK ||
        hd_context_enter(thread, HD_FRAME_CONTEXT, &scope) == NULL) {
        thread->ending_count = endings;
        hd_scope_close(thread, &scope);
        hd_array_release(versions);
        return NULL;
    }
    const hd_tape *tape = &tapes->active->tape;
    const uint32_t depth = tapes->head.frame_count;
    tapes->floor = depth; /* fn may not end what is around it */
    thread->walks++;      /* nor start a builder */
    hd_tensor *y = call(thread, fn, inputs, user);
    hd_ending_pop(thread, endings);
    thread->walks--;
    tapes->floor = floor;
    if (thread->error_code == HD_OK) hd_tensor_check(y, "the function's result");
    hd_frames_restore(thread, depth, "the function of hd_recompute");
    const uint32_t edge = thread->error_code == HD_OK ? hd_edge_on(tape, y) : 0;
    const bool computed = edge != 0 && tape->records[edge / 2]->op != NULL;
    hd_tensors *leaves = computed ? leaves_of(thread, tape) : NULL;
    hd_context_leave(thread, depth, "");
    if (leaves != NULL) {
        recomputed *c = new_recomputed(fn, user, inputs, leaves, seed, draw, versions);
        if (c != NULL) {
            hd_record_external(thread, y, leaves, &c->external);
            hd_object_release(thread, &c->external.object);
        }
    }
    hd_array_release(versions);
    if (scope.self != NULL) hd_keep_object(y);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? y : NULL;
}
