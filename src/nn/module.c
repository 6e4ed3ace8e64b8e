/* Modules: what they hold, and walking through it. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

static void destroy_one(hd_thread *thread, hd_module *m) {
    for (int64_t i = 0; i < m->member_count; ++i) {
        hd_object_release(thread, m->members[i].object);
        hd_array_release(m->members[i].name);
    }
    hd_array_release(m->members);
    hd_module_drop_names(m);
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

hd_error hd_module_check(const hd_module *m, const char *parameter) {
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

hd_error hd_module_enter(hd_thread *thread, hd_module *m, bool changes, uint64_t *ends) {
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

void hd_module_leave(hd_module *m, uint64_t ends) {
    uint64_t now = atomic_load_explicit(&m->users, memory_order_relaxed), next;
    do next = (now - ends) & COUNT ? now - ends : 0;
    while (!atomic_compare_exchange_weak_explicit(&m->users, &now, next, memory_order_release, memory_order_relaxed));
}

hd_error hd_module_refuse_depth(const hd_module *m) {
    return hd_fail(HD_ERROR_VALUE,
                   "modules lie more than %d deep in each other (at a %s); put them into one sequential, one after the "
                   "other, instead",
                   (int)HD_MODULE_DEPTH, m->class_->name);
}

hd_error hd_module_walk(hd_thread *thread, hd_module *m, int depth, hd_error (*visit)(hd_module *m, void *user),
                        void *user) {
    uint64_t ends;
    if (depth > HD_MODULE_DEPTH) return hd_module_refuse_depth(m);
    HD_TRY(hd_module_enter(thread, m, false, &ends));
    hd_error status = visit(m, user);
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE)
            status = hd_module_walk(thread, m->members[i].object, depth + 1, visit, user);
    hd_module_leave(m, ends);
    return status;
}

hd_module *hd_module_new(const hd_module_class *class_, void *state) {
    HD_ENTER("hd_module_new", NULL);
    if (class_ == NULL || class_->name == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`class_` needs a name");
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
    return hd_module_check(module, "module") == HD_OK ? module->state : NULL;
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
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(parameter, "parameter"), NULL);
    uint64_t ends;
    HD_TRY_OR(hd_module_enter(thread, module, true, &ends), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "module_add_parameter");
    if (check_name(module, name) == HD_OK) hd_requires_grad(parameter);
    if (thread->error_code == HD_OK && add_member(module, HD_MEMBER_PARAMETER, name, parameter) == HD_OK)
        parameter->held = true;
    hd_span_end(&span, NULL);
    hd_module_leave(module, ends);
    return thread->error_code == HD_OK ? parameter : NULL;
}

hd_tensor *hd_module_add_buffer(hd_module *module, const char *name, hd_tensor *buffer) {
    HD_ENTER("hd_module_add_buffer", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(buffer, "buffer"), NULL);
    if (buffer->storage->home != NULL && buffer->storage->home->captured) {
        hd_fail(HD_ERROR_STATE, "the buffer \"%s\" is a value that a builder records; make it in a block with HD_EAGER",
                name ? name : "");
        return NULL;
    }
    uint64_t ends;
    HD_TRY_OR(hd_module_enter(thread, module, true, &ends), NULL);
    const hd_error status = add_member(module, HD_MEMBER_BUFFER, name, buffer);
    hd_module_leave(module, ends);
    return status == HD_OK ? buffer : NULL;
}

static hd_error is_another(hd_module *m, void *searched) {
    return m != searched ? HD_OK : hd_fail(HD_ERROR_VALUE, "the module %s would contain itself", m->class_->name);
}

hd_module *hd_module_add(hd_module *module, const char *name, hd_module *child) {
    HD_ENTER("hd_module_add", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_TRY_OR(hd_module_check(child, "child"), NULL);
    HD_TRY_OR(hd_module_walk(thread, child, 1, is_another, module), NULL);
    uint64_t ends;
    HD_TRY_OR(hd_module_enter(thread, module, true, &ends), NULL);
    const hd_error status = add_member(module, HD_MEMBER_MODULE, name, child);
    hd_module_leave(module, ends);
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
    HD_TRY(hd_module_walk(hd_thread_self(), module, 0, hash_one, hash));
    *members = hash[0];
    *flags = hash[1];
    return HD_OK;
}

/* ---- training and evaluation -------------------------------------------------------------------------------------- */
typedef struct switching {
    hd_thread *thread;
    bool training, sets;
} switching;
static hd_error switch_one(hd_module *m, void *user) {
    const switching *s = user;
    uint64_t ends;
    if (m->training == s->training) return HD_OK; /* no change, whoever uses it */
    HD_TRY(hd_module_enter(s->thread, m, true, &ends));
    if (s->sets) {
        atomic_fetch_add_explicit(&structure, 1, memory_order_relaxed);
        m->training = s->training;
    }
    hd_module_leave(m, ends);
    return HD_OK;
}

/* Of all modules or of none: the first walk finds out whether another thread uses one that would change, or they are
 * too deep. */
static void set_training(hd_thread *thread, hd_module *m, bool training) {
    switching s = {thread, training, false};
    if (hd_module_check(m, "module") != HD_OK || hd_module_walk(thread, m, 0, switch_one, &s) != HD_OK) return;
    s.sets = true;
    hd_module_walk(thread, m, 0, switch_one, &s);
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
    return hd_module_check(module, "module") == HD_OK && module->training && thread->evaluations == 0;
}
