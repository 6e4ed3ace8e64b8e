/* Graphs as text: what is printed can be read again and prints the same, for every op, attribute and kind of node; what
 * means nothing is an error that names the line. */
#include "graph/programs.h"
#include "script/script.h"

/* ---- there and back ---------------------------------------------------------------------------------------------- */
/* Prints g, reads that, and prints what was read: the same text. Marks the ops it has. */
static void comes_back(const hd_graph *g, const char *what, bool *seen) {
    char *before = text_of(g);
    hd_graph *again = hd_graph_parse(hd_thread_self(), before);
    if (again == NULL) fail_msg("%s: %s\n%s", what, hd_error_message(), before);
    char *after = text_of(again);
    if (strcmp(before, after) != 0) fail_msg("%s:\n%s\nbecame\n%s", what, before, after);
    assert_int_equal(again->node_count, g->node_count);
    assert_int_equal(again->draws, g->draws);
    for (uint32_t i = 0; i < g->node_count; ++i) {
        assert_int_equal(again->nodes[i].op, g->nodes[i].op);
        assert_int_equal(again->nodes[i].derivative, g->nodes[i].derivative);
        assert_int_equal(again->nodes[i].compute, g->nodes[i].compute);
        if (hd_node_is_op(&g->nodes[i]) && seen != NULL) seen[g->nodes[i].op] = true;
    }
    hd_graph_release(hd_thread_self(), again);
    free(before);
    free(after);
}

/* Inputs are bound tensors that require gradients where they are floats. */
static void bind_all(hd_builder *b, hd_tensor **in, int count) {
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < count; ++i) {
        if (hd_dtype_is_float(hd_tensor_dtype(in[i]))) hd_requires_grad(in[i]);
        hd_builder_bind(b, names[i], in[i]);
    }
}
static void add_gradients(hd_builder *b, hd_tensor *y, hd_tensor **in, int count) {
    static const char *const names[] = {"da", "db", "dc"};
    if (!hd_tensor_requires_grad(y) || !hd_dtype_is_float(hd_tensor_dtype(y))) return;
    hd_backward(y);
    for (int i = 0; i < count; ++i)
        if (hd_has_grad(in[i])) hd_builder_add_output(b, names[i], hd_grad(in[i]));
}

static void every_row_and_its_derivatives_come_back(void **state) {
    (void)state;
    bool derivative[HD_OP_ELEMENTWISE_COUNT] = {false};
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        HD_SCOPE;
        hd_builder *b = started(hd_ops[id].name);
        hd_tensor *in[3];
        int count;
        row_operands(id, in, &count);
        bind_all(b, in, count);
        hd_tensor *y = hd_run_row(hd_thread_self(), (hd_op_id)id, in, row_numbers);
        hd_builder_add_output(b, "y", y);
        add_gradients(b, y, in, count);
        hd_builder_end(b);
        if (!hd_ok()) fail_msg("%s: %s", hd_ops[id].name, hd_error_message());
        const hd_graph *g = hd_builder_graph(b);
        assert_non_null(g);
        comes_back(g, hd_ops[id].name, NULL);
        for (uint32_t i = 0; i < g->node_count; ++i)
            derivative[g->nodes[i].op < HD_OP_ELEMENTWISE_COUNT ? g->nodes[i].op : id] |= g->nodes[i].derivative != 0;
    }
    assert_true(derivative[HD_OP_exp] && derivative[HD_OP_mul] && derivative[HD_OP_lerp] && derivative[HD_OP_clamp]);
}

/* Call k with its gradients, recorded. */
static hd_builder *recorded_call(int k) {
    hd_tensor *in[3];
    const int count = call_operands(k, in);
    hd_builder *b = started(calls[k].name);
    bind_all(b, in, count);
    hd_tensor *y = run_call(in, &calls[k]);
    hd_builder_add_output(b, "y", y);
    add_gradients(b, y, in, count);
    hd_builder_end(b);
    if (!hd_ok()) fail_msg("%s: %s", calls[k].name, hd_error_message());
    return b;
}

static void every_primitive_comes_back(void **state) {
    (void)state;
    bool seen[HD_OP_COUNT] = {false};
    for (int k = 0; k < CALL_COUNT; ++k) {
        HD_SCOPE;
        hd_builder *b = recorded_call(k);
        comes_back(hd_builder_graph(b), calls[k].name, seen);
    }
    for (int id = HD_OP_ELEMENTWISE_COUNT; id < HD_OP_COUNT; ++id)
        if (!seen[id] && (hd_ops[id].family != HD_FAMILY_LINALG || has_lapack()))
            fail_msg("%s is in no call of calls.h", hd_ops[id].name);
}

static void every_dtype_comes_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("dtypes");
    for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
        char name[3][32];
        const char *kinds[] = {"input", "output", "number"};
        for (int i = 0; i < 3; ++i) snprintf(name[i], sizeof name[i], "%s of %s", kinds[i], hd_dtype_name((hd_dtype)d));
        hd_tensor *x = hd_input(name[0], S(2, d), (hd_dtype)d), *constant;
        {
            HD_EAGER;
            constant = hd_full(S(1), (hd_dtype)d, 1);
        }
        hd_builder_add_output(b, name[1], hd_eq(x, constant));
        hd_builder_add_output(b, name[2], hd_where(hd_eq(x, constant), hd_scalar(1, (hd_dtype)d), x));
    }
    hd_builder_end(b);
    comes_back(hd_builder_graph(b), "dtypes", NULL);
    assert_ok();
}

/* ---- constants --------------------------------------------------------------------------------------------------- */
/* The constant of a text, as the graph holds it, is this tensor. */
static void constant_comes_back(hd_tensor *t, const char *what) {
    hd_builder *b = started("constant");
    hd_builder_add_output(b, "y", hd_concat(LIST(t, t), 0));
    hd_builder_end(b);
    hd_graph *g = hd_builder_graph(b);
    if (g == NULL) fail_msg("%s: %s", what, hd_error_message());
    comes_back(g, what, NULL);
    char *text = text_of(g);
    hd_graph *again = hd_graph_parse(hd_thread_self(), text);
    assert_int_equal(again->constant_count, 1);
    const hd_storage *s = again->constants[0].storage, *was = g->constants[0].storage;
    if (s->bytes != was->bytes || memcmp(s->data, was->data, s->bytes) != 0)
        fail_msg("%s: other values after\n%s", what, text);
    hd_graph_release(hd_thread_self(), again);
    free(text);
}

static void constants_keep_every_bit(void **state) {
    (void)state;
    HD_SCOPE;
    const double doubles[] = {0.1, -0.0, INFINITY, -INFINITY, 5e-324, 1.7976931348623157e308, 1.0 / 3, 123456789.125};
    constant_comes_back(hd_from_data(doubles, S(2, 4), HD_F64), "f64");
    const float floats[] = {0.1f, -0.0f, INFINITY, 1e-45f, 3.4e38f, 16777216.0f, 1.0f / 3, -7};
    constant_comes_back(hd_from_data(floats, S(8), HD_F32), "f32");
    for (int d = HD_F8E4M3; d <= (int)HD_F16; ++d)
        constant_comes_back(hd_cast(hd_from_data(floats, S(8), HD_F32), (hd_dtype)d), hd_dtype_name((hd_dtype)d));
    constant_comes_back(hd_from_data((const bool[]){true, false}, S(2), HD_BOOL), "bool");
    constant_comes_back(hd_from_data((const int8_t[]){-128, 127}, S(2), HD_I8), "i8");
    constant_comes_back(hd_from_data((const uint32_t[]){0, UINT32_MAX}, S(2), HD_U32), "u32");
    constant_comes_back(hd_zeros(S(0, 3), HD_F32), "empty");
    assert_ok();
}

static void large_integers_keep_every_bit(void **state) {
    (void)state;
    HD_SCOPE;
    constant_comes_back(hd_from_data((const int64_t[]){INT64_MIN, INT64_MAX, (1ll << 53) + 1}, S(3), HD_I64), "i64");
    constant_comes_back(hd_from_data((const uint64_t[]){0, UINT64_MAX, (1ull << 63) + 1}, S(3), HD_U64), "u64");
    assert_ok();
}

static void values_of_large_constants_are_not_in_the_text(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("large");
    hd_builder_add_output(b, "y", hd_neg(operand(S(9), 0, HD_F32)));
    hd_builder_end(b);
    char *text = text_of(hd_builder_graph(b));
    assert_non_null(strstr(text, "constant #0 : f32[9]"));
    assert_null(hd_graph_parse(hd_thread_self(), text));
    assert_error(HD_ERROR_VALUE, "line 2: the values of this constant are not in the text");
    free(text);
}

/* ---- names, spans, writes ---------------------------------------------------------------------------------------- */
static void any_name_comes_back(void **state) {
    (void)state;
    HD_SCOPE;
    static const char *const names[] = {
        "plain",    "with space",    "\"quoted\"", "back\\slash\\", "new\nline\ttab\x01\x7f", "호두 скрипт", "a\\x41b",
        "%1 = add", "// no comment", "@ span",     "\xff\xfe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
        HD_SCOPE;
        hd_tensor *w = operand(S(2), 0, HD_F32), *v = operand(S(2), 1, HD_F32);
        hd_builder *b = started(names[i]);
        hd_builder_add_state(b, names[i], w);
        hd_tensor *x = hd_input(names[i], S(2), HD_F32);
        hd_builder_bind(b, i == 0 ? "other" : names[i - 1], v);
        hd_assign(w, hd_add(x, v));
        hd_builder_add_output(b, names[i], hd_mul(x, w));
        hd_builder_end(b);
        comes_back(hd_builder_graph(b), names[i], NULL);
        char *text = text_of(hd_builder_graph(b));
        hd_graph *again = hd_graph_parse(hd_thread_self(), text);
        assert_string_equal(hd_graph_string(again, again->name), names[i]);
        assert_string_equal(hd_graph_string(again, again->inputs[0].name), names[i]);
        assert_string_equal(hd_graph_string(again, again->outputs[0].name), names[i]);
        assert_string_equal(hd_graph_string(again, again->cells[0].name), names[i]);
        hd_graph_release(hd_thread_self(), again);
        free(text);
    }
}

/* A builder takes names of any length, so text must too. */
static void long_names_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    char name[2001];
    for (size_t i = 0; i < sizeof name - 1; ++i) name[i] = (char)('a' + i % 26);
    name[sizeof name - 1] = '\0';
    hd_builder *b = started(name);
    hd_builder_add_output(b, name, hd_exp(hd_input(name, S(2), HD_F32)));
    hd_builder_end(b);
    comes_back(hd_builder_graph(b), "a long name", NULL);
}

static void writes_and_state_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = operand(S(4, 3), 0, HD_F32), *step = hd_scalar(2, HD_F64), *m = operand(S(3, 2), 1, HD_F16);
    hd_builder *b = started("writes");
    hd_builder_add_state(b, "cache", cache);
    hd_builder_add_state(b, "step", step);
    hd_tensor *x = hd_input("x", S(3), HD_F32);
    hd_assign(hd_select(cache, 0, 1), x);
    hd_add_(hd_slice(cache, 1, HD_END, HD_END, -2), hd_scalar(2, HD_F32));
    hd_fill(hd_diagonal(m, 0, 0, 1), 0.5);
    hd_mul_(hd_t(m), hd_t(m));
    hd_assign(step, hd_add_scalar(step, 1));
    hd_zero_(hd_narrow(cache, 0, 0, 0));
    hd_builder_add_output(b, "sum", hd_sum(hd_mul(hd_t(cache), step), X(), NULL));
    hd_builder_add_output(b, "m", m);
    hd_builder_add_output(b, "cache", cache);
    hd_builder_end(b);
    comes_back(hd_builder_graph(b), "writes", NULL);
    char *text = text_of(hd_builder_graph(b));
    assert_non_null(strstr(text, "\n%0 = state \"cache\" : f32[4,3]\n"));
    assert_non_null(strstr(text, " = write %"));
    assert_non_null(strstr(text, "layout = [3] by [1] from 3}"));
    assert_non_null(strstr(text, "\nupdate \"cache\" = %"));
    assert_non_null(strstr(text, "\nupdate \"step\" = %"));
    free(text);
}

static hd_tensor *own_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    return hd_softmax(hd_mean(x, X(0), NULL), 0);
}
static void spans_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class own = {.name = "own", .forward = own_forward};
    hd_builder *b = started("spans");
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32);
    hd_module *m = hd_module_new(&own, NULL);
    hd_tensor *y = hd_forward(m, hd_log_softmax(x, 1));
    hd_builder_add_output(b, "y", hd_std(hd_roll(y, 1, 0), X(), 1, NULL));
    hd_builder_add_output(b, "z", hd_std(hd_std(x, X(0), 1, NULL), X(), 1, NULL)); /* two of a name, side by side */
    hd_builder_end(b);
    const hd_graph *g = hd_builder_graph(b);
    comes_back(g, "spans", NULL);
    char *text = text_of(g);
    assert_non_null(strstr(text, "@ log_softmax"));
    assert_non_null(strstr(text, "@ std\n"));
    free(text);
}

/* A module's class may have any name. */
static void spans_of_odd_names_come_back(void **state) {
    (void)state;
    static const char *const odd[] = {"a/b",        "a b", "new\nline",  "// no comment", "@",
                                      "\"quoted\"", "",    "x : f32[2]", " before",       "after "};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; ++i) {
        HD_SCOPE;
        static hd_module_class own; /* a class outlives its modules */
        own = (hd_module_class){.name = odd[i], .forward = own_forward};
        hd_builder *b = started("odd");
        hd_builder_add_output(b, "y", hd_forward(hd_module_new(&own, NULL), hd_input("x", S(2, 3), HD_F32)));
        hd_builder_end(b);
        if (!hd_ok()) fail_msg("%s", hd_error_message());
        comes_back(hd_builder_graph(b), odd[i], NULL);
    }
}

static hd_tensor *nested_forward(hd_module *m, hd_tensor *x) {
    const int depth = *(int *)hd_module_state(m);
    if (depth == 0) return hd_neg(x);
    static const hd_module_class inner = {.name = "inner", .forward = nested_forward};
    int less = depth - 1;
    return hd_forward(hd_module_new(&inner, &less), x);
}
static void deep_spans_come_back(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class outer = {.name = "outer", .forward = nested_forward};
    int depth = 150;
    hd_builder *b = started("deep");
    hd_builder_add_output(b, "y", hd_forward(hd_module_new(&outer, &depth), hd_input("x", S(2), HD_F32)));
    hd_builder_end(b);
    assert_ok();
    comes_back(hd_builder_graph(b), "deep spans", NULL);
}

/* Text is for people too: spaces, empty lines, comments, and numbers of nodes that are not in order. */
/* Products of all kinds, of f32 and of bf16, with gradients of the first, in which the precision of the thread is set
 * before the calls and before the gradients. */
static hd_graph *products(hd_matmul_precision forward, hd_matmul_precision backward) {
    hd_tensor *w = hd_requires_grad(hd_ones(HD_SHAPE(3, 3), HD_F32));
    hd_builder *b = started("products");
    hd_builder_bind(b, "w", w);
    hd_tensor *x = hd_input("x", HD_SHAPE(2, 3), HD_F32), *images = hd_input("images", HD_SHAPE(1, 3, 5), HD_F32),
              *kernel = hd_input("kernel", HD_SHAPE(3, 3, 2), HD_F32),
              *half = hd_input("half", HD_SHAPE(3, 3), HD_BF16);
    hd_set_matmul_precision(forward);
    hd_tensor *y = hd_matmul(x, w);
    hd_builder_add_output(b, "affine", hd_affine(x, w, NULL));
    hd_builder_add_output(b, "conv", hd_conv(images, kernel, NULL, NULL));
    hd_builder_add_output(b, "transpose", hd_conv_transpose(images, kernel, NULL, NULL));
    hd_builder_add_output(b, "weight", hd_conv_weight_gradient(images, images, HD_SHAPE(1), NULL));
    hd_builder_add_output(b, "half", hd_matmul(half, hd_affine(half, half, NULL)));
    hd_builder_add_output(b, "mixed", hd_matmul(x, half));
    hd_set_matmul_precision(backward);
    hd_backward(hd_sum(y, HD_AXES(), NULL));
    hd_set_matmul_precision(HD_MATMUL_EXACT);
    hd_builder_add_output(b, "dw", hd_grad(w));
    hd_builder_end(b);
    assert_ok();
    hd_graph *g = hd_builder_graph(b);
    assert_non_null(g);
    return g;
}

/* How many lines of a text have both words. */
static int lines_of(const char *text, const char *word, const char *other) {
    int count = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n'), *at = strstr(line, word), *too = strstr(line, other);
        count += end != NULL && at != NULL && at < end && too != NULL && too < end;
        line = end != NULL ? end + 1 : NULL;
    }
    return count;
}

static void products_say_their_precision(void **state) {
    (void)state;
    static const char said[] = "precision = 1";
    for (int forward = HD_MATMUL_EXACT; forward <= HD_MATMUL_TF32; ++forward)
        for (int backward = HD_MATMUL_EXACT; backward <= HD_MATMUL_TF32; ++backward) {
            HD_SCOPE;
            const hd_graph *g = products((hd_matmul_precision)forward, (hd_matmul_precision)backward);
            char *text = text_of(g);
            assert_int_equal(lines_of(text, "= matmul", said), forward * 2 + backward); /* y, mixed; dw */
            assert_int_equal(lines_of(text, "= affine", said), forward);
            assert_int_equal(lines_of(text, "= conv", said), forward * 3);
            assert_int_equal(lines_of(text, ": bf16", said), 0);
            assert_int_equal(lines_of(text, "%", "precision"), forward * 6 + backward); /* a 0 is not said */
            free(text);
            comes_back(g, "products", NULL);
        }
}

static void handwriting_is_read(void **state) {
    (void)state;
    static const char text[] = "\n  // a comment\n"
                               "script   \"hand\"   // another\n\n"
                               "\t%7 = input \"x\" : f32[2, 3]\n"
                               "%100 = full {value=1.5}:f32[]  @ a / b\n"
                               "%3=add %7,%100 : f32[2,3] // \"quote\n"
                               "%4 = sum %3 { reduced = [ 1 ] , keep_dims = false } : f32[2]\n"
                               "output \"y\" = %4\n"
                               "output \"z\"=%7";
    hd_graph *g = hd_graph_parse(hd_thread_self(), text);
    if (g == NULL) fail_msg("%s", hd_error_message());
    assert_int_equal(g->node_count, 4);
    comes_back(g, "handwriting", NULL);
    hd_graph_release(hd_thread_self(), g);
}

/* ---- what means nothing ------------------------------------------------------------------------------------------ */
/* A text that is no graph: an error that names the line. Complaints are counted, so that a test says all of them. */
static int complaints;
static void is_refused(const char *body, const char *expected) {
    /* in memory of its own length, so that reading past its end is noticed */
    char *text = malloc(strlen(body) + 1);
    strcpy(text, body);
    hd_graph *g = hd_graph_parse(hd_thread_self(), text);
    if (g != NULL || hd_ok() || strstr(hd_error_message(), expected) == NULL) {
        ++complaints;
        const char *last = strrchr(body, '\n') != NULL ? strrchr(body, '\n') + 1 : body;
        print_error("should say \"%s\", says \"%s\"%s: %s\n", expected, hd_error_message(),
                    g != NULL ? " (was taken)" : "", last);
    }
    hd_graph_release(hd_thread_self(), g);
    hd_error_clear();
    free(text);
    assert_int_equal(hd_live_objects(), 0);
}
/* Each of these lines below the head is refused, with an error that says this. */
static void are_refused(const char *head, const char *expected, const char *const *lines, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        char text[512];
        assert_in_range(snprintf(text, sizeof text, "%s%s", head, lines[i]), 0, (int)sizeof text - 1);
        is_refused(text, expected);
    }
}
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define no_complaints()                                                                                                \
    do {                                                                                                               \
        const int before_ = complaints;                                                                                \
        complaints = 0;                                                                                                \
        assert_int_equal(before_, 0);                                                                                  \
    } while (0)
#define HEAD "script \"s\"\n%0 = input \"x\" : f32[2,3]\n%1 = input \"i\" : i32[2,3]\n" /* lines 1 to 3 */

#define SORTED "script \"s\"\n%0 = input \"x\" : f32[2,3]\n%1 = sort %0 {axis = 1, descending = false} : f32[2,3]\n"
static void other_outputs_are_those_of_a_call(void **state) {
    (void)state;
    is_refused(SORTED "%2 = output 1 of %0 : i64[2,3]", "output 1 of input, which has no such output");
    is_refused(SORTED "%2 = neg %1 : f32[2,3]\n%3 = output 1 of %2 : i64[2,3]", "output 1 of neg, which has no such");
    is_refused(SORTED "%2 = output 1 of %1 : f32[2,3]", "gives i64[2,3], not f32[2,3]");
    is_refused(SORTED "%2 = output 1 of %1 : i64[3,2]", "gives i64[2,3], not i64[3,2]");
    is_refused(SORTED "%2 = output 0 of %1 : f32[2,3]", "line 4: expected another output than the first");
    is_refused(SORTED "%2 = output 2 of %1 : i64[2,3]", "line 4: expected another output than the first");
    is_refused(SORTED "%2 = output 1 of %2 : i64[2,3]", "line 4");
    is_refused(SORTED "%2 = output 1 %1 : i64[2,3]", "line 4: expected of");
    is_refused(SORTED "%2 = output 1 of %1, %0 : i64[2,3]", "line 4");
    hd_graph *g =
        hd_graph_parse(hd_thread_self(), SORTED "%2 = output 1 of %1 : i64[2,3]\n%3 = output 1 of %1 : i64[2,3]\n"
                                                "output \"a\" = %2\noutput \"b\" = %3\n");
    assert_ok();
    hd_graph_release(hd_thread_self(), g);
    no_complaints();
}

static void what_is_not_a_graph_is_refused(void **state) {
    (void)state;
    is_refused("", "line 1: expected script");
    is_refused("\n\n", "expected script");
    is_refused("%0 = input \"x\" : f32[]", "line 1: expected script");
    static const char *const alone[] = {
        "script",
        "script x",
        "script \"x",
        "script \"x\nscript \"y\"",
    };
    are_refused("", "line 1", alone, COUNT(alone));
    is_refused("script \"x\" y", "line 1: expected the end of the line");
    is_refused("script \"x\"\nscript \"y\"", "line 2");
    static const char *const below[] = {
        "hello",
        "output",
        "output \"y\"",
        "output \"y\" = ",
        "output \"y\" = 0",
        "output \"y\" = %",
        "output \"y\" = %0 %1",
        "%2 =",
        "%2 = : f32[]",
        "% = neg %0 : f32[2,3]",
        "%-1 = neg %0 : f32[2,3]",
        "%2 neg %0 : f32[2,3]",
    };
    are_refused(HEAD, "line 4", below, COUNT(below));
    is_refused(HEAD "update \"x\" = %0", "line 4: expected the name of a state");
    no_complaints();
}

static void names_that_do_not_end_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "script \"",      "script \"\\",      "script \"\\x",     "script \"\\x4",
        "script \"\\x41", "script \"\\xzz\"", "script \"a\\x4\"", "script \"a\\x00b\"", /* a name has no 0 in it */
    };
    are_refused("", "line 1", lines, COUNT(lines));
    no_complaints();
}

static void wrong_nodes_are_refused_by_line(void **state) {
    (void)state;
    is_refused(HEAD "%2 = frobnicate %0 : f32[2,3]", "line 4: there is no op \"frobnicate\"");
    is_refused(HEAD "%2 = neg %9 : f32[2,3]", "line 4: expected a node that was defined");
    static const char *const lines[] = {
        "%2 = neg %2 : f32[2,3]",
        "output \"y\" = %9",
        "%2 = neg %0",
        "%2 = neg %0 : f32",
        "%2 = neg %0 : f33[2,3]",
        "%2 = neg %0 : f32[2,3",
        "%2 = neg %0 : f32[2,3] extra",
        "%2 = neg %0 : f32[1,1,1,1,1,1,1,1,6]",
        "%2 = neg'9 %0 : f32[2,3]",
        "%2 = sum %0 : f32[2]",
        "%2 = sum %0 {} : f32[2]",
        "%2 = sum %0 {reduced = [0]} : f32[3]",
        "%2 = sum %0 {reduced = [0], keep_dims = maybe} : f32[3]",
        "%2 = sum %0 {reduced = [8], keep_dims = false} : f32[3]",
        "%2 = sum %0 {reduced = [0], keep_dims = false, more = 1} : f32[3]",
        "%2 = clamp %0 {p = , q = 1} : f32[2,3]",
        "%2 = constant {1, 2} : f32[3]",
        "%2 = constant {1, 2,, 3} : f32[3]",
        "%2 = constant {1 2 3} : f32[3]",
        "%2 = constant {1,2,3,4,5,6,7,8,9} : f32[9]",
        "%2 = constant : f32[]",
    };
    are_refused(HEAD, "line 4", lines, COUNT(lines));
    is_refused(HEAD "%0 = neg %0 : f32[2,3]", "line 4: expected a node that was not defined yet");
    is_refused(HEAD "%2 = neg'0 %0 : f32[2,3]\n%3 = matmul'0 %0, %0 : f32[]", "line 5");
    no_complaints();
}

/* What only the ops themselves notice, says where it is too. */
static void calls_that_no_program_could_make_are_refused_by_line(void **state) {
    (void)state;
    static const char *const lines[] = {
        "%2 = neg %0 : f32[3,2]",
        "%2 = neg %0 : f64[2,3]",
        "%2 = neg %0, %0 : f32[2,3]",
        "%2 = add %0 : f32[2,3]",
        "%2 = add %0, %1 : i32[2,3]",
        "%2 = bitwise_and %0, %0 : f32[2,3]",
        "%2 = where %0, %0, %0 : f32[2,3]",
        "%2 = matmul %0, %0 : f32[2,2]",
        "%2 = sum %0 {reduced = [5], keep_dims = false} : f32[2,3]",
        "%2 = sum %0 {reduced = [], keep_dims = false} : f32[]",
        "%2 = argmax %0 {reduced = [0, 1], keep_dims = false} : i64[]",
        "%2 = reshape %0 {shape = [4]} : f32[4]",
        "%2 = permute %0 {axes = [0, 0]} : f32[2,2]",
        "%2 = broadcast_to %0 {shape = [2, 4]} : f32[2,4]",
        "%2 = slice %0 {axis = 1, start = 2, count = 2, step = 1} : f32[2,2]",
        "%2 = slice %0 {axis = 2, start = 0, count = 1, step = 1} : f32[2,3]",
        "%2 = as_strided %0 {layout = [4] by [2] from 0} : f32[4]",
        "%2 = as_strided %0 {layout = [4] by [] from 0} : f32[4]",
        "%2 = as_strided %0 {layout = [2] by [1] from -1} : f32[2]",
        "%2 = bitcast %0 {dtype = f64} : f64[2,3]",
        "%2 = gather %0, %0 {axis = 0} : f32[2,3]",
        "%2 = scatter %0, %1, %0 {axis = 0, mode = 77} : f32[2,3]",
        "%2 = concat {axis = 0} : f32[2,3]",
        "%2 = full {value = 300} : u8[2]",
        "%2 = uniform {draw = 0, a = 2, b = 1, low = 0, high = 0, with_replacement = false} : f32[2]",
        "%2 = randint {draw = 0, a = 0, b = 0, low = 3, high = 3, with_replacement = false} : i64[2]",
        "%2 = exp'0 %0, %0 : f32[3,2]",
        "%2 = exp'0 %0 : f32[2,3]",
        "%2 = exp'1 %0, %0 : f32[2,3]",
        "%2 = exp'0 %1, %1 : i32[2,3]",
    };
    are_refused(HEAD, "line 4", lines, COUNT(lines));
    no_complaints();
}

static void precisions_that_no_call_has_are_refused(void **state) {
    (void)state;
#define PRODUCTS "script \"s\"\n%0 = input \"x\" : f32[2,2]\n%1 = input \"y\" : bf16[2,2]\n"
#define PLAIN    "{transpose_a = false, transpose_b = false, precision = "
    is_refused(PRODUCTS "%2 = matmul %0, %0 " PLAIN "2} : f32[2,2]", "a precision of 2; it is 0, exact, or 1, TF32");
    is_refused(PRODUCTS "%2 = affine %0, %0 {precision = -1} : f32[2,2]", "a precision of -1");
    is_refused(PRODUCTS "%2 = matmul %1, %1 " PLAIN "1} : bf16[2,2]", "attributes that no call leaves behind");
    is_refused(PRODUCTS "%2 = affine %1, %1 {precision = 1} : bf16[2,2]", "attributes that no call leaves behind");
    is_refused(PRODUCTS "%2 = affine %0, %0 {} : f32[2,2]", "attributes that no call leaves behind");
    is_refused(PRODUCTS "%2 = affine %0, %0 {precision = 1 : f32[2,2]", "line 4: expected }");
    is_refused(PRODUCTS "%2 = matmul %0, %0 {transpose_a = true} : f32[2,2]", "line 4: expected ,");
    hd_graph *g = hd_graph_parse(hd_thread_self(), PRODUCTS "%2 = matmul %0, %0 " PLAIN "1} : f32[2,2]\n"
                                                            "%3 = matmul %1, %0 " PLAIN "1} : f32[2,2]\n"
                                                            "%4 = affine %0, %2 {precision = 1} : f32[2,2]\n"
                                                            "output \"a\" = %3\noutput \"b\" = %4\n");
    assert_ok();
    hd_graph_release(hd_thread_self(), g);
    assert_int_equal(hd_current_matmul_precision(), HD_MATMUL_EXACT);
#undef PRODUCTS
#undef PLAIN
    no_complaints();
}

static void comparisons_of_nothing_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "%2 = eq : bool[2]",
        "%2 = isnan : bool[]",
        "%2 = logical_and %0 : bool[2,3]",
    };
    are_refused(HEAD, "line 4", lines, COUNT(lines));
    no_complaints();
}

static void wrong_writes_are_refused(void **state) {
    (void)state;
#define WRITES HEAD "%2 = state \"w\" : f32[4]\n%3 = full {value = 1} : f32[2]\n"
    static const char *const lines[] = {
        "%4 = write %2, %3 : f32[4]",
        "%4 = write %2 {layout = [2] by [1] from 0} : f32[4]",
        "%4 = write %2, %3, %3 {layout = [2] by [1] from 0} : f32[4]",
        "%4 = write %2, %3 {layout = [3] by [1] from 0} : f32[4]",
        "%4 = write %2, %3 {layout = [2] by [1] from 3} : f32[4]",
        "%4 = write %2, %3 {layout = [2] by [0] from 0} : f32[4]",
        "%4 = write %2, %3 {layout = [2] by [1] from 0} : f32[2]",
        "%4 = write %2, %1 {layout = [2,3] by [1,1] from 0} : f32[4]",
        "update \"w\" = %3",
        "update \"v\" = %3",
    };
    are_refused(WRITES, "line 6", lines, COUNT(lines));
    is_refused(WRITES "%4 = bound \"b\" : f32[2]\nupdate \"b\" = %3", "line 7");
    is_refused(WRITES "%4 = full {value = 1} : f32[1,2]\n"
                      "%5 = write %2, %4 {layout = [1, 2] by [9, 1] from 0} : f32[4]", /* a step where there is none */
               "line 7");
    is_refused(WRITES "%4 = neg %2 : f32[4]\nupdate \"w\" = %4\nupdate \"w\" = %2", "line 8");
    no_complaints();
}

/* As in a program, a name is given once. */
static void names_given_twice_are_refused(void **state) {
    (void)state;
    is_refused(HEAD "%2 = input \"x\" : f32[2]", "line 4");
    static const char *const lines[] = {
        "output \"y\" = %0\noutput \"y\" = %1",
        "%2 = state \"w\" : f32[2]\n%3 = state \"w\" : f32[2]",
        "%2 = state \"w\" : f32[2]\n%3 = bound \"w\" : f32[2]",
    };
    are_refused(HEAD, "line 5", lines, COUNT(lines));
    no_complaints();
}

static void huge_numbers_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "%99999999999999999999 = neg %0 : f32[2,3]",
        "%2 = neg %99999999999999999999 : f32[2,3]",
        "%2 = neg %18446744073709551616 : f32[2,3]", /* 2^64: no node 0 */
        "%2 = neg %4294967296 : f32[2,3]",           /* 2^32: no node 0 */
        "%2 = full {value = 0} : f32[99999999999999999999]",
        "%2 = full {value = 0} : f32[4611686018427387904, 4]",
        "%2 = full {value = 0} : f32[-1]",
        "%2 = concat %0, %0 {axis = 4294967296} : f32[4,3]", /* 2^32: no axis 0 */
        "%2 = permute %0 {axes = [4294967297, 0]} : f32[3,2]",
        "%2 = as_strided %0 {layout = [2] by [9223372036854775807] from 9223372036854775807} : f32[2]",
        "%2 = slice %0 {axis = 0, start = 1, count = 2, step = 9223372036854775807} : f32[2,3]",
        "%2 = pad %0 {padding = [9223372036854775807, 9223372036854775807], value = 0} : f32[2,3]",
        "%2 = permutation {draw = 4294967295, a = 0, b = 0, low = 0, high = 0, with_replacement = false} : i64[2]",
        "%2 = permutation {draw = -1, a = 0, b = 0, low = 0, high = 0, with_replacement = false} : i64[2]",
    };
    are_refused(HEAD, "line 4", lines, COUNT(lines));
    no_complaints();
}

/* A short text does not make much memory, whatever number its node has. */
static void a_large_node_number_takes_no_memory(void **state) {
    (void)state;
    hd_graph *g = hd_graph_parse(hd_thread_self(),
                                 "script \"s\"\n%200000000 = full {value = 1} : f32[]\noutput \"y\" = %200000000");
    char line[256];
    long kilobytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    if (f != NULL) fclose(f);
    hd_graph_release(hd_thread_self(), g);
    hd_error_clear(); /* refusing it is right, too */
    if (kilobytes > 1 << 20) fail_msg("%ld MB for a text of three lines", kilobytes >> 10);
}

/* A text says of each call what the call itself would say: axes from the end, sizes of -1 are resolved or refused,
 * never handed on to what runs. */
static void attributes_are_resolved_or_refused(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "%2 = permute %0 {axes = [-1, 0]} : f32[3,2]",
        "%2 = permute %0 {axes = [-1, -2]} : f32[3,2]",
        "%2 = reshape %0 {shape = [-1]} : f32[6]",
        "%2 = reshape %0 {shape = [3, -1]} : f32[3,2]",
        "%2 = slice %0 {axis = -1, start = 0, count = 2, step = 1} : f32[2,2]",
        "%2 = slice %0 {axis = 1, start = 7, count = 0, step = 1} : f32[2,0]",
        "%2 = unfold %0 {axis = -1, start = 0, count = 2, step = 1} : f32[2,2,2]",
        "%2 = diagonal %0 {offset = 0, axis1 = -2, axis2 = -1} : f32[2]",
        "%2 = concat %0, %0 {axis = -1} : f32[2,6]",
        "%2 = gather %0, %1 {axis = -1} : f32[2,3]",
        "%2 = index_select %0, %4 {axis = -1} : f32[2,2]",
        "%2 = scatter %0, %1, %0 {axis = -1, mode = 1} : f32[2,3]",
        "%2 = broadcast_to %0 {shape = [-1, 2, 3]} : f32[1,2,3]",
        "%2 = pad %0 {padding = [1, 0, 0, 0, 5, 5], value = 0} : f32[3,3]",
        "%2 = range {start = 0, step = 5, last = 1, has_last = true} : f32[3]",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; ++i) {
        HD_SCOPE;
        char text[512];
        snprintf(text, sizeof text, "%s%s\n%s", HEAD "%4 = constant {0, 1} : i64[2]\n", bodies[i],
                 "output \"y\" = %2\n");
        hd_graph *g = hd_graph_parse(hd_thread_self(), text);
        if (g == NULL) { /* refused */
            assert_false(hd_ok());
            hd_error_clear();
            continue;
        }
        for (uint32_t k = 0; k < g->node_count; ++k) {
            const hd_node *n = &g->nodes[k];
            const void *attributes = hd_node_attributes(g, k);
            if (n->op == HD_OP_permute)
                for (int j = 0; j < 2; ++j)
                    if (((const hd_axes *)attributes)->axis[j] < 0)
                        fail_msg("axis %d kept: %s", ((const hd_axes *)attributes)->axis[j], bodies[i]);
            if ((n->op == HD_OP_slice || n->op == HD_OP_unfold || n->op == HD_OP_concat || n->op == HD_OP_gather ||
                 n->op == HD_OP_index_select || n->op == HD_OP_scatter) &&
                *(const int *)attributes < 0)
                fail_msg("axis %d kept: %s", *(const int *)attributes, bodies[i]);
            if (n->op == HD_OP_diagonal && ((const hd_diagonal_attributes *)attributes)->axis1 < 0)
                fail_msg("axis kept: %s", bodies[i]);
            if (n->op == HD_OP_reshape || n->op == HD_OP_broadcast_to)
                for (int j = 0; j < ((const hd_shape *)attributes)->rank; ++j)
                    if (((const hd_shape *)attributes)->size[j] < 0) fail_msg("size -1 kept: %s", bodies[i]);
            if (n->op == HD_OP_range && ((const hd_range_attributes *)attributes)->step == 5)
                fail_msg("a step that is not one: %s", bodies[i]);
        }
        hd_graph_release(hd_thread_self(), g);
    }
}

/* Every beginning of a text, and every text with one character changed, is read or refused; nothing else happens. */
static void damaged_texts_do_no_harm(void **state) {
    (void)state;
    static const char good[] =
        HEAD "%2 = state \"w\\x09\" : f32[2,3]\n"
             "%3 = constant {1, -2.5e-3, inf} : f32[3]\n"
             "%4 = mul %0, %3 : f32[2,3] @ a/b\n"
             "%5 = exp'0 %4, %0 : f32[2,3]\n"
             "%6 = slice %5 {axis = 1, start = 2, count = 2, step = -1} : f32[2,2]\n"
             "%7 = write %2, %6 {layout = [2, 2] by [3, 1] from 1} : f32[2,3]\n"
             "%8 = eq %7, %3 : bool[2,3]\n"
             "%9 = normal {draw = 0, a = 0, b = 1, low = 0, high = 0, with_replacement = false} : f32[2]\n"
             "output \"y\" = %8\noutput \"z\" = %9\nupdate \"w\\x09\" = %7\n";
    hd_graph *g = hd_graph_parse(hd_thread_self(), good);
    if (g == NULL) fail_msg("%s", hd_error_message());
    hd_graph_release(hd_thread_self(), g);
    const size_t length = strlen(good);
    static const char changes[] = "\"\\%{}[]:=,'@/0-9x \n\x01\xff";
    for (size_t i = 0; i < length; ++i) {
        for (size_t k = 0; k < sizeof changes; ++k) { /* the last one is the end of the text */
            char *text = malloc(length + 1);
            memcpy(text, good, length + 1);
            text[i] = changes[k];
            if (changes[k] == '\0') text = realloc(text, i + 1);
            g = hd_graph_parse(hd_thread_self(), text);
            assert_int_equal(g == NULL, !hd_ok());
            hd_graph_release(hd_thread_self(), g);
            hd_error_clear();
            free(text);
        }
    }
}

/* ---- texts that somebody changed --------------------------------------------------------------------------------- */
/* What was read can be compiled and run, whatever it says: an error at most. */
static void run_it(hd_graph *g) {
    HD_SCOPE;
    for (uint32_t i = 0; i < g->node_count; ++i)
        if (hd_node_bytes(g, i) > 1 << 20) return; /* right, but slow */
    if (g->output_count == 0) return;
    for (int level = HD_O0; level <= HD_O2; level += 2) {
        HD_SCOPE;
        hd_script *s = hd_script_over(hd_thread_self(), g, true);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        for (uint32_t i = 0; i < g->input_count; ++i) {
            const uint32_t node = g->inputs[i].node;
            hd_script_set_input(s, hd_graph_string(g, g->inputs[i].name),
                                hd_ones(hd_node_shape(g, node), (hd_dtype)g->nodes[node].dtype));
        }
        hd_script_run(s);
        hd_error_clear();
    }
}

static void change(dice *d, char *text, size_t length) {
    static const char digits[] = "0123456789-", others[] = "%{}[],:= .'\"ftnaei/@";
    for (int n = 1 + below(d, 3); n > 0; --n) {
        size_t at = (size_t)(roll(d) % length);
        if (below(d, 4) > 0) /* numbers, most of the time */
            for (int tries = 0; tries < 20 && strchr("0123456789", text[at]) == NULL; ++tries)
                at = (size_t)(roll(d) % length);
        text[at] =
            below(d, 5) > 0 ? digits[below(d, (int)sizeof digits - 1)] : others[below(d, (int)sizeof others - 1)];
    }
}

static void changed_texts_run_or_are_refused(void **state) {
    (void)state;
    const char *seed = getenv("HODU_SEED");
    dice d = {seed != NULL ? strtoull(seed, NULL, 10) : 1};
    int taken = 0;
    for (int k = 0; k < CALL_COUNT; ++k) {
        HD_SCOPE;
        hd_builder *b = recorded_call(k);
        char *good = text_of(hd_builder_graph(b));
        const size_t length = strlen(good);
        for (int round = 0; round < 60; ++round) {
            char *text = malloc(length + 1);
            memcpy(text, good, length + 1);
            change(&d, text, length);
            hd_graph *g = hd_graph_parse(hd_thread_self(), text);
            assert_int_equal(g == NULL, !hd_ok());
            hd_error_clear();
            if (g != NULL && when_compiled((uint64_t)taken, 37)) run_it(g);
            taken += g != NULL;
            hd_graph_release(hd_thread_self(), g);
            free(text);
        }
        free(good);
    }
    assert_true(taken > 100);
}

/* Random programs come back too, where their constants are in the text. */
static void random_programs_come_back(void **state) {
    (void)state;
    int back = 0;
    for (uint64_t program = 0; program < 300; ++program) {
        HD_SCOPE;
        values outside = {.count = 0}, recorded = {.count = 0};
        make_outside(program, &outside);
        hd_builder *b = record_program(program, 5 + (int)(program % 30), &recorded, &outside);
        hd_graph *g = hd_builder_graph(b);
        if (g == NULL) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
        bool whole = true;
        for (uint32_t i = 0; i < g->node_count; ++i)
            whole = whole && !(g->nodes[i].op == HD_NODE_CONSTANT && hd_node_count(g, i) > 8);
        if (!whole) continue;
        char name[32];
        snprintf(name, sizeof name, "program %llu", (unsigned long long)program);
        comes_back(g, name, NULL);
        ++back;
    }
    assert_true(back > 100);
}

RUN(test(every_row_and_its_derivatives_come_back), test(every_primitive_comes_back), test(every_dtype_comes_back),
    test(constants_keep_every_bit), test(large_integers_keep_every_bit),
    test(values_of_large_constants_are_not_in_the_text), test(any_name_comes_back), test(long_names_come_back),
    test(writes_and_state_come_back), test(spans_come_back), test(spans_of_odd_names_come_back),
    test(deep_spans_come_back), test(products_say_their_precision), test(handwriting_is_read),
    test(other_outputs_are_those_of_a_call), test(what_is_not_a_graph_is_refused),
    test(names_that_do_not_end_are_refused), test(wrong_nodes_are_refused_by_line),
    test(calls_that_no_program_could_make_are_refused_by_line), test(precisions_that_no_call_has_are_refused),
    test(comparisons_of_nothing_are_refused), test(wrong_writes_are_refused), test(names_given_twice_are_refused),
    test(huge_numbers_are_refused), test(a_large_node_number_takes_no_memory), test(attributes_are_resolved_or_refused),
    test(damaged_texts_do_no_harm), test(changed_texts_run_or_are_refused), test(random_programs_come_back))
