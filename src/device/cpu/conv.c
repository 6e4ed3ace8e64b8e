/* Convolution as a matrix product that is never written down: weight [out, taps x channels] times patches [taps x channels,
 * pixels]. A panel of pixels at a time is packed straight from the image, for a block of rows that stays in the
 * first-level cache, and meets all output channels there. A transposed convolution is the same with other taps (conv_plan.c). */
#include "device/cpu/conv.h"

#include <string.h>

enum { K_BLOCK = 192, PARALLEL = 1 << 16 };

typedef struct conv_job {
    const hd_gemm_kernels *kernels;
    size_t bytes;
    int64_t groups, channels, rows; /* input channels and output channels of a group */
    int64_t out[3], out_step[3];
    hd_patch_map map; /* its grid is that of a phase */
    hd_add_run_kernel add_run;
    const char *x, *weight, *bias;
    char *y;
    int64_t weight_row, weight_channel, weight_group; /* strides in elements */
    hd_conv_plan plan;
    int64_t batch, strips;
    char *packed;      /* weights: [group][tap of a phase][strip][channel][mr], strips of a phase together */
    char *room;        /* per piece: a panel, then a tile of C for all output channels */
    int64_t room_size; /* in elements */
    int64_t items, pieces;
} conv_job;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static char *element(const void *base, int64_t at, size_t bytes) { return (char *)base + at * (int64_t)bytes; }

/* ---- weights ------------------------------------------------------------------------------------------------------------- */
static char *packed_strip(const conv_job *j, int64_t group, const hd_conv_phase *p, int64_t strip) {
    const int64_t of_tap = j->strips * j->kernels->mr * j->channels;
    return element(j->packed,
                   (group * j->plan.tap_count + p->tap0) * of_tap + strip * p->taps * j->channels * j->kernels->mr,
                   j->bytes);
}

static void pack_weights(void *context, int64_t begin, int64_t end) { /* items: group, phase, strip */
    const conv_job *j = context;
    const int64_t mr = j->kernels->mr;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t strip = i % j->strips, group = i / j->strips / j->plan.phase_count;
        const hd_conv_phase *p = &j->plan.phases[i / j->strips % j->plan.phase_count];
        char *to = packed_strip(j, group, p, strip);
        for (int64_t t = 0; t < p->taps; ++t)
            j->kernels->pack_a(
                element(to, t * j->channels * mr, j->bytes),
                element(j->weight, group * j->weight_group + strip * mr * j->weight_row + j->plan.taps[p->tap0 + t].at,
                        j->bytes),
                least(mr, j->rows - strip * mr), j->channels, j->weight_row, j->weight_channel);
    }
}

/* ---- a panel of pixels ------------------------------------------------------------------------------------------------------ */
/* The next pixels of a panel that lie in one image. */
typedef struct stretch {
    int64_t image, first, count, at; /* at: the column of the panel */
} stretch;

static bool next_stretch(const hd_conv_phase *p, int64_t panel, int64_t columns, stretch *s) {
    const int64_t pixels = hd_volume(p->grid), done = s->at + s->count;
    if (done >= columns) return false;
    *s = (stretch){(panel + done) / pixels, (panel + done) % pixels, columns - done, done};
    s->count = least(s->count, pixels - s->first);
    return true;
}

/* Rows [k0, k0 + kc) of the patches, at `columns` pixels from `first` on. */
static void pack_patches(const conv_job *j, int64_t group, const hd_conv_phase *p, int64_t k0, int64_t kc,
                         int64_t first, int64_t columns, char *panel) {
    const int64_t nr = j->kernels->nr;
    hd_patch_map map = j->map;
    memcpy(map.grid, p->grid, sizeof map.grid);
    for (stretch s = {0}; next_stretch(p, first, columns, &s);)
        for (int64_t k = k0; k < k0 + kc;) {
            const int64_t t = k / j->channels, channel = k % j->channels,
                          run = least(j->channels - channel, k0 + kc - k);
            const int64_t plane = (s.image * j->groups + group) * j->channels + channel;
            hd_patches(&map, j->plan.taps[p->tap0 + t].base, s.first, s.count,
                       element(j->x, plane * map.plane, j->bytes), run, element(panel, (k - k0) * nr + s.at, j->bytes),
                       nr);
            k += run;
        }
}

static void fill_bias(const conv_job *j, int64_t group, char *c, int64_t ldc, int64_t columns) {
    for (int64_t r = 0; r < j->rows; ++r) {
        char *row = element(c, r * ldc, j->bytes);
        const char *value = element(j->bias, group * j->rows + r, j->bytes);
        if (j->bytes == 4)
            for (int64_t i = 0; i < columns; ++i) ((float *)row)[i] = *(const float *)value;
        else
            for (int64_t i = 0; i < columns; ++i) ((double *)row)[i] = *(const double *)value;
    }
}

/* A tile of C to its pixels: apart by the stride, of several images, or fewer than a panel has. */
static void scatter(const conv_job *j, int64_t group, const hd_conv_phase *p, const char *c, int64_t first,
                    int64_t columns) {
    const int64_t nr = j->kernels->nr, plane = hd_volume(j->out), pixels = hd_volume(p->grid);
    for (int64_t i = 0; i < columns; ++i) {
        const int64_t image = (first + i) / pixels, pixel = (first + i) % pixels;
        const int64_t grid[3] = {pixel / p->grid[2] / p->grid[1], pixel / p->grid[2] % p->grid[1], pixel % p->grid[2]};
        int64_t at = 0;
        for (int a = 0; a < 3; ++a) at = at * j->out[a] + p->first[a] + grid[a] * j->out_step[a];
        char *y = element(j->y, (image * j->groups + group) * j->rows * plane + at, j->bytes);
        if (j->bytes == 4)
            for (int64_t r = 0; r < j->rows; ++r) ((float *)y)[r * plane] = ((const float *)c)[r * nr + i];
        else
            for (int64_t r = 0; r < j->rows; ++r) ((double *)y)[r * plane] = ((const double *)c)[r * nr + i];
    }
}

/* C [rows, nr], `ldc` apart, from the packed weights and a panel that is packed block by block. */
static void multiply_panel(const conv_job *j, int64_t group, const hd_conv_phase *p, int64_t first, int64_t columns,
                           char *panel, char *c, int64_t ldc) {
    const int64_t mr = j->kernels->mr, nr = j->kernels->nr, k = p->taps * j->channels;
    for (int64_t k0 = 0; k0 < k; k0 += K_BLOCK) {
        const int64_t kc = least(K_BLOCK, k - k0);
        pack_patches(j, group, p, k0, kc, first, columns, panel);
        for (int64_t s = 0; s < j->strips; ++s) {
            const char *a = element(packed_strip(j, group, p, s), k0 * mr, j->bytes);
            char *to = element(c, s * mr * ldc, j->bytes);
            const int64_t rows = least(mr, j->rows - s * mr);
            const bool add = k0 > 0 || j->bias != NULL;
            if (rows == mr)
                j->kernels->tile(kc, a, panel, nr, to, ldc, add);
            else
                j->kernels->thin((int)rows, kc, a, 1, mr, panel, nr, to, ldc, add);
        }
    }
}

static void run_panel(const conv_job *j, char *room, int64_t group, const hd_conv_phase *p, int64_t index) {
    const int64_t nr = j->kernels->nr, plane = hd_volume(j->out), pixels = hd_volume(p->grid), first = index * nr;
    const int64_t columns = least(nr, j->batch * pixels - first), image = first / pixels;
    const bool direct = columns == nr && first % pixels + nr <= pixels && hd_volume(j->out_step) == 1;
    char *panel = room, *c = element(room, K_BLOCK * nr, j->bytes);
    if (direct) c = element(j->y, (image * j->groups + group) * j->rows * plane + first % pixels, j->bytes);
    const int64_t ldc = direct ? plane : nr;
    if (columns < nr) memset(panel, 0, (size_t)(K_BLOCK * nr) * j->bytes); /* what is computed aside is numbers, too */
    if (j->bias != NULL) fill_bias(j, group, c, ldc, nr);
    if (j->bias == NULL && j->channels == 0)
        for (int64_t r = 0; r < j->rows; ++r) memset(element(c, r * ldc, j->bytes), 0, (size_t)nr * j->bytes);
    multiply_panel(j, group, p, first, columns, panel, c, ldc);
    if (!direct) scatter(j, group, p, c, first, columns);
}

/* Pixels of all images follow each other, so that small images fill panels, too. */
static int64_t panels_of(const conv_job *j, const hd_conv_phase *p) {
    return (j->batch * hd_volume(p->grid) + j->kernels->nr - 1) / j->kernels->nr;
}

static void run_piece(void *context, int64_t piece) { /* items: group, phase, panel */
    const conv_job *j = context;
    char *room = element(j->room, piece * j->room_size, j->bytes);
    const int64_t begin = j->items * piece / j->pieces, end = j->items * (piece + 1) / j->pieces,
                  of_group = j->items / j->groups;
    for (int64_t i = begin; i < end; ++i) {
        const hd_conv_phase *p = j->plan.phases;
        int64_t panel = i % of_group;
        for (; panel >= panels_of(j, p); ++p) panel -= panels_of(j, p);
        run_panel(j, room, i / of_group, p, panel);
    }
}

/* ---- the call -------------------------------------------------------------------------------------------------------------------- */
/* Pixels that no tap reaches, when a transposed convolution strides further than its kernel: the bias alone. */
static void fill_all(const conv_job *j, const hd_conv_sizes *s) {
    const int64_t plane = hd_volume(j->out);
    if (j->bias == NULL) {
        memset(j->y, 0, (size_t)(s->batch * j->groups * j->rows * plane) * j->bytes);
        return;
    }
    for (int64_t i = 0; i < s->batch * j->groups; ++i)
        fill_bias(j, i % j->groups, element(j->y, i * j->rows * plane, j->bytes), plane, plane);
}

/* ---- one channel to one channel: nothing to share, so rows are added up where they go --------------------------------------------- */
static void add_tap(const conv_job *j, const hd_conv_tap *t, const char *factor, const char *x, char *y, int64_t row) {
    const int64_t z = row / j->out[1] * j->map.step[0] + t->base[0],
                  line = row % j->out[1] * j->map.step[1] + t->base[1], step = j->map.step[2];
    if (z < 0 || z >= j->map.image[0] || line < 0 || line >= j->map.image[1]) return;
    const int64_t begin = t->base[2] >= 0 ? 0 : least((-t->base[2] + step - 1) / step, j->out[2]),
                  room = j->map.image[2] - t->base[2], end = room <= 0 ? 0 : least((room + step - 1) / step, j->out[2]);
    if (begin < end)
        j->add_run(element(y, begin, j->bytes),
                   element(x, (z * j->map.image[1] + line) * j->map.image[2] + t->base[2] + begin * step, j->bytes),
                   factor, end - begin, step);
}

static void run_planes(void *context, int64_t begin, int64_t end) { /* items: image and channel */
    const conv_job *j = context;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i % j->groups, rows = j->out[0] * j->out[1];
        const char *x = element(j->x, i * j->map.plane, j->bytes);
        for (int64_t row = 0; row < rows; ++row) {
            char *y = element(j->y, (i * rows + row) * j->out[2], j->bytes);
            if (j->bias != NULL)
                fill_bias(j, group, y, j->out[2], j->out[2]);
            else
                memset(y, 0, (size_t)j->out[2] * j->bytes);
            for (int64_t t = 0; t < j->plan.tap_count; ++t)
                add_tap(j, &j->plan.taps[t], element(j->weight, group * j->weight_group + j->plan.taps[t].at, j->bytes),
                        x, y, row);
        }
    }
}

static void run_depthwise(conv_job *j) {
    hd_parallel_range(j->batch * j->groups, PARALLEL / (hd_volume(j->out) * j->plan.tap_count) + 1, run_planes, j);
}

static conv_job describe(const hd_conv_sizes *s, bool transposed, hd_dtype dtype) {
    const bool is_f32 = dtype == HD_F32;
    const int64_t taps = hd_volume(s->kernel);
    conv_job j = {
        .kernels = is_f32 ? &hd_kernels()->gemm_f32 : &hd_kernels()->gemm_f64,
        .bytes = hd_dtype_bytes[dtype],
        .batch = s->batch,
        .groups = s->groups,
        .channels = transposed ? s->result_channels : s->image_channels,
        .rows = transposed ? s->image_channels : s->result_channels,
        .map = {.runs = is_f32 ? hd_kernels()->runs_4 : hd_kernels()->runs_8, .bytes = hd_dtype_bytes[dtype]}};
    j.add_run = is_f32 ? hd_kernels()->add_run_f32 : hd_kernels()->add_run_f64;
    /* weight is [result channels, image channels of a group, taps], whichever of them comes out */
    j.weight_group = s->result_channels * s->image_channels * taps;
    j.weight_row = transposed ? taps : s->image_channels * taps;
    j.weight_channel = transposed ? s->image_channels * taps : taps;
    for (int a = 0; a < 3; ++a) {
        j.map.image[a] = transposed ? s->result[a] : s->image[a];
        j.map.step[a] = transposed ? 1 : s->stride[a];
        j.out[a] = transposed ? s->image[a] : s->result[a];
        j.out_step[a] = transposed ? s->stride[a] : 1;
    }
    j.map.plane = hd_volume(j.map.image);
    j.strips = (j.rows + j.kernels->mr - 1) / j.kernels->mr;
    return j;
}

hd_error hd_cpu_convolve(hd_thread *thread, const hd_conv_sizes *s, bool transposed, hd_dtype dtype, const void *x,
                         const void *weight, const void *bias, void *y) {
    conv_job j = describe(s, transposed, dtype);
    j.x = x, j.weight = weight, j.bias = bias, j.y = y;
    HD_TRY(hd_conv_plan_make(thread, s, transposed, &j.plan));
    if (j.channels == 1 && j.rows == 1 && hd_volume(j.out_step) == 1) {
        run_depthwise(&j);
        hd_block_release(thread, j.plan.block);
        return HD_OK;
    }
    int64_t reached = 0;
    for (int64_t f = 0; f < j.plan.phase_count; ++f) {
        reached += hd_volume(j.plan.phases[f].grid);
        j.items += j.groups * panels_of(&j, &j.plan.phases[f]);
    }
    if (reached < hd_volume(j.out)) fill_all(&j, s);
    const int64_t mr = j.kernels->mr, nr = j.kernels->nr;
    const int64_t weights = j.groups * j.plan.tap_count * j.strips * mr * j.channels;
    const double work = (double)j.items * (double)(j.rows * nr * j.channels) * (double)j.plan.tap_count;
    j.pieces = work < PARALLEL ? 1 : least(j.items, 4 * hd_pool_threads());
    j.room_size = (K_BLOCK + j.strips * mr) * nr;
    hd_block *room = hd_block_new(thread, (size_t)(weights + j.pieces * j.room_size) * j.bytes + 64);
    if (room != NULL && j.items > 0) {
        j.room = hd_block_data(room);
        j.packed = element(j.room, j.pieces * j.room_size, j.bytes);
        const int64_t strips = j.groups * j.plan.phase_count * j.strips;
        hd_parallel_range(strips, PARALLEL / (weights / strips + 1) + 1, pack_weights, &j);
        hd_parallel(j.pieces, run_piece, &j);
    }
    if (room != NULL) hd_block_release(thread, room);
    hd_block_release(thread, j.plan.block);
    return room != NULL ? HD_OK : HD_ERROR_MEMORY;
}

/* Spatial axes that a call lacks come first, with size 1. */
static hd_conv_sizes sizes_of(const hd_conv_attributes *a, const hd_shape *image, const hd_shape *result,
                              const int64_t *kernel) {
    hd_conv_sizes s = {.batch = image->size[0],
                       .groups = a->groups,
                       .image_channels = image->size[1] / a->groups,
                       .result_channels = result->size[1] / a->groups};
    const int missing = 3 - a->stride.rank;
    for (int i = 0; i < 3; ++i) {
        const int from = i - missing;
        s.image[i] = from < 0 ? 1 : image->size[from + 2];
        s.result[i] = from < 0 ? 1 : result->size[from + 2];
        s.kernel[i] = from < 0 ? 1 : kernel[from];
        s.stride[i] = from < 0 ? 1 : a->stride.size[from];
        s.dilation[i] = from < 0 ? 1 : a->dilation.size[from];
        s.before[i] = from < 0 ? 0 : a->padding.size[2 * from];
    }
    return s;
}

hd_error hd_cpu_conv(hd_thread *thread, hd_call *call) {
    const hd_conv_attributes *a = call->attributes;
    const hd_op_id id = (hd_op_id)call->op->id;
    hd_cpu_operands o;
    HD_TRY(hd_cpu_operands_begin(thread, call, 0, &o));
    const hd_shape *first = &call->inputs[0]->layout.shape, *second = &call->inputs[1]->layout.shape,
                   *y = &call->shape[0];
    hd_error status = HD_OK;
    if (o.out->count == 0) {
        /* nothing to do */
    } else if (id == HD_OP_conv_weight_gradient) {
        const hd_conv_sizes s = sizes_of(a, first, second, a->extra.size);
        status = hd_cpu_conv_weight(thread, &s, o.as, o.from[0], o.from[1], o.to);
    } else {
        const bool transposed = id == HD_OP_conv_transpose;
        const hd_conv_sizes s = sizes_of(a, transposed ? y : first, transposed ? first : y, second->size + 2);
        status = hd_cpu_convolve(thread, &s, transposed, o.as, o.from[0], o.from[1], o.from[2], o.to);
    }
    return hd_cpu_operands_end(thread, call, &o, status);
}
