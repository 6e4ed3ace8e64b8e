/* Gradients as values: of gradients, along directions, against closed forms; and recomputations, which change nothing
 * but the memory they take. */
#include "support.h"

#include <math.h>

static hd_tensor *gradient_of(hd_tensor *y, hd_tensor *x) { /* can be differentiated again */
    return hd_tensors_get(hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true)), 0);
}
static hd_tensor *plain_gradient_of(hd_tensor *y, hd_tensor *x) {
    return hd_tensors_get(hd_grad_of(y, HD_TENSORS(x), NULL), 0);
}

/* ---- closed forms ------------------------------------------------------------------------------------------------ */
static hd_tensor *fourth_power(hd_tensor *x) { return hd_mul(hd_mul(x, x), hd_mul(x, x)); }
static hd_tensor *power_by_scalar(hd_tensor *x) { return hd_pow_scalar(x, 4); }
static double fourth_power_by(double x, int n) {
    static const double factor[] = {1, 4, 12, 24};
    return factor[n] * pow(x, 4 - n);
}
static double exp_by(double x, int n) { return (void)n, exp(x); }
static double sin_by(double x, int n) { return n == 0 ? sin(x) : n == 1 ? cos(x) : n == 2 ? -sin(x) : -cos(x); }
static double tanh_by(double x, int n) {
    const double t = tanh(x), s = 1 - t * t;
    return n == 0 ? t : n == 1 ? s : n == 2 ? -2 * t * s : s * (6 * t * t - 2);
}
static double log_by(double x, int n) {
    return n == 0 ? log(x) : n == 1 ? 1 / x : n == 2 ? -1 / (x * x) : 2 / (x * x * x);
}
static double sigmoid_by(double x, int n) {
    const double s = 1 / (1 + exp(-x)), d = s * (1 - s);
    return n == 0 ? s : n == 1 ? d : n == 2 ? d * (1 - 2 * s) : d * (1 - 6 * s + 6 * s * s);
}
static double sqrt_by(double x, int n) {
    return n == 0 ? sqrt(x) : n == 1 ? 0.5 / sqrt(x) : n == 2 ? -0.25 * pow(x, -1.5) : 0.375 * pow(x, -2.5);
}

static void derivatives_to_third_order_have_their_closed_forms(void **state) {
    (void)state;
    static const struct {
        const char *name;
        hd_tensor *(*run)(hd_tensor *);
        double (*by)(double x, int n);
    } cases[] = {{"x^4", fourth_power, fourth_power_by},
                 {"pow", power_by_scalar, fourth_power_by},
                 {"exp", hd_exp, exp_by},
                 {"sin", hd_sin, sin_by},
                 {"tanh", hd_tanh, tanh_by},
                 {"log", hd_log, log_by},
                 {"sigmoid", hd_sigmoid, sigmoid_by},
                 {"sqrt", hd_sqrt, sqrt_by}};
    static const double at[4] = {0.25, 0.7, 1.5, 3};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
        HD_SCOPE;
        hd_tensor *x = hd_param(hd_from_data(at, HD_SHAPE(4), HD_F64)), *y = cases[c].run(x);
        for (int n = 0; n <= 3; ++n) {
            double got[4];
            assert_true(hd_to_array(y, got, HD_F64, 4));
            for (int i = 0; i < 4; ++i) {
                const double want = cases[c].by(at[i], n);
                if (fabs(got[i] - want) > 1e-12 * fmax(1, fabs(want)))
                    fail_msg("%s, derivative %d at %g: %.17g, expected %.17g", cases[c].name, n, at[i], got[i], want);
            }
            if (n < 3) y = gradient_of(y, x);
        }
        assert_ok();
        hd_clear_tape();
    }
}

static void higher_orders_mix_variables(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 2)), *y = hd_param(hd_full(HD_SHAPE(), HD_F64, 3));
    hd_tensor *f = hd_mul(hd_mul(x, x), hd_mul(y, hd_mul(y, y))); /* x^2 y^3 */
    hd_tensors *first = hd_grad_of(f, HD_TENSORS(x, y), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_values(hd_tensors_get(first, 0), HD_F64, 2 * 2 * 27);
    assert_values(hd_tensors_get(first, 1), HD_F64, 3 * 4 * 9);
    hd_tensor *xy = gradient_of(hd_tensors_get(first, 0), y), *yx = gradient_of(hd_tensors_get(first, 1), x);
    assert_values(xy, HD_F64, 6 * 2 * 9);
    assert_values(yx, HD_F64, 6 * 2 * 9);
    assert_values(gradient_of(xy, x), HD_F64, 6 * 9); /* d3 f / dx2 dy */
    assert_values(gradient_of(gradient_of(xy, y), y), HD_F64, 12 * 2);
}

static void backward_through_a_gradient_reaches_the_leaves(void **state) {
    (void)state;
    HD_SCOPE; /* a gradient penalty: d/dw of |d/dx f|^2 for f = w x^2 */
    hd_tensor *w = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 2));
    hd_tensor *slope = gradient_of(hd_mul(w, hd_mul(x, x)), x); /* 2 w x */
    hd_backward(hd_mul(slope, slope));                          /* 4 w^2 x^2 */
    assert_values(hd_grad(w), HD_F32, 8 * 3 * 4);
    assert_values(hd_grad(x), HD_F32, 8 * 9 * 2);
}

static void a_result_that_is_not_differentiable_notes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 2)), *y = fourth_power(x);
    const int64_t length = hd_tape_length();
    assert_false(hd_tensor_requires_grad(plain_gradient_of(y, x)));
    assert_int_equal(hd_tape_length(), length);
    assert_true(hd_tensor_requires_grad(gradient_of(y, x)));
    assert_true(hd_tape_length() > length);
}

/* ---- Jacobians --------------------------------------------------------------------------------------------------- */
/* y[i] = sum_k sin(a[k] (i + 1)) b[i]; row i of the Jacobian by a, in closed form. */
enum { IN = 3, OUT = 4 };
static const double at_a[IN] = {0.3, -0.8, 1.1}, at_b[OUT] = {1, -2, 0.5, 3};
static hd_tensor *vector_function(hd_tensor *a, hd_tensor *b) {
    hd_tensor *rows = hd_reshape(hd_range(1, 1, OUT, HD_F64), HD_SHAPE(OUT, 1));
    return hd_mul(hd_sum(hd_sin(hd_mul(rows, a)), HD_AXES(1), NULL), b);
}
static double by_a(int i, int k) { return cos(at_a[k] * (i + 1)) * (i + 1) * at_b[i]; }
static double by_b(int i, int k) {
    double sum = 0;
    for (int j = 0; j < IN; ++j) sum += sin(at_a[j] * (i + 1));
    return i == k ? sum : 0;
}

static void vjp_and_jvp_are_products_with_the_jacobian(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_from_data(at_a, HD_SHAPE(IN), HD_F64)),
              *b = hd_param(hd_from_data(at_b, HD_SHAPE(OUT), HD_F64));
    hd_tensor *y = vector_function(a, b);
    static const double u[OUT] = {0.5, -1, 2, 0.25}, ta[IN] = {1, -0.5, 2}, tb[OUT] = {0.1, 0.2, 0.3, 0.4};
    double want_a[IN] = {0}, want_b[OUT] = {0}, want_y[OUT] = {0};
    for (int i = 0; i < OUT; ++i) {
        for (int k = 0; k < IN; ++k) want_a[k] += u[i] * by_a(i, k), want_y[i] += by_a(i, k) * ta[k];
        for (int k = 0; k < OUT; ++k) want_b[k] += u[i] * by_b(i, k), want_y[i] += by_b(i, k) * tb[k];
    }
    hd_tensors *pulled = hd_vjp(y, HD_TENSORS(a, b), hd_from_data(u, HD_SHAPE(OUT), HD_F64));
    assert_close(hd_tensors_get(pulled, 0), hd_from_data(want_a, HD_SHAPE(IN), HD_F64), 1e-12, 1e-12);
    assert_close(hd_tensors_get(pulled, 1), hd_from_data(want_b, HD_SHAPE(OUT), HD_F64), 1e-12, 1e-12);
    hd_tensor *pushed =
        hd_jvp(y, HD_TENSORS(a, b),
               HD_TENSORS(hd_from_data(ta, HD_SHAPE(IN), HD_F64), hd_from_data(tb, HD_SHAPE(OUT), HD_F64)));
    assert_close(pushed, hd_from_data(want_y, HD_SHAPE(OUT), HD_F64), 1e-12, 1e-12);
    assert_false(hd_has_grad(a));
    assert_false(hd_has_grad(b));
    for (int i = 0; i < OUT; ++i) { /* rows and columns, one by one */
        double unit[OUT] = {0}, row[IN];
        unit[i] = 1;
        hd_tensors *one = hd_vjp(y, HD_TENSORS(a), hd_from_data(unit, HD_SHAPE(OUT), HD_F64));
        assert_true(hd_to_array(hd_tensors_get(one, 0), row, HD_F64, IN));
        for (int k = 0; k < IN; ++k) assert_true(fabs(row[k] - by_a(i, k)) < 1e-12);
    }
    for (int k = 0; k < IN; ++k) {
        double unit[IN] = {0}, column[OUT];
        unit[k] = 1;
        assert_true(hd_to_array(hd_jvp(y, HD_TENSORS(a), HD_TENSORS(hd_from_data(unit, HD_SHAPE(IN), HD_F64))), column,
                                HD_F64, OUT));
        for (int i = 0; i < OUT; ++i) assert_true(fabs(column[i] - by_a(i, k)) < 1e-12);
    }
}

static void a_jvp_along_what_does_not_matter_is_zero(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F64)), *apart = hd_param(hd_ones(HD_SHAPE(3), HD_F64));
    hd_tensor *y = hd_mul(x, x);
    assert_values(hd_jvp(y, HD_TENSORS(apart), HD_TENSORS(hd_ones(HD_SHAPE(3), HD_F64))), HD_F64, 0, 0);
    assert_values(
        hd_jvp(y, HD_TENSORS(apart, x), HD_TENSORS(hd_ones(HD_SHAPE(3), HD_F64), hd_ones(HD_SHAPE(2), HD_F64))), HD_F64,
        2, 2);
    assert_values(hd_jvp(hd_sign(x), HD_TENSORS(x), HD_TENSORS(x)), HD_F64, 0, 0);
    hd_tensor *tracked = hd_mul_scalar(x, 3); /* a direction that itself depends on x is taken as it is */
    assert_values(hd_jvp(y, HD_TENSORS(x), HD_TENSORS(tracked)), HD_F64, 6, 6);
}

static hd_tensor *tenfold(hd_tensor *gradient, void *calls) {
    ++*(int *)calls;
    return hd_mul_scalar(gradient, 10);
}
/* A hook is for gradients; hd_vjp gives one, hd_jvp does not. What a hook computes can be differentiated like the
 * rest. */
static void a_jvp_calls_no_hooks(void **state) {
    (void)state;
    HD_SCOPE;
    int calls = 0;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 3)), *m = hd_mul(x, x), *y = hd_mul(m, x);
    hd_add_grad_hook(x, tenfold, &calls);
    hd_add_grad_hook(m, tenfold, &calls);
    assert_values(hd_jvp(y, HD_TENSORS(x), HD_TENSORS(hd_ones(HD_SHAPE(), HD_F64))), HD_F64, 27);
    assert_int_equal(calls, 0);
    assert_values(hd_tensors_get(hd_vjp(y, HD_TENSORS(x), hd_ones(HD_SHAPE(), HD_F64)), 0), HD_F64,
                  10 * (9 + 10 * 2 * 3 * 3));
    assert_int_equal(calls, 2);
    hd_tensor *slope = gradient_of(hd_mul(x, x), x); /* 10 * 2x, by the hook of x */
    assert_values(slope, HD_F64, 60);
    assert_values(plain_gradient_of(slope, x), HD_F64, 10 * 20);
}

static void hessian_vector_products(void **state) {
    (void)state;
    HD_SCOPE; /* f = x^T A x / 2 + sum x^3 / 6, H = (A + A^T) / 2 + diag(x) */
    static const double matrix[9] = {2, 1, 0, 3, -1, 4, 0.5, 0, 1}, point[3] = {1, -2, 0.5},
                        direction[3] = {0.5, 1, -1};
    hd_tensor *a = hd_from_data(matrix, HD_SHAPE(3, 3), HD_F64),
              *x = hd_param(hd_from_data(point, HD_SHAPE(3), HD_F64));
    hd_tensor *v = hd_from_data(direction, HD_SHAPE(3), HD_F64);
    hd_tensor *f = hd_add(hd_mul_scalar(hd_dot(x, hd_matmul(a, x)), 0.5),
                          hd_div_scalar(hd_sum(hd_mul(x, hd_mul(x, x)), HD_AXES(), NULL), 6));
    double want[3] = {0};
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 3; ++k)
            want[i] += ((matrix[3 * i + k] + matrix[3 * k + i]) / 2 + (i == k ? point[i] : 0)) * direction[k];
    hd_tensor *expected = hd_from_data(want, HD_SHAPE(3), HD_F64), *slope = gradient_of(f, x);
    assert_close(plain_gradient_of(hd_dot(slope, v), x), expected, 1e-12, 1e-12); /* reverse over reverse */
    assert_close(hd_tensors_get(hd_vjp(slope, HD_TENSORS(x), v), 0), expected, 1e-12, 1e-12);
    assert_close(hd_jvp(slope, HD_TENSORS(x), HD_TENSORS(v)), expected, 1e-12, 1e-12);
}

/* ---- hd_grad_of -------------------------------------------------------------------------------------------------- */
static void grad_of_has_no_side_effects(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 2)), *w = hd_param(hd_full(HD_SHAPE(), HD_F32, 5));
    hd_tensor *m = hd_mul(x, w), *y = hd_mul(m, m);
    hd_retain_grad(m);
    assert_values(plain_gradient_of(y, x), HD_F32, 2 * 10 * 5);
    gradient_of(y, w);
    hd_vjp(y, HD_TENSORS(w), hd_ones(HD_SHAPE(), HD_F32));
    hd_jvp(y, HD_TENSORS(w), HD_TENSORS(hd_ones(HD_SHAPE(), HD_F32)));
    assert_ok();
    assert_false(hd_has_grad(x));
    assert_false(hd_has_grad(w));
    assert_false(hd_has_grad(m));
    hd_backward(y);
    hd_tensor *before = hd_grad(x);
    plain_gradient_of(y, x);
    assert_ptr_equal(hd_grad(x), before);
    assert_values(before, HD_F32, 100);
}

static void unused_inputs_give_zeros(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 2)), *later,
              *apart = hd_param(hd_ones(HD_SHAPE(2, 3), HD_BF16));
    hd_tensor *y = hd_mul(x, x);
    hd_neg(apart);
    later = hd_mul(y, y); /* made after the loss */
    hd_tensors *g = hd_grad_of(y, HD_TENSORS(apart, x, later, x), NULL);
    assert_int_equal(hd_tensors_count(g), 4);
    assert_values(hd_tensors_get(g, 0), HD_BF16, 0, 0, 0, 0, 0, 0);
    assert_int_equal(hd_tensor_rank(hd_tensors_get(g, 0)), 2);
    assert_values(hd_tensors_get(g, 1), HD_F32, 4);
    assert_values(hd_tensors_get(g, 2), HD_F32, 0);
    assert_values(hd_tensors_get(g, 3), HD_F32, 4); /* asked for twice */
    assert_int_equal(hd_tensors_count(hd_grad_of(y, hd_tensors_from(NULL, 0), NULL)), 0);
    assert_values(plain_gradient_of(hd_sign(x), x), HD_F32, 0);
}

static void inputs_may_be_results(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F64, 2)), *m = hd_mul(x, x), *y = hd_add(hd_mul(m, m), x);
    hd_tensors *g = hd_grad_of(y, HD_TENSORS(m, x, y), NULL); /* one on the way to the other, and the loss itself */
    assert_values(hd_tensors_get(g, 0), HD_F64, 8);
    assert_values(hd_tensors_get(g, 1), HD_F64, 8 * 4 + 1);
    assert_values(hd_tensors_get(g, 2), HD_F64, 1);
    hd_tensor *by_m = gradient_of(y, m); /* 2 m, and m = x^2 */
    assert_values(plain_gradient_of(by_m, m), HD_F64, 2);
    assert_values(plain_gradient_of(by_m, x), HD_F64, 4 * 2);
    hd_clear_tape(); /* now m is a leaf */
    assert_values(plain_gradient_of(hd_mul(m, m), m), HD_F64, 8);
}

static void a_seed_weighs_the_results(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *y = hd_mul(x, x),
              *seed = HD_TENSOR_F32(HD_SHAPE(2), 10, 0);
    assert_values(hd_tensors_get(hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .seed = seed)), 0), HD_F32, 20,
                  0);
    hd_tensor *u = hd_param(hd_ones(HD_SHAPE(2), HD_F32)); /* the gradient is differentiable by its seed */
    hd_tensors *g = hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .seed = u, .differentiable = true));
    hd_backward(hd_tensors_get(g, 0));
    assert_values(hd_grad(u), HD_F32, 2, 4);
    assert_values(hd_grad(x), HD_F32, 2, 2);
}

/* ---- recomputations ---------------------------------------------------------------------------------------------- */
static hd_tensor *block_of_ops(hd_tensor *x, hd_tensor *w) {
    for (int i = 0; i < 10; ++i) x = hd_tanh(hd_add(hd_mul(x, w), hd_exp(hd_mul_scalar(x, -0.5))));
    return x;
}
static hd_tensor *with_input_weight(hd_tensors *inputs, void *user) {
    (void)user;
    return block_of_ops(hd_tensors_get(inputs, 0), hd_tensors_get(inputs, 1));
}
static hd_tensor *with_captured_weight(hd_tensors *inputs, void *w) {
    return block_of_ops(hd_tensors_get(inputs, 0), w);
}
static hd_tensor *through_module(hd_tensors *inputs, void *module) {
    return hd_forward(module, hd_tensors_get(inputs, 0));
}
static hd_tensor *nested(hd_tensors *inputs, void *w) {
    hd_tensor *x = hd_recompute(with_captured_weight, w, inputs);
    return hd_mul(hd_recompute(with_captured_weight, w, HD_TENSORS(hd_neg(x))), x);
}
static hd_tensor *not_nested(hd_tensors *inputs, void *w) {
    hd_tensor *x = with_captured_weight(inputs, w);
    return hd_mul(with_captured_weight(HD_TENSORS(hd_neg(x)), w), x);
}

typedef struct outcome {
    hd_tensor *value, *by_x, *by_w;
    int64_t held; /* bytes of tensors on the tape after the forward */
} outcome;
static outcome run(hd_function fn, hd_tensors *(*inputs_of)(hd_tensor *x, hd_tensor *w), bool captured,
                   bool recomputation) {
    hd_seed(5);
    hd_tensor *x = hd_param(hd_rand(HD_SHAPE(1000), HD_F64)), *w = hd_param(hd_rand(HD_SHAPE(1000), HD_F64)), *loss;
    const int64_t before = hd_memory().live_bytes;
    outcome o;
    {
        HD_SCOPE;
        hd_tensors *inputs = inputs_of(hd_mul_scalar(x, 2), w);
        hd_tensor *y = recomputation ? hd_recompute(fn, captured ? w : NULL, inputs) : fn(inputs, captured ? w : NULL);
        loss = hd_keep(hd_mean(y, HD_AXES(), NULL));
    }
    o.held = hd_memory().live_bytes - before;
    hd_backward(loss);
    hd_backward(loss); /* once more: a recomputation can be walked again */
    o.value = loss;
    o.by_x = hd_grad(x);
    o.by_w = hd_grad(w);
    assert_ok();
    hd_clear_tape();
    return o;
}
static hd_tensors *both(hd_tensor *x, hd_tensor *w) { return HD_TENSORS(x, w); }
static hd_tensors *first_only(hd_tensor *x, hd_tensor *w) { return (void)w, HD_TENSORS(x); }

static void compare_outcomes(const outcome *plain, const outcome *recomputed) {
    assert_same(recomputed->value, plain->value);
    assert_close(recomputed->by_x, plain->by_x, 1e-13, HD_ZERO); /* sums may come in another order */
    assert_close(recomputed->by_w, plain->by_w, 1e-13, HD_ZERO);
    if (recomputed->held * 5 > plain->held)
        fail_msg("a recomputation holds %d bytes, the plain function %d", (int)recomputed->held, (int)plain->held);
}

static void a_recomputation_equals_the_function_and_holds_less(void **state) {
    (void)state;
    HD_SCOPE;
    const outcome plain = run(with_input_weight, both, false, false), less = run(with_input_weight, both, false, true);
    compare_outcomes(&plain, &less);
}
static void a_recomputation_finds_parameters_behind_user(void **state) {
    (void)state;
    HD_SCOPE;
    const outcome plain = run(with_captured_weight, first_only, true, false),
                  less = run(with_captured_weight, first_only, true, true);
    compare_outcomes(&plain, &less);
}
static void recomputations_nest(void **state) {
    (void)state;
    HD_SCOPE;
    const outcome plain = run(not_nested, first_only, true, false), inner = run(nested, first_only, true, false),
                  outer = run(nested, first_only, true, true);
    compare_outcomes(&plain, &inner);
    compare_outcomes(&plain, &outer);
}

static void a_recomputed_module_trains_like_itself(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *losses[2], *weights[2];
    for (int recomputed = 0; recomputed < 2; ++recomputed) {
        hd_seed(9);
        hd_module *model = HD_SEQUENTIAL(hd_linear(4, 16, NULL), hd_tanh_layer(), hd_linear(16, 4, NULL));
        hd_module *head = hd_linear(4, 1, NULL);
        hd_tensors *parameters =
            HD_TENSORS(hd_module_get(model, "0.weight"), hd_module_get(model, "2.bias"), hd_module_get(head, "weight"));
        hd_optimizer *sgd = hd_sgd(parameters, 0.1, NULL);
        hd_tensor *x = hd_randn(HD_SHAPE(8, 4), HD_F32), *y = hd_randn(HD_SHAPE(8, 1), HD_F32), *loss = NULL;
        for (int i = 0; i < 10; ++i) {
            hd_optimizer_zero_grad(sgd);
            hd_tensor *inner = recomputed ? hd_recompute(through_module, model, HD_TENSORS(x)) : hd_forward(model, x);
            loss = hd_mse(hd_forward(head, inner), y, NULL);
            hd_backward(loss);
            hd_optimizer_step(sgd);
        }
        losses[recomputed] = loss;
        weights[recomputed] = hd_tensors_get(parameters, 0);
    }
    assert_same(losses[1], losses[0]);
    assert_same(weights[1], weights[0]);
}

static hd_tensor *drops_half(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return hd_mul(x, hd_bernoulli(hd_tensor_shape(x), HD_F32, 0.5));
}
static void draws_inside_a_recomputation_are_the_same_again(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(200), HD_F32));
    hd_seed(11);
    hd_tensor *plain = drops_half(HD_TENSORS(x), NULL), *next = hd_rand(HD_SHAPE(4), HD_F32);
    hd_seed(11);
    hd_tensor *y = hd_recompute(drops_half, NULL, HD_TENSORS(x));
    assert_same(y, plain);
    assert_same(hd_rand(HD_SHAPE(4), HD_F32), next); /* the generator went on as it does plainly */
    const uint64_t draw = hd_generator_draw(NULL);
    hd_backward(y);
    assert_same(hd_grad(x), y); /* the mask of the forward */
    assert_int_equal(hd_generator_draw(NULL), draw);
    assert_int_equal(hd_generator_seed(NULL), 11);
    hd_generator *other = hd_generator_new(99);
    hd_generator_use(other); /* whichever generator is in use by then */
    hd_rand(HD_SHAPE(3), HD_F32);
    hd_zero_grad(x);
    hd_backward(y);
    assert_same(hd_grad(x), y);
    assert_int_equal(hd_generator_draw(other), 1);
    assert_int_equal(hd_generator_seed(other), 99);
    hd_generator_use(NULL);
}

static hd_tensor *gives_its_input(hd_tensors *inputs, void *user) { return (void)user, hd_tensors_get(inputs, 0); }
static hd_tensor *gives_what_is_behind_user(hd_tensors *inputs, void *user) { return (void)inputs, user; }
static hd_tensor *gives_a_view(hd_tensors *inputs, void *user) {
    return (void)user, hd_slice(hd_tensors_get(inputs, 0), 0, 0, 1, 1);
}
static hd_tensor *gives_a_constant(hd_tensors *inputs, void *user) {
    (void)user;
    hd_exp(hd_tensors_get(inputs, 0));
    return hd_ones(HD_SHAPE(2), HD_F32);
}
static void a_recomputation_may_return_anything(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 2, 3)), *m = hd_mul(x, x);
    hd_backward(hd_mul_scalar(hd_recompute(gives_its_input, NULL, HD_TENSORS(m)), 10));
    assert_values(hd_grad(x), HD_F32, 40, 60);
    hd_zero_grad(x);
    hd_backward(hd_mul_scalar(hd_recompute(gives_its_input, NULL, HD_TENSORS(x)), 10));
    assert_values(hd_grad(x), HD_F32, 10, 10);
    hd_zero_grad(x);
    hd_backward(hd_mul_scalar(hd_recompute(gives_what_is_behind_user, m, HD_TENSORS(x)), 10));
    assert_values(hd_grad(x), HD_F32, 40, 60);
    hd_zero_grad(x);
    hd_backward(hd_recompute(gives_a_view, NULL, HD_TENSORS(m)));
    assert_values(hd_grad(x), HD_F32, 4, 0);
    assert_false(hd_tensor_requires_grad(hd_recompute(gives_a_constant, NULL, HD_TENSORS(x))));
    assert_ok();
}

static void without_a_tape_a_recomputation_just_calls(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *plain = hd_ones(HD_SHAPE(2), HD_F32);
    hd_tensor *y = hd_recompute(drops_half, NULL, HD_TENSORS(plain));
    assert_false(hd_tensor_requires_grad(y));
    HD_NO_GRAD;
    assert_false(hd_tensor_requires_grad(hd_recompute(drops_half, NULL, HD_TENSORS(x))));
    assert_int_equal(hd_tape_length(), 0);
}

static void a_recomputation_cannot_be_differentiated_twice(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *w = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_tensor *y = hd_recompute(with_captured_weight, w, HD_TENSORS(x));
    assert_null(hd_grad_of(y, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true)));
    assert_error(HD_ERROR_STATE, "hd_recompute");
    assert_null(hd_jvp(y, HD_TENSORS(x), HD_TENSORS(hd_ones(HD_SHAPE(2), HD_F32))));
    assert_error(HD_ERROR_STATE, "hd_recompute");
    hd_tensors *g = hd_grad_of(y, HD_TENSORS(x, w), NULL); /* once is fine */
    hd_backward(y);
    assert_same(hd_grad(x), hd_tensors_get(g, 0));
    assert_same(hd_grad(w), hd_tensors_get(g, 1));
}

static hd_tensor *partly_elsewhere(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0), *square;
    {
        HD_GRAD_CONTEXT_DEFAULT; /* not on the tape that a recomputation looks at */
        square = hd_mul(x, x);
    }
    return hd_mul_scalar(square, 3);
}
static hd_tensor *by_what_is_there(hd_tensors *inputs, void *place) {
    return hd_mul(hd_tensors_get(inputs, 0), *(hd_tensor **)place);
}
static void a_recomputation_that_reads_something_else_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *w = hd_param(hd_full(HD_SHAPE(), HD_F32, 5)), *now = x;
    hd_tensor *two = hd_full(HD_SHAPE(), HD_F32, 2);
    hd_tensor *y = hd_recompute(by_what_is_there, &now, HD_TENSORS(two));
    now = w;
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "hd_recompute");
    assert_false(hd_has_grad(x));
    now = x;
    hd_backward(y);
    assert_values(hd_grad(x), HD_F32, 2);
    hd_zero_grad(x);
    hd_backward(hd_recompute(partly_elsewhere, NULL, HD_TENSORS(x)));
    if (hd_ok()) /* never a wrong gradient without a word */
        assert_values(hd_grad(x), HD_F32, 18);
    else
        assert_error(HD_ERROR_STATE, "hd_recompute");
}

static int hook_calls;
static hd_tensor *doubles(hd_tensor *gradient, void *user) {
    (void)user;
    ++hook_calls;
    return hd_mul_scalar(gradient, 2);
}
static hd_tensor *squares(hd_tensors *inputs, void *user) {
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return hd_mul(x, x);
}
static void hooks_of_what_a_recomputation_reads_run_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *leaf = hd_param(hd_full(HD_SHAPE(), HD_F32, 3)), *plain = hd_param(hd_full(HD_SHAPE(), HD_F32, 3));
    hd_add_grad_hook(leaf, doubles, NULL);
    hd_backward(hd_add(hd_recompute(squares, NULL, HD_TENSORS(leaf)), leaf));
    assert_int_equal(hook_calls, 1);
    assert_values(hd_grad(leaf), HD_F32, 2 * (6 + 1));
    hook_calls = 0;
    hd_tensor *result = hd_mul_scalar(plain, 1);
    hd_add_grad_hook(result, doubles, NULL);
    hd_retain_grad(result);
    hd_backward(hd_recompute(squares, NULL, HD_TENSORS(result)));
    assert_int_equal(hook_calls, 1);
    assert_values(hd_grad(result), HD_F32, 12);
    assert_values(hd_grad(plain), HD_F32, 12);
}

/* ---- random graphs ----------------------------------------------------------------------------------------------- */
/* Values with their derivatives by each leaf, carried forward: an oracle that has no tape. */
enum { LEAVES = 4, NODES = 40, OPS = 14 };
typedef struct node {
    hd_tensor *t;
    double v, d[LEAVES];
} node;
typedef struct step {
    int op;
    node a, b;
} step;

static uint64_t random_state = 7;
static int random_below(int n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int)((random_state >> 33) % (uint64_t)n);
}

static hd_tensor *apply(int op, hd_tensor *a, hd_tensor *b) {
    hd_tensor *c;
    switch (op) {
    case 0: return hd_add(a, b);
    case 1: return hd_sub(a, b);
    case 2: return hd_mul(a, b);
    case 3: return hd_div(a, hd_add_scalar(hd_square(b), 1));
    case 4: return hd_tanh(a);
    case 5: return hd_sin(a);
    case 6: return hd_exp(hd_neg(hd_square(a)));
    case 7: return hd_mul_scalar(a, -0.75);
    case 8: return hd_maximum(a, b);
    case 9: return hd_sum(hd_mul(hd_broadcast_to(a, HD_SHAPE(3)), b), HD_AXES(), NULL);
    case 10: return hd_mul(a, hd_detach(b));
    case 11: /* in place, on a value of its own */
        c = hd_mul_scalar(a, 0.5);
        hd_add_(c, b);
        hd_mul_(c, b);
        return c;
    case 12: /* into a plain tensor */
        c = hd_zeros(HD_SHAPE(), HD_F64);
        hd_assign(c, hd_mul(a, b));
        return c;
    default: return hd_select(hd_stack((hd_tensor *[]){a, b, a}, 3, 0), 0, -1);
    }
}
static node expected_of(const step *s) {
    const double a = s->a.v, b = s->b.v, q = b * b + 1, e = exp(-a * a), t = tanh(a);
    double v = 0, da = 0, db = 0;
    switch (s->op) {
    case 0: v = a + b, da = db = 1; break;
    case 1: v = a - b, da = 1, db = -1; break;
    case 2: v = a * b, da = b, db = a; break;
    case 3: v = a / q, da = 1 / q, db = -2 * a * b / (q * q); break;
    case 4: v = t, da = 1 - t * t; break;
    case 5: v = sin(a), da = cos(a); break;
    case 6: v = e, da = -2 * a * e; break;
    case 7: v = -0.75 * a, da = -0.75; break;
    case 8: v = fmax(a, b), da = a > b ? 1 : a == b ? 0.5 : 0, db = 1 - da; break;
    case 9: v = 3 * a * b, da = 3 * b, db = 3 * a; break;
    case 10: v = a * b, da = b; break;
    case 11: v = (a / 2 + b) * b, da = b / 2, db = a / 2 + 2 * b; break;
    case 12: v = a * b, da = b, db = a; break;
    default: v = a, da = 1; break;
    }
    node n = {.v = v};
    for (int i = 0; i < LEAVES; ++i) n.d[i] = da * s->a.d[i] + db * s->b.d[i];
    return n;
}
static hd_tensor *apply_inside(hd_tensors *inputs, void *user) { /* the second operand is found behind user */
    const step *s = user;
    return apply(s->op, hd_tensors_get(inputs, 0), s->b.t);
}

static void compare_with_oracle(const node *loss, node *leaves, bool by_backward) {
    HD_SCOPE;
    hd_tensors *found = NULL;
    for (int i = 0; i < LEAVES; ++i) hd_zero_grad(leaves[i].t);
    if (by_backward)
        hd_backward(loss->t);
    else
        found = hd_grad_of(loss->t, HD_TENSORS(leaves[0].t, leaves[1].t, leaves[2].t, leaves[3].t), NULL);
    assert_ok();
    for (int i = 0; i < LEAVES; ++i) {
        const double got = hd_item(by_backward ? hd_grad(leaves[i].t) : hd_tensors_get(found, i));
        if (fabs(got - loss->d[i]) > 1e-9 * fmax(1, fabs(loss->d[i])))
            fail_msg("leaf %d: the gradient is %.17g, expected %.17g", i, got, loss->d[i]);
    }
}

static void random_graph(void) {
    HD_SCOPE;
    static step steps[NODES]; /* recomputations read them until the tape is cleared */
    node nodes[LEAVES + NODES];
    for (int i = 0; i < LEAVES; ++i) {
        nodes[i] = (node){.v = random_below(2000) / 1000.0 - 1};
        nodes[i].t = hd_param(hd_full(HD_SHAPE(), HD_F64, nodes[i].v));
        nodes[i].d[i] = 1;
    }
    for (int i = 0; i < NODES; ++i) {
        steps[i] = (step){random_below(OPS), nodes[random_below(LEAVES + i)], nodes[random_below(LEAVES + i)]};
        node n = expected_of(&steps[i]);
        if (fabs(n.v) > 50) n = expected_of((steps[i].op = 4, &steps[i]));
        n.t = random_below(4) == 0 ? hd_recompute(apply_inside, &steps[i], HD_TENSORS(steps[i].a.t))
                                   : apply(steps[i].op, steps[i].a.t, steps[i].b.t);
        assert_ok();
        nodes[LEAVES + i] = n;
        if (random_below(5) == 0) { /* another tape takes over the leaves for a while */
            HD_GRAD_CONTEXT;
            hd_neg(nodes[random_below(LEAVES + i)].t);
        }
    }
    for (int i = 0; i < 6; ++i) {
        const node *loss = &nodes[LEAVES + NODES - 1 - random_below(NODES / 2)];
        assert_true(fabs(hd_item(loss->t) - loss->v) <= 1e-12 * fmax(1, fabs(loss->v)));
        if (hd_tensor_requires_grad(loss->t)) compare_with_oracle(loss, nodes, i % 2 == 0);
    }
    hd_clear_tape();
}
static void random_graphs_agree_with_derivatives_carried_forward(void **state) {
    (void)state;
    for (int i = 0; i < 300; ++i) random_graph();
}

/* The same, as a function of its leaves; without detach, which differences do not know, and without kinks. */
typedef struct recipe {
    int op[12], a[12], b[12];
} recipe;
static hd_tensor *by_recipe(hd_tensors *inputs, void *user) {
    const recipe *r = user;
    hd_tensor *t[LEAVES + 12];
    for (int i = 0; i < LEAVES; ++i) t[i] = hd_tensors_get(inputs, i);
    for (int i = 0; i < 12; ++i) t[LEAVES + i] = apply(r->op[i], t[r->a[i]], t[r->b[i]]);
    return hd_add(hd_tanh(t[LEAVES + 11]), hd_mul_scalar(hd_sin(t[LEAVES + 10]), 0.5));
}
static void random_graphs_have_the_right_second_derivatives(void **state) {
    (void)state;
    static const int smooth[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 12, 13};
    for (int trial = 0; trial < 60; ++trial) {
        HD_SCOPE;
        recipe r;
        for (int i = 0; i < 12; ++i) {
            r.op[i] = smooth[random_below(12)];
            r.a[i] = random_below(LEAVES + i);
            r.b[i] = random_below(LEAVES + i);
        }
        hd_tensor *leaves[LEAVES];
        for (int i = 0; i < LEAVES; ++i) leaves[i] = hd_full(HD_SHAPE(), HD_F64, random_below(1200) / 1000.0 - 0.6);
        char text[256] = "";
        const hd_gradcheck_opts o = {.struct_size = sizeof o,
                                     .second_order = true,
                                     .step = 1e-3,
                                     .explain = text,
                                     .explain_capacity = sizeof text};
        if (!hd_gradcheck(by_recipe, &r, hd_tensors_from(leaves, LEAVES), &o))
            fail_msg("graph %d: %s %s", trial, text, hd_error_message());
    }
}

/* ---- hd_gradcheck ------------------------------------------------------------------------------------------------ */
static hd_tensor *right(hd_tensors *inputs, void *user) {
    (void)user;
    return hd_mul(hd_sin(hd_tensors_get(inputs, 0)), hd_exp(hd_tensors_get(inputs, 1)));
}
static hd_tensor *wrong(hd_tensors *inputs, void *user) { /* half of it is hidden from the tape */
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0);
    return hd_mul(x, hd_detach(x));
}
static hd_tensor *wrong_twice(hd_tensors *inputs,
                              void *user) { /* right at first order, at which its slope is a constant */
    (void)user;
    hd_tensor *x = hd_tensors_get(inputs, 0), *d = hd_detach(x);
    return hd_add(hd_mul(hd_square(d), x), hd_mul(hd_mul_scalar(d, 2), hd_sub(hd_mul(d, x), hd_square(d))));
}
static hd_tensor *wrong_later(hd_tensors *inputs, void *user) { /* in its second input */
    (void)user;
    hd_tensor *b = hd_tensors_get(inputs, 1);
    return hd_add(hd_tensors_get(inputs, 0), hd_mul(b, hd_detach(b)));
}
static void gradcheck_tells_right_from_wrong(void **state) {
    (void)state;
    HD_SCOPE;
    static const double at[3] = {0.3, -1.2, 2};
    hd_tensor *a = hd_from_data(at, HD_SHAPE(3), HD_F64), *b = hd_full(HD_SHAPE(), HD_F64, 0.5);
    char text[256] = "";
    const hd_gradcheck_opts o = {
        .struct_size = sizeof o, .second_order = true, .explain = text, .explain_capacity = sizeof text};
    assert_true(hd_gradcheck(right, NULL, HD_TENSORS(a, b), &o));
    assert_string_equal(text, "");
    assert_false(hd_gradcheck(wrong, NULL, HD_TENSORS(a), &o));
    assert_false(hd_gradcheck(wrong_twice, NULL, HD_TENSORS(a), &o));
    assert_true(strstr(text, "second order: input 0, element 0 of [3]") != NULL);
    assert_false(hd_gradcheck(wrong_later, NULL, HD_TENSORS(a, b), &o));
    double ours = 0, theirs = 0; /* 0.5 in the place of 1, three times with weights cos(k) + 1/4 */
    assert_int_equal(
        sscanf(text, "first order: input 1, element 0 of []: the gradient is %lf, by differences %lf", &ours, &theirs),
        2);
    const double weights = cos(1) + cos(2) + cos(3) + 0.75;
    assert_true(fabs(ours - 0.5 * weights) < 1e-9 && fabs(theirs - weights) < 1e-7);
    assert_ok();
    assert_int_equal(hd_tape_length(), 0);
    assert_int_equal(hd_grad_context_id(), 0);
    assert_false(hd_gradcheck(right, NULL, HD_TENSORS(hd_cast(a, HD_F32), b), NULL));
    assert_error(HD_ERROR_DTYPE, "input 0 is f32");
    {
        HD_NO_GRAD;
        assert_false(hd_gradcheck(right, NULL, HD_TENSORS(a, b), NULL));
        assert_error(HD_ERROR_STATE, "HD_NO_GRAD");
    }
}

RUN(test(derivatives_to_third_order_have_their_closed_forms), test(higher_orders_mix_variables),
    test(backward_through_a_gradient_reaches_the_leaves), test(a_result_that_is_not_differentiable_notes_nothing),
    test(vjp_and_jvp_are_products_with_the_jacobian), test(a_jvp_along_what_does_not_matter_is_zero),
    test(a_jvp_calls_no_hooks), test(hessian_vector_products), test(grad_of_has_no_side_effects),
    test(unused_inputs_give_zeros), test(inputs_may_be_results), test(a_seed_weighs_the_results),
    test(a_recomputation_equals_the_function_and_holds_less), test(a_recomputation_finds_parameters_behind_user),
    test(a_recomputed_module_trains_like_itself), test(draws_inside_a_recomputation_are_the_same_again),
    test(a_recomputation_may_return_anything), test(without_a_tape_a_recomputation_just_calls),
    test(a_recomputation_cannot_be_differentiated_twice), test(hooks_of_what_a_recomputation_reads_run_once),
    test(random_graphs_agree_with_derivatives_carried_forward), test(random_graphs_have_the_right_second_derivatives),
    test(gradcheck_tells_right_from_wrong), test(recomputations_nest),
    test(a_recomputation_that_reads_something_else_is_an_error))
