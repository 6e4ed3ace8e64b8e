/* Every op in scripts: recorded from inputs of random shapes and strides it gives what it gives at once, at O0 bit for
 * bit, and compiled by HODU and by XLA nearly; and it draws the same numbers. */
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

RUN(test(every_op_gives_what_it_gives_at_once))
