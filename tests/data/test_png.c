/* PNG images, and IDX files. */
#include "each_allocation.h"
#include "png_samples.h"
#include "support_data.h"

/* ---- PNG --------------------------------------------------------------------------------------------------------- */
#define PARSE(sample) hd_png_parse(png_##sample, sizeof png_##sample)

/* Without libpng there is nothing to test, but what it says. */
static bool has_libpng(void) {
    HD_SCOPE;
    if (PARSE(gray) != NULL) return true;
    print_message("skipped: %s\n", hd_error_message());
    assert_error(HD_ERROR_STATE, "libpng");
    return false;
}
#define needs_libpng()                                                                                                 \
    if (!has_libpng()) skip()

/* What make_png.py puts at a place. */
static void check_pixels(hd_tensor *t, int channels, hd_dtype dtype) {
    double values[64];
    assert_ok();
    assert_int_equal(hd_tensor_dtype(t), dtype);
    assert_true(hd_shape_equal(hd_tensor_shape(t), HD_SHAPE(channels, 2, 3)));
    assert_true(hd_to_array(t, values, HD_F64, 64));
    for (int i = 0; i < channels * 6; ++i) {
        const int k = i / 6, r = i / 3 % 2, c = i % 3, v = 40 * r + 10 * c + k;
        assert_true(values[i] == (dtype == HD_U16 ? 257 * v + 3 : v));
    }
}

static void pixels_are_as_in_the_file(void **state) {
    (void)state;
    needs_libpng();
    HD_SCOPE;
    check_pixels(PARSE(gray), 1, HD_U8);
    check_pixels(PARSE(gray_alpha), 2, HD_U8);
    check_pixels(PARSE(rgb), 3, HD_U8);
    check_pixels(PARSE(rgba), 4, HD_U8);
    check_pixels(PARSE(gray_16), 1, HD_U16);
    check_pixels(PARSE(gray_alpha_16), 2, HD_U16);
    check_pixels(PARSE(rgb_16), 3, HD_U16);
    check_pixels(PARSE(rgba_16), 4, HD_U16);   /* not multiplied by its alpha */
    check_pixels(PARSE(with_gamma), 1, HD_U8); /* and not by anything else */
}

static void other_kinds_become_8_bits(void **state) {
    (void)state;
    needs_libpng();
    HD_SCOPE;
    assert_values(PARSE(one_bit), HD_U8, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, /* then */ 0, 255, 0, 255, 0, 255, 0,
                  255, 0, 255);
    assert_values(PARSE(palette), HD_U8, 255, 0, 1, 1, 0, 255, 0, 255, 2, 2, 255, 0, 0, 0, 3, 3, 0, 0);
    assert_values(PARSE(palette_alpha), HD_U8, 255, 0, 1, 0, 255, 2, 0, 0, 3, 0, 128, 255);
    hd_tensor *rows = hd_mul_scalar(hd_reshape(hd_range(0, 1, 4, HD_U8), HD_SHAPE(1, 4, 1)), 40);
    assert_same(PARSE(interlaced), hd_add(rows, hd_range(0, 10, 5, HD_U8)));
}

static void what_is_written_is_read_again(void **state) {
    (void)state;
    needs_libpng();
    HD_SCOPE;
    const char *path = fresh_path("png");
    for (int c = 1; c <= 4; ++c)
        for (int wide = 0; wide < 2; ++wide) {
            hd_tensor *x = hd_randint(HD_SHAPE(c, 7, 5), wide ? HD_U16 : HD_U8, 0, wide ? 65536 : 256);
            hd_png_save(path, x);
            hd_tensor *y = hd_png_load(path);
            assert_same(y, x);
            assert_int_equal(hd_tensor_dtype(y), hd_tensor_dtype(x));
        }
    hd_tensor *view = hd_transpose(hd_reshape(hd_range(0, 1, 6, HD_U8), HD_SHAPE(1, 2, 3)), 1, 2);
    hd_png_save(path, view);
    assert_values(hd_png_load(path), HD_U8, 0, 3, 1, 4, 2, 5);
    hd_seed(0);
}

static void what_is_no_png_is_an_error(void **state) {
    (void)state;
    needs_libpng();
    HD_SCOPE;
    unsigned char bytes[sizeof png_rgb];
    for (size_t length = 0; length < sizeof png_rgb; ++length) { /* cut off anywhere */
        hd_png_parse(png_rgb, length);
        assert_error(HD_ERROR_VALUE, "hd_png_parse: no PNG image: ");
    }
    for (size_t i = 0; i < sizeof png_rgb; ++i) { /* a byte is another one: the sums notice, or nothing of it counts */
        HD_SCOPE;
        memcpy(bytes, png_rgb, sizeof bytes);
        bytes[i] ^= 0x41;
        if (hd_png_parse(bytes, sizeof bytes) == NULL) assert_error(HD_ERROR_VALUE, "no PNG image");
        assert_ok();
    }
    PARSE(huge);
    assert_error(HD_ERROR_VALUE, "cannot hold the 900000 x 900000 pixels that it promises");
    PARSE(no_pixels);
    assert_error(HD_ERROR_VALUE, "no PNG image");
    hd_png_parse("text that is long enough", 24);
    assert_error(HD_ERROR_VALUE, "no PNG image: ");
    hd_png_parse(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_png_parse: `bytes`");
    const char *path = written("no image", 8, "png");
    hd_png_load(path);
    assert_non_null(strstr(hd_error_message(), path));
    assert_error(HD_ERROR_VALUE, "hd_png_load: no PNG image");
    hd_png_load("/nowhere/at all.png");
    assert_error(HD_ERROR_STATE, "cannot be opened");
    hd_png_save("/nowhere/at all.png", hd_zeros(HD_SHAPE(1, 2, 2), HD_U8));
    assert_error(HD_ERROR_STATE, "hd_png_save: \"/nowhere/at all.png\" cannot be written");
    hd_png_save(NULL, hd_zeros(HD_SHAPE(1, 2, 2), HD_U8));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_png_save: `path`");
    hd_png_save(path, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_png_save: `image`");
    hd_png_save(path, hd_zeros(HD_SHAPE(5, 2, 2), HD_U8));
    assert_error(HD_ERROR_SHAPE, "the image is [5,2,2]; it must be [c,h,w], with 1 to 4 channels");
    hd_png_save(path, hd_zeros(HD_SHAPE(1, 0, 2), HD_U8));
    assert_error(HD_ERROR_SHAPE, "the image is [1,0,2]");
    hd_png_save(path, hd_zeros(HD_SHAPE(1, 2, 2), HD_F32));
    assert_error(HD_ERROR_DTYPE, "the image is f32; PNG has u8 and u16: hd_cast it");
}

/* ---- IDX --------------------------------------------------------------------------------------------------------- */
#define IDX(...) hd_idx_parse((const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

static void idx_has_tensors_of_six_types(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = IDX(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255);
    assert_values(t, HD_U8, 1, 2, 3, 4, 5, 255);
    assert_true(hd_shape_equal(hd_tensor_shape(t), HD_SHAPE(2, 3)));
    assert_values(IDX(0, 0, 9, 1, 0, 0, 0, 2, 255, 127), HD_I8, -1, 127);
    assert_values(IDX(0, 0, 0xb, 1, 0, 0, 0, 2, 255, 254, 1, 2), HD_I16, -2, 258);
    assert_values(IDX(0, 0, 0xc, 0, 0xff, 0xff, 0xff, 0xfd), HD_I32, -3);
    assert_values(IDX(0, 0, 0xd, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0), HD_F32, 1.5);
    assert_values(IDX(0, 0, 0xe, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0), HD_F64, -2.5);
    assert_int_equal(hd_tensor_count(IDX(0, 0, 8, 2, 0, 0, 0, 0, 255, 255, 255, 255)), 0);
}

static void what_is_no_idx_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    IDX(0x1f, 0x8b, 8, 0);
    assert_error(HD_ERROR_VALUE, "hd_idx_parse: it is compressed by gzip; gunzip it first");
    IDX(0, 0, 8);
    assert_error(HD_ERROR_VALUE, "does not begin as IDX does");
    IDX(1, 0, 8, 1);
    assert_error(HD_ERROR_VALUE, "does not begin as IDX does");
    IDX(0, 0, 0xa, 1, 0, 0, 0, 0);
    assert_error(HD_ERROR_VALUE, "IDX has no type 0x0a");
    IDX(0, 0, 8, 9);
    assert_error(HD_ERROR_VALUE, "it has rank 9; 8 is the most");
    IDX(0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0);
    assert_error(HD_ERROR_VALUE, "it ends after 11 bytes, among its 2 sizes");
    IDX(0, 0, 8, 1, 0, 0, 0, 3, 1, 2);
    assert_error(HD_ERROR_VALUE, "[3] of u8 are 3 bytes; there are 2");
    IDX(0, 0, 8, 1, 0, 0, 0, 1, 1, 2);
    assert_error(HD_ERROR_VALUE, "[1] of u8 are 1 bytes; there are 2");
    IDX(0, 0, 0xe, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255);
    assert_error(HD_ERROR_OVERFLOW, "hd_idx_parse");
    hd_idx_parse(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_idx_parse: `bytes`");
    const char *right = written("\0\0\x08\1\0\0\0\2\5\6", 10, "idx"), *wrong = written("\0\0\x08", 3, "idx");
    assert_values(hd_idx_load(right), HD_U8, 5, 6);
    hd_idx_load(wrong);
    assert_non_null(strstr(hd_error_message(), wrong));
    assert_error(HD_ERROR_VALUE, "hd_idx_load");
    hd_idx_load(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_idx_load: `path`");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static const char *path_of_image;
static void everything(void) {
    IDX(0, 0, 0xb, 1, 0, 0, 0, 2, 255, 254, 1, 2);
    hd_png_save(path_of_image, hd_zeros(HD_SHAPE(3, 4, 4), HD_U16));
    hd_png_load(path_of_image);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    needs_libpng();
    path_of_image = fresh_path("png");
    each_allocation_fails(everything, 500);
}

RUN(test(pixels_are_as_in_the_file), test(other_kinds_become_8_bits), test(what_is_written_is_read_again),
    test(what_is_no_png_is_an_error), test(idx_has_tensors_of_six_types), test(what_is_no_idx_is_an_error),
    test(each_allocation_may_fail))
