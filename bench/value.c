/* How fast and how small the scalar Value engine is. One thread. The model is microgpt itself, included as it is.
 *
 * Nodes are counted as the arena counts them: every addition, product, exponential ... is one scalar node of 40
 * bytes; a dot product of n terms is 2n-1 of them. Python's count for the same run is higher (50 T^2 + 7690 T + 3 a
 * name of T positions), because there numbers, negations and quotients take nodes too; both are printed, and ns a
 * node is per node of ours. Times are processor time, the best of several runs: the machine may have other things to
 * do. */
int microgpt_main(int argc, char **argv);
#define main microgpt_main
#include "../examples/micro/microgpt.c"
#undef main

#include <sys/resource.h>

enum { STEPS = 1000, RUNS = 9 };

static double cpu_now(void) { return (double)clock() / CLOCKS_PER_SEC; }

typedef struct times {
    double forward, backward, rest, nodes, python_nodes;
} times;

/* microgpt's training, as its main does it. */
static times train(const micro_names *names) {
    times t = {0.0, 0.0, 0.0, 0.0, 0.0};
    hd_value_adam adam = {.beta1 = 0.85, .beta2 = 0.99};
    hd_value_free();
    micro_state = 42;
    micro_init(PARAMETERS, w, 0.08);
    double now = cpu_now();
    for (int step = 0; step < STEPS; ++step) {
        const char *name = names->name[step % names->count];
        const double positions = micro_positions(name, B);
        const Value loss = name_loss(name);
        const double after_forward = cpu_now();
        hd_value_backward(loss);
        const double after_backward = cpu_now();
        t.nodes += hd_value_node_count();
        t.python_nodes += 50.0 * positions * positions + 7690.0 * positions + 3.0;
        hd_value_adam_step(&adam, 0.01 * (1.0 - (double)step / STEPS));
        hd_value_zero_grad();
        hd_value_reset();
        t.forward += after_forward - now;
        t.backward += after_backward - after_forward;
        now = cpu_now();
        t.rest += now - after_backward;
    }
    hd_value_adam_free(&adam);
    return t;
}

static void line(const char *what, double value, const char *unit, const char *bar) {
    printf("%-46s %10.2f %-4s %s\n", what, value, unit, bar);
}

/* ns a node, forward and backward, of `nodes` nodes made by make(). */
static double nanoseconds(Value (*make)(int nodes), int nodes) {
    double best = 1e30;
    for (int run = 0; run < 20; ++run) {
        hd_value_reset();
        const double start = cpu_now();
        hd_value_backward(make(nodes));
        const double ns = 1e9 * (cpu_now() - start) / hd_value_node_count();
        best = ns < best ? ns : best;
    }
    return best;
}

static Value chain_of_sums(int nodes) {
    Value x = w[0];
    for (int i = 0; i < nodes; ++i) x = vadd(x, w[1]);
    return x;
}

static Value products_and_sums(int nodes) { /* a dot product through the plain operations, not hd_value_dot */
    Value x = w[0];
    for (int i = 0; i < nodes / 2; ++i) x = vadd(x, vmul(w[i & 1023], w[1024 + (i & 1023)]));
    return x;
}

static Value numbers_on_one_side(int nodes) {
    Value x = w[0];
    for (int i = 0; i < nodes / 2; ++i) x = vadd(vmul(x, 0.999), 0.001);
    return x;
}

static Value chain_of_tanh(int nodes) {
    Value x = w[0];
    for (int i = 0; i < nodes; ++i) x = vtanh(x);
    return x;
}

/* What scripts/bench asks for: --list, or --case NAME [--seconds S] --json FILE. */
static const struct {
    const char *name, *unit;
} cases[] = {{"micro/gpt", "s"}, {"micro/gpt-node", "ns"}, {"micro/gpt-node-bytes", "B"}, {"micro/gpt-peak", "MB"}};
enum { CASES = sizeof cases / sizeof cases[0] };

static int write_case(const char *name, const double *figures, const char *path) {
    for (int i = 0; i < CASES; ++i) {
        if (strcmp(name, cases[i].name) != 0) continue;
        FILE *file = fopen(path, "w");
        if (file == NULL) break;
        fprintf(file, "[{\"case\": \"%s\", \"unit\": \"%s\", \"hodu\": %.6g, \"peers\": {", name, cases[i].unit,
                figures[i]);
        fprintf(file, i == 0 ? "\"cpython\": 372}}]\n" : "}}]\n"); /* the original's processor time on such a machine */
        return fclose(file) == 0 ? 0 : 1;
    }
    fprintf(stderr, "no case %s, or %s cannot be written\n", name, path);
    return 2;
}

int main(int argc, char **argv) {
    const char *only = NULL, *json = NULL;
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--list") == 0) {
            for (int k = 0; k < CASES; ++k) printf("%s %s\n", cases[k].name, cases[k].unit);
            return 0;
        }
        if (i + 1 < argc && strcmp(argv[i], "--case") == 0) only = argv[i + 1];
        if (i + 1 < argc && strcmp(argv[i], "--json") == 0) json = argv[i + 1];
    }
    if (only != NULL) argc = 1; /* the rest is not for the micro programs */
    const micro_options options = micro_begin(argc, argv, "bench-value", STEPS);
    micro_names names = micro_names_load(&options);
    times best = {0.0, 0.0, 1e30, 0.0, 0.0};
    for (int run = 0; run < RUNS; ++run) {
        const times t = train(&names);
        if (t.forward + t.backward + t.rest < best.forward + best.backward + best.rest) best = t;
    }
    const double seconds = best.forward + best.backward + best.rest;
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);

    const double node_bytes = (double)(2 * sizeof(double) + sizeof(hd_value_edges));
    const double figures[CASES] = {seconds, 1e9 * (best.forward + best.backward) / best.nodes, node_bytes,
                                   (double)usage.ru_maxrss / 1024.0};
    if (only != NULL) {
        free(names.name);
        return write_case(only, figures, json != NULL ? json : "/dev/stdout");
    }
    printf("microgpt, %d steps, best of %d\n", STEPS, RUNS);
    line("time", seconds, "s", "bar 0.62");
    line("against 372 s of CPython", 372.0 / seconds, "x", "bar 600");
    line("nodes", 1e-6 * best.nodes, "M", "");
    line("nodes as Python counts them", 1e-6 * best.python_nodes, "M", "");
    line("forward, a node", 1e9 * best.forward / best.nodes, "ns", "");
    line("backward, a node", 1e9 * best.backward / best.nodes, "ns", "");
    line("forward and backward, a node", 1e9 * (best.forward + best.backward) / best.nodes, "ns", "bar 6");
    line("Adam and the rest, a step", 1e6 * best.rest / STEPS, "us", "");
    line("memory, a node", node_bytes, "B", "bar 40");
    line("peak memory of the process", (double)usage.ru_maxrss / 1024.0, "MB", "bar 20");

    const int nodes = 100000;
    printf("\nsingle operations, %d nodes, forward and backward\n", nodes);
    line("chain of additions, a node", nanoseconds(chain_of_sums, nodes), "ns", "");
    line("products and additions, a node", nanoseconds(products_and_sums, nodes), "ns", "");
    line("x * number + number, a node", nanoseconds(numbers_on_one_side, nodes), "ns", "");
    line("chain of tanh, a node", nanoseconds(chain_of_tanh, nodes), "ns", "");
    free(names.name);
    const bool ok = hd_value_ok();
    if (!ok) fprintf(stderr, "error: %s\n", hd_value_error());
    hd_value_free();
    return ok ? 0 : 1;
}
