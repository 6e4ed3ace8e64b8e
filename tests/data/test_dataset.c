/* Datasets: of tensors, functions and files; picked, joined, split and changed. */
#include "each_allocation.h"
#include "support_data.h"

/* ---- tensors and functions --------------------------------------------------------------------------------------- */
static void an_item_is_a_row_of_each_tensor(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = numbered(5);
    assert_int_equal(hd_dataset_count(d), 5);
    hd_tensors *item = hd_dataset_get(d, 3);
    assert_int_equal(hd_tensors_count(item), 2);
    assert_values(hd_tensors_get(item, 0), HD_F32, 3, 3.5);
    assert_values(hd_tensors_get(item, 1), HD_I64, 30);
    assert_int_equal(hd_tensor_rank(hd_tensors_get(item, 1)), 0);
    assert_int_equal(number_of(d, -1), 4);
}

static int64_t destroyed;
static void count_destroyed(void *user) { destroyed += *(int64_t *)user; }
static hd_tensors *square(int64_t index, void *user) {
    (void)user;
    return HD_TENSORS(hd_scalar((double)(index * index), HD_F64));
}
static hd_tensors *negated(hd_tensors *item, void *user) {
    (void)user;
    return HD_TENSORS(hd_neg(hd_tensors_get(item, 0)));
}

static void functions_make_and_change_items(void **state) {
    (void)state;
    int64_t one = 1, ten = 10;
    destroyed = 0;
    {
        HD_SCOPE;
        hd_dataset *squares = hd_function_dataset(100, square, &one, count_destroyed);
        hd_dataset *d = hd_dataset_map(squares, negated, &ten, count_destroyed);
        assert_int_equal(hd_dataset_count(d), 100);
        assert_int_equal(number_of(d, 7), -49);
        hd_release(squares); /* which the other one holds */
        assert_int_equal(number_of(d, 9), -81);
        assert_int_equal(destroyed, 0);
    }
    assert_int_equal(destroyed, 11);
}

static hd_tensors *nothing(int64_t index, void *user) {
    (void)user;
    return index == 0 ? NULL : hd_tensors_from(NULL, 0);
}
static void functions_must_give_tensors(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = hd_function_dataset(2, nothing, NULL, NULL);
    hd_dataset_get(d, 0);
    assert_error(HD_ERROR_VALUE, "gave NULL for item 0");
    hd_dataset_get(d, 1);
    assert_error(HD_ERROR_VALUE, "gave an empty list for item 1");
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static const hd_record_field fields[] = {{HD_U8, {.rank = 1, .size = {2}}}, {HD_F32, {0}}, {HD_BOOL, {.rank = 0}}};
enum { RECORD = 2 + 4 + 1, HEADER = 3 };

static size_t make_records(unsigned char *out, int count) {
    unsigned char *at = out;
    memcpy(at, "abc", HEADER);
    at += HEADER;
    for (int i = 0; i < count; ++i) {
        const float value = (float)i / 4;
        *at++ = (unsigned char)i;
        *at++ = (unsigned char)(2 * i);
        memcpy(at, &value, 4); /* not aligned */
        at += 4;
        *at++ = i % 2;
    }
    return (size_t)(at - out);
}

static void records_of_a_file_are_items(void **state) {
    (void)state;
    HD_SCOPE;
    unsigned char bytes[256];
    const char *path = written(bytes, make_records(bytes, 10), "bin");
    hd_dataset *d = hd_file_dataset(path, fields, 3, HEADER);
    assert_int_equal(hd_dataset_count(d), 10);
    hd_tensors *item = hd_dataset_get(d, 7);
    assert_values(hd_tensors_get(item, 0), HD_U8, 7, 14);
    assert_values(hd_tensors_get(item, 1), HD_F32, 1.75);
    assert_values(hd_tensors_get(item, 2), HD_BOOL, 1);
    hd_batch batch = hd_loader_next(hd_loader_new(hd_dataset_subset(d, HD_TENSOR_I64(HD_SHAPE(3), 9, 0, 9)), 3, NULL));
    assert_values(batch.x, HD_U8, 9, 18, 0, 0, 9, 18);
    assert_values(batch.y, HD_F32, 2.25, 0, 2.25);
    assert_int_equal(hd_tensor_rank(batch.x), 2);
}

static void a_file_that_is_no_records_is_refused(void **state) {
    (void)state;
    HD_SCOPE;
    unsigned char bytes[256];
    const size_t size = make_records(bytes, 10);
    hd_file_dataset(written(bytes, size - 1, "bin"), fields, 3, HEADER);
    assert_error(HD_ERROR_VALUE, "72 bytes: that is no header of 3 and a whole number of records of 7");
    hd_file_dataset(written(bytes, 2, "bin"), fields, 3, HEADER);
    assert_error(HD_ERROR_VALUE, "2 bytes");
    hd_file_dataset("/nowhere/at all", fields, 3, HEADER);
    assert_error(HD_ERROR_STATE, "\"/nowhere/at all\" cannot be opened");
    hd_file_dataset("/", fields, 3, HEADER);
    assert_error(HD_ERROR_STATE, "is no regular file");
    assert_int_equal(hd_dataset_count(hd_file_dataset(written(bytes, 3, "bin"), fields, 3, HEADER)), 0);
    bytes[HEADER + RECORD + 6] = 2;
    hd_dataset *d = hd_file_dataset(written(bytes, size, "bin"), fields, 3, HEADER);
    hd_dataset_get(d, 1);
    assert_error(HD_ERROR_VALUE, "record 1, field 2: byte 0 is 2; a bool is 0 or 1");
    const hd_record_field strange[] = {{(hd_dtype)77, {0}}}, wide[] = {{HD_U8, {.rank = 9}}},
                          negative[] = {{HD_U8, {.rank = 1, .size = {-1}}}}, empty[] = {{HD_U8, {.rank = 1}}},
                          deep[] = {{HD_U8, {8, {1, 1, 1, 1, 1, 1, 1, 1}}}},
                          large[] = {{HD_U8, {.rank = 1, .size = {INT64_MAX}}}, {HD_F64, {0}}};
    const char *path = written(bytes, size, "bin");
    hd_file_dataset(path, strange, 1, 0);
    assert_error(HD_ERROR_DTYPE, "field 0 has 77 as its dtype");
    hd_file_dataset(path, wide, 1, 0);
    assert_error(HD_ERROR_SHAPE, "hd_file_dataset");
    hd_file_dataset(path, negative, 1, 0);
    assert_error(HD_ERROR_SHAPE, "hd_file_dataset");
    hd_file_dataset(path, empty, 1, 0);
    assert_error(HD_ERROR_VALUE, "a record has no bytes");
    hd_file_dataset(path, deep, 1, 0);
    assert_error(HD_ERROR_SHAPE, "one axis more");
    hd_file_dataset(path, large, 2, 0);
    assert_error(HD_ERROR_OVERFLOW, "");
    hd_file_dataset(path, fields, 17, 0);
    assert_error(HD_ERROR_VALUE, "17 fields");
    hd_file_dataset(path, NULL, 1, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`fields`");
    hd_file_dataset(NULL, fields, 3, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`path`");
    hd_file_dataset(path, fields, 3, -1);
    assert_error(HD_ERROR_VALUE, "`header_bytes`");
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */
static void a_subset_has_the_items_at_its_indices(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = hd_dataset_subset(numbered(10), hd_cast(HD_TENSOR_I64(HD_SHAPE(4), 7, 1, 7, 0), HD_U8));
    assert_int_equal(hd_dataset_count(d), 4);
    hd_dataset *again = hd_dataset_subset(d, HD_TENSOR_I64(HD_SHAPE(2), 2, 3));
    assert_int_equal(number_of(again, 0), 7);
    assert_int_equal(number_of(again, 1), 0);
    hd_batch batch = hd_loader_next(hd_loader_new(again, 2, NULL));
    assert_values(batch.y, HD_I64, 70, 0);
}

static void a_concatenation_has_one_behind_the_other(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *parts[] = {numbered(3), numbered(0), hd_dataset_subset(numbered(9), HD_TENSOR_I64(HD_SHAPE(2), 8, 7)),
                           numbered(1)};
    hd_dataset *d = hd_dataset_concat(parts, 4);
    assert_int_equal(hd_dataset_count(d), 6);
    const int64_t expected[] = {0, 1, 2, 8, 7, 0};
    for (int64_t i = 0; i < 6; ++i) assert_int_equal(number_of(d, i), expected[i]);
    hd_batch batch = hd_loader_next(hd_loader_new(d, 6, NULL));
    assert_values(batch.y, HD_I64, 0, 10, 20, 80, 70, 0);
}

/* Counts how often each item is in datasets. */
static void tally(hd_dataset *d, int *seen) {
    for (int64_t i = 0; i < hd_dataset_count(d); ++i) seen[number_of(d, i)]++;
}

static void a_split_deals_every_item_out_once(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = numbered(100), *part[3], *again[3], *other[3];
    const int64_t counts[] = {70, 0, 30};
    hd_dataset_split(d, counts, 3, HD_OPTS(hd_split_opts, .seed = 5), part);
    hd_dataset_split(d, counts, 3, HD_OPTS(hd_split_opts, .seed = 5), again);
    hd_dataset_split(d, counts, 3, NULL, other);
    int seen[100] = {0}, same = 0, moved = 0;
    for (int k = 0; k < 3; ++k) {
        assert_int_equal(hd_dataset_count(part[k]), counts[k]);
        tally(part[k], seen);
    }
    for (int i = 0; i < 100; ++i) assert_int_equal(seen[i], 1);
    for (int64_t i = 0; i < 70; ++i) {
        assert_int_equal(number_of(part[0], i), number_of(again[0], i));
        same += number_of(part[0], i) == number_of(other[0], i);
        moved += number_of(part[0], i) != i;
    }
    assert_true(same < 20 && moved > 50);
    hd_dataset_split(d, counts, 3, HD_OPTS(hd_split_opts, .in_order = true), part);
    assert_int_equal(number_of(part[2], 0), 70);
}

static void fractions_lose_no_item(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *part[3];
    const double thirds[] = {1.0 / 3, 1.0 / 3, 1.0 / 3}, odd[] = {0.29, 0.71, 0};
    hd_dataset_split_fractions(numbered(101), thirds, 3, NULL, part);
    assert_int_equal(hd_dataset_count(part[0]), 34);
    assert_int_equal(hd_dataset_count(part[1]), 34);
    assert_int_equal(hd_dataset_count(part[2]), 33);
    hd_dataset_split_fractions(numbered(100), odd, 3, NULL, part);
    assert_int_equal(hd_dataset_count(part[0]), 29);
    assert_int_equal(hd_dataset_count(part[1]), 71);
    assert_int_equal(hd_dataset_count(part[2]), 0);
}

/* 60 items of class 0, 30 of 5 and 10 of -1, mixed. */
static hd_tensor *uneven_labels(int64_t *labels) {
    for (int i = 0; i < 100; ++i) labels[i] = i % 10 == 9 ? -1 : i % 10 > 5 ? 5 : 0;
    return hd_from_data(labels, HD_SHAPE(100), HD_I64);
}
static int class_number(int64_t label) { return label == 0 ? 0 : label == 5 ? 1 : 2; }

static void a_stratified_split_shares_every_class_out(void **state) {
    (void)state;
    HD_SCOPE;
    int64_t labels[100];
    hd_tensor *y = uneven_labels(labels);
    hd_dataset *d = numbered(100), *part[2];
    const double fractions[] = {0.8, 0.2};
    for (uint64_t seed = 0; seed < 5; ++seed) {
        hd_dataset_split_fractions(d, fractions, 2, HD_OPTS(hd_split_opts, .labels = y, .seed = seed), part);
        int in_test[3] = {0};
        for (int64_t i = 0; i < 20; ++i) in_test[class_number(labels[number_of(part[1], i)])]++;
        assert_in_range(in_test[0], 11, 13);
        assert_in_range(in_test[1], 5, 7);
        assert_in_range(in_test[2], 1, 3);
    }
}

static void each_fold_tests_what_the_others_train_on(void **state) {
    (void)state;
    HD_SCOPE;
    int64_t labels[100];
    hd_tensor *y = uneven_labels(labels);
    hd_dataset *d = numbered(100);
    int tested[100] = {0};
    for (int k = 0; k < 7; ++k) {
        int both[100] = {0};
        hd_fold fold = hd_kfold(d, 7, k, HD_OPTS(hd_split_opts, .labels = y, .seed = 3));
        assert_int_equal(hd_dataset_count(fold.test), k < 2 ? 15 : 14);
        int rare = 0;
        for (int64_t i = 0; i < hd_dataset_count(fold.test); ++i) rare += labels[number_of(fold.test, i)] == -1;
        assert_in_range(rare, 0, 3);
        tally(fold.test, tested);
        tally(fold.test, both);
        tally(fold.train, both);
        for (int i = 0; i < 100; ++i) assert_int_equal(both[i], 1);
    }
    for (int i = 0; i < 100; ++i) assert_int_equal(tested[i], 1);
    hd_fold plain = hd_kfold(d, 4, 1, HD_OPTS(hd_split_opts, .in_order = true));
    assert_int_equal(number_of(plain.test, 0), 25);
    assert_int_equal(number_of(plain.train, 25), 50);
}

/* ---- arguments that are wrong ------------------------------------------------------------------------------------ */
static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_dataset *d = numbered(4), *out[2] = {d, d};
    const int64_t counts[] = {1, 2}, negative[] = {5, -1};
    const double fractions[] = {0.5, 0.6}, below[] = {1.5, -0.5};
    hd_tensor_dataset(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_tensor_dataset: `tensors` is NULL");
    hd_tensor_dataset(hd_tensors_from(NULL, 0));
    assert_error(HD_ERROR_VALUE, "the list is empty");
    hd_tensor_dataset(HD_TENSORS(hd_zeros(HD_SHAPE(3), HD_F32), hd_zeros(HD_SHAPE(2, 3), HD_F32)));
    assert_error(HD_ERROR_SHAPE, "tensor 1 is [2,3], and tensor 0 [3]");
    hd_tensor_dataset(HD_TENSORS(hd_scalar(1, HD_F32)));
    assert_error(HD_ERROR_SHAPE, "tensor 0 is []");
    hd_function_dataset(3, NULL, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_function_dataset: `item`");
    hd_function_dataset(-1, square, NULL, NULL);
    assert_error(HD_ERROR_VALUE, "hd_function_dataset");
    hd_dataset_map(NULL, negated, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dataset_map: `dataset`");
    hd_dataset_map(d, NULL, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dataset_map: `change`");
    hd_dataset_get(d, 4);
    assert_error(HD_ERROR_INDEX, "hd_dataset_get: item 4 of a dataset of 4");
    hd_dataset_get(NULL, 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dataset_get");
    hd_dataset_count((hd_dataset *)numbered_y(1));
    assert_error(HD_ERROR_STATE, "hd_dataset_count: `dataset` is no living dataset");
    hd_dataset_subset(d, HD_TENSOR_I64(HD_SHAPE(2), 3, 4));
    assert_error(HD_ERROR_INDEX, "hd_dataset_subset: index 1 is 4; the dataset has 4 items");
    hd_dataset_subset(d, numbered_x(2));
    assert_error(HD_ERROR_SHAPE, "`indices` is [2,2] of f32");
    hd_dataset_subset(d, hd_ones(HD_SHAPE(2), HD_BOOL));
    assert_error(HD_ERROR_DTYPE, "`indices` is [2] of bool");
    hd_dataset_subset(d, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`indices`");
    hd_dataset_concat(NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_dataset_concat");
    hd_dataset_concat(out, 0);
    assert_error(HD_ERROR_VALUE, "hd_dataset_concat");
    hd_dataset_split(d, counts, 2, NULL, out);
    assert_error(HD_ERROR_VALUE, "hd_dataset_split: the counts have another sum; they must add up to the 4 items");
    assert_null(out[0]);
    hd_dataset_split(d, negative, 2, NULL, out);
    assert_error(HD_ERROR_VALUE, "are negative");
    hd_dataset_split(d, NULL, 2, NULL, out);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`counts`");
    hd_dataset_split(d, counts, 0, NULL, out);
    assert_error(HD_ERROR_VALUE, "0 parts");
    hd_dataset_split(d, counts, 2, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`out`");
    hd_dataset_split_fractions(d, fractions, 2, NULL, out);
    assert_error(HD_ERROR_VALUE, "hd_dataset_split_fractions: the fractions add up to 1.1");
    hd_dataset_split_fractions(d, below, 2, NULL, out);
    assert_error(HD_ERROR_VALUE, "must be positive");
    hd_dataset_split_fractions(d, NULL, 2, NULL, out);
    assert_error(HD_ERROR_NULL_ARGUMENT, "`fractions`");
    hd_kfold(d, 5, 0, NULL);
    assert_error(HD_ERROR_VALUE, "hd_kfold: fold 0 of 5 over 4 items");
    hd_kfold(d, 2, 2, NULL);
    assert_error(HD_ERROR_VALUE, "hd_kfold: fold 2 of 2");
    hd_kfold(NULL, 2, 0, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_kfold");
    hd_kfold(d, 2, 0, HD_OPTS(hd_split_opts, .labels = numbered_y(3)));
    assert_error(HD_ERROR_SHAPE, "3 labels for 4 items");
    hd_kfold(d, 2, 0, HD_OPTS(hd_split_opts, .labels = numbered_y(4), .in_order = true));
    assert_error(HD_ERROR_VALUE, "in_order and labels");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */
static const char *path_of_records;
static void everything(void) {
    hd_dataset *part[2], *d = numbered(6);
    const int64_t counts[] = {2, 4};
    hd_dataset_split(d, counts, 2, HD_OPTS(hd_split_opts, .labels = numbered_y(6)), part);
    const double fractions[] = {0.5, 0.5};
    hd_dataset_split_fractions(d, fractions, 2, NULL, part);
    part[0] = hd_dataset_map(part[0], negated, NULL, NULL);
    hd_dataset *joined = hd_dataset_concat(part, 2);
    hd_fold fold = hd_kfold(joined, 2, 1, NULL);
    hd_dataset_get(fold.test, 0);
    hd_dataset_get(hd_file_dataset(path_of_records, fields, 3, HEADER), 0);
    hd_dataset_get(hd_function_dataset(3, square, NULL, NULL), 1);
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    unsigned char bytes[64];
    path_of_records = written(bytes, make_records(bytes, 2), "bin");
    each_allocation_fails(everything, 1000);
}

RUN(test(an_item_is_a_row_of_each_tensor), test(functions_make_and_change_items), test(functions_must_give_tensors),
    test(records_of_a_file_are_items), test(a_file_that_is_no_records_is_refused),
    test(a_subset_has_the_items_at_its_indices), test(a_concatenation_has_one_behind_the_other),
    test(a_split_deals_every_item_out_once), test(fractions_lose_no_item),
    test(a_stratified_split_shares_every_class_out), test(each_fold_tests_what_the_others_train_on),
    test(wrong_arguments_are_named), test(each_allocation_may_fail))
