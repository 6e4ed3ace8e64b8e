/* hd_compile and hd_builder_add_state_of. */
#include "differences.h"

typedef struct net {
    hd_module *model;
    hd_tensor *x, *y;
} net;

/* A module with a draw inside, and a buffer that counts the calls. */
static hd_tensor *noise_forward(hd_module *m, hd_tensor *x) {
    if (!hd_module_is_training(m)) return x;
    hd_tensor *calls = hd_module_get(m, "calls");
    {
        HD_NO_GRAD;
        hd_assign(calls, hd_add_scalar(calls, 1));
    }
    return hd_mul(x, hd_bernoulli(hd_tensor_shape(x), HD_F32, 0.7));
}
static const hd_module_class noise_class = {.name = "noise", .forward = noise_forward};
static hd_module *noise(void) {
    hd_module *m = hd_module_new(&noise_class, NULL);
    hd_module_add_buffer(m, "calls", hd_zeros(HD_SHAPE(), HD_F32));
    return m;
}

static net make(uint64_t seed) {
    hd_seed(seed);
    net n;
    n.model = HD_SEQUENTIAL(hd_linear(3, 8, NULL), hd_gelu_layer(), noise(), hd_linear(8, 2, NULL));
    n.x = hd_randn(HD_SHAPE(5, 3), HD_F32);
    n.y = hd_randn(HD_SHAPE(5, 2), HD_F32);
    return n;
}

/* Two layers forward and back are some ten roundings of one size, of which few fall otherwise. */
enum { MODEL_UNITS = 2 };

static hd_module *graph_of(hd_module *model, hd_optimization_level level) {
    return hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = level));
}

/* What a compiled model gives after so many steps of training, against the plain one. */
static void agrees(hd_tensor *compiled, hd_tensor *plain, hd_optimization_level level, int steps) {
    compiled = hd_detach(compiled);
    plain = hd_detach(plain);
    if (level == HD_O0)
        assert_identical(compiled, plain);
    else
        assert_within_units(compiled, plain, MODEL_UNITS + steps);
}
static hd_tensor *gradient(hd_module *m, const char *name) { return hd_grad(hd_module_get(m, name)); }

static void training_is_that_of_the_plain_model(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_optimization_level levels[] = {HD_O0, HD_O1, HD_O2};
    for (int l = 0; l < 3; ++l) {
        HD_SCOPE;
        net a = make(7), b = make(7);
        hd_module *compiled = graph_of(b.model, levels[l]);
        hd_optimizer *oa = hd_adam(hd_module_parameters(a.model), 0.01, NULL);
        hd_optimizer *ob = hd_adam(hd_module_parameters(compiled), 0.01, NULL);
        for (int step = 0; step < 20; ++step) {
            HD_SCOPE;
            hd_seed(100 + (uint64_t)step);
            hd_tensor *la = hd_mse(hd_forward(a.model, a.x), a.y, NULL);
            hd_backward(la);
            hd_seed(100 + (uint64_t)step);
            hd_tensor *lb = hd_mse(hd_forward(compiled, b.x), b.y, NULL);
            hd_backward(lb);
            agrees(lb, la, levels[l], step);
            agrees(gradient(b.model, "0.weight"), gradient(a.model, "0.weight"), levels[l], step);
            hd_optimizer_step(oa);
            hd_optimizer_step(ob);
            hd_optimizer_zero_grad(oa);
            hd_optimizer_zero_grad(ob);
        }
        agrees(hd_module_get(b.model, "3.bias"), hd_module_get(a.model, "3.bias"), levels[l], 20);
        assert_values(hd_module_get(b.model, "2.calls"), HD_F32, 20);
        assert_int_equal(hd_compile_stats(compiled).captures, 1);
        assert_int_equal(hd_compile_stats(compiled).hits, 19);
        assert_ok();
    }
}

static void two_forwards_before_one_backward(void **state) {
    (void)state;
    HD_SCOPE;
    net a = make(3), b = make(3);
    hd_module *compiled = graph_of(b.model, HD_O1);
    hd_seed(1);
    hd_tensor *a1 = hd_forward(a.model, a.x), *a2 = hd_forward(a.model, hd_mul_scalar(a.x, 2));
    hd_backward(hd_add(hd_sum(hd_square(a1), HD_AXES(), NULL), hd_sum(a2, HD_AXES(), NULL)));
    hd_clear_tape();
    hd_seed(1);
    hd_tensor *b1 = hd_forward(compiled, b.x), *b2 = hd_forward(compiled, hd_mul_scalar(b.x, 2));
    hd_backward(hd_add(hd_sum(hd_square(b1), HD_AXES(), NULL), hd_sum(b2, HD_AXES(), NULL)));
    agrees(gradient(b.model, "0.weight"), gradient(a.model, "0.weight"), HD_O1, 0);
    agrees(gradient(b.model, "3.weight"), gradient(a.model, "3.weight"), HD_O1, 0);
    assert_int_equal(hd_tape_length(), 2 + 4); /* two calls of the model; square, two sums and an add outside */
    assert_ok();
}

static void gradients_reach_the_input_through_several_models(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_module *first = hd_linear(3, 4, NULL), *second = hd_linear(4, 2, NULL);
    hd_module *f = graph_of(first, HD_O1), *g = graph_of(second, HD_O1);
    hd_tensor *x = hd_param(hd_randn(HD_SHAPE(6, 3), HD_F32));
    hd_backward(hd_sum(hd_square(hd_forward(second, hd_tanh(hd_forward(first, x)))), HD_AXES(), NULL));
    hd_tensor *plain = hd_copy(hd_grad(x)), *weight = hd_copy(hd_grad(hd_module_get(first, "weight")));
    hd_zero_grad(x);
    hd_zero_grad(hd_module_get(first, "weight"));
    hd_clear_tape();
    hd_backward(hd_sum(hd_square(hd_forward(g, hd_tanh(hd_forward(f, x)))), HD_AXES(), NULL));
    assert_close(hd_grad(x), plain, 1e-6, 1e-7);
    assert_close(hd_grad(hd_module_get(first, "weight")), weight, 1e-6, 1e-6);
    assert_ok();
}

static void evaluation_has_no_tape_and_leaves_the_flag(void **state) {
    (void)state;
    HD_SCOPE;
    net n = make(9);
    hd_module *compiled =
        hd_compile(n.model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION));
    hd_tensor *y = hd_forward(compiled, n.x);
    assert_true(hd_module_is_training(n.model));
    assert_false(hd_tensor_requires_grad(y));
    assert_int_equal(hd_tape_length(), 0);
    assert_values(hd_module_get(n.model, "2.calls"), HD_F32, 0);
    hd_module_eval(n.model);
    HD_NO_GRAD;
    agrees(y, hd_forward(n.model, n.x), HD_O1, 0);
    /* parameters are read as they are at each call */
    hd_fill(hd_module_get(n.model, "3.weight"), 0);
    hd_fill(hd_module_get(n.model, "3.bias"), 0.5);
    assert_values(hd_sum(hd_forward(compiled, n.x), HD_AXES(), NULL), HD_F32, 5);
    assert_int_equal(hd_compile_stats(compiled).captures, 1);
    assert_ok();
}

static void the_eager_backend_runs_the_model_as_it_is(void **state) {
    (void)state;
    HD_SCOPE;
    net n = make(2);
    hd_module *same = hd_compile(n.model, NULL);
    hd_seed(4);
    hd_tensor *a = hd_forward(same, n.x);
    hd_seed(4);
    assert_same(a, hd_forward(n.model, n.x));
    assert_true(hd_tensor_requires_grad(a));
    hd_module *evaluated = hd_compile(n.model, HD_OPTS(hd_compile_opts, .mode = HD_MODE_EVALUATION));
    assert_false(hd_tensor_requires_grad(hd_forward(evaluated, n.x)));
    assert_true(hd_module_is_training(n.model));
    assert_ok();
}

static void graphs_are_kept_by_kind_and_the_oldest_goes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_module *model = hd_linear(3, 2, NULL);
    hd_module *c = hd_compile(
        model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION, .cache_limit = 2));
    for (int round = 0; round < 2; ++round)
        for (int64_t rows = 1; rows <= 3; ++rows) {
            HD_SCOPE;
            hd_tensor *x = hd_randn(HD_SHAPE(rows, 3), HD_F32);
            HD_NO_GRAD;
            agrees(hd_forward(c, x), hd_forward(model, x), HD_O1, 0);
        }
    const hd_compile_figures f = hd_compile_stats(c);
    assert_int_equal(f.captures, 6);
    assert_int_equal(f.evictions, 4);
    assert_int_equal(f.entries, 2);
    hd_forward(c, hd_randn(HD_SHAPE(3, 3), HD_F32));
    assert_int_equal(hd_compile_stats(c).hits, 1);
    /* freezing a parameter is another kind */
    hd_module *t = graph_of(model, HD_O1);
    hd_tensor *x = hd_randn(HD_SHAPE(4, 3), HD_F32);
    hd_backward(hd_forward(t, x));
    hd_clear_tape();
    hd_set_requires_grad(hd_module_get(model, "bias"), false);
    hd_zero_grad(hd_module_get(model, "weight"));
    hd_backward(hd_forward(t, x));
    assert_int_equal(hd_compile_stats(t).captures, 2);
    assert_ok();
}

static hd_tensor *reads_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    return hd_mul_scalar(x, hd_item(hd_sum(x, HD_AXES(), NULL)));
}
static const hd_module_class reads_class = {.name = "reads", .forward = reads_forward};

/* y = x + all parameters. */
static hd_tensor *total_forward(hd_module *m, hd_tensor *x) {
    hd_tensors *all = hd_module_parameters(m);
    for (int64_t i = 0; i < hd_tensors_count(all); ++i) x = hd_add(x, hd_tensors_get(all, i));
    return x;
}

/* Parameters and modules may be added, and frozen, between calls; other models do not matter. */
static void a_model_that_changes_is_captured_anew(void **state) {
    (void)state;
    static const hd_module_class total = {.name = "total", .forward = total_forward};
    for (int evaluation = 0; evaluation < 2; ++evaluation) {
        HD_SCOPE;
        hd_module *m = hd_module_new(&total, NULL), *inner = hd_module_new(&total, NULL);
        hd_module_add(m, "inner", inner);
        hd_tensor *first = hd_module_add_parameter(m, "first", hd_ones(HD_SHAPE(2), HD_F32)), *second;
        hd_module *compiled = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH,
                                                    .mode = evaluation ? HD_MODE_EVALUATION : HD_MODE_TRAINING));
        hd_tensor *x = hd_zeros(HD_SHAPE(2), HD_F32);
        assert_values(hd_forward(compiled, x), HD_F32, 1, 1);
        hd_linear(3, 3, NULL); /* no part of it */
        assert_values(hd_forward(compiled, x), HD_F32, 1, 1);
        assert_int_equal(hd_compile_stats(compiled).captures, 1);
        second = hd_module_add_parameter(inner, "second", hd_full(HD_SHAPE(2), 10, HD_F32));
        hd_tensor *y = hd_forward(compiled, x);
        assert_values(y, HD_F32, 11, 11);
        assert_int_equal(hd_compile_stats(compiled).captures, 2);
        if (evaluation) continue;
        hd_backward(hd_sum(y, HD_AXES(), NULL));
        assert_values(hd_grad(first), HD_F32, 1, 1);
        assert_values(hd_grad(second), HD_F32, 1, 1);
        hd_set_requires_grad(first, false);
        hd_set_grad(second, NULL);
        hd_backward(hd_sum(hd_forward(compiled, x), HD_AXES(), NULL));
        assert_values(hd_grad(second), HD_F32, 1, 1);
        assert_int_equal(hd_compile_stats(compiled).captures, 3);
    }
}

static void what_cannot_be_captured_is_an_error_and_the_thread_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *c = hd_compile(hd_module_new(&reads_class, NULL),
                              HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION));
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_forward(c, x));
    assert_error(HD_ERROR_STATE, "hd_sum");
    assert_values(hd_add(x, x), HD_F32, 2, 2); /* eager again */
    assert_int_equal(hd_compile_stats(c).entries, 0);
}

static void wrong_options_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(2, 1, NULL);
    hd_compile(NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_compile: `model` is NULL");
    hd_compile(m, HD_OPTS(hd_compile_opts, .optimization_level = HD_O2));
    assert_error(HD_ERROR_VALUE, "HD_BACKEND_GRAPH");
    hd_compile(m, HD_OPTS(hd_compile_opts, .backend = (hd_backend)HD_COMPILER_XLA));
    assert_error(HD_ERROR_VALUE, "is no backend");
    hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = (hd_compiler)HD_BACKEND_GRAPH));
    assert_error(HD_ERROR_VALUE, "is no compiler");
    hd_compile(m, HD_OPTS(hd_compile_opts, .mode = (hd_mode)1));
    assert_error(HD_ERROR_VALUE, "is no mode");
    hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .cache_limit = -1));
    assert_error(HD_ERROR_VALUE, "cache");
    hd_compile_stats(m);
    assert_error(HD_ERROR_STATE, "hd_compile_stats: ");
}

static void second_derivatives_through_it_and_changed_parameters_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(2, 1, NULL), *c = graph_of(m, HD_O1);
    hd_tensor *w = hd_module_get(m, "weight"), *x = hd_ones(HD_SHAPE(3, 2), HD_F32);
    hd_tensor *y = hd_forward(c, x);
    hd_grad_of(y, HD_TENSORS(w), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_error(HD_ERROR_STATE, "a compiled model");
    {
        HD_NO_GRAD;
        hd_fill(w, 2);
    }
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "changed in place");
}

static void the_state_of_a_model_and_its_optimizer_in_one_call(void **state) {
    (void)state;
    HD_SCOPE;
    net a = make(11), b = make(11);
    hd_optimizer *oa = hd_adam(hd_module_parameters(a.model), 0.01, NULL);
    hd_optimizer *ob = hd_adam(hd_module_parameters(b.model), 0.01, NULL);
    hd_builder *builder = hd_builder_new("step");
    hd_builder_start(builder);
    hd_builder_add_state_of(builder, b.model, ob);
    hd_tensor *x = hd_input("x", HD_SHAPE(5, 3), HD_F32), *y = hd_input("y", HD_SHAPE(5, 2), HD_F32);
    hd_tensor *loss = hd_mse(hd_forward(b.model, x), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(ob);
    hd_builder_add_output(builder, "loss", loss);
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    hd_script_set_input(s, "x", b.x);
    hd_script_set_input(s, "y", b.y);
    assert_ok();
    assert_values(hd_optimizer_steps(ob), HD_F64, 0); /* recording did nothing */
    for (int step = 0; step < 10; ++step) {
        HD_SCOPE;
        if (step == 5) { /* a schedule: the learning rate is state */
            hd_optimizer_set_learning_rate(oa, 0.002);
            hd_optimizer_set_learning_rate(ob, 0.002);
        }
        hd_seed((uint64_t)step);
        hd_tensor *plain = hd_mse(hd_forward(a.model, a.x), a.y, NULL);
        hd_backward(plain);
        hd_optimizer_step(oa);
        hd_optimizer_zero_grad(oa);
        hd_seed((uint64_t)step);
        agrees(hd_outputs_get(hd_script_run(s), "loss"), plain, HD_O1, step);
    }
    agrees(hd_module_get(b.model, "0.weight"), hd_module_get(a.model, "0.weight"), HD_O1, 10);
    assert_values(hd_optimizer_steps(ob), HD_F64, 10);
    assert_values(hd_script_state(s, "optimizer.steps"), HD_F64, 10);
    assert_values(hd_module_get(b.model, "2.calls"), HD_F32, 10);
    assert_ok();
}

RUN(test(training_is_that_of_the_plain_model), test(two_forwards_before_one_backward),
    test(gradients_reach_the_input_through_several_models), test(evaluation_has_no_tape_and_leaves_the_flag),
    test(the_eager_backend_runs_the_model_as_it_is), test(graphs_are_kept_by_kind_and_the_oldest_goes),
    test(a_model_that_changes_is_captured_anew), test(what_cannot_be_captured_is_an_error_and_the_thread_goes_on),
    test(wrong_options_are_errors), test(second_derivatives_through_it_and_changed_parameters_are_errors),
    test(the_state_of_a_model_and_its_optimizer_in_one_call))
