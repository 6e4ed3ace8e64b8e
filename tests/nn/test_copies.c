/* Copies of modules, values of one in another, dtypes, freezing, and tied weights. */
#include "differences.h"
#include "each_allocation.h"

#include <math.h>

static hd_module *compiled(hd_module *m) {
    return hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
}

/* A class with a state of its own, which is counted. */
typedef struct shift {
    double by;
    hd_tensor *calls; /* a buffer of the module */
} shift;
static int living;
static hd_tensor *shift_forward(hd_module *m, hd_tensor *x) {
    const shift *s = hd_module_state(m);
    HD_NO_GRAD;
    hd_add_(s->calls, hd_scalar(1, HD_F32));
    return hd_add_scalar(x, s->by);
}
static void shift_destroy(void *state) {
    --living;
    free(state);
}
static shift *new_state(double by, hd_tensor *calls) {
    shift *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (shift){by, calls};
    ++living;
    return s;
}
static void *shift_copy(hd_module *to, const hd_module *from) {
    const shift *s = hd_module_state(from);
    return new_state(s->by, hd_module_get(to, "calls"));
}
static const hd_module_class shift_class = {
    .name = "shift", .forward = shift_forward, .destroy = shift_destroy, .copy = shift_copy};
static hd_module *new_shift(double by) {
    hd_tensor *calls = hd_zeros(HD_SHAPE(), HD_F32);
    hd_module *m = hd_module_new(&shift_class, new_state(by, calls));
    hd_module_add_buffer(m, "calls", calls);
    return m;
}

/* Something of everything; the first and the last are one. */
static hd_module *everything(void) {
    hd_module *shared = hd_linear(4, 4, NULL);
    return HD_SEQUENTIAL(shared, hd_layer_norm_layer(HD_SHAPE(4), NULL), hd_elu_layer(0.5), new_shift(0.25),
                         hd_residual(hd_multihead_attention(4, 2, NULL)), hd_flatten_layer(-1, -1), hd_relu6_layer(),
                         shared);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */
static void a_copy_computes_the_same_and_is_trained_on_its_own(void **state) {
    (void)state;
    living = 0;
    {
        HD_SCOPE;
        hd_module *m = everything();
        hd_tensor *x = hd_randn(HD_SHAPE(3, 4), HD_F32);
        hd_backward(hd_forward(m, x));
        hd_clear_tape();
        hd_set_requires_grad(hd_module_get(m, "1.bias"), false);
        hd_module_eval(hd_module_child(m, "2"));
        hd_module *copy = hd_module_copy(m);
        assert_ok();
        assert_int_equal(hd_tape_length(), 0);
        assert_int_equal(living, 2);
        hd_tensors *ours = hd_module_parameters(copy), *theirs = hd_module_parameters(m);
        assert_int_equal(hd_tensors_count(ours), hd_tensors_count(theirs));
        for (int64_t i = 0; i < hd_tensors_count(ours); ++i) {
            hd_tensor *a = hd_tensors_get(ours, i), *b = hd_tensors_get(theirs, i);
            assert_ptr_not_equal(a, b);
            assert_string_equal(hd_module_parameter_name(copy, i), hd_module_parameter_name(m, i));
            assert_same(hd_detach(a), hd_detach(b));
            assert_int_equal(hd_tensor_requires_grad(a), hd_tensor_requires_grad(b));
            assert_false(hd_has_grad(a));
        }
        assert_ptr_equal(hd_module_child(copy, "0"), hd_module_child(copy, "7")); /* shared in it */
        assert_ptr_not_equal(hd_module_child(copy, "0"), hd_module_child(m, "0"));
        assert_false(hd_module_is_training(hd_module_child(copy, "2")));
        assert_true(hd_module_is_training(copy));
        hd_tensor *plain = hd_detach(hd_forward(m, x));
        assert_same(hd_detach(hd_forward(copy, x)), plain);
        assert_values(hd_module_get(copy, "3.calls"), HD_F32, 2); /* one was copied */
        assert_values(hd_module_get(m, "3.calls"), HD_F32, 2);
        hd_optimizer *o = hd_sgd(hd_module_parameters(copy), 0.1, NULL);
        hd_backward(hd_forward(copy, x));
        hd_optimizer_step(o);
        hd_clear_tape();
        assert_false(hd_allclose(hd_detach(hd_forward(copy, x)), plain, NULL));
        assert_same(hd_detach(hd_forward(m, x)), plain);
        hd_clear_tape();
        HD_NO_GRAD;
        assert_close(hd_forward(compiled(copy), x), hd_forward(copy, x), 1e-5, 1e-5);
        assert_ok();
    }
    assert_int_equal(living, 0);
}

/* Each layer of the library, with what it takes. */
static void all_layers_can_be_copied(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *image = hd_randn(HD_SHAPE(2, 4, 6, 6), HD_F32), *row = hd_randn(HD_SHAPE(3, 4), HD_F32);
    const hd_conv_layer_opts *conv = HD_OPTS(hd_conv_layer_opts, .groups = 2, .padding = {{1, 0}, {0, 2}});
    const hd_pool_opts *pool = HD_OPTS(hd_pool_opts, .stride = {2, 1});
    const struct {
        hd_module *layer;
        hd_tensor *x;
    } cases[] = {{hd_linear(4, 3, NULL), row},
                 {hd_conv_layer(4, 6, HD_SHAPE(3, 2), conv), image},
                 {hd_conv_transpose_layer(4, 6, HD_SHAPE(3, 2), NULL), image},
                 {hd_max_pool_layer(HD_SHAPE(2, 3), pool), image},
                 {hd_avg_pool_layer(HD_SHAPE(2, 3), pool), image},
                 {hd_adaptive_max_pool_layer(HD_SHAPE(2, 3)), image},
                 {hd_adaptive_avg_pool_layer(HD_SHAPE(2, 3)), image},
                 {hd_layer_norm_layer(HD_SHAPE(4), HD_OPTS(hd_norm_layer_opts, .eps = 0.1)), row},
                 {hd_rms_norm_layer(4, HD_OPTS(hd_norm_layer_opts, .eps = 0.1)), row},
                 {hd_multihead_attention(4, 2, HD_OPTS(hd_multihead_attention_opts, .causal = true)), row},
                 {hd_leaky_relu_layer(0.3), row},
                 {hd_elu_layer(1.5), row},
                 {hd_celu_layer(1.5), row},
                 {hd_softshrink_layer(0.4), row},
                 {hd_hardshrink_layer(0.4), row},
                 {hd_hardtanh_layer(-0.5, 0.75), row},
                 {hd_threshold_layer(0.5, 7), row},
                 {hd_softplus_layer(2, 3), row},
                 {hd_softmax_layer(0), row},
                 {hd_log_softmax_layer(0), row},
                 {hd_gelu_layer(), row},
                 {hd_flatten_layer(1, 2), image},
                 {hd_residual(hd_tanh_layer()), row}};
    HD_NO_GRAD;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        assert_same(hd_forward(hd_module_copy(cases[i].layer), cases[i].x), hd_forward(cases[i].layer, cases[i].x));
    assert_int_equal(hd_module_child_count(hd_module_copy(HD_MODULE_LIST(cases[0].layer, cases[1].layer))), 2);
    assert_ok();
}

static void a_copy_may_be_made_while_a_builder_records(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(2, 2, NULL), *copy;
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    copy = hd_module_copy(m);
    hd_builder_end(b);
    assert_same(hd_detach(hd_module_get(copy, "weight")), hd_detach(hd_module_get(m, "weight")));
    assert_ok();
}

static const hd_module_class without = {.name = "without", .forward = shift_forward};
static void *gives_nothing(hd_module *to, const hd_module *from) { return (void)to, (void)from, NULL; }
static void *fails(hd_module *to, const hd_module *from) { return (void)from, (void)hd_module_get(to, "none"), NULL; }
static hd_tensor *passes(hd_tensor *x, void *user) { return (void)user, x; }
static void takes(void *user) { ++*(int *)user; }

static void what_cannot_be_copied_is_an_error_that_names_it(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class nothing = {.name = "nothing", .forward = shift_forward, .copy = gives_nothing},
                                 failing = {.name = "failing", .forward = shift_forward, .copy = fails};
    int some = 0;
    hd_module *m = HD_SEQUENTIAL(hd_relu_layer(), hd_module_new(&without, &some));
    assert_null(hd_module_copy(m));
    assert_error(HD_ERROR_STATE, "hd_module_copy: a \"without\" cannot be copied: its class has a state, and no copy");
    assert_null(hd_module_copy(hd_module_new(&nothing, &some)));
    assert_error(HD_ERROR_MEMORY, "hd_module_copy: no memory for the state of a nothing");
    assert_null(hd_module_copy(hd_module_new(&failing, &some)));
    assert_error(HD_ERROR_VALUE, "no parameter or buffer \"none\"");
    assert_null(hd_module_copy(compiled(m)));
    assert_error(HD_ERROR_STATE, "a \"compiled\" cannot be copied");
    assert_null(hd_module_copy(hd_function_layer(passes, &some, takes)));
    assert_error(HD_ERROR_STATE, "hd_module_copy: a function layer that owns what its function is given");
    assert_int_equal(some, 0);
    assert_non_null(hd_module_copy(hd_function_layer(passes, &some, NULL)));
    assert_non_null(hd_module_copy(hd_module_new(&without, NULL))); /* no state */
    assert_ok();
    assert_null(hd_module_copy(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_copy: `module` is NULL");
}

/* ---- values ------------------------------------------------------------------------------------------------------ */
static hd_module *small(double value) {
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 1, HD_OPTS(hd_linear_opts, .no_bias = true)));
    hd_init_constant(hd_module_get(m, "0.weight"), value);
    hd_module_add_buffer(m, "count", hd_full(HD_SHAPE(), HD_I64, value));
    hd_module_add_buffer(m, "mean", hd_full(HD_SHAPE(1), HD_F32, value));
    return m;
}

static void values_are_assigned_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *a = small(1), *b = small(4),
              *wide = HD_SEQUENTIAL(hd_linear(2, 1, HD_OPTS(hd_linear_opts, .no_bias = true, .dtype = HD_F64)));
    hd_module_add_buffer(wide, "mean", hd_full(HD_SHAPE(1), HD_F32, 9)); /* in another order */
    hd_module_add_buffer(wide, "count", hd_full(HD_SHAPE(), HD_I64, 9));
    hd_tensor *weight = hd_module_get(a, "0.weight");
    hd_module_assign(a, b);
    assert_int_equal(hd_tape_length(), 0);
    assert_ptr_equal(hd_module_get(a, "0.weight"), weight);
    assert_values(weight, HD_F32, 4, 4);
    assert_values(hd_module_get(a, "count"), HD_I64, 4);
    assert_values(hd_module_get(a, "mean"), HD_F32, 4);
    assert_true(hd_tensor_requires_grad(weight));
    hd_module_assign(wide, a);
    assert_values(hd_module_get(wide, "0.weight"), HD_F64, 4, 4);
    hd_module_assign(a, a);
    assert_values(weight, HD_F32, 4, 4);
    assert_ok();
}

static void averages_move_parameters_and_take_buffers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *a = small(1), *b = small(5);
    hd_module_average(a, b, 0.75);
    assert_int_equal(hd_tape_length(), 0);
    assert_values(hd_module_get(a, "0.weight"), HD_F32, 2, 2);
    assert_values(hd_module_get(a, "count"), HD_I64, 5);
    assert_values(hd_module_get(a, "mean"), HD_F32, 5);
    hd_module_average(a, b, 1);
    assert_values(hd_module_get(a, "0.weight"), HD_F32, 2, 2);
    hd_module_average(a, b, 0);
    assert_values(hd_module_get(a, "0.weight"), HD_F32, 5, 5);
    assert_true(hd_tensor_requires_grad(hd_module_get(a, "0.weight")));
    assert_ok();
    static const double wrong[] = {-0.1, 1.1, NAN};
    for (int i = 0; i < 3; ++i) {
        hd_module_average(a, b, wrong[i]);
        assert_error(HD_ERROR_VALUE, "hd_module_average: a decay of ");
    }
}

/* The average is part of a step that a script takes. */
static void a_builder_records_averages(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *average = small(0), *model = small(8);
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state_of(b, average, NULL);
    hd_builder_add_state_of(b, model, NULL);
    hd_tensor *weight = hd_module_get(model, "0.weight");
    {
        HD_NO_GRAD;
        hd_assign(weight, hd_mul_scalar(weight, 2));
    }
    hd_module_average(average, model, 0.5);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    assert_values(hd_module_get(average, "0.weight"), HD_F32, 0, 0);
    hd_script_run(s);
    assert_values(hd_module_get(average, "0.weight"), HD_F32, 8, 8);
    hd_script_run(s);
    assert_values(hd_module_get(average, "0.weight"), HD_F32, 20, 20);
    assert_values(hd_module_get(average, "count"), HD_I64, 8);
    assert_ok();
}

static void modules_that_differ_are_errors_and_nothing_is_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *a = small(1), *b = small(2), *more = small(2);
    hd_module_add_buffer(more, "more", hd_zeros(HD_SHAPE(), HD_F32));
    hd_module *other = HD_SEQUENTIAL(hd_linear(3, 1, HD_OPTS(hd_linear_opts, .no_bias = true)));
    hd_module_assign(a, more);
    assert_error(HD_ERROR_VALUE, "hd_module_assign: 3 buffers are read, and 2 written; both modules have the same");
    hd_module_assign(more, b);
    assert_error(HD_ERROR_VALUE, "hd_module_assign: the module sequential has no parameter or buffer \"more\"");
    hd_module_average(a, other, 0.5);
    assert_error(HD_ERROR_SHAPE, "hd_module_average: \"0.weight\" is [1,2], and [1,3] in the module that is read");
    assert_values(hd_module_get(a, "0.weight"), HD_F32, 1, 1);
    assert_values(hd_module_get(more, "mean"), HD_F32, 2);
    hd_module_assign(NULL, a);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_assign: `to` is NULL");
    hd_module_assign(a, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_assign: `from` is NULL");
    hd_module_average(NULL, a, 0.5);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_average: `to` is NULL");
    hd_module_average(a, NULL, 0.5);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_average: `from` is NULL");
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */
static void a_module_goes_to_another_dtype_and_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = small(3), *c = compiled(m);
    hd_tensor *weight = hd_module_get(m, "0.weight"), *x = hd_ones(HD_SHAPE(1, 2), HD_F32);
    hd_backward(hd_forward(c, x));
    hd_clear_tape();
    hd_tensors *y = HD_TENSORS(hd_forward(m, x)); /* on the tape, with what was there */
    hd_module_to_dtype(m, HD_F64);
    assert_ok();
    assert_ptr_equal(hd_module_get(m, "0.weight"), weight);
    assert_values(weight, HD_F64, 3, 3);
    assert_true(hd_tensor_requires_grad(weight));
    assert_values(hd_grad(weight), HD_F64, 1, 1);
    assert_values(hd_module_get(m, "mean"), HD_F64, 3);
    assert_values(hd_module_get(m, "count"), HD_I64, 3); /* integers stay */
    assert_int_equal(hd_tensors_count(y), 1);
    hd_clear_tape();
    hd_tensor *wide = hd_full(HD_SHAPE(1, 2), HD_F64, 2);
    assert_values(hd_forward(m, wide), HD_F64, 12);
    assert_values(hd_forward(c, wide), HD_F64, 12); /* captured anew */
    hd_zero_grad(weight);
    hd_backward(hd_forward(c, wide));
    assert_values(hd_grad(weight), HD_F64, 2, 2);
    hd_clear_tape();
    hd_module_to_dtype(m, HD_F16);
    assert_values(weight, HD_F16, 3, 3);
    hd_module_to_dtype(m, HD_F32);
    hd_optimizer *o = hd_adam(hd_module_parameters(m), 0.5, NULL);
    hd_zero_grad(weight);
    hd_backward(hd_forward(m, x));
    hd_optimizer_step(o);
    assert_close(hd_detach(weight), hd_full(HD_SHAPE(1, 2), HD_F32, 2.5), 1e-5, 0);
    assert_ok();
}

static void wrong_dtypes_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = small(3);
    hd_module_to_dtype(m, HD_I32);
    assert_error(HD_ERROR_DTYPE, "hd_module_to_dtype: a module of i32; parameters are floats");
    hd_module_to_dtype(NULL, HD_F64);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_to_dtype: `module` is NULL");
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_module_to_dtype(m, HD_F64);
    assert_error(HD_ERROR_STATE, "hd_module_to_dtype: a builder records");
    hd_builder_end(b);
    assert_values(hd_module_get(m, "0.weight"), HD_F32, 3, 3);
}

/* ---- freezing ---------------------------------------------------------------------------------------------------- */
static void frozen_parameters_have_no_gradients(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *first = hd_linear(2, 2, NULL), *last = hd_linear(2, 2, NULL), *m = HD_SEQUENTIAL(first, last);
    hd_module *c = compiled(m);
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2), HD_F32);
    for (int round = 0; round < 2; ++round) {
        hd_module *f = round == 0 ? m : c;
        hd_module_freeze(first);
        assert_false(hd_tensor_requires_grad(hd_module_get(first, "weight")));
        hd_backward(hd_forward(f, x));
        assert_false(hd_has_grad(hd_module_get(first, "weight")));
        assert_true(hd_has_grad(hd_module_get(last, "weight")));
        hd_clear_tape();
        hd_module_unfreeze(m);
        hd_backward(hd_forward(f, x));
        assert_true(hd_has_grad(hd_module_get(first, "weight")));
        hd_clear_tape();
        hd_set_grad(hd_module_get(first, "weight"), NULL);
        hd_set_grad(hd_module_get(last, "weight"), NULL);
    }
    hd_module_freeze(m);
    assert_false(hd_tensor_requires_grad(hd_forward(m, x)));
    assert_false(hd_tensor_requires_grad(hd_forward(c, x)));
    assert_ok();
    hd_module_freeze(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_freeze: `module` is NULL");
    hd_module_unfreeze(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_unfreeze: `module` is NULL");
}

/* ---- tied weights ------------------------------------------------------------------------------------------------ */
static hd_tensor *reads_out(hd_module *m, hd_tensor *x) { /* an embedding's weight, read the other way round */
    return hd_matmul(x, hd_transpose(hd_module_get(m, "tied"), 0, 1));
}
static const hd_module_class readout = {.name = "readout", .forward = reads_out};
static hd_module *tied(void) {
    hd_seed(5);
    hd_module *first = hd_linear(3, 3, HD_OPTS(hd_linear_opts, .no_bias = true));
    hd_module *last = hd_module_new(&readout, NULL);
    hd_module_add_parameter(last, "tied", hd_module_get(first, "weight"));
    return HD_SEQUENTIAL(first, hd_tanh_layer(), last);
}

static void tied_weights_are_one_parameter_everywhere(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_randn(HD_SHAPE(4, 3), HD_F32), *after[3];
    for (int way = 0; way < 3; ++way) { /* plain, compiled, a script of whole steps */
        hd_module *m = tied(), *f = way == 1 ? compiled(m) : m;
        assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 1);
        assert_string_equal(hd_module_parameter_name(m, 0), "0.weight");
        assert_ptr_equal(hd_module_get(m, "2.tied"), hd_module_get(m, "0.weight"));
        hd_optimizer *o = hd_sgd(hd_module_parameters(m), 0.1, NULL);
        hd_builder *b = hd_builder_new("step");
        if (way == 2) {
            hd_builder_start(b);
            hd_builder_add_state_of(b, m, o);
        }
        for (int step = 0; step < (way == 2 ? 1 : 3); ++step) {
            hd_backward(hd_forward(f, x));
            hd_optimizer_step(o);
            hd_optimizer_zero_grad(o);
        }
        if (way == 2) {
            hd_builder_end(b);
            hd_script *s = hd_builder_build(b);
            for (int step = 0; step < 3; ++step) hd_script_run(s);
        }
        after[way] = hd_detach(hd_module_get(m, "2.tied"));
        hd_module *copy = hd_module_copy(m); /* they are tied in a copy, too */
        assert_ptr_equal(hd_module_get(copy, "2.tied"), hd_module_get(copy, "0.weight"));
        assert_ok();
    }
    assert_close(after[1], after[0], 1e-5, 1e-6);
    assert_close(after[2], after[0], 1e-5, 1e-6);
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */
static void copies_and_averages(void) {
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_elu_layer(2), hd_multihead_attention(2, 1, NULL));
    hd_module *copy = hd_module_copy(m);
    hd_module_average(copy, m, 0.5);
    hd_module_to_dtype(copy, HD_F64);
    hd_module_assign(m, copy);
    hd_module_freeze(m);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("a device's driver has its own memory");
    each_allocation_fails(copies_and_averages, 1000);
}

RUN(test(a_copy_computes_the_same_and_is_trained_on_its_own), test(a_copy_may_be_made_while_a_builder_records),
    test(all_layers_can_be_copied), test(what_cannot_be_copied_is_an_error_that_names_it),
    test(values_are_assigned_by_name), test(averages_move_parameters_and_take_buffers),
    test(a_builder_records_averages), test(modules_that_differ_are_errors_and_nothing_is_written),
    test(a_module_goes_to_another_dtype_and_back), test(wrong_dtypes_are_errors),
    test(frozen_parameters_have_no_gradients), test(tied_weights_are_one_parameter_everywhere),
    test(each_allocation_may_fail))
