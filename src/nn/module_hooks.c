/* Functions of the user's around the forward of a module. */
#include "nn/module.h"

typedef struct hd_module_hook {
    hd_object object;
    int64_t number; /* another one for each hook there ever was; those of a module ascend */
    hd_before_forward before;
    hd_after_forward after;
    void *user;
    void (*destroy)(void *user);
} hd_module_hook;

static void hook_destroy(hd_thread *thread, hd_object *object) {
    hd_module_hook *h = (hd_module_hook *)object;
    if (h->destroy != NULL) {
        HD_CALLBACK(thread);
        h->destroy(h->user);
    }
    hd_array_release(h);
}
static const hd_kind hook_kind = {.name = "hook of a module", .destroy = hook_destroy};

uint64_t hd_module_hook_number(const hd_module_hook *hook) { return (uint64_t)hook->number; }

void hd_module_drop_hooks(hd_thread *thread, hd_module *m) {
    for (int64_t i = 0; i < m->hook_count; ++i) hd_object_release(thread, &m->hooks[i]->object);
    hd_array_release(m->hooks);
}

/* ---- adding and removing ----------------------------------------------------------------------------------------- */
static hd_error add_hook(hd_module *m, const hd_module_hook *hook) {
    hd_module_hook **hooks = hd_array_resize(m->hooks, (size_t)(m->hook_count + 1) * sizeof *hooks);
    if (hooks != NULL) m->hooks = hooks;
    hd_module_hook *h = hooks == NULL ? NULL : hd_array_resize(NULL, sizeof *h);
    if (h == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a hook");
    *h = *hook;
    hd_object_init(&h->object, &hook_kind);
    m->hooks[m->hook_count++] = h;
    hd_module_note_change();
    return HD_OK;
}

int64_t hd_module_add_hook(hd_module *module, hd_before_forward before, hd_after_forward after, void *user,
                           void (*destroy)(void *user)) {
    static _Atomic int64_t last;
    HD_ENTER("hd_module_add_hook", 0);
    HD_TRY_OR(hd_module_check(module, "module"), 0);
    if (before == NULL && after == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`before` and `after` are both NULL; a hook has one at least");
        return 0;
    }
    uint64_t ends;
    HD_TRY_OR(hd_module_enter(thread, module, true, &ends), 0);
    const int64_t number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    const hd_module_hook hook = {.number = number, .before = before, .after = after, .user = user, .destroy = destroy};
    const hd_error status = add_hook(module, &hook);
    hd_module_leave(module, ends);
    return status == HD_OK ? number : 0;
}

void hd_module_remove_hook(hd_module *module, int64_t hook) {
    HD_ENTER("hd_module_remove_hook", );
    if (hd_module_check(module, "module") != HD_OK) return;
    uint64_t ends;
    if (hd_module_enter(thread, module, true, &ends) != HD_OK) return;
    hd_module_hook *gone = NULL;
    for (int64_t i = 0; i < module->hook_count; ++i) {
        if (gone != NULL) module->hooks[i - 1] = module->hooks[i];
        if (module->hooks[i]->number == hook) gone = module->hooks[i];
    }
    if (gone != NULL) {
        module->hook_count--;
        hd_module_note_change();
    } else {
        hd_fail(HD_ERROR_VALUE, "the module %s has no hook %lld", module->class_->name, (long long)hook);
    }
    hd_module_leave(module, ends);
    if (gone != NULL) hd_object_release(thread, &gone->object);
}

/* ---- calling ----------------------------------------------------------------------------------------------------- */
/* The first hook behind the one of this number, which may have been removed since; NULL: there is none up to `last`. */
static hd_module_hook *next_hook(const hd_module *m, int64_t number, int64_t last) {
    for (int64_t i = 0; i < m->hook_count; ++i)
        if (m->hooks[i]->number > number) return m->hooks[i]->number <= last ? m->hooks[i] : NULL;
    return NULL;
}

/* A longjmp out of a hook. */
static void hook_left(hd_thread *thread, const hd_ending *ending) { hd_object_release(thread, ending->object); }

/* A hook may remove itself, and others; those that it adds wait for the next forward. `outputs` is NULL before the
 * forward; *list is what may be exchanged. */
static hd_error call_hook(hd_thread *thread, hd_module *m, hd_module_hook *h, hd_tensors *inputs, hd_tensors *outputs,
                          hd_tensors **list) {
    HD_TRY(hd_ending_push(thread, hook_left, &h->object, 0, 0));
    const uint32_t ending = hd_ending_last(thread);
    hd_object_retain(&h->object);
    hd_tensors *other;
    {
        HD_CALLBACK(thread);
        other = outputs == NULL ? h->before(m, inputs, h->user) : h->after(m, inputs, outputs, h->user);
    }
    hd_ending_pop(thread, ending);
    hd_object_release(thread, &h->object);
    if (thread->error_code != HD_OK || other == NULL) return thread->error_code;
    HD_TRY(hd_tensors_check(other, "the result of a hook"));
    if (outputs != NULL && other->count != outputs->count)
        return hd_fail(HD_ERROR_VALUE, "a hook of a \"%s\" gave %lld outputs in place of %lld", m->class_->name,
                       (long long)other->count, (long long)outputs->count);
    *list = other;
    return HD_OK;
}

hd_error hd_module_hooks_before(hd_thread *thread, hd_module *m, hd_tensors **inputs) {
    const int64_t last = m->hook_count > 0 ? m->hooks[m->hook_count - 1]->number : 0;
    for (hd_module_hook *h = next_hook(m, 0, last), *next; h != NULL; h = next) {
        const int64_t number = h->number;
        if (h->before != NULL) HD_TRY(call_hook(thread, m, h, *inputs, NULL, inputs));
        next = next_hook(m, number, last);
    }
    return HD_OK;
}

hd_error hd_module_hooks_after(hd_thread *thread, hd_module *m, hd_tensors *inputs, hd_tensors **outputs) {
    const int64_t last = m->hook_count > 0 ? m->hooks[m->hook_count - 1]->number : 0;
    for (hd_module_hook *h = next_hook(m, 0, last), *next; h != NULL; h = next) {
        const int64_t number = h->number;
        if (h->after != NULL) HD_TRY(call_hook(thread, m, h, inputs, *outputs, outputs));
        next = next_hook(m, number, last);
    }
    return HD_OK;
}
