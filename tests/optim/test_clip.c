/* Gradients that are clipped, against PyTorch (tests/golden/make_optim.py), at once and recorded. */
#include "builders.h"
#include "core/memory.h"
#include "optim/golden.h"

#include <math.h>

typedef struct pair {
    hd_tensor *a, *b, *unused;
    hd_tensors *all;
} pair;
static void give_gradients(const pair *p) {
    const hd_dtype dtype = hd_tensor_dtype(p->a);
    hd_set_grad(p->a, fixture(8, HD_SHAPE(3, 2), 1, dtype));
    hd_set_grad(p->b, fixture(9, HD_SHAPE(4), 1, dtype));
}
static pair pair_of(hd_dtype dtype) {
    pair p = {hd_param(hd_zeros(HD_SHAPE(3, 2), dtype)), hd_param(hd_zeros(HD_SHAPE(4), dtype)),
              hd_param(hd_zeros(HD_SHAPE(2), dtype)), NULL};
    give_gradients(&p);
    p.all = HD_TENSORS(p.a, p.unused, p.b);
    return p;
}
static void assert_gradients(hd_tensor *a, hd_tensor *b, const double *values, double tolerance) {
    assert_close(a, hd_from_data(values, HD_SHAPE(3, 2), HD_F64), tolerance, tolerance);
    assert_close(b, hd_from_data(values + 6, HD_SHAPE(4), HD_F64), tolerance, tolerance);
}

static const struct {
    hd_dtype dtype;
    double tolerance;
} kinds[] = {{HD_F64, 1e-12}, {HD_F32, 1e-5}, {HD_BF16, 1e-2}};

static void clip_norm(const golden *line) {
    for (int k = 0; k < 3; ++k) {
        HD_SCOPE;
        const pair p = pair_of(kinds[k].dtype);
        hd_tensor *norm =
            hd_clip_grad_norm(p.all, line->options[0], HD_OPTS(hd_clip_grad_opts, .norm = line->options[1]));
        assert_close(norm, hd_scalar(line->values[0], HD_F64), kinds[k].tolerance, HD_ZERO);
        assert_gradients(hd_grad(p.a), hd_grad(p.b), line->values + 1, kinds[k].tolerance);
        assert_true(hd_tensor_dtype(hd_grad(p.a)) == kinds[k].dtype);
        assert_false(hd_has_grad(p.unused));
    }
    HD_SCOPE; /* recorded: outputs of a script */
    const pair p = pair_of(HD_F32);
    hd_builder *b = started("clip");
    give_gradients(&p); /* a builder has its own */
    hd_tensor *norm = hd_clip_grad_norm(p.all, line->options[0], HD_OPTS(hd_clip_grad_opts, .norm = line->options[1]));
    hd_builder_add_output(b, "norm", norm);
    hd_builder_add_output(b, "a", hd_grad(p.a));
    hd_builder_add_output(b, "b", hd_grad(p.b));
    hd_outputs *o = hd_script_run(built(b));
    assert_close(hd_outputs_get(o, "norm"), hd_scalar(line->values[0], HD_F64), 1e-5, HD_ZERO);
    assert_gradients(hd_outputs_get(o, "a"), hd_outputs_get(o, "b"), line->values + 1, 1e-5);
}
static void clip_value(const golden *line) {
    for (int k = 0; k < 3; ++k) {
        HD_SCOPE;
        const pair p = pair_of(kinds[k].dtype);
        hd_clip_grad_value(p.all, line->options[0]);
        assert_gradients(hd_grad(p.a), hd_grad(p.b), line->values, kinds[k].tolerance);
    }
    HD_SCOPE;
    const pair p = pair_of(HD_F32);
    hd_builder *b = started("clip");
    give_gradients(&p); /* a builder has its own */
    hd_clip_grad_value(p.all, line->options[0]);
    hd_builder_add_output(b, "a", hd_grad(p.a));
    hd_builder_add_output(b, "b", hd_grad(p.b));
    hd_outputs *o = hd_script_run(built(b));
    assert_gradients(hd_outputs_get(o, "a"), hd_outputs_get(o, "b"), line->values, 1e-6);
}

static void norms_agree_with_pytorch(void **state) {
    (void)state;
    golden_lines("clip_norm", 5, clip_norm);
}
static void values_agree_with_pytorch(void **state) {
    (void)state;
    golden_lines("clip_value", 2, clip_value);
}

static void what_no_step_would_use_is_left_alone(void **state) {
    (void)state;
    HD_SCOPE;
    const pair p = pair_of(HD_F32);
    assert_values(hd_clip_grad_norm(HD_TENSORS(p.unused), 1, NULL), HD_F32, 0);
    hd_set_requires_grad(p.a, false); /* it is frozen, with the gradient that it had */
    hd_set_grad(p.b, HD_TENSOR_F32(HD_SHAPE(4), 3, 0, -4, 0));
    assert_values(hd_clip_grad_norm(p.all, 1, NULL), HD_F32, 5);
    assert_close(hd_grad(p.b), HD_TENSOR_F32(HD_SHAPE(4), 0.6, 0, -0.8, 0), 1e-6, HD_ZERO);
    assert_same(hd_grad(p.a), fixture(8, HD_SHAPE(3, 2), 1, HD_F32));
    hd_clip_grad_value(p.all, 0.5);
    assert_same(hd_grad(p.a), fixture(8, HD_SHAPE(3, 2), 1, HD_F32));
}

static void a_norm_that_is_not_finite_is_given_and_seen(void **state) {
    (void)state;
    HD_SCOPE;
    const pair p = pair_of(HD_F32);
    hd_set_grad(p.b, hd_full(HD_SHAPE(4), HD_F32, INFINITY));
    assert_values(hd_clip_grad_norm(p.all, 1, NULL), HD_F32, INFINITY);
    assert_values(hd_grad(p.b), HD_F32, NAN, NAN, NAN, NAN); /* as in PyTorch: 0 * inf */
    assert_values(hd_grad(p.a), HD_F32, 0, 0, 0, 0, 0, 0);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    const pair p = pair_of(HD_F32);
    assert_null(hd_clip_grad_norm(NULL, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_clip_grad_norm: `parameters` is NULL");
    assert_null(hd_clip_grad_norm(p.all, -1, NULL));
    assert_error(HD_ERROR_VALUE, "hd_clip_grad_norm: max_norm -1");
    assert_null(hd_clip_grad_norm(p.all, 1, HD_OPTS(hd_clip_grad_opts, .norm = -1)));
    assert_error(HD_ERROR_VALUE, "norm -1");
    hd_clip_grad_value(NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_clip_grad_value: `parameters` is NULL");
    hd_clip_grad_value(p.all, NAN);
    assert_error(HD_ERROR_VALUE, "hd_clip_grad_value: a value of ");
    assert_same(hd_grad(p.a), fixture(8, HD_SHAPE(3, 2), 1, HD_F32));
}

/* All of them are clipped or none, also when memory ends. */
static void memory_may_end_anywhere(void **state) {
    (void)state;
    HD_SCOPE;
    const pair p = pair_of(HD_F32);
    bool reached = true;
    for (int64_t n = 0; reached; ++n) {
        HD_SCOPE;
        hd_memory_trim();
        hd_memory_fail_after(n);
        hd_clip_grad_norm(p.all, 0.5, NULL);
        reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (hd_ok()) break;
        assert_error(HD_ERROR_MEMORY, "");
        assert_same(hd_grad(p.a), fixture(8, HD_SHAPE(3, 2), 1, HD_F32));
        assert_same(hd_grad(p.b), fixture(9, HD_SHAPE(4), 1, HD_F32));
    }
    assert_false(hd_allclose(hd_grad(p.b), fixture(9, HD_SHAPE(4), 1, HD_F32), NULL));
}

RUN(test(norms_agree_with_pytorch), test(values_agree_with_pytorch), test(what_no_step_would_use_is_left_alone),
    test(a_norm_that_is_not_finite_is_given_and_seen), test(what_makes_no_sense_is_refused),
    test(memory_may_end_anywhere))
