/* Convolutions on a GPU of NVIDIA's, against sums in f64 on the CPU. With the word `time` it times the tiles that
 * template_conv.h and template_conv_image.h can have instead, on images of a residual network; with `time all` also
 * the gradients, and more channels. */
#include "support.h"

#include "builders.h"
#include "core/execute.h"
#include "cuda/convolutions.h"
#include "machine/gpu_product.h"

static hd_device there(void) { return hd_cuda(0); }
static hd_tensor *away(hd_tensor *x) { return x == NULL ? NULL : hd_to(x, there()); }

/* The same elements with others between them. */
static hd_tensor *stepped(hd_tensor *x) { return hd_slice(hd_repeat_interleave(x, 3, -1), -1, 1, HD_END, 3); }

/* Enough tiles for all processors. */
static const conv_case large_cases[] = {{2, 40, 24, 40, 1, {30, 28}, {3, 3}, {.padding = AROUND}},
                                        {2, 20, 33, 70, 2, {31, 37}, {5, 3}, {.padding = {{2, 2}, {0, 1}}}},
                                        {2, 80, 16, 64, 1, {28, 28}, {3, 3}, {.stride = {2, 2}, .padding = AROUND}},
                                        {2, 32, 64, 64, 1, {56, 56}, {3, 3}, {.padding = AROUND}},
                                        {2, 16, 64, 300, 1, {20, 20}, {3, 3}, {.padding = AROUND}},
                                        {1, 200, 20, 33, 1, {260}, {5}, {.padding = {{2, 2}}}},
                                        {3, 40, 8, 16, 1, {8, 9, 10}, {3, 3, 3}, {.padding = AROUND_3}}};
enum { LARGE_CASES = sizeof large_cases / sizeof *large_cases };

static void check_case(const conv_case *c, int kind, hd_dtype dtype, bool views) {
    HD_SCOPE;
    char what[128];
    const bool large = c >= large_cases && c < large_cases + LARGE_CASES;
    snprintf(what, sizeof what, "%s %d%s of %s%s", conv_kind_name(kind), (int)(c - (large ? large_cases : conv_cases)),
             large ? " of the large ones" : "", hd_dtype_name(dtype), views ? " through views" : "");
    conv_operands_of p = conv_operands_make(c, kind, dtype);
    hd_tensor *a = away(p.a), *b = away(p.b);
    hd_tensor *got = conv_run(&p, kind, views ? stepped(a) : a, views ? stepped(b) : b, away(p.bias));
    if (got == NULL) fail_msg("%s: %s", what, hd_error_message());
    assert_int_equal(hd_tensor_device(got).kind, HD_DEVICE_CUDA);
    conv_check(what, &p, kind, got);
    const hd_tensor *again = conv_run(&p, kind, views ? stepped(a) : a, views ? stepped(b) : b, away(p.bias));
    assert_same(hd_to((hd_tensor *)again, hd_cpu()), hd_to(got, hd_cpu())); /* the same bits in every run */
}

static void every_case_of_every_dtype(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F16};
    for (int i = 0; i < CONV_CASES * CONV_KINDS * 3; ++i)
        check_case(&conv_cases[i / 9], i / 3 % 3, dtypes[i % 3], false);
    for (int i = 0; i < CONV_CASES * CONV_KINDS; ++i) check_case(&conv_cases[i / 3], i % 3, dtypes[i % 3], true);
    for (int i = 0; i < LARGE_CASES * 3; ++i) check_case(&large_cases[i / 3], CONV_FORWARD, dtypes[i % 3], false);
}

static void images_may_be_empty(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = away(hd_ones(HD_SHAPE(12, 3, 2), HD_F32)), *b = away(hd_full(HD_SHAPE(12), HD_F32, 4));
    const hd_conv_opts *around = HD_OPTS(hd_conv_opts, .padding = {{1, 1}}); /* nothing but padding */
    hd_tensor *of_none = hd_conv(away(hd_zeros(HD_SHAPE(1, 3, 0), HD_F32)), w, b, around);
    assert_same(hd_to(of_none, hd_cpu()), hd_full(HD_SHAPE(1, 12, 1), HD_F32, 4));
    assert_int_equal(hd_tensor_count(hd_conv(away(hd_zeros(HD_SHAPE(0, 3, 5), HD_F32)), w, b, NULL)), 0);
    hd_tensor *none = hd_conv_weight_gradient(away(hd_zeros(HD_SHAPE(0, 2, 3), HD_F32)),
                                              away(hd_zeros(HD_SHAPE(0, 12, 2), HD_F32)), HD_SHAPE(2), NULL);
    assert_same(hd_to(none, hd_cpu()), hd_zeros(HD_SHAPE(12, 2, 2), HD_F32));
}

/* What is not a number in padding's neighbourhood stays there: zeros of padding are multiplied, as on the CPU. */
static void numbers_that_are_none_stay_in_their_windows(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        hd_tensor *x = hd_ones(HD_SHAPE(1, 9, 12, 12), dtypes[i]), *w = hd_ones(HD_SHAPE(16, 9, 3, 3), dtypes[i]);
        hd_fill(hd_narrow(hd_narrow(x, 2, 5, 1), 3, 5, 1), NAN);
        const hd_conv_opts *o = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
        hd_tensor *got = hd_to(hd_conv(away(x), away(w), NULL, o), hd_cpu()), *nans = hd_isnan(got);
        assert_same(hd_cast(nans, HD_F32), hd_cast(hd_isnan(hd_conv(x, w, NULL, o)), HD_F32));
    }
}

/* In scripts a bias, relu and a residual are done where the sums are stored. */
static void what_follows_is_done_in_the_tiles(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16};
    for (int i = 0; i < 6; ++i) {
        HD_SCOPE;
        const hd_dtype dtype = dtypes[i % 2];
        const int kind = i < 4 ? CONV_FORWARD : CONV_TRANSPOSE;
        conv_operands_of p = conv_operands_make(i < 2 ? &large_cases[0] : &conv_cases[10], kind, dtype);
        hd_tensor *sums = conv_expected(&p, kind, false), *r = conv_values(hd_tensor_shape(sums), dtype);
        hd_builder *b = started("block");
        hd_tensor *x = hd_input("x", hd_tensor_shape(p.a), dtype), *w = hd_input("w", hd_tensor_shape(p.b), dtype),
                  *v = hd_input("v", hd_tensor_shape(p.bias), dtype), *s = hd_input("r", hd_tensor_shape(r), dtype);
        hd_builder_add_output(b, "y", hd_add(hd_relu(conv_run(&p, kind, x, w, v)), s));
        hd_script *script = built(b);
        hd_script_set_device(script, there());
        hd_script_set_input(script, "x", p.a);
        hd_script_set_input(script, "w", p.b);
        hd_script_set_input(script, "v", p.bias);
        hd_script_set_input(script, "r", r);
        hd_tensor *y = output(script, "y");
        if (y == NULL) fail_msg("%s of %s: %s", conv_kind_name(kind), hd_dtype_name(dtype), hd_error_message());
        hd_tensor *expected = hd_add(hd_relu(sums), hd_cast(r, HD_F64));
        const bool small = dtype == HD_BF16; /* rounded after each op */
        assert_close(hd_cast(hd_to(y, hd_cpu()), HD_F64), expected, small ? 0.01 : 1e-5, small ? 0.05 : 1e-4);
    }
}

/* ---- times ------------------------------------------------------------------------------------------------------- */
enum { TIMES = 30 };

/* One launch, which is waited for; false with an error. */
static bool launch_one(const hd_gpu_device *d, hd_gpu_launch *l, hd_gpu_function *function, int64_t x, int64_t y,
                       int64_t *took) {
    int64_t own = 0;
    l->function = function;
    l->groups[0] = (uint32_t)x;
    l->groups[1] = (uint32_t)y;
    l->groups[2] = 1;
    l->nanoseconds = &own;
    if (d->gpu->launch(d->device.index, l) != HD_OK) return false;
    *took += own;
    return true;
}

/* The shortest of some runs, in ms. */
static double time_tile(const hd_gpu_device *d, hd_described_product *p, hd_tensor *const in[2], hd_tensor *out) {
    struct {
        int64_t offsets[5];
        hd_product_numbers numbers;
    } arguments = {{0}, p->numbers};
    const hd_product_numbers *n = &p->numbers;
    hd_thread *thread = hd_thread_self();
    hd_tensor *moved[2] = {NULL};
    hd_block *parts = p->part_bytes > 0 ? hd_gpu_workspace(thread, d, p->part_bytes) : NULL;
    void *buffers[5] = {hd_gpu_read(thread, d, in[p->a], &moved[0]), hd_gpu_read(thread, d, in[p->b], &moved[1]),
                        parts == NULL ? NULL : parts->address, NULL, hd_gpu_written(thread, out)};
    hd_gpu_code *code = hd_gpu_code_of_template(d, &p->use);
    hd_gpu_function *whole = code == NULL ? NULL : hd_gpu_code_function(d, code, "product"),
                    *join = whole == NULL ? NULL : hd_gpu_code_function(d, code, "product_join"),
                    *pack = join == NULL || p->pack_groups == 0 ? NULL : hd_gpu_code_function(d, code, "product_pack");
    hd_gpu_launch l = {.threads = {p->threads, 1, 1},
                       .buffers = buffers,
                       .buffer_count = 5,
                       .arguments = &arguments,
                       .argument_bytes = sizeof arguments.offsets + p->number_bytes};
    double best = INFINITY;
    bool fine = join != NULL && (pack != NULL || p->pack_groups == 0);
    for (int i = 0; i < TIMES && fine; ++i) {
        int64_t took = 0;
        fine = p->pack_groups == 0 || launch_one(d, &l, pack, p->pack_groups, 1, &took);
        fine = fine && launch_one(d, &l, whole, n->tiles_m * n->tiles_n * n->batches, n->k_pieces, &took);
        if (fine && n->k_pieces > 1)
            fine = launch_one(d, &l, join, (n->batches * n->m * n->n + p->threads - 1) / p->threads, 1, &took);
        best = fine ? fmin(best, (double)took * 1e-6) : best;
    }
    if (parts != NULL) hd_block_release(thread, parts);
    for (int i = 0; i < 2; ++i) hd_tensor_drop(thread, moved[i]);
    return best;
}

static void time_case(const hd_gpu_device *d, int kind, hd_dtype dtype, int64_t channels, int64_t image) {
    HD_SCOPE;
    static const hd_product_tile of_f32[] = {{64, 128, 8, 32, 64},  {64, 128, 16, 32, 64}, {64, 64, 8, 32, 32},
                                             {64, 64, 16, 32, 64},  {64, 128, 8, 32, 32},  {64, 256, 8, 32, 64},
                                             {128, 128, 8, 32, 64}, {128, 64, 8, 32, 64},  {32, 64, 8, 16, 32}},
                                 of_small[] = {{64, 128, 32, 32, 32}, {64, 128, 32, 32, 64},  {64, 128, 32, 64, 32},
                                               {64, 64, 32, 32, 32},  {32, 128, 32, 32, 32},  {128, 64, 32, 64, 32},
                                               {64, 64, 64, 32, 32},  {128, 128, 32, 64, 32}, {128, 64, 32, 32, 32}},
                                 of_images[] = {{64, 128, 32, 32, 64}, {64, 128, 32, 64, 32},  {64, 128, 32, 32, 32},
                                                {64, 64, 32, 32, 32},  {64, 64, 32, 32, 16},   {64, 256, 32, 32, 64},
                                                {64, 256, 32, 64, 32}, {128, 128, 32, 64, 32}, {32, 128, 32, 32, 32}};
    const hd_shape x_shape = HD_SHAPE(32, channels, image, image), w_shape = HD_SHAPE(channels, channels, 3, 3);
    hd_tensor *x = away(conv_values(x_shape, dtype)), *w = away(conv_values(w_shape, dtype)),
              *y = away(conv_values(x_shape, dtype)), *in[2] = {kind == CONV_TRANSPOSE ? y : x, w};
    if (kind == CONV_WEIGHT_GRADIENT) in[1] = y;
    static const int ids[] = {HD_OP_conv, HD_OP_conv_weight_gradient, HD_OP_conv_transpose};
    const hd_conv_attributes attributes = {.stride = HD_SHAPE(1, 1),
                                           .dilation = HD_SHAPE(1, 1),
                                           .padding = HD_SHAPE(1, 1, 1, 1),
                                           .extra = kind == CONV_WEIGHT_GRADIENT ? HD_SHAPE(3, 3) : (hd_shape){0},
                                           .groups = 1};
    const hd_call call = {.op = &hd_ops[ids[kind]],
                          .attributes = &attributes,
                          .inputs = in,
                          .input_count = 2,
                          .output_count = 1,
                          .dtype = {dtype},
                          .shape = {kind == CONV_WEIGHT_GRADIENT ? w_shape : x_shape}};
    hd_described_product p;
    hd_gpu_describe_product(d, &call, &p);
    const double flops = 2.0 * 32 * (double)(image * image * channels * channels) * 9;
    hd_tensor *first = NULL;
    printf("%s of %s, [32,%lld,%lld,%lld], %lld filters of 3 x 3; HODU takes %s, %d x %d x %d\n", conv_kind_name(kind),
           hd_dtype_name(dtype), (long long)channels, (long long)image, (long long)image, (long long)channels,
           hd_template_name((hd_template)p.use.which), p.use.numbers[1], p.use.numbers[2], p.use.numbers[3]);
    for (int i = 0; i < (dtype == HD_F32 ? 9 : 18); ++i) {
        const hd_product_tile *t = i >= 9 ? &of_images[i - 9] : dtype == HD_F32 ? &of_f32[i] : &of_small[i];
        const hd_gpu_limits *limits = d->gpu->limits(d->device.index);
        hd_tensor *out = away(hd_full(call.shape[0], dtype, NAN));
        p.use.which = HD_TEMPLATE_conv;
        p.pack_groups = 0;
        hd_gpu_tile_product(&p, t, limits);
        if (i >= 9 && !hd_gpu_conv_image(&p, t, limits)) continue;
        const double ms = time_tile(d, &p, in, out);
        if (!hd_ok()) {
            printf("    %3d x %3d x %2d, warps of %2d x %2d: %.300s\n", t->m, t->n, t->k, t->per_m, t->per_n,
                   hd_error_message());
            hd_error_clear();
            continue;
        }
        hd_tensor *here = hd_cast(hd_to(out, hd_cpu()), HD_F32);
        if (first == NULL) first = here;
        hd_allclose_opts close = {.struct_size = sizeof close, .relative = 0.02, .absolute = 0.1};
        printf("    %s %3d x %3d x %2d, warps of %2d x %2d, %2lld pieces: %7.4f ms, %6.1f TFLOP/s%s\n",
               i >= 9 ? "images," : "windows,", t->m, t->n, t->k, t->per_m, t->per_n, (long long)p.numbers.k_pieces, ms,
               flops / ms * 1e-9, hd_allclose(here, first, &close) ? "" : ", WRONG");
        fflush(stdout);
    }
}

static int time_all(bool all) {
    const hd_gpu_device *d = (const hd_gpu_device *)hd_device_executor(there());
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16};
    for (int i = 0; i < 2; ++i) time_case(d, CONV_FORWARD, dtypes[i], 64, 56);
    for (int kind = CONV_WEIGHT_GRADIENT; kind < CONV_KINDS && all; ++kind)
        for (int i = 0; i < 2; ++i) time_case(d, kind, dtypes[i], 64, 56);
    for (int i = 0; i < 2 && all; ++i) time_case(d, CONV_FORWARD, dtypes[i], 256, 14);
    return 0;
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {test(every_case_of_every_dtype), test(images_may_be_empty),
                                       test(what_follows_is_done_in_the_tiles),
                                       test(numbers_that_are_none_stay_in_their_windows)};
    if (!hd_device_available(there())) {
        print_message("skipped: %s\n", hd_device_missing(there()));
        return 77;
    }
    if (count > 1 && strcmp(words[1], "time") == 0) return time_all(count > 2);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
