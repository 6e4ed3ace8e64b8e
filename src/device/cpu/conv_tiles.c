/* Convolution as a matrix product that is never written down: weight [out, taps x channels] times patches [taps x
 * channels, pixels]. Some panels of pixels at a time are packed straight from the images, for a block of rows, and meet
 * all output channels there; so weights are read once for many pixels, and what is complete is finished while it is in
 * cache. A transposed convolution is the same with other taps (conv_plan.c). */
#include "device/cpu/conv.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    K_BLOCK = 256,    /* at most: a panel of patches, and a strip of weights, stay in the first-level cache together */
    UNIT_BLOCK = 128, /* the same for a matrix unit, whose parts are larger */
    ITEM_BYTES = 384 * 1024, /* results of an item, for the second-level cache with the weights that meet it */
    UNIT_ROWS = 32,          /* of a strip in one */
    MOST_PANELS = 16,
    PANELS_AT_ONCE = 4, /* packed together, where they can be */
    PARALLEL = 1 << 16
};

/* ---- weights ----------------------------------------------------------------------------------------------------- */
static int64_t strip_rows(const hd_conv_work *c) { return c->unit != NULL ? c->unit->mr : c->kernels->mr; }
static size_t packed_bytes(const hd_conv_work *c) { return c->unit != NULL ? c->unit->packed_bytes : c->bytes; }
/* Rows of patches at a time, all about equally long. */
static int64_t block_of(const hd_conv_work *c, int64_t k) {
    return c->unit != NULL ? UNIT_BLOCK : k == 0 ? 1 : hd_pieces(k, hd_pieces(k, K_BLOCK));
}

static char *strip_at(const hd_conv_work *c, const char *packed, int64_t group, const hd_conv_phase *p, int64_t strip,
                      int64_t k) {
    const int64_t mr = strip_rows(c), of_tap = c->strips * mr * c->channels;
    const int64_t offset = (group * c->plan.tap_count + p->tap0) * of_tap + (strip * p->taps * c->channels + k) * mr;
    return (char *)(uintptr_t)packed + (size_t)offset * packed_bytes(c);
}

/* [group][tap of a phase][strip][channel][mr], strips of a phase together */
size_t hd_conv_tiles_packed_size(const hd_conv_work *c) {
    return (size_t)(c->groups * c->plan.tap_count * c->strips * strip_rows(c) * c->channels) * packed_bytes(c);
}

typedef struct packing {
    const hd_conv_work *c;
    char *out;
} packing;

/* A matrix unit takes a block as a whole: its rows are brought together first. */
static void pack_for_unit(const hd_conv_work *c, char *out, const float *weight, const hd_conv_phase *p, int64_t k0,
                          int64_t kc, int64_t rows) {
    float some[UNIT_ROWS * UNIT_BLOCK];
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = 0; k < kc; ++k)
            some[i * kc + k] = weight[i * c->weight_row + c->plan.taps[p->tap0 + (k0 + k) / c->channels].at +
                                      (k0 + k) % c->channels * c->weight_channel];
    c->unit->from[HD_F32].pack_a(out, some, rows, kc, kc, 1);
}

static void pack_conv_strips(void *context, int64_t begin, int64_t end) { /* items: group, phase, strip */
    const packing *k = context;
    const hd_conv_work *c = k->c;
    const int64_t mr = strip_rows(c);
    for (int64_t i = begin; i < end; ++i) {
        const int64_t strip = i % c->strips, group = i / c->strips / c->plan.phase_count,
                      rows = hd_least(mr, c->rows - strip * mr);
        const hd_conv_phase *p = &c->plan.phases[i / c->strips % c->plan.phase_count];
        const char *weight = hd_conv_element(c, c->weight, group * c->weight_group + strip * mr * c->weight_row);
        for (int64_t k0 = 0; c->unit != NULL && k0 < p->taps * c->channels; k0 += UNIT_BLOCK)
            pack_for_unit(c, strip_at(c, k->out, group, p, strip, k0), (const float *)weight, p, k0,
                          hd_least(UNIT_BLOCK, p->taps * c->channels - k0), rows);
        for (int64_t t = 0; c->unit == NULL && t < p->taps; ++t)
            c->kernels->pack_a(strip_at(c, k->out, group, p, strip, t * c->channels),
                               hd_conv_element(c, weight, c->plan.taps[p->tap0 + t].at), rows, c->channels,
                               c->weight_row, c->weight_channel);
    }
}

void hd_conv_tiles_pack(const hd_conv_work *c, char *out) {
    packing k = {c, out};
    const int64_t strips = c->groups * c->plan.phase_count * c->strips,
                  size = (int64_t)(hd_conv_tiles_packed_size(c) / packed_bytes(c));
    if (size > 0) hd_parallel_range(strips, PARALLEL / (size / strips + 1) + 1, pack_conv_strips, &k);
}

/* ---- pixels ------------------------------------------------------------------------------------------------------ */
/* The next of some columns that are pixels of one image. */
typedef struct stretch {
    int64_t image, first, count, at; /* at: the column */
} stretch;

static bool next_stretch(const hd_conv_phase *p, int64_t begin, int64_t columns, stretch *s) {
    const int64_t pixels = hd_volume(p->grid), done = s->at + s->count;
    if (done >= columns) return false;
    *s = (stretch){(begin + done) / pixels, (begin + done) % pixels, columns - done, done};
    s->count = hd_least(s->count, pixels - s->first);
    return true;
}

void hd_conv_pack_panel(const hd_conv_work *c, int64_t group, const hd_conv_phase *p, int64_t k0, int64_t kc,
                        int64_t first, int64_t columns, char *panel) {
    const int64_t nr = c->kernels->nr;
    hd_patch_map map = c->map;
    memcpy(map.grid, p->grid, sizeof map.grid);
    if (columns < nr) memset(panel, 0, (size_t)(kc * nr) * c->bytes); /* what is computed aside is numbers, too */
    for (stretch s = {0}; next_stretch(p, first, columns, &s);) {
        const hd_patch_pixel pixel = hd_patch_pixel_of(&map, s.first);
        const int64_t plane = (s.image * c->groups + group) * c->channels;
        const hd_conv_tap *tap = &c->plan.taps[p->tap0 + k0 / c->channels];
        for (int64_t k = k0, channel = k0 % c->channels, run; k < k0 + kc; k += run, channel = 0, ++tap) {
            run = hd_least(c->channels - channel, k0 + kc - k);
            hd_patches(&map, tap->base, pixel, s.count, hd_conv_element(c, c->x, (plane + channel) * map.plane), run,
                       hd_conv_element(c, panel, (k - k0) * nr + s.at), nr);
        }
    }
}

/* A convolution with one tap that sees the images as they are. */
static bool sees_images(const hd_conv_work *c, const hd_conv_phase *p) {
    const int64_t *base = c->plan.taps[p->tap0].base;
    bool same = p->taps == 1;
    for (int a = 0; a < 3; ++a) same = same && base[a] == 0 && c->map.step[a] == 1 && p->grid[a] == c->map.image[a];
    return same;
}

/* The same for whole panels of one image that such a convolution sees: a channel at a time, since channels lie far
 * apart. */
static void copy_panels(const hd_conv_work *c, int64_t group, const hd_conv_phase *p, int64_t k0, int64_t kc,
                        int64_t first, int64_t panels, char *out) {
    const int64_t nr = c->kernels->nr, pixels = hd_volume(p->grid), image = first / pixels;
    const char *x = hd_conv_element(
        c, c->x, ((image * c->groups + group) * c->channels + k0) * c->map.plane + first - image * pixels);
    for (int64_t k = 0; k < kc; ++k)
        c->map.runs(hd_conv_element(c, out, k * nr), kc * nr, hd_conv_element(c, x, k * c->map.plane), nr, panels, nr,
                    1);
}

/* Packs one panel or several, at most `columns` pixels; how many panels. */
static int64_t pack_panels(const hd_conv_work *c, int64_t group, const hd_conv_phase *p, int64_t k0, int64_t kc,
                           int64_t first, int64_t columns, char *out) {
    const int64_t nr = c->kernels->nr, pixels = hd_volume(p->grid);
    const int64_t whole = hd_least(columns, pixels - first % pixels) / nr;
    if (whole > 1 && sees_images(c, p)) {
        copy_panels(c, group, p, k0, kc, first, hd_least(whole, PANELS_AT_ONCE), out);
        return hd_least(whole, PANELS_AT_ONCE);
    }
    hd_conv_pack_panel(c, group, p, k0, kc, first, hd_least(nr, columns), out);
    return 1;
}

/* ---- an item: some panels and all output channels of a group, or some of them ------------------------------------ */
typedef struct item {
    int64_t group;
    const hd_conv_phase *phase;
    int64_t first, columns; /* pixels of all images */
    int64_t strip, strips;  /* of output channels, */
    int64_t row, rows;      /* which these are, of the group */
} item;

/* The item's output channels of one panel, for rows [k0, k0 + kc) of the patches. */
static void multiply_conv_panel(const hd_conv_work *c, const item *t, int64_t k0, int64_t kc, const char *panel,
                                char *tile, int64_t stride, char *parts) {
    const hd_gemm_kernels *kernels = c->unit != NULL ? c->unit : c->kernels;
    const int64_t mr = kernels->mr, nr = kernels->nr;
    const char *b = c->unit != NULL ? parts : panel;
    for (int64_t s = 0; s < t->strips; ++s) {
        const char *a = strip_at(c, c->packed, t->group, t->phase, t->strip + s, k0);
        char *to = hd_conv_element(c, tile, s * mr * stride);
        const int64_t rows = hd_least(mr, t->rows - s * mr);
        if (s == 0 && c->unit != NULL) /* the first strip, which is whole, takes it apart on the way */
            kernels->from[HD_F32].first(kc, a, 1, mr, panel, nr, parts, to, stride, k0 > 0);
        else if (rows == mr)
            kernels->tile(kc, a, b, nr, to, stride, k0 > 0);
        else
            kernels->thin((int)rows, kc, a, 1, mr, b, nr, to, stride, k0 > 0);
    }
}

/* Memory of a piece: panels of patches, one of them in parts, and results. */
static size_t panels_bytes(const hd_conv_work *c) {
    return (size_t)(PANELS_AT_ONCE * K_BLOCK * c->kernels->nr) * c->bytes;
}
static size_t parts_bytes(const hd_conv_work *c) {
    return c->unit != NULL ? (size_t)(UNIT_BLOCK * c->unit->nr) * c->unit->packed_bytes : 0;
}

static void multiply(const hd_conv_work *c, const item *t, char *workspace, char *tile, int64_t stride) {
    const int64_t nr = c->kernels->nr, k = t->phase->taps * c->channels;
    char *parts = workspace + panels_bytes(c);
    if (k == 0) memset(tile, 0, (size_t)(t->rows * stride) * c->bytes);
    const int64_t block = block_of(c, k);
    for (int64_t k0 = 0; k0 < k; k0 += block) {
        const int64_t kc = hd_least(block, k - k0);
        for (int64_t at = 0; at < t->columns;) {
            const int64_t packed =
                pack_panels(c, t->group, t->phase, k0, kc, t->first + at, t->columns - at, workspace);
            for (int64_t i = 0; i < packed; ++i, at += nr)
                multiply_conv_panel(c, t, k0, kc, hd_conv_element(c, workspace, i * kc * nr),
                                    hd_conv_element(c, tile, at), stride, parts);
        }
    }
}

/* A tile to its pixels, which lie apart by the stride. */
static void scatter_pixels(const hd_conv_work *c, const item *t, const char *tile, int64_t stride) {
    const hd_conv_phase *p = t->phase;
    const int64_t row = t->group * c->rows + t->row; /* of an image */
    const int64_t plane = hd_volume(c->out), pixels = hd_volume(p->grid);
    const char *bias = c->bias == NULL ? NULL : hd_conv_element(c, c->bias, row);
    for (int64_t i = 0; i < t->columns; ++i) {
        const int64_t image = (t->first + i) / pixels, pixel = (t->first + i) % pixels;
        const int64_t grid[3] = {pixel / p->grid[2] / p->grid[1], pixel / p->grid[2] % p->grid[1], pixel % p->grid[2]};
        int64_t at = 0;
        for (int a = 0; a < 3; ++a) at = at * c->out[a] + p->first[a] + grid[a] * c->out_step[a];
        char *y = hd_conv_element(c, c->y, (image * c->groups * c->rows + row) * plane + at);
        if (c->bytes == 4)
            for (int64_t r = 0; r < t->rows; ++r)
                ((float *)y)[r * plane] =
                    ((const float *)tile)[r * stride + i] + (bias == NULL ? 0 : ((const float *)bias)[r]);
        else
            for (int64_t r = 0; r < t->rows; ++r)
                ((double *)y)[r * plane] =
                    ((const double *)tile)[r * stride + i] + (bias == NULL ? 0 : ((const double *)bias)[r]);
    }
}

/* Whole panels of one image that take one block of rows each are made where they go, when it is known where: writing
 * there goes on while the next are computed. More blocks would come back to lines that lie far apart. */
static bool made_in_place(const hd_conv_work *c, const item *t, char *panel) {
    const int64_t pixels = hd_volume(t->phase->grid), pixel = t->first % pixels, k = t->phase->taps * c->channels,
                  row = (t->first / pixels * c->groups + t->group) * c->rows + t->row;
    if (c->channels == 0 || k > block_of(c, k) || t->columns % c->kernels->nr != 0 || pixel + t->columns > pixels)
        return false;
    char *made = hd_cpu_product_address(c->epilogue, c->context, row, pixel);
    if (made == NULL) return false;
    multiply(c, t, panel, made, pixels);
    c->epilogue(c->context, made, pixels, row, t->rows, pixel, t->columns);
    return true;
}

static void run_item(const hd_conv_work *c, const item *t, char *workspace) {
    const int64_t width = c->panels * c->kernels->nr;
    char *tile = workspace + panels_bytes(c) + parts_bytes(c);
    if (!hd_conv_is_apart(c) && made_in_place(c, t, workspace)) return;
    multiply(c, t, workspace, tile, width);
    if (hd_conv_is_apart(c)) {
        scatter_pixels(c, t, tile, width);
        return;
    }
    for (stretch s = {0}; next_stretch(t->phase, t->first, t->columns, &s);)
        c->epilogue(c->context, hd_conv_element(c, tile, s.at), width,
                    (s.image * c->groups + t->group) * c->rows + t->row, t->rows, s.first, s.count);
}

/* ---- sharing it out ---------------------------------------------------------------------------------------------- */
/* Pixels of all images follow each other, so that small images fill panels, too. */
static int64_t items_of(const hd_conv_work *c, const hd_conv_phase *p) {
    return hd_pieces(c->batch * hd_volume(p->grid), c->panels * c->kernels->nr) * hd_pieces(c->strips, c->item_strips);
}

/* Number `index` of a phase: output channels, some panels. */
static item item_at(const hd_conv_work *c, int64_t group, const hd_conv_phase *p, int64_t index) {
    const int64_t width = c->panels * c->kernels->nr, all = c->batch * hd_volume(p->grid), runs = hd_pieces(all, width);
    item t = {.group = group, .phase = p, .first = index % runs * width, .strip = index / runs * c->item_strips};
    t.columns = hd_least(width, all - t.first);
    t.strips = hd_least(c->item_strips, c->strips - t.strip);
    t.row = t.strip * strip_rows(c);
    t.rows = hd_least(t.strips * strip_rows(c), c->rows - t.row);
    return t;
}

typedef struct sharing {
    const hd_conv_work *c;
    int64_t items;
    _Atomic int64_t next;
} sharing;

static void run_conv_tiles_piece(void *context, int64_t piece) { /* items: group, phase, those of it */
    sharing *s = context;
    const hd_conv_work *c = s->c;
    const int64_t of_group = s->items / c->groups;
    if (c->unit != NULL) c->unit->enter();
    for (int64_t i; (i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->items;) {
        const hd_conv_phase *p = c->plan.phases;
        int64_t index = i % of_group;
        for (; index >= items_of(c, p); ++p) index -= items_of(c, p);
        const item t = item_at(c, i / of_group, p, index);
        run_item(c, &t, c->workspace + (size_t)piece * c->piece_bytes);
    }
    if (c->unit != NULL) c->unit->leave();
}

/* Pixels that no tap reaches, when a transposed convolution strides further than its kernel: the bias alone. */
static void fill_all(const hd_conv_work *c) {
    const int64_t plane = hd_volume(c->out), planes = c->batch * c->groups * c->rows;
    for (int64_t i = 0; i < planes; ++i) {
        char *y = hd_conv_element(c, c->y, i * plane);
        if (c->bias == NULL)
            memset(y, 0, (size_t)plane * c->bytes);
        else
            for (int64_t k = 0; k < plane; ++k)
                memcpy(hd_conv_element(c, y, k), hd_conv_element(c, c->bias, i % (c->groups * c->rows)), c->bytes);
    }
}

/* What an item of so many panels and strips costs, in multiplications. Measured: packing an element of patches, which
 * lie side by side or apart, or of images as they are; and finishing a row of results, which takes a call or two. */
enum { APART_COST = 40, PATCH_COST = 16, IMAGE_COST = 10, ROW_COST = 300 };
static double cost_of_item(const hd_conv_work *c, int64_t panels, int64_t strips) {
    const double outputs = (double)hd_least(c->rows, strips * strip_rows(c)),
                 pixels = (double)(panels * c->kernels->nr),
                 k = (double)(c->channels * c->plan.tap_count) / (double)hd_volume(c->out_step);
    const double pack = c->map.step[2] > 1 ? APART_COST : c->plan.tap_count > 1 ? PATCH_COST : IMAGE_COST;
    return k * outputs * pixels + hd_conv_weight_cost(k * outputs * (double)packed_bytes(c)) + pack * k * pixels +
           ROW_COST * outputs;
}

/* How the work is cut for so many threads, and what it costs: as many panels as fit, of all output channels; for
 * several threads fewer, and fewer channels where there are few pixels, so that not every thread reads all weights. A
 * matrix unit takes panels apart with the first strip, which has to be whole, and that is dear: its items have all
 * channels. */
static double choose_items(hd_conv_work *c, int64_t threads) {
    const int64_t nr = c->kernels->nr, phases = hd_volume(c->out_step),
                  pixels = c->batch * hd_volume(c->out) / phases + 1, all = hd_pieces(pixels, nr);
    double least = INFINITY;
    const int64_t most_parts = threads > 1 && c->unit == NULL ? hd_least(c->strips, 2 * threads) : 1;
    for (int64_t parts = 1; parts <= most_parts; parts *= 2) {
        const int64_t strips = hd_pieces(c->strips, parts), outputs = hd_least(c->rows, strips * strip_rows(c)),
                      fits = hd_most(1, ITEM_BYTES / (nr * (int64_t)c->bytes) / (outputs + 1)),
                      copies = c->groups * phases * hd_pieces(c->strips, strips);
        for (int64_t panels = hd_least(fits, hd_least(MOST_PANELS, all)); panels > 0; --panels) {
            const double cost =
                hd_conv_cost_shared(cost_of_item(c, panels, strips), all / panels * copies,
                                    cost_of_item(c, all % panels, strips), all % panels > 0 ? copies : 0, threads);
            if (cost >= least) continue;
            least = cost;
            c->panels = panels;
            c->item_strips = strips;
        }
    }
    return least;
}

void hd_conv_cut_tiles(hd_conv_work *c, const hd_conv_sizes *sizes, int threads) {
    (void)sizes;
    const int64_t nr = c->kernels->nr, phases = hd_volume(c->out_step),
                  pixels = c->batch * hd_volume(c->out) / phases + 1;
    c->strips = hd_pieces(c->rows, strip_rows(c));
    hd_conv_work shared = *c;
    const double alone = choose_items(c, 1);
    const bool is_shared = threads > 1 && choose_items(&shared, threads) < alone;
    if (is_shared) *c = shared;
    const int64_t items =
        c->groups * phases * hd_pieces(pixels, c->panels * nr) * hd_pieces(c->strips, c->item_strips) + phases;
    c->pieces = is_shared ? hd_least(threads, items) : 1;
    const int64_t outputs = hd_least(c->rows, c->item_strips * strip_rows(c));
    c->piece_bytes = hd_whole_lines(panels_bytes(c) + parts_bytes(c) + (size_t)(outputs * c->panels * nr) * c->bytes);
}

void hd_conv_run_tiles(const hd_conv_work *c) {
    sharing s = {.c = c};
    int64_t reached = 0;
    for (int64_t f = 0; f < c->plan.phase_count; ++f) {
        reached += hd_volume(c->plan.phases[f].grid);
        s.items += c->groups * items_of(c, &c->plan.phases[f]);
    }
    if (reached < hd_volume(c->out)) fill_all(c);
    if (s.items > 0) hd_parallel(c->pieces, run_conv_tiles_piece, &s);
}
