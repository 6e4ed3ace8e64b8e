/* Contexts: the stack of what is active on a thread, and the public functions over it. */
#include "grad/tape.h"

#include <stdio.h>

/* ---- the thread's tapes ------------------------------------------------------------------------------------------ */
hd_observer *hd_tape_first_observer(void) { return hd_observer_for(true); }

static void drop_frame(hd_thread *thread, hd_tapes *tapes) {
    const hd_frame frame = tapes->frames[--tapes->head.frame_count];
    if (frame.kind == HD_FRAME_CONTEXT) {
        hd_tape_destroy(thread, &frame.context->tape);
        hd_array_release(frame.context);
    }
    hd_context *active = &tapes->root;
    for (uint32_t i = tapes->head.frame_count; i-- > 0 && active == &tapes->root;)
        if (tapes->frames[i].kind != HD_FRAME_NO_GRAD) {
            active = tapes->frames[i].context;
            break;
        }
    tapes->active = active;
    thread->observer = frame.observer;
}

static void end(hd_thread *thread) {
    hd_tapes *tapes = thread->tapes;
    while (tapes->head.frame_count > 0) drop_frame(thread, tapes);
    hd_tape_destroy(thread, &tapes->root.tape);
    for (uint32_t i = 0; i < tapes->apart_size; ++i) {
        if (tapes->apart[i].tensor == NULL) continue;
        hd_object_release(thread, &tapes->apart[i].slot->object);
        hd_tensor_drop(thread, tapes->apart[i].tensor);
    }
    hd_array_release(tapes->apart);
    hd_array_release(tapes->frames);
    hd_array_release(tapes->queue);
    hd_array_release(tapes);
    thread->tapes = NULL;
}

/* Contexts that were pushed by a call end by one; blocks end with the scope around them. */
static void unwind_contexts(hd_thread *thread, uint32_t count) {
    hd_tapes *tapes = thread->tapes;
    uint32_t block = count > tapes->floor ? count : tapes->floor;
    while (block < tapes->head.frame_count && tapes->frames[block].token == NULL) ++block;
    while (tapes->head.frame_count > block) drop_frame(thread, tapes);
}

static const hd_tapes_hooks hooks = {.end = end, .unwind = unwind_contexts};

hd_tapes *hd_tapes_create(hd_thread *thread) {
    hd_tapes *tapes = hd_array_resize(NULL, sizeof *tapes);
    if (tapes == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a tape");
        return NULL;
    }
    *tapes = (hd_tapes){.head = {.hooks = &hooks}};
    tapes->active = &tapes->root;
    return thread->tapes = tapes;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */
hd_context *hd_context_enter(hd_thread *thread, hd_frame_kind kind, const void *token) {
    hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL) return NULL;
    if (tapes->head.frame_count == tapes->frame_capacity) {
        const uint32_t capacity = tapes->frame_capacity ? tapes->frame_capacity * 2 : 8;
        hd_frame *frames = hd_array_resize(tapes->frames, capacity * sizeof *frames);
        if (frames == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for %u nested contexts", capacity);
            return NULL;
        }
        tapes->frames = frames;
        tapes->frame_capacity = capacity;
    }
    hd_context *context = kind == HD_FRAME_DEFAULT ? &tapes->root : tapes->active;
    if (kind == HD_FRAME_CONTEXT) {
        context = hd_array_resize(NULL, sizeof *context);
        if (context == NULL) {
            hd_fail(HD_ERROR_MEMORY, "no memory for a context");
            return NULL;
        }
        *context = (hd_context){.id = ++tapes->last_id};
    }
    tapes->frames[tapes->head.frame_count++] =
        (hd_frame){.kind = kind, .context = context, .token = token, .observer = thread->observer};
    tapes->active = context;
    if (kind == HD_FRAME_NO_GRAD) thread->observer = hd_observer_for(false);
    return context;
}

void hd_frames_restore(hd_thread *thread, uint32_t count, const char *who) {
    hd_tapes *tapes = thread->tapes;
    if (tapes->head.frame_count > count) {
        const hd_frame *top = &tapes->frames[tapes->head.frame_count - 1];
        char what[48] = "HD_NO_GRAD";
        if (top->kind == HD_FRAME_DEFAULT) snprintf(what, sizeof what, "HD_GRAD_CONTEXT_DEFAULT");
        if (top->kind == HD_FRAME_CONTEXT) snprintf(what, sizeof what, "context %lld", (long long)top->context->id);
        hd_fail(HD_ERROR_STATE, "%s began %s and did not end it; it is gone now", who, what);
    }
    while (tapes->head.frame_count > count) drop_frame(thread, tapes);
}

/* Also when another recording's tapes, or none's, are active: an HD_EAGER block may be open. */
void hd_frames_drop(hd_thread *thread, hd_tapes *tapes, uint32_t count, hd_observer *observer) {
    const bool active = thread->tapes == tapes;
    hd_observer *other = thread->observer;
    while (tapes->head.frame_count > count) drop_frame(thread, tapes);
    thread->observer = active ? observer : other;
    if (!active && thread->aside.tapes == tapes) thread->aside.observer = observer;
}

void hd_context_leave(hd_thread *thread, uint32_t depth, const char *who) {
    hd_frames_restore(thread, depth, who);
    drop_frame(thread, thread->tapes);
}

static hd_grad_token begin_frame(hd_frame_kind kind, hd_grad_token *self, const char *name) {
    hd_grad_token token = {NULL, 0};
    hd_thread *thread = hd_thread_self(); /* a block ends what it began, so it begins also while an error is pending */
    if (thread == NULL) return token;
    const bool no_error = thread->error_code == HD_OK;
    if (hd_context_enter(thread, kind, self) == NULL) {
        if (no_error && thread->call_depth == 0) thread->call = name;
        return token;
    }
    token.self = self;
    token.depth = thread->tapes->head.frame_count;
    return token;
}

hd_grad_token hd_grad_context_begin(hd_grad_token *self) {
    return begin_frame(HD_FRAME_CONTEXT, self, "HD_GRAD_CONTEXT");
}
hd_grad_token hd_grad_context_begin_default(hd_grad_token *self) {
    return begin_frame(HD_FRAME_DEFAULT, self, "HD_GRAD_CONTEXT_DEFAULT");
}
hd_grad_token hd_no_grad_begin(hd_grad_token *self) { return begin_frame(HD_FRAME_NO_GRAD, self, "HD_NO_GRAD"); }

static void fail_at_end(hd_thread *thread, const char *text, int64_t id) {
    if (thread->call_depth == 0) thread->call = "the end of a block";
    hd_fail(HD_ERROR_STATE, "context %lld %s", (long long)id, text);
}

static bool has_token(const hd_tapes *tapes, const hd_grad_token *token) {
    return tapes != NULL && token->depth > 0 && token->depth <= tapes->head.frame_count &&
           tapes->frames[token->depth - 1].token == token;
}

static void end_frames(hd_thread *thread, hd_grad_token *token) {
    hd_tapes *tapes = thread->tapes;
    if (token->depth <= tapes->floor) {
        fail_at_end(thread, "is in use by a walk back or a recomputation; it ends when that has returned",
                    tapes->frames[token->depth - 1].context->id);
        return;
    }
    while (tapes->head.frame_count >= token->depth) {
        const hd_frame *top = &tapes->frames[tapes->head.frame_count - 1];
        if (top->token == NULL)
            fail_at_end(thread, "was pushed in this block and never popped; it is gone now", top->context->id);
        drop_frame(thread, tapes);
    }
    token->self = NULL;
}

void hd_grad_end(hd_grad_token *token) {
    hd_thread *thread = hd_thread_self();
    if (thread == NULL || token == NULL || token->self != token) return;
    if (has_token(thread->tapes, token)) {
        end_frames(thread, token);
    } else if (has_token(thread->aside.tapes, token)) { /* a builder was started in the block and is still active */
        struct hd_tapes *tapes = thread->tapes;
        hd_observer *observer = thread->observer;
        thread->tapes = thread->aside.tapes;
        thread->observer = thread->aside.observer;
        end_frames(thread, token);
        thread->aside.observer = thread->observer;
        thread->tapes = tapes;
        thread->observer = observer;
    } /* else: not of this thread, or ended already */
}

int64_t hd_grad_context_push(void) {
    HD_ENTER("hd_grad_context_push", -1);
    const hd_context *context = hd_context_enter(thread, HD_FRAME_CONTEXT, NULL);
    return context != NULL ? context->id : -1;
}

void hd_grad_context_pop(int64_t id) {
    HD_ENTER_ALWAYS("hd_grad_context_pop", );
    const hd_tapes *tapes = hd_tapes_of(thread);
    if (tapes == NULL) return;
    if (id == 0) {
        hd_fail(HD_ERROR_STATE, "context 0 is always there; hd_clear_default_context_tape empties it");
        return;
    }
    const hd_frame *top = tapes->head.frame_count > 0 ? &tapes->frames[tapes->head.frame_count - 1] : NULL;
    if (top != NULL && top->kind != HD_FRAME_CONTEXT) {
        hd_fail(HD_ERROR_STATE, "an %s block is open inside context %lld; it must end first",
                top->kind == HD_FRAME_NO_GRAD ? "HD_NO_GRAD" : "HD_GRAD_CONTEXT_DEFAULT", (long long)id);
        return;
    }
    if (top == NULL || top->context->id != id) {
        hd_fail(HD_ERROR_STATE, "context %lld is not the innermost one (context %lld is active); pop in reverse order",
                (long long)id, (long long)tapes->active->id);
        return;
    }
    if (top->token != NULL) {
        hd_fail(HD_ERROR_STATE, "context %lld was begun by HD_GRAD_CONTEXT and ends with its block", (long long)id);
        return;
    }
    if (tapes->head.frame_count <= tapes->floor) {
        hd_fail(HD_ERROR_STATE, "backward is walking the tape of context %lld", (long long)id);
        return;
    }
    drop_frame(thread, thread->tapes);
}

/* ---- tapes ------------------------------------------------------------------------------------------------------- */
int64_t hd_grad_context_id(void) {
    HD_ENTER_ALWAYS("hd_grad_context_id", 0);
    return thread->tapes != NULL ? thread->tapes->active->id : 0;
}

int64_t hd_tape_length(void) {
    HD_ENTER_ALWAYS("hd_tape_length", 0);
    if (thread->tapes == NULL) return 0;
    const hd_tape *tape = &thread->tapes->active->tape;
    return tape->count - tape->leaves;
}

static void clear(hd_thread *thread, hd_tape *tape) {
    if (tape->running)
        hd_fail(HD_ERROR_STATE, "backward is walking this tape; clear it when backward has returned");
    else
        hd_tape_clear(thread, tape);
}

void hd_clear_tape(void) {
    HD_ENTER_ALWAYS("hd_clear_tape", );
    if (thread->tapes != NULL) clear(thread, &thread->tapes->active->tape);
}

void hd_clear_default_context_tape(void) {
    HD_ENTER_ALWAYS("hd_clear_default_context_tape", );
    if (thread->tapes != NULL) clear(thread, &thread->tapes->root.tape);
}
