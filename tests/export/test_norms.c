/* Norms as C: long rows far from zero, whose sums are made of parts, give what the script gives; and where numbers are
 * f32, elements meet nothing of double precision, which small processors compute by hundreds of instructions. */
#include "exported.h"

enum { UNITS = 8 };
typedef hd_tensor *norm_call(hd_tensor *x, hd_tensor *g, hd_tensor *w);

static hd_tensor *rows(hd_tensor *x, hd_tensor *g, hd_tensor *w) { return hd_layer_norm(x, 1, w, g, 1e-5); }
static hd_tensor *rows_alone(hd_tensor *x, hd_tensor *g, hd_tensor *w) {
    (void)g, (void)w;
    return hd_layer_norm(x, 2, NULL, NULL, 1e-5);
}
static hd_tensor *gradient(hd_tensor *x, hd_tensor *g, hd_tensor *w) {
    return hd_layer_norm_gradient(hd_sub(x, g), x, 1, w, 1e-5);
}
static hd_tensor *weights(hd_tensor *x, hd_tensor *g, hd_tensor *w) {
    (void)w;
    return hd_layer_norm_weight_gradient(hd_mul(x, g), x, 1, 1e-5);
}
static hd_tensor *rms_rows(hd_tensor *x, hd_tensor *g, hd_tensor *w) {
    (void)g;
    return hd_rms_norm(x, w, 1e-5);
}
static hd_tensor *rms_gradient(hd_tensor *x, hd_tensor *g, hd_tensor *w) {
    return hd_rms_norm_gradient(hd_sub(x, g), x, w, 1e-5);
}
static const struct {
    const char *name;
    norm_call *call;
} calls[] = {{"rows", rows},       {"rows alone", rows_alone}, {"gradient", gradient},
             {"weights", weights}, {"rms rows", rms_rows},     {"rms gradient", rms_gradient}};
enum { CALLS = sizeof calls / sizeof calls[0] };

static hd_script *script_of(int k, hd_tensor *const *in) {
    hd_builder *b = started(calls[k].name);
    hd_tensor *x[3];
    for (int i = 0; i < 3; ++i)
        x[i] = hd_input((const char *[]){"x", "g", "w"}[i], hd_tensor_shape(in[i]), hd_tensor_dtype(in[i]));
    HD_NO_GRAD;
    hd_builder_add_output(b, "y", calls[k].call(x[0], x[1], x[2]));
    return built(b);
}

static void norms_agree(int64_t count, int64_t n, hd_dtype dtype, double middle) {
    HD_SCOPE;
    nets all;
    hd_script *s[CALLS];
    hd_seed(1);
    hd_tensor *in[3] = {hd_normal(HD_SHAPE(count, n), dtype, middle, 1), hd_randn(HD_SHAPE(n), dtype),
                        hd_randn(HD_SHAPE(n), dtype)};
    begin_nets(&all);
    for (int k = 0; k < CALLS; ++k) {
        s[k] = script_of(k, in);
        if (!add_net(&all, s[k], NULL)) fail_msg("%s: %s", calls[k].name, hd_error_message());
    }
    compile_nets(&all, "");
    for (int k = 0; k < CALLS; ++k) {
        hd_tensor *y;
        net_run r = net_begin(&all, k);
        assert_int_equal(net_call(&r, s[k], in, &y), 0);
        net_end(&r);
        hd_script_set_optimization_level(s[k], HD_O0);
        for (int i = 0; i < 3; ++i) hd_script_set_input(s[k], (const char *[]){"x", "g", "w"}[i], in[i]);
        hd_tensor *expected = output(s[k], "y");
        if (n == 1 && strstr(calls[k].name, "gradient") != NULL) continue; /* 0, but for noise */
        const char *why = difference_within(y, expected, units_at_largest(expected, UNITS));
        if (why[0] != '\0') fail_msg("%s of %lld elements: %s", calls[k].name, (long long)n, why);
    }
    end_nets(&all);
}

static void long_rows_far_from_zero_agree(void **state) {
    (void)state;
    norms_agree(3, 200, HD_F32, 100);
    norms_agree(100, 64, HD_F32, -3);
    norms_agree(2, 65, HD_F64, 1000);
    norms_agree(5, 1, HD_F32, 1);
}

/* Where a loop over the elements of a row begins, double precision does not follow. */
static void elements_of_f32_are_no_doubles(void **state) {
    (void)state;
    HD_SCOPE;
    char path[320], line[512];
    hd_tensor *in[3] = {hd_ones(HD_SHAPE(4, 32), HD_F32), hd_ones(HD_SHAPE(32), HD_F32), hd_ones(HD_SHAPE(32), HD_F32)};
    for (int k = 0; k < CALLS; ++k) {
        snprintf(path, sizeof path, "%s/net", folder);
        hd_script_export(script_of(k, in), path, NULL);
        assert_true(hd_ok());
        strcat(path, ".c");
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f) != NULL && strstr(line, "functions ----") == NULL) {}
        while (fgets(line, sizeof line, f) != NULL) {
            if (strstr(line, "for (int32_t j1 = 0") == NULL) continue;
            assert_non_null(fgets(line, sizeof line, f));
            if (strstr(line, "double") != NULL) fail_msg("%s: %s", calls[k].name, line);
        }
        fclose(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_rows_far_from_zero_agree, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(elements_of_f32_are_no_doubles, make_folder, remove_folder)};
    return cmocka_run_group_tests_name("export/norms", tests, NULL, NULL);
}
