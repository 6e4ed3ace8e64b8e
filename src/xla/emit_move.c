/* Creation, views, movement, and writing parts: values that change their shape or place, and nothing else. A view of
 * any layout is read as slices of its source where it consists of them, and element by element where not. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>
#include <string.h>

/* ---- creation ---------------------------------------------------------------------------------------------------- */
static bool is_whole(double v) { return v > -0x1p53 && v < 0x1p53 && v == floor(v); }

/* Whole numbers are counted in i64; others are computed as f64 are. */
static hd_ssa range(hd_hlo *e, hd_dtype dtype, const hd_shape *shape, const hd_range_attributes *a) {
    const int64_t count = shape->size[0];
    const bool whole = is_whole(a->start) && is_whole(a->step) && is_whole(a->start + (double)count * a->step);
    const hd_dtype as = whole ? HD_I64 : HD_F64;
    hd_ssa v = hd_hlo_convert(e, hd_hlo_iota(e, HD_I64, shape, 0), as);
    v = hd_hlo_multiply(e, v, hd_hlo_number(e, as, shape, a->step));
    v = hd_hlo_add(e, v, hd_hlo_number(e, as, shape, a->start));
    if (whole && hd_dtype_is_float(dtype)) v = hd_hlo_convert(e, v, HD_F64);
    if (whole && !hd_dtype_is_float(dtype) && dtype != HD_I64) v = hd_hlo_convert(e, v, HD_F64); /* it saturates */
    v = hd_hlo_cast(e, v, dtype);
    if (!a->has_last || count == 0) return v;
    const hd_ssa at_end =
        hd_hlo_compare(e, "EQ", hd_hlo_iota(e, HD_I64, shape, 0), hd_hlo_integer(e, HD_I64, shape, count - 1));
    return hd_hlo_select(e, at_end, hd_hlo_number(e, dtype, shape, a->last), v);
}

hd_ssa hd_hlo_emit_range(hd_hlo *e, uint32_t node) {
    const hd_shape shape = hd_node_shape(e->g, node);
    return range(e, (hd_dtype)e->g->nodes[node].dtype, &shape, hd_node_attributes(e->g, node));
}

static hd_ssa filled(hd_hlo *e, uint32_t node, double value) {
    const hd_shape shape = hd_node_shape(e->g, node);
    return hd_hlo_number(e, (hd_dtype)e->g->nodes[node].dtype, &shape, value);
}
hd_ssa hd_hlo_emit_full(hd_hlo *e, uint32_t node) {
    return filled(e, node, ((const hd_full_attributes *)hd_node_attributes(e->g, node))->value);
}
hd_ssa hd_hlo_emit_empty(hd_hlo *e, uint32_t node) { return filled(e, node, 0); }

hd_ssa hd_hlo_emit_cast(hd_hlo *e, uint32_t node) {
    return hd_hlo_cast(e, hd_hlo_input(e, node, 0), (hd_dtype)e->g->nodes[node].dtype);
}

/* ---- any layout over a contiguous value -------------------------------------------------------------------------- */
/* A layout as slices of its source: axis i of it runs along axis `axis[i]` (-1: it stands still), `step[i]` apart. */
typedef struct parts {
    int axis[HD_MAX_RANK];
    int64_t start[HD_MAX_RANK], count[HD_MAX_RANK], step[HD_MAX_RANK]; /* of the source's axes; steps > 0 */
    bool reversed[HD_MAX_RANK];                                        /* of the source's axes */
} parts;

/* The source's axis along which elements lie `stride` apart, far enough for a whole run; -1: none that is free. */
static int axis_along(const hd_layout *source, const parts *p, int64_t stride, int64_t count) {
    for (int j = 0; j < source->shape.rank; ++j) {
        const int64_t step = stride / (source->stride[j] != 0 ? source->stride[j] : 1);
        if (p->count[j] == 1 && source->shape.size[j] > 1 && step * source->stride[j] == stride && step > 0 &&
            (count - 1) * step < source->shape.size[j])
            return j;
    }
    return -1;
}

static bool find_parts(const hd_layout *source, const hd_layout *view, parts *p) {
    int64_t offset = view->offset;
    *p = (parts){0};
    for (int j = 0; j < source->shape.rank; ++j) p->count[j] = p->step[j] = 1;
    for (int i = 0; i < view->shape.rank; ++i) {
        const int64_t size = view->shape.size[i], stride = view->stride[i];
        p->axis[i] = -1;
        if (size == 1 || stride == 0) continue;
        const int64_t apart = stride < 0 ? -stride : stride;
        const int j = axis_along(source, p, apart, size);
        if (j < 0) return false;
        p->axis[i] = j;
        p->count[j] = size;
        p->step[j] = apart / source->stride[j];
        p->reversed[j] = stride < 0;
        if (stride < 0) offset += (size - 1) * stride;
    }
    for (int j = 0; j < source->shape.rank; ++j) {
        p->start[j] = source->stride[j] > 0 ? offset / source->stride[j] : 0;
        offset -= p->start[j] * source->stride[j];
        if (p->start[j] < 0 || p->start[j] + (p->count[j] - 1) * p->step[j] >= source->shape.size[j]) return false;
    }
    return offset == 0;
}

/* The same elements under a shape whose axes are as far apart as those of the view: what was reshaped before it was
 * cut. */
static bool shape_for(const hd_layout *view, int64_t count, hd_shape *out) {
    int64_t apart[HD_MAX_RANK], left = count;
    int n = 0;
    for (int i = 0; i < view->shape.rank; ++i) {
        const int64_t stride = view->stride[i] < 0 ? -view->stride[i] : view->stride[i];
        if (view->shape.size[i] == 1 || stride == 0) continue;
        int at = n++;
        for (; at > 0 && apart[at - 1] < stride; --at) apart[at] = apart[at - 1];
        apart[at] = stride;
    }
    *out = (hd_shape){.rank = 0};
    if (n == HD_MAX_RANK) return false;
    for (int i = 0; i < n; ++i) {
        if (left % apart[i] != 0) return false;
        out->size[out->rank++] = left / apart[i];
        left = apart[i];
    }
    if (left > 1 || n == 0) out->size[out->rank++] = left;
    return true;
}

/* The view as slices of x, under its own shape or another. */
static bool find_slices(hd_hlo *e, hd_ssa *x, const hd_layout *view, parts *p) {
    hd_layout source;
    hd_shape shape;
    hd_layout_contiguous(&source, &x->shape);
    if (find_parts(&source, view, p)) return true;
    if (!shape_for(view, hd_shape_count(x->shape), &shape)) return false;
    hd_layout_contiguous(&source, &shape);
    if (!find_parts(&source, view, p)) return false;
    *x = hd_hlo_reshape(e, *x, &shape);
    return true;
}

/* Where the elements of a layout lie. */
static hd_ssa places_of(hd_hlo *e, const hd_layout *view) {
    hd_ssa at = hd_hlo_integer(e, HD_I64, &view->shape, view->offset);
    for (int i = 0; i < view->shape.rank; ++i) {
        if (view->shape.size[i] <= 1 || view->stride[i] == 0) continue;
        const hd_ssa stride = hd_hlo_integer(e, HD_I64, &view->shape, view->stride[i]);
        at = hd_hlo_add(e, at, hd_hlo_multiply(e, hd_hlo_iota(e, HD_I64, &view->shape, i), stride));
    }
    return at;
}

static hd_ssa strided(hd_hlo *e, hd_ssa x, const hd_layout *view) {
    parts p;
    if (hd_shape_count(view->shape) == 0) return hd_hlo_bits(e, x.dtype, &view->shape, 0);
    if (!find_slices(e, &x, view, &p)) {
        const hd_shape flat = hd_hlo_flat(&x.shape);
        return hd_hlo_take(e, hd_hlo_reshape(e, x, &flat), places_of(e, view));
    }
    hd_ssa v = hd_hlo_reverse(e, hd_hlo_slice(e, x, p.start, p.count, p.step), p.reversed);
    hd_shape moving = {.rank = 0}; /* the source's axes that the view has, in the source's order */
    int position[HD_MAX_RANK];
    for (int j = 0; j < x.shape.rank; ++j)
        for (int i = 0; i < view->shape.rank; ++i)
            if (p.axis[i] == j) {
                position[j] = moving.rank;
                moving.size[moving.rank++] = p.count[j];
            }
    v = hd_hlo_reshape(e, v, &moving);
    int order[HD_MAX_RANK], count = 0;
    int64_t axes[HD_MAX_RANK];
    for (int i = 0; i < view->shape.rank; ++i)
        if (p.axis[i] >= 0) {
            axes[count] = i;
            order[count++] = position[p.axis[i]];
        }
    v = hd_hlo_transpose(e, v, order);
    if (hd_shape_count(v.shape) == hd_shape_count(view->shape)) return hd_hlo_reshape(e, v, &view->shape);
    return hd_hlo_stretch(e, v, &view->shape, axes);
}

/* ---- views ------------------------------------------------------------------------------------------------------- */
hd_ssa hd_hlo_emit_detach(hd_hlo *e, uint32_t node) { return hd_hlo_input(e, node, 0); }
hd_ssa hd_hlo_emit_reshape(hd_hlo *e, uint32_t node) {
    const hd_shape shape = hd_node_shape(e->g, node);
    return hd_hlo_reshape(e, hd_hlo_input(e, node, 0), &shape);
}
hd_ssa hd_hlo_emit_broadcast_to(hd_hlo *e, uint32_t node) {
    const hd_shape shape = hd_node_shape(e->g, node);
    return hd_hlo_broadcast(e, hd_hlo_input(e, node, 0), &shape);
}
hd_ssa hd_hlo_emit_permute(hd_hlo *e, uint32_t node) {
    const hd_axes_attributes *a = hd_node_attributes(e->g, node);
    return hd_hlo_transpose(e, hd_hlo_input(e, node, 0), a->axes.axis);
}
/* A bool is stored as a byte. */
hd_ssa hd_hlo_emit_bitcast(hd_hlo *e, uint32_t node) {
    const hd_ssa x = hd_hlo_input(e, node, 0);
    return hd_hlo_bitcast(e, x.dtype == HD_BOOL ? hd_hlo_convert(e, x, HD_U8) : x, (hd_dtype)e->g->nodes[node].dtype);
}

/* Any other view, by the layout it has over its source. */
static hd_ssa by_layout(hd_hlo *e, uint32_t node) {
    const hd_ssa x = hd_hlo_input(e, node, 0);
    hd_layout source, view;
    hd_layout_contiguous(&source, &x.shape);
    hd_view_layout((hd_op_id)e->g->nodes[node].op, hd_node_attributes(e->g, node), &source, &view);
    return strided(e, x, &view);
}
hd_ssa hd_hlo_emit_slice(hd_hlo *e, uint32_t node) { return by_layout(e, node); }
hd_ssa hd_hlo_emit_diagonal(hd_hlo *e, uint32_t node) { return by_layout(e, node); }
hd_ssa hd_hlo_emit_unfold(hd_hlo *e, uint32_t node) { return by_layout(e, node); }
hd_ssa hd_hlo_emit_as_strided(hd_hlo *e, uint32_t node) { return by_layout(e, node); }

/* ---- movement ---------------------------------------------------------------------------------------------------- */
/* An input in the dtype of the result. */
static hd_ssa moved(hd_hlo *e, uint32_t node, int input) {
    return hd_hlo_cast(e, hd_hlo_input(e, node, input), (hd_dtype)e->g->nodes[node].dtype);
}

hd_ssa hd_hlo_emit_contiguous(hd_hlo *e, uint32_t node) { return moved(e, node, 0); }

hd_ssa hd_hlo_emit_concat(hd_hlo *e, uint32_t node) {
    const int count = e->g->nodes[node].input_count;
    hd_ssa pieces[HD_MAX_INPUTS];
    for (int i = 0; i < count; ++i) pieces[i] = moved(e, node, i);
    return hd_hlo_concat(e, pieces, count, ((const hd_axis_attributes *)hd_node_attributes(e->g, node))->axis);
}

hd_ssa hd_hlo_emit_pad(hd_hlo *e, uint32_t node) {
    const hd_pad_attributes *a = hd_node_attributes(e->g, node);
    const hd_ssa x = moved(e, node, 0);
    int64_t low[HD_MAX_RANK], high[HD_MAX_RANK];
    for (int i = 0; i < x.shape.rank; ++i) {
        low[i] = a->padding[i].before;
        high[i] = a->padding[i].after;
    }
    return hd_hlo_pad(e, x, hd_hlo_number(e, x.dtype, HD_HLO_SCALAR, a->value), low, high, NULL);
}

/* ---- writing a part ---------------------------------------------------------------------------------------------- */
static hd_ssa update_slice(hd_hlo *e, hd_ssa x, hd_ssa value, const parts *p) {
    hd_ssa starts[HD_MAX_RANK];
    for (int j = 0; j < x.shape.rank; ++j) starts[j] = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, p->start[j]);
    const hd_ssa v = hd_hlo_define(e, x.dtype, &x.shape);
    hd_hlo_say(e, "    %v = stablehlo.dynamic_update_slice %v, %v", &v, &x, &value);
    for (int j = 0; j < x.shape.rank; ++j) hd_hlo_say(e, ", %v", &starts[j]);
    hd_hlo_say(e, " : (%t, %t", &x, &value);
    for (int j = 0; j < x.shape.rank; ++j) hd_hlo_say(e, ", %t", &starts[j]);
    hd_hlo_say(e, ") -> %t\n", &v);
    return v;
}

/* Values that lie apart: spread out over the shape of x, and taken where they are. */
static hd_ssa update_spread(hd_hlo *e, hd_ssa x, hd_ssa value, const parts *p) {
    int64_t high[HD_MAX_RANK], between[HD_MAX_RANK];
    for (int j = 0; j < x.shape.rank; ++j) {
        between[j] = p->step[j] - 1;
        high[j] = x.shape.size[j] - 1 - (p->start[j] + (p->count[j] - 1) * p->step[j]);
    }
    const hd_ssa zero = hd_hlo_bits(e, x.dtype, HD_HLO_SCALAR, 0), no = hd_hlo_bits(e, HD_BOOL, HD_HLO_SCALAR, 0),
                 yes = hd_hlo_bits(e, HD_BOOL, &value.shape, 1);
    return hd_hlo_select(e, hd_hlo_pad(e, yes, no, p->start, high, between),
                         hd_hlo_pad(e, value, zero, p->start, high, between), x);
}

hd_ssa hd_hlo_emit_write(hd_hlo *e, uint32_t node) {
    const hd_layout *view = &((const hd_strided_attributes *)hd_node_attributes(e->g, node))->layout;
    hd_ssa x = hd_hlo_input(e, node, 0);
    const hd_shape whole = x.shape;
    hd_ssa value = hd_hlo_broadcast(e, hd_hlo_cast(e, hd_hlo_input(e, node, 1), x.dtype), &view->shape);
    parts p;
    if (hd_shape_count(view->shape) == 0) return x;
    bool stands = false; /* an axis along which all are written to one place: the last stays */
    for (int i = 0; i < view->shape.rank; ++i) stands = stands || (view->shape.size[i] > 1 && view->stride[i] == 0);
    if (stands || !find_slices(e, &x, view, &p)) {
        const hd_shape flat = hd_hlo_flat(&x.shape);
        const hd_ssa all = hd_hlo_put(e, hd_hlo_reshape(e, x, &flat), places_of(e, view), value, "");
        return hd_hlo_reshape(e, all, &x.shape);
    }
    /* the view's axes in the source's order, and those that stand still with size 1 */
    hd_shape part = {.rank = x.shape.rank}, moving = {.rank = 0};
    int order[HD_MAX_RANK], count = 0, position[HD_MAX_RANK];
    bool apart = false;
    for (int i = 0; i < view->shape.rank; ++i) {
        if (p.axis[i] < 0) continue;
        position[p.axis[i]] = moving.rank;
        moving.size[moving.rank++] = view->shape.size[i];
    }
    for (int j = 0; j < x.shape.rank; ++j) {
        part.size[j] = p.count[j];
        apart = apart || p.step[j] != 1;
        for (int i = 0; i < view->shape.rank; ++i)
            if (p.axis[i] == j) order[count++] = position[j];
    }
    value = hd_hlo_transpose(e, hd_hlo_reshape(e, value, &moving), order);
    value = hd_hlo_reverse(e, hd_hlo_reshape(e, value, &part), p.reversed);
    return hd_hlo_reshape(e, apart ? update_spread(e, x, value, &p) : update_slice(e, x, value, &p), &whole);
}
