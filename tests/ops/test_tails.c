/* silu and mish far below 0, where they are x e^x: their error is that of the row down to the last denormal, and so is
 * that of their derivatives, at once and compiled. */
#include "builders.h"

#include "ops/op.h"

#include <math.h>

enum { POINTS = 20000 };

static long double silu_at(long double x) { return x * expl(x) / (1 + expl(x)); }
static long double silu_slope(long double x) { return expl(x) / (1 + expl(x)) * (1 + x / (1 + expl(x))); }
static long double mish_at(long double x) { return x * tanhl(log1pl(expl(x))); }
static long double mish_slope(long double x) {
    const long double n = expl(x), w = n * (n + 2), d = w + 2;
    return w / d + 4 * x * n * (n + 1) / (d * d);
}

/* Units of a dtype at a value; those of denormals are all the same. */
static double unit_at(long double value, hd_dtype dtype) {
    const int least = dtype == HD_F32 ? -149 : -1074, digits = dtype == HD_F32 ? 23 : 52;
    const int exponent = value == 0 ? least : ilogbl(value) - digits;
    return ldexp(1, exponent < least ? least : exponent);
}

static void compare(const char *name, hd_tensor *y, const double *x, long double (*exact)(long double), double bound) {
    static double got[POINTS];
    const hd_dtype dtype = hd_tensor_dtype(y);
    hd_to_array(y, got, HD_F64, POINTS);
    assert_ok();
    for (int i = 0; i < POINTS; ++i) {
        const long double expected = exact(x[i]);
        const double error = (double)(fabsl(got[i] - expected) / unit_at(expected, dtype));
        if (!(error <= bound))
            fail_msg("%s(%.9g) in %s is %.9g, not %.9Lg: %.1f units off", name, x[i], hd_dtype_name(dtype), got[i],
                     expected, error);
    }
}

typedef struct tail {
    const char *name, *slope_name;
    hd_tensor *(*run)(hd_tensor *x);
    long double (*exact)(long double), (*slope)(long double);
    int row;
} tail;

static void check_tail(const tail *t, hd_dtype dtype, double low, double high) {
    HD_SCOPE;
    static double x[POINTS];
    for (int i = 0; i < POINTS; ++i) {
        x[i] = low + (high - low) * i / POINTS;
        if (dtype == HD_F32) x[i] = (float)x[i];
    }
    hd_tensor *in = hd_param(hd_cast(hd_from_data(x, HD_SHAPE(POINTS), HD_F64), dtype));
    hd_tensor *y = t->run(in);
    compare(t->name, y, x, t->exact, hd_rows[t->row].ulp);
    hd_tensors *slopes = hd_grad_of(y, HD_TENSORS(in), NULL);
    compare(t->slope_name, hd_tensors_get(slopes, 0), x, t->slope, hd_rows[t->row].ulp);
    hd_clear_tape();
    hd_builder *b = started("tail");
    hd_builder_add_output(b, "y", t->run(hd_input("x", HD_SHAPE(POINTS), dtype)));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", in);
    hd_script_set_optimization_level(s, HD_O2);
    compare(t->name, output(s, "y"), x, t->exact, hd_rows[t->row].ulp);
}

static void the_tail_has_the_error_of_the_row(void **state) {
    (void)state;
    static const tail tails[] = {{"silu", "the derivative of silu", hd_silu, silu_at, silu_slope, HD_OP_silu},
                                 {"mish", "the derivative of mish", hd_mish, mish_at, mish_slope, HD_OP_mish}};
    for (int i = 0; i < 2; ++i) {
        check_tail(&tails[i], HD_F32, -112, -60);
        check_tail(&tails[i], HD_F64, -760, -690);
        check_tail(&tails[i], HD_F64, -100, -60);
    }
}

RUN(test(the_tail_has_the_error_of_the_row))
