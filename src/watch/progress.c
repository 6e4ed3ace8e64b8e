/* Lines of progress: when they are drawn, and where. */
#include "watch/progress.h"
#include "core/memory.h"
#include "core/object.h"
#include "core/options.h"

#include <hodu/watch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define REDRAWN_AFTER 0.1 /* seconds, on a terminal */
enum { COLUMNS = 80, STDERR = 2 };

struct hd_progress {
    hd_object object;
    hd_progress_state state;
    hd_progress_style style; /* not HD_PROGRESS_AUTO */
    int columns;             /* 0: those of the terminal */
    double every;
    void (*write)(const char *text, void *user);
    void *user;
    int64_t process; /* that has made it: one forked from it draws nothing */
    int64_t begin;   /* nanoseconds */
    double drawn;    /* seconds after that; below 0: never */
    int width;       /* of what was drawn there */
};

static void finish(hd_thread *thread, hd_progress *p);
static void progress_destroy(hd_thread *thread, hd_object *object) {
    finish(thread, (hd_progress *)object);
    hd_object_bury(thread, object);
}
static const char *progress_title(const hd_object *object) { return ((const hd_progress *)object)->state.title; }
static const hd_kind progress_kind = {.name = "progress",
                                      .destroy = progress_destroy,
                                      .title = progress_title,
                                      .remedy = "one thread at a time may use it: let one thread count for all"};

static hd_error progress_check(const hd_progress *p) {
    if (p == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "`progress` is NULL");
    if (p->object.kind != &progress_kind)
        return hd_fail(p->object.kind == &hd_kind_released ? HD_ERROR_RELEASED : HD_ERROR_STATE,
                       "`progress` is no living progress");
    return HD_OK;
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */
static void say(hd_thread *thread, const hd_progress *p, const char *text) {
    if (p->write == NULL) {
        fputs(text, stderr);
        fflush(stderr);
        return;
    }
    HD_CALLBACK(thread);
    p->write(text, p->user);
}

static int columns_of(const hd_progress *p) {
    const int columns = p->columns > 0 ? p->columns : p->write == NULL ? hd_os_terminal_columns(STDERR) : 0;
    return columns > 0 ? columns : COLUMNS;
}

/* Over the last one, whose end is covered by spaces. */
static void draw_bar(hd_thread *thread, hd_progress *p) {
    char line[HD_PROGRESS_LINE], text[2 * HD_PROGRESS_LINE];
    const int columns = columns_of(p), width = hd_progress_line(&p->state, columns, line);
    const int left = p->width < columns ? p->width - width : columns - 1 - width; /* it may be narrower than it was */
    snprintf(text, sizeof text, "\r%s%*s%s", line, left > 0 ? left : 0, "", p->state.ended ? "\n" : "");
    p->width = width;
    say(thread, p, text);
}

static void draw_plain(hd_thread *thread, hd_progress *p) {
    char line[HD_PROGRESS_LINE + 2];
    hd_progress_line(&p->state, p->columns, line);
    strcat(line, "\n");
    say(thread, p, line);
}

static void draw(hd_thread *thread, hd_progress *p) {
    if (p->style == HD_PROGRESS_QUIET || p->process != hd_os_process()) return;
    const double now = (double)(hd_os_nanoseconds() - p->begin) * 1e-9;
    const bool is_bar = p->style == HD_PROGRESS_BAR;
    const double apart = is_bar ? REDRAWN_AFTER : p->every == 0 ? 0 : fmax(p->every, now / 20);
    const double since = is_bar && p->drawn < 0 ? INFINITY : now - fmax(p->drawn, 0);
    if (!p->state.ended && since < apart) return;
    p->state.seconds = p->drawn = now;
    (is_bar ? draw_bar : draw_plain)(thread, p);
}

static void finish(hd_thread *thread, hd_progress *p) {
    if (p->state.ended) return;
    p->state.ended = true;
    draw(thread, p);
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */
static hd_error check_options(int64_t total, hd_progress_opts *o) {
    if (total < 0) return hd_fail(HD_ERROR_VALUE, "%lld steps; 0 says that nobody knows", (long long)total);
    if ((unsigned)o->style > HD_PROGRESS_QUIET)
        return hd_fail(HD_ERROR_VALUE, "%d is none of HD_PROGRESS_*", (int)o->style);
    if (o->columns < 0) return hd_fail(HD_ERROR_VALUE, "%d columns; 0 is the default", o->columns);
    if (!(o->every >= 0)) return hd_fail(HD_ERROR_VALUE, "every %g seconds; it must not be below 0", o->every);
    if (o->every == 0 && !signbit(o->every)) o->every = 10;
    if (o->style == HD_PROGRESS_AUTO)
        o->style = o->write == NULL && hd_os_terminal_columns(STDERR) > 0 ? HD_PROGRESS_BAR : HD_PROGRESS_LINES;
    return HD_OK;
}

hd_progress *hd_progress_new(int64_t total, const hd_progress_opts *opts) {
    HD_ENTER("hd_progress_new", NULL);
    HD_READ_OPTS(hd_progress_opts, opts, NULL);
    HD_TRY_OR(check_options(total, &options), NULL);
    hd_progress *p = hd_array_resize(NULL, sizeof *p);
    if (p == NULL) {
        hd_fail(HD_ERROR_MEMORY, "no memory for a line of progress");
        return NULL;
    }
    *p = (hd_progress){.state = {.total = total, .ended = true}, /* until there is one */
                       .style = options.style,
                       .columns = options.columns,
                       .every = options.every,
                       .write = options.write,
                       .user = options.user,
                       .process = hd_os_process(),
                       .begin = hd_os_nanoseconds(),
                       .drawn = -1};
    if (options.title != NULL) hd_progress_copy(p->state.title, sizeof p->state.title, options.title);
    hd_object_init(&p->object, &progress_kind);
    hd_count(&thread->live_objects, 1);
    if (hd_scope_own(thread, &p->object) != HD_OK) return NULL;
    p->state.ended = false;
    return p;
}

static hd_error check_running(const hd_progress *p) {
    HD_TRY(progress_check(p));
    return p->state.ended ? hd_fail(HD_ERROR_STATE, "it has ended; hd_progress_new begins another one") : HD_OK;
}

void hd_progress_step(hd_progress *progress) {
    HD_ENTER("hd_progress_step", );
    if (check_running(progress) != HD_OK) return;
    HD_USE(&progress->object, false, );
    ++progress->state.done;
    draw(thread, progress);
}

void hd_progress_to(hd_progress *progress, int64_t done) {
    HD_ENTER("hd_progress_to", );
    if (check_running(progress) != HD_OK) return;
    if (done < 0) {
        hd_fail(HD_ERROR_VALUE, "%lld steps are done; that many cannot be", (long long)done);
        return;
    }
    HD_USE(&progress->object, false, );
    progress->state.done = done;
    draw(thread, progress);
}

void hd_progress_note(hd_progress *progress, const char *name, double value) {
    HD_ENTER("hd_progress_note", );
    if (check_running(progress) != HD_OK) return;
    if (name == NULL || name[0] == '\0') {
        hd_fail(name == NULL ? HD_ERROR_NULL_ARGUMENT : HD_ERROR_VALUE, "`name` is %s",
                name == NULL ? "NULL" : "empty");
        return;
    }
    HD_USE(&progress->object, false, );
    hd_progress_state *s = &progress->state;
    char own[HD_PROGRESS_NAME];
    hd_progress_copy(own, sizeof own, name);
    int i = 0;
    while (i < s->notes && strcmp(s->note[i].name, own) != 0) ++i;
    if (i == HD_NOTES_MOST) {
        hd_fail(HD_ERROR_VALUE, "\"%s\" after %d others; that is as many as a line shows", own, (int)HD_NOTES_MOST);
        return;
    }
    if (i == s->notes) memcpy(s->note[s->notes++].name, own, sizeof own);
    s->note[i].value = value;
}

void hd_progress_end(hd_progress *progress) {
    HD_ENTER_ALWAYS("hd_progress_end", );
    if (progress_check(progress) != HD_OK) return;
    HD_USE(&progress->object, false, );
    finish(thread, progress);
}
