/* Layers that treat channels, drop elements, look rows up, resize and pad: what they hold to begin with, what training
 * changes, draws, scripts, and what they refuse. Their numbers are compared in test_layers_golden.c. */
#include "each_allocation.h"

#include <math.h>

#define GRAPH HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH)

/* ---- norms of channels ------------------------------------------------------------------------------------------- */
static void batch_norm_begins_with_neutral_statistics(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .dtype = HD_F64));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 2);
    assert_values(hd_module_get(m, "weight"), HD_F64, 1, 1);
    assert_values(hd_module_get(m, "bias"), HD_F64, 0, 0);
    assert_values(hd_module_get(m, "running_mean"), HD_F64, 0, 0);
    assert_values(hd_module_get(m, "running_variance"), HD_F64, 1, 1);
    hd_module *plain = hd_batch_norm_layer(
        2, HD_OPTS(hd_batch_norm_layer_opts, .no_weight = true, .no_bias = true, .no_running = true));
    assert_int_equal(hd_tensors_count(hd_module_parameters(plain)), 0);
    assert_null(hd_module_get(plain, "running_mean"));
    assert_error(HD_ERROR_VALUE, "has no parameter or buffer \"running_mean\"");
    hd_module *one = hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .no_weight = true));
    hd_forward(one, hd_randn(HD_SHAPE(4, 2), HD_F32)); /* its statistics are behind the bias */
    assert_values(hd_module_get(one, "bias"), HD_F32, 0, 0);
    assert_ok();
}

static void only_training_moves_statistics(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_batch_norm_layer(2, NULL),
              *fixed = hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .momentum = HD_ZERO));
    hd_tensor *x = hd_add_scalar(hd_randn(HD_SHAPE(6, 2, 3), HD_F32), 5);
    hd_module_eval(m);
    hd_forward(m, x);
    assert_values(hd_module_get(m, "running_mean"), HD_F32, 0, 0);
    hd_module_train(m);
    hd_forward(m, x);
    hd_tensor *mean = hd_mean(x, HD_AXES(0, 2), NULL), *variance = hd_var(x, HD_AXES(0, 2), 1, NULL);
    assert_close(hd_module_get(m, "running_mean"), hd_mul_scalar(mean, 0.1), 1e-5, 1e-6);
    assert_close(hd_module_get(m, "running_variance"), hd_add_scalar(hd_mul_scalar(variance, 0.1), 0.9), 1e-5, 1e-6);
    hd_forward(fixed, x);
    assert_values(hd_module_get(fixed, "running_mean"), HD_F32, 0, 0);
}

static void cumulative_statistics_are_the_mean_of_all_batches(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .cumulative = true));
    hd_module *compiled = hd_compile(m, GRAPH);
    hd_tensor *mean = hd_zeros(HD_SHAPE(2), HD_F32), *variance = mean;
    for (int i = 0; i < 4; ++i) {
        hd_tensor *x = hd_add_scalar(hd_randn(HD_SHAPE(5, 2), HD_F32), i);
        hd_forward(i % 2 == 0 ? m : compiled, x);
        mean = hd_add(mean, hd_mean(x, HD_AXES(0), NULL));
        variance = hd_add(variance, hd_var(x, HD_AXES(0), 1, NULL));
    }
    assert_int_equal(hd_item_i64(hd_module_get(m, "num_batches_tracked")), 4);
    assert_close(hd_module_get(m, "running_mean"), hd_mul_scalar(mean, 0.25), 1e-5, 1e-6);
    assert_close(hd_module_get(m, "running_variance"), hd_mul_scalar(variance, 0.25), 1e-5, 1e-6);
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */
static void dropout_is_for_training_alone(void **state) {
    (void)state;
    hd_seed(5);
    HD_SCOPE;
    hd_module *layers[3] = {hd_dropout_layer(0.25), hd_dropout_channels_layer(0.25), hd_alpha_dropout_layer(0.25)};
    hd_tensor *x = hd_add_scalar(hd_rand(HD_SHAPE(40, 25, 4), HD_F32), 1);
    for (int i = 0; i < 3; ++i) {
        hd_module_eval(layers[i]);
        assert_ptr_equal(hd_forward(layers[i], x), x);
        hd_module_train(layers[i]);
    }
    hd_tensor *y = hd_forward(layers[0], x);
    assert_in_range(hd_item_i64(hd_count_nonzero(y, HD_AXES(), NULL)), 2800, 3200);
    hd_tensor *kept = hd_ne_scalar(y, 0);
    assert_close(y, hd_where_scalar(kept, hd_div_scalar(x, 0.75), 0), 1e-6, 1e-7);
    hd_tensor *z = hd_forward(layers[1], x), *whole = hd_all(hd_ne_scalar(z, 0), HD_AXES(2), NULL);
    assert_same(hd_any(hd_ne_scalar(z, 0), HD_AXES(2), NULL), whole); /* a channel goes as a whole */
    assert_in_range(hd_item_i64(hd_count_nonzero(whole, HD_AXES(), NULL)), 650, 850);
    assert_close(z, hd_where_scalar(hd_ne_scalar(z, 0), hd_div_scalar(x, 0.75), 0), 1e-6, 1e-7);
    hd_tensor *normal = hd_randn(HD_SHAPE(100, 100), HD_F32), *a = hd_forward(layers[2], normal);
    assert_true(fabs(hd_item(hd_mean(a, HD_AXES(), NULL))) < 0.05);
    assert_true(fabs(hd_item(hd_std(a, HD_AXES(), 1, NULL)) - 1) < 0.05);
    hd_module *all = hd_dropout_channels_layer(1);
    assert_same(hd_forward(all, x), hd_zeros_like(x));
}

/* With the same seed, also their gradients. */
static void scripts_draw_what_layers_draw(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_dropout_layer(0.5), hd_dropout_channels_layer(0.5), hd_rrelu_layer(0.1, 0.9),
                                     hd_batch_norm_layer(6, NULL), hd_alpha_dropout_layer(0.3));
    hd_module *compiled = hd_compile(model, GRAPH);
    hd_tensor *x = hd_param(hd_randn(HD_SHAPE(4, 6, 5), HD_F32)), *y[2], *g[2];
    for (int i = 0; i < 2; ++i) {
        hd_seed(11);
        y[i] = hd_forward(i == 0 ? model : compiled, x);
        g[i] = hd_tensors_get(hd_grad_of(hd_sum(hd_square(y[i]), HD_AXES(), NULL), HD_TENSORS(x), NULL), 0);
    }
    assert_close(y[0], y[1], 1e-5, 1e-6);
    assert_close(g[0], g[1], 1e-4, 1e-5);
    assert_true(hd_item_i64(hd_count_nonzero(g[0], HD_AXES(), NULL)) > 0);
}

static void rrelu_draws_slopes_between_its_bounds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_rrelu_layer(0.25, 0.5);
    hd_tensor *y = hd_forward(m, hd_full(HD_SHAPE(200), HD_F64, -1));
    const double low = hd_item(hd_min(y, HD_AXES(), NULL)), high = hd_item(hd_max(y, HD_AXES(), NULL));
    assert_true(low >= -0.5 && low < -0.45 && high <= -0.25 && high > -0.3);
    assert_same(hd_forward(m, hd_ones(HD_SHAPE(3), HD_F32)), hd_ones(HD_SHAPE(3), HD_F32));
}

/* ---- rows and slopes --------------------------------------------------------------------------------------------- */
static void embeddings_begin_normal_and_with_a_row_of_zeros(void **state) {
    (void)state;
    hd_seed(2);
    HD_SCOPE;
    hd_module *m =
        hd_embedding_layer(50, 40, HD_OPTS(hd_embedding_layer_opts, .pads = true, .padding_index = 0, .dtype = HD_F64));
    hd_tensor *w = hd_module_get(m, "weight");
    assert_same(hd_select(w, 0, 0), hd_zeros(HD_SHAPE(40), HD_F64));
    hd_tensor *rest = hd_slice(w, 0, 1, HD_END, 1);
    assert_true(fabs(hd_item(hd_mean(rest, HD_AXES(), NULL))) < 0.1);
    assert_true(fabs(hd_item(hd_std(rest, HD_AXES(), 1, NULL)) - 1) < 0.1);
    hd_tensor *y = hd_forward(m, HD_TENSOR_I64(HD_SHAPE(1, 3), 0, 7, -1));
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(1, 3, 40)));
    assert_same(hd_select(hd_select(y, 0, 0), 0, 2), hd_select(w, 0, 49));
    hd_module *slope = hd_prelu_layer(2, HD_OPTS(hd_prelu_layer_opts, .slope = HD_ZERO));
    assert_values(hd_module_get(slope, "weight"), HD_F32, 0, 0);
    assert_values(hd_module_get(hd_prelu_layer(1, NULL), "weight"), HD_F32, 0.25);
}

static void make_some(void) {
    hd_module *m = HD_SEQUENTIAL(
        hd_batch_norm_layer(3, HD_OPTS(hd_batch_norm_layer_opts, .cumulative = true)), hd_group_norm_layer(3, 3, NULL),
        hd_instance_norm_layer(3, HD_OPTS(hd_instance_norm_layer_opts, .running = true)), hd_prelu_layer(3, NULL),
        hd_dropout_channels_layer(0.5), hd_pad_layer(&(hd_padding){1, 1}, 1, 0), hd_upsample_layer(2, NULL),
        hd_glu_layer(-1), hd_rrelu_layer(0, 1));
    hd_forward(m, hd_ones(HD_SHAPE(2, 3, 4), HD_F32));
    hd_forward(hd_embedding_layer(2, 3, NULL), hd_zeros(HD_SHAPE(2), HD_I64));
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(make_some, 3000);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void bad_arguments_of_norms(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_batch_norm_layer(0, NULL));
    assert_error(HD_ERROR_VALUE, "hd_batch_norm_layer: 0 channels");
    assert_null(hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .momentum = 1.5)));
    assert_error(HD_ERROR_VALUE, "momentum = 1.5");
    assert_null(hd_batch_norm_layer(2, HD_OPTS(hd_batch_norm_layer_opts, .dtype = HD_I32)));
    assert_error(HD_ERROR_DTYPE, "hd_batch_norm_layer: a layer of i32");
    assert_null(hd_instance_norm_layer(2, HD_OPTS(hd_instance_norm_layer_opts, .eps = -1)));
    assert_error(HD_ERROR_VALUE, "hd_instance_norm_layer: 2 channels, eps -1");
    assert_null(hd_group_norm_layer(4, 6, NULL));
    assert_error(HD_ERROR_VALUE, "hd_group_norm_layer: 4 groups of 6 channels");
    assert_null(hd_forward(hd_batch_norm_layer(2, NULL), hd_ones(HD_SHAPE(4, 3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "batch_norm");
    assert_null(hd_forward(hd_instance_norm_layer(3, HD_OPTS(hd_instance_norm_layer_opts, .running = true)),
                           hd_ones(HD_SHAPE(2, 3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "instance_norm");
}

static void bad_arguments_of_the_others(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_padding around[2] = {{1, 1}, {1, 1}};
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32);
    assert_null(hd_dropout_layer(1.5));
    assert_error(HD_ERROR_VALUE, "hd_dropout_layer: 1.5 is no probability");
    assert_null(hd_alpha_dropout_layer(-1));
    assert_error(HD_ERROR_VALUE, "hd_alpha_dropout_layer");
    assert_null(hd_forward(hd_dropout_channels_layer(0.5), x));
    assert_error(HD_ERROR_SHAPE, "x [2,3]; it must be [n, channels");
    assert_null(hd_embedding_layer(0, 3, NULL));
    assert_error(HD_ERROR_VALUE, "hd_embedding_layer: count = 0");
    assert_null(hd_embedding_layer(4, 3, HD_OPTS(hd_embedding_layer_opts, .pads = true, .padding_index = 4)));
    assert_error(HD_ERROR_INDEX, "padding_index = 4 of 4 rows");
    assert_null(hd_forward(hd_embedding_layer(4, 3, NULL), HD_TENSOR_I64(HD_SHAPE(1), 4)));
    assert_error(HD_ERROR_INDEX, "embedding");
    assert_null(hd_upsample_layer(0, NULL));
    assert_error(HD_ERROR_VALUE, "hd_upsample_layer: a scale of 0");
    assert_null(hd_forward(hd_upsample_layer(2, NULL), x));
    assert_error(HD_ERROR_SHAPE, "x [2,3] and a scale of 2");
    assert_null(hd_resize_layer(HD_SHAPE(2, 0), NULL));
    assert_error(HD_ERROR_VALUE, "hd_resize_layer: a size [2,0]");
    assert_null(hd_pad_layer(NULL, 2, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_pad_layer: padding of 2 axes that is NULL");
    assert_null(hd_pad_with_layer(around, 9, HD_PAD_REFLECT));
    assert_error(HD_ERROR_VALUE, "hd_pad_with_layer: padding of 9 axes");
    assert_null(hd_pad_with_layer(around, 2, (hd_pad_mode)7));
    assert_error(HD_ERROR_VALUE, "hd_pad_with_layer: a mode 7");
    assert_null(hd_prelu_layer(0, NULL));
    assert_error(HD_ERROR_VALUE, "hd_prelu_layer: 0 slopes");
    assert_null(hd_forward(hd_prelu_layer(2, NULL), x));
    assert_error(HD_ERROR_SHAPE, "x [2,3]; it must be [n, 2, ...]");
    assert_null(hd_rrelu_layer(1, 0));
    assert_error(HD_ERROR_VALUE, "hd_rrelu_layer: slopes from 1 to 0");
    assert_null(hd_forward(hd_rrelu_layer(0, 1), hd_ones(HD_SHAPE(2), HD_I32)));
    assert_error(HD_ERROR_DTYPE, "x is i32");
    assert_null(hd_forward(hd_glu_layer(1), x));
    assert_error(HD_ERROR_SHAPE, "x [2,3] cannot be halved on axis 1");
    assert_null(hd_forward(hd_glu_layer(2), x));
    assert_error(HD_ERROR_AXIS, "glu");
    assert_null(hd_forward(hd_softmin_layer(2), x));
    assert_error(HD_ERROR_AXIS, "softm");
}

RUN(test(batch_norm_begins_with_neutral_statistics), test(only_training_moves_statistics),
    test(cumulative_statistics_are_the_mean_of_all_batches), test(dropout_is_for_training_alone),
    test(scripts_draw_what_layers_draw), test(rrelu_draws_slopes_between_its_bounds),
    test(embeddings_begin_normal_and_with_a_row_of_zeros), test(any_allocation_may_fail), test(bad_arguments_of_norms),
    test(bad_arguments_of_the_others))
