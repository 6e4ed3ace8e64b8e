/* Layers of transformers and stacks of them, beyond their numbers, which test_layers_golden.c compares: what they hold,
 * that causal ones do not see what comes, dropout, scripts, what they refuse. */
#include "each_allocation.h"

#define SMALL(...) HD_OPTS(hd_transformer_opts, .feedforward = 6, __VA_ARGS__)

static void stacks_have_named_layers_of_their_own(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_transformer_decoder(4, 2, 2, SMALL(.final_norm = true));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 2 * (4 + 4 + 4 + 6) + 2);
    assert_string_equal(hd_module_parameter_name(m, 0), "layers.0.self_attn.in.weight");
    assert_true(hd_shape_equal(hd_tensor_shape(hd_module_get(m, "layers.1.linear2.weight")), HD_SHAPE(4, 6)));
    assert_values(hd_module_get(m, "norm.weight"), HD_F32, 1, 1, 1, 1);
    assert_false(
        hd_allclose(hd_module_get(m, "layers.0.linear1.weight"), hd_module_get(m, "layers.1.linear1.weight"), NULL));
    hd_module *wide = hd_transformer_encoder_layer(4, 1, NULL);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_module_get(wide, "linear1.bias")), HD_SHAPE(2048)));
    hd_module *plain = hd_transformer_encoder_layer(4, 2, SMALL(.no_bias = true, .dtype = HD_F64));
    assert_int_equal(hd_tensors_count(hd_module_parameters(plain)), 6);
    assert_int_equal(hd_tensor_dtype(hd_module_get(plain, "norm2.weight")), HD_F64);
    assert_ok();
}

/* What a place gives does not change with what comes behind it. */
static void causal_ones_do_not_see_what_comes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m =
        hd_transformer_encoder(8, 4, 2, SMALL(.causal = true, .kv_heads = 2, .rotary = true, .dropout = HD_ZERO));
    hd_tensor *x = hd_randn(HD_SHAPE(2, 5, 8), HD_F32), *front = hd_forward(m, hd_narrow(x, 1, 0, 3));
    assert_close(hd_narrow(hd_forward(m, x), 1, 0, 3), front, 1e-4, 1e-5);
    hd_module *all = hd_transformer_encoder(8, 4, 2, SMALL(.dropout = HD_ZERO));
    front = hd_forward(all, hd_narrow(x, 1, 0, 3));
    assert_false(hd_allclose(hd_narrow(hd_forward(all, x), 1, 0, 3), front, NULL));
    assert_ok();
}

static void dropout_is_for_training_alone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_transformer_encoder_layer(4, 2, SMALL(.gelu = true)), *all = hd_module_copy(m);
    hd_tensor *x = hd_randn(HD_SHAPE(2, 3, 4), HD_F32);
    assert_false(hd_allclose(hd_forward(m, x), hd_forward(m, x), NULL));
    hd_module_eval(m);
    assert_same(hd_forward(m, x), hd_forward(m, x));
    hd_module_eval(all);
    assert_same(hd_forward(m, x), hd_forward(all, x));
    hd_module *nothing = hd_transformer_encoder_layer(4, 2, SMALL(.dropout = 1, .norm_first = true));
    assert_same(hd_forward(nothing, x), x); /* all that is added to x is dropped */
}

/* With the same seed, also the draws. */
static void compiled_ones_agree(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = hd_transformer_encoder(8, 2, 2, SMALL(.norm_first = true, .causal = true));
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *x = hd_randn(HD_SHAPE(2, 5, 8), HD_F32), *y[2];
    hd_tensors *parameters = hd_module_parameters(model), *g[2];
    for (int i = 0; i < 2; ++i) {
        hd_seed(3);
        y[i] = hd_forward(i == 0 ? model : compiled, x);
        g[i] = hd_grad_of(hd_sum(hd_square(y[i]), HD_AXES(), NULL), parameters, NULL);
    }
    assert_close(y[0], y[1], 1e-4, 1e-5);
    for (int64_t i = 0; i < hd_tensors_count(parameters); ++i)
        assert_close(hd_tensors_get(g[0], i), hd_tensors_get(g[1], i), 1e-3, 1e-4);
}

static void run_some(void) {
    hd_module *m = hd_transformer_decoder(4, 2, 2, SMALL(.final_norm = true));
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2, 4), HD_F32);
    HD_FORWARD_ALL(m, x, x, hd_ones(HD_SHAPE(2, 2), HD_BOOL), hd_ones(HD_SHAPE(2, 2), HD_BOOL));
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(run_some, 5000);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_transformer_encoder(4, 2, 0, NULL));
    assert_error(HD_ERROR_VALUE, "hd_transformer_encoder: 0 layers");
    assert_null(hd_transformer_decoder(4, 2, 1, SMALL(.dropout = 2)));
    assert_error(HD_ERROR_VALUE, "hd_transformer_decoder: 1 layers, feedforward = 6, dropout 2");
    assert_null(hd_transformer_encoder_layer(4, 3, NULL));
    assert_error(HD_ERROR_VALUE, "hd_transformer_encoder_layer: width = 4, heads = 3");
    assert_null(hd_transformer_decoder_layer(4, 2, HD_OPTS(hd_transformer_opts, .feedforward = -1)));
    assert_error(HD_ERROR_VALUE, "hd_transformer_decoder_layer: 1 layers, feedforward = -1");
    assert_null(hd_transformer_encoder_layer(4, 2, SMALL(.dtype = HD_I32)));
    assert_error(HD_ERROR_DTYPE, "i32");
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2, 4), HD_F32);
    assert_null(hd_forward(hd_transformer_decoder(4, 2, 1, SMALL(.gelu = true)), x));
    assert_error(HD_ERROR_VALUE, "1 inputs; a transformer_decoder_layer takes x and memory");
    assert_null(HD_FORWARD_ALL(hd_transformer_encoder_layer(4, 2, SMALL(.gelu = true)), x, x, x, x));
    assert_error(HD_ERROR_VALUE, "4 inputs; a transformer_encoder_layer takes x, and behind it a mask");
    assert_null(hd_forward(hd_transformer_encoder_layer(4, 2, SMALL(.gelu = true)), hd_ones(HD_SHAPE(2, 3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "in linear");
}

RUN(test(stacks_have_named_layers_of_their_own), test(causal_ones_do_not_see_what_comes),
    test(dropout_is_for_training_alone), test(compiled_ones_agree), test(any_allocation_may_fail), test(bad_arguments))
