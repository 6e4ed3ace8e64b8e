/* Convolution: one op of StableHLO, in three ways. */
#include "ops/op.h"
#include "xla/build.h"

#include <string.h>

typedef struct window {
    int64_t stride[3], low[3], high[3], of_x[3], of_kernel[3]; /* of_*: dilations */
    int64_t groups, batch_groups;
    bool exact; /* hd_hlo_dot */
} window;

/* dims: which axes mean what, as StableHLO writes it, with the spatial axes left out. */
static hd_ssa convolve(hd_hlo *e, hd_ssa x, hd_ssa kernel, const char *const dims[3], const window *w,
                       const hd_shape *shape) {
    const char *precision = hd_hlo_precision(x.dtype, w->exact);
    static const char *const spatial[4] = {"", ", 0", ", 0, 1", ", 0, 1, 2"};
    const int axes = shape->rank - 2;
    const hd_ssa v = hd_hlo_define(e, x.dtype, shape);
    hd_hlo_say(e, "    %v = stablehlo.convolution(%v, %v) dim_numbers = ", &v, &x, &kernel);
    for (int i = 0; i < 3; ++i) hd_hlo_say(e, "%s[%s%s]", i == 0 ? "" : i == 1 ? "x" : "->", dims[i], spatial[axes]);
    hd_hlo_say(e, ", window = {stride = [%l], pad = [", w->stride, axes);
    for (int i = 0; i < axes; ++i) hd_hlo_say(e, "%s[%d, %d]", i > 0 ? ", " : "", w->low[i], w->high[i]);
    hd_hlo_say(e, "], lhs_dilate = [%l], rhs_dilate = [%l]} ", w->of_x, axes, w->of_kernel, axes);
    hd_hlo_say(
        e,
        "{batch_group_count = %d : i64, feature_group_count = %d : i64, precision_config = [#stablehlo<precision "
        "%s>, #stablehlo<precision %s>]} : (%t, %t) -> %t\n",
        w->batch_groups, w->groups, precision, precision, &x, &kernel, &v);
    return v;
}

static hd_ssa forward(hd_hlo *e, hd_ssa x, hd_ssa kernel, const hd_conv_attributes *a, const hd_shape *shape,
                      bool exact) {
    window w = {.groups = a->groups, .batch_groups = 1, .exact = exact};
    for (int i = 0; i < a->stride.rank; ++i) {
        w.stride[i] = a->stride.size[i];
        w.low[i] = a->padding.size[2 * i];
        w.high[i] = a->padding.size[2 * i + 1];
        w.of_x[i] = 1;
        w.of_kernel[i] = a->dilation.size[i];
    }
    return convolve(e, x, kernel, (const char *const[3]){"b, f", "o, i", "b, f"}, &w, shape);
}

/* Its transpose: x with zeros between its pixels, and the kernel reversed. [in, out / groups] becomes [in / groups,
 * out]. */
static hd_ssa transposed(hd_hlo *e, hd_ssa x, hd_ssa kernel, const hd_conv_attributes *a, const hd_shape *shape,
                         bool exact) {
    const int axes = a->stride.rank;
    window w = {.groups = a->groups, .batch_groups = 1, .exact = exact};
    bool reversed[HD_MAX_RANK] = {false};
    for (int i = 0; i < axes; ++i) {
        const int64_t reach = a->dilation.size[i] * (kernel.shape.size[i + 2] - 1);
        w.stride[i] = 1;
        w.low[i] = reach - a->padding.size[2 * i];
        w.high[i] = reach - a->padding.size[2 * i + 1] + a->extra.size[i];
        w.of_x[i] = a->stride.size[i];
        w.of_kernel[i] = a->dilation.size[i];
        reversed[i + 2] = true;
    }
    kernel = hd_hlo_reverse(e, kernel, reversed);
    if (a->groups > 1) {
        hd_shape parted = {.rank = axes + 3,
                           .size = {a->groups, kernel.shape.size[0] / a->groups, kernel.shape.size[1]}},
                 joined = {.rank = axes + 2,
                           .size = {kernel.shape.size[0] / a->groups, kernel.shape.size[1] * a->groups}};
        int order[HD_MAX_RANK] = {1, 0, 2};
        for (int i = 0; i < axes; ++i) {
            parted.size[i + 3] = joined.size[i + 2] = kernel.shape.size[i + 2];
            order[i + 3] = i + 3;
        }
        kernel = hd_hlo_reshape(e, hd_hlo_transpose(e, hd_hlo_reshape(e, kernel, &parted), order), &joined);
    }
    return convolve(e, x, kernel, (const char *const[3]){"b, f", "i, o", "b, f"}, &w, shape);
}

/* The gradient of the kernel: images are what is summed over, and the gradient is the kernel. */
static hd_ssa of_weight(hd_hlo *e, hd_ssa x, hd_ssa g, const hd_conv_attributes *a, const hd_shape *shape, bool exact) {
    window w = {.groups = 1, .batch_groups = a->groups, .exact = exact};
    for (int i = 0; i < a->stride.rank; ++i) {
        const int64_t span = (g.shape.size[i + 2] - 1) * a->stride.size[i] + 1;
        w.stride[i] = a->dilation.size[i];
        w.low[i] = a->padding.size[2 * i];
        w.high[i] = (shape->size[i + 2] - 1) * a->dilation.size[i] + span - x.shape.size[i + 2] - w.low[i];
        w.of_x[i] = 1;
        w.of_kernel[i] = a->stride.size[i];
    }
    return convolve(e, x, g, (const char *const[3]){"f, b", "i, o", "f, b"}, &w, shape);
}

typedef hd_ssa (*convolution)(hd_hlo *e, hd_ssa x, hd_ssa y, const hd_conv_attributes *a, const hd_shape *shape,
                              bool exact);

static hd_ssa emit_conv(hd_hlo *e, uint32_t node, convolution how) {
    const hd_node *n = &e->g->nodes[node];
    const hd_dtype dtype = (hd_dtype)n->dtype, wide = hd_hlo_wide(dtype);
    const hd_shape shape = hd_node_shape(e->g, node);
    const hd_ssa x = hd_hlo_cast(e, hd_hlo_input(e, node, 0), wide), y = hd_hlo_cast(e, hd_hlo_input(e, node, 1), wide);
    const bool nothing = hd_shape_count(x.shape) == 0 || hd_shape_count(y.shape) == 0 || hd_shape_count(shape) == 0;
    const hd_conv_attributes *a = hd_node_attributes(e->g, node);
    const bool exact = dtype == wide && a->precision == HD_MATMUL_EXACT; /* small floats are numbers of TF32 */
    hd_ssa v = nothing ? hd_hlo_number(e, wide, &shape, 0) : how(e, x, y, a, &shape, exact);
    if (n->input_count > 2) {
        const int64_t axis = 1;
        v = hd_hlo_add(e, v, hd_hlo_stretch(e, hd_hlo_cast(e, hd_hlo_input(e, node, 2), wide), &shape, &axis));
    }
    return hd_hlo_cast(e, v, dtype);
}
hd_ssa hd_hlo_emit_conv(hd_hlo *e, uint32_t node) { return emit_conv(e, node, forward); }
hd_ssa hd_hlo_emit_conv_transpose(hd_hlo *e, uint32_t node) { return emit_conv(e, node, transposed); }
hd_ssa hd_hlo_emit_conv_weight_gradient(hd_hlo *e, uint32_t node) { return emit_conv(e, node, of_weight); }
