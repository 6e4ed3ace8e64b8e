/* Weights that several products read: packed once for all that read them alike, and in each run when the run changes
 * them. */
#include "graph/calls.h"
#include "compiler/levels.h"
#include "machine/cpu.h"
#include "machine/machines.h"
#include "core/device.h"
#include "graph/pass.h"

enum { WIDE = 192, ROWS = 40, STEPS = 5, UNITS = 64 };

/* ---- what is shared ---------------------------------------------------------------------------------------------- */
/* That a graph's plan has so many weights, which so many products read in all. */
static void keeps(hd_builder *b, uint32_t weights, uint32_t readers, const char *what) {
    hd_builder_end(b);
    hd_graph *g = hd_builder_graph(b), *simple = g == NULL ? NULL : hd_graph_simplify(hd_thread_self(), g);
    if (simple == NULL) fail_msg("%s: %s", what, hd_error_message());
    hd_plan *p = hd_plan_new(hd_thread_self(), simple, hd_cpu_machine(), HD_O2, NULL, NULL);
    if (p == NULL) fail_msg("%s: %s", what, hd_error_message());
    uint32_t count = 0, all = 0;
    for (uint32_t i = 0; i < hd_cpu_plan_of(p)->weight_count; ++i) {
        count += hd_cpu_plan_of(p)->weights[i].readers > 0;
        all += hd_cpu_plan_of(p)->weights[i].readers;
    }
    if (count != weights || all != readers)
        fail_msg("%s: %u weights with %u readers, not %u with %u", what, count, all, weights, readers);
    p->executable.destroy(&p->executable, hd_thread_self());
    hd_graph_release(hd_thread_self(), simple);
}

typedef enum kind { CONSTANT, BOUND, UPDATED } kind;

static hd_builder *began(hd_tensor *w, kind k) {
    hd_builder *b = started("shared");
    if (k == BOUND) hd_builder_bind(b, "w", w);
    if (k == UPDATED) hd_builder_add_state(b, "w", w);
    return b;
}
static void ended(hd_tensor *w, kind k) {
    if (k == UPDATED) hd_assign(w, hd_mul_scalar(w, 0.75));
}

/* h = relu(h w + 1), again and again. */
static hd_tensor *recurs(hd_tensor *h, hd_tensor *w, int steps) {
    for (int i = 0; i < steps; ++i) h = hd_relu(hd_add_scalar(hd_matmul(hd_mul_scalar(h, 1e-3), w), 1));
    return h;
}

static void products_that_read_alike_share(void **state) {
    (void)state;
    for (kind k = CONSTANT; k <= UPDATED; ++k)
        for (int steps = 1; steps <= 4; ++steps) {
            HD_SCOPE;
            hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32);
            hd_builder *b = began(w, k);
            hd_builder_add_output(b, "y", recurs(hd_input("x", S(ROWS, WIDE), HD_F32), w, steps));
            ended(w, k);
            const bool kept = k != UPDATED || steps > 1; /* one product packs what changes on the way */
            keeps(b, kept, kept ? (uint32_t)steps : 0, "steps");
        }
}

static void other_views_and_parts_do_not(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32);
    hd_builder *b = began(w, BOUND);
    hd_tensor *x = hd_input("x", S(2 * ROWS, WIDE / 2), HD_F32);
    for (int i = 0; i < 2; ++i) {
        hd_tensor *half = hd_slice(w, 0, i * WIDE / 2, (i + 1) * WIDE / 2, 1);
        hd_tensor *other = hd_t(hd_slice(w, 1, i * WIDE / 2, (i + 1) * WIDE / 2, 1));
        hd_builder_add_output(b, i == 0 ? "a" : "b", hd_matmul(hd_add_scalar(x, i), half));
        hd_builder_add_output(b, i == 0 ? "c" : "d", hd_matmul(hd_add_scalar(x, i + 2), other));
    }
    keeps(b, 4, 4, "halves");
}

/* Rows of any number share a weight unless what they are computed with wants it otherwise. */
static void rows_of_any_number(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F64);
    hd_builder *b = began(w, BOUND);
    char name[8];
    for (int64_t rows = 30; rows < 300; rows += 60) {
        snprintf(name, sizeof name, "%d", (int)rows);
        hd_tensor *x = hd_input(name, S(rows, WIDE), HD_F64);
        hd_builder_add_output(b, name, hd_relu(hd_matmul(x, w)));
    }
    keeps(b, 1, 5, "rows of any number");
}

/* Few rows read halves as they are, more of them converted: two ways to pack, and one product for each is not
 * several. */
static void rows_that_decide_how_to_pack(void **state) {
    (void)state;
    for (kind k = BOUND; k <= UPDATED; ++k) {
        HD_SCOPE;
        hd_tensor *w = operand(S(1024, 256), 1, HD_BF16);
        hd_builder *b = began(w, k);
        hd_builder_add_output(b, "few", hd_matmul(hd_input("few", S(12, 1024), HD_BF16), w));
        hd_builder_add_output(b, "many", hd_matmul(hd_input("many", S(40, 1024), HD_BF16), w));
        if (k == UPDATED) hd_assign(w, hd_neg(w));
        keeps(b, k == UPDATED ? 0 : 2, k == UPDATED ? 0 : 2, "halves");
    }
}

/* A constant that a kernel reads through a view is not packed where it lies. */
static void views_are_readers_too(void **state) {
    (void)state;
    enum { LARGE = 512 };
    for (int more = 0; more < 2; ++more) {
        HD_SCOPE;
        hd_script *s;
        {
            HD_SCOPE;
            hd_tensor *w = operand(S(LARGE, LARGE), 1, HD_F32);
            hd_builder *b = started("views");
            hd_tensor *x = hd_input("x", S(ROWS, LARGE), HD_F32), *t = hd_t(w);
            hd_builder_add_output(b, "plain", hd_matmul(x, w));
            hd_builder_add_output(b, "turned", hd_affine(hd_add_scalar(x, 1), t, NULL));
            if (more) hd_builder_add_output(b, "more", hd_add_scalar(t, 1));
            s = hd_keep(built(b));
        }
        hd_script_set_input(s, "x", operand(S(ROWS, LARGE), 0, HD_F32));
        const int64_t before = hd_memory().live_bytes, bytes = LARGE * LARGE * 4;
        {
            HD_SCOPE;
            hd_script_run(s);
        }
        assert_ok();
        const int64_t grown = hd_memory().live_bytes - before;
        if ((grown >= bytes) != more)
            fail_msg("%d: %lld bytes more, of %lld", more, (long long)grown, (long long)bytes);
        levels_agree(s, UNITS, "views");
    }
}

/* A step and its gradient read a weight in two ways, of which each is packed once. */
static void steps_and_their_gradients(void **state) {
    (void)state;
    for (int steps = 1; steps <= 4; ++steps) {
        HD_SCOPE;
        HD_GRAD_CONTEXT;
        hd_tensor *w = hd_requires_grad(operand(S(WIDE, WIDE), 1, HD_F32));
        hd_builder *b = started("training");
        hd_builder_add_state(b, "w", w);
        hd_tensor *y = recurs(hd_input("x", S(ROWS, WIDE), HD_F32), w, steps);
        hd_tensors *gradients = hd_grad_of(hd_sum(y, X(), NULL), HD_TENSORS(w), NULL);
        hd_builder_add_output(b, "y", y);
        {
            HD_NO_GRAD;
            hd_assign(w, hd_sub(w, hd_mul_scalar(hd_tensors_get(gradients, 0), 1e-3)));
        }
        /* all but the first step hand a gradient on, through the weight turned */
        const uint32_t ahead = steps > 1 ? (uint32_t)steps : 0, back = steps > 2 ? (uint32_t)steps - 1 : 0;
        keeps(b, (ahead > 0) + (back > 0), ahead + back, "gradients");
    }
}

static void convolutions_share(void **state) {
    (void)state;
    for (int same = 0; same < 2; ++same) {
        HD_SCOPE;
        hd_tensor *w = operand(S(16, 16, 3, 3), 1, HD_F32);
        hd_builder *b = began(w, BOUND);
        const hd_conv_opts *kept = HD_OPTS(hd_conv_opts, .padding = {{1, 1}, {1, 1}});
        hd_tensor *x = hd_input("x", S(2, 16, 20, 20), HD_F32);
        for (int i = 0; i < 3; ++i) x = hd_relu(hd_conv(x, w, NULL, same ? kept : NULL));
        hd_builder_add_output(b, "y", x);
        keeps(b, same ? 1 : 3, 3, "convolutions");
    }
}

/* ---- what they give ---------------------------------------------------------------------------------------------- */
/* Runs on weights that change: by the run, by the user, or not at all. */
static void every_run_reads_what_is_there(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I8};
    for (kind k = BOUND; k <= UPDATED; ++k)
        for (int d = 0; d < 4; ++d)
            for (int64_t rows = 1; rows < 100; rows += 33) {
                HD_SCOPE;
                const hd_dtype dtype = dtypes[d];
                hd_tensor *w = operand(S(WIDE, WIDE), 1, dtype), *twin = hd_copy(w),
                          *x = operand(S(rows, WIDE), 0, dtype);
                hd_tensor *one = hd_full(S(), dtype, 1);
                hd_builder *b = began(w, k);
                hd_tensor *in = hd_input("x", S(rows, WIDE), dtype);
                for (int i = 0; i < 4; ++i) {
                    const char *const names[] = {"a", "b", "c", "d"};
                    hd_builder_add_output(b, names[i], hd_matmul(in, w));
                    in = hd_add(in, one);
                }
                if (k == UPDATED) hd_assign(w, hd_add(w, one));
                hd_script *s = built(b);
                hd_script_set_input(s, "x", x);
                for (int run = 0; run < STEPS; ++run) {
                    HD_SCOPE;
                    if (run == 3) {
                        hd_script_set_state(s, "w", operand(S(WIDE, WIDE), 2, dtype));
                        hd_assign(twin, operand(S(WIDE, WIDE), 2, dtype));
                    }
                    hd_outputs *o = hd_script_run(s);
                    assert_ok();
                    hd_tensor *at = x;
                    for (int64_t i = 0; i < hd_outputs_count(o); ++i, at = hd_add(at, one)) {
                        hd_tensor *y = hd_matmul(at, twin);
                        const char *why = difference_within(hd_outputs_at(o, i), y, units_at_largest(y, UNITS));
                        if (why[0] != '\0')
                            fail_msg("kind %d, %s, %d rows, run %d: %s", (int)k, hd_dtype_name(dtype), (int)rows, run,
                                     why);
                    }
                    if (k == UPDATED) hd_assign(twin, hd_add(twin, one));
                    assert_identical(w, twin);
                }
            }
}

/* A run that fails changes nothing, and the next one reads what is there. */
static void after_a_run_that_failed(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32), *twin = hd_copy(w), *x = operand(S(ROWS, WIDE), 0, HD_F32);
    hd_builder *b = began(w, UPDATED);
    hd_tensor *at = hd_input("at", S(ROWS), HD_I64);
    hd_tensor *h = hd_index_select(hd_input("x", S(ROWS, WIDE), HD_F32), 0, at);
    hd_builder_add_output(b, "y", recurs(h, w, 4));
    ended(w, UPDATED);
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    for (int run = 0; run < 4; ++run) {
        HD_SCOPE;
        hd_script_set_input(s, "at", hd_full(S(ROWS), HD_I64, run == 2 ? ROWS : 0));
        hd_tensor *y = output(s, "y");
        if (run == 2) {
            assert_null(y);
            hd_error_clear();
            continue;
        }
        assert_ok();
        assert_within_units(y, recurs(hd_index_select(x, 0, hd_zeros(S(ROWS), HD_I64)), twin, 4), UNITS);
        hd_assign(twin, hd_mul_scalar(twin, 0.75));
    }
    assert_identical(w, twin);
}

/* While a builder records writes into a weight, and after that, a script reads what is there. */
static void recordings_in_between(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(WIDE, WIDE), 1, HD_F32), *x = operand(S(ROWS, WIDE), 0, HD_F32);
    hd_builder *b = began(w, BOUND);
    hd_builder_add_output(b, "y", hd_matmul(hd_input("x", S(ROWS, WIDE), HD_F32), w));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", x);
    hd_builder *step = started("step");
    hd_builder_add_state(step, "w", w);
    hd_assign(w, hd_mul_scalar(w, 0.5));
    {
        HD_EAGER;
        assert_within_units(output(s, "y"), hd_matmul(x, w), UNITS);
    }
    hd_script *update = built(step);
    hd_script_run(update);
    assert_within_units(output(s, "y"), hd_matmul(x, w), UNITS);
    assert_ok();
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static void they_are_in_memory_once(void **state) {
    (void)state;
    enum { LARGE = 512, MANY = 12 };
    const int64_t bytes = LARGE * LARGE * 4;
    for (kind k = CONSTANT; k <= UPDATED; ++k) {
        HD_SCOPE;
        hd_script *s;
        {
            HD_SCOPE;
            hd_tensor *w = operand(S(LARGE, LARGE), 1, HD_F32);
            hd_builder *b = began(w, k);
            hd_builder_add_output(b, "y", recurs(hd_input("x", S(20, LARGE), HD_F32), w, MANY));
            ended(w, k);
            s = hd_keep(built(b));
        }
        hd_script_set_input(s, "x", operand(S(20, LARGE), 0, HD_F32));
        const int64_t before = hd_memory().live_bytes;
        hd_script_run(s);
        assert_ok();
        const int64_t more = hd_memory().live_bytes - before; /* a constant is packed where it lies */
        if (more > (k == CONSTANT ? bytes / 2 : k == BOUND ? 2 * bytes : 3 * bytes))
            fail_msg("kind %d: %lld bytes more than %lld of a weight", (int)k, (long long)more, (long long)bytes);
        if (k != UPDATED) levels_agree(s, 4 * UNITS, "many steps");
    }
}

RUN_ON_THE_CPU("it counts the packed weights of the CPU", test(products_that_read_alike_share),
               test(other_views_and_parts_do_not), test(rows_of_any_number), test(rows_that_decide_how_to_pack),
               test(views_are_readers_too), test(steps_and_their_gradients), test(convolutions_share),
               test(every_run_reads_what_is_there), test(after_a_run_that_failed), test(recordings_in_between),
               test(they_are_in_memory_once))
