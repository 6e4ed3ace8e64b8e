/* Forward of a module: what it is given and gives, and who is told that it runs. */
#include "nn/module.h"

#include <stdio.h>

typedef struct search {
    hd_thread *thread;
    hd_module *outer;
    const void *wanted;  /* a module or a tensor */
    bool found, missing; /* the outer one has it; it lacks a tensor that the inner one trains */
} search;
static hd_error find_wanted(hd_module *m, void *user) {
    search *s = user;
    s->found = s->found || m == s->wanted;
    for (int64_t i = 0; i < m->member_count && !s->found; ++i) s->found = m->members[i].object == s->wanted;
    return HD_OK;
}
static hd_error find_missing(hd_module *m, void *user) {
    search *s = user;
    for (int64_t i = 0; i < m->member_count && !s->missing; ++i) {
        const hd_tensor *t = m->members[i].object;
        if (m->members[i].kind == HD_MEMBER_MODULE || t->tracking == HD_UNTRACKED) continue;
        s->wanted = t;
        s->found = false;
        HD_TRY(hd_module_walk(s->thread, s->outer, 0, find_wanted, s));
        s->missing = !s->found;
    }
    return HD_OK;
}

/* A forward function calls a module that is none of its own, and trains tensors that are none of its own either: said
 * once, as these are neither trained nor saved with the outer one. */
static hd_error check_membership(hd_thread *thread, hd_module *outer, hd_module *inner) {
    _Atomic uintptr_t *checked = &inner->checked_in[((uintptr_t)outer >> 5 ^ (uintptr_t)outer >> 8) & 3];
    if (atomic_load_explicit(checked, memory_order_relaxed) == (uintptr_t)outer ||
        atomic_load_explicit(&inner->told, memory_order_relaxed))
        return HD_OK;
    search s = {.thread = thread, .outer = outer, .wanted = inner};
    HD_TRY(hd_module_walk(thread, outer, 0, find_wanted, &s));
    if (!s.found) HD_TRY(hd_module_walk(thread, inner, 0, find_missing, &s));
    if (!s.missing)
        atomic_store_explicit(checked, (uintptr_t)outer, memory_order_relaxed);
    else if (!atomic_exchange_explicit(&inner->told, true, memory_order_relaxed))
        hd_warn(thread,
                "the forward of a \"%s\" calls a \"%s\" that is no member of it: its parameters are not among "
                "hd_module_parameters; hd_module_add makes it a member",
                outer->class_->name, inner->class_->name);
    return HD_OK;
}

/* Notes that a module's forward runs, for messages. */
static hd_error push_layer(hd_thread *thread, const hd_layer *layer) {
    const uint32_t depth = thread->layer_count;
    if (depth >= HD_MODULE_DEPTH) return hd_module_refuse_depth(layer->module);
    if (depth > 0 && depth < HD_LAYERS_NOTED && layer->caller != NULL && thread->layers[depth - 1].module != NULL)
        HD_TRY(check_membership(thread, thread->layers[depth - 1].module, layer->module));
    if (depth < HD_LAYERS_NOTED) thread->layers[depth] = *layer;
    thread->layer_count++;
    return HD_OK;
}

/* A longjmp out of a forward function. */
static void forward_left(hd_thread *thread, const hd_ending *ending) {
    hd_module *m = ending->object;
    hd_module_leave(m, ending->number[0]);
    hd_object_release(thread, &m->object);
}

/* What a forward is given and gives: one tensor, or a list of them. */
typedef struct passage {
    const char *call; /* the public function */
    hd_tensor *x;
    hd_tensors *inputs; /* NULL: x alone */
    hd_tensor *y;
    hd_tensors *outputs; /* NULL: y alone */
} passage;

/* One input is a list of one for a class that takes lists, and the other way round. */
static hd_error fit_to_class(hd_thread *thread, const hd_module_class *c, passage *p) {
    if (c->forward == NULL && c->forward_all == NULL)
        return hd_fail(HD_ERROR_STATE, "a \"%s\" has no forward function; call the modules in it one by one", c->name);
    if (p->inputs == NULL && c->forward == NULL) {
        p->inputs = hd_tensors_new(thread, 1);
        if (p->inputs == NULL) return thread->error_code;
        hd_tensors_put(p->inputs, 0, p->x);
    } else if (p->inputs != NULL && c->forward_all == NULL) {
        if (p->inputs->count != 1)
            return hd_fail(HD_ERROR_VALUE, "a \"%s\" takes one input, and was given %lld", c->name,
                           (long long)p->inputs->count);
        p->x = p->inputs->items[0];
        p->inputs = NULL;
    }
    return HD_OK;
}

/* What a forward function gave is a living tensor, or a list of such, or there is an error. */
static void check_result(hd_thread *thread, const passage *p, const char *kind) {
    if (thread->error_code != HD_OK) return;
    if (p->inputs == NULL && p->y == NULL)
        hd_fail(HD_ERROR_NULL_ARGUMENT, "the forward function of a \"%s\" gave no tensor", kind);
    else if (p->inputs == NULL)
        hd_tensor_check(p->y, "the result of forward");
    else if (p->outputs == NULL ||
             (hd_tensors_check(p->outputs, "the result of forward") == HD_OK && p->outputs->count == 0))
        hd_fail(HD_ERROR_NULL_ARGUMENT, "the forward function of a \"%s\" gave no tensors", kind);
}

/* The class's function, with the module on the stack of layers. */
static void call_class(hd_thread *thread, hd_module *module, passage *p) {
    const void *outer_caller = thread->caller; /* as HD_CALLBACK does, without the name, which is the same for all */
    const uint32_t call_depth = thread->call_depth;
    thread->call = p->call;
    if (fit_to_class(thread, module->class_, p) != HD_OK) return;
    thread->call_depth = 0;
    if (p->inputs != NULL)
        p->outputs = module->class_->forward_all(module, p->inputs);
    else
        p->y = module->class_->forward(module, p->x);
    thread->call_depth = call_depth;
    thread->caller = outer_caller;
    thread->call = p->call;
    check_result(thread, p, module->class_->name);
}

/* A builder notes which module the calls came from: "0.linear" within a Sequential. */
static hd_error run_forward(hd_thread *thread, hd_module *module, const char *name, const void *caller, passage *p) {
    hd_executor *executor = thread->executor;
    const bool notes = executor->span_begin != NULL;
    const hd_layer layer = {module->class_->name, name, caller, module, p->x, p->inputs};
    uint64_t ends;
    HD_TRY(push_layer(thread, &layer));
    const uint32_t depth = thread->layer_count;
    hd_error status = hd_module_enter(thread, module, false, &ends);
    if (status == HD_OK) {
        status = hd_ending_push(thread, forward_left, module, ends, 0);
        if (status != HD_OK) hd_module_leave(module, ends);
    }
    if (status != HD_OK) {
        thread->layer_count = depth - 1;
        return status;
    }
    const uint32_t ending = hd_ending_last(thread);
    hd_object_retain(&module->object);
    if (notes) {
        char text[128];
        snprintf(text, sizeof text, "%s%s%s", name, name[0] != '\0' ? "." : "", module->class_->name);
        executor->span_begin(executor, thread, text, false);
    }
    call_class(thread, module, p);
    if (notes && thread->executor == executor) executor->span_end(executor, thread);
    hd_ending_pop(thread, ending);
    thread->layer_count = depth - 1;
    hd_module_leave(module, ends);
    hd_object_release(thread, &module->object);
    return thread->error_code;
}

static hd_tensor *forward_one(hd_thread *thread, hd_module *module, const char *name, const void *caller,
                              hd_tensor *x) {
    passage p = {.call = "hd_forward", .x = x};
    if (run_forward(thread, module, name, caller, &p) != HD_OK) return NULL;
    return p.inputs == NULL ? p.y : hd_scope_share(thread, &p.outputs->items[0]->object);
}

static hd_tensors *forward_list(hd_thread *thread, hd_module *module, const char *name, const void *caller,
                                hd_tensors *inputs) {
    passage p = {.call = "hd_forward_all", .inputs = inputs};
    if (run_forward(thread, module, name, caller, &p) != HD_OK) return NULL;
    if (p.inputs != NULL) return p.outputs;
    hd_tensors *list = hd_tensors_new(thread, 1);
    if (list != NULL) hd_tensors_put(list, 0, p.y);
    return list;
}

hd_tensor *hd_module_forward_as(hd_thread *thread, hd_module *module, const char *name, hd_tensor *x) {
    return thread->error_code == HD_OK ? forward_one(thread, module, name, NULL, x) : NULL;
}

hd_tensors *hd_module_forward_all_as(hd_thread *thread, hd_module *module, const char *name, hd_tensors *inputs) {
    return thread->error_code == HD_OK ? forward_list(thread, module, name, NULL, inputs) : NULL;
}

hd_tensor *hd_forward(hd_module *module, hd_tensor *x) {
    HD_ENTER("hd_forward", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return forward_one(thread, module, "", thread->caller, x);
}

hd_tensors *hd_forward_all(hd_module *module, hd_tensors *inputs) {
    HD_ENTER("hd_forward_all", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensors_check(inputs, "inputs"), NULL);
    return forward_list(thread, module, "", thread->caller, inputs);
}
