/* Ops of the user's in scripts: at all levels, in files, in texts, in compiled models; and what leaves a run. */
#include "files.h"
#include "graph/graph.h"
#include "each_allocation.h"
#include "own_ops.h"

#define S HD_SHAPE
#define F HD_F32
enum { LEVELS = 4 };

/* ---- ops that count, fail and jump ------------------------------------------------------------------------------- */
static int runs;
static enum { FINE, SAYS, RAISES, JUMPS } doing;
static jmp_buf back;
static const char *counted(hd_custom_args *args) {
    ++runs;
    own_same_compute(args);
    if (doing == SAYS) return "not today";
    if (doing == RAISES) hd_matmul(hd_ones(S(2, 3), F), hd_ones(S(7), F));
    if (doing == JUMPS) longjmp(back, 1);
    return NULL;
}
static hd_tensor *count(const char *name, bool has_effects, hd_tensor *x) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = name;
    op.inputs = 1;
    op.compute = counted;
    op.has_effects = has_effects;
    hd_custom_register(&op);
    return hd_custom(name, HD_TENSORS(x), NULL, 0);
}
static hd_tensor *pure(hd_tensor *x) { return count("own.pure", false, x); }
static hd_tensor *effect(hd_tensor *x) { return count("own.effect", true, x); }

static void at_level(hd_script *s, int level) { hd_script_set_optimization_level(s, (hd_optimization_level)level); }

/* ---- running ----------------------------------------------------------------------------------------------------- */
static hd_tensor *mixed(hd_tensor *x) {
    hd_tensors *both = both_ways(hd_relu(hd_t(x)), cubed(hd_add_scalar(hd_t(x), 1), 0.5));
    return hd_sum(hd_mul(hd_tensors_get(both, 0), hd_exp(hd_tensors_get(both, 1))), HD_AXES(0), NULL);
}

static void levels_agree_with_eager_calls(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(S(2, 3), 1, -2, 0.5, 0.25, -1, 2), *expected = mixed(x);
    hd_builder *b = started("mixed");
    hd_builder_add_output(b, "y", mixed(hd_input("x", S(2, 3), F)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    for (int level = HD_O0; level < HD_O0 + LEVELS; ++level) {
        at_level(s, level);
        for (int i = 0; i < 2; ++i) assert_close(output(s, "y"), expected, 1e-5, 1e-6);
        assert_true(hd_script_check(s).relative < 1e-5);
        assert_ok();
    }
    const hd_script_figures f = hd_script_stats(s);
    bool named = false;
    for (int64_t i = 0; i < f.launches; ++i) {
        hd_launch_stats stats;
        s->executable->describe(s->executable, i, &stats);
        named = named || strstr(stats.what, "custom \"own.cube\"") != NULL;
    }
    assert_true(named); /* what profiles print */
}

static void gradients_are_recorded(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(3), 1, 2, -3));
    hd_builder *b = started("gradient");
    hd_builder_add_state(b, "x", x);
    hd_backward(hd_mul_scalar(cubed(x, 2), 0.5));
    hd_builder_add_output(b, "g", hd_grad(x));
    hd_script *s = built(b);
    for (int level = HD_O0; level < HD_O0 + LEVELS; ++level) {
        at_level(s, level);
        assert_values(output(s, "g"), F, 3, 12, 27);
    }
}

static void calls_run_as_often_as_they_say(void **state) {
    (void)state;
    for (int level = HD_O0; level < HD_O0 + LEVELS; ++level) {
        HD_SCOPE;
        hd_builder *b = started("counting");
        hd_tensor *x = hd_input("x", S(2), F);
        pure(x); /* nobody reads it */
        hd_builder_add_output(b, "y", hd_add(pure(x), pure(x)));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_ones(S(2), F));
        at_level(s, level);
        runs = 0;
        for (int i = 0; i < 2; ++i) assert_values(output(s, "y"), F, 2, 2);
        assert_int_equal(runs, level == HD_O0 ? 6 : 2);

        b = started("effects");
        x = hd_input("x", S(2), F);
        effect(hd_neg(x));
        effect(x);
        effect(x);
        hd_builder_add_output(b, "y", hd_neg(x));
        s = built(b);
        hd_script_set_input(s, "x", hd_ones(S(2), F));
        at_level(s, level);
        runs = 0;
        for (int i = 0; i < 2; ++i) assert_values(output(s, "y"), F, -1, -1);
        assert_int_equal(runs, 6); /* O3 makes no trial runs of them */
    }
}

static hd_tensor *own_forward(hd_module *m, hd_tensor *x) { return effect(hd_mul(cubed(x, 1), hd_module_get(m, "w"))); }
static void compiled_models_have_them(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class class_ = {.name = "own", .forward = own_forward};
    hd_module *m = hd_module_new(&class_, NULL);
    hd_module_add_parameter(m, "w", hd_param(hd_full(S(2), F, 2)));
    hd_module *c = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_module_eval(c);
    HD_NO_GRAD;
    runs = 0;
    for (int i = 0; i < 3; ++i) assert_values(hd_forward(c, HD_TENSOR_F32(S(2), 1, -2)), F, 2, -16);
    assert_int_equal(runs, 3);
}

static hd_tensor *cube_forward(hd_module *m, hd_tensor *x) { return hd_mul(cubed(x, 1), hd_module_get(m, "w")); }
static void compiled_models_are_trained_through_them(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class class_ = {.name = "cube", .forward = cube_forward};
    hd_module *m = hd_module_new(&class_, NULL);
    hd_tensor *w = hd_module_add_parameter(m, "w", hd_param(hd_full(S(2), F, 2)));
    hd_module *c = hd_compile(m, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *x = hd_requires_grad(HD_TENSOR_F32(S(2), 1, -2));
    hd_backward(hd_forward(c, x));
    assert_values(hd_grad(w), F, 1, -8);
    assert_values(hd_grad(x), F, 6, 24);
    hd_clear_tape();
}

/* ---- what goes wrong in a run ------------------------------------------------------------------------------------ */
static hd_script *stateful(hd_tensor *cell) {
    hd_builder *b = started("stateful");
    hd_builder_add_state(b, "cell", cell);
    hd_tensor *x = hd_input("x", S(2, 2), F);
    hd_tensor *y = pure(hd_add(x, hd_rand(S(2, 2), F)));
    hd_assign(hd_slice(cell, 0, 0, 1, 1), hd_slice(hd_neg(x), 0, 0, 1, 1));
    hd_builder_add_output(b, "y", hd_add(y, cell));
    return built(b);
}

/* A run of each kind; true when it was left by a jump. */
static bool is_left(hd_script *s) {
    HD_SCOPE;
    if (setjmp(back) != 0) return true;
    const hd_outputs *o = hd_script_run(s);
    assert_true((o != NULL) == (doing == FINE));
    return false;
}
static void try_run(hd_script *s, hd_tensor *cell, int round) {
    doing = round % 2 == 0 ? FINE : round == 1 ? SAYS : round == 3 ? RAISES : JUMPS;
    const uint64_t draw = hd_generator_draw(NULL);
    const int64_t objects = hd_live_objects();
    assert_true(is_left(s) == (doing == JUMPS));
    if (doing == SAYS) assert_error(HD_ERROR_VALUE, "hd_script_run: the op \"own.pure\": not today (in node");
    if (doing == RAISES) assert_error(HD_ERROR_SHAPE, "in the op \"own.pure\"");
    assert_ok();
    if (doing == FINE) {
        assert_values(cell, F, -1, -1, 5, 5);
        hd_fill(cell, 5);
        return;
    }
    assert_values(cell, F, 5, 5, 5, 5);
    assert_true(hd_generator_draw(NULL) == draw);
    assert_int_equal(hd_live_objects(), objects);
}

static void a_run_that_fails_or_is_left_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(3);
    for (int level = HD_O0; level < HD_O0 + LEVELS; ++level) {
        HD_SCOPE;
        hd_tensor *cell = hd_full(S(2, 2), F, 5);
        hd_script *s = stateful(cell);
        hd_script_set_input(s, "x", hd_ones(S(2, 2), F));
        at_level(s, level);
        for (int round = 0; round < 6; ++round) {
            try_run(s, cell, round);
            assert_true(hd_tensor_requires_grad(hd_neg(hd_param(hd_ones(S(1), F))))); /* the tape watches again */
            hd_clear_tape();
        }
        doing = FINE;
    }
}

static int64_t wished_size = 2;
static const char *changing_shapes(hd_custom_args *args) {
    args->outputs[0]->shape.size[0] = wished_size;
    return NULL;
}
static const char *fill_zeros(hd_custom_args *args) {
    memset(args->outputs[0]->data, 0, (size_t)args->outputs[0]->count * 4);
    return NULL;
}
static void an_op_that_changes_its_mind_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = "own.changing";
    op.inputs = 1;
    op.shapes = changing_shapes;
    op.compute = fill_zeros;
    hd_custom_register(&op);
    hd_builder *b = started("changing");
    hd_builder_add_output(b, "y", hd_custom("own.changing", HD_TENSORS(hd_input("x", S(2), F)), NULL, 0));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(2), F));
    assert_values(output(s, "y"), F, 0, 0);
    wished_size = 1 << 20;
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "the op \"own.changing\" does not give what it said when it was recorded");
    wished_size = 2;
    assert_values(output(s, "y"), F, 0, 0);
}

static void run_small(void) {
    hd_builder *b = hd_builder_new("small");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", S(2), F);
    hd_builder_add_output(b, "y", hd_tensors_get(both_ways(x, hd_neg(x)), 0));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_ones(S(2), F));
    hd_script_run(s);
}
static void every_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(run_small, 2000);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */
static void reads(const char *attributes, const char *wrong) {
    char text[2048];
    snprintf(text, sizeof text,
             "script \"t\"\n%%0 = input \"x\" : f32[2]\n%%1 = custom %%0 {%s} : f32[2]\noutput \"y\" = %%1\n",
             attributes);
    hd_graph *g = hd_graph_parse(hd_thread_self(), text);
    if (wrong != NULL) {
        assert_null(g);
        if (strstr(hd_error_message(), wrong) == NULL) fail_msg("%s: %s", attributes, hd_error_message());
        hd_error_clear();
    } else if (g == NULL) {
        fail_msg("%s: %s", attributes, hd_error_message());
    }
    hd_graph_release(hd_thread_self(), g);
}
static void texts_are_checked(void **state) {
    (void)state;
    char longer[700];
    own_same();
    own_cube();
    reads("op = \"own.same\", data = \"\"", NULL);
    reads("op = \"own.same\", data = \"00ff7a\"", NULL);
    reads("op = \"own.cube\", data = \"0000000000000840\"", NULL);
    reads("op = \"own.cube\", data = \"00\"", "its attributes are a double");
    reads("op = \"own.same\", data = \"0\"", "hexadecimal");
    reads("op = \"own.same\", data = \"0g\"", "hexadecimal");
    reads("op = \"own.nobody\", data = \"\"", "this process has no op \"own.nobody\"");
    reads("op = \"\", data = \"\"", "this process has no op \"\"");
    reads("op = \"own.same\"", "expected");
    memset(longer, 'a', sizeof longer);
    memcpy(longer, "op = \"", 6);
    memcpy(longer + 100, "\", data = \"\"", 13);
    reads(longer, "end of a name");
    snprintf(longer, sizeof longer, "op = \"own.same\", data = \"%0*d\"", 2 * HD_CUSTOM_ATTRIBUTES_MOST, 0);
    reads(longer, NULL);
    snprintf(longer, sizeof longer, "op = \"own.same\", data = \"%0*d\"", 2 * HD_CUSTOM_ATTRIBUTES_MOST + 2, 0);
    reads(longer, "end of a name");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
#if HD_HAS_FILES
static const char *saved_script(void) {
    hd_builder *b = started("saved");
    hd_tensor *x = hd_input("x", S(3), F);
    hd_builder_add_output(b, "y", hd_tensors_get(both_ways(cubed(x, 0.5), x), 1));
    hd_script_save(built(b), in_folder("own"));
    assert_ok();
    return in_folder("own.hoduscript");
}

static void files_know_them_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = hd_script_load(saved_script());
    assert_ok();
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(3), 1, 2, 3));
    assert_values(output(s, "y"), F, -0.5, 2, 10.5);
}

/* What a process that has not registered it is told. */
static void a_file_with_an_unknown_op_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    const char *path = saved_script();
    file_bytes b = read_bytes(path);
    bool found = false;
    for (size_t i = 0; i + 8 < b.size; ++i)
        if (memcmp(b.at + i, "own.cube", 8) == 0) {
            memcpy(b.at + i, "own.cubX", 8);
            found = true;
        }
    assert_true(found);
    sign(b, false);
    write_bytes(path, b.at, b.size);
    assert_null(hd_script_load(path));
    assert_error(HD_ERROR_VALUE, "this process has no op \"own.cubX\" of its own; hd_custom_register registers it");
    free(b.at);
}

static void hostile_attributes_are_refused_or_run(void **state) {
    (void)state;
    HD_SCOPE;
    const char *path = saved_script();
    file_bytes b = read_bytes(path);
    unsigned char *at = section_bytes(b, "ATTR");
    const size_t size = get_u64(section_entry(b, "ATTR") + 16);
    int refused = 0, taken = 0;
    static const unsigned char values[] = {0, 1, 7, 8, 63, 241, 255};
    for (size_t i = 0; i < size; ++i)
        for (size_t v = 0; v < sizeof values; ++v) {
            HD_SCOPE;
            const unsigned char before = at[i];
            at[i] = values[v];
            sign(b, false);
            write_bytes(path, b.at, b.size);
            hd_script *s = hd_script_load(path);
            if (s != NULL) {
                hd_script_set_input(s, "x", hd_ones(S(3), F));
                hd_script_run(s);
            }
            if (hd_ok())
                ++taken;
            else
                ++refused;
            hd_error_clear();
            at[i] = before;
        }
    assert_true(refused > 20 && taken > 20);
    free(b.at);
}
#define FILE_TESTS                                                                                                     \
    file_test(files_know_them_by_name), file_test(a_file_with_an_unknown_op_is_refused),                               \
        file_test(hostile_attributes_are_refused_or_run),
#else
#define FILE_TESTS
#endif

RUN(test(levels_agree_with_eager_calls), test(gradients_are_recorded), test(calls_run_as_often_as_they_say),
    test(compiled_models_have_them), test(compiled_models_are_trained_through_them),
    test(a_run_that_fails_or_is_left_changes_nothing), test(an_op_that_changes_its_mind_is_refused),
    FILE_TESTS test(texts_are_checked), test(every_allocation_may_fail))
