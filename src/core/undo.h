/* All or nothing: what a thread does between hd_undo_begin and hd_undo_end can be taken back: what it wrote into
 * storages and gradients, and the draws it took. What exists before is as it was then; what was made in between stays
 * as it is. A storage that is written for the first time keeps its old block here and gets another one, so that writing
 * all of it copies nothing. While a builder records, values are nodes, and the recording is told to take the old ones
 * again. */
#ifndef HD_CORE_UNDO_H
#define HD_CORE_UNDO_H

#include "core/storage.h"

typedef struct hd_undo_entry hd_undo_entry;

/* How objects of a kind become what they were. */
typedef struct hd_undo_kind {
    void (*restore)(hd_thread *thread, hd_undo_entry *e); /* exchanges what the entry holds with what is there now */
    void (*drop)(hd_thread *thread, hd_undo_entry *e);    /* gives up what it holds */
} hd_undo_kind;

/* What an object was before. */
struct hd_undo_entry {
    const hd_undo_kind *kind;
    hd_object *object; /* retained */
    void *held;        /* of a storage: a reference to its block, or a block with a copy of its bytes */
    void *data;        /* where its bytes were */
    uint32_t version, node;
};

/* Draws that were taken from a generator, from `draw` on. */
typedef struct hd_undo_draws {
    struct hd_undo_draws *next;
    hd_generator *generator; /* retained; NULL: the thread's own */
    uint64_t seed, draw, count;
    bool set; /* hd_generator_set has been, too */
} hd_undo_draws;

typedef struct hd_undo {
    hd_thread *thread;
    struct hd_undo *outer; /* that is under way on this thread, too */
    uint64_t number;
    uint32_t ending;
    hd_undo_entry *entries; /* `few`, until there are more */
    uint32_t count, capacity;
    hd_undo_draws *draws;
    hd_undo_entry few[32];
} hd_undo;

/* NULL with an error when there is no memory. A longjmp that leaves it without an end is like a failure. */
hd_undo *hd_undo_begin(hd_thread *thread);
/* What was done stays when `keep` is true; else everything is as it was. Cannot fail. */
void hd_undo_end(hd_undo *undo, bool keep);
/* To be called before a storage is written: its bytes, which are here, are kept. */
hd_error hd_undo_note(hd_undo *undo, hd_storage *s);
/* Likewise, wherever they are: before a script runs that updates it. */
hd_error hd_undo_note_state(hd_undo *undo, hd_storage *s);
/* Likewise by a builder that records a write: the node that is the storage's value. */
hd_error hd_undo_note_node(hd_undo *undo, hd_storage *s, uint32_t node);
/* Likewise for other objects, by `keep`, which fills in what an entry holds. `noted` is the object's own word for the
 * last hd_undo that has it. */
hd_error hd_undo_note_object(hd_undo *undo, const hd_undo_kind *kind, hd_object *o, uint64_t *noted,
                             void (*keep)(hd_undo_entry *e));
/* To be called when `count` draws were taken from `draw` on, or, negative, given back, which cannot fail; and before a
 * generator is set. */
hd_error hd_undo_note_draws(hd_undo *undo, hd_generator *g, uint64_t seed, uint64_t draw, int64_t count, bool set);
/* To be said of a storage that is written at the end, when nothing can fail any more, and not before: nothing of it is
 * kept for this undo. False when it was said before, or the storage was written. hd_undo_claim takes it back. */
bool hd_undo_spare(hd_undo *undo, hd_storage *s);
static inline bool hd_undo_spared(const hd_undo *undo, const hd_storage *s) { return s->noted == undo->number; }
static inline void hd_undo_claim(hd_storage *s) { s->noted = 0; }
/* Whether a storage was made since: nothing of it was there before. */
static inline bool hd_undo_made(const hd_undo *undo, const hd_storage *s) { return s->made >= undo->number; }
/* Lets a storage that was made since count as one that was there before: zeros that were only not needed until now. */
static inline void hd_undo_adopt(hd_storage *s) { s->made = 0; }

#endif
