/* Scripts under XLA on a GPU: they give what HODU gives on the CPU. Skipped where there is no plugin for CUDA, or no
 * GPU. */
#include "builders.h"
#include "differences.h"
#include "graph/calls.h"
#include "programs.h"

#include <math.h>

static hd_script *on_gpu(hd_script *s) {
    hd_script_set_device(s, hd_cuda(0)); /* first: there may be no plugin for the CPU */
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_ok();
    return s;
}
static hd_script *on_cpu(hd_script *s) {
    hd_script_set_device(s, hd_cpu());
    hd_script_set_compiler(s, HD_COMPILER_HODU);
    assert_ok();
    return s;
}
static bool has_gpu(void) {
    HD_SCOPE;
    hd_builder *b = started("look");
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", S(1), HD_F32)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(1), HD_F32));
    char path[HD_XLA_PATH];
    bool found = hd_xla_plugin_find(HD_DEVICE_CUDA, path) == HD_OK;
    if (found) {
        hd_script_set_device(s, hd_cuda(0));
        hd_script_set_compiler(s, HD_COMPILER_XLA);
        found = hd_script_run(s) != NULL;
    }
    if (!found) print_message("skipped: %s\n", hd_error_message());
    hd_error_clear();
    return found;
}

/* Outputs are on the GPU, where hodu itself runs there. */
static hd_tensor *here(hd_tensor *t) { return hd_to(t, hd_cpu()); }

/* Products in f32, not in something narrower; an activation, a softmax. */
static void a_block_agrees(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_mul_scalar(hd_randn(S(300, 400), HD_F32), 0.05), *bias = operand(S(400), 2, HD_F32);
    hd_builder *b = started("block");
    hd_tensor *h = hd_gelu(hd_add(hd_matmul(hd_input("x", S(200, 300), HD_F32), w), bias));
    hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "p", hd_softmax(hd_mul_scalar(h, 0.01), 1));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_randn(S(200, 300), HD_F32));
    hd_outputs *ours = hd_script_run(s), *theirs = hd_script_run(on_gpu(s));
    assert_ok();
    for (int i = 0; i < 2; ++i) assert_within_units(here(hd_outputs_at(theirs, i)), hd_outputs_at(ours, i), 64);
    hd_outputs *again = hd_script_run(on_cpu(s));
    for (int i = 0; i < 2; ++i) assert_identical(hd_outputs_at(again, i), hd_outputs_at(ours, i));
}

/* The largest difference of two results, in parts of the largest number of the second. */
static double apart(hd_tensor *a, hd_tensor *b) {
    const hd_tensor *far = hd_max(hd_abs(hd_sub(here(a), b)), X(), NULL), *most = hd_max(hd_abs(b), X(), NULL);
    return hd_item(far) / hd_item(most);
}

/* Exact products are within f32's rounding, the others within that of TF32, which not all GPUs have; so are the
 * gradients. */
static void products_are_as_exact_as_they_say(void **state) {
    (void)state;
    for (int precision = HD_MATMUL_EXACT; precision <= HD_MATMUL_TF32; ++precision) {
        HD_SCOPE;
        hd_tensor *w = hd_requires_grad(hd_randn(S(512, 256), HD_F32));
        hd_builder *b = started("products");
        hd_builder_bind(b, "w", w);
        hd_tensor *x = hd_input("x", S(128, 512), HD_F32);
        hd_set_matmul_precision((hd_matmul_precision)precision);
        hd_tensor *y = hd_matmul(x, w);
        hd_backward(hd_sum(hd_mul(y, y), X(), NULL));
        hd_builder_add_output(b, "y", y);
        hd_builder_add_output(b, "affine", hd_affine(x, hd_t(w), NULL));
        hd_builder_add_output(b, "dw", hd_grad(w));
        hd_set_matmul_precision(HD_MATMUL_EXACT);
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_randn(S(128, 512), HD_F32));
        hd_outputs *ours = hd_script_run(s), *theirs = hd_script_run(on_gpu(s));
        assert_ok();
        for (int i = 0; i < 3; ++i) {
            const double difference = apart(hd_outputs_at(theirs, i), hd_outputs_at(ours, i));
            print_message("precision %d, output %d: %.2g\n", precision, i, difference);
            if (precision == HD_MATMUL_EXACT && difference > 2e-6) fail_msg("%g is more than f32 rounds", difference);
            if (difference > 2e-3) fail_msg("%g is more than TF32 rounds", difference);
        }
    }
}

/* Products of halves are exact in f32, and rounded once. */
static void halves_agree(void **state) {
    (void)state;
    static const hd_dtype halves[] = {HD_BF16, HD_F16};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        hd_tensor *w = hd_cast(hd_randn(S(256, 192), HD_F32), halves[i]);
        hd_builder *b = started("halves");
        hd_tensor *x = hd_input("x", S(64, 256), halves[i]);
        hd_builder_add_output(b, "half", hd_matmul(x, w));
        hd_builder_add_output(b, "wide", hd_matmul(hd_cast(x, HD_F32), hd_cast(w, HD_F32)));
        hd_builder_add_output(b, "affine", hd_affine(x, hd_t(w), NULL));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_cast(hd_randn(S(64, 256), HD_F32), halves[i]));
        hd_outputs *ours = hd_script_run(s), *theirs = hd_script_run(on_gpu(s));
        assert_ok();
        const double unit = halves[i] == HD_BF16 ? 0x1p-8 : 0x1p-11;
        for (int k = 0; k < 3; ++k) {
            const double difference =
                apart(hd_cast(here(hd_outputs_at(theirs, k)), HD_F32), hd_cast(hd_outputs_at(ours, k), HD_F32));
            if (difference > (k == 1 ? 2e-6 : unit)) fail_msg("output %d differs by %g", k, difference);
        }
    }
}

static void convolutions_agree(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_mul_scalar(hd_randn(S(16, 8, 3, 3), HD_F32), 0.1);
    hd_builder *b = started("conv");
    hd_tensor *x = hd_input("x", S(2, 8, 20, 20), HD_F32);
    hd_builder_add_output(b, "y", hd_conv(x, w, NULL, HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}})));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_randn(S(2, 8, 20, 20), HD_F32));
    hd_tensor *ours = output(s, "y"), *theirs = output(on_gpu(s), "y");
    assert_ok();
    assert_within_units(here(theirs), ours, 64);
}

/* State of the CPU stays on the device between runs, and comes back when it is looked at. */
static void training_agrees(void **state) {
    (void)state;
    double losses[2][200];
    for (int gpu = 0; gpu < 2; ++gpu) {
        HD_SCOPE;
        hd_seed(3);
        hd_module *model = HD_SEQUENTIAL(hd_linear(8, 32, NULL), hd_tanh_layer(), hd_linear(32, 1, NULL));
        hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
        hd_tensor *x = hd_randn(S(64, 8), HD_F32),
                  *y = hd_sum(hd_sin(x), X(1), HD_OPTS(hd_reduce_opts, .keep_dims = true));
        hd_builder *b = started("training");
        hd_builder_add_state_of(b, model, adam);
        hd_tensor *loss =
            hd_mse(hd_forward(model, hd_input("x", S(64, 8), HD_F32)), hd_input("y", S(64, 1), HD_F32), NULL);
        hd_backward(loss);
        hd_optimizer_step(adam);
        hd_builder_add_output(b, "loss", loss);
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        hd_script_set_input(s, "y", y);
        if (gpu) on_gpu(s);
        for (int i = 0; i < 200; ++i) {
            HD_SCOPE;
            if (gpu && i == 100) on_cpu(s); /* there and back */
            if (gpu && i == 110) on_gpu(s);
            losses[gpu][i] = hd_item(output(s, "loss"));
        }
        assert_ok();
    }
    assert_true(losses[0][199] < losses[0][0]);
    for (int i = 0; i < 200; ++i)
        if (fabs(losses[0][i] - losses[1][i]) > 1e-4 * fabs(losses[0][i]))
            fail_msg("step %d: CPU %.9g, GPU %.9g", i, losses[0][i], losses[1][i]);
}

/* State of the GPU: scripts of both compilers and ops take turns on it, and on the CPU it becomes the same. */
static void tensors_of_the_gpu_stay_there(void **state) {
    (void)state;
    if (hd_device_missing(hd_cuda(0)) != NULL) skip();
    double losses[2][60];
    for (int gpu = 0; gpu < 2; ++gpu) {
        HD_SCOPE;
        hd_seed(3);
        const hd_device home = gpu ? hd_cuda(0) : hd_cpu();
        hd_module *model = HD_SEQUENTIAL(hd_linear(8, 32, NULL), hd_tanh_layer(), hd_linear(32, 1, NULL));
        hd_tensor *rows = hd_randn(S(65, 8), HD_F32), *x = hd_narrow(hd_to(rows, home), 0, 1, 64);
        hd_tensor *y =
            hd_to(hd_sum(hd_sin(hd_narrow(rows, 0, 1, 64)), X(1), HD_OPTS(hd_reduce_opts, .keep_dims = true)), home);
        hd_module_to(model, home);
        hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
        hd_builder *b = started("training");
        hd_builder_add_state_of(b, model, adam);
        hd_tensor *loss =
            hd_mse(hd_forward(model, hd_input("x", S(64, 8), HD_F32)), hd_input("y", S(64, 1), HD_F32), NULL);
        hd_backward(loss);
        hd_optimizer_step(adam);
        hd_builder_add_output(b, "loss", loss);
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x); /* which begins inside of a block */
        hd_script_set_input(s, "y", y);
        hd_script_set_device(s, home);
        for (int i = 0; i < 60; ++i) {
            HD_SCOPE;
            HD_NO_GRAD;
            hd_script_set_compiler(s, gpu && i % 20 < 15 ? HD_COMPILER_XLA : HD_COMPILER_HODU);
            if (i % 10 == 5)
                hd_assign(hd_tensors_get(hd_module_parameters(model), 1),
                          hd_zeros_like(hd_tensors_get(hd_module_parameters(model), 1)));
            hd_tensor *out = output(s, "loss");
            assert_ok();
            assert_int_equal(hd_tensor_device(out).kind, home.kind);
            assert_int_equal(hd_tensor_device(hd_tensors_get(hd_module_parameters(model), 0)).kind, home.kind);
            losses[gpu][i] = hd_item(out);
        }
        HD_NO_GRAD;
        hd_tensor *eager = hd_mse(hd_forward(model, x), y, NULL);
        if (fabs(hd_item(eager) - hd_item(output(s, "loss"))) > 1e-5) fail_msg("ops do not see what the script did");
    }
    assert_ok();
    assert_true(losses[1][59] < losses[1][0]);
    for (int i = 0; i < 60; ++i)
        if (fabs(losses[0][i] - losses[1][i]) > 1e-4 * fabs(losses[0][i]))
            fail_msg("step %d: CPU %.9g, GPU %.9g", i, losses[0][i], losses[1][i]);
}

/* Draws are the same bits; a bad index is the same error, and changes nothing. */
static void draws_and_errors_agree(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("draws");
    hd_builder_add_output(b, "u", hd_rand(S(1000), HD_F32));
    hd_script *s = built(b);
    hd_seed(5);
    hd_tensor *ours = output(s, "u");
    hd_seed(5);
    assert_identical(here(output(on_gpu(s), "u")), ours);
    hd_tensor *table = operand(S(10, 4), 1, HD_F32);
    b = started("rows");
    hd_builder_add_output(b, "y", hd_index_select(table, 0, hd_input("i", S(3), HD_I64)));
    s = on_gpu(built(b));
    hd_script_set_input(s, "i", HD_TENSOR_I64(S(3), 1, 10, 2));
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_INDEX, "index 10 at place 1 of [3] is out of range for an axis of size 10");
}

/* A compiled module: results and gradients are those of the module itself. */
static void modules_compile_for_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_linear(8, 16, NULL), hd_tanh_layer(), hd_linear(16, 3, NULL));
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH,
                                                    .compiler = HD_COMPILER_XLA, .device = hd_cuda(0)));
    assert_ok();
    hd_tensor *x = operand(S(5, 8), 0, HD_F32), *y[2], *gradients[2],
              *first = hd_tensors_get(hd_module_parameters(model), 0);
    for (int way = 0; way < 2; ++way) {
        y[way] = here(hd_forward(way ? compiled : model, x));
        hd_backward(hd_sum(hd_square(y[way]), X(), NULL));
        gradients[way] = hd_copy(hd_grad(first));
        hd_zero_grad(first);
        hd_clear_tape();
    }
    assert_within_units(y[1], y[0], 64);
    assert_within_units(gradients[1], gradients[0], 128);
    assert_ok();
}

int main(void) {
    if (!has_gpu()) return 77;
    const struct CMUnitTest tests[] = {test(a_block_agrees),         test(products_are_as_exact_as_they_say),
                                       test(halves_agree),           test(convolutions_agree),
                                       test(training_agrees),        test(tensors_of_the_gpu_stay_there),
                                       test(draws_and_errors_agree), test(modules_compile_for_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
