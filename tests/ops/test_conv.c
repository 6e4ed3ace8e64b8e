/* Convolutions against plain loops in f64, for shapes around the edges of panels and blocks, every stride, padding,
 * dilation and grouping, and transposed; and what they refuse. */
#include "families.h"

typedef struct sizes {
    int64_t batch, in, out, groups;
    int axes;
    int64_t image[3], kernel[3], stride[3], dilation[3];
    hd_padding padding[3];
} sizes;

static hd_conv_opts options(const sizes *s) {
    hd_conv_opts o = HD_DEFAULTS(hd_conv_opts);
    o.groups = s->groups;
    for (int i = 0; i < s->axes; ++i) {
        o.stride[i] = s->stride[i];
        o.dilation[i] = s->dilation[i];
        o.padding[i] = s->padding[i];
    }
    return o;
}

/* Small whole numbers: every sum is exact, in any order. */
static hd_tensor *whole(hd_shape shape, hd_dtype dtype) { return hd_cast(hd_randint(shape, HD_I32, -3, 4), dtype); }

static hd_shape shape_of(int64_t a, int64_t b, const int64_t *spatial, int axes) {
    hd_shape shape = {.rank = axes + 2, .size = {a, b}};
    for (int i = 0; i < axes; ++i) shape.size[i + 2] = spatial[i];
    return shape;
}

/* Calls visit(y index, x index, w index) for every product that a convolution adds up. */
typedef struct products {
    double *y, *x, *w; /* a convolution fills y, its gradients the others */
    const double *from_x, *from_w, *from_y;
} products;

static void convolve(const sizes *s, const int64_t *result, products *p) {
    int64_t image[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, out[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
            dilation[3] = {1, 1, 1}, before[3] = {0};
    for (int i = 0; i < s->axes; ++i) {
        const int a = 3 - s->axes + i;
        image[a] = s->image[i], kernel[a] = s->kernel[i], out[a] = result[i];
        stride[a] = s->stride[i], dilation[a] = s->dilation[i], before[a] = s->padding[i].before;
    }
    const int64_t in_group = s->in / s->groups, out_group = s->out / s->groups;
    for (int64_t n = 0; n < s->batch; ++n)
        for (int64_t o = 0; o < s->out; ++o)
            for (int64_t i = 0; i < in_group; ++i)
                for (int64_t q = 0; q < out[0] * out[1] * out[2]; ++q)
                    for (int64_t k = 0; k < kernel[0] * kernel[1] * kernel[2]; ++k) {
                        const int64_t at[3] = {q / out[2] / out[1], q / out[2] % out[1], q % out[2]};
                        const int64_t tap[3] = {k / kernel[2] / kernel[1], k / kernel[2] % kernel[1], k % kernel[2]};
                        int64_t place = 0;
                        bool inside = true;
                        for (int a = 0; a < 3; ++a) {
                            const int64_t c = at[a] * stride[a] + tap[a] * dilation[a] - before[a];
                            inside = inside && c >= 0 && c < image[a];
                            place = place * image[a] + c;
                        }
                        if (!inside) continue;
                        const int64_t channel = n * s->in + o / out_group * in_group + i;
                        const int64_t x = channel * image[0] * image[1] * image[2] + place;
                        const int64_t w = (o * in_group + i) * kernel[0] * kernel[1] * kernel[2] + k;
                        const int64_t y = (n * s->out + o) * out[0] * out[1] * out[2] + q;
                        p->y[y] += p->from_x[x] * p->from_w[w];
                        p->x[x] += p->from_y[y] * p->from_w[w];
                        p->w[w] += p->from_y[y] * p->from_x[x];
                    }
}

static double *numbers(const hd_tensor *t) {
    double *v = calloc((size_t)hd_tensor_count(t) + 1, sizeof *v);
    hd_to_array(t, v, HD_F64, (size_t)hd_tensor_count(t));
    return v;
}

static void check(const sizes *s, hd_dtype dtype) {
    HD_SCOPE;
    const hd_conv_opts o = options(s);
    hd_tensor *x = hd_requires_grad(whole(shape_of(s->batch, s->in, s->image, s->axes), dtype));
    hd_tensor *w = hd_requires_grad(whole(shape_of(s->out, s->in / s->groups, s->kernel, s->axes), dtype));
    hd_tensor *b = hd_requires_grad(whole(HD_SHAPE(s->out), dtype));
    hd_tensor *y = hd_conv(x, w, NULL, &o), *with_bias = hd_conv(x, w, b, &o);
    assert_ok();
    int64_t result[3] = {1, 1, 1};
    for (int i = 0; i < s->axes; ++i) result[i] = hd_tensor_size(y, i + 2);
    hd_tensor *g = whole(hd_tensor_shape(y), dtype);
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = g));
    assert_ok();
    double *vx = numbers(x), *vw = numbers(w), *vg = numbers(g);
    products p = {calloc((size_t)hd_tensor_count(y) + 1, 8),
                  calloc((size_t)hd_tensor_count(x) + 1, 8),
                  calloc((size_t)hd_tensor_count(w) + 1, 8),
                  vx,
                  vw,
                  vg};
    convolve(s, result, &p);
    hd_shape shape = hd_tensor_shape(y), x_shape = hd_tensor_shape(x), w_shape = hd_tensor_shape(w);
    assert_tensor(y, dtype, &shape, p.y);
    assert_tensor(hd_grad(x), dtype, &x_shape, p.x);
    assert_tensor(hd_grad(w), dtype, &w_shape, p.w);
    hd_shape channels = {.rank = shape.rank - 1, .size = {s->out, 1, 1, 1}};
    for (int i = 1; i < channels.rank; ++i) channels.size[i] = 1;
    assert_same(with_bias, hd_add(y, hd_reshape(b, channels)));
    /* back to the image, with a bias */
    hd_conv_opts t = o;
    for (int i = 0; i < s->axes; ++i)
        t.output_padding[i] =
            (s->image[i] + s->padding[i].before + s->padding[i].after - 1 - s->dilation[i] * (s->kernel[i] - 1)) %
            s->stride[i];
    hd_tensor *c = whole(HD_SHAPE(s->in), dtype), *back = hd_conv_transpose(g, w, c, &t);
    channels.size[0] = s->in;
    assert_same(back, hd_add(hd_conv_transpose(g, w, NULL, &t), hd_reshape(c, channels)));
    free(vx), free(vw), free(vg), free(p.x), free(p.y), free(p.w);
    hd_clear_tape();
}

static void random_shapes(void **state) {
    (void)state;
    hd_seed(5);
    for (int i = 0; i < 400; ++i) {
        sizes s = {.batch = 1 + random_below(2), .groups = random_below(3) ? 1 : 1 + random_below(3)};
        s.axes = 1 + (int)random_below(3);
        s.in = s.groups * (1 + random_below(4));
        s.out = s.groups * (1 + random_below(5));
        for (int a = 0; a < s.axes; ++a) {
            s.kernel[a] = 1 + random_below(4);
            s.stride[a] = 1 + random_below(3);
            s.dilation[a] = 1 + random_below(2);
            s.padding[a] = (hd_padding){random_below(4) - 1, random_below(4) - 1};
            const int64_t least = (s.kernel[a] - 1) * s.dilation[a] + 1 - s.padding[a].before - s.padding[a].after;
            s.image[a] = (least > 1 ? least : 1) + random_below(s.axes == 1 ? 70 : s.axes == 2 ? 12 : 4);
        }
        if (when_slow((uint64_t)i, 4)) check(&s, i % 3 ? HD_F32 : HD_F64);
    }
}

static void shapes_past_blocks(void **state) {
    (void)state;
    hd_seed(6);
    const sizes many_channels = {1, 70, 30, 1, 2, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes long_kernel = {2, 1, 2, 1, 1, {700}, {300}, {1}, {1}, {{5, 3}}};
    const sizes wide = {1, 3, 13, 1, 2, {3, 300}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes depthwise = {2, 40, 40, 40, 2, {11, 13}, {3, 3}, {2, 1}, {1, 2}, {{1, 1}, {2, 2}}};
    const sizes stride_past_kernel = {1, 2, 3, 1, 2, {17, 19}, {2, 1}, {5, 4}, {1, 1}, {{0, 0}, {1, 0}}};
    const sizes narrow = {1, 4, 4, 1, 2, {90, 1}, {3, 1}, {1, 1}, {1, 1}, {{1, 1}, {0, 0}}};
    const sizes matrix_unit = {2, 64, 130, 1, 2, {15, 14}, {3, 3}, {2, 2}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes all[] = {many_channels, long_kernel, wide, depthwise, stride_past_kernel, narrow, matrix_unit};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        if (when_slow(i, 2)) check(&all[i], HD_F32);
        if (when_slow(i + 1, 2)) check(&all[i], HD_F64);
    }
}

/* ---- windows of 3 x 3, of many channels: Winograd's way ---------------------------------------------------------- */
/* It is exact for small whole numbers, like summing up: tiles that are filled and not, lines and images that share
 * panels, channels past a block, groups, padding of any kind. */
static void windows_of_three(void **state) {
    (void)state;
    hd_seed(9);
    const sizes odd = {2, 64, 70, 1, 2, {17, 21}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes wide = {1, 33, 40, 1, 2, {6, 600}, {3, 3}, {1, 1}, {1, 1}, {{0, 2}, {2, 1}}};
    const sizes long_sums = {1, 270, 32, 1, 2, {12, 30}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes small_images = {9, 72, 50, 1, 2, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes groups = {1, 66, 96, 2, 2, {32, 30}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes cut_off = {1, 48, 49, 1, 2, {40, 37}, {3, 3}, {1, 1}, {1, 1}, {{-2, -1}, {-3, 4}}};
    const sizes beside = {2, 64, 64, 1, 3, {1, 14, 15}, {1, 3, 3}, {2, 1, 1}, {1, 1, 1}, {{1, 0}, {1, 1}, {1, 1}}};
    const sizes all[] = {odd, wide, long_sums, small_images, groups, cut_off, beside};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (when_slow(i, 4)) check(&all[i], HD_F32);
}

/* ---- many small images: one to a lane ---------------------------------------------------------------------------- */
/* Blocks of images that are filled and not, strides, gaps, padding that cuts and padding past the kernel, groups, axes
 * of all numbers, channels past a block, images that do not fit an item. */
static void many_small_images(void **state) {
    (void)state;
    hd_seed(13);
    const sizes plain = {32, 16, 16, 1, 2, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes rest = {35, 5, 13, 1, 2, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes strides = {64, 3, 25, 1, 2, {9, 7}, {3, 2}, {2, 3}, {1, 1}, {{1, 0}, {2, 1}}};
    const sizes gaps = {33, 4, 12, 1, 2, {8, 9}, {3, 3}, {1, 1}, {2, 3}, {{2, 2}, {3, 1}}};
    const sizes groups = {40, 12, 18, 3, 2, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes cut = {31, 6, 12, 1, 2, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {{-1, 2}, {4, -2}}};
    const sizes channels = {32, 130, 14, 1, 2, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {{1, 1}, {1, 1}}};
    const sizes signals = {48, 7, 16, 1, 1, {19}, {5}, {1}, {1}, {{2, 2}}};
    const sizes volumes = {32, 3, 12, 1, 3, {3, 4, 5}, {3, 2, 3}, {1, 1, 1}, {1, 1, 1}, {{1, 1}, {0, 1}, {1, 1}}};
    const sizes lines = {32, 12, 24, 1, 2, {24, 20}, {5, 3}, {1, 1}, {1, 1}, {{2, 2}, {1, 1}}};
    const sizes all[] = {plain, rest, strides, gaps, groups, cut, channels, signals, volumes, lines};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        if (when_slow(i, 4)) check(&all[i], HD_F32);
}

/* What a window does not see does not reach its result, also where images share lanes, and threads share lines. */
static void many_small_images_with_special_numbers(void **state) {
    (void)state;
    hd_seed(14);
    HD_SCOPE;
    const hd_conv_opts *opts = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    hd_tensor *x = hd_randn(HD_SHAPE(33, 16, 12, 12), HD_F32), *w = hd_randn(HD_SHAPE(20, 16, 3, 3), HD_F32);
    hd_tensor *expected = hd_copy(hd_conv(x, w, NULL, opts));
    const int64_t image = 17, line = 5, column = 11;
    ((float *)hd_data_mut(x, HD_F32))[((image * 16 + 3) * 12 + line) * 12 + column] = NAN;
    const int threads = hd_num_threads();
    hd_tensor *alone = NULL;
    for (int count = 1; count <= 4; ++count) {
        hd_set_num_threads(count);
        hd_tensor *y = hd_conv(x, w, NULL, opts);
        if (count == 1) alone = y;
        const float *v = hd_data(y, HD_F32), *without = hd_data(expected, HD_F32), *by_one = hd_data(alone, HD_F32);
        for (int64_t i = 0; i < hd_tensor_count(y); ++i) {
            const int64_t row = i / 12 % 12 - line, side = i % 12 - column;
            const bool sees = i / (20 * 144) == image && row >= -1 && row <= 1 && side >= -1;
            assert_true(sees ? isnan(v[i]) : v[i] == without[i] && v[i] == by_one[i]);
        }
    }
    hd_set_num_threads(threads);
}

/* Nor does a number that a tap never sees reach its gradient; and threads do not change it. */
static void gradients_of_small_images(void **state) {
    (void)state;
    hd_seed(15);
    HD_SCOPE;
    const hd_conv_opts *opts = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    hd_tensor *x = hd_randn(HD_SHAPE(33, 16, 8, 8), HD_F32), *g = hd_randn(HD_SHAPE(33, 20, 8, 8), HD_F32);
    const int threads = hd_num_threads();
    for (int special = 0; special < 2; ++special) {
        if (special) ((float *)hd_data_mut(x, HD_F32))[5 * 64] = INFINITY; /* the first pixel of channel 5 */
        hd_set_num_threads(1);
        hd_tensor *w = hd_conv_weight_gradient(x, g, HD_SHAPE(3, 3), opts);
        const float *v = hd_data(w, HD_F32);
        for (int64_t i = 0; i < hd_tensor_count(w); ++i) {
            const bool sees = special && i / 9 % 16 == 5 && i % 9 < 6 && i % 3 < 2;
            assert_true(isfinite(v[i]) == !sees);
        }
        for (int count = 2; count <= 5; ++count) {
            hd_set_num_threads(count);
            hd_tensor *again = hd_conv_weight_gradient(x, g, HD_SHAPE(3, 3), opts);
            assert_memory_equal(hd_data(again, HD_F32), v, (size_t)hd_tensor_count(w) * sizeof *v);
        }
    }
    hd_set_num_threads(threads);
}

/* Errors of Winograd's way are as small as those of summing up. */
static void windows_of_three_are_accurate(void **state) {
    (void)state;
    hd_seed(10);
    HD_SCOPE;
    const hd_conv_opts *same = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    for (int64_t channels = 32; channels <= 256; channels *= 2) {
        hd_tensor *x = hd_randn(HD_SHAPE(1, channels, 28, 28), HD_F32),
                  *w = hd_randn(HD_SHAPE(64, channels, 3, 3), HD_F32);
        hd_tensor *exact = hd_conv(hd_cast(x, HD_F64), hd_cast(w, HD_F64), NULL, same);
        hd_tensor *error = hd_abs(hd_sub(hd_cast(hd_conv(x, w, NULL, same), HD_F64), exact));
        const double rms = sqrt(9.0 * (double)channels);                            /* of a result */
        assert_true(hd_item(hd_max(error, HD_AXES(), NULL)) <= 40 * rms * 0x1p-24); /* summing up: 30 */
    }
}

/* Infinities and NaN reach those results whose windows see them, and no others; nor do sums that are too large on the
 * way. */
static void windows_of_three_with_special_numbers(void **state) {
    (void)state;
    hd_seed(11);
    static const struct { int64_t batch, lines, columns; } images[] = {{2, 31, 26}, {1, 8, 700}};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        const int64_t width = images[i].columns, plane = images[i].lines * width, all = images[i].batch * 64 * plane;
        hd_tensor *x = whole(HD_SHAPE(images[i].batch, 64, images[i].lines, width), HD_F32),
                  *w = whole(HD_SHAPE(40, 64, 3, 3), HD_F32);
        float *v = hd_data_mut(x, HD_F32);
        v[5 * width + 7] = NAN;
        v[plane + 6 * width + 3] = INFINITY;
        v[9 * plane] = -INFINITY;
        v[all - 1] = 3e38f; /* times -3 to 3, where a patch would add it to itself */
        assert_same(hd_conv(x, w, NULL, NULL),
                    hd_cast(hd_conv(hd_cast(x, HD_F64), hd_cast(w, HD_F64), NULL, NULL), HD_F32));
    }
}

static void any_layout_and_dtype(void **state) {
    (void)state;
    hd_seed(7);
    HD_SCOPE;
    hd_tensor *x = whole(HD_SHAPE(5, 6, 2, 3), HD_F32), *w = whole(HD_SHAPE(3, 3, 2, 4), HD_F32);
    hd_tensor *images = hd_permute(x, HD_AXES(2, 3, 0, 1)), *kernels = hd_permute(w, HD_AXES(3, 0, 2, 1));
    hd_tensor *y = hd_conv(images, kernels, NULL, NULL);
    assert_same(y, hd_conv(hd_contiguous(images), hd_contiguous(kernels), NULL, NULL));
    assert_same(hd_conv(hd_cast(images, HD_BF16), hd_cast(kernels, HD_BF16), NULL, NULL), hd_cast(y, HD_BF16));
    assert_same(hd_conv(hd_cast(images, HD_F16), kernels, NULL, NULL), y);
    assert_same(hd_conv2d(hd_select(images, 0, 1), kernels, NULL, NULL), hd_select(y, 0, 1));
}

/* Nor when some of the results are no numbers, and what is beside them is summed up: rows of tiles, and channels that
 * threads may share out. */
static void threads_do_not_change_windows_of_three(void **state) {
    (void)state;
    hd_seed(12);
    static const int64_t images[][3] = {{64, 56, 64}, {64, 14, 200}}; /* channels, pixels, results */
    const int threads = hd_num_threads();
    for (int i = 0; i < 2; ++i)
        for (int in_weight = 0; in_weight < 2; ++in_weight) {
            HD_SCOPE;
            const int64_t channels = images[i][0], size = images[i][1];
            hd_tensor *x = hd_randn(HD_SHAPE(1, channels, size, size), HD_F32),
                      *w = hd_randn(HD_SHAPE(images[i][2], channels, 3, 3), HD_F32);
            if (in_weight)
                ((float *)hd_data_mut(w, HD_F32))[3 * 9 * channels] = INFINITY; /* of one result */
            else
                ((float *)hd_data_mut(x, HD_F32))[size * size / 3] = NAN;
            hd_set_num_threads(1);
            hd_tensor *expected = hd_conv(x, w, NULL, NULL);
            for (int count = 2; count <= 8; ++count) {
                hd_set_num_threads(count);
                assert_same(hd_conv(x, w, NULL, NULL), expected);
            }
        }
    hd_set_num_threads(threads);
}

static void threads_do_not_change_the_result(void **state) {
    (void)state;
    hd_seed(8);
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(2, 8, 20, 21), HD_F32), *w = hd_randn(HD_SHAPE(16, 8, 3, 3), HD_F32);
    hd_tensor *results[2][3];
    const int threads = hd_num_threads();
    for (int i = 0; i < 2; ++i) {
        hd_set_num_threads(i == 0 ? 1 : 4);
        results[i][0] = hd_conv(x, w, NULL, NULL);
        results[i][1] = hd_conv_transpose(results[i][0], w, NULL, NULL);
        results[i][2] = hd_conv_weight_gradient(x, results[i][0], HD_SHAPE(3, 3), NULL);
    }
    hd_set_num_threads(threads);
    for (int k = 0; k < 3; ++k) assert_same(results[0][k], results[1][k]);
}

static void empty_and_special(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(HD_SHAPE(2, 3, 2), HD_F32), *b = HD_TENSOR_F32(HD_SHAPE(2), 4, 5);
    assert_true(
        hd_shape_equal(hd_tensor_shape(hd_conv(hd_zeros(HD_SHAPE(0, 3, 5), HD_F32), w, b, NULL)), HD_SHAPE(0, 2, 4)));
    assert_values(hd_conv(hd_zeros(HD_SHAPE(1, 0, 3), HD_F32), hd_zeros(HD_SHAPE(2, 0, 2), HD_F32), b, NULL), HD_F32, 4,
                  4, 5, 5);
    assert_values(hd_conv(hd_zeros(HD_SHAPE(1, 0, 3), HD_F32), hd_zeros(HD_SHAPE(2, 0, 2), HD_F32), NULL, NULL), HD_F32,
                  0, 0, 0, 0);
    const hd_conv_opts *around = HD_OPTS(hd_conv_opts, .padding = {{1, 1}}); /* nothing but padding */
    assert_values(hd_conv(hd_zeros(HD_SHAPE(1, 3, 0), HD_F32), w, b, around), HD_F32, 4, 5);
    hd_tensor *nan = HD_TENSOR_F32(HD_SHAPE(1, 1, 5), 1, NAN, 2, INFINITY, 3);
    assert_values(hd_conv(nan, hd_ones(HD_SHAPE(1, 1, 2), HD_F32), NULL, NULL), HD_F32, NAN, NAN, INFINITY, INFINITY);
    assert_values(hd_conv_weight_gradient(hd_zeros(HD_SHAPE(0, 2, 3), HD_F32), hd_zeros(HD_SHAPE(0, 1, 2), HD_F32),
                                          HD_SHAPE(2), NULL),
                  HD_F32, 0, 0, 0, 0);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_zeros(HD_SHAPE(1, 4, 5, 5), HD_F32), *w = hd_zeros(HD_SHAPE(6, 4, 3, 3), HD_F32);
    assert_null(hd_conv(hd_zeros(HD_SHAPE(4, 5), HD_F32), w, NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_conv: x [4,5]; it must be [n, channels, 1 to 3 spatial axes]");
    assert_null(hd_conv(x, hd_zeros(HD_SHAPE(6, 3, 3, 3), HD_F32), NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "weight [6,3,3,3], 1 groups: weight is [out, in / groups, kernel]");
    assert_null(hd_conv(x, hd_zeros(HD_SHAPE(6, 3, 3, 3), HD_F32), NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "x has 4 channels, and this weight takes 3");
    assert_null(hd_conv(hd_select(x, 0, 0), w, NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "a single image is [1, channels, ...]");
    assert_null(hd_conv(x, hd_zeros(HD_SHAPE(6, 4, 3), HD_F32), NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "as many spatial axes");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .groups = 3)));
    assert_error(HD_ERROR_SHAPE, "3 groups");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .groups = -1)));
    assert_error(HD_ERROR_VALUE, "-1 groups");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .stride = {1, -2})));
    assert_error(HD_ERROR_VALUE, "stride -2, dilation 1 on spatial axis 1");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .stride = {2})));
    assert_error(HD_ERROR_VALUE, "a stride of 2 on spatial axis 0 and none on axis 1; give one for each of 2 axes");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .dilation = {0, 2})));
    assert_error(HD_ERROR_VALUE, "a dilation of 2 on spatial axis 1 and none on axis 0");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .dilation = {3, 1})));
    assert_error(HD_ERROR_SHAPE, "a window of 7 (kernel 3, dilation 3) does not fit spatial axis 0, which has 5");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .padding = {{INT64_MAX, 0}})));
    assert_error(HD_ERROR_VALUE, "padding");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .padding = {{-2, -1}})));
    assert_error(HD_ERROR_SHAPE, "does not fit spatial axis 0, which has 2 with its padding");
    assert_null(hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .stride = {1, 1, 2})));
    assert_error(HD_ERROR_VALUE, "options for spatial axis 2; x has 2");
    assert_null(hd_conv(x, w, hd_zeros(HD_SHAPE(4), HD_F32), NULL));
    assert_error(HD_ERROR_SHAPE, "bias [4]; it must be [6]");
    assert_null(hd_conv(x, hd_zeros(HD_SHAPE(6, 4, 0, 3), HD_F32), NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "a kernel of size 0");
    assert_null(hd_conv(hd_cast(x, HD_I32), hd_cast(w, HD_I32), NULL, NULL));
    assert_error(HD_ERROR_DTYPE, "i32; it takes floats");
    assert_null(hd_conv(x, NULL, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "weight");
    assert_null(hd_conv_transpose(x, w, NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "weight is [in, out / groups, kernel]");
    hd_tensor *back = hd_zeros(HD_SHAPE(4, 2, 3, 3), HD_F32);
    assert_null(hd_conv_transpose(x, back, NULL, HD_OPTS(hd_conv_opts, .output_padding = {1})));
    assert_error(HD_ERROR_VALUE, "output padding 1 on spatial axis 0; it is from 0 to below the stride, 1");
    assert_null(hd_conv_transpose(x, back, NULL, HD_OPTS(hd_conv_opts, .padding = {{4, 4}})));
    assert_error(HD_ERROR_SHAPE, "less than its padding, 8");
    assert_null(hd_conv_weight_gradient(x, hd_zeros(HD_SHAPE(1, 6, 4, 4), HD_F32), HD_SHAPE(3, 3), NULL));
    assert_error(HD_ERROR_SHAPE, "is not that of a convolution of x [1,4,5,5] with a kernel [3,3]");
    assert_null(hd_conv1d(x, w, NULL, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_conv1d: x [1,4,5,5]; it must have 3 axes, or 2 for one image");
}

RUN(test(random_shapes), test(many_small_images), test(many_small_images_with_special_numbers),
    test(gradients_of_small_images), test(shapes_past_blocks), test(windows_of_three),
    test(windows_of_three_are_accurate), test(windows_of_three_with_special_numbers), test(any_layout_and_dtype),
    test(threads_do_not_change_the_result), test(threads_do_not_change_windows_of_three), test(empty_and_special),
    test(bad_arguments))
