/* Convolution with windows of 3 x 3 by Winograd's F(2x2, 3x3): results in tiles of 2 x 2, each from a patch of 4 x 4.
 * Patches and windows are transformed to 16 places (kernels_winograd.c); at each place the channels are a matrix
 * product, and the results are transformed back: 16 multiplications a tile instead of 36. Nothing that a window does
 * not see reaches its result; errors are about those of summing up, relative to the largest pixel that it sees,
 * whatever that is multiplied by. Of an infinity the transforms make NaN: a row of tiles with a result that is no
 * number is summed up as it stands. */
#include "device/cpu/conv.h"

#include "core/environment.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    PLACES = HD_WINOGRAD_PLACES,
    LEAST_CHANNELS = 16,  /* of either side: what transforming costs, each of them has to pay */
    ITEM_BYTES = 1 << 20, /* patches and products of an item, for the second-level cache, */
    LEAST_PANELS = 3,     /* unless the weights would be read for too few tiles */
    MOST_PANELS = 16,
    K_BLOCK = 64,     /* channels that are summed up in one go: with more, errors would exceed those of other ways */
    ROWS_AT_ONCE = 8, /* output channels that are finished together, a power of two: if one of them has to be summed up
                         they all are, so an item begins with a multiple of it, and threads change no result */
    SLACK = 16,       /* elements behind a line that a vector may read or write */
    PARALLEL = 1 << 16
};

/* Tiles of an image. */
static int64_t tile_rows(const hd_conv_work *c) { return (c->out[1] + 1) / 2; }
static int64_t tile_columns(const hd_conv_work *c) { return (c->out[2] + 1) / 2; }

/* Weights are packed for one way: it is the same as long as the process lives. */
static bool is_wanted;
static void read_environment(void) { is_wanted = hd_environment_flag("HODU_WINOGRAD", true); }

bool hd_conv_takes_winograd(const hd_conv_work *c, const hd_conv_sizes *s) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_environment);
    bool fits = is_wanted && c->bytes == 4 && s->kernel[0] == 1 && c->out[0] == 1 && c->map.image[0] == 1 &&
                c->channels > 0 && s->before[0] == 0 && s->stride[0] == 1;
    for (int a = 1; a < 3; ++a) fits = fits && s->kernel[a] == 3 && s->stride[a] == 1 && s->dilation[a] == 1;
    return fits;
}

/* Measured costs, in multiplications that one output channel and one input channel share: the window, transformed (when
 * it is not in advance); a tile of one channel, there or back; the calls that a channel takes in an item, however few
 * tiles it has; and how much quicker a matrix unit is, in percent. */
enum { WINDOW_COST = 256, TRANSFORM_COST = 130, CALLS_COST = 5000, UNIT_PERCENT = 80, WIN_PERCENT = 115 };
static double winograd_cost(const hd_conv_work *c) { /* for each pair of channels */
    const double nr = c->kernels->nr, rows = (double)c->batch * (double)tile_rows(c),
                 tiles = ceil(rows * (double)tile_columns(c) / nr) * nr,
                 vectors = rows * (double)hd_pieces(tile_columns(c), SLACK) * SLACK,
                 shared = 1.0 / (double)c->channels + 1.0 / (double)c->rows;
    return PLACES * tiles + TRANSFORM_COST * vectors * shared + WINDOW_COST;
}
double hd_conv_winograd_cost(const hd_conv_work *c) {
    return (double)c->groups * (double)c->channels * (double)c->rows * winograd_cost(c);
}
bool hd_conv_suits_winograd(const hd_conv_work *c) {
    if (hd_least(c->channels, c->rows) < LEAST_CHANNELS) return false;
    const double direct = 9.0 * (double)c->batch * (double)hd_volume(c->out) * (c->unit != NULL ? UNIT_PERCENT : 100);
    return direct > WIN_PERCENT * winograd_cost(c);
}

/* ---- weights: [group][place][strip][channel][mr] ----------------------------------------------------------------- */
static int64_t strip_elements(const hd_conv_work *c) { return c->channels * c->kernels->mr; }
static int64_t place_elements(const hd_conv_work *c) { return c->strips * strip_elements(c); }
size_t hd_conv_winograd_packed_size(const hd_conv_work *c) {
    return (size_t)(c->groups * PLACES * place_elements(c)) * c->bytes;
}

/* Where the windows' columns and lines begin, and each tap of a window in the weight. */
typedef struct window {
    int64_t low[3], at[9];
} window;
static window window_of(const hd_conv_work *c) {
    window w = {.low = {0, INT64_MAX, INT64_MAX}};
    for (int t = 0; t < 9; ++t)
        for (int a = 1; a < 3; ++a) w.low[a] = hd_least(w.low[a], c->plan.taps[t].base[a]);
    for (int t = 0; t < 9; ++t) {
        const int64_t *base = c->plan.taps[t].base;
        w.at[3 * (base[1] - w.low[1]) + base[2] - w.low[2]] = c->plan.taps[t].at;
    }
    return w;
}

typedef struct packing {
    const hd_conv_work *c;
    window window;
    float *out;
} packing;

static void pack_winograd_strips(void *context, int64_t begin, int64_t end) { /* items: group, strip */
    const packing *k = context;
    const hd_conv_work *c = k->c;
    const int64_t mr = c->kernels->mr;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / c->strips, strip = i % c->strips;
        const float *weight =
            (const float *)(const void *)c->weight + group * c->weight_group + strip * mr * c->weight_row;
        hd_kernels()->winograd.windows(k->out + group * PLACES * place_elements(c) + strip * strip_elements(c),
                                       place_elements(c), weight, k->window.at, c->weight_row, c->weight_channel,
                                       hd_least(mr, c->rows - strip * mr), c->channels);
    }
}

void hd_conv_winograd_pack(const hd_conv_work *c, char *out) {
    packing k = {c, window_of(c), (float *)(void *)out};
    hd_parallel_range(c->groups * c->strips, PARALLEL / (PLACES * strip_elements(c)) + 1, pack_winograd_strips, &k);
}

/* ---- memory of a piece ------------------------------------------------------------------------------------------- */
/* All in elements. The distances between places are no multiple of what caches confuse. */
typedef struct piece_layout {
    int64_t line;                                   /* of x: the columns that tiles see */
    int64_t columns;                                /* of a matrix of tiles, in whole panels */
    int64_t pitch;                                  /* from a place of one channel's patches to the next */
    int64_t product_pitch;                          /* from one of the products to the next */
    int64_t lines, scratch, panels, products, tile; /* where they begin, */
    int64_t summed;                                 /* and for each row of tiles whether it is summed up: 1, or 0 */
    int64_t elements;
} piece_layout;
static piece_layout piece_layout_of(const hd_conv_work *c) {
    const int64_t nr = c->kernels->nr, rows = hd_least(c->rows, c->item_strips * c->kernels->mr);
    piece_layout r = {.line = 2 * c->planes + 2, .columns = hd_pieces(c->lines * c->planes, nr) * nr};
    r.pitch = (hd_pieces(r.columns, SLACK) | 1) * SLACK + 2 * SLACK;
    r.product_pitch = rows * r.columns + SLACK;
    r.scratch = r.lines + hd_pieces((2 * c->lines + 2) * r.line + 2 * SLACK, SLACK) * SLACK;
    r.panels = r.scratch + PLACES * r.pitch;
    r.products = r.panels + PLACES * c->channels * r.columns;
    r.tile = r.products + PLACES * r.product_pitch;
    r.summed = r.tile + ROWS_AT_ONCE * 2 * c->lines * 2 * c->planes;
    r.elements = r.summed + c->lines;
    return r;
}

/* ---- an item: some rows of tiles of one group, of one image or several, or a part of one row; of all output channels
 * or of some ------------------------------------------------------------------------------------------------------- */
typedef struct work {
    const hd_conv_work *c;
    window window;
    piece_layout layout;
    int64_t items;
    _Atomic int64_t next;
} work;
typedef struct item {
    int64_t group, first, count; /* rows of tiles, of all images */
    int64_t column, columns;     /* of tiles; one row when they are not all */
    int64_t row, rows;           /* output channels, from a strip's first on */
} item;
/* The next of its rows that are of one image. */
typedef struct stretch {
    int64_t image, row, rows;
    int64_t at; /* behind so many rows of the item */
} stretch;
static bool next_stretch(const hd_conv_work *c, const item *t, stretch *s) {
    const int64_t done = s->at + s->rows, all = tile_rows(c), row = (t->first + done) % all;
    if (done >= t->count) return false;
    *s = (stretch){(t->first + done) / all, row, hd_least(t->count - done, all - row), done};
    return true;
}
static int64_t lines_of(const hd_conv_work *c, const stretch *s) {
    return hd_least(2 * s->rows, c->out[1] - 2 * s->row);
}
static int64_t width_of(const hd_conv_work *c, const item *t) {
    return hd_least(2 * t->columns, c->out[2] - 2 * t->column);
}

/* One channel's patches to scratch: [place][tiles]. */
static void transform_channel(const work *w, const item *t, int64_t channel, float *base) {
    const hd_conv_work *c = w->c;
    const piece_layout *r = &w->layout;
    float *lines = base + r->lines, *scratch = base + r->scratch;
    const int64_t tiles = t->count * t->columns;
    for (stretch s = {0}; next_stretch(c, t, &s);) {
        const hd_conv_lines wanted = {.top = 2 * s.row + w->window.low[1],
                                      .lines = 2 * s.rows + 2,
                                      .left = w->window.low[2] + 2 * t->column,
                                      .step = 1,
                                      .run = r->line};
        hd_conv_lay_out(c, &wanted, (s.image * c->groups + t->group) * c->channels + channel, 0, (char *)lines);
        for (int64_t i = 0; i < s.rows; ++i)
            hd_kernels()->winograd.patches(scratch + (s.at + i) * t->columns, r->pitch, lines + 2 * i * r->line,
                                           r->line, t->columns);
    }
    for (int p = 0; p < PLACES && tiles < r->columns; ++p) /* what is computed aside is numbers, too */
        memset(scratch + p * r->pitch + tiles, 0, (size_t)(r->columns - tiles) * sizeof(float));
}

/* Patches as panels of a matrix product: [place][panel][channel][nr]. */
static void pack_patches(const work *w, const item *t, float *base) {
    const hd_conv_work *c = w->c;
    const piece_layout *r = &w->layout;
    const int64_t nr = c->kernels->nr;
    for (int64_t channel = 0; channel < c->channels; ++channel) {
        transform_channel(w, t, channel, base);
        for (int p = 0; p < PLACES; ++p)
            c->map.runs(base + r->panels + p * c->channels * r->columns + channel * nr, c->channels * nr,
                        base + r->scratch + p * r->pitch, nr, r->columns / nr, nr, 1);
    }
}

static void multiply_winograd_panel(const hd_conv_work *c, const item *t, const float *weights, const float *panel,
                                    float *out, int64_t out_row) {
    const int64_t mr = c->kernels->mr, nr = c->kernels->nr;
    for (int64_t k = 0; k < c->channels; k += K_BLOCK) {
        const int64_t kc = hd_least(K_BLOCK, c->channels - k);
        for (int64_t row = 0; row < t->rows; row += mr) {
            const float *a = weights + row * c->channels + k * mr, *b = panel + k * nr;
            float *to = out + row * out_row;
            const int64_t rows = hd_least(mr, t->rows - row);
            if (rows == mr)
                c->kernels->tile(kc, a, b, nr, to, out_row, k > 0);
            else
                c->kernels->thin((int)rows, kc, a, 1, mr, b, nr, to, out_row, k > 0);
        }
    }
}

/* [place][output channel][tiles] */
static void multiply(const work *w, const item *t, float *base) {
    const hd_conv_work *c = w->c;
    const piece_layout *r = &w->layout;
    const int64_t nr = c->kernels->nr, columns = hd_pieces(t->count * t->columns, nr) * nr;
    const float *weights =
        (const float *)(const void *)c->packed + t->group * PLACES * place_elements(c) + t->row * c->channels;
    for (int p = 0; p < PLACES; ++p)
        for (int64_t column = 0; column < columns; column += nr)
            multiply_winograd_panel(c, t, weights + p * place_elements(c),
                                    base + r->panels + (p * r->columns + column) * c->channels,
                                    base + r->products + p * r->product_pitch + column, r->columns);
}

/* Results of some output channels, some lines of them, under way: in `tile`, or where they belong already. */
typedef struct results {
    float *tile;
    int64_t tile_row, line;        /* distances */
    int64_t row, rows;             /* output channels, of the group */
    int64_t first, lines, columns; /* the first pixel, of the image, and how many there are */
} results;

/* All rows of tiles of a stretch; those that have to be summed up, since a result is not a number, say so. */
static void transform_back(const work *w, const item *t, const stretch *s, const results *o, float *base) {
    const piece_layout *r = &w->layout;
    float *summed = base + r->summed;
    for (int64_t q = 0; q < o->rows; ++q)
        for (int64_t i = 0; i < s->rows; ++i) {
            const float *from = base + r->products + (o->row - t->row + q) * r->columns + (s->at + i) * t->columns;
            if (summed[s->at + i] == 0 &&
                !hd_kernels()->winograd.results(o->tile + q * o->tile_row + 2 * i * o->line, o->line,
                                                (int)hd_least(2, o->lines - 2 * i), o->columns, from, r->product_pitch))
                summed[s->at + i] = 1;
        }
}

/* The sums as they stand, of some pixels that follow each other: weights are read where they are. */
static void sum_up(const work *w, const item *t, const stretch *s, const results *o, int64_t first, int64_t count,
                   float *base, float *out) {
    const hd_conv_work *c = w->c;
    const int64_t nr = c->kernels->nr, k_most = hd_least(K_BLOCK, c->channels);
    float *panel = base + w->layout.panels, *sums = panel + k_most * nr;
    for (int64_t at = 0; at < count; at += nr) {
        const int64_t columns = hd_least(nr, count - at);
        for (int tap = 0; tap < 9; ++tap)
            for (int64_t k = 0; k < c->channels; k += k_most) {
                const int64_t kc = hd_least(k_most, c->channels - k);
                hd_conv_pack_panel(c, t->group, c->plan.phases, tap * c->channels + k, kc,
                                   s->image * hd_volume(c->out) + first + at, columns, (char *)panel);
                const int64_t weight =
                    t->group * c->weight_group + o->row * c->weight_row + c->plan.taps[tap].at + k * c->weight_channel;
                c->kernels->thin((int)o->rows, kc, hd_conv_element(c, c->weight, weight), c->weight_row,
                                 c->weight_channel, panel, nr, sums, nr, tap > 0 || k > 0);
            }
        for (int64_t q = 0; q < o->rows; ++q)
            memcpy(out + q * o->tile_row + at, sums + q * nr, (size_t)columns * sizeof(float));
    }
}

static void finish_rows(const work *w, const item *t, const stretch *s, int64_t row, float *base) {
    const hd_conv_work *c = w->c;
    const int64_t result_row = (s->image * c->groups + t->group) * c->rows + row;
    results o = {.line = width_of(c, t),
                 .row = row,
                 .rows = hd_least(ROWS_AT_ONCE, t->row + t->rows - row),
                 .first = 2 * s->row * c->out[2] + 2 * t->column,
                 .lines = lines_of(c, s),
                 .columns = width_of(c, t)};
    o.tile = hd_cpu_product_address(c->epilogue, c->context, result_row, o.first);
    o.tile_row = hd_volume(c->out);
    if (o.tile != NULL) {
        o.line = c->out[2];
    } else {
        o.tile = base + w->layout.tile;
        o.tile_row = o.lines * o.line;
    }
    transform_back(w, t, s, &o, base);
    const bool whole = o.columns == c->out[2]; /* lines that follow each other */
    for (int64_t y = 0; y < o.lines; ++y)
        if (base[w->layout.summed + s->at + y / 2] != 0)
            sum_up(w, t, s, &o, o.first + y * c->out[2], o.columns, base, o.tile + y * o.line);
    for (int64_t y = 0, run = whole ? o.lines : 1; y < o.lines; y += run)
        c->epilogue(c->context, o.tile + y * o.line, o.tile_row, result_row, o.rows, o.first + y * c->out[2],
                    run * o.columns);
}

/* ---- sharing it out ---------------------------------------------------------------------------------------------- */
static int64_t parts_of_row(const hd_conv_work *c) { return hd_pieces(tile_columns(c), c->planes); }
/* Items with the same output channels. */
static int64_t items_of_part(const hd_conv_work *c) {
    return hd_pieces(c->batch * tile_rows(c), c->lines) * parts_of_row(c);
}
static int64_t items_of(const hd_conv_work *c) {
    return c->groups * hd_pieces(c->strips, c->item_strips) * items_of_part(c);
}

static item item_at(const hd_conv_work *c, int64_t i) { /* group, output channels, rows of tiles, part of a row */
    const int64_t parts = parts_of_row(c), outputs = hd_pieces(c->strips, c->item_strips), of_part = items_of_part(c);
    item t = {.group = i / of_part / outputs,
              .first = i % of_part / parts * c->lines,
              .column = i % parts * c->planes,
              .row = i / of_part % outputs * c->item_strips * c->kernels->mr};
    t.count = hd_least(c->lines, c->batch * tile_rows(c) - t.first);
    t.columns = hd_least(c->planes, tile_columns(c) - t.column);
    t.rows = hd_least(c->item_strips * c->kernels->mr, c->rows - t.row);
    return t;
}

static void run_winograd_piece(void *context, int64_t piece) {
    work *w = context;
    const hd_conv_work *c = w->c;
    const piece_layout *r = &w->layout;
    float *base = (float *)(void *)(c->workspace + (size_t)piece * c->piece_bytes);
    memset(base + r->lines, 0,
           (size_t)(r->scratch - r->lines) * sizeof *base); /* what vectors see behind the last one */
    for (int p = 1; p <= PLACES; ++p)
        memset(base + r->products + p * r->product_pitch - SLACK, 0, SLACK * sizeof *base);
    for (int64_t i; (i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->items;) {
        const item t = item_at(c, i);
        pack_patches(w, &t, base);
        multiply(w, &t, base);
        for (stretch s = {0}; next_stretch(c, &t, &s);)
            for (int64_t row = t.row; row < t.row + t.rows; row += ROWS_AT_ONCE) {
                memset(base + r->summed + s.at, 0, (size_t)s.rows * sizeof *base);
                finish_rows(w, &t, &s, row, base);
            }
    }
}

/* What an item costs, in multiplications: whole panels, whatever is in them; weights, which come from afar once; and
 * the transforms there and back. */
static double cost_of_item(const hd_conv_work *c, int64_t rows, int64_t strips) {
    const int64_t mr = c->kernels->mr, nr = c->kernels->nr, outputs = hd_least(c->rows, strips * mr);
    const double channels = (double)c->channels, panels = (double)hd_pieces(rows * c->planes, nr),
                 vectors = (double)(rows * hd_pieces(c->planes, SLACK) * SLACK);
    return PLACES * channels * (double)outputs * panels * (double)nr +
           hd_conv_weight_cost(PLACES * channels * (double)outputs * (double)c->bytes) +
           TRANSFORM_COST * vectors * (channels + (double)outputs) + CALLS_COST * channels;
}

static double cost_when_shared(const hd_conv_work *c, int64_t rows, int64_t strips, int64_t threads) {
    const int64_t all = c->batch * tile_rows(c), copies = c->groups * hd_pieces(c->strips, strips) * parts_of_row(c);
    return hd_conv_cost_shared(cost_of_item(c, rows, strips), all / rows * copies, cost_of_item(c, all % rows, strips),
                               all % rows > 0 ? copies : 0, threads);
}

/* Tiles of an item, in whole panels, when it has so many strips of output channels. */
static int64_t most_tiles(const hd_conv_work *c, int64_t strips) {
    const int64_t nr = c->kernels->nr, outputs = hd_least(c->rows, strips * c->kernels->mr),
                  fits = ITEM_BYTES / (PLACES * (int64_t)c->bytes * (c->channels + outputs));
    return hd_least(hd_most(fits / nr, LEAST_PANELS), MOST_PANELS) * nr;
}

/* How the work is cut for so many threads, and what it costs: into rows of tiles, as many as fit, and for several
 * threads into output channels, too, for which patches are transformed again. Few tiles fill no panel, and what they do
 * not fill is multiplied all the same: more and smaller items are not always sooner done. A row that does not fit is
 * cut into equal parts, whatever the number of threads, since they are summed up one by one. */
static double choose_items(hd_conv_work *c, int64_t threads) {
    const int64_t all = c->batch * tile_rows(c), width = tile_columns(c), mr = c->kernels->mr;
    const int64_t step = hd_most(1, ROWS_AT_ONCE / (mr & -mr)); /* strips that are whole blocks of output channels */
    const int64_t steps = hd_pieces(c->strips, step), most_parts = threads > 1 ? hd_least(steps, 2 * threads) : 1;
    double least = INFINITY;
    c->planes = hd_pieces(width, hd_pieces(width, most_tiles(c, c->strips)));
    for (int64_t parts = 1; parts <= most_parts; parts *= 2) {
        const int64_t strips = hd_pieces(steps, parts) * step;
        const int64_t most = c->planes < width ? 1 : hd_least(most_tiles(c, strips) / width, all);
        for (int64_t rows = most; rows > 0; --rows) {
            const double cost = cost_when_shared(c, rows, strips, threads);
            if (cost >= least) continue;
            least = cost;
            c->lines = rows;
            c->item_strips = strips;
        }
    }
    return least;
}

void hd_conv_cut_winograd(hd_conv_work *c, const hd_conv_sizes *sizes, int threads) {
    (void)sizes;
    c->strips = hd_pieces(c->rows, c->kernels->mr);
    hd_conv_work shared = *c;
    const double alone = choose_items(c, 1);
    const bool is_shared = threads > 1 && choose_items(&shared, threads) < alone;
    if (is_shared) *c = shared;
    c->pieces = is_shared ? hd_least(threads, items_of(c)) : 1;
    c->piece_bytes = (size_t)hd_pieces(piece_layout_of(c).elements, SLACK) * SLACK * sizeof(float);
}

void hd_conv_run_winograd(const hd_conv_work *c) {
    work w = {.c = c, .window = window_of(c), .layout = piece_layout_of(c), .items = items_of(c)};
    hd_parallel(c->pieces, run_winograd_piece, &w);
}
