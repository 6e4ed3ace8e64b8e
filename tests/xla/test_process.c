/* Scripts under XLA and the process that they are in: threads side by side, waiting, the end while something runs,
 * forks. */
#include "builders.h"
#include "compiler/own_cache.h"
#include "differences.h"
#include "graph/calls.h"
#include "programs.h"
#include "core/tensor.h"
#include "xla/value.h"

#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4, RUNS = 100 };

static hd_script *under_xla(hd_script *s) {
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    return s;
}

/* w <- w + x, y = (w + constant) * 1. */
static hd_script *accumulates(hd_tensor *w, hd_tensor *constant) {
    hd_builder *b = started("accumulates");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_input("x", S(64), HD_F32));
    hd_builder_add_output(b, "y", hd_mul(hd_add(w, constant), hd_exp(hd_mul_scalar(constant, 0))));
    return under_xla(built(b));
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
typedef struct job {
    hd_script *script;
    float step;
} job;

/* What went wrong; NULL: nothing. It outlives the thread. */
static void *error_of(void) { return hd_ok() ? NULL : strdup(hd_error_message()); }

static void *runs_alone(void *argument) {
    HD_SCOPE;
    const job *j = argument;
    float expected = 0;
    for (int i = 0; i < RUNS; ++i) {
        HD_SCOPE;
        if (i % 25 == 24) hd_script_set_compiler(j->script, HD_COMPILER_HODU); /* and back, which compiles anew */
        if (i % 25 == 0) hd_script_set_compiler(j->script, HD_COMPILER_XLA);
        hd_script_set_input(j->script, "x", hd_full(S(64), HD_F32, j->step));
        hd_outputs *o = hd_script_run(j->script);
        expected += j->step;
        if (i % 3 == 1) continue; /* not every run is waited for */
        const float *y = hd_data_f32(hd_outputs_get(o, "y"));
        if (y == NULL) return error_of();
        if (y[0] != expected + 1 || y[63] != expected + 1) return strdup("a wrong output");
    }
    return error_of();
}

static void join(pthread_t id) {
    void *why = NULL;
    pthread_join(id, &why);
    if (why != NULL) fail_msg("%s", (const char *)why);
}

/* Clones have one text: they compile at the same time, and share the program. */
static void threads_run_side_by_side(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(S(64), HD_F32), *constant = hd_ones(S(64), HD_F32);
    hd_script *s = accumulates(w, constant);
    assert_ok();
    pthread_t id[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        jobs[i] = (job){i == 0 ? s : hd_script_clone(s), (float)(i + 1)};
        assert_non_null(jobs[i].script);
    }
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, runs_alone, &jobs[i]);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
    assert_true(hd_data_f32(w)[0] == RUNS); /* the first one's state is the tensor */
    for (int i = 1; i < THREADS; ++i)
        assert_true(hd_data_f32(hd_script_state(jobs[i].script, "w"))[5] == (float)(RUNS * (i + 1)));
}

/* One output that several threads read: the first waits for the run, the others find it. */
static void *reads(void *tensor) {
    const float *y = hd_data_f32(tensor);
    return y == NULL ? error_of() : y[63] == 3 ? NULL : strdup("a wrong value");
}
static void threads_read_one_output(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = accumulates(hd_zeros(S(64), HD_F32), hd_ones(S(64), HD_F32));
    hd_script_set_input(s, "x", hd_full(S(64), HD_F32, 2));
    hd_tensor *y = output(s, "y");
    assert_ok();
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, reads, y);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
}

/* ---- children ---------------------------------------------------------------------------------------------------- */
static int status_of(pid_t child) {
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* This program again, with a word that says what to do. */
static int run_self(const char *what) {
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "test", what, (char *)NULL);
        _exit(99);
    }
    return status_of(child);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */
/* A good while of work, in which nothing can go wrong: the run is not waited for. */
static hd_script *slow(void) {
    enum { SIZE = 512, TIMES = 30 };
    hd_builder *b = hd_builder_new("slow");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", S(SIZE, SIZE), HD_F32), *y = x;
    for (int i = 0; i < TIMES; ++i) y = hd_mul_scalar(hd_matmul(y, x), 1.0 / SIZE);
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    hd_script *s = under_xla(hd_builder_build(b));
    hd_script_set_input(s, "x", hd_ones(S(SIZE, SIZE), HD_F32));
    return s;
}

static bool is_ready(hd_tensor *t) {
    return hd_xla_buffer_is_ready(hd_xla_value_buffer(t->storage, hd_xla_device_of(hd_cpu())));
}

/* The last run is under way when main returns: with all that it made, or with nothing held any more. */
static int end_while_running(bool scoped) {
    static hd_script *s;
    static hd_outputs *o;
    bool ready = true;
    if (scoped) {
        HD_SCOPE;
        s = slow();
        o = hd_script_run(s);
        ready = o == NULL || is_ready(hd_outputs_at(o, 0));
    } else {
        s = slow(); /* nobody releases these */
        o = hd_script_run(s);
        ready = o == NULL || is_ready(hd_outputs_at(o, 0));
    }
    if (!hd_ok()) return hd_exit_status();
    return ready ? 7 : 0;
}

static void synchronizing_waits(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = slow();
    hd_script_compile(s);
    hd_synchronize(); /* with nothing to wait for */
    hd_outputs *first = hd_script_run(s), *second = hd_script_run(s);
    hd_tensor *y = hd_outputs_at(first, 0), *z = hd_outputs_at(second, 0);
    assert_ok();
    assert_false(is_ready(z));
    hd_synchronize();
    assert_true(is_ready(y) && is_ready(z));
    assert_ok();
}

static void the_process_may_end_while_it_runs(void **state) {
    (void)state;
    for (int i = 0; i < 20; ++i) assert_int_equal(run_self(i % 2 ? "end-scoped" : "end"), 0);
}

/* ---- forks ------------------------------------------------------------------------------------------------------- */
/* What XLA has is the parent's; what was read before, and HODU, work. */
static int in_the_child(hd_script *s, hd_tensor *read, hd_tensor *unread) {
    int wrong = 0;
    {
        HD_SCOPE;
        wrong += hd_script_run(s) != NULL || !says_fork();
        hd_script_compile(under_xla(hd_script_clone(s)));
        wrong += !says_fork();
        wrong += hd_data_f32(unread) != NULL || !says_fork();
        wrong += hd_data_f32(read) == NULL || hd_data_f32(read)[0] != 3;
        hd_script *other = accumulates(hd_zeros(S(64), HD_F32), hd_ones(S(64), HD_F32));
        hd_script_set_compiler(other, HD_COMPILER_HODU);
        hd_script_set_input(other, "x", hd_full(S(64), HD_F32, 2));
        hd_tensor *y = hd_outputs_get(hd_script_run(other), "y");
        wrong += y == NULL || hd_data_f32(y)[0] != 3;
    }
    if (!hd_ok()) fprintf(stderr, "in the child: %s\n", hd_error_message());
    return wrong;
}

static void a_forked_child_is_told_and_the_parent_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(S(64), HD_F32);
    hd_script *s = accumulates(w, hd_ones(S(64), HD_F32));
    hd_script_set_input(s, "x", hd_full(S(64), HD_F32, 2));
    hd_tensor *read = output(s, "y"), *unread;
    assert_true(hd_data_f32(read)[0] == 3);
    unread = output(s, "y");
    assert_ok();
    const pid_t child = fork();
    if (child == 0) _exit(in_the_child(s, read, unread));
    assert_int_equal(status_of(child), 0);
    assert_true(hd_data_f32(unread)[0] == 5);
    assert_true(hd_data_f32(output(s, "y"))[0] == 7);
    assert_true(hd_data_f32(w)[0] == 6);
    assert_ok();
}

/* While threads run scripts, the process forks: no child hangs in a lock that somebody else held. */
static _Atomic bool enough;
static void *runs_until_enough(void *script) {
    HD_SCOPE;
    hd_script_set_input(script, "x", hd_full(S(64), HD_F32, 1));
    while (!enough && hd_ok()) {
        HD_SCOPE;
        hd_data_f32(hd_outputs_at(hd_script_run(script), 0));
    }
    return error_of();
}
static int told_in_child(hd_script *s) {
    HD_SCOPE;
    return hd_script_run(s) != NULL || !says_fork();
}
static void forks_while_threads_run(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = accumulates(hd_zeros(S(64), HD_F32), hd_ones(S(64), HD_F32));
    hd_script *mine = hd_script_clone(s);
    hd_script_set_input(mine, "x", hd_full(S(64), HD_F32, 1));
    hd_script_compile(mine);
    assert_ok();
    pthread_t id;
    enough = false;
    pthread_create(&id, NULL, runs_until_enough, s);
    for (int i = 0; i < 10; ++i) {
        const pid_t child = fork();
        if (child == 0) _exit(told_in_child(mine));
        assert_int_equal(status_of(child), 0);
    }
    enough = true;
    join(id);
}

static void a_child_may_be_the_first(void **state) {
    (void)state;
    assert_int_equal(run_self("fork"), 0);
}
static int fork_first(void) {
    const pid_t child = fork();
    if (child != 0) return status_of(child);
    HD_SCOPE;
    hd_script *s = accumulates(hd_zeros(S(64), HD_F32), hd_ones(S(64), HD_F32));
    hd_script_set_input(s, "x", hd_full(S(64), HD_F32, 2));
    const float *y = hd_data_f32(hd_outputs_at(hd_script_run(s), 0));
    return y != NULL && y[0] == 3 ? hd_exit_status() : 1;
}

int main(int count, char **words) {
    if (!has_plugin()) return 77;
    if (count > 1)
        return strcmp(words[1], "fork") == 0 ? fork_first() : end_while_running(strcmp(words[1], "end-scoped") == 0);
    const struct CMUnitTest tests[] = {test(threads_run_side_by_side),
                                       test(threads_read_one_output),
                                       test(synchronizing_waits),
                                       test(the_process_may_end_while_it_runs),
                                       test(a_forked_child_is_told_and_the_parent_goes_on),
                                       test(forks_while_threads_run),
                                       test(a_child_may_be_the_first)};
    return cmocka_run_group_tests(tests, make_own_cache, remove_own_cache);
}
