/* Calls with several outputs on a tape: a gradient for each of them, whichever arrive. */
#include "core/thread.h"
#include "grad/tape.h"
#include "support.h"

static int seen; /* bits: which gradients the vjp was given */

/* first = 2 x, second = x^2 */
static void vjp_of_both(hd_thread *thread, const hd_vjp_call *v) {
    (void)thread;
    seen = (v->gradient != NULL) | (v->second_gradient != NULL) << 1;
    hd_tensor *by_first = v->gradient == NULL ? NULL : hd_mul_scalar(v->gradient, 2), *by_second = NULL;
    if (v->second_gradient != NULL) by_second = hd_mul(v->second_gradient, hd_mul_scalar(v->inputs[0], 2));
    v->results[0] = by_first == NULL ? by_second : by_second == NULL ? by_first : hd_add(by_first, by_second);
}
static const hd_op both_op = {.name = "both",
                              .id = HD_OP_sort,
                              .family = HD_FAMILY_SORT,
                              .min_inputs = 1,
                              .max_inputs = 1,
                              .outputs = 2,
                              .saves = {HD_SAVE_INPUT0},
                              .vjp = vjp_of_both};

typedef struct two {
    hd_tensor *first, *second;
} two;

static two both(hd_tensor *x) {
    hd_thread *thread = hd_thread_self();
    two out;
    {
        HD_NO_GRAD;
        out = (two){hd_mul_scalar(x, 2), hd_square(x)};
    }
    hd_call call;
    hd_call_init(&call, &both_op, &x, 1, HD_F32, &x->layout.shape, NULL);
    hd_call_add_output(&call, HD_F32, &x->layout.shape);
    call.outputs[0] = out.first;
    call.outputs[1] = out.second;
    assert_int_equal(thread->observer->ran(thread->observer, thread, &call), HD_OK);
    return out;
}

static hd_tensor *leaf(void) { return hd_requires_grad(HD_TENSOR_F32(HD_SHAPE(2), 3, 5)); }

static void each_output_has_its_gradient(void **state) {
    (void)state;
    for (int which = 1; which <= 3; ++which) {
        HD_SCOPE;
        hd_tensor *x = leaf();
        const two y = both(x);
        hd_tensor *first = hd_mul_scalar(y.first, 10), *second = hd_mul_scalar(y.second, 100);
        hd_backward(hd_sum(which == 1 ? first : which == 2 ? second : hd_add(first, second), HD_AXES(), NULL));
        assert_int_equal(seen, which);
        const float by_first = which & 1 ? 20 : 0, by_second = which & 2 ? 200 : 0;
        assert_values(hd_grad(x), HD_F32, by_first + 3 * by_second, by_first + 5 * by_second);
        hd_clear_tape();
    }
}

/* What is asked for may be the second output itself, and it may have hooks. */
static hd_tensor *doubles(hd_tensor *gradient, void *user) {
    ++*(int *)user;
    return hd_mul_scalar(gradient, 2);
}
static void second_outputs_are_asked_for_and_hooked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = leaf();
    const two y = both(x);
    hd_tensor *loss = hd_sum(hd_add(hd_mul_scalar(y.first, 7), hd_mul_scalar(y.second, 9)), HD_AXES(), NULL);
    hd_tensors *found = hd_grad_of(loss, HD_TENSORS(y.second, y.first), NULL);
    assert_values(hd_tensors_get(found, 0), HD_F32, 9, 9);
    assert_values(hd_tensors_get(found, 1), HD_F32, 7, 7);
    int called = 0;
    hd_add_grad_hook(y.second, doubles, &called);
    hd_retain_grad(y.first);
    hd_backward(loss);
    assert_int_equal(called, 1);
    assert_values(hd_grad(y.first), HD_F32, 7, 7);
    assert_values(hd_grad(x), HD_F32, 14 + 18 * 2 * 3, 14 + 18 * 2 * 5);
    hd_clear_tape();
}

/* Attention keeps statistics of its rows where it has a history, and only there. */
static void statistics_are_kept_where_they_are_needed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *q = hd_ones(HD_SHAPE(3, 2), HD_F32);
    int64_t objects = hd_live_objects();
    hd_attention(q, q, q, NULL, false, 0);
    assert_int_equal(hd_live_objects(), objects + 2); /* a tensor and its storage */
    hd_tensor *p = hd_requires_grad(hd_copy(q));
    objects = hd_live_objects();
    hd_attention(p, q, q, NULL, false, 0);
    assert_int_equal(hd_live_objects(), objects + 4);
    const hd_tape *tape = &hd_thread_self()->tapes->active->tape;
    hd_record *r = tape->records[tape->count];
    const hd_tensor *statistics = hd_record_saved(r)[3].tensor;
    assert_values((hd_tensor *)(uintptr_t)statistics, HD_F32, 1.41421356f, 1.0f / 3, 1.41421356f, 1.0f / 3, 1.41421356f,
                  1.0f / 3);
    hd_clear_tape();
}

RUN(test(each_output_has_its_gradient), test(second_outputs_are_asked_for_and_hooked),
    test(statistics_are_kept_where_they_are_needed))
