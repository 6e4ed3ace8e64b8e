/* Which devices there are. What drivers say is tested in xla/devices. */
#include "support.h"

static void there_is_one_cpu(void **state) {
    (void)state;
    assert_int_equal(hd_device_count(HD_DEVICE_CPU), 1);
    assert_true(hd_device_available(hd_cpu()));
    assert_null(hd_device_missing(hd_cpu()));
    assert_string_equal(hd_device_missing((hd_device){HD_DEVICE_CPU, 1}), "there is one, cpu:0");
    assert_string_equal(hd_device_missing((hd_device){HD_DEVICE_CPU, -1}), "there is one, cpu:0");
    const hd_device_info info = hd_device_describe(hd_cpu()); /* {0}: the thread's */
    assert_true(strlen(info.name) > 0 && info.memory_bytes > 0 && info.units > 0 && info.has_f64);
    assert_string_equal(hd_device_describe((hd_device){HD_DEVICE_DEFAULT, 0}).name, info.name);
    assert_null(hd_compiler_missing(HD_COMPILER_HODU, hd_cpu()));
    assert_null(hd_compiler_missing(HD_COMPILER_HODU, (hd_device){HD_DEVICE_DEFAULT, 0})); /* the thread's */
    assert_string_equal(hd_compiler_missing(HD_COMPILER_HODU, (hd_device){HD_DEVICE_CPU, 1}),
                        "HODU does not run on cpu:1: there is one, cpu:0");
    assert_ok();
}

static void what_does_not_run_ops_says_so(void **state) {
    (void)state;
    assert_true(hd_device_count(HD_DEVICE_CUDA) >= 0);
    assert_int_equal(hd_device_count(HD_DEVICE_METAL), 0);
    const hd_device none = hd_cuda(999);
    const char *no_cuda = !HD_HAS_CUDA
                              ? "this library was built without CUDA (HODU_CUDA=OFF); scripts run there when XLA"
                          : hd_device_count(HD_DEVICE_CUDA) > 0 ? "cuda:0" /* there is one, there are some */
                                                                : "NVIDIA's";
    assert_false(hd_device_available(none));
    assert_non_null(strstr(hd_device_missing(none), no_cuda));
    const char *no_metal = HD_HAS_METAL ? "there is no Metal framework: this is not macOS (" : "built without Metal";
    assert_non_null(strstr(hd_device_missing(hd_metal()), no_metal));
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_HODU, none), "HODU does not run on cuda:999: "));
    assert_non_null(hd_compiler_missing(HD_COMPILER_XLA, hd_metal()));
    hd_set_device(none);
    assert_non_null(strstr(hd_error_message(), no_cuda));
    assert_error(HD_ERROR_DEVICE, "hd_set_device: device cuda:999 is not available here: ");
    assert_string_equal(hd_device_describe(hd_metal()).name, "");
    assert_non_null(strstr(hd_error_message(), no_metal));
    assert_error(HD_ERROR_DEVICE, "hd_device_describe: device metal:0 is not here: ");
    hd_set_device(hd_metal());
    assert_non_null(strstr(hd_error_message(), no_metal));
    assert_error(HD_ERROR_DEVICE, "device metal:0 is not available here: ");
    hd_set_device((hd_device){HD_DEVICE_CPU, 7});
    assert_error(HD_ERROR_DEVICE, "device cpu:7 is not available here: there is one, cpu:0");
    assert_int_equal(hd_current_device().kind, HD_DEVICE_CPU);
}

static void foreign_values_are_no_devices(void **state) {
    (void)state;
    const int kinds[] = {-1, HD_DEVICE_DEFAULT, HD_DEVICE_KINDS, 1000};
    for (int i = 0; i < 4; ++i) {
        const hd_device device = {(hd_device_kind)kinds[i], 0};
        assert_int_equal(hd_device_count(device.kind), 0);
        assert_false(hd_device_available(device));
        assert_string_equal(hd_device_missing(device), "there is no such kind of device");
    }
    assert_string_equal(hd_compiler_missing((hd_compiler)3, hd_cpu()), "there is no such compiler");
    assert_non_null(hd_compiler_missing(HD_COMPILER_XLA, (hd_device){(hd_device_kind)77, 0}));
    assert_ok();
}

/* A question is answered while an error is pending, and leaves it as it is. */
static void questions_leave_errors_alone(void **state) {
    (void)state;
    hd_set_num_threads(0);
    assert_true(hd_device_available(hd_cpu()));
    assert_non_null(hd_device_missing(hd_metal()));
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_HODU, hd_metal()), "HODU does not run on metal:0"));
    assert_true(hd_compiler_available(HD_COMPILER_HODU));
    assert_error(HD_ERROR_VALUE, "hd_set_num_threads: 0 threads");
    const char *first = hd_device_missing(hd_metal()); /* what the library asks itself does not change it */
    hd_set_device(hd_cuda(999));
    assert_error(HD_ERROR_DEVICE, "cuda:999");
    assert_non_null(strstr(first, HD_HAS_METAL ? "there is no Metal framework" : "built without Metal"));
}

static void a_library_without_xla_says_so(void **state) {
    (void)state;
    if (HD_HAS_XLA) skip();
    HD_SCOPE;
    const char expected[] = "this library was built without XLA (HODU_XLA=OFF)";
    assert_false(hd_compiler_available(HD_COMPILER_XLA));
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_XLA, hd_cpu()), expected));
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_XLA, hd_cuda(0)), expected));
    hd_builder *b = hd_builder_new("none");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", HD_SHAPE(2), HD_F32)));
    hd_builder_end(b);
    setenv("HODU_COMPILER", "xla", 1);
    hd_script *s = hd_builder_build(b);
    unsetenv("HODU_COMPILER");
    hd_script_compile(s);
    assert_error(HD_ERROR_DEVICE, expected);
    hd_script_set_compiler(s, HD_COMPILER_HODU);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_error(HD_ERROR_DEVICE, expected);
    hd_script_compile(s);
    assert_ok();
    assert_int_equal(hd_script_format_stablehlo(s, NULL, 0), -1);
    assert_error(HD_ERROR_DEVICE, expected);
    hd_script_print_stablehlo(s);
    assert_error(HD_ERROR_DEVICE, expected);
}

static void a_library_without_cuda_says_so(void **state) {
    (void)state;
    if (HD_HAS_CUDA) skip();
    const char expected[] =
        "this library was built without CUDA (HODU_CUDA=OFF); scripts run there when XLA compiles them";
    assert_false(hd_device_available(hd_cuda(0)));
    assert_string_equal(hd_device_missing(hd_cuda(0)), expected);
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_HODU, hd_cuda(0)), expected));
    hd_set_device(hd_cuda(0));
    assert_error(HD_ERROR_DEVICE, expected);
}

static void a_library_without_opencl_says_so(void **state) {
    (void)state;
    if (HD_HAS_OPENCL) skip();
    const char expected[] = "this library was built without OpenCL (HODU_OPENCL=OFF)";
    assert_int_equal(hd_device_count(HD_DEVICE_OPENCL), 0);
    assert_false(hd_device_available(hd_opencl(0)));
    assert_string_equal(hd_device_missing(hd_opencl(0)), expected);
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_HODU, hd_opencl(0)), expected));
    hd_set_device(hd_opencl(0));
    assert_error(HD_ERROR_DEVICE, expected);
    hd_device_describe(hd_opencl(0));
    assert_error(HD_ERROR_DEVICE, expected);
}

static void a_library_without_metal_says_so(void **state) {
    (void)state;
    if (HD_HAS_METAL) skip();
    const char expected[] = "this library was built without Metal (HODU_METAL=OFF)";
    assert_int_equal(hd_device_count(HD_DEVICE_METAL), 0);
    assert_string_equal(hd_device_missing(hd_metal()), expected);
    assert_non_null(strstr(hd_compiler_missing(HD_COMPILER_HODU, hd_metal()), expected));
}

int main(void) {
    const struct CMUnitTest tests[] = {test(there_is_one_cpu),
                                       test(what_does_not_run_ops_says_so),
                                       test(foreign_values_are_no_devices),
                                       test(questions_leave_errors_alone),
                                       test(a_library_without_xla_says_so),
                                       test(a_library_without_cuda_says_so),
                                       test(a_library_without_opencl_says_so),
                                       test(a_library_without_metal_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
