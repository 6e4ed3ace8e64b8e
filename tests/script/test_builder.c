/* Builders: when calls are recorded and when they are not, what every misuse says, and that the world outside is
 * afterwards as it was. */
#include "graph/calls.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* Calls run at once. */
#define assert_at_once()                                                                                               \
    do {                                                                                                               \
        HD_SCOPE;                                                                                                      \
        assert_null(hd_thread_self()->recording);                                                                      \
        assert_values(hd_add(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(2), HD_F32)), HD_F32, 2, 2);               \
    } while (0)

/* ---- the way it is meant ----------------------------------------------------------------------------------------- */
static void what_is_recorded_runs_as_a_script(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(3, 1), 1, 2, 3);
    hd_builder *b = hd_builder_new("my_script");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", S(2, 3), HD_F32), *y = hd_builder_add_input(b, "y", S(), HD_DTYPE_DEFAULT);
    assert_int_equal(hd_tensor_dtype(y), HD_F32);
    assert_int_equal(hd_tensor_rank(x), 2);
    assert_int_equal(hd_tensor_size(x, 1), 3);
    hd_tensor *r = hd_mul(hd_matmul(x, w), y);
    assert_int_equal(hd_tensor_count(r), 2);
    hd_builder_add_output(b, "result", r);
    hd_builder_add_output(b, "twice", hd_add(r, r));
    hd_builder_end(b);
    assert_at_once();
    hd_script *s = hd_builder_build(b);
    hd_release(b); /* a script needs its builder no more */
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2, 3), 1, 0, 0, 0, 0, 1));
    hd_script_set_input(s, "y", hd_scalar(10, HD_F32));
    hd_outputs *o = hd_script_run(s);
    assert_values(hd_outputs_get(o, "result"), HD_F32, 10, 30);
    assert_values(hd_outputs_get(o, "twice"), HD_F32, 20, 60);
    assert_int_equal(hd_outputs_count(o), 2);
    assert_string_equal(hd_outputs_name(o, 1), "twice");
}

static void outputs_outlive_the_scope_they_were_made_in(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("scopes");
    {
        HD_SCOPE;
        hd_tensor *x = hd_input("x", S(2), HD_F32);
        hd_builder_add_output(b, "y", hd_exp(hd_neg(x)));
    }
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_zeros(S(2), HD_F32));
    assert_values(hd_outputs_at(hd_script_run(s), 0), HD_F32, 1, 1);
}

static void building_twice_gives_independent_scripts(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("twice");
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", S(1), HD_F32)));
    hd_builder_end(b);
    hd_script *first = hd_builder_build(b), *second = hd_builder_build(b);
    assert_ptr_not_equal(first, second);
    hd_script_set_input(first, "x", HD_TENSOR_F32(S(1), 1));
    hd_script_set_input(second, "x", HD_TENSOR_F32(S(1), 2));
    assert_values(hd_outputs_at(hd_script_run(first), 0), HD_F32, -1);
    assert_values(hd_outputs_at(hd_script_run(second), 0), HD_F32, -2);
    hd_script_set_optimization_level(second, HD_O0);
    assert_int_equal(hd_script_stats(first).compilations, 1);
    hd_script_clear_inputs(first);
    assert_values(hd_outputs_at(hd_script_run(second), 0), HD_F32, -2);
}

/* ---- out of order ------------------------------------------------------------------------------------------------ */
static void inputs_need_an_active_builder(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_input("x", S(2), HD_F32));
    assert_error(HD_ERROR_STATE, "hd_input: no builder is active on this thread");
    hd_builder *b = hd_builder_new("later");
    assert_null(hd_builder_add_input(b, "x", S(2), HD_F32));
    assert_error(HD_ERROR_STATE, "hd_builder_add_input: builder \"later\" is not active on this thread");
    hd_builder_start(b);
    hd_builder_end(b);
    assert_null(hd_builder_add_input(b, "x", S(2), HD_F32));
    assert_error(HD_ERROR_STATE, "not active");
    assert_null(hd_input("x", S(2), HD_F32));
    assert_error(HD_ERROR_STATE, "no builder is active");
    assert_at_once();
}

static void outputs_and_declarations_need_an_active_builder(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = hd_ones(S(2), HD_F32);
    hd_builder *b = hd_builder_new("b");
    hd_builder_add_output(b, "y", t);
    assert_error(HD_ERROR_STATE, "hd_builder_add_output: builder \"b\" is not active");
    hd_builder_add_state(b, "y", t);
    assert_error(HD_ERROR_STATE, "hd_builder_add_state:");
    hd_builder_bind(b, "y", t);
    assert_error(HD_ERROR_STATE, "hd_builder_bind:");
    hd_builder_start(b);
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_end(b);
    hd_builder_add_output(b, "y", x);
    assert_error(HD_ERROR_STATE, "hd_builder_add_output: builder \"b\" is not active");
}

static void starting_twice_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("once");
    hd_builder_start(b);
    assert_error(HD_ERROR_STATE, "hd_builder_start: builder \"once\" is started already");
    hd_builder_add_output(b, "y", hd_input("x", S(1), HD_F32)); /* it goes on */
    hd_builder_end(b);
    hd_builder_start(b);
    assert_error(HD_ERROR_STATE, "builder \"once\" has ended; make a new one");
    assert_at_once();
    assert_non_null(hd_builder_build(b));
}

static void one_builder_at_a_time(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *first = started("first"), *second = hd_builder_new("second");
    hd_builder_start(second);
    assert_error(HD_ERROR_STATE, "builder \"first\" is active on this thread; end it first");
    hd_builder_end(second);
    assert_error(HD_ERROR_STATE, "hd_builder_end: builder \"second\" is not active");
    hd_builder_add_output(first, "y", hd_input("x", S(1), HD_F32)); /* nothing changed */
    hd_builder_end(first);
    hd_builder_start(second); /* now it may */
    hd_builder_add_output(second, "y", hd_neg(hd_input("x", S(1), HD_F32)));
    hd_builder_end(second);
    assert_ok();
    assert_non_null(hd_builder_build(first));
    assert_non_null(hd_builder_build(second));
}

static void ending_what_is_not_active_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("b");
    hd_builder_end(b);
    assert_error(HD_ERROR_STATE,
                 "hd_builder_end: builder \"b\" is not active on this thread; hd_builder_start comes first");
    hd_builder_start(b);
    hd_builder_end(b);
    hd_builder_end(b);
    assert_error(HD_ERROR_STATE, "is not active");
    hd_builder_end(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`builder` is NULL");
}

static void building_needs_an_end_and_an_output(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = hd_builder_new("b");
    assert_null(hd_builder_build(b));
    assert_error(HD_ERROR_STATE, "hd_builder_build: builder \"b\" has not ended; call hd_builder_end first");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_input("x", S(1), HD_F32));
    assert_null(hd_builder_build(b));
    assert_error(HD_ERROR_STATE, "has not ended");
    hd_builder_end(b);
    assert_non_null(hd_builder_build(b));
    hd_builder *empty = started("empty");
    hd_exp(hd_input("x", S(1), HD_F32));
    hd_builder_end(empty);
    assert_null(hd_builder_build(empty));
    assert_error(HD_ERROR_STATE, "builder \"empty\" has no outputs");
    assert_null(hd_builder_build(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`builder` is NULL");
}

/* ---- names, shapes, arguments ------------------------------------------------------------------------------------ */
static void names_are_given_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(S(1), HD_F32), *v = hd_ones(S(1), HD_F32);
    hd_builder *b = started("names");
    hd_tensor *x = hd_input("x", S(1), HD_F32);
    assert_null(hd_input("x", S(2), HD_F64));
    assert_error(HD_ERROR_VALUE, "hd_input: there is an input \"x\" already");
    assert_null(hd_builder_add_input(b, "x", S(1), HD_F32));
    assert_error(HD_ERROR_VALUE, "\"x\" already");
    hd_builder_add_output(b, "y", x);
    hd_builder_add_output(b, "y", hd_neg(x));
    assert_error(HD_ERROR_VALUE, "hd_builder_add_output: there is an output \"y\" already");
    hd_builder_add_output(b, "x", x); /* inputs and outputs have names of their own */
    hd_builder_add_state(b, "w", w);
    hd_builder_add_state(b, "w", v);
    assert_error(HD_ERROR_VALUE, "\"w\" is declared already");
    hd_builder_bind(b, "w", v);
    assert_error(HD_ERROR_VALUE, "\"w\" is declared already");
    hd_builder_bind(b, "x", v);
    assert_ok();
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    assert_int_equal(hd_script_stats(s).nodes, 4);
}

/* As many outputs as an unrolled loop may have. */
static double time_to_name(int count) {
    HD_SCOPE;
    hd_builder *b = started("many");
    hd_tensor *x = hd_input("x", S(), HD_F32);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < count; ++i) {
        char name[32];
        snprintf(name, sizeof name, "output %d", i);
        hd_builder_add_output(b, name, x);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    hd_builder_add_output(b, "output 7", x);
    assert_error(HD_ERROR_VALUE, "already");
    hd_builder_end(b);
    return (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
}
static void very_many_names_are_quick(void **state) {
    (void)state;
    const double spent = time_to_name(20000);
    if (spent > 3) fail_msg("20000 outputs take %.3f s", spent);
}

static void names_are_not_empty(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_ones(S(1), HD_F32);
    assert_null(hd_builder_new(NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`name` is NULL");
    hd_builder *b = started("names");
    assert_null(hd_input(NULL, S(1), HD_F32));
    assert_error(HD_ERROR_VALUE, "the name is empty");
    assert_null(hd_input("", S(1), HD_F32));
    assert_error(HD_ERROR_VALUE, "the name is empty");
    hd_builder_add_output(b, "", w);
    assert_error(HD_ERROR_VALUE, "the name is empty");
    hd_builder_add_state(b, NULL, w);
    assert_error(HD_ERROR_VALUE, "the name is empty");
    hd_builder_bind(b, "", w);
    assert_error(HD_ERROR_VALUE, "the name is empty");
}

static void names_are_not_endless(void **state) {
    (void)state;
    HD_SCOPE;
    char *name = calloc(1, HD_NAME_MOST + 2);
    memset(name, 'n', HD_NAME_MOST + 1);
    hd_tensor *w = hd_ones(S(1), HD_F32);
    assert_null(hd_builder_new(name));
    assert_error(HD_ERROR_VALUE, "hd_builder_new: a name of 4096 bytes; 4095 are allowed");
    hd_builder *b = started("names");
    assert_null(hd_input(name, S(1), HD_F32));
    assert_error(HD_ERROR_VALUE, "a name of 4096 bytes");
    hd_builder_add_state(b, name, w);
    assert_error(HD_ERROR_VALUE, "a name of 4096 bytes");
    name[HD_NAME_MOST] = '\0';
    hd_builder_add_output(b, name, hd_input(name, S(1), HD_F32));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, name, w);
    assert_values(hd_outputs_get(hd_script_run(s), name), HD_F32, 1);
    free(name);
}

static void inputs_have_a_real_type(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("types");
    assert_null(hd_input("x", S(-1), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_input:");
    assert_null(hd_input("x", S(1, 2, 3, 4, 5, 6, 7, 8, 9), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_input:");
    assert_null(hd_input("x", S(INT64_MAX, 2), HD_F32));
    assert_error(HD_ERROR_OVERFLOW, "hd_input:");
    assert_null(hd_input("x", S(1), (hd_dtype)99));
    assert_error(HD_ERROR_DTYPE, "hd_input:");
    assert_non_null(hd_input("x", S(0, 3), HD_BOOL));               /* the name is free still */
    assert_non_null(hd_input("huge", S(1 << 20, 1 << 20), HD_F64)); /* takes no memory */
    assert_ok();
    hd_builder_end(b);
}

static void tensors_and_builders_must_be_alive(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("alive");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_tensor *gone = hd_exp(x);
    hd_release(gone);
    hd_builder_add_output(b, "y", gone);
    assert_error(HD_ERROR_RELEASED, "hd_builder_add_output:");
    hd_builder_add_output(b, "y", NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`t`");
    hd_add(x, gone);
    assert_error(HD_ERROR_RELEASED, "hd_add:");
    hd_builder_add_output(b, "y", x);
    hd_builder_end(b);
    hd_builder_build(b);
    hd_release(b);
    assert_null(hd_builder_build(b));
    assert_error(HD_ERROR_RELEASED, "hd_builder_build: `builder` is no living builder");
    hd_builder_start(b);
    assert_error(HD_ERROR_RELEASED, "hd_builder_start:");
    hd_builder_end(b);
    assert_error(HD_ERROR_RELEASED, "hd_builder_end:");
    hd_builder_end((hd_builder *)x); /* no builder at all */
    assert_error(HD_ERROR_STATE, "`builder` is no living builder");
}

/* ---- foreign tensors --------------------------------------------------------------------------------------------- */
static void outputs_are_this_builders(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *never = hd_ones(S(2), HD_F32), *used = hd_ones(S(2), HD_F32);
    hd_builder *other = started("other");
    hd_tensor *foreign = hd_exp(hd_input("x", S(2), HD_F32));
    hd_builder_end(other);
    hd_builder *b = started("mine");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    hd_builder_add_output(b, "y", foreign);
    assert_error(HD_ERROR_STATE, "was not recorded by builder \"mine\"");
    hd_builder_add_output(b, "y", never);
    assert_error(HD_ERROR_STATE, "was not recorded by builder \"mine\"");
    assert_null(hd_add(x, foreign));
    assert_error(HD_ERROR_STATE, "recorded by another builder, \"other\"; run its script and use the output");
    hd_assign(foreign, x);
    assert_error(HD_ERROR_STATE, "another builder, \"other\"");
    hd_builder_bind(b, "f", foreign);
    assert_false(hd_ok());
    hd_error_clear();
    hd_builder_add_state(b, "x", x);
    assert_error(HD_ERROR_STATE, "is a value that was recorded; only tensors from outside");
    hd_add(x, used);
    hd_builder_add_output(b, "y", used); /* a constant may be an output */
    assert_ok();
    hd_builder_end(b);
    assert_non_null(hd_builder_build(b));
}

static void recorded_values_mean_nothing_outside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("mine");
    hd_tensor *x = hd_input("x", S(), HD_F32), *y = hd_exp(x);
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    assert_null(hd_add(y, hd_ones(S(), HD_F32)));
    assert_error(HD_ERROR_STATE, "recorded by builder \"mine\"");
    hd_assign(hd_ones(S(), HD_F32), y);
    assert_error(HD_ERROR_STATE, "run the script");
    hd_fill(y, 2);
    assert_error(HD_ERROR_STATE, "run the script");
    hd_tensor *eager = hd_ones(S(), HD_F32);
    hd_add_(eager, y);
    assert_error(HD_ERROR_STATE, "run the script");
    assert_values(eager, HD_F32, 1);
    assert_null(hd_sum(y, X(), NULL));
    assert_error(HD_ERROR_STATE, "run the script");
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", x);
    assert_error(HD_ERROR_STATE, "hd_script_set_input: the input \"x\" is given a value that a builder recorded");
    hd_release(b);
    assert_true(isnan(hd_item(y))); /* also when the builder is gone */
    assert_error(HD_ERROR_STATE, "hd_exp, recorded by builder \"mine\"");
}

static hd_tensor *norm_forward(hd_module *m, hd_tensor *x) {
    (void)m;
    return hd_norm(x, 2, X(), NULL);
}

/* A message names what the program called, not what that is made of. */
static void the_composite_is_named_that_made_a_value(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_module_class own = {.name = "own", .forward = norm_forward};
    hd_tensor *w = hd_param(hd_ones(S(1), HD_F32));
    hd_builder *b = started("read");
    hd_tensor *x = hd_mul(hd_input("x", S(3), HD_F32), w), *mean = hd_mean(x, X(), NULL);
    const struct {
        hd_tensor *t;
        const char *name;
    } made[] = {{mean, "hd_mean"},
                {hd_mse(x, hd_zeros(S(3), HD_F32), NULL), "hd_mse"},
                {hd_forward(hd_module_new(&own, NULL), x), "hd_norm"},
                {(hd_backward(mean), hd_grad(w)), "hd_backward"},
                {hd_neg(mean), "hd_neg"}};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; ++i) {
        char expected[64];
        snprintf(expected, sizeof expected, "the value of this tensor (%s, recorded", made[i].name);
        assert_true(isnan(hd_item(made[i].t)));
        assert_error(HD_ERROR_STATE, expected);
    }
    double room;
    assert_false(hd_to_array(mean, &room, HD_F64, 1)); /* a composite itself, which casts first */
    assert_error(HD_ERROR_STATE, "hd_to_array: the value of this tensor (hd_cast, recorded");
    hd_builder_end(b);
}

/* ---- reading values ---------------------------------------------------------------------------------------------- */
static void recorded_values_cannot_be_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("read");
    hd_tensor *x = hd_input("x", S(1), HD_F32), *y = hd_tanh(x), *i = hd_cast(y, HD_I64);
    float room[4];
    char text[64];
    assert_true(isnan(hd_item(y)));
    assert_error(HD_ERROR_STATE,
                 "hd_item: the value of this tensor (hd_tanh, recorded by builder \"read\") is not known before "
                 "its script runs; make it an output with hd_builder_add_output and run the script");
    assert_int_equal(hd_item_i64(i), 0);
    assert_error(HD_ERROR_STATE, "hd_item_i64: the value of this tensor (hd_cast");
    assert_null(hd_data(y, HD_F32));
    assert_error(HD_ERROR_STATE, "hd_data: the value of this tensor (hd_tanh");
    assert_null(hd_data_mut(y, HD_F32));
    assert_error(HD_ERROR_STATE, "hd_data_mut: the value of this tensor (hd_tanh");
    assert_false(hd_to_array(y, room, HD_F32, 4));
    assert_error(HD_ERROR_STATE, "hd_to_array: the value of this tensor (hd_tanh");
    assert_false(hd_to_array(y, room, HD_F64, 4));
    assert_error(HD_ERROR_STATE, "hd_to_array: the value of this tensor (hd_");
    assert_false(hd_allclose(y, y, NULL));
    assert_error(HD_ERROR_STATE, "hd_allclose: the value of this tensor (hd_tanh");
    assert_int_equal(hd_format(y, text, sizeof text, NULL), -1);
    assert_error(HD_ERROR_STATE, "hd_format: the value of this tensor (hd_tanh");
    hd_print(y);
    assert_error(HD_ERROR_STATE, "hd_print: the value of this tensor (hd_tanh");
    assert_true(isnan(hd_item(x)));
    assert_error(HD_ERROR_STATE, "(input, recorded by builder \"read\")");
    assert_true(isnan(hd_item(hd_select(hd_reshape(y, S(1, 1)), 0, 0)))); /* of a view too */
    assert_error(HD_ERROR_STATE, "recorded by builder \"read\"");
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    assert_non_null(hd_builder_build(b)); /* the errors did no harm */
}

/* What comes from outside has its values, also while a builder records. */
static void values_from_outside_can_be_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *m = HD_TENSOR_F32(S(2, 2), 1, 2, 3, 4), *turned = hd_t(m), *one = hd_scalar(7, HD_I32);
    hd_builder *b = started("outside");
    hd_builder_add_output(b, "y", hd_add(hd_input("x", S(2, 2), HD_F32), m));
    const int64_t nodes = hd_thread_self()->recording->graph->node_count;
    float f[4];
    double d[4];
    assert_int_equal(hd_item_i64(one), 7);
    assert_true(hd_data_f32(m)[3] == 4);
    assert_true(hd_to_array(m, f, HD_F32, 4));
    assert_true(hd_allclose(m, m, NULL));
    char text[64];
    assert_true(hd_format(turned, text, sizeof text, NULL) > 0);
    assert_ok();
    const bool as_double = hd_to_array(m, d, HD_F64, 4), of_view = hd_to_array(turned, f, HD_F32, 4);
    if (!as_double || !of_view) {
        char why[512];
        snprintf(why, sizeof why, "%s", hd_error_message());
        hd_error_clear();
        hd_builder_end(b);
        fail_msg("hd_to_array of a tensor from outside, %s: %s", as_double ? "a view" : "another dtype", why);
    }
    assert_true(f[1] == 3 && d[3] == 4);
    assert_int_equal(hd_thread_self()->recording->graph->node_count, nodes); /* reading records nothing */
    hd_builder_end(b);
}

static void what_was_written_cannot_be_read(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = HD_TENSOR_F32(S(2), 1, 2), *view = hd_select(w, 0, 1);
    hd_builder *b = started("written");
    hd_assign(w, hd_input("x", S(2), HD_F32));
    assert_null(hd_data(w, HD_F32));
    assert_error(HD_ERROR_STATE, "hd_data: this tensor was written while a builder records");
    assert_true(isnan(hd_item(view)));
    assert_error(HD_ERROR_STATE, "its new value is not known before the script runs");
    {
        HD_EAGER;
        assert_values(w, HD_F32, 1, 2); /* of before */
    }
    hd_builder_add_output(b, "y", hd_neg(w));
    hd_builder_end(b);
    assert_values(w, HD_F32, 1, 2);
    assert_values(view, HD_F32, 2);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 5, 6));
    assert_values(hd_outputs_at(hd_script_run(s), 0), HD_F32, -5, -6);
    assert_values(w, HD_F32, 1, 2); /* it was no state */
}

/* ---- at once, inside --------------------------------------------------------------------------------------------- */
static void eager_blocks_run_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("eager");
    hd_tensor *x = hd_input("x", S(2), HD_F32), *k;
    {
        HD_EAGER;
        k = hd_add(hd_ones(S(2), HD_F32), hd_ones(S(2), HD_F32));
        assert_values(k, HD_F32, 2, 2);
        {
            HD_EAGER; /* nests */
            assert_values(hd_exp(hd_zeros(S(1), HD_F32)), HD_F32, 1);
        }
        assert_values(hd_neg(k), HD_F32, -2, -2);
        assert_null(hd_exp(x));
        assert_error(HD_ERROR_STATE, "hd_exp: the value of this tensor (input, recorded by builder \"eager\")");
    }
    hd_tensor *y = hd_mul(x, k);
    assert_true(isnan(hd_item(hd_select(y, 0, 0)))); /* recorded again */
    assert_error(HD_ERROR_STATE, "recorded by builder");
    hd_builder_add_output(b, "y", y);
    {
        HD_EAGER;
        hd_builder_end(b); /* in the middle of one */
        assert_at_once();
    }
    assert_at_once();
    {
        HD_EAGER; /* and outside of any builder */
        assert_at_once();
    }
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", HD_TENSOR_F32(S(2), 3, 4));
    assert_values(hd_outputs_at(hd_script_run(s), 0), HD_F32, 6, 8);
}

static void an_eager_block_left_by_return_ends(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("return");
    for (int i = 0; i < 2; ++i) {
        HD_EAGER;
        if (i == 0) continue;
        break;
    }
    assert_true(hd_thread_self()->executor->captures);
    hd_eager_token token = hd_eager_begin(&token), copy = token;
    hd_eager_end(&copy); /* a copy is not the token */
    assert_false(hd_thread_self()->executor->captures);
    hd_eager_end(&token);
    hd_eager_end(&token);
    hd_eager_end(NULL);
    assert_true(hd_thread_self()->executor->captures);
    hd_builder_end(b);
}

static void modules_and_optimizers_are_made_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_seed(4);
    hd_module *expected = hd_linear(3, 2, NULL);
    hd_seed(4);
    hd_builder *b = started("modules");
    hd_module *m = HD_SEQUENTIAL(hd_linear(3, 2, NULL), hd_relu_layer());
    hd_optimizer *o = hd_adam(hd_module_parameters(m), 0.01, NULL);
    assert_non_null(o);
    hd_tensor *weight = hd_module_get(m, "0.weight");
    assert_identical(weight, hd_module_get(expected, "weight"));
    assert_true(hd_item(hd_optimizer_learning_rate(o)) == 0.01);
    hd_builder_add_output(b, "y", hd_forward(m, hd_input("x", S(1, 3), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_tensor *x = operand(S(1, 3), 0, HD_F32);
    hd_script_set_input(s, "x", x);
    assert_identical(hd_outputs_at(hd_script_run(s), 0), hd_forward(m, x));
    assert_int_equal(hd_generator_draw(NULL), 2); /* the weights were drawn once */
}

static void parameters_are_no_recorded_values(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("parameters");
    hd_tensor *x = hd_input("x", S(2), HD_F32);
    assert_null(hd_param(hd_randn(S(2), HD_F32)));
    assert_error(HD_ERROR_STATE, "hd_param:");
    assert_null(hd_param(x));
    assert_error(HD_ERROR_STATE, "HD_EAGER");
    assert_null(hd_requires_grad(hd_exp(x)));
    assert_error(HD_ERROR_STATE,
                 "hd_requires_grad: parameters are made before or beside what a builder records: make this one in "
                 "a block with HD_EAGER");
    hd_set_requires_grad(x, true);
    assert_error(HD_ERROR_STATE, "HD_EAGER");
    static const hd_module_class own = {.name = "own", .forward = NULL};
    (void)own;
    hd_module *m = hd_relu_layer();
    assert_null(hd_module_add_parameter(m, "w", hd_ones(S(2), HD_F32)));
    assert_error(HD_ERROR_STATE, "HD_EAGER");
    hd_tensor *w;
    {
        HD_EAGER;
        w = hd_param(hd_ones(S(2), HD_F32));
    }
    assert_non_null(w);
    assert_true(hd_tensor_requires_grad(hd_mul(w, x)));
    hd_tensor *data = hd_param(HD_TENSOR_F32(S(2), 1, 2)); /* data is at once anyway */
    assert_non_null(data);
    assert_ok();
    hd_builder_end(b);
}

/* A module outlives what its builder records, so a recorded value cannot be a buffer of it. */
static void buffers_are_no_recorded_values(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("buffers");
    hd_module *m = hd_relu_layer();
    hd_module_add_buffer(m, "mean", hd_zeros(S(2), HD_F32));
    const bool refused = !hd_ok();
    hd_error_clear();
    hd_builder_end(b);
    assert_true(refused);
}

/* ---- the world outside ------------------------------------------------------------------------------------------- */
typedef struct world {
    hd_tensor *w, *b, *view, *result, *plain;
    hd_optimizer *optimizer;
    hd_tensor *values[8];
    int64_t tape, context;
    uint64_t seed, draw;
} world;

static void look(world *o, hd_tensor **values) {
    hd_tensor *const list[8] = {o->w,
                                o->b,
                                o->view,
                                o->result,
                                o->plain,
                                hd_grad(o->w),
                                hd_optimizer_steps(o->optimizer),
                                hd_optimizer_learning_rate(o->optimizer)};
    for (int i = 0; i < 8; ++i) values[i] = hd_copy(hd_detach(list[i]));
}
static world make_world(void) {
    world o = {.w = hd_param(operand(S(2, 2), 0, HD_F32)),
               .b = hd_param(operand(S(2), 1, HD_F32)),
               .plain = operand(S(2, 2), 2, HD_F32)};
    o.optimizer = hd_adam(HD_TENSORS(o.w), 0.1, NULL);
    hd_backward(hd_sum(hd_mul(o.w, o.w), X(), NULL));
    hd_optimizer_step(o.optimizer);
    hd_clear_tape();
    o.view = hd_t(o.plain);
    o.result = hd_mul(o.w, o.plain); /* on the tape */
    look(&o, o.values);
    o.tape = hd_tape_length();
    o.context = hd_grad_context_id();
    o.seed = hd_generator_seed(NULL);
    o.draw = hd_generator_draw(NULL);
    assert_ok();
    return o;
}
static void shake(world *o) { /* while a builder records */
    hd_tensor *x = hd_input("x", S(2, 2), HD_F32);
    assert_false(hd_has_grad(o->w));
    assert_int_equal(hd_tape_length(), 0);
    assert_int_equal(hd_grad_context_id(), 0);
    hd_tensor *loss = hd_sum(hd_mul(hd_mul(hd_matmul(x, o->w), o->b), hd_randn(S(2, 2), HD_F32)), X(), NULL);
    hd_backward(loss);
    assert_true(hd_has_grad(o->w) && hd_has_grad(o->b));
    hd_optimizer_step(o->optimizer);
    hd_optimizer_step(o->optimizer);
    hd_optimizer_set_learning_rate(o->optimizer, 0.5);
    hd_optimizer_zero_grad(o->optimizer);
    hd_grad_context_push();
    {
        HD_NO_GRAD;
        hd_assign(o->view, x);
        hd_fill(hd_select(o->plain, 0, 0), 3);
        hd_mul_(o->w, x);
    }
    hd_backward(hd_exp(o->b));
    hd_rand(S(7), HD_F32);
    assert_ok();
}
static void is_as_it_was(world *o) {
    assert_at_once();
    assert_int_equal(hd_tape_length(), o->tape);
    assert_int_equal(hd_grad_context_id(), o->context);
    assert_int_equal(hd_generator_seed(NULL), o->seed);
    assert_int_equal(hd_generator_draw(NULL), o->draw);
    assert_false(hd_has_grad(o->b));
    assert_true(hd_tensor_requires_grad(o->w) && hd_tensor_requires_grad(o->result) &&
                !hd_tensor_requires_grad(o->plain));
    hd_tensor *now[8];
    look(o, now);
    for (int i = 0; i < 8; ++i) assert_identical(now[i], o->values[i]);
    hd_zero_grad(o->w);
    hd_backward(o->result); /* its history is there still */
    assert_identical(hd_grad(o->w), o->plain);
    hd_optimizer_step(o->optimizer);
    assert_true(hd_item(hd_optimizer_steps(o->optimizer)) == 2);
    hd_optimizer_zero_grad(o->optimizer);
    assert_ok();
}

static void after_the_end_all_is_as_it_was(void **state) {
    (void)state;
    HD_SCOPE;
    world o = make_world();
    hd_builder *b = started("world");
    shake(&o);
    hd_builder_end(b);
    is_as_it_was(&o);
}
static void an_abandoned_builder_leaves_all_as_it_was(void **state) {
    (void)state;
    HD_SCOPE;
    world o = make_world();
    {
        HD_SCOPE;
        started("abandoned");
        shake(&o);
    }
    is_as_it_was(&o);
    hd_builder *b = hd_retain(started("released"));
    hd_release(b);
    hd_release(b); /* while it is active */
    is_as_it_was((world[]){make_world()});
}
static void after_an_end_with_an_error_all_is_as_it_was(void **state) {
    (void)state;
    HD_SCOPE;
    world o = make_world();
    hd_builder *b = started("error");
    shake(&o);
    hd_add(hd_ones(S(2), HD_F32), hd_ones(S(3), HD_F32));
    assert_false(hd_ok());
    hd_builder_end(b);
    assert_null(hd_thread_self()->recording);
    assert_error(HD_ERROR_SHAPE, "hd_add:"); /* the first error is still the one */
    is_as_it_was(&o);
}
static void an_eager_block_inside_sees_the_world_outside(void **state) {
    (void)state;
    HD_SCOPE;
    world o = make_world();
    hd_builder *b = started("eager");
    shake(&o);
    {
        HD_EAGER;
        assert_int_equal(hd_tape_length(), o.tape);
        hd_tensor *now[8];
        look(&o, now);
        for (int i = 0; i < 8; ++i) assert_identical(now[i], o.values[i]);
    }
    hd_builder_end(b);
    is_as_it_was(&o);
}

/* Writing a tracked value into a tensor from outside gives it a history on the builder's tape only. */
static void histories_outside_are_as_they_were(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32)), *buffer = hd_zeros(S(2), HD_F32), *result = hd_mul(w, w);
    hd_builder *b = started("histories");
    hd_assign(buffer, hd_exp(w)); /* tracked now, inside */
    assert_true(hd_tensor_requires_grad(buffer));
    hd_assign(result, hd_input("x", S(2), HD_F32)); /* a constant now, inside */
    assert_false(hd_tensor_requires_grad(result));
    hd_builder_end(b);
    assert_ok();
    const bool buffer_tracked = hd_tensor_requires_grad(buffer), result_tracked = hd_tensor_requires_grad(result);
    assert_false(buffer_tracked);
    assert_true(result_tracked);
    hd_backward(result);
    assert_close(hd_grad(w), hd_mul_scalar(hd_detach(w), 2), 1e-6, 0);
    assert_non_null(hd_requires_grad(buffer));
}

/* ---- contexts and blocks that overlap with a builder ------------------------------------------------------------- */
static void the_builder_has_its_own_context(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32));
    HD_GRAD_CONTEXT;
    hd_tensor *y = hd_exp(w);
    const int64_t id = hd_grad_context_id();
    assert_int_not_equal(id, 0);
    hd_builder *b = started("context");
    assert_int_equal(hd_grad_context_id(), 0);
    hd_backward(hd_exp(w));
    hd_clear_tape();
    hd_clear_default_context_tape();
    assert_int_equal(hd_tape_length(), 0);
    hd_builder_end(b);
    assert_int_equal(hd_grad_context_id(), id);
    assert_int_equal(hd_tape_length(), 1);
    hd_backward(y);
    assert_identical(hd_grad(w), y);
}

static void a_loss_from_outside_has_no_history_inside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32)), *y = hd_exp(w);
    hd_builder *b = started("loss");
    hd_backward(y);
    assert_false(hd_ok());
    hd_error_clear();
    hd_tensor *z = hd_mul(y, y); /* but acts as a leaf */
    hd_backward(z);
    assert_ok();
    assert_false(hd_has_grad(w));
    hd_builder_end(b);
    hd_backward(z);
    assert_false(hd_ok()); /* nor the other way round */
    hd_error_clear();
    hd_clear_tape();
}

/* A block that began before the builder and ends inside it ends what it began. */
static void blocks_that_overlap_with_a_builder_end(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32));
    hd_builder *b = hd_builder_new("overlap");
    {
        HD_NO_GRAD;
        hd_builder_start(b);
        assert_true(hd_tensor_requires_grad(hd_exp(w))); /* the builder's own context has a tape */
    }
    hd_builder_end(b);
    hd_tensor *y = hd_exp(w);
    const bool tracked = hd_tensor_requires_grad(y);
    if (!tracked) hd_grad_context_pop(0), hd_error_clear();
    assert_true(tracked);
    hd_clear_tape();
}
static void blocks_begun_inside_may_end_outside(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32));
    HD_GRAD_CONTEXT;
    const int64_t id = hd_grad_context_id();
    hd_builder *b = started("inside");
    {
        HD_NO_GRAD;
        {
            HD_GRAD_CONTEXT;
            hd_builder_end(b);
            assert_int_equal(hd_grad_context_id(), id);
        }
        assert_int_equal(hd_grad_context_id(), id);
        assert_true(hd_tensor_requires_grad(hd_exp(w)));
    }
    assert_int_equal(hd_grad_context_id(), id);
    assert_true(hd_tensor_requires_grad(hd_exp(w)));
    assert_ok();
}

static hd_tensor *ends_the_builder(hd_tensor *gradient, void *user) {
    (void)gradient;
    hd_builder_end(user);
    return NULL;
}
static void a_hook_cannot_end_the_builder_it_runs_in(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32));
    hd_builder *b = started("hook");
    hd_tensor *y = hd_exp(w);
    hd_add_grad_hook(y, ends_the_builder, b);
    hd_backward(hd_mul(y, y));
    hd_error_clear(); /* an error or not: nothing that is still needed went */
    hd_builder_end(b);
    hd_error_clear();
    assert_at_once();
}
static hd_tensor *starts_a_builder(hd_tensor *gradient, void *user) {
    (void)gradient;
    hd_builder_start(user);
    return NULL;
}
static void a_hook_cannot_start_a_builder_under_backward(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32));
    hd_builder *b = hd_builder_new("hook");
    hd_tensor *y = hd_exp(w);
    hd_add_grad_hook(y, starts_a_builder, b);
    hd_backward(hd_mul(y, y));
    hd_error_clear();
    if (hd_thread_self()->recording != NULL) hd_builder_end(b);
    hd_error_clear();
    assert_at_once();
    hd_clear_tape();
}

static hd_tensor *exp_in_a_new_builder(hd_tensors *inputs, void *user) {
    hd_builder_start(user);
    return hd_exp(hd_tensors_get(inputs, 0));
}
/* Functions that the library calls may do what they like with builders: an error at most. */
static void functions_that_start_a_builder_do_no_harm(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(2), 0, HD_F32)), *exact = operand(S(2), 0, HD_F64);
    hd_builder *b = hd_builder_new("in a recomputation"), *c = hd_builder_new("in a check");
    hd_recompute(exp_in_a_new_builder, b, HD_TENSORS(w));
    hd_error_clear();
    if (hd_thread_self()->recording != NULL) hd_builder_end(b);
    hd_error_clear();
    hd_gradcheck(exp_in_a_new_builder, c, HD_TENSORS(exact), NULL);
    hd_error_clear();
    if (hd_thread_self()->recording != NULL) hd_builder_end(c);
    hd_error_clear();
    hd_clear_tape();
    assert_int_equal(hd_grad_context_id(), 0);
    assert_at_once();
    assert_true(hd_tensor_requires_grad(hd_exp(w)));
    hd_clear_tape();
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */
static void *records_alone(void *which) {
    HD_SCOPE;
    const char *name = which;
    hd_builder *b = hd_builder_new(name);
    hd_builder_start(b);
    for (int i = 0; i < 200; ++i) {
        char text[24];
        snprintf(text, sizeof text, "%s%d", name, i);
        hd_tensor *x = hd_input(text, S(2), HD_F32);
        hd_builder_add_output(b, text, hd_mul_scalar(x, i));
        if (i % 20 == 0) usleep(100);
    }
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    for (int i = 0; i < 200 && hd_ok(); ++i) {
        char text[24];
        snprintf(text, sizeof text, "%s%d", name, i);
        hd_script_set_input(s, text, hd_ones(S(2), HD_F32));
    }
    hd_outputs *o = hd_script_run(s);
    for (int i = 0; i < 200 && hd_ok(); ++i)
        if (hd_data_f32(hd_outputs_at(o, i))[1] != (float)i) return "a wrong output";
    if (!hd_ok()) {
        static _Thread_local char why[512];
        snprintf(why, sizeof why, "%s", hd_error_message());
        hd_error_clear();
        return why;
    }
    return NULL;
}
static void two_threads_record_two_builders(void **state) {
    (void)state;
    HD_SCOPE;
    pthread_t other;
    void *why;
    hd_builder *b = started("main"); /* this one is not affected, and affects no other */
    hd_tensor *x = hd_input("x", S(1), HD_F32);
    assert_int_equal(pthread_create(&other, NULL, records_alone, "a"), 0);
    hd_tensor *y = x;
    for (int i = 0; i < 200; ++i) y = hd_neg(y);
    pthread_join(other, &why);
    if (why != NULL) fail_msg("%s", (const char *)why);
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    assert_int_equal(hd_script_stats(s).nodes, 201);
}

static void *computes(void *unused) {
    (void)unused;
    HD_SCOPE;
    return hd_item(hd_add(hd_ones(S(), HD_F32), hd_ones(S(), HD_F32))) == 2 ? NULL : "not at once";
}
static void other_threads_run_at_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("main");
    pthread_t other;
    void *why;
    pthread_create(&other, NULL, computes, NULL);
    pthread_join(other, &why);
    assert_null(why);
    hd_builder_end(b);
}

static void *ends_it(void *builder) {
    hd_builder_end(builder);
    const bool refused = hd_error_code() == HD_ERROR_STATE;
    hd_error_clear();
    if (!refused) return "ended by another thread";
    hd_builder_add_input(builder, "x", S(1), HD_F32);
    const bool again = hd_error_code() == HD_ERROR_STATE;
    hd_error_clear();
    return again ? NULL : "an input by another thread";
}
static void builders_belong_to_the_thread_that_started_them(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("main");
    pthread_t other;
    void *why;
    pthread_create(&other, NULL, ends_it, b);
    pthread_join(other, &why);
    if (why != NULL) fail_msg("%s", (const char *)why);
    hd_builder_add_output(b, "y", hd_input("x", S(1), HD_F32));
    hd_builder_end(b);
    assert_ok();
}

static void *dies_recording(void *unused) {
    (void)unused;
    hd_tensor *w = hd_param(hd_ones(S(2), HD_F32));
    hd_exp(hd_exp(w)); /* something on the tape outside */
    hd_builder_start(hd_builder_new("dies"));
    hd_backward(hd_exp(hd_mul(w, hd_input("x", S(2), HD_F32))));
    return NULL;
}
static void a_thread_may_end_while_it_records(void **state) {
    (void)state;
    pthread_t other;
    pthread_create(&other, NULL, dies_recording, NULL);
    pthread_join(other, NULL);
    assert_int_equal(hd_live_objects(), 0);
}

/* What a tape saved in an HD_EAGER block, of a tensor that the recording has written, and what a later write leaves
 * behind are two things. */
static void a_tape_is_not_misled_by_recorded_writes(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(HD_TENSOR_F32(S(2), 2, 3)), *y;
    hd_builder *b = started("step");
    hd_builder_add_state(b, "w", w);
    {
        HD_NO_GRAD;
        hd_assign(w, hd_mul_scalar(w, 0.5));
    }
    {
        HD_EAGER;
        y = hd_sum(hd_mul(w, w), X(), NULL);
    }
    hd_builder_end(b);
    assert_ok();
    {
        HD_NO_GRAD;
        hd_fill(w, 7);
    }
    hd_backward(y);
    assert_error(HD_ERROR_STATE, "was changed in place");
}

RUN(test(what_is_recorded_runs_as_a_script), test(outputs_outlive_the_scope_they_were_made_in),
    test(building_twice_gives_independent_scripts), test(inputs_need_an_active_builder),
    test(outputs_and_declarations_need_an_active_builder), test(starting_twice_is_an_error),
    test(one_builder_at_a_time), test(ending_what_is_not_active_is_an_error), test(building_needs_an_end_and_an_output),
    test(names_are_given_once), test(very_many_names_are_quick), test(names_are_not_empty), test(names_are_not_endless),
    test(inputs_have_a_real_type), test(tensors_and_builders_must_be_alive), test(outputs_are_this_builders),
    test(recorded_values_mean_nothing_outside), test(the_composite_is_named_that_made_a_value),
    test(recorded_values_cannot_be_read), test(values_from_outside_can_be_read), test(what_was_written_cannot_be_read),
    test(eager_blocks_run_at_once), test(an_eager_block_left_by_return_ends),
    test(modules_and_optimizers_are_made_at_once), test(parameters_are_no_recorded_values),
    test(buffers_are_no_recorded_values), test(after_the_end_all_is_as_it_was),
    test(an_abandoned_builder_leaves_all_as_it_was), test(after_an_end_with_an_error_all_is_as_it_was),
    test(an_eager_block_inside_sees_the_world_outside), test(histories_outside_are_as_they_were),
    test(the_builder_has_its_own_context), test(a_loss_from_outside_has_no_history_inside),
    test(blocks_that_overlap_with_a_builder_end), test(blocks_begun_inside_may_end_outside),
    test(a_hook_cannot_end_the_builder_it_runs_in), test(a_hook_cannot_start_a_builder_under_backward),
    test(functions_that_start_a_builder_do_no_harm), test(two_threads_record_two_builders),
    test(other_threads_run_at_once), test(builders_belong_to_the_thread_that_started_them),
    test(a_thread_may_end_while_it_records), test(a_tape_is_not_misled_by_recorded_writes))
