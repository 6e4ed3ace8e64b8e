/* microdpo: teach a GPT a preference from pairs, without a reward model and without sampling.
 *
 * Idea. Someone has looked at pairs of names and said which of the two is better. The classical way trains a reward
 * model on that and then searches for a policy with high reward that stays near the model we had (the reference). DPO
 * solves that search on paper: the best policy has the reward
 *
 *     r(name) = beta * ( log pi(name) - log ref(name) )                        the implicit reward
 *
 * so the policy itself can be fitted to the pairs, as if it were the reward model:
 *
 *     loss = -log sigmoid( r(chosen) - r(rejected) )
 *
 * It starts at -log(1/2) = 0.693, because at first pi = ref. beta = 0.1 says how far the policy may move away.
 * Here the taste is for long names: in each pair the longer name was chosen.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { D = 16, H = 4, S = D / H, F = 4 * D, B = 16, V = MICRO_VOCABULARY, PAIRS = 150, BATCH = 4 };

static const double BETA = 0.1;

/* The GPT of microgpt.c, which explains it: one array of parameters, and where its matrices begin. */
enum {
    TOKEN = 0,
    POSITION = TOKEN + V * D,
    QUERY = POSITION + B * D,
    KEY = QUERY + D * D,
    VALUE = KEY + D * D,
    OUT = VALUE + D * D,
    UP = OUT + D * D,
    DOWN = UP + F * D,
    HEAD = DOWN + D * F,
    PARAMETERS = HEAD + V * D,
};
static Value w[PARAMETERS];
static Value keys[B][D], values[B][D];

/* y [rows] = matrix [rows, columns] x [columns] */
static void linear(int rows, int columns, const Value *matrix, const Value *x, Value *y) {
    for (int r = 0; r < rows; ++r) y[r] = vdot(columns, matrix + r * columns, x);
}

/* x / sqrt(mean(x^2) + 1e-5); the 1e-5 keeps all zeros from dividing by 0. */
static void rmsnorm(const Value *x, Value *y) {
    const Value scale = vpow(vadd(vmul(vdot(D, x, x), 1.0 / D), 1e-5), -0.5);
    for (int i = 0; i < D; ++i) y[i] = vmul(x[i], scale);
}

/* out = sum_u softmax(q . key[u] / sqrt(S))[u] value[u], for each head, over positions u = 0..t.
 * vsoftmax subtracts the largest score first, so that exp cannot overflow. */
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

    rmsnorm(x, y);
    linear(D, D, w + QUERY, y, q);
    linear(D, D, w + KEY, y, keys[t]);
    linear(D, D, w + VALUE, y, values[t]);
    attend(t, q, y);
    linear(D, D, w + OUT, y, q);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], q[i]);

    rmsnorm(x, y);
    linear(F, D, w + UP, y, hidden);
    for (int i = 0; i < F; ++i) hidden[i] = vrelu(hidden[i]);
    linear(D, F, w + DOWN, hidden, y);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], y[i]);

    linear(V, D, w + HEAD, x, logits);
}

/* log pi(name) = sum over its letters, and the end, of log p(letter). Each log is clipped at 1e-10: a letter the model
 * has ruled out costs 23 instead of infinity, and the gradient back to it stays alive. */
static Value log_probability(const char *name, int *letters) {
    const int positions = micro_positions(name, B);
    Value logs[B];
    for (int t = 0; t < positions; ++t) {
        Value logits[V], p[V];
        gpt(micro_token_at(name, t), t, logits);
        vsoftmax(V, logits, p);
        logs[t] = vlog(p[micro_token_at(name, t + 1)]);
    }
    if (letters) *letters = positions;
    return vsum(positions, logs);
}

/* -log sigmoid(x) = log(1 + e^-x); for x < 0 as -x + log(1 + e^x), so that exp only ever sees negative numbers. */
static Value minus_log_sigmoid(Value x) {
    if (vdata(x) >= 0.0) return vlog(vadd(1.0, vexp(vneg(x))));
    return vsub(vlog(vadd(1.0, vexp(x))), x);
}

typedef struct pair {
    const char *chosen, *rejected;
    double chosen_reference, rejected_reference; /* log ref: plain numbers, the reference is frozen */
} pair;

static double plain_log_probability(const char *name) {
    const double log_p = vdata(log_probability(name, NULL));
    hd_value_reset();
    return log_p;
}

/* Neighbours in the shuffled list, where one is longer by at least 2 letters. */
static int make_pairs(const micro_names *names, pair *pairs) {
    int n = 0;
    for (int i = 0; i + 1 < names->count && n < PAIRS; i += 2) {
        const char *a = names->name[i], *b = names->name[i + 1];
        const int longer = (int)strlen(a) - (int)strlen(b);
        if (longer > -2 && longer < 2) continue;
        pairs[n].chosen = longer > 0 ? a : b;
        pairs[n].rejected = longer > 0 ? b : a;
        pairs[n].chosen_reference = plain_log_probability(pairs[n].chosen);
        pairs[n].rejected_reference = plain_log_probability(pairs[n].rejected);
        ++n;
    }
    if (!n) micro_fail("microdpo needs names of different lengths (2 letters or more)", NULL);
    return n;
}

static Value implicit_reward(const char *name, double reference) {
    return vmul(BETA, vsub(log_probability(name, NULL), reference));
}

/* One name; returns its length. */
static int sample(bool show) {
    int token = MICRO_BOS, length = 0;
    for (int t = 0; t < B; ++t, ++length) {
        Value logits[V], p[V];
        double weight[V];
        gpt(token, t, logits);
        vsoftmax(V, logits, p);
        for (int i = 0; i < V; ++i) weight[i] = vdata(p[i]);
        token = micro_draw(V, weight);
        if (token == MICRO_BOS) break;
        if (show) putchar(micro_letter(token));
    }
    if (show) putchar(' ');
    hd_value_reset();
    return length;
}

static double mean_length(const char *when) {
    double sum = 0.0;
    printf("%s: ", when);
    for (int i = 0; i < 200; ++i) sum += sample(i < 10);
    printf("...\n  mean length of 200 samples: %.2f\n", sum / 200);
    return sum / 200;
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microdpo", 700);
    micro_names names = micro_names_load(&options);
    micro_init(PARAMETERS, w, 0.08);

    printf("pretraining: %d parameters, %d steps\n", PARAMETERS, options.steps);
    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    for (int step = 0; step < options.steps; ++step) {
        int letters;
        const Value log_p = log_probability(names.name[step % names.count], &letters);
        const Value loss = vmul(log_p, -1.0 / letters);
        if (step % 100 == 0) printf("  step %4d | loss %.4f\n", step, vdata(loss));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / options.steps));
        hd_value_reset();
    }
    hd_value_adam_free(&adam); /* the moments of pretraining say nothing about the new loss */

    pair pairs[PAIRS];
    const int pair_count = make_pairs(&names, pairs);
    const double length_before = mean_length("before");

    const int steps = micro_phase(&options, 60), tail = micro_min(steps, 10);
    double first = 0.0, last = 0.0;
    printf("DPO: %d pairs, %d steps of %d\n", pair_count, steps, BATCH);
    for (int step = 0; step < steps; ++step) {
        Value losses[BATCH];
        for (int i = 0; i < BATCH; ++i) {
            const pair *p = &pairs[(step * BATCH + i) % pair_count];
            const Value chosen = implicit_reward(p->chosen, p->chosen_reference);
            const Value rejected = implicit_reward(p->rejected, p->rejected_reference);
            losses[i] = minus_log_sigmoid(vsub(chosen, rejected));
        }
        const Value loss = vmul(vsum(BATCH, losses), 1.0 / BATCH);
        if (step == 0) first = vdata(loss);
        if (step >= steps - tail) last += vdata(loss) / tail;
        if (step % 10 == 0) printf("  step %4d | DPO loss %.4f\n", step, vdata(loss));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.003 * (1.0 - (double)step / steps));
        hd_value_reset();
    }
    hd_value_adam_free(&adam);

    double chosen = 0.0, rejected = 0.0;
    int ordered = 0;
    for (int i = 0; i < pair_count; ++i) {
        const double c = vdata(implicit_reward(pairs[i].chosen, pairs[i].chosen_reference));
        const double r = vdata(implicit_reward(pairs[i].rejected, pairs[i].rejected_reference));
        hd_value_reset();
        chosen += c / pair_count;
        rejected += r / pair_count;
        ordered += c > r;
    }
    printf("implicit reward: chosen %+.3f, rejected %+.3f; %d of %d pairs in the right order\n", chosen, rejected,
           ordered, pair_count);
    const double length_after = mean_length("after ");

    char criterion[128];
    (void)snprintf(criterion, sizeof criterion, "DPO loss %.3f -> %.3f, reward %+.2f > %+.2f, length %.2f -> %.2f",
                   first, last, chosen, rejected, length_before, length_after);
    const bool reached = last < 0.6 && chosen > rejected && length_after > length_before;
    return micro_end(&options, &names, last, criterion, reached);
}
