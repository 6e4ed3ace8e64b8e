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
#include "golden/elementwise.h"

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

static double upstream;
static int failures;

/* ---- exceptions -------------------------------------------------------------------------------------------------- */
static bool anywhere(double a, double b) { return (void)a, (void)b, true; }
static bool at_a_pole(double a, double b) { return (void)b, a < 0 && a == rint(a); }
static bool at_a_bound(double a, double b) { return (void)b, a == -2 || a == 3; }
static bool at_minus_one(double a, double b) { return (void)b, a == -1; }
static bool beyond_f64(double a, double b) { return (void)b, fabs(a) > 720; }
static bool far_out(double a, double b) { return (void)b, a < 1e-12; }
static bool not_finite(double a, double b) { return (void)b, !isfinite(a); }
static bool both_zero(double a, double b) { return a == 0 && b == 0; }
static bool has_no_remainder(double a, double b) { return b == 0 || isinf(a); }

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
    {HD_OP_ndtri, 0, far_out, "the density at y, which is rounded, is off by y^2 units; so is PyTorch's"},
    {HD_OP_i0, 0, infinite, "infinite like the value, which is NaN in PyTorch"},
    {HD_OP_i1, 0, beyond_f64, "infinite like the value; PyTorch takes one infinity from another"},
};
/* ---- checks ------------------------------------------------------------------------------------------------------ */
static void complain(const block *b, int i, const char *what, double got, double want) {
    ++failures;
    print_error("%s(", row_name(b->id));
    for (int k = 0; k < b->operands; ++k)
        print_error(b->integers ? "%s%.0f" : "%s%.9g", k ? ", " : "",
                    b->integers ? (double)b->whole[k][i] : b->in[k][i]);
    print_error("): %s %.17g, expected %.17g\n", what, got, want);
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
    const double ulps = golden_ulps(b->id, digits);
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
    static block b;
    read_golden(&b, &upstream, check_block);
    if (failures > 0) fail_msg("%d results differ", failures);
}

RUN(test(every_row_agrees_with_pytorch))
