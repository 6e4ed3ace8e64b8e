/* Sorting along an axis: by keys that are whole numbers in the order of the elements, as the device makes them. */
#include "ops/op.h"
#include "xla/build.h"

/* NaN behind all others, -0 equal to 0; unsigned, of x's width. Bits are looked at, as XLA may flush what is small. */
static hd_ssa keys_of_float(hd_hlo *e, hd_ssa x) {
    static const hd_dtype of_bytes[9] = {[1] = HD_U8, [2] = HD_U16, [4] = HD_U32, [8] = HD_U64};
    const hd_dtype dtype = of_bytes[hd_dtype_bytes[x.dtype]];
    const uint64_t sign = (uint64_t)1 << (8 * hd_dtype_bytes[x.dtype] - 1);
    const hd_ssa wide = hd_hlo_convert(e, x, hd_hlo_wide(x.dtype)), nan = hd_hlo_compare(e, "NE", wide, wide);
    const hd_ssa raw = hd_hlo_bitcast(e, x, dtype), top = hd_hlo_bits(e, dtype, &x.shape, sign),
                 zero = hd_hlo_bits(e, dtype, &x.shape, 0),
                 magnitude = hd_hlo_both(e, raw, hd_hlo_bits(e, dtype, &x.shape, sign - 1)),
                 negative = hd_hlo_compare(e, "NE", hd_hlo_both(e, raw, top), zero);
    const hd_ssa below = hd_hlo_binary(e, "subtract", top, magnitude), above = hd_hlo_binary(e, "add", top, magnitude);
    return hd_hlo_select(e, nan, hd_hlo_bits(e, dtype, &x.shape, 2 * (sign - 1) + 1),
                         hd_hlo_select(e, negative, below, above));
}

static hd_ssa keys_of(hd_hlo *e, hd_ssa x) {
    if (hd_dtype_is_float(x.dtype)) return keys_of_float(e, x);
    return x.dtype == HD_BOOL ? hd_hlo_convert(e, x, HD_U8) : x;
}

/* x in order along an axis, and where each element was. */
static hd_pair_of_values sorted(hd_hlo *e, hd_ssa x, int axis, bool descending) {
    const bool is_bool = x.dtype == HD_BOOL; /* a bool is stored as a byte */
    const hd_ssa keys = keys_of(e, x), moved = is_bool ? hd_hlo_convert(e, x, HD_U8) : x,
                 at = hd_hlo_iota(e, HD_I64, &x.shape, axis), all = hd_hlo_define(e, keys.dtype, &x.shape);
    const char *key = hd_hlo_dtype(keys.dtype), *value = hd_hlo_dtype(moved.dtype);
    hd_hlo_say(e, "    %v:3 = \"stablehlo.sort\"(%v, %v, %v) ({\n", &all, &keys, &moved, &at);
    hd_hlo_say(e, "      ^bb0(%a: tensor<%s>, %b: tensor<%s>, %c: tensor<%s>, ", key, key, value);
    hd_hlo_say(e, "%f: tensor<%s>, %i: tensor<i64>, %j: tensor<i64>):\n", value);
    hd_hlo_say(e, "        %before = stablehlo.compare %s, %a, %b, %s : (tensor<%s>, tensor<%s>) -> tensor<i1>\n",
               descending ? "GT" : "LT", hd_dtype_is_signed(keys.dtype) ? "SIGNED" : "UNSIGNED", key, key);
    hd_hlo_say(e, "        stablehlo.return %before : tensor<i1>\n");
    hd_hlo_say(e, "    }) {dimension = %d : i64, is_stable = true} : (%t, %t, %t) -> (%t, %t, %t)\n", (int64_t)axis,
               &keys, &moved, &at, &keys, &moved, &at);
    hd_pair_of_values out = {hd_hlo_define(e, moved.dtype, &x.shape), hd_hlo_define(e, HD_I64, &x.shape)};
    hd_hlo_say(e, "    %v = stablehlo.reshape %v#1 : (%t) -> %t\n", &out.first, &all, &out.first, &out.first);
    hd_hlo_say(e, "    %v = stablehlo.reshape %v#2 : (%t) -> %t\n", &out.second, &all, &out.second, &out.second);
    if (is_bool) out.first = hd_hlo_cast(e, out.first, HD_BOOL);
    return out;
}

hd_ssa hd_hlo_emit_sort(hd_hlo *e, uint32_t node) {
    const hd_sort_attributes *a = hd_node_attributes(e->g, node);
    const hd_pair_of_values both = sorted(e, hd_hlo_input(e, node, 0), a->axis, a->descending);
    e->seconds[node] = both.second;
    return both.first;
}

hd_ssa hd_hlo_emit_topk(hd_hlo *e, uint32_t node) {
    const hd_topk_attributes *a = hd_node_attributes(e->g, node);
    const hd_ssa x = hd_hlo_input(e, node, 0);
    const hd_pair_of_values both = sorted(e, x, a->axis, a->largest);
    int64_t start[HD_MAX_RANK] = {0}, count[HD_MAX_RANK], step[HD_MAX_RANK];
    for (int i = 0; i < x.shape.rank; ++i) {
        count[i] = i == a->axis ? a->count : x.shape.size[i];
        step[i] = 1;
    }
    e->seconds[node] = hd_hlo_slice(e, both.second, start, count, step);
    return hd_hlo_slice(e, both.first, start, count, step);
}

/* Places are counts: each value is compared with its whole row. */
hd_ssa hd_hlo_emit_searchsorted(hd_hlo *e, uint32_t node) {
    const hd_searchsorted_attributes *a = hd_node_attributes(e->g, node);
    const hd_ssa in_order = hd_hlo_input(e, node, 0), values = hd_hlo_input(e, node, 1);
    const bool shared = in_order.shape.rank == 1;
    const int64_t count = hd_shape_count(values.shape), size = in_order.shape.size[in_order.shape.rank - 1];
    if (count == 0 || size == 0) return hd_hlo_integer(e, HD_I64, &values.shape, 0);
    const int64_t each = shared ? count : values.shape.size[values.shape.rank - 1], rows = count / each;
    const hd_shape one = HD_SHAPE(rows, each, 1), row = HD_SHAPE(rows, 1, size), all = HD_SHAPE(rows, each, size);
    const hd_ssa keys = hd_hlo_broadcast(e, hd_hlo_reshape(e, keys_of(e, in_order), &row), &all),
                 key = hd_hlo_broadcast(e, hd_hlo_reshape(e, keys_of(e, values), &one), &all);
    const hd_ssa before = hd_hlo_convert(e, hd_hlo_compare(e, a->right ? "LE" : "LT", keys, key), HD_I64);
    const bool last[HD_MAX_RANK] = {[2] = true};
    const hd_ssa places = hd_hlo_reduce(e, "add", before, hd_hlo_identity(e, HD_I64, "add"), last, false);
    return hd_hlo_reshape(e, places, &values.shape);
}
