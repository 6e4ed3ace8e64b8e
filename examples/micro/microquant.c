/* microquant: how small can the numbers of a trained GPT be made before it notices?
 *
 * Idea. A parameter takes 4 bytes as a float. Rounded to one of 256 levels it takes 1 byte, to one of 15 levels half a
 * byte. What matters is where the levels lie; x is recovered as the number beside the arrow:
 *
 *     absmax      scale = max|x| / 127                      q = round(x / scale)                   -> q * scale
 *     per row     the same, with a scale for every row: one large weight coarsens its own row only
 *     zero point  scale = (max - min) / 255                 q = round((x - min) / scale)           -> min + q * scale
 *                 levels lie where the weights are, also when these are not centred on 0
 *     int4        absmax per row with levels -7..7
 *
 * Rounding is half to even (rint): half away from zero would push every tie outwards, and the errors would add up.
 * The model is trained in full precision; only then are its nine matrices rounded, and the loss is measured again on
 * names that were kept back.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { D = 16, H = 4, S = D / H, F = 4 * D, B = 16, V = MICRO_VOCABULARY };

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

/* ---- The same model in plain numbers ----------------------------------------------------------------------------- */

static void float_linear(int rows, int columns, const double *matrix, const double *x, double *y) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int c = 0; c < columns; ++c) sum += matrix[r * columns + c] * x[c];
        y[r] = sum;
    }
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

/* Mean of -log p(next letter); all parameters in `plain`. */
static double float_loss(const double *plain, const char *name) {
    static double keys_seen[B][D], values_seen[B][D];
    const int positions = micro_positions(name, B);
    double loss = 0.0;
    for (int t = 0; t < positions; ++t) {
        double x[D], y[D], q[D], hidden[F], weight[B], logits[V];
        const int token = micro_token_at(name, t);
        for (int i = 0; i < D; ++i) x[i] = plain[TOKEN + token * D + i] + plain[POSITION + t * D + i];
        float_rmsnorm(x, x);

        float_rmsnorm(x, y);
        float_linear(D, D, plain + QUERY, y, q);
        float_linear(D, D, plain + KEY, y, keys_seen[t]);
        float_linear(D, D, plain + VALUE, y, values_seen[t]);
        for (int h = 0; h < D; h += S) {
            for (int u = 0; u <= t; ++u) {
                double score = 0.0;
                for (int i = h; i < h + S; ++i) score += q[i] * keys_seen[u][i];
                weight[u] = score / sqrt((double)S);
            }
            float_softmax(t + 1, weight);
            for (int i = h; i < h + S; ++i) {
                y[i] = 0.0;
                for (int u = 0; u <= t; ++u) y[i] += weight[u] * values_seen[u][i];
            }
        }
        float_linear(D, D, plain + OUT, y, q);
        for (int i = 0; i < D; ++i) x[i] += q[i];

        float_rmsnorm(x, y);
        float_linear(F, D, plain + UP, y, hidden);
        for (int i = 0; i < F; ++i) hidden[i] = hidden[i] > 0.0 ? hidden[i] : 0.0;
        float_linear(D, F, plain + DOWN, hidden, y);
        for (int i = 0; i < D; ++i) x[i] += y[i];

        float_linear(V, D, plain + HEAD, x, logits);
        float_softmax(V, logits);
        const double p = logits[micro_token_at(name, t + 1)];
        loss -= log(p < 1e-10 ? 1e-10 : p) / positions; /* clipped: a probability of 0 costs 23, not infinity */
    }
    return loss;
}

/* ---- Quantising -------------------------------------------------------------------------------------------------- */

static const struct matrix {
    int begin, rows, columns;
} matrices[] = {{TOKEN, V, D}, {POSITION, B, D}, {QUERY, D, D}, {KEY, D, D}, {VALUE, D, D},
                {OUT, D, D},   {UP, F, D},       {DOWN, D, F},  {HEAD, V, D}};
enum { MATRICES = sizeof matrices / sizeof *matrices };

/* x[n] to levels -most..most and back. */
static void absmax(int n, const double *x, double most, double *back) {
    double largest = 0.0;
    for (int i = 0; i < n; ++i) largest = fabs(x[i]) > largest ? fabs(x[i]) : largest;
    const double scale = largest > 0.0 ? largest / most : 1.0; /* all zeros: any scale will do but 0 */
    for (int i = 0; i < n; ++i) back[i] = rint(x[i] / scale) * scale;
}

/* x[n] to levels 0..255 between its least and its largest number, and back. */
static void zero_point(int n, const double *x, double *back) {
    double least = x[0], largest = x[0];
    for (int i = 1; i < n; ++i) {
        least = x[i] < least ? x[i] : least;
        largest = x[i] > largest ? x[i] : largest;
    }
    const double scale = largest > least ? (largest - least) / 255.0 : 1.0;
    for (int i = 0; i < n; ++i) back[i] = least + rint((x[i] - least) / scale) * scale;
}

enum scheme { FP32, INT8_ABSMAX, INT8_ROWS, INT8_ZERO_POINT, INT4_ROWS, SCHEMES };
static const char *const scheme_names[SCHEMES] = {"fp32", "int8 absmax", "int8 per row", "int8 zero point",
                                                  "int4 per row"};

/* Rounds all matrices; returns the bytes they take, with 4 for every scale and zero point. */
static int quantise(enum scheme scheme, const double *x, double *back) {
    int bytes = 0;
    for (int k = 0; k < MATRICES; ++k) {
        const struct matrix *m = &matrices[k];
        const int n = m->rows * m->columns;
        const double *from = x + m->begin;
        double *to = back + m->begin;
        switch (scheme) {
        case INT8_ABSMAX:
            absmax(n, from, 127.0, to);
            bytes += n + 4;
            break;
        case INT8_ZERO_POINT:
            zero_point(n, from, to);
            bytes += n + 8;
            break;
        case INT8_ROWS:
        case INT4_ROWS:
            for (int r = 0; r < m->rows; ++r)
                absmax(m->columns, from + r * m->columns, scheme == INT8_ROWS ? 127.0 : 7.0, to + r * m->columns);
            bytes += (scheme == INT8_ROWS ? n : n / 2) + 4 * m->rows;
            break;
        case FP32:
        case SCHEMES:
            for (int i = 0; i < n; ++i) to[i] = (double)(float)from[i];
            bytes += 4 * n;
            break;
        }
    }
    return bytes;
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microquant", 800);
    micro_names names = micro_names_load(&options);
    const int kept_back = names.count > 10 ? micro_min(names.count / 5, 200) : 0; /* the first ones, never trained on */
    micro_init(PARAMETERS, w, 0.08);
    printf("microquant: %d parameters, %d steps\n", PARAMETERS, options.steps);

    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    for (int step = 0; step < options.steps; ++step) {
        const Value loss = name_loss(names.name[kept_back + step % (names.count - kept_back)]);
        if (step % 100 == 0) printf("step %4d | loss %.4f\n", step, vdata(loss));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / options.steps));
        hd_value_reset();
    }
    hd_value_adam_free(&adam);

    static double full[PARAMETERS], rounded[PARAMETERS];
    for (int i = 0; i < PARAMETERS; ++i) full[i] = vdata(w[i]);
    double loss[SCHEMES];
    bool reached = true;
    printf("\n                     bytes     loss   change   largest error of a weight\n");
    for (int s = 0; s < SCHEMES; ++s) {
        const int bytes = quantise((enum scheme)s, full, rounded);
        const int tests = kept_back ? kept_back : names.count;
        double largest = 0.0;
        loss[s] = 0.0;
        for (int i = 0; i < tests; ++i) loss[s] += float_loss(rounded, names.name[i]) / tests;
        for (int i = 0; i < PARAMETERS; ++i) largest = fmax(largest, fabs(full[i] - rounded[i]));
        const double change = loss[s] / loss[FP32] - 1.0;
        printf("  %-16s  %6d  %7.4f  %+5.1f%%   %.1e\n", scheme_names[s], bytes, loss[s], 100.0 * change, largest);
        reached = reached && fabs(change) <= (s == INT4_ROWS ? 0.25 : 0.10);
    }

    double worst8 = 0.0;
    for (int s = INT8_ABSMAX; s <= INT8_ZERO_POINT; ++s) worst8 = fmax(worst8, fabs(loss[s] / loss[FP32] - 1.0));
    char criterion[96];
    (void)snprintf(criterion, sizeof criterion, "int8 within %.1f%% <= 10%%, int4 within %.1f%% <= 25%%",
                   100.0 * worst8, 100.0 * fabs(loss[INT4_ROWS] / loss[FP32] - 1.0));
    return micro_end(&options, &names, loss[FP32], criterion, reached);
}
