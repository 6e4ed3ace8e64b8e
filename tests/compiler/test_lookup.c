/* Rows of a table by index, in the kernel that computes with them: the values of O0, and its errors. */
#include "compiler/levels.h"
#include "graph/calls.h"

static hd_tensor *table(hd_shape shape, hd_dtype dtype) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; ++i) count *= shape.size[i];
    return hd_cast(hd_mod_scalar(hd_reshape(hd_arange(0, (double)count, 1, HD_F32), shape), 61), dtype);
}

/* What follows a lookup in each way that a kernel can: point by point, stretched, reduced, turned, as a concatenation's part,
 * and after it left by itself. */
static void rows_are_those_of_the_device(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I32, HD_U8},
                          indices[] = {HD_I64, HD_I32, HD_U8, HD_U64};
    for (int d = 0; d < 5; ++d)
        for (int axis = 0; axis < 2; ++axis) {
            HD_SCOPE;
            const hd_dtype of_index = indices[(d + axis) % 4];
            hd_builder *b = started("rows");
            hd_tensor *t = hd_input("t", S(7, 9, 24), dtypes[d]), *at = hd_input("at", S(5), of_index);
            hd_tensor *rows = hd_index_select(axis ? hd_transpose(t, 0, 1) : t, axis, at);
            const hd_shape shape = hd_tensor_shape(rows);
            hd_tensor *x = hd_input("x", shape, dtypes[d]), *row = hd_input("row", S(24), dtypes[d]);
            hd_builder_add_output(b, "points", hd_add(hd_add(rows, x), row));
            hd_tensor *second = hd_index_select(t, 1, at); /* of the same table */
            hd_builder_add_output(b, "sum", hd_max(hd_add(second, second), X(2), NULL));
            hd_builder_add_output(b, "second", second);
            hd_tensor *third =
                hd_add(hd_index_select(t, 0, at), hd_index_select(t, 0, hd_add(at, hd_full(S(), 1, of_index))));
            hd_builder_add_output(b, "part", hd_concat(LIST(third, t), 0));
            hd_builder_add_output(b, "turned",
                                  hd_add(hd_transpose(hd_index_select(t, 0, at), 1, 2), hd_full(S(), 1, dtypes[d])));
            hd_script *s = built(b);
            const bool is_signed = of_index == HD_I64 || of_index == HD_I32;
            hd_script_set_input(s, "t", table(S(7, 9, 24), dtypes[d]));
            hd_script_set_input(
                s, "at",
                hd_cast(hd_from_i64_list(S(5), (int64_t[]){3, is_signed ? -1 : 5, 0, 3, is_signed ? -7 : 1}, 5),
                        of_index));
            hd_script_set_input(s, "x", table(shape, dtypes[d]));
            hd_script_set_input(s, "row", table(S(24), dtypes[d]));
            levels_agree(s, 0, "rows of a table");
        }
}

static void an_index_out_of_range_is_the_same_error_at_every_level(void **state) {
    (void)state;
    char expected[256];
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_builder *b = started("range");
        hd_tensor *rows = hd_index_select(hd_input("t", S(7, 32), HD_F32), 0, hd_input("at", S(3), HD_I64));
        hd_builder_add_output(b, "y", hd_neg(rows));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "t", table(S(7, 32), HD_F32));
        hd_script_set_input(s, "at", hd_from_i64_list(S(3), (int64_t[]){6, -7, 7}, 3));
        assert_null(hd_script_run(s));
        const char *message = hd_error_message();
        assert_non_null(strstr(message, "index 7 at place 2 of [3] is out of range for an axis of size 7"));
        if (level == HD_O0) snprintf(expected, sizeof expected, "%s", message);
        assert_string_equal(message, expected);
        hd_error_clear();
        hd_script_set_input(s, "at", hd_from_i64_list(S(3), (int64_t[]){6, -7, 0}, 3));
        hd_tensor *y = output(s, "y");
        assert_ok();
        assert_true(hd_data_f32(y)[0] == -(6 * 32 % 61) && hd_data_f32(y)[32 + 1] == -1);
    }
}

/* A kernel must not write state over rows that it has still to look up. */
static void state_can_be_made_of_its_own_rows(void **state) {
    (void)state;
    for (int level = HD_O0; level <= HD_O2; ++level) {
        HD_SCOPE;
        hd_tensor *t = hd_copy(table(S(6, 16), HD_F32));
        hd_builder *b = started("shuffle");
        hd_builder_add_state(b, "t", t);
        hd_assign(t, hd_add_scalar(hd_index_select(t, 0, hd_input("at", S(6), HD_I64)), 1));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)level);
        hd_script_set_input(s, "at", hd_from_i64_list(S(6), (int64_t[]){5, 4, 3, 2, 1, 0}, 6));
        hd_script_run(s);
        assert_ok();
        for (int i = 0; i < 6; ++i) assert_true(hd_data_f32(t)[i * 16 + 2] == (float)(((5 - i) * 16 + 2) % 61) + 1);
    }
}

/* Indices that are one number are never in memory but where a call reads them. */
static void indices_can_be_a_number(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("number");
    hd_tensor *x = hd_input("x", S(4, 16), HD_F32), *at = hd_full(S(4, 1), 2, HD_I64);
    hd_builder_add_output(b, "picked", hd_gather(hd_sub(x, hd_max(x, X(1), KEEP)), 1, at));
    hd_builder_add_output(
        b, "spread",
        hd_neg(hd_scatter(hd_zeros(S(4, 16), HD_F32), 1, at, hd_full(S(4, 1), 5, HD_F32), HD_SCATTER_SET)));
    hd_builder_add_output(b, "rows", hd_neg(hd_index_select(x, 0, hd_full(S(3), -1, HD_I64))));
    hd_tensor *same = hd_index_select(hd_full(S(9, 16), 3, HD_F32), 0, hd_input("at", S(2), HD_I64));
    hd_builder_add_output(b, "same", hd_neg(same)); /* and so can a table */
    hd_script *s = built(b);
    hd_script_set_input(s, "at", hd_from_i64_list(S(2), (int64_t[]){8, 0}, 2));
    hd_script_set_input(s, "x", table(S(4, 16), HD_F32));
    levels_agree(s, 0, "an index that is a number");
}

static void a_large_table_is_not_read_as_a_whole(void **state) {
    (void)state;
    HD_SCOPE;
    hd_builder *b = started("embedding");
    hd_tensor *rows = hd_index_select(hd_input("t", S(5000, 64), HD_F32), 0, hd_input("at", S(8), HD_I64));
    hd_builder_add_output(b, "y", hd_mul_scalar(rows, 8));
    hd_script *s = built(b);
    hd_script_set_input(s, "t", table(S(5000, 64), HD_F32));
    hd_script_set_input(s, "at", hd_mod_scalar(hd_arange(0, 8 * 777, 777, HD_I64), 5000));
    hd_script_compile(s);
    assert_ok();
    const hd_script_figures f = hd_script_stats(s);
    assert_int_equal(f.launches, 2); /* looking at the indices, and the kernel */
    assert_int_equal(f.arena_bytes, 0);
    assert_in_range((int64_t)f.bytes_moved, 1, 2 * 8 * 64 * 4 + 256);
    levels_agree(s, 0, "an embedding");
}

RUN(test(rows_are_those_of_the_device), test(an_index_out_of_range_is_the_same_error_at_every_level),
    test(state_can_be_made_of_its_own_rows), test(indices_can_be_a_number), test(a_large_table_is_not_read_as_a_whole))
