/* Rows of a table by index, in the kernel that computes with them: the values of O0, and its errors. */
#include "machine/machines.h"
#include "codegen/code.h"
#include "compiler/levels.h"
#include "graph/calls.h"

static hd_tensor *table(hd_shape shape, hd_dtype dtype) {
    int64_t count = 1;
    for (int i = 0; i < shape.rank; ++i) count *= shape.size[i];
    return hd_cast(hd_mod_scalar(hd_reshape(hd_arange(0, (double)count, 1, HD_F32), shape), 61), dtype);
}

/* What follows a lookup in each way that a kernel can: point by point, stretched, reduced, turned, as a concatenation's
 * part, and after it left by itself. */
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
                hd_add(hd_index_select(t, 0, at), hd_index_select(t, 0, hd_add(at, hd_full(S(), of_index, 1))));
            hd_builder_add_output(b, "part", hd_concat(LIST(third, t), 0));
            hd_builder_add_output(b, "turned",
                                  hd_add(hd_transpose(hd_index_select(t, 0, at), 1, 2), hd_full(S(), dtypes[d], 1)));
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

/* ---- single elements --------------------------------------------------------------------------------------------- */
typedef struct element_case {
    const char *name;
    hd_shape table, index;
    int axis;
    bool selects, gathers; /* hd_index_select, not hd_take_along_axis; every lane has a place of its own */
    int64_t launches;      /* looking at the indices, and the kernel */
} element_case;

static void elements_are_those_of_the_device(const element_case *c, hd_dtype dtype, hd_dtype of_index) {
    HD_SCOPE;
    const bool is_signed = of_index == HD_I64 || of_index == HD_I32;
    hd_builder *b = started("elements");
    hd_tensor *t = hd_input("t", c->table, dtype), *at = hd_input("at", c->index, of_index);
    hd_tensor *found = c->selects ? hd_index_select(t, c->axis, at) : hd_take_along_axis(t, c->axis, at);
    hd_builder_add_output(b, "y", hd_minimum(found, hd_full(S(), dtype, 7)));
    hd_script *s = built(b);
    int64_t *places = malloc((size_t)(hd_shape_count(c->index) + 1) * sizeof *places);
    const int64_t bound = c->table.size[c->axis];
    for (int64_t i = 0; i < hd_shape_count(c->index); ++i)
        places[i] = (i * 5 + i / 7) % bound - (is_signed && i % 3 == 1 ? bound : 0);
    hd_script_set_input(s, "t", table(c->table, dtype));
    hd_script_set_input(s, "at",
                        hd_cast(hd_from_i64_list(c->index, places, (size_t)hd_shape_count(c->index)), of_index));
    free(places);
    levels_agree(s, 0, c->name);
    if (c->gathers && !c->selects && !hd_target_gathers(&hd_cpu_machine()->target, (int)hd_dtype_size(dtype))) return;
    if (c->launches > 0 && hd_script_stats(s).launches != c->launches)
        fail_msg("%s of %s takes %lld launches", c->name, hd_dtype_name(dtype), (long long)hd_script_stats(s).launches);
}

static void single_elements_are_those_of_the_device(void **state) {
    (void)state;
    const element_case cases[] = {
        {"of a vector", S(100), S(331), 0, true, true, 2},
        {"of a vector, few", S(100), S(3), 0, true, true, 0},
        {"none", S(100), S(0), 0, true, true, 0},
        {"of rows", S(7, 50), S(33), 1, true, true, 2},
        {"along rows", S(7, 50), S(7, 35), 1, false, true, 2},
        {"along columns", S(40, 67), S(9, 67), 0, false, true, 2},
        {"along a middle axis", S(3, 11, 20), S(3, 5, 20), 1, false, true, 2},
        {"one for each row", S(70, 12), S(70, 1), 1, false, true, 2},
        {"whole rows", S(40, 130), S(70, 1), 0, false, false, 2},
        {"a table that is stretched", S(1, 60), S(5, 33), 1, false, true, 2},
        {"short rows", S(40, 3), S(9, 3), 0, false, true, 0},
        {"many", S(300, 211), S(300, 211), 1, false, true, 2},
    };
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_I32, HD_U8},
                          indices[] = {HD_I64, HD_I32, HD_U8, HD_U64};
    for (int threads = 1; threads <= 2; ++threads) {
        hd_set_num_threads(threads);
        for (int i = 0; i < 12; ++i)
            for (int d = 0; d < 5; ++d) {
                const bool is_large = cases[i].table.size[cases[i].axis] > 255;
                const hd_dtype of_index = indices[(i + d) % 4];
                elements_are_those_of_the_device(&cases[i], dtypes[d], is_large ? HD_I64 : of_index);
            }
    }
    setenv("HODU_RENDERER", "c", 1);
    for (int i = 0; i < 12; ++i) elements_are_those_of_the_device(&cases[i], dtypes[i % 5], HD_I64);
    unsetenv("HODU_RENDERER");
}

/* The first one that is wrong is named, as without a kernel; and nothing beside the table is read. */
static void a_wrong_element_is_the_same_error_at_every_level(void **state) {
    (void)state;
    static const hd_dtype indices[] = {HD_I64, HD_I32, HD_I16};
    for (int d = 0; d < 3; ++d) {
        char expected[256];
        for (int level = HD_O0; level <= HD_O2; ++level) {
            HD_SCOPE;
            hd_builder *b = started("range");
            hd_tensor *found = hd_gather(hd_input("t", S(4, 32), HD_F32), 1, hd_input("at", S(4, 32), indices[d]));
            hd_builder_add_output(b, "y", hd_neg(found));
            hd_script *s = built(b);
            hd_script_set_optimization_level(s, (hd_optimization_level)level);
            hd_script_set_input(s, "t", table(S(4, 32), HD_F32));
            hd_tensor *good = hd_reshape(hd_sub_scalar(hd_mod_scalar(hd_arange(0, 128, 1, HD_I64), 64), 32), S(4, 32));
            hd_tensor *bad = hd_where(hd_eq_scalar(hd_reshape(hd_arange(0, 128, 1, HD_I64), S(4, 32)), 70),
                                      hd_full(S(), HD_I64, -33), good);
            hd_script_set_input(s, "at", hd_cast(bad, indices[d]));
            assert_null(hd_script_run(s));
            const char *message = hd_error_message();
            assert_non_null(strstr(message, "index -33 at place 70 of [4,32] is out of range for an axis of size 32"));
            if (level == HD_O0) snprintf(expected, sizeof expected, "%s", message);
            assert_string_equal(message, expected);
            hd_error_clear();
            hd_script_set_input(s, "at", hd_cast(good, indices[d]));
            assert_non_null(output(s, "y"));
            assert_ok();
        }
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
    hd_tensor *x = hd_input("x", S(4, 16), HD_F32), *at = hd_full(S(4, 1), HD_I64, 2);
    hd_builder_add_output(b, "picked", hd_gather(hd_sub(x, hd_max(x, X(1), KEEP)), 1, at));
    hd_builder_add_output(
        b, "spread",
        hd_neg(hd_scatter(hd_zeros(S(4, 16), HD_F32), 1, at, hd_full(S(4, 1), HD_F32, 5), HD_SCATTER_SET)));
    hd_builder_add_output(b, "rows", hd_neg(hd_index_select(x, 0, hd_full(S(3), HD_I64, -1))));
    hd_tensor *same = hd_index_select(hd_full(S(9, 16), HD_F32, 3), 0, hd_input("at", S(2), HD_I64));
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

RUN(test(rows_are_those_of_the_device), test(single_elements_are_those_of_the_device),
    test(a_wrong_element_is_the_same_error_at_every_level),
    test(an_index_out_of_range_is_the_same_error_at_every_level), test(state_can_be_made_of_its_own_rows),
    test(indices_can_be_a_number), test(a_large_table_is_not_read_as_a_whole))
