/* Norms of channels: running statistics, dtypes, layouts, what has no elements, and errors. Values and gradients are
 * PyTorch's, in grad/golden. */
#include "families.h"

/* ---- running statistics ------------------------------------------------------------------------------------------ */
enum { N = 3, C = 4, L = 5 };

/* The running ones after a batch of x, by plain loops: the mean, and the unbiased variance. */
static void move_by_loops(const double *x, double momentum, double mean[C], double variance[C]) {
    for (int c = 0; c < C; ++c) {
        double sum = 0, squares = 0;
        for (int i = 0; i < N * L; ++i) sum += x[(i / L * C + c) * L + i % L];
        for (int i = 0; i < N * L; ++i) {
            const double d = x[(i / L * C + c) * L + i % L] - sum / (N * L);
            squares += d * d;
        }
        mean[c] += momentum * (sum / (N * L) - mean[c]);
        variance[c] += momentum * (squares / (N * L - 1) - variance[c]);
    }
}

static void training_moves_running_statistics(void **state) {
    (void)state;
    for (int k = 0; k < 3; ++k) {
        HD_SCOPE;
        const double momentum = (const double[]){0.1, 0, 1}[k];
        hd_tensor *x = fixture(HD_SHAPE(N, C, L), HD_F64), *w = hd_param(hd_ones(HD_SHAPE(C), HD_F64));
        hd_tensor *mean = hd_zeros(HD_SHAPE(C), HD_F64), *variance = hd_ones(HD_SHAPE(C), HD_F64);
        const hd_shape channels = HD_SHAPE(C);
        double v[N * C * L], m[C] = {0}, s[C] = {1, 1, 1, 1};
        assert_true(hd_to_array(x, v, HD_F64, N * C * L));
        for (int round = 0; round < 2; ++round) {
            hd_tensor *y = hd_batch_norm(x, mean, variance, w, NULL, true, momentum, 1e-5);
            hd_backward(hd_sum(hd_square(y), HD_AXES(), NULL)); /* what was written is not what backward reads */
            move_by_loops(v, momentum, m, s);
            assert_tensor_close(mean, HD_F64, &channels, m, 1e-13);
            assert_tensor_close(variance, HD_F64, &channels, s, 1e-13);
            assert_false(hd_tensor_requires_grad(mean));
            assert_false(hd_tensor_requires_grad(variance));
        }
        hd_clear_tape();
    }
}

static void scripts_move_them_as_well(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shape = HD_SHAPE(N, C, L), channels = HD_SHAPE(C);
    hd_tensor *x = fixture(shape, HD_F32), *mean = hd_zeros(channels, HD_F32), *variance = hd_ones(channels, HD_F32);
    hd_tensor *own_mean = hd_copy(mean), *own_variance = hd_copy(variance);
    hd_builder *b = hd_builder_new("batch_norm");
    hd_builder_start(b);
    hd_builder_add_state(b, "mean", mean);
    hd_builder_add_state(b, "variance", variance);
    hd_builder_add_output(b, "y",
                          hd_batch_norm(hd_input("x", shape, HD_F32), mean, variance, NULL, NULL, true, 0.1, 1e-5));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    assert_ok();
    for (int round = 0; round < 2; ++round) {
        hd_script_set_input(s, "x", x);
        hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
        assert_close(y, hd_batch_norm(x, own_mean, own_variance, NULL, NULL, true, 0.1, 1e-5), 1e-5, 1e-5);
        assert_close(mean, own_mean, 1e-5, 1e-6);
        assert_close(variance, own_variance, 1e-5, 1e-6);
    }
}

static void evaluation_reads_them_alone(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = fixture(HD_SHAPE(2, 2, 3), HD_F32), *mean = HD_TENSOR_F32(HD_SHAPE(2), 1, -2),
              *variance = HD_TENSOR_F32(HD_SHAPE(2), 4, 1), *before = hd_copy(mean);
    hd_tensor *y = hd_batch_norm(x, mean, variance, NULL, NULL, false, 0.5, 0);
    hd_tensor *d = hd_sub(x, hd_reshape(mean, HD_SHAPE(2, 1)));
    assert_close(y, hd_div(d, HD_TENSOR_F32(HD_SHAPE(2, 1), 2, 1)), 1e-6, 1e-6);
    assert_same(mean, before);
    assert_values(variance, HD_F32, 4, 1);
}

static void running_statistics_keep_their_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = fixture(HD_SHAPE(4, 2, 3), HD_BF16), *mean = hd_zeros(HD_SHAPE(2), HD_F32),
              *variance = hd_ones(HD_SHAPE(2), HD_F16);
    assert_int_equal(hd_tensor_dtype(hd_batch_norm(x, mean, variance, NULL, NULL, true, 1, 0.1)), HD_BF16);
    assert_int_equal(hd_tensor_dtype(mean), HD_F32);
    assert_int_equal(hd_tensor_dtype(variance), HD_F16);
    assert_close(mean, hd_mean(hd_cast(x, HD_F32), HD_AXES(0, 2), NULL), 1e-6, 1e-6);
    assert_close(hd_cast(variance, HD_F32), hd_var(hd_cast(x, HD_F32), HD_AXES(0, 2), 1, NULL), 1e-3, 1e-3);
}

/* ---- all norms --------------------------------------------------------------------------------------------------- */
static hd_tensor *norm_of(int kind, hd_tensor *x, hd_tensor *w, hd_tensor *b) {
    switch (kind) {
    case 0: return hd_group_norm(x, 2, w, b, 0.1);
    case 1: return hd_instance_norm(x, w, b, 0.1);
    case 2: return hd_batch_norm(x, NULL, NULL, w, b, true, 0.1, 0.1);
    case 3: return hd_batch_norm(x, w, hd_square(b), b, w, false, 0.1, 0.1);
    case 4: return hd_local_response_norm(x, 3, 0.5, 0.75, 1);
    case 5: return hd_l2_normalize(x, 1, 0.1);
    default: return hd_cosine_similarity(x, hd_unsqueeze(w, 1), 1, 0.1);
    }
}
enum { KINDS = 7 };

static void small_floats_are_rounded_once(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind)
        for (int k = 0; k < 2; ++k) {
            HD_SCOPE;
            const hd_dtype dtype = k == 0 ? HD_BF16 : HD_F16;
            const double unit = k == 0 ? 0x1p-8 : 0x1p-11;
            hd_tensor *x = fixture(HD_SHAPE(2, 4, 6), dtype), *w = fixture(HD_SHAPE(4), dtype),
                      *b = hd_add_scalar(w, 1);
            hd_tensor *y = norm_of(kind, x, w, b);
            hd_tensor *exact = norm_of(kind, hd_cast(x, HD_F64), hd_cast(w, HD_F64), hd_cast(b, HD_F64));
            assert_int_equal(hd_tensor_dtype(y), dtype);
            if (kind == 3) continue; /* the square that stands for a variance is rounded before */
            assert_close(hd_cast(y, HD_F64), exact, unit * 1.01, 1e-5);
        }
}

static void dtypes_meet(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; ++kind) {
        HD_SCOPE;
        hd_tensor *x = fixture(HD_SHAPE(2, 4, 3), HD_F16), *w = fixture(HD_SHAPE(4), HD_F32);
        hd_tensor *y = norm_of(kind, x, w, w);
        assert_int_equal(hd_tensor_dtype(y), HD_F32);
        assert_same(y, norm_of(kind, hd_cast(x, HD_F32), w, w));
    }
}

static void any_layout(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind) {
        HD_SCOPE;
        hd_tensor *x = hd_permute(fixture(HD_SHAPE(3, 8, 4, 5), HD_F64), HD_AXES(0, 2, 3, 1)),
                  *w = hd_slice(fixture(HD_SHAPE(8), HD_F64), 0, 0, HD_END, 2);
        hd_tensor *wide = hd_broadcast_to(hd_slice(x, 0, 0, 1, 1), HD_SHAPE(3, 4, 5, 8));
        hd_tensor *in[2] = {x, wide};
        if (kind == KINDS - 1) w = hd_reshape(w, HD_SHAPE(4, 1));
        for (int i = 0; i < 2; ++i)
            assert_close(norm_of(kind, in[i], w, w), norm_of(kind, hd_contiguous(in[i]), hd_contiguous(w), w), 1e-12,
                         1e-12);
    }
}

static void what_has_no_elements(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_shape shapes[] = {HD_SHAPE(0, 4, 3), HD_SHAPE(2, 4, 0), HD_SHAPE(2, 0, 3)};
    for (int i = 0; i < 3; ++i) {
        hd_tensor *x = hd_zeros(shapes[i], HD_F32), *w = hd_ones(HD_SHAPE(shapes[i].size[1]), HD_F32);
        for (int kind = 0; kind < KINDS - 1; ++kind) {
            if (kind == 2 && i < 2) continue; /* an error: there is no mean */
            assert_true(hd_shape_equal(hd_tensor_shape(norm_of(kind, x, w, w)), shapes[i]));
        }
        assert_ok();
    }
    assert_values(hd_cosine_similarity(hd_zeros(HD_SHAPE(2, 0), HD_F32), hd_zeros(HD_SHAPE(0), HD_F32), 1, 1), HD_F32,
                  0, 0);
    assert_values(hd_l2_normalize(HD_TENSOR_F32(HD_SHAPE(2, 2), 0, 0, 3, 4), 1, 0), HD_F32, NAN, NAN, 0.6f, 0.8f);
    assert_values(hd_l2_normalize(HD_TENSOR_F32(HD_SHAPE(2), 3, 4), 0, 10), HD_F32, 0.3f, 0.4f);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void bad_images_and_scales(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 4, 3), HD_F32), *w = hd_ones(HD_SHAPE(3), HD_F32);
    assert_null(hd_group_norm(NULL, 2, NULL, NULL, 0.1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_group_norm: `x` is NULL");
    assert_null(hd_group_norm(x, 3, NULL, NULL, 0.1));
    assert_error(HD_ERROR_VALUE, "hd_group_norm: 3 groups of the channels of x [2,4,3]");
    assert_null(hd_group_norm(x, 0, NULL, NULL, 0.1));
    assert_error(HD_ERROR_VALUE, "hd_group_norm: 0 groups");
    assert_null(hd_group_norm(x, 2, w, NULL, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_group_norm: weight [3] for x [2,4,3]; it must be [4]");
    assert_null(hd_group_norm(x, 2, NULL, hd_ones(HD_SHAPE(4, 1), HD_F32), 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_group_norm: bias [4,1]");
    assert_null(hd_group_norm(x, 2, hd_ones(HD_SHAPE(4), HD_I32), NULL, 0.1));
    assert_error(HD_ERROR_DTYPE, "hd_group_norm: weight is i32; it takes floats");
    assert_null(hd_group_norm(w, 1, NULL, NULL, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_group_norm: x [3]; it must be [n, channels, ...]");
    assert_null(hd_group_norm(x, 2, NULL, NULL, -1));
    assert_error(HD_ERROR_VALUE, "hd_group_norm: eps = -1");
    assert_null(hd_instance_norm(hd_ones(HD_SHAPE(2, 4), HD_F32), NULL, NULL, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_instance_norm: x [2,4]; it must be [n, channels, one axis at least]");
    assert_null(hd_instance_norm(hd_ones(HD_SHAPE(2, 4, 3), HD_I64), NULL, NULL, 0.1));
    assert_error(HD_ERROR_DTYPE, "hd_instance_norm: x is i64");
    assert_null(hd_local_response_norm(x, 0, 1, 1, 1));
    assert_error(HD_ERROR_VALUE, "hd_local_response_norm: size = 0");
    assert_null(hd_l2_normalize(x, 3, 0));
    assert_error(HD_ERROR_AXIS, "hd_l2_normalize: axis 3");
    assert_null(hd_l2_normalize(x, 0, NAN));
    assert_error(HD_ERROR_VALUE, "hd_l2_normalize: eps");
    assert_null(hd_cosine_similarity(x, hd_ones(HD_SHAPE(2), HD_F32), 0, 0));
    assert_error(HD_ERROR_SHAPE, "hd_cosine_similarity: [2,4,3] and [2] do not broadcast");
    assert_null(hd_cosine_similarity(x, NULL, 0, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_cosine_similarity: `b` is NULL");
    assert_null(hd_cosine_similarity(x, hd_ones(HD_SHAPE(3), HD_BOOL), 0, 0));
    assert_error(HD_ERROR_DTYPE, "hd_cosine_similarity: b is bool");
}

static void bad_statistics(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 4, 3), HD_F32), *four = hd_ones(HD_SHAPE(4), HD_F32);
    assert_null(hd_batch_norm(x, NULL, NULL, NULL, NULL, false, 0.1, 0.1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_batch_norm: `running_mean` is NULL; outside training");
    assert_null(hd_batch_norm(x, four, NULL, NULL, NULL, true, 0.1, 0.1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_batch_norm: `running_variance` is NULL, and the other one is not");
    assert_null(hd_batch_norm(x, hd_ones(HD_SHAPE(3), HD_F32), four, NULL, NULL, true, 0.1, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_batch_norm: running_mean [3] for x [2,4,3]");
    assert_null(hd_batch_norm(x, four, hd_ones(HD_SHAPE(4), HD_I8), NULL, NULL, true, 0.1, 0.1));
    assert_error(HD_ERROR_DTYPE, "hd_batch_norm: running_variance is i8");
    assert_null(hd_batch_norm(x, four, four, NULL, NULL, true, 1.5, 0.1));
    assert_error(HD_ERROR_VALUE, "hd_batch_norm: momentum = 1.5");
    assert_null(hd_batch_norm(hd_ones(HD_SHAPE(1, 4), HD_F32), four, four, NULL, NULL, true, 0.1, 0.1));
    assert_error(HD_ERROR_SHAPE, "hd_batch_norm: x [1,4] has 1 elements for each channel");
    assert_values(four, HD_F32, 1, 1, 1, 1);
}

RUN(test(training_moves_running_statistics), test(scripts_move_them_as_well), test(evaluation_reads_them_alone),
    test(running_statistics_keep_their_dtype), test(small_floats_are_rounded_once), test(dtypes_meet), test(any_layout),
    test(what_has_no_elements), test(bad_images_and_scales), test(bad_statistics))
