/* Reductions, and the norms that are made of them. */
#include "ops/op.h"
#include "xla/build.h"

/* ---- reductions -------------------------------------------------------------------------------------------------- */
/* The first place where the largest is, or the first NaN: one walk for the value, which NaN takes over, and one for the
 * place. */
static hd_ssa place_of_extreme(hd_hlo *e, hd_ssa x, bool largest, const hd_reduce_attributes *a) {
    int axis = 0;
    while (axis + 1 < x.shape.rank && !a->reduced[axis]) ++axis;
    if (x.shape.rank == 0) return hd_hlo_integer(e, HD_I64, &x.shape, 0);
    x = hd_hlo_convert(e, x, x.dtype == HD_BOOL ? HD_U8 : hd_hlo_wide(x.dtype));
    const char *op = largest ? "maximum" : "minimum";
    hd_ssa best = hd_hlo_reduce(e, op, x, hd_hlo_identity(e, x.dtype, op), a->reduced, true);
    best = hd_hlo_broadcast(e, best, &x.shape);
    hd_ssa here = hd_hlo_compare(e, "EQ", x, best);
    if (hd_dtype_is_float(x.dtype)) here = hd_hlo_either(e, here, hd_hlo_compare(e, "NE", x, x));
    const hd_ssa positions = hd_hlo_select(e, here, hd_hlo_iota(e, HD_I64, &x.shape, axis),
                                           hd_hlo_integer(e, HD_I64, &x.shape, x.shape.size[axis]));
    return hd_hlo_reduce(e, "minimum", positions, hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, x.shape.size[axis]),
                         a->reduced, a->keep_dims);
}

/* The element at that place: all others are made to count for nothing. */
static hd_ssa extreme_with_index(hd_hlo *e, uint32_t node, bool largest) {
    const hd_reduce_attributes *a = hd_node_attributes(e->g, node);
    const hd_ssa x = hd_hlo_input(e, node, 0);
    hd_reduce_attributes kept = *a;
    kept.keep_dims = true;
    const hd_shape shape = hd_node_shape(e->g, node);
    const hd_ssa at = place_of_extreme(e, x, largest, &kept);
    e->seconds[node] = hd_hlo_reshape(e, at, &shape);
    int axis = 0;
    while (axis + 1 < x.shape.rank && !a->reduced[axis]) ++axis;
    const hd_ssa flat = hd_hlo_take_along(e, x, at, axis);
    return hd_hlo_reshape(e, flat, &shape);
}
hd_ssa hd_hlo_emit_max_with_index(hd_hlo *e, uint32_t node) { return extreme_with_index(e, node, true); }
hd_ssa hd_hlo_emit_min_with_index(hd_hlo *e, uint32_t node) { return extreme_with_index(e, node, false); }

hd_ssa hd_hlo_emit_argmax(hd_hlo *e, uint32_t node) {
    return place_of_extreme(e, hd_hlo_input(e, node, 0), true, hd_node_attributes(e->g, node));
}
hd_ssa hd_hlo_emit_argmin(hd_hlo *e, uint32_t node) {
    return place_of_extreme(e, hd_hlo_input(e, node, 0), false, hd_node_attributes(e->g, node));
}

/* x, of the dtype in which it is reduced, over the node's axes. */
static hd_ssa reduced(hd_hlo *e, uint32_t node, const char *op, hd_ssa x) {
    const hd_reduce_attributes *a = hd_node_attributes(e->g, node);
    x = hd_hlo_reduce(e, op, x, hd_hlo_identity(e, x.dtype, op), a->reduced, a->keep_dims);
    return hd_hlo_cast(e, x, (hd_dtype)e->g->nodes[node].dtype);
}

/* Sums and products of floats add up in f64, as ours do. */
static hd_ssa accumulated(hd_hlo *e, uint32_t node, const char *op) {
    const hd_dtype dtype = (hd_dtype)e->g->nodes[node].dtype;
    return reduced(e, node, op, hd_hlo_cast(e, hd_hlo_input(e, node, 0), hd_dtype_is_float(dtype) ? HD_F64 : dtype));
}
hd_ssa hd_hlo_emit_sum(hd_hlo *e, uint32_t node) { return accumulated(e, node, "add"); }
hd_ssa hd_hlo_emit_prod(hd_hlo *e, uint32_t node) { return accumulated(e, node, "multiply"); }

static hd_ssa extreme(hd_hlo *e, uint32_t node, const char *op, const char *of_bool) {
    const hd_ssa x = hd_hlo_input(e, node, 0);
    return reduced(e, node, x.dtype == HD_BOOL ? of_bool : op, hd_hlo_convert(e, x, hd_hlo_wide(x.dtype)));
}
hd_ssa hd_hlo_emit_max(hd_hlo *e, uint32_t node) { return extreme(e, node, "maximum", "or"); }
hd_ssa hd_hlo_emit_min(hd_hlo *e, uint32_t node) { return extreme(e, node, "minimum", "and"); }

static hd_ssa truth(hd_hlo *e, uint32_t node, const char *op) {
    return reduced(e, node, op, hd_hlo_cast(e, hd_hlo_input(e, node, 0), HD_BOOL));
}
hd_ssa hd_hlo_emit_any(hd_hlo *e, uint32_t node) { return truth(e, node, "or"); }
hd_ssa hd_hlo_emit_all(hd_hlo *e, uint32_t node) { return truth(e, node, "and"); }

/* ---- norms ---------------------------------------------------------------------------------------------------------
 * Means are f64, and so is what cancels around them; x itself is normalised in its own type. */
typedef struct norm {
    hd_ssa x, z, scale; /* x normalised, and what it was multiplied by, spread over x */
    bool last[HD_MAX_RANK], front[HD_MAX_RANK];
    double count;
} norm;

static hd_ssa in_f64(hd_hlo *e, hd_ssa x) { return hd_hlo_convert(e, x, HD_F64); }

/* The mean over the normalised axes of f64, which stay with size 1. */
static hd_ssa mean(hd_hlo *e, const norm *m, hd_ssa x) {
    x = hd_hlo_reduce(e, "add", x, hd_hlo_identity(e, HD_F64, "add"), m->last, true);
    return hd_hlo_divide(e, x, hd_hlo_number(e, HD_F64, &x.shape, m->count));
}

static norm normalised(hd_hlo *e, hd_ssa x, int axes, double eps, bool centered) {
    norm m = {.x = x, .count = 1};
    for (int i = 0; i < x.shape.rank; ++i) {
        m.last[i] = i >= x.shape.rank - axes;
        m.front[i] = !m.last[i];
        if (m.last[i]) m.count *= (double)x.shape.size[i];
    }
    hd_ssa d = in_f64(e, x);
    if (centered) d = hd_hlo_subtract(e, d, hd_hlo_broadcast(e, mean(e, &m, d), &x.shape));
    hd_ssa spread = mean(e, &m, hd_hlo_multiply(e, d, d));
    spread = hd_hlo_unary(e, "sqrt", hd_hlo_add(e, spread, hd_hlo_number(e, HD_F64, &spread.shape, eps)));
    spread = hd_hlo_divide(e, hd_hlo_number(e, HD_F64, &spread.shape, 1), spread);
    m.scale = hd_hlo_broadcast(e, hd_hlo_convert(e, spread, x.dtype), &x.shape);
    m.z = hd_hlo_multiply(e, hd_hlo_convert(e, d, x.dtype), m.scale);
    return m;
}

static hd_ssa gradient_of_x(hd_hlo *e, const norm *m, hd_ssa h, bool centered) {
    const hd_ssa g = in_f64(e, h), z = in_f64(e, m->z);
    hd_ssa rest = hd_hlo_multiply(e, z, hd_hlo_broadcast(e, mean(e, m, hd_hlo_multiply(e, g, z)), &z.shape));
    if (centered) rest = hd_hlo_add(e, rest, hd_hlo_broadcast(e, mean(e, m, g), &z.shape));
    return hd_hlo_multiply(e, m->scale, hd_hlo_convert(e, hd_hlo_subtract(e, g, rest), h.dtype));
}

static hd_ssa over_rows(hd_hlo *e, const norm *m, hd_ssa x) {
    x = hd_hlo_reduce(e, "add", hd_hlo_convert(e, x, HD_F64), hd_hlo_identity(e, HD_F64, "add"), m->front, false);
    return hd_hlo_convert(e, x, m->x.dtype);
}

/* The operands, of which number `x` is normalised. */
static norm read_norm(hd_hlo *e, uint32_t node, bool centered, int x, hd_ssa in[3]) {
    const hd_node *n = &e->g->nodes[node];
    const hd_norm_attributes *a = hd_node_attributes(e->g, node);
    for (int i = 0; i < n->input_count; ++i)
        in[i] = hd_hlo_cast(e, hd_hlo_input(e, node, i), hd_hlo_wide((hd_dtype)n->dtype));
    return normalised(e, in[x], a->axes, a->eps, centered);
}

static hd_ssa emit_norm(hd_hlo *e, uint32_t node, bool centered) {
    const hd_node *n = &e->g->nodes[node];
    hd_ssa in[3], y = read_norm(e, node, centered, 0, in).z;
    if (n->input_count > 1) y = hd_hlo_multiply(e, y, hd_hlo_broadcast(e, in[1], &y.shape));
    if (n->input_count > 2) y = hd_hlo_add(e, y, hd_hlo_broadcast(e, in[2], &y.shape));
    return hd_hlo_cast(e, y, (hd_dtype)n->dtype);
}
hd_ssa hd_hlo_emit_layer_norm(hd_hlo *e, uint32_t node) { return emit_norm(e, node, true); }
hd_ssa hd_hlo_emit_rms_norm(hd_hlo *e, uint32_t node) { return emit_norm(e, node, false); }

static hd_ssa emit_gradient(hd_hlo *e, uint32_t node, bool centered) {
    const hd_node *n = &e->g->nodes[node];
    hd_ssa in[3];
    const norm m = read_norm(e, node, centered, 1, in);
    const hd_ssa h = n->input_count > 2 ? hd_hlo_multiply(e, in[0], hd_hlo_broadcast(e, in[2], &m.z.shape)) : in[0];
    return hd_hlo_cast(e, gradient_of_x(e, &m, h, centered), (hd_dtype)n->dtype);
}
hd_ssa hd_hlo_emit_layer_norm_gradient(hd_hlo *e, uint32_t node) { return emit_gradient(e, node, true); }
hd_ssa hd_hlo_emit_rms_norm_gradient(hd_hlo *e, uint32_t node) { return emit_gradient(e, node, false); }

/* [2, the normalised axes]: the weight's and the bias's. */
hd_ssa hd_hlo_emit_layer_norm_weight_gradient(hd_hlo *e, uint32_t node) {
    hd_ssa in[3];
    const norm m = read_norm(e, node, true, 1, in);
    hd_ssa both[2] = {over_rows(e, &m, hd_hlo_multiply(e, in[0], m.z)), over_rows(e, &m, in[0])};
    hd_shape row = {.rank = both[0].shape.rank + 1, .size = {1}};
    for (int i = 1; i < row.rank; ++i) row.size[i] = both[0].shape.size[i - 1];
    for (int i = 0; i < 2; ++i) both[i] = hd_hlo_reshape(e, both[i], &row);
    return hd_hlo_cast(e, hd_hlo_concat(e, both, 2, 0), (hd_dtype)e->g->nodes[node].dtype);
}
hd_ssa hd_hlo_emit_rms_norm_weight_gradient(hd_hlo *e, uint32_t node) {
    hd_ssa in[3];
    const norm m = read_norm(e, node, false, 1, in);
    return hd_hlo_cast(e, over_rows(e, &m, hd_hlo_multiply(e, in[0], m.z)), (hd_dtype)e->g->nodes[node].dtype);
}
