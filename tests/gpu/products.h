/* Products on a GPU, `there()` as who includes this has it, against the CPU: matrix products of every dtype around the
 * edges of tiles, with all ways that operands lie in memory, and convolutions. */
#ifndef HD_TESTS_GPU_PRODUCTS_H
#define HD_TESTS_GPU_PRODUCTS_H

#include "support.h"

#include "core/memory.h"
#include "core/shape.h"
#include "ops/families.h"

#define S HD_SHAPE

/* ---- operands ---------------------------------------------------------------------------------------------------- */
/* Small whole numbers, so that sums are exact in f32, or normal ones; on the CPU. */
static hd_tensor *whole(hd_shape shape, hd_dtype dtype) {
    const int64_t count = hd_shape_count(shape);
    const bool is_unsigned = dtype == HD_BOOL || (dtype >= HD_U8 && dtype <= HD_U64);
    double *v = malloc((size_t)count * sizeof *v + 8);
    for (int64_t i = 0; i < count; ++i) v[i] = (double)(random_below(dtype == HD_BOOL ? 2 : 7) - (is_unsigned ? 0 : 3));
    hd_tensor *x = hd_cast(hd_from_data(v, shape, HD_F64), dtype);
    free(v);
    return x;
}

/* The same elements, in another layout: those of the last two axes exchanged, or with others between them. */
enum { PLAIN, TRANSPOSED, STEPPED, REVERSED, LAYOUTS };
static hd_tensor *laid(hd_tensor *x, int layout) {
    const int rank = hd_tensor_shape(x).rank;
    switch (layout) {
    case TRANSPOSED: return rank < 2 ? x : hd_t(hd_contiguous(hd_t(x)));
    case STEPPED: return hd_slice(hd_repeat_interleave(x, 3, -1), -1, 1, HD_END, 3);
    case REVERSED: return hd_flip(hd_contiguous(hd_flip(x, HD_AXES(-1))), HD_AXES(-1));
    default: return x;
    }
}

static void check_same(const char *what, hd_tensor *away, hd_tensor *here, double relative, double absolute) {
    char why[512] = "";
    hd_allclose_opts o = {.struct_size = sizeof o,
                          .relative = relative,
                          .absolute = absolute,
                          .explain = why,
                          .explain_capacity = sizeof why};
    if (away == NULL || here == NULL) fail_msg("%s: %s", what, hd_error_message());
    assert_true(hd_tensor_device(away).kind == there().kind && hd_tensor_dtype(away) == hd_tensor_dtype(here));
    if (!hd_allclose(hd_to(away, hd_cpu()), here, &o)) fail_msg("%s: %s%s", what, why, hd_error_message());
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */
static void check_matmul(hd_shape a, hd_dtype dtype_a, int layout_a, hd_shape b, hd_dtype dtype_b, int layout_b) {
    HD_SCOPE;
    char what[256];
    hd_tensor *x = whole(a, dtype_a), *y = whole(b, dtype_b);
    snprintf(what, sizeof what, "%s %s (layout %d) x %s %s (layout %d)", HD_SHAPE_TEXT(a), hd_dtype_name(dtype_a),
             layout_a, HD_SHAPE_TEXT(b), hd_dtype_name(dtype_b), layout_b);
    hd_tensor *away = hd_matmul(laid(hd_to(x, there()), layout_a), laid(hd_to(y, there()), layout_b));
    check_same(what, away, hd_matmul(x, y), HD_ZERO, HD_ZERO);
}

/* Around the edges of all tiles; the layouts in turn. */
static void sizes_around_the_edges(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 31, 64, 65, 130}, ks[] = {1, 2, 8, 33, 100};
    int which = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; ++j, ++which)
            if (sampled((uint64_t)which, 19))
                check_matmul(HD_SHAPE(sizes[i], ks[which % 5]), HD_F32, which % 2, HD_SHAPE(ks[which % 5], sizes[j]),
                             HD_F32, which / 2 % 2);
    if (sampled(0, 3))
        check_matmul(HD_SHAPE(300, 40), HD_F32, PLAIN, HD_SHAPE(40, 270), HD_F32, PLAIN); /* large tiles */
    check_matmul(HD_SHAPE(40, 40), HD_F32, STEPPED, HD_SHAPE(40, 40), HD_F32, REVERSED);
}

static void every_dtype_is_multiplied(void **state) {
    (void)state;
    static const int64_t rows[] = {3, 20, 1};
    for (int dtype = HD_BOOL; dtype < (int)HD_DTYPE_COUNT; ++dtype) {
        if (!sampled((uint64_t)dtype, 16)) continue;
        const int64_t m = rows[dtype % 3];
        check_matmul(HD_SHAPE(m, 18), (hd_dtype)dtype, dtype % LAYOUTS, HD_SHAPE(18, 12),
                     dtype == HD_BOOL ? HD_I32 : (hd_dtype)dtype, dtype / 4 % LAYOUTS);
    }
    for (int pair = 0; pair < 7; ++pair) { /* that meet in a third, or in one of them */
        static const hd_dtype pairs[][2] = {{HD_BF16, HD_F16}, {HD_BF16, HD_F32}, {HD_I64, HD_F32}, {HD_I8, HD_I32},
                                            {HD_U8, HD_I16},   {HD_I32, HD_BF16}, {HD_F32, HD_F64}};
        if (sampled((uint64_t)pair, 28))
            check_matmul(HD_SHAPE(9, 5), pairs[pair][0], PLAIN, HD_SHAPE(5, 10), pairs[pair][1], PLAIN);
    }
}

static void integers_wrap(void **state) {
    (void)state;
    HD_SCOPE;
    if (sampled(1, 4)) {
        hd_tensor *x = hd_to(hd_full(S(9, 300), HD_I8, 127), there()), *y = hd_matmul(x, hd_t(x));
        assert_true(hd_item(hd_select(hd_select(y, 0, 3), 0, 4)) == (double)(int8_t)(127 * 127 * 300));
    }
    if (!sampled(2, 4)) return;
    hd_tensor *z = hd_to(hd_full(S(2, 3), HD_U64, 0x1p63), there());
    assert_true(hd_item(hd_select(hd_select(hd_matmul(z, hd_t(z)), 0, 0), 0, 1)) == 0);
}

/* Batches that one operand or the other stretches, in orders that strides can say. */
static void batches_broadcast(void **state) {
    (void)state;
    static const struct {
        hd_shape a, b;
    } cases[] = {{{3, {5, 4, 6}}, {2, {6, 3}}},
                 {{3, {5, 4, 6}}, {3, {1, 6, 3}}},
                 {{2, {4, 6}}, {3, {5, 6, 3}}},
                 {{4, {2, 1, 4, 6}}, {3, {3, 6, 5}}},
                 {{5, {2, 3, 1, 4, 6}}, {4, {3, 2, 6, 9}}},
                 {{1, {6}}, {3, {4, 6, 3}}},
                 {{3, {4, 3, 6}}, {1, {6}}},
                 {{1, {70}}, {1, {70}}},
                 {{3, {70, 9, 3}}, {3, {70, 3, 9}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        if (!sampled(i, 4)) continue;
        check_matmul(cases[i].a, HD_F32, PLAIN, cases[i].b, HD_F32, PLAIN);
        if (in_full()) check_matmul(cases[i].a, HD_F32, TRANSPOSED, cases[i].b, HD_F32, STEPPED);
    }
    HD_SCOPE; /* axes that are exchanged: no copy is made of them */
    hd_tensor *x = whole(S(4, 5, 3, 6), HD_F32), *y = whole(S(5, 4, 6, 10), HD_F32);
    hd_tensor *away = hd_matmul(hd_permute(hd_to(x, there()), HD_AXES(1, 0, 2, 3)), hd_to(y, there()));
    check_same("permuted", away, hd_matmul(hd_permute(x, HD_AXES(1, 0, 2, 3)), y), HD_ZERO, HD_ZERO);
}

/* Long sums are cut into pieces, in the same way each time; none at all are zeros. */
static void k_may_be_anything(void **state) {
    (void)state;
    HD_SCOPE;
    static const int64_t shapes[][3] = {{5, 5000, 7}, {40, 3000, 30}, {1, 4100, 1}, {1, 2000, 70}, {70, 1030, 2}};
    for (int i = 0; i < 5; ++i)
        if (sampled((uint64_t)i, 3))
            check_matmul(HD_SHAPE(shapes[i][0], shapes[i][1]), HD_F32, i % 2, HD_SHAPE(shapes[i][1], shapes[i][2]),
                         HD_F32, PLAIN);
    hd_tensor *x = hd_to(hd_randn(S(20, 3000), HD_F32), there()), *y = hd_to(hd_randn(S(3000, 30), HD_F32), there());
    hd_tensor *once = hd_matmul(x, y);
    assert_same(once, hd_matmul(x, y));
    hd_tensor *exact = hd_matmul(hd_cast(hd_to(x, hd_cpu()), HD_F64), hd_cast(hd_to(y, hd_cpu()), HD_F64));
    assert_close(hd_to(once, hd_cpu()), hd_cast(exact, HD_F32), 1e-5, 4e-4);
    const hd_device device = there();
    assert_same(hd_matmul(hd_to(hd_zeros(S(3, 0), HD_F32), device), hd_to(hd_zeros(S(0, 4), HD_F32), device)),
                hd_to(hd_zeros(S(3, 4), HD_F32), device));
    hd_tensor *bias = hd_to(whole(S(4), HD_F32), device);
    assert_same(hd_affine(hd_to(hd_zeros(S(2, 3, 0), HD_F32), device), hd_to(hd_zeros(S(4, 0), HD_F32), device), bias),
                hd_contiguous(hd_broadcast_to(bias, S(2, 3, 4))));
    assert_true(hd_tensor_count(hd_matmul(hd_to(hd_zeros(S(0, 3), HD_F32), device),
                                          hd_to(hd_zeros(S(3, 4), HD_F32), device))) == 0);
    assert_ok();
}

static void check_affine(hd_tensor *x, hd_tensor *weight, hd_tensor *bias, int layout, const char *what) {
    hd_tensor *b = bias == NULL ? NULL : hd_to(bias, there());
    hd_tensor *away = hd_affine(laid(hd_to(x, there()), layout), laid(hd_to(weight, there()), layout), b);
    check_same(what, away, hd_affine(x, weight, bias), HD_ZERO, HD_ZERO);
}
static void affine_adds_its_bias(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *weight = whole(S(10, 6), HD_F32), *bias = whole(S(10), HD_F32), *x = whole(S(5, 4, 6), HD_F32);
    check_affine(x, weight, bias, PLAIN, "affine");
    check_affine(x, weight, NULL, STEPPED, "affine without a bias");
    check_affine(whole(S(6), HD_F32), weight, bias, REVERSED, "affine of a vector");
    if (sampled(3, 4))
        check_affine(whole(S(30, 6), HD_BF16), hd_cast(weight, HD_BF16), hd_cast(bias, HD_BF16), PLAIN, "affine, bf16");
    if (sampled(1, 4))
        check_affine(whole(S(3, 6), HD_F16), weight, hd_cast(bias, HD_F64), PLAIN, "affine of three dtypes");
    check_affine(whole(S(3, 600), HD_F32), whole(S(10, 600), HD_F32), bias, PLAIN, "affine with k cut");
    hd_tensor *turned = hd_permute(hd_to(x, there()), HD_AXES(1, 0, 2)); /* rows that are no one axis */
    check_same("affine of a view", hd_affine(turned, hd_to(weight, there()), hd_to(bias, there())),
               hd_affine(hd_permute(x, HD_AXES(1, 0, 2)), weight, bias), HD_ZERO, HD_ZERO);
    hd_tensor *number = hd_scalar(2, HD_F32); /* of the CPU: at home everywhere */
    check_same("a number", hd_matmul(hd_to(x, there()), hd_broadcast_to(number, S(6, 3))),
               hd_matmul(x, hd_broadcast_to(number, S(6, 3))), HD_ZERO, HD_ZERO);
    hd_tensor *stretched = hd_broadcast_to(hd_to(whole(S(1), HD_F32), there()), S(10));
    check_same("a stretched bias", hd_affine(hd_to(x, there()), hd_to(weight, there()), stretched),
               hd_affine(x, weight, hd_contiguous(hd_to(stretched, hd_cpu()))), HD_ZERO, HD_ZERO);
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */
typedef struct conv_case {
    int axes;
    int64_t batch, in, out, groups; /* channels of a group */
    int64_t image[3], kernel[3];
    hd_conv_opts o;
} conv_case;

/* The convolution, and those of its gradients, which have the same options. */
static void check_conv(const conv_case *c, hd_dtype dtype, bool views) {
    HD_SCOPE;
    hd_conv_opts o = c->o;
    hd_shape x_shape = {c->axes + 2, {c->batch, c->in * c->groups}},
             w_shape = {c->axes + 2, {c->out * c->groups, c->in}}, kernel = {c->axes, {0}};
    for (int i = 0; i < c->axes; ++i) {
        x_shape.size[i + 2] = c->image[i];
        w_shape.size[i + 2] = kernel.size[i] = c->kernel[i];
    }
    o.struct_size = sizeof o;
    o.groups = c->groups;
    const int layout = views ? STEPPED : PLAIN;
    hd_tensor *x = whole(x_shape, dtype), *w = whole(w_shape, dtype), *b = whole(S(c->out * c->groups), dtype),
              *there_x = laid(hd_to(x, there()), layout), *there_w = laid(hd_to(w, there()), layout);
    hd_tensor *y = hd_conv(x, w, b, &o), *g = whole(hd_tensor_shape(y), dtype),
              *there_g = laid(hd_to(g, there()), layout);
    check_same("conv", hd_conv(there_x, there_w, hd_to(b, there()), &o), y, HD_ZERO, HD_ZERO);
    check_same("conv_weight_gradient", hd_conv_weight_gradient(there_x, there_g, kernel, &o),
               hd_conv_weight_gradient(x, g, kernel, &o), HD_ZERO, HD_ZERO);
    for (int i = 0; i < c->axes; ++i) o.output_padding[i] = o.stride[i] > 1 ? o.stride[i] - 1 : 0;
    hd_tensor *d = whole(S(c->in * c->groups), dtype);
    check_same("conv_transpose", hd_conv_transpose(there_g, there_w, hd_to(d, there()), &o),
               hd_conv_transpose(g, w, d, &o), HD_ZERO, HD_ZERO);
}

static const conv_case conv_cases[] = {
    {1, 2, 3, 4, 1, {9}, {3}, {.padding = {{1, 1}}}},
    {1, 1, 1, 1, 5, {12}, {4}, {.stride = {3}, .dilation = {2}, .padding = {{3, 2}}}}, /* channel by channel */
    {2, 2, 3, 5, 1, {7, 6}, {3, 2}, {.stride = {2, 1}, .padding = {{1, 0}, {0, 2}}}},
    {2, 3, 2, 3, 2, {5, 8}, {1, 3}, {.dilation = {1, 2}, .padding = {{2, -1}, {1, 3}}}},
    {2, 1, 9, 20, 1, {11, 13}, {3, 3}, {.padding = {{1, 1}, {1, 1}}}},
    {2, 2, 70, 66, 1, {4, 5}, {1, 1}, {.padding = {{0, 0}}}},
    {3, 2, 2, 2, 1, {4, 5, 3}, {2, 3, 2}, {.stride = {2, 1, 3}, .padding = {{1, 1}, {0, 1}, {2, 1}}}},
    {3, 1, 1, 2, 2, {3, 3, 4}, {3, 1, 2}, {.dilation = {1, 1, 2}, .padding = {{1, 1}, {0, 0}, {1, 1}}}},
    {2, 4, 3, 2, 1, {20, 30}, {3, 3}, {.stride = {2, 2}, .padding = {{1, 1}, {1, 1}}}}}; /* its k is cut */
enum { CONV_CASES = sizeof conv_cases / sizeof *conv_cases };

static void convolutions_of_all_options(void **state) {
    (void)state;
    for (int i = 0; i < CONV_CASES; ++i)
        if (sampled((uint64_t)i, CONV_CASES)) check_conv(&conv_cases[i], HD_F32, i % 2 == 1);
    static const hd_dtype dtypes[] = {HD_F64, HD_BF16, HD_F16, HD_F8E4M3, HD_F8E5M2};
    for (int i = 0; i < 5 && in_full(); ++i) check_conv(&conv_cases[2 * i % CONV_CASES], dtypes[i], false);
}

/* However many products are summed up, errors are as small as those of sums of a hundred or so: the bound that
 * tests/ops has for windows of three. Matrices are cuBLASLt's where it
 * is. */
static void check_error(hd_tensor *away, hd_tensor *exact, double k) {
    hd_tensor *error = hd_abs(hd_sub(hd_cast(hd_to(away, hd_cpu()), HD_F64), exact));
    const double units = hd_item(hd_max(error, HD_AXES(), NULL)) / sqrt(k) * 0x1p24;
    if (!(units <= 40)) fail_msg("an error of %.1f units in sums of %.0f products: %s", units, k, hd_error_message());
}
static void long_sums_are_accurate(void **state) {
    (void)state;
    static const int64_t channels[] = {256, 32, 14, 15}; /* of 126 products no sum is a total, of 135 a few */
    const hd_conv_opts *same = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        const int64_t in = channels[i];
        hd_tensor *x = hd_randn(S(1, in, 16, 17), HD_F32), *w = hd_randn(S(64, in, 3, 3), HD_F32);
        check_error(hd_conv(hd_to(x, there()), hd_to(w, there()), NULL, same),
                    hd_conv(hd_cast(x, HD_F64), hd_cast(w, HD_F64), NULL, same), 9 * (double)in);
        const char *library = getenv("HODU_CUBLASLT");
        if (there().kind == HD_DEVICE_CUDA && (library == NULL || strcmp(library, "none") != 0)) continue;
        hd_tensor *a = hd_randn(S(64, 9 * in), HD_F32), *b = hd_randn(S(9 * in, 300), HD_F32);
        check_error(hd_matmul(hd_to(a, there()), hd_to(b, there())), hd_matmul(hd_cast(a, HD_F64), hd_cast(b, HD_F64)),
                    9 * (double)in);
    }
}

static void images_may_be_empty(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_device device = there();
    hd_tensor *w = hd_to(whole(S(2, 3, 2), HD_F32), device), *b = hd_to(HD_TENSOR_F32(S(2), 4, 5), device);
    const hd_conv_opts *around = HD_OPTS(hd_conv_opts, .padding = {{1, 1}}); /* nothing but padding */
    assert_values(hd_to(hd_conv(hd_to(hd_zeros(S(1, 3, 0), HD_F32), device), w, b, around), hd_cpu()), HD_F32, 4, 5);
    assert_values(hd_to(hd_conv(hd_to(hd_zeros(S(1, 0, 3), HD_F32), device),
                                hd_to(hd_zeros(S(2, 0, 2), HD_F32), device), b, NULL),
                        hd_cpu()),
                  HD_F32, 4, 4, 5, 5);
    assert_true(hd_tensor_count(hd_conv(hd_to(hd_zeros(S(0, 3, 5), HD_F32), device), w, b, NULL)) == 0);
    hd_tensor *none = hd_conv_weight_gradient(hd_to(hd_zeros(S(0, 2, 3), HD_F32), device),
                                              hd_to(hd_zeros(S(0, 1, 2), HD_F32), device), S(2), NULL);
    assert_values(hd_to(none, hd_cpu()), HD_F32, 0, 0, 0, 0);
}

/* Each allocation on the way fails once: an error, and nothing is left. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
        HD_SCOPE;
        hd_tensor *x = hd_to(hd_ones(S(5, 1100), HD_F32), there()), *y = hd_to(hd_ones(S(1100, 3), HD_F32), there());
        const int64_t objects = hd_live_objects();
        hd_memory_trim();
        hd_memory_fail_after(n);
        hd_matmul(x, y);
        hd_memory_fail_after(-1);
        failed = !hd_ok();
        if (failed) assert_int_equal(hd_error_code(), HD_ERROR_MEMORY);
        if (failed) assert_int_equal(hd_live_objects(), objects);
        hd_error_clear();
        assert_same(hd_matmul(x, y), hd_to(hd_full(S(5, 3), HD_F32, 1100), there()));
    }
}

/* For the main of the program. */
#define PRODUCT_TESTS                                                                                                  \
    test(sizes_around_the_edges), test(every_dtype_is_multiplied), test(integers_wrap), test(batches_broadcast),       \
        test(k_may_be_anything), test(affine_adds_its_bias), test(convolutions_of_all_options),                        \
        test(long_sums_are_accurate), test(images_may_be_empty), test(memory_may_run_out_anywhere)

#endif
