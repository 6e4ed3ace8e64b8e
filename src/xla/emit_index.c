/* Indexing. Indices are brought to i64 and counted from the front; what is out of range is reported, and clamped or
 * dropped by the op, so that nothing else happens. */
#include "ops/op.h"
#include "xla/build.h"

#include <string.h>

/* The places that an index names on an axis of this size. */
static hd_ssa places(hd_hlo *e, uint32_t node, hd_ssa index, int64_t bound) {
    const bool whole = index.dtype == HD_U64;
    const hd_ssa i = hd_hlo_convert(e, index, HD_I64), size = hd_hlo_integer(e, HD_I64, &i.shape, bound),
                 zero = hd_hlo_integer(e, HD_I64, &i.shape, 0);
    const hd_ssa below = hd_hlo_compare(e, "LT", i, whole ? zero : hd_hlo_integer(e, HD_I64, &i.shape, -bound)),
                 above = hd_hlo_compare(e, "GE", i, size);
    hd_hlo_check_that(e, HD_HLO_CHECK_INDEX, node, bound, hd_hlo_either(e, below, above), i);
    return hd_hlo_select(e, hd_hlo_compare(e, "LT", i, zero), hd_hlo_add(e, i, size), i);
}

/* Where one element for each index lies in flat x: its own position, and the index on the axis. */
static hd_ssa element_places(hd_hlo *e, hd_ssa index, const hd_shape *x, int axis) {
    hd_layout layout;
    hd_layout_contiguous(&layout, x);
    hd_ssa at = hd_hlo_multiply(e, index, hd_hlo_integer(e, HD_I64, &index.shape, layout.stride[axis]));
    for (int i = 0; i < x->rank; ++i) {
        if (i == axis || index.shape.size[i] <= 1) continue;
        const hd_ssa stride = hd_hlo_integer(e, HD_I64, &index.shape, layout.stride[i]);
        at = hd_hlo_add(e, at, hd_hlo_multiply(e, hd_hlo_iota(e, HD_I64, &index.shape, i), stride));
    }
    return at;
}

hd_ssa hd_hlo_take_along(hd_hlo *e, hd_ssa x, hd_ssa index, int axis) {
    const hd_shape flat = hd_hlo_flat(&x.shape);
    if (hd_shape_count(index.shape) == 0) return hd_hlo_bits(e, x.dtype, &index.shape, 0);
    return hd_hlo_take(e, hd_hlo_reshape(e, x, &flat), element_places(e, index, &x.shape, axis));
}

/* ---- slices: one index for all that lies on the other axes ------------------------------------------------------- */
static hd_ssa vectors(hd_hlo *e, hd_ssa index) {
    const hd_shape shape = {.rank = 2, .size = {hd_shape_count(index.shape), 1}};
    return hd_hlo_reshape(e, index, &shape);
}

static void other_axes(int rank, int axis, int64_t *axes) {
    for (int i = 0, k = 0; i < rank; ++i)
        if (i != axis) axes[k++] = i;
}

static hd_ssa select_slices(hd_hlo *e, hd_ssa x, hd_ssa index, int axis) {
    int64_t others[HD_MAX_RANK], sizes[HD_MAX_RANK];
    hd_shape shape = x.shape;
    shape.size[axis] = hd_shape_count(index.shape);
    other_axes(x.shape.rank, axis, others);
    memcpy(sizes, x.shape.size, sizeof sizes);
    sizes[axis] = 1;
    const hd_ssa at = vectors(e, index), v = hd_hlo_define(e, x.dtype, &shape);
    hd_hlo_say(
        e,
        "    %v = \"stablehlo.gather\"(%v, %v) {dimension_numbers = #stablehlo.gather<offset_dims = [%l], "
        "collapsed_slice_dims = [%d], start_index_map = [%d], index_vector_dim = 1>, slice_sizes = array<i64: %l>, "
        "indices_are_sorted = false} : (%t, %t) -> %t\n",
        &v, &x, &at, others, x.shape.rank - 1, (int64_t)axis, (int64_t)axis, sizes, x.shape.rank, &x, &at, &v);
    return v;
}

static hd_ssa put_slices(hd_hlo *e, hd_ssa x, hd_ssa index, hd_ssa source, int axis, const char *op) {
    int64_t others[HD_MAX_RANK];
    other_axes(x.shape.rank, axis, others);
    const hd_ssa at = vectors(e, index), v = hd_hlo_define(e, x.dtype, &x.shape);
    hd_hlo_say(e, "    %v = \"stablehlo.scatter\"(%v, %v, %v) ", &v, &x, &at, &source);
    hd_hlo_say_combine(e, op, x.dtype);
    hd_hlo_say(e,
               " {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [%l], inserted_window_dims = "
               "[%d], scatter_dims_to_operand_dims = [%d], index_vector_dim = 1>, indices_are_sorted = false, "
               "unique_indices = false} : (%t, %t, %t) -> %t\n",
               others, x.shape.rank - 1, (int64_t)axis, (int64_t)axis, &x, &at, &source, &v);
    return v;
}

/* An index that a broadcast made of one list along the axis; HD_NO_NODE: it is another. */
static uint32_t list_behind(const hd_graph *g, uint32_t index, int axis) {
    if (g->nodes[index].op != HD_OP_broadcast_to || g->nodes[index].derivative != 0) return HD_NO_NODE;
    const uint32_t list = hd_node_inputs(g, index)[0];
    const hd_shape shape = hd_node_shape(g, list), wide = hd_node_shape(g, index);
    for (int i = 0; i < shape.rank; ++i) {
        const bool along = wide.rank - shape.rank + i == axis;
        if (shape.size[i] != (along ? wide.size[axis] : 1)) return HD_NO_NODE;
    }
    return shape.rank >= wide.rank - axis || wide.size[axis] == 1 ? list : HD_NO_NODE;
}

/* The first bad place of a list is that of the broadcast index, which repeats it: its position 0 on the axes behind. */
static hd_ssa list_places(hd_hlo *e, uint32_t node, uint32_t list, int axis, int64_t bound) {
    hd_ssa index = hd_hlo_input(e, node, 1), flat = hd_hlo_node(e, list);
    const hd_shape row = {.rank = 1, .size = {index.shape.size[axis]}};
    (void)places(e, node, index, bound);
    flat = hd_hlo_convert(e, hd_hlo_reshape(e, flat, &row), HD_I64);
    const hd_ssa zero = hd_hlo_integer(e, HD_I64, &row, 0), size = hd_hlo_integer(e, HD_I64, &row, bound);
    return hd_hlo_select(e, hd_hlo_compare(e, "LT", flat, zero), hd_hlo_add(e, flat, size), flat);
}

/* ---- the ops ----------------------------------------------------------------------------------------------------- */
hd_ssa hd_hlo_emit_scatter(hd_hlo *e, uint32_t node) {
    static const char *const ops[] = {[HD_SCATTER_SET] = "",
                                      [HD_SCATTER_ADD] = "add",
                                      [HD_SCATTER_MUL] = "multiply",
                                      [HD_SCATTER_MAX] = "maximum",
                                      [HD_SCATTER_MIN] = "minimum"};
    const hd_scatter_attributes *a = hd_node_attributes(e->g, node);
    const hd_dtype dtype = (hd_dtype)e->g->nodes[node].dtype;
    hd_ssa x = hd_hlo_input(e, node, 0), source = hd_hlo_input(e, node, 2);
    const hd_shape shape = x.shape, flat = hd_hlo_flat(&shape);
    if (hd_shape_count(source.shape) == 0) return x;
    const char *op = ops[a->mode];
    if (dtype == HD_BOOL)
        op = a->mode == HD_SCATTER_SET ? "" : a->mode == HD_SCATTER_ADD || a->mode == HD_SCATTER_MAX ? "or" : "and";
    if (a->mode != HD_SCATTER_SET) { /* small floats combine in f32, and are rounded once */
        x = hd_hlo_convert(e, x, hd_hlo_wide(dtype));
        source = hd_hlo_convert(e, source, hd_hlo_wide(dtype));
    }
    const uint32_t list = list_behind(e->g, hd_node_inputs(e->g, node)[1], a->axis);
    if (list != HD_NO_NODE) {
        const hd_ssa at = list_places(e, node, list, a->axis, shape.size[a->axis]);
        return hd_hlo_cast(e, put_slices(e, x, at, source, a->axis, op), dtype);
    }
    const hd_ssa index = places(e, node, hd_hlo_input(e, node, 1), shape.size[a->axis]);
    x = hd_hlo_put(e, hd_hlo_reshape(e, x, &flat), element_places(e, index, &shape, a->axis), source, op);
    return hd_hlo_cast(e, hd_hlo_reshape(e, x, &shape), dtype);
}

/* What is looked up, and where: false when there is nothing to take, or nowhere to take it from. */
static bool looks_up(hd_hlo *e, uint32_t node, hd_ssa *x, hd_ssa *index, int *axis) {
    *axis = ((const hd_axis_attributes *)hd_node_attributes(e->g, node))->axis;
    *x = hd_hlo_input(e, node, 0);
    *index = places(e, node, hd_hlo_input(e, node, 1), x->shape.size[*axis]);
    return hd_shape_count(x->shape) > 0 && hd_shape_count(hd_node_shape(e->g, node)) > 0;
}
static hd_ssa nothing(hd_hlo *e, uint32_t node) {
    const hd_shape shape = hd_node_shape(e->g, node);
    return hd_hlo_bits(e, (hd_dtype)e->g->nodes[node].dtype, &shape, 0);
}

hd_ssa hd_hlo_emit_index_select(hd_hlo *e, uint32_t node) {
    hd_ssa x, index;
    int axis;
    return looks_up(e, node, &x, &index, &axis) ? select_slices(e, x, index, axis) : nothing(e, node);
}

hd_ssa hd_hlo_emit_gather(hd_hlo *e, uint32_t node) {
    hd_ssa x, index;
    int axis;
    return looks_up(e, node, &x, &index, &axis) ? hd_hlo_take_along(e, x, index, axis) : nothing(e, node);
}
