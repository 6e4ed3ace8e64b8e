/* The gradient of a convolution's weight where images are small and the window does not stride: x is laid out as
 * [line][column][channel], and what a line of taps sees at a pixel, its columns and their channels, is a row of a panel
 * of the matrix product as it lies. Between its lines is as much of nothing as the padding needs, and as much between
 * the lines of the gradient, so that an image is one run of rows. There 0 meets pixels that no tap sees: when a result
 * is no number, all is done by patches instead (conv_weight.c). Images are summed up in parts, whose number does not
 * depend on threads. */
#include "device/cpu/conv.h"

#include <math.h>
#include <string.h>

enum {
    ROWS = 256,               /* of an image that are multiplied in one go */
    IMAGE_BYTES = 128 * 1024, /* of an image, for the second-level cache with the sums */
    SUMS_BYTES = 256 * 1024,
    PART_WORK = 1 << 20,
    MOST_PARTS = 16
};

typedef struct line_job {
    const hd_gemm_kernels *kernels;
    const hd_conv_sizes *s;
    const float *image, *gradient;
    float *out;
    int64_t width, lead;                       /* of a line with the gap behind it; elements before the first */
    int64_t strips, panels;                    /* of the result's channels; of a line of taps */
    int64_t strip_size, image_size, sums_size; /* in elements */
    int64_t parts, part_size;
    float *workspace; /* of each part: sums, the gradient's strips, an image, and the same turned */
} line_job;

static void lay_out(const line_job *j, int64_t n, int64_t group, float *image, float *turned) {
    const hd_conv_sizes *s = j->s;
    const int64_t channels = s->image_channels, plane = s->image[1] * s->image[2], line = s->image[2] * channels;
    hd_conv_turn(turned, channels, j->image + (n * s->groups + group) * channels * plane, plane, plane, channels);
    for (int64_t y = 0; y < s->image[1]; ++y)
        memcpy(image + j->lead + y * j->width * channels, turned + y * line, (size_t)line * sizeof *image);
}

static void lay_out_gradient(const line_job *j, int64_t n, int64_t group, float *strips) {
    const hd_conv_sizes *s = j->s;
    const int64_t mr = j->kernels->mr, plane = s->result[1] * s->result[2];
    const float *g = j->gradient + (n * s->groups + group) * s->result_channels * plane;
    for (int64_t i = 0; i < j->strips; ++i)
        for (int64_t y = 0; y < s->result[1]; ++y)
            j->kernels->pack_a(strips + i * j->strip_size + y * j->width * mr, g + i * mr * plane + y * s->result[2],
                               hd_least(mr, s->result_channels - i * mr), s->result[2], plane, 1);
}

/* Rows [begin, end) of the gradient with a line of taps, whose first one sees `image` at row `begin`. */
static void add_rows(const line_job *j, int64_t begin, int64_t end, const float *strips, const float *image,
                     float *sums) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, channels = j->s->image_channels;
    for (int64_t p = 0; p < j->panels; ++p)
        for (int64_t i = 0; i < j->strips; ++i, sums += mr * nr) {
            const int64_t rows = hd_least(mr, j->s->result_channels - i * mr);
            const float *a = strips + i * j->strip_size + begin * mr, *b = image + p * nr;
            if (rows == mr)
                j->kernels->tile(end - begin, a, b, channels, sums, nr, true);
            else
                j->kernels->thin((int)rows, end - begin, a, 1, mr, b, channels, sums, nr, true);
        }
}

static void add_image(const line_job *j, const float *strips, const float *image, float *sums) {
    const hd_conv_sizes *s = j->s;
    const int64_t all = s->result[1] * j->width, of_line = j->panels * j->strips * j->kernels->mr * j->kernels->nr;
    for (int64_t first = 0; first < all; first += ROWS)
        for (int64_t k = 0; k < s->kernel[1]; ++k) {
            const int64_t away = k * s->dilation[1] - s->before[1], /* lines that this one sees further down */
                begin = hd_most(first, hd_most(0, -away) * j->width),
                          end = hd_least(first + ROWS, hd_least(s->result[1], s->image[1] - away) * j->width);
            if (begin < end)
                add_rows(j, begin, end, strips,
                         image + j->lead + (begin + away * j->width - s->before[2]) * s->image_channels,
                         sums + k * of_line);
        }
}

/* Part of the images of a group. */
static void run_part(void *context, int64_t index) {
    const line_job *j = context;
    const int64_t group = index / j->parts, part = index % j->parts, batch = j->s->batch;
    float *sums = j->workspace + index * j->part_size, *strips = sums + j->sums_size,
          *image = strips + j->strips * j->strip_size, *turned = image + j->image_size;
    memset(sums, 0, (size_t)j->part_size * sizeof *sums);
    for (int64_t n = batch * part / j->parts; n < batch * (part + 1) / j->parts; ++n) {
        lay_out(j, n, group, image, turned);
        lay_out_gradient(j, n, group, strips);
        add_image(j, strips, image, sums);
    }
}

/* A line of taps of one result channel. */
static void store_line(const line_job *j, const float *sums, int64_t line, int64_t r, float *out) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, channels = j->s->image_channels, width = j->s->kernel[2],
                  taps = j->s->kernel[1] * width;
    const float *row = sums + (line * j->panels * j->strips + r / mr) * mr * nr + r % mr * nr;
    int64_t in_panel = 0;
    for (int64_t t = 0; t < width; ++t)
        for (int64_t c = 0; c < channels; ++c, ++in_panel) {
            if (in_panel == nr) {
                in_panel = 0;
                row += j->strips * mr * nr;
            }
            out[c * taps + line * width + t] = row[in_panel];
        }
}

/* The sums of all parts, in their order; false when one is no number. */
static bool store_lines(const line_job *j, int64_t group) {
    const hd_conv_sizes *s = j->s;
    float *sums = j->workspace + group * j->parts * j->part_size;
    for (int64_t p = 1; p < j->parts; ++p)
        for (int64_t i = 0; i < j->sums_size; ++i) sums[i] += sums[p * j->part_size + i];
    const int64_t of_channel = s->image_channels * s->kernel[1] * s->kernel[2], count = s->result_channels * of_channel;
    float *out = j->out + group * count;
    for (int64_t r = 0; r < s->result_channels; ++r)
        for (int64_t k = 0; k < s->kernel[1]; ++k) store_line(j, sums, k, r, out + r * of_channel);
    bool finite = true;
    for (int64_t i = 0; i < count; ++i) finite &= out[i] - out[i] == 0; /* infinity less itself is no number */
    return finite;
}

/* ---- when it is quicker ------------------------------------------------------------------------------------------ */
/* In multiplications: turning an element of x or of the gradient; adding to sums that lie in memory; and the other way,
 * by patches, whose elements are brought together a run of a line at a time and then turned. */
enum {
    TURN_COST = 24,
    CALL_COST = 400,
    STORE_COST = 10,
    PATCH_COST = 26,
    RUN_COST = 240,
    TAP_COST = 1200,
    WIN_PERCENT = 120
};

static double cost_of_lines(const line_job *j) {
    const hd_conv_sizes *s = j->s;
    const double made = (double)(s->result_channels * s->result[1]), seen = (double)(s->image_channels * s->image[1]),
                 calls = (double)(s->kernel[1] * j->panels);
    return calls * (made * (double)(j->width * j->kernels->nr) + CALL_COST * (double)s->result_channels) +
           TURN_COST * (made + seen) * (double)j->width;
}

static double cost_of_patches(const line_job *j) {
    const hd_conv_sizes *s = j->s;
    const double columns = (double)(s->image_channels * s->kernel[1] * s->kernel[2]), nr = j->kernels->nr,
                 runs = RUN_COST + (double)TAP_COST / (double)s->image_channels;
    return (double)hd_volume(s->result) * ((double)s->result_channels * ceil(columns / nr) * nr +
                                           columns * (PATCH_COST + runs / (double)s->result[2]));
}

static bool describe(const hd_conv_sizes *s, line_job *j) {
    *j = (line_job){.kernels = &hd_kernels()->gemm_f32, .s = s};
    if (s->image[0] != 1 || s->kernel[0] != 1 || s->result[0] != 1 || s->before[0] != 0 || s->stride[1] != 1 ||
        s->stride[2] != 1 || s->dilation[2] != 1 || s->image_channels == 0 || s->batch == 0)
        return false;
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr,
                  after = s->result[2] + s->kernel[2] - 1 - s->before[2] - s->image[2],
                  gap = hd_most(0, hd_most(s->before[2], after));
    if (hd_most(gap, s->image[2]) > IMAGE_BYTES || s->image_channels > IMAGE_BYTES) return false;
    j->width = hd_most(s->image[2] + gap, s->result[2]);
    j->lead = hd_most(s->before[2], 0) * s->image_channels;
    j->strips = hd_pieces(s->result_channels, mr);
    j->panels = hd_pieces(s->kernel[2] * s->image_channels, nr);
    j->strip_size = s->result[1] * j->width * mr;
    j->image_size = j->lead + (s->image[1] * j->width + gap) * s->image_channels + j->panels * nr;
    j->sums_size = s->kernel[1] * j->panels * j->strips * mr * nr;
    if (j->image_size * 4 > IMAGE_BYTES || j->strips * j->strip_size * 4 > IMAGE_BYTES || j->sums_size * 4 > SUMS_BYTES)
        return false;
    const double work = (double)s->batch * (double)s->groups * cost_of_lines(j);
    j->parts = hd_least(hd_least(s->batch, MOST_PARTS), 1 + (int64_t)(work / PART_WORK));
    j->part_size =
        j->sums_size + j->strips * j->strip_size + j->image_size + s->image[1] * s->image[2] * s->image_channels;
    j->part_size = (int64_t)(hd_whole_lines((size_t)j->part_size * sizeof(float)) / sizeof(float));
    const double store = STORE_COST * (double)j->sums_size / (double)s->batch;
    return (cost_of_lines(j) + store) * WIN_PERCENT < cost_of_patches(j) * 100;
}

hd_error hd_cpu_conv_weight_lines(hd_thread *thread, const hd_conv_sizes *s, const void *image, const void *gradient,
                                  void *out, bool *done) {
    line_job j;
    *done = false;
    if (!describe(s, &j)) return HD_OK;
    j.image = image, j.gradient = gradient, j.out = out;
    hd_block *workspace = hd_block_new(thread, (size_t)(s->groups * j.parts * j.part_size) * sizeof(float));
    if (workspace == NULL) return HD_ERROR_MEMORY;
    j.workspace = hd_block_data(workspace);
    hd_parallel(s->groups * j.parts, run_part, &j);
    *done = true;
    for (int64_t group = 0; group < s->groups; ++group) *done = store_lines(&j, group) && *done;
    hd_block_release(thread, workspace);
    return HD_OK;
}
