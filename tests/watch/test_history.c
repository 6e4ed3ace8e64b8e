/* Histories: what they hold, the files they become, and what cannot be written. */
#include "each_allocation.h"

#include <locale.h>
#include <math.h>
#include <unistd.h>

/* A path of a file in a folder of the test's own, which `gone` removes. */
static char folder[] = "/tmp/hodu-history-XXXXXX", path[128];
static int begin(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/file", folder);
    return 0;
}
static int end(void **state) {
    (void)state;
    remove(path);
    return rmdir(folder);
}

/* What is in the file; valid until the next call. */
static const char *written(void) {
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static hd_history *some(void) {
    hd_history *h = hd_history_new();
    hd_history_add(h, "loss", 1, 0.5);
    hd_history_add(h, "loss", 2, 0.1);
    hd_history_add(h, "test, \"all\"", 2, 1e-30);
    hd_history_add(h, "loss", 4, NAN);
    hd_history_add(h, "test, \"all\"", 7, -INFINITY);
    hd_history_add(h, "test, \"all\"", INT64_MAX, 12345678);
    return h;
}

/* ---- what they hold ---------------------------------------------------------------------------------------------- */
static void values_are_found_again(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = some();
    int64_t step = -1;
    assert_int_equal(hd_history_names(h), 2);
    assert_string_equal(hd_history_name(h, 0), "loss");
    assert_string_equal(hd_history_name(h, 1), "test, \"all\"");
    assert_int_equal(hd_history_count(h, "loss"), 3);
    assert_int_equal(hd_history_count(h, "other"), 0);
    assert_true(hd_history_get(h, "loss", 1, &step) == 0.1);
    assert_int_equal(step, 2);
    assert_true(isnan(hd_history_get(h, "loss", -1, NULL)));
    assert_true(hd_history_get(h, "loss", -3, &step) == 0.5);
    assert_int_equal(step, 1);
    hd_history_add(h, "loss", 4, 3); /* the last one of a step stays */
    assert_int_equal(hd_history_count(h, "loss"), 3);
    assert_true(hd_history_get(h, "loss", -1, NULL) == 3);
    for (int i = 0; i < 1000; ++i) hd_history_add(h, "many", i, i);
    assert_int_equal(hd_history_count(h, "many"), 1000);
    assert_true(hd_history_get(h, "many", 777, NULL) == 777);
    assert_ok();
}

static void steps_do_not_go_back(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = some();
    hd_history_add(h, "loss", 3, 1);
    assert_error(HD_ERROR_VALUE, "hd_history_add: step 3 of \"loss\" comes after step 4");
    hd_history_add(h, "new", INT64_MIN, 1); /* the least there is */
    assert_ok();
    assert_int_equal(hd_history_count(h, "new"), 1);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */
static const char csv[] = "step,loss,\"test, \"\"all\"\"\"\n"
                          "1,0.5,\n"
                          "2,0.1,1e-30\n"
                          "4,nan,\n"
                          "7,,-inf\n"
                          "9223372036854775807,,12345678\n";
static const char jsonl[] = "{\"step\":1,\"loss\":0.5}\n"
                            "{\"step\":2,\"loss\":0.1,\"test, \\\"all\\\"\":1e-30}\n"
                            "{\"step\":4,\"loss\":null}\n"
                            "{\"step\":7,\"test, \\\"all\\\"\":null}\n"
                            "{\"step\":9223372036854775807,\"test, \\\"all\\\"\":12345678}\n";

static void tables_have_a_row_for_each_step(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history_write_csv(some(), path);
    assert_ok();
    assert_string_equal(written(), csv);
    hd_history_write_csv(hd_history_new(), path); /* in the place of what was there */
    assert_string_equal(written(), "step\n");
}

static void lines_of_json_have_what_there_is(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history_write_jsonl(some(), path);
    assert_ok();
    assert_string_equal(written(), jsonl);
    hd_history *h = hd_history_new();
    hd_history_add(h, "a\\b\n\t\x01", 1, 1);
    hd_history_write_jsonl(h, path);
    assert_string_equal(written(), "{\"step\":1,\"a\\\\b\\u000a\\u0009\\u0001\":1}\n");
    hd_history_write_jsonl(hd_history_new(), path);
    assert_string_equal(written(), "");
}

static void numbers_read_back_as_they_were(void **state) {
    (void)state;
    HD_SCOPE;
    static const double values[] = {0.1, 1.0 / 3, 1e308, 4.9e-324, -0.0, 123456789012345680.0, 0.30000000000000004,
                                    2e-5};
    hd_history *h = hd_history_new();
    for (int i = 0; i < 8; ++i) hd_history_add(h, "v", i, values[i]);
    hd_history_write_csv(h, path);
    const char *line = strchr(written(), '\n') + 1;
    for (int i = 0; i < 8; ++i, line = strchr(line, '\n') + 1) {
        const double got = strtod(strchr(line, ',') + 1, NULL);
        assert_memory_equal(&got, &values[i], sizeof got);
    }
}

/* Where the language writes 0,5. */
static void the_locale_does_not_matter(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "ru_RU.UTF-8"};
    const char *set = NULL;
    for (int i = 0; i < 4 && set == NULL; ++i) set = setlocale(LC_NUMERIC, names[i]);
    if (set == NULL) {
        print_message("there is no locale with a decimal comma here\n");
        skip();
    }
    HD_SCOPE;
    hd_history_write_csv(some(), path);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(written(), csv);
}

static void what_cannot_be_written_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = some();
    void (*const writers[])(hd_history *, const char *) = {hd_history_write_csv, hd_history_write_jsonl};
    static const char *const names[] = {"hd_history_write_csv", "hd_history_write_jsonl"};
    char text[128];
    for (int i = 0; i < 2; ++i) {
        writers[i](h, "/nowhere/at/all");
        snprintf(text, sizeof text, "%s: \"/nowhere/at/all\" cannot be written: No such file", names[i]);
        assert_error(HD_ERROR_STATE, text);
        writers[i](h, folder);
        assert_error(HD_ERROR_STATE, "Is a directory");
        writers[i](h, NULL);
        assert_error(HD_ERROR_NULL_ARGUMENT, "`path`");
        writers[i](NULL, path);
        assert_error(HD_ERROR_NULL_ARGUMENT, names[i]);
        if (access("/dev/full", W_OK) != 0) continue;
        writers[i](h, "/dev/full");
        assert_error(HD_ERROR_STATE, "\"/dev/full\" cannot be written: No space left");
    }
    hd_history_plot(h, "/nowhere/at/all", NULL);
    assert_error(HD_ERROR_STATE, "hd_history_plot: \"/nowhere/at/all\" cannot be written");
    hd_history_plot(h, NULL, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_plot: `path`");
    if (access("/dev/full", W_OK) != 0) return;
    hd_history_plot(h, "/dev/full", NULL);
    assert_error(HD_ERROR_STATE, "hd_history_plot: \"/dev/full\" cannot be written: No space left");
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */
static int count_of(const char *text, const char *part) {
    int count = 0;
    while ((text = strstr(text, part)) != NULL) ++text, ++count;
    return count;
}

/* Elements are closed in the order in which they were opened, and there are no others, as XML asks. */
static void assert_well_formed(const char *text) {
    char open[16][16];
    int depth = 0, seen = 0;
    for (const char *c = text; (c = strchr(c, '<')) != NULL; ++c) {
        char name[16];
        const char *close = strchr(c, '>');
        assert_non_null(close);
        assert_int_equal(sscanf(c + 1, "%15[a-z/]", name), 1);
        for (const char *in = c + 1; in < close; ++in) assert_true(*in != '<');
        ++seen;
        if (name[0] == '/')
            assert_true(depth > 0 && strcmp(open[--depth], name + 1) == 0);
        else if (close[-1] != '/')
            strcpy(open[depth++], name);
        assert_in_range(depth, 0, 15);
    }
    assert_int_equal(depth, 0);
    assert_true(seen > 5);
    for (const char *c = text; (c = strchr(c, '&')) != NULL; ++c)
        assert_true(strncmp(c, "&amp;", 5) == 0 || strncmp(c, "&lt;", 4) == 0 || strncmp(c, "&gt;", 4) == 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf'"));
}
static const char *plotted(hd_history *h, const hd_plot_opts *opts) {
    hd_history_plot(h, path, opts);
    assert_ok();
    const char *text = written();
    assert_well_formed(text);
    return text;
}

static hd_history *training(int steps) {
    hd_history *h = hd_history_new();
    for (int i = 1; i <= steps; ++i) {
        hd_history_add(h, "training", i, exp(-5.0 * i / steps) + 0.01);
        if (i % 10 == 0) hd_history_add(h, "test", i, exp(-4.0 * i / steps) + 0.05);
    }
    return h;
}

static void a_picture_says_what_it_shows(void **state) {
    (void)state;
    HD_SCOPE;
    const char *text = plotted(training(100), HD_OPTS(hd_plot_opts, .title = "loss < 1 & falling", .y_label = "nats",
                                                      .x_label = "batches", .width = 640, .height = 300));
    assert_non_null(strstr(text, "width='640' height='300' viewBox='0 0 640 300'"));
    assert_non_null(strstr(text, ">loss &lt; 1 &amp; falling<"));
    assert_non_null(strstr(text, ">nats<"));
    assert_non_null(strstr(text, ">batches<"));
    assert_non_null(strstr(text, ">training <tspan fill='#111'>0.0167379</tspan>"));
    assert_non_null(strstr(text, ">test <tspan fill='#111'>0.0683156</tspan>"));
    assert_non_null(strstr(text, ">0.6<")); /* ticks */
    assert_non_null(strstr(text, ">60<"));
    assert_int_equal(count_of(text, "stroke-linejoin"), 2); /* curves */
    text = plotted(training(100), HD_OPTS(hd_plot_opts, .names = (const char *const[]){"test"}, .count = 1));
    assert_int_equal(count_of(text, "stroke-linejoin"), 1);
    assert_null(strstr(text, "training"));
    assert_non_null(strstr(text, ">step<"));
}

static void a_logarithmic_axis_has_decades(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = hd_history_new();
    for (int i = 0; i < 9; ++i) hd_history_add(h, "a", i, pow(10, -i));
    const char *text = plotted(h, HD_OPTS(hd_plot_opts, .log_scale = true));
    assert_non_null(strstr(text, ">0.01<"));
    assert_non_null(strstr(text, ">1e-06<"));
    hd_history_add(h, "a", 9, 0); /* is left out, as what is below 0 is */
    hd_history_add(h, "a", 10, -1);
    assert_int_equal(count_of(plotted(h, HD_OPTS(hd_plot_opts, .log_scale = true)), ">1e-06<"), 1);
    hd_history *near = hd_history_new(); /* less than a decade */
    hd_history_add(near, "a", 1, 2);
    hd_history_add(near, "a", 2, 5);
    assert_non_null(strstr(plotted(near, HD_OPTS(hd_plot_opts, .log_scale = true)), ">3<"));
}

/* The points of the first curve of a picture, in numbers, and of how many pieces it is. */
static int points_of(const char *text, double xy[][2], int most, int *pieces) {
    const char *c = strstr(strstr(text, "stroke-linejoin"), " d='") + 4;
    int count = 0;
    *pieces = 0;
    while (*c != '\'') {
        assert_true(*c == 'M' || *c == 'L');
        assert_true(count < most);
        *pieces += *c == 'M';
        char *rest;
        xy[count][0] = strtod(c + 1, &rest);
        xy[count++][1] = strtod(rest, &rest);
        c = strncmp(rest, "h0", 2) == 0 ? rest + 2 : rest;
    }
    return count;
}

static void points_lie_where_they_belong(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = hd_history_new();
    static const double values[] = {0, 10, 5, NAN, 2.5};
    for (int i = 0; i < 5; ++i) hd_history_add(h, "a", 10 * i, values[i]);
    double xy[8][2];
    const char *text = plotted(h, NULL);
    int pieces;
    assert_int_equal(points_of(text, xy, 8, &pieces), 4);
    assert_int_equal(pieces, 2); /* a gap where NaN is */
    const double left = xy[0][0], right = xy[3][0], bottom = xy[0][1], top = xy[1][1];
    assert_true(left < right && top < bottom); /* y is counted from above */
    assert_true(fabs(xy[1][0] - (left + (right - left) / 4)) < 0.11);
    assert_true(fabs(xy[2][0] - (left + (right - left) / 2)) < 0.11);
    assert_true(fabs(xy[2][1] - (top + bottom) / 2) < 0.11);
    assert_true(fabs(xy[3][1] - (bottom + (top - bottom) / 4)) < 0.11);
}

static void long_histories_make_small_pictures(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = hd_history_new();
    for (int i = 0; i < 200000; ++i) hd_history_add(h, "noise", i, (i * 7919) % 1000);
    hd_history_add(h, "noise", 200000, -5000); /* is not lost */
    static double xy[8192][2];
    const char *text = plotted(h, NULL);
    assert_in_range(strlen(text), 1000, 60000);
    int pieces;
    const int count = points_of(text, xy, 8192, &pieces);
    assert_int_equal(pieces, 1);
    double lowest = 0;
    for (int i = 0; i < count; ++i) lowest = fmax(lowest, xy[i][1]);
    assert_true(xy[count - 1][1] == lowest);
    assert_non_null(strstr(text, ">0<"));
    assert_non_null(strstr(text, ">80k<"));
    assert_non_null(strstr(text, ">120k<"));
}

static void odd_histories_are_drawn(void **state) {
    (void)state;
    HD_SCOPE;
    static const double values[] = {0, 1, -3, 1e300, 1e-300, 5e-324, 123456};
    for (int i = 0; i < 7; ++i)
        for (int log_scale = 0; log_scale < 2; ++log_scale) {
            hd_history *h = hd_history_new(); /* one value alone, and twice the same */
            if (log_scale && values[i] < 1e-300) continue;
            hd_history_add(h, "a", i, values[i]);
            plotted(h, HD_OPTS(hd_plot_opts, .log_scale = log_scale));
            hd_history_add(h, "a", INT64_MAX, values[i]);
            plotted(h, HD_OPTS(hd_plot_opts, .log_scale = log_scale));
        }
    hd_history *h = hd_history_new();
    static const double mixed[] = {1e300, -1e300, INFINITY, 1e308, NAN, 0, 5e-324};
    for (int i = 0; i < 7; ++i) hd_history_add(h, "<&>'\"", i, mixed[i]);
    plotted(h, NULL);
    for (char name[] = "a"; name[0] < 'a' + 20; ++name[0]) hd_history_add(h, name, 1, name[0]); /* more than colours */
    const char *text = plotted(h, NULL);
    assert_int_equal(count_of(text, "stroke-linejoin"), 21);
    assert_true(count_of(text, "stroke-dasharray") >= 13);
}

static void what_cannot_be_drawn_is_an_error(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = hd_history_new(), *none = hd_history_new();
    hd_history_add(h, "a", 1, -1);
    hd_history_plot(NULL, path, NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_plot: `history`");
    hd_history_plot(none, path, NULL);
    assert_error(HD_ERROR_VALUE, "hd_history_plot: there is nothing to draw");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .log_scale = true));
    assert_error(HD_ERROR_VALUE, "no value is finite and above 0");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .names = (const char *const[]){"b"}, .count = 1));
    assert_error(HD_ERROR_VALUE, "hd_history_plot: the history has no \"b\"");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .names = (const char *const[]){NULL}, .count = 1));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_plot: name 0");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .count = 1));
    assert_error(HD_ERROR_VALUE, ".names and .count");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .width = 10));
    assert_error(HD_ERROR_VALUE, "hd_history_plot: a picture of 10 by 420");
    hd_history_plot(h, path, HD_OPTS(hd_plot_opts, .height = 1 << 20));
    assert_error(HD_ERROR_VALUE, "a picture of 760 by 1048576");
    for (int i = 0; i < 200; ++i) {
        char name[24];
        snprintf(name, sizeof name, "a rather long name %d", i);
        hd_history_add(none, name, 1, i);
    }
    hd_history_plot(none, path, NULL);
    assert_error(HD_ERROR_VALUE, "has no room for 200 curves");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static void arguments_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    hd_history *h = some();
    hd_history_add(NULL, "a", 1, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_add: `history`");
    hd_history_add(h, NULL, 1, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_add: `name`");
    hd_history_add(h, "", 1, 1);
    assert_error(HD_ERROR_VALUE, "hd_history_add: the name \"\"");
    hd_history_add(h, "step", 1, 1);
    assert_error(HD_ERROR_VALUE, "hd_history_add: the name \"step\"");
    assert_int_equal(hd_history_names(NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_names: `history`");
    assert_null(hd_history_name(NULL, 0));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_name: `history`");
    assert_null(hd_history_name(h, 2));
    assert_error(HD_ERROR_INDEX, "hd_history_name: name 2 of 2");
    assert_int_equal(hd_history_count(NULL, "a"), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_count: `history`");
    assert_int_equal(hd_history_count(h, NULL), 0);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_count: `name`");
    assert_true(isnan(hd_history_get(NULL, "a", 0, NULL)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_get: `history`");
    assert_true(isnan(hd_history_get(h, NULL, 0, NULL)));
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_history_get: `name`");
    assert_true(isnan(hd_history_get(h, "loss", 3, NULL)));
    assert_error(HD_ERROR_INDEX, "hd_history_get: value 3 of \"loss\", which has 3");
    assert_true(isnan(hd_history_get(h, "other", -1, NULL)));
    assert_error(HD_ERROR_INDEX, "hd_history_get: value -1 of \"other\", which has 0");
}

static void all_of_it(void) {
    hd_history *h = some();
    for (int i = 0; i < 40; ++i) hd_history_add(h, "more", i, i);
    hd_history_write_csv(h, path);
    hd_history_plot(h, path, NULL);
    if (hd_ok()) assert_int_equal(hd_history_names(h), 3);
    hd_error_clear(); /* what failed left no name without values */
    for (int64_t i = 0; i < hd_history_names(h); ++i) assert_true(hd_history_count(h, hd_history_name(h, i)) > 0);
    hd_error_clear();
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(all_of_it, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {test(values_are_found_again),
                                       test(steps_do_not_go_back),
                                       test(tables_have_a_row_for_each_step),
                                       test(lines_of_json_have_what_there_is),
                                       test(numbers_read_back_as_they_were),
                                       test(the_locale_does_not_matter),
                                       test(what_cannot_be_written_is_an_error),
                                       test(a_picture_says_what_it_shows),
                                       test(a_logarithmic_axis_has_decades),
                                       test(points_lie_where_they_belong),
                                       test(long_histories_make_small_pictures),
                                       test(odd_histories_are_drawn),
                                       test(what_cannot_be_drawn_is_an_error),
                                       test(arguments_are_checked),
                                       test(any_allocation_may_fail)};
    return cmocka_run_group_tests(tests, begin, end);
}
