/* hd_quantize: products in integers, whose sums are exact; what it leaves as it is, and what it refuses. */
#include "builders.h"
#include "differences.h"
#include "each_allocation.h"
#include "folder.h"

enum { ROWS = 5, IN = 37, OUT = 11 };

static hd_tensor *numbers(hd_shape shape, double from, double by) {
    return hd_reshape(
        hd_sin(hd_add_scalar(hd_mul_scalar(hd_arange(0, (double)hd_shape_count(shape), 1, HD_F32), by), from)), shape);
}

static hd_script *product(hd_tensor *weight, hd_tensor *bias) {
    hd_builder *b = started("product");
    hd_builder_add_output(b, "y", hd_affine(hd_input("x", HD_SHAPE(ROWS, IN), HD_F32), weight, bias));
    return built(b);
}

static hd_tensor *run_on(hd_script *s, hd_tensor *x) {
    hd_script_set_input(s, "x", x);
    hd_tensor *y = output(s, "y");
    if (y == NULL) fail_msg("%s", hd_error_message());
    return y;
}

/* By loops: the nearest whole number, halves to even, within [low, 127]. */
static int whole(float x, float step, int low) {
    const double q = nearbyint((double)(x / step));
    return q < low ? low : q > 127 ? 127 : (int)q;
}

static void sums_are_those_of_whole_numbers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = numbers(HD_SHAPE(OUT, IN), 1, 0.7), *bias = numbers(HD_SHAPE(OUT), 2, 1);
    hd_tensor *x = hd_mul_scalar(numbers(HD_SHAPE(ROWS, IN), 0, 0.37), 3);
    hd_script *s = product(w, bias);
    hd_script *q = hd_quantize(s, (hd_tensors *const[]){HD_TENSORS(x)}, 1);
    assert_ok();
    const float *px = hd_data_f32(x), *pw = hd_data_f32(w), *pb = hd_data_f32(bias);
    const float step = (float)(hd_item(hd_max(hd_abs(x), HD_AXES(), NULL)) / 127);
    for (int beyond = 0; beyond < 2; ++beyond) { /* what no example had is cut off */
        hd_tensor *in = beyond ? hd_mul_scalar(x, 2) : x, *y = run_on(q, in);
        px = hd_data_f32(in);
        for (int j = 0; j < OUT; ++j) {
            float most = 0;
            for (int k = 0; k < IN; ++k) most = fmaxf(most, fabsf(pw[j * IN + k]));
            const float of_row = most / 127;
            for (int i = 0; i < ROWS; ++i) {
                int sum = 0;
                for (int k = 0; k < IN; ++k)
                    sum += whole(px[i * IN + k], step, -128) * whole(pw[j * IN + k], of_row, -127);
                const float expected = (float)sum * (of_row * step) + pb[j], got = hd_data_f32(y)[i * OUT + j];
                if (fabsf(expected - got) > 2e-6f * fmaxf(1, fabsf(expected)))
                    fail_msg("row %d, column %d: %.9g, not %.9g", i, j, (double)got, (double)expected);
            }
        }
    }
}

static hd_script *network(void) {
    hd_seed(4);
    hd_module *m = HD_SEQUENTIAL(hd_linear(IN, 64, NULL), hd_gelu_layer(), hd_linear(64, OUT, NULL));
    hd_builder *b = started("network");
    HD_NO_GRAD;
    hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", HD_SHAPE(ROWS, IN), HD_F32)));
    return built(b);
}

static void networks_are_nearly_the_same(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = network();
    hd_tensors *examples[4];
    for (int i = 0; i < 4; ++i) examples[i] = HD_TENSORS(hd_randn(HD_SHAPE(ROWS, IN), HD_F32));
    hd_script *q = hd_quantize(s, examples, 4);
    assert_ok();
    hd_tensor *x = hd_tensors_get(examples[1], 0), *exact = run_on(s, x), *y = run_on(q, x);
    const double error = hd_item(hd_max(hd_abs(hd_sub(exact, y)), HD_AXES(), NULL));
    assert_true(error > 0 && error < 0.02 * largest_of(exact));
    for (int level = HD_O0; level <= HD_O2; ++level) { /* integers are the same at every level */
        hd_script_set_optimization_level(q, (hd_optimization_level)level);
        const char *why = difference_within(run_on(q, x), y, units_at_largest(y, 4));
        if (why[0] != '\0') fail_msg("O%d: %s", level - HD_O0, why);
    }
    char path[600];
    snprintf(path, sizeof path, "%s/small.hoduscript", folder);
    hd_script_save(q, path);
    assert_same(run_on(hd_script_load(path), x), y);
}

/* A product of two values, of a vector, or of i8 stays what it is. */
static void others_stay(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = numbers(HD_SHAPE(IN, OUT), 0, 1);
    hd_builder *b = started("others");
    hd_tensor *x = hd_input("x", HD_SHAPE(ROWS, IN), HD_F32);
    hd_pair top = hd_topk(hd_matmul(x, w), 3, 1, true);
    hd_builder_add_output(b, "y", hd_matmul(hd_transpose(x, 0, 1), x));
    hd_builder_add_output(b, "values", top.values);
    hd_builder_add_output(b, "indices", top.indices);
    hd_script *s = built(b);
    hd_tensor *in = numbers(HD_SHAPE(ROWS, IN), 0, 0.3);
    hd_script *q = hd_quantize(s, (hd_tensors *const[]){HD_TENSORS(in)}, 1);
    assert_ok();
    assert_same(run_on(q, in), run_on(s, in));
    const char *why = difference_within(hd_script_output(q, "values"), hd_script_output(s, "values"), 0.05);
    if (why[0] != '\0') fail_msg("%s", why);
    assert_true(hd_script_stats(q).constant_bytes < hd_script_stats(s).constant_bytes / 2);
}

static void refuses(hd_script *s, hd_tensor *example, hd_error code, const char *words) {
    HD_QUIET;
    assert_null(hd_quantize(s, (hd_tensors *const[]){HD_TENSORS(example)}, 1));
    assert_error(code, words);
}

static void what_it_refuses(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(ROWS, IN), HD_F32), *w = hd_ones(HD_SHAPE(OUT, IN), HD_F32);
    hd_script *s = product(w, NULL);
    refuses(s, hd_ones(HD_SHAPE(2), HD_F32), HD_ERROR_SHAPE, "x");
    refuses(s, hd_mul_scalar(x, NAN), HD_ERROR_VALUE, "example 0 gives");
    refuses(s, hd_mul_scalar(x, INFINITY), HD_ERROR_VALUE, "example 0 gives inf");
    HD_QUIET;
    assert_null(hd_quantize(s, (hd_tensors *const[]){HD_TENSORS(x, x)}, 1));
    assert_error(HD_ERROR_VALUE, "example 0 has 2 tensors; the script has 1 inputs");
    assert_null(hd_quantize(s, NULL, 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`examples` is NULL");
    assert_null(hd_quantize(s, (hd_tensors *const[]){HD_TENSORS(x)}, 0));
    assert_error(HD_ERROR_VALUE, "0 examples");
    hd_builder *b = started("state");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_output(b, "y", hd_affine(hd_input("x", HD_SHAPE(ROWS, IN), HD_F32), w, NULL));
    hd_add_(w, hd_scalar(1, HD_F32));
    refuses(built(b), x, HD_ERROR_STATE, "the script updates \"w\"");
    b = started("draws");
    hd_builder_add_output(b, "y", hd_dropout(hd_affine(hd_input("x", HD_SHAPE(ROWS, IN), HD_F32), w, NULL), 0.5));
    refuses(built(b), x, HD_ERROR_STATE, "draws random numbers");
    b = started("none");
    hd_builder_add_output(b, "y", hd_square(hd_input("x", HD_SHAPE(ROWS, IN), HD_F32)));
    refuses(built(b), x, HD_ERROR_STATE, "has no hd_matmul");
    assert_same(run_on(s, x), hd_full(HD_SHAPE(ROWS, OUT), HD_F32, IN)); /* it is as it was */
}

static void quantize_something(void) {
    HD_QUIET;
    hd_tensor *w = hd_full(HD_SHAPE(3, 4), HD_F32, 0.5), *x = hd_full(HD_SHAPE(2, 4), HD_F32, 2);
    hd_builder *b = hd_builder_new("net");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_affine(hd_input("x", HD_SHAPE(2, 4), HD_F32), w, NULL));
    hd_builder_end(b);
    hd_quantize(hd_builder_build(b), (hd_tensors *const[]){hd_tensors_from(&x, 1)}, 1);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(quantize_something, 3000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {TEST(sums_are_those_of_whole_numbers), TEST(networks_are_nearly_the_same),
                                       TEST(others_stay), TEST(what_it_refuses), TEST(every_allocation_may_fail)};
    return cmocka_run_group_tests_name("model/quantize", tests, NULL, NULL);
}
