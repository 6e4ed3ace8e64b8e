/* What goes wrong under XLA, as a user meets it: an error that says what and what to do, the process lives, the script
 * goes on by HODU or runs again. */
#include "builders.h"
#include "compiler/own_cache.h"
#include "core/memory.h"
#include "differences.h"
#include "graph/calls.h"
#include "programs.h"
#include "script/script.h"
#include "xla/emit.h"

#include <fcntl.h>

/* y = x w, and w <- w + 1. */
static hd_script *stepping(hd_tensor *w) {
    hd_builder *b = started("stepping");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_output(b, "y", hd_matmul(hd_input("x", S(2, 3), HD_F32), w));
    hd_assign(w, hd_add_scalar(w, 1));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(2, 3), 0, HD_F32));
    return s;
}

static void runs_well(hd_script *s, hd_compiler compiler) {
    HD_SCOPE;
    hd_script_set_compiler(s, compiler);
    hd_tensor *expected = hd_matmul(operand(S(2, 3), 0, HD_F32), hd_copy(hd_script_state(s, "w")));
    hd_tensor *y = output(s, "y");
    assert_ok();
    assert_within_units(y, expected, 16);
}

/* ---- the plugin -------------------------------------------------------------------------------------------------- */
/* These come first: a client that has started stays. */
static void set_plugin(const char *path, const char *wrong) {
    if (path != NULL) setenv("HODU_XLA_PLUGIN_CPU", path, 1);
    if (path == NULL) unsetenv("HODU_XLA_PLUGIN_CPU");
    setenv("FAKE_PJRT", wrong, 1);
}

static void without_the_plugin_scripts_keep_hodu(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = stepping(operand(S(3, 4), 1, HD_F32));
    hd_module *model = hd_linear(3, 2, NULL);
    set_plugin("/nowhere/plugin.so", "");
    setenv("HODU_XLA_PLUGIN_CUDA", "/nowhere/plugin.so", 1); /* with a plugin for another device it may yet be chosen */
    assert_false(hd_compiler_available(HD_COMPILER_XLA));
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_true(strstr(hd_error_message(), "which scripts/get-xla installs; the script keeps HODU") != NULL);
    assert_error(HD_ERROR_DEVICE, "hd_script_set_compiler: HODU_XLA_PLUGIN_CPU=/nowhere/plugin.so: No such file");
    hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = HD_COMPILER_XLA));
    assert_error(HD_ERROR_DEVICE, "hd_compile: HODU_XLA_PLUGIN_CPU=/nowhere/plugin.so");
    set_plugin(NULL, "");
    unsetenv("HODU_XLA_PLUGIN_CUDA");
    runs_well(s, HD_COMPILER_HODU);
}

/* What is there but no good is noticed when it is opened: at the first compilation. */
static void bad_plugins_are_errors_of_compiling(void **state) {
    (void)state;
    HD_SCOPE;
    static const char text[] = "/tmp/hodu-xla-no-library.so";
    const int file = open(text, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0 && write(file, "no library\n", 11) == 11);
    close(file);
    const struct {
        const char *path, *wrong, *says;
    } bad[] = {
        {text, "", "cannot be opened as a library"},
        {"/lib/x86_64-linux-gnu/libm.so.6", "", "is a library without GetPjrtApi"},
        {FAKE_PLUGIN, "old", "has PJRT 0.56, expected 0.57 or a later 0; scripts/get-xla installs one"},
        {FAKE_PLUGIN, "next", "has PJRT 1.81"},
        {FAKE_PLUGIN, "null", "GetPjrtApi gives no table"},
        {FAKE_PLUGIN, "hole", "has no PJRT_Client_BufferFromHostBuffer; scripts/get-xla installs a plugin that has"},
        {FAKE_PLUGIN, "short", "has no PJRT_LoadedExecutable_Execute"},
        {FAKE_PLUGIN, "sad", "XLA's plugin does not start: all is lost"},
        {FAKE_PLUGIN, "clientless", "gives no client"},
        {FAKE_PLUGIN, "", "is for \"toaster\", expected one for \"cpu\""}};
    hd_script *s = stepping(operand(S(3, 4), 1, HD_F32));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        if (access(bad[i].path, R_OK) != 0) continue; /* another system's folders */
        set_plugin(bad[i].path, bad[i].wrong);
        hd_script_set_compiler(s, HD_COMPILER_XLA);
        assert_ok();
        hd_script_compile(s);
        assert_true(strstr(hd_error_message(), "hd_script_compile: ") == hd_error_message());
        assert_error(hd_error_code(), bad[i].says);
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_DEVICE, bad[i].says);
        runs_well(s, HD_COMPILER_HODU);
    }
    set_plugin(NULL, "");
    unlink(text);
    runs_well(s, HD_COMPILER_XLA); /* what failed is tried again */
}

static void the_environment_chooses(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(3, 4), 1, HD_F32);
    hd_module *model = hd_linear(3, 2, NULL);
    setenv("HODU_COMPILER", "xla", 1);
    hd_script *s = stepping(w);
    hd_script_compile(s);
    assert_ok();
    assert_int_equal(hd_script_stats(s).launches, 1);
    assert_true(hd_script_stats(s).peak_bytes > 0); /* XLA's own account */
    setenv("HODU_COMPILER", "hodu", 1);
    s = stepping(w);
    hd_script_compile(s);
    assert_int_equal(hd_script_stats(s).peak_bytes, 0);
    setenv("HODU_COMPILER", "gcc", 1);
    hd_builder *b = started("no");
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", S(2), HD_F32)));
    hd_builder_end(b);
    assert_null(hd_builder_build(b));
    assert_error(HD_ERROR_VALUE, "HODU_COMPILER is \"gcc\" in the environment; it can be hodu or xla");
    assert_null(hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH)));
    assert_error(HD_ERROR_VALUE, "HODU_COMPILER is \"gcc\"");
    hd_compile(model, NULL); /* eager: nobody compiles */
    unsetenv("HODU_COMPILER");
    assert_ok();
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */
/* No text of ours is wrong, so this one is damaged: XLA's words and the node that they are about. */
static void errors_of_xla_name_our_node(void **state) {
    (void)state;
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    hd_builder *b = started("named");
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32), *w = hd_input("w", S(3, 4), HD_F32);
    hd_builder_add_output(b, "y", hd_exp(hd_matmul(hd_neg(x), w))); /* exp is a function before @main */
    hd_script *s = built(b);
    const hd_xla_parameter parameters[] = {takes(HD_SHAPE(2, 3)), takes(HD_SHAPE(3, 4))};
    const struct {
        const char *word, *says, *node;
    } damages[] = {{"dot_general", "dot_generaX", "(in node %3, matmul)"}, {"negate", "negatX", "(in node %2, neg)"}};
    for (int i = 0; i < 2; ++i) {
        hd_stablehlo text;
        hd_stablehlo_emit(thread, s->graph, &text);
        char *at = strstr(text.text, damages[i].word);
        assert_non_null(at);
        memcpy(at, damages[i].says, strlen(damages[i].says));
        assert_null(hd_xla_compile(hd_xla_device_of(hd_cpu()), text.text, text.bytes, parameters, 2));
        hd_stablehlo_name_node(thread, s->graph, &text);
        assert_non_null(strstr(hd_error_message(), damages[i].says));
        assert_non_null(strstr(hd_error_message(), "XLA does not compile the program: "));
        assert_error(HD_ERROR_INTERNAL, damages[i].node);
        hd_stablehlo_release(&text);
    }
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
/* An intermediate value, and an output, of 2^50 bytes: no system promises so much. */
static void too_much_memory_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    enum { MANY = 1 << 12 };
    hd_tensor *count = hd_zeros(S(4), HD_F32);
    for (int output_too = 0; output_too < 2; ++output_too) {
        hd_builder *b = started("huge");
        hd_builder_add_state(b, "count", count);
        hd_tensor *x = hd_input("x", S(MANY, 2), HD_F32), *square = hd_matmul(x, hd_t(x));
        hd_tensor *column = hd_reshape(square, S((int64_t)MANY * MANY, 1)),
                  *row = hd_reshape(square, S(1, (int64_t)MANY * MANY));
        hd_tensor *huge = hd_tanh(hd_mul(column, row));
        hd_builder_add_output(b, "y", output_too ? huge : hd_matmul(huge, column));
        hd_assign(count, hd_add_scalar(count, 1));
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_ones(S(MANY, 2), HD_F32));
        hd_script_set_compiler(s, HD_COMPILER_XLA);
        for (int again = 0; again < 2; ++again) {
            hd_outputs *o = hd_script_run(s);
            assert_null(o);
            assert_error(HD_ERROR_MEMORY, "hd_script_run: a run would take 1125");
            assert_values(count, HD_F32, 0, 0, 0, 0); /* a run that fails changes nothing */
        }
    }
    runs_well(stepping(operand(S(3, 4), 1, HD_F32)), HD_COMPILER_XLA);
}

static void wrong_inputs_do_not_reach_xla(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = stepping(operand(S(3, 4), 1, HD_F32));
    runs_well(s, HD_COMPILER_XLA);
    hd_script_set_input(s, "x", hd_ones(S(3, 2), HD_F32));
    assert_error(HD_ERROR_SHAPE, "the input \"x\" is f32 [2,3]; given is f32 [3,2]");
    hd_script_set_input(s, "x", hd_ones(S(2, 3), HD_F64));
    assert_error(HD_ERROR_DTYPE, "the input \"x\" is f32 [2,3]; given is f64 [2,3]");
    hd_script_set_input(s, "z", hd_ones(S(2, 3), HD_F32));
    assert_error(HD_ERROR_VALUE, "has no input \"z\"");
    hd_script_set_state(s, "w", hd_ones(S(4, 3), HD_F32));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    runs_well(s, HD_COMPILER_XLA); /* with the input that it had */
    hd_script_clear_inputs(s);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "1 input is not set: \"x\"");
    hd_script_set_input(s, "x",
                        hd_t(operand(S(3, 2), 0, HD_F32))); /* not contiguous: what it is, not what lies there */
    hd_tensor *expected = hd_matmul(hd_t(operand(S(3, 2), 0, HD_F32)), hd_copy(hd_script_state(s, "w")));
    assert_within_units(output(s, "y"), expected, 16);
    assert_ok();
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static int steps_taken;

/* Records, compiles, runs twice with draws, state, a constant, and an index that is looked at; reads; HODU takes
 * over. */
static void program(hd_tensor *w, hd_tensor *constant) {
    HD_SCOPE;
    hd_builder *b = hd_builder_new("program");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32), *at = hd_input("at", S(2), HD_I64);
    hd_tensor *y = hd_add(hd_matmul(x, w), hd_index_select(constant, 0, at));
    hd_builder_add_output(b, "y", hd_add(y, hd_rand(S(2, 16), HD_F32)));
    hd_assign(w, hd_add_scalar(w, 1));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_script_set_input(s, "at", I64(S(2), 1, 0));
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        hd_script_set_input(s, "x", hd_full(S(2, 3), HD_F32, i));
        if (i == 2) hd_script_set_compiler(s, HD_COMPILER_HODU);
        hd_outputs *o = hd_script_run(s);
        steps_taken += o != NULL;
        hd_data_f32(hd_outputs_get(o, "y"));
    }
    hd_data_f32(hd_script_state(s, "w"));
}

static void memory_may_run_out_at_every_place(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(S(3, 16), HD_F32), *constant = operand(S(4, 16), 1, HD_F32), *kept = hd_copy(constant);
    program(w, constant); /* what is made once is there: code in the cache on disk, the thread's own things */
    assert_ok();
    const int64_t objects = hd_live_objects();
    int failures = 0;
    for (int64_t n = (int64_t)slow_first(7);; n += (int64_t)slow_step(7)) {
        HD_SCOPE;
        hd_fill(w, 0);
        steps_taken = 0;
        hd_memory_trim();
        hd_memory_fail_after(n);
        program(w, constant);
        const bool reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        const bool ok = hd_ok();
        failures += !ok;
        if (!ok && hd_error_code() != HD_ERROR_MEMORY)
            fail_msg("allocation %d failed, but the error is: %s", (int)n, hd_error_message());
        hd_error_clear();
        if (hd_live_objects() != objects) fail_msg("after allocation %d failed, objects are left", (int)n);
        const float *values = hd_data_f32(w);
        assert_ok();
        for (int i = 0; i < 48; ++i) /* a run that fails changes nothing */
            if (values[i] != (float)steps_taken)
                fail_msg("allocation %d: w is %g after %d runs", (int)n, values[i], steps_taken);
        assert_identical(constant, kept);
        if (reached) continue;
        assert_true(ok);
        break;
    }
    assert_true(failures * (int)slow_step(7) > 50);
}

int main(void) {
    char path[HD_XLA_PATH];
    unsetenv("HODU_COMPILER");
    unsetenv("HODU_XLA_PLUGIN_CPU");
    if (!has_plugin()) return 77;
    hd_xla_plugin_find(HD_DEVICE_CPU, path);
    setenv("HODU_XLA_PLUGIN", path, 1); /* what is found when no other is named */
    const struct CMUnitTest tests[] = {test(without_the_plugin_scripts_keep_hodu),
                                       test(bad_plugins_are_errors_of_compiling),
                                       test(the_environment_chooses),
                                       test(errors_of_xla_name_our_node),
                                       test(too_much_memory_is_an_error),
                                       test(wrong_inputs_do_not_reach_xla),
                                       test(memory_may_run_out_at_every_place)};
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
