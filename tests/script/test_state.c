/* What tensors from outside mean to a script: constants are snapshots, bound tensors are read live, state is read and
 * stored; for every view of their memory, with code that runs at once in between. */
#include "graph/calls.h"
#include "printed.h"

/* ---- constants --------------------------------------------------------------------------------------------------- */
static void constants_are_snapshots(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *k = HD_TENSOR_F32(S(2), 1, 2), *one = hd_scalar(10, HD_F32),
              *view = hd_t(HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4));
    hd_builder *b = started("constants");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "y", hd_add(hd_mul(x, k), one));
    hd_builder_add_output(b, "z", hd_mul(x, view));
    {
        HD_EAGER;
        hd_fill(k, -1); /* after its first use: too late */
    }
    hd_builder_add_output(b, "again", hd_mul(x, k));
    hd_script *s = built(b);
    hd_fill(k, 50);
    hd_fill(one, 50);
    hd_fill(view, 50);
    ((float *)hd_data_mut(k, HD_F32))[0] = 51;
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_outputs *o = hd_script_run(s);
        assert_values(hd_outputs_get(o, "y"), HD_F32, 11, 12);
        assert_values(hd_outputs_get(o, "again"), HD_F32, 1, 2);
        assert_values(hd_outputs_get(o, "z"), HD_F32, 1, 3, 2, 4);
        hd_fill(k, level); /* in between */
    }
    assert_values(view, HD_F32, 50, 50, 50, 50); /* nor does the script change them */
}

/* Also a number: its value at its first use is the one. */
static void a_number_is_a_snapshot_too(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *number;
    {
        HD_SCOPE;
        number = hd_retain(hd_scalar(1, HD_F32)); /* held by nothing but this reference */
    }
    hd_builder *b = started("number");
    hd_tensor *x = hd_input("x", S(), HD_F32);
    hd_builder_add_output(b, "first", hd_mul(x, number));
    {
        HD_EAGER;
        hd_fill(number, 5);
    }
    hd_builder_add_output(b, "second", hd_mul(x, number));
    hd_script *s = built(b);
    hd_release(number);
    hd_script_set_input(s, "x", hd_scalar(1, HD_F32));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "first"), HD_F32, 1);
    assert_values(hd_outputs_get(o, "second"), HD_F32, 1);
}

static void a_number_that_was_used_is_known(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *number;
    {
        HD_SCOPE;
        number = hd_retain(hd_scalar(3, HD_F32));
    }
    hd_builder *b = started("number");
    hd_mul(hd_input("x", S(), HD_F32), number);
    hd_builder_add_state(b, "n", number); /* after its first use, as with any other tensor */
    const bool refused = hd_error_code() == HD_ERROR_STATE;
    hd_error_clear();
    hd_builder_add_output(b, "n", number);
    const bool known = hd_ok();
    hd_error_clear();
    hd_builder_end(b);
    hd_release(number);
    assert_true(refused);
    assert_true(known);
}

static void constants_written_inside_are_as_they_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *k = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4), *row = hd_select(k, 0, 1);
    hd_builder *b = started("written");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "before", hd_add(row, x));
    hd_add_(row, x);
    hd_builder_add_output(b, "after", k);
    hd_fill(hd_select(k, 1, 0), 0);
    hd_builder_add_output(b, "last", row);
    hd_script *s = built(b);
    assert_values(k, HD_F32, 1, 2, 3, 4);
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 10, 20));
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        for (int i = 0; i < 2; ++i) { /* each run begins with the constant */
            hd_outputs *o = hd_script_run(s);
            assert_values(hd_outputs_get(o, "before"), HD_F32, 13, 24);
            assert_values(hd_outputs_get(o, "after"), HD_F32, 1, 2, 13, 24);
            assert_values(hd_outputs_get(o, "last"), HD_F32, 0, 24);
        }
    }
    assert_values(k, HD_F32, 1, 2, 3, 4);
}

static void borrowed_constants_are_copied(void **state) {
    (void)state;
    HD_SCOPE;
    float memory[2] = {1, 2};
    hd_tensor *k = hd_from_blob(memory, S(2), HD_F32, NULL, NULL);
    hd_builder *b = started("borrowed");
    hd_builder_add_output(b, "y", hd_add(hd_input("x", S(2), HD_F32), k));
    hd_script *s = built(b);
    memory[0] = 100; /* behind everybody's back */
    hd_script_set_input(s, "x", hd_zeros(S(2), HD_F32));
    assert_values(output(s, "y"), HD_F32, 1, 2);
}

/* ---- bound ------------------------------------------------------------------------------------------------------- */
static void bound_tensors_are_read_live(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4), *turned = hd_t(w), *row = hd_select(w, 0, 1);
    hd_builder *b = started("bound");
    hd_builder_bind(b, "w", w);
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "y", hd_mul(x, w));
    hd_builder_add_output(b, "turned", hd_mul(x, turned)); /* views made before the builder, */
    hd_builder_add_output(b, "row", hd_mul(x, row));
    hd_builder_add_output(b, "column", hd_mul(x, hd_select(w, 1, 0))); /* and inside it */
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "turned"), HD_F32, 1, 3, 2, 4);
    hd_assign(w, HD_TENSOR_F32(S(2, 2), 5, 6, 7, 8));
    hd_fill(hd_select(row, 0, 1), 9); /* through a view of a view */
    o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "y"), HD_F32, 5, 6, 7, 9);
    assert_values(hd_outputs_get(o, "turned"), HD_F32, 5, 7, 6, 9);
    assert_values(hd_outputs_get(o, "row"), HD_F32, 7, 9);
    assert_values(hd_outputs_get(o, "column"), HD_F32, 5, 7);
    ((float *)hd_data_mut(w, HD_F32))[2] = -1;
    assert_values(output(s, "column"), HD_F32, 5, -1);
    assert_values(hd_script_state(s, "w"), HD_F32, 5, 6, -1, 9);
    hd_script_set_state(s, "w", hd_zeros(S(2, 2), HD_F32)); /* the tensor itself */
    assert_values(w, HD_F32, 0, 0, 0, 0);
}

static void bound_tensors_are_not_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2), *view = hd_select(w, 0, 0);
    hd_builder *b = started("bound");
    hd_builder_bind(b, "w", w);
    hd_assign(w, hd_full(S(2), HD_F32, 7));
    assert_error(HD_ERROR_STATE,
                 "hd_assign: the destination is bound to the script, which only reads it; declare it with "
                 "hd_builder_add_state to write it");
    hd_fill(view, 3);
    assert_error(HD_ERROR_STATE, "hd_fill: the destination is bound");
    hd_add_(hd_slice(w, 0, 0, 1, 1), hd_scalar(1, HD_F32));
    assert_error(HD_ERROR_STATE, "is bound");
    {
        HD_EAGER;
        hd_fill(w, 4); /* at once it may be */
    }
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b);
    assert_values(output(s, "w"), HD_F32, 4, 4);
}

static void a_bound_model_goes_on_training(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(2);
    hd_module *m = HD_SEQUENTIAL(hd_linear(2, 3, NULL), hd_tanh_layer(), hd_linear(3, 1, NULL));
    hd_tensors *parameters = hd_module_parameters(m);
    hd_optimizer *o = hd_sgd(parameters, 0.1, NULL);
    hd_tensor *x = operand(S(4, 2), 0, HD_F32), *target = operand(S(4, 1), 1, HD_F32);
    hd_builder *b = started("evaluate");
    for (int64_t i = 0; i < hd_tensors_count(parameters); ++i)
        hd_builder_bind(b, hd_module_parameter_name(m, i), hd_tensors_get(parameters, i));
    hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", S(4, 2), HD_F32)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    for (int step = 0; step < 5; ++step) {
        HD_SCOPE;
        hd_tensor *y = hd_forward(m, x);
        assert_within_units(output(s, "y"), hd_detach(y), 2);
        hd_backward(hd_mse(y, target, NULL));
        hd_optimizer_step(o);
        hd_optimizer_zero_grad(o);
    }
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
static void state_is_read_and_stored(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("state");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_output(b, "before", w);
    hd_add_(w, hd_input("x", S(2), HD_F32));
    hd_builder_add_output(b, "after", w);
    hd_script *s = built(b);
    assert_values(w, HD_F32, 1, 2); /* recording writes nothing */
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 10, 20));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "before"), HD_F32, 1, 2);
    assert_values(hd_outputs_get(o, "after"), HD_F32, 11, 22);
    assert_values(w, HD_F32, 11, 22); /* code that runs at once sees it, */
    assert_values(hd_script_state(s, "w"), HD_F32, 11, 22);
    hd_fill(w, 5); /* and the next run sees what that code did */
    assert_values(output(s, "after"), HD_F32, 15, 25);
    hd_script_set_state(s, "w", HD_TENSOR_F32(S(2), 0, 1));
    assert_values(w, HD_F32, 0, 1);
    assert_values(output(s, "after"), HD_F32, 10, 21);
    hd_tensor *alias = hd_script_state(s, "w");
    hd_fill(alias, 3); /* the tensor itself, under another handle */
    assert_values(w, HD_F32, 3, 3);
}

static void state_only_is_enough_to_run(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *count = hd_scalar(0, HD_I64);
    hd_builder *b = started("counter");
    hd_builder_add_state(b, "count", count);
    hd_add_(count, hd_full(S(), HD_I64, 1));
    hd_script *s = built(b);
    for (int i = 1; i <= 5; ++i) {
        assert_int_equal(hd_outputs_count(hd_script_run(s)), 0);
        assert_int_equal(hd_item_i64(count), i);
    }
    hd_builder *unchanged = started("unchanged");
    hd_builder_add_state(unchanged, "count", count);
    hd_neg(count);
    hd_builder_end(unchanged);
    assert_null(hd_builder_build(unchanged));
    assert_error(HD_ERROR_STATE, "has no outputs");
}

static void views_and_ties_of_state_share_it(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6), *turned = hd_t(w), *row = hd_select(w, 0, 1),
              *tied = hd_detach(w);
    hd_builder *b = started("views");
    hd_builder_add_state(b, "w", w);
    hd_tensor *inside = hd_select(turned, 0, 2); /* column 2 */
    hd_builder_add_output(b, "inside before", inside);
    hd_assign(row, hd_input("x", S(3), HD_F32));
    hd_builder_add_output(b, "turned", turned);
    hd_builder_add_output(b, "inside", inside); /* a view taken before the write shows it */
    hd_mul_(inside, hd_scalar(2, HD_F32));
    hd_builder_add_output(b, "row", row);
    hd_builder_add_output(b, "tied", tied);
    hd_builder_add_output(b, "flat", hd_reshape(tied, S(6)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(3), 10, 20, 30));
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_assign(w, HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6));
        hd_outputs *o = hd_script_run(s);
        assert_values(hd_outputs_get(o, "inside before"), HD_F32, 3, 6);
        assert_values(hd_outputs_get(o, "turned"), HD_F32, 1, 10, 2, 20, 3, 30);
        assert_values(hd_outputs_get(o, "inside"), HD_F32, 3, 30);
        assert_values(hd_outputs_get(o, "row"), HD_F32, 10, 20, 60);
        assert_values(hd_outputs_get(o, "tied"), HD_F32, 1, 2, 6, 10, 20, 60);
        assert_values(hd_outputs_get(o, "flat"), HD_F32, 1, 2, 6, 10, 20, 60);
        assert_values(turned, HD_F32, 1, 10, 2, 20, 6, 60); /* eager views show the new state */
        assert_values(row, HD_F32, 10, 20, 60);
        assert_values(tied, HD_F32, 1, 2, 6, 10, 20, 60);
    }
}

static void state_may_be_declared_by_a_view(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2, 3), 1, 2, 3, 4, 5, 6), *column = hd_select(w, 1, 1);
    hd_builder *b = started("view");
    hd_builder_add_state(b, "column", column); /* its whole memory is state */
    hd_add_(column, hd_scalar(10, HD_F32));
    hd_add_(hd_select(w, 0, 0), hd_scalar(100, HD_F32));
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b);
    assert_values(output(s, "w"), HD_F32, 101, 112, 103, 4, 15, 6);
    assert_values(w, HD_F32, 101, 112, 103, 4, 15, 6);
    assert_values(column, HD_F32, 112, 15);
    assert_values(hd_script_state(s, "column"), HD_F32, 101, 112, 103, 4, 15, 6); /* so all of it has that name */
    assert_int_equal(hd_tensor_rank(hd_script_state(s, "column")), 1);
    hd_script_set_state(s, "column", hd_zeros(S(6), HD_F32));
    assert_values(w, HD_F32, 0, 0, 0, 0, 0, 0);
}

/* A cache of keys that grows by a row in every run, at a place that is state itself; and rows at fixed places. */
static void a_cache_is_written_slice_by_slice(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_zeros(S(2, 4, 3), HD_F32), *length = hd_scalar(0, HD_I64),
              *expected = hd_zeros(S(2, 4, 3), HD_F32);
    hd_builder *b = started("cache");
    hd_builder_add_state(b, "cache", cache);
    hd_builder_add_state(b, "length", length);
    hd_tensor *key = hd_input("key", S(2, 1, 3), HD_F32);
    hd_tensor *place = hd_broadcast_to(hd_reshape(length, S(1, 1, 1)), S(2, 1, 3));
    hd_assign(cache, hd_scatter(cache, 1, place, key, HD_SCATTER_SET));
    hd_add_(hd_select(cache, 1, 3), hd_select(key, 1, 0)); /* a row at a fixed place */
    hd_add_(length, hd_full(S(), HD_I64, 1));
    hd_builder_add_output(b, "sum", hd_sum(cache, X(), NULL));
    hd_builder_add_output(b, "last", hd_select(cache, 1, 3));
    hd_script *s = built(b);
    for (int step = 0; step < 3; ++step) {
        HD_SCOPE;
        hd_tensor *k = operand(S(2, 1, 3), step, HD_F32);
        hd_script_set_input(s, "key", k);
        hd_outputs *o = hd_script_run(s);
        hd_assign(hd_narrow(expected, 1, step, 1), k);
        hd_add_(hd_select(expected, 1, 3), hd_select(k, 1, 0));
        assert_identical(cache, expected);
        assert_int_equal(hd_item_i64(length), step + 1);
        assert_identical(hd_outputs_get(o, "last"), hd_select(expected, 1, 3));
    }
    hd_zero_(cache); /* emptied at once */
    hd_zero_(length);
    hd_script_set_input(s, "key", hd_ones(S(2, 1, 3), HD_F32));
    assert_values(output(s, "sum"), HD_F32, 12);
}

static void states_may_change_places(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = HD_TENSOR_F32(S(2), 1, 2), *q = HD_TENSOR_F32(S(2), 3, 4), *r = HD_TENSOR_F32(S(2), 5, 6);
    hd_builder *b = started("turn");
    hd_builder_add_state(b, "p", p);
    hd_builder_add_state(b, "q", q);
    hd_builder_add_state(b, "r", r);
    hd_tensor *was = hd_copy(p);
    hd_assign(p, q);
    hd_assign(q, r);
    hd_assign(r, was);
    hd_script *s = built(b);
    for (int level = HD_O0; level <= HD_O3; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_assign(p, HD_TENSOR_F32(S(2), 1, 2));
        hd_assign(q, HD_TENSOR_F32(S(2), 3, 4));
        hd_assign(r, HD_TENSOR_F32(S(2), 5, 6));
        hd_script_run(s);
        assert_values(p, HD_F32, 3, 4);
        assert_values(q, HD_F32, 5, 6);
        assert_values(r, HD_F32, 1, 2);
        hd_script_run(s);
        hd_script_run(s);
        assert_values(p, HD_F32, 1, 2);
        hd_fill(p, 9); /* none of them shares memory with another */
        assert_values(q, HD_F32, 3, 4);
        assert_values(r, HD_F32, 5, 6);
    }
}

static void two_states_may_get_one_value(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = HD_TENSOR_F32(S(2), 1, 2), *q = HD_TENSOR_F32(S(2), 3, 4), *y;
    hd_builder *b = started("same");
    hd_builder_add_state(b, "p", p);
    hd_builder_add_state(b, "q", q);
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_tensor *value = hd_neg(x);
    hd_assign(p, value);
    hd_assign(q, value);
    hd_builder_add_output(b, "y", value);
    hd_script *s = built(b);
    hd_tensor *in = HD_TENSOR_F32(S(2), 7, 8);
    hd_script_set_input(s, "x", in);
    y = output(s, "y");
    hd_fill(p, 0);
    assert_values(q, HD_F32, -7, -8);
    hd_fill(q, 0);
    assert_values(y, HD_F32, -7, -8);
    hd_builder *c = started("input"); /* state that becomes the input itself, or a constant */
    hd_tensor *k = HD_TENSOR_F32(S(2), 50, 60);
    hd_builder_add_state(c, "p", p);
    hd_builder_add_state(c, "q", q);
    hd_assign(p, hd_input("x", S(2), HD_F32));
    hd_assign(q, k);
    hd_script *t = built(c);
    hd_script_set_input(t, "x", in);
    hd_script_run(t);
    assert_values(p, HD_F32, 7, 8);
    hd_fill(p, 1);
    hd_fill(q, 1);
    assert_values(in, HD_F32, 7, 8);
    assert_values(k, HD_F32, 50, 60);
    hd_script_run(t);
    assert_values(q, HD_F32, 50, 60);
}

static void state_as_an_input_of_its_own_script(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("own");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_input("x", S(2), HD_F32));
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", w); /* read when the run begins, as state is */
    assert_values(output(s, "w"), HD_F32, 2, 4);
    assert_values(output(s, "w"), HD_F32, 4, 8);
    hd_script_set_input(s, "x", hd_flip(w, X()));
    assert_values(output(s, "w"), HD_F32, 12, 12);
}

/* ---- declaring --------------------------------------------------------------------------------------------------- */
static void declarations_come_once_and_first(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4), *view = hd_t(w), *used = hd_ones(S(2), HD_F32);
    hd_builder *b = started("declare");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "again", w);
    assert_error(HD_ERROR_STATE,
                 "hd_builder_add_state: \"again\", [2,2], was used or declared already; declare it once, right "
                 "after hd_builder_start");
    hd_builder_bind(b, "view", view); /* views share their memory's meaning */
    assert_error(HD_ERROR_STATE, "hd_builder_bind: \"view\", [2,2], was used or declared already");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_add(x, used);
    hd_builder_add_state(b, "used", used);
    assert_error(HD_ERROR_STATE, "\"used\", [2], was used or declared already");
    hd_builder_bind(b, "used", hd_reshape(used, S(2, 1)));
    assert_error(HD_ERROR_STATE, "was used or declared already");
    hd_builder_add_state(b, "x", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`t`");
    hd_add_(w, x);
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(2), HD_F32));
    assert_values(output(s, "w"), HD_F32, 2, 3, 4, 5);
    assert_null(hd_script_state(s, "again"));
    assert_error(HD_ERROR_VALUE, "has no state or bound tensor \"again\"; it has \"w\"");
    assert_null(hd_script_state(s, NULL));
    assert_error(HD_ERROR_VALUE, "has no state or bound tensor");
    hd_script_set_state(s, "x", w);
    assert_error(HD_ERROR_VALUE, "has no state or bound tensor \"x\"");
    hd_script_set_state(s, "w", used);
    assert_error(HD_ERROR_SHAPE, "hd_script_set_state: \"w\" is f32 [2,2]; given is f32 [2]");
    hd_script_set_state(s, "w", hd_ones(S(2, 2), HD_F64));
    assert_error(HD_ERROR_SHAPE, "given is f64 [2,2]");
    hd_script_set_state(s, "w", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`value`");
    assert_values(w, HD_F32, 2, 3, 4, 5);
}

/* ---- others who look --------------------------------------------------------------------------------------------- */
static void two_scripts_share_state(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_scalar(1, HD_F32);
    hd_script *s[2];
    for (int i = 0; i < 2; ++i) {
        hd_builder *b = started(i == 0 ? "plus" : "times");
        hd_builder_add_state(b, "w", w);
        hd_assign(w, i == 0 ? hd_add_scalar(w, 3) : hd_mul_scalar(w, 2));
        hd_builder_add_output(b, "w", w);
        s[i] = built(b);
    }
    hd_builder *b = started("reader");
    hd_builder_bind(b, "w", w);
    hd_builder_add_output(b, "w", hd_neg(w));
    hd_script *reader = built(b);
    assert_values(output(s[0], "w"), HD_F32, 4);
    assert_values(output(s[1], "w"), HD_F32, 8);
    assert_values(output(reader, "w"), HD_F32, -8);
    assert_values(output(s[0], "w"), HD_F32, 11);
    hd_script_set_optimization_level(s[1], HD_O0);
    assert_values(output(s[1], "w"), HD_F32, 22);
    hd_release(s[0]); /* gives back memory that state was in once */
    assert_values(w, HD_F32, 22);
    assert_values(output(reader, "w"), HD_F32, -22);
}

static void borrowed_memory_stays_where_it_is(void **state) {
    (void)state;
    HD_SCOPE;
    float memory[4] = {1, 2, 3, 4};
    hd_tensor *w = hd_from_blob(memory, S(2, 2), HD_F32, NULL, NULL);
    hd_builder *b = started("blob");
    hd_builder_add_state(b, "w", w);
    hd_fill(hd_select(w, 0, 0), 9);
    hd_add_(w, hd_scalar(1, HD_F32));
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b);
    assert_values(output(s, "w"), HD_F32, 10, 10, 4, 5);
    assert_true(memory[0] == 10 && memory[3] == 5);
    memory[3] = 100; /* the user's own writes are seen */
    assert_values(output(s, "w"), HD_F32, 10, 10, 5, 101);
    assert_true(memory[3] == 101);
    assert_ptr_equal(hd_data_f32(w), memory);
}

/* What code took of the state between runs stays as it was: another script's constants, clones, copies. */
static void snapshots_of_state_stay(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2);
    hd_builder *b = started("state");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_scalar(1, HD_F32));
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b), *taken[4];
    hd_outputs *outputs[4];
    for (int i = 0; i < 4; ++i) {
        outputs[i] = hd_script_run(s);
        hd_builder *c = started("constant");
        hd_builder_add_output(c, "y",
                              hd_add(hd_input("x", S(), HD_F32), w)); /* shares w's memory until one is written */
        taken[i] = built(c);
        hd_script_set_input(taken[i], "x", hd_scalar(0, HD_F32));
    }
    for (int i = 0; i < 4; ++i) {
        assert_values(output(taken[i], "y"), HD_F32, 2 + i, 3 + i);
        assert_values(hd_outputs_get(outputs[i], "w"), HD_F32, 2 + i, 3 + i);
    }
    hd_fill(w, 0);
    for (int i = 0; i < 4; ++i) assert_values(output(taken[i], "y"), HD_F32, 2 + i, 3 + i);
}

/* A tape notices that a run wrote what it saved. */
static void a_run_that_writes_what_a_tape_saved_is_noticed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2), *p = hd_param(HD_TENSOR_F32(S(2), 3, 4));
    hd_builder *b = started("state");
    hd_builder_add_state(b, "w", w);
    hd_add_(w, hd_scalar(1, HD_F32));
    hd_script *s = built(b);
    hd_tensor *y = hd_mul(w, p); /* saves w */
    hd_script_run(s);
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "was changed in place after it was used");
    hd_clear_tape();
    y = hd_mul(w, p);
    hd_builder *c = started("other"); /* recording a write is none */
    hd_builder_add_state(c, "w", w);
    hd_fill(w, 0);
    hd_builder_end(c);
    hd_backward(y);
    assert_values(hd_grad(p), HD_F32, 2, 3);
    hd_clear_tape();
}

static void schedules_change_the_optimizers_rate(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(1), 0)), *twin = hd_param(HD_TENSOR_F32(S(1), 0));
    hd_optimizer *o = hd_sgd(HD_TENSORS(w), 1, NULL), *other = hd_sgd(HD_TENSORS(twin), 1, NULL);
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "rate", hd_optimizer_learning_rate(o));
    hd_builder_add_state(b, "steps", hd_optimizer_steps(o));
    hd_backward(hd_mul(w, hd_input("x", S(1), HD_F32)));
    hd_optimizer_step(o);
    hd_mul_(hd_optimizer_learning_rate(o), hd_scalar(0.5, HD_F64)); /* a schedule of its own */
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(S(1), HD_F32));
    for (int i = 0; i < 6; ++i) {
        if (i == 3) { /* from outside, between runs */
            hd_optimizer_set_learning_rate(o, 10);
            hd_optimizer_set_learning_rate(other, 10);
        }
        hd_script_run(s);
        hd_backward(hd_mul(twin, hd_ones(S(1), HD_F32)));
        hd_optimizer_step(other);
        hd_optimizer_zero_grad(other);
        hd_optimizer_set_learning_rate(other, hd_item(hd_optimizer_learning_rate(other)) * 0.5);
        assert_within_units(w, hd_detach(twin), i + 1); /* a rounding in every step */
        assert_true(hd_item(hd_optimizer_steps(o)) == i + 1);
        assert_true(hd_item(hd_optimizer_learning_rate(o)) == hd_item(hd_optimizer_learning_rate(other)));
    }
}

/* A clone's bound tensors are its own too: it follows no tensor of another thread. */
static void clones_follow_no_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_scalar(1, HD_F32), *k = hd_scalar(10, HD_F32);
    hd_builder *b = started("clone");
    hd_builder_add_state(b, "w", w);
    hd_builder_bind(b, "k", k);
    hd_assign(w, hd_add(w, k));
    hd_builder_add_output(b, "w", w);
    hd_script *s = built(b), *c = hd_script_clone(s);
    hd_fill(w, 100);
    assert_values(output(c, "w"), HD_F32, 11);
    assert_values(output(s, "w"), HD_F32, 110);
    assert_values(output(c, "w"), HD_F32, 21);
    assert_values(w, HD_F32, 110);
    hd_script_set_state(c, "w", hd_scalar(-5, HD_F32));
    assert_values(output(c, "w"), HD_F32, 5);
    assert_values(w, HD_F32, 110);
}

/* What recording `steps` steps of training prints: of a model that was declared, or not. */
static void recorded(bool declared, int steps, bool gives_weight, char *text, size_t capacity) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    hd_module *m = hd_linear(3, 1, NULL);
    hd_optimizer *o = hd_sgd(hd_module_parameters(m), 0.1, NULL);
    hd_builder *b = started("step");
    if (declared) hd_builder_add_state_of(b, m, o);
    hd_tensor *x = hd_input("x", S(4, 3), HD_F32), *loss = NULL;
    for (int i = 0; i < steps; ++i) {
        loss = hd_mean(hd_square(hd_forward(m, x)), X(), NULL);
        hd_backward(loss);
        hd_optimizer_step(o);
        hd_optimizer_zero_grad(o);
    }
    hd_builder_add_output(b, "loss", loss);
    for (int i = 0; gives_weight && i < 2; ++i) {
        const char *name = i == 0 ? "weight" : "bias";
        hd_builder_add_output(b, name, hd_module_get(m, name));
    }
    const printed p = printed_begin();
    hd_builder_end(b);
    printed_end(p, text, capacity);
    assert_ok();
}

/* A step whose updates go nowhere is as good as forgotten state; many steps of one script are not. */
static void writes_that_are_lost_are_said(void **state) {
    (void)state;
    char text[1024];
    recorded(true, 1, false, text, sizeof text);
    assert_string_equal(text, "");
    recorded(false, 2, false, text, sizeof text);
    assert_string_equal(text, "");
    recorded(false, 1, false, text, sizeof text);
    assert_non_null(strstr(text, "hodu warning: builder \"step\" writes "));
    assert_non_null(strstr(text, "([1,3] and others)"));
    recorded(false, 1, true, text, sizeof text);
    assert_null(strstr(text, "[1,3]"));
}

/* What was written may be an output: it is the tensor that counts. It is read again, or beside other state it was never
 * read before: then it is nobody's state. */
static void writes_are_lost_whatever_they_are_made_of(void **state) {
    (void)state;
    static const struct {
        bool has_state, first_written, read_again, is_said;
    } cases[] = {{false, false, false, true}, {false, true, false, true}, {false, false, true, false},
                 {true, false, false, true},  {true, true, false, false}, {true, false, true, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        HD_SCOPE;
        char text[1024];
        hd_tensor *hidden = hd_zeros(S(2), HD_F32), *kept = hd_zeros(S(2), HD_F32);
        hd_builder *b = started("hidden");
        if (cases[i].has_state) hd_builder_add_state(b, "kept", kept);
        hd_tensor *h = hd_input("x", S(2), HD_F32);
        if (!cases[i].first_written) h = hd_add(h, hidden);
        h = hd_tanh(h);
        hd_assign(hidden, h);
        hd_builder_add_output(b, "h", h);
        if (cases[i].read_again) hd_builder_add_output(b, "again", hd_exp(hidden));
        const printed p = printed_begin();
        hd_builder_end(b);
        printed_end(p, text, sizeof text);
        if ((strstr(text, "writes 1 tensor that is no state ([2])") != NULL) != cases[i].is_said)
            fail_msg("case %zu: \"%s\"", i, text);
        assert_ok();
    }
}

/* A parameter of one element is read by what it is for; a counter by its own next value alone. */
static void forgotten_parameters_of_one_element_are_said(void **state) {
    (void)state;
    for (int is_counter = 0; is_counter < 2; ++is_counter) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        char text[1024];
        hd_tensor *kept = hd_zeros(S(1), HD_F32), *bias = hd_param(hd_zeros(S(1), HD_F32));
        hd_optimizer *o = hd_sgd(HD_TENSORS(bias), 0.1, NULL);
        hd_builder *b = started("step");
        hd_builder_add_state(b, "kept", kept);
        hd_tensor *y = hd_input("x", S(4), HD_F32);
        if (is_counter) {
            HD_NO_GRAD;
            hd_add_(bias, hd_scalar(1, HD_F32));
        } else {
            y = hd_add(y, bias);
            hd_backward(hd_mean(hd_square(y), X(), NULL));
            hd_optimizer_step(o);
        }
        hd_builder_add_output(b, "y", hd_relu(y));
        const printed p = printed_begin();
        hd_builder_end(b);
        printed_end(p, text, sizeof text);
        if ((strstr(text, "writes 1 tensor that is no state ([1])") != NULL) == is_counter)
            fail_msg("%s: \"%s\"", is_counter ? "counter" : "parameter", text);
        assert_ok();
    }
}

/* An optimizer that was forgotten beside its parameters; what each run writes before it reads is nobody's state. */
static void forgotten_optimizers_are_said(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; ++kind) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        char text[1024];
        hd_module *m = hd_linear(3, 2, NULL);
        hd_optimizer *o = kind == 0   ? hd_sgd(hd_module_parameters(m), 0.1, NULL)
                          : kind == 1 ? hd_sgd(hd_module_parameters(m), 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.9))
                                      : hd_adam(hd_module_parameters(m), 0.1, NULL);
        hd_tensor *scratch = hd_zeros(S(4, 2), HD_F32);
        hd_builder *b = started("step");
        hd_builder_add_state_of(b, m, kind == 3 ? o : NULL);
        hd_tensor *y = hd_forward(m, hd_input("x", S(4, 3), HD_F32));
        {
            HD_NO_GRAD;
            hd_assign(scratch, hd_detach(y));
        }
        hd_tensor *loss = hd_mean(hd_square(y), X(), NULL);
        hd_builder_add_output(b, "size", hd_sum(scratch, X(), NULL));
        hd_backward(loss);
        hd_optimizer_step(o);
        hd_builder_add_output(b, "loss", loss);
        const printed p = printed_begin();
        hd_builder_end(b);
        printed_end(p, text, sizeof text);
        assert_int_equal(strstr(text, "([2,3] and others)") != NULL, kind == 1 || kind == 2);
        assert_int_equal(text[0] != '\0', kind == 1 || kind == 2);
        assert_ok();
    }
}

/* Runs in place and runs that are not, in turn: a snapshot of the state, an input or a clone keeps its memory from
 * being written. */
static void runs_in_place_and_not(void **state) {
    (void)state;
    for (int first = 0; first < 2; ++first)
        for (int fails = 0; fails < 2; ++fails) {
            HD_SCOPE;
            hd_tensor *w = hd_full(S(64, 64), HD_F32, 1), *at = hd_zeros(S(64), HD_I64);
            hd_builder *b = started("turns");
            hd_builder_add_state(b, "w", w);
            hd_tensor *in = hd_input("at", S(64), HD_I64);
            hd_builder_add_output(b, "rows", hd_index_select(hd_input("t", S(4), HD_F32), 0, in)); /* that may fail */
            hd_assign(w, hd_mul_scalar(w, 2));
            hd_script *s = built(b);
            hd_script_set_input(s, "t", hd_ones(S(4), HD_F32));
            double expected = 1;
            for (int turn = 0; turn < 7; ++turn) {
                HD_SCOPE;
                const bool refused = fails && turn % 3 == 1;
                hd_script *clone = turn % 2 == first ? hd_script_clone(s) : NULL;
                hd_script_set_input(s, "at", refused ? hd_full(S(64), HD_I64, 64) : at);
                hd_script_run(s);
                assert_int_equal(hd_ok(), !refused);
                hd_error_clear();
                if (clone != NULL) assert_true(hd_item(hd_max(hd_script_state(clone, "w"), X(), NULL)) == expected);
                if (!refused) expected *= 2;
                assert_true(hd_item(hd_max(w, X(), NULL)) == expected && hd_item(hd_min(w, X(), NULL)) == expected);
                hd_script_set_input(s, "at", at);
                if (turn % 2 == first) hd_script_check(s); /* runs that keep the state */
                assert_true(hd_item(hd_max(w, X(), NULL)) == expected);
                assert_ok();
            }
        }
}

RUN(test(constants_are_snapshots), test(a_number_is_a_snapshot_too), test(a_number_that_was_used_is_known),
    test(constants_written_inside_are_as_they_were), test(borrowed_constants_are_copied),
    test(bound_tensors_are_read_live), test(bound_tensors_are_not_written), test(a_bound_model_goes_on_training),
    test(state_is_read_and_stored), test(state_only_is_enough_to_run), test(views_and_ties_of_state_share_it),
    test(state_may_be_declared_by_a_view), test(a_cache_is_written_slice_by_slice), test(states_may_change_places),
    test(two_states_may_get_one_value), test(state_as_an_input_of_its_own_script),
    test(declarations_come_once_and_first), test(two_scripts_share_state), test(borrowed_memory_stays_where_it_is),
    test(snapshots_of_state_stay), test(a_run_that_writes_what_a_tape_saved_is_noticed),
    test(schedules_change_the_optimizers_rate), test(clones_follow_no_tensor), test(writes_that_are_lost_are_said),
    test(writes_are_lost_whatever_they_are_made_of), test(forgotten_optimizers_are_said),
    test(forgotten_parameters_of_one_element_are_said), test(runs_in_place_and_not))
