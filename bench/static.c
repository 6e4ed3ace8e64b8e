/* Scripts as they are compiled by default: how fast they run, how long compiling takes, and what a process that uses
 * one costs (static_process.c). Every case that computes something gives a few of its results to be compared with the
 * peers'. BENCH_PROFILE=1 prints the launches of each script. */
#include "compare.h"

#include <libgen.h>
#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
static void time_runs(bench *b, hd_script *s) {
    if (getenv("BENCH_PROFILE") != NULL) hd_script_profile(s, 20);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(s);
        }
    }
}

/* One output, made by `graph` from inputs of these shapes. */
static void time_graph(bench *b, hd_tensor *(*graph)(hd_tensor *const *), int inputs, const hd_shape *shape) {
    static const char *const names[] = {"x", "y", "z"};
    HD_SCOPE;
    hd_tensor *input[3];
    hd_builder *builder = hd_builder_new("graph");
    hd_builder_start(builder);
    for (int i = 0; i < inputs; ++i) input[i] = hd_input(names[i], shape[i], HD_F32);
    hd_builder_add_output(builder, "result", graph(input));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    for (int i = 0; i < inputs; ++i) hd_script_set_input(s, names[i], input_numbers(shape[i], (uint32_t)i + 1));
    check_values(b, hd_outputs_at(hd_script_run(s), 0));
    time_runs(b, s);
}

static void time_block(bench *b, block s) {
    HD_SCOPE;
    hd_tensor *w[BLOCK_WEIGHTS];
    block_make_weights(s, w);
    hd_script *script = block_script(s, w, input_numbers(HD_SHAPE(s.batch, s.in), 1));
    check_values(b, hd_outputs_at(hd_script_run(script), 0));
    time_runs(b, script);
}
static void mlp_small(bench *b) { time_block(b, block_small); }
static void mlp_middle(bench *b) { time_block(b, block_middle); }
static void mlp_large(bench *b) { time_block(b, block_large); }

static void time_training(bench *b, block s) {
    HD_SCOPE;
    hd_tensor *w[BLOCK_WEIGHTS];
    block_make_weights(s, w);
    hd_script *script = block_training_script(s, w, input_numbers(HD_SHAPE(s.batch, s.in), 1),
                                              input_numbers(HD_SHAPE(s.batch, s.out), 2));
    check_training(b, s, script);
    time_runs(b, script);
}
static void mlp_train_small(bench *b) { time_training(b, block_small); }
static void mlp_train_middle(bench *b) { time_training(b, block_middle); }
static void mlp_train_large(bench *b) { time_training(b, block_large); }

/* The same with products in i8, beside our own f32. */
static void mlp_int8(bench *b) {
    HD_SCOPE;
    hd_tensor *w[BLOCK_WEIGHTS], *x = input_numbers(HD_SHAPE(block_middle.batch, block_middle.in), 1);
    block_make_weights(block_middle, w);
    hd_script *f32 = block_script(block_middle, w, x), *i8 = hd_quantize(f32, (hd_tensors *const[]){HD_TENSORS(x)}, 1);
    hd_script_set_input(i8, "x", x);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(i8);
        }
        BENCH(b, "f32") {
            HD_SCOPE;
            hd_script_run(f32);
        }
    }
}

static void mlp_784(bench *b) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *w1 = weight_numbers(HD_SHAPE(784, 128), 10), *b1 = weight_numbers(HD_SHAPE(128), 11),
              *w2 = weight_numbers(HD_SHAPE(128, 10), 12), *b2 = weight_numbers(HD_SHAPE(10), 13);
    hd_builder *builder = hd_builder_new("digits");
    hd_builder_start(builder);
    hd_tensor *h = hd_relu(hd_add(hd_matmul(hd_input("x", HD_SHAPE(1, 784), HD_F32), w1), b1));
    hd_builder_add_output(builder, "y", hd_add(hd_matmul(h, w2), b2));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", input_numbers(HD_SHAPE(1, 784), 1));
    check_values(b, hd_outputs_at(hd_script_run(s), 0));
    time_runs(b, s);
}

/* h = tanh(h w + x), again and again: all steps read one weight. */
enum { STEPS = 16, ROWS = 64, WIDTH = 512 };
static hd_tensor *recurrence(hd_tensor *x, hd_tensor *w) {
    hd_tensor *h = x;
    for (int i = 0; i < STEPS; ++i) h = hd_tanh(hd_add(hd_matmul(h, w), x));
    return h;
}
static void recurrence_64x512(bench *b) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *w = weight_numbers(HD_SHAPE(WIDTH, WIDTH), 10);
    hd_builder *builder = hd_builder_new("recurrence");
    hd_builder_start(builder);
    hd_builder_add_output(builder, "y", recurrence(hd_input("x", HD_SHAPE(ROWS, WIDTH), HD_F32), w));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", input_numbers(HD_SHAPE(ROWS, WIDTH), 1));
    check_values(b, hd_outputs_at(hd_script_run(s), 0));
    time_runs(b, s);
}

static void recurrence_train_64x512(bench *b) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    hd_tensor *w = hd_requires_grad(weight_numbers(HD_SHAPE(WIDTH, WIDTH), 10));
    hd_builder *builder = hd_builder_new("recurrence");
    hd_builder_start(builder);
    hd_builder_add_state(builder, "w", w);
    hd_tensor *x = hd_input("x", HD_SHAPE(ROWS, WIDTH), HD_F32), *y = hd_input("y", HD_SHAPE(ROWS, WIDTH), HD_F32);
    hd_tensor *loss = hd_mse(recurrence(x, w), y, NULL);
    hd_tensor *gradient = hd_tensors_get(hd_grad_of(loss, HD_TENSORS(w), NULL), 0);
    hd_builder_add_output(builder, "loss", loss);
    {
        HD_NO_GRAD;
        hd_assign(w, hd_sub(w, hd_mul_scalar(gradient, learning_rate)));
    }
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", input_numbers(HD_SHAPE(ROWS, WIDTH), 1));
    hd_script_set_input(s, "y", input_numbers(HD_SHAPE(ROWS, WIDTH), 2));
    double loss_now = 0;
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        loss_now = hd_item(hd_outputs_at(hd_script_run(s), 0));
        if (i == 0) bench_check(b, loss_now);
    }
    bench_check(b, loss_now);
    time_runs(b, s);
}

/* One layer with weights of a half, and its values, which are of that half too. */
static void time_half_layer(bench *b, int64_t rows, int64_t size) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *w = hd_cast(weight_numbers(HD_SHAPE(size, size), 10), HD_BF16);
    hd_tensor *bias = hd_cast(weight_numbers(HD_SHAPE(size), 11), HD_BF16);
    hd_builder *builder = hd_builder_new("half");
    hd_builder_start(builder);
    hd_builder_add_output(builder, "y", hd_gelu(hd_affine(hd_input("x", HD_SHAPE(rows, size), HD_BF16), w, bias)));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", hd_cast(input_numbers(HD_SHAPE(rows, size), 1), HD_BF16));
    time_runs(b, s);
}
static void layer_bf16_1x2048(bench *b) { time_half_layer(b, 1, 2048); }
static void layer_bf16_64x1024(bench *b) { time_half_layer(b, 64, 1024); }

/* i8 x i8 -> i32, the second one a constant. */
static void matmul_i8_512(bench *b) {
    HD_SCOPE;
    hd_tensor *w = hd_randint(HD_SHAPE(512, 512), HD_I8, -128, 128);
    hd_builder *builder = hd_builder_new("integers");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(512, 512), HD_I8);
    hd_builder_add_output(builder, "y", hd_matmul(hd_cast(x, HD_I32), hd_cast(w, HD_I32)));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", hd_randint(HD_SHAPE(512, 512), HD_I8, -128, 128));
    time_runs(b, s);
}

static hd_tensor *chain(hd_tensor *const *in) {
    hd_tensor *x = in[0], *y = in[1];
    hd_tensor *left = hd_mul(hd_tanh(hd_add(hd_mul_scalar(x, 1.1), y)), hd_sigmoid(y));
    return hd_add(hd_sub(left, hd_mul_scalar(hd_relu(x), 0.5)), hd_exp(hd_mul(hd_neg(x), x)));
}
static void time_chain(bench *b, int64_t n) { time_graph(b, chain, 2, (hd_shape[]){HD_SHAPE(n), HD_SHAPE(n)}); }
static void chain_2_16(bench *b) { time_chain(b, 1 << 16); }
static void chain_2_20(bench *b) { time_chain(b, 1 << 20); }
static void chain_2_24(bench *b) { time_chain(b, 1 << 24); }

/* A script of one op beside one that reads and writes as much, and computes nothing but x * 2. */
static hd_script *script_of_one(hd_tensor *(*graph)(hd_tensor *x), int64_t n) {
    hd_builder *builder = hd_builder_new("one");
    hd_builder_start(builder);
    hd_builder_add_output(builder, "result", graph(hd_input("x", HD_SHAPE(n), HD_F32)));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", input_numbers(HD_SHAPE(n), 1));
    return s;
}
static hd_tensor *scaled(hd_tensor *x) { return hd_mul_scalar(x, 2); }
static hd_tensor *dropped(hd_tensor *x) { return hd_dropout(x, 0.1); }
static void dropout_2_24(bench *b) {
    HD_SCOPE;
    hd_script *drops = script_of_one(dropped, 1 << 24), *scales = script_of_one(scaled, 1 << 24);
    while (bench_round(b)) {
        BENCH(b, "hodu") {
            HD_SCOPE;
            hd_script_run(drops);
        }
        BENCH(b, "scale") {
            HD_SCOPE;
            hd_script_run(scales);
        }
    }
}

static hd_tensor *softmax(hd_tensor *const *in) { return hd_softmax(in[0], -1); }
static void softmax_4096x1024(bench *b) { time_graph(b, softmax, 1, (hd_shape[]){HD_SHAPE(4096, 1024)}); }

static hd_tensor *layer_norm(hd_tensor *const *in) { return hd_layer_norm(in[0], 1, in[1], in[2], 1e-5); }
static void layer_norm_4096x1024(bench *b) {
    time_graph(b, layer_norm, 3, (hd_shape[]){HD_SHAPE(4096, 1024), HD_SHAPE(1024), HD_SHAPE(1024)});
}

static hd_tensor *conv(hd_tensor *const *in) {
    return hd_conv2d(in[0], in[1], NULL, HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}}));
}
static void conv_8x64x56x56(bench *b) {
    time_graph(b, conv, 2, (hd_shape[]){HD_SHAPE(8, 64, 56, 56), HD_SHAPE(64, 64, 3, 3)});
}

static hd_tensor *attention(hd_tensor *const *in) { return hd_attention(in[0], in[1], in[2], NULL, true, 0.125); }
static void attention_1x8x512x64(bench *b) {
    const hd_shape shape = HD_SHAPE(1, 8, 512, 64);
    time_graph(b, attention, 3, (hd_shape[]){shape, shape, shape});
}

/* Training a model of four numbers, compared after ten epochs. */
static void linear_3x1_step(bench *b) {
    HD_SCOPE;
    const line l = make_line();
    hd_script *s = line_script(&l, 1, true);
    double loss = 0;
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        loss = hd_item(hd_outputs_at(hd_script_run(s), 0));
    }
    bench_check(b, loss);
    time_runs(b, s);
}

/* ---- a cache of our own ------------------------------------------------------------------------------------------ */
static char cache_path[256];

static void remove_cache(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", cache_path);
    if (system(command) != 0) fail(command);
}

/* An empty directory is the cache of this process and its children from here on. */
static void use_empty_cache(void) {
    if (cache_path[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(cache_path, sizeof cache_path, "%s/hodu-bench-XXXXXX", base != NULL ? base : "/tmp");
        if (mkdtemp(cache_path) == NULL) fail(cache_path);
        atexit(remove_cache);
        setenv("HODU_CACHE_DIR", cache_path, 1);
    }
    hd_cache_clear();
}

/* That nothing was found; an MLP has no kernels that would have to be compiled. */
static bool all_compiled_now(hd_script *s) {
    const hd_script_figures f = hd_script_stats(s);
    if (f.kernels_from_disk == 0) return true;
    fprintf(stderr, "static.c: %lld kernels were compiled and %lld found: the cache was not empty\n",
            (long long)f.kernels_compiled, (long long)f.kernels_from_disk);
    return false;
}

enum { COMPILES_LEAST = 7, COMPILES_MOST = 64 };

static void report_median(bench *b, double *sample, int count) {
    qsort(sample, (size_t)count, sizeof *sample, bench_compare);
    bench_value(b, "hodu", (sample[(count - 1) / 2] + sample[count / 2]) / 2);
}

/* Seconds from recording to code in place, nothing cached. LLVM's load falls into the first, which is left out. */
static double compile_seconds(block s) {
    HD_SCOPE;
    hd_tensor *w[BLOCK_WEIGHTS];
    block_make_weights(s, w);
    hd_tensor *x = input_numbers(HD_SHAPE(s.batch, s.in), 1);
    use_empty_cache();
    const double begin = bench_now();
    hd_script *script = block_script(s, w, x);
    hd_script_compile(script);
    const double seconds = bench_now() - begin;
    return all_compiled_now(script) ? seconds : NAN;
}

static void time_compile(bench *b, block s) {
    double sample[COMPILES_MOST], spent = 0;
    int count = 0;
    compile_seconds(s);
    while (count < COMPILES_MOST && (count < COMPILES_LEAST || spent < b->seconds) && hd_ok())
        spent += sample[count++] = compile_seconds(s);
    report_median(b, sample, count);
}
static void compile_small(bench *b) { time_compile(b, block_small); }
static void compile_middle(bench *b) { time_compile(b, block_middle); }
static void compile_large(bench *b) { time_compile(b, block_large); }

/* Recorded, compiled with an empty cache, and run once. */
static double unrolled_seconds(int epochs, double *loss) {
    HD_SCOPE;
    const line l = make_line();
    use_empty_cache();
    const double begin = bench_now();
    hd_script *s = line_script(&l, epochs, false);
    *loss = hd_item(hd_outputs_at(hd_script_run(s), 0));
    const double seconds = bench_now() - begin;
    return all_compiled_now(s) ? seconds : NAN;
}

static void time_unrolled(bench *b, int epochs) {
    double sample[COMPILES_LEAST], loss = 0;
    unrolled_seconds(epochs, &loss);
    for (int i = 0; i < COMPILES_LEAST; ++i) sample[i] = unrolled_seconds(epochs, &loss);
    bench_check(b, loss);
    report_median(b, sample, COMPILES_LEAST);
}
static void unrolled_100(bench *b) { time_unrolled(b, 100); }
static void unrolled_1000(bench *b) { time_unrolled(b, 1000); }

/* ---- processes --------------------------------------------------------------------------------------------------- */
/* What static_process.c prints, and how long it took from launch to end. */
typedef struct child_figures {
    double compile_ms, llvm_load_ms, most_mb, seconds;
} child_figures;

/* bench_static_process lies beside this program. */
static child_figures run_child(const char *network, const char *size) {
    char self[4000], path[4096], text[512];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) fail("/proc/self/exe");
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/bench_static_process", dirname(self));
    char *argv[] = {path, (char *)network, (char *)size, NULL};
    int ends[2], status;
    if (pipe(ends) != 0) fail("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child;
    child_figures f;
    const double begin = bench_now();
    if (posix_spawn(&child, path, &actions, NULL, argv, environ) != 0) fail(path);
    close(ends[1]);
    if (waitpid(child, &status, 0) != child || status != 0) fail(path);
    f.seconds = bench_now() - begin;
    const ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    posix_spawn_file_actions_destroy(&actions);
    text[got > 0 ? got : 0] = '\0';
    if (sscanf(text, "compile %lf ms, LLVM %lf ms, most %lf MB", &f.compile_ms, &f.llvm_load_ms, &f.most_mb) != 3)
        fail(path);
    return f;
}

typedef enum figure { COMPILE_SECONDS, LLVM_LOAD_SECONDS, MOST_MB, WHOLE_SECONDS } figure;
static double pick(child_figures f, figure which) {
    switch (which) {
    case COMPILE_SECONDS: return f.compile_ms * 1e-3;
    case LLVM_LOAD_SECONDS: return f.llvm_load_ms * 1e-3;
    case MOST_MB: return f.most_mb;
    case WHOLE_SECONDS: return f.seconds;
    }
    return NAN;
}

/* The median of one figure of several processes, each with an empty cache, or each with what the first left in it. */
static void time_children(bench *b, figure which, bool cached, const char *network, const char *size) {
    double sample[COMPILES_LEAST];
    use_empty_cache();
    run_child(network, size);
    for (int i = 0; i < COMPILES_LEAST; ++i) {
        if (!cached) use_empty_cache();
        sample[i] = pick(run_child(network, size), which);
    }
    report_median(b, sample, COMPILES_LEAST);
}
#define CHILD_CASE(name, which, cached, network, size)                                                                 \
    static void name(bench *b) { time_children(b, which, cached, network, size); }
CHILD_CASE(llvm_load, LLVM_LOAD_SECONDS, false, "train", "small")
CHILD_CASE(disk_small, COMPILE_SECONDS, true, "infer", "small")
CHILD_CASE(disk_middle, COMPILE_SECONDS, true, "infer", "middle")
CHILD_CASE(disk_large, COMPILE_SECONDS, true, "infer", "large")
CHILD_CASE(first_result, WHOLE_SECONDS, false, "infer", "small")
CHILD_CASE(first_result_disk, WHOLE_SECONDS, true, "infer", "small")
CHILD_CASE(infer_small_mb, MOST_MB, false, "infer", "small")
CHILD_CASE(infer_middle_mb, MOST_MB, false, "infer", "middle")
CHILD_CASE(infer_large_mb, MOST_MB, false, "infer", "large")
CHILD_CASE(infer_small_disk_mb, MOST_MB, true, "infer", "small")
CHILD_CASE(infer_large_disk_mb, MOST_MB, true, "infer", "large")
CHILD_CASE(train_small_mb, MOST_MB, false, "train", "small")
CHILD_CASE(train_middle_mb, MOST_MB, false, "train", "middle")
CHILD_CASE(train_large_mb, MOST_MB, false, "train", "large")
CHILD_CASE(train_large_disk_mb, MOST_MB, true, "train", "large")

static const bench_case cases[] = {
    {"static/mlp-32x256x512x256", "us", mlp_small},
    {"static/mlp-64x512x1024x512", "us", mlp_middle},
    {"static/mlp-128x768x2048x1024", "us", mlp_large},
    {"static/mlp-train-32x256x512x256", "us", mlp_train_small},
    {"static/mlp-train-64x512x1024x512", "us", mlp_train_middle},
    {"static/mlp-train-128x768x2048x1024", "us", mlp_train_large},
    {"static/mlp-1x784x128x10", "us", mlp_784},
    {"static/mlp-int8-64x512x1024x512", "us", mlp_int8},
    {"static/recurrence-64x512", "us", recurrence_64x512},
    {"static/recurrence-train-64x512", "us", recurrence_train_64x512},
    {"static/layer-bf16-1x2048", "us", layer_bf16_1x2048},
    {"static/layer-bf16-64x1024", "us", layer_bf16_64x1024},
    {"static/matmul-i8-512", "us", matmul_i8_512},
    {"static/chain-2^16", "us", chain_2_16},
    {"static/chain-2^20", "us", chain_2_20},
    {"static/chain-2^24", "us", chain_2_24},
    {"static/dropout-2^24", "us", dropout_2_24},
    {"static/softmax-4096x1024", "us", softmax_4096x1024},
    {"static/layer-norm-4096x1024", "us", layer_norm_4096x1024},
    {"static/conv-8x64x56x56", "us", conv_8x64x56x56},
    {"static/attention-1x8x512x64", "us", attention_1x8x512x64},
    {"static/linear-3x1-step", "us", linear_3x1_step},
    {"static/compile-32x256x512x256", "ms", compile_small},
    {"static/compile-64x512x1024x512", "ms", compile_middle},
    {"static/compile-128x768x2048x1024", "ms", compile_large},
    {"static/llvm-load", "ms", llvm_load},
    {"static/disk-32x256x512x256", "ms", disk_small},
    {"static/disk-64x512x1024x512", "ms", disk_middle},
    {"static/disk-128x768x2048x1024", "ms", disk_large},
    {"static/unrolled-100", "ms", unrolled_100},
    {"static/unrolled-1000", "ms", unrolled_1000},
    {"static/first-result", "ms", first_result},
    {"static/first-result-disk", "ms", first_result_disk},
    {"static/memory-32x256x512x256", "MB", infer_small_mb},
    {"static/memory-64x512x1024x512", "MB", infer_middle_mb},
    {"static/memory-128x768x2048x1024", "MB", infer_large_mb},
    {"static/memory-32x256x512x256-disk", "MB", infer_small_disk_mb},
    {"static/memory-128x768x2048x1024-disk", "MB", infer_large_disk_mb},
    {"static/memory-train-32x256x512x256", "MB", train_small_mb},
    {"static/memory-train-64x512x1024x512", "MB", train_middle_mb},
    {"static/memory-train-128x768x2048x1024", "MB", train_large_mb},
    {"static/memory-train-128x768x2048x1024-disk", "MB", train_large_disk_mb},
};

int main(int argc, char **argv) { return bench_main(argc, argv, cases, sizeof cases / sizeof *cases); }
