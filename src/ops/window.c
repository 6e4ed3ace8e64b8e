/* Windows on images, beside convolution and pooling: powers of them, places of the largest, and their elements as
 * columns, all made of other ops. */
#include "ops/op.h"

#include <math.h>

/* ---- pools ------------------------------------------------------------------------------------------------------- */
static hd_error check_lp(const hd_tensor *x, double p, hd_shape window, const hd_pool_opts *opts) {
    HD_TRY(hd_tensor_check(x, "x"));
    HD_READ_OPTS(hd_pool_opts, opts, HD_ERROR_VALUE);
    HD_TRY(hd_rank_check(&window));
    if (!hd_dtype_is_float((hd_dtype)x->dtype))
        return hd_fail(HD_ERROR_DTYPE, "x is %s; it takes floats: cast it", hd_dtype_name((hd_dtype)x->dtype));
    if (!(p > 0 && isfinite(p))) return hd_fail(HD_ERROR_VALUE, "p = %g; it must be above 0 and finite", p);
    return options.adaptive ? hd_fail(HD_ERROR_VALUE, "an adaptive window; its sums would be of different sizes")
                            : HD_OK;
}

hd_tensor *hd_lp_pool(hd_tensor *x, double p, hd_shape window, const hd_pool_opts *opts) {
    HD_ENTER("hd_lp_pool", NULL);
    HD_TRY_OR(check_lp(x, p, window, opts), NULL);
    double elements = 1;
    for (int i = 0; i < window.rank; ++i) elements *= (double)window.size[i];
    hd_span span;
    hd_span_begin(&span, thread, "lp_pool");
    hd_tensor *mean = hd_avg_pool(hd_pow_scalar(hd_as_float(x), p), window, opts);
    if (mean == NULL) return hd_span_end(&span, NULL);
    return hd_span_end(&span, hd_cast(hd_root(hd_mul_scalar(mean, elements), 1 / p), (hd_dtype)x->dtype));
}

/* The place of each element among those of the last axes, in x's shape; as floats, which pooling takes. */
static hd_tensor *places_in(const hd_tensor *x, int axes) {
    hd_shape shape = {.rank = axes};
    for (int i = 0; i < axes; ++i) shape.size[i] = x->layout.shape.size[x->layout.shape.rank - axes + i];
    const int64_t count = hd_shape_count(shape);
    const hd_dtype dtype = count <= 1 << 24 ? HD_F32 : HD_F64; /* whole numbers are exact */
    return hd_broadcast_to(hd_reshape(hd_range_beside(x, 0, 1, count, dtype), shape), x->layout.shape);
}

hd_pair hd_max_pool_with_index(hd_tensor *x, hd_shape window, const hd_pool_opts *opts) {
    static const hd_pair nothing = {NULL, NULL};
    HD_ENTER("hd_max_pool_with_index", nothing);
    HD_TRY_OR(hd_tensor_check(x, "x"), nothing);
    hd_span span;
    hd_span_begin(&span, thread, "max_pool_with_index");
    hd_pair result = {hd_max_pool(x, window, opts), NULL};
    if (result.values != NULL)
        result.indices = hd_cast(hd_max_pool_pick(places_in(x, window.rank), hd_detach(x), window, opts), HD_I64);
    return hd_span_end_pair(&span, result);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */
/* Windows on images with these spatial axes, and where they lie. */
typedef struct grid {
    int axes;
    hd_shape image, window, places;
    hd_conv_attributes a;
    hd_padding padding[3];
    bool padded;
} grid;

static hd_error read_grid(const hd_conv_opts *opts, hd_shape image, hd_shape window, grid *g) {
    HD_READ_OPTS(hd_conv_opts, opts, HD_ERROR_VALUE);
    HD_TRY(hd_rank_check(&window));
    *g = (grid){.axes = window.rank, .image = image, .window = window, .places.rank = window.rank};
    if (g->axes < 1 || g->axes > 3 || image.rank != g->axes)
        return hd_fail(HD_ERROR_SHAPE, "a window %s on images with spatial axes %s; it has as many, 1 to 3",
                       HD_SHAPE_TEXT(window), HD_SHAPE_TEXT(image));
    HD_TRY(hd_conv_read(opts, g->axes, &g->a));
    if (g->a.groups != 1 || options.output_padding[0] != 0 || options.output_padding[1] != 0 ||
        options.output_padding[2] != 0)
        return hd_fail(HD_ERROR_VALUE, "groups or output padding; columns have stride, dilation and padding");
    for (int i = 0; i < g->axes; ++i) {
        HD_TRY(hd_conv_windows(&g->a, i, image.size[i], window.size[i], &g->places.size[i]));
        g->padding[i] = (hd_padding){g->a.padding.size[2 * i], g->a.padding.size[2 * i + 1]};
        g->padded = g->padded || g->padding[i].before != 0 || g->padding[i].after != 0;
    }
    return HD_OK;
}

/* [n, c, the window, the places], and the columns, which are the same: what is behind c becomes two axes. */
static hd_error column_shapes(const grid *g, int64_t n, int64_t channels, hd_dtype dtype, hd_shape *apart,
                              hd_shape *columns) {
    *apart = HD_SHAPE(n, channels);
    *columns = HD_SHAPE(n, channels, 1);
    for (int i = 0; i < g->axes; ++i) apart->size[apart->rank++] = g->window.size[i];
    for (int i = 0; i < g->axes; ++i) apart->size[apart->rank++] = g->places.size[i];
    int64_t count;
    HD_TRY(hd_shape_check(apart, hd_dtype_bytes[dtype], &count));
    for (int i = 0; i < g->axes; ++i) {
        columns->size[1] *= g->window.size[i];
        columns->size[2] *= g->places.size[i];
    }
    return HD_OK;
}

/* The windows of x, which is new where it was padded: [n, c, the window, the places], a view. */
static hd_tensor *windows_of(hd_tensor *x, const grid *g) {
    hd_tensor *y = g->padded ? hd_pad(x, g->padding, g->axes, 0) : x;
    hd_axes order = {.count = 2, .axis = {0, 1}};
    for (int i = 0; i < g->axes; ++i) {
        const int64_t dilation = g->a.dilation.size[i];
        y = hd_unfold(y, 2 + i, dilation * (g->window.size[i] - 1) + 1, g->a.stride.size[i]);
        if (dilation > 1) y = hd_slice(y, -1, HD_END, HD_END, dilation);
        order.axis[order.count++] = 2 + g->axes + i;
    }
    for (int i = 0; i < g->axes; ++i) order.axis[order.count++] = 2 + i;
    return hd_permute(y, order);
}

hd_tensor *hd_im2col(hd_tensor *x, hd_shape window, const hd_conv_opts *opts) {
    HD_ENTER("hd_im2col", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    const hd_shape shape = x->layout.shape;
    if (shape.rank < 3 || shape.rank > 5) {
        hd_fail(HD_ERROR_SHAPE, "x %s; it must be [n, channels, 1 to 3 spatial axes]", HD_SHAPE_TEXT(shape));
        return NULL;
    }
    hd_shape image = {.rank = shape.rank - 2}, apart, columns;
    for (int i = 0; i < image.rank; ++i) image.size[i] = shape.size[2 + i];
    grid g;
    HD_TRY_OR(read_grid(opts, image, window, &g), NULL);
    HD_TRY_OR(column_shapes(&g, shape.size[0], shape.size[1], (hd_dtype)x->dtype, &apart, &columns), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "im2col");
    hd_tensor *y = windows_of(x, &g);
    return hd_span_end(&span, hd_reshape(g.padded ? y : hd_copy(y), columns)); /* a view of x is none of its memory */
}

/* [a, rows, b] -> [a, b]; a few rows are added faster one by one. */
static hd_tensor *add_rows(hd_tensor *y, int64_t rows) {
    if (rows > 8) return hd_sum(y, HD_AXES(1), NULL);
    hd_tensor *sum = hd_select(y, 1, 0);
    for (int64_t k = 1; k < rows; ++k) sum = hd_add(sum, hd_select(y, 1, k));
    return sum;
}

/* A window is cut into blocks as long as the stride, and block k of the window at place p goes to block p + k. Blocks k
 * of all windows are a row. Rows with as many zeros behind them as there are rows, one after the other, are the same
 * rows each one further to the right when they are read as rows one shorter, which are added up. */
hd_tensor *hd_lay_over(hd_tensor *y, const hd_overlap *w) {
    const int64_t before = w->before, front = w->front, places = w->places, behind = w->behind, window = w->window;
    const int64_t dilation = window > 1 ? w->dilation : 1, span = dilation * (window - 1) + 1;
    const int64_t stride = places > 1 ? w->stride : span; /* of one, however large, nothing follows */
    const int64_t blocks = (span + stride - 1) / stride, columns = places + blocks - 1, block = stride * behind;
    if (dilation > 1) { /* zeros between the elements of a window */
        const hd_padding apart[3] = {{0, dilation - 1}};
        y = hd_pad(hd_reshape(y, HD_SHAPE(before, window, 1, front, places * behind)), apart, 3, 0);
    }
    y = hd_reshape(y, HD_SHAPE(before, dilation * window, front, places * behind));
    if (dilation * window != blocks * stride) {
        const hd_padding whole[3] = {{0, blocks * stride - dilation * window}};
        y = hd_pad(y, whole, 3, 0);
    }
    y = hd_permute(hd_reshape(y, HD_SHAPE(before, blocks, stride, front, places, behind)), HD_AXES(0, 3, 1, 4, 2, 5));
    if (blocks > 1) {
        const hd_padding zeros = {0, blocks * block};
        y = hd_pad(hd_reshape(y, HD_SHAPE(before, front, blocks, places * block)), &zeros, 1, 0);
        y = hd_reshape(y, HD_SHAPE(before * front, blocks * (places + blocks) * block));
        y = hd_reshape(hd_narrow(y, 1, 0, blocks * columns * block), HD_SHAPE(before * front, blocks, columns * block));
        y = add_rows(y, blocks);
    }
    const hd_padding rest = {0, w->size * behind - columns * block};
    y = hd_reshape(y, HD_SHAPE(before, front, columns * block));
    return blocks > 1 && rest.after == 0 ? y : hd_pad(y, &rest, 1, 0); /* which is new memory, as sums are */
}

/* Axis by axis, from the last; small numbers are added up in larger dtypes. */
static hd_tensor *add_up(hd_tensor *x, const grid *g, const hd_shape *padded) {
    const hd_dtype dtype = (hd_dtype)x->dtype;
    int64_t behind = 1;
    hd_tensor *y = hd_dtype_is_small_float(dtype) ? hd_cast(x, HD_F32) : x;
    for (int i = g->axes - 1; i >= 0; --i) {
        hd_overlap w = {.before = padded->size[0] * padded->size[1],
                        .window = g->window.size[i],
                        .front = 1,
                        .places = g->places.size[i],
                        .behind = behind,
                        .size = padded->size[2 + i],
                        .stride = g->a.stride.size[i],
                        .dilation = g->a.dilation.size[i]};
        for (int k = 0; k < i; ++k) {
            w.before *= g->window.size[k];
            w.front *= g->places.size[k];
        }
        y = hd_lay_over(y, &w);
        behind *= w.size;
    }
    return hd_cast(hd_reshape(y, *padded), dtype);
}

static hd_error check_columns(const hd_tensor *x, const grid *g, int64_t *channels) {
    const hd_shape *shape = &x->layout.shape;
    int64_t each = 1, places = 1;
    bool fits = shape->rank == 3;
    for (int i = 0; i < g->axes && fits; ++i)
        fits = !__builtin_mul_overflow(each, g->window.size[i], &each) &&
               !__builtin_mul_overflow(places, g->places.size[i], &places);
    if (!fits || shape->size[1] % each != 0 || shape->size[2] != places)
        return hd_fail(HD_ERROR_SHAPE,
                       "columns %s; windows %s at places %s of images %s give [n, channels * the window's elements, "
                       "places]",
                       HD_SHAPE_TEXT(*shape), HD_SHAPE_TEXT(g->window), HD_SHAPE_TEXT(g->places),
                       HD_SHAPE_TEXT(g->image));
    *channels = shape->size[1] / each;
    return HD_OK;
}

hd_tensor *hd_col2im(hd_tensor *x, hd_shape size, hd_shape window, const hd_conv_opts *opts) {
    HD_ENTER("hd_col2im", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    int64_t count, channels = 0;
    HD_TRY_OR(hd_shape_check(&size, 1, &count), NULL);
    grid g;
    HD_TRY_OR(read_grid(opts, size, window, &g), NULL);
    HD_TRY_OR(check_columns(x, &g, &channels), NULL);
    hd_shape padded = HD_SHAPE(x->layout.shape.size[0], channels);
    hd_padding back[3];
    for (int i = 0; i < g.axes; ++i) {
        padded.size[padded.rank++] = size.size[i] + g.padding[i].before + g.padding[i].after;
        back[i] = (hd_padding){-g.padding[i].before, -g.padding[i].after};
    }
    HD_TRY_OR(hd_shape_check(&padded, 8, &count), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "col2im");
    hd_tensor *y = add_up(x, &g, &padded);
    return hd_span_end(&span, g.padded ? hd_pad(y, back, g.axes, 0) : y);
}
