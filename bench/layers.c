/* Layers and whole networks, trained as programs train them: the convolutional network of examples/digits_conv.c,
 * recurrent layers, pooling of small images. Numbers are those of static.h, so that the sides can be compared. */
#include "harness.h"
#include "static.h"

/* A few numbers of a result: its size on the whole, and three of its elements. */
static void check_values(bench *b, hd_tensor *y) {
    HD_SCOPE;
    HD_NO_GRAD;
    y = hd_reshape(y, HD_SHAPE(-1));
    const int64_t count = hd_tensor_count(y), at[] = {0, count / 3, count - 1};
    bench_check(b, sqrt(hd_item(hd_mean(hd_square(y), HD_AXES(), NULL))));
    for (int i = 0; i < 3; ++i) bench_check(b, hd_item(hd_select(y, 0, at[i])));
}

/* ---- an epoch of the network of examples/digits_conv.c, without what is drawn (dropout, changed images) ---------- */
enum { SIDE = 8, BATCH = 32, BATCHES = 44, CLASSES = 10, PARTS = 4 };
typedef struct reader {
    hd_module *model;
    hd_optimizer *adam;
    hd_schedule *rates;
    hd_tensor *images, *labels;
    hd_script *step; /* NULL: steps are run dynamically */
} reader;

static hd_module *convolution(int64_t in, int64_t out) {
    return HD_SEQUENTIAL(hd_conv_layer(in, out, HD_SHAPE(3, 3),
                                       HD_OPTS(hd_conv_layer_opts, .padding = {{1, 1}, {1, 1}}, .no_bias = true)),
                         hd_batch_norm_layer(out, NULL), hd_relu_layer());
}

static hd_module *network(void) {
    hd_module *m = HD_SEQUENTIAL(convolution(1, 16), convolution(16, 16), hd_max_pool_layer(HD_SHAPE(2, 2), NULL),
                                 convolution(16, 32), convolution(32, 32), hd_max_pool_layer(HD_SHAPE(2, 2), NULL),
                                 hd_flatten_layer(1, -1), hd_linear(32 * 2 * 2, CLASSES, NULL));
    static const char *const weights[PARTS + 1] = {"0.0.weight", "1.0.weight", "3.0.weight", "4.0.weight", "7.weight"};
    HD_NO_GRAD;
    for (int i = 0; i <= PARTS; ++i) {
        hd_tensor *w = hd_module_get(m, weights[i]);
        hd_assign(w, numbers(hd_tensor_shape(w), 10 + (uint32_t)i, 0.2F));
    }
    hd_init_zeros(hd_module_get(m, "7.bias"));
    return m;
}

static hd_tensor *step(const reader *r, hd_tensor *images, hd_tensor *labels) {
    hd_tensor *loss =
        hd_cross_entropy(hd_forward(r->model, images), labels, HD_OPTS(hd_cross_entropy_opts, .label_smoothing = 0.1));
    hd_backward(loss);
    hd_clip_grad_norm(hd_module_parameters(r->model), 1, NULL);
    hd_optimizer_step(r->adam);
    hd_schedule_step(r->rates);
    hd_optimizer_zero_grad(r->adam);
    return loss;
}

static reader reader_new(bool as_script) {
    reader r = {.model = network()};
    const int64_t count = BATCHES * BATCH;
    r.images = input_numbers(HD_SHAPE(count, 1, SIDE, SIDE), 1);
    r.labels = hd_mod_scalar(hd_arange(0, (double)count, 1, HD_I64), CLASSES);
    r.adam = hd_adamw(hd_module_parameters(r.model), 3e-3, HD_OPTS(hd_adam_opts, .weight_decay = 0.05));
    r.rates = hd_schedule_cosine(r.adam, 1000 * BATCHES, 0);
    if (!as_script) return r;
    hd_builder *builder = hd_builder_new("step");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, r.model, r.adam);
    hd_builder_add_state_of_schedule(builder, r.rates);
    hd_tensor *images = hd_input("images", HD_SHAPE(BATCH, 1, SIDE, SIDE), HD_F32);
    hd_builder_add_output(builder, "loss", step(&r, images, hd_input("labels", HD_SHAPE(BATCH), HD_I64)));
    hd_builder_end(builder);
    r.step = hd_builder_build(builder);
    return r;
}

/* The loss of the step for batch `at`. */
static hd_tensor *train(const reader *r, int64_t at) {
    hd_tensor *images = hd_narrow(r->images, 0, at * BATCH, BATCH),
              *labels = hd_narrow(r->labels, 0, at * BATCH, BATCH);
    if (r->step == NULL) return step(r, images, labels);
    hd_script_set_input(r->step, "images", images);
    hd_script_set_input(r->step, "labels", labels);
    return hd_outputs_get(hd_script_run(r->step), "loss");
}

static void time_epochs(bench *b, bool as_script) {
    HD_SCOPE;
    const reader r = reader_new(as_script);
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        bench_check(b, hd_item(train(&r, i)));
    }
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            for (int64_t i = 0; i < BATCHES; ++i) {
                HD_SCOPE;
                train(&r, i);
            }
        }
    }
}
static void digits_conv_epoch(bench *b) { time_epochs(b, false); }
static void digits_conv_epoch_script(bench *b) { time_epochs(b, true); }

/* ---- recurrent layers: [steps, rows, width] to as much ----------------------------------------------------------- */
enum { STEPS = 64, ROWS = 32, WIDTH = 256 };
typedef hd_module *(*recurrent_class)(int64_t input, int64_t hidden, const hd_recurrent_opts *opts);

static hd_module *recurrent(recurrent_class make) {
    hd_module *m = make(WIDTH, WIDTH, NULL);
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    HD_NO_GRAD;
    for (int i = 0; i < 4; ++i) {
        hd_tensor *w = hd_module_get(m, names[i]);
        hd_assign(w, weight_numbers(hd_tensor_shape(w), 10 + (uint32_t)i));
    }
    return m;
}

static void time_recurrent(bench *b, recurrent_class make) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_module *m = recurrent(make);
    hd_tensor *x = input_numbers(HD_SHAPE(STEPS, ROWS, WIDTH), 1);
    check_values(b, hd_forward(m, x));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_forward(m, x);
        }
    }
}
static void gru(bench *b) { time_recurrent(b, hd_gru); }
static void lstm(bench *b) { time_recurrent(b, hd_lstm); }

/* The gradients of x and of the parameters, for one of the output that is the output itself. */
static hd_tensors *gradients(hd_module *m, hd_tensor *x, hd_tensor *y) {
    hd_tensors *of = hd_tensors_join(hd_module_parameters(m), HD_TENSORS(x));
    return hd_grad_of(y, of, HD_OPTS(hd_grad_of_opts, .seed = hd_detach(y)));
}

static void time_recurrent_training(bench *b, recurrent_class make) {
    HD_SCOPE;
    hd_module *m = recurrent(make);
    hd_tensor *x = hd_requires_grad(input_numbers(HD_SHAPE(STEPS, ROWS, WIDTH), 1));
    check_values(b, hd_tensors_get(gradients(m, x, hd_forward(m, x)), -1));
    hd_clear_tape();
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            gradients(m, x, hd_forward(m, x));
            hd_clear_tape();
        }
    }
}
static void gru_train(bench *b) { time_recurrent_training(b, hd_gru); }
static void lstm_train(bench *b) { time_recurrent_training(b, hd_lstm); }

static void time_recurrent_script(bench *b, recurrent_class make, bool train) {
    HD_SCOPE;
    hd_module *m = recurrent(make);
    hd_tensor *x = hd_requires_grad(input_numbers(HD_SHAPE(STEPS, ROWS, WIDTH), 1));
    hd_builder *builder = hd_builder_new("recurrent");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, m, NULL); /* weights that a step may change */
    hd_builder_add_state(builder, "x", x);     /* an input has no gradient */
    hd_tensor *y = hd_forward(m, x);
    hd_tensors *all = train ? gradients(m, x, y) : HD_TENSORS(y);
    for (int64_t i = 0; i < hd_tensors_count(all); ++i)
        hd_builder_add_output(builder, (const char[]){'y', (char)('0' + i), '\0'}, hd_tensors_get(all, i));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    check_values(b, hd_outputs_at(hd_script_run(s), hd_tensors_count(all) - 1));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(s);
        }
    }
}
static void gru_script(bench *b) { time_recurrent_script(b, hd_gru, false); }
static void lstm_script(bench *b) { time_recurrent_script(b, hd_lstm, false); }
static void gru_train_script(bench *b) { time_recurrent_script(b, hd_gru, true); }
static void lstm_train_script(bench *b) { time_recurrent_script(b, hd_lstm, true); }

/* ---- pooling ----------------------------------------------------------------------------------------------------- */
static void max_pool(bench *b) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *x = input_numbers(HD_SHAPE(32, 16, 16, 16), 1);
    check_values(b, hd_max_pool(x, HD_SHAPE(2, 2), NULL));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_max_pool(x, HD_SHAPE(2, 2), NULL);
        }
    }
}

/* Forward and backward. */
static void max_pool_train(bench *b) {
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(input_numbers(HD_SHAPE(32, 16, 16, 16), 1)),
              *seed = input_numbers(HD_SHAPE(32, 16, 8, 8), 2);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_grad_of(hd_max_pool(x, HD_SHAPE(2, 2), NULL), HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .seed = seed));
            hd_clear_tape();
        }
    }
}

static const bench_case cases[] = {
    {"layers/digits-conv-epoch", "ms", digits_conv_epoch},
    {"layers/digits-conv-epoch-script", "ms", digits_conv_epoch_script},
    {"layers/gru-64x32x256", "us", gru},
    {"layers/lstm-64x32x256", "us", lstm},
    {"layers/gru-64x32x256-train", "us", gru_train},
    {"layers/lstm-64x32x256-train", "us", lstm_train},
    {"layers/gru-64x32x256-script", "us", gru_script},
    {"layers/lstm-64x32x256-script", "us", lstm_script},
    {"layers/gru-64x32x256-train-script", "us", gru_train_script},
    {"layers/lstm-64x32x256-train-script", "us", lstm_train_script},
    {"layers/max-pool-32x16x16x16", "us", max_pool},
    {"layers/max-pool-32x16x16x16-train", "us", max_pool_train},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
