/* The same as StableHLO: src/xla. */
#include "ops/op.h"
#include "xla/build.h"

#ifndef WITHOUT_hlo
hd_ssa hd_hlo_emit_alternating_sum(hd_hlo *e, uint32_t node) {
    const int axis = ((const hd_axis_attributes *)hd_node_attributes(e->g, node))->axis;
    const hd_ssa x = hd_hlo_cast(e, hd_hlo_input(e, node, 0), HD_F64), place = hd_hlo_iota(e, HD_I64, &x.shape, axis),
                 odd = hd_hlo_both(e, place, hd_hlo_integer(e, HD_I64, &x.shape, 1)),
                 even = hd_hlo_compare(e, "EQ", odd, hd_hlo_integer(e, HD_I64, &x.shape, 0));
    bool reduced[HD_MAX_RANK] = {false};
    reduced[axis] = true;
    const hd_ssa signed_x = hd_hlo_select(e, even, x, hd_hlo_unary(e, "negate", x));
    return hd_hlo_cast(e, hd_hlo_reduce(e, "add", signed_x, hd_hlo_identity(e, HD_F64, "add"), reduced, false),
                       (hd_dtype)e->g->nodes[node].dtype);
}
#endif
