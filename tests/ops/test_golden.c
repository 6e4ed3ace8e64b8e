/* Every elementwise row against PyTorch: tests/golden/elementwise.txt, written by tests/golden/make_golden.py, holds
 * values in float64 and gradients at ordinary, extreme and special points.
 *
 *   values, f32   within the row's ulp column of the f64 reference: units in the last place of the result, or of the
 *                 largest operand where the column is negative; see `within` for what overflows, vanishes or is NaN
 *   values, f64   within 8 times the column, at least 16: the reference itself is only good to a few units
 *   integers      exactly
 *   gradients     the derivative sentence read in f32 and f64, within 16 units and 4 times the column, counted at the
 *                 larger of the gradient and the upstream gradient g (tanh' = 1 - y^2 cancels, in every framework)
 *
 * A row without golden values fails. Where OPS.md decides otherwise than PyTorch, or PyTorch's float64 is not the
 * truth, the point is in `exceptions`, with the reason. */
#include "golden/rows.h"

#include "kernel/words_c.h"
#define T           f32
#define W_PRECISION 32
#include "golden/gradients.h"
#undef T
#undef W_PRECISION
#define T           f64
#define W_PRECISION 64
#include "golden/gradients.h"
#undef T
#undef W_PRECISION

enum { MOST_POINTS = 512 };

typedef struct block { /* the points of one `row` line */
    int id, operands, count, gradients;
    bool integers;
    hd_dtype dtype; /* of integers */
    double number[3];
    double in[3][MOST_POINTS], value[MOST_POINTS], gradient[3][MOST_POINTS];
    int64_t whole[3][MOST_POINTS], whole_value[MOST_POINTS];
} block;

static double upstream;
static int failures;

/* ---- exceptions -------------------------------------------------------------------------------------------------- */
typedef struct exception {
    int id, digits; /* digits: 53 when only float64 is excepted, 0 for both */
    bool (*at)(double a, double b);
    const char *reason;
} exception;

static bool anywhere(double a, double b) { return (void)a, (void)b, true; }
static bool leaves_zero(double a, double b) { return fmod(a, b) == 0; }
static bool near_a_pole(double a, double b) { return (void)b, a < 0 && fabs(a - rint(a)) < 1e-6; }
static bool at_a_pole(double a, double b) { return (void)b, a < 0 && a == rint(a); }
static bool at_a_bound(double a, double b) { return (void)b, a == -2 || a == 3; }
static bool at_minus_one(double a, double b) { return (void)b, a == -1; }
static bool infinite(double a, double b) { return (void)b, isinf(a); }
static bool not_finite(double a, double b) { return (void)b, !isfinite(a); }
static bool both_zero(double a, double b) { return a == 0 && b == 0; }
static bool has_no_remainder(double a, double b) { return b == 0 || isinf(a); }

static const exception value_exceptions[] = {
    {HD_OP_mod, 0, leaves_zero, "a zero has the sign of b, as in Python and NumPy; PyTorch leaves a's"},
    {HD_OP_digamma, 53, near_a_pole, "PyTorch takes pi / tan(pi x) without reducing x exactly"},
};
static const exception gradient_exceptions[] = {
    {HD_OP_clamp, 0, at_a_bound, "OPS.md: 1 at and inside the bounds; this PyTorch has 0 at them"},
    {HD_OP_clamp_min, 0, at_a_bound, "OPS.md: 1 at and inside the bounds; this PyTorch has 0 at them"},
    {HD_OP_clamp_max, 0, at_a_bound, "OPS.md: 1 at and inside the bounds; this PyTorch has 0 at them"},
    {HD_OP_lgamma, 53, near_a_pole, "PyTorch's digamma, as above"},
    {HD_OP_digamma, 53, anywhere, "PyTorch's trigamma is good to nine digits only: trigamma(2) is pi^2 / 6 - 1"},
    {HD_OP_digamma, 0, at_a_pole, "infinite; PyTorch's sin(pi x) is not quite 0"},
    {HD_OP_acosh, 0, at_minus_one, "outside the domain: an infinity of either sign"},
    {HD_OP_softsign, 0, infinite, "0, the limit; PyTorch has inf / inf"},
    {HD_OP_gelu_tanh, 0, infinite, "1 and 0, the limits; PyTorch has inf * 0"},
    {HD_OP_copysign, 0, not_finite, "1 or -1; PyTorch divides the result by a"},
    {HD_OP_hypot, 0, both_zero, "0, a subgradient, as for norms; PyTorch has 0 / 0"},
    {HD_OP_rem, 0, has_no_remainder, "NaN like the value; PyTorch says infinite"},
    {HD_OP_mod, 0, has_no_remainder, "NaN like the value; PyTorch says infinite"},
};
#define EXCEPTED(table, b, i, digits) excepted(table, sizeof(table) / sizeof(table[0]), b, i, digits)
static bool excepted(const exception *table, size_t count, const block *b, int i, int digits) {
    for (size_t k = 0; k < count; ++k)
        if (table[k].id == b->id && (table[k].digits == 0 || table[k].digits == digits) &&
            table[k].at(b->in[0][i], b->in[1][i]))
            return true;
    return false;
}

/* ---- reading the file -------------------------------------------------------------------------------------------- */
static int row_named(const char *name) {
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (strcmp(row_name(id), name) == 0) return id;
    fail_msg("elementwise.txt has a row %s that is no op: run make_golden.py again", name);
    return -1;
}

static hd_dtype dtype_named(const char *name) {
    for (int d = 1; d < HD_DTYPE_COUNT; ++d)
        if (strcmp(hd_dtype_name((hd_dtype)d), name) == 0) return (hd_dtype)d;
    return HD_DTYPE_DEFAULT;
}

static void begin_block(block *b, char *line) {
    char name[64], dtype[16];
    int used = 0;
    assert_int_equal(sscanf(line, "row %63s %15s %d%n", name, dtype, &b->operands, &used), 3);
    b->id = row_named(name);
    b->count = 0;
    b->dtype = dtype_named(dtype);
    b->integers = b->dtype != HD_DTYPE_DEFAULT;
    b->gradients = b->integers || hd_rows[b->id].gives_bool ? 0 : b->operands - hd_rows[b->id].chooses;
    assert_int_equal(b->operands, hd_rows[b->id].operands);
    char *at = line + used;
    for (int k = 0; k < hd_rows[b->id].numbers; ++k) b->number[k] = strtod(at, &at);
}

static void read_point(block *b, char *line) {
    assert_true(b->count < MOST_POINTS);
    const int i = b->count++;
    char *at = line;
    if (b->integers) {
        for (int k = 0; k < b->operands; ++k) b->whole[k][i] = strtoll(at, &at, 10);
        b->whole_value[i] = strtoll(at, &at, 10);
    } else {
        for (int k = 0; k < b->operands; ++k) b->in[k][i] = (double)strtof(at, &at);
        b->value[i] = strtod(at, &at);
        for (int k = 0; k < b->gradients; ++k) b->gradient[k][i] = strtod(at, &at);
    }
    if (*at != '\n') fail_msg("%s: line \"%s\" is not of %d operands", row_name(b->id), line, b->operands);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */
static void complain(const block *b, int i, const char *what, double got, double want) {
    ++failures;
    print_error("%s(", row_name(b->id));
    for (int k = 0; k < b->operands; ++k)
        print_error(b->integers ? "%s%.0f" : "%s%.9g", k ? ", " : "",
                    b->integers ? (double)b->whole[k][i] : b->in[k][i]);
    print_error("): %s %.17g, expected %.17g\n", what, got, want);
}

static double largest_operand(const block *b, int i) {
    double most = 0;
    for (int k = 0; k < b->operands; ++k)
        if (isfinite(b->in[k][i])) most = fmax(most, fabs(b->in[k][i]));
    return most;
}

static hd_tensor *operand(const block *b, int k, hd_dtype dtype) { /* 1 to 3 operands, the condition as bool */
    hd_tensor *t = b->integers ? hd_from_data(b->whole[k], HD_SHAPE(b->count), HD_I64)
                               : hd_from_data(b->in[k], HD_SHAPE(b->count), HD_F64);
    return hd_cast(t, k == 0 && hd_rows[b->id].chooses ? HD_BOOL : dtype);
}

static hd_tensor *run(const block *b, hd_dtype dtype) {
    hd_tensor *in[3] = {NULL};
    for (int k = 0; k < b->operands; ++k) in[k] = operand(b, k, dtype);
    hd_tensor *result = row_calls[b->id](in, b->number);
    assert_ok();
    assert_int_equal(hd_tensor_dtype(result), hd_rows[b->id].gives_bool ? HD_BOOL : dtype);
    return result;
}

static void check_values(const block *b, hd_dtype dtype) {
    HD_SCOPE;
    double got[MOST_POINTS];
    assert_true(hd_to_array(run(b, dtype), got, HD_F64, MOST_POINTS));
    const float column = hd_rows[b->id].ulp;
    const int digits = dtype == HD_F32 ? 24 : 53;
    const double ulps = dtype == HD_F32 ? (double)fabsf(column) : fmax(16, 8 * (double)fabsf(column));
    for (int i = 0; i < b->count; ++i)
        if (!within(got[i], b->value[i], ulps, column < 0 ? largest_operand(b, i) : 0, largest_operand(b, i), digits) &&
            !EXCEPTED(value_exceptions, b, i, digits))
            complain(b, i, hd_dtype_name(dtype), got[i], b->value[i]);
}

static void check_integers(const block *b) {
    HD_SCOPE;
    int64_t got[MOST_POINTS];
    assert_true(hd_to_array(run(b, b->dtype), got, HD_I64, MOST_POINTS));
    for (int i = 0; i < b->count; ++i)
        if (got[i] != b->whole_value[i])
            complain(b, i, hd_dtype_name(b->dtype), (double)got[i], (double)b->whole_value[i]);
}

static void check_gradient(const block *b, int i, int k, double got, int digits) {
    static const char *const what[3] = {"first gradient", "second gradient", "third gradient"};
    const double want = b->gradient[k][i], ulps = 16 + 4 * (double)fabsf(hd_rows[b->id].ulp);
    if (got == 0 && want == 0) return; /* the sign of a zero gradient means nothing */
    if (!within(got, want, ulps, upstream, 0, digits) && !EXCEPTED(gradient_exceptions, b, i, digits))
        complain(b, i, what[k], got, want);
}

static void check_gradients(const block *b) {
    if (b->gradients == 0) return;
    float number[3];
    for (int k = 0; k < 3; ++k) number[k] = (float)b->number[k];
    for (int i = 0; i < b->count; ++i) {
        const double in[3] = {b->in[0][i], b->in[1][i], b->in[2][i]};
        const float in32[3] = {(float)in[0], (float)in[1], (float)in[2]};
        double out[3] = {0};
        float out32[3] = {0};
        gradients_f64[b->id](in, b->number, upstream, out);
        gradients_f32[b->id](in32, number, (float)upstream, out32);
        for (int k = 0; k < b->gradients; ++k) {
            check_gradient(b, i, k, out[k], 53);
            check_gradient(b, i, k, (double)out32[k], 24);
        }
    }
}

static void check_block(const block *b) {
    if (b->count == 0) return;
    if (b->integers) {
        check_integers(b);
        return;
    }
    check_values(b, HD_F32);
    check_values(b, HD_F64);
    check_gradients(b);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */
static void every_row_agrees_with_pytorch(void **state) {
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%.*s/golden/elementwise.txt", (int)(sizeof HODU_TEST_DATA - sizeof "/data"),
             HODU_TEST_DATA);
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("cannot open %s", path);
    static block b;
    int points[HD_OP_ELEMENTWISE_COUNT] = {0}, total = 0;
    char line[256];
    b.count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        if (strncmp(line, "gradient ", 9) == 0) {
            upstream = strtod(line + 9, NULL);
        } else if (strncmp(line, "row ", 4) == 0) {
            check_block(&b);
            begin_block(&b, line);
        } else {
            read_point(&b, line);
            ++points[b.id], ++total;
        }
    }
    check_block(&b);
    fclose(file);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (points[id] == 0) fail_msg("no golden values for %s: run tests/golden/make_golden.py", row_name(id));
    printf("%d rows, %d points\n", HD_OP_ELEMENTWISE_COUNT, total);
    if (failures > 0) fail_msg("%d results differ", failures);
}

RUN(test(every_row_agrees_with_pytorch))
