/* Pooling. Where windows lie evenly, it is what StableHLO calls reduce_window; adaptive ones are made even when they
 * can be. What else there is (windows of different sizes, dilated ones going back) is looked up: one row of offsets for
 * each window. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>
#include <string.h>

/* The windows on each axis of the image; axes in front have windows of one element. */
typedef struct windows {
    int rank, axes;
    hd_shape image, result;
    int64_t size[HD_MAX_RANK], stride[HD_MAX_RANK], step[HD_MAX_RANK], before[HD_MAX_RANK], after[HD_MAX_RANK];
    bool even, dilated, exclude_padding;
    const hd_pool_attributes *a;
} windows;

static windows find_windows(const hd_pool_attributes *a, const hd_shape *image, const hd_shape *result) {
    windows w = {.rank = image->rank,
                 .axes = a->window.rank,
                 .image = *image,
                 .result = *result,
                 .even = true,
                 .exclude_padding = a->exclude_padding,
                 .a = a};
    for (int i = 0; i < w.rank; ++i) {
        const int axis = i - (w.rank - w.axes);
        w.size[i] = w.stride[i] = w.step[i] = 1;
        if (axis < 0) continue;
        if (a->adaptive) {
            w.even = w.even && result->size[i] > 0 && image->size[i] % result->size[i] == 0;
            if (result->size[i] > 0) w.size[i] = w.stride[i] = image->size[i] / result->size[i];
            continue;
        }
        w.size[i] = a->window.size[axis];
        w.stride[i] = a->stride.size[axis];
        w.step[i] = a->dilation.size[axis];
        w.dilated = w.dilated || w.step[i] != 1;
        w.before[i] = a->padding.size[2 * axis];
        /* as far as the last window reaches: less than the padding, or more where the number of windows was rounded
         * up */
        const int64_t reach = (result->size[i] - 1) * w.stride[i] + (w.size[i] - 1) * w.step[i] + 1;
        w.after[i] = reach - w.before[i] - image->size[i];
    }
    return w;
}

/* A window of an axis: begin, begin + step, ... below end, inside the image; `whole` counts padding, too. */
static void window_at(const windows *w, int axis, int64_t i, int64_t *begin, int64_t *end, int64_t *whole) {
    const int64_t image = w->image.size[axis], result = w->result.size[axis];
    const int spatial = axis - (w->rank - w->axes);
    if (spatial < 0 || w->a->adaptive) {
        const int64_t each = image / result, rest = image % result;
        *begin = i * each + i * rest / result;
        *end = (i + 1) * each + ((i + 1) * rest + result - 1) / result;
        *whole = *end - *begin;
        return;
    }
    const int64_t start = i * w->stride[axis] - w->before[axis], stop = start + w->step[axis] * (w->size[axis] - 1) + 1;
    const int64_t padded = image + w->a->padding.size[2 * spatial + 1];
    *begin = start >= 0 ? start : start + (-start + w->step[axis] - 1) / w->step[axis] * w->step[axis];
    *end = stop < image ? stop : image;
    *whole = (stop < padded ? stop : padded) - start;
}

/* ---- even windows ------------------------------------------------------------------------------------------------ */
static void say_padding(hd_hlo *e, const int64_t *low, const int64_t *high, int rank) {
    hd_hlo_say(e, "padding = dense<[");
    for (int i = 0; i < rank; ++i) hd_hlo_say(e, "%s[%d, %d]", i > 0 ? ", " : "", low[i], high[i] > 0 ? high[i] : 0);
    hd_hlo_say(e, "]> : tensor<%dx2xi64>", (int64_t)rank);
}

static hd_ssa reduce_windows(hd_hlo *e, const char *op, hd_ssa x, const hd_shape *shape, const int64_t *size,
                             const int64_t *stride, const int64_t *step, const int64_t *low, const int64_t *high) {
    const hd_ssa init = hd_hlo_identity(e, x.dtype, op);
    const hd_ssa v = hd_hlo_define(e, x.dtype, shape);
    const int rank = shape->rank;
    hd_hlo_say(e, "    %v = \"stablehlo.reduce_window\"(%v, %v) ", &v, &x, &init);
    hd_hlo_say_combine(e, op, x.dtype);
    hd_hlo_say(e, " {window_dimensions = array<i64: %l>, window_strides = array<i64: %l>, window_dilations = ", size,
               rank, stride, rank);
    hd_hlo_say(e, "array<i64: %l>, ", step, rank);
    say_padding(e, low, high, rank);
    hd_hlo_say(e, "} : (%t, %t) -> %t\n", &x, &init, &v);
    return v;
}

/* The gradient goes to the first of the largest, or the last NaN. */
static hd_ssa select_and_scatter(hd_hlo *e, hd_ssa x, hd_ssa g, const windows *w) {
    const hd_ssa zero = hd_hlo_number(e, x.dtype, HD_HLO_SCALAR, 0), element = {.dtype = x.dtype};
    const hd_ssa v = hd_hlo_define(e, x.dtype, &x.shape);
    hd_hlo_say(e, "    %v = \"stablehlo.select_and_scatter\"(%v, %v, %v) ({\n", &v, &x, &g, &zero);
    hd_hlo_say(e, "      ^bb0(%a: %t, %b: %t):\n", &element, &element);
    hd_hlo_say(e, "        %more = stablehlo.compare GT, %b, %a, FLOAT : (%t, %t) -> tensor<i1>\n", &element, &element);
    hd_hlo_say(e, "        %none = stablehlo.compare NE, %b, %b, FLOAT : (%t, %t) -> tensor<i1>\n", &element, &element);
    hd_hlo_say(e, "        %goes = stablehlo.or %more, %none : tensor<i1>\n");
    hd_hlo_say(e, "        %keeps = stablehlo.not %goes : tensor<i1>\n        stablehlo.return %keeps : tensor<i1>\n");
    hd_hlo_say(e, "    }, {\n      ^bb0(%a: %t, %b: %t):\n", &element, &element);
    hd_hlo_say(e, "        %both = stablehlo.add %a, %b : %t\n        stablehlo.return %both : %t\n", &element,
               &element);
    hd_hlo_say(e, "    }) {window_dimensions = array<i64: %l>, window_strides = array<i64: %l>, ", w->size, w->rank,
               w->stride, w->rank);
    say_padding(e, w->before, w->after, w->rank);
    hd_hlo_say(e, "} : (%t, %t, %t) -> %t\n", &x, &g, &zero, &v);
    return v;
}

/* What sums are divided by, over the shape of the result. */
static hd_ssa divisors(hd_hlo *e, const windows *w, hd_dtype dtype) {
    hd_ssa all = hd_hlo_number(e, dtype, &w->result, 1);
    for (int i = w->rank - w->axes; i < w->rank; ++i) {
        const int64_t count = w->result.size[i];
        const hd_shape row = {.rank = 1, .size = {count}};
        const hd_ssa at = hd_hlo_iota(e, HD_I64, &row, 0);
        hd_ssa sizes = hd_hlo_number(e, dtype, &row, 0);
        int64_t known = -1;
        for (int64_t k = 0; k < count; ++k) { /* windows of one size lie side by side: a few steps say it all */
            int64_t begin, end, whole;
            window_at(w, i, k, &begin, &end, &whole);
            const int64_t size = w->exclude_padding ? end - begin : whole;
            if (size == known) continue;
            known = size;
            const hd_ssa from = hd_hlo_compare(e, "GE", at, hd_hlo_integer(e, HD_I64, &row, k));
            sizes = hd_hlo_select(e, from, hd_hlo_number(e, dtype, &row, (double)size), sizes);
        }
        const int64_t axis = i;
        all = hd_hlo_multiply(e, all, hd_hlo_stretch(e, sizes, &w->result, &axis));
    }
    return all;
}

/* ---- windows of different sizes ---------------------------------------------------------------------------------- */
/* Where adaptive windows of an axis begin (add 0), or end (add 1), at positions `at`. */
static hd_ssa adaptive_bound(hd_hlo *e, const windows *w, int axis, hd_ssa at, bool ends) {
    const int64_t image = w->image.size[axis], result = w->result.size[axis];
    const hd_ssa of_result = hd_hlo_integer(e, HD_I64, &at.shape, result);
    if (ends) at = hd_hlo_add(e, at, hd_hlo_integer(e, HD_I64, &at.shape, 1));
    hd_ssa rest = hd_hlo_multiply(e, at, hd_hlo_integer(e, HD_I64, &at.shape, image % result));
    if (ends) rest = hd_hlo_add(e, rest, hd_hlo_integer(e, HD_I64, &at.shape, result - 1));
    return hd_hlo_add(e, hd_hlo_multiply(e, at, hd_hlo_integer(e, HD_I64, &at.shape, image / result)),
                      hd_hlo_divide(e, rest, of_result));
}

/* ---- rows of offsets --------------------------------------------------------------------------------------------- */
typedef struct looked_up {
    hd_ssa offsets, inside; /* [planes, windows, elements]: in the flat image; whether there is one */
} looked_up;

static looked_up look_up_window(hd_hlo *e, const windows *w) {
    hd_shape all = {.rank = 1, .size = {1}}; /* planes, then windows of each axis, then elements of each */
    int64_t longest[3], count = 1, elements = 1;
    for (int i = 0; i < w->rank - w->axes; ++i) all.size[0] *= w->image.size[i];
    for (int k = 0; k < w->axes; ++k) {
        const int i = w->rank - w->axes + k;
        longest[k] = w->size[i];
        for (int64_t j = 0; w->a->adaptive && j < w->result.size[i]; ++j) {
            int64_t begin, end, whole;
            window_at(w, i, j, &begin, &end, &whole);
            if (whole > longest[k]) longest[k] = whole;
        }
        all.size[all.rank++] = w->result.size[i];
        count *= w->result.size[i];
    }
    for (int k = 0; k < w->axes; ++k) {
        all.size[all.rank++] = longest[k];
        elements *= longest[k];
    }
    hd_ssa offsets = hd_hlo_iota(e, HD_I64, &all, 0), inside = hd_hlo_bits(e, HD_BOOL, &all, 1);
    for (int k = 0; k < w->axes; ++k) {
        const int i = w->rank - w->axes + k;
        const hd_ssa window = hd_hlo_iota(e, HD_I64, &all, 1 + k),
                     element = hd_hlo_iota(e, HD_I64, &all, 1 + w->axes + k);
        hd_ssa at, end = hd_hlo_integer(e, HD_I64, &all, w->image.size[i]);
        if (w->a->adaptive) {
            at = hd_hlo_add(e, adaptive_bound(e, w, i, window, false), element);
            end = adaptive_bound(e, w, i, window, true);
        } else {
            at = hd_hlo_add(e, hd_hlo_multiply(e, window, hd_hlo_integer(e, HD_I64, &all, w->stride[i])),
                            hd_hlo_multiply(e, element, hd_hlo_integer(e, HD_I64, &all, w->step[i])));
            at = hd_hlo_subtract(e, at, hd_hlo_integer(e, HD_I64, &all, w->before[i]));
            inside = hd_hlo_both(e, inside, hd_hlo_compare(e, "GE", at, hd_hlo_integer(e, HD_I64, &all, 0)));
        }
        inside = hd_hlo_both(e, inside, hd_hlo_compare(e, "LT", at, end));
        offsets = hd_hlo_add(e, hd_hlo_multiply(e, offsets, hd_hlo_integer(e, HD_I64, &all, w->image.size[i])), at);
    }
    const hd_shape rows = {.rank = 3, .size = {all.size[0], count, elements}};
    offsets = hd_hlo_select(e, inside, offsets, hd_hlo_integer(e, HD_I64, &all, 0));
    return (looked_up){hd_hlo_reshape(e, offsets, &rows), hd_hlo_reshape(e, inside, &rows)};
}

/* The place of each window's element that is the first of the largest, or the last NaN; -1 in one that sees only
 * padding. */
static hd_ssa offsets_of_largest(hd_hlo *e, const windows *w, hd_ssa x) {
    const looked_up l = look_up_window(e, w);
    const hd_shape flat = hd_hlo_flat(&x.shape), *rows = &l.offsets.shape;
    const bool last[3] = {false, false, true};
    const hd_ssa values = hd_hlo_take(e, hd_hlo_reshape(e, x, &flat), l.offsets);
    const hd_ssa nan = hd_hlo_both(e, l.inside, hd_hlo_compare(e, "NE", values, values));
    const hd_ssa seen = hd_hlo_select(e, l.inside, values, hd_hlo_number(e, x.dtype, rows, -INFINITY));
    hd_ssa best = hd_hlo_reduce(e, "maximum", seen, hd_hlo_identity(e, x.dtype, "maximum"), last, true);
    const hd_ssa equal = hd_hlo_both(e, l.inside, hd_hlo_compare(e, "EQ", seen, hd_hlo_broadcast(e, best, rows)));
    const hd_ssa at = hd_hlo_iota(e, HD_I64, rows, 2), none = hd_hlo_integer(e, HD_I64, rows, -1),
                 far = hd_hlo_integer(e, HD_I64, rows, rows->size[2]);
    const hd_ssa first = hd_hlo_reduce(e, "minimum", hd_hlo_select(e, equal, at, far),
                                       hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, rows->size[2]), last, true),
                 last_nan = hd_hlo_reduce(e, "maximum", hd_hlo_select(e, nan, at, none),
                                          hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, -1), last, true);
    const hd_ssa has_nan = hd_hlo_compare(e, "GE", last_nan, hd_hlo_integer(e, HD_I64, &last_nan.shape, 0));
    const hd_ssa which = hd_hlo_broadcast(e, hd_hlo_select(e, has_nan, last_nan, first), rows);
    const hd_ssa here = hd_hlo_select(e, hd_hlo_compare(e, "EQ", at, which), l.offsets, none);
    return hd_hlo_reduce(e, "maximum", here, hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, -1), last, false);
}

/* Where the largest of x is, of each result in a row (0 where a window sees none), and whether there is one. */
static hd_ssa find_largest(hd_hlo *e, const windows *w, hd_ssa x, hd_ssa *found) {
    const hd_shape result = hd_hlo_flat(&w->result);
    const hd_ssa offsets = hd_hlo_reshape(e, offsets_of_largest(e, w, x), &result),
                 zero = hd_hlo_integer(e, HD_I64, &result, 0);
    *found = hd_hlo_compare(e, "GE", offsets, zero);
    return hd_hlo_select(e, *found, offsets, zero);
}

/* `values` where x is largest; `unseen` in a window that sees nothing. */
static hd_ssa pick_by_places(hd_hlo *e, const windows *w, hd_ssa values, hd_ssa x, double unseen) {
    const hd_shape image = hd_hlo_flat(&w->image), result = hd_hlo_flat(&w->result);
    hd_ssa found;
    const hd_ssa at = find_largest(e, w, x, &found), taken = hd_hlo_take(e, hd_hlo_reshape(e, values, &image), at);
    return hd_hlo_reshape(e, hd_hlo_select(e, found, taken, hd_hlo_number(e, x.dtype, &result, unseen)), &w->result);
}

static hd_ssa send_by_places(hd_hlo *e, const windows *w, hd_ssa gradient, hd_ssa x) {
    const hd_shape image = hd_hlo_flat(&w->image), result = hd_hlo_flat(&w->result);
    hd_ssa found;
    const hd_ssa at = find_largest(e, w, x, &found), zero = hd_hlo_number(e, x.dtype, &result, 0),
                 g = hd_hlo_select(e, found, hd_hlo_reshape(e, gradient, &result), zero);
    return hd_hlo_reshape(e, hd_hlo_put(e, hd_hlo_number(e, x.dtype, &image, 0), at, g, "add"), &w->image);
}

/* Sums over windows of different sizes, and the way back. */
static hd_ssa sums_by_places(hd_hlo *e, const windows *w, hd_ssa x) {
    const looked_up l = look_up_window(e, w);
    const hd_shape flat = hd_hlo_flat(&x.shape);
    const bool last[3] = {false, false, true};
    hd_ssa values = hd_hlo_take(e, hd_hlo_reshape(e, x, &flat), l.offsets);
    values = hd_hlo_select(e, l.inside, values, hd_hlo_number(e, x.dtype, &values.shape, 0));
    return hd_hlo_reshape(e, hd_hlo_reduce(e, "add", values, hd_hlo_identity(e, x.dtype, "add"), last, false),
                          &w->result);
}

static hd_ssa spread_by_places(hd_hlo *e, const windows *w, hd_ssa share) {
    const looked_up l = look_up_window(e, w);
    const hd_shape image = hd_hlo_flat(&w->image), rows = l.offsets.shape,
                   one = {.rank = 3, .size = {rows.size[0], rows.size[1], 1}};
    share = hd_hlo_broadcast(e, hd_hlo_reshape(e, share, &one), &rows);
    share = hd_hlo_select(e, l.inside, share, hd_hlo_number(e, share.dtype, &rows, 0));
    return hd_hlo_reshape(e, hd_hlo_put(e, hd_hlo_number(e, share.dtype, &image, 0), l.offsets, share, "add"),
                          &w->image);
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */
static hd_ssa avg(hd_hlo *e, const windows *w, hd_ssa x) {
    const hd_dtype dtype = x.dtype;
    x = hd_hlo_convert(e, x, HD_F64); /* sums add up in f64, as ours do */
    const hd_ssa sums = w->even
                            ? reduce_windows(e, "add", x, &w->result, w->size, w->stride, w->step, w->before, w->after)
                            : sums_by_places(e, w, x);
    return hd_hlo_convert(e, hd_hlo_divide(e, sums, divisors(e, w, HD_F64)), dtype);
}

/* Each window's share, added up where windows lap: sums over windows of the shares, spread out to where windows
 * begin. */
static hd_ssa avg_gradient(hd_hlo *e, const windows *w, hd_ssa g) {
    const hd_ssa share = hd_hlo_divide(e, g, divisors(e, w, g.dtype));
    if (!w->even) return spread_by_places(e, w, share);
    int64_t low[HD_MAX_RANK], high[HD_MAX_RANK], between[HD_MAX_RANK], one[HD_MAX_RANK], none[HD_MAX_RANK] = {0};
    for (int i = 0; i < w->rank; ++i) {
        low[i] = w->size[i] - 1 - w->before[i];
        high[i] = w->image.size[i] - 1 + w->before[i] - (w->result.size[i] - 1) * w->stride[i];
        between[i] = w->stride[i] - 1;
        one[i] = 1;
    }
    const hd_ssa spread = hd_hlo_pad(e, share, hd_hlo_number(e, g.dtype, HD_HLO_SCALAR, 0), low, high, between);
    return reduce_windows(e, "add", spread, &w->image, w->size, one, one, none, none);
}

/* One for each op, on its first operand and x, where the largest is looked for; without another they are one. */
static hd_ssa largest(hd_hlo *e, const windows *w, hd_ssa first, hd_ssa x) {
    return w->even ? reduce_windows(e, "maximum", x, &w->result, w->size, w->stride, w->step, w->before, w->after)
                   : pick_by_places(e, w, first, x, -INFINITY);
}
static hd_ssa picked(hd_hlo *e, const windows *w, hd_ssa first, hd_ssa x) { return pick_by_places(e, w, first, x, 0); }
static hd_ssa largest_gradient(hd_hlo *e, const windows *w, hd_ssa first, hd_ssa x) {
    return w->even && !w->dilated ? select_and_scatter(e, x, first, w) : send_by_places(e, w, first, x);
}
static hd_ssa mean(hd_hlo *e, const windows *w, hd_ssa first, hd_ssa x) {
    (void)x;
    return avg(e, w, first);
}
static hd_ssa mean_gradient(hd_hlo *e, const windows *w, hd_ssa first, hd_ssa x) {
    (void)x;
    return avg_gradient(e, w, first);
}

/* Pools by `how`; back: from results to an image. */
static hd_ssa emit_pool(hd_hlo *e, uint32_t node, hd_ssa (*how)(hd_hlo *, const windows *, hd_ssa, hd_ssa), bool back) {
    const hd_node *n = &e->g->nodes[node];
    const hd_dtype dtype = (hd_dtype)n->dtype, wide = hd_hlo_wide(dtype);
    const hd_shape shape = hd_node_shape(e->g, node);
    const hd_ssa first = hd_hlo_cast(e, hd_hlo_input(e, node, 0), wide),
                 x = n->input_count > 1 ? hd_hlo_cast(e, hd_hlo_input(e, node, 1), wide) : first;
    if (hd_shape_count(first.shape) == 0 || hd_shape_count(shape) == 0)
        return hd_hlo_number(e, dtype, &shape, 0); /* no images */
    const windows w =
        find_windows(hd_node_attributes(e->g, node), back ? &shape : &first.shape, back ? &first.shape : &shape);
    return hd_hlo_cast(e, how(e, &w, first, x), dtype);
}
hd_ssa hd_hlo_emit_max_pool(hd_hlo *e, uint32_t node) { return emit_pool(e, node, largest, false); }
hd_ssa hd_hlo_emit_avg_pool(hd_hlo *e, uint32_t node) { return emit_pool(e, node, mean, false); }
hd_ssa hd_hlo_emit_max_pool_pick(hd_hlo *e, uint32_t node) { return emit_pool(e, node, picked, false); }
hd_ssa hd_hlo_emit_max_pool_gradient(hd_hlo *e, uint32_t node) { return emit_pool(e, node, largest_gradient, true); }
hd_ssa hd_hlo_emit_avg_pool_gradient(hd_hlo *e, uint32_t node) { return emit_pool(e, node, mean_gradient, true); }
