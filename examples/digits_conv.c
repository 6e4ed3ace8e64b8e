/* Handwritten digits, read as well as a small convolutional network can: 99 of 100 images that it has never seen.
 *
 * It shows what training wants beside a network: images turned and shifted at random, batch norm and dropout, AdamW
 * with a learning rate that warms up and falls along a cosine, clipped gradients, and checkpoints. The whole step,
 * changing the images included, is one script; run dynamically it gives the same losses. A run that is killed goes on
 * from its last checkpoint as if nothing had happened, bit for bit, which the program tries on itself.
 *
 * By itself it trains one network for a few epochs. --full trains three to the end, with a checkpoint of each after
 * every epoch; --full --resume goes on from those. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include "digits_file.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIDE = 8, BATCH = 32, EPOCHS = 40, QUICK_EPOCHS = 4, SEEDS = 3, TESTS = 359 };
static const double goal = 0.99, quick_goal = 0.93;

/* ---- one network and its training -------------------------------------------------------------------------------- */
typedef struct learner {
    hd_module *model;
    hd_optimizer *adam;
    hd_schedule *rates;
    hd_loader *loader;
    hd_script *step; /* NULL: steps are run dynamically */
    int64_t steps;   /* to the end of the training */
} learner;

static hd_module *convolution(int64_t in, int64_t out) {
    return HD_SEQUENTIAL(hd_conv_layer(in, out, HD_SHAPE(3, 3),
                                       HD_OPTS(hd_conv_layer_opts, .padding = {{1, 1}, {1, 1}}, .no_bias = true)),
                         hd_batch_norm_layer(out, NULL), hd_relu_layer());
}

/* [n,1,8,8] -> [n,10]: 16 pictures of 8 x 8, then 32 of 4 x 4, of which 2 x 2 are left. */
static hd_module *network(void) {
    return HD_SEQUENTIAL(convolution(1, 16), convolution(16, 16), hd_max_pool_layer(HD_SHAPE(2, 2), NULL),
                         hd_dropout_layer(0.1), convolution(16, 32), convolution(32, 32),
                         hd_max_pool_layer(HD_SHAPE(2, 2), NULL), hd_dropout_layer(0.2), hd_flatten_layer(1, -1),
                         hd_linear(32 * 2 * 2, CLASSES, NULL));
}

/* One step for images [BATCH,1,8,8] and labels [BATCH]; returns the loss. */
static hd_tensor *step(const learner *l, hd_tensor *images, hd_tensor *labels) {
    hd_tensor *changed = hd_image_random_rotate(images, 10, NULL);
    changed = hd_image_random_crop(changed, SIDE, SIDE, 1, NULL);
    hd_tensor *loss =
        hd_cross_entropy(hd_forward(l->model, changed), labels, HD_OPTS(hd_cross_entropy_opts, .label_smoothing = 0.1));
    hd_backward(loss);
    hd_clip_grad_norm(hd_module_parameters(l->model), 1, NULL);
    hd_optimizer_step(l->adam);
    hd_schedule_step(l->rates);
    hd_optimizer_zero_grad(l->adam);
    return loss;
}

static hd_script *record(const learner *l) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, l->model, l->adam);
    hd_builder_add_state_of_schedule(b, l->rates);
    hd_tensor *images = hd_input("images", HD_SHAPE(BATCH, 1, SIDE, SIDE), HD_F32);
    hd_tensor *labels = hd_input("labels", HD_SHAPE(BATCH), HD_I64);
    hd_builder_add_output(b, "loss", step(l, images, labels));
    hd_builder_end(b);
    return hd_keep(hd_builder_build(b));
}

/* The same every time for a seed, which is above 0. */
static learner learner_new(const digits *train, uint64_t seed, int epochs, bool as_script) {
    hd_seed(seed);
    learner l = {.model = network()};
    l.loader =
        hd_batches(train->images, train->labels, BATCH, HD_OPTS(hd_loader_opts, .drop_last = true, .seed = seed));
    l.steps = epochs * hd_loader_count(l.loader);
    l.adam = hd_adamw(hd_module_parameters(l.model), 3e-3, HD_OPTS(hd_adam_opts, .weight_decay = 0.05));
    l.rates = hd_schedule_warm_up(l.steps / 20, 0.01, hd_schedule_cosine(l.adam, l.steps - l.steps / 20, 0));
    if (as_script) l.step = record(&l);
    return l;
}

/* The loss of the step. */
static double next_step(const learner *l) {
    HD_SCOPE;
    const hd_batch batch = hd_loader_next(l->loader);
    if (l->step == NULL) return hd_item(step(l, batch.x, batch.y));
    hd_script_set_input(l->step, "images", batch.x);
    hd_script_set_input(l->step, "labels", batch.y);
    return hd_item(hd_outputs_get(hd_script_run(l->step), "loss"));
}

static int64_t steps_done(const learner *l) { return (int64_t)hd_item(hd_schedule_count(l->rates)); }

static hd_checkpoint_opts all_of(const learner *l) {
    return (hd_checkpoint_opts){.struct_size = sizeof(hd_checkpoint_opts),
                                .module = l->model,
                                .optimizer = l->adam,
                                .schedule = l->rates,
                                .loader = l->loader};
}

static void read_images(const image *file, int64_t count, digits *train, digits *test) {
    split(file, count, train, test);
    train->images = hd_reshape(train->images, HD_SHAPE(-1, 1, SIDE, SIDE));
    test->images = hd_reshape(test->images, HD_SHAPE(-1, 1, SIDE, SIDE));
}

/* ---- what is promised -------------------------------------------------------------------------------------------- */
enum { DYNAMIC_STEPS = 10, SAVED_AT = 12, KILLED_AT = 15, COMPARED = 20 };
static const char killed_path[] = "digits_conv_killed.safetensors";

/* A process that is killed in the middle of its training, a few steps behind its checkpoint. It is made before this one
 * calls the library: what drivers of devices keep does not survive a fork. */
static bool train_and_die(const image *file, int64_t count) {
    int status = 0;
    const pid_t child = HD_HAS_FILES ? fork() : -1;
    if (child == 0) {
        HD_SCOPE;
        digits train, test;
        read_images(file, count, &train, &test);
        const learner l = learner_new(&train, 7, QUICK_EPOCHS, true);
        const hd_checkpoint_opts all = all_of(&l);
        for (int i = 0; i < KILLED_AT; ++i) {
            if (i == SAVED_AT) hd_checkpoint_save(killed_path, &all);
            next_step(&l);
        }
        if (hd_ok()) raise(SIGKILL);
        _exit(1);
    }
    if (!HD_HAS_FILES || (child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status))) return true;
    return fprintf(stderr, "digits_conv: there is no run that was killed\n"), false;
}

/* By how much the losses of a learner differ from those of a whole run, from this step on: the sum. */
static double apart(const learner *l, int begin, int end, const double *losses) {
    double sum = 0;
    for (int i = begin; i < end; ++i) sum += fabs(next_step(l) - losses[i]);
    return sum;
}

static bool keep_promises(const digits *train) {
    HD_SCOPE;
    double losses[COMPARED], resumed_apart = 0;
    const learner whole = learner_new(train, 7, QUICK_EPOCHS, true);
    for (int i = 0; i < COMPARED; ++i) losses[i] = next_step(&whole);
    const learner dynamic = learner_new(train, 7, QUICK_EPOCHS, false);
    const double dynamic_apart = apart(&dynamic, 0, DYNAMIC_STEPS, losses);
    if (HD_HAS_FILES) {
        const learner resumed = learner_new(train, 8, QUICK_EPOCHS, true); /* other weights and draws, until it loads */
        const hd_checkpoint_opts all = all_of(&resumed);
        hd_checkpoint_load(killed_path, &all);
        resumed_apart = apart(&resumed, SAVED_AT, COMPARED, losses);
    }
    printf(
        "losses of dynamic steps differ from the script's by %.1g, those of a run that was killed and resumed by %g\n",
        dynamic_apart, resumed_apart);
    return hd_ok() && dynamic_apart < 1e-3 && resumed_apart == 0;
}

/* ---- training to the end ----------------------------------------------------------------------------------------- */
/* The answers to the test set: [359] i64. */
static hd_tensor *answers_of(hd_module *reader, const digits *test) {
    HD_NO_GRAD;
    return hd_argmax(hd_forward(reader, test->images), 1, NULL);
}

/* Trains a network, with a checkpoint after each epoch if there is a path; its answers at the end. */
static hd_tensor *train_network(const learner *l, const digits *test, const char *path) {
    hd_module *reader =
        hd_compile(l->model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION));
    hd_progress *progress = hd_progress_new(l->steps, NULL);
    hd_history *history = hd_history_new();
    const hd_checkpoint_opts all = all_of(l);
    const int64_t epoch = hd_loader_count(l->loader); /* its steps */
    double loss = 0;
    for (int64_t i = steps_done(l); i < l->steps && hd_ok(); ++i) {
        HD_SCOPE;
        loss += next_step(l) / (double)epoch;
        hd_progress_to(progress, i + 1);
        if ((i + 1) % epoch != 0) continue;
        const double errors = 1 - hd_item(hd_accuracy(answers_of(reader, test), test->labels));
        hd_progress_note(progress, "loss", loss);
        hd_progress_note(progress, "errors", errors);
        hd_history_add(history, "loss", (i + 1) / epoch, loss);
        hd_history_add(history, "errors of the test set", (i + 1) / epoch, errors);
        if (path != NULL) hd_checkpoint_save(path, &all);
        loss = 0;
    }
    hd_progress_end(progress);
    if (hd_history_names(history) > 0)
        hd_history_plot(history, "digits_conv_history.svg",
                        HD_OPTS(hd_plot_opts, .x_label = "epoch", .log_scale = true));
    return answers_of(reader, test);
}

/* ---- a picture of what was read wrong ---------------------------------------------------------------------------- */
enum { CELL = 96, COLUMNS = 6 };

/* One image at a place of the picture, with what it is and what it was taken for. */
static void draw_mistake(FILE *svg, const float *ink, int64_t is, int64_t taken_for, int place) {
    const int left = place % COLUMNS * CELL + 16, top = place / COLUMNS * (CELL + 16) + 40;
    for (int i = 0; i < PIXELS; ++i) {
        const int gray = (int)lround(255 * (1 - ink[i]));
        fprintf(svg, "<rect x='%d' y='%d' width='9' height='9' fill='rgb(%d,%d,%d)'/>\n", left + 9 * (i % SIDE),
                top + 9 * (i / SIDE), gray, gray, gray);
    }
    fprintf(svg, "<text x='%d' y='%d'>%d taken for %d</text>\n", left, top + 90, (int)is, (int)taken_for);
}

/* The mistakes of a network; how many there are, -1 when they cannot be written. */
static int draw_mistakes(const char *path, const digits *test, hd_tensor *answers) {
    static float ink[TESTS][PIXELS];
    int64_t is[TESTS], read[TESTS];
    int mistakes = 0;
    hd_to_array(test->images, ink, HD_F32, TESTS * PIXELS);
    hd_to_array(test->labels, is, HD_I64, TESTS);
    hd_to_array(answers, read, HD_I64, TESTS);
    if (!hd_ok()) return -1;
    FILE *svg = fopen(path, "w");
    if (svg == NULL) return fprintf(stderr, "digits_conv: %s: %s\n", path, strerror(errno)), -1;
    for (int i = 0; i < TESTS; ++i) mistakes += read[i] != is[i];
    fprintf(svg,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='12'>\n"
            "<rect width='100%%' height='100%%' fill='#f4f1ea'/><text x='16' y='24' font-size='16'>%d of %d read "
            "wrong</text>\n",
            COLUMNS * CELL + 16, (mistakes + COLUMNS - 1) / COLUMNS * (CELL + 16) + 48, mistakes, (int)TESTS);
    for (int i = 0, place = 0; i < TESTS; ++i)
        if (read[i] != is[i]) draw_mistake(svg, ink[i], is[i], read[i], place++);
    fputs("</svg>\n", svg);
    const bool whole = !ferror(svg);
    return fclose(svg) == 0 && whole ? mistakes : -1;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */
static bool train_all(const digits *train, const digits *test, bool full, bool resume) {
    double sum = 0;
    const int seeds = full ? SEEDS : 1;
    for (int seed = 1; seed <= seeds; ++seed) {
        HD_SCOPE;
        char path[64];
        snprintf(path, sizeof path, "digits_conv_%d.safetensors", seed);
        const learner l = learner_new(train, (uint64_t)seed, full ? EPOCHS : QUICK_EPOCHS, true);
        const hd_checkpoint_opts all = all_of(&l);
        if (resume && access(path, F_OK) == 0) hd_checkpoint_load(path, &all);
        hd_tensor *answers = train_network(&l, test, full && HD_HAS_FILES ? path : NULL);
        const double accuracy = hd_item(hd_accuracy(answers, test->labels));
        const int mistakes = draw_mistakes("digits_conv_mistakes.svg", test, answers);
        if (mistakes < 0) return false;
        printf("seed %d: %.2f %% of the test set, %d mistakes\n", seed, 100 * accuracy, mistakes);
        sum += accuracy;
    }
    printf("test accuracy: %.2f %%%s\n", 100 * sum / seeds, full ? ", the mean" : "; --full trains to the end");
    return sum / seeds >= (full ? goal : quick_goal);
}

int main(int argc, char **argv) {
    const bool full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const bool resume = argc > 2 && strcmp(argv[2], "--resume") == 0;
    if (argc != 1 + full + resume) return fprintf(stderr, "usage: %s [--full [--resume]]\n", argv[0]), 2;
    image *file;
    const int64_t count = load(DIGITS_FILE, &file);
    digits train = {NULL, NULL}, test = {NULL, NULL};
    const bool begun = count > 0 && train_and_die(file, count);
    HD_SCOPE;
    if (begun) read_images(file, count, &train, &test);
    free(file);
    const bool good = begun && keep_promises(&train) && train_all(&train, &test, full, resume);
    return good ? hd_exit_status() : 1;
}
