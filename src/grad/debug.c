/* HODU_DEBUG=nan: the first op whose result or gradient is not finite is an error that names it. */
#include "core/environment.h"
#include "grad/tape.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool nan_is_an_error;
static hd_observer with_tape, without_tape; /* that also look at every result */

static hd_error checked_ran(hd_observer *self, hd_thread *thread, const hd_call *call);
static hd_error checked_wrote(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);
static hd_error only_checked(hd_observer *self, hd_thread *thread, const hd_call *call);
static hd_error only_checked_write(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src);

static void read_environment(void) {
    nan_is_an_error = hd_environment_debug("nan");
    with_tape =
        (hd_observer){.of_all = true, .ran = checked_ran, .writes = hd_tape_observer.writes, .wrote = checked_wrote};
    without_tape = (hd_observer){.of_all = true, .ran = only_checked, .wrote = only_checked_write};
}

bool hd_debug_nan(void) {
    pthread_once(&once, read_environment);
    return nan_is_an_error;
}

/* While a builder records there is no value yet. */
hd_error hd_check_finite(hd_thread *thread, hd_tensor *t, const char *what, const char *who) {
    if (!hd_dtype_is_float((hd_dtype)t->dtype) || t->count == 0 || thread->executor->captures) return HD_OK;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_span span;
    hd_span_begin(&span, thread, "check_finite");
    hd_tensor *finite = hd_isfinite(t), *all = hd_all(finite, HD_AXES(), NULL);
    if (all != NULL && hd_item_i64(all) == 0) {
        const int64_t at = hd_item_i64(hd_argmin(hd_flatten(finite), 0, NULL));
        const double value = hd_item(hd_select(hd_flatten(t), 0, at));
        hd_fail(HD_ERROR_VALUE, "HODU_DEBUG=nan: %s of %s is not finite: element %lld of %s is %g", what, who,
                (long long)at, HD_SHAPE_TEXT(t->layout.shape), value);
    }
    hd_span_end(&span, NULL);
    thread->observer = observer;
    return thread->error_code;
}

const char *hd_title_of(const hd_op *op, const void *attributes, char name[96]) {
    const char *own = hd_own_name(op, attributes);
    snprintf(name, 96, own[0] ? "the op \"%s\"" : "hd_%s", own[0] ? own : op->name);
    return name;
}

hd_error hd_check_results(hd_thread *thread, const hd_call *call) {
    if (call->op->family == HD_FAMILY_CREATE || call->op->family == HD_FAMILY_VIEW)
        return HD_OK; /* as the caller wished */
    char name[96];
    hd_title_of(call->op, call->attributes, name);
    for (int i = 0; i < call->output_count; ++i) HD_TRY(hd_check_finite(thread, call->outputs[i], "the result", name));
    return HD_OK;
}

/* A write may round what was finite to infinity; what was not finite was looked at when it was made. */
static hd_error check_write(hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    if (dst->dtype == src->dtype || thread->executor->captures) return HD_OK;
    hd_observer *observer = thread->observer;
    thread->observer = NULL;
    hd_span span;
    hd_span_begin(&span, thread, "check_finite");
    const bool was_finite =
        !hd_dtype_is_float((hd_dtype)src->dtype) || hd_item_i64(hd_all(hd_isfinite(src), HD_AXES(), NULL)) != 0;
    hd_span_end(&span, NULL);
    thread->observer = observer;
    return was_finite ? hd_check_finite(thread, dst, "the result", "hd_assign") : thread->error_code;
}

static hd_error checked_ran(hd_observer *self, hd_thread *thread, const hd_call *call) {
    (void)self;
    HD_TRY(hd_check_results(thread, call));
    return hd_call_tracked(call) ? hd_tape_observer.ran(&hd_tape_observer, thread, call) : HD_OK;
}
static hd_error only_checked(hd_observer *self, hd_thread *thread, const hd_call *call) {
    (void)self;
    return hd_check_results(thread, call);
}
static hd_error checked_wrote(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    HD_TRY(check_write(thread, dst, src));
    return hd_tape_observer.wrote(&hd_tape_observer, thread, dst, src);
}
static hd_error only_checked_write(hd_observer *self, hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    (void)self;
    return check_write(thread, dst, src);
}

hd_observer *hd_observer_for(bool recording) {
    if (!hd_debug_nan()) return recording ? &hd_tape_observer : NULL;
    return recording ? &with_tape : &without_tape;
}
