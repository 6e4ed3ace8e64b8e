/* Copies of modules: a tree with tensors of its own. */
#include "nn/module.h"

/* What was copied, and its copy: tensors and modules that are shared in a tree are shared in its copy. */
typedef struct pair {
    const void *from;
    void *to;
} pair;
typedef struct copying {
    hd_thread *thread;
    pair *pairs;
    int64_t count, capacity;
} copying;

static void *copy_of(const copying *c, const void *from) {
    for (int64_t i = 0; i < c->count; ++i)
        if (c->pairs[i].from == from) return c->pairs[i].to;
    return NULL;
}

static hd_error note_copy(copying *c, const void *from, void *to) {
    if (to == NULL) return c->thread->error_code;
    if (c->count == c->capacity) {
        const int64_t capacity = c->capacity ? c->capacity * 2 : 32;
        pair *pairs = hd_array_resize(c->pairs, (size_t)capacity * sizeof *pairs);
        if (pairs == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a copy of a module");
        c->pairs = pairs;
        c->capacity = capacity;
    }
    c->pairs[c->count++] = (pair){from, to};
    return HD_OK;
}

static hd_error copy_tensor(copying *c, hd_module *to, const hd_member *member) {
    hd_tensor *from = member->object, *copy = copy_of(c, from);
    if (copy == NULL) {
        copy = hd_copy(from); /* without a tape: a leaf */
        HD_TRY(note_copy(c, from, copy));
    }
    if (member->kind == HD_MEMBER_BUFFER) {
        hd_module_add_buffer(to, member->name, copy);
        return c->thread->error_code;
    }
    hd_module_add_parameter(to, member->name, copy);
    if (c->thread->error_code == HD_OK && from->tracking == HD_UNTRACKED)
        hd_set_requires_grad(copy, false); /* frozen */
    return c->thread->error_code;
}

/* The class's own function makes the state, when the members are there. */
static hd_error copy_state(copying *c, hd_module *to, const hd_module *from) {
    if (from->state == NULL) return HD_OK;
    void *state;
    {
        HD_CALLBACK(c->thread);
        state = from->class_->copy(to, from);
    }
    if (c->thread->error_code == HD_OK && state == NULL)
        hd_fail(HD_ERROR_MEMORY, "no memory for the state of a %s", from->class_->name);
    if (c->thread->error_code != HD_OK) {
        if (state != NULL && from->class_->destroy != NULL) from->class_->destroy(state);
        return c->thread->error_code;
    }
    to->class_ = from->class_; /* which releases it from now on */
    to->state = state;
    return HD_OK;
}

static hd_error copy_module(copying *c, hd_module *from, int depth, hd_module **copy);

static hd_error copy_members(copying *c, const hd_module *from, hd_module *to, int depth) {
    for (int64_t i = 0; i < from->member_count; ++i) {
        const hd_member *member = &from->members[i];
        if (member->kind != HD_MEMBER_MODULE) {
            HD_TRY(copy_tensor(c, to, member));
            continue;
        }
        hd_module *child;
        HD_TRY(copy_module(c, member->object, depth + 1, &child));
        if (hd_module_add(to, member->name, child) == NULL) return c->thread->error_code;
    }
    return HD_OK;
}

/* While it has no state the copy is of a class that has nothing to release. */
static hd_error copy_whole(copying *c, hd_module *from, int depth, hd_module **copy) {
    static const hd_module_class not_yet = {.name = "module"};
    if (from->state != NULL && from->class_->copy == NULL)
        return hd_fail(HD_ERROR_STATE, "a \"%s\" cannot be copied: its class has a state, and no copy function",
                       from->class_->name);
    hd_module *to = hd_module_new(from->state != NULL ? &not_yet : from->class_, NULL);
    HD_TRY(note_copy(c, from, to));
    HD_TRY(copy_members(c, from, to, depth));
    HD_TRY(copy_state(c, to, from));
    to->training = from->training;
    *copy = to;
    return HD_OK;
}

/* A longjmp out of a class's function. */
static void module_left(hd_thread *thread, const hd_ending *ending) {
    (void)thread;
    hd_module_leave(ending->object, ending->number[0]);
}

static hd_error copy_module(copying *c, hd_module *from, int depth, hd_module **copy) {
    uint64_t ends;
    if ((*copy = copy_of(c, from)) != NULL) return HD_OK;
    if (depth > HD_MODULE_DEPTH) return hd_module_refuse_depth(from);
    HD_TRY(hd_module_enter(c->thread, from, false, &ends));
    hd_error status = hd_ending_push(c->thread, module_left, from, ends, 0);
    if (status == HD_OK) {
        const uint32_t ending = hd_ending_last(c->thread);
        status = copy_whole(c, from, depth, copy);
        hd_ending_pop(c->thread, ending);
    }
    hd_module_leave(from, ends);
    return status;
}

static void release_copying(copying *c) {
    hd_array_release(c->pairs);
    hd_array_release(c);
}
static void copying_left(hd_thread *thread, const hd_ending *ending) {
    (void)thread;
    release_copying(ending->object);
}

static hd_module *copy_tree(hd_thread *thread, hd_module *module) {
    hd_module *copy = NULL;
    copying *c = hd_array_resize(NULL, sizeof *c);
    if (c == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a copy of a module");
        return NULL;
    }
    *c = (copying){.thread = thread};
    if (hd_ending_push(thread, copying_left, c, 0, 0) == HD_OK) {
        const uint32_t ending = hd_ending_last(thread);
        copy_module(c, module, 0, &copy);
        hd_ending_pop(thread, ending);
    }
    release_copying(c);
    return copy;
}

hd_module *hd_module_copy(hd_module *module) {
    HD_ENTER("hd_module_copy", NULL);
    HD_TRY_OR(hd_module_check(module, "module"), NULL);
    HD_KEEP_NAME(thread);
    HD_EAGER; /* parameters are made at once, also inside a builder */
    HD_NO_GRAD;
    hd_scope_token scope = hd_scope_within(thread, &scope); /* the module holds what it needs */
    hd_module *copy = copy_tree(thread, module);
    if (thread->error_code == HD_OK) hd_keep_object(copy);
    hd_scope_close(thread, &scope);
    return thread->error_code == HD_OK ? copy : NULL;
}
