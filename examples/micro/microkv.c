/* microkv: why a GPT keeps its keys and values: the same tokens for a seventh of the work.
 *
 * Idea. To write token t+1, position t attends to the keys and values of positions 0..t. Those of the earlier
 * positions have not changed since the last token: what stands before them has not, and nothing looks ahead. Without
 * a cache all of it is computed anew for every token; with a cache only the new position is, and its key and value
 * are appended.
 *
 * Multiplications for one position, matrices only: 4 * 16*16 (q, k, v, out) + 2 * 16*64 (MLP) = 3,072; the head
 * 27*16 = 432, needed for the last position alone; attention 2 * 16 for each position looked at. For 16 tokens:
 *
 *     with cache      16 * (3,072 + 432) + 32 * (1 + 2 + ... + 16)                                    =  60,416
 *     without         (1 + 2 + ... + 16) * 3,072 + 16 * 432 + 32 * sum of 1 + ... + t, t = 1..16      = 450,816
 *
 * The cache grows by 2 * 16 numbers a position: memory for time.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { D = 16, H = 2, S = D / H, F = 4 * D, B = 32, V = MICRO_VOCABULARY, TOKENS = 16 };

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

/* Mean over the positions of -log p(next letter); the log is clipped at 1e-10, so a probability that has rounded to 0
 * costs 23 and still has a gradient. */
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

static double plain[PARAMETERS]; /* the trained parameters */
static long multiplies;          /* in matrix products and attention */

/* ---- The same model in plain numbers ----------------------------------------------------------------------------- */

static void float_linear(int rows, int columns, const double *matrix, const double *x, double *y) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int c = 0; c < columns; ++c) sum += matrix[r * columns + c] * x[c];
        y[r] = sum;
    }
    multiplies += rows * columns;
}

static void float_rmsnorm(const double *x, double *y) {
    double sum = 0.0;
    for (int i = 0; i < D; ++i) sum += x[i] * x[i];
    const double scale = 1.0 / sqrt(sum / D + 1e-5);
    for (int i = 0; i < D; ++i) y[i] = x[i] * scale;
}

/* Subtracting the largest first keeps exp from overflowing; the result does not change. */
static void float_softmax(int n, double *x) {
    double largest = x[0], sum = 0.0;
    for (int i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < n; ++i) sum += x[i] = exp(x[i] - largest);
    for (int i = 0; i < n; ++i) x[i] /= sum;
}

/* The keys and values of the positions seen so far. */
typedef struct cache {
    int length;
    double keys[B][D], values[B][D];
} cache;

/* Appends one position to the cache. Its logits are computed only if someone wants them. */
static void float_gpt(cache *c, int token, double *logits) {
    double x[D], y[D], q[D], hidden[F], weight[B];
    const int t = c->length++;
    for (int i = 0; i < D; ++i) x[i] = plain[TOKEN + token * D + i] + plain[POSITION + t * D + i];
    float_rmsnorm(x, x);

    float_rmsnorm(x, y);
    float_linear(D, D, plain + QUERY, y, q);
    float_linear(D, D, plain + KEY, y, c->keys[t]);
    float_linear(D, D, plain + VALUE, y, c->values[t]);
    for (int h = 0; h < D; h += S) {
        for (int u = 0; u <= t; ++u) {
            double score = 0.0;
            for (int i = h; i < h + S; ++i) score += q[i] * c->keys[u][i];
            weight[u] = score / sqrt((double)S);
        }
        float_softmax(t + 1, weight);
        for (int i = h; i < h + S; ++i) {
            y[i] = 0.0;
            for (int u = 0; u <= t; ++u) y[i] += weight[u] * c->values[u][i];
        }
        multiplies += 2 * S * (t + 1);
    }
    float_linear(D, D, plain + OUT, y, q);
    for (int i = 0; i < D; ++i) x[i] += q[i];

    float_rmsnorm(x, y);
    float_linear(F, D, plain + UP, y, hidden);
    for (int i = 0; i < F; ++i) hidden[i] = hidden[i] > 0.0 ? hidden[i] : 0.0;
    float_linear(D, F, plain + DOWN, hidden, y);
    for (int i = 0; i < D; ++i) x[i] += y[i];

    if (logits) float_linear(V, D, plain + HEAD, x, logits);
}

static int likeliest(const double *logits) {
    int best = 0;
    for (int i = 1; i < V; ++i)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Writes 16 tokens, always the likeliest; tokens[0] is BOS, and a BOS in between begins the next name. Returns the
 * number of multiplications; logits [16][27] are kept to be compared. */
static long generate(bool with_cache, int tokens[TOKENS + 1], double logits[TOKENS][V]) {
    static cache c;
    multiplies = 0;
    c.length = 0;
    tokens[0] = MICRO_BOS;
    for (int t = 0; t < TOKENS; ++t) {
        if (!with_cache) { /* as if nothing had been kept: all positions again, up to the new one */
            c.length = 0;
            for (int u = 0; u < t; ++u) float_gpt(&c, tokens[u], NULL);
        }
        float_gpt(&c, tokens[t], logits[t]);
        tokens[t + 1] = likeliest(logits[t]);
    }
    return multiplies;
}

static void show(const char *how, const int *tokens, long products, double seconds) {
    printf("  %-13s ", how);
    for (int t = 1; t <= TOKENS; ++t) putchar(tokens[t] == MICRO_BOS ? '.' : micro_letter(tokens[t]));
    printf("  %7ld multiplications, %.1f us\n", products, 1e6 * seconds);
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microkv", 300);
    micro_names names = micro_names_load(&options);
    micro_init(PARAMETERS, w, 0.08);
    printf("microkv: %d parameters, %d steps\n", PARAMETERS, options.steps);

    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    double recent = 0.0;
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
    for (int i = 0; i < PARAMETERS; ++i) plain[i] = vdata(w[i]);

    int tokens[2][TOKENS + 1];
    static double logits[2][TOKENS][V];
    long products[2];
    bool equal = true;
    printf("\n%d tokens, greedily:\n", TOKENS);
    for (int k = 0; k < 2; ++k) {
        const int repeats = 100;
        const double start = micro_now();
        for (int i = 0; i < repeats; ++i) products[k] = generate(k == 1, tokens[k], logits[k]);
        show(k ? "with cache" : "without cache", tokens[k], products[k], (micro_now() - start) / repeats);
    }
    for (int t = 0; t <= TOKENS; ++t) equal = equal && tokens[0][t] == tokens[1][t];
    for (int t = 0; t < TOKENS; ++t)
        for (int i = 0; i < V; ++i) equal = equal && logits[0][t][i] == logits[1][t][i];
    printf("  %.1f times fewer; cache: %d numbers a position\n", (double)products[0] / (double)products[1], 2 * D);

    char criterion[128];
    (void)snprintf(criterion, sizeof criterion, "tokens and logits %s, multiplications %ld = 450816 and %ld = 60416",
                   equal ? "equal" : "DIFFER", products[0], products[1]);
    return micro_end(&options, &names, recent, criterion, equal && products[0] == 450816 && products[1] == 60416);
}
