/* Gradients of the user's own: one record for a whole function, whose gradient is another function.
 *
 * The first runs without a tape, so that its inside has no history, and its result is a new tensor, also where the
 * function gives back an input. Of what it saved the result itself is exchanged for that tensor: a second derivative
 * then knows where it comes from. */
#include "grad/tape.h"

#include <string.h>

/* What an input was, which its gradient must be. */
typedef struct of_input {
    hd_shape shape;
    hd_dtype dtype;
} of_input;

typedef struct own_gradient {
    hd_external external;
    hd_custom_backward backward;
    void *user;
    hd_saved saved[HD_SAVED_MOST]; /* retained; NULL where nothing was put */
    int64_t input_count;
    of_input inputs[];
} own_gradient;

static void own_gradient_destroy(hd_thread *thread, hd_object *object) {
    own_gradient *own = (own_gradient *)object;
    for (int i = 0; i < HD_SAVED_MOST; ++i) hd_tensor_drop(thread, own->saved[i].tensor);
    hd_array_release(own);
}
static const hd_kind own_gradient_kind = {.name = "gradient of one's own", .destroy = own_gradient_destroy};

static uint32_t version_of(const hd_tensor *t) {
    return atomic_load_explicit(&t->storage->version, memory_order_relaxed);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */
static hd_error check_saved(const own_gradient *own) {
    for (int i = 0; i < HD_SAVED_MOST; ++i) {
        const hd_saved *s = &own->saved[i];
        if (s->tensor != NULL && version_of(s->tensor) != s->version)
            return hd_fail(HD_ERROR_STATE,
                           "saved[%d] of hd_custom_gradient, %s, was changed in place after it was saved; write into a "
                           "copy (hd_copy), or call hd_backward before the write",
                           i, HD_SHAPE_TEXT(s->tensor->layout.shape));
    }
    return HD_OK;
}

static hd_error check_results(const own_gradient *own, hd_tensor *const *results) {
    for (int64_t i = 0; i < own->input_count; ++i) {
        const hd_tensor *g = results[i];
        if (g == NULL) continue;
        HD_TRY(hd_tensor_check(g, "a gradient of hd_custom_gradient's backward"));
        if (!hd_shape_equal(g->layout.shape, own->inputs[i].shape) || (hd_dtype)g->dtype != own->inputs[i].dtype)
            return hd_fail(HD_ERROR_SHAPE,
                           "the backward of hd_custom_gradient gives %s of %s for input %lld, which is %s of %s",
                           HD_SHAPE_TEXT(g->layout.shape), hd_dtype_name((hd_dtype)g->dtype), (long long)i,
                           HD_SHAPE_TEXT(own->inputs[i].shape), hd_dtype_name(own->inputs[i].dtype));
    }
    return HD_OK;
}

static void own_vjp(hd_thread *thread, hd_external *self, hd_tensor *gradient, hd_tensor **results) {
    const own_gradient *own = (const own_gradient *)self;
    if (check_saved(own) != HD_OK) return;
    hd_tensor *saved[HD_SAVED_MOST];
    for (int i = 0; i < HD_SAVED_MOST; ++i) saved[i] = own->saved[i].tensor;
    hd_tapes *tapes = thread->tapes;
    const uint32_t depth = tapes->head.frame_count, floor = tapes->floor, version = version_of(gradient);
    tapes->floor = depth; /* backward may not end what is around it */
    {
        HD_CALLBACK(thread);
        own->backward(gradient, saved, results, own->user);
    }
    tapes->floor = floor;
    hd_frames_restore(thread, depth, "the backward of hd_custom_gradient");
    if (thread->error_code != HD_OK) return;
    if (version_of(gradient) != version) { /* others may hold it too */
        hd_fail(HD_ERROR_STATE, "the backward of hd_custom_gradient wrote into the gradient it was given; others may "
                                "read it, too");
        return;
    }
    check_results(own, results);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */
static hd_error check_forward(const hd_tensor *y, hd_tensor *const *saved) {
    HD_TRY(hd_tensor_check(y, "the result of hd_custom_gradient's forward"));
    for (int i = 0; i < HD_SAVED_MOST; ++i)
        if (saved[i] != NULL) HD_TRY(hd_tensor_check(saved[i], "what hd_custom_gradient's forward saved"));
    return HD_OK;
}

/* A longjmp out of forward: its block ends with the scope. */
static void left(hd_thread *thread, const hd_ending *ending) {
    ((hd_tapes *)(uintptr_t)ending->number[1])->floor = (uint32_t)ending->number[0];
    thread->walks--;
}

/* forward(inputs), under HD_NO_GRAD; NULL with an error. */
static hd_tensor *run_forward(hd_thread *thread, hd_custom_forward forward, hd_tensors *inputs, hd_tensor **saved,
                              void *user) {
    hd_tapes *tapes = hd_tapes_of(thread);
    const uint32_t floor = tapes != NULL ? tapes->floor : 0, ending = thread->ending_count;
    if (tapes == NULL || hd_ending_push(thread, left, NULL, floor, (uintptr_t)tapes) != HD_OK) return NULL;
    if (hd_context_enter(thread, HD_FRAME_NO_GRAD, saved) == NULL) {
        thread->ending_count = ending;
        return NULL;
    }
    const uint32_t depth = tapes->head.frame_count;
    tapes->floor = depth; /* forward may not end what is around it */
    thread->walks++;      /* nor start a builder */
    hd_tensor *y;
    {
        HD_CALLBACK(thread);
        y = forward(inputs, saved, user);
    }
    hd_ending_pop(thread, ending);
    thread->walks--;
    tapes->floor = floor;
    hd_context_leave(thread, depth, "the forward of hd_custom_gradient");
    return thread->error_code == HD_OK && check_forward(y, saved) == HD_OK ? y : NULL;
}

static own_gradient *new_own_gradient(hd_custom_backward backward, void *user, const hd_tensors *inputs,
                                      hd_tensor *const *saved) {
    own_gradient *own = hd_array_resize(NULL, sizeof *own + (size_t)inputs->count * sizeof *own->inputs);
    if (own == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to note %lld inputs", (long long)inputs->count);
        return NULL;
    }
    *own = (own_gradient){
        .external = {.name = "a function with a gradient of its own", .vjp = own_vjp, .differentiable = true},
        .backward = backward,
        .user = user,
        .input_count = inputs->count};
    hd_object_init(&own->external.object, &own_gradient_kind);
    for (int i = 0; i < HD_SAVED_MOST; ++i) {
        if (saved[i] == NULL) continue;
        hd_object_retain(&saved[i]->object);
        own->saved[i] = (hd_saved){saved[i], version_of(saved[i])};
    }
    for (int64_t i = 0; i < inputs->count; ++i)
        own->inputs[i] = (of_input){inputs->items[i]->layout.shape, (hd_dtype)inputs->items[i]->dtype};
    return own;
}

/* Whether anything is to be noted: a tape watches, and some input is on it. */
static bool is_noted(const hd_thread *thread, const hd_tensors *inputs, const hd_tensor *y) {
    bool tracked = false;
    for (int64_t i = 0; i < inputs->count; ++i) tracked = tracked || inputs->items[i]->tracking != HD_UNTRACKED;
    return tracked && hd_dtype_is_float((hd_dtype)y->dtype) && thread->observer != NULL &&
           thread->observer->writes != NULL;
}

/* The result as a tensor of its own, with the record that leads back from it. */
static hd_tensor *with_history(hd_thread *thread, hd_tensor *y, const hd_tensors *inputs, hd_custom_backward backward,
                               void *user, hd_tensor **saved) {
    HD_KEEP_NAME(thread);
    hd_tensor *own_result = hd_detach(y);
    if (own_result == NULL || !is_noted(thread, inputs, y)) return own_result;
    for (int i = 0; i < HD_SAVED_MOST; ++i)
        if (saved[i] == y) saved[i] = own_result;
    own_gradient *own = new_own_gradient(backward, user, inputs, saved);
    if (own == NULL) return NULL;
    hd_record_external(thread, own_result, inputs, &own->external);
    hd_object_release(thread, &own->external.object);
    return own_result;
}

hd_tensor *hd_custom_gradient(hd_custom_forward forward, hd_custom_backward backward, void *user, hd_tensors *inputs) {
    HD_ENTER("hd_custom_gradient", NULL);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), NULL);
    if (forward == NULL || backward == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", forward == NULL ? "forward" : "backward");
        return NULL;
    }
    hd_tensor *saved[HD_SAVED_MOST] = {NULL};
    hd_scope_token scope = hd_scope_within(thread, &scope);
    /* The scope holds the list, which forward may release. */
    hd_tensor *y =
        hd_scope_share(thread, &inputs->object) == NULL ? NULL : run_forward(thread, forward, inputs, saved, user);
    if (y != NULL) y = with_history(thread, y, inputs, backward, user, saved);
    if (scope.self != NULL) hd_keep_object(y);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? y : NULL;
}
