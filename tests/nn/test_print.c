/* What is in a module, as text. */
#include "each_allocation.h"
#include "printed.h"

static hd_module *model(void) {
    hd_module *shared = hd_linear(4, 4, NULL);
    hd_module *m =
        HD_SEQUENTIAL(hd_linear(3, 4, NULL), HD_SEQUENTIAL(shared, hd_relu_layer()), shared, hd_softmax_layer(-1));
    hd_module_add_buffer(m, "steps", hd_zeros(HD_SHAPE(3), HD_I64));
    hd_set_requires_grad(hd_module_get(m, "0.bias"), false);
    return m;
}
static void assert_has(const char *text, const char *part) {
    if (strstr(text, part) == NULL) fail_msg("\"%s\" is not in\n%s", part, text);
}

static void without_an_example_it_is_the_tree_and_its_sizes(void **state) {
    (void)state;
    HD_SCOPE;
    char text[2048];
    hd_module *m = model();
    const int64_t length = hd_module_format(m, NULL, text, sizeof text);
    assert_int_equal(length, (int64_t)strlen(text));
    assert_string_equal(text, "module                                 parameters\n"
                              "sequential                                     36\n"
                              "  0: linear                                    16\n"
                              "  1: sequential                                20\n"
                              "    0: linear                                  20\n"
                              "    1: relu                                     0\n"
                              "  2: linear                                    20\n"
                              "  3: softmax                                    0\n"
                              "36 parameters in 4 tensors, 144 bytes, of which 32 require gradients\n"
                              "3 elements in buffers, 24 bytes\n");
    assert_int_equal(hd_module_format(m, NULL, NULL, 0), length);
    char little[8];
    assert_int_equal(hd_module_format(m, NULL, little, sizeof little), length);
    assert_string_equal(little, "module ");
    assert_ok();
}

/* What hd_module_print writes to stdout. */
static void printed_text(hd_module *m, hd_tensors *example, char *text, size_t capacity) {
    fflush(stdout);
    FILE *file = tmpfile();
    const int before = dup(STDOUT_FILENO);
    assert_true(file != NULL && before >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    hd_module_print(m, example);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(file);
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

static void for_an_example_there_are_shapes_and_operations(void **state) {
    (void)state;
    HD_SCOPE;
    char text[2048], other[2048];
    hd_module *m = model();
    hd_tensor *x = hd_ones(HD_SHAPE(5, 3), HD_F32);
    assert_true(hd_module_format(m, HD_TENSORS(x), text, sizeof text) > 0);
    assert_has(text, "module                                 parameters       operations  output\n");
    /* products and sums: 2 x 5 x 3 x 4 */
    assert_has(text, "  0: linear                                    16              120  [5,4] f32\n");
    assert_has(text, "    1: relu                                     0               20  [5,4] f32\n");
    assert_has(text, "    0: linear                                  20              320  [5,4] f32  (2 calls)\n");
    assert_has(text, "  1: sequential                                20              180  [5,4] f32\n");
    assert_has(text, "\na forward of the example: ");
    assert_int_equal(hd_tape_length(), 0);
    assert_false(hd_builder_is_recording());
    printed_text(m, HD_TENSORS(x), other, sizeof other);
    assert_string_equal(other, text);
    printed_text(m, NULL, other, sizeof other);
    assert_true(strncmp(other, "module                                 parameters\nsequential", 59) == 0);
    assert_ok();
}

/* ---- it changes nothing ------------------------------------------------------------------------------------------ */
/* (a, b) -> (a + b, whether a is above b); draws, counts, and adds a module at its first call. */
static hd_tensors *does_much(hd_module *m, hd_tensors *inputs) {
    hd_tensor *a = hd_tensors_get(inputs, 0), *b = hd_tensors_get(inputs, 1), *count = hd_module_get(m, "count");
    if (hd_module_child_count(m) == 0) hd_module_add(m, "late", hd_relu_layer());
    {
        HD_NO_GRAD;
        hd_add_(count, hd_scalar(1, HD_F32));
    }
    hd_tensor *noise = hd_randn(hd_tensor_shape(a), HD_F32);
    return HD_TENSORS(hd_add(hd_forward(hd_module_child(m, "late"), a), hd_mul(b, noise)), hd_gt(a, b));
}
static const hd_module_class much = {.name = "much", .forward_all = does_much};

static void a_forward_of_several_that_draws_and_writes_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    char text[2048], warnings[2048];
    hd_module *m = hd_module_new(&much, NULL);
    hd_module_add_buffer(m, "count", hd_zeros(HD_SHAPE(), HD_F32));
    hd_tensor *a = hd_ones(HD_SHAPE(2), HD_F32), *b = hd_ones(HD_SHAPE(1), HD_F32);
    hd_seed(4);
    hd_tensor *first = hd_randn(HD_SHAPE(3), HD_F32);
    hd_seed(4);
    printed out = printed_begin();
    for (int i = 0; i < 2; ++i) assert_true(hd_module_format(m, HD_TENSORS(a, b), text, sizeof text) > 0);
    printed_end(out, warnings, sizeof warnings);
    assert_string_equal(warnings, "");
    assert_has(text, "[2] f32, [2] bool\n");
    assert_has(text, "  late: relu ");
    assert_same(hd_randn(HD_SHAPE(3), HD_F32), first);
    assert_values(hd_module_get(m, "count"), HD_F32, 0);
    assert_int_equal(hd_tape_length(), 0);
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(1), HD_F32)); /* the tape is as it was */
    hd_mul_scalar(w, 2);
    assert_true(hd_tape_length() > 0);
    assert_ok();
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static hd_tensor *reads(hd_module *m, hd_tensor *x) { return (void)m, hd_mul_scalar(x, hd_item(x)); }
static jmp_buf jump;
static hd_tensor *jumps(hd_module *m, hd_tensor *x) {
    (void)m, (void)x;
    longjmp(jump, 1);
}

static void what_goes_wrong_is_an_error_and_the_thread_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class reading = {.name = "reading", .forward = reads},
                                 jumping = {.name = "jumping", .forward = jumps};
    char text[512];
    hd_module *m = model();
    hd_tensor *x = hd_ones(HD_SHAPE(5, 4), HD_F32), *one = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    assert_int_equal(hd_module_format(m, HD_TENSORS(x), text, sizeof text), -1);
    assert_error(HD_ERROR_SHAPE, "; in linear 0 of sequential");
    assert_int_equal(hd_module_format(hd_module_new(&reading, NULL), HD_TENSORS(one), text, sizeof text), -1);
    assert_error(HD_ERROR_STATE, "hd_item");
    {
        HD_SCOPE;
        if (setjmp(jump) == 0) hd_module_format(hd_module_new(&jumping, NULL), HD_TENSORS(one), text, sizeof text);
    }
    assert_false(hd_builder_is_recording());
    hd_mul_scalar(one, 2);
    assert_int_equal(hd_tape_length(), 1); /* tapes are as before */
    hd_clear_tape();
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_module_print(m, HD_TENSORS(x));
    assert_error(HD_ERROR_STATE, "hd_module_print: a builder records");
    hd_builder_end(b);
    assert_int_equal(hd_module_format(NULL, NULL, text, sizeof text), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_format: `module` is NULL");
    assert_int_equal(hd_module_format(m, NULL, NULL, 10), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_format: `out` is NULL");
    assert_int_equal(hd_module_format(m, (hd_tensors *)x, text, sizeof text), -1);
    assert_error(HD_ERROR_STATE, "hd_module_format: `example` is no living list");
    hd_module_print(NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_module_print: `module` is NULL");
}

static void a_program(void) {
    char text[1024];
    hd_module_format(model(), HD_TENSORS(hd_ones(HD_SHAPE(5, 3), HD_F32)), text, sizeof text);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("a device's driver has its own memory");
    each_allocation_fails(a_program, 1000);
}

RUN(test(without_an_example_it_is_the_tree_and_its_sizes), test(for_an_example_there_are_shapes_and_operations),
    test(a_forward_of_several_that_draws_and_writes_changes_nothing),
    test(what_goes_wrong_is_an_error_and_the_thread_goes_on), test(each_allocation_may_fail))
