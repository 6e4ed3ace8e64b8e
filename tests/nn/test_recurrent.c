/* Recurrent layers: what they hold, their gradients and the gradients of these, lengths, scripts, what they refuse.
 * Their numbers are compared in test_layers_golden.c. */
#include "each_allocation.h"

#include <math.h>

#define OPTS(...) HD_OPTS(hd_recurrent_opts, __VA_ARGS__)

static void weights_have_names_and_bounds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_lstm(3, 16, OPTS(.layers = 2, .bidirectional = true, .dtype = HD_F64));
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 16);
    assert_string_equal(hd_module_parameter_name(m, 0), "weight_ih_l0");
    assert_string_equal(hd_module_parameter_name(m, 7), "bias_hh_l0_reverse");
    hd_tensor *w = hd_module_get(m, "weight_ih_l1_reverse");
    assert_true(hd_shape_equal(hd_tensor_shape(w), HD_SHAPE(64, 32)));
    assert_int_equal(hd_tensor_dtype(w), HD_F64);
    const double most = hd_item(hd_max(hd_abs(w), HD_AXES(), NULL));
    assert_true(most <= 0.25 && most > 0.24);
    assert_int_equal(hd_tensors_count(hd_module_parameters(hd_gru(2, 2, OPTS(.no_bias = true)))), 2);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_module_get(hd_gru(2, 5, NULL), "bias_hh_l0")), HD_SHAPE(15)));
}

static void forward_gives_the_sequence(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_gru(2, 3, OPTS(.batch_first = true));
    hd_tensor *x = hd_randn(HD_SHAPE(4, 5, 2), HD_F32);
    hd_tensors *y = HD_FORWARD_ALL(m, x);
    assert_same(hd_forward(m, x), hd_tensors_get(y, 0));
    assert_same(hd_select(hd_tensors_get(y, 0), 1, 4), hd_select(hd_tensors_get(y, 1), 0, 0)); /* hn */
    assert_same(hd_forward(m, x), hd_tensors_get(HD_FORWARD_ALL(m, x, hd_zeros(HD_SHAPE(1, 4, 3), HD_F32)), 0));
}

/* More steps than an op has inputs; as one run, and as two that hand the state on. */
static void long_sequences_go_on_where_they_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_lstm(2, 3, NULL);
    hd_tensor *x = hd_randn(HD_SHAPE(150, 2, 2), HD_F32);
    hd_tensors *whole = HD_FORWARD_ALL(m, x), *first = HD_FORWARD_ALL(m, hd_narrow(x, 0, 0, 70));
    hd_tensors *second = HD_FORWARD_ALL(m, hd_narrow(x, 0, 70, 80), hd_tensors_get(first, 1), hd_tensors_get(first, 2));
    assert_close(HD_CONCAT_OF(0, hd_tensors_get(first, 0), hd_tensors_get(second, 0)), hd_tensors_get(whole, 0), 1e-5,
                 1e-6);
    assert_close(hd_tensors_get(second, 2), hd_tensors_get(whole, 2), 1e-5, 1e-6);
}

static void what_lies_beyond_a_length_is_not_seen(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_gru(2, 3, OPTS(.bidirectional = true));
    hd_tensor *x = hd_randn(HD_SHAPE(4, 2, 2), HD_F32), *lengths = HD_TENSOR_I64(HD_SHAPE(2), 4, 2);
    hd_tensors *y = HD_FORWARD_ALL(m, x, lengths);
    hd_tensors *alone = HD_FORWARD_ALL(m, hd_narrow(hd_narrow(x, 1, 1, 1), 0, 0, 2));
    assert_close(hd_narrow(hd_narrow(hd_tensors_get(y, 0), 1, 1, 1), 0, 0, 2), hd_tensors_get(alone, 0), 1e-5, 1e-6);
    assert_close(hd_narrow(hd_tensors_get(y, 1), 1, 1, 1), hd_tensors_get(alone, 1), 1e-5, 1e-6);
    assert_same(hd_narrow(hd_narrow(hd_tensors_get(y, 0), 1, 1, 1), 0, 2, 2), hd_zeros(HD_SHAPE(2, 1, 6), HD_F32));
    hd_tensors *none = HD_FORWARD_ALL(m, x, HD_TENSOR_I64(HD_SHAPE(2), 0, 0));
    assert_same(hd_tensors_get(none, 1), hd_zeros(HD_SHAPE(2, 2, 3), HD_F32)); /* the state it began with */
}

static hd_tensor *run_of(hd_tensors *inputs, void *user) {
    hd_tensors *y = hd_forward_all(user, inputs);
    return hd_add(hd_sum(hd_square(hd_tensors_get(y, 0)), HD_AXES(), NULL),
                  hd_sum(hd_tensors_get(y, -1), HD_AXES(), NULL));
}

/* With those of an LSTM by way of c, of both directions, and where steps are not valid. */
static void gradients_have_gradients(void **state) {
    (void)state;
    hd_seed(4);
    HD_SCOPE;
    hd_tensor *lengths = HD_TENSOR_I64(HD_SHAPE(2), 3, 2);
    hd_module *lstm = hd_lstm(2, 2, OPTS(.dtype = HD_F64)),
              *gru = hd_gru(2, 2, OPTS(.bidirectional = true, .dtype = HD_F64)),
              *rnn = hd_rnn(2, 2, OPTS(.dtype = HD_F64));
    hd_tensor *x = hd_randn(HD_SHAPE(3, 2, 2), HD_F64), *h = hd_randn(HD_SHAPE(1, 2, 2), HD_F64),
              *c = hd_randn(HD_SHAPE(1, 2, 2), HD_F64), *both = hd_randn(HD_SHAPE(2, 2, 2), HD_F64);
    char why[256] = "";
    const hd_gradcheck_opts *opts = HD_OPTS(hd_gradcheck_opts, .second_order = true, .relative = 1e-4, .absolute = 1e-6,
                                            .explain = why, .explain_capacity = sizeof why);
    if (!hd_gradcheck(run_of, lstm, HD_TENSORS(x, h, c, lengths), opts))
        fail_msg("lstm: %s %s", why, hd_error_message());
    if (!hd_gradcheck(run_of, gru, HD_TENSORS(x, both, lengths), opts)) fail_msg("gru: %s %s", why, hd_error_message());
    if (!hd_gradcheck(run_of, rnn, HD_TENSORS(x, h), opts)) fail_msg("rnn: %s %s", why, hd_error_message());
    hd_clear_tape();
}

static void dropout_lies_between_layers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_rnn(2, 3, OPTS(.layers = 2, .dropout = 1));
    hd_tensor *x = hd_randn(HD_SHAPE(4, 2, 2), HD_F32), *y = hd_forward(m, x);
    assert_same(y, hd_forward(m, hd_zeros_like(x))); /* the second layer sees nothing of x */
    hd_module_eval(m);
    assert_false(hd_allclose(hd_forward(m, x), y, NULL));
    assert_ok();
    hd_module *one = hd_rnn(2, 3, OPTS(.dropout = 1));
    hd_seed(1);
    hd_tensor *before = hd_forward(one, x);
    hd_module_eval(one);
    assert_same(before, hd_forward(one, x));
}

static void models_with_one_compile(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_lstm(3, 4, OPTS(.layers = 2)), hd_gru(4, 2, NULL), hd_linear(2, 2, NULL));
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *x = hd_randn(HD_SHAPE(5, 2, 3), HD_F32), *y = hd_forward(model, x), *z = hd_forward(compiled, x);
    assert_close(y, z, 1e-5, 1e-6);
    hd_tensors *parameters = hd_module_parameters(model);
    hd_tensors *g = hd_grad_of(hd_sum(hd_square(y), HD_AXES(), NULL), parameters, NULL),
               *c = hd_grad_of(hd_sum(hd_square(z), HD_AXES(), NULL), parameters, NULL);
    assert_ok();
    for (int64_t i = 0; i < hd_tensors_count(parameters); ++i)
        assert_close(hd_tensors_get(g, i), hd_tensors_get(c, i), 1e-4, 1e-5);
}

static void run_some(void) {
    hd_module *m = hd_lstm(2, 2, OPTS(.layers = 2, .bidirectional = true));
    hd_tensor *x = hd_ones(HD_SHAPE(2, 1, 2), HD_F32);
    hd_tensors *y = HD_FORWARD_ALL(m, x, HD_TENSOR_I64(HD_SHAPE(1), 1));
    hd_grad_of(hd_sum(hd_tensors_get(y, 0), HD_AXES(), NULL), hd_module_parameters(m), NULL);
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(run_some, 20000);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_rnn(0, 3, NULL));
    assert_error(HD_ERROR_VALUE, "hd_rnn: input = 0, hidden = 3");
    assert_null(hd_lstm(2, 3, OPTS(.layers = -1)));
    assert_error(HD_ERROR_VALUE, "hd_lstm: input = 2, hidden = 3, -1 layers");
    assert_null(hd_gru(2, 3, OPTS(.dropout = 2)));
    assert_error(HD_ERROR_VALUE, "dropout 2");
    assert_null(hd_gru(2, 3, OPTS(.dtype = HD_I64)));
    assert_error(HD_ERROR_DTYPE, "hd_gru: a layer of i64");
    hd_module *lstm = hd_lstm(2, 3, NULL);
    hd_tensor *x = hd_ones(HD_SHAPE(4, 5, 2), HD_F32), *h = hd_ones(HD_SHAPE(1, 5, 3), HD_F32);
    assert_null(hd_forward(lstm, hd_ones(HD_SHAPE(4, 2), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "x [4,2]; it must be [t, n, 2]");
    assert_null(hd_forward(hd_rnn(2, 3, OPTS(.batch_first = true)), hd_ones(HD_SHAPE(4, 0, 2), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "x [4,0,2]; it must be [n, t, 2], with one step at least");
    assert_null(HD_FORWARD_ALL(lstm, x, h));
    assert_error(HD_ERROR_VALUE, "2 inputs; a lstm takes x, or x, h0 and c0, and lengths");
    assert_null(HD_FORWARD_ALL(lstm, x, h, x));
    assert_error(HD_ERROR_SHAPE, "c0 [4,5,2]; it must be [1,5,3]");
    assert_null(HD_FORWARD_ALL(lstm, x, HD_TENSOR_I64(HD_SHAPE(2), 1, 1)));
    assert_error(HD_ERROR_SHAPE, "lengths [2]; they are i64 [5]");
    assert_null(hd_forward(lstm, hd_ones(HD_SHAPE(4, 5, 2), HD_I64)));
    assert_error(HD_ERROR_DTYPE, "x is i64");
}

RUN(test(weights_have_names_and_bounds), test(forward_gives_the_sequence), test(long_sequences_go_on_where_they_were),
    test(what_lies_beyond_a_length_is_not_seen), test(gradients_have_gradients), test(dropout_lies_between_layers),
    test(models_with_one_compile), test(any_allocation_may_fail), test(bad_arguments))
