/* Gradients as values: hd_grad_of, and the products with the Jacobian that follow from it. */
#include "grad/walk.h"

/* hd_grad_of: the hooks of leaves, when all of their gradient was found. */
static hd_error run_leaf_hooks(hd_walk *w) {
    for (int64_t i = 0; i < w->wanted->count && !w->inside; ++i) {
        const hd_tensor *leaf = w->wanted->items[i];
        if (leaf->tracking != HD_TRACKED_LEAF || hd_slot_get(leaf) == NULL || w->found[i] == NULL) continue;
        hd_tensor *gradient = w->found[i];
        HD_TRY(hd_walk_hooks(w, hd_slot_get(leaf), "a leaf", &gradient));
        if (gradient == w->found[i]) continue;
        hd_object_retain(&gradient->object);
        hd_tensor_drop(w->thread, w->found[i]);
        w->found[i] = gradient;
    }
    return HD_OK;
}

/* What kind of walk grad_of makes. */
enum { DIFFERENTIABLE = 1, INSIDE = 2, WITHOUT_HOOKS = 4 };

/* Checks that input i can have a gradient; what a recomputation read may be integers, whose gradients are zero. */
static hd_error check_input(const hd_tensor *t, int64_t i, unsigned kind) {
    if (t->tracking == HD_UNTRACKED)
        return hd_fail(HD_ERROR_STATE,
                       "input %lld, %s, has no gradient: it neither requires one nor comes from one that does",
                       (long long)i, HD_SHAPE_TEXT(t->layout.shape));
    if (!(kind & INSIDE) && !hd_dtype_is_float((hd_dtype)t->dtype))
        return hd_fail(HD_ERROR_DTYPE, "input %lld, %s, is %s; only floats have gradients", (long long)i,
                       HD_SHAPE_TEXT(t->layout.shape), hd_dtype_name((hd_dtype)t->dtype));
    return HD_OK;
}

/* Of several losses together. */
typedef struct start {
    hd_tensor *const *losses, **seeds; /* seeds: as given, then as the losses need them */
    uint32_t *edges;
    int64_t count;
} start;

static hd_error find_edges(hd_thread *thread, const hd_tapes *tapes, const start *s) {
    for (int64_t i = 0; i < s->count; ++i) HD_TRY(hd_walk_check(thread, tapes, s->losses[i], &s->edges[i]));
    return HD_OK;
}

static hd_error walk_from(hd_walk *w, const start *s) {
    for (int64_t i = 0; i < s->count; ++i)
        if ((s->seeds[i] = hd_walk_seed(s->losses[i], s->seeds[i])) == NULL) return w->thread->error_code;
    return hd_walk_run(w, s->edges, s->seeds, s->count);
}

static hd_tensors *gradients_of(hd_thread *thread, const start *s, const hd_tensors *inputs, unsigned kind) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL || hd_tensors_check(inputs, "inputs") != HD_OK || find_edges(thread, tapes, s) != HD_OK)
        return NULL;
    for (int64_t i = 0; i < inputs->count; ++i) HD_TRY_OR(check_input(inputs->items[i], i, kind), NULL);
    hd_tensors *list = hd_tensors_new(thread, inputs->count);
    hd_walk *w = list == NULL ? NULL : hd_walk_begin(thread, tapes, kind & DIFFERENTIABLE ? thread->observer : NULL);
    if (w == NULL) return NULL;
    w->wanted = inputs;
    w->found = list->items;
    w->inside = (kind & INSIDE) != 0;
    w->without_hooks = (kind & WITHOUT_HOOKS) != 0;
    hd_span span;
    hd_span_begin(&span, thread, "grad_of");
    if (walk_from(w, s) == HD_OK) run_leaf_hooks(w);
    if (thread->error_code == HD_OK && !w->inside) hd_tape_walked(w->context);
    for (int64_t i = 0; i < inputs->count && thread->error_code == HD_OK; ++i) {
        if (list->items[i] != NULL) continue;
        hd_tensor *zeros = hd_zeros_like(inputs->items[i]);
        if (zeros != NULL) hd_tensors_put(list, i, zeros);
    }
    hd_span_end(&span, NULL);
    hd_walk_end(w);
    return thread->error_code == HD_OK ? list : NULL;
}

static hd_tensors *grad_of(hd_thread *thread, hd_tensor *loss, const hd_tensors *inputs, hd_tensor *seed,
                           unsigned kind) {
    uint32_t edge;
    return gradients_of(thread, &(start){&loss, &seed, &edge, 1}, inputs, kind);
}

hd_tensors *hd_grad_of(hd_tensor *loss, hd_tensors *inputs, const hd_grad_of_opts *opts) {
    HD_ENTER("hd_grad_of", NULL);
    HD_READ_OPTS(hd_grad_of_opts, opts, NULL);
    return grad_of(thread, loss, inputs, options.seed, options.differentiable ? DIFFERENTIABLE : 0);
}

/* A longjmp out of a hook or a vjp of the user's. */
static void seeds_left(hd_thread *thread, const hd_ending *ending) {
    (void)thread;
    hd_array_release(ending->object);
}

hd_tensors *hd_gradients_inside(hd_thread *thread, hd_tensor *const *losses, hd_tensor *const *seeds, int64_t count,
                                const hd_tensors *inputs) {
    hd_tensor **own = hd_array_resize(NULL, (size_t)count * (sizeof *own + sizeof(uint32_t)));
    if (own == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory to walk back from %lld tensors", (long long)count);
        return NULL;
    }
    if (hd_ending_push(thread, seeds_left, own, 0, 0) != HD_OK) {
        hd_array_release(own);
        return NULL;
    }
    const uint32_t ending = hd_ending_last(thread);
    for (int64_t i = 0; i < count; ++i) own[i] = seeds[i];
    hd_tensors *list = gradients_of(thread, &(start){losses, own, (uint32_t *)(own + count), count}, inputs, INSIDE);
    hd_ending_pop(thread, ending);
    hd_array_release(own);
    return list;
}

hd_tensors *hd_vjp(hd_tensor *y, hd_tensors *inputs, hd_tensor *seed) {
    HD_ENTER("hd_vjp", NULL);
    HD_TRY_OR(hd_tensor_check(seed, "seed"), NULL);
    return grad_of(thread, y, inputs, seed, 0);
}

/* The vjp is linear in its seed u: its derivative by u, times the tangents, is the product with the Jacobian. */
hd_tensor *hd_jvp(hd_tensor *y, hd_tensors *inputs, hd_tensors *tangents) {
    HD_ENTER("hd_jvp", NULL);
    HD_TRY_OR(hd_tensor_check(y, "y"), NULL);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), NULL);
    HD_TRY_OR(hd_tensors_check(tangents, "tangents"), NULL);
    bool fits = inputs->count == tangents->count;
    for (int64_t i = 0; i < inputs->count && fits; ++i)
        fits = hd_shape_equal(inputs->items[i]->layout.shape, tangents->items[i]->layout.shape);
    if (!fits) {
        hd_fail(HD_ERROR_SHAPE, "%lld tangents for %lld inputs: there must be one for each, of its shape",
                (long long)tangents->count, (long long)inputs->count);
        return NULL;
    }
    hd_span span;
    hd_span_begin(&span, thread, "jvp");
    hd_tensor *u = hd_zeros_like(y), *product = NULL;
    if (u != NULL) u->tracking = HD_TRACKED_LEAF; /* also while a builder records */
    hd_tensors *pulled = u == NULL ? NULL : grad_of(thread, y, inputs, u, DIFFERENTIABLE | WITHOUT_HOOKS);
    for (int64_t i = 0; pulled != NULL && i < inputs->count; ++i) {
        hd_tensor *part = hd_sum(hd_mul(pulled->items[i], tangents->items[i]), HD_AXES(), NULL);
        product = product == NULL ? part : hd_add(product, part);
    }
    hd_tensor *result = NULL;
    if (thread->error_code == HD_OK && (product == NULL || product->tracking == HD_UNTRACKED)) {
        result = hd_zeros_like(y); /* y does not depend on any of them */
    } else if (product != NULL) {
        hd_tensors *by_u = grad_of(thread, product, hd_tensors_from(&u, 1), NULL, WITHOUT_HOOKS);
        if (by_u != NULL) result = hd_scope_share(thread, &by_u->items[0]->object);
    }
    return hd_span_end(&span, result);
}
