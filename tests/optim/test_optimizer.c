/* Optimizers: SGD and Adam against PyTorch (tests/golden/optim.txt, by make_optim.py), and what all of them share. */
#include "core/memory.h"
#include "optim/golden.h"
#include "printed.h"

#include <pthread.h>

#include <math.h>

/* ---- against PyTorch --------------------------------------------------------------------------------------------- */
static hd_optimizer *make_sgd(const lesson *l, const double *o) {
    return hd_sgd(
        HD_TENSORS(l->w, l->b), o[0],
        HD_OPTS(hd_sgd_opts, .momentum = o[1], .dampening = o[2], .weight_decay = o[3], .nesterov = o[4] != 0));
}
static hd_optimizer *make_adam(const lesson *l, const double *o) {
    return hd_adam(HD_TENSORS(l->w, l->b), o[0],
                   HD_OPTS(hd_adam_opts, .beta1 = o[1] == 0 ? HD_ZERO : o[1], .beta2 = o[2] == 0 ? HD_ZERO : o[2],
                           .epsilon = o[3], .weight_decay = o[4]));
}
static void check_sgd(const golden *line) {
    lesson_compare(make_sgd, line, HD_F64, 1e-12);
    lesson_compare(make_sgd, line, HD_F32, 1e-6);
}
static void check_adam(const golden *line) {
    lesson_compare(make_adam, line, HD_F64, 1e-12);
    lesson_compare(make_adam, line, HD_F32, 1e-6);
}
static void sgd_agrees_with_pytorch(void **state) {
    (void)state;
    golden_lines("sgd", 7, check_sgd);
}
static void adam_agrees_with_pytorch(void **state) {
    (void)state;
    golden_lines("adam", 7, check_adam);
}

static void adam_has_its_usual_defaults(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p[2];
    hd_optimizer *optimizer[2];
    for (int i = 0; i < 2; ++i) {
        p[i] = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, -2));
        optimizer[i] = hd_adam(HD_TENSORS(p[i]), 0.01,
                               i == 0 ? NULL : HD_OPTS(hd_adam_opts, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8));
        for (int k = 0; k < 5; ++k) {
            hd_set_grad(p[i], HD_TENSOR_F32(HD_SHAPE(2), k, 1 - k));
            hd_optimizer_step(optimizer[i]);
        }
    }
    assert_same(p[0], p[1]);
}

/* ---- steps and gradients ----------------------------------------------------------------------------------------- */
static void parameters_without_a_gradient_are_left_alone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *used = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *unused = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *all[] = {
        hd_sgd(HD_TENSORS(used, unused), 0.5, HD_OPTS(hd_sgd_opts, .weight_decay = 0.5, .momentum = 0.9)),
        hd_adam(HD_TENSORS(used, unused), 0.5, HD_OPTS(hd_adam_opts, .weight_decay = 0.5))};
    hd_backward(hd_mul(used, used));
    for (int i = 0; i < 2; ++i) hd_optimizer_step(all[i]);
    assert_values(unused, HD_F32, 1, 1);
    assert_true(hd_item(hd_select(used, 0, 0)) < 1);
    assert_false(hd_has_grad(unused));
    hd_set_grad(used, NULL);
    hd_tensor *before = hd_copy(hd_detach(used));
    for (int i = 0; i < 2; ++i) hd_optimizer_step(all[i]); /* nobody has one: nothing moves, and no step is counted */
    assert_same(used, before);
    for (int i = 0; i < 2; ++i) assert_true(hd_item(hd_optimizer_steps(all[i])) == 1);
}

static void looking_at_a_gradient_changes_no_step(void **state) {
    (void)state;
    HD_SCOPE;
    for (int look = 0; look < 2; ++look) {
        hd_tensor *used = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *unused = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
        hd_optimizer *sgd = hd_sgd(HD_TENSORS(used, unused), 0.5, HD_OPTS(hd_sgd_opts, .weight_decay = 0.5));
        hd_backward(hd_mul(used, unused));
        hd_optimizer_step(sgd);
        assert_values(unused, HD_F32, 0.25, 0.25);
        hd_optimizer_zero_grad(sgd);
        if (look) hd_grad(unused); /* zeros, of which none arrived */
        hd_backward(hd_mul(used, used));
        if (look) assert_values(hd_grad(unused), HD_F32, 0, 0);
        hd_optimizer_step(sgd);
        assert_values(unused, HD_F32, 0.25, 0.25);
        hd_optimizer_zero_grad(sgd);
        hd_optimizer_step(sgd);
        assert_values(unused, HD_F32, 0.25, 0.25);
        hd_set_grad(unused, hd_zeros(HD_SHAPE(2), HD_F32)); /* one that was given counts, whatever it is */
        hd_optimizer_step(sgd);
        assert_values(unused, HD_F32, 0.1875, 0.1875);
    }
}

static void zero_grad_zeroes_all_and_clears_the_tape(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(), HD_F64));
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(a, b), 0.5, NULL);
    hd_optimizer_zero_grad(sgd); /* before any gradient */
    assert_values(hd_grad(a), HD_F32, 0, 0);
    hd_optimizer_step(sgd); /* zeros move nothing */
    assert_values(a, HD_F32, 1, 1);
    hd_backward(hd_mul(a, b));
    assert_values(hd_grad(b), HD_F64, 2);
    hd_optimizer_zero_grad(sgd);
    assert_values(hd_grad(a), HD_F32, 0, 0);
    assert_values(hd_grad(b), HD_F64, 0);
    assert_int_equal(hd_tape_length(), 0);
}

static void a_step_is_on_no_tape(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(), HD_F32, 3));
    hd_optimizer *adam = hd_adam(HD_TENSORS(p), 0.5, NULL);
    hd_tensor *loss = hd_mul(p, p);
    hd_backward(loss);
    hd_optimizer_step(adam);
    assert_int_equal(hd_tape_length(), 1);
    assert_true(hd_tensor_requires_grad(p));
    assert_true(hd_tensor_requires_grad(hd_neg(p)));
    hd_backward(loss); /* the parameter it needs has moved since */
    assert_error(HD_ERROR_STATE, "hd_mul");
    HD_NO_GRAD; /* a step works there too, and inside a context */
    hd_optimizer_step(adam);
    HD_GRAD_CONTEXT;
    hd_optimizer_step(adam);
    assert_true(hd_item(hd_optimizer_steps(adam)) == 3);
}

static void while_an_error_is_pending_a_step_updates_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(p), 0.5, HD_OPTS(hd_sgd_opts, .momentum = 0.9));
    hd_backward(hd_mul_scalar(p, 2));
    hd_matmul(p, hd_ones(HD_SHAPE(3), HD_F32)); /* a mistake in the forward */
    hd_optimizer_step(sgd);
    hd_optimizer_zero_grad(sgd);
    hd_optimizer_set_learning_rate(sgd, 7);
    assert_error(HD_ERROR_SHAPE, "hd_matmul");
    assert_values(p, HD_F32, 1, 1);
    assert_values(hd_grad(p), HD_F32, 2, 2);
    assert_true(hd_item(hd_optimizer_steps(sgd)) == 0);
    hd_optimizer_step(sgd);
    assert_values(p, HD_F32, 0, 0);
}

static void the_learning_rate_is_a_tensor_of_the_optimizers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_zeros(HD_SHAPE(), HD_F32));
    hd_optimizer *sgd = hd_sgd(HD_TENSORS(p), 0.5, NULL);
    hd_tensor *rate = hd_optimizer_learning_rate(sgd), *steps = hd_optimizer_steps(sgd);
    assert_values(rate, HD_F64, 0.5);
    assert_values(steps, HD_F64, 0);
    assert_int_equal(hd_tensor_rank(rate), 0);
    hd_set_grad(p, hd_ones(HD_SHAPE(), HD_F32));
    hd_optimizer_step(sgd);
    assert_values(p, HD_F32, -0.5);
    hd_optimizer_set_learning_rate(sgd, 2);
    assert_values(rate, HD_F64, 2);
    hd_optimizer_step(sgd);
    assert_values(p, HD_F32, -2.5);
    hd_fill(rate, 1); /* writing it is setting it */
    hd_optimizer_step(sgd);
    assert_values(p, HD_F32, -3.5);
    hd_optimizer_set_learning_rate(sgd, 0);
    hd_optimizer_step(sgd);
    assert_values(p, HD_F32, -3.5);
    assert_values(steps, HD_F64, 4);
    assert_ptr_equal(hd_tensors_get(hd_optimizer_parameters(sgd), 0), p);
}

static void parameters_keep_their_dtype_and_memory(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_dtype dtypes[] = {HD_F64, HD_F32, HD_F16, HD_BF16};
    for (int i = 0; i < 4; ++i) {
        hd_tensor *p = hd_param(hd_full(HD_SHAPE(3), dtypes[i], 2)), *view = hd_detach(p);
        hd_set_grad(p, hd_ones(HD_SHAPE(3), dtypes[i]));
        hd_optimizer_step(hd_sgd(HD_TENSORS(p), 0.5, HD_OPTS(hd_sgd_opts, .momentum = 0.5, .weight_decay = 0.5)));
        assert_values(p, dtypes[i], 1, 1, 1);
        hd_optimizer_step(hd_adam(HD_TENSORS(p), 0.5, NULL));
        assert_close(p, hd_full(HD_SHAPE(3), HD_F32, 0.5), 1e-2, HD_ZERO);
        assert_true(hd_tensor_dtype(p) == dtypes[i]);
        assert_same(view, p); /* updated in place */
    }
}

static hd_optimizer *made_and_kept(void) {
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_set_grad(p, p);
    return hd_keep(hd_adam(HD_TENSORS(p), 0.5, NULL));
}
static void an_optimizer_holds_its_parameters(void **state) {
    (void)state;
    HD_SCOPE;
    hd_optimizer *adam = made_and_kept();
    hd_optimizer_step(adam);
    assert_ok();
    assert_close(hd_tensors_get(hd_optimizer_parameters(adam), 0), hd_full(HD_SHAPE(2), HD_F32, 0.5), 1e-6, HD_ZERO);
}

static void an_optimizer_that_is_gone_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_set_grad(p, p);
    hd_optimizer *gone;
    hd_tensors *list;
    {
        HD_SCOPE;
        list = HD_TENSORS(p);
        gone = hd_sgd(list, 0.5, NULL);
    }
    hd_optimizer_step(gone);
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    hd_optimizer_zero_grad(gone);
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    assert_null(hd_sgd(list, 0.5, NULL));
    assert_int_not_equal(hd_error_code(), HD_OK);
    hd_error_clear();
    assert_values(p, HD_F32, 1, 1);
}

static void two_optimizers_share_a_model(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = HD_SEQUENTIAL(hd_linear(2, 2, NULL), hd_linear(2, 1, NULL));
    hd_tensors *all = hd_module_parameters(model);
    hd_optimizer *body = hd_sgd(HD_TENSORS(hd_tensors_get(all, 0), hd_tensors_get(all, 1)), 0.1, NULL);
    hd_optimizer *head = hd_adam(HD_TENSORS(hd_tensors_get(all, 2), hd_tensors_get(all, 3)), 0.1, NULL);
    hd_tensor *before[4], *x = hd_ones(HD_SHAPE(3, 2), HD_F32);
    for (int i = 0; i < 4; ++i) before[i] = hd_copy(hd_detach(hd_tensors_get(all, i)));
    hd_backward(hd_mean(hd_forward(model, x), HD_AXES(), NULL));
    hd_optimizer_step(head);
    for (int i = 0; i < 2; ++i) assert_same(hd_tensors_get(all, i), before[i]);
    for (int i = 2; i < 4; ++i) assert_false(hd_allclose(hd_tensors_get(all, i), before[i], NULL));
    hd_optimizer_step(body);
    for (int i = 0; i < 2; ++i) assert_false(hd_allclose(hd_tensors_get(all, i), before[i], NULL));
}

/* ---- an optimizer of one's own ----------------------------------------------------------------------------------- */
typedef struct own {
    int begun, updated, destroyed, fail_at;
    bool order_was_right;
} own;
static void own_begin(hd_optimizer *o, void *state) {
    own *s = state;
    s->order_was_right = s->updated % 2 == 0; /* before the parameters */
    ++s->begun;
    assert_true(hd_item(hd_optimizer_steps(o)) == s->begun);
}
/* slot 0: the sum of gradients, slot 1: how many there were. */
static void own_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    own *s = state;
    ++s->updated;
    if (s->updated == s->fail_at) {
        hd_add(p, NULL);
        return;
    }
    assert_false(hd_tensor_requires_grad(hd_mul(p, p))); /* no tape here */
    hd_add_(slot[0], g);
    hd_assign(slot[1], hd_add_scalar(slot[1], 1));
    hd_sub_(p, hd_mul(hd_div(slot[0], slot[1]), hd_cast(hd_optimizer_learning_rate(o), hd_tensor_dtype(p))));
}
static void own_destroy(void *state) { ++((own *)state)->destroyed; }
static const hd_optimizer_class own_class = {
    .name = "own", .slots = 2, .begin = own_begin, .update = own_update, .destroy = own_destroy};

static void an_own_optimizer_has_slots_and_a_state(void **state) {
    (void)state;
    own s = {0};
    {
        HD_SCOPE;
        hd_tensor *a = hd_param(hd_zeros(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_zeros(HD_SHAPE(), HD_F64));
        hd_optimizer *o = hd_optimizer_new(&own_class, &s, HD_TENSORS(a, b), 0.5);
        for (int i = 1; i <= 3; ++i) {
            hd_set_grad(a, hd_full(HD_SHAPE(2), HD_F32, i));
            hd_set_grad(b, hd_full(HD_SHAPE(), HD_F64, 10 * i));
            hd_optimizer_step(o);
            assert_ok();
            assert_true(s.order_was_right);
        }
        assert_values(a, HD_F32, -(1 + 1.5 + 2) * 0.5, -(1 + 1.5 + 2) * 0.5); /* the means of 1, 1 2, 1 2 3 */
        assert_values(b, HD_F64, -(10 + 15 + 20) * 0.5);
        assert_int_equal(s.begun, 3);
        assert_int_equal(s.updated, 6);
        hd_optimizer_zero_grad(o); /* comes with it */
        assert_values(hd_grad(a), HD_F32, 0, 0);
        assert_int_equal(s.destroyed, 0);
    }
    assert_int_equal(s.destroyed, 1);
}

static void an_update_that_fails_ends_the_step(void **state) {
    (void)state;
    own s = {.fail_at = 2};
    HD_SCOPE;
    hd_tensor *p[3];
    for (int i = 0; i < 3; ++i) {
        p[i] = hd_param(hd_zeros(HD_SHAPE(), HD_F32));
        hd_set_grad(p[i], hd_ones(HD_SHAPE(), HD_F32));
    }
    hd_optimizer *o = hd_optimizer_new(&own_class, &s, HD_TENSORS(p[0], p[1], p[2]), 0.5);
    hd_optimizer_step(o);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_add: `b` is NULL");
    for (int i = 0; i < 3; ++i) assert_values(p[i], HD_F32, 0); /* the first one, which was updated, too */
    assert_values(hd_optimizer_steps(o), HD_F64, 0);
    assert_int_equal(s.updated, 2);
    assert_true(hd_tensor_requires_grad(hd_neg(p[0]))); /* the tape is on again */
}

static void slots_are_optional_and_belong_to_their_parameter(void **state) {
    (void)state;
    HD_SCOPE;
    own s = {0};
    static const hd_optimizer_class widest = {.name = "widest", .slots = 4, .update = own_update};
    hd_tensor *p = hd_param(hd_zeros(HD_SHAPE(2, 3), HD_F16));
    hd_set_grad(p, hd_ones(HD_SHAPE(2, 3), HD_F16));
    hd_optimizer *o = hd_optimizer_new(&widest, &s, HD_TENSORS(p), 1);
    hd_optimizer_step(o);
    assert_ok();
    assert_values(p, HD_F16, -1, -1, -1, -1, -1, -1);
}

static void a_step_without_gradients_is_said_and_does_not_count(void **state) {
    (void)state;
    HD_SCOPE;
    char text[1024];
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2));
    hd_optimizer *o = hd_adam(HD_TENSORS(p), 0.1, NULL);
    const printed out = printed_begin();
    hd_optimizer_step(o);
    hd_optimizer_step(o);
    printed_end(out, text, sizeof text);
    assert_ok();
    assert_non_null(strstr(text, "hodu warning: hd_optimizer_step: no gradient arrived at any of the 1 parameters"));
    assert_null(strstr(strstr(text, "no gradient arrived") + 1, "no gradient arrived")); /* once */
    assert_true(hd_item(hd_optimizer_steps(o)) == 0);
    hd_backward(hd_sum(p, HD_AXES(), NULL));
    hd_optimizer_step(o);
    assert_true(hd_item(hd_optimizer_steps(o)) == 1);
}

static void frozen_parameters_are_passed_over(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 1)), *frozen = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 2));
    hd_set_requires_grad(frozen, false);
    hd_optimizer *o = hd_sgd(HD_TENSORS(p, frozen), 0.5, NULL);
    for (int step = 0; step < 2; ++step) {
        hd_backward(hd_mul(p, frozen));
        hd_optimizer_step(o);
        hd_optimizer_zero_grad(o);
        assert_false(hd_has_grad(frozen) && step == 0);
        if (step == 0) {
            assert_values(p, HD_F32, 0);
            assert_values(frozen, HD_F32, 2);
            hd_requires_grad(frozen); /* thawed: the same optimizer goes on with it */
        }
    }
    assert_ok();
    assert_values(p, HD_F32, -1);
    assert_values(frozen, HD_F32, 2); /* its gradient is p, 0 then */
    hd_set_requires_grad(p, false);
    hd_set_requires_grad(frozen, false);
    assert_null(hd_sgd(HD_TENSORS(p, frozen), 0.5, NULL));
    assert_error(HD_ERROR_VALUE, "none of the 2 parameters requires a gradient");
}

/* Whenever it is frozen: before or after zero_grad, or between backward and step. */
static void a_parameter_that_was_frozen_since_follows_no_old_gradient(void **state) {
    (void)state;
    for (int when = 0; when < 3; ++when) {
        HD_SCOPE;
        hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 1)), *q = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 1));
        hd_optimizer *o = hd_sgd(HD_TENSORS(p, q), 0.25, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
        for (int round = 0; round < 4; ++round) {
            HD_SCOPE;
            if (round == 1 && when == 0) hd_set_requires_grad(p, false);
            hd_optimizer_zero_grad(o);
            if (round == 1 && when == 1) hd_set_requires_grad(p, false);
            hd_backward(hd_mul(p, q));
            if (round == 1 && when == 2) hd_set_requires_grad(p, false);
            hd_optimizer_step(o);
            assert_values(p, HD_F32, 0.75);
        }
        assert_true(hd_item(hd_optimizer_steps(o)) == 4); /* of q */
        hd_optimizer_zero_grad(o);
        assert_values(hd_grad(p), HD_F32, 0); /* zeroed like the others */
        hd_requires_grad(p);
        hd_set_grad(p, HD_TENSOR_F32(HD_SHAPE(1), 1));
        hd_optimizer_step(o);
        assert_values(p, HD_F32, 0.75 - 0.25 * (0.5 + 1)); /* its moment is that of the one step it took */
    }
}

static void a_step_of_frozen_parameters_alone_does_not_count(void **state) {
    (void)state;
    HD_SCOPE;
    char text[1024];
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 1)), *q = hd_param(HD_TENSOR_F32(HD_SHAPE(1), 1));
    hd_optimizer *o = hd_adam(HD_TENSORS(p, q), 0.1, NULL);
    hd_set_grad(p, HD_TENSOR_F32(HD_SHAPE(1), 1));
    hd_set_requires_grad(p, false);
    const printed out = printed_begin();
    hd_optimizer_step(o);
    printed_end(out, text, sizeof text);
    assert_ok();
    assert_non_null(strstr(text, "no gradient arrived at any of the 1 parameters that are not frozen"));
    assert_true(hd_item(hd_optimizer_steps(o)) == 0);
    assert_values(p, HD_F32, 1);
}

/* The loop of PyTorch's DCGAN tutorial: zero_grad between the forward of the generator and its backward. */
static hd_tensor *softplus_mean(hd_tensor *logits) { return hd_mean(hd_softplus(logits, 1, 20), HD_AXES(), NULL); }
static bool train_gan(bool clears_tape, int steps) {
    hd_seed(1);
    hd_module *generator = HD_SEQUENTIAL(hd_linear(2, 4, NULL), hd_relu_layer(), hd_linear(4, 1, NULL)),
              *critic = HD_SEQUENTIAL(hd_linear(1, 4, NULL), hd_tanh_layer(), hd_linear(4, 1, NULL));
    hd_optimizer *og = hd_adam(hd_module_parameters(generator), 2e-3, NULL),
                 *oc = hd_adam(hd_module_parameters(critic), 2e-3, NULL);
    hd_tensor *before = hd_copy(hd_detach(hd_module_get(generator, "0.weight")));
    for (int i = 0; i < steps; ++i) {
        HD_SCOPE;
        hd_optimizer_zero_grad(oc);
        hd_backward(softplus_mean(hd_neg(hd_forward(critic, hd_normal(HD_SHAPE(8, 1), HD_F32, 3, 0.5)))));
        hd_tensor *fake = hd_forward(generator, hd_randn(HD_SHAPE(8, 2), HD_F32));
        hd_backward(softplus_mean(hd_forward(critic, hd_detach(fake))));
        hd_optimizer_step(oc);
        if (clears_tape)
            hd_optimizer_zero_grad(og); /* fake is on that tape */
        else
            hd_zero_grads(hd_optimizer_parameters(og));
        hd_backward(softplus_mean(hd_neg(hd_forward(critic, fake))));
        hd_optimizer_step(og);
    }
    assert_true(hd_item(hd_optimizer_steps(og)) == (clears_tape ? 0 : steps));
    assert_true(hd_item(hd_optimizer_steps(oc)) == steps);
    return !hd_allclose(before, hd_module_get(generator, "0.weight"), NULL);
}

static void a_generator_whose_history_was_cleared_is_said(void **state) {
    (void)state;
    HD_SCOPE;
    char text[2048];
    printed out = printed_begin();
    const bool moved = train_gan(true, 3);
    printed_end(out, text, sizeof text);
    assert_ok();
    assert_false(moved);
    const char *warning = strstr(text, "hodu warning: hd_backward stops at a result [8,1] of hd_affine whose history");
    assert_non_null(warning);
    assert_non_null(strstr(warning, "docs/guide/gradient-tape.md"));
    assert_null(strstr(warning + 80, "hd_backward stops")); /* once */
    assert_non_null(strstr(text, "hd_optimizer_step: no gradient arrived at any of the 4 parameters"));
    hd_clear_tape();
    out = printed_begin();
    assert_true(train_gan(false, 3));
    printed_end(out, text, sizeof text);
    assert_string_equal(text, "");
}

/* ---- all or nothing ---------------------------------------------------------------------------------------------- */
enum { SIZE = 300 };

/* In place, in part, and through memory that was lent: everything that an update may do to a parameter. */
static void rough_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)state;
    hd_add_(slot[0], g);
    hd_mul_(g, hd_scalar(0.5, HD_F32)); /* clips what it was given */
    hd_sub_(p, slot[0]);
    hd_tensor *half = hd_slice(p, 0, 0, SIZE / 2, 1);
    hd_mul_(half, hd_scalar(0.5, HD_F32));
    float *raw = hd_data_mut(p, HD_F32);
    if (raw != NULL) raw[0] += 1;
}

typedef struct training {
    float lent[SIZE];
    hd_tensor *p[3];
    hd_optimizer *o;
} training;

static void begin(training *t, int kind) {
    static const hd_optimizer_class rough = {.name = "rough", .slots = 1, .update = rough_update};
    for (int i = 0; i < SIZE; ++i) t->lent[i] = (float)i;
    t->p[0] = hd_param(hd_full(HD_SHAPE(SIZE), HD_F32, 1));
    t->p[1] = hd_param(hd_from_blob(t->lent, HD_SHAPE(SIZE), HD_F32, NULL, NULL));
    t->p[2] = hd_param(hd_full(HD_SHAPE(2, SIZE), kind == 3 ? HD_F32 : HD_F16, 3));
    for (int i = 0; i < 3; ++i) hd_set_grad(t->p[i], hd_full(hd_tensor_shape(t->p[i]), HD_F32, i + 1));
    hd_tensors *all = HD_TENSORS(t->p[0], t->p[1], t->p[2]);
    t->o = kind == 3   ? hd_optimizer_new(&rough, NULL, HD_TENSORS(t->p[0], t->p[1]), 0.1)
           : kind == 2 ? hd_adam(all, 0.1, NULL)
                       : hd_sgd(all, 0.1, kind == 1 ? HD_OPTS(hd_sgd_opts, .momentum = 0.9) : NULL);
}

static void a_step_that_fails_changes_nothing(void **state) {
    (void)state;
    not_on_a_device("it lends memory of the host");
    for (int kind = 0; kind < 4; ++kind)
        for (int64_t n = 0, failed = 1; failed; ++n) {
            HD_SCOPE;
            training plain, other;
            begin(&plain, kind);
            begin(&other, kind);
            hd_optimizer_step(plain.o);
            hd_optimizer_step(other.o); /* so that there are slots and steps to lose */
            assert_ok();
            hd_memory_trim();
            hd_memory_fail_after(n);
            hd_optimizer_step(other.o);
            hd_memory_fail_after(-1);
            failed = !hd_ok();
            if (!failed) assert_true(n > 20);
            hd_error_clear();
            if (failed) {
                assert_values(hd_optimizer_steps(other.o), HD_F64, 1);
                for (int i = 0; i < 3; ++i) assert_same(other.p[i], plain.p[i]);
                for (int i = 0; i < 3; ++i) assert_same(hd_grad(other.p[i]), hd_grad(plain.p[i]));
                hd_optimizer_step(other.o); /* and it can be done again */
            }
            hd_optimizer_step(plain.o);
            for (int i = 0; i < 3; ++i) assert_same(other.p[i], plain.p[i]);
            assert_values(hd_optimizer_steps(other.o), HD_F64, 2);
            assert_memory_equal(other.lent, plain.lent, sizeof plain.lent);
        }
}

static void fails_at_second(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)slot;
    hd_sub_(p, g);
    if (++*(int *)state == 2) hd_matmul(p, NULL);
}

static void a_tape_is_still_good_after_a_step_that_failed(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class second = {.name = "second", .update = fails_at_second};
    int calls = 0;
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2)), *q = hd_param(hd_full(HD_SHAPE(1), HD_F32, 3));
    hd_optimizer *o = hd_optimizer_new(&second, &calls, HD_TENSORS(p, q), 0.1);
    hd_tensor *loss = hd_mul(p, q);
    hd_backward(loss);
    hd_optimizer_step(o);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    hd_backward(loss); /* saved values are what they were */
    assert_values(hd_grad(p), HD_F32, 6);
    hd_clear_tape();
}

static void a_recorded_step_that_fails_is_as_if_it_had_not_been(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class second = {.name = "second", .update = fails_at_second};
    int calls = 0;
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2)), *q = hd_param(hd_full(HD_SHAPE(1), HD_F32, 3));
    hd_optimizer *o = hd_optimizer_new(&second, &calls, HD_TENSORS(p, q), 0.1);
    hd_builder *b = hd_builder_new("step");
    hd_builder_start(b);
    hd_builder_add_state(b, "p", p);
    hd_builder_add_state(b, "q", q);
    hd_builder_add_state(b, "steps", hd_optimizer_steps(o));
    hd_backward(hd_mul(p, q));
    hd_optimizer_step(o);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    hd_optimizer_step(o);
    hd_builder_end(b);
    hd_script_run(hd_builder_build(b));
    assert_values(p, HD_F32, -1); /* updated once */
    assert_values(q, HD_F32, 1);
    assert_values(hd_optimizer_steps(o), HD_F64, 1);
}

/* Does to what is there all that a step can do, and makes something of its own; then it fails. */
typedef struct thorough {
    hd_tensor *p, *zeroed, *made, *filled, *given;
    hd_generator *generator;
    hd_script *script;
} thorough;
static void thorough_begin(hd_optimizer *o, void *state) {
    thorough *t = state;
    hd_set_grad(t->p, hd_mul_scalar(hd_grad(t->p), 0.5));
    hd_zero_grad(t->given);
    hd_add_(hd_grad(t->zeroed), hd_ones(HD_SHAPE(3), HD_F32));
    hd_optimizer_set_learning_rate(o, 7);
    t->made = hd_retain(hd_copy(t->p));
    t->filled = hd_retain(hd_full(HD_SHAPE(3), HD_F32, 9));
    hd_set_grad(t->filled, t->filled);
    hd_rand(HD_SHAPE(2), HD_F32);
    hd_generator *before = hd_generator_use(t->generator);
    hd_rand(HD_SHAPE(2), HD_F32);
    hd_seed(3);
    hd_rand(HD_SHAPE(2), HD_F32);
    hd_generator_use(before);
    hd_script_run(t->script);
}
static void thorough_update(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)state;
    hd_add_(slot[0], g);
    hd_sub_(p, slot[0]);
    hd_matmul(p, NULL);
}

static hd_script *counting_script(hd_tensor *counter) {
    hd_builder *b = hd_builder_new("counts");
    hd_builder_start(b);
    hd_builder_add_state(b, "counter", counter);
    hd_add_(counter, hd_bernoulli(HD_SHAPE(3), HD_F32, 1));
    hd_builder_add_output(b, "y", hd_mul_scalar(counter, 1));
    hd_builder_end(b);
    return hd_builder_build(b);
}

static void what_was_there_before_a_step_that_failed_is_as_it_was(void **state) {
    (void)state;
    static const hd_optimizer_class class_ = {
        .name = "thorough", .slots = 1, .begin = thorough_begin, .update = thorough_update};
    for (int lent = 0; lent < 2; ++lent) {
        HD_SCOPE;
        float memory[3] = {4, 4, 4};
        hd_tensor *counter =
            lent ? hd_from_blob(memory, HD_SHAPE(3), HD_F32, NULL, NULL) : hd_full(HD_SHAPE(3), HD_F32, 4);
        thorough t = {.p = hd_param(hd_ones(HD_SHAPE(3), HD_F32)),
                      .zeroed = hd_param(hd_ones(HD_SHAPE(3), HD_F32)),
                      .given = hd_param(hd_ones(HD_SHAPE(3), HD_F32)),
                      .generator = hd_generator_new(5),
                      .script = counting_script(counter)};
        hd_optimizer *o = hd_optimizer_new(&class_, &t, HD_TENSORS(t.p, t.zeroed, t.given), 0.25);
        for (int i = 0; i < 3; ++i) {
            hd_seed(11);
            hd_zero_grad(t.zeroed);
            hd_set_grad(t.given, hd_full(HD_SHAPE(3), HD_F32, 6));
            hd_set_grad(t.p, hd_full(HD_SHAPE(3), HD_F32, 2));
            const hd_tensor *gradient = hd_grad(t.p);
            hd_optimizer_step(o);
            assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
            assert_values(t.p, HD_F32, 1, 1, 1);
            assert_ptr_equal(hd_grad(t.p), gradient);
            assert_values(gradient, HD_F32, 2, 2, 2);
            assert_values(hd_grad(t.zeroed), HD_F32, 0, 0, 0);
            assert_values(hd_grad(t.given), HD_F32, 6, 6, 6);
            assert_values(counter, HD_F32, 4, 4, 4);
            assert_values(hd_optimizer_learning_rate(o), HD_F64, 0.25);
            assert_values(hd_optimizer_steps(o), HD_F64, 0);
            assert_int_equal(hd_generator_draw(NULL), 0);
            assert_int_equal(hd_generator_seed(NULL), 11);
            assert_int_equal(hd_generator_draw(t.generator), 0);
            assert_int_equal(hd_generator_seed(t.generator), 5);
            assert_values(t.made, HD_F32, 1, 1, 1); /* what it made has what it wrote */
            assert_values(t.filled, HD_F32, 9, 9, 9);
            assert_values(hd_grad(t.filled), HD_F32, 9, 9, 9);
            hd_release(t.made);
            hd_release(t.filled);
        }
        hd_script_run(t.script); /* and what it ran can go on */
        assert_values(counter, HD_F32, 5, 5, 5);
    }
}

typedef struct fails_first {
    int calls;
    bool in_place;
} fails_first;
static void fail_first(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    fails_first *s = state;
    (void)o;
    if (s->in_place)
        hd_add_(slot[0], g);
    else
        hd_assign(slot[0], hd_add(slot[0], g));
    hd_sub_(p, slot[0]);
    if (++s->calls == 2) hd_matmul(p, NULL);
}

static void moments_of_a_first_step_that_failed_are_zeros(void **state) {
    (void)state;
    static const hd_optimizer_class class_ = {.name = "fails first", .slots = 1, .update = fail_first};
    for (int in_place = 0; in_place < 2; ++in_place) {
        HD_SCOPE;
        fails_first s = {.in_place = in_place};
        hd_tensor *p = hd_param(hd_full(HD_SHAPE(2), HD_F32, 3)), *q = hd_param(hd_full(HD_SHAPE(2), HD_F32, 4));
        hd_set_grad(p, hd_ones(HD_SHAPE(2), HD_F32));
        hd_set_grad(q, hd_ones(HD_SHAPE(2), HD_F32));
        hd_optimizer *o = hd_optimizer_new(&class_, &s, HD_TENSORS(p, q), 1);
        hd_optimizer_step(o);
        assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
        assert_values(p, HD_F32, 3, 3);
        hd_optimizer_step(o);
        assert_values(p, HD_F32, 2, 2);
        assert_values(q, HD_F32, 3, 3);
        hd_optimizer_step(o);
        assert_values(p, HD_F32, 0, 0);
    }
}

static void draws_and_steps(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)slot, (void)p, (void)g;
    hd_rand(HD_SHAPE(1), HD_F32);
    if (state == NULL) {
        hd_matmul(p, NULL);
    } else {
        HD_QUIET;
        hd_optimizer_step(state);
        hd_error_clear();
        hd_rand(HD_SHAPE(1), HD_F32);
    }
}

static void steps_and_fails(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    draws_and_steps(o, state, p, g, slot);
    hd_matmul(p, NULL);
}

static void a_step_inside_a_step_gives_its_own_draws_back(void **state) {
    (void)state;
    static const hd_optimizer_class class_ = {.name = "draws", .update = draws_and_steps};
    HD_SCOPE;
    hd_generator *g = hd_generator_new(1);
    hd_generator_use(g);
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(1), HD_F32));
    hd_set_grad(p, p);
    hd_optimizer *inner = hd_optimizer_new(&class_, NULL, HD_TENSORS(p), 1);
    hd_optimizer_step(hd_optimizer_new(&class_, inner, HD_TENSORS(p), 1));
    assert_ok();
    assert_int_equal(hd_generator_draw(g), 2);
    static const hd_optimizer_class second = {.name = "second", .update = steps_and_fails};
    hd_optimizer_step(hd_optimizer_new(&second, inner, HD_TENSORS(p), 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    assert_int_equal(hd_generator_draw(g), 2);
    hd_generator_use(NULL);
}

static void steps_again(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)slot;
    hd_sub_(p, g);
    hd_optimizer_step(state != NULL ? state : o);
}

static void an_update_may_step_another_optimizer_but_not_its_own(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class again = {.name = "again", .update = steps_again};
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2)), *q = hd_param(hd_full(HD_SHAPE(1), HD_F32, 3));
    hd_set_grad(p, hd_ones(HD_SHAPE(1), HD_F32));
    hd_set_grad(q, hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer_step(hd_optimizer_new(&again, NULL, HD_TENSORS(p), 0.1));
    assert_error(HD_ERROR_STATE, "the optimizer \"again\" is in use by a call on this thread");
    assert_values(p, HD_F32, 2);
    hd_optimizer *inner = hd_sgd(HD_TENSORS(q), 1, NULL);
    hd_optimizer_step(hd_optimizer_new(&again, inner, HD_TENSORS(p), 0.1));
    assert_values(p, HD_F32, 1);
    assert_values(q, HD_F32, 2);
    int calls = 1; /* the outer one fails after the inner one went well: both are taken back */
    static const hd_optimizer_class second = {.name = "second", .update = fails_at_second};
    hd_optimizer *failing = hd_optimizer_new(&second, &calls, HD_TENSORS(q), 1);
    hd_optimizer_step(hd_optimizer_new(&again, failing, HD_TENSORS(p), 0.1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    assert_values(p, HD_F32, 1);
    assert_values(q, HD_F32, 2);
}

static void releases(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)slot;
    if ((*(int *)state)++ == 0) hd_release(o);
    hd_sub_(p, g);
}

static void an_update_may_release_its_optimizer(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class releasing = {.name = "releasing", .slots = 2, .update = releases};
    int calls = 0;
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2)), *q = hd_param(hd_full(HD_SHAPE(1), HD_F32, 3));
    hd_set_grad(p, hd_ones(HD_SHAPE(1), HD_F32));
    hd_set_grad(q, hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer *o = hd_optimizer_new(&releasing, &calls, HD_TENSORS(p, q), 0.1);
    hd_optimizer_step(o);
    assert_values(p, HD_F32, 1);
    assert_values(q, HD_F32, 2);
    hd_optimizer_step(o);
    assert_error(HD_ERROR_RELEASED, "no living optimizer");
}

static void begins_with_a_rate(hd_optimizer *o, void *state) {
    (void)state;
    hd_optimizer_set_learning_rate(o, 0.25);
}
static void goes_down(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)state, (void)slot;
    hd_sub_(p, hd_mul(g, hd_cast(hd_optimizer_learning_rate(o), HD_F32)));
}
static void a_schedule_may_set_the_rate_when_a_step_begins(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class scheduled = {.name = "own", .begin = begins_with_a_rate, .update = goes_down};
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2));
    hd_set_grad(p, hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer_step(hd_optimizer_new(&scheduled, NULL, HD_TENSORS(p), 1));
    assert_values(p, HD_F32, 1.75);
}

static pthread_barrier_t inside, done;
static void waits(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)state, (void)p, (void)g, (void)slot;
    pthread_barrier_wait(&inside);
    pthread_barrier_wait(&done);
}
static void *steps_there(void *o) {
    HD_SCOPE;
    hd_optimizer_step(o);
    return hd_ok() ? NULL : (void *)1;
}

static void two_threads_do_not_step_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_optimizer_class waiting = {.name = "waiting", .update = waits};
    hd_tensor *p = hd_param(hd_full(HD_SHAPE(1), HD_F32, 2));
    hd_set_grad(p, hd_ones(HD_SHAPE(1), HD_F32));
    hd_optimizer *o = hd_optimizer_new(&waiting, NULL, HD_TENSORS(p), 1);
    pthread_t id;
    void *failed;
    pthread_barrier_init(&inside, NULL, 2);
    pthread_barrier_init(&done, NULL, 2);
    assert_int_equal(pthread_create(&id, NULL, steps_there, o), 0);
    pthread_barrier_wait(&inside);
    hd_optimizer_step(o);
    assert_error(HD_ERROR_STATE, "hd_optimizer_step: the optimizer \"waiting\" is in use by another thread");
    hd_optimizer_zero_grad(o);
    assert_error(HD_ERROR_STATE, "step on one thread");
    hd_optimizer_set_learning_rate(o, 1);
    assert_error(HD_ERROR_STATE, "hd_optimizer_set_learning_rate");
    pthread_barrier_wait(&done);
    pthread_join(id, &failed);
    assert_null(failed);
    assert_values(hd_optimizer_steps(o), HD_F64, 1);
    pthread_barrier_destroy(&inside);
    pthread_barrier_destroy(&done);
}

RUN(test(a_step_that_fails_changes_nothing), test(a_tape_is_still_good_after_a_step_that_failed),
    test(a_recorded_step_that_fails_is_as_if_it_had_not_been),
    test(an_update_may_step_another_optimizer_but_not_its_own), test(an_update_may_release_its_optimizer),
    test(a_schedule_may_set_the_rate_when_a_step_begins), test(two_threads_do_not_step_at_once),
    test(sgd_agrees_with_pytorch), test(adam_agrees_with_pytorch), test(adam_has_its_usual_defaults),
    test(parameters_without_a_gradient_are_left_alone), test(zero_grad_zeroes_all_and_clears_the_tape),
    test(a_step_is_on_no_tape), test(while_an_error_is_pending_a_step_updates_nothing),
    test(the_learning_rate_is_a_tensor_of_the_optimizers), test(parameters_keep_their_dtype_and_memory),
    test(an_optimizer_holds_its_parameters), test(an_optimizer_that_is_gone_is_an_error),
    test(two_optimizers_share_a_model), test(an_own_optimizer_has_slots_and_a_state),
    test(slots_are_optional_and_belong_to_their_parameter), test(an_update_that_fails_ends_the_step),
    test(a_parameter_that_was_frozen_since_follows_no_old_gradient),
    test(a_step_of_frozen_parameters_alone_does_not_count), test(what_was_there_before_a_step_that_failed_is_as_it_was),
    test(moments_of_a_first_step_that_failed_are_zeros), test(a_step_inside_a_step_gives_its_own_draws_back),
    test(looking_at_a_gradient_changes_no_step), test(a_step_without_gradients_is_said_and_does_not_count),
    test(frozen_parameters_are_passed_over), test(a_generator_whose_history_was_cleared_is_said))
