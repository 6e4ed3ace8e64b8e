/* Tapes belong to threads; parameters, results and gradients may be handed over. Worth most under tsan. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4 };

/* Runs a function in several threads at once; what one returns is what went wrong. */
static void at_once(int count, void *(*function)(void *), void **arguments) {
    pthread_t id[THREADS];
    for (int i = 0; i < count; ++i)
        assert_int_equal(pthread_create(&id[i], NULL, function, arguments != NULL ? arguments[i] : NULL), 0);
    for (int i = 0; i < count; ++i) {
        void *wrong;
        pthread_join(id[i], &wrong);
        if (wrong != NULL) fail_msg("thread %d: %s", i, (const char *)wrong);
    }
}
static char *why(void) { /* the pending error, or NULL */
    if (hd_ok()) return NULL;
    static _Thread_local char text[512];
    snprintf(text, sizeof text, "%s", hd_error_message());
    hd_error_clear();
    return strdup(text); /* outlives the thread; a failed test may leak */
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
static void *has_its_own(void *unused) {
    (void)unused;
    HD_SCOPE;
    if (hd_grad_context_id() != 0 || hd_tape_length() != 0) return "a context or records of another thread";
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3));
    if (!hd_tensor_requires_grad(hd_mul(x, x))) return "HD_NO_GRAD of another thread";
    if (hd_tape_length() != 1) return "the tape";
    hd_clear_default_context_tape();
    HD_GRAD_CONTEXT;
    hd_backward(hd_mul(x, x));
    return hd_item(hd_grad(x)) == 6 ? why() : "the gradient";
}
static void contexts_and_no_grad_are_per_thread(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 2)), *y = hd_mul(x, x);
    {
        HD_GRAD_CONTEXT;
        HD_NO_GRAD;
        at_once(THREADS, has_its_own, NULL);
    }
    assert_int_equal(hd_tape_length(), 1);
    hd_backward(y);
    assert_true(hd_item(hd_grad(x)) == 4);
}

static void *leaves_everything_open(void *x) {
    hd_grad_context_push(); /* no scope, contexts and records left: the end of the thread sees to all of it */
    hd_tensor *y = hd_exp(x);
    hd_retain_grad(y);
    static hd_grad_token token;
    token = hd_no_grad_begin(&token);
    hd_grad_context_push();
    return hd_ok() ? NULL : "an error";
}
static void the_end_of_a_thread_ends_its_contexts_and_tapes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(10), HD_F32));
    const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
    void *arguments[1] = {x};
    at_once(1, leaves_everything_open, arguments);
    assert_int_equal(hd_live_objects(), objects);
    assert_int_equal(hd_memory().live_bytes, bytes);
}

/* ---- sharing ----------------------------------------------------------------------------------------------------- */
static struct { hd_tensor *frozen, *weight, *data, *target; } shared;

/* A model of its own on top of layers that all threads read: one plain, one that requires a gradient but is only asked
 * for by hd_grad_of, which writes nothing into it. */
static void *trains_its_copy(void *seed) {
    HD_SCOPE;
    hd_seed((uint64_t)(uintptr_t)seed);
    hd_module *head = hd_linear(6, 1, NULL);
    hd_optimizer *adam = hd_adam(hd_module_parameters(head), 0.05, NULL);
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
        HD_SCOPE;
        hd_optimizer_zero_grad(adam);
        hd_tensor *hidden = hd_tanh(hd_matmul(hd_matmul(shared.data, shared.frozen), shared.weight));
        hd_tensor *loss = hd_mse(hd_forward(head, hidden), shared.target, NULL);
        hd_tensors *parameters = hd_module_parameters(head);
        hd_tensor *w = hd_tensors_get(parameters, 0), *b = hd_tensors_get(parameters, 1);
        hd_tensors *gradients = hd_grad_of(loss, HD_TENSORS(w, b, shared.weight), NULL);
        hd_set_grad(w, hd_tensors_get(gradients, 0));
        hd_set_grad(b, hd_tensors_get(gradients, 1));
        hd_optimizer_step(adam);
        last = hd_item(loss);
        if (i == 0) first = last;
    }
    if (!hd_ok()) return why();
    return last < first * 0.9 ? NULL : "the loss does not fall";
}
static void threads_train_copies_over_shared_parameters(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(1);
    shared.frozen = hd_randn(HD_SHAPE(5, 6), HD_F32);
    shared.weight = hd_param(hd_randn(HD_SHAPE(6, 6), HD_F32));
    shared.data = hd_randn(HD_SHAPE(16, 5), HD_F32);
    shared.target = hd_randn(HD_SHAPE(16, 1), HD_F32);
    void *seeds[THREADS] = {(void *)1, (void *)2, (void *)3, (void *)4};
    at_once(THREADS, trains_its_copy, seeds);
    assert_false(hd_has_grad(shared.weight));
}

/* Two threads that use one leaf in turn overwrite its place each time. */
static hd_tensor *leaf;
static _Atomic int hook_calls;
static _Atomic bool hook_saw_a_part;
static hd_tensor *counts(hd_tensor *gradient, void *user) {
    (void)user;
    atomic_fetch_add(&hook_calls, 1);
    if (hd_item(gradient) != 1 + 2 + 3 + 4) atomic_store(&hook_saw_a_part, true);
    return NULL;
}
static void *uses_the_leaf(void *unused) {
    (void)unused;
    for (int i = 0; i < 300; ++i) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        hd_tensor *sum = hd_mul_scalar(leaf, 1);
        for (int k = 2; k <= 4; ++k) sum = hd_add(sum, hd_mul_scalar(leaf, k));
        if (hd_item(hd_tensors_get(hd_grad_of(sum, HD_TENSORS(leaf), NULL), 0)) != 10)
            return "the gradient of a shared leaf";
    }
    return why();
}
static void a_leaf_may_be_on_many_tapes_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    leaf = hd_param(hd_full(HD_SHAPE(), HD_F32, 2));
    at_once(THREADS, uses_the_leaf, NULL);
    hd_add_grad_hook(leaf, counts, NULL);
    atomic_store(&hook_calls, 0);
    at_once(THREADS, uses_the_leaf, NULL);
    assert_int_equal(atomic_load(&hook_calls), 300 * THREADS); /* once for each walk, however the threads meet */
    assert_false(atomic_load(&hook_saw_a_part));
}

/* A hook may wait for threads; but what they walk back to must not be the leaf whose gradient is on its way. */
static char refusal[512];
static void *walks_to_the_same_leaf(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *own = hd_param(hd_full(HD_SHAPE(), HD_F32, 5));
    hd_backward(hd_mul(leaf, own));
    snprintf(refusal, sizeof refusal, "%s", hd_error_message());
    hd_error_clear();
    return hd_has_grad(own) ? "a gradient of a walk that failed" : NULL;
}
static hd_tensor *waits_for_a_thread(hd_tensor *gradient, void *user) {
    (void)gradient, (void)user;
    at_once(1, walks_to_the_same_leaf, NULL);
    return NULL;
}
static void a_hook_waits_for_a_thread_that_wants_the_same_leaf(void **state) {
    (void)state;
    HD_SCOPE;
    leaf = hd_param(hd_full(HD_SHAPE(), HD_F32, 2));
    hd_add_grad_hook(leaf, waits_for_a_thread, NULL);
    hd_backward(hd_mul(leaf, leaf));
    assert_true(hd_item(hd_grad(leaf)) == 4);
    assert_non_null(strstr(refusal, "hd_backward: the gradient of a tensor [] is being changed by another thread"));
}

/* Threads that walk back to one parameter at once: a walk adds all it has, or is an error that says what to do. */
enum { WALKS = 4000 };
static hd_tensor *both[2];
static _Atomic int walks_that_added;
static char *check_refusal(void) { /* NULL: the error was the expected one */
    const char *message = hd_error_message();
    const bool expected = strstr(message, "hd_backward: the gradient of a tensor [3] is being ") != NULL &&
                          strstr(message, "make a copy of the parameter for each thread, or take gradients with "
                                          "hd_grad_of, and add them up in one thread") != NULL;
    if (!expected) return why();
    hd_error_clear();
    return NULL;
}
static void *walks_back_to_both(void *first) {
    for (int i = 0; i < WALKS; ++i) {
        HD_SCOPE;
        HD_QUIET;
        HD_GRAD_CONTEXT; /* both are reached in this order or that one, so that each thread may have taken one */
        hd_tensor *a = first != NULL ? both[0] : both[1], *b = first != NULL ? both[1] : both[0];
        hd_backward(hd_add(hd_mul(a, a), b));
        if (hd_ok()) {
            atomic_fetch_add(&walks_that_added, 1);
            continue;
        }
        char *wrong = check_refusal();
        if (wrong != NULL) return wrong;
    }
    return NULL;
}
static void two_threads_that_walk_back_to_one_parameter_are_told(void **state) {
    (void)state;
    HD_SCOPE;
    for (int i = 0; i < 2; ++i) both[i] = hd_param(hd_ones(HD_SHAPE(3), HD_F32));
    atomic_store(&walks_that_added, 0);
    void *arguments[2] = {both[0], NULL};
    at_once(2, walks_back_to_both, arguments);
    /* 2 for a and 1 for b, of those walks alone that were no errors, to both or to none */
    hd_tensor *sum = hd_add(hd_grad(both[0]), hd_grad(both[1]));
    const int added = atomic_load(&walks_that_added);
    assert_true(added > 0);
    assert_values(sum, HD_F32, 3.0 * added, 3.0 * added, 3.0 * added);
}

/* Looking is no change: not even at zeros, which are made when they are first looked at. */
static void *looks_at_the_gradient(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *gradient = hd_grad(leaf);
    if (!hd_has_grad(leaf) || hd_item(hd_sum(gradient, HD_AXES(), NULL)) != 0) return "the zeros";
    return why();
}
static void threads_may_look_at_a_gradient_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    leaf = hd_param(hd_ones(HD_SHAPE(5), HD_F32));
    for (int i = 0; i < 100; ++i) {
        hd_zero_grad(leaf);
        at_once(THREADS, looks_at_the_gradient, NULL);
    }
}

/* hd_grad_of writes nothing, whoever adds gradients and hooks meanwhile. */
static hd_tensor *does_nothing(hd_tensor *gradient, void *user) {
    (void)gradient, (void)user;
    return NULL;
}
static void *adds_gradients_and_hooks(void *adds) {
    for (int i = 0; i < 500; ++i) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        hd_tensor *y = hd_mul(leaf, leaf);
        if (adds == NULL)
            hd_grad_of(y, HD_TENSORS(leaf), NULL);
        else
            hd_backward(y);
        if (adds != NULL && i % 50 == 0) hd_add_grad_hook(leaf, does_nothing, NULL);
    }
    return why();
}
static void gradients_as_values_are_taken_while_another_thread_adds(void **state) {
    (void)state;
    HD_SCOPE;
    leaf = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    void *arguments[3] = {leaf, NULL, NULL};
    at_once(3, adds_gradients_and_hooks, arguments);
    assert_values(hd_grad(leaf), HD_F32, 1000, 1000);
}

/* ---- handing over ------------------------------------------------------------------------------------------------ */
static void *trains_what_it_is_given(void *optimizer) {
    HD_SCOPE;
    hd_tensor *w = hd_tensors_get(hd_optimizer_parameters(optimizer), 0);
    for (int i = 0; i < 50; ++i) {
        HD_SCOPE;
        hd_optimizer_zero_grad(optimizer);
        hd_backward(hd_mse(w, hd_full(HD_SHAPE(3), HD_F32, 7), NULL));
        hd_optimizer_step(optimizer);
    }
    return why();
}
static void parameters_made_in_one_thread_are_trained_in_others(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_zeros(HD_SHAPE(3), HD_F32));
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(w), 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
    void *arguments[1] = {sgd};
    for (int i = 0; i < 3; ++i) at_once(1, trains_what_it_is_given, arguments); /* one after the other */
    assert_close(w, hd_full(HD_SHAPE(3), HD_F32, 7), 1e-4, HD_ZERO);
    assert_true(hd_item(hd_optimizer_steps(sgd)) == 150);
    hd_zero_grad(w);
    hd_backward(hd_mul_scalar(w, 2)); /* and here again */
    assert_values(hd_grad(w), HD_F32, 2, 2, 2);
}

static void *uses_a_foreign_result(void *result) {
    HD_SCOPE;
    hd_backward(hd_mul(result, result));
    return hd_item(hd_grad(result)) == 2 * 9 ? why() : "the gradient of what another thread made";
}
static void a_result_of_another_thread_acts_as_a_leaf(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *y = hd_mul(x, x);
    void *arguments[1] = {y};
    at_once(1, uses_a_foreign_result, arguments);
    assert_false(hd_has_grad(x));
    assert_true(hd_item(hd_grad(y)) == 18); /* its gradient came along */
    hd_backward(y);
    assert_true(hd_item(hd_grad(x)) == 6);
}

static void *releases(void *object) {
    hd_release(object);
    return why();
}
static void what_a_tape_needs_may_be_released_elsewhere(void **state) {
    (void)state;
    hd_tensor *x, *y;
    hd_module *model;
    {
        HD_SCOPE;
        x = hd_retain(hd_param(hd_full(HD_SHAPE(100), HD_F32, 2)));
        y = hd_retain(hd_exp(hd_mul(x, x)));
        model = hd_retain(HD_SEQUENTIAL(hd_linear(2, 3, NULL), hd_tanh_layer()));
        hd_backward(hd_forward(model, hd_ones(HD_SHAPE(2), HD_F32)));
    }
    void *arguments[2] = {x, model};
    at_once(2, releases, arguments);
    {
        HD_SCOPE;
        hd_backward(y); /* the tape holds what it reads */
        assert_ok();
    }
    hd_clear_tape();
    assert_int_equal(hd_live_objects(), 2); /* y and its storage */
    arguments[0] = y;
    at_once(1, releases, arguments);
    assert_int_equal(hd_live_objects(), 0);
}

static void *makes_a_trained_model(void *place) {
    HD_SCOPE;
    hd_module *model = hd_retain(hd_linear(2, 1, NULL));
    hd_backward(hd_forward(model, hd_ones(HD_SHAPE(2), HD_F32)));
    *(hd_module **)place = model;
    return why();
}
static void what_a_thread_made_outlives_it_with_its_gradients(void **state) {
    (void)state;
    hd_module *model = NULL;
    void *arguments[1] = {&model};
    at_once(1, makes_a_trained_model, arguments);
    {
        HD_SCOPE;
        hd_tensor *weight = hd_module_get(model, "weight");
        assert_values(hd_grad(weight), HD_F32, 1, 1);
        hd_backward(hd_forward(model, hd_ones(HD_SHAPE(2), HD_F32)));
        assert_values(hd_grad(weight), HD_F32, 2, 2);
    }
    hd_clear_tape();
    hd_release(model);
}

/* ---- the pool, and forks ----------------------------------------------------------------------------------------- */
static void *walks_large_tensors(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(300, 400), HD_F32, 0.5)),
              *w = hd_param(hd_full(HD_SHAPE(400, 30), HD_F32, 0.25));
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        hd_backward(hd_sum(hd_matmul(hd_exp(hd_mul_scalar(x, 0)), w), HD_AXES(), NULL));
        hd_clear_tape();
    }
    if (!hd_ok()) return why();
    return hd_item(hd_select(hd_flatten(hd_grad(w)), 0, -1)) == 900 ? NULL : "the gradient";
}
static void walks_share_the_pool(void **state) {
    (void)state;
    hd_set_num_threads(3);
    at_once(THREADS, walks_large_tensors, NULL);
    hd_set_num_threads(1);
}

static void a_tape_works_on_after_fork(void **state) {
    (void)state;
    not_on_a_device("its driver does not outlive a fork");
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *y = hd_mul(x, x);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        hd_backward(hd_mul(y, x));
        _exit(hd_item(hd_grad(x)) == 27 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_false(hd_has_grad(x));
    hd_backward(y);
    assert_true(hd_item(hd_grad(x)) == 6);
}

RUN(test(contexts_and_no_grad_are_per_thread), test(the_end_of_a_thread_ends_its_contexts_and_tapes),
    test(threads_train_copies_over_shared_parameters), test(a_leaf_may_be_on_many_tapes_at_once),
    test(a_hook_waits_for_a_thread_that_wants_the_same_leaf),
    test(two_threads_that_walk_back_to_one_parameter_are_told), test(threads_may_look_at_a_gradient_at_once),
    test(gradients_as_values_are_taken_while_another_thread_adds),
    test(parameters_made_in_one_thread_are_trained_in_others), test(a_result_of_another_thread_acts_as_a_leaf),
    test(what_a_tape_needs_may_be_released_elsewhere), test(what_a_thread_made_outlives_it_with_its_gradients),
    test(walks_share_the_pool), test(a_tape_works_on_after_fork))
