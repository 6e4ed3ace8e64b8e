/* Writes nets for boards: write_nets FOLDER makes FOLDER/<net>/net.c, net.h and cases.h of each net, and the same in
 * FOLDER/<net>/small, of which the goal was few bytes. cases.h has inputs, and what the script makes of them here at
 * O0; compare.c runs them. */
#define _POSIX_C_SOURCE 200809L /* mkdir */
#include "../../examples/digits_file.h"

#include <stdarg.h>
#include <sys/stat.h>

enum { TESTS = 20, STEPS = 200, BATCH = 16, BATCHES = 20, SEED = 5 };

typedef struct subject {
    const char *name, *function;
    hd_script *script;       /* with one output, of f32 */
    int cases, inputs;       /* runs, and inputs for them, which begin anew where there are fewer */
    hd_tensor *in[2];        /* [inputs, ...] of each input of the script */
    const char *bound;       /* ULP or APART, which compare.c tells of, */
    double limit;            /* and how many */
    bool classes, is_random; /* the largest of the output, which is the only one, is the answer; there are draws */
} subject;

/* ---- cases.h ----------------------------------------------------------------------------------------------------- */
static void write_numbers(FILE *f, const char *kind, hd_script_entry e, const double *values, int64_t count) {
    const bool is_float = e.dtype == HD_F32;
    fprintf(f, "static const %s %s_%s[%lld] = {", is_float ? "float" : "int64_t", kind, e.name, (long long)count);
    for (int64_t i = 0; i < count; ++i)
        fprintf(f, is_float ? "%s%af," : "%s%.0f,", i % 12 == 0 ? "\n    " : " ", values[i]);
    fprintf(f, "\n};\n");
}

static void write_inputs(FILE *f, const subject *s) {
    for (int64_t i = 0; i < hd_script_input_count(s->script); ++i) {
        const int64_t count = hd_tensor_count(s->in[i]);
        double *values = malloc((size_t)count * sizeof *values);
        if (values == NULL) return;
        hd_to_array(s->in[i], values, HD_F64, (size_t)count);
        write_numbers(f, "in", hd_script_input_at(s->script, i), values, count);
        free(values);
    }
}

/* An argument of an array that begins at a place: (const float (*)[64])(place). */
static void write_argument(FILE *f, hd_script_entry e, bool is_input, const char *place) {
    fprintf(f, ", (%s%s ", is_input ? "const " : "", e.dtype == HD_F32 ? "float" : "int64_t");
    fprintf(f, e.shape.rank > 1 ? "(*)" : "*");
    for (int i = 1; i < e.shape.rank; ++i) fprintf(f, "[%lld]", (long long)e.shape.size[i]);
    fprintf(f, ")(%s)", place);
}

/* run_case(n, k): its result is in `got`. */
static void write_call(FILE *f, const subject *s) {
    char place[128];
    fprintf(f, "static int run_case(net *n, int k) {\n    return net_%s(n", s->function);
    for (int64_t i = 0; i < hd_script_input_count(s->script); ++i) {
        const hd_script_entry e = hd_script_input_at(s->script, i);
        snprintf(place, sizeof place, "in_%s + k %% %d * %lld", e.name, s->inputs, (long long)hd_shape_count(e.shape));
        write_argument(f, e, true, place);
    }
    write_argument(f, hd_script_output_at(s->script, 0), false, "got");
    fprintf(f, ");\n}\n");
    if (s->is_random) fprintf(f, "static void seed_case(net *n) { net_seed(n, %d); }\n#define SEED_CASE\n", SEED);
}

/* Runs all cases at O0 and notes what they give. */
static void write_expected(FILE *f, const subject *s) {
    const hd_script_entry out = hd_script_output_at(s->script, 0);
    const int64_t count = hd_shape_count(out.shape);
    double *values = malloc((size_t)(s->cases * count) * sizeof *values);
    hd_script_set_optimization_level(s->script, HD_O0);
    hd_seed(SEED);
    for (int k = 0; k < s->cases && values != NULL; ++k) {
        HD_SCOPE;
        for (int64_t i = 0; i < hd_script_input_count(s->script); ++i) {
            const hd_script_entry e = hd_script_input_at(s->script, i);
            hd_script_set_input(s->script, e.name, hd_reshape(hd_select(s->in[i], 0, k % s->inputs), e.shape));
        }
        hd_to_array(hd_outputs_at(hd_script_run(s->script), 0), values + k * count, HD_F64, (size_t)count);
    }
    if (values != NULL && hd_ok()) write_numbers(f, "expected", out, values, s->cases * count);
    free(values);
}

static void write_cases(FILE *f, const subject *s) {
    const hd_script_entry out = hd_script_output_at(s->script, 0);
    fprintf(f, "/* Inputs of the net \"%s\", and what its script makes of them on the host at O0. */\n", s->name);
    fprintf(f, "#define %s %a\n%s", s->bound, s->limit, s->classes ? "#define CLASSES\n" : "");
    fprintf(f, "enum { CASES = %d, COUNT = %lld };\n", s->cases, (long long)hd_shape_count(out.shape));
    write_inputs(f, s);
    write_expected(f, s);
    fprintf(f, "static const float *const expected = expected_%s;\nstatic float got[COUNT];\n", out.name);
    write_call(f, s);
}

/* ---- the files of a net ------------------------------------------------------------------------------------------ */
static const char *path_of(const char *format, ...) {
    static char path[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(path, sizeof path, format, list);
    va_end(list);
    return path;
}

static bool write_subject(const char *folder, const subject *s) {
    if (!hd_ok()) return false;
    mkdir(path_of("%s/%s", folder, s->name), 0777);
    mkdir(path_of("%s/%s/small", folder, s->name), 0777);
    hd_export_opts opts = {.struct_size = sizeof opts, .function = s->function, .goal = HD_EXPORT_SPEED};
    hd_script_export(s->script, path_of("%s/%s/net", folder, s->name), &opts);
    opts.goal = HD_EXPORT_SIZE;
    hd_script_export(s->script, path_of("%s/%s/small/net", folder, s->name), &opts);
    FILE *f = fopen(path_of("%s/%s/cases.h", folder, s->name), "w");
    if (f == NULL) return fprintf(stderr, "write_nets: %s/%s: %s\n", folder, s->name, strerror(errno)), false;
    write_cases(f, s);
    bool good = !ferror(f);
    good = fclose(f) == 0 && good;
    f = fopen(path_of("%s/%s/small/cases.h", folder, s->name), "w");
    if (f == NULL) return false;
    fprintf(f, "#include \"../cases.h\"\n");
    return fclose(f) == 0 && good && hd_ok();
}

/* ---- the nets ---------------------------------------------------------------------------------------------------- */
static void train(hd_module *model, const digits *data, int epochs) {
    HD_SCOPE;
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.005, NULL);
    hd_loader *loader =
        hd_batches(data->images, data->labels, 32, HD_OPTS(hd_loader_opts, .drop_last = true, .seed = 1));
    for (int epoch = 0; epoch < epochs; ++epoch) {
        HD_BATCHES(batch, loader) {
            hd_backward(hd_cross_entropy(hd_forward(model, batch.x), batch.y, NULL));
            hd_optimizer_step(adam);
            hd_optimizer_zero_grad(adam);
        }
    }
    hd_module_eval(model);
}

/* What a module makes of x of this shape. */
static hd_script *script_of(hd_module *model, const char *input, hd_shape shape, const char *output) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("forward");
    hd_builder_start(b);
    HD_NO_GRAD;
    hd_builder_add_output(b, output, hd_forward(model, hd_input(input, shape, HD_F32)));
    hd_builder_end(b);
    return hd_keep(hd_builder_build(b));
}

static hd_module *two_layers(int64_t hidden, double dropout) {
    hd_module *first = hd_linear(PIXELS, hidden, NULL), *second = hd_linear(hidden, CLASSES, NULL);
    if (dropout == 0) return HD_SEQUENTIAL(first, hd_relu_layer(), second);
    return HD_SEQUENTIAL(first, hd_relu_layer(), hd_dropout_layer(dropout), second);
}

/* The network of examples/digits.c. */
static subject digits_net(const digits *data, const digits *test) {
    hd_seed(1);
    hd_module *model = two_layers(128, 0);
    train(model, data, 5);
    return (subject){.name = "digits",
                     .function = "run",
                     .script = script_of(model, "image", HD_SHAPE(1, PIXELS), "logits"),
                     .cases = TESTS,
                     .inputs = TESTS,
                     .in = {hd_narrow(test->images, 0, 0, TESTS)},
                     .bound = "ULP",
                     .limit = 8,
                     .classes = true};
}

static hd_module *convolution(int64_t in, int64_t out) {
    return HD_SEQUENTIAL(hd_conv_layer(in, out, HD_SHAPE(3, 3),
                                       HD_OPTS(hd_conv_layer_opts, .padding = {{1, 1}, {1, 1}}, .no_bias = true)),
                         hd_batch_norm_layer(out, NULL), hd_relu_layer(), hd_max_pool_layer(HD_SHAPE(2, 2), NULL));
}

static subject conv_net(const digits *data, const digits *test) {
    hd_seed(1);
    hd_module *model =
        HD_SEQUENTIAL(convolution(1, 8), convolution(8, 16), hd_flatten_layer(1, -1), hd_linear(64, CLASSES, NULL));
    const digits images = {hd_reshape(data->images, HD_SHAPE(-1, 1, 8, 8)), data->labels};
    train(model, &images, 2);
    return (subject){.name = "conv",
                     .function = "run",
                     .script = script_of(model, "image", HD_SHAPE(1, 1, 8, 8), "logits"),
                     .cases = TESTS,
                     .inputs = TESTS,
                     .in = {hd_narrow(test->images, 0, 0, TESTS)},
                     .bound = "ULP",
                     .limit = 8,
                     .classes = true};
}

/* A step of a GRU, which keeps h. */
static subject gru_net(void) {
    HD_SCOPE;
    hd_seed(1);
    hd_module *gru = hd_gru(8, 16, NULL), *out = hd_linear(16, 4, NULL);
    hd_tensor *h = hd_zeros(HD_SHAPE(1, 1, 16), HD_F32);
    hd_tensor *x = hd_randn(HD_SHAPE(TESTS, 1, 1, 8), HD_F32);
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state(b, "h", h);
    HD_NO_GRAD;
    hd_tensors *both = HD_FORWARD_ALL(gru, hd_input("x", HD_SHAPE(1, 1, 8), HD_F32), h);
    hd_assign(h, hd_tensors_get(both, 1));
    hd_builder_add_output(b, "y", hd_forward(out, hd_tensors_get(both, 0)));
    hd_builder_end(b);
    return (subject){.name = "gru",
                     .function = "step",
                     .script = hd_keep(hd_builder_build(b)),
                     .cases = TESTS,
                     .inputs = TESTS,
                     .in = {hd_keep(x)},
                     .bound = "ULP",
                     .limit = 8};
}

/* Attention and what follows it, each with a layer norm in front. */
static subject attention_net(void) {
    hd_seed(1);
    hd_module *model = hd_transformer_encoder_layer(
        16, 1, HD_OPTS(hd_transformer_opts, .feedforward = 32, .norm_first = true, .gelu = true));
    hd_module_eval(model);
    return (subject){.name = "attention",
                     .function = "run",
                     .script = script_of(model, "x", HD_SHAPE(1, 8, 16), "y"),
                     .cases = TESTS,
                     .inputs = TESTS,
                     .in = {hd_randn(HD_SHAPE(TESTS, 1, 8, 16), HD_F32)},
                     .bound = "ULP",
                     .limit = 8};
}

/* A step of training, whose state is the model and what the optimizer keeps. */
static subject training(const char *name, hd_module *model, hd_optimizer *optimizer, const digits *data) {
    HD_SCOPE;
    const digits some = {hd_narrow(data->images, 0, 0, BATCH * BATCHES),
                         hd_narrow(data->labels, 0, 0, BATCH * BATCHES)};
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, model, optimizer);
    hd_tensor *x = hd_input("images", HD_SHAPE(BATCH, PIXELS), HD_F32),
              *y = hd_input("labels", HD_SHAPE(BATCH), HD_I64);
    hd_tensor *loss = hd_cross_entropy(hd_forward(model, x), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    hd_optimizer_zero_grad(optimizer);
    hd_builder_add_output(b, "loss", loss);
    hd_builder_end(b);
    return (subject){.name = name,
                     .function = "train_step",
                     .script = hd_keep(hd_builder_build(b)),
                     .cases = STEPS,
                     .inputs = BATCHES,
                     .in = {hd_keep(hd_reshape(some.images, HD_SHAPE(BATCHES, BATCH, PIXELS))),
                            hd_keep(hd_reshape(some.labels, HD_SHAPE(BATCHES, BATCH)))},
                     .bound = "APART",
                     .limit = 1e-5};
}

static subject sgd_training(const digits *data) {
    hd_seed(1);
    hd_module *model = two_layers(128, 0);
    return training("train_sgd", model,
                    hd_sgd(hd_module_parameters(model), 0.05, HD_OPTS(hd_sgd_opts, .momentum = 0.9)), data);
}

static subject adam_training(const digits *data) {
    hd_seed(1);
    hd_module *model = two_layers(32, 0.1);
    subject s = training("train_adam", model, hd_adam(hd_module_parameters(model), 0.005, NULL), data);
    s.is_random = true;
    return s;
}

int main(int argc, char **argv) {
    image *file;
    if (argc != 2) return fprintf(stderr, "usage: %s FOLDER\n", argv[0]), 2;
    const int64_t count = load(DIGITS_FILE, &file);
    if (count < 0) return 1;
    HD_SCOPE;
    digits data, test;
    split(file, count, &data, &test);
    free(file);
    const subject subjects[] = {digits_net(&data, &test), conv_net(&data, &test), gru_net(),
                                attention_net(),          sgd_training(&data),    adam_training(&data)};
    mkdir(argv[1], 0777);
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; ++i)
        if (!write_subject(argv[1], &subjects[i])) return fprintf(stderr, "write_nets: no %s\n", subjects[i].name), 1;
    return hd_exit_status();
}
