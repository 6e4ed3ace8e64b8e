/* One step of an optimizer: every parameter that is due, or none. */
#include "core/undo.h"
#include "optim/optimizer.h"

static hd_error update_parameter(hd_thread *thread, hd_optimizer *o, int64_t i) {
    hd_tensor *p = o->parameters->items[i];
    HD_TRY(hd_optimizer_make_slots(thread, o, i));
    hd_tensor *gradient = hd_grad(p);
    if (gradient == NULL) return thread->error_code;
    if (o->own) {
        HD_CALLBACK(thread);
        o->class_->update(o, o->state, p, gradient, o->slots[i]); /* may keep what it makes until the step ends */
    } else {
        hd_scope_token scope = hd_scope_within(thread, &scope); /* so that the next one works in the same memory */
        o->class_->update(o, o->state, p, gradient, o->slots[i]);
        hd_scope_close(thread, &scope);
    }
    return thread->error_code;
}

/* Without any there is nothing to do, and the step does not count; which is said once. */
static bool any_is_due(hd_thread *thread, hd_optimizer *o) {
    int64_t trained = 0;
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        if (hd_is_due(thread, o->parameters->items[i])) return true;
        trained += !hd_is_frozen(o->parameters->items[i]);
    }
    if (thread->error_code != HD_OK) return false;
    if (!o->warned)
        hd_warn(
            thread,
            "hd_optimizer_step: no gradient arrived at any of the %lld parameters%s since the last zero_grad: nothing "
            "is updated, and the step does not count. hd_backward of a loss that depends on them comes before",
            (long long)trained, trained < o->parameters->count ? " that are not frozen" : "");
    o->warned = true;
    return false;
}

static void update_all(hd_thread *thread, hd_optimizer *o) {
    for (int64_t group = 0; group < o->group_count; ++group) {
        const int64_t end = group + 1 < o->group_count ? o->groups[group + 1].first : o->parameters->count;
        o->current = group;
        for (int64_t i = o->groups[group].first; i < end && thread->error_code == HD_OK; ++i)
            if (hd_is_due(thread, o->parameters->items[i])) update_parameter(thread, o, i);
    }
    o->current = 0;
}

/* All or nothing: what a step has written is taken back when it fails, and it is not counted. */
void hd_optimizer_step(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_step", );
    if (hd_optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&optimizer->object, false, );
    if (!any_is_due(thread, optimizer)) return;
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "optimizer_step");
    optimizer->current = 0; /* a longjmp may have left another */
    hd_assign(optimizer->steps, hd_add_scalar(optimizer->steps, 1));
    if (optimizer->class_->begin != NULL) {
        HD_CALLBACK(thread);
        optimizer->class_->begin(optimizer, optimizer->state);
    }
    update_all(thread, optimizer);
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}

void hd_optimizer_zero_grad(hd_optimizer *optimizer) {
    HD_ENTER("hd_optimizer_zero_grad", );
    if (hd_optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&optimizer->object, true, );
    HD_KEEP_NAME(thread);
    for (int64_t i = 0; i < optimizer->parameters->count; ++i) {
        hd_tensor *p = optimizer->parameters->items[i];
        if (!hd_is_frozen(p) || hd_has_grad(p)) hd_zero_grad(p); /* one that has always been frozen has none */
    }
    hd_clear_default_context_tape();
}
