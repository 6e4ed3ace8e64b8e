/* Tapes: what was computed from tensors that require gradients, in order.
 *
 * A record is one call: the op, its attributes, where its inputs came from, and the values its vjp reads, nothing else.
 * Records lie in chunks, one behind the other, each as large as it must be. An **edge** names a result: record * 2 +
 * output. A tensor knows its **place**: the serial number of a tape and an edge on it. Clearing a tape gives it a new
 * serial number, so that all places on it are forgotten at once; a tensor whose place is not on the active tape acts as
 * a leaf there. A leaf is a record without op that holds its tensor. */
#ifndef HD_GRAD_TAPE_H
#define HD_GRAD_TAPE_H

#include "core/list.h"
#include "ops/custom.h"

typedef struct hd_saved {
    hd_tensor *tensor;
    uint32_t version; /* of its storage when it was saved */
} hd_saved;

typedef struct hd_record {
    const hd_op *op;                     /* NULL: a leaf; saved()[0] is its tensor */
    hd_tensor *gradient[HD_MAX_OUTPUTS]; /* while backward runs: the sum that arrived */
    uint32_t inputs;
    uint8_t outputs, saves;                      /* saves: HD_SAVE_* */
    uint8_t dtype, compute;                      /* of the output; of an elementwise row */
    uint16_t saved_at, shapes_at, attributes_at; /* in units of 8 bytes from the record; 0: none */
    bool reached;                                /* in backward's queue */
    uint32_t watch;                              /* 1 + its first hd_watch; 0: none */
    bool needed, target;                         /* hd_grad_of: leads to a wanted tensor; is one */
    uint32_t edges[];                            /* of the inputs; 0: no gradient is wanted; then their dtypes */
} hd_record;

static inline uint8_t *hd_record_dtypes(hd_record *r) { return (uint8_t *)(r->edges + r->inputs); }
static inline hd_saved *hd_record_saved(hd_record *r) { return (hd_saved *)((uint64_t *)r + r->saved_at); }
int hd_record_saved_count(const hd_record *r);
static inline const void *hd_record_attributes(hd_record *r) {
    return r->attributes_at == 0 ? NULL : (uint64_t *)r + r->attributes_at;
}

/* ---- the gradient of a tensor ---- */
typedef struct hd_hook {
    hd_grad_hook fn;
    void *user;
    uint64_t since; /* the walk that ran when it was added, which does not call it; 0: none did */
} hd_hook;
/* Other threads may walk over them while one is added: what is there stays where it is, and lists that became too short
 * go with the slot. */
typedef struct hd_hooks {
    struct hd_hooks *older;
    uint32_t capacity;
    _Atomic uint32_t count;
    hd_hook hook[];
} hd_hooks;
typedef struct hd_slot {
    hd_object object;              /* its `user`: see hd_slot_enter */
    _Atomic(hd_tensor *) gradient; /* NULL: none, or zeros that nobody asked for yet: who looks puts them there */
    hd_tensor *pending;            /* the next gradient, while backward delivers */
    const void *walk;              /* that delivers it */
    bool known;                    /* backward or zero_grad has been */
    bool arrived;                  /* a gradient, since the last zero_grad */
    bool kept;                     /* of a result: hd_retain_grad */
    _Atomic(hd_hooks *) hooks;     /* NULL: none */
    uint64_t noted;                /* the last hd_undo that keeps what it was */
} hd_slot;
/* A result that is no leaf whose gradient somebody wants to see. */
typedef struct hd_watch {
    uint32_t edge;
    uint32_t next;        /* 1 + the watch of the record's other output; 0: none */
    struct hd_slot *slot; /* retained */
} hd_watch;

typedef struct hd_tape_chunk {
    struct hd_tape_chunk *next;
    size_t used, capacity;
    uint64_t data[];
} hd_tape_chunk;

typedef struct hd_tape {
    uint32_t serial;                  /* never the same for two tapes, nor before and after a clear; 0: not used yet */
    uint32_t count, capacity, leaves; /* leaves: those of the records that are */
    hd_record **records;              /* records[1] to records[count] */
    hd_tape_chunk *chunks;            /* the one in use first */
    hd_tape_chunk *spare;             /* kept by a clear for what comes next */
    hd_watch *watches;
    uint32_t watch_count, watch_capacity;
    uint32_t backwards; /* walks since the last clear */
    bool warned;        /* that it keeps growing */
    bool running;       /* backward walks it */
    bool clearing;      /* what it holds is being released */
} hd_tape;

typedef struct hd_context {
    int64_t id;
    hd_tape tape;
} hd_context;

/* What a declaration or a push left on the thread's stack. */
typedef enum hd_frame_kind { HD_FRAME_CONTEXT, HD_FRAME_DEFAULT, HD_FRAME_NO_GRAD } hd_frame_kind;
typedef struct hd_frame {
    hd_frame_kind kind;
    hd_context *context;   /* that is active: owned by HD_FRAME_CONTEXT */
    const void *token;     /* NULL: hd_grad_context_push */
    hd_observer *observer; /* that was there before */
} hd_frame;

typedef struct hd_tapes {
    hd_tapes_head head; /* what core knows of it */
    hd_context root;    /* context 0 */
    hd_context *active;
    hd_frame *frames;
    uint32_t frame_capacity; /* head.frame_count of them are open */
    uint32_t floor;          /* frames that hooks and functions of recomputations, which run now, may not end */
    int64_t last_id;
    struct { /* while a builder records: by tensor, both retained; `apart_size` places, a power of two */
        hd_tensor *tensor;
        hd_slot *slot;
    } * apart;
    uint32_t apart_count, apart_size;
    bool warned_of_cleared; /* that a walk stopped at a value whose history had been cleared */
    uint32_t *queue;        /* backward's heap of records, kept between walks */
    uint32_t queue_count, queue_capacity;
} hd_tapes;

/* The slot of t, made when it has none; NULL with an error. */
hd_slot *hd_slot_of(hd_thread *thread, hd_tensor *t);
/* While a builder records, gradients of tensors from outside are kept apart: outside they are as they were
 * afterwards. */
hd_slot *hd_slot_apart(const hd_tensor *t);
static inline hd_slot *hd_slot_get(const hd_tensor *t) {
    return __builtin_expect(hd_thread_self()->executor->captures, 0)
               ? hd_slot_apart(t)
               : (hd_slot *)atomic_load_explicit(&t->history.slot, memory_order_acquire);
}

/* To be called before a slot gets another gradient, so that a step that fails can give it the old one again; `t` is its
 * tensor, or NULL. */
hd_error hd_slot_note_slow(hd_thread *thread, const hd_tensor *t, hd_slot *slot);
static inline hd_error hd_slot_note(hd_thread *thread, const hd_tensor *t, hd_slot *slot) {
    return __builtin_expect(thread->undo == NULL, 1) ? HD_OK : hd_slot_note_slow(thread, t, slot);
}

/* Threads may look at a gradient at once, and one that is alone may change it: whoever comes in between gets an error,
 * and nobody waits. A thread that changes a gradient may enter it again, as hooks do. `*ends` is what hd_slot_leave
 * gives back; t, for messages, may be NULL. What only looks calls nothing of the user's before it leaves. */
hd_error hd_slot_enter(hd_thread *thread, hd_slot *slot, const hd_tensor *t, bool changes, uint32_t *ends);
void hd_slot_leave(hd_slot *slot, uint32_t ends);

/* Whether a gradient arrived at t since the last hd_zero_grad: what an optimizer goes by. False with an error. */
bool hd_gradient_arrived(hd_thread *thread, const hd_tensor *t);

/* ---- the thread's tapes ---- */
hd_tapes *hd_tapes_create(hd_thread *thread);
static inline hd_tapes *hd_tapes_of(hd_thread *thread) {
    return __builtin_expect(thread->tapes != NULL, 1) ? thread->tapes : hd_tapes_create(thread);
}
void hd_tape_clear(hd_thread *thread, hd_tape *tape);
/* A walk is over: says so, once, when there were many and no clear. */
void hd_tape_walked(hd_context *context);
/* Gives everything back. */
void hd_tape_destroy(hd_thread *thread, hd_tape *tape);
/* The edge of t on this tape; 0: it is not on it. */
static inline uint32_t hd_edge_on(const hd_tape *tape, const hd_tensor *t) {
    const uint64_t place = atomic_load_explicit(&t->history.place, memory_order_relaxed);
    return tape->serial != 0 && place >> 32 == tape->serial ? (uint32_t)place : 0;
}
/* Likewise; what is not on it, but tracked, becomes a leaf of it. 0 for what is not tracked, or with an error. */
uint32_t hd_edge_of(hd_thread *thread, hd_tape *tape, hd_tensor *t);
/* A new record with room for its parts; NULL with an error. */
hd_record *hd_record_new(hd_thread *thread, hd_tape *tape, const hd_op *op, int64_t inputs, int saved,
                         size_t shape_words, size_t attribute_bytes);
/* t is output `output` of the newest record. */
void hd_place(hd_thread *thread, hd_tapes *tapes, hd_tensor *t, int output);

/* A new context, active until hd_context_leave; for walks inside a walk. NULL with an error. */
hd_context *hd_context_enter(hd_thread *thread, hd_frame_kind kind, const void *token);
/* Leaves it; `depth` is tapes->head.frame_count after it was entered. An error when `who` left more behind. */
void hd_context_leave(hd_thread *thread, uint32_t depth, const char *who);
/* Drops what user code left on the stack of frames, which is an error. */
void hd_frames_restore(hd_thread *thread, uint32_t count, const char *who);
/* Likewise when a longjmp left it there; `observer` is the one that was active then. */
void hd_frames_drop(hd_thread *thread, hd_tapes *tapes, uint32_t count, hd_observer *observer);
/* The gradients of `losses`, each with its seed, added up, for `inputs`, for a walk inside a walk: hooks of leaves are
 * the outer walk's to run. */
hd_tensors *hd_gradients_inside(hd_thread *thread, hd_tensor *const *losses, hd_tensor *const *seeds, int64_t count,
                                const hd_tensors *inputs);
/* The leaves that y came from on the active tape, each once, as a list of the current scope; NULL with an error. */
hd_tensors *hd_leaves_of(hd_thread *thread, const hd_tensor *y);

/* The observer of this thread's state: the tape, the one of HODU_DEBUG=nan, or none. */
hd_observer *hd_observer_for(bool recording);
/* The one that a thread begins with: registered with core. */
hd_observer *hd_tape_first_observer(void);
extern hd_observer hd_tape_observer;
bool hd_debug_nan(void);
/* What messages call an op: hd_mul, or, of the user's, the op "wave". */
const char *hd_title_of(const hd_op *op, const void *attributes, char name[96]);
/* Checks that all elements are finite; else an error that says which is not, and of what: "the result", "hd_sqrt". */
hd_error hd_check_finite(hd_thread *thread, hd_tensor *t, const char *what, const char *who);
/* Likewise of what a call gave; constants and views are as the caller wished. */
hd_error hd_check_results(hd_thread *thread, const hd_call *call);

/* ---- records whose gradients somebody else computes: recomputations, compiled models, functions of the user's ---- */
typedef struct hd_external {
    hd_object object; /* first: the record holds it */
    const char *name; /* for messages */
    /* The gradients of the record's inputs from that of its output, into results (NULL: zero), of the current scope. */
    void (*vjp)(hd_thread *thread, struct hd_external *self, hd_tensor *gradient, hd_tensor **results);
    bool differentiable; /* what it calls may be noted: a second derivative is that of those calls */
} hd_external;
extern const hd_op hd_op_external;
/* Makes y the result of a record on the active tape with these inputs; retains `external`. */
hd_error hd_record_external(hd_thread *thread, hd_tensor *y, const hd_tensors *inputs, hd_external *external);

#endif
