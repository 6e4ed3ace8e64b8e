/* Steps that are one pass over each parameter (src/optim/one_pass.c): what the ops give, in place, all or none. */
#include "core/memory.h"
#include "optim/golden.h"
#include "optim/optimizer.h"

#include <math.h>

/* ---- beside the ops ---------------------------------------------------------------------------------------------- */
enum { KINDS = 11 };
static hd_optimizer *make(int kind, hd_tensors *p) {
    switch (kind) {
    case 0: return hd_sgd(p, 0.1, NULL);
    case 1: return hd_sgd(p, 0.1, HD_OPTS(hd_sgd_opts, .weight_decay = 0.1, .maximize = true));
    case 2: return hd_sgd(p, 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.9));
    case 3: return hd_sgd(p, 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1));
    case 4: return hd_sgd(p, 0.1, HD_OPTS(hd_sgd_opts, .momentum = 0.9, .nesterov = true));
    case 5: return hd_adam(p, 0.1, NULL);
    case 6: return hd_adam(p, 0.1, HD_OPTS(hd_adam_opts, .beta1 = HD_ZERO, .beta2 = 0.9, .weight_decay = 0.1));
    case 7: return hd_adam(p, 0.1, HD_OPTS(hd_adam_opts, .epsilon = 0.1, .maximize = true));
    case 8: return hd_adamw(p, 0.1, NULL);
    case 9: return hd_adamw(p, 0.1, HD_OPTS(hd_adam_opts, .weight_decay = 0.5, .maximize = true));
    default: return hd_adamw(p, 0.1, HD_OPTS(hd_adam_opts, .weight_decay = HD_ZERO));
    }
}

static hd_tensor *numbers(int64_t count, double from, hd_dtype dtype) {
    return hd_cast(hd_sin(hd_add_scalar(hd_arange(0, (double)count, 1, HD_F64), from)), dtype);
}

static void a_pass_gives_what_the_ops_give(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 7, 64, 1000, 50000}; /* the last by several threads */
    for (int kind = 0; kind < KINDS; ++kind)
        for (int dtype = HD_F32; dtype == HD_F32 || dtype == HD_F64; dtype += HD_F64 - HD_F32) {
            HD_SCOPE;
            hd_tensor *p[2][5];
            hd_optimizer *o[2];
            for (int way = 0; way < 2; ++way) {
                for (int i = 0; i < 5; ++i) p[way][i] = hd_param(numbers(counts[i], i, (hd_dtype)dtype));
                o[way] = make(kind, HD_TENSORS(p[way][0], p[way][1], p[way][2]));
                hd_optimizer_add_group(o[way], HD_TENSORS(p[way][3], p[way][4]),
                                       HD_OPTS(hd_group_opts, .learning_rate = 0.02, .weight_decay = 0.3));
                if (way == 1) o[way]->fuse = NULL;
                for (int step = 0; step < 4; ++step) {
                    for (int i = 0; i < 5; ++i)
                        if (i != step) hd_set_grad(p[way][i], numbers(counts[i], 3 * step + i, (hd_dtype)dtype));
                    hd_optimizer_step(o[way]);
                }
                assert_ok();
                assert_int_equal(o[way]->fused.count, way == 0 && hd_current_device().kind == HD_DEVICE_CPU ? 5 : 0);
            }
            for (int i = 0; i < 5; ++i) assert_same(p[0][i], p[1][i]); /* bit for bit */
            hd_tensors *states[2] = {hd_optimizer_state(o[0]), hd_optimizer_state(o[1])};
            for (int64_t i = 0; i < hd_tensors_count(states[0]); ++i)
                assert_same(hd_tensors_get(states[0], i), hd_tensors_get(states[1], i));
        }
}

static void what_is_not_finite_is_what_the_ops_give(void **state) {
    (void)state;
    for (int kind = 0; kind < KINDS; ++kind) {
        HD_SCOPE;
        hd_tensor *p[2];
        for (int way = 0; way < 2; ++way) {
            p[way] = hd_param(HD_TENSOR_F32(HD_SHAPE(4), 1, INFINITY, 2, 3));
            hd_optimizer *o = make(kind, HD_TENSORS(p[way]));
            if (way == 1) o->fuse = NULL;
            hd_set_grad(p[way], HD_TENSOR_F32(HD_SHAPE(4), INFINITY, 1, NAN, 0));
            hd_optimizer_step(o);
        }
        assert_same(p[0], p[1]);
    }
}

/* ---- in place ---------------------------------------------------------------------------------------------------- */
static void memory_stays_where_it_is_and_copies_what_they_are(void **state) {
    (void)state;
    not_on_a_device("a pass is the CPU's");
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(3), HD_F32)), *old = hd_copy(hd_detach(p));
    hd_optimizer *o = hd_sgd(HD_TENSORS(p), 0.5, HD_OPTS(hd_sgd_opts, .momentum = 0.5));
    hd_set_grad(p, hd_ones(HD_SHAPE(3), HD_F32));
    hd_optimizer_step(o);
    assert_values(old, HD_F32, 1, 1, 1); /* which may have shared its memory */
    const void *at = hd_data(p, HD_F32), *slot = hd_data(hd_tensors_get(hd_optimizer_state(o), 2), HD_F32);
    hd_tensor *snapshot = hd_copy(p);
    hd_optimizer_step(o);
    assert_values(p, HD_F32, -0.25, -0.25, -0.25);
    assert_values(snapshot, HD_F32, 0.5, 0.5, 0.5);
    hd_release(snapshot);
    at = hd_data(p, HD_F32);
    hd_optimizer_step(o);
    assert_ptr_equal(hd_data(p, HD_F32), at);
    assert_ptr_equal(hd_data(hd_tensors_get(hd_optimizer_state(o), 2), HD_F32), slot);
}

static void parameters_that_share_memory_are_left_to_ops(void **state) {
    (void)state;
    for (int way = 0; way < 3; ++way) {
        HD_SCOPE;
        hd_tensor *whole = hd_zeros(HD_SHAPE(4), HD_F32), *p, *q;
        if (way == 0) /* two halves */
            p = hd_param(hd_narrow(whole, 0, 0, 2)), q = hd_param(hd_narrow(whole, 0, 2, 2));
        else /* the whole and a part of it, or the whole twice */
            p = hd_param(hd_detach(whole)), q = hd_param(way == 1 ? hd_narrow(whole, 0, 0, 2) : hd_detach(whole));
        hd_tensor *alone = hd_param(hd_zeros(HD_SHAPE(2), HD_F32));
        hd_optimizer *o = hd_sgd(HD_TENSORS(p, q, alone), 1, NULL);
        hd_set_grad(p, hd_full_like(p, 1));
        hd_set_grad(q, hd_full_like(q, 2));
        hd_set_grad(alone, hd_full_like(alone, 3));
        hd_optimizer_step(o);
        if (way == 0) assert_values(whole, HD_F32, -1, -1, -2, -2);
        if (way == 1) assert_values(whole, HD_F32, -3, -3, -1, -1);
        if (way == 2) assert_values(whole, HD_F32, -3, -3, -3, -3);
        assert_values(alone, HD_F32, -3, -3);
    }
}

static void a_gradient_that_is_a_parameter_is_read_before_it_is_written(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *q = hd_param(hd_full(HD_SHAPE(2), HD_F32, 4));
    hd_optimizer *o = hd_sgd(HD_TENSORS(q, p), 1, NULL);
    hd_backward_with(hd_mul_scalar(p, 1), HD_OPTS(hd_backward_opts, .seed = q));
    hd_set_grad(q, hd_ones(HD_SHAPE(2), HD_F32));
    hd_optimizer_step(o);
    assert_values(q, HD_F32, 3, 3);
    assert_values(p, HD_F32, -3, -3);
    hd_clear_tape();
}

/* ---- all or none ------------------------------------------------------------------------------------------------- */
static void a_step_without_memory_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *a = hd_param(hd_ones(HD_SHAPE(3), HD_F32)), *b = hd_param(hd_ones(HD_SHAPE(2), HD_BF16)),
              *c = hd_param(hd_ones(HD_SHAPE(2), HD_F64));
    hd_tensor *loss = hd_add(hd_add(hd_sum(hd_square(a), HD_AXES(), NULL), hd_sum(b, HD_AXES(), NULL)),
                             hd_sum(hd_square(c), HD_AXES(), NULL));
    hd_backward(loss);
    hd_optimizer *o = hd_adam(HD_TENSORS(a, b, c), 0.5, NULL);
    bool reached = true;
    for (int64_t n = 0; reached; ++n) {
        HD_SCOPE;
        hd_tensor *shared = hd_copy(hd_detach(a)), *also = hd_copy(hd_detach(c)); /* so that a step needs memory */
        hd_memory_trim();
        hd_memory_fail_after(n);
        hd_optimizer_step(o);
        reached = hd_memory_attempts() > n;
        hd_memory_fail_after(-1);
        if (hd_ok()) break;
        assert_error(HD_ERROR_MEMORY, "");
        assert_same(a, shared);
        assert_same(c, also);
        assert_values(a, HD_F32, 1, 1, 1);
        assert_values(b, HD_BF16, 1, 1);
        assert_values(c, HD_F64, 1, 1);
        assert_values(hd_optimizer_steps(o), HD_F64, 0);
        hd_grad_of(loss, HD_TENSORS(a), NULL); /* the tape has noticed nothing */
        assert_ok();
        hd_tensors *kept = hd_optimizer_state(o);
        for (int64_t i = 2; i < hd_tensors_count(kept); ++i)
            assert_same(hd_tensors_get(kept, i), hd_zeros_like(hd_tensors_get(kept, i)));
    }
    assert_close(a, hd_full(HD_SHAPE(3), HD_F32, 0.5), 1e-6, HD_ZERO);
    assert_close(c, hd_full(HD_SHAPE(2), HD_F64, 0.5), 1e-6, HD_ZERO);
    hd_backward(loss); /* now it has */
    assert_error(HD_ERROR_STATE, "");
    hd_clear_tape();
}

static void steps_and_fails(hd_optimizer *o, void *inner, hd_tensor *p, hd_tensor *g, hd_tensor *const *slot) {
    (void)o, (void)g, (void)slot;
    hd_optimizer_step(inner);
    hd_matmul(p, NULL);
}
static void a_step_inside_one_that_fails_is_taken_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32)), *q = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    hd_set_grad(p, p);
    hd_set_grad(q, q);
    hd_optimizer *inner = hd_adam(HD_TENSORS(q), 0.5, NULL);
    hd_optimizer_step(inner);
    hd_tensor *before = hd_copy(hd_detach(q)), *moment = hd_copy(hd_tensors_get(hd_optimizer_state(inner), 2));
    static const hd_optimizer_class class_ = {.name = "fails", .update = steps_and_fails};
    hd_optimizer_step(hd_optimizer_new(&class_, inner, HD_TENSORS(p), 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "`b` is NULL");
    assert_same(q, before);
    assert_same(hd_tensors_get(hd_optimizer_state(inner), 2), moment);
    assert_values(hd_optimizer_steps(inner), HD_F64, 1);
}

RUN(test(a_pass_gives_what_the_ops_give), test(what_is_not_finite_is_what_the_ops_give),
    test(memory_stays_where_it_is_and_copies_what_they_are), test(parameters_that_share_memory_are_left_to_ops),
    test(a_gradient_that_is_a_parameter_is_read_before_it_is_written), test(a_step_without_memory_changes_nothing),
    test(a_step_inside_one_that_fails_is_taken_back))
