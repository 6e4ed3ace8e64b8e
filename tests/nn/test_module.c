/* Modules: layers, what they hold and by what names, modules of one's own. */
#include "printed.h"

#include <pthread.h>

#include <math.h>

/* ---- linear ------------------------------------------------------------------------------------------------------ */
static void linear_has_a_weight_and_a_bias_within_their_bounds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(100, 50, NULL);
    hd_tensor *weight = hd_module_get(m, "weight"), *bias = hd_module_get(m, "bias");
    assert_true(hd_shape_equal(hd_tensor_shape(weight), HD_SHAPE(50, 100)));
    assert_true(hd_shape_equal(hd_tensor_shape(bias), HD_SHAPE(50)));
    assert_true(hd_tensor_requires_grad(weight) && hd_tensor_requires_grad(bias));
    assert_int_equal(hd_tensor_dtype(weight), HD_F32);
    hd_tensor *both[2] = {weight, bias};
    for (int i = 0; i < 2; ++i) { /* uniform within 1 / sqrt(in) */
        const double most = hd_item(hd_max(both[i], HD_AXES(), NULL)),
                     least = hd_item(hd_min(both[i], HD_AXES(), NULL));
        assert_true(most <= 0.1 && most > 0.08 && least >= -0.1 && least < -0.08);
    }
    assert_true(fabs(hd_item(hd_mean(weight, HD_AXES(), NULL))) < 0.005);
    const double variance = hd_item(hd_var(weight, HD_AXES(), 0, NULL));
    assert_true(fabs(variance - 0.01 / 3) < 0.0003);
}

static void linear_multiplies_and_adds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(3, 2, NULL);
    hd_tensor *weight = hd_module_get(m, "weight"), *bias = hd_module_get(m, "bias");
    {
        HD_NO_GRAD;
        hd_assign(weight, HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 2, 3, 4, 5, 6));
        hd_assign(bias, HD_TENSOR_F32(HD_SHAPE(2), 10, 20));
    }
    hd_tensor *row = HD_TENSOR_F32(HD_SHAPE(3), 1, 0, -1);
    assert_values(hd_forward(m, row), HD_F32, 10 - 2, 20 - 2); /* rank 1 */
    hd_tensor *rows = HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 0, -1, 1, 1, 1);
    assert_values(hd_forward(m, rows), HD_F32, 8, 18, 16, 35);
    hd_tensor *y = hd_forward(m, hd_reshape(rows, HD_SHAPE(2, 1, 3)));
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(2, 1, 2)));
    assert_values(y, HD_F32, 8, 18, 16, 35);
    y = hd_forward(m, hd_broadcast_to(rows, HD_SHAPE(3, 2, 2, 3))); /* rank 4, a view */
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(3, 2, 2, 2)));
    y = hd_forward(m, hd_ones(HD_SHAPE(0, 3), HD_F32)); /* no rows */
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(0, 2)));
}

static void linear_has_gradients_for_all_it_reads(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(3, 2, NULL);
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 2, 3, 4, 5, 6)), *weight = hd_module_get(m, "weight");
    hd_backward(hd_forward(m, x));
    assert_values(hd_grad(weight), HD_F32, 5, 7, 9, 5, 7, 9);
    assert_values(hd_grad(hd_module_get(m, "bias")), HD_F32, 2, 2);
    hd_tensor *columns = hd_sum(hd_detach(weight), HD_AXES(0), NULL);
    assert_close(hd_grad(x), hd_stack((hd_tensor *[]){columns, columns}, 2, 0), 1e-6, HD_ZERO);
}

static void linear_without_bias_and_in_other_dtypes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *bare = hd_linear(3, 2, HD_OPTS(hd_linear_opts, .no_bias = true));
    assert_int_equal(hd_tensors_count(hd_module_parameters(bare)), 1);
    assert_null(hd_module_get(bare, "bias"));
    assert_error(HD_ERROR_VALUE, "bias");
    assert_values(hd_forward(bare, hd_zeros(HD_SHAPE(3), HD_F32)), HD_F32, 0, 0);
    static const hd_dtype dtypes[] = {HD_F64, HD_F16, HD_BF16};
    for (int i = 0; i < 3; ++i) {
        hd_module *m = hd_linear(3, 2, HD_OPTS(hd_linear_opts, .dtype = dtypes[i]));
        assert_int_equal(hd_tensor_dtype(hd_module_get(m, "weight")), dtypes[i]);
        assert_int_equal(hd_tensor_dtype(hd_module_get(m, "bias")), dtypes[i]);
        hd_tensor *y = hd_forward(m, hd_ones(HD_SHAPE(4, 3), dtypes[i]));
        assert_int_equal(hd_tensor_dtype(y), dtypes[i]);
        hd_backward(y);
        assert_values(hd_grad(hd_module_get(m, "bias")), dtypes[i], 4, 4);
    }
    hd_set_default_dtype(HD_F64);
    hd_module *by_default = hd_linear(3, 2, NULL);
    hd_set_default_dtype(HD_F32);
    assert_int_equal(hd_tensor_dtype(hd_module_get(by_default, "weight")), HD_F64);
}

static void the_seed_decides_the_weights(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_module *a = hd_linear(3, 2, NULL), *c = hd_linear(3, 2, NULL);
    hd_seed(5);
    hd_module *b = hd_linear(3, 2, NULL);
    assert_same(hd_module_get(a, "weight"), hd_module_get(b, "weight"));
    assert_same(hd_module_get(a, "bias"), hd_module_get(b, "bias"));
    assert_false(hd_allclose(hd_module_get(a, "weight"), hd_module_get(c, "weight"), NULL));
}

static void making_a_layer_notes_nothing_and_leaves_one_module(void **state) {
    (void)state;
    HD_SCOPE;
    const int64_t before = hd_live_objects();
    hd_linear(3, 2, NULL);
    assert_int_equal(hd_tape_length(), 0);
    assert_int_equal(hd_live_objects() - before, 1 + 2 * 2); /* two tensors with their storages */
    HD_NO_GRAD;
    assert_true(hd_tensor_requires_grad(hd_module_get(hd_linear(3, 2, NULL), "weight")));
}

/* ---- sequential, names ------------------------------------------------------------------------------------------- */
static void sequential_runs_in_order_and_names_by_number(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *first = hd_linear(2, 3, NULL), *last = hd_linear(3, 1, HD_OPTS(hd_linear_opts, .no_bias = true));
    hd_module *m = HD_SEQUENTIAL(first, hd_tanh_layer(), last);
    static const char *const names[] = {"0.weight", "0.bias", "2.weight"};
    hd_tensors *all = hd_module_parameters(m);
    assert_int_equal(hd_tensors_count(all), 3);
    for (int i = 0; i < 3; ++i) {
        assert_string_equal(hd_module_parameter_name(m, i), names[i]);
        assert_ptr_equal(hd_module_get(m, names[i]), hd_tensors_get(all, i));
    }
    hd_tensor *x = hd_randn(HD_SHAPE(4, 2), HD_F32);
    assert_same(hd_forward(m, x), hd_forward(last, hd_tanh(hd_forward(first, x))));
    hd_module *outer = HD_SEQUENTIAL(hd_relu_layer(), m);
    assert_string_equal(hd_module_parameter_name(outer, 2), "1.2.weight");
    assert_ptr_equal(hd_module_get(outer, "1.0.bias"), hd_module_get(first, "bias"));
    assert_int_equal(hd_tensors_count(hd_module_parameters(HD_SEQUENTIAL(hd_relu_layer()))), 0);
}

static void names_are_valid_as_long_as_the_module(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 3, NULL), hd_linear(3, 1, NULL));
    const char *name[4];
    for (int i = 0; i < 4; ++i) name[i] = hd_module_parameter_name(m, i);
    static const char *const expected[4] = {"0.weight", "0.bias", "1.weight", "1.bias"};
    for (int i = 0; i < 4; ++i) assert_string_equal(name[i], expected[i]);
    assert_null(hd_module_parameter_name(m, 4));
    assert_error(HD_ERROR_INDEX, "4");
    assert_string_equal(name[0], "0.weight");
}

static void a_sequence_of_many(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *layers[200];
    for (int i = 0; i < 200; ++i) layers[i] = i % 2 == 0 ? hd_linear(2, 2, NULL) : hd_softsign_layer();
    hd_module *m = hd_sequential(layers, 200);
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 200);
    assert_string_equal(hd_module_parameter_name(m, 199), "198.bias");
    hd_backward(hd_forward(m, hd_ones(HD_SHAPE(2), HD_F32)));
    assert_true(hd_has_grad(hd_module_get(m, "0.weight")));
}

static void shared_parameters_are_listed_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *layer = hd_linear(2, 2, NULL), *other = hd_linear(2, 2, NULL);
    hd_module *m = HD_SEQUENTIAL(layer, hd_tanh_layer(), layer, other);
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 4);
    assert_string_equal(hd_module_parameter_name(m, 2), "3.weight");
    assert_ptr_equal(hd_module_get(m, "0.weight"), hd_module_get(m, "2.weight"));
    hd_module_add_parameter(other, "tied", hd_module_get(layer, "weight"));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 4);
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(m), 0.1, NULL); /* which would refuse a tensor twice */
    assert_non_null(sgd);
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2), HD_F32);
    hd_backward(hd_forward(HD_SEQUENTIAL(layer, layer), x));
    hd_tensor *weight = hd_module_get(layer, "weight"), *bias = hd_module_get(layer, "bias");
    hd_tensor *hidden = hd_affine(x, hd_detach(weight), hd_detach(bias));
    /* by hand: y = W (W x + b) + b, seeded with ones */
    hd_tensor *back = hd_sum(hd_detach(weight), HD_AXES(0), NULL);
    hd_tensor *want = hd_add(hd_broadcast_to(hidden, HD_SHAPE(2, 2)), hd_outer(back, hd_flatten(x)));
    assert_close(hd_grad(weight), want, 1e-6, 1e-6);
}

static void what_is_added_later_is_found(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = HD_SEQUENTIAL(hd_relu_layer()), *outer = HD_SEQUENTIAL(inner);
    assert_int_equal(hd_tensors_count(hd_module_parameters(outer)), 0);
    hd_module_add_parameter(inner, "scale", hd_ones(HD_SHAPE(2), HD_F32));
    assert_int_equal(hd_tensors_count(hd_module_parameters(outer)), 1);
    assert_string_equal(hd_module_parameter_name(outer, 0), "0.scale");
}

static void buffers_are_found_but_are_no_parameters(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_relu_layer();
    hd_tensor *mean = hd_zeros(HD_SHAPE(2), HD_F32), *count = hd_zeros(HD_SHAPE(), HD_I64);
    assert_ptr_equal(hd_module_add_buffer(m, "mean", mean), mean);
    assert_ptr_equal(hd_module_add_buffer(m, "count", count), count);
    assert_false(hd_tensor_requires_grad(mean));
    assert_ptr_equal(hd_module_get(m, "count"), count);
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 0);
}

/* ---- activations ------------------------------------------------------------------------------------------------- */
static hd_tensor *leaky(hd_tensor *x) { return hd_leaky_relu(x, 0.3); }
static hd_tensor *elu(hd_tensor *x) { return hd_elu(x, 1.5); }
static hd_tensor *celu(hd_tensor *x) { return hd_celu(x, 1.5); }
static hd_tensor *softshrink(hd_tensor *x) { return hd_softshrink(x, 0.4); }
static hd_tensor *hardshrink(hd_tensor *x) { return hd_hardshrink(x, 0.4); }
static hd_tensor *hardtanh(hd_tensor *x) { return hd_hardtanh(x, -0.5, 0.75); }
static hd_tensor *threshold(hd_tensor *x) { return hd_threshold(x, 0.5, 7); }
static hd_tensor *softplus(hd_tensor *x) { return hd_softplus(x, 2, 3); }
static hd_tensor *softmax_first(hd_tensor *x) { return hd_softmax(x, 0); }
static hd_tensor *softmax_last(hd_tensor *x) { return hd_softmax(x, -1); }
static hd_tensor *log_softmax(hd_tensor *x) { return hd_log_softmax(x, 1); }

static void activation_layers_are_their_functions(void **state) {
    (void)state;
    HD_SCOPE;
    const struct {
        hd_module *layer;
        hd_tensor *(*function)(hd_tensor *);
    } pairs[] = {{hd_relu_layer(), hd_relu},
                 {hd_relu6_layer(), hd_relu6},
                 {hd_sigmoid_layer(), hd_sigmoid},
                 {hd_log_sigmoid_layer(), hd_log_sigmoid},
                 {hd_tanh_layer(), hd_tanh},
                 {hd_gelu_layer(), hd_gelu},
                 {hd_gelu_tanh_layer(), hd_gelu_tanh},
                 {hd_silu_layer(), hd_silu},
                 {hd_mish_layer(), hd_mish},
                 {hd_selu_layer(), hd_selu},
                 {hd_softsign_layer(), hd_softsign},
                 {hd_hardsigmoid_layer(), hd_hardsigmoid},
                 {hd_hardswish_layer(), hd_hardswish},
                 {hd_tanhshrink_layer(), hd_tanhshrink},
                 {hd_leaky_relu_layer(0.3), leaky},
                 {hd_elu_layer(1.5), elu},
                 {hd_celu_layer(1.5), celu},
                 {hd_softshrink_layer(0.4), softshrink},
                 {hd_hardshrink_layer(0.4), hardshrink},
                 {hd_hardtanh_layer(-0.5, 0.75), hardtanh},
                 {hd_threshold_layer(0.5, 7), threshold},
                 {hd_softplus_layer(2, 3), softplus},
                 {hd_softmax_layer(0), softmax_first},
                 {hd_softmax_layer(-1), softmax_last},
                 {hd_log_softmax_layer(1), log_softmax}};
    hd_tensor *x = hd_reshape(hd_linspace(-9, 9, 60, HD_F32), HD_SHAPE(6, 10));
    hd_tensor *a = hd_param(hd_copy(x)), *b = hd_param(hd_copy(x)), *seed = hd_randn(HD_SHAPE(6, 10), HD_F32);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
        hd_tensor *ours = hd_forward(pairs[i].layer, a), *theirs = pairs[i].function(b);
        assert_same(ours, theirs);
        assert_int_equal(hd_tensors_count(hd_module_parameters(pairs[i].layer)), 0);
        hd_zero_grad(a);
        hd_zero_grad(b);
        hd_backward_with(ours, HD_OPTS(hd_backward_opts, .seed = seed));
        hd_backward_with(theirs, HD_OPTS(hd_backward_opts, .seed = seed));
        assert_same(hd_grad(a), hd_grad(b));
    }
}

static void a_layer_reports_what_its_function_does(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_forward(hd_softmax_layer(3), hd_ones(HD_SHAPE(2, 2), HD_F32)));
    assert_error(HD_ERROR_AXIS, "3");
}

/* ---- training and evaluation ------------------------------------------------------------------------------------- */
static void train_and_eval_reach_everything_inside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *leaf = hd_relu_layer(), *inner = HD_SEQUENTIAL(leaf, hd_linear(2, 2, NULL)),
              *outer = HD_SEQUENTIAL(inner, leaf);
    hd_module *apart = hd_relu_layer();
    assert_true(hd_module_is_training(leaf) && hd_module_is_training(outer));
    hd_module_eval(outer);
    assert_false(hd_module_is_training(outer));
    assert_false(hd_module_is_training(inner));
    assert_false(hd_module_is_training(leaf));
    assert_true(hd_module_is_training(apart));
    hd_module_train(inner);
    assert_true(hd_module_is_training(leaf));
    assert_false(hd_module_is_training(outer));
    hd_module_train(outer);
    assert_true(hd_module_is_training(outer));
    hd_module_eval(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "module");
}

/* ---- modules of one's own ---------------------------------------------------------------------------------------- */
typedef struct gate {
    double bound;
    int *destroyed;
} gate;
static hd_tensor *gate_forward(hd_module *module, hd_tensor *x) { /* does something else in training */
    const gate *g = hd_module_state(module);
    hd_tensor *scaled = hd_mul(x, hd_module_get(module, "scale"));
    return hd_module_is_training(module) ? scaled : hd_clamp(scaled, -g->bound, g->bound);
}
static void gate_destroy(void *state) {
    ++*((gate *)state)->destroyed;
    free(state);
}
static const hd_module_class gate_class = {.name = "gate", .forward = gate_forward, .destroy = gate_destroy};
static hd_module *new_gate(double bound, int *destroyed) {
    HD_SCOPE;
    gate *g = malloc(sizeof *g);
    assert_non_null(g);
    *g = (gate){bound, destroyed};
    hd_module *m = hd_module_new(&gate_class, g);
    hd_module_add_parameter(m, "scale", hd_full(HD_SHAPE(), HD_F32, 2));
    return hd_keep(m);
}

static void an_own_module_has_a_state_and_holds_what_it_is_given(void **state) {
    (void)state;
    int destroyed = 0;
    {
        HD_SCOPE;
        hd_module *m = new_gate(3, &destroyed);
        assert_true(((gate *)hd_module_state(m))->bound == 3);
        hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 1, 4);
        assert_values(hd_forward(m, x), HD_F32, 2, 8);
        hd_module_eval(m);
        assert_values(hd_forward(m, x), HD_F32, 2, 3);
        hd_backward(hd_forward(m, x));
        assert_values(hd_grad(hd_module_get(m, "scale")), HD_F32, 1); /* the clamped one has none */
        assert_int_equal(destroyed, 0);
    }
    assert_int_equal(destroyed, 1);
}

static void a_module_lives_as_long_as_one_that_holds_it(void **state) {
    (void)state;
    int destroyed = 0;
    {
        HD_SCOPE;
        hd_module *outer;
        {
            HD_SCOPE;
            outer = hd_keep(HD_SEQUENTIAL(new_gate(1, &destroyed), new_gate(2, &destroyed)));
        }
        assert_int_equal(destroyed, 0);
        assert_values(hd_forward(outer, hd_ones(HD_SHAPE(), HD_F32)), HD_F32, 4);
        hd_module *kept = hd_retain(outer);
        hd_release(outer);
        assert_ptr_equal(kept, outer);
        assert_int_equal(destroyed, 0);
    }
    assert_int_equal(destroyed, 2);
}

static void a_parameter_outlives_its_module(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *weight;
    {
        HD_SCOPE;
        weight = hd_keep(hd_module_get(hd_linear(2, 2, NULL), "weight"));
    }
    assert_ok();
    hd_backward(hd_mul_scalar(weight, 2));
    assert_values(hd_grad(weight), HD_F32, 2, 2, 2, 2);
}

static void a_module_that_is_gone_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *gone;
    hd_tensors *list;
    {
        HD_SCOPE;
        gone = hd_linear(2, 2, NULL);
        list = hd_module_parameters(gone);
    }
    assert_null(hd_forward(gone, hd_ones(HD_SHAPE(2), HD_F32)));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    assert_null(hd_module_parameters(gone));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    assert_null(hd_tensors_get(list, 0));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
}

static hd_tensor *forward_that_fails(hd_module *module, hd_tensor *x) { return (void)module, hd_matmul(x, x); }
static void an_error_inside_a_forward_comes_out(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class failing = {.name = "failing", .forward = forward_that_fails};
    hd_module *m = HD_SEQUENTIAL(hd_relu_layer(), hd_module_new(&failing, NULL), hd_relu_layer());
    assert_null(hd_forward(m, hd_ones(HD_SHAPE(2, 3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "hd_matmul");
}

/* A module that holds another, and calls it as a user does. */
static hd_tensor *block_forward(hd_module *m, hd_tensor *x) { return hd_forward(hd_module_state(m), x); }
static const hd_module_class block_class = {.name = "block", .forward = block_forward};

static void an_error_says_in_which_layer(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = HD_SEQUENTIAL(hd_relu_layer(), hd_linear(5, 3, NULL));
    hd_module *model = HD_SEQUENTIAL(hd_linear(10, 4, NULL), hd_relu_layer(), inner);
    hd_tensor *x = hd_ones(HD_SHAPE(2, 10), HD_F32);
    assert_null(hd_forward(model, x));
    assert_non_null(strstr(hd_error_message(), "; in linear 1 of sequential 2 of sequential"));
    assert_error(HD_ERROR_SHAPE, "hd_affine: x [2,4] and weight [3,5]");
    hd_module *block = hd_module_new(&block_class, model);
    hd_module_add(block, "model", model);
    hd_forward(block, x);
    assert_error(HD_ERROR_SHAPE, "; in linear 1 of sequential 2 of sequential of block");
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_forward(compiled, x);
    const char *message = hd_error_message(),
               *end = strstr(message, " of sequential (while hd_compile captures the model)");
    assert_non_null(end);
    assert_string_equal(end, " of sequential (while hd_compile captures the model)"); /* and nothing behind it */
    hd_error_clear();
    hd_forward(hd_linear(4, 4, NULL), x); /* the next error names its own */
    message = hd_error_message();
    assert_string_equal(strstr(message, "; in "), "; in linear");
    hd_error_clear();
    hd_affine(x, x, x);
    assert_null(strstr(hd_error_message(), "; in "));
    hd_error_clear();
}

typedef struct two {
    hd_module *a, *b;
    hd_tensor *scale;
} two;
static hd_tensor *two_forward(hd_module *m, hd_tensor *x) {
    const two *s = hd_module_state(m);
    hd_tensor *y = hd_forward(s->b, hd_forward(s->a, x));
    return s->scale != NULL ? hd_mul(y, s->scale) : y;
}
static const hd_module_class two_class = {.name = "two", .forward = two_forward};

static hd_module *stranger; /* what the modules below call, and no module holds */
static hd_tensor *calls_the_stranger(hd_module *m, hd_tensor *x) {
    (void)m;
    return hd_forward(stranger, x);
}
static void a_module_that_is_no_member_is_said_once_whoever_calls_it(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class a_class = {.name = "A", .forward = calls_the_stranger},
                                 b_class = {.name = "B", .forward = calls_the_stranger};
    char text[4096];
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2), HD_F32);
    hd_module *a = hd_module_new(&a_class, NULL), *b = hd_module_new(&b_class, NULL);
    for (int round = 0; round < 2; ++round) { /* for another stranger once more */
        stranger = hd_linear(2, 2, NULL);
        printed out = printed_begin();
        for (int i = 0; i < 4; ++i) {
            hd_forward(a, x);
            hd_forward(b, x);
        }
        printed_end(out, text, sizeof text);
        const char *first = strstr(text, "hodu warning: the forward of a \"A\" calls a \"linear\" that is no member");
        assert_non_null(first);
        assert_null(strstr(first + 1, "hodu warning"));
    }
    /* the same tensors under other names are among its parameters */
    hd_module *tied = hd_module_new(&a_class, NULL);
    stranger = hd_linear(2, 2, NULL);
    hd_module_add(tied, "inner", hd_tanh_layer());
    hd_module_add_parameter(tied, "w", hd_module_get(stranger, "weight"));
    hd_module_add_parameter(tied, "b", hd_module_get(stranger, "bias"));
    printed out = printed_begin();
    hd_forward(tied, x);
    printed_end(out, text, sizeof text);
    assert_string_equal(text, "");
    /* one of them alone is not enough */
    hd_module *half = hd_module_new(&b_class, NULL);
    stranger = hd_linear(2, 2, NULL);
    hd_module_add_parameter(half, "w", hd_module_get(stranger, "weight"));
    out = printed_begin();
    hd_forward(half, x);
    printed_end(out, text, sizeof text);
    assert_non_null(strstr(text, "the forward of a \"B\" calls a \"linear\" that is no member"));
    assert_ok();
}

static void what_a_forward_reads_and_does_not_hold_is_said(void **state) {
    (void)state;
    HD_SCOPE;
    char text[2048];
    two s = {hd_linear(2, 3, NULL), hd_linear(3, 1, NULL), NULL};
    hd_module *m = hd_module_new(&two_class, &s);
    hd_module_add(m, "a", s.a);
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(1, 2), HD_F32)); /* what it is given may require a gradient */
    printed out = printed_begin();
    hd_forward(m, x);
    hd_forward(m, x);
    printed_end(out, text, sizeof text);
    assert_ok();
    const char *warning = strstr(text, "hodu warning: the forward of a \"two\" calls a \"linear\" that is no member");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, "hodu warning")); /* once, and of nothing else */
    hd_module_add(m, "b", s.b);
    s.scale = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    hd_module *fine = hd_module_new(&two_class, &s);
    hd_module_add(fine, "a", s.a);
    hd_module_add(fine, "b", s.b);
    out = printed_begin();
    hd_forward(fine, x);
    hd_forward(fine, x);
    printed_end(out, text, sizeof text);
    warning =
        strstr(text, "the forward of a \"two\" reads a tensor [1] that requires a gradient and that no module holds");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, "hodu warning"));
    hd_clear_tape();
}

static hd_tensor *fails_and_returns(hd_module *m, hd_tensor *x) {
    (void)m;
    hd_matmul(x, NULL);
    return x;
}
static hd_tensor *returns_itself(hd_module *m, hd_tensor *x) {
    (void)x;
    return (hd_tensor *)m;
}
static void forward_gives_a_tensor_or_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class fails = {.name = "fails", .forward = fails_and_returns},
                                 itself = {.name = "itself", .forward = returns_itself};
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_forward(hd_module_new(&fails, NULL), x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_matmul: `b` is NULL; in fails");
    assert_null(hd_forward(HD_SEQUENTIAL(hd_module_new(&itself, NULL)), x));
    assert_error(HD_ERROR_STATE, "hd_forward: `the result of forward` is no tensor, but another object; in itself 0");
}

static void a_wrong_name_is_answered_with_the_names_there_are(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_linear(2, 2, HD_OPTS(hd_linear_opts, .no_bias = true)));
    hd_module_add_buffer(m, "mean", hd_zeros(HD_SHAPE(2), HD_F32));
    assert_null(hd_module_get(m, "1.bias"));
    assert_error(HD_ERROR_VALUE, "no parameter or buffer \"1.bias\"; it has 0.weight, 0.bias, 1.weight, mean");
    assert_null(hd_module_get(hd_tanh_layer(), "weight"));
    assert_error(HD_ERROR_VALUE, "; it has none");
    hd_module *many[100];
    for (int i = 0; i < 100; ++i) many[i] = hd_linear(1, 1, NULL);
    assert_null(hd_module_get(hd_sequential(many, 100), "bias"));
    assert_error(HD_ERROR_VALUE, " ...");
}

/* ---- members are told apart by name and kind --------------------------------------------------------------------- */
static void a_sequence_calls_its_modules_alone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_full(HD_SHAPE(2, 3), HD_F32, 2);
    hd_module *m = HD_SEQUENTIAL(hd_linear(3, 2, NULL), hd_relu_layer());
    hd_tensor *before = hd_forward(m, x);
    hd_module_add_buffer(m, "steps", hd_zeros(HD_SHAPE(1), HD_F32));
    hd_module_add_parameter(m, "weight", hd_ones(HD_SHAPE(2, 2), HD_F32));
    assert_same(hd_forward(m, x), before);
    hd_module_add(m, "last", hd_tanh_layer()); /* behind them, and still called */
    assert_same(hd_forward(m, x), hd_tanh(before));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 3);
    hd_module *compiled = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    assert_close(hd_forward(compiled, x), hd_tanh(before), 1e-6, 1e-6);
    assert_ok();
}

/* What is added to a layer is no part of what it computes, unless it is a parameter with the name of one. */
static void added_to(hd_module *m, hd_tensor *x, hd_shape shape) {
    hd_tensor *before = hd_forward(m, x);
    hd_module_add_buffer(m, "running_scale", hd_full(shape, HD_F32, 1000));
    assert_same(hd_forward(m, x), before);
    hd_module_add_parameter(m, "scale", hd_full(shape, HD_F32, 1000));
    hd_module_add(m, "child", hd_relu_layer());
    hd_module_add_buffer(m, "0", hd_full(shape, HD_F32, 1000));
    assert_same(hd_forward(m, x), before);
    assert_ok();
}

static void what_is_added_to_a_layer_is_not_its_bias(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *row = hd_ones(HD_SHAPE(1, 2), HD_F32), *image = hd_ones(HD_SHAPE(1, 2, 3, 3), HD_F32);
    const hd_conv_layer_opts *no_bias = HD_OPTS(hd_conv_layer_opts, .no_bias = true);
    added_to(hd_linear(2, 2, HD_OPTS(hd_linear_opts, .no_bias = true)), row, HD_SHAPE(2));
    added_to(hd_linear(2, 2, NULL), row, HD_SHAPE(2));
    added_to(hd_conv_layer(2, 2, HD_SHAPE(2, 2), no_bias), image, HD_SHAPE(2));
    added_to(hd_conv_transpose_layer(2, 2, HD_SHAPE(2, 2), no_bias), image, HD_SHAPE(2));
    for (int i = 0; i < 4; ++i) {
        const hd_norm_layer_opts *opts = HD_OPTS(hd_norm_layer_opts, .no_weight = i & 1, .no_bias = i >> 1);
        added_to(hd_layer_norm_layer(HD_SHAPE(2), opts), row, HD_SHAPE(2));
        added_to(hd_rms_norm_layer(2, opts), row, HD_SHAPE(2));
    }
    added_to(hd_multihead_attention(2, 1, NULL), hd_ones(HD_SHAPE(3, 2), HD_F32), HD_SHAPE(2));
    hd_module *m = hd_linear(2, 2, HD_OPTS(hd_linear_opts, .no_bias = true));
    hd_tensor *before = hd_forward(m, row);
    hd_module_add_parameter(m, "bias", hd_full(HD_SHAPE(2), HD_F32, 1000)); /* this one says that it is */
    assert_same(hd_forward(m, row), hd_add_scalar(before, 1000));
}

/* ---- depth ------------------------------------------------------------------------------------------------------- */
static hd_module *nested(int depth) { /* from the outside in, which no check of one addition could stop */
    hd_module *first = HD_SEQUENTIAL(hd_relu_layer()), *last = first;
    for (int i = 1; i < depth; ++i) {
        HD_SCOPE;
        hd_module *next = HD_SEQUENTIAL(hd_relu_layer());
        hd_module_add(last, "inner", next);
        last = next;
    }
    return first;
}

static void modules_that_lie_too_deep_in_each_other_are_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    hd_module *deep = nested(64000), *fits = nested(900);
    assert_ok();
    assert_null(hd_forward(deep, x));
    assert_error(HD_ERROR_VALUE, "more than 1000 deep");
    assert_null(hd_module_parameters(deep));
    assert_error(HD_ERROR_VALUE, "hd_module_parameters: modules lie more than 1000 deep");
    assert_null(hd_module_parameter_name(deep, 0));
    assert_error(HD_ERROR_VALUE, "more than 1000 deep");
    hd_module_eval(deep);
    assert_error(HD_ERROR_VALUE, "more than 1000 deep");
    assert_true(hd_module_is_training(deep)); /* none of them changed */
    hd_module_add(HD_SEQUENTIAL(hd_relu_layer()), "deep", deep);
    assert_error(HD_ERROR_VALUE, "more than 1000 deep");
    hd_module *compiled = hd_compile(fits, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_module_eval(compiled);
    assert_same(hd_forward(compiled, x), x);
    assert_same(hd_forward(fits, x), x);
    assert_int_equal(hd_tensors_count(hd_module_parameters(fits)), 0);
    assert_ok();
} /* and both are released */

static hd_tensor *calls_itself(hd_module *m, hd_tensor *x) { return hd_forward(m, x); }
static void a_forward_that_calls_itself_ends_in_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class endless = {.name = "endless", .forward = calls_itself};
    assert_null(hd_forward(hd_module_new(&endless, NULL), hd_ones(HD_SHAPE(1), HD_F32)));
    assert_error(HD_ERROR_VALUE, "more than 1000 deep in each other (at a endless)");
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static pthread_barrier_t inside, done;
static hd_tensor *waits(hd_module *m, hd_tensor *x) {
    (void)m;
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&done);
    return x;
}
static const hd_module_class waiting = {.name = "waiting", .forward = waits};
static void *runs_forward(void *model) {
    HD_SCOPE;
    hd_forward(model, hd_ones(HD_SHAPE(1), HD_F32));
    return hd_ok() ? NULL : (void *)1;
}

static void a_module_that_another_thread_uses_is_not_changed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = hd_module_new(&waiting, NULL), *model = HD_SEQUENTIAL(inner);
    hd_tensor *t = hd_ones(HD_SHAPE(1), HD_F32);
    pthread_t id;
    void *failed;
    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    assert_int_equal(pthread_create(&id, NULL, runs_forward, model), 0);
    pthread_barrier_wait(&inside);
    hd_module_add_buffer(inner, "late", t);
    assert_error(HD_ERROR_STATE, "hd_module_add_buffer: the module waiting is in use by another thread");
    hd_module_add_parameter(model, "late", t);
    assert_error(HD_ERROR_STATE, "the module sequential is in use by another thread");
    hd_module_add(model, "late", hd_relu_layer());
    assert_error(HD_ERROR_STATE, "while no other thread uses the module");
    hd_module_eval(model);
    assert_error(HD_ERROR_STATE, "hd_module_eval");
    assert_true(hd_module_is_training(inner));
    assert_int_equal(hd_tensors_count(hd_module_parameters(model)), 0); /* to look is allowed */
    assert_ok();
    pthread_barrier_wait(&done);
    pthread_join(id, &failed);
    assert_null(failed);
    hd_module_add_buffer(inner, "late", t);
    hd_module_eval(model);
    assert_ok();
    pthread_barrier_destroy(&inside);
    pthread_barrier_destroy(&done);
}

static void what_changes_nothing_is_allowed_while_another_thread_uses_a_module(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = hd_module_new(&waiting, NULL), *model = HD_SEQUENTIAL(hd_linear(1, 1, NULL), inner);
    pthread_t id;
    void *failed;
    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    assert_int_equal(pthread_create(&id, NULL, runs_forward, model), 0);
    pthread_barrier_wait(&inside);
    assert_string_equal(hd_module_parameter_name(model, 1), "0.bias");
    assert_ok();
    assert_null(hd_module_parameter_name(model, 2));
    assert_error(HD_ERROR_INDEX, "hd_module_parameter_name: parameter 2 of 2");
    hd_module_train(model); /* as it is */
    assert_ok();
    hd_module_eval(model);
    assert_error(HD_ERROR_STATE, "hd_module_eval: the module sequential is in use by another thread");
    pthread_barrier_wait(&done);
    pthread_join(id, &failed);
    assert_null(failed);
    pthread_barrier_destroy(&inside);
    pthread_barrier_destroy(&done);
}

static void *uses_and_looks(void *model) {
    HD_SCOPE;
    HD_NO_GRAD;
    hd_tensor *x = hd_ones(HD_SHAPE(1, 4), HD_F32);
    bool named = true;
    for (int i = 0; i < 2000 && named && hd_ok(); ++i) {
        HD_SCOPE;
        hd_forward(model, x);
        hd_module_train(model);
        const char *name = hd_module_parameter_name(model, i % 4);
        named = name != NULL && strcmp(name, (const char *[]){"0.weight", "0.bias", "1.weight", "1.bias"}[i % 4]) == 0;
    }
    return hd_ok() && named ? NULL : (void *)1;
}
static void threads_may_read_names_while_others_run_forward(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_linear(4, 4, NULL), hd_linear(4, 4, NULL));
    pthread_t id[3];
    for (int i = 0; i < 3; ++i) assert_int_equal(pthread_create(&id[i], NULL, uses_and_looks, model), 0);
    for (int i = 0; i < 3; ++i) {
        void *failed;
        pthread_join(id[i], &failed);
        assert_null(failed);
    }
}

static hd_tensor *adds_once(hd_module *m, hd_tensor *x) { /* a layer that knows its size at its first call */
    int *calls = hd_module_state(m);
    if ((*calls)++ == 0) hd_module_add_parameter(m, "weight", hd_ones(HD_SHAPE(hd_tensor_size(x, 0)), HD_F32));
    return hd_mul(x, hd_module_get(m, "weight"));
}
static void a_forward_may_add_to_its_own_module(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class lazy = {.name = "lazy", .forward = adds_once};
    int calls = 0;
    hd_module *m = hd_module_new(&lazy, &calls), *model = HD_SEQUENTIAL(m);
    for (int i = 0; i < 2; ++i) assert_values(hd_forward(model, hd_ones(HD_SHAPE(2), HD_F32)), HD_F32, 1, 1);
    assert_int_equal(hd_tensors_count(hd_module_parameters(model)), 1);
    hd_clear_tape();
}

RUN(test(a_sequence_calls_its_modules_alone), test(what_is_added_to_a_layer_is_not_its_bias),
    test(modules_that_lie_too_deep_in_each_other_are_an_error), test(a_forward_that_calls_itself_ends_in_an_error),
    test(a_module_that_another_thread_uses_is_not_changed),
    test(what_changes_nothing_is_allowed_while_another_thread_uses_a_module),
    test(threads_may_read_names_while_others_run_forward), test(a_forward_may_add_to_its_own_module),
    test(linear_has_a_weight_and_a_bias_within_their_bounds), test(linear_multiplies_and_adds),
    test(linear_has_gradients_for_all_it_reads), test(linear_without_bias_and_in_other_dtypes),
    test(the_seed_decides_the_weights), test(making_a_layer_notes_nothing_and_leaves_one_module),
    test(sequential_runs_in_order_and_names_by_number), test(names_are_valid_as_long_as_the_module),
    test(a_sequence_of_many), test(shared_parameters_are_listed_once), test(what_is_added_later_is_found),
    test(buffers_are_found_but_are_no_parameters), test(activation_layers_are_their_functions),
    test(a_layer_reports_what_its_function_does), test(train_and_eval_reach_everything_inside),
    test(an_own_module_has_a_state_and_holds_what_it_is_given), test(a_module_lives_as_long_as_one_that_holds_it),
    test(a_parameter_outlives_its_module), test(a_module_that_is_gone_is_an_error),
    test(an_error_inside_a_forward_comes_out), test(an_error_says_in_which_layer),
    test(a_module_that_is_no_member_is_said_once_whoever_calls_it),
    test(what_a_forward_reads_and_does_not_hold_is_said), test(forward_gives_a_tensor_or_an_error),
    test(a_wrong_name_is_answered_with_the_names_there_are))
