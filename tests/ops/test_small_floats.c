/* f16, bf16 and the two f8 formats: src/core/small_float.h and the kernels that use it against the formats' definition,
 * exhaustively; and every row in them: computed in f32 and rounded once. */
#include "golden/rows.h"
#include "golden/small_formats.h"

#include "core/small_float.h"

static float decode(hd_dtype d, uint32_t bits) {
    if (d == HD_F8E4M3) return hd_f8e4m3_decode((uint8_t)bits);
    if (d == HD_F8E5M2) return hd_f8e5m2_decode((uint8_t)bits);
    return d == HD_BF16 ? hd_bf16_decode((uint16_t)bits) : hd_f16_decode((uint16_t)bits);
}
static uint32_t encode(hd_dtype d, float v) {
    if (d == HD_F8E4M3) return hd_f8e4m3_encode(v);
    if (d == HD_F8E5M2) return hd_f8e5m2_encode(v);
    return d == HD_BF16 ? hd_bf16_encode(v) : hd_f16_encode(v);
}
static uint32_t pattern_at(const void *data, int64_t i, hd_dtype d) {
    return hd_dtype_size(d) == 1 ? ((const uint8_t *)data)[i] : ((const uint16_t *)data)[i];
}

static void every_pattern_decodes(void **state) {
    (void)state;
    for (int k = 0; k < SMALL_FORMATS; ++k) {
        HD_SCOPE;
        const small_format *f = &small_formats[k];
        const uint32_t count = 2 * small_sign(f);
        static uint16_t patterns[65536];
        for (uint32_t p = 0; p < count; ++p) {
            if (hd_dtype_size(f->dtype) == 1)
                ((uint8_t *)patterns)[p] = (uint8_t)p;
            else
                patterns[p] = (uint16_t)p;
        }
        const float *cast = hd_data_f32(hd_cast(hd_from_data(patterns, HD_SHAPE(count), f->dtype), HD_F32));
        for (uint32_t p = 0; p < count; ++p) {
            const long double want = small_value(f, p);
            const float got = decode(f->dtype, p);
            const bool nan = isnan(want) && isnan(got) && isnan(cast[p]);
            if (!nan && (got != want || cast[p] != got || !signbit(got) != !signbit(want) ||
                         !signbit(cast[p]) != !signbit(want)))
                fail_msg("%s 0x%x is %Lg, not %g (cast: %g)", hd_dtype_name(f->dtype), p, want, (double)got,
                         (double)cast[p]);
        }
    }
}

static void expect_encoding(const small_format *f, float v, uint32_t want) {
    for (int sign = 0; sign < 2; ++sign) {
        const uint32_t got = encode(f->dtype, sign ? -v : v), signed_want = want | (sign ? small_sign(f) : 0);
        if (got != signed_want)
            fail_msg("%a in %s is 0x%x, not 0x%x", (double)(sign ? -v : v), hd_dtype_name(f->dtype), got, signed_want);
    }
}

static void midpoints_round_to_even_and_neighbours_to_the_nearest(void **state) {
    (void)state;
    for (int k = 0; k < SMALL_FORMATS; ++k) {
        const small_format *f = &small_formats[k];
        for (uint32_t p = 0; p < f->beyond; ++p) {
            const long double low = small_magnitude(f, p), high = small_magnitude(f, p + 1);
            const float middle = (float)((low + high) / 2); /* exact: f32 has more bits */
            expect_encoding(f, (float)low, p);
            expect_encoding(f, middle, p % 2 == 0 ? p : p + 1);
            expect_encoding(f, nextafterf(middle, 0), p);
            expect_encoding(f, nextafterf(middle, INFINITY), p + 1);
            expect_encoding(f, nextafterf((float)low, INFINITY), p);
        }
        expect_encoding(f, INFINITY, f->beyond);
        expect_encoding(f, 0x1.fffffep127f, f->beyond);
        assert_true(small_is_nan(f, encode(f->dtype, NAN)));
        assert_true(small_is_nan(f, encode(f->dtype, -NAN)));
        assert_true(small_is_nan(f, encode(f->dtype, hd_f32_from_bits(0x7f800001u)))); /* its upper bits say infinity */
    }
}

static void kernels_encode_as_the_header(void **state) {
    (void)state;
    enum { COUNT = 1 << 17 };
    dice d = roll_from("kernels_encode_as_the_header", 5);
    static float values[COUNT];
    for (int i = 0; i < COUNT; ++i) values[i] = hd_f32_from_bits((uint32_t)roll(&d));
    for (int k = 0; k < SMALL_FORMATS; ++k) {
        HD_SCOPE;
        const small_format *f = &small_formats[k];
        const void *got = hd_data(hd_cast(hd_from_data(values, HD_SHAPE(COUNT), HD_F32), f->dtype), f->dtype);
        for (int i = 0; i < COUNT; ++i) {
            const uint32_t want = encode(f->dtype, values[i]);
            if (!isnan(values[i])) assert_int_equal(want, small_nearest(f, (long double)values[i]));
            if (pattern_at(got, i, f->dtype) != want)
                fail_msg("%a cast to %s is 0x%x, not 0x%x", (double)values[i], hd_dtype_name(f->dtype),
                         pattern_at(got, i, f->dtype), want);
        }
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static void check_row(int id, const small_format *f, dice *d) {
    HD_SCOPE;
    enum { COUNT = 700 };
    const hd_row *row = &hd_rows[id];
    hd_tensor *small[3] = {NULL}, *wide[3] = {NULL};
    for (int k = 0; k < row->operands; ++k) {
        uint16_t data[COUNT];
        for (int i = 0; i < COUNT; ++i) data[i] = (uint16_t)roll(d);
        if (k == 0 && row->chooses) {
            small[k] = wide[k] = hd_gt_scalar(hd_from_data(data, HD_SHAPE(COUNT), HD_U8), 100);
            continue;
        }
        small[k] = hd_from_data(data, HD_SHAPE(COUNT), f->dtype);
        wide[k] = hd_cast(small[k], HD_F32);
    }
    hd_tensor *got = row_calls[id](small, row_numbers(id)), *in_f32 = row_calls[id](wide, row_numbers(id));
    assert_ok();
    const hd_dtype gives = row->gives_bool ? HD_BOOL : f->dtype;
    assert_int_equal(hd_tensor_dtype(got), gives);
    const void *bits = hd_data(got, gives), *want_bits = hd_data(hd_cast(in_f32, gives), gives);
    const float *value = row->gives_bool ? NULL : hd_data_f32(in_f32);
    for (int i = 0; i < COUNT; ++i) {
        const uint32_t is = pattern_at(bits, i, gives), want = pattern_at(want_bits, i, gives);
        const bool nan = value != NULL && isnan(value[i]);
        if (nan ? !small_is_nan(f, is) : is != want)
            fail_msg("%s of %s: element %d is 0x%x, not 0x%x", row_name(id), hd_dtype_name(f->dtype), i, is, want);
        if (value != NULL && !nan && want != small_nearest(f, (long double)value[i]))
            fail_msg("%s of %s: %a was not rounded once", row_name(id), hd_dtype_name(f->dtype), (double)value[i]);
    }
}

static void rows_compute_in_f32_and_round_once(void **state) {
    (void)state;
    dice d = roll_from("rows_compute_in_f32_and_round_once", 6);
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)
        if (hd_ops[id].types != HD_TYPES_INTS)
            for (int k = 0; k < SMALL_FORMATS; ++k)
                if (when_compiled((uint64_t)(id * SMALL_FORMATS + k), 5)) check_row(id, &small_formats[k], &d);
}

RUN(test(every_pattern_decodes), test(midpoints_round_to_even_and_neighbours_to_the_nearest),
    test(kernels_encode_as_the_header), test(rows_compute_in_f32_and_round_once))
