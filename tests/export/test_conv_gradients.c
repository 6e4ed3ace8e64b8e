/* Gradients of convolutions' weights as C, whose sums go on in f64 after a row, a plane, an image, or never. */
#include "exported.h"

enum { UNITS = 8 };

static hd_script *script_of(hd_tensor *x, hd_tensor *g, hd_shape kernel) {
    hd_builder *b = started("gradient");
    HD_NO_GRAD;
    hd_tensor *in = hd_input("x", hd_tensor_shape(x), HD_F32), *of = hd_input("g", hd_tensor_shape(g), HD_F32);
    hd_builder_add_output(b, "y", hd_conv_weight_gradient(in, of, kernel, NULL));
    return built(b);
}

/* goes_on: some sum goes on in f64. */
static void sums_agree(hd_shape image, hd_shape result, hd_shape kernel, bool goes_on) {
    HD_SCOPE;
    nets n;
    char path[320];
    hd_seed(1);
    hd_tensor *in[2] = {hd_randn(image, HD_F32), hd_randn(result, HD_F32)}, *y;
    hd_script *s = script_of(in[0], in[1], kernel);
    begin_nets(&n);
    if (!add_net(&n, s, NULL)) fail_msg("%s", hd_error_message());
    snprintf(path, sizeof path, "%s/c0.c", folder);
    assert_int_equal(file_says(path, "double total"), goes_on);
    compile_nets(&n, "");
    net_run r = net_begin(&n, 0);
    assert_int_equal(net_call(&r, s, in, &y), 0);
    net_end(&r);
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_set_input(s, "x", in[0]);
    hd_script_set_input(s, "g", in[1]);
    hd_tensor *expected = output(s, "y");
    const char *why = difference_within(y, expected, units_at_largest(expected, UNITS));
    if (why[0] != '\0') fail_msg("%lld columns: %s", (long long)image.size[image.rank - 1], why);
    end_nets(&n);
}

static void sums_of_any_length_agree(void **state) {
    (void)state;
    sums_agree(HD_SHAPE(3, 2, 6, 6), HD_SHAPE(3, 4, 4, 4), HD_SHAPE(3, 3), false);
    sums_agree(HD_SHAPE(4, 2, 12, 12), HD_SHAPE(4, 3, 10, 10), HD_SHAPE(3, 3), true);        /* of an image */
    sums_agree(HD_SHAPE(2, 1, 8, 52), HD_SHAPE(2, 2, 6, 50), HD_SHAPE(3, 3), true);          /* of a row */
    sums_agree(HD_SHAPE(1, 2, 5, 9, 21), HD_SHAPE(1, 2, 4, 8, 20), HD_SHAPE(2, 2, 2), true); /* of a plane */
    sums_agree(HD_SHAPE(1, 1, 302), HD_SHAPE(1, 1, 300), HD_SHAPE(3), true);                 /* of all there is */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_of_any_length_agree, make_folder, remove_folder)};
    return cmocka_run_group_tests_name("export/conv_gradients", tests, NULL, NULL);
}
