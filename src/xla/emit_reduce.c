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
    const hd_ssa places = hd_hlo_select(e, here, hd_hlo_iota(e, HD_I64, &x.shape, axis),
                                        hd_hlo_integer(e, HD_I64, &x.shape, x.shape.size[axis]));
    return hd_hlo_reduce(e, "minimum", places, hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, x.shape.size[axis]), a->reduced,
                         a->keep_dims);
}

/* Sums of f32 add up in f64, as ours do. */
hd_ssa hd_hlo_emit_reduce(hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    const hd_reduce_attributes *a = hd_node_attributes(e->g, node);
    hd_ssa x = hd_hlo_input(e, node, 0);
    const char *op = "add";
    switch ((int)n->op) {
    case HD_OP_argmax: return place_of_extreme(e, x, true, a);
    case HD_OP_argmin: return place_of_extreme(e, x, false, a);
    case HD_OP_any: op = "or", x = hd_hlo_cast(e, x, HD_BOOL); break;
    case HD_OP_all: op = "and", x = hd_hlo_cast(e, x, HD_BOOL); break;
    case HD_OP_max: op = x.dtype == HD_BOOL ? "or" : "maximum", x = hd_hlo_convert(e, x, hd_hlo_wide(x.dtype)); break;
    case HD_OP_min: op = x.dtype == HD_BOOL ? "and" : "minimum", x = hd_hlo_convert(e, x, hd_hlo_wide(x.dtype)); break;
    default:
        op = n->op == HD_OP_prod ? "multiply" : "add";
        x = hd_hlo_cast(e, x, hd_dtype_is_float((hd_dtype)n->dtype) ? HD_F64 : (hd_dtype)n->dtype);
        break;
    }
    x = hd_hlo_reduce(e, op, x, hd_hlo_identity(e, x.dtype, op), a->reduced, a->keep_dims);
    return hd_hlo_cast(e, x, (hd_dtype)n->dtype);
}

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

hd_ssa hd_hlo_emit_norm(hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    const hd_norm_attributes *a = hd_node_attributes(e->g, node);
    const hd_dtype wide = hd_hlo_wide((hd_dtype)n->dtype);
    const hd_op_id id = (hd_op_id)n->op;
    const bool value = id == HD_OP_layer_norm || id == HD_OP_rms_norm,
               centered =
                   id == HD_OP_layer_norm || id == HD_OP_layer_norm_gradient || id == HD_OP_layer_norm_weight_gradient;
    hd_ssa in[3];
    for (int i = 0; i < n->input_count; ++i) in[i] = hd_hlo_cast(e, hd_hlo_input(e, node, i), wide);
    const norm m = normalised(e, in[value ? 0 : 1], a->axes, a->eps, centered);
    hd_ssa y = m.z;
    if (value) {
        if (n->input_count > 1) y = hd_hlo_multiply(e, y, hd_hlo_broadcast(e, in[1], &y.shape));
        if (n->input_count > 2) y = hd_hlo_add(e, y, hd_hlo_broadcast(e, in[2], &y.shape));
    } else if (id == HD_OP_layer_norm_gradient || id == HD_OP_rms_norm_gradient) {
        const hd_ssa h = n->input_count > 2 ? hd_hlo_multiply(e, in[0], hd_hlo_broadcast(e, in[2], &y.shape)) : in[0];
        y = gradient_of_x(e, &m, h, centered);
    } else {
        hd_ssa both[2] = {over_rows(e, &m, hd_hlo_multiply(e, in[0], m.z))};
        if (centered) {
            hd_shape row = {.rank = both[0].shape.rank + 1, .size = {1}};
            for (int i = 1; i < row.rank; ++i) row.size[i] = both[0].shape.size[i - 1];
            both[1] = hd_hlo_reshape(e, over_rows(e, &m, in[0]), &row);
            both[0] = hd_hlo_reshape(e, both[0], &row);
        }
        y = hd_hlo_concat(e, both, centered ? 2 : 1, 0);
    }
    return hd_hlo_cast(e, y, (hd_dtype)n->dtype);
}
