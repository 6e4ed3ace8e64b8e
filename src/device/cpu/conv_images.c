/* Convolutions of small images, of which there are many: an image to a lane. The images of a block are laid out as
 * [pixel][channel][image], in which what a pixel of the result sees, tap by tap, is rows of a panel of the matrix
 * product as they lie: nothing is packed, and what lies outside the image is not multiplied. Small images have much of
 * that: of the taps of 3 x 3 windows in 4 x 4 pixels three in ten. */
#include "device/cpu/conv.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    K_BLOCK = 256,           /* rows that meet all output channels: they stay in the first-level cache */
    ITEM_BYTES = 512 * 1024, /* images and results of an item, for the second-level cache */
    PIXELS_AT_ONCE = 8,      /* that are turned together, of all images: these lie far apart, caches hold few such */
    IMAGES_AT_ONCE = 16      /* that are turned back and finished together */
};

/* Some lines of the result, of all output channels of a group in a block of images, and the lines of x that they
 * see. */
typedef struct item {
    int64_t group, image, images, line, lines, from, seen;
} item;

static int64_t lines_of(const int64_t size[3]) { return size[0] * size[1]; }
static int64_t blocks_of(const hd_conv_work *c) { return hd_pieces(c->batch, c->kernels->nr); }
static int64_t parts_of(const hd_conv_work *c) { return hd_pieces(lines_of(c->out), c->lines); }
static int64_t items_of(const hd_conv_work *c) { return c->groups * blocks_of(c) * parts_of(c); }

/* Where a pixel of the result sees x, if it does: a tap's line there. */
static bool line_of_tap(const hd_conv_work *c, int64_t line, const hd_conv_tap *tap, int64_t *to) {
    const int64_t z = line / c->out[1] * c->map.step[0] + tap->base[0],
                  y = line % c->out[1] * c->map.step[1] + tap->base[1];
    *to = z * c->map.image[1] + y;
    return z >= 0 && z < c->map.image[0] && y >= 0 && y < c->map.image[1];
}

static item item_at(const hd_conv_work *c, int64_t i) {
    const int64_t parts = parts_of(c), blocks = blocks_of(c);
    item t = {.group = i / parts / blocks,
              .image = i / parts % blocks * c->kernels->nr,
              .line = i % parts * c->lines,
              .from = lines_of(c->map.image)};
    t.images = hd_least(c->kernels->nr, c->batch - t.image);
    t.lines = hd_least(c->lines, lines_of(c->out) - t.line);
    int64_t end = 0, at;
    for (int64_t line = t.line; line < t.line + t.lines; ++line)
        for (int64_t k = 0; k < c->plan.tap_count; ++k)
            if (line_of_tap(c, line, &c->plan.taps[k], &at)) {
                t.from = hd_least(t.from, at);
                end = hd_most(end, at + 1);
            }
    t.seen = hd_most(end - t.from, 0);
    return t;
}

/* In blocks of 8 x 8, and what is left one by one. */
void hd_conv_turn(float *out, int64_t out_stride, const float *in, int64_t in_stride, int64_t rows, int64_t columns) {
    const int64_t some_rows = rows / 8 * 8, some_columns = columns / 8 * 8;
    hd_kernels()->transpose_4(out, out_stride, in, in_stride, some_rows, some_columns);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = r < some_rows ? some_columns : 0; k < columns; ++k)
            out[r * out_stride + k] = in[k * in_stride + r];
}

static void lay_out_images(const hd_conv_work *c, const item *t, float *out) {
    const int64_t nr = c->kernels->nr, width = c->map.image[2], pixels = t->seen * width;
    const float *x = (const float *)(const void *)c->x +
                     (t->image * c->groups + t->group) * c->channels * c->map.plane + t->from * width;
    if (t->images < nr) memset(out, 0, (size_t)(pixels * c->channels * nr) * c->bytes);
    for (int64_t i = 0; i < c->channels; ++i)
        for (int64_t p = 0; p < pixels; p += PIXELS_AT_ONCE)
            hd_conv_turn(out + (p * c->channels + i) * nr, c->channels * nr, x + i * c->map.plane + p,
                         c->groups * c->channels * c->map.plane, hd_least(PIXELS_AT_ONCE, pixels - p), t->images);
}

/* Adds to a pixel's results what `taps` neighbouring taps see, which begins at b. */
static void add_taps(const hd_conv_work *c, int64_t group, int64_t tap, int64_t taps, const float *b, float *to,
                     bool is_first) {
    const int64_t mr = c->kernels->mr, nr = c->kernels->nr, all = c->plan.tap_count * c->channels;
    for (int64_t k0 = 0, kc; k0 < taps * c->channels; k0 += kc) {
        kc = hd_least(K_BLOCK, taps * c->channels - k0);
        const char *a = hd_conv_element(c, c->packed, (group * c->strips * all + tap * c->channels + k0) * mr);
        for (int64_t s = 0; s < c->strips; ++s, a = hd_conv_element(c, a, all * mr)) {
            const int64_t rows = hd_least(mr, c->rows - s * mr);
            if (rows == mr)
                c->kernels->tile(kc, a, b + k0 * nr, nr, to + s * mr * nr, nr, !is_first || k0 > 0);
            else
                c->kernels->thin((int)rows, kc, a, 1, mr, b + k0 * nr, nr, to + s * mr * nr, nr, !is_first || k0 > 0);
        }
    }
}

/* The results of a pixel, [channel][image]: taps beside each other are one product. */
static void sum_pixel(const hd_conv_work *c, const item *t, int64_t line, int64_t column, const float *images,
                      float *to) {
    const int64_t nr = c->kernels->nr, width = c->map.image[2], count = c->plan.tap_count;
    bool is_first = true;
    for (int64_t k = 0, taps; k < count; k += taps) {
        const hd_conv_tap *tap = &c->plan.taps[k];
        const int64_t x = column * c->map.step[2] + tap->base[2];
        int64_t y;
        taps = 1;
        if (!line_of_tap(c, line, tap, &y) || x < 0 || x >= width) continue;
        while (k + taps < count && x + taps < width && tap[taps].base[0] == tap->base[0] &&
               tap[taps].base[1] == tap->base[1] && tap[taps].base[2] == tap->base[2] + taps)
            ++taps;
        add_taps(c, t->group, k, taps, images + ((y - t->from) * width + x) * c->channels * nr, to, is_first);
        is_first = false;
    }
    if (is_first) memset(to, 0, (size_t)(c->rows * nr) * c->bytes);
}

/* Results are turned back, in place where they go if that is known, and finished. */
static void finish_images(const hd_conv_work *c, const item *t, const float *results, float *turned) {
    const int64_t nr = c->kernels->nr, width = c->out[2], columns = t->lines * width, plane = hd_volume(c->out);
    for (int64_t i = 0; i < t->images; i += IMAGES_AT_ONCE) {
        const int64_t images = hd_least(IMAGES_AT_ONCE, t->images - i), of_image = c->groups * c->rows,
                      row = ((t->image + i) * c->groups + t->group) * c->rows;
        float *made = hd_cpu_product_address(c->epilogue, c->context, row, t->line * width),
              *to = made != NULL ? made : turned;
        const int64_t stride = made != NULL ? plane : columns,
                      apart = made != NULL ? of_image * plane : c->rows * columns;
        for (int64_t k = 0; k < c->rows; ++k)
            hd_conv_turn(to + k * stride, apart, results + k * nr + i, c->rows * nr, images, columns);
        for (int64_t k = 0; k < images; ++k)
            c->epilogue(c->context, to + k * apart, stride, row + k * of_image, c->rows, t->line * width, columns);
    }
}

/* ---- sharing it out ---------------------------------------------------------------------------------------------- */
/* Lines of x that so many lines of the result see, at most. */
static int64_t seen_by(const hd_conv_work *c, const hd_conv_sizes *s, int64_t lines) {
    if (c->out[0] > 1 || c->map.image[0] > 1) return lines_of(c->map.image);
    return hd_least(c->map.image[1], (lines - 1) * c->map.step[1] + (s->kernel[1] - 1) * s->dilation[1] + 1);
}
static int64_t elements_seen(const hd_conv_work *c, const hd_conv_sizes *s, int64_t lines) {
    return seen_by(c, s, lines) * c->map.image[2] * c->channels * c->kernels->nr;
}
static int64_t elements_made(const hd_conv_work *c, int64_t lines, int64_t images) {
    return lines * c->out[2] * c->rows * images;
}
static int64_t item_elements(const hd_conv_work *c, const hd_conv_sizes *s, int64_t lines) {
    return elements_seen(c, s, lines) + elements_made(c, lines, c->kernels->nr) +
           elements_made(c, lines, IMAGES_AT_ONCE);
}

/* How many lines an item can have: all of them, or what surely fits. */
static int64_t most_lines(const hd_conv_work *c, const hd_conv_sizes *s) {
    const int64_t all = lines_of(c->out), fits = ITEM_BYTES / (int64_t)c->bytes, one = item_elements(c, s, 1);
    if (item_elements(c, s, all) <= fits) return all;
    const int64_t more = c->map.step[1] * c->map.image[2] * c->channels * c->kernels->nr +
                         elements_made(c, 1, c->kernels->nr + IMAGES_AT_ONCE);
    return one > fits ? 0 : hd_least(all, 1 + (fits - one) / more);
}

/* The part of all pairs of a pixel and a tap that lie in the image. */
static double part_seen(const hd_conv_work *c, const hd_conv_sizes *s) {
    double part = 1;
    for (int a = 0; a < 3; ++a) {
        int64_t seen = 0;
        for (int64_t k = 0; k < s->kernel[a]; ++k) { /* places i with 0 <= i * stride + at < image */
            const int64_t at = k * s->dilation[a] - s->before[a], stride = s->stride[a];
            const int64_t first = at < 0 ? hd_pieces(-at, stride) : 0,
                          end = at < s->image[a] ? hd_least(s->result[a], hd_pieces(s->image[a] - at, stride)) : 0;
            seen += hd_most(end - first, 0);
        }
        part *= (double)seen / (double)(s->kernel[a] * c->out[a]);
    }
    return part;
}

/* Measured, in multiplications: turning an element, and a call for the taps of a line. */
enum { TURN_COST = 16, CALL_COST = 500, ROW_COST = 300 };
static double cost_of_item(const hd_conv_work *c, const hd_conv_sizes *s, int64_t lines) {
    const double pixels = (double)(lines * c->out[2]), nr = c->kernels->nr,
                 made = (double)elements_made(c, lines, c->kernels->nr),
                 calls = pixels * (double)(s->kernel[0] * s->kernel[1] * hd_pieces(c->rows, c->kernels->mr));
    return part_seen(c, s) * made * (double)(c->channels * c->plan.tap_count) + CALL_COST * calls +
           TURN_COST * (made + (double)elements_seen(c, s, lines)) + ROW_COST * (double)c->rows * nr;
}

bool hd_conv_takes_images(const hd_conv_work *c, const hd_conv_sizes *s) {
    return c->bytes == 4 && c->unit == NULL && !hd_conv_is_apart(c) && c->channels > 0 && c->rows > 0 &&
           c->plan.tap_count > 0 && hd_volume(c->out) > 0 && most_lines(c, s) > 0;
}

/* The other ways: patches are packed a run of a line at a time. */
enum { PATCH_COST = 10, RUN_COST = 240, TAP_COST = 1200, WIN_PERCENT = 120 };
static double cost_of_tiles(const hd_conv_work *c) {
    const double pixels = (double)(c->batch * hd_volume(c->out)), k = (double)(c->channels * c->plan.tap_count),
                 runs = RUN_COST + (double)TAP_COST / (double)c->channels,
                 patch = c->plan.tap_count > 1 ? PATCH_COST + runs / (double)c->out[2] : PATCH_COST;
    return (double)c->groups * (k * pixels * ((double)c->rows + patch) + ROW_COST * (double)(c->rows * c->batch));
}

bool hd_conv_suits_images(const hd_conv_work *c, const hd_conv_sizes *s, bool than_winograd) {
    const int64_t lines = most_lines(c, s);
    const double items = (double)(c->groups * blocks_of(c)) * (double)lines_of(c->out) / (double)lines,
                 other = than_winograd ? hd_conv_winograd_cost(c) : cost_of_tiles(c);
    return items * cost_of_item(c, s, lines) * WIN_PERCENT < other * 100;
}

/* As many lines as fit, or for several threads fewer, whose items lay out some lines of x twice. */
static double choose_lines(hd_conv_work *c, const hd_conv_sizes *s, int64_t threads) {
    const int64_t all = lines_of(c->out), copies = c->groups * blocks_of(c),
                  least_parts = hd_pieces(all, most_lines(c, s));
    double least = INFINITY;
    for (int64_t parts = least_parts; parts < least_parts + (threads > 1 ? 2 * threads : 1); ++parts) {
        const int64_t lines = hd_pieces(all, hd_least(parts, all)), rest = all % lines;
        const double cost = hd_conv_cost_shared(cost_of_item(c, s, lines), all / lines * copies,
                                                cost_of_item(c, s, rest), rest > 0 ? copies : 0, threads);
        if (cost >= least) continue;
        least = cost;
        c->lines = lines;
    }
    return least;
}

void hd_conv_cut_images(hd_conv_work *c, const hd_conv_sizes *s, int threads) {
    c->strips = hd_pieces(c->rows, c->kernels->mr);
    hd_conv_work shared = *c;
    const double alone = choose_lines(c, s, 1);
    const bool is_shared = threads > 1 && choose_lines(&shared, s, threads) < alone;
    if (is_shared) *c = shared;
    c->pieces = is_shared ? hd_least(threads, items_of(c)) : 1;
    c->piece_bytes = hd_whole_lines((size_t)item_elements(c, s, c->lines) * c->bytes);
    c->seen = elements_seen(c, s, c->lines);
}

typedef struct sharing {
    const hd_conv_work *c;
    _Atomic int64_t next;
} sharing;

static void run_conv_images_piece(void *context, int64_t piece) {
    sharing *s = context;
    const hd_conv_work *c = s->c;
    const int64_t nr = c->kernels->nr, items = items_of(c), width = c->out[2];
    float *images = (float *)(void *)(c->workspace + (size_t)piece * c->piece_bytes), *results = images + c->seen;
    for (int64_t i; (i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < items;) {
        const item t = item_at(c, i);
        lay_out_images(c, &t, images);
        for (int64_t k = 0; k < t.lines * width; ++k)
            sum_pixel(c, &t, t.line + k / width, k % width, images, results + k * c->rows * nr);
        finish_images(c, &t, results, results + elements_made(c, c->lines, nr));
    }
}

void hd_conv_run_images(const hd_conv_work *c) {
    sharing s = {.c = c};
    hd_parallel(c->pieces, run_conv_images_piece, &s);
}
