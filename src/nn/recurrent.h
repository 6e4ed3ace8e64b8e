/* Cells of recurrent layers, and running one over a sequence. */
#ifndef HD_NN_RECURRENT_H
#define HD_NN_RECURRENT_H

#include "nn/module.h"

/* State is h, and of an LSTM c too: [n, hidden] each. */
enum { HD_CELL_STATES = 2 };
typedef struct hd_cell {
    const char *name;
    int gates;  /* rows of weights for each unit */
    int states; /* 1 or 2 */
    bool adds;  /* what comes from x and from h is only added up, so that both biases are one */
    /* The next state from the gates' share of x, [n, gates hidden], and the state, which it replaces. */
    void (*step)(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]);
} hd_cell;
extern const hd_cell hd_cell_tanh, hd_cell_relu, hd_cell_lstm, hd_cell_gru;

/* What a direction of a layer has; biases may be NULL. */
typedef struct hd_cell_weights {
    hd_tensor *input, *hidden, *input_bias, *hidden_bias;
} hd_cell_weights;

/* Runs a cell over x [t, n, in] from `state`, which becomes that behind the last step; gives each h: [t, n, hidden].
 * `valid`, bool [t, n, 1] or NULL: elsewhere the state stays, and the result is 0. */
hd_tensor *hd_cell_run(hd_thread *thread, const hd_cell *cell, const hd_cell_weights *w, hd_tensor *x, hd_tensor *valid,
                       bool backwards, hd_tensor *state[HD_CELL_STATES]);
/* Tensors [n, hidden] as one: [count, n, hidden]. Overwrites the list. */
hd_tensor *hd_stack_steps(hd_tensor **steps, int64_t count);

#endif
