/* Convolution of one channel to one channel: nothing to share, so a window's taps are summed in registers. Lines of x
 * are laid out with their padding first, and apart by their remainder to the stride, so that every tap reads along
 * memory. */
#include "device/cpu/conv.h"

#include <stdatomic.h>
#include <string.h>

enum {
    LINES_BYTES = 24 * 1024, /* lines of x, laid out: they stay in the first-level cache, */
    TILE_BYTES = 16 * 1024,  /* with the results */
    SLACK = 16,              /* elements behind a line that a vector may read or write */
    PARALLEL = 1 << 15
};

/* What the taps span on each axis, from `low` on; and the lines of x, laid out. */
typedef struct window {
    int64_t low[3], span[3];
    int64_t run;  /* columns of a line with one remainder to the stride */
    int64_t line; /* all of it */
} window;

static window window_of(const hd_conv_work *c) {
    window w;
    for (int a = 0; a < 3; ++a) {
        int64_t low = INT64_MAX, high = INT64_MIN;
        for (int64_t t = 0; t < c->plan.tap_count; ++t) {
            low = hd_least(low, c->plan.taps[t].base[a]);
            high = hd_most(high, c->plan.taps[t].base[a]);
        }
        w.low[a] = low;
        w.span[a] = high - low + 1;
    }
    w.run = c->out[2] + (w.span[2] - 1) / c->map.step[2];
    w.line = w.run * c->map.step[2];
    return w;
}

/* Lines of x that some lines of the result need, of each sheet. */
static int64_t lines_for(const hd_conv_work *c, int64_t span, int64_t lines) {
    return (lines - 1) * c->map.step[1] + span;
}

/* Output lines of an item, and what they need of x: bytes of a line, and lines in all. */
static int64_t choose_lines(const hd_conv_work *c, const hd_conv_sizes *s, double *line, double *needed) {
    double span[3];
    for (int a = 0; a < 3; ++a) span[a] = (double)(s->dilation[a] * (s->kernel[a] - 1) + 1);
    *line = ((double)(c->out[2] * c->map.step[2]) + span[2]) * (double)c->bytes;
    const double fits = (LINES_BYTES / (*line * span[0]) - span[1]) / (double)c->map.step[1] + 1;
    const int64_t lines = fits < 1 ? 1 : hd_least(c->out[1], (int64_t)fits);
    *needed = span[0] * ((double)((lines - 1) * c->map.step[1]) + span[1]);
    return lines;
}

bool hd_conv_is_depthwise(const hd_conv_work *c, const hd_conv_sizes *s) {
    if (c->channels != 1 || c->rows != 1 || hd_conv_is_apart(c)) return false;
    double line, needed;
    const int64_t lines = choose_lines(c, s, &line, &needed);
    /* laying out must be little beside the sums: not for windows with wide gaps */
    return needed * (double)c->map.step[2] <= 2 * (double)(lines * hd_volume(s->kernel)) && line * needed < 0x1p40;
}

/* ---- an item: some channels, and some lines of one sheet of the result ------------------------------------------- */
typedef struct item {
    int64_t image, channel, channels, sheet, line, lines;
} item;

void hd_conv_lay_out(const hd_conv_work *c, const hd_conv_lines *wanted, int64_t plane, int64_t sheet, char *out) {
    const int64_t step = wanted->step, run = wanted->run, line = run * step, top = wanted->top, width = c->map.image[2];
    const bool is_outside = sheet < 0 || sheet >= c->map.image[0];
    const int64_t begin = is_outside ? wanted->lines : hd_most(0, hd_least(-top, wanted->lines)),
                  end = hd_most(begin, hd_least(wanted->lines, c->map.image[1] - top));
    const char *x = hd_conv_element(c, c->x, plane * c->map.plane);
    memset(out, 0, (size_t)(begin * line) * c->bytes);
    memset(hd_conv_element(c, out, end * line), 0, (size_t)((wanted->lines - end) * line) * c->bytes);
    for (int64_t r = 0; begin < end && r < step; ++r) {
        const int64_t from = wanted->left + r;
        const int64_t left = from >= 0 ? 0 : hd_least(run, (-from + step - 1) / step),
                      right = from >= width ? left : hd_most(left, hd_least(run, (width - from + step - 1) / step));
        char *to = hd_conv_element(c, out, begin * line + r * run);
        if (left > 0) c->map.runs(to, line, NULL, 0, end - begin, left, 1);
        if (right > left)
            c->map.runs(hd_conv_element(c, to, left), line,
                        hd_conv_element(c, x, (sheet * c->map.image[1] + top + begin) * width + from + left * step),
                        width, end - begin, right - left, step);
        if (run > right) c->map.runs(hd_conv_element(c, to, right), line, NULL, 0, end - begin, run - right, 1);
    }
}

/* The part of x that the item sees, for one channel: some lines of each sheet. */
static void copy_lines(const hd_conv_work *c, const window *w, const item *t, int64_t channel, char *out) {
    const hd_conv_lines wanted = {.top = t->line * c->map.step[1] + w->low[1],
                                  .lines = lines_for(c, w->span[1], t->lines),
                                  .left = w->low[2],
                                  .step = c->map.step[2],
                                  .run = w->run};
    for (int64_t s = 0; s < w->span[0]; ++s, out += wanted.lines * w->line * (int64_t)c->bytes)
        hd_conv_lay_out(c, &wanted, t->image * c->groups + channel, t->sheet * c->map.step[0] + w->low[0] + s, out);
}

/* Where each tap begins in what lay_out made. */
static void place_taps(const hd_conv_work *c, const window *w, int64_t lines, int64_t *at) {
    const int64_t step = c->map.step[2], all = lines_for(c, w->span[1], lines);
    for (int64_t t = 0; t < c->plan.tap_count; ++t) {
        int64_t from[3];
        for (int a = 0; a < 3; ++a) from[a] = c->plan.taps[t].base[a] - w->low[a];
        at[t] = (from[0] * all + from[1]) * w->line + from[2] % step * w->run + from[2] / step;
    }
}

static void run_item(const hd_conv_work *c, const window *w, const item *t, char *workspace) {
    const int64_t taps = c->plan.tap_count, columns = t->lines * c->out[2];
    int64_t *at = (int64_t *)(void *)workspace;
    char *factors = workspace + (size_t)taps * sizeof *at, *lines = factors + (size_t)taps * sizeof *at;
    char *tile = hd_conv_element(c, lines, w->span[0] * lines_for(c, w->span[1], c->lines) * w->line + SLACK);
    const hd_taps_kernel sum = c->bytes == 4 ? hd_kernels()->taps_f32 : hd_kernels()->taps_f64;
    place_taps(c, w, t->lines, at);
    for (int64_t q = 0; q < t->channels; ++q) {
        const int64_t channel = t->channel + q;
        copy_lines(c, w, t, channel, lines);
        for (int64_t k = 0; k < taps; ++k)
            memcpy(hd_conv_element(c, factors, k),
                   hd_conv_element(c, c->weight, channel * c->weight_group + c->plan.taps[k].at), c->bytes);
        sum(hd_conv_element(c, tile, q * columns), c->out[2], lines, c->map.step[1] * w->line, t->lines, at, factors,
            taps, c->out[2]);
    }
    c->epilogue(c->context, tile, columns, t->image * c->groups + t->channel, t->channels,
                (t->sheet * c->out[1] + t->line) * c->out[2], columns);
}

/* ---- sharing it out ---------------------------------------------------------------------------------------------- */
typedef struct sharing {
    const hd_conv_work *c;
    window window;
    int64_t items;
    _Atomic int64_t next;
} sharing;

static void run_depthwise_piece(void *context, int64_t piece) {
    sharing *s = context;
    const hd_conv_work *c = s->c;
    const int64_t parts = hd_pieces(c->out[1], c->lines), blocks = hd_pieces(c->groups, c->planes);
    for (int64_t i; (i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->items;) {
        item t = {.line = i % parts * c->lines,
                  .sheet = i / parts % c->out[0],
                  .channel = i / parts / c->out[0] % blocks * c->planes,
                  .image = i / parts / c->out[0] / blocks};
        t.lines = hd_least(c->lines, c->out[1] - t.line);
        t.channels = hd_least(c->planes, c->groups - t.channel);
        run_item(c, &s->window, &t, c->workspace + (size_t)piece * c->piece_bytes);
    }
}

void hd_conv_cut_depthwise(hd_conv_work *c, const hd_conv_sizes *s, int threads) {
    const int64_t bytes = (int64_t)c->bytes, planes = c->batch * c->groups;
    int64_t span[3];
    for (int a = 0; a < 3; ++a) span[a] = s->dilation[a] * (s->kernel[a] - 1) + 1;
    const int64_t line = (c->out[2] + (span[2] - 1) / c->map.step[2]) * c->map.step[2];
    if ((double)(planes * hd_volume(c->out)) * (double)hd_volume(s->kernel) < PARALLEL) threads = 1;
    double ignored[2];
    c->lines = choose_lines(c, s, &ignored[0], &ignored[1]);
    c->planes = hd_most(1, hd_least(c->groups, TILE_BYTES / (c->lines * c->out[2] * bytes)));
    if (threads > 1) c->planes = hd_most(1, hd_least(c->planes, planes * c->out[0] / (4 * threads)));
    c->pieces = threads;
    const int64_t elements =
        span[0] * lines_for(c, span[1], c->lines) * line + c->planes * c->lines * c->out[2] + 2 * SLACK;
    c->piece_bytes = hd_whole_lines((size_t)hd_volume(s->kernel) * 16 + (size_t)(elements * bytes));
}

void hd_conv_run_depthwise(const hd_conv_work *c) {
    sharing s = {.c = c, .window = window_of(c)};
    s.items = c->batch * hd_pieces(c->groups, c->planes) * c->out[0] * hd_pieces(c->out[1], c->lines);
    hd_parallel(c->pieces, run_depthwise_piece, &s);
}
