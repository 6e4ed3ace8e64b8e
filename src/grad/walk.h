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

/* What one walk wants, and where it puts it. */
typedef struct hd_walk {
    hd_thread *thread;
    hd_tapes *tapes;
    hd_context *context;
    hd_tape *tape;
    const hd_tensors *wanted; /* hd_grad_of: only these; NULL: all leaves */
    uint64_t number, outer;   /* its own, and that of the walk around it */
    bool inside;              /* another walk: hooks of leaves are its */
    bool without_hooks;       /* what flows is no gradient of the user's: hd_jvp */
    hd_tensor **found;        /* of each wanted one, retained; NULL: zero */
    hd_arrival *arrivals;     /* hd_backward: leaves and their gradients, added when all went well */
    uint32_t arrival_count, arrival_capacity;
} hd_walk;

/* That a walk can begin at `loss`, and where: its edge on the active tape. */
hd_error hd_walk_check(hd_thread *thread, const hd_tapes *tapes, const hd_tensor *loss, uint32_t *edge);
/* The gradient it begins with: `given` as the loss needs it, or ones. NULL with an error. */
hd_tensor *hd_walk_seed(const hd_tensor *loss, hd_tensor *given);
/* Walks from `edge` to what is wanted, and leaves the tape as it was. */
hd_error hd_walk_run(hd_walk *w, uint32_t edge, hd_tensor *seed);
/* Around a walk: hooks may not walk the same tape, nor start or end a builder. */
void hd_walk_begin(hd_walk *w);
void hd_walk_end(hd_walk *w);
/* Runs the hooks of a slot: each may give another gradient. */
hd_error hd_walk_hooks(hd_walk *w, const hd_slot *slot, const char *what, hd_tensor **gradient);

#endif
