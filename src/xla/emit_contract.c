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

/* a [..., m, n] times b [k, n] transposed. The CPU plugin takes 3 to 5 times as long for a product with a transposed
 * second matrix as for one with a transposed first (f32, two cores, [64,1024] by [1024,1024]: 3400 us, not
 * transposed 1000), and an explicit transpose is folded into it. So where a has few rows it computes b a^T, which
 * transposes the small matrix, and transposes the small result: 734 us; [32,512] by [512,512] 125 instead of 362,
 * [128,2048] by [2048,2048] 9.7 ms instead of 23.5. With half as many rows as columns there is no gain any more. The
 * barrier keeps XLA from making the first form of it again. */
static hd_ssa times_transposed(hd_hlo *e, hd_ssa a, hd_ssa b, bool exact) {
    const int64_t columns = b.shape.size[0], inner = b.shape.size[1],
                  rows = inner > 0 ? hd_shape_count(a.shape) / inner : 0;
    if (!hd_dtype_is_float(a.dtype) || rows == 0 || 4 * rows > columns)
        return hd_hlo_dot(e, a, b, 0, a.shape.rank - 1, 1, exact);
    const hd_shape flat = {.rank = 2, .size = {rows, inner}};
    hd_shape shape = a.shape;
    shape.size[shape.rank - 1] = columns;
    const hd_ssa transposed = hd_hlo_barrier(e, hd_hlo_dot(e, b, hd_hlo_reshape(e, a, &flat), 0, 1, 1, exact));
    return hd_hlo_reshape(e, hd_hlo_transpose(e, transposed, (const int[]){1, 0}), &shape);
}

/* a [..., m, k] (transposed: [..., k, m]) times b [..., k, n] (transposed: [..., n, k]): [front, m, n]. */
static hd_ssa product(hd_hlo *e, hd_ssa a, hd_ssa b, bool transpose_a, bool transpose_b, const hd_shape *front,
                      bool exact) {
    const int last = front->rank;
    if (b.shape.rank == 2 && !transpose_a && a.shape.rank == last + 2) /* all rows of a times one matrix */
        return transpose_b ? times_transposed(e, a, b, exact) : hd_hlo_dot(e, a, b, 0, a.shape.rank - 1, 0, exact);
    a = with_front(e, a, front);
    b = with_front(e, b, front);
    return hd_hlo_dot(e, a, b, last, last + (transpose_a ? 0 : 1), last + (transpose_b ? 1 : 0), exact);
}

/* An input in the type in which the node computes. */
static hd_ssa operand(hd_hlo *e, uint32_t node, int input) {
    return hd_hlo_cast(e, hd_hlo_input(e, node, input), hd_hlo_wide((hd_dtype)e->g->nodes[node].dtype));
}

/* The two matrices of a product. Two of bf16, or two of f16, are given to XLA as they are: their products are exact in
 * f32, in which they are added up. */
static void matrices(hd_hlo *e, uint32_t node, hd_ssa pair[2]) {
    const hd_dtype a = hd_hlo_input(e, node, 0).dtype, b = hd_hlo_input(e, node, 1).dtype;
    const bool as_they_are = a == b && (a == HD_BF16 || a == HD_F16);
    for (int i = 0; i < 2; ++i) pair[i] = as_they_are ? hd_hlo_input(e, node, i) : operand(e, node, i);
}

/* Small floats are numbers of TF32, too: operands that were converted from those lose nothing. */
static bool is_exact(const hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    return !hd_dtype_is_small_float((hd_dtype)n->dtype) &&
           hd_attributes_precision((hd_op_id)n->op, hd_node_attributes(e->g, node)) == HD_MATMUL_EXACT;
}

hd_ssa hd_hlo_emit_affine(hd_hlo *e, uint32_t node) {
    const hd_node *n = &e->g->nodes[node];
    hd_ssa in[2];
    matrices(e, node, in);
    hd_ssa y = times_transposed(e, in[0], in[1], is_exact(e, node));
    if (n->input_count > 2) y = hd_hlo_add(e, y, hd_hlo_broadcast(e, operand(e, node, 2), &y.shape));
    return hd_hlo_cast(e, y, (hd_dtype)n->dtype);
}

hd_ssa hd_hlo_emit_matmul(hd_hlo *e, uint32_t node) {
    hd_ssa in[2];
    matrices(e, node, in);
    const hd_matmul_attributes *given = hd_node_attributes(e->g, node);
    const bool turns_a = given != NULL && given->transpose_a, turns_b = given != NULL && given->transpose_b;
    hd_shape front = hd_node_shape(e->g, node);
    front.rank -= 2;
    memset(front.size + front.rank, 0, sizeof front.size - (size_t)front.rank * sizeof *front.size);
    return hd_hlo_cast(e, product(e, in[0], in[1], turns_a, turns_b, &front, is_exact(e, node)),
                       (hd_dtype)e->g->nodes[node].dtype);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */
/* q, k, v and the mask of a node from its input `first` on. */
typedef struct attended {
    hd_ssa q, k, v;
    hd_shape front; /* the axes in front of their matrices */
    hd_ssa scores;  /* [front, t, s]; -inf where a row does not see */
    bool exact;     /* products of them: TF32 has more bits than bf16, but no more than f16 */
} attended;

static attended read_scores(hd_hlo *e, uint32_t node, int first, bool has_mask, bool causal, double scale) {
    attended in = {.q = operand(e, node, first), .k = operand(e, node, first + 1), .v = operand(e, node, first + 2)};
    in.front = in.q.shape;
    in.front.rank -= 2;
    in.exact = e->g->nodes[node].dtype != HD_BF16;
    hd_ssa x = product(e, in.q, in.k, false, true, &in.front, in.exact);
    const hd_shape *shape = &x.shape;
    const hd_ssa hidden = hd_hlo_number(e, x.dtype, shape, -INFINITY);
    x = hd_hlo_multiply(e, x, hd_hlo_number(e, x.dtype, shape, scale));
    if (has_mask) {
        const hd_ssa mask = hd_hlo_input(e, node, first + 3);
        x = mask.dtype == HD_BOOL ? hd_hlo_select(e, hd_hlo_broadcast(e, mask, shape), x, hidden)
                                  : hd_hlo_add(e, x, hd_hlo_broadcast(e, hd_hlo_cast(e, mask, x.dtype), shape));
    }
    if (causal) {
        const hd_ssa row = hd_hlo_iota(e, HD_I64, shape, shape->rank - 2),
                     column = hd_hlo_iota(e, HD_I64, shape, shape->rank - 1);
        x = hd_hlo_select(e, hd_hlo_compare(e, "LE", column, row), x, hidden);
    }
    in.scores = x;
    return in;
}

/* e^(scores - largest), where largest [front, t, 1] is -inf for rows that see nothing, whose exponentials are 0. */
static hd_ssa exponentials(hd_hlo *e, hd_ssa x, hd_ssa largest) {
    const hd_ssa top = hd_hlo_broadcast(e, largest, &x.shape), zero = hd_hlo_number(e, x.dtype, &x.shape, 0),
                 blind = hd_hlo_compare(e, "EQ", top, hd_hlo_number(e, x.dtype, &x.shape, -INFINITY));
    const hd_ssa above = hd_hlo_subtract(e, x, hd_hlo_select(e, blind, zero, top));
    const int type = x.dtype == HD_F64 ? HD_COMPUTE_F64 : HD_COMPUTE_F32;
    return hd_hlo_select(e, blind, zero, hd_hlo_word(e, HD_WORD_EXP, type, &above));
}

static hd_ssa over_keys(hd_hlo *e, const char *op, hd_ssa x) {
    bool last[HD_MAX_RANK] = {false};
    last[x.shape.rank - 1] = true;
    return hd_hlo_reduce(e, op, x, hd_hlo_identity(e, x.dtype, op), last, true);
}

/* Of each row of scores the largest, and 1 over the sum of exponentials, which are in *p: [front, t, 1] each. */
static void look_at_rows(hd_hlo *e, hd_ssa scores, hd_ssa rows[2], hd_ssa *p) {
    rows[0] = over_keys(e, "maximum", scores);
    *p = exponentials(e, scores, rows[0]);
    const hd_ssa sum = over_keys(e, "add", *p), zero = hd_hlo_number(e, sum.dtype, &sum.shape, 0),
                 one = hd_hlo_number(e, sum.dtype, &sum.shape, 1), empty = hd_hlo_compare(e, "EQ", sum, zero);
    rows[1] = hd_hlo_select(e, empty, zero, hd_hlo_divide(e, one, hd_hlo_select(e, empty, one, sum)));
}

hd_ssa hd_hlo_emit_attention(hd_hlo *e, uint32_t node) {
    const hd_attention_attributes *a = hd_node_attributes(e->g, node);
    const attended in = read_scores(e, node, 0, e->g->nodes[node].input_count > 3, a->causal, a->scale);
    hd_ssa rows[2], p;
    look_at_rows(e, in.scores, rows, &p);
    e->seconds[node] = hd_hlo_concat(e, rows, 2, p.shape.rank - 1);
    const hd_ssa weights = hd_hlo_multiply(e, p, hd_hlo_broadcast(e, rows[1], &p.shape));
    return hd_hlo_cast(e, product(e, weights, in.v, false, false, &in.front, in.exact),
                       (hd_dtype)e->g->nodes[node].dtype);
}

/* The statistics that the forward call kept, the last input, taken apart. */
static void read_rows(hd_hlo *e, uint32_t node, hd_ssa rows[2]) {
    const hd_ssa both = operand(e, node, e->g->nodes[node].input_count - 1);
    const int last = both.shape.rank - 1;
    int64_t start[HD_MAX_RANK] = {0}, count[HD_MAX_RANK], step[HD_MAX_RANK];
    for (int i = 0; i <= last; ++i) {
        count[i] = i == last ? 1 : both.shape.size[i];
        step[i] = 1;
    }
    for (int i = 0; i < 2; ++i) {
        start[last] = i;
        rows[i] = hd_hlo_slice(e, both, start, count, step);
    }
}

hd_ssa hd_hlo_emit_attention_gradient(hd_hlo *e, uint32_t node) {
    const hd_attention_gradient_attributes *a = hd_node_attributes(e->g, node);
    const bool has_mask = e->g->nodes[node].input_count - a->statistics > 4;
    const attended in = read_scores(e, node, 1, has_mask, a->causal, a->scale);
    hd_ssa rows[2], p;
    if (a->statistics) {
        read_rows(e, node, rows);
        p = exponentials(e, in.scores, rows[0]);
    } else {
        look_at_rows(e, in.scores, rows, &p);
    }
    p = hd_hlo_multiply(e, p, hd_hlo_broadcast(e, rows[1], &p.shape));
    const hd_ssa gradient = operand(e, node, 0);
    hd_ssa d = product(e, gradient, in.v, false, true, &in.front, in.exact);
    const hd_ssa level = hd_hlo_broadcast(e, over_keys(e, "add", hd_hlo_multiply(e, d, p)), &d.shape);
    d = hd_hlo_multiply(e, p, hd_hlo_subtract(e, d, level));
    d = hd_hlo_multiply(e, d, hd_hlo_number(e, d.dtype, &d.shape, a->scale));
    hd_ssa parts[3] = {product(e, d, in.k, false, false, &in.front, in.exact),
                       product(e, d, in.q, true, false, &in.front, in.exact),
                       product(e, p, gradient, true, false, &in.front, in.exact)};
    for (int i = 0; i < 3; ++i) {
        const hd_shape flat = hd_hlo_flat(&parts[i].shape);
        parts[i] = hd_hlo_reshape(e, parts[i], &flat);
    }
    return hd_hlo_cast(e, hd_hlo_concat(e, parts, 3, 0), (hd_dtype)e->g->nodes[node].dtype);
}
