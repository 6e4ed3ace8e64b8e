/* microgpt: a complete GPT, trained letter by letter on names, with nothing between you and the arithmetic.
 *
 * Idea. A language model reads the tokens so far and says how likely each token is to come next. To attend is to look
 * back: every position offers a key (what it has) and a value (what it tells) and asks with a query; where a query
 * and a key agree, that position's value flows in. Training nudges 4,192 numbers so that the letters that really came
 * next become more likely.
 *
 * Shapes: D = 16 numbers a position, H = 4 heads of S = 4 numbers each, up to B = 16 positions, V = 27 tokens (a..z,
 * and one that both begins and ends a name). A matrix [rows, columns] is stored row after row, and
 * y = W x means y[r] = W[r] . x.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { D = 16, H = 4, S = D / H, F = 4 * D, B = 16, V = MICRO_VOCABULARY };

/* The model is one array of 4,192 parameters; these are the places where its matrices begin. There are no biases. */
enum {
    TOKEN = 0,                /* [V, D] what a token is */
    POSITION = TOKEN + V * D, /* [B, D] where it stands */
    QUERY = POSITION + B * D, /* [D, D] */
    KEY = QUERY + D * D,      /* [D, D] */
    VALUE = KEY + D * D,      /* [D, D] */
    OUT = VALUE + D * D,      /* [D, D] from the heads back into the stream */
    UP = OUT + D * D,         /* [F, D] the MLP */
    DOWN = UP + F * D,        /* [D, F] */
    HEAD = DOWN + D * F,      /* [V, D] position -> logits */
    PARAMETERS = HEAD + V * D,
};
static Value w[PARAMETERS];

/* What each position remembers for the ones after it, growing by one row a position. */
static Value keys[B][D], values[B][D];

/* y [rows] = matrix [rows, columns] x [columns] */
static void linear(int rows, int columns, const Value *matrix, const Value *x, Value *y) {
    for (int r = 0; r < rows; ++r) y[r] = vdot(columns, matrix + r * columns, x);
}

/* y = x / sqrt(mean(x^2) + eps): keeps the numbers of a position near size 1, however deep the stack. eps = 1e-5
 * keeps a position of all zeros from dividing by 0. */
static void rmsnorm(const Value *x, Value *y) {
    const Value mean_square = vmul(vdot(D, x, x), 1.0 / D);
    const Value scale = vpow(vadd(mean_square, 1e-5), -0.5);
    for (int i = 0; i < D; ++i) y[i] = vmul(x[i], scale);
}

/* Attention of position t over positions 0..t, head by head:
 *     score[u] = q . key[u] / sqrt(S)          [t+1]
 *     out      = sum_u softmax(score)[u] value[u]
 * Dividing by sqrt(S) keeps the variance of a score at that of one product, so that softmax starts out soft. vsoftmax
 * subtracts the largest score first, so that exp, which is infinite from 710 on, cannot overflow; softmax does not
 * change when the same number is subtracted from every score. */
static void attend(int t, const Value *q, Value *out) {
    for (int h = 0; h < D; h += S) {
        Value weight[B], column[B];
        for (int u = 0; u <= t; ++u) weight[u] = vmul(vdot(S, q + h, keys[u] + h), 1.0 / sqrt((double)S));
        vsoftmax(t + 1, weight, weight);
        for (int i = h; i < h + S; ++i) {
            for (int u = 0; u <= t; ++u) column[u] = values[u][i];
            out[i] = vdot(t + 1, weight, column);
        }
    }
}

/* Logits [V] for what follows `token` at position t; positions 0..t-1 must have been seen. */
static void gpt(int token, int t, Value *logits) {
    Value x[D], y[D], q[D], hidden[F];
    for (int i = 0; i < D; ++i) x[i] = vadd(w[TOKEN + token * D + i], w[POSITION + t * D + i]);
    rmsnorm(x, x);

    rmsnorm(x, y); /* attention: positions talk to each other; its result is added to x, not put in its place */
    linear(D, D, w + QUERY, y, q);
    linear(D, D, w + KEY, y, keys[t]);
    linear(D, D, w + VALUE, y, values[t]);
    attend(t, q, y);
    linear(D, D, w + OUT, y, q);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], q[i]);

    rmsnorm(x, y); /* MLP: each position thinks for itself */
    linear(F, D, w + UP, y, hidden);
    for (int i = 0; i < F; ++i) hidden[i] = vrelu(hidden[i]);
    linear(D, F, w + DOWN, hidden, y);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], y[i]);

    linear(V, D, w + HEAD, x, logits);
}

/* Mean over the positions of -log p(the next letter). The log is clipped at 1e-10 (see hd_value_log): a probability
 * that has rounded to 0 costs 23, not infinity, and still has a gradient. */
static Value name_loss(const char *name) {
    const int positions = micro_positions(name, B);
    Value losses[B];
    for (int t = 0; t < positions; ++t) {
        Value logits[V], p[V];
        gpt(micro_token_at(name, t), t, logits);
        vsoftmax(V, logits, p);
        losses[t] = vneg(vlog(p[micro_token_at(name, t + 1)]));
    }
    return vmul(vsum(positions, losses), 1.0 / positions);
}

/* One name, letter by letter. A temperature below 1 makes the likely likelier. */
static void sample(double temperature) {
    int token = MICRO_BOS;
    for (int t = 0; t < B; ++t) {
        Value logits[V], p[V];
        double weight[V];
        gpt(token, t, logits);
        for (int i = 0; i < V; ++i) logits[i] = vmul(logits[i], 1.0 / temperature);
        vsoftmax(V, logits, p);
        for (int i = 0; i < V; ++i) weight[i] = vdata(p[i]);
        token = micro_draw(V, weight);
        if (token == MICRO_BOS) break;
        putchar(micro_letter(token));
    }
    hd_value_reset();
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microgpt", 1000);
    micro_names names = micro_names_load(&options);
    micro_init(PARAMETERS, w, 0.08);
    printf("microgpt: %d names, %d parameters, %d steps\n", names.count, hd_value_param_count(), options.steps);

    /* Adam divides each parameter's step by the size its gradients have had; its epsilon 1e-8 keeps a parameter that
     * has had none from dividing by 0. The learning rate falls in a line to 0, so that the last steps only settle. */
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    double recent = 0.0; /* mean loss of the last 100 steps: one name alone says little */
    const int tail = micro_min(options.steps, 100);
    for (int step = 0; step < options.steps; ++step) {
        const Value loss = name_loss(names.name[step % names.count]);
        const double value = vdata(loss);
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / options.steps));
        hd_value_reset();
        if (step >= options.steps - tail) recent += value / tail;
        if (step % 100 == 0) printf("step %4d | loss %.4f\n", step, value);
    }
    hd_value_adam_free(&adam);
    printf("mean loss of the last %d steps: %.4f (guessing blindly: ln 27 = 3.296)\n\nnew names:\n", tail, recent);
    for (int i = 0; i < 20; ++i) {
        printf("  ");
        sample(0.5);
        putchar('\n');
    }

    char criterion[64];
    (void)snprintf(criterion, sizeof criterion, "loss %.3f < 2.7", recent);
    return micro_end(&options, &names, recent, criterion, recent < 2.7);
}
