/* Multi-head attention beyond its numbers, which test_layers_golden.c compares: steps with caches, at once and in a
 * script, dropout of weights, rotations and waves, what it refuses. */
#include "each_allocation.h"
#include "builders.h"

#include <math.h>

#define HEADS(...) HD_OPTS(hd_multihead_attention_opts, __VA_ARGS__)
#define TURNED     HEADS(.causal = true, .kv_heads = 2, .rotary = true)

/* ---- steps ------------------------------------------------------------------------------------------------------- */
static void steps_give_what_the_whole_gives(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_multihead_attention(8, 4, TURNED);
    hd_tensor *x = hd_randn(HD_SHAPE(3, 5, 8), HD_F32), *whole = hd_forward(m, x), *steps[3];
    hd_tensor *keys = hd_zeros(HD_SHAPE(3, 2, 7, 2), HD_F32), *values = hd_zeros(HD_SHAPE(3, 2, 7, 2), HD_F32);
    const int64_t begin[4] = {0, 3, 4, 5}; /* three at once, then one by one */
    for (int i = 0; i < 3; ++i)
        steps[i] = hd_multihead_attention_step(m, hd_narrow(x, 1, begin[i], begin[i + 1] - begin[i]), keys, values,
                                               hd_scalar((double)begin[i], HD_I64));
    assert_close(hd_concat(steps, 3, 1), whole, 1e-5, 1e-6);
    assert_same(hd_narrow(keys, 2, 5, 2), hd_zeros(HD_SHAPE(3, 2, 2, 2), HD_F32)); /* no place was written twice */
}

/* A script of one step, whose state are caches, runs through a sequence. */
static void a_script_of_a_step_runs_through_a_sequence(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *m = hd_multihead_attention(8, 4, TURNED);
    hd_tensor *x = hd_randn(HD_SHAPE(2, 6, 8), HD_F32), *whole = hd_forward(m, x);
    hd_tensor *keys = hd_zeros(HD_SHAPE(2, 2, 6, 2), HD_F32), *values = hd_zeros(HD_SHAPE(2, 2, 6, 2), HD_F32),
              *position = hd_zeros(HD_SHAPE(), HD_I64);
    hd_builder *b = started("step");
    hd_builder_add_state_of(b, m, NULL);
    hd_builder_add_state(b, "keys", keys);
    hd_builder_add_state(b, "values", values);
    hd_builder_add_state(b, "position", position);
    hd_tensor *now = hd_input("x", HD_SHAPE(2, 1, 8), HD_F32);
    hd_builder_add_output(b, "y", hd_multihead_attention_step(m, now, keys, values, position));
    hd_assign(position, hd_add_scalar(position, 1));
    hd_script *s = built(b);
    for (int64_t t = 0; t < 6; ++t) {
        hd_script_set_input(s, "x", hd_narrow(x, 1, t, 1));
        assert_close(output(s, "y"), hd_narrow(whole, 1, t, 1), 1e-5, 1e-6);
    }
    assert_int_equal(hd_item_i64(hd_script_state(s, "position")), 6);
    hd_script_set_input(s, "x", hd_narrow(x, 1, 0, 1)); /* there is no seventh place */
    assert_null(output(s, "y"));
    assert_error(HD_ERROR_INDEX, "6");
}

static void steps_have_no_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_clear_tape();
    hd_module *m = hd_multihead_attention(4, 2, NULL);
    hd_tensor *keys = hd_zeros(HD_SHAPE(2, 3, 2), HD_F32), *values = hd_zeros(HD_SHAPE(2, 3, 2), HD_F32);
    hd_tensor *y =
        hd_multihead_attention_step(m, hd_ones(HD_SHAPE(1, 4), HD_F32), keys, values, hd_zeros(HD_SHAPE(), HD_I64));
    assert_true(hd_shape_equal(hd_tensor_shape(y), HD_SHAPE(1, 4)));
    assert_int_equal(hd_tape_length(), 0);
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */
/* What drops next to nothing gives what drops nothing, whatever is masked; a row that sees nothing has no NaN. */
static void dropout_is_of_the_weights(void **state) {
    (void)state;
    HD_SCOPE;
    for (int kind = 0; kind < 5; ++kind) {
        HD_SCOPE;
        hd_module *m = hd_multihead_attention(6, 2, HEADS(.dropout = 1e-12, .causal = kind == 3, .dtype = HD_F64));
        hd_tensor *q = hd_randn(HD_SHAPE(2, 4, 6), HD_F64), *k = hd_randn(HD_SHAPE(2, 5, 6), HD_F64);
        hd_tensor *mask = hd_ge_scalar(hd_reshape(hd_arange(0, 20, 1, HD_I64), HD_SHAPE(4, 5)), 7);
        if (kind == 1) mask = hd_randn(HD_SHAPE(2, 1, 4, 5), HD_F64);
        if (kind == 2) mask = hd_where_scalar(mask, hd_randn(HD_SHAPE(4, 5), HD_F64), -INFINITY);
        hd_tensors *inputs = kind == 4 ? HD_TENSORS(q, k, k) : HD_TENSORS(q, k, k, mask),
                   *parameters = hd_module_parameters(m);
        hd_tensor *y[2];
        hd_tensors *g[2];
        for (int i = 0; i < 2; ++i) {
            i == 0 ? hd_module_train(m) : hd_module_eval(m);
            y[i] = hd_tensors_get(hd_forward_all(m, inputs), 0);
            g[i] = hd_grad_of(hd_sum(hd_square(y[i]), HD_AXES(), NULL), parameters, NULL);
        }
        assert_close(y[0], y[1], 1e-9, 1e-9);
        for (int64_t i = 0; i < hd_tensors_count(parameters); ++i)
            assert_close(hd_tensors_get(g[0], i), hd_tensors_get(g[1], i), 1e-8, 1e-8);
        hd_clear_tape();
    }
    hd_module *all = hd_multihead_attention(6, 2, HEADS(.dropout = 1, .no_bias = true));
    assert_same(hd_forward(all, hd_ones(HD_SHAPE(2, 6), HD_F32)), hd_zeros(HD_SHAPE(2, 6), HD_F32));
}

/* ---- places ------------------------------------------------------------------------------------------------------ */
/* Products of turned vectors depend on how far their places are apart alone; lengths stay; place 0 is not turned. */
static void rotations_know_distances(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_broadcast_to(hd_randn(HD_SHAPE(6), HD_F64), HD_SHAPE(9, 6)), *y = hd_rotary(x, NULL, 0);
    hd_tensor *z = hd_rotary(x, hd_arange(100, 109, 1, HD_I64), 0);
    assert_close(hd_matmul(y, hd_t(y)), hd_matmul(z, hd_t(z)), 1e-4, 1e-5);
    assert_same(hd_select(y, 0, 0), hd_select(x, 0, 0));
    assert_close(hd_norm(z, 2, HD_AXES(1), NULL), hd_norm(x, 2, HD_AXES(1), NULL), 1e-9, 1e-9);
    hd_tensor *one = hd_rotary(HD_TENSOR_F32(HD_SHAPE(1, 4), 1, 1, 0, 0), HD_TENSOR_I64(HD_SHAPE(1), 3), 100);
    assert_close(one, HD_TENSOR_F32(HD_SHAPE(1, 4), (float)cos(3), (float)cos(0.3), (float)sin(3), (float)sin(0.3)),
                 1e-6, 1e-6);
}

static void sinusoids_are_waves_of_each_place(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_sinusoids(5, 6, 0, HD_F64);
    double got[30];
    assert_true(hd_to_array(w, got, HD_F64, 30));
    for (int t = 0; t < 5; ++t)
        for (int i = 0; i < 3; ++i) {
            const double angle = t * pow(10000, -2.0 * i / 6);
            assert_true(fabs(got[6 * t + 2 * i] - sin(angle)) < 1e-12);
            assert_true(fabs(got[6 * t + 2 * i + 1] - cos(angle)) < 1e-12);
        }
    assert_int_equal(hd_tensor_dtype(hd_sinusoids(2, 2, 10, HD_DTYPE_DEFAULT)), HD_F32);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void run_some(void) {
    hd_module *m = hd_multihead_attention(4, 2, HEADS(.kv_heads = 1, .rotary = true, .dropout = 0.5));
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2, 4), HD_F32), *cache = hd_zeros(HD_SHAPE(1, 1, 3, 2), HD_F32);
    HD_FORWARD_ALL(m, x, x, x, hd_ones(HD_SHAPE(2, 2), HD_BOOL), hd_ones(HD_SHAPE(1, 2), HD_BOOL));
    hd_multihead_attention_step(m, x, cache, hd_copy(cache), hd_zeros(HD_SHAPE(), HD_I64));
    hd_multihead_attention(4, 2, HEADS(.key_width = 3));
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(run_some, 5000);
}

static void bad_arguments(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_multihead_attention(8, 4, HEADS(.kv_heads = 3)));
    assert_error(HD_ERROR_VALUE, "hd_multihead_attention: kv_heads = 3; it divides the heads, of which there are 4");
    assert_null(hd_multihead_attention(8, 4, HEADS(.key_width = -3)));
    assert_error(HD_ERROR_VALUE, "key_width = -3");
    assert_null(hd_multihead_attention(6, 2, HEADS(.rotary = true)));
    assert_error(HD_ERROR_VALUE, "rotations of heads of 3");
    hd_module *m = hd_multihead_attention(4, 2, NULL);
    hd_tensor *x = hd_ones(HD_SHAPE(1, 2, 4), HD_F32), *cache = hd_zeros(HD_SHAPE(1, 2, 3, 2), HD_F32),
              *zero = hd_zeros(HD_SHAPE(), HD_I64);
    assert_null(HD_FORWARD_ALL(m, x, x));
    assert_error(HD_ERROR_VALUE, "2 inputs; a multihead_attention takes x, or q, k and v");
    assert_null(HD_FORWARD_ALL(m, x, x, x, hd_ones(HD_SHAPE(2, 3), HD_BOOL)));
    assert_error(HD_ERROR_SHAPE, "[2,3] and [1,2,2,2] do not broadcast");
    assert_null(HD_FORWARD_ALL(m, x, x, x, hd_ones(HD_SHAPE(2, 2), HD_BOOL), x));
    assert_error(HD_ERROR_DTYPE, "the mask of keys is f32 [1,2,4]");
    assert_null(hd_multihead_attention_step(NULL, x, cache, cache, zero));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_multihead_attention_step: `module` is NULL");
    assert_null(hd_multihead_attention_step(hd_relu_layer(), x, cache, cache, zero));
    assert_error(HD_ERROR_VALUE, "the module is a relu; expected a multihead_attention");
    assert_null(hd_multihead_attention_step(m, x, x, cache, zero));
    assert_error(HD_ERROR_SHAPE, "keys [1,2,4] for x [1,2,4]; a cache is [..., 2 heads, places, 2]");
    assert_null(hd_multihead_attention_step(m, x, cache, NULL, zero));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`values` is NULL");
    assert_null(hd_multihead_attention_step(m, x, cache, cache, hd_ones(HD_SHAPE(2), HD_I64)));
    assert_error(HD_ERROR_DTYPE, "position [2] of i64");
    assert_null(hd_multihead_attention_step(m, x, cache, hd_copy(cache), hd_scalar(2, HD_I64)));
    assert_error(HD_ERROR_INDEX, "3");
    assert_null(hd_multihead_attention_step(m, x, cache, hd_copy(cache), hd_scalar(-1, HD_I64)));
    assert_error(HD_ERROR_INDEX, "");
    assert_null(hd_rotary(hd_ones(HD_SHAPE(4), HD_F32), NULL, 0));
    assert_error(HD_ERROR_SHAPE, "hd_rotary: x [4] of f32; it must be [..., t, d]");
    assert_null(hd_rotary(x, zero, 0));
    assert_error(HD_ERROR_SHAPE, "positions []; they are [2]");
    assert_null(hd_rotary(hd_ones(HD_SHAPE(2, 3), HD_F32), NULL, 0));
    assert_error(HD_ERROR_VALUE, "hd_rotary: a width of 3");
    assert_null(hd_rotary(NULL, NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_rotary: `x` is NULL");
    assert_null(hd_sinusoids(0, 4, 0, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_sinusoids: 0 places");
    assert_null(hd_sinusoids(2, 4, -1, HD_F32));
    assert_error(HD_ERROR_VALUE, "hd_sinusoids: a width of 4, and base -1");
    assert_null(hd_sinusoids(2, 4, 0, HD_I64));
    assert_error(HD_ERROR_DTYPE, "i64");
}

RUN(test(steps_give_what_the_whole_gives), test(a_script_of_a_step_runs_through_a_sequence),
    test(steps_have_no_gradient), test(dropout_is_of_the_weights), test(rotations_know_distances),
    test(sinusoids_are_waves_of_each_place), test(any_allocation_may_fail), test(bad_arguments))
