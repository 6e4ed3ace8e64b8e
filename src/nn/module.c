/* Modules: what they hold, and walking through it. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

static void release_names(char **names, int64_t count) {
    for (int64_t i = 0; i < count; ++i) hd_array_release(names[i]);
    hd_array_release(names);
}

static void module_destroy(hd_thread *thread, hd_object *object) {
    hd_module *m = (hd_module *)object;
    for (int64_t i = 0; i < m->member_count; ++i) {
        hd_object_release(thread, m->members[i].object);
        hd_array_release(m->members[i].name);
    }
    hd_array_release(m->members);
    release_names(m->names, m->name_count);
    if (m->class_->destroy != NULL) m->class_->destroy(m->state);
    hd_object_bury(thread, object);
}
static const hd_kind module_kind = {"module", module_destroy};

static hd_error module_check(const hd_module *m, const char *parameter) {
    if (m == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (m->object.kind == &module_kind) return HD_OK;
    return hd_fail(m->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE, "`%s` is no living module",
                   parameter);
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
    atomic_fetch_add_explicit(&structure, 1, memory_order_relaxed);
    return HD_OK;
}

hd_tensor *hd_module_add_parameter(hd_module *module, const char *name, hd_tensor *parameter) {
    HD_ENTER("hd_module_add_parameter", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(hd_tensor_check(parameter, "parameter"), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "module_add_parameter");
    if (check_name(module, name) == HD_OK) hd_requires_grad(parameter);
    if (thread->error_code == HD_OK && add_member(module, HD_MEMBER_PARAMETER, name, parameter) == HD_OK)
        parameter->held = true;
    hd_span_end(&span, NULL);
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
    return add_member(module, HD_MEMBER_BUFFER, name, buffer) == HD_OK ? buffer : NULL;
}

static bool contains(const hd_module *m, const hd_module *searched) {
    if (m == searched) return true;
    for (int64_t i = 0; i < m->member_count; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE && contains(m->members[i].object, searched)) return true;
    return false;
}

hd_module *hd_module_add(hd_module *module, const char *name, hd_module *child) {
    HD_ENTER("hd_module_add", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(module_check(child, "child"), NULL);
    if (contains(child, module)) {
        hd_fail(HD_ERROR_VALUE, "the module %s would contain itself", module->class_->name);
        return NULL;
    }
    return add_member(module, HD_MEMBER_MODULE, name, child) == HD_OK ? child : NULL;
}

uint64_t hd_module_members(const hd_module *m) {
    uint64_t hash = (uint64_t)m->member_count;
    for (int64_t i = 0; i < m->member_count; ++i) {
        const hd_member *member = &m->members[i];
        const uint64_t inner = member->kind == HD_MEMBER_MODULE ? hd_module_members(member->object) : 0;
        hash = (hash * 31 + (uintptr_t)member->object + inner) * 0x9e3779b97f4a7c15u;
    }
    return hash;
}

uint64_t hd_module_flags(const hd_module *m) {
    uint64_t hash = m->training;
    for (int64_t i = 0; i < m->member_count; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE)
            hash = (hash * 31 + hd_module_flags(m->members[i].object) + 1) * 0x9e3779b97f4a7c15u;
    return hash;
}

/* ---- using one --------------------------------------------------------------------------------------------------- */
static bool is_trained(const hd_module *m) {
    bool trained = false;
    for (int64_t i = 0; i < m->member_count && !trained; ++i) {
        const hd_member *member = &m->members[i];
        trained = member->kind == HD_MEMBER_MODULE ? is_trained(member->object)
                                                   : ((hd_tensor *)member->object)->tracking != HD_UNTRACKED;
    }
    return trained;
}

/* A forward function calls a module that is none of its own: said once, as that one is neither trained nor saved with
 * the outer one. */
static void check_membership(hd_thread *thread, const hd_module *outer, hd_module *inner) {
    if (atomic_load_explicit(&inner->checked_in, memory_order_relaxed) == (uintptr_t)outer) return;
    atomic_store_explicit(&inner->checked_in, (uintptr_t)outer, memory_order_relaxed);
    if (contains(outer, inner) || !is_trained(inner)) return;
    hd_warn(thread,
            "the forward of a \"%s\" calls a \"%s\" that is no member of it: its parameters are not among "
            "hd_module_parameters; hd_module_add makes it a member",
            outer->class_->name, inner->class_->name);
}

/* Calls the forward function of a module; what it gives is a living tensor, or NULL with an error. A builder notes which
 * module the calls came from ("0.linear" within a Sequential), and errors say it. */
static hd_tensor *run_forward(hd_thread *thread, hd_module *module, const char *name, const void *caller,
                              hd_tensor *x) {
    hd_executor *executor = thread->executor;
    const bool notes = executor->span_begin != NULL;
    if (notes) {
        char text[128];
        snprintf(text, sizeof text, "%s%s%s", name, name[0] != '\0' ? "." : "", module->class_->name);
        executor->span_begin(executor, thread, text, false);
    }
    const uint32_t layer = thread->layer_count++;
    if (layer > 0 && layer < HD_LAYERS_NOTED && caller != NULL && thread->layers[layer - 1].module != NULL)
        check_membership(thread, thread->layers[layer - 1].module, module);
    if (layer < HD_LAYERS_NOTED) thread->layers[layer] = (hd_layer){module->class_->name, name, caller, module, x};
    hd_tensor *y = module->class_->forward(module, x);
    if (thread->error_code == HD_OK) {
        thread->call = "hd_forward";
        thread->caller = caller;
        if (y == NULL)
            hd_fail(HD_ERROR_NULL_ARGUMENT, "the forward function of a \"%s\" gave no tensor", module->class_->name);
        else
            hd_tensor_check(y, "the result of forward");
    }
    thread->layer_count = layer;
    if (notes && thread->executor == executor) executor->span_end(executor, thread);
    return thread->error_code == HD_OK ? y : NULL;
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

static void set_training(hd_module *m, bool training) {
    if (m->training != training) atomic_fetch_add_explicit(&structure, 1, memory_order_relaxed);
    m->training = training;
    for (int64_t i = 0; i < m->member_count; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE) set_training(m->members[i].object, training);
}

void hd_module_train(hd_module *module) {
    HD_ENTER("hd_module_train", );
    if (module_check(module, "module") == HD_OK) set_training(module, true);
}
void hd_module_eval(hd_module *module) {
    HD_ENTER("hd_module_eval", );
    if (module_check(module, "module") == HD_OK) set_training(module, false);
}
bool hd_module_is_training(const hd_module *module) {
    HD_ENTER_ALWAYS("hd_module_is_training", false);
    return module_check(module, "module") == HD_OK && module->training && module->evaluating == 0;
}

static void evaluate(hd_module *m, int by) {
    if (by > 0 || m->evaluating > 0) m->evaluating += (uint32_t)by; /* a module may be added in between */
    for (int64_t i = 0; i < m->member_count; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE) evaluate(m->members[i].object, by);
}
void hd_module_begin_evaluation(hd_module *module) { evaluate(module, 1); }
void hd_module_end_evaluation(hd_module *module) { evaluate(module, -1); }

/* ---- all parameters ---------------------------------------------------------------------------------------------- */
/* A walk over the parameters of a module and of those in it; one that is shared is seen once. */
typedef struct walk {
    int kind; /* HD_MEMBER_PARAMETER or HD_MEMBER_BUFFER */
    hd_tensor **found;
    char **names; /* NULL: not wanted */
    int64_t count, capacity;
    bool no_memory;
} walk;

static void note(walk *w, hd_tensor *t, const char *prefix, const char *name) {
    for (int64_t i = 0; i < w->count; ++i)
        if (w->found[i] == t) return;
    if (w->count == w->capacity) {
        const int64_t capacity = w->capacity ? w->capacity * 2 : 16;
        hd_tensor **found = hd_array_resize(w->found, (size_t)capacity * sizeof *found);
        if (found != NULL) w->found = found;
        char **names =
            found == NULL || w->names == NULL ? w->names : hd_array_resize(w->names, (size_t)capacity * sizeof *names);
        if (names != NULL) w->names = names;
        w->no_memory = w->no_memory || found == NULL || (w->names != NULL && names == NULL);
        if (w->no_memory) return;
        w->capacity = capacity;
    }
    if (w->names != NULL) {
        char *full = hd_array_resize(NULL, strlen(prefix) + strlen(name) + 1);
        w->no_memory = w->no_memory || full == NULL;
        if (full == NULL) return;
        sprintf(full, "%s%s", prefix, name);
        w->names[w->count] = full;
    }
    w->found[w->count++] = t;
}

static void collect(const hd_module *m, const char *prefix, walk *w) {
    for (int64_t i = 0; i < m->member_count && !w->no_memory; ++i) {
        const hd_member *member = &m->members[i];
        if ((int)member->kind == w->kind) note(w, member->object, prefix, member->name);
        if (member->kind != HD_MEMBER_MODULE) continue;
        char *inner = hd_array_resize(NULL, strlen(prefix) + strlen(member->name) + 2);
        w->no_memory = inner == NULL;
        if (inner == NULL) return;
        sprintf(inner, "%s%s.", prefix, member->name);
        collect(member->object, inner, w);
        hd_array_release(inner);
    }
}

hd_error hd_module_each(hd_module *module, bool buffers, hd_error (*visit)(void *user, const char *name, hd_tensor *t),
                        void *user) {
    HD_TRY(module_check(module, "module"));
    walk w = {.kind = buffers ? HD_MEMBER_BUFFER : HD_MEMBER_PARAMETER, .names = hd_array_resize(NULL, sizeof(char *))};
    w.no_memory = w.names == NULL;
    if (!w.no_memory) collect(module, "", &w);
    hd_error status = w.no_memory ? hd_fail(HD_ERROR_MEMORY, "no memory for a list of parameters") : HD_OK;
    for (int64_t i = 0; i < w.count && status == HD_OK; ++i) status = visit(user, w.names[i], w.found[i]);
    hd_array_release(w.found);
    release_names(w.names, w.count);
    return status;
}

hd_tensors *hd_module_parameters(hd_module *module) {
    HD_ENTER("hd_module_parameters", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    walk w = {.kind = HD_MEMBER_PARAMETER};
    collect(module, "", &w);
    hd_tensors *list = w.no_memory ? NULL : hd_tensors_new(thread, w.count);
    for (int64_t i = 0; list != NULL && i < w.count; ++i) hd_tensors_put(list, i, w.found[i]);
    hd_array_release(w.found);
    if (w.no_memory) hd_fail(HD_ERROR_MEMORY, "no memory for a list of parameters");
    return list;
}

/* Brings the module's list of names up to date; names that did not change stay where they are. */
static hd_error renew_names(hd_module *m) {
    walk w = {.kind = HD_MEMBER_PARAMETER, .names = hd_array_resize(NULL, sizeof(char *))};
    w.no_memory = w.names == NULL;
    if (!w.no_memory) collect(m, "", &w);
    hd_array_release(w.found);
    bool same = w.count == m->name_count;
    for (int64_t i = 0; i < w.count && same; ++i) same = strcmp(w.names[i], m->names[i]) == 0;
    if (!same && !w.no_memory) {
        release_names(m->names, m->name_count);
        m->names = w.names;
        m->name_count = w.count;
        return HD_OK;
    }
    release_names(w.names, w.count);
    return w.no_memory ? hd_fail(HD_ERROR_MEMORY, "no memory for the names of parameters") : HD_OK;
}

const char *hd_module_parameter_name(hd_module *module, int64_t index) {
    HD_ENTER("hd_module_parameter_name", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    HD_TRY_OR(renew_names(module), NULL);
    if (index < 0 || index >= module->name_count) {
        hd_fail(HD_ERROR_INDEX, "parameter %lld of %lld", (long long)index, (long long)module->name_count);
        return NULL;
    }
    return module->names[index];
}

/* Lists the names there are, as many as fit. */
static void fail_to_get(hd_module *module, const char *name) {
    char list[320] = "";
    size_t length = 0;
    for (int kind = HD_MEMBER_PARAMETER; kind <= HD_MEMBER_BUFFER; ++kind) {
        walk w = {.kind = kind, .names = hd_array_resize(NULL, sizeof(char *))};
        if (w.names != NULL) collect(module, "", &w);
        for (int64_t i = 0; i < w.count && length < sizeof list; ++i)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length > 0 ? ", " : "", w.names[i]);
        hd_array_release(w.found);
        release_names(w.names, w.names != NULL ? w.count : 0);
    }
    if (length >= sizeof list) strcpy(list + sizeof list - 5, " ...");
    hd_fail(HD_ERROR_VALUE, "the module %s has no parameter or buffer \"%s\"; it has %s", module->class_->name, name,
            length > 0 ? list : "none");
}

hd_tensor *hd_module_get(hd_module *module, const char *name) {
    HD_ENTER("hd_module_get", NULL);
    HD_TRY_OR(module_check(module, "module"), NULL);
    const hd_module *m = module;
    for (const char *part = name; m != NULL && part != NULL;) {
        const size_t length = strcspn(part, ".");
        const hd_member *found = NULL;
        for (int64_t i = 0; i < m->member_count && found == NULL; ++i)
            if (strlen(m->members[i].name) == length && strncmp(m->members[i].name, part, length) == 0)
                found = &m->members[i];
        if (found == NULL) break;
        if (part[length] == '\0' && found->kind != HD_MEMBER_MODULE) return hd_scope_share(thread, found->object);
        m = part[length] == '.' && found->kind == HD_MEMBER_MODULE ? found->object : NULL;
        part += length + 1;
    }
    fail_to_get(module, name != NULL ? name : "");
    return NULL;
}
