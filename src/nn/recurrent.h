/* Cells of recurrent layers, running one over a sequence, and the gradient of that. */
#ifndef HD_NN_RECURRENT_H
#define HD_NN_RECURRENT_H

#include "nn/module.h"

/* State is h, and of an LSTM c too: [n, hidden] each. */
enum { HD_CELL_STATES = 2 };
struct hd_cell_past;
struct hd_cell_slopes;
typedef struct hd_cell {
    const char *name;
    int gates;  /* rows of weights for each unit */
    int states; /* 1 or 2 */
    bool adds;  /* what comes from x and from h is only added up, so that both biases are one */
    /* The next state from the gates' share of x, [n, gates hidden], and the state, which it replaces. */
    void (*step)(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]);
    /* What backward multiplies by, of all steps at once. */
    void (*slopes)(const struct hd_cell_past *past, struct hd_cell_slopes *s);
} hd_cell;
extern const hd_cell hd_cell_tanh, hd_cell_relu, hd_cell_lstm, hd_cell_gru;

/* A run of a cell over a sequence. */
typedef struct hd_cell_run {
    hd_tensor *from_x;                /* [t, n, gates hidden] */
    hd_tensor *weight, *bias;         /* of h: [gates hidden, hidden]; [gates hidden], or NULL */
    hd_tensor *valid;                 /* bool [t, n, 1], or NULL: elsewhere the state stays */
    hd_tensor *begin[HD_CELL_STATES]; /* [n, hidden] */
    bool backwards;
} hd_cell_run;
/* One that is over. */
typedef struct hd_cell_past {
    const hd_cell_run *run;
    hd_tensor *before[HD_CELL_STATES], *behind[HD_CELL_STATES]; /* each step: [t, n, hidden] */
} hd_cell_past;

/* With g the gradient of h behind a step, and k that of c, that of
 *     c                grows by g through
 *     the gates        is gates times g, or times k of those an LSTM's c depends on: all but the last
 *     h before it      is theirs times the weight, and g stays
 *     c before it      is k keeps
 * and, where what comes from x and from h is not just added up, from_x is in the place of gates for what comes from x.
 * Each is [t, n, hidden] or [t, n, gates hidden]; NULL is none. */
typedef struct hd_cell_slopes {
    hd_tensor *gates, *from_x, *through, *stays, *keeps;
} hd_cell_slopes;

/* Runs a cell from run->begin. Gives each h, [t, n, hidden], 0 where it is not valid; and in `end` the last state. */
hd_tensor *hd_cell_run_all(hd_thread *thread, const hd_cell *cell, const hd_cell_run *run,
                           hd_tensor *end[HD_CELL_STATES]);
/* A vjp: for hd_custom_gradient, with what hd_cell_inputs lists, then the result, saved. */
void hd_cell_backward(hd_tensor *gradient, hd_tensor *const *saved, hd_tensor **results, void *user);
/* How a run is found again in a list of tensors: of a cell, one way or the other. */
typedef struct hd_cell_way {
    const hd_cell *cell;
    bool backwards;
} hd_cell_way;
enum { HD_CELL_INPUTS = 6 };
/* {from_x, weight, begin..., bias, valid}, without those that are NULL; and back. Returns how many. */
int hd_cell_inputs(const hd_cell *cell, const hd_cell_run *run, hd_tensor *inputs[HD_CELL_INPUTS]);
int hd_cell_from_inputs(const hd_cell_way *way, hd_tensor *const *inputs, int count, hd_cell_run *run);

/* Tensors [n, hidden] as one: [count, n, hidden]. Overwrites the list. */
hd_tensor *hd_stack_steps(hd_tensor **steps, int64_t count);
/* One of the equal parts of the last axis. */
hd_tensor *hd_gate(hd_tensor *all, int index, int count);

#endif
