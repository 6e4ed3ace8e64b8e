/* HODU_DEBUG=nan: the first op whose result, or whose gradient, is not finite is an error that names it. The library
 * reads the environment once, so each case runs in a process of its own: this program, started again with a case. */
#include "support.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static hd_tensor *values(void) { return hd_param(HD_TENSOR_F32(HD_SHAPE(2, 2), 4, 0, 1, 9)); }

/* ---- cases: each prints what it found ---------------------------------------------------------------------------- */
static void say(void) {
    printf("%s|%s\n", hd_error_call(), hd_error_message());
    hd_error_clear();
}

static void result_on_the_tape(void) {
    hd_tensor *x = hd_sub_scalar(values(), 1), *y = hd_exp(hd_sqrt(x)); /* sqrt(-1), then e^nan */
    hd_add(y, y);
    say();
}
static void result_under_no_grad(void) {
    HD_NO_GRAD;
    hd_exp(hd_sqrt(hd_sub_scalar(values(), 1)));
    say();
}
static void result_without_leaves(void) {
    hd_exp(hd_log(hd_zeros(HD_SHAPE(3), HD_F64)));
    say();
    hd_div(hd_ones(HD_SHAPE(), HD_F16), hd_zeros(HD_SHAPE(), HD_F16));
    say();
}
static void result_in_a_composite(void) {
    hd_mean(hd_mul_scalar(values(), 3e38), HD_AXES(), NULL); /* the factor is finite, the products are not */
    say();
    hd_var(values(), HD_AXES(), 4, NULL); /* 4 elements and a correction of 4: over 0 */
    say();
}
static void gradient_on_the_way(void) {
    hd_tensor *x = values(), *y = hd_mul_scalar(hd_sqrt(x), 3);
    hd_backward(hd_sum(y, HD_AXES(), NULL)); /* the slope of sqrt at 0 */
    say();
    printf("%d\n", hd_has_grad(x));
    hd_grad_of(y, HD_TENSORS(x), NULL);
    say();
    hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    printf("%s\n", hd_ok()                                               ? "no error"
                   : strstr(hd_error_message(), "is not finite") != NULL ? "named"
                                                                         : hd_error_message());
    hd_error_clear();
    hd_backward(hd_mul(x, x)); /* the tape is unharmed */
    printf("%d\n", hd_ok() && hd_has_grad(x));
}
static hd_tensor *roots(hd_tensors *inputs, void *user) { return (void)user, hd_sqrt(hd_tensors_get(inputs, 0)); }
static hd_tensor *root_of(hd_module *module, hd_tensor *x) { return (void)module, hd_sqrt(x); }
static void gradient_in_a_recomputation(void) {
    hd_backward(hd_recompute(roots, NULL, HD_TENSORS(values())));
    say();
}
/* Each part is finite, their sum is not: at a result, at a leaf, in hd_grad_of, and with what was there before. */
static void gradient_of_parts(void) {
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(2), HD_F16, 1)), *y = hd_mul_scalar(x, 1);
    hd_tensor *large = hd_full(HD_SHAPE(2), HD_F16, 60000);
    hd_backward_with(hd_add(y, y), HD_OPTS(hd_backward_opts, .seed = large));
    say();
    hd_backward_with(hd_add(x, x), HD_OPTS(hd_backward_opts, .seed = large));
    say();
    hd_tensor *z = hd_mul_scalar(x, 1);
    {
        HD_GRAD_CONTEXT; /* x gets a second record on the outer tape, and the parts meet at the end */
        hd_neg(x);
    }
    z = hd_add(z, hd_mul_scalar(x, 1));
    hd_grad_of(z, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .seed = large));
    say();
    printf("%d\n", hd_has_grad(x));
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = large));
    hd_backward_with(y, HD_OPTS(hd_backward_opts, .seed = large));
    say();
    printf("%g\n", hd_item(hd_max(hd_grad(x), HD_AXES(), NULL)));
}
static void gradient_of_a_compiled_model(void) {
    static const hd_module_class root_class = {.name = "roots", .forward = root_of};
    hd_module *model = hd_compile(hd_module_new(&root_class, NULL),
                                  HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .optimization_level = HD_O0));
    hd_backward(hd_forward(model, values()));
    say();
}
static void result_in_a_script(void) {
    hd_builder *b = hd_builder_new("s");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(3), HD_F32);
    hd_builder_add_output(b, "y", hd_exp(hd_add_scalar(hd_log(hd_mul_scalar(x, 2)), 1)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 0));
    hd_script_run(s);
    say();
    hd_script_set_input(s, "x", HD_TENSOR_F32(HD_SHAPE(3), 1, 2, 3));
    printf("%.3f\n", hd_item(hd_sum(hd_outputs_get(hd_script_run(s), "y"), HD_AXES(), NULL)));
}
static void writes(void) {
    hd_tensor *half = hd_zeros(HD_SHAPE(2), HD_F16), *large = hd_full(HD_SHAPE(2), HD_F32, 1e6);
    hd_assign(half, large);
    say();
    hd_assign(half, hd_full(HD_SHAPE(2), HD_I64, 1000000));
    say();
    {
        HD_NO_GRAD;
        hd_assign(half, large);
        say();
    }
    hd_assign(half, hd_full(HD_SHAPE(2), HD_F32, INFINITY)); /* as the caller wished */
    hd_fill(half, NAN);
    printf("%d\n", hd_ok());
}
static void constants_that_are_meant(void) {
    hd_tensor *x = hd_full(HD_SHAPE(3), HD_F32, INFINITY), *y = hd_param(hd_full(HD_SHAPE(3), HD_F32, NAN));
    hd_reshape(y, HD_SHAPE(3, 1));
    hd_isnan(y);
    hd_argmax(x, 0, NULL);
    printf("%d\n", hd_ok());
    hd_add_scalar(x, 1);
    say();
}
static void updates(void) {
    hd_tensor *x = values();
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(x), 1e300, NULL); /* no f32 */
    hd_set_grad(x, hd_ones(HD_SHAPE(2, 2), HD_F32));
    hd_optimizer_step(sgd);
    say();
}
static void training(void) {
    hd_seed(1);
    hd_module *model = HD_SEQUENTIAL(hd_linear(2, 4, NULL), hd_tanh_layer(), hd_linear(4, 1, NULL));
    hd_optimizer *adam = hd_adam(hd_module_parameters(model), 0.01, NULL);
    hd_tensor *x = hd_randn(HD_SHAPE(8, 2), HD_F32), *y = hd_randn(HD_SHAPE(8, 1), HD_F32), *loss = NULL;
    for (int i = 0; i < 5; ++i) {
        hd_optimizer_zero_grad(adam);
        loss = hd_mse(hd_forward(model, x), y, NULL);
        hd_backward(loss);
        hd_optimizer_step(adam);
    }
    printf("%.9g %lld\n", hd_item(loss), (long long)hd_tape_length());
}
static void *fails_in_a_thread(void *unused) {
    (void)unused;
    HD_SCOPE;
    for (int i = 0; i < 20; ++i) {
        HD_NO_GRAD;
        hd_exp(hd_ones(HD_SHAPE(4), HD_F32));
        HD_GRAD_CONTEXT;
        hd_recompute(roots, NULL, HD_TENSORS(hd_ones(HD_SHAPE(4), HD_F32)));
        if (!hd_ok()) return "an error where all is finite";
    }
    hd_sqrt(hd_full(HD_SHAPE(), HD_F32, -1));
    const bool named = hd_error_code() == HD_ERROR_VALUE;
    hd_error_clear();
    return named ? NULL : "no error";
}
static void in_threads(void) {
    pthread_t id[3];
    for (int i = 0; i < 3; ++i) pthread_create(&id[i], NULL, fails_in_a_thread, NULL);
    for (int i = 0; i < 3; ++i) {
        void *wrong;
        pthread_join(id[i], &wrong);
        printf("%s\n", wrong == NULL ? "right" : (const char *)wrong);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"result_on_the_tape", result_on_the_tape},
             {"result_under_no_grad", result_under_no_grad},
             {"result_without_leaves", result_without_leaves},
             {"result_in_a_composite", result_in_a_composite},
             {"gradient_on_the_way", gradient_on_the_way},
             {"gradient_in_a_recomputation", gradient_in_a_recomputation},
             {"gradient_of_parts", gradient_of_parts},
             {"gradient_of_a_compiled_model", gradient_of_a_compiled_model},
             {"result_in_a_script", result_in_a_script},
             {"writes", writes},
             {"constants_that_are_meant", constants_that_are_meant},
             {"updates", updates},
             {"training", training},
             {"in_threads", in_threads}};

/* ---- running one ------------------------------------------------------------------------------------------------- */
static char output[4096];
static void become_anew(const char *name) {
    char program[512] = "", command[700];
    if (HODU_EMULATOR[0] == '\0') execl("/proc/self/exe", "test", name, (char *)NULL);
    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0) {
        snprintf(command, sizeof command, "exec %s '%s' %s", HODU_EMULATOR, program, name);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    }
    _exit(99);
}
static const char *run_case(const char *name, const char *debug) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (debug != NULL)
            setenv("HODU_DEBUG", debug, 1);
        else
            unsetenv("HODU_DEBUG");
        become_anew(name);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; (got = read(ends[0], output + length, sizeof output - 1 - length)) > 0;) length += (size_t)got;
    output[length] = '\0';
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    if (status != 0) fail_msg("%s with HODU_DEBUG=%s ended with %d: %s", name, debug ? debug : "", status, output);
    return output;
}
#define assert_says(text, part)                                                                                        \
    do {                                                                                                               \
        if (strstr(text, part) == NULL) fail_msg("expected \"%s\" in \"%s\"", part, text);                             \
    } while (0)

/* ---- tests ------------------------------------------------------------------------------------------------------- */
static void the_first_result_that_is_not_finite_is_named(void **state) {
    (void)state;
    const char *text = run_case("result_on_the_tape", "nan");
    assert_says(text, "hd_sqrt|");
    assert_says(text, "the result of hd_sqrt is not finite");
    assert_says(text, "element 1 of [2,2] is");
    assert_says(text, "nan");
}
static void results_are_looked_at_under_no_grad_too(void **state) {
    (void)state;
    assert_says(run_case("result_under_no_grad", "nan"), "the result of hd_sqrt is not finite: element 1 of [2,2]");
}
static void results_of_plain_tensors_are_looked_at(void **state) {
    (void)state;
    const char *text = run_case("result_without_leaves", "nan");
    assert_says(text, "the result of hd_log is not finite: element 0 of [3] is -inf");
    assert_says(text, "the result of hd_div is not finite: element 0 of [] is inf");
}
static void composites_are_looked_into(void **state) {
    (void)state;
    const char *text = run_case("result_in_a_composite", "nan");
    assert_says(text, "the result of hd_mul is not finite: element 0 of [2,2] is inf");
    assert_says(text, "hd_var|");
}
static void the_first_gradient_that_is_not_finite_is_named(void **state) {
    (void)state;
    const char *text = run_case("gradient_on_the_way", "nan");
    assert_says(
        text,
        "hd_backward|hd_backward: HODU_DEBUG=nan: a gradient of hd_sqrt is not finite: element 1 of [2,2] is inf\n0\n");
    assert_says(text, "hd_grad_of|");
    assert_says(text, "named\n1\n");
}
static void gradients_inside_a_recomputation_are_named(void **state) {
    (void)state;
    assert_says(run_case("gradient_in_a_recomputation", "nan"),
                "a gradient of hd_sqrt is not finite: element 1 of [2,2]");
}
static void gradients_that_overflow_in_their_sum_are_named(void **state) {
    (void)state;
    assert_string_equal(
        run_case("gradient_of_parts", "nan"),
        "hd_backward|hd_backward: HODU_DEBUG=nan: the whole gradient of the result of hd_mul is not finite: element 0 "
        "of "
        "[2] is inf\n"
        "hd_backward|hd_backward: HODU_DEBUG=nan: the whole gradient of a leaf is not finite: element 0 of [2] is inf\n"
        "hd_grad_of|hd_grad_of: HODU_DEBUG=nan: the whole gradient of a leaf is not finite: element 0 of [2] is inf\n"
        "0\n"
        "hd_backward|hd_backward: HODU_DEBUG=nan: the gradient of a leaf is not finite: element 0 of [2] is inf\n"
        "60000\n");
}
static void a_compiled_model_is_named(void **state) {
    (void)state;
    assert_says(run_case("gradient_of_a_compiled_model", "nan"),
                "the result of hd_sqrt' is not finite: element 1 of [2,2] is inf (in node %2, sqrt')");
}
static void nodes_of_scripts_are_named(void **state) {
    (void)state;
    assert_string_equal(run_case("result_in_a_script", "nan"),
                        "hd_script_run|hd_script_run: HODU_DEBUG=nan: the result of hd_log is not finite: element 2 of "
                        "[3] is -inf (in node %3, log)\n32.619\n");
    assert_string_equal(run_case("result_in_a_script", NULL), "|\n32.619\n");
}
static void writes_that_overflow_are_named(void **state) {
    (void)state;
    static const char line[] =
        "hd_assign|hd_assign: HODU_DEBUG=nan: the result of hd_assign is not finite: element 0 of [2] is inf\n";
    char expected[512];
    snprintf(expected, sizeof expected, "%s%s%s1\n", line, line, line);
    assert_string_equal(run_case("writes", "nan"), expected);
}
static void what_was_asked_for_is_no_error(void **state) {
    (void)state;
    assert_says(run_case("constants_that_are_meant", "nan"), "1\nhd_add_scalar|");
}
static void updates_of_parameters_are_looked_at(void **state) {
    (void)state;
    assert_says(run_case("updates", "nan"), "is not finite");
}
static void training_is_the_same(void **state) {
    (void)state;
    char plain[256];
    snprintf(plain, sizeof plain, "%s", run_case("training", NULL));
    assert_string_equal(run_case("training", "nan"), plain);
}
static void every_thread_looks(void **state) {
    (void)state;
    assert_string_equal(run_case("in_threads", "nan"), "right\nright\nright\n");
}
static void only_the_word_nan_turns_it_on(void **state) {
    (void)state;
    static const char *const off[] = {NULL, "", "nano", "na", "other", "NAN", ",,,"}, *const on[] = {"nan,other",
                                                                                                     "other,nan",
                                                                                                     ",nan"};
    for (int i = 0; i < 7; ++i) assert_string_equal(run_case("result_on_the_tape", off[i]), "|\n");
    for (int i = 0; i < 3; ++i) assert_says(run_case("result_on_the_tape", on[i]), "hd_sqrt");
    assert_says(run_case("gradient_on_the_way", NULL), "|\n1\n");
}

int main(int count, char **words) {
    for (size_t i = 0; count == 2 && i < sizeof cases / sizeof *cases; ++i)
        if (strcmp(words[1], cases[i].name) == 0) {
            {
                HD_SCOPE;
                cases[i].run();
            }
            hd_clear_tape();
            fflush(stdout);
            return hd_ok() && hd_live_objects() == 0 ? 0 : 1;
        }
    const struct CMUnitTest tests[] = {test(the_first_result_that_is_not_finite_is_named),
                                       test(results_are_looked_at_under_no_grad_too),
                                       test(results_of_plain_tensors_are_looked_at),
                                       test(composites_are_looked_into),
                                       test(the_first_gradient_that_is_not_finite_is_named),
                                       test(gradients_inside_a_recomputation_are_named),
                                       test(gradients_that_overflow_in_their_sum_are_named),
                                       test(a_compiled_model_is_named),
                                       test(nodes_of_scripts_are_named),
                                       test(writes_that_overflow_are_named),
                                       test(what_was_asked_for_is_no_error),
                                       test(updates_of_parameters_are_looked_at),
                                       test(training_is_the_same),
                                       test(every_thread_looks),
                                       test(only_the_word_nan_turns_it_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
