/* Memory while scripts are compiled and run: every single allocation may fail; that is an error, nothing is lost, state
 * is as it was, and the next attempt goes well. Many scripts take no more memory than few. */
#include "graph/calls.h"

#include "compiler/own_cache.h"
#include "core/memory.h"
#include "heap.h"

/* ---- scripts ----------------------------------------------------------------------------------------------------- */
typedef hd_script *(*maker)(hd_tensor *state);

/* Elementwise ops, reductions in stages, a value that a call reads. */
static hd_script *kernels(hd_tensor *state) {
    hd_builder *b = started("kernels");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_input("x", S(12, 40), HD_F32);
    hd_tensor *h = hd_softmax(hd_add(x, state), 1);
    hd_builder_add_output(b, "h", h);
    hd_builder_add_output(b, "rolled", hd_roll(hd_exp(h), 1, 0));
    hd_builder_add_output(b, "turned", hd_reshape(hd_t(hd_slice(h, 1, 0, 20, 1)), S(-1)));
    hd_assign(state, hd_mul_scalar(h, 2));
    return built(b);
}

/* Products with constants that are packed, and what follows them. */
static hd_script *products(hd_tensor *state) {
    hd_tensor *w = operand(S(40, 140), 1, HD_F32), *v = operand(S(140, 40), 2, HD_F32);
    hd_builder *b = started("products");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_input("x", S(12, 40), HD_F32);
    hd_tensor *h = hd_matmul(hd_relu(hd_matmul(hd_concat(LIST(x, x, x, x, x, x, x, x, x, x, x, x), 0), w)), v);
    hd_builder_add_output(b, "h", hd_tanh(hd_mul_scalar(h, 1e-4)));
    hd_add_(state, hd_slice(h, 0, 0, 12, 1));
    hd_mul_(state, hd_scalar(0.5, HD_F32));
    return built(b);
}

/* Products with constants that are packed where they lie. */
static hd_script *moved(hd_tensor *state) {
    HD_SCOPE;
    hd_tensor *w = operand(S(40, 640), 1, HD_F32), *v = operand(S(640, 64), 2, HD_F32);
    hd_builder *b = started("moved");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_input("x", S(12, 40), HD_F32);
    hd_tensor *h = hd_relu(hd_matmul(hd_concat(LIST(x, x, x, x, x, x, x, x, x, x, x, x), 0), w));
    hd_builder_add_output(b, "h", hd_tanh(hd_mul_scalar(hd_matmul(h, v), 1e-6)));
    hd_mul_(state, hd_scalar(0.5, HD_F32));
    return hd_keep(built(b));
}

/* Convolutions with constants that are packed, with what follows them and without. */
static hd_script *convolutions(hd_tensor *state) {
    hd_tensor *w = operand(S(8, 4, 3, 3), 1, HD_F32), *each = operand(S(4, 1, 2, 2), 2, HD_F32);
    const hd_conv_opts *same = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
    hd_builder *b = started("convolutions");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_reshape(hd_input("x", S(12, 40), HD_F32), S(2, 4, 6, 10));
    hd_tensor *h = hd_relu(hd_conv(x, w, operand(S(8), 4, HD_F32), same));
    hd_builder_add_output(b, "turned",
                          hd_conv(hd_permute(h, X(0, 1, 3, 2)), operand(S(2, 8, 1, 1), 5, HD_F32), NULL, NULL));
    h = hd_conv(x, each, NULL, HD_OPTS(hd_conv_opts, .groups = 4, .padding = {{1, 0}, {0, 1}}));
    hd_builder_add_output(b, "h", hd_tanh(hd_mul_scalar(h, 1e-2)));
    hd_assign(state, hd_reshape(hd_mul(h, x), S(12, 40)));
    return built(b);
}

/* A constant and a state that several products read, packed once; the state in each run. */
static hd_script *shared(hd_tensor *state) {
    hd_tensor *w = operand(S(40, 40), 1, HD_F32);
    hd_builder *b = started("shared");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_input("x", S(12, 40), HD_F32), *turned = hd_t(state), *y = NULL;
    hd_tensor *h = hd_concat(LIST(x, x, x, x, x, x, x, x, x, x, x, x), 0);
    h = hd_concat(LIST(h, h, h, h, h), 0);
    for (int i = 0; i < 3; ++i) h = hd_relu(hd_matmul(hd_mul_scalar(h, 1e-2), w));
    for (int i = 0; i < 3; ++i) {
        hd_tensor *part = hd_matmul(hd_mul_scalar(hd_slice(h, 0, i, i + 640, 1), 1e-2), turned);
        y = y == NULL ? part : hd_add(y, part);
    }
    hd_builder_add_output(b, "h", hd_reshape(hd_slice(y, 0, 0, 40, 1), S(12, 40)));
    hd_assign(state, hd_mul_scalar(hd_slice(h, 0, 0, 12, 1), 1e-2));
    return built(b);
}

/* A product that computes its first operand, a megabyte, as it reads it. */
static hd_script *prologues(hd_tensor *state) {
    hd_tensor *row = operand(S(560), 1, HD_F32), *w = operand(S(560, 40), 2, HD_F32);
    hd_builder *b = started("prologues");
    hd_builder_add_state(b, "state", state);
    hd_tensor *each = hd_add(hd_reshape(hd_input("x", S(12, 40), HD_F32), S(12, 40, 1)), row);
    hd_tensor *h = hd_relu(hd_matmul(hd_reshape(each, S(480, 560)), w));
    hd_builder_add_output(b, "h", hd_tanh(hd_mul_scalar(h, 1e-4)));
    hd_add_(state, hd_slice(h, 0, 0, 12, 1));
    return built(b);
}

/* State that could be written in place, and outputs to hand out after it. */
static hd_script *in_place(hd_tensor *state) {
    hd_builder *b = started("in place");
    hd_builder_add_state(b, "state", state);
    hd_tensor *x = hd_input("x", S(12, 40), HD_F32);
    hd_add_(state, x);
    hd_builder_add_output(b, "a", hd_exp(hd_neg(x)));
    hd_builder_add_output(b, "b", hd_sum(x, X(1), NULL));
    return built(b);
}

/* ---- every allocation fails once --------------------------------------------------------------------------------- */
static void survives(maker make, bool fresh_code, bool compiled_already) {
    HD_SCOPE;
    hd_tensor *state = operand(S(12, 40), 3, HD_F32), *start = hd_copy(state), *x = operand(S(12, 40), 0, HD_F32);
    hd_tensor *expected[8], *after;
    int count = 0;
    {
        HD_SCOPE; /* it holds code, too */
        hd_script *s = make(state);
        hd_script_set_optimization_level(s, HD_O2);
        hd_script_set_input(s, "x", x);
        hd_outputs *o = hd_script_run(s);
        if (o == NULL) fail_msg("%s", hd_error_message());
        for (; count < hd_outputs_count(o); ++count) expected[count] = hd_keep(hd_copy(hd_outputs_at(o, count)));
        after = hd_keep(hd_copy(state));
    }
    int64_t failed = 0;
    hd_clear_tape();
    const int64_t objects = hd_live_objects(), bytes = hd_memory().live_bytes;
    /* where that takes long, as compiling anew does, some places stand for all */
    const uint64_t one_in = fresh_code ? 5 : SANITIZED ? 2 : 1;
    const int64_t step = (int64_t)sample_step(one_in);
    for (int64_t n = (int64_t)sample_first(one_in), reached = true; reached; n += step) {
        hd_assign(state, start);
        {
            HD_SCOPE;
            hd_script *s = make(state);
            hd_script_set_optimization_level(s, HD_O2);
            hd_script_set_input(s, "x", x);
            if (compiled_already) hd_script_compile(s);
            if (fresh_code) hd_cache_clear();
            hd_memory_trim(); /* nothing cached: the first allocation of a kind is a real one */
            assert_ok();
            hd_memory_fail_after(n);
            hd_outputs *o = hd_script_run(s);
            reached = hd_memory_attempts() > n;
            hd_memory_fail_after(-1);
            if (o == NULL) {
                ++failed;
                if (hd_error_code() != HD_ERROR_MEMORY)
                    fail_msg("allocation %d failed, but the error is: %s", (int)n, hd_error_message());
                hd_error_clear();
                const char *why = difference(state, start);
                if (why[0] != '\0') fail_msg("after allocation %d failed state is not as it was: %s", (int)n, why);
                o = hd_script_run(s); /* the next one goes well */
            }
            if (o == NULL) fail_msg("after allocation %d failed: %s", (int)n, hd_error_message());
            for (int i = 0; i < count; ++i) assert_identical(hd_outputs_at(o, i), expected[i]);
            const char *why = difference(state, after);
            if (why[0] != '\0') fail_msg("allocation %d: the new state: %s", (int)n, why);
        }
        if (hd_live_objects() != objects || hd_memory().live_bytes != bytes)
            fail_msg("after allocation %d failed %lld objects and %lld bytes are left", (int)n,
                     (long long)(hd_live_objects() - objects), (long long)(hd_memory().live_bytes - bytes));
        if (n > 20000) fail_msg("allocations without an end");
    }
    assert_true(failed * step > 3);
}

#define SURVIVES(make)                                                                                                 \
    static void make##_survive_while_they_are_compiled(void **state) {                                                 \
        (void)state;                                                                                                   \
        survives(make, true, false);                                                                                   \
    }                                                                                                                  \
    static void make##_survive_while_code_is_found(void **state) {                                                     \
        (void)state;                                                                                                   \
        survives(make, false, false);                                                                                  \
    }                                                                                                                  \
    static void make##_survive_while_they_run(void **state) {                                                          \
        (void)state;                                                                                                   \
        survives(make, false, true);                                                                                   \
    }
SURVIVES(kernels)
SURVIVES(products)
SURVIVES(moved)
SURVIVES(convolutions)
SURVIVES(shared)
SURVIVES(prologues)
SURVIVES(in_place)

/* ---- flat -------------------------------------------------------------------------------------------------------- */
static void scripts_leave_nothing_behind(void **state) {
    (void)state;
    const int warm = SANITIZED ? 0 : WARM; /* a sanitizer counts for itself */
    int64_t level = 0;
    for (int round = 0; round < warm + 60; ++round) {
        HD_SCOPE;
        hd_tensor *s0 = operand(S(12, 40), 3, HD_F32);
        static const maker makers[] = {kernels, products, moved, convolutions, shared, prologues, in_place};
        for (size_t i = 0; i < sizeof makers / sizeof makers[0]; ++i) {
            hd_script *s = makers[i](s0);
            hd_script_set_optimization_level(s, round % 2 ? HD_O1 : HD_O2);
            hd_script_set_input(s, "x", s0);
            hd_script_run(s);
        }
        assert_ok();
        if (round == warm) level = bytes_given_out();
    }
    if (bytes_given_out() > level + 65536) fail_msg("%lld bytes more", (long long)(bytes_given_out() - level));
}

RUN_ON_THE_CPU_WITH("it counts the memory of the host", make_own_cache, remove_own_cache,
                    test(kernels_survive_while_they_are_compiled), test(kernels_survive_while_code_is_found),
                    test(kernels_survive_while_they_run), test(products_survive_while_they_are_compiled),
                    test(products_survive_while_code_is_found), test(products_survive_while_they_run),
                    test(moved_survive_while_they_are_compiled), test(moved_survive_while_code_is_found),
                    test(moved_survive_while_they_run), test(convolutions_survive_while_they_are_compiled),
                    test(convolutions_survive_while_code_is_found), test(convolutions_survive_while_they_run),
                    test(shared_survive_while_they_are_compiled), test(shared_survive_while_code_is_found),
                    test(shared_survive_while_they_run), test(prologues_survive_while_they_are_compiled),
                    test(prologues_survive_while_code_is_found), test(prologues_survive_while_they_run),
                    test(in_place_survive_while_they_are_compiled), test(in_place_survive_while_code_is_found),
                    test(in_place_survive_while_they_run), test(scripts_leave_nothing_behind))
