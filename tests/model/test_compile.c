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

/* Parts may be in evaluation while the model trains, and the other way round: evaluation is of all, and leaves each as
 * it was. */
static void evaluation_leaves_every_flag(void **state) {
    (void)state;
    const hd_backend backends[] = {HD_BACKEND_EAGER, HD_BACKEND_GRAPH};
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        const bool whole = i < 2; /* the model trains, its first part does not; or the other way round */
        hd_module *first = noise(), *second = noise(), *model = HD_SEQUENTIAL(first, second);
        hd_module *c =
            hd_compile(model, HD_OPTS(hd_compile_opts, .backend = backends[i % 2], .mode = HD_MODE_EVALUATION));
        if (!whole) hd_module_eval(model);
        if (whole)
            hd_module_eval(first);
        else
            hd_module_train(first);
        hd_tensor *x = hd_randn(HD_SHAPE(3, 4), HD_F32);
        assert_identical(hd_forward(c, x), x);
        assert_identical(hd_forward(c, x), x);
        assert_int_equal(hd_module_is_training(model), whole);
        assert_int_equal(hd_module_is_training(first), !whole);
        assert_int_equal(hd_module_is_training(second), whole);
        assert_values(hd_module_get(model, "0.calls"), HD_F32, 0);
        assert_ok();
    }
}

/* Which parts are in training is part of what a graph is for. */
static void flags_of_parts_count(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *part = noise(), *model = HD_SEQUENTIAL(hd_linear(3, 4, NULL), part);
    hd_module *c = graph_of(model, HD_O0);
    hd_tensor *x = hd_randn(HD_SHAPE(2, 3), HD_F32);
    for (int round = 0; round < 4; ++round) {
        if (round % 2 == 1)
            hd_module_eval(part);
        else
            hd_module_train(part);
        hd_seed(8);
        hd_tensor *plain = hd_forward(model, x);
        hd_seed(8);
        assert_identical(hd_detach(hd_forward(c, x)), hd_detach(plain));
    }
    assert_int_equal(hd_compile_stats(c).captures, 2);
    assert_int_equal(hd_compile_stats(c).hits, 2);
    assert_values(hd_module_get(model, "1.calls"), HD_F32, 4); /* of both */
}

/* As is the dtype that the thread computes in by default. */
static hd_tensor *halves_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    return hd_div_scalar(x, 2);
}
static void the_default_dtype_counts(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class halves = {.name = "halves", .forward = halves_forward};
    hd_module *c = graph_of(hd_module_new(&halves, NULL), HD_O1);
    hd_tensor *x = HD_TENSOR_I64(HD_SHAPE(2), 1, 2);
    assert_values(hd_forward(c, x), HD_F32, 0.5, 1);
    hd_set_default_dtype(HD_F64);
    hd_tensor *wide = hd_forward(c, x);
    hd_set_default_dtype(HD_F32);
    assert_values(wide, HD_F64, 0.5, 1);
    assert_values(hd_forward(c, x), HD_F32, 0.5, 1);
}

static void the_precision_of_products_counts(void **state) {
    (void)state;
    HD_SCOPE;
    net n = make(2);
    hd_module *c = graph_of(n.model, HD_O1);
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32);
    hd_forward(c, x);
    hd_set_matmul_precision(HD_MATMUL_TF32);
    hd_forward(c, x);
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    hd_forward(c, x);
    assert_ok();
    assert_int_equal(hd_compile_stats(c).captures, 2);
    assert_int_equal(hd_compile_stats(c).hits, 1);
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

enum { READING_LINE = __LINE__ + 3 };
static hd_tensor *reads_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    HD_SCOPE;
    return hd_keep(hd_mul_scalar(x, hd_item(hd_sum(x, HD_AXES(), NULL))));
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
        second = hd_module_add_parameter(inner, "second", hd_full(HD_SHAPE(2), HD_F32, 10));
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
    hd_module *m = hd_module_new(&reads_class, NULL);
    hd_module *c = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = HD_MODE_EVALUATION));
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_forward(c, x));
    char place[64];
    snprintf(place, sizeof place, "test_compile.c:%d", READING_LINE);
    if (strstr(hd_error_place(), place) == NULL) fail_msg("%s is not in \"%s\"", place, hd_error_place());
    assert_string_equal(hd_error_call(), "hd_item");
    assert_error(HD_ERROR_STATE, "hd_item: the value of this tensor (hd_sum, recorded by builder \"compiled\")");
    assert_values(hd_add(x, x), HD_F32, 2, 2); /* eager again */
    assert_int_equal(hd_compile_stats(c).entries, 0);
    assert_true(hd_module_is_training(m)); /* evaluation is over, too */
    hd_module *narrow = graph_of(hd_linear(3, 1, NULL), HD_O1);
    assert_null(hd_forward(narrow, x));
    assert_error(HD_ERROR_SHAPE, "(while hd_compile captures the model)");
    hd_forward(c, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_forward:"); /* the call's own name again */
}

/* What a model writes and does not hold, a run would leave as it is. */
static hd_tensor *written; /* NULL: the input */
static hd_tensor *writes_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    hd_add_(written != NULL ? written : x, hd_scalar(1, HD_F32));
    return hd_mul_scalar(x, 2);
}
static hd_tensor *nothing_forward(hd_module *m, hd_tensor *x) {
    (void)m, (void)x;
    return NULL;
}
static void writing_what_it_does_not_hold_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class writes = {.name = "writes", .forward = writes_forward},
                                 nothing = {.name = "nothing", .forward = nothing_forward};
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32), *count = hd_zeros(HD_SHAPE(3), HD_F32);
    for (int mode = HD_MODE_TRAINING; mode <= HD_MODE_EVALUATION; ++mode) {
        hd_module *m = hd_module_new(&writes, NULL);
        hd_module *c = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .mode = (hd_mode)mode));
        written = NULL;
        assert_null(hd_forward(c, x));
        assert_error(HD_ERROR_STATE, "hd_forward: the model writes into its input; let it write into a copy");
        written = count;
        assert_null(hd_forward(c, x));
        assert_error(HD_ERROR_STATE, "hd_forward: the model writes into a tensor [3] that is no buffer of it");
        hd_module_add_buffer(m, "count", count);
        assert_values(hd_forward(c, x), HD_F32, 2, 2);
    }
    assert_values(count, HD_F32, 2, 2, 2);
    assert_null(hd_forward(graph_of(hd_module_new(&nothing, NULL), HD_O1), x));
    assert_error(HD_ERROR_NULL_ARGUMENT,
                 "hd_forward: the forward function of a \"nothing\" gave no tensor; in nothing (while ");
    assert_null(hd_forward(HD_SEQUENTIAL(hd_relu_layer(), hd_module_new(&nothing, NULL)), x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "gave no tensor; in nothing 1 of sequential");
}

/* ---- gradients are those of the plain model ---- */
/* y = first * x; or x, or the parameter, or nothing that is tracked. */
typedef enum what { FIRST, X_ITSELF, PARAMETER_ITSELF, DETACHED } what;
typedef struct chooser {
    what gives;
    hd_tensor *foreign; /* a parameter that is not the module's; NULL: none */
} chooser;
static hd_tensor *chooses_forward(hd_module *m, hd_tensor *x) {
    const chooser *c = hd_module_state(m);
    hd_tensor *first = hd_module_get(m, "first");
    if (c->foreign != NULL) return hd_mul(x, c->foreign);
    if (c->gives == DETACHED) return hd_detach(hd_mul(first, x));
    return c->gives == X_ITSELF ? x : c->gives == PARAMETER_ITSELF ? first : hd_mul(first, x);
}
static const hd_module_class chooses_class = {.name = "chooses", .forward = chooses_forward};
static hd_module *chooses(chooser *c) {
    hd_module *m = hd_module_new(&chooses_class, c);
    hd_module_add_parameter(m, "first", HD_TENSOR_F32(HD_SHAPE(2), 2, 3));
    hd_module_add_parameter(m, "unused", HD_TENSOR_F32(HD_SHAPE(2), 5, 7));
    return m;
}

/* A parameter that the output does not come from has no gradient: an optimizer leaves it alone, decay and all. */
static void gradients_go_where_those_of_the_plain_model_go(void **state) {
    (void)state;
    for (int gives = FIRST; gives <= DETACHED; ++gives)
        for (int of_x = 0; of_x < 2; ++of_x) {
            HD_SCOPE;
            chooser what_it_gives = {.gives = (what)gives};
            hd_tensor *after[2][3];
            bool has[2][3];
            for (int compiled = 0; compiled < 2; ++compiled) {
                hd_module *m = chooses(&what_it_gives), *f = compiled ? graph_of(m, HD_O0) : m;
                hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 10, 20);
                if (of_x) hd_requires_grad(x);
                hd_tensor *first = hd_module_get(m, "first"), *unused = hd_module_get(m, "unused"),
                          *y = hd_forward(f, x);
                assert_ok();
                const bool tracked = hd_tensor_requires_grad(y);
                assert_int_equal(tracked, gives == FIRST || gives == PARAMETER_ITSELF || (gives == X_ITSELF && of_x));
                if (tracked) hd_backward(hd_mul_scalar(y, 0.5));
                hd_optimizer *o =
                    hd_sgd(hd_module_parameters(m), 0.1, HD_OPTS(hd_sgd_opts, .weight_decay = 0.5, .momentum = 0.9));
                for (int step = 0; step < 2; ++step) hd_optimizer_step(o);
                hd_tensor *const leaves[3] = {first, unused, x};
                for (int i = 0; i < 3; ++i) {
                    has[compiled][i] = hd_has_grad(leaves[i]);
                    after[compiled][i] = hd_detach(leaves[i]);
                }
                hd_clear_tape();
            }
            for (int i = 0; i < 3; ++i) {
                assert_int_equal(has[1][i], has[0][i]);
                assert_identical(after[1][i], after[0][i]);
            }
        }
}

/* A parameter that no module holds would be a constant without a gradient. */
static void a_parameter_of_nobody_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    chooser reads = {.foreign = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2))};
    hd_module *c = graph_of(chooses(&reads), HD_O1);
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_forward(c, x));
    assert_error(HD_ERROR_STATE, "hd_forward: the model reads a tensor [2] that requires a gradient and is none of its "
                                 "parameters; hd_module_add_parameter makes it one");
    HD_NO_GRAD; /* where none is wanted it is a constant like others */
    assert_values(hd_forward(c, x), HD_F32, 1, 2);
}

static hd_tensor *tenfold(hd_tensor *gradient, void *calls) {
    ++*(int *)calls;
    return hd_mul_scalar(gradient, 10);
}
static void hooks_of_parameters_run_once_for_a_backward(void **state) {
    (void)state;
    HD_SCOPE;
    int calls = 0;
    chooser plain = {.gives = FIRST};
    hd_module *m = chooses(&plain), *c = graph_of(m, HD_O1);
    hd_tensor *first = hd_module_get(m, "first");
    hd_add_grad_hook(first, tenfold, &calls);
    for (int round = 1; round <= 2; ++round) {
        hd_set_grad(first, NULL);
        hd_backward(hd_forward(c, HD_TENSOR_F32(HD_SHAPE(2), 1, 2)));
        assert_int_equal(calls, round);
        assert_values(hd_grad(first), HD_F32, 10, 20);
        hd_clear_tape();
    }
}

/* What backward reads must be what forward read, also of a parameter that is frozen; what it does not read may
 * change. */
static void parameters_that_change_in_between_are_noticed(void **state) {
    (void)state;
    for (int compiled = 0; compiled < 2; ++compiled)
        for (int frozen = 0; frozen < 2; ++frozen) {
            HD_SCOPE;
            hd_module *m = HD_SEQUENTIAL(hd_linear(3, 4, NULL), hd_linear(4, 2, NULL));
            hd_module *f = compiled ? graph_of(m, HD_O1) : m;
            hd_tensor *x = hd_randn(HD_SHAPE(5, 3), HD_F32), *last = hd_module_get(m, "1.weight");
            if (frozen) hd_set_requires_grad(last, false);
            hd_tensor *y = hd_forward(f, x);
            {
                HD_NO_GRAD;
                hd_fill(hd_module_get(m, "1.bias"), 2); /* no gradient needs it */
            }
            hd_backward(y);
            assert_ok();
            y = hd_forward(f, x);
            {
                HD_NO_GRAD;
                hd_fill(last, 2); /* the gradient of the first layer does */
            }
            hd_backward(y);
            assert_error(HD_ERROR_STATE, "changed in place after it was used");
            hd_clear_tape();
        }
}

/* What a backward made goes with those who have it. */
static void a_backward_keeps_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class total = {.name = "total", .forward = total_forward};
    enum { SIZE = 1 << 20 };
    hd_module *m = hd_module_new(&total, NULL), *c = graph_of(m, HD_O1);
    hd_tensor *w = hd_module_add_parameter(m, "w", hd_ones(HD_SHAPE(SIZE), HD_F32)),
              *x = hd_ones(HD_SHAPE(SIZE), HD_F32);
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        hd_backward(hd_forward(c, x));
        assert_true(hd_item(hd_mean(hd_grad(w), HD_AXES(), NULL)) == 1);
        hd_set_grad(w, NULL);
        hd_clear_tape();
    }
    const int64_t held = hd_memory().live_bytes, own = 2 * (int64_t)(SIZE * sizeof(float)); /* w and x */
    if (held > own + own / 4) fail_msg("%lld bytes are held beside w and x", (long long)(held - own));
}

/* Parameters may be slices of one tensor. */
static hd_module *sliced(void) {
    static const hd_module_class total = {.name = "total", .forward = total_forward};
    hd_module *m = hd_module_new(&total, NULL);
    hd_tensor *all = HD_TENSOR_F32(HD_SHAPE(4), 1, 2, 3, 4);
    hd_module_add_parameter(m, "low", hd_narrow(all, 0, 0, 2));
    hd_module_add_parameter(m, "high", hd_narrow(all, 0, 2, 2));
    hd_module_add_buffer(m, "all", all);
    return m;
}
static void parameters_may_be_slices_of_one_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 10, 20), *after[3];
    for (int way = 0; way < 3; ++way) { /* plain, compiled, as state of a script */
        hd_module *m = sliced(), *f = way == 1 ? graph_of(m, HD_O1) : m;
        hd_optimizer *o = hd_sgd(hd_module_parameters(m), 0.25, NULL);
        hd_builder *b = hd_builder_new("step");
        if (way == 2) {
            hd_builder_start(b);
            hd_builder_add_state_of(b, m, o);
        }
        hd_tensor *in = way == 2 ? hd_input("x", HD_SHAPE(2), HD_F32) : x;
        for (int step = 0; step < (way == 2 ? 1 : 3); ++step) {
            hd_backward(hd_square(hd_forward(f, in)));
            hd_optimizer_step(o);
            hd_optimizer_zero_grad(o);
        }
        assert_ok();
        if (way == 2) {
            hd_builder_end(b);
            hd_script *s = hd_builder_build(b);
            hd_script_set_input(s, "x", x);
            for (int step = 0; step < 3; ++step) hd_script_run(s);
        }
        after[way] = hd_copy(hd_module_get(m, "all"));
        assert_ok();
    }
    assert_close(after[1], after[0], 1e-6, 0);
    assert_close(after[2], after[0], 1e-6, 0);
}

/* One step may train two models, whose parameters have the same names, each with an optimizer of its own. */
static void two_models_may_be_state_of_one_script(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *weights[2][2], *x = hd_ones(HD_SHAPE(3, 2), HD_F32);
    for (int script = 0; script < 2; ++script) {
        hd_seed(6);
        hd_module *m[2] = {hd_linear(2, 2, NULL), hd_linear(2, 1, NULL)};
        hd_optimizer *o[2] = {hd_adam(hd_module_parameters(m[0]), 0.1, NULL),
                              hd_adam(hd_module_parameters(m[1]), 0.2, NULL)};
        hd_builder *b = hd_builder_new("both");
        if (script) {
            hd_builder_start(b);
            for (int i = 0; i < 2; ++i) hd_builder_add_state_of(b, m[i], o[i]);
        }
        hd_backward(hd_square(hd_forward(m[1], hd_forward(m[0], x))));
        for (int i = 0; i < 2; ++i) hd_optimizer_step(o[i]);
        hd_clear_tape();
        if (script) {
            hd_builder_end(b);
            hd_script *s = hd_builder_build(b);
            hd_script_run(s);
            assert_identical(hd_script_state(s, "weight#2"), hd_detach(hd_module_get(m[1], "weight")));
            assert_values(hd_script_state(s, "optimizer.steps#2"), HD_F64, 1);
        }
        assert_ok();
        for (int i = 0; i < 2; ++i) weights[script][i] = hd_detach(hd_module_get(m[i], "weight"));
    }
    for (int i = 0; i < 2; ++i) assert_close(weights[1][i], weights[0][i], 1e-6, 1e-7);
}

static void long_names_of_state_are_whole_or_refused(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class total = {.name = "total", .forward = total_forward};
    char name[5000];
    for (int most = 0; most < 2; ++most) {
        hd_module *m = hd_module_new(&total, NULL);
        const size_t length = most ? 4500 : 300;
        memset(name, 'n', length + 1);
        name[length + 1] = '\0';
        hd_module_add_parameter(m, name, hd_ones(HD_SHAPE(1), HD_F32));
        name[length] = 'm'; /* another one that differs at its end */
        hd_module_add_parameter(m, name, hd_zeros(HD_SHAPE(1), HD_F32));
        hd_builder *b = hd_builder_new("names");
        hd_builder_start(b);
        hd_builder_add_state_of(b, m, NULL);
        if (most) {
            assert_error(HD_ERROR_VALUE, "hd_builder_add_state_of: a name of");
            hd_builder_end(b);
            continue;
        }
        hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", HD_SHAPE(1), HD_F32)));
        hd_builder_end(b);
        hd_script *s = hd_builder_build(b);
        assert_values(hd_script_state(s, name), HD_F32, 0);
    }
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
    hd_compile(m,
               HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = (hd_optimization_level)2));
    assert_error(HD_ERROR_VALUE, "hd_compile: 2 is no level; there are HD_O0 to HD_O3");
    hd_compile(m, HD_OPTS(hd_compile_opts, .compiler = HD_COMPILER_HODU));
    assert_error(HD_ERROR_VALUE, "the eager backend compiles nothing");
    hd_compile(m, HD_OPTS(hd_compile_opts, .device = {HD_DEVICE_CPU, 3}));
    assert_error(HD_ERROR_DEVICE, "hd_compile: device cpu:3 is not available here");
    if (!hd_compiler_available(HD_COMPILER_XLA)) {
        hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = HD_COMPILER_XLA));
        assert_error(HD_ERROR_DEVICE, HD_HAS_XLA ? "hd_compile: there is no XLA plugin for cpu"
                                                 : "hd_compile: this library was built without XLA");
    }
    hd_module *gone = hd_linear(2, 1, NULL);
    hd_release(gone);
    hd_compile(gone, NULL);
    assert_error(HD_ERROR_RELEASED, "hd_compile:");
    hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .cache_limit = -1));
    assert_error(HD_ERROR_VALUE, "cache");
    hd_compile_stats(m);
    assert_error(HD_ERROR_STATE, "hd_compile_stats: ");
}

/* The script of the last call: its own clone, which leaves the model as it is. */
static void its_script_can_be_looked_into(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_linear(3, 8, NULL), hd_gelu_layer(), hd_linear(8, 2, NULL));
    hd_module *compiled = graph_of(model, HD_O2);
    hd_tensor *x = hd_randn(HD_SHAPE(5, 3), HD_F32), *more = hd_randn(HD_SHAPE(9, 3), HD_F32);
    assert_null(hd_compile_script(compiled));
    assert_error(HD_ERROR_STATE, "hd_compile_script: no call has captured the model yet");
    hd_tensor *y = hd_forward(compiled, x), *z = hd_forward(compiled, more);
    for (int turn = 0; turn < 2; ++turn) { /* the last, and the one before when it is called again */
        hd_tensor *given = turn == 0 ? more : x;
        hd_script *s = hd_compile_script(compiled);
        hd_script_set_input(s, "x", given);
        assert_identical(hd_outputs_at(hd_script_run(s), 0), hd_detach(turn == 0 ? z : y));
        assert_true(hd_script_check(s).relative < 1e-6);
        assert_true(hd_script_stats(s).launches > 0);
        hd_forward(compiled, x);
    }
    hd_script *before = hd_compile_script(compiled);
    hd_script_set_input(before, "x", x);
    {
        HD_NO_GRAD;
        hd_fill(hd_module_get(model, "2.bias"), 7); /* parameters are the clone's own */
    }
    assert_identical(hd_outputs_at(hd_script_run(before), 0), hd_detach(y));
    assert_int_equal(hd_compile_stats(compiled).captures, 2);
    assert_ok();
    assert_null(hd_compile_script(model));
    assert_error(HD_ERROR_STATE, "hd_compile_script: the module is none that hd_compile made");
    hd_module *eager = hd_compile(model, NULL);
    hd_forward(eager, x);
    assert_null(hd_compile_script(eager));
    assert_error(HD_ERROR_STATE, "hd_compile_script: the eager backend has no script");
}

static void second_derivatives_through_it_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_linear(2, 1, NULL), *c = graph_of(m, HD_O1);
    hd_tensor *w = hd_module_get(m, "weight"), *x = hd_ones(HD_SHAPE(3, 2), HD_F32);
    hd_tensor *y = hd_forward(c, x);
    hd_grad_of(y, HD_TENSORS(w), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_error(HD_ERROR_STATE, "a compiled model");
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
    test(evaluation_leaves_every_flag), test(flags_of_parts_count), test(the_default_dtype_counts),
    test(the_precision_of_products_counts), test(the_eager_backend_runs_the_model_as_it_is),
    test(graphs_are_kept_by_kind_and_the_oldest_goes), test(a_model_that_changes_is_captured_anew),
    test(what_cannot_be_captured_is_an_error_and_the_thread_goes_on), test(writing_what_it_does_not_hold_is_an_error),
    test(gradients_go_where_those_of_the_plain_model_go), test(a_parameter_of_nobody_is_an_error),
    test(hooks_of_parameters_run_once_for_a_backward), test(parameters_that_change_in_between_are_noticed),
    test(a_backward_keeps_nothing), test(parameters_may_be_slices_of_one_tensor),
    test(two_models_may_be_state_of_one_script), test(long_names_of_state_are_whole_or_refused),
    test(wrong_options_are_errors), test(its_script_can_be_looked_into), test(second_derivatives_through_it_are_errors),
    test(the_state_of_a_model_and_its_optimizer_in_one_call))
