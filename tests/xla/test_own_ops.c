/* Ops of the user's under XLA: those that write StableHLO are its functions, all others are refused by name. */
#include "builders.h"
#include "own_ops.h"
#include "run_text.h"
#include "script/script.h"

#define S HD_SHAPE
#define F HD_F32

static const char *body; /* what the op below writes */
static const char *written(hd_custom_args *args) {
    (void)args;
    return body;
}
static hd_tensor *with(const char *name, const char *(*stablehlo)(hd_custom_args *), bool has_effects, hd_tensor *x) {
    hd_custom_op op = HD_DEFAULTS(hd_custom_op);
    op.name = name;
    op.inputs = 1;
    op.compute = own_same_compute;
    op.stablehlo = stablehlo;
    op.has_effects = has_effects;
    hd_custom_register(&op);
    return hd_custom(name, HD_TENSORS(x), NULL, 0);
}

static hd_script *script_of(hd_tensor *(*f)(hd_tensor *x)) {
    hd_builder *b = started("own");
    hd_builder_add_output(b, "y", f(hd_input("x", S(2, 3), F)));
    return built(b);
}
static hd_tensor *plain(hd_tensor *x) { return with("own.plain", NULL, false, x); }
static hd_tensor *as_written(hd_tensor *x) { return with("own.written", written, false, x); }
static hd_tensor *effect(hd_tensor *x) { return with("own.effect", written, true, x); }
static hd_tensor *two(hd_tensor *x) {
    hd_tensors *both = both_ways(cubed(hd_add_scalar(x, 1), 0.5), x);
    return hd_mul(hd_tensors_get(both, 0), hd_tensors_get(both, 1));
}

static void refused(hd_tensor *(*f)(hd_tensor *x), hd_error code, const char *text) {
    HD_SCOPE;
    hd_stablehlo s;
    assert_true(hd_stablehlo_emit(hd_thread_self(), script_of(f)->graph, &s) != HD_OK);
    assert_error(code, text);
}
static void what_writes_no_text_is_refused_by_name(void **state) {
    (void)state;
    refused(plain, HD_ERROR_STATE,
            "XLA cannot run the op \"own.plain\", which is a function in C; compile with HD_COMPILER_HODU");
    body = "%r0 = stablehlo.negate %a0 : $r0";
    refused(effect, HD_ERROR_STATE, "XLA cannot run the op \"own.effect\", which is marked as having effects");
    body = NULL;
    refused(as_written, HD_ERROR_STATE, "XLA cannot run the op \"own.written\"");
    static const char *const bad[] = {"$", "$1", "$r1", "$r", "$x", "$999999999999", "%r0 = $-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        body = bad[i];
        refused(as_written, HD_ERROR_VALUE, "the StableHLO of the op \"own.written\" has \"$");
    }
}

static void text_becomes_a_function(void **state) {
    (void)state;
    HD_SCOPE;
    hd_stablehlo s;
    body = "%t = stablehlo.negate %a0 : $0\n%r0 = stablehlo.negate %t : $r0";
    assert_int_equal(hd_stablehlo_emit(hd_thread_self(), script_of(as_written)->graph, &s), HD_OK);
    if (strstr(s.text, "func.func private @own_1(%a0: tensor<2x3xf32>) -> (tensor<2x3xf32>) {\n"
                       "%t = stablehlo.negate %a0 : tensor<2x3xf32>\n"
                       "%r0 = stablehlo.negate %t : tensor<2x3xf32>\n"
                       "    return %r0 : tensor<2x3xf32>\n  }\n") == NULL ||
        strstr(s.text, "func.call @own_1(%0) : (tensor<2x3xf32>) -> (tensor<2x3xf32>)\n") == NULL)
        fail_msg("%s", s.text);
    hd_stablehlo_release(&s);
}

static void xla_runs_it(void **state) {
    (void)state;
    HD_SCOPE;
    if (!plugin_ready()) return;
    hd_script *s = script_of(two);
    hd_tensor *x = HD_TENSOR_F32(S(2, 3), 0, 1, -2, 0.5, 3, -1);
    hd_script_set_input(s, "x", x);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_close(output(s, "y"), two(x), 1e-6, 1e-6);
    s = script_of(plain);
    hd_script_set_input(s, "x", x);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_STATE, "own.plain");
    hd_script_set_compiler(s, HD_COMPILER_HODU);
    assert_same(output(s, "y"), x);
    body = "%r0 = stablehlo.nonsense %a0";
    s = script_of(as_written);
    hd_script_set_input(s, "x", x);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_null(hd_script_run(s));
    assert_false(hd_ok());
    hd_error_clear();
}

RUN(test(what_writes_no_text_is_refused_by_name), test(text_becomes_a_function), test(xla_runs_it))
