/* Every op in scripts: recorded from inputs of random shapes and strides it gives what it gives at once, at O0 bit for
 * bit, and compiled by HODU and by XLA nearly; and it draws the same numbers. Its first and second gradients, recorded,
 * are those at once, too, which ops/everything compares with differences. */
#include "everything.h"

/* A way to run a script. Compiling takes a while: one case in so many. */
typedef struct way {
    const char *name;
    hd_compiler compiler;
    hd_optimization_level level;
    uint64_t one_in;
    double units; /* of the dtype at the largest of operands and results */
} way;
static const way ways[] = {{"at O0", HD_COMPILER_HODU, HD_O0, 1, 2},
                           {"at O1", HD_COMPILER_HODU, HD_O1, 4, 2},
                           {"at O2", HD_COMPILER_HODU, HD_O2, 1, 2},
                           {"at O3", HD_COMPILER_HODU, HD_O3, 16, 2},
                           {"by XLA", HD_COMPILER_XLA, HD_O2, 24, 8}};

/* No plugin, no XLA. */
static bool is_here(const way *w) {
    static int xla = -1;
    if (w->compiler != HD_COMPILER_XLA) return true;
    if (xla >= 0) return xla;
    HD_SCOPE;
    hd_builder *b = started("nothing");
    hd_builder_add_output(b, "y", hd_neg(hd_input("x", S(1), HD_F32)));
    hd_script *s = built(b);
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_script_set_input(s, "x", hd_ones(S(1), HD_F32));
    xla = hd_script_run(s) != NULL;
    if (!xla) print_message("without XLA: %s\n", hd_error_message());
    hd_error_clear();
    return xla;
}

/* What XLA does not have: calls of LAPACK, which are named so. */
static bool is_refused(const way *w, int c) {
    return w->compiler == HD_COMPILER_XLA && has_lapack() && case_is_lapack(c);
}
static void assert_refused(hd_script *s, int c) {
    HD_QUIET;
    if (hd_script_run(s) != NULL || strstr(hd_error_message(), "XLA has no hd_") == NULL)
        fail_msg("%s by XLA: %s", case_name(c), hd_ok() ? "it runs" : hd_error_message());
    hd_error_clear();
}

/* Each side has the error of the row. */
static double units_of(const way *w, int c) {
    if (case_call(c) == NULL) return fmax(w->units, 2 * fabs((double)hd_rows[c].ulp));
    return case_is_lapack(c) ? LAPACK_UNITS : w->units;
}

static hd_script *recorded(int c, const operands *o, hd_tensor **in) {
    static const char *const names[3] = {"a", "b", "c"};
    hd_builder *b = started(case_name(c));
    hd_tensor *inputs[3] = {NULL};
    for (int i = 0; i < o->count; ++i) inputs[i] = hd_input(names[i], hd_tensor_shape(in[i]), hd_tensor_dtype(in[i]));
    hd_builder_add_output(b, "y", run_case(c, inputs));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("%s: %s", case_name(c), hd_error_message());
    for (int i = 0; i < o->count; ++i) hd_script_set_input(s, names[i], in[i]);
    return s;
}

/* Products of what is turned round otherwise, so that at O0 what lies as it should is the same bit for bit. */
static void same_as_at_once(int c, int round) {
    HD_SCOPE;
    operands o;
    hd_tensor *at_once = try_case(c, round, HD_F32, &o), *in[3];
    operands_of(&o, in);
    const uint64_t draws = hd_generator_draw(NULL);
    hd_script *s = recorded(c, &o, in);
    bool plain = true;
    for (int i = 0; i < o.count; ++i) plain &= o.way[i] == PLAIN_LAYOUT;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0]; ++w) {
        if (!sampled((uint64_t)(c * 7 + round), ways[w].one_in) || !is_here(&ways[w])) continue;
        hd_script_set_compiler(s, ways[w].compiler);
        hd_script_set_optimization_level(s, ways[w].level);
        if (is_refused(&ways[w], c)) {
            assert_refused(s, c);
            continue;
        }
        hd_seed(5);
        hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
        const double bound = units_of(&ways[w], c) * unit_of(hd_tensor_dtype(at_once)) * size_of_case(&o, at_once);
        const char *why = difference_within(y, at_once, plain && ways[w].level == HD_O0 ? 0 : bound);
        if (why[0] != '\0') fail_msg("%s %s: %s", case_text(c, round, &o), ways[w].name, why);
        assert_int_equal(hd_generator_draw(NULL), draws);
    }
}

static void every_op_gives_what_it_gives_at_once(void **state) {
    (void)state;
    for (int c = 0; c < CASE_COUNT; ++c)
        for (int round = 0; round < (in_full() ? 12 : 3); ++round)
            if (case_records(c) && case_chosen(c) && when_slow((uint64_t)c, 4) && when_compiled((uint64_t)c, 16))
                same_as_at_once(c, round);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* Gradients of a case by its operands, and of the sum of their squares again; NULL from where there are none. */
typedef struct derived {
    hd_tensor *of[2][3];
} derived;

/* Gradients of y for each of `in` as outputs of order 0 or 1. Returns false when a row of an op in it has none. */
static bool derive(int c, hd_tensor *y, hd_tensors *in, hd_tensor *seed, bool again, hd_tensor **out) {
    hd_tensors *g = hd_grad_of(y, in, HD_OPTS(hd_grad_of_opts, .seed = seed, .differentiable = again));
    if (g == NULL && strstr(hd_error_message(), "has no gradient") == NULL)
        fail_msg("%s: %s", case_name(c), hd_error_message());
    hd_error_clear();
    for (int i = 0; g != NULL && i < hd_tensors_count(in); ++i) out[i] = hd_tensors_get(g, i);
    return g != NULL;
}

/* What y moves with: sums of squares of what is in the list of gradients; NULL when they do not depend on anything. */
static hd_tensor *squares(hd_tensor *const *g, int64_t count) {
    hd_tensor *sum = NULL;
    for (int64_t i = 0; i < count; ++i) {
        hd_tensor *one = hd_sum(hd_square(g[i]), X(), NULL);
        sum = sum == NULL ? one : hd_add(sum, one);
    }
    return sum != NULL && hd_tensor_requires_grad(sum) ? sum : NULL;
}

/* Runs a case on x, or records it, and differentiates it as often as there are gradients, `most` times. */
static derived run_derived(int c, const operands *o, hd_tensor *const *x, hd_tensor **seed, int most) {
    derived d = {{{NULL}}};
    hd_tensor *in[3] = {NULL}, *wanted[3];
    int count = 0;
    for (int i = 0; i < o->count; ++i) {
        in[i] = laid_out(o, i, x[i]);
        if (hd_tensor_requires_grad(x[i])) wanted[count++] = x[i];
    }
    hd_tensor *y = run_case(c, in);
    if (y == NULL) fail_msg("%s: %s", case_text(c, 0, o), hd_error_message());
    if (count == 0 || !hd_tensor_requires_grad(y) || !hd_dtype_is_float(hd_tensor_dtype(y))) return d;
    hd_tensors *list = hd_tensors_from(wanted, count);
    if (*seed == NULL) {
        dice numbers = {(uint64_t)c};
        *seed = hd_cast(numbers_apart(&numbers, hd_tensor_shape(y), 0), hd_tensor_dtype(y));
    }
    if (most < 2 || !derive(c, y, list, *seed, true, d.of[0])) {
        derive(c, y, list, *seed, false, d.of[0]);
        return d;
    }
    hd_tensor *sum = squares(d.of[0], count);
    if (sum != NULL) derive(c, sum, list, NULL, false, d.of[1]);
    return d;
}

static const char *const output_names[6] = {"first a", "first b", "first c", "second a", "second b", "second c"};

static hd_script *recorded_derived(int c, const operands *o, hd_tensor *const *x, hd_tensor *seed, int most) {
    static const char *const names[3] = {"a", "b", "c"};
    hd_builder *b = started(case_name(c));
    for (int i = 0; i < o->count; ++i) hd_builder_bind(b, names[i], x[i]);
    const derived d = run_derived(c, o, x, &seed, most);
    hd_tensor *one = hd_input("one", S(), HD_F64); /* what is constant can be no output */
    for (int k = 0; k < 6; ++k)
        if (d.of[k / 3][k % 3] != NULL) hd_builder_add_output(b, output_names[k], hd_mul(d.of[k / 3][k % 3], one));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("gradients of %s: %s", case_name(c), hd_error_message());
    hd_script_set_input(s, "one", hd_ones(S(), HD_F64));
    return s;
}

/* In f64, so that what differs is more than rounding. */
static int gradients_as_at_once(int c, int round) {
    HD_SCOPE;
    HD_GRAD_CONTEXT;
    operands o;
    hd_tensor *x[3] = {NULL}, *seed = NULL;
    if (try_case(c, round, HD_F64, &o) == NULL) return 0;
    for (int i = 0; i < o.count; ++i)
        x[i] = hd_dtype_is_float(hd_tensor_dtype(o.base[i])) ? hd_param(hd_copy(o.base[i])) : o.base[i];
    hd_seed(5);
    const derived at_once = run_derived(c, &o, x, &seed, 2);
    if (at_once.of[0][0] == NULL) return 0;
    hd_script *s = recorded_derived(c, &o, x, seed, at_once.of[1][0] == NULL ? 1 : 2);
    for (int level = HD_O0; level <= HD_O2; level += HD_O2 - HD_O0) {
        if (level == HD_O2 && !sampled((uint64_t)(c * 3 + round), 3)) continue;
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(5);
        hd_outputs *out = hd_script_run(s);
        if (out == NULL) fail_msg("gradients of %s: %s", case_text(c, round, &o), hd_error_message());
        for (int k = 0; k < 6; ++k) {
            hd_tensor *expected = at_once.of[k / 3][k % 3];
            if (expected == NULL) continue;
            const double size = fmax(1, fmax(largest_of(expected), size_of_case(&o, expected)));
            const char *why = difference_within(hd_outputs_get(out, output_names[k]), expected, 1e-11 * size);
            if (why[0] != '\0')
                fail_msg("gradient %d of order %d of %s at O%d: %s", k % 3, k / 3 + 1, case_text(c, round, &o),
                         level - HD_O0, why);
        }
    }
    return 1;
}

static void gradients_are_those_at_once(void **state) {
    (void)state;
    int compared = 0;
    for (int c = 0; c < CASE_COUNT; ++c)
        for (int round = 0; round < (in_full() ? 12 : 1); ++round)
            if (case_records(c) && case_chosen(c) && when_slow((uint64_t)c, 4) && when_compiled((uint64_t)c, 16))
                compared += gradients_as_at_once(c, round);
    print_message("gradients of %d cases\n", compared);
}

RUN(test(every_op_gives_what_it_gives_at_once), test(gradients_are_those_at_once))
