/* Training in scripts: gradients of every op, unrolled loops and steps with state, against the same code run at
 * once. */
#include "graph/programs.h"

/* ---- gradients --------------------------------------------------------------------------------------------------- */
typedef hd_tensor *run_function(hd_tensor **in, const void *user);

/* What compiled gradients may differ by: two units at the largest element, or at 1, the size of operands and of the
 * gradient it all begins with, where those of an op cancel. The most that was seen is 1.5 units. Gradients of gradients
 * cancel more: those of attention in f32 are 4.7 units from those in f64, however they are computed; the most that was
 * seen is 6.8 units. */
static double gradient_bound(hd_tensor *expected, bool second) {
    return (second ? 8 : 2) * unit_of(hd_tensor_dtype(expected)) * fmax(1, largest_of(expected));
}

/* The gradients that hd_backward of run(in) gives at once are what a script gives as outputs, at O0 bit for bit. The
 * script has the operands bound; `second` takes the gradient of the first gradient. */
static void gradients_agree(const char *name, hd_tensor **in, int count, run_function *run, const void *user,
                            bool second) {
    static const char *const names[] = {"a", "b", "c"};
    bool wanted[3] = {false};
    hd_tensor *expected[3] = {NULL};
    hd_seed(3);
    for (int i = 0; i < count; ++i)
        if (hd_dtype_is_float(hd_tensor_dtype(in[i]))) hd_requires_grad(in[i]);
    hd_script *s = NULL;
    for (int inside = 0; inside < 2; ++inside) {
        hd_builder *b = inside ? started(name) : NULL;
        for (int i = 0; i < count && inside; ++i) hd_builder_bind(b, names[i], in[i]);
        hd_tensor *y = run(in, user);
        if (!hd_ok()) fail_msg("%s: %s", name, hd_error_message());
        if (!hd_tensor_requires_grad(y) || !hd_dtype_is_float(hd_tensor_dtype(y))) {
            if (inside) hd_builder_end(b);
            return;
        }
        if (second) {
            hd_tensors *g = hd_grad_of(y, HD_TENSORS(in[count - 1]), HD_OPTS(hd_grad_of_opts, .differentiable = true));
            hd_tensor *first = g == NULL ? NULL : hd_tensors_get(g, 0);
            if (first != NULL && !hd_tensor_requires_grad(first)) { /* does not depend on them any more */
                if (inside) hd_builder_end(b);
                return;
            }
            y = hd_mul(first, first);
        }
        hd_backward(y);
        if (!hd_ok()) { /* none, or none of second order: the same inside */
            if (!inside) wanted[0] = wanted[1] = wanted[2] = false;
            hd_error_clear();
            if (inside) hd_builder_end(b);
            continue;
        }
        for (int i = 0; i < count; ++i) {
            if (!inside && hd_has_grad(in[i])) {
                wanted[i] = true;
                expected[i] = hd_copy(hd_grad(in[i]));
                hd_set_grad(in[i], NULL);
            } else if (inside) {
                if (hd_has_grad(in[i]) != wanted[i])
                    fail_msg("%s: operand %d has %s gradient inside", name, i, wanted[i] ? "no" : "a");
                if (wanted[i]) hd_builder_add_output(b, names[i], hd_grad(in[i]));
            }
        }
        hd_clear_tape();
        if (!inside) continue;
        if (!wanted[0] && !wanted[1] && !wanted[2]) {
            hd_builder_end(b);
            return;
        }
        s = built(b);
        for (int i = 0; i < count; ++i) assert_false(hd_has_grad(in[i])); /* outside is as it was */
    }
    if (s == NULL) return;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(3);
        hd_outputs *o = hd_script_run(s);
        if (o == NULL) fail_msg("%s at O%d: %s", name, level - HD_O0, hd_error_message());
        for (int i = 0; i < count; ++i) {
            if (!wanted[i]) continue;
            hd_tensor *g = hd_outputs_get(o, names[i]);
            const char *why =
                difference_within(g, expected[i], level == HD_O0 ? 0 : gradient_bound(expected[i], second));
            if (why[0] != '\0') fail_msg("%s at O%d, gradient of %s: %s", name, level - HD_O0, names[i], why);
        }
    }
}

static void every_call_has_its_gradients(bool second) {
    for (int k = 0; k < CALL_COUNT; ++k) {
        if (!when_compiled((uint64_t)(2 * k + second), 17)) continue;
        HD_SCOPE;
        hd_tensor *in[3];
        const int count = call_operands(k, in);
        gradients_agree(calls[k].name, in, count, run_call, &calls[k], second);
    }
}
static void gradients_of_every_call(void **state) {
    (void)state;
    every_call_has_its_gradients(false);
}
static void gradients_of_gradients_of_every_call(void **state) {
    (void)state;
    every_call_has_its_gradients(true);
}

static hd_tensor *run_row(hd_tensor **in, const void *user) {
    return hd_run_row(hd_thread_self(), (hd_op_id) * (const int *)user, in, row_numbers);
}
static void gradients_of_every_row(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_F16, HD_BF16};
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (hd_ops[id].types == HD_TYPES_INTS) continue;
        for (int d = 0; d < 5; ++d) {
            if (d > 0 && !sampled((uint64_t)(id + d), 4)) continue;
            if (!when_compiled((uint64_t)(id * 5 + d), 19)) continue;
            HD_SCOPE;
            hd_tensor *in[3];
            int count;
            row_operands(id, in, &count);
            for (int i = 0; i < count; ++i) /* d = 4: mixed */
                if (hd_dtype_is_float(hd_tensor_dtype(in[i])))
                    in[i] = hd_cast(in[i], dtypes[d == 4 ? 2 - 2 * (i % 2) : d]);
            gradients_agree(hd_ops[id].name, in, count, run_row, &id, false);
        }
    }
}
static void gradients_of_gradients_of_every_row(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (hd_ops[id].types == HD_TYPES_INTS || !when_compiled((uint64_t)id, 11)) continue;
        HD_SCOPE;
        hd_tensor *in[3];
        int count;
        row_operands(id, in, &count);
        gradients_agree(hd_ops[id].name, in, count, run_row, &id, true);
    }
}

/* ---- random programs --------------------------------------------------------------------------------------------- */
/* Runs the program on two parameters among its tensors and back: their gradients, or an error. */
static hd_error back_through(uint64_t program, int steps, values *v, hd_tensor **parameters) {
    run_program(program, steps, v);
    hd_tensor *loss = NULL;
    for (int i = OUTSIDE; i < v->count && hd_ok(); ++i) {
        if (!hd_tensor_requires_grad(v->t[i]) || !hd_dtype_is_float(hd_tensor_dtype(v->t[i])) || i % 3 == 0) continue;
        hd_tensor *part = hd_cast(hd_mean(hd_tanh(v->t[i]), X(), NULL), HD_F64);
        loss = loss == NULL ? part : hd_add(loss, part);
    }
    if (loss == NULL) loss = hd_sum(hd_cast(parameters[0], HD_F64), X(), NULL);
    hd_backward(loss);
    return hd_error_code();
}

static void random_program_has_its_gradients(uint64_t program, int steps) {
    HD_SCOPE;
    values start = {.count = 0};
    make_outside(program, &start);
    hd_tensor *p[2], *expected[2] = {NULL};
    for (int i = 0; i < 2; ++i) {
        if (!hd_dtype_is_float(hd_tensor_dtype(start.t[2 + i]))) start.t[2 + i] = hd_cast(start.t[2 + i], HD_F32);
        p[i] = hd_requires_grad(start.t[2 + i]);
    }
    values v = {.fixed = 1 << 2 | 1 << 3};
    for (int i = 0; i < OUTSIDE; ++i) v.t[i] = i == 2 || i == 3 ? p[i - 2] : hd_copy(start.t[i]);
    hd_seed(program);
    const hd_error at_once = back_through(program, steps, &v, p);
    char why[512];
    snprintf(why, sizeof why, "%s", hd_error_message());
    hd_error_clear();
    for (int i = 0; i < 2 && at_once == HD_OK; ++i) {
        if (hd_has_grad(p[i])) expected[i] = hd_copy(hd_grad(p[i]));
        hd_set_grad(p[i], NULL);
    }
    hd_clear_tape();
    hd_builder *b = started("program");
    hd_builder_bind(b, "p0", p[0]);
    hd_builder_bind(b, "p1", p[1]);
    hd_builder_bind(b, "bound", start.t[4]);
    values w = {.fixed = 1 << 2 | 1 << 3};
    for (int i = 0; i < OUTSIDE; ++i) w.t[i] = start.t[i];
    w.t[0] = hd_input("x0", hd_tensor_shape(start.t[0]), hd_tensor_dtype(start.t[0]));
    w.t[1] = hd_input("x1", hd_tensor_shape(start.t[1]), hd_tensor_dtype(start.t[1]));
    const hd_error inside = back_through(program, steps, &w, p);
    if (inside != at_once)
        fail_msg("program %llu: at once \"%s\", inside \"%s\"", (unsigned long long)program, why, hd_error_message());
    hd_error_clear();
    if (at_once != HD_OK) {
        hd_builder_end(b);
        return;
    }
    for (int i = 0; i < 2; ++i) {
        if (hd_has_grad(p[i]) != (expected[i] != NULL))
            fail_msg("program %llu: a gradient too few or too many", (unsigned long long)program);
        if (expected[i] != NULL) hd_builder_add_output(b, i == 0 ? "0" : "1", hd_grad(p[i]));
    }
    if (expected[0] == NULL && expected[1] == NULL) {
        hd_builder_end(b);
        return;
    }
    hd_script *s = built(b);
    hd_script_set_input(s, "x0", start.t[0]);
    hd_script_set_input(s, "x1", start.t[1]);
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(program);
        hd_outputs *o = hd_script_run(s);
        if (o == NULL) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
        for (int64_t i = 0; i < hd_outputs_count(o); ++i) {
            hd_tensor *g = hd_outputs_at(o, i), *e = expected[atoi(hd_outputs_name(o, i))];
            const char *differs = difference_within(g, e, level == HD_O0 ? 0 : gradient_bound(e, false));
            if (differs[0] != '\0')
                fail_msg("program %llu at O%d, gradient %d: %s", (unsigned long long)program, level - HD_O0, (int)i,
                         differs);
        }
    }
}

static void random_programs_have_their_gradients(void **state) {
    (void)state;
    const char *seed = getenv("HODU_SEED");
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : sample_first(4), last = seed != NULL ? first : 499;
    for (uint64_t program = first; program <= last; program += sample_step(4))
        if (seed != NULL || when_compiled(program, 13))
            random_program_has_its_gradients(program, 5 + (int)(program % 30));
}

/* ---- what gradients do inside ------------------------------------------------------------------------------------ */
static void gradients_start_absent_and_accumulate(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 3, 4));
    hd_backward(hd_mul(w, w));
    hd_clear_tape();
    assert_values(hd_grad(w), HD_F32, 6, 8);
    hd_builder *b = started("accumulate");
    assert_false(hd_has_grad(w));
    assert_null(hd_grad(w));
    assert_error(HD_ERROR_STATE, "gradient not computed");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_backward(hd_mul(w, x));
    assert_true(hd_has_grad(w));
    hd_builder_add_output(b, "first", hd_grad(w));
    hd_backward(hd_mul(hd_mul(w, w), x));
    hd_builder_add_output(b, "both", hd_grad(w));
    hd_zero_grad(w);
    hd_builder_add_output(b, "zero", hd_grad(w));
    hd_backward(hd_mul_scalar(w, 7));
    hd_builder_add_output(b, "seven", hd_grad(w));
    hd_set_grad(w, x);
    hd_builder_add_output(b, "set", hd_grad(w));
    hd_set_grad(w, NULL);
    assert_false(hd_has_grad(w));
    hd_script *s = built(b);
    assert_values(hd_grad(w), HD_F32, 6, 8); /* the eager one */
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 10, 20));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "first"), HD_F32, 10, 20);
    assert_values(hd_outputs_get(o, "both"), HD_F32, 10 + 60, 20 + 160);
    assert_values(hd_outputs_get(o, "zero"), HD_F32, 0, 0);
    assert_values(hd_outputs_get(o, "seven"), HD_F32, 7, 7);
    assert_values(hd_outputs_get(o, "set"), HD_F32, 10, 20);
    assert_values(hd_grad(w), HD_F32, 6, 8);
    hd_backward(hd_mul(w, w)); /* and it goes on accumulating */
    assert_values(hd_grad(w), HD_F32, 12, 16);
}

static hd_tensor *tenfold(hd_tensor *gradient, void *user) {
    ++*(int *)user;
    return hd_mul_scalar(gradient, 10);
}
static void hooks_contexts_and_products_are_recorded(void **state) {
    (void)state;
    HD_SCOPE;
    int calls_of_hook = 0;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 3, 4)), *expected[5] = {NULL};
    hd_script *s = NULL;
    for (int inside = 0; inside < 2; ++inside) {
        hd_builder *b = inside ? started("hooks") : NULL;
        if (inside) hd_builder_bind(b, "w", w);
        hd_tensor *y = hd_exp(w), *out[5];
        hd_retain_grad(y);
        hd_add_grad_hook(y, tenfold, &calls_of_hook);
        hd_tensor *z = hd_mul(y, hd_mul(w, w));
        hd_backward(z);
        out[0] = hd_grad(w);
        out[1] = hd_grad(y);
        {
            HD_GRAD_CONTEXT;
            out[2] = hd_tensors_get(hd_grad_of(hd_tanh(w), HD_TENSORS(w), NULL), 0);
        }
        hd_tensor *v = hd_mul(w, hd_mul(w, w));
        out[3] = hd_jvp(v, HD_TENSORS(w), HD_TENSORS(hd_ones_like(w)));
        out[4] = hd_tensors_get(hd_vjp(v, HD_TENSORS(w), hd_full(S(2), HD_F32, 2)), 0);
        assert_ok();
        for (int i = 0; i < 5; ++i) {
            if (inside)
                hd_builder_add_output(b, (const char *[]){"0", "1", "2", "3", "4"}[i], out[i]);
            else
                expected[i] = hd_copy(hd_detach(out[i]));
        }
        if (inside) s = built(b);
        if (!inside) hd_set_grad(w, NULL);
        hd_clear_tape();
    }
    assert_int_equal(calls_of_hook, 2);
    hd_script_set_optimization_level(s, HD_O0);
    hd_outputs *o = hd_script_run(s);
    for (int i = 0; i < 5; ++i) assert_identical(hd_outputs_at(o, i), expected[i]);
}

/* A hook that a parameter has from outside runs inside too: what is recorded is what would have run. */
static void hooks_of_parameters_run_inside(void **state) {
    (void)state;
    HD_SCOPE;
    int calls_of_hook = 0;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 3, 4));
    hd_add_grad_hook(w, tenfold, &calls_of_hook);
    hd_builder *b = started("hook");
    hd_backward(hd_mul(w, hd_input("x", S(2), HD_F32)));
    hd_builder_add_output(b, "g", hd_grad(w));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_outputs *o = hd_script_run(s);
    assert_int_equal(calls_of_hook, 1);
    assert_values(hd_outputs_get(o, "g"), HD_F32, 10, 10);
}

static void in_place_writes_have_gradients_inside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 3, 4)), *expected = NULL;
    hd_script *s = NULL;
    for (int inside = 0; inside < 2; ++inside) {
        hd_builder *b = inside ? started("in place") : NULL;
        hd_tensor *y = hd_mul(w, w);
        hd_add_(y, w);
        hd_mul_(y, hd_scalar(3, HD_F32));
        hd_backward(y);
        if (!inside) expected = hd_copy(hd_grad(w));
        if (inside) hd_builder_add_output(b, "g", hd_grad(w));
        if (inside) s = built(b);
        assert_ok();
        hd_clear_tape();
        hd_tensor *z = hd_exp(w); /* saved, then written: an error inside and outside */
        if (inside) {
            hd_builder *c = started("error");
            z = hd_exp(w);
            hd_fill(z, 1);
            (void)c;
            hd_builder_end(c);
        }
        (void)z;
        hd_clear_tape();
    }
    assert_identical(hd_outputs_at(hd_script_run(s), 0), expected);
    assert_values(expected, HD_F32, 21, 27);
}

static void a_changed_value_is_noticed_inside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 3, 4)), *k = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("changed");
    hd_tensor *y = hd_mul(w, k); /* needs k */
    hd_fill(k, 5);
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "was changed in place after it was used");
    hd_builder_end(b);
    y = hd_mul(w, k);
    hd_backward(y); /* outside it never was */
    assert_values(hd_grad(w), HD_F32, 1, 2);
    hd_clear_tape();
}

/* In a script, too, a class number below 0 is an error and no class from the end. */
static void classes_below_zero_are_noticed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logits = operand(S(2, 3), 0, HD_F32), *bad = HD_TENSOR_I64(S(2), 0, -1);
    assert_null(hd_cross_entropy(logits, bad, NULL));
    assert_error(HD_ERROR_INDEX, "they begin at 0");
    hd_builder *b = started("classes");
    hd_builder_add_output(b, "loss", hd_cross_entropy(logits, hd_input("target", S(2), HD_I64), NULL));
    hd_script *s = built(b);
    hd_script_set_input(s, "target", bad);
    const bool refused = hd_script_run(s) == NULL;
    hd_error_clear();
    hd_script_set_input(s, "target", HD_TENSOR_I64(S(2), 0, 3));
    assert_null(hd_script_run(s));
    assert_error(HD_ERROR_INDEX, "hd_script_run:");
    assert_true(refused);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
typedef hd_optimizer *maker(hd_tensors *p);
static hd_optimizer *plain(hd_tensors *p) { return hd_sgd(p, 0.05, NULL); }
static hd_optimizer *decayed(hd_tensors *p) { return hd_sgd(p, 0.05, HD_OPTS(hd_sgd_opts, .weight_decay = 0.01)); }
static hd_optimizer *momentum(hd_tensors *p) { return hd_sgd(p, 0.05, HD_OPTS(hd_sgd_opts, .momentum = 0.9)); }
static hd_optimizer *dampened(hd_tensors *p) {
    return hd_sgd(p, 0.05, HD_OPTS(hd_sgd_opts, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01));
}
static hd_optimizer *nesterov(hd_tensors *p) {
    return hd_sgd(p, 0.05, HD_OPTS(hd_sgd_opts, .momentum = 0.9, .nesterov = true));
}
static hd_optimizer *adam(hd_tensors *p) { return hd_adam(p, 0.01, NULL); }
static hd_optimizer *adam_decayed(hd_tensors *p) {
    return hd_adam(p, 0.01, HD_OPTS(hd_adam_opts, .weight_decay = 0.1));
}
static const struct {
    const char *name;
    maker *make;
} optimizers[] = {{"plain", plain},       {"decayed", decayed}, {"momentum", momentum},        {"dampened", dampened},
                  {"nesterov", nesterov}, {"adam", adam},       {"adam_decayed", adam_decayed}};
enum { OPTIMIZERS = (int)(sizeof optimizers / sizeof optimizers[0]), EPOCHS = 12 };

static hd_module *make_model(int which) {
    hd_seed(11);
    if (which == 0) return hd_linear(3, 1, NULL);
    if (which == 1) return HD_SEQUENTIAL(hd_linear(3, 8, NULL), hd_tanh_layer(), hd_linear(8, 1, NULL));
    return HD_SEQUENTIAL(hd_linear(3, 8, NULL), hd_gelu_layer(),
                         hd_linear(8, 1, HD_OPTS(hd_linear_opts, .no_bias = true)), hd_sigmoid_layer());
}
static hd_tensor *one_epoch(hd_module *m, hd_optimizer *o, hd_tensor *x, hd_tensor *target, bool zero_first) {
    if (zero_first) hd_optimizer_zero_grad(o);
    hd_tensor *loss = hd_mse(hd_forward(m, x), target, NULL);
    hd_backward(loss);
    hd_optimizer_step(o);
    hd_optimizer_zero_grad(o);
    return loss;
}

static void loss_agrees(hd_tensor *got, double expected, int level, const char *name, const char *how, int epoch) {
    const double value = hd_item(got);
    if (!hd_ok()) fail_msg("%s, %s at O%d: %s", name, how, level - HD_O0, hd_error_message());
    const bool fine = level == HD_O0 ? value == expected : fabs(value - expected) <= 1e-6 * (1 + fabs(expected));
    if (!fine)
        fail_msg("%s, %s at O%d, epoch %d: the loss is %.9g, expected %.9g", name, how, level - HD_O0, epoch, value,
                 expected);
}

static void all_ways_give_the_same_losses(int which, int k) {
    HD_SCOPE;
    char name[64];
    snprintf(name, sizeof name, "model %d with %s", which, optimizers[k].name);
    hd_tensor *x = operand(S(10, 3), 0, HD_F32), *target = operand(S(10, 1), 1, HD_F32);
    /* at once */
    double losses[EPOCHS];
    hd_tensor *last[8];
    hd_module *m = make_model(which);
    hd_tensors *p = hd_module_parameters(m);
    hd_optimizer *o = optimizers[k].make(p);
    for (int e = 0; e < EPOCHS; ++e) losses[e] = hd_item(one_epoch(m, o, x, target, e % 2 == 0));
    hd_clear_tape();
    const int64_t parameters = hd_tensors_count(p);
    for (int64_t i = 0; i < parameters; ++i) last[i] = hd_copy(hd_detach(hd_tensors_get(p, i)));
    assert_true(losses[EPOCHS - 1] < losses[0]);
    /* unrolled: modules and optimizer are made inside, as the loop is written outside */
    hd_builder *b = started("unrolled");
    hd_module *inside = make_model(which);
    hd_optimizer *unrolled = optimizers[k].make(hd_module_parameters(inside));
    hd_tensor *in = hd_input("input", S(10, 3), HD_F32), *t = hd_input("target", S(10, 1), HD_F32);
    for (int e = 0; e < EPOCHS; ++e) {
        char epoch[32];
        snprintf(epoch, sizeof epoch, "loss %d", e);
        hd_builder_add_output(b, epoch, one_epoch(inside, unrolled, in, t, e % 2 == 0));
    }
    for (int64_t i = 0; i < parameters; ++i)
        hd_builder_add_output(b, hd_module_parameter_name(inside, i), hd_tensors_get(hd_module_parameters(inside), i));
    hd_script *s = built(b);
    hd_script_set_input(s, "input", x);
    hd_script_set_input(s, "target", target);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        for (int again = 0; again < 2; ++again) { /* the weights were drawn once: another run is the same run */
            hd_outputs *r = hd_script_run(s);
            for (int e = 0; e < EPOCHS; ++e) loss_agrees(hd_outputs_at(r, e), losses[e], level, name, "unrolled", e);
            for (int64_t i = 0; i < parameters; ++i) {
                if (level == HD_O0)
                    assert_identical(hd_outputs_at(r, EPOCHS + i), last[i]);
                else
                    assert_close(hd_outputs_at(r, EPOCHS + i), last[i], 1e-5, 1e-6);
            }
        }
    }
    assert_true(hd_item(hd_optimizer_steps(unrolled)) == 0); /* nothing was trained outside */
    /* one step with state */
    for (int level = HD_O0; level <= HD_O3; ++level) {
        HD_SCOPE;
        hd_module *model = make_model(which);
        hd_tensors *list = hd_module_parameters(model);
        hd_optimizer *own = optimizers[k].make(list);
        hd_builder *step = started("step");
        hd_builder_add_state_of(step, model, own);
        in = hd_input("input", S(10, 3), HD_F32), t = hd_input("target", S(10, 1), HD_F32);
        hd_builder_add_output(step, "loss", one_epoch(model, own, in, t, true));
        hd_script *once = built(step);
        hd_script_set_optimization_level(once, (hd_optimization_level)level);
        hd_script_set_input(once, "input", x);
        hd_script_set_input(once, "target", target);
        for (int e = 0; e < EPOCHS; ++e) {
            if (e == EPOCHS / 2) { /* an epoch at once in between: the same state */
                loss_agrees(one_epoch(model, own, x, target, false), losses[e], level, name, "at once in between", e);
                hd_clear_tape();
            } else {
                loss_agrees(hd_outputs_get(hd_script_run(once), "loss"), losses[e], level, name, "with state", e);
            }
        }
        for (int64_t i = 0; i < parameters; ++i) {
            if (level == HD_O0)
                assert_identical(hd_detach(hd_tensors_get(list, i)), last[i]);
            else
                assert_close(hd_detach(hd_tensors_get(list, i)), last[i], 1e-5, 1e-6);
        }
        assert_true(hd_item(hd_optimizer_steps(own)) == EPOCHS);
    }
}

static void linear_regression_trains_all_ways(void **state) {
    (void)state;
    for (int k = 0; k < OPTIMIZERS; ++k) all_ways_give_the_same_losses(0, k);
}
static void small_networks_train_all_ways(void **state) {
    (void)state;
    for (int which = 1; which < 3; ++which)
        for (int k = 0; k < OPTIMIZERS; ++k)
            if (when_slow((uint64_t)(which + k), 2)) all_ways_give_the_same_losses(which, k);
}

/* The loop of the guide: a thousand epochs in one graph. */
static void a_thousand_epochs_unroll(void **state) {
    (void)state;
    HD_SCOPE;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined NDEBUG
    enum { MANY = 100 };
#else
    enum { MANY = 1000 };
#endif
    hd_tensor *x = operand(S(100, 3), 0, HD_F32), *target = operand(S(100, 1), 1, HD_F32);
    hd_seed(1);
    hd_builder *b = started("training");
    hd_module *linear = hd_linear(3, 1, NULL);
    hd_optimizer *optimizer = hd_sgd(hd_module_parameters(linear), 0.01, NULL);
    hd_tensor *input = hd_input("input", S(100, 3), HD_F32), *t = hd_input("target", S(100, 1), HD_F32);
    hd_tensor *final_loss = hd_full(S(), HD_F32, 0);
    for (int epoch = 0; epoch < MANY; ++epoch) {
        HD_SCOPE;
        hd_tensor *loss = hd_mse(hd_forward(linear, input), t, NULL);
        hd_backward(loss);
        hd_optimizer_step(optimizer);
        hd_optimizer_zero_grad(optimizer);
        final_loss = hd_keep(loss);
    }
    hd_builder_add_output(b, "loss", final_loss);
    hd_script *s = built(b);
    hd_script_set_input(s, "input", x);
    hd_script_set_input(s, "target", target);
    hd_tensor *first = hd_outputs_get(hd_script_run(s), "loss");
    assert_identical(hd_outputs_get(hd_script_run(s), "loss"), first);
    const hd_script_figures f = hd_script_stats(s);
    hd_seed(1);
    hd_module *twin = hd_linear(3, 1, NULL); /* for one step with state */
    hd_optimizer *own = hd_sgd(hd_module_parameters(twin), 0.01, NULL);
    hd_tensor *start[2] = {hd_copy(hd_detach(hd_module_get(twin, "weight"))),
                           hd_copy(hd_detach(hd_module_get(twin, "bias")))};
    static double losses[MANY];
    for (int epoch = 0; epoch < MANY; ++epoch) { /* the module's eager weights are those it was made with */
        HD_SCOPE;
        losses[epoch] = hd_item(one_epoch(linear, optimizer, x, target, false));
    }
    hd_builder *step = started("step");
    hd_builder_add_state_of(step, twin, own);
    input = hd_input("input", S(100, 3), HD_F32), t = hd_input("target", S(100, 1), HD_F32);
    hd_builder_add_output(step, "loss", one_epoch(twin, own, input, t, false));
    hd_script *once = built(step);
    hd_script_set_input(once, "input", x);
    hd_script_set_input(once, "target", target);
    for (int level = HD_O0; level <= HD_O3; ++level) { /* bit for bit at O0, to 1e-6 above */
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_optimization_level(once, (hd_optimization_level)level);
        loss_agrees(output(s, "loss"), losses[MANY - 1], level, "linear", "unrolled", MANY - 1);
        hd_script_set_state(once, "weight", start[0]);
        hd_script_set_state(once, "bias", start[1]);
        for (int epoch = 0; epoch < MANY; ++epoch) {
            HD_SCOPE;
            loss_agrees(output(once, "loss"), losses[epoch], level, "linear", "with state", epoch);
        }
    }
    print_message("%lld nodes, %lld compiled, %lld launches, %lld bytes of arena, %.1f ms\n", (long long)f.nodes,
                  (long long)f.compiled_nodes, (long long)f.launches, (long long)f.arena_bytes, f.compile_ms);
    assert_true(f.arena_bytes < 64 << 10); /* an epoch's, not a thousand's */
}

/* Random layers: a script and dynamic execution draw the same numbers, step for step. */
static void training_with_draws_agrees(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = operand(S(6, 4), 0, HD_F32), *w = hd_param(operand(S(4, 2), 1, HD_F32)),
              *twin = hd_param(hd_copy(hd_detach(w)));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 0.1, NULL), *other = hd_sgd(HD_TENSORS(twin), 0.1, NULL);
    hd_builder *b = started("dropout");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "steps", hd_optimizer_steps(o));
    hd_tensor *in = hd_input("x", S(6, 4), HD_F32);
    hd_tensor *loss = hd_sum(hd_square(hd_mul(hd_matmul(in, w), hd_bernoulli(S(6, 2), HD_F32, 0.5))), X(), NULL);
    hd_backward(loss);
    hd_optimizer_step(o);
    hd_builder_add_output(b, "loss", loss);
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < 5; ++step) {
        HD_SCOPE;
        hd_seed(100 + (uint64_t)step);
        hd_tensor *at_once =
            hd_sum(hd_square(hd_mul(hd_matmul(x, twin), hd_bernoulli(S(6, 2), HD_F32, 0.5))), X(), NULL);
        hd_backward(at_once);
        hd_optimizer_step(other);
        hd_optimizer_zero_grad(other);
        hd_seed(100 + (uint64_t)step);
        assert_identical(hd_outputs_get(hd_script_run(s), "loss"), hd_detach(at_once));
        assert_identical(hd_detach(w), hd_detach(twin));
    }
}

RUN(test(gradients_of_every_call), test(gradients_of_gradients_of_every_call), test(gradients_of_every_row),
    test(gradients_of_gradients_of_every_row), test(random_programs_have_their_gradients),
    test(gradients_start_absent_and_accumulate), test(hooks_contexts_and_products_are_recorded),
    test(hooks_of_parameters_run_inside), test(in_place_writes_have_gradients_inside),
    test(a_changed_value_is_noticed_inside), test(classes_below_zero_are_noticed),
    test(linear_regression_trains_all_ways), test(small_networks_train_all_ways), test(a_thousand_epochs_unroll),
    test(training_with_draws_agrees))
