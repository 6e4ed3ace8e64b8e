/* Jobs: launches that threads share together. How many there are, how often threads wait for each other, and that
 * nothing else can be seen of them: the same bits as on one thread, the same error, state as it was after a run that
 * fails. */
#include "core/pool.h"
#include "graph/calls.h"
#include "heap.h"

enum { MOST_OUTPUTS = 40, MOST_THREADS = 5 };

/* ---- running ----------------------------------------------------------------------------------------------------- */
static void set_threads(int threads) {
    hd_set_num_threads(threads);
    assert_ok();
}

/* Outputs of a run on so many threads. */
static int64_t outputs_on(hd_script *s, int threads, hd_tensor **out) {
    set_threads(threads);
    hd_outputs *o = hd_script_run(s);
    if (o == NULL) fail_msg("%d threads: %s", threads, hd_error_message());
    const int64_t count = hd_outputs_count(o);
    assert_in_range(count, 1, MOST_OUTPUTS);
    for (int64_t i = 0; i < count; ++i) out[i] = hd_outputs_at(o, i);
    return count;
}

/* The same bits on any number of threads, and also when that changes between runs; near what was recorded. */
static void threads_agree(hd_script *s, const char *what) {
    const int before = hd_num_threads();
    HD_SCOPE;
    hd_tensor *recorded[MOST_OUTPUTS], *one[MOST_OUTPUTS], *more[MOST_OUTPUTS];
    hd_script_set_optimization_level(s, HD_O0);
    outputs_on(s, 1, recorded);
    hd_script_set_optimization_level(s, HD_O2);
    const int64_t count = outputs_on(s, 1, one);
    for (int64_t i = 0; i < count; ++i) {
        const char *why = difference_within(one[i], recorded[i], units_at_largest(recorded[i], 256));
        if (why[0] != '\0') fail_msg("%s, output %d: %s", what, (int)i, why);
    }
    for (int run = 0; run < 12; ++run) {
        const int threads = 2 + run * 7 % (MOST_THREADS - 1);
        outputs_on(s, threads, more);
        for (int64_t i = 0; i < count; ++i) {
            const char *why = difference(more[i], one[i]);
            if (why[0] != '\0') fail_msg("%s, %d threads, output %d: %s", what, threads, (int)i, why);
        }
    }
    set_threads(before);
}

/* How often threads share something out in a run. */
static int64_t barriers_of(hd_script *s, int threads) {
    const int before = hd_num_threads();
    HD_SCOPE;
    set_threads(threads);
    hd_script_run(s); /* weights are packed, memory is taken */
    assert_ok();
    const uint32_t jobs = hd_pool_jobs();
    hd_script_run(s);
    const uint32_t after = hd_pool_jobs();
    set_threads(before);
    return after - jobs;
}

static hd_script *ready(hd_builder *b) {
    hd_script *s = built(b);
    hd_script_set_optimization_level(s, HD_O2);
    hd_script_compile(s);
    assert_ok();
    return s;
}

/* Some work on each element, so that small values are worth a thread. */
static hd_tensor *busy(hd_tensor *x, int rounds) {
    for (int i = 0; i < rounds; ++i) x = hd_add_scalar(hd_mul_scalar(hd_tanh(x), 1.25), 0.125 * i);
    return x;
}

/* ---- side by side ------------------------------------------------------------------------------------------------ */
/* Values of different shapes are different kernels. */
static hd_script *branches(int count, int64_t least) {
    hd_builder *b = started("branches");
    for (int i = 0; i < count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        hd_tensor *x = hd_input(name, S(least + i, 40), HD_F32);
        snprintf(name, sizeof name, "y%d", i);
        hd_builder_add_output(b, name, busy(x, 8));
    }
    hd_script *s = ready(b);
    for (int i = 0; i < count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        hd_script_set_input(s, name, operand(S(least + i, 40), i, HD_F32));
    }
    return s;
}

static void independent_kernels_are_one_job(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = branches(12, 30);
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.launches, 12);
    assert_int_equal(f.jobs, 1);
    assert_int_equal(barriers_of(s, 1), 0);
    assert_int_equal(barriers_of(s, 2), 1);
    threads_agree(s, "branches");
}

static void what_is_too_small_to_share_waits_for_nobody(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = branches(2, 3);
    assert_int_equal(hd_script_stats(s).jobs, 1);
    assert_int_equal(barriers_of(s, 4), 0);
    threads_agree(s, "small branches");
}

static void large_kernels_keep_jobs_of_their_own(void **state) {
    (void)state;
    HD_SCOPE;
    hd_script *s = branches(3, 4000);
    assert_int_equal(hd_script_stats(s).jobs, 3);
    assert_int_equal(barriers_of(s, 2), 3);
    threads_agree(s, "large branches");
}

/* A function is some ten words: fewer of its points are worth a thread. */
static void functions_cost_more_than_words(void **state) {
    (void)state;
    for (int functions = 0; functions < 2; ++functions) {
        HD_SCOPE;
        hd_builder *b = started("cost");
        hd_tensor *x = hd_input("x", S(64, 64), HD_F32), *y = x;
        for (int i = 0; i < 8; ++i) y = functions ? hd_tanh(hd_add(y, x)) : hd_abs(hd_add(y, x));
        hd_builder_add_output(b, "y", y);
        hd_script *s = ready(b);
        hd_script_set_input(s, "x", operand(S(64, 64), 0, HD_F32));
        assert_int_equal(barriers_of(s, 2), functions);
        threads_agree(s, "functions");
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
/* Two reductions along different axes, both inside the first one: each thread does its rows of both. */
static void rows_are_not_waited_for(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{64, 24, 40}, {100, 17, 33}, {67, 1, 200}, {256, 8, 8}, {65, 3, 1}};
    for (int i = 0; i < 5; ++i) {
        HD_SCOPE;
        const hd_shape shape = S(sizes[i][0], sizes[i][1], sizes[i][2]);
        hd_builder *b = started("rows");
        hd_tensor *x = hd_input("x", shape, HD_F32);
        hd_tensor *h = hd_sub(busy(x, 2), hd_mean(busy(x, 2), X(2), KEEP)), *y = hd_softmax(h, 1);
        hd_builder_add_output(b, "y", y);
        hd_script *s = ready(b);
        hd_script_set_input(s, "x", operand(shape, i, HD_F32));
        const hd_script_figures f = hd_script_stats(s);
        if (f.launches != 2) fail_msg("sizes %d: %lld launches", i, (long long)f.launches);
        assert_int_equal(f.jobs, 1);
        if (i < 2) assert_int_equal(barriers_of(s, 2), 1);
        threads_agree(s, "rows");
    }
}

/* The second kernel reads other rows than the first one has written with it. */
static void what_reads_other_rows_waits(void **state) {
    (void)state;
    for (int kind = 0; kind < 5; ++kind) {
        HD_SCOPE;
        hd_builder *b = started("columns");
        hd_tensor *x = hd_input("x", S(96, 96), HD_F32);
        hd_tensor *h = hd_sub(busy(x, 4), hd_mean(busy(x, 4), X(1), KEEP));
        hd_tensor *turned = kind == 0   ? hd_t(h)
                            : kind == 1 ? hd_slice(h, 0, HD_END, HD_END, -1)
                            : kind == 4 ? hd_slice(hd_concat(LIST(hd_abs(h), hd_neg(h)), 0), 0, 48, 144, 1)
                            : kind == 2 ? hd_reshape(hd_slice(hd_reshape(h, S(-1)), 0, 1, HD_END, 1), S(95, 97))
                                        : hd_index_select(h, 0, hd_input("at", S(96), HD_I64));
        hd_builder_add_output(b, "y", hd_softmax(busy(turned, 4), 1));
        if (kind != 4) hd_builder_add_output(b, "h", h);
        hd_script *s = ready(b);
        hd_script_set_input(s, "x", operand(S(96, 96), 0, HD_F32));
        if (kind == 3) hd_script_set_input(s, "at", hd_mod_scalar(hd_arange(5, 5 + 96 * 7, 7, HD_I64), 96));
        assert_in_range(hd_script_stats(s).jobs, 2, 4);
        threads_agree(s, "other rows");
    }
}

/* ---- branches of products ---------------------------------------------------------------------------------------- */
/* Heads that each multiply twice, too small to be shared out: one thread does a branch. */
static void small_products_run_side_by_side(void **state) {
    (void)state;
    HD_SCOPE;
    enum { HEADS = 6 };
    hd_builder *b = started("heads");
    hd_tensor *x = hd_input("x", S(30, 40), HD_F32), *heads[HEADS];
    for (int i = 0; i < HEADS; ++i) {
        hd_tensor *w = operand(S(40, 50 + i), 1 + i, HD_F32), *v = operand(S(50 + i, 20), 9 + i, HD_F32);
        heads[i] = hd_tanh(hd_matmul(hd_softmax(hd_mul_scalar(hd_relu(hd_matmul(x, w)), 0.25), 1), v));
    }
    hd_tensor *sum = heads[0];
    for (int i = 1; i < HEADS; ++i) sum = hd_add(sum, heads[i]);
    hd_builder_add_output(b, "sum", sum);
    hd_script *s = ready(b);
    hd_script_set_input(s, "x", operand(S(30, 40), 0, HD_F32));
    const hd_script_figures f = hd_script_stats(s);
    assert_in_range(f.launches, 3 * HEADS, 4 * HEADS);
    assert_in_range(f.jobs, 1, 3); /* the branches; where they come together */
    assert_in_range(barriers_of(s, 2), 1, 2);
    threads_agree(s, "heads");
}

/* Whether threads share a product follows from what it costs: multiplications, and memory that is read for few of
 * them. */
static void products_are_shared_by_what_they_cost(void **state) {
    (void)state;
    static const struct {
        int64_t rows, columns, k;
        bool turned; /* weights that lie across memory are packed, whatever it costs */
        bool shared;
    } cases[] = {{6, 200, 200, false, false}, {6, 200, 200, true, false},  {8, 200, 200, true, true},
                 {40, 256, 80, false, true},  {60, 60, 60, false, false},  {60, 60, 60, true, false},
                 {1, 256, 256, false, false}, {1, 1024, 512, false, true}, {130, 130, 130, false, true},
                 {30, 50, 1, false, false},   {130, 130, 130, true, true}};
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i)
        for (int steady = 0; steady < 2; ++steady) {
            HD_SCOPE;
            const int64_t rows = cases[i].rows, columns = cases[i].columns, k = cases[i].k;
            const hd_shape shape = cases[i].turned ? S(columns, k) : S(k, columns);
            hd_tensor *w = operand(shape, 1, HD_F32);
            hd_builder *b = started("product");
            hd_tensor *x = hd_input("x", S(rows, k), HD_F32), *weight = steady ? w : hd_input("w", shape, HD_F32);
            hd_builder_add_output(b, "y", hd_relu(hd_matmul(x, cases[i].turned ? hd_t(weight) : weight)));
            hd_script *s = ready(b);
            hd_script_set_input(s, "x", operand(S(rows, k), 0, HD_F32));
            if (!steady) hd_script_set_input(s, "w", w);
            const int64_t barriers = barriers_of(s, 2);
            if ((barriers > 0) != cases[i].shared)
                fail_msg("case %d, steady %d: %lld barriers", i, steady, (long long)barriers);
            threads_agree(s, "a product");
        }
}

/* Three equal branches for two threads: one of them would wait for the third. Products that are shared are sooner done
 * one after the other; four are not. */
static void branches_that_do_not_come_out_even_run_in_order(void **state) {
    (void)state;
    for (int count = 3; count <= 4; ++count) {
        HD_SCOPE;
        hd_tensor *w[4];
        for (int i = 0; i < count; ++i) w[i] = operand(S(110, 110 + i), 1 + i, HD_F32);
        hd_builder *b = started("uneven");
        hd_tensor *x = hd_input("x", S(40, 110), HD_F32);
        for (int i = 0; i < count; ++i) {
            char name[16];
            snprintf(name, sizeof name, "y%d", i);
            hd_builder_add_output(b, name, hd_relu(hd_matmul(x, hd_t(hd_reshape(w[i], S(110 + i, 110))))));
        }
        hd_script *s = ready(b);
        hd_script_set_input(s, "x", operand(S(40, 110), 0, HD_F32));
        assert_int_equal(hd_script_stats(s).jobs, 1);
        assert_int_equal(barriers_of(s, 2), count == 3 ? 3 : 1);
        threads_agree(s, "uneven branches");
    }
}

/* A product alone is a launch like others when it is small: it has company, and state behind it is written in place. */
static void a_small_product_alone_has_company(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(60, 70), 1, HD_F32);
    hd_builder *b = started("company");
    hd_builder_add_state(b, "w", w);
    hd_tensor *x = hd_input("x", S(40, 50), HD_F32), *y = hd_input("y", S(50, 60), HD_F32);
    hd_builder_add_output(b, "product", hd_matmul(x, y));
    hd_builder_add_output(b, "turned", hd_matmul(hd_t(y), hd_t(x)));
    hd_builder_add_output(b, "many", hd_matmul(hd_reshape(x, S(4, 10, 50)), y));
    hd_assign(w, busy(w, 2));
    hd_script *s = ready(b);
    hd_script_set_input(s, "x", operand(S(40, 50), 0, HD_F32));
    hd_script_set_input(s, "y", operand(S(50, 60), 2, HD_F32));
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.launches, 4);
    assert_int_equal(f.jobs, 1);
    hd_script *other = hd_script_clone(s);
    threads_agree(other, "small products");
    const void *before = hd_data_f32(w);
    assert_non_null(hd_script_run(s));
    assert_ptr_equal(hd_data_f32(w), before);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
/* Random graphs of small values: whoever shares memory that another launch of the job still needs gives other bits. */
static uint32_t random_state;
static uint32_t below(uint32_t bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

static hd_script *random_script(uint32_t seed, hd_tensor **states, int state_count) {
    random_state = seed;
    hd_builder *b = started("random");
    enum { MOST = 28 };
    hd_tensor *values[MOST];
    int count = 0;
    for (int i = 0; i < 3; ++i) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        values[count++] = hd_input(name, S(64, 24 + 8 * i), HD_F32);
    }
    for (int i = 0; i < state_count; ++i) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        hd_builder_add_state(b, name, states[i]);
        values[count++] = states[i];
    }
    const int given = count;
    while (count < MOST) {
        hd_tensor *a = values[below((uint32_t)count)], *c = values[below((uint32_t)count)];
        const int64_t n = hd_tensor_shape(a).size[1], m = hd_tensor_shape(c).size[1];
        hd_tensor *y;
        switch (below(6)) {
        case 0: y = hd_softmax(busy(a, 3), (int)below(2)); break;
        case 1: y = n == m ? hd_mul(hd_tanh(a), c) : hd_matmul(a, operand(S(n, m), count, HD_F32)); break;
        case 2: y = hd_sub(a, hd_mean(busy(a, 2), X(1), KEEP)); break;
        case 3: y = hd_tanh(hd_concat(LIST(hd_slice(a, 1, 0, n / 2, 1), hd_slice(c, 1, m / 2, m, 1)), 1)); break;
        case 4: y = hd_mul(busy(c, 2), hd_mean(a, X(0, 1), KEEP)); break;
        default: y = hd_mul_scalar(hd_matmul(hd_matmul(a, hd_t(a)), c), 1e-3); break;
        }
        values[count++] = hd_tanh(hd_mul_scalar(y, 0.5));
    }
    for (int i = given; i < count; i += 3) {
        char name[16];
        snprintf(name, sizeof name, "y%d", i);
        hd_builder_add_output(b, name, hd_mul_scalar(values[i], 3));
    }
    for (int i = 0; i < state_count; ++i) {
        const int64_t n = hd_tensor_shape(states[i]).size[1];
        for (int k = count - 1 - i; k > given; --k)
            if (hd_tensor_shape(values[k]).size[1] == n) {
                hd_assign(states[i], hd_add(hd_mul_scalar(states[i], 0.5), values[k]));
                break;
            }
    }
    return ready(b);
}

static void memory_is_nobody_elses(void **state) {
    (void)state;
    const int before = hd_num_threads();
    int64_t launches = 0, jobs = 0;
    for (uint32_t seed = 1; seed <= (SANITIZED ? 6 : 40); ++seed) {
        HD_SCOPE;
        hd_tensor *expected[MOST_OUTPUTS + 2];
        for (int threads = 1; threads <= 4; threads += 1 + (threads == 2)) {
            hd_tensor *states[2] = {operand(S(64, 24), 4, HD_F32), operand(S(64, 40), 5, HD_F32)},
                      *got[MOST_OUTPUTS + 2];
            hd_script *s = random_script(seed, states, 2);
            for (int i = 0; i < 3; ++i) {
                char name[16];
                snprintf(name, sizeof name, "x%d", i);
                hd_script_set_input(s, name, operand(S(64, 24 + 8 * i), i, HD_F32));
            }
            int64_t count = 0;
            for (int run = 0; run < 3; ++run) count = outputs_on(s, threads, got);
            got[count++] = hd_script_state(s, "s0");
            got[count++] = hd_script_state(s, "s1");
            for (int64_t i = 0; threads > 1 && i < count; ++i) {
                const char *why = difference(got[i], expected[i]);
                if (why[0] != '\0') fail_msg("seed %u, %d threads, value %d: %s", seed, threads, (int)i, why);
            }
            if (threads == 1) memcpy(expected, got, sizeof got);
            launches += hd_script_stats(s).launches;
            jobs += hd_script_stats(s).jobs;
        }
    }
    set_threads(before);
    assert_in_range(jobs, 1, launches * 3 / 4);
}

/* A value that two launches of a job read for the last time: none of them may write over it. */
static void what_another_launch_reads_stays(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = operand(S(128, 60), 1, HD_F32);
    hd_builder *b = started("twice");
    hd_tensor *x =
        hd_max_pool(hd_input("x", S(64, 128), HD_F32), S(1), NULL); /* a call: its result is the plan's own */
    hd_tensor *product = hd_tanh(hd_matmul(x, w)), *y = busy(x, 3);
    hd_builder_add_output(b, "product", hd_roll(product, 1, 0));
    hd_builder_add_output(b, "y", hd_roll(y, 1, 0));
    hd_script *s = ready(b);
    hd_script_set_input(s, "x", hd_mul_scalar(operand(S(64, 128), 0, HD_F32), 0.01));
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.launches, 5);
    assert_int_equal(f.jobs, 4);
    assert_in_range(f.arena_bytes, 64 * (128 + 128 + 60) * 4, 1 << 20); /* x is there besides what is made of it */
    for (int run = 0; run < (SANITIZED ? 2 : 20); ++run) threads_agree(s, "a value read twice");
}

/* ---- state ------------------------------------------------------------------------------------------------------- */
/* The parameters of a small net: their updates are one job. */
static void updates_of_parameters_are_one_job(void **state) {
    (void)state;
    enum { LAYERS = 8 };
    const int before = hd_num_threads();
    HD_SCOPE;
    hd_tensor *expected[LAYERS];
    for (int threads = 1; threads <= 4; ++threads) {
        hd_tensor *w[LAYERS], *v[LAYERS];
        char name[16];
        for (int i = 0; i < LAYERS; ++i) {
            w[i] = operand(S(50 + i, 60), i, HD_F32);
            v[i] = hd_zeros(S(50 + i, 60), HD_F32);
        }
        hd_builder *b = started("updates");
        for (int i = 0; i < LAYERS; ++i) {
            snprintf(name, sizeof name, "w%d", i);
            hd_builder_add_state(b, name, w[i]);
            snprintf(name, sizeof name, "v%d", i);
            hd_builder_add_state(b, name, v[i]);
        }
        hd_tensor *rate = hd_input("rate", S(), HD_F32);
        for (int i = 0; i < LAYERS; ++i) {
            hd_assign(v[i], hd_add(hd_mul_scalar(v[i], 0.9), busy(w[i], 4)));
            hd_assign(w[i], hd_sub(w[i], hd_mul(v[i], rate)));
        }
        hd_script *s = ready(b);
        hd_script_set_input(s, "rate", hd_scalar(0.01, HD_F32));
        const hd_script_figures f = hd_script_stats(s);
        assert_int_equal(f.launches, LAYERS);
        assert_int_equal(f.jobs, 1);
        set_threads(threads);
        for (int run = 0; run < 3; ++run) assert_non_null(hd_script_run(s));
        for (int i = 0; i < LAYERS; ++i) {
            snprintf(name, sizeof name, "w%d", i);
            hd_tensor *now = hd_script_state(s, name);
            if (threads == 1) expected[i] = now;
            assert_identical(now, expected[i]);
        }
        const hd_script_check_result check = hd_script_check(s); /* which changes no state */
        assert_ok();
        assert_true(check.relative < 1e-5);
        assert_identical(hd_script_state(s, name), expected[LAYERS - 1]);
    }
    set_threads(before);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
/* Of two things that go wrong, the first in the order of the plan is told, on any number of threads; state stays. */
static void the_first_error_is_told(void **state) {
    (void)state;
    const int before = hd_num_threads();
    for (int wrong = 0; wrong < 4; ++wrong) {
        char first[512] = "";
        for (int threads = 1; threads <= 4; ++threads) {
            HD_SCOPE;
            hd_tensor *w = operand(S(60, 70), 1, HD_F32), *was = hd_mul_scalar(w, 1); /* no snapshot */
            hd_builder *b = started("wrong");
            hd_builder_add_state(b, "w", w);
            hd_tensor *x = hd_input("x", S(40, 50), HD_F32), *at = hd_input("at", S(40, 1), HD_I64),
                      *by = hd_input("by", S(30), HD_I64);
            hd_tensor *h = busy(x, 6);
            hd_builder_add_output(b, "picked", busy(hd_gather(h, 1, at), 2));
            hd_builder_add_output(b, "quotient", hd_floor_divide(hd_full(S(30), HD_I64, 100), by));
            hd_builder_add_output(b, "rows", busy(hd_index_select(hd_t(h), 0, hd_reshape(at, S(40))), 3));
            hd_builder_add_output(b, "other", busy(hd_input("y", S(41, 50), HD_F32), 6));
            hd_assign(w, busy(w, 6));
            hd_script *s = ready(b);
            set_threads(threads);
            hd_script_set_input(s, "x", operand(S(40, 50), 0, HD_F32));
            hd_script_set_input(s, "y", operand(S(41, 50), 2, HD_F32));
            hd_script_set_input(s, "at", hd_full(S(40, 1), HD_I64, wrong & 1 ? 50 : 7));
            hd_script_set_input(s, "by", hd_full(S(30), HD_I64, wrong & 2 ? 0 : 7));
            hd_outputs *o = hd_script_run(s);
            assert_int_equal(o != NULL, wrong == 0);
            if (threads == 1) snprintf(first, sizeof first, "%s", hd_ok() ? "" : hd_error_message());
            assert_string_equal(hd_ok() ? "" : hd_error_message(), first);
            hd_error_clear();
            if (wrong != 0) assert_identical(hd_script_state(s, "w"), was);
            hd_script_set_input(s, "at", hd_full(S(40, 1), HD_I64, 7)); /* and the next run goes well */
            hd_script_set_input(s, "by", hd_full(S(30), HD_I64, 7));
            assert_non_null(hd_script_run(s));
        }
    }
    set_threads(before);
}

/* State that is written over waits for what can fail, although a job before that would have a place for it. */
static void nothing_passes_what_can_fail(void **state) {
    (void)state;
    const int before = hd_num_threads();
    for (int threads = 1; threads <= 4; ++threads) {
        HD_SCOPE;
        hd_tensor *w = operand(S(60, 70), 1, HD_F32), *was = hd_mul_scalar(w, 1);
        hd_builder *b = started("late");
        hd_builder_add_state(b, "w", w);
        hd_tensor *x = hd_input("x", S(30), HD_I64), *by = hd_input("by", S(30), HD_I64);
        hd_builder_add_output(b, "quotient", hd_floor_divide(hd_mul(hd_add(x, x), x), by));
        hd_assign(w, busy(w, 6));
        hd_script *s = ready(b);
        set_threads(threads);
        hd_script_set_input(s, "x", hd_full(S(30), HD_I64, 5));
        hd_script_set_input(s, "by", hd_full(S(30), HD_I64, 0));
        assert_null(hd_script_run(s));
        assert_error(HD_ERROR_DIVISION, "divided by 0");
        assert_identical(hd_script_state(s, "w"), was);
    }
    set_threads(before);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */
static void values_of_no_and_of_one_element(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 200};
    for (int i = 0; i < 16; ++i) {
        HD_SCOPE;
        const int64_t n = sizes[i / 4], m = sizes[i % 4];
        hd_builder *b = started("sizes");
        hd_tensor *x = hd_input("x", S(n, m), HD_F32), *y = hd_input("y", S(m, n), HD_F32);
        hd_tensor *h = hd_sub(busy(x, 3), hd_sum(busy(x, 3), X(1), KEEP));
        hd_builder_add_output(b, "rows", h);
        hd_builder_add_output(b, "columns", hd_sum(h, X(0), NULL));
        hd_builder_add_output(b, "turned", busy(hd_t(h), 2));
        hd_builder_add_output(b, "product", hd_tanh(hd_mul_scalar(hd_matmul(x, y), 1e-4)));
        hd_builder_add_output(b, "beside", busy(y, 5));
        hd_builder_add_output(b, "all", hd_sum(hd_tanh(y), X(), NULL));
        hd_script *s = ready(b);
        hd_script_set_input(s, "x", operand(S(n, m), 0, HD_F32));
        hd_script_set_input(s, "y", operand(S(m, n), 1, HD_F32));
        threads_agree(s, "sizes");
    }
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */
/* A profile times every launch by itself. */
static void a_profile_has_every_launch(void **state) {
    (void)state;
    HD_SCOPE;
    const int before = hd_num_threads();
    hd_script *s = branches(5, 30);
    set_threads(2);
    hd_script_profile(s, 1);
    assert_ok();
    assert_int_equal(hd_script_stats(s).launches, 5);
    threads_agree(s, "after a profile");
    set_threads(before);
}

RUN_ON_THE_CPU("it counts the jobs of the CPU", test(independent_kernels_are_one_job),
               test(what_is_too_small_to_share_waits_for_nobody), test(large_kernels_keep_jobs_of_their_own),
               test(functions_cost_more_than_words), test(rows_are_not_waited_for), test(what_reads_other_rows_waits),
               test(small_products_run_side_by_side), test(products_are_shared_by_what_they_cost),
               test(a_small_product_alone_has_company), test(branches_that_do_not_come_out_even_run_in_order),
               test(memory_is_nobody_elses), test(what_another_launch_reads_stays),
               test(updates_of_parameters_are_one_job), test(the_first_error_is_told),
               test(nothing_passes_what_can_fail), test(values_of_no_and_of_one_element),
               test(a_profile_has_every_launch))
