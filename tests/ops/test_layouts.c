/* Every row on every layout: transposed, stepped, reversed, broadcast, rank 0 and empty operands give, element by
 * element, what contiguous ones give. */
#include "golden/rows.h"

enum { LAYOUTS = 6, MOST = 132 * 140 };
static const char *const layout_name[LAYOUTS] = {
    "contiguous", "transposed", "stepped", "reversed", "reversed and transposed", "offset"};

/* The same values in another layout. */
static hd_tensor *laid_out(hd_tensor *x, int layout) {
    switch (layout) {
    case 1: return hd_t(hd_contiguous(hd_t(x)));
    case 2: return hd_slice(hd_repeat_interleave(x, 3, 1), 1, 1, HD_END, 3);
    case 3: return hd_slice(hd_contiguous(hd_slice(x, 1, HD_END, HD_END, -1)), 1, HD_END, HD_END, -1);
    case 4: {
        hd_tensor *turned = hd_contiguous(hd_t(hd_slice(x, 0, HD_END, HD_END, -1)));
        return hd_slice(hd_t(turned), 0, HD_END, HD_END, -1);
    }
    case 5: { /* inside a larger tensor */
        const hd_padding around[2] = {{1, 2}, {3, 1}};
        return hd_narrow(hd_narrow(hd_pad(x, around, 2, 1), 0, 1, hd_tensor_size(x, 0)), 1, 3, hd_tensor_size(x, 1));
    }
    default: return x;
    }
}

/* Values every row takes: no zero divisors or negative exponents among integers. */
static hd_tensor *values(dice *d, hd_shape shape, hd_dtype dtype, int operand) {
    static double data[MOST];
    const int64_t count = hd_shape_count(shape);
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; ++i) {
        if (hd_dtype_is_float(dtype))
            data[i] = 6 * roll_unit(d) - 3;
        else
            data[i] = operand == 1 ? 1 + (double)(roll(d) % 7) : (double)(roll(d) % 100);
    }
    return hd_cast(hd_from_data(data, shape, HD_F64), dtype);
}

static bool takes(int id, hd_dtype dtype) { return hd_op_takes(&hd_ops[id], dtype); }

static void operands(int id, dice *d, hd_shape shape, hd_dtype dtype, hd_tensor *out[3]) {
    for (int k = 0; k < hd_rows[id].operands; ++k)
        out[k] = values(d, shape, k == 0 && hd_rows[id].chooses ? HD_BOOL : dtype, k);
}

/* Equal bit for bit, NaN to NaN. */
static void expect_equal(int id, hd_tensor *got, hd_tensor *want, const char *how) {
    static double a[MOST], b[MOST];
    assert_ok();
    assert_int_equal(hd_tensor_dtype(got), hd_tensor_dtype(want));
    assert_true(hd_shape_equal(hd_tensor_shape(got), hd_tensor_shape(want)));
    assert_true(hd_to_array(got, a, HD_F64, MOST) && hd_to_array(want, b, HD_F64, MOST));
    for (int64_t i = 0; i < hd_tensor_count(want); ++i)
        if (!(isnan(a[i]) && isnan(b[i])) && memcmp(&a[i], &b[i], sizeof a[i]) != 0)
            fail_msg("%s of %s, %s: element %lld is %.17g, but %.17g when contiguous", row_name(id),
                     hd_dtype_name(hd_tensor_dtype(want)), how, (long long)i, a[i], b[i]);
}

static const hd_dtype kinds[] = {HD_F32, HD_F64, HD_BF16, HD_I32, HD_U8, HD_BOOL};
static bool is_tested(int id, size_t kind) { return when_compiled((uint64_t)id * 5 + kind, 16); }
#define FOR_ROWS_AND_KINDS(id, dtype)                                                                                  \
    for (int id = 0; id < HD_OP_ELEMENTWISE_COUNT; ++id)                                                               \
        for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; ++kind)                                           \
            for (hd_dtype dtype = kinds[kind], once = 1; once && takes(id, dtype) && is_tested(id, kind); once = 0)

static void strided_operands(void **state) {
    (void)state;
    dice d = roll_from("strided_operands", 11);
    const hd_shape shapes[] = {HD_SHAPE(7, 5), HD_SHAPE(3, 70),
                               HD_SHAPE(132, 140)}; /* tiles across, within rows; blocks */
    FOR_ROWS_AND_KINDS(id, dtype)
    for (int s = 0; s < (kind == 0 ? 3 : 2); ++s) {
        HD_SCOPE;
        hd_tensor *x[3] = {NULL}, *y[3] = {NULL};
        operands(id, &d, shapes[s], dtype, x);
        hd_tensor *want = row_calls[id](x, row_numbers(id));
        for (int layout = 1; layout < LAYOUTS; ++layout)
            for (int mix = 0; mix < hd_rows[id].operands; ++mix) { /* all alike, or each its own */
                for (int k = 0; k < hd_rows[id].operands; ++k) y[k] = laid_out(x[k], (layout + mix * k) % LAYOUTS);
                expect_equal(id, row_calls[id](y, row_numbers(id)), want, layout_name[layout]);
            }
    }
}

static void broadcast_operands(void **state) {
    (void)state;
    dice d = roll_from("broadcast_operands", 12);
    FOR_ROWS_AND_KINDS(id, dtype) {
        if (hd_rows[id].operands < 2) continue;
        for (int m = 5; m <= 75; m += 70) {
            HD_SCOPE;
            const hd_shape full = HD_SHAPE(4, 6, m);
            const hd_shape stretched[4] = {HD_SHAPE(6, 1), HD_SHAPE(1, m), HD_SHAPE(4, 1, 1), HD_SHAPE()};
            for (int turn = 0; turn < 4; ++turn) {
                hd_tensor *x[3] = {NULL}, *y[3] = {NULL};
                for (int k = 0; k < hd_rows[id].operands; ++k) {
                    const bool whole = k == hd_rows[id].operands - 1 && turn % 2 == 1;
                    x[k] = values(&d, whole ? full : stretched[(turn + k) % 4],
                                  k == 0 && hd_rows[id].chooses ? HD_BOOL : dtype, k);
                    y[k] = hd_contiguous(hd_broadcast_to(x[k], full));
                }
                hd_tensor *got = row_calls[id](x, row_numbers(id));
                expect_equal(id, hd_broadcast_to(got, full), row_calls[id](y, row_numbers(id)), "broadcast");
            }
        }
    }
}

static void rank_zero_operands(void **state) {
    (void)state;
    dice d = roll_from("rank_zero_operands", 13);
    FOR_ROWS_AND_KINDS(id, dtype) {
        HD_SCOPE;
        hd_tensor *x[3] = {NULL}, *y[3] = {NULL};
        operands(id, &d, HD_SHAPE(3, 9), dtype, x);
        hd_tensor *all = row_calls[id](x, row_numbers(id));
        for (int k = 0; k < hd_rows[id].operands; ++k) y[k] = hd_select(hd_select(x[k], 0, 1), 0, 4);
        hd_tensor *one = row_calls[id](y, row_numbers(id));
        assert_ok();
        assert_int_equal(hd_tensor_rank(one), 0);
        expect_equal(id, one, hd_select(hd_select(all, 0, 1), 0, 4), "rank 0");
    }
}

static void empty_operands(void **state) {
    (void)state;
    dice d = roll_from("empty_operands", 14);
    FOR_ROWS_AND_KINDS(id, dtype) {
        HD_SCOPE;
        hd_tensor *x[3] = {NULL};
        operands(id, &d, HD_SHAPE(3, 0, 2), dtype, x);
        hd_tensor *none = row_calls[id](x, row_numbers(id));
        assert_ok();
        assert_true(hd_shape_equal(hd_tensor_shape(none), HD_SHAPE(3, 0, 2)));
        if (hd_rows[id].operands == 1) continue;
        x[0] = values(&d, HD_SHAPE(1, 2), hd_rows[id].chooses ? HD_BOOL : dtype, 0); /* stretched over nothing */
        none = row_calls[id](x, row_numbers(id));
        assert_ok();
        assert_true(hd_shape_equal(hd_tensor_shape(none), HD_SHAPE(3, 0, 2)));
    }
}

RUN(test(strided_operands), test(broadcast_operands), test(rank_zero_operands), test(empty_operands))
