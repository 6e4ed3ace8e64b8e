/* Linear algebra: StableHLO has triangles, which are factors and equations; the rest is LAPACK's, which XLA has not. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>

/* [..., n], and whether something holds for one element of each matrix's diagonal. */
static hd_ssa diagonal_of(hd_hlo *e, hd_ssa x) {
    const int rank = x.shape.rank;
    const hd_ssa rows = hd_hlo_iota(e, HD_I64, &x.shape, rank - 2),
                 columns = hd_hlo_iota(e, HD_I64, &x.shape, rank - 1);
    const hd_ssa zero = hd_hlo_number(e, x.dtype, &x.shape, 0),
                 kept = hd_hlo_select(e, hd_hlo_compare(e, "EQ", rows, columns), x, zero);
    bool reduced[HD_MAX_RANK] = {false};
    reduced[rank - 1] = true;
    return hd_hlo_reduce(e, "add", kept, hd_hlo_identity(e, x.dtype, "add"), reduced, false);
}

/* The triangle of x, and zeros beside it. */
static hd_ssa triangle_of(hd_hlo *e, hd_ssa x, bool upper) {
    const int rank = x.shape.rank;
    const hd_ssa rows = hd_hlo_iota(e, HD_I64, &x.shape, rank - 2),
                 columns = hd_hlo_iota(e, HD_I64, &x.shape, rank - 1);
    return hd_hlo_select(e, hd_hlo_compare(e, upper ? "LE" : "GE", rows, columns), x,
                         hd_hlo_number(e, x.dtype, &x.shape, 0));
}

static hd_ssa not_finite(hd_hlo *e, hd_ssa x) {
    return hd_hlo_not(e, hd_hlo_compare(e, "EQ", hd_hlo_subtract(e, x, x), hd_hlo_number(e, x.dtype, &x.shape, 0)));
}

/* True in one element for each matrix [..., 1, 1] that has one such element. */
static hd_ssa any_of(hd_hlo *e, hd_ssa bad) {
    bool reduced[HD_MAX_RANK] = {false};
    reduced[bad.shape.rank - 1] = reduced[bad.shape.rank - 2] = true;
    return hd_hlo_reduce(e, "or", bad, hd_hlo_identity(e, HD_BOOL, "or"), reduced, true);
}

/* XLA gives NaN where a matrix is not positive definite, as it does for one that has NaN itself. */
hd_ssa hd_hlo_emit_cholesky(hd_hlo *e, uint32_t node) {
    const bool upper = ((const hd_cholesky_attributes *)hd_node_attributes(e->g, node))->upper != 0;
    const hd_ssa x = hd_hlo_input(e, node, 0);
    if (hd_shape_count(x.shape) == 0) return x;
    const hd_ssa y = hd_hlo_define(e, x.dtype, &x.shape), nan = hd_hlo_number(e, x.dtype, &x.shape, NAN);
    hd_hlo_say(e, "    %v = \"stablehlo.cholesky\"(%v) {lower = %s} : (%t) -> %t\n", &y, &x, upper ? "false" : "true",
               &x, &y);
    const hd_ssa given = any_of(e, not_finite(e, triangle_of(e, x, upper))), made = triangle_of(e, y, upper);
    const hd_ssa bad = hd_hlo_both(e, any_of(e, not_finite(e, made)), hd_hlo_not(e, given));
    hd_hlo_check_that(e, HD_HLO_CHECK_POSITIVE, node, 0, bad, (hd_ssa){.id = HD_NO_NODE});
    return hd_hlo_select(e, hd_hlo_broadcast(e, given, &x.shape), triangle_of(e, nan, upper), made);
}

hd_ssa hd_hlo_emit_triangular_solve(hd_hlo *e, uint32_t node) {
    const hd_triangular_attributes *t = hd_node_attributes(e->g, node);
    const hd_ssa a = hd_hlo_input(e, node, 0), b = hd_hlo_input(e, node, 1);
    if (hd_shape_count(b.shape) == 0 || hd_shape_count(a.shape) == 0) return b;
    if (!t->unit) {
        const hd_ssa diagonal = diagonal_of(e, a);
        const hd_ssa bad = hd_hlo_compare(e, "EQ", diagonal, hd_hlo_number(e, a.dtype, &diagonal.shape, 0));
        hd_hlo_check_that(e, HD_HLO_CHECK_DIAGONAL, node, 0, bad, (hd_ssa){.id = HD_NO_NODE});
    }
    const hd_ssa y = hd_hlo_define(e, b.dtype, &b.shape);
    hd_hlo_say(e, "    %v = \"stablehlo.triangular_solve\"(%v, %v) {left_side = %s, lower = %s, unit_diagonal = %s, ",
               &y, &a, &b, t->right ? "false" : "true", t->upper ? "false" : "true", t->unit ? "true" : "false");
    hd_hlo_say(e, "transpose_a = #stablehlo<transpose %s>} : (%t, %t) -> %t\n",
               t->transpose ? "TRANSPOSE" : "NO_TRANSPOSE", &a, &b, &y);
    return y;
}

/* ---- what XLA has not -------------------------------------------------------------------------------------------- */
static hd_ssa refuse(hd_hlo *e, uint32_t node) {
    hd_hlo_fail(e,
                hd_fail(HD_ERROR_STATE,
                        "XLA has no hd_%s; compile with HD_COMPILER_HODU, or call it outside of the script: of linear "
                        "algebra XLA has hd_cholesky and hd_triangular_solve",
                        hd_node_name(&e->g->nodes[node])));
    hd_ssa value = {.dtype = (hd_dtype)e->g->nodes[node].dtype, .shape = hd_node_shape(e->g, node)};
    e->seconds[node] = value;
    return value;
}
#define REFUSED_AT_TIMES(name, when) /* which says so itself */
#define REFUSED(name, why)                                                                                             \
    hd_ssa hd_hlo_emit_##name(hd_hlo *e, uint32_t node) { return refuse(e, node); }
#include "xla/refused.def"
