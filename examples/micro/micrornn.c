/* micrornn: two recurrent networks on the same names, and why one of them remembers.
 *
 * Idea. A recurrent network reads one letter at a time and carries what it has read in a hidden state h [32]. The
 * plain RNN rewrites the whole state at every step, so the gradient that should tell step 1 what mattered at step 16
 * has passed through 16 matrices and 16 tanh, each of which shrinks it: it vanishes. The GRU has gates. Its update
 * gate z decides, number by number, how much of the state to rewrite; where z is near 0 the state, and with it the
 * gradient, is carried over untouched. (A trained RNN can learn weights that let some of it through; what makes that
 * slow is how it starts. So the criterion looks at the fresh networks, and the figures after training are printed
 * beside it.)
 *
 *     RNN   h' = tanh(Wx x + Wh h + b)                      27*32 + 32*32 + 32 + (27*32 + 27)       = 2,811 parameters
 *     GRU   z  = sigmoid(Wxz x + Whz h)                     3 * (27*32 + 32*32) + (27*32 + 27)      = 6,555
 *           r  = sigmoid(Wxr x + Whr h)
 *           c  = tanh(Wxc x + Whc (r * h))
 *           h' = (1 - z) * h + z * c
 *     both: logits = Wy h' + by                             [27]
 *
 * x is one-hot (27 numbers, one of them 1), so Wx x is simply the row of Wx that belongs to the letter: no products.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD DIFFERENCES IN THIS SCRIPT ---
// This Value class follows the canonical interface (see docs/autograd-interface.md)
// with the following additions/modifications:
// - sigmoid(): Required for GRU gating (z_t and r_t computations)
// Base operations (add, mul, tanh, exp, relu, pow, backward) are identical
// to the canonical spec.

#include "micro.h"

enum { N = 32, V = MICRO_VOCABULARY, LONGEST = 16, TRAINING_NAMES = 200 };

/* 1 / (1 + e^-x). Written with e^-|x|, which never overflows: at x = -1000 the plain formula computes exp(1000) =
 * inf. */
static Value sigmoid(Value x) {
    const double small = exp(-fabs(vdata(x)));
    const double s = (vdata(x) >= 0.0 ? 1.0 : small) / (1.0 + small);
    const double slope = s * (1.0 - s);
    return hd_value_op(s, 1, &x, &slope);
}

/* A way into the hidden state: from the letter [27, 32] and from the state before [32, 32]. */
typedef struct gate {
    Value x[V * N], h[N * N];
} gate;

typedef struct network {
    bool gru;
    gate z, r, c; /* the RNN has only c, and a bias */
    Value bias[N];
    Value out[V * N], out_bias[V];
    int first, count; /* its parameters */
} network;

/* A one-hot input makes every row of the letters' matrix a bias; `bias` is where these biases start. */
static void gate_init(gate *g, const double *bias) {
    micro_init(V * N, g->x, 0.08);
    micro_init(N * N, g->h, 0.08);
    for (int i = 0; i < V * N; ++i) hd_value_set_data(g->x[i], vdata(g->x[i]) + bias[i % N]);
}

static void network_init(network *net, bool gru) {
    net->gru = gru;
    net->first = hd_value_param_count();
    double none[N] = {0.0}, update[N], reset[N];
    for (int i = 0; i < N; ++i) {
        /* The first 8 numbers of the state start with z = sigmoid(-4) = 0.02: a gate nearly shut, a memory that keeps
         * for 50 letters, and a way for gradients to reach the first letters before anything has been learned. The
         * others start as a quick memory. The reset gate starts open. */
        update[i] = i < 8 ? -4.0 : 1.0;
        reset[i] = 2.0;
    }
    gate_init(&net->c, none);
    if (gru) {
        gate_init(&net->z, update);
        gate_init(&net->r, reset);
    } else {
        micro_init(N, net->bias, 0.0);
    }
    micro_init(V * N, net->out, 0.08);
    micro_init(V, net->out_bias, 0.0);
    net->count = hd_value_param_count() - net->first;
}

/* Wx x + Wh h, number i. */
static Value gate_sum(const gate *g, int token, const Value *h, int i) {
    return vadd(g->x[token * N + i], vdot(N, g->h + i * N, h));
}

static void network_step(const network *net, int token, const Value *h, Value *next) {
    Value z[N], kept[N];
    if (!net->gru) {
        for (int i = 0; i < N; ++i) next[i] = vtanh(vadd(gate_sum(&net->c, token, h, i), net->bias[i]));
        return;
    }
    for (int i = 0; i < N; ++i) {
        z[i] = sigmoid(gate_sum(&net->z, token, h, i));
        kept[i] = vmul(sigmoid(gate_sum(&net->r, token, h, i)), h[i]);
    }
    for (int i = 0; i < N; ++i) {
        const Value c = vtanh(gate_sum(&net->c, token, kept, i));
        next[i] = vadd(vmul(vsub(1.0, z[i]), h[i]), vmul(z[i], c));
    }
}

static void network_logits(const network *net, const Value *h, Value *logits) {
    for (int i = 0; i < V; ++i) logits[i] = vadd(vdot(N, net->out + i * N, h), net->out_bias[i]);
}

/* -log p(target). The log is clipped at 1e-10: a probability that has rounded to 0 costs 23 instead of infinity, and
 * keeps a gradient that leads away from 0. */
static Value letter_loss(const network *net, const Value *h, int target) {
    Value logits[V], p[V];
    network_logits(net, h, logits);
    vsoftmax(V, logits, p); /* subtracts the largest logit first: exp never sees a positive number */
    return vneg(vlog(p[target]));
}

static void zero_state(Value *h) {
    for (int i = 0; i < N; ++i) h[i] = hd_value_const(0.0);
}

/* Sum of -log p(next letter) over the name; `letters` gets how many there were. */
static Value name_loss(const network *net, const char *name, int *letters) {
    const int positions = micro_positions(name, LONGEST);
    Value h[N], losses[LONGEST];
    zero_state(h);
    for (int t = 0; t < positions; ++t) {
        Value next[N];
        network_step(net, micro_token_at(name, t), h, next);
        memcpy(h, next, sizeof h);
        losses[t] = letter_loss(net, h, micro_token_at(name, t + 1));
    }
    *letters = positions;
    return vsum(positions, losses);
}

/* Plain gradient descent, its rate falling in a line to 0. Returns the mean loss a letter of the last pass. */
static double train(const network *net, const micro_names *names, int steps) {
    const int pass = micro_min(names->count, TRAINING_NAMES), tail = micro_min(steps, pass);
    double recent = 0.0;
    int recent_letters = 0;
    for (int step = 0; step < steps; ++step) {
        int letters;
        const Value loss = name_loss(net, names->name[step % pass], &letters);
        const double value = vdata(loss);
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_sgd_step(net->first, net->count, 0.1 * (1.0 - (double)step / steps));
        hd_value_reset();
        if (step >= steps - tail) {
            recent += value;
            recent_letters += letters;
        }
        if (step % 500 == 0) printf("  step %4d | loss a letter %.4f\n", step, value / letters);
    }
    return recent / recent_letters;
}

/* How much does the loss at the last of 16 letters feel a change of the state after letter t? Prints |d loss / d h_t|
 * for every t and returns first / last. */
static double gradient_reach(const network *net, const char *letters) {
    Value h[LONGEST + 1][N];
    double norm[LONGEST + 1];
    zero_state(h[0]);
    for (int t = 0; t < LONGEST; ++t) network_step(net, micro_token_at(letters, t), h[t], h[t + 1]);
    hd_value_zero_grad(); /* as before every backward: gradients of parameters add up, and nobody is to inherit these */
    hd_value_backward(letter_loss(net, h[LONGEST], micro_token_at(letters, LONGEST)));
    printf("  |d loss / d h_t|, t = 1..16:");
    for (int t = 1; t <= LONGEST; ++t) {
        double sum = 0.0;
        for (int i = 0; i < N; ++i) sum += vgrad(h[t][i]) * vgrad(h[t][i]);
        norm[t] = sqrt(sum);
        printf(" %.1e", norm[t]);
    }
    hd_value_reset();
    printf("\n  first / last: %.2e\n", norm[1] / norm[LONGEST]);
    return norm[1] / norm[LONGEST];
}

static void sample(const network *net) {
    Value h[N];
    int token = MICRO_BOS;
    zero_state(h);
    for (int t = 0; t < LONGEST; ++t) {
        Value next[N], logits[V], p[V];
        double weight[V];
        network_step(net, token, h, next);
        memcpy(h, next, sizeof h);
        network_logits(net, h, logits);
        for (int i = 0; i < V; ++i) logits[i] = vmul(logits[i], 1.0 / 0.8);
        vsoftmax(V, logits, p);
        for (int i = 0; i < V; ++i) weight[i] = vdata(p[i]);
        token = micro_draw(V, weight);
        if (token == MICRO_BOS) break;
        putchar(micro_letter(token));
    }
    putchar(' ');
    hd_value_reset();
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "micrornn", 3000);
    micro_names names = micro_names_load(&options);
    static network nets[2];
    double loss[2], reach[2];
    char letters[LONGEST + 1] = "";
    for (int i = 0; strlen(letters) < LONGEST; ++i)
        strncat(letters, names.name[i % names.count], LONGEST - strlen(letters));

    for (int k = 0; k < 2; ++k) {
        network_init(&nets[k], k == 1);
        printf("%s: %d parameters, %d steps\n", k ? "GRU" : "RNN", nets[k].count, options.steps);
        printf("  before training (what the architecture itself lets through):\n");
        reach[k] = gradient_reach(&nets[k], letters);
        loss[k] = train(&nets[k], &names, options.steps);
        printf("  mean loss of the last pass: %.4f\n  after training:\n", loss[k]);
        (void)gradient_reach(&nets[k], letters);
        printf("  names: ");
        for (int i = 0; i < 10; ++i) sample(&nets[k]);
        printf("\n\n");
    }

    char criterion[128];
    (void)snprintf(criterion, sizeof criterion,
                   "GRU %.3f < RNN %.3f; fresh gradient first/last: RNN %.0e < .01, GRU %.2f in .1-10", loss[1],
                   loss[0], reach[0], reach[1]);
    const bool reached = loss[1] < loss[0] && reach[0] < 0.01 && reach[1] > 0.1 && reach[1] < 10.0;
    return micro_end(&options, &names, loss[1], criterion, reached);
}
