/* Scripts on a device of OpenCL: what they compute is what the CPU computes, at every level; state stays on the device
 * between runs and comes back when somebody looks; a run that fails changes nothing. */
#include "core/memory.h"
#include "graph/calls.h"
#include "in_a_child.h"
#include "printed.h"
#include "support.h"

static hd_device there(void) { return hd_opencl(0); }

static void assert_near(hd_tensor *a, hd_tensor *b) {
    char why[512] = "";
    hd_allclose_opts o = HD_DEFAULTS(hd_allclose_opts);
    o.relative = 2e-5;
    o.absolute = 2e-6;
    o.explain = why;
    o.explain_capacity = sizeof why;
    if (!hd_allclose(hd_to(a, hd_cpu()), hd_to(b, hd_cpu()), &o)) fail_msg("%s %s", why, hd_error_message());
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
typedef struct training {
    hd_module *model;
    hd_optimizer *optimizer;
    hd_script *step;
    hd_tensor *x, *y;
} training;

static training new_training(hd_device device, hd_optimization_level level) {
    training t;
    hd_seed(3);
    t.model = HD_SEQUENTIAL(hd_linear(5, 7, NULL), hd_tanh_layer(), hd_linear(7, 3, NULL));
    t.optimizer = hd_adam(hd_module_parameters(t.model), 0.05, NULL);
    t.x = hd_randn(S(6, 5), HD_F32);
    t.y = hd_randn(S(6, 3), HD_F32);
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, t.model, t.optimizer);
    hd_tensor *x = hd_input("x", S(6, 5), HD_F32), *y = hd_input("y", S(6, 3), HD_F32);
    hd_tensor *noisy = hd_add(x, hd_mul_scalar(hd_randn(S(6, 5), HD_F32), 0.01)); /* draws are the CPU's */
    hd_tensor *loss = hd_mse(hd_forward(t.model, noisy), y, NULL);
    hd_backward(loss);
    hd_optimizer_step(t.optimizer);
    hd_builder_add_output(b, "loss", loss);
    t.step = built(b);
    hd_script_set_device(t.step, device);
    hd_script_set_optimization_level(t.step, level);
    hd_script_set_input(t.step, "x", t.x);
    hd_script_set_input(t.step, "y", t.y);
    return t;
}

static double run_step(const training *t) {
    HD_SCOPE;
    return hd_item(hd_outputs_get(hd_script_run(t->step), "loss"));
}

static void training_is_that_of_the_cpu(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        const training here = new_training(hd_cpu(), (hd_optimization_level)level),
                       away = new_training(there(), (hd_optimization_level)level);
        for (int i = 0; i < 5; ++i) {
            hd_seed((uint64_t)i);
            const double expected = run_step(&here);
            hd_seed((uint64_t)i);
            const double loss = run_step(&away);
            if (!(fabs(loss - expected) < 1e-4 * fabs(expected) + 1e-6)) fail_msg("%g %g", loss, expected);
        }
        hd_tensors *mine = hd_module_parameters(here.model), *theirs = hd_module_parameters(away.model);
        for (int i = 0; i < hd_tensors_count(mine); ++i) {
            assert_true(hd_tensor_device(hd_tensors_get(theirs, i)).kind == HD_DEVICE_CPU); /* they stay the CPU's */
            assert_near(hd_tensors_get(theirs, i), hd_tensors_get(mine, i));
        }
        assert_ok();
    }
}

/* What the host reads and writes between runs counts, and the next run goes on from there. */
static void state_comes_and_goes(void **state) {
    (void)state;
    HD_SCOPE;
    float borrowed[3] = {1, 2, 3};
    hd_tensor *own = HD_TENSOR_F32(S(3), 1, 2, 3), *lent = hd_from_blob(borrowed, S(3), HD_F32, NULL, NULL),
              *away = hd_to(own, there()), *read = HD_TENSOR_F32(S(3), 10, 20, 30);
    hd_tensor *const all[] = {own, lent, away};
    hd_builder *b = started("state");
    hd_builder_add_state(b, "own", own);
    hd_builder_add_state(b, "lent", lent);
    hd_builder_add_state(b, "away", away);
    hd_builder_add_state(b, "read", read);
    for (int i = 0; i < 3; ++i) hd_assign(all[i], hd_add(all[i], read));
    hd_script *s = built(b);
    hd_script_set_device(s, there());
    hd_script_run(s);
    hd_script_run(s);
    for (int i = 0; i < 3; ++i) assert_values(all[i], HD_F32, 21, 42, 63);
    assert_int_equal((int)borrowed[0], 21); /* borrowed memory is up to date at once */
    hd_tensor *before = hd_copy(own);
    hd_fill(read, 1);
    for (int i = 0; i < 3; ++i) hd_fill(all[i], 0);
    hd_script_run(s);
    for (int i = 0; i < 3; ++i) assert_values(all[i], HD_F32, 1, 1, 1);
    assert_values(before, HD_F32, 21, 42, 63);
    hd_script *other = hd_script_clone(s); /* with state of its own */
    hd_script_run(other);
    for (int i = 0; i < 3; ++i) assert_values(all[i], HD_F32, 1, 1, 1);
    hd_script_run(s);
    for (int i = 0; i < 3; ++i) assert_values(all[i], HD_F32, 2, 2, 2);
    hd_script_set_device(s, hd_cpu());
    hd_tensor *home = hd_to(away, hd_cpu());
    hd_script_set_device(s, there());
    assert_values(home, HD_F32, 2, 2, 2);
    assert_ok();
}

/* Parts of state are written where they lie; an index out of range is an error that the CPU words, and leaves all as it
 * was. */
static void a_run_that_fails_changes_nothing(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *cache = hd_zeros(S(4, 3), HD_F32), *count = hd_zeros(S(1), HD_F32);
        hd_builder *b = started("cache");
        hd_builder_add_state(b, "cache", cache);
        hd_builder_add_state(b, "count", count);
        hd_tensor *x = hd_input("x", S(3), HD_F32), *index = hd_input("index", S(2), HD_I64);
        hd_assign(hd_select(cache, 0, 1), x);
        hd_assign(count, hd_add_scalar(count, 1));
        hd_builder_add_output(b, "rows", hd_exp(hd_index_select(cache, 0, index)));
        hd_script *s = built(b);
        hd_script_set_device(s, there());
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "x", HD_TENSOR_F32(S(3), 0, 0, 5));
        hd_script_set_input(s, "index", HD_TENSOR_I64(S(2), 1, -1));
        assert_near(hd_outputs_get(hd_script_run(s), "rows"), HD_TENSOR_F32(S(2, 3), 1, 1, 148.413159f, 1, 1, 1));
        assert_values(count, HD_F32, 1);
        assert_values(hd_select(cache, 0, 1), HD_F32, 0, 0, 5);
        hd_script_set_input(s, "x", HD_TENSOR_F32(S(3), 7, 7, 7));
        hd_script_set_input(s, "index", HD_TENSOR_I64(S(2), 1, 4));
        {
            HD_QUIET;
            assert_null(hd_script_run(s));
            assert_non_null(strstr(hd_error_message(), "index 4 at place 1 of [2] is out of range"));
            hd_error_clear();
        }
        assert_values(count, HD_F32, 1);
        assert_values(hd_select(cache, 0, 1), HD_F32, 0, 0, 5);
        hd_script_set_input(s, "index", HD_TENSOR_I64(S(2), 1, 3));
        hd_script_run(s);
        assert_values(count, HD_F32, 2);
        assert_values(hd_select(cache, 0, 1), HD_F32, 7, 7, 7);
        const hd_script_check_result check = hd_script_check(s); /* against the CPU; nothing changes */
        assert_true(check.relative < 1e-6);
        assert_values(count, HD_F32, 2);
        assert_ok();
    }
}

static bool same_bits(hd_tensor *a, hd_tensor *b) { return hd_item(hd_all(hd_eq(a, b), HD_AXES(), NULL)) != 0; }

/* O0 is every call alone, and so are calls at once: the same bits. */
static void level_0_is_eager(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(5);
    hd_tensor *x = hd_to(hd_randn(S(33, 70), HD_F32), there());
    hd_builder *b = started("bits");
    hd_tensor *in = hd_input("x", S(33, 70), HD_F32);
    hd_builder_add_output(b, "y", hd_log_softmax(hd_mul(hd_sin(in), in), 1));
    hd_builder_add_output(b, "sum", hd_sum(hd_exp(in), HD_AXES(), NULL));
    hd_script *s = built(b);
    hd_script_set_device(s, there());
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_set_input(s, "x", x);
    hd_outputs *o = hd_script_run(s);
    assert_true(same_bits(hd_outputs_get(o, "y"), hd_log_softmax(hd_mul(hd_sin(x), x), 1)));
    assert_true(same_bits(hd_outputs_get(o, "sum"), hd_sum(hd_exp(x), HD_AXES(), NULL)));
    assert_ok();
}

static void models_compile_for_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(2);
    hd_module *model = HD_SEQUENTIAL(hd_linear(4, 6, NULL), hd_relu_layer(), hd_linear(6, 2, NULL));
    hd_tensor *x = hd_randn(S(3, 4), HD_F32), *expected = hd_forward(model, x);
    hd_backward(hd_sum(hd_mul(expected, expected), HD_AXES(), NULL));
    hd_tensors *parameters = hd_module_parameters(model);
    hd_tensor *gradient = hd_copy(hd_grad(hd_tensors_get(parameters, 0)));
    hd_zero_grads(parameters);
    hd_clear_tape();
    hd_module *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .device = there()));
    hd_tensor *y = hd_forward(compiled, x);
    assert_near(y, expected);
    hd_backward(hd_sum(hd_mul(y, y), HD_AXES(), NULL));
    assert_near(hd_grad(hd_tensors_get(parameters, 0)), gradient);
    hd_clear_tape();
    assert_ok();
}

/* Nothing is left over many runs; every allocation fails once. */
static void many_runs_leave_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    const training t = new_training(there(), HD_O2);
    run_step(&t);
    const int64_t objects = hd_live_objects(), bytes = hd_device_memory(there()).live_bytes;
    for (int i = 0; i < 10000 / (int)slow_step(10); ++i) run_step(&t);
    assert_int_equal(hd_live_objects(), objects);
    assert_int_equal(hd_device_memory(there()).live_bytes, bytes);
    assert_ok();
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
        HD_QUIET;
        hd_memory_trim();
        hd_memory_fail_after(n);
        run_step(&t);
        hd_memory_fail_after(-1);
        failed = !hd_ok();
        hd_error_clear();
        assert_int_equal(hd_live_objects(), objects);
    }
    run_step(&t);
    assert_ok();
}

static void profiles_name_launches(void **state) {
    (void)state;
    HD_SCOPE;
    const training t = new_training(there(), HD_O2);
    fflush(stdout);
    hd_script_profile(t.step, 2);
    assert_ok();
}

/* The device's compiler is what takes long: it is not counted as the laying out of memory. */
static void profiles_tell_code_from_memory(void **state) {
    (void)state;
    HD_SCOPE;
    char text[4096];
    hd_builder *b = started("code");
    hd_builder_add_output(b, "y", hd_exp(hd_input("x", S(3, 5), HD_F32)));
    hd_script *s = built(b);
    hd_script_set_device(s, there());
    const printed p = printed_begin();
    {
        HD_PROFILE(NULL);
        hd_script_compile(s);
    }
    printed_end(p, text, sizeof text);
    if (strstr(text, "compile code") == NULL) fail_msg("\"%s\"", text);
    assert_ok();
}

int main(void) {
    const struct CMUnitTest tests[] = {test(training_is_that_of_the_cpu),
                                       test(state_comes_and_goes),
                                       test(a_run_that_fails_changes_nothing),
                                       test(level_0_is_eager),
                                       test(models_compile_for_it),
                                       test(many_runs_leave_nothing),
                                       test(profiles_name_launches),
                                       test(profiles_tell_code_from_memory)};
    if (!hd_device_available(there())) {
        print_message("no device of OpenCL: %s\n", hd_device_missing(there()));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
