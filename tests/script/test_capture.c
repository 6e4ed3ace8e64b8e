/* What is recorded means what it would have done at once: random programs with views, writes into views, state, bound
 * tensors, constants and draws, run at once and as scripts at every level. Every op of the list, against itself at
 * once.
 *
 * A sample of programs and dtypes, all with HODU_LONG=1. HODU_SEED=n runs program n alone, and prints it when it
 * fails. */
#include "graph/programs.h"

enum { ONE_IN = 7 }; /* of which cases are tested in short */

/* ---- random programs --------------------------------------------------------------------------------------------- */
/* Copies of what a run reads from outside; constants are new ones in every run. */
static void copy_outside(const values *from, values *to) {
    for (int i = 0; i < OUTSIDE; ++i) to->t[i] = hd_copy(from->t[i]);
    to->count = OUTSIDE;
}

static void equals(hd_tensor *script, hd_tensor *at_once, double bound, uint64_t program, const char *what, int level,
                   hd_script *s) {
    const char *why = difference_within(script, at_once, bound);
    if (why[0] == '\0') return;
    hd_error_clear();
    if (getenv("HODU_SEED") != NULL) hd_script_print(s);
    fail_msg("program %llu, %s at O%d: %s", (unsigned long long)program, what, level, why);
}

static void compare_program(uint64_t program, int steps) {
    HD_SCOPE;
    values start = {.count = 0}, recorded = {.count = 0};
    make_outside(program, &start);
    values outside = {.count = 0};
    copy_outside(&start, &outside);
    hd_builder *b = record_program(program, steps, &recorded, &outside);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("program %llu: %s", (unsigned long long)program, hd_error_message());
    for (int i = 0; i < OUTSIDE; ++i)
        equals(outside.t[i], start.t[i], 0, program, "outside after hd_builder_end", 0, s);
    for (int level = 0; level < 4; ++level) {
        HD_SCOPE;
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        for (int i = 2; i < 4; ++i) hd_assign(outside.t[i], start.t[i]);
        hd_script_set_input(s, "x0", start.t[0]);
        hd_script_set_input(s, "x1", start.t[1]);
        values now = {.count = 0, .measured = level > 0};
        copy_outside(&start, &now);
        for (int run = 0; run < 2; ++run) {
            HD_SCOPE;
            hd_seed(program + (uint64_t)run);
            for (int i = 0; i < OUTSIDE; ++i)
                if (i != 2 && i != 3) {
                    now.t[i] = hd_copy(start.t[i]);
                    now.error[i] = 0;
                }
            hd_tensor *state[2] = {now.t[2], now.t[3]};
            run_program(program, steps, &now);
            const uint64_t draws = hd_generator_draw(NULL);
            assert_ok();
            hd_seed(program + (uint64_t)run);
            hd_outputs *o = hd_script_run(s);
            if (o == NULL) fail_msg("program %llu at O%d: %s", (unsigned long long)program, level, hd_error_message());
            assert_int_equal(hd_generator_draw(NULL), draws);
            for (int64_t i = 0; i < hd_outputs_count(o); ++i) {
                const char *name = hd_outputs_name(o, i);
                const int value = atoi(name + 1);
                equals(hd_outputs_at(o, i), now.t[value], now.error[value], program, name, level, s);
            }
            now.t[2] = hd_retain(state[0]);
            now.t[3] = hd_retain(state[1]);
            equals(outside.t[2], state[0], now.error[2], program, "state s0", level, s);
            equals(outside.t[3], state[1], now.error[3], program, "state s1", level, s);
            equals(outside.t[4], start.t[4], 0, program, "the bound one", level, s);
            equals(outside.t[5], start.t[5], 0, program, "a constant", level, s);
            hd_release(state[0]);
            hd_release(state[1]);
        }
        const hd_script_check_result check = hd_script_check(s);
        assert_ok();
        if (level == 0 && hd_current_device().kind == HD_DEVICE_CPU) assert_int_equal(check.node, -1);
    }
}

static void random_programs_do_the_same_as_scripts(void **state) {
    (void)state;
    const char *seed = getenv("HODU_SEED");
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : sample_first(ONE_IN),
                   last = seed != NULL ? first : 1999;
    for (uint64_t program = first; program <= last; program += sample_step(ONE_IN))
        if (seed != NULL || when_compiled(program, 13)) compare_program(program, 5 + (int)(program % 45));
}

/* ---- every dtype ------------------------------------------------------------------------------------------------- */
/* y recorded from inputs is y computed at once, at O0 bit for bit, and at every other level within so many units at the
 * largest of operands and result; it draws the same numbers. test_everything.c asks this of every op. */
static void same_as_at_once(const char *name, hd_tensor **in, int count,
                            hd_tensor *(*run)(hd_tensor **in, const void *user), const void *user, double units) {
    static const char *const names[] = {"a", "b", "c"};
    hd_seed(5);
    hd_tensor *at_once = run(in, user);
    const uint64_t draws = hd_generator_draw(NULL);
    if (!hd_ok()) fail_msg("%s: %s", name, hd_error_message());
    hd_builder *b = started(name);
    hd_tensor *inputs[3] = {NULL};
    for (int i = 0; i < count; ++i) inputs[i] = hd_input(names[i], hd_tensor_shape(in[i]), hd_tensor_dtype(in[i]));
    hd_builder_add_output(b, "y", run(inputs, user));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    if (s == NULL) fail_msg("%s: %s", name, hd_error_message());
    for (int i = 0; i < count; ++i) hd_script_set_input(s, names[i], in[i]);
    double most = largest_of(at_once);
    for (int i = 0; i < count; ++i) most = fmax(most, largest_of(in[i]));
    const double bound = units * unit_of(hd_tensor_dtype(at_once)) * most;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_seed(5);
        hd_tensor *y = hd_outputs_get(hd_script_run(s), "y");
        const char *why = difference_within(y, at_once, level == HD_O0 ? 0 : bound);
        if (why[0] != '\0') fail_msg("%s at O%d: %s", name, level - HD_O0, why);
        assert_int_equal(hd_generator_draw(NULL), draws);
    }
}

/* Each side has the error of the row. */
static double row_units(int id) { return 2 * fabs((double)hd_rows[id].ulp); }

typedef struct row_call {
    hd_op_id id;
    double numbers[3];
} row_call;
static hd_tensor *run_row(hd_tensor **in, const void *user) {
    const row_call *row = user;
    return hd_run_row(hd_thread_self(), row->id, in, row->numbers);
}

/* All dtypes that a row takes, also mixed. */
static void every_row_takes_its_dtypes(void **state) {
    (void)state;
    static const double v[] = {1, 0, 3, 2, 1, 5};
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
            if (!sampled((uint64_t)(id + d), ONE_IN) || !when_compiled((uint64_t)id, 5)) continue;
            HD_SCOPE;
            const int operands = hd_rows[id].operands;
            hd_tensor *in[3];
            for (int i = 0; i < operands; ++i) {
                const hd_dtype dtype = hd_rows[id].chooses && i == 0 ? HD_BOOL
                                       : i == 1 && id % 2 == 0       ? (hd_dtype)(1 + (d + 3) % 15)
                                                                     : (hd_dtype)d;
                in[i] = hd_cast(hd_from_data(v, S(2, 3), HD_F64), dtype);
                if (hd_rows[id].guard == HD_GUARD_ZERO && i == 1)
                    in[i] = hd_cast(hd_add_scalar(hd_cast(in[i], HD_F64), 1), dtype);
            }
            const row_call row = {(hd_op_id)id, {0, 1, 2}};
            run_row(in, &row);
            if (!hd_ok()) { /* does not take it */
                hd_error_clear();
                continue;
            }
            same_as_at_once(hd_ops[id].name, in, operands, run_row, &row, row_units(id));
        }
}

/* ---- large values ------------------------------------------------------------------------------------------------ */
/* Large enough for threads, tiles and memory that is not cached per thread. */
#define LARGE(CALL)                                                                                                    \
    CALL(elementwise, hd_add(hd_exp(a), hd_mul(hd_t(b), c)))                                                           \
    CALL(sums, hd_add(hd_sum(a, X(0), NULL), hd_sum(b, X(1), NULL)))                                                   \
    CALL(product, hd_matmul(a, hd_tanh(b)))                                                                            \
    CALL(softmax, hd_softmax(hd_t(a), 0))                                                                              \
    CALL(moved, hd_concat(LIST(hd_pad(a, PAD({1, 1}, {2, 0}), 2, 7), hd_pad(hd_t(b), PAD({0, 2}), 1, 8)), 0))          \
    CALL(indexed, hd_scatter(a, 0, hd_argmax(b, 0, KEEP), hd_slice(b, 0, 3, 4, 1), HD_SCATTER_ADD))                    \
    CALL(small_floats, hd_mul(hd_cast(a, HD_BF16), hd_cast(hd_flip(b, X(1)), HD_F16)))                                 \
    CALL(drawn, hd_where(hd_bernoulli(S(300, 300), HD_BOOL, 0.5), a, hd_normal(S(300, 300), HD_F32, 0, 1)))
#define LARGE_FUNCTION(label, result)                                                                                  \
    static hd_tensor *large_##label(hd_tensor **in, const void *user) {                                                \
        hd_tensor *a = in[0], *b = in[1], *c = in[2];                                                                  \
        (void)a, (void)b, (void)c, (void)user;                                                                         \
        return result;                                                                                                 \
    }
LARGE(LARGE_FUNCTION)

enum { LARGE_UNITS = 2 }; /* the most that was seen: 1.5, in a sum of 300 */
static void large_values_go_through(void **state) {
    (void)state;
#define LARGE_RUN(label, result) same_as_at_once(#label, in, 3, large_##label, NULL, LARGE_UNITS);
    HD_SCOPE;
    hd_tensor *in[3] = {operand(S(300, 300), 0, HD_F32), operand(S(300, 300), 1, HD_F32), operand(S(300), 2, HD_F32)};
    LARGE(LARGE_RUN)
}

RUN(test(random_programs_do_the_same_as_scripts), test(every_row_takes_its_dtypes), test(large_values_go_through))
