/* Values that are recomputed wherever a kernel reads them, and in memory only when something else does: random
 * draws, as an element of a draw follows from its position alone, and what is cheaply made of them and of numbers,
 * such as the mask of a dropout. For an uniform draw that is some two instructions an element, less than it takes to
 * write it and to read it again; a normal one is dearer, so that it is drawn in a kernel when that kernel alone
 * reads it. */
#include "fuse/fuse.h"
#include "kernel/kernel.h"

#include <string.h>

/* What draws cost. */
static const uint8_t cost_of_draw[] = {[HD_LOWER_UNIFORM] = HD_COST_BITS,
                                       [HD_LOWER_NORMAL] = HD_COST_NORMAL,
                                       [HD_LOWER_RANDINT] = HD_COST_BITS + 8}; /* words that make a number of bits */

bool hd_node_is_draw(const hd_graph *g, uint32_t node) {
    const int64_t most = (int64_t)1 << 53; /* numbers of kernels, places among them, come from f64 */
    if (!hd_lower_is_draw(hd_node_lowers(g, node))) return false;
    if (hd_shape_count(hd_node_shape(g, node)) > most) return false;
    if (hd_node_lowers(g, node) != HD_LOWER_RANDINT) return true;
    const hd_random_attributes *a = hd_node_attributes(g, node); /* its width: products of 64 bits hold it */
    return (uint64_t)a->high - (uint64_t)a->low < (uint64_t)1 << 32 && a->low > -most && a->low < most;
}

bool hd_layout_of_value(const hd_graph *g, uint32_t node, hd_layout *out) {
    if (!hd_node_is_view(g, node)) {
        const hd_shape shape = hd_node_shape(g, node);
        hd_layout_contiguous(out, &shape);
        return true;
    }
    hd_layout from;
    const int op = g->nodes[node].op;
    return op != HD_OP_bitcast && op != HD_OP_as_strided && hd_layout_of_value(g, hd_node_inputs(g, node)[0], &from) &&
           hd_view_layout((hd_op_id)op, hd_node_attributes(g, node), &from, out);
}

/* What a row of one word costs, and a cast; 0: it is another, which is not worth asking. */
static int cost_of_row(const hd_graph *g, uint32_t node) {
    const hd_node *n = &g->nodes[node];
    if (hd_node_lowers(g, node) == HD_LOWER_CAST) return HD_COST_CAST;
    if (hd_node_lowers(g, node) != HD_LOWER_ROW || n->derivative > 0) return 0;
    switch (n->op) {
    case HD_OP_add: return hd_words[HD_WORD_ADD].cost;
    case HD_OP_sub: return hd_words[HD_WORD_SUB].cost;
    case HD_OP_mul: return hd_words[HD_WORD_MUL].cost;
    case HD_OP_neg: return hd_words[HD_WORD_NEG].cost;
    case HD_OP_where: return hd_words[HD_WORD_SELECT].cost;
    default: return hd_rows[n->op].gives_bool ? hd_words[HD_WORD_LT].cost : 0;
    }
}

/* What a value costs that is made of cheap draws, of its own shape, and of numbers; 0: it is none. */
static int cost_of_map(const hd_graph *g, const hd_fusion *f, uint32_t node) {
    const hd_shape shape = hd_node_shape(g, node);
    int all = hd_node_is_map(g, node) ? cost_of_row(g, node) : 0;
    bool draws = false;
    for (int k = 0; all > 0 && k < g->nodes[node].input_count; ++k) {
        uint32_t in = hd_node_inputs(g, node)[k];
        if (f->number[in]) continue;
        while (g->nodes[in].op == HD_OP_detach) in = hd_node_inputs(g, in)[0];
        if (f->recompute[in] == 0 || f->recompute[in] > f->machine->target.cheap ||
            !hd_shape_equal(hd_node_shape(g, in), shape))
            return 0;
        all += f->recompute[in];
        draws = true;
    }
    return draws && all <= f->machine->target.cheap ? all : 0;
}

void hd_fusion_find_recompute(const hd_graph *g, hd_fusion *f, uint32_t node) {
    f->recompute[node] = 0;
    if (f->level > HD_O0 && hd_node_is_op(&g->nodes[node]))
        f->recompute[node] =
            hd_node_is_draw(g, node) ? cost_of_draw[hd_node_lowers(g, node)] : (uint8_t)cost_of_map(g, f, node);
}

/* Each element at most once, and neighbours in one go. */
static bool reads_in_order(const hd_graph *g, uint32_t node, uint32_t in, uint32_t source) {
    hd_layout layout;
    if (hd_node_count(g, node) > hd_node_count(g, source) || hd_node_count(g, in) > hd_node_count(g, source) ||
        !hd_layout_of_value(g, in, &layout))
        return false;
    int last = layout.shape.rank - 1;
    while (last >= 0 && layout.shape.size[last] == 1) --last;
    return last < 0 || layout.stride[last] == 1;
}

bool hd_fusion_can_recompute(const hd_graph *g, const hd_fusion *f, uint32_t node, int k) {
    const uint32_t in = hd_node_inputs(g, node)[k], source = f->source[in];
    const hd_node *n = &g->nodes[node];
    return f->recompute[source] > 0 && hd_node_is_op(n) &&
           (hd_node_is_map(g, node) || hd_lower_is_reduction(hd_node_lowers(g, node))) &&
           reads_in_order(g, node, in, source);
}

bool hd_fusion_is_dear(const hd_fusion *f, uint32_t node) { return f->recompute[node] > f->machine->target.cheap; }
