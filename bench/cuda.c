/* What a GPU does: the MLP block and its training, bandwidth, products, convolutions, small eager calls, and the first
 * result of a process (cuda_process.c). The device is what HODU_DEVICE says, else cuda:0; --device KIND says another,
 * and --small takes sizes at which PoCL ends soon. Without the device there is a line and no case. scripts/bench-cuda
 * runs this beside cuda_peers.py. */
#include "compare.h"
#include "cuda_device.h"

#include <libgen.h>
#include <unistd.h>

static hd_device there;
static bool is_small; /* --small */

static int64_t sized(int64_t size, int64_t small) { return is_small ? small : size; }

/* ---- timing ------------------------------------------------------------------------------------------------------ */
/* Something that is called again and again, with one wait behind the last. Samples are amount / seconds of a call, or
 * these seconds where the amount is 0. */
typedef struct lane {
    const char *name;
    void (*call)(void *);
    void *context;
    double amount;
    bool leave_waiting; /* the wait is not timed: what is left is the time of the host */
    int64_t count;
} lane;

static double lane_seconds(const lane *l) {
    hd_synchronize();
    const double begin = bench_now();
    for (int64_t i = 0; i < l->count; ++i) {
        HD_SCOPE;
        l->call(l->context);
    }
    if (!l->leave_waiting) hd_synchronize();
    const double seconds = bench_now() - begin;
    hd_synchronize();
    return seconds;
}

/* Lanes take turns. A batch takes 20 ms, so that the wait and the start do not count; where the wait is not timed it is
 * short enough for the driver's queue. */
static void take_turns(bench *b, lane *lanes, int count) {
    enum { QUEUE = 500, MOST = 100000, ROUNDS_LEAST = 7 };
    for (int i = 0; i < count && hd_ok(); ++i) {
        lanes[i].count = 2;
        lane_seconds(&lanes[i]); /* compiles */
        while (lanes[i].count < (lanes[i].leave_waiting ? QUEUE : MOST) && lane_seconds(&lanes[i]) < 20e-3 && hd_ok())
            lanes[i].count *= 2;
        if (lanes[i].leave_waiting) lanes[i].count = QUEUE;
    }
    const double end = bench_now() + count * b->seconds;
    for (int round = 0; hd_ok() && round < BENCH_SAMPLES && (round < ROUNDS_LEAST || bench_now() < end); ++round) {
        for (int i = 0; i < count; ++i) {
            bench_lane *l = bench_find(b, lanes[i].name);
            const double seconds = lane_seconds(&lanes[i]) / (double)lanes[i].count;
            l->sample[l->samples++] = lanes[i].amount > 0 ? lanes[i].amount / seconds : seconds;
        }
    }
}

static void run_script(void *script) { hd_script_run(script); }

static void run_and_wait(bench *b, hd_script *script) {
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(script);
            hd_synchronize();
        }
    }
}

/* One output, made by `graph` from these inputs, on the device. */
static hd_script *script_of(hd_tensor *(*graph)(hd_tensor *const *), int count, hd_tensor *const *values) {
    static const char *const names[] = {"x", "y", "z"};
    HD_NO_GRAD;
    hd_tensor *input[3];
    hd_builder *builder = hd_builder_new("graph");
    hd_builder_start(builder);
    for (int i = 0; i < count; ++i)
        input[i] = hd_input(names[i], hd_tensor_shape(values[i]), hd_tensor_dtype(values[i]));
    hd_builder_add_output(builder, "result", graph(input));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_set_device(script, there);
    for (int i = 0; i < count; ++i) hd_script_set_input(script, names[i], values[i]);
    return script;
}

/* ---- the MLP block ----------------------------------------------------------------------------------------------- */
static block sized_block(block s) { return is_small ? (block){4, s.in / 16, s.hidden / 16, s.out / 16} : s; }

/* The numbers of the peers, there. */
static void weights_there(block s, hd_dtype dtype, hd_tensor *w[BLOCK_WEIGHTS]) {
    hd_set_device(hd_cpu());
    block_make_weights(s, w);
    for (int i = 0; i < BLOCK_WEIGHTS; ++i)
        if (w[i] != NULL) w[i] = hd_to(hd_cast(w[i], dtype), there);
    hd_set_device(there);
}
static hd_tensor *input_there(hd_shape shape, uint32_t seed, hd_dtype dtype) {
    hd_set_device(hd_cpu());
    hd_tensor *x = hd_to(hd_cast(input_numbers(shape, seed), dtype), there);
    hd_set_device(there);
    return x;
}

static void time_block(bench *b, block shape, hd_dtype dtype) {
    HD_SCOPE;
    HD_NO_GRAD;
    const block s = sized_block(shape);
    hd_tensor *w[BLOCK_WEIGHTS], *x = input_there(HD_SHAPE(s.batch, s.in), 1, dtype);
    weights_there(s, dtype, w);
    hd_builder *builder = hd_builder_new("block");
    hd_builder_start(builder);
    hd_builder_add_output(builder, "y", block_forward(hd_input("x", HD_SHAPE(s.batch, s.in), dtype), w));
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_set_device(script, there);
    hd_script_set_input(script, "x", x);
    check_values(b, hd_cast(hd_to(hd_outputs_at(hd_script_run(script), 0), hd_cpu()), HD_F32));
    run_and_wait(b, script);
}
static void mlp_f32_small(bench *b) { time_block(b, block_small, HD_F32); }
static void mlp_f32_middle(bench *b) { time_block(b, block_middle, HD_F32); }
static void mlp_f32_large(bench *b) { time_block(b, block_large, HD_F32); }
static void mlp_bf16_small(bench *b) { time_block(b, block_small, HD_BF16); }
static void mlp_bf16_middle(bench *b) { time_block(b, block_middle, HD_BF16); }
static void mlp_bf16_large(bench *b) { time_block(b, block_large, HD_BF16); }

static void time_tf32(bench *b, block s) { /* these cases are the last: nothing sets the precision back */
    hd_set_matmul_precision(HD_MATMUL_TF32);
    time_block(b, s, HD_F32);
}
static void mlp_tf32_small(bench *b) { time_tf32(b, block_small); }
static void mlp_tf32_middle(bench *b) { time_tf32(b, block_middle); }
static void mlp_tf32_large(bench *b) { time_tf32(b, block_large); }

/* A step with Adam, all state on the device. */
static hd_script *adam_script(block s, hd_tensor *const w[BLOCK_WEIGHTS]) {
    static const char *const names[BLOCK_WEIGHTS] = {"w0", "w1", "w2", "w3", "w4", "w5", "w6"};
    const int count = w[BLOCK_WEIGHTS - 1] != NULL ? BLOCK_WEIGHTS : BLOCK_WEIGHTS - 1;
    for (int i = 0; i < count; ++i) hd_requires_grad(w[i]);
    hd_optimizer *adam = hd_adam(hd_tensors_from(w, count), 1e-3, NULL);
    hd_builder *builder = hd_builder_new("training");
    hd_builder_start(builder);
    for (int i = 0; i < count; ++i) hd_builder_add_state(builder, names[i], w[i]);
    hd_builder_add_state_of(builder, NULL, adam);
    hd_tensor *x = hd_input("x", HD_SHAPE(s.batch, s.in), HD_F32), *y = hd_input("y", HD_SHAPE(s.batch, s.out), HD_F32);
    hd_tensor *loss = hd_mse(block_forward(x, w), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(adam);
    hd_builder_add_output(builder, "loss", loss);
    hd_builder_end(builder);
    hd_script *script = hd_builder_build(builder);
    hd_script_set_device(script, there);
    return script;
}

static void time_training(bench *b, block shape) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    const block s = sized_block(shape);
    hd_tensor *w[BLOCK_WEIGHTS];
    weights_there(s, HD_F32, w);
    hd_script *script = adam_script(s, w);
    hd_script_set_input(script, "x", input_there(HD_SHAPE(s.batch, s.in), 1, HD_F32));
    hd_script_set_input(script, "y", input_there(HD_SHAPE(s.batch, s.out), 2, HD_F32));
    double loss = 0;
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        loss = hd_item(hd_outputs_at(hd_script_run(script), 0));
        if (i == 0) bench_check(b, loss);
    }
    bench_check(b, loss);
    run_and_wait(b, script);
}
static void train_small(bench *b) { time_training(b, block_small); }
static void train_middle(bench *b) { time_training(b, block_middle); }
static void train_large(bench *b) { time_training(b, block_large); }

/* ---- bandwidth --------------------------------------------------------------------------------------------------- */
static hd_tensor *chain(hd_tensor *const *in) { /* that of static.c */
    hd_tensor *x = in[0], *y = in[1];
    hd_tensor *left = hd_mul(hd_tanh(hd_add(hd_mul_scalar(x, 1.1), y)), hd_sigmoid(y));
    return hd_add(hd_sub(left, hd_mul_scalar(hd_relu(x), 0.5)), hd_exp(hd_mul(hd_neg(x), x)));
}
static hd_tensor *plus_one(hd_tensor *const *in) { return hd_add_scalar(in[0], 1); }
static hd_tensor *sum_of_two(hd_tensor *const *in) { return hd_add(in[0], in[1]); }
static hd_tensor *softmax(hd_tensor *const *in) { return hd_softmax(in[0], -1); }
static hd_tensor *layer_norm(hd_tensor *const *in) { return hd_layer_norm(in[0], 1, in[1], in[2], 1e-5); }

/* Beside a kernel that only copies as many bytes, and one that reads and writes the same tensors. */
static void time_chain(bench *b) {
    HD_SCOPE;
    const int64_t n = sized(1 << 28, 1 << 14);
    hd_tensor *x = hd_randn(HD_SHAPE(n), HD_F32), *y = hd_randn(HD_SHAPE(n), HD_F32);
    hd_tensor *longer = hd_randn(HD_SHAPE(n / 2 * 3), HD_F32);
    const double gigabytes = 3 * 4e-9 * (double)n;
    lane lanes[] = {
        {.name = "hodu",
         .call = run_script,
         .context = script_of(chain, 2, (hd_tensor *[]){x, y}),
         .amount = gigabytes},
        {.name = "copy", .call = run_script, .context = script_of(plus_one, 1, &longer), .amount = gigabytes},
        {.name = "add",
         .call = run_script,
         .context = script_of(sum_of_two, 2, (hd_tensor *[]){x, y}),
         .amount = gigabytes}};
    take_turns(b, lanes, 3);
}

static void time_rows(bench *b, hd_tensor *(*graph)(hd_tensor *const *), int inputs) {
    HD_SCOPE;
    const int64_t rows = sized(16384, 64), width = sized(4096, 256);
    hd_tensor *in[] = {hd_randn(HD_SHAPE(rows, width), HD_F32), hd_randn(HD_SHAPE(width), HD_F32),
                       hd_randn(HD_SHAPE(width), HD_F32)};
    lane l = {.name = "hodu",
              .call = run_script,
              .context = script_of(graph, inputs, in),
              .amount = 8e-9 * (double)(rows * width)};
    take_turns(b, &l, 1);
}
static void time_softmax(bench *b) { time_rows(b, softmax, 1); }
static void time_layer_norm(bench *b) { time_rows(b, layer_norm, 3); }

/* ---- products and convolutions ----------------------------------------------------------------------------------- */
static hd_tensor *product(hd_tensor *const *in) { return hd_matmul(in[0], in[1]); }

static void time_product(bench *b, int64_t large, hd_dtype dtype) {
    HD_SCOPE;
    HD_NO_GRAD;
    const int64_t n = sized(large, large / 32);
    hd_tensor *in[] = {hd_cast(hd_randn(HD_SHAPE(n, n), HD_F32), dtype),
                       hd_cast(hd_randn(HD_SHAPE(n, n), HD_F32), dtype)};
    lane l = {.name = "hodu",
              .call = run_script,
              .context = script_of(product, 2, in),
              .amount = 2e-12 * (double)n * (double)n * (double)n};
    take_turns(b, &l, 1);
}
static void matmul_4096_bf16(bench *b) { time_product(b, 4096, HD_BF16); }
static void matmul_8192_bf16(bench *b) { time_product(b, 8192, HD_BF16); }
static void matmul_4096_f32(bench *b) { time_product(b, 4096, HD_F32); }
static void matmul_8192_f32(bench *b) { time_product(b, 8192, HD_F32); }

/* Images in turns, so that none waits in a cache. */
enum { IMAGES = 4 };
typedef struct images {
    hd_tensor *x[IMAGES], *w;
    int next;
} images;
static hd_tensor *convolved(hd_tensor *x, hd_tensor *w) {
    return hd_conv2d(x, w, NULL, HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}}));
}
static hd_tensor *conv(hd_tensor *const *in) { return convolved(in[0], in[1]); }
static void convolve_next(void *context) {
    images *m = context;
    convolved(m->x[m->next++ % IMAGES], m->w);
}

static void time_conv(bench *b, hd_dtype dtype) {
    HD_SCOPE;
    HD_NO_GRAD;
    const int64_t count = sized(32, 1), channels = sized(64, 8), side = sized(56, 14);
    images m = {.w = hd_cast(hd_randn(HD_SHAPE(channels, channels, 3, 3), HD_F32), dtype)};
    for (int i = 0; i < IMAGES; ++i) m.x[i] = hd_cast(hd_randn(HD_SHAPE(count, channels, side, side), HD_F32), dtype);
    lane lanes[] = {
        {.name = "hodu", .call = convolve_next, .context = &m},
        {.name = "script", .call = run_script, .context = script_of(conv, 2, (hd_tensor *[]){m.x[0], m.w})}};
    take_turns(b, lanes, 2);
}
static void conv_f32(bench *b) { time_conv(b, HD_F32); }
static void conv_bf16(bench *b) { time_conv(b, HD_BF16); }

/* ---- eager calls ------------------------------------------------------------------------------------------------- */
typedef struct two {
    hd_tensor *x, *y;
} two;
static void add_two(void *context) {
    const two *t = context;
    hd_add(t->x, t->y);
}
static void eager_add_as(bench *b, bool host_alone) {
    HD_SCOPE;
    two t = {hd_randn(HD_SHAPE(2, 3), HD_F32), hd_randn(HD_SHAPE(2, 3), HD_F32)};
    lane l = {.name = "hodu", .call = add_two, .context = &t, .leave_waiting = host_alone};
    take_turns(b, &l, 1);
}
static void eager_add(bench *b) { eager_add_as(b, false); }
static void eager_add_host(bench *b) { eager_add_as(b, true); }

static const block block_tiny = {8, 32, 64, 32}; /* so small that only calls count */
typedef struct network {
    hd_tensor *w[BLOCK_WEIGHTS], *x, *y;
    hd_optimizer *sgd;
} network;
static network make_network(void) {
    const block s = block_tiny;
    network n = {.x = input_there(HD_SHAPE(s.batch, s.in), 1, HD_F32),
                 .y = input_there(HD_SHAPE(s.batch, s.out), 2, HD_F32)};
    weights_there(s, HD_F32, n.w);
    return n;
}

static void forward_eagerly(void *context) {
    const network *n = context;
    block_forward(n->x, n->w);
}
static void eager_mlp(bench *b) {
    HD_SCOPE;
    HD_NO_GRAD;
    network n = make_network();
    lane l = {.name = "hodu", .call = forward_eagerly, .context = &n};
    take_turns(b, &l, 1);
}

static void train_eagerly(void *context) {
    HD_GRAD_CONTEXT;
    const network *n = context;
    hd_backward(hd_mse(block_forward(n->x, n->w), n->y, NULL));
    hd_optimizer_step(n->sgd);
    hd_optimizer_zero_grad(n->sgd);
}
static void eager_mlp_train(bench *b) {
    HD_SCOPE;
    network n = make_network();
    for (int i = 0; i < BLOCK_WEIGHTS - 1; ++i) hd_requires_grad(n.w[i]);
    n.sgd = hd_sgd(hd_tensors_from(n.w, BLOCK_WEIGHTS - 1), 1e-3, NULL);
    lane l = {.name = "hodu", .call = train_eagerly, .context = &n};
    take_turns(b, &l, 1);
}

/* ---- the first result of a process ------------------------------------------------------------------------------- */
static const char *device_words; /* "cuda:0" */

/* What cuda_process.c prints, in seconds. */
static bool run_child(const char *cache, double *open, double *first) {
    char self[4000], command[8400];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    snprintf(command, sizeof command, "unset HODU_DEVICE; HODU_CACHE_DIR='%s' '%s/bench_cuda_process' %s%s", cache,
             dirname(self), device_words, is_small ? " small" : "");
    FILE *child = popen(command, "r");
    const bool said = child != NULL && fscanf(child, "open %lf ms, first result %lf ms", open, first) == 2;
    if (child != NULL && pclose(child) != 0) fprintf(stderr, "cuda.c: %s does not end well\n", command);
    *open *= 1e-3;
    *first *= 1e-3;
    return said;
}

/* Medians of several processes, each with an empty cache, or each with what the first left in it. */
static void time_children(bench *b, bool cached) {
    char cache[300], command[400];
    const char *base = getenv("TMPDIR");
    snprintf(cache, sizeof cache, "%s/hodu-bench-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(cache) == NULL) {
        perror(cache);
        bench_value(b, "hodu", NAN);
        return;
    }
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    bench_lane *hodu = bench_find(b, "hodu"), *opening = bench_find(b, "open");
    double open = 0, first = 0;
    bool fine = !cached || run_child(cache, &open, &first);
    for (int i = 0; i < 5 && fine; ++i) {
        if (!cached && system(command) != 0) break;
        fine = run_child(cache, &open, &first);
        hodu->sample[i] = fine ? first : NAN;
        opening->sample[i] = open;
        hodu->samples = opening->samples = i + 1;
    }
    if (hodu->samples == 0) bench_value(b, "hodu", NAN);
    if (system(command) != 0) fprintf(stderr, "cuda.c: %s is left behind\n", cache);
}
static void first_result(bench *b) { time_children(b, false); }
static void first_result_cached(bench *b) { time_children(b, true); }

static const bench_case cases[] = {
    {"cuda/mlp-f32-32x256x512x256", "us", mlp_f32_small},
    {"cuda/mlp-f32-64x512x1024x512", "us", mlp_f32_middle},
    {"cuda/mlp-f32-128x768x2048x1024", "us", mlp_f32_large},
    {"cuda/mlp-bf16-32x256x512x256", "us", mlp_bf16_small},
    {"cuda/mlp-bf16-64x512x1024x512", "us", mlp_bf16_middle},
    {"cuda/mlp-bf16-128x768x2048x1024", "us", mlp_bf16_large},
    {"cuda/mlp-train-32x256x512x256", "us", train_small},
    {"cuda/mlp-train-64x512x1024x512", "us", train_middle},
    {"cuda/mlp-train-128x768x2048x1024", "us", train_large},
    {"cuda/chain-2^28", "GB/s", time_chain},
    {"cuda/softmax-16384x4096", "GB/s", time_softmax},
    {"cuda/layer-norm-16384x4096", "GB/s", time_layer_norm},
    {"cuda/matmul-4096-bf16", "TFLOP/s", matmul_4096_bf16},
    {"cuda/matmul-8192-bf16", "TFLOP/s", matmul_8192_bf16},
    {"cuda/matmul-4096-f32", "TFLOP/s", matmul_4096_f32},
    {"cuda/matmul-8192-f32", "TFLOP/s", matmul_8192_f32},
    {"cuda/conv-32x64x56x56-f32", "us", conv_f32},
    {"cuda/conv-32x64x56x56-bf16", "us", conv_bf16},
    {"cuda/eager-add-2x3", "us", eager_add},
    {"cuda/eager-add-2x3-host", "us", eager_add_host},
    {"cuda/eager-mlp", "us", eager_mlp},
    {"cuda/eager-mlp-train", "us", eager_mlp_train},
    {"cuda/first-result", "ms", first_result},
    {"cuda/first-result-cached", "ms", first_result_cached},
    {"cuda/mlp-tf32-32x256x512x256", "us", mlp_tf32_small},
    {"cuda/mlp-tf32-64x512x1024x512", "us", mlp_tf32_middle},
    {"cuda/mlp-tf32-128x768x2048x1024", "us", mlp_tf32_large},
};

/* Takes our own words out of the command line; true when it only lists. */
static bool take_words(int *count, char **words, const char **device) {
    bool lists = false;
    int kept = 1;
    for (int i = 1; i < *count; ++i) {
        lists = lists || strcmp(words[i], "--list") == 0;
        if (strcmp(words[i], "--small") == 0)
            is_small = true;
        else if (strcmp(words[i], "--device") == 0 && i + 1 < *count)
            *device = words[++i];
        else
            words[kept++] = words[i];
    }
    *count = kept;
    return lists;
}

int main(int argc, char **argv) {
    static char words[32];
    const char *device = NULL;
    const bool lists = take_words(&argc, argv, &device);
    there = device == NULL ? hd_current_device() : (hd_device){0};
    if (device != NULL && !device_of(device, &there)) {
        fprintf(stderr, "%s: --device takes cuda or opencl, and :1 and so on; it was %s\n", argv[0], device);
        return 2;
    }
    if (there.kind == HD_DEVICE_CPU) there = hd_cuda(0);
    snprintf(words, sizeof words, "%s:%d", there.kind == HD_DEVICE_CUDA ? "cuda" : "opencl", there.index);
    device_words = words;
    const char *missing = lists ? NULL : hd_device_missing(there);
    if (missing != NULL) fprintf(stderr, "no case of cuda/ is measured: there is no %s: %s\n", words, missing);
    if (missing == NULL && !lists) hd_set_device(there);
    hd_seed(1);
    return bench_main(argc, argv, cases, missing == NULL ? sizeof cases / sizeof *cases : 0);
}
