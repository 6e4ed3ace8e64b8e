/* Every call of the list in every dtype that it takes, with its gradients and the gradients of these, as StableHLO text
 * run by a plugin, against O0.
 *
 * Samples, which HODU_LONG=1 completes. HODU_CALL=name runs this one alone. */
#include "../graph/calls.h"
#include "agree.h"
#include "heap.h"

#include "core/random.h"

enum { UNITS = 4 }; /* at 2, the size of what the calls are made with */

static const char *const names[3] = {"a", "b", "c"};

static hd_builder *bound(const char *name, hd_tensor **in, int count) {
    const bool differentiable = hd_dtype_is_float(hd_tensor_dtype(in[0]));
    for (int i = 0; i < count && differentiable; ++i) hd_requires_grad(in[i]);
    hd_builder *b = started(name);
    for (int i = 0; i < count; ++i) hd_builder_bind(b, names[i], in[i]);
    return b;
}

/* The call, and the gradients of what it is called with: "y", "a", "b", "c". NULL: it does not take these. */
static hd_script *script_of(int k, hd_tensor **in, int count) {
    hd_builder *b = bound(calls[k].name, in, count);
    hd_tensor *y = run_call(in, &calls[k]);
    if (!hd_ok()) {
        hd_error_clear();
        hd_builder_end(b);
        return NULL;
    }
    hd_builder_add_output(b, "y", y);
    assert_ok();
    if (hd_tensor_requires_grad(y)) hd_backward(y);
    hd_error_clear(); /* some have none */
    for (int i = 0; i < count; ++i)
        if (hd_has_grad(in[i])) hd_builder_add_output(b, names[i], hd_grad(in[i]));
    hd_clear_tape();
    return built(b);
}

/* One call in so many, in this dtype; no more than `refused` of all of them do not take it. */
static void calls_in(hd_dtype dtype, uint64_t one_in, int refused) {
    const char *only = getenv("HODU_CALL");
    for (int k = 0; k < CALL_COUNT; ++k) {
        if (only != NULL ? strcmp(only, calls[k].name) != 0 : !sampled((uint64_t)k + dtype, one_in * slow_step(2)))
            continue;
        if (is_refused_by_xla(k)) continue;
        HD_SCOPE;
        hd_tensor *in[3];
        char what[96];
        const int count = call_operands(k, in);
        for (int i = 0; i < count && dtype != HD_F32; ++i)
            in[i] = hd_cast(hd_dtype_is_float(dtype) ? in[i] : hd_mul_scalar(in[i], 5), dtype); /* integers: 1 to 10 */
        snprintf(what, sizeof what, "%s in %s", calls[k].name, hd_dtype_name(dtype));
        hd_seed(5);
        hd_script *s = script_of(k, in, count);
        if (s != NULL) xla_agrees_at(s, UNITS, 2, what);
        if (s == NULL && refused-- == 0) fail_msg("%s: one more that does not take it", what);
    }
}

/* XLA takes a tenth of a second to compile each. */
enum { ONE_IN = 9 };

static void calls_in_f32(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    calls_in(HD_F32, 2, 0); /* the seeds of gcc and clang have one half each */
}
static void calls_in_other_floats(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    calls_in(HD_F64, ONE_IN, 2);
    calls_in(HD_F16, ONE_IN, 2);
    calls_in(HD_BF16, ONE_IN, 2);
}
static void calls_in_integers(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    calls_in(HD_I32, ONE_IN, CALL_COUNT / 4);
    calls_in(HD_U8, ONE_IN, CALL_COUNT / 4);
}

/* Of sum(w y^2), where weights keep what a norm gives from adding up to a constant: its gradients, and those of the sum
 * of their squares. In f64 and to 1e-9: roundings, which second derivatives multiply, stay far below that, a wrong term
 * does not. */
static hd_tensor *sum_of_squares_of_gradients(hd_tensor *y, hd_tensor **in, int count) {
    if (!hd_tensor_requires_grad(y)) return NULL;
    hd_tensor *loss = hd_sum(hd_mul(hd_square(y), operand(hd_tensor_shape(y), 7, HD_F64)), X(), NULL), *total = NULL;
    hd_tensors *first = hd_grad_of(loss, hd_tensors_from(in, count), HD_OPTS(hd_grad_of_opts, .differentiable = true));
    for (int i = 0; first != NULL && i < count; ++i) {
        hd_tensor *squares = hd_sum(hd_square(hd_tensors_get(first, i)), X(), NULL);
        total = total == NULL ? squares : hd_add(total, squares);
    }
    return total;
}

static void gradients_of_gradients(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    const char *only = getenv("HODU_CALL");
    int tried = 0, taken = 0;
    for (int k = 0; k < CALL_COUNT; ++k) {
        if (only != NULL ? strcmp(only, calls[k].name) != 0 : !sampled((uint64_t)k, ONE_IN * slow_step(2))) continue;
        if (is_refused_by_xla(k)) continue;
        ++tried;
        HD_SCOPE;
        hd_tensor *in[3];
        const int count = call_operands(k, in);
        for (int i = 0; i < count; ++i) in[i] = hd_cast(in[i], HD_F64);
        hd_builder *b = bound(calls[k].name, in, count);
        hd_tensor *total = sum_of_squares_of_gradients(run_call(in, &calls[k]), in, count);
        if (total != NULL && hd_tensor_requires_grad(total)) hd_backward(total);
        const bool has_any = hd_ok() && total != NULL;
        hd_error_clear(); /* some have none */
        if (has_any) hd_builder_add_output(b, "first", total);
        for (int i = 0; has_any && i < count; ++i)
            if (hd_has_grad(in[i])) hd_builder_add_output(b, names[i], hd_grad(in[i])), ++taken;
        hd_clear_tape();
        if (!has_any) hd_builder_end(b);
        if (!has_any) continue;
        hd_script *s = built(b);
        hd_seed(5);
        xla_agrees_at(s, 1e-9 / unit_of(HD_F64), 2, calls[k].name);
    }
    if (only == NULL) assert_true(taken >= (in_full() ? CALL_COUNT : tried / 2)); /* most have some, many several */
}

RUN(test(calls_in_f32), test(calls_in_other_floats), test(calls_in_integers), test(gradients_of_gradients))
