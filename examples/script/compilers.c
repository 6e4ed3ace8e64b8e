/* Who compiles, and what a change costs. Two enums, two questions: hd_compiler says who compiles a script; the backend
 * of hd_compile says whether a model is compiled at all. No value is in both: one cannot be taken for the other. */
#include "check.h"

static hd_script *build(void) {
    hd_builder *builder = hd_builder_new("choice");
    hd_builder_start(builder);
    hd_tensor *x = hd_input("x", HD_SHAPE(4), HD_F32);
    hd_builder_add_output(builder, "result", hd_exp(hd_neg(hd_square(x))));
    hd_builder_end(builder);
    return hd_builder_build(builder);
}

int main(void) {
    HD_SCOPE;
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(4), -1, 0, 0.5f, 2), *expected = hd_exp(hd_neg(hd_square(x)));
    hd_script *script = build();
    hd_script_set_input(script, "x", x);

    /* HODU is always there, and the default: choosing it changes nothing. hd_script_set_backend is another name. */
    CHECK(hd_compiler_available(HD_COMPILER_HODU));
    hd_script_compile(script);
    hd_script_set_compiler(script, HD_COMPILER_HODU);
    hd_script_set_backend(script, HD_COMPILER_HODU);
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
    CHECK_EQUAL(compilations(script), 1);

    /* XLA, where its plugin is (scripts/get-xla fetches it): what HODU compiled is dropped, and the next run compiles
     * anew. */
    if (hd_compiler_available(HD_COMPILER_XLA)) {
        hd_script_set_compiler(script, HD_COMPILER_XLA);
        CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
        CHECK_EQUAL(compilations(script), 2);
        hd_script_set_compiler(script, HD_COMPILER_HODU);
    } else {
        printf("XLA is not there for the CPU: %s\n", hd_compiler_missing(HD_COMPILER_XLA, hd_cpu()));
        hd_script_set_compiler(script, HD_COMPILER_XLA);
        const bool elsewhere = hd_ok(); /* it has a plugin for another device, which may yet be chosen */
        if (elsewhere) hd_script_compile(script);
        CHECK_ERROR("XLA");
        if (elsewhere) hd_script_set_compiler(script, HD_COMPILER_HODU);
        CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected); /* as if nothing had been asked */
        CHECK_EQUAL(compilations(script), elsewhere ? 2 : 1);
    }
    hd_script_set_compiler(script, (hd_compiler)HD_BACKEND_GRAPH);
    CHECK_ERROR("is no compiler");

    /* The level is a choice of the same kind: another one drops what was compiled, the same one does not. */
    hd_script_compile(script);
    const int64_t before = compilations(script);
    hd_script_set_optimization_level(script, HD_O2); /* the default */
    hd_script_compile(script);
    CHECK_EQUAL(compilations(script), before);
    hd_script_set_optimization_level(script, HD_O0);
    hd_script_compile(script);
    CHECK_EQUAL(compilations(script), before + 1);
    CHECK_CLOSE(hd_outputs_get(hd_script_run(script), "result"), expected);
    puts("what was compiled is dropped by another choice, and only then");
    return hd_exit_status();
}
