/* Memory of value.h: none is asked for after warm-up, all is given back, a lack of it is an error. */
#include <stdint.h>
#include <stdlib.h>

static int allocations, alive, fail_at; /* fail_at: this allocation and all after it fail; 0: none */

static void *test_malloc(size_t size) {
    ++allocations;
    if (fail_at && allocations >= fail_at) return NULL;
    void *memory = malloc(size);
    alive += memory != NULL;
    return memory;
}

static void test_free(void *memory) {
    alive -= memory != NULL;
    free(memory);
}

#define HD_VALUE_MALLOC test_malloc
#define HD_VALUE_FREE   test_free
#define HD_VALUE_SHORT
#include <hodu/value.h>

#include "check.h"

enum { N = 300 };

/* A training loop of a few steps; touches parameters, nodes, wide operations and both optimizers. */
static bool train(int steps, int first_step) {
    static Value w[N];
    static hd_value_adam adam;
    double local[N];
    if (first_step == 0) {
        hd_value_adam none = {0};
        adam = none;
        for (int i = 0; i < N; ++i) w[i] = hd_value_param(0.01 * i);
    }
    for (int step = 0; step < steps; ++step) {
        Value x[N], p[N];
        for (int i = 0; i < N; ++i) {
            x[i] = vtanh(vmul(w[i], 0.5));
            local[i] = 0.001 * i;
        }
        vsoftmax(N, x, p);
        const Value own = hd_value_op(1.0, N, x, local);
        const Value loss = vadd(vadd(vdot(N, w, x), vlog(p[3])), vadd(own, vsum(N, p)));
        hd_value_zero_grad();
        hd_value_backward(loss);
        hd_value_adam_step(&adam, 0.01);
        hd_value_sgd_step(0, 0, 0.001);
        hd_value_reset();
    }
    if (steps == 0) hd_value_adam_free(&adam);
    return hd_value_ok();
}

static void no_allocation_after_warm_up(void **state) {
    (void)state;
    allocations = alive = fail_at = 0;
    assert_true(train(2, 0));
    const int warm = allocations;
    assert_true(train(100, 1));
    assert_int_equal(allocations, warm);
    train(0, 1);
    hd_value_free();
    assert_int_equal(alive, 0);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    alive = fail_at = 0;
    int n = 1;
    for (;; ++n) {
        allocations = 0;
        fail_at = n;
        const bool fine = train(3, 0);
        assert_int_equal(fine, allocations < n);
        train(0, 1);
        if (!fine) {
            assert_non_null(strstr(hd_value_error(), "no memory"));
            fail_at = 0; /* memory is back: after clearing the error and a reset all works again */
            hd_value_error_clear();
            hd_value_reset();
            const Value x = hd_value_param(2.0);
            assert_true(hd_value_backward(vmul(x, x)));
            check_close("after recovery", vgrad(x), 4.0, 0.0);
        }
        hd_value_free();
        assert_int_equal(alive, 0);
        if (fine) break;
    }
    assert_true(n > 10);
}

static void more_nodes_than_ids_is_an_error(void **state) {
    (void)state;
    allocations = fail_at = 0;
    assert_false(hd_value_reserve((int64_t)INT32_MAX + 5));
    assert_int_equal(allocations, 0);
    assert_non_null(strstr(hd_value_error(), "no memory"));
    const Value x = hd_value_param(1.0); /* nothing grows while an error is pending */
    assert_true(isnan(vdata(x)) && isnan(vdata(vadd(x, 1.0))));
    hd_value_error_clear();
    hd_value_free();
    assert_int_equal(alive, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_allocation_after_warm_up),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(more_nodes_than_ids_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
