/* microppo: the whole of RLHF in one file: a policy, a reward model learned from preferences, a critic, and PPO.
 *
 * Idea. Three things are learned, one after the other:
 *   1. the policy, a small GPT (1,296 parameters), learns to write names;
 *   2. the reward model, an MLP 28-32-1 (961), learns from pairs which of two names people prefer (here: more vowels);
 *   3. PPO moves the policy towards names with a high reward.
 *
 * PPO samples a few names, and takes several steps on them. For every letter written, with the probability p_old it had
 * when it was sampled:
 *
 *     ratio     = p / p_old                                   1 at first; leaves 1 as the steps change the policy
 *     advantage = reward still to come - value(prefix)        was it better than the critic expected?
 *     loss      = -mean min( ratio * advantage, clip(ratio, 0.8, 1.2) * advantage )
 *
 * The clip is what makes several steps on the same names safe: once a ratio has gone 20% the way the advantage wants,
 * its gradient is 0 and the letter pushes no further. With only one step a batch all ratios are 1 and it would never
 * bind. The reward of a name is r - 0.5 * (log p_old - log p_ref), summed over its letters: a price on leaving the
 * reference.
 *
 * The reward model and the critic (linear, 28 + 1 numbers) are plain numbers with gradients by hand: they are small,
 * and nothing has to flow through them.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD DIFFERENCES IN THIS SCRIPT ---
// This Value class follows the canonical interface (see docs/autograd-interface.md)
// with the following additions/modifications:
// - clip(): PPO ratio clipping; its gradient is 0 outside the bounds and on them
// Base operations (add, mul, tanh, exp, relu, pow, backward) are identical
// to the canonical spec.

#include "micro.h"

enum { D = 8, H = 2, S = D / H, F = 4 * D, B = 12, V = MICRO_VOCABULARY };
enum { FEATURES = 28, HIDDEN = 32, BATCH = 4, EPOCHS = 12 };

static const double CLIP = 0.2, KL_PRICE = 0.5;

static Value clip(Value x, double low, double high) {
    const double d = vdata(x);
    const double slope = d > low && d < high ? 1.0 : 0.0;
    return hd_value_op(d < low ? low : d > high ? high : d, 1, &x, &slope);
}

/* ---- 1. The policy ----------------------------------------------------------------------------------------------- */

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
static Value policy[PARAMETERS], reference[PARAMETERS]; /* the reference is the policy before PPO, and stays */
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
static void gpt(const Value *model, int token, int t, Value *logits) {
    Value x[D], y[D], q[D], hidden[F];
    for (int i = 0; i < D; ++i) x[i] = vadd(model[TOKEN + token * D + i], model[POSITION + t * D + i]);
    rmsnorm(x, x);

    rmsnorm(x, y);
    linear(D, D, model + QUERY, y, q);
    linear(D, D, model + KEY, y, keys[t]);
    linear(D, D, model + VALUE, y, values[t]);
    attend(t, q, y);
    linear(D, D, model + OUT, y, q);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], q[i]);

    rmsnorm(x, y);
    linear(F, D, model + UP, y, hidden);
    for (int i = 0; i < F; ++i) hidden[i] = vrelu(hidden[i]);
    linear(D, F, model + DOWN, hidden, y);
    for (int i = 0; i < D; ++i) x[i] = vadd(x[i], y[i]);

    linear(V, D, model + HEAD, x, logits);
}

/* log p of every letter of a name and of its end, clipped at 1e-10 so that none is -inf and each has a gradient.
 * Returns how many: a name of 12 letters fills the block and has no end. */
static int letter_logs(const Value *model, const char *name, Value *logs) {
    const int positions = micro_positions(name, B);
    for (int t = 0; t < positions; ++t) {
        Value logits[V], p[V];
        gpt(model, micro_token_at(name, t), t, logits);
        vsoftmax(V, logits, p);
        logs[t] = vlog(p[micro_token_at(name, t + 1)]);
    }
    return positions;
}

static int plain_letter_logs(const Value *model, const char *name, double *logs) {
    Value graph[B];
    const int n = letter_logs(model, name, graph);
    for (int t = 0; t < n; ++t) logs[t] = vdata(graph[t]);
    hd_value_reset();
    return n;
}

static void sample(const Value *model, char name[B + 1]) {
    int token = MICRO_BOS, length = 0;
    while (length < B) {
        Value logits[V], p[V];
        double weight[V];
        gpt(model, token, length, logits);
        vsoftmax(V, logits, p);
        for (int i = 0; i < V; ++i) weight[i] = vdata(p[i]);
        token = micro_draw(V, weight);
        if (token == MICRO_BOS) break;
        name[length++] = micro_letter(token);
    }
    name[length] = '\0';
    hd_value_reset();
}

/* ---- 2. The reward model, by hand -------------------------------------------------------------------------------- */

static bool is_vowel(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

static double vowel_share(const char *name) {
    int vowels = 0, length = 0;
    for (; name[length]; ++length) vowels += is_vowel(name[length]);
    return length ? (double)vowels / length : 0.0;
}

/* What the reward model and the critic see of the first n letters: the share of each letter, the share of repeated
 * letters, and the length. That vowels are the point they are not told. */
static void features(const char *name, int n, double f[FEATURES]) {
    for (int i = 0; i < FEATURES; ++i) f[i] = 0.0;
    for (int i = 0; i < n; ++i) {
        f[micro_token(name[i])] += 1.0 / n;
        if (i && name[i] == name[i - 1]) f[26] += 1.0 / n;
    }
    f[27] = (double)n / B;
}

/* score = w2 . relu(W1 f + b1) + b2 */
static struct { double w1[HIDDEN][FEATURES], b1[HIDDEN], w2[HIDDEN], b2; } reward;

static double reward_score(const double f[FEATURES], double hidden[HIDDEN]) {
    double score = reward.b2;
    for (int j = 0; j < HIDDEN; ++j) {
        double sum = reward.b1[j];
        for (int i = 0; i < FEATURES; ++i) sum += reward.w1[j][i] * f[i];
        hidden[j] = sum > 0.0 ? sum : 0.0;
        score += reward.w2[j] * hidden[j];
    }
    return score;
}

static double name_reward(const char *name) {
    double f[FEATURES], hidden[HIDDEN];
    features(name, (int)strlen(name), f);
    return reward_score(f, hidden);
}

/* One step of gradient descent on g * score: d score/d w2 = hidden, d score/d W1 = w2 f^T where hidden > 0. */
static void reward_step(const double f[FEATURES], const double hidden[HIDDEN], double g, double lr) {
    for (int j = 0; j < HIDDEN; ++j) {
        const double below = hidden[j] > 0.0 ? g * reward.w2[j] : 0.0;
        reward.w2[j] -= lr * g * hidden[j];
        reward.b1[j] -= lr * below;
        for (int i = 0; i < FEATURES; ++i) reward.w1[j][i] -= lr * below * f[i];
    }
    reward.b2 -= lr * g;
}

/* Two names of the list with different vowel shares, the preferred one first. */
static bool draw_pair(const micro_names *names, int from, int to, const char *pair[2]) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const char *a = names->name[from + micro_below(to - from)];
        const char *b = names->name[from + micro_below(to - from)];
        const double more = vowel_share(a) - vowel_share(b);
        if (fabs(more) < 0.05) continue;
        pair[0] = more > 0.0 ? a : b;
        pair[1] = more > 0.0 ? b : a;
        return true;
    }
    return false;
}

/* Hinge with margin 1: max(0, 1 - (score of preferred - score of other)). Returns the accuracy on names not trained
 * on. */
static double train_reward(const micro_names *names, int steps) {
    const int train = names->count > 10 ? names->count * 4 / 5 : names->count;
    const int test = names->count > 10 ? train : 0;
    const char *pair[2];
    double f[2][FEATURES], hidden[2][HIDDEN], score[2];
    for (int j = 0; j < HIDDEN; ++j) {
        reward.w2[j] = 0.2 * micro_normal();
        for (int i = 0; i < FEATURES; ++i) reward.w1[j][i] = 0.2 * micro_normal();
    }
    for (int step = 0; step < steps; ++step) {
        if (!draw_pair(names, 0, train, pair)) micro_fail("microppo needs names with different shares of vowels", NULL);
        for (int k = 0; k < 2; ++k) {
            features(pair[k], (int)strlen(pair[k]), f[k]);
            score[k] = reward_score(f[k], hidden[k]);
        }
        if (score[0] - score[1] >= 1.0) continue; /* beyond the margin the hinge is flat */
        reward_step(f[0], hidden[0], -1.0, 0.05);
        reward_step(f[1], hidden[1], +1.0, 0.05);
    }
    int right = 0, tests = 0;
    for (; tests < 200 && draw_pair(names, test, names->count, pair); ++tests)
        right += name_reward(pair[0]) > name_reward(pair[1]);
    return tests ? (double)right / tests : 0.0;
}

/* ---- 3. The critic, and PPO -------------------------------------------------------------------------------------- */

static double critic[FEATURES + 1];

static double critic_value(const double f[FEATURES]) {
    double sum = critic[FEATURES];
    for (int i = 0; i < FEATURES; ++i) sum += critic[i] * f[i];
    return sum;
}

typedef struct episode {
    char name[B + 1];
    int letters; /* with the end */
    double old_log[B], advantage[B];
} episode;

/* Samples a name, prices it, and lets the critic learn from how it went. */
static void play(episode *e) {
    double reference_log[B], f[FEATURES];
    sample(policy, e->name);
    e->letters = plain_letter_logs(policy, e->name, e->old_log);
    (void)plain_letter_logs(reference, e->name, reference_log);
    double to_come = name_reward(e->name);
    for (int t = e->letters - 1; t >= 0; --t) {
        to_come -= KL_PRICE * (e->old_log[t] - reference_log[t]);
        features(e->name, t, f); /* before letter t is written */
        e->advantage[t] = to_come - critic_value(f);
        for (int i = 0; i < FEATURES; ++i) critic[i] += 0.02 * e->advantage[t] * f[i];
        critic[FEATURES] += 0.02 * e->advantage[t];
    }
}

/* -mean over all letters of min(ratio * A, clip(ratio) * A); counts the letters on which the clip binds. */
static Value ppo_loss(const episode *batch, int *clipped, int *letters) {
    Value terms[BATCH * B];
    int n = 0;
    for (int k = 0; k < BATCH; ++k) {
        const episode *e = &batch[k];
        Value logs[B];
        (void)letter_logs(policy, e->name, logs);
        for (int t = 0; t < e->letters; ++t) {
            const Value ratio = vexp(vsub(logs[t], e->old_log[t]));
            const Value bare = vmul(ratio, e->advantage[t]);
            const Value held = vmul(clip(ratio, 1.0 - CLIP, 1.0 + CLIP), e->advantage[t]);
            const bool binds = vdata(held) < vdata(bare);
            terms[n++] = binds ? held : bare;
            *clipped += binds;
        }
    }
    *letters += n;
    return vmul(vsum(n, terms), -1.0 / n);
}

/* Mean reward of 200 samples of the policy; *kl is the mean of log p - log p_ref of these names. */
static double measure(const char *when, double *kl) {
    double sum = 0.0, vowels = 0.0;
    *kl = 0.0;
    printf("%s: ", when);
    for (int i = 0; i < 200; ++i) {
        char name[B + 1];
        double log_p[B], log_r[B];
        sample(policy, name);
        if (i < 10) printf("%s ", name);
        const int n = plain_letter_logs(policy, name, log_p);
        (void)plain_letter_logs(reference, name, log_r);
        for (int t = 0; t < n; ++t) *kl += (log_p[t] - log_r[t]) / 200;
        sum += name_reward(name) / 200;
        vowels += vowel_share(name) / 200;
    }
    printf("...\n  mean reward %+.3f, vowels %.0f%%, KL from the reference %.3f\n", sum, 100.0 * vowels, *kl);
    return sum;
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microppo", 500);
    micro_names names = micro_names_load(&options);

    micro_init(PARAMETERS, policy, 0.08);
    printf("policy: %d parameters, %d steps of pretraining\n", PARAMETERS, options.steps);
    /* Adam's epsilon (1e-8) keeps a parameter that has had no gradient yet from dividing by 0. */
    hd_value_adam adam = {.count = PARAMETERS, .beta1 = 0.85, .beta2 = 0.99};
    for (int step = 0; step < options.steps; ++step) {
        Value logs[B];
        const int n = letter_logs(policy, names.name[step % names.count], logs);
        const Value loss = vmul(vsum(n, logs), -1.0 / n);
        if (step % 100 == 0) printf("  step %4d | loss %.4f\n", step, vdata(loss));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / options.steps));
        hd_value_reset();
    }
    hd_value_adam_free(&adam);
    for (int i = 0; i < PARAMETERS; ++i) reference[i] = hd_value_param(vdata(policy[i]));

    const double accuracy = train_reward(&names, micro_phase(&options, 400));
    printf("reward model: %d parameters, %.1f%% of unseen pairs right\n", HIDDEN * FEATURES + 2 * HIDDEN + 1,
           100.0 * accuracy);

    double kl;
    const double before = measure("before", &kl);
    const int rounds = micro_phase(&options, 100);
    int clipped = 0, letters = 0;
    double last = 0.0;
    printf("PPO: %d rounds of %d names and %d steps\n", rounds, BATCH, EPOCHS);
    for (int round = 0; round < rounds; ++round) {
        episode batch[BATCH];
        for (int k = 0; k < BATCH; ++k) play(&batch[k]);
        for (int epoch = 0; epoch < EPOCHS; ++epoch) {
            const Value loss = ppo_loss(batch, &clipped, &letters);
            last = vdata(loss);
            hd_value_zero_grad();
            hd_value_backward(loss);
            hd_value_adam_step(&adam, 0.0005);
            hd_value_reset();
        }
        if (round % 20 == 0) printf("  round %3d | loss %+.4f | a sample: %s\n", round, last, batch[0].name);
    }
    hd_value_adam_free(&adam);
    printf("the clip held %.1f%% of the letters\n", 100.0 * clipped / letters);
    const double after = measure("after ", &kl);

    char criterion[128];
    (void)snprintf(criterion, sizeof criterion,
                   "accuracy %.0f%% > 70%%, reward %+.2f -> %+.2f, KL %.2f < 6, clip held %.1f%% > 0", 100.0 * accuracy,
                   before, after, kl, 100.0 * clipped / letters);
    const bool reached = accuracy > 0.7 && after > before && kl < 6.0 && clipped > 0;
    return micro_end(&options, &names, last, criterion, reached);
}
