/* Two networks against each other: one draws digits, the other tells drawings from real ones, and both get better.
 *
 * The generator makes an image of 8 x 8 pixels of 16 random numbers; the critic gives a logit: real or drawn. Each
 * learns from the other's answers, in two scripts whose state are both models. At the end drawings are shown, and a
 * third network, which has learned real digits alone, says how sure it is of what they are. */
#include "digits_file.h"

enum { NOISE = 16, BATCH = 64, STEPS = 8000, DRAWN = 512 };

/* ---- the networks ------------------------------------------------------------------------------------------------ */
static hd_module *generator_new(void) { /* [n,16] -> [n,64], ink from 0 to 1 */
    return HD_SEQUENTIAL(hd_linear(NOISE, 128, NULL), hd_leaky_relu_layer(0.2), hd_linear(128, 128, NULL),
                         hd_leaky_relu_layer(0.2), hd_linear(128, PIXELS, NULL), hd_sigmoid_layer());
}
static hd_module *critic_new(void) { /* [n,64] -> [n,1], a logit: above 0 is real */
    return HD_SEQUENTIAL(hd_linear(PIXELS, 128, NULL), hd_leaky_relu_layer(0.2), hd_linear(128, 64, NULL),
                         hd_leaky_relu_layer(0.2), hd_linear(64, 1, NULL));
}
static hd_optimizer *adam_for(hd_module *m, double rate) {
    return hd_adam(hd_module_parameters(m), rate, HD_OPTS(hd_adam_opts, .beta1 = 0.5));
}

/* How badly logits say that all are real, or that none is. */
static hd_tensor *all_real(hd_tensor *logits) { return hd_mean(hd_softplus(hd_neg(logits), 1, 20), HD_AXES(), NULL); }
static hd_tensor *none_real(hd_tensor *logits) { return hd_mean(hd_softplus(logits, 1, 20), HD_AXES(), NULL); }

typedef struct game {
    hd_module *generator, *critic;
    hd_optimizer *draws, *judges;
} game;

/* One step of the critic for real images [BATCH,64]: a bit of noise on both keeps it from being certain. */
static hd_tensor *critic_step(const game *g, hd_tensor *real) {
    hd_tensor *drawn = hd_detach(hd_forward(g->generator, hd_randn(HD_SHAPE(BATCH, NOISE), HD_F32)));
    hd_tensor *blur = hd_normal(HD_SHAPE(2, BATCH, PIXELS), HD_F32, 0, 0.3);
    hd_tensor *loss = hd_add(all_real(hd_forward(g->critic, hd_add(real, hd_select(blur, 0, 0)))),
                             none_real(hd_forward(g->critic, hd_add(drawn, hd_select(blur, 0, 1)))));
    hd_backward(loss);
    hd_optimizer_step(g->judges);
    return loss;
}

static hd_tensor *generator_step(const game *g) {
    hd_tensor *drawn = hd_forward(g->generator, hd_randn(HD_SHAPE(BATCH, NOISE), HD_F32));
    hd_tensor *loss = all_real(hd_forward(g->critic, drawn));
    hd_backward(loss);
    hd_optimizer_step(g->draws);
    return loss;
}

/* Both steps as one script: what they change is its state. */
static hd_script *record(const game *g) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("gan");
    hd_builder_start(b);
    hd_builder_add_state_of(b, g->generator, g->draws);
    hd_builder_add_state_of(b, g->critic, g->judges);
    hd_builder_add_output(b, "critic", critic_step(g, hd_input("real", HD_SHAPE(BATCH, PIXELS), HD_F32)));
    hd_optimizer_zero_grad(g->judges);
    hd_builder_add_output(b, "generator", generator_step(g));
    hd_builder_end(b);
    return hd_keep(hd_builder_build(b));
}

static void play(const game *g, hd_tensor *images) {
    hd_script *step = record(g);
    for (int i = 0; i < STEPS && hd_ok(); ++i) {
        HD_SCOPE;
        hd_tensor *which = hd_randint(HD_SHAPE(BATCH), HD_I64, 0, hd_tensor_size(images, 0));
        hd_script_set_input(step, "real", hd_index_select(images, 0, which));
        hd_outputs *losses = hd_script_run(step);
        if (i % 1000 == 0)
            printf("step %4d  critic %.3f  generator %.3f\n", i, hd_item(hd_outputs_get(losses, "critic")),
                   hd_item(hd_outputs_get(losses, "generator")));
    }
}

/* ---- who looks at it --------------------------------------------------------------------------------------------- */
static hd_module *reader_new(hd_tensor *images, hd_tensor *labels) {
    hd_module *model = HD_SEQUENTIAL(hd_linear(PIXELS, 64, NULL), hd_relu_layer(), hd_linear(64, CLASSES, NULL));
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.005, NULL);
    for (int i = 0; i < 150 && hd_ok(); ++i) {
        HD_SCOPE;
        hd_backward(hd_cross_entropy(hd_forward(model, images), labels, NULL));
        hd_optimizer_step(adam);
        hd_optimizer_zero_grad(adam);
    }
    return model;
}

static double part_above(hd_tensor *x, double bound) {
    return hd_item(hd_mean(hd_cast(hd_gt_scalar(x, bound), HD_F32), HD_AXES(), NULL));
}

static void show(hd_tensor *drawn) {
    enum { SHOWN = 8 };
    float ink[SHOWN][PIXELS];
    hd_to_array(hd_narrow(drawn, 0, 0, SHOWN), ink, HD_F32, SHOWN * PIXELS);
    for (int row = 0; row < 8; ++row, putchar('\n'))
        for (int k = 0; k < SHOWN; ++k, printf("  "))
            for (int column = 0; column < 8; ++column) {
                const char c = " .:-=+*#%@"[(int)(ink[k][8 * row + column] * 9.99f)];
                printf("%c%c", c, c);
            }
}

int main(void) {
    HD_SCOPE;
    image *file;
    const int64_t count = load(DIGITS_FILE, &file);
    if (count < 0) return free(file), 1;
    hd_seed(4);
    const digits real = digits_of(file, count);
    free(file);
    hd_module *reader = reader_new(real.images, real.labels);
    game g = {generator_new(), critic_new(), NULL, NULL};
    g.draws = adam_for(g.generator, 5e-4);
    g.judges = adam_for(g.critic, 1e-3);
    play(&g, real.images);
    if (!hd_ok()) return hd_exit_status();

    HD_NO_GRAD;
    hd_tensor *drawn = hd_forward(g.generator, hd_randn(HD_SHAPE(DRAWN, NOISE), HD_F32)); /* [512,64] */
    hd_pair best = hd_max_with_index(hd_softmax(hd_forward(reader, drawn), 1), 1, NULL);  /* [512] */
    hd_tensor *of_real = hd_max(hd_softmax(hd_forward(reader, real.images), 1), HD_AXES(1), NULL);
    const double certain = part_above(best.values, 0.9);
    const double kinds = hd_item(hd_count_nonzero(
        hd_ge_scalar(hd_bincount(best.indices, NULL, CLASSES), DRAWN / CLASSES / 10), HD_AXES(), NULL));
    show(drawn);
    printf("of %d drawings %.0f %% are read with certainty (%.0f %% of the real ones are); %.0f of the ten digits are "
           "among "
           "them\n",
           (int)DRAWN, 100 * certain, 100 * part_above(of_real, 0.9), kinds);
    return certain > 0.5 && kinds >= 8 ? hd_exit_status() : 1;
}
