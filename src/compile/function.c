/* A function that is compiled like a model: a module around it, which holds the tensors it reads. */
#include "nn/module.h"

#include <stdio.h>

typedef struct function_state {
    hd_list_function function;
    void *user;
} function_state;

static hd_tensors *function_forward(hd_module *m, hd_tensors *inputs) {
    const function_state *s = m->state;
    return s->function(inputs, s->user);
}
static const hd_module_class function_class = {
    .name = "function", .forward_all = function_forward, .destroy = hd_array_release};

hd_module *hd_compile_function(hd_list_function function, void *user, const hd_tensors *reads,
                               const hd_compile_opts *opts) {
    HD_ENTER("hd_compile_function", NULL);
    if (function == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`function` is NULL");
        return NULL;
    }
    if (reads != NULL) HD_TRY_OR(hd_tensors_check(reads, "reads"), NULL);
    HD_KEEP_NAME(thread);
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the compiled one holds the module */
    const function_state state = {function, user};
    hd_module *m = hd_module_with(&function_class, &state, sizeof state);
    for (int64_t i = 0; reads != NULL && i < reads->count; ++i) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        if (reads->items[i]->tracking != HD_UNTRACKED)
            hd_module_add_parameter(m, name, reads->items[i]);
        else
            hd_module_add_buffer(m, name, reads->items[i]);
    }
    hd_module *compiled = hd_compile(m, opts);
    if (thread->error_code == HD_OK) hd_keep_object(compiled);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? compiled : NULL;
}
