/* Cells of recurrent layers: what they make of x is one product for all steps; then a loop has a product and a few
 * elementwise ops for each. */
#include "nn/recurrent.h"

/* ---- cells ------------------------------------------------------------------------------------------------------- */
static hd_tensor *gate(hd_tensor *all, int index, int count) {
    const int64_t size = hd_tensor_size(all, 1) / count;
    return hd_narrow(all, 1, index * size, size);
}

static hd_tensor *summed(hd_tensor *from_x, hd_tensor *weight, hd_tensor *h) {
    return hd_add(from_x, hd_affine(h, weight, NULL));
}

static void tanh_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    state[0] = hd_tanh(summed(from_x, weight, state[0]));
}
static void relu_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    state[0] = hd_relu(summed(from_x, weight, state[0]));
}

/* Gates are those of the input, of forgetting, of the candidate and of the output. */
static void lstm_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    hd_tensor *all = summed(from_x, weight, state[0]);
    if (all == NULL) return;
    hd_tensor *taken = hd_mul(hd_sigmoid(gate(all, 0, 4)), hd_tanh(gate(all, 2, 4)));
    state[1] = hd_add(hd_mul(hd_sigmoid(gate(all, 1, 4)), state[1]), taken);
    state[0] = hd_mul(hd_sigmoid(gate(all, 3, 4)), hd_tanh(state[1]));
}

/* Gates are those of the reset, of the update and of the candidate, into which the bias of h goes within the reset. */
static void gru_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    hd_tensor *h = state[0], *from_h = hd_affine(h, weight, bias);
    if (from_h == NULL) return;
    hd_tensor *reset = hd_sigmoid(hd_add(gate(from_x, 0, 3), gate(from_h, 0, 3)));
    hd_tensor *update = hd_sigmoid(hd_add(gate(from_x, 1, 3), gate(from_h, 1, 3)));
    hd_tensor *candidate = hd_tanh(hd_add(gate(from_x, 2, 3), hd_mul(reset, gate(from_h, 2, 3))));
    state[0] = hd_add(candidate, hd_mul(update, hd_sub(h, candidate)));
}

const hd_cell hd_cell_tanh = {"rnn", 1, 1, true, tanh_step}, hd_cell_relu = {"rnn", 1, 1, true, relu_step},
              hd_cell_lstm = {"lstm", 4, 2, true, lstm_step}, hd_cell_gru = {"gru", 3, 1, false, gru_step};

/* ---- sequences --------------------------------------------------------------------------------------------------- */
hd_tensor *hd_stack_steps(hd_tensor **steps, int64_t count) {
    if (count == 1) return steps[0] == NULL ? NULL : hd_unsqueeze(steps[0], 0);
    for (int64_t i = 0; i < count; ++i) steps[i] = hd_unsqueeze(steps[i], 0);
    while (count > 1) { /* a call takes HD_MAX_INPUTS at most */
        int64_t joined = 0;
        for (int64_t i = 0; i < count; i += HD_MAX_INPUTS)
            steps[joined++] = hd_concat(steps + i, (int)(count - i < HD_MAX_INPUTS ? count - i : HD_MAX_INPUTS), 0);
        count = joined;
    }
    return steps[0];
}

/* One step, of which only the new state stays. */
static void run_step(hd_thread *thread, const hd_cell *cell, hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias,
                     hd_tensor *valid, hd_tensor *state[HD_CELL_STATES]) {
    hd_scope_token scope = hd_scope_within(thread, &scope);
    hd_tensor *const before[HD_CELL_STATES] = {state[0], state[1]};
    cell->step(from_x, weight, bias, state);
    for (int i = 0; i < cell->states && hd_ok(); ++i) {
        if (valid != NULL) state[i] = hd_where(valid, state[i], before[i]);
        hd_keep_object(state[i]);
    }
    hd_scope_close(thread, &scope);
}

hd_tensor *hd_cell_run(hd_thread *thread, const hd_cell *cell, const hd_cell_weights *w, hd_tensor *x, hd_tensor *valid,
                       bool backwards, hd_tensor *state[HD_CELL_STATES]) {
    const int64_t count = hd_tensor_size(x, 0);
    const bool one_bias = cell->adds && w->input_bias != NULL;
    hd_tensor *bias = one_bias ? hd_add(w->input_bias, w->hidden_bias) : w->input_bias;
    hd_tensor *from_x = hd_affine(x, w->input, bias); /* [t, n, gates hidden] */
    hd_tensor **steps = hd_array_resize(NULL, (size_t)count * sizeof(hd_tensor *));
    if (steps == NULL) hd_fail(HD_ERROR_MEMORY, "no memory for %lld steps", (long long)count);
    for (int64_t i = 0; i < count && hd_ok(); ++i) {
        const int64_t t = backwards ? count - 1 - i : i;
        hd_tensor *valid_now = valid == NULL ? NULL : hd_select(valid, 0, t);
        run_step(thread, cell, hd_select(from_x, 0, t), w->hidden, w->hidden_bias, valid_now, state);
        steps[t] = state[0];
    }
    hd_tensor *y = hd_ok() ? hd_stack_steps(steps, count) : NULL;
    hd_array_release(steps);
    return valid == NULL || y == NULL ? y : hd_where_scalar(valid, y, 0);
}
