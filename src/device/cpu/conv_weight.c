/* The gradient of a convolution's weight: gradient [out, pixels] times patches^T [pixels, taps x channels], summed
 * over images. Pixels run along memory on both sides, so both are transposed when they are packed; a block of the
 * gradient is packed once for all the columns that a thread has. Every column is one thread's, so that the sum has
 * one order. */
#include "device/cpu/conv.h"

#include <string.h>

enum { PIXELS = 256, PARALLEL = 1 << 17, PART_PANELS = 16 };

typedef struct weight_job {
    const hd_gemm_kernels *kernels;
    const hd_conv_sizes *s;
    hd_patch_map map;
    size_t bytes;
    const char *image, *gradient;
    char *out;
    int64_t columns, panels, strips; /* columns: taps x channels; a tap's channels lie together */
    char *workspace; /* per piece: patches, their panel, the gradient's strips, then sums of a panel each */
    int64_t workspace_size, most_panels; /* in elements; of a piece */
    int64_t units, pieces, group_parts;
} weight_job;

static char *element(const void *base, int64_t at, size_t bytes) { return (char *)base + at * (int64_t)bytes; }

/* Columns of one panel at a block of pixels, as [pixel][nr]. */
static void pack_panel(const weight_job *j, const char *x, int64_t panel, int64_t first, int64_t count, char *rows,
                       char *packed) {
    const hd_conv_sizes *s = j->s;
    const int64_t nr = j->kernels->nr, begin = panel * nr, end = hd_least(begin + nr, j->columns);
    for (int64_t k = begin; k < end;) {
        const int64_t t = k / s->image_channels, channel = k % s->image_channels,
                      run = hd_least(s->image_channels - channel, end - k);
        const int64_t at[3] = {t / s->kernel[2] / s->kernel[1], t / s->kernel[2] % s->kernel[1], t % s->kernel[2]};
        int64_t base[3];
        for (int a = 0; a < 3; ++a) base[a] = at[a] * s->dilation[a] - s->before[a];
        hd_patches(&j->map, base, hd_patch_pixel_of(&j->map, first), count,
                   element(x, channel * j->map.plane, j->bytes), run, element(rows, (k - begin) * PIXELS, j->bytes),
                   PIXELS);
        k += run;
    }
    j->kernels->pack_b(packed, rows, count, end - begin, 1, PIXELS);
}

static void add_block(const weight_job *j, const char *strips, const char *packed, int64_t count, char *sums) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr;
    for (int64_t i = 0; i < j->strips; ++i) {
        const int64_t rows = hd_least(mr, j->s->result_channels - i * mr);
        const char *a = element(strips, i * mr * PIXELS, j->bytes);
        char *c = element(sums, i * mr * nr, j->bytes);
        if (rows == mr)
            j->kernels->tile(count, a, packed, nr, c, nr, true);
        else
            j->kernels->thin((int)rows, count, a, 1, mr, packed, nr, c, nr, true);
    }
}

static void store(const weight_job *j, int64_t group, int64_t panel, const char *sums) {
    const hd_conv_sizes *s = j->s;
    const int64_t nr = j->kernels->nr, taps = hd_volume(s->kernel), begin = panel * nr,
                  end = hd_least(begin + nr, j->columns);
    for (int64_t r = 0; r < s->result_channels; ++r)
        for (int64_t k = begin; k < end; ++k) {
            const int64_t to = ((group * s->result_channels + r) * s->image_channels + k % s->image_channels) * taps +
                               k / s->image_channels;
            memcpy(element(j->out, to, j->bytes), element(sums, r * nr + k - begin, j->bytes), j->bytes);
        }
}

/* A part of the columns of a group. */
static void run_unit(const weight_job *j, char *rows, int64_t unit) {
    const hd_conv_sizes *s = j->s;
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, pixels = hd_volume(s->result),
                  group = unit / j->group_parts, part = unit % j->group_parts;
    const int64_t panel0 = j->panels * part / j->group_parts, panel1 = j->panels * (part + 1) / j->group_parts;
    char *packed = element(rows, nr * PIXELS, j->bytes), *strips = element(packed, nr * PIXELS, j->bytes),
         *sums = element(strips, j->strips * mr * PIXELS, j->bytes);
    const int64_t panel_size = j->strips * mr * nr;
    memset(sums, 0, (size_t)((panel1 - panel0) * panel_size) * j->bytes);
    for (int64_t n = 0; n < s->batch; ++n) {
        const char *x = element(j->image, (n * s->groups + group) * s->image_channels * j->map.plane, j->bytes);
        const char *g = element(j->gradient, (n * s->groups + group) * s->result_channels * pixels, j->bytes);
        for (int64_t first = 0; first < pixels; first += PIXELS) {
            const int64_t count = hd_least(PIXELS, pixels - first);
            for (int64_t i = 0; i < j->strips; ++i)
                j->kernels->pack_a(element(strips, i * mr * PIXELS, j->bytes),
                                   element(g, i * mr * pixels + first, j->bytes),
                                   hd_least(mr, s->result_channels - i * mr), count, pixels, 1);
            for (int64_t panel = panel0; panel < panel1; ++panel) {
                pack_panel(j, x, panel, first, count, rows, packed);
                add_block(j, strips, packed, count, element(sums, (panel - panel0) * panel_size, j->bytes));
            }
        }
    }
    for (int64_t panel = panel0; panel < panel1; ++panel)
        store(j, group, panel, element(sums, (panel - panel0) * panel_size, j->bytes));
}

static void run_conv_weight_piece(void *context, int64_t piece) {
    const weight_job *j = context;
    char *workspace = element(j->workspace, piece * j->workspace_size, j->bytes);
    for (int64_t unit = j->units * piece / j->pieces; unit < j->units * (piece + 1) / j->pieces; ++unit)
        run_unit(j, workspace, unit);
}

hd_error hd_cpu_conv_weight(hd_thread *thread, const hd_conv_sizes *s, hd_dtype dtype, const void *image,
                            const void *gradient, void *out) {
    const bool is_f32 = dtype == HD_F32;
    bool done = false;
    if (is_f32) HD_TRY(hd_cpu_conv_weight_lines(thread, s, image, gradient, out, &done));
    if (done) return HD_OK;
    weight_job j = {.kernels = is_f32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64,
                    .s = s,
                    .bytes = hd_dtype_bytes[dtype],
                    .image = image,
                    .gradient = gradient,
                    .out = out};
    j.map = (hd_patch_map){.runs = is_f32 ? hd_kernels()->runs_4 : hd_kernels()->runs_8, .bytes = j.bytes};
    memcpy(j.map.image, s->image, sizeof s->image);
    memcpy(j.map.grid, s->result, sizeof s->result);
    memcpy(j.map.step, s->stride, sizeof s->stride);
    j.map.plane = hd_volume(s->image);
    const int64_t mr = j.kernels->mr, nr = j.kernels->nr;
    j.columns = s->image_channels * hd_volume(s->kernel);
    j.panels = hd_pieces(j.columns, nr);
    j.strips = hd_pieces(s->result_channels, mr);
    const double work =
        (double)(s->batch * s->groups * s->result_channels) * (double)j.columns * (double)hd_volume(s->result);
    /* more than threads, since their cores may differ, unless packing the gradient for each of them would cost more */
    const int64_t threads = work < PARALLEL ? 1 : hd_pool_threads(),
                  wanted = threads > 1 && s->groups * j.panels >= PART_PANELS * threads ? 2 * threads : threads;
    j.group_parts = hd_least(j.panels, hd_pieces(wanted, s->groups));
    j.units = s->groups * j.group_parts;
    j.pieces = hd_least(j.units, wanted);
    j.most_panels = hd_pieces(j.panels, j.group_parts);
    j.workspace_size = 2 * nr * PIXELS + j.strips * mr * (PIXELS + j.most_panels * nr);
    hd_block *workspace = hd_block_new(thread, (size_t)(j.pieces * j.workspace_size) * j.bytes);
    if (workspace == NULL) return HD_ERROR_MEMORY;
    j.workspace = hd_block_data(workspace);
    hd_parallel(j.pieces, run_conv_weight_piece, &j);
    hd_block_release(thread, workspace);
    return HD_OK;
}
