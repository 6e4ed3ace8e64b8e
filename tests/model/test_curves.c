/* Whole trainings against PyTorch's: the losses of 60 steps, dynamically and as a script, from the same parameters.
 * tests/golden/make_curves.py has the same trainings in PyTorch's words. */
#include "support.h"

#include <math.h>

enum { STEPS = 60, PARAMETERS = 64 };
typedef struct curve {
    char name[PARAMETERS][64];
    uint32_t number[PARAMETERS];
    int parameters;
    double loss[STEPS];
} curve;

static curve read_curve(const char *name) {
    static char text[1 << 13];
    FILE *file = fopen(HODU_TEST_DATA "/../golden/curves.txt", "r");
    if (file == NULL) fail_msg("there is no tests/golden/curves.txt");
    curve c = {.parameters = 0};
    bool here = false, found = false;
    while (fgets(text, sizeof text, file) != NULL) {
        char word[64];
        if (sscanf(text, "curve %63s", word) == 1) here = strcmp(word, name) == 0;
        if (!here) continue;
        if (sscanf(text, "param %63s %u", c.name[c.parameters], &c.number[c.parameters]) == 2) ++c.parameters;
        if (strncmp(text, "losses", 6) != 0) continue;
        char *at = text + 6;
        for (int i = 0; i < STEPS; ++i) c.loss[i] = strtod(at, &at);
        found = true;
    }
    fclose(file);
    assert_true(found && c.parameters > 0);
    return c;
}

/* ---- numbers, as make_curves.py makes them ----------------------------------------------------------------------- */
static uint32_t mixed(uint32_t which, uint32_t i) {
    uint32_t h = i * 0x9e3779b1U + which * 0x85ebca77U;
    h = (h ^ h >> 15) * 0x2c1b3c6dU;
    return h ^ h >> 12;
}
enum { MOST = 2048 };
static hd_tensor *spread(uint32_t which, hd_shape shape) {
    static double v[MOST];
    const int64_t count = hd_shape_count(shape);
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; ++i) v[i] = mixed(which, (uint32_t)i) / 2147483648.0 - 1;
    return hd_from_data(v, shape, HD_F64);
}
static hd_tensor *whole(uint32_t which, uint32_t below, hd_shape shape) {
    static int64_t v[MOST];
    const int64_t count = hd_shape_count(shape);
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; ++i) v[i] = mixed(which, (uint32_t)i) % below;
    return hd_from_data(v, shape, HD_I64);
}

static hd_module *begin(const curve *c, hd_module *m, hd_dtype dtype) {
    HD_NO_GRAD;
    hd_module_to_dtype(m, dtype);
    hd_tensors *all = hd_module_parameters(m);
    int matrices = 0;
    for (int64_t i = 0; i < hd_tensors_count(all); ++i) {
        hd_tensor *p = hd_tensors_get(all, i);
        if (hd_tensor_rank(p) > 1)
            ++matrices;
        else
            hd_fill(p, strstr(hd_module_parameter_name(m, i), "bias") != NULL ? 0 : 1);
    }
    assert_int_equal(matrices, c->parameters);
    for (int i = 0; i < c->parameters; ++i) {
        hd_tensor *p = hd_module_get(m, c->name[i]);
        hd_assign(p, hd_cast(hd_mul_scalar(spread(c->number[i], hd_tensor_shape(p)), 0.4), dtype));
    }
    assert_ok();
    return m;
}

/* ---- the trainings ----------------------------------------------------------------------------------------------- */
typedef struct training {
    hd_module *model;
    hd_optimizer *optimizer;
    hd_schedule *rates;
    hd_tensor *x, *y, *lengths;
} training;

static training images(const curve *c, hd_dtype dtype) {
    const hd_conv_layer_opts first = {sizeof first, .padding = {{1, 1}, {1, 1}}, .no_bias = true},
                             second = {sizeof second, .padding = {{1, 1}, {1, 1}}};
    training t = {.x = hd_cast(spread(50, HD_SHAPE(32, 1, 6, 6)), dtype), .y = whole(51, 4, HD_SHAPE(32))};
    t.model = begin(c,
                    HD_SEQUENTIAL(hd_conv_layer(1, 4, HD_SHAPE(3, 3), &first), hd_batch_norm_layer(4, NULL),
                                  hd_relu_layer(), hd_max_pool_layer(HD_SHAPE(2, 2), NULL),
                                  hd_conv_layer(4, 6, HD_SHAPE(3, 3), &second), hd_batch_norm_layer(6, NULL),
                                  hd_relu_layer(), hd_flatten_layer(1, -1), hd_linear(54, 4, NULL)),
                    dtype);
    t.optimizer = hd_adamw(hd_module_parameters(t.model), 0.01, HD_OPTS(hd_adam_opts, .weight_decay = 0.1));
    t.rates = hd_schedule_warm_up(6, 0.1, hd_schedule_cosine(t.optimizer, STEPS - 6, 0));
    return t;
}
/* The batch of step i, which a script is given. */
static hd_tensor *eight(hd_tensor *of, int i) { return hd_narrow(of, 0, i % 4 * 8, 8); }
static hd_tensor *images_step(const training *t, hd_tensor *x, hd_tensor *y) {
    hd_optimizer_zero_grad(t->optimizer);
    hd_tensor *loss =
        hd_cross_entropy(hd_forward(t->model, x), y, HD_OPTS(hd_cross_entropy_opts, .label_smoothing = 0.05));
    hd_backward(loss);
    hd_clip_grad_norm(hd_module_parameters(t->model), 0.5, NULL);
    hd_optimizer_step(t->optimizer);
    hd_schedule_step(t->rates);
    return loss;
}

static hd_tensors *read_words(hd_module *m, hd_tensors *in) {
    hd_tensor *words = hd_forward(hd_module_child(m, "words"), hd_tensors_get(in, 0));
    hd_tensor *state = hd_tensors_get(HD_FORWARD_ALL(hd_module_child(m, "gru"), words, hd_tensors_get(in, 1)), 1);
    hd_tensor *both = HD_CONCAT_OF(-1, hd_select(state, 0, 0), hd_select(state, 0, 1));
    return HD_TENSORS(hd_forward(hd_module_child(m, "head"), both));
}
static const hd_module_class reader = {.name = "reader", .forward_all = read_words};
static training sequences(const curve *c, hd_dtype dtype) {
    hd_module *m = hd_module_new(&reader, NULL);
    hd_module_add(m, "words", hd_embedding_layer(9, 5, NULL));
    hd_module_add(m, "gru", hd_gru(5, 6, HD_OPTS(hd_recurrent_opts, .bidirectional = true, .batch_first = true)));
    hd_module_add(m, "head", hd_linear(12, 3, NULL));
    training t = {.model = begin(c, m, dtype),
                  .x = whole(52, 9, HD_SHAPE(12, 7)),
                  .y = whole(54, 3, HD_SHAPE(12)),
                  .lengths = hd_add_scalar(whole(53, 7, HD_SHAPE(12)), 1)};
    t.optimizer = hd_rmsprop(hd_module_parameters(m), 0.01, HD_OPTS(hd_rmsprop_opts, .momentum = 0.5));
    t.rates = hd_schedule_every(t.optimizer, 20, 0.5);
    return t;
}
static hd_tensor *sequences_step(const training *t, hd_tensor *x, hd_tensor *y) {
    hd_optimizer_zero_grad(t->optimizer);
    hd_tensor *loss = hd_cross_entropy(hd_tensors_get(HD_FORWARD_ALL(t->model, x, t->lengths), 0), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(t->optimizer);
    hd_schedule_step(t->rates);
    return loss;
}

static hd_tensor *speak(hd_module *m, hd_tensor *words) {
    hd_tensor *x = hd_forward(hd_module_child(m, "layers"), hd_forward(hd_module_child(m, "words"), words));
    return hd_forward(hd_module_child(m, "head"), x);
}
static const hd_module_class speaker = {.name = "speaker", .forward = speak};
static training tokens(const curve *c, hd_dtype dtype) {
    hd_module *m = hd_module_new(&speaker, NULL);
    hd_module_add(m, "words", hd_embedding_layer(7, 8, NULL));
    hd_module_add(
        m, "layers",
        hd_transformer_encoder(8, 2, 2,
                               HD_OPTS(hd_transformer_opts, .feedforward = 16, .dropout = HD_ZERO, .gelu = true,
                                       .norm_first = true, .final_norm = true, .causal = true)));
    hd_module_add(m, "head", hd_linear(8, 7, NULL));
    hd_tensor *text = whole(55, 7, HD_SHAPE(8, 6));
    training t = {.model = begin(c, m, dtype), .x = hd_narrow(text, 1, 0, 5), .y = hd_narrow(text, 1, 1, 5)};
    t.optimizer = hd_adam(hd_module_parameters(m), 0.01, NULL);
    t.rates = hd_schedule_one_cycle(t.optimizer, 0.02, STEPS, NULL);
    return t;
}
/* Gradients of two halves add up. */
static hd_tensor *tokens_step(const training *t, hd_tensor *x, hd_tensor *y) {
    hd_optimizer_zero_grad(t->optimizer);
    hd_tensor *total = NULL;
    for (int half = 0; half < 2; ++half) {
        hd_tensor *logits = hd_forward(t->model, hd_narrow(x, 0, 4 * half, 4));
        hd_tensor *loss = hd_div_scalar(hd_cross_entropy(logits, hd_narrow(y, 0, 4 * half, 4), NULL), 2);
        hd_backward(loss);
        total = total == NULL ? loss : hd_add(total, loss);
    }
    hd_optimizer_step(t->optimizer);
    hd_schedule_step(t->rates);
    return total;
}

/* ---- both ways --------------------------------------------------------------------------------------------------- */
typedef training (*training_begin)(const curve *c, hd_dtype dtype);
typedef hd_tensor *(*training_step)(const training *t, hd_tensor *x, hd_tensor *y);

static hd_script *record(const training *t, training_step step, hd_tensor *x, hd_tensor *y) {
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, t->model, t->optimizer);
    hd_builder_add_state_of_schedule(b, t->rates);
    hd_tensor *in = hd_input("x", hd_tensor_shape(x), hd_tensor_dtype(x)),
              *target = hd_input("y", hd_tensor_shape(y), hd_tensor_dtype(y));
    hd_builder_add_output(b, "loss", step(t, in, target));
    hd_builder_end(b);
    return hd_builder_build(b);
}

static void follow(const char *name, training_begin start, training_step step, bool batches, bool as_script,
                   hd_dtype dtype, double tolerance) {
    HD_SCOPE;
    const curve c = read_curve(name);
    const training t = start(&c, dtype);
    hd_script *s = as_script ? record(&t, step, batches ? eight(t.x, 0) : t.x, batches ? eight(t.y, 0) : t.y) : NULL;
    for (int i = 0; i < STEPS; ++i) {
        HD_SCOPE;
        hd_tensor *x = batches ? eight(t.x, i) : t.x, *y = batches ? eight(t.y, i) : t.y, *loss;
        if (as_script) {
            hd_script_set_input(s, "x", x);
            hd_script_set_input(s, "y", y);
            loss = hd_outputs_get(hd_script_run(s), "loss");
        } else {
            loss = step(&t, x, y);
        }
        const double value = hd_item(loss);
        assert_ok();
        if (!(fabs(value - c.loss[i]) <= tolerance * fmax(1, fabs(c.loss[i]))))
            fail_msg("%s, %s%s, step %d: %.12g, and PyTorch has %.12g", name, hd_dtype_name(dtype),
                     as_script ? " in a script" : "", i, value, c.loss[i]);
    }
    hd_clear_tape();
}

static void follow_all_ways(const char *name, training_begin start, training_step step, bool batches) {
    for (int as_script = 0; as_script < 2; ++as_script) {
        follow(name, start, step, batches, as_script, HD_F64, 1e-6);
        follow(name, start, step, batches, as_script, HD_F32, 1e-3);
    }
}
static void a_convolutional_network(void **state) {
    (void)state;
    follow_all_ways("images", images, images_step, true);
}
static void a_gru_over_lengths(void **state) {
    (void)state;
    follow_all_ways("sequences", sequences, sequences_step, false);
}
static void a_transformer(void **state) {
    (void)state;
    follow_all_ways("tokens", tokens, tokens_step, false);
}

RUN(test(a_convolutional_network), test(a_gru_over_lengths), test(a_transformer))
