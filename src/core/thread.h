/* The per-thread context: the one place where the library keeps mutable state. Everything ambient lives here (the
 * pending error, the scopes, the device, the generator, caches) and the two hooks through which other rooms take part:
 * the executor (who runs a call) and the observer (who watches it). */
#ifndef HD_CORE_THREAD_H
#define HD_CORE_THREAD_H

#include "core/os.h"

#include <hodu/hodu.h>

typedef struct hd_thread hd_thread;
typedef struct hd_executor hd_executor;
typedef struct hd_observer hd_observer;
typedef struct hd_recorder hd_recorder;
struct hd_object;

#define HD_BIN_COUNT      80 /* size classes a thread caches: blocks up to 64 KB */
#define HD_FREELIST_KINDS 2  /* tensor headers and storage headers */

typedef struct hd_scope_frame {
    uint32_t first; /* index of the scope's first object in hd_thread.objects */
    int line;
    /* How many there were: blocks and calls inside that a longjmp left end with the scope. */
    uint32_t layers, holds, grad_frames, call_depth, evaluations, endings;
    uint32_t span; /* of the recording */
    struct hd_recording *recording;
    hd_executor *executor;
    struct hd_tapes *tapes;
    const char *file;
    const void *token;
} hd_scope_frame;

typedef struct hd_freelist {
    void *head, *tail; /* linked through the first word behind the object header */
    uint32_t count;
} hd_freelist;

/* What a call puts right when it ends, and why it is kept here: see hd_ending_push. */
typedef struct hd_ending {
    void (*end)(hd_thread *thread, const struct hd_ending *ending);
    void *object;
    uint64_t number[2]; /* whatever `end` needs */
    uintptr_t stack;    /* where the frame of the call lies */
} hd_ending;

typedef struct hd_aside {
    hd_executor *executor;
    hd_observer *observer;
    struct hd_tapes *tapes;
} hd_aside;

/* A forward function that runs, for messages: "linear 0". */
typedef struct hd_layer {
    const char *kind, *name;         /* kind NULL: what is inside is captured by hd_compile */
    const void *caller;              /* of hd_forward; NULL: the library called */
    struct hd_module *module;        /* NULL: hd_compile's */
    const struct hd_tensor *x;       /* what it was given, */
    const struct hd_tensors *inputs; /* or these, several; NULL: x alone */
} hd_layer;
#define HD_LAYERS_NOTED 32

struct hd_thread {
    /* hot: read by every call */
    hd_error error_code;
    uint32_t call_depth;                    /* > 0 inside a composite: its own name stays in messages */
    const char *call;                       /* the public function that runs, "hd_add" */
    const void *caller;                     /* where it was called from */
    hd_executor *executor;                  /* runs calls: the device's, or a builder's */
    hd_observer *observer;                  /* watches calls: the active tape, or NULL */
    hd_aside aside;                         /* what a builder, or an HD_EAGER block inside one, exchanged for its own */
    uint32_t walks;                         /* backward and its kin that run: hooks may not change what they walk on */
    void (*after_walks)(hd_thread *thread); /* what had to wait for them */
    uint64_t walk_number;           /* of the innermost of them; later ones have larger numbers, on all threads */
    uint32_t evaluations;           /* > 0: the modules that run are in evaluation, whatever their flags say */
    struct hd_module *dying;        /* the nn room's: modules that wait to be destroyed, one after the other */
    bool burying;                   /* they are being destroyed */
    struct hd_undo *undo;           /* keeps what this thread writes over, or NULL: core/undo.h */
    struct hd_recording *recording; /* the graph room's: what a builder captures on this thread, or NULL */
    const hd_recorder *recorder;    /* what it does with it: core/execute.h */
    struct hd_tapes *tapes;         /* the grad room's: contexts and their tapes, NULL until there are any */
    struct hd_object **objects;     /* what the open scopes own, oldest first */
    uint32_t object_count, object_capacity;
    uint32_t scope_count, scope_capacity;
    hd_scope_frame *scopes;
    hd_ending *endings; /* of the calls that run, innermost last */
    uint32_t ending_count, ending_capacity;
    uint32_t profiles; /* that it takes: core/profile.h */
    hd_freelist headers[HD_FREELIST_KINDS];
    struct {
        void *head;
        uint32_t count;
    } bins[HD_BIN_COUNT];

    void *graves[32]; /* released objects that are no headers wait here, so that a use after release is noticed */
    uint32_t next_grave;

    /* counters of this thread alone; their sum over all threads is the process's (a release may happen elsewhere) */
    _Atomic int64_t live_objects, live_bytes, cached_bytes, header_bytes;

    /* ambient state */
    hd_device device;
    hd_dtype default_dtype;
    hd_matmul_precision matmul_precision; /* of calls with results in f32: hd_call_precision */
    uint64_t own_seed, own_draw;
    uint64_t drawn;          /* how many draws this thread has taken and not given back, of whatever generator */
    hd_generator *generator; /* retained; NULL: own_seed and own_draw */

    /* the first error */
    char error_message[512];
    char error_place[256];
    char error_call[64];
    bool error_read, error_said; /* said: to the handler or on stderr */
    uint32_t error_holds;        /* > 0: errors are kept back until a block ends */
    uint32_t layer_count;        /* may be more than are noted */
    hd_layer layers[HD_LAYERS_NOTED];
    bool warned_of_scope, warned_of_parameter;
    char reason[512]; /* what hd_device_missing and hd_compiler_missing gave last */

    uint32_t number;            /* 1 for the first thread that used the library, and so on: for messages */
    hd_thread *next, *previous; /* registry of live threads */
};

extern HD_THREAD_LOCAL hd_thread *hd_thread_pointer;
hd_thread *hd_thread_create(void);
/* From the roof (library/library.h): registers what lower rooms know of higher ones. Called once, before the first
 * context is made; hd_library_ready sees to it where there may be none yet. */
void hd_library_open(void);
void hd_library_ready(void);

/* The calling thread's context; NULL only when there is no memory for one. */
static inline hd_thread *hd_thread_self(void) {
    hd_thread *t = hd_thread_pointer;
    return __builtin_expect(t != NULL, 1) ? t : hd_thread_create();
}

/* Sums one counter over all threads, living and gone. */
typedef enum hd_counter {
    HD_COUNTER_OBJECTS,
    HD_COUNTER_BYTES,
    HD_COUNTER_CACHED,  /* bytes of blocks */
    HD_COUNTER_HEADERS, /* bytes of headers, in use or waiting to be */
    HD_COUNTERS
} hd_counter;
int64_t hd_counter_sum(hd_counter which);

static inline void hd_count(_Atomic int64_t *counter, int64_t by) { /* only the owner writes: no read-modify-write */
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* Opens a public function: HD_ENTER("hd_add", NULL); gives `thread`, or returns `failure` while an error is pending. */
static inline hd_thread *hd_thread_enter(const char *call, const void *caller) {
    hd_thread *t = hd_thread_self();
    if (__builtin_expect(t == NULL || t->error_code != HD_OK, 0)) return NULL;
    if (t->call_depth == 0) {
        t->call = call;
        t->caller = caller;
    }
    return t;
}
#define HD_ENTER(name, failure)                                                                                        \
    hd_thread *thread = hd_thread_enter(name, __builtin_return_address(0));                                            \
    if (thread == NULL) return failure

/* Like HD_ENTER for what must act also while an error is pending (ends, releases, queries). */
#define HD_ENTER_ALWAYS(name, failure)                                                                                 \
    hd_thread *thread = hd_thread_self();                                                                              \
    if (thread == NULL) return failure;                                                                                \
    if (thread->call_depth == 0 && thread->error_code == HD_OK) {                                                      \
        thread->call = name;                                                                                           \
        thread->caller = __builtin_return_address(0);                                                                  \
    }

/* To the end of the block the library calls public functions for the one that runs, whose name and place stay in
 * messages. */
#define HD_KEEP_NAME(thread)                                                                                           \
    __attribute__((cleanup(hd_name_kept), unused)) hd_thread *HD_UNIQUE(named_) = hd_name_keep(thread)
static inline hd_thread *hd_name_keep(hd_thread *t) {
    t->call_depth++;
    return t;
}
static inline void hd_name_kept(hd_thread *const *t) { (*t)->call_depth--; }

/* To the end of the block functions of the user's run (hooks, forward functions, handlers): calls made there name
 * themselves and their own place, and the call that runs is what it was afterwards. */
typedef struct hd_callback {
    hd_thread *thread;
    const char *call;
    const void *caller;
    uint32_t depth;
} hd_callback;
#define HD_CALLBACK(thread)                                                                                            \
    __attribute__((cleanup(hd_callback_end), unused)) const hd_callback HD_UNIQUE(callback_) = hd_callback_begin(thread)
static inline hd_callback hd_callback_begin(hd_thread *t) {
    if (t == NULL) return (hd_callback){.thread = NULL};
    const hd_callback before = {t, t->call, t->caller, t->call_depth};
    t->call_depth = 0;
    return before;
}
static inline void hd_callback_end(const hd_callback *before) {
    if (before->thread == NULL) return;
    before->thread->call = before->call;
    before->thread->caller = before->caller;
    before->thread->call_depth = before->depth;
}

#endif
