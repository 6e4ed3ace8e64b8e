/* Networks, training steps and state as C: they go on as the script does, keep their state when a check fails, and take
 * no byte more than they say. */
#include "each_allocation.h"
#include "exported.h"

#include <unistd.h>

/* ---- helpers ----------------------------------------------------------------------------------------------------- */
static hd_script *inference(hd_module *model, hd_shape shape) {
    hd_builder *b = started("model");
    HD_NO_GRAD;
    hd_module_eval(model);
    hd_builder_add_output(b, "logits", hd_forward(model, hd_input("x", shape, HD_F32)));
    return built(b);
}

static hd_script *training(hd_module *model, hd_optimizer *optimizer, hd_shape x_shape) {
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, model, optimizer);
    hd_tensor *x = hd_input("x", x_shape, HD_F32), *y = hd_input("y", HD_SHAPE(x_shape.size[0]), HD_I64);
    hd_tensor *loss = hd_cross_entropy(hd_forward(model, x), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(optimizer);
    hd_builder_add_output(b, "loss", loss);
    return built(b);
}

static void compile_one(nets *n, hd_script *s, const hd_export_opts *opts) {
    begin_nets(n);
    if (!add_net(n, s, opts)) fail_msg("%s", hd_error_message());
    compile_nets(n, "");
}

static void close_to(hd_tensor *a, hd_tensor *b, double units, const char *what) {
    const char *why = difference_within(a, b, units_at_largest(b, units));
    if (why[0] != '\0') fail_msg("%s: %s", what, why);
}

/* ---- inference --------------------------------------------------------------------------------------------------- */
static void same_answers(hd_script *s, hd_shape shape, const hd_export_opts *opts, const char *options) {
    nets n;
    begin_nets(&n);
    if (!add_net(&n, s, opts)) fail_msg("%s", hd_error_message());
    compile_nets(&n, options);
    net_run r = net_begin(&n, 0);
    hd_tensor *x = hd_randn(shape, HD_F32), *y;
    hd_script_set_input(s, "x", x);
    hd_tensor *expected = output(s, "logits");
    for (int again = 0; again < 2; ++again) {
        assert_int_equal(net_call(&r, s, &x, &y), 0);
        close_to(y, expected, 8, options);
    }
    net_end(&r);
    end_nets(&n);
}

static hd_module *perceptron(void) {
    return HD_SEQUENTIAL(hd_linear(20, 37, NULL), hd_gelu_layer(), hd_linear(37, 10, NULL));
}
static hd_module *network_of_images(void) {
    return HD_SEQUENTIAL(hd_conv_layer(1, 6, HD_SHAPE(3, 3), HD_OPTS(hd_conv_layer_opts, .padding = {{1, 1}, {1, 1}})),
                         hd_batch_norm_layer(6, NULL), hd_relu_layer(), hd_max_pool_layer(HD_SHAPE(2, 2), NULL),
                         hd_flatten_layer(1, -1), hd_linear(96, 10, NULL));
}

static void models_give_the_same_answers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    hd_script *s = inference(perceptron(), HD_SHAPE(13, 20));
    same_answers(s, HD_SHAPE(13, 20), NULL, "-O3");
    same_answers(s, HD_SHAPE(13, 20), NULL, "-O3 -fno-tree-vectorize");
    same_answers(s, HD_SHAPE(13, 20), HD_OPTS(hd_export_opts, .goal = HD_EXPORT_SIZE), "-Os");
    same_answers(s, HD_SHAPE(13, 20), HD_OPTS(hd_export_opts, .alignment = 64), "-O2");
    same_answers(inference(perceptron(), HD_SHAPE(20)), HD_SHAPE(20), NULL, "-O2"); /* one vector, no batch */
    same_answers(inference(perceptron(), HD_SHAPE(20)), HD_SHAPE(20), HD_OPTS(hd_export_opts, .goal = HD_EXPORT_SIZE),
                 "-O2");
    same_answers(inference(network_of_images(), HD_SHAPE(3, 1, 8, 8)), HD_SHAPE(3, 1, 8, 8), NULL, "-O2");
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
static void steps_agree(hd_script *s, int64_t rows, int64_t features, int steps) {
    nets n;
    compile_one(&n, s, HD_OPTS(hd_export_opts, .function = "train_step"));
    net_run r = net_begin(&n, 0);
    r.f->seed(r.net.at, 7);
    hd_seed(7);
    for (int i = 0; i < steps; ++i) {
        HD_SCOPE;
        hd_tensor *loss, *from = hd_arange(0, (double)(rows * features), 1, HD_F32);
        hd_tensor *in[2] = {hd_sin(hd_add_scalar(hd_reshape(from, HD_SHAPE(rows, features)), 0.7 * i)),
                            hd_mod_scalar(hd_arange(i, (double)(rows + i), 1, HD_I64), 3)};
        hd_script_set_input(s, "x", in[0]);
        hd_script_set_input(s, "y", in[1]);
        hd_tensor *expected = output(s, "loss");
        assert_int_equal(net_call(&r, s, in, &loss), 0);
        if (fabs(hd_item(loss) - hd_item(expected)) > 2e-6 * fmax(1, fabs(hd_item(expected))))
            fail_msg("step %d: loss %.9g, not %.9g", i, hd_item(loss), hd_item(expected));
    }
    net_end(&r);
    end_nets(&n);
}

/* A learning rate is a constant, unless all state is wanted where the program may set it. */
static void a_learning_rate_may_be_set(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(2);
    hd_module *model = hd_linear(2, 2, NULL);
    hd_script *s = training(model, hd_sgd(hd_module_parameters(model), 0.5, NULL), HD_SHAPE(2, 2));
    nets n;
    begin_nets(&n);
    if (!add_net(&n, s, NULL) || !add_net(&n, s, HD_OPTS(hd_export_opts, .all_state = true)))
        fail_msg("%s", hd_error_message());
    compile_nets(&n, "");
    net_run few = net_begin(&n, 0), all = net_begin(&n, 1);
    assert_int_equal(all.f->state, few.f->state + sizeof(double));
    bool found = false;
    for (size_t i = 0; i + sizeof(double) <= all.f->state; i += sizeof(double)) {
        double rate;
        memcpy(&rate, all.state.at + i, sizeof rate);
        if (rate != 0.5) continue;
        rate = 0;
        memcpy(all.state.at + i, &rate, sizeof rate);
        found = true;
    }
    assert_true(found);
    hd_tensor *in[2] = {HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3, 4), HD_TENSOR_I64(HD_SHAPE(2), 0, 1)}, *first, *second;
    for (int which = 0; which < 2; ++which) { /* with a rate of 0 nothing is learnt */
        assert_int_equal(net_call(which ? &all : &few, s, in, &first), 0);
        assert_int_equal(net_call(which ? &all : &few, s, in, &second), 0);
        assert_int_equal(hd_item(first) == hd_item(second), which);
    }
    net_end(&few);
    net_end(&all);
    end_nets(&n);
}

static void training_steps_are_the_same_steps(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(2);
    hd_module *model = HD_SEQUENTIAL(hd_linear(5, 16, NULL), hd_relu_layer(), hd_linear(16, 3, NULL));
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
    steps_agree(training(model, adam, HD_SHAPE(6, 5)), 6, 5, 40);
    hd_module *drawing =
        HD_SEQUENTIAL(hd_linear(5, 16, NULL), hd_tanh_layer(), hd_dropout_layer(0.3), hd_linear(16, 3, NULL));
    hd_optimizer *sgd = hd_sgd(hd_module_parameters(drawing), 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.9));
    steps_agree(training(drawing, sgd, HD_SHAPE(6, 5)), 6, 5, 40);
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
/* A cache in which each run writes a row at a place that an index says, and a sum over it. */
static hd_script *cache_of_rows(void) {
    hd_tensor *cache = hd_zeros(HD_SHAPE(4, 3), HD_F32);
    hd_builder *b = started("cache");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *row = hd_input("row", HD_SHAPE(1, 3), HD_F32), *at = hd_input("at", HD_SHAPE(1), HD_I64),
              *pick = hd_input("pick", HD_SHAPE(2), HD_I64);
    hd_tensor *index = hd_broadcast_to(hd_reshape(at, HD_SHAPE(1, 1)), HD_SHAPE(1, 3));
    hd_assign(cache, hd_scatter(cache, 0, index, row, HD_SCATTER_SET));
    hd_assign(hd_narrow(cache, 0, 3, 1), hd_mul_scalar(row, 2));
    hd_builder_add_output(b, "picked", hd_index_select(cache, 0, pick));
    return built(b);
}

static void a_check_that_fails_changes_no_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = cache_of_rows();
    nets n;
    compile_one(&n, s, NULL);
    net_run r = net_begin(&n, 0);
    hd_tensor *in[3] = {HD_TENSOR_F32(HD_SHAPE(1, 3), 1, 2, 3), HD_TENSOR_I64(HD_SHAPE(1), 1),
                        HD_TENSOR_I64(HD_SHAPE(2), 1, -1)};
    hd_tensor *y;
    assert_int_equal(net_call(&r, s, in, &y), 0);
    assert_values(y, HD_F32, 1, 2, 3, 2, 4, 6);
    unsigned char before[256];
    assert_true(r.f->state <= sizeof before);
    memcpy(before, r.state.at, r.f->state);
    static const int64_t bad[][3] = {{4, 1, 1}, {-5, 1, 1}, {0, 1, 4}, {0, -5, 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        in[0] = hd_full(HD_SHAPE(1, 3), HD_F32, 9);
        in[1] = hd_from_data(bad[i], HD_SHAPE(1), HD_I64);
        in[2] = hd_from_data(bad[i] + 1, HD_SHAPE(2), HD_I64);
        assert_true(net_call(&r, s, in, &y) > 0);
        assert_int_equal(r.f->at(r.net.at), i == 2 ? 1 : 0); /* the second of the two that are picked */
        assert_memory_equal(before, r.state.at, r.f->state);
    }
    in[1] = HD_TENSOR_I64(HD_SHAPE(1), -4);
    in[2] = HD_TENSOR_I64(HD_SHAPE(2), 0, 1);
    assert_int_equal(net_call(&r, s, in, &y), 0);
    assert_values(y, HD_F32, 9, 9, 9, 1, 2, 3);
    net_end(&r);
    end_nets(&n);
}

/* An axis without elements has no place for any index, and one of u8 cannot leave an axis of 300: no compiler warns. */
static void every_index_of_an_empty_axis_is_out_of_range(void **state) {
    (void)state;
    HD_SCOPE;
    nets n;
    begin_nets(&n);
    static const hd_dtype dtypes[] = {HD_I64, HD_I8, HD_U8};
    hd_script *s[6];
    for (int i = 0; i < 6; ++i) {
        hd_builder *b = started("empty");
        hd_tensor *x = hd_input("x", i < 3 ? HD_SHAPE(0, 3) : HD_SHAPE(300, 3), HD_F32),
                  *at = hd_input("at", HD_SHAPE(2), dtypes[i % 3]);
        hd_builder_add_output(b, "y", hd_index_select(x, 0, at));
        if (!add_net(&n, s[i] = built(b), NULL)) fail_msg("%s", hd_error_message());
    }
    compile_nets(&n, "");
    for (int i = 0; i < 6; ++i) {
        net_run r = net_begin(&n, i);
        hd_tensor *in[2] = {hd_ones(i < 3 ? HD_SHAPE(0, 3) : HD_SHAPE(300, 3), HD_F32),
                            hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 0, 100), dtypes[i % 3])},
                  *y;
        assert_int_equal(net_call(&r, s[i], in, &y), i < 3 ? 1 : 0);
        net_end(&r);
    }
    end_nets(&n);
}

static void a_divisor_of_zero_is_a_check(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("division");
    hd_tensor *x = hd_input("x", HD_SHAPE(2), HD_I32), *by = hd_input("by", HD_SHAPE(2), HD_I32);
    hd_builder_add_output(b, "y", hd_floor_divide(x, by));
    hd_script *s = built(b);
    nets n;
    compile_one(&n, s, NULL);
    net_run r = net_begin(&n, 0);
    hd_tensor *in[2] = {hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 7, -7), HD_I32),
                        hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 2, 2), HD_I32)},
              *y;
    assert_int_equal(net_call(&r, s, in, &y), 0);
    assert_values(y, HD_I32, 3, -4);
    in[1] = hd_cast(HD_TENSOR_I64(HD_SHAPE(2), 2, 0), HD_I32);
    assert_int_equal(net_call(&r, s, in, &y), 1);
    assert_int_equal(r.f->at(r.net.at), 1);
    net_end(&r);
    end_nets(&n);
}

/* Values of all dtypes go in and come out as they are, also small floats, numbers and what has no elements. */
static void all_dtypes_pass(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BOOL, HD_U8,  HD_U16,  HD_U32,    HD_U64,    HD_I8,  HD_I16, HD_I32,
                                      HD_I64,  HD_F16, HD_BF16, HD_F8E4M3, HD_F8E5M2, HD_F32, HD_F64};
    HD_SCOPE;
    hd_builder *b = started("dtypes");
    hd_tensor *in[NET_VALUES], *out[NET_VALUES];
    enum { COUNT = sizeof dtypes / sizeof dtypes[0] };
    for (int i = 0; i < COUNT; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        hd_tensor *x = hd_input(name, i % 3 == 0 ? HD_SHAPE() : HD_SHAPE(2, 2), dtypes[i]);
        snprintf(name, sizeof name, "y%d", i);
        hd_builder_add_output(b, name, dtypes[i] == HD_BOOL ? hd_logical_not(x) : hd_add(x, x));
        HD_EAGER;
        in[i] = hd_cast(hd_full(i % 3 == 0 ? HD_SHAPE() : HD_SHAPE(2, 2), HD_F32, 3), dtypes[i]);
    }
    hd_script *s = built(b);
    nets n;
    compile_one(&n, s, NULL);
    net_run r = net_begin(&n, 0);
    assert_int_equal(net_call(&r, s, in, out), 0);
    for (int i = 0; i < COUNT; ++i) {
        hd_tensor *first = hd_cast(hd_narrow(hd_reshape(out[i], HD_SHAPE(-1)), 0, 0, 1), HD_F64);
        if (hd_item(first) != (dtypes[i] == HD_BOOL ? 0 : 6))
            fail_msg("%s: %g", hd_dtype_name(dtypes[i]), hd_item(first));
    }
    net_end(&r);
    end_nets(&n);
}

/* ---- what it refuses --------------------------------------------------------------------------------------------- */
static hd_script *named(const char *input, const char *other, const char *result) {
    hd_builder *b = started("named");
    hd_tensor *x = hd_input(input, HD_SHAPE(2), HD_F32), *y = hd_input(other, HD_SHAPE(2), HD_F32);
    hd_builder_add_output(b, result, hd_mul(x, y));
    return built(b);
}

static void refuses(hd_script *s, const char *name, const hd_export_opts *opts, hd_error code, const char *words) {
    char path[600];
    HD_QUIET;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    hd_script_export(s, path, opts);
    assert_error(code, words);
    if (folder_entries(false) != 0) fail_msg("something was written for \"%s\"", words);
}

static void bad_names_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = named("x", "y", "z");
    refuses(s, "9net", NULL, HD_ERROR_VALUE, "9net");
    refuses(s, "a-b", NULL, HD_ERROR_VALUE, "a name of C");
    refuses(s, "int", NULL, HD_ERROR_VALUE, "a name of C");
    refuses(s, "", NULL, HD_ERROR_VALUE, "a name of C");
    refuses(s, "net", HD_OPTS(hd_export_opts, .prefix = "a b"), HD_ERROR_VALUE, "a b");
    refuses(s, "net", HD_OPTS(hd_export_opts, .function = "init"), HD_ERROR_VALUE, "another function");
    refuses(s, "net", HD_OPTS(hd_export_opts, .function = "a b"), HD_ERROR_VALUE, ".function");
    refuses(s, "net", HD_OPTS(hd_export_opts, .alignment = 24), HD_ERROR_VALUE, "a power of two");
    refuses(s, "net", HD_OPTS(hd_export_opts, .goal = (hd_export_goal)7), HD_ERROR_VALUE, ".goal = 7");
    refuses(named("a.b", "a_b", "z"), "net", NULL, HD_ERROR_VALUE, "are both \"a_b\" in C");
    HD_QUIET;
    hd_script_export(s, "/nowhere/net", NULL);
    assert_error(HD_ERROR_STATE, "/nowhere/net.h");
    hd_script_export(s, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "path is NULL");
    hd_script_export(NULL, "net", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "");
}

/* Each value is small enough, all of them together are not. */
static void an_arena_that_no_int_counts_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("large");
    hd_tensor *x = hd_input("x", HD_SHAPE(20000, 20000), HD_F32), *y = hd_matmul(x, x), *z = hd_matmul(y, y);
    hd_builder_add_output(b, "sum", hd_sum(hd_matmul(z, y), HD_AXES(), NULL));
    refuses(built(b), "net", NULL, HD_ERROR_SHAPE, "it takes an arena of 4800000000 bytes");
}

/* A source that cannot be written leaves the old header, which says what the old source needs. */
static void both_files_are_written_or_none(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = named("x", "y", "z");
    write_bytes(in_folder("net.h"), "old", 3);
    assert_int_equal(mkdir(in_folder("net.c"), 0700), 0);
    HD_QUIET;
    hd_script_export(s, in_folder("net"), NULL);
    assert_error(HD_ERROR_STATE, "net.c\" is no regular file");
    const file_bytes left = read_bytes(in_folder("net.h"));
    assert_int_equal(left.size, 3);
    free(left.at);
    assert_int_equal(folder_entries(false), 2);
}

/* A row of a table is added to what is kept; script, an index, an output and state have the same name. */
static hd_script *all_called(const char *name) {
    hd_tensor *kept = hd_zeros(HD_SHAPE(2), HD_F32);
    hd_builder *b = started(name);
    hd_builder_add_state(b, name, kept);
    hd_tensor *table = hd_input("table", HD_SHAPE(2, 2), HD_F32), *at = hd_input(name, HD_SHAPE(2), HD_I64);
    hd_assign(kept, hd_add(hd_matmul(hd_index_select(table, 0, at), kept), hd_rand(HD_SHAPE(2), HD_F32)));
    hd_builder_add_output(b, name, kept);
    return built(b);
}

/* Names of scripts come from files that others made: in C they are names or words of a comment, and nothing else. */
static void odd_names_stay_names(void **state) {
    (void)state;
    HD_SCOPE;
    static const char *const names[] = {/* %d: the number of the net, as in its prefix */
                                        "n",
                                        "i",
                                        "x0",
                                        "size_t",
                                        "uint64_t",
                                        "INFINITY",
                                        "NAN",
                                        "LANES",
                                        "W_INLINE",
                                        "c%d",
                                        "c%d_H",
                                        "C%d_ARENA",
                                        "c%d_run",
                                        "c%d_check_0",
                                        "c%d_check_1",
                                        "c%d_kernel_1",
                                        "NET_NAN",
                                        "_Bool",
                                        "and",
                                        "linux",
                                        "__LINE__",
                                        "INT32_MAX",
                                        "NULL",
                                        "1 */ int bad; /*",
                                        "\xe2\x80\xae",
                                        "a\nb\\",
                                        "?\?/\n"};
    enum { COUNT = sizeof names / sizeof names[0] };
    nets n;
    hd_script *s[COUNT];
    begin_nets(&n);
    for (int i = 0; i < COUNT; ++i) {
        char name[64], path[32];
        const char *number = strstr(names[i], "%d");
        if (number == NULL)
            snprintf(name, sizeof name, "%s", names[i]);
        else
            snprintf(name, sizeof name, "%.1s%d%s", names[i], i, number + 2);
        if (!add_net(&n, s[i] = all_called(name), NULL)) fail_msg("\"%s\": %s", name, hd_error_message());
        snprintf(path, sizeof path, "c%d.h", i);
        if (file_says(in_folder(path), "*/ int bad")) fail_msg("a name became code");
    }
    compile_nets(&n, "");
    for (int i = 0; i < COUNT; ++i) {
        net_run r = net_begin(&n, i);
        hd_tensor *in[2] = {HD_TENSOR_F32(HD_SHAPE(2, 2), 1, 2, 3, 4), HD_TENSOR_I64(HD_SHAPE(2), 1, 0)}, *y;
        assert_int_equal(net_call(&r, s[i], in, &y), 0);
        if (hd_item(hd_sum(y, HD_AXES(), NULL)) <= 0) fail_msg("\"%s\" gives nothing", names[i]);
        net_end(&r);
    }
    end_nets(&n);
}

/* y_out, but where that is another's name; and names of state, however long and alike, are words of a comment. */
static void names_that_meet_are_told_apart(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *kept[2] = {hd_zeros(HD_SHAPE(2), HD_F32), hd_zeros(HD_SHAPE(2), HD_F32)};
    char name[2][128];
    hd_builder *b = started("meeting");
    for (int i = 0; i < 2; ++i) {
        snprintf(name[i], sizeof name[i], "%0100d%s", 7, i == 0 ? ".a" : "_a");
        hd_builder_add_state(b, name[i], kept[i]);
    }
    hd_tensor *other = hd_input("y_out", HD_SHAPE(2), HD_F32), *y = hd_input("y", HD_SHAPE(2), HD_F32);
    for (int i = 0; i < 2; ++i) hd_add_(kept[i], y);
    hd_builder_add_output(b, "y", hd_add(y, other));
    hd_script *s = built(b);
    nets n;
    compile_one(&n, s, NULL);
    end_nets(&n);
    refuses(named("y", "x", "z"), "net", HD_OPTS(hd_export_opts, .function = "kernel_0"), HD_ERROR_VALUE,
            "another function");
    refuses(named("y", "x", "z"), "net", HD_OPTS(hd_export_opts, .function = "c0"), HD_ERROR_VALUE, "a constant");
    refuses(named("y", "x", "z"), "size_t", NULL, HD_ERROR_VALUE, "a name of C");
    refuses(named("y", "x", "z"), "a\"b", HD_OPTS(hd_export_opts, .prefix = "net"), HD_ERROR_VALUE, "included");
    snprintf(name[0], sizeof name[0], "%0100d", 7);
    refuses(named("y", name[0], "z"), "net", NULL, HD_ERROR_VALUE, "100 bytes");
}

static void all_that_c_lacks_is_named_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("lacks");
    hd_tensor *x = hd_input("x", HD_SHAPE(3, 3), HD_F32);
    hd_builder_add_output(b, "a", hd_inv(x));
    hd_builder_add_output(b, "b", hd_cholesky(x, false));
    hd_script *s = built(b);
    refuses(s, "net", NULL, HD_ERROR_STATE, "2 of ");
    refuses(s, "net", NULL, HD_ERROR_STATE, "inv: linear algebra");
    refuses(s, "net", NULL, HD_ERROR_STATE, "cholesky: linear algebra");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* All of the arena is used: its last bytes are written in a run. */
static void the_arena_is_no_larger_than_needed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("chain");
    hd_tensor *x = hd_input("x", HD_SHAPE(4, 4), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(hd_matmul(hd_matmul(x, x), x), x));
    hd_script *s = built(b);
    nets n;
    compile_one(&n, s, NULL);
    net_run r = net_begin(&n, 0);
    assert_int_equal(r.f->arena, 2 * 16 * sizeof(float));
    memset(r.arena.at, NET_FILL, r.f->arena);
    hd_tensor *in = hd_randn(HD_SHAPE(4, 4), HD_F32), *y;
    assert_int_equal(net_call(&r, s, &in, &y), 0);
    for (size_t i = 0; i + 4 < r.f->arena; i += 4) {
        static const unsigned char fill[4] = {NET_FILL, NET_FILL, NET_FILL, NET_FILL};
        if (memcmp(r.arena.at + i, fill, 4) == 0) fail_msg("bytes %zu to %zu of the arena are not used", i, i + 3);
    }
    net_end(&r);
    end_nets(&n);
}

static void export_something(void) {
    char path[600];
    HD_QUIET;
    snprintf(path, sizeof path, "%s/net", folder);
    hd_builder *b = hd_builder_new("net");
    hd_tensor *w = hd_full(HD_SHAPE(16, 16), HD_F32, 0.5);
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 16), HD_F32);
    hd_builder_add_state(b, "w", w);
    hd_tensor *y = hd_matmul(x, w);
    hd_builder_add_output(b, "y", hd_softmax(y, 1));
    hd_builder_add_output(b, "best", hd_argmax(y, 1, NULL));
    hd_assign(w, hd_mul_scalar(w, 0.5));
    hd_builder_end(b);
    hd_script_export(hd_builder_build(b), path, NULL);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(export_something, 2000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {TEST(models_give_the_same_answers),
                                       TEST(training_steps_are_the_same_steps),
                                       TEST(a_learning_rate_may_be_set),
                                       TEST(a_check_that_fails_changes_no_state),
                                       TEST(every_index_of_an_empty_axis_is_out_of_range),
                                       TEST(a_divisor_of_zero_is_a_check),
                                       TEST(all_dtypes_pass),
                                       TEST(bad_names_are_errors),
                                       TEST(an_arena_that_no_int_counts_is_an_error),
                                       TEST(both_files_are_written_or_none),
                                       TEST(odd_names_stay_names),
                                       TEST(names_that_meet_are_told_apart),
                                       TEST(all_that_c_lacks_is_named_at_once),
                                       TEST(the_arena_is_no_larger_than_needed),
                                       TEST(every_allocation_may_fail)};
    return cmocka_run_group_tests_name("export/nets", tests, NULL, NULL);
}
