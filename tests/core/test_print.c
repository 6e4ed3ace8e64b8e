/* Printing: the text NumPy prints. data/print_golden.txt holds NumPy's, data/make_print_golden.py makes it. */
#include "support.h"

#include <math.h>
#include <unistd.h>

#include "core/memory.h"

/* ---- the golden text: "# name", a line end, the text, a line end ---- */

static char golden[1 << 16];
static int checked;

static void read_golden(void) {
    if (golden[0] != '\0') return;
    FILE *file = fopen(HODU_TEST_DATA "/print_golden.txt", "rb");
    assert_non_null(file);
    const size_t size = fread(golden, 1, sizeof golden - 1, file);
    fclose(file);
    assert_in_range(size, 1, sizeof golden - 2);
}

static void golden_text(const char *name, char *out, size_t capacity) {
    read_golden();
    char header[100];
    const int length = snprintf(header, sizeof header, "\n# %s\n", name);
    const char *begin = strstr(golden, header);
    if (begin == NULL) fail_msg("print_golden.txt has no \"%s\"", name);
    begin += length;
    const char *end = strstr(begin, "\n# ");
    if (end == NULL) end = begin + strlen(begin) - 1;
    snprintf(out, capacity, "%.*s", (int)(end - begin), begin);
}

static void prints_with(const char *name, const hd_tensor *t, const hd_print_opts *opts) {
    char expected[4096], got[4096];
    golden_text(name, expected, sizeof expected);
    const int64_t length = hd_format(t, got, sizeof got, opts);
    assert_ok();
    if (strcmp(got, expected) != 0) fail_msg("%s: got\n%s\nexpected\n%s", name, got, expected);
    assert_int_equal(length, strlen(expected));
    ++checked;
}
static void prints(const char *name, const hd_tensor *t) { prints_with(name, t, NULL); }

static void prints_text(const char *expected, const hd_tensor *t) {
    char got[4096];
    const int64_t length = hd_format(t, got, sizeof got, NULL);
    assert_ok();
    assert_string_equal(got, expected);
    assert_int_equal(length, strlen(expected));
}

/* of(HD_U8, uint8_t, 0, 255): a tensor of rank 1. */
#define of(dtype, type, ...)                                                                                           \
    hd_from_data((const type[]){__VA_ARGS__}, HD_SHAPE((int64_t)(sizeof((const type[]){__VA_ARGS__}) / sizeof(type))), \
                 dtype)
#define f32s(...) of(HD_F32, float, __VA_ARGS__)
#define f64s(...) of(HD_F64, double, __VA_ARGS__)
#define f16s(...) hd_cast(f64s(__VA_ARGS__), HD_F16)

static hd_tensor *counting(hd_shape shape, hd_dtype dtype) {
    return hd_reshape(hd_arange(0, (double)hd_shape_count(shape), 1, dtype), shape);
}
#define COUNTING(...) counting(HD_SHAPE(__VA_ARGS__), HD_I64)

/* ---- values ---- */

static void integers_and_booleans(void **state) {
    (void)state;
    HD_SCOPE;
    prints("i32", of(HD_I32, int32_t, 1, -20, 300));
    prints("i64 extremes", of(HD_I64, int64_t, INT64_MIN, 0, INT64_MAX));
    prints("u64 extremes", of(HD_U64, uint64_t, 0, (uint64_t)1 << 63, UINT64_MAX));
    prints("i8 extremes", of(HD_I8, int8_t, INT8_MIN, 0, INT8_MAX));
    prints("u8 extremes", of(HD_U8, uint8_t, 0, UINT8_MAX));
    prints("i16", of(HD_I16, int16_t, INT16_MIN, INT16_MAX));
    prints("u16", of(HD_U16, uint16_t, 1, UINT16_MAX));
    prints("u32", of(HD_U32, uint32_t, 1, UINT32_MAX));
    prints("bool", hd_reshape(of(HD_BOOL, bool, true, false, false, false), HD_SHAPE(2, 2)));
    prints("bool all true", of(HD_BOOL, bool, true, true));
}

static void floats_show_the_digits_of_their_dtype(void **state) {
    (void)state;
    HD_SCOPE;
    prints("f32 whole", f32s(1, 2, 3));
    prints("f32 own digits", f32s(1.1f, 2.25f, -3));
    prints("f32 thirds", f32s((float)(1 / 3.0), (float)(2 / 3.0), (float)(100 / 3.0)));
    prints("f64 thirds", f64s(1 / 3.0, 2 / 3.0, 100 / 3.0));
    prints("f64 cut then trimmed", f64s(0.1000000001, 0.5));
    prints("f64 sum", f64s(0.1 + 0.2, 1e-3));
    prints("f64 power of two", f64s(0x1p-44));
    prints("negative zero", f32s(-0.0f, 0, 1));
    prints("f16", f16s(0.1, 1.5, -2, 0.333));
}

static void large_small_and_far_apart_are_scientific(void **state) {
    (void)state;
    HD_SCOPE;
    prints("f32 large", f32s(1e10f, 1, -2.5f));
    prints("f32 below the limit", f32s(999999, 123456));
    prints("f32 at the limit", f32s(1e6f, 123456));
    prints("f64 below the limit", f64s(99999999, 12345678));
    prints("f64 at the limit", f64s(1e8, 12345678));
    prints("f32 small", f32s(1e-5f, 2e-5f, 0));
    prints("f32 not yet small", f32s(1e-4f, 1e-2f));
    prints("f32 far apart", f32s(1, 1001));
    prints("f32 not far apart", f32s(1, 1000));
    prints("f32 places of the value", f32s(1.1e10f, 1.23456789e-5f));
    prints("f64 long exponents", f64s(1e100, -1e-5, NAN));
    prints("f64 extremes", f64s(5e-324, 1.7976931348623157e308));
    prints("f32 extremes", f32s(1.4e-45f, 3.4028235e38f));
    prints("f16 large", f16s(65504, 1));
    prints("f16 small", f16s(6e-8, 1e-3));
}

static void nan_and_inf_align(void **state) {
    (void)state;
    HD_SCOPE;
    prints("nan and inf", f32s(NAN, INFINITY, -INFINITY, 1.5f));
    prints("only nan", f32s(NAN, NAN));
    prints("only -inf", f64s(-(double)INFINITY, NAN));
    prints("nan beside long", f64s(123.25, NAN));
}

/* NumPy has none of these dtypes: the digits are the fewest that read back, and of those the nearest; the f8e5m2 next
 * to 0.1 is 0.09375. */
static void small_floats_show_few_digits(void **state) {
    (void)state;
    HD_SCOPE;
    prints_text("[ 0.1    1.5   -3.14   0.332]", hd_cast(f64s(0.1, 1.5, -3.140625, 0.333), HD_BF16));
    prints_text("[1.e+00 3.e+38]", hd_cast(f64s(1, 3e38), HD_BF16));
    prints_text("[0.1 1.5 nan]", hd_cast(f64s(0.1, 1.5, NAN), HD_F8E4M3));
    prints_text("[0.09 1.5  -inf]", hd_cast(f64s(0.1, 1.5, -(double)INFINITY), HD_F8E5M2));
    prints_text("0.1", hd_scalar(0.1, HD_BF16));
    prints_text("450.0", hd_scalar(448, HD_F8E4M3));
}

static void scalars_are_plain(void **state) {
    (void)state;
    HD_SCOPE;
    prints("scalar i64", hd_scalar(-7, HD_I64));
    prints("scalar bool", hd_scalar(1, HD_BOOL));
    prints("scalar f32", hd_scalar(1.1, HD_F32));
    prints("scalar f32 whole", hd_scalar(3, HD_F32));
    prints("scalar f32 large", hd_scalar(1e6, HD_F32));
    prints("scalar f64", hd_scalar(0.1 + 0.2, HD_F64));
    prints("scalar f64 large", hd_scalar(1e16, HD_F64));
    prints("scalar f64 small", hd_scalar(-1.5e-7, HD_F64));
    prints("scalar f64 not large", hd_scalar(9999999999999998.0, HD_F64));
    prints("scalar f16", hd_scalar(0.1, HD_F16));
    prints("scalar nan", hd_scalar(NAN, HD_F64));
    prints("scalar -inf", hd_scalar(-(double)INFINITY, HD_F64));
}

/* ---- shapes ---- */

static void brackets_and_blank_lines(void **state) {
    (void)state;
    HD_SCOPE;
    prints("rank 2", COUNTING(3, 4));
    prints("rank 3", COUNTING(2, 2, 3));
    prints("rank 4", COUNTING(2, 2, 2, 2));
    prints("rank 3 f32", hd_sub_scalar(hd_div_scalar(counting(HD_SHAPE(2, 3, 2), HD_F32), 8), 0.5));
    prints("ones", hd_ones(HD_SHAPE(1, 1, 1), HD_F32));
    prints("empty", hd_zeros(HD_SHAPE(0), HD_F64));
    prints("empty rank 3", hd_zeros(HD_SHAPE(2, 0, 3), HD_F64));
}

static void views_print_what_they_show(void **state) {
    (void)state;
    HD_SCOPE;
    prints("transposed", hd_t(COUNTING(2, 3)));
    prints("permuted", hd_permute(COUNTING(2, 3, 4), HD_AXES(2, 0, 1)));
    prints("flipped", hd_flip(COUNTING(3, 4), HD_AXES()));
    prints("every other", hd_slice(COUNTING(12), 0, 10, HD_END, -3));
    prints("broadcast", hd_broadcast_to(COUNTING(3), HD_SHAPE(2, 3)));
}

static void long_lines_wrap(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *quarters = hd_div_scalar(counting(HD_SHAPE(40), HD_F32), 4);
    bool thirds[30];
    for (int i = 0; i < 30; ++i) thirds[i] = i % 3 == 0;
    prints("wrapped", COUNTING(60));
    prints("wrapped f32", quarters);
    prints("wrapped rank 2", hd_mul_scalar(hd_reshape(quarters, HD_SHAPE(2, 20)), 1.5));
    prints("wrapped bool", hd_from_data(thirds, HD_SHAPE(30), HD_BOOL));
}

static void large_tensors_are_summarised(void **state) {
    (void)state;
    HD_SCOPE;
    prints("at the threshold", hd_ones(HD_SHAPE(1000), HD_I8));
    prints("summary rank 1", COUNTING(1001));
    prints("summary f32", hd_div_scalar(counting(HD_SHAPE(2000), HD_F32), 2));
    prints("summary rank 2", COUNTING(40, 50));
    prints("summary of long rows", COUNTING(4, 500));
    prints("summary of long columns", COUNTING(500, 3));
    prints("summary rank 3", COUNTING(10, 11, 12));
    prints("summary rank 4", COUNTING(7, 2, 8, 20));
    prints("summary transposed", hd_t(COUNTING(40, 50)));
}

/* ---- options, buffers, errors ---- */

static void options_are_followed(void **state) {
    (void)state;
    HD_SCOPE;
    prints_with("precision 3", f64s(1 / 3.0, 0.5, 2e-3), HD_OPTS(hd_print_opts, .precision = 3));
    prints_with("precision 3 scientific", f64s(1e9 / 3, 0.5), HD_OPTS(hd_print_opts, .precision = 3));
    prints_with("precision 20", f64s(1 / 3.0, 0.1), HD_OPTS(hd_print_opts, .precision = 20));
    prints_with("threshold 5", COUNTING(6), HD_OPTS(hd_print_opts, .threshold = 5, .edge = 2));
    prints_with("edge 1", COUNTING(5, 5), HD_OPTS(hd_print_opts, .threshold = 5, .edge = 1));
    prints_with("width 20", COUNTING(12), HD_OPTS(hd_print_opts, .width = 20));
    prints_with("width 1", COUNTING(2, 3), HD_OPTS(hd_print_opts, .width = 1));
}

static void every_golden_text_was_checked(void **state) {
    (void)state;
    int cases = 0;
    for (const char *at = golden; (at = strstr(at, "\n# ")) != NULL; ++at) ++cases;
    assert_int_equal(checked, cases);
}

static void huge_options_are_harmless(void **state) {
    (void)state;
    HD_SCOPE;
    char text[256];
    const hd_print_opts *huge =
        HD_OPTS(hd_print_opts, .precision = INT32_MAX, .threshold = 1, .edge = INT32_MAX, .width = INT32_MAX);
    hd_format(f64s(1 / 3.0, -1e-300, 1e300), text, sizeof text, huge);
    assert_string_equal(text, "[ 3.333333333333333e-001 -1.000000000000000e-300  1.000000000000000e+300]");
    hd_format(f64s(1 / 3.0, 0.0123456789012345), text, sizeof text, huge);
    assert_string_equal(text, "[0.3333333333333333 0.0123456789012345]");
}

static void options_of_an_older_header_are_read(void **state) {
    (void)state;
    HD_SCOPE;
    char text[64];
    const struct {
        size_t struct_size;
        int precision;
    } older = {.struct_size = offsetof(hd_print_opts, threshold), .precision = 2};
    assert_int_equal(hd_format(f32s(0.123f), text, sizeof text, (const void *)&older), 6);
    assert_string_equal(text, "[0.12]");
}

static void small_buffers_get_what_fits(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = COUNTING(2, 3);
    const char *whole = "[[0 1 2]\n [3 4 5]]";
    assert_int_equal(hd_format(t, NULL, 0, NULL), strlen(whole));
    for (size_t capacity = 1; capacity < strlen(whole) + 3; ++capacity) {
        char text[32];
        memset(text, '#', sizeof text);
        assert_int_equal(hd_format(t, text, capacity, NULL), strlen(whole));
        const size_t fits = capacity - 1 < strlen(whole) ? capacity - 1 : strlen(whole);
        assert_memory_equal(text, whole, fits);
        assert_int_equal(text[fits], '\0');
        assert_int_equal(text[capacity], '#');
    }
}

static void wrong_arguments_are_errors(void **state) {
    (void)state;
    HD_SCOPE;
    char text[8] = "before";
    hd_tensor *t = f32s(1);
    assert_int_equal(hd_format(NULL, text, sizeof text, NULL), -1);
    assert_string_equal(text, "");
    assert_int_equal(hd_format(t, text, sizeof text, NULL), -1); /* the error is pending */
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_format: `t`");
    assert_int_equal(hd_format(t, NULL, 8, NULL), -1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_format: `out` is NULL");
    assert_int_equal(hd_format(t, text, sizeof text, HD_OPTS(hd_print_opts, .precision = -1)), -1);
    assert_error(HD_ERROR_VALUE, "hd_format: precision is -1");
    assert_int_equal(hd_format(t, text, sizeof text, &(const hd_print_opts){.width = 40}), -1);
    assert_error(HD_ERROR_VALUE, "struct_size is 0");
    hd_print(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_print: `t`");
}

static void needs_no_memory(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *t = COUNTING(40, 50);
    char text[4096];
    hd_memory_fail_after(0);
    const int64_t length = hd_format(t, text, sizeof text, NULL);
    hd_memory_fail_after(-1);
    assert_ok();
    assert_true(length > 0);
}

static void assert_prints(void (*print)(const hd_tensor *t), const hd_tensor *t, const char *expected) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    dup2(fileno(file), STDOUT_FILENO);
    print(t);
    fflush(stdout);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    char text[128] = "";
    rewind(file);
    const size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_ok();
    assert_int_equal(size, strlen(text));
    assert_string_equal(text, expected);
}

static void print_goes_to_stdout(void **state) {
    (void)state;
    HD_SCOPE;
    assert_prints(hd_print, hd_t(COUNTING(2, 3)), "[[0 3]\n [1 4]\n [2 5]]\n");
}

static void a_description_is_a_line_in_front(void **state) {
    (void)state;
    HD_SCOPE;
    hd_tensor *p = hd_param(hd_ones(HD_SHAPE(2), HD_F32));
    assert_prints(hd_describe, p, "f32 [2], requires a gradient\n[1. 1.]\n");
    assert_prints(hd_describe, hd_neg(p), "f32 [2], a result on a tape\n[-1. -1.]\n");
    assert_prints(hd_describe, hd_t(hd_zeros(HD_SHAPE(1, 2), HD_U8)), "u8 [2,1]\n[[0]\n [0]]\n");
    assert_prints(hd_describe, hd_t(hd_zeros(HD_SHAPE(2, 2), HD_U8)), "u8 [2,2], not contiguous\n[[0 0]\n [0 0]]\n");
    hd_describe(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_describe: `t` is NULL");
}

RUN(test(integers_and_booleans), test(floats_show_the_digits_of_their_dtype),
    test(large_small_and_far_apart_are_scientific), test(nan_and_inf_align), test(small_floats_show_few_digits),
    test(scalars_are_plain), test(brackets_and_blank_lines), test(views_print_what_they_show), test(long_lines_wrap),
    test(large_tensors_are_summarised), test(options_are_followed), test(every_golden_text_was_checked),
    test(huge_options_are_harmless), test(options_of_an_older_header_are_read), test(small_buffers_get_what_fits),
    test(wrong_arguments_are_errors), test(needs_no_memory), test(print_goes_to_stdout),
    test(a_description_is_a_line_in_front))
