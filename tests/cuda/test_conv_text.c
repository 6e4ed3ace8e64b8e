/* Convolutions as CUDA's text, compiled as C++ and run on the CPU, where the threads of a group are coroutines and the
 * words of warps do what PTX says they do: every tile against sums in f64. A sample of them; all in
 * `make check-gpu`. This is not a GPU. */
#include "support.h"

#include <dlfcn.h>

#include "core/execute.h"
#include "cuda/compiled.h"
#include "cuda/convolutions.h"
#include "kernel/template.h"
#include "machine/gpu_product.h"

/* ---- text, compiled once for each use ---------------------------------------------------------------------------- */
typedef struct compiled_use {
    hd_template_use use;
    run_function *whole, *join, *pack;
} compiled_use;
static compiled_use compiled[256];
static int compiled_count;

static const compiled_use *compile_use(const hd_template_use *use) {
    for (int i = 0; i < compiled_count; ++i)
        if (memcmp(&compiled[i].use, use, sizeof *use) == 0) return &compiled[i];
    char log[2048];
    size_t bytes = 0;
    const size_t length = hd_render_template(use, HD_DIALECT_CUDA, true, NULL, 0);
    char *text = malloc(length + 1);
    if (length == 0 || hd_render_template(use, HD_DIALECT_CUDA, true, text, length + 1) != length)
        fail_msg("%s", hd_error_message());
    char *object = compiled_cuda(text, HODU_TEST_DATA "/../cuda", &bytes, log, sizeof log);
    if (object == NULL) fail_msg("%s", log);
    void *library = loaded_cuda(object, bytes);
    assert_true(library != NULL && compiled_count < 256);
    compiled_use *out = &compiled[compiled_count++];
    out->use = *use;
    *(void **)&out->whole = dlsym(library, "run_product");
    *(void **)&out->join = dlsym(library, "run_product_join");
    *(void **)&out->pack = dlsym(library, "run_product_pack");
    free(object);
    free(text);
    return out;
}

/* ---- calls, which the text computes once more in place of the CPU ------------------------------------------------ */
static hd_gpu_limits limits = {.group_most = 1024,
                               .subgroup = 32,
                               .local_bytes = 48 << 10,
                               .argument_bytes = 4096,
                               .has_f64 = true,
                               .has_warp_words = true};
static const hd_gpu_limits *limits_of(int index) { return (void)index, &limits; }
static const hd_gpu_interface interface = {.limits = limits_of};
static const hd_gpu_device device = {.dialect = HD_DIALECT_CUDA, .gpu = &interface};
static const hd_product_tile *forced;      /* the tile; NULL: the one that is chosen */
static bool forced_image;                  /* where template_conv_image.h takes it */
static int taken, refused, cut, of_images; /* calls */

static void *begin_of(const hd_tensor *t) {
    return t == NULL ? NULL : (char *)t->storage->data + (size_t)t->layout.offset * hd_dtype_bytes[t->dtype];
}

static void run_groups(run_function *function, char **buffers, void *arguments, int64_t x, int64_t y, int threads) {
    for (int64_t i = 0; i < x * y; ++i)
        assert_true(
            run_group(function, buffers, arguments, (run_id){(unsigned)(i % x), (unsigned)(i / x), 0}, threads));
}

static void run_text(const hd_call *call) {
    struct {
        int64_t offsets[5];
        hd_product_numbers numbers;
    } arguments = {{0}, {0}};
    hd_described_product p;
    hd_gpu_describe_product(&device, call, &p);
    if (p.multiply == HD_MULTIPLY_EACH) {
        refused++;
        return;
    }
    taken++;
    if (forced != NULL && forced_image) {
        hd_gpu_conv_image(&p, forced, &limits);
    } else if (forced != NULL) {
        p.use.which = HD_TEMPLATE_conv;
        p.pack_groups = 0;
        hd_gpu_tile_product(&p, forced, &limits);
    }
    of_images += p.pack_groups > 0;
    cut += p.numbers.k_pieces > 1;
    const compiled_use *use = compile_use(&p.use);
    const hd_product_numbers *n = &p.numbers;
    const size_t bytes = (size_t)call->outputs[0]->count * hd_dtype_bytes[call->dtype[0]];
    char *buffers[5] = {begin_of(call->inputs[p.a]), begin_of(call->inputs[p.b]), malloc(p.part_bytes + 1),
                        call->input_count > 2 ? begin_of(call->inputs[2]) : NULL, begin_of(call->outputs[0])};
    arguments.numbers = p.numbers;
    memset(buffers[2], 0xff, p.part_bytes);
    memset(buffers[4], 0xff, bytes); /* NaN, of which nothing stays */
    if (p.pack_groups > 0) run_groups(use->pack, buffers, &arguments, p.pack_groups, 1, (int)p.threads);
    run_groups(use->whole, buffers, &arguments, n->tiles_m * n->tiles_n * n->batches, n->k_pieces, (int)p.threads);
    if (n->k_pieces > 1)
        run_groups(use->join, buffers, &arguments, (n->batches * n->m * n->n + p.threads - 1) / p.threads, 1,
                   (int)p.threads);
    free(buffers[2]);
}

static hd_executor *cpu;
static hd_error run_call(hd_executor *self, hd_thread *thread, hd_call *call) {
    (void)self;
    const hd_error status = cpu->run(cpu, thread, call);
    if (status == HD_OK && call->op->family == HD_FAMILY_CONV && call->outputs[0]->count > 0) run_text(call);
    return status;
}

/* The same elements with others between them. */
static hd_tensor *stepped(hd_tensor *x) {
    return x == NULL ? NULL : hd_slice(hd_repeat_interleave(x, 3, -1), -1, 1, HD_END, 3);
}

static hd_tensor *run_as_text(const conv_operands_of *p, int kind, hd_tensor *a, hd_tensor *b) {
    hd_thread *thread = hd_thread_self();
    hd_executor own = *(cpu = thread->executor);
    own.run = run_call;
    thread->executor = &own;
    hd_tensor *got = conv_run(p, kind, a, b, p->bias);
    thread->executor = cpu;
    return got;
}

static void check_case(int number, int kind, hd_dtype dtype, bool views) {
    HD_SCOPE;
    char what[128];
    snprintf(what, sizeof what, "%s %d of %s%s, tile %d x %d", conv_kind_name(kind), number, hd_dtype_name(dtype),
             views ? " through views" : "", forced ? forced->m : 0, forced ? forced->n : 0);
    conv_operands_of p = conv_operands_make(&conv_cases[number], kind, dtype);
    conv_check(what, &p, kind, run_as_text(&p, kind, views ? stepped(p.a) : p.a, views ? stepped(p.b) : p.b));
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */
static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F16};

static void every_case_of_every_dtype(void **state) {
    (void)state;
    limits.processors = 3; /* some are cut along k */
    for (int i = 0; i < CONV_CASES * CONV_KINDS * 3; ++i)
        if (sampled((uint64_t)i, 60)) check_case(i / 9, i / 3 % 3, dtypes[i % 3], i % 2 != 0);
    assert_true(taken > 0 && refused < taken);
    if (in_full()) assert_true(cut > 10 && of_images > 5);
}

/* The tiles that gpu_conv.c knows, and others that a device might like better. */
static void every_tile(void **state) {
    (void)state;
    static const hd_product_tile of_f32[] = {{32, 64, 8, 16, 32},   {64, 64, 8, 32, 32},  {64, 128, 8, 32, 64},
                                             {64, 128, 16, 32, 64}, {64, 256, 8, 32, 64}, {128, 128, 8, 32, 64}},
                                 of_small[] = {{32, 64, 32, 16, 32},  {64, 64, 32, 32, 32}, {64, 128, 32, 32, 32},
                                               {64, 128, 32, 32, 64}, {64, 64, 64, 32, 32}, {128, 128, 32, 64, 32}};
    static const int of[] = {10, 20, 23, 26};
    limits.processors = 1;
    for (int i = 0; i < 6 * CONV_KINDS * 3 * 4; ++i) {
        if (!sampled((uint64_t)i, 40)) continue;
        const hd_dtype dtype = dtypes[i / 4 % 3];
        forced = dtype == HD_F32 ? &of_f32[i / 36] : &of_small[i / 36];
        check_case(of[i % 4], i / 12 % 3, dtype, false);
    }
    /* Of images: those of the first three. */
    static const hd_product_tile of_image[] = {{32, 128, 32, 32, 32}, {64, 128, 32, 32, 64},  {64, 128, 32, 64, 32},
                                               {64, 64, 32, 32, 32},  {128, 128, 32, 64, 32}, {16, 64, 32, 16, 16}};
    forced_image = true;
    for (int i = 0; i < 6 * CONV_CASES; ++i) {
        if (!sampled((uint64_t)i, 40)) continue;
        forced = &of_image[i / CONV_CASES];
        check_case(i % CONV_CASES, CONV_FORWARD, i % 2 ? HD_BF16 : HD_F16, false);
    }
    forced_image = false;
    forced = NULL;
}

/* However many products are summed up, errors are as small as those of sums of a hundred or so: the bound that
 * tests/ops has for windows of three. k is not cut here. */
static void long_sums_are_accurate(void **state) {
    (void)state;
    static const hd_product_tile tiles[] = {{32, 64, 8, 16, 32}, {64, 128, 16, 32, 64}, {128, 128, 8, 32, 64}};
    static const int64_t channels[] = {14, 15, 28, 29, 32, 256}; /* a walk ends just behind k, just before, ... */
    limits.processors = 1;
    for (int i = 0; i < 18; ++i) {
        HD_SCOPE;
        const int64_t in = channels[i % 6];
        const int kind = in == 256 ? CONV_FORWARD : i / 6;
        const conv_case c = {2, 1, in, kind == CONV_TRANSPOSE ? in : 96, 1, {16, 17}, {3, 3}, {.padding = AROUND}};
        conv_operands_of p = conv_operands_make(&c, kind, HD_F32);
        const double k = kind == CONV_WEIGHT_GRADIENT ? 16 * 17 : 9 * (double)in, rms = sqrt(k);
        p.a = hd_randn(hd_tensor_shape(p.a), HD_F32);
        p.b = hd_randn(hd_tensor_shape(p.b), HD_F32);
        p.bias = NULL;
        forced = &tiles[i / 6];
        const int cut_before = cut, taken_before = taken;
        hd_tensor *got = run_as_text(&p, kind, p.a, p.b), *exact = conv_expected(&p, kind, false);
        const double error = hd_item(hd_max(hd_abs(hd_sub(hd_cast(got, HD_F64), exact)), HD_AXES(), NULL));
        assert_true(cut == cut_before && taken == taken_before + 1);
        if (!(error <= 40 * rms * 0x1p-24))
            fail_msg("%s, %lld channels, tile %d x %d: error %.3g, %.1f units", conv_kind_name(kind), (long long)in,
                     forced->m, forced->n, error, error / rms * 0x1p24);
    }
    forced = NULL;
}

int main(void) {
    const struct CMUnitTest tests[] = {test(every_case_of_every_dtype), test(every_tile), test(long_sums_are_accurate)};
    if (compiled_by() != NULL) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: there is no C++ compiler\n");
    return 77;
}
