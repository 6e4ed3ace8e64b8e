/* What threads do together is what one of them would do alone: products on several threads multiply, pack and transform
 * about as much as on one. Kernels that count stand in for those of the device; no clock is asked. */
#include "support.h"

#include "device/cpu/kernels.h"

#include <stdatomic.h>

/* ---- kernels that count ------------------------------------------------------------------------------------------ */
typedef struct work {
    int64_t multiplied;  /* elements of results times elements along k, those that only fill up tiles among them */
    int64_t packed;      /* elements */
    int64_t transformed; /* tiles of a channel, there and back */
} work;
static _Atomic int64_t multiplied, packed, transformed;
static hd_cpu_kernels plain; /* as they were */

static void add(_Atomic int64_t *to, int64_t more) { atomic_fetch_add_explicit(to, more, memory_order_relaxed); }

static void tile(int64_t k, const void *a, const void *b, int64_t ldb, void *c, int64_t ldc, bool accumulate) {
    add(&multiplied, k * plain.gemm_f32.mr * plain.gemm_f32.nr);
    plain.gemm_f32.tile(k, a, b, ldb, c, ldc, accumulate);
}
static void thin(int rows, int64_t k, const void *a, int64_t row, int64_t column, const void *b, int64_t ldb, void *c,
                 int64_t ldc, bool accumulate) {
    add(&multiplied, k * rows * plain.gemm_f32.nr);
    plain.gemm_f32.thin(rows, k, a, row, column, b, ldb, c, ldc, accumulate);
}
static void pack_a(void *out, const void *from, int64_t height, int64_t width, int64_t row, int64_t column) {
    add(&packed, height * width);
    plain.gemm_f32.pack_a(out, from, height, width, row, column);
}
static void pack_b(void *out, const void *from, int64_t height, int64_t width, int64_t row, int64_t column) {
    add(&packed, height * width);
    plain.gemm_f32.pack_b(out, from, height, width, row, column);
}
static void runs(void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows, int64_t n, int64_t step) {
    add(&packed, rows * n);
    plain.runs_4(out, out_row, in, in_row, rows, n, step);
}
static void patches(float *out, int64_t apart, const float *lines, int64_t line, int64_t n) {
    add(&transformed, n);
    plain.winograd.patches(out, apart, lines, line, n);
}
static bool results(float *out, int64_t line, int lines, int64_t width, const float *in, int64_t apart) {
    add(&transformed, (width + 1) / 2);
    return plain.winograd.results(out, line, lines, width, in, apart);
}

/* Around every test, also one that fails. */
static int begin_counting(void **state) {
    (void)state;
    HD_SCOPE;
    hd_item(hd_zeros(HD_SHAPE(1), HD_F32)); /* kernels are there once the device was used */
    plain = hd_kernel_table;
    hd_kernel_table.gemm_f32.tile = tile;
    hd_kernel_table.gemm_f32.thin = thin;
    hd_kernel_table.gemm_f32.pack_a = pack_a;
    hd_kernel_table.gemm_f32.pack_b = pack_b;
    hd_kernel_table.runs_4 = runs;
    hd_kernel_table.winograd.patches = patches;
    hd_kernel_table.winograd.results = results;
    return 0;
}
static int end_counting(void **state) {
    hd_kernel_table = plain;
    return no_leaks(state);
}

/* In multiplications: what is packed is transformed, too, or little beside them. */
static double cost_of(work w) { return (double)w.multiplied + 130.0 * (double)w.transformed + 4.0 * (double)w.packed; }

/* ---- convolutions ------------------------------------------------------------------------------------------------ */
typedef struct shape {
    int64_t batch, channels, size, outputs, kernel, stride, groups;
} shape;
typedef hd_tensor *call(const shape *s);

static hd_conv_opts options(const shape *s) {
    const int64_t pad = s->kernel / 2;
    return *HD_OPTS(hd_conv_opts, .padding = {{pad, pad}, {pad, pad}}, .stride = {s->stride, s->stride},
                    .groups = s->groups);
}
static hd_tensor *convolve(const shape *s) {
    const hd_conv_opts o = options(s);
    return hd_conv(hd_ones(HD_SHAPE(s->batch, s->channels, s->size, s->size), HD_F32),
                   hd_ones(HD_SHAPE(s->outputs, s->channels / s->groups, s->kernel, s->kernel), HD_F32), NULL, &o);
}
static hd_tensor *weight_gradient(const shape *s) {
    const hd_conv_opts o = options(s);
    const int64_t size = (s->size - 1) / s->stride + 1;
    return hd_conv_weight_gradient(hd_ones(HD_SHAPE(s->batch, s->channels, s->size, s->size), HD_F32),
                                   hd_ones(HD_SHAPE(s->batch, s->outputs, size, size), HD_F32),
                                   HD_SHAPE(s->kernel, s->kernel), &o);
}

static work work_of(call *f, const shape *s, int threads) {
    HD_SCOPE;
    hd_set_num_threads(threads);
    atomic_store(&multiplied, 0);
    atomic_store(&packed, 0);
    atomic_store(&transformed, 0);
    assert_non_null(f(s));
    return (work){atomic_load(&multiplied), atomic_load(&packed), atomic_load(&transformed)};
}

/* Two threads do what one does, but for panels that are not full: eight for seven in the smallest of the shapes. More
 * of them may do some of it twice, as there is less for each. */
static void assert_shared(const char *name, call *f, const shape *s) {
    const work alone = work_of(f, s, 1);
    for (int threads = 2; threads <= 8; threads += threads < 4 ? 1 : 4) {
        const work w = work_of(f, s, threads);
        const double ratio = cost_of(w) / cost_of(alone), most = threads == 2 ? 1.15 : 1.5;
        if (w.multiplied == 0 || ratio > most)
            fail_msg("%s of %lldx%lldx%lldx%lld to %lld channels: %d threads do %.2f of what one does "
                     "(multiplications %.2f, packed %.2f, tiles transformed %lld and %lld)",
                     name, (long long)s->batch, (long long)s->channels, (long long)s->size, (long long)s->size,
                     (long long)s->outputs, threads, ratio, (double)w.multiplied / (double)alone.multiplied,
                     (double)w.packed / (double)alone.packed, (long long)w.transformed, (long long)alone.transformed);
    }
}

static const shape shapes[] = {
    {1, 256, 14, 256, 3, 1, 1},  {1, 128, 14, 128, 3, 1, 1}, {1, 512, 14, 512, 3, 1, 1}, {1, 256, 16, 256, 3, 1, 1},
    {1, 256, 12, 256, 3, 1, 1},  {1, 256, 28, 256, 3, 1, 1}, {1, 64, 56, 64, 3, 1, 1},   {1, 512, 7, 512, 3, 1, 1},
    {1, 32, 32, 32, 3, 1, 1},    {4, 64, 14, 64, 3, 1, 1},   {2, 128, 14, 128, 3, 1, 2}, {1, 128, 28, 256, 3, 2, 1},
    {1, 256, 14, 1024, 1, 1, 1}, {1, 64, 28, 64, 5, 1, 1},   {1, 3, 64, 64, 7, 2, 1},
};

static void assert_all_shared(const char *name, call *f) {
    const int threads = hd_num_threads();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) assert_shared(name, f, &shapes[i]);
    hd_set_num_threads(threads);
}
static void threads_share_convolutions(void **state) {
    (void)state;
    assert_all_shared("a convolution", convolve);
}
static void threads_share_gradients(void **state) {
    (void)state;
    assert_all_shared("the gradient of weights", weight_gradient);
}

/* A matrix unit has kernels of its own, which are not counted. */
__attribute__((constructor)) static void leave_the_unit_out(void) { setenv("HODU_ISA", "avx512", 0); }

#define counted(f) cmocka_unit_test_setup_teardown(f, begin_counting, end_counting)
RUN_ON_THE_CPU("it counts what the CPU does", counted(threads_share_convolutions), counted(threads_share_gradients))
