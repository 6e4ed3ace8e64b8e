/* microbeam: six ways to write with the same model, from greed to guessing ahead without cheating.
 *
 * Idea. A model gives probabilities; decoding makes text of them.
 *     greedy        always the likeliest token
 *     temperature   draw from softmax(logits / 0.7): sharper than the model itself
 *     top-k         draw among the 5 likeliest
 *     top-p         draw among the fewest tokens that together have 90%
 *     beam          keep the 3 likeliest beginnings, extend each by every token, keep the 3 likeliest again: a greedy
 *                   choice that turns out badly is not the end
 *     speculative   a small draft model writes 4 tokens, the large one checks them all in one pass
 *
 * Speculative decoding must not change what is written. The draft draws x from its own q; with p of the target,
 *     x is accepted with probability min(1, p(x) / q(x)),
 *     else a token is drawn from max(0, p - q), made to sum to 1, and what the draft wrote after it is dropped.
 * Then x comes out with probability  min(q, p) + (1 - sum min(q, p)) * max(0, p - q) / (1 - sum min(q, p)) = p(x),
 * exactly: the draft decides how fast, never what. (A draft that proposes its likeliest token but is checked as if it
 * had drawn it would not be lossless.)
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#include "micro.h"

enum { B = 16, V = MICRO_VOCABULARY, BIG = 16, SMALL = 8, MOST = 4192, AHEAD = 4, WIDTH = 3, SAMPLES = 300 };

/* Two GPTs as in microgpt.c, which explains it: the target (d = 16, 4 heads, 4,192 parameters) and the draft (d = 8,
 * 2 heads, 1,328). Heads have S = 4 numbers in both. */
enum { S = 4 };
typedef struct model {
    int d;
    int token, position, query, key, value, out, up, down, head, parameters; /* where the matrices begin */
    Value w[MOST];
    double plain[MOST]; /* the same after training */
} model;

static void model_init(model *m, int d) {
    m->d = d;
    m->token = 0;                   /* [V, d] */
    m->position = m->token + V * d; /* [B, d] */
    m->query = m->position + B * d; /* [d, d] */
    m->key = m->query + d * d;      /* [d, d] */
    m->value = m->key + d * d;      /* [d, d] */
    m->out = m->value + d * d;      /* [d, d] */
    m->up = m->out + d * d;         /* [4d, d] */
    m->down = m->up + 4 * d * d;    /* [d, 4d] */
    m->head = m->down + 4 * d * d;  /* [V, d] */
    m->parameters = m->head + V * d;
    micro_init(m->parameters, m->w, 0.08);
}

/* ---- Training: Values -------------------------------------------------------------------------------------------- */

static Value keys[B][BIG], values[B][BIG];

/* y [rows] = matrix [rows, columns] x [columns] */
static void linear(int rows, int columns, const Value *matrix, const Value *x, Value *y) {
    for (int r = 0; r < rows; ++r) y[r] = vdot(columns, matrix + r * columns, x);
}

/* x / sqrt(mean(x^2) + 1e-5); the 1e-5 keeps all zeros from dividing by 0. */
static void rmsnorm(int d, const Value *x, Value *y) {
    const Value scale = vpow(vadd(vmul(vdot(d, x, x), 1.0 / d), 1e-5), -0.5);
    for (int i = 0; i < d; ++i) y[i] = vmul(x[i], scale);
}

/* vsoftmax subtracts the largest score first, so that exp cannot overflow. */
static void attend(int d, int t, const Value *q, Value *out) {
    for (int h = 0; h < d; h += S) {
        Value weight[B], column[B];
        for (int u = 0; u <= t; ++u) weight[u] = vmul(vdot(S, q + h, keys[u] + h), 1.0 / sqrt((double)S));
        vsoftmax(t + 1, weight, weight);
        for (int i = h; i < h + S; ++i) {
            for (int u = 0; u <= t; ++u) column[u] = values[u][i];
            out[i] = vdot(t + 1, weight, column);
        }
    }
}

static void gpt(const model *m, int token, int t, Value *logits) {
    const int d = m->d;
    const Value *w = m->w;
    Value x[BIG], y[BIG], q[BIG], hidden[4 * BIG];
    for (int i = 0; i < d; ++i) x[i] = vadd(w[m->token + token * d + i], w[m->position + t * d + i]);
    rmsnorm(d, x, x);

    rmsnorm(d, x, y);
    linear(d, d, w + m->query, y, q);
    linear(d, d, w + m->key, y, keys[t]);
    linear(d, d, w + m->value, y, values[t]);
    attend(d, t, q, y);
    linear(d, d, w + m->out, y, q);
    for (int i = 0; i < d; ++i) x[i] = vadd(x[i], q[i]);

    rmsnorm(d, x, y);
    linear(4 * d, d, w + m->up, y, hidden);
    for (int i = 0; i < 4 * d; ++i) hidden[i] = vrelu(hidden[i]);
    linear(d, 4 * d, w + m->down, hidden, y);
    for (int i = 0; i < d; ++i) x[i] = vadd(x[i], y[i]);

    linear(V, d, w + m->head, x, logits);
}

/* Returns the mean loss of the last 100 steps. */
static double train(model *m, const micro_names *names, int steps) {
    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {
        .first = hd_value_param_count() - m->parameters, .count = m->parameters, .beta1 = 0.85, .beta2 = 0.99};
    const int tail = micro_min(steps, 100);
    double recent = 0.0;
    for (int step = 0; step < steps; ++step) {
        const char *name = names->name[step % names->count];
        const int positions = micro_positions(name, B);
        Value losses[B];
        for (int t = 0; t < positions; ++t) {
            Value logits[V], p[V];
            gpt(m, micro_token_at(name, t), t, logits);
            vsoftmax(V, logits, p);
            losses[t] = vneg(vlog(p[micro_token_at(name, t + 1)])); /* clipped at 1e-10, with a live gradient */
        }
        const Value loss = vmul(vsum(positions, losses), 1.0 / positions);
        if (step >= steps - tail) recent += vdata(loss) / tail;
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / steps));
        hd_value_reset();
    }
    hd_value_adam_free(&adam);
    for (int i = 0; i < m->parameters; ++i) m->plain[i] = vdata(m->w[i]);
    printf("  d = %2d: %d parameters, %d steps, loss %.4f\n", m->d, m->parameters, steps, recent);
    return recent;
}

/* ---- Decoding: plain numbers ------------------------------------------------------------------------------------- */

/* What a model has read. To forget the last tokens, lower the length: their rows will be written over. */
typedef struct reader {
    const model *m;
    int length;
    double keys[B][BIG], values[B][BIG];
} reader;
static void float_linear(int rows, int columns, const double *matrix, const double *x, double *y) {
    for (int r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int c = 0; c < columns; ++c) sum += matrix[r * columns + c] * x[c];
        y[r] = sum;
    }
}

static void float_rmsnorm(int d, const double *x, double *y) {
    double sum = 0.0;
    for (int i = 0; i < d; ++i) sum += x[i] * x[i];
    const double scale = 1.0 / sqrt(sum / d + 1e-5);
    for (int i = 0; i < d; ++i) y[i] = x[i] * scale;
}

/* Subtracting the largest first keeps exp from overflowing; the result does not change. */
static void float_softmax(int n, double *x) {
    double largest = x[0], sum = 0.0;
    for (int i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < n; ++i) sum += x[i] = exp(x[i] - largest);
    for (int i = 0; i < n; ++i) x[i] /= sum;
}

/* Reads one token; p [V] gets the probabilities of the next. */
static void read_token(reader *r, int token, double *p) {
    const model *m = r->m;
    const double *w = m->plain;
    const int d = m->d, t = r->length++;
    double x[BIG] = {0.0}, y[BIG], q[BIG], hidden[4 * BIG], weight[B];
    for (int i = 0; i < d; ++i) x[i] = w[m->token + token * d + i] + w[m->position + t * d + i];
    float_rmsnorm(d, x, x);

    float_rmsnorm(d, x, y);
    float_linear(d, d, w + m->query, y, q);
    float_linear(d, d, w + m->key, y, r->keys[t]);
    float_linear(d, d, w + m->value, y, r->values[t]);
    for (int h = 0; h < d; h += S) {
        for (int u = 0; u <= t; ++u) {
            double score = 0.0;
            for (int i = h; i < h + S; ++i) score += q[i] * r->keys[u][i];
            weight[u] = score / sqrt((double)S);
        }
        float_softmax(t + 1, weight);
        for (int i = h; i < h + S; ++i) {
            y[i] = 0.0;
            for (int u = 0; u <= t; ++u) y[i] += weight[u] * r->values[u][i];
        }
    }
    float_linear(d, d, w + m->out, y, q);
    for (int i = 0; i < d; ++i) x[i] += q[i];

    float_rmsnorm(d, x, y);
    float_linear(4 * d, d, w + m->up, y, hidden);
    for (int i = 0; i < 4 * d; ++i) hidden[i] = hidden[i] > 0.0 ? hidden[i] : 0.0;
    float_linear(d, 4 * d, w + m->down, hidden, y);
    for (int i = 0; i < d; ++i) x[i] += y[i];

    float_linear(V, d, w + m->head, x, p);
    float_softmax(V, p);
}

static double safe_log(double p) { return log(p < 1e-10 ? 1e-10 : p); } /* log(0) would be -inf */

/* A name being written: BOS, letters, and BOS again when it is finished. At most B tokens can be read, so at most B
 * tokens follow the first. */
typedef struct text {
    int token[B + 1], length;
    double log_p; /* of everything after the start, by the target */
} text;

static text text_begin(int start) {
    text x = {{MICRO_BOS, start}, start == MICRO_BOS ? 1 : 2, 0.0};
    return x;
}

static bool text_done(const text *x) {
    return x->length > B || (x->length > 1 && x->token[x->length - 1] == MICRO_BOS);
}

static void text_add(text *x, int token, double p) {
    x->token[x->length++] = token;
    x->log_p += safe_log(p);
}

static void text_string(const text *x, char *s) {
    for (int i = 1; i < x->length && x->token[i] != MICRO_BOS; ++i) *s++ = micro_letter(x->token[i]);
    *s = '\0';
}

/* Reads what of the text the reader has not read yet; p is what follows. */
static void catch_up(reader *r, const text *x, double *p) {
    while (r->length < x->length) read_token(r, x->token[r->length], p);
}

static int likeliest(const double *p) {
    int best = 0;
    for (int i = 1; i < V; ++i)
        if (p[i] > p[best]) best = i;
    return best;
}

/* ---- Drawing rules: what is left of p to draw from --------------------------------------------------------------- */

static void keep_all(double *weight) { (void)weight; }

static void temperature(double *weight) { /* p^(1/T) = softmax(logits / T), up to a factor */
    for (int i = 0; i < V; ++i) weight[i] = pow(weight[i], 1.0 / 0.7);
}

/* Keeps the likeliest tokens, at most `most` of them, until they have `enough` together. */
static void keep_top(double *weight, int most, double enough) {
    double left[V] = {0.0}, total = 0.0;
    for (int n = 0; n < most && total < enough; ++n) {
        const int best = likeliest(weight);
        left[best] = weight[best];
        total += weight[best];
        weight[best] = -1.0;
    }
    memcpy(weight, left, sizeof left);
}

static void top_k(double *weight) { keep_top(weight, 5, 2.0); }
static void top_p(double *weight) { keep_top(weight, V, 0.9); }
static void only_best(double *weight) { keep_top(weight, 1, 2.0); } /* greedy */

static text write_by(const model *target, int start, void (*rule)(double *)) {
    reader r = {.m = target};
    text x = text_begin(start);
    while (!text_done(&x)) {
        double p[V], weight[V];
        catch_up(&r, &x, p);
        memcpy(weight, p, sizeof weight);
        rule(weight);
        const int token = micro_draw(V, weight);
        text_add(&x, token, p[token]);
    }
    return x;
}

/* ---- Beam -------------------------------------------------------------------------------------------------------- */

static text write_beam(const model *target, int start) {
    static struct {
        text x;
        reader r;
    } beam[WIDTH], next[WIDTH];
    int width = 1;
    memset(beam, 0, sizeof beam);
    beam[0].x = text_begin(start);
    beam[0].r.m = target;
    for (;;) {
        double score[WIDTH * V], p[WIDTH][V];
        bool any_open = false;
        for (int b = 0; b < width; ++b) {
            const bool done = text_done(&beam[b].x);
            if (!done) catch_up(&beam[b].r, &beam[b].x, p[b]);
            any_open = any_open || !done;
            for (int i = 0; i < V; ++i) /* a finished text competes once, as it is */
                score[b * V + i] = done ? (i ? -INFINITY : beam[b].x.log_p) : beam[b].x.log_p + safe_log(p[b][i]);
        }
        if (!any_open) return beam[0].x; /* they are in order of their score */
        const int candidates = width * V;
        int kept = 0;
        for (; kept < WIDTH; ++kept) {
            int best = 0;
            for (int c = 1; c < candidates; ++c)
                if (score[c] > score[best]) best = c;
            if (score[best] == -INFINITY) break;
            score[best] = -INFINITY;
            next[kept] = beam[best / V];
            if (!text_done(&next[kept].x)) text_add(&next[kept].x, best % V, p[best / V][best % V]);
        }
        memcpy(beam, next, sizeof beam);
        width = kept;
    }
}

/* ---- Speculative ------------------------------------------------------------------------------------------------- */

static double acceptance(double p, double q) { return p >= q ? 1.0 : p / q; }

/* max(0, p - q), not yet summing to 1. */
static void residual(const double *p, const double *q, double *rest) {
    for (int i = 0; i < V; ++i) rest[i] = p[i] > q[i] ? p[i] - q[i] : 0.0;
}

static int proposed, accepted, passes; /* a pass: the target looks at all proposals of a round at once */

static text write_speculative(const model *target, const model *draft) {
    reader big = {.m = target}, small = {.m = draft};
    text x = text_begin(MICRO_BOS);
    while (!text_done(&x)) {
        text guess = x;
        double q[AHEAD][V], p[V], rest[V];
        int guesses = 0;
        for (; guesses < AHEAD && !text_done(&guess); ++guesses) {
            catch_up(&small, &guess, q[guesses]);
            text_add(&guess, micro_draw(V, q[guesses]), 1.0);
        }
        ++passes;
        proposed += guesses;
        int good = 0;
        for (; good < guesses; ++good) {
            const int token = guess.token[x.length];
            catch_up(&big, &x, p);
            if (micro_uniform() < acceptance(p[token], q[good][token])) {
                text_add(&x, token, p[token]);
                ++accepted;
                continue;
            }
            residual(p, q[good], rest);
            const int other = micro_draw(V, rest);
            text_add(&x, other, p[other]);
            break;
        }
        if (good == guesses && !text_done(&x)) { /* all were good: the same pass has also said what comes after them */
            catch_up(&big, &x, p);
            const int token = micro_draw(V, p);
            text_add(&x, token, p[token]);
        }
        small.length = micro_min(small.length, x.length - 1); /* forget what was dropped */
    }
    return x;
}

/* |probability with which a token comes out - p|, the largest over all tokens and the beginnings of a name. */
static double speculative_error(const model *target, const model *draft, const char *name) {
    reader big = {.m = target}, small = {.m = draft};
    double error = 0.0;
    for (int t = 0; t <= (int)strlen(name) && t < B; ++t) {
        double p[V], q[V], rest[V], rejected = 1.0, rest_sum = 0.0;
        read_token(&big, micro_token_at(name, t), p);
        read_token(&small, micro_token_at(name, t), q);
        residual(p, q, rest);
        for (int i = 0; i < V; ++i) {
            rejected -= q[i] * acceptance(p[i], q[i]);
            rest_sum += rest[i];
        }
        for (int i = 0; i < V; ++i) {
            const double comes_out =
                q[i] * acceptance(p[i], q[i]) + (rest_sum > 0.0 ? rejected * rest[i] / rest_sum : 0.0);
            error = fmax(error, fabs(comes_out - p[i]));
        }
    }
    return error;
}

/* ---- Comparison -------------------------------------------------------------------------------------------------- */

static int compare_strings(const void *a, const void *b) { return strcmp((const char *)a, (const char *)b); }

typedef struct summary {
    double mean, error; /* of log p, and the standard error of that mean */
} summary;

static summary report(const char *how, int n, const text *texts) {
    static char names[SAMPLES][B + 1];
    double sum = 0.0, square = 0.0;
    int distinct = 0;
    for (int i = 0; i < n; ++i) {
        text_string(&texts[i], names[i]);
        sum += texts[i].log_p;
        square += texts[i].log_p * texts[i].log_p;
    }
    printf("  %-12s  log p %7.3f   ", how, sum / n);
    char shown[3][B + 1];
    for (int i = 0; i < 3; ++i) memcpy(shown[i], names[i], sizeof shown[i]);
    qsort(names, (size_t)n, sizeof *names, compare_strings);
    for (int i = 0; i < n; ++i) distinct += i == 0 || strcmp(names[i], names[i - 1]) != 0;
    printf("%3.0f%% distinct   %s %s %s ...\n", 100.0 * distinct / n, shown[0], shown[1], shown[2]);
    const double mean = sum / n;
    summary s = {mean, sqrt(fmax(0.0, square / n - mean * mean) / n)};
    return s;
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microbeam", 700);
    micro_names names = micro_names_load(&options);
    static model target, draft;
    static text texts[SAMPLES];
    printf("training:\n");
    model_init(&target, BIG);
    const double loss = train(&target, &names, options.steps);
    model_init(&draft, SMALL);
    (void)train(&draft, &names, micro_phase(&options, 500));

    printf("\none name for every first letter a..z:\n");
    for (int i = 0; i < MICRO_LETTERS; ++i) texts[i] = write_by(&target, i, only_best);
    const summary greedy = report("greedy", MICRO_LETTERS, texts);
    for (int i = 0; i < MICRO_LETTERS; ++i) texts[i] = write_beam(&target, i);
    const summary beam = report("beam", MICRO_LETTERS, texts);

    printf("\n%d names:\n", SAMPLES);
    static const struct {
        const char *name;
        void (*rule)(double *);
    } rules[] = {{"temperature", temperature}, {"top-k", top_k}, {"top-p", top_p}, {"the model", keep_all}};
    summary drawn = {0.0, 0.0};
    for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < SAMPLES; ++i) texts[i] = write_by(&target, MICRO_BOS, rules[k].rule);
        drawn = report(rules[k].name, SAMPLES, texts);
    }
    int tokens = 0;
    for (int i = 0; i < SAMPLES; ++i) {
        texts[i] = write_speculative(&target, &draft);
        tokens += texts[i].length - 1;
    }
    const summary speculative = report("speculative", SAMPLES, texts);

    const double rate = (double)accepted / proposed;
    double error = 0.0;
    for (int i = 0; i < micro_min(names.count, 50); ++i)
        error = fmax(error, speculative_error(&target, &draft, names.name[i]));
    const double apart = fabs(speculative.mean - drawn.mean) / hypot(speculative.error, drawn.error);
    printf("\nspeculative: %.0f%% of the proposals accepted, %.2f tokens a pass of the target\n", 100.0 * rate,
           (double)tokens / passes);
    printf("  largest difference between what comes out and the model: %.1e; mean log p %.1f standard errors apart\n",
           error, apart);

    char criterion[160];
    (void)snprintf(criterion, sizeof criterion,
                   "beam %.2f >= greedy %.2f, acceptance %.0f%% >= 50%%, lossless to %.0e, %.1f errors apart < 4",
                   beam.mean, greedy.mean, 100.0 * rate, error, apart);
    const bool reached = beam.mean >= greedy.mean && rate >= 0.5 && error < 1e-12 && apart < 4.0;
    return micro_end(&options, &names, loss, criterion, reached);
}
