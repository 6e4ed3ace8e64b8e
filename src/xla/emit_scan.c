/* Scans along an axis, by doubling: after a step of 1, 2, 4, ... places an element has as many of those before it. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>

static int64_t size_of_axis(const hd_ssa *x, int axis) { return x->shape.rank == 0 ? 1 : x->shape.size[axis]; }

/* Of each element the one met `by` places before it; filler, a scalar, where there is none. */
static hd_ssa met_before(hd_hlo *e, hd_ssa x, const hd_scan_attributes *a, int64_t by, hd_ssa filler) {
    int64_t low[HD_MAX_RANK] = {0}, high[HD_MAX_RANK] = {0};
    if (x.shape.rank == 0) return filler;
    if (x.shape.size[a->axis] == 0) return x;
    low[a->axis] = a->reverse ? -by : by;
    high[a->axis] = -low[a->axis];
    return hd_hlo_pad(e, x, filler, low, high, NULL);
}

/* ---- sums, products, and logarithms of sums ---------------------------------------------------------------------- */
static hd_ssa add(hd_hlo *e, hd_ssa a, hd_ssa b) { return hd_hlo_add(e, a, b); }
static hd_ssa multiply(hd_hlo *e, hd_ssa a, hd_ssa b) { return hd_hlo_multiply(e, a, b); }

/* log(e^a + e^b), from the larger one on; two that are equal may be infinite. */
static hd_ssa add_logarithms(hd_hlo *e, hd_ssa a, hd_ssa b) {
    const hd_ssa largest = hd_hlo_select(e, hd_hlo_compare(e, "GT", a, b), a, b),
                 apart = hd_hlo_unary(e, "negate", hd_hlo_unary(e, "abs", hd_hlo_subtract(e, a, b))),
                 zero = hd_hlo_number(e, HD_F64, &a.shape, 0),
                 below = hd_hlo_select(e, hd_hlo_compare(e, "EQ", a, b), zero, apart),
                 ratio = hd_hlo_word(e, HD_WORD_EXP, HD_COMPUTE_F64, &below);
    return hd_hlo_add(e, largest, hd_hlo_word(e, HD_WORD_LOG1P, HD_COMPUTE_F64, &ratio));
}

/* Floats are f64 on the way, as ours are. */
static hd_ssa scan(hd_hlo *e, uint32_t node, double identity, hd_ssa (*both)(hd_hlo *e, hd_ssa before, hd_ssa x)) {
    const hd_scan_attributes *a = hd_node_attributes(e->g, node);
    const hd_dtype dtype = (hd_dtype)e->g->nodes[node].dtype;
    hd_ssa x = hd_hlo_cast(e, hd_hlo_input(e, node, 0), hd_dtype_is_float(dtype) ? HD_F64 : dtype);
    const hd_ssa filler = hd_hlo_number(e, x.dtype, HD_HLO_SCALAR, identity);
    const int64_t n = size_of_axis(&x, a->axis);
    for (int64_t reach = 1; reach < n; reach *= 2) x = both(e, met_before(e, x, a, reach, filler), x);
    if (a->exclusive) x = met_before(e, x, a, 1, filler);
    return hd_hlo_cast(e, x, dtype);
}

hd_ssa hd_hlo_emit_cumsum(hd_hlo *e, uint32_t node) { return scan(e, node, 0, add); }
hd_ssa hd_hlo_emit_cumprod(hd_hlo *e, uint32_t node) { return scan(e, node, 1, multiply); }
hd_ssa hd_hlo_emit_logcumsumexp(hd_hlo *e, uint32_t node) { return scan(e, node, -INFINITY, add_logarithms); }

/* ---- the largest and the smallest -------------------------------------------------------------------------------- */
/* What equals the one before it takes its place, as NaN does, and as what has none before it. */
static hd_pair_of_values further(hd_hlo *e, hd_pair_of_values before, hd_pair_of_values x, bool largest) {
    const hd_ssa none = hd_hlo_integer(e, HD_I64, &x.second.shape, 0);
    hd_ssa takes = hd_hlo_either(e, hd_hlo_compare(e, largest ? "GE" : "LE", x.first, before.first),
                                 hd_hlo_compare(e, "LT", before.second, none));
    if (hd_dtype_is_float(x.first.dtype)) takes = hd_hlo_either(e, takes, hd_hlo_compare(e, "NE", x.first, x.first));
    return (hd_pair_of_values){hd_hlo_select(e, takes, x.first, before.first),
                               hd_hlo_select(e, takes, x.second, before.second)};
}

static hd_ssa extremes(hd_hlo *e, uint32_t node, bool largest) {
    const hd_scan_attributes *a = hd_node_attributes(e->g, node);
    const hd_ssa x = hd_hlo_input(e, node, 0);
    hd_pair_of_values all = {hd_hlo_convert(e, x, x.dtype == HD_BOOL ? HD_U8 : hd_hlo_wide(x.dtype)),
                             x.shape.rank == 0 ? hd_hlo_integer(e, HD_I64, &x.shape, 0)
                                               : hd_hlo_iota(e, HD_I64, &x.shape, a->axis)};
    const hd_ssa filler = hd_hlo_number(e, all.first.dtype, HD_HLO_SCALAR, 0),
                 nowhere = hd_hlo_integer(e, HD_I64, HD_HLO_SCALAR, -1);
    const int64_t n = size_of_axis(&x, a->axis);
    for (int64_t reach = 1; reach < n; reach *= 2) {
        const hd_pair_of_values before = {met_before(e, all.first, a, reach, filler),
                                          met_before(e, all.second, a, reach, nowhere)};
        all = further(e, before, all, largest);
    }
    e->seconds[node] = all.second;
    return hd_hlo_cast(e, all.first, x.dtype);
}

hd_ssa hd_hlo_emit_cummax(hd_hlo *e, uint32_t node) { return extremes(e, node, true); }
hd_ssa hd_hlo_emit_cummin(hd_hlo *e, uint32_t node) { return extremes(e, node, false); }
