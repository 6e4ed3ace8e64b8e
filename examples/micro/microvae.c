/* microvae: a variational autoencoder: squeeze points through a code, and make the codes so tidy that new ones can be
 * drawn.
 *
 * Idea. An encoder turns a point x into a cloud of codes, N(mean, exp(log_var)); a code z drawn from it is turned
 * back into a point by the decoder. Two forces act. Reconstruction wants every point to keep a code of its own. The
 * KL divergence wants every cloud to look like N(0, 1), so that the clouds together fill that bell without gaps; then
 * a z drawn from it is a code the decoder knows, and the decoder has become a generator.
 *
 *     encoder   h = tanh(W x + b)  [16];   mean = Wm h + bm  [2];   log_var = Wv h + bv  [2]         48 + 34 + 34
 *     code      z = mean + exp(log_var / 2) * noise,  noise ~ N(0, 1)                                [2]
 *     decoder   g = tanh(U z + c)  [16];   x' = Uo g + co  [2]                                       48 + 34  = 198
 *     loss      |x - x'|^2 / (2 * 0.3)  +  KL( N(mean, exp(log_var)) || N(0, 1) )               -ELBO + constant
 *
 * Drawing z as mean + deviation * noise (the reparametrisation) keeps the randomness out of the way of the gradient:
 * noise is a plain number, mean and log_var are not. The data: 800 points in four clouds around (+-2, +-2) of
 * variance 0.3, the 0.3 of the loss.
 */
#define HD_VALUE_SHORT
#include <hodu/value.h>

// --- AUTOGRAD IN THIS SCRIPT ---
// This Value class follows the canonical interface exactly.
// See docs/autograd-interface.md for the full specification.

#define MICRO_DATA_HELP  "points, two numbers a line (default: 800 points drawn around (+-2, +-2))"
#define MICRO_STEPS_HELP "epochs, each of which takes all points once, 1 or more (default %d)"
#include "micro.h"

enum { X = 2, Z = 2, N = 16, POINTS = 800, MOST_POINTS = 100000, BATCH = 16 };

static const double VARIANCE = 0.3;

/* A layer is its matrix [outputs, inputs] and its bias [outputs], as one run of parameters. */
enum {
    ENCODER = 0,                     /* X -> N */
    MEAN = ENCODER + N * (X + 1),    /* N -> Z */
    LOG_VAR = MEAN + Z * (N + 1),    /* N -> Z */
    DECODER = LOG_VAR + Z * (N + 1), /* Z -> N */
    OUTPUT = DECODER + N * (Z + 1),  /* N -> X */
    PARAMETERS = OUTPUT + X * (N + 1),
};
static Value w[PARAMETERS];

static void layer(int begin, int outputs, int inputs, const Value *x, Value *y) {
    for (int o = 0; o < outputs; ++o)
        y[o] = vadd(vdot(inputs, w + begin + o * inputs, x), w[begin + outputs * inputs + o]);
}

static void tanh_all(int n, Value *x) {
    for (int i = 0; i < n; ++i) x[i] = vtanh(x[i]);
}

static void encode(const double x[X], Value mean[Z], Value log_var[Z]) {
    Value in[X], h[N];
    for (int i = 0; i < X; ++i) in[i] = hd_value_const(x[i]);
    layer(ENCODER, N, X, in, h);
    tanh_all(N, h);
    layer(MEAN, Z, N, h, mean);
    layer(LOG_VAR, Z, N, h, log_var);
}

static void decode(const Value z[Z], Value x[X]) {
    Value g[N];
    layer(DECODER, N, Z, z, g);
    tanh_all(N, g);
    layer(OUTPUT, X, N, g, x);
}

/* Both parts of the loss for one point. */
static void point_loss(const double x[X], Value *reconstruction, Value *kl) {
    Value mean[Z], log_var[Z], z[Z], back[X], squares[X], kls[Z];
    encode(x, mean, log_var);
    for (int i = 0; i < Z; ++i) {
        const double noise = micro_normal();
        z[i] = vadd(mean[i], vmul(vexp(vmul(log_var[i], 0.5)), noise));
        /* hd_value_kl clamps log_var to [-5, 5]: an encoder gone astray with log_var = 10 would claim a variance of
         * 22,026 and bury everything else under its loss. Inside the clamp the gradient is alive. */
        kls[i] = hd_value_kl(mean[i], log_var[i]);
    }
    decode(z, back);
    for (int i = 0; i < X; ++i) {
        const Value miss = vsub(back[i], x[i]);
        squares[i] = vmul(miss, miss);
    }
    *reconstruction = vmul(vsum(X, squares), 0.5 / VARIANCE);
    *kl = vsum(Z, kls);
}

static void decode_plain(const double z[Z], double x[X]) {
    Value in[Z], out[X];
    for (int i = 0; i < Z; ++i) in[i] = hd_value_const(z[i]);
    decode(in, out);
    for (int i = 0; i < X; ++i) x[i] = vdata(out[i]);
    hd_value_reset();
}

static void encode_plain(const double x[X], double z[Z]) {
    Value mean[Z], log_var[Z];
    encode(x, mean, log_var);
    for (int i = 0; i < Z; ++i) z[i] = vdata(mean[i]);
    hd_value_reset();
}

static double points[MOST_POINTS][X];

static int load_points(const micro_options *o) {
    if (!o->data) {
        for (int i = 0; i < POINTS; ++i) {
            points[i][0] = (i & 1 ? 2.0 : -2.0) + sqrt(VARIANCE) * micro_normal();
            points[i][1] = (i & 2 ? 2.0 : -2.0) + sqrt(VARIANCE) * micro_normal();
        }
        return POINTS;
    }
    FILE *file = fopen(o->data, "r");
    if (!file) {
        fprintf(stderr, "error: --data %s: %s\n", o->data, strerror(errno));
        exit(2);
    }
    int n = 0, fields = 0;
    while (n < MOST_POINTS && (fields = fscanf(file, "%lf %lf", &points[n][0], &points[n][1])) == 2) {
        if (!isfinite(points[n][0]) || !isfinite(points[n][1])) micro_fail("a point is not finite", o->data);
        ++n;
    }
    fclose(file);
    if (n < MOST_POINTS && fields != EOF) micro_fail("every line needs two numbers", o->data);
    if (n == 0) micro_fail("no points in the file, or it cannot be read", o->data);
    return n;
}

int main(int argc, char **argv) {
    const micro_options options = micro_begin(argc, argv, "microvae", 1000);
    const int count = load_points(&options);
    for (int i = 0; i < PARAMETERS; ++i) w[i] = hd_value_param(0.2 * micro_normal());
    printf("microvae: %d parameters, %d points, %d epochs\n", hd_value_param_count(), count, options.steps);

    /* Adam at the interface document's defaults: beta 0.9 and 0.999, and epsilon 1e-8, which keeps a parameter without
     * gradients so far from dividing by 0. */
    hd_value_adam adam = {0};
    double first = 0.0, loss = 0.0, reconstruction = 0.0, kl = 0.0;
    for (int epoch = 0; epoch < options.steps; ++epoch) {
        reconstruction = kl = 0.0;
        for (int begin = 0; begin < count; begin += BATCH) {
            const int n = micro_min(BATCH, count - begin);
            Value losses[BATCH];
            for (int i = 0; i < n; ++i) {
                Value r, k;
                point_loss(points[begin + i], &r, &k);
                losses[i] = vadd(r, k);
                reconstruction += vdata(r) / count;
                kl += vdata(k) / count;
            }
            hd_value_zero_grad();
            hd_value_backward(vmul(vsum(n, losses), 1.0 / n));
            hd_value_adam_step(&adam, 0.001);
            hd_value_reset();
        }
        loss = reconstruction + kl;
        if (epoch == 0) first = loss;
        if (epoch % 100 == 0)
            printf("epoch %4d | -ELBO %7.4f = reconstruction %7.4f + KL %.4f\n", epoch, loss, reconstruction, kl);
    }
    hd_value_adam_free(&adam);
    printf("at the end | -ELBO %7.4f = reconstruction %7.4f + KL %.4f\n", loss, reconstruction, kl);

    double from[Z], to[Z], z[Z], x[X];
    encode_plain(points[0], from);
    encode_plain(points[micro_min(3, count - 1)], to);
    printf("\nfrom one corner to the other, in code space:\n ");
    for (int k = 0; k <= 8; ++k) {
        for (int i = 0; i < Z; ++i) z[i] = from[i] + (to[i] - from[i]) * k / 8.0;
        decode_plain(z, x);
        printf(" (%.2f, %.2f)", x[0], x[1]);
    }

    /* A sample of the prior is good if it falls where the data are: no further from some point than one deviation. */
    int good = 0;
    const int samples = 400;
    printf("\nout of nothing, z ~ N(0, 1):\n ");
    for (int k = 0; k < samples; ++k) {
        for (int i = 0; i < Z; ++i) z[i] = micro_normal();
        decode_plain(z, x);
        if (k < 10) printf(" (%.2f, %.2f)", x[0], x[1]);
        double nearest = INFINITY;
        for (int p = 0; p < count; ++p) nearest = fmin(nearest, hypot(points[p][0] - x[0], points[p][1] - x[1]));
        good += nearest < sqrt(VARIANCE);
    }
    const double share = (double)good / samples;
    printf("\n%.0f%% of %d samples lie within a deviation (%.2f) of a data point\n", 100.0 * share, samples,
           sqrt(VARIANCE));

    char criterion[128];
    (void)snprintf(criterion, sizeof criterion,
                   "-ELBO %.2f -> %.2f (at most half), KL %.2f > 0.5, %.0f%% > 60%% of samples near data", first, loss,
                   kl, 100.0 * share);
    return micro_end(&options, NULL, loss, criterion, loss <= 0.5 * first && kl > 0.5 && share > 0.6);
}
