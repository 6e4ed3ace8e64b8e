/* Pictures of histories: SVG that a browser shows as it is. */
#include "core/memory.h"
#include "watch/axis.h"
#include "watch/history.h"

#include <math.h>
#include <string.h>

enum { LEFT = 72, RIGHT = 24, BOTTOM = 52, ROW = 20, LETTER = 7, LEAST_SIZE = 200, MOST_SIZE = 10000 };
#define LARGEST 1e300 /* what lies beyond is left out as infinity is: axes are no longer than numbers go */

typedef struct plot {
    const hd_plot_opts *o;
    const hd_curve **curves;
    int64_t count;
    hd_axis x, y;
    double top; /* of the axes: below the title and the legend */
    FILE *file;
} plot;

static bool is_drawn(const plot *p, double v) {
    return fabs(v) <= LARGEST && (!p->o->log_scale || v >= 1 / LARGEST); /* no NaN */
}

/* ---- what is drawn ----------------------------------------------------------------------------------------------- */
static hd_error check_options(hd_plot_opts *o) {
    if (o->width == 0) o->width = 760;
    if (o->height == 0) o->height = 420;
    if (o->width < LEAST_SIZE || o->width > MOST_SIZE || o->height < LEAST_SIZE || o->height > MOST_SIZE)
        return hd_fail(HD_ERROR_VALUE, "a picture of %d by %d; both are %d to %d", o->width, o->height, (int)LEAST_SIZE,
                       (int)MOST_SIZE);
    if (o->count < 0 || (o->count > 0) != (o->names != NULL))
        return hd_fail(HD_ERROR_VALUE, "%lld names at %s; .names and .count go together", (long long)o->count,
                       o->names == NULL ? "NULL" : "an address");
    return HD_OK;
}

static hd_error choose_curves(plot *p, const hd_history *h) {
    p->count = p->o->count > 0 ? p->o->count : h->count;
    p->curves = hd_array_resize(NULL, (size_t)(p->count + 1) * sizeof *p->curves);
    if (p->curves == NULL) return hd_fail(HD_ERROR_MEMORY, "no memory for a picture");
    for (int64_t i = 0; i < p->count; ++i) {
        const char *name = p->o->count > 0 ? p->o->names[i] : h->curves[i].name;
        if (name == NULL) return hd_fail(HD_ERROR_NULL_ARGUMENT, "name %lld is NULL", (long long)i);
        p->curves[i] = hd_history_find(h, name);
        if (p->curves[i] == NULL) return hd_fail(HD_ERROR_VALUE, "the history has no \"%s\"", name);
    }
    return HD_OK;
}

static hd_error find_ranges(plot *p) {
    double x[2] = {INFINITY, -INFINITY}, y[2] = {INFINITY, -INFINITY};
    for (int64_t i = 0; i < p->count; ++i)
        for (int64_t k = 0; k < p->curves[i]->count; ++k) {
            const double step = (double)p->curves[i]->steps[k], value = p->curves[i]->values[k];
            if (!is_drawn(p, value)) continue;
            x[0] = fmin(x[0], step), x[1] = fmax(x[1], step);
            y[0] = fmin(y[0], value), y[1] = fmax(y[1], value);
        }
    if (!(x[0] <= x[1]))
        return hd_fail(HD_ERROR_VALUE, "there is nothing to draw: no value is finite%s",
                       p->o->log_scale ? " and above 0" : "");
    p->x = hd_axis_of(x[0], x[1], false, 0);
    p->y = hd_axis_of(y[0], y[1], p->o->log_scale, 0.04);
    return HD_OK;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */
static void put_words(FILE *file, const char *text) {
    for (; *text != '\0'; ++text) {
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, file); /* XML has no control characters */
    }
}

/* <text ...>, of which `more` is the rest. */
static void begin_text(FILE *file, double x, double y, const char *more) {
    fputs("<text x='", file);
    hd_watch_fixed(file, x, 1);
    fputs("' y='", file);
    hd_watch_fixed(file, y, 1);
    fprintf(file, "'%s>", more);
}
static void put_text(FILE *file, double x, double y, const char *more, const char *text) {
    begin_text(file, x, y, more);
    put_words(file, text);
    fputs("</text>\n", file);
}

/* A number as it is read at a glance: 6 digits. */
static const char *short_number(char out[32], double v) {
    snprintf(out, 32, "%.6g", v);
    for (char *c = out; *c != '\0'; ++c)
        if (*c == ',') *c = '.';
    return out;
}
/* Steps that are many: 80k, of an axis up to 250k. */
static const char *step_number(char out[32], double v, double most) {
    const int power = most < 1e5 ? 0 : most < 1e6 ? 1 : most < 1e9 ? 2 : 3;
    static const double parts[] = {1, 1e3, 1e6, 1e9};
    static const char *const letters[] = {"", "k", "M", "G"};
    short_number(out, v / parts[power]);
    return v == 0 ? out : strcat(out, letters[power]);
}

/* Letters as wide as others; those behind the first byte of a letter of UTF-8 are none. */
static int letters_of(const char *text) {
    int count = 0;
    for (; *text != '\0'; ++text) count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */
static void draw_axes(plot *p) {
    FILE *file = p->file;
    double ticks[HD_TICKS_MOST];
    char number[32];
    int count = hd_axis_ticks(&p->y, (int)(p->y.from - p->y.to) / 36, false, ticks);
    for (int i = 0; i < count; ++i) {
        const double y = hd_axis_place(&p->y, ticks[i]);
        fprintf(file, "<path d='M%d ", LEFT);
        hd_watch_fixed(file, y, 1);
        fprintf(file, "H%d' stroke='#e4e4e4'/>", p->o->width - RIGHT);
        put_text(file, LEFT - 8, y + 4, " text-anchor='end'", short_number(number, ticks[i]));
    }
    count = hd_axis_ticks(&p->x, (int)(p->x.to - p->x.from) / 80, true, ticks);
    for (int i = 0; i < count; ++i) {
        const double x = hd_axis_place(&p->x, ticks[i]);
        fputs("<path d='M", file);
        hd_watch_fixed(file, x, 1);
        fprintf(file, " %dv5' stroke='#888'/>", p->o->height - BOTTOM);
        put_text(file, x, p->o->height - BOTTOM + 20, " text-anchor='middle'",
                 step_number(number, ticks[i], fmax(fabs(p->x.low), fabs(p->x.high))));
    }
    fprintf(file, "<path d='M%d %dV%dH%d' fill='none' stroke='#888'/>\n", LEFT, (int)p->top, p->o->height - BOTTOM,
            p->o->width - RIGHT);
    put_text(file, (p->x.from + p->x.to) / 2, p->o->height - 12, " text-anchor='middle'",
             p->o->x_label != NULL ? p->o->x_label : "step");
    if (p->o->y_label == NULL) return;
    fprintf(file, "<g transform='translate(18 %d) rotate(-90)'>", (int)(p->y.from + p->y.to) / 2);
    put_text(file, 0, 0, " text-anchor='middle'", p->o->y_label);
    fputs("</g>\n", file);
}

/* ---- curves ------------------------------------------------------------------------------------------------------ */
/* Colours that most eyes tell apart; curves beyond them are dashed. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
enum { COLOURS = sizeof colours / sizeof colours[0] };
static void put_stroke(FILE *file, int64_t curve, bool thin) {
    fprintf(file, "stroke='%s' stroke-width='%d'", colours[curve % COLOURS], thin ? 1 : 2);
    if (curve >= COLOURS) fprintf(file, " stroke-dasharray='%d 4'", (int)(4 * (curve / COLOURS) % 40));
}

/* Of the points that fall into one column of pixels, those that can be seen: the first, the lowest, the highest and the
 * last. So a picture stays small, however long a history is. */
typedef struct column {
    double pixel;
    int64_t first, lowest, highest, last;
    bool any;
} column;

static void put_point(const plot *p, const hd_curve *c, int64_t k, bool *drawing) {
    fputs(*drawing ? "L" : "M", p->file);
    hd_watch_fixed(p->file, hd_axis_place(&p->x, (double)c->steps[k]), 1);
    fputc(' ', p->file);
    hd_watch_fixed(p->file, hd_axis_place(&p->y, c->values[k]), 1);
    if (!*drawing) fputs("h0", p->file); /* a point by itself is a dot */
    *drawing = true;
}

static void put_column(const plot *p, const hd_curve *c, column *seen, bool *drawing) {
    if (!seen->any) return;
    const int64_t lower = seen->lowest < seen->highest ? seen->lowest : seen->highest;
    const int64_t upper = seen->lowest < seen->highest ? seen->highest : seen->lowest;
    put_point(p, c, seen->first, drawing);
    if (lower != seen->first) put_point(p, c, lower, drawing);
    if (upper != seen->first && upper != lower) put_point(p, c, upper, drawing);
    if (seen->last != seen->first && seen->last != upper && seen->last != lower) put_point(p, c, seen->last, drawing);
    seen->any = false;
}

static void draw_curve(const plot *p, int64_t which) {
    const hd_curve *c = p->curves[which];
    column seen = {.any = false};
    bool drawing = false;
    fputs("<path fill='none' stroke-linejoin='round' stroke-linecap='round' ", p->file);
    put_stroke(p->file, which, c->count > p->o->width); /* noise should not hide what is smooth */
    fputs(" d='", p->file);
    for (int64_t k = 0; k < c->count; ++k) {
        const double pixel = floor(hd_axis_place(&p->x, (double)c->steps[k]));
        const bool drawn = is_drawn(p, c->values[k]);
        if (!drawn || pixel != seen.pixel) put_column(p, c, &seen, &drawing);
        if (!drawn) drawing = false; /* a gap */
        if (!drawn) continue;
        if (!seen.any) seen = (column){pixel, k, k, k, k, true};
        if (c->values[k] < c->values[seen.lowest]) seen.lowest = k;
        if (c->values[k] > c->values[seen.highest]) seen.highest = k;
        seen.last = k;
    }
    put_column(p, c, &seen, &drawing);
    fputs("'/>\n", p->file);
}

/* ---- the legend -------------------------------------------------------------------------------------------------- */
/* "loss 0.0123": a name, and its last value. Where each lies; draws it when there is a file. */
static void lay_legend(plot *p) {
    double x = LEFT, y = p->o->title != NULL ? 52 : 28;
    for (int64_t i = 0; i < p->count; ++i) {
        const hd_curve *c = p->curves[i];
        char number[32];
        short_number(number, c->values[c->count - 1]);
        const double width = 28 + LETTER * (letters_of(c->name) + 1 + (double)strlen(number)) + 20;
        if (x > LEFT && x + width > p->o->width - RIGHT) x = LEFT, y += ROW;
        if (p->file != NULL) {
            fprintf(p->file, "<path d='M%d %dh22' ", (int)x, (int)y - 4);
            put_stroke(p->file, i, false);
            fputs("/>", p->file);
            begin_text(p->file, x + 28, y, "");
            put_words(p->file, c->name);
            fprintf(p->file, " <tspan fill='#111'>%s</tspan></text>\n", number);
        }
        x += width;
    }
    p->top = y + 16;
}

static hd_error draw(plot *p, const char *path) {
    const int width = p->o->width, height = p->o->height;
    lay_legend(p);
    if (p->top > height - BOTTOM - 60)
        return hd_fail(HD_ERROR_VALUE,
                       "a picture of %d by %d has no room for %lld curves; .width and .height make some", width, height,
                       (long long)p->count);
    p->x.from = LEFT, p->x.to = width - RIGHT;
    p->y.from = height - BOTTOM, p->y.to = p->top;
    HD_TRY(hd_watch_open(path, &p->file));
    fprintf(p->file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='system-ui, sans-serif' font-size='12' fill='#444'>\n"
            "<rect width='100%%' height='100%%' fill='#fff'/>\n",
            width, height, width, height);
    if (p->o->title != NULL) put_text(p->file, LEFT, 28, " font-size='17' fill='#111'", p->o->title);
    lay_legend(p);
    draw_axes(p);
    for (int64_t i = 0; i < p->count; ++i) draw_curve(p, i);
    fputs("</svg>\n", p->file);
    return hd_watch_close(p->file, path);
}

void hd_history_plot(hd_history *history, const char *path, const hd_plot_opts *opts) {
    HD_ENTER("hd_history_plot", );
    HD_READ_OPTS(hd_plot_opts, opts, );
    if (hd_history_check(history) != HD_OK || check_options(&options) != HD_OK) return;
    HD_USE(&history->object, false, );
    plot p = {.o = &options};
    if (choose_curves(&p, history) == HD_OK && find_ranges(&p) == HD_OK) draw(&p, path);
    hd_array_release(p.curves);
}
