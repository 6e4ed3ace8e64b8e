/* What a module and those in it hold, by name. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

/* ---- all parameters ---------------------------------------------------------------------------------------------- */
static void release_names(char **names, int64_t count) {
    for (int64_t i = 0; i < count; ++i) hd_array_release(names[i]);
    hd_array_release(names);
}

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
    if (depth > HD_MODULE_DEPTH) return hd_module_refuse_depth(m);
    HD_TRY(hd_module_enter(w->thread, m, false, &ends));
    hd_error status = HD_OK;
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i) {
        const hd_member *member = &m->members[i];
        if (member->kind == HD_MEMBER_MODULE)
            status = collect_inner(w, member, w->named ? prefix : "", depth + 1);
        else if ((int)member->kind == w->kind)
            status = note(w, member->object, prefix, member->name);
    }
    hd_module_leave(m, ends);
    return status;
}

hd_error hd_module_each(hd_module *module, bool buffers, hd_error (*visit)(void *user, const char *name, hd_tensor *t),
                        void *user) {
    HD_TRY(hd_module_check(module, "module"));
    walk w = {.thread = hd_thread_self(), .kind = buffers ? HD_MEMBER_BUFFER : HD_MEMBER_PARAMETER, .named = true};
    hd_error status = collect(&w, module, "", 0);
    for (int64_t i = 0; i < w.count && status == HD_OK; ++i) status = visit(user, w.names[i], w.found[i]);
    hd_array_release(w.found);
    release_names(w.names, w.count);
    return status;
}

hd_tensors *hd_module_parameters(hd_module *module) {
    HD_ENTER("hd_module_parameters", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
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

void hd_module_drop_names(hd_module *m) {
    for (hd_parameter_names *names = m->names, *older; names != NULL; names = older) {
        older = names->older;
        release_names(names->name, names->count);
        hd_array_release(names);
    }
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
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    const hd_parameter_names *names = names_of(thread, module);
    if (names == NULL) return NULL;
    if (index >= 0 && index < names->count) return names->name[index];
    hd_fail(HD_ERROR_INDEX, "parameter %lld of %lld", (long long)index, (long long)names->count);
    return NULL;
}

/* The member of that name; its object is NULL when there is none. */
static hd_error find_member(hd_thread *thread, hd_module *m, const char *name, size_t length, hd_member *found) {
    uint64_t ends;
    HD_TRY(hd_module_enter(thread, m, false, &ends));
    found->object = NULL;
    for (int64_t i = 0; i < m->member_count && found->object == NULL; ++i)
        if (strlen(m->members[i].name) == length && strncmp(m->members[i].name, name, length) == 0)
            *found = m->members[i];
    hd_module_leave(m, ends);
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
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
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
