/* Columns of windows, places of the largest, powers over windows: against plain loops and what they are made for. */
#include "families.h"

/* ---- columns ----------------------------------------------------------------------------------------------------- */
typedef struct geometry {
    int axes;
    hd_shape image, window, places;
    hd_conv_opts opts;
} geometry;

static geometry random_geometry(void) {
    geometry g = {.axes = 1 + (int)random_below(3), .opts = HD_DEFAULTS(hd_conv_opts)};
    const bool strides = random_below(2), dilations = random_below(2);
    g.image.rank = g.window.rank = g.places.rank = g.axes;
    for (int i = 0; i < g.axes; ++i) {
        const int64_t stride = 1 + random_below(3), dilation = 1 + random_below(2);
        g.window.size[i] = 1 + random_below(3);
        g.opts.stride[i] = strides ? stride : 0;
        g.opts.dilation[i] = dilations ? dilation : 0;
        const int64_t span = (dilations ? dilation : 1) * (g.window.size[i] - 1) + 1;
        g.opts.padding[i] = (hd_padding){random_below(4) - 1, random_below(4) - 1};
        g.image.size[i] = span + 2 + random_below(3);
        const int64_t room = g.image.size[i] + g.opts.padding[i].before + g.opts.padding[i].after - span;
        g.places.size[i] = room / (strides ? stride : 1) + 1;
    }
    return g;
}

static hd_shape images_of(const geometry *g, int64_t n, int64_t channels) {
    hd_shape shape = {.rank = 2, .size = {n, channels}};
    for (int i = 0; i < g->axes; ++i) shape.size[shape.rank++] = g->image.size[i];
    return shape;
}

/* Whole numbers, of which sums are exact: images of three axes are too large for fixture(). */
static hd_tensor *counted(hd_shape shape) {
    return hd_reshape(hd_mod_scalar(hd_range(0, 7, hd_shape_count(shape), HD_F64), 23), shape);
}

/* What a window sees at a place, of [n, c, image] in the order of rows: 0 outside. */
static double seen_at(const geometry *g, const double *image, const int64_t *in_window, const int64_t *place) {
    int64_t at[3];
    for (int i = 0; i < g->axes; ++i) {
        const int64_t stride = g->opts.stride[i] == 0 ? 1 : g->opts.stride[i],
                      dilation = g->opts.dilation[i] == 0 ? 1 : g->opts.dilation[i];
        at[i] = place[i] * stride + in_window[i] * dilation - g->opts.padding[i].before;
        if (at[i] < 0 || at[i] >= g->image.size[i]) return 0;
    }
    return image[index_of(&g->image, at)];
}

static void columns_are_what_windows_see(void **state) {
    (void)state;
    static double v[MODEL_MOST], want[1 << 16];
    for (int round = 0; round < 300; ++round) {
        if (!when_slow(round, 4) || !when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const geometry g = random_geometry();
        hd_tensor *x = fixture(images_of(&g, 2, 2), HD_F32);
        assert_true(hd_to_array(x, v, HD_F64, MODEL_MOST));
        const int64_t pixels = hd_shape_count(g.image), each = hd_shape_count(g.window),
                      places = hd_shape_count(g.places);
        assert_in_range(4 * each * places, 1, 1 << 16);
        for (int64_t i = 0; i < 4 * each * places; ++i) {
            int64_t in_window[3], place[3];
            coordinates_of(&g.window, i / places % each, in_window);
            coordinates_of(&g.places, i % places, place);
            want[i] = seen_at(&g, v + i / places / each * pixels, in_window, place);
        }
        const hd_shape columns = HD_SHAPE(2, 2 * each, places);
        assert_tensor(hd_im2col(x, g.window, &g.opts), HD_F32, &columns, want);
    }
}

/* sum(im2col(x) y) is sum(x col2im(y)), and the gradient of one is the other. */
static void adding_up_is_the_transpose(void **state) {
    (void)state;
    for (int round = 0; round < 200; ++round) {
        if (!when_slow(round, 4) || !when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const geometry g = random_geometry();
        hd_tensor *x = hd_requires_grad(counted(images_of(&g, 2, 3))), *y = hd_im2col(x, g.window, &g.opts);
        hd_tensor *seed = hd_requires_grad(hd_copy(hd_flip(hd_detach(y), HD_AXES())));
        hd_tensor *image = hd_col2im(seed, g.image, g.window, &g.opts);
        assert_ok();
        assert_true(hd_shape_equal(hd_tensor_shape(image), hd_tensor_shape(x)));
        hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = hd_detach(seed)));
        hd_backward_with(image, HD_OPTS(hd_backward_opts, .seed = hd_detach(x)));
        assert_same(hd_grad(x), hd_detach(image));
        assert_same(hd_grad(seed), hd_detach(y));
        hd_clear_tape();
    }
}

/* One window takes no more memory, however large its stride and dilation are. */
static void strides_that_lead_nowhere(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_conv_opts *opts = HD_OPTS(hd_conv_opts, .stride = {1 << 30, 1}, .dilation = {1, 1 << 30});
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(1, 1, 2, 2), 1, 2, 3, 4), *columns = hd_im2col(x, HD_SHAPE(2, 1), opts);
    assert_values(columns, HD_F32, 1, 2, 3, 4);
    hd_memory_reset_peak();
    const int64_t before = hd_memory().peak_bytes;
    assert_same(hd_col2im(columns, HD_SHAPE(2, 2), HD_SHAPE(2, 1), opts), x);
    assert_true(hd_memory().peak_bytes - before < 1 << 16);
}

static void convolution_is_a_product_of_columns(void **state) {
    (void)state;
    for (int round = 0; round < 50; ++round) {
        if (!when_slow(round, 4) || !when_compiled((uint64_t)round, 7)) continue;
        HD_SCOPE;
        const geometry g = random_geometry();
        hd_shape kernel = {.rank = 2, .size = {4, 3}};
        for (int i = 0; i < g.axes; ++i) kernel.size[kernel.rank++] = g.window.size[i];
        hd_tensor *x = counted(images_of(&g, 2, 3)), *w = counted(kernel);
        hd_tensor *y = hd_matmul(hd_reshape(w, HD_SHAPE(4, -1)), hd_im2col(x, g.window, &g.opts));
        hd_tensor *z = hd_conv(x, w, NULL, &g.opts);
        assert_close(hd_reshape(y, hd_tensor_shape(z)), z, 1e-12, 1e-12);
    }
}

static void columns_of_any_dtype_and_layout(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_permute(fixture(HD_SHAPE(4, 5, 2, 3), HD_F32), HD_AXES(2, 3, 0, 1));
    const hd_conv_opts *opts = HD_OPTS(hd_conv_opts, .padding = {{1, 0}, {0, 1}});
    assert_same(hd_im2col(x, HD_SHAPE(2, 2), opts), hd_im2col(hd_contiguous(x), HD_SHAPE(2, 2), opts));
    hd_tensor *i = hd_cast(x, HD_I16), *columns = hd_im2col(i, HD_SHAPE(2, 2), NULL);
    assert_int_equal(hd_tensor_dtype(columns), HD_I16);
    hd_tensor *sums = hd_col2im(columns, HD_SHAPE(4, 5), HD_SHAPE(2, 2), NULL);
    assert_same(hd_cast(sums, HD_F32), hd_col2im(hd_cast(columns, HD_F32), HD_SHAPE(4, 5), HD_SHAPE(2, 2), NULL));
    hd_tensor *ones = hd_ones(HD_SHAPE(1, 301, 301), HD_BF16);
    hd_tensor *middle = hd_col2im(ones, HD_SHAPE(601), HD_SHAPE(301), NULL);
    assert_true(hd_item(hd_select(hd_flatten(middle), 0, 300)) == 300); /* 301 rounded once; bf16 stops at 256 */
    assert_true(hd_shape_equal(hd_tensor_shape(hd_im2col(hd_ones(HD_SHAPE(0, 2, 3), HD_F32), HD_SHAPE(2), NULL)),
                               HD_SHAPE(0, 4, 2)));
    assert_true(
        hd_shape_equal(hd_tensor_shape(hd_col2im(hd_ones(HD_SHAPE(2, 0, 2), HD_F32), HD_SHAPE(3), HD_SHAPE(2), NULL)),
                       HD_SHAPE(2, 0, 3)));
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */
static void an_index_leads_to_its_value(void **state) {
    (void)state;
    for (int axes = 1; axes <= 3; ++axes) {
        HD_SCOPE;
        hd_shape window = {.rank = axes, .size = {2, 3, 2}};
        hd_tensor *x = fixture(HD_SHAPE(2, 5, 6, 5), HD_F32);
        const hd_pool_opts *opts =
            axes == 2 ? HD_OPTS(hd_pool_opts, .stride = {2, 1}, .padding = {{1, 1}, {0, 1}}, .ceil_mode = true) : NULL;
        const hd_pair y = hd_max_pool_with_index(x, window, opts);
        assert_same(y.values, hd_max_pool(x, window, opts));
        assert_int_equal(hd_tensor_dtype(y.indices), HD_I64);
        const int64_t images = axes == 1 ? 60 : axes == 2 ? 10 : 2;
        hd_tensor *flat = hd_reshape(x, HD_SHAPE(images, -1)), *at = hd_reshape(y.indices, HD_SHAPE(images, -1));
        assert_same(hd_gather(flat, 1, at), hd_reshape(y.values, HD_SHAPE(images, -1)));
    }
}

static void powers_over_windows(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(1, 6), 3, 4, 0, 0, -6, 8);
    assert_values(hd_lp_pool(x, 2, HD_SHAPE(2), NULL), HD_F32, 5, 0, 10);
    assert_values(hd_lp_pool(x, 1, HD_SHAPE(3), NULL), HD_F32, 7, 2);
    hd_tensor *w = hd_param(x);
    hd_backward(hd_sum(hd_lp_pool(w, 2, HD_SHAPE(2), NULL), HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 0.6f, 0.8f, 0, 0, -0.6f, 0.8f); /* 0, not NaN, where the sum is 0 */
    hd_clear_tape();
    hd_tensor *large = hd_full(HD_SHAPE(1, 2), HD_F16, 1000); /* whose square f16 has not */
    assert_int_equal(hd_tensor_dtype(hd_lp_pool(large, 2, HD_SHAPE(2), NULL)), HD_F16);
    assert_close(hd_cast(hd_lp_pool(large, 2, HD_SHAPE(2), NULL), HD_F32), HD_TENSOR_F32(HD_SHAPE(1, 1), 1414.2f),
                 0x1p-11, 0);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void bad_columns(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2, 4, 4), HD_F32), *y = hd_ones(HD_SHAPE(1, 8, 9), HD_F32);
    assert_null(hd_im2col(NULL, HD_SHAPE(2, 2), NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_im2col: `x` is NULL");
    assert_null(hd_im2col(hd_ones(HD_SHAPE(4, 4), HD_F32), HD_SHAPE(2, 2), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_im2col: x [4,4]; it must be [n, channels, 1 to 3 spatial axes]");
    assert_null(hd_im2col(x, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_im2col: a window [2] on images with spatial axes [4,4]");
    assert_null(hd_im2col(x, HD_SHAPE(5, 1), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_im2col: a window of 5");
    assert_null(hd_im2col(x, HD_SHAPE(2, 2), HD_OPTS(hd_conv_opts, .stride = {1})));
    assert_error(HD_ERROR_VALUE, "hd_im2col: a stride of 1 on spatial axis 0 and none on axis 1");
    assert_null(hd_im2col(x, HD_SHAPE(2, 2), HD_OPTS(hd_conv_opts, .groups = 2)));
    assert_error(HD_ERROR_VALUE, "hd_im2col: groups or output padding");
    assert_null(hd_im2col(x, HD_SHAPE(2, 2), HD_OPTS(hd_conv_opts, .output_padding = {0, 1})));
    assert_error(HD_ERROR_VALUE, "hd_im2col: groups or output padding");
    assert_null(hd_im2col(x, HD_SHAPE(2, 2), HD_OPTS(hd_conv_opts, .dilation = {-1, 1})));
    assert_error(HD_ERROR_VALUE, "hd_im2col: stride 1, dilation -1");
    assert_non_null(hd_col2im(y, HD_SHAPE(4, 4), HD_SHAPE(2, 2), NULL));
    assert_null(hd_col2im(y, HD_SHAPE(4, 5), HD_SHAPE(2, 2), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_col2im: columns [1,8,9]; windows [2,2] at places [3,4] of images [4,5]");
    assert_null(hd_col2im(y, HD_SHAPE(5, 5), HD_SHAPE(3, 3), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_col2im: columns [1,8,9]; windows [3,3]");
    assert_null(hd_col2im(hd_select(y, 0, 0), HD_SHAPE(4, 4), HD_SHAPE(2, 2), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_col2im: columns [8,9]");
    assert_null(hd_col2im(NULL, HD_SHAPE(4, 4), HD_SHAPE(2, 2), NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_col2im: `x` is NULL");
}

static void bad_pools(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 4), HD_F32), *i = hd_ones(HD_SHAPE(2, 4), HD_I32);
    assert_null(hd_lp_pool(NULL, 2, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_lp_pool: `x` is NULL");
    assert_null(hd_lp_pool(x, 0, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_VALUE, "hd_lp_pool: p = 0");
    assert_null(hd_lp_pool(x, INFINITY, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_VALUE, "hd_lp_pool: p = inf");
    assert_null(hd_lp_pool(i, 2, HD_SHAPE(2), NULL));
    assert_error(HD_ERROR_DTYPE, "hd_lp_pool: x is i32; it takes floats");
    assert_null(hd_lp_pool(x, 2, HD_SHAPE(2), HD_OPTS(hd_pool_opts, .adaptive = true)));
    assert_error(HD_ERROR_VALUE, "hd_lp_pool: an adaptive window");
    assert_null(hd_lp_pool(x, 2, HD_SHAPE(5), NULL));
    assert_error(HD_ERROR_SHAPE, "hd_lp_pool: a window of 5");
    assert_null(hd_max_pool_with_index(NULL, HD_SHAPE(2), NULL).values);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_max_pool_with_index: `x` is NULL");
    assert_null(hd_max_pool_with_index(i, HD_SHAPE(2), NULL).indices);
    assert_error(HD_ERROR_DTYPE, "hd_max_pool_with_index: i32; it takes floats");
    assert_null(hd_max_pool_with_index(x, HD_SHAPE(2, 2, 2), NULL).values);
    assert_error(HD_ERROR_SHAPE, "hd_max_pool_with_index: a window [2,2,2] on x [2,4]");
}

RUN(test(columns_are_what_windows_see), test(adding_up_is_the_transpose), test(strides_that_lead_nowhere),
    test(convolution_is_a_product_of_columns), test(columns_of_any_dtype_and_layout), test(an_index_leads_to_its_value),
    test(powers_over_windows), test(bad_columns), test(bad_pools))
