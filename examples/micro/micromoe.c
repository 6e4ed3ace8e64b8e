/* micromoe: a mixture of experts: four small networks, of which a router picks two for every letter.
 *
 * Idea. A model with more parameters knows more, but costs more for every letter. A mixture of experts has many
 * parameters and uses few at a time:
 *
 *     x  [8]  = rmsnorm(token embedding + position embedding)
 *     p  [4]  = softmax(router x)                                            how well each expert fits
 *     y  [8]  = x + sum over the two best e of  p_e / (p_a + p_b) * expert_e(x)
 *     expert_e(x) = W2_e relu(W1_e x)                                        W1 [16, 8], W2 [8, 16]
 *     logits  = head y                                                       [27]
 *
 * Left alone, a router soon sends everything to the expert that happened to learn first. An auxiliary loss keeps the
 * load even:  4 * sum_e share_e * mean p_e,  with share_e = the part of all picks that went to e. share_e is a count
 * and has no gradient; mean p_e has one, and it says: lower p_e in proportion to how busy e has been. (Built from
 * plain numbers only, as one may be tempted to, the whole term has gradient 0 and two experts starve.)
 *
 * Autograd is hybrid: embeddings, router and head are Values; the experts are plain numbers with gradients by hand. An
 * expert's output enters the graph as an operation of its own with the Jacobian of the expert as local gradients, and
 * what backward leaves in its gradient is where the work by hand begins.
 * Parameters: 216 + 96 + 32 + 4 * 256 + 216 = 1,584. There is no attention: a letter knows itself and its position.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD DIFFERENCES IN THIS SCRIPT ---
// This Value class follows the canonical interface (see docs/autograd-interface.md)
// with the following additions/modifications:
// - (router only): experts are plain floats with gradients by hand, joined to the graph by hd_value_op
// Base operations (add, mul, tanh, exp, relu, pow, backward) are identical
// to the canonical spec.

#include "micro.h"

enum { D = 8, B = 12, V = MICRO_VOCABULARY, EXPERTS = 4, PICKS = 2, M = 16 };

enum {
    TOKEN = 0,                   /* [V, D] */
    POSITION = TOKEN + V * D,    /* [B, D] */
    ROUTER = POSITION + B * D,   /* [EXPERTS, D] */
    HEAD = ROUTER + EXPERTS * D, /* [V, D] */
    PARAMETERS = HEAD + V * D,
};
static Value w[PARAMETERS];

static const double BALANCE = 0.1; /* weight of the auxiliary loss */

/* y [rows] = matrix [rows, columns] x [columns] */
static void linear(int rows, int columns, const Value *matrix, const Value *x, Value *y) {
    for (int r = 0; r < rows; ++r) y[r] = vdot(columns, matrix + r * columns, x);
}

/* x / sqrt(mean(x^2) + 1e-5); the 1e-5 keeps all zeros from dividing by 0. */
static void rmsnorm(const Value *x, Value *y) {
    const Value scale = vpow(vadd(vmul(vdot(D, x, x), 1.0 / D), 1e-5), -0.5);
    for (int i = 0; i < D; ++i) y[i] = vmul(x[i], scale);
}

/* ---- Experts: plain numbers -------------------------------------------------------------------------------------- */

static struct expert {
    double w1[M][D], w2[D][M];
    double g1[M][D], g2[D][M]; /* gradients of this step */
} experts[EXPERTS];

/* What a call must remember for its backward pass. */
typedef struct expert_call {
    struct expert *expert;
    double x[D], hidden[M];
    Value out[D];
} expert_call;

/* out = W2 relu(W1 x), each number of it a node with 8 children:
 *     d out_i / d x_j = sum over the live hidden units m of W2[i][m] W1[m][j] */
static void expert_forward(expert_call *call, struct expert *expert, const Value *x) {
    call->expert = expert;
    for (int j = 0; j < D; ++j) call->x[j] = vdata(x[j]);
    for (int m = 0; m < M; ++m) {
        double sum = 0.0;
        for (int j = 0; j < D; ++j) sum += expert->w1[m][j] * call->x[j];
        call->hidden[m] = sum > 0.0 ? sum : 0.0;
    }
    for (int i = 0; i < D; ++i) {
        double out = 0.0, jacobian[D] = {0.0};
        for (int m = 0; m < M; ++m) {
            if (call->hidden[m] <= 0.0) continue;
            out += expert->w2[i][m] * call->hidden[m];
            for (int j = 0; j < D; ++j) jacobian[j] += expert->w2[i][m] * expert->w1[m][j];
        }
        call->out[i] = hd_value_op(out, D, x, jacobian);
    }
}

/* After backward, with g = d loss / d out:
 *     d loss / d W2 = g hidden^T,     d loss / d W1 = (W2^T g where hidden > 0) x^T */
static void expert_backward(const expert_call *call) {
    struct expert *e = call->expert;
    for (int m = 0; m < M; ++m) {
        if (call->hidden[m] <= 0.0) continue;
        double below = 0.0;
        for (int i = 0; i < D; ++i) {
            const double g = vgrad(call->out[i]);
            e->g2[i][m] += g * call->hidden[m];
            below += g * e->w2[i][m];
        }
        for (int j = 0; j < D; ++j) e->g1[m][j] += below * call->x[j];
    }
}

static void experts_step(double lr) {
    for (int e = 0; e < EXPERTS; ++e) {
        struct expert *x = &experts[e];
        for (int m = 0; m < M; ++m)
            for (int j = 0; j < D; ++j) {
                x->w1[m][j] -= lr * x->g1[m][j];
                x->w2[j][m] -= lr * x->g2[j][m];
            }
        memset(x->g1, 0, sizeof x->g1);
        memset(x->g2, 0, sizeof x->g2);
    }
}

/* ---- The model --------------------------------------------------------------------------------------------------- */

/* What happened at one position. */
typedef struct routing {
    Value p[EXPERTS];
    int pick[PICKS];
    expert_call call[PICKS];
} routing;

static void moe(int token, int t, Value *logits, routing *r) {
    Value x[D], scores[EXPERTS];
    for (int i = 0; i < D; ++i) x[i] = vadd(w[TOKEN + token * D + i], w[POSITION + t * D + i]);
    rmsnorm(x, x);

    linear(EXPERTS, D, w + ROUTER, x, scores);
    vsoftmax(EXPERTS, scores, r->p); /* minus the largest score first: exp cannot overflow */
    int best = 0, second = -1;
    for (int e = 1; e < EXPERTS; ++e)
        if (vdata(r->p[e]) > vdata(r->p[best])) best = e;
    for (int e = 0; e < EXPERTS; ++e)
        if (e != best && (second < 0 || vdata(r->p[e]) > vdata(r->p[second]))) second = e;
    r->pick[0] = best;
    r->pick[1] = second;

    const Value total = vadd(r->p[best], r->p[second]);
    for (int k = 0; k < PICKS; ++k) expert_forward(&r->call[k], &experts[r->pick[k]], x);
    for (int k = 0; k < PICKS; ++k) {
        const Value weight = vdiv(r->p[r->pick[k]], total);
        for (int i = 0; i < D; ++i) x[i] = vadd(x[i], vmul(weight, r->call[k].out[i]));
    }
    linear(V, D, w + HEAD, x, logits);
}

static void sample(void) {
    int token = MICRO_BOS;
    for (int t = 0; t < B; ++t) {
        Value logits[V], p[V];
        double weight[V];
        routing r;
        moe(token, t, logits, &r);
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
    const micro_options options = micro_begin(argc, argv, "micromoe", 800);
    micro_names names = micro_names_load(&options);
    micro_init(PARAMETERS, w, 0.08);
    /* The experts start larger than the rest: plain gradient descent, unlike Adam, does not enlarge the tiny gradients
     * that tiny weights give each other. */
    for (int e = 0; e < EXPERTS; ++e)
        for (int m = 0; m < M; ++m)
            for (int j = 0; j < D; ++j) {
                experts[e].w1[m][j] = 0.3 * micro_normal();
                experts[e].w2[j][m] = 0.3 * micro_normal();
            }
    printf("micromoe: %d parameters, %d of them in %d experts, %d steps\n", PARAMETERS + EXPERTS * 2 * M * D,
           EXPERTS * 2 * M * D, EXPERTS, options.steps);

    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    double share[EXPERTS] = {0.25, 0.25, 0.25, 0.25}; /* of recent picks: a running mean over about 20 names */
    double picked[EXPERTS] = {0.0}, all_picks = 0.0, recent = 0.0;
    const int tail = micro_min(options.steps, 200);
    for (int step = 0; step < options.steps; ++step) {
        const char *name = names.name[step % names.count];
        const int positions = micro_positions(name, B);
        Value losses[B], p_sum[EXPERTS];
        routing r[B];
        int picks[EXPERTS] = {0};
        for (int t = 0; t < positions; ++t) {
            Value logits[V], p[V];
            moe(micro_token_at(name, t), t, logits, &r[t]);
            vsoftmax(V, logits, p);
            losses[t] = vneg(vlog(p[micro_token_at(name, t + 1)])); /* clipped at 1e-10, with a live gradient */
            for (int k = 0; k < PICKS; ++k) ++picks[r[t].pick[k]];
            for (int e = 0; e < EXPERTS; ++e) p_sum[e] = t ? vadd(p_sum[e], r[t].p[e]) : r[t].p[e];
        }
        Value balance[EXPERTS];
        for (int e = 0; e < EXPERTS; ++e) {
            share[e] += 0.05 * ((double)picks[e] / (PICKS * positions) - share[e]);
            balance[e] = vmul(EXPERTS * share[e] / positions, p_sum[e]);
        }
        const Value loss = vmul(vsum(positions, losses), 1.0 / positions);
        const double value = vdata(loss);
        hd_value_zero_grad();
        hd_value_backward(vadd(loss, vmul(BALANCE, vsum(EXPERTS, balance))));
        for (int t = 0; t < positions; ++t)
            for (int k = 0; k < PICKS; ++k) expert_backward(&r[t].call[k]);
        const double lr = 0.01 * (1.0 - (double)step / options.steps);
        hd_value_adam_step(&adam, lr);
        experts_step(0.5 * lr);
        hd_value_reset();
        if (step % 100 == 0) printf("step %4d | loss %.4f\n", step, value);
        if (step < options.steps - tail) continue;
        recent += value / tail;
        for (int e = 0; e < EXPERTS; ++e) picked[e] += picks[e];
        all_picks += PICKS * positions;
    }
    hd_value_adam_free(&adam);

    double least = 1.0;
    printf("mean loss of the last %d steps: %.4f\nshare of the picks:", tail, recent);
    for (int e = 0; e < EXPERTS; ++e) {
        printf(" expert %d %.1f%%", e, 100.0 * picked[e] / all_picks);
        if (picked[e] / all_picks < least) least = picked[e] / all_picks;
    }
    printf("\nnew names: ");
    for (int i = 0; i < 15; ++i) sample();
    putchar('\n');

    char criterion[96];
    (void)snprintf(criterion, sizeof criterion, "least busy expert %.1f%% > 10%%, loss %.3f < 2.9", 100.0 * least,
                   recent);
    return micro_end(&options, &names, recent, criterion, least > 0.1 && recent < 2.9);
}
