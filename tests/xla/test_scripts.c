/* Scripts under XLA: what they give is what HODU gives, also state, in every order of the two; memory is lent and comes
 * back; what fails changes nothing. */
#include "builders.h"
#include "differences.h"
#include "graph/calls.h"
#include "programs.h"

#include <unistd.h>

static hd_script *under_xla(hd_script *s) {
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    assert_ok();
    return s;
}

static hd_script *block(hd_tensor *w, hd_tensor *bias) {
    hd_builder *b = started("block");
    hd_tensor *x = hd_input("x", S(20, 30), HD_F32);
    hd_tensor *h = hd_gelu(hd_add(hd_matmul(x, w), bias));
    hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "p", hd_softmax(hd_mul_scalar(h, 0.01), 1)); /* exp multiplies errors by its argument */
    return built(b);
}

static void both_compilers_agree(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = block(operand(S(30, 40), 1, HD_F32), operand(S(40), 2, HD_F32));
    hd_script_set_input(s, "x", operand(S(20, 30), 0, HD_F32));
    hd_outputs *ours = hd_script_run(s), *first = hd_script_run(under_xla(s));
    hd_script_set_input(s, "x", operand(S(20, 30), 5, HD_F32));
    hd_outputs *second = hd_script_run(s); /* outputs of one run stay valid after the next */
    assert_ok();
    for (int i = 0; i < 2; ++i) assert_within_units(hd_outputs_at(first, i), hd_outputs_at(ours, i), 16);
    hd_script_set_compiler(s, HD_COMPILER_HODU);
    hd_outputs *again = hd_script_run(s);
    for (int i = 0; i < 2; ++i) assert_within_units(hd_outputs_at(second, i), hd_outputs_at(again, i), 16);
}

static void inputs_may_be_written_after_a_run(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = under_xla(block(operand(S(30, 40), 1, HD_F32), operand(S(40), 2, HD_F32)));
    hd_tensor *x = hd_copy(operand(S(20, 30), 0, HD_F32));
    hd_script_set_input(s, "x", x);
    hd_tensor *before = output(s, "h");
    float *data = hd_data_mut(x, HD_F32);
    for (int i = 0; i < 600; ++i) data[i] = 0;
    hd_tensor *after = output(s, "h");
    hd_tensor *expected = hd_gelu(hd_broadcast_to(operand(S(40), 2, HD_F32), S(20, 40)));
    assert_within_units(after, expected, 16);
    assert_true(difference_within(before, expected, 0)[0] != '\0');
    assert_ok();
}

/* A step of SGD, in any order of the compilers. */
static void state_moves_between_compilers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *start = operand(S(30, 10), 1, HD_F32), *w = hd_copy(start), *x = operand(S(8, 30), 0, HD_F32);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_tensor *in = hd_input("x", S(8, 30), HD_F32);
    hd_builder_add_output(b, "y", hd_matmul(in, w));
    hd_assign(w, hd_mul_scalar(w, 0.5));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    const char *order = "XXHXHHXX";
    for (int i = 0; order[i] != '\0'; ++i) {
        hd_script_set_compiler(s, order[i] == 'X' ? HD_COMPILER_XLA : HD_COMPILER_HODU);
        assert_within_units(output(s, "y"), hd_matmul(x, hd_mul_scalar(start, pow(0.5, i))), 16);
        assert_ok();
        if (i % 3 == 1) assert_identical(hd_script_state(s, "w"), hd_mul_scalar(start, pow(0.5, i + 1)));
    }
    hd_script *clone = hd_script_clone(s);
    hd_script_set_state(s, "w", start);
    assert_within_units(output(s, "y"), hd_matmul(x, start), 16);
    assert_within_units(output(clone, "y"), hd_matmul(x, hd_mul_scalar(start, pow(0.5, 8))), 16);
    assert_ok();
}

static void bad_indices_change_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(5, 4), 1, HD_F32), *before = hd_copy(w);
    hd_builder *b = started("rows");
    hd_builder_add_state(b, "w", w);
    hd_tensor *at = hd_input("at", S(3), HD_I64);
    hd_builder_add_output(b, "rows", hd_index_select(w, 0, at));
    hd_assign(w, hd_add_scalar(w, 1));
    hd_script *s = under_xla(built(b));
    hd_script_set_input(s, "at", HD_TENSOR_I64(S(3), 0, 7, 1));
    for (int i = 0; i < 2; ++i) {
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_INDEX, "index 7 at place 1 of [3] is out of range for an axis of size 5");
        assert_identical(hd_script_state(s, "w"), before);
    }
    hd_script_set_input(s, "at", HD_TENSOR_I64(S(3), 0, 4, 1));
    assert_non_null(hd_script_run(s));
    assert_identical(hd_script_state(s, "w"), hd_add_scalar(before, 1));
}

static void draws_continue(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("draws");
    hd_builder_add_output(b, "u", hd_rand(S(50), HD_F32));
    hd_script *s = built(b);
    hd_seed(5);
    hd_tensor *expected[3];
    for (int i = 0; i < 3; ++i) expected[i] = output(s, "u");
    hd_seed(5);
    under_xla(s);
    for (int i = 0; i < 3; ++i) assert_identical(output(s, "u"), expected[i]);
}

/* The losses of training agree: 1000 steps of a small network. */
static void training_agrees(void **state) {
    (void)state;
    double losses[2][1000];
    for (int xla = 0; xla < 2; ++xla) {
        HD_SCOPE;
        hd_seed(3);
        hd_module *model = HD_SEQUENTIAL(hd_linear(8, 16, NULL), hd_tanh_layer(), hd_linear(16, 1, NULL));
        hd_optimizer *optimizer = hd_adam(hd_module_parameters(model), 0.002, NULL);
        hd_tensor *x = hd_randn(S(256, 8), HD_F32), *noise = hd_randn(S(256, 1), HD_F32); /* no loss near 0 */
        hd_tensor *y = hd_add(hd_sin(hd_sum(x, X(1), HD_OPTS(hd_reduce_opts, .keep_dims = true))), noise);
        hd_builder *b = started("step");
        hd_builder_add_state_of(b, model, optimizer);
        hd_tensor *loss =
            hd_mse(hd_forward(model, hd_input("x", S(256, 8), HD_F32)), hd_input("y", S(256, 1), HD_F32), NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        hd_builder_add_output(b, "loss", loss);
        hd_script *s = built(b);
        hd_script_set_input(s, "x", x);
        hd_script_set_input(s, "y", y);
        if (xla) under_xla(s);
        for (int i = 0; i < 1000; ++i) {
            HD_SCOPE;
            losses[xla][i] = hd_item(output(s, "loss"));
        }
        assert_ok();
    }
    for (int i = 0; i < 1000; ++i)
        if (fabs(losses[0][i] - losses[1][i]) > 1e-4 * fabs(losses[0][i]))
            fail_msg("step %d: HODU %.9g, XLA %.9g", i, losses[0][i], losses[1][i]);
}

/* The whole loop in one graph, models made inside; XLA takes its time, so this one is short (1000 epochs: a minute). */
static void an_unrolled_loop_trains(void **state) {
    (void)state;
    HD_SCOPE;
    enum { EPOCHS = 30 };
    hd_seed(4);
    hd_tensor *x = hd_randn(S(100, 3), HD_F32), *y = hd_randn(S(100, 1), HD_F32);
    hd_builder *b = started("unrolled");
    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_tensor *input = hd_input("input", S(100, 3), HD_F32), *target = hd_input("target", S(100, 1), HD_F32),
              *loss = NULL;
    for (int epoch = 0; epoch < EPOCHS; ++epoch) {
        loss = hd_mse(hd_forward(linear, input), target, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
    }
    hd_builder_add_output(b, "loss", loss);
    hd_script *s = built(b);
    hd_script_set_input(s, "input", x);
    hd_script_set_input(s, "target", y);
    const double ours = hd_item(output(s, "loss")), first = hd_item(output(under_xla(s), "loss"));
    assert_true(fabs(ours - first) <= 1e-6 * (1 + fabs(ours)));
    assert_true(hd_item(output(s, "loss")) == first); /* it starts over from the weights that were drawn */
    assert_ok();
}

/* The state's own tensor as an input: what it was before the run. */
static void state_may_be_an_input(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(6), 1, HD_F32), *start = hd_copy(w);
    hd_builder *b = started("both");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_output(b, "y", hd_add(hd_input("x", S(6), HD_F32), w));
    hd_assign(w, hd_mul_scalar(w, 2));
    hd_script *s = under_xla(built(b));
    hd_script_set_input(s, "x", hd_script_state(s, "w"));
    for (int i = 0; i < 3; ++i) {
        assert_identical(output(s, "y"), hd_mul_scalar(start, pow(2, i + 1)));
        assert_ok();
    }
}

/* Nor is state that lives with XLA read while a builder has recorded a write into it; at once it is as ever. */
static void recorded_writes_hide_what_xla_holds(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(S(2), HD_F32);
    hd_builder *b = started("adds");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_scalar(1, HD_F32));
    hd_script *s = under_xla(built(b));
    for (int round = 0; round < 2; ++round) {
        hd_script_run(s);
        assert_ok();
        hd_builder *c = started("writes");
        hd_builder_add_state(c, "w", w);
        hd_fill(w, 50);
        assert_null(hd_data(w, HD_F32));
        assert_error(HD_ERROR_STATE, "hd_data: this tensor was written while a builder records");
        {
            HD_EAGER;
            assert_values(w, HD_F32, 2 + round, 2 + round);
            if (round == 1) hd_fill(w, 3); /* it comes home */
        }
        hd_builder_end(c);
        assert_values(w, HD_F32, 2 + round, 2 + round);
    }
}

/* A check compares with HODU at O0, and changes no state. */
static void a_check_compares_with_hodu(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(30, 40), 1, HD_F32), *start = hd_copy(w);
    hd_builder *b = started("check");
    hd_builder_add_state(b, "w", w);
    hd_tensor *y = hd_tanh(hd_matmul(hd_mul_scalar(hd_input("x", S(2000, 30), HD_F32), 0.1), w));
    hd_builder_add_output(b, "y", hd_sum(y, X(0), NULL));
    hd_assign(w, hd_mul_scalar(w, 0.9));
    hd_script *s = under_xla(built(b));
    hd_script_set_input(s, "x", operand(S(2000, 30), 0, HD_F32));
    const hd_script_check_result r = hd_script_check(s);
    assert_ok();
    assert_true(r.relative < 1e-5);
    assert_true(r.largest_difference > 0); /* two compilers add in different orders */
    assert_identical(hd_script_state(s, "w"), start);
}

static void files_keep_the_choice(void **state) {
    (void)state;
    HD_SCOPE;
    char path[] = "/tmp/hodu-xla-XXXXXX.hoduscript";
    const int file = mkstemps(path, 11);
    assert_true(file >= 0);
    close(file);
    hd_script *s = under_xla(block(operand(S(30, 40), 1, HD_F32), operand(S(40), 2, HD_F32)));
    hd_script_set_input(s, "x", operand(S(20, 30), 0, HD_F32));
    hd_script_save(s, path);
    hd_script *loaded = hd_script_load(path);
    hd_script_set_input(loaded, "x", operand(S(20, 30), 0, HD_F32));
    assert_identical(output(loaded, "h"), output(s, "h")); /* the same program */
    hd_script_set_compiler(loaded, HD_COMPILER_HODU);
    assert_within_units(output(loaded, "h"), output(s, "h"), 16);
    assert_ok();
    unlink(path);
}

/* A compiled module: results and gradients are those of the module itself. */
static void modules_compile_for_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(2);
    hd_module *model = HD_SEQUENTIAL(hd_linear(8, 16, NULL), hd_tanh_layer(), hd_linear(16, 3, NULL));
    hd_module *compiled =
        hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH, .compiler = HD_COMPILER_XLA));
    assert_ok();
    hd_tensors *parameters = hd_module_parameters(model);
    for (int step = 0; step < 3; ++step) { /* parameters change between the runs */
        hd_tensor *x = operand(S(5, 8), step, HD_F32), *y[2], *gradients[2][4];
        for (int way = 0; way < 2; ++way) {
            y[way] = hd_forward(way ? compiled : model, x);
            hd_backward(hd_sum(hd_square(y[way]), X(), NULL));
            for (int i = 0; i < 4; ++i) {
                gradients[way][i] = hd_copy(hd_grad(hd_tensors_get(parameters, i)));
                hd_zero_grad(hd_tensors_get(parameters, i));
            }
            hd_clear_tape();
        }
        assert_within_units(y[1], y[0], 32);
        for (int i = 0; i < 4; ++i) assert_within_units(gradients[1][i], gradients[0][i], 64);
        HD_NO_GRAD;
        for (int i = 0; i < 4; ++i)
            hd_assign(hd_tensors_get(parameters, i), hd_mul_scalar(hd_tensors_get(parameters, i), 0.5));
        assert_ok();
    }
}

/* A clone finds the program in memory. */
static void stats_say_where_code_came_from(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = under_xla(block(operand(S(30, 40), 1, HD_F32), operand(S(40), 2, HD_F32)));
    hd_script_compile(s);
    hd_script *clone = hd_script_clone(s);
    hd_script_compile(clone);
    assert_ok();
    const hd_script_figures first = hd_script_stats(s), second = hd_script_stats(clone);
    assert_int_equal(first.kernels_compiled + first.kernels_from_disk, 1);
    assert_int_equal(second.kernels_compiled + second.kernels_from_disk, 0);
    assert_int_equal(second.kernels_from_memory, 1);
    assert_true(second.code_ms == 0);
}

int main(void) {
    if (!has_plugin()) return 77;
    const struct CMUnitTest tests[] = {test(both_compilers_agree),
                                       test(inputs_may_be_written_after_a_run),
                                       test(state_moves_between_compilers),
                                       test(bad_indices_change_nothing),
                                       test(draws_continue),
                                       test(training_agrees),
                                       test(an_unrolled_loop_trains),
                                       test(state_may_be_an_input),
                                       test(recorded_writes_hide_what_xla_holds),
                                       test(a_check_compares_with_hodu),
                                       test(files_keep_the_choice),
                                       test(stats_say_where_code_came_from),
                                       test(modules_compile_for_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
