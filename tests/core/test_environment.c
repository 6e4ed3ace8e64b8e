/* Variables of the environment whose values mean nothing: each is said once, and is as if it were not set. In children,
 * as the environment is read once. */
#include "printed.h"

enum { MOST_TEXT = 4096 };

/* What a child prints on stderr with a variable set; it ends well. */
static void printed_with(const char *name, const char *value, void (*program)(void), char *text) {
    setenv(name, value, 1); /* the parent computes nothing */
    stderr_of(program, text, MOST_TEXT);
    unsetenv(name);
}

/* Something of everything: products, convolutions, threads, a script. */
static void computes(void) {
    HD_SCOPE;
    hd_tensor *x = hd_ones(HD_SHAPE(2, 32, 20, 20), HD_F32), *w = hd_ones(HD_SHAPE(32, 32, 3, 3), HD_F32);
    hd_builder *b = hd_builder_new("some");
    hd_builder_start(b);
    hd_builder_add_output(b, "y", hd_exp(hd_input("x", HD_SHAPE(2), HD_F32)));
    hd_builder_end(b);
    hd_script *s = hd_builder_build(b);
    hd_script_set_input(s, "x", hd_zeros(HD_SHAPE(2), HD_F32));
    for (int i = 0; i < 2; ++i) {
        hd_script_run(s);
        hd_conv(x, w, NULL, NULL);
    }
    if (!hd_ok() || hd_num_threads() < 1) _exit(1);
}

static void what_means_nothing_is_said(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        {"HODU_ISA", "avx-512", "hodu warning: HODU_ISA has \"avx-512\"; it takes baseline, avx2, avx512 or amx\n"},
        {"HODU_NUM_THREADS", "two",
         "hodu warning: HODU_NUM_THREADS has \"two\"; it takes a number of threads, 1 or more\n"},
        {"HODU_NUM_THREADS", "0",
         "hodu warning: HODU_NUM_THREADS has \"0\"; it takes a number of threads, 1 or more\n"},
        {"HODU_NUM_THREADS", "2 ",
         "hodu warning: HODU_NUM_THREADS has \"2 \"; it takes a number of threads, 1 or more\n"},
        {"HODU_CACHE", "off", "hodu warning: HODU_CACHE has \"off\"; it takes 0 or 1\n"},
        {"HODU_DEBUG", "nan,nans", "hodu warning: HODU_DEBUG has \"nans\"; it takes nan, lines and sync\n"},
        {"HODU_WINOGRAD", "no", "hodu warning: HODU_WINOGRAD has \"no\"; it takes 0 or 1\n"},
        {"HODU_DUMP", "nothing",
         "hodu warning: HODU_DUMP has \"nothing\"; it takes graph, fusion, jobs, kernels, c, llvm, asm, tuning, "
         "stablehlo, calls\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[MOST_TEXT];
        printed_with(cases[i].name, cases[i].value, computes, text);
        assert_string_equal(text, cases[i].message);
    }
}

static void what_means_something_is_not(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    static const char *const cases[][2] = {
        {"HODU_ISA", "baseline"}, {"HODU_ISA", "amx"},     {"HODU_ISA", ""},    {"HODU_NUM_THREADS", "3"},
        {"HODU_NUM_THREADS", ""}, {"HODU_CACHE", "0"},     {"HODU_CACHE", "1"}, {"HODU_CACHE", ""},
        {"HODU_DEBUG", "nan"},    {"HODU_DEBUG", ",nan,"}, {"HODU_DEBUG", ""},  {"HODU_WINOGRAD", "0"},
        {"HODU_WINOGRAD", "1"},   {"HODU_WINOGRAD", ""},   {"HODU_DUMP", ""},   {"HODU_CACHE_LIMIT", "1.5G"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char text[MOST_TEXT];
        printed_with(cases[i][0], cases[i][1], computes, text);
        if (text[0] != '\0') fail_msg("%s=%s: %s", cases[i][0], cases[i][1], text);
    }
}

/* 2^30 under a weight of 0: summed up as it stands, it does not change what the other pixels give. */
static void sums_up(void) {
    HD_SCOPE;
    enum { SIDE = 56, CHANNELS = 64 };
    hd_tensor *x = hd_ones(HD_SHAPE(1, CHANNELS, SIDE, SIDE), HD_F32);
    hd_tensor *w = hd_ones(HD_SHAPE(CHANNELS, CHANNELS, 3, 3), HD_F32);
    hd_fill(hd_select(hd_select(x, 3, 7), 2, 7), 1 << 30);
    hd_fill(hd_select(hd_select(w, 3, 0), 2, 0), 0);
    hd_tensor *y = hd_conv(x, w, NULL, NULL);
    const double at = hd_item(hd_slice(hd_slice(hd_slice(y, 1, 0, 1, 1), 2, 7, 8, 1), 3, 7, 8, 1));
    if (!hd_ok() || at != 8 * CHANNELS) fprintf(stderr, "%.17g", at);
}

static void winograd_is_left_alone(void **state) {
    (void)state;
    not_emulated(FORKED_THREADS);
    char text[MOST_TEXT];
    printed_with("HODU_WINOGRAD", "1", sums_up, text);
    assert_string_not_equal(text, ""); /* else this convolution says nothing */
    printed_with("HODU_WINOGRAD", "0", sums_up, text);
    assert_string_equal(text, "");
}

RUN(test(what_means_nothing_is_said), test(what_means_something_is_not), test(winograd_is_left_alone))
