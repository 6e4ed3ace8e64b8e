/* Errors: the first one sticks, says what and where, and nothing runs until it is cleared. */
#include "support.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_first_error_sticks(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *b = hd_ones(HD_SHAPE(4, 5), HD_F32);
    assert_null(hd_exp(hd_matmul(a, b)));
    assert_false(hd_ok());
    assert_null(hd_add(a, a)); /* nothing runs */
    assert_true(isnan(hd_item(a)));
    hd_reshape(a, HD_SHAPE(7)); /* a second mistake does not replace the first */
    assert_string_equal(hd_error_message(), "hd_matmul: [2,3] x [4,5]: inner sizes 3 and 4 differ");
    assert_string_equal(hd_error_call(), "hd_matmul");
    assert_non_null(strstr(hd_error_place(), "test_error.c:"));
    assert_int_equal(hd_error_code(), HD_ERROR_SHAPE);
    hd_error_clear();
    assert_ok();
    assert_string_equal(hd_error_message(), "");
    assert_non_null(hd_add(a, a));
}

static void scopes_end_while_an_error_is_pending(void **state) {
    (void)state;
    {
        HD_SCOPE;
        hd_tensor *a = hd_ones(HD_SHAPE(2), HD_F32);
        hd_add(a, NULL);
        assert_string_equal(hd_error_message(), "hd_add: `b` is NULL");
    }
    assert_int_equal(hd_live_objects(), 0);
    hd_error_clear();
}

static void null_and_wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32), *i = hd_zeros(HD_SHAPE(2), HD_I64);
    hd_add(NULL, x);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add: `a` is NULL");
    hd_where(x, x, x);
    assert_error(HD_ERROR_DTYPE, "hd_where: the condition is f32; it must be bool");
    hd_add(x, hd_ones(HD_SHAPE(4), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_add: [2,3] and [4] do not broadcast: sizes 3 and 4 differ at axis 1");
    hd_bitwise_and(x, x);
    assert_error(HD_ERROR_DTYPE, "hd_bitwise_and: does not take f32, only integers and bool");
    hd_add(hd_ones(HD_SHAPE(2), HD_BOOL), hd_ones(HD_SHAPE(2), HD_BOOL));
    assert_error(HD_ERROR_DTYPE, "does not take bool");
    hd_sum(x, HD_AXES(2), NULL);
    assert_error(HD_ERROR_AXIS, "hd_sum: axis 2 is out of range; a tensor of rank 2 has axes -2 to 1");
    hd_sum(x, HD_AXES(0, -2), NULL);
    assert_error(HD_ERROR_AXIS, "axis -2 is given twice");
    hd_zeros(HD_SHAPE(1 << 30, 1 << 30, 1 << 30), HD_F32);
    assert_error(HD_ERROR_OVERFLOW, "more bytes than 64 bits can count");
    hd_zeros(HD_SHAPE(INT64_C(1) << 50), HD_F32);
    assert_error(HD_ERROR_MEMORY, "hd_zeros:");
    hd_zeros(HD_SHAPE(2, -1), HD_F32);
    assert_error(HD_ERROR_SHAPE, "negative size at axis 1");
    hd_zeros(HD_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), HD_F32);
    assert_error(HD_ERROR_SHAPE, "more than 8 axes");
    hd_zeros(HD_SHAPE(2), (hd_dtype)77);
    assert_error(HD_ERROR_DTYPE, "77 is no dtype");
    hd_data(x, HD_F64);
    assert_error(HD_ERROR_DTYPE, "hd_data: the tensor is f32, not f64");
    hd_data(hd_t(x), HD_F32);
    assert_error(HD_ERROR_STATE, "not contiguous");
    hd_item(x);
    assert_error(HD_ERROR_SHAPE, "hd_item: [2,3] has 6 elements, not one");
    hd_clamp(i, 0.5, 2);
    assert_error(HD_ERROR_VALUE, "hd_clamp: 0.5 does not fit i64");
    hd_rem_scalar(hd_ones(HD_SHAPE(3), HD_I32), 0);
    assert_error(HD_ERROR_DIVISION, "hd_rem_scalar: b is 0 at element 0");
    hd_tensor *b = HD_TENSOR_I64(HD_SHAPE(4), 1, 2, 0, 3);
    hd_floor_divide(hd_ones(HD_SHAPE(4), HD_I64), b);
    assert_error(HD_ERROR_DIVISION, "b is 0 at element 2 of the result [4]");
    hd_pow(hd_ones(HD_SHAPE(4), HD_I64), hd_neg(b));
    assert_error(HD_ERROR_VALUE, "negative");
    hd_sum(x, HD_AXES(), &(const hd_reduce_opts){.keep_dims = true});
    assert_error(HD_ERROR_VALUE, "HD_OPTS");
    hd_set_device(hd_cuda(0));
    assert_error(HD_ERROR_DEVICE, "hd_set_device: device cuda:0 is not available here");
    assert_int_equal(hd_current_device().kind, HD_DEVICE_CPU);
    hd_set_num_threads(0);
    assert_error(HD_ERROR_VALUE, "0 threads");
    hd_set_default_dtype(HD_I32);
    assert_error(HD_ERROR_DTYPE, "i32 cannot be the default");
}

static void composites_keep_their_own_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32);
    hd_stack((hd_tensor *[]){x, x}, 2, 5);
    assert_error(HD_ERROR_AXIS, "hd_stack: axis 5");
    hd_one_hot(HD_TENSOR_I64(HD_SHAPE(2), 0, 9), 3, HD_F32);
    assert_error(HD_ERROR_INDEX, "hd_one_hot: index 9 at place 1 of [2,1] is out of range for an axis of size 3");
    assert_int_equal(hd_live_objects(), 2 + 2); /* x and the index */
}

/* In a child, so that what it prints and how it ends can be seen. */
static void run_child(void (*body)(void), char *out, size_t capacity, int *status) {
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        close(pipes[0]);
        close(pipes[1]);
        body();
        _exit(0);
    }
    close(pipes[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(pipes[0], out + length, capacity - 1 - length)) > 0;) length += (size_t)n;
    out[length] = '\0';
    close(pipes[0]);
    waitpid(child, status, 0);
}

static void fail_once(void) { hd_reshape(hd_ones(HD_SHAPE(2), HD_F32), HD_SHAPE(3)); }

static void an_error_and_a_crash(void) {
    HD_SCOPE;
    fail_once();
    raise(SIGKILL); /* what follows an error may end the process: nothing comes after this */
}
static void exit_status(void) {
    int status;
    {
        HD_SCOPE;
        fail_once();
        status = hd_exit_status();
    }
    _exit(status);
}
static void quiet_block(void) {
    HD_SCOPE;
    {
        HD_QUIET;
        fail_once();
        hd_error_clear();
        fail_once();
        (void)hd_error_message();
    }
    _exit(hd_exit_status()); /* now it is said, as it was left pending */
}
static void quiet_block_that_forgets(void) {
    HD_SCOPE;
    {
        HD_QUIET;
        {
            HD_QUIET;
            fail_once();
        }
        write(2, "end\n", 4);
    }
}
static void quiet_environment(void) {
    setenv("HODU_ERRORS", "quiet", 1);
    HD_SCOPE;
    fail_once();
    _exit(hd_exit_status());
}
static void trapped(void) {
    setenv("HODU_TRAP", "1", 1);
    HD_SCOPE;
    fail_once();
}

static int occurrences(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; ++at) ++count;
    return count;
}

static void an_error_is_printed_when_it_arises_and_once(void **state) {
    (void)state;
    static const char message[] = "hodu error: hd_reshape: [2] has 2 elements, which do not fit [3]";
    char out[1024];
    int status;
    setenv("HODU_ERRORS", "print", 1);
    run_child(an_error_and_a_crash, out, sizeof out, &status);
    assert_int_equal(occurrences(out, message), 1);
    assert_non_null(strstr(out, "(in the scope of "));
    assert_int_equal(occurrences(out, "\n"), 1);
    run_child(exit_status, out, sizeof out, &status);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(occurrences(out, message), 1);
    run_child(quiet_block, out, sizeof out, &status);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(occurrences(out, message), 1);
    run_child(quiet_block_that_forgets, out, sizeof out, &status);
    assert_true(strncmp(out, "end\nhodu error: ", 16) == 0);
    run_child(quiet_environment, out, sizeof out, &status);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_string_equal(out, "");
    setenv("HODU_ERRORS", "quiet", 1);
}

typedef struct heard {
    int count;
    hd_error code;
    char message[128], place[128];
} heard;
static void hear(hd_error code, const char *message, const char *place, void *user) {
    heard *h = user;
    h->count++;
    h->code = code;
    snprintf(h->message, sizeof h->message, "%s", message);
    snprintf(h->place, sizeof h->place, "%s", place);
}

static void a_handler_of_the_host_hears_every_first_error(void **state) {
    (void)state;
    HD_SCOPE;
    heard h = {0};
    hd_error_set_handler(hear, &h);
    fail_once();
    fail_once(); /* does nothing while the first is pending */
    assert_int_equal(h.count, 1);
    assert_int_equal(h.code, HD_ERROR_SHAPE);
    assert_non_null(strstr(h.message, "hd_reshape: [2]"));
    assert_non_null(strstr(h.place, "in the scope of "));
    hd_error_clear();
    {
        HD_QUIET;
        fail_once();
        hd_error_clear();
    }
    assert_int_equal(h.count, 1);
    fail_once();
    assert_int_equal(h.count, 2);
    hd_error_set_handler(NULL, NULL);
    hd_error_clear();
}

static int steps;
static void two_steps(void) {
    ++steps;
    fail_once();
    HD_CHECK;
    ++steps;
}
static hd_tensor *two_results(bool wrong) {
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    if (wrong)
        fail_once();
    else
        HD_CHECK NULL;
    HD_CHECK NULL;
    return x;
}
static void hd_check_returns_from_the_function(void **state) {
    (void)state;
    HD_SCOPE;
    two_steps();
    assert_int_equal(steps, 1);
    hd_error_clear();
    assert_null(two_results(true));
    hd_error_clear();
    assert_non_null(two_results(false));
}

static void lines_are_named_on_demand(void **state) {
    (void)state;
    if (system("command -v addr2line >/dev/null 2>&1") != 0) skip();
    not_emulated("addr2line of this machine does not read another's program");
    HD_SCOPE;
    setenv("HODU_DEBUG", "lines", 1);
    char expected[64];
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    snprintf(expected, sizeof expected, "test_error.c:%d", __LINE__ + 1);
    hd_reshape(x, HD_SHAPE(3));
    const char *place = hd_error_place(), *found = strstr(place, "test_error.c:");
    unsetenv("HODU_DEBUG");
    assert_non_null(found);
    assert_string_equal(found, expected);
    hd_error_clear();
    hd_reshape(x, HD_SHAPE(3));
    assert_non_null(strstr(hd_error_place(), "in the scope of "));
    hd_error_clear();
}

/* ---- which call, and where --------------------------------------------------------------------------------------- */
/* The pending error is of this call and, where addr2line can tell, of this line. */
static void assert_from(const char *call, int line, const char *what) {
    char expected[64];
    snprintf(expected, sizeof expected, "test_error.c:%d", line);
    const char *found = strstr(hd_error_place(), "test_error.c:");
    if (strcmp(hd_error_call(), call) != 0 || found == NULL || (line != 0 && strcmp(found, expected) != 0))
        fail_msg("%s: expected an error of %s at line %d, got \"%s\" (%s)", what, call, line, hd_error_message(),
                 hd_error_place());
    hd_error_clear();
}
static bool names_lines(void) {
    if (HODU_EMULATOR[0] != '\0' || system("command -v addr2line >/dev/null 2>&1") != 0) return false;
    setenv("HODU_DEBUG", "lines", 1);
    return true;
}

#define assert_named(name, call)                                                                                       \
    do {                                                                                                               \
        const int line_ = __LINE__;                                                                                    \
        assert_null(call);                                                                                             \
        assert_from(name, lines ? line_ : 0, #call);                                                                   \
    } while (0)

static void what_is_made_of_other_calls_names_itself_and_its_caller(void **state) {
    (void)state;
    HD_SCOPE;
    const bool lines = names_lines();
    const int64_t large = INT64_C(1) << 40;
    hd_module *linear = hd_linear(1, 1, NULL);
    hd_tensor *x = hd_ones(HD_SHAPE(2, 3), HD_F32);
    assert_named("hd_linear", hd_linear(large, large, NULL));
    assert_named("hd_multihead_attention", hd_multihead_attention(large, 2, NULL));
    assert_named("hd_conv_layer", hd_conv_layer(large, large, HD_SHAPE(3, 3), NULL));
    assert_named("hd_conv_transpose_layer", hd_conv_transpose_layer(large, large, HD_SHAPE(3), NULL));
    assert_named("hd_layer_norm_layer", hd_layer_norm_layer(HD_SHAPE(large, 64), NULL));
    assert_named("hd_rms_norm_layer", hd_rms_norm_layer(large * 64, NULL));
    assert_named("hd_sequential", HD_SEQUENTIAL(linear, NULL));
    assert_named("hd_sequential", hd_sequential((hd_module *[]){linear, (hd_module *)x}, 2));
    assert_named("hd_compile", hd_compile((hd_module *)x, NULL));
    assert_named("hd_sgd", hd_sgd(HD_TENSORS(x), 0.1, NULL));
    assert_named("hd_unsqueeze", hd_unsqueeze(x, 9));
    assert_named("hd_transpose", hd_transpose(x, 0, 9));
    assert_named("hd_forward", hd_forward(hd_multihead_attention(3, 1, NULL), hd_ones(HD_SHAPE(3), HD_F32)));
    unsetenv("HODU_DEBUG");
}

static void without_a_scope_no_place_is_made_up(void **state) {
    (void)state;
    assert_null(hd_linear(INT64_C(1) << 40, INT64_C(1) << 40, NULL));
    assert_string_equal(hd_error_call(), "hd_linear");
    assert_null(strstr(hd_error_place(), "?"));
    hd_error_clear();
}

static int mistake_line, mistakes;
static __attribute__((noinline)) void make_a_mistake(void) {
    ++mistakes;
    mistake_line = __LINE__ + 1;
    hd_matmul(NULL, NULL);
    __asm__ volatile(""); /* so that it returns here */
}
static hd_tensor *hook(hd_tensor *gradient, void *user) {
    (void)gradient, (void)user;
    make_a_mistake();
    return NULL;
}
static bool only_anew;
static hd_tensor *function(hd_tensors *inputs, void *user) {
    (void)user;
    if (!only_anew || mistakes++ > 0) make_a_mistake();
    return hd_exp(hd_tensors_get(inputs, 0));
}
static hd_tensor *forward(hd_module *module, hd_tensor *x) {
    (void)module;
    make_a_mistake();
    return x;
}
static void destroy(void *unused) {
    (void)unused;
    make_a_mistake();
}
static void begin(hd_optimizer *optimizer, void *unused) {
    (void)optimizer, (void)unused;
    make_a_mistake();
}
static void update(hd_optimizer *optimizer, void *unused, hd_tensor *p, hd_tensor *g, hd_tensor *const *slots) {
    (void)optimizer, (void)unused, (void)p, (void)g, (void)slots;
    make_a_mistake();
}
static void release_blob(void *data, void *user) {
    (void)data, (void)user;
    make_a_mistake();
}
static void on_warning(hd_error code, const char *message, const char *place, void *user) {
    (void)message, (void)place, (void)user;
    if (code == HD_OK) make_a_mistake();
}

static void calls_that_a_callback_makes_name_themselves(void **state) {
    (void)state;
    HD_SCOPE;
    const bool lines = names_lines();
    static const hd_module_class module_class = {.name = "m", .forward = forward},
                                 dies = {.name = "dies", .forward = forward, .destroy = destroy};
    static const hd_optimizer_class updates = {.name = "updates", .update = update},
                                    begins = {.name = "begins", .begin = begin, .update = update},
                                    ends = {.name = "ends", .update = update, .destroy = destroy};
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2, 2), HD_F64)), *hooked = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_tensor *inside = hd_exp(x);
    hd_add_grad_hook(hooked, hook, NULL);
    hd_add_grad_hook(inside, hook, NULL);
    hd_backward(hd_exp(x));
#define assert_mistake(...)                                                                                            \
    do {                                                                                                               \
        mistakes = 0;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
        assert_true(mistakes > 0);                                                                                     \
        assert_from("hd_matmul", lines ? mistake_line : 0, #__VA_ARGS__);                                              \
    } while (0)
    assert_mistake(hd_backward(hd_mul(hooked, hooked)));
    assert_mistake(hd_backward(hd_mul(inside, inside)));
    assert_mistake(hd_grad_of(hd_mul(hooked, hooked), HD_TENSORS(hooked), NULL));
    assert_mistake(hd_forward(hd_module_new(&module_class, NULL), x));
    assert_mistake(hd_forward(HD_SEQUENTIAL(hd_module_new(&module_class, NULL)), x));
    assert_mistake(hd_forward(
        hd_compile(hd_module_new(&module_class, NULL), HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH)),
        hd_ones(HD_SHAPE(2), HD_F32)));
    assert_mistake(hd_optimizer_step(hd_optimizer_new(&updates, NULL, HD_TENSORS(x), 1)));
    assert_mistake(hd_optimizer_step(hd_optimizer_new(&begins, NULL, HD_TENSORS(x), 1)));
    assert_mistake(hd_gradcheck(function, NULL, HD_TENSORS(hd_ones(HD_SHAPE(2), HD_F64)), NULL));
    assert_mistake(hd_recompute(function, NULL, HD_TENSORS(x)));
    only_anew = true;
    assert_mistake(hd_backward(hd_recompute(function, NULL, HD_TENSORS(x))));
    only_anew = false;
    assert_mistake(hd_release(hd_module_new(&dies, NULL)));
    assert_mistake(hd_release(hd_optimizer_new(&ends, NULL, HD_TENSORS(x), 1)));
    assert_mistake(hd_release(hd_from_blob(&(double){1}, HD_SHAPE(), HD_F64, release_blob, NULL)));
    hd_optimizer *idle = hd_sgd(HD_TENSORS(hooked), 1, NULL);
    hd_error_set_handler(on_warning, NULL);
    assert_mistake(hd_optimizer_step(idle)); /* is warned of, as it has no gradients */
    hd_error_set_handler(NULL, NULL);
    unsetenv("HODU_DEBUG");
}

static hd_tensor *calls_and_gives_nothing(hd_tensors *inputs, void *user) {
    (void)user;
    hd_exp(hd_tensors_get(inputs, 0));
    return NULL;
}
static hd_tensor *forwards_nothing(hd_module *module, hd_tensor *x) {
    (void)module;
    hd_exp(x);
    return NULL;
}
static void after_a_callback_the_call_has_its_name_again(void **state) {
    (void)state;
    HD_SCOPE;
    const bool lines = names_lines();
    static const hd_module_class module_class = {.name = "m", .forward = forwards_nothing};
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_module *m = hd_module_new(&module_class, NULL);
    assert_named("hd_recompute", hd_recompute(calls_and_gives_nothing, NULL, HD_TENSORS(x)));
    assert_named("hd_forward", hd_forward(m, x));
    assert_named("hd_forward", hd_forward(HD_SEQUENTIAL(hd_tanh_layer(), m), x));
    unsetenv("HODU_DEBUG");
}

static void many_objects_in_one_scope(void) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1), HD_F32);
    for (int i = 0; i < 70000; ++i) hd_neg(x);
}
static void many_objects_in_many_scopes(void) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(1), HD_F32);
    for (int i = 0; i < 70000; ++i) {
        HD_SCOPE;
        hd_neg(x);
    }
}
static void a_forgotten_scope_is_warned_of_once(void **state) {
    (void)state;
    char out[1024];
    int status;
    run_child(many_objects_in_one_scope, out, sizeof out, &status);
    assert_int_equal(occurrences(out, "hodu warning: 32768 objects belong to the scope that begins at "), 1);
    assert_int_equal(occurrences(out, "\n"), 1);
    assert_non_null(strstr(out, "test_error.c:"));
    assert_non_null(strstr(out, "a loop needs HD_SCOPE;"));
    run_child(many_objects_in_many_scopes, out, sizeof out, &status);
    assert_string_equal(out, "");
}

static void hodu_trap_stops_at_the_first_error(void **state) {
    (void)state;
    char out[1024];
    int status;
    run_child(trapped, out, sizeof out, &status);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTRAP);
}

static void every_code_has_a_meaning(void **state) {
    (void)state;
    for (int code = 0; code < HD_ERROR_COUNT; ++code) assert_true(strlen(hd_error_meaning((hd_error)code)) > 3);
    assert_string_equal(hd_error_meaning((hd_error)999), "unknown error code");
}

RUN(test(the_first_error_sticks), test(scopes_end_while_an_error_is_pending), test(null_and_wrong_arguments_are_named),
    test(composites_keep_their_own_name), test(an_error_is_printed_when_it_arises_and_once),
    test(a_handler_of_the_host_hears_every_first_error), test(hd_check_returns_from_the_function),
    test(a_forgotten_scope_is_warned_of_once), test(lines_are_named_on_demand),
    test(what_is_made_of_other_calls_names_itself_and_its_caller), test(without_a_scope_no_place_is_made_up),
    test(calls_that_a_callback_makes_name_themselves), test(after_a_callback_the_call_has_its_name_again),
    test(hodu_trap_stops_at_the_first_error), test(every_code_has_a_meaning))
