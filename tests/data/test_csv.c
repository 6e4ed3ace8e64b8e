/* CSV files as tables. */
#include "each_allocation.h"
#include "data/number.h"
#include "support_data.h"

#include <locale.h>
#include <math.h>

static hd_table *parse(const char *text, const hd_csv_opts *opts) { return hd_csv_parse(text, strlen(text), opts); }
/* A text that is refused, and what is said of it. */
static void refuses(const char *text, const hd_csv_opts *opts, const char *message) {
    assert_null(parse(text, opts));
    assert_error(HD_ERROR_VALUE, message);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */
static void numbers_are_those_of_strtod(void **state) {
    (void)state;
    static const char *const right[] = {"0",
                                        "-0",
                                        "1",
                                        "+2.5",
                                        ".5",
                                        "5.",
                                        "1e22",
                                        "1e23",
                                        "1e-22",
                                        "-1.7976931348623157e308",
                                        "1e999",
                                        "4.9e-324",
                                        "2.2250738585072011e-308",
                                        "9007199254740993",
                                        "123456789012345678901234567890",
                                        "0.1",
                                        "3.14159265358979323846",
                                        "1E+5",
                                        "000000000000000000000000001",
                                        "0.000000000000000000000000000000123"};
    static const char *const wrong[] = {"",     "-",   ".",   "e5",      "1e", "1e+", "1.2.3",
                                        "0x10", "1 2", "--1", "infinit", "na", "1f"};
    double v;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; ++i) {
        assert_true(hd_number_read(right[i], strlen(right[i]), &v));
        if (v != strtod(right[i], NULL)) fail_msg("%s is %.17g", right[i], v);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
        if (hd_number_read(wrong[i], strlen(wrong[i]), &v)) fail_msg("\"%s\" is %.17g", wrong[i], v);
    assert_true(hd_number_read("-Infinity", 9, &v) && v == -INFINITY);
    assert_true(hd_number_read("NaN", 3, &v) && isnan(v));
    for (int i = 0; i < 20000; ++i) { /* what printf writes comes back */
        char text[64];
        const double given = ldexp((double)(rand() - RAND_MAX / 2), rand() % 200 - 100);
        snprintf(text, sizeof text, "%.17g", given);
        assert_true(hd_number_read(text, strlen(text), &v) && v == given);
    }
    int64_t n;
    assert_true(hd_integer_read("-9223372036854775808", 20, &n) && n == INT64_MIN);
    assert_true(hd_integer_read("9223372036854775807", 19, &n) && n == INT64_MAX);
    assert_false(hd_integer_read("9223372036854775808", 19, &n) || hd_integer_read("-", 1, &n) ||
                 hd_integer_read("1.0", 3, &n) || hd_integer_read("-9223372036854775809", 20, &n));
}

/* ---- types ------------------------------------------------------------------------------------------------------- */
static void columns_have_the_types_that_their_fields_ask_for(void **state) {
    (void)state;
    HD_SCOPE;
    hd_table *t = parse("n,x,name,mixed,late\n"
                        "1, 0.5 ,setosa,1,1\n"
                        "-2,1e3,virginica,2.5,2\r\n"
                        "9007199254740993,-7,setosa,3,three",
                        NULL);
    assert_ok();
    assert_int_equal(hd_table_rows(t), 3);
    assert_int_equal(hd_table_columns(t), 5);
    assert_string_equal(hd_table_name(t, 2), "name");
    hd_tensor *n = hd_table_column(t, "n");
    assert_int_equal(hd_tensor_dtype(n), HD_I64);
    assert_true(hd_item_i64(hd_select(n, 0, 2)) == 9007199254740993);
    assert_values(hd_table_column(t, "x"), HD_F64, 0.5, 1000, -7);
    assert_values(hd_table_column(t, "name"), HD_I64, 0, 1, 0);
    assert_int_equal(hd_table_texts(t, "name"), 2);
    assert_string_equal(hd_table_text(t, "name", 1), "virginica");
    assert_values(hd_table_column(t, "mixed"), HD_F64, 1, 2.5, 3);
    assert_values(hd_table_column(t, "late"), HD_I64, 0, 1, 2); /* text all along */
    assert_string_equal(hd_table_text(t, "late", 0), "1");
    assert_int_equal(hd_table_texts(t, "n"), 0);
}

static void types_can_be_given(void **state) {
    (void)state;
    HD_SCOPE;
    const hd_dtype dtypes[] = {HD_U8, HD_F32, HD_BOOL}, all[] = {HD_F32}, some[] = {HD_DTYPE_DEFAULT, HD_I32};
    hd_table *t = parse("a,b,c\n255,1,true\n0,2.5,0\n", HD_OPTS(hd_csv_opts, .dtypes = dtypes, .dtype_count = 3));
    assert_values(hd_table_column(t, "a"), HD_U8, 255, 0);
    assert_values(hd_table_column(t, "b"), HD_F32, 1, 2.5);
    assert_values(hd_table_column(t, "c"), HD_BOOL, 1, 0);
    t = parse("1,2\n3,4\n", HD_OPTS(hd_csv_opts, .dtypes = all, .dtype_count = 1, .no_header = true));
    assert_values(hd_table_matrix(t, NULL, 0, HD_F32), HD_F32, 1, 2, 3, 4);
    assert_values(hd_table_column(t, "1"), HD_F32, 2, 4);
    t = parse("a,b\nx,1\n", HD_OPTS(hd_csv_opts, .dtypes = some));
    assert_values(hd_table_column(t, "b"), HD_I32, 1);
    refuses("a\n256\n", HD_OPTS(hd_csv_opts, .dtypes = dtypes, .dtype_count = 1),
            "line 2, column 1 (\"a\"): 256 does not fit u8");
    refuses("a\n-1\n", HD_OPTS(hd_csv_opts, .dtypes = dtypes, .dtype_count = 1), "-1 does not fit u8");
    refuses("a\n\n1.5\n", HD_OPTS(hd_csv_opts, .dtypes = dtypes, .dtype_count = 1, .missing_value = 7),
            "line 3, column 1 (\"a\"): 1.5 is no integer, as u8 needs");
    refuses("a\nred\n", HD_OPTS(hd_csv_opts, .dtypes = all), "line 2, column 1 (\"a\"): \"red\" is no number");
    refuses("a,b\n1,2\n", HD_OPTS(hd_csv_opts, .dtypes = dtypes, .dtype_count = 3), "3 dtypes for 2 columns");
}

static void missing_values_are_nan_or_a_value(void **state) {
    (void)state;
    HD_SCOPE;
    const char *text = "a,b,c\n1,,x\nNA,2.5,\n3,1,NA\n";
    const hd_dtype integers[] = {HD_I64, HD_F64, HD_DTYPE_DEFAULT};
    hd_table *t = parse(text, HD_OPTS(hd_csv_opts, .missing = "NA"));
    assert_values(hd_table_column(t, "a"), HD_F64, 1, NAN, 3);
    assert_values(hd_table_column(t, "b"), HD_F64, NAN, 2.5, 1);
    assert_values(hd_table_column(t, "c"), HD_I64, 0, -1, -1);
    t = parse(text, HD_OPTS(hd_csv_opts, .missing = "NA", .missing_value = HD_ZERO));
    assert_values(hd_table_column(t, "a"), HD_I64, 1, 0, 3);
    assert_values(hd_table_column(t, "b"), HD_F64, 0, 2.5, 1);
    t = parse(text, HD_OPTS(hd_csv_opts, .missing = "NA", .missing_value = -0.5));
    assert_values(hd_table_column(t, "a"), HD_F64, 1, -0.5, 3);
    refuses(text, HD_OPTS(hd_csv_opts, .missing = "NA", .refuse_missing = true),
            "line 2, column 2 (\"b\"): a missing value");
    refuses(text, HD_OPTS(hd_csv_opts, .missing = "NA", .dtypes = integers),
            "line 3, column 1 (\"a\"): a missing value, which i64 cannot say; give a missing_value");
    assert_values(hd_table_column(parse("a\n1\n\n2\n", NULL), "a"), HD_F64, 1, NAN, 2);
    assert_values(hd_table_column(parse("a,b\n1,2\n\n3,4\n\n", NULL), "b"), HD_I64, 2, 4); /* blank lines */
    assert_values(hd_table_column(parse("a,b\n,\n", NULL), "b"), HD_F64, NAN);
}

/* ---- quotes, separators ------------------------------------------------------------------------------------------ */
static void quoted_fields_may_have_anything_in_them(void **state) {
    (void)state;
    HD_SCOPE;
    hd_table *t = parse("\"a,1\",b\n\"x \"\"y\"\"\nz\",\"12\"\n\"\",\"-3\"\n\"\"\"\",4\n", NULL);
    assert_string_equal(hd_table_name(t, 0), "a,1");
    assert_string_equal(hd_table_text(t, "a,1", 0), "x \"y\"\nz");
    assert_string_equal(hd_table_text(t, "a,1", 1), "");
    assert_string_equal(hd_table_text(t, "a,1", 2), "\"");
    assert_values(hd_table_column(t, "b"), HD_I64, 12, -3, 4);
    t = parse("a;b\n'1;5';2,5\n", HD_OPTS(hd_csv_opts, .separator = ';', .quote = '\''));
    assert_string_equal(hd_table_text(t, "a", 0), "1;5");
    assert_string_equal(hd_table_text(t, "b", 0), "2,5");
    t = parse("\xef\xbb\xbf"
              "a\tb\n1\t\n",
              HD_OPTS(hd_csv_opts, .separator = '\t'));
    assert_string_equal(hd_table_name(t, 0), "a");
    assert_values(hd_table_column(t, "b"), HD_F64, NAN);
}

static void what_is_no_csv_is_named_with_its_place(void **state) {
    (void)state;
    HD_SCOPE;
    refuses("", NULL, "there is no line");
    refuses("a,b\n1,2\n3\n", NULL, "line 3 has 1 fields, the first line 2");
    refuses("a,b\n1,2,3\n", NULL, "line 2 has more than the 2 fields of the first line");
    refuses("a,b\n1,\"2\n3,4\n", NULL, "line 2, column 2 (\"b\"): a quoted field without an end");
    refuses("a,b\n\"1\n2\"x,3\n", NULL, "line 2, column 1 (\"a\"): 'x' follows the closing quote");
    refuses("a,b\n\"1\n2\",3\n4,5\"\n", NULL, "line 4, column 2 (\"b\"): a quote inside a field that is not quoted");
    refuses("a,b\n1,2\r3\n", NULL, "line 2, column 2 (\"b\"): a carriage return without a line feed");
    refuses("a,b,a\n1,2,3\n", NULL, "columns 1 and 3 are both called \"a\"");
    refuses("a,\"b\n", NULL, "line 1, column 2: a quoted field without an end");
    assert_null(hd_csv_parse("a\n1\0002\n", 6, NULL));
    assert_error(HD_ERROR_VALUE, "line 2, column 1 (\"a\"): a zero byte");
    refuses("a\n1\n", HD_OPTS(hd_csv_opts, .separator = '"'), "separator and quote must be two characters");
    hd_table *t = parse("a,b", NULL); /* no rows are no error */
    assert_int_equal(hd_table_rows(t), 0);
    assert_int_equal(hd_tensor_count(hd_table_column(t, "b")), 0);
}

/* ---- tables and files -------------------------------------------------------------------------------------------- */
static void columns_make_a_matrix(void **state) {
    (void)state;
    HD_SCOPE;
    hd_table *t = parse("a,b,c\n1,x,0.5\n2,y,1.5\n", NULL);
    const char *const names[] = {"c", "a"}, *const wrong[] = {"a", "d"};
    assert_values(hd_table_matrix(t, names, 2, HD_F32), HD_F32, 0.5, 1, 1.5, 2);
    assert_values(hd_table_matrix(t, NULL, 0, HD_F64), HD_F64, 1, 0, 0.5, 2, 1, 1.5);
    hd_table_matrix(t, wrong, 2, HD_F32);
    assert_error(HD_ERROR_VALUE, "hd_table_matrix: the table has no column \"d\"; its 3 columns begin with \"a\"");
    hd_table_matrix(t, names, 0, HD_F32);
    assert_error(HD_ERROR_VALUE, "hd_table_matrix: 0 columns");
    static char wide[1024]; /* more columns than an op has operands */
    size_t at = 0;
    for (int i = 0; i < 100; ++i) at += (size_t)snprintf(wide + at, sizeof wide - at, "%d%c", i, i < 99 ? ',' : '\n');
    hd_tensor *m = hd_table_matrix(parse(wide, HD_OPTS(hd_csv_opts, .no_header = true)), NULL, 0, HD_I64);
    assert_same(m, hd_reshape(hd_range(0, 1, 100, HD_I64), HD_SHAPE(1, 100)));
}

static void many_columns_are_no_trouble(void **state) {
    (void)state;
    HD_SCOPE;
    enum { COLUMNS = 50000 };
    char *text = malloc(COLUMNS * 8);
    assert_non_null(text);
    size_t at = 0;
    for (int i = 0; i < COLUMNS; ++i) at += (size_t)sprintf(text + at, "%d%c", i, i < COLUMNS - 1 ? ',' : '\n');
    hd_table *t = hd_csv_parse(text, at, NULL);
    assert_int_equal(hd_table_columns(t), COLUMNS);
    text[at - 2] = '8'; /* 49998 once more */
    assert_null(hd_csv_parse(text, at, NULL));
    assert_error(HD_ERROR_VALUE, "columns 49999 and 50000 are both called \"49998\"");
    free(text);
}

static void a_file_is_named_in_its_errors(void **state) {
    (void)state;
    HD_SCOPE;
    const char *right = written("a,b\n1,2\n", 8, "csv"), *wrong = written("a,b\n1\n", 6, "csv");
    assert_values(hd_table_column(hd_csv_load(right, NULL), "b"), HD_I64, 2);
    assert_null(hd_csv_load(wrong, NULL));
    assert_non_null(strstr(hd_error_message(), wrong));
    assert_error(HD_ERROR_VALUE, "hd_csv_load: line 2 has 1 fields, the first line 2 (in \"");
    hd_csv_load("/nowhere/at all.csv", NULL);
    assert_error(HD_ERROR_STATE, "hd_csv_load: \"/nowhere/at all.csv\" cannot be opened");
    hd_csv_load("/", NULL);
    assert_error(HD_ERROR_STATE, "is no regular file");
    hd_csv_load(NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_csv_load: `path`");
}

static void a_million_numbers_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    enum { ROWS = 100000, COLUMNS = 10 };
    char *text = malloc((size_t)ROWS * COLUMNS * 12 + 64);
    assert_non_null(text);
    size_t at = 0;
    for (int i = 0; i < ROWS; ++i)
        for (int k = 0; k < COLUMNS; ++k)
            at += (size_t)sprintf(text + at, "%.4f%c", (double)(i * k % 1000) / 7, k < COLUMNS - 1 ? ',' : '\n');
    hd_table *t = hd_csv_parse(text, at, HD_OPTS(hd_csv_opts, .no_header = true));
    free(text);
    assert_int_equal(hd_table_rows(t), ROWS);
    assert_true(fabs(hd_item(hd_select(hd_table_column(t, "9"), 0, ROWS - 1)) - 991.0 / 7) < 1e-4);
}

static void a_comma_for_a_point_in_the_locale_changes_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    if (setlocale(LC_NUMERIC, "de_DE.UTF-8") == NULL) skip();
    assert_values(hd_table_column(parse("a\n1.12345678901234567890123\n", NULL), "a"), HD_F64,
                  1.12345678901234567890123);
    setlocale(LC_NUMERIC, "C");
}

static void wrong_arguments_are_named(void **state) {
    (void)state;
    HD_SCOPE;
    hd_table *t = parse("a\nx\n", NULL);
    hd_csv_parse(NULL, 0, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_csv_parse: `text`");
    hd_table_rows(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_table_rows");
    hd_table_columns(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_table_columns");
    hd_table_name(t, 1);
    assert_error(HD_ERROR_INDEX, "hd_table_name: column 1 of 1");
    hd_table_column(t, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_table_column: `name`");
    hd_table_texts(t, "b");
    assert_error(HD_ERROR_VALUE, "hd_table_texts: the table has no column \"b\"");
    hd_table_text(t, "a", 1);
    assert_error(HD_ERROR_INDEX, "hd_table_text: text 1 of column \"a\", which has 1");
    hd_table_matrix(NULL, NULL, 0, HD_F32);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_table_matrix");
    const hd_dtype strange[] = {(hd_dtype)99};
    parse("a\n1\n", HD_OPTS(hd_csv_opts, .dtypes = strange));
    assert_error(HD_ERROR_DTYPE, "column 1 is to be of dtype 99");
}

static const char *path_of_table;
static void everything(void) {
    hd_table *t = hd_csv_load(path_of_table, NULL);
    hd_table_matrix(t, NULL, 0, HD_F32);
    hd_table_column(t, "b");
}
static void each_allocation_may_fail(void **state) {
    (void)state;
    const char text[] = "a,b\n1,\"x\"\"y\"\n2,z\n3.5,w\nred,w\n";
    path_of_table = written(text, sizeof text - 1, "csv");
    each_allocation_fails(everything, 500);
}

RUN(test(numbers_are_those_of_strtod), test(columns_have_the_types_that_their_fields_ask_for), test(types_can_be_given),
    test(missing_values_are_nan_or_a_value), test(quoted_fields_may_have_anything_in_them),
    test(what_is_no_csv_is_named_with_its_place), test(columns_make_a_matrix), test(many_columns_are_no_trouble),
    test(a_file_is_named_in_its_errors), test(a_million_numbers_are_read),
    test(a_comma_for_a_point_in_the_locale_changes_nothing), test(wrong_arguments_are_named),
    test(each_allocation_may_fail))
