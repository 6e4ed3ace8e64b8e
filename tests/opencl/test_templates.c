/* Families that are templates, on an OpenCL device: shapes, dtypes, views and options against the CPU. A sample, as a
 * new text takes PoCL a tenth of a second and more; all of it in `make check-gpu`. */
#include "support.h"

#include "core/away.h"
#include "gpu/families.h"
#include "ops/op.h"

static hd_device there(void) { return hd_opencl(0); }

static void families_give_the_same(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_BF16, HD_F64, HD_F16, HD_F8E4M3, HD_F8E5M2};
    const bool has_f64 = hd_device_describe(there()).has_f64;
    for (int k = 0; k < FAMILIES; ++k)
        for (int i = 0; i < 12; ++i)
            if ((has_f64 || dtypes[i / 2] != HD_F64) && sampled((uint64_t)(k * 12 + i), 179))
                family_check(k, dtypes[i / 2], i % 2 != 0, there());
}

/* ---- given results, as plans have them --------------------------------------------------------------------------- */
static hd_tensor *some(hd_shape shape, int which) {
    return family_operand(shape, which, (family_way){HD_F32, false, there()});
}
/* Runs a call on the device of its inputs, into these results. */
static void run_into(hd_call *call, hd_tensor *first, hd_tensor *second) {
    hd_executor *executor = hd_device_executor(hd_tensor_device(call->inputs[0]));
    call->given = true;
    call->outputs[0] = first;
    if (call->output_count > 1) call->outputs[1] = second;
    if (executor->run(executor, hd_thread_self(), call) != HD_OK) fail_msg("%s", hd_error_message());
}

static void results_may_be_given(void **state) {
    (void)state;
    HD_SCOPE;
    hd_call call;
    hd_tensor *x = some(S(6, 10), 0), *w = some(S(10), 1), *out = some(S(6, 10), 2), *pooled = some(S(6, 5), 3);
    const hd_norm_attributes norm = {.axes = 1, .eps = 1e-5};
    hd_call_init(&call, &hd_ops[HD_OP_layer_norm], (hd_tensor *[]){x, w}, 2, HD_F32, &out->layout.shape, &norm);
    run_into(&call, out, NULL);
    assert_close(hd_to(out, hd_cpu()), hd_layer_norm(hd_to(x, hd_cpu()), 1, hd_to(w, hd_cpu()), NULL, 1e-5), 1e-5,
                 1e-6);
    const hd_pool_attributes pool = {.window = S(2), .stride = S(2), .dilation = S(1), .padding = S(0, 0)};
    hd_call_init(&call, &hd_ops[HD_OP_max_pool], &x, 1, HD_F32, &pooled->layout.shape, &pool);
    run_into(&call, pooled, NULL);
    assert_same(hd_to(pooled, hd_cpu()), hd_max_pool(hd_to(x, hd_cpu()), S(2), NULL));
}

/* Statistics are a second result, which nobody may want. */
static void statistics_may_be_given_or_not_wanted(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_attention_attributes attributes = {.causal = true, .scale = 0.5};
    hd_tensor *in[2][3], *out[2], *statistics[2], *alone = some(S(2, 7, 4), 5);
    for (int i = 0; i < 2; ++i) {
        const hd_device device = i == 0 ? there() : hd_cpu();
        hd_call call;
        for (int k = 0; k < 3; ++k) in[i][k] = hd_to(some(S(2, 7, 4), k), device);
        out[i] = hd_to(some(S(2, 7, 4), 3), device);
        statistics[i] = hd_to(some(S(2, 7, 2), 4), device);
        hd_call_init(&call, &hd_ops[HD_OP_attention], in[i], 3, HD_F32, &out[i]->layout.shape, &attributes);
        hd_call_add_output(&call, HD_F32, &statistics[i]->layout.shape);
        run_into(&call, out[i], statistics[i]);
        if (i == 0) run_into(&call, alone, NULL);
    }
    assert_close(hd_to(out[0], hd_cpu()), out[1], 1e-5, 1e-6);
    assert_close(hd_to(statistics[0], hd_cpu()), statistics[1], 1e-5, 1e-6);
    assert_same(hd_to(alone, hd_cpu()), hd_to(out[0], hd_cpu()));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Each allocation on the way fails once: an error, and nothing is left. */
static void memory_may_run_out_anywhere(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = some(S(4, 70), 0), *turned = hd_t(some(S(70, 4), 1)), *q = some(S(5, 4), 2),
              *number = hd_scalar(2, HD_F32);
    const int64_t objects = hd_live_objects();
    bool failed = true;
    for (int64_t n = -1; failed; ++n) { /* the first time all is compiled */
        hd_memory_trim();
        hd_memory_fail_after(n);
        {
            HD_SCOPE;
            hd_layer_norm(turned, 1, hd_broadcast_to(number, S(70)), NULL, 1e-5);
            hd_max_pool_gradient(hd_narrow(turned, 1, 0, 35), x, S(2), NULL);
            hd_attention(q, q, q, NULL, false, 0);
            if (in_full()) hd_layer_norm_weight_gradient(x, turned, 1, 1e-5);
            if (in_full()) hd_attention_gradient(q, q, q, q, NULL, NULL, false, 0);
        }
        hd_memory_fail_after(-1);
        failed = n < 0 || !hd_ok();
        if (!hd_ok()) assert_int_equal(hd_error_code(), HD_ERROR_MEMORY);
        hd_error_clear();
        assert_int_equal(hd_live_objects(), objects);
    }
}
/* So does each of a text that is not known yet. */
static void texts_may_find_no_memory(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_to(hd_cast(family_operand(S(3, 5), 0, (family_way){HD_F32, false, hd_cpu()}), HD_F16), there());
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
        hd_memory_fail_after(n);
        {
            HD_SCOPE;
            hd_avg_pool(x, S(5), NULL);
        }
        hd_memory_fail_after(-1);
        failed = !hd_ok();
        if (failed) assert_int_equal(hd_error_code(), HD_ERROR_MEMORY);
        hd_error_clear();
    }
}

RUN_ON(there(), test(families_give_the_same), test(results_may_be_given), test(statistics_may_be_given_or_not_wanted),
       test(memory_may_run_out_anywhere), test(texts_may_find_no_memory))
