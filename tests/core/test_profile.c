/* Profiles see every call, run, launch and phase, of all threads, and say where they come from. */
#include "support.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory.h"

static char *text_of(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const long bytes = ftell(file);
    rewind(file);
    char *text = calloc((size_t)bytes + 1, 1);
    assert_int_equal(fread(text, 1, (size_t)bytes, file), bytes);
    fclose(file);
    return text;
}

static int times_in(const char *text, const char *what) {
    int count = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) ++count;
    return count;
}

/* What `body` prints to stderr. */
static char *said_by(void (*body)(const char *path), const char *path) {
    char name[] = "/tmp/hodu-profile-XXXXXX";
    const int file = mkstemp(name), before = dup(2);
    assert_true(file >= 0);
    fflush(stderr);
    dup2(file, 2);
    body(path);
    fflush(stderr);
    dup2(before, 2);
    close(before);
    close(file);
    char *text = text_of(name);
    remove(name);
    return text;
}

static char trace_path[64];
static int make_path(void **state) {
    (void)state;
    snprintf(trace_path, sizeof trace_path, "/tmp/hodu-trace-%d", (int)getpid());
    return 0;
}
static int remove_path(void **state) {
    (void)state;
    remove(trace_path);
    return no_leaks(state);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */
static void some_calls(const char *path) {
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(4, 3), HD_F32)), *w = hd_ones(HD_SHAPE(3, 5), HD_F32);
    HD_PROFILE(path);
    for (int i = 0; i < 7; ++i) hd_matmul(x, w);
    hd_softmax(w, 1);
    hd_backward(hd_sum(hd_square(x), HD_AXES(), NULL));
    hd_fill(w, 2);
}
static void calls_are_counted_and_named(void **state) {
    (void)state;
    char *table = said_by(some_calls, trace_path), *trace = text_of(trace_path);
    assert_ok();
    assert_non_null(strstr(table, "matmul f32 [4,5]  by hd_matmul from "));
    assert_non_null(strstr(table, "by hd_softmax"));
    assert_non_null(strstr(table, "by hd_backward"));
    assert_non_null(strstr(table, "in the scope of test_profile.c:"));
    assert_int_equal(times_in(trace, "\"name\":\"matmul\""), 7);
    assert_int_equal(times_in(trace, "\"name\":\"write\""), 1);
    assert_int_equal(times_in(trace, "\"operations\":120,\"bytes\":188"), 7); /* 2 * 4 * 3 * 5; (12 + 15 + 20) * 4 */
    assert_non_null(strstr(trace, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{"));
    assert_string_equal(trace + strlen(trace) - 4, "\n]}\n");
    free(table);
    free(trace);
}

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
static void a_script_that_runs(const char *path) {
    HD_SCOPE;
    HD_PROFILE(path);
    hd_builder *b = hd_builder_new("a \"name\"");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", HD_SHAPE(64, 32), HD_F32);
    hd_builder_add_output(b, "y", hd_relu(hd_matmul(hd_exp(x), hd_ones(HD_SHAPE(32, 16), HD_F32))));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(64, 32), HD_F32));
    for (int i = 0; i < 3; ++i) hd_script_run(s);
}
static void runs_have_their_launches_and_phases(void **state) {
    (void)state;
    char *table = said_by(a_script_that_runs, trace_path), *trace = text_of(trace_path);
    assert_ok();
    assert_int_equal(times_in(trace, "\"cat\":\"run\",\"name\":\"a \\\"name\\\"\""), 3);
    assert_true(times_in(trace, "\"cat\":\"launch\"") >= 3);
    assert_int_equal(times_in(trace, "\"cat\":\"launch\"") % 3, 0);
    static const char *const phases[] = {"passes", "fusion", "lowering", "settling and memory"};
    for (int i = 0; i < 4; ++i) {
        char name[64];
        snprintf(name, sizeof name, "\"cat\":\"compile\",\"name\":\"%s\"", phases[i]);
        if (times_in(trace, name) != 1) fail_msg("%s is there %d times", phases[i], times_in(trace, name));
    }
    assert_int_equal(times_in(trace, "\"cat\":\"call\",\"name\":\"matmul\""), 0); /* it was recorded, not run */
    assert_non_null(strstr(table, "run     a \"name\""));
    free(table);
    free(trace);
}

/* ---- threads, and profiles inside of profiles -------------------------------------------------------------------- */
static void *add_there(void *x) {
    HD_SCOPE;
    for (int i = 0; i < 100; ++i) {
        HD_SCOPE;
        hd_add(x, x);
    }
    return NULL;
}
static void threads_inside(const char *path) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(8), HD_F32);
    HD_PROFILE(path);
    pthread_t threads[3];
    {
        HD_PROFILE(NULL);
        for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, add_there, x);
        for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
    }
    hd_mul(x, x);
}
static void threads_and_inner_profiles(void **state) {
    (void)state;
    char *table = said_by(threads_inside, trace_path), *trace = text_of(trace_path);
    assert_int_equal(times_in(trace, "\"name\":\"add\""), 300);
    assert_int_equal(times_in(trace, "\"name\":\"mul\""), 1);
    assert_int_equal(times_in(table, "profile of "), 2);
    assert_int_equal(times_in(table, "call    mul"), 1); /* not in the inner one, which ended before */
    assert_int_equal(times_in(table, "call    add f32 [8]  by hd_add"), 2);
    free(table);
    free(trace);
}

/* ---- what may fail ----------------------------------------------------------------------------------------------- */
static void a_call(const char *path) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    HD_QUIET;
    HD_PROFILE(path);
    hd_add(x, x);
}
static void a_trace_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    free(said_by(a_call, "/nowhere/at/all.json"));
    assert_error(HD_ERROR_VALUE, "the trace cannot be written to \"/nowhere/at/all.json\": No such file");
    free(said_by(a_call, "/dev/full"));
    assert_error(HD_ERROR_VALUE, "the trace cannot be written to \"/dev/full\": No space left");
}

static void failing(const char *path) {
    HD_SCOPE;
    HD_QUIET;
    HD_PROFILE(path);
    hd_add(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(3), HD_F32));
}
static void calls_that_fail_are_errors_as_always(void **state) {
    (void)state;
    free(said_by(failing, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_add");
}

static void ended_twice(const char *path) {
    HD_SCOPE;
    hd_profile_token token = hd_profile_begin(path), copy = token;
    hd_ones(HD_SHAPE(2), HD_F32);
    hd_profile_end(&token);
    hd_profile_end(&copy);
    hd_profile_end(&token);
}
static void a_profile_ends_once(void **state) {
    (void)state;
    char *table = said_by(ended_twice, NULL);
    assert_int_equal(times_in(table, "profile of "), 1);
    free(table);
}

static jmp_buf back;
static void jumped_out_of(const char *path) {
    HD_SCOPE;
    char name[64]; /* of the block that is left */
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    HD_PROFILE(NULL);
    {
        HD_SCOPE;
        if (setjmp(back) == 0) {
            snprintf(name, sizeof name, "%s", path);
            HD_PROFILE(name);
            hd_add(x, x);
            name[0] = '\0';
            longjmp(back, 1);
        }
        hd_mul(x, x);
    }
    hd_sub(x, x);
}
static void a_profile_that_was_jumped_out_of_ends_with_its_scope(void **state) {
    (void)state;
    char *table = said_by(jumped_out_of, trace_path), *trace = text_of(trace_path);
    assert_ok();
    assert_int_equal(times_in(table, "profile of "), 2);
    assert_int_equal(times_in(trace, "\"name\":\"add\""), 1);
    assert_int_equal(times_in(trace, "\"name\":\"mul\""), 1);
    assert_int_equal(times_in(trace, "\"name\":\"sub\""), 0);
    assert_int_equal(times_in(table, "call    sub"), 1); /* the one around it goes on */
    free(table);
    free(trace);
}

static void *adds(void *of) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    while (!atomic_load((atomic_bool *)of)) {
        HD_SCOPE;
        hd_add(x, x);
    }
    return NULL;
}
static void forks_inside(const char *path) {
    HD_SCOPE;
    HD_PROFILE(path);
    atomic_bool over = false;
    pthread_t thread;
    pthread_create(&thread, NULL, adds, &over);
    for (int i = 0; i < 20; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            HD_SCOPE;
            hd_add(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(2), HD_F32));
            _exit(hd_ok() ? 0 : 1);
        }
        int status = 1;
        waitpid(child, &status, 0);
        assert_int_equal(status, 0);
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}
static void children_take_no_profile(void **state) {
    (void)state;
    char *table = said_by(forks_inside, NULL);
    assert_int_equal(times_in(table, "profile of "), 1);
    free(table);
}

static const char *twice(hd_custom_args *args) {
    const float *x = args->inputs[0]->data;
    float *y = args->outputs[0]->data;
    for (int64_t i = 0; i < args->inputs[0]->count; ++i) y[i] = 2 * x[i];
    return NULL;
}
static void own_op(const char *path) {
    HD_SCOPE;
    HD_PROFILE(path);
    hd_custom("twice", HD_TENSORS(hd_ones(HD_SHAPE(3), HD_F32)), NULL, 0);
}
static void own_ops_have_their_names(void **state) {
    (void)state;
    hd_custom_register(HD_OPTS(hd_custom_op, .name = "twice", .inputs = 1, .compute = twice));
    char *table = said_by(own_op, NULL);
    assert_non_null(strstr(table, "call    custom \"twice\" f32 [3]"));
    free(table);
}

static void calls_behind_a_profile_run_as_before(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    hd_add(x, x);
    free(said_by(a_call, NULL));
    hd_tensor *y = hd_add(x, x); /* the long way, and nobody listens */
    assert_values(y, HD_F32, 2, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(calls_are_counted_and_named, make_path, remove_path),
        cmocka_unit_test_setup_teardown(runs_have_their_launches_and_phases, make_path, remove_path),
        cmocka_unit_test_setup_teardown(threads_and_inner_profiles, make_path, remove_path),
        test(a_trace_that_cannot_be_written_is_an_error),
        test(calls_that_fail_are_errors_as_always),
        test(own_ops_have_their_names),
        test(a_profile_ends_once),
        cmocka_unit_test_setup_teardown(a_profile_that_was_jumped_out_of_ends_with_its_scope, make_path, remove_path),
        test(children_take_no_profile),
        test(calls_behind_a_profile_run_as_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
