/* Lists of tensors, and what takes tensors in a row: each is made from left to right. tests/structure/consumer asks the
 * same of C++. */
#include "support.h"

static hd_tensor *numbered(int *count) { return hd_full_like(hd_scalar(0, HD_F32), ++*count); }

static void joining_gives_the_tensors_of_both_in_order(void **state) {
    (void)state;
    HD_SCOPE;
    int n = 0;
    hd_tensors *a = HD_TENSORS(numbered(&n), numbered(&n)), *b = HD_TENSORS(numbered(&n)),
               *none = hd_tensors_from(NULL, 0);
    hd_tensors *all = hd_tensors_join(a, b);
    assert_int_equal(hd_tensors_count(all), 3);
    for (int i = 0; i < 3; ++i) assert_int_equal((int)hd_item(hd_tensors_get(all, i)), i + 1);
    assert_ptr_equal(hd_tensors_get(all, 2), hd_tensors_get(b, 0)); /* the same tensors, not copies */
    assert_int_equal(hd_tensors_count(a), 2);
    assert_int_equal(hd_tensors_count(hd_tensors_join(none, b)), 1);
    assert_int_equal(hd_tensors_count(hd_tensors_join(none, none)), 0);
    assert_int_equal(hd_tensors_count(hd_tensors_join(a, a)), 4);
    assert_ok();
    assert_null(hd_tensors_join(NULL, b));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tensors_join: `a` is NULL");
    assert_null(hd_tensors_join(a, NULL));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tensors_join: `b` is NULL");
}

static void a_joined_list_holds_its_tensors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensors *all;
    {
        HD_SCOPE;
        int n = 0;
        hd_tensors *a = HD_TENSORS(numbered(&n)), *b = HD_TENSORS(numbered(&n));
        all = hd_keep(hd_tensors_join(a, b));
    }
    assert_int_equal((int)hd_item(hd_tensors_get(all, 1)), 2);
}

static void tensors_in_a_row_are_concatenated_and_stacked(void **state) {
    (void)state;
    HD_SCOPE;
    int n = 0;
    assert_values(HD_STACK_OF(0, numbered(&n), numbered(&n), numbered(&n)), HD_F32, 1, 2, 3);
    n = 0;
    assert_values(HD_CONCAT_OF(0, hd_unsqueeze(numbered(&n), 0), hd_unsqueeze(numbered(&n), 0)), HD_F32, 1, 2);
    hd_tensor *x = HD_TENSOR_F32(HD_SHAPE(2, 1), 1, 2), *y = HD_TENSOR_F32(HD_SHAPE(2, 2), 3, 4, 5, 6);
    assert_values(HD_CONCAT_OF(-1, x, y), HD_F32, 1, 3, 4, 2, 5, 6);
    assert_values(HD_STACK_OF(1, x, x), HD_F32, 1, 1, 2, 2);
    assert_values(HD_CONCAT_OF(0, x), HD_F32, 1, 2);
    assert_null(HD_CONCAT_OF(0, x, y));
    assert_error(HD_ERROR_SHAPE, "hd_concat");
}

RUN(test(joining_gives_the_tensors_of_both_in_order), test(a_joined_list_holds_its_tensors),
    test(tensors_in_a_row_are_concatenated_and_stacked))
