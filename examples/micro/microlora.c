/* microlora: teach a trained GPT something new by training 3% more numbers, and touch none of the old ones.
 *
 * Idea. Fine-tuning all of a model is dear, and every task would need its own copy. LoRA leaves a trained matrix
 * W [16, 16] alone and adds a product of two thin ones:
 *
 *     W' = W + B A          A [2, 16] ~ N(0, 0.02),  B [16, 2] = 0          rank 2: 64 numbers instead of 256
 *
 * computed as W x + B (A x). B = 0 makes the adapted model start exactly as the base model, and A random keeps the
 * first gradient of B from being 0 too. The adapters sit on the queries and the values: 2 * 64 = 128 new parameters.
 *
 * The experiment: a base model learns names that begin with a..m; then only the adapters learn names with n..z.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { D = 16, H = 4, S = D / H, F = 4 * D, B = 16, V = MICRO_VOCABULARY, RANK = 2 };

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

/* The adapters are made after the base model, so they are parameters 4,192 .. 4,319: an optimizer for them alone is a
 * matter of a range. */
enum { ADAPTERS = 2 * (RANK * D + D * RANK) };
static Value query_a[RANK * D], query_b[D * RANK], value_a[RANK * D], value_b[D * RANK];
static bool adapted;

/* y [rows] = matrix [rows, columns] x [columns] */
static void linear(int rows, int columns, const Value *matrix, const Value *x, Value *y) {
    for (int r = 0; r < rows; ++r) y[r] = vdot(columns, matrix + r * columns, x);
}

/* y = W x + B (A x); without adapters y = W x */
static void linear_lora(const Value *matrix, const Value *a, const Value *b, const Value *x, Value *y) {
    Value low[RANK], extra[D];
    linear(D, D, matrix, x, y);
    if (!adapted) return;
    linear(RANK, D, a, x, low);
    linear(D, RANK, b, low, extra);
    for (int i = 0; i < D; ++i) y[i] = vadd(y[i], extra[i]);
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
    linear_lora(w + QUERY, query_a, query_b, y, q);
    linear(D, D, w + KEY, y, keys[t]);
    linear_lora(w + VALUE, value_a, value_b, y, values[t]);
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

/* The names whose first letter lies in first..last. */
static micro_names names_between(const micro_names *all, char first, char last) {
    micro_names some = {0, NULL};
    for (int i = 0; i < all->count; ++i)
        if (all->name[i][0] >= first && all->name[i][0] <= last) micro_names_add(&some, all->name[i]);
    if (!some.count) micro_fail("microlora needs names with a first letter in a-m and in n-z", NULL);
    return some;
}

/* Steps of Adam on the optimizer's own parameters; every fifth name is kept back to measure with. Adam's epsilon (1e-8)
 * keeps a parameter that has had no gradient yet, as those of A while B is 0, from dividing by 0. */
static void train(hd_value_adam *adam, const micro_names *names, int steps) {
    for (int step = 0, next = 0; step < steps; ++step, ++next) {
        if (names->count > 5 && next % names->count % 5 == 0) ++next;
        const Value loss = name_loss(names->name[next % names->count]);
        if (step % 100 == 0) printf("  step %4d | loss %.4f\n", step, vdata(loss));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(adam, 0.01 * (1.0 - (double)step / steps));
        hd_value_reset();
    }
    hd_value_adam_free(adam);
}

/* Mean loss of up to 100 names that were kept back. */
static double measure(const micro_names *names) {
    double sum = 0.0;
    int n = 0;
    for (int i = 0; i < names->count && n < 100; i += 5, ++n) {
        sum += vdata(name_loss(names->name[i]));
        hd_value_reset();
    }
    return sum / n;
}

static void sample(void) {
    int token = MICRO_BOS;
    for (int t = 0; t < B; ++t) {
        Value logits[V], p[V];
        double weight[V];
        gpt(token, t, logits);
        for (int i = 0; i < V; ++i) logits[i] = vmul(logits[i], 1.0 / 0.5);
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
    const micro_options options = micro_begin(argc, argv, "microlora", 800);
    micro_names names = micro_names_load(&options);
    micro_names old = names_between(&names, 'a', 'm'), new = names_between(&names, 'n', 'z');
    double loss[2][2]; /* [base, adapted][a-m, n-z] */

    micro_init(PARAMETERS, w, 0.08);
    micro_init(RANK * D, query_a, 0.02);
    micro_init(RANK * D, value_a, 0.02);
    micro_init(D * RANK, query_b, 0.0);
    micro_init(D * RANK, value_b, 0.0);
    const double share = (double)ADAPTERS / PARAMETERS;
    const int lora_steps = micro_phase(&options, 500);

    printf("base: %d parameters, %d steps on %d names a-m\n", PARAMETERS, options.steps, old.count);
    hd_value_adam base = {.count = PARAMETERS, .beta1 = 0.85, .beta2 = 0.99};
    train(&base, &old, options.steps);
    loss[0][0] = measure(&old);
    loss[0][1] = measure(&new);
    double frozen[PARAMETERS];
    for (int i = 0; i < PARAMETERS; ++i) frozen[i] = vdata(w[i]);

    adapted = true;
    printf("LoRA: %d parameters (%.1f%% of the base), %d steps on %d names n-z\n", ADAPTERS, 100.0 * share, lora_steps,
           new.count);
    hd_value_adam lora = {.first = PARAMETERS, .count = ADAPTERS, .beta1 = 0.85, .beta2 = 0.99};
    train(&lora, &new, lora_steps);
    loss[1][0] = measure(&old);
    loss[1][1] = measure(&new);
    bool untouched = true;
    for (int i = 0; i < PARAMETERS; ++i) untouched = untouched && frozen[i] == vdata(w[i]);

    printf("\nloss on names kept back   a-m      n-z\n");
    printf("  base                  %7.4f  %7.4f\n", loss[0][0], loss[0][1]);
    printf("  base + LoRA           %7.4f  %7.4f\n", loss[1][0], loss[1][1]);
    printf("base parameters unchanged: %s\n", untouched ? "yes" : "NO");
    for (int k = 0; k < 2; ++k) {
        adapted = k == 1;
        printf("%s: ", adapted ? "adapted" : "base   ");
        for (int i = 0; i < 10; ++i) sample();
        putchar('\n');
    }

    char criterion[96];
    (void)snprintf(criterion, sizeof criterion, "n-z loss %.3f -> %.3f with %.1f%% trainable < 10%%, base untouched",
                   loss[0][1], loss[1][1], 100.0 * share);
    free(old.name);
    free(new.name);
    return micro_end(&options, &names, loss[1][1], criterion, loss[1][1] < loss[0][1] && share < 0.1 && untouched);
}
