/* What a second thread brings: calls and scripts of every kind on two threads and on one, in turns. A second thread
 * must never make anything slower, so a figure is the shortest sample, not the median, and what looks slower is
 * measured for longer before it is called so. A row of the list at the end is a call with its sizes; it is measured as
 * a call, as a script, and with its gradients. */
#include "harness.h"
#include "static.h"

enum { TENSORS = 4, SIZES = 7, KINDS = 4 };
#define SAMPLE   2e-4 /* seconds, or one run: short, so that some samples fall between what else the machine does */
#define PATIENCE 10   /* times as long for what looks slower */
#define SLOWER   1.04

typedef struct row row;
struct row {
    const char *name;
    void (*make)(const row *r, hd_tensor **x); /* the operands: x[0] is a script's input, the others its constants */
    hd_tensor *(*call)(const row *r, hd_tensor **x);
    int gradients; /* of so many operands; 0: none are measured */
    int64_t size[SIZES];
};

static hd_tensor *normal(hd_shape shape) { return hd_randn(shape, HD_F32); }
static hd_shape plain_shape(const int64_t *size) { /* up to a size of 0 */
    hd_shape s = {0};
    while (s.rank < SIZES && size[s.rank] > 0) {
        s.size[s.rank] = size[s.rank];
        s.rank++;
    }
    return s;
}

/* ---- elementwise ------------------------------------------------------------------------------------------------- */
static void one(const row *r, hd_tensor **x) { x[0] = normal(plain_shape(r->size)); }
static void two(const row *r, hd_tensor **x) {
    one(r, x);
    x[1] = normal(plain_shape(r->size));
}
static void with_row(const row *r, hd_tensor **x) {
    one(r, x);
    x[1] = normal(HD_SHAPE(r->size[1]));
}
static void with_column(const row *r, hd_tensor **x) {
    one(r, x);
    x[1] = normal(HD_SHAPE(r->size[0], 1));
}
static void with_turned(const row *r, hd_tensor **x) {
    one(r, x);
    x[1] = hd_t(normal(HD_SHAPE(r->size[1], r->size[0])));
}
static void one_bf16(const row *r, hd_tensor **x) { x[0] = hd_cast(normal(plain_shape(r->size)), HD_BF16); }
static hd_tensor *add(const row *r, hd_tensor **x) { return (void)r, hd_add(x[0], x[1]); }
static hd_tensor *gelu(const row *r, hd_tensor **x) { return (void)r, hd_gelu(x[0]); }
static hd_tensor *exponential(const row *r, hd_tensor **x) { return (void)r, hd_exp(x[0]); }
static hd_tensor *relu(const row *r, hd_tensor **x) { return (void)r, hd_relu(x[0]); }
static hd_tensor *chain(const row *r, hd_tensor **x) {
    (void)r;
    return hd_tanh(hd_mul(hd_add(x[0], x[1]), hd_sigmoid(hd_mul_scalar(x[1], 0.5))));
}
static hd_tensor *to_f32(const row *r, hd_tensor **x) { return (void)r, hd_cast(x[0], HD_F32); }
static hd_tensor *turned(const row *r, hd_tensor **x) { return (void)r, hd_contiguous(hd_t(x[0])); }

/* ---- reductions and norms ---------------------------------------------------------------------------------------- */
static hd_tensor *sum_all(const row *r, hd_tensor **x) { return (void)r, hd_sum(x[0], HD_AXES(), NULL); }
static hd_tensor *sum_0(const row *r, hd_tensor **x) { return (void)r, hd_sum(x[0], HD_AXES(0), NULL); }
static hd_tensor *sum_1(const row *r, hd_tensor **x) { return (void)r, hd_sum(x[0], HD_AXES(1), NULL); }
static hd_tensor *max_1(const row *r, hd_tensor **x) { return (void)r, hd_max(x[0], HD_AXES(1), NULL); }
static hd_tensor *argmax_1(const row *r, hd_tensor **x) { return (void)r, hd_argmax(x[0], 1, NULL); }
static hd_tensor *variance(const row *r, hd_tensor **x) { return (void)r, hd_var(x[0], HD_AXES(0), 1, NULL); }
static hd_tensor *softmax(const row *r, hd_tensor **x) { return (void)r, hd_softmax(x[0], -1); }
static hd_tensor *softmax_0(const row *r, hd_tensor **x) { return (void)r, hd_softmax(x[0], 0); }
static void for_norm(const row *r, hd_tensor **x) {
    one(r, x);
    x[1] = normal(HD_SHAPE(r->size[1]));
    x[2] = normal(HD_SHAPE(r->size[1]));
}
static hd_tensor *layer_norm(const row *r, hd_tensor **x) { return (void)r, hd_layer_norm(x[0], 1, x[1], x[2], 1e-5); }
static hd_tensor *rms_norm(const row *r, hd_tensor **x) { return (void)r, hd_rms_norm(x[0], x[1], 1e-5); }

/* ---- products: rows, inner, columns, matrices -------------------------------------------------------------------- */
static void matrices(const row *r, hd_tensor **x) {
    const int64_t *s = r->size;
    x[0] = s[3] > 0 ? normal(HD_SHAPE(s[3], s[0], s[1])) : normal(HD_SHAPE(s[0], s[1]));
    x[1] = s[3] > 0 ? normal(HD_SHAPE(s[3], s[1], s[2])) : normal(HD_SHAPE(s[1], s[2]));
}
static void matrices_bf16(const row *r, hd_tensor **x) {
    matrices(r, x);
    x[0] = hd_cast(x[0], HD_BF16);
    x[1] = hd_cast(x[1], HD_BF16);
}
static void matrices_i8(const row *r, hd_tensor **x) {
    x[0] = hd_randint(HD_SHAPE(r->size[0], r->size[1]), HD_I8, -128, 128);
    x[1] = hd_randint(HD_SHAPE(r->size[1], r->size[2]), HD_I8, -128, 128);
}
static hd_tensor *matmul(const row *r, hd_tensor **x) { return (void)r, hd_matmul(x[0], x[1]); }
static hd_tensor *matmul_i32(const row *r, hd_tensor **x) {
    return (void)r, hd_matmul(hd_cast(x[0], HD_I32), hd_cast(x[1], HD_I32));
}
static void for_affine(const row *r, hd_tensor **x) {
    x[0] = normal(HD_SHAPE(r->size[0], r->size[1]));
    x[1] = normal(HD_SHAPE(r->size[2], r->size[1]));
    x[2] = normal(HD_SHAPE(r->size[2]));
}
static hd_tensor *affine(const row *r, hd_tensor **x) { return (void)r, hd_relu(hd_affine(x[0], x[1], x[2])); }

/* ---- images: batch, channels, lines and columns, results, window, stride, groups --------------------------------- */
static hd_conv_opts window_of(const row *r) {
    const int64_t pad = r->size[4] / 2;
    return *HD_OPTS(hd_conv_opts, .padding = {{pad, pad}, {pad, pad}}, .stride = {r->size[5], r->size[5]},
                    .groups = r->size[6]);
}
static void images(const row *r, hd_tensor **x) {
    const int64_t *s = r->size;
    x[0] = normal(HD_SHAPE(s[0], s[1], s[2], s[2]));
    x[1] = normal(HD_SHAPE(s[3], s[1] / s[6], s[4], s[4]));
    x[2] = normal(HD_SHAPE(s[3]));
}
static void images_turned(const row *r, hd_tensor **x) {
    images(r, x);
    x[1] = normal(HD_SHAPE(r->size[1], r->size[3] / r->size[6], r->size[4], r->size[4]));
}
static hd_tensor *conv(const row *r, hd_tensor **x) {
    const hd_conv_opts o = window_of(r);
    return hd_relu(hd_conv2d(x[0], x[1], x[2], &o));
}
static hd_tensor *conv_transpose(const row *r, hd_tensor **x) {
    const hd_conv_opts o = window_of(r);
    return hd_conv_transpose2d(x[0], x[1], x[2], &o);
}
static void image(const row *r, hd_tensor **x) {
    x[0] = normal(HD_SHAPE(r->size[0], r->size[1], r->size[2], r->size[2]));
}
static hd_tensor *max_pool(const row *r, hd_tensor **x) {
    return hd_max_pool(x[0], HD_SHAPE(r->size[4], r->size[4]), HD_OPTS(hd_pool_opts, .stride = {2, 2}));
}
static hd_tensor *avg_pool(const row *r, hd_tensor **x) {
    return hd_avg_pool(x[0], HD_SHAPE(r->size[4], r->size[4]), HD_OPTS(hd_pool_opts, .stride = {2, 2}));
}

/* ---- attention: batch, heads, length, width ---------------------------------------------------------------------- */
static void heads(const row *r, hd_tensor **x) {
    for (int i = 0; i < 3; ++i) x[i] = normal(plain_shape(r->size));
}
static hd_tensor *attention(const row *r, hd_tensor **x) {
    return (void)r, hd_attention(x[0], x[1], x[2], NULL, true, 0.125);
}

/* ---- places: rows, columns, indices ------------------------------------------------------------------------------ */
static void table(const row *r, hd_tensor **x) {
    x[0] = normal(HD_SHAPE(r->size[0], r->size[1]));
    x[1] = hd_randint(HD_SHAPE(r->size[2]), HD_I64, 0, r->size[0]);
    x[2] = normal(HD_SHAPE(r->size[2], r->size[1]));
}
static void places(const row *r, hd_tensor **x) {
    x[0] = normal(HD_SHAPE(r->size[0], r->size[1]));
    x[1] = hd_randint(HD_SHAPE(r->size[0], r->size[1]), HD_I64, 0, r->size[1]);
    x[2] = normal(HD_SHAPE(r->size[0], r->size[1]));
}
static hd_tensor *gather(const row *r, hd_tensor **x) { return (void)r, hd_gather(x[0], 1, x[1]); }
static hd_tensor *select_rows(const row *r, hd_tensor **x) { return (void)r, hd_index_select(x[0], 0, x[1]); }
static hd_tensor *scatter(const row *r, hd_tensor **x) {
    return (void)r, hd_scatter(x[0], 1, x[1], x[2], HD_SCATTER_ADD);
}
static hd_tensor *add_rows(const row *r, hd_tensor **x) { return (void)r, hd_index_add(x[0], 0, x[1], x[2]); }
static hd_tensor *join_0(const row *r, hd_tensor **x) { return (void)r, hd_concat((hd_tensor *[]){x[0], x[1]}, 2, 0); }
static hd_tensor *join_1(const row *r, hd_tensor **x) { return (void)r, hd_concat((hd_tensor *[]){x[0], x[1]}, 2, 1); }
static hd_tensor *pad(const row *r, hd_tensor **x) {
    return (void)r, hd_pad(x[0], (hd_padding[]){{1, 1}, {3, 3}}, 2, 0);
}
static hd_tensor *roll(const row *r, hd_tensor **x) { return (void)r, hd_roll(x[0], 3, 1); }
static hd_tensor *draw(const row *r, hd_tensor **x) {
    return (void)r, hd_add(x[0], hd_randn(plain_shape(r->size), HD_F32));
}
static hd_tensor *drop(const row *r, hd_tensor **x) {
    return (void)r, hd_mul(x[0], hd_bernoulli(plain_shape(r->size), HD_F32, 0.5));
}

/* ---- measuring --------------------------------------------------------------------------------------------------- */
typedef struct subject {
    const row *r;
    hd_tensor *x[TENSORS];
    hd_script *script;       /* NULL: the call itself, */
    hd_optimizer *optimizer; /* or a step of it */
    bool differentiates;
} subject;

static hd_tensor *forward(const row *r, hd_tensor **x) { return r->call(r, x); }
static void step(subject *s) {
    HD_SCOPE;
    if (s->script != NULL) {
        hd_script_run(s->script);
    } else if (s->optimizer != NULL) {
        hd_optimizer_step(s->optimizer);
    } else if (s->differentiates) {
        hd_backward(hd_sum(hd_square(forward(s->r, s->x)), HD_AXES(), NULL));
        for (int i = 0; i < s->r->gradients; ++i) hd_zero_grad(s->x[i]);
        hd_clear_tape();
    } else {
        forward(s->r, s->x);
    }
}

static hd_script *script_of(const row *r, hd_tensor **x, bool differentiates) {
    hd_builder *b = hd_builder_new("case");
    hd_builder_start(b);
    static const char *const names[TENSORS] = {"a", "b", "c", "d"};
    hd_tensor *inside[TENSORS];
    memcpy(inside, x, sizeof inside);
    if (!differentiates) inside[0] = hd_input("x", hd_tensor_shape(x[0]), hd_tensor_dtype(x[0]));
    if (differentiates) {
        for (int i = 0; i < r->gradients; ++i) hd_builder_add_state(b, names[i], x[i]); /* no constants */
        hd_tensor *loss = hd_sum(hd_square(forward(r, inside)), HD_AXES(), NULL);
        hd_tensors *gradients = hd_grad_of(loss, hd_tensors_from(inside, r->gradients), NULL);
        for (int i = 0; i < r->gradients; ++i) hd_builder_add_output(b, names[i], hd_tensors_get(gradients, i));
    } else {
        hd_builder_add_output(b, "y", forward(r, inside));
    }
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (!differentiates) hd_script_set_input(s, "x", x[0]);
    return s;
}

/* Seconds of a run on so many threads: one sample of `repeat` runs, after some that wake them. */
static double sample(subject *s, int threads, int64_t repeat) {
    hd_set_num_threads(threads);
    const double woken = bench_now() + SAMPLE;
    do step(s);
    while (bench_now() < woken && hd_ok());
    const double begin = bench_now();
    for (int64_t i = 0; i < repeat; ++i) step(s);
    return (bench_now() - begin) / (double)repeat;
}

static void measure(bench *b, subject *s) {
    enum { LEAST_ROUNDS = 20 };
    double best[2] = {INFINITY, INFINITY}, spent = 0;
    int64_t repeat = 1;
    for (double t = sample(s, 1, 1); t * (double)repeat < SAMPLE && hd_ok();) {
        repeat *= 2;
        t = sample(s, 1, repeat);
    }
    for (int round = 0; hd_ok(); ++round) {
        const bool enough = round >= LEAST_ROUNDS && spent >= 2 * b->seconds, looks_slower = best[1] > SLOWER * best[0];
        if (enough && (!looks_slower || spent >= 2 * PATIENCE * b->seconds)) break;
        for (int t = 0; t < 2; ++t) {
            const double seconds = sample(s, t + 1, repeat);
            best[t] = fmin(best[t], seconds);
            spent += seconds * (double)repeat;
        }
    }
    bench_value(b, "hodu", best[1]);
    bench_value(b, "one-thread", best[0]);
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */
static const row rows[] = {
    {"add-2^10", two, add, 0, {1 << 10}},
    {"add-2^14", two, add, 2, {1 << 14}},
    {"add-2^15", two, add, 0, {1 << 15}},
    {"add-2^16", two, add, 0, {1 << 16}},
    {"add-2^18", two, add, 0, {1 << 18}},
    {"add-2^22", two, add, 2, {1 << 22}},
    {"relu-2^15", one, relu, 0, {1 << 15}},
    {"exp-2^12", one, exponential, 0, {1 << 12}},
    {"exp-2^14", one, exponential, 0, {1 << 14}},
    {"gelu-2^13", one, gelu, 1, {1 << 13}},
    {"gelu-2^16", one, gelu, 1, {1 << 16}},
    {"chain-2^12", two, chain, 2, {1 << 12}},
    {"chain-2^16", two, chain, 2, {1 << 16}},
    {"cast-bf16-2^16", one_bf16, to_f32, 0, {1 << 16}},
    {"broadcast-row-64x256", with_row, add, 2, {64, 256}},
    {"broadcast-row-512x512", with_row, add, 2, {512, 512}},
    {"broadcast-column-512x512", with_column, add, 2, {512, 512}},
    {"transposed-128x128", with_turned, add, 0, {128, 128}},
    {"transposed-512x512", with_turned, add, 0, {512, 512}},
    {"contiguous-256x256", one, turned, 0, {256, 256}},
    {"sum-2^14", one, sum_all, 1, {1 << 14}},
    {"sum-2^17", one, sum_all, 0, {1 << 17}},
    {"sum-2^20", one, sum_all, 1, {1 << 20}},
    {"sum-0-128x128", one, sum_0, 1, {128, 128}},
    {"sum-0-4096x16", one, sum_0, 0, {4096, 16}},
    {"sum-0-1024x1024", one, sum_0, 0, {1024, 1024}},
    {"sum-1-128x128", one, sum_1, 1, {128, 128}},
    {"sum-1-16x4096", one, sum_1, 0, {16, 4096}},
    {"sum-1-1024x1024", one, sum_1, 0, {1024, 1024}},
    {"max-1-128x512", one, max_1, 1, {128, 512}},
    {"argmax-1-128x512", one, argmax_1, 0, {128, 512}},
    {"var-0-1024x64", one, variance, 1, {1024, 64}},
    {"softmax-64x128", one, softmax, 1, {64, 128}},
    {"softmax-256x1024", one, softmax, 1, {256, 1024}},
    {"softmax-0-256x256", one, softmax_0, 1, {256, 256}},
    {"layer-norm-32x256", for_norm, layer_norm, 3, {32, 256}},
    {"layer-norm-512x512", for_norm, layer_norm, 3, {512, 512}},
    {"rms-norm-64x512", for_norm, rms_norm, 2, {64, 512}},
    {"matmul-32", matrices, matmul, 2, {32, 32, 32}},
    {"matmul-64", matrices, matmul, 2, {64, 64, 64}},
    {"matmul-80", matrices, matmul, 0, {80, 80, 80}},
    {"matmul-96", matrices, matmul, 2, {96, 96, 96}},
    {"matmul-128", matrices, matmul, 2, {128, 128, 128}},
    {"matmul-256", matrices, matmul, 2, {256, 256, 256}},
    {"matmul-512", matrices, matmul, 2, {512, 512, 512}},
    {"matmul-1x256x256", matrices, matmul, 0, {1, 256, 256}},
    {"matmul-1x1024x1024", matrices, matmul, 2, {1, 1024, 1024}},
    {"matmul-4x512x512", matrices, matmul, 0, {4, 512, 512}},
    {"matmul-8x256x1024", matrices, matmul, 0, {8, 256, 1024}},
    {"matmul-16x1024x16", matrices, matmul, 0, {16, 1024, 16}},
    {"matmul-7x512x40", matrices, matmul, 0, {7, 512, 40}},
    {"matmul-4096x64x16", matrices, matmul, 0, {4096, 64, 16}},
    {"matmul-1024x16x16", matrices, matmul, 0, {1024, 16, 16}},
    {"matmul-64x4096x64", matrices, matmul, 0, {64, 4096, 64}},
    {"matmul-1000x10x1000", matrices, matmul, 0, {1000, 10, 1000}},
    {"matmul-13x100x49", matrices, matmul, 0, {13, 100, 49}},
    {"matmul-100x30x33", matrices, matmul, 0, {100, 30, 33}},
    {"matmul-8x32x32x32", matrices, matmul, 2, {32, 32, 32, 8}},
    {"matmul-2x64x64x64", matrices, matmul, 0, {64, 64, 64, 2}},
    {"matmul-64x16x16x16", matrices, matmul, 0, {16, 16, 16, 64}},
    {"matmul-3x128x128x128", matrices, matmul, 0, {128, 128, 128, 3}},
    {"matmul-bf16-1x1024x1024", matrices_bf16, matmul, 0, {1, 1024, 1024}},
    {"matmul-bf16-64", matrices_bf16, matmul, 0, {64, 64, 64}},
    {"matmul-bf16-256", matrices_bf16, matmul, 0, {256, 256, 256}},
    {"matmul-i8-64", matrices_i8, matmul_i32, 0, {64, 64, 64}},
    {"matmul-i8-256", matrices_i8, matmul_i32, 0, {256, 256, 256}},
    {"affine-16x64x64", for_affine, affine, 3, {16, 64, 64}},
    {"affine-32x256x256", for_affine, affine, 3, {32, 256, 256}},
    {"affine-64x784x128", for_affine, affine, 3, {64, 784, 128}},
    {"affine-1x512x512", for_affine, affine, 0, {1, 512, 512}},
    {"conv-3x3-256x14", images, conv, 2, {1, 256, 14, 256, 3, 1, 1}},
    {"conv-3x3-128x14", images, conv, 0, {1, 128, 14, 128, 3, 1, 1}},
    {"conv-3x3-512x14", images, conv, 0, {1, 512, 14, 512, 3, 1, 1}},
    {"conv-3x3-256x16", images, conv, 0, {1, 256, 16, 256, 3, 1, 1}},
    {"conv-3x3-256x12", images, conv, 0, {1, 256, 12, 256, 3, 1, 1}},
    {"conv-3x3-256x28", images, conv, 0, {1, 256, 28, 256, 3, 1, 1}},
    {"conv-3x3-512x7", images, conv, 2, {1, 512, 7, 512, 3, 1, 1}},
    {"conv-3x3-128x28", images, conv, 0, {1, 128, 28, 128, 3, 1, 1}},
    {"conv-3x3-64x56", images, conv, 2, {1, 64, 56, 64, 3, 1, 1}},
    {"conv-3x3-32x32", images, conv, 2, {1, 32, 32, 32, 3, 1, 1}},
    {"conv-3x3-16x8", images, conv, 2, {1, 16, 8, 16, 3, 1, 1}},
    {"conv-3x3-16x16", images, conv, 0, {1, 16, 16, 16, 3, 1, 1}},
    {"conv-3x3-8x28", images, conv, 2, {1, 8, 28, 16, 3, 1, 1}},
    {"conv-3x3-8x64x14", images, conv, 2, {8, 64, 14, 64, 3, 1, 1}},
    {"conv-3x3-3x64", images, conv, 0, {1, 3, 64, 32, 3, 1, 1}},
    {"conv-3x3-strided-128x28", images, conv, 2, {1, 128, 28, 256, 3, 2, 1}},
    {"conv-7x7-strided-3x64", images, conv, 2, {1, 3, 64, 64, 7, 2, 1}},
    {"conv-5x5-32x14", images, conv, 2, {1, 32, 14, 32, 5, 1, 1}},
    {"conv-5x5-64x28", images, conv, 0, {1, 64, 28, 64, 5, 1, 1}},
    {"conv-1x1-64x14", images, conv, 2, {1, 64, 14, 64, 1, 1, 1}},
    {"conv-1x1-256x14", images, conv, 0, {1, 256, 14, 1024, 1, 1, 1}},
    {"conv-1x1-512x7", images, conv, 0, {1, 512, 7, 2048, 1, 1, 1}},
    {"conv-1x1-64x56", images, conv, 0, {1, 64, 56, 256, 1, 1, 1}},
    {"conv-1x1-256x1", images, conv, 0, {1, 256, 1, 64, 1, 1, 1}},
    {"conv-depthwise-32x14", images, conv, 2, {1, 32, 14, 32, 3, 1, 32}},
    {"conv-depthwise-128x28", images, conv, 2, {1, 128, 28, 128, 3, 1, 128}},
    {"conv-depthwise-strided-64x56", images, conv, 0, {1, 64, 56, 64, 3, 2, 64}},
    {"conv-grouped-128x14", images, conv, 2, {1, 128, 14, 128, 3, 1, 32}},
    {"conv-grouped-256x14", images, conv, 0, {1, 256, 14, 256, 3, 1, 2}},
    {"conv-transpose-64x14", images_turned, conv_transpose, 2, {1, 64, 14, 64, 3, 1, 1}},
    {"conv-transpose-strided-128x7", images_turned, conv_transpose, 2, {1, 128, 7, 64, 4, 2, 1}},
    {"conv-transpose-strided-64x28", images_turned, conv_transpose, 0, {1, 64, 28, 32, 4, 2, 1}},
    {"max-pool-16x14", image, max_pool, 1, {1, 16, 14, 0, 2}},
    {"max-pool-64x56", image, max_pool, 1, {1, 64, 56, 0, 3}},
    {"avg-pool-64x28", image, avg_pool, 1, {1, 64, 28, 0, 2}},
    {"attention-2x4x32x32", heads, attention, 3, {2, 4, 32, 32}},
    {"attention-1x8x128x64", heads, attention, 3, {1, 8, 128, 64}},
    {"attention-1x1x256x64", heads, attention, 3, {1, 1, 256, 64}},
    {"gather-128x256", places, gather, 1, {128, 256}},
    {"scatter-128x256", places, scatter, 0, {128, 256}},
    {"index-select-1000x64", table, select_rows, 1, {1000, 64, 256}},
    {"index-select-4096x256", table, select_rows, 1, {4096, 256, 2048}},
    {"index-add-1000x64", table, add_rows, 0, {1000, 64, 256}},
    {"concat-0-128x256", two, join_0, 2, {128, 256}},
    {"concat-1-128x256", two, join_1, 2, {128, 256}},
    {"concat-1-1024x512", two, join_1, 0, {1024, 512}},
    {"pad-128x256", one, pad, 1, {128, 256}},
    {"pad-1024x512", one, pad, 0, {1024, 512}},
    {"roll-256x256", one, roll, 0, {256, 256}},
    {"randn-2^12", one, draw, 0, {1 << 12}},
    {"randn-2^16", one, draw, 0, {1 << 16}},
    {"dropout-2^13", one, drop, 1, {1 << 13}},
    {"dropout-2^18", one, drop, 1, {1 << 18}},
};
enum { ROWS = sizeof rows / sizeof *rows };
static const char *const kinds[KINDS] = {"", "-script", "-grad", "-grad-script"};

static void run_case(bench *b) {
    HD_SCOPE;
    const int threads = hd_num_threads();
    char name[128];
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < KINDS; ++k) {
            snprintf(name, sizeof name, "threads/%s%s", rows[i].name, kinds[k]);
            if (strcmp(name, b->name) != 0) continue;
            subject s = {.r = &rows[i], .differentiates = k >= 2};
            rows[i].make(&rows[i], s.x);
            for (int g = 0; s.differentiates && g < rows[i].gradients; ++g) hd_requires_grad(s.x[g]);
            if (k % 2 == 1) s.script = script_of(&rows[i], s.x, s.differentiates);
            measure(b, &s);
        }
    hd_set_num_threads(threads);
}

/* ---- steps of optimizers, and models as scripts ------------------------------------------------------------------ */
static void measure_adam(bench *b, int count, int64_t size) {
    HD_SCOPE;
    const int threads = hd_num_threads();
    hd_tensor *list[16];
    for (int i = 0; i < count; ++i) {
        list[i] = hd_requires_grad(normal(HD_SHAPE(size)));
        hd_set_grad(list[i], normal(HD_SHAPE(size)));
    }
    measure(b, &(subject){.optimizer = hd_adam(hd_tensors_from(list, count), 1e-3, NULL)});
    hd_set_num_threads(threads);
}
static void adam_16x2_12(bench *b) { measure_adam(b, 16, 1 << 12); }
static void adam_2_14(bench *b) { measure_adam(b, 1, 1 << 14); }
static void adam_2_18(bench *b) { measure_adam(b, 1, 1 << 18); }

static void measure_block(bench *b, block size, bool trains) {
    HD_SCOPE;
    const int threads = hd_num_threads();
    hd_tensor *w[BLOCK_WEIGHTS], *x = input_numbers(HD_SHAPE(size.batch, size.in), 1),
                                 *y = input_numbers(HD_SHAPE(size.batch, size.out), 2);
    block_make_weights(size, w);
    measure(b, &(subject){.script = trains ? block_training_script(size, w, x, y) : block_script(size, w, x)});
    hd_set_num_threads(threads);
}
static const block block_tiny = {8, 32, 64, 32};
static void mlp_tiny(bench *b) { measure_block(b, block_tiny, false); }
static void mlp_tiny_train(bench *b) { measure_block(b, block_tiny, true); }
static void mlp_small(bench *b) { measure_block(b, block_small, false); }
static void mlp_small_train(bench *b) { measure_block(b, block_small, true); }
static void mlp_middle(bench *b) { measure_block(b, block_middle, false); }
static void mlp_middle_train(bench *b) { measure_block(b, block_middle, true); }
static void line_step(bench *b) {
    HD_SCOPE;
    const int threads = hd_num_threads();
    const line l = make_line();
    measure(b, &(subject){.script = line_script(&l, 1, true)});
    hd_set_num_threads(threads);
}

static const bench_case models[] = {
    {"threads/adam-16x2^12", "us", adam_16x2_12},
    {"threads/adam-2^14", "us", adam_2_14},
    {"threads/adam-2^18", "us", adam_2_18},
    {"threads/mlp-8x32x64x32-script", "us", mlp_tiny},
    {"threads/mlp-8x32x64x32-train-script", "us", mlp_tiny_train},
    {"threads/mlp-32x256x512x256-script", "us", mlp_small},
    {"threads/mlp-32x256x512x256-train-script", "us", mlp_small_train},
    {"threads/mlp-64x512x1024x512-script", "us", mlp_middle},
    {"threads/mlp-64x512x1024x512-train-script", "us", mlp_middle_train},
    {"threads/linear-3x1-step-script", "us", line_step},
};
enum { MODELS = sizeof models / sizeof *models };

int main(int argc, char **argv) {
    static bench_case cases[ROWS * KINDS + MODELS];
    static char names[ROWS * KINDS][96];
    size_t count = 0;
    for (int k = 0; k < KINDS; ++k)
        for (int i = 0; i < ROWS; ++i) {
            if (k >= 2 && rows[i].gradients == 0) continue;
            snprintf(names[count], sizeof names[count], "threads/%s%s", rows[i].name, kinds[k]);
            cases[count] = (bench_case){names[count], "us", run_case};
            count++;
        }
    for (int i = 0; i < MODELS; ++i) cases[count++] = models[i];
    return bench_main(argc, argv, cases, count);
}
