/* The threading contract: state is per thread; objects may be handed over; two threads may read one object. */
#include "support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/pool.h"

static void *fails_alone(void *unused) {
    (void)unused;
    HD_SCOPE;
    hd_add(NULL, NULL);
    return hd_error_code() == HD_ERROR_NULL_ARGUMENT ? NULL : (void *)1;
}

static void errors_seeds_and_dtypes_are_per_thread(void **state) {
    (void)state;
    pthread_t id;
    void *result;
    assert_int_equal(pthread_create(&id, NULL, fails_alone, NULL), 0);
    pthread_join(id, &result);
    assert_null(result);
    assert_ok();
}

static void *releases(void *tensor) {
    HD_SCOPE;
    hd_tensor *t = tensor;
    const bool right = hd_item(hd_sum(t, HD_AXES(), NULL)) == 1000;
    hd_release(t);
    return right ? NULL : (void *)1;
}

static void an_object_may_be_released_elsewhere(void **state) {
    (void)state;
    pthread_t id[4];
    for (int i = 0; i < 4; ++i) {
        HD_SCOPE;
        hd_tensor *t = hd_retain(hd_ones(HD_SHAPE(1000), HD_F32));
        assert_int_equal(pthread_create(&id[i], NULL, releases, t), 0);
    }
    for (int i = 0; i < 4; ++i) {
        void *result;
        pthread_join(id[i], &result);
        assert_null(result);
    }
    assert_int_equal(hd_live_objects(), 0);
}

static hd_tensor *shared_input;
static void *reads(void *seed) {
    for (int i = 0; i < 50; ++i) {
        HD_SCOPE;
        hd_tensor *y = hd_add(hd_exp(shared_input), hd_t(hd_t(shared_input)));
        if (hd_item(hd_sum(y, HD_AXES(), NULL)) != 100 * 100 * 1.0) return (void *)1; /* exp(0) + 0 */
        hd_seed((uint64_t)(uintptr_t)seed);
        hd_matmul(hd_rand(HD_SHAPE(70, 80), HD_F32), hd_rand(HD_SHAPE(80, 90), HD_F32));
        if (!hd_ok()) return (void *)2;
    }
    return NULL;
}

static void many_threads_read_one_tensor_and_share_the_pool(void **state) {
    (void)state;
    HD_SCOPE;
    hd_set_num_threads(3);
    shared_input = hd_zeros(HD_SHAPE(100, 100), HD_F32);
    pthread_t id[4];
    for (int i = 0; i < 4; ++i) assert_int_equal(pthread_create(&id[i], NULL, reads, (void *)(intptr_t)(i + 1)), 0);
    for (int i = 0; i < 4; ++i) {
        void *result;
        pthread_join(id[i], &result);
        assert_null(result);
    }
}

static void *releases_foreign(void *tensor) {
    HD_SCOPE;
    hd_release(tensor); /* it belongs to a scope of the other thread */
    return hd_error_code() == HD_ERROR_STATE ? NULL : (void *)1;
}

static void releasing_anothers_scope_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = hd_ones(HD_SHAPE(3), HD_F32);
    pthread_t id;
    void *result;
    assert_int_equal(pthread_create(&id, NULL, releases_foreign, t), 0);
    pthread_join(id, &result);
    assert_null(result);
    assert_values(t, HD_F32, 1, 1, 1);
}

static void count_chunk(void *context, int64_t chunk) { atomic_fetch_add(&((_Atomic int *)context)[chunk], 1); }
static void nested_chunk(void *context, int64_t chunk) {
    hd_parallel(8, count_chunk, (_Atomic int *)context + 8 * chunk);
}

static void every_chunk_runs_once_also_nested(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; ++threads) {
        hd_set_num_threads(threads);
        for (int round = 0; round < 200; ++round) {
            _Atomic int seen[64] = {0};
            hd_parallel(8, nested_chunk, seen);
            for (int i = 0; i < 64; ++i) assert_int_equal(atomic_load(&seen[i]), 1);
        }
    }
    assert_int_equal(hd_num_threads(), 5);
}

static void the_pool_works_after_fork(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    HD_SCOPE;
    hd_set_num_threads(3);
    hd_tensor *x = hd_ones(HD_SHAPE(1 << 18), HD_F32);
    assert_true(hd_item(hd_sum(hd_add(x, x), HD_AXES(), NULL)) == 1 << 19);
    const pid_t child = fork();
    if (child == 0) {
        HD_SCOPE;
        const bool right = hd_item(hd_sum(hd_add(x, x), HD_AXES(), NULL)) == 1 << 19;
        _exit(right ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_true(hd_item(hd_sum(hd_add(x, x), HD_AXES(), NULL)) == 1 << 19);
}

RUN(test(errors_seeds_and_dtypes_are_per_thread), test(an_object_may_be_released_elsewhere),
    test(many_threads_read_one_tensor_and_share_the_pool), test(releasing_anothers_scope_is_an_error),
    test(every_chunk_runs_once_also_nested), test(the_pool_works_after_fork))
