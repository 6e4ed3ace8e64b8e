/* The table of errors holds under XLA: every elementwise row that takes floats, at PyTorch's golden points (ordinary,
 * extreme and special ones) in f32 and f64 and at random points of all magnitudes, f32 against the libm reading, f64
 * against the eager kernels. All rows of a dtype are one program, as it is compiling that takes XLA long.
 *
 * The CPU plugin computes without denormals. Where that shows is in `flushed`, by name; nothing else is excepted.
 * HODU_SEED=n repeats a run, HODU_WORST=1 prints the largest error of each row next to its column. */
#include "golden/elementwise.h"
#include "differences.h"
#include "golden/libm.h"
#include "run_text.h"

enum { RANDOM = 2000, N = MOST_POINTS + RANDOM };

/* ---- what is lost with denormals --------------------------------------------------------------------------------- */
enum { OPERAND = 1, RESULT = 2 };
static const struct {
    int what, count;
    const char *reason;
    int ids[HD_OP_ELEMENTWISE_COUNT];
} flushed[] = {
    /* docs/guide/xla.md has the same lists */
    {RESULT,
     41,
     "the result is computed, and is 0 of its sign where it would be a denormal",
     {HD_OP_square,     HD_OP_exp,    HD_OP_exp2,    HD_OP_exp10, HD_OP_expm1,    HD_OP_log1p,
      HD_OP_asin,       HD_OP_atan,   HD_OP_sinh,    HD_OP_tanh,  HD_OP_asinh,    HD_OP_erf,
      HD_OP_erfc,       HD_OP_erfinv, HD_OP_sigmoid, HD_OP_relu,  HD_OP_relu6,    HD_OP_gelu,
      HD_OP_gelu_tanh,  HD_OP_silu,   HD_OP_mish,    HD_OP_selu,  HD_OP_softsign, HD_OP_hardswish,
      HD_OP_leaky_relu, HD_OP_elu,    HD_OP_add,     HD_OP_sub,   HD_OP_mul,      HD_OP_div,
      HD_OP_rem,        HD_OP_mod,    HD_OP_pow,     HD_OP_atan2, HD_OP_hypot,    HD_OP_squared_difference,
      HD_OP_prelu,      HD_OP_ndtr,   HD_OP_i1,      HD_OP_xlogy, HD_OP_ldexp}},
    {OPERAND,
     48,
     "the operand is computed with or compared, and a denormal counts as 0 of its sign",
     {HD_OP_sign,
      HD_OP_sqrt,
      HD_OP_rsqrt,
      HD_OP_recip,
      HD_OP_floor,
      HD_OP_ceil,
      HD_OP_log,
      HD_OP_log2,
      HD_OP_log10,
      HD_OP_erf,
      HD_OP_lgamma,
      HD_OP_digamma,
      HD_OP_relu,
      HD_OP_relu6,
      HD_OP_selu,
      HD_OP_logit,
      HD_OP_elu,
      HD_OP_logical_not,
      HD_OP_add,
      HD_OP_sub,
      HD_OP_mul,
      HD_OP_div,
      HD_OP_trunc_divide,
      HD_OP_rem,
      HD_OP_floor_divide,
      HD_OP_mod,
      HD_OP_pow,
      HD_OP_maximum,
      HD_OP_minimum,
      HD_OP_fmax,
      HD_OP_fmin,
      HD_OP_atan2,
      HD_OP_hypot,
      HD_OP_prelu,
      HD_OP_eq,
      HD_OP_ne,
      HD_OP_lt,
      HD_OP_le,
      HD_OP_gt,
      HD_OP_ge,
      HD_OP_logical_and,
      HD_OP_logical_or,
      HD_OP_logical_xor,
      HD_OP_ndtri,
      HD_OP_frexp_mantissa,
      HD_OP_frexp_exponent,
      HD_OP_xlogy,
      HD_OP_ldexp}},
};

static int what_is_flushed(int id) {
    int what = 0;
    for (size_t i = 0; i < sizeof flushed / sizeof flushed[0]; ++i)
        for (int k = 0; k < flushed[i].count; ++k)
            if (flushed[i].ids[k] == id) what |= flushed[i].what;
    return what;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */
typedef struct points { /* of one row: golden ones, then random ones */
    int golden;
    double number[3];
    double in[3][N], want[N], want_flushed[N], got[N]; /* want_flushed: with denormal operands as 0 */
} points;
static points rows[HD_OP_ELEMENTWISE_COUNT];
static hd_dtype dtype;
static int digits;

static bool takes_floats(int id) { return row_oracles[id] != NULL; }
static double least_normal(void) { return digits == 24 ? 0x1p-126 : 0x1p-1022; }
static double without_denormals(double v) { return fabs(v) < least_normal() ? copysign(0, v) : v; }

/* Next to where floats end, above and below, and where exponentials of them do. */
static double edge(dice *d) {
    const double top = digits == 24 ? 128 : 1024, bottom = digits == 24 ? -126 : -1022, u = roll_unit(d);
    const double size = roll(d) % 3 == 0   ? exp2(top - 3 * u) * (1 - 0x1p-24)
                        : roll(d) % 2 == 0 ? exp2(bottom + 8 * u)
                                           : (0.6 + 0.2 * u) * -bottom;
    const double v = roll(d) % 2 == 0 ? size : -size;
    return digits == 24 ? (double)(float)v : v;
}

static double random_f64(dice *d, bool wild) {
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-1074, 0x1.fffffffffffffp1023};
    const uint64_t r = roll(d) % 100;
    if (r < 2 && wild) return special[roll(d) % (sizeof special / sizeof special[0])];
    if (r < 50) return (double)random_f32(d, wild);
    return copysign(exp2((wild ? 1022 : 200) * (2 * roll_unit(d) - 1)), roll_unit(d) - 0.5);
}

static void golden_points(const block *b) {
    if (b->integers || b->dtype != HD_DTYPE_DEFAULT) return;
    points *p = &rows[b->id];
    p->golden = b->count;
    memcpy(p->number, b->number, sizeof p->number);
    for (int k = 0; k < 3; ++k) memcpy(p->in[k], b->in[k], (size_t)b->count * sizeof b->in[k][0]);
    memcpy(p->want, b->value, (size_t)b->count * sizeof b->value[0]);
}

static hd_tensor *operand_of(int id, int k, bool without) {
    double values[N];
    for (int i = 0; i < N; ++i) values[i] = without ? without_denormals(rows[id].in[k][i]) : rows[id].in[k][i];
    return hd_cast(hd_from_data(values, HD_SHAPE(N), HD_F64), k == 0 && hd_rows[id].chooses ? HD_BOOL : dtype);
}

/* What eager kernels say of all points. */
static void eager_values(int id, bool without, double *out) {
    HD_SCOPE;
    hd_tensor *t[3] = {NULL};
    for (int k = 0; k < hd_rows[id].operands; ++k) t[k] = operand_of(id, k, without);
    assert_true(hd_to_array(row_calls[id](t, rows[id].number), out, HD_F64, N));
    assert_ok();
}

static void random_points(int id, dice *d) {
    points *p = &rows[id];
    const bool wild = hd_rows[id].operands < 3;
    for (int k = 0; k < hd_rows[id].operands; ++k)
        for (int i = p->golden; i < N; ++i) {
            p->in[k][i] = digits == 24 ? (double)random_f32(d, wild) : random_f64(d, wild);
            if (wild && roll(d) % 4 == 0) p->in[k][i] = edge(d);
            if (k == 0 && hd_rows[id].chooses) p->in[k][i] = (double)(roll(d) & 1);
            if (k == 1 && !hd_rows[id].chooses && i % 50 == 0) p->in[1][i] = p->in[0][i]; /* ties */
        }
    double eager[N];
    if (digits == 53) {
        eager_values(id, false, eager);
        eager_values(id, true, p->want_flushed);
        memcpy(p->want + p->golden, eager + p->golden, (size_t)(N - p->golden) * sizeof *eager);
        return;
    }
    for (int i = 0; i < N; ++i) {
        const double point[3] = {p->in[0][i], p->in[1][i], p->in[2][i]};
        const double other[3] = {without_denormals(point[0]), without_denormals(point[1]), without_denormals(point[2])};
        if (i >= p->golden) p->want[i] = row_oracles[id](point, p->number);
        p->want_flushed[i] = row_oracles[id](other, p->number);
    }
}

/* ---- one program ------------------------------------------------------------------------------------------------- */
static void name_of(int id, int k, char *out, size_t capacity) { snprintf(out, capacity, "%s.%d", row_name(id), k); }

static hd_script *recorded(void) {
    hd_builder *b = hd_builder_new("table");
    hd_builder_start(b);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        if (!takes_floats(id)) continue;
        hd_tensor *t[3] = {NULL};
        for (int k = 0; k < hd_rows[id].operands; ++k) {
            char name[64];
            name_of(id, k, name, sizeof name);
            t[k] = hd_input(name, HD_SHAPE(N), k == 0 && hd_rows[id].chooses ? HD_BOOL : dtype);
        }
        hd_builder_add_output(b, row_name(id), row_calls[id](t, rows[id].number));
    }
    hd_builder_end(b);
    return hd_builder_build(b);
}

static void run_under_xla(void) {
    HD_SCOPE;
    hd_script *s = recorded();
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int k = 0; takes_floats(id) && k < hd_rows[id].operands; ++k) {
            char name[64];
            name_of(id, k, name, sizeof name);
            hd_script_set_input(s, name, operand_of(id, k, false));
        }
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (takes_floats(id)) assert_true(hd_to_array(hd_outputs_get(o, row_name(id)), rows[id].got, HD_F64, N));
}

/* ---- the table --------------------------------------------------------------------------------------------------- */
static bool is_golden_exception(int id, int i) {
    const points *p = &rows[id];
    static block b;
    if (i >= p->golden) return false;
    b.id = id;
    b.in[0][0] = p->in[0][i], b.in[1][0] = p->in[1][i];
    return EXCEPTED(value_exceptions, &b, 0, digits);
}

static bool agrees(int id, int i, double want, double *error) {
    const points *p = &rows[id];
    double operand = 0;
    for (int k = 0; k < hd_rows[id].operands; ++k)
        if (isfinite(p->in[k][i])) operand = fmax(operand, fabs(p->in[k][i]));
    const double scale = hd_rows[id].ulp < 0 ? operand : 0, got = p->got[i];
    *error = isfinite(got) && isfinite(want) && fabs(want) >= least_normal()
                 ? fabs(got - want) / unit_at(fmax(fabs(want), scale), digits)
                 : 0;
    return within(got, want, golden_ulps(id, digits), scale, operand, digits);
}

/* With denormal operands as 0, and so the result. */
static bool agrees_flushed(int id, int i) {
    points *p = &rows[id];
    bool any = false;
    double error;
    for (int k = 0; k < hd_rows[id].operands; ++k) any = any || without_denormals(p->in[k][i]) != p->in[k][i];
    if (!any) return false;
    if (agrees(id, i, p->want_flushed[i], &error)) return true;
    return without_denormals(p->got[i]) == 0 && without_denormals(p->want_flushed[i]) == 0;
}

static int check_row(int id) {
    const points *p = &rows[id];
    const int what = what_is_flushed(id);
    double worst = 0, error;
    int bad = 0;
    for (int i = 0; i < N; ++i) {
        if (agrees(id, i, p->want[i], &error)) {
            worst = fmax(worst, error);
            continue;
        }
        const bool vanishes = fabs(p->want[i]) < least_normal() && p->got[i] == 0;
        if ((what & RESULT) && vanishes && !signbit(p->got[i]) == !signbit(p->want[i])) continue;
        if ((what & OPERAND) && agrees_flushed(id, i)) continue;
        if (is_golden_exception(id, i)) continue;
        if (++bad <= 4)
            print_error("%s(%.17g, %.17g, %.17g) in %s is %.17g under XLA, expected %.17g: %.3g off, %g allowed\n",
                        row_name(id), p->in[0][i], p->in[1][i], p->in[2][i], hd_dtype_name(dtype), p->got[i],
                        p->want[i], error, golden_ulps(id, digits));
    }
    if (getenv("HODU_WORST")) printf("%-20s %6.2f of %g\n", row_name(id), worst, (double)hd_rows[id].ulp);
    return bad;
}

static void table_holds(hd_dtype of, const char *test) {
    if (!plugin_ready()) skip();
    static block b;
    double upstream;
    dice d = roll_from(test, 20240607);
    dtype = of;
    digits = of == HD_F32 ? 24 : 53;
    read_golden(&b, &upstream, golden_points);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (takes_floats(id)) random_points(id, &d);
    run_under_xla();
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (takes_floats(id)) bad += check_row(id);
    if (bad > 0) fail_msg("%d results are off", bad);
}

static void the_table_holds_in_f32(void **state) {
    (void)state;
    table_holds(HD_F32, "the_table_holds_in_f32");
}
static void the_table_holds_in_f64(void **state) {
    (void)state;
    table_holds(HD_F64, "the_table_holds_in_f64");
}

/* Everything that is excepted here is in the guide. */
static void the_guide_lists_what_is_flushed(void **state) {
    (void)state;
    static const char *const guides[2] = {"docs/guide/xla.md", "docs/guide/ko/xla.md"};
    for (int g = 0; g < 2; ++g) {
        static char text[100000];
        char path[1024];
        snprintf(path, sizeof path, "%.*s/%s", (int)(sizeof HODU_TEST_DATA - sizeof "/tests/data"), HODU_TEST_DATA,
                 guides[g]);
        FILE *file = fopen(path, "r");
        if (file == NULL) fail_msg("cannot open %s", path);
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        for (size_t i = 0; i < sizeof flushed / sizeof flushed[0]; ++i) {
            char list[4096] = "";
            for (int k = 0; k < flushed[i].count; ++k)
                snprintf(list + strlen(list), sizeof list - strlen(list), "%s`%s`", k > 0 ? ", " : "",
                         row_name(flushed[i].ids[k]));
            for (char *at = text; (at = strchr(at, '\n')) != NULL;) *at = ' ';
            if (strstr(text, list) == NULL) fail_msg("%s does not have the list\n%s", guides[g], list);
        }
    }
}

/* ---- sums, products and quotients as they are written ------------------------------------------------------------ */
enum { ROW = 4 };
typedef struct operands {
    hd_tensor *x, *y, *one, *mask, *half; /* [2, ROW], [2, ROW], [1, ROW], bool, bf16 */
} operands;

static void put(hd_builder *b, const char *name, hd_tensor *t) { hd_builder_add_output(b, name, t); }
static hd_tensor *plus(hd_tensor *t, double c) { return hd_add_scalar(t, c); }
static hd_tensor *times(hd_tensor *t, double c) { return hd_mul_scalar(t, c); }

/* What XLA's simplifier has a rule for, plainly and with something between the two ops that it would join. */
static void record_sums(hd_builder *b, const operands *o) {
    hd_tensor *x = o->x, *sum = plus(x, 1e8);
    put(b, "(x + c) - c", hd_sub_scalar(sum, 1e8));
    put(b, "x + c", sum);
    put(b, "(c - x) + d", plus(hd_neg(hd_sub_scalar(x, 1e8)), -1e8));
    put(b, "(c - x) + d as one", plus(hd_sub(hd_full_like(x, 1e8), x), -1e8));
    put(b, "(x + c) reshaped - c", hd_sub_scalar(hd_reshape(sum, HD_SHAPE(2 * ROW)), 1e8));
    put(b, "(x + c) turned - c", hd_sub_scalar(hd_transpose(sum, 0, 1), 1e8));
    put(b, "(x + c) sliced - c", hd_sub_scalar(hd_slice(sum, 1, 1, 3, 1), 1e8));
    put(b, "(one + c) spread - c", hd_sub(hd_broadcast_to(plus(o->one, 1e8), HD_SHAPE(2, ROW)), hd_full_like(x, 1e8)));
    put(b, "exp(x) + c - c", hd_sub_scalar(plus(hd_exp(hd_clamp(x, -1, 1)), 1e8), 1e8));
    put(b, "bf16 (x + c) - c", hd_sub_scalar(plus(o->half, 100), 100));
}

static void record_products(hd_builder *b, const operands *o) {
    hd_tensor *x = o->x, *y = o->y;
    put(b, "(x * c) * d", times(times(x, 1e-30), 1e-30));
    put(b, "(x * c) * d up", times(times(x, 1e30), 1e-30));
    put(b, "(x * c) * (y * d)", hd_mul(times(x, 1e-30), times(y, 1e30)));
    put(b, "(x * c) * one", hd_mul(times(x, 1e-30), hd_broadcast_to(o->one, HD_SHAPE(2, ROW))));
    put(b, "x * 0.5 + y * 0.5", hd_add(times(x, 0.5), times(y, 0.5)));
    put(b, "x * mask", hd_mul(x, hd_cast(o->mask, HD_F32)));
    put(b, "sqrt(x) * sqrt(x)", hd_square(hd_sqrt(hd_abs(x))));
}

static void record_quotients(hd_builder *b, const operands *o) {
    hd_tensor *x = o->x, *y = o->y, *q = hd_div(x, y);
    put(b, "(x / y) / y", hd_div(q, y));
    put(b, "x / (x / y)", hd_div(x, q));
    put(b, "(x / y) / (y / x)", hd_div(q, hd_div(y, x)));
    put(b, "x / 3", hd_div_scalar(x, 3));
    put(b, "(|x| + 1e38) / 2.5e38", hd_div_scalar(plus(hd_abs(x), 1e38), 2.5e38));
    put(b, "x / 8", hd_div_scalar(x, 8));
    put(b, "x / one", hd_div(x, o->one));
    put(b, "x / sqrt(y)", hd_div(x, hd_sqrt(hd_abs(y))));
    put(b, "mask / one", hd_div(hd_cast(o->mask, HD_F32), o->one));
    put(b, "f32 of bf16 of x", hd_cast(hd_cast(x, HD_BF16), HD_F32));
}

static hd_script *script_of_orders(void) {
    hd_builder *b = hd_builder_new("orders");
    hd_builder_start(b);
    const operands o = {hd_input("x", HD_SHAPE(2, ROW), HD_F32), hd_input("y", HD_SHAPE(2, ROW), HD_F32),
                        hd_input("one", HD_SHAPE(1, ROW), HD_F32), hd_input("mask", HD_SHAPE(2, ROW), HD_BOOL),
                        hd_input("half", HD_SHAPE(2, ROW), HD_BF16)};
    record_sums(b, &o);
    record_products(b, &o);
    record_quotients(b, &o);
    hd_builder_end(b);
    return hd_builder_build(b);
}

static void what_is_written_is_computed(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    HD_SCOPE;
    hd_script *s = script_of_orders();
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, ROW), 1, 1e-20f, 1e38f, 3e38f, 0.1f, 7.7f, INFINITY, -1.2345678f);
    hd_script_set_input(s, "x", x);
    hd_script_set_input(s, "y", HD_TENSOR_F32(HD_SHAPE(2, ROW), 3, 1e-20f, 8e37f, 8e37f, 0.3f, 49, 2, 1e-19f));
    hd_script_set_input(s, "one", HD_TENSOR_F32(HD_SHAPE(1, ROW), 3, 1.7f, 2e38f, 49));
    hd_script_set_input(s, "mask", hd_cast(HD_TENSOR_F32(HD_SHAPE(2, ROW), 1, 0, 0, 0, 1, 1, 0, 1), HD_BOOL));
    hd_script_set_input(s, "half", hd_cast(hd_clamp(x, -100, 100), HD_BF16));
    for (int level = 0; level < 2; ++level) {
        hd_script_set_optimization_level(s, level == 0 ? HD_O0 : HD_O1);
        hd_script_set_compiler(s, HD_COMPILER_HODU);
        hd_outputs *expected = hd_script_run(s);
        hd_script_set_compiler(s, HD_COMPILER_XLA);
        hd_outputs *got = hd_script_run(s);
        assert_ok();
        for (int i = 0; i < hd_outputs_count(got); ++i) {
            const double exact = strncmp(hd_outputs_name(got, i), "exp", 3) == 0 ? 1e-6 : 0;
            const char *why = difference_within(hd_outputs_at(got, i), hd_outputs_at(expected, i), exact);
            if (why[0] != '\0') fail_msg("%s at O%d: %s", hd_outputs_name(got, i), level, why);
        }
    }
}

/* Programs of several words that were far off: double words that lost the lower one, and steps through a denormal. */
static void results_that_were_far_off(void **state) {
    (void)state;
    if (!plugin_ready()) skip();
    HD_SCOPE;
    static const float a[] = {0.7f, 0.7003736f, 1.3366214f, 1.00847018f},
                       b[] = {100, -246.89752f, -98.5824203f, -8965.546875f},
                       x[] = {1e38f, 2.37e38f, 3.4e38f, -89.755165f};
    hd_builder *builder = hd_builder_new("far");
    hd_builder_start(builder);
    hd_tensor *in[3];
    for (int i = 0; i < 3; ++i) in[i] = hd_input((const char *[]){"a", "b", "x"}[i], HD_SHAPE(4), HD_F32);
    put(builder, "pow", hd_pow(in[0], in[1]));
    put(builder, "log1p", hd_log1p(hd_abs(in[2])));
    put(builder, "asinh", hd_asinh(in[2]));
    put(builder, "silu", hd_silu(in[2]));
    hd_builder_end(builder);
    hd_script *s = hd_builder_build(builder);
    for (int i = 0; i < 3; ++i)
        hd_script_set_input(s, (const char *[]){"a", "b", "x"}[i],
                            hd_from_data((const float *[]){a, b, x}[i], HD_SHAPE(4), HD_F32));
    hd_script_set_compiler(s, HD_COMPILER_XLA);
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    for (int i = 0; i < 4; ++i) {
        const double v = (double)x[i], want[4] = {pow((double)a[i], (double)b[i]), log1p(fabs(v)), asinh(v),
                                                  v < 0 ? v / (1 + exp(-v)) : v};
        static const int ids[4] = {HD_OP_pow, HD_OP_log1p, HD_OP_asinh, HD_OP_silu};
        for (int k = 0; k < 4; ++k) {
            const double got = (double)hd_data_f32(hd_outputs_at(o, k))[i];
            if (!within(got, want[k], (double)hd_rows[ids[k]].ulp, 0, 0, 24))
                fail_msg("%s %d: %.9g, expected %.9g", row_name(ids[k]), i, got, want[k]);
        }
    }
}

RUN(test(the_guide_lists_what_is_flushed), test(the_table_holds_in_f32), test(the_table_holds_in_f64),
    test(what_is_written_is_computed), test(results_that_were_far_off))
