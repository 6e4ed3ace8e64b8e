/* Optimizers: what they hold, their groups, and what all updates share. */
#include "optim/optimizer.h"
#include "core/away.h"
#include "core/undo.h"
#include "ops/op.h"

#include <math.h>

static void optimizer_destroy(hd_thread *thread, hd_object *object) {
    hd_optimizer *o = (hd_optimizer *)object;
    for (int64_t i = 0; o->parameters != NULL && i < o->parameters->count; ++i)
        for (int k = 0; k < HD_SLOTS_MOST; ++k) hd_tensor_drop(thread, o->slots[i][k]);
    hd_array_release(o->slots);
    for (int64_t i = 0; i < o->group_count; ++i) hd_tensor_drop(thread, o->groups[i].learning_rate);
    hd_array_release(o->groups);
    hd_tensor_drop(thread, o->steps);
    if (o->parameters != NULL) hd_object_release(thread, &o->parameters->object);
    if (o->class_->destroy != NULL) {
        HD_CALLBACK(thread);
        o->class_->destroy(o->state);
    }
    hd_object_bury(thread, object);
}
static const char *optimizer_title(const hd_object *object) {
    const hd_optimizer_class *c = ((const hd_optimizer *)object)->class_;
    return c->name != NULL ? c->name : "";
}
static const hd_kind optimizer_kind = {
    .name = "optimizer",
    .destroy = optimizer_destroy,
    .title = optimizer_title,
    .remedy = "one thread at a time may use it: step on one thread when the others have added their gradients"};

hd_error hd_optimizer_check(const hd_optimizer *o) {
    if (o == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`optimizer` is NULL");
    if (o->object.kind == &optimizer_kind) return HD_OK;
    return hd_fail(o->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`optimizer` is no living optimizer");
}

hd_error hd_optimizer_check_rate(double learning_rate) {
    if (hd_is_not_negative(learning_rate)) return HD_OK;
    return hd_fail(HD_ERROR_VALUE, "a learning rate of %g; it must be finite and not negative", learning_rate);
}

static hd_error check_parameters(const hd_tensors *parameters) {
    HD_TRY(hd_tensors_check(parameters, "parameters"));
    if (parameters->count == 0) return hd_fail(HD_ERROR_VALUE, "there are no parameters");
    int64_t tracked = 0;
    for (int64_t i = 0; i < parameters->count; ++i) {
        const hd_tensor *p = parameters->items[i];
        tracked += p->tracking == HD_TRACKED_LEAF;
        if (p->tracking == HD_TRACKED_RESULT || !hd_dtype_is_float((hd_dtype)p->dtype))
            return hd_fail(HD_ERROR_VALUE,
                           "parameter %lld, %s of %s, is no leaf that requires a gradient; hd_param makes one",
                           (long long)i, HD_SHAPE_TEXT(p->layout.shape), hd_dtype_name((hd_dtype)p->dtype));
        for (int64_t k = 0; k < i; ++k)
            if (parameters->items[k] == p)
                return hd_fail(HD_ERROR_VALUE, "parameters %lld and %lld are one tensor; it would be updated twice",
                               (long long)k, (long long)i);
    }
    if (tracked == 0) /* those that are frozen are passed over, until hd_requires_grad */
        return hd_fail(HD_ERROR_VALUE, "none of the %lld parameters requires a gradient; hd_requires_grad or hd_param",
                       (long long)parameters->count);
    return HD_OK;
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */
static hd_error no_memory(void) { return hd_fail(HD_ERROR_MEMORY, "no memory for an optimizer"); }

/* A group of parameters that were checked, behind the others; or, with an error, all is as it was. */
static hd_error add_group(hd_thread *thread, hd_optimizer *o, hd_tensors *parameters, double rate, double decay) {
    const int64_t before = o->parameters != NULL ? o->parameters->count : 0, all = before + parameters->count;
    hd_tensor *(*slots)[HD_SLOTS_MOST] = hd_array_resize(o->slots, (size_t)all * sizeof *slots);
    if (slots == NULL) return no_memory();
    o->slots = slots;
    hd_group *groups = hd_array_resize(o->groups, (size_t)(o->group_count + 1) * sizeof *groups);
    if (groups == NULL) return no_memory();
    o->groups = groups;
    hd_tensors *list = before == 0 ? parameters : hd_tensors_join(o->parameters, parameters);
    hd_tensor *learning_rate = list != NULL ? hd_tensor_scalar(thread, HD_F64, rate) : NULL;
    if (learning_rate == NULL) return thread->error_code;
    for (int64_t i = before; i < all; ++i)
        for (int k = 0; k < HD_SLOTS_MOST; ++k) slots[i][k] = NULL;
    groups[o->group_count++] = (hd_group){before, learning_rate, decay};
    hd_object_retain(&list->object);
    if (before > 0) hd_object_release(thread, &o->parameters->object);
    o->parameters = list;
    return HD_OK;
}

static hd_error check_beside(const hd_optimizer *o, const hd_tensors *parameters) {
    HD_TRY(check_parameters(parameters));
    for (int64_t i = 0; i < parameters->count; ++i)
        for (int64_t k = 0; k < o->parameters->count; ++k)
            if (parameters->items[i] == o->parameters->items[k])
                return hd_fail(HD_ERROR_VALUE, "parameter %lld is one of the optimizer's already", (long long)i);
    return HD_OK;
}

int64_t hd_optimizer_add_group(hd_optimizer *optimizer, hd_tensors *parameters, const hd_group_opts *opts) {
    HD_ENTER("hd_optimizer_add_group", -1);
    HD_TRY_OR(hd_optimizer_check(optimizer), -1);
    HD_USE(&optimizer->object, false, -1);
    HD_READ_OPTS(hd_group_opts, opts, -1);
    HD_TRY_OR(check_beside(optimizer, parameters), -1);
    const double rate = hd_option_or(options.learning_rate, optimizer->first_rate),
                 decay = hd_option_or(options.weight_decay, optimizer->groups[0].weight_decay);
    HD_TRY_OR(hd_optimizer_check_rate(rate), -1);
    if (!hd_is_not_negative(decay)) {
        hd_fail(HD_ERROR_VALUE, "a weight_decay of %g; it must be finite and not negative", decay);
        return -1;
    }
    HD_KEEP_NAME(thread);
    HD_TRY_OR(add_group(thread, optimizer, parameters, rate, decay), -1);
    return optimizer->group_count - 1;
}

int64_t hd_optimizer_groups(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_groups", 0);
    HD_TRY_OR(hd_optimizer_check(optimizer), 0);
    return optimizer->group_count;
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
/* On failure the state stays the caller's. */
static hd_optimizer *make(hd_thread *thread, const hd_optimizer_class *class_, void *state, hd_tensors *parameters,
                          double learning_rate, double weight_decay) {
    HD_TRY_OR(check_parameters(parameters), NULL);
    HD_TRY_OR(hd_optimizer_check_rate(learning_rate), NULL);
    hd_optimizer *o = hd_array_resize(NULL, sizeof *o);
    if (o == NULL) {
        no_memory();
        return NULL;
    }
    static const hd_optimizer_class not_yet = {.name = "optimizer"};
    *o = (hd_optimizer){.class_ = &not_yet, .first_rate = learning_rate};
    hd_object_init(&o->object, &optimizer_kind);
    hd_count(&thread->live_objects, 1);
    o->steps = hd_tensor_scalar(thread, HD_F64, 0);
    if (o->steps == NULL || add_group(thread, o, parameters, learning_rate, weight_decay) != HD_OK) {
        hd_object_release(thread, &o->object);
        return NULL;
    }
    if (hd_scope_own(thread, &o->object) != HD_OK) return NULL;
    o->class_ = class_;
    o->state = state;
    return o;
}

hd_optimizer *hd_optimizer_new(const hd_optimizer_class *class_, void *state, hd_tensors *parameters,
                               double learning_rate) {
    HD_ENTER("hd_optimizer_new", NULL);
    if (class_ == NULL || class_->update == NULL || class_->slots < 0 || class_->slots > HD_SLOTS_MOST) {
        hd_fail(HD_ERROR_VALUE, "`class_` needs an update function and 0 to %d slots", (int)HD_SLOTS_MOST);
        return NULL;
    }
    hd_optimizer *o = make(thread, class_, state, parameters, learning_rate, 0);
    if (o != NULL) o->own = true;
    return o;
}

hd_optimizer *hd_optimizer_make(hd_thread *thread, const hd_optimizer_class *class_, const void *opts, size_t bytes,
                                hd_tensors *parameters, double learning_rate, double weight_decay) {
    void *state = hd_array_resize(NULL, bytes);
    if (state == NULL) {
        no_memory();
        return NULL;
    }
    __builtin_memcpy(state, opts, bytes);
    hd_optimizer *o = make(thread, class_, state, parameters, learning_rate, weight_decay);
    if (o == NULL) hd_array_release(state);
    return o;
}

/* ---- what it has ------------------------------------------------------------------------------------------------- */
hd_tensor *hd_optimizer_learning_rate(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_learning_rate", NULL);
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &hd_group_now(optimizer)->learning_rate->object);
}

double hd_optimizer_weight_decay(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_weight_decay", NAN);
    HD_TRY_OR(hd_optimizer_check(optimizer), NAN);
    return hd_group_now(optimizer)->weight_decay;
}

hd_tensor *hd_optimizer_steps(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_steps", NULL);
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &optimizer->steps->object);
}

hd_tensors *hd_optimizer_parameters(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_parameters", NULL);
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    return hd_scope_share(thread, &optimizer->parameters->object);
}

static hd_error check_group(const hd_optimizer *o, int64_t group) {
    if (group >= 0 && group < o->group_count) return HD_OK;
    return hd_fail(HD_ERROR_INDEX, "group %lld of an optimizer with %lld", (long long)group, (long long)o->group_count);
}

hd_tensor *hd_optimizer_group_learning_rate(hd_optimizer *optimizer, int64_t group) {
    HD_ENTER("hd_optimizer_group_learning_rate", NULL);
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    HD_TRY_OR(check_group(optimizer, group), NULL);
    return hd_scope_share(thread, &optimizer->groups[group].learning_rate->object);
}

void hd_optimizer_set_group_learning_rate(hd_optimizer *optimizer, int64_t group, double learning_rate) {
    HD_ENTER("hd_optimizer_set_group_learning_rate", );
    if (hd_optimizer_check(optimizer) != HD_OK || check_group(optimizer, group) != HD_OK ||
        hd_optimizer_check_rate(learning_rate) != HD_OK)
        return;
    HD_USE(&optimizer->object, true, ); /* a schedule may set it when a step begins */
    HD_KEEP_NAME(thread);
    hd_fill(optimizer->groups[group].learning_rate, learning_rate);
}

void hd_optimizer_set_learning_rate(hd_optimizer *optimizer, double learning_rate) {
    HD_ENTER("hd_optimizer_set_learning_rate", );
    HD_KEEP_NAME(thread);
    hd_optimizer_set_group_learning_rate(optimizer, 0, learning_rate);
}

hd_error hd_optimizer_make_slots(hd_thread *thread, hd_optimizer *o, int64_t i) {
    const hd_tensor *p = o->parameters->items[i];
    for (int k = 0; k < o->class_->slots; ++k) {
        HD_EAGER;
        hd_tensor *slot = o->slots[i][k];
        if (slot != NULL &&
            !hd_device_equal(slot->storage->device, p->storage->device)) { /* it follows its parameter */
            hd_tensor *moved = hd_to(slot, p->storage->device);
            if (moved == NULL) return thread->error_code;
            hd_object_retain(&moved->object);
            hd_object_release(thread, &slot->object);
            o->slots[i][k] = moved;
        }
        if (slot != NULL) continue;
        hd_tensor *zeros = hd_full_beside(p, p->layout.shape, hd_update_dtype(p), 0);
        if (zeros == NULL) return thread->error_code;
        hd_object_retain(&zeros->object);
        hd_undo_adopt(zeros->storage); /* a step that fails leaves zeros */
        o->slots[i][k] = zeros;
    }
    return HD_OK;
}

/* ---- for updates ------------------------------------------------------------------------------------------------- */
double hd_option_or(double given, double usual) { return given != 0 ? given : signbit(given) ? 0 : usual; }

hd_tensor *hd_update_gradient(hd_tensor *value, hd_tensor *gradient, bool maximize, double decay) {
    hd_tensor *g = value != NULL ? hd_cast(gradient, (hd_dtype)value->dtype) : NULL;
    if (maximize) g = hd_neg(g);
    return decay != 0 ? hd_add(g, hd_mul_scalar(value, decay)) : g;
}

hd_tensor *hd_update_blend(hd_tensor *old, double kept, hd_tensor *fresh) {
    hd_tensor *from_fresh = hd_mul_scalar(fresh, 1 - kept), *from_old = hd_mul_scalar(old, kept);
    return hd_add(from_old, from_fresh);
}
