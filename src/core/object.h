/* Objects: what scopes own. Reference counts are atomic, but the common case, the last reference, costs only a load:
 * whoever holds the only reference cannot be raced. */
#ifndef HD_CORE_OBJECT_H
#define HD_CORE_OBJECT_H

#include "core/error.h"

typedef struct hd_object hd_object;

/* What every kind of object can do. */
typedef struct hd_kind {
    const char *name;                                      /* "tensor", for messages */
    void (*destroy)(hd_thread *thread, hd_object *object); /* gives up what it holds and its memory */
    const char *(*title)(
        const hd_object *object); /* of kinds that belong to one thread at a time: what the user calls */
    const char *remedy;           /* it; and what to do instead of using it on two threads */
} hd_kind;

struct hd_object {
    const hd_kind *kind; /* &hd_kind_released once it is gone: use after release is noticed, not undefined */
    _Atomic int32_t references;
    _Atomic int32_t retained; /* those of them that hd_retain gave to the user */
    _Atomic bool in_scope;    /* one of them is a scope's */
    _Atomic uint32_t user;    /* the number of the thread that uses it now, see hd_use; 0: none */
};

extern const hd_kind hd_kind_released;

static inline void hd_object_init(hd_object *o, const hd_kind *kind) {
    o->kind = kind;
    atomic_store_explicit(&o->references, 1, memory_order_relaxed);
    atomic_store_explicit(&o->retained, 0, memory_order_relaxed);
    atomic_store_explicit(&o->in_scope, false, memory_order_relaxed);
    atomic_store_explicit(&o->user, 0, memory_order_relaxed);
}

static inline void hd_object_retain(hd_object *o) {
    atomic_fetch_add_explicit(&o->references, 1, memory_order_relaxed);
}

static inline void hd_object_release(hd_thread *thread, hd_object *o) {
    if (atomic_load_explicit(&o->references, memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&o->references, 1, memory_order_acq_rel) == 1)
        o->kind->destroy(thread, o);
}

/* Calls that call back have to put something right when they end: give back what they took, take back what they wrote.
 * A longjmp out of a callback leaves them without an end, and their stack, with all they know, is gone. So they note it
 * here, and the end of a scope around them does it in their place. Each gives its own number (hd_ending_last) when it
 * ends: those above it were left, too. */
hd_error hd_endings_grow(hd_thread *thread) __attribute__((cold));
/* Does what is due of those above `count` whose frames lie not above `stack`, the innermost first. */
void hd_endings_do(hd_thread *thread, uint32_t count, uintptr_t stack);
static inline __attribute__((always_inline)) hd_error
hd_ending_push(hd_thread *thread, void (*end)(hd_thread *, const hd_ending *), void *object, uint64_t a, uint64_t b) {
    if (__builtin_expect(thread->ending_count == thread->ending_capacity, 0)) HD_TRY(hd_endings_grow(thread));
    thread->endings[thread->ending_count++] = (hd_ending){end, object, {a, b}, (uintptr_t)__builtin_frame_address(0)};
    return HD_OK;
}
static inline uint32_t hd_ending_last(const hd_thread *thread) { return thread->ending_count - 1; }
static inline void hd_ending_pop(hd_thread *thread, uint32_t number) {
    if (__builtin_expect(thread->ending_count != number + 1, 0)) hd_endings_do(thread, number + 1, UINTPTR_MAX);
    thread->ending_count = number;
}

/* Scripts, builders, optimizers and compiled models belong to one thread at a time. A public function that works on one
 * takes it at the door and gives it back at every exit; whoever comes in between gets an error, and nobody ever waits.
 * What is taken is also held, so that a callback may release it.
 *     HD_USE(&script->object, false, NULL);
 * in the function's own block, after HD_ENTER and the check of the argument. `nests`: a callback of a call that has it
 * may call this function, too. */
typedef struct hd_use {
    hd_thread *thread;
    hd_object *object; /* NULL: nothing to give back */
    uint32_t ending;
} hd_use;
void hd_use_left(hd_thread *thread, const hd_ending *ending); /* a longjmp left the call */
hd_error hd_use_refuse(const hd_thread *thread, const hd_object *o, uint32_t user) __attribute__((cold));
static inline hd_error hd_use_begin(hd_use *use, hd_thread *thread, hd_object *o, bool nests) {
    uint32_t user = 0;
    *use = (hd_use){thread, NULL, 0};
    if (!atomic_compare_exchange_strong_explicit(&o->user, &user, thread->number, memory_order_acquire,
                                                 memory_order_relaxed))
        return nests && user == thread->number ? HD_OK : hd_use_refuse(thread, o, user);
    const hd_error status = hd_ending_push(thread, hd_use_left, o, 0, 0);
    if (status != HD_OK) {
        atomic_store_explicit(&o->user, 0, memory_order_release);
        return status;
    }
    hd_object_retain(o);
    use->object = o;
    use->ending = hd_ending_last(thread);
    return HD_OK;
}
static inline void hd_use_end(hd_use *use) {
    if (use->object == NULL) return;
    hd_ending_pop(use->thread, use->ending);
    atomic_store_explicit(&use->object->user, 0, memory_order_release);
    hd_object_release(use->thread, use->object);
}
#define HD_USE(o, nests, failure)                                                                                      \
    hd_use hd_use_ __attribute__((cleanup(hd_use_end)));                                                               \
    if (hd_use_begin(&hd_use_, thread, o, nests) != HD_OK) return failure

/* Gives a new object to the current scope; on failure (no memory) the object is released. */
hd_error hd_scope_grow(hd_thread *thread);
static inline hd_error hd_scope_own(hd_thread *thread, hd_object *o) {
    if (__builtin_expect(thread->object_count == thread->object_capacity, 0)) {
        const hd_error status = hd_scope_grow(thread);
        if (status != HD_OK) {
            hd_object_release(thread, o);
            return status;
        }
    }
    thread->objects[thread->object_count++] = o;
    atomic_store_explicit(&o->in_scope, true, memory_order_relaxed);
    return HD_OK;
}

/* One more reference, which is the current scope's: for what the library holds and hands out. */
static inline void *hd_scope_share(hd_thread *thread, hd_object *o) {
    hd_object_retain(o);
    return hd_scope_own(thread, o) == HD_OK ? (void *)o : NULL;
}

/* Begins a scope, and ends it and those above it, as hd_scope_begin and hd_scope_end do, of the library's own: there
 * are no blocks to unwind. */
hd_scope_token hd_scope_open(hd_thread *thread, hd_scope_token *self, const char *file, int line);
/* The same at the place of the scope around it: messages name the user's. */
static inline hd_scope_token hd_scope_within(hd_thread *thread, hd_scope_token *self) {
    const hd_scope_frame *around = thread->scope_count > 0 ? &thread->scopes[thread->scope_count - 1] : NULL;
    return hd_scope_open(thread, self, around != NULL ? around->file : NULL, around != NULL ? around->line : 0);
}
void hd_scope_close(hd_thread *thread, hd_scope_token *token);
/* Releases all objects of all scopes: the end of a thread. */
void hd_scope_end_all(hd_thread *thread);

/* For objects that are arrays: marks one as released and gives its memory back after some others. */
void hd_object_bury(hd_thread *thread, hd_object *o);
/* Those that wait: the end of a thread. */
void hd_object_bury_all(hd_thread *thread);

/* Memory for object headers, recycled per thread; a header released elsewhere joins the list of that thread. */
typedef enum hd_header_class { HD_HEADER_TENSOR, HD_HEADER_STORAGE } hd_header_class;
enum { HD_HEADER_TENSOR_BYTES = 256, HD_HEADER_STORAGE_BYTES = 128 };
/* Released headers queue up first in, first out, and are reused only when enough others wait, so that a use after
 * release finds hd_kind_released for a while; debug builds wait for longer. */
#ifdef NDEBUG
enum { HD_HEADERS_WAITING = 16, HD_HEADERS_KEPT = 4096 };
#else
enum { HD_HEADERS_WAITING = 4096, HD_HEADERS_KEPT = 16384 };
#endif
static inline void **hd_header_link(void *header) { return (void **)((char *)header + sizeof(hd_object)); }
static inline void *hd_header_pop(hd_freelist *list) {
    void *header = list->head;
    list->head = *hd_header_link(header);
    list->count--;
    return header;
}
void *hd_header_from_system(hd_thread *thread, hd_header_class which);

/* NULL with an error when there is no memory. */
static inline void *hd_header_allocate(hd_thread *thread, hd_header_class which) {
    if (__builtin_expect(thread->headers[which].count <= HD_HEADERS_WAITING, 0))
        return hd_header_from_system(thread, which);
    hd_count(&thread->live_objects, 1);
    return hd_header_pop(&thread->headers[which]);
}
void hd_header_recycle(hd_thread *thread, hd_header_class which, void *header);
void hd_header_trim(hd_thread *thread);

#endif
