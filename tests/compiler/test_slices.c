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
            hd_tensor *x = hd_full(HD_SHAPE(1, 8), step, HD_F32);
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

RUN(test(rows_are_written_and_nothing_else), test(large_state_is_not_copied), test(a_run_that_fails_puts_them_back),
    test(looking_changes_nothing), test(others_see_the_old_value))
