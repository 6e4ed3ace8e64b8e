/* Checkpoints: one record for a whole function, which backward computes anew.
 *
 * fn runs in a context of its own, where everything from outside that it reads becomes a leaf. Those leaves are the inputs
 * of the record; the tape inside, with all it saved, goes at once. */
#include "grad/tape.h"

const hd_op hd_op_checkpoint = {.name = "checkpoint", .family = HD_FAMILY_VIEW, .outputs = 1};

/* The tensors from outside that the newest context's tape has as leaves, as a list of the current scope. */
static hd_tensors *leaves_of(hd_thread *thread, const hd_tape *tape) {
    int64_t count = 0;
    for (uint32_t i = 1; i <= tape->count; ++i) count += tape->records[i]->op == NULL;
    hd_tensors *list = hd_tensors_new(thread, count);
    for (uint32_t i = 1, k = 0; list != NULL && i <= tape->count; ++i)
        if (tape->records[i]->op == NULL) hd_tensors_put(list, k++, hd_record_saved(tape->records[i])[0].tensor);
    return list;
}

static uint32_t version_of(const hd_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

static hd_error record_checkpoint(hd_thread *thread, hd_tensor *y, hd_function fn, void *user, hd_tensors *inputs,
                                  hd_tensors *leaves, uint64_t seed, uint64_t draw) {
    hd_tapes *tapes = thread->tapes;
    hd_tape *tape = &tapes->active->tape;
    uint32_t *edges = hd_array_resize(NULL, (size_t)(leaves->count + 1) * sizeof *edges);
    if (edges == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %lld inputs", (long long)leaves->count);
    for (int64_t i = 0; i < leaves->count; ++i) edges[i] = hd_edge_of(thread, tape, leaves->items[i]);
    hd_record *r = thread->error_code != HD_OK
                       ? NULL
                       : hd_record_new(thread, tape, &hd_op_checkpoint, leaves->count, 0, 0,
                                       sizeof(hd_checkpoint_attributes) + (size_t)leaves->count * sizeof(uint32_t) +
                                           (size_t)inputs->count * sizeof(uint32_t));
    if (r != NULL) {
        hd_checkpoint_attributes *c = (hd_checkpoint_attributes *)((uint64_t *)r + r->attributes_at);
        c->fn = fn;
        c->user = user;
        c->inputs = inputs;
        c->leaves = leaves;
        c->seed = seed;
        c->draw = draw;
        hd_object_retain(&inputs->object);
        hd_object_retain(&leaves->object);
        for (int64_t i = 0; i < leaves->count; ++i) {
            r->edges[i] = edges[i];
            hd_record_dtypes(r)[i] = leaves->items[i]->dtype;
            c->versions[i] = version_of(leaves->items[i]);
        }
        for (int64_t i = 0; i < inputs->count; ++i) c->versions[leaves->count + i] = version_of(inputs->items[i]);
        r->dtype = r->compute = y->dtype;
        hd_place(thread, tapes, y, 0);
    }
    hd_array_release(edges);
    return thread->error_code;
}

hd_tensor *hd_checkpoint(hd_function fn, void *user, hd_tensors *inputs) {
    HD_ENTER("hd_checkpoint", NULL);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), NULL);
    if (fn == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`fn` is NULL");
        return NULL;
    }
    if (thread->observer == NULL || thread->observer->writes == NULL) return fn(inputs, user); /* no tape to spare */
    const uint64_t seed = hd_generator_seed(NULL), draw = hd_generator_draw(NULL);
    hd_scope_token scope = hd_scope_begin(&scope, __FILE__, __LINE__);
    if (hd_context_enter(thread, HD_FRAME_CONTEXT, &scope) == NULL) {
        hd_scope_close(thread, &scope);
        return NULL;
    }
    const hd_tape *tape = &thread->tapes->active->tape;
    const uint32_t depth = thread->tapes->frame_count;
    hd_tensor *y = fn(inputs, user);
    thread->call = "hd_checkpoint";
    hd_frames_restore(thread, depth, "the function of hd_checkpoint");
    const uint32_t edge = y != NULL && thread->error_code == HD_OK ? hd_edge_on(tape, y) : 0;
    const bool computed = edge != 0 && tape->records[edge / 2]->op != NULL;
    hd_tensors *leaves = computed ? leaves_of(thread, tape) : NULL;
    hd_context_leave(thread, depth, "");
    thread->call = "hd_checkpoint";
    if (leaves != NULL) record_checkpoint(thread, y, fn, user, inputs, leaves, seed, draw);
    if (scope.self != NULL) hd_keep_object(y);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? y : NULL;
}

void hd_checkpoint_vjp(hd_thread *thread, hd_record *r, hd_tensor *gradient, hd_tensor **results) {
    const hd_checkpoint_attributes *c = hd_record_attributes(r);
    if (thread->observer != NULL) {
        hd_fail(HD_ERROR_STATE, "hd_checkpoint forgets what a second derivative needs; call the function itself there");
        return;
    }
    for (int64_t i = 0; i < c->leaves->count + c->inputs->count; ++i) {
        const hd_tensor *t = i < c->leaves->count ? c->leaves->items[i] : c->inputs->items[i - c->leaves->count];
        if (version_of(t) == c->versions[i]) continue;
        hd_fail(HD_ERROR_STATE, "a tensor %s that a checkpoint reads was changed in place since; call hd_backward before",
                HD_SHAPE_TEXT(t->layout.shape));
        return;
    }
    if (hd_context_enter(thread, HD_FRAME_CONTEXT, r) == NULL) return;
    const uint32_t depth = thread->tapes->frame_count;
    thread->observer = hd_observer_for(true);
    const uint64_t seed = hd_generator_seed(NULL), draw = hd_generator_draw(NULL);
    hd_generator_set(NULL, c->seed, c->draw);
    hd_tensor *y = c->fn(c->inputs, c->user);
    hd_generator_set(NULL, seed, draw);
    hd_tensors *gradients =
        y == NULL || thread->error_code != HD_OK ? NULL : hd_gradients_inside(thread, y, c->leaves, gradient);
    hd_context_leave(thread, depth, "the function of hd_checkpoint");
    for (int64_t i = 0; gradients != NULL && i < c->leaves->count; ++i) results[i] = gradients->items[i];
}
