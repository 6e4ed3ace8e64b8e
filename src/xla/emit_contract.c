/* Matrix products, and attention, which is made of them. */
#include "ops/op.h"
#include "xla/build.h"

#include <math.h>
#include <string.h>

/* ---- products ---------------------------------------------------------------------------------------------------- */
static hd_ssa with_front(hd_hlo *e, hd_ssa x, const hd_shape *front) {
    hd_shape shape = *front;
    shape.size[shape.rank++] = x.shape.size[x.shape.rank - 2];
    shape.size[shape.rank++] = x.shape.size[x.shape.rank - 1];
    return hd_hlo_broadcast(e, x, &shape);
}

/* a [..., m, n] times b [k, n] turned. The CPU plugin takes 3 to 5 times as long for a product with a turned second
 * matrix as for one with a turned first (f32, two cores, [64,1024] by [1024,1024]: 3400 us, not turned 1000), and an
 * explicit transpose is folded into it. So where a has few rows it computes b a^T, which turns the small matrix, and
 * turns the small result:
 * 734 us; [32,512] by [512,512] 125 instead of 362, [128,2048] by [2048,2048] 9.7 ms instead of 23.5. With half as many
 * rows as columns there is no gain any more. The barrier keeps XLA from making the first form of it again. */
static hd_ssa times_turned(hd_hlo *e, hd_ssa a, hd_ssa b) {
    const int64_t columns = b.shape.size[0], inner = b.shape.size[1],
                  rows = inner > 0 ? hd_shape_count(a.shape) / inner : 0;
    if (!hd_dtype_is_float(a.dtype) || rows == 0 || 4 * rows > columns)
        return hd_hlo_dot(e, a, b, 0, a.shape.rank - 1, 1);
    const hd_shape flat = {.rank = 2, .size = {rows, inner}};
    hd_shape shape = a.shape;
    shape.size[shape.rank - 1] = columns;
    const hd_ssa turned = hd_hlo_barrier(e, hd_hlo_dot(e, b, hd_hlo_reshape(e, a, &flat), 0, 1, 1));
    return hd_hlo_reshape(e, hd_hlo_transpose(e, turned, (const int[]){1, 0}), &shape);
}

/* a [..., m, k] (turned: [..., k, m]) times b [..., k, n] (turned: [..., n, k]): [front, m, n]. */
static hd_ssa product(hd_hlo *e, hd_ssa a, hd_ssa b, bool turn_a, bool turn_b, const hd_shape *front) {
    const int last = front->rank;
    if (b.shape.rank == 2 && !turn_a && a.shape.rank == last + 2) /* all rows of a times one matrix */
        return turn_b ? times_turned(e, a, b) : hd_hlo_dot(e, a, b, 0, a.shape.rank - 1, 0);
    a = with_front(e, a, front);
    b = with_front(e, b, front);
    return hd_hlo_dot(e, a, b, last, last + (turn_a ? 0 : 1), last + (turn_b ? 1 : 0));
}

/* An input in the type in which the node computes. */
static hd_ssa operand(hd_hlo *e, uint32_t node, int input) {
    return hd_hlo_cast(e, hd_hlo_input(e, node, input), hd_hlo_wide((hd_dtype)e->g->nodes[node].dtype));
}

hd_ssa hd_hlo_emit_affine(hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    const hd_ssa x = operand(e, node, 0), weight = operand(e, node, 1);
    hd_ssa y = times_turned(e, x, weight);
    if (n->input_count > 2) y = hd_hlo_add(e, y, hd_hlo_broadcast(e, operand(e, node, 2), &y.shape));
    return hd_hlo_cast(e, y, (hd_dtype)n->dtype);
}

hd_ssa hd_hlo_emit_matmul(hd_hlo *e, uint32_t node) {
    const hd_ssa a = operand(e, node, 0), b = operand(e, node, 1);
    const hd_matmul_attributes *turns = hd_node_attributes(e->g, node);
    hd_shape front = hd_node_shape(e->g, node);
    front.rank -= 2;
    memset(front.size + front.rank, 0, sizeof front.size - (size_t)front.rank * sizeof *front.size);
    return hd_hlo_cast(e, product(e, a, b, turns != NULL && turns->turn_a, turns != NULL && turns->turn_b, &front),
                       (hd_dtype)e->g->nodes[node].dtype);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */
static hd_ssa over_keys(hd_hlo *e, const char *op, hd_ssa x) {
    bool last[HD_MAX_RANK] = {false};
    last[x.shape.rank - 1] = true;
    return hd_hlo_broadcast(e, hd_hlo_reduce(e, op, x, hd_hlo_identity(e, x.dtype, op), last, true), &x.shape);
}

/* The weights [front, t, s]; a row that sees nothing has none. */
static hd_ssa weights(hd_hlo *e, hd_ssa q, hd_ssa k, const hd_ssa *mask, const hd_attention_attributes *a,
                      const hd_shape *front) {
    hd_ssa x = product(e, q, k, false, true, front);
    const hd_shape *shape = &x.shape;
    const hd_ssa hidden = hd_hlo_number(e, x.dtype, shape, -INFINITY), zero = hd_hlo_number(e, x.dtype, shape, 0);
    x = hd_hlo_multiply(e, x, hd_hlo_number(e, x.dtype, shape, a->scale));
    if (mask != NULL)
        x = mask->dtype == HD_BOOL ? hd_hlo_select(e, hd_hlo_broadcast(e, *mask, shape), x, hidden)
                                   : hd_hlo_add(e, x, hd_hlo_broadcast(e, hd_hlo_cast(e, *mask, x.dtype), shape));
    if (a->causal) {
        const hd_ssa row = hd_hlo_iota(e, HD_I64, shape, shape->rank - 2),
                     column = hd_hlo_iota(e, HD_I64, shape, shape->rank - 1);
        x = hd_hlo_select(e, hd_hlo_compare(e, "LE", column, row), x, hidden);
    }
    hd_ssa largest = over_keys(e, "maximum", x); /* -inf: the row sees nothing */
    const hd_ssa blind = hd_hlo_compare(e, "EQ", largest, hidden);
    const hd_ssa above = hd_hlo_subtract(e, x, hd_hlo_select(e, blind, zero, largest));
    const int type = x.dtype == HD_F64 ? HD_COMPUTE_F64 : HD_COMPUTE_F32;
    hd_ssa p = hd_hlo_word(e, HD_WORD_EXP, type, &above);
    p = hd_hlo_divide(e, p, over_keys(e, "add", p));
    return hd_hlo_select(e, blind, zero, p);
}

/* q, k and v are inputs `first`, ...; the weights they give, and the axes in front of their matrices. */
static hd_ssa read_weights(hd_hlo *e, uint32_t node, int first, hd_ssa given[3], hd_shape *front) {
    for (int i = 0; i < 3; ++i) given[i] = operand(e, node, first + i);
    *front = given[0].shape;
    front->rank -= 2;
    const bool has_mask = e->g->nodes[node].input_count > first + 3;
    const hd_ssa mask = has_mask ? hd_hlo_input(e, node, first + 3) : given[0];
    return weights(e, given[0], given[1], has_mask ? &mask : NULL, hd_node_attributes(e->g, node), front);
}

hd_ssa hd_hlo_emit_attention(hd_hlo *e, uint32_t node) {
    hd_ssa given[3];
    hd_shape front;
    const hd_ssa p = read_weights(e, node, 0, given, &front);
    return hd_hlo_cast(e, product(e, p, given[2], false, false, &front), (hd_dtype)e->g->nodes[node].dtype);
}

hd_ssa hd_hlo_emit_attention_gradient(hd_hlo *e, uint32_t node) {
    const hd_attention_attributes *a = hd_node_attributes(e->g, node);
    hd_ssa given[3];
    hd_shape front;
    const hd_ssa gradient = operand(e, node, 0), p = read_weights(e, node, 1, given, &front), q = given[0],
                 k = given[1], v = given[2];
    hd_ssa d = product(e, gradient, v, false, true, &front);
    d = hd_hlo_multiply(e, p, hd_hlo_subtract(e, d, over_keys(e, "add", hd_hlo_multiply(e, d, p))));
    d = hd_hlo_multiply(e, d, hd_hlo_number(e, d.dtype, &d.shape, a->scale));
    hd_ssa parts[3] = {product(e, d, k, false, false, &front), product(e, d, q, true, false, &front),
                       product(e, p, gradient, true, false, &front)};
    for (int i = 0; i < 3; ++i) {
        const hd_shape flat = hd_hlo_flat(&parts[i].shape);
        parts[i] = hd_hlo_reshape(e, parts[i], &flat);
    }
    return hd_hlo_cast(e, hd_hlo_concat(e, parts, 3, 0), (hd_dtype)e->g->nodes[node].dtype);
}
