/* Samplers: orders that follow from a seed and an epoch. */
#include "each_allocation.h"
#include "support_data.h"

#include <math.h>

static void read_order(hd_sampler *s, int64_t epoch, int64_t *out, int64_t count) {
    HD_SCOPE;
    hd_tensor *order = hd_sampler_order(s, epoch);
    assert_ok();
    assert_int_equal(hd_tensor_count(order), count);
    assert_true(hd_to_array(order, out, HD_I64, (size_t)count));
}

static void sequential_order_is_the_same_every_epoch(void **state) {
    (void)state;
    HD_SCOPE;
    hd_sampler *s = hd_sequential_sampler(4);
    assert_values(hd_sampler_order(s, 0), HD_I64, 0, 1, 2, 3);
    assert_values(hd_sampler_order(s, 9), HD_I64, 0, 1, 2, 3);
    assert_int_equal(hd_tensor_count(hd_sampler_order(hd_sequential_sampler(0), 0)), 0);
}

static void random_order_follows_from_seed_and_epoch(void **state) {
    (void)state;
    HD_SCOPE;
    int64_t a[200], b[200];
    int seen[200] = {0}, same_epoch = 0, same_seed = 0;
    hd_sampler *s = hd_random_sampler(200, 7);
    read_order(s, 3, a, 200);
    for (int i = 0; i < 200; ++i) seen[a[i]]++;
    for (int i = 0; i < 200; ++i) assert_int_equal(seen[i], 1);
    read_order(hd_random_sampler(200, 7), 3, b, 200);
    assert_memory_equal(a, b, sizeof a);
    read_order(s, 4, b, 200);
    for (int i = 0; i < 200; ++i) same_epoch += a[i] == b[i];
    read_order(hd_random_sampler(200, 8), 3, b, 200);
    for (int i = 0; i < 200; ++i) same_seed += a[i] == b[i];
    assert_true(same_epoch < 12 && same_seed < 12); /* one is expected */
}

static void every_order_of_few_items_is_as_probable(void **state) {
    (void)state;
    HD_SCOPE;
    int seen[27] = {0};
    hd_sampler *s = hd_random_sampler(3, 1);
    for (int64_t epoch = 0; epoch < 6000; ++epoch) {
        int64_t order[3];
        read_order(s, epoch, order, 3);
        seen[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int orders = 0;
    for (int i = 0; i < 27; ++i) {
        orders += seen[i] > 0;
        if (seen[i] > 0) assert_in_range(seen[i], 850, 1150); /* 1000, with a deviation of 29 */
    }
    assert_int_equal(orders, 6);
}

static void weights_are_probabilities(void **state) {
    (void)state;
    HD_SCOPE;
    static int64_t drawn[8000];
    int seen[4] = {0};
    hd_sampler *s = hd_weighted_sampler(HD_TENSOR_F32(HD_SHAPE(4), 1, 0, 5, 2), 8000, 11);
    read_order(s, 0, drawn, 8000);
    for (int i = 0; i < 8000; ++i) seen[drawn[i]]++;
    assert_in_range(seen[0], 850, 1150);
    assert_int_equal(seen[1], 0);
    assert_in_range(seen[2], 4800, 5200);
    assert_in_range(seen[3], 1850, 2150);
}

static void every_batch_has_its_share_of_each_class(void **state) {
    (void)state;
    HD_SCOPE;
    int64_t labels[200], order[200];
    int seen[200] = {0};
    for (int i = 0; i < 200; ++i) labels[i] = i < 100 ? 0 : i < 150 ? 1 : i < 180 ? 2 : 3;
    hd_sampler *s = hd_stratified_sampler(hd_from_data(labels, HD_SHAPE(200), HD_I64), 2);
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
        read_order(s, epoch, order, 200);
        for (int i = 0; i < 200; ++i) seen[order[i]]++;
        for (int batch = 0; batch < 10; ++batch) {
            int has[4] = {0};
            for (int i = 0; i < 20; ++i) has[labels[order[20 * batch + i]]]++;
            assert_in_range(has[0], 9, 11);
            assert_in_range(has[1], 4, 6);
            assert_in_range(has[2], 2, 4);
            assert_in_range(has[3], 1, 3);
        }
    }
    for (int i = 0; i < 200; ++i) assert_int_equal(seen[i], 5);
    assert_true(order[0] != 0 || order[1] != 100); /* shuffled inside a class */
}

static void backwards(int64_t epoch, int64_t *out, void *user) {
    for (int64_t i = 0; i < 3; ++i) out[i] = 2 - i + epoch;
    ++*(int *)user;
}
static void note_end(void *user) { *(int *)user = -1; }

static void a_function_says_the_order(void **state) {
    (void)state;
    int calls = 0;
    {
        HD_SCOPE;
        hd_sampler *s = hd_function_sampler(3, backwards, &calls, note_end);
        assert_values(hd_sampler_order(s, 0), HD_I64, 2, 1, 0);
        hd_loader *l = hd_loader_new(numbered(4), 3, HD_OPTS(hd_loader_opts, .sampler = s));
        assert_values(hd_loader_next(l).y, HD_I64, 20, 10, 0);
        assert_values(hd_loader_next(l).y, HD_I64, 30, 20, 10);
        assert_int_equal(calls, 3);
        hd_loader_next(l); /* epoch 2 asks for item 4 */
        assert_error(HD_ERROR_INDEX, "the sampler's index 0 of epoch 2 is 4; there are 4 items");
    }
    assert_int_equal(calls, -1);
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_sequential_sampler(-1);
    assert_error(HD_ERROR_VALUE, "hd_sequential_sampler");
    hd_random_sampler(-1, 0);
    assert_error(HD_ERROR_VALUE, "hd_random_sampler");
    hd_weighted_sampler(NULL, 1, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_weighted_sampler");
    hd_weighted_sampler(hd_ones(HD_SHAPE(2, 2), HD_F32), 1, 0);
    assert_error(HD_ERROR_SHAPE, "hd_weighted_sampler: `weights` is [2,2]");
    hd_weighted_sampler(HD_TENSOR_F32(HD_SHAPE(2), 1, -1), 1, 0);
    assert_error(HD_ERROR_VALUE, "weight 1 is -1");
    hd_weighted_sampler(hd_zeros(HD_SHAPE(2), HD_F32), 1, 0);
    assert_error(HD_ERROR_VALUE, "add up to 0");
    hd_weighted_sampler(hd_full(HD_SHAPE(2), HD_F32, INFINITY), 1, 0);
    assert_error(HD_ERROR_VALUE, "hd_weighted_sampler");
    hd_weighted_sampler(hd_full(HD_SHAPE(2), HD_F32, NAN), 1, 0);
    assert_error(HD_ERROR_VALUE, "weight 0 is nan");
    hd_weighted_sampler(hd_ones(HD_SHAPE(2), HD_F32), -1, 0);
    assert_error(HD_ERROR_VALUE, "hd_weighted_sampler: an epoch of -1 items");
    hd_stratified_sampler(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_stratified_sampler");
    hd_stratified_sampler(hd_ones(HD_SHAPE(2), HD_F32), 0);
    assert_error(HD_ERROR_DTYPE, "`labels` is [2] of f32");
    hd_function_sampler(3, NULL, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_function_sampler");
    hd_sampler_order(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_sampler_order: `sampler`");
    hd_sampler_order(hd_sequential_sampler(3), -1);
    assert_error(HD_ERROR_VALUE, "epoch -1");
}

static void everything(void) {
    hd_sampler_order(hd_random_sampler(5, 1), 0);
    hd_sampler_order(hd_weighted_sampler(hd_ones(HD_SHAPE(3), HD_F32), 5, 1), 0);
    hd_sampler_order(hd_stratified_sampler(numbered_y(5), 1), 0);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(everything, 500);
}

RUN(test(sequential_order_is_the_same_every_epoch), test(random_order_follows_from_seed_and_epoch),
    test(every_order_of_few_items_is_as_probable), test(weights_are_probabilities),
    test(every_batch_has_its_share_of_each_class), test(a_function_says_the_order), test(wrong_arguments_are_named),
    test(each_allocation_may_fail))
