/* Lines of progress: what they say in which width, when they are drawn, and where. */
#include "each_allocation.h"
#include "printed.h"

#include "watch/progress.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <sys/ioctl.h>

/* ---- what a line says -------------------------------------------------------------------------------------------- */
static hd_progress_state at(int64_t done, int64_t total, double seconds) {
    return (hd_progress_state){.title = "epoch 3",
                               .done = done,
                               .total = total,
                               .seconds = seconds,
                               .notes = 1,
                               .note = {{.name = "loss", .value = 0.123456}}};
}
static void assert_line(const hd_progress_state *s, int columns, const char *expected) {
    char line[HD_PROGRESS_LINE];
    const int width = hd_progress_line(s, columns, line);
    assert_string_equal(line, expected);
    assert_true(columns == 0 || width < columns);
}

static void what_matters_least_is_left_out_first(void **state) {
    (void)state;
    const hd_progress_state s = at(450, 1000, 37);
    assert_line(&s, 200,
                "epoch 3   45 %  [##################                      ]  450/1000  loss 0.1235  12.2/s  "
                "0:45 left");
    assert_line(&s, 80, "epoch 3   45 %  [########           ]  450/1000  loss 0.1235  12.2/s  0:45 left");
    assert_line(&s, 71, "epoch 3   45 %  [####      ]  450/1000  loss 0.1235  12.2/s  0:45 left");
    assert_line(&s, 70, "epoch 3   45 %  [#######          ]  450/1000  loss 0.1235  0:45 left");
    assert_line(&s, 60, "epoch 3   45 %  [#######          ]  loss 0.1235  0:45 left");
    assert_line(&s, 50, "epoch 3   45 %  loss 0.1235  0:45 left");
    assert_line(&s, 30, "epoch 3   45 %  loss 0.1235");
    assert_line(&s, 20, " 45 %  loss 0.1235");
    assert_line(&s, 10, " 45 %  lo");
    assert_line(&s, 1, "");
    assert_line(&s, 0, "epoch 3   45 %  450/1000  loss 0.1235  12.2/s  0:45 left"); /* a plain line */
}

static void no_width_is_exceeded(void **state) {
    (void)state;
    hd_progress_state s = at(450, 1000, 37);
    for (int ended = 0; ended < 2; ++ended)
        for (int total = 0; total < 2; ++total)
            for (int columns = 1; columns < 130; ++columns) {
                char line[HD_PROGRESS_LINE];
                s.ended = ended;
                s.total = total * 1000;
                assert_in_range(hd_progress_line(&s, columns, line), 0, columns - 1);
                assert_in_range(strlen(line), 0, columns - 1);
            }
}

static void times_are_short(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } times[] = {{0, "in 0:00"},    {59.4, "in 0:59"},    {59.6, "in 1:00"},
                 {754, "in 12:34"}, {3723, "in 1:02:03"}, {3 * 86400 + 4 * 3600 + 300, "in 3d 04:05"}};
    for (int i = 0; i < 6; ++i) {
        const hd_progress_state s = {.total = 1, .done = 1, .seconds = times[i].seconds, .ended = true};
        char line[HD_PROGRESS_LINE];
        hd_progress_line(&s, 0, line);
        assert_non_null(strstr(line, times[i].text));
    }
    const hd_progress_state never = {.total = INT64_MAX, .done = 1, .seconds = 1e6};
    assert_line(&never, 0, "  0 %  1/9223372036854775807  1000000.0 s each");
}

static void rates_have_three_digits(void **state) {
    (void)state;
    static const struct {
        int64_t done;
        double seconds;
        const char *text;
    } rates[] = {
        {5000, 2, "2500/s"}, {500, 10, "50.0/s"}, {5, 2, "2.50/s"}, {2, 5, "2.50 s each"}, {1, 30, "30.0 s each"}};
    for (int i = 0; i < 5; ++i) {
        const hd_progress_state s = {.done = rates[i].done, .seconds = rates[i].seconds};
        char line[HD_PROGRESS_LINE];
        hd_progress_line(&s, 0, line);
        assert_non_null(strstr(line, rates[i].text));
    }
}

static void an_unknown_total_has_no_bar(void **state) {
    (void)state;
    hd_progress_state s = at(450, 0, 37);
    assert_line(&s, 80, "epoch 3  450 done  loss 0.1235  12.2/s  0:37");
    assert_line(&s, 40, "epoch 3  450 done  loss 0.1235  0:37");
    s.done = 0;
    s.seconds = 0;
    assert_line(&s, 80, "epoch 3  0 done  loss 0.1235  0:00");
}

static void more_than_all_is_all(void **state) {
    (void)state;
    const hd_progress_state s = {.done = 30, .total = 20, .seconds = 3};
    assert_line(&s, 60, "100 %  [########################]  30/20  10.0/s  0:00 left");
    const hd_progress_state none = {.done = 0, .total = 20};
    assert_line(&none, 40, "  0 %  [                        ]  0/20");
}

static void letters_are_as_wide_as_they_are(void **state) {
    (void)state;
    hd_progress_state s = at(1, 2, 1);
    hd_progress_copy(s.title, sizeof s.title, "\xed\x95\x99\xec\x8a\xb5\n\x01"); /* two of Hangul, two columns each */
    assert_string_equal(s.title, "\xed\x95\x99\xec\x8a\xb5  ");
    char line[HD_PROGRESS_LINE];
    s.notes = 0;
    const int width = hd_progress_line(&s, 0, line);
    assert_int_equal(width, (int)strlen(line) - 2);           /* of three bytes each */
    hd_progress_copy(s.title, 5, "\xed\x95\x99\xec\x8a\xb5"); /* whole ones alone */
    assert_string_equal(s.title, "\xed\x95\x99");
    hd_progress_copy(s.title, sizeof s.title, "\xff\xe9x\xed"); /* no UTF-8 */
    assert_string_equal(s.title, "\xff\xe9x\xed");
    s.total = 0;
    s.seconds = 0;
    for (int columns = 1; columns < 20; ++columns) assert_in_range(hd_progress_line(&s, columns, line), 0, columns - 1);
}

static void a_line_has_an_end(void **state) { /* eight notes and a title, as long as they get */
    (void)state;
    HD_SCOPE;
    hd_progress_state s = at(1, INT64_MAX, 1);
    memset(s.title, 'x', sizeof s.title - 1);
    s.notes = HD_NOTES_MOST;
    for (int i = 0; i < s.notes; ++i) {
        memset(s.note[i].name, 'a' + i, HD_PROGRESS_NAME - 1);
        s.note[i].name[HD_PROGRESS_NAME - 1] = '\0';
        s.note[i].value = -1.2345e-300;
    }
    char line[HD_PROGRESS_LINE];
    const int width = hd_progress_line(&s, 0, line);
    assert_int_equal(width, (int)strlen(line));
    assert_in_range(hd_progress_line(&s, 1000, line), 0, 999);
}

/* ---- when, and where --------------------------------------------------------------------------------------------- */
typedef struct said {
    int times;
    char text[4096];
} said;
static void hear(const char *text, void *user) {
    said *s = user;
    ++s->times;
    assert_true(strlen(s->text) + strlen(text) < sizeof s->text);
    strcat(s->text, text);
}

static void plain_lines_come_now_and_then(void **state) {
    (void)state;
    HD_SCOPE;
    said s = {.times = 0}, all = {.times = 0};
    hd_progress *rare = hd_progress_new(50, HD_OPTS(hd_progress_opts, .write = hear, .user = &s));
    hd_progress *often =
        hd_progress_new(3, HD_OPTS(hd_progress_opts, .write = hear, .user = &all, .every = HD_ZERO, .title = "t"));
    for (int i = 0; i < 50; ++i) hd_progress_step(rare);
    assert_int_equal(s.times, 0); /* ten seconds have not passed */
    hd_progress_end(rare);
    assert_int_equal(s.times, 1);
    assert_non_null(strstr(s.text, "100 %  50/50"));
    assert_non_null(strstr(s.text, "in 0:0"));
    assert_int_equal(s.text[strlen(s.text) - 1], '\n');
    for (int i = 1; i <= 3; ++i) {
        hd_progress_note(often, "loss", 1.0 / i);
        hd_progress_to(often, i);
        assert_int_equal(all.times, i);
    }
    assert_non_null(strstr(all.text, "t   33 %  1/3  loss 1  "));
    assert_non_null(strstr(all.text, "t   66 %  2/3  loss 0.5  "));
    assert_null(strchr(all.text, '\r'));
    assert_ok();
}

static void a_bar_is_drawn_over_itself(void **state) {
    (void)state;
    HD_SCOPE;
    said s = {.times = 0};
    hd_progress *p = hd_progress_new(
        1000, HD_OPTS(hd_progress_opts, .write = hear, .user = &s, .style = HD_PROGRESS_BAR, .columns = 40));
    hd_progress_note(p, "a long name", 1);
    hd_progress_step(p);
    assert_int_equal(s.times, 1); /* at once */
    assert_memory_equal(s.text, "\r  0 %", 6);
    for (int i = 0; i < 500; ++i) hd_progress_step(p);
    assert_in_range(s.times, 1, 20); /* and then ten times a second, however slow the machine */
    hd_progress_end(p);
    const char *last = strrchr(s.text, '\r');
    assert_memory_equal(last, "\r 50 %", 6);
    assert_int_equal(last[strlen(last) - 1], '\n');
    assert_in_range(strlen(last), 1, 41);
    hd_progress_end(p); /* once is enough */
    assert_ptr_equal(strrchr(s.text, '\r'), last);
}

/* What is shorter than the line before covers all of it. */
static void the_end_of_the_last_line_is_covered(void **state) {
    (void)state;
    HD_SCOPE;
    said s = {.times = 0};
    hd_progress *p = hd_progress_new(
        0, HD_OPTS(hd_progress_opts, .write = hear, .user = &s, .style = HD_PROGRESS_BAR, .columns = 70));
    hd_progress_note(p, "loss", -1.234e-10);
    hd_progress_to(p, 1000000000000);
    const size_t first = strlen(s.text);
    hd_progress_note(p, "loss", 1);
    hd_progress_end(p);
    assert_true(strlen(s.text + first) - 1 >= first); /* without its newline */
}

static void quiet_is_quiet(void **state) {
    (void)state;
    said s = {.times = 0};
    HD_SCOPE;
    hd_progress *p = hd_progress_new(
        2, HD_OPTS(hd_progress_opts, .write = hear, .user = &s, .style = HD_PROGRESS_QUIET, .every = HD_ZERO));
    hd_progress_note(p, "loss", 1);
    hd_progress_step(p);
    hd_progress_end(p);
    assert_int_equal(s.times, 0);
}

static void a_scope_ends_the_line(void **state) {
    (void)state;
    said s = {.times = 0};
    {
        HD_SCOPE;
        hd_progress_step(hd_progress_new(2, HD_OPTS(hd_progress_opts, .write = hear, .user = &s)));
    }
    assert_int_equal(s.times, 1);
    assert_non_null(strstr(s.text, " 50 %  1/2"));
}

/* A process that a program forks has its lines, too, but they are not its own to end. */
static void a_forked_process_draws_nothing(void **state) {
    (void)state;
    HD_SCOPE;
    said s = {.times = 0};
    hd_progress *p = hd_progress_new(2, HD_OPTS(hd_progress_opts, .write = hear, .user = &s, .every = HD_ZERO));
    hd_progress_step(p);
    const pid_t child = fork();
    if (child == 0) {
        hd_progress_step(p);
        hd_progress_end(p);
        _exit(s.times);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1); /* what was said before */
    hd_progress_end(p);
    assert_int_equal(s.times, 2);
}

static void a_file_gets_lines(void **state) {
    (void)state;
    char text[512];
    const printed to = printed_begin();
    {
        HD_SCOPE;
        hd_progress *p = hd_progress_new(2, HD_OPTS(hd_progress_opts, .title = "reading"));
        hd_progress_step(p);
        hd_progress_end(p);
    }
    printed_end(to, text, sizeof text);
    assert_memory_equal(text, "reading   50 %  1/2", 19);
    assert_null(strchr(text, '\r'));
}

/* A terminal of 50 columns, whose other end we hold. */
static void a_terminal_gets_a_bar(void **state) {
    (void)state;
    const int ours = posix_openpt(O_RDWR | O_NOCTTY);
    if (ours < 0 || grantpt(ours) != 0 || unlockpt(ours) != 0) {
        print_message("there are no terminals here\n");
        skip();
    }
    const int theirs = open(ptsname(ours), O_RDWR | O_NOCTTY);
    const struct winsize size = {.ws_row = 10, .ws_col = 50};
    assert_true(theirs >= 0 && ioctl(ours, TIOCSWINSZ, &size) == 0);
    fflush(stderr);
    const int before = dup(STDERR_FILENO);
    dup2(theirs, STDERR_FILENO);
    assert_int_equal(hd_os_terminal_columns(STDERR_FILENO), 50);
    {
        HD_SCOPE;
        hd_progress *p = hd_progress_new(2, NULL);
        hd_progress_step(p);
        hd_progress_end(p);
    }
    dup2(before, STDERR_FILENO);
    close(before);
    char text[1024];
    size_t length = 0;
    struct pollfd waits = {.fd = ours, .events = POLLIN};
    while (length < sizeof text - 1 && poll(&waits, 1, 200) == 1) {
        const ssize_t n = read(ours, text + length, sizeof text - 1 - length);
        if (n <= 0) break;
        length += (size_t)n;
    }
    text[length] = '\0';
    close(theirs);
    close(ours);
    assert_memory_equal(text, "\r 50 %  [", 9);
    for (const char *line = strtok(text, "\r\n"); line != NULL; line = strtok(NULL, "\r\n"))
        assert_in_range(strlen(line), 1, 49);
}

static void what_is_no_terminal_has_no_columns(void **state) {
    (void)state;
    const int file = open("/dev/null", O_WRONLY);
    assert_int_equal(hd_os_terminal_columns(file), 0);
    close(file);
    assert_int_equal(hd_os_terminal_columns(-1), 0);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static void arguments_are_checked(void **state) {
    (void)state;
    HD_SCOPE;
    assert_null(hd_progress_new(-1, NULL));
    assert_error(HD_ERROR_VALUE, "hd_progress_new: -1 steps");
    assert_null(hd_progress_new(1, HD_OPTS(hd_progress_opts, .style = (hd_progress_style)9)));
    assert_error(HD_ERROR_VALUE, "hd_progress_new: 9 is none");
    assert_null(hd_progress_new(1, HD_OPTS(hd_progress_opts, .columns = -1)));
    assert_error(HD_ERROR_VALUE, "hd_progress_new: -1 columns");
    assert_null(hd_progress_new(1, HD_OPTS(hd_progress_opts, .every = NAN)));
    assert_error(HD_ERROR_VALUE, "hd_progress_new: every");
    hd_progress_step(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_progress_step: `progress`");
    hd_progress_to(NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_progress_to: `progress`");
    hd_progress_note(NULL, "x", 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_progress_note: `progress`");
    hd_progress_end(NULL);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_progress_end: `progress`");
    hd_progress *p = hd_progress_new(1, HD_OPTS(hd_progress_opts, .style = HD_PROGRESS_QUIET));
    hd_progress_to(p, -1);
    assert_error(HD_ERROR_VALUE, "hd_progress_to: -1 steps");
    hd_progress_note(p, NULL, 1);
    assert_error(HD_ERROR_NULL_ARGUMENT, "hd_progress_note: `name`");
    hd_progress_note(p, "", 1);
    assert_error(HD_ERROR_VALUE, "hd_progress_note: `name` is empty");
    for (char name[] = "a"; name[0] < 'a' + HD_NOTES_MOST; ++name[0]) hd_progress_note(p, name, 1);
    hd_progress_note(p, "a", 2); /* one that is there */
    assert_ok();
    hd_progress_note(p, "more", 1);
    assert_error(HD_ERROR_VALUE, "hd_progress_note: \"more\" after 8 others");
    hd_progress_end(p);
    hd_progress_step(p);
    assert_error(HD_ERROR_STATE, "hd_progress_step: it has ended");
    hd_progress_to(p, 1);
    assert_error(HD_ERROR_STATE, "hd_progress_to: it has ended");
    hd_progress_note(p, "a", 1);
    assert_error(HD_ERROR_STATE, "hd_progress_note: it has ended");
}

static void one_line(void) {
    hd_progress *p = hd_progress_new(1, HD_OPTS(hd_progress_opts, .style = HD_PROGRESS_QUIET));
    hd_progress_step(p);
}
static void any_allocation_may_fail(void **state) {
    (void)state;
    each_allocation_fails(one_line, 50);
}

RUN(test(what_matters_least_is_left_out_first), test(no_width_is_exceeded), test(times_are_short),
    test(rates_have_three_digits), test(an_unknown_total_has_no_bar), test(more_than_all_is_all),
    test(letters_are_as_wide_as_they_are), test(a_line_has_an_end), test(plain_lines_come_now_and_then),
    test(a_bar_is_drawn_over_itself), test(the_end_of_the_last_line_is_covered), test(quiet_is_quiet),
    test(a_scope_ends_the_line), test(a_forked_process_draws_nothing), test(a_file_gets_lines),
    test(a_terminal_gets_a_bar), test(what_is_no_terminal_has_no_columns), test(arguments_are_checked),
    test(any_allocation_may_fail))
