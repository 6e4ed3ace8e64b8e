/* Scripts and threads: clones run side by side, scripts and what they gave change hands, recorded values are released
 * where nobody records. Worth most under tsan. */
#include "graph/calls.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, RUNS = 300 };

/* What a thread says went wrong; NULL: nothing. */
static void join(pthread_t id) {
    void *why = NULL;
    pthread_join(id, &why);
    if (why != NULL) fail_msg("%s", (const char *)why);
}
static const char *error_of(void) {
    static _Thread_local char text[512];
    if (hd_ok()) return NULL;
    char *own = strdup(hd_error_message());
    snprintf(text, sizeof text, "%s", own);
    free(own);
    hd_error_clear();
    return strdup(text); /* outlives the thread; only on failure */
}

/* ---- clones ------------------------------------------------------------------------------------------------------ */
/* w <- w + x, y = (w + constant) * folded. */
static hd_script *accumulates(hd_tensor *w, hd_tensor *constant) {
    hd_builder *b = started("accumulates");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_input("x", S(64), HD_F32));
    hd_builder_add_output(b, "y", hd_mul(hd_add(w, constant), hd_exp(hd_mul_scalar(constant, 0))));
    return built(b);
}

typedef struct job {
    hd_script *script;
    float step;
    int runs;
} job;

static void *runs_alone(void *argument) {
    HD_SCOPE;
    const job *j = argument;
    float expected = 0;
    for (int i = 0; i < j->runs; ++i) {
        HD_SCOPE;
        if (i % 50 == 0) hd_script_set_optimization_level(j->script, i % 100 == 0 ? HD_O0 : HD_O2);
        hd_script_set_input(j->script, "x", hd_full(S(64), HD_F32, j->step));
        hd_outputs *o = hd_script_run(j->script);
        expected += j->step;
        const float *y = hd_data_f32(hd_outputs_get(o, "y"));
        if (y == NULL) return (void *)error_of();
        if (y[0] != expected + 1 || y[63] != expected + 1) return "a wrong output";
    }
    return NULL;
}

static void clones_run_side_by_side(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(S(64), HD_F32), *constant = hd_ones(S(64), HD_F32);
    hd_script *s = accumulates(w, constant);
    hd_script_compile(s);
    pthread_t id[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        jobs[i] = (job){i == 0 ? s : hd_script_clone(s), (float)(i + 1), RUNS};
        assert_non_null(jobs[i].script);
    }
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, runs_alone, &jobs[i]);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
    assert_true(hd_data_f32(w)[0] == RUNS); /* the first one's state is the tensor */
    for (int i = 1; i < THREADS; ++i)
        assert_true(hd_data_f32(hd_script_state(jobs[i].script, "w"))[5] == (float)(RUNS * (i + 1)));
}

/* Large ones, whose kernels share the pool. */
static void *runs_large(void *argument) {
    HD_SCOPE;
    hd_script *s = argument;
    hd_tensor *x = hd_full(S(128, 256), HD_F32, 0.5);
    hd_script_set_input(s, "x", x);
    for (int i = 0; i < 10; ++i) {
        HD_SCOPE;
        hd_outputs *o = hd_script_run(s);
        const double mean = hd_item(hd_outputs_get(o, "mean"));
        if (!hd_ok()) return (void *)error_of();
        if (fabs(mean - 0.5 * 256 * 0.25) > 1e-3) return "a wrong mean";
    }
    return NULL;
}
static void large_clones_run_side_by_side(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_full(S(256, 64), HD_F32, 0.25);
    hd_builder *b = started("large");
    hd_builder_add_output(b, "mean", hd_mean(hd_matmul(hd_input("x", S(128, 256), HD_F32), w), X(), NULL));
    hd_script *s = built(b);
    pthread_t id[THREADS];
    hd_script *clones[THREADS];
    for (int i = 0; i < THREADS; ++i) clones[i] = hd_script_clone(s);
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, runs_large, clones[i]);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
}

/* While clones run, the tensor that was their state is written, and the one that is their constant. */
static void clones_do_not_see_what_others_write(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_zeros(S(64), HD_F32), *constant = hd_ones(S(64), HD_F32);
    hd_script *s = accumulates(w, constant);
    pthread_t id[THREADS];
    job jobs[THREADS];
    for (int i = 0; i < THREADS; ++i) jobs[i] = (job){hd_script_clone(s), (float)(i + 1), RUNS};
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, runs_alone, &jobs[i]);
    for (int i = 0; i < 100; ++i) {
        HD_SCOPE;
        hd_fill(w, i);
        hd_fill(constant, -i);
        hd_script_set_input(s, "x", hd_full(S(64), HD_F32, 1));
        hd_script_run(s);
        hd_script *another = hd_script_clone(s);
        hd_script_compile(another);
    }
    for (int i = 0; i < THREADS; ++i) join(id[i]);
    assert_ok();
}

/* ---- changing hands ---------------------------------------------------------------------------------------------- */
typedef struct parcel {
    hd_script *script;
    hd_outputs *outputs;
    hd_tensor *tensor;
} parcel;

static void *builds_and_hands_over(void *argument) {
    HD_SCOPE;
    parcel *p = argument;
    hd_tensor *w = hd_zeros(S(64), HD_F32), *constant = hd_ones(S(64), HD_F32);
    hd_script *s = accumulates(w, constant);
    hd_script_set_input(s, "x", hd_full(S(64), HD_F32, 1));
    p->script = hd_retain(s);
    p->outputs = hd_retain(hd_script_run(s));
    p->tensor = hd_retain(hd_outputs_get(p->outputs, "y"));
    return (void *)error_of();
}
static void *releases(void *argument) {
    parcel *p = argument;
    hd_release(p->outputs);
    hd_release(p->script);
    hd_release(p->tensor);
    return NULL;
}
static void scripts_and_outputs_change_hands(void **state) {
    (void)state;
    HD_SCOPE;
    parcel p = {NULL, NULL, NULL};
    pthread_t id;
    pthread_create(&id, NULL, builds_and_hands_over, &p);
    join(id); /* the thread that made them is gone */
    assert_true(hd_data_f32(p.tensor)[0] == 2);
    {
        HD_SCOPE;
        assert_true(hd_data_f32(hd_outputs_get(hd_script_run(p.script), "y"))[0] == 3);
        hd_script_set_optimization_level(p.script, HD_O1);
        assert_true(hd_data_f32(hd_outputs_get(hd_script_run(p.script), "y"))[0] == 4);
    }
    pthread_create(&id, NULL, releases, &p);
    join(id);
    assert_int_equal(hd_live_objects(), 0);
}

static void *releases_tensors(void *argument) {
    hd_tensor **list = argument;
    for (int i = 0; list[i] != NULL; ++i) {
        hd_release(list[i]);
        if (i % 16 == 0) usleep(10);
    }
    return NULL;
}
/* Recorded values may be released on another thread while this one goes on recording. */
static void recorded_values_may_be_released_elsewhere(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 400 };
    static hd_tensor *list[N + 1];
    hd_builder *b = started("elsewhere");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    {
        HD_SCOPE;
        for (int i = 0; i < N; ++i) list[i] = hd_retain(hd_mul_scalar(x, i));
        list[N] = NULL;
    }
    pthread_t id;
    pthread_create(&id, NULL, releases_tensors, list);
    hd_tensor *y = x;
    for (int i = 0; i < N; ++i) {
        HD_SCOPE;
        y = hd_keep(hd_add(y, hd_mul_scalar(x, 2)));
    }
    join(id);
    hd_builder_add_output(b, "y", y);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    assert_true(hd_data_f32(hd_outputs_at(hd_script_run(s), 0))[1] == 1 + 2 * N);
}

static void *releases_one(void *object) {
    hd_release(object);
    return NULL;
}
/* The last reference to a builder that records, dropped by another thread: the next call here finds it gone, and is at
 * once again; none records into what is not there. */
static void an_active_builder_may_be_released_elsewhere(void **state) {
    (void)state;
    hd_builder *b;
    {
        HD_SCOPE;
        b = hd_retain(hd_builder_new("elsewhere"));
        hd_builder_start(b);
    }
    pthread_t id;
    pthread_create(&id, NULL, releases_one, b);
    join(id);
    {
        HD_SCOPE;
        hd_exp(hd_ones(S(2), HD_F32));
        hd_error_clear(); /* that call may say so */
        assert_null(hd_thread_self()->recording);
        assert_values(hd_add(hd_ones(S(2), HD_F32), hd_ones(S(2), HD_F32)), HD_F32, 2, 2);
        hd_builder *other = started("other"); /* and another may start */
        hd_builder_end(other);
    }
    assert_ok();
}

/* ---- recording side by side -------------------------------------------------------------------------------------- */
static hd_tensor *shared_weight;
static void *records_and_trains(void *argument) {
    HD_SCOPE;
    (void)argument;
    for (int round = 0; round < 20; ++round) {
        HD_SCOPE;
        hd_builder *b = hd_builder_new("side by side");
        hd_builder_start(b);
        hd_tensor *x = hd_input("x", S(3), HD_F32);
        hd_tensor *loss = hd_sum(hd_mul(hd_exp(shared_weight), x), X(), NULL);
        hd_backward(loss); /* of a parameter that all threads share: gradients are each builder's own */
        hd_builder_add_output(b, "g", hd_grad(shared_weight));
        hd_builder_end(b);
        hd_script *s = hd_builder_build(b);
        hd_script_set_input(s, "x", hd_full(S(3), HD_F32, round));
        const float *g = hd_data_f32(hd_outputs_at(hd_script_run(s), 0));
        if (g == NULL) return (void *)error_of();
        if (g[0] != (float)round) return "a wrong gradient";
    }
    return NULL;
}
static void threads_record_with_one_parameter(void **state) {
    (void)state;
    HD_SCOPE;
    shared_weight = hd_param(hd_zeros(S(3), HD_F32));
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, records_and_trains, NULL);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
    assert_false(hd_has_grad(shared_weight));
}

/* Two builders on two threads write one tensor from outside, one after the other: each sees its own writes only, and in
 * the end the tensor is as it was. */
typedef struct meeting {
    hd_tensor *w;
    pthread_barrier_t barrier;
} meeting;
static void *writes_second(void *argument) {
    meeting *m = argument;
    HD_SCOPE;
    const char *why = NULL;
    hd_builder *b = hd_builder_new("second");
    pthread_barrier_wait(&m->barrier); /* the first one has written */
    hd_builder_start(b);
    hd_tensor *y = hd_mul_scalar(m->w, 3); /* of the value outside */
    hd_assign(m->w, hd_add_scalar(m->w, 10));
    pthread_barrier_wait(&m->barrier);
    pthread_barrier_wait(&m->barrier); /* the first one has ended */
    if (!isnan(hd_item(m->w))) why = "the old value was read after a write";
    hd_error_clear();
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "w", m->w);
    hd_builder_end(b);
    if (hd_item(m->w) != 1) why = "the tensor is not as it was";
    hd_script *s = hd_builder_build(b);
    hd_outputs *o = hd_script_run(s);
    if (hd_item(hd_outputs_get(o, "y")) != 3 || hd_item(hd_outputs_get(o, "w")) != 11) why = "a wrong output";
    if (!hd_ok()) return (void *)error_of();
    return (void *)why;
}
static void two_builders_may_write_one_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    meeting m = {.w = HD_TENSOR_F32(S(1), 1)};
    pthread_barrier_init(&m.barrier, NULL, 2);
    pthread_t id;
    pthread_create(&id, NULL, writes_second, &m);
    hd_builder *b = started("first");
    hd_assign(m.w, hd_mul_scalar(m.w, 5));
    pthread_barrier_wait(&m.barrier);
    pthread_barrier_wait(&m.barrier); /* the second one has written */
    hd_builder_add_output(b, "w", m.w);
    hd_script *s = built(b);
    pthread_barrier_wait(&m.barrier);
    join(id);
    pthread_barrier_destroy(&m.barrier);
    assert_values(m.w, HD_F32, 1);
    assert_values(hd_outputs_at(hd_script_run(s), 0), HD_F32, 5);
    hd_tensor *p = hd_param(HD_TENSOR_F32(S(1), 2)); /* and a tape still trusts it */
    hd_backward(hd_mul(p, m.w));
    assert_values(hd_grad(p), HD_F32, 1);
}

/* ---- one thread at a time ---------------------------------------------------------------------------------------- */
typedef struct shared {
    hd_script *script;
    _Atomic int ran, refused;
} shared;

static void *runs_what_others_run(void *argument) {
    HD_SCOPE;
    shared *s = argument;
    for (int i = 0; i < 2000; ++i) {
        HD_SCOPE;
        hd_tensor *y = hd_outputs_get(hd_script_run(s->script), "y");
        if (y != NULL && hd_item(y) != 8192) return "a wrong output";
        if (i % 100 == 0) hd_script_set_optimization_level(s->script, HD_O0 + (i / 100) % 3);
        if (i % 10 == 0) hd_script_set_input(s->script, "x", hd_ones(S(4096), HD_F32));
        if (hd_ok()) {
            s->ran++;
            continue;
        }
        s->refused++;
        if (strstr(hd_error_message(), "script \"shared\" is in use by another thread") == NULL ||
            strstr(hd_error_message(), "hd_script_clone") == NULL)
            return (void *)error_of();
        hd_error_clear();
    }
    return NULL;
}

static void a_script_that_two_threads_run_is_an_error_that_names_the_clone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("shared");
    hd_tensor *x = hd_input("x", S(4096), HD_F32);
    hd_builder_add_output(b, "y", hd_sum(hd_add(x, x), HD_AXES(0), NULL));
    shared s = {.script = built(b)};
    hd_script_set_input(s.script, "x", hd_ones(S(4096), HD_F32));
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, runs_what_others_run, &s);
    for (int i = 0; i < THREADS; ++i) join(id[i]);
    assert_int_equal(s.ran + s.refused, THREADS * 2000);
    assert_true(s.ran > 0);
    hd_script_run(s.script); /* whatever happened, it is nobody's now */
    assert_ok();
}

/* The release of lent memory is a callback in the midst of a call. */
static hd_script *of_callback;
static void runs_it_again(void *data, void *user) {
    (void)data;
    hd_script_run(of_callback);
    snprintf(user, 200, "%s", hd_error_message());
    hd_error_clear();
}

static void a_callback_may_not_use_the_script_that_calls_it(void **state) {
    (void)state;
    HD_SCOPE;
    float lent[64] = {0};
    char said[200] = "";
    of_callback = accumulates(hd_zeros(S(64), HD_F32), hd_ones(S(64), HD_F32));
    {
        HD_SCOPE;
        hd_script_set_input(of_callback, "x", hd_from_blob(lent, S(64), HD_F32, runs_it_again, said));
    }
    hd_script_set_input(of_callback, "x", hd_ones(S(64), HD_F32));
    assert_ok();
    assert_non_null(strstr(said, "is in use by a call on this thread"));
    hd_script_run(of_callback);
    assert_ok();
}

static void *says_what_it_may_not(void *argument) {
    HD_SCOPE;
    hd_builder *b = argument;
    hd_tensor *t = hd_ones(S(1), HD_F32);
    hd_builder_add_output(b, "y", t);
    if (hd_ok() || strstr(hd_error_message(), "builder \"mine\" is not active on this thread") == NULL)
        return (void *)"an output from another thread";
    hd_error_clear();
    hd_builder_add_state_of(b, NULL, NULL);
    if (hd_ok()) return (void *)"state from another thread";
    hd_error_clear();
    hd_builder_end(b);
    if (hd_ok()) return (void *)"an end from another thread";
    hd_error_clear();
    return NULL;
}

static void a_builder_is_used_where_it_records(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("mine");
    pthread_t id;
    pthread_create(&id, NULL, says_what_it_may_not, b);
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    for (int i = 0; i < 3000; ++i) x = hd_add_scalar(x, 1); /* names and nodes move meanwhile */
    join(id);
    hd_builder_add_output(b, "y", x);
    assert_non_null(built(b));
}

static void *starts_it(void *argument) {
    HD_SCOPE;
    hd_builder_start(argument);
    const bool mine = hd_ok();
    if (!mine && strstr(hd_error_message(), "builder \"one\"") == NULL) return (void *)error_of();
    hd_error_clear();
    if (mine) hd_builder_end(argument);
    return mine ? (void *)1 : NULL;
}

static void one_of_many_threads_starts_a_builder(void **state) {
    (void)state;
    for (int round = 0; round < 50; ++round) {
        HD_SCOPE;
        hd_builder *b = hd_builder_new("one");
        pthread_t id[THREADS];
        int started_by = 0;
        for (int i = 0; i < THREADS; ++i) pthread_create(&id[i], NULL, starts_it, b);
        for (int i = 0; i < THREADS; ++i) {
            void *mine = NULL;
            pthread_join(id[i], &mine);
            started_by += mine != NULL;
        }
        assert_int_equal(started_by, 1);
    }
}

static void *reads_what_another_records(void *t) {
    HD_SCOPE;
    for (int i = 0; i < 300; ++i) {
        hd_item(t);
        if (hd_ok() || strstr(hd_error_message(), "a builder records on another thread") == NULL)
            return (void *)"a value that is not known";
        hd_error_clear();
        hd_builder *b = hd_builder_new("other");
        hd_builder_start(b);
        hd_exp(t);
        if (hd_ok()) return (void *)"a value of another builder";
        hd_error_clear();
        hd_builder_end(b);
        hd_error_clear();
    }
    return NULL;
}

static void what_another_thread_records_cannot_be_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("mine");
    hd_tensor *x = hd_input("x", S(), HD_F32), *y = hd_exp(x);
    pthread_t id;
    pthread_create(&id, NULL, reads_what_another_records, y);
    for (int i = 0; i < 3000; ++i) x = hd_add_scalar(x, 1);
    join(id);
    hd_builder_end(b);
    hd_error_clear();
}

static void *runs_a_compiled_model(void *argument) {
    HD_SCOPE;
    HD_NO_GRAD;
    for (int i = 0; i < 300; ++i) {
        HD_SCOPE;
        hd_forward(argument, hd_ones(S(1 + i % 3, 4), HD_F32));
        if (!hd_ok() && strstr(hd_error_message(), "hd_compile the model once for each thread") == NULL)
            return (void *)error_of();
        hd_error_clear();
    }
    return NULL;
}

static void a_compiled_model_runs_on_one_thread_at_a_time(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_linear(4, 4, NULL), hd_tanh_layer());
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_forward(compiled, hd_ones(S(1, 4), HD_F32));
    pthread_t id[2];
    for (int i = 0; i < 2; ++i) pthread_create(&id[i], NULL, runs_a_compiled_model, compiled);
    for (int i = 0; i < 2; ++i) join(id[i]);
    hd_forward(compiled, hd_ones(S(1, 4), HD_F32));
    assert_ok();
}

RUN(test(a_script_that_two_threads_run_is_an_error_that_names_the_clone),
    test(a_callback_may_not_use_the_script_that_calls_it), test(a_builder_is_used_where_it_records),
    test(one_of_many_threads_starts_a_builder), test(what_another_thread_records_cannot_be_read),
    test(a_compiled_model_runs_on_one_thread_at_a_time), test(clones_run_side_by_side),
    test(large_clones_run_side_by_side), test(clones_do_not_see_what_others_write),
    test(scripts_and_outputs_change_hands), test(recorded_values_may_be_released_elsewhere),
    test(an_active_builder_may_be_released_elsewhere), test(threads_record_with_one_parameter),
    test(two_builders_may_write_one_tensor))
