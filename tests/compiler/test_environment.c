/* Where scripts are compiled: without LLVM, with the C compiler, without either; with a cache directory that cannot be
 * written; in a process that was forked. Each in a child, as libraries are opened and the environment is read once. */
#include "compiler/levels.h"
#include "graph/calls.h"

#include "compiler/own_cache.h"

#include <sys/wait.h>

/* ---- children ---------------------------------------------------------------------------------------------------- */
/* A child says what went wrong on stderr and gives 1: cmocka's own ways out are the parent's. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fprintf(stderr, "\n");                                                                                     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static void in_a_child(void (*program)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        program();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("the child ended with status %x", (unsigned)status);
}

/* ---- a script with every kind of launch -------------------------------------------------------------------------- */
static hd_script *some_script(void) {
    hd_tensor *w = operand(S(130, 140), 1, HD_F32);
    hd_builder *b = started("some");
    hd_tensor *x = hd_input("x", S(120, 130), HD_F32), *h = hd_gelu(hd_matmul(x, w));
    hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "rows", hd_softmax(hd_mul_scalar(h, 0.01), 1));
    hd_builder_add_output(b, "columns", hd_sum(hd_square(x), X(0), NULL));
    hd_builder_add_output(b, "small", hd_mul(hd_cast(x, HD_BF16), hd_cast(hd_roll(x, 1, 1), HD_F16)));
    hd_builder_add_output(b, "whole", hd_cast(hd_mul_scalar(x, 100), HD_I16));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", operand(S(120, 130), 0, HD_F32));
    return s;
}

/* Runs at O0 and O2; they agree. */
static void runs_well(void) {
    HD_SCOPE;
    hd_script *s = some_script();
    hd_script_set_optimization_level(s, HD_O0);
    hd_outputs *plain = hd_script_run(s);
    hd_script_set_optimization_level(s, HD_O2);
    hd_outputs *compiled = hd_script_run(s);
    CHECK(compiled != NULL, "%s", hd_error_message());
    for (int64_t i = 0; i < hd_outputs_count(plain); ++i) {
        hd_tensor *e = hd_outputs_at(plain, i);
        const char *why = difference_within(hd_outputs_at(compiled, i), e, units_at_largest(e, 8));
        CHECK(why[0] == '\0', "output %d: %s", (int)i, why);
    }
}

static void fails_with(const char *text) {
    HD_SCOPE;
    hd_script *s = some_script();
    hd_script_set_optimization_level(s, HD_O2);
    for (int again = 0; again < 2; ++again) { /* the second time it is known already */
        CHECK(hd_script_run(s) == NULL, "it ran");
        CHECK(strstr(hd_error_message(), text) != NULL, "%s", hd_error_message());
        hd_error_clear();
    }
    hd_script_set_optimization_level(s, HD_O0); /* which compiles nothing */
    CHECK(hd_script_run(s) != NULL, "%s", hd_error_message());
}

/* ---- compilers --------------------------------------------------------------------------------------------------- */
static void no_llvm(void) {
    setenv("HODU_CACHE", "0", 1); /* code that is there already needs no LLVM */
    setenv("HODU_LLVM", "/nonexistent/libLLVM.so", 1);
    fails_with("/nonexistent/libLLVM.so");
    fails_with("HODU_RENDERER=c"); /* what to do about it */
    setenv("HODU_RENDERER", "c", 1);
    runs_well();
}
static void no_llvm_but_another_library(void) {
    setenv("HODU_CACHE", "0", 1);
    setenv("HODU_LLVM", "libm.so.6", 1);
    fails_with("not version 19");
}
static void no_compiler(void) {
    setenv("HODU_RENDERER", "c", 1);
    setenv("HODU_CC", "/nonexistent/cc", 1);
    fails_with("/nonexistent/cc");
    unsetenv("HODU_CC");
    runs_well();
}
static void no_such_renderer(void) {
    setenv("HODU_RENDERER", "fortran", 1);
    fails_with("it can be llvm or c");
}
static void c_compiler(void) {
    setenv("HODU_RENDERER", "c", 1);
    runs_well();
    unsetenv("HODU_RENDERER"); /* both in one process */
    runs_well();
}

static void without_llvm_an_error_says_what_to_do(void **state) {
    (void)state;
    in_a_child(no_llvm);
}
static void another_library_is_not_llvm(void **state) {
    (void)state;
    in_a_child(no_llvm_but_another_library);
}
static void without_a_c_compiler_an_error_names_it(void **state) {
    (void)state;
    in_a_child(no_compiler);
}
static void an_unknown_renderer_is_an_error(void **state) {
    (void)state;
    in_a_child(no_such_renderer);
}
static void the_c_compiler_gives_the_same(void **state) {
    (void)state;
    in_a_child(c_compiler);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */
static void cache_in_a_file(void) { /* no directory can be made there, not even by root */
    setenv("HODU_CACHE_DIR", "/proc/self/cmdline/cache", 1);
    runs_well();
    CHECK(hd_cache_info().writes == 0, "%d writes", (int)hd_cache_info().writes);
}
static void cache_read_only(void) {
    runs_well(); /* fills it */
    chmod(own_cache, 0500);
    hd_cache_stats before = hd_cache_info();
    HD_SCOPE;
    hd_builder *b = started("new"); /* code that is not there yet */
    hd_builder_add_output(b, "y", hd_sin(hd_cos(hd_sin(hd_input("x", S(3), HD_F32)))));
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_set_input(s, "x", hd_ones(S(3), HD_F32));
    CHECK(hd_script_run(s) != NULL, "%s", hd_error_message());
    const hd_cache_stats now = hd_cache_info();
    chmod(own_cache, 0700);
    CHECK(now.writes + now.failed_writes > before.writes + before.failed_writes, "nothing was tried");
}
static void no_cache(void) {
    setenv("HODU_CACHE", "0", 1);
    runs_well();
    CHECK(hd_cache_info().writes == 0, "%d writes", (int)hd_cache_info().writes);
}
static void found_on_disk(void) {
    HD_SCOPE;
    hd_script *s = some_script();
    hd_script_set_optimization_level(s, HD_O2);
    CHECK(hd_script_run(s) != NULL, "%s", hd_error_message());
    const hd_script_figures f = hd_script_stats(s);
    CHECK(f.kernels > 0 && f.kernels_compiled == 0 && f.kernels_from_disk == f.kernels, "%d of %d from disk",
          (int)f.kernels_from_disk, (int)f.kernels);
}

static void found_without_llvm(void) {
    setenv("HODU_LLVM", "/nonexistent/libLLVM.so", 1);
    found_on_disk();
}

static void a_cache_that_cannot_be_written_is_none(void **state) {
    (void)state;
    in_a_child(cache_in_a_file);
    in_a_child(cache_read_only);
    in_a_child(no_cache);
}
static void another_process_finds_the_code(void **state) {
    (void)state;
    in_a_child(runs_well);
    in_a_child(found_on_disk);
    in_a_child(found_without_llvm);
}

/* ---- forks: last, as this process compiles now ------------------------------------------------------------------- */
static hd_script *before_the_fork;
static hd_tensor *expected;
static void goes_on(void) {
    HD_SCOPE;
    for (int i = 0; i < 3; ++i) {
        hd_outputs *o = hd_script_run(before_the_fork);
        CHECK(o != NULL, "%s", hd_error_message());
        const char *why = difference(hd_outputs_get(o, "h"), expected);
        CHECK(why[0] == '\0', "%s", why);
    }
    hd_cache_clear();
    runs_well(); /* compiles in the child */
    hd_script *clone = hd_script_clone(before_the_fork);
    CHECK(hd_script_run(clone) != NULL, "%s", hd_error_message());
}

static void a_forked_child_runs_what_was_compiled(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    HD_SCOPE;
    before_the_fork = some_script();
    hd_script_set_optimization_level(before_the_fork, HD_O2);
    expected = output(before_the_fork, "h");
    assert_ok();
    for (int i = 0; i < 3; ++i) in_a_child(goes_on);
    assert_identical(output(before_the_fork, "h"), expected); /* and so does the parent */
}

static int forget_the_environment(void **state) {
    unsetenv("HODU_LLVM");
    unsetenv("HODU_RENDERER");
    unsetenv("HODU_CC");
    return make_own_cache(state);
}

RUN_ON_THE_CPU_WITH("it is about who compiles for the CPU", forget_the_environment, remove_own_cache,
                    test(without_llvm_an_error_says_what_to_do), test(another_library_is_not_llvm),
                    test(without_a_c_compiler_an_error_names_it), test(an_unknown_renderer_is_an_error),
                    test(the_c_compiler_gives_the_same), test(a_cache_that_cannot_be_written_is_none),
                    test(another_process_finds_the_code), test(a_forked_child_runs_what_was_compiled))
