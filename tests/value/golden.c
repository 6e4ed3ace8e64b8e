/* value.h against PyTorch: values and gradients at ordinary and extreme points (golden.h, written by golden.py). */
#define HD_VALUE_SHORT
#include <hodu/value.h>

#include "check.h"
#include "golden.h"

/* The two extensions as the micro programs build them. */
static Value sigmoid(Value x) {
    const double small = exp(-fabs(vdata(x))), s = (vdata(x) >= 0.0 ? 1.0 : small) / (1.0 + small);
    const double slope = s * (1.0 - s);
    return hd_value_op(s, 1, &x, &slope);
}

static Value clip(Value x, double low, double high) {
    const double d = vdata(x), slope = d > low && d < high ? 1.0 : 0.0;
    return hd_value_op(d < low ? low : d > high ? high : d, 1, &x, &slope);
}

static Value apply(const char *op, Value a, Value b, double number) {
    if (!strcmp(op, "add")) return vadd(a, b);
    if (!strcmp(op, "sub")) return vsub(a, b);
    if (!strcmp(op, "mul")) return vmul(a, b);
    if (!strcmp(op, "div")) return vdiv(a, b);
    if (!strcmp(op, "neg")) return vneg(a);
    if (!strcmp(op, "tanh")) return vtanh(a);
    if (!strcmp(op, "relu")) return vrelu(a);
    if (!strcmp(op, "exp")) return vexp(a);
    if (!strcmp(op, "log")) return vlog(a);
    if (!strcmp(op, "pow")) return vpow(a, number);
    if (!strcmp(op, "sigmoid")) return sigmoid(a);
    if (!strcmp(op, "clip")) return clip(a, 0.8, 1.2);
    if (!strcmp(op, "kl")) return hd_value_kl(a, b);
    fail_msg("golden.h has an operation this test does not know: %s", op);
    return a;
}

static void operations_agree_with_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden / sizeof *golden; ++i) {
        const struct golden *g = &golden[i];
        const Value a = hd_value_const(g->a), b = hd_value_const(g->b), y = apply(g->op, a, b, g->b);
        char what[96];
        assert_true(hd_value_backward(y));
        (void)snprintf(what, sizeof what, "%s(%g, %g)", g->op, g->a, g->b);
        check_relative(what, vdata(y), g->value, 1e-14);
        (void)snprintf(what, sizeof what, "d %s(%g, %g) / da", g->op, g->a, g->b);
        if (!strcmp(g->op, "tanh"))
            check_close(what, vgrad(a), g->da, 1e-15); /* 1 - y^2 cancels, on both sides */
        else
            check_relative(what, vgrad(a), g->da, 1e-14);
        (void)snprintf(what, sizeof what, "d %s(%g, %g) / db", g->op, g->a, g->b);
        check_relative(what, vgrad(b), g->db, 1e-14);
        hd_value_reset();
    }
    hd_value_free();
}

static void softmax_agrees_with_pytorch(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof golden_softmax / sizeof *golden_softmax; ++i) {
        const struct golden_softmax *g = &golden_softmax[i];
        Value x[4], p[4];
        for (int k = 0; k < 4; ++k) x[k] = hd_value_const(g->logit[k]);
        vsoftmax(4, x, p);
        hd_value_backward(vneg(vlog(p[1])));
        for (int k = 0; k < 4; ++k) {
            check_relative("probability", vdata(p[k]), g->p[k], 1e-14);
            check_close("gradient", vgrad(x[k]), g->grad[k], 1e-14);
        }
        hd_value_reset();
    }
    hd_value_free();
}

static void adam_agrees_with_pytorch(void **state) {
    (void)state;
    const size_t steps = 8;
    for (size_t i = 0; i < sizeof golden_adam / sizeof *golden_adam; i += steps) {
        const Value a = hd_value_param(1.0), b = hd_value_param(-2.0);
        hd_value_adam adam = {.beta1 = golden_adam[i].beta1, .beta2 = golden_adam[i].beta2};
        for (size_t k = 0; k < steps; ++k) {
            const Value squares = vmul(3.0, vmul(a, a)), cross = vmul(a, b);
            hd_value_zero_grad();
            hd_value_backward(vadd(vadd(squares, cross), vmul(0.1, vpow(b, 4.0))));
            hd_value_adam_step(&adam, 0.1);
            hd_value_reset();
            check_close("a", vdata(a), golden_adam[i + k].a, 1e-13);
            check_close("b", vdata(b), golden_adam[i + k].b, 1e-13);
        }
        hd_value_adam_free(&adam);
        hd_value_free();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_agree_with_pytorch),
        cmocka_unit_test(softmax_agrees_with_pytorch),
        cmocka_unit_test(adam_agrees_with_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
