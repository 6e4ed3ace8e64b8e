/* Groups of parameters with a learning rate and a weight decay of their own, and what an optimizer keeps, by name. */
#include "builders.h"
#include "each_allocation.h"
#include "optim/golden.h"

/* ---- groups ------------------------------------------------------------------------------------------------------ */
static double or_zero(double v) { return v == 0 ? HD_ZERO : v; }
static hd_optimizer *make_grouped(const lesson *l, const double *o) {
    hd_optimizer *optimizer =
        o[0] != 0 ? hd_adamw(HD_TENSORS(l->w), o[1], HD_OPTS(hd_adam_opts, .weight_decay = or_zero(o[2])))
                  : hd_sgd(HD_TENSORS(l->w), o[1], HD_OPTS(hd_sgd_opts, .momentum = 0.9, .weight_decay = o[2]));
    const int64_t group =
        hd_optimizer_add_group(optimizer, HD_TENSORS(l->b),
                               HD_OPTS(hd_group_opts, .learning_rate = or_zero(o[3]), .weight_decay = or_zero(o[4])));
    assert_int_equal(group, 1);
    return optimizer;
}
static void check_groups(const golden *line) {
    lesson_compare(make_grouped, line, HD_F64, 1e-12);
    lesson_compare(make_grouped, line, HD_F32, 1e-5);
}
static void groups_agree_with_pytorch(void **state) {
    (void)state;
    golden_lines("groups", 4, check_groups);
}

static void a_group_has_the_optimizers_options_by_default(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(a), 0.5, HD_OPTS(hd_sgd_opts, .weight_decay = 0.5));
    assert_int_equal(hd_optimizer_groups(o), 1);
    hd_optimizer_set_learning_rate(o, 0.25); /* of the first group, and not what it was made with */
    assert_int_equal(hd_optimizer_add_group(o, HD_TENSORS(b), NULL), 1);
    assert_int_equal(hd_optimizer_groups(o), 2);
    assert_values(hd_optimizer_group_learning_rate(o, 0), HD_F64, 0.25);
    assert_values(hd_optimizer_group_learning_rate(o, 1), HD_F64, 0.5);
    hd_set_grad(a, hd_ones(HD_SHAPE(2), HD_F32));
    hd_set_grad(b, hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer_step(o);
    assert_values(a, HD_F32, 1 - 0.25 * 1.5, 1 - 0.25 * 1.5);
    assert_values(b, HD_F32, 1 - 0.5 * 1.5, 1 - 0.5 * 1.5);
    hd_optimizer_set_group_learning_rate(o, 1, 0);
    hd_optimizer_step(o);
    assert_values(b, HD_F32, 0.25, 0.25);
    assert_int_equal(hd_tensors_count(hd_optimizer_parameters(o)), 2);
    hd_optimizer_zero_grad(o); /* of all */
    assert_values(hd_grad(b), HD_F32, 0, 0);
}

/* What an update of one's own sees of the group. */
static void by_group(hd_optimizer *o, void *state, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)state, (void)g, (void)slot;
    hd_assign(p, hd_mul_scalar(hd_optimizer_learning_rate(o), 1 + hd_optimizer_weight_decay(o)));
}
static void an_update_of_ones_own_sees_the_group(void **state) {
    (void)state;
    static const hd_optimizer_class own = {.name = "own", .update = by_group};
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(), HD_F32));
    hd_optimizer *o = hd_optimizer_new(&own, NULL, HD_TENSORS(a), 0.5);
    hd_optimizer_add_group(o, HD_TENSORS(b), HD_OPTS(hd_group_opts, .learning_rate = 2, .weight_decay = 1));
    hd_set_grad(a, a);
    hd_set_grad(b, b);
    hd_optimizer_step(o);
    assert_values(a, HD_F32, 0.5);
    assert_values(b, HD_F32, 4);
    assert_values(hd_optimizer_learning_rate(o), HD_F64, 0.5); /* outside of updates: the first group's */
    assert_true(hd_optimizer_weight_decay(o) == 0);
}

static void groups_that_make_no_sense_are_refused(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(a), 0.5, NULL);
    assert_int_equal(hd_optimizer_add_group(NULL, HD_TENSORS(b), NULL), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_optimizer_add_group: `optimizer` is NULL");
    assert_int_equal(hd_optimizer_add_group(o, NULL, NULL), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`parameters` is NULL");
    assert_int_equal(hd_optimizer_add_group(o, HD_TENSORS(b, a), NULL), -1);
    assert_error(HD_ERROR_VALUE, "parameter 1 is one of the optimizer's already");
    assert_int_equal(hd_optimizer_add_group(o, HD_TENSORS(b), HD_OPTS(hd_group_opts, .learning_rate = -1)), -1);
    assert_error(HD_ERROR_VALUE, "a learning rate of -1");
    assert_int_equal(hd_optimizer_add_group(o, HD_TENSORS(b), HD_OPTS(hd_group_opts, .weight_decay = -1)), -1);
    assert_error(HD_ERROR_VALUE, "a weight_decay of -1");
    assert_int_equal(hd_optimizer_groups(o), 1);
    assert_int_equal(hd_tensors_count(hd_optimizer_parameters(o)), 1);
    assert_null(hd_optimizer_group_learning_rate(o, 1));
    assert_error(HD_ERROR_INDEX, "group 1 of an optimizer with 1");
    hd_optimizer_set_group_learning_rate(o, -1, 1);
    assert_error(HD_ERROR_INDEX, "group -1");
    hd_optimizer_set_group_learning_rate(o, 0, -1);
    assert_error(HD_ERROR_VALUE, "a learning rate of -1");
    assert_int_equal(hd_optimizer_groups(NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_optimizer_groups");
    assert_true(hd_optimizer_weight_decay(NULL) != 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_optimizer_weight_decay");
}

static void the_rates_of_groups_are_state_of_scripts(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(), HD_F32));
    hd_optimizer *o = hd_sgd(HD_TENSORS(a), 0.5, NULL);
    hd_optimizer_add_group(o, HD_TENSORS(b), HD_OPTS(hd_group_opts, .learning_rate = 0.25));
    hd_builder *builder = started("step");
    hd_builder_add_state(builder, "a", a);
    hd_builder_add_state(builder, "b", b);
    hd_builder_add_state_of(builder, NULL, o);
    hd_set_grad(a, hd_ones(HD_SHAPE(), HD_F32));
    hd_set_grad(b, hd_ones(HD_SHAPE(), HD_F32));
    hd_optimizer_step(o);
    hd_script *s = built(builder);
    hd_script_run(s);
    assert_values(a, HD_F32, 0.5);
    assert_values(b, HD_F32, 0.75);
    assert_values(hd_script_state(s, "optimizer.learning_rate.1"), HD_F64, 0.25);
    hd_optimizer_set_group_learning_rate(o, 1, 0.5); /* the next run sees it */
    hd_script_run(s);
    assert_values(a, HD_F32, 0);
    assert_values(b, HD_F32, 0.25);
}

/* ---- state by name ----------------------------------------------------------------------------------------------- */
static void state_is_listed_by_name(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(), HD_F64));
    hd_optimizer *o = hd_adam(HD_TENSORS(a), 0.5, NULL);
    hd_optimizer_add_group(o, HD_TENSORS(b), NULL);
    static const char *const names[] = {"learning_rate", "learning_rate.1", "steps", "m.0", "v.0", "m.1", "v.1"};
    hd_tensors *list = hd_optimizer_state(o);
    assert_int_equal(hd_tensors_count(list), 7);
    for (int i = 0; i < 7; ++i) assert_string_equal(hd_optimizer_state_name(o, i), names[i]);
    assert_values(hd_tensors_get(list, 3), HD_F32, 0, 0);
    assert_ptr_equal(hd_tensors_get(list, 2), hd_optimizer_steps(o));
    hd_set_grad(a, hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer_step(o);
    assert_close(hd_tensors_get(list, 3), hd_full(HD_SHAPE(2), HD_F32, 0.1), 1e-6, HD_ZERO); /* its own tensors */
    static const hd_optimizer_class own = {.name = "own", .slots = 2, .update = by_group};
    assert_string_equal(hd_optimizer_state_name(hd_optimizer_new(&own, NULL, HD_TENSORS(a), 1), 3), "slot1.0");
}

static void an_optimizer_goes_on_from_state_that_was_kept(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(HD_TENSOR_F32(HD_SHAPE(2), 1, 2)), *q = NULL;
    hd_optimizer *first = hd_rmsprop(HD_TENSORS(p), 0.1, HD_OPTS(hd_rmsprop_opts, .momentum = 0.9)), *second = NULL;
    for (int step = 0; step < 6; ++step) {
        if (step == 3) {
            q = hd_param(hd_copy(hd_detach(p)));
            second = hd_rmsprop(HD_TENSORS(q), 7, HD_OPTS(hd_rmsprop_opts, .momentum = 0.9));
            hd_tensors *kept = hd_optimizer_state(first);
            for (int64_t i = 0; i < hd_tensors_count(kept); ++i)
                hd_optimizer_set_state(second, hd_optimizer_state_name(first, i), hd_tensors_get(kept, i));
            assert_ok();
        }
        hd_set_grad(p, HD_TENSOR_F32(HD_SHAPE(2), step, 3 - step));
        hd_optimizer_step(first);
        if (q == NULL) continue;
        hd_set_grad(q, HD_TENSOR_F32(HD_SHAPE(2), step, 3 - step));
        hd_optimizer_step(second);
    }
    assert_same(p, q);
    assert_values(hd_optimizer_steps(second), HD_F64, 6);
}

static void state_that_is_not_there_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_adam(HD_TENSORS(p), 0.5, NULL);
    assert_null(hd_optimizer_state(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_optimizer_state: `optimizer` is NULL");
    assert_null(hd_optimizer_state_name(o, 4));
    assert_error(HD_ERROR_INDEX, "hd_optimizer_state_name: index 4 of 4");
    assert_null(hd_optimizer_state_name(o, -1));
    assert_error(HD_ERROR_INDEX, "index -1");
    assert_null(hd_optimizer_state_name(NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_optimizer_state_name: `optimizer` is NULL");
    hd_optimizer_set_state(o, "m.1", p);
    assert_error(HD_ERROR_VALUE, "hd_optimizer_set_state: there is no state \"m.1\"");
    hd_optimizer_set_state(o, NULL, p);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
    hd_optimizer_set_state(o, "m.0", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`value` is NULL");
    hd_optimizer_set_state(o, "m.0", hd_ones(HD_SHAPE(), HD_F32));
    assert_error(HD_ERROR_SHAPE, "\"m.0\" is [2], and the value []");
    hd_optimizer_set_state(NULL, "m.0", p);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`optimizer` is NULL");
}

/* ---- accumulation ------------------------------------------------------------------------------------------------ */
/* Gradients add up until zero_grad: two halves of a batch, each with half of the mean, are the whole. */
static void gradients_of_parts_make_a_step(void **state) {
    (void)state;
    HD_SCOPE;
    lesson whole = lesson_begin(HD_F64), parts = lesson_begin(HD_F64);
    hd_optimizer *a = hd_adam(HD_TENSORS(whole.w, whole.b), 0.1, NULL),
                 *b = hd_adam(HD_TENSORS(parts.w, parts.b), 0.1, NULL);
    for (int step = 0; step < 5; ++step) {
        hd_optimizer_zero_grad(a);
        hd_backward(lesson_loss(&whole));
        hd_optimizer_step(a);
        hd_optimizer_zero_grad(b);
        for (int half = 0; half < 2; ++half) {
            lesson l = parts;
            l.x = hd_narrow(parts.x, 0, 3 * half, 3), l.target = hd_narrow(parts.target, 0, 3 * half, 3);
            hd_backward(hd_div_scalar(lesson_loss(&l), 2));
        }
        hd_optimizer_step(b);
        assert_ok();
    }
    assert_close(parts.w, whole.w, 1e-9, 1e-9);
    assert_close(parts.b, whole.b, 1e-9, 1e-9);
    hd_clear_tape();
}

static void in_groups(void) {
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer *o = hd_adam(HD_TENSORS(a), 0.5, NULL);
    hd_optimizer_add_group(o, HD_TENSORS(b), NULL);
    hd_set_grad(b, hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer_step(o);
    hd_optimizer_set_state(o, "m.0", hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer_state(o);
}
static void memory_may_end_anywhere(void **state) {
    (void)state;
    each_allocation_fails(in_groups, 1000);
}

RUN(test(groups_agree_with_pytorch), test(a_group_has_the_optimizers_options_by_default),
    test(an_update_of_ones_own_sees_the_group), test(groups_that_make_no_sense_are_refused),
    test(the_rates_of_groups_are_state_of_scripts), test(state_is_listed_by_name),
    test(an_optimizer_goes_on_from_state_that_was_kept), test(state_that_is_not_there_is_an_error),
    test(gradients_of_parts_make_a_step), test(memory_may_end_anywhere))
