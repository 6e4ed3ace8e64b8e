/* Writing in place, and the spans of composites. */
#include "core/execute.h"

/* ---- who watches calls ------------------------------------------------------------------------------------------- */
static hd_observer *(*first_observer)(void); /* set before the first thread has a context */

void hd_first_observer_register(hd_observer *(*first)(void)) { first_observer = first; }
hd_observer *hd_first_observer(void) { return first_observer != NULL ? first_observer() : NULL; }

/* ---- writing ----------------------------------------------------------------------------------------------------- */

hd_error hd_write(hd_thread *thread, hd_tensor *dst, hd_tensor *src) {
    hd_shape shape;
    HD_TRY(hd_shape_broadcast(&dst->layout.shape, &src->layout.shape, &shape));
    if (!hd_shape_equal(shape, dst->layout.shape))
        return hd_fail(HD_ERROR_SHAPE, "%s does not broadcast to the destination's %s",
                       HD_SHAPE_TEXT(src->layout.shape), HD_SHAPE_TEXT(dst->layout.shape));
    if (hd_layout_overlaps_itself(&dst->layout))
        return hd_fail(HD_ERROR_STATE,
                       "the destination %s is a view in which elements share memory; make it contiguous first",
                       HD_SHAPE_TEXT(dst->layout.shape));
    hd_observer *observer = thread->observer;
    if (observer != NULL && observer->writes != NULL) HD_TRY(observer->writes(observer, thread, dst, src));
    HD_TRY(thread->executor->write(thread->executor, thread, dst, src));
    return observer != NULL && observer->wrote != NULL ? observer->wrote(observer, thread, dst, src) : HD_OK;
}

void hd_span_begin(hd_span *span, hd_thread *thread, const char *name) {
    span->thread = thread;
    span->depth = thread->call_depth++;
    span->token = hd_scope_within(thread, &span->token);
    if (thread->executor->span_begin != NULL) thread->executor->span_begin(thread->executor, thread, name, true);
}

hd_tensor *hd_span_end(hd_span *span, hd_tensor *result) {
    hd_thread *thread = span->thread;
    if (thread->executor->span_end != NULL) thread->executor->span_end(thread->executor, thread);
    if (span->token.self != NULL) hd_keep_object(result);
    hd_scope_close(thread, &span->token);
    thread->call_depth = span->depth; /* whatever a callback has left */
    return thread->error_code == HD_OK ? result : NULL;
}
