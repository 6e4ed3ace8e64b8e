/* All or nothing: what a thread writes into storages between hd_undo_begin and hd_undo_end can be taken back. A storage
 * that is written for the first time keeps its old block here and gets another one, so that writing all of it copies
 * nothing. While a builder records, values are nodes, and the recording is told to take the old ones again. */
#ifndef HD_CORE_UNDO_H
#define HD_CORE_UNDO_H

#include "core/storage.h"

/* What a storage was before. */
typedef struct hd_undo_entry {
    hd_storage *storage; /* retained */
    hd_block *block;     /* a reference; of borrowed memory a copy; NULL: a value that a builder recorded */
    void *data;          /* where its bytes were */
    uint32_t version, node;
} hd_undo_entry;

typedef struct hd_undo {
    hd_thread *thread;
    struct hd_undo *outer; /* that is under way on this thread, too */
    uint64_t number;
    hd_undo_entry *entries; /* `few`, until there are more */
    uint32_t count, capacity;
    hd_undo_entry few[32];
} hd_undo;

void hd_undo_begin(hd_undo *undo, hd_thread *thread);
/* What was written stays when `keep` is true; else everything is as it was. Cannot fail. */
void hd_undo_end(hd_undo *undo, bool keep);
/* To be called before a storage is written: its bytes are kept. */
hd_error hd_undo_note(hd_undo *undo, hd_storage *s);
/* Likewise by a builder that records a write: the node that is the storage's value. */
hd_error hd_undo_note_node(hd_undo *undo, hd_storage *s, uint32_t node);

#endif
