/* Scripts: inputs, outputs, compiling, choosing, looking, faults, draws, clones. */
#include "graph/calls.h"
#include "script/script.h"

/* ---- small scripts ----------------------------------------------------------------------------------------------- */
/* y = 2 x, x f32[2]. */
static hd_script *doubles(void) {
    hd_builder *b = started("doubles");
    hd_builder_add_output(b, "y", hd_mul_scalar(hd_input("x", S(2), HD_F32), 2));
    return built(b);
}
/* sum = a + b + c, f32[]. */
static hd_script *adds(void) {
    hd_builder *b = started("adds");
    hd_tensor *x = hd_input("a", S(), HD_F32), *y = hd_input("b", S(), HD_F32), *z = hd_input("c", S(), HD_F32);
    hd_builder_add_output(b, "sum", hd_add(hd_add(x, y), z));
    return built(b);
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */
static void inputs_stay_set(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = adds();
    hd_script_set_input(s, "a", hd_scalar(1, HD_F32));
    hd_script_add_input(s, "b", hd_scalar(10, HD_F32));
    {
        HD_SCOPE;
        hd_script_set_input(s, "c", hd_scalar(100, HD_F32)); /* kept, though its scope ends */
    }
    assert_values(output(s, "sum"), HD_F32, 111);
    assert_values(output(s, "sum"), HD_F32, 111);
    hd_script_set_input(s, "b", hd_scalar(20, HD_F32));
    assert_values(output(s, "sum"), HD_F32, 121);
}

static void very_many_inputs_and_outputs_are_found_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    enum { MANY = 20000 };
    char name[32];
    hd_builder *b = started("many");
    for (int i = 0; i < MANY; ++i) {
        HD_SCOPE;
        snprintf(name, sizeof name, "value %d", i); /* an input and an output may share a name */
        hd_builder_add_output(b, name, hd_neg(hd_input(name, S(), HD_F32)));
    }
    assert_ok();
    assert_null(hd_input("value 777", S(), HD_F32));
    assert_error(HD_ERROR_VALUE, "there is an input \"value 777\" already");
    hd_builder_add_output(b, "value 19999", hd_input("another", S(), HD_F32));
    assert_error(HD_ERROR_VALUE, "there is an output \"value 19999\" already");
    hd_script *s = built(b);
    hd_script_set_input(s, "another", hd_scalar(0, HD_F32));
    for (int i = 0; i < MANY; ++i) {
        HD_SCOPE;
        snprintf(name, sizeof name, "value %d", i);
        hd_script_set_input(s, name, hd_scalar(i, HD_F32));
    }
    hd_outputs *o = hd_script_run(s);
    assert_int_equal(hd_outputs_count(o), MANY);
    for (int i = 0; i < MANY; ++i) {
        HD_SCOPE;
        snprintf(name, sizeof name, "value %d", i);
        assert_true(hd_item(hd_outputs_get(o, name)) == -i);
    }
    assert_null(hd_outputs_get(o, "value 20000"));
    assert_error(HD_ERROR_VALUE, "there is no output \"value 20000\"");
}

static void missing_inputs_are_all_listed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = adds();
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE,
                 "hd_script_run: 3 inputs are not set: \"a\", \"b\", \"c\"; hd_script_set_input does that");
    hd_script_set_input(s, "b", hd_scalar(1, HD_F32));
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "2 inputs are not set: \"a\", \"c\"");
    hd_script_set_input(s, "a", hd_scalar(1, HD_F32));
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "1 input is not set: \"c\"");
    hd_script_set_input(s, "c", hd_scalar(1, HD_F32));
    assert_values(output(s, "sum"), HD_F32, 3);
    hd_script_clear_inputs(s);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "3 inputs are not set");
    assert_int_equal(hd_script_stats(s).runs, 1);
}

static void very_many_missing_inputs_are_still_a_message(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("many");
    hd_tensor *sum = hd_scalar(0, HD_F32);
    for (int i = 0; i < 300; ++i) {
        char name[64];
        snprintf(name, sizeof name, "an input with a rather long name, number %d", i);
        sum = hd_add(sum, hd_input(name, S(), HD_F32));
    }
    hd_builder_add_output(b, "sum", sum);
    hd_script *s = built(b);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "300 inputs are not set: \"an input with a rather long name, number 0\"");
    hd_script_set_input(s, "nothing", hd_scalar(0, HD_F32));
    assert_error(HD_ERROR_VALUE, "has no input \"nothing\"");
    for (int i = 0; i < 300; ++i) {
        char name[64];
        snprintf(name, sizeof name, "an input with a rather long name, number %d", i);
        hd_script_set_input(s, name, hd_scalar(i, HD_F32));
    }
    assert_values(output(s, "sum"), HD_F32, 300 * 299 / 2);
}

static void inputs_are_of_their_type(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_tensor *good = HD_TENSOR_F32(S(2), 1, 2);
    hd_script_set_input(s, "x", good);
    hd_script_set_input(s, "z", good);
    assert_error(HD_ERROR_VALUE, "hd_script_set_input: the script \"doubles\" has no input \"z\"; it has \"x\"");
    hd_script_set_input(s, NULL, good);
    assert_error(HD_ERROR_VALUE, "has no input");
    hd_script_set_input(s, "x", hd_ones(S(3), HD_F32));
    assert_error(HD_ERROR_SHAPE, "the input \"x\" is f32 [2]; given is f32 [3]");
    hd_script_set_input(s, "x", hd_ones(S(2, 1), HD_F32));
    assert_error(HD_ERROR_SHAPE, "the input \"x\" is f32 [2]; given is f32 [2,1]");
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F64));
    assert_error(HD_ERROR_DTYPE, "the input \"x\" is f32 [2]; given is f64 [2]");
    hd_script_set_input(s, "x", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`t`");
    hd_tensor *gone = hd_ones(S(2), HD_F32);
    hd_release(gone);
    hd_script_set_input(s, "x", gone);
    assert_error(HD_ERROR_RELEASED, "hd_script_set_input:");
    assert_values(output(s, "y"), HD_F32, 2, 4); /* the good one is set still */
}

static void inputs_may_lie_in_any_way(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("layouts");
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32);
    hd_builder_add_output(b, "y", hd_add(x, x));
    hd_builder_add_output(b, "x", x);
    hd_script *s = built(b);
    hd_tensor *base = HD_TENSOR_F32(S(3, 4), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    hd_script_set_input(s, "x", hd_t(hd_slice(base, 1, 3, 1, -1))); /* columns 3 and 2 */
    assert_values(output(s, "y"), HD_F32, 6, 14, 22, 4, 12, 20);
    hd_script_set_input(s, "x", hd_broadcast_to(HD_TENSOR_F32(S(1), 5), S(2, 3)));
    assert_values(output(s, "y"), HD_F32, 10, 10, 10, 10, 10, 10);
    hd_script_set_input(s, "x",
                        hd_narrow(hd_reshape(base, S(4, 3)), 0, 2, 2)); /* contiguous, in the middle of another */
    assert_values(output(s, "x"), HD_F32, 6, 7, 8, 9, 10, 11);
}

static void inputs_are_read_when_a_run_begins(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_tensor *x = HD_TENSOR_F32(S(2), 1, 2), *m = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4);
    hd_script_set_input(s, "x", x);
    hd_outputs *first = hd_script_run(s);
    hd_fill(x, 5);
    assert_values(output(s, "y"), HD_F32, 10, 10);
    ((float *)hd_data_mut(x, HD_F32))[0] = 7;
    assert_values(output(s, "y"), HD_F32, 14, 10);
    hd_script_set_input(s, "x", hd_select(m, 1, 0)); /* a view: the script sees what becomes of its tensor */
    assert_values(output(s, "y"), HD_F32, 2, 6);
    hd_fill(m, 3);
    assert_values(output(s, "y"), HD_F32, 6, 6);
    assert_values(hd_outputs_get(first, "y"), HD_F32, 2, 4);
}

static void one_tensor_may_be_every_input(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = adds();
    hd_tensor *x = hd_scalar(3, HD_F32);
    hd_script_set_input(s, "a", x);
    hd_script_set_input(s, "b", x);
    hd_script_set_input(s, "c", x);
    assert_values(output(s, "sum"), HD_F32, 9);
    hd_script_set_input(s, "a", hd_script_output(s, "sum")); /* an output as the next input */
    assert_values(output(s, "sum"), HD_F32, 15);
    assert_values(output(s, "sum"), HD_F32, 15);
}

/* A run is noted on no tape, whatever its inputs are. */
static void runs_are_noted_on_no_tape(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("tape");
    hd_builder_add_output(b, "y", hd_mul_scalar(hd_input("x", S(3, 2), HD_F32), 2));
    hd_script *s = built(b);
    hd_tensor *w = hd_param(operand(S(2, 3), 0, HD_F32)), *v = hd_param(operand(S(3, 2), 0, HD_F32));
    hd_script_set_input(s, "x", v);
    assert_false(hd_tensor_requires_grad(output(s, "y")));
    assert_int_equal(hd_tape_length(), 0);
    hd_script_set_input(s, "x", hd_t(w)); /* tracked, and not contiguous */
    const int64_t length = hd_tape_length();
    for (int i = 0; i < 3; ++i) assert_false(hd_tensor_requires_grad(output(s, "y")));
    assert_int_equal(hd_tape_length(), length);
    hd_clear_tape();
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */
static void outputs_of_one_run_stay(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_outputs *kept[5];
    for (int i = 0; i < 5; ++i) {
        hd_script_set_input(s, "x", hd_full(S(2), HD_F32, i));
        kept[i] = hd_script_run(s);
    }
    for (int i = 0; i < 5; ++i) assert_values(hd_outputs_get(kept[i], "y"), HD_F32, 2 * i, 2 * i);
    hd_tensor *y = hd_outputs_get(kept[4], "y");
    hd_add_(y, hd_scalar(1, HD_F32)); /* they are the caller's to write */
    assert_values(hd_script_output(s, "y"), HD_F32, 9, 9);
    assert_values(output(s, "y"), HD_F32, 8, 8);
    hd_release(s);
    assert_values(hd_outputs_get(kept[3], "y"), HD_F32, 6, 6); /* also past the script */
    assert_string_equal(hd_outputs_name(kept[3], 0), "y");
}

static void a_tensor_outlives_its_outputs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *y;
    {
        HD_SCOPE;
        hd_script *s = doubles();
        hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
        y = hd_keep(output(s, "y"));
    }
    assert_values(y, HD_F32, 2, 2);
}

static void outputs_are_found_by_name_and_number(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("outputs");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "minus", hd_neg(x));
    hd_builder_add_output(b, "plus", x);
    hd_script *s = built(b);
    assert_null(hd_script_output(s, "minus"));
    assert_error(HD_ERROR_STATE, "hd_script_output: the script has not run yet");
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 1, 2));
    hd_outputs *o = hd_script_run(s);
    assert_int_equal(hd_outputs_count(o), 2);
    assert_string_equal(hd_outputs_name(o, 0), "minus");
    assert_string_equal(hd_outputs_name(o, 1), "plus");
    assert_values(hd_outputs_at(o, 1), HD_F32, 1, 2);
    assert_values(hd_script_output(s, "minus"), HD_F32, -1, -2);
    assert_null(hd_outputs_get(o, "times"));
    assert_error(HD_ERROR_VALUE, "hd_outputs_get: there is no output \"times\"; there are \"minus\", \"plus\"");
    assert_null(hd_outputs_get(o, NULL));
    assert_error(HD_ERROR_VALUE, "there is no output");
    assert_null(hd_script_output(s, "times"));
    assert_error(HD_ERROR_VALUE, "hd_script_output: there is no output \"times\"");
    assert_null(hd_outputs_at(o, 2));
    assert_error(HD_ERROR_INDEX, "output 2 of 2");
    assert_null(hd_outputs_at(o, -1));
    assert_error(HD_ERROR_INDEX, "output -1 of 2");
    assert_null(hd_outputs_name(o, 7));
    assert_error(HD_ERROR_INDEX, "output 7 of 2");
    assert_int_equal(hd_outputs_count(NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`outputs` is NULL");
    hd_release(s);
    hd_release(o);
    assert_null(hd_outputs_get(o, "minus"));
    assert_error(HD_ERROR_RELEASED, "`outputs` are no living outputs");
}

/* An output may be anything: an input, a constant, state, a view of one, the same value under two names. Each is a
 * tensor of its own. */
static void a_script_says_what_it_takes_gives_and_keeps(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(S(3), HD_F64);
    hd_builder *b = started("contents");
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F64);
    hd_input("flag", S(), HD_BOOL);
    hd_builder_add_output(b, "y", hd_cast(hd_add(x, w), HD_F32));
    hd_script *s = built(b);
    assert_int_equal(hd_script_input_count(s), 2);
    assert_int_equal(hd_script_output_count(s), 1);
    assert_int_equal(hd_script_state_count(s), 1);
    const hd_script_entry flag = hd_script_input_at(s, 1), y = hd_script_output_at(s, 0),
                          kept = hd_script_state_at(s, 0);
    assert_string_equal(hd_script_input_at(s, 0).name, "x");
    assert_string_equal(flag.name, "flag");
    assert_int_equal(flag.shape.rank, 0);
    assert_int_equal(flag.dtype, HD_BOOL);
    assert_string_equal(y.name, "y");
    assert_true(hd_shape_equal(y.shape, S(2, 3)));
    assert_int_equal(y.dtype, HD_F32);
    assert_string_equal(kept.name, "w");
    assert_int_equal(kept.dtype, HD_F64);
    assert_string_equal(hd_script_input_at(s, 2).name, "");
    assert_error(HD_ERROR_INDEX, "input 2 of 2 of the script \"contents\"");
    assert_string_equal(hd_script_state_at(s, -1).name, "");
    assert_error(HD_ERROR_INDEX, "state -1 of 1");
    assert_int_equal(hd_script_output_count(NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_script_output_count");
}
static void outputs_may_be_anything(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *constant = HD_TENSOR_F32(S(2), 7, 8), *w = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4),
              *seen = HD_TENSOR_F32(S(2), 5, 6);
    hd_builder *b = started("anything");
    hd_builder_add_state(b, "w", w);
    hd_builder_bind(b, "seen", seen);
    hd_tensor *x = hd_input("x", S(2), HD_F32), *y = hd_neg(x);
    hd_add(x, constant);
    hd_builder_add_output(b, "input", x);
    hd_builder_add_output(b, "input again", x);
    hd_builder_add_output(b, "constant", constant);
    hd_builder_add_output(b, "state before", w);
    hd_builder_add_output(b, "view before", hd_t(w));
    hd_assign(w, hd_add_scalar(w, 10));
    hd_builder_add_output(b, "state", w);
    hd_builder_add_output(b, "state again", w);
    hd_builder_add_output(b, "view", hd_t(w));
    hd_builder_add_output(b, "part", hd_select(w, 0, 1));
    hd_builder_add_output(b, "bound", seen);
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "y again", y);
    hd_builder_add_output(b, "y as a view", hd_reshape(y, S(2, 1)));
    hd_builder_add_output(b, "stretched", hd_broadcast_to(y, S(2, 2)));
    hd_builder_add_output(b, "number", hd_full(S(), HD_F32, 3));
    hd_script *s = built(b);
    hd_tensor *in = HD_TENSOR_F32(S(2), 1, 2);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_assign(w, HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4));
        hd_script_set_input(s, "x", in);
        hd_outputs *o = hd_script_run(s);
        const int64_t count = hd_outputs_count(o);
        assert_int_equal(count, 15);
        assert_values(w, HD_F32, 11, 12, 13, 14);
        for (int round = 0; round < 2; ++round) {
            assert_values(hd_outputs_get(o, "input"), HD_F32, 1, 2);
            assert_values(hd_outputs_get(o, "constant"), HD_F32, 7, 8);
            assert_values(hd_outputs_get(o, "state before"), HD_F32, 1, 2, 3, 4);
            assert_values(hd_outputs_get(o, "view before"), HD_F32, 1, 3, 2, 4);
            assert_values(hd_outputs_get(o, "state"), HD_F32, 11, 12, 13, 14);
            assert_values(hd_outputs_get(o, "view"), HD_F32, 11, 13, 12, 14);
            assert_values(hd_outputs_get(o, "part"), HD_F32, 13, 14);
            assert_values(hd_outputs_get(o, "bound"), HD_F32, 5, 6);
            assert_values(hd_outputs_get(o, "y"), HD_F32, -1, -2);
            assert_values(hd_outputs_get(o, "y as a view"), HD_F32, -1, -2);
            assert_values(hd_outputs_get(o, "stretched"), HD_F32, -1, -2, -1, -2);
            assert_values(hd_outputs_get(o, "number"), HD_F32, 3);
            if (round == 0) hd_script_run(s); /* another run changes none of them */
        }
        for (int64_t i = 0; i < count; ++i) { /* writing one of them changes nothing else */
            HD_SCOPE;
            hd_tensor *before[16];
            for (int64_t k = 0; k < count; ++k) before[k] = hd_copy(hd_outputs_at(o, k));
            hd_tensor *was = hd_copy(w), *other = hd_copy(in);
            hd_fill(hd_outputs_at(o, i), 99);
            for (int64_t k = 0; k < count; ++k)
                if (k != i) assert_identical(hd_outputs_at(o, k), before[k]);
            assert_identical(w, was);
            assert_identical(in, other);
            assert_values(constant, HD_F32, 7, 8);
            assert_values(seen, HD_F32, 5, 6);
        }
        assert_values(hd_outputs_get(hd_script_run(s), "constant"), HD_F32, 7, 8);
    }
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
static void compiling_happens_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    assert_int_equal(hd_script_stats(s).compilations, 0);
    assert_int_equal(hd_script_stats(s).compiled_nodes, 0);
    hd_script_compile(s); /* needs no inputs */
    hd_script_compile(s);
    assert_int_equal(hd_script_stats(s).compilations, 1);
    assert_true(hd_script_stats(s).compile_ms > 0);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    for (int i = 0; i < 3; ++i) hd_script_run(s);
    assert_int_equal(hd_script_stats(s).compilations, 1);
    assert_int_equal(hd_script_stats(s).runs, 3);
    hd_script *later = doubles();
    hd_script_set_input(later, "x", hd_ones(S(2), HD_F32));
    hd_script_run(later); /* the first run compiles */
    hd_script_run(later);
    assert_int_equal(hd_script_stats(later).compilations, 1);
}

static void only_another_choice_compiles_anew(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    int64_t expected = 1;
    hd_script_run(s);
    hd_script_set_compiler(s, HD_COMPILER_HODU); /* as it is */
    hd_script_set_backend(s, HD_COMPILER_HODU);
    hd_script_set_device(s, hd_current_device());
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_optimization_level(s, HD_LEVEL_DEFAULT); /* is O2 */
    hd_script_clear_inputs(s);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_script_run(s);
    assert_int_equal(hd_script_stats(s).compilations, expected);
    const hd_optimization_level levels[] = {HD_O0, HD_O1, HD_O3, HD_O2};
    for (int i = 0; i < 4; ++i) {
        hd_script_set_optimization_level(s, levels[i]);
        assert_int_equal(hd_script_stats(s).compilations, expected);
        assert_int_equal(hd_script_stats(s).compiled_nodes, 0); /* what was compiled is gone, */
        assert_values(hd_script_output(s, "y"), HD_F32, 2, 2);  /* the last run's outputs are not, */
        assert_values(output(s, "y"), HD_F32, 2, 2);            /* and inputs are set */
        assert_int_equal(hd_script_stats(s).compilations, ++expected);
    }
}

static void what_is_not_there_changes_nothing(void **state) {
    (void)state;
    not_on_a_device("it names the CPU");
    HD_SCOPE;
    hd_script *s = doubles();
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_run(s);
    assert_true(hd_compiler_available(HD_COMPILER_HODU));
    setenv("HODU_XLA_PLUGIN_CUDA", "/nowhere", 1); /* also where there is a GPU */
    if (!hd_compiler_available(HD_COMPILER_XLA)) {
        hd_script_set_compiler(s, HD_COMPILER_XLA);
        assert_error(HD_ERROR_DEVICE, HD_HAS_XLA ? "hd_script_set_compiler: there is no XLA plugin for cpu"
                                                 : "hd_script_set_compiler: this library was built without XLA");
        hd_script_set_backend(s, HD_COMPILER_XLA);
        assert_error(HD_ERROR_DEVICE, "hd_script_set_backend:");
    }
    hd_script_set_device(s, hd_cuda(999));
    assert_error(HD_ERROR_DEVICE, "hd_script_set_device: device cuda:999 is not available here, and the script keeps "
                                  "its own. HODU does not run on cuda:999: ");
    unsetenv("HODU_XLA_PLUGIN_CUDA");
    hd_script_set_device(s, hd_metal());
    assert_error(HD_ERROR_DEVICE, "hd_script_set_device: device metal:0 is not available here");
    hd_script_set_device(s, (hd_device){(hd_device_kind)77, 0});
    assert_error(HD_ERROR_DEVICE, "HODU does not run on ?:0: there is no such kind of device");
    hd_script_set_device(s, (hd_device){HD_DEVICE_CPU, -3});
    assert_error(HD_ERROR_DEVICE, "HODU does not run on cpu:-3: there is one, cpu:0");
    hd_script_run(s);
    assert_int_equal(hd_script_stats(s).compilations, 1);
}

static void foreign_values_are_noticed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    assert_false(hd_compiler_available((hd_compiler)0));
    assert_false(hd_compiler_available((hd_compiler)1));
    for (int v = -1; v < 4; ++v) {
        hd_script_set_compiler(s, (hd_compiler)v);
        assert_error(HD_ERROR_VALUE, "is no compiler; there are HD_COMPILER_HODU and HD_COMPILER_XLA");
        if (v == 0) continue; /* HD_LEVEL_DEFAULT */
        hd_script_set_optimization_level(s, (hd_optimization_level)v);
        assert_error(HD_ERROR_VALUE, "is no level; there are HD_O0 to HD_O3");
    }
    hd_script_set_compiler(s, (hd_compiler)HD_O2); /* mixed up */
    assert_error(HD_ERROR_VALUE, "is no compiler");
    hd_script_set_optimization_level(s, (hd_optimization_level)HD_COMPILER_HODU);
    assert_error(HD_ERROR_VALUE, "is no level");
    hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O3 + 1));
    assert_error(HD_ERROR_VALUE, "is no level");
}

static void scripts_must_be_alive(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_tensor *x = hd_ones(S(2), HD_F32);
    hd_release(s);
#define gone(call)                                                                                                     \
    call;                                                                                                              \
    assert_error(HD_ERROR_RELEASED, "`script` is no living script")
    gone(hd_script_run(s));
    gone(hd_script_compile(s));
    gone(hd_script_set_input(s, "x", x));
    gone(hd_script_clear_inputs(s));
    gone(hd_script_output(s, "y"));
    gone(hd_script_set_compiler(s, HD_COMPILER_HODU));
    gone(hd_script_set_device(s, hd_cpu()));
    gone(hd_script_set_optimization_level(s, HD_O1));
    gone(hd_script_state(s, "w"));
    gone(hd_script_set_state(s, "w", x));
    gone(hd_script_stats(s));
    gone(hd_script_print(s));
    gone(hd_script_format(s, NULL, 0));
    gone(hd_script_check(s));
    gone(hd_script_clone(s));
    hd_script_run(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`script` is NULL");
    hd_script_run((hd_script *)x);
    assert_error(HD_ERROR_STATE, "`script` is no living script");
}

static void scripts_do_not_run_while_a_builder_records(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(S(2), HD_F32);
    hd_builder *first = started("first");
    hd_builder_add_state(first, "w", w);
    hd_builder_add_output(first, "y", hd_mul(hd_input("x", S(2), HD_F32), w));
    hd_assign(w, hd_add_scalar(w, 1));
    hd_script *s = built(first);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_builder *b = started("second");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "hd_script_run: a script cannot run while a builder records on this thread");
    hd_script_compile(s);
    assert_error(HD_ERROR_STATE, "hd_script_compile:");
    hd_script_set_input(s, "x", x);
    assert_error(HD_ERROR_STATE, "a value that a builder recorded");
    const uint32_t nodes = b->recording->graph->node_count;
    const hd_script_check_result check = hd_script_check(s);
    const bool checked = hd_ok();
    (void)check;
    hd_error_clear();
    hd_script_set_state(s, "w", hd_full(S(2), HD_F32, 5)); /* an error, or done at once; never recorded */
    hd_error_clear();
    const uint32_t after = b->recording->graph->node_count;
    {
        HD_EAGER;
        hd_script_set_state(s, "w", hd_full(S(2), HD_F32, 1));
        assert_values(output(s, "y"), HD_F32, 1, 1); /* in here it may */
        assert_values(w, HD_F32, 2, 2);
    }
    hd_builder_add_output(b, "y", hd_add(x, w));
    hd_builder_end(b);
    if (!checked) assert_int_equal(after, nodes + 1); /* hd_full */
    hd_script *t = hd_builder_build(b);
    hd_script_set_input(t, "x", hd_zeros(S(2), HD_F32));
    assert_values(output(t, "y"), HD_F32, 2, 2);
    assert_values(output(s, "y"), HD_F32, 2, 2);
    assert_values(w, HD_F32, 3, 3);
}

static void while_an_error_is_pending_nothing_runs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_add(NULL, NULL);
    assert_null(hd_script_run(s));
    assert_null(hd_script_clone(s));
    hd_script_set_optimization_level(s, HD_O0);
    assert_int_equal(hd_script_stats(s).runs, 0); /* looking works */
    hd_script_clear_inputs(s);                    /* what clears acts */
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add:");
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "1 input is not set");
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
static void figures_are_right(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("figures");
    hd_tensor *x = hd_input("x", S(1000), HD_F32), *k = operand(S(1000), 0, HD_F32), *y = x;
    for (int i = 0; i < 20; ++i) y = hd_exp(hd_mul(y, k));
    hd_neg(y); /* dead */
    hd_builder_add_output(b, "y", y);
    hd_script *s = built(b);
    assert_int_equal(hd_script_stats(s).nodes, 43);
    assert_int_equal(hd_script_stats(s).constant_bytes, 4000);
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_compile(s);
    hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.compiled_nodes, 43);
    assert_int_equal(f.launches, 41);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_compile(s);
    f = hd_script_stats(s);
    assert_int_equal(f.compiled_nodes, 42);
    assert_true(f.launches > 0 && f.launches <= 40);
    assert_true(f.arena_bytes > 0 && f.arena_bytes <= 3 * 4096); /* values that do not live together share */
    assert_true(f.compile_ms >= 0);
}

static void a_script_can_be_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = doubles();
    static const char text[] = "script \"doubles\"\n"
                               "%0 = input \"x\" : f32[2]\n"
                               "%1 = full {value = 2} : f32[]\n"
                               "%2 = mul %0, %1 : f32[2]\n"
                               "output \"y\" = %2\n";
    char out[512], small[10];
    assert_int_equal(hd_script_format(s, out, sizeof out), sizeof text - 1);
    assert_string_equal(out, text);
    assert_int_equal(hd_script_format(s, small, sizeof small), sizeof text - 1);
    assert_string_equal(small, "script \"d");
    assert_int_equal(hd_script_format(s, NULL, 0), sizeof text - 1);
    assert_int_equal(hd_script_format(s, NULL, 10), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_script_format: `out` is NULL");
    hd_script_compile(s);
    hd_script_format(s, out, sizeof out);
    assert_string_equal(out, text); /* of what was recorded, whatever it became */
}

static void checking_compares_with_O0(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("check");
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "y", hd_add(hd_mul(hd_exp(x), w), hd_rand(S(2), HD_F32)));
    hd_builder_add_output(b, "i", hd_argmax(x, 0, NULL));
    hd_assign(w, hd_mul(w, x));
    hd_script *s = built(b);
    assert_true(isnan(hd_script_check(s).relative)); /* below no bound */
    assert_error(HD_ERROR_STATE, "hd_script_check: 1 input is not set: \"x\"");
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 3, 4));
    const uint64_t draw = hd_generator_draw(NULL);
    const hd_script_check_result r = hd_script_check(s);
    assert_ok();
    if (hd_current_device().kind == HD_DEVICE_CPU) {
        assert_true(r.largest_difference == 0 && r.relative == 0);
        assert_int_equal(r.node, -1);
    } else {
        assert_true(r.relative <= 1e-6); /* its functions are its own */
    }
    assert_values(w, HD_F32, 1, 2); /* state stays */
    assert_int_equal(hd_generator_draw(NULL), draw);
    assert_int_equal(hd_script_stats(s).runs, 0);
    assert_int_equal(hd_tape_length(), 0);
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), NAN, INFINITY));
    assert_true(hd_script_check(s).largest_difference == 0);
    assert_ok();
}

/* A small output that is far off does not hide behind a large one that is nearly right. */
static void a_check_looks_at_every_output(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("apart");
    hd_tensor *e = hd_tanh(hd_input("x", S(1000), HD_F32));
    hd_builder_add_output(b, "large", hd_mul_scalar(hd_exp(e), 1e9));
    hd_builder_add_output(b, "small", hd_sub(hd_sum(e, X(), NULL), hd_sum(hd_flip(e, X(0)), X(), NULL)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(1000), 0, HD_F32));
    hd_tensor *values[2][2];
    for (int level = 0; level < 2; ++level) {
        hd_script_set_optimization_level(s, level ? HD_O2 : HD_O0);
        hd_outputs *o = hd_script_run(s);
        for (int i = 0; i < 2; ++i) values[level][i] = hd_cast(hd_outputs_at(o, i), HD_F64);
    }
    double relative = 0;
    for (int i = 0; i < 2; ++i) {
        const double apart = hd_item(hd_max(hd_abs(hd_sub(values[1][i], values[0][i])), X(), NULL)),
                     most = hd_item(hd_max(hd_abs(values[0][i]), X(), NULL)),
                     own = apart == 0  ? 0
                           : most == 0 ? INFINITY
                                       : apart / most;
        relative = own > relative ? own : relative;
    }
    const hd_script_check_result r = hd_script_check(s);
    assert_ok();
    if (hd_current_device().kind == HD_DEVICE_CPU) assert_true(r.relative == relative); /* it is held to the CPU's O0 */
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */
static void a_run_that_fails_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_I64(S(2), 10, 20), *count = hd_scalar(0, HD_F64);
    hd_builder *b = started("faults");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "count", count);
    hd_tensor *i = hd_input("i", S(2), HD_I64), *d = hd_input("d", S(), HD_I64);
    hd_assign(count, hd_add_scalar(count, 1));
    hd_assign(w, hd_floor_divide(w, d));
    hd_builder_add_output(b, "y", hd_index_select(w, 0, i));
    hd_script *s = built(b);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_assign(w, HD_TENSOR_I64(S(2), 10, 20));
        hd_fill(count, 0);
        hd_script_set_input(s, "d", hd_full(S(), HD_I64, 2));
        hd_script_set_input(s, "i", HD_TENSOR_I64(S(2), 1, -2));
        assert_values(output(s, "y"), HD_I64, 10, 5);
        assert_values(w, HD_I64, 5, 10);
        hd_outputs *good = s->last;
        hd_script_set_input(s, "d", hd_full(S(), HD_I64, 0));
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_DIVISION, "hd_script_run:");
        assert_values(w, HD_I64, 5, 10);
        assert_values(count, HD_F64, 1);
        hd_script_set_input(s, "d", hd_full(S(), HD_I64, 1));
        hd_script_set_input(s, "i", HD_TENSOR_I64(S(2), 1, 2));
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_INDEX, "index_select)"); /* names the node */
        assert_values(w, HD_I64, 5, 10);
        assert_values(count, HD_F64, 1);
        assert_ptr_equal(s->last, good); /* the last good run's outputs are there */
        assert_values(hd_script_output(s, "y"), HD_I64, 10, 5);
        hd_script_set_input(s, "i", HD_TENSOR_I64(S(2), 0, 0));
        assert_values(output(s, "y"), HD_I64, 5, 5); /* and it runs again */
        assert_values(count, HD_F64, 2);
    }
}

static void faults_in_constants_come_when_it_runs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *zero = hd_zeros(S(2), HD_I32), *far = HD_TENSOR_I64(S(1), 9);
    for (int which = 0; which < 2; ++which) {
        hd_builder *b = started("constants");
        hd_tensor *x = hd_input("x", S(2), HD_I32);
        hd_tensor *bad = which == 0 ? hd_floor_divide(hd_ones(S(2), HD_I32), zero) : hd_index_select(zero, 0, far);
        hd_builder_add_output(b, "y", hd_add(x, bad));
        hd_script *s = built(b);
        hd_script_compile(s);
        assert_ok();
        hd_script_set_input(s, "x", zero);
        assert_null(hd_script_run(s));
        assert_error(which == 0 ? HD_ERROR_DIVISION : HD_ERROR_INDEX, "hd_script_run:");
    }
}

/* ---- all kinds of values ----------------------------------------------------------------------------------------- */
static void every_dtype_goes_through(void **state) {
    (void)state;
    for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
        HD_SCOPE;
        const hd_dtype dtype = (hd_dtype)d;
        hd_tensor *x = hd_cast(HD_TENSOR_F32(S(2, 2), 0, 1, 2, 3), dtype), *w = hd_copy(x), *k = hd_copy(hd_t(x));
        hd_builder *b = started(hd_dtype_name(dtype));
        hd_builder_add_state(b, "w", w);
        hd_tensor *in = hd_input("x", S(2, 2), dtype);
        hd_builder_add_output(b, "same", in);
        hd_builder_add_output(b, "max", hd_maximum(in, k));
        hd_builder_add_output(b, "turned", hd_concat(LIST(hd_t(in), w), 0));
        hd_builder_add_output(b, "less", hd_le(in, k));
        hd_assign(hd_select(w, 0, 0), hd_select(in, 1, 1));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        hd_tensor *before = hd_copy(w);
        hd_outputs *o = hd_script_run(s);
        assert_identical(hd_outputs_get(o, "same"), x);
        assert_identical(hd_outputs_get(o, "max"), hd_maximum(x, k));
        assert_identical(hd_outputs_get(o, "turned"), hd_concat(LIST(hd_t(x), before), 0));
        assert_identical(hd_outputs_get(o, "less"), hd_le(x, k));
        assert_identical(hd_select(w, 0, 0), hd_select(x, 1, 1));
    }
}

static void empty_and_single_values_go_through(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *none = hd_zeros(S(0, 3), HD_F32), *constant = hd_zeros(S(0), HD_F32);
    hd_builder *b = started("empty");
    hd_builder_add_state(b, "none", none);
    hd_tensor *x = hd_input("x", S(2, 0), HD_F32), *one = hd_input("one", S(), HD_F32);
    hd_builder_add_output(b, "x", x);
    hd_builder_add_output(b, "neg", hd_neg(x));
    hd_builder_add_output(b, "sum", hd_sum(x, X(1), NULL));
    hd_builder_add_output(b, "product", hd_matmul(x, hd_t(x)));
    hd_builder_add_output(b, "joined", hd_concat(LIST(x, hd_broadcast_to(one, S(2, 1))), 1));
    hd_builder_add_output(b, "nothing", hd_mul(constant, one));
    hd_builder_add_output(b, "one", hd_exp(one));
    hd_builder_add_output(b, "rank 8", hd_reshape(one, S(1, 1, 1, 1, 1, 1, 1, 1)));
    hd_assign(none, hd_add(none, one));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_zeros(S(2, 0), HD_F32));
    hd_script_set_input(s, "one", hd_zeros(S(), HD_F32));
    for (int level = HD_O0; level <= HD_O3; ++level)
        for (int i = 0; i < 3; ++i) {
            hd_script_set_optimization_level(s, (hd_optimization_level)level);
            hd_outputs *o = hd_script_run(s);
            assert_int_equal(hd_tensor_count(hd_outputs_get(o, "x")), 0);
            assert_int_equal(hd_tensor_size(hd_outputs_get(o, "neg"), 0), 2);
            assert_values(hd_outputs_get(o, "sum"), HD_F32, 0, 0);
            assert_values(hd_outputs_get(o, "product"), HD_F32, 0, 0, 0, 0);
            assert_values(hd_outputs_get(o, "joined"), HD_F32, 0, 0);
            assert_int_equal(hd_tensor_count(hd_outputs_get(o, "nothing")), 0);
            assert_values(hd_outputs_get(o, "one"), HD_F32, 1);
            assert_int_equal(hd_tensor_rank(hd_outputs_get(o, "rank 8")), 8);
        }
}

/* A plan whose values are all empty has no memory to work in; what reads them works all the same. */
static void empty_values_need_no_arena(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O3; ++level) {
        HD_SCOPE;
        hd_builder *b = started("empty");
        hd_tensor *none = hd_cast(hd_input("x", S(1, 0), HD_F32), HD_I64);
        hd_builder_add_output(b, "sum", hd_sum(none, X(), NULL));
        hd_builder_add_output(b, "prod", hd_prod(none, X(1), NULL));
        hd_builder_add_output(b, "padded", hd_pad(none, PAD({2, 0}), 1, 9));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "x", hd_zeros(S(1, 0), HD_F32));
        for (int i = 0; i < 4; ++i) {
            { /* memory that was used before */
                HD_SCOPE;
                for (int k = 0; k < 8; ++k) hd_full(S(2), HD_I64, -1);
            }
            hd_outputs *o = hd_script_run(s);
            assert_values(hd_outputs_get(o, "sum"), HD_I64, 0);
            assert_values(hd_outputs_get(o, "prod"), HD_I64, 1);
            assert_values(hd_outputs_get(o, "padded"), HD_I64, 9, 9);
        }
    }
}

static void a_script_may_read_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *k = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("constants");
    hd_builder_add_output(b, "y", hd_mul_scalar(k, 3));
    hd_builder_add_output(b, "eye", hd_eye(2, 2, HD_F32));
    hd_script *s = built(b);
    for (int i = 0; i < 3; ++i) {
        hd_outputs *o = hd_script_run(s);
        assert_values(hd_outputs_get(o, "y"), HD_F32, 3, 6);
        assert_values(hd_outputs_get(o, "eye"), HD_F32, 1, 0, 0, 1);
        hd_fill(hd_outputs_get(o, "y"), 0); /* the folded constant is not the caller's */
    }
}

/* ---- draws ------------------------------------------------------------------------------------------------------- */
enum { DRAWS = 8 };
static void draw_all(hd_tensor *weights, hd_tensor **out) {
    out[0] = hd_rand(S(3), HD_F32);
    out[1] = hd_normal(S(2, 2), HD_F64, 1, 2);
    out[2] = hd_randint(S(5), HD_I32, -3, 9);
    out[3] = hd_permutation(7);
    out[4] = hd_multinomial(weights, 3, false);
    out[5] = hd_multinomial(weights, 9, true);
    out[6] = hd_bernoulli(S(8), HD_F32, 0.5);
    out[7] = hd_uniform(S(2), HD_BF16, -1, 1);
}

static void draws_are_those_of_dynamic_execution(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *weights = HD_TENSOR_F32(S(4), 1, 2, 3, 4), *out[DRAWS];
    hd_seed(1);
    hd_builder *b = started("draws");
    hd_tensor *in = hd_input("weights", S(4), HD_F32);
    draw_all(in, out);
    hd_rand(S(100), HD_F32); /* nobody reads it, but it takes its draw */
    hd_tensor *last = hd_randn(S(2), HD_F32);
    for (int i = 0; i < DRAWS; ++i)
        hd_builder_add_output(b, (const char *[]){"0", "1", "2", "3", "4", "5", "6", "7"}[i], out[i]);
    hd_builder_add_output(b, "last", last);
    hd_script *s = built(b);
    assert_int_equal(hd_generator_draw(NULL), 0); /* recording draws nothing */
    hd_script_set_input(s, "weights", weights);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(77);
        hd_outputs *runs[3];
        for (int r = 0; r < 3; ++r) runs[r] = hd_script_run(s);
        const uint64_t after = hd_generator_draw(NULL);
        hd_seed(77);
        for (int r = 0; r < 3; ++r) { /* each run goes on where the one before ended */
            hd_tensor *expected[DRAWS];
            draw_all(weights, expected);
            hd_rand(S(100), HD_F32);
            for (int i = 0; i < DRAWS; ++i) assert_identical(hd_outputs_at(runs[r], i), expected[i]);
            assert_identical(hd_outputs_get(runs[r], "last"), hd_randn(S(2), HD_F32));
        }
        assert_int_equal(hd_generator_draw(NULL), after);
    }
}

static void draws_come_from_the_generator_in_use(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("generator");
    hd_builder_add_output(b, "y", hd_rand(S(4), HD_F32));
    hd_script *s = built(b);
    hd_seed(3);
    hd_rand(S(1), HD_F32);
    hd_generator_use(hd_generator_new(9));
    hd_tensor *y = output(s, "y");
    hd_generator_use(NULL);
    assert_int_equal(hd_generator_draw(NULL), 1); /* the thread's own was not touched */
    hd_seed(9);
    assert_identical(y, hd_rand(S(4), HD_F32));
}

static hd_tensor *dropped(hd_tensors *in, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(in, 0);
    return hd_mul(hd_exp(x), hd_bernoulli(hd_tensor_shape(x), HD_F32, 0.5));
}
/* A recomputation computes anew with the draws it had. */
static void recomputations_draw_the_same_again(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(64), 0, HD_F32));
    hd_seed(5);
    hd_tensor *y = hd_recompute(dropped, NULL, HD_TENSORS(w));
    hd_backward(y);
    hd_tensor *expected_y = hd_copy(hd_detach(y)), *expected = hd_copy(hd_grad(w));
    const uint64_t draws = hd_generator_draw(NULL);
    hd_clear_tape();
    hd_builder *b = started("recomputation");
    hd_builder_bind(b, "w", w);
    y = hd_recompute(dropped, NULL, HD_TENSORS(w));
    hd_builder_add_output(b, "y", y);
    hd_backward(y);
    hd_builder_add_output(b, "g", hd_grad(w));
    hd_script *s = built(b);
    hd_seed(5);
    hd_outputs *o = hd_script_run(s);
    assert_identical(hd_outputs_get(o, "y"), expected_y);
    assert_identical(hd_outputs_get(o, "g"), expected);
    assert_int_equal(hd_generator_draw(NULL), draws);
}

/* ---- clones ------------------------------------------------------------------------------------------------------ */
static void clones_have_their_own_inputs_and_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_scalar(1, HD_F32), *k = HD_TENSOR_F32(S(1), 100);
    hd_builder *b = started("counter");
    hd_builder_add_state(b, "w", w);
    hd_assign(w, hd_add(w, hd_input("x", S(), HD_F32)));
    hd_builder_add_output(b, "y", hd_add(w, k));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O1);
    hd_script_set_input(s, "x", hd_scalar(1, HD_F32));
    hd_script_run(s); /* w = 2 */
    hd_script *c = hd_script_clone(s);
    assert_values(hd_script_state(c, "w"), HD_F32, 2);
    assert_values(output(c, "y"), HD_F32, 103); /* inputs came along */
    hd_script_set_input(c, "x", hd_scalar(10, HD_F32));
    assert_values(output(c, "y"), HD_F32, 113);
    assert_values(w, HD_F32, 2); /* the clone's state follows no tensor */
    assert_values(output(s, "y"), HD_F32, 103);
    assert_values(w, HD_F32, 3);
    assert_values(hd_script_state(c, "w"), HD_F32, 13);
    hd_fill(w, 50);
    assert_values(output(c, "y"), HD_F32, 123);
    hd_script *second = hd_script_clone(c); /* of a clone: its state, not the tensor's */
    assert_values(hd_script_state(second, "w"), HD_F32, 23);
    hd_script_set_state(second, "w", hd_scalar(0, HD_F32));
    assert_values(output(second, "y"), HD_F32, 110);
    assert_values(hd_script_state(c, "w"), HD_F32, 23);
    hd_release(s);
    hd_release(c);
    assert_values(output(second, "y"), HD_F32, 120);
    assert_null(hd_script_output(hd_script_clone(second), "y")); /* a new one has not run */
    assert_error(HD_ERROR_STATE, "has not run yet");
}

static void a_run_that_fails_gives_its_draws_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("b");
    assert_false(hd_builder_is_recording());
    hd_builder_start(b);
    assert_true(hd_builder_is_recording());
    {
        HD_EAGER;
        assert_false(hd_builder_is_recording());
    }
    hd_tensor *i = hd_input("i", HD_SHAPE(1), HD_I64);
    hd_builder_add_output(b, "y", hd_index_select(hd_randn(HD_SHAPE(4), HD_F32), 0, i));
    hd_builder_end(b);
    assert_false(hd_builder_is_recording());
    hd_script *s = hd_builder_build(b);
    hd_generator *own = hd_generator_new(7);
    for (int k = 0; k < 2; ++k) { /* the thread's own generator, and another */
        hd_script_set_input(s, "i", HD_TENSOR_I64(HD_SHAPE(1), 9));
        const uint64_t before = hd_generator_draw(NULL);
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_INDEX, "index 9");
        assert_true(hd_generator_draw(NULL) == before);
        hd_script_set_input(s, "i", HD_TENSOR_I64(HD_SHAPE(1), 3));
        hd_script_run(s);
        assert_ok();
        assert_true(hd_generator_draw(NULL) == before + 1);
        hd_generator_use(k == 0 ? own : NULL);
    }
}

RUN(test(inputs_stay_set), test(very_many_inputs_and_outputs_are_found_by_name), test(missing_inputs_are_all_listed),
    test(very_many_missing_inputs_are_still_a_message), test(inputs_are_of_their_type), test(inputs_may_lie_in_any_way),
    test(inputs_are_read_when_a_run_begins), test(one_tensor_may_be_every_input), test(runs_are_noted_on_no_tape),
    test(outputs_of_one_run_stay), test(a_tensor_outlives_its_outputs), test(outputs_are_found_by_name_and_number),
    test(a_script_says_what_it_takes_gives_and_keeps), test(outputs_may_be_anything), test(compiling_happens_once),
    test(only_another_choice_compiles_anew), test(what_is_not_there_changes_nothing), test(foreign_values_are_noticed),
    test(scripts_must_be_alive), test(scripts_do_not_run_while_a_builder_records),
    test(while_an_error_is_pending_nothing_runs), test(figures_are_right), test(a_script_can_be_read),
    test(checking_compares_with_O0), test(a_check_looks_at_every_output), test(a_run_that_fails_changes_nothing),
    test(faults_in_constants_come_when_it_runs), test(every_dtype_goes_through),
    test(empty_and_single_values_go_through), test(empty_values_need_no_arena), test(a_script_may_read_nothing),
    test(draws_are_those_of_dynamic_execution), test(draws_come_from_the_generator_in_use),
    test(recomputations_draw_the_same_again), test(clones_have_their_own_inputs_and_state),
    test(a_run_that_fails_gives_its_draws_back))
