/* hd_compile of models with several inputs and outputs, and of functions. */
#include "differences.h"
#include "each_allocation.h"

static hd_module *graph_of(hd_module *model, hd_optimization_level level) {
    return hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = level));
}

/* (a, b) -> (a p r, b q r + a, which of a is the largest, the same tensor as the first once more). */
static hd_tensors *parts(hd_module *m, hd_tensors *inputs) {
    hd_tensor *a = hd_tensors_get(inputs, 0), *b = hd_tensors_get(inputs, 1), *r = hd_module_get(m, "r");
    hd_tensor *first = hd_mul(hd_mul(a, hd_module_get(m, "p")), r);
    hd_tensor *second = hd_add(hd_mul(hd_mul(b, hd_module_get(m, "q")), r), a);
    return HD_TENSORS(first, second, hd_argmax(a, 0, NULL), first);
}
static const hd_module_class parting = {.name = "parting", .forward_all = parts};
static hd_module *new_parting(void) {
    hd_module *m = hd_module_new(&parting, NULL);
    hd_module_add_parameter(m, "p", HD_TENSOR_F32(HD_SHAPE(2), 2, 3));
    hd_module_add_parameter(m, "q", HD_TENSOR_F32(HD_SHAPE(2), 5, 7));
    hd_module_add_parameter(m, "r", HD_TENSOR_F32(HD_SHAPE(2), 11, 13));
    hd_module_add_parameter(m, "unused", HD_TENSOR_F32(HD_SHAPE(2), 17, 19));
    return m;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
enum { LEAVES = 6 };
/* The leaves of a model and its inputs after two steps of training by those outputs that `used` has bits of. */
static void train_by(unsigned used, unsigned of_inputs, bool compiled, hd_tensor **after, bool *has) {
    hd_module *m = new_parting(), *f = compiled ? graph_of(m, HD_O0) : m;
    hd_tensor *x[2] = {HD_TENSOR_F32(HD_SHAPE(2), 1, 2), HD_TENSOR_F32(HD_SHAPE(2), 4, 3)};
    for (int i = 0; i < 2; ++i)
        if (of_inputs & 1u << i) hd_requires_grad(x[i]);
    hd_tensors *all = hd_module_parameters(m);
    hd_optimizer *o = hd_sgd(all, 0.01, HD_OPTS(hd_sgd_opts, .weight_decay = 0.5, .momentum = 0.9));
    hd_tensor *leaves[LEAVES] = {x[0], x[1]};
    for (int i = 0; i < 4; ++i) leaves[2 + i] = hd_tensors_get(all, i);
    for (int step = 0; step < 2; ++step) {
        hd_tensors *y = HD_FORWARD_ALL(f, x[0], x[1]);
        assert_int_equal(hd_tensors_count(y), 4);
        assert_int_equal(hd_tensor_dtype(hd_tensors_get(y, 2)), HD_I64);
        hd_tensor *loss = NULL;
        for (int i = 0; i < 4; ++i) {
            if (!(used & 1u << i) || i == 2) continue;
            hd_tensor *part = hd_mul_scalar(hd_tensors_get(y, i), i + 1);
            loss = loss == NULL ? part : hd_add(loss, part);
        }
        hd_backward(loss);
        hd_optimizer_step(o);
        for (int i = 0; i < LEAVES; ++i) has[i] = hd_has_grad(leaves[i]);
        for (int i = 0; i < 2; ++i)
            if (has[i]) after[LEAVES + i] = hd_copy(hd_grad(x[i]));
        hd_optimizer_zero_grad(o);
    }
    for (int i = 0; i < LEAVES; ++i) after[i] = hd_detach(leaves[i]);
    assert_ok();
}

/* Of each set of outputs, for each set of inputs: those that no used output depends on have no gradient at all. */
static void gradients_go_where_those_of_the_plain_model_go(void **state) {
    (void)state;
    for (unsigned used = 1; used < 16; ++used) {
        if (used == 4) continue; /* the numbers alone */
        for (unsigned of_inputs = 0; of_inputs < 4; ++of_inputs) {
            HD_SCOPE;
            hd_tensor *after[2][LEAVES + 2] = {{NULL}};
            bool has[2][LEAVES];
            for (int compiled = 0; compiled < 2; ++compiled)
                train_by(used, of_inputs, compiled, after[compiled], has[compiled]);
            for (int i = 0; i < LEAVES + 2; ++i) {
                if (i < LEAVES) assert_int_equal(has[1][i], has[0][i]);
                if (after[0][i] != NULL) assert_identical(after[1][i], after[0][i]);
            }
        }
    }
}

static void gradients_as_values_and_two_forwards_before_one_backward(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = new_parting(), *c = graph_of(m, HD_O1);
    hd_tensor *a = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *b = HD_TENSOR_F32(HD_SHAPE(2), 4, 3);
    hd_tensor *p = hd_module_get(m, "p"), *q = hd_module_get(m, "q"), *values[2][3];
    for (int compiled = 0; compiled < 2; ++compiled) {
        hd_module *f = compiled ? c : m;
        hd_tensors *y = HD_FORWARD_ALL(f, a, b), *z = HD_FORWARD_ALL(f, a, a);
        hd_tensors *g = hd_grad_of(hd_tensors_get(y, 1), HD_TENSORS(q, p), NULL);
        assert_values(hd_tensors_get(g, 1), HD_F32, 0, 0);
        values[compiled][0] = hd_tensors_get(g, 0);
        values[compiled][1] = hd_tensors_get(hd_grad_of(hd_tensors_get(y, 0), HD_TENSORS(a), NULL), 0);
        hd_backward(hd_mul(hd_tensors_get(y, 1), hd_tensors_get(z, 0)));
        values[compiled][2] = hd_copy(hd_grad(a));
        hd_clear_tape();
        hd_set_grad(a, NULL);
    }
    for (int i = 0; i < 3; ++i) assert_close(values[1][i], values[0][i], 1e-6, 0);
    assert_int_equal(hd_compile_stats(c).captures, 2); /* b has no gradient, a has one */
    hd_grad_of(hd_tensors_get(HD_FORWARD_ALL(c, a, b), 0), HD_TENSORS(p),
               HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_error(HD_ERROR_STATE, "a compiled model forgets what a second derivative needs");
}

/* A walk that fails leaves nothing for the next one. */
static hd_tensor *fails(hd_tensor *gradient, void *user) {
    bool *once = user;
    if (!*once) return NULL;
    *once = false;
    return hd_add(gradient, hd_zeros(HD_SHAPE(7), HD_F32));
}
static void a_backward_that_failed_leaves_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = new_parting(), *c = graph_of(m, HD_O1);
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *b = HD_TENSOR_F32(HD_SHAPE(2), 4, 3);
    hd_tensors *y = HD_FORWARD_ALL(c, a, b);
    bool once = true;
    hd_add_grad_hook(hd_tensors_get(y, 0), fails, &once);
    hd_backward(hd_add(hd_tensors_get(y, 0), hd_tensors_get(y, 1)));
    assert_error(HD_ERROR_SHAPE, "hd_add");
    assert_false(hd_has_grad(hd_module_get(m, "q")));
    hd_backward(hd_tensors_get(y, 0)); /* which has nothing of the other one */
    assert_values(hd_grad(hd_module_get(m, "p")), HD_F32, 11, 26);
    assert_values(hd_grad(hd_module_get(m, "r")), HD_F32, 2, 6);
    assert_false(hd_has_grad(hd_module_get(m, "q")));
    hd_backward(hd_tensors_get(y, 0));
    const int64_t before = hd_live_objects();
    hd_backward(hd_tensors_get(y, 0));
    assert_int_equal(hd_live_objects(), before);
    assert_values(hd_grad(hd_module_get(m, "r")), HD_F32, 6, 18);
}

/* ---- what is captured -------------------------------------------------------------------------------------------- */
static void shapes_of_all_inputs_and_the_kind_of_call_count(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *c = graph_of(new_parting(), HD_O1);
    hd_tensor *two = hd_ones(HD_SHAPE(2), HD_F32), *one = hd_ones(HD_SHAPE(1), HD_F32);
    hd_tensor *wide = hd_ones(HD_SHAPE(2), HD_F64);
    HD_NO_GRAD;
    for (int round = 0; round < 2; ++round) {
        HD_FORWARD_ALL(c, two, two);
        HD_FORWARD_ALL(c, two, one);
        HD_FORWARD_ALL(c, one, two);
        assert_int_equal(hd_tensor_dtype(hd_tensors_get(HD_FORWARD_ALL(c, two, wide), 1)), HD_F64);
    }
    assert_ok();
    assert_int_equal(hd_compile_stats(c).captures, 4);
    assert_int_equal(hd_compile_stats(c).hits, 4);
    hd_module *linear = graph_of(hd_linear(2, 2, NULL), HD_O1); /* one graph for either call */
    hd_tensor *y = hd_forward(linear, two);
    assert_identical(hd_tensors_get(HD_FORWARD_ALL(linear, two), 0), y);
    assert_int_equal(hd_compile_stats(linear).captures, 1);
    assert_null(HD_FORWARD_ALL(linear, two, two));
    assert_error(HD_ERROR_VALUE, "a \"linear\" takes one input, and was given 2; in linear (while hd_compile captures");
    assert_null(hd_forward(c, two));
    assert_error(HD_ERROR_INDEX, "hd_tensors_get: index 1 of a list of 1");
}

static hd_tensor *doubles(hd_module *m, hd_tensor *x) { return (void)m, hd_mul_scalar(x, 2); }
static hd_tensors *adds(hd_module *m, hd_tensors *inputs) {
    (void)m;
    hd_tensor *sum = hd_tensors_get(inputs, 0);
    for (int64_t i = 1; i < hd_tensors_count(inputs); ++i) sum = hd_add(sum, hd_tensors_get(inputs, i));
    return HD_TENSORS(sum, hd_tensors_get(inputs, 0));
}
static const hd_module_class either = {.name = "either", .forward = doubles, .forward_all = adds};

static void a_class_with_both_functions_is_called_as_it_would_be(void **state) {
    (void)state;
    for (int mode = HD_MODE_TRAINING; mode <= HD_MODE_EVALUATION; ++mode)
        for (int eager = 0; eager < 2; ++eager) {
            HD_SCOPE;
            hd_module *c = hd_compile(hd_module_new(&either, NULL),
                                      HD_OPTS(hd_compile_opts, .backend = eager ? HD_BACKEND_EAGER : HD_BACKEND_GRAPH,
                                              .mode = (hd_mode)mode));
            hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *many[6] = {x, x, x, x, x, x};
            assert_values(hd_forward(c, x), HD_F32, 2, 4);
            hd_tensors *y = HD_FORWARD_ALL(c, x);
            assert_int_equal(hd_tensors_count(y), 2);
            assert_values(hd_tensors_get(y, 0), HD_F32, 1, 2);
            y = hd_forward_all(c, hd_tensors_from(many, 6));
            assert_values(hd_tensors_get(y, 0), HD_F32, 6, 12);
            assert_values(hd_tensors_get(y, 1), HD_F32, 1, 2); /* an input itself */
            if (!eager) assert_int_equal(hd_compile_stats(c).captures, 3);
            assert_ok();
        }
}

static hd_tensors *writes(hd_module *m, hd_tensors *inputs) {
    (void)m;
    hd_fill(hd_tensors_get(inputs, 1), 3);
    return inputs;
}
static void an_input_that_is_written_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class writing = {.name = "writing", .forward_all = writes};
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32), *z = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(HD_FORWARD_ALL(graph_of(hd_module_new(&writing, NULL), HD_O1), x, z));
    assert_error(HD_ERROR_STATE, "hd_forward_all: the model writes into its input; let it write into a copy");
}

static void its_script_has_all_of_them(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *c = graph_of(new_parting(), HD_O1);
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(2), 1, 2), *b = HD_TENSOR_F32(HD_SHAPE(2), 4, 3);
    hd_tensors *y = HD_FORWARD_ALL(c, a, b);
    hd_script *s = hd_compile_script(c);
    hd_script_set_input(s, "x0", a);
    hd_script_set_input(s, "x1", b);
    hd_outputs *out = hd_script_run(s);
    static const char *const names[] = {"y0", "y1", "y2", "y3"};
    for (int i = 0; i < 4; ++i) {
        assert_string_equal(hd_outputs_name(out, i), names[i]);
        assert_identical(hd_outputs_at(out, i), hd_detach(hd_tensors_get(y, i)));
    }
    assert_ok();
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
typedef struct reads {
    hd_tensor *w, *count;
    double scale;
    int calls;
} reads;
/* (x, y) -> (x w scale, y + count), and counts. */
static hd_tensors *computes(hd_tensors *inputs, void *user) {
    reads *r = user;
    r->calls++;
    {
        HD_NO_GRAD;
        hd_add_(r->count, hd_scalar(1, HD_F32));
    }
    return HD_TENSORS(hd_mul_scalar(hd_mul(hd_tensors_get(inputs, 0), r->w), r->scale),
                      hd_add(hd_tensors_get(inputs, 1), r->count));
}

static void a_function_is_compiled_like_a_model(void **state) {
    (void)state;
    HD_SCOPE;
    reads r = {hd_param(HD_TENSOR_F32(HD_SHAPE(2), 3, 4)), hd_zeros(HD_SHAPE(), HD_F32), 10, 0};
    hd_module *f = hd_compile_function(computes, &r, HD_TENSORS(r.w, r.count),
                                       HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    assert_ptr_equal(hd_tensors_get(hd_module_parameters(f), 0), r.w);
    assert_ptr_equal(hd_module_get(f, "model.1"), r.count);
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 1, 2);
    for (int i = 1; i <= 3; ++i) {
        hd_tensors *y = HD_FORWARD_ALL(f, x, x);
        assert_values(hd_tensors_get(y, 0), HD_F32, 30, 80);
        assert_values(hd_tensors_get(y, 1), HD_F32, 1 + i, 2 + i);
        hd_backward(hd_tensors_get(y, 0));
    }
    assert_values(hd_grad(r.w), HD_F32, 30, 60);
    assert_values(r.count, HD_F32, 3);
    assert_int_equal(r.calls, 1);
    hd_optimizer *o = hd_sgd(hd_module_parameters(f), 0.1, NULL);
    hd_optimizer_step(o);
    hd_optimizer_zero_grad(o);
    assert_values(hd_tensors_get(HD_FORWARD_ALL(f, x, x), 0), HD_F32, 0, -40);
    assert_int_equal(hd_compile_stats(f).captures, 1);
    hd_module *eager = hd_compile_function(computes, &r, NULL, NULL); /* which is called each time */
    assert_values(hd_tensors_get(HD_FORWARD_ALL(eager, x, x), 0), HD_F32, 0, -40);
    assert_int_equal(r.calls, 2);
    assert_ok();
}

static void what_a_function_reads_is_given(void **state) {
    (void)state;
    HD_SCOPE;
    reads r = {hd_param(HD_TENSOR_F32(HD_SHAPE(2), 3, 4)), hd_zeros(HD_SHAPE(), HD_F32), 10, 0};
    const hd_compile_opts *graph = HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH);
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(HD_FORWARD_ALL(hd_compile_function(computes, &r, HD_TENSORS(r.count), graph), x, x));
    assert_error(HD_ERROR_STATE, "reads a tensor [2] that requires a gradient and is none of its parameters");
    assert_null(HD_FORWARD_ALL(hd_compile_function(computes, &r, HD_TENSORS(r.w), graph), x, x));
    assert_error(HD_ERROR_STATE, "writes into a tensor [] that is no buffer of it");
    assert_null(hd_compile_function(NULL, NULL, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_compile_function: `function` is NULL");
    assert_null(hd_compile_function(computes, &r, (hd_tensors *)x, NULL));
    assert_error(HD_ERROR_STATE, "hd_compile_function: `reads` is no living list");
    assert_null(hd_compile_function(computes, &r, NULL, HD_OPTS(hd_compile_opts, .mode = (hd_mode)1)));
    assert_error(HD_ERROR_VALUE, "hd_compile_function: 1 is no mode");
    assert_values(r.count, HD_F32, 0);
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */
static void trains_a_step(void) {
    hd_module *c = graph_of(new_parting(), HD_O0);
    hd_tensor *a = hd_ones(HD_SHAPE(2), HD_F32), *b = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_tensors *y = HD_FORWARD_ALL(c, a, b);
    hd_backward(hd_add(hd_tensors_get(y, 0), hd_tensors_get(y, 1)));
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("a device's driver has its own memory");
    each_allocation_fails(trains_a_step, 2000);
}

RUN(test(gradients_go_where_those_of_the_plain_model_go),
    test(gradients_as_values_and_two_forwards_before_one_backward), test(a_backward_that_failed_leaves_nothing),
    test(shapes_of_all_inputs_and_the_kind_of_call_count), test(a_class_with_both_functions_is_called_as_it_would_be),
    test(an_input_that_is_written_is_an_error), test(its_script_has_all_of_them),
    test(a_function_is_compiled_like_a_model), test(what_a_function_reads_is_given), test(each_allocation_may_fail))
