/* Parts of state are written in place: only they move, and a run that fails leaves all as it was. */
#include "builders.h"

/* cache [64,8] <- with row 5 replaced by x, and rows 8 and 9 by 2 x; y = the sum of each row of the new cache. */
static hd_script *writes_rows(hd_tensor *cache, bool then_index) {
    hd_builder *b = started("rows");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *x = hd_input("x", HD_SHAPE(1, 8), HD_F32);
    hd_tensor *old = hd_sum(hd_narrow(cache, 0, 5, 1), HD_AXES(), NULL);
    hd_assign(hd_narrow(cache, 0, 5, 1), x);
    hd_assign(hd_narrow(cache, 0, 8, 2), hd_mul_scalar(x, 2));
    hd_tensor *y = hd_sum(cache, HD_AXES(1), NULL);
    if (then_index) y = hd_gather(y, 0, hd_input("i", HD_SHAPE(3), HD_I64)); /* which can fail, after the writes */
    hd_builder_add_output(b, "y", y);
    hd_builder_add_output(b, "old", old);
    return built(b);
}

static hd_tensor *numbers(void) { return hd_reshape(hd_arange(0, 64 * 8, 1, HD_F32), HD_SHAPE(64, 8)); }

static void rows_are_written_and_nothing_else(void **state) {
    (void)state;
    for (int level = 0; level < 3; ++level) {
        HD_SCOPE;
        hd_tensor *cache = hd_copy(numbers()), *expected = hd_copy(numbers());
        hd_script *s = writes_rows(cache, false);
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        for (int step = 1; step < 4; ++step) {
            HD_SCOPE;
            hd_tensor *x = hd_full(HD_SHAPE(1, 8), HD_F32, step);
            hd_script_set_input(s, "x", x);
            hd_outputs *o = hd_script_run(s);
            assert_ok();
            assert_true(hd_item(hd_outputs_get(o, "old")) == (step == 1 ? 348 : 8 * (step - 1)));
            hd_assign(hd_narrow(expected, 0, 5, 1), x);
            hd_assign(hd_narrow(expected, 0, 8, 2), hd_mul_scalar(x, 2));
            assert_true(hd_allclose(cache, expected, NULL));
            assert_true(hd_allclose(hd_outputs_get(o, "y"), hd_sum(expected, HD_AXES(1), NULL), NULL));
        }
    }
    assert_ok();
}

static void large_state_is_not_copied(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_zeros(HD_SHAPE(4096, 1024), HD_F32);
    hd_builder *b = started("large");
    hd_builder_add_state(b, "cache", cache);
    hd_assign(hd_narrow(cache, 0, 7, 1), hd_input("x", HD_SHAPE(1, 1024), HD_F32));
    hd_script *s = built(b);
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1, 1024), HD_F32));
    hd_script_compile(s);
    const void *before = hd_data_f32(cache);
    hd_script_run(s);
    assert_ptr_equal(hd_data_f32(cache), before);
    assert_true(hd_data_f32(cache)[7 * 1024] == 1 && hd_data_f32(cache)[8 * 1024] == 0);
    assert_in_range(hd_script_stats(s).arena_bytes, 0, 8192);
    assert_ok();
}

static void a_run_that_fails_puts_them_back(void **state) {
    (void)state;
    for (int level = 0; level < 3; ++level) {
        HD_SCOPE;
        hd_tensor *cache = hd_copy(numbers());
        hd_script *s = writes_rows(cache, true);
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1, 8), HD_F32));
        hd_script_set_input(s, "i", hd_from_i64_list(HD_SHAPE(3), (int64_t[]){0, 64, 1}, 3));
        assert_null(hd_script_run(s));
        assert_false(hd_ok());
        hd_error_clear();
        assert_true(hd_allclose(cache, numbers(), NULL));
        hd_script_set_input(s, "i", hd_from_i64_list(HD_SHAPE(3), (int64_t[]){0, 5, 8}, 3));
        hd_outputs *o = hd_script_run(s);
        assert_ok();
        const float *y = hd_data_f32(hd_outputs_get(o, "y"));
        assert_true(y[0] == 28 && y[1] == 8 && y[2] == 16);
    }
}

static void looking_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_copy(numbers());
    hd_script *s = writes_rows(cache, false);
    hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1, 8), HD_F32));
    assert_true(hd_script_check(s).largest_difference == 0);
    assert_true(hd_allclose(cache, numbers(), NULL));
    assert_ok();
}

/* A snapshot of the state, and an input that is the state itself, are what they were when the run began. */
static void others_see_the_old_value(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *cache = hd_copy(numbers());
    hd_builder *b = started("alias");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *x = hd_input("x", HD_SHAPE(64, 8), HD_F32);
    hd_assign(hd_narrow(cache, 0, 5, 1), hd_zeros(HD_SHAPE(1, 8), HD_F32));
    hd_builder_add_output(b, "y", hd_add(x, cache));
    hd_script *s = built(b);
    hd_tensor *snapshot = hd_copy(cache);
    hd_script_set_input(s, "x", cache);
    hd_outputs *o = hd_script_run(s);
    assert_ok();
    assert_true(hd_data_f32(snapshot)[40] == 40 && hd_data_f32(cache)[40] == 0);
    assert_true(hd_data_f32(hd_outputs_get(o, "y"))[40] == 40 && hd_data_f32(hd_outputs_get(o, "y"))[48] == 96);
}

/* ---- at indices -------------------------------------------------------------------------------------------------- */
/* cache [64,4,2] <- with rows replaced by x, or added to, at places that an input says; y = the rows at `read`, which
 * can fail after the writes; old = the sum of row 5 before. */
static hd_script *writes_rows_at(hd_tensor *cache, int64_t rows, hd_scatter_mode mode) {
    hd_builder *b = started("rows at");
    hd_builder_add_state(b, "cache", cache);
    hd_tensor *x = hd_input("x", HD_SHAPE(rows, 4, 2), hd_tensor_dtype(cache));
    hd_tensor *at = hd_reshape(hd_input("at", HD_SHAPE(rows), HD_I64), HD_SHAPE(rows, 1, 1));
    hd_tensor *old = hd_sum(hd_cast(hd_narrow(cache, 0, 5, 1), HD_F32), HD_AXES(), NULL);
    hd_assign(cache, hd_scatter(cache, 0, hd_broadcast_to(at, HD_SHAPE(rows, 4, 2)), x, mode));
    hd_builder_add_output(b, "y", hd_index_select(cache, 0, hd_input("read", HD_SHAPE(3), HD_I64)));
    hd_builder_add_output(b, "old", old);
    return built(b);
}

static hd_tensor *small_numbers(hd_dtype dtype) {
    return hd_cast(hd_reshape(hd_mod_scalar(hd_arange(0, 64 * 8, 1, HD_F32), 50), HD_SHAPE(64, 4, 2)), dtype);
}
static hd_tensor *indices(int64_t a, int64_t b, int64_t c) {
    return hd_from_i64_list(HD_SHAPE(3), (int64_t[]){a, b, c}, 3);
}
static bool same_bits(hd_tensor *a, hd_tensor *b) {
    const int64_t count = hd_tensor_count(a);
    bool same = count == hd_tensor_count(b);
    HD_SCOPE;
    const double *x = hd_data_f64(hd_cast(a, HD_F64)), *y = hd_data_f64(hd_cast(b, HD_F64));
    for (int64_t i = 0; i < count && same; ++i) same = memcmp(&x[i], &y[i], 8) == 0;
    return same;
}

static void rows_at_indices_are_what_a_scatter_gives(void **state) {
    (void)state;
    static const hd_dtype dtypes[] = {HD_F32, HD_F64, HD_BF16, HD_F16, HD_I32, HD_U8};
    for (int level = 0; level < 3; ++level)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; ++d)
            for (int mode = HD_SCATTER_SET; mode <= HD_SCATTER_MIN; ++mode) {
                HD_SCOPE;
                hd_tensor *cache = hd_copy(small_numbers(dtypes[d])), *expected = hd_copy(cache);
                hd_script *s = writes_rows_at(cache, 3, (hd_scatter_mode)mode);
                hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
                for (int step = 1; step < 4; ++step) {
                    HD_SCOPE;
                    hd_tensor *x = hd_narrow(small_numbers(dtypes[d]), 0, step, 3);
                    hd_tensor *at = indices(step, -2, step == 2 ? 2 : 5); /* in step 2 the first and the last are one */
                    hd_script_set_input(s, "x", x);
                    hd_script_set_input(s, "at", at);
                    hd_script_set_input(s, "read", indices(0, -1, 62));
                    hd_outputs *o = hd_script_run(s);
                    assert_ok();
                    hd_tensor *old = hd_sum(hd_cast(hd_narrow(expected, 0, 5, 1), HD_F32), HD_AXES(), NULL);
                    assert_true(same_bits(hd_outputs_get(o, "old"), old));
                    hd_tensor *wide = hd_broadcast_to(hd_reshape(at, HD_SHAPE(3, 1, 1)), HD_SHAPE(3, 4, 2));
                    hd_assign(expected, hd_scatter(expected, 0, wide, x, (hd_scatter_mode)mode));
                    assert_true(same_bits(cache, expected));
                    assert_true(same_bits(hd_outputs_get(o, "y"), hd_index_select(expected, 0, indices(0, -1, 62))));
                }
            }
    assert_ok();
}

static void a_row_of_a_large_cache_costs_a_row(void **state) {
    (void)state;
    not_on_a_device("it counts the launches of the CPU, which writes rows in place");
    for (int level = 1; level < 3; ++level) {
        HD_SCOPE;
        hd_tensor *cache = hd_zeros(HD_SHAPE(4096, 32, 128), HD_F32);
        hd_builder *b = started("cache");
        hd_builder_add_state(b, "cache", cache);
        hd_tensor *row = hd_input("x", HD_SHAPE(1, 32, 128), HD_F32), *at = hd_input("at", HD_SHAPE(1, 1, 1), HD_I64);
        hd_assign(cache, hd_scatter(cache, 0, hd_broadcast_to(at, HD_SHAPE(1, 32, 128)), row, HD_SCATTER_SET));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        hd_script_set_input(s, "x", hd_ones(HD_SHAPE(1, 32, 128), HD_F32));
        hd_script_set_input(s, "at", hd_full(HD_SHAPE(1, 1, 1), HD_I64, 7));
        hd_script_compile(s);
        const void *before = hd_data_f32(cache);
        hd_script_run(s);
        assert_ok();
        assert_ptr_equal(hd_data_f32(cache), before);
        assert_true(hd_data_f32(cache)[7 * 4096] == 1 && hd_data_f32(cache)[8 * 4096] == 0);
        const hd_script_figures f = hd_script_stats(s);
        assert_int_equal(f.launches, 2); /* what was there is kept, the row is written */
        assert_in_range((int64_t)f.bytes_moved, 1, 4 * 4096 * 4 + 64);
        assert_in_range(f.arena_bytes, 1, 2 * 4096 * 4);
    }
}

static void rows_at_indices_are_put_back_when_a_run_fails(void **state) {
    (void)state;
    for (int level = 0; level < 3; ++level)
        for (int which = 0; which < 2; ++which) {
            HD_SCOPE;
            hd_tensor *cache = hd_copy(small_numbers(HD_F32));
            hd_script *s = writes_rows_at(cache, 3, which ? HD_SCATTER_ADD : HD_SCATTER_SET);
            hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
            hd_script_set_input(s, "x", hd_ones(HD_SHAPE(3, 4, 2), HD_F32));
            hd_script_set_input(s, "at", indices(9, 5, 9));
            hd_script_set_input(s, "read", indices(0, 64, 0));
            assert_null(hd_script_run(s)); /* after they were written */
            assert_non_null(
                strstr(hd_error_message(), "index 64 at place 1 of [3] is out of range for an axis of size 64"));
            hd_error_clear();
            assert_true(same_bits(cache, small_numbers(HD_F32)));
            hd_script_set_input(s, "at", indices(9, 5, -65));
            assert_null(hd_script_run(s)); /* before */
            assert_non_null(
                strstr(hd_error_message(), "index -65 at place 16 of [3,4,2] is out of range for an axis of size 64"));
            hd_error_clear();
            assert_true(same_bits(cache, small_numbers(HD_F32)));
            hd_script_set_input(s, "at", indices(9, 5, 9));
            hd_script_set_input(s, "read", indices(9, 5, 0));
            hd_tensor *y = output(s, "y");
            assert_ok();
            assert_true(hd_data_f32(y)[8] == (which ? 41 : 1));
        }
}

/* Indices that differ along a row, and fewer of them than a row has. */
static void elements_at_indices_are_written(void **state) {
    (void)state;
    not_on_a_device("elements at indices are made beside the state there, in its memory");
    for (int level = 0; level < 3; ++level) {
        HD_SCOPE;
        hd_tensor *cache = hd_copy(small_numbers(HD_F32)), *expected = hd_copy(cache);
        hd_builder *b = started("elements");
        hd_builder_add_state(b, "cache", cache);
        hd_tensor *x = hd_input("x", HD_SHAPE(2, 3, 2), HD_F32), *at = hd_input("at", HD_SHAPE(2, 3, 2), HD_I32);
        hd_assign(cache, hd_scatter(cache, 0, at, x, HD_SCATTER_SET));
        hd_assign(cache, hd_scatter(cache, 1, hd_narrow(at, 1, 0, 2), hd_transpose(hd_narrow(x, 1, 0, 2), 0, 1),
                                    HD_SCATTER_MAX));
        hd_assign(hd_narrow(cache, 1, 3, 1), hd_full(HD_SHAPE(64, 1, 2), HD_F32, 7));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        hd_tensor *values = hd_reshape(hd_arange(100, 112, 1, HD_F32), HD_SHAPE(2, 3, 2)),
                  *places =
                      hd_cast(hd_mod_scalar(hd_reshape(hd_arange(0, 12, 1, HD_F32), HD_SHAPE(2, 3, 2)), 4), HD_I32);
        hd_script_set_input(s, "x", values);
        hd_script_set_input(s, "at", places);
        hd_script_run(s);
        assert_ok();
        hd_assign(expected, hd_scatter(expected, 0, places, values, HD_SCATTER_SET));
        hd_assign(expected, hd_scatter(expected, 1, hd_narrow(places, 1, 0, 2),
                                       hd_transpose(hd_narrow(values, 1, 0, 2), 0, 1), HD_SCATTER_MAX));
        hd_assign(hd_narrow(expected, 1, 3, 1), hd_full(HD_SHAPE(64, 1, 2), HD_F32, 7));
        assert_true(same_bits(cache, expected));
        if (level > 0) assert_in_range(hd_script_stats(s).arena_bytes, 1, 2048); /* the cache has 2048 bytes */
    }
}

/* A place of its own for each sequence of a batch, as [batch,1,1] broadcast: also for some of them, and of their
 * elements. */
static void sequences_are_written_each_at_its_place(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{64, 2}, {30, 2}, {64, 1}, {7, 1}, {64, 0}};
    for (int level = 0; level < 3; ++level)
        for (int i = 0; i < 5; ++i) {
            HD_SCOPE;
            const hd_shape rows = HD_SHAPE(sizes[i][0], 1, sizes[i][1]), one = HD_SHAPE(sizes[i][0], 1, 1);
            hd_tensor *cache = hd_copy(small_numbers(HD_F32)), *expected = hd_copy(cache);
            hd_builder *b = started("batch");
            hd_builder_add_state(b, "cache", cache);
            hd_tensor *x = hd_input("x", rows, HD_F32), *at = hd_input("at", one, HD_I64);
            hd_assign(cache, hd_scatter(cache, 1, hd_broadcast_to(at, rows), x, HD_SCATTER_SET));
            hd_script *s = built(b);
            hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
            hd_tensor *values = hd_full(rows, HD_F32, 99),
                      *places = hd_reshape(hd_mod_scalar(hd_arange(0, (double)sizes[i][0], 1, HD_I64), 4), one);
            hd_script_set_input(s, "x", values);
            hd_script_set_input(s, "at", places);
            hd_script_run(s);
            assert_ok();
            for (int64_t k = 0; k < sizes[i][0]; ++k) /* by hand: the scatter outside is the same code */
                hd_assign(hd_narrow(hd_narrow(hd_narrow(expected, 0, k, 1), 1, k % 4, 1), 2, 0, sizes[i][1]),
                          hd_full(HD_SHAPE(), HD_F32, 99));
            assert_true(same_bits(cache, expected));
        }
}

/* Many indices into little state: what they name is more than the state is, and keeping it would cost more. */
static void a_histogram_is_copied(void **state) {
    (void)state;
    for (int level = 0; level < 3; ++level) {
        HD_SCOPE;
        hd_tensor *counts = hd_zeros(HD_SHAPE(4), HD_I32);
        hd_builder *b = started("histogram");
        hd_builder_add_state(b, "counts", counts);
        hd_tensor *x = hd_input("x", HD_SHAPE(1000), HD_I64), *one = hd_input("one", HD_SHAPE(1), HD_I32);
        hd_assign(counts, hd_scatter(counts, 0, x, hd_broadcast_to(one, HD_SHAPE(1000)), HD_SCATTER_ADD));
        hd_script *s = built(b);
        hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
        hd_script_set_input(s, "x", hd_mod_scalar(hd_arange(0, 1000, 1, HD_I64), 3));
        hd_script_set_input(s, "one", hd_full(HD_SHAPE(1), HD_I32, 1));
        hd_script_run(s);
        hd_script_run(s);
        assert_ok();
        const int32_t *c = hd_data_i32(counts);
        assert_true(c[0] == 668 && c[1] == 666 && c[2] == 666 && c[3] == 0);
        assert_in_range(hd_script_stats(s).arena_bytes, 0, 256);
    }
}

/* Whoever wants the old value gets it: by reading it first, or, where that cannot be, because state is copied. */
static void the_old_value_is_what_others_read(void **state) {
    (void)state;
    not_on_a_device("it looks at what the CPU writes in place");
    for (int level = 0; level < 3; ++level)
        for (int way = 0; way < 4; ++way) {
            HD_SCOPE;
            hd_tensor *cache = hd_copy(small_numbers(HD_F32));
            hd_builder *b = started("old");
            hd_builder_add_state(b, "cache", cache);
            hd_tensor *at = hd_broadcast_to(hd_input("at", HD_SHAPE(1, 1, 1), HD_I64), HD_SHAPE(1, 4, 2));
            hd_tensor *old = way == 0   ? hd_neg(hd_mul(cache, cache)) /* before the write, wherever it was recorded */
                             : way == 1 ? hd_reshape(cache, HD_SHAPE(512)) /* it leaves */
                                        : hd_transpose(cache, 0, 1); /* read with the new one, or written with it */
            hd_assign(cache, hd_scatter(cache, 0, at, hd_input("x", HD_SHAPE(1, 4, 2), HD_F32), HD_SCATTER_SET));
            if (way == 2) old = hd_sub(hd_transpose(cache, 0, 1), old);
            if (way == 3) hd_assign(hd_narrow(cache, 0, 0, 4), hd_narrow(hd_reshape(old, HD_SHAPE(64, 4, 2)), 0, 0, 4));
            hd_builder_add_output(b, "old", old);
            hd_script *s = built(b);
            hd_script_set_optimization_level(s, (hd_optimization_level)(HD_O0 + level));
            hd_script_set_input(s, "at", hd_full(HD_SHAPE(1, 1, 1), HD_I64, 3));
            hd_script_set_input(s, "x", hd_full(HD_SHAPE(1, 4, 2), HD_F32, 300));
            assert_true(hd_script_check(s).largest_difference == 0);
            hd_script_run(s);
            assert_ok();
            assert_true((hd_data_f32(cache)[24] == 300) == (way != 3));
            if (level > 0 && way == 0) assert_in_range(hd_script_stats(s).arena_bytes, 1, 1024);
        }
}

RUN(test(rows_are_written_and_nothing_else), test(large_state_is_not_copied), test(a_run_that_fails_puts_them_back),
    test(looking_changes_nothing), test(others_see_the_old_value), test(rows_at_indices_are_what_a_scatter_gives),
    test(a_row_of_a_large_cache_costs_a_row), test(rows_at_indices_are_put_back_when_a_run_fails),
    test(elements_at_indices_are_written), test(sequences_are_written_each_at_its_place), test(a_histogram_is_copied),
    test(the_old_value_is_what_others_read))
