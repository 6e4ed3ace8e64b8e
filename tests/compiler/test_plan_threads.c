/* Compiled scripts and threads: the same numbers bit for bit however many threads share a kernel, and however often it
 * runs; clones that run side by side, with weights they keep packed and state of their own. Worth most under tsan. */
#include "graph/calls.h"
#include "heap.h"

#include <pthread.h>

/* Sanitized builds are slow: large enough for threads all the same. */
enum {
    ROWS = SANITIZED ? 70 : 230,
    WIDTH = SANITIZED ? 96 : 300,
    CLASSES = 33,
    CLONES = 4,
    CLONE_RUNS = SANITIZED ? 12 : 60
};

/* ---- one script, other numbers of threads ------------------------------------------------------------------------ */
/* A step of training with products, reductions in both orientations, and an optimizer. */
typedef struct training {
    hd_module *model;
    hd_optimizer *optimizer;
    hd_script *script;
} training;

static training new_training(void) {
    hd_seed(3);
    training t;
    t.model = HD_SEQUENTIAL(hd_linear(WIDTH, WIDTH, NULL), hd_gelu_layer(), hd_linear(WIDTH, CLASSES, NULL));
    t.optimizer = hd_adam(hd_module_parameters(t.model), 0.001, NULL);
    hd_tensor *classes = hd_randint(S(ROWS), HD_I64, 0, CLASSES);
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, t.model, t.optimizer);
    hd_tensor *y = hd_forward(t.model, hd_input("x", S(ROWS, WIDTH), HD_F32));
    hd_tensor *loss = hd_cross_entropy(y, classes, NULL);
    hd_backward(loss);
    hd_optimizer_step(t.optimizer);
    hd_builder_add_output(b, "loss", loss);
    hd_builder_add_output(b, "columns", hd_sum(hd_square(y), X(0), NULL));
    hd_builder_add_output(b, "all", hd_sum(hd_exp(y), X(), NULL));
    hd_builder_add_output(b, "likely", hd_softmax(y, 0));
    t.script = built(b);
    hd_script_set_input(t.script, "x", hd_randn(S(ROWS, WIDTH), HD_F32));
    return t;
}

enum { RESULTS = 8, STEPS = 3 };
static void results_of(int threads, hd_optimization_level level, hd_tensor **results) {
    hd_set_num_threads(threads);
    training t = new_training();
    hd_script_set_optimization_level(t.script, level);
    hd_outputs *o = NULL;
    for (int i = 0; i < STEPS; ++i) o = hd_script_run(t.script);
    if (o == NULL) fail_msg("%s", hd_error_message());
    for (int i = 0; i < 4; ++i) results[i] = hd_outputs_at(o, i);
    static const char *const names[] = {"0.weight", "0.bias", "2.weight", "2.bias"};
    for (int i = 0; i < 4; ++i) results[4 + i] = hd_detach(hd_module_get(t.model, names[i]));
    assert_ok();
}

static void the_number_of_threads_changes_no_bit(void **state) {
    (void)state;
    const int before = hd_num_threads();
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *one[RESULTS], *more[RESULTS];
        results_of(1, (hd_optimization_level)level, one);
        for (int threads = 2; threads <= 5; ++threads) {
            results_of(threads, (hd_optimization_level)level, more);
            for (int i = 0; i < RESULTS; ++i) {
                const char *why = difference(more[i], one[i]);
                if (why[0] != '\0') fail_msg("O%d, %d threads, result %d: %s", level - HD_O0, threads, i, why);
            }
        }
    }
    hd_set_num_threads(before);
}

static void every_run_gives_the_same(void **state) {
    (void)state;
    const int before = hd_num_threads();
    hd_set_num_threads(4);
    HD_SCOPE;
    hd_builder *b = started("same");
    hd_tensor *x = hd_input("x", S(ROWS, WIDTH), HD_F32), *w = hd_input("w", S(WIDTH, WIDTH), HD_F32);
    hd_tensor *h = hd_gelu(hd_matmul(x, w));
    hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "columns", hd_sum(h, X(0), NULL));
    hd_builder_add_output(b, "rows", hd_softmax(h, 1));
    hd_builder_add_output(b, "gradient", hd_matmul(hd_t(x), hd_tanh(h)));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", operand(S(ROWS, WIDTH), 0, HD_F32));
    hd_script_set_input(s, "w", hd_mul_scalar(operand(S(WIDTH, WIDTH), 1, HD_F32), 0.01));
    hd_outputs *first = hd_script_run(s);
    for (int run = 0; run < 20; ++run) {
        HD_SCOPE;
        hd_outputs *o = hd_script_run(s);
        for (int i = 0; i < 4; ++i) assert_identical(hd_outputs_at(o, i), hd_outputs_at(first, i));
    }
    hd_set_num_threads(before);
}

/* ---- clones ------------------------------------------------------------------------------------------------------ */
typedef struct job {
    hd_script *script;
    double rate;
    bool compiles; /* its own code, while others run theirs */
} job;

/* What went wrong, for the thread that joins. */
static void *wrong(const char *what) {
    char *text = NULL;
    if (asprintf(&text, "%s (%s)", what, hd_error_message()) < 0) return "no memory";
    hd_error_clear();
    return text;
}

static void *runs_alone(void *argument) {
    const job *j = argument;
    HD_SCOPE;
    hd_tensor *x = operand(S(40, 130), 0, HD_F32), *w = operand(S(130, 150), 1, HD_F32),
              *sum = hd_zeros(S(40, 150), HD_F32);
    for (int i = 0; i < CLONE_RUNS; ++i) {
        HD_SCOPE;
        if (j->compiles && i % 8 == 0) hd_script_set_optimization_level(j->script, i % 16 == 0 ? HD_O1 : HD_O2);
        if (i == CLONE_RUNS / 2) { /* its own weights, not those of the others */
            hd_mul_(w, hd_scalar(j->rate, HD_F32));
            hd_script_set_state(j->script, "w", w);
        }
        hd_script_set_input(j->script, "x", x);
        hd_outputs *o = hd_script_run(j->script);
        hd_tensor *y = hd_relu(hd_matmul(x, w));
        hd_add_(sum, hd_mul(y, hd_scalar(0.125, HD_F32)));
        if (!hd_ok() || o == NULL) return wrong("a run");
        if (difference_within(hd_outputs_get(o, "y"), y, units_at_largest(y, 4))[0] != '\0') return wrong("an output");
        hd_tensor *total = hd_script_state(j->script, "sum");
        if (difference_within(total, sum, units_at_largest(sum, 4 + i))[0] != '\0') return wrong("the state");
    }
    return NULL;
}

static void clones_run_side_by_side(void **state) {
    (void)state;
    for (int compiles = 0; compiles < 2; ++compiles) {
        HD_SCOPE;
        hd_tensor *w = operand(S(130, 150), 1, HD_F32), *sum = hd_zeros(S(40, 150), HD_F32);
        hd_builder *b = started("clone");
        hd_builder_bind(b, "w", w);
        hd_builder_add_state(b, "sum", sum);
        hd_tensor *y = hd_relu(hd_matmul(hd_input("x", S(40, 130), HD_F32), w));
        hd_add_(sum, hd_mul(y, hd_scalar(0.125, HD_F32)));
        hd_builder_add_output(b, "y", y);
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, HD_O2);
        job jobs[CLONES];
        pthread_t id[CLONES];
        for (int i = 0; i < CLONES; ++i) jobs[i] = (job){hd_script_clone(s), 0.5 + i, compiles == 1};
        assert_ok();
        for (int i = 0; i < CLONES; ++i) assert_int_equal(pthread_create(&id[i], NULL, runs_alone, &jobs[i]), 0);
        const char *why = NULL;
        for (int i = 0; i < CLONES; ++i) {
            void *result = NULL;
            pthread_join(id[i], &result);
            if (result != NULL) why = result;
        }
        if (why != NULL) fail_msg("%s", why);
        assert_same(sum, hd_zeros(S(40, 150), HD_F32)); /* none of them was ours */
    }
}

RUN(test(the_number_of_threads_changes_no_bit), test(every_run_gives_the_same), test(clones_run_side_by_side))
