/* The modules in a module. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

const char *hd_module_class_name(const hd_module *module) {
    HD_ENTER("hd_module_class_name", NULL);
    return hd_module_check(module, "module") == HD_OK ? module->class_->name : NULL;
}

/* Child `index`, which may count from the end, or how many there are when `found` is NULL. */
static hd_error find_child(hd_thread *thread, hd_module *m, int64_t index, hd_member *found, int64_t *count) {
    uint64_t ends;
    HD_TRY(hd_module_check(m, "module"));
    HD_TRY(hd_module_enter(thread, m, false, &ends));
    *count = 0;
    for (int64_t i = 0; i < m->member_count; ++i) *count += m->members[i].kind == HD_MEMBER_MODULE;
    if (index < 0) index += *count;
    for (int64_t i = 0, at = 0; i < m->member_count && found != NULL; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE && at++ == index) *found = m->members[i];
    hd_module_leave(m, ends);
    return HD_OK;
}

int64_t hd_module_child_count(hd_module *module) {
    HD_ENTER("hd_module_child_count", 0);
    int64_t count;
    return find_child(thread, module, 0, NULL, &count) == HD_OK ? count : 0;
}

static hd_error get_child(hd_thread *thread, hd_module *m, int64_t index, hd_member *found) {
    int64_t count;
    *found = (hd_member){.object = NULL};
    HD_TRY(find_child(thread, m, index, found, &count));
    return found->object != NULL ? HD_OK
                                 : hd_fail(HD_ERROR_INDEX, "module %lld of the %lld in a %s", (long long)index,
                                           (long long)count, m->class_->name);
}

hd_module *hd_module_child_at(hd_module *module, int64_t index) {
    HD_ENTER("hd_module_child_at", NULL);
    hd_member found;
    return get_child(thread, module, index, &found) == HD_OK ? hd_scope_share(thread, found.object) : NULL;
}

const char *hd_module_child_name(hd_module *module, int64_t index) {
    HD_ENTER("hd_module_child_name", NULL);
    hd_member found;
    return get_child(thread, module, index, &found) == HD_OK ? found.name : NULL;
}

/* Lists the names of the modules in m, as many as fit. */
static void fail_to_find(hd_thread *thread, hd_module *m, const char *path) {
    char list[320] = "";
    size_t length = 0;
    uint64_t ends;
    if (hd_module_enter(thread, m, false, &ends) != HD_OK) return;
    for (int64_t i = 0; i < m->member_count && length < sizeof list; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE)
            length += (size_t)snprintf(list + length, sizeof list - length, "%s%s", length > 0 ? ", " : "",
                                       m->members[i].name);
    hd_module_leave(m, ends);
    if (length >= sizeof list) strcpy(list + sizeof list - 5, " ...");
    hd_fail(HD_ERROR_VALUE, "there is no module \"%s\": a %s on the way has %s", path, m->class_->name,
            length > 0 ? list : "none");
}

hd_module *hd_module_child(hd_module *module, const char *path) {
    HD_ENTER("hd_module_child", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    hd_module *m = module;
    for (const char *part = path != NULL ? path : "";;) {
        const size_t length = strcspn(part, ".");
        hd_member found;
        HD_TRY_OR(hd_module_find(thread, m, part, length, &found), NULL);
        if (found.object == NULL || found.kind != HD_MEMBER_MODULE) break;
        if (part[length] == '\0') return hd_scope_share(thread, found.object);
        m = found.object;
        part += length + 1;
    }
    fail_to_find(thread, m, path != NULL ? path : "");
    return NULL;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
/* The modules of a tree from the inside out, each once, before any of them is shown to the user. */
typedef struct visits {
    hd_thread *thread;
    hd_module **module; /* retained */
    char **path;
    int64_t count, capacity;
} visits;

static void release_visits(hd_thread *thread, visits *v) {
    for (int64_t i = 0; i < v->count; ++i) {
        hd_object_release(thread, &v->module[i]->object);
        hd_array_release(v->path[i]);
    }
    hd_array_release(v->module);
    hd_array_release(v->path);
    hd_array_release(v);
}

static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for a list of modules"); }

static hd_error add_visit(visits *v, hd_module *m, const char *path) {
    for (int64_t i = 0; i < v->count; ++i)
        if (v->module[i] == m) return HD_OK;
    if (v->count == v->capacity) {
        const int64_t capacity = v->capacity ? v->capacity * 2 : 16;
        hd_module **modules = hd_array_resize(v->module, (size_t)capacity * sizeof(*modules));
        if (modules == NULL) return no_memory();
        v->module = modules;
        char **paths = hd_array_resize(v->path, (size_t)capacity * sizeof *paths);
        if (paths == NULL) return no_memory();
        v->path = paths;
        v->capacity = capacity;
    }
    char *own = hd_array_resize(NULL, strlen(path) + 1);
    if (own == NULL) return no_memory();
    strcpy(own, path);
    hd_object_retain(&m->object);
    v->module[v->count] = m;
    v->path[v->count++] = own;
    return HD_OK;
}

static hd_error collect(visits *v, hd_module *m, const char *path, int depth);
static hd_error collect_inner(visits *v, const hd_member *member, const char *path, int depth) {
    char *inner = hd_array_resize(NULL, strlen(path) + strlen(member->name) + 2);
    if (inner == NULL) return no_memory();
    sprintf(inner, "%s%s%s", path, path[0] != '\0' ? "." : "", member->name);
    const hd_error status = collect(v, member->object, inner, depth);
    hd_array_release(inner);
    return status;
}

static hd_error collect(visits *v, hd_module *m, const char *path, int depth) {
    uint64_t ends;
    if (depth > HD_MODULE_DEPTH) return hd_module_refuse_depth(m);
    HD_TRY(hd_module_enter(v->thread, m, false, &ends));
    hd_error status = HD_OK;
    for (int64_t i = 0; i < m->member_count && status == HD_OK; ++i)
        if (m->members[i].kind == HD_MEMBER_MODULE) status = collect_inner(v, &m->members[i], path, depth + 1);
    hd_module_leave(m, ends);
    return status == HD_OK ? add_visit(v, m, path) : status;
}

/* A longjmp out of the function. */
static void visits_left(hd_thread *thread, const hd_ending *ending) { release_visits(thread, ending->object); }

void hd_module_apply(hd_module *module, void (*visit)(hd_module *m, const char *path, void *user), void *user) {
    HD_ENTER("hd_module_apply", );
    if (hd_module_check(module, "module") != HD_OK) return;
    if (visit == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`visit` is NULL");
        return;
    }
    visits *v = hd_array_resize(NULL, sizeof *v);
    if (v == NULL) {
        no_memory();
        return;
    }
    *v = (visits){.thread = thread};
    if (collect(v, module, "", 0) != HD_OK || hd_ending_push(thread, visits_left, v, 0, 0) != HD_OK) {
        release_visits(thread, v);
        return;
    }
    const uint32_t ending = hd_ending_last(thread);
    for (int64_t i = 0; i < v->count && thread->error_code == HD_OK; ++i) {
        HD_CALLBACK(thread);
        visit(v->module[i], v->path[i], user);
    }
    hd_ending_pop(thread, ending);
    release_visits(thread, v);
}
