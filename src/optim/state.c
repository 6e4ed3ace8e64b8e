/* State by name: listed, read and set. */
#include "optim/state.h"

#include <stdio.h>
#include <string.h>

typedef struct walk {
    hd_tensors *list; /* to be filled, or NULL */
    int64_t at;
    int64_t wanted;   /* the index whose name is wanted */
    const char *name; /* whose tensor is wanted */
    char *out;        /* the name that was found, and so long it may be */
    size_t capacity;
    hd_tensor *found;
} walk;

static hd_error look(void *user, const char *name, hd_tensor *t) {
    walk *w = user;
    if (w->list != NULL) hd_tensors_put(w->list, w->at, t);
    if (w->out != NULL && w->at == w->wanted) snprintf(w->out, w->capacity, "%s", name);
    if (w->name != NULL && strcmp(w->name, name) == 0) w->found = t;
    w->at++;
    return HD_OK;
}

hd_tensors *hd_state_list(hd_thread *thread, hd_state_each each, void *object) {
    HD_KEEP_NAME(thread);
    walk count = {0};
    HD_TRY_OR(each(thread, object, look, &count), NULL);
    walk w = {.list = hd_tensors_new(thread, count.at)};
    if (w.list == NULL || each(thread, object, look, &w) != HD_OK) return NULL;
    return w.list;
}

hd_error hd_state_name(hd_thread *thread, hd_state_each each, void *object, int64_t index, char *name,
                       size_t capacity) {
    HD_KEEP_NAME(thread);
    walk w = {.wanted = index, .out = name, .capacity = capacity};
    HD_TRY(each(thread, object, look, &w));
    if (index >= 0 && index < w.at) return HD_OK;
    return hd_fail(HD_ERROR_INDEX, "index %lld of %lld tensors of state", (long long)index, (long long)w.at);
}

void hd_state_set(hd_thread *thread, hd_state_each each, void *object, const char *name, hd_tensor *value) {
    HD_KEEP_NAME(thread);
    if (name == NULL) {
        hd_fail(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
        return;
    }
    walk w = {.name = name};
    if (hd_tensor_check(value, "value") != HD_OK || each(thread, object, look, &w) != HD_OK) return;
    if (w.found == NULL)
        hd_fail(HD_ERROR_VALUE, "there is no state \"%s\" among the %lld tensors", name, (long long)w.at);
    else if (!hd_shape_equal(w.found->layout.shape, value->layout.shape))
        hd_fail(HD_ERROR_SHAPE, "\"%s\" is %s, and the value %s", name, HD_SHAPE_TEXT(w.found->layout.shape),
                HD_SHAPE_TEXT(value->layout.shape));
    else {
        HD_NO_GRAD;
        hd_assign(w.found, value);
    }
}

/* ---- of optimizers ----------------------------------------------------------------------------------------------- */
static hd_error each_slot(hd_thread *thread, hd_optimizer *o, hd_state_visit visit, void *user) {
    const hd_optimizer_class *class_ = o->class_;
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        HD_TRY(hd_optimizer_make_slots(thread, o, i));
        for (int k = 0; k < class_->slots; ++k) {
            char name[48];
            if (class_->slot_names != NULL)
                snprintf(name, sizeof name, "%.24s.%lld", class_->slot_names[k], (long long)i);
            else
                snprintf(name, sizeof name, "slot%d.%lld", k, (long long)i);
            HD_TRY(visit(user, name, o->slots[i][k]));
        }
    }
    return HD_OK;
}

hd_error hd_optimizer_each(hd_thread *thread, hd_optimizer *o, hd_state_visit visit, void *user) {
    HD_TRY(hd_optimizer_check(o));
    hd_use use __attribute__((cleanup(hd_use_end)));
    HD_TRY(hd_use_begin(&use, thread, &o->object, false));
    HD_TRY(visit(user, "learning_rate", o->groups[0].learning_rate));
    for (int64_t i = 1; i < o->group_count; ++i) {
        char name[48];
        snprintf(name, sizeof name, "learning_rate.%lld", (long long)i);
        HD_TRY(visit(user, name, o->groups[i].learning_rate));
    }
    HD_TRY(visit(user, "steps", o->steps));
    return each_slot(thread, o, visit, user);
}

static hd_error each(hd_thread *thread, void *object, hd_state_visit visit, void *user) {
    return hd_optimizer_each(thread, object, visit, user);
}

hd_tensors *hd_optimizer_state(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_state", NULL);
    return hd_state_list(thread, each, optimizer);
}
const char *hd_optimizer_state_name(hd_optimizer *optimizer, int64_t index) {
    HD_ENTER("hd_optimizer_state_name", NULL);
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    HD_TRY_OR(hd_state_name(thread, each, optimizer, index, optimizer->name, sizeof optimizer->name), NULL);
    return optimizer->name;
}
void hd_optimizer_set_state(hd_optimizer *optimizer, const char *name, hd_tensor *value) {
    HD_ENTER("hd_optimizer_set_state", );
    hd_state_set(thread, each, optimizer, name, value);
}
