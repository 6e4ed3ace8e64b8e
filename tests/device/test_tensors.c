/* Tensors on a device: where calls run, what comes back, and what happens when the device fails. */
#include "support.h"

#include "device/device.h"
#include "ops/op.h"

#define S HD_SHAPE
static hd_device there(void) { return test_device(0); }
static hd_tensor *numbers(void) { return HD_TENSOR_F32(S(2, 3), 1, -2, 3, -4, 5, -6); }
static bool is_on(const hd_tensor *t, hd_device device) { return hd_device_equal(hd_tensor_device(t), device); }

static void tensors_go_there_and_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = numbers(), *b = hd_to(a, there());
    assert_true(is_on(b, there()) && is_on(a, hd_cpu()));
    assert_ptr_equal(hd_to(b, there()), b);
    assert_values(b, HD_F32, 1, -2, 3, -4, 5, -6);
    hd_tensor *view = hd_t(b); /* of which only a part is moved, in order */
    assert_true(hd_tensor_shares_storage(view, b));
    assert_values(hd_to(hd_narrow(view, 0, 1, 2), hd_cpu()), HD_F32, -2, 5, 3, -6);
    hd_tensor *other = hd_to(b, test_device(1));
    assert_true(is_on(other, test_device(1)));
    assert_values(other, HD_F32, 1, -2, 3, -4, 5, -6);
    assert_int_equal(hd_tensor_count(hd_to(hd_zeros(S(0, 3), HD_F32), there())), 0);
    assert_true(hd_item(hd_to(hd_scalar(7, HD_F64), there())) == 7);
    hd_to(a, test_device(2));
    assert_error(HD_ERROR_DEVICE, "hd_to: device test:2 is not available here: there are test:0 to test:1");
}

static void operands_decide_where_a_call_runs(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = numbers(), *b = hd_to(a, there());
    assert_true(is_on(hd_mul(b, b), there()));
    assert_true(is_on(hd_add_scalar(b, 1), there()));
    assert_true(is_on(hd_sum(b, HD_AXES(), NULL), there()));
    assert_true(is_on(hd_add(b, hd_scalar(2, HD_F32)), there())); /* a number is at home everywhere */
    assert_same(hd_to(hd_softmax(b, 1), hd_cpu()), hd_softmax(a, 1));
    hd_add(a, b);
    assert_error(HD_ERROR_DEVICE,
                 "hd_add: operand 1 is on cpu:0, operand 2 on test:0; hd_to(x, device) moves a tensor to another");
    hd_matmul(b, hd_to(hd_t(a), test_device(1)));
    assert_error(HD_ERROR_DEVICE, "operand 1 is on test:0, operand 2 on test:1");
    hd_add_(a, b);
    assert_error(HD_ERROR_DEVICE, "hd_add_: operand 1 is on cpu:0, operand 2 on test:0");
}

static void what_is_assigned_goes_where_it_is_kept(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = numbers(), *b = hd_zeros_like(hd_to(a, there())), *c = hd_zeros(S(3, 2), HD_F32);
    hd_assign(b, a);
    assert_true(is_on(b, there()));
    assert_values(b, HD_F32, 1, -2, 3, -4, 5, -6);
    hd_assign(c, hd_t(b));
    assert_true(is_on(c, hd_cpu()));
    assert_values(c, HD_F32, 1, -4, -2, 5, 3, -6);
    hd_assign(hd_narrow(b, 1, 0, 1), hd_to(hd_ones(S(2, 1), HD_F32), test_device(1)));
    assert_values(b, HD_F32, 1, -2, 3, 1, 5, -6);
    hd_assign(b, hd_select(HD_TENSOR_F32(S(2), 1, 7), 0, 1)); /* one element of a tensor is no number */
    assert_values(b, HD_F32, 7, 7, 7, 7, 7, 7);
    hd_tensor *p = hd_param(numbers()), *y = hd_zeros(S(2, 3), HD_F32);
    y = hd_to(y, there());
    hd_assign(y, p); /* the way is on the tape */
    hd_backward(hd_sum(hd_mul(y, y), HD_AXES(), NULL));
    assert_values(hd_grad(p), HD_F32, 2, -4, 6, -8, 10, -12);
    assert_true(is_on(hd_grad(p), hd_cpu()));
    test_device_fail_after(0);
    hd_assign(b, a);
    test_device_fail_after(-1);
    assert_error(HD_ERROR_DEVICE, "hd_assign: the test device was told to fail: memory");
}

static void a_number_fills_all_of_a_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_I8, HD_BF16, HD_BOOL};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
        hd_tensor *b = hd_to(hd_zeros(S(2, 3), dtypes[i]), there());
        test_device_fail_after(-1);
        hd_fill(b, 1);
        assert_int_equal(test_device_asked(), 1); /* a fill, and no memory, copy or op */
        assert_same(hd_to(b, hd_cpu()), hd_ones(S(2, 3), dtypes[i]));
    }
    hd_tensor *b = hd_to(numbers(), there());
    hd_fill(hd_narrow(b, 0, 1, 1), 3); /* a part goes another way */
    assert_values(b, HD_F32, 1, -2, 3, 3, 3, 3);
    hd_fill(hd_to(hd_zeros(S(0), HD_F32), there()), 3);
    assert_ok();
    test_device_fail_after(0);
    hd_fill(b, 4);
    test_device_fail_after(-1);
    assert_error(HD_ERROR_DEVICE, "hd_fill: the test device was told to fail: a fill");
    assert_values(b, HD_F32, 1, -2, 3, 3, 3, 3);
    hd_storage *shared = hd_storage_snapshot(hd_thread_self(), b->storage);
    test_device_fail_after(1); /* memory of its own, and then no fill */
    hd_fill(b, 4);
    test_device_fail_after(-1);
    assert_error(HD_ERROR_DEVICE, "hd_fill: the test device was told to fail: a fill");
    assert_values(b, HD_F32, 1, -2, 3, 3, 3, 3);
    hd_fill(b, 4);
    assert_true(((const float *)hd_storage_bytes(hd_thread_self(), shared, HD_READ))[1] == -2);
    hd_object_release(hd_thread_self(), &shared->object);
}

/* On a tape what was saved is still what it was. */
static void looking_at_a_script_changes_no_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(hd_to(numbers(), there()));
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32), *index = hd_input("index", S(1), HD_I64);
    {
        HD_NO_GRAD;
        hd_add_(w, hd_add(x, hd_index_select(x, 0, index)));
    }
    hd_builder_add_output(b, "y", w);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, there());
    hd_script_set_input(s, "x", hd_ones(S(2, 3), HD_F32));
    hd_script_set_input(s, "index", HD_TENSOR_I64(S(1), 1));
    hd_tensor *loss = hd_sum(hd_mul(w, w), HD_AXES(), NULL);
    assert_true(hd_script_check(s).relative == 0);
    hd_script_set_input(s, "index", HD_TENSOR_I64(S(1), 5));
    hd_script_run(s);
    assert_error(HD_ERROR_INDEX, "out of range");
    hd_backward(loss);
    assert_values(hd_grad(w), HD_F32, 2, -4, 6, -8, 10, -12);
    hd_script_set_input(s, "index", HD_TENSOR_I64(S(1), 1));
    loss = hd_sum(hd_mul(w, w), HD_AXES(), NULL);
    hd_script_run(s);
    assert_values(w, HD_F32, 3, 0, 5, -2, 7, -4);
    assert_values(hd_add_scalar(w, 1), HD_F32, 4, 1, 6, -1, 8, -3); /* there, too */
    hd_backward(loss);
    assert_error(HD_ERROR_STATE, "was changed in place");
}

static void the_gradient_of_a_number_is_where_the_number_is(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_scalar(2, HD_F32)), *a = hd_to(numbers(), there()), *b = hd_to(a, test_device(1));
    hd_tensor *first = hd_sum(hd_mul(a, p), HD_AXES(), NULL),
              *second = hd_sum(hd_mul(b, hd_mul(p, p)), HD_AXES(), NULL);
    hd_backward(hd_add(hd_to(first, hd_cpu()), hd_to(second, hd_cpu())));
    assert_ok();
    assert_true(is_on(hd_grad(p), hd_cpu()));
    assert_values(hd_grad(p), HD_F32, -3 + -3 * 4);
    hd_backward(hd_sum(hd_mul(b, p), HD_AXES(), NULL));
    assert_values(hd_grad(p), HD_F32, -15 - 3);
}

static void a_device_says_what_it_is(void **state) {
    (void)state;
    const hd_device_info info = hd_device_describe(test_device(1));
    assert_string_equal(info.name, "the test device 1");
    assert_int_equal(info.units, 2);
    assert_true(info.has_f64);
    assert_string_equal(hd_device_describe(test_device(2)).name, "");
    assert_error(HD_ERROR_DEVICE, "hd_device_describe: device test:2 is not here: there are test:0 to test:1");
    assert_int_equal(hd_device_memory(test_device(1)).live_bytes, 0);
    assert_error(HD_ERROR_DEVICE, "hd_device_memory: device test:1 has no memory whose figures are known, or that is "
                                  "kept for reuse: its interface has no functions for that");
    hd_device_memory_set_limit(test_device(0), 0);
    assert_error(HD_ERROR_DEVICE, "hd_device_memory_set_limit: device test:0 has no memory");
    hd_device_memory_trim(test_device(0));
    assert_error(HD_ERROR_DEVICE, "hd_device_memory_trim: device test:0 has no memory");
}

static void the_threads_device_is_for_new_tensors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_set_device(there());
    hd_tensor *made[] = {hd_zeros(S(2), HD_F32), hd_rand(S(3), HD_F64), hd_arange(0, 4, 1, HD_I64), numbers(),
                         hd_scalar(1, HD_F32)};
    hd_set_device(hd_cpu());
    for (size_t i = 0; i < sizeof made / sizeof *made; ++i) assert_true(is_on(made[i], there()));
    hd_tensor *index = hd_to(HD_TENSOR_I64(S(2), 1, 0), there()), *b = hd_to(numbers(), there());
    assert_true(is_on(hd_zeros_like(b), there()));
    assert_true(is_on(hd_one_hot(index, 3, HD_F32), there()));
    assert_true(is_on(hd_tril(b, 0), there()));
    assert_true(is_on(hd_cross_entropy(b, index, NULL), there()));
    assert_ok();
}

static void the_host_sees_and_writes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *b = hd_to(numbers(), there());
    const float *read = hd_data(b, HD_F32);
    assert_true(read[2] == 3);
    ((float *)hd_data_mut(b, HD_F32))[2] = 30;
    assert_values(hd_add_scalar(b, 1), HD_F32, 2, -1, 31, -3, 6, -5); /* on the device */
    hd_add_(b, b);
    assert_true(((const float *)hd_data(b, HD_F32))[2] == 60);
    float out[6];
    assert_true(hd_to_array(b, out, HD_F32, 6) && out[5] == -12);
    char text[256];
    assert_true(hd_format(b, text, sizeof text, NULL) > 0 && strstr(text, "60") != NULL);
}

static void shared_memory_is_copied_when_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *b = hd_to(numbers(), there());
    hd_storage *before = hd_storage_snapshot(hd_thread_self(), b->storage);
    const size_t bytes = test_device_bytes();
    hd_fill(b, 1);
    assert_true(test_device_bytes() > bytes);
    assert_true(((const float *)hd_storage_bytes(hd_thread_self(), before, HD_READ))[1] == -2);
    assert_values(b, HD_F32, 1, 1, 1, 1, 1, 1);
    hd_object_release(hd_thread_self(), &before->object);
}

static void gradients_come_back_to_where_they_belong(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(numbers());
    hd_tensor *b = hd_to(a, there());
    hd_backward(hd_sum(hd_mul(b, b), HD_AXES(), NULL));
    assert_true(is_on(hd_grad(a), hd_cpu()));
    assert_values(hd_grad(a), HD_F32, 2, -4, 6, -8, 10, -12);
    hd_tensor *p = hd_param(hd_to(numbers(), there()));
    hd_backward(hd_sum(hd_exp(hd_mul_scalar(p, 0)), HD_AXES(), NULL));
    assert_true(is_on(hd_grad(p), there()));
    assert_values(hd_grad(p), HD_F32, 0, 0, 0, 0, 0, 0);
}

/* Some steps of training, with the model moved after the first: the loss of the last. */
static double trained(hd_device device, hd_device later) {
    HD_SCOPE;
    hd_seed(7);
    hd_module *m = HD_SEQUENTIAL(hd_linear(3, 4, NULL), hd_relu_layer(), hd_linear(4, 2, NULL));
    hd_tensor *x = hd_randn(S(5, 3), HD_F32), *target = HD_TENSOR_I64(S(5), 0, 1, 1, 0, 1);
    hd_optimizer *o = hd_adam(hd_module_parameters(m), 0.1, NULL);
    double loss = 0;
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        const hd_device at = i == 0 ? device : later;
        hd_module_to(m, at);
        hd_optimizer_zero_grad(o);
        hd_tensor *l = hd_cross_entropy(hd_forward(m, hd_to(x, at)), hd_to(target, at), NULL);
        hd_backward(l);
        hd_optimizer_step(o);
        assert_ok();
        assert_true(is_on(l, at));
        loss = hd_item(l);
    }
    return loss;
}
static void models_move_with_their_optimizer(void **state) {
    (void)state;
    const double here = trained(hd_cpu(), hd_cpu());
    assert_true(trained(there(), there()) == here);
    assert_true(trained(hd_cpu(), there()) == here);
    assert_true(trained(there(), test_device(1)) == here);
}

static void scripts_run_where_they_are_told(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("step");
    hd_tensor *kept = hd_to(numbers(), there());
    hd_builder_start(b);
    hd_builder_add_state(b, "kept", kept);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32);
    hd_add_(kept, hd_mul(x, x));
    hd_builder_add_output(b, "y", hd_sum(kept, HD_AXES(1), NULL));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_device(s, there());
    hd_script_set_input(s, "x", numbers());
    for (int i = 0; i < 2; ++i) {
        hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
        assert_ok();
        assert_true(is_on(y, there()));
    }
    hd_tensor *now = hd_script_state(s, "kept");
    assert_values(now, HD_F32, 3, 6, 21, 28, 55, 66);
    hd_builder *another = hd_builder_new("another");
    hd_builder_start(another);
    hd_to(hd_input("z", S(1), HD_F32), there());
    assert_error(HD_ERROR_DEVICE, "hd_to: a builder records for cpu:0, not for test:0");
    hd_builder_end(another);
    hd_error_clear();
}

/* All that is asked of the device fails once: an error, and nothing is lost. */
static void work(void) {
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_to(numbers(), there()));
    hd_tensor *loss = hd_sum(hd_mul(hd_t(a), hd_t(a)), HD_AXES(), NULL);
    hd_backward(loss);
    hd_module *m = HD_SEQUENTIAL(hd_linear(3, 2, NULL));
    hd_module_to(m, there());
    hd_forward(m, a);
    if (hd_ok()) hd_item(loss);
}
static void every_failure_is_an_error(void **state) {
    (void)state;
    test_device_fail_after(-1);
    work();
    assert_ok();
    const int64_t all = test_device_asked();
    assert_true(all > 10);
    hd_clear_tape();
    const size_t bytes = test_device_bytes();
    for (int64_t n = 0; n < all; ++n) {
        test_device_fail_after(n);
        work();
        test_device_fail_after(-1);
        assert_error(HD_ERROR_DEVICE, "the test device was told to fail");
        hd_clear_tape(); /* which keeps what a backward did not come to */
        assert_true(test_device_bytes() == bytes);
    }
    test_device_limit(bytes + 100);
    work();
    test_device_limit(0);
    assert_error(HD_ERROR_MEMORY, "test:0 has no memory for");
    test_device_lose(true);
    work();
    test_device_lose(false);
    assert_error(HD_ERROR_DEVICE, "the test device is lost");
    work();
    assert_ok();
}

int main(void) {
    const struct CMUnitTest tests[] = {test(tensors_go_there_and_back),
                                       test(operands_decide_where_a_call_runs),
                                       test(what_is_assigned_goes_where_it_is_kept),
                                       test(a_number_fills_all_of_a_tensor),
                                       test(a_device_says_what_it_is),
                                       test(looking_at_a_script_changes_no_state),
                                       test(the_gradient_of_a_number_is_where_the_number_is),
                                       test(the_threads_device_is_for_new_tensors),
                                       test(the_host_sees_and_writes),
                                       test(shared_memory_is_copied_when_written),
                                       test(gradients_come_back_to_where_they_belong),
                                       test(models_move_with_their_optimizer),
                                       test(scripts_run_where_they_are_told),
                                       test(every_failure_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
