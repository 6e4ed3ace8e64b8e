/* Objects and the scopes that own them. */
#include "core/object.h"
#include "core/execute.h"
#include "core/memory.h"
#include "core/profile.h"

#include <stdio.h>
#include <string.h>

const hd_kind hd_kind_released = {.name = "released object", .destroy = NULL};

/* Thousands of objects in one scope are a loop whose block lacks HD_SCOPE, as a rule: said once for each thread. What a
 * builder records has no memory of its own. */
static void warn_of_scope(hd_thread *thread) {
    enum { MANY = 32768 };
    const hd_scope_frame *frame = thread->scope_count > 0 ? &thread->scopes[thread->scope_count - 1] : NULL;
    const uint32_t count = thread->object_count - (frame != NULL ? frame->first : 0);
    if (count < MANY || thread->warned_of_scope || thread->recording != NULL) return;
    thread->warned_of_scope = true;
    char where[256] = "no scope, and live until the thread ends";
    if (frame != NULL && frame->file != NULL)
        snprintf(where, sizeof where, "the scope that begins at %s:%d", frame->file, frame->line);
    hd_warn(thread,
            "%u objects belong to %s; a loop needs HD_SCOPE; in its block, so that each round's tensors go with it",
            count, where);
}

hd_error hd_scope_grow(hd_thread *thread) {
    const uint32_t capacity = thread->object_capacity ? thread->object_capacity * 2 : 256;
    hd_object **objects = hd_array_resize(thread->objects, capacity * sizeof *objects);
    if (objects == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory to note %u objects in a scope", capacity);
    thread->objects = objects;
    thread->object_capacity = capacity;
    warn_of_scope(thread);
    return HD_OK;
}

hd_scope_token hd_scope_open(hd_thread *t, hd_scope_token *self, const char *file, int line) {
    hd_scope_token token = {NULL, 0};
    if (t->scope_count == t->scope_capacity) {
        const uint32_t capacity = t->scope_capacity ? t->scope_capacity * 2 : 16;
        hd_scope_frame *scopes = hd_array_resize(t->scopes, capacity * sizeof *scopes);
        if (scopes == NULL) { /* the block's objects then belong to the scope around it */
            hd_fail(HD_ERROR_MEMORY, "no memory for %u nested scopes", capacity);
            return token;
        }
        t->scopes = scopes;
        t->scope_capacity = capacity;
    }
    t->scopes[t->scope_count] = (hd_scope_frame){.first = t->object_count, .file = file, .line = line, .token = self};
    token.self = self;
    token.depth = ++t->scope_count;
    return token;
}

hd_scope_token hd_scope_begin(hd_scope_token *self, const char *file, int line) {
    hd_thread *t = hd_thread_self();
    if (t == NULL) return (hd_scope_token){NULL, 0};
    if (t->scope_count == t->scope_capacity) { /* there might be no memory for one more */
        t->call = "HD_SCOPE";
        t->caller = __builtin_return_address(0);
    }
    const hd_scope_token token = hd_scope_open(t, self, file, line);
    if (token.self == NULL) return token;
    hd_scope_frame *frame = &t->scopes[t->scope_count - 1];
    frame->layers = t->layer_count;
    frame->holds = t->error_holds;
    frame->call_depth = t->call_depth;
    frame->evaluations = t->evaluations;
    frame->endings = t->ending_count;
    frame->autocast = t->autocast;
    if (__builtin_expect(t->recording != NULL, 0)) {
        frame->recording = t->recording;
        frame->executor = t->executor;
        frame->span = t->recorder->span(t);
    }
    frame->tapes = t->tapes;
    frame->grad_frames = t->tapes != NULL ? hd_tapes_head_of(t)->frame_count : 0;
    return token;
}

static void release_above(hd_thread *t, uint32_t first) {
    while (t->object_count > first) {
        hd_object *o = t->objects[--t->object_count];
        atomic_store_explicit(&o->in_scope, false, memory_order_relaxed);
        hd_object_release(t, o);
    }
}

void hd_scope_close(hd_thread *t, hd_scope_token *token) {
    if (token->self != token || token->depth == 0 || token->depth > t->scope_count) return;
    if (t->scopes[token->depth - 1].token != token) return; /* not a scope of this thread, or one already ended */
    release_above(t, t->scopes[token->depth - 1].first);
    t->scope_count = token->depth - 1;
    token->self = NULL;
}

/* ---- what a longjmp leaves --------------------------------------------------------------------------------------- */
hd_error hd_endings_grow(hd_thread *thread) {
    const uint32_t capacity = thread->ending_capacity ? thread->ending_capacity * 2 : 16;
    hd_ending *endings = hd_array_resize(thread->endings, capacity * sizeof *endings);
    if (endings == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for %u nested calls", capacity);
    thread->endings = endings;
    thread->ending_capacity = capacity;
    return HD_OK;
}

void hd_endings_do(hd_thread *thread, uint32_t count, uintptr_t stack) {
    while (thread->ending_count > count && thread->endings[thread->ending_count - 1].stack <= stack) {
        const hd_ending ending = thread->endings[--thread->ending_count];
        ending.end(thread, &ending);
    }
}

/* A longjmp leaves blocks and calls without ending them. Those that began inside a scope end with it at the latest:
 * calls of layers, HD_QUIET, HD_AUTOCAST, HD_NO_GRAD and its kin; HD_EAGER; profiles; steps, walks back and whatever
 * else has an hd_ending. */
static inline void unwind_scope(hd_thread *t, const hd_scope_frame *frame) {
    if (t->layer_count > frame->layers) t->layer_count = frame->layers;
    if (t->error_holds > frame->holds) t->error_holds = frame->holds;
    if (t->call_depth > frame->call_depth) t->call_depth = frame->call_depth;
    if (t->evaluations > frame->evaluations) t->evaluations = frame->evaluations;
    t->autocast = frame->autocast;
    if (t->tapes != NULL && (t->tapes == frame->tapes || frame->tapes == NULL)) {
        const hd_tapes_head *tapes = hd_tapes_head_of(t);
        if (tapes->frame_count > frame->grad_frames) tapes->hooks->unwind(t, frame->grad_frames);
    }
}

/* The stack grows down, so a call whose frame lies not above that of hd_scope_end (`stack`) has been left; one that
 * lies above it runs still, and has called back who ends a scope around it by hand. A builder that the scope owns goes
 * with it, and then the tapes are there again that it had put aside. */
static __attribute__((cold)) void end_scope_with_calls(hd_thread *t, hd_scope_token *token, uintptr_t stack) {
    const hd_scope_frame frame = t->scopes[token->depth - 1]; /* what is released may open scopes */
    const uint32_t depth = token->depth;
    const struct hd_recording *recording = t->recording;
    if (recording != NULL && recording == frame.recording) t->recorder->unwind(t, frame.executor, frame.span);
    hd_endings_do(t, frame.endings, stack);
    unwind_scope(t, &frame);
    hd_scope_close(t, token);
    if (t->recording != recording) unwind_scope(t, &frame);
    if (t->profiles > 0) hd_profile_leave(t, depth);
}

static __attribute__((noinline)) void end_scope(hd_scope_token *token, uintptr_t stack) {
    hd_thread *t = hd_thread_self();
    if (t == NULL || token == NULL || token->self != token || token->depth == 0 || token->depth > t->scope_count)
        return;
    const hd_scope_frame *frame = &t->scopes[token->depth - 1];
    if (frame->token != token) return;
    if (__builtin_expect(t->recording != NULL || t->ending_count > frame->endings || t->profiles > 0, 0)) {
        end_scope_with_calls(t, token, stack);
        return;
    }
    unwind_scope(t, frame);
    hd_scope_close(t, token);
}

/* Nothing else is done here, so that its frame is as small as one can be: see end_scope_with_calls. */
void hd_scope_end(hd_scope_token *token) { end_scope(token, (uintptr_t)__builtin_frame_address(0)); }

void hd_scope_end_all(hd_thread *t) {
    t->scope_count = 0;
    release_above(t, 0);
    hd_array_release(t->objects);
    hd_array_release(t->scopes);
    hd_array_release(t->endings);
    t->objects = NULL;
    t->scopes = NULL;
    t->endings = NULL;
    t->object_capacity = t->scope_capacity = t->ending_capacity = 0;
}

/* An object is kept by moving it to the front of its scope's range and letting the range begin behind it. */
void *hd_keep_object(void *x) {
    hd_thread *t = hd_thread_self();
    if (t == NULL || x == NULL || t->scope_count == 0) return x;
    hd_scope_frame *frame = &t->scopes[t->scope_count - 1];
    for (uint32_t i = t->object_count; i-- > frame->first;) {
        if (t->objects[i] != x) continue;
        t->objects[i] = t->objects[frame->first];
        t->objects[frame->first++] = x;
        break;
    }
    return x; /* not found: an outer scope owns it already */
}

void hd_use_left(hd_thread *thread, const hd_ending *ending) {
    hd_object *o = ending->object;
    atomic_store_explicit(&o->user, 0, memory_order_release);
    hd_object_release(thread, o);
}

hd_error hd_use_refuse(const hd_thread *thread, const hd_object *o, uint32_t user) {
    if (user == thread->number)
        return hd_fail(HD_ERROR_STATE,
                       "the %s \"%s\" is in use by a call on this thread that has not returned; what that call calls "
                       "back may not use it",
                       o->kind->name, o->kind->title(o));
    return hd_fail(HD_ERROR_STATE, "the %s \"%s\" is in use by another thread (number %u); %s", o->kind->name,
                   o->kind->title(o), user, o->kind->remedy);
}

static bool was_released(const hd_object *o, const char *call) {
    if (o->kind != &hd_kind_released) return false;
    hd_thread_self()->call = call;
    hd_fail(HD_ERROR_RELEASED, "the object was released before; keep it with hd_keep or hd_retain");
    return true;
}

void *hd_retain_object(void *x) {
    HD_ENTER_ALWAYS("hd_retain", x);
    if (x == NULL || was_released(x, "hd_retain")) return x;
    atomic_fetch_add_explicit(&((hd_object *)x)->retained, 1, memory_order_relaxed);
    hd_object_retain(x);
    return x;
}

/* Takes the object out of the scope of this thread that owns it; false when none does. */
static bool take_out_of_scope(hd_thread *t, const hd_object *o) {
    uint32_t i = t->object_count;
    while (i-- > 0 && t->objects[i] != o) {}
    if (i == UINT32_MAX) return false;
    memmove(&t->objects[i], &t->objects[i + 1], (t->object_count - i - 1) * sizeof *t->objects);
    t->object_count--;
    for (uint32_t s = t->scope_count; s-- > 0 && t->scopes[s].first > i;) t->scopes[s].first--;
    return true;
}

/* First the references that hd_retain gave out, then the scope's: those the library holds are never the caller's. */
void hd_release(const void *x) {
    HD_ENTER_ALWAYS("hd_release", );
    hd_object *o = (hd_object *)(uintptr_t)x;
    if (o == NULL || was_released(o, "hd_release")) return;
    int32_t retained = atomic_load_explicit(&o->retained, memory_order_relaxed);
    while (retained > 0 && !atomic_compare_exchange_weak_explicit(&o->retained, &retained, retained - 1,
                                                                  memory_order_relaxed, memory_order_relaxed)) {}
    if (retained == 0) {
        if (!take_out_of_scope(thread, o)) {
            hd_fail(HD_ERROR_STATE,
                    "this %s is not yours to release: nobody retained it, and it belongs to no scope of this thread; "
                    "hd_retain it before handing it over",
                    o->kind->name);
            return;
        }
        atomic_store_explicit(&o->in_scope, false, memory_order_relaxed);
    }
    hd_object_release(thread, o);
}

int64_t hd_live_objects(void) { return hd_counter_sum(HD_COUNTER_OBJECTS); }

void hd_object_bury(hd_thread *thread, hd_object *o) {
    o->kind = &hd_kind_released;
    hd_count(&thread->live_objects, -1);
    void **grave = &thread->graves[thread->next_grave++ % (sizeof thread->graves / sizeof thread->graves[0])];
    hd_array_release(*grave);
    *grave = o;
}

void hd_object_bury_all(hd_thread *thread) {
    for (size_t i = 0; i < sizeof thread->graves / sizeof thread->graves[0]; ++i) {
        hd_array_release(thread->graves[i]);
        thread->graves[i] = NULL;
    }
}

/* ---- headers: see object.h for why they wait ------------------------------------------------------------------- */
static const size_t header_bytes[] = {HD_HEADER_TENSOR_BYTES, HD_HEADER_STORAGE_BYTES};

static void give_back_oldest(hd_thread *thread, hd_header_class which) {
    hd_count(&thread->header_bytes, -(int64_t)header_bytes[which]);
    hd_system_release(hd_header_pop(&thread->headers[which]), header_bytes[which]);
}

void *hd_header_from_system(hd_thread *thread, hd_header_class which) {
    void *header = hd_system_allocate(header_bytes[which]);
    if (header == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for the header of a %s", which == HD_HEADER_TENSOR ? "tensor" : "storage");
        return NULL;
    }
    hd_count(&thread->header_bytes, (int64_t)header_bytes[which]);
    hd_count(&thread->live_objects, 1);
    return header;
}

void hd_header_recycle(hd_thread *thread, hd_header_class which, void *header) {
    hd_freelist *list = &thread->headers[which];
    hd_count(&thread->live_objects, -1);
    ((hd_object *)header)->kind = &hd_kind_released;
    *hd_header_link(header) = NULL;
    if (list->count == 0)
        list->head = header;
    else
        *hd_header_link(list->tail) = header;
    list->tail = header;
    if (__builtin_expect(++list->count > HD_HEADERS_KEPT, 0)) give_back_oldest(thread, which);
}

void hd_header_trim(hd_thread *thread) {
    for (int which = 0; which < HD_FREELIST_KINDS; ++which)
        while (thread->headers[which].count > 0) give_back_oldest(thread, (hd_header_class)which);
}
