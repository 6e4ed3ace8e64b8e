/* Modules made of others and of functions, and walking through them. */
#include "differences.h"
#include "printed.h"

static hd_module *compiled(hd_module *m) {
    return hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
}

/* What a builder records of a forward gives the same, and so does hd_compile. */
static void same_everywhere(hd_module *m, hd_tensor *x) {
    HD_NO_GRAD;
    hd_tensor *plain = hd_forward(m, x);
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", hd_tensor_shape(x), hd_tensor_dtype(x))));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", x);
    assert_close(hd_outputs_get(hd_script_run(s), "y"), plain, 1e-6, 1e-6);
    assert_close(hd_forward(compiled(m), x), plain, 1e-6, 1e-6);
    assert_ok();
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */
/* x through all modules of its list, each with x added: a dense block. */
static hd_tensor *block_forward(hd_module *m, hd_tensor *x) {
    hd_module *layers = hd_module_child(m, "layers");
    for (int64_t i = 0; i < hd_module_child_count(layers); ++i)
        x = hd_add(x, hd_forward(hd_module_child_at(layers, i), x));
    return x;
}
static const hd_module_class block_class = {.name = "block", .forward = block_forward};

static void a_list_holds_modules_and_has_no_forward(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_module *a = hd_linear(3, 3, NULL), *b = hd_linear(3, 3, HD_OPTS(hd_linear_opts, .no_bias = true));
    hd_module *list = HD_MODULE_LIST(a, b), *m = hd_module_new(&block_class, NULL);
    hd_module_add(m, "layers", list);
    hd_tensor *x = hd_randn(HD_SHAPE(2, 3), HD_F32);
    assert_null(hd_forward(list, x));
    assert_error(HD_ERROR_STATE, "hd_forward: a \"module_list\" has no forward function; call the modules in it one by "
                                 "one; in module_list");
    assert_int_equal(hd_tensors_count(hd_module_parameters(m)), 3);
    assert_string_equal(hd_module_parameter_name(m, 2), "layers.1.weight");
    hd_tensor *once = hd_add(x, hd_forward(a, x));
    assert_same(hd_forward(m, x), hd_add(once, hd_forward(b, once)));
    same_everywhere(m, x);
    hd_module_add(list, "2", a); /* more of them */
    assert_int_equal(hd_module_child_count(list), 3);
    hd_module *empty = hd_module_list(NULL, 0);
    assert_int_equal(hd_module_child_count(empty), 0);
    assert_ok();
    assert_null(hd_module_list(NULL, 2));
    assert_error(HD_ERROR_VALUE, "hd_module_list: 2 modules, and no array of them");
    assert_null(hd_module_list(&a, -1));
    assert_error(HD_ERROR_VALUE, "hd_module_list: -1 modules");
    assert_null(HD_MODULE_LIST(a, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_list: module 1 of 2 is NULL");
}

/* ---- residual, flatten ------------------------------------------------------------------------------------------- */
static void a_residual_adds_its_input(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = hd_linear(3, 3, NULL), *m = hd_residual(inner);
    hd_tensor *x = hd_param(hd_randn(HD_SHAPE(4, 3), HD_F32));
    hd_tensor *y = hd_forward(m, x);
    assert_same(y, hd_add(x, hd_forward(inner, x)));
    assert_ptr_equal(hd_module_get(m, "module.weight"), hd_module_get(inner, "weight"));
    hd_backward(y);
    hd_tensor *want = hd_add_scalar(hd_sum(hd_detach(hd_module_get(inner, "weight")), HD_AXES(0), NULL), 1);
    assert_close(hd_grad(x), hd_broadcast_to(want, HD_SHAPE(4, 3)), 1e-6, 1e-6);
    same_everywhere(m, x);
    assert_null(hd_residual(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_residual: `module` is NULL");
    assert_null(hd_forward(hd_residual(hd_linear(3, 2, NULL)), x));
    assert_error(HD_ERROR_SHAPE, "in residual");
}

static void flatten_makes_axes_one(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_arange(0, 24, 1, HD_F32);
    x = hd_reshape(x, HD_SHAPE(2, 3, 1, 4));
    const struct {
        int from, to;
        hd_shape shape;
    } cases[] = {{1, -1, HD_SHAPE(2, 12)},  {0, -1, HD_SHAPE(24)},       {0, 1, HD_SHAPE(6, 1, 4)},
                 {1, 2, HD_SHAPE(2, 3, 4)}, {-2, -1, HD_SHAPE(2, 3, 4)}, {2, 2, HD_SHAPE(2, 3, 1, 4)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        hd_module *m = hd_flatten_layer(cases[i].from, cases[i].to);
        assert_same(hd_forward(m, x), hd_reshape(x, cases[i].shape));
        same_everywhere(m, x);
    }
    hd_tensor *none = hd_zeros(HD_SHAPE(0, 3, 2), HD_F32);
    assert_true(hd_shape_equal(hd_tensor_shape(hd_forward(hd_flatten_layer(1, -1), none)), HD_SHAPE(0, 6)));
    assert_true(
        hd_shape_equal(hd_tensor_shape(hd_forward(hd_flatten_layer(0, -1), hd_scalar(1, HD_F32))), HD_SHAPE(1)));
    assert_ok();
    assert_null(hd_forward(hd_flatten_layer(2, 1), x));
    assert_error(HD_ERROR_AXIS, "axes 2 to 1 of [2,3,1,4]; the first is not behind the last; in flatten");
    assert_null(hd_forward(hd_flatten_layer(1, 4), x));
    assert_error(HD_ERROR_AXIS, "4");
}

/* ---- functions --------------------------------------------------------------------------------------------------- */
static hd_tensor *scales(hd_tensor *x, void *user) { return hd_mul_scalar(x, *(const double *)user); }
static int released;
static void releases(void *user) {
    (void)user;
    ++released;
}
static void a_function_is_a_layer(void **state) {
    (void)state;
    double by = 3;
    released = 0;
    {
        HD_SCOPE;
        hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), 1, 2);
        hd_module *m = HD_SEQUENTIAL(hd_function_layer(scales, &by, releases), hd_function_layer(scales, &by, NULL));
        assert_values(hd_forward(m, x), HD_F32, 9, 18);
        same_everywhere(m, x);
        by = 2; /* it is yours */
        assert_values(hd_forward(m, x), HD_F32, 4, 8);
        assert_null(hd_function_layer(NULL, &by, releases));
        assert_error(HD_ERROR_NULL_ARGUMENT, "hd_function_layer: `function` is NULL");
        assert_int_equal(released, 0);
    }
    assert_int_equal(released, 1);
}

/* ---- children ---------------------------------------------------------------------------------------------------- */
static void children_are_found_by_number_and_by_path(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *leaf = hd_linear(2, 2, NULL), *inner = HD_SEQUENTIAL(hd_relu_layer(), leaf);
    hd_module *m = hd_module_new(&block_class, NULL);
    hd_module_add_buffer(m, "count", hd_zeros(HD_SHAPE(), HD_F32)); /* no child */
    hd_module_add(m, "encoder", inner);
    hd_module_add_parameter(m, "scale", hd_ones(HD_SHAPE(1), HD_F32));
    hd_module_add(m, "head", leaf);
    assert_int_equal(hd_module_child_count(m), 2);
    assert_ptr_equal(hd_module_child_at(m, 0), inner);
    assert_ptr_equal(hd_module_child_at(m, -1), leaf);
    assert_string_equal(hd_module_child_name(m, 0), "encoder");
    assert_string_equal(hd_module_child_name(m, -1), "head");
    assert_ptr_equal(hd_module_child(m, "head"), leaf);
    assert_ptr_equal(hd_module_child(m, "encoder.1"), leaf);
    assert_ptr_equal(hd_module_get(m, "encoder.1.weight"), hd_module_get(leaf, "weight"));
    assert_string_equal(hd_module_class_name(hd_module_child(m, "encoder.0")), "relu");
    assert_int_equal(hd_module_child_count(leaf), 0);
    assert_ok();
    assert_null(hd_module_child_at(m, 2));
    assert_error(HD_ERROR_INDEX, "hd_module_child_at: module 2 of the 2 in a block");
    assert_null(hd_module_child_name(m, -3));
    assert_error(HD_ERROR_INDEX, "hd_module_child_name: module -3 of the 2 in a block");
    assert_null(hd_module_child(m, "encoder.2"));
    assert_error(HD_ERROR_VALUE, "hd_module_child: there is no module \"encoder.2\": a sequential on the way has 0, 1");
    static const char *const wrong[] = {"", ".", "scale", "encoder.", "head.weight", "encoder.1.weight", "count"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        assert_null(hd_module_child(m, wrong[i]));
        assert_error(HD_ERROR_VALUE, "there is no module");
    }
    assert_null(hd_module_child(m, NULL));
    assert_error(HD_ERROR_VALUE, "there is no module");
    assert_null(hd_module_child(NULL, "a"));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_child: `module` is NULL");
    assert_int_equal(hd_module_child_count(NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_child_count");
    assert_null(hd_module_class_name(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_class_name");
    hd_module_add(m, "a.b", leaf);
    assert_error(HD_ERROR_VALUE, "hd_module_add: the name \"a.b\": it must not be empty nor have a dot, which is for");
}

static void buffers_are_listed_and_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *inner = hd_relu_layer(), *m = HD_SEQUENTIAL(inner, hd_tanh_layer());
    hd_tensor *mean = hd_zeros(HD_SHAPE(2), HD_F32), *count = hd_zeros(HD_SHAPE(), HD_I64);
    hd_module_add_buffer(inner, "mean", mean);
    hd_module_add_buffer(m, "count", count);
    hd_module_add_buffer(m, "again", mean); /* once in the list */
    hd_module_add_parameter(inner, "weight", hd_ones(HD_SHAPE(1), HD_F32));
    hd_tensors *all = hd_module_buffers(m);
    assert_int_equal(hd_tensors_count(all), 2);
    assert_ptr_equal(hd_tensors_get(all, 0), mean);
    assert_ptr_equal(hd_tensors_get(all, 1), count);
    const char *first = hd_module_buffer_name(m, 0);
    assert_string_equal(first, "0.mean");
    assert_string_equal(hd_module_buffer_name(m, 1), "count");
    assert_string_equal(hd_module_parameter_name(m, 0), "0.weight");
    hd_module_add_buffer(m, "later", hd_zeros(HD_SHAPE(), HD_F32));
    assert_string_equal(hd_module_buffer_name(m, 2), "later");
    assert_string_equal(first, "0.mean");
    assert_ok();
    assert_null(hd_module_buffer_name(m, 3));
    assert_error(HD_ERROR_INDEX, "hd_module_buffer_name: buffer 3 of 3");
    assert_null(hd_module_buffers(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_buffers: `module` is NULL");
    assert_null(hd_module_buffer_name(NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_buffer_name");
}

/* ---- apply ------------------------------------------------------------------------------------------------------- */
typedef struct visits {
    char text[256];
    hd_module *adds_to;
} visits;
static void notes(hd_module *m, const char *path, void *user) {
    visits *v = user;
    const size_t length = strlen(v->text);
    snprintf(v->text + length, sizeof v->text - length, "%s=%s ", path, hd_module_class_name(m));
    if (v->adds_to != NULL) hd_module_add(v->adds_to, path[0] != '\0' ? "new" : "last", hd_relu_layer());
    v->adds_to = NULL;
}
static void fails(hd_module *m, const char *path, void *user) {
    (void)path;
    ++*(int *)user;
    hd_module_get(m, "nothing");
}
static jmp_buf out;
static void jumps(hd_module *m, const char *path, void *user) {
    (void)m, (void)path, (void)user;
    longjmp(out, 1);
}

static void apply_visits_each_module_once_from_the_inside_out(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *shared = hd_linear(2, 2, NULL), *m = HD_SEQUENTIAL(shared, HD_SEQUENTIAL(hd_tanh_layer(), shared));
    visits v = {.adds_to = m}; /* what is added on the way is not visited */
    hd_module_apply(m, notes, &v);
    assert_string_equal(v.text, "0=linear 1.0=tanh 1=sequential =sequential ");
    assert_int_equal(hd_module_child_count(m), 3);
    int calls = 0;
    hd_module_apply(m, fails, &calls);
    assert_error(HD_ERROR_VALUE, "hd_module_get: the module linear has no parameter or buffer \"nothing\"");
    assert_int_equal(calls, 1);
    {
        HD_SCOPE;
        if (setjmp(out) == 0) hd_module_apply(m, jumps, NULL);
    }
    hd_module_add(m, "after", hd_relu_layer()); /* nobody uses it any more */
    assert_ok();
    hd_module_apply(NULL, notes, &v);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_apply: `module` is NULL");
    hd_module_apply(m, NULL, &v);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_apply: `visit` is NULL");
}

RUN(test(a_list_holds_modules_and_has_no_forward), test(a_residual_adds_its_input), test(flatten_makes_axes_one),
    test(a_function_is_a_layer), test(children_are_found_by_number_and_by_path), test(buffers_are_listed_and_named),
    test(apply_visits_each_module_once_from_the_inside_out))
