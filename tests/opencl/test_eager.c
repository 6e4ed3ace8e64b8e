/* Ops on an OpenCL device, with whatever driver is here: every primitive and most composites, with their gradients,
 * against the CPU. A sample of them, as PoCL takes a tenth of a second for each new kernel; all in `make check-gpu`. */
#include "support.h"
#include "in_a_child.h"

#include <pthread.h>
#include <sys/wait.h>

#include "core/memory.h"
#include "graph/calls.h"

static hd_device there(void) { return hd_opencl(0); }

typedef struct outcome {
    hd_tensor *value, *gradients[3];
} outcome;

/* ---- what goes through the CPU: the library says so on stderr, which is a file for that long ---- */
static FILE *said;
static int stderr_before;
static void listen(void) {
    said = tmpfile();
    assert_non_null(said);
    fflush(stderr);
    stderr_before = dup(2);
    dup2(fileno(said), 2);
}
static void hear_no_more(void) {
    fflush(stderr);
    if (said != NULL) dup2(stderr_before, 2);
}

/* Call k on a device, and the gradients of its operands; everything is brought to the CPU. */
static outcome run_on(int k, hd_device device) {
    hd_tensor *in[3];
    outcome o = {.value = NULL};
    hd_set_device(device);
    hd_seed(7);
    const int count = call_operands(k, in);
    for (int i = 0; i < count; ++i) in[i] = hd_requires_grad(in[i]);
    hd_tensor *y = run_call(in, &calls[k]);
    if (y != NULL && hd_tensor_requires_grad(y)) hd_backward(hd_sum(hd_mul(y, y), HD_AXES(), NULL));
    if (!hd_ok()) hear_no_more();
    if (!hd_ok()) fail_msg("%s on %d: %s", calls[k].name, (int)device.kind, hd_error_message());
    assert_true(hd_tensor_device(y).kind == device.kind);
    o.value = hd_to(y, hd_cpu());
    for (int i = 0; i < count; ++i) {
        hd_tensor *g = hd_has_grad(in[i]) ? hd_grad(in[i]) : NULL;
        if (g != NULL) o.gradients[i] = hd_to(g, hd_cpu());
    }
    hd_set_device(hd_cpu());
    hd_clear_tape();
    if (!hd_ok()) fail_msg("%s: %s", calls[k].name, hd_error_message());
    return o;
}

static void check_close(const char *name, hd_tensor *a, hd_tensor *b) {
    char why[512] = "";
    hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
    o.relative = 2e-5;
    o.absolute = 2e-6;
    o.explain = why;
    o.explain_capacity = sizeof why;
    if ((a == NULL) != (b == NULL) || (a != NULL && !hd_allclose(a, b, &o))) {
        hear_no_more();
        fail_msg("%s: %s", name, why);
    }
}

static bool is_listed(const char *op, bool *seen, int most) {
    char path[512], line[128];
    snprintf(path, sizeof path, "%s/../device/by_copy.txt", HODU_TEST_DATA);
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    bool found = false;
    for (int i = 0; fgets(line, sizeof line, list) != NULL;) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#') continue;
        if (op != NULL && strcmp(line, op) == 0) found = seen[i] = true;
        if (op == NULL && !seen[i]) fail_msg("%s is in by_copy.txt, and was no copy: take it off the list", line);
        assert_true(++i < most);
    }
    fclose(list);
    return found;
}
static void check_copies(void) {
    bool seen[128] = {false};
    char line[256], op[64];
    hear_no_more();
    close(stderr_before);
    rewind(said);
    while (fgets(line, sizeof line, said) != NULL) {
        const char *end = strstr(line, " on opencl:0: by the CPU");
        if (end == NULL) continue;
        const char *begin = end;
        while (begin > line && begin[-1] != ' ') begin--;
        snprintf(op, sizeof op, "%.*s", (int)(end - begin), begin);
        if (!is_listed(op, seen, 128)) fail_msg("%s runs on the CPU with copies, and is not in by_copy.txt", op);
    }
    fclose(said);
    if (in_full()) is_listed(NULL, seen, 128);
}

static void every_call_gives_the_same(void **state) {
    (void)state;
    const int every = in_full() ? 1 : SANITIZED ? 48 : 12, first = (int)(sample_seed() % (uint64_t)every);
    listen();
    for (int k = first; k < CALL_COUNT; k += every) {
        HD_SCOPE;
        const outcome here = run_on(k, hd_cpu()), away = run_on(k, there());
        check_close(calls[k].name, away.value, here.value);
        for (int i = 0; i < 3; ++i) check_close(calls[k].name, away.gradients[i], here.gradients[i]);
    }
    check_copies();
}

static void the_device_can_be_used(void **state) {
    (void)state;
    HD_SCOPE;
    assert_true(hd_device_available(there()));
    hd_set_device(there());
    hd_tensor *x = HD_TENSOR_F32(S(2, 3), 1, -2, 3, -4, 5, -6), *w = hd_param(hd_full(S(3, 2), HD_F32, 0.5));
    hd_tensor *y = hd_relu(hd_add_scalar(hd_matmul(x, w), 0.25));
    assert_values(y, HD_F32, 1.25, 1.25, 0, 0);
    hd_backward(hd_sum(y, HD_AXES(), NULL));
    assert_values(hd_grad(w), HD_F32, 1, 1, -2, -2, 3, 3);
    hd_set_device(hd_cpu());
    hd_tensor *number = hd_scalar(10, HD_F32);
    assert_values(hd_add(y, hd_broadcast_to(number, S(2, 2))), HD_F32, 11.25, 11.25, 10, 10); /* stretched on the CPU */
    assert_values(hd_mul(number, y), HD_F32, 12.5, 12.5, 0, 0);
    hd_fill(x, 2);
    hd_add_(x, hd_mul_scalar(x, 0.5));
    assert_values(x, HD_F32, 3, 3, 3, 3, 3, 3);
    assert_true(hd_tensor_device(x).kind == HD_DEVICE_OPENCL);
}

/* A number is written into kernels as f64, which holds no i64 beyond 2^53: such a one is read from memory. */
static void integers_that_f64_does_not_hold_are_kept(void **state) {
    (void)state;
    HD_SCOPE;
    static const int64_t numbers[] = {INT64_MAX - 1, -((int64_t)1 << 53) - 1, ((int64_t)1 << 53) + 1, 5};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) {
        hd_tensor *there_are = hd_to(HD_TENSOR_I64(S(2), 0, -1), there());
        hd_tensor *number = HD_TENSOR_I64(S(), numbers[i]); /* on the CPU */
        hd_tensor *sum = hd_add(there_are, number), *chosen = hd_where(hd_lt_scalar(there_are, 0), number, there_are);
        assert_int_equal(hd_item_i64(hd_select(sum, 0, 0)), numbers[i]);
        assert_int_equal(hd_item_i64(hd_select(sum, 0, 1)), numbers[i] - 1);
        assert_int_equal(hd_item_i64(hd_select(chosen, 0, 0)), 0);
        assert_int_equal(hd_item_i64(hd_select(chosen, 0, 1)), numbers[i]);
    }
    assert_ok();
}

/* The same calls again take what is known of them; numbers that change do not fill memory. */
static void many_calls_leave_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_to(HD_TENSOR_F32(S(4), 1, 2, 3, 4), there());
    const int64_t objects = hd_live_objects();
    int64_t bytes = 0;
    const int turns = SANITIZED ? 4500 : 10000; /* more than signatures are kept */
    for (int i = 0; i < turns; ++i) {
        HD_SCOPE;
        hd_tensor *y = hd_mul_scalar(x, i);
        if (i % 1000 == 999) assert_values(y, HD_F32, i, 2 * i, 3 * i, 4 * i);
        if (i == turns / 2) bytes = hd_memory().live_bytes;
    }
    assert_ok();
    assert_int_equal(hd_live_objects(), objects);
    assert_in_range(hd_memory().live_bytes, 0, bytes + 4096); /* blocks; what is known of calls is not counted there */
}

/* Each allocation on the way fails once: an error, and the next call is as if nothing had been. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
        HD_SCOPE;
        hd_tensor *x = hd_to(hd_ones(S(5, n + 2), HD_F32), there()); /* a shape that is not known yet */
        const int64_t objects = hd_live_objects();
        hd_memory_trim();
        hd_memory_fail_after(n);
        {
            HD_SCOPE;
            hd_sum(hd_exp(x), X(1), NULL);
            hd_rand(S(n + 3), HD_F32);
        }
        hd_memory_fail_after(-1);
        failed = !hd_ok();
        if (failed) assert_int_equal(hd_error_code(), HD_ERROR_MEMORY);
        hd_error_clear();
        assert_int_equal(hd_live_objects(), objects);
        assert_values(hd_sum(hd_neg(x), X(1), NULL), HD_F32, -(double)n - 2, -(double)n - 2, -(double)n - 2,
                      -(double)n - 2, -(double)n - 2);
    }
}

static void *use_it(void *argument) {
    (void)argument;
    HD_SCOPE;
    hd_set_device(there());
    for (int i = 0; i < (SANITIZED ? 40 : 200); ++i) {
        HD_SCOPE;
        hd_tensor *x = hd_full(S(8, 16), HD_F32, i), *y = hd_sum(hd_add(x, x), X(1), NULL);
        if (hd_item(hd_select(y, 0, 3)) != 32.0 * i) return "wrong";
    }
    return hd_ok() ? NULL : "an error";
}
static void threads_take_turns(void **state) {
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&threads[i], NULL, use_it, NULL), 0);
    for (int i = 0; i < 4; ++i) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static void a_forked_child_gets_errors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_to(HD_TENSOR_F32(S(2), 1, 2), there());
    const pid_t child = fork();
    if (child == 0) {
        require(hd_add(x, x) == NULL);
        require_error(HD_ERROR_DEVICE, "device opencl:0 is not available here: OpenCL was opened before this process");
        hd_fill(x, 3);
        require_error(HD_ERROR_DEVICE, "hd_fill: device opencl:0 is not available here");
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_values(hd_add(x, x), HD_F32, 2, 4);
}

int main(void) {
    setenv("HODU_DUMP", "calls", 1);
    const struct CMUnitTest tests[] = {
        test(the_device_can_be_used),      test(integers_that_f64_does_not_hold_are_kept),
        test(every_call_gives_the_same),   test(many_calls_leave_nothing),
        test(memory_may_run_out_anywhere), test(threads_take_turns),
        test(a_forked_child_gets_errors)};
    if (hd_device_count(HD_DEVICE_OPENCL) > 0) return cmocka_run_group_tests(tests, NULL, NULL);
    print_message("skipped: %s\n", hd_device_missing(there()));
    return 77;
}
