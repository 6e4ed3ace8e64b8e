/* Ops and a script on Metal's device, all the way: rendered text, the runtime, and a fake of Metal that compiles the
 * text as C++ and runs it on the CPU. This is not a Mac. A few ops, as each kernel takes a compiler of C++ its time;
 * opencl/eager has them all. */
#include "support.h"
#include "metal/open_fake.h"

static void ops_run_there(void **state) {
    (void)state;
    HD_SCOPE;
    assert_true(hd_device_available(hd_metal()));
    hd_set_device(hd_metal());
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 3), 1, -2, 3, -4, 5, -6),
              *w = hd_param(hd_full(HD_SHAPE(3, 2), HD_F32, 0.5));
    hd_tensor *y = hd_relu(hd_add_scalar(hd_matmul(x, w), 0.25));
    assert_values(y, HD_F32, 1.25, 1.25, 0, 0);
    hd_backward(hd_sum(y, HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 1, 1, -2, -2, 3, 3);
    assert_values(hd_mul(hd_scalar(10, HD_F32), y), HD_F32, 12.5, 12.5, 0, 0);
    hd_fill(x, 2);
    assert_values(x, HD_F32, 2, 2, 2, 2, 2, 2);
    assert_int_equal(hd_tensor_device(x).kind, HD_DEVICE_METAL);
    hd_set_device(hd_cpu());
    hd_clear_tape();
    assert_ok();
}

/* Reductions in groups and in pieces, wide rows, draws and small floats. */
static void they_give_what_the_cpu_gives(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *rows = hd_randn(HD_SHAPE(3, 1000), HD_F32), *large = hd_randn(HD_SHAPE(50000), HD_F32);
    hd_tensor *rows_there = hd_to(rows, hd_metal()), *large_there = hd_to(large, hd_metal());
    assert_close(hd_to(hd_sum(rows_there, HD_AXES(1), NULL), hd_cpu()), hd_sum(rows, HD_AXES(1), NULL), 1e-5, 1e-5);
    assert_close(hd_to(hd_max(large_there, HD_AXES(), NULL), hd_cpu()), hd_max(large, HD_AXES(), NULL), HD_ZERO,
                 HD_ZERO);
    assert_close(hd_to(hd_exp(rows_there), hd_cpu()), hd_exp(rows), 1e-6, HD_ZERO);
    assert_same(hd_to(hd_cast(rows_there, HD_BF16), hd_cpu()), hd_cast(rows, HD_BF16));
    hd_seed(3);
    hd_tensor *drawn = hd_rand(HD_SHAPE(100), HD_F32);
    hd_set_device(hd_metal());
    hd_seed(3);
    hd_tensor *drawn_there = hd_rand(HD_SHAPE(100), HD_F32);
    hd_set_device(hd_cpu());
    assert_same(hd_to(drawn_there, hd_cpu()), drawn);
    assert_ok();
}

/* Whole numbers, which are exact however they are summed. */
static void products_give_what_the_cpu_gives(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_cast(hd_randint(HD_SHAPE(70, 600), HD_I64, -3, 4), HD_F32),
              *b = hd_cast(hd_randint(HD_SHAPE(40, 600), HD_I64, -3, 4), HD_F32);
    assert_same(hd_to(hd_matmul(hd_to(a, hd_metal()), hd_t(hd_to(b, hd_metal()))), hd_cpu()), hd_matmul(a, hd_t(b)));
    const hd_conv_opts *o = HD_OPTS(hd_conv_opts, .stride = {2, 1}, .padding = {{1, 0}, {2, 1}});
    hd_tensor *x = hd_reshape(hd_slice(a, 0, 0, 2, 1), HD_SHAPE(2, 6, 10, 10)),
              *w = hd_reshape(b, HD_SHAPE(1000, 6, 2, 2));
    assert_same(hd_to(hd_conv(hd_to(x, hd_metal()), hd_to(w, hd_metal()), NULL, o), hd_cpu()), hd_conv(x, w, NULL, o));
    assert_ok();
}

static void scripts_run_there(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("metal");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(4, 8), HD_F32);
    hd_builder_add_output(b, "y", hd_sum(hd_tanh(hd_mul_scalar(x, 3)), HD_AXES(1), NULL));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_tensor *given = hd_randn(HD_SHAPE(4, 8), HD_F32);
    hd_script_set_input(s, "x", given);
    hd_tensor *here = hd_outputs_get(hd_script_run(s), "y");
    hd_script_set_device(s, hd_metal());
    hd_tensor *there = hd_outputs_get(hd_script_run(s), "y");
    assert_ok();
    assert_int_equal(hd_tensor_device(there).kind, HD_DEVICE_METAL);
    assert_close(hd_to(there, hd_cpu()), here, 1e-5, 1e-6);
    assert_int_equal(fake->leaked, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(ops_run_there), test(they_give_what_the_cpu_gives),
                                       test(products_give_what_the_cpu_gives), test(scripts_run_there)};
    const char *missing = open_fake();
    if (missing == NULL) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", missing);
    return 77;
}
