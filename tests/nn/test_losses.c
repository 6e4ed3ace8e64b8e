/* Values and gradients of losses against PyTorch: the cases of tests/golden/losses.txt, written by
 * tests/golden/make_losses.py. Every function here has a case there, and the other way round. */
#include "each_allocation.h"

static hd_tensor *some_weights(int count) {
    static const double values[] = {1, 0.5, 2, 0.25};
    return hd_from_data(values, HD_SHAPE(count), HD_F64);
}
#define WEIGHT4 some_weights(4)
#define WEIGHT1 some_weights(1)

/* A loss of x and y with options, reduced in three ways. */
#define KINDS(G, name, loss, options, ...)                                                                             \
    G(name##_mean, loss(x, y, HD_OPTS(options, .reduction = HD_REDUCTION_MEAN, __VA_ARGS__)))                          \
    G(name##_sum, loss(x, y, HD_OPTS(options, .reduction = HD_REDUCTION_SUM, __VA_ARGS__)))                            \
    G(name##_none, loss(x, y, HD_OPTS(options, .reduction = HD_REDUCTION_NONE, __VA_ARGS__)))
#define KINDS3(G, name, loss, options, ...)                                                                            \
    G(name##_mean, loss(x, y, z, HD_OPTS(options, .reduction = HD_REDUCTION_MEAN, __VA_ARGS__)))                       \
    G(name##_sum, loss(x, y, z, HD_OPTS(options, .reduction = HD_REDUCTION_SUM, __VA_ARGS__)))                         \
    G(name##_none, loss(x, y, z, HD_OPTS(options, .reduction = HD_REDUCTION_NONE, __VA_ARGS__)))
/* The same with classes on axis 1, and on the last one. */
#define CLASSES(G, name, loss, options, ...)                                                                           \
    KINDS(G, name, loss, options, __VA_ARGS__)                                                                         \
    KINDS(G, axis_##name, loss, options, .class_axis = 1, __VA_ARGS__)

#define ALL(G)                                                                                                         \
    KINDS(G, mae, hd_mae, hd_loss_opts, )                                                                              \
    KINDS(G, huber, hd_huber, hd_huber_opts, )                                                                         \
    KINDS(G, huber_delta, hd_huber, hd_huber_opts, .delta = 0.25)                                                      \
    KINDS(G, smooth_l1, hd_smooth_l1, hd_smooth_l1_opts, )                                                             \
    KINDS(G, smooth_l1_beta, hd_smooth_l1, hd_smooth_l1_opts, .beta = 2.5)                                             \
    KINDS(G, smooth_l1_zero, hd_smooth_l1, hd_smooth_l1_opts, .beta = HD_ZERO)                                         \
    KINDS(G, bce, hd_bce, hd_bce_opts, )                                                                               \
    KINDS(G, bce_weight, hd_bce, hd_bce_opts, .weight = WEIGHT4)                                                       \
    KINDS(G, bce_logits, hd_bce_with_logits, hd_bce_with_logits_opts, )                                                \
    KINDS(G, bce_logits_weight, hd_bce_with_logits, hd_bce_with_logits_opts, .weight = WEIGHT4)                        \
    KINDS(G, bce_logits_pos, hd_bce_with_logits, hd_bce_with_logits_opts, .pos_weight = WEIGHT4)                       \
    KINDS(G, bce_logits_both, hd_bce_with_logits, hd_bce_with_logits_opts, .weight = WEIGHT1, .pos_weight = WEIGHT4)   \
    KINDS(G, kl, hd_kl_div, hd_kl_div_opts, )                                                                          \
    KINDS(G, kl_log, hd_kl_div, hd_kl_div_opts, .log_target = true)                                                    \
    G(kl_batchmean, hd_kl_div(x, y, HD_OPTS(hd_kl_div_opts, .reduction = HD_REDUCTION_BATCH_MEAN)))                    \
    G(kl_log_batchmean,                                                                                                \
      hd_kl_div(x, y, HD_OPTS(hd_kl_div_opts, .reduction = HD_REDUCTION_BATCH_MEAN, .log_target = true)))              \
    G(kl_fixed_none, hd_kl_div(x, y, HD_OPTS(hd_kl_div_opts, .reduction = HD_REDUCTION_NONE)))                         \
    CLASSES(G, nll, hd_nll, hd_nll_opts, )                                                                             \
    CLASSES(G, nll_weight, hd_nll, hd_nll_opts, .weight = WEIGHT4)                                                     \
    CLASSES(G, nll_ignore, hd_nll, hd_nll_opts, .ignores = true, .ignore_index = 2)                                    \
    CLASSES(G, nll_both, hd_nll, hd_nll_opts, .weight = WEIGHT4, .ignores = true)                                      \
    CLASSES(G, ce, hd_cross_entropy, hd_cross_entropy_opts, )                                                          \
    CLASSES(G, ce_weight, hd_cross_entropy, hd_cross_entropy_opts, .weight = WEIGHT4)                                  \
    CLASSES(G, ce_ignore, hd_cross_entropy, hd_cross_entropy_opts, .ignores = true, .ignore_index = 2)                 \
    CLASSES(G, ce_smooth, hd_cross_entropy, hd_cross_entropy_opts, .label_smoothing = 0.25)                            \
    CLASSES(G, ce_all, hd_cross_entropy, hd_cross_entropy_opts, .weight = WEIGHT4, .ignores = true,                    \
            .label_smoothing = 0.25)                                                                                   \
    CLASSES(G, ce_shares, hd_cross_entropy, hd_cross_entropy_opts, )                                                   \
    CLASSES(G, ce_weight_shares, hd_cross_entropy, hd_cross_entropy_opts, .weight = WEIGHT4)                           \
    CLASSES(G, ce_smooth_shares, hd_cross_entropy, hd_cross_entropy_opts, .label_smoothing = 0.25)                     \
    KINDS(G, hinge, hd_hinge, hd_hinge_opts, )                                                                         \
    KINDS(G, hinge_margin, hd_hinge, hd_hinge_opts, .margin = 0.25)                                                    \
    KINDS(G, hinge_zero, hd_hinge, hd_hinge_opts, .margin = HD_ZERO)                                                   \
    KINDS(G, hinge_embedding, hd_hinge_embedding, hd_hinge_opts, )                                                     \
    KINDS(G, hinge_embedding_margin, hd_hinge_embedding, hd_hinge_opts, .margin = 0.25)                                \
    KINDS(G, hinge_embedding_zero, hd_hinge_embedding, hd_hinge_opts, .margin = HD_ZERO)                               \
    KINDS3(G, cosine, hd_cosine_embedding, hd_cosine_embedding_opts, )                                                 \
    KINDS3(G, cosine_margin, hd_cosine_embedding, hd_cosine_embedding_opts, .margin = 0.5)                             \
    KINDS3(G, cosine_below, hd_cosine_embedding, hd_cosine_embedding_opts, .margin = -0.5)                             \
    KINDS3(G, triplet, hd_triplet_margin, hd_triplet_margin_opts, )                                                    \
    KINDS3(G, triplet_p1, hd_triplet_margin, hd_triplet_margin_opts, .p = 1, .margin = 2.5)                            \
    KINDS3(G, triplet_p3, hd_triplet_margin, hd_triplet_margin_opts, .p = 3, .eps = 0.5)                               \
    KINDS3(G, triplet_swap, hd_triplet_margin, hd_triplet_margin_opts, .swap = true, .margin = 4)

#include "golden/cases.h"

static void losses_agree_with_pytorch(void **state) {
    (void)state;
    assert_int_equal(compare_all(HODU_TEST_DATA "/../golden/losses.txt"),
                     22); /* 1e4 and 2^-30, which small floats do not hold */
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */
/* Every loss with what it takes: a, b and c of one shape, [n, width], and class numbers or signs [n]. */
#define OF_PAIRS(L)                                                                                                    \
    L(mse, hd_loss_opts, "prediction", "target")                                                                       \
    L(mae, hd_loss_opts, "prediction", "target")                                                                       \
    L(huber, hd_huber_opts, "prediction", "target")                                                                    \
    L(smooth_l1, hd_smooth_l1_opts, "prediction", "target")                                                            \
    L(bce, hd_bce_opts, "prediction", "target")                                                                        \
    L(bce_with_logits, hd_bce_with_logits_opts, "logits", "target")                                                    \
    L(kl_div, hd_kl_div_opts, "prediction", "target")                                                                  \
    L(hinge, hd_hinge_opts, "prediction", "target")                                                                    \
    L(hinge_embedding, hd_hinge_opts, "distance", "target")

static void arguments_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *b = hd_ones(HD_SHAPE(2, 1), HD_F32);
#define CHECK_PAIR(loss, options, first, second)                                                                       \
    assert_null(hd_##loss(NULL, a, NULL));                                                                             \
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_" #loss ": `" first "`");                                                 \
    assert_null(hd_##loss(a, NULL, NULL));                                                                             \
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_" #loss ": `" second "`");                                                \
    assert_null(hd_##loss(a, b, NULL));                                                                                \
    assert_error(HD_ERROR_SHAPE, "hd_" #loss ": " first " [2,3] and " second " [2,1]");                                \
    assert_null(hd_##loss(a, a, HD_OPTS(options, .reduction = (hd_reduction_kind)9)));                                 \
    assert_error(HD_ERROR_VALUE, "hd_" #loss ": 9 is none of HD_REDUCTION_*");
    OF_PAIRS(CHECK_PAIR)
    hd_tensor *three = hd_ones(HD_SHAPE(3), HD_F32), *scalar = hd_ones(HD_SHAPE(), HD_F32),
              *two = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_mae(a, a, HD_OPTS(hd_loss_opts, .reduction = HD_REDUCTION_BATCH_MEAN)));
    assert_error(HD_ERROR_VALUE, "hd_mae: HD_REDUCTION_BATCH_MEAN is hd_kl_div's");
    assert_null(hd_kl_div(scalar, scalar, HD_OPTS(hd_kl_div_opts, .reduction = HD_REDUCTION_BATCH_MEAN)));
    assert_error(HD_ERROR_SHAPE, "hd_kl_div: HD_REDUCTION_BATCH_MEAN");
    assert_null(hd_bce(a, a, HD_OPTS(hd_bce_opts, .weight = two)));
    assert_error(HD_ERROR_SHAPE, "hd_bce: weight [2] does not broadcast to [2,3]");
    assert_null(hd_bce(three, three, HD_OPTS(hd_bce_opts, .weight = a)));
    assert_error(HD_ERROR_SHAPE, "hd_bce: weight [2,3] does not broadcast to [3]");
    assert_null(hd_bce_with_logits(a, a, HD_OPTS(hd_bce_with_logits_opts, .pos_weight = two)));
    assert_error(HD_ERROR_SHAPE, "hd_bce_with_logits: pos_weight [2]");
    static const double bad[] = {-1, INFINITY, NAN};
    for (int i = 0; i < 3; ++i) {
        assert_null(hd_huber(a, a, HD_OPTS(hd_huber_opts, .delta = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_huber: delta is");
        assert_null(hd_smooth_l1(a, a, HD_OPTS(hd_smooth_l1_opts, .beta = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_smooth_l1: beta is");
        assert_null(hd_triplet_margin(a, a, a, HD_OPTS(hd_triplet_margin_opts, .eps = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_triplet_margin: eps is");
        if (bad[i] == -1) continue; /* a margin may be below 0 */
        assert_null(hd_hinge(a, a, HD_OPTS(hd_hinge_opts, .margin = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_hinge: margin is");
        assert_null(hd_hinge_embedding(a, a, HD_OPTS(hd_hinge_opts, .margin = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_hinge_embedding: margin is");
        assert_null(hd_cosine_embedding(a, a, two, HD_OPTS(hd_cosine_embedding_opts, .margin = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_cosine_embedding: margin is");
        assert_null(hd_triplet_margin(a, a, a, HD_OPTS(hd_triplet_margin_opts, .margin = bad[i])));
        assert_error(HD_ERROR_VALUE, "hd_triplet_margin: margin is");
    }
    assert_null(hd_huber(a, a, HD_OPTS(hd_huber_opts, .delta = HD_ZERO)));
    assert_error(HD_ERROR_VALUE, "hd_huber: delta is 0");
}

static void vectors_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_ones(HD_SHAPE(2, 3), HD_F32), *signs = HD_TENSOR_I64(HD_SHAPE(2), 1, -1);
    hd_tensor *scalar = hd_ones(HD_SHAPE(), HD_F32), *three = hd_ones(HD_SHAPE(3), HD_F32);
    assert_null(hd_cosine_embedding(NULL, a, signs, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_cosine_embedding: `a`");
    assert_null(hd_cosine_embedding(a, NULL, signs, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_cosine_embedding: `b`");
    assert_null(hd_cosine_embedding(a, a, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_cosine_embedding: `target`");
    assert_null(hd_cosine_embedding(a, a, three, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_cosine_embedding: target [3] for vectors [2,3]");
    assert_null(hd_cosine_embedding(scalar, scalar, signs, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_cosine_embedding: a [] is no vector");
    assert_null(hd_cosine_embedding(a, a, signs, HD_OPTS(hd_cosine_embedding_opts, .reduction = (hd_reduction_kind)9)));
    assert_error(HD_ERROR_VALUE, "hd_cosine_embedding: 9");
    assert_null(hd_triplet_margin(NULL, a, a, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_triplet_margin: `anchor`");
    assert_null(hd_triplet_margin(a, NULL, a, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_triplet_margin: `positive`");
    assert_null(hd_triplet_margin(a, a, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_triplet_margin: `negative`");
    assert_null(hd_triplet_margin(a, a, three, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_triplet_margin: anchor [2,3] and negative [3]");
    assert_null(hd_triplet_margin(scalar, scalar, scalar, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_triplet_margin: anchor [] is no vector");
    assert_null(hd_triplet_margin(a, a, a, HD_OPTS(hd_triplet_margin_opts, .p = -1)));
    assert_error(HD_ERROR_VALUE, "hd_triplet_margin: p is -1");
    assert_null(hd_triplet_margin(a, a, a, HD_OPTS(hd_triplet_margin_opts, .reduction = (hd_reduction_kind)-1)));
    assert_error(HD_ERROR_VALUE, "hd_triplet_margin: -1");
}

static void classes_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *logs = hd_ones(HD_SHAPE(2, 3), HD_F32), *target = HD_TENSOR_I64(HD_SHAPE(2), 0, 2);
    hd_tensor *images = hd_ones(HD_SHAPE(2, 3, 4), HD_F32), *grid = hd_zeros(HD_SHAPE(2, 4), HD_I64);
    assert_null(hd_nll(NULL, target, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_nll: `logs`");
    assert_null(hd_nll(logs, NULL, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_nll: `target`");
    assert_null(hd_nll(logs, logs, NULL)); /* it takes no probabilities */
    assert_error(HD_ERROR_SHAPE, "hd_nll: logs [2,3] of f32 and target [2,3] of f32");
    assert_null(hd_nll(hd_ones(HD_SHAPE(), HD_F32), target, NULL));
    assert_error(HD_ERROR_SHAPE, "hd_nll: logs []");
    assert_null(hd_nll(logs, HD_TENSOR_I64(HD_SHAPE(2), 0, 3), NULL));
    assert_error(HD_ERROR_INDEX, "hd_nll");
    assert_null(hd_nll(logs, HD_TENSOR_I64(HD_SHAPE(2), 0, -1), NULL));
    assert_error(HD_ERROR_INDEX, "hd_nll: a class number of -1");
    assert_null(hd_nll(logs, target, HD_OPTS(hd_nll_opts, .weight = hd_ones(HD_SHAPE(2), HD_F32))));
    assert_error(HD_ERROR_SHAPE, "hd_nll: weight [2] for 3 classes");
    assert_null(hd_nll(logs, target, HD_OPTS(hd_nll_opts, .reduction = HD_REDUCTION_BATCH_MEAN)));
    assert_error(HD_ERROR_VALUE, "hd_nll: HD_REDUCTION_BATCH_MEAN");
    assert_null(hd_nll(logs, target, HD_OPTS(hd_nll_opts, .class_axis = 2)));
    assert_error(HD_ERROR_AXIS, "hd_nll");
    assert_null(hd_cross_entropy(images, grid, NULL)); /* classes are on the last axis */
    assert_error(HD_ERROR_SHAPE, "hd_cross_entropy: logits [2,3,4] of f32 and target [2,4]");
    assert_null(hd_cross_entropy(images, grid, HD_OPTS(hd_cross_entropy_opts, .class_axis = -4)));
    assert_error(HD_ERROR_AXIS, "hd_cross_entropy");
    assert_null(hd_cross_entropy(
        images, grid, HD_OPTS(hd_cross_entropy_opts, .class_axis = 1, .weight = hd_ones(HD_SHAPE(4), HD_F32))));
    assert_error(HD_ERROR_SHAPE, "hd_cross_entropy: weight [4] for 3 classes");
    assert_null(
        hd_cross_entropy(images, hd_full(HD_SHAPE(2, 4), HD_I64, -1), HD_OPTS(hd_cross_entropy_opts, .class_axis = 1)));
    assert_error(HD_ERROR_INDEX, "hd_cross_entropy: a class number of -1");
}

/* ---- what is special ------------------------------------------------------------------------------------------------ */
static void the_class_axis_may_be_the_first_one(void **state) {
    (void)state;
    HD_SCOPE; /* 0 is the default, so that the first axis is counted from the end */
    hd_tensor *logits = HD_TENSOR_F32(HD_SHAPE(2, 3), 1, 2, 3, 0, 5, -1), *target = HD_TENSOR_I64(HD_SHAPE(3), 0, 1, 1);
    assert_same(hd_cross_entropy(logits, target, HD_OPTS(hd_cross_entropy_opts, .class_axis = -2)),
                hd_cross_entropy(hd_t(logits), target, NULL));
}

/* |d| has no second derivative at 0, but its square has. */
static void huber_is_a_square_at_0(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_zeros(HD_SHAPE(), HD_F64)), *zero = hd_zeros(HD_SHAPE(), HD_F64);
    hd_tensors *first =
        hd_grad_of(hd_huber(x, zero, NULL), HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_values(hd_tensors_get(first, 0), HD_F64, 0);
    assert_values(hd_tensors_get(hd_grad_of(hd_tensors_get(first, 0), HD_TENSORS(x), NULL), 0), HD_F64, 1);
    hd_tensor *scaled = hd_smooth_l1(x, zero, HD_OPTS(hd_smooth_l1_opts, .beta = 0.5));
    first = hd_grad_of(scaled, HD_TENSORS(x), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    assert_values(hd_tensors_get(hd_grad_of(hd_tensors_get(first, 0), HD_TENSORS(x), NULL), 0), HD_F64, 2);
}

static void a_loss_that_has_met_nan_is_nan(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *nan = hd_full(HD_SHAPE(2, 3), HD_F32, NAN), *ones = hd_ones(HD_SHAPE(2, 3), HD_F32);
#define CHECK_NAN(loss, options, first, second)                                                                        \
    assert_true(isnan(hd_item(hd_##loss(nan, ones, NULL))));                                                           \
    assert_true(strcmp(#loss, "hinge_embedding") == 0 || isnan(hd_item(hd_##loss(ones, nan, NULL))));
    OF_PAIRS(CHECK_NAN)
    hd_tensor *target = HD_TENSOR_I64(HD_SHAPE(2), 1, -1), *classes = HD_TENSOR_I64(HD_SHAPE(2), 1, 0);
    assert_true(isnan(hd_item(hd_cosine_embedding(nan, ones, target, NULL))));
    assert_true(isnan(hd_item(hd_triplet_margin(ones, ones, nan, NULL))));
    assert_true(isnan(hd_item(hd_nll(nan, classes, NULL))));
    assert_true(isnan(hd_item(hd_cross_entropy(nan, classes, NULL))));
}

/* Sums of a thousand would be lost in small floats, and so would 0.28125 on its way be in the smallest. */
static void small_floats_are_rounded_once(void **state) {
    (void)state;
    HD_SCOPE;
    static const hd_dtype dtypes[] = {HD_BF16, HD_F16, HD_F8E5M2};
    for (int i = 0; i < 3; ++i) {
        hd_tensor *x = hd_cast(hd_full(HD_SHAPE(1000), HD_F32, 0.75), dtypes[i]),
                  *y = hd_zeros(HD_SHAPE(1000), dtypes[i]);
        assert_values(hd_mae(x, y, NULL), dtypes[i], 0.75);
        assert_values(hd_cast(hd_smooth_l1(x, y, NULL), HD_F32), HD_F32,
                      hd_item(hd_cast(hd_full(HD_SHAPE(), HD_F32, 0.28125), dtypes[i])));
    }
    assert_int_equal(hd_tensor_dtype(hd_mae(hd_ones(HD_SHAPE(2), HD_BF16), hd_ones(HD_SHAPE(2), HD_F32), NULL)),
                     HD_F32);
    assert_int_equal(hd_tensor_dtype(hd_bce(hd_ones(HD_SHAPE(2), HD_BF16), hd_ones(HD_SHAPE(2), HD_I64), NULL)),
                     HD_BF16);
    assert_values(hd_mae(HD_TENSOR_I64(HD_SHAPE(2), 1, 2), HD_TENSOR_I64(HD_SHAPE(2), 2, 5), NULL), HD_F32, 2);
}

static void all_losses(void) {
    hd_tensor *a = hd_param(hd_full(HD_SHAPE(2, 3), HD_F32, 0.25)), *b = hd_full(HD_SHAPE(2, 3), HD_F32, 0.5);
    hd_tensor *total = hd_zeros(HD_SHAPE(), HD_F32);
#define ADD_LOSS(loss, options, first, second) total = hd_add(total, hd_##loss(a, b, NULL));
    OF_PAIRS(ADD_LOSS)
    hd_tensor *target = HD_TENSOR_I64(HD_SHAPE(2), 1, 0), *turned = HD_TENSOR_I64(HD_SHAPE(3), 1, 0, 1);
    total = hd_add(total, hd_cosine_embedding(a, b, target, NULL));
    total = hd_add(total, hd_triplet_margin(a, b, b, NULL));
    total = hd_add(total, hd_nll(a, target, HD_OPTS(hd_nll_opts, .ignores = true)));
    total = hd_add(total, hd_cross_entropy(a, turned, HD_OPTS(hd_cross_entropy_opts, .class_axis = -2)));
    hd_backward(total);
    hd_grad(a);
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    not_on_a_device("memory of the host's is counted");
    each_allocation_fails(all_losses, 2000);
}

RUN(test(losses_agree_with_pytorch), test(arguments_are_checked), test(vectors_are_checked), test(classes_are_checked),
    test(the_class_axis_may_be_the_first_one), test(huber_is_a_square_at_0), test(a_loss_that_has_met_nan_is_nan),
    test(small_floats_are_rounded_once), test(any_allocation_may_fail))
