/* Schedules: what they hold, and a step of one. */
#include "optim/schedule.h"
#include "core/undo.h"

#include <stdio.h>
#include <string.h>

const char *const hd_schedule_memory_names[HD_SCHEDULE_MEMORY] = {"best", "waited", "resting"};

static void schedule_destroy(hd_thread *thread, hd_object *object) {
    hd_schedule *s = (hd_schedule *)object;
    for (int64_t i = 0; i < s->groups; ++i) hd_tensor_drop(thread, s->bases[i]);
    for (int i = 0; i < HD_SCHEDULE_MEMORY; ++i) hd_tensor_drop(thread, s->memory[i]);
    hd_tensor_drop(thread, s->count);
    hd_array_release(s->bases);
    hd_array_release(s->options);
    if (s->next != NULL) hd_object_release(thread, &s->next->object);
    hd_object_release(thread, &s->optimizer->object);
    hd_object_bury(thread, object);
}
static const char *schedule_title(const hd_object *object) { return ((const hd_schedule *)object)->class_->name; }
static const hd_kind schedule_kind = {.name = "schedule",
                                      .destroy = schedule_destroy,
                                      .title = schedule_title,
                                      .remedy = "one thread at a time may use it: that which steps the optimizer"};

hd_error hd_schedule_check(const hd_schedule *s, const char *parameter) {
    if (s == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`%s` is NULL", parameter);
    if (s->object.kind == &schedule_kind) return HD_OK;
    return hd_fail(s->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                   "`%s` is no living schedule", parameter);
}

/* ---- making one -------------------------------------------------------------------------------------------------- */
/* Sets the rates of the groups to those after `count` steps. */
static void set_rates(hd_thread *thread, hd_schedule *s) {
    for (int64_t i = 0; i < s->groups && thread->error_code == HD_OK; ++i)
        hd_assign(s->optimizer->groups[i].learning_rate, s->class_->rate(s, s->bases[i], s->count));
}

static hd_error begin_at(hd_thread *thread, hd_schedule *s, hd_schedule *next) {
    for (int64_t i = 0; i < s->groups; ++i) {
        hd_tensor *base = next != NULL ? next->bases[i] : hd_copy(s->optimizer->groups[i].learning_rate);
        if (base == NULL) return thread->error_code;
        hd_object_retain(&base->object);
        s->bases[i] = base;
    }
    set_rates(thread, s);
    return thread->error_code;
}

static hd_error fill(hd_thread *thread, hd_schedule *s, const void *options, size_t bytes, const double *memory,
                     int remembers) {
    s->options = hd_array_resize(NULL, bytes);
    s->bases = hd_array_resize(NULL, (size_t)s->optimizer->group_count * sizeof *s->bases);
    if (s->options == NULL || s->bases == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a schedule");
    memcpy(s->options, options, bytes);
    s->count = hd_tensor_scalar(thread, HD_F64, 0);
    for (int i = 0; i < remembers && thread->error_code == HD_OK; ++i)
        s->memory[i] = hd_tensor_scalar(thread, HD_F64, memory[i]);
    return thread->error_code;
}

hd_schedule *hd_schedule_make(hd_thread *thread, const hd_schedule_class *class_, hd_optimizer *optimizer,
                              hd_schedule *next, const void *options, size_t bytes, const double *memory,
                              int remembers) {
    HD_TRY_OR(hd_optimizer_check(optimizer), NULL);
    HD_USE(&optimizer->object, true, NULL);
    HD_KEEP_NAME(thread);
    hd_schedule *s = hd_array_resize(NULL, sizeof *s);
    if (s == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a schedule");
        return NULL;
    }
    *s = (hd_schedule){.class_ = class_, .optimizer = optimizer, .next = next};
    hd_object_init(&s->object, &schedule_kind);
    hd_count(&thread->live_objects, 1);
    hd_object_retain(&optimizer->object);
    if (next != NULL) hd_object_retain(&next->object);
    HD_TRY_OR(hd_scope_own(thread, &s->object), NULL);
    HD_TRY_OR(fill(thread, s, options, bytes, memory, remembers), NULL);
    if (class_->rate == NULL) return s;
    HD_NO_GRAD;
    HD_EAGER; /* it is made at once, also inside a builder */
    s->groups = next != NULL ? next->groups : optimizer->group_count;
    memset(s->bases, 0, (size_t)s->groups * sizeof *s->bases);
    return begin_at(thread, s, next) == HD_OK ? s : NULL;
}

/* ---- using one --------------------------------------------------------------------------------------------------- */
/* All or nothing, as a step of an optimizer. */
static void advance(hd_thread *thread, hd_schedule *s, hd_tensor *metric) {
    HD_USE(&s->optimizer->object, true, );
    hd_undo *undo = hd_undo_begin(thread);
    if (undo == NULL) return;
    HD_NO_GRAD;
    hd_span span;
    hd_span_begin(&span, thread, "schedule_step");
    hd_assign(s->count, hd_add_scalar(s->count, 1));
    if (s->class_->advance != NULL)
        s->class_->advance(s, metric);
    else
        set_rates(thread, s);
    hd_undo_end(undo, thread->error_code == HD_OK);
    hd_span_end(&span, NULL);
}

void hd_schedule_step(hd_schedule *schedule) {
    HD_ENTER("hd_schedule_step", );
    if (hd_schedule_check(schedule, "schedule") != HD_OK) return;
    HD_USE(&schedule->object, false, );
    if (schedule->class_->advance != NULL)
        hd_fail(HD_ERROR_STATE, "the schedule \"%s\" follows a metric; hd_schedule_step_with gives it one",
                schedule->class_->name);
    else
        advance(thread, schedule, NULL);
}

void hd_schedule_step_with(hd_schedule *schedule, hd_tensor *metric) {
    HD_ENTER("hd_schedule_step_with", );
    if (hd_schedule_check(schedule, "schedule") != HD_OK || hd_tensor_check(metric, "metric") != HD_OK) return;
    HD_USE(&schedule->object, false, );
    if (schedule->class_->advance == NULL)
        hd_fail(HD_ERROR_STATE, "the schedule \"%s\" follows no metric; hd_schedule_step", schedule->class_->name);
    else if (metric->count != 1)
        hd_fail(HD_ERROR_SHAPE, "the metric is %s; it has one element", HD_SHAPE_TEXT(metric->layout.shape));
    else
        advance(thread, schedule, metric);
}

hd_tensor *hd_schedule_count(hd_schedule *schedule) {
    HD_ENTER("hd_schedule_count", NULL);
    HD_TRY_OR(hd_schedule_check(schedule, "schedule"), NULL);
    return hd_scope_share(thread, &schedule->count->object);
}

/* ---- what it keeps ----------------------------------------------------------------------------------------------- */
hd_error hd_schedule_each(hd_thread *thread, hd_schedule *s, hd_state_visit visit, void *user) {
    HD_TRY(hd_schedule_check(s, "schedule"));
    hd_use use __attribute__((cleanup(hd_use_end)));
    HD_TRY(hd_use_begin(&use, thread, &s->object, false));
    HD_TRY(visit(user, "count", s->count));
    for (int64_t i = 0; i < s->groups; ++i) {
        char name[48];
        snprintf(name, sizeof name, "base.%lld", (long long)i);
        HD_TRY(visit(user, name, s->bases[i]));
    }
    for (int i = 0; i < HD_SCHEDULE_MEMORY; ++i)
        if (s->memory[i] != NULL) HD_TRY(visit(user, hd_schedule_memory_names[i], s->memory[i]));
    return HD_OK;
}

static hd_error each(hd_thread *thread, void *object, hd_state_visit visit, void *user) {
    return hd_schedule_each(thread, object, visit, user);
}

hd_tensors *hd_schedule_state(hd_schedule *schedule) {
    HD_ENTER("hd_schedule_state", NULL);
    return hd_state_list(thread, each, schedule);
}
const char *hd_schedule_state_name(hd_schedule *schedule, int64_t index) {
    HD_ENTER("hd_schedule_state_name", NULL);
    HD_TRY_OR(hd_schedule_check(schedule, "schedule"), NULL);
    HD_TRY_OR(hd_state_name(thread, each, schedule, index, schedule->name, sizeof schedule->name), NULL);
    return schedule->name;
}
void hd_schedule_set_state(hd_schedule *schedule, const char *name, hd_tensor *value) {
    HD_ENTER("hd_schedule_set_state", );
    hd_state_set(thread, each, schedule, name, value);
}
