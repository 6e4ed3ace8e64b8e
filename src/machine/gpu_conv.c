/* Convolutions on GPUs, as products in which a window of the image is a column: nothing is laid out in memory for
 * that. Of conv, A is the weight, k its channels and taps, and columns are pixels of all images. Of conv_transpose
 * the image is the result, and strides lie between the pixels of what is read. Of conv_weight_gradient A is the
 * gradient, k counts its pixels, and columns are channels and taps. */
#include "machine/gpu_product.h"

#include <string.h>

/* Spatial axes, of which those that a call lacks come first, with one element. */
typedef struct spatial {
    int64_t size[3], stride[3];
} spatial;
static spatial spatial_of(const hd_layout *l) {
    spatial s = {{1, 1, 1}, {0, 0, 0}};
    for (int i = 2; i < l->shape.rank; ++i) {
        s.size[i + 3 - l->shape.rank] = l->shape.size[i];
        s.stride[i + 3 - l->shape.rank] = l->stride[i];
    }
    return s;
}

typedef struct windows {
    int64_t step[3], dilation[3], before[3];
} windows;
static windows windows_of(const hd_conv_attributes *a) {
    windows w = {{1, 1, 1}, {1, 1, 1}, {0, 0, 0}};
    const int missing = 3 - a->stride.rank;
    for (int i = missing; i < 3; ++i) {
        w.step[i] = a->stride.size[i - missing];
        w.dilation[i] = a->dilation.size[i - missing];
        w.before[i] = a->padding.size[2 * (i - missing)];
    }
    return w;
}

static int64_t volume(const int64_t *size) { return size[0] * size[1] * size[2]; }

/* Channels and taps of a weight along k, pixels of all images along columns. */
static void describe_weighted(const hd_call *call, bool transposed, hd_described_product *out) {
    hd_product_numbers *p = &out->numbers;
    hd_product_windows *s = &p->windows;
    const hd_layout *x = &call->inputs[0]->layout, *weight = &call->inputs[1]->layout;
    const hd_conv_attributes *attributes = call->attributes;
    const windows w = windows_of(attributes);
    hd_layout y;
    hd_layout_contiguous(&y, &call->shape[0]);
    const spatial image = spatial_of(x), pixels = spatial_of(&y), taps = spatial_of(weight);
    const int64_t channels = x->shape.size[1] / attributes->groups;
    p->m = y.shape.size[1] / attributes->groups;
    p->k = channels * volume(taps.size);
    p->columns = volume(pixels.size);
    p->n = y.shape.size[0] * p->columns;
    p->a_row = weight->stride[transposed ? 1 : 0];
    s->a_group = (transposed ? channels : p->m) * weight->stride[0];
    s->b_group = channels * x->stride[1];
    s->channels = y.shape.size[1];
    s->k_a[0] = weight->stride[transposed ? 0 : 1];
    s->k_b[0] = x->stride[1];
    s->column_b[0] = x->stride[0];
    for (int i = 0; i < 3; ++i) {
        s->k_size[i] = taps.size[i];
        s->column_size[i] = pixels.size[i];
        s->k_a[i + 1] = taps.stride[i];
        s->k_step[i] = transposed ? -w.dilation[i] : w.dilation[i];
        s->column_step[i] = transposed ? 1 : w.step[i];
        s->column_begin[i] = transposed ? w.before[i] : -w.before[i];
        s->image[i] = image.size[i];
        s->stride[i] = w.step[i];
        s->image_stride[i] = image.stride[i];
        if (transposed) continue; /* an offset follows only when it is known to be a pixel */
        s->k_b[i + 1] = w.dilation[i] * image.stride[i];
        s->column_b[i + 1] = w.step[i] * image.stride[i];
        s->b_first -= w.before[i] * image.stride[i];
    }
}

/* Pixels of all gradients along k, channels and taps of the weight along columns. */
static void describe_weight_gradient(const hd_call *call, hd_described_product *out) {
    hd_product_numbers *p = &out->numbers;
    hd_product_windows *s = &p->windows;
    const hd_layout *x = &call->inputs[0]->layout, *gradient = &call->inputs[1]->layout;
    const hd_conv_attributes *attributes = call->attributes;
    const windows w = windows_of(attributes);
    hd_layout y;
    hd_layout_contiguous(&y, &call->shape[0]);
    const spatial image = spatial_of(x), pixels = spatial_of(gradient), taps = spatial_of(&y);
    p->m = gradient->shape.size[1] / attributes->groups;
    p->k = gradient->shape.size[0] * volume(pixels.size);
    p->n = p->columns = y.shape.size[1] * volume(taps.size);
    p->a_row = gradient->stride[1];
    s->a_group = p->m * gradient->stride[1];
    s->b_group = y.shape.size[1] * x->stride[1];
    s->k_a[0] = gradient->stride[0];
    s->k_b[0] = x->stride[0];
    s->column_b[0] = x->stride[1];
    for (int i = 0; i < 3; ++i) {
        s->k_size[i] = pixels.size[i];
        s->column_size[i] = taps.size[i];
        s->k_a[i + 1] = pixels.stride[i];
        s->k_b[i + 1] = w.step[i] * image.stride[i];
        s->column_b[i + 1] = w.dilation[i] * image.stride[i];
        s->k_step[i] = w.step[i];
        s->k_begin[i] = -w.before[i];
        s->column_step[i] = w.dilation[i];
        s->image[i] = image.size[i];
        s->b_first -= w.before[i] * image.stride[i];
    }
    p->b_lies_down = true;
}

/* Elements 8 i to 8 i + 7 along k of A lie side by side, at a multiple of 8 from its first element. */
static bool lies_in_eights(const hd_product_numbers *p) {
    const hd_product_windows *s = &p->windows;
    int64_t run = 1, all = 1; /* elements that lie side by side */
    bool ends = false;
    if (p->k == 0 || p->k % 8 != 0 || (p->m > 1 && p->a_row % 8 != 0) || (p->batches > 1 && s->a_group % 8 != 0))
        return false;
    for (int i = 3; i >= 0; --i) {
        const int64_t size = i > 0 ? s->k_size[i - 1] : p->k / all;
        if (size == 1) continue;
        all *= size;
        ends = ends || s->k_a[i] != run;
        if (ends && s->k_a[i] % 8 != 0) return false;
        if (!ends) run *= size;
    }
    return run % 8 == 0;
}

hd_product_form hd_gpu_describe_conv(const hd_call *call, hd_described_product *out) {
    const bool transposed = call->op->id == HD_OP_conv_transpose;
    if (call->op->id == HD_OP_conv_weight_gradient)
        describe_weight_gradient(call, out);
    else
        describe_weighted(call, transposed, out);
    out->numbers.batches = ((const hd_conv_attributes *)call->attributes)->groups;
    out->a = 1;
    if (call->inputs[0]->count == 0) out->numbers.k = 0; /* all is beside the image */
    out->numbers.windows.a_in_eights = lies_in_eights(&out->numbers);
    return transposed ? HD_PRODUCT_SPREAD : HD_PRODUCT_WINDOWS;
}

bool hd_gpu_conv_is_narrow(const hd_product_numbers *p) {
    const hd_product_windows *s = &p->windows;
    double a = hd_reach(p->m, p->a_row) + hd_reach(p->batches, s->a_group),
           b = hd_reach(p->batches, s->b_group) + hd_reach(1, s->b_first), position = 0;
    const int64_t outer_k = p->k / (volume(s->k_size) > 0 ? volume(s->k_size) : 1),
                  outer_columns = p->n / volume(s->column_size);
    a += hd_reach(outer_k, s->k_a[0]);
    b += hd_reach(outer_k, s->k_b[0]) + hd_reach(outer_columns, s->column_b[0]);
    for (int i = 0; i < 3; ++i) {
        a += hd_reach(s->k_size[i], s->k_a[i + 1]);
        b += hd_reach(s->k_size[i], s->k_b[i + 1]) + hd_reach(s->column_size[i], s->column_b[i + 1]) +
             hd_reach(s->image[i], s->image_stride[i]);
        position += hd_reach(s->k_size[i], s->k_step[i]) + hd_reach(1, s->k_begin[i]) +
                    hd_reach(s->column_size[i], s->column_step[i]) + hd_reach(1, s->column_begin[i]);
    }
    const double most = (double)(1 << 30);
    return a < most && b < most && position < most;
}

/* ---- template_conv.h --------------------------------------------------------------------------------------------- */
enum { TAP_BITS = 30, ROWS_LEAST = 9 };

/* True when offsets of places fit into 32 bits that are not beside the image, too. */
static bool places_are_narrow(const hd_product_numbers *p) {
    const hd_product_windows *s = &p->windows;
    double all = hd_reach(p->k, s->k_b[0]) / (double)(volume(s->k_size) > 0 ? volume(s->k_size) : 1) +
                 hd_reach(p->n, s->column_b[0]) / (double)volume(s->column_size);
    for (int i = 0; i < 3; ++i)
        all += hd_reach(s->k_size[i], s->k_b[i + 1]) + hd_reach(s->column_size[i], s->column_b[i + 1]) +
               (hd_reach(s->k_size[i], s->k_step[i]) + hd_reach(1, s->k_begin[i]) +
                hd_reach(s->column_size[i], s->column_step[i]) + hd_reach(1, s->column_begin[i])) *
                   hd_reach(1, s->image_stride[i]);
    const double most = (double)(1 << 30);
    return all < most && (double)p->k < most && (double)p->batches * (double)p->m * (double)p->n < most;
}

hd_product_multiply hd_gpu_conv_multiply(const hd_gpu_device *d, const hd_call *call, const hd_described_product *of) {
    const hd_product_numbers *p = &of->numbers;
    const int64_t *taps = p->b_lies_down ? p->windows.column_size : p->windows.k_size;
    const hd_dtype dtype = call->dtype[0];
    if (d->dialect != HD_DIALECT_CUDA || !d->gpu->limits(d->device.index)->has_warp_words || p->m < ROWS_LEAST ||
        p->k == 0 || taps[0] + taps[1] + taps[2] > TAP_BITS || call->inputs[of->a]->dtype != dtype ||
        call->inputs[of->b]->dtype != dtype || !hd_gpu_conv_is_narrow(p) || !places_are_narrow(p))
        return HD_MULTIPLY_EACH;
    return dtype == HD_F32    ? HD_MULTIPLY_F32
           : dtype == HD_BF16 ? HD_MULTIPLY_BF16
           : dtype == HD_F16  ? HD_MULTIPLY_F16
                              : HD_MULTIPLY_EACH;
}

const hd_product_tile *hd_gpu_conv_tile(const hd_described_product *of, hd_product_multiply multiply,
                                        const hd_gpu_limits *limits) {
    enum { SMALL, PLAIN, LARGE };
    static const hd_product_tile tiles[][3] = {
        {{32, 64, 8, 16, 32}, {64, 128, 16, 32, 64}, {128, 128, 8, 32, 64}},    /* f32 */
        {{32, 64, 32, 16, 32}, {64, 128, 32, 32, 32}, {128, 128, 32, 64, 32}}}; /* small floats */
    const hd_product_numbers *p = &of->numbers;
    const hd_product_tile *t = tiles[multiply != HD_MULTIPLY_F32];
    const int64_t large = (p->m + t[LARGE].m - 1) / t[LARGE].m * ((p->n + t[LARGE].n - 1) / t[LARGE].n) * p->batches;
    if (p->m <= t[SMALL].m || p->n <= t[SMALL].n) return &t[SMALL];
    return p->m > t[PLAIN].m && large >= 2 * (int64_t)limits->processors ? &t[LARGE] : &t[PLAIN];
}

/* ---- template_conv_image.h --------------------------------------------------------------------------------------- */
enum { SPAN = 384, TAPS = 64, CHANNELS = 32 }; /* as the template has them */

/* The most pixels from the first one that a tile reads to the last, when both walks only go on; else more than SPAN. */
static double span_of(const hd_product_numbers *p, int tile_n) {
    const hd_product_windows *s = &p->windows;
    double span = 1 + (tile_n - 1) * (double)s->column_b[3], turns = tile_n - 1;
    for (int i = 2; i >= 0; --i) {
        span += (double)(s->k_size[i] - 1) * (double)s->k_b[i + 1];
        if (s->k_b[i + 1] < 0 || s->column_b[i + 1] < 0 || s->image_stride[i] < 0) return SPAN + 1;
        turns = (double)(int64_t)(turns / (double)s->column_size[i]) + 1; /* of the axis before */
        if (i == 0 || s->column_size[i - 1] == 1) continue;
        const double jump = (double)s->column_b[i] - (double)s->column_b[i + 1] * (double)s->column_size[i];
        if (jump + (double)s->column_b[i + 1] < 0) return SPAN + 1;
        span += turns * (jump > 0 ? jump : 0);
    }
    return span;
}

bool hd_gpu_conv_image(hd_described_product *out, const hd_product_tile *tile, const hd_gpu_limits *limits) {
    static const hd_product_tile few = {32, 128, CHANNELS, 32, 32}, plain = {64, 64, CHANNELS, 32, 32};
    hd_product_numbers *p = &out->numbers;
    const hd_product_tile *t = tile != NULL ? tile : p->m <= few.m ? &few : &plain;
    const int64_t taps = volume(p->windows.k_size), images = p->n / p->columns,
                  of_image = (p->columns + t->n - 1) / t->n, tiles_m = (p->m + t->m - 1) / t->m,
                  tiles = of_image * images * tiles_m * p->batches;
    if (out->form != HD_PRODUCT_WINDOWS || p->b_lies_down || taps < 2 || taps > TAPS || span_of(p, t->n) > SPAN ||
        2 * of_image * t->n > 3 * p->columns || tiles < (int64_t)limits->processors)
        return false;
    const int64_t blocks = (p->k / taps + CHANNELS - 1) / CHANNELS,
                  packed = p->batches * tiles_m * t->m * blocks * taps * CHANNELS;
    hd_gpu_tile_product(out, t, limits);
    p->tiles_n = of_image * images;
    p->k_piece = p->k;
    p->k_pieces = 1;
    out->use.which = HD_TEMPLATE_conv_image;
    out->use.numbers[7] = 0;
    out->part_bytes = (size_t)packed * 2;
    out->pack_groups = (uint32_t)((packed / 8 + out->threads - 1) / out->threads);
    return true;
}
