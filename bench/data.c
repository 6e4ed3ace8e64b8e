/* Loaders over data in memory, as large as MNIST: what a batch costs, and how much of a training step that is. */
#include "harness.h"

enum { ITEMS = 60000, PIXELS = 784, BATCH = 128, BATCHES = 400 };

static hd_loader *mnist(void) {
    hd_tensor *images = hd_rand(HD_SHAPE(ITEMS, PIXELS), HD_F32), *labels = hd_randint(HD_SHAPE(ITEMS), HD_I64, 0, 10);
    return hd_batches(images, labels, BATCH, HD_OPTS(hd_loader_opts, .drop_last = true));
}

static double cpu_now(void) { /* of all threads: others on the machine do not count */
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Microseconds of all cores for a batch, the shuffle of its epoch included. */
static void loader_cpu(bench *b) {
    HD_SCOPE;
    hd_set_num_threads(1); /* what waits for work is no cost of the loader's */
    hd_loader *loader = mnist();
    double best = INFINITY;
    for (int turn = 0; turn < 3 && hd_ok(); ++turn) {
        const double begin = cpu_now();
        for (int i = 0; i < BATCHES; ++i) {
            HD_SCOPE;
            hd_loader_next(loader);
        }
        best = fmin(best, (cpu_now() - begin) / BATCHES);
    }
    bench_value(b, "hodu", best * 1e6);
}

/* Percent of a training step of a network of two layers that the loader takes, on one core. */
static void loader_share(bench *b) {
    HD_SCOPE;
    hd_set_num_threads(1);
    hd_loader *loader = mnist();
    hd_module *model = HD_SEQUENTIAL(hd_linear(PIXELS, 512, NULL), hd_relu_layer(), hd_linear(512, 10, NULL));
    hd_optimizer *optimizer = hd_adam(hd_module_parameters(model), 1e-3, NULL);
    double loading = 0, all = 0;
    for (int i = 0; i < 120 && hd_ok(); ++i) {
        HD_SCOPE;
        const double begin = cpu_now();
        const hd_batch batch = hd_loader_next(loader);
        const double loaded = cpu_now();
        hd_backward(hd_cross_entropy(hd_forward(model, batch.x), batch.y, NULL));
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        if (i < 20) continue; /* page faults, caches */
        loading += loaded - begin;
        all += cpu_now() - begin;
    }
    bench_value(b, "hodu", 100 * loading / all);
}

static const bench_case cases[] = {
    {"data/loader-cpu", "CPU us", loader_cpu},
    {"data/loader-share", "%", loader_share},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof cases[0]); }
