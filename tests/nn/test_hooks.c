/* Hooks around the forward of modules. */
#include "each_allocation.h"

static hd_module *compiled(hd_module *m) {
    return hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
}

typedef struct record {
    char text[128];
    double scale;
    int destroyed;
    int64_t removes; /* a hook; 0: none */
    bool adds;
} record;
static void note(record *r, const char *what) { strncat(r->text, what, sizeof r->text - strlen(r->text) - 1); }

static hd_tensors *notes_before(hd_module *m, hd_tensors *inputs, void *user) {
    record *r = user;
    assert_int_equal(hd_tensors_count(inputs), 1);
    note(r, "before ");
    if (r->removes != 0) hd_module_remove_hook(m, r->removes);
    if (r->adds) hd_module_add_hook(m, notes_before, NULL, r, NULL);
    r->removes = 0;
    r->adds = false;
    return NULL;
}
static hd_tensors *notes_after(hd_module *m, hd_tensors *inputs, hd_tensors *outputs, void *user) {
    (void)m, (void)inputs, (void)outputs;
    note(user, "after ");
    return NULL;
}
static hd_tensors *scales_before(hd_module *m, hd_tensors *inputs, void *user) {
    (void)m;
    return HD_TENSORS(hd_mul_scalar(hd_tensors_get(inputs, 0), ((record *)user)->scale));
}
/* Twice the outputs, plus the first input. */
static hd_tensors *mixes_after(hd_module *m, hd_tensors *inputs, hd_tensors *outputs, void *user) {
    (void)m, (void)user;
    hd_tensor *all[4] = {NULL};
    const int64_t count = hd_tensors_count(outputs);
    for (int64_t i = 0; i < count; ++i)
        all[i] = hd_add(hd_mul_scalar(hd_tensors_get(outputs, i), 2), hd_tensors_get(inputs, 0));
    return hd_tensors_from(all, count);
}
static void destroys(void *user) { ((record *)user)->destroyed++; }

/* ---- calls ------------------------------------------------------------------------------------------------------- */
static void hooks_run_around_forward_in_order(void **state) {
    (void)state;
    record r = {.scale = 3};
    {
        HD_SCOPE;
        hd_module *inner = hd_relu_layer(), *m = HD_SEQUENTIAL(inner);
        hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), -1, 2);
        const int64_t first = hd_module_add_hook(inner, notes_before, notes_after, &r, destroys);
        const int64_t second = hd_module_add_hook(inner, scales_before, mixes_after, &r, destroys);
        const int64_t third = hd_module_add_hook(inner, NULL, notes_after, &r, NULL);
        assert_true(first != second && second != third);
        assert_values(hd_forward(m, x), HD_F32, -3, 18); /* 3 x, relu, twice that + 3 x */
        assert_string_equal(r.text, "before after after ");
        assert_values(hd_tensors_get(HD_FORWARD_ALL(inner, x), 0), HD_F32, -3, 18);
        hd_tensor *p = hd_param(hd_copy(x));
        hd_backward(hd_forward(m, p)); /* hooks are on the tape */
        assert_values(hd_grad(p), HD_F32, 3, 9);
        hd_module_remove_hook(inner, second);
        assert_int_equal(r.destroyed, 1);
        assert_values(hd_forward(m, x), HD_F32, 0, 2);
        hd_module_remove_hook(inner, third);
        assert_ok();
        hd_module_remove_hook(inner, third);
        assert_error(HD_ERROR_VALUE, "hd_module_remove_hook: the module relu has no hook");
        hd_module_remove_hook(m, first);
        assert_error(HD_ERROR_VALUE, "the module sequential has no hook");
        assert_int_equal(r.destroyed, 1);
    }
    assert_int_equal(r.destroyed, 2); /* with the module */
}

static hd_tensors *swaps(hd_module *m, hd_tensors *inputs, void *user) {
    (void)m, (void)user;
    return HD_TENSORS(hd_tensors_get(inputs, 1), hd_tensors_get(inputs, 0));
}
static hd_tensors *subtracts(hd_module *m, hd_tensors *inputs) {
    (void)m;
    hd_tensor *a = hd_tensors_get(inputs, 0), *b = hd_tensors_get(inputs, 1);
    return HD_TENSORS(hd_sub(a, b), hd_add(a, b));
}
static const hd_module_class subtracting = {.name = "subtracting", .forward_all = subtracts};
static void hooks_of_several_tensors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_module_new(&subtracting, NULL);
    hd_tensor *a = HD_TENSOR_F32(HD_SHAPE(1), 5), *b = HD_TENSOR_F32(HD_SHAPE(1), 2);
    hd_module_add_hook(m, swaps, mixes_after, NULL, NULL);
    hd_tensors *y = HD_FORWARD_ALL(m, a, b);
    assert_values(hd_tensors_get(y, 0), HD_F32, 2 * (2 - 5) + 2);
    assert_values(hd_tensors_get(y, 1), HD_F32, 2 * (2 + 5) + 2);
    assert_ok();
}

/* A hook may remove itself, and add others, which wait for the next forward. */
static void hooks_may_change_the_hooks(void **state) {
    (void)state;
    HD_SCOPE;
    record r = {.adds = true};
    hd_module *m = hd_relu_layer();
    hd_tensor *x = hd_ones(HD_SHAPE(1), HD_F32);
    r.removes = hd_module_add_hook(m, notes_before, NULL, &r, destroys);
    const int64_t last = hd_module_add_hook(m, notes_before, NULL, &r, NULL);
    hd_forward(m, x);
    assert_string_equal(r.text, "before before ");
    assert_int_equal(r.destroyed, 1);
    r.text[0] = '\0';
    hd_forward(m, x);
    assert_string_equal(r.text, "before before ");
    r.removes = last; /* the one that runs first removes itself, too */
    hd_forward(m, x);
    r.text[0] = '\0';
    hd_forward(m, x);
    assert_string_equal(r.text, "before ");
    assert_ok();
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static hd_tensors *fails_before(hd_module *m, hd_tensors *inputs, void *user) {
    (void)m, (void)user;
    return hd_add(hd_tensors_get(inputs, 0), NULL), NULL;
}
static hd_tensors *gives_itself(hd_module *m, hd_tensors *inputs, void *user) {
    return (void)inputs, (void)user, (hd_tensors *)m;
}
static hd_tensors *gives_two(hd_module *m, hd_tensors *inputs, void *user) {
    (void)m, (void)user;
    return hd_tensors_join(inputs, inputs);
}
static hd_tensors *gives_two_after(hd_module *m, hd_tensors *inputs, hd_tensors *outputs, void *user) {
    return (void)outputs, gives_two(m, inputs, user);
}
static jmp_buf out;
static hd_tensors *jumps(hd_module *m, hd_tensors *inputs, void *user) {
    (void)m, (void)inputs, (void)user;
    longjmp(out, 1);
}

static void what_goes_wrong_in_a_hook_is_an_error_of_the_forward(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1), HD_F32);
    hd_module *m = hd_relu_layer(), *model = HD_SEQUENTIAL(m);
    int64_t hook = hd_module_add_hook(m, fails_before, NULL, NULL, NULL);
    assert_null(hd_forward(model, x));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add: `b` is NULL; in relu 0 of sequential");
    hd_module_remove_hook(m, hook);
    hook = hd_module_add_hook(m, gives_itself, NULL, NULL, NULL);
    assert_null(hd_forward(model, x));
    assert_error(HD_ERROR_STATE, "`the result of a hook` is no living list of tensors");
    hd_module_remove_hook(m, hook);
    hook = hd_module_add_hook(m, gives_two, NULL, NULL, NULL);
    assert_null(hd_forward(model, x));
    assert_error(HD_ERROR_VALUE, "a \"relu\" takes one input, and was given 2");
    hd_module_remove_hook(m, hook);
    hook = hd_module_add_hook(m, NULL, gives_two_after, NULL, NULL);
    assert_null(hd_forward(model, x));
    assert_error(HD_ERROR_VALUE, "a hook of a \"relu\" gave 2 outputs in place of 1; in relu 0");
    hd_module_remove_hook(m, hook);
    {
        HD_SCOPE;
        hook = hd_module_add_hook(m, jumps, NULL, NULL, NULL);
        if (setjmp(out) == 0) hd_forward(model, x);
    }
    hd_module_remove_hook(m, hook);
    assert_values(hd_forward(model, x), HD_F32, 1);
    assert_int_equal(hd_module_add_hook(m, NULL, NULL, NULL, NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_add_hook: `before` and `after` are both NULL");
    assert_int_equal(hd_module_add_hook(NULL, gives_two, NULL, NULL, NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_add_hook: `module` is NULL");
    hd_module_remove_hook(NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_remove_hook: `module` is NULL");
}

/* ---- captured ---------------------------------------------------------------------------------------------------- */
static void what_hooks_compute_is_captured(void **state) {
    (void)state;
    HD_SCOPE;
    record r = {.scale = 3}, outside = {.scale = 2};
    hd_module *inner = hd_relu_layer(), *model = HD_SEQUENTIAL(inner, hd_tanh_layer()), *c = compiled(model);
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2), -1, 2);
    HD_NO_GRAD;
    assert_close(hd_forward(c, x), hd_forward(model, x), 1e-6, 1e-6);
    const int64_t noting = hd_module_add_hook(inner, notes_before, notes_after, &r, NULL);
    const int64_t mixing = hd_module_add_hook(inner, scales_before, mixes_after, &r, NULL);
    hd_tensor *y = hd_forward(c, x); /* captured anew */
    assert_string_equal(r.text, "before after ");
    assert_close(y, hd_tanh(HD_TENSOR_F32(HD_SHAPE(2), -3, 18)), 1e-6, 1e-6);
    r.text[0] = '\0';
    assert_same(hd_forward(c, x), y);
    assert_string_equal(r.text, ""); /* only its ops are in the script */
    assert_int_equal(hd_compile_stats(c).captures, 2);
    hd_module_remove_hook(inner, mixing);
    hd_module_remove_hook(inner, noting);
    assert_close(hd_forward(c, x), hd_forward(model, x), 1e-6, 1e-6);
    hd_module_add_hook(c, notes_before, NULL, &outside, NULL); /* of the compiled one: at each call */
    hd_module_add_hook(c, scales_before, NULL, &outside, NULL);
    for (int i = 0; i < 2; ++i) assert_close(hd_forward(c, x), hd_tanh(HD_TENSOR_F32(HD_SHAPE(2), 0, 4)), 1e-6, 1e-6);
    assert_string_equal(outside.text, "before before ");
    assert_ok();
}

static void a_builder_records_what_hooks_compute(void **state) {
    (void)state;
    HD_SCOPE;
    record r = {.scale = 3};
    hd_module *m = hd_relu_layer();
    hd_module_add_hook(m, scales_before, mixes_after, &r, NULL);
    hd_builder *b = hd_builder_new("hooks");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", HD_SHAPE(2), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(2), -1, 2));
    assert_values(hd_outputs_get(hd_script_run(s), "y"), HD_F32, -3, 18);
}

static void a_program(void) {
    record r = {.scale = 3};
    hd_module *m = HD_SEQUENTIAL(hd_relu_layer());
    hd_module_add_hook(m, scales_before, mixes_after, &r, destroys);
    hd_forward(m, hd_ones(HD_SHAPE(2), HD_F32));
    hd_release(m); /* with its hook */
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("a device's driver has its own memory");
    each_allocation_fails(a_program, 200);
}

RUN(test(hooks_run_around_forward_in_order), test(hooks_of_several_tensors), test(hooks_may_change_the_hooks),
    test(what_goes_wrong_in_a_hook_is_an_error_of_the_forward), test(what_hooks_compute_is_captured),
    test(a_builder_records_what_hooks_compute), test(each_allocation_may_fail))
