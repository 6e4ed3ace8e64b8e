/* Recording calls into a graph. */
#ifndef HD_GRAPH_CAPTURE_H
#define HD_GRAPH_CAPTURE_H

#include "graph/graph.h"

/* What a storage stands for while it is recorded: its value is a node, and writing gives it another. */
typedef struct hd_capture_cell {
    hd_storage *storage;     /* from outside: retained. Recorded ones hold the recording, not the other way round */
    uint32_t first, current; /* nodes: its value at first, and now */
    uint32_t version;        /* raised by every recorded write */
    uint32_t graph_cell;     /* in graph->cells; HD_NO_NODE: none */
    bool outside, frozen;    /* frozen: bound, not to be written */
    bool shadowed;           /* its storage was counted as written: see capture.c */
    bool unread, carried;    /* not read since it was written; read before it was */
    uint8_t dtype;
    hd_shape shape; /* of its value: contiguous over the whole storage */
    uint32_t next;  /* in the list of free cells */
} hd_capture_cell;

/* A tensor from outside, and its history when it was first written. */
typedef struct hd_touched {
    hd_tensor *tensor; /* retained */
    uint64_t place;
    uint32_t context, thread;
    uint8_t tracking;
} hd_touched;

typedef struct hd_recording {
    hd_executor executor; /* first: the executor is the recording */
    hd_object object;     /* held by the builder and by every storage that was recorded */
    uint32_t serial;
    hd_graph *graph;
    hd_thread *_Atomic thread;  /* on which it is active; NULL: it is not */
    bool eager;                 /* an HD_EAGER block is open */
    _Atomic bool abandoned;     /* its builder went on another thread: the next call ends it */
    hd_aside before;            /* what was aside when it began: a check inside another recording */
    struct hd_touched *touched; /* tensors from outside that were written */
    uint32_t touched_count;
    hd_capture_cell *cells;
    uint32_t cell_count, cell_capacity, free_cell;
    uint32_t *table; /* storages from outside: 1 + cell, by address */
    uint32_t table_size, outside_count;
    uint32_t span; /* the current one */
    struct {
        uint64_t bits;
        uint32_t node;
        uint8_t dtype;
    } numbers[64]; /* nodes of recent scalars, which recur */
} hd_recording;

/* Takes over the reference to `graph`; one reference is the caller's. NULL with an error. */
hd_recording *hd_recording_new(hd_thread *thread, hd_graph *graph);
void hd_recording_enter(hd_thread *thread, hd_recording *r);
/* The thread is as it was, and so is everything from outside; state cells get their updates. Always acts. */
void hd_recording_leave(hd_thread *thread, hd_recording *r);
/* Ends the recording that is active on a thread, if any: the thread ends, or its builder is gone. */
void hd_recording_abandon(hd_thread *thread);
static inline void hd_recording_release(hd_thread *thread, hd_recording *r) {
    if (r != NULL) hd_object_release(thread, &r->object);
}

/* A tensor that stands for a node; the current scope's. */
hd_tensor *hd_recording_tensor(hd_thread *thread, hd_recording *r, uint32_t node);
/* The node of a tensor's value now; HD_NO_NODE with an error. */
uint32_t hd_recording_node(hd_thread *thread, hd_recording *r, hd_tensor *t);
/* True when t is a value of this recording, or a tensor from outside that it uses. */
bool hd_recording_knows(const hd_recording *r, const hd_tensor *t);
/* True when recorded calls wrote a tensor from outside that is no state, so that runs leave it as it is; *shape is
 * its. */
bool hd_recording_wrote(const hd_recording *r, hd_shape *shape);
/* How many of such tensors look like state that nobody declared: beside declared state, those that are read before they
 * are written; else those that are written once and not read since. Unrolled steps, which begin anew in every run, do
 * neither. */
int64_t hd_recording_lost(const hd_recording *r, hd_shape *largest);
/* True when t's memory was declared to be of this kind. */
bool hd_recording_declared(const hd_recording *r, const hd_tensor *t, hd_cell_kind kind);
/* Declares what t means. */
hd_error hd_recording_declare(hd_thread *thread, hd_recording *r, const char *name, hd_cell_kind kind, hd_tensor *t);

/* Calls the op of a node anew, on tensors that stand for its inputs; checks dtype and shape. NULL with an error.
 * `second`, if it is not NULL, is set to the second output of the call, or to NULL. */
hd_tensor *hd_replay_node(hd_thread *thread, const hd_graph *g, uint32_t node, hd_tensor *const *inputs,
                          hd_tensor **second);
/* All nodes of g, replayed into the recording that is active; gives the new node of each. */
hd_error hd_replay_graph(hd_thread *thread, hd_recording *r, const hd_graph *g, uint32_t *map);

#endif
