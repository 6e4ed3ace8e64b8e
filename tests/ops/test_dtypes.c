/* dtypes: casts between all fifteen at special values, the dtype two operands meet in, numbers beside tensors, and
 * errors that name the dtype. */
#include "golden/rows.h"
#include "golden/small_formats.h"
#include "sample.h"

static const small_format *format_of(hd_dtype d) {
    for (int k = 0; k < SMALL_FORMATS; ++k)
        if (small_formats[k].dtype == d) return &small_formats[k];
    return NULL;
}
static int bits_of(hd_dtype d) { return (int)hd_dtype_size(d) * 8; }
static bool is_signed(hd_dtype d) { return d >= HD_I8 && d <= HD_I64; }

/* ---- casts ---------------------------------------------------------------------------------------------------------
 * A value is a long double, which holds every value of every dtype (64 bits of mantissa on x86). An element is its
 * bits. */
static long double read_element(uint64_t bits, hd_dtype d) {
    if (format_of(d) != NULL) return small_value(format_of(d), (uint32_t)bits);
    if (d == HD_F32) {
        float f;
        memcpy(&f, &bits, 4);
        return (long double)f;
    }
    if (d == HD_F64) {
        double f;
        memcpy(&f, &bits, 8);
        return (long double)f;
    }
    if (is_signed(d) && bits_of(d) < 64 && bits >> (bits_of(d) - 1)) return (long double)bits - ldexpl(1, bits_of(d));
    return d == HD_I64 ? (long double)(int64_t)bits : (long double)bits;
}

/* The bits of the float nearest to v: one rounding. */
static uint64_t write_float(long double v, hd_dtype d) {
    uint64_t bits = 0;
    if (format_of(d) != NULL) return isnan(v) ? small_sign(format_of(d)) - 1 : small_nearest(format_of(d), v);
    if (d == HD_F32) {
        const float f = (float)v;
        memcpy(&bits, &f, 4);
    } else {
        const double f = (double)v;
        memcpy(&bits, &f, 8);
    }
    return bits;
}

static uint64_t masked(uint64_t bits, hd_dtype d) {
    return bits_of(d) == 64 ? bits : bits & ((1ull << bits_of(d)) - 1);
}

/* Floats to integers truncate and saturate, NaN gives 0; integers to integers wrap; NaN is true. */
static uint64_t write_element(long double v, hd_dtype to, bool from_float) {
    if (to == HD_BOOL) return v != 0;
    if (hd_dtype_is_float(to)) return write_float(v, to);
    const long double most = ldexpl(1, bits_of(to) - is_signed(to)), least = is_signed(to) ? -most : 0;
    if (isnan(v)) return 0;
    if (from_float && v >= most) return masked(~0ull, to) >> is_signed(to);
    if (from_float && v < least) v = least;
    return masked(v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v, to);
}

static const long double special[] = {
    0, -0.0L, 1, -1, 0.5L, -0.5L, 0.999L, -0.999L, 1.5L, 2.5L, -1.5L, 127, 128, -128, -129, 127.9L, 255, 256, 255.9L,
    300, -300, 448, 464, 465, 480, 1000, 32767, 32768, -32768, -32769, 57344, 61440, 65503, 65504, 65519, 65520, 65535,
    65536, 70000, 1e6L, 16777215, 16777217, 16777219, 2147483647, 2147483648.0L, -2147483648.0L, -2147483649.0L,
    4294967295.0L, 4294967296.0L, 1e10L, -1e10L, 9007199254740993.0L, -9007199254740993.0L, 9223372036854775807.0L,
    9223372036854775808.0L, -9223372036854775807.0L - 1, 18446744073709551615.0L, 1.8446744073709552e19L, 1e20L, -1e20L,
    3.4028234663852886e38L, 3.4028235677973366e38L, 1e39L, -1e39L, 1e300L, 1e-3L, 1e-8L, 5.960464477539063e-08L,
    2.9802322387695312e-08L, 2.9802322387695316e-08L, 0.001953125L, 0.0009765625L, 1e-30L, 1e-40L, 1e-46L, 1e-300L,
    4.9406564584124654e-324L, INFINITY, -INFINITY, NAN,
    /* ties in f16 and bf16, broken by what f32 would drop: rounding twice gets these wrong */
    1.00048828125L, 1.0004882812500002L, 1.0004882812499998L, 1.00390625L, 1.0039062500000002L, 1.0039062499999998L,
    36310271995674624.0L, 36310271995674625.0L, 36310271995674623.0L, 72057594037927937.0L, 72339069014638593.0L,
    72339069014638591.0L};
enum { SPECIAL = sizeof special / sizeof special[0] };

static void check_cast(hd_dtype from, hd_dtype to) {
    HD_SCOPE;
    uint64_t in[SPECIAL];
    char data[SPECIAL * 8];
    for (int i = 0; i < SPECIAL; ++i) {
        in[i] = write_element(special[i], from, true);
        memcpy(data + (size_t)i * hd_dtype_size(from), &in[i], hd_dtype_size(from));
    }
    hd_tensor *cast = hd_cast(hd_from_data(data, HD_SHAPE(SPECIAL), from), to);
    assert_ok();
    assert_int_equal(hd_tensor_dtype(cast), to);
    const char *got = hd_data(cast, to);
    for (int i = 0; i < SPECIAL; ++i) {
        uint64_t bits = 0;
        memcpy(&bits, got + (size_t)i * hd_dtype_size(to), hd_dtype_size(to));
        const long double v = read_element(in[i], from);
        const uint64_t want = write_element(v, to, hd_dtype_is_float(from));
        const bool nan = hd_dtype_is_float(to) && isnan(read_element(want, to)) && isnan(read_element(bits, to));
        if (bits != want && !nan)
            fail_msg("%.20Lg from %s to %s is %.20Lg (0x%llx), expected %.20Lg (0x%llx)", v, hd_dtype_name(from),
                     hd_dtype_name(to), read_element(bits, to), (unsigned long long)bits, read_element(want, to),
                     (unsigned long long)want);
    }
}

static void casts_between_all_dtypes(void **state) {
    (void)state;
    for (int from = 1; from < HD_DTYPE_COUNT; ++from)
        for (int to = 1; to < HD_DTYPE_COUNT; ++to) check_cast((hd_dtype)from, (hd_dtype)to);
}

static void cast_to_the_same_dtype_is_the_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(3), HD_F16);
    assert_ptr_equal(hd_cast(x, HD_F16), x);
    assert_int_equal(hd_tensor_dtype(hd_cast(x, HD_DTYPE_DEFAULT)), HD_F32);
    assert_null(hd_cast(x, (hd_dtype)99));
    assert_error(HD_ERROR_DTYPE, "99 is no dtype");
}

/* ---- the dtype two operands meet in ------------------------------------------------------------------------------ */
static void promotion_is_as_written_in_the_catalogue(void **state) {
    (void)state;
    static const hd_dtype table[][3] = {
        {HD_BOOL, HD_U8, HD_U8},   {HD_BOOL, HD_F8E4M3, HD_F8E4M3}, {HD_U8, HD_U32, HD_U32},
        {HD_U8, HD_I8, HD_I16},    {HD_U16, HD_I8, HD_I32},         {HD_U16, HD_I32, HD_I32},
        {HD_U32, HD_I32, HD_I64},  {HD_U32, HD_I64, HD_I64},        {HD_U64, HD_I8, HD_F32},
        {HD_U64, HD_I64, HD_F32},  {HD_U64, HD_U8, HD_U64},         {HD_I8, HD_I64, HD_I64},
        {HD_I64, HD_F16, HD_F16},  {HD_U64, HD_BF16, HD_BF16},      {HD_I64, HD_F32, HD_F32},
        {HD_BF16, HD_F16, HD_F32}, {HD_F8E4M3, HD_F8E5M2, HD_BF16}, {HD_F32, HD_F64, HD_F64},
        {HD_F16, HD_F32, HD_F32},  {HD_I32, HD_F8E5M2, HD_F8E5M2}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
        assert_int_equal(hd_dtype_promote(table[i][0], table[i][1]), table[i][2]);
        assert_int_equal(hd_dtype_promote(table[i][1], table[i][0]), table[i][2]);
    }
    for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
        assert_int_equal(hd_dtype_promote((hd_dtype)d, (hd_dtype)d), d);
        assert_int_equal(hd_dtype_promote((hd_dtype)d, HD_F64), HD_F64);
    }
}

/* add, lt and where of every pair: what casting both to the common dtype first gives, for values every dtype holds (a
 * small float meets others in f32 and rounds once, at the end). */
static void operands_of_any_two_dtypes_meet(void **state) {
    (void)state;
    const double a_values[] = {0, 1, 2, 3, 12, 7}, b_values[] = {1, 0, 2, 5, 14, 6};
    for (int a = 1; a < HD_DTYPE_COUNT; ++a)
        for (int b = 1; b < HD_DTYPE_COUNT; ++b) {
            if (!when_compiled((uint64_t)(a * HD_DTYPE_COUNT + b), 13)) continue;
            HD_SCOPE;
            const hd_dtype common = hd_dtype_promote((hd_dtype)a, (hd_dtype)b);
            hd_tensor *x = hd_cast(hd_from_data(a_values, HD_SHAPE(6), HD_F64), (hd_dtype)a),
                      *y = hd_cast(hd_from_data(b_values, HD_SHAPE(6), HD_F64), (hd_dtype)b);
            hd_tensor *wide_x = hd_cast(x, common), *wide_y = hd_cast(y, common);
            hd_tensor *condition =
                hd_cast(hd_from_data((const bool[]){1, 0, 1, 1, 0, 0}, HD_SHAPE(6), HD_BOOL), HD_BOOL);
            if (common != HD_BOOL) {
                hd_tensor *sum = hd_add(x, y);
                assert_ok();
                assert_int_equal(hd_tensor_dtype(sum), common);
                assert_same(sum, hd_add(wide_x, wide_y));
            }
            hd_tensor *less = hd_lt(x, y), *chosen = hd_where(condition, x, y);
            assert_ok();
            assert_int_equal(hd_tensor_dtype(less), HD_BOOL);
            assert_int_equal(hd_tensor_dtype(chosen), common);
            assert_same(less, hd_lt(wide_x, wide_y));
            assert_same(chosen, hd_where(condition, wide_x, wide_y));
        }
}

/* ---- numbers beside tensors -------------------------------------------------------------------------------------- */
static void a_number_never_widens_a_float(void **state) {
    (void)state;
    for (int d = HD_F8E4M3; d < HD_DTYPE_COUNT; ++d) {
        HD_SCOPE;
        hd_tensor *x = hd_ones(HD_SHAPE(2), (hd_dtype)d);
        assert_int_equal(hd_tensor_dtype(hd_add_scalar(x, 0.1)), d);
        assert_int_equal(hd_tensor_dtype(hd_mul_scalar(x, 1e300)), d);
        assert_int_equal(hd_tensor_dtype(hd_rdiv_scalar(x, 3)), d);
        assert_int_equal(hd_tensor_dtype(hd_clamp(x, 0.1, 0.7)), d);
        assert_ok();
    }
}

static void a_whole_number_takes_an_integers_dtype_and_a_fraction_the_default_float(void **state) {
    (void)state;
    for (int d = HD_U8; d <= (int)HD_I64; ++d) {
        HD_SCOPE;
        hd_tensor *x = hd_full(HD_SHAPE(2), (hd_dtype)d, 5);
        assert_values(hd_add_scalar(x, 2), (hd_dtype)d, 7, 7);
        assert_values(hd_rsub_scalar(x, 7), (hd_dtype)d, 2, 2);
        assert_values(hd_add_scalar(x, 0.5), HD_F32, 5.5, 5.5);
        assert_values(hd_div_scalar(x, 2), HD_F32, 2.5, 2.5);
        assert_values(hd_gt_scalar(x, 4.5), HD_BOOL, 1, 1);
        assert_values(hd_clamp(x, 0, 3), (hd_dtype)d, 3, 3);
        assert_null(hd_clamp(x, 0, 2.5));
        assert_error(HD_ERROR_VALUE, "2.5 does not fit");
    }
    HD_SCOPE;
    assert_values(hd_add_scalar(hd_full(HD_SHAPE(2), HD_BOOL, 1), 2), HD_I64, 3, 3);
}

static void functions_of_integers_give_the_default_float(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_full(HD_SHAPE(1), HD_I16, 4);
    assert_values(hd_sqrt(x), HD_F32, 2);
    assert_values(hd_div(x, x), HD_F32, 1);
    assert_values(hd_sqrt(hd_full(HD_SHAPE(1), HD_BOOL, 1)), HD_F32, 1);
    hd_set_default_dtype(HD_F64);
    assert_values(hd_sqrt(x), HD_F64, 2);
    assert_values(hd_add_scalar(x, 0.25), HD_F64, 4.25);
    hd_set_default_dtype(HD_BF16);
    assert_values(hd_div(x, x), HD_BF16, 1);
    hd_set_default_dtype(HD_F32);
    hd_set_default_dtype(HD_I32);
    assert_error(HD_ERROR_DTYPE, "i32 cannot be the default");
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */
static void rows_name_the_dtype_they_do_not_take(void **state) {
    (void)state;
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        for (int d = 1; d < HD_DTYPE_COUNT; ++d) {
            HD_SCOPE;
            const hd_row *row = &hd_rows[id];
            hd_tensor *x = hd_ones(HD_SHAPE(2), (hd_dtype)d), *in[3] = {x, x, x};
            if (row->chooses) in[0] = hd_ones(HD_SHAPE(2), HD_BOOL);
            const bool refuses = (hd_ops[id].types == HD_TYPES_NUMBERS && d == HD_BOOL) ||
                                 (hd_ops[id].types == HD_TYPES_INTS && hd_dtype_is_float((hd_dtype)d));
            if (!refuses && !when_compiled((uint64_t)(id * HD_DTYPE_COUNT + d), 23)) continue;
            hd_tensor *y = row_calls[id](in, row_numbers(id));
            if (refuses) {
                assert_null(y);
                char text[64];
                snprintf(text, sizeof text, "hd_%s: does not take %s", row_name(id), hd_dtype_name((hd_dtype)d));
                assert_error(HD_ERROR_DTYPE, text);
                continue;
            }
            assert_ok();
            const bool to_float = hd_ops[id].types == HD_TYPES_FLOATS && !hd_dtype_is_float((hd_dtype)d);
            assert_int_equal(hd_tensor_dtype(y), row->gives_bool ? HD_BOOL : to_float ? HD_F32 : (hd_dtype)d);
        }
}

static void a_condition_must_be_bool(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2), HD_F32);
    assert_null(hd_where(x, x, x));
    assert_error(HD_ERROR_DTYPE, "the condition is f32; it must be bool");
}

RUN(test(casts_between_all_dtypes), test(cast_to_the_same_dtype_is_the_tensor),
    test(promotion_is_as_written_in_the_catalogue), test(operands_of_any_two_dtypes_meet),
    test(a_number_never_widens_a_float), test(a_whole_number_takes_an_integers_dtype_and_a_fraction_the_default_float),
    test(functions_of_integers_give_the_default_float), test(rows_name_the_dtype_they_do_not_take),
    test(a_condition_must_be_bool))
