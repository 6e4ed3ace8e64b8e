/* Loaders: epochs of batches, the same with any number of workers; and what goes wrong in one. */
#include "each_allocation.h"
#include "in_a_child.h"
#include "support_data.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* ---- batches ----------------------------------------------------------------------------------------------------- */
static void batches_come_in_order_for_ever(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(numbered(5), 2, NULL);
    assert_int_equal(hd_loader_count(l), 3);
    for (int64_t epoch = 0; epoch < 3; ++epoch)
        for (int64_t i = 0; i < 3; ++i) {
            HD_SCOPE;
            assert_int_equal(hd_loader_epoch(l), epoch);
            hd_batch batch = hd_loader_next(l);
            assert_int_equal(batch.count, i < 2 ? 2 : 1);
            assert_int_equal(hd_tensor_size(batch.x, 0), batch.count);
            assert_int_equal(hd_tensors_count(batch.all), 2);
            assert_int_equal(hd_item_i64(hd_select(batch.y, 0, 0)), 20 * i);
            assert_true(hd_item(hd_select(hd_select(batch.x, 0, 0), 0, 1)) == 2.0 * (double)i + 0.5);
        }
    assert_int_equal(hd_loader_epoch(l), 3);
    hd_loader *whole = hd_loader_new(numbered(5), 2, HD_OPTS(hd_loader_opts, .drop_last = true));
    assert_int_equal(hd_loader_count(whole), 2);
    for (int i = 0; i < 5; ++i) assert_int_equal(hd_loader_next(whole).count, 2);
}

static void a_shuffled_epoch_has_every_item_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_batches(numbered_x(50), numbered_y(50), 8, NULL);
    int64_t first[2] = {-1, -1};
    for (int epoch = 0; epoch < 2; ++epoch) {
        int seen[50] = {0}, batches = 0;
        HD_BATCHES(batch, l) {
            int64_t y[8];
            assert_true(hd_to_array(batch.y, y, HD_I64, 8));
            for (int64_t i = 0; i < batch.count; ++i) seen[y[i] / 10]++;
            assert_close(hd_select(batch.x, 1, 0), hd_div_scalar(hd_cast(batch.y, HD_F32), 10), 1e-6, 0);
            if (first[epoch] < 0) first[epoch] = y[0] + 1000 * y[1];
            ++batches;
        }
        assert_int_equal(batches, 7);
        for (int i = 0; i < 50; ++i) assert_int_equal(seen[i], 1);
    }
    assert_int_equal(hd_loader_epoch(l), 2);
    assert_int_not_equal(first[0], first[1]); /* epochs differ */
}

static void hd_seed_decides_the_order_when_no_seed_is_given(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_range(0, 1, 100, HD_I64);
    hd_seed(3);
    hd_tensor *a = hd_loader_next(hd_batches(x, NULL, 100, NULL)).x,
              *other = hd_loader_next(hd_batches(x, NULL, 100, NULL)).x;
    hd_seed(3);
    hd_batch again = hd_loader_next(hd_batches(x, NULL, 100, NULL));
    assert_same(a, again.x);
    assert_null(again.y);
    assert_false(hd_allclose(a, other, NULL)); /* two loaders are two orders */
    hd_tensor *given[2];
    for (int i = 0; i < 2; ++i)
        given[i] = hd_loader_next(hd_batches(x, NULL, 100, HD_OPTS(hd_loader_opts, .seed = 9))).x;
    assert_same(given[0], given[1]);
    hd_seed(0);
}

static void an_epoch_may_be_left_and_goes_on(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(numbered(10), 2, NULL);
    int64_t live = hd_live_objects(), passes = 0;
    HD_BATCHES(batch, l) {
        hd_add(batch.x, batch.x);
        if (++passes == 2) break;
    }
    assert_int_equal(hd_live_objects(), live); /* what the block had made went with it */
    assert_int_equal(hd_loader_position(l).batch, 2);
    hd_tensor *kept = NULL;
    HD_BATCHES(batch, l) {
        passes++;
        if (kept == NULL) kept = hd_keep(batch.y);
    }
    assert_int_equal(passes, 5);
    assert_values(kept, HD_I64, 40, 50);
    hd_epoch_walk walk = hd_epoch_begin(l, __FILE__, __LINE__);
    assert_true(hd_epoch_next(&walk));
    assert_int_equal(walk.count, 2);
    hd_epoch_end(&walk);
    assert_false(hd_epoch_next(&walk));
    assert_false(hd_epoch_next(NULL));
    hd_epoch_end(NULL);
    HD_BATCHES(batch, NULL) fail();
    assert_error(HD_ERROR_NULL_ARGUMENT, "HD_BATCHES: `loader` is NULL");
}

static void batches_carry_no_gradient(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_param(hd_ones(HD_SHAPE(4, 2), HD_F32));
    hd_batch batch = hd_loader_next(hd_batches(x, NULL, 2, NULL));
    assert_false(hd_tensor_requires_grad(batch.x));
}

/* ---- items that are made: draws, stacking ------------------------------------------------------------------------ */
static hd_tensors *noisy(int64_t index, void *user) {
    (void)user;
    hd_tensor *x = hd_add_scalar(hd_rand(HD_SHAPE(3), HD_F64), (double)index);
    return HD_TENSORS(x, hd_scalar((double)index, HD_I64));
}
static hd_tensors *noisier(hd_tensors *item, void *user) {
    (void)user;
    return HD_TENSORS(hd_add(hd_tensors_get(item, 0), hd_randn(HD_SHAPE(3), HD_F64)), hd_tensors_get(item, 1));
}

static hd_loader *noisy_loader(int workers, int prefetch) {
    hd_dataset *d = hd_dataset_map(hd_function_dataset(23, noisy, NULL, NULL), noisier, NULL, NULL);
    return hd_loader_new(
        d, 4, HD_OPTS(hd_loader_opts, .shuffle = true, .seed = 77, .workers = workers, .prefetch = prefetch));
}

static void batches_do_not_depend_on_the_number_of_workers(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *plain = noisy_loader(0, 0), *others[] = {noisy_loader(1, 0), noisy_loader(2, 1), noisy_loader(4, 30)};
    hd_seed(5);
    for (int i = 0; i < 20; ++i) {
        HD_SCOPE;
        hd_batch a = hd_loader_next(plain);
        assert_int_equal(hd_tensor_rank(a.y), 1);
        for (int k = 0; k < 3; ++k) {
            hd_batch b = hd_loader_next(others[k]);
            assert_same(a.x, b.x);
            assert_same(a.y, b.y);
            assert_int_equal(a.count, b.count);
        }
        hd_rand(HD_SHAPE(1), HD_F32); /* the thread's own draws are another matter */
    }
    assert_int_equal(hd_generator_draw(NULL), 20);
    assert_int_equal(hd_generator_seed(NULL), 5);
    hd_seed(0);
}

static void draws_differ_from_item_to_item_and_epoch_to_epoch(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(hd_function_dataset(2, noisy, NULL, NULL), 2, HD_OPTS(hd_loader_opts, .seed = 1));
    hd_tensor *a = hd_loader_next(l).x, *b = hd_loader_next(l).x;
    assert_false(hd_allclose(a, b, NULL));
    assert_false(hd_allclose(hd_select(a, 0, 0), hd_sub_scalar(hd_select(a, 0, 1), 1), NULL));
}

static hd_tensors *ragged(int64_t index, void *user) {
    (void)user;
    if (index < 3) return HD_TENSORS(hd_zeros(HD_SHAPE(2), HD_F32));
    if (index < 4) return HD_TENSORS(hd_zeros(HD_SHAPE(3), HD_F32));
    return HD_TENSORS(hd_zeros(HD_SHAPE(2), HD_F32), hd_zeros(HD_SHAPE(2), HD_F32));
}
static hd_tensors *sum_of_items(hd_tensors *const *items, int64_t count, void *user) {
    hd_tensor *sum = hd_full(HD_SHAPE(), HD_F64, *(double *)user);
    for (int64_t i = 0; i < count; ++i) sum = hd_add(sum, hd_sum(hd_tensors_get(items[i], 0), HD_AXES(), NULL));
    return HD_TENSORS(sum);
}
static hd_tensors *no_batch(hd_tensors *const *items, int64_t count, void *user) {
    (void)items;
    (void)user;
    return count == 2 ? NULL : hd_tensors_from(NULL, 0);
}

static void items_are_stacked_or_collated(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = hd_function_dataset(5, ragged, NULL, NULL);
    hd_loader *l = hd_loader_new(d, 2, NULL);
    assert_int_equal(hd_tensor_rank(hd_loader_next(l).x), 2);
    hd_loader_next(l);
    assert_error(HD_ERROR_SHAPE, "tensor 0 of item 0 of the batch is [2] of f32, that of item 1 [3] of f32");
    hd_loader_next(hd_loader_new(d, 5, NULL));
    assert_error(HD_ERROR_SHAPE, "item 3 [3]");
    hd_loader_next(hd_loader_new(hd_dataset_subset(d, HD_TENSOR_I64(HD_SHAPE(2), 0, 4)), 2, NULL));
    assert_error(HD_ERROR_VALUE, "item 0 of the batch has 1 tensors, item 1 has 2");
    double begin = 100;
    hd_loader *sums =
        hd_loader_new(numbered(4), 4, HD_OPTS(hd_loader_opts, .collate = sum_of_items, .collate_user = &begin));
    assert_values(hd_loader_next(sums).x, HD_F64, 114);
    hd_loader *none = hd_loader_new(numbered(3), 2, HD_OPTS(hd_loader_opts, .collate = no_batch));
    hd_loader_next(none);
    assert_error(HD_ERROR_VALUE, "the collate function gave NULL");
    hd_loader_seek(none, (hd_loader_place){0, 0, 1});
    hd_loader_next(none);
    assert_error(HD_ERROR_VALUE, "the collate function gave an empty list");
}

static hd_tensors *transposed(int64_t index, void *user) {
    (void)user;
    return HD_TENSORS(hd_t(hd_reshape(hd_range((double)index, 1, 4, HD_F32), HD_SHAPE(2, 2))));
}
static void views_are_stacked_as_they_are_seen(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(hd_function_dataset(2, transposed, NULL, NULL), 2, NULL);
    assert_values(hd_loader_next(l).x, HD_F32, 0, 2, 1, 3, 1, 3, 2, 4);
}

/* ---- a place to go on from --------------------------------------------------------------------------------------- */
static void a_loader_resumes_bit_for_bit(void **state) {
    (void)state;
    for (int workers = 0; workers < 3; ++workers) {
        HD_SCOPE;
        hd_loader *l = noisy_loader(workers, 0);
        for (int i = 0; i < 8; ++i) hd_loader_next(l);
        const hd_loader_place place = hd_loader_position(l);
        assert_int_equal(place.epoch, 1);
        assert_int_equal(place.batch, 2);
        assert_int_equal(place.seed, 77);
        hd_dataset *d = hd_dataset_map(hd_function_dataset(23, noisy, NULL, NULL), noisier, NULL, NULL);
        hd_loader *other = hd_loader_new(d, 4, HD_OPTS(hd_loader_opts, .shuffle = true, .seed = 5, .workers = 2));
        hd_loader_next(other);
        hd_loader_seek(other, place);
        for (int i = 0; i < 9; ++i) assert_same(hd_loader_next(l).x, hd_loader_next(other).x);
        hd_loader_seek(l, (hd_loader_place){77, 0, 0});
        assert_same(hd_loader_next(l).x, hd_loader_next(noisy_loader(0, 0)).x);
    }
}

/* ---- errors, ends, forks ----------------------------------------------------------------------------------------- */
static _Atomic int failures;
static hd_tensors *failing(int64_t index, void *user) {
    (void)user;
    if (index == 5 && atomic_load(&failures) > 0) {
        atomic_fetch_sub(&failures, 1);
        return HD_TENSORS(hd_add(hd_ones(HD_SHAPE(2), HD_F32), hd_ones(HD_SHAPE(3), HD_F32)));
    }
    return HD_TENSORS(hd_scalar((double)index, HD_F32));
}

static void an_error_of_a_worker_comes_out_and_can_be_tried_again(void **state) {
    (void)state;
    for (int workers = 0; workers < 4; ++workers) {
        HD_SCOPE;
        hd_loader *l =
            hd_loader_new(hd_function_dataset(9, failing, NULL, NULL), 2, HD_OPTS(hd_loader_opts, .workers = workers));
        atomic_store(&failures, 1);
        assert_values(hd_loader_next(l).x, HD_F32, 0, 1);
        assert_values(hd_loader_next(l).x, HD_F32, 2, 3);
        hd_batch batch = hd_loader_next(l);
        assert_null(batch.x);
        assert_null(batch.all);
        assert_error(HD_ERROR_SHAPE, "hd_add");
        assert_int_equal(hd_loader_position(l).batch, 2);
        assert_values(hd_loader_next(l).x, HD_F32, 4, 5);
        assert_values(hd_loader_next(l).x, HD_F32, 6, 7);
    }
}

static _Atomic int slow_items;
static hd_tensors *slow(int64_t index, void *user) {
    (void)user;
    usleep(2000);
    atomic_fetch_add(&slow_items, 1);
    return HD_TENSORS(hd_scalar((double)index, HD_F32));
}
static void a_loader_may_go_in_the_middle_of_an_epoch(void **state) {
    (void)state;
    hd_dataset *d = hd_retain(hd_function_dataset(1000, slow, NULL, NULL));
    for (int i = 0; i < 3; ++i) {
        HD_SCOPE;
        hd_loader *l = hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .workers = 3, .prefetch = 12));
        for (int k = 0; k < i; ++k) hd_loader_next(l);
        assert_ok();
    }
    assert_true(atomic_load(&slow_items) < 100); /* nobody made the whole epoch first */
    hd_release(d);
    hd_release(d);
}

static void a_program_may_end_with_a_loader_under_way(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    not_on_a_device("drivers have threads of their own, and are not used after a fork");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        hd_loader *l =
            hd_loader_new(hd_function_dataset(1000, slow, NULL, NULL), 2, HD_OPTS(hd_loader_opts, .workers = 2));
        hd_loader_next(l);
        exit(hd_exit_status()); /* the end of the library releases the loader */
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void the_child_of_a_fork_makes_its_own(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    not_on_a_device("drivers have threads of their own, and are not used after a fork");
    HD_SCOPE;
    hd_loader *started = noisy_loader(2, 0), *fresh = noisy_loader(2, 0), *plain = noisy_loader(0, 0);
    hd_tensor *first = hd_loader_next(started).x;
    hd_loader_next(plain);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        hd_loader_next(started);
        require_error(HD_ERROR_STATE, "hd_loader_next: this process was forked");
        hd_loader_seek(started, (hd_loader_place){0, 0, 0});
        require_error(HD_ERROR_STATE, "hd_loader_seek: this process was forked");
        require(first != NULL);
#ifndef __SANITIZE_THREAD__ /* which takes a thread here for one of the parent's with the same number, and ends */
        require(hd_allclose(hd_loader_next(fresh).x, first, NULL)); /* its workers start here */
#endif
        require(hd_loader_next(plain).x != NULL);
        hd_release(started);
        require(hd_ok());
        hd_release(fresh);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_non_null(hd_loader_next(started).x);
}

static hd_loader *nested;
static hd_tensors *takes_a_batch(int64_t index, void *user) {
    (void)index;
    (void)user;
    return hd_loader_next(nested).all;
}
static void a_loader_is_used_by_one_call_at_a_time(void **state) {
    (void)state;
    HD_SCOPE;
    nested = hd_loader_new(hd_function_dataset(2, takes_a_batch, NULL, NULL), 2, NULL);
    hd_loader_next(nested);
    assert_error(HD_ERROR_STATE, "the loader \"in order\" is in use by a call on this thread");
    nested = hd_loader_new(hd_function_dataset(2, takes_a_batch, NULL, NULL), 2, HD_OPTS(hd_loader_opts, .workers = 1));
    hd_loader_next(nested);
    assert_error(HD_ERROR_STATE, "one thread at a time may use it");
}

static jmp_buf out;
static hd_tensors *jumps(int64_t index, void *user) {
    (void)user;
    if (index == 1) longjmp(out, 1);
    return HD_TENSORS(hd_rand(HD_SHAPE(2), HD_F32));
}
static void a_jump_out_of_an_item_leaves_the_thread_as_it_was(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(hd_function_dataset(2, jumps, NULL, NULL), 1, NULL);
    hd_seed(8);
    {
        HD_SCOPE;
        hd_loader_next(l);
        if (setjmp(out) == 0) hd_loader_next(l);
    }
    assert_int_equal(hd_generator_seed(NULL), 8);
    assert_int_equal(hd_generator_draw(NULL), 0);
    assert_int_equal(hd_loader_position(l).batch, 1);
    hd_loader_seek(l, (hd_loader_place){0, 0, 0});
    assert_non_null(hd_loader_next(l).x);
    hd_seed(0);
}

static void a_builder_records_no_batch(void **state) {
    (void)state;
    HD_SCOPE;
    hd_loader *l = hd_loader_new(numbered(4), 2, NULL);
    hd_builder *b = hd_builder_new("b");
    hd_builder_start(b);
    hd_loader_next(l);
    assert_error(HD_ERROR_STATE, "give them to the script with hd_script_set_input");
    hd_builder_end(b);
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = numbered(4);
    hd_loader_new(NULL, 2, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_new: `dataset` is NULL");
    hd_loader_new(d, 0, NULL);
    assert_error(HD_ERROR_VALUE, "hd_loader_new: batches of 0 items");
    hd_loader_new(d, 5, HD_OPTS(hd_loader_opts, .drop_last = true));
    assert_error(HD_ERROR_VALUE, "an epoch of 4 items has no batch of 5, as drop_last is set");
    hd_loader_new(numbered(0), 5, NULL);
    assert_error(HD_ERROR_VALUE, "an epoch of 0 items has no batch of 5");
    hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .shuffle = true, .sampler = hd_sequential_sampler(4)));
    assert_error(HD_ERROR_VALUE, "shuffle and a sampler are both given");
    hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .sampler = hd_sequential_sampler(5)));
    assert_error(HD_ERROR_VALUE, "the sampler is for 5 items; the dataset has 4");
    hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .workers = -1));
    assert_error(HD_ERROR_VALUE, "-1 workers");
    hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .prefetch = 2));
    assert_error(HD_ERROR_VALUE, "2 batches ahead without workers");
    hd_loader_new(d, 2, HD_OPTS(hd_loader_opts, .device = {HD_DEVICE_CUDA, 99}));
    assert_error(HD_ERROR_DEVICE, "hd_loader_new");
    hd_batches(NULL, NULL, 2, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_batches: `x` is NULL");
    hd_batches(numbered_x(3), numbered_y(4), 2, NULL);
    assert_error(HD_ERROR_SHAPE, "hd_batches: tensor 1 is [4], and tensor 0 [3,2]");
    hd_loader_next(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_next: `loader` is NULL");
    hd_loader_epoch(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_epoch");
    hd_loader_count(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_count");
    hd_loader_position(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_position");
    hd_loader_seek(NULL, (hd_loader_place){0, 0, 0});
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_loader_seek");
    hd_loader *l = hd_loader_new(d, 2, NULL);
    hd_loader_seek(l, (hd_loader_place){0, 0, 2});
    assert_error(HD_ERROR_VALUE, "hd_loader_seek: epoch 0, batch 2; epochs are 0 to 2^62 and have batches 0 to 1");
    hd_loader_seek(l, (hd_loader_place){0, INT64_MAX, 1}); /* as a file may say */
    assert_error(HD_ERROR_VALUE, "hd_loader_seek: epoch 9223372036854775807");
    hd_loader_seek(l, (hd_loader_place){0, -1, 0});
    assert_error(HD_ERROR_VALUE, "epoch -1");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void by_gathering(void) {
    hd_loader *l = hd_batches(numbered_x(6), numbered_y(6), 2, NULL);
    for (int i = 0; i < 4; ++i) hd_loader_next(l);
    hd_loader_seek(l, hd_loader_position(l));
}
static void by_items(void) {
    hd_loader *l = noisy_loader(0, 0);
    for (int i = 0; i < 3; ++i) hd_loader_next(l);
}
/* One batch ahead: the worker works while the caller waits, so that allocations come in one order. */
static void by_a_worker(void) {
    hd_loader *l = noisy_loader(1, 1);
    for (int i = 0; i < 2; ++i) hd_loader_next(l);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(by_gathering, 1000);
    each_allocation_fails(by_items, 3000);
    not_on_a_device("what a device keeps for a thread comes in no fixed order");
    each_allocation_fails(by_a_worker, 3000);
}

/* For whoever looks for races: several loaders over one dataset, and their takers on threads of their own. */
static hd_dataset *shared;
static hd_tensors *noisy_rows(hd_tensors *item, void *user) {
    (void)user;
    hd_tensor *noise = hd_rand(HD_SHAPE(2), HD_F32);
    return HD_TENSORS(hd_add(hd_tensors_get(item, 0), noise), hd_tensors_get(item, 1));
}
static void *train(void *seed) {
    HD_SCOPE;
    hd_loader *l = hd_loader_new(
        shared, 4, HD_OPTS(hd_loader_opts, .shuffle = true, .workers = 2, .seed = (uint64_t)(uintptr_t)seed));
    for (int i = 0; i < 30; ++i) {
        HD_SCOPE;
        hd_batch batch = hd_loader_next(l);
        hd_mean(batch.x, HD_AXES(), NULL);
        if (i == 20) hd_loader_seek(l, (hd_loader_place){3, 1, 1});
    }
    return (void *)(uintptr_t)hd_ok();
}
static void several_loaders_share_a_dataset(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *parts[] = {hd_dataset_map(numbered(20), noisy_rows, NULL, NULL), numbered(7)};
    shared = hd_dataset_concat(parts, 2);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; ++i) assert_int_equal(pthread_create(&threads[i], NULL, train, (void *)(i + 1)), 0);
    for (int i = 0; i < 3; ++i) {
        void *ok = NULL;
        pthread_join(threads[i], &ok);
        assert_non_null(ok);
    }
}

RUN(test(batches_come_in_order_for_ever), test(a_shuffled_epoch_has_every_item_once),
    test(hd_seed_decides_the_order_when_no_seed_is_given), test(an_epoch_may_be_left_and_goes_on),
    test(batches_carry_no_gradient), test(batches_do_not_depend_on_the_number_of_workers),
    test(draws_differ_from_item_to_item_and_epoch_to_epoch), test(items_are_stacked_or_collated),
    test(views_are_stacked_as_they_are_seen), test(a_loader_resumes_bit_for_bit),
    test(an_error_of_a_worker_comes_out_and_can_be_tried_again), test(a_loader_may_go_in_the_middle_of_an_epoch),
    test(a_program_may_end_with_a_loader_under_way), test(the_child_of_a_fork_makes_its_own),
    test(a_loader_is_used_by_one_call_at_a_time), test(a_jump_out_of_an_item_leaves_the_thread_as_it_was),
    test(a_builder_records_no_batch), test(wrong_arguments_are_named), test(several_loaders_share_a_dataset),
    test(each_allocation_may_fail))
