/* Changes of images: crops, flips, turns, values and sizes. */
#include "each_allocation.h"
#include "support_data.h"

#include <math.h>

/* ---- turning, against PyTorch (tests/golden/images.txt, by make_images.py) ---------------------------------------- */
static hd_tensor *pattern(int64_t h, int64_t w, hd_dtype dtype) {
    double values[64];
    for (int64_t i = 0; i < h * w; ++i) values[i] = (double)((i / w * 7 + i % w * 3) % 11) / 4;
    return hd_cast(hd_from_data(values, HD_SHAPE(1, h, w), HD_F64), dtype);
}

static void turned_images_are_those_of_pytorch(void **state) {
    (void)state;
    char path[1024], text[4096];
    snprintf(path, sizeof path, "%s/../golden/images.txt", HODU_TEST_DATA);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    int found = 0;
    for (; fgets(text, sizeof text, file) != NULL; ++found) {
        HD_SCOPE;
        char *at = text;
        const int64_t h = strtoll(at, &at, 10), w = strtoll(at, &at, 10);
        const double degrees = strtod(at, &at);
        double values[64];
        at = strstr(at, "->") + 2;
        for (int64_t i = 0; i < h * w; ++i) values[i] = strtod(at, &at);
        hd_tensor *expected = hd_from_data(values, HD_SHAPE(1, h, w), HD_F64);
        assert_close(hd_image_rotate(pattern(h, w, HD_F64), degrees), expected, 0, 1e-9);
        assert_close(hd_image_rotate(pattern(h, w, HD_F32), degrees), expected, 0, 1e-4);
    }
    fclose(file);
    assert_int_equal(found, 6);
}

static void a_quarter_turn_is_counter_clockwise_and_integers_are_rounded(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_reshape(hd_range(0, 1, 9, HD_U8), HD_SHAPE(1, 3, 3));
    assert_values(hd_image_rotate(x, 90), HD_U8, 2, 5, 8, 1, 4, 7, 0, 3, 6);
    assert_values(hd_image_rotate(hd_cast(x, HD_I16), -90), HD_I16, 6, 3, 0, 7, 4, 1, 8, 5, 2);
    hd_tensor *bright = hd_full(HD_SHAPE(2, 3, 5, 5), HD_U8, 255);
    assert_int_equal(hd_item_i64(hd_max(hd_image_rotate(bright, 33), HD_AXES(), NULL)), 255);
}

/* ---- crops and flips --------------------------------------------------------------------------------------------- */
/* [n,1,4,5]: element (r, c) of image i is 100 i + 10 r + c + 1. */
static hd_tensor *numbers(int64_t n) {
    hd_tensor *image = hd_mul_scalar(hd_reshape(hd_range(0, 1, n, HD_F32), HD_SHAPE(n, 1, 1, 1)), 100);
    hd_tensor *row = hd_mul_scalar(hd_reshape(hd_range(0, 1, 4, HD_F32), HD_SHAPE(4, 1)), 10);
    return hd_add(image, hd_add(row, hd_range(1, 1, 5, HD_F32)));
}

static void crops_are_windows_anywhere(void **state) {
    (void)state;
    HD_SCOPE;
    hd_generator *g = hd_generator_new(3);
    hd_tensor *x = numbers(300), *y = hd_image_random_crop(x, 3, 2, 1, g);
    assert_int_equal(hd_generator_draw(g), 2);
    assert_int_equal(hd_generator_draw(NULL), 0);
    float v[300][3][2];
    assert_true(hd_to_array(y, v, HD_F32, 1800));
    int seen[4][6] = {{0}}, kinds = 0;
    for (int i = 0; i < 300; ++i) {
        int found = 0;
        for (int top = 0; top < 4; ++top) /* of the image with its padding, 6 x 7 */
            for (int left = 0; left < 6; ++left) {
                bool same = true;
                for (int r = 0; r < 3; ++r)
                    for (int c = 0; c < 2; ++c) {
                        const int row = top + r - 1, column = left + c - 1;
                        const bool inside = row >= 0 && row < 4 && column >= 0 && column < 5;
                        same = same && v[i][r][c] == (inside ? (float)(100 * i + 10 * row + column + 1) : 0.0f);
                    }
                found += same;
                seen[top][left] += same;
            }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 24; ++i) kinds += seen[i / 6][i % 6] > 0;
    assert_int_equal(kinds, 24);
    assert_same(hd_image_random_crop(x, 3, 2, 1, hd_generator_new(3)), y);
    hd_tensor *one = hd_image_random_crop(hd_select(x, 0, 0), 4, 5, 0, NULL);
    assert_same(one, hd_select(x, 0, 0));
    assert_int_equal(hd_tensor_rank(one), 3);
    hd_seed(0);
}

static void flips_are_drawn_for_each_image(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = numbers(100);
    for (int axis = -2; axis < 0; ++axis) {
        hd_tensor *(*flip)(hd_tensor *, double, hd_generator *) =
            axis == -1 ? hd_image_random_hflip : hd_image_random_vflip;
        assert_same(flip(x, 0, NULL), x);
        hd_tensor *all = flip(x, 1, NULL), *some = flip(x, 0.3, NULL);
        assert_same(all, hd_flip(x, HD_AXES(axis)));
        int flipped = 0, kept = 0;
        for (int64_t i = 0; i < 100; ++i) {
            HD_SCOPE;
            flipped += hd_allclose(hd_select(some, 0, i), hd_select(all, 0, i), NULL);
            kept += hd_allclose(hd_select(some, 0, i), hd_select(x, 0, i), NULL);
        }
        assert_int_equal(flipped + kept, 100);
        assert_in_range(flipped, 15, 45);
    }
    hd_seed(0);
}

static void turns_are_drawn_for_each_image(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_broadcast_to(pattern(5, 5, HD_F32), HD_SHAPE(40, 1, 5, 5));
    hd_generator *g = hd_generator_new(1);
    hd_tensor *y = hd_image_random_rotate(x, 20, g);
    assert_false(hd_allclose(hd_select(y, 0, 0), hd_select(y, 0, 1), NULL));
    hd_tensor *angles = hd_uniform(HD_SHAPE(1), HD_F32, 0, 1); /* anything: the thread's draws are not g's */
    assert_int_equal(hd_tensor_count(angles), 1);
    hd_generator_set(g, 1, 0);
    hd_generator *before = hd_generator_use(g);
    assert_same(hd_image_random_rotate(x, 20, NULL), y);
    hd_generator_use(before);
    assert_close(hd_image_random_rotate(x, 0, g), x, 0, 1e-6);
    hd_seed(0);
}

/* ---- values and sizes -------------------------------------------------------------------------------------------- */
static void normal_values_have_their_channels_mean_and_deviation(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_cast(HD_TENSOR_F32(HD_SHAPE(2, 1, 2), 10, 20, 30, 40), HD_U8);
    hd_tensor *mean = HD_TENSOR_F32(HD_SHAPE(2), 10, 30), *deviation = HD_TENSOR_F32(HD_SHAPE(2), 5, 20);
    assert_values(hd_image_normalize(x, mean, deviation), HD_F32, 0, 2, 0, 0.5);
    assert_values(hd_image_normalize(hd_unsqueeze(x, 0), mean, deviation), HD_F32, 0, 2, 0, 0.5);
}

static void other_sizes_are_those_of_hd_resize(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = pattern(4, 6, HD_F32);
    const hd_resize_opts *linear = HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_LINEAR);
    assert_same(hd_image_resize(x, 3, 9, linear), hd_resize(x, HD_SHAPE(3, 9), linear));
    hd_tensor *small = hd_cast(HD_TENSOR_F32(HD_SHAPE(1, 1, 2), 0, 255), HD_U8);
    assert_values(hd_image_resize(small, 1, 4, NULL), HD_U8, 0, 0, 255, 255);
    assert_values(hd_image_resize(small, 1, 4, linear), HD_U8, 0, 64, 191, 255);
    hd_tensor *steep = hd_image_resize(small, 1, 8, HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_CUBIC));
    assert_int_equal(hd_item_i64(hd_select(hd_flatten(steep), 0, 0)), 0); /* it would overshoot */
    assert_int_equal(hd_item_i64(hd_select(hd_flatten(steep), 0, -1)), 255);
}

/* ---- recorded, differentiated ------------------------------------------------------------------------------------ */
static hd_tensor *augmented(hd_tensor *x) {
    x = hd_image_random_hflip(hd_image_random_crop(x, 4, 4, 2, NULL), 0.5, NULL);
    return hd_image_random_rotate(x, 15, NULL);
}
static void a_script_draws_anew_as_calls_do(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = numbers(3);
    hd_builder *b = hd_builder_new("augment");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", augmented(hd_input("x", HD_SHAPE(3, 1, 4, 5), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_set_input(s, "x", x);
    hd_seed(6);
    hd_tensor *expected[2] = {augmented(x), augmented(x)};
    hd_seed(6);
    for (int i = 0; i < 2; ++i) assert_same(hd_outputs_get(hd_script_run(s), "y"), expected[i]);
    hd_seed(0);
}

static void gradients_flow_through(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(1, 2, 2), HD_F64));
    hd_backward(hd_sum(hd_image_rotate(x, 90), HD_AXES(), NULL));
    assert_close(hd_grad(x), hd_ones(HD_SHAPE(1, 2, 2), HD_F64), 1e-12, 0);
}

/* ---- arguments and memory ---------------------------------------------------------------------------------------- */
static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = numbers(1), *flat = hd_ones(HD_SHAPE(2, 2), HD_F32), *one = hd_ones(HD_SHAPE(1), HD_F32);
    hd_generator *g = hd_generator_new(0);
    hd_image_random_crop(NULL, 1, 1, 0, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_image_random_crop");
    hd_image_random_crop(flat, 1, 1, 0, NULL);
    assert_error(HD_ERROR_SHAPE, "hd_image_random_crop: x is [2,2]; an image is [c,h,w]");
    hd_image_random_crop(x, 0, 1, 0, NULL);
    assert_error(HD_ERROR_VALUE, "a window of 0 x 1");
    hd_image_random_crop(x, 7, 5, 1, g);
    assert_error(HD_ERROR_SHAPE, "hd_image_random_crop: a window of 7 x 5 does not fit into 6 x 7");
    hd_image_random_hflip(x, 1.5, g);
    assert_error(HD_ERROR_VALUE, "hd_image_random_hflip: a probability of 1.5");
    hd_image_random_vflip(NULL, 0.5, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_image_random_vflip");
    hd_image_rotate(x, NAN);
    assert_error(HD_ERROR_VALUE, "hd_image_rotate: an angle of nan degrees");
    hd_image_rotate(hd_cast(x, HD_I32), 1);
    assert_error(HD_ERROR_DTYPE, "hd_image_rotate: x is i32");
    hd_image_random_rotate(x, INFINITY, g);
    assert_error(HD_ERROR_VALUE, "hd_image_random_rotate");
    hd_image_random_rotate(flat, 1, g);
    assert_error(HD_ERROR_SHAPE, "hd_image_random_rotate");
    hd_image_normalize(x, hd_ones(HD_SHAPE(2), HD_F32), one);
    assert_error(HD_ERROR_SHAPE, "hd_image_normalize: `mean` is [2], and x [1,1,4,5]");
    hd_image_normalize(x, one, hd_ones(HD_SHAPE(1), HD_I64));
    assert_error(HD_ERROR_DTYPE, "`deviation` is i64");
    hd_image_normalize(x, one, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`deviation`");
    hd_image_resize(flat, 2, 2, NULL);
    assert_error(HD_ERROR_SHAPE, "hd_image_resize");
    hd_image_resize(x, 0, 2, NULL);
    assert_false(hd_ok());
    assert_non_null(strstr(hd_error_message(), "hd_image_resize"));
    hd_error_clear();
    hd_image_resize(hd_cast(x, HD_I64), 2, 2, HD_OPTS(hd_resize_opts, .mode = HD_RESIZE_LINEAR));
    assert_error(HD_ERROR_DTYPE, "hd_image_resize: x is i64");
    assert_int_equal(hd_generator_draw(g), 0); /* what fails draws nothing */
}

static void everything(void) {
    hd_generator *g = hd_generator_new(1);
    hd_tensor *x = numbers(2), *one = hd_ones(HD_SHAPE(1), HD_F32);
    hd_image_random_crop(x, 3, 3, 1, g);
    hd_image_random_hflip(x, 0.5, g);
    hd_image_random_rotate(hd_cast(x, HD_U8), 10, g);
    hd_image_normalize(hd_image_resize(x, 2, 2, NULL), one, one);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(everything, 5000);
}

RUN(test(turned_images_are_those_of_pytorch), test(a_quarter_turn_is_counter_clockwise_and_integers_are_rounded),
    test(crops_are_windows_anywhere), test(flips_are_drawn_for_each_image), test(turns_are_drawn_for_each_image),
    test(normal_values_have_their_channels_mean_and_deviation), test(other_sizes_are_those_of_hd_resize),
    test(a_script_draws_anew_as_calls_do), test(gradients_flow_through), test(wrong_arguments_are_named),
    test(each_allocation_may_fail))
