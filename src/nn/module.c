/* Modules: what they hold, and walking through it. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

static void release_names(char **names, int64_t count) {
    for (int64_t i = 0; i < count; ++i) hd_array_release(names[i]);
    hd_array_release(names);
}

static void destroy_one(hd_thread *thread, hd_module *m) {
    for (int64_t i = 0; i < m->member_count; ++i) {
        hd_object_release(thread, m->members[i].object);
        hd_array_release(m->members[i].name);
    }
    hd_array_release(m->members);
    for (hd_parameter_names *names = m->names, *older; names != NULL; names = older) {
        older = names->older;
        release_names(names->name, names->count);
        hd_array_release(names);
    }
    if (m->class_->destroy != NULL) {
        HD_CALLBACK(thread);
        m->class_->destroy(m->state);
    }
    hd_object_bury(thread, &m->object);
}

/* A module takes those in it along: they wait in a list, however deep they lie, instead of on the stack. */
static void module_destroy(hd_thread *thread, hd_object *object) {
    hd_module *m = (hd_module *)object;
    m->next_dying = thread->dying;
    thread->dying = m;
    if (thread->burying) return;
    thread->burying = true;
    while ((m = thread->dying) != NULL) {
        thread->dying = m->next_dying;
        destroy_one(thread, m);
    }
    thread->burying = false;
}
static const char *module_title(const hd_object *object) { return ((const hd_module *)object)->class_->name; }
static const hd_kind module_kind = {
    .name = "module",
    .destroy = module_destroy,
    .title = module_title,
    .remedy = "what was compiled runs on one thread at a time: hd_compile the model once for each thread"};

static hd_error module_check(const hd_module *m, const char *parameter) {
    if (m == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (m->object.kind == &module_kind) return HD_OK;
    return hd_fail(m->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE, "`%s` is no living module",
                   parameter);
}

/* ---- who uses it ------------------------------------------------------------------------------------------------- */
/* Threads may use one module at once, but not while one changes it. The word `users` has the number of uses that have
 * not ended (a thread may use a module inside a use), a bit while one of them changes it, and whose they are. */
#define COUNT    UINT64_C(0x7fffffff)
#define CHANGING UINT64_C(0x80000000)
enum { SEVERAL = -1 };

static hd_error refuse_use(const hd_module *m, bool changes) {
    return changes ? hd_fail(HD_ERROR_STATE,
                             "the module %s is in use by another thread, and cannot be changed now; add members, and "
                             "switch between training and evaluation, while no other thread uses the module",
                             m->class_->name)
                   : hd_fail(HD_ERROR_STATE,
                             "the module %s is being changed by another thread; add members, and switch between "
                             "training and evaluation, while no other thread uses the module",
                             m->class_->name);
}

/* `*ends` is what leave_module takes off again. */
static hd_error enter_module(hd_thread *thread, hd_module *m, bool changes, uint64_t *ends) {
    uint64_t now = atomic_load_explicit(&m->users, memory_order_relaxed), next;
    *ends = 0;
    do {
        const bool mine = (now & COUNT) == 0 || now >> 32 == thread->number;
        if (!mine && (changes || (now & CHANGING) != 0)) return refuse_use(m, changes);
        *ends = 1 + (changes && (now & CHANGING) == 0 ? CHANGING : 0);
        next = (uint64_t)(mine ? thread->number : (uint32_t)SEVERAL) << 32 | ((now & (COUNT | CHANGING)) + *ends);
    } while (!atomic_compare_exchange_weak_explicit(&m->users, &now, next, memory_order_acquire, memory_order_relaxed));
    return HD_OK;
}

static void leave_module(hd_module *m, uint64_t ends) {
    uint64_t now = atomic_load_explicit(&m->users, memory_order_relaxed), next;
    do next = (now - ends) & COUNT ? now - ends : 0;
    while (!atomic_compare_exchange_weak_explicit(&m->users, &now, next, memory_order_release, memory_order_relaxed));
}

/* A longjmp out of a forward function. */
static void forward_left(hd_thread *thread, const hd_ending *ending) {
    hd_module *m = ending->object;
    leave_module(m, ending->number[0]);
    hd_object_release(thread, &m->object);
}

static hd_error refuse_depth(const hd_module *m) {
    return hd_fail(HD_ERROR_VALUE,
                   "modules lie more than %d deep in each other (at a %s); put them into one sequential, one after the "
                   "other, instead",
                   (int)HD_MODULE_DEPTH, m->class_->name);
}

/* Calls `visit` for m and all modules in it, from the outside in; stops at the first error. */
static hd_error each_module(hd_thread *thread, hd_module *m, int depth, hd_error (*visit)(hd_module *m, void *user),
                            void *user) {
    uint64_t ends;
    if (depth > HD_MODULE_DEPTH) return refuse_depth(m);
    HD_TRY(enter_module(thread, m, false, &ends));
    hd_error status = visit(m, user);
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE)
            status = each_module(thread, m->members[i].object, depth + 1, visit, user);
    leave_module(m, ends);
    return status;
}

hd_module *hd_module_new(const hd_module_class *class_, void *state) {
    HD_ENTER("hd_module_new", NULL);
    if (class_ == NULL || class_->forward == NULL || class_->name == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`class_` needs a name and a forward function");
        return NULL;
    }
    hd_module *m = hd_array_resize(NULL, sizeof *m);
    if (m == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a module");
        return NULL;
    }
    static const hd_module_class not_yet = {.name = "module"}; /* on failure the state stays the caller's */
    *m = (hd_module){.class_ = &not_yet, .training = true};
    hd_object_init(&m->object, &module_kind);
    hd_count(&thread->live_objects, 1);
    if (hd_scope_own(thread, &m->object) != HD_OK) return NULL;
    m->class_ = class_;
    m->state = state;
    return m;
}

void *hd_module_state(const hd_module *module) {
    HD_ENTER_ALWAYS("hd_module_state", NULL);
    return module_check(module, "module") == HD_OK ? module->state : NULL;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */
static hd_error check_name(const hd_module *m, const char *name) {
    if (name == NULL || name[0] == '\0' || strchr(name, '.') != NULL)
        return hd_fail(HD_ERROR_VALUE, "the name \"%s\": it must not be empty nor have a dot", name ? name : "");
    for (int64_t i = 0; i < m->member_count; ++i)
        if (strcmp(m->members[i].name, name) == 0)
            return hd_fail(HD_ERROR_VALUE, "the module %s has a \"%s\" already", m->class_->name, name);
    return HD_OK;
}

/* One for the whole process: a tree does not know what it is part of, and members are added when models are made. */
static _Atomic uint64_t structure;
uint64_t hd_module_structure(void) { return atomic_load_explicit(&structure, memory_order_relaxed); }

/* A module that changes is one that nobody else uses. */
static hd_error add_member(hd_module *m, int kind, const char *name, void *object) {
    HD_TRY(check_name(m, name));
    hd_member *members = hd_array_resize(m->members, (size_t)(m->member_count + 1) * sizeof *members);
    if (members != NULL) m->members = members;
    char *own = members == NULL ? NULL : hd_array_resize(NULL, strlen(name) + 1);
    if (own == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for \"%s\"", name);
    strcpy(own, name);
    hd_object_retain(object);
    m->members[m->member_count] = (hd_member){.name = own, .object = object};
    m->members[m->member_count++].kind = kind;
    if (kind == HD_MEMBER_PARAMETER && strcmp(name, "weight") == 0) m->weight = object;
    if (kind == HD_MEMBER_PARAMETER && strcmp(name, "bias") == 0) m->bias = object;
    atomic_fetch_add_explicit(&structure, 1, memory_order_relaxed);
    return HD_OK;
}

hd_tensor *hd_module_add_parameter(hd_module *module, const char *name, hd_tensor *parameter) {
    HD_ENTER("hd_module_add_parameter", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(parameter, "parameter"), NULL);
    uint64_t ends;
    HD_TRY_OR(enter_module(thread, module, true, &ends), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "module_add_parameter");
    if (check_name(module, name) == HD_OK) hd_requires_grad(parameter);
    if (thread->error_code == HD_OK && add_member(module, HD_MEMBER_PARAMETER, name, parameter) == HD_OK)
        parameter->held = true;
    hd_span_end(&span, NULL);
    leave_module(module, ends);
    return thread->error_code == HD_OK ? parameter : NULL;
}

hd_tensor *hd_module_add_buffer(hd_module *module, const char *name, hd_tensor *buffer) {
    HD_ENTER("hd_module_add_buffer", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(buffer, "buffer"), NULL);
    if (buffer->storage->home != NULL && buffer->storage->home->captured) {
        hd_fail(HD_ERROR_STATE, "the buffer \"%s\" is a value that a builder records; make it in a block with HD_EAGER",
                name ? name : "");
        return NULL;
    }
    uint64_t ends;
    HD_TRY_OR(enter_module(thread, module, true, &ends), NULL);
    const hd_error status = add_member(module, HD_MEMBER_BUFFER, name, buffer);
    leave_module(module, ends);
    return status == HD_OK ? buffer : NULL;
}

static hd_error is_another(hd_module *m, void *searched) {
    return m != searched ? HD_OK : hd_fail(HD_ERROR_VALUE, "the module %s would contain itself", m->class_->name);
}

hd_module *hd_module_add(hd_module *module, const char *name, hd_module *child) {
    HD_ENTER("hd_module_add", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(module_check(child, "child"), NULL);
    HD_TRY_OR(each_module(thread, child, 1, is_another, module), NULL);
    uint64_t ends;
    HD_TRY_OR(enter_module(thread, module, true, &ends), NULL);
    const hd_error status = add_member(module, HD_MEMBER_MODULE, name, child);
    leave_module(module, ends);
    return status == HD_OK ? child : NULL;
}

/* The walk goes from the outside in, so that the number of members tells where a module ends. */
static hd_error hash_one(hd_module *m, void *user) {
    uint64_t *hash = user;
    hash[0] = (hash[0] * 31 + (uint64_t)m->member_count) * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < m->member_count; ++i)
        hash[0] = (hash[0] * 31 + (uintptr_t)m->members[i].object) * 0x9e3779b97f4a7c15u;
    hash[1] = (hash[1] * 31 + m->training + 1) * 0x9e3779b97f4a7c15u;
    return HD_OK;
}

hd_error hd_module_hash(hd_module *module, uint64_t *members, uint64_t *flags) {
    uint64_t hash[2] = {0, 0};
    HD_TRY(each_module(hd_thread_self(), module, 0, hash_one, hash));
    *members = hash[0];
    *flags = hash[1];
    return HD_OK;
}

/* ---- using one --------------------------------------------------------------------------------------------------- */
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
        HD_TRY(each_module(s->thread, s->outer, 0, find_wanted, s));
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
    HD_TRY(each_module(thread, outer, 0, find_wanted, &s));
    if (!s.found) HD_TRY(each_module(thread, inner, 0, find_missing, &s));
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
    if (depth >= HD_MODULE_DEPTH) return refuse_depth(layer->module);
    if (depth > 0 && depth < HD_LAYERS_NOTED && layer->caller != NULL && thread->layers[depth - 1].module != NULL)
        HD_TRY(check_membership(thread, thread->layers[depth - 1].module, layer->module));
    if (depth < HD_LAYERS_NOTED) thread->layers[depth] = *layer;
    thread->layer_count++;
    return HD_OK;
}

/* What a forward function gave is a living tensor, or NULL with an error. */
static hd_tensor *checked(hd_thread *thread, hd_tensor *y, const char *kind) {
    thread->call = "hd_forward";
    if (thread->error_code != HD_OK) return NULL;
    if (y == NULL)
        hd_fail(HD_ERROR_NULL_ARGUMENT, "the forward function of a \"%s\" gave no tensor", kind);
    else
        hd_tensor_check(y, "the result of forward");
    return thread->error_code == HD_OK ? y : NULL;
}

/* A builder notes which module the calls came from: "0.linear" within a Sequential. */
static hd_tensor *run_forward(hd_thread *thread, hd_module *module, const char *name, const void *caller,
                              hd_tensor *x) {
    hd_executor *executor = thread->executor;
    const bool notes = executor->span_begin != NULL;
    const hd_layer layer = {module->class_->name, name, caller, module, x};
    uint64_t ends;
    HD_TRY_OR(push_layer(thread, &layer), NULL);
    const uint32_t depth = thread->layer_count;
    hd_error status = enter_module(thread, module, false, &ends);
    if (status == HD_OK) {
        status = hd_ending_push(thread, forward_left, module, ends, 0);
        if (status != HD_OK) leave_module(module, ends);
    }
    if (status != HD_OK) {
        thread->layer_count = depth - 1;
        return NULL;
    }
    const uint32_t ending = hd_ending_last(thread);
    hd_object_retain(&module->object);
    if (notes) {
        char text[128];
        snprintf(text, sizeof text, "%s%s%s", name, name[0] != '\0' ? "." : "", module->class_->name);
        executor->span_begin(executor, thread, text, false);
    }
    const void *outer_caller = thread->caller; /* as HD_CALLBACK does, without the name, which is the same for all */
    const uint32_t call_depth = thread->call_depth;
    thread->call_depth = 0;
    hd_tensor *y = module->class_->forward(module, x);
    thread->call_depth = call_depth;
    thread->caller = outer_caller;
    y = checked(thread, y, layer.kind);
    if (notes && thread->executor == executor) executor->span_end(executor, thread);
    hd_ending_pop(thread, ending);
    thread->layer_count = depth - 1;
    leave_module(module, ends);
    hd_object_release(thread, &module->object);
    return y;
}

hd_tensor *hd_module_forward_as(hd_thread *thread, hd_module *module, const char *name, hd_tensor *x) {
    return thread->error_code == HD_OK ? run_forward(thread, module, name, NULL, x) : NULL;
}

hd_tensor *hd_forward(hd_module *module, hd_tensor *x) {
    HD_ENTER("hd_forward", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    return run_forward(thread, module, "", thread->caller, x);
}

typedef struct switching {
    hd_thread *thread;
    bool training, sets;
} switching;
static hd_error switch_one(hd_module *m, void *user) {
    const switching *s = user;
    uint64_t ends;
    if (m->training == s->training) return HD_OK; /* no change, whoever uses it */
    HD_TRY(enter_module(s->thread, m, true, &ends));
    if (s->sets) {
        atomic_fetch_add_explicit(&structure, 1, memory_order_relaxed);
        m->training = s->training;
    }
    leave_module(m, ends);
    return HD_OK;
}

/* Of all modules or of none: the first walk finds out whether another thread uses one that would change, or they are
 * too deep. */
static void set_training(hd_thread *thread, hd_module *m, bool training) {
    switching s = {thread, training, false};
    if (module_check(m, "module") != HD_OK || each_module(thread, m, 0, switch_one, &s) != HD_OK) return;
    s.sets = true;
    each_module(thread, m, 0, switch_one, &s);
}

void hd_module_train(hd_module *module) {
    HD_ENTER("hd_module_train", );
    set_training(thread, module, true);
}
void hd_module_eval(hd_module *module) {
    HD_ENTER("hd_module_eval", );
    set_training(thread, module, false);
}
bool hd_module_is_training(const hd_module *module) {
    HD_ENTER_ALWAYS("hd_module_is_training", false);
    return module_check(module, "module") == HD_OK && module->training && thread->evaluations == 0;
}

/* ---- all parameters ---------------------------------------------------------------------------------------------- */
/* A walk over the parameters of a module and of those in it; one that is shared is seen once. */
typedef struct walk {
    hd_thread *thread;
    int kind; /* HD_MEMBER_PARAMETER or HD_MEMBER_BUFFER */
    hd_tensor **found;
    bool named; /* names are wanted, too */
    char **names;
    int64_t count, capacity;
} walk;

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for a list of parameters"); }

static hd_error grow_found(walk *w) {
    const int64_t capacity = w->capacity ? w->capacity * 2 : 16;
    hd_tensor **found = hd_array_resize(w->found, (size_t)capacity * sizeof *found);
    if (found == NULL) return no_memory();
    w->found = found;
    char **names = w->named ? hd_array_resize(w->names, (size_t)capacity * sizeof *names) : NULL;
    if (names == NULL && w->named) return no_memory();
    w->names = names;
    w->capacity = capacity;
    return HD_OK;
}

static hd_error note(walk *w, hd_tensor *t, const char *prefix, const char *name) {
    for (int64_t i = 0; i < w->count; ++i)
        if (w->found[i] == t) return HD_OK;
    if (w->count == w->capacity) HD_TRY(grow_found(w));
    if (w->named) {
        char *full = hd_array_resize(NULL, strlen(prefix) + strlen(name) + 1);
        if (full == NULL) return no_memory();
        sprintf(full, "%s%s", prefix, name);
        w->names[w->count] = full;
    }
    w->found[w->count++] = t;
    return HD_OK;
}

static hd_error collect(walk *w, hd_module *m, const char *prefix, int depth);
static hd_error collect_inner(walk *w, const hd_member *member, const char *prefix, int depth) {
    char *inner = hd_array_resize(NULL, strlen(prefix) + strlen(member->name) + 2);
    if (inner == NULL) return no_memory();
    sprintf(inner, "%s%s.", prefix, member->name);
    const hd_error status = collect(w, member->object, inner, depth);
    hd_array_release(inner);
    return status;
}

static hd_error collect(walk *w, hd_module *m, const char *prefix, int depth) {
    uint64_t ends;
    if (depth > HD_MODULE_DEPTH) return refuse_depth(m);
    HD_TRY(enter_module(w->thread, m, false, &ends));
    hd_error status = HD_OK;
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i) {
        const hd_member *member = &m->members[i];
        if (member->kind == HD_MEMBER_MODULE)
            status = collect_inner(w, member, w->named ? prefix : "", depth + 1);
        else if ((int)member->kind == w->kind)
            status = note(w, member->object, prefix, member->name);
    }
    leave_module(m, ends);
    return status;
}

hd_error hd_module_each(hd_module *module, bool buffers, hd_error (*visit)(void *user, const char *name, hd_tensor *t),
                        void *user) {
    HD_TRY(module_check(module, "module"));
    walk w = {.thread = hd_thread_self(), .kind = buffers ? HD_MEMBER_BUFFER : HD_MEMBER_PARAMETER, .named = true};
    hd_error status = collect(&w, module, "", 0);
    for (int64_t i = 0; i < w.count && status == HD_OK; ++i) status = visit(user, w.names[i], w.found[i]);
    hd_array_release(w.found);
    release_names(w.names, w.count);
    return status;
}

hd_tensors *hd_module_parameters(hd_module *module) {
    HD_ENTER("hd_module_parameters", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    walk w = {.thread = thread, .kind = HD_MEMBER_PARAMETER};
    hd_tensors *list = collect(&w, module, "", 0) == HD_OK ? hd_tensors_new(thread, w.count) : NULL;
    for (int64_t i = 0; list != NULL && i < w.count; ++i) hd_tensors_put(list, i, w.found[i]);
    hd_array_release(w.found);
    return list;
}

static bool same_names(const hd_parameter_names *a, const walk *b) {
    bool same = a != NULL && a->count == b->count;
    for (int64_t i = 0; same && i < b->count; ++i) same = strcmp(a->name[i], b->names[i]) == 0;
    return same;
}

/* The names as they are now: those of the last list while they are the same, which stay where they are. NULL with an
 * error. */
static const hd_parameter_names *names_of(hd_thread *thread, hd_module *m) {
    walk w = {.thread = thread, .kind = HD_MEMBER_PARAMETER, .named = true};
    const hd_error status = collect(&w, m, "", 0);
    hd_array_release(w.found);
    hd_parameter_names *last = atomic_load_explicit(&m->names, memory_order_acquire), *list = NULL;
    if (status == HD_OK && !same_names(last, &w)) {
        list = hd_array_resize(NULL, sizeof *list);
        if (list == NULL) no_memory();
    }
    if (list != NULL) *list = (hd_parameter_names){last, w.names, w.count};
    while (list != NULL &&
           !atomic_compare_exchange_weak_explicit(&m->names, &last, list, memory_order_acq_rel, memory_order_acquire)) {
        list->older = last;
        if (!same_names(last, &w)) continue;
        hd_array_release(list); /* another thread was first */
        list = NULL;
    }
    if (list != NULL) return list;
    release_names(w.names, w.count);
    return thread->error_code == HD_OK ? last : NULL;
}

const char *hd_module_parameter_name(hd_module *module, int64_t index) {
    HD_ENTER("hd_module_parameter_name", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    const hd_parameter_names *names = names_of(thread, module);
    if (names == NULL) return NULL;
    if (index >= 0 && index < names->count) return names->name[index];
    hd_fail(HD_ERROR_INDEX, "parameter %lld of %lld", (long long)index, (long long)names->count);
    return NULL;
}

/* The member of that name; its object is NULL when there is none. */
static hd_error find_member(hd_thread *thread, hd_module *m, const char *name, size_t length, hd_member *found) {
    uint64_t ends;
    HD_TRY(enter_module(thread, m, false, &ends));
    found->object = NULL;
    for (int64_t i = 0; i < m->member_count && found->object == NULL; ++i)
        if (strlen(m->members[i].name) == length && strncmp(m->members[i].name, name, length) == 0)
            *found = m->members[i];
    leave_module(m, ends);
    return HD_OK;
}

/* Lists the names there are, as many as fit. */
static void fail_to_get(hd_thread *thread, hd_module *module, const char *name) {
    char list[320] = "";
    size_t length = 0;
    hd_error status = HD_OK;
    for (int kind = HD_MEMBER_PARAMETER; kind <= HD_MEMBER_BUFFER && status == HD_OK; ++kind) {
        walk w = {.thread = thread, .kind = kind, .named = true};
        status = collect(&w, module, "", 0);
        for (int64_t i = 0; i < w.count && length < sizeof list; ++i)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length > 0 ? ", " : "", w.names[i]);
        hd_array_release(w.found);
        release_names(w.names, w.count);
    }
    if (length >= sizeof list) strcpy(list + sizeof list - 5, " ...");
    hd_fail(HD_ERROR_VALUE, "the module %s has no parameter or buffer \"%s\"; it has %s", module->class_->name, name,
            length > 0 ? list : "none");
}

hd_tensor *hd_module_get(hd_module *module, const char *name) {
    HD_ENTER("hd_module_get", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    hd_module *m = module;
    for (const char *part = name; m != NULL && part != NULL;) {
        const size_t length = strcspn(part, ".");
        hd_member found;
        HD_TRY_OR(find_member(thread, m, part, length, &found), NULL);
        if (found.object == NULL) break;
        if (part[length] == '\0' && found.kind != HD_MEMBER_MODULE) return hd_scope_share(thread, found.object);
        m = part[length] == '.' && found.kind == HD_MEMBER_MODULE ? found.object : NULL;
        part += length + 1;
    }
    fail_to_get(thread, module, name != NULL ? name : "");
    return NULL;
}
