/* Scaled losses. */
#include "optim/scaler.h"
#include "core/undo.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

struct hd_scaler {
    hd_object object;
    double growth, backoff, interval;
    hd_tensor *number, *taken, *found; /* rank 0, f64, retained */
    uint64_t round;                    /* another one after every update, of all scalers; never 0 */
    char name[16];                     /* that hd_scaler_state_name gave last */
};

static void scaler_destroy(hd_thread *thread, hd_object *object) {
    hd_scaler *s = (hd_scaler *)object;
    hd_tensor_drop(thread, s->number);
    hd_tensor_drop(thread, s->taken);
    hd_tensor_drop(thread, s->found);
    hd_object_bury(thread, object);
}
static const char *scaler_title(const hd_object *object) {
    (void)object;
    return "scaler";
}
static const hd_kind scaler_kind = {.name = "scaler",
                                    .destroy = scaler_destroy,
                                    .title = scaler_title,
                                    .remedy = "one thread at a time may use it: that which steps the optimizer"};

static hd_error check(const hd_scaler *s) {
    if (s == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`scaler` is NULL");
    if (s->object.kind == &scaler_kind) return HD_OK;
    return hd_fail(s->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`scaler` is no living scaler");
}

static uint64_t next_round(void) {
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

hd_scaler *hd_scaler_new(const hd_scaler_opts *opts) {
    HD_ENTER("hd_scaler_new", NULL);
    HD_READ_OPTS(hd_scaler_opts, opts, NULL);
    const double initial = hd_option_or(options.initial, 65536), growth = hd_option_or(options.growth, 2),
                 backoff = hd_option_or(options.backoff, 0.5), interval = hd_option_or(options.interval, 2000);
    if (!(initial > 0 && initial <= (double)FLT_MAX && growth >= 1 && isfinite(growth) && backoff > 0 && backoff <= 1 &&
          interval >= 1)) {
        hd_fail(HD_ERROR_VALUE,
                "initial %g, growth %g, backoff %g, interval %g: the first is above 0, growth at least 1, backoff in "
                "(0, 1], and the interval at least 1",
                initial, growth, backoff, interval);
        return NULL;
    }
    hd_scaler *s = hd_array_resize(NULL, sizeof *s);
    if (s == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a scaler");
        return NULL;
    }
    *s = (hd_scaler){.growth = growth, .backoff = backoff, .interval = interval, .round = next_round()};
    hd_object_init(&s->object, &scaler_kind);
    hd_count(&thread->live_objects, 1);
    HD_TRY_OR(hd_scope_own(thread, &s->object), NULL);
    s->number = hd_tensor_scalar(thread, HD_F64, initial);
    s->taken = hd_tensor_scalar(thread, HD_F64, 0);
    s->found = hd_tensor_scalar(thread, HD_F64, 0);
    return thread->error_code == HD_OK ? s : NULL;
}

hd_tensor *hd_scaler_scale(hd_scaler *scaler, hd_tensor *loss) {
    HD_ENTER("hd_scaler_scale", NULL);
    HD_TRY_OR(check(scaler), NULL);
    HD_TRY_OR(hd_tensor_check(loss, "loss"), NULL);
    if (!hd_dtype_is_float((hd_dtype)loss->dtype)) {
        hd_fail(HD_ERROR_DTYPE, "a loss of %s; it is of floats", hd_dtype_name((hd_dtype)loss->dtype));
        return NULL;
    }
    HD_KEEP_NAME(thread);
    loss = hd_cast(loss, hd_update_dtype(loss));
    return loss != NULL ? hd_mul(loss, hd_cast(scaler->number, (hd_dtype)loss->dtype)) : NULL;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */
/* Takes the number off all gradients, and notes whether one of them is not finite. */
static void unscale(hd_thread *thread, hd_scaler *s, hd_optimizer *o) {
    hd_tensor *inverse = hd_rdiv_scalar(s->number, 1), *found = NULL;
    for (int64_t i = 0; i < o->parameters->count && thread->error_code == HD_OK; ++i) {
        hd_tensor *p = o->parameters->items[i], *g = hd_is_due(thread, p) ? hd_grad(p) : NULL;
        if (g == NULL) continue;
        hd_mul_(g, hd_cast(inverse, hd_update_dtype(g)));
        hd_tensor *bad = hd_logical_not(hd_all(hd_isfinite(g), HD_AXES(), NULL));
        found = found == NULL ? bad : hd_logical_or(found, bad);
    }
    if (found != NULL) hd_assign(s->found, hd_maximum(s->found, hd_cast(found, HD_F64)));
    if (thread->error_code == HD_OK) o->unscaled = s->round;
}

void hd_scaler_unscale(hd_scaler *scaler, hd_optimizer *optimizer) {
    HD_ENTER("hd_scaler_unscale", );
    if (check(scaler) != HD_OK || hd_optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&scaler->object, false, );
    if (optimizer->unscaled == scaler->round) {
        hd_fail(HD_ERROR_STATE, "these gradients were unscaled since the last hd_scaler_update");
        return;
    }
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "scaler_unscale");
    unscale(thread, scaler, optimizer);
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}

/* What a step writes: its count, parameters and slots. NULL with an error. */
static hd_tensors *written_by(hd_thread *thread, hd_optimizer *o) {
    const int slots = o->class_->slots;
    int64_t due = 0, at = 0;
    for (int64_t i = 0; i < o->parameters->count; ++i) due += hd_is_due(thread, o->parameters->items[i]);
    hd_tensors *list = hd_tensors_new(thread, 1 + due * (1 + slots));
    if (list == NULL) return NULL;
    hd_tensors_put(list, at++, o->steps);
    for (int64_t i = 0; i < o->parameters->count; ++i) {
        if (!hd_is_due(thread, o->parameters->items[i])) continue;
        HD_TRY_OR(hd_optimizer_make_slots(thread, o, i), NULL);
        hd_tensors_put(list, at++, o->parameters->items[i]);
        for (int k = 0; k < slots; ++k) hd_tensors_put(list, at++, o->slots[i][k]);
    }
    return list;
}

/* A builder does not know whether the step is to be taken: it is, and then what was there is selected. */
static void step_or_put_back(hd_thread *thread, hd_scaler *s, hd_optimizer *o) {
    hd_tensors *written = written_by(thread, o);
    hd_tensors *before = written != NULL ? hd_tensors_new(thread, written->count) : NULL;
    for (int64_t i = 0; before != NULL && i < before->count; ++i) {
        hd_tensor *copy = hd_copy(written->items[i]);
        if (copy == NULL) return;
        hd_tensors_put(before, i, copy);
    }
    if (before == NULL) return;
    hd_optimizer_step(o);
    hd_tensor *good = hd_eq_scalar(s->found, 0);
    for (int64_t i = 0; i < before->count && thread->error_code == HD_OK; ++i)
        hd_assign(written->items[i], hd_where(good, written->items[i], before->items[i]));
}

void hd_scaler_step(hd_scaler *scaler, hd_optimizer *optimizer) {
    HD_ENTER("hd_scaler_step", );
    if (check(scaler) != HD_OK || hd_optimizer_check(optimizer) != HD_OK) return;
    HD_USE(&scaler->object, false, );
    if (optimizer->stepped == scaler->round) {
        hd_fail(HD_ERROR_STATE, "this optimizer has stepped since the last hd_scaler_update");
        return;
    }
    const uint64_t unscaled = optimizer->unscaled;
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "scaler_step");
    if (unscaled != scaler->round) unscale(thread, scaler, optimizer);
    if (thread->executor->captures)
        step_or_put_back(thread, scaler, optimizer);
    else if (thread->error_code == HD_OK && hd_item(scaler->found) == 0)
        hd_optimizer_step(optimizer);
    const bool good = thread->error_code == HD_OK;
    if (good)
        optimizer->stepped = scaler->round;
    else
        optimizer->unscaled = unscaled;
    hd_undo_end(undo, good);
    hd_span_end(&span, NULL);
}

void hd_scaler_update(hd_scaler *scaler) {
    HD_ENTER("hd_scaler_update", );
    if (check(scaler) != HD_OK) return;
    HD_USE(&scaler->object, false, );
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "scaler_update");
    hd_tensor *left_out = hd_ne_scalar(scaler->found, 0);
    hd_tensor *taken = hd_rwhere_scalar(left_out, hd_add_scalar(scaler->taken, 1), 0);
    hd_tensor *grows = hd_ge_scalar(taken, scaler->interval), *larger = hd_mul_scalar(scaler->number, scaler->growth);
    grows = hd_logical_and(grows, hd_le_scalar(larger, (double)FLT_MAX)); /* it is a factor in f32 */
    hd_tensor *number = hd_where(grows, larger, scaler->number), *smaller = hd_mul_scalar(number, scaler->backoff);
    hd_assign(scaler->number, hd_where(left_out, smaller, number));
    hd_assign(scaler->taken, hd_rwhere_scalar(hd_ge_scalar(taken, scaler->interval), taken, 0));
    hd_zero_(scaler->found);
    if (thread->error_code == HD_OK) scaler->round = next_round();
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}

/* ---- what it keeps ----------------------------------------------------------------------------------------------- */
hd_tensor *hd_scaler_number(hd_scaler *scaler) {
    HD_ENTER("hd_scaler_number", NULL);
    HD_TRY_OR(check(scaler), NULL);
    return hd_scope_share(thread, &scaler->number->object);
}

hd_error hd_scaler_each(hd_thread *thread, hd_scaler *s, hd_state_visit visit, void *user) {
    HD_TRY(check(s));
    hd_use use __attribute__((cleanup(hd_use_end)));
    HD_TRY(hd_use_begin(&use, thread, &s->object, false));
    HD_TRY(visit(user, "number", s->number));
    HD_TRY(visit(user, "taken", s->taken));
    return visit(user, "found", s->found);
}

static hd_error each(hd_thread *thread, void *object, hd_state_visit visit, void *user) {
    return hd_scaler_each(thread, object, visit, user);
}

hd_tensors *hd_scaler_state(hd_scaler *scaler) {
    HD_ENTER("hd_scaler_state", NULL);
    return hd_state_list(thread, each, scaler);
}
const char *hd_scaler_state_name(hd_scaler *scaler, int64_t index) {
    HD_ENTER("hd_scaler_state_name", NULL);
    HD_TRY_OR(check(scaler), NULL);
    HD_TRY_OR(hd_state_name(thread, each, scaler, index, scaler->name, sizeof scaler->name), NULL);
    return scaler->name;
}
void hd_scaler_set_state(hd_scaler *scaler, const char *name, hd_tensor *value) {
    HD_ENTER("hd_scaler_set_state", );
    hd_state_set(thread, each, scaler, name, value);
}
