/* Walking a tape back: what hd_backward and hd_grad_of share. */
#ifndef HD_GRAD_WALK_H
#define HD_GRAD_WALK_H

#include "grad/tape.h"

/* A gradient that reached the end of its way. */
typedef struct hd_arrival {
    hd_tensor *leaf;     /* held by the tape */
    hd_slot *slot;       /* of a result that keeps its gradient (leaf is NULL) */
    hd_tensor *gradient; /* retained; NULL: zero */
    bool finished;       /* an earlier arrival at the same slot is dealt with first */
    uint32_t ends;       /* of the slot, while it is delivered to: see hd_slot_enter */
} hd_arrival;

/* What one walk wants, and where it puts it. It lies in memory of its own, as a hook may leave it by a longjmp. */
typedef struct hd_walk {
    hd_thread *thread;
    hd_tapes *tapes;
    hd_context *context;
    hd_tape *tape;
    hd_observer *observer;   /* that was there before */
    uint32_t ending, frames; /* likewise how many frames */
    uint32_t floor;          /* likewise */
    bool walking;            /* the queue is its own */
    uint32_t *queue;         /* of the walk around it; NULL: that has nothing in it */
    uint32_t queue_count, queue_capacity;
    hd_tensor **results;      /* of the record that is visited, when they are many */
    const hd_tensors *wanted; /* hd_grad_of: only these; NULL: all leaves */
    uint64_t number, outer;   /* its own, and that of the walk around it */
    bool inside;              /* another walk: hooks of leaves are its */
    bool without_hooks;       /* what flows is no gradient of the user's: hd_jvp */
    hd_tensor **found;        /* of each wanted one, retained; NULL: zero */
    hd_arrival *arrivals;     /* hd_backward: leaves and their gradients, added when all went well */
    uint32_t arrival_count, arrival_capacity;
    uint32_t taken; /* arrivals whose slots it has entered */
} hd_walk;

/* Checks that a walk can begin at `loss`, and where: its edge on the active tape. */
hd_error hd_walk_check(hd_thread *thread, const hd_tapes *tapes, const hd_tensor *loss, uint32_t *edge);
/* The gradient it begins with: `given` as the loss needs it, or ones. NULL with an error. */
hd_tensor *hd_walk_seed(const hd_tensor *loss, hd_tensor *given);
/* Walks from these edges, each with its seed, to what is wanted, and leaves the tape as it was. */
hd_error hd_walk_run(hd_walk *w, const uint32_t *edges, hd_tensor *const *seeds, int64_t count);
/* Around a walk of the active tape, with this observer; NULL with an error when there is no memory. Hooks may not walk
 * the same tape, nor start or end a builder. A longjmp out of one is a walk that failed. */
hd_walk *hd_walk_begin(hd_thread *thread, hd_tapes *tapes, hd_observer *observer);
void hd_walk_end(hd_walk *w);
/* Leaves the slots of arrivals that it has entered. */
void hd_walk_leave_slots(hd_walk *w);
/* Runs the hooks of a slot: each may give another gradient. */
hd_error hd_walk_hooks(hd_walk *w, const hd_slot *slot, const char *what, hd_tensor **gradient);

#endif
