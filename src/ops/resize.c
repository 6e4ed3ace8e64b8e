/* Images of other sizes, made of other ops. Resizing goes axis by axis: an element is a weighted sum of a few elements
 * of x, which are looked up. What is looked up where follows from whole numbers, so that it is exact for all sizes. */
#include "ops/fused.h"

/* ---- channels and pixels ----------------------------------------------------------------------------------------- */
/* x as [images, channels, h, w] without factors, or an error. */
static hd_error check_factor(const hd_tensor *x, int64_t factor, bool shuffles, int64_t seen[4]) {
    HD_TRY(hd_tensor_check(x, "x"));
    const hd_shape *shape = &x->layout.shape;
    if (shape->rank < 3)
        return hd_fail(HD_ERROR_SHAPE, "x %s; it must be [..., channels, height, width]", HD_SHAPE_TEXT(*shape));
    if (factor < 1 || factor > 1 << 30)
        return hd_fail(HD_ERROR_VALUE, "a factor of %lld; it is from 1 to %d", (long long)factor, 1 << 30);
    seen[0] = 1;
    for (int i = 0; i < shape->rank - 3; ++i) seen[0] *= shape->size[i];
    for (int i = 1; i < 4; ++i) seen[i] = shape->size[shape->rank - 4 + i];
    const bool fits = shuffles ? seen[1] % (factor * factor) == 0 : seen[2] % factor == 0 && seen[3] % factor == 0;
    if (!fits)
        return hd_fail(HD_ERROR_SHAPE, "x %s by a factor of %lld; %s", HD_SHAPE_TEXT(*shape), (long long)factor,
                       shuffles ? "its square must divide the channels" : "it must divide height and width");
    if (shuffles)
        seen[1] /= factor * factor;
    else
        seen[2] /= factor, seen[3] /= factor;
    return HD_OK;
}

/* The same axes in another order, in memory of its own, as a shape like x's. */
static hd_tensor *reorder(hd_tensor *x, hd_shape apart, hd_axes order, int64_t channels, int64_t height,
                          int64_t width) {
    hd_shape shape = x->layout.shape;
    shape.size[shape.rank - 3] = channels;
    shape.size[shape.rank - 2] = height;
    shape.size[shape.rank - 1] = width;
    return hd_reshape(hd_copy(hd_permute(hd_reshape(x, apart), order)), shape);
}

hd_tensor *hd_pixel_shuffle(hd_tensor *x, int64_t factor) {
    HD_ENTER("hd_pixel_shuffle", NULL);
    int64_t s[4];
    HD_TRY_OR(check_factor(x, factor, true, s), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "pixel_shuffle");
    return hd_span_end(&span, reorder(x, HD_SHAPE(s[0], s[1], factor, factor, s[2], s[3]), HD_AXES(0, 1, 4, 2, 5, 3),
                                      s[1], s[2] * factor, s[3] * factor));
}

hd_tensor *hd_pixel_unshuffle(hd_tensor *x, int64_t factor) {
    HD_ENTER("hd_pixel_unshuffle", NULL);
    int64_t s[4];
    HD_TRY_OR(check_factor(x, factor, false, s), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "pixel_unshuffle");
    return hd_span_end(&span, reorder(x, HD_SHAPE(s[0], s[1], s[2], factor, s[3], factor), HD_AXES(0, 1, 3, 5, 2, 4),
                                      s[1] * factor * factor, s[2], s[3]));
}

/* ---- one axis ---------------------------------------------------------------------------------------------------- */
typedef struct resizing {
    hd_resize_mode mode;
    bool corners, antialias;
    const hd_tensor *beside; /* whose device everything is on */
    hd_dtype dtype;          /* of weights */
    int axis, rank;
    int64_t from, to;
} resizing;

/* [to], or another number of rows, as it broadcasts along the axis. */
static hd_tensor *along(hd_tensor *weights, const resizing *r) {
    hd_shape shape = {.rank = r->rank - r->axis, .size = {r->to, 1, 1, 1, 1, 1, 1, 1}};
    return hd_reshape(weights, shape);
}

/* first, first + step, ...: [to], whole numbers. */
static hd_tensor *row(const resizing *r, int64_t first, int64_t step) {
    return hd_range_beside(r->beside, (double)first, (double)step, r->to, HD_I64);
}

/* Element i of the result lies at sources(i) / *unit of x. */
static hd_tensor *sources(const resizing *r, int64_t *unit) {
    if (r->corners) {
        *unit = r->to > 1 ? r->to - 1 : 1;
        return row(r, 0, r->to > 1 ? r->from - 1 : 0);
    }
    *unit = 2 * r->to;
    hd_tensor *t = row(r, r->from - r->to, 2 * r->from);
    return r->mode == HD_RESIZE_LINEAR ? hd_clamp_min(t, 0) : t;
}

/* What part of the way from one element to the next it lies. */
static hd_tensor *part_of(hd_tensor *source, int64_t unit, const resizing *r) {
    return hd_div_scalar(hd_cast(hd_mod_scalar(source, (double)unit), r->dtype), (double)unit);
}

static hd_tensor *tap(hd_tensor *x, hd_tensor *lower, int offset, const resizing *r) {
    hd_tensor *index = hd_clamp(hd_add_scalar(lower, offset), 0, (double)(r->from - 1));
    return hd_index_select(x, r->axis, index);
}

static hd_tensor *take_nearest(hd_tensor *x, const resizing *r) {
    const bool centre = r->mode == HD_RESIZE_NEAREST_CENTRE;
    hd_tensor *index = centre ? hd_floor_divide_scalar(row(r, r->from, 2 * r->from), 2 * (double)r->to)
                              : hd_floor_divide_scalar(row(r, 0, r->from), (double)r->to);
    return hd_index_select(x, r->axis, index);
}

static hd_tensor *interpolate(hd_tensor *x, const resizing *r) {
    int64_t unit;
    hd_tensor *source = sources(r, &unit), *lower = hd_floor_divide_scalar(source, (double)unit);
    hd_tensor *part = part_of(source, unit, r);
    if (hd_may_fuse(hd_thread_self(), x, part)) return hd_fused_interpolate(hd_thread_self(), x, r->axis, lower, part);
    return hd_lerp(hd_index_select(x, r->axis, lower), tap(x, lower, 1, r), along(part, r));
}

/* The polynomials of a cubic convolution at a distance d up to 1 from the element, and d beyond 1, as products of which
 * none cancels. */
static hd_tensor *near_weight(hd_tensor *d, double a) {
    hd_tensor *rest = hd_rsub_scalar(d, 1);
    return hd_mul(rest, hd_add_scalar(hd_mul(d, hd_rsub_scalar(hd_mul_scalar(d, a + 2), 1)), 1));
}
static hd_tensor *far_weight(hd_tensor *d, double a) {
    return hd_mul(hd_mul_scalar(d, a), hd_square(hd_rsub_scalar(d, 1)));
}

static hd_tensor *interpolate_cubic(hd_tensor *x, const resizing *r) {
    static const double a = -0.75;
    int64_t unit;
    hd_tensor *source = sources(r, &unit), *lower = hd_floor_divide_scalar(source, (double)unit);
    hd_tensor *part = part_of(source, unit, r), *rest = hd_rsub_scalar(part, 1);
    hd_tensor *weights[4] = {far_weight(part, a), near_weight(part, a), near_weight(rest, a), far_weight(rest, a)};
    hd_tensor *y = hd_mul(tap(x, lower, -1, r), along(weights[0], r));
    for (int k = 1; k < 4; ++k) y = hd_fma(tap(x, lower, k - 1, r), along(weights[k], r), y);
    return y;
}

/* ---- filters ----------------------------------------------------------------------------------------------------- */
/* A filter of 2 or 4 elements, or as many times wider as elements of the result are: all that it may see of x are
 * `count` elements from where it begins. */
static hd_tensor *filter(hd_tensor *x, const resizing *r) {
    const int64_t width = r->mode == HD_RESIZE_LINEAR ? 2 : 4, larger = r->from > r->to ? r->from : r->to;
    int64_t count = 2 * ((width * larger + 2 * r->to - 1) / (2 * r->to)) + 1;
    count = count < r->from ? count : r->from;
    hd_tensor *begin = hd_floor_divide_scalar(row(r, r->from - width * larger + r->to, 2 * r->from), 2 * (double)r->to);
    hd_tensor *seen =
        hd_add(hd_reshape(hd_clamp_min(begin, 0), HD_SHAPE(r->to, 1)), hd_range_beside(r->beside, 0, 1, count, HD_I64));
    hd_tensor *centre = hd_reshape(row(r, r->from - r->to, 2 * r->from), HD_SHAPE(r->to, 1));
    hd_tensor *away = hd_abs(hd_sub(hd_mul_scalar(seen, 2 * (double)r->to), centre));
    hd_tensor *d = hd_div_scalar(hd_cast(away, r->dtype), 2 * (double)larger), *w = hd_relu(hd_rsub_scalar(d, 1));
    if (r->mode == HD_RESIZE_CUBIC)
        w = hd_where(hd_lt_scalar(d, 1), near_weight(d, -0.5),
                     hd_where_scalar(hd_lt_scalar(d, 2), far_weight(hd_sub_scalar(d, 1), -0.5), 0));
    w = hd_where_scalar(hd_lt_scalar(seen, (double)r->from), w, 0);
    w = hd_div(w, hd_sum(w, HD_AXES(1), HD_OPTS(hd_reduce_opts, .keep_dims = true)));
    hd_shape shape = hd_tensor_shape(x);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < r->rank; ++i)
        if (i != r->axis) *(i < r->axis ? &outer : &inner) *= shape.size[i];
    shape.size[r->axis] = r->to;
    hd_tensor *index = hd_flatten(hd_clamp_max(seen, (double)(r->from - 1)));
    hd_tensor *all = hd_index_select(hd_reshape(x, HD_SHAPE(outer, r->from, inner)), 1, index);
    all = hd_mul(hd_reshape(all, HD_SHAPE(outer, r->to, count, inner)), hd_unsqueeze(w, 2));
    return hd_reshape(hd_sum(all, HD_AXES(2), NULL), shape);
}

/* ---- all axes ---------------------------------------------------------------------------------------------------- */
static hd_error check_mode(const hd_tensor *x, const hd_resize_opts *opts, resizing *r) {
    HD_READ_OPTS(hd_resize_opts, opts, HD_ERROR_VALUE);
    *r = (resizing){.mode = options.mode == 0 ? HD_RESIZE_NEAREST : options.mode,
                    .corners = options.align_corners,
                    .antialias = options.antialias,
                    .beside = x,
                    .rank = x->layout.shape.rank};
    if (r->mode < HD_RESIZE_NEAREST || r->mode > HD_RESIZE_CUBIC)
        return hd_fail(HD_ERROR_VALUE, "mode is %d, none of HD_RESIZE_*", (int)r->mode);
    if ((r->mode == HD_RESIZE_NEAREST || r->mode == HD_RESIZE_NEAREST_CENTRE) && (r->corners || r->antialias))
        return hd_fail(HD_ERROR_VALUE, "%s of the nearest element; HD_RESIZE_LINEAR and HD_RESIZE_CUBIC have it",
                       r->corners ? "align_corners" : "antialias");
    if (r->corners && r->antialias)
        return hd_fail(HD_ERROR_VALUE, "align_corners and antialias; elements of filters are no points: give one");
    if (r->mode >= HD_RESIZE_LINEAR && !hd_dtype_is_float((hd_dtype)x->dtype))
        return hd_fail(HD_ERROR_DTYPE, "x is %s; what lies between elements is of floats: cast it",
                       hd_dtype_name((hd_dtype)x->dtype));
    return HD_OK;
}

static hd_error check_sizes(const hd_shape *x, hd_shape size, hd_dtype dtype) {
    HD_TRY(hd_rank_check(&size));
    if (size.rank < 1 || size.rank > 3 || size.rank > x->rank)
        return hd_fail(HD_ERROR_SHAPE, "size %s for x %s; it is of the last 1 to 3 axes, and x has them",
                       HD_SHAPE_TEXT(size), HD_SHAPE_TEXT(*x));
    hd_shape result = *x;
    for (int i = 0; i < size.rank; ++i) {
        const int axis = x->rank - size.rank + i;
        static const int64_t largest = 1 << 24; /* products of two of them are exact in f64 */
        if (size.size[i] < 1 || size.size[i] > largest || x->size[axis] < 1 || x->size[axis] > largest)
            return hd_fail(HD_ERROR_SHAPE, "%lld elements of axis %d of x %s made %lld; both are from 1 to %lld",
                           (long long)x->size[axis], axis, HD_SHAPE_TEXT(*x), (long long)size.size[i],
                           (long long)largest);
        result.size[axis] = size.size[i];
    }
    int64_t count;
    return hd_shape_check(&result, hd_dtype_bytes[dtype], &count);
}

static hd_tensor *resize_axis(hd_tensor *x, const resizing *r) {
    if (r->mode < HD_RESIZE_LINEAR) return take_nearest(x, r);
    if (r->antialias) return filter(x, r);
    return r->mode == HD_RESIZE_LINEAR ? interpolate(x, r) : interpolate_cubic(x, r);
}

hd_tensor *hd_resize(hd_tensor *x, hd_shape size, const hd_resize_opts *opts) {
    HD_ENTER("hd_resize", NULL);
    HD_TRY_OR(hd_tensor_check(x, "x"), NULL);
    resizing r;
    HD_TRY_OR(check_mode(x, opts, &r), NULL);
    const hd_shape *shape = &x->layout.shape;
    HD_TRY_OR(check_sizes(shape, size, (hd_dtype)x->dtype), NULL);
    hd_span span;
    hd_span_begin(&span, thread, "resize");
    hd_tensor *f = r.mode < HD_RESIZE_LINEAR ? x : hd_as_float(x), *y = f;
    if (f == NULL) return hd_span_end(&span, NULL);
    r.dtype = (hd_dtype)f->dtype;
    for (int i = size.rank - 1; i >= 0 && y != NULL; --i) { /* rows are moved as a whole where most is done: at last */
        r.axis = shape->rank - size.rank + i;
        r.from = shape->size[r.axis];
        r.to = size.size[i];
        if (r.from != r.to) y = resize_axis(y, &r);
    }
    return hd_span_end(&span, y == f ? hd_copy(x) : hd_cast(y, (hd_dtype)x->dtype));
}
