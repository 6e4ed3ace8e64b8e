/* Passes: examples before and after (passes/<pass>-<what>.txt), and random programs that mean the same after each of
 * them, after all of them, and in any order. HODU_SEED=n runs program n alone. */
#include "graph/programs.h"
#include "script/script.h"

#include <dirent.h>
#include <time.h>

static const char *const names[] = {"spans", "dead", "algebra", "fold", "transpose", "widen", "broadcast", "common"};
enum { PASSES = (int)(sizeof names / sizeof names[0]) };

/* ---- examples ---------------------------------------------------------------------------------------------------- */
static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *text = calloc(1, 1 << 16);
    const size_t length = fread(text, 1, (1 << 16) - 1, f);
    assert_in_range(length, 1, (1 << 16) - 2);
    fclose(f);
    return text;
}

static void example_holds(const char *path, const char *file) {
    char *before = read_file(path), *after = strstr(before, "\n=====\n"), *text = strchr(before, '\n');
    if (after == NULL || text == NULL) fail_msg("%s: no line =====", file);
    *after = *text = '\0';
    after += strlen("\n=====\n");
    const hd_pass pass = hd_pass_named(before);
    if (pass == NULL || strncmp(file, before, strlen(before)) != 0)
        fail_msg("%s: its first line, \"%s\", is its pass", file, before);
    hd_thread *thread = hd_thread_self();
    hd_graph *g = hd_graph_parse(thread, text + 1);
    if (g == NULL) fail_msg("%s: %s", file, hd_error_message());
    char *first = text_of(g);
    hd_graph *out = pass(thread, g);
    if (out == NULL || hd_graph_verify(thread, out) != HD_OK) fail_msg("%s: %s", file, hd_error_message());
    char *got = text_of(out), *still = text_of(g);
    if (strcmp(first, still) != 0) fail_msg("%s: the pass changed what it was given", file);
    if (strcmp(got, after) != 0) fail_msg("%s: the pass gives\n%s\nand not\n%s", file, got, after);
    hd_graph_release(thread, g);
    hd_graph_release(thread, out);
    free(first);
    free(still);
    free(got);
    free(before);
}

static void examples_hold(void **state) {
    (void)state;
    DIR *folder = opendir(HODU_TEST_DATA "/../graph/passes");
    assert_non_null(folder);
    int count = 0, seen[PASSES] = {0};
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (strstr(e->d_name, ".txt") == NULL) continue;
        char path[4096];
        snprintf(path, sizeof path, HODU_TEST_DATA "/../graph/passes/%s", e->d_name);
        example_holds(path, e->d_name);
        for (int i = 0; i < PASSES; ++i) seen[i] += strncmp(e->d_name, names[i], strlen(names[i])) == 0;
        ++count;
    }
    closedir(folder);
    assert_in_range(count, 25, 10000);
    for (int i = 0; i < PASSES; ++i)
        if (seen[i] == 0) fail_msg("no example of %s", names[i]);
}

/* ---- random programs --------------------------------------------------------------------------------------------- */
/* Outputs, then the new values of state, of a graph at O0; the current scope's. */
enum { MOST_RESULTS = MOST_VALUES + 2 };
static int run_graph(hd_graph *g, const values *outside, hd_tensor **results, uint64_t program, const char *what) {
    hd_script *s = hd_script_over(hd_thread_self(), g, true);
    hd_script_set_optimization_level(s, HD_O0);
    hd_script_set_input(s, "x0", outside->t[0]);
    hd_script_set_input(s, "x1", outside->t[1]);
    hd_seed(program);
    hd_outputs *o = hd_script_run(s);
    if (o == NULL) fail_msg("program %llu after %s: %s", (unsigned long long)program, what, hd_error_message());
    int count = 0;
    for (int64_t i = 0; i < hd_outputs_count(o); ++i) results[count++] = hd_outputs_at(o, i);
    results[count++] = hd_script_state(s, "s0");
    results[count++] = hd_script_state(s, "s1");
    return count;
}

/* The graph says the same as `expected`. */
static void means(hd_graph *g, const values *outside, hd_tensor **expected, int count, bool exactly, uint64_t program,
                  const char *what) {
    HD_SCOPE;
    hd_tensor *got[MOST_RESULTS];
    if (hd_graph_verify(hd_thread_self(), g) != HD_OK)
        fail_msg("program %llu after %s: %s", (unsigned long long)program, what, hd_error_message());
    assert_int_equal(run_graph(g, outside, got, program, what), count);
    for (int i = 0; i < count; ++i) {
        const char *why = difference(got[i], expected[i]);
        if (why[0] == '\0') continue;
        if (!exactly && hd_ok() &&
            hd_allclose(got[i], expected[i], HD_OPTS(hd_allclose_opts, .relative = 1e-5, .absolute = 1e-5)))
            continue;
        fail_msg("program %llu after %s, result %d: %s", (unsigned long long)program, what, i, why);
    }
}

static void passes_keep(uint64_t program, int steps) {
    HD_SCOPE;
    hd_thread *thread = hd_thread_self();
    values outside = {.count = 0}, recorded = {.count = 0};
    make_outside(program, &outside);
    hd_builder *b = record_program(program, steps, &recorded, &outside);
    hd_graph *g = hd_builder_graph(b);
    if (g == NULL) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
    hd_tensor *expected[MOST_RESULTS];
    const int count = run_graph(g, &outside, expected, program, "nothing");
    const bool exactly = !recorded.inexact;
    for (int i = 0; i < PASSES; ++i) { /* each alone */
        hd_graph *out = hd_pass_named(names[i])(thread, g);
        if (out == NULL) fail_msg("program %llu: %s: %s", (unsigned long long)program, names[i], hd_error_message());
        means(out, &outside, expected, count, exactly, program, names[i]);
        assert_int_equal(out->draws, g->draws);
        if (strcmp(names[i], "fold") != 0) assert_true(out->node_count <= g->node_count + g->edge_count);
        hd_graph_release(thread, out);
    }
    dice d = {program};
    hd_graph *current = g;
    hd_object_retain(&g->object);
    char path[256] = "";
    for (int i = 0; i < 10; ++i) { /* in any order */
        const char *name = names[below(&d, PASSES)];
        hd_graph *out = hd_pass_named(name)(thread, current);
        if (out == NULL) fail_msg("program %llu: %s: %s", (unsigned long long)program, name, hd_error_message());
        hd_graph_release(thread, current);
        current = out;
        strcat(strcat(path, " "), name);
    }
    means(current, &outside, expected, count, exactly, program, path);
    hd_graph_release(thread, current);
    hd_graph *all = hd_graph_simplify(thread, g);
    means(all, &outside, expected, count, exactly, program, "all of them");
    hd_graph *again = hd_graph_simplify(thread, all); /* nothing is left to be done */
    assert_int_equal(again->output_count, all->output_count);
    assert_true(again->node_count <= all->node_count);
    means(again, &outside, expected, count, exactly, program, "all of them twice");
    hd_graph_release(thread, all);
    hd_graph_release(thread, again);
}

static void random_programs_mean_the_same(void **state) {
    (void)state;
    const char *seed = getenv("HODU_SEED");
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : sample_first(2), last = seed != NULL ? first : 399;
    for (uint64_t program = first; program <= last; program += sample_step(2))
        if (seed != NULL || when_compiled(program, 41)) passes_keep(program, 10 + (int)(program % 40));
}

/* ---- edges ------------------------------------------------------------------------------------------------------- */
/* What is taken out must be exactly x, for all kinds of values. */
static void what_is_taken_out_is_exact(void **state) {
    (void)state;
    HD_SCOPE;
    enum { N = 1 << 16 };
    float *v = malloc(N * sizeof *v);
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < N; ++i) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        const uint32_t b = (uint32_t)(bits >> 20);
        memcpy(&v[i], &b, 4);
    }
    const float special[] = {0, -0.0f, INFINITY, -INFINITY, 1, -1, 1e-45f, -1e-45f, 3.4028235e38f, 1.17549435e-38f};
    memcpy(v, special, sizeof special);
    hd_tensor *x = hd_from_data(v, S(N), HD_F32), *wide = hd_cast(x, HD_F64), *half = hd_cast(x, HD_F16);
    free(v);
    assert_identical(hd_mul_scalar(x, 1), x);
    assert_identical(hd_div_scalar(wide, 1), wide);
    assert_identical(hd_mul_scalar(half, 1), half);
    assert_identical(hd_sub_scalar(x, 0), x);
    assert_identical(hd_add_scalar(x, -0.0), x);
}

/* Casts in a row mean the same after the pass, for every three dtypes and values at the edges of all of them. */
static void every_chain_of_casts_means_the_same(void **state) {
    (void)state;
    HD_SCOPE;
    static const double edges[] = {0,     -0.0,     1,          -1,    0.5,      -1.5,  127,     128,   -128,  -129,
                                   255,   256,      448,        449,   464,      32767, 32768,   65504, 65535, 65536,
                                   70000, -32769,   2147483647, 4.3e9, 1e19,     -1e19, 3e-8,    6e-5,  1e-40, 1e38,
                                   1e39,  INFINITY, -INFINITY,  NAN,   16777217, 0.1,   57344.0, 61440, 1e300};
    enum { N = (int)(sizeof edges / sizeof edges[0]) };
    hd_tensor *all = hd_from_data(edges, S(N), HD_F64);
    for (int a = 1; a < HD_DTYPE_COUNT; ++a) {
        HD_SCOPE;
        hd_builder *b = started("casts");
        hd_tensor *x = hd_input("x", S(N), (hd_dtype)a);
        for (int m = 1; m < HD_DTYPE_COUNT; ++m)
            for (int c = 1; c < HD_DTYPE_COUNT; ++c) {
                if (!when_compiled((uint64_t)((a * 17 + m) * 17 + c), 31)) continue;
                char name[32];
                snprintf(name, sizeof name, "%d %d", m, c);
                hd_builder_add_output(b, name, hd_cast(hd_cast(x, (hd_dtype)m), (hd_dtype)c));
            }
        hd_script *s = built(b);
        hd_script_set_input(s, "x", hd_cast(all, (hd_dtype)a));
        hd_script_set_optimization_level(s, HD_O0);
        hd_outputs *plain = hd_script_run(s);
        hd_script_set_optimization_level(s, HD_O1);
        hd_outputs *simple = hd_script_run(s);
        assert_ok();
        for (int64_t i = 0; i < hd_outputs_count(plain); ++i) {
            const char *why = difference(hd_outputs_at(simple, i), hd_outputs_at(plain, i));
            if (why[0] != '\0')
                fail_msg("from %s by %s: %s", hd_dtype_name((hd_dtype)a), hd_outputs_name(plain, i), why);
        }
    }
}

/* What is folded draws nothing, is noted on no tape, and leaves no error. */
static void folding_leaves_no_trace(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *w = hd_param(operand(S(3), 0, HD_F32));
    hd_exp(w);
    const int64_t length = hd_tape_length();
    const uint64_t draw = hd_generator_draw(NULL);
    hd_builder *b = started("fold");
    hd_tensor *y = hd_mul(hd_exp(w), w);
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "z", hd_floor_divide(hd_full(S(2), HD_I32, 3), hd_full(S(), HD_I32, 0)));
    hd_builder_end(b);
    hd_graph *out = hd_pass_fold(hd_thread_self(), hd_builder_graph(b));
    assert_ok();
    assert_non_null(out);
    assert_int_equal(hd_tape_length(), length);
    assert_int_equal(hd_generator_draw(NULL), draw);
    hd_graph_release(hd_thread_self(), out);
}

/* A dtype that only the thread's default decides is the one that was recorded, whoever looks at the graph later. */
static void the_default_dtype_of_then_counts(void **state) {
    (void)state;
    HD_SCOPE;
    hd_set_default_dtype(HD_F64);
    hd_tensor *three = HD_TENSOR_I64(S(2), 3, 7);
    hd_builder *b = started("default");
    hd_tensor *x = hd_input("x", S(2), HD_I64);
    hd_builder_add_output(b, "y", hd_div(x, three));
    hd_builder_add_output(b, "z", hd_mean(three, X(), NULL));
    hd_builder_add_output(b, "e", hd_exp(x));
    hd_builder_end(b);
    hd_set_default_dtype(HD_F32);
    assert_int_equal(hd_graph_verify(hd_thread_self(), hd_builder_graph(b)), HD_OK);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", HD_TENSOR_I64(S(2), 1, 2));
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_outputs *o = hd_script_run(s);
        assert_values(hd_outputs_get(o, "y"), HD_F64, 1.0 / 3, 2.0 / 7);
        assert_values(hd_outputs_get(o, "z"), HD_F64, 5);
        assert_int_equal(hd_tensor_dtype(hd_outputs_get(o, "e")), HD_F64); /* exp itself may be an ulp off */
    }
    hd_set_default_dtype(HD_F32);
}

/* ---- large graphs ------------------------------------------------------------------------------------------------ */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined NDEBUG
enum { LONG = 20000, SHORTER = 20000 };
#else
enum { LONG = 1000000, SHORTER = 200000 };
#endif

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Makes graphs of some length by adding nodes themselves: what capture would add. */
typedef hd_graph *maker(hd_thread *thread, uint32_t length);

static hd_graph *begin_graph(hd_thread *thread, uint32_t *x) {
    hd_graph *g = hd_graph_new(thread, "long");
    const hd_shape shape = S(2, 2);
    *x = hd_graph_add_input(g, "x", HD_F32, &shape);
    return g;
}
static hd_graph *chain_of_ops(hd_thread *thread, uint32_t length) {
    uint32_t x;
    hd_graph *g = begin_graph(thread, &x);
    const hd_shape shape = S(2, 2);
    for (uint32_t i = 0; i < length; ++i)
        x = hd_graph_add(g, i % 2 ? HD_OP_neg : HD_OP_abs, 0, &x, 1, HD_F32, &shape, NULL);
    hd_graph_add_output(g, "y", x);
    return g;
}
static hd_graph *chain_of_nothing(hd_thread *thread, uint32_t length) { /* all of it can go */
    uint32_t x;
    hd_graph *g = begin_graph(thread, &x);
    const hd_shape shape = S(2, 2), none = S();
    const hd_full_attributes one = {1};
    const hd_axes_attributes turn = {X(1, 0)};
    const uint32_t number = hd_graph_add(g, HD_OP_full, 0, NULL, 0, HD_F32, &none, &one);
    for (uint32_t i = 0; i < length; ++i) {
        const uint32_t in[2] = {x, number};
        x = i % 2 ? hd_graph_add(g, HD_OP_mul, 0, in, 2, HD_F32, &shape, NULL)
                  : hd_graph_add(g, HD_OP_permute, 0, &x, 1, HD_F32, &shape, &turn);
    }
    hd_graph_add_output(g, "y", x);
    return g;
}
static hd_graph *chain_of_constants(hd_thread *thread, uint32_t length) { /* all of it can be computed */
    hd_graph *g = hd_graph_new(thread, "long");
    const hd_shape shape = S(2, 2);
    const hd_full_attributes one = {0.5};
    uint32_t x = hd_graph_add(g, HD_OP_full, 0, NULL, 0, HD_F32, &shape, &one);
    for (uint32_t i = 0; i < length; ++i) x = hd_graph_add(g, HD_OP_neg, 0, &x, 1, HD_F32, &shape, NULL);
    hd_graph_add_output(g, "y", x);
    return g;
}
static hd_graph *chain_of_views(hd_thread *thread, uint32_t length) { /* over a constant, with an op at its end */
    hd_graph *g = hd_graph_new(thread, "long");
    const hd_shape shape = S(4);
    const hd_full_attributes one = {0.5};
    const hd_slice_attributes back = {.axis = 0, .start = 3, .count = 4, .step = -1};
    uint32_t x = hd_graph_add(g, HD_OP_full, 0, NULL, 0, HD_F32, &shape, &one);
    for (uint32_t i = 0; i < length; ++i) x = hd_graph_add(g, HD_OP_slice, 0, &x, 1, HD_F32, &shape, &back);
    x = hd_graph_add(g, HD_OP_neg, 0, &x, 1, HD_F32, &shape, NULL);
    hd_graph_add_output(g, "y", x);
    return g;
}
static hd_graph *comb_of_views(hd_thread *thread, uint32_t length) { /* an op at every one of them */
    hd_graph *g = hd_graph_new(thread, "long");
    const hd_shape shape = S(4);
    const hd_full_attributes one = {0.5};
    const hd_slice_attributes back = {.axis = 0, .start = 3, .count = 4, .step = -1};
    uint32_t x = hd_graph_add(g, HD_OP_full, 0, NULL, 0, HD_F32, &shape, &one), sum = x;
    for (uint32_t i = 0; i < length / 3; ++i) {
        x = hd_graph_add(g, HD_OP_slice, 0, &x, 1, HD_F32, &shape, &back);
        const uint32_t in[2] = {sum, x};
        sum = hd_graph_add(g, HD_OP_add, 0, in, 2, HD_F32, &shape, NULL);
    }
    hd_graph_add_output(g, "y", sum);
    return g;
}
static hd_graph *fan(hd_thread *thread, uint32_t length) { /* all are alive until the end */
    uint32_t x;
    hd_graph *g = begin_graph(thread, &x);
    const hd_shape shape = S(2, 2);
    const uint32_t half = length / 2;
    uint32_t *list = malloc(half * sizeof *list), sum = x;
    for (uint32_t i = 0; i < half; ++i) {
        const hd_number_attributes number = {{(double)i}};
        list[i] = hd_graph_add(g, HD_OP_leaky_relu, 0, &x, 1, HD_F32, &shape, &number);
    }
    for (uint32_t i = 0; i < half; ++i) {
        const uint32_t in[2] = {sum, list[i % 2 ? i : half - 1 - i]};
        sum = hd_graph_add(g, HD_OP_add, 0, in, 2, HD_F32, &shape, NULL);
    }
    free(list);
    hd_graph_add_output(g, "y", sum);
    return g;
}

static double time_of(hd_graph *(*work)(hd_thread *, hd_graph *), hd_graph *g, hd_graph **out) {
    const double begin = seconds();
    *out = work(hd_thread_self(), g);
    return seconds() - begin;
}
static hd_graph *all_passes(hd_thread *thread, hd_graph *g) { return hd_graph_simplify(thread, g); }
static hd_graph *whole_compile(hd_thread *thread, hd_graph *g) {
    hd_executable *e = hd_compiler_compile(HD_COMPILER_HODU, thread, g, hd_cpu(), HD_O2, NULL);
    if (e == NULL) return NULL;
    e->destroy(e, thread);
    hd_object_retain(&g->object);
    return g;
}

/* Ten times the nodes take some ten times the time, not a hundred times. */
static void is_linear(maker *make, const char *what, uint32_t length) {
    hd_thread *thread = hd_thread_self();
    hd_graph *(*const works[])(hd_thread *, hd_graph *) = {all_passes, whole_compile};
    for (int w = 0; w < 2; ++w) {
        double spent[2];
        if (w == 1 && length > SHORTER) length = SHORTER; /* a plan takes a kilobyte for a node */
        for (int k = 0; k < 2; ++k) {
            hd_graph *g = make(thread, k == 0 ? length / 10 : length), *out;
            assert_ok();
            spent[k] = time_of(works[w], g, &out);
            if (out == NULL) fail_msg("%s: %s", what, hd_error_message());
            hd_graph_release(thread, out);
            hd_graph_release(thread, g);
        }
        print_message("%s, %s: %d nodes %.3f s, %d nodes %.3f s\n", what, w == 0 ? "passes" : "plan", (int)length / 10,
                      spent[0], (int)length, spent[1]);
        if (spent[1] > 0.5 && spent[1] > 40 * spent[0]) fail_msg("%s: %.3f s become %.3f s", what, spent[0], spent[1]);
    }
}

static void long_chains_are_linear(void **state) {
    (void)state;
    is_linear(chain_of_ops, "a chain of ops", LONG);
}
static void long_chains_that_vanish_are_linear(void **state) {
    (void)state;
    is_linear(chain_of_nothing, "a chain of nothing", SHORTER);
}
static void long_chains_of_constants_are_linear(void **state) {
    (void)state;
    is_linear(chain_of_constants, "a chain of constants", SHORTER);
}
static void long_chains_of_views_are_linear(void **state) {
    (void)state;
    is_linear(chain_of_views, "a chain of views", SHORTER);
}
static void combs_of_views_are_linear(void **state) {
    (void)state;
    is_linear(comb_of_views, "a comb of views", SHORTER);
}
static void fans_are_linear(void **state) {
    (void)state;
    is_linear(fan, "a fan", SHORTER);
}

/* Folding a long chain keeps what it ends in, not every value on the way. */
static void folding_needs_little_memory(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("fold");
    hd_tensor *y = hd_full(S(16384), HD_F32, 0.5); /* 64 KB, the most that is folded */
    for (int i = 0; i < 2000; ++i) y = hd_neg(y);
    hd_builder_add_output(b, "y", y);
    hd_builder_end(b);
    const int64_t before = hd_memory().live_bytes;
    hd_graph *out = hd_pass_fold(hd_thread_self(), hd_builder_graph(b));
    assert_non_null(out);
    const int64_t kept = hd_memory().live_bytes - before;
    hd_graph_release(hd_thread_self(), out);
    if (kept > 8 << 20) fail_msg("%lld MB for a chain of 2000 values of 64 KB", (long long)kept >> 20);
}

RUN(test(examples_hold), test(random_programs_mean_the_same), test(what_is_taken_out_is_exact),
    test(every_chain_of_casts_means_the_same), test(folding_leaves_no_trace), test(the_default_dtype_of_then_counts),
    test(long_chains_are_linear), test(long_chains_that_vanish_are_linear), test(long_chains_of_constants_are_linear),
    test(long_chains_of_views_are_linear), test(combs_of_views_are_linear), test(fans_are_linear),
    test(folding_needs_little_memory))
