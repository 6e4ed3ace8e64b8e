/* Products on the CPU: in tiles, while they are in cache, with what follows them; or as calls. */
#include "machine/cpu.h"

#include <string.h>

/* The third operand of a product. */
static uint32_t bias_of(const hd_plan *p, uint32_t product) {
    return p->graph->nodes[product].input_count > 2 ? hd_node_inputs(p->graph, product)[2] : HD_NONE;
}

/* ---- products that need no kernel of their own ------------------------------------------------------------------- */
/* What follows a product when it is rows one upon the other, the last alone in memory, each of it alone or of it and a
 * value that lies as the result does, or as one row of it: the device's own kernels do that in its tiles, and nothing
 * is compiled. */
typedef struct tile_steps {
    int count;
    hd_product_step steps[HD_PRODUCT_STEPS];
    uint32_t others[HD_PRODUCT_STEPS]; /* the other operand of each; HD_NONE */
} tile_steps;

/* True when a value lies as the result of the product does, row behind row; or as one row of it. */
static bool lies_alike(const hd_plan *p, uint32_t product, uint32_t other, int64_t *row) {
    const hd_tensor *t = &p->tensors[other], *result = &p->tensors[product];
    const int last = result->layout.shape.rank - 1;
    *row = 0;
    if (!t->contiguous || t->dtype != result->dtype || t->dtype != hd_cpu_product_dtype((hd_dtype)t->dtype))
        return false;
    if (hd_lower_is_matrix_product(hd_node_lowers(p->graph, product)) && t->layout.shape.rank > 0 &&
        t->count == result->layout.shape.size[last] && t->layout.shape.size[t->layout.shape.rank - 1] == t->count)
        return true;
    *row = hd_cpu_product_plain(hd_node_op(&p->graph->nodes[product]), &result->layout.shape, HD_F32).columns;
    return hd_shape_equal(t->layout.shape, result->layout.shape);
}

/* Member `node` as a step behind member `before`; false: it is none. */
static hd_error add_step(hd_plan_draft *d, uint32_t product, uint32_t before, uint32_t node, tile_steps *s,
                         bool *is_step) {
    const hd_plan *p = d->plan;
    const hd_graph *g = p->graph;
    const hd_node *n = &g->nodes[node];
    const uint32_t *in = hd_node_inputs(g, node);
    const hd_dtype dtype = (hd_dtype)g->nodes[product].dtype, tile = hd_cpu_product_dtype(dtype);
    *is_step = hd_node_lowers(g, node) == HD_LOWER_ROW && n->derivative == 0 && n->input_count <= 2 &&
               !hd_rows[n->op].gives_bool && n->dtype == dtype && n->compute == dtype && !p->fusion.stored[before];
    const int own = n->input_count == 2 && in[1] == before ? 1 : 0;
    if (!*is_step || in[own] != before) return *is_step = false, HD_OK;
    hd_product_step *step = &s->steps[s->count];
    *step = (hd_product_step){.op = n->op, .is_second = own == 1};
    s->others[s->count] = HD_NONE;
    if (n->input_count == 2) {
        const uint32_t other = in[1 - own], source = p->fusion.source[other];
        *is_step = other != before && !p->fusion.number[other] && p->buffer_of[source] != HD_NONE;
        if (!*is_step) return HD_OK;
        HD_TRY(hd_draft_need(d, other));
        *is_step = lies_alike(p, product, other, &step->other_row);
        s->others[s->count] = other;
    }
    const double *numbers = hd_node_attributes(g, node);
    for (int k = 0; k < hd_rows[n->op].numbers; ++k)
        hd_element_from_f64((char *)step->numbers + (size_t)k * hd_dtype_bytes[tile], tile, numbers[k]);
    s->count++;
    return HD_OK;
}

/* *is_simple: all that follows the product is in `s`. */
static hd_error find_steps(hd_plan_draft *d, const hd_group *group, tile_steps *s, bool *is_simple) {
    const hd_plan *p = d->plan;
    const uint32_t *members = p->fusion.members + group->first;
    const hd_dtype dtype = (hd_dtype)p->graph->nodes[members[0]].dtype, tile = hd_cpu_product_dtype(dtype);
    s->count = 0;
    *is_simple = hd_dtype_compute[dtype] == hd_dtype_compute[tile] && /* rows of narrow integers compute with those */
                 group->count <= HD_PRODUCT_STEPS + 1 && hd_draft_product_of(d, group) == members[0];
    for (uint32_t i = 0; *is_simple && i + 1 < group->count; ++i)
        HD_TRY(add_step(d, members[0], members[i], members[i + 1], s, is_simple));
    return HD_OK;
}

static hd_error plan_in_tiles(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group) {
    const hd_plan *p = d->plan;
    const uint32_t *members = p->fusion.members + group->first;
    const hd_node *n = &p->graph->nodes[members[0]];
    const uint32_t *inputs = hd_node_inputs(p->graph, members[0]);
    tile_steps s;
    bool is_simple;
    HD_TRY(find_steps(d, group, &s, &is_simple));
    if (!is_simple) return hd_draft_kernel(d, lowering, group);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(hd_draft_need(d, inputs[k]));
    if (n->input_count > 2 && !hd_cpu_adds_bias(&p->tensors[inputs[2]], (hd_dtype)n->dtype))
        return hd_draft_kernel(d, lowering, group);
    uint32_t prologue;
    HD_TRY(hd_draft_prologue(d, lowering, group, &prologue));
    hd_launch *l = hd_draft_launch(d, HD_RUN_PRODUCT, members[0]);
    hd_plan_call *call = l == NULL ? NULL : hd_draft_call_of(d, members[0], l);
    if (call == NULL) return HD_ERROR_INTERNAL;
    call->prologue = prologue;
    hd_cpu_product_plan *c = &hd_cpu_plan_of(p)->products[l->call];
    const bool adds_row = s.count > 0 && s.steps[0].op == HD_OP_add && s.others[0] != HD_NONE && /* that is a bias */
                          s.steps[0].other_row == 0 && n->input_count == 2 &&
                          hd_cpu_adds_bias(&p->tensors[s.others[0]], (hd_dtype)n->dtype);
    c->bias = adds_row ? s.others[0] : bias_of(p, members[0]);
    c->step_count = s.count - adds_row;
    memcpy(c->steps, s.steps + adds_row, (size_t)c->step_count * sizeof *c->steps);
    memcpy(c->others, s.others + adds_row, (size_t)c->step_count * sizeof *c->others);
    for (int k = 0; k < n->input_count; ++k) HD_TRY(hd_draft_input(d, l, inputs[k]));
    for (int i = 0; i < s.count; ++i)
        if (s.others[i] != HD_NONE) HD_TRY(hd_draft_input(d, l, s.others[i]));
    if (prologue != HD_NONE) HD_TRY(hd_draft_inputs_of(d, l, prologue));
    return hd_draft_output(d, l, members[s.count]);
}

/* A product alone that threads do not share: what runs beside others, and takes no memory of its own. Larger ones are
 * calls. */
static bool is_small_product(const hd_plan *p, uint32_t node) {
    const hd_graph *g = p->graph;
    const hd_lower_kind kind = hd_node_lowers(g, node);
    if (!hd_lower_is_matrix_product(kind)) return false;
    const hd_matmul_attributes *given = kind == HD_LOWER_MATMUL ? hd_node_attributes(g, node) : NULL;
    const hd_shape x = hd_node_shape(g, hd_node_inputs(g, node)[0]);
    const int64_t k = x.size[given != NULL && given->transpose_a ? x.rank - 2 : x.rank - 1];
    int64_t work;
    return !__builtin_mul_overflow(hd_shape_count(hd_node_shape(g, node)), k, &work) && work < HD_PRODUCT_SHARED;
}

/* A product alone, whose result is in memory: with its second operand packed, or as a call. */
static hd_error plan_alone(hd_plan_draft *d, uint32_t node, hd_launch_kind kind) {
    hd_plan *p = d->plan;
    const uint32_t calls = p->call_count;
    HD_TRY(hd_draft_call(d, node, kind));
    if (p->call_count > calls) hd_cpu_plan_of(p)->products[calls].bias = bias_of(p, node);
    return HD_OK;
}

hd_error hd_cpu_plan_product(hd_plan_draft *d, hd_lowering *lowering, const hd_group *group) {
    const hd_plan *p = d->plan;
    const uint32_t first = p->fusion.members[group->first];
    const bool alone = group->count == 1 && group->prologue == HD_NO_GROUP;
    return alone && hd_cpu_keeps_weight(p, first) ? plan_alone(d, first, HD_RUN_PRODUCT)
           : alone && !is_small_product(p, first) ? plan_alone(d, first, HD_RUN_CALL)
                                                  : plan_in_tiles(d, lowering, group);
}

/* ---- what plans ask ---------------------------------------------------------------------------------------------- */
hd_product hd_cpu_product_of(const hd_plan *p, const hd_launch *l) {
    const hd_cpu_product_plan *c = &hd_cpu_plan_of(p)->products[l->call];
    return (hd_product){.call = &p->calls[l->call].call,
                        .config = c->config,
                        .packed = c->weight != HD_NONE ? p : NULL,
                        .prologue = p->calls[l->call].prologue != HD_NONE ? hd_cpu_compute_rows : NULL};
}

bool hd_cpu_product_can_fail(const hd_plan *p, const hd_launch *l) {
    if (p->calls[l->call].call.op->lower == HD_LOWER_MATMUL) return false;
    const uint32_t *inputs = p->operands + l->first;
    const bool adds_bias = l->native != HD_NONE || p->graph->nodes[l->node].input_count < 3 ||
                           hd_cpu_adds_bias(&p->tensors[inputs[2]], (hd_dtype)p->tensors[l->node].dtype);
    return !p->tensors[inputs[0]].contiguous || !adds_bias; /* it takes memory for a copy */
}

/* Tile by tile the device's own kernels read the other operands, and then store. */
bool hd_cpu_product_may_overwrite(const hd_plan *p, const hd_launch *l, uint32_t in) {
    const hd_cpu_product_plan *c = &hd_cpu_plan_of(p)->products[l->call];
    for (int k = 0; k < p->graph->nodes[l->node].input_count; ++k)
        if (p->buffer_of[p->operands[l->first + (uint32_t)k]] == p->buffer_of[in]) return false;
    for (int i = 0; i < c->step_count; ++i)
        if (c->others[i] != HD_NONE && p->buffer_of[c->others[i]] == p->buffer_of[in] &&
            (c->steps[i].other_row == 0 || !hd_plan_is_whole(p, c->others[i])))
            return false;
    return true;
}
