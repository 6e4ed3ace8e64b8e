/* The eager kernels against oracles at random points: f32 rows against the libm reading in f64, within the row's ulp
 * column; integer rows, in all eight types, against arithmetic in 128 bits, exactly. HODU_SEED=n repeats a run,
 * HODU_WORST=1 prints the largest error of each row next to its column. */
#include "golden/libm.h"

enum { POINTS = 6000 };

/* ---- floats ------------------------------------------------------------------------------------------------------ */
static int compare_with_oracle(int id, dice *d) {
    HD_SCOPE;
    static float in[3][POINTS];
    static double got[POINTS];
    const hd_row *row = &hd_rows[id];
    hd_tensor *t[3] = {NULL};
    for (int k = 0; k < row->operands; ++k) {
        for (int i = 0; i < POINTS; ++i)
            in[k][i] = k == 0 && row->chooses ? (float)(roll(d) & 1) : random_f32(d, row->operands < 3);
        if (k == 1 && !row->chooses)
            for (int i = 0; i < POINTS; i += 50) in[1][i] = in[0][i]; /* ties */
        t[k] = hd_from_data(in[k], HD_SHAPE(POINTS), HD_F32);
    }
    if (row->chooses) t[0] = hd_cast(t[0], HD_BOOL);
    hd_tensor *result = row_calls[id](t, row_numbers(id));
    assert_ok();
    assert_true(hd_to_array(result, got, HD_F64, POINTS));
    int bad = 0, worst_at = 0;
    double worst = 0;
    for (int i = 0; i < POINTS; ++i) {
        const double point[3] = {(double)in[0][i], (double)in[1][i], (double)in[2][i]};
        const double want = row_oracles[id](point, row_numbers(id));
        double operand = 0;
        for (int k = 0; k < row->operands; ++k)
            if (isfinite(point[k])) operand = fmax(operand, fabs(point[k]));
        const double scale = row->ulp < 0 ? operand : 0, error = error_in_units(got[i], want, scale);
        if (fabs(want) >= 0x1p-126 && error > worst) worst = error, worst_at = i;
        if (within(got[i], want, (double)fabsf(row->ulp), scale, operand, 24)) continue;
        if (++bad <= 5)
            print_error("%s(%.9g, %.9g, %.9g) is %.9g, expected %.17g: %.3g units off, %g allowed\n", row_name(id),
                        point[0], point[1], point[2], got[i], want, error, (double)fabsf(row->ulp));
    }
    if (getenv("HODU_WORST"))
        printf("%-20s %6.2f of %g, at %.9g, %.9g, %.9g\n", row_name(id), worst, (double)row->ulp,
               (double)in[0][worst_at], (double)in[1][worst_at], (double)in[2][worst_at]);
    return bad;
}

static void f32_rows_agree_with_libm(void **state) {
    (void)state;
    dice d = roll_from("f32_rows_agree_with_libm", 20240607);
    int bad = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (row_oracles[id] != NULL) bad += compare_with_oracle(id, &d);
    if (bad > 0) fail_msg("%d results are off", bad);
}

/* ---- integers ---------------------------------------------------------------------------------------------------- */
__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 wide_bits;

static const hd_dtype integers[] = {HD_U8, HD_U16, HD_U32, HD_U64, HD_I8, HD_I16, HD_I32, HD_I64};

static int bits_of(hd_dtype d) { return (int)hd_dtype_size(d) * 8; }
static bool is_signed(hd_dtype d) { return d >= HD_I8; }
static wide wrap(wide v, hd_dtype d) {
    const wide modulus = (wide)1 << bits_of(d);
    v = (v % modulus + modulus) % modulus;
    return is_signed(d) && v >= modulus / 2 ? v - modulus : v;
}
static wide product(wide a, wide b, hd_dtype d) { return wrap((wide)((wide_bits)a * (wide_bits)b), d); }
static wide floor_quotient(wide a, wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static wide power(wide a, wide b, hd_dtype d) {
    wide p = 1;
    for (; b > 0; --b) p = product(p, a, d);
    return p;
}
static int ones(wide v, hd_dtype d) {
    int count = 0;
    for (int i = 0; i < bits_of(d); ++i) count += (int)(v >> i & 1);
    return count;
}

/* What an integer row gives, before wrapping; false for rows that have no oracle here. */
static bool integer_oracle(int id, wide a, wide b, hd_dtype d, wide *out) {
    const bool within_width = b >= 0 && b < bits_of(d);
    switch (id) {
    case HD_OP_neg: return *out = -a, true;
    case HD_OP_abs: return *out = a < 0 ? -a : a, true;
    case HD_OP_sign: return *out = (a > 0) - (a < 0), true;
    case HD_OP_square: return *out = product(a, a, d), true;
    case HD_OP_relu: return *out = a > 0 ? a : 0, true;
    case HD_OP_floor:
    case HD_OP_ceil:
    case HD_OP_round:
    case HD_OP_trunc: return *out = a, true;
    case HD_OP_bitwise_not: return *out = -1 - a, true;
    case HD_OP_popcount: return *out = ones(a, d), true;
    case HD_OP_logical_not: return *out = a == 0, true;
    case HD_OP_add: return *out = a + b, true;
    case HD_OP_sub: return *out = a - b, true;
    case HD_OP_mul: return *out = product(a, b, d), true;
    case HD_OP_squared_difference: return *out = product(a - b, a - b, d), true;
    case HD_OP_trunc_divide: return *out = a / b, true;
    case HD_OP_rem: return *out = a % b, true;
    case HD_OP_floor_divide: return *out = floor_quotient(a, b), true;
    case HD_OP_mod: return *out = a - b * floor_quotient(a, b), true;
    case HD_OP_pow: return *out = power(a, b, d), true;
    case HD_OP_maximum: return *out = a > b ? a : b, true;
    case HD_OP_minimum: return *out = a < b ? a : b, true;
    case HD_OP_bitwise_and: return *out = a & b, true;
    case HD_OP_bitwise_or: return *out = a | b, true;
    case HD_OP_bitwise_xor: return *out = a ^ b, true;
    case HD_OP_shift_left: return *out = within_width ? product(a, (wide)1 << b, d) : 0, true;
    case HD_OP_shift_right: return *out = within_width ? floor_quotient(a, (wide)1 << b) : a < 0 ? -1 : 0, true;
    case HD_OP_eq: return *out = a == b, true;
    case HD_OP_ne: return *out = a != b, true;
    case HD_OP_lt: return *out = a < b, true;
    case HD_OP_le: return *out = a <= b, true;
    case HD_OP_gt: return *out = a > b, true;
    case HD_OP_ge: return *out = a >= b, true;
    case HD_OP_logical_and: return *out = a != 0 && b != 0, true;
    case HD_OP_logical_or: return *out = a != 0 || b != 0, true;
    case HD_OP_logical_xor: return *out = (a != 0) != (b != 0), true;
    default: return false;
    }
}

/* Extremes and their neighbours, small numbers, shifts around the width, and anything. */
static wide random_integer(dice *d, hd_dtype dtype) {
    const wide lowest = is_signed(dtype) ? -((wide)1 << (bits_of(dtype) - 1)) : 0,
               highest = lowest + ((wide)1 << bits_of(dtype)) - 1;
    const int64_t near = (int64_t)(roll(d) % 4);
    switch (roll(d) % 8) {
    case 0: return lowest + near;
    case 1: return highest - near;
    case 2: return wrap(near - 2, dtype);
    case 3: return wrap(bits_of(dtype) + near - 2, dtype);
    case 4: return wrap((int64_t)(roll(d) % 41) - 20, dtype);
    default: return wrap((wide)(roll(d) >> roll(d) % 64), dtype);
    }
}

static wide element(const void *data, int i, hd_dtype d) {
    uint64_t u = 0; /* little-endian */
    memcpy(&u, (const char *)data + (size_t)i * hd_dtype_size(d), hd_dtype_size(d));
    return wrap((wide)u, d);
}

static int compare_integers(int id, hd_dtype dtype, dice *d) {
    HD_SCOPE;
    static char in[2][POINTS * 8];
    static wide value[2][POINTS];
    const hd_row *row = &hd_rows[id];
    hd_tensor *t[3] = {NULL};
    for (int k = 0; k < row->operands; ++k) {
        for (int i = 0; i < POINTS; ++i) {
            wide v = random_integer(d, dtype);
            if (k == 1 && row->guard == HD_GUARD_ZERO && v == 0) v = 1;
            if (k == 1 && row->guard == HD_GUARD_NEGATIVE) v = (wide)(roll(d) % 128);
            value[k][i] = v;
            memcpy(in[k] + (size_t)i * hd_dtype_size(dtype), &v, hd_dtype_size(dtype));
        }
        t[k] = hd_from_data(in[k], HD_SHAPE(POINTS), dtype);
    }
    hd_tensor *result = row_calls[id](t, row_numbers(id));
    assert_ok();
    const hd_dtype gives = row->gives_bool ? HD_BOOL : dtype;
    assert_int_equal(hd_tensor_dtype(result), gives);
    const void *got = hd_data(result, gives);
    int bad = 0;
    for (int i = 0; i < POINTS; ++i) {
        wide want = 0;
        integer_oracle(id, value[0][i], value[1][i], dtype, &want);
        const wide is = row->gives_bool ? ((const uint8_t *)got)[i] : element(got, i, dtype);
        if (is != (row->gives_bool ? want : wrap(want, dtype)) && ++bad <= 5)
            print_error("%s of %s (%lld, %lld) is %lld, expected %lld (as i64)\n", row_name(id), hd_dtype_name(dtype),
                        (long long)value[0][i], (long long)value[1][i], (long long)is, (long long)wrap(want, dtype));
    }
    return bad;
}

static void integer_rows_agree_with_wide_arithmetic(void **state) {
    (void)state;
    dice d = roll_from("integer_rows_agree_with_wide_arithmetic", 71);
    int bad = 0, rows = 0;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id) {
        wide ignored;
        if (!integer_oracle(id, 1, 1, HD_I32, &ignored)) continue;
        ++rows;
        for (size_t k = 0; k < sizeof integers / sizeof integers[0]; ++k) bad += compare_integers(id, integers[k], &d);
    }
    printf("%d rows of integers\n", rows);
    if (bad > 0) fail_msg("%d results are off", bad);
}

static void integer_division_by_zero_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    for (size_t k = 0; k < sizeof integers / sizeof integers[0]; ++k) {
        hd_tensor *a = hd_full(HD_SHAPE(3, 40), integers[k], 7), *b = hd_full(HD_SHAPE(3, 40), integers[k], 2);
        hd_fill(hd_select(hd_select(b, 0, 1), 0, 5), 0);
        hd_tensor *(*const ops[])(hd_tensor *, hd_tensor *) = {hd_trunc_divide, hd_rem, hd_floor_divide, hd_mod};
        for (int i = 0; i < 4; ++i) {
            assert_null(ops[i](a, b));
            assert_error(HD_ERROR_DIVISION, "b is 0 at element");
            assert_null(ops[i](a, hd_scalar(0, integers[k])));
            assert_error(HD_ERROR_DIVISION, "b is 0 at element");
        }
    }
    assert_null(hd_pow(hd_full(HD_SHAPE(3), HD_I32, 2), HD_TENSOR_I64(HD_SHAPE(3), 1, -1, 2)));
    assert_error(HD_ERROR_VALUE, "negative");
}

/* Python's: a zero remainder has the sign of b, a zero quotient the sign of a / b. */
static void float_mod_has_the_sign_of_the_divisor(void **state) {
    (void)state;
    HD_SCOPE;
    const float a[] = {-3, 3, -3, 3, -0.0f, 0, 5, -5, 5, -5}, b[] = {3, -3, -3, 3, 3, -3, 3, 3, -3, -3};
    const float mod[] = {0, -0.0f, -0.0f, 0, 0, -0.0f, 2, 1, -1, -2},
                quotient[] = {-1, -1, 1, 1, -0.0f, -0.0f, 1, -2, -2, 1};
    hd_tensor *x = hd_from_data(a, HD_SHAPE(10), HD_F32), *y = hd_from_data(b, HD_SHAPE(10), HD_F32);
    assert_memory_equal(hd_data(hd_mod(x, y), HD_F32), mod, sizeof mod);
    assert_memory_equal(hd_data(hd_floor_divide(x, y), HD_F32), quotient, sizeof quotient);
}

RUN(test(f32_rows_agree_with_libm), test(integer_rows_agree_with_wide_arithmetic),
    test(integer_division_by_zero_is_an_error), test(float_mod_has_the_sign_of_the_divisor))
