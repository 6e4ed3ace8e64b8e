/* Cells of recurrent layers: a step, and what backward multiplies by. */
#include "nn/recurrent.h"

static hd_tensor *summed(hd_tensor *from_x, hd_tensor *weight, hd_tensor *h) {
    return hd_add(from_x, hd_affine(h, weight, NULL));
}
/* Derivatives, by the value. */
static hd_tensor *sigmoid_slope(hd_tensor *y) { return hd_mul(y, hd_rsub_scalar(y, 1)); }
static hd_tensor *tanh_slope(hd_tensor *y) { return hd_rsub_scalar(hd_square(y), 1); }

/* ---- h = tanh(...) or relu(...) ---------------------------------------------------------------------------------- */
static void tanh_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    state[0] = hd_tanh(summed(from_x, weight, state[0]));
}
static void tanh_slopes(const hd_cell_past *past, hd_cell_slopes *s) { s->gates = tanh_slope(past->behind[0]); }

static void relu_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    state[0] = hd_relu(summed(from_x, weight, state[0]));
}
static void relu_slopes(const hd_cell_past *past, hd_cell_slopes *s) {
    hd_tensor *h = past->behind[0];
    s->gates = hd_cast(hd_gt_scalar(h, 0), hd_tensor_dtype(h));
}

/* ---- LSTM: gates of the input, of forgetting, of the candidate, of the output ------------------------------------ */
static void lstm_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    (void)bias;
    hd_tensor *all = summed(from_x, weight, state[0]);
    if (all == NULL) return;
    hd_tensor *taken = hd_mul(hd_sigmoid(hd_gate(all, 0, 4)), hd_tanh(hd_gate(all, 2, 4)));
    state[1] = hd_add(hd_mul(hd_sigmoid(hd_gate(all, 1, 4)), state[1]), taken);
    state[0] = hd_mul(hd_sigmoid(hd_gate(all, 3, 4)), hd_tanh(state[1]));
}

static void lstm_slopes(const hd_cell_past *past, hd_cell_slopes *s) {
    hd_tensor *all = summed(past->run->from_x, past->run->weight, past->before[0]), *c = hd_tanh(past->behind[1]);
    if (all == NULL) return;
    hd_tensor *input = hd_sigmoid(hd_gate(all, 0, 4)), *forget = hd_sigmoid(hd_gate(all, 1, 4)),
              *candidate = hd_tanh(hd_gate(all, 2, 4)), *output = hd_sigmoid(hd_gate(all, 3, 4));
    s->gates = HD_CONCAT_OF(2, hd_mul(candidate, sigmoid_slope(input)), hd_mul(past->before[1], sigmoid_slope(forget)),
                            hd_mul(input, tanh_slope(candidate)), hd_mul(c, sigmoid_slope(output)));
    s->through = hd_mul(output, tanh_slope(c));
    s->keeps = forget;
}

/* ---- GRU: gates of the reset, of the update, of the candidate, into which the bias of h goes within the reset ---- */
static void gru_step(hd_tensor *from_x, hd_tensor *weight, hd_tensor *bias, hd_tensor *state[HD_CELL_STATES]) {
    hd_tensor *h = state[0], *from_h = hd_affine(h, weight, bias);
    if (from_h == NULL) return;
    hd_tensor *reset = hd_sigmoid(hd_add(hd_gate(from_x, 0, 3), hd_gate(from_h, 0, 3)));
    hd_tensor *update = hd_sigmoid(hd_add(hd_gate(from_x, 1, 3), hd_gate(from_h, 1, 3)));
    hd_tensor *candidate = hd_tanh(hd_add(hd_gate(from_x, 2, 3), hd_mul(reset, hd_gate(from_h, 2, 3))));
    state[0] = hd_add(candidate, hd_mul(update, hd_sub(h, candidate)));
}

static void gru_slopes(const hd_cell_past *past, hd_cell_slopes *s) {
    hd_tensor *x = past->run->from_x, *h = past->before[0], *from_h = hd_affine(h, past->run->weight, past->run->bias);
    if (from_h == NULL) return;
    hd_tensor *reset = hd_sigmoid(hd_add(hd_gate(x, 0, 3), hd_gate(from_h, 0, 3)));
    hd_tensor *update = hd_sigmoid(hd_add(hd_gate(x, 1, 3), hd_gate(from_h, 1, 3)));
    hd_tensor *inner = hd_gate(from_h, 2, 3), *candidate = hd_tanh(hd_add(hd_gate(x, 2, 3), hd_mul(reset, inner)));
    hd_tensor *new_one = hd_mul(hd_rsub_scalar(update, 1), tanh_slope(candidate));
    hd_tensor *of_reset = hd_mul(hd_mul(new_one, inner), sigmoid_slope(reset));
    hd_tensor *of_update = hd_mul(hd_sub(h, candidate), sigmoid_slope(update));
    s->gates = HD_CONCAT_OF(2, of_reset, of_update, hd_mul(new_one, reset));
    s->from_x = HD_CONCAT_OF(2, of_reset, of_update, new_one);
    s->stays = update;
}

const hd_cell hd_cell_tanh = {"rnn", 1, 1, true, tanh_step, tanh_slopes},
              hd_cell_relu = {"rnn", 1, 1, true, relu_step, relu_slopes},
              hd_cell_lstm = {"lstm", 4, 2, true, lstm_step, lstm_slopes},
              hd_cell_gru = {"gru", 3, 1, false, gru_step, gru_slopes};
