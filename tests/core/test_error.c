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

static void unread_error(void) {
    HD_SCOPE;
    {
        HD_SCOPE;
        hd_reshape(hd_ones(HD_SHAPE(2), HD_F32), HD_SHAPE(3));
    }
}
static void read_error(void) {
    HD_SCOPE;
    hd_reshape(hd_ones(HD_SHAPE(2), HD_F32), HD_SHAPE(3));
    (void)hd_error_code();
}
static void exit_status(void) {
    int status;
    {
        HD_SCOPE;
        hd_reshape(hd_ones(HD_SHAPE(2), HD_F32), HD_SHAPE(3));
        status = hd_exit_status();
    }
    _exit(status);
}
static void trapped(void) {
    setenv("HODU_TRAP", "1", 1);
    HD_SCOPE;
    hd_reshape(hd_ones(HD_SHAPE(2), HD_F32), HD_SHAPE(3));
}

static void an_unread_error_is_printed_at_the_root_scopes_end(void **state) {
    (void)state;
    char out[1024];
    int status;
    run_child(unread_error, out, sizeof out, &status);
    assert_non_null(strstr(out, "hodu error: hd_reshape: [2] has 2 elements, which do not fit [3]"));
    assert_int_equal(status, 0);
    run_child(read_error, out, sizeof out, &status);
    assert_string_equal(out, "");
    run_child(exit_status, out, sizeof out, &status);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_non_null(strstr(out, "hd_reshape"));
    assert_ptr_equal(strstr(strstr(out, "hd_reshape") + 1, "hd_reshape"), NULL); /* once */
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
    test(composites_keep_their_own_name), test(an_unread_error_is_printed_at_the_root_scopes_end),
    test(hodu_trap_stops_at_the_first_error), test(every_code_has_a_meaning))
