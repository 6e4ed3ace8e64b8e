/* Handwritten digits: a network of two layers learns to read 1,797 little images in a moment.
 *
 * It shows a whole training program: data from a file, mini-batches in random order, a test set the network never
 * learns from, progress, and an account at the end: accuracy, what is taken for what, and the loss as a picture.
 *
 * It trains from the same weights in every way there is: dynamically, and as a script whose state is the model and its
 * optimizer, compiled by HODU, and by XLA where its plugin is. The losses are the same. Then it saves the network as a
 * script that makes logits of an image, and a second process, this program with --classify, loads that file and reads
 * the test set with it. */
#define _POSIX_C_SOURCE 200809L /* isatty, fork */
#include "digits_file.h"

#include <math.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HIDDEN = 128, EPOCHS = 30, BATCH = 32 };
static const double goal = 0.96;

/* ---- training ---- */

typedef struct history {
    int epochs, batches;  /* so far */
    double *batch;        /* the loss of each batch */
    double train[EPOCHS]; /* its mean over each epoch */
    double test[EPOCHS];  /* the loss on the test set after each epoch */
    double accuracy;      /* on the test set, now */
    double seconds;       /* of training, all epochs */
    double once;          /* seconds to record and compile the step */
} history;

typedef enum way { DYNAMIC, HODU, XLA, WAYS } way;
static const char *const way_names[WAYS] = {"dynamic", "HODU", "XLA"};

typedef struct learner {
    hd_module *model;
    hd_optimizer *optimizer;
    hd_script *step; /* NULL: its steps are run dynamically */
} learner;

static const double rate = 0.005; /* of learning, at first */

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One step for images [BATCH,64] and labels [BATCH]; returns the loss. It runs at once, or is recorded by a builder. */
static hd_tensor *step(const learner *l, hd_tensor *images, hd_tensor *labels) {
    hd_tensor *logits = hd_forward(l->model, images); /* [BATCH,10] */
    /* Smoothed labels ask for 91 %, not for certainty, which makes the network err less on what it has not seen. */
    hd_backward(hd_cross_entropy(logits, labels, HD_OPTS(hd_cross_entropy_opts, .label_smoothing = 0.1)));
    hd_optimizer_step(l->optimizer);
    hd_optimizer_zero_grad(l->optimizer);
    HD_NO_GRAD; /* the loss to look at is the plain one, as for the test set */
    return hd_cross_entropy(logits, labels, NULL);
}

/* A new network, the same every time. */
static learner new_learner(void) {
    hd_seed(1);
    hd_module *model =
        HD_SEQUENTIAL(hd_linear(PIXELS, HIDDEN, NULL), hd_relu_layer(), hd_linear(HIDDEN, CLASSES, NULL));
    return (learner){model, hd_adam(hd_module_parameters(model), rate, NULL), NULL};
}

/* The step of a learner as a script: what it changes, the parameters and what Adam keeps, is the script's state. */
static hd_script *record_step(const learner *l, way how) {
    HD_SCOPE;
    hd_builder *builder = hd_builder_new("step");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, l->model, l->optimizer);
    hd_tensor *images = hd_input("images", HD_SHAPE(BATCH, PIXELS), HD_F32);
    hd_tensor *labels = hd_input("labels", HD_SHAPE(BATCH), HD_I64);
    hd_builder_add_output(builder, "loss", step(l, images, labels));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_set_compiler(script, how == XLA ? HD_COMPILER_XLA : HD_COMPILER_HODU);
    hd_script_compile(script);
    return hd_keep(script);
}

/* One pass over the training set in random order; returns the mean loss. What does not fill a batch waits for the next
 * epoch: the order is another one then. */
static double train_epoch(const learner *l, hd_loader *loader, history *h) {
    double total = 0;
    HD_BATCHES(batch, loader) { /* a step's tensors go with it */
        hd_tensor *loss;
        if (l->step) {
            hd_script_set_input(l->step, "images", batch.x);
            hd_script_set_input(l->step, "labels", batch.y);
            loss = hd_outputs_get(hd_script_run(l->step), "loss");
        } else {
            loss = step(l, batch.x, batch.y);
        }
        total += h->batch[h->batches++] = hd_item(loss);
    }
    return total / (double)hd_loader_count(loader);
}

/* How many of the answers [n] are right, as a part of 1. */
static double accuracy_of(hd_tensor *answers, hd_tensor *labels) {
    return hd_item(hd_count_nonzero(hd_eq(answers, labels), HD_AXES(), NULL)) / (double)hd_tensor_count(labels);
}

/* The loss on data the network does not learn from; writes the answers, [n] i64, and how many of them are right. */
static double evaluate(hd_module *model, const digits *data, int64_t *answers, double *accuracy) {
    HD_SCOPE;
    HD_NO_GRAD; /* nothing will be differentiated: no tape */
    hd_tensor *logits = hd_forward(model, data->images);
    hd_tensor *answer = hd_argmax(logits, 1, NULL);
    hd_to_array(answer, answers, HD_I64, (size_t)hd_tensor_count(answer));
    *accuracy = accuracy_of(answer, data->labels);
    return hd_item(hd_cross_entropy(logits, data->labels, NULL));
}

/* One line, drawn over and over on a terminal; elsewhere a plain line now and then. */
static void show_progress(const history *h, const char *how) {
    const int done = h->epochs, cells = 12 * done / EPOCHS;
    const bool terminal = isatty(STDOUT_FILENO);
    if (!terminal && done % 10 != 0) return;
    printf("%s%-7s  epoch %2d/%d  loss %.4f  test loss %.4f  accuracy %.1f %%", terminal ? "\r" : "", how, done, EPOCHS,
           h->train[done - 1], h->test[done - 1], 100 * h->accuracy);
    if (terminal) printf("  [%.*s%*s]", cells, "############", 12 - cells, "");
    if (!terminal || done == EPOCHS) putchar('\n');
    fflush(stdout);
}

/* Trains a new network in this way, and gives it; h->batch is there. */
static hd_module *train(way how, const digits *data, const digits *test, int64_t *answers, history *h) {
    learner l = new_learner();
    hd_loader *loader =
        hd_batches(data->images, data->labels, BATCH,
                   HD_OPTS(hd_loader_opts, .drop_last = true, .seed = 1)); /* the same batches every time, too */
    const double begin = now();
    if (how != DYNAMIC) l.step = record_step(&l, how);
    h->once = now() - begin;
    for (int epoch = 0; epoch < EPOCHS && hd_ok(); ++epoch) {
        /* Smaller steps towards the end: the network settles instead of jumping about. A script sees it too: the
         * learning rate is part of its state. */
        hd_optimizer_set_learning_rate(l.optimizer, rate * (1 - (double)epoch / EPOCHS));
        const double start = now();
        h->train[epoch] = train_epoch(&l, loader, h);
        h->seconds += now() - start;
        h->test[epoch] = evaluate(l.model, test, answers, &h->accuracy);
        h->epochs = epoch + 1;
        if (hd_ok()) show_progress(h, way_names[how]);
    }
    return l.model;
}

/* ---- the trained network in a file, and whoever reads it ---- */

/* Evaluation, one image at a time: image [1,64] -> logits [1,10]. */
static void save(hd_module *model, const char *path) {
    HD_SCOPE;
    hd_builder *builder = hd_builder_new("digits");
    hd_builder_start(builder);
    {
        HD_NO_GRAD;
        hd_tensor *pixels = hd_input("image", HD_SHAPE(1, PIXELS), HD_F32);
        hd_builder_add_output(builder, "logits", hd_forward(model, pixels)); /* the parameters become constants */
    }
    hd_builder_end(builder);
    hd_script_save(hd_builder_build(builder), path);
}

/* What the second process does: it has no model, only the file. */
static int classify(const image *images, int64_t count, const char *path) {
    HD_SCOPE;
    digits data, test;
    split(images, count, &data, &test);
    hd_script *script = hd_script_load(path);
    const int64_t tests = hd_tensor_size(test.labels, 0);
    hd_tensor *answers = hd_empty(HD_SHAPE(tests), HD_I64);
    const double start = now();
    for (int64_t i = 0; i < tests && hd_ok(); ++i) {
        HD_SCOPE;
        hd_script_set_input(script, "image", hd_narrow(test.images, 0, i, 1));
        hd_tensor *logits = hd_outputs_get(hd_script_run(script), "logits");
        hd_assign(hd_narrow(answers, 0, i, 1), hd_argmax(logits, 1, NULL));
    }
    const double seconds = now() - start, accuracy = accuracy_of(answers, test.labels);
    if (!hd_ok()) return hd_exit_status();
    printf("a second process read %s and got %.2f %% of %lld images right, in %.1f us each\n", path, 100 * accuracy,
           (long long)tests, 1e6 * seconds / (double)tests);
    return accuracy < goal;
}

/* Runs this program anew with --classify; its exit status. */
static int classify_elsewhere(const char *program, const char *data, const char *path) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        execlp(program, program, "--data", data, "--classify", path, (char *)NULL);
        fprintf(stderr, "digits: %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0) return fprintf(stderr, "digits: fork: %s\n", strerror(errno)), 1;
    return status;
}

/* ---- the account ---- */

/* Test image i of a file is image 5 i + 4. */
static const image *test_image(const image *images, int64_t i) { return images + 5 * i + 4; }

static void print_confusion(const image *images, const int64_t *answers, int64_t count) {
    int table[CLASSES][CLASSES] = {{0}};
    for (int64_t i = 0; i < count; ++i) ++table[test_image(images, i)->label][answers[i]];
    puts("\nrows: what it is; columns: what it is taken for\n");
    printf("   ");
    for (int column = 0; column < CLASSES; ++column) printf("%4d", column);
    putchar('\n');
    for (int row = 0; row < CLASSES; ++row) {
        printf("%3d", row);
        for (int column = 0; column < CLASSES; ++column)
            if (table[row][column])
                printf("%4d", table[row][column]);
            else
                printf("   .");
        putchar('\n');
    }
}

/* The first few that were misread, side by side. */
static void print_mistakes(const image *images, const int64_t *answers, int64_t count) {
    const image *shown[4];
    int64_t taken_for[4];
    int n = 0;
    for (int64_t i = 0; i < count && n < 4; ++i) {
        if (test_image(images, i)->label == answers[i]) continue;
        shown[n] = test_image(images, i);
        taken_for[n++] = answers[i];
    }
    if (n) puts("\nsome that were misread\n");
    for (int k = 0; k < n; ++k) printf("  %d taken for %d     ", shown[k]->label, (int)taken_for[k]);
    for (int row = 0; n && row < 8; ++row) {
        putchar('\n');
        for (int k = 0; k < n; ++k) {
            printf("  ");
            for (int column = 0; column < 8; ++column) { /* twice each: characters are twice as high as wide */
                const char ink = " .:-=+*#%@"[shown[k]->pixel[8 * row + column] * 9 / 16];
                printf("%c%c", ink, ink);
            }
            printf("  ");
        }
    }
    if (n) putchar('\n');
}

/* ---- the picture: losses over epochs, on a logarithmic axis because they fall by orders of magnitude ---- */

enum { WIDTH = 760, HEIGHT = 420, LEFT = 64, RIGHT = 24, TOP = 64, BOTTOM = 52 };

typedef struct axes {
    double epochs, low, high; /* x from 0 to epochs, y from low to high */
} axes;

static double at_x(const axes *a, double epoch) { return LEFT + epoch / a->epochs * (WIDTH - LEFT - RIGHT); }

static double at_y(const axes *a, double loss) {
    const double part = log(fmin(fmax(loss, a->low), a->high) / a->low) / log(a->high / a->low);
    return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
}

/* Point i of n lies at (i + 1) / n of the axis. */
static void draw_curve(FILE *svg, const axes *a, const double *loss, int n, const char *style) {
    fprintf(svg, "<polyline fill='none' stroke-linejoin='round' %s points='", style);
    for (int i = 0; i < n; ++i) fprintf(svg, "%.1f,%.1f ", at_x(a, a->epochs * (i + 1) / n), at_y(a, loss[i]));
    fprintf(svg, "'/>\n");
}

static void draw_axes(FILE *svg, const axes *a) {
    for (double decade = 1e-6; decade < 1e6; decade *= 10) {
        for (int step = 1; step <= 5; step += step == 2 ? 3 : 1) { /* 1, 2, 5 */
            if (decade * step < a->low || decade * step > a->high) continue;
            const double y = at_y(a, decade * step);
            fprintf(svg, "<path d='M%d %.1fH%d' stroke='%s'/>", LEFT, y, WIDTH - RIGHT, step == 1 ? "#ccc" : "#eee");
            fprintf(svg, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 8, y + 4, decade * step);
        }
    }
    for (int epoch = 0; epoch <= a->epochs; epoch += 5) {
        const double x = at_x(a, epoch);
        fprintf(svg, "<path d='M%.1f %dv5' stroke='#888'/>", x, HEIGHT - BOTTOM);
        fprintf(svg, "<text x='%.1f' y='%d' text-anchor='middle'>%d</text>\n", x, HEIGHT - BOTTOM + 20, epoch);
    }
    fprintf(svg, "<path d='M%d %dV%dH%d' fill='none' stroke='#888'/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    fprintf(svg, "<text x='%d' y='%d' text-anchor='middle'>epoch</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
    fprintf(svg, "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>cross-entropy</text>\n",
            (TOP + HEIGHT - BOTTOM) / 2);
}

static bool write_picture(const char *path, const history *h) {
    FILE *svg = fopen(path, "w");
    if (!svg) return fprintf(stderr, "digits: %s: %s\n", path, strerror(errno)), false;
    axes a = {.epochs = h->epochs, .low = 1, .high = 1};
    for (int i = 0; i < h->epochs; ++i) {
        a.low = fmin(a.low, fmin(h->train[i], h->test[i]));
        a.high = fmax(a.high, fmax(h->train[i], h->test[i]));
    }
    for (int i = 0; i < h->batches; ++i) a.high = fmax(a.high, h->batch[i]);
    a.low = fmax(a.low / 2, 1e-6); /* single batches go lower: cut off */
    a.high *= 1.1;

    fprintf(svg,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='system-ui, sans-serif' font-size='12' fill='#444'>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fprintf(svg, "<rect width='100%%' height='100%%' fill='#fff'/>\n");
    fprintf(svg,
            "<text x='%d' y='30' font-size='17' fill='#111'>Handwritten digits: %.1f %% of the test set read "
            "right</text>\n",
            LEFT, 100 * h->accuracy);
    draw_axes(svg, &a);
    draw_curve(svg, &a, h->batch, h->batches, "stroke='#9dbbe3' stroke-width='0.8'");
    draw_curve(svg, &a, h->train, h->epochs, "stroke='#1f5fae' stroke-width='2.5'");
    draw_curve(svg, &a, h->test, h->epochs, "stroke='#d9480f' stroke-width='2.5'");
    const struct {
        const char *color, *name;
    } key[] = {{"#9dbbe3", "training, each batch"}, {"#1f5fae", "training, mean of an epoch"}, {"#d9480f", "test"}};
    for (int i = 0; i < 3; ++i) {
        const int x = LEFT + 210 * i;
        fprintf(svg, "<path d='M%d 50h22' stroke='%s' stroke-width='3'/>", x, key[i].color);
        fprintf(svg, "<text x='%d' y='54'>%s</text>\n", x + 28, key[i].name);
    }
    fprintf(svg, "</svg>\n");
    const bool whole = !ferror(svg);
    if (fclose(svg) != 0 || !whole) return fprintf(stderr, "digits: %s cannot be written\n", path), false;
    printf("\nthe loss, drawn: %s\n", path);
    return true;
}

/* All ways next to each other; true when they learnt the same. */
static bool print_comparison(const history *h) {
    double apart = 0; /* by how much losses of batches differ from those of dynamic execution */
    puts("\n         last loss  test loss  accuracy    an epoch  to record and compile");
    for (int i = 0; i < WAYS; ++i) {
        if (h[i].epochs == 0) continue;
        printf("%-7s  %9.5f  %9.5f  %6.2f %%  %7.2f ms", way_names[i], h[i].train[EPOCHS - 1], h[i].test[EPOCHS - 1],
               100 * h[i].accuracy, 1e3 * h[i].seconds / EPOCHS);
        if (i == DYNAMIC)
            putchar('\n');
        else
            printf("  %.2f ms, once\n", 1e3 * h[i].once);
        for (int k = 0; k < h[i].batches; ++k) apart = fmax(apart, fabs(h[i].batch[k] - h[DYNAMIC].batch[k]));
    }
    if (h[XLA].epochs == 0) puts("XLA      its plugin is not here; `make xla` fetches it");
    printf("the losses of their %d batches differ by %g at most\n", h[DYNAMIC].batches, apart);
    return apart < 1e-3 && h[HODU].batches == h[DYNAMIC].batches;
}

/* ---- all of it ---- */

typedef struct paths {
    const char *program, *data, *svg, *classify; /* classify: the script to read the test set with, else NULL */
    char script[512];                            /* where the network is saved: beside the picture */
} paths;

static int learn(const image *images, int64_t count, const paths *p, int64_t *answers, history *h) {
    HD_SCOPE;
    digits data, test;
    split(images, count, &data, &test);
    const int64_t tests = hd_tensor_size(test.labels, 0);
    printf("%lld images to learn from, %lld to test with\n", (long long)(count - tests), (long long)tests);

    train(DYNAMIC, &data, &test, answers, &h[DYNAMIC]);
    if (hd_compiler_available(HD_COMPILER_XLA)) train(XLA, &data, &test, answers, &h[XLA]);
    hd_module *model = train(HODU, &data, &test, answers, &h[HODU]);
    if (HD_HAS_FILES) save(model, p->script);
    if (!hd_ok()) return hd_exit_status();

    print_confusion(images, answers, tests);
    print_mistakes(images, answers, tests);
    const bool drawn = write_picture(p->svg, &h[HODU]);
    const bool same = print_comparison(h);
    printf("test accuracy: %.2f %%\n", 100 * h[HODU].accuracy);
    if (!same) return fprintf(stderr, "digits: the script does not train as dynamic execution does\n"), 1;
    if (h[HODU].accuracy < goal) return fprintf(stderr, "digits: less than %.0f %%\n", 100 * goal), 1;
    if (HD_HAS_FILES && classify_elsewhere(p->program, p->data, p->script) != 0) return 1;
    return drawn ? hd_exit_status() : 1;
}

/* Reads the arguments; false when they make no sense. */
static bool read_arguments(int argc, char **argv, paths *p) {
    *p = (paths){.program = argv[0], .data = DIGITS_FILE, .svg = "digits.svg"};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return false;
        if (strcmp(argv[i], "--data") == 0)
            p->data = argv[i + 1];
        else if (strcmp(argv[i], "--svg") == 0)
            p->svg = argv[i + 1];
        else if (strcmp(argv[i], "--classify") == 0)
            p->classify = argv[i + 1];
        else
            return false;
    }
    const size_t length = strlen(p->svg),
                 stem = length > 4 && strcmp(p->svg + length - 4, ".svg") == 0 ? length - 4 : length;
    return snprintf(p->script, sizeof p->script, "%.*s.hoduscript", (int)stem, p->svg) < (int)sizeof p->script;
}

int main(int argc, char **argv) {
    paths p;
    if (!read_arguments(argc, argv, &p))
        return fprintf(stderr, "usage: %s [--data FILE] [--svg FILE] [--classify SCRIPT]\n", argv[0]), 2;
    image *images = NULL;
    const int64_t count = load(p.data, &images);
    int status = 1;
    if (count > 0) {
        int64_t *answers = calloc((size_t)count, sizeof *answers);
        const int64_t most = EPOCHS * (count / BATCH); /* batches of one way */
        double *losses = calloc((size_t)(WAYS * most), sizeof *losses);
        if (!answers || !losses)
            fprintf(stderr, "digits: out of memory\n");
        else if (p.classify)
            status = classify(images, count, p.classify);
        else
            status = learn(images, count, &p, answers,
                           (history[WAYS]){{.batch = losses}, {.batch = losses + most}, {.batch = losses + 2 * most}});
        free(losses);
        free(answers);
    }
    free(images);
    return status;
}
