/* Gradients: what a record on the tape costs in time and memory, and how fast forward and backward together are, from a
 * model of four numbers to one that fills the machine. Everything runs at once (eagerly) and within scopes. */
#include "harness.h"
#include "loop.h"

#include <malloc.h>
#include <math.h>
#include <unistd.h>

static hd_tensor *normal(hd_shape shape) { return hd_randn(shape, HD_F32); }
static hd_tensor *parameter(hd_shape shape) { return hd_param(normal(shape)); }

/* ---- the tape ---------------------------------------------------------------------------------------------------- */
/* One op and its record. The tape is emptied every 1000 records; that is part of the figure. */
static void add_2x3_taped(bench *b) {
    HD_SCOPE;
    hd_tensor *x = parameter(HD_SHAPE(2, 3)), *y = parameter(HD_SHAPE(2, 3));
    int records = 0;
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_add(x, y);
            if (++records == 1000) {
                hd_clear_tape();
                records = 0;
            }
        }
    }
    hd_clear_tape();
}

/* x + y + y + ... : `records` additions, of which only the tape and the last result are left. Yours to release. */
static hd_tensor *chain(hd_tensor *x, hd_tensor *y, int64_t records) {
    hd_tensor *last = hd_retain(x);
    for (int64_t i = 0; i < records && hd_ok(); ++i) {
        HD_SCOPE;
        hd_tensor *next = hd_retain(hd_add(last, y));
        hd_release(last);
        last = next;
    }
    return last;
}

/* Bytes of this process that are in memory. Not the allocator's own count: a tape need not come from malloc. */
static double resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) perror("/proc/self/statm");
    if (file != NULL) fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* By how much the process grows with a tape of a million additions, for each. The gradient of x + y needs neither, so a
 * tape need not save a tensor here. For each that it does save, which shows as live bytes of tensors, what one of them
 * takes in all (data, headers, the allocator's rounding) is measured and taken off; headers kept without their data
 * count as the tape's. */
static void tape_1e6_bytes(bench *b) {
    enum { RECORDS = 1000000, TENSORS = 100000 };
    HD_SCOPE;
    hd_tensor *x = parameter(HD_SHAPE(2, 3)), *y = parameter(HD_SHAPE(2, 3));
    hd_release(chain(x, y, 1000)); /* what a thread sets up once */
    hd_clear_tape();
    hd_memory_trim();
    malloc_trim(0);

    const double before = resident();
    const int64_t live_before = hd_memory().live_bytes;
    hd_tensor *last = chain(x, y, RECORDS);
    const double tape = resident() - before;
    const int64_t live_tape = hd_memory().live_bytes - live_before;

    hd_tensor **tensors = calloc(TENSORS, sizeof *tensors); /* made while the tape is there: nothing freed to reuse */
    if (tensors == NULL) return;
    const double before_tensors = resident();
    const int64_t live_before_tensors = hd_memory().live_bytes;
    {
        HD_NO_GRAD;
        for (int i = 0; i < TENSORS; ++i) {
            HD_SCOPE;
            tensors[i] = hd_retain(hd_add(x, y));
        }
    }
    const double tensor = (resident() - before_tensors) / TENSORS - sizeof *tensors;
    const double live_tensor = (double)(hd_memory().live_bytes - live_before_tensors) / TENSORS;
    const double saved = live_tensor > 0 ? (double)live_tape / live_tensor : 0;
    bench_value(b, "hodu", (tape - saved * tensor) / RECORDS);

    for (int i = 0; i < TENSORS; ++i) hd_release(tensors[i]);
    free(tensors);
    hd_release(last);
    hd_clear_tape();
}

/* ---- backward alone ---------------------------------------------------------------------------------------------- */
static void backward_chain_1e5(bench *b) {
    HD_SCOPE;
    hd_tensor *x = parameter(HD_SHAPE(2, 3)), *y = parameter(HD_SHAPE(2, 3)), *last = chain(x, y, 100000);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_backward(last);
        }
    }
    hd_release(last);
    hd_clear_tape();
}

/* Seconds for each record of `times` walks over a tape of `records`, the first walk left out. */
static double backward_seconds(int64_t records, int times) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    hd_tensor *x = parameter(HD_SHAPE(2, 3)), *y = parameter(HD_SHAPE(2, 3)), *last = chain(x, y, records);
    double begin = 0;
    for (int i = 0; i <= times; ++i) {
        HD_SCOPE;
        if (i == 1) begin = bench_now();
        hd_backward(last);
    }
    const double seconds = bench_now() - begin;
    hd_release(last);
    return seconds / ((double)records * times);
}

/* Whether backward is linear: time per record of a tape ten times as long, by that of the shorter. The best of several
 * of each, since the two cannot take turns within milliseconds. */
static void backward_linear(bench *b) {
    double shorter = INFINITY, longer = INFINITY;
    for (int i = 0; i < 5 && hd_ok(); ++i) {
        shorter = fmin(shorter, backward_seconds(100000, 10));
        longer = fmin(longer, backward_seconds(1000000, 1));
    }
    if (hd_ok()) bench_value(b, "hodu", longer / shorter);
}

/* ---- forward and backward ---------------------------------------------------------------------------------------- */
/* All 100 rows at once: forward, loss, backward, update, and clean for the next. */
static void linear_3x1_epoch(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(100, 3)), *y = normal(HD_SHAPE(100, 1));
    hd_module *model = hd_linear(3, 1, NULL);
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(model), 0.01, NULL);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_backward(hd_mse(hd_forward(model, x), y, NULL));
            hd_optimizer_step(sgd);
            hd_optimizer_zero_grad(sgd);
        }
    }
}

/* No update: the optimizer is there for its zero_grad. */
static void mlp_64x512x1024x512(bench *b) {
    HD_SCOPE;
    hd_tensor *x = normal(HD_SHAPE(64, 512)), *y = normal(HD_SHAPE(64, 512));
    hd_module *model = HD_SEQUENTIAL(hd_linear(512, 1024, NULL), hd_relu_layer(), hd_linear(1024, 512, NULL));
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(model), 0.01, NULL);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_backward(hd_mse(hd_forward(model, x), y, NULL));
            hd_optimizer_zero_grad(sgd);
        }
    }
}

static void softmax_cross_entropy_64x1000(bench *b) {
    HD_SCOPE;
    hd_tensor *x = parameter(HD_SHAPE(64, 1000)), *target = hd_randint(HD_SHAPE(64), HD_I64, 0, 1000);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_backward(hd_cross_entropy(x, target, NULL));
            hd_zero_grad(x);
            hd_clear_tape();
        }
    }
}

/* With a gradient to begin with, as in the midst of a model. */
static void gelu_2_20(bench *b) {
    HD_SCOPE;
    hd_tensor *x = parameter(HD_SHAPE(1 << 20)), *seed = normal(HD_SHAPE(1 << 20));
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_backward_with(hd_gelu(x), HD_OPTS(hd_backward_opts, .seed = seed));
            hd_zero_grad(x);
            hd_clear_tape();
        }
    }
}

/* The gradient alone: of rows that were looked up once. */
static void embedding_65536x256(bench *b) {
    HD_SCOPE;
    hd_tensor *weight = parameter(HD_SHAPE(32768, 256)), *index = hd_randint(HD_SHAPE(65536), HD_I64, 0, 32768);
    hd_tensor *seed = normal(HD_SHAPE(65536, 256)), *rows = hd_embedding(weight, index, -1);
    hd_tensors *inputs = HD_TENSORS(weight);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_grad_of(rows, inputs, HD_OPTS(hd_grad_of_opts, .seed = seed));
        }
    }
    hd_clear_tape();
}

/* ---- a step alone ------------------------------------------------------------------------------------------------ */
static void copy_floats(float *restrict out, const float *restrict a, const float *restrict b, int64_t n) {
    (void)b;
    memcpy(out, a, (size_t)n * sizeof *out);
}

/* Of 10^7 parameters in a tensor: it reads four arrays and writes three. Beside it a copy of as many bytes, half of
 * them read and half written. */
static void adam_1e7(bench *b) {
    HD_SCOPE;
    enum { COUNT = 10000000 };
    hd_tensor *p = parameter(HD_SHAPE(COUNT));
    hd_set_grad(p, normal(HD_SHAPE(COUNT)));
    hd_optimizer *adam = hd_adam(HD_TENSORS(p), 1e-3, NULL);
    loop *copy = loop_new(copy_floats, (int64_t)COUNT * 7 / 2, hd_num_threads());
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_optimizer_step(adam);
        }
        BENCH(b, "copy") loop_run(copy);
    }
    loop_free(copy);
}

/* Of 1000 parameters of 100 numbers: what there is beside memory. */
static void adam_1000x100(bench *b) {
    HD_SCOPE;
    enum { TENSORS = 1000 };
    hd_tensor *all[TENSORS];
    for (int i = 0; i < TENSORS; ++i) {
        all[i] = parameter(HD_SHAPE(100));
        hd_set_grad(all[i], normal(HD_SHAPE(100)));
    }
    hd_optimizer *adam = hd_adam(hd_tensors_from(all, TENSORS), 1e-3, NULL);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_optimizer_step(adam);
        }
    }
}

static const bench_case cases[] = {
    {"grad/adam-1e7", "us", adam_1e7},
    {"grad/adam-1000x100", "us", adam_1000x100},
    {"grad/add-2x3-taped", "ns", add_2x3_taped},
    {"grad/linear-3x1-epoch", "us", linear_3x1_epoch},
    {"grad/mlp-64x512x1024x512", "us", mlp_64x512x1024x512},
    {"grad/tape-1e6-bytes", "B", tape_1e6_bytes},
    {"grad/backward-chain-1e5", "us", backward_chain_1e5},
    {"grad/backward-linear", "x", backward_linear},
    {"grad/softmax-cross-entropy-64x1000", "us", softmax_cross_entropy_64x1000},
    {"grad/gelu-2^20", "us", gelu_2_20},
    {"grad/embedding-65536x256", "us", embedding_65536x256},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
