/* Layers made of others, and of functions. */
#include "nn/module.h"

#include <stdio.h>

/* ---- by number: sequences and lists ------------------------------------------------------------------------------ */
/* Its modules, one after the other; parameters and buffers that were added to it are not called. */
static hd_tensor *sequential_forward(hd_module *m, hd_tensor *x) {
    hd_thread *thread = hd_thread_self();
    for (int64_t i = 0; i < m->member_count && x != NULL; ++i) {
        if (m->members[i].kind != HD_MEMBER_MODULE) continue;
        x = hd_module_forward_as(thread, m->members[i].object, m->members[i].name, x);
    }
    return x;
}
static const hd_module_class sequential_class = {.name = "sequential", .forward = sequential_forward};
static const hd_module_class list_class = {.name = "module_list"};

static hd_module *numbered(hd_thread *thread, const hd_module_class *class_, hd_module *const *modules, int64_t count) {
    hd_module *m = hd_module_new(class_, NULL);
    for (int64_t i = 0; i < count && m != NULL; ++i) {
        char name[24];
        if (modules[i] == NULL) {
            hd_fail(HD_ERROR_NULL_ARGUMENT, "module %lld of %lld is NULL", (long long)i, (long long)count);
            return NULL;
        }
        snprintf(name, sizeof name, "%lld", (long long)i);
        if (hd_module_add(m, name, modules[i]) == NULL) return NULL;
    }
    return thread->error_code == HD_OK ? m : NULL;
}

hd_module *hd_sequential(hd_module *const *modules, int64_t count) {
    HD_ENTER("hd_sequential", NULL);
    if (modules == NULL || count < 1) {
        hd_fail(HD_ERROR_VALUE, "%lld modules; there must be one at least", (long long)count);
        return NULL;
    }
    HD_KEEP_NAME(thread);
    return numbered(thread, &sequential_class, modules, count);
}

hd_module *hd_module_list(hd_module *const *modules, int64_t count) {
    HD_ENTER("hd_module_list", NULL);
    if (count < 0 || (modules == NULL && count > 0)) {
        hd_fail(HD_ERROR_VALUE, "%lld modules%s", (long long)count, modules == NULL ? ", and no array of them" : "");
        return NULL;
    }
    HD_KEEP_NAME(thread);
    return numbered(thread, &list_class, modules, count);
}

/* ---- x + module(x) ----------------------------------------------------------------------------------------------- */
static hd_tensor *residual_forward(hd_module *m, hd_tensor *x) {
    hd_tensor *y = hd_module_forward_as(hd_thread_self(), m->members[0].object, m->members[0].name, x);
    return hd_add(x, y);
}
static const hd_module_class residual_class = {.name = "residual", .forward = residual_forward};

hd_module *hd_residual(hd_module *module) {
    HD_ENTER("hd_residual", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_KEEP_NAME(thread);
    hd_module *m = hd_module_new(&residual_class, NULL);
    return hd_module_add(m, "module", module) != NULL ? m : NULL;
}

/* ---- axes as one ------------------------------------------------------------------------------------------------- */
typedef struct flatten_state {
    int from, to;
} flatten_state;

static hd_tensor *flatten_forward(hd_module *m, hd_tensor *x) {
    const flatten_state *s = m->state;
    const hd_shape shape = x->layout.shape;
    int from, to;
    if (shape.rank == 0) return hd_flatten(x);
    HD_TRY_OR(hd_axis_resolve(s->from, shape.rank, &from), NULL);
    HD_TRY_OR(hd_axis_resolve(s->to, shape.rank, &to), NULL);
    if (from > to) {
        hd_fail(HD_ERROR_AXIS, "axes %d to %d of %s; the first is not behind the last", s->from, s->to,
                HD_SHAPE_TEXT(shape));
        return NULL;
    }
    hd_shape flat = {.rank = shape.rank - (to - from)};
    for (int i = 0; i < flat.rank; ++i)
        flat.size[i] = i < from ? shape.size[i] : i == from ? 1 : shape.size[i + to - from];
    for (int i = from; i <= to; ++i) flat.size[from] *= shape.size[i];
    return hd_reshape(x, flat);
}
static const hd_module_class flatten_class = {
    .name = "flatten", .forward = flatten_forward, .destroy = hd_array_release, .copy = hd_module_copy_state};

hd_module *hd_flatten_layer(int from, int to) {
    HD_ENTER("hd_flatten_layer", NULL);
    HD_KEEP_NAME(thread);
    return hd_module_with(&flatten_class, &(flatten_state){from, to}, sizeof(flatten_state));
}

/* ---- a function -------------------------------------------------------------------------------------------------- */
typedef struct function_state {
    hd_tensor *(*function)(hd_tensor *x, void *user);
    void *user;
    void (*destroy)(void *user);
} function_state;

static hd_tensor *function_forward(hd_module *m, hd_tensor *x) {
    const function_state *s = m->state;
    return s->function(x, s->user);
}
static void function_destroy(void *state) {
    function_state *s = state;
    if (s->destroy != NULL) s->destroy(s->user);
    hd_array_release(s);
}
static void *function_copy(hd_module *to, const hd_module *from) {
    const function_state *s = from->state;
    if (s->destroy == NULL) return hd_module_copy_state(to, from);
    hd_fail(HD_ERROR_STATE, "a function layer that owns what its function is given cannot be copied");
    return NULL;
}
static const hd_module_class function_class = {
    .name = "function", .forward = function_forward, .destroy = function_destroy, .copy = function_copy};

hd_module *hd_function_layer(hd_tensor *(*function)(hd_tensor *x, void *user), void *user,
                             void (*destroy)(void *user)) {
    HD_ENTER("hd_function_layer", NULL);
    if (function == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`function` is NULL");
        return NULL;
    }
    HD_KEEP_NAME(thread);
    return hd_module_with(&function_class, &(function_state){function, user, destroy}, sizeof(function_state));
}
