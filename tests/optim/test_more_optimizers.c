/* AdamW, RMSprop, Adagrad and Lion against PyTorch and the text of a paper (tests/golden/make_optim.py), what their
 * options refuse, and that recorded steps are those that run at once. */
#include "builders.h"
#include "each_allocation.h"
#include "optim/golden.h"

static double or_zero(double v) { return v == 0 ? HD_ZERO : v; }

static hd_optimizer *make_adams(const lesson *l, const double *o) {
    hd_adam_opts opts = HD_DEFAULTS(hd_adam_opts);
    opts.beta1 = or_zero(o[1]), opts.beta2 = or_zero(o[2]), opts.epsilon = o[3], opts.weight_decay = or_zero(o[4]);
    opts.amsgrad = o[6] != 0, opts.maximize = o[7] != 0;
    return (o[5] != 0 ? hd_adamw : hd_adam)(HD_TENSORS(l->w, l->b), o[0], &opts);
}
static hd_optimizer *make_rmsprop(const lesson *l, const double *o) {
    return hd_rmsprop(HD_TENSORS(l->w, l->b), o[0],
                      HD_OPTS(hd_rmsprop_opts, .alpha = o[1], .epsilon = o[2], .weight_decay = o[3], .momentum = o[4],
                              .centered = o[5] != 0));
}
static hd_optimizer *make_adagrad(const lesson *l, const double *o) {
    return hd_adagrad(
        HD_TENSORS(l->w, l->b), o[0],
        HD_OPTS(hd_adagrad_opts, .rate_decay = o[1], .weight_decay = o[2], .initial_sum = o[3], .epsilon = o[4]));
}
static hd_optimizer *make_lion(const lesson *l, const double *o) {
    return hd_lion(HD_TENSORS(l->w, l->b), o[0],
                   HD_OPTS(hd_lion_opts, .beta1 = or_zero(o[1]), .beta2 = or_zero(o[2]), .weight_decay = o[3]));
}

#define AGREES(name, lines, tolerance)                                                                                 \
    static void check_##name(const golden *line) {                                                                     \
        lesson_compare(make_##name, line, HD_F64, 1e-10);                                                              \
        lesson_compare(make_##name, line, HD_F32, tolerance);                                                          \
    }                                                                                                                  \
    static void name##_agrees(void **state) {                                                                          \
        (void)state;                                                                                                   \
        golden_lines(#name, lines, check_##name);                                                                      \
    }
AGREES(adams, 6, 1e-5)
AGREES(rmsprop, 5, 1e-4) /* f32 loses digits where the mean is taken off the mean square */
AGREES(adagrad, 3, 1e-5)
AGREES(lion, 3, 1e-5)

/* ---- defaults ---------------------------------------------------------------------------------------------------- */
static hd_optimizer *make_one(int which, hd_tensors *p, bool written) {
    switch (which) {
    case 0:
        return hd_adamw(p, 0.1,
                        written
                            ? HD_OPTS(hd_adam_opts, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01)
                            : NULL);
    case 1: return hd_rmsprop(p, 0.1, written ? HD_OPTS(hd_rmsprop_opts, .alpha = 0.99, .epsilon = 1e-8) : NULL);
    case 2: return hd_adagrad(p, 0.1, written ? HD_OPTS(hd_adagrad_opts, .epsilon = 1e-10) : NULL);
    case 3: return hd_lion(p, 0.1, written ? HD_OPTS(hd_lion_opts, .beta1 = 0.9, .beta2 = 0.99) : NULL);
    default: return hd_rmsprop(p, 0.1, HD_OPTS(hd_rmsprop_opts, .momentum = 0.5, .centered = true));
    }
}
enum { KINDS = 5 };

static void defaults_are_the_usual_ones(void **state) {
    (void)state;
    HD_SCOPE;
    for (int which = 0; which < KINDS - 1; ++which) {
        hd_tensor *p[2];
        for (int i = 0; i < 2; ++i) {
            p[i] = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, -2));
            hd_optimizer *o = make_one(which, HD_TENSORS(p[i]), i == 1);
            for (int k = 0; k < 5; ++k) {
                hd_set_grad(p[i], HD_TENSOR_F32(HD_SHAPE(2), k, 1 - k));
                hd_optimizer_step(o);
            }
        }
        assert_same(p[0], p[1]);
        assert_false(hd_allclose(p[0], HD_TENSOR_F32(HD_SHAPE(2), 1, -2), NULL));
    }
}

static void options_that_make_no_sense_are_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensors *p = HD_TENSORS(hd_param(hd_ones(HD_SHAPE(2), HD_F32)));
#define REFUSED(call, text)                                                                                            \
    assert_null(call);                                                                                                 \
    assert_error(HD_ERROR_VALUE, text)
    REFUSED(hd_adamw(p, 1, HD_OPTS(hd_adam_opts, .beta1 = 1)), "hd_adamw: beta1 1");
    REFUSED(hd_adamw(p, 1, HD_OPTS(hd_adam_opts, .weight_decay = -1)), "weight_decay -1");
    REFUSED(hd_adamw(p, -1, NULL), "hd_adamw: a learning rate of -1");
    REFUSED(hd_rmsprop(p, 1, HD_OPTS(hd_rmsprop_opts, .alpha = 1)), "hd_rmsprop: alpha 1");
    REFUSED(hd_rmsprop(p, 1, HD_OPTS(hd_rmsprop_opts, .epsilon = -1)), "epsilon -1");
    REFUSED(hd_rmsprop(p, 1, HD_OPTS(hd_rmsprop_opts, .momentum = -1)), "momentum -1");
    REFUSED(hd_adagrad(p, 1, HD_OPTS(hd_adagrad_opts, .rate_decay = -1)), "hd_adagrad: rate_decay -1");
    REFUSED(hd_adagrad(p, 1, HD_OPTS(hd_adagrad_opts, .initial_sum = -1)), "initial_sum -1");
    REFUSED(hd_lion(p, 1, HD_OPTS(hd_lion_opts, .beta2 = 1.5)), "hd_lion: beta1 0.9, beta2 1.5");
    REFUSED(hd_lion(p, 1, HD_OPTS(hd_lion_opts, .weight_decay = -1)), "weight_decay -1");
    assert_null(hd_adamw(NULL, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_adamw: `parameters` is NULL");
    assert_null(hd_rmsprop(NULL, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_rmsprop: `parameters` is NULL");
    assert_null(hd_adagrad(NULL, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_adagrad: `parameters` is NULL");
    assert_null(hd_lion(NULL, 1, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_lion: `parameters` is NULL");
}

/* ---- recorded, in small floats, without memory ------------------------------------------------------------------- */
static void recorded_steps_are_those_at_once(void **state) {
    (void)state;
    for (int which = 0; which < KINDS; ++which) {
        HD_SCOPE;
        lesson l[2];
        hd_optimizer *o[2];
        for (int i = 0; i < 2; ++i) {
            l[i] = lesson_begin(HD_F64);
            o[i] = make_one(which, HD_TENSORS(l[i].w, l[i].b), false);
        }
        hd_builder *b = started("step");
        hd_builder_add_state(b, "w", l[1].w);
        hd_builder_add_state(b, "b", l[1].b);
        hd_builder_add_state_of(b, NULL, o[1]);
        hd_optimizer_zero_grad(o[1]);
        hd_backward(lesson_loss(&l[1]));
        hd_optimizer_step(o[1]);
        hd_script *s = built(b);
        for (int step = 0; step < 5; ++step) {
            hd_optimizer_zero_grad(o[0]);
            hd_backward(lesson_loss(&l[0]));
            hd_optimizer_step(o[0]);
            hd_script_run(s);
            assert_ok();
        }
        assert_close(l[1].w, l[0].w, 1e-12, 1e-12);
        assert_close(l[1].b, l[0].b, 1e-12, 1e-12);
        assert_values(hd_optimizer_steps(o[1]), HD_F64, 5);
    }
}

static void small_floats_are_updated_in_f32(void **state) {
    (void)state;
    for (int which = 0; which < KINDS; ++which) {
        HD_SCOPE;
        hd_tensor *p[2];
        for (int i = 0; i < 2; ++i) {
            p[i] = hd_param(hd_full(HD_SHAPE(3), i == 0 ? HD_F32 : HD_BF16, 2));
            hd_optimizer *o = make_one(which, HD_TENSORS(p[i]), false);
            for (int k = 1; k < 4; ++k) {
                hd_set_grad(p[i], hd_full(HD_SHAPE(3), (hd_dtype)hd_tensor_dtype(p[i]), k));
                hd_optimizer_step(o);
            }
            assert_true(hd_tensor_dtype(hd_tensors_get(hd_optimizer_state(o), 2)) == HD_F32);
        }
        assert_close(p[1], p[0], 0.02, HD_ZERO);
    }
}

static void trains(void) {
    for (int which = 0; which < KINDS; ++which) {
        hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
        hd_optimizer *o = make_one(which, HD_TENSORS(p), false);
        hd_set_grad(p, hd_ones(HD_SHAPE(2), HD_F32));
        hd_optimizer_step(o);
    }
}
static void memory_may_end_anywhere(void **state) {
    (void)state;
    each_allocation_fails(trains, 2000);
}

RUN(test(adams_agrees), test(rmsprop_agrees), test(adagrad_agrees), test(lion_agrees),
    test(defaults_are_the_usual_ones), test(options_that_make_no_sense_are_refused),
    test(recorded_steps_are_those_at_once), test(small_floats_are_updated_in_f32), test(memory_may_end_anywhere))
