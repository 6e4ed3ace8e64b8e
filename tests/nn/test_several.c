/* Modules that take and give several tensors. */
#include "printed.h"

/* ---- classes ----------------------------------------------------------------------------------------------------- */
/* (a, b) -> (a scale + b, a b). */
static hd_tensors *mixes(hd_module *m, hd_tensors *inputs) {
    hd_tensor *a = hd_tensors_get(inputs, 0), *b = hd_tensors_get(inputs, 1);
    return HD_TENSORS(hd_add(hd_mul(a, hd_module_get(m, "scale")), b), hd_mul(a, b));
}
static const hd_module_class mixing = {.name = "mixing", .forward_all = mixes};
static hd_module *new_mixing(void) {
    hd_module *m = hd_module_new(&mixing, NULL);
    hd_module_add_parameter(m, "scale", hd_full(HD_SHAPE(), HD_F32, 3));
    return m;
}

/* x -> (x + 1, x + 2, ...), as many as the state says. */
static hd_tensors *counts(hd_module *m, hd_tensors *inputs) {
    hd_tensor *all[4] = {NULL};
    const int64_t *count = hd_module_state(m);
    for (int64_t i = 0; i < *count; ++i) all[i] = hd_add_scalar(hd_tensors_get(inputs, 0), (double)(i + 1));
    return hd_tensors_from(all, *count);
}
static const hd_module_class counting = {.name = "counting", .forward_all = counts};

/* Either way: with two inputs it adds them. */
static hd_tensor *doubles(hd_module *m, hd_tensor *x) { return (void)m, hd_mul_scalar(x, 2); }
static hd_tensors *adds(hd_module *m, hd_tensors *inputs) {
    if (hd_tensors_count(inputs) == 1) return HD_TENSORS(hd_forward(m, hd_tensors_get(inputs, 0)));
    return HD_TENSORS(hd_add(hd_tensors_get(inputs, 0), hd_tensors_get(inputs, 1)));
}
static const hd_module_class either = {.name = "either", .forward = doubles, .forward_all = adds};
static const hd_module_class neither = {.name = "neither"};

/* ---- what goes in and comes out ---------------------------------------------------------------------------------- */
static void several_go_in_and_come_out(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = new_mixing();
    hd_tensor *a = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *b = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 10, 20));
    hd_tensors *y = HD_FORWARD_ALL(m, a, b);
    assert_int_equal(hd_tensors_count(y), 2);
    assert_values(hd_tensors_get(y, 0), HD_F32, 13, 26);
    assert_values(hd_tensors_get(y, 1), HD_F32, 10, 40);
    hd_backward(hd_add(hd_tensors_get(y, 0), hd_mul_scalar(hd_tensors_get(y, 1), 2)));
    assert_values(hd_grad(a), HD_F32, 3 + 20, 3 + 40);
    assert_values(hd_grad(b), HD_F32, 1 + 2, 1 + 4);
    assert_values(hd_grad(hd_module_get(m, "scale")), HD_F32, 3);
    assert_ok();
}

static void each_of_the_two_calls_serves_any_class(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 1, 2);
    int64_t count = 3;
    hd_module *several = hd_module_new(&counting, &count), *both = hd_module_new(&either, NULL);
    assert_values(hd_forward(several, x), HD_F32, 2, 3); /* the first */
    assert_int_equal(hd_tensors_count(HD_FORWARD_ALL(several, x)), 3);
    hd_tensors *y = HD_FORWARD_ALL(hd_tanh_layer(), x);
    assert_int_equal(hd_tensors_count(y), 1);
    assert_same(hd_tensors_get(y, 0), hd_tanh(x));
    assert_values(hd_forward(both, x), HD_F32, 2, 4);
    assert_values(hd_tensors_get(HD_FORWARD_ALL(both, x), 0), HD_F32, 2, 4);
    assert_values(hd_tensors_get(HD_FORWARD_ALL(both, x, x), 0), HD_F32, 2, 4);
    assert_values(hd_forward(HD_SEQUENTIAL(several, both, several), x), HD_F32, 5, 7); /* the first of each */
    assert_ok();
}

static void outputs_outlive_the_scope_they_are_kept_from(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = new_mixing();
    const int64_t before = hd_live_objects();
    hd_tensor *first;
    {
        HD_SCOPE;
        HD_NO_GRAD;
        first = hd_keep(hd_forward(HD_SEQUENTIAL(hd_module_new(&either, NULL)), hd_ones(HD_SHAPE(2), HD_F32)));
    }
    assert_values(first, HD_F32, 2, 2);
    assert_int_equal(hd_live_objects() - before, 2); /* the tensor and its storage */
    hd_tensors *y;
    {
        HD_SCOPE;
        y = hd_keep(HD_FORWARD_ALL(m, first, first));
    }
    assert_values(hd_tensors_get(y, 1), HD_F32, 4, 4);
}

static void a_builder_records_them(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = new_mixing();
    hd_builder *b = hd_builder_new("several");
    hd_builder_start(b);
    hd_tensors *y = HD_FORWARD_ALL(m, hd_input("a", HD_SHAPE(2), HD_F32), hd_input("b", HD_SHAPE(2), HD_F32));
    hd_builder_add_output(b, "sum", hd_tensors_get(y, 0));
    hd_builder_add_output(b, "product", hd_tensors_get(y, 1));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "a", HD_TENSOR_F32(HD_SHAPE(2), 1, 2));
    hd_script_set_input(s, "b", HD_TENSOR_F32(HD_SHAPE(2), 10, 20));
    hd_outputs *out = hd_script_run(s);
    assert_values(hd_outputs_get(out, "sum"), HD_F32, 13, 26);
    assert_values(hd_outputs_get(out, "product"), HD_F32, 10, 40);
    char text[4096];
    assert_true(hd_script_format(s, text, sizeof text) > 0);
    assert_non_null(strstr(text, "mixing")); /* the span of the module */
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void a_module_says_what_it_takes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    hd_module *linear = hd_linear(2, 2, NULL), *none = hd_module_new(&neither, NULL), *m = new_mixing();
    assert_null(HD_FORWARD_ALL(linear, x, x));
    assert_error(HD_ERROR_VALUE, "hd_forward_all: a \"linear\" takes one input, and was given 2; in linear");
    assert_null(hd_forward_all(linear, hd_tensors_from(NULL, 0)));
    assert_error(HD_ERROR_VALUE, "hd_forward_all: a \"linear\" takes one input, and was given 0");
    assert_null(hd_forward(HD_SEQUENTIAL(hd_tanh_layer(), none), x));
    assert_error(HD_ERROR_STATE,
                 "hd_forward: a \"neither\" has no forward function; call the modules in it one by one; "
                 "in neither 1 of sequential");
    assert_null(HD_FORWARD_ALL(none, x));
    assert_error(HD_ERROR_STATE, "hd_forward_all: a \"neither\" has no forward function");
    assert_null(hd_forward(m, x));
    assert_error(HD_ERROR_INDEX, "hd_tensors_get: index 1 of a list of 1; in mixing");
    hd_tensor *wide = hd_ones(HD_SHAPE(3), HD_F32);
    assert_null(HD_FORWARD_ALL(m, x, wide));
    assert_error(HD_ERROR_SHAPE, "; in mixing");
    assert_null(hd_forward_all(NULL, HD_TENSORS(x)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_forward_all: `module` is NULL");
    assert_null(hd_forward_all(m, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_forward_all: `inputs` is NULL");
    assert_null(hd_forward_all(m, (hd_tensors *)x));
    assert_error(HD_ERROR_STATE, "`inputs` is no living list of tensors");
    assert_null(hd_module_new(&(hd_module_class){.forward = doubles}, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "needs a name");
    assert_null(hd_module_new(NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_new");
}

static hd_tensors *gives_nothing(hd_module *m, hd_tensors *inputs) { return (void)m, (void)inputs, NULL; }
static hd_tensors *gives_itself(hd_module *m, hd_tensors *inputs) { return (void)inputs, (hd_tensors *)m; }
static void forward_gives_a_list_or_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class nothing = {.name = "nothing", .forward_all = gives_nothing},
                                 itself = {.name = "itself", .forward_all = gives_itself};
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(HD_FORWARD_ALL(hd_module_new(&nothing, NULL), x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_forward_all: the forward function of a \"nothing\" gave no tensors");
    assert_null(hd_forward(hd_module_new(&nothing, NULL), x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_forward: the forward function of a \"nothing\" gave no tensors");
    assert_null(HD_FORWARD_ALL(hd_module_new(&itself, NULL), x));
    assert_error(HD_ERROR_STATE, "`the result of forward` is no living list of tensors");
    int64_t none = 0;
    assert_null(hd_forward(hd_module_new(&counting, &none), x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "gave no tensors");
}

static hd_tensors *reads_a_stray(hd_module *m, hd_tensors *inputs) {
    hd_tensor *const *stray = hd_module_state(m);
    return HD_TENSORS(hd_mul(hd_mul(hd_tensors_get(inputs, 0), hd_tensors_get(inputs, 1)), *stray));
}
static void inputs_may_require_gradients_and_strays_are_said(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class reading = {.name = "reading", .forward_all = reads_a_stray};
    char text[2048];
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *stray = b;
    hd_module *m = hd_module_new(&reading, &stray);
    printed out = printed_begin();
    HD_FORWARD_ALL(m, a, b);
    printed_end(out, text, sizeof text);
    assert_string_equal(text, "");
    hd_clear_tape();
    stray = hd_param(hd_ones(HD_SHAPE(7, 1), HD_F32));
    out = printed_begin();
    HD_FORWARD_ALL(m, a, b);
    printed_end(out, text, sizeof text);
    assert_non_null(strstr(text, "the forward of a \"reading\" reads a tensor [7,1] that requires a gradient"));
}

RUN(test(several_go_in_and_come_out), test(each_of_the_two_calls_serves_any_class),
    test(outputs_outlive_the_scope_they_are_kept_from), test(a_builder_records_them), test(a_module_says_what_it_takes),
    test(forward_gives_a_list_or_an_error), test(inputs_may_require_gradients_and_strays_are_said))
