/* HD_AUTOCAST: which calls compute in small floats, at once, on tapes, in builders and compiled models; and its end. */
#include "builders.h"
#include "each_allocation.h"

#include <math.h>
#include <setjmp.h>

static hd_tensor *numbers(hd_shape shape, double from, hd_dtype dtype) {
    hd_tensor *t = hd_arange(from, from + (double)hd_shape_count(shape), 1, HD_F64);
    return hd_cast(hd_reshape(hd_sin(t), shape), dtype);
}
#define assert_dtype(t, wanted) assert_int_equal(hd_tensor_dtype(t), wanted)

/* ---- lists ------------------------------------------------------------------------------------------------------- */
static void products_are_in_the_small_dtype(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16};
    for (int i = 0; i < 2; ++i) {
        HD_SCOPE;
        const hd_dtype d = dtypes[i];
        hd_tensor *a = numbers(HD_SHAPE(4, 6), 0, HD_F32), *b = numbers(HD_SHAPE(6, 5), 1, HD_F32);
        hd_tensor *bias = numbers(HD_SHAPE(5), 2, HD_F32), *x = numbers(HD_SHAPE(2, 3, 8, 8), 3, HD_F32);
        hd_tensor *w = numbers(HD_SHAPE(4, 3, 3, 3), 4, HD_F32), *v = numbers(HD_SHAPE(3, 4, 3, 3), 5, HD_F32);
        hd_tensor *q = numbers(HD_SHAPE(2, 4, 8), 6, HD_F32), *mask = numbers(HD_SHAPE(4, 4), 7, HD_F32);
#define CAST(t) hd_cast(t, d)
        hd_tensor *wanted[] = {hd_matmul(CAST(a), CAST(b)),
                               hd_affine(CAST(a), CAST(hd_contiguous(hd_t(b))), CAST(bias)),
                               hd_conv2d(CAST(x), CAST(w), NULL, NULL),
                               hd_conv_transpose2d(CAST(x), CAST(v), NULL, NULL),
                               hd_attention(CAST(q), CAST(q), CAST(q), mask, false, 0),
                               hd_einsum("ij,jk->ik", (hd_tensor *const[]){CAST(a), CAST(b)}, 2)};
        HD_AUTOCAST(d);
        hd_tensor *got[] = {hd_matmul(a, b),
                            hd_affine(CAST(a), hd_contiguous(hd_t(b)), bias), /* one is small already */
                            hd_conv2d(x, w, NULL, NULL),
                            hd_conv_transpose2d(x, v, NULL, NULL),
                            hd_attention(q, q, q, mask, false, 0),
                            hd_einsum("ij,jk->ik", (hd_tensor *const[]){a, b}, 2)};
        for (int k = 0; k < 6; ++k) {
            assert_dtype(got[k], d);
            assert_same(got[k], wanted[k]);
        }
        assert_dtype(a, HD_F32); /* operands are what they were */
        assert_dtype(hd_matmul(hd_cast(a, HD_F64), b), HD_F64);
        assert_dtype(hd_matmul(hd_cast(a, HD_I32), hd_cast(b, HD_I32)), HD_I32);
        assert_int_equal(hd_autocast_dtype(), d);
    }
    assert_int_equal(hd_autocast_dtype(), HD_F32);
}

static void delicate_ops_are_in_f32(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_cast(hd_add_scalar(numbers(HD_SHAPE(4, 6), 0, HD_F32), 2), HD_BF16), *f = hd_cast(x, HD_F32);
    hd_tensor *image = hd_reshape(x, HD_SHAPE(2, 2, 6)), *wide = hd_cast(image, HD_F32);
    hd_tensor *target = hd_cast(HD_TENSOR_I64(HD_SHAPE(4), 0, 5, 2, 1), HD_I64), *ones = hd_ones(HD_SHAPE(6), HD_BF16);
#define ALL(x, image)                                                                                                  \
    {                                                                                                                  \
        hd_exp(x), hd_log(x), hd_pow(x, x), hd_pow_scalar(x, 0.3), hd_rsqrt(x), hd_softplus(x, 1, 20),                 \
            hd_sum(x, HD_AXES(1), NULL), hd_prod(x, HD_AXES(1), NULL), hd_cumsum(x, 1, NULL),                          \
            hd_mean(x, HD_AXES(), NULL), hd_var(x, HD_AXES(1), 1, NULL), hd_norm(x, 2, HD_AXES(), NULL),               \
            hd_logsumexp(x, HD_AXES(1), NULL), hd_softmax(x, 1), hd_log_softmax(x, 1),                                 \
            hd_layer_norm(x, 1, ones, ones, 1e-5), hd_rms_norm(x, ones, 1e-5),                                         \
            hd_group_norm(image, 1, NULL, NULL, 1e-5), hd_mse(x, hd_zeros_like(x), NULL),                              \
            hd_cross_entropy(x, target, NULL)                                                                          \
    }
    enum { OPS = 20 };
    hd_tensor *wanted[] = ALL(f, wide);
    HD_AUTOCAST(HD_BF16);
    hd_tensor *got[] = ALL(x, image);
    assert_int_equal(sizeof got / sizeof *got, OPS);
    for (int i = 0; i < OPS; ++i) {
        assert_dtype(got[i], HD_F32);
        assert_close(got[i], wanted[i], 1e-6, 1e-6);
    }
    assert_dtype(hd_relu(x), HD_BF16); /* and others as their operands */
    assert_dtype(hd_add(x, x), HD_BF16);
    assert_dtype(hd_add(x, f), HD_F32);
    assert_dtype(hd_exp(hd_cast(x, HD_F64)), HD_F64);
    assert_dtype(hd_max(x, HD_AXES(), NULL), HD_BF16);
}

/* ---- training ---------------------------------------------------------------------------------------------------- */
typedef struct net {
    hd_tensor *x, *target, *w, *b, *v;
} net;
static net net_of(void) {
    return (net){numbers(HD_SHAPE(5, 4), 0, HD_F32), numbers(HD_SHAPE(5, 2), 9, HD_F32),
                 hd_param(numbers(HD_SHAPE(6, 4), 1, HD_F32)), hd_param(numbers(HD_SHAPE(6), 2, HD_F32)),
                 hd_param(numbers(HD_SHAPE(6, 2), 3, HD_F32))};
}
/* Casts by hand where `by_hand`, as HD_AUTOCAST does them. */
static hd_tensor *loss_of(const net *n, bool by_hand) {
    if (!by_hand) return hd_mse(hd_matmul(hd_tanh(hd_affine(n->x, n->w, n->b)), n->v), n->target, NULL);
#define SMALL(t) hd_cast(t, HD_BF16)
    hd_tensor *h = hd_tanh(hd_affine(SMALL(n->x), SMALL(n->w), SMALL(n->b)));
    return hd_mse(hd_cast(hd_matmul(h, SMALL(n->v)), HD_F32), n->target, NULL);
}

static void gradients_come_back_in_f32(void **state) {
    (void)state;
    HD_SCOPE;
    const net n = net_of(), m = net_of();
    hd_tensor *loss;
    {
        HD_AUTOCAST(HD_BF16);
        loss = loss_of(&n, false);
        assert_dtype(loss, HD_F32);
    }
    hd_backward(loss);
    hd_tensor *other = loss_of(&m, true);
    hd_backward(other);
    assert_same(loss, other);
    hd_tensor *const a[] = {n.w, n.b, n.v}, *const b[] = {m.w, m.b, m.v};
    for (int i = 0; i < 3; ++i) {
        assert_dtype(hd_grad(a[i]), HD_F32);
        assert_same(hd_grad(a[i]), hd_grad(b[i]));
        hd_zero_grad(a[i]);
    }
    HD_AUTOCAST(HD_BF16); /* backward inside the block is the same */
    hd_backward(loss);
    for (int i = 0; i < 3; ++i) assert_same(hd_grad(a[i]), hd_grad(b[i]));
    assert_int_equal(hd_autocast_dtype(), HD_BF16);
    hd_clear_tape();
}

static hd_tensor *again(hd_tensors *inputs, void *user) {
    (void)user;
    return hd_exp(hd_matmul(hd_tensors_get(inputs, 0), hd_tensors_get(inputs, 1)));
}
static void what_is_computed_again_is_computed_alike(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(numbers(HD_SHAPE(3, 4), 0, HD_F32)), *y = hd_param(numbers(HD_SHAPE(4, 2), 1, HD_F32));
    hd_tensor *result, *plain;
    {
        HD_AUTOCAST(HD_BF16);
        result = hd_recompute(again, NULL, HD_TENSORS(x, y));
        plain = again(HD_TENSORS(x, y), NULL);
    }
    assert_same(result, plain);
    hd_backward(result);
    hd_tensor *gradient = hd_copy(hd_grad(x));
    assert_ok();
    hd_zero_grad(x);
    hd_backward(plain);
    assert_same(hd_grad(x), gradient);
    hd_clear_tape();
}

static void a_script_has_the_casts(void **state) {
    (void)state;
    HD_SCOPE;
    const net n = net_of(), m = net_of();
    hd_optimizer *o[2] = {hd_adam(HD_TENSORS(n.w, n.b, n.v), 0.1, NULL), hd_adam(HD_TENSORS(m.w, m.b, m.v), 0.1, NULL)};
    hd_builder *b = started("mixed");
    hd_builder_add_state(b, "w", m.w);
    hd_builder_add_state(b, "b", m.b);
    hd_builder_add_state(b, "v", m.v);
    hd_builder_add_state_of(b, NULL, o[1]);
    hd_optimizer_zero_grad(o[1]);
    hd_script *s;
    {
        HD_AUTOCAST(HD_BF16);
        hd_tensor *exact, *loss = loss_of(&m, false);
        {
            HD_AUTOCAST(HD_F32); /* left out; and building inside the block changes nothing */
            exact = hd_matmul(m.x, hd_t(m.w));
        }
        hd_builder_add_output(b, "loss", loss);
        hd_builder_add_output(b, "exact", exact);
        hd_backward(loss);
        hd_optimizer_step(o[1]);
        s = built(b);
    }
    for (int i = 0; i < 3; ++i) {
        hd_tensor *loss, *exact = hd_matmul(n.x, hd_t(n.w));
        {
            HD_AUTOCAST(HD_BF16);
            hd_optimizer_zero_grad(o[0]);
            loss = loss_of(&n, false);
        }
        hd_backward(loss);
        hd_optimizer_step(o[0]);
        hd_outputs *out = hd_script_run(s);
        assert_ok();
        assert_dtype(hd_outputs_get(out, "exact"), HD_F32);
        assert_close(hd_outputs_get(out, "loss"), loss, 2e-2, 1e-3);
        if (i == 0) assert_close(hd_outputs_get(out, "exact"), exact, 1e-5, 1e-5);
    }
    assert_close(m.v, n.v, 0.05, 0.05);
    hd_clear_tape();
}

static void a_compiled_model_is_captured_for_each_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    hd_module *model = hd_linear(4, 3, NULL),
              *compiled = hd_compile(model, HD_OPTS(hd_compile_opts, .backend = HD_BACKEND_GRAPH));
    hd_tensor *x = numbers(HD_SHAPE(2, 4), 0, HD_F32);
    HD_NO_GRAD;
    for (int i = 0; i < 2; ++i) {
        assert_dtype(hd_forward(compiled, x), HD_F32);
        HD_AUTOCAST(HD_BF16);
        hd_tensor *y = hd_forward(compiled, x);
        assert_dtype(y, HD_BF16);
        assert_same(y, hd_forward(model, x));
    }
    assert_int_equal(hd_compile_stats(compiled).captures, 2);
    assert_int_equal(hd_compile_stats(compiled).hits, 2);
}

/* ---- f16 with a scaler ------------------------------------------------------------------------------------------- */
static void small_gradients_in_f16_come_through_a_scaler(void **state) {
    (void)state;
    HD_SCOPE;
    for (int scaled = 0; scaled < 2; ++scaled) {
        hd_tensor *w = hd_param(hd_full(HD_SHAPE(1, 1), HD_F32, 1e-3)), *x = hd_full(HD_SHAPE(1, 1), HD_F32, 1e-3);
        hd_optimizer *o = hd_sgd(HD_TENSORS(w), 1, NULL);
        hd_scaler *s = hd_scaler_new(HD_OPTS(hd_scaler_opts, .initial = scaled ? 1024 : 1));
        hd_tensor *loss;
        {
            HD_AUTOCAST(HD_F16);
            loss = hd_mul_scalar(hd_cast(hd_matmul(x, w), HD_F32), 1e-6); /* of 1e-9 in f16: nothing is left */
        }
        hd_backward(hd_scaler_scale(s, loss));
        hd_scaler_step(s, o);
        hd_scaler_update(s);
        hd_tensor *moved = hd_rsub_scalar(hd_detach(w), (double)1e-3f);
        if (scaled)
            assert_close(moved, hd_full(HD_SHAPE(1, 1), HD_F32, 1e-9), 0.2, HD_ZERO);
        else
            assert_values(moved, HD_F32, 0);
    }
    hd_clear_tape();
}

/* ---- the block --------------------------------------------------------------------------------------------------- */
static void blocks_nest_and_end(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 2), HD_F32);
    for (int i = 0; i < 2; ++i) {
        HD_AUTOCAST(HD_BF16);
        {
            HD_AUTOCAST(HD_F16);
            assert_dtype(hd_matmul(a, a), HD_F16);
            {
                HD_AUTOCAST(HD_F32);
                assert_dtype(hd_matmul(a, a), HD_F32);
            }
        }
        assert_dtype(hd_matmul(a, a), HD_BF16);
        if (i == 0) continue; /* ends it, too */
    }
    assert_dtype(hd_matmul(a, a), HD_F32);
    hd_autocast_token token = hd_autocast_begin(&token, HD_BF16);
    assert_dtype(hd_matmul(a, a), HD_BF16);
    hd_autocast_end(&token);
    hd_autocast_end(&token);
    hd_autocast_end(NULL);
    assert_dtype(hd_matmul(a, a), HD_F32);
}

static void leaves(jmp_buf *out) {
    HD_AUTOCAST(HD_BF16);
    longjmp(*out, 1);
}
static void a_block_that_was_left_ends_with_the_scope_around_it(void **state) {
    (void)state;
    {
        HD_SCOPE;
        jmp_buf out;
        if (setjmp(out) == 0) leaves(&out);
        assert_int_equal(hd_autocast_dtype(), HD_BF16);
    }
    assert_int_equal(hd_autocast_dtype(), HD_F32);
}

static void other_dtypes_are_refused_and_errors_name_the_call(void **state) {
    (void)state;
    HD_SCOPE;
    {
        HD_AUTOCAST(HD_F64);
        assert_error(HD_ERROR_DTYPE, "HD_AUTOCAST: f64");
        assert_int_equal(hd_autocast_dtype(), HD_F32);
    }
    HD_AUTOCAST(HD_BF16);
    hd_matmul(hd_ones(HD_SHAPE(2, 3), HD_F32), hd_ones(HD_SHAPE(2, 3), HD_F32));
    assert_error(HD_ERROR_SHAPE, "hd_matmul: ");
}

static void computes(void) {
    hd_tensor *w = hd_param(hd_ones(HD_SHAPE(3, 3), HD_F32)), *q = hd_ones(HD_SHAPE(1, 2, 3), HD_F32), *loss;
    {
        HD_AUTOCAST(HD_BF16);
        loss = hd_mean(hd_exp(hd_matmul(hd_attention(q, hd_mul(q, hd_select(w, 0, 0)), q, NULL, false, 0), w)),
                       HD_AXES(), NULL);
    }
    hd_backward(loss);
}
static void memory_may_end_anywhere(void **state) {
    (void)state;
    each_allocation_fails(computes, 1000);
}

RUN(test(products_are_in_the_small_dtype), test(delicate_ops_are_in_f32), test(gradients_come_back_in_f32),
    test(what_is_computed_again_is_computed_alike), test(a_script_has_the_casts),
    test(a_compiled_model_is_captured_for_each_dtype), test(small_gradients_in_f16_come_through_a_scaler),
    test(blocks_nest_and_end), test(a_block_that_was_left_ends_with_the_scope_around_it),
    test(other_dtypes_are_refused_and_errors_name_the_call), test(memory_may_end_anywhere))
