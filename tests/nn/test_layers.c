/* The layers that normalise, convolve, pool and attend: what they hold, that they call their op, in a model, in a
 * script (hd_compile), and what they refuse. */
#include "support.h"

#include <math.h>

static void norms_begin_with_ones_and_zeros(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_layer_norm_layer(HD_SHAPE(2, 3), NULL);
    assert_values(hd_module_get(m, "weight"), HD_F32, 1, 1, 1, 1, 1, 1);
    assert_values(hd_module_get(m, "bias"), HD_F32, 0, 0, 0, 0, 0, 0);
    hd_tensor *x = hd_randn(HD_SHAPE(4, 2, 3), HD_F32);
    assert_same(hd_forward(m, x), hd_layer_norm(x, 2, hd_module_get(m, "weight"), hd_module_get(m, "bias"), 1e-5));
    hd_module *plain =
        hd_layer_norm_layer(HD_SHAPE(3), HD_OPTS(hd_norm_layer_opts, .no_weight = true, .no_bias = true, .eps = 0.1));
    assert_int_equal(hd_tensors_count(hd_module_parameters(plain)), 0);
    assert_same(hd_forward(plain, x), hd_layer_norm(x, 1, NULL, NULL, 0.1));
    hd_module *only_bias = hd_layer_norm_layer(HD_SHAPE(3), HD_OPTS(hd_norm_layer_opts, .no_weight = true));
    {
        HD_NO_GRAD;
        hd_fill(hd_module_get(only_bias, "bias"), 2);
    }
    assert_same(hd_forward(only_bias, x), hd_add_scalar(hd_layer_norm(x, 1, NULL, NULL, 1e-5), 2));
    hd_module *rms = hd_rms_norm_layer(3, HD_OPTS(hd_norm_layer_opts, .dtype = HD_F64));
    assert_values(hd_module_get(rms, "weight"), HD_F64, 1, 1, 1);
    assert_int_equal(hd_tensors_count(hd_module_parameters(rms)), 1);
    assert_same(hd_forward(rms, x), hd_rms_norm(hd_cast(x, HD_F64), NULL, 1e-5));
}

static void convolutions_hold_weight_and_bias(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_conv_layer(
        4, 6, HD_SHAPE(3, 5), HD_OPTS(hd_conv_layer_opts, .groups = 2, .padding = {{1, 1}, {2, 2}}, .stride = {1, 2}));
    hd_tensor *w = hd_module_get(m, "weight"), *b = hd_module_get(m, "bias"),
              *x = hd_randn(HD_SHAPE(2, 4, 5, 8), HD_F32);
    assert_true(hd_shape_equal(hd_tensor_shape(w), HD_SHAPE(6, 2, 3, 5)));
    assert_true(hd_item(hd_max(hd_abs(w), HD_AXES(), NULL)) <= 1 / sqrt(30));
    hd_tensor *y =
        hd_conv2d(x, w, b, HD_OPTS(hd_conv_opts, .groups = 2, .padding = {{1, 1}, {2, 2}}, .stride = {1, 2}));
    assert_same(hd_forward(m, x), y);
    hd_module *t =
        hd_conv_transpose_layer(6, 3, HD_SHAPE(2), HD_OPTS(hd_conv_layer_opts, .no_bias = true, .stride = {2}));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_module_get(t, "weight")), HD_SHAPE(6, 3, 2)));
    assert_true(hd_shape_equal(hd_tensor_shape(hd_forward(t, hd_ones(HD_SHAPE(1, 6, 4), HD_F32))), HD_SHAPE(1, 3, 8)));
    hd_module *three = hd_conv_layer(1, 2, HD_SHAPE(2, 2, 2), NULL);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_forward(three, hd_ones(HD_SHAPE(1, 1, 3, 4, 5), HD_F32))),
                               HD_SHAPE(1, 2, 2, 3, 4)));
}

static void pools_call_their_op(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(2, 3, 6, 6), HD_F32);
    const hd_pool_opts *opts = HD_OPTS(hd_pool_opts, .stride = {1, 2}, .padding = {{1, 1}});
    const hd_shape window = HD_SHAPE(3, 2);
    assert_same(hd_forward(hd_max_pool_layer(window, opts), x), hd_max_pool(x, window, opts));
    assert_same(hd_forward(hd_avg_pool_layer(window, NULL), x), hd_avg_pool(x, window, NULL));
    assert_same(hd_forward(hd_adaptive_max_pool_layer(HD_SHAPE(1, 4)), x), hd_adaptive_max_pool(x, HD_SHAPE(1, 4)));
    assert_same(hd_forward(hd_adaptive_avg_pool_layer(HD_SHAPE(1, 1)), x), hd_adaptive_avg_pool(x, HD_SHAPE(1, 1)));
}

/* Head by head, from the same weights. */
static void attention_is_that_of_its_heads(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_multihead_attention(6, 2, HD_OPTS(hd_multihead_attention_opts, .causal = true));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 4);
    assert_string_equal(hd_module_parameter_name(m, 0), "in.weight");
    hd_tensor *x = hd_randn(HD_SHAPE(3, 5, 6), HD_F32), *heads[2];
    hd_tensor *all = hd_affine(x, hd_module_get(m, "in.weight"), hd_module_get(m, "in.bias"));
    for (int h = 0; h < 2; ++h)
        heads[h] = hd_attention(hd_narrow(all, 2, 3 * h, 3), hd_narrow(all, 2, 6 + 3 * h, 3),
                                hd_narrow(all, 2, 12 + 3 * h, 3), NULL, true, 0);
    hd_tensor *y = hd_affine(hd_concat(heads, 2, 2), hd_module_get(m, "out.weight"), hd_module_get(m, "out.bias"));
    assert_close(hd_forward(m, x), y, 1e-5, 1e-6);
    hd_tensor *one = hd_select(x, 0, 1);
    assert_close(hd_forward(m, one), hd_select(y, 0, 1), 1e-5, 1e-6);
}

static void models_compile_and_have_gradients(void **state) {
    (void)state;
    hd_seed(3);
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(
        hd_conv_layer(2, 4, HD_SHAPE(3, 3), HD_OPTS(hd_conv_layer_opts, .padding = {{1, 1}, {1, 1}})), hd_relu_layer(),
        hd_max_pool_layer(HD_SHAPE(2, 2), NULL), hd_layer_norm_layer(HD_SHAPE(3, 3), NULL),
        hd_multihead_attention(3, 1, NULL), hd_adaptive_avg_pool_layer(HD_SHAPE(1, 2)), hd_rms_norm_layer(2, NULL));
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *x = hd_randn(HD_SHAPE(2, 2, 6, 6), HD_F32);
    hd_tensors *parameters = hd_module_parameters(model);
    hd_tensor *y = hd_forward(model, x), *z = hd_forward(compiled, x);
    assert_close(y, z, 1e-5, 1e-6);
    hd_tensor *loss = hd_sum(hd_square(hd_add_scalar(y, 1)), HD_AXES(), NULL),
              *same = hd_sum(hd_square(hd_add_scalar(z, 1)), HD_AXES(), NULL);
    hd_tensors *g = hd_grad_of(loss, parameters, NULL), *c = hd_grad_of(same, parameters, NULL);
    assert_ok();
    for (int64_t i = 0; i < hd_tensors_count(parameters); ++i)
        assert_close(hd_tensors_get(g, i), hd_tensors_get(c, i), 1e-4, 1e-5);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_layer_norm_layer(HD_SHAPE(), NULL));
    assert_error(HD_ERROR_VALUE, "hd_layer_norm_layer: shape []");
    assert_null(hd_rms_norm_layer(0, NULL));
    assert_error(HD_ERROR_VALUE, "hd_rms_norm_layer");
    assert_null(hd_layer_norm_layer(HD_SHAPE(3), HD_OPTS(hd_norm_layer_opts, .eps = -1)));
    assert_error(HD_ERROR_VALUE, "eps -1");
    assert_null(hd_conv_layer(4, 6, HD_SHAPE(3), HD_OPTS(hd_conv_layer_opts, .groups = 4)));
    assert_error(HD_ERROR_VALUE, "in = 4, out = 6, kernel [3], 4 groups");
    assert_null(hd_conv_layer(4, 6, HD_SHAPE(), NULL));
    assert_error(HD_ERROR_VALUE, "kernel []");
    assert_null(hd_conv_transpose_layer(4, 6, HD_SHAPE(3, 0), NULL));
    assert_error(HD_ERROR_VALUE, "hd_conv_transpose_layer");
    assert_null(hd_max_pool_layer(HD_SHAPE(2, -1), NULL));
    assert_error(HD_ERROR_VALUE, "a window [2,-1]");
    assert_null(hd_multihead_attention(6, 4, NULL));
    assert_error(HD_ERROR_VALUE, "width = 6, heads = 4");
    assert_null(hd_forward(hd_multihead_attention(6, 2, NULL), hd_ones(HD_SHAPE(6), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "x [6]; it must be [..., t, width]");
}

RUN(test(norms_begin_with_ones_and_zeros), test(convolutions_hold_weight_and_bias), test(pools_call_their_op),
    test(attention_is_that_of_its_heads), test(models_compile_and_have_gradients), test(bad_arguments))
