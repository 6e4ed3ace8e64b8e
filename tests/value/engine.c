/* The behaviour of hodu/value.h: values and gradients, the life of nodes and parameters, errors, threads. */
#define HD_VALUE_SHORT
#include <hodu/value.h>

#include "check.h"

#include <limits.h>
#include <pthread.h>

hd_value other_file_square(hd_value x); /* engine_other_file.c */

static int fresh(void **state) {
    (void)state;
    hd_value_free();
    hd_value_error_clear();
    return 0;
}

/* ---- The test vectors of the interface document, and micrograd's ------------------------------------------------- */

static void seed_vector_simple_chain(void **state) {
    (void)state;
    const Value a = hd_value_const(2.0), b = hd_value_const(3.0);
    const Value c = vadd(vmul(a, b), b);
    assert_true(hd_value_backward(c));
    check_close("c", vdata(c), 9.0, 0.0);
    check_close("a.grad", vgrad(a), 3.0, 0.0);
    check_close("b.grad", vgrad(b), 3.0, 0.0);
}

static void seed_vector_tanh(void **state) {
    (void)state;
    const Value x = hd_value_const(0.5), y = vtanh(x);
    hd_value_backward(y);
    check_close("tanh(.5)", vdata(y), .46211715726000974, 1e-16);
    check_close("gradient", vgrad(x), .7864477329659274, 1e-15);
}

static void seed_vector_reuse_accumulates(void **state) {
    (void)state;
    const Value a = hd_value_const(2.0);
    hd_value_backward(vadd(a, a));
    check_close("a.grad", vgrad(a), 2.0, 0.0);
}

static void seed_vector_softmax_is_stable(void **state) {
    (void)state;
    const double expected[3] = {.09003057, .24472847, .66524096};
    Value logits[3], p[3];
    double sum = 0.0;
    for (int i = 0; i < 3; ++i) logits[i] = hd_value_const(1000.0 + i);
    vsoftmax(3, logits, p);
    for (int i = 0; i < 3; ++i) {
        assert_true(vdata(p[i]) > 0.0 && vdata(p[i]) < 1.0);
        check_close("probability", vdata(p[i]), expected[i], 1e-8);
        sum += vdata(p[i]);
    }
    check_close("sum", sum, 1.0, 1e-15);
}

static void micrograd_sanity(void **state) {
    (void)state;
    const Value x = hd_value_const(-4.0);
    const Value z = vadd(vadd(vmul(2.0, x), 2.0), x);
    const Value q = vadd(vrelu(z), vmul(z, x));
    const Value h = vrelu(vmul(z, z));
    const Value y = vadd(vadd(h, q), vmul(q, x));
    hd_value_backward(y);
    check_close("y", vdata(y), -20.0, 0.0);
    check_close("dx", vgrad(x), 46.0, 0.0);
}

static void micrograd_more_ops(void **state) {
    (void)state;
    const Value a = hd_value_const(-4.0), b = hd_value_const(2.0);
    Value c = vadd(a, b), d = vadd(vmul(a, b), vpow(b, 3.0));
    c = vadd(c, vadd(c, 1.0));
    c = vadd(c, vsub(vadd(vadd(1.0, c), vneg(a)), 0.0));
    d = vadd(d, vadd(vmul(d, 2.0), vrelu(vadd(b, a))));
    d = vadd(d, vadd(vmul(3.0, d), vrelu(vsub(b, a))));
    const Value e = vsub(c, d), f = vpow(e, 2.0);
    Value g = vdiv(f, 2.0);
    g = vadd(g, vdiv(10.0, f));
    hd_value_backward(g);
    check_close("g", vdata(g), 24.70408163265306, 1e-15);
    check_close("da", vgrad(a), 138.83381924198252, 1e-15);
    check_close("db", vgrad(b), 645.5772594752186, 1e-15);
}

/* ---- Operands ---------------------------------------------------------------------------------------------------- */

static void numbers_stand_on_either_side(void **state) {
    (void)state;
    const Value x = hd_value_const(4.0);
    const struct {
        Value y;
        double value, slope;
    } cases[] = {{vadd(x, 2.0), 6, 1},   {vadd(2.0, x), 6, 1},        {vadd(x, 2), 6, 1},    {vadd(2.0F, x), 6, 1},
                 {vsub(x, 2.0), 2, 1},   {vsub(2.0, x), -2, -1},      {vmul(x, 3.0), 12, 3}, {vmul(3, x), 12, 3},
                 {vdiv(x, 2.0), 2, 0.5}, {vdiv(2.0, x), 0.5, -0.125}, {vneg(x), -4, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        hd_value_backward(cases[i].y);
        check_close("value", vdata(cases[i].y), cases[i].value, 0.0);
        check_close("slope", vgrad(x), cases[i].slope, 0.0);
    }
    assert_int_equal(hd_value_node_count(), 1 + 11); /* a plain number costs no node */
}

static void two_numbers_make_a_constant(void **state) {
    (void)state;
    const Value x = vadd(2.0, 3.0);
    assert_true(hd_value_backward(vmul(x, x)));
    check_close("value", vdata(x), 5.0, 0.0);
    check_close("gradient", vgrad(x), 10.0, 0.0);
}

/* ---- Numbers at the edge: the documented value, never a crash ---------------------------------------------------- */

static void edge(const char *what, Value y, Value x, double value, double slope) {
    assert_true(hd_value_backward(y));
    check_close(what, vdata(y), value, 1e-15);
    check_close(what, vgrad(x), slope, 1e-15);
    assert_true(hd_value_ok());
}

static void edges_of_the_domain(void **state) {
    (void)state;
    const Value zero = hd_value_const(0.0), one = hd_value_const(1.0), minus = hd_value_const(-2.0);
    const Value thousand = hd_value_const(1000.0), nan = hd_value_const(NAN), tiny = hd_value_const(1e-12);
    const double floor = log(1e-10);
    edge("log(0)", vlog(zero), zero, floor, 1e10);
    edge("log(-2)", vlog(minus), minus, floor, 1e10);
    edge("log(1e-12)", vlog(tiny), tiny, floor, 1e10);
    edge("safe_log(0)", hd_value_safe_log(zero), zero, floor, 1e10);
    edge("log(nan)", vlog(nan), nan, NAN, NAN);
    edge("exp(1000)", vexp(thousand), thousand, INFINITY, INFINITY);
    edge("tanh(1000)", vtanh(thousand), thousand, 1.0, 0.0);
    edge("(-2)^.5", vpow(minus, 0.5), minus, NAN, NAN);
    edge("(-2)^3", vpow(minus, 3.0), minus, -8.0, 12.0);
    edge("0^0", vpow(zero, 0.0), zero, 1.0, 0.0);
    edge("0^1", vpow(zero, 1.0), zero, 0.0, 1.0);
    edge("0^-1", vpow(zero, -1.0), zero, INFINITY, -INFINITY);
    edge("1/0", vdiv(1.0, zero), zero, INFINITY, -INFINITY);
    edge("x/0", vdiv(one, 0.0), one, INFINITY, INFINITY);
    edge("-2/0", vdiv(minus, zero), minus, -INFINITY, INFINITY);
    edge("0/0", vdiv(zero, 0.0), zero, NAN, INFINITY);
    edge("relu(0)", vrelu(zero), zero, 0.0, 0.0);
    edge("relu(-2)", vrelu(minus), minus, 0.0, 0.0);
    edge("relu(nan)", vrelu(nan), nan, NAN, 0.0);
}

static void kl_has_the_right_sign_and_a_live_gradient(void **state) {
    (void)state;
    const Value mu = hd_value_const(.7), lv = hd_value_const(.3), kl = hd_value_kl(mu, lv);
    hd_value_backward(kl);
    check_close("kl", vdata(kl), -0.5 * (1 + .3 - .49 - exp(.3)), 1e-15);
    check_close("kl", vdata(kl), .2699, 1e-4);
    check_close("d/dmu", vgrad(mu), .7, 1e-15);
    check_close("d/dlv", vgrad(lv), .1749, 1e-4);
    const double outside[] = {-5.0, 5.0, -6.0, 6.0, 1000.0, -INFINITY, INFINITY};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; ++i) {
        const Value far = hd_value_const(outside[i]), clamped = hd_value_kl(mu, far);
        const double at = outside[i] < 0 ? -5.0 : 5.0;
        hd_value_backward(clamped);
        check_close("clamped kl", vdata(clamped), -0.5 * (1 + at - .49 - exp(at)), 1e-15);
        check_close("gradient outside the clamp", vgrad(far), 0.0, 0.0);
    }
}

/* ---- Backward ---------------------------------------------------------------------------------------------------- */

static void second_backward_does_not_compound(void **state) {
    (void)state;
    const Value p = hd_value_param(3.0), x = hd_value_const(2.0);
    const Value inner = vmul(p, x), y = vmul(inner, inner); /* y = p^2 x^2 */
    for (int round = 1; round <= 3; ++round) {
        assert_true(hd_value_backward(y));
        check_close("root", vgrad(y), 1.0, 0.0);
        check_close("interior", vgrad(inner), 12.0, 0.0);
        check_close("leaf", vgrad(x), 36.0, 0.0);
        check_close("a parameter adds up", vgrad(p), 24.0 * round, 0.0);
    }
    hd_value_zero_grad();
    check_close("after zero_grad", vgrad(p), 0.0, 0.0);
    hd_value_backward(y);
    check_close("once more", vgrad(p), 24.0, 0.0);
}

static void backward_from_the_middle(void **state) {
    (void)state;
    const Value a = hd_value_const(2.0), b = vmul(a, 3.0), c = vmul(b, 5.0);
    hd_value_backward(c);
    check_close("from the end", vgrad(a), 15.0, 0.0);
    hd_value_backward(b);
    check_close("from the middle", vgrad(a), 3.0, 0.0);
    check_close("what is newer than the root", vgrad(c), 0.0, 0.0);
    const Value later = vmul(a, 7.0);
    check_close("made after backward", vgrad(later), 0.0, 0.0);
    const Value leaf = hd_value_const(1.0);
    hd_value_backward(leaf);
    check_close("a leaf as root", vgrad(leaf), 1.0, 0.0);
    const Value p = hd_value_param(1.0);
    hd_value_backward(p);
    check_close("a parameter as root", vgrad(p), 1.0, 0.0);
    hd_value_backward(vmul(p, 5.0));
    hd_value_backward(p);
    check_close("a parameter as root adds up, too", vgrad(p), 7.0, 0.0);
    hd_value_zero_grad();
    hd_value_backward(p);
    check_close("from zero again", vgrad(p), 1.0, 0.0);
}

static void memory_is_used_again_but_not_its_gradients(void **state) {
    (void)state;
    Value x = hd_value_const(1.0);
    for (int i = 0; i < 50; ++i) x = vmul(x, 2.0);
    hd_value_backward(x);
    hd_value_reset();
    for (int i = 0; i < 10; ++i) check_close("before any backward", vgrad(hd_value_const(1.0)), 0.0, 0.0);
    hd_value_backward(hd_value_const(1.0));
    for (int i = 0; i < 10; ++i) check_close("newer than the backward", vgrad(hd_value_const(1.0)), 0.0, 0.0);
}

static void nodes_beside_the_graph_stay_silent(void **state) {
    (void)state;
    const Value x = hd_value_const(0.0);
    const Value bad = vpow(x, -1.0); /* inf, with an infinite slope; the root does not use it */
    const Value y = vadd(x, 1.0);
    assert_true(isinf(vdata(bad)));
    hd_value_backward(y);
    check_close("x.grad", vgrad(x), 1.0, 0.0);
    hd_value_backward(vadd(vmul(bad, 0.0), 0.0));
    assert_true(isnan(vdata(vmul(bad, 0.0))));
    check_close("0 * inf is not passed on", vgrad(x), 0.0, 0.0);
}

static void a_chain_of_ten_million_nodes(void **state) {
    (void)state;
    const int n = 10000000;
    const Value p = hd_value_param(1.0);
    Value x = p;
    for (int i = 0; i < n; ++i) x = vadd(x, 1e-7);
    assert_int_equal(hd_value_node_count(), n);
    check_close("value", vdata(x), 2.0, 1e-8);
    assert_true(hd_value_backward(x));
    check_close("gradient", vgrad(p), 1.0, 0.0);
}

static void a_node_takes_forty_bytes(void **state) {
    (void)state;
    assert_int_equal(2 * sizeof(double) + sizeof(hd_value_edges), 40);
    assert_int_equal(sizeof(hd_value), 4);
}

/* ---- Own operations and sums ------------------------------------------------------------------------------------- */

static void own_operation_with_any_number_of_children(void **state) {
    (void)state;
    Value x[9];
    double local[9];
    for (int i = 0; i < 9; ++i) {
        x[i] = i % 2 ? hd_value_param(i) : hd_value_const(i);
        local[i] = 10.0 + i;
    }
    for (int n = 0; n <= 9; ++n) {
        const int before = hd_value_node_count();
        const Value y = hd_value_op(42.0, n, x, local);
        assert_int_equal(hd_value_node_count() - before, n < 3 ? 1 : n - 1);
        check_close("value", vdata(y), 42.0, 0.0);
        hd_value_zero_grad();
        hd_value_backward(vmul(y, 2.0));
        for (int i = 0; i < 9; ++i) check_close("gradient", vgrad(x[i]), i < n ? 2.0 * local[i] : 0.0, 0.0);
    }
    const Value twice[3] = {x[0], x[0], x[0]};
    hd_value_backward(hd_value_op(0.0, 3, twice, local));
    check_close("one child three times", vgrad(x[0]), 33.0, 0.0);
}

static void dot_and_sum_are_the_written_out_loops(void **state) {
    (void)state;
    enum { N = 7 };
    Value a[N], b[N];
    const Value zeros[2] = {hd_value_param(-0.0), hd_value_param(-0.0)},
                ones[2] = {hd_value_param(1), hd_value_param(1)};
    assert_true(signbit(vdata(vdot(2, zeros, ones)))); /* -0 + -0 is -0 */
    for (int i = 0; i < N; ++i) {
        a[i] = hd_value_param(0.1 * i - 0.3);
        b[i] = hd_value_param(1.0 / (i + 1));
    }
    for (int n = 0; n <= N; ++n) {
        hd_value_reset();
        const Value dot = vdot(n, a, b), sum = vsum(n, a);
        const int used = hd_value_node_count();
        Value loop = n ? vmul(a[0], b[0]) : hd_value_const(0.0), loop_sum = n ? a[0] : hd_value_const(0.0);
        for (int i = 1; i < n; ++i) {
            loop = vadd(loop, vmul(a[i], b[i]));
            loop_sum = vadd(loop_sum, a[i]);
        }
        assert_int_equal(hd_value_node_count(), 2 * used);
        check_close("dot", vdata(dot), vdata(loop), 0.0);
        check_close("sum", vdata(sum), vdata(loop_sum), 0.0);
        double from_dot[N];
        hd_value_zero_grad();
        hd_value_backward(dot);
        for (int i = 0; i < N; ++i) from_dot[i] = vgrad(a[i]);
        hd_value_zero_grad();
        hd_value_backward(loop);
        for (int i = 0; i < N; ++i) check_close("gradient", from_dot[i], vgrad(a[i]), 0.0);
    }
}

/* ---- Arena, parameters, optimizers ------------------------------------------------------------------------------- */

static void reset_drops_nodes_and_keeps_parameters(void **state) {
    (void)state;
    Value p[1000];
    const uint64_t before = hd_value_total_nodes();
    for (int i = 0; i < 1000; ++i) { /* parameters may come at any time, also between nodes */
        p[i] = hd_value_param(i);
        const Value y = vmul(p[i], 2.0);
        check_close("node", vdata(y), 2.0 * i, 0.0);
    }
    assert_int_equal(hd_value_node_count(), 1000);
    assert_int_equal(hd_value_param_count(), 1000);
    hd_value_reset();
    assert_int_equal(hd_value_node_count(), 0);
    assert_int_equal(hd_value_total_nodes() - before, 1000);
    for (int i = 0; i < 1000; ++i) check_close("parameter", vdata(p[i]), i, 0.0);
    hd_value_backward(vmul(p[999], p[0]));
    check_close("gradient", vgrad(p[0]), 999.0, 0.0);
    hd_value_set_data(p[0], 5.0);
    check_close("set", vdata(p[0]), 5.0, 0.0);
}

static void adam_without_correction_is_the_documents_formula(void **state) {
    (void)state;
    hd_value_adam adam = {.no_bias_correction = true};
    const Value p = hd_value_param(1.0);
    double data = 1.0, m = 0.0, v = 0.0;
    for (int step = 0; step < 20; ++step) {
        const double grad = 2.0 * data;
        hd_value_zero_grad();
        hd_value_backward(vmul(p, p));
        hd_value_adam_step(&adam, 0.001);
        hd_value_reset();
        m = 0.9 * m + (1 - 0.9) * grad;
        v = 0.999 * v + (1 - 0.999) * grad * grad;
        data -= 0.001 * m / (pow(v, 0.5) + 1e-8);
        check_close("parameter", vdata(p), data, 1e-14);
    }
    hd_value_adam_free(&adam);
}

static void adam_and_sgd_touch_their_range_only(void **state) {
    (void)state;
    Value p[6];
    for (int i = 0; i < 6; ++i) p[i] = hd_value_param(1.0);
    hd_value_adam adam = {.first = 2, .count = 3};
    hd_value_backward(vsum(6, p));
    assert_true(hd_value_adam_step(&adam, 0.5));
    for (int i = 0; i < 6; ++i) check_close("adam", vdata(p[i]), i >= 2 && i < 5 ? 0.5 : 1.0, 1e-7);
    assert_true(hd_value_sgd_step(4, 1, 0.25));
    check_close("sgd", vdata(p[4]), 0.25, 1e-7);
    assert_true(hd_value_sgd_step(5, 0, 0.25)); /* 0: all from there on */
    check_close("sgd", vdata(p[5]), 0.75, 1e-7);
    hd_value_adam_free(&adam);
}

static void adam_survives_a_gradient_of_zero(void **state) {
    (void)state;
    hd_value_adam adam = {0};
    const Value p = hd_value_param(1.0);
    assert_true(hd_value_adam_step(&adam, 0.1));
    check_close("parameter", vdata(p), 1.0, 0.0);
    hd_value_adam_free(&adam);
}

static void two_source_files_share_a_tape(void **state) {
    (void)state;
    const Value x = hd_value_param(3.0), y = other_file_square(x);
    hd_value_backward(y);
    check_close("value", vdata(y), 9.0, 0.0);
    check_close("gradient", vgrad(x), 6.0, 0.0);
}

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static void errors_stick_and_stop_updates(void **state) {
    (void)state;
    const Value p = hd_value_param(1.0), gone = vmul(p, 2.0);
    hd_value_reset();
    assert_true(hd_value_ok());
    assert_true(isnan(vdata(gone)));
    assert_false(hd_value_ok());
    assert_non_null(strstr(hd_value_error(), "hd_value_data"));
    assert_true(isnan(vdata(hd_value_op(1.0, -1, NULL, NULL)))); /* a second error does not hide the first */
    assert_non_null(strstr(hd_value_error(), "hd_value_data"));
    hd_value_adam adam = {0};
    assert_false(hd_value_backward(vmul(p, p)));
    assert_false(hd_value_adam_step(&adam, 0.1));
    assert_false(hd_value_sgd_step(0, 0, 0.1));
    check_close("parameter", vdata(p), 1.0, 0.0);
    hd_value_error_clear();
    assert_true(hd_value_backward(vmul(p, p)));
    check_close("gradient", vgrad(p), 2.0, 0.0);
    assert_true(isnan(vdata((Value){1 << 20})));
    hd_value_free(); /* gives memory back, but hides nothing */
    assert_false(hd_value_ok());
}

static void check_error(const char *names) {
    assert_false(hd_value_ok());
    if (!strstr(hd_value_error(), names)) fail_msg("expected an error of %s, got: %s", names, hd_value_error());
    hd_value_error_clear();
}

static void misuse_is_an_error_and_never_a_crash(void **state) {
    (void)state;
    const Value nothing = {0}, wild = {1 << 30}, wilder = {INT32_MIN};
    const double local[2] = {1.0, 1.0};
    Value *volatile null = NULL; /* volatile: else the compiler sees the misuse and refuses it, as it should */
    volatile int minus = -1;
    hd_value_adam adam = {.first = 5};
    assert_true(isnan(vdata(nothing)));
    check_close("gradient of nothing", vgrad(nothing), 0.0, 0.0);
    assert_true(hd_value_ok());
    assert_false(hd_value_backward(nothing));
    check_error("hd_value_backward");
    assert_false(hd_value_backward(wild));
    check_error("hd_value_backward");
    assert_true(isnan(vdata(vadd(wild, 1.0))));
    check_error("hd_value");
    assert_true(isnan(vdata(vtanh(wilder))));
    check_error("hd_value");
    assert_true(isnan(vdata(vdot(1, &wild, &wilder))));
    check_error("hd_value");
    assert_true(isnan(vgrad(wild)));
    check_error("hd_value_grad");
    hd_value_set_data(nothing, 1.0);
    check_error("hd_value_set_data");
    hd_value_set_grad(wild, 1.0);
    check_error("hd_value_set_grad");
    assert_true(isnan(vdata(hd_value_op(1.0, 2, null, local))));
    check_error("hd_value_op");
    assert_true(isnan(vdata(hd_value_op(1.0, 1, &wild, local))));
    check_error("hd_value_op");
    assert_true(isnan(vdata(vsum(2, null))));
    check_error("hd_value_sum");
    assert_true(isnan(vdata(vdot(minus, &wild, &wild))));
    check_error("hd_value_dot");
    vsoftmax(2, null, null);
    check_error("hd_value_softmax");
    assert_false(hd_value_adam_step(&adam, 0.1));
    check_error("hd_value_adam_step");
    (void)hd_value_param(1.0);
    (void)hd_value_param(1.0);
    hd_value_adam *volatile no_adam = NULL;
    assert_false(hd_value_adam_step(no_adam, 0.1));
    check_error("hd_value_adam_step: adam is NULL");
    hd_value_adam_free(no_adam);
    const int far[][2] = {{INT_MIN, 0}, {INT_MIN, INT_MIN}, {INT_MAX, INT_MAX},
                          {0, INT_MAX}, {0, INT_MIN},       {INT_MAX, 0}};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; ++i) {
        assert_false(hd_value_sgd_step(far[i][0], far[i][1], 0.1));
        check_error("hd_value_sgd_step");
        hd_value_adam beyond = {.first = far[i][0], .count = far[i][1]};
        assert_false(hd_value_adam_step(&beyond, 0.1));
        check_error("hd_value_adam_step");
        assert_null(beyond.moment);
    }
    hd_value_adam narrow = {.count = 1};
    assert_true(hd_value_adam_step(&narrow, 0.1));
    narrow.count = 2; /* its moments are for one */
    assert_false(hd_value_adam_step(&narrow, 0.1));
    check_error("hd_value_adam_step");
    hd_value_adam_free(&narrow);
    assert_false(hd_value_sgd_step(-1, 3, 0.1));
    check_error("hd_value_sgd_step");
    assert_true(isnan(vdata(vadd(nothing, 1.0)))); /* NaN goes on as NaN, it is no second error */
    assert_true(hd_value_ok());
}

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

enum { WEIGHTS = 5, SAMPLES = 12 };

/* Gradient of the summed loss (w . x - 1)^2 over samples from..to, in this thread's own arena. */
typedef struct job {
    int from, to;
    double grad[WEIGHTS];
} job;

static void *run_job(void *argument) {
    job *j = (job *)argument;
    Value w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; ++i) w[i] = hd_value_param(0.1 * (i + 1));
    for (int s = j->from; s < j->to; ++s) {
        Value x[WEIGHTS];
        for (int i = 0; i < WEIGHTS; ++i) x[i] = hd_value_const((double)((s * 7 + i * 3) % 5) * 0.25);
        const Value miss = vsub(vdot(WEIGHTS, w, x), 1.0);
        hd_value_backward(vmul(miss, miss));
        hd_value_reset();
    }
    for (int i = 0; i < WEIGHTS; ++i) j->grad[i] = vgrad(w[i]);
    hd_value_free();
    return NULL;
}

static void threads_have_arenas_of_their_own(void **state) {
    (void)state;
    job all = {0, SAMPLES, {0}}, half[2] = {{0, SAMPLES / 2, {0}}, {SAMPLES / 2, SAMPLES, {0}}};
    pthread_t thread[2];
    const Value mine = hd_value_param(11.0);
    for (int k = 0; k < 2; ++k) assert_int_equal(pthread_create(&thread[k], NULL, run_job, &half[k]), 0);
    for (int k = 0; k < 2; ++k) assert_int_equal(pthread_join(thread[k], NULL), 0);
    check_close("this thread's parameter", vdata(mine), 11.0, 0.0);
    assert_int_equal(hd_value_param_count(), 1);
    run_job(&all);
    for (int i = 0; i < WEIGHTS; ++i)
        check_close("sum of gradients", half[0].grad[i] + half[1].grad[i], all.grad[i], 1e-13);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, fresh)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(seed_vector_simple_chain),
        TEST(seed_vector_tanh),
        TEST(seed_vector_reuse_accumulates),
        TEST(seed_vector_softmax_is_stable),
        TEST(micrograd_sanity),
        TEST(micrograd_more_ops),
        TEST(numbers_stand_on_either_side),
        TEST(two_numbers_make_a_constant),
        TEST(edges_of_the_domain),
        TEST(kl_has_the_right_sign_and_a_live_gradient),
        TEST(second_backward_does_not_compound),
        TEST(backward_from_the_middle),
        TEST(memory_is_used_again_but_not_its_gradients),
        TEST(nodes_beside_the_graph_stay_silent),
        TEST(a_chain_of_ten_million_nodes),
        TEST(a_node_takes_forty_bytes),
        TEST(own_operation_with_any_number_of_children),
        TEST(dot_and_sum_are_the_written_out_loops),
        TEST(reset_drops_nodes_and_keeps_parameters),
        TEST(adam_without_correction_is_the_documents_formula),
        TEST(adam_and_sgd_touch_their_range_only),
        TEST(adam_survives_a_gradient_of_zero),
        TEST(two_source_files_share_a_tape),
        TEST(errors_stick_and_stop_updates),
        TEST(misuse_is_an_error_and_never_a_crash),
        TEST(threads_have_arenas_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
